"""Bounds of networks at multipliers, and cuts at units: what is bounded lies below, whatever the multipliers are."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from change_examples import rewrite, write_changes
from hypothesis import given, settings, strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ironrule import Checker, Cost, Explainer
from ironrule.checker.bounds.bound_propagation import RelaxedNetwork
from ironrule.checker.bounds.change_bounds import ChangePieces
from ironrule.checker.bounds.column_moves import MoveCosts
from ironrule.checker.bounds.multiplier_programs import Multipliers
from ironrule.checker.bounds.network_bounds import prepare_network_bounds
from ironrule.checker.bounds.network_change_bounds import NetworkChangeBounds
from ironrule.checker.bounds.pieces import Pieces
from ironrule.checker.changes.atoms import CHANGES, STAYS, UNDECIDED, FeatureAtoms
from ironrule.checker.preprocessing import EstimatorColumn
from ironrule.checker.readers.network_form import ActivationFunction, NetworkForm, NetworkLayer, NetworkMargin

NORMS = ("l1", "l2", "linf", "fewest")


class RandomPiece:
    """A small network, a row, prices, and one piece of changes with sides of units; numbers from 0 to 5."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = np.random.default_rng(seed)
        self.width, self.norm = int(rng.integers(1, 4)), str(rng.choice(NORMS))
        sizes = [self.width, *rng.integers(1, 5, size=int(rng.integers(1, 3))), int(rng.integers(1, 3))]
        kinds = [ActivationFunction("relu"), ActivationFunction("leaky", 0.25), ActivationFunction("tanh")]
        layers = []
        for place, (before, after) in enumerate(pairwise(sizes)):
            last = place + 2 == len(sizes)
            activation = ActivationFunction() if last else kinds[int(rng.choice(3, p=[0.5, 0.3, 0.2]))]
            layers.append(NetworkLayer(rng.normal(size=(before, after)), rng.normal(size=after) / 2, activation))
        count = int(rng.integers(1, 3))
        margins = tuple(NetworkMargin(rng.normal(size=sizes[-1]), float(rng.normal())) for _ in range(count))
        self.form = NetworkForm(tuple(layers), (margins,))
        self.numbers = [
            np.sort(rng.choice(np.arange(21), size=int(rng.integers(2, 6)), replace=False) / 4.0)
            for _ in range(self.width)
        ]
        self.slopes = rng.choice([-1.0, 0.5, 2.0], size=self.width)
        self.missing = rng.random(self.width) < 0.3
        self.own = np.array(
            [int(rng.integers(0, len(one) + gone)) for one, gone in zip(self.numbers, self.missing, strict=True)]
        )
        self.prices = rng.choice([0.5, 1.0, 3.0], size=(self.width, 2))
        self.straight = rng.random(self.width) < 0.8
        self.squared, self.each = (
            self.norm == "l2",
            {"fewest": 1.0, "l1": float(rng.choice([0.0, 0.2]))}.get(self.norm, 0.0),
        )
        self.unit = 40.0 if self.norm == "fewest" else 1.0
        self.limit = float(rng.uniform(0.2, 4.0))

    def measure(self, j: int, numbers: np.ndarray) -> np.ndarray:
        """How far numbers of a feature are; from a missing one all are as far."""
        if self.own[j] >= len(self.numbers[j]):
            return np.full(np.shape(numbers), float(self.prices[j].max()))
        moved = numbers - self.numbers[j][self.own[j]]
        return np.where(moved > 0, moved * self.prices[j, 0], -moved * self.prices[j, 1])

    def price(self, distances: np.ndarray, changed: Any) -> np.ndarray:
        plain = distances**2 if self.squared else self.each + distances / self.unit
        return np.where(changed, plain, 0.0)

    def build(self) -> tuple[NetworkChangeBounds, ChangePieces]:
        """The bounds and the piece."""
        rng, atoms, codes, columns, moved = self.rng, [], [], [], []
        for j, numbers in enumerate(self.numbers):
            away = self.measure(j, numbers)
            costs = self.price(away, np.arange(len(numbers)) != self.own[j])
            if self.missing[j]:
                costs = np.append(
                    costs, self.price(np.array(self.prices[j].max()), True) * (self.own[j] < len(numbers))
                )
            ends = self.price(np.minimum(away[:-1], away[1:]), True)
            gap_costs = np.full(len(costs), np.inf)
            gap_costs[: len(ends)] = ends
            one = FeatureAtoms.build(
                int(self.own[j]),
                costs,
                np.arange(len(costs)),
                gap_costs,
                ordered_codes=len(numbers),
                keeps_codes_apart=True,
            )
            atoms.append(one)
            moved.append(away)
            beside = np.minimum(gap_costs, np.concatenate([[np.inf], gap_costs[:-1]]))
            codes.append((np.minimum(costs, beside), costs))
            values = self.slopes[j] * numbers + 0.5
            columns.append(EstimatorColumn(j, np.append(values, -1.25) if self.missing[j] else values))
        moves = MoveCosts(
            tuple(atoms),
            tuple(moved),
            self.squared,
            self.each,
            self.unit,
            dict.fromkeys(np.flatnonzero(self.straight).tolist(), 1e-12),
        )
        bounds = prepare_network_bounds(self.form, columns, [len(one[1]) for one in codes])
        found = NetworkChangeBounds.build(bounds, self.own, [one[0] for one in codes], [one[1] for one in codes], moves)
        low, high, status = (np.zeros((1, self.width), dtype=np.intp) for _ in range(3))
        for j, one in enumerate(atoms):
            status[0, j] = rng.choice([STAYS, UNDECIDED, UNDECIDED, CHANGES])
            low[0, j], high[0, j] = np.sort(rng.integers(0, len(one), size=2))
            if rng.random() < 0.5:
                low[0, j], high[0, j] = 0, len(one) - 1
            if status[0, j] == CHANGES:
                low[0, j] += low[0, j] == one.own < high[0, j]
                high[0, j] -= low[0, j] < one.own == high[0, j]
                status[0, j] = UNDECIDED if low[0, j] == high[0, j] == one.own else CHANGES
            elif status[0, j] == UNDECIDED:
                low[0, j], high[0, j] = min(low[0, j], one.own), max(high[0, j], one.own)
            else:
                low[0, j] = high[0, j] = one.own
        self.atoms, self.low, self.high, self.status = atoms, low[0], high[0], status[0]
        self.sides = np.zeros((1, found.unit_count), dtype=np.intp)
        start = 0
        for layer in self.form.layers:
            if layer.activation.kind in ("relu", "leaky"):
                here = rng.choice([0, 0, 1, -1], size=len(layer.bias))
                self.sides[0, start : start + len(layer.bias)] = here
            start += len(layer.bias)
        sets = tuple(one.flag_codes(low[:, j], high[:, j], status[:, j]) for j, one in enumerate(atoms))
        least = np.stack([one.find_least_costs(low[:, j], high[:, j]) for j, one in enumerate(atoms)], axis=1)
        adds_up = self.norm != "linf"
        undecided = status == UNDECIDED
        paid = np.where(status == CHANGES, least, 0.0).sum(axis=1)
        used = np.where(undecided & np.isfinite(least), least, 0.0) if adds_up else np.zeros_like(least)
        left = self.limit - paid if adds_up else np.full(1, np.inf)
        limit = self.limit if adds_up else np.inf
        rows = np.zeros((1, self.width), dtype=np.int32)
        return found, ChangePieces(
            Pieces(sets, rows), undecided, used, left, limit, self.limit, low, high, status, self.sides
        )

    def draw_points(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Columns of points of the piece that can be paid, and what they cost."""
        rng, columns, costs = self.rng, [], []
        for j, one in enumerate(self.atoms):
            places = rng.integers(self.low[j], self.high[j] + 1, size=count)
            if self.status[j] == UNDECIDED:
                places = np.where(rng.random(count) < 0.4, one.own, places)
            numbers, gone = np.append(self.numbers[j], np.nan), one.begins[places] >= len(self.numbers[j])
            first = numbers[one.begins[places]]
            behind = numbers[np.minimum(one.begins[places] + 1, len(self.numbers[j]))]
            share = rng.choice([1e-6, 1.0 - 1e-6, 0.5], size=count) * rng.random(count) ** rng.choice([0.0, 1.0])
            number = np.where(one.is_gap[places], first + share * (behind - first), first)
            columns.append(np.where(gone, -1.25, self.slopes[j] * number + 0.5))
            away = np.where(gone, self.prices[j].max(), self.measure(j, np.nan_to_num(number)))
            costs.append(self.price(away, places != one.own))
            if self.status[j] == CHANGES:
                costs[-1] = np.where(places == one.own, np.inf, costs[-1])
        every = np.stack(costs, axis=1)
        total = every.sum(axis=1) if self.norm != "linf" else every.max(axis=1)
        keep = total < self.limit
        return np.stack(columns, axis=1)[keep], total[keep]

    def evaluate(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All sums of units, and the margins."""
        values, sums = columns, []
        for layer in self.form.layers:
            sums.append(values @ layer.weights + layer.bias)
            values = layer.activation.apply(sums[-1])
        factors = np.array([margin.coefficients for margin in self.form.alternatives[0]])
        offsets = np.array([margin.offset for margin in self.form.alternatives[0]])
        return np.concatenate(sums, axis=1), values @ factors.T + offsets


def compare_with_points(seed: int, rounds: int = 4, flip: float = 1.0, shift: float = 1.0) -> float:
    """By how much points of a random piece exceed its bounds at most, at random multipliers; ``flip`` and ``shift`` are
    faults: the sign of sides, and a share of the limit.
    """
    piece = RandomPiece(seed)
    found, changes = piece.build()
    columns, costs = piece.draw_points(3000)
    sums, margins = piece.evaluate(columns)
    kept = (sums * piece.sides[0] >= 0.0).all(axis=1)
    columns, costs, sums, margins = columns[kept], costs[kept], sums[kept], margins[kept]
    if not len(columns):
        return -math.inf
    if shift != 1.0:
        changes = ChangePieces(*changes[:4], changes.limit * shift, changes.top * shift, *changes[6:])
    worst = -math.inf
    with np.errstate(all="ignore"):
        block = found.bounds.network.first.prepare_pieces(changes.pieces).build_block(slice(None))
        pieces = found._build_columns(changes, block)
        sides = found._split_sides(changes)
        relaxed = RelaxedNetwork.build(found.bounds.network, pieces.block, pieces.find_most, sides)
        start = 0
        for low, high in relaxed.ends:
            own = sums[:, start : start + low.shape[1]]
            worst = max(worst, (own - high).max(), (low - own).max())
            start += low.shape[1]
        for _ in range(rounds):
            scale = piece.rng.choice([0.0, 0.1, 1.0, 5.0])
            weights = piece.rng.random(len(margins.T)) * piece.rng.integers(0, 2, size=len(margins.T))
            extra = [piece.rng.random(own.shape[1]) * own[0] * scale for own in sides]
            taken = replace(pieces, changes=changes.with_sides(np.where(flip < 0, -1, 1) * piece.sides))
            slopes = [piece.rng.random(own.shape[1]) for own in sides]
            price = float(piece.rng.choice([0.0, 0.3, 2.0])) if piece.norm != "linf" else 0.0
            one = Multipliers(
                weights, price, [flip * own for own in extra], slopes, shares=[], unit_gains=np.zeros(0), value=0.0
            )
            top, _ = found.bound_at_multipliers(
                [one], np.zeros(1, dtype=np.intp), relaxed, taken, found.bounds.alternatives[0]
            )
            left = price * (piece.limit - costs) if price else 0.0
            value = margins @ weights + sums @ np.concatenate(extra) + left
            knapsack = value - left  # the other bound counts the limit without a price
            if np.isfinite(top[0]):
                worst = max(worst, float((knapsack - top[0]).max()))
        if found.flag_closed(changes).closed[0]:
            assert not (margins > 1e-9).all(axis=1).any(), seed
    return worst


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 10**9))
def test_no_point_of_a_piece_is_above_its_bounds(seed: int) -> None:
    assert compare_with_points(seed) <= 1e-7


@pytest.mark.parametrize("fault", [{"flip": -1.0}, {"shift": 0.95}])
def test_a_wrong_sign_or_a_limit_that_is_too_low_would_be_noticed(fault: dict[str, float]) -> None:
    assert max(compare_with_points(seed, **fault) for seed in range(150)) > 1e-3


@pytest.mark.parametrize(("norm", "seed"), [("l1", 0), ("l2", 1), ("linf", 2)])
def test_a_dearer_point_or_a_finer_resolution_is_never_confirmed(norm: Any, seed: int) -> None:
    """Dense samples by the user's own estimator say what is cheaper."""
    rng = np.random.default_rng(seed)
    table = np.round(rng.normal(size=(90, 4)), 2)
    classes = (np.abs(table[:, 0]) + table[:, 1] - table[:, 2] * table[:, 3] > 0.7).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # any network will do
        network = MLPClassifier((6, 4), solver="lbfgs", max_iter=80, alpha=0.1, random_state=seed)
        model = make_pipeline(StandardScaler(), network).fit(table, classes)
    row = table[model.predict(table) == 0][seed]
    prices = {"x0": {"up": 0.5, "down": 2.0}, "x2": 3.0}
    cost = Cost(norm, prices=prices, per_change=0.02 if norm == "l1" else 0.0)
    up, down = np.array([0.5, 1.0, 3.0, 1.0]), np.array([2.0, 1.0, 3.0, 1.0])

    def measure(points: np.ndarray) -> np.ndarray:
        moved = (points - row) / np.ptp(table, axis=0)
        away = np.where(moved > 0, moved * up, -moved * down)
        charge = cost.per_change * (points != row).sum(axis=1)
        return np.linalg.norm(away, {"l1": 1, "l2": 2, "linf": math.inf}[norm], axis=1) + charge

    found = Explainer(model, table).counterfactuals(row, k=1, cost=cost, progress=False, budget=2_000)
    document, checker = json.loads(found.to_json()), Checker(model, table)
    assert checker.check(document).status == ("proven" if found.proven else "undecided")
    claimed = measure(np.array([list(document["counterfactuals"][0]["values"].values())]))[0]
    near = row + rng.uniform(-2, 2, size=(60_000, 4)) * claimed * np.ptp(table, axis=0) * rng.integers(
        0, 2, (60_000, 4)
    )
    near = np.clip(near, table.min(axis=0), table.max(axis=0))
    good = near[model.predict(near) == 1]
    assert not found.proven or (measure(good) >= claimed - found.resolution - 1e-6).all()
    for point in good[measure(good) > claimed * 1.03][:1]:
        forged = rewrite(document, proven=True, counterfactuals=[write_changes(row, point)], resolution=0.0)
        assert checker.check(forged).status != "proven"
    finer = rewrite(document, proven=True, resolution=0.0)
    assert checker.check(finer).status != "proven" or (measure(good) >= claimed - 1e-6).all()
