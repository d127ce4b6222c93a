"""Explainers and explanations through MLflow and back, in a local file store; skipped where MLflow is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier

from ironrule import Explainer, Explanation, InputError

mlflow = pytest.importorskip("mlflow", exc_type=ImportError)
flavor = pytest.importorskip("ironrule.integrations.mlflow")
pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own

FEATURES = ["income", "debt", "age"]
DENIED = {"income": 1.0, "debt": 8.0, "age": 2.0}


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 9, size=(200, 3)), columns=FEATURES)
    labels = np.where(table.income - table.debt > 0, "good", "bad")
    return Explainer(GradientBoostingClassifier(n_estimators=5, max_depth=2).fit(table, labels), table, desired="good")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as started:
        yield started
    mlflow.set_tracking_uri(None)


@pytest.mark.usefixtures("run")
def test_an_explainer_is_logged_and_loaded(explainer: Explainer) -> None:
    info = flavor.log_model(explainer, name="explainer", history=False)
    loaded = flavor.load_model(info.model_uri)
    assert (loaded.confirmed, len(loaded.outcomes)) == (False, 0)
    assert loaded.explain(DENIED).cardinality == explainer.explain(DENIED).cardinality
    assert info.flavors["ironrule"]["model_fingerprint"] == explainer.fingerprint
    attached = flavor.load_model(info.model_uri, model=explainer._context.arguments.models[0])
    assert attached.confirmed


def test_the_function_gives_a_table_of_explanations(explainer: Explainer, tmp_path: Path) -> None:
    flavor.save_model(explainer, tmp_path / "model")
    function = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    people = pd.DataFrame([DENIED, {"income": 8.0, "debt": 0.0, "age": 5.0}])
    table = function.predict(people)
    assert list(table.columns) == list(flavor.TABLE_COLUMNS)
    assert table.denied.tolist() == [True, False]
    own = explainer.explain(DENIED)
    assert (table.rule[0], table.verdict[0], table.components[0]) == (str(own.shown.rule), "proven", own.cardinality)
    assert '"confirmed_by_model": false' in table.document[0]
    assert pd.isna(table.rule[1])


def test_the_function_obeys_its_parameters(explainer: Explainer, tmp_path: Path) -> None:
    flavor.save_model(explainer, tmp_path / "model")
    function = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    for params, expected in (({"budget": 5, "seed": 3}, (5.0, 3)), ({}, (flavor.DEFAULT_BUDGET, 0))):
        table = function.predict(pd.DataFrame([DENIED]), params=params)
        statistics = Explanation.from_json(table.document[0]).statistics
        assert (statistics.budget_seconds, statistics.seed) == expected


def test_explanations_and_ladders_are_logged_and_loaded(explainer: Explainer, run: Any) -> None:
    found, ladder = explainer.explain(DENIED), explainer.ladder(DENIED)
    flavor.log_explanation(found)
    flavor.log_explanation(ladder, "ladders/first.json")
    base = f"runs:/{run.info.run_id}"
    assert flavor.load_explanation(f"{base}/explanation.json").to_dict() == found.to_dict()
    assert flavor.load_explanation(f"{base}/ladders/first.json").to_dict() == ladder.to_dict()
    page = Path(mlflow.artifacts.download_artifacts(artifact_uri=f"{base}/explanation.html")).read_text(
        encoding="utf-8"
    )
    assert "proven" in page
    with pytest.raises(InputError, match="an explanation or a ladder"):
        flavor.log_explanation("why")
    with pytest.raises(InputError, match="must end in"):
        flavor.log_explanation(found, "why.txt")


def test_an_evaluation_is_logged_as_metrics_and_artifacts(explainer: Explainer, run: Any) -> None:
    denied = explainer.row_numbers[~explainer.outcomes][:6]
    batch = explainer.explain_many(denied, workers=1, progress=False)
    metrics = flavor.log_evaluation(batch)
    assert metrics["explanations/proven_share"] == 1.0
    assert flavor.log_evaluation(explainer.recheck(batch), prefix="recheck")["recheck/holds"] == 6.0
    assert flavor.log_evaluation(batch.compare(batch), prefix="drift")["drift/old_rules_breaks"] == 0.0
    stored = mlflow.get_run(run.info.run_id).data.metrics
    assert stored["explanations/explained"] == 6.0
    listed = {one.path for one in mlflow.MlflowClient().list_artifacts(run.info.run_id, "drift")}
    assert listed == {"drift/report.html", "drift/comparison.json"}
    with pytest.raises(InputError, match="a Batch, a Recheck"):
        flavor.log_evaluation(3)
