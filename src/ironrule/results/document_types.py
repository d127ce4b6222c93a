"""The types of everything in the document of an explanation, checked before one is made of it.

A document comes from a file or a request, and its author may be hostile: its digest says that it is whole, not that it
makes sense. What is read back is shown in reports, so every field must have the type that these rely on, and rules,
changes and marks must speak of what is there. Whether the claims are true is the checker's business alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Any

from ironrule.errors import InputError, describe_value

FieldCheck = Callable[[Any, str], None]  # of a value, and of the name that errors call it by


def _of_types(what: str, *types: type) -> FieldCheck:
    def check(value: Any, name: str) -> None:
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise InputError(expected=f"{name} in the document must be {what}", got=describe_value(value))

    return check


def _one_of(*choices: str) -> FieldCheck:
    def check(value: Any, name: str) -> None:
        if value not in choices:
            rule = f"{name} in the document must be one of {', '.join(choices)}"
            raise InputError(expected=rule, got=describe_value(value))

    return check


def _check_value(value: Any, name: str) -> None:
    """A value of a feature: a date is an object."""
    date = isinstance(value, dict) and set(value) == {"date"} and isinstance(value["date"], str)
    if not date and not isinstance(value, (str, int, float, NoneType)):
        raise InputError(expected=f"{name} in the document must be one value", got=describe_value(value))
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise InputError(expected=f"{name} in the document must be at most 1.8e308", got=describe_value(value))


def _from_to(what: str, low: int, high: int, inner: FieldCheck) -> FieldCheck:
    def check(value: Any, name: str) -> None:
        inner(value, name)
        if not low <= value <= high:  # NaN too
            raise InputError(expected=f"{name} in a ladder must be {what}", got=describe_value(value))

    return check


def _optional(inner: FieldCheck) -> FieldCheck:
    def check(value: Any, name: str) -> None:
        if value is not None:
            inner(value, name)

    return check


def _list_of(inner: FieldCheck) -> FieldCheck:
    is_list = _of_types("a list", list, tuple)

    def check(value: Any, name: str) -> None:
        is_list(value, name)
        for item in value:
            inner(item, name)

    return check


def _mapping_to(inner: FieldCheck) -> FieldCheck:
    is_mapping = _of_types("an object", Mapping)

    def check(value: Any, name: str) -> None:
        is_mapping(value, name)
        for key, item in value.items():
            _text(key, f"a key of {name}")
            inner(item, f"{name}.{describe_value(key)}")

    return check


def _record(**fields: FieldCheck) -> FieldCheck:
    """An object whose fields, where they are there, are of these types."""
    is_mapping = _of_types("an object", Mapping)

    def check(value: Any, name: str) -> None:
        is_mapping(value, name)
        for field, inner in fields.items():
            if field in value:
                inner(value[field], field)

    return check


_text = _of_types("a string", str)
_integer = _of_types("an integer", int)
_number = _of_types("a number", int, float)
_flag = _of_types("true or false", bool)
_rule = _record(
    components=_list_of(
        _record(feature=_text, op=_text, value=_check_value, column=_text, allowed=_optional(_list_of(_check_value)))
    ),
    outcome=_text,
)
_counterfactual = _record(
    values=_mapping_to(_check_value),
    changes=_list_of(_record(feature=_text, before=_check_value, after=_check_value)),
    exact=_mapping_to(_check_value),
)
_verdict = _record(
    kind=_text,
    tried=_integer,
    samples=_integer,
    confidence=_number,
    explored=_number,
    counterfactual=_counterfactual,
)
_ranked = _record(rule=_rule, verdict=_verdict, coverage=_integer)
_statistics = _record(
    **dict.fromkeys(("seed", "generations", "candidates", "oracle_calls", "model_calls", "evaluations"), _integer),
    **dict.fromkeys(("seconds", "compile_seconds"), _number),
    algorithm=_text,
    operator_seconds=_mapping_to(_number),
    stopped=_optional(_text),
    stopped_by=_optional(_text),
    budget_seconds=_optional(_number),
    budget_evaluations=_optional(_integer),
)
_domain = _record(
    kind=_one_of("interval", "integers", "seen", "list"),
    missing=_flag,
    low=_check_value,
    high=_check_value,
    count=_integer,
    values=_list_of(_check_value),
)
_changes = _record(
    counterfactuals=_list_of(_counterfactual),
    proven=_flag,
    complete=_flag,
    limits=_mapping_to(_record(moves=_list_of(_text), reason=_text)),
    constraints=_list_of(_text),
)
_decision = _record(
    threshold=_optional(_number), margin=_number, desired=_optional(_list_of(_check_value)), upper=_optional(_number)
)
_scope = _record(
    space=_text,
    model=_text,
    decision=_decision,
    k=_integer,
    constraints=_list_of(_text),
    change_constraints=_list_of(_text),
    features_to_vary=_list_of(_text),
    breakpoints=_mapping_to(_list_of(_check_value)),
    extended_values=_mapping_to(_list_of(_check_value)),
)
_counterfactuals = _record(
    instance=_mapping_to(_check_value),
    counterfactuals=_list_of(_counterfactual),
    proven=_flag,
    proven_count=_integer,
    confirmed_by_model=_flag,
    resolution=_number,
    spread=_number,
    statistics=_statistics,
    domains=_mapping_to(_domain),
    scope=_scope,
)
_region = _record(
    counterfactual=_counterfactual,
    rule=_rule,
    rounded=_rule,
    ranges=_list_of(
        _record(
            **dict.fromkeys(("low", "high", "first", "last", "before", "after"), _check_value),
            feature=_text,
            any_value=_flag,
        )
    ),
    fixed=_mapping_to(_check_value),
    verdict=_verdict,
    maximal=_flag,
    statistics=_statistics,
    margin=_number,
    further_models=_integer,
    scope=_scope,
)
_asked = {
    "instance": _mapping_to(_check_value),
    "margin": _number,
    "further_models": _integer,
    "scope": _scope,
}
_menu = _record(
    kind=_one_of("minimal sets", "groups"),
    entries=_list_of(
        _record(
            name=_text,
            features=_list_of(_text),
            counterfactual=_optional(_counterfactual),
            distance=_optional(_number),
            cost=_number,
            resolution=_number,
            proven=_flag,
            minimal=_optional(_flag),
        )
    ),
    complete=_flag,
    stopped=_optional(_text),
    **_asked,
)
_infeasibility = _record(
    needed=_list_of(
        _record(
            kind=_one_of("role", "constraint", "range", "price", "fixed"),
            text=_text,
            feature=_optional(_text),
            constraints=_list_of(_text),
            without_it=_optional(_counterfactual),
            nearest=_flag,
            resolution=_number,
        )
    ),
    counterfactual=_optional(_counterfactual),
    statistics=_statistics,
    **dict.fromkeys(("proven", "minimal"), _flag),
    **_asked,
)
_document = _record(
    **dict.fromkeys(("history_rows", "model_count"), _integer),
    **dict.fromkeys(("space", "model"), _text),
    **dict.fromkeys(("wider_is_maximal", "covers_only_instance", "confirmed_by_model"), _flag),
    instance=_mapping_to(_check_value),
    rules=_list_of(_ranked),
    wider=_optional(_ranked),
    rounded=_optional(_rule),
    counterfactuals=_list_of(_counterfactual),
    statistics=_statistics,
    unreadable_reason=_optional(_text),
    decision=_decision,
    restrictions=_record(require=_list_of(_text), forbid=_list_of(_text)),
    constraints=_list_of(_text),
    domains=_mapping_to(_domain),
    prefer=_one_of("length", "coverage"),
    preference=_optional(_record(compared=_integer, is_complete=_flag)),
    marks=_list_of(_record(component=_integer, reason=_one_of("protected", "against direction"), declared=_flag)),
    changes=_optional(_changes),
    extended_values=_mapping_to(_list_of(_check_value)),
    breakpoints=_optional(_mapping_to(_list_of(_check_value))),
)


_share = _from_to("a share from 0 to 1", 0, 1, _number)
_count = _from_to("a count of at most 64 bits", 0, 2**63 - 1, _integer)
_counts = _record(rows=_count, exceptions=_count)
_rung = _record(
    rule=_rule,
    verdict=_record(
        kind=_text,
        exceptions=_share,
        confidence=_share,
        rows=_count,
        seen=_count,
        shared_by=_from_to("a positive integer of at most 64 bits", 1, 2**63 - 1, _integer),
    ),
    coverage=_count,
    searched=_counts,
    measured=_counts,
    is_best=_flag,
    parts=_list_of(
        _record(counts_against=_flag, bound_without=_share, approved_share=_share, other_value=_check_value)
    ),
)
_ladder = _record(
    rungs=_list_of(_rung),
    last=_rung,
    confidence=_share,
    most=_count,
    nested=_flag,
    searched_rows=_count,
    measured_rows=_count,
    measured_from=_one_of("split", "mask", "table"),
    split_seed=_optional(_integer),
    at_least=_optional(_share),
)


def check_ladder_types(data: Mapping[str, Any], instance: Mapping[str, Any], last_length: int) -> None:
    """The same for the fields of a ladder, its explanation apart, whose row is ``instance`` and whose rule that is
    shown has ``last_length`` components.
    """
    _ladder(data, "the document")
    if len(data["last"]["parts"]) != last_length:
        raise InputError(expected=f"the last rung must have {last_length} parts", got=len(data["last"]["parts"]))
    for rung in data["rungs"]:
        components = rung["rule"]["components"]
        unknown = [one["feature"] for one in components if one["feature"] not in instance]
        if unknown:
            rule = "rungs of a ladder must speak of features that its row has"
            raise InputError(expected=rule, got=describe_value(unknown[0]))
        if len(rung["parts"]) != len(components):
            raise InputError(expected="a rung must have a part for every component", got=len(rung["parts"]))


def check_counterfactuals_types(data: Mapping[str, Any]) -> None:
    """The same for the document of counterfactuals: they must have all features of their row, and change no others."""
    _counterfactuals(data, "the document")
    _require_own_features(data["counterfactuals"], data["instance"], data.get("domains", ()))


def _require_own_features(
    counterfactuals: Iterable[Mapping[str, Any]], instance: Mapping[str, Any], domains: Iterable[str] = ()
) -> None:
    """Raise InputError unless counterfactuals have all features of their row, and speak of no others."""
    for one in counterfactuals:
        named = {*one["values"], *(change["feature"] for change in one["changes"]), *one.get("exact", ())}
        if set(one["values"]) != set(instance) or named | {*domains} != set(instance):
            got = describe_value(sorted(named.symmetric_difference(instance)))
            raise InputError(expected="counterfactuals must have the features of their row", got=got)


def check_menu_types(data: Mapping[str, Any]) -> None:
    """The same for the document of a menu: a change that it names has what it costs."""
    _menu(data, "the document")
    entries, instance = data["entries"], data["instance"]
    _require_own_features((one["counterfactual"] for one in entries if one["counterfactual"] is not None), instance)
    for one in entries:
        unknown = sorted({*one["features"]} - set(instance))
        if unknown:
            got = describe_value(unknown[0])
            raise InputError(expected="a menu must speak of features that its row has", got=got)
        if (one["counterfactual"] is None) != (one["distance"] is None):
            raise InputError(expected="a menu must have the distance of every change", got=describe_value(one["name"]))


def check_infeasibility_types(data: Mapping[str, Any]) -> None:
    """The same for the document of forbidding restrictions."""
    _infeasibility(data, "the document")
    given = (data["counterfactual"], *(one["without_it"] for one in data["needed"]))
    _require_own_features((one for one in given if one is not None), data["instance"])
    unknown = [one["feature"] for one in data["needed"] if one["feature"] not in {None, *data["instance"]}]
    if unknown:
        got = describe_value(unknown[0])
        raise InputError(expected="restrictions must speak of features that their row has", got=got)


def check_region_types(data: Mapping[str, Any]) -> None:
    """The same for the document of a region: it must speak of the features that its counterfactual has."""
    _region(data, "the document")
    known = set(data["counterfactual"]["values"])
    named = {part["feature"] for rule in ("rule", "rounded") for part in data[rule]["components"]}
    named |= {one["feature"] for one in data["ranges"]} | set(data["fixed"])
    if not named <= known:
        got = describe_value(sorted(named - known)[0])
        raise InputError(expected="a region must speak of features that its counterfactual has", got=got)


def check_document_types(data: Mapping[str, Any]) -> None:
    """Raise InputError for a field of the wrong type, or one that speaks of features or components that are not there.

    What is missing raises KeyError, as reading it would.
    """
    _document(data, "the document")
    ranked = [*data["rules"], *([] if data.get("wider") is None else [data["wider"]])]
    rules = [*(one["rule"] for one in ranked), *([] if data.get("rounded") is None else [data["rounded"]])]
    changes = [*data["counterfactuals"], *(data.get("changes") or {}).get("counterfactuals", ())]
    named = [component["feature"] for rule in rules for component in rule["components"]]
    named += [change["feature"] for one in changes for change in one["changes"]]
    unknown = [name for name in (*named, *data.get("extended_values", ())) if name not in data["instance"]]
    if unknown:
        rule = "rules and changes of an explanation must speak of features that its row has"
        raise InputError(expected=rule, got=describe_value(unknown[0]))
    count = len(rules[0]["components"])
    for mark in data.get("marks", ()):
        if not 0 <= mark["component"] < count:
            raise InputError(expected=f"a mark must be of one of {count} components", got=mark["component"])
