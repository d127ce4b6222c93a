"""Choose where to cut a part of a network's box, and which of its points to look at.

Where the bound is reached, at a mixture of two points, the relaxation loses something at units on either side of zero,
and the mixture itself may be no point: of a category, or of a number between whose neighbours nothing lies. The part is
cut where that is worst.
"""

from __future__ import annotations

import numpy as np

from ironrule.arrays import Int64Array
from ironrule.backends.network.change_places import ChangePlaces
from ironrule.backends.network.compile import (
    CompiledNetwork,
    activate,
    compute_first_layer,
    compute_least_margin,
    run_forward,
)
from ironrule.backends.network.priced_points import CostWorkspace
from ironrule.backends.network.workspace import NetworkWorkspace
from ironrule.jit import kernel_helper

# What is known of a part: nothing in it is cheap enough; a unit whose side of zero to fix; a feature to cut; a single
# point for the model to decide; nothing left to cut but numbers between two values.
PART_CLOSED, PART_UNIT, PART_FEATURE, PART_POINT, PART_STUCK = 0, 1, 2, 3, 4
UNIT_SHARE = 0.02  # of what is missing to the limit: units that lose less are not fixed before features are cut
EXACT_SHARE = 0.002  # of what is missing to the limit: smaller losses are not worth a cut


@kernel_helper
def _find_lossy_unit(net: CompiledNetwork, workspace: NetworkWorkspace, lane: int) -> tuple[int, float, float]:
    """The rectified unit on either side of zero at which the bound loses most at the mixture, how much of it, and what
    all units lose together, those beyond the side that is known of them included.
    """
    unit, most, total = -1, 0.0, 0.0
    for k in range(net.widths.shape[0]):
        for i in range(net.unit_starts[k], net.unit_starts[k + 1]):
            z, given = workspace.unit_sums[i, lane], workspace.kept_coefficients[i, lane]
            over = workspace.upper_slope[i, lane] * z + workspace.upper_intercept[i, lane]
            under = workspace.lower_slope[i, lane] * z + workspace.lower_intercept[i, lane]
            here = activate(net.activations[k], net.slopes[k], z)
            lost = abs(given * ((over if given >= 0.0 else under) - here))
            total += lost
            is_open = workspace.low[i, lane] < 0.0 < workspace.high[i, lane]
            if lost > most and is_open and 1 <= net.activations[k] <= 2:
                unit, most = i, lost
    return unit, most, total


@kernel_helper
def find_mixed_place(places: ChangePlaces, costs: CostWorkspace, j: int, lane: int) -> tuple[int, bool]:
    """The place of a scaled number at or before the mixture of the two last points; whether there is such a number,
    and costs no more than the mixture.
    """
    start, one, other = places.starts[j], costs.cheap[j, lane], costs.good[j, lane]
    share = costs.share[lane]
    value = (1.0 - share) * places.values[start + one] + share * places.values[start + other]
    cost = (1.0 - share) * places.edge[start + one] + share * places.edge[start + other]
    low, high = min(one, other), max(one, other)
    first, last = low, high
    while first < last - 1:
        middle = (first + last) // 2
        if places.values[start + middle] <= value:
            first = middle
        else:
            last = middle
    if not places.joined[start + first]:
        return first, False
    wide = places.values[start + first + 1] - places.values[start + first]
    part = (value - places.values[start + first]) / wide if wide > 0.0 else 0.0
    here = (1.0 - part) * places.edge[start + first] + part * places.edge[start + first + 1]
    return first, bool(here <= cost + 1e-9 * (abs(cost) + 1e-9))


@kernel_helper
def _find_cut(
    net: CompiledNetwork, places: ChangePlaces, workspace: NetworkWorkspace, costs: CostWorkspace, lane: int
) -> tuple[int, int]:
    """A feature to cut, and the last place of its first part; -1 if the mixture of the two last points is a point.

    It is cut at the mixture, where the costs of its places in the two points differ most.
    """
    feature, at, most = -1, -1, -1.0
    for j in range(workspace.first.shape[0]):
        start, first, last = places.starts[j], workspace.first[j, lane], workspace.last[j, lane]
        one, other = costs.cheap[j, lane], costs.good[j, lane]
        if one == other or (last == first + 1 and places.joined[start + first]):
            continue
        middle = (one + other) // 2
        if net.is_linear[j]:
            middle, is_there = find_mixed_place(places, costs, j, lane)
            if is_there:
                continue
        apart = abs(places.edge[start + one] - places.edge[start + other]) + 1e-9
        if apart > most:
            feature, at, most = j, _move_cut(places, start, first, last, middle), apart
    return feature, at


@kernel_helper
def _find_widest(net: CompiledNetwork, places: ChangePlaces, workspace: NetworkWorkspace, lane: int) -> tuple[int, int]:
    """The feature whose range changes the bound most, and its middle; -1 if nothing but joined neighbours is left."""
    feature, at, most = -1, -1, -1.0
    for j in range(workspace.first.shape[0]):
        start, first, last = places.starts[j], workspace.first[j, lane], workspace.last[j, lane]
        if first == last or (last == first + 1 and places.joined[start + first]):
            continue
        if net.is_linear[j]:
            apart = abs(workspace.slopes[j, lane] * (workspace.at_last[j, lane] - workspace.at_first[j, lane]))
        else:
            row, least, largest = net.table_starts[j], np.inf, -np.inf
            for place in range(first, last + 1):
                value = workspace.row_products[row + places.cells[start + place], lane]
                least, largest = min(least, value), max(largest, value)
            apart = largest - least
        if apart > most:
            feature, at, most = j, _move_cut(places, start, first, last, (first + last) // 2), apart
    return feature, at


@kernel_helper
def _move_cut(places: ChangePlaces, start: int, first: int, last: int, middle: int) -> int:
    """A last place of the first part such that both parts are smaller than the whole, as near to the middle as can be.

    Where the place is joined to the next one, both parts have it.
    """
    middle = min(max(middle, first), last - 1)
    if middle == first and places.joined[start + first]:
        middle += 1
    return middle


@kernel_helper
def propose_point(
    net: CompiledNetwork,
    places: ChangePlaces,
    workspace: NetworkWorkspace,
    costs: CostWorkspace,
    lane: int,
    point: Int64Array,
    sure: Int64Array,
    own: int,
) -> None:
    """Write a point that may be a counterfactual, and whether it surely (1) or maybe (2) is one: the mixture of the two
    last points, moved to the next places towards the one with more gain, or that one.
    """
    for attempt in range(2):
        for j in range(point.shape[0]):
            point[j] = costs.good[j, lane]
            if attempt == 0 and net.is_linear[j] and costs.cheap[j, lane] != point[j]:
                middle = find_mixed_place(places, costs, j, lane)[0]
                point[j] = middle + 1 if point[j] > costs.cheap[j, lane] else middle
            workspace.cells[j] = places.cells[places.starts[j] + point[j]]
        compute_first_layer(net, workspace.cells, workspace.point_sums)
        run_forward(net, workspace.point_sums, workspace.point_values)
        most, least = compute_least_margin(net, workspace.point_values)
        sure[own] = 1 if least > 0.0 else 2 if most > 0.0 else 0
        if sure[own] == 1:
            return


@kernel_helper
def choose_part_cut(
    net: CompiledNetwork,
    places: ChangePlaces,
    workspace: NetworkWorkspace,
    costs: CostWorkspace,
    lane: int,
    limit: float,
    cut: Int64Array,
) -> int:
    """Where to cut a part that is not closed: the status, with the unit or the feature in `cut`."""
    is_point = True
    for j in range(workspace.first.shape[0]):
        is_point = is_point and workspace.first[j, lane] == workspace.last[j, lane]
    if is_point:
        return PART_POINT
    unit, most, total = _find_lossy_unit(net, workspace, lane)
    feature, place = _find_cut(net, places, workspace, costs, lane)
    price, missing = costs.price[lane], limit - costs.best_lower[lane]
    # Units first, as long as one loses something; then features of which the mixture is no value or number.
    if unit >= 0 and (price == 0.0 or price * most > (UNIT_SHARE if feature >= 0 else EXACT_SHARE) * missing):
        cut[0], cut[1] = unit, 0
        return PART_UNIT
    if feature < 0 and (price == 0.0 or price * total > EXACT_SHARE * missing):
        feature, place = _find_widest(net, places, workspace, lane)
    cut[0], cut[1] = feature, place
    if feature >= 0:
        return PART_FEATURE
    # The bound takes a point that is no counterfactual, or only the model knows: single values can still be told apart.
    for j in range(workspace.first.shape[0]):
        first, last = workspace.first[j, lane], workspace.last[j, lane]
        if first < last and not places.joined[places.starts[j] + first : places.starts[j] + last].any():
            cut[0], cut[1] = j, (first + last) // 2
            return PART_FEATURE
    return PART_STUCK
