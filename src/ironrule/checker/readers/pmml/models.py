"""Read PMML files (``ironrule.PmmlModel``): scorecards, trees, regressions, and ensembles and chains of these.

Read from the specification of the Data Mining Group, versions 4.0 to 4.4. Models compute in double precision, sums in
any order. What the specification leaves open is as docs/models.md has it: of equal probabilities the first class in the
order of the target field wins. Where nothing is written here for an element, there is no reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any
from xml.etree.ElementTree import Element

from ironrule.checker.readers.decisions import LinearContribution
from ironrule.checker.readers.normal_form import (
    DOUBLE_ROUNDOFF,
    ColumnTerm,
    EstimatorTarget,
    NoReading,
    RegressionTree,
    SumForm,
)
from ironrule.checker.readers.pmml import regressions
from ironrule.checker.readers.pmml.answers import (
    LARGEST_NUMBER,
    Answer,
    Cases,
    ClassTotals,
    LeafClasses,
    Number,
    PowerContribution,
    Total,
    add_up,
    decide_answer,
    put_values,
)
from ironrule.checker.readers.pmml.fields import (
    PmmlField,
    get_attribute,
    get_number,
    list_children,
    parse_file,
    parse_number,
    read_data_field,
    read_derived_field,
    treat_field,
)
from ironrule.checker.readers.pmml.predicates import PREDICATES, Question, QuestionGraph
from ironrule.checker.readers.pmml.regressions import LINKS
from ironrule.checker.readers.registry import identify_class

MODELS = ("Scorecard", "TreeModel", "RegressionModel", "MiningModel", "GeneralRegressionModel")
AROUND_MODELS = ("MiningSchema", "Output", "Targets", "LocalTransformations")
MAX_EXPONENT = 8


def read_pmml(estimator: Any, target: EstimatorTarget) -> SumForm | None:
    """What a PmmlModel decides, by its data fields; None if it is none, NoReading if it cannot be read."""
    if identify_class("ironrule", estimator) != "PmmlModel":
        return None
    try:
        known = estimator.classes_.tolist() if estimator.is_classifier else []
        answer = _read_file(parse_file(estimator.source), list(estimator.feature_names_in_), known)
    except RecursionError:
        raise NoReading("its file is nested too deep") from None
    return decide_answer(answer, target)


def _read_file(root: Element, names: Sequence[str], known: Sequence[Any]) -> Answer:
    dictionaries = root.findall("DataDictionary")
    models = [child for child in root if child.tag in MODELS]
    list_children(root, "DataDictionary", "TransformationDictionary", *MODELS)
    if len(dictionaries) != 1 or len(models) != 1:
        raise NoReading("a file of several models or dictionaries is not read")
    model, fields = models[0], dict[str, Any]()
    data = {get_attribute(one, "name"): one for one in list_children(dictionaries[0], "DataField", "Taxonomy")}
    mining = _list_mining_fields(model)
    for name, entry in mining.items():
        if entry.get("usageType", "active") == "active" and name in names and name in data:
            how = entry.get("invalidValueTreatment", "returnInvalid")
            fields[name] = _try(lambda: read_data_field(data[name], names.index(name), how))  # noqa: B023  # at once
    targets = [name for name, entry in mining.items() if entry.get("usageType") in ("target", "predicted")]
    reader = _ModelReader(_read_labels(data[targets[0]] if targets and targets[0] in data else None, known))
    shared = _see_schema(model, fields)
    for dictionary in root.findall("TransformationDictionary"):
        reader.everywhere |= _derive(dictionary, shared)
    return reader.read(model, fields)


def _list_mining_fields(model: Element) -> dict[str, Element]:
    schema = model.find("MiningSchema")
    if schema is None:
        raise NoReading("a model has no MiningSchema")
    return {get_attribute(one, "name"): one for one in list_children(schema, "MiningField")}


def _try(read: Any) -> Any:
    """What is read, or why it is not: a field that is not used need not be read."""
    try:
        return read()
    except NoReading as reason:
        return reason


def _see_schema(model: Element, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a model sees, treated as its mining schema says."""
    seen = {}
    for name, entry in _list_mining_fields(model).items():
        found = fields.get(name)
        if entry.get("usageType", "active") != "active" or found is None:
            continue
        if isinstance(found, PmmlField):
            found = _try(lambda: treat_field(found, entry))  # noqa: B023  # at once
        elif isinstance(found, Total) and {"outliers", "missingValueReplacement"} & set(entry.keys()):
            found = NoReading("the treatment of a model's answer is not read")
        seen[name] = found
    return seen


def _derive(transformations: Element, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The derived fields, each of which may use those before it."""
    derived = dict[str, Any]()
    for one in list_children(transformations, "DerivedField", "DefineFunction"):
        if one.tag == "DerivedField":
            named = {**fields, **derived}
            derived[get_attribute(one, "name")] = _try(lambda: read_derived_field(one, lambda x: _find(named, x)))  # noqa: B023
    return derived


def _find(fields: Mapping[str, Any], name: str) -> Any:
    found = fields.get(name)
    if found is None or isinstance(found, NoReading):
        raise found or NoReading(f"the field {name!r} is not one that the model sees")
    return found


def _read_labels(target: Element | None, known: Sequence[Any]) -> dict[str, int]:
    """The places of the classes by their texts in the file."""
    labels = {str(label).lower() if isinstance(label, bool) else str(label): k for k, label in enumerate(known)}
    listed = (
        [one for one in target.findall("Value") if one.get("property", "valid") == "valid"]
        if target is not None
        else []
    )
    texts = [get_attribute(one, "value") for one in listed]
    if known and texts and texts != list(labels):
        raise NoReading("its classes are not the values of the target field, in their order")
    return labels


@dataclass(slots=True)
class _ModelReader:
    """Reads models one inside the other. ``everywhere`` are the fields that all models see."""

    labels: dict[str, int]
    everywhere: dict[str, Any] = field(default_factory=dict)

    def read(self, model: Element, outside: Mapping[str, Any]) -> Answer:
        """What a model answers, from the fields around it."""
        if model.get("isScorable", "true") not in ("true", "1") or {"x-mathContext", "mathContext"} & set(model.keys()):
            raise NoReading("the model is not to be evaluated, or not in double precision")
        fields = {**self.everywhere, **_see_schema(model, outside)}
        for transformations in model.findall("LocalTransformations"):
            fields |= _derive(transformations, fields)
        is_classifier = get_attribute(model, "functionName") == "classification"
        if not is_classifier and model.get("functionName") != "regression":
            raise NoReading(f"the function {model.get('functionName')} is not read")
        readers = (
            self._read_scorecard,
            self._read_tree,
            self._read_regression,
            self._read_ensemble,
            self._read_general,
        )
        answer: Answer = readers[MODELS.index(model.tag)](model, fields)
        members = [one for _, one in answer.answers] if isinstance(answer, Cases) else [answer]
        if any(isinstance(one, Number) == is_classifier for one in members):
            raise NoReading("the model answers otherwise than its function says")
        return self._rescale(answer, model)

    @staticmethod
    def _rescale(answer: Answer, model: Element) -> Answer:
        targets = [one for element in model.findall("Targets") for one in list_children(element, "Target")]
        if not targets:
            return answer
        (one,) = targets if len(targets) == 1 else (None,)
        known = {"field", "optype", "rescaleFactor", "rescaleConstant"}
        if (
            one is None
            or len(one)
            or not set(one.keys()) <= known
            or not isinstance(answer, Number)
            or answer.link != "none"
        ):
            raise NoReading("its Targets are not read")
        factor, constant = get_number(one, "rescaleFactor", 1.0), get_number(one, "rescaleConstant", 0.0)
        return Number(add_up([(factor, answer.total)], constant))

    def _read_scorecard(self, model: Element, fields: Mapping[str, Any]) -> Answer:
        _, *inside = ("", *list_children(model, *AROUND_MODELS, "Characteristics"))
        (group,) = [one for one in inside if one.tag == "Characteristics"]
        parts = []
        for characteristic in list_children(group, "Characteristic"):
            graph = QuestionGraph(lambda name: _find(fields, name))
            step = graph.answer(None)
            for attribute in reversed(list_children(characteristic, "Attribute")):
                (predicate,) = list_children(attribute, *PREDICATES)  # no ComplexPartialScore
                points = graph.answer(get_number(attribute, "partialScore"))
                step = graph.ask(predicate, (points, step, step))
            tree, answers = graph.unfold(step)
            points_of = {place: one for place, one in enumerate(answers) if one != "none"}
            parts.append((1.0, Total(trees=(put_values(tree, points_of),))))
        return Number(add_up(parts, get_number(model, "initialScore", 0.0)))

    def _read_tree(self, model: Element, fields: Mapping[str, Any]) -> Answer:
        root = next(iter(one for one in list_children(model, *AROUND_MODELS, "Node") if one.tag == "Node"), None)
        if root is None or root.find("True") is None:
            raise NoReading("a tree whose first node has a condition is not read")
        graph = QuestionGraph(lambda name: _find(fields, name))
        nodes: dict[int, Element] = {}
        strategies = model.get("missingValueStrategy", "none"), model.get("noTrueChildStrategy", "returnNullPrediction")
        first = _ask_nodes(graph, root, strategies, nodes)
        tree, answers = graph.unfold(first)
        found: list[Any] = [nodes.get(one) if isinstance(one, int) else None for one in answers]
        if model.get("functionName") == "regression":
            scores = [0.0 if node is None else get_number(node, "score") for node in found]
            return Number(Total(trees=(put_values(tree, dict(enumerate(scores))),)))
        shares = [[Fraction(0)] * len(self.labels) if node is None else self._read_shares(node) for node in found]
        classes = [0 if node is None else self._find_class(node, own) for node, own in zip(found, shares, strict=True)]
        complete = [one for one in shares if one is not None]
        return LeafClasses(tree, classes, complete if len(complete) == len(shares) else None)

    def _find_label(self, text: str) -> int:
        if text not in self.labels:
            raise NoReading(f"{text!r} is none of the classes")
        return self.labels[text]

    def _find_class(self, node: Element, shares: Sequence[Fraction] | None) -> int:
        if "score" in node.attrib:
            return self._find_label(node.attrib["score"])
        if shares is None or sorted(shares)[-1:] == sorted(shares)[-2:-1]:
            raise NoReading("a node has no score, and no class with the most records")
        return shares.index(max(shares))

    def _read_shares(self, node: Element) -> list[Fraction] | None:
        listed = node.findall("ScoreDistribution")
        if not listed:
            return None
        places = [self._find_label(get_attribute(one, "value")) for one in listed]
        given = [one for one in listed if "probability" in one.attrib]
        name = "probability" if given else "recordCount"
        numbers = [Fraction(get_number(one, name)) for one in listed]
        total = Fraction(1) if given else sum(numbers, Fraction(0))
        if min(numbers) < 0 or total == 0 or len(set(places)) < len(places):
            raise NoReading("the records of a node give no shares of its classes")
        shares = dict(zip(places, numbers, strict=True))
        return [shares.get(place, Fraction(0)) / total for place in range(len(self.labels))]

    def _read_regression(self, model: Element, fields: Mapping[str, Any]) -> Answer:
        tables = [
            one for one in list_children(model, *AROUND_MODELS, "RegressionTable") if one.tag == "RegressionTable"
        ]
        totals = [_read_table(table, fields) for table in tables]
        method = model.get("normalizationMethod", "none")
        if model.get("functionName") == "regression":
            if len(tables) != 1 or method not in ("none", "exp", "logit", "softmax", *LINKS):
                raise NoReading(f"a regression with the normalization {method} is not read")
            return Number(totals[0], "logit" if method == "softmax" else method)
        places = [self._find_label(get_attribute(table, "targetCategory")) for table in tables]
        if sorted(places) != list(range(len(self.labels))):
            raise NoReading("a classification must have a table for every class")
        if method == "softmax":
            return ClassTotals("softmax", [totals[places.index(place)] for place in range(len(places))])
        if method in ("logit", *LINKS) and len(places) == 2:  # the first table's class; the other has the rest
            return ClassTotals(method, totals[:1], first=places[0])
        raise NoReading(f"a classification with the normalization {method} is not read")

    def _read_general(self, model: Element, fields: Mapping[str, Any]) -> Answer:
        found = regressions.read_general_model(model, AROUND_MODELS, lambda name: _find(fields, name))
        cases = regressions.list_cases(found.parameters)
        answers = []
        for case in cases:
            totals = {target: _add_parameters(found, betas, case, fields) for target, betas in found.betas.items()}
            graph = QuestionGraph(lambda name: _find(fields, name))
            step = regressions.ask_case(graph, case, cases, lambda name: _find(fields, name))
            tree, leaves = graph.unfold(step)
            condition = put_values(tree, {place: one for place, one in enumerate(leaves) if one != "none"})
            answers.append((condition, self._classify(found, totals, model.get("functionName") == "classification")))
        return Cases(answers) if len(answers) > 1 else answers[0][1]

    def _classify(
        self, found: regressions.GeneralModel, totals: Mapping[str | None, Total], classifies: bool
    ) -> Answer:
        if not classifies:
            return Number(totals[None], found.link if found.kind == "generalizedLinear" else "none")
        places = {self._find_label(target): total for target, total in totals.items() if target is not None}
        rest = [place for place in range(len(self.labels)) if place not in places]
        if len(rest) != 1 or None in totals or (found.reference or None) not in (None, *self.labels):
            raise NoReading("a general regression must have coefficients for every class but one")
        if found.reference is not None and self._find_label(found.reference) != rest[0]:
            raise NoReading("the reference of a general regression has coefficients")
        if found.kind == "multinomialLogistic":
            return ClassTotals("softmax", [places.get(k, Total()) for k in range(len(self.labels))])
        if len(self.labels) != 2 or found.link not in ("logit", *LINKS):
            raise NoReading(f"a general regression of {len(self.labels)} classes by {found.link} is not read")
        ((first, total),) = places.items()
        return ClassTotals(found.link, [total], first=first)

    def _read_first(self, group: Element, fields: Mapping[str, Any]) -> Answer:
        """The answers of segments, each where it is the first whose condition holds."""
        segments = [list_children(segment, *PREDICATES, *MODELS) for segment in list_children(group, "Segment")]
        answers = []
        for chosen, (_, inner) in enumerate(segments):
            graph = QuestionGraph(lambda name: _find(fields, name))
            step = graph.answer(None)
            for place, (predicate, _) in reversed(list(enumerate(segments))):
                step = graph.ask(predicate, (graph.answer(1.0 if place == chosen else -1.0), step, step))
            tree, leaves = graph.unfold(step)
            condition = put_values(tree, {place: one for place, one in enumerate(leaves) if one != "none"})
            if 1.0 not in leaves:
                continue
            own = self.read(inner, fields)
            for further, one in own.answers if isinstance(own, Cases) else ((None, own),):
                if further is not None:
                    raise NoReading("cases within cases are not read")
                answers.append((condition, one))
        return Cases(answers)

    def _read_ensemble(self, model: Element, fields: Mapping[str, Any]) -> Answer:
        (group,) = [one for one in list_children(model, *AROUND_MODELS, "Segmentation") if one.tag == "Segmentation"]
        method, members, seen = get_attribute(group, "multipleModelMethod"), list[Answer](), dict(fields)
        if method == "selectFirst":
            return self._read_first(group, fields)
        weights = []
        for segment in list_children(group, "Segment"):
            predicate, inner = list_children(segment, "True", *MODELS)
            if predicate.tag != "True":
                raise NoReading("a segment with a condition is not read")
            members.append(self.read(inner, seen))
            weights.append(get_number(segment, "weight", 1.0))
            if method == "modelChain":
                seen |= _list_outputs(inner, members[-1])
        if method == "modelChain" and members:
            return members[-1]
        weights = weights if method.startswith("weighted") else [1.0] * len(members)
        if not members or min(weights) < 0 or not sum(weights) > 0:
            raise NoReading("an ensemble must have members, and weights")
        shares = [weight / sum(weights) for weight in weights]
        if all(isinstance(one, Number) and one.link == "none" for one in members):
            if method not in ("sum", "average", "weightedAverage"):
                raise NoReading(f"an ensemble by {method} is not read")
            factors = [1.0] * len(members) if method == "sum" else shares
            return Number(add_up([(f, one.total) for f, one in zip(factors, members, strict=True)]))  # type: ignore[union-attr]
        trees = [one for one in members if isinstance(one, LeafClasses)]
        if len(trees) < len(members):
            raise NoReading("an ensemble of such classifications is not read")
        return self._put_together(method, trees, shares)

    def _put_together(self, method: str, trees: Sequence[LeafClasses], shares: Sequence[float]) -> ClassTotals:
        places, votes = range(len(self.labels)), method.endswith("Vote")
        if method not in ("average", "weightedAverage", "majorityVote", "weightedMajorityVote"):
            raise NoReading(f"a classification by {method} is not read")

        def build(tree: LeafClasses, place: int) -> Total:
            if votes:
                return Total(trees=(tree.spread([float(one == place) for one in tree.classes]),))
            if tree.shares is None:
                raise NoReading("a member gives no probabilities")
            return Total(trees=(tree.spread([float(one[place]) for one in tree.shares]),), plain=False)

        factors = [1.0] * len(trees) if method == "majorityVote" else shares
        scores = [add_up([(f, build(one, place)) for f, one in zip(factors, trees, strict=True)]) for place in places]
        return ClassTotals("votes" if method == "majorityVote" else "shares", scores, count=len(trees))


def _list_outputs(model: Element, answer: Answer) -> dict[str, Any]:
    """The answer of a model of a chain by the names under which those behind it see it."""
    listed = [one for output in model.findall("Output") for one in list_children(output, "OutputField")]
    found: dict[str, Any] = {}
    for one in listed:
        plain = one.get("feature", "predictedValue") == "predictedValue" and not list(one)
        number = one.get("dataType", "double") == "double" and isinstance(answer, Number) and answer.link == "none"
        found[get_attribute(one, "name")] = (
            answer.total if plain and number and isinstance(answer, Number) else NoReading("an output is not read")
        )
    return found


def _ask_nodes(graph: QuestionGraph, root: Element, strategies: tuple[str, str], nodes: dict[int, Element]) -> int:
    """The step that begins at a node; answers are the numbers of the nodes that give them."""
    missing, childless = strategies
    if missing not in ("none", "lastPrediction", "nullPrediction", "defaultChild"):
        raise NoReading(f"the missingValueStrategy {missing} is not read")
    if childless not in ("returnNullPrediction", "returnLastPrediction"):
        raise NoReading(f"the noTrueChildStrategy {childless} is not read")

    def begin(node: Element) -> int:
        has_answer = "score" in node.attrib or node.find("ScoreDistribution") is not None
        number = len(nodes)
        nodes[number] = node
        inside = list_children(node, *PREDICATES, "Node", "ScoreDistribution", "Partition")
        children = [one for one in inside if one.tag == "Node"]
        last, none = graph.answer(number if has_answer else None), graph.answer(None)
        if not children:
            return last
        entries = {id(child): begin(child) for child in children}
        default = [entries[id(child)] for child in children if child.get("id", "") == node.get("defaultChild")]
        if missing == "defaultChild" and len(default) != 1:
            raise NoReading("a node has no defaultChild")
        step = last if childless == "returnLastPrediction" else none
        for child in reversed(children):
            (predicate,) = [one for one in child if one.tag in PREDICATES]
            unknown = {"none": step, "lastPrediction": last, "nullPrediction": none}.get(missing)
            step = graph.ask(predicate, (entries[id(child)], step, default[0] if unknown is None else unknown))
        return step

    return begin(root)


def _read_table(table: Element, fields: Mapping[str, Any]) -> Total:
    """What a table of a regression adds up."""
    parts, categories = list[tuple[float, Total]](), dict[str, dict[Any, float]]()
    for one in list_children(table, "NumericPredictor", "CategoricalPredictor", "PredictorTerm"):
        weight = get_number(one, "coefficient")
        if one.tag == "CategoricalPredictor":
            field = _find(fields, get_attribute(one, "name"))
            if not isinstance(field, PmmlField) or field.error or field.relative_error:
                raise NoReading("a category of a computed number is not read")
            weights = categories.setdefault(get_attribute(one, "name"), {})
            value = field.parse(get_attribute(one, "value"))
            if value in weights:
                raise NoReading("a category has two coefficients")
            weights[value] = weight
            continue
        power = parse_number(one.get("exponent", "1"))
        place, *more = [one] if one.tag == "NumericPredictor" else list_children(one, "FieldRef")
        if one.tag == "PredictorTerm":
            if power != 1 or any(each.attrib != place.attrib for each in more):
                raise NoReading("a product of fields is not read")
            power = 1.0 + len(more)
        found = _find(fields, get_attribute(place, "name" if one.tag == "NumericPredictor" else "field"))
        parts.append((weight, found) if isinstance(found, Total) and power == 1 else _read_power(found, weight, power))
    for name, weights in categories.items():
        parts.append((1.0, Total(trees=(_build_categories(_find(fields, name), weights),))))
    total = add_up(parts, get_number(table, "intercept"))
    # the model may add as many terms as there are categories
    extra = 2.0 * sum(map(len, categories.values())) * DOUBLE_ROUNDOFF
    return replace(total, relative_error=total.relative_error + extra)


def _add_parameters(
    model: regressions.GeneralModel,
    betas: Mapping[str, float],
    case: Mapping[str, Any],
    fields: Mapping[str, Any],
) -> Total:
    """What the parameters of a general regression add up to where fields have the values of a case."""
    parts, constant = list[tuple[float, Total]](), model.offset
    for name, weight in betas.items():
        own = model.parameters[name]
        holds = not own.powers or all(case[place] == value for place, value in own.values.items())
        if not (own.powers or own.values):
            constant += weight
        elif not own.powers:
            graph = QuestionGraph(lambda name: _find(fields, name))
            tree, leaves = graph.unfold(
                regressions.ask_values(graph, own.values, weight, lambda name: _find(fields, name))
            )
            put = {place: one for place, one in enumerate(leaves) if one != "none"}
            parts.append((1.0, Total(trees=(put_values(tree, put),))))
        elif len(own.powers) > 1:
            raise NoReading("a product of the numbers of several fields is not read")
        else:
            ((place, power),) = own.powers.items()
            parts.append(_read_power(_find(fields, place), weight if holds else 0.0, power))
    total = add_up(parts, constant)
    size = sum(abs(weight) for weight in betas.values())  # of what the constant was added up from
    return replace(total, error=total.error + 4 * len(betas) * DOUBLE_ROUNDOFF * size)


def _build_categories(field: PmmlField, weights: Mapping[Any, float]) -> RegressionTree:
    """What the categories of a field add; others, and missing ones, add nothing."""
    graph = QuestionGraph(lambda _: field)
    step = graph.answer(0.0)
    for value, weight in weights.items():
        step = graph.choose(Question(field, "equal", frozenset((value,))), (graph.answer(weight), step, step))
    tree, answers = graph.unfold(step)
    return put_values(tree, dict(enumerate(answers)))


def _read_power(field: Any, weight: float, power: float) -> tuple[float, Total]:
    if not isinstance(field, PmmlField) or field.kind != "number" or power not in range(1, MAX_EXPONENT + 1):
        raise NoReading(f"the power {power!r} of a number, or a number of a text, is not read")
    if power != 1 and (field.error or field.relative_error):
        raise NoReading("a power of a computed number is not read")
    straight = power == 1 and len(field.steps) == 1 and not field.single and field.ordered
    how = LinearContribution(weight, LARGEST_NUMBER) if straight else PowerContribution(field, weight, int(power))
    term = ColumnTerm(field.column, how, monotone=power == 1 and field.ordered)
    relative = field.relative_error + 8 * power * DOUBLE_ROUNDOFF
    return 1.0, Total(terms=(term,), error=abs(weight) * field.error, relative_error=relative, plain=False)
