"""The conditions of PMML files as trees: a condition is true, false or unknown, and the first that is true counts.

Trees, and the characteristics of scorecards, become a graph of questions first: each asks one field, and goes on in one
of three ways. The graph is then unfolded into a tree. On the way it is kept which values each field may still have,
between the constants that it is compared with and at them, so that ways that no value takes are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from ironrule.checker.arrays import AnyArray, BoolArray
from ironrule.checker.readers import boosted_trees
from ironrule.checker.readers.normal_form import NoReading, RegressionTree, Split
from ironrule.checker.readers.pmml_fields import (
    Constant,
    PmmlField,
    find_listed,
    find_missing,
    get_attribute,
    list_children,
)

COMPARISONS = {
    "lessThan": np.less,
    "lessOrEqual": np.less_equal,
    "greaterThan": np.greater,
    "greaterOrEqual": np.greater_equal,
    "equal": np.equal,
    "notEqual": np.not_equal,
}
FOR_MISSING = ("isMissing", "isNotMissing")
PREDICATES = ("True", "False", "SimplePredicate", "SimpleSetPredicate", "CompoundPredicate")
TRUE, FALSE, UNKNOWN = 1, 0, -1
MAX_NODES = 1 << 17  # of one tree
ARRAY_ENTRY = re.compile(r'"((?:[^"\\]|\\")*)"|([^\s"\\]+)')


@dataclass(frozen=True, slots=True)
class Question:
    """A comparison of one field with a constant or a set of them."""

    field: PmmlField
    operator: str
    constants: frozenset[Constant] = frozenset()

    def judge(self, values: AnyArray, constants: frozenset[Constant] | None = None) -> AnyArray:
        """What the comparison is for values of the field: TRUE, FALSE or UNKNOWN."""
        missing, listed = find_missing(values), self.constants if constants is None else constants
        if self.operator in FOR_MISSING:
            return np.where(missing == (self.operator == "isMissing"), TRUE, FALSE)
        if self.operator in ("isIn", "isNotIn"):
            holds = find_listed(values, listed) == (self.operator == "isIn")
        else:
            (constant,) = listed
            holds = np.asarray(COMPARISONS[self.operator](values, constant), dtype=np.bool_)
        return np.where(missing, UNKNOWN, holds)


@dataclass(frozen=True, slots=True)
class QuestionSplit:
    """Left for some of the answers to a question."""

    question: Question
    left: frozenset[int]

    @property
    def column(self) -> int:
        return self.question.field.column

    @property
    def turns_once(self) -> bool:
        """Of numbers in order a comparison turns once, and whether they are missing never."""
        asked = self.question
        return asked.field.ordered and asked.operator not in ("equal", "notEqual", "isIn", "isNotIn")

    def goes_left(self, values: AnyArray) -> BoolArray:
        """Which of these values of the column go left."""
        return np.isin(self.question.judge(self.question.field.compute(values)), list(self.left))


@dataclass(frozen=True, slots=True)
class MissingRefused:
    """Left for every value; missing ones are refused, for which the file gives no prediction."""

    field: PmmlField
    turns_once: bool = True

    @property
    def column(self) -> int:
        return self.field.column

    def goes_left(self, values: AnyArray) -> BoolArray:
        """All of them."""
        if find_missing(self.field.compute(values)).any():
            raise NoReading("the file gives no prediction where a value is missing")
        return np.ones(len(values), dtype=np.bool_)


Ways = tuple[int, int, int]  # where to go on if true, if false, if unknown


@dataclass(slots=True)
class QuestionGraph:
    """Numbered steps: a question with its ways, or an answer; equal steps have one number. The answer None is that
    there is no prediction.
    """

    find: Callable[[str], Any]  # a field by its name
    steps: list[tuple[Question, Ways] | Hashable] = field(default_factory=list)
    _numbers: dict[Hashable, int] = field(default_factory=dict)

    def answer(self, key: Hashable) -> int:
        """The step that answers."""
        return self._number(("answer", key))

    def choose(self, question: Question, ways: Ways) -> int:
        """The step that goes on in one of three ways by a question."""
        return self._number((question, ways)) if len(set(ways)) > 1 else ways[0]

    def _number(self, step: Hashable) -> int:
        if step not in self._numbers:
            self._numbers[step] = len(self.steps)
            self.steps.append(step)
        return self._numbers[step]

    def ask(self, predicate: Element, ways: Ways) -> int:
        """The step that goes on in one of three ways by a condition."""
        key = (id(predicate), ways)
        if key not in self._numbers:
            self._numbers[key] = self._ask(predicate, ways)
        return self._numbers[key]

    def _ask(self, predicate: Element, ways: Ways) -> int:
        true, false, unknown = ways
        if predicate.tag in ("True", "False"):
            return true if predicate.tag == "True" else false
        if predicate.tag != "CompoundPredicate":
            return self.choose(self._read_question(predicate), ways)
        operator = get_attribute(predicate, "booleanOperator")
        parts = list_children(predicate, *PREDICATES)[::-1]
        # what is to be done after all parts: if nothing was unknown so far, and if something was
        clean, other = {"and": (true, unknown), "or": (false, unknown), "xor": (false, true)}.get(operator, ways[1:])
        for part in parts:
            if operator == "and":
                clean, other = self.ask(part, (clean, false, other)), self.ask(part, (other, false, other))
            elif operator == "or":
                clean, other = self.ask(part, (true, clean, other)), self.ask(part, (true, other, other))
            elif operator == "xor":  # here by whether an odd number was true
                clean, other = self.ask(part, (other, clean, unknown)), self.ask(part, (clean, other, unknown))
            elif operator == "surrogate":
                unknown = clean = self.ask(part, (true, false, unknown))
            else:
                raise NoReading(f"the booleanOperator {operator} is not read")
        return clean

    def _read_question(self, predicate: Element) -> Question:
        found = self.find(get_attribute(predicate, "field"))
        if not isinstance(found, PmmlField) or found.error or found.relative_error:
            raise NoReading("a condition on a computed number is not read")
        if predicate.tag == "SimpleSetPredicate":
            operator = get_attribute(predicate, "booleanOperator")
            (array,) = list_children(predicate, "Array")
            constants = frozenset(found.parse(text) for text in _read_array(array.text or ""))
            known = operator in ("isIn", "isNotIn")
        else:
            operator = get_attribute(predicate, "operator")
            texts = () if operator in FOR_MISSING else (get_attribute(predicate, "value"),)
            constants = frozenset(map(found.parse, texts))
            known = operator in (FOR_MISSING if not texts else COMPARISONS)
            known = known and (found.kind == "number" or operator in (*FOR_MISSING, "equal", "notEqual"))
        if not known:
            raise NoReading(f"the operator {operator} on a field of the kind {found.kind} is not read")
        return Question(found, operator, constants)

    def unfold(self, root: int) -> tuple[RegressionTree, list[Any]]:
        """The tree from a step on; its leaves have places in the list of answers."""
        return _Unfolding(self, root).build()


def _read_array(text: str) -> list[str]:
    rest = ARRAY_ENTRY.sub("", text)
    if rest.strip():
        raise NoReading(f"the array {text!r} is not read")
    return [found[2] if found[2] is not None else found[1].replace('\\"', '"') for found in ARRAY_ENTRY.finditer(text)]


Possible = tuple[int, ...]  # per field the values that it may have, as bits
Place = tuple[int, Possible]


class _Unfolding:
    """One graph of questions on its way to a tree."""

    def __init__(self, graph: QuestionGraph, root: int) -> None:
        self.graph, self.root, self.nodes = graph, root, 0
        self.answers: list[Hashable] = []
        reached, waiting = {root}, [root]
        while waiting:
            step: Any = graph.steps[waiting.pop()]
            new = set() if step[0] == "answer" else set(step[1]) - reached
            reached |= new
            waiting += new
        steps: list[Any] = [graph.steps[number] for number in reached]
        questions = {step[0] for step in steps if step[0] != "answer"}
        self.fields = list({question.field: None for question in sorted(questions, key=lambda one: one.field.column)})
        self.full: list[int] = []
        self.masks: dict[Question, tuple[int, dict[int, int]]] = {}
        for place, one in enumerate(self.fields):
            self._tabulate(place, [question for question in questions if question.field == one])

    def _tabulate(self, place: int, questions: list[Question]) -> None:
        """Every question of a field for values that stand for all: the constants, one beyond and between each, and
        missing as the last.
        """
        constants = sorted(set[Any]().union(*(question.constants for question in questions)))
        if self.fields[place].kind == "number":  # constants by their ranks, which leave room between them
            values = np.array([*range(2 * len(constants) + 1), np.nan], dtype=np.float64)
            ranks: dict[Constant, Constant] = {constant: 2.0 * rank + 1 for rank, constant in enumerate(constants)}
        else:
            others = (
                ["false", "true"]
                if self.fields[place].kind == "truth"
                else [*constants, "".join(map(str, constants)) + "?"]
            )
            values, ranks = np.array([*others, None], dtype=object), dict(zip(constants, constants, strict=True))
        self.full.append((1 << len(values)) - 1)
        for question in questions:
            truths = question.judge(values, frozenset(ranks[constant] for constant in question.constants))
            self.masks[question] = place, {one: _to_bits(truths == one) for one in (TRUE, FALSE, UNKNOWN)}

    def build(self) -> tuple[RegressionTree, list[Any]]:
        tree = boosted_trees.build_tree((self.root, tuple(self.full)), self._inspect)
        return tree, self.answers

    def _settle(self, number: int, possible: Possible) -> int:
        """The first step from here on that is not decided."""
        while (step := self._get(number))[0] != "answer":
            place, masks = self.masks[step[0]]
            open_ways = [way for way, mask in zip(step[1], masks.values(), strict=True) if mask & possible[place]]
            if len(open_ways) > 1:
                break
            number = open_ways[0]
        return number

    def _get(self, number: int) -> Any:
        return self.graph.steps[number]

    def _inspect(self, node: Place) -> boosted_trees.InnerNode[Place] | float:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise NoReading("its conditions make too large a tree")
        number, possible = node
        while True:
            number = self._settle(number, possible)
            step = self._get(number)
            if step[0] == "answer":
                return self._answer(step[1], possible)
            place, masks = self.masks[step[0]]
            groups: dict[int, tuple[int, set[int]]] = {}  # per step where it goes on, its values and truths
            for way, (truth, mask) in zip(step[1], masks.items(), strict=True):
                if met := mask & possible[place]:
                    target = self._settle(way, (*possible[:place], met, *possible[place + 1 :]))
                    before, truths = groups.get(target, (0, set[int]()))
                    groups[target] = before | met, truths | {truth}
            if len(groups) > 1:
                break
            number = next(iter(groups))
        (left, (here, truths)), *others = groups.items()
        rest = possible[place] & ~here
        right = others[0][0] if len(others) == 1 else number
        before_it, behind = possible[:place], possible[place + 1 :]
        ways = (left, (*before_it, here, *behind)), (right, (*before_it, rest, *behind))
        return QuestionSplit(step[0], frozenset(truths)), *ways

    def _answer(self, answer: Hashable, possible: Possible) -> boosted_trees.InnerNode[Place] | float:
        if answer is not None:
            self.answers.append(answer)
            return float(len(self.answers) - 1)
        for one, full, bits in zip(self.fields, self.full, possible, strict=True):
            if bits == (full + 1) >> 1:  # the last value alone, missing: none has it, or the split refuses it
                return _refuse(one, self.graph.answer("none"), possible)
        raise NoReading("the file may give no prediction")


def _refuse(refused: PmmlField, answer: int, possible: Possible) -> boosted_trees.InnerNode[Place]:
    split: Split = MissingRefused(refused)
    return split, (answer, possible), (answer, possible)


def _to_bits(flags: BoolArray) -> int:
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")
