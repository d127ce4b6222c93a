"""PLAF: the language in which a person says which counterfactuals are plausible, feasible or lawful.

GeCo (Schleich, Geng, Zhang, Suciu, VLDB 2021) introduced it; a constraint relates a point ``cf`` to the instance ``x``:

>>> import numpy as np
>>> from ironrule.space.constraints.binding import bind_constraint
>>> from ironrule.space.constraints.parser import parse_constraint
>>> from ironrule.space.feature import Feature
>>> age = Feature("age", (20, 30, 40), ordered=True)
>>> older = bind_constraint(parse_constraint("cf.age >= x.age"), [age])
>>> older(np.array([[0], [1], [2]]), np.array([1])).tolist()
[False, True, True]

From text to truth: :mod:`.parser` reads a text into the tree of :mod:`.syntax`; :mod:`.binding` ties the tree to
features, turns values into numbers per code, and gives a predicate, which works on whole
arrays of codes; :mod:`.feasible` draws points that satisfy all predicates of a space.
"""
