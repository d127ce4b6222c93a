"""Models in normal form, and the history of what they decided."""

from ironrule.model.blackbox import BlackBox, black_box
from ironrule.model.history import History, history_of
from ironrule.model.protocol import Model

__all__ = ["BlackBox", "History", "Model", "black_box", "history_of"]
