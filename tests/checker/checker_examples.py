"""Explanations to check, and the models they are about: all made by hand, so that they are the same on every machine.

``python tests/checker/checker_examples.py`` writes the corpus in ``certificates/`` anew: good documents, the same with
one false claim each and a fresh digest, and malformed ones.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from handmade_models import NETWORK, SLOPES, TIES, bank, feasible_rows, linear, rows

from ironrule import Checker, Explainer
from ironrule.verdict.digest import add_digest

CORPUS = Path(__file__).parent / "certificates"


@dataclass(frozen=True)
class Example:
    """A model, its data, and what is asked about it."""

    model: Any
    data: np.ndarray
    row: int
    given: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    models: tuple[Any, ...] = ()

    def explainer(self) -> Explainer:
        return Explainer(self.model, self.data, constraints=self.constraints, models=self.models, **self.given)

    def checker(self) -> Checker:
        return Checker(self.model, self.data, constraints=self.constraints, models=self.models)

    def document(self) -> dict[str, Any]:
        made = self.explainer().explain(self.row, **self.asked).to_dict()
        quiet = {"seconds": 0.0, "operator_seconds": {}, "compile_seconds": 0.0}
        return add_digest(json.loads(json.dumps(made)) | {"statistics": made["statistics"] | quiet})


CLASSES = [[1.0, 0.0, -1.0], [-1.0, 1.0, 0.5], [0.0, -1.0, 1.0]]
OTHER = linear([[0.5, 1.0, 0.5, 1.0]], [-2.5])
EXAMPLES = {
    "linear": Example(linear(SLOPES, [-2.0]), rows(4, 3, 3, 2), 20),
    "tied": Example(linear([[0.5, -0.5, 1.0]], [-1.0]), rows(4, 3, 3), 1),  # exact ties, which its reading leaves open
    "several classes": Example(linear(CLASSES, [0.1, 0.2, 0.0]), rows(3, 3, 3), 5, {"desired": 0}),
    "threshold": Example(linear(SLOPES, [-1.0]), rows(4, 3, 3, 2), 20, {"desired": 1, "threshold": 0.75}),
    "margin": Example(linear(SLOPES, [-2.0]), rows(4, 3, 3, 2), 20, {"margin": 0.03125}),
    "versions": Example(linear(SLOPES, [-2.0]), rows(4, 3, 3, 2), 20, models=(OTHER,)),
    "network": Example(NETWORK, rows(5, 4, 4), 46),
    "everyone": Example(linear([[0.1, 0.1]], [-5.0]), rows(3, 3), 4),
    "asked": Example(bank, rows(4, 3, 3), 4),
    "constrained": Example(linear(SLOPES, [-2.0]), feasible_rows(4, 3, 3, 2), 25, constraints=(TIES,)),
    "permitted": Example(
        linear(SLOPES, [-2.0]), rows(4, 3, 3, 2), 20,
        asked={"require": ["x1"], "forbid": ["x0 >="], "weights": {"x0": 2.5, "x2 >=": 0.75}},
    ),
    "several rules": Example(bank, rows(4, 3, 3), 4, asked={"algorithm": "genetic_cf", "k": 3}),
    "refuted": Example(bank, rows(4, 3, 3), 4, asked={"forbid": ["x0", "x2"]}),
}  # fmt: skip


Change = Callable[[dict[str, Any]], Any]


def _put(*path: Any) -> Change:
    """Put the last thing at the place that the others name."""
    *way, last, value = path

    def change(document: dict[str, Any]) -> None:
        for step in way:
            document = document[step]
        document[last] = value

    return change


def _wider_box(document: dict[str, Any]) -> None:
    """Claim the proof for everyone: the rule without its components."""
    rule = document["rules"][0]
    rule["rule"]["components"].clear()
    rule["coverage"], document["weight"], document["lower_bound"] = document["history_rows"], 0.0, 0.0
    certificate = rule["verdict"]["certificate"]
    certificate["low"] = [0] * len(certificate["low"])
    certificate["high"] = [3, 2, 2, 1]


WRONG: dict[str, tuple[str, Change, str]] = {
    "a rule that has exceptions": ("linear", _wider_box, "rule: verdict"),
    "a component too few": (
        "linear", lambda document: document["rules"][0]["rule"]["components"].pop(), "rule: verdict"
    ),
    "a cover of another box": (
        "linear", lambda d: d["rules"][0]["verdict"]["certificate"]["low"].__setitem__(0, 3), "rule: verdict"
    ),
    "a tree that ends early": (
        "linear",
        lambda d: d["rules"][0]["verdict"]["certificate"]["covers"][0]["tree"].__setitem__(slice(None), []),
        "rule: verdict",
    ),
    "no cover at all": ("linear", _put("rules", 0, "verdict", "certificate", "covers", []), "rule: verdict"),
    "a cover of a network that closes too much": (
        "network",
        lambda d: d["rules"][0]["verdict"]["certificate"].update(low=[0, 0, 0], high=[4, 3, 3]),
        "rule: verdict",
    ),
    "a network's rule without a component": (
        "network", lambda document: document["rules"][0]["rule"]["components"].pop(), "rule: verdict"
    ),
    "fewer points than there are": ("asked", _put("rules", 0, "verdict", "certificate", "points", 1), "rule: verdict"),
    "another certificate's model": (
        "linear", _put("rules", 0, "verdict", "certificate", "model", "0" * 64), "rule: verdict"
    ),
    "more models than there are": ("versions", _put("model_count", 3), "models"),
    "something undecided of no component": ("linear", _put("undecided_components", [9]), "needed components"),
    "a bound too high": ("linear", _put("lower_bound", 99.0), "lower bound"),
    "witnesses that need less": ("linear", lambda document: document["witnesses"].pop(), "lower bound"),
    "a witness that is denied": ("linear", lambda d: d["witnesses"].append([0, 2, 0, 0]), "lower bound"),
    "a witness outside the space": ("linear", lambda d: d["witnesses"].append([0, 2, 0, 7]), "lower bound"),
    "a witness that cannot occur": ("constrained", lambda d: d["witnesses"].append([3, 0, 2, 1]), "lower bound"),
    "another weight": ("permitted", _put("weight", 1.0), "weight"),
    "another coverage": ("linear", _put("rules", 0, "coverage", 1), "rule: coverage"),
    "more past rows": ("linear", _put("history_rows", 1000), "past rows"),
    "another outcome": ("linear", _put("rules", 0, "rule", "outcome", "1"), "rule"),
    "an instance that is approved": ("asked", _put("instance", "x2", 0.0), "instance"),
    "an instance outside the space": ("linear", _put("instance", "x0", 0.5), "instance"),
    "a counterfactual that is denied": (
        "linear", lambda d: d["counterfactuals"][0].update(values=d["instance"], changes=[]), "counterfactuals"
    ),
    "changes that lead elsewhere": ("linear", lambda d: d["counterfactuals"][0]["changes"].pop(), "counterfactuals"),
    "an operator turned round": ("linear", _put("rules", 0, "rule", "components", 0, "op", "=="), "rule"),
    "a forbidden component": ("linear", _put("restrictions", "forbid", ["x0", "x1", "x2", "x3"]), "rule"),
    "a wider rule that has exceptions": (
        "linear", lambda d: d["wider"]["rule"]["components"][0].update(value=3.0), "wider rule: verdict"
    ),
    "nothing behind a bound": ("linear", lambda d: d["wider_witnesses"].clear(), "widest"),
    "nothing behind some bounds": ("linear", lambda d: d["wider_witnesses"].__delitem__(slice(1, None)), "widest"),
    "a required component left out": ("linear", _put("restrictions", "require", ["x1"]), "rule"),
    "the widest rule of none": ("asked", _put("wider_is_maximal", True), "widest"),
    "no margin on scores": ("margin", _put("lower_bound", 9.0), "lower bound"),
    "one model of two": (
        "versions", lambda d: d["rules"][0]["verdict"]["certificate"]["covers"].pop(), "rule: verdict"
    ),
    "an exception that is none": (
        "refuted",
        lambda d: d["rules"][0]["verdict"]["counterfactual"].update(values=d["instance"], changes=[]),
        "rule: verdict",
    ),
    "an exception elsewhere": (
        "refuted",
        lambda d: d["rules"][0]["verdict"].update(
            counterfactual={
                "values": {"x0": 2.0, "x1": 0.0, "x2": 1.0},
                "changes": [
                    {"feature": "x0", "before": 0.0, "after": 2.0}, {"feature": "x1", "before": 1.0, "after": 0.0}
                ],
            }
        ),
        "rule: verdict",
    ),
}  # fmt: skip

MALFORMED: dict[str, Callable[[str], str]] = {
    "cut short": lambda text: text[: len(text) // 2],
    "empty": lambda _: "",
    "a list": lambda text: f"[{text}]",
    "another format": lambda text: text.replace('"format": 5', '"format": 1'),
    "a format that is no number": lambda text: text.replace('"format": 5', '"format": true'),
    "a field twice": lambda text: text.replace('"history_rows"', '"weight": 1.0, "history_rows"'),
    "a field too many": lambda text: text.replace('"history_rows"', '"author": "me", "history_rows"'),
    "a field too few": lambda text: text.replace('"unreadable_reason": null,', ""),
    "not a number": lambda text: text.replace('"lower_bound": ', '"lower_bound": NaN, "x": '),
    "infinity": lambda text: text.replace('"margin": 0.0', '"margin": 1e999'),
    "a number as text": lambda text: text.replace('"history_rows": ', '"history_rows": "7", "x": '),
    "a truth as a number": lambda text: text.replace('"pieces": 1', '"pieces": true'),
    "another method": lambda text: text.replace('"method": "cover"', '"method": "belief"'),
    "another version": lambda text: text.replace('"format": 2', '"format": 3'),
    "another verdict": lambda text: text.replace('"kind": "proven"', '"kind": "certain"'),
    "another operator": lambda text: text.replace('"op": ">="', '"op": ">"').replace('"op": "<="', '"op": "<"'),
    "no rules": lambda text: json.dumps(json.loads(text) | {"rules": []}),
    "very deep": lambda text: text.replace('"witnesses": [', '"witnesses": [' + "[" * 5_000),
}  # fmt: skip


def wrong(name: str, good: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A good document with one false claim, and a digest as if it had been written so."""
    base, change, _ = WRONG[name]
    document = copy.deepcopy(good[base])
    change(document)
    return add_digest(document)


def write() -> None:
    """Write the corpus."""
    good = {name: example.document() for name, example in EXAMPLES.items()}
    for folder in ("good", "wrong", "malformed"):
        (CORPUS / folder).mkdir(parents=True, exist_ok=True)
        for old in (CORPUS / folder).glob("*.json"):
            old.unlink()
    for name, document in good.items():
        (CORPUS / "good" / f"{name}.json").write_text(json.dumps(document) + "\n")
    for name in WRONG:
        (CORPUS / "wrong" / f"{name}.json").write_text(json.dumps(wrong(name, good)) + "\n")
    for name, change in MALFORMED.items():
        (CORPUS / "malformed" / f"{name}.json").write_text(change(json.dumps(good["linear"])))


if __name__ == "__main__":
    write()
