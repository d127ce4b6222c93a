"""Predicates of PMML: conditions of columns that are true, false or, where a value is missing, unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray, IntpArray
from ironrule.errors import describe_value
from ironrule.model.pmml.document import Element
from ironrule.model.pmml.expressions import COMPARISONS
from ironrule.model.pmml.fields import FieldPlan, find_missing

TRUE, FALSE, UNKNOWN = 1, 0, -1
PREDICATES = ("True", "False", "SimplePredicate", "SimpleSetPredicate", "CompoundPredicate")


@dataclass(frozen=True, slots=True)
class ConstantPredicate:
    """Always true, or always false."""

    holds: bool

    def evaluate(self, columns: Sequence[AnyArray], rows: IntpArray) -> IntpArray:  # noqa: ARG002
        """What it is for some rows."""
        return np.full(len(rows), TRUE if self.holds else FALSE)


@dataclass(frozen=True, slots=True)
class ComparisonPredicate:
    """A column compared with a value."""

    column: int
    operator: str
    value: Any

    def evaluate(self, columns: Sequence[AnyArray], rows: IntpArray) -> IntpArray:
        """What it is for some rows."""
        values = columns[self.column][rows]
        gone = find_missing(values)
        holds = np.full(len(rows), UNKNOWN)
        holds[~gone] = np.asarray(COMPARISONS[self.operator](values[~gone], self.value), dtype=np.bool_)
        return holds


@dataclass(frozen=True, slots=True)
class MissingPredicate:
    """Whether a column's value is missing."""

    column: int
    wanted: bool

    def evaluate(self, columns: Sequence[AnyArray], rows: IntpArray) -> IntpArray:
        """What it is for some rows."""
        return np.asarray(find_missing(columns[self.column][rows]) == self.wanted, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class SetPredicate:
    """Whether a column's value is one of some values; with ``inside`` False, whether it is none of them."""

    column: int
    values: frozenset[Any]
    inside: bool

    def evaluate(self, columns: Sequence[AnyArray], rows: IntpArray) -> IntpArray:
        """What it is for some rows."""
        values = columns[self.column][rows]
        holds = np.array([(value in self.values) == self.inside for value in values.tolist()], dtype=np.intp)
        return np.where(find_missing(values), UNKNOWN, holds.reshape(len(rows)))


@dataclass(frozen=True, slots=True)
class CompoundPredicate:
    """Several predicates: all, any, an odd number, or the first that is known."""

    operator: str
    parts: tuple[Predicate, ...]

    def evaluate(self, columns: Sequence[AnyArray], rows: IntpArray) -> IntpArray:
        """What it is for some rows."""
        answers = [part.evaluate(columns, rows) for part in self.parts]
        if self.operator == "surrogate":
            found = answers[0]
            for answer in answers[1:]:
                found = np.where(found == UNKNOWN, answer, found)
            return found
        unknown = np.any([answer == UNKNOWN for answer in answers], axis=0)
        if self.operator == "xor":
            odd = np.sum([answer == TRUE for answer in answers], axis=0) % 2
            return np.where(unknown, UNKNOWN, odd)
        deciding = FALSE if self.operator == "and" else TRUE
        decided = np.any([answer == deciding for answer in answers], axis=0)
        return np.where(decided, deciding, np.where(unknown, UNKNOWN, 1 - deciding))


Predicate = ConstantPredicate | ComparisonPredicate | MissingPredicate | SetPredicate | CompoundPredicate


def read_predicate(element: Element, resolve: Callable[[str, Element], int], plan: FieldPlan) -> Predicate:
    """The predicate that an element says."""
    if element.tag in ("True", "False"):
        return ConstantPredicate(element.tag == "True")
    if element.tag == "CompoundPredicate":
        operator = element.require("booleanOperator")
        if operator not in ("and", "or", "xor", "surrogate") or len(element.children) < 2:
            element.refuse(f"has booleanOperator={describe_value(operator)} and {len(element.children)} parts")
        element.require_only(*PREDICATES)
        return CompoundPredicate(operator, tuple(read_predicate(one, resolve, plan) for one in element.children))
    column = resolve(element.require("field"), element)
    kind = plan.columns[column].type
    if element.tag == "SimpleSetPredicate":
        inside = element.require("booleanOperator")
        array = element.find("Array")
        if inside not in ("isIn", "isNotIn") or array is None:
            element.refuse("must have booleanOperator isIn or isNotIn, and an Array")
        return SetPredicate(column, frozenset(kind.parse(text, array) for text in read_array(array)), inside == "isIn")
    operator = element.require("operator")
    if operator in ("isMissing", "isNotMissing"):
        return MissingPredicate(column, operator == "isMissing")
    if operator not in COMPARISONS:
        element.refuse(f"has operator={describe_value(operator)}, which is not understood")
    if not kind.is_number and operator not in ("equal", "notEqual"):
        element.refuse(f"compares texts by {operator}, which is not understood")
    return ComparisonPredicate(column, operator, kind.parse(element.require("value"), element))


def find_predicate(element: Element) -> Element:
    """The one predicate inside an element."""
    found = list(element.find_all(*PREDICATES))
    if len(found) != 1:
        element.refuse(f"must have one predicate, got {len(found)}")
    return found[0]


def read_array(element: Element) -> list[str]:
    """The entries of an Array: separated by blanks, in quotes where they hold some; \\" is a quote inside."""
    text, entries, place = element.text, list[str](), 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        quoted, entry = text[place] == '"', list[str]()
        place += quoted
        while place < len(text) and not (text[place] == '"' if quoted else text[place].isspace()):
            place += text[place : place + 2] == '\\"'
            entry.append(text[place])
            place += 1
        if quoted and place >= len(text):
            element.refuse("has a quote that is not closed")
        place += quoted
        entries.append("".join(entry))
    wanted = element.get("n")
    if wanted is not None and wanted != str(len(entries)):
        element.refuse(f"must have {describe_value(wanted)} entries, got {len(entries)}")
    return entries
