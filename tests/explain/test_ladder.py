"""Ladders: every count equals that of the table itself, bounds hold for the population, nothing bounded is proven."""

from __future__ import annotations

import itertools
import json
import math
import pickle
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import ironrule
from ironrule.cli import render as cli
from ironrule.errors import InputError, TableError
from ironrule.explain.ladder import RungBuilder
from ironrule.explain.measured_rows import build_population, find_population
from ironrule.results.ladder import Ladder
from ironrule.verdict.bounded import Bounded
from ironrule.verdict.verdict import Proven, Unrefuted


def make_table(rows: int, seed: int) -> pd.DataFrame:
    values = np.random.default_rng(seed).integers(0, 20, (rows, 6))
    return pd.DataFrame(values, columns=["income", "savings", "age", "debts", "rent", "job"]).astype({"income": float})


@pytest.fixture(scope="module")
def trained():
    table = make_table(900, 0)
    score = table.income + table.savings + table.age - table.debts + (table.rent - table.job) ** 2 / 9
    return GradientBoostingClassifier(n_estimators=40, random_state=0).fit(table, score > 33)


@pytest.fixture(scope="module")
def explainer(trained):
    return ironrule.Explainer(trained, make_table(800, 2), desired=True)


@pytest.fixture(scope="module")
def denied(explainer):
    """Denied rows whose rules have at least three components."""
    rows = [int(row) for row in explainer.row_numbers[~explainer.outcomes][:60]]
    long = [row for row in rows if explainer.explain(row).cardinality >= 3][:12]
    assert len(long) == 12
    return long


def test_counts_are_those_of_the_table(explainer, trained, denied):
    table = make_table(800, 2)
    desired = trained.predict(table)
    population = find_population(explainer._context)
    for row in denied[:6]:
        ladder = explainer.ladder(row, nested=row % 2 == 0)
        measured = ~population.is_searched
        measured[row] = False  # the row itself, to which no other is equal
        for rung in ladder:
            covered = rung.rule.covers(table)
            assert covered[row]
            assert rung.coverage == covered.sum()
            assert (rung.searched.rows, rung.searched.exceptions) == (
                (covered & population.is_searched).sum(),
                (covered & population.is_searched & desired).sum(),
            )
            assert rung.measured.rows == (covered & measured).sum()
            assert rung.measured.exceptions == (covered & measured & desired).sum()


def test_every_rung_but_the_last_is_bounded_and_the_last_is_the_proof(explainer, denied):
    for row in denied:
        ladder = explainer.ladder(row, most=3)
        assert all(isinstance(rung.verdict, Bounded) for rung in ladder[:-1])
        assert isinstance(ladder.last.verdict, Proven)
        assert ladder.last.measured.exceptions == 0 == ladder.last.searched.exceptions
        assert ladder.explanation.minimum
        lengths = [rung.cardinality for rung in ladder]
        assert lengths[:-1] == list(range(1, len(lengths)))
        assert all(rung.verdict.shared_by == 3 for rung in ladder[:-1])


def test_a_proven_rule_that_is_short_enough_gets_no_shorter_rungs(explainer, denied):
    whole = explainer.ladder(denied[0])
    length = whole.last.cardinality
    alone = explainer.ladder(denied[0], short_enough=length)
    assert [rung.rule for rung in alone] == [whole.last.rule]
    assert len(explainer.ladder(denied[0], short_enough=length - 1)) == len(whole)
    assert Ladder.from_json(alone.to_json()).short.rule == whole.last.rule
    with pytest.raises(InputError, match="short_enough must be a non-negative integer"):
        explainer.ladder(denied[0], short_enough=-1)


def test_nested_rungs_cover_less_and_less(explainer, denied):
    table = make_table(800, 2)
    for row in denied:
        covered = [rung.rule.covers(table) for rung in explainer.ladder(row)]
        for wider, narrower in itertools.pairwise(covered):
            assert not (narrower & ~wider).any()


def test_measured_rows_do_not_change_the_rules(trained, denied):
    """The rungs are those of a history in which the measured rows are others, as long as the domains are the same."""
    table = make_table(800, 2)
    flags = np.random.default_rng(0).random(800) < 0.5
    flags[denied[0]] = False
    other = table.copy()
    other.loc[flags] = table[~flags].iloc[np.arange(flags.sum()) % (~flags).sum()].to_numpy()
    space = ironrule.Space.infer(table)
    ladders = [
        ironrule.Explainer(trained, data, desired=True, measure=flags, space=space).ladder(denied[0])
        for data in (table, other)
    ]
    assert [rung.rule for rung in ladders[0]] == [rung.rule for rung in ladders[1]]
    assert [rung.searched for rung in ladders[0]] == [rung.searched for rung in ladders[1]]


def test_fresh_rows_of_a_table_are_measured_on(trained, denied):
    table, fresh = make_table(800, 2), make_table(500, 3)
    fresh.loc[0, "income"] = 3.25  # a value that no past row has
    explainer = ironrule.Explainer(trained, table, desired=True, measure=fresh)
    ladder = explainer.ladder(denied[0])
    desired = trained.predict(fresh)
    assert ladder.measured_from == "table"
    assert ladder.searched_rows == 800
    for rung in ladder:
        covered = rung.rule.covers(fresh)
        assert rung.measured.rows == covered.sum()
        assert rung.measured.exceptions == (covered & desired).sum()
        assert rung.coverage == rung.rule.covers(table).sum()


def test_a_row_with_unseen_values_has_a_ladder(explainer, denied):
    row = make_table(800, 2).iloc[denied[0]].to_dict() | {"income": 0.25, "age": -3}
    assert not explainer.is_desired(row)
    ladder = explainer.ladder(row)
    assert all(rung.rule.covers(pd.DataFrame([row]))[0] for rung in ladder)
    assert isinstance(ladder.last.verdict, Proven)


def test_a_black_box_has_a_ladder_too(trained, denied):
    explainer = ironrule.Explainer(lambda table: trained.predict(table), make_table(800, 2), desired=True)
    ladder = explainer.ladder(denied[0], budget=ironrule.Budget(evaluations=20_000))
    assert all(isinstance(rung.verdict, Bounded) for rung in ladder[:-1])
    assert isinstance(ladder.last.verdict, Proven | Unrefuted)


@pytest.mark.parametrize("critical_value", [0.0, 1.6, -0.5])
def test_a_rule_that_covers_no_row_is_worth_nothing(critical_value):
    builder = RungBuilder(
        case=None, components={}, outcome="", columns=(), outcomes=np.zeros(0, dtype=bool),
        critical_value=critical_value, scale=0.5,
    )  # fmt: skip
    assert builder._score([0, 0], [0, 40]).tolist()[0] == 1.0
    assert builder._score([0, 0], [0, 40]).tolist()[1] < 0.2


def wilson(exceptions: int, rows: int, z: float) -> float:
    if not rows:
        return 1.0
    share = exceptions / rows
    spread = abs(z) * math.sqrt(share * (1 - share) / rows + z * z / (4 * rows * rows))
    return (share + z * z / (2 * rows) + spread) / (1 + z * z / rows)


@pytest.mark.parametrize("nested", [True, False])
def test_the_best_rung_of_a_length_does_as_well_as_all_rules_with_narrow_bounds(explainer, trained, denied, nested):
    table = make_table(800, 2)
    desired, is_searched = trained.predict(table), find_population(explainer._context).is_searched
    z = NormalDist().inv_cdf(1 - 0.05 / 3)
    for row in denied[:4]:
        ladder = explainer.ladder(row, most=3, nested=nested)
        scale = ladder.measured_rows / ladder.searched_rows
        narrow = [(one.feature, one.op, one.value) for one in ladder.last.rule.components]
        if not nested:
            narrow = [(name, op, table.loc[row, name]) for name in table.columns for op in ("<=", ">=")]
        covered = [(table[name] <= value if op == "<=" else table[name] >= value) for name, op, value in narrow]
        bits = [np.asarray(one & is_searched) for one in covered]
        best = [rung for rung in ladder[:-1] if rung.is_best]
        assert best
        for rung in best:
            own = wilson(rung.searched.exceptions * scale, rung.searched.rows * scale, z)
            for chosen in itertools.combinations(bits, rung.cardinality):
                together = np.logical_and.reduce(chosen)
                assert own <= wilson((together & desired).sum() * scale, together.sum() * scale, z) + 1e-9


def test_at_least_names_the_shortest_rung_that_is_good_enough(explainer, denied):
    for row in denied:
        ladder = explainer.ladder(row, at_least=0.9)
        good = [rung for rung in ladder if rung.exception_bound <= 0.1]
        assert ladder.short is good[0]
        assert ladder.find_rung(0.9999999) in (None, ladder.last)


def test_measured_rows_of_a_function_may_all_be_denied(trained):
    past, fresh = make_table(300, 2), make_table(300, 5)
    refused = fresh[~trained.predict(fresh)].reset_index(drop=True)
    explainer = ironrule.Explainer(lambda rows: trained.predict(rows), past, desired=True, measure=refused)
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    ladder = explainer.ladder(row, most=2, budget=ironrule.Budget(evaluations=2000))
    assert ladder.measured_rows == len(refused)
    assert all(rung.measured.exceptions == 0 for rung in ladder)


def test_rows_that_the_search_looks_at_are_not_measured_on(trained):
    past, fresh = make_table(300, 2), make_table(300, 5)
    row = {"income": 3.0, "savings": 2, "age": 5, "debts": 15, "rent": 9, "job": 9}
    for mixed in (past, pd.concat([fresh, past.iloc[:40]])):
        with pytest.raises(InputError, match="that are in the data, too"):
            ironrule.Explainer(trained, past, desired=True, measure=mixed).ladder(row)
    assert ironrule.Explainer(trained, past, desired=True, measure=fresh).ladder(row).measured_rows == 300


def test_different_people_may_have_equal_values():
    few = make_table(400, 2)[["income", "savings", "age"]] // 5  # 64 kinds of people
    model = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(few, few.sum(axis=1) > 5)
    others = make_table(400, 5)[["income", "savings", "age"]] // 5
    explainer = ironrule.Explainer(model, few, desired=True, measure=others)
    assert explainer.ladder({"income": 0.0, "savings": 1, "age": 1}).measured_rows > 390


@pytest.mark.parametrize("share", [None, "most", True])
def test_a_rung_is_sought_by_a_share(explainer, denied, share):
    with pytest.raises(InputError, match="at_least must be a share"):
        explainer.ladder(denied[0]).find_rung(share)


def test_a_ladder_survives_json_and_pickle(explainer, denied):
    ladder = explainer.ladder(denied[0])
    read = Ladder.from_json(ladder.to_json())
    assert str(read) == str(ladder)
    assert read.rungs[:-1] == ladder.rungs[:-1]
    assert pickle.loads(pickle.dumps(ladder)).rungs[:-1] == ladder.rungs[:-1]


def test_an_altered_ladder_is_refused(explainer, denied):
    data = json.loads(explainer.ladder(denied[0]).to_json())
    data["rungs"][0]["measured"]["rows"] += 1
    with pytest.raises(InputError, match="digest mismatch"):
        Ladder.from_dict(data)
    with pytest.raises(InputError, match="format"):
        Ladder.from_dict(data | {"ladder_format": 99})
    for text in ("{", "[" * 100_000, '{"ladder_format": ' + "9" * 5000 + "}", b"\xff", None):
        with pytest.raises(InputError, match="not valid JSON"):
            Ladder.from_json(text)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("coverage",), "many"),
        (("searched", "rows"), None),
        (("rule", "components", 0, "feature"), "shoe"),
        (("rule", "components", 0, "op"), 3),
        (("verdict", "seen"), 1.5),
        (("parts",), []),
        (("parts", 0, "approved_share"), "x"),
        (("parts", 0, "approved_share"), 1e308),
        (("parts", 0, "bound_without"), 10**400),
        (("parts", 0, "bound_without"), -0.5),
        (("parts", 0, "other_value"), 10**400),
        (("rule", "components", 0, "value"), 10**400),
        (("verdict", "shared_by"), 0),
        (("verdict", "shared_by"), 10**400),
        (("verdict", "rows"), 10**400),
        (("measured", "rows"), -1),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_rung_of_wrong_types_is_refused(explainer, denied, place, value):
    from ironrule.verdict.digest import add_digest

    data = json.loads(explainer.ladder(denied[0]).to_json())
    *way, last = place
    part = data["rungs"][0]
    for step in way:
        part = part[step]
    part[last] = value
    with pytest.raises(InputError):
        Ladder.from_dict(add_digest(data))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("confidence",), 1e308),
        (("confidence",), 10**400),
        (("confidence",), float("nan")),
        (("at_least",), 2),
        (("measured_rows",), -1),
        (("last", "parts"), []),
        (("last", "parts", 0, "approved_share"), 10**400),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_ladder_of_wrong_values_is_refused(explainer, denied, place, value):
    from ironrule.verdict.digest import DIGEST_FIELD, compute_digest

    data = json.loads(explainer.ladder(denied[0]).to_json())
    *way, last = place
    part = data
    for step in way:
        part = part[step]
    part[last] = value
    try:
        data[DIGEST_FIELD] = compute_digest(data)
    except ValueError:  # no digest can be made of NaN
        assert value != value
    with pytest.raises(InputError):
        Ladder.from_dict(data)


@pytest.mark.parametrize("chosen", [{"nested": "no"}, {"nested": None}, {"confidence": 1e-300}])
def test_options_that_no_ladder_can_have_are_refused(explainer, denied, chosen):
    with pytest.raises(InputError, match="must be"):
        explainer.ladder(denied[0], **chosen)


def test_a_ladder_of_numpy_options_survives_json(explainer, denied):
    ladder = explainer.ladder(denied[0], most=np.int64(2))
    assert str(Ladder.from_json(ladder.to_json())) == str(ladder)


def test_a_confidence_next_to_one_gives_finite_numbers(explainer, denied):
    ladder = explainer.ladder(denied[0], most=16, confidence=1 - 2**-53)
    assert str(Ladder.from_json(ladder.to_json())) == str(ladder)


def test_a_proven_verdict_cannot_be_put_on_a_bounded_rung(explainer, denied):
    from ironrule.verdict.digest import add_digest

    data = json.loads(explainer.ladder(denied[0]).to_json())
    data["rungs"][0]["verdict"] = data["explanation"]["rules"][0]["verdict"]
    with pytest.raises(InputError, match="must be bounded"):
        Ladder.from_dict(add_digest(data))


def test_nothing_bounded_is_shown_as_proven(explainer, denied):
    ladder = explainer.ladder(denied[0])
    for line in str(ladder).splitlines():
        if "bounded" in line.lower():
            assert "proven" not in line.lower().replace("not proven", "")
    html = ladder._repr_html_()
    assert html.count("proven: no exception") <= 4  # of the last rung alone: its line, its bar, and their description


def test_a_ladder_says_which_part_of_its_rule_is_protected(trained, denied):
    table = make_table(800, 2)
    plain = ironrule.Explainer(trained, table, desired=True).ladder(denied[0])
    feature = plain.last.rule.components[0].feature
    marked = ironrule.Explainer(trained, table, desired=True, roles={feature: "protected"}).ladder(denied[0])
    shown = (str(marked), marked._repr_html_(), marked.to_html("validator"), cli.render_ladder(marked))
    assert all("uses a protected feature" in " ".join(text.split()) for text in shown)
    assert "protected" not in str(plain)


def test_the_same_call_gives_the_same_ladder(explainer, denied):
    texts = []
    for _ in range(2):
        data = explainer.ladder(denied[1]).to_dict()
        texts.append(json.dumps([data["rungs"], data["last"]]))
    assert texts[0] == texts[1]


def test_rows_fall_on_the_same_sides_after_more_rows_came(explainer):
    longer = explainer.with_more_rows(make_table(100, 7))
    before = build_population(explainer._context, False, 0).is_searched
    assert build_population(longer._context, False, 0).is_searched[: len(before)].tolist() == before.tolist()


def test_a_part_of_the_space_has_a_population_of_its_own(explainer):
    find_population(explainer._context)
    part = explainer.where("cf.age >= 10")
    assert len(find_population(part._context).is_searched) == len(part.outcomes) < len(explainer.outcomes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"most": 0}, "most must be a positive integer"),
        ({"most": 99}, "most must be at most"),
        ({"at_least": 1.5}, "at_least must be a share"),
        ({"confidence": 0.0}, "confidence must be a share"),
        ({"confidence": True}, "confidence must be a share"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(explainer, denied, arguments, message):
    with pytest.raises(InputError, match=message):
        explainer.ladder(denied[0], **arguments)


@pytest.mark.parametrize(
    ("measure", "error"),
    [
        ([True, False], "one flag per row"),
        (np.arange(800), "one flag"),
        (np.ones(800, dtype=bool), "leave others to search on"),
        (np.zeros(800, dtype=bool), "mark some rows"),
    ],
)
def test_masks_that_do_not_fit_are_refused(trained, measure, error):
    with pytest.raises(InputError, match=error):
        ironrule.Explainer(trained, make_table(800, 2), desired=True, measure=measure)


def test_a_table_without_a_column_is_refused(trained, denied):
    fresh = make_table(50, 3).drop(columns="age")
    explainer = ironrule.Explainer(trained, make_table(800, 2), desired=True, measure=fresh)
    with pytest.raises(TableError, match="age"):
        explainer.ladder(denied[0])


def test_bounds_hold_for_the_population_they_speak_of():
    """On a made-up population with frequent combinations of values, whose true shares are known exactly.

    At 80 % confidence, at most 20 % of ladders may have a broken bound. The draws are seeded: the result is the same
    each time.
    """
    rng = np.random.default_rng(5)
    people = np.array([(a, b, c) for a in range(3) for b in range(3) for c in range(3)])
    share = rng.dirichlet(np.full(len(people), 0.4))
    desired = rng.random(len(people)) < 0.35
    denied_person = int(np.flatnonzero(~desired)[np.argmax(share[~desired])])
    frame = pd.DataFrame(people, columns=["a", "b", "c"])
    known = {tuple(person): bool(outcome) for person, outcome in zip(people.tolist(), desired, strict=True)}
    broken, ladders = 0, 120
    for seed in range(ladders):
        drawn = frame.iloc[np.random.default_rng(seed).choice(len(people), 60, p=share)]
        explainer = ironrule.Explainer(
            lambda table: np.array([known[tuple(row)] for row in table.to_numpy().tolist()]),
            drawn.reset_index(drop=True),
            desired=True,
            space=ironrule.Space.infer(frame),
        )
        ladder = explainer.ladder(frame.iloc[denied_person].to_dict(), most=2, nested=False, confidence=0.8)
        for rung in ladder[:-1]:
            covered = rung.rule.covers(frame)
            truth = share[covered & desired].sum() / share[covered].sum()
            if truth > rung.exception_bound:
                broken += 1
                break
    assert broken <= 0.2 * ladders


def test_reasons_come_from_the_longest_rung_that_is_short_enough(explainer, denied):
    table = make_table(800, 2)
    searched = find_population(explainer._context).is_searched
    for row in denied:
        ladder = explainer.ladder(row)
        rung = [one for one in ladder if one.cardinality <= 3][-1]
        reasons = ladder.reasons(3)
        assert {reason.component for reason in reasons} <= {*rung.rule.components}
        assert len(reasons) <= 3
        bounds = [reason.bound_without for reason in reasons]
        assert bounds == sorted(bounds, reverse=True)
        past, approved = table[searched], explainer.outcomes[searched]
        for reason in reasons:
            has_it = reason.component.covers(past)
            assert approved[has_it].mean() < approved[~has_it].mean()
            assert reason.approved_share == pytest.approx(has_it[approved].mean())
            if reason.other_value is not None:
                assert not reason.component.covers(pd.DataFrame({reason.feature: [reason.other_value]}))[0]
        assert Ladder.from_json(ladder.to_json()).reasons(3) == reasons


def test_a_declared_direction_decides_what_counts_against_a_person(trained, denied):
    roles = {"income": ironrule.Role(higher_is="worse"), "savings": ironrule.Role(higher_is="worse")}
    ladder = ironrule.Explainer(trained, make_table(800, 2), desired=True, roles=roles).ladder(denied[0])
    for rung in ladder:
        for component, part in zip(rung.rule.components, rung.parts, strict=True):
            if component.feature in roles:
                assert part.counts_against == (component.op == ">=")


def test_reasons_of_too_few_components_are_none(explainer, denied):
    ladder = explainer.ladder(denied[0], most=1)
    assert len(ladder.reasons(1)) <= 1
    with pytest.raises(InputError, match="most must be a positive integer"):
        ladder.reasons(0)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_bounds_of_rungs_are_the_shortest_numbers_that_cover_the_same_rows(dtype: str) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.integers(0, 100, 400) / 10 for name in ("a", "b", "c")})
    typed = table.astype(dtype)
    model = RandomForestClassifier(8, max_depth=4, random_state=0).fit(typed, table["a"] + table["b"] > table["c"] + 4)
    explainer = ironrule.Explainer(model, typed, desired=True)
    rungs = 0
    for row in explainer.row_numbers[~explainer.outcomes][:4]:
        ladder = explainer.ladder(int(row), progress=False)
        for component in itertools.chain.from_iterable(rung.rule.components for rung in ladder.rungs[:-1]):
            bound = float(component.value)
            assert bound == round(bound, 1), str(component)  # as all rows have it, for which nothing shorter is needed
            assert (
                component.covers(typed).tolist()
                == (
                    table[component.feature] <= bound if component.op == "<=" else table[component.feature] >= bound
                ).tolist()
            )
            rungs += 1
        for shorter, longer in itertools.pairwise(ladder.rungs):  # one within the other, whatever was rounded
            bounds = {(one.feature, one.op): one.value for one in longer.rule.components}
            for one in shorter.rule.components:
                inner = bounds[one.feature, one.op]
                assert inner <= one.value if one.op == "<=" else inner >= one.value
    assert rungs > 4
