"""What identifies a case in a report that somebody signs: the model and the data with their hashes, score and threshold
of the row, versions, when the report was made, and who asked for it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import ironrule
from ironrule.report.notice.language import load_language
from ironrule.results.explanation import Explanation
from ironrule.results.report_options import ReportOptions
from ironrule.rule.phrasing import format_outcome

Facts = list[tuple[str, str]]
NOT_RECORDED = "not recorded in the explanation"
CHUNK_BYTES = 1 << 20


def collect_case_facts(explanation: Explanation, options: ReportOptions, noun: str = "explanation") -> Facts:
    """The facts about one case; ``noun`` is what the report is about."""
    fields, background = options.get_fields(), explanation.background
    model = None if background is None else background.model
    libraries = () if model is None else model.libraries
    outcome, name = format_outcome(explanation.rule), explanation.rule.outcome
    outcome = outcome if explanation.labels.get_undesired(name) is None else f"{outcome} ({name})"
    facts = [("Outcome of the row", outcome), *collect_signing_facts(options, fields)]
    facts += [
        ("Model", NOT_RECORDED if model is None else model.type_name),
        ("Library of the model", ", ".join(f"{name} {version}" for name, version in libraries) or NOT_RECORDED),
        *describe_file("Model file", options.model_file),
        *describe_file("Data file", options.data_file),
        ("Past rows", f"{explanation.history_rows:,}"),
    ]
    if background is not None and background.data_digest is not None:
        facts.append(("Past rows (SHA-256 of their codes in the space)", background.data_digest))
    facts += _describe_score(explanation)
    return [*facts, *collect_version_facts(explanation, noun)]


def collect_signing_facts(options: ReportOptions, fields: dict[str, str]) -> Facts:
    """When a report was made, for whom, and under which reference."""
    reference = [("Reference", fields["reference"])] if "reference" in fields else []
    date = load_language("en").format_date(options.get_date())
    return [("Date of this report", date), ("Asked for by", fields.get("asked_by", "not stated")), *reference]


def _describe_score(explanation: Explanation) -> Facts:
    """The score of the row and its threshold, where the model is at hand and has scores."""
    background = explanation.background
    model = None if background is None else background.model
    if model is None:
        return [("Score of the row", NOT_RECORDED)]
    if model.score is None:
        return [("Score of the row", "none: the model gives labels alone")]
    unknown = "none named: the outcomes of past rows do not follow from the score alone"
    threshold = unknown if model.threshold is None else f"{model.threshold:.6g}"
    return [("Score of the row", f"{model.score:.6g} ({model.score_meaning})"), ("Threshold of the score", threshold)]


def collect_version_facts(explanation: Explanation, noun: str) -> Facts:
    """The libraries that made what a report is about, a ``noun``, and the version that made the report."""
    background = explanation.background
    libraries = () if background is None else background.libraries
    versions = ", ".join(f"{name} {version}" for name, version in libraries)
    return [
        ("Made with", versions or NOT_RECORDED),
        ("Report by", f"ironrule {ironrule.__version__}; it did not check the {noun} again"),
    ]


def describe_file(name: str, path: str | Path | None) -> Facts:
    """The name of a file, and the hash of what it holds now."""
    if path is None:
        return [(name, "not stated")]
    return [(name, str(path)), (f"{name} (SHA-256)", hash_file(Path(path)))]


def hash_file(path: Path) -> str:
    """The SHA-256 of a file, or why there is none."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while part := file.read(CHUNK_BYTES):
                digest.update(part)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return f"none: the file could not be read when this report was made ({reason})"
    return digest.hexdigest()
