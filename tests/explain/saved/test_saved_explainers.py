"""A saved explainer gives the answers of the one that was saved: with the model, without it, without its library."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from saved_examples import FAMILIES, NUMBERS, build_table, drop_clocks, fit, prepare, read_parts
from sklearn.compose import make_column_transformer
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, OrdinalEncoder, RobustScaler, StandardScaler

import ironrule
from ironrule import Explainer, InputError, ModelError, TableError, Target
from ironrule.cli.files import load_model
from ironrule.explain.saved.load import get_saved_model
from ironrule.model.normal_form.tree_sum import TreeSum
from ironrule.model.saved_model import UNDECIDED, SavedModel

families = pytest.mark.parametrize("name", FAMILIES)
NEW = {"income": 1234.567, "age": 19, "debt": 777.77, "job": "cook", "owner": True}


def save(name: str, folder: Path, **options: Any) -> tuple[Explainer, Path]:
    """An explainer of a family, and its file."""
    model, data = fit(name)
    explainer = Explainer(model, data, constraints=["cf.age >= x.age"] if name != "array" else [])
    return explainer, explainer.save(folder / "a.ironrule", **options)


def list_denied(explainer: Explainer, count: int) -> list[int]:
    """The numbers of some denied rows."""
    return explainer.row_numbers[~explainer.outcomes][:count].tolist()


def find_new_row(name: str, **changed: Any) -> Any:
    """A row with numbers that no past row has."""
    row = NEW | changed
    return [row[column] for column in NUMBERS] if name == "array" else row


@families
def test_a_loaded_explainer_gives_the_same_documents(name: str, tmp_path: Path) -> None:
    explainer, path = save(name, tmp_path)
    loaded = Explainer.load(path)
    assert (explainer.confirmed, loaded.confirmed) == (True, False)
    assert (loaded.fingerprint, loaded.space) == (explainer.fingerprint, explainer.space)
    assert dict(loaded.obstacles) == dict(explainer.obstacles)
    rows = [*list_denied(explainer, 2), find_new_row(name)] if name != "bins" else list_denied(explainer, 2)
    for row in rows:
        own, other = explainer.explain(row), loaded.explain(row)
        assert drop_clocks(other.to_dict()) == drop_clocks(own.to_dict())
        assert (own.confirmed, other.confirmed) == (True, False)
        assert other.to_dict()["confirmed_by_model"] is False
        assert "Not confirmed by the model itself" in str(other)
        assert "confirmed" not in str(own)
    attached = Explainer.load(path, model=fit(name).model)
    found = attached.explain(rows[0])
    assert attached.confirmed
    assert "confirmed_by_model" not in found.to_dict()


def test_numbers_beyond_the_range_are_explained_alike(tmp_path: Path) -> None:
    for name in ("logistic", "xgboost"):
        explainer, path = save(name, tmp_path, overwrite=True)
        loaded = Explainer.load(path)
        row = find_new_row(name, income=-50_000.25)
        own, other = explainer.explain(row), loaded.explain(row)
        assert drop_clocks(other.to_dict()) == drop_clocks(own.to_dict())


def test_everything_an_explainer_answers_is_answered_alike(tmp_path: Path) -> None:
    explainer, path = save("xgboost", tmp_path)
    loaded = Explainer.load(path)
    number = list_denied(explainer, 1)[0]
    row = explainer.space.decode_row(explainer.codes.row(int(np.flatnonzero(explainer.row_numbers == number)[0])))
    assert drop_clocks(loaded.ladder(number).to_dict()) == drop_clocks(explainer.ladder(number).to_dict())
    found = loaded.counterfactuals(row, k=2)
    assert drop_clocks(found.to_dict()) == drop_clocks(explainer.counterfactuals(row, k=2).to_dict())
    assert (found.confirmed, type(found).from_dict(found.to_dict()).confirmed) == (False, False)
    assert "Not confirmed" in str(found)
    judged = loaded.judge(row, ["income <= 3000"])
    assert drop_clocks(judged.to_dict()) == drop_clocks(explainer.judge(row, ["income <= 3000"]).to_dict())
    assert "Not confirmed" in str(judged)
    assert list(map(str, loaded.rules(row, limit=3))) == list(map(str, explainer.rules(row, limit=3)))
    assert list(map(str, loaded.change_sets(row, limit=3))) == list(map(str, explainer.change_sets(row, limit=3)))
    assert loaded.is_desired(row) is False
    narrowed, own = loaded.where("cf.age >= 20"), explainer.where("cf.age >= 20")
    older = {**row, "age": 40, "income": 0.0}
    assert drop_clocks(narrowed.explain(older).to_dict()) == drop_clocks(own.explain(older).to_dict())
    assert loaded.recheck([explainer.explain(row)]).counts["holds"] == 1
    with pytest.raises(ModelError, match="the decision that it was saved with"):
        loaded.counterfactuals(row, target=Target(above=0.8))
    with pytest.raises(ModelError, match="the decision that it was saved with"):
        loaded.counterfactuals(row, margin=0.01)
    with pytest.raises(ModelError, match="adding past rows needs the model itself"):
        loaded.with_more_rows(fit("xgboost").data.iloc[:5])


@families
def test_sure_decisions_are_those_of_the_model_and_rules_have_no_exception(name: str, tmp_path: Path) -> None:
    explainer, path = save(name, tmp_path)
    model, _ = fit(name)
    loaded = Explainer.load(path)
    saved = get_saved_model(loaded)
    rng = np.random.default_rng(1)
    box = explainer._context.model.primary
    points = rng.integers(0, explainer.space.sizes, size=(3000, len(explainer.space)), dtype=np.int32)  # thresholds too
    tables = box.layout.decode(points)
    own = model.predict(tables) == 1
    arrays = loaded._context.model.primary.layout.decode(points)
    possible, sure = saved.decide(saved.transform(arrays))
    assert not (sure & ~own).any()
    assert not (own & ~possible).any()
    assert (possible == sure).mean() > 0.99
    explanation = loaded.explain(list_denied(loaded, 1)[0])
    assert isinstance(explanation.verdict, ironrule.Proven)
    covered = explanation.shown.rule.covers(
        tables if name != "array" else pd.DataFrame(tables, columns=["x0", "x1", "x2"])
    )
    assert not own[covered].any()


def test_numbers_between_those_known_are_decided_as_by_the_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    for name in ("logistic", "network", "histogram", "xgboost"):
        _, path = save(name, tmp_path, overwrite=True)
        model, data = fit(name)
        saved = get_saved_model(Explainer.load(path))
        table = data.sample(400, replace=True, random_state=3).reset_index(drop=True)
        table["income"] = rng.uniform(data.income.min(), data.income.max(), 400)
        table["debt"] = rng.uniform(data.debt.min(), data.debt.max(), 400)
        matrix = table.astype(object).to_numpy()
        possible, sure = saved.decide(saved.transform(matrix))
        own = model.predict(table) == 1
        assert np.array_equal(own[possible == sure], sure[possible == sure])
        assert (possible == sure).mean() > 0.99


WITHOUT_LIBRARIES = """
import json, sys
for name in ("xgboost", "lightgbm", "pandas", "catboost"):
    sys.modules[name] = None
import ironrule
explainer = ironrule.Explainer.load(sys.argv[1])
print(json.dumps([explainer.explain(row).to_dict() for row in json.loads(sys.argv[2])]))
"""


def test_a_file_opens_without_the_library_with_the_same_answers_byte_for_byte(tmp_path: Path) -> None:
    explainer, path = save("xgboost", tmp_path)
    rows = [*list_denied(explainer, 1), NEW]
    command = [sys.executable, "-c", WITHOUT_LIBRARIES, str(path), json.dumps(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    own = [explainer.explain(row).to_dict() for row in rows]
    texts = [json.dumps(drop_clocks(documents)) for documents in (json.loads(done.stdout), own)]
    assert texts[0] == texts[1]


def test_a_file_without_history_has_no_past_row_and_says_so(tmp_path: Path) -> None:
    explainer, path = save("xgboost", tmp_path, history=False)
    document = json.loads(read_parts(path)["explainer.json"])
    assert (document["history"], document["measured"]) == (None, None)
    assert not {"arrays/u1.npy", "arrays/u2.npy", "arrays/u4.npy"} & set(read_parts(path))  # what codes are kept in
    loaded = Explainer.load(path)
    found = loaded.explain(NEW)
    assert found.shown.rule.components
    assert (found.minimum, found.history_rows, found.coverage) == (True, 0, 0)
    assert found.cardinality == explainer.explain(NEW).cardinality
    for ask in (loaded.ladder, loaded.explain):
        with pytest.raises(InputError):
            ask(3)
    with pytest.raises(InputError, match="past rows"):
        loaded.ladder(NEW)
    with pytest.raises(TableError, match="no past rows"):
        loaded.explain_many(rows=[1, 2])
    assert loaded.where("cf.age >= 18").explain(NEW).cardinality == found.cardinality
    with pytest.raises(InputError, match="past rows"):
        loaded.counterfactuals(NEW).measure()
    attached = Explainer.load(path, model=fit("xgboost").model)
    assert attached.confirmed
    assert attached.counterfactuals(NEW, target=Target(above=0.6)).items


@pytest.mark.parametrize("history", [True, False])
def test_what_a_loaded_explainer_writes_is_checked_with_the_original_model(history: bool, tmp_path: Path) -> None:
    _, path = save("xgboost", tmp_path, history=history)
    model, data = fit("xgboost")
    found = Explainer.load(path).explain(NEW)
    check = ironrule.check(found, model, data)
    assert check.status == "proven", check
    other = fit("xgboost").model.__class__(n_estimators=3, max_depth=2, enable_categorical=True)
    other.fit(data, (data.age > 40).astype(int))
    assert ironrule.check(found, other, data).status != "proven"


def test_another_model_is_not_attached(tmp_path: Path) -> None:
    _, path = save("xgboost", tmp_path)
    data = fit("xgboost").data
    other = fit("xgboost").model.__class__(n_estimators=8, max_depth=3, enable_categorical=True)
    other.fit(data, (data.age > 40).astype(int))
    with pytest.raises(ModelError, match="must be the one that the explainer was saved with") as refused:
        Explainer.load(path, model=other)
    assert refused.value.code == "model-mismatch"


def test_a_model_that_cannot_be_read_needs_to_be_attached(tmp_path: Path) -> None:
    _, data = fit("xgboost")
    explainer = Explainer(_ask, data)
    path = explainer.save(tmp_path / "asked.ironrule")
    with pytest.raises(ModelError, match="can only be opened with its model") as refused:
        Explainer.load(path)
    assert refused.value.code == "model-required"
    attached = Explainer.load(path, model=_ask)
    number = list_denied(explainer, 1)[0]
    own, other = (one.explain(number, budget=ironrule.Budget(300)) for one in (explainer, attached))
    assert drop_clocks(own.to_dict()) == drop_clocks(other.to_dict())


def _ask(table: pd.DataFrame) -> Any:
    return (table.income > 2500).to_numpy().astype(float)


def test_what_rounding_leaves_open_is_refused_and_not_guessed(tmp_path: Path) -> None:
    _, path = save("forest", tmp_path)
    loaded = Explainer.load(path)
    saved = get_saved_model(loaded)
    assert isinstance(saved.normal_form, TreeSum)
    ((margin,),) = saved.normal_form.alternatives
    unsure = SavedModel(
        saved.transform, TreeSum(((replace(margin, error=1e9),),)), saved.target, saved.undesired_name, saved.name
    )
    context = loaded._context
    with pytest.raises(ModelError, match="within rounding of the threshold") as refused:
        unsure.predict(context.model.primary.layout.decode(context.history.codes.points(slice(0, 3))))
    assert refused.value.code == UNDECIDED


def test_an_explainer_that_was_loaded_can_be_saved_again(tmp_path: Path) -> None:
    for name in ("logistic", "xgboost"):
        _, path = save(name, tmp_path, overwrite=True)
        again = Explainer.load(Explainer.load(path).save(tmp_path / "again.ironrule", overwrite=True))
        own, other = Explainer.load(path).explain(NEW), again.explain(NEW)
        assert drop_clocks(own.to_dict()) == drop_clocks(other.to_dict())


def test_a_mask_and_rows_of_ones_own_to_measure_on_travel(tmp_path: Path) -> None:
    model, data = fit("xgboost")
    for measure in (np.arange(len(data)) % 3 == 0, data.iloc[::2].assign(age=lambda table: table.age + 1)):
        explainer = Explainer(model, data, measure=measure)
        loaded = Explainer.load(explainer.save(tmp_path / "m.ironrule", overwrite=True))
        number = list_denied(explainer, 1)[0]
        assert drop_clocks(loaded.ladder(number).to_dict()) == drop_clocks(explainer.ladder(number).to_dict())


def test_an_explainer_of_several_models_travels_in_one_file(tmp_path: Path) -> None:
    models, data = [fit(name).model for name in ("tree", "logistic", "forest")], fit("tree").data
    explainer = Explainer(models[0], data, models=models[1:])
    path = explainer.save(tmp_path / "three.ironrule")
    row = list_denied(explainer, 1)[0]
    own = drop_clocks(explainer.explain(row).to_dict())
    loaded = Explainer.load(path)
    assert (loaded.fingerprint, loaded.confirmed, len(loaded._context.arguments.models)) == (
        explainer.fingerprint,
        False,
        3,
    )
    assert drop_clocks(loaded.explain(row).to_dict()) == own
    assert drop_clocks(loaded.counterfactuals(row).to_dict()) == drop_clocks(explainer.counterfactuals(row).to_dict())
    assert loaded.outcomes.tolist() == models[0].predict(data).astype(bool).tolist()
    together = np.any([model.predict(data) for model in models], axis=0)
    assert loaded._context.history.outcomes.tolist() == together.tolist() != loaded.outcomes.tolist()
    attached = Explainer.load(path, model=models)
    assert attached.confirmed
    assert drop_clocks(attached.explain(row).to_dict()) == own
    with pytest.raises(ModelError):
        Explainer.load(path, model=models[0])
    again = Explainer.load(loaded.save(tmp_path / "again.ironrule"))
    assert drop_clocks(again.explain(row).to_dict()) == own
    assert json.loads(read_parts(path)["manifest.json"])["format"] == 2  # which no earlier version takes for one model


def test_what_cannot_be_saved_says_why(tmp_path: Path) -> None:
    model, data = fit("xgboost")
    explainer = Explainer(model, data)
    explainer.save(tmp_path / "a.ironrule")
    with pytest.raises(InputError, match="exists already"):
        explainer.save(tmp_path / "a.ironrule")
    with pytest.raises(InputError, match="path must name a file"):
        explainer.save("")
    with pytest.raises(ironrule.StorageError):
        explainer.save(tmp_path / "nowhere" / "a.ironrule")
    with pytest.raises(ModelError, match="under a margin"):
        Explainer.load(Explainer(model, data, margin=0.01).save(tmp_path / "b.ironrule"))


def test_labels_and_roles_travel(tmp_path: Path) -> None:
    model, data = fit("xgboost")
    labels = {"income": {"label": "Monthly income", "unit": "€"}, "job": {"label": "Work", "values": {"cook": "chef"}}}
    explainer = Explainer(model, data, labels=labels, roles={"age": "immutable"})
    loaded = Explainer.load(explainer.save(tmp_path / "a.ironrule"))
    assert loaded.labels.to_dict() == explainer.labels.to_dict()
    assert loaded.space["age"].role == explainer.space["age"].role
    own, other = explainer.explain(NEW), loaded.explain(NEW)
    assert drop_clocks(own.to_dict()) == drop_clocks(other.to_dict())
    assert "Monthly income" in other.to_html("person")


def test_rows_may_have_the_other_columns_of_the_data(tmp_path: Path) -> None:
    model, data = fit("logistic")
    explainer = Explainer(model, data.assign(status="?"))
    loaded = Explainer.load(explainer.save(tmp_path / "a.ironrule"))
    assert loaded.explain({**NEW, "status": "?"}).rule == explainer.explain(NEW).rule
    attached = Explainer.load(tmp_path / "a.ironrule", model=model)
    assert attached.explain({**NEW, "status": "?"}).rule == explainer.explain(NEW).rule
    with pytest.raises(TableError, match="columns of the space"):
        loaded.explain({**NEW, "shoe": 43})


@pytest.mark.parametrize(
    "options", [{"desired": ["b", "c"]}, {"desired": "c", "threshold": 0.3}, {"threshold": 1.2, "desired": "below"}]
)
def test_classes_thresholds_and_regressions_travel(options: dict[str, Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=150).astype(np.float32), "y": rng.integers(0, 20, 150)})
    table["day"] = pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 4, 150), unit="D")
    score = table.x + table.y / 10 + (table.day.dt.day == 2)
    inputs = make_column_transformer((OrdinalEncoder(), ["day"]), remainder="passthrough")
    if options["desired"] == "below":
        model = make_pipeline(inputs, GradientBoostingRegressor(n_estimators=5, max_depth=2, random_state=0)).fit(
            table, score
        )
    else:
        classes = np.array(["a", "b", "c"])[np.digitize(score, [0.8, 1.6])]
        model = make_pipeline(inputs, ExtraTreesClassifier(5, max_depth=4, random_state=0)).fit(table, classes)
    explainer = Explainer(model, table, **options)
    assert explainer.unreadable_reason is None
    loaded = Explainer.load(explainer.save(tmp_path / "a.ironrule"))
    attached = Explainer.load(tmp_path / "a.ironrule", model=model)
    for row in (list_denied(explainer, 1)[0], {"x": 0.123456789, "y": 3, "day": "2024-01-02"}):
        if not explainer.is_desired(row):
            documents = [drop_clocks(one.explain(row).to_dict()) for one in (explainer, loaded, attached)]
            assert documents[0] == documents[1] == documents[2]
        assert loaded.is_desired(row) == explainer.is_desired(row)


def test_changes_that_only_the_model_could_decide_are_not_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, path = save("logistic", tmp_path)
    loaded = Explainer.load(path)
    denied = list_denied(loaded, 1)[0]
    for code in (UNDECIDED, "model"):

        def refuse(*_: Any, code: str = code) -> Any:
            raise ModelError("open", code=code)

        found = loaded.explain(denied)
        monkeypatch.setattr("ironrule.explain.counterfactuals.suggest.make_readable", refuse)
        if code == UNDECIDED:
            assert found.changes is not None
            assert (len(found.changes), found.changes.proven, found.changes.complete) == (0, False, False)
            assert found.to_dict()["changes"]["counterfactuals"] == []
        else:
            with pytest.raises(ModelError):
                found.to_dict()


@pytest.mark.parametrize(
    "scaler",
    [StandardScaler(with_mean=False), RobustScaler(), MaxAbsScaler()],
    ids=repr,
)
def test_what_a_scaler_makes_of_new_numbers_is_known(scaler: Any, tmp_path: Path) -> None:
    table, labels = build_table()
    table = table.assign(income=table.income.astype(np.float32))
    model = make_pipeline(prepare(scaler), LogisticRegression(max_iter=10_000)).fit(table, labels)
    explainer = Explainer(model, table)
    loaded = Explainer.load(explainer.save(tmp_path / "a.ironrule"))
    row = {**NEW, "income": float(np.float32(-123.4567))}  # beyond the range
    assert drop_clocks(loaded.explain(row).to_dict()) == drop_clocks(explainer.explain(row).to_dict())


def test_a_number_that_stands_for_missing_is_not_taken_for_itself(tmp_path: Path) -> None:
    table, labels = build_table()
    table = table[NUMBERS].fillna(-999.0)
    numbers = make_pipeline(SimpleImputer(missing_values=-999.0), StandardScaler())
    model = make_pipeline(make_column_transformer((numbers, NUMBERS)), LogisticRegression()).fit(table, labels)
    explainer = Explainer(model, table)
    loaded = Explainer.load(explainer.save(tmp_path / "a.ironrule"))
    for row in ({"income": -999.0, "age": 30, "debt": 1.0}, {"income": 9000.0, "age": 30, "debt": 1.5}):
        with pytest.raises(TableError, match="does not know what the model sees"):
            loaded.is_desired(row)
    known = {"income": float(table.income[3]), "age": int(table.age[3]), "debt": float(table.debt[3])}
    assert loaded.is_desired(known) == explainer.is_desired(known)


def test_models_from_files_of_other_formats_travel(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    card = """<PMML version="4.4"><DataDictionary><DataField name="income" dataType="double"/></DataDictionary>
        <Scorecard functionName="regression"><MiningSchema><MiningField name="income"/></MiningSchema>
        <Characteristics><Characteristic>
          <Attribute partialScore="1"><SimplePredicate field="income" operator="lessThan" value="4"/></Attribute>
          <Attribute partialScore="2"><True/></Attribute>
        </Characteristic></Characteristics></Scorecard></PMML>"""
    (tmp_path / "card.pmml").write_text(card)
    forest = Path(__file__).parents[2] / "model" / "readers" / "onnx_files" / "columns_forest.onnx"
    people = pd.DataFrame(
        {"income": [1, 5, 2, 6, np.nan], "age": [3, 16, 9, 2, 12], "home": [*"ab", "other", "own", "rent"]}
    )
    cases = (
        (tmp_path / "card.pmml", pd.DataFrame({"income": [1.0, 5.0, 2.0, 9.0]}), {"threshold": 1.5}),
        (forest, people.replace({"a": "rent", "b": "own"}), {"desired": 1}),
    )
    for file, table, options in cases:
        explainer = Explainer(load_model(file), table, **options)
        loaded = Explainer.load(explainer.save(tmp_path / "a.ironrule", overwrite=True))
        number = list_denied(explainer, 1)[0]
        assert drop_clocks(loaded.explain(number).to_dict()) == drop_clocks(explainer.explain(number).to_dict())


class ReadsOwnTables:
    """A model that takes tables of one library alone, with columns of the types that it was fitted on."""

    classes_ = np.array([0, 1])
    feature_names_in_ = np.array(["income", "age", "job", "owner"])

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.types: dict[str, str] = {}

    def read(self, table: Any) -> Any:
        import pyarrow as pa

        frame = pa.table(table) if self.kind == "pyarrow" else table.to_arrow()
        own = {
            name: str(table[name].type if self.kind == "pyarrow" else table[name].dtype) for name in frame.column_names
        }
        self.types = self.types or own
        assert type(table).__module__.split(".")[0] == self.kind
        assert own == self.types
        return frame.to_pandas()

    def predict(self, table: Any) -> Any:
        rows = self.read(table)
        points = (
            rows.income.fillna(0) / 100 + rows.age + 20 * (rows.job.astype(str) == "boss") - 5 * rows.owner.astype(int)
        )
        return (points > 80).astype(int).to_numpy()


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_a_model_of_polars_or_arrow_tables_is_attached_again(kind: str, tmp_path: Path) -> None:
    import polars as pl

    table, _ = build_table()
    frame = pl.from_pandas(table[["income", "age", "job", "owner"]]).with_columns(
        pl.col("age").cast(pl.Int32), pl.col("income").cast(pl.Float32), pl.col("job").cast(pl.Categorical)
    )
    data = frame if kind == "polars" else frame.to_arrow()
    model = ReadsOwnTables(kind)
    explainer = Explainer(model, data)
    path = explainer.save(tmp_path / "own.ironrule")
    loaded = Explainer.load(path, model=model)
    assert (loaded.fingerprint, loaded.space) == (explainer.fingerprint, explainer.space)
    row = list_denied(explainer, 1)[0]
    assert drop_clocks(loaded.explain(row).to_dict()) == drop_clocks(explainer.explain(row).to_dict())
    assert {"polars": "Int32", "pyarrow": "int32"}[kind] == model.types["age"]


@pytest.mark.parametrize("seed", [1, 4])
def test_numbers_that_a_saved_model_does_not_know_end_no_search(tmp_path, seed):
    """Behind two scalers no formula says what the model sees of further numbers between those of the domains."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(rng.normal(size=(80, 3)) * [1, 10, 5], columns=list("abc"))
    desired = data["a"] + data["b"] / 10 - data["c"] / 5 + rng.normal(size=80) * 0.3 > 0.5
    network = MLPClassifier((5,), solver="lbfgs", max_iter=3_000, random_state=seed)
    model = make_pipeline(MinMaxScaler(), RobustScaler(), network).fit(data, desired)
    explainer = Explainer(model, data, desired=True)
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    explainer.save(tmp_path / "network.ironrule")
    found = Explainer.load(tmp_path / "network.ironrule").counterfactuals(data.iloc[row], k=2, cost="l1")
    assert len(found)
    assert model.predict(pd.DataFrame([dict(one.values) for one in found])[list(data.columns)]).all()
