"""Torch networks: a Sequential of linear layers, activations, batch normalisation and dropout, as it is evaluated.

Dropout does nothing then, and batch normalisation is a factor and a shift per unit. A single-precision module is read
into double precision, and its own rounding bounded; what torch may do faster and less precisely than its type says
(``torch.set_float32_matmul_precision``) is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ironrule.model.network import DOUBLE, SINGLE, Activation, Floats, Network
from ironrule.model.readers.library_class import require_own_methods
from ironrule.model.readers.network_outputs import Described, Ending, described, read_outputs
from ironrule.model.readers.network_steps import Step, dense, leaky, normalisation
from ironrule.model.reading import Unreadable
from ironrule.model.written.torch_network import NEUTRAL, TorchNetwork, has_hooks, leaves, name_of, tensors
from ironrule.space.table import as_python


def read_torch(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> Network | None:
    """Read a TorchNetwork; None for anything else."""
    if not isinstance(estimator, TorchNetwork):
        return None
    require_own_methods(estimator)
    classes = None if estimator.classes is None else [as_python(label) for label in estimator.classes_]
    return read_outputs(_described(estimator), classes, desired, threshold)


def _described(estimator: TorchNetwork) -> Described:
    unit = _unit(estimator.module)
    names = [(leaf, _known(leaf)) for leaf in leaves(estimator.module)]
    working = [(leaf, name) for leaf, name in names if name not in NEUTRAL]
    for leaf, name in names:
        if name == "Flatten" and (leaf.start_dim, leaf.end_dim) not in ((1, -1), (1, 1), (-1, -1), (-1, 1)):
            raise Unreadable(f"its {leaf} mixes rows")
    ending = Ending.PROBABILITIES if estimator.gives_probabilities else Ending.SCORES
    if working and working[-1][1] in SOFTMAX:
        leaf, name = working.pop()
        if leaf.dim not in (1, -1):
            raise Unreadable(f"its {leaf} must be over the outputs of a row, dim=1")
        return Described(tuple(_step(*one) for one in working), SOFTMAX[name], unit)
    return described([_step(*one) for one in working], ending, unit)


def _known(leaf: Any) -> str:
    if has_hooks(leaf):
        raise Unreadable(f"its {type(leaf).__name__} has hooks, which may change what it computes")
    name = name_of(leaf)
    if name is None:
        raise Unreadable(
            f"a {type(leaf).__name__} is not among the modules that can be read: a Sequential of "
            f"{', '.join((*STEPS, *SOFTMAX, *NEUTRAL))}"
        )
    return name


def _step(leaf: Any, name: str) -> Step:
    if name not in STEPS:
        raise Unreadable(f"its {name} must come last")
    return STEPS[name](leaf)


def _linear(leaf: Any) -> Step:
    return dense(_numbers(leaf.weight).T, None if leaf.bias is None else _numbers(leaf.bias))


def _batch_norm(leaf: Any) -> Step:
    if leaf.running_mean is None or leaf.running_var is None:
        raise Unreadable("its BatchNorm1d keeps no running statistics, so that rows depend on each other")
    mean = _numbers(leaf.running_mean)
    factor = np.ones(len(mean)) if leaf.weight is None else _numbers(leaf.weight)
    shift = np.zeros(len(mean)) if leaf.bias is None else _numbers(leaf.bias)
    return normalisation(mean, _numbers(leaf.running_var), factor, shift, float(leaf.eps))


STEPS: dict[str, Callable[[Any], Step]] = {
    "Linear": _linear,
    "BatchNorm1d": _batch_norm,
    "ReLU": lambda _: Activation("relu"),
    "LeakyReLU": lambda leaf: leaky(float(leaf.negative_slope)),
    "Tanh": lambda _: Activation("tanh"),
    "Sigmoid": lambda _: Activation("logistic"),
}
SOFTMAX = {"Softmax": Ending.SOFTMAX, "LogSoftmax": Ending.LOG_SOFTMAX}


def _numbers(tensor: Any) -> Floats:
    return np.array(tensor.detach().cpu().numpy(), dtype=np.float64)


def _unit(module: Any) -> float:
    import torch

    kinds = {tensor.dtype for tensor in tensors(module) if tensor.is_floating_point()} or {torch.get_default_dtype()}
    if kinds == {torch.float64}:
        return DOUBLE
    if kinds != {torch.float32}:
        names = ", ".join(sorted(map(str, kinds)))
        raise Unreadable(f"its weights must be all float32 or all float64, got {names}")
    try:
        precision = torch.get_float32_matmul_precision()
    except RuntimeError:  # torch's way to say that precisions were set for single backends
        precision = "mixed"
    if precision != "highest":
        raise Unreadable(
            f"torch multiplies float32 numbers with less than their precision ({precision!r}); call "
            f"torch.set_float32_matmul_precision('highest')"
        )
    return SINGLE
