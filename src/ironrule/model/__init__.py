"""Models in normal form, and the history of what they decided."""

from ironrule.model.blackbox import BlackBox, black_box, names_in_data
from ironrule.model.gaps import Gaps, gaps_of
from ironrule.model.history import History, behaviour, history_of
from ironrule.model.intervals import between
from ironrule.model.protocol import Model
from ironrule.model.readable import Readable, readable
from ironrule.model.reading import Unreadable
from ironrule.model.versions import Versions, Wanted, ask_versions, read_each, read_versions
from ironrule.model.written import (
    Bins,
    OnnxNetwork,
    RuleClassifier,
    Scorecard,
    Subscale,
    TorchNetwork,
    TwoLayerAdditive,
)

__all__ = [
    "Bins",
    "BlackBox",
    "Gaps",
    "History",
    "Model",
    "OnnxNetwork",
    "Readable",
    "RuleClassifier",
    "Scorecard",
    "Subscale",
    "TorchNetwork",
    "TwoLayerAdditive",
    "Unreadable",
    "Versions",
    "Wanted",
    "ask_versions",
    "behaviour",
    "between",
    "black_box",
    "gaps_of",
    "history_of",
    "names_in_data",
    "read_each",
    "read_versions",
    "readable",
]
