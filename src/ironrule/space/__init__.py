"""Spaces: features, domains, codes, constraints."""

from ironrule.space.codes import Codes, Points
from ironrule.space.constrained import Feasible, feasible
from ironrule.space.feature import Feature, Value
from ironrule.space.layout import Layout, layout_like
from ironrule.space.plaf import Constraint, Predicate, bind, parse
from ironrule.space.space import Space, as_constraint
from ironrule.space.table import Table, read_table

__all__ = [
    "Codes",
    "Constraint",
    "Feasible",
    "Feature",
    "Layout",
    "Points",
    "Predicate",
    "Space",
    "Table",
    "Value",
    "as_constraint",
    "bind",
    "feasible",
    "layout_like",
    "parse",
    "read_table",
]
