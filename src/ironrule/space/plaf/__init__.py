"""PLAF: the language in which a person says which counterfactuals are plausible, feasible or lawful.

GeCo (Schleich, Geng, Zhang, Suciu, VLDB 2021) introduced it; a constraint relates a point ``cf`` to the instance ``x``:

>>> import numpy as np
>>> from ironrule.space.feature import Feature
>>> age = Feature("age", (20, 30, 40), ordered=True)
>>> older = bind(parse("cf.age >= x.age"), [age])
>>> older(np.array([[0], [1], [2]]), np.array([1])).tolist()
[False, True, True]

The way of a text: :mod:`.tokens` cuts it up, :mod:`.grammar` reads it into the tree of :mod:`.syntax`, :mod:`.binding`
ties the tree to features and turns values into numbers per code (:mod:`.scales`), and :mod:`.predicate` evaluates the
result, made of :mod:`.meaning`'s parts, on whole arrays of codes.
"""

from ironrule.space.plaf.constraint import Constraint
from ironrule.space.plaf.grammar import parse
from ironrule.space.plaf.predicate import Predicate, bind

__all__ = ["Constraint", "Predicate", "bind", "parse"]
