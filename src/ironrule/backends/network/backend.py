"""The backend for neural networks: bound propagation over boxes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from ironrule.arrays import BoolArray, Points
from ironrule.backends.backend import Backend, CheapestRequest, NearestRequest, OracleRequest, decide_any
from ironrule.backends.nearest import CostSearch, NearestSearch, NoCounterfactuals
from ironrule.backends.network.compile import CompiledNetwork, compile_network, decide_points as decide_net_points
from ironrule.backends.network.engine import CpuEngine
from ironrule.backends.network.nearest import NetworkNearestSearch
from ironrule.backends.network.oracle import NetworkOracle
from ironrule.model.normal_form.network import Network
from ironrule.model.protocol import NormalForm
from ironrule.model.read_model import TabulatedModel
from ironrule.space.constraints.feasible import FeasibleRegion
from ironrule.space.space import Space


def is_network(normal_form: NormalForm) -> bool:
    """Whether a normal form is a network."""
    return isinstance(normal_form, Network)


def _get_network(tabulated_model: TabulatedModel) -> Network:
    assert isinstance(tabulated_model.normal_form, Network)  # nothing else is accepted
    return tabulated_model.normal_form


def find_used_columns(tabulated_model: TabulatedModel) -> set[int]:
    """The columns with a weight that take more than one value; and those with NaN or infinity, whatever the weight."""
    weights = _get_network(tabulated_model).layers[0].weights
    numbers = [np.asarray(column, dtype=np.float64) for column in tabulated_model.columns.values]
    return {
        place
        for place, column in enumerate(numbers)
        if not np.isfinite(column).all() or (weights[place].any() and (column != column[0]).any())
    }


def hash_network(tabulated_model: TabulatedModel) -> str:
    """A hash of how a network decides."""
    network, columns, digest = _get_network(tabulated_model), tabulated_model.columns, hashlib.sha256()
    digest.update(np.array([network.roundoff]).tobytes() + columns.features.astype("<i8").tobytes())
    for values in columns.values:
        digest.update(np.asarray(values, dtype=np.float64).tobytes())
    for layer in network.layers:
        digest.update(repr((layer.activation, layer.weights.shape)).encode())
        digest.update(np.asarray(layer.weights, dtype=np.float64).tobytes())
        digest.update(np.asarray(layer.bias, dtype=np.float64).tobytes())
    for margins in network.alternatives:
        digest.update(b"alternative")
        for margin in margins:
            digest.update(np.array([margin.offset, margin.error, *margin.coefficients]).tobytes())
    return digest.hexdigest()


def compile_nets(model: TabulatedModel, space: Space, feasible: FeasibleRegion) -> tuple[CompiledNetwork, ...]:
    """One net for every alternative."""
    return compile_network(_get_network(model), model.columns, space, feasible)


def decide_points(nets: Sequence[CompiledNetwork], points: Points) -> tuple[BoolArray, BoolArray]:
    """Which points may be desired by one of the nets, and which surely are."""
    return decide_any(decide_net_points, nets, points)


def build_oracle(request: OracleRequest) -> NetworkOracle:
    """Ascent, then branch and bound with bound propagation."""
    return NetworkOracle(tuple(request.alternatives), engine=request.engine or CpuEngine())


def build_nearest_search(request: NearestRequest) -> NearestSearch:
    """Best-first branch and bound by what changes cost."""
    case = request.query.case
    nets = compile_nets(request.tabulated_model, case.space, case.feasible)
    return NetworkNearestSearch.build(nets, request.query, request.engine) if nets else NoCounterfactuals()


def build_cheapest_search(request: CheapestRequest) -> CostSearch:
    """Best-first branch and bound with bounds that heed the cost."""
    from ironrule.backends.network.cheapest import CheapestNetworkSearch  # loads further compiled code

    query = request.query
    assert query.cost is not None
    nets = compile_nets(request.tabulated_model, query.case.space, query.case.feasible)
    return CheapestNetworkSearch(
        nets, query.case, query.box, query.cost, gaps=request.gap_costs, model=request.model, run=request.run
    )


NETWORK = Backend(
    accepts=is_network,
    find_used_columns=find_used_columns,
    compute_fingerprint=hash_network,
    compile=compile_nets,
    decide_points=decide_points,
    build_oracle=build_oracle,
    build_nearest_search=build_nearest_search,
    build_cheapest_search=build_cheapest_search,
)
