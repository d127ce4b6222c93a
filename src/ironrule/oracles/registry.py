"""The registry of oracles that only ask the model, by name.

Explaining with an exact oracle loads none of them, so the registry is imported where an oracle is looked up.
"""

from __future__ import annotations

from ironrule.oracles.combine import SearchThenProve
from ironrule.oracles.exhaustive import Exhaustive
from ironrule.oracles.geco.oracle import GeCo
from ironrule.oracles.heuristics.actionable_recourse import ActionableRecourse
from ironrule.oracles.heuristics.cem import CEM
from ironrule.oracles.heuristics.dice import DiCE
from ironrule.oracles.heuristics.face import FACE
from ironrule.oracles.heuristics.feature_tweak import FeatureTweak
from ironrule.oracles.heuristics.focus import FOCUS
from ironrule.oracles.heuristics.growing_spheres import GrowingSpheres
from ironrule.oracles.heuristics.wachter import Wachter
from ironrule.oracles.latent.cchvae import CCHVAE
from ironrule.oracles.latent.clue import CLUE
from ironrule.oracles.latent.cruds import CRUDS
from ironrule.oracles.latent.revise import REVISE
from ironrule.oracles.protocol import Oracle
from ironrule.oracles.sampling import Sampling

ORACLES: dict[str, type[Oracle]] = {
    "actionable_recourse": ActionableRecourse,
    "cchvae": CCHVAE,
    "cem": CEM,
    "clue": CLUE,
    "cruds": CRUDS,
    "dice": DiCE,
    "exhaustive": Exhaustive,
    "face": FACE,
    "feature_tweak": FeatureTweak,
    "focus": FOCUS,
    "geco": GeCo,
    "growing_spheres": GrowingSpheres,
    "revise": REVISE,
    "sampling": Sampling,
    "search_then_prove": SearchThenProve,
    "wachter": Wachter,
}
