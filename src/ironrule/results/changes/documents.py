"""What the documents of menus and of forbidding restrictions have in common: format, digest, and what was asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from ironrule.errors import InputError, build_format_error
from ironrule.model.target import Target
from ironrule.results.scope import SearchScope
from ironrule.rule.cost import DEFAULT_COST, Cost
from ironrule.rule.counterfactual import Counterfactual
from ironrule.space.labels import NO_LABELS, Labels
from ironrule.verdict.digest import require_digest

T = TypeVar("T")


class ReachedResult(Protocol):
    """A result that says what was to be reached, by what cost, and what was searched."""

    @property
    def cost(self) -> Cost:
        """What counted as near."""

    @property
    def target(self) -> Target | None:
        """What was to be reached, if not the explainer's desired outcome."""

    @property
    def margin(self) -> float:
        """By how much scores may move."""

    @property
    def further_models(self) -> int:
        """How many models beside the explainer's own had to agree."""

    @property
    def scope(self) -> SearchScope | None:
        """What was searched."""

    @property
    def labels(self) -> Labels:
        """How features and values are shown."""


def write_asked(result: ReachedResult) -> dict[str, Any]:
    """What was asked for and searched, as plain data, without what is as usual."""
    return {
        **({} if result.cost == DEFAULT_COST else {"cost": result.cost.to_dict()}),
        **({} if result.target is None else {"target": result.target.to_dict()}),
        **({"margin": result.margin} if result.margin else {}),
        **({"further_models": result.further_models} if result.further_models else {}),
        **({} if result.scope is None else {"scope": result.scope.to_dict()}),
        **({"labels": result.labels.to_dict()} if result.labels else {}),
    }


def read_asked(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same read back, by the names of fields; labels are those of counterfactuals."""
    return {
        "cost": Cost.from_dict(data.get("cost", {})),
        "target": Target.from_dict(data["target"]) if "target" in data else None,
        "margin": float(data.get("margin", 0.0)),
        "further_models": int(data.get("further_models", 0)),
        "scope": SearchScope.from_dict(data["scope"]) if "scope" in data else None,
    }


def read_counterfactual(data: Mapping[str, Any] | None, document: Mapping[str, Any]) -> Counterfactual | None:
    """A counterfactual of a document, if there is one, with the labels of the document."""
    if data is None:
        return None
    found = Counterfactual.from_dict(data)
    if "labels" not in document:
        return found
    labels = Labels.from_dict(document["labels"])
    labels.check_names(found.values)
    return found.with_labels(labels)


def find_labels(*counterfactuals: Counterfactual | None) -> Labels:
    """The labels of the first counterfactual that changes something."""
    return next((one.labels for one in counterfactuals if one is not None and one.changes), NO_LABELS)


def read_document(
    data: Any, what: str, field: str, number: int, build: Callable[[Mapping[str, Any]], T], remedy: str
) -> T:
    """What a document says, by ``build``; raises InputError unless it is one, whole, and of this format."""
    if not isinstance(data, Mapping):
        raise InputError(expected=f"{what} must be a JSON object", got=type(data).__name__)
    if data.get(field) != number or isinstance(data[field], bool):
        raise build_format_error(what, number, data.get(field), remedy)
    try:
        require_digest(data)
        return build(data)
    except InputError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise InputError(f"malformed document of {what}: {error!r}") from None
