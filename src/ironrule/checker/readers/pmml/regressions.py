"""General regressions of PMML files, interactions, and the links that turn a sum into a probability.

A parameter of a general regression is worth a product: powers of covariates, and 1 or 0 for whether factors have a
value. Parameters of one field add up by themselves. Those of several factors are a tree. One of a factor and a number
makes a line of its own for each value of the factor: a case, in which the factor's value is known. Products of two
numbers are not read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import Element

from ironrule.checker.readers.normal_form import NoReading
from ironrule.checker.readers.pmml.fields import (
    Constant,
    PmmlField,
    get_attribute,
    get_number,
    list_children,
    parse_number,
)
from ironrule.checker.readers.pmml.predicates import Question, QuestionGraph

MAX_CASES = 64
NOISE = 2.0**-44  # a computed probability is right to a fourth of this
WIDEST = 2.0**60
LINKS: dict[str, Callable[[float], float]] = {
    "probit": lambda r: 0.5 * math.erfc(-r / math.sqrt(2.0)),
    "cloglog": lambda r: -math.expm1(-math.exp(min(r, 700.0))),
    "loglog": lambda r: math.exp(-math.exp(min(-r, 700.0))),
    "cauchit": lambda r: 0.5 + math.atan(r) / math.pi,
}
LINK_FUNCTIONS = {"identity": "none", "log": "exp", "logit": "logit", **{name: name for name in LINKS}}


def find_link_level(link: str, threshold: float) -> tuple[float, float]:
    """The sum at which a probability passes a threshold, and how far off it may be: found by halving, since links rise.

    At and below one end the probability is below the threshold by the noise, at and above the other end above it.
    """
    if not 4 * NOISE < threshold < 1 - 4 * NOISE:
        raise NoReading(f"a threshold of {threshold!r} on a probability is too near 0 or 1")
    ends = []
    for level in (threshold - NOISE, threshold + NOISE):
        low, high = -WIDEST, WIDEST
        while low < (middle := low + (high - low) / 2) < high:
            low, high = (middle, high) if LINKS[link](middle) < level else (low, middle)
        ends.append((low, high))
    least, most = ends[0][0], ends[1][1]
    return (least + most) / 2, (most - least) / 2 * 1.01 + 2.0**-48 * (abs(least) + abs(most))


@dataclass(slots=True)
class Parameter:
    """What a parameter multiplies: fields of numbers with their powers, and values that fields must have, by names."""

    powers: dict[str, float] = field(default_factory=dict)
    values: dict[str, Constant] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GeneralModel:
    """A general regression: its parameters, per class (None: no class) their coefficients, and its constant."""

    parameters: Mapping[str, Parameter]
    betas: Mapping[str | None, Mapping[str, float]]
    offset: float
    kind: str
    link: str
    reference: str | None


def read_general_model(model: Element, around: Sequence[str], find: Callable[[str], Any]) -> GeneralModel:
    """What the file says; raises NoReading for what is not written here."""
    parts = ("ParameterList", "FactorList", "CovariateList", "PPMatrix", "PCovMatrix", "ParamMatrix")
    inside = {one.tag: one for one in list_children(model, *around, *parts)}
    kind = get_attribute(model, "modelType")
    odd = {"trialsVariable", "trialsValue", "cumulativeLink", "offsetVariable", "endTimeVariable"} & set(model.keys())
    known = {"generalizedLinear", "multinomialLogistic", "regression", "generalLinear"}
    if odd or kind not in known or not {"ParameterList", "ParamMatrix"} <= inside.keys():
        raise NoReading(f"a general regression of the type {kind} with {sorted(odd)} is not read")
    listed = [{get_attribute(one, "name") for one in inside.get(tag, ())} for tag in ("FactorList", "CovariateList")]
    if any(len(one) for tag in ("FactorList", "CovariateList") for one in inside.get(tag, ())):
        raise NoReading("a predictor with a contrast matrix is not read")
    parameters = {
        get_attribute(one, "name"): Parameter() for one in list_children(inside["ParameterList"], "Parameter")
    }
    for cell in list_children(inside["PPMatrix"], "PPCell") if "PPMatrix" in inside else ():
        own, name = parameters[get_attribute(cell, "parameterName")], get_attribute(cell, "predictorName")
        found = find(name)
        if (
            "targetCategory" in cell.attrib
            or (name in listed[0]) == (name in listed[1])
            or not isinstance(found, PmmlField)
        ):
            raise NoReading(f"the cell of {name!r} in a PPMatrix is not read")
        if name in own.powers or name in own.values or (found.error and name in listed[0]):
            raise NoReading(f"{name!r} stands twice in a parameter, or is a factor that is computed")
        if name in listed[0]:
            own.values[name] = found.parse(get_attribute(cell, "value"))
        else:
            own.powers[name] = parse_number(get_attribute(cell, "value"))
    betas: dict[str | None, dict[str, float]] = {}
    for cell in list_children(inside["ParamMatrix"], "PCell"):
        target = cell.get("targetCategory") if model.get("functionName") == "classification" else None
        name = get_attribute(cell, "parameterName")
        if name not in parameters or name in betas.setdefault(target, {}):
            raise NoReading(f"the parameter {name!r} is not listed, or has two coefficients")
        betas[target][name] = get_number(cell, "beta")
    link = LINK_FUNCTIONS.get(model.get("linkFunction", "identity" if kind != "generalizedLinear" else ""), "")
    if kind == "generalizedLinear" and not link:
        raise NoReading(f"the link function {model.get('linkFunction')} is not read")
    offset = get_number(model, "offsetValue", 0.0)
    reference = model.get("targetReferenceCategory")
    return GeneralModel(parameters, betas, offset, kind=kind, link=link, reference=reference)


def list_cases(parameters: Mapping[str, Parameter]) -> list[dict[str, Constant | None]]:
    """The values of the factors that numbers interact with, in all combinations; None: none of those that are named."""
    values: dict[str, dict[Constant, None]] = {}
    for one in parameters.values():
        for name, value in one.values.items() if one.powers else ():
            values.setdefault(name, {})[value] = None
    if math.prod(len(listed) + 1 for listed in values.values()) > MAX_CASES:
        raise NoReading("its interactions make too many cases")
    return [
        dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*([*v, None] for v in values.values()))
    ]


def ask_case(
    graph: QuestionGraph, case: Mapping[str, Constant | None], cases: Sequence[Mapping[str, Constant | None]], find: Any
) -> int:
    """The step that answers 1.0 where fields have the values of a case, else -1.0; missing values have no answer."""
    step, no, none = graph.answer(1.0), graph.answer(-1.0), graph.answer(None)
    for name, value in case.items():
        listed = frozenset(other[name] for other in cases if other[name] is not None)
        asked: Any = listed if value is None else frozenset((value,))
        step = graph.choose(Question(find(name), "isNotIn" if value is None else "isIn", asked), (step, no, none))
    return step


def ask_values(graph: QuestionGraph, values: Mapping[str, Constant], weight: float, find: Any) -> int:
    """The step that answers a weight where fields have certain values, and else 0; missing values have no answer."""
    step = graph.answer(weight)
    for name, value in values.items():
        question = Question(find(name), "equal", frozenset((value,)))
        step = graph.choose(question, (step, graph.answer(0.0), graph.answer(None)))
    return step
