"""MLflow: explainers as models with their own flavour, explanations as artifacts, evaluations as metrics.

    import ironrule.integrations.mlflow as ironrule_mlflow

    info = ironrule_mlflow.log_model(explainer, name="explainer")
    explainer = ironrule_mlflow.load_model(info.model_uri)
    table = mlflow.pyfunc.load_model(info.model_uri).predict(applicants)

A logged explainer is one file (:meth:`ironrule.Explainer.save`) beside the ``MLmodel`` that describes it: it opens
without the library of the model, and runs no code. As a ``python_function`` its ``predict`` gives a table with a row
per applicant: whether they are denied, and the rule, its verdict and what would have changed the outcome.

MLflow is an extra: ``pip install 'ironrule[mlflow]'``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ironrule
from ironrule.errors import InputError, MissingExtraError, describe_value
from ironrule.explain.explainer import Explainer
from ironrule.results.batch import Batch
from ironrule.results.comparison import BatchComparison
from ironrule.results.explanation import Explanation
from ironrule.results.judgement import Recheck
from ironrule.results.ladder import FORMAT_FIELD, Ladder
from ironrule.space.table import read_table

if TYPE_CHECKING:
    from mlflow.models import Model
    from mlflow.models.model import ModelInfo
    from pandas import DataFrame

FLAVOR_NAME = "ironrule"
MODEL_FILE = "explainer.ironrule"
DEFAULT_BUDGET = 10.0  # seconds per row of a prediction
TABLE_COLUMNS = ("denied", "rule", "verdict", "components", "shortest", "past_rows_covered", "changes", "document")


def _import_mlflow() -> Any:
    try:
        import mlflow
        import mlflow.models
        import mlflow.pyfunc
        import mlflow.tracking
        import mlflow.types
    except ImportError:
        raise MissingExtraError("mlflow", "mlflow", "logging to MLflow") from None
    return mlflow


def get_default_pip_requirements() -> list[str]:
    """What a logged explainer needs: Ironrule, and pandas for its table."""
    return [f"ironrule[pandas]=={ironrule.__version__}"]


def save_model(
    explainer: Explainer,
    path: str | Path,
    *,
    history: bool = True,
    mlflow_model: Model | None = None,
    pip_requirements: Sequence[str] | None = None,
    signature: Any = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write an explainer as an MLflow model to a folder; ``history=False`` leaves past rows out.

    A ``signature`` of your own should name the params ``budget`` and ``seed``: MLflow drops what it does not name.
    """
    mlflow = _import_mlflow()
    if not isinstance(explainer, Explainer):
        raise InputError(expected="explainer must be an Explainer", got=describe_value(explainer))
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    explainer.save(folder / MODEL_FILE, history=history)
    model = mlflow.models.Model() if mlflow_model is None else mlflow_model
    model.signature = _build_signature(mlflow) if signature is None else signature
    if metadata is not None:
        model.metadata = dict(metadata)
    requirements = get_default_pip_requirements() if pip_requirements is None else list(pip_requirements)
    (folder / "requirements.txt").write_text("".join(f"{one}\n" for one in requirements), encoding="utf-8")
    model.add_flavor(
        FLAVOR_NAME,
        data=MODEL_FILE,
        ironrule_version=ironrule.__version__,
        model_fingerprint=explainer.fingerprint,
        space_fingerprint=explainer.space.fingerprint,
        has_history=history,
        opens_without_model=explainer.unreadable_reason is None,
    )
    mlflow.pyfunc.add_to_model(model, loader_module=__name__, data=MODEL_FILE)
    model.save(str(folder / "MLmodel"))


def _build_signature(mlflow: Any) -> Any:
    """What ``predict`` takes besides rows; MLflow drops parameters that a signature does not name."""
    types = mlflow.types
    budget = types.ParamSpec("budget", types.DataType.double, DEFAULT_BUDGET)
    seed = types.ParamSpec("seed", types.DataType.long, 0)
    return mlflow.models.ModelSignature(params=types.ParamSchema([budget, seed]))


def log_model(explainer: Explainer, name: str = "explainer", *, history: bool = True, **options: Any) -> ModelInfo:
    """Log an explainer in the active run, or in a new one; what MLflow knows of it, with its ``model_uri``.

    ``options`` are those of :func:`save_model` and of ``mlflow.models.Model.log``, such as ``registered_model_name``.
    """
    mlflow = _import_mlflow()
    import ironrule.integrations.mlflow as flavor

    info: ModelInfo = mlflow.models.Model.log(
        artifact_path=None, name=name, flavor=flavor, explainer=explainer, history=history, **options
    )
    return info


def load_model(model_uri: str, *, model: Any = None, dst_path: str | None = None) -> Explainer:
    """The explainer that was logged or saved; ``model`` attaches the user's own model again."""
    mlflow = _import_mlflow()
    folder = mlflow.artifacts.download_artifacts(artifact_uri=model_uri, dst_path=dst_path)
    return Explainer.load(Path(folder) / MODEL_FILE, model=model)


def _load_pyfunc(path: str) -> ExplanationTableModel:
    """What MLflow calls to open an explainer as a function."""
    found = Path(path)
    return ExplanationTableModel(Explainer.load(found / MODEL_FILE if found.is_dir() else found))


class ExplanationTableModel:
    """An explainer whose ``predict`` gives a table of explanations."""

    def __init__(self, explainer: Explainer) -> None:
        self.explainer = explainer

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> DataFrame:
        """A row per applicant; ``params`` may have ``budget`` in seconds per row, and ``seed``."""
        import pandas as pd

        given = dict(params or {})
        unknown = sorted(set(given) - {"budget", "seed"})
        if unknown:
            raise InputError(expected="params may have budget and seed", got=", ".join(map(describe_value, unknown)))
        options = {"budget": float(given.get("budget", DEFAULT_BUDGET)), "seed": int(given.get("seed", 0))}
        table = read_table(model_input)
        rows = [self._explain(table.row(place), options) for place in range(len(table))]
        return pd.DataFrame(rows, columns=list(TABLE_COLUMNS))

    def _explain(self, row: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        known = {name: value for name, value in row.items() if name in self.explainer.space.columns}
        if self.explainer.is_desired(known):
            return dict.fromkeys(TABLE_COLUMNS) | {"denied": False}
        found = self.explainer.explain(known, **options)
        return {
            "denied": True,
            "rule": str(found.shown.rule),
            "verdict": type(found.verdict).__name__.lower(),
            "components": found.cardinality,
            "shortest": found.minimum,
            "past_rows_covered": found.shown.coverage,
            "changes": "; ".join(map(str, found.changes or ())),
            "document": found.to_json(),
        }


def log_explanation(explanation: Explanation | Ladder, artifact_file: str = "explanation.json") -> None:
    """Log an explanation or a ladder in the active run: its document, and a report beside it."""
    mlflow = _import_mlflow()
    if not isinstance(explanation, (Explanation, Ladder)):
        raise InputError(expected="an explanation or a ladder", got=describe_value(explanation))
    if not artifact_file.endswith(".json"):
        raise InputError(expected="artifact_file must end in .json", got=describe_value(artifact_file))
    mlflow.log_text(explanation.to_json(), artifact_file)
    mlflow.log_text(explanation.to_html("validator"), f"{artifact_file.removesuffix('.json')}.html")


def load_explanation(artifact_uri: str) -> Explanation | Ladder:
    """The explanation or the ladder that :func:`log_explanation` logged, such as ``runs:/RUN/explanation.json``."""
    mlflow = _import_mlflow()
    text = Path(mlflow.artifacts.download_artifacts(artifact_uri=artifact_uri)).read_text(encoding="utf-8")
    document = json.loads(text)
    is_ladder = isinstance(document, dict) and FORMAT_FIELD in document
    return Ladder.from_dict(document) if is_ladder else Explanation.from_dict(document)


def log_evaluation(result: Batch | Recheck | BatchComparison, prefix: str = "explanations") -> dict[str, float]:
    """Log what a batch, a recheck or a comparison says of a model, as metrics and artifacts; the metrics."""
    mlflow = _import_mlflow()
    if isinstance(result, Batch):
        metrics, page = _measure_batch(result), result.to_html() if len(result) else None
    elif isinstance(result, BatchComparison):
        metrics, page = _measure_comparison(result), result.to_html()
        mlflow.log_text(result.to_json(), f"{prefix}/comparison.json")
    elif isinstance(result, Recheck):
        counts = result.counts
        metrics, page = (
            {status: float(counts[status]) for status in ("holds", "breaks", "overturned", "undecided")},
            None,
        )
        mlflow.log_text(json.dumps(result.to_dict(), ensure_ascii=False), f"{prefix}/recheck.json")
    else:
        raise InputError(expected="a Batch, a Recheck or a BatchComparison", got=describe_value(result))
    if page is not None:
        mlflow.log_text(page, f"{prefix}/report.html")
    named = {f"{prefix}/{name}": value for name, value in metrics.items()}
    mlflow.log_metrics(named)
    return named


def _measure_batch(batch: Batch) -> dict[str, float]:
    count, verdicts = len(batch), batch.verdicts
    if not count:
        return {"explained": 0.0}
    columns = batch.columns("cardinality", "minimum")
    sizes = sorted(columns["cardinality"])
    return {
        "explained": float(count),
        "denied_share": count / max(1, count + batch.counts["desired"]),
        "proven_share": verdicts["proven"] / count,
        "shortest_share": sum(columns["minimum"]) / count,
        "median_components": float(sizes[len(sizes) // 2]),
        "most_components": float(sizes[-1]),
    }


def _measure_comparison(comparison: BatchComparison) -> dict[str, float]:
    counts = {f"old_rules_{status}": float(count) for status, count in comparison.rule_counts.items()}
    moved = max((abs(one.difference) for one in comparison.features), default=0.0)
    lengths = float(comparison.new.median_length - comparison.old.median_length)
    return {**counts, "largest_feature_change": moved, "median_components_change": lengths}
