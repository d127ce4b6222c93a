"""From the elements of a PMML file to its columns and its model; what is not understood is refused by name and line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from ironrule.arrays import Float64Array
from ironrule.errors import describe_value
from ironrule.model.pmml.document import Element
from ironrule.model.pmml.expressions import read_expression
from ironrule.model.pmml.fields import (
    AnswerColumn,
    DataField,
    DerivedColumn,
    FieldPlan,
    FieldType,
    InputColumn,
    PlannedColumn,
    RetreatedColumn,
    Treatment,
    read_data_field,
    read_treatment,
    read_type,
)
from ironrule.model.pmml.general_regression import GeneralRegressionParser
from ironrule.model.pmml.models import (
    SUMS,
    CategoricalPredictor,
    Characteristic,
    EnsembleModel,
    HandedAnswer,
    MissingStrategy,
    Model,
    NumericPredictor,
    ProductPredictor,
    RegressionModel,
    RegressionTable,
    RescaledModel,
    ScoreAttribute,
    ScorecardModel,
    Segment,
    TreeModel,
    TreeNode,
    gives_probabilities,
    is_regression,
)
from ironrule.model.pmml.predicates import PREDICATES, ConstantPredicate, Predicate, find_predicate, read_predicate

MODELS = ("TreeModel", "RegressionModel", "GeneralRegressionModel", "Scorecard", "MiningModel")
USED = ("active", "supplementary", "group", "order", "frequencyWeight", "analysisWeight")
METHODS = (
    *("sum", "weightedSum", "average", "weightedAverage", "majorityVote", "weightedMajorityVote"),
    *("selectFirst", "modelChain"),
)
LABEL_ATTRIBUTES = {
    "Node": "score",
    "ScoreDistribution": "value",
    "RegressionTable": "targetCategory",
    "PCell": "targetCategory",
    "GeneralRegressionModel": "targetReferenceCategory",
}
CLASS_LINKS = ("logit", "probit", "cloglog", "loglog", "cauchit")  # of two classes
COMMON = ("MiningSchema", "Output", "LocalTransformations", "Targets")


@dataclass(frozen=True, slots=True, eq=False)
class PmmlFile:
    """What a file says: its columns, its model, and the classes; none for a regression. ``inputs`` are the data fields
    that are used, in the order of the mining schema.
    """

    plan: FieldPlan
    model: Model
    classes: tuple[Any, ...]
    inputs: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Scope:
    """The names that a model knows: columns by name, and derived fields that were not needed yet."""

    plan: FieldPlan
    columns: dict[str, int] = field(default_factory=dict)
    derived: dict[str, Element] = field(default_factory=dict)
    mining: dict[str, Callable[[], int]] = field(default_factory=dict)  # fields that are made when they are used
    shared: Scope | None = None  # derived fields of the whole file

    def resolve(self, name: str, element: Element) -> int:
        """The column that a name means; raises InputError if there is none."""
        if name not in self.columns:
            if name in self.derived:
                self.columns[name] = self._derive(self.derived.pop(name))
            elif name in self.mining:
                self.columns[name] = self.mining[name]()
            elif self.shared is not None:
                return self.shared.resolve(name, element)
            else:
                element.refuse(f"names the field {describe_value(name)}, which is not defined before it")
        return self.columns[name]

    def add_derived(self, elements: Iterable[Element]) -> None:
        """Derived fields by their names."""
        for element in elements:
            if element.tag != "DerivedField":
                element.refuse("is not understood")
            self.derived[element.require("name")] = element

    def _derive(self, element: Element) -> int:
        name, kind = element.require("name"), read_type(element, element.require("dataType"))
        parts = [child for child in element.children if child.tag not in ("Value", "Interval")]
        if len(parts) != 1:
            element.refuse("must have one expression")
        sources: set[int] = set()

        def resolve(wanted: str, where: Element) -> int:
            sources.add(column := self.resolve(wanted, where))
            return column

        expression = read_expression(parts[0], resolve, kind)
        if any(isinstance(self.plan.columns[column].how, AnswerColumn) for column in sources):
            element.refuse("is derived from the answer of another model, which is not understood")
        return self.plan.add(PlannedColumn(DerivedColumn(name, expression, kind, frozenset(sources)), kind))


def parse_pmml(root: Element) -> PmmlFile:
    """The columns and the model of the element PMML."""
    root.require_only("MiningBuildTask", "DataDictionary", "TransformationDictionary", *MODELS)
    found = list(root.find_all(*MODELS))
    dictionary = root.find("DataDictionary")
    if len(found) != 1 or dictionary is None:
        root.refuse(f"must have a DataDictionary and one model, got {len(found)}")
    dictionary.require_only("DataField", "Taxonomy")
    fields = [read_data_field(element) for element in dictionary.find_all("DataField")]
    named, element = {one.name: one for one in fields}, found[0]
    plan = FieldPlan(inputs=named)
    scope = _build_scope(element, named, plan)
    common = root.find("TransformationDictionary")
    if common is not None:
        scope.add_derived(common.children)
    scope.add_derived(_list_local_transformations(element))
    parser = ModelParser(plan, _find_labels(element, named))
    model = parser.read_model(element, scope)
    used = {one.how.source.name for one in plan.columns if isinstance(one.how, InputColumn)}
    listed = _list_mining_fields(element)
    if not used:  # a constant: its first field stands for all
        used = set(list(listed)[:1])
        for name in used:
            scope.resolve(name, element)
    order = [name for name in listed if name in used]
    if not order:
        element.refuse("has no field in its MiningSchema")
    classes = () if is_regression(model) else tuple(parser.labels)
    return PmmlFile(plan, model, classes, tuple(order))


def _list_mining_fields(element: Element) -> dict[str, Element]:
    schema = element.find("MiningSchema")
    if schema is None:
        element.refuse("lacks its MiningSchema")
    schema.require_only("MiningField")
    return {one.require("name"): one for one in schema.children if one.get("usageType", "active") in USED}


def _list_local_transformations(element: Element) -> list[Element]:
    local = element.find("LocalTransformations")
    return [] if local is None else local.children


def _build_scope(element: Element, fields: dict[str, DataField], plan: FieldPlan) -> Scope:
    """The names of the outermost model: data fields as its mining schema treats them."""
    scope = Scope(plan)

    def make(source: DataField, treatment: Treatment) -> Callable[[], int]:
        how = InputColumn(source, treatment)
        texts = _find_texts(source, treatment)
        return lambda: plan.add(PlannedColumn(how, source.type, treatment.leaves_none_missing, texts))

    for name, mining in _list_mining_fields(element).items():
        if name not in fields:
            mining.refuse(f"names {describe_value(name)}, which is no data field")
        scope.mining[name] = make(fields[name], read_treatment(mining, fields[name].type))
    return scope


def _find_texts(source: DataField, treatment: Treatment) -> frozenset[str] | None:
    """The texts that a field may hold once it is treated; None if there is no list."""
    valid = frozenset(("true", "false")) if source.type.name == "boolean" and not source.valid else source.valid
    if source.type.is_number or not valid or treatment.invalid == "asIs":
        return None
    others = {one for one in (treatment.replacement, treatment.invalid_replacement) if one is not None}
    return frozenset(valid | others)


def _find_labels(element: Element, fields: dict[str, DataField]) -> _Labels:
    """The classes: those that the target field lists, then others in the order in which the model names them."""
    schema = element.find("MiningSchema")
    listed = [] if schema is None else schema.children
    targets = [one.require("name") for one in listed if one.get("usageType") in ("target", "predicted")]
    target = fields.get(targets[0]) if targets else None
    labels = _Labels(target.type if target is not None else FieldType("string"))
    for value in target.values if target is not None else ():
        labels.find(value)
    waiting = [(element, False)]
    while waiting:  # elements in the order of the file, and whether the model around them tells classes apart
        one, classifies = waiting.pop()
        classifies = one.get("functionName") == "classification" if "functionName" in one.attributes else classifies
        text = one.get(LABEL_ATTRIBUTES.get(one.tag, ""))
        if classifies and text is not None:
            labels.parse(text, one)
        waiting += [(child, classifies) for child in reversed(one.children)]
    return labels


class _Labels(list[Any]):
    """The classes in the order in which they come up first."""

    def __init__(self, kind: FieldType) -> None:
        super().__init__()
        self.kind = kind
        self.places: dict[Any, int] = {}

    def find(self, value: Any) -> int:
        """The place of a class."""
        if value not in self.places:
            self.places[value] = len(self)
            self.append(self._to_label(value))
        return self.places[value]

    def parse(self, text: str, element: Element) -> int:
        """The place of a class that the file writes."""
        return self.find(self.kind.parse(text, element))

    def _to_label(self, value: Any) -> Any:
        if self.kind.name == "boolean":
            return value == "true"
        return int(value) if self.kind.is_number and float(value).is_integer() else value


class ModelParser:
    """Reads models; all of them know the same classes, and add to the same columns."""

    def __init__(self, plan: FieldPlan, labels: _Labels) -> None:
        self.plan, self.labels = plan, labels

    def read_model(self, element: Element, scope: Scope) -> Model:
        """The model that an element says."""
        if element.get("isScorable", "true") == "false":
            element.refuse("says that it cannot be scored")
        readers: dict[str, Callable[[Element, Scope], Model]] = {
            "TreeModel": self._read_tree,
            "RegressionModel": self._read_regression,
            "GeneralRegressionModel": self._read_general_regression,
            "Scorecard": self._read_scorecard,
            "MiningModel": self._read_ensemble,
        }
        model = readers[element.tag](element, scope)
        return self._read_targets(element, model)

    def _read_targets(self, element: Element, model: Model) -> Model:
        """The model with what its element Targets does to a number."""
        targets = element.find("Targets")
        found = list(targets.find_all("Target")) if targets is not None else []
        for target in found:
            odd = next((name for name in ("castInteger", "min", "max") if name in target.attributes), None)
            if odd is not None or (target.find("TargetValue") is not None and is_regression(model)):
                target.refuse(f"has {odd or 'a TargetValue'}, which is not understood")
        if not found or not is_regression(model):
            return model
        factor, constant = found[0].get_number("rescaleFactor", 1.0), found[0].get_number("rescaleConstant", 0.0)
        return model if (factor, constant) == (1.0, 0.0) else RescaledModel(model, factor, constant)

    def _is_classification(self, element: Element) -> bool:
        kind = element.require("functionName")
        if kind not in ("classification", "regression"):
            element.refuse(f"has functionName={describe_value(kind)}; classification and regression are read")
        return kind == "classification"

    def _read_tree(self, element: Element, scope: Scope) -> TreeModel:
        element.require_only("Node", *COMMON)
        classifies = self._is_classification(element)
        missing = element.require_value(
            "missingValueStrategy", "none", "lastPrediction", "nullPrediction", "defaultChild"
        )
        childless = element.require_value("noTrueChildStrategy", "returnNullPrediction", "returnLastPrediction")
        root = element.find("Node")
        if root is None:
            element.refuse("lacks its Node")
        shares: list[tuple[TreeNode, dict[int, float]]] = []
        top = self._read_node(root, scope, classifies, missing == "defaultChild", shares)
        answers_inside = missing == "lastPrediction" or childless == "returnLastPrediction"
        known = all(given for node, given in shares if node.has_score and (answers_inside or not node.children))
        return TreeModel(
            top,
            len(self.labels) if classifies else 0,
            cast(MissingStrategy, missing),
            childless == "returnLastPrediction",
            classifies and known,
        )

    def _read_node(
        self,
        element: Element,
        scope: Scope,
        classifies: bool,
        needs_default: bool,
        shares: list[tuple[TreeNode, dict[int, float]]],
    ) -> TreeNode:
        element.require_only("Node", "ScoreDistribution", "Partition", *PREDICATES)
        predicate = read_predicate(find_predicate(element), scope.resolve, self.plan)
        score = element.get("score")
        given = self._read_distribution(element) if classifies else {}
        if not classifies:
            number = np.nan if score is None else element.parse_number(score, "the score")
            node = TreeNode(predicate, element.line, float(number))
        else:
            place = -1 if score is None else self.labels.parse(score, element)
            if place < 0 and given:
                place = max(given, key=lambda one: given[one])
            node = TreeNode(predicate, element.line, float(place), _to_row(given, len(self.labels)))
            shares.append((node, given))
        inner = list(element.find_all("Node"))
        node.children = [self._read_node(one, scope, classifies, needs_default, shares) for one in inner]
        wanted = element.get("defaultChild")
        if wanted is not None or (needs_default and inner):
            names = [one.get("id") for one in inner]
            if wanted not in names:
                element.refuse("must name one of its children as its defaultChild")
            node.default = names.index(wanted)
        return node

    def _read_distribution(self, element: Element) -> dict[int, float]:
        """The shares of the classes at a node."""
        found = list(element.find_all("ScoreDistribution"))
        chances = bool(found) and all("probability" in one.attributes for one in found)
        sizes = {
            self.labels.parse(one.require("value"), one): one.get_number("probability" if chances else "recordCount")
            for one in found
        }
        total = sum(sizes.values())
        if found and (total <= 0 or min(sizes.values()) < 0 or (chances and abs(total - 1.0) > 1e-3)):
            element.refuse("has a distribution that is none")
        return sizes if chances or not found else {place: size / total for place, size in sizes.items()}

    def _read_regression(self, element: Element, scope: Scope) -> RegressionModel:
        element.require_only("RegressionTable", *COMMON)
        classifies = self._is_classification(element)
        normalization = element.require_value("normalizationMethod", "none", "softmax", "exp", *CLASS_LINKS)
        tables = tuple(self._read_table(one, scope, classifies) for one in element.find_all("RegressionTable"))
        if not classifies and (len(tables) != 1 or normalization == "softmax"):
            element.refuse(f"has {len(tables)} tables and normalizationMethod={normalization} for a regression")
        if classifies and (
            len(tables) < 2
            or len({table.target for table in tables}) < len(tables)
            or normalization not in ("softmax", *CLASS_LINKS)
            or (normalization != "softmax" and len(tables) != 2)
        ):
            element.refuse(f"has {len(tables)} tables and normalizationMethod={normalization} for a classification")
        if classifies and normalization != "softmax" and not tables[1].is_empty:
            element.refuse(f"has a second table with coefficients, which the method {normalization} does not look at")
        return RegressionModel(tables, normalization, len(self.labels) if classifies else 0)

    def _read_table(self, element: Element, scope: Scope, classifies: bool) -> RegressionTable:
        element.require_only("NumericPredictor", "CategoricalPredictor", "PredictorTerm")
        numeric, categorical, products = [], [], []
        for one in element.children:
            if one.tag == "PredictorTerm":
                products.append(self._read_term(one, scope))
                continue
            column = scope.resolve(one.get("field", one.get("name")) or one.require("name"), one)
            kind, coefficient = self.plan.columns[column].type, one.get_number("coefficient")
            if one.tag == "CategoricalPredictor":
                categorical.append(CategoricalPredictor(column, kind.parse(one.require("value"), one), coefficient))
                continue
            numeric.append(NumericPredictor(column, coefficient, self.read_exponent(one, "exponent", column)))
        target = self.labels.parse(element.require("targetCategory"), element) if classifies else 0
        intercept = element.get_number("intercept")
        return RegressionTable(
            intercept, tuple(numeric), tuple(categorical), target, line=element.line, products=tuple(products)
        )

    def _read_term(self, element: Element, scope: Scope) -> ProductPredictor:
        """A product of fields of numbers."""
        element.require_only("FieldRef")
        powers: dict[int, int] = {}
        for one in element.children:
            column = scope.resolve(one.require("field"), one)
            powers[column] = powers.get(column, 0) + self.read_exponent(one, "exponent", column)
        if not powers or any("mapMissingTo" in one.attributes for one in element.children):
            element.refuse("must have fields, each by its name alone")
        return ProductPredictor(element.get_number("coefficient"), tuple(powers.items()), line=element.line)

    def read_exponent(self, element: Element, name: str, column: int) -> int:
        """The power of a field of numbers that an attribute asks for; 1 if it is not there."""
        exponent = element.get_number(name, 1.0)
        if not self.plan.columns[column].type.is_number or not 1 <= exponent <= 10 or exponent != int(exponent):
            element.refuse("must have a field of numbers, and a whole exponent from 1 to 10")
        return int(exponent)

    def _read_general_regression(self, element: Element, scope: Scope) -> RegressionModel:
        classes = len(self.labels) if self._is_classification(element) else 0
        return GeneralRegressionParser(element, self.plan, scope.resolve, self.labels.parse, classes).read()

    def _read_scorecard(self, element: Element, scope: Scope) -> ScorecardModel:
        element.require_only("Characteristics", *COMMON)
        if self._is_classification(element):
            element.refuse("must be a regression")
        uses_reasons = element.get("useReasonCodes", "true") == "true"
        algorithm = element.require_value("reasonCodeAlgorithm", "pointsBelow", "pointsAbove")
        group = element.find("Characteristics")
        if group is None:
            element.refuse("lacks its Characteristics")
        group.require_only("Characteristic")
        common = element.attributes.get("baselineScore")
        baseline = None if common is None else element.get_number("baselineScore")
        parts = tuple(self._read_characteristic(one, scope, baseline) for one in group.children)
        initial = element.get_number("initialScore", 0.0)
        return ScorecardModel(initial, parts, algorithm == "pointsBelow", uses_reasons)

    def _read_characteristic(self, element: Element, scope: Scope, baseline: float | None) -> Characteristic:
        element.require_only("Attribute")
        own = element.attributes.get("baselineScore")
        common = element.get("reasonCode")
        attributes = []
        for one in element.children:
            one.require_only(*PREDICATES)
            predicate = read_predicate(find_predicate(one), scope.resolve, self.plan)
            attributes.append(ScoreAttribute(predicate, one.get_number("partialScore"), one.get("reasonCode", common)))
        name = element.get("name") or f"line {element.line}"
        if not attributes:
            element.refuse("lacks its Attribute")
        return Characteristic(
            name, tuple(attributes), baseline if own is None else element.get_number("baselineScore"), element.line
        )

    def _read_ensemble(self, element: Element, scope: Scope) -> EnsembleModel:
        element.require_only("Segmentation", *COMMON)
        group = element.find("Segmentation")
        if group is None:
            element.refuse("lacks its Segmentation")
        group.require_only("Segment")
        method = group.require("multipleModelMethod")
        if method not in METHODS:
            group.refuse(f"has multipleModelMethod={describe_value(method)}; {', '.join(METHODS)} are read")
        missing = group.get("missingPredictionTreatment", "continue")
        if missing not in ("continue", "returnMissing"):
            group.refuse(f"has missingPredictionTreatment={describe_value(missing)}, which is not understood")
        classifies = self._is_classification(element)
        inner = Scope(self.plan, shared=scope)
        segments = tuple(self._read_segment(one, inner, method) for one in group.children)
        if not segments:
            group.refuse("lacks its Segment")
        members = segments[-1:] if method == "modelChain" else segments
        for one in members:
            wrong = is_regression(one.model) == classifies
            if wrong or (
                classifies and method in ("average", "weightedAverage") and not gives_probabilities(one.model)
            ):
                element.refuse(f"has a model in line {one.line} whose answers cannot be put together by {method}")
        if (classifies and method in SUMS) or (not classifies and method.endswith("Vote")):
            group.refuse(f"puts the answers of a {element.require('functionName')} together by {method}")
        if (
            method.startswith("weighted")
            and method not in SUMS
            and (min(one.weight for one in segments) < 0 or not sum(one.weight for one in segments))
        ):
            group.refuse("has weights below 0, or no weight at all")
        return EnsembleModel(method, segments, len(self.labels) if classifies else 0)

    def _read_segment(self, element: Element, scope: Scope, method: str) -> Segment:
        element.require_only(*PREDICATES, *MODELS)
        predicate: Predicate = read_predicate(find_predicate(element), scope.resolve, self.plan)
        found = list(element.find_all(*MODELS))
        if len(found) != 1:
            element.refuse(f"must have one model that is read ({', '.join(MODELS)}), got {len(found)}")
        if method == "modelChain" and predicate != ConstantPredicate(True):
            element.refuse("of a modelChain has a condition; put such segments into a MiningModel with selectFirst")
        model = self.read_model(found[0], self._enter_model(found[0], scope))
        answers = self._read_answers(found[0], scope, model) if method == "modelChain" else ()
        return Segment(predicate, model, element.get_number("weight", 1.0), answers, element.line)

    def _enter_model(self, element: Element, outer: Scope) -> Scope:
        """The names that a model inside another one knows."""
        scope = Scope(self.plan, shared=outer)

        def make(name: str, mining: Element) -> Callable[[], int]:
            def retreat() -> int:
                column = outer.resolve(name, mining)
                known = self.plan.columns[column]
                treatment = read_treatment(mining, known.type)
                if treatment in (Treatment(), Treatment(invalid="asIs"), Treatment(invalid="asMissing")):
                    return column  # whatever is invalid was seen to by the outermost model
                if isinstance(known.how, AnswerColumn):
                    mining.refuse("treats the answer of another model, which is not understood")
                texts = (
                    known.texts
                    if treatment.replacement is None or known.texts is None
                    else known.texts | {treatment.replacement}
                )
                never = known.never_missing or treatment.leaves_none_missing
                return self.plan.add(PlannedColumn(RetreatedColumn(name, column, treatment), known.type, never, texts))

            return retreat

        for name, mining in _list_mining_fields(element).items():
            scope.mining[name] = make(name, mining)
        scope.add_derived(_list_local_transformations(element))
        return scope

    def _read_answers(self, element: Element, scope: Scope, model: Model) -> tuple[HandedAnswer, ...]:
        """The columns for what a model of a chain hands on: its number, or the probabilities of its classes."""
        output = element.find("Output")
        handed = []
        for one in output.find_all("OutputField") if output is not None else ():
            feature = one.get("feature", "predictedValue" if one.get("value") is None else "probability")
            target = None
            if one.children or feature not in ("predictedValue", "probability"):
                continue  # refused where it is used
            if feature == "probability":
                if is_regression(model) or not gives_probabilities(model):
                    continue
                target = self.labels.parse(one.require("value"), one)
            elif not is_regression(model):
                continue
            name = one.require("name")
            column = PlannedColumn(AnswerColumn(name), FieldType("double"), never_missing=True)
            scope.columns[name] = self.plan.add(column)
            handed.append(HandedAnswer(scope.columns[name], target))
        return tuple(handed)


def _to_row(shares: dict[int, float], classes: int) -> Float64Array:
    row = np.zeros(classes)
    for place, share in shares.items():
        row[place] = share
    return row
