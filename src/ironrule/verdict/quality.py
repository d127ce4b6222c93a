"""The quality of a rule: the classes by which the paper's experiments sort rules, each of them to be proven.

A rule fails on the past rows, or only elsewhere in the space; or it holds, and then it may say too much, or be longer
than it had to be (Geng, Schleich and Suciu, "Computing Rule-Based Explanations by Leveraging Counterfactuals", VLDB
2022, sections 5.4 and 6).
"""

from __future__ import annotations

from enum import Enum


class Quality(Enum):
    """What is proven of a rule, from worst to best.

    What is not judged comes first of all, so that ``quality >= Quality.REDUNDANT`` always says that it is proven.

    >>> Quality.FAILED_GLOBAL < Quality.REDUNDANT < Quality.MINIMUM
    True
    >>> print(Quality.IRREDUNDANT)
    irredundant but not minimum
    """

    NOT_JUDGED = "not judged"
    FAILED_DATA = "failed data consistency"
    FAILED_GLOBAL = "failed global consistency"
    REDUNDANT = "consistent but redundant"
    IRREDUNDANT = "irredundant but not minimum"
    MINIMUM = "minimum"

    @property
    def rank(self) -> int:
        """The place in the order, from 0."""
        return list(type(self)).index(self)

    def __lt__(self, other: Quality) -> bool:
        return self.rank < other.rank

    def __le__(self, other: Quality) -> bool:
        return self.rank <= other.rank

    def __gt__(self, other: Quality) -> bool:
        return self.rank > other.rank

    def __ge__(self, other: Quality) -> bool:
        return self.rank >= other.rank

    def __str__(self) -> str:
        return str(self.value)
