"""Binding: gives a formula its meaning on features, after checking that every comparison makes sense for their kinds.

Everything that can be wrong with a constraint is found here, before any point is looked at: an unknown feature, an
order asked of a nominal feature, arithmetic on a category, a category that is not in the domain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ironrule.space.plaf.meaning import Compared, Every, IsMissing, Opposite, Quantity, Some, Test
from ironrule.space.plaf.naming import Names
from ironrule.space.plaf.scales import Kind, kind_of, scale_categories, scale_dates, scale_numbers
from ironrule.space.plaf.syntax import (
    All,
    Any,
    Comparison,
    Formula,
    Implication,
    Literal,
    Membership,
    Not,
    Reference,
    Relation,
    Term,
)

_SCALES: Mapping[Kind, Callable[[Names, Term, Term], tuple[Quantity, Quantity]]] = {
    Kind.NUMBER: scale_numbers,
    Kind.CATEGORY: scale_categories,
    Kind.DATE: scale_dates,
}


def bind_formula(names: Names, formula: Formula) -> Test:
    """The meaning of a formula; ``in`` is several ``==`` joined by ``or``."""
    match formula:
        case Comparison():
            return _compare(names, formula)
        case Membership(term, items, column):
            return Some(tuple(_compare(names, Comparison(term, Relation.EQUAL, item, column)) for item in items))
        case Not(operand):
            return Opposite(bind_formula(names, operand))
        case All(parts):
            return Every(tuple(bind_formula(names, part) for part in parts))
        case Any(parts):
            return Some(tuple(bind_formula(names, part) for part in parts))
        case Implication(condition, consequence):
            return Some((Opposite(bind_formula(names, condition)), bind_formula(names, consequence)))


def _compare(names: Names, comparison: Comparison) -> Test:
    left, relation, right = comparison.left, comparison.relation, comparison.right
    if _is_missing(left) or _is_missing(right):
        return _compare_missing(names, comparison)
    kind = _common_kind(names, comparison)
    if relation.orders:
        _require_order(names, comparison, kind)
    first, second = _SCALES[kind](names, left, right)
    return Compared(first, relation, second)


def _compare_missing(names: Names, comparison: Comparison) -> Test:
    """``cf.income == missing``, or the opposite."""
    term = comparison.right if _is_missing(comparison.left) else comparison.left
    if comparison.relation.orders:
        rule = "missing has no place in an order and can only be compared by == or !="
        raise names.error(comparison.column, expected=rule, got=comparison.relation.value)
    if not isinstance(term, Reference):
        raise names.error(term.column, expected="missing must be compared with a feature", got=f"`{term}`")
    test = IsMissing(names.lookup(term, range(len(names.feature(term).values))))
    return test if comparison.relation is Relation.EQUAL else Opposite(test)


def _common_kind(names: Names, comparison: Comparison) -> Kind:
    """The kind of both sides; a literal takes the kind of the other side, and two literals must be numbers."""
    left, right = comparison.left, comparison.right
    kinds = [kind for kind in (_kind(names, left), _kind(names, right)) if kind]
    if len(set(kinds)) == 1:
        return kinds[0]
    if kinds:
        rule = "both sides of a comparison must be of the same kind"
        got = f"`{left}`, a {kinds[0].value}, and `{right}`, a {kinds[1].value}"
    elif all(isinstance(side, Literal) and side.is_number for side in (left, right)):
        return Kind.NUMBER
    else:
        rule, got = "one side of a comparison must be a feature", f"`{left}` and `{right}`"
    raise names.error(comparison.column, expected=rule, got=got)


def _kind(names: Names, term: Term) -> Kind | None:
    """The kind of a term; None for a literal."""
    if isinstance(term, Literal):
        return None
    return kind_of(names.feature(term)) if isinstance(term, Reference) else Kind.NUMBER


def _require_order(names: Names, comparison: Comparison, kind: Kind) -> None:
    """Raise unless the features on both sides have an order, and categories the same one."""
    sides = [side for side in (comparison.left, comparison.right) if isinstance(side, Reference)]
    for side in sides:
        if not names.feature(side).ordered:
            raise names.error(
                side.column,
                expected=f"{comparison.relation.value} needs an ordered feature",
                got=f"{side.name!r}, which is nominal",
                hint="use ==, != or in",
            )
    domains = {side.name: names.feature(side) for side in sides}
    if kind is Kind.CATEGORY and len({feature.values for feature in domains.values()}) > 1:
        listed = " and ".join(f"{name!r} ({feature.describe()})" for name, feature in domains.items())
        rule = "ordered categories must have the same domain to be compared"
        raise names.error(comparison.column, expected=rule, got=listed)


def _is_missing(term: Term) -> bool:
    return isinstance(term, Literal) and term.value is None
