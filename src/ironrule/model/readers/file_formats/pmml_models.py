"""PMML models as sums of trees: every part of a model becomes trees of tests of single columns, or terms of them.

- **Conditions** become tests of single columns (:mod:`.pmml_conditions`).
- **No prediction.** Where a model would give none because a value is missing, the split refuses missing values, so a
  space that holds some leaves the model unread. Where it would give none whatever the values, it is unread too.
- **Cases.** An interaction of a number with categories is a line of its own for each category, and the first segment
  whose condition holds decides alone. So there is an alternative for every category or segment: its condition, as a
  tree that is positive where it holds, and what decides there. Products of the numbers of several features are no sums
  of functions of single ones, and are not read.
- **Chains.** What a model hands on stands in the next one as its sum; behind a link, see :mod:`.pmml_chains`.
- **Rounding** is bounded in :mod:`.pmml_scores`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ironrule.model.decision import list_labels, split_classes
from ironrule.model.normal_form.network import DOUBLE_ROUNDOFF
from ironrule.model.normal_form.tree_sum import LinkedGroup, Margin, Term, TreeSum
from ironrule.model.pmml.fields import FieldPlan
from ironrule.model.pmml.models import (
    SUMS,
    EnsembleModel,
    HandedAnswer,
    Model,
    NumericPredictor,
    ProductPredictor,
    RegressionModel,
    RegressionTable,
    RescaledModel,
    ScorecardModel,
    Segment,
    TreeModel,
    TreeNode,
)
from ironrule.model.pmml.predicates import ComparisonPredicate, ConstantPredicate, Predicate, SetPredicate
from ironrule.model.protocol import Unreadable, require_readable
from ironrule.model.readers.boosting import read_softmax_threshold
from ironrule.model.readers.file_formats.pmml_chains import LinkedAnswer, find_link_answer, read_over_answer
from ironrule.model.readers.file_formats.pmml_conditions import (
    Continue,
    Knowledge,
    PredicateCompiler,
    refuse_prediction,
)
from ironrule.model.readers.file_formats.pmml_scores import (
    MAX_TERM_SIZE,
    PowerShape,
    ScoreForm,
    build_lead,
    build_score,
    is_exact,
    read_link,
    read_log_odds,
    to_boosted,
)
from ironrule.model.readers.library_class import require_own_methods
from ironrule.model.readers.sklearn_additive import IdentityShape, PresentNumberShape, ScaledShape
from ironrule.model.readers.tree_scores import LINK_ERROR
from ironrule.model.wrappers.pmml_models import PmmlFinalModel

MAX_CASES = 64
ALWAYS = ConstantPredicate(True)
NO_ANSWER_IF_MISSING = "it gives no prediction where a value is missing"
Read = Callable[[Any], TreeSum]


def read_pmml(estimator: Any, desired: tuple[Any, ...], threshold: float | None) -> TreeSum | None:
    """The normal form of the model of a PMML file; None for anything else."""
    if not isinstance(estimator, PmmlFinalModel):
        return None
    require_own_methods(estimator)
    reader = ModelReader(estimator.file.plan)
    model = estimator.file.model
    try:
        if not estimator.file.classes:
            if threshold is None or desired:
                raise Unreadable("a regression is read with a threshold alone: desired is a prediction above it")
            return reader.read_number(model, float(threshold))
        labels = list_labels(estimator.classes_)
        wanted, others = split_classes(labels, desired)
        require_readable(bool(wanted and others), "some class must be desired and some undesired")
        return reader.read_class(model, wanted, others, threshold)
    except RecursionError:
        raise Unreadable("its conditions are nested too deep") from None


@dataclass(slots=True)
class ModelReader:
    """Reads the models of a file. ``places`` has the position of each column that a model sees; ``answers`` the models
    of a chain whose answers stand in other columns; ``present`` the columns that are not missing where a model counts.
    """

    plan: FieldPlan
    places: dict[int, int] = field(default_factory=dict)
    answers: dict[int, tuple[Model, HandedAnswer]] = field(default_factory=dict)
    present: frozenset[int] = frozenset()
    _handed: dict[int, LinkedAnswer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.places = self.places or {column: place for place, column in enumerate(self.plan.prepared)}

    def read_number(self, model: Model, threshold: float, factor: float = 1.0, constant: float = 0.0) -> TreeSum:
        """Desired where a number, times a factor and with a constant added, is above the threshold."""
        model = self._leave_chains(model)
        plain = (factor, constant) == (1.0, 0.0)
        if isinstance(model, RescaledModel) and plain:
            return self.read_number(model.model, threshold, model.factor, model.constant)
        linked = self._find_linked(model)
        if linked is not None:
            return read_over_answer(linked, lambda inner: inner.read_number(model, threshold, factor, constant), self)
        if isinstance(model, EnsembleModel) and model.method == "selectFirst":
            return self._read_first(model, lambda one, inner: inner.read_number(one, threshold, factor, constant))
        if isinstance(model, RegressionModel):
            require_readable(plain or model.normalization == "none", "it rescales a number behind a link")

            def read_plain(one: RegressionModel) -> TreeSum:
                score = self._read_table(one.tables[0])
                if not plain:
                    score = score.scale(factor).add(ScoreForm(constant, exact=is_exact(constant)))
                return read_link(score, one.normalization, threshold)

            return self._read_cases(model, read_plain)
        score = self._read_score(model).scale(factor).add(ScoreForm(constant, exact=is_exact(constant)))
        return TreeSum(((score.build_margin(threshold),),))

    def read_class(
        self, model: Model, wanted: Sequence[int], others: Sequence[int], threshold: float | None
    ) -> TreeSum:
        """Desired where a wanted class is chosen, or where their probabilities add up to more than the threshold."""
        model = self._leave_chains(model)
        linked = self._find_linked(model)
        if linked is not None:
            return read_over_answer(linked, lambda inner: inner.read_class(model, wanted, others, threshold), self)
        if isinstance(model, TreeModel):
            values = self._make_wanted_value(wanted, threshold is not None)
            score = self._read_tree(model, values, exact=threshold is None)
            cut, error = (0.5, 0.0) if threshold is None else (threshold, 8 * len(wanted) * DOUBLE_ROUNDOFF)
            return TreeSum(((score.build_margin(cut, error),),))
        if isinstance(model, RegressionModel):
            return self._read_cases(model, lambda one: self._read_regression_classes(one, wanted, others, threshold))
        assert isinstance(model, EnsembleModel)
        if model.method == "selectFirst":
            return self._read_first(model, lambda one, inner: inner.read_class(one, wanted, others, threshold))
        columns = {place: self._read_share(model, place) for place in (*wanted, *others)}
        if threshold is not None:
            self._require_unconditional(model)
            total = sum(model.weights)
            score = ScoreForm(count=len(wanted))
            for place in wanted:
                score = score.add(columns[place])
            scaled = replace(score.scale(1.0 / total), exact=False)
            return TreeSum(((scaled.build_margin(threshold, 8 * len(wanted) * DOUBLE_ROUNDOFF),),))
        return TreeSum(tuple(tuple(build_lead(columns[d], columns[u], d < u) for u in others) for d in wanted))

    def _leave_chains(self, model: Model) -> Model:
        """The last model of a chain, once it is noted where the answers of those before it stand."""
        while isinstance(model, EnsembleModel) and model.method == "modelChain":
            for segment in model.segments[:-1]:
                self.answers |= {handed.column: (segment.model, handed) for handed in segment.answers}
            model = model.segments[-1].model
        return model

    def enter_answer(self, column: int) -> ModelReader:
        """The same for models that see another one's answer alone."""
        return ModelReader(self.plan, {column: 0})

    def read_handed(self, column: int) -> LinkedAnswer:
        """What another model of the chain has put into a column."""
        if column not in self._handed:
            model, handed = self.answers[column]
            self._handed[column] = replace(self.read_answer(model, handed.target), column=column)
        return self._handed[column]

    def _find_linked(self, model: Model) -> LinkedAnswer | None:
        """The one answer behind a link that a model looks at; None if it looks at none."""
        return find_link_answer(model, self.answers, self)

    def _read_first(self, model: EnsembleModel, read: Callable[[Model, ModelReader], TreeSum]) -> TreeSum:
        """An alternative for every segment: that it is the first whose condition holds, and what it decides."""
        alternatives: list[tuple[Margin, ...]] = []
        for chosen, segment in enumerate(model.segments):
            compiler, reached = PredicateCompiler(self.plan, self.places), list[Knowledge]()
            self._ask_first(model, chosen, compiler, reached)
            if not reached:
                continue  # those before it leave nothing to it
            present = {c for c in range(len(self.plan.columns)) if all(known[c].missing is False for known in reached)}
            inner = replace(self, present=self.present | present)
            alternatives += self._add_condition(read(segment.model, inner), compiler)
        return TreeSum(tuple(alternatives))

    def _ask_first(
        self, model: EnsembleModel, chosen: int, compiler: PredicateCompiler, reached: list[Knowledge]
    ) -> None:
        """Add a tree that is 1 where a segment is the first whose condition holds, and else -1; ``reached`` gets what
        is known of the columns where it is 1.
        """

        def ask(place: int, known: Knowledge) -> int:
            if place == len(model.segments):
                return refuse_prediction(known)

            def take(later: Knowledge) -> int:
                if place == chosen:
                    reached.append(later)
                return compiler.add_leaf(1.0 if place == chosen else -1.0)

            def go_on(later: Knowledge) -> int:
                return ask(place + 1, later)

            return compiler.ask(model.segments[place].predicate, known, take, go_on, go_on)

        ask(0, compiler.start(self.present))

    @staticmethod
    def _add_condition(form: TreeSum, compiler: PredicateCompiler) -> list[tuple[Margin, ...]]:
        """The alternatives of a form where a compiled tree is 1 and not -1."""
        score = build_score(compiler)
        condition = Margin(0.0, (LinkedGroup(score.trees),))
        return [(condition, *margins) for margins in form.alternatives]

    def _read_cases(self, model: RegressionModel, read: Read) -> TreeSum:
        """An alternative for every combination of the categories that numbers interact with."""
        values: dict[int, set[Any]] = {}
        for product in (one for table in model.tables for one in table.products if one.powers):
            for column, value in product.values:
                values.setdefault(column, set()).add(value)
        if not values:
            return read(model)
        choices = [[*sorted(listed, key=str), None] for listed in values.values()]
        count = math.prod(map(len, choices))
        require_readable(count <= MAX_CASES, f"its interactions of numbers with categories make {count:,} cases")
        alternatives: list[tuple[Margin, ...]] = []
        for chosen in itertools.product(*choices):
            here = dict(zip(values, chosen, strict=True))
            compiler = PredicateCompiler(self.plan, self.places)
            self._ask_case(compiler, here, values)
            if 1.0 not in compiler.builder.values:
                continue
            reduced = replace(model, tables=tuple(_reduce_table(table, here) for table in model.tables))
            alternatives += self._add_condition(read(reduced), compiler)
        return TreeSum(tuple(alternatives))

    def _ask_case(self, compiler: PredicateCompiler, here: Mapping[int, Any], values: Mapping[int, set[Any]]) -> None:
        """Add a tree that is 1 where columns have the values of a case (None: none of those listed), and else -1."""
        tests: list[Predicate] = [
            SetPredicate(column, frozenset(values[column]), inside=False)
            if value is None
            else ComparisonPredicate(column, "equal", value)
            for column, value in here.items()
        ]

        def ask(place: int, known: Knowledge) -> int:
            if place == len(tests):
                return compiler.add_leaf(1.0)
            return compiler.ask(
                tests[place],
                known,
                lambda later: ask(place + 1, later),
                lambda _: compiler.add_leaf(-1.0),
                NO_ANSWER_IF_MISSING,
            )

        ask(0, compiler.start(self.present))

    def _require_unconditional(self, model: EnsembleModel) -> None:
        odd = next((one.line for one in model.segments if not one.always_counts), None)
        require_readable(odd is None, f"the segment in line {odd} has a condition, so what is divided by may change")

    def _read_share(self, model: EnsembleModel, place: int) -> ScoreForm:
        """What the members of an ensemble add for one class."""
        votes = model.method.endswith("Vote")
        if not votes:
            self._require_unconditional(model)
        self._require_some_member(model)
        total = ScoreForm()
        for weight, segment in zip(model.weights, model.segments, strict=True):
            if not isinstance(segment.model, TreeModel):
                raise Unreadable(f"the member in line {segment.line} is no tree")
            value = self._make_wanted_value((place,), not votes)
            share = self._read_tree(segment.model, value, exact=votes, condition=segment.predicate)
            total = total.add(share.scale(weight))
        return total

    @staticmethod
    def _require_some_member(model: EnsembleModel) -> None:
        sure = any(one.always_counts and weight for weight, one in zip(model.weights, model.segments, strict=True))
        require_readable(sure, "each of its segments has a condition, so it may give no prediction")

    def _make_wanted_value(self, wanted: Sequence[int], shares: bool) -> Callable[[TreeNode], float]:
        def value(node: TreeNode) -> float:
            if shares:
                assert node.shares is not None
                return float(sum(node.shares[list(wanted)]))
            return float(int(node.score) in wanted)

        return value

    def _read_regression_classes(
        self, model: RegressionModel, wanted: Sequence[int], others: Sequence[int], threshold: float | None
    ) -> TreeSum:
        tables = {table.target: table for table in model.tables}
        if model.normalization != "softmax":
            is_first = list(wanted) == [model.tables[0].target]
            score = self._read_table(model.tables[0])
            if threshold is not None:
                return read_link(score, model.normalization, threshold, complement=not is_first)
            if model.normalization != "logit":
                return read_link(score, model.normalization, 0.5, complement=not is_first)
            score = score.scale(1.0 if is_first else -1.0)
            return TreeSum(((score.build_margin(wins_ties=wanted[0] < others[0]),),))
        missing = [place for place in (*wanted, *others) if place not in tables]
        require_readable(not missing, "some class has no table")
        scores = {place: self._read_table(table) for place, table in tables.items()}
        if threshold is None:
            return TreeSum(tuple(tuple(build_lead(scores[d], scores[u], d < u) for u in others) for d in wanted))
        if len(wanted) == len(others) == 1:
            return read_log_odds(scores[wanted[0]].add(scores[others[0]].scale(-1.0)), threshold)
        if any(score.terms for score in scores.values()):
            raise Unreadable("a threshold on the probabilities of more than two classes is no cut of a sum")
        boosted = [to_boosted(scores[place]) for place in sorted(scores)]
        return read_softmax_threshold(boosted, wanted, threshold, LINK_ERROR)

    def read_answer(self, model: Model, target: int | None) -> LinkedAnswer:
        """What a model hands on: its number, or the probability of a class."""
        model = self._leave_chains(model)
        if target is None and not (isinstance(model, RegressionModel) and model.normalization != "none"):
            return LinkedAnswer(self._read_score(model))
        if isinstance(model, RegressionModel):
            self._require_no_cases(model)
            scores = {table.target: self._read_table(table) for table in model.tables}
            if target is None or model.normalization != "softmax":
                complement = target is not None and target != model.tables[0].target
                return LinkedAnswer(scores[model.tables[0].target], model.normalization, complement)
            require_readable(len(scores) == 2 and target in scores, "it hands on one of several probabilities")
            (other,) = (place for place in scores if place != target)
            return LinkedAnswer(scores[target].add(scores[other].scale(-1.0)), "logit")
        assert target is not None
        if isinstance(model, TreeModel):
            return LinkedAnswer(self._read_tree(model, self._make_wanted_value((target,), True), exact=False))
        require_readable(
            isinstance(model, EnsembleModel) and model.method != "selectFirst", "a chain goes through cases"
        )
        assert isinstance(model, EnsembleModel)
        self._require_unconditional(model)
        share = self._read_share(model, target).scale(1.0 / sum(model.weights))
        return LinkedAnswer(replace(share, exact=False))

    @staticmethod
    def _require_no_cases(model: RegressionModel) -> None:
        cases = any(one.powers and one.values for table in model.tables for one in table.products)
        require_readable(not cases, "the answer of a model with interactions of numbers and categories is handed on")

    def _read_score(self, model: Model) -> ScoreForm:
        """A number as a sum."""
        model = self._leave_chains(model)
        if isinstance(model, RescaledModel):
            scaled = self._read_score(model.model).scale(model.factor)
            return scaled.add(ScoreForm(model.constant, exact=is_exact(model.constant)))
        if isinstance(model, TreeModel):
            require_readable(not model.classes, "a chain goes through classes")
            return self._read_tree(model, lambda node: node.score, exact=True)
        if isinstance(model, RegressionModel):
            require_readable(model.normalization == "none" and not model.classes, "a number goes through two links")
            self._require_no_cases(model)
            return self._read_table(model.tables[0])
        if isinstance(model, ScorecardModel):
            return self._read_scorecard(model)
        require_readable(not model.classes, "a chain goes through classes")
        require_readable(model.method != "selectFirst", "a number of single cases is put together with others")
        if model.method not in SUMS:
            self._require_unconditional(model)
        self._require_some_member(model)
        total = ScoreForm()
        for weight, segment in zip(model.weights, model.segments, strict=True):
            total = total.add(self._read_member(segment).scale(weight))
        if model.method in SUMS:
            return total
        return replace(total.scale(1.0 / sum(model.weights)), exact=False)

    def _read_member(self, segment: Segment) -> ScoreForm:
        """The number of a segment, 0 where its condition does not hold."""
        if segment.always_counts:
            return self._read_score(segment.model)
        if not isinstance(segment.model, TreeModel) or segment.model.classes:
            raise Unreadable(f"the segment in line {segment.line} has a condition, and is no tree")
        return self._read_tree(segment.model, lambda node: node.score, exact=True, condition=segment.predicate)

    def _read_table(self, table: RegressionTable) -> ScoreForm:
        score = ScoreForm(table.intercept, exact=is_exact(table.intercept))
        for one in table.numeric:
            if one.column in self.answers:
                require_readable(one.exponent == 1, "it takes a power of another model's answer")
                handed = self.read_handed(one.column)
                require_readable(handed.link == "none", "a number goes through two links")
                score = score.add(handed.score.scale(one.coefficient))
                continue
            score = score.add(self._read_power(one.column, one.exponent, one.coefficient))
        unknown = NO_ANSWER_IF_MISSING if table.needs_all else None
        for each in table.categorical:
            test = ComparisonPredicate(each.column, "equal", each.value)
            score = score.add(self._read_indicator((test,), each.coefficient, unknown))
        for product in table.products:
            score = score.add(self._read_product(product, unknown))
        return score

    def _read_power(self, column: int, exponent: int, coefficient: float) -> ScoreForm:
        """A coefficient times a power of a column."""
        require_readable(column in self.places, "it takes the answer of a model that is no number")
        present = column in self.present and not self.plan.columns[column].never_missing
        shape: Any = PresentNumberShape() if present else IdentityShape()
        if exponent != 1:
            shape = PowerShape(exponent)
        term = Term(self.places[column], ScaledShape(coefficient, shape, MAX_TERM_SIZE))
        return ScoreForm(0.0, (), (term,), 4 + exponent, exact=False)

    def _read_indicator(self, tests: Sequence[Predicate], coefficient: float, unknown: str | None) -> ScoreForm:
        """A coefficient where columns have certain values."""
        compiler = PredicateCompiler(self.plan, self.places)

        def add_nothing(_: Knowledge) -> int:
            return compiler.add_leaf(0.0)

        def ask(place: int, known: Knowledge) -> int:
            if place == len(tests):
                return compiler.add_leaf(coefficient)
            return compiler.ask(
                tests[place], known, lambda later: ask(place + 1, later), add_nothing, unknown or add_nothing
            )

        ask(0, compiler.start(self.present))
        return build_score(compiler)

    def _read_product(self, product: ProductPredictor, unknown: str | None) -> ScoreForm:
        """An interaction of categories alone, as a tree; or a power of one column."""
        if not product.powers:
            tests = [ComparisonPredicate(column, "equal", value) for column, value in product.values]
            return self._read_indicator(tests, product.coefficient, unknown)
        if len(product.columns) > 1 or product.columns & self.answers.keys():
            raise Unreadable(
                f"the interaction in line {product.line} multiplies the numbers of several features, which is no sum "
                "of functions of single ones; a column of the data for the product, or bins of one of them, can be read"
            )
        ((column, exponent),) = product.powers
        return self._read_power(column, exponent, product.coefficient)

    def _read_scorecard(self, model: ScorecardModel) -> ScoreForm:
        score = ScoreForm(model.initial, exact=is_exact(model.initial))
        for one in model.characteristics:
            compiler = PredicateCompiler(self.plan, self.places)

            def ask(place: int, known: Knowledge, one: Any = one, compiler: PredicateCompiler = compiler) -> int:
                if place == len(one.attributes):
                    return refuse_prediction(known)
                attribute = one.attributes[place]

                def go_on(later: Knowledge) -> int:
                    return ask(place + 1, later)

                return compiler.ask(
                    attribute.predicate,
                    known,
                    lambda _: compiler.add_leaf(attribute.points),
                    go_on,
                    go_on,
                )

            ask(0, compiler.start(self.present))
            score = score.add(build_score(compiler))
        return score

    def _read_tree(
        self,
        model: TreeModel,
        value: Callable[[TreeNode], float],
        exact: bool,
        condition: Predicate = ALWAYS,
    ) -> ScoreForm:
        """One tree; ``value`` is what a node's answer adds. Where the condition does not hold, it adds nothing."""
        compiler = PredicateCompiler(self.plan, self.places)

        def answer(node: TreeNode) -> Continue:
            def add(known: Knowledge) -> int:
                return compiler.add_leaf(value(node)) if node.has_score else refuse_prediction(known)

            return add

        def enter(node: TreeNode, known: Knowledge) -> int:
            return ask_child(node, 0, known) if node.children else answer(node)(known)

        def ask_child(node: TreeNode, place: int, known: Knowledge) -> int:
            if place == len(node.children):
                return answer(node)(known) if model.last_without_child else refuse_prediction(known)

            def go_on(later: Knowledge) -> int:
                return ask_child(node, place + 1, later)

            unknown: Continue | str = go_on
            if model.missing == "lastPrediction":
                unknown = answer(node)
            elif model.missing == "defaultChild" and node.default is not None:
                unknown = partial(enter, node.children[node.default])
            elif model.missing != "none":
                unknown = "it gives no prediction where a value is missing"
            chosen = node.children[place]
            return compiler.ask(chosen.predicate, known, lambda later: enter(chosen, later), go_on, unknown)

        def begin(known: Knowledge) -> int:
            return compiler.ask(
                model.root.predicate,
                known,
                lambda later: enter(model.root, later),
                refuse_prediction,
                refuse_prediction,
            )

        def add_nothing(_: Knowledge) -> int:
            return compiler.add_leaf(0.0)

        compiler.ask(condition, compiler.start(self.present), begin, add_nothing, add_nothing)
        score = build_score(compiler)
        return score if exact else replace(score, exact=False)


def _reduce_table(table: RegressionTable, here: Mapping[int, Any]) -> RegressionTable:
    """The table where columns have certain values (None: none of those that it names)."""
    numeric, categorical, products = list(table.numeric), list(table.categorical), list[ProductPredictor]()
    for product in table.products:
        if not product.powers:
            products.append(product)
            continue
        holds = all(here[column] == value for column, value in product.values)
        left = replace(product, values=(), coefficient=product.coefficient if holds else 0.0)
        if not holds:  # missing numbers still leave no answer
            numeric += [NumericPredictor(column, 0.0, 1) for column, _ in product.powers]
        else:
            products.append(left)
    return replace(table, numeric=tuple(numeric), categorical=tuple(categorical), products=tuple(products))
