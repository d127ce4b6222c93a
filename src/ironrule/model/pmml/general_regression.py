"""GeneralRegressionModel: generalized linear models and multinomial logistic regressions, as R and SPSS write them.

A parameter is worth, for a row, the product of its cells in the PPMatrix: a power of a covariate, or 1 or 0 for whether
a factor has a value. A parameter without cells is the intercept. Each class, or the one number, has the sum of its
parameters times their ``beta``. So the model is turned into a regression with a table per class, in which a parameter
with several cells is an interaction. A missing value leaves no answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ironrule.errors import describe_value
from ironrule.model.pmml.document import Element
from ironrule.model.pmml.fields import FieldPlan
from ironrule.model.pmml.links import INVERSES
from ironrule.model.pmml.models import (
    CategoricalPredictor,
    NumericPredictor,
    ProductPredictor,
    RegressionModel,
    RegressionTable,
)

NUMBER_MODELS = ("regression", "generalLinear")
CLASS_MODELS = ("generalizedLinear", "multinomialLogistic")
PARTS = ("ParameterList", "FactorList", "CovariateList", "PPMatrix", "PCovMatrix", "ParamMatrix")
NOT_READ = ("trialsVariable", "trialsValue", "cumulativeLink", "endTimeVariable", "baselineStrataVariable")


@dataclass(slots=True)
class _Cells:
    """The cells of one parameter: powers of columns, and values that columns must have."""

    powers: dict[int, int] = field(default_factory=dict)
    values: dict[int, str | float] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class GeneralRegressionParser:
    """Reads one such model: ``resolve`` gives the column of a field, ``find_class`` the place of a class, and there are
    so many ``classes`` (0 for a regression).
    """

    element: Element
    plan: FieldPlan
    resolve: Callable[[str, Element], int]
    find_class: Callable[[str, Element], int]
    classes: int

    def read(self) -> RegressionModel:
        """The model as a regression; raises InputError for what is not understood."""
        element, kind = self.element, self.element.require("modelType")
        if kind not in (CLASS_MODELS if self.classes else (*NUMBER_MODELS, "generalizedLinear")):
            expected = "generalizedLinear and multinomialLogistic are read for classes, and generalizedLinear, "
            expected += "regression and generalLinear for numbers"
            element.refuse(f"has modelType={describe_value(kind)}; {expected}")
        odd = next((name for name in NOT_READ if name in element.attributes), None)
        if odd is not None:
            element.refuse(f"has {odd}, which is not understood")
        cells = self._read_cells()
        betas = self._read_betas(cells)
        if not self.classes:
            return RegressionModel((self._build_table(betas.pop(None, {}), cells),), self._find_link(kind), 0)
        reference = self._find_reference(set(betas))
        classes = [place for place in betas if place is not None]
        tables = {place: self._build_table(betas[place], cells, place) for place in classes}
        link = "softmax" if kind == "multinomialLogistic" else self._find_link(kind)
        if link == "softmax":
            tables[reference] = RegressionTable(0.0, (), (), reference, line=element.line)
            return RegressionModel(tuple(tables[place] for place in sorted(tables)), link, self.classes)
        if self.classes != 2 or link in ("none", "exp", "logc"):
            element.refuse(f"has {self.classes} classes and linkFunction={describe_value(element.get('linkFunction'))}")
        other = RegressionTable(0.0, (), (), reference, line=element.line)
        return RegressionModel((*tables.values(), other), link, 2)

    def _find_link(self, kind: str) -> str:
        if kind in NUMBER_MODELS:
            return "none"
        name = self.element.require("linkFunction")
        if name not in INVERSES:
            self.element.refuse(f"has linkFunction={describe_value(name)}; {', '.join(INVERSES)} are read")
        return INVERSES[name]

    def _find_reference(self, given: set[int | None]) -> int:
        """The class whose sum is 0: the one that has no parameters, or that is named."""
        rest = [place for place in range(self.classes) if place not in given]
        named = self.element.get("targetReferenceCategory")
        if None in given or len(rest) != 1 or (named is not None and self.find_class(named, self.element) != rest[0]):
            self.element.refuse("must have parameters (PCell) with a targetCategory for every class but one")
        return rest[0]

    def _list_predictors(self, tag: str) -> set[str]:
        """The names in a list of predictors."""
        group = self.element.find(tag)
        found = set()
        for one in group.children if group is not None else ():
            if one.tag != "Predictor" or one.find("Matrix") is not None:
                one.refuse("has a contrast matrix, which is not understood; write one parameter per category")
            found.add(one.require("name"))
        return found

    def _read_cells(self) -> dict[str, _Cells]:
        """What every parameter is made of."""
        self.element.require_only(*PARTS, "MiningSchema", "Output", "LocalTransformations", "Targets")
        listed, matrix = self.element.find("ParameterList"), self.element.find("PPMatrix")
        if listed is None:
            self.element.refuse("lacks its ParameterList")
        factors, covariates = self._list_predictors("FactorList"), self._list_predictors("CovariateList")
        cells = {one.require("name"): _Cells() for one in listed.find_all("Parameter")}
        for one in matrix.find_all("PPCell") if matrix is not None else ():
            own, name = cells.get(one.require("parameterName")), one.require("predictorName")
            if own is None or "targetCategory" in one.attributes or (name in factors) == (name in covariates):
                one.refuse("must name a parameter that is listed, and a factor or a covariate, and no targetCategory")
            column = self.resolve(name, one)
            kind = self.plan.columns[column].type
            if column in own.powers or column in own.values:
                one.refuse(f"names {describe_value(name)} a second time for one parameter")
            if name in factors:
                own.values[column] = kind.parse(one.require("value"), one)
                continue
            exponent = one.get_number("value")
            if not kind.is_number or exponent not in range(1, 11):
                one.refuse("must have a covariate of numbers, and a whole exponent from 1 to 10")
            own.powers[column] = int(exponent)
        return cells

    def _read_betas(self, cells: dict[str, _Cells]) -> dict[int | None, dict[str, float]]:
        """The coefficients by class and parameter; the class is None where none is named."""
        matrix = self.element.find("ParamMatrix")
        if matrix is None:
            self.element.refuse("lacks its ParamMatrix")
        betas: dict[int | None, dict[str, float]] = {}
        for one in matrix.find_all("PCell"):
            target = one.get("targetCategory")
            place = None if target is None or not self.classes else self.find_class(target, one)
            own, name = betas.setdefault(place, {}), one.require("parameterName")
            if name not in cells or name in own:
                one.refuse(f"names the parameter {describe_value(name)}, which is not listed, or a second time")
            own[name] = one.get_number("beta")
        return betas

    def _build_table(self, betas: dict[str, float], cells: dict[str, _Cells], target: int = 0) -> RegressionTable:
        intercept = self.element.get_number("offsetValue", 0.0)
        numeric, categorical, products = (
            list[NumericPredictor](),
            list[CategoricalPredictor](),
            list[ProductPredictor](),
        )
        offset = self.element.get("offsetVariable")
        if offset is not None:
            column = self.resolve(offset, self.element)
            if not self.plan.columns[column].type.is_number:
                self.element.refuse("must have a number as its offsetVariable")
            numeric.append(NumericPredictor(column, 1.0, 1))
        for name, beta in betas.items():
            own = cells[name]
            powers, values = tuple(own.powers.items()), tuple(own.values.items())
            if not powers and not values:
                intercept += beta
            elif not values and len(powers) == 1:
                numeric.append(NumericPredictor(powers[0][0], beta, powers[0][1]))
            elif not powers and len(values) == 1:
                categorical.append(CategoricalPredictor(*values[0], beta))
            else:
                products.append(ProductPredictor(beta, powers, values, line=self.element.line))
        return RegressionTable(
            intercept,
            tuple(numeric),
            tuple(categorical),
            target,
            line=self.element.line,
            products=tuple(products),
            needs_all=True,
        )
