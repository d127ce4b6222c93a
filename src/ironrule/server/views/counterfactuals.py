"""What the page of counterfactuals and its JSON form show: what changes, what is proven, ranges, a menu, restrictions.

Records of earlier versions have only some of this; what they do not have is not shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ironrule.model.target import Target
from ironrule.report.plots.changes import build_changes_plot, draw_changes
from ironrule.report.plots.drawing import render_svg
from ironrule.report.text import describe_counterfactuals_stop
from ironrule.results.counterfactuals import FORMAT_FIELD, Counterfactuals
from ironrule.results.explanation import Statistics
from ironrule.results.scope import restore_readings, summarize_domains
from ironrule.rule.cost import Cost
from ironrule.rule.counterfactual import Counterfactual, Goal
from ironrule.rule.phrasing import FeatureLabels, format_label, group_conditions, name_value
from ironrule.rule.rule import Rule
from ironrule.server.service import Service, read_record
from ironrule.server.views.texts import build_changes
from ironrule.space.feature import value_from_json
from ironrule.space.labels import Labels
from ironrule.space.space import Space
from ironrule.wording import (
    format_cost_resolution,
    format_count,
    format_first,
    format_percent_up,
    format_resolution,
)

NORM_WORDS = {"l1": "sum of distances", "l2": "root of the squares of the distances", "linf": "largest distance"}


def build_counterfactuals_view(service: Service, number: int) -> dict[str, Any]:
    """Counterfactuals that were given, in words."""
    record = read_record(service, number, "counterfactuals")
    document, space = record.document, service.served_model.space
    ways = [Counterfactual.from_dict(one) for one in document["counterfactuals"]]
    cost = Cost.from_dict(document.get("cost", {}))
    explainer = service.served_model.explainer
    is_current = (record.model, record.space) == (explainer.fingerprint, explainer.space.fingerprint)
    return {
        "record": record.facts,
        "row": record.row,
        "is_current": is_current,
        "outcome_names": service.served_model.outcome_names,
        "counterfactuals": [build_changes(one, space) for one in ways],
        "costs": _describe_costs(document, cost),
        "cost_note": _describe_cost_unit(cost),
        "target": _describe_goal(document, space.labels),
        "proven": document["proven"],
        "within": _describe_resolution(document, cost),
        "proof_text": _describe_proof(document, cost),
        "stopped": document["stopped"],
        "stop_text": _describe_stored_stop(document),
        "region": _build_region_view(document.get("region"), document, space),
        "menu": _build_menu_view(document.get("menu"), space),
        "infeasibility": _build_infeasibility_view(document, space),
        "has_own_cost": "cost" in document,
        "unfinished": document.get("unfinished", []),
        "can_have_menu": is_current and record.row is not None and _can_have_menu(document),
    }


def render_counterfactuals_drawing(service: Service, number: int) -> str | None:
    """The drawing of what changes, as SVG; None where there is nothing to draw."""
    document = read_record(service, number, "counterfactuals").document
    if not document["counterfactuals"] or FORMAT_FIELD not in document:
        return None
    labels = replace(FeatureLabels.from_space(service.served_model.space, "unquoted"), friendly=True)
    return render_svg(draw_changes(build_changes_plot(Counterfactuals.from_dict(document), labels)), "drawing")


def _describe_costs(document: Mapping[str, Any], cost: Cost) -> list[str]:
    """What each counterfactual costs, in a few words; records of earlier versions have no measures."""
    counts = [format_count(len(one["changes"]), "change") for one in document["counterfactuals"]]
    measures = document.get("measures")
    if measures is None:
        return counts
    word = "distance" if cost.is_usual else "cost"
    return [f"{count}, {word} {one['cost']:.3g}" for count, one in zip(counts, measures, strict=True)]


def _describe_cost_unit(cost: Cost) -> str:
    """What the number is that stands beside each counterfactual."""
    scale = {"range": "as a share of its range", "mad": "in its median absolute deviations"}.get(
        cost.scale, "as the share of past rows that it moves past"
    )
    each = f"The distance of a number is how far it moves, {scale}; that of a category, or of a missing value, is 1."
    if cost.norm == "fewest":
        total = "Nearest means fewest changes, then the least sum of distances."
    else:
        total = f"Nearest means the least {NORM_WORDS[cost.norm]}."
    special = [word for word, used in (("prices", cost.prices), ("steps", cost.steps)) if used]
    own = f" The {' and '.join(special)} asked for are part of it." if special else ""
    return f"{total} {each}{own}"


def _describe_proof(document: Mapping[str, Any], cost: Cost) -> list[str]:
    """What is proven of counterfactuals, and how closely, one sentence each."""
    if not document["counterfactuals"]:
        return []
    said = ["Proven: each is the nearest that does not change all the features of one above it."]
    if not document["proven"]:
        count = document.get("proven_count", 0)
        if not count:
            return ["Found by search, not proven: nearer ones may exist."]
        said = [f"Proven to be the nearest: {format_first(count)}. Nearer ones than the others may exist."]
    resolution = document.get("resolution", 0.0)
    if not resolution:
        return [*said, "This is exact: nothing was rounded."]
    if cost.is_usual:
        share = format_percent_up(resolution)
        said.append(
            f"Numbers were rounded to readable ones. Fewer changes cannot do, and as many changes can be nearer by "
            f"{share} of the range of each number that changes, at the most."
        )
    else:
        said.append(f"Numbers were rounded to readable ones; nothing costs less by more than {resolution:.2g}.")
    return said


def _describe_goal(document: Mapping[str, Any], labels: Labels) -> str | None:
    """What was to be reached, where that is more than the desired outcome."""
    target = Target.from_dict(document["target"]) if "target" in document else None
    goal = Goal(target, document.get("margin", 0.0), document.get("further_models", 0))
    return None if goal == Goal() else goal.describe(labels, "unquoted")


def _describe_resolution(document: Mapping[str, Any], cost: Cost) -> str:
    """How near the nearest is known to be; records of earlier versions do not say."""
    resolution = document.get("resolution", 0.0)
    return format_resolution(resolution) if cost.is_usual else format_cost_resolution(resolution)


def _describe_stored_stop(document: Mapping[str, Any]) -> list[str]:
    """What ended a search for counterfactuals; records of earlier versions have but one word for it."""
    if "statistics" in document:
        return describe_counterfactuals_stop(Statistics(**document["statistics"]))
    return [f"The search was stopped early ({document['stopped']})."] if document["stopped"] else []


def _build_region_view(
    region: Mapping[str, Any] | None, document: Mapping[str, Any], space: Space
) -> dict[str, Any] | None:
    """The ranges around the first counterfactual, feature by feature, and what is proven of them."""
    if region is None:
        return None
    labels, asked = FeatureLabels.from_space(space, "unquoted"), document["asked"]
    rounded = restore_readings(Rule.from_dict(region["rounded"]), summarize_domains(space))
    conditions = {one.feature: one for one in group_conditions(rounded)}
    return {
        "ranges": [
            {
                "feature": one["feature"],
                "label": format_label(labels.get(one["feature"])),
                "before": name_value(one["feature"], value_from_json(one["before"]), space.labels, "unquoted"),
                "range": labels.format_sentence(conditions[one["feature"]])
                if one["feature"] in conditions
                else "any value",
            }
            for one in region["ranges"]
        ],
        "target": _describe_goal(region, space.labels),
        "has_room": any(one["any_value"] or one["low"] != one["high"] for one in region["ranges"]),
        "proven": region["verdict"]["kind"] == "proven",
        "maximal": region["maximal"],
        "rounded": region["rounded"] != region["rule"],
        "ignores_limits": bool(asked["constraints"] or asked["permitted_range"] or "cost" in document),
    }


def _build_menu_view(menu: Mapping[str, Any] | None, space: Space) -> dict[str, Any] | None:
    """All minimal sets of features, each with its cheapest change."""
    if menu is None:
        return None
    labels = FeatureLabels.from_space(space)
    return {
        "entries": [
            {
                "features": [format_label(labels.get(name)) for name in one["features"]],
                "changes": _build_stored_changes(one["counterfactual"], space),
                "distance": one["distance"] if one.get("cost") is None else one["cost"],
                "proven": one["proven"],
                "minimal": one["minimal"],
            }
            for one in menu["entries"]
        ],
        "complete": menu["complete"],
        "measure": "cost" if any(one.get("cost") is not None for one in menu["entries"]) else "distance",
    }


def _build_infeasibility_view(document: Mapping[str, Any], space: Space) -> dict[str, Any] | None:
    """Which restrictions forbid every counterfactual, and what there is without each."""
    found = document.get("infeasibility")
    if found is None:
        return None
    labels = FeatureLabels.from_space(space)
    ignored = "steps" if document.get("cost", {}).get("steps") else None
    if "cost" in document and any("nearest" not in one for one in found["needed"]):
        ignored = "prices and steps"  # an earlier version looked at neither
    return {
        "needed": [
            {
                "label": None if one["feature"] is None else format_label(labels.get(one["feature"])),
                "text": one["text"],
                "kind": one["kind"],
                "without_it": _build_stored_changes(one["without_it"], space),
                "nearest": one.get("nearest", False),
            }
            for one in found["needed"]
        ],
        "proven": found["proven"],
        "minimal": found["minimal"],
        "changes": _build_stored_changes(found["counterfactual"], space),
        "ignored": ignored,
    }


def _build_stored_changes(stored: Mapping[str, Any] | None, space: Space) -> list[dict[str, str]] | None:
    return None if stored is None else build_changes(Counterfactual.from_dict(stored), space)


def _can_have_menu(document: Mapping[str, Any]) -> bool:
    """Whether a menu can be asked for: there is none yet, and something can be changed."""
    return "asked" in document and "menu" not in document and bool(document["counterfactuals"])
