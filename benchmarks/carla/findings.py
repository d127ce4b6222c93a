"""Systematic faults in CARLA's models and stored answers, each counted anew from the data.

They are no fault of the methods: they say what stands behind some figures, here and in the paper.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.carla.feature_tweaks import list_trees, tweak_features
from benchmarks.carla.measures import Judge, summarize
from benchmarks.carla.models import ADULT_NUMBERS, CarlaModel
from benchmarks.carla.stored_answers import StoredAnswers, load_answers

EXCHANGED = ADULT_NUMBERS[4:]  # capital-loss and hours-per-week
PUT_RIGHT = "columns put right"  # FOCUS's answers with these two exchanged back
REPORTED = {
    "success": "success",
    "redundancy": "red",
    "violations": "viol",
    "l0": "l0",
    "l1": "l1",
    "l2": "l2",
    "yNN": "ynn",
}  # by our names, as measures.jsonl has them
Finding = dict[str, Any]


def list_findings(model: CarlaModel) -> list[Finding]:
    """What is odd about a model, and about the answers that CARLA gave for it."""
    findings = [_describe_approval(model)]
    if model.data == "adult" and model.backend == "sklearn":
        findings.append(_describe_thresholds(model))
    for answers in load_answers(model):
        findings += _describe_answers(model, answers)
    return findings


def _describe_approval(model: CarlaModel) -> Finding:
    """Whether the model approves anybody at all."""
    approved = model.approve(model.encoded)
    return {"subject": model.name, "what": "rows approved", "count": int(approved.sum()), "of": len(approved)}


def _describe_thresholds(model: CarlaModel) -> Finding:
    """How many thresholds of two columns lie halfway between two values of the other one, and not of their own."""
    first, second = (model.columns.index(name) for name in EXCHANGED)
    trees = [tree.tree_ for tree in model.pipeline[-1].estimators_]
    count = total = 0
    for own, other in ((first, second), (second, first)):
        thresholds = np.concatenate([tree.threshold[tree.feature == own] for tree in trees])
        total += len(thresholds)
        count += sum(
            lies_between_values(one, model.encoded[:, other]) and not lies_between_values(one, model.encoded[:, own])
            for one in thresholds
        )
    what = f"thresholds of {' and '.join(EXCHANGED)} that belong to the other column"
    return {"subject": model.name, "what": what, "count": count, "of": total}


def lies_between_values(threshold: float, column: np.ndarray) -> bool:
    """Whether a threshold is halfway between two neighbouring values of a column, as trees choose them."""
    values = np.unique(column)
    return bool(np.isclose((values[:-1] + values[1:]) / 2, threshold, rtol=0.0, atol=1e-7).any())


def _describe_answers(model: CarlaModel, answers: StoredAnswers) -> list[Finding]:
    judge, subject = Judge(model), f"{model.name}: {answers.method}"
    pairs = [(row, said) for row, said in zip(answers.rows, answers.answers, strict=True) if said is not None]
    measured = [one for one in (judge.measure(row, said) for row, said in pairs) if one is not None]
    changed = [one for one in measured if one.immutable_changed]
    counts = {
        "rows that the model approves already": (model.approve(answers.rows), answers.rows),
        "answers that the model denies": ([True] * (len(pairs) - len(measured)), pairs),
        "answers with a column outside the data's range": ([one.out_of_range > 0 for one in measured], measured),
        "answers with age or sex changed": ([True] * len(changed), measured),
        "of these, not seen as a violation": ([one.immutable_changed > one.violations for one in changed], changed),
        "answers whose l0 counts rounding": ([one.l0 > one.l0_with_tolerance for one in measured], measured),
        f"answers nearer with {' and '.join(EXCHANGED)} exchanged": (flag_exchanged(model, pairs), pairs),
    }
    lines = [
        {"subject": subject, "what": what, "count": int(np.count_nonzero(np.array(found, dtype=bool))), "of": len(of)}
        for what, (found, of) in counts.items()
    ]
    lines = [line for line in lines if line["count"]]
    lines += _describe_measures(model, answers, subject)
    return lines + (_describe_tweaks(model, answers, subject) if answers.method == "ft" else [])


def _describe_measures(model: CarlaModel, answers: StoredAnswers, subject: str) -> list[Finding]:
    """How many of the measures that CARLA reports of these answers come out the same here."""
    judge = Judge(model)
    own = summarize([judge.measure(*pair) for pair in zip(answers.rows, answers.answers, strict=True)])
    pairs = [(own[name], answers.reported[short]) for name, short in REPORTED.items() if short in answers.reported]
    same = sum(ours is not None and bool(np.isclose(ours, theirs, rtol=1e-6)) for ours, theirs in pairs)
    return [{"subject": subject, "what": "measures as CARLA reports them", "count": same, "of": len(pairs)}]


def _describe_tweaks(model: CarlaModel, answers: StoredAnswers, subject: str) -> list[Finding]:
    """Whether the answers are those of the algorithm by the letter, and what one more question would change."""
    trees = list_trees(model)
    literal = [tweak_features(model, trees, row) for row in answers.rows]
    same = sum(
        (said is None and own is None) or (said is not None and own is not None and np.allclose(said, own, atol=1e-5))
        for said, own in zip(answers.answers, literal, strict=True)
    )
    asked = [tweak_features(model, trees, row, asks_ensemble=True) for row in answers.rows]
    found = sum(one is not None for one in asked)
    return [
        {"subject": subject, "what": what, "count": int(count), "of": len(answers.rows)}
        for what, count in (
            ("rows with the answer, or none, of the algorithm by the letter", same),
            ("rows with an answer if the ensemble is asked, not one tree", found),
        )
    ]


def flag_exchanged(model: CarlaModel, pairs: list[tuple[np.ndarray, np.ndarray]]) -> list[bool]:
    """Which answers are nearer to their row with the values of two columns in each other's place."""
    places = [place for place, name in enumerate(model.columns) if name in EXCHANGED]
    return [
        bool(np.abs(said[places][::-1] - row[places]).sum() < np.abs(said - row)[places].sum()) for row, said in pairs
    ]
