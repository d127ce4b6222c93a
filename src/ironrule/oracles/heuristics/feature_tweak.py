"""FeatureTweak (Tolomei, Silvestri, Haines, Lalmas: "Interpretable Predictions of Tree-based Ensembles via Actionable
Feature Tweaking", KDD 2017).

In every tree of an ensemble, each leaf that is better than the one where the instance ends is a candidate: the features
on the path to it are changed as little as the path demands, and ``epsilon`` further, so that a small error does not
undo the change. Candidates for which the whole ensemble gives the desired outcome are counterfactuals; the nearest ones
are the answer. The paper changes one path at a time, so where no single tree can turn the decision it finds nothing.

The paper is about trees that vote. Here a leaf is better if it has a larger value, so that the trees of boosted
ensembles, which add up, are served too. Distances are Euclidean, in the numeric encoding, and epsilon is a share of a
feature's range. Of several categories that a path admits, the one that most past rows have is taken. A model must have
been read as a sum of trees; its normal form has the paths, and the model itself is asked about the candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from ironrule.arrays import BoolArray, Float64Array, IntpArray, Points
from ironrule.model.normal_form.tree_sum import Tree, TreeSplit
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.heuristics.asked_points import AskedPoints, MeasureDistance, answer_query
from ironrule.oracles.heuristics.candidates import CandidateSearch
from ironrule.oracles.heuristics.feature_sums import raise_unsuitable, require_tree_sum
from ironrule.oracles.heuristics.parameters import require_not_negative
from ironrule.oracles.protocol import NO_CAPABILITIES, BoxQuery, Capabilities, Run
from ironrule.verdict.verdict import Verdict

ASKED_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class FeatureTweak:
    """``epsilon`` is how much further than a path demands features are changed, as a share of their range."""

    epsilon: float = 0.05
    capabilities: ClassVar[Capabilities] = NO_CAPABILITIES

    def __post_init__(self) -> None:
        require_not_negative(epsilon=self.epsilon)

    def find(self, query: BoxQuery, run: Run) -> Verdict:
        """Up to k counterfactuals, nearest first; ``Unrefuted`` if no path of a single tree leads to one."""
        return answer_query(query, run, self._look, build_euclidean_distance)

    def _look(self, asked: AskedPoints) -> None:
        search = asked.search
        form, read = require_tree_sum(asked.case, "FeatureTweak")
        trees = [tree for group in form.groups for tree in group.trees]
        if not trees:
            raise_unsuitable("FeatureTweak", "a sum without trees", "trees")
        candidates = PathCandidates(search, read, self.epsilon)
        found = [search.start]
        for tree in trees:
            asked.run.meter.check()
            found += candidates.list_points(tree)
        points = np.unique(np.stack(found), axis=0)
        points = search.sort_by_distance(points[asked.case.feasible.admits(points)])
        for at in range(0, len(points), ASKED_AT_ONCE):
            asked.ask(points[at : at + ASKED_AT_ONCE])
            if len(asked.found) >= search.query.k:
                return


def build_euclidean_distance(search: CandidateSearch) -> MeasureDistance:
    """The Euclidean distance from the instance in the numeric encoding."""

    def measure(points: Points) -> Float64Array:
        return np.asarray(np.linalg.norm(search.encoding.encode(points) - search.center, axis=1))

    return measure


class Path(NamedTuple):
    """A leaf's value, and of every feature on the way to it the codes that go there."""

    value: float
    codes: Mapping[int, BoolArray]


def list_paths(tree: Tree, read: TabulatedModel) -> Iterator[Path]:
    """The paths to all leaves that some codes of every feature reach."""
    answers: dict[TreeSplit, BoolArray] = {}
    waiting: list[tuple[int, dict[int, BoolArray]]] = [(0, {})]
    while waiting:  # nodes, with the codes that reach them
        node, codes = waiting.pop()
        split = tree.splits[node]
        if split is None or tree.left[node] < 0:
            yield Path(float(tree.value[node]), codes)
            continue
        if split not in answers:
            answers[split] = np.asarray(split.goes_left(read.columns.values[split.column]), dtype=np.bool_)
        feature, goes = int(read.columns.features[split.column]), answers[split]
        for child, side in ((tree.left[node], goes), (tree.right[node], ~goes)):
            reaching = side & codes[feature] if feature in codes else side
            if reaching.any():
                waiting.append((int(child), {**codes, feature: reaching}))


@dataclass(frozen=True, slots=True, eq=False)
class PathCandidates:
    """The nearest points that follow the better paths of trees."""

    search: CandidateSearch
    read: TabulatedModel
    epsilon: float
    chosen: dict[tuple[int, bytes], int | None] = field(default_factory=dict)  # by feature and codes that a path admits

    def list_points(self, tree: Tree) -> list[Points]:
        """One for every leaf with a larger value than the one that the instance reaches."""
        instance, paths = self.search.query.case.instance, list(list_paths(tree, self.read))
        own = next(path.value for path in paths if all(codes[instance[j]] for j, codes in path.codes.items()))
        points = (self._follow(path) for path in paths if path.value > own)
        return [point for point in points if point is not None]

    def _follow(self, path: Path) -> Points | None:
        """The instance with what the path demands; None if that is not permitted."""
        point = self.search.start.copy()
        for feature, admitted in path.codes.items():
            if admitted[point[feature]]:
                continue
            key = (feature, admitted.tobytes())
            if key not in self.chosen:
                permitted = self.search.codes[feature]
                self.chosen[key] = self._choose_code(feature, permitted[admitted[permitted]])
            code = self.chosen[key]
            if code is None:
                return None
            point[feature] = code
        return point

    def _choose_code(self, feature: int, codes: IntpArray) -> int | None:
        """Of codes that a path admits the nearest one, epsilon further on; of categories the most frequent."""
        if len(codes) == 0:
            return None
        encoding, case = self.search.encoding, self.search.query.case
        table, own = encoding.tables[feature], encoding.tables[feature][self.search.start[feature]]
        if not encoding.ordered[feature]:
            return int(codes[case.history.frequencies[feature][codes].argmax()])
        nearest = int(codes[np.linalg.norm(table[codes] - own, axis=1).argmin()])
        is_number = table.shape[1] == 1 or (own[1] == 0.0 and table[nearest, 1] == 0.0)
        if not is_number:  # to missing, or from it, there is no way of which to go further
            return nearest
        numbers = codes if table.shape[1] == 1 else codes[table[codes, 1] == 0.0]
        side = np.sign(table[nearest, 0] - own[0])
        beyond = numbers[side * (table[numbers, 0] - table[nearest, 0]) >= 0.0]
        return int(beyond[np.abs(table[beyond, 0] - (table[nearest, 0] + side * self.epsilon)).argmin()])
