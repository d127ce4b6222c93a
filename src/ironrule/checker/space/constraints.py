"""The constraint language: one condition on a point ``cf`` of the space; docs/constraints.md is its definition.

    statement   if or then statement | or
    or          and (or and)*
    and         not (and not)*
    not         not not | compare
    compare     sum ((== | != | < | <= | > | >=) sum)* | sum [not] in (sum, ...)
    sum         product ((+ | -) product)*
    product     factor ((* | /) factor)*
    factor      - factor | number | string | true | false | missing | cf.name | x["any name"] | ( statement )

A parser by recursive descent makes a tree. Binding it to the features of a space checks that every comparison makes
sense, and makes a function on codes of it. For a comparison values become 64-bit floats, by code: numbers stand for
themselves, categories for their position in the domain, dates for their rank among the dates compared, missing for NaN.
So a comparison with a missing value is false, as the language says, but between two features that are both missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from functools import reduce
from itertools import chain, pairwise
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ironrule.checker.arrays import BoolArray, IntegerArray
from ironrule.errors import ConstraintError, describe_value

if TYPE_CHECKING:
    from ironrule.checker.space.space import CheckerFeature, CheckerSpace


MAX_CHARACTERS = 100_000
MAX_TOKENS = 50_000
MAX_NESTING = 32  # nested parentheses, ``not``, ``-`` and ``if``
_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_TOKEN = re.compile(
    rf"""\s*(?:(?P<number>{_DIGITS}(?:\.{_DIGITS})?(?:[eE][+-]?{_DIGITS})?(?!\w))
       | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
       | (?P<word>[^\W\d]\w*)
       | (?P<symbol>==|!=|<=|>=|[-+*/<>()\[\],.])
       | (?P<end>\Z))""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}
_CONSTANTS = {"true": True, "false": False, "missing": None}
_RELATIONS: dict[str, Any] = {"==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_FEATURE_KINDS = ("feature", "row")
_VALUE_KINDS = ("feature", "row", "literal", "calculation")
Measurement = Callable[[IntegerArray], Any]  # a number for every point, or one for all


class FormulaNode(NamedTuple):
    """A part of a constraint. Its kind is ``or``, ``and``, ``not`` or ``compare`` (a formula, with its operators as
    value), or ``calculation`` (with its operators), ``feature`` or ``row`` (the name of a feature of the point, or of
    the row that is changed) or ``literal`` (a value; None is missing).
    """

    kind: str
    parts: tuple[FormulaNode, ...]
    value: Any
    place: int  # in the text


@dataclass(frozen=True, slots=True, eq=False)
class PointPredicate:
    """A constraint bound to a space: says of every point, a row of codes, whether it holds."""

    columns: tuple[int, ...]  # the features that it reads
    evaluate: Callable[[IntegerArray], BoolArray]

    def __call__(self, points: IntegerArray) -> BoolArray:
        with np.errstate(all="ignore"):
            return np.array(np.broadcast_to(self.evaluate(points), len(points)), dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class ParsedConstraint:
    """A constraint: its text, what it says, the features of ``cf`` that it names, and whether it names ``x``."""

    text: str
    formula: FormulaNode
    features: frozenset[str]
    mentions_instance: bool

    def bind(self, space: CheckerSpace, row: IntegerArray | None = None) -> PointPredicate:
        """What it says about points of a space, or about changes of a row of it; raises ConstraintError if it names
        ``x`` and there is no row, names features that the space does not have, or compares what cannot be compared.
        """
        if self.mentions_instance and row is None:
            got = f"x in {self.text[:200]!r}"
            raise ConstraintError(expected="a constraint on the space must be about cf alone", got=got)
        places = {feature.name: (place, feature) for place, feature in enumerate(space.features)}
        test = _Binder(self.text, places, row).bind(self.formula)
        return PointPredicate(tuple(sorted(places[name][0] for name in self.features)), test)


def parse_constraint(text: str) -> ParsedConstraint:
    """Read one constraint; raises ConstraintError, naming the place, if it is malformed.

    >>> sorted(parse_constraint("if cf.job == 'cook' then 18 <= cf.age < 65").features)
    ['age', 'job']
    """
    if not isinstance(text, str) or len(text) > MAX_CHARACTERS:
        got = f"{len(text):,} characters" if isinstance(text, str) else describe_value(text)
        expected = f"a constraint must be a string of at most {MAX_CHARACTERS:,} characters"
        raise ConstraintError(expected=expected, got=got)
    parser = _Parser(text)
    formula = parser.check(parser.statement(), term=False)
    if parser.kind != "end":
        raise parser.error("expected an operator, `and`, `or` or the end of the constraint")
    return ParsedConstraint(text, formula, frozenset(parser.names["cf"]), bool(parser.names["x"]))


def _build_located_error(text: str, place: int, expected: str, got: str) -> ConstraintError:
    near = text[max(0, place - 30) : place + 50]
    return ConstraintError(expected=expected, got=f"{got} (character {place + 1}, in {near!r})")


class _Parser:
    """A method for every level of the grammar, each reading on from where the last one stopped."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: dict[str, set[str]] = {"cf": set(), "x": set()}
        self.kind = self.token = ""
        self.place = self.next = self.depth = self.count = 0
        self.advance()

    def advance(self) -> str:
        """Step over a token, which is returned; ``kind``, ``token`` and ``place`` are those of the next one."""
        self.count += 1
        if self.count > MAX_TOKENS:
            expected = f"a constraint must have at most {MAX_TOKENS:,} words, numbers and operators"
            raise ConstraintError(expected=expected, got="more")
        passed, found = self.token, _TOKEN.match(self.text, self.next)
        if found is None or found.lastgroup is None:
            rest = self.text[self.next :].lstrip()
            expected = "expected a word, a number, a quoted string or an operator"
            raise _build_located_error(self.text, len(self.text) - len(rest), expected, f"`{rest[:1]}`")
        self.kind, self.token = found.lastgroup, found[found.lastgroup]
        self.place, self.next = found.start(found.lastgroup), found.end()
        return passed

    def take(self, *tokens: str) -> str:
        """Step over the next token if it is one of these. A string keeps its quotes, so it is never taken for one."""
        return self.advance() if self.token in tokens else ""

    def expect(self, token: str) -> None:
        if not self.take(token):
            raise self.error(f"expected `{token}`")

    def error(self, expected: str, got: str = "") -> ConstraintError:
        found = f"`{self.token[:40]}`" if self.token else "the end"
        return _build_located_error(self.text, self.place, expected, got or found)

    def check(self, node: FormulaNode, term: bool) -> FormulaNode:
        """The node, if it is a value where one must stand, or a condition where one must stand."""
        if (node.kind in _VALUE_KINDS) != term:
            expected, got = ("a value", "a condition") if term else ("a condition", "a value")
            raise _build_located_error(self.text, node.place, f"expected {expected}", got)
        return node

    def nest(self, level: Callable[[], FormulaNode]) -> FormulaNode:
        """Read one level deeper."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise self.error(f"a constraint must be nested at most {MAX_NESTING} deep", "a deeper one")
        inside = level()
        self.depth -= 1
        return inside

    def chain(self, kind: str, operators: Iterable[str], level: Callable[[], FormulaNode]) -> FormulaNode:
        """Parts with operators between them; the part itself if there is only one."""
        parts, used = [level()], list[str]()
        while symbol := self.take(*operators):
            used.append(symbol)
            parts.append(level())
        if not used:
            return parts[0]
        checked = tuple(self.check(part, term=kind not in ("or", "and")) for part in parts)
        return FormulaNode(kind, checked, tuple(used), parts[0].place)

    def statement(self) -> FormulaNode:
        return self.nest(self.implication) if self.take("if") else self.disjunction()

    def implication(self) -> FormulaNode:
        condition = self.check(self.disjunction(), term=False)
        self.expect("then")
        opposite = FormulaNode("not", (condition,), None, condition.place)
        return FormulaNode("or", (opposite, self.check(self.statement(), term=False)), None, condition.place)

    def disjunction(self) -> FormulaNode:
        return self.chain("or", ("or",), lambda: self.chain("and", ("and",), self.negation))

    def negation(self) -> FormulaNode:
        place = self.place
        if self.take("not"):
            return FormulaNode("not", (self.check(self.nest(self.negation), term=False),), None, place)
        left = self.chain("compare", _RELATIONS, self.sum)
        opposite = self.take("not")
        if opposite:
            self.expect("in")
        elif not self.take("in"):
            return left
        self.expect("(")
        items = [self.sum()]
        while self.take(",") and self.token != ")":
            items.append(self.sum())
        self.expect(")")
        pairs = [(self.check(left, term=True), self.check(item, term=True)) for item in items]
        tests = tuple(FormulaNode("compare", pair, ("==",), pair[1].place) for pair in pairs)
        inside = FormulaNode("or", tests, None, place)
        return FormulaNode("not", (inside,), None, place) if opposite else inside

    def sum(self) -> FormulaNode:
        return self.chain("calculation", ("+", "-"), lambda: self.chain("calculation", ("*", "/"), self.factor))

    def factor(self) -> FormulaNode:
        place = self.place
        if self.take("-"):
            operand = self.check(self.nest(self.factor), term=True)
            if operand.kind == "literal" and _is_number(operand.value):
                return FormulaNode("literal", (), -operand.value, place)
            return FormulaNode("calculation", (FormulaNode("literal", (), -1, place), operand), ("*",), place)
        if self.take("("):
            inside = self.nest(self.statement)
            self.expect(")")
            return inside
        if subject := self.take("cf", "x"):
            name = self.name()
            self.names[subject].add(name)
            return FormulaNode("feature" if subject == "cf" else "row", (), name, place)
        if self.token in _CONSTANTS:
            return FormulaNode("literal", (), _CONSTANTS[self.advance()], place)
        return FormulaNode("literal", (), self.number() if self.kind == "number" else self.string("a value"), place)

    def name(self) -> str:
        """A feature's name: ``["any text"]``, or parts after dots, each a word or a string."""
        if self.take("["):
            name = self.string("a name in quotes")
            self.expect("]")
            return name
        parts = list[str]()
        while not parts or self.token == ".":
            self.expect(".")
            parts.append(self.advance() if self.kind == "word" else self.string("a name"))
        return ".".join(parts)

    def string(self, what: str) -> str:
        if self.kind != "string":
            raise self.error(f"expected {what}")
        if not set(re.findall(r"\\(.)", self.token)) <= set(_ESCAPES):
            raise self.error(f"the escapes in a string must be a backslash and one of {' '.join(_ESCAPES)}")
        return re.sub(r"\\(.)", lambda escape: _ESCAPES[escape[1]], self.advance()[1:-1])

    def number(self) -> int | float:
        """An int where it is written as one; leading zeros go first, since Python refuses to read too many digits."""
        if float(self.token) == float("inf"):
            raise self.error("a number must be at most about 1.8e308", "a larger one")
        digits = self.advance().replace("_", "")
        return int(digits.lstrip("0") or "0") if digits.isdigit() else float(digits)


@dataclass(frozen=True, slots=True)
class _Binder:
    """Makes functions on codes of the tree of one text; features are given by name, with their positions."""

    text: str
    features_by_name: dict[str, tuple[int, CheckerFeature]]
    row: IntegerArray | None = None

    def bind(self, node: FormulaNode) -> Callable[[IntegerArray], BoolArray]:
        """Where a formula holds: a truth value for every point, or one for all."""
        if node.kind == "compare":
            pairs = zip(node.value, pairwise(node.parts), strict=True)
            tests = [self.bind_comparison(left, how, right) for how, (left, right) in pairs]
        else:
            tests = [self.bind(part) for part in node.parts]
        if node.kind == "not":
            return lambda points: np.logical_not(tests[0](points))
        join = np.logical_or if node.kind == "or" else np.logical_and
        return lambda points: reduce(join, (test(points) for test in tests))

    def bind_comparison(self, left: FormulaNode, how: str, right: FormulaNode) -> Callable[[IntegerArray], BoolArray]:
        features = [self.get_feature(side) for side in (left, right) if side.kind in _FEATURE_KINDS]
        first, second = self.bind_sides(left, right, features, how not in ("==", "!="))
        reflexive = len(features) == 2 and how in ("==", "!=", "<=", ">=")

        def holds(points: IntegerArray) -> BoolArray:
            one, other = first(points), second(points)
            related = _RELATIONS[how](one, other)
            if reflexive:  # two features that are both missing are equal
                alike = np.isnan(one) & np.isnan(other)
                related = related & ~alike if how == "!=" else related | alike
            return np.asarray(related)

        return holds

    def bind_sides(
        self, left: FormulaNode, right: FormulaNode, features: Sequence[CheckerFeature], ordering: bool
    ) -> tuple[Measurement, Measurement]:
        """Both sides of a comparison as numbers; raises ConstraintError if they cannot be compared."""
        sides = (left, right)
        if any(side.kind == "literal" and side.value is None for side in sides):
            if ordering or not features:
                raise self.error(left, "missing must be compared with a feature, by == or !=", "something else")
            asked = left if left.kind in _FEATURE_KINDS else right
            return self.look_up(asked, [0.0] * len(self.list_values(asked)), missing=1.0), lambda _: np.float64(1.0)
        kinds = {"number" if one.numeric else "date" if one.temporal else "category" for one in features}
        written = all(side.kind == "literal" and _is_number(side.value) for side in sides)
        if written or "calculation" in (left.kind, right.kind):
            kinds.add("number")
        if len(kinds) != 1:
            got = " and ".join(sorted(kinds)) or "no feature"
            raise self.error(left, "a feature must be compared with something of its own kind", got)
        if ordering and not all(feature.ordered for feature in features):
            raise self.error(left, "<, <=, > and >= need ordered features (or use ==, != or in)", "a nominal one")
        if kinds == {"number"}:
            both = [self.list_values(side) for side in sides if side.kind in _FEATURE_KINDS]
            if len(both) == 2 and not all(map(_fits_float, chain(*both))):  # as ranks, which compare like the integers
                ranks = {value: float(rank) for rank, value in enumerate(sorted({*both[0], *both[1]}))}
                first, second = ([ranks[value] for value in values] for values in both)
                return self.look_up(left, first), self.look_up(right, second)
            return self.bind_number(left), self.bind_number(right)
        if kinds == {"category"} and ordering and len({feature.values for feature in features}) > 1:
            raise self.error(left, "ordered categories must have the same domain to be compared", "different domains")
        return self.bind_ranks(left, right, kinds == {"date"})

    def bind_number(self, node: FormulaNode) -> Measurement:
        if node.kind == "calculation":
            first, *others = map(self.bind_number, node.parts)
            steps = list(zip(node.value, others, strict=True))
            return lambda points: reduce(apply_arithmetic, ((how, step(points)) for how, step in steps), first(points))
        for value in self.list_values(node):
            if not _is_number(value) or not _fits_float(value):  # a rounded one would compare wrongly
                expected = "expected a number or a numeric feature, exact as a 64-bit float as all up to 2**53 are"
                raise self.error(node, expected, repr(value)[:40])
        return self.look_up(node, self.list_values(node))

    def bind_ranks(self, left: FormulaNode, right: FormulaNode, dated: bool) -> tuple[Measurement, Measurement]:
        """Dates by rank among all that either side can be, categories by position in the domains, left first."""
        sides = [(side, self.list_values(side)) for side in (left, right)]
        keys = [(side, [self.build_key(side, value, dated) for value in values]) for side, values in sides]
        known = {key: None for side, own in keys if dated or side.kind in _FEATURE_KINDS for key in own}
        if dated and len({moment.utcoffset() is None for moment in known}) > 1:
            raise self.error(right, "dates must all have a time zone or all have none to be compared", "both kinds")
        ranks = {key: float(rank) for rank, key in enumerate(sorted(known) if dated else known)}
        for side, own in keys:
            if not ranks.keys() >= set(own):
                raise self.error(side, "a category must be compared with a value of its domain", repr(side.value))
        first, second = (self.look_up(side, [ranks[key] for key in own]) for side, own in keys)
        return first, second

    def build_key(self, node: FormulaNode, value: Any, dated: bool) -> Any:
        """What equality means: of categories Python's, but true is not 1; of dates that of the moments they begin."""
        if not dated:
            return isinstance(value, bool), value
        try:
            moment = datetime.fromisoformat(value) if node.kind == "literal" else value
        except (ValueError, TypeError):
            raise self.error(node, 'a date must be written like "2024-12-31"', repr(value)) from None
        return moment if isinstance(moment, datetime) else datetime.combine(moment, time())

    def list_values(self, node: FormulaNode) -> Sequence[Any]:
        """What a feature or a literal can be, by code."""
        return self.get_feature(node).values if node.kind in _FEATURE_KINDS else (node.value,)

    def look_up(self, node: FormulaNode, numbers: Sequence[float], missing: float = np.nan) -> Measurement:
        """The numbers of a feature's values, or of a literal, for points."""
        if node.kind not in _FEATURE_KINDS:
            return lambda _: np.float64(numbers[0])
        place, feature = self.features_by_name[node.value]
        table = np.array([*numbers, *[missing] * feature.missing], dtype=np.float64)
        if node.kind == "row" and self.row is not None:
            own = table[self.row[place]]
            return lambda _: own
        return lambda points: table[points[:, place]]

    def get_feature(self, node: FormulaNode) -> CheckerFeature:
        if node.value not in self.features_by_name:
            listed = ", ".join(list(self.features_by_name)[:12])
            raise self.error(node, f"expected a feature of the space ({listed})", repr(node.value))
        return self.features_by_name[node.value][1]

    def error(self, node: FormulaNode, expected: str, got: str) -> ConstraintError:
        return _build_located_error(self.text, node.place, expected, got)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _fits_float(value: int | float) -> bool:
    try:
        return float(value) == value
    except OverflowError:
        return False


def apply_arithmetic(result: Any, step: tuple[str, Any]) -> Any:
    """One step of arithmetic; division by zero gives no value."""
    how, number = step
    number = np.where(number == 0, np.nan, number) if how == "/" else number
    return {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[how](result, number)
