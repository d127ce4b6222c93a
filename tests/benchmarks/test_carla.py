"""The comparison with CARLA on models small enough to measure by hand: measures, gaps, stored answers, weights."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

from benchmarks.carla.__main__ import parse_arguments
from benchmarks.carla.comparison import Bench, compare
from benchmarks.carla.feature_tweaks import list_trees, tweak_features
from benchmarks.carla.findings import flag_exchanged, lies_between_values
from benchmarks.carla.measures import AnswerMeasures, Judge, summarize
from benchmarks.carla.models import CarlaModel, build_forest, build_linear, build_network
from benchmarks.carla.optima import find_optima, measure_gaps
from benchmarks.carla.paper_figures import find_paper_figures
from benchmarks.carla.rules import HiddenModel, compare_rules
from benchmarks.carla.settings import Settings
from benchmarks.carla.stored_answers import exchange_columns, load_answers
from benchmarks.carla.systems import SYSTEMS, Absence, System, answer_rows
from benchmarks.carla.tables import format_table
from benchmarks.paper.journal import Journal
from benchmarks.proof_log import Log
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Run
from ironrule.oracles.registry import ORACLES
from ironrule.verdict.verdict import Unrefuted, Verdict


class BlindOracle:
    """Finds nothing."""

    capabilities = NO_CAPABILITIES

    def find(self, _query: BoxQuery, _run: Run) -> Verdict:
        """Never refutes."""
        return Unrefuted(tried=0, samples=0, confidence=0.0)


RNG = np.random.default_rng(3)


def build_model(weights: tuple[float, ...] = (1.0, 1.0, 0.5), start: float = -1.253) -> CarlaModel:
    """Desired where age + gain + sex / 2 is above 1.253, each in [0, 1]; age and sex must not change."""
    ages, gains, sexes = zip(*product(range(11), range(0, 101, 10), ("Female", "Male")), strict=True)
    table = pd.DataFrame({"age": ages, "gain": gains, "sex": sexes})
    parts = [("numbers", MinMaxScaler(), ["age", "gain"])]
    prepare = ColumnTransformer(
        [*parts, ("categories", OneHotEncoder(drop="if_binary", sparse_output=False), ["sex"])]
    ).fit(table)
    estimator = LogisticRegression().fit(np.array([np.zeros(3), np.ones(3)]), [0, 1])
    estimator.coef_, estimator.intercept_ = np.array([weights]), np.array([start])
    return CarlaModel(
        "adult", "linear", "tensorflow", Pipeline([("prepare", prepare), ("model", estimator)]), table, ("age", "sex")
    )


MODEL = build_model()
JUDGE = Judge(MODEL)
ROW = np.array([0.5, 0.2, 0.0])


def measure(*answer: float) -> AnswerMeasures:
    measured = JUDGE.measure(ROW, np.array(answer))
    assert measured is not None
    return measured


def test_columns_are_named_after_the_second_category() -> None:
    assert MODEL.columns == ["age", "gain", "sex_Male"]
    assert MODEL.features == ["age", "gain", "sex"]
    assert MODEL.decode_categories(np.array([0.5, 0.2, 1.0])) == ["Male"]


def test_an_answer_that_the_model_denies_is_none() -> None:
    assert JUDGE.measure(ROW, np.array([0.5, 0.7, 0.0])) is None
    assert JUDGE.measure(ROW, None) is None
    assert summarize([None, JUDGE.measure(ROW, np.array([0.5, 0.8, 0.0]))])["success"] == 0.5


@pytest.mark.parametrize(
    ("answer", "redundancy", "violations", "l0", "l1"),
    [
        ((0.5, 0.8, 0.0), 0, 0, 1, 0.6),
        ((0.5, 0.8, 1.0), 1, 1, 2, 1.6),  # without the other sex 1.3, without the gain 1.2
        ((1.0, 0.9, 1.0), 3, 2, 3, 2.2),  # without one of them 1.9, 1.7 and 1.9
        ((0.9, 0.4, 0.0), 0, 1, 2, 0.6),  # without one of them 0.9 and 1.1
    ],
)
def test_measures_of_an_answer(answer: tuple[float, ...], redundancy: int, violations: int, l0: int, l1: float) -> None:
    measured = measure(*answer)
    assert measured.redundancy == measured.redundancy_with_tolerance == redundancy
    assert measured.violations == violations
    assert measured.immutable_changed == violations
    assert measured.l0 == l0
    assert measured.l1 == pytest.approx(l1)


def test_rounding_is_a_redundant_change_unless_there_is_a_tolerance() -> None:
    rounded = measure(float(np.float32(0.5)) + 3e-8, 0.8, 0.0)
    assert (rounded.redundancy, rounded.redundancy_with_tolerance) == (1, 0)
    assert (rounded.l0, rounded.l0_with_tolerance) == (2, 1)
    assert (rounded.violations, rounded.changes) == (0, ("gain",))
    assert rounded.is_possible


def test_what_decoding_hides_is_counted_apart() -> None:
    """A column of 2 is read as the second category, so for a man it is no change of category."""
    man = np.array([0.2, 0.2, 1.0])
    measured = JUDGE.measure(man, np.array([0.2, 0.3, 2.0]))
    assert measured is not None
    assert (measured.violations, measured.immutable_changed, measured.out_of_range) == (0, 1, 1)
    assert not measured.is_possible


@pytest.mark.parametrize(
    ("answer", "outside"),
    [((0.5, 0.8, 0.0), 0), ((0.5, 1.2, 0.0), 1), ((-0.1, 1.0, 1.0), 1), ((0.9, 0.9, 0.5), 1), ((1.1, 1.1, 1.5), 3)],
)
def test_columns_outside_the_range_are_counted(answer: tuple[float, ...], outside: int) -> None:
    assert measure(*answer).out_of_range == outside


def test_ynn_is_the_share_of_the_nearest_rows_that_are_approved() -> None:
    """The five nearest of an inner point of the grid are itself and its four neighbours, two of which fall short."""
    assert JUDGE.measure_ynn(np.array([0.7, 0.6, 0.0])) == pytest.approx(3 / 5)
    assert JUDGE.measure_ynn(np.array([0.1, 0.1, 0.0])) == 0.0
    assert JUDGE.measure_ynn(np.array([0.9, 0.9, 1.0])) == 1.0


def test_gaps_are_taken_from_the_proven_optimum_and_over_possible_answers() -> None:
    row = int(np.flatnonzero((MODEL.encoded == ROW).all(axis=1))[0])
    optima = find_optima(MODEL, [row], 30.0, ("fewest", "l1", "l2"))
    assert optima[0]["fewest"] == 1.0
    assert optima[0]["l1"] == optima[0]["l2"] == pytest.approx(0.56)  # a gain of 76 of 100
    gaps = measure_gaps([measure(0.5, 0.96, 0.0), measure(0.9, 0.9, 0.0), None], optima * 3)
    assert (gaps["possible"], gaps["gap by fewest"], gaps["compared by l1"]) == (1, 0.0, 1)
    assert gaps["gap by l1"] == pytest.approx(0.2)


def test_every_possible_answer_changes_as_many_features_as_the_optimum_or_more() -> None:
    rows = MODEL.list_denied_rows(12)
    optima = find_optima(MODEL, rows, 30.0, ("fewest",))
    reachable = [
        bool(MODEL.approve(np.array([[MODEL.encoded[row][0], 1.0, MODEL.encoded[row][2]]]))[0]) for row in rows
    ]
    assert [optimum["fewest"] for optimum in optima] == [1.0 if one else None for one in reachable]
    assert {True, False} == set(reachable)


def write_layers(file: Path, sizes: tuple[int, ...], torch: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """Random weights in one of the two forms."""
    layers = [(RNG.normal(size=pair), RNG.normal(size=pair[1])) for pair in pairwise(sizes)]
    stored: dict[str, Any] = {}
    for place, (weights, bias) in enumerate(layers):
        if torch:
            stored |= {f"layers.{place}.weight": weights.T, f"layers.{place}.bias": bias}
        else:
            stored |= {f"dense_{place}|bias:0": bias, f"dense_{place}|kernel:0": weights}
    np.savez(file, **stored)
    return layers


@pytest.mark.parametrize("torch", [True, False])
def test_networks_decide_as_their_weights_say(torch: bool, tmp_path: Path) -> None:
    layers = write_layers(tmp_path / "weights.npz", (4, 18, 9, 3, 2), torch)
    points = RNG.random((200, 4))
    values = points
    for weights, bias in layers[:-1]:
        values = np.maximum(values @ weights + bias, 0.0)
    outputs = values @ layers[-1][0] + layers[-1][1]
    said = build_network(tmp_path / "weights.npz", 4).predict(points)
    assert (said == (outputs[:, 1] > outputs[:, 0])).all()


@pytest.mark.parametrize("torch", [True, False])
def test_logistic_regressions_decide_as_their_weights_say(torch: bool, tmp_path: Path) -> None:
    ((weights, bias),) = write_layers(tmp_path / "weights.npz", (4, 2), torch)
    points = RNG.normal(size=(200, 4))
    outputs = points @ weights + bias
    said = build_linear(tmp_path / "weights.npz", 4).predict(points)
    assert (said == (outputs[:, 1] > outputs[:, 0])).all()
    assert 0 < said.sum() < 200


def test_forests_decide_as_their_nodes_say(tmp_path: Path) -> None:
    trees = [(RNG.integers(0, 3, 3), RNG.random(3), RNG.integers(1, 50, (4, 2))) for _ in range(5)]
    stored: dict[str, Any] = {"n": 5}
    for place, ((first, low, high), thresholds, counts) in enumerate(trees):
        stored |= {
            f"l{place}": [1, 2, -1, -1, 5, -1, -1],
            f"r{place}": [4, 3, -1, -1, 6, -1, -1],
            f"f{place}": [first, low, -2, -2, high, -2, -2],
            f"t{place}": [thresholds[0], thresholds[1], -2.0, -2.0, thresholds[2], -2.0, -2.0],
            f"v{place}": np.insert(counts, [0, 0, 2], 1, axis=0).astype(float),
        }
    np.savez(tmp_path / "forest.npz", **stored)
    points, shares = RNG.random((300, 3)).astype(np.float32).astype(np.float64), []
    for features, thresholds, counts in trees:
        right = points[:, features[0]] > thresholds[0]
        deeper = np.where(right, points[:, features[2]] > thresholds[2], points[:, features[1]] > thresholds[1])
        reached = counts[2 * right + deeper]
        shares.append(reached[:, 1] / reached.sum(axis=1))
    said = build_forest(tmp_path / "forest.npz", 3).predict_proba(points)[:, 1]
    assert said == pytest.approx(np.mean(shares, axis=0))


def build_stumps(file: Path, stumps: list[tuple[int, float, float, float]]) -> CarlaModel:
    """A forest of stumps: feature, threshold, and the share of the desired class on either side."""
    stored: dict[str, Any] = {"n": len(stumps)}
    for place, (feature, threshold, low, high) in enumerate(stumps):
        stored |= {
            f"l{place}": [1, -1, -1],
            f"r{place}": [2, -1, -1],
            f"f{place}": [feature, -2, -2],
            f"t{place}": [threshold, -2.0, -2.0],
            f"v{place}": np.array([[1.0, 1.0], [1 - low, low], [1 - high, high]]),
        }
    np.savez(file, **stored)
    table = pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, 1.0]})
    prepare = ColumnTransformer([("numbers", MinMaxScaler(), ["a", "b"])]).fit(table)
    pipeline = Pipeline([("prepare", prepare), ("model", build_forest(file, 2))])
    return CarlaModel("made up", "forest", "sklearn", pipeline, table, ())


def test_a_tweak_is_epsilon_beyond_the_threshold_of_one_tree(tmp_path: Path) -> None:
    weak, strong = (0, 0.5, 0.45, 0.55), [(1, 0.7, 0.1, 0.9)] * 4
    model = build_stumps(tmp_path / "forest.npz", [weak, *strong])
    row, trees = np.array([0.3, 0.2]), list_trees(model)
    # The weak tree is satisfied by the nearer change, 0.6, but the others outvote it.
    assert tweak_features(model, trees, row) is None
    assert tweak_features(model, trees, row, asks_ensemble=True) == pytest.approx([0.3, 0.8])
    # A row that the weak tree approves already gets a change of the other feature at once.
    assert tweak_features(model, trees, np.array([0.9, 0.2])) == pytest.approx([0.9, 0.8])


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of answers about the first denied rows: one answer, none, and one that is denied."""
    place = tmp_path / "carla" / "answers"
    place.mkdir(parents=True)
    rows = MODEL.encoded[MODEL.list_denied_rows(3)]
    said = pd.DataFrame(rows, columns=MODEL.columns)
    said.loc[0] = [1.0, 1.0, 1.0]
    said.loc[1] = np.nan
    for name in ("gs", "HEAD_wachter"):
        pd.DataFrame(rows, columns=MODEL.columns).to_csv(place / f"{name}_adult_linear_tensorflow_f.csv", index=False)
        said.to_csv(place / f"{name}_adult_linear_tensorflow_cf.csv", index=False)
    report = {
        "method": "gs",
        "data": "adult",
        "model": "linear",
        "backend": "tensorflow",
        "n": 3,
        "cpu": 0.5,
        "setup": 2.0,
    }
    (place / "measures.jsonl").write_text(json.dumps({**report, "n": 9}) + "\n" + json.dumps(report) + "\n")
    monkeypatch.setenv("IRONRULE_DATA", str(tmp_path))
    return place


@pytest.mark.usefixtures("stored")
def test_stored_answers_come_with_their_version_and_report() -> None:
    last, release = load_answers(MODEL)
    assert (last.method, last.version, last.reported) == ("wachter", "last commit", {})
    assert (release.method, release.version, release.reported["cpu"]) == ("gs", "0.0.5", 0.5)
    assert release.answers[1] is None
    measured = [Judge(MODEL).measure(*pair) for pair in zip(release.rows, release.answers, strict=True)]
    assert [one is not None for one in measured] == [True, False, False]


@pytest.mark.usefixtures("stored")
def test_a_table_has_a_line_for_the_paper_for_carla_and_for_ours() -> None:
    lines = compare(MODEL, Settings(rows=3, seeds=2, budget=30.0, only="growing"))
    assert [line["who"] for line in lines] == ["paper", "CARLA 0.0.5", "ours"]
    paper, carla, ours = lines
    assert paper["redundancy"] == find_paper_figures("adult", "linear", "tensorflow")["GS"].redundancy
    assert (carla["rows"], carla["success"], carla["CPU s"]) == (3, pytest.approx(1 / 3), 0.5)
    assert (ours["rows"], ours["seeds"], ours["answers"]) == (3, 2, 6)
    assert ours["CPU beside CARLA's"] == pytest.approx(ours["CPU s"] / 0.5)
    shown = format_table(lines).splitlines()
    assert shown[0].startswith("| system | success: paper / CARLA / ours | ")
    assert shown[2].startswith(f"| growing_spheres | 1 / 0.33 / {ours['success']:.2g} | 3.37 / ")
    assert len({line.count(" | ") for line in (shown[0], shown[2])}) == 1


def test_tables_tell_other_packages_apart_and_name_what_was_left_out() -> None:
    lines = [
        {"system": "focus", "who": "CARLA 0.0.5", "success": 0.67, "possible": 34},
        {"system": "focus", "who": "CARLA 0.0.5, columns put right", "success": 0.66},
        {"system": "focus", "who": "ours", "note": "not in the registry"},
        {"system": "exact", "who": "treecf 0.3.2", "success": 1.0},
    ]
    shown = format_table(lines)
    assert "| focus | - / 0.67 / - |" in shown
    assert "| 34 / - |" in shown
    assert "| focus, CARLA 0.0.5, columns put right | 0.66 |" in shown
    assert "| exact, treecf 0.3.2 | 1 |" in shown
    assert shown.endswith("Left out: focus, not in the registry.")


def test_rows_other_than_those_that_carla_explained_are_refused(stored: Path) -> None:
    file = stored / "gs_adult_linear_tensorflow_f.csv"
    pd.read_csv(file).iloc[::-1].to_csv(file, index=False)
    with pytest.raises(SystemExit, match="must be the first"):
        compare(MODEL, Settings(rows=3, seeds=1, budget=30.0, only="growing"))


def test_a_system_that_is_not_there_or_has_no_use_for_a_model_says_so() -> None:
    rows = MODEL.list_denied_rows(1)
    absent = answer_rows(MODEL, System("nobody's"), rows, 0, Settings(rows=1, seeds=1, budget=30.0))
    assert isinstance(absent, Absence)
    assert absent.reason == "not in the registry"


def test_our_answers_keep_what_is_immutable() -> None:
    bench = Bench.prepare(MODEL, Settings(rows=5, seeds=1, budget=30.0))
    for name in ("exact", "growing_spheres"):
        system = next(one for one in SYSTEMS if one.name == name)
        answers = answer_rows(MODEL, system, bench.rows, 0, Settings(rows=5, seeds=1, budget=30.0))
        assert not isinstance(answers, Absence)
        measured = bench.measure(answers.answers)
        known = [optimum["fewest"] is not None for optimum in bench.optima]
        assert [one is not None for one in measured] == known
        assert all(one.is_possible for one in measured if one is not None)


def test_without_a_section_the_table_is_run() -> None:
    given, settings = parse_arguments(["--quick", "--treecf-python", "somewhere"])
    assert (given.sections, settings.rows, settings.seeds) == (["table"], 3, 1)
    assert settings.peers == {"treecf": "somewhere"}
    given, settings = parse_arguments(["rules", "findings", "--rows", "7"])
    assert (given.sections, settings.rows, settings.seeds, settings.peers) == (["rules", "findings"], 7, 5, {})


def test_names_of_systems_differ() -> None:
    for names in ([one.name for one in SYSTEMS], [one.carla for one in SYSTEMS if one.carla]):
        assert len(set(names)) == len(names)


def test_every_line_of_the_paper_belongs_to_a_system() -> None:
    known = {system.paper for system in SYSTEMS}
    tables = [("ann", "tensorflow"), ("linear", "pytorch"), ("forest", "sklearn"), ("forest", "xgboost")]
    for kind, backend in tables:
        assert set(find_paper_figures("adult", kind, backend)) <= known
    assert find_paper_figures("heloc", "ann", "tensorflow") == {}


def test_exchanged_columns_are_noticed_and_put_back() -> None:
    table = pd.DataFrame(RNG.random((20, 3)), columns=["age", "capital-loss", "hours-per-week"])
    prepare = ColumnTransformer([("numbers", MinMaxScaler(), list(table))]).fit(table)
    model = CarlaModel("adult", "forest", "sklearn", Pipeline([("prepare", prepare)]), table, ("age",))
    row = np.array([0.5, 0.1, 0.4])
    said = [np.array([0.6, 0.4, 0.1]), np.array([0.6, 0.1, 0.5])]
    assert flag_exchanged(model, [(row, one) for one in said]) == [True, False]


def test_thresholds_between_values_are_told_from_others() -> None:
    column = np.array([0.0, 0.5, 1.0, 0.5])
    assert lies_between_values(0.25, column)
    assert not lies_between_values(0.5, column)
    assert not lies_between_values(0.3, column)


@pytest.mark.usefixtures("stored")
def test_columns_are_exchanged_in_answers_alone() -> None:
    _, answers = load_answers(MODEL)
    exchanged = exchange_columns(answers, MODEL.columns, "age", "gain")
    assert (exchanged.rows == answers.rows).all()
    assert exchanged.answers[1] is None
    for before, after in zip(answers.answers, exchanged.answers, strict=True):
        assert (before is None and after is None) or (before[[1, 0, 2]] == after).all()


def test_a_run_goes_on_from_its_log_and_asks_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(rows: int, limit: float | None = None) -> Settings:
        journal = Journal(Log(tmp_path / "log.jsonl"))
        return Settings(rows=rows, seeds=2, budget=30.0, only="growing", limit=limit, journal=journal)

    monkeypatch.setattr("benchmarks.carla.comparison.load_answers", lambda _: [])
    first = compare(MODEL, start(2))
    (hurried,) = [line for line in compare(MODEL, start(4, limit=0.0)) if line["who"] == "ours"]
    assert (hurried["rows"], hurried["seeds"], hurried["answers"]) == (2, 2, 4)  # what was known, and nothing more
    longer = compare(MODEL, start(4))
    assert [line["answers"] for line in (first[-1], longer[-1])] == [4, 8]
    monkeypatch.setattr("benchmarks.carla.systems.timed", None)  # any question would fail
    assert compare(MODEL, start(4)) == longer


def test_a_hidden_model_prepares_columns_as_the_pipeline_does() -> None:
    hidden = HiddenModel.build(MODEL)
    assert np.array_equal(hidden.encode(MODEL.table), MODEL.encoded)
    assert np.array_equal(hidden.predict(MODEL.table), MODEL.pipeline.predict(MODEL.table))
    assert np.array_equal(hidden.predict_proba(MODEL.table), MODEL.pipeline.predict_proba(MODEL.table))
    other = replace(MODEL)
    object.__setattr__(other, "encoded", MODEL.encoded + 1e-16 + 1e-12)
    with pytest.raises(SystemExit, match="prepared as the pipeline"):
        HiddenModel.build(other)


def test_rules_are_judged_by_proof() -> None:
    settings = Settings(rows=3, seeds=1, budget=30.0, only="exact")
    (line,) = compare_rules(MODEL, settings)
    assert (line["rows"], line["hold"], line["have an exception"], line["no rule"]) == (3, 3, 0, 0)


def test_a_rule_that_an_oracle_could_not_refute_may_have_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that finds nothing lets the shortest candidate pass."""
    monkeypatch.setitem(ORACLES, "blind", BlindOracle)
    monkeypatch.setattr("benchmarks.carla.rules.SYSTEMS", (System("blind"), System("nobody's")))
    denied = ~MODEL.approve(MODEL.encoded)
    denied[-1] = True  # one row that is approved, so that the past rules out little
    unseen = replace(MODEL, table=MODEL.table[denied].reset_index(drop=True))
    line, absent = compare_rules(unseen, Settings(rows=3, seeds=1, budget=30.0))
    assert (line["hold"], line["minimum"], line["have an exception"], line["not decided"]) == (0, 0, 3, 0)
    assert absent["note"] == "not in the registry"
