"""All minimal sets with a property that larger sets have too, in levels of rising weight.

The property is known only through questions: a set either has it, or the answer is a demand, which is a set of which
every set with the property has a member. Rules and changes are both of this kind: rules must hit the duals of
counterfactuals, changes the rules that are made of whole features.

Level by level, the minimal hitting sets of the demands known so far are listed up to a weight and asked about; answers
become demands, and the level is listed again until all that is listed has the property. Then these are all there are up
to that weight: a minimal set with the property hits the demands, so it contains a minimal hitting set; this has the
property, so it is the set itself. And each of them is minimal for good, whatever else is found later, since every
member is the only one to hit some demand. Where the list has nothing heavier left, the levels end. (Reiter 1987; for
explanations Ignatiev, Narodytska, Asher and Marques-Silva, "From contrastive to abductive explanations and back again",
2020.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ironrule.rule.bits import unpack
from ironrule.rule.hitting import light_hitting_sets
from ironrule.search.problem import joined
from ironrule.verdict import Meter

Words = npt.NDArray[np.uint64]
FIRST_LIMIT, FIRST_NODES = 64, 4_000  # both grow while all that is listed has the property
SMALL = 64  # weights up to it have one level per unit


@dataclass(slots=True)
class Levels:
    """The search; ``lacks`` answers for a set with the demands that it misses, none if it has the property.

    ``found`` holds the sets found so far, those of a level that is not finished included; ``complete`` says that there
    are no others. Both are only as good as the answers.
    """

    lacks: Callable[[int], Words]
    demands: Words
    weights: npt.NDArray[np.float64]
    meter: Meter
    found: dict[int, None] = field(default_factory=dict)
    complete: bool = False

    def __call__(self, within: float = 0.0) -> Iterator[tuple[int, ...]]:
        """The sets of every level, from those up to a weight on; a level without any is handed out too.

        Weights are whole numbers. Where they are small, a level has one weight. Else it is a range of weights, which
        grows while levels are empty: there may be billions of whole numbers between the weights of two sets.
        """
        few, step = bool((self.weights <= SMALL).all()), 1.0
        while not self.complete:
            before = len(self.found)
            beyond = self._finish(within)
            self.complete = beyond == np.inf
            step = 1.0 if few or len(self.found) > before else 2.0 * step
            within = max(within + step, beyond)
            yield tuple(self.found)[before:]

    def _finish(self, within: float) -> float:
        """Find all sets up to a weight; returns the least that another can weigh, infinite if there is none."""
        limit, nodes = FIRST_LIMIT, FIRST_NODES
        while True:
            self.meter.check()
            with self.meter.timed("hitting set"):
                listed = light_hitting_sets(self.demands, self.weights, within=within, limit=limit, node_limit=nodes)
            settled = self._ask(unpack(listed.members) if len(listed.members) else [])
            if settled and listed.complete:
                return listed.beyond
            if settled:
                limit, nodes = 2 * limit, 2 * nodes

    def _ask(self, listed: list[int]) -> bool:
        """Ask about the sets that are new; whether all have the property."""
        settled = True
        for one in listed:
            if one in self.found or not self._hits(one):
                continue
            lacking = self.lacks(one)
            if len(lacking) == 0:
                self.found[one] = None
            else:
                self.demands, settled = joined(self.demands, lacking), False
        return settled

    def _hits(self, one: int) -> bool:
        words = np.frombuffer(one.to_bytes(8 * self.demands.shape[1], "little"), dtype="<u8")
        return bool((self.demands & words).any(axis=1).all())
