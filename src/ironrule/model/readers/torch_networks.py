"""Torch networks: a Sequential of linear layers, activations, batch normalisation and dropout, as it is evaluated.

Dropout does nothing then, and batch normalisation is a factor and a shift per unit. A single-precision module is read
into double precision, and its own rounding bounded; what torch may do faster and less precisely than its type says
(``torch.set_float32_matmul_precision``) is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ironrule.arrays import Float64Array
from ironrule.model.decision import list_labels
from ironrule.model.normal_form.network import DOUBLE_ROUNDOFF, SINGLE_ROUNDOFF, Activation, Network
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers import network_steps
from ironrule.model.readers.library_class import require_own_methods
from ironrule.model.wrappers import networks


def read_torch(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> Network | None:
    """The normal form of a TorchNetwork; None for anything else."""
    if not isinstance(estimator, networks.TorchNetwork):
        return None
    require_own_methods(estimator)
    classes = None if estimator.classes is None else list_labels(estimator.classes_)
    return network_steps.read_outputs(_describe_network(estimator), classes, desired, threshold)


def _describe_network(estimator: networks.TorchNetwork) -> network_steps.LibraryNetwork:
    unit = _find_roundoff(estimator.module)
    names = [(leaf, _require_known_module(leaf)) for leaf in networks.iterate_torch_modules(estimator.module)]
    working = [(leaf, name) for leaf, name in names if name not in networks.TORCH_PASS_THROUGH]
    for leaf, name in names:
        if name == "Flatten" and (leaf.start_dim, leaf.end_dim) not in ((1, -1), (1, 1), (-1, -1), (-1, 1)):
            raise Unreadable(f"its {leaf} mixes rows")
    ending = (
        network_steps.OutputKind.PROBABILITIES if estimator.gives_probabilities else network_steps.OutputKind.SCORES
    )
    if working and working[-1][1] in SOFTMAX_KINDS:
        leaf, name = working.pop()
        require_readable(leaf.dim in (1, -1), f"its {leaf} must be over the outputs of a row, dim=1")
        return network_steps.LibraryNetwork(tuple(_read_step(*module) for module in working), SOFTMAX_KINDS[name], unit)
    return network_steps.strip_final_logistic([_read_step(*module) for module in working], ending, unit)


def _require_known_module(leaf: Any) -> str:
    if networks.has_torch_hooks(leaf):
        raise Unreadable(f"its {type(leaf).__name__} has hooks, which may change what it computes")
    name = networks.get_torch_class_name(leaf)
    if name is None:
        raise Unreadable(
            f"a {type(leaf).__name__} is not among the modules that can be read: a Sequential of "
            f"{', '.join((*TORCH_STEPS, *SOFTMAX_KINDS, *networks.TORCH_PASS_THROUGH))}"
        )
    return name


def _read_step(leaf: Any, name: str) -> network_steps.Step:
    require_readable(name in TORCH_STEPS, f"its {name} must come last")
    return TORCH_STEPS[name](leaf)


def _read_linear(leaf: Any) -> network_steps.Step:
    return network_steps.make_dense(_to_floats(leaf.weight).T, None if leaf.bias is None else _to_floats(leaf.bias))


def _read_batch_norm(leaf: Any) -> network_steps.Step:
    if leaf.running_mean is None or leaf.running_var is None:
        raise Unreadable("its BatchNorm1d keeps no running statistics, so that rows depend on each other")
    mean = _to_floats(leaf.running_mean)
    factor = np.ones(len(mean)) if leaf.weight is None else _to_floats(leaf.weight)
    shift = np.zeros(len(mean)) if leaf.bias is None else _to_floats(leaf.bias)
    return network_steps.make_normalisation(mean, _to_floats(leaf.running_var), factor, shift, float(leaf.eps))


TORCH_STEPS: dict[str, Callable[[Any], network_steps.Step]] = {
    "Linear": _read_linear,
    "BatchNorm1d": _read_batch_norm,
    "ReLU": lambda _: Activation("relu"),
    "LeakyReLU": lambda leaf: network_steps.make_leaky_relu(float(leaf.negative_slope)),
    "Tanh": lambda _: Activation("tanh"),
    "Sigmoid": lambda _: Activation("logistic"),
}

SOFTMAX_KINDS = {"Softmax": network_steps.OutputKind.SOFTMAX, "LogSoftmax": network_steps.OutputKind.LOG_SOFTMAX}


def _to_floats(tensor: Any) -> Float64Array:
    return np.array(tensor.detach().cpu().numpy(), dtype=np.float64)


def _find_roundoff(module: Any) -> float:
    import torch

    kinds = {tensor.dtype for tensor in networks.iterate_tensors(module) if tensor.is_floating_point()}
    kinds = kinds or {torch.get_default_dtype()}
    if kinds == {torch.float64}:
        return DOUBLE_ROUNDOFF
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
    return SINGLE_ROUNDOFF
