"""Counterfactuals of one row: the nearest ones, and the minimal sets of features to change.

``Counterfactuals`` is what ``Explainer.counterfactuals`` returns, nearest first; ``ChangeSet`` is one of what
``Explainer.change_sets`` enumerates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ironrule.errors import InputError, build_format_error
from ironrule.results.counterfactual_tables import build_frame
from ironrule.results.display import plot_counterfactuals, render_counterfactuals
from ironrule.results.document_types import check_counterfactuals_types
from ironrule.results.explanation import Statistics
from ironrule.results.scope import DomainSummary
from ironrule.rule.counterfactual import Counterfactual
from ironrule.space.feature import Value, value_from_json, value_to_json
from ironrule.verdict.digest import DIGEST_FIELD, add_digest, compute_digest
from ironrule.wording import escape_controls, join_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

FORMAT_FIELD, COUNTERFACTUALS_FORMAT = "counterfactuals_format", 1


@dataclass(frozen=True, slots=True)
class Counterfactuals(Sequence[Counterfactual]):
    """Counterfactuals of one row, nearest first. Empty: none was found, or, if ``proven``, there is none.

    ``proven``: each is the nearest (fewest changes, then least distance) that does not change all the features of an
    earlier one, and where there are fewer than asked for, no other exists. Over whole intervals numbers are rounded to
    readable ones, and ``resolution`` says how far: nothing that changes fewer features exists at all, and nothing with
    as many changes is nearer by more than this share of the range for each number that it changes. ``domains`` are
    those of the features that some counterfactual changes.
    """

    instance: Mapping[str, Value]
    items: tuple[Counterfactual, ...]
    statistics: Statistics
    proven: bool = False
    resolution: float = 0.0
    domains: Mapping[str, DomainSummary] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: Any) -> Any:
        return self.items[place]

    def to_dict(self) -> dict[str, Any]:
        """The counterfactuals as plain data."""
        document = {
            FORMAT_FIELD: COUNTERFACTUALS_FORMAT,
            "instance": {name: value_to_json(value) for name, value in self.instance.items()},
            "counterfactuals": [item.to_dict() for item in self.items],
            "proven": self.proven,
            "resolution": self.resolution,
            "seed": self.statistics.seed,
            "evaluations": self.statistics.evaluations,
            "seconds": self.statistics.seconds,
            "stopped": self.statistics.stopped,
            "statistics": asdict(self.statistics),
            "domains": {name: domain.to_dict() for name, domain in self.domains.items()},
        }
        return add_digest(document)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Counterfactuals:
        """The counterfactuals that :meth:`to_dict` wrote; raises InputError if the data is none."""
        if not isinstance(data, Mapping):
            raise InputError(expected="counterfactuals must be a JSON object", got=type(data).__name__)
        if data.get(FORMAT_FIELD) != COUNTERFACTUALS_FORMAT:
            got = data.get(FORMAT_FIELD)
            raise build_format_error("counterfactuals", COUNTERFACTUALS_FORMAT, got, "search for them again")
        try:
            if data[DIGEST_FIELD] != compute_digest(data):
                statement = "digest mismatch: the document was modified after it was written"
                raise InputError(statement, code="digest-mismatch")
            check_counterfactuals_types(data)
            return cls(
                instance={name: value_from_json(value) for name, value in data["instance"].items()},
                items=tuple(map(Counterfactual.from_dict, data["counterfactuals"])),
                statistics=Statistics(**data["statistics"]),
                proven=data["proven"],
                resolution=float(data["resolution"]),
                domains={name: DomainSummary.from_dict(one) for name, one in data.get("domains", {}).items()},
            )
        except InputError:
            raise
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise InputError(f"malformed counterfactuals: {error!r}") from None

    def to_json(self, indent: int | None = None) -> str:
        """The counterfactuals as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Counterfactuals:
        """The counterfactuals that :meth:`to_json` wrote."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError, TypeError) as error:  # a number of too many digits is a ValueError
            raise InputError(f"the counterfactuals are not valid JSON: {error}") from None
        return cls.from_dict(data)

    def to_frame(self, only_changes: bool = False) -> DataFrame:
        """A pandas table with one row per counterfactual; with ``only_changes``, "-" where a value stays as it is."""
        return build_frame(self.instance, self.items, only_changes)

    def plot(self, ax: Axes | None = None) -> Axes:
        """What changes, by how much, per counterfactual, on matplotlib's axes (``pip install 'ironrule[plots]'``)."""
        return plot_counterfactuals(self, ax)

    def __str__(self) -> str:
        if self.items:
            return join_lines(f"{place}. {item}" for place, item in enumerate(self.items, 1))
        if self.proven:
            return "there is no counterfactual"
        stopped = self.statistics.stopped
        end = f"; the search was stopped early ({escape_controls(stopped)})" if stopped else ""
        return f"no counterfactual was found{end}"

    def _repr_html_(self) -> str:
        return render_counterfactuals(self)


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Features whose change can give the desired outcome, and one counterfactual that changes just these.

    ``minimal`` says it is proven that changing only some of them cannot.
    """

    features: tuple[str, ...]
    counterfactual: Counterfactual
    minimal: bool

    def __str__(self) -> str:
        return str(self.counterfactual)
