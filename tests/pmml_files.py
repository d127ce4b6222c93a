"""PMML files for tests: written by hand, and drawn at random with an evaluation of their own, row by row."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

Rng = np.random.Generator
Row = dict[str, Any]
Truth = bool | None

HEAD = '<PMML xmlns="http://www.dmg.org/PMML-4_4" version="4.4"><Header/>'
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "lessThan": lambda a, b: a < b,
    "lessOrEqual": lambda a, b: a <= b,
    "greaterThan": lambda a, b: a > b,
    "greaterOrEqual": lambda a, b: a >= b,
    "equal": lambda a, b: a == b,
    "notEqual": lambda a, b: a != b,
}
NUMBERS = {"x": [0.0, 1.0, 2.0, 3.0, 4.0], "y": [0.0, 0.5, 1.0]}
TEXTS = {"c": ["a", "b", "d e"]}


def write_file(model: str, fields: str = "", treatments: dict[str, str] | None = None, target: str = "") -> bytes:
    """A file around a model of the fields x, y and c; ``SCHEMA`` in the model stands for its mining schema."""
    given = treatments or {}
    schema = "".join(f'<MiningField name="{name}" {given.get(name, "")}/>' for name in ("x", "y", "c"))
    schema = f'<MiningSchema>{schema}<MiningField name="target" usageType="target"/></MiningSchema>'
    data = fields or (
        '<DataField name="x" optype="continuous" dataType="double"/>'
        '<DataField name="y" optype="continuous" dataType="double"/>'
        '<DataField name="c" optype="categorical" dataType="string"/>'
    )
    goal = target or '<DataField name="target" optype="continuous" dataType="double"/>'
    text = f"{HEAD}<DataDictionary>{data}{goal}</DataDictionary>{model.replace('SCHEMA', schema)}</PMML>"
    return text.encode()


CLASSES = (
    '<DataField name="target" optype="categorical" dataType="string">'
    '<Value value="bad"/><Value value="good"/></DataField>'
)


def draw_predicate(rng: Rng, depth: int = 2) -> tuple[str, Callable[[Row], Truth]]:
    """A predicate's text, and what it is for a row (None: unknown)."""
    kind = rng.integers(0, 5 if depth else 4)
    if kind == 4:
        operator = ("and", "or", "surrogate")[rng.integers(0, 3)]
        parts = [draw_predicate(rng, depth - 1) for _ in range(2)]
        inner = "".join(text for text, _ in parts)
        return f'<CompoundPredicate booleanOperator="{operator}">{inner}</CompoundPredicate>', join(operator, parts)
    if kind == 3:
        name = ("x", "c")[rng.integers(0, 2)]
        operator = ("isMissing", "isNotMissing")[rng.integers(0, 2)]
        return (
            f'<SimplePredicate field="{name}" operator="{operator}"/>',
            lambda row: (row[name] is None) == (operator == "isMissing"),
        )
    if kind == 2:
        chosen = [text for text in TEXTS["c"] if rng.random() < 0.5] or ["a"]
        operator = ("isIn", "isNotIn")[rng.integers(0, 2)]
        array = " ".join(f'"{text}"' for text in chosen)
        return (
            f'<SimpleSetPredicate field="c" booleanOperator="{operator}"><Array type="string">{array}</Array>'
            "</SimpleSetPredicate>",
            lambda row: None if row["c"] is None else (row["c"] in chosen) == (operator == "isIn"),
        )
    name = ("x", "y")[rng.integers(0, 2)]
    operator = list(SIGNS)[rng.integers(0, 6 if rng.random() < 0.3 else 4)]
    value = float(rng.choice(NUMBERS[name]))
    return (
        f'<SimplePredicate field="{name}" operator="{operator}" value="{value}"/>',
        lambda row: None if row[name] is None else SIGNS[operator](row[name], value),
    )


def join(operator: str, parts: list[tuple[str, Callable[[Row], Truth]]]) -> Callable[[Row], Truth]:
    """What a compound predicate is."""

    def holds(row: Row) -> Truth:
        truths = [part(row) for _, part in parts]
        if operator == "surrogate":
            return next((truth for truth in truths if truth is not None), None)
        deciding = operator == "or"
        if deciding in truths:
            return deciding
        return None if None in truths else not deciding

    return holds


class NoAnswerError(Exception):
    """The model gives no prediction."""


Evaluate = Callable[[Row], float]


def draw_scorecard(rng: Rng) -> tuple[str, Evaluate]:
    """A scorecard, and its score of a row."""
    texts, parts = [], []
    for _ in range(int(rng.integers(1, 4))):
        attributes, own = "", []
        for _ in range(int(rng.integers(1, 4))):
            text, holds = draw_predicate(rng)
            points = float(rng.integers(-5, 10)) if rng.random() < 0.7 else float(np.round(rng.normal(), 1))
            attributes += f'<Attribute partialScore="{points}">{text}</Attribute>'
            own.append((holds, points))
        if rng.random() < 0.85:
            attributes += '<Attribute partialScore="1"><True/></Attribute>'
            own.append((lambda _: True, 1.0))
        texts.append(f"<Characteristic>{attributes}</Characteristic>")
        parts.append(own)

    def score(row: Row) -> float:
        total = 2.0
        for own in parts:
            found = next((points for holds, points in own if holds(row)), None)
            if found is None:
                raise NoAnswerError
            total += found
        return total

    head = '<Scorecard functionName="regression" useReasonCodes="false" initialScore="2">SCHEMA<Characteristics>'
    card = f"{head}{''.join(texts)}</Characteristics></Scorecard>"
    return card, score


def draw_tree(rng: Rng, scores: list[str], attributes: str = "") -> tuple[str, Callable[[Row], str]]:
    """A TreeModel, and the score of the node that answers for a row."""
    missing = ("none", "lastPrediction", "nullPrediction", "defaultChild")[rng.integers(0, 4)]
    last = rng.random() < 0.6
    numbers = itertools.count()

    def draw_node(depth: int, head: str) -> tuple[str, Callable[[Row], str]]:
        number, score = next(numbers), scores[int(rng.integers(0, len(scores)))]
        inner = ""
        children: list[tuple[Callable[[Row], Truth], Callable[[Row], str]]] = []
        first = f"n{number + 1}"
        if depth and rng.random() < 0.85:
            text, holds = draw_predicate(rng, 1)
            for more in range(int(rng.integers(2, 4))):
                if more == 1 and rng.random() < 0.4:
                    text, holds = "<True/>", lambda _: True
                elif more:
                    text, holds = draw_predicate(rng, 1)
                below, enter = draw_node(depth - 1, text)
                inner += below
                children.append((holds, enter))
        default = f' defaultChild="{first}"' if children and missing == "defaultChild" else ""

        def answer(row: Row) -> str:
            if not children:
                return score
            for holds, enter in children:
                truth = holds(row)
                if truth:
                    return enter(row)
                if truth is None and missing == "defaultChild":
                    return children[0][1](row)
                if truth is None and missing == "lastPrediction":
                    return score
                if truth is None and missing == "nullPrediction":
                    raise NoAnswerError
            if last:
                return score
            raise NoAnswerError

        return f'<Node id="n{number}" score="{score}"{default}>{head}{inner}</Node>', answer

    text, answer = draw_node(2, "<True/>")
    childless = "returnLastPrediction" if last else "returnNullPrediction"
    kind = f'missingValueStrategy="{missing}" noTrueChildStrategy="{childless}"'
    return f"<TreeModel {attributes} {kind}>SCHEMA{text}</TreeModel>", answer


def list_rows(missing: bool) -> list[Row]:
    """Every row on the constants that predicates are drawn with, between them, and beside them."""
    xs: list[Any] = sorted({*NUMBERS["x"], 0.5, float(np.nextafter(2.0, 3.0)), float(np.nextafter(2.0, 1.0))})
    ys: list[Any] = [0.0, 0.25, 0.5, 1.0]
    cs: list[Any] = [*TEXTS["c"], "other"]
    if missing:
        xs, ys, cs = [*xs, None], [*ys, None], [*cs, None]
    return [{"x": x, "y": y, "c": c} for x, y, c in itertools.product(xs, ys, cs)]


INVERSES: dict[str, Callable[[float], float]] = {  # of the link functions, as the specification has them
    "logit": lambda r: 1 / (1 + math.exp(-r)),
    "probit": lambda r: NormalDist().cdf(r),
    "cloglog": lambda r: 1 - math.exp(-math.exp(r)),
    "loglog": lambda r: math.exp(-math.exp(-r)),
    "cauchit": lambda r: 0.5 + math.atan(r) / math.pi,
    "identity": lambda r: r,
    "log": math.exp,
    "logc": lambda r: 1 - math.exp(r),
}
THREE_CLASSES = CLASSES.replace('<Value value="good"/>', '<Value value="good"/><Value value="best"/>')
Cells = list[tuple[str, Any]]  # predictors with the value of a factor or the power of a covariate
PARAMETERS: dict[str, Cells] = {
    "p0": [],
    "p1": [("x", 1)],
    "p2": [("c", "a")],
    "p3": [("c", "d e")],
    "p4": [("x", 2)],
    "p5": [("c", "a"), ("x", 1)],  # a line of its own for a category
    "p6": [("c", "b"), ("y", 0.5)],  # two categories
}


def write_general(betas: dict[str, dict[str, float]], attributes: str, parameters: dict[str, Cells]) -> str:
    """A GeneralRegressionModel as R writes one: ``betas`` by class ("" for none) and parameter."""
    listed = "".join(f'<Parameter name="{name}" label="{name}"/>' for name in parameters)
    cells = "".join(
        f'<PPCell value="{value}" predictorName="{predictor}" parameterName="{name}"/>'
        for name, own in parameters.items()
        for predictor, value in own
    )
    coefficients = "".join(
        f"<PCell{f' targetCategory={target!r}' if target else ''} parameterName='{name}' df='1' beta='{beta!r}'/>"
        for target, own in betas.items()
        for name, beta in own.items()
    )
    return f"""<GeneralRegressionModel modelName="glm" algorithmName="glm" {attributes}>SCHEMA
      <Output><OutputField name="Probability_good" feature="probability" value="good"/></Output>
      <ParameterList>{listed}</ParameterList>
      <FactorList><Predictor name="c"/><Predictor name="y"/></FactorList>
      <CovariateList><Predictor name="x"/></CovariateList>
      <PPMatrix>{cells}</PPMatrix><ParamMatrix>{coefficients}</ParamMatrix></GeneralRegressionModel>"""


def add_up(betas: dict[str, float], parameters: dict[str, Cells], row: Row) -> float:
    """A linear predictor by its definition."""
    total = 0.0
    for name, beta in betas.items():
        product = beta
        for predictor, value in parameters[name]:
            product *= row["x"] ** value if predictor == "x" else float(row[predictor] == value)
        total += product
    return total


def draw_betas(rng: Rng, parameters: dict[str, Cells]) -> dict[str, float]:
    """Random coefficients, whole ones at times, so that sums are exactly 0."""
    whole = rng.random() < 0.4
    return {
        name: float(rng.integers(-2, 3)) if whole else float(np.round(rng.normal() * 0.5, 3)) for name in parameters
    }


def segment(predicate: str, model: str, more: str = "") -> str:
    """A segment with its condition."""
    return f"<Segment{more}>{predicate}{model}</Segment>"


def ensemble(method: str, *segments: str, function: str = "regression") -> str:
    """A MiningModel of segments."""
    return (
        f'<MiningModel functionName="{function}">SCHEMA<Segmentation multipleModelMethod="{method}">'
        f"{''.join(segments)}</Segmentation></MiningModel>"
    )
