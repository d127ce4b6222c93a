"""Bound boxes on a GPU that torch can use, thousands at a time.

The same bounds as :mod:`ironrule.backends.network.bound_propagation`, with matrix products in place of loops. All is
float64. A product of matrices in float64 sums the same terms in another order, with or without fused steps, and
`gamma` holds for every order; a product that is put together from narrower numbers would not do, so that is refused
(:meth:`TorchEngine.for_device`). The lines of the first layer are taken around the middle of a box: what then comes on
top is, per scaled number, half of its range times the size of its slope.

A box is closed only if the bound stays below zero by a reserve, so that a checker on another machine, whose bounds are
rounded otherwise, can close it too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ironrule.arrays import Int64Array
from ironrule.backends.network.box_bounds import FIRST_STEP, LINE_STEPS, STEP_DECAY, bound_on_cores
from ironrule.backends.network.compile import CompiledNetwork
from ironrule.backends.network.gpu.bound_propagation import (
    ActivationRelaxation,
    DeviceBoxes,
    DeviceInputs,
    DeviceLayers,
    FirstLayerBounds,
    RelaxedLayer,
    apply_activation,
    optimize_relaxation,
    relax_activations,
    select_boxes,
)
from ironrule.backends.network.workspace import (
    NO_CUT_IN_GAP,
    STATUS_CLOSED,
    STATUS_FOUND,
    STATUS_GAP,
    STATUS_OPEN,
    STATUS_POINT,
    BoundResults,
    OpenCells,
)
from ironrule.errors import InputError

RESERVE = 64.0  # a box is closed only if its bound is below zero by so many times the allowance for rounding


class DeviceBounds(NamedTuple):
    """What boxes were bounded by: per box its margins' upper bounds and reserves, and how the tightest came about."""

    margins: Tensor
    reserve: Tensor
    kept_coefficients: list[Tensor]
    slopes: Tensor
    places: list[Tensor]
    relaxed: list[RelaxedLayer]
    sums: FirstLayerBounds
    tightest: Tensor  # per box, which margin is

    @property
    def closed(self) -> Tensor:
        """Which boxes surely hold no point with all margins positive."""
        return (self.margins + self.reserve <= 0.0).any(1)


@dataclass(frozen=True, slots=True, eq=False)
class DeviceQuery:
    """A net and the open cells of a query, on a device."""

    net: CompiledNetwork
    open_cells: OpenCells
    device: str
    layers: DeviceLayers
    inputs: DeviceInputs

    @classmethod
    def build(
        cls, device: str, net: CompiledNetwork, open_cells: OpenCells, layers: DeviceLayers | None = None
    ) -> DeviceQuery:
        """A query on a device, where the net's layers may be already."""
        inputs = DeviceInputs.build(device, net, open_cells)
        return cls(net, open_cells, device, layers or DeviceLayers.build(device, net), inputs)

    @property
    def bytes_per_box(self) -> int:
        """Roughly how many bytes a box takes on the device at most."""
        widest, cells = int(self.net.widths.max()), max((len(rows) for rows in self.inputs.rows), default=0)
        wanted = max(2 * widest, len(self.net.offset))
        return 8 * (wanted * (6 * widest + 3 * len(self.inputs.lines) + 3 * cells) + 3 * widest * cells)

    def bound_boxes(self, low: Int64Array, high: Int64Array, into: BoundResults) -> None:
        """Bound boxes and write the results of those that stay open; all others must be marked as closed before."""
        ends = self.inputs.build_boxes(*(torch.as_tensor(one, device=self.device) for one in (low, high)))
        bounds, rest = self.compute_bounds(ends), torch.arange(len(low), device=self.device)
        # Only boxes that are still open go on, so every step is cheaper than the one before. The last turn has no step:
        # it only drops the boxes that the step before has closed.
        for step in (*(FIRST_STEP * STEP_DECAY**k for k in range(LINE_STEPS)), None):
            left = (~bounds.closed).nonzero()[:, 0]
            if len(left) == 0:
                return
            bounds, ends, rest = select_boxes(bounds, left), select_boxes(ends, left), rest[left]
            bounds = bounds if step is None else self._tighten_bounds(bounds, ends, step)
        cells, most, sure = self._evaluate_maximum(bounds, ends)
        loss = self.layers.propagate_looseness(bounds.kept_coefficients, bounds.relaxed)
        feature, place = self.inputs.choose_cuts(loss, bounds.sums.table_ranges, ends)
        whole = torch.where(most > 0.0, STATUS_POINT, STATUS_CLOSED)
        whole = torch.where(feature == NO_CUT_IN_GAP, STATUS_GAP, whole)
        status = torch.where(sure > 0.0, STATUS_FOUND, torch.where(feature >= 0, STATUS_OPEN, whole))
        # One transfer for all small results; `rest` says which box each row belongs to.
        numbers = torch.cat([rest[:, None], status[:, None], feature[:, None], place[:, None]], dim=1).cpu().numpy()
        into.status[numbers[:, 0]] = numbers[:, 1]
        into.cuts[numbers[:, 0]] = numbers[:, 2:]
        into.points[numbers[:, 0]] = cells.cpu().numpy()

    def compute_bounds(self, ends: DeviceBoxes) -> DeviceBounds:
        """Upper bounds of the margins over boxes."""
        layers, sums = self.layers, self.inputs.bound_first_layer(ends)
        spare = layers.gamma * layers.sizes[0]
        relaxed = [self._relax_layer(0, sums.low - spare, sums.high + spare)]
        traced = [_center_relaxation(relaxed[0].relaxation, sums.middle)]
        # Lines of a layer need bounds of its sums, and these need the lines of all layers before it.
        for layer in range(1, len(layers.kinds)):
            relaxed.append(self._relax_layer(layer, *self._bound_hidden_layer(layer, traced, ends)))
            traced.append(relaxed[-1].relaxation)
        return self._bound_margins(traced, relaxed, sums, ends)

    def _tighten_bounds(self, bounds: DeviceBounds, ends: DeviceBoxes, step: float) -> DeviceBounds:
        """Bounds of the tightest margins alone, with lines that do better where these are reached."""
        _, reached = self.inputs.locate_maximum(bounds.slopes, bounds.places, ends)
        relaxed = optimize_relaxation(self.layers, bounds.relaxed, bounds.kept_coefficients, reached, step)
        traced = [one.relaxation for one in relaxed]
        traced[0] = _center_relaxation(traced[0], bounds.sums.middle)
        which = bounds.tightest[:, None]
        found = self._bound_margins(traced, relaxed, bounds.sums, ends, bounds.tightest)
        return found._replace(margins=found.margins.gather(1, which), reserve=found.reserve.gather(1, which))

    def _bound_hidden_layer(
        self, layer: int, traced: list[ActivationRelaxation], ends: DeviceBoxes
    ) -> tuple[Tensor, Tensor]:
        """Bounds of the sums of a layer behind the first; none are needed where the activation is the identity."""
        layers, width = self.layers, len(self.layers.bias[layer])
        if layers.kinds[layer] == 0:
            none = torch.zeros((len(ends.low), width), dtype=torch.float64, device=self.device)
            return none, none
        back = layers.back_substitute(layers.rows[layer], layer - 1, traced)
        highest = self.inputs.maximize(back.coefficients, ends)
        bound = _replace_overflow(back.total + highest.total + layers.gamma * back.error)
        spare = layers.gamma * layers.sizes[layer]
        # The first half of the rows bounds the sums, the second half their negatives.
        high = bound[:, :width] + layers.bias[layer] + spare
        low = layers.bias[layer] - bound[:, width:] - spare
        return low, high

    def _relax_layer(self, layer: int, low: Tensor, high: Tensor) -> RelaxedLayer:
        layers = self.layers
        # A sum never exceeds the size of its unit; `maximum` keeps the interval in order if clipping crossed its ends.
        least = torch.maximum(low, -layers.sizes[layer])
        most = torch.maximum(least, torch.minimum(high, layers.sizes[layer]))
        return RelaxedLayer(low, high, relax_activations(layers.kinds[layer], layers.slopes[layer], least, most))

    def _bound_margins(
        self,
        traced: list[ActivationRelaxation],
        relaxed: list[RelaxedLayer],
        sums: FirstLayerBounds,
        ends: DeviceBoxes,
        tightest: Tensor | None = None,
    ) -> DeviceBounds:
        layers = self.layers
        back = layers.back_substitute(layers.coefficients, len(traced) - 1, traced)
        highest = self.inputs.maximize(back.coefficients, ends)
        rounding = layers.gamma * (back.error + layers.offset.abs())
        margins = _replace_overflow(back.total + highest.total + rounding + layers.offset + layers.slack)
        tightest = margins.argmin(1) if tightest is None else tightest
        return DeviceBounds(
            margins=margins,
            reserve=(RESERVE * rounding).expand_as(margins),
            kept_coefficients=[_select_margin(one, tightest) for one in back.kept_coefficients],
            slopes=_select_margin(highest.slopes, tightest),
            places=[_select_margin(one, tightest) for one in highest.places],
            relaxed=relaxed,
            sums=sums,
            tightest=tightest,
        )

    def _evaluate_maximum(self, bounds: DeviceBounds, ends: DeviceBoxes) -> tuple[Tensor, Tensor, Tensor]:
        """The points where bounds are reached, and their smallest margins at the most and at the least."""
        cells, values = self.inputs.locate_maximum(bounds.slopes, bounds.places, ends)
        layers = self.layers
        # An ordinary forward pass of the network itself, not of its lines.
        for k, (kind, slope) in enumerate(zip(layers.kinds, layers.slopes, strict=True)):
            if k > 0:
                values = values @ layers.turned[k][:, :-1].T + layers.bias[k]
            values = apply_activation(kind, slope, values)
        margins = values @ layers.coefficients.T + layers.offset
        return cells, (margins + layers.slack).amin(1), (margins - layers.slack).amin(1)


def _replace_overflow(bounds: Tensor) -> Tensor:
    """Bounds, with infinity in place of what overflowed or is not a number: such a bound closes no box."""
    return torch.where(bounds.isfinite(), bounds, torch.inf)


def _center_relaxation(one: ActivationRelaxation, middle: Tensor) -> ActivationRelaxation:
    """Lines with their values at the middles of boxes as intercepts, instead of those at zero."""
    return ActivationRelaxation(
        one.lower_slope,
        one.lower_intercept + one.lower_slope * middle,
        one.upper_slope,
        one.upper_intercept + one.upper_slope * middle,
    )


def _select_margin(values: Tensor, which: Tensor) -> Tensor:
    """Per box, what belongs to one of its margins."""
    return values[torch.arange(len(which), device=which.device), which]


MAX_CACHED_QUERIES = 8  # queries that stay on the device
MAX_BYTES = 1 << 34
EMULATION_VARIABLE = "CUBLAS_EMULATE_DOUBLE_PRECISION"


@dataclass(frozen=True, slots=True, eq=False)
class TorchEngine:
    """A device of torch. Fewer than ``min_boxes`` boxes are left to the cores; ``max_bytes`` are used at once."""

    device: str
    batch: int = 16_384
    limit: int = 5_000_000
    min_boxes: int = 64
    max_bytes: int = 1 << 32
    _recent: list[DeviceQuery] = field(default_factory=list)

    @classmethod
    def for_device(cls, device: str) -> TorchEngine:
        """The engine of a GPU, by the name that torch gives it."""
        try:
            named = torch.device(device)
        except RuntimeError:
            raise InputError(expected="device must be None, 'cpu' or a name such as 'cuda'", got=repr(device)) from None
        if named.type != "cuda":
            raise InputError(
                expected="device must be None, 'cpu' or a CUDA GPU, which computes in float64", got=repr(device)
            )
        if not torch.cuda.is_available() or (named.index or 0) >= torch.cuda.device_count():
            raise InputError(expected="device must name a CUDA GPU that torch can use", got=repr(device))
        if os.environ.get(EMULATION_VARIABLE, "0") != "0":
            raise InputError(f"bounds need the GPU's own float64, which {EMULATION_VARIABLE} replaces", hint="unset it")
        return cls(device, max_bytes=min(MAX_BYTES, torch.cuda.mem_get_info(named)[0] // 4))

    def bound_boxes(
        self, net: CompiledNetwork, open_cells: OpenCells, low: Int64Array, high: Int64Array
    ) -> BoundResults:
        """For every box what the kernels say, up to rounding."""
        if len(low) < self.min_boxes:
            return bound_on_cores(net, open_cells, low, high)
        query = self._get_query(net, open_cells)
        outcome = BoundResults(np.full(len(low), STATUS_CLOSED), np.zeros((len(low), 2), np.int64), np.zeros_like(low))
        most = max(1, self.max_bytes // query.bytes_per_box)
        with torch.inference_mode():
            for start in range(0, len(low), most):
                some = slice(start, start + most)
                query.bound_boxes(low[some], high[some], BoundResults(*(array[some] for array in outcome)))
        return outcome

    def _get_query(self, net: CompiledNetwork, open_cells: OpenCells) -> DeviceQuery:
        """A query on the device, where it stays for its next boxes."""
        for known in list(self._recent):
            if known.net is net and known.open_cells is open_cells:
                return known
        # Another query about the same net has its layers on the device already.
        alike = next((one.layers for one in list(self._recent) if one.net is net), None)
        query = DeviceQuery.build(self.device, net, open_cells, alike)
        self._recent.insert(0, query)
        del self._recent[MAX_CACHED_QUERIES:]
        return query
