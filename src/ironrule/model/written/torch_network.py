"""A torch module as an estimator: ``nn.Sequential`` models can be read and proven about, any other is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ironrule.errors import InputError, MissingExtraError
from ironrule.model.written.trained import Floats, TrainedNetwork, check_classes

NEUTRAL = ("Identity", "Dropout", "AlphaDropout", "Flatten")  # what does nothing to a row when it is evaluated
CHANCES = ("Sigmoid", "Softmax")
SCORES = ("Linear", "BatchNorm1d", "ReLU", "LeakyReLU", "Tanh", "LogSoftmax")


@dataclass(eq=False)
class TorchNetwork(TrainedNetwork):
    """A trained torch module: ``classes`` in the order of its outputs, None for a regression.

    The module is run as it is, in evaluation mode, on its own device and in its own precision. Whether its outputs are
    probabilities or scores (logits) is seen from its last step; a module with a ``forward`` of its own must say so:
    ``probabilities=True`` or ``False``.

    >>> from torch import nn                                                            # doctest: +SKIP
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))                # doctest: +SKIP
    >>> model = make_pipeline(StandardScaler().fit(table), TorchNetwork(net))           # doctest: +SKIP
    """

    module: Any
    classes: Sequence[Any] | None = (0, 1)
    probabilities: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.module, _torch().nn.Module):
            raise InputError(expected="module must be a torch.nn.Module", got=type(self.module).__name__)
        check_classes(self.classes)
        self._check_end()

    def _check_end(self) -> None:
        end = self._end
        if self.probabilities is None and end is None and self.classes is not None:
            raise InputError(
                f"cannot tell whether the outputs of {type(self.module).__name__} are probabilities: its last step is "
                f"not known",
                hint="pass probabilities=True, or False for scores (logits)",
                code="probabilities-required",
            )
        if self.probabilities is not None and end in (*CHANCES, "LogSoftmax"):
            raise InputError(
                f"the network ends in {end}, which says what its outputs are", hint="leave probabilities= out"
            )

    @property
    def _end(self) -> str | None:
        """The last step that does something, None if it is not known."""
        names = [name_of(leaf) for leaf in leaves(self.module)]
        return next((name for name in reversed(names) if name not in NEUTRAL), None)

    @property
    def gives_probabilities(self) -> bool:
        """Whether the outputs are probabilities; scores otherwise."""
        return self._end in CHANCES if self.probabilities is None else self.probabilities

    @property
    def n_features_in_(self) -> int:
        """How many columns the network takes, where its first layer says so."""
        for leaf in leaves(self.module):
            if name_of(leaf) in ("Linear", "BatchNorm1d"):
                return int(leaf.in_features if name_of(leaf) == "Linear" else leaf.num_features)
        raise AttributeError("the network does not say how many columns it takes")

    def run(self, rows: Floats) -> npt.NDArray[Any]:
        """The module's outputs for rows of numbers, in its own arithmetic."""
        torch = _torch()
        like = next((one for one in tensors(self.module) if one.is_floating_point()), torch.zeros(()))
        with _evaluating(self.module), torch.no_grad(), torch.autocast(like.device.type, enabled=False):
            answers = self.module(torch.from_numpy(rows).to(like.device, like.dtype))
        return np.asarray(answers.to("cpu", torch.float64).numpy())


def leaves(module: Any) -> Iterator[Any]:
    """The modules that a Sequential runs one after the other, those of inner Sequentials in their place."""
    kind = _torch().nn.Sequential
    if isinstance(module, kind) and _runs_as(module, kind) and not has_hooks(module):
        for child in module:
            yield from leaves(child)
    else:
        yield module


def name_of(leaf: Any) -> str | None:
    """The name of the torch class that a module runs as, None for one with a ``forward`` of its own."""
    nn = _torch().nn
    return next((name for name in NEUTRAL + CHANCES + SCORES if _runs_as(leaf, getattr(nn, name))), None)


def has_hooks(module: Any) -> bool:
    """Whether something is called around the module's own computation, or around that of every module."""
    everywhere = _torch().nn.modules.module
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or getattr(everywhere, "_global_forward_hooks", None)
        or getattr(everywhere, "_global_forward_pre_hooks", None)
    )


def tensors(module: Any) -> Iterator[Any]:
    """The parameters and the buffers."""
    yield from module.parameters()
    yield from module.buffers()


def _runs_as(module: Any, kind: Any) -> bool:
    if not isinstance(module, kind) or type(module).forward is not kind.forward or "forward" in vars(module):
        return False
    defined = getattr(kind.forward, "__globals__", {}).get("__name__", "")  # elsewhere if the class was changed
    return type(module).__call__ is kind.__call__ and str(defined).startswith("torch.")


@contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Evaluation mode; what was in training mode is so again afterwards."""
    training = [one for one in module.modules() if one.training]
    for one in training:
        one.training = False
    try:
        yield
    finally:
        for one in training:
            one.training = True


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", "torch", "a TorchNetwork") from None
    return torch
