"""Oracles: is there a counterfactual in this box? One file, or folder, per oracle, all behind one protocol.

A new oracle is one new file and one line in :data:`ORACLES`; the contract tests pick it up from there.
"""

from ironrule.oracles.ensemble import Ensemble
from ironrule.oracles.exact import exact_oracle
from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.geco import GeCo, Mix
from ironrule.oracles.layered import Layered
from ironrule.oracles.leaves import Leaves
from ironrule.oracles.memory import Remembering
from ironrule.oracles.networks import Networks
from ironrule.oracles.protocol import Case, Oracle
from ironrule.oracles.sampling import Sampling

ORACLES: dict[str, type[Oracle]] = {
    "exhaustive": Exhaustive,
    "geco": GeCo,
    "layered": Layered,
    "sampling": Sampling,
}

__all__ = [
    "ORACLES",
    "Case",
    "Ensemble",
    "Exhaustive",
    "GeCo",
    "Layered",
    "Leaves",
    "Mix",
    "Networks",
    "Oracle",
    "Remembering",
    "Sampling",
    "exact_oracle",
]
