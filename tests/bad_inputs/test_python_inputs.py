"""Bad inputs of the Python interface: arguments of the explainer, rows, options, rules, constraints, spaces, tables."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from bad_input_checks import (
    DENIED,
    HUGE,
    LONG,
    BadInput,
    BrokenRepr,
    assert_refused,
    build_data,
    build_explainer,
    decide,
    refuse,
)
from sklearn.tree import DecisionTreeClassifier

import ironrule
from ironrule import Budget, Cost, Explainer, Explanation, Feature, Role, Space, Target
from ironrule.errors import (
    BudgetError,
    ConstraintError,
    InputError,
    MissingExtraError,
    ModelError,
    OutcomeError,
    SpaceError,
    TableError,
)

EXPLAINER = build_explainer()
BOOLEAN = pd.DataFrame({"a": [True, False]})
NAMED = {"age": 20, "income": 0, "job": "cook"}


def explain(row: Any = DENIED, **options: Any) -> Any:
    return EXPLAINER.explain(row, **options)


def change(**values: Any) -> Any:
    return EXPLAINER.explain(NAMED | values)


def feature(values: Any = (1, 2), ordered: Any = True, name: Any = "age", **more: Any) -> Feature:
    return Feature(name, values, ordered, **more)


MODEL_RULE = "function or have a predict method"
TABLE_RULE = "pandas, polars or Arrow table or a NumPy array"
ARGUMENTS: dict[str, BadInput] = {
    "model None": refuse(lambda: Explainer(None, build_data()), ModelError, MODEL_RULE, "NoneType"),
    "model text": refuse(lambda: Explainer("model.pkl", build_data()), ModelError, MODEL_RULE, "str; load the model"),
    "model path": refuse(lambda: Explainer(Path("model.pkl"), build_data()), ModelError, MODEL_RULE, "load the model"),
    "model class": refuse(
        lambda: Explainer(DecisionTreeClassifier, build_data()),
        ModelError,
        "a fitted object or a function, got the class DecisionTreeClassifier",
        "fit it",
    ),
    "data that is a column": refuse(
        lambda: Explainer(decide, build_data()["age"]), TableError, TABLE_RULE, "pandas.Series; pass the whole table"
    ),
    "a model in the place of the explanation": refuse(
        lambda: ironrule.check(DecisionTreeClassifier(), {}, build_data()),
        InputError,
        "the explanation must come first, got a DecisionTreeClassifier; pass explanation, model, data",
    ),
    "model number": refuse(lambda: Explainer(3, build_data()), ModelError, MODEL_RULE, "int"),
    "model list": refuse(lambda: Explainer([decide], build_data()), ModelError, MODEL_RULE, "list"),
    "predict that is no method": refuse(
        lambda: Explainer(type("M", (), {"predict": 3})(), build_data()), ModelError, "predict"
    ),
    "models None": refuse(lambda: build_explainer(models=None), InputError, "models must be a list", "None"),
    "models one function": refuse(lambda: build_explainer(models=decide), InputError, "models must be a list"),
    "models text": refuse(lambda: build_explainer(models="model"), InputError, "models must be a list", "'model'"),
    "models number": refuse(lambda: build_explainer(models=3), InputError, "models must be a list", "3"),
    "models of None": refuse(lambda: build_explainer(models=[None]), ModelError, MODEL_RULE, "NoneType"),
    "models mapping": refuse(lambda: build_explainer(models={"a": decide}), InputError, "models must be a list"),
    "threshold text": refuse(lambda: build_explainer(threshold="0.5"), OutcomeError, "finite number", "'0.5'"),
    "threshold NaN": refuse(lambda: build_explainer(threshold=math.nan), OutcomeError, "finite number", "nan"),
    "threshold infinity": refuse(lambda: build_explainer(threshold=math.inf), OutcomeError, "finite number", "inf"),
    "threshold list": refuse(lambda: build_explainer(threshold=[0.5]), OutcomeError, "finite number"),
    "threshold huge": refuse(lambda: build_explainer(threshold=HUGE), OutcomeError, "finite number"),
    "threshold complex": refuse(lambda: build_explainer(threshold=0.5j), OutcomeError, "finite number"),
    "threshold array": refuse(lambda: build_explainer(threshold=np.ones(2)), OutcomeError, "finite number"),
    "threshold True": refuse(lambda: build_explainer(threshold=True), OutcomeError, "finite number", "True"),
    "threshold NumPy complex": refuse(lambda: build_explainer(threshold=np.complex128(1)), OutcomeError, "finite"),
    "margin text": refuse(lambda: build_explainer(margin="0.1"), InputError, "margin", "non-negative", "'0.1'"),
    "margin negative": refuse(lambda: build_explainer(margin=-0.1), InputError, "margin", "-0.1"),
    "margin NaN": refuse(lambda: build_explainer(margin=math.nan), InputError, "margin", "nan"),
    "margin infinity": refuse(lambda: build_explainer(margin=math.inf), InputError, "margin", "inf"),
    "margin None": refuse(lambda: build_explainer(margin=None), InputError, "margin", "None"),
    "margin True": refuse(lambda: build_explainer(margin=True), InputError, "margin", "True"),
    "margin huge": refuse(lambda: build_explainer(margin=HUGE), InputError, "margin"),
    "margin complex": refuse(lambda: build_explainer(margin=np.complex128(1)), InputError, "margin"),
    "desired empty": refuse(lambda: build_explainer(desired=[]), OutcomeError, "at least one desired class"),
    "desired dictionary": refuse(lambda: build_explainer(desired={"a": 1}), OutcomeError, "one value"),
    "desired nested": refuse(lambda: build_explainer(desired=[[1]]), OutcomeError, "one value"),
    "desired matrix": refuse(lambda: build_explainer(desired=np.ones((2, 2))), OutcomeError, "one value"),
    "desired above without threshold": refuse(
        lambda: build_explainer(desired="above"), OutcomeError, "desired label", "threshold="
    ),
    "desired broken": refuse(lambda: build_explainer(desired=BrokenRepr()), OutcomeError, "desired"),
    "space text": refuse(lambda: build_explainer(space="space.toml"), InputError, "space must be a Space", "str"),
    "space dictionary": refuse(lambda: build_explainer(space={}), InputError, "space must be a Space", "dict"),
    "space class": refuse(lambda: build_explainer(space=Space), InputError, "space must be a Space", "type"),
    "space of another table": refuse(
        lambda: build_explainer(space=Space((feature(name="shoe"),))), SpaceError, "table lacks columns", "'shoe'"
    ),
    "space without the model's columns": refuse(
        lambda: build_explainer(space=Space.infer(build_data(), columns=["age"])), ModelError, "the model failed"
    ),
    "columns text": refuse(lambda: build_explainer(columns="age"), TableError, "columns must be a list", "'age'"),
    "columns number": refuse(lambda: build_explainer(columns=3), TableError, "columns must be a list", "3"),
    "columns unknown": refuse(lambda: build_explainer(columns=["shoe"]), TableError, "'shoe'", "columns"),
    "columns twice": refuse(
        lambda: build_explainer(columns=["age", "age"]), TableError, "column names must be unique", "'age'"
    ),
    "columns of numbers": refuse(lambda: build_explainer(columns=[0]), TableError, "columns must be a list"),
    "columns none": refuse(lambda: build_explainer(columns=[]), TableError, "columns", "at least one"),
    "domain unknown": refuse(lambda: build_explainer(domain="all"), InputError, "domain must be one of", "'all'"),
    "domain None": refuse(lambda: build_explainer(domain=None), InputError, "domain must be one of", "None"),
    "domain list": refuse(lambda: build_explainer(domain=["auto"]), InputError, "domain must be one of"),
    "domain interval of a function": refuse(
        lambda: build_explainer(domain="interval"), ModelError, "intervals are not available", "domain="
    ),
    "device unknown": refuse(
        lambda: build_explainer(device="tpu"),
        InputError if find_spec("torch") else MissingExtraError,
        "device",
        "'tpu'",
    ),
    "device number": refuse(lambda: build_explainer(device=0), InputError, "device", "0"),
    "oracle unknown": refuse(lambda: build_explainer(oracle="delphi"), InputError, "oracle must be one of", "'delphi'"),
    "oracle number": refuse(lambda: build_explainer(oracle=3), InputError, "oracle must be one of", "3"),
    "oracle class": refuse(lambda: build_explainer(oracle=int), InputError, "oracle must be one of"),
    "cache of a table": refuse(lambda: build_explainer(cache="folder"), InputError, "a cache needs data from files"),
    "roles text": refuse(lambda: build_explainer(roles="age"), InputError, "roles must be"),
    "roles list": refuse(lambda: build_explainer(roles=["age"]), InputError, "roles must be"),
    "roles number": refuse(lambda: build_explainer(roles=3), InputError, "roles must be"),
    "roles of an unknown feature": refuse(lambda: build_explainer(roles={"shoe": "immutable"}), SpaceError, "'shoe'"),
    "roles unknown": refuse(lambda: build_explainer(roles={"age": "holy"}), SpaceError, "'holy'"),
    "roles None": refuse(lambda: build_explainer(roles={"age": None}), SpaceError, "None"),
    "role direction": refuse(lambda: Role(direction="sideways"), SpaceError, "direction", "'sideways'"),
    "role step text": refuse(lambda: Role(minimum_step="5"), SpaceError, "minimum_step", "'5'"),
    "role step negative": refuse(lambda: Role(minimum_step=-5), SpaceError, "minimum_step", "-5"),
    "role kind": refuse(lambda: Role("holy"), SpaceError, "'holy'"),
    "role that is immutable with a direction": refuse(
        lambda: Role("immutable", direction="rise"), SpaceError, "immutable"
    ),
    "role direction of a category": refuse(
        lambda: build_explainer(roles={"job": Role(direction="rise")}), SpaceError, "job"
    ),
    "guess_roles text": refuse(lambda: build_explainer(guess_roles="yes"), InputError, "guess_roles", "'yes'"),
    "guess_roles None": refuse(lambda: build_explainer(guess_roles=None), InputError, "guess_roles", "None"),
    "constraints number": refuse(lambda: build_explainer(constraints=3), InputError, "list of strings", "3"),
    "constraints None": refuse(lambda: build_explainer(constraints=None), InputError, "list of strings", "None"),
    "constraints of numbers": refuse(lambda: build_explainer(constraints=[3]), ConstraintError, "a string", "3"),
    "where number": refuse(lambda: EXPLAINER.where(3), InputError, "list of strings", "3"),
    "where nobody": refuse(
        lambda: EXPLAINER.where("cf.age > 1000"), ConstraintError, "no point of the space satisfies"
    ),
    "more rows of other columns": refuse(
        lambda: EXPLAINER.with_more_rows(pd.DataFrame({"a": [1]})), TableError, "must have the column"
    ),
    "more rows None": refuse(lambda: EXPLAINER.with_more_rows(None), TableError, TABLE_RULE, "NoneType"),
}

DATA: dict[str, BadInput] = {
    "None": refuse(lambda: Explainer(decide, None), TableError, TABLE_RULE, "NoneType"),
    "number": refuse(lambda: Explainer(decide, 3), TableError, TABLE_RULE, "int"),
    "text that is no file": refuse(lambda: Explainer(decide, "rows.csv"), TableError, "rows.csv"),
    "text of no known kind": refuse(lambda: Explainer(decide, "rows.xyz"), TableError, "rows.xyz"),
    "empty text": refuse(lambda: Explainer(decide, ""), TableError, "file"),
    "text with a zero": refuse(lambda: Explainer(decide, "a\0b.csv"), TableError, "file"),
    "a long text": refuse(lambda: Explainer(decide, LONG), TableError, "file"),
    "path of a file without a table": refuse(lambda: Explainer(decide, Path(__file__)), TableError, "cannot read"),
    "dictionary": refuse(lambda: Explainer(decide, {"a": [1]}), TableError, "DataFrame", "a dictionary"),
    "list": refuse(lambda: Explainer(decide, [1, 2]), TableError, TABLE_RULE, "list"),
    "nested lists": refuse(lambda: Explainer(decide, [[1, 2], [3, 4]]), TableError, TABLE_RULE, "list", "np.array"),
    "list of dictionaries": refuse(lambda: Explainer(decide, [{"a": 1}]), TableError, TABLE_RULE, "list"),
    "tuple": refuse(lambda: Explainer(decide, ((1, 2),)), TableError, TABLE_RULE, "tuple"),
    "set": refuse(lambda: Explainer(decide, {1}), TableError, TABLE_RULE, "set"),
    "generator": refuse(lambda: Explainer(decide, iter([])), TableError, TABLE_RULE),
    "function": refuse(lambda: Explainer(decide, decide), TableError, TABLE_RULE, "function"),
    "DataFrame class": refuse(lambda: Explainer(decide, pd.DataFrame), TableError, TABLE_RULE, "class"),
    "polars class": refuse(lambda: Explainer(decide, pl.DataFrame), TableError, TABLE_RULE, "class"),
    "Arrow class": refuse(lambda: Explainer(decide, pa.Table), TableError, TABLE_RULE, "class"),
    "ndarray class": refuse(lambda: Explainer(decide, np.ndarray), TableError, TABLE_RULE, "class"),
    "Series": refuse(lambda: Explainer(decide, pd.Series([1, 2])), TableError, TABLE_RULE, "Series"),
    "polars Series": refuse(lambda: Explainer(decide, pl.Series([1, 2])), TableError, TABLE_RULE, "Series"),
    "Arrow array": refuse(lambda: Explainer(decide, pa.array([1, 2])), TableError, TABLE_RULE, "Array"),
    "lazy table": refuse(lambda: Explainer(decide, pl.LazyFrame({"a": [1]})), TableError, "in memory", ".collect()"),
    "array of one dimension": refuse(lambda: Explainer(decide, np.zeros(3)), TableError, "two dimensions", "1"),
    "array of three dimensions": refuse(lambda: Explainer(decide, np.zeros((2, 2, 2))), TableError, "two dimensions"),
    "array without rows": refuse(lambda: Explainer(decide, np.zeros((0, 2))), TableError, "at least one row"),
    "array without columns": refuse(lambda: Explainer(decide, np.zeros((2, 0))), TableError, "at least one column"),
    "frame without rows": refuse(lambda: Explainer(decide, build_data()[:0]), TableError, "at least one row"),
    "frame without columns": refuse(
        lambda: Explainer(decide, pd.DataFrame(index=[0, 1])), TableError, "at least one column"
    ),
    "empty frame": refuse(lambda: Explainer(decide, pd.DataFrame()), TableError, "at least one"),
    "complex numbers": refuse(
        lambda: Explainer(lambda t: [0] * len(t), np.ones((2, 2)) * 1j), TableError, "values must be", "complex"
    ),
    "infinity": refuse(lambda: Explainer(decide, pd.DataFrame({"a": [1.0, np.inf]})), TableError, "must be finite"),
    "lists in cells": refuse(lambda: Explainer(decide, pd.DataFrame({"a": [[1], [2]]})), TableError, "'a'", "list"),
    "dictionaries in cells": refuse(
        lambda: Explainer(decide, pd.DataFrame({"a": [{}, {}]})), TableError, "'a'", "dict"
    ),
    "decimals": refuse(
        lambda: Explainer(decide, pd.DataFrame({"a": [Decimal(1), Decimal(2)]})), TableError, "'a'", "Decimal"
    ),
    "durations": refuse(
        lambda: Explainer(decide, pd.DataFrame({"a": pd.to_timedelta([1, 2])})), TableError, "'a'", "values must be"
    ),
    "time zones": refuse(
        lambda: Explainer(decide, pd.DataFrame({"a": pd.date_range("2024", periods=2, tz="UTC")})), TableError, "zone"
    ),
    "nanoseconds": refuse(
        lambda: Explainer(decide, pd.DataFrame({"a": pd.to_datetime([1, 2], unit="ns")})), TableError, "microseconds"
    ),
    "integers beyond 64 bits": refuse(
        lambda: Explainer(decide, pd.DataFrame({"a": [2**70, 1]})), TableError, "'a'", "64 bits"
    ),
    "huge integers": refuse(lambda: Explainer(decide, pd.DataFrame({"a": [HUGE, 1]})), TableError, "64 bits"),
    "names that are numbers": refuse(lambda: Explainer(decide, pd.DataFrame({0: [1]})), TableError, "strings", "0"),
    "names twice": refuse(
        lambda: Explainer(decide, pd.DataFrame([[1, 2]], columns=["a", "a"])), TableError, "unique", "'a'"
    ),
    "names of two levels": refuse(
        lambda: Explainer(decide, pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")]))),
        TableError,
        "strings",
    ),
    "sparse matrix": refuse(
        lambda: Explainer(decide, __import__("scipy.sparse").sparse.eye(3).tocsr()), TableError, TABLE_RULE
    ),
    "records": refuse(lambda: Explainer(decide, np.zeros((2, 2), "i4,i4")), TableError, "values must be"),
    "void": refuse(lambda: Explainer(decide, np.zeros((2, 2), "V8")), TableError, "values must be"),
    "bytes": refuse(lambda: Explainer(decide, np.array([[b"a"], [b"b"]])), TableError, "values must be", "bytes"),
    "a polars list": refuse(lambda: Explainer(decide, pl.DataFrame({"a": [[1], [2]]})), TableError, "'a'"),
    "a polars struct": refuse(lambda: Explainer(decide, pl.DataFrame({"a": [{"b": 1}]})), TableError, "'a'"),
    "polars binary": refuse(lambda: Explainer(decide, pl.DataFrame({"a": [b"1"]})), TableError, "'a'", "bytes"),
    "integers of 128 bits": refuse(
        lambda: Explainer(decide, pl.DataFrame({"a": [2**80]}, schema={"a": pl.Int128})),
        TableError,
        "'a' cannot be read",
    ),
    "Arrow lists": refuse(lambda: Explainer(decide, pa.table({"a": [[1], [2]]})), TableError, "'a'"),
    "Arrow decimals": refuse(
        lambda: Explainer(decide, pa.table({"a": pa.array([Decimal("1.5")], pa.decimal128(5, 2))})), TableError, "'a'"
    ),
    "times of day": refuse(
        lambda: Explainer(decide, pd.DataFrame({"a": [datetime.time(1)] * 2})), TableError, "'a'", "time"
    ),
    "periods": refuse(
        lambda: Explainer(decide, pd.DataFrame({"a": pd.period_range("2024", periods=2, freq="M")})), TableError, "'a'"
    ),
    "intervals": refuse(
        lambda: Explainer(decide, pd.DataFrame({"a": pd.interval_range(0, 2)})), TableError, "'a'", "Interval"
    ),
}

ROW_RULE = "row must be a dictionary, a Series"
NUMBER_RULE = "row number must be from 0 to 29"
ROWS: dict[str, BadInput] = {
    "row -1": refuse(lambda: explain(-1), TableError, NUMBER_RULE, "got -1", "count from 0"),
    "row -30": refuse(lambda: explain(-30), TableError, NUMBER_RULE, "got -30"),
    "row 30": refuse(lambda: explain(30), TableError, NUMBER_RULE, "got 30"),
    "row 10**30": refuse(lambda: explain(10**30), TableError, NUMBER_RULE),
    "row -10**30": refuse(lambda: explain(-(10**30)), TableError, NUMBER_RULE),
    "row 10**5000": refuse(lambda: explain(HUGE), TableError, NUMBER_RULE),
    "row NumPy -1": refuse(lambda: explain(np.int64(-1)), TableError, NUMBER_RULE, "-1"),
    "row True": refuse(lambda: explain(True), TableError, ROW_RULE, "True"),
    "row 1.5": refuse(lambda: explain(1.5), TableError, ROW_RULE, "1.5"),
    "row 1.0": refuse(lambda: explain(1.0), TableError, ROW_RULE, "1.0"),
    "row NaN": refuse(lambda: explain(math.nan), TableError, ROW_RULE, "nan"),
    "row None": refuse(lambda: explain(None), TableError, ROW_RULE, "None"),
    "row text": refuse(lambda: explain("0"), TableError, ROW_RULE, "'0'"),
    "row long text": refuse(lambda: explain(LONG), TableError, ROW_RULE, "more characters"),
    "row bytes": refuse(lambda: explain(b"abc"), TableError, ROW_RULE),
    "row set": refuse(lambda: explain({1, 2, 3}), TableError, ROW_RULE),
    "row function": refuse(lambda: explain(decide), TableError, ROW_RULE),
    "row class": refuse(lambda: explain(dict), TableError, ROW_RULE),
    "row Series class": refuse(lambda: explain(pd.Series), TableError, ROW_RULE),
    "row DataFrame class": refuse(lambda: explain(pd.DataFrame), TableError, ROW_RULE),
    "row broken": refuse(lambda: explain(BrokenRepr()), TableError, ROW_RULE),
    "row of two values": refuse(lambda: explain([1, 2]), TableError, "3 values", "got 2"),
    "row of nested lists": refuse(lambda: explain([[20, 0, "cook"]]), TableError, "3 values", "got 1"),
    "row of no values": refuse(lambda: explain([]), TableError, "3 values", "got 0"),
    "row of three dimensions": refuse(lambda: explain(np.zeros((1, 1, 3))), TableError, "row"),
    "row without dimension": refuse(lambda: explain(np.array(3)), TableError, ROW_RULE),
    "table of two rows": refuse(lambda: explain(build_data()[:2]), TableError, "single row", "2 rows"),
    "table of no rows": refuse(lambda: explain(build_data()[:0]), TableError, "at least one row"),
    "row without a column": refuse(lambda: explain({"age": 20, "income": 0}), TableError, "'job'"),
    "row with an unknown column": refuse(lambda: explain(NAMED | {"shoe": 44}), TableError, "'shoe'"),
    "row with an unknown column and a new value": refuse(
        lambda: explain(NAMED | {"age": 97, "shoe": 44}), TableError, "only have columns of the space, got 'shoe'"
    ),
    "row with no columns": refuse(lambda: explain({}), TableError, "must have a value for", "'age'"),
    "row with a new value and no others": refuse(
        lambda: explain({"age": 97}), TableError, "must have a value for 'income', 'job', got none"
    ),
    "row with number names": refuse(lambda: explain({0: 1, 1: 2, 2: 3}), TableError, "only have columns of the space"),
    "text for a number": refuse(lambda: change(age="twenty"), TableError, "age", "'twenty'"),
    "a long text for a number": refuse(lambda: change(age=LONG), TableError, "age"),
    "text with a digit for a number": refuse(lambda: change(age="20"), TableError, "age", "'20'"),
    "list for a number": refuse(lambda: change(age=[20]), TableError, "age", "[20]"),
    "dictionary for a number": refuse(lambda: change(age={}), TableError, "age", "{}"),
    "infinity for a number": refuse(lambda: change(age=math.inf), TableError, "age", "inf"),
    "a fraction for whole numbers": refuse(lambda: change(age=20.5), TableError, "age", "20.5"),
    "a huge number": refuse(lambda: change(age=HUGE), TableError, "age"),
    "a number of 70 bits": refuse(lambda: change(age=2**70), TableError, "age"),
    "a complex number": refuse(lambda: change(age=1j), TableError, "age", "1j"),
    "True for a number": refuse(lambda: change(age=True), TableError, "age", "True"),
    "a date for a number": refuse(lambda: change(age=datetime.date(2024, 1, 1)), TableError, "age"),
    "an object for a category": refuse(lambda: change(job=object()), TableError, "job"),
    "a broken object for a category": refuse(lambda: change(job=BrokenRepr()), TableError, "job"),
    "a list for a category": refuse(lambda: change(job=["cook"]), TableError, "job"),
    "a function for a category": refuse(lambda: change(job=decide), TableError, "job"),
    "a row that is not denied": refuse(
        lambda: explain(5), OutcomeError, "must have the undesired outcome", "such as row 0,"
    ),
    "a row where none is denied": refuse(
        lambda: Explainer(lambda table: np.ones(len(table)), build_data(), threshold=0.5).explain(5),
        OutcomeError,
        "denies no past row; check which outcome is desired",
    ),
    "batch of row 10**30": refuse(lambda: EXPLAINER.explain_many([10**30], workers=1), TableError, NUMBER_RULE),
    "batch of row -1": refuse(lambda: EXPLAINER.explain_many([-1], workers=1), TableError, NUMBER_RULE),
    "ladder of -1": refuse(lambda: EXPLAINER.ladder(-1), TableError, NUMBER_RULE),
    "ladder with most 0": refuse(lambda: EXPLAINER.ladder(DENIED, 0), InputError, "most must be a positive integer"),
    "ladder with at_least 2": refuse(lambda: EXPLAINER.ladder(DENIED, at_least=2), InputError, "at_least", "got 2"),
    "ladder with confidence 95": refuse(
        lambda: EXPLAINER.ladder(DENIED, confidence=95), InputError, "confidence must be a share", "got 95"
    ),
    "is_desired of -1": refuse(lambda: EXPLAINER.is_desired(-1), TableError, NUMBER_RULE),
    "counterfactuals of -1": refuse(lambda: EXPLAINER.counterfactuals(-1), TableError, NUMBER_RULE),
    "rules of -1": refuse(lambda: EXPLAINER.rules(-1), TableError, NUMBER_RULE),
    "change sets of -1": refuse(lambda: EXPLAINER.change_sets(-1), TableError, NUMBER_RULE),
    "judge of -1": refuse(lambda: EXPLAINER.judge(-1, ["age <= 30"]), TableError, NUMBER_RULE),
    "many of -1": refuse(lambda: EXPLAINER.explain_many([-1], workers=1), TableError, NUMBER_RULE),
    "many of halves": refuse(lambda: EXPLAINER.explain_many([0.5], workers=1), InputError, "row numbers", "0.5"),
    "many of text": refuse(lambda: EXPLAINER.explain_many("0", workers=1), TableError, "table must be"),
    "many of a number": refuse(lambda: EXPLAINER.explain_many(3, workers=1), TableError, "table must be"),
}

OPTIONS: dict[str, BadInput] = {
    "k 0": refuse(lambda: explain(k=0), InputError, "k must be a positive integer", "got 0"),
    "k -1": refuse(lambda: explain(k=-1), InputError, "k must be a positive integer", "-1"),
    "k -10**5000": refuse(lambda: explain(k=-HUGE), InputError, "k must be a positive integer"),
    "k 1.5": refuse(lambda: explain(k=1.5), InputError, "k must be a positive integer", "1.5"),
    "k text": refuse(lambda: explain(k="5"), InputError, "k must be a positive integer", "'5'"),
    "k None": refuse(lambda: explain(k=None), InputError, "k must be a positive integer", "None"),
    "k True": refuse(lambda: explain(k=True), InputError, "k must be a positive integer", "True"),
    "k list": refuse(lambda: explain(k=[1]), InputError, "k must be a positive integer"),
    "k broken": refuse(lambda: explain(k=BrokenRepr()), InputError, "k must be a positive integer", "BrokenRepr"),
    "seed -1": refuse(lambda: explain(seed=-1), InputError, "seed must be a non-negative integer", "-1"),
    "seed text": refuse(lambda: explain(seed="0"), InputError, "seed", "'0'"),
    "seed None": refuse(lambda: explain(seed=None), InputError, "seed", "None"),
    "seed 0.5": refuse(lambda: explain(seed=0.5), InputError, "seed", "0.5"),
    "budget 0": refuse(lambda: explain(budget=0), BudgetError, "seconds", "0"),
    "budget -1": refuse(lambda: explain(budget=-1), BudgetError, "seconds", "-1"),
    "budget NaN": refuse(lambda: explain(budget=math.nan), BudgetError, "seconds", "nan"),
    "budget text": refuse(lambda: explain(budget="30"), BudgetError, "budget must be", "'30'"),
    "budget True": refuse(lambda: explain(budget=True), BudgetError, "budget must be", "True"),
    "budget list": refuse(lambda: explain(budget=[30]), BudgetError, "budget must be"),
    "budget huge": refuse(lambda: explain(budget=HUGE), BudgetError, "seconds"),
    "evaluations 0": refuse(lambda: Budget(evaluations=0), BudgetError, "evaluations", "0"),
    "evaluations 1.5": refuse(lambda: Budget(evaluations=1.5), BudgetError, "evaluations", "1.5"),
    "evaluations text": refuse(lambda: Budget(evaluations="5"), BudgetError, "evaluations", "'5'"),
    "evaluations True": refuse(lambda: Budget(evaluations=True), BudgetError, "evaluations", "True"),
    "seconds text": refuse(lambda: Budget(seconds="5"), BudgetError, "seconds", "'5'"),
    "seconds True": refuse(lambda: Budget(seconds=True), BudgetError, "seconds", "True"),
    "seconds NaN": refuse(lambda: Budget(seconds=math.nan), BudgetError, "seconds", "nan"),
    "algorithm unknown": refuse(lambda: explain(algorithm="magic"), InputError, "algorithm must be one of", "'magic'"),
    "algorithm None": refuse(lambda: explain(algorithm=None), InputError, "algorithm must be one of", "None"),
    "algorithm number": refuse(lambda: explain(algorithm=3), InputError, "algorithm must be one of", "3"),
    "algorithm class": refuse(lambda: explain(algorithm=ironrule.GreedyRuleCF), InputError, "algorithm must be one of"),
    "algorithm list": refuse(lambda: explain(algorithm=["auto"]), InputError, "algorithm must be one of"),
    "algorithm array": refuse(lambda: explain(algorithm=np.zeros(2)), InputError, "algorithm must be one of"),
    "prefer unknown": refuse(lambda: explain(prefer="speed"), InputError, "prefer must be one of", "'speed'"),
    "prefer None": refuse(lambda: explain(prefer=None), InputError, "prefer must be one of", "None"),
    "prefer list": refuse(lambda: explain(prefer=[]), InputError, "prefer must be one of", "[]"),
    "prefer array": refuse(lambda: explain(prefer=np.zeros(2)), InputError, "prefer must be one of"),
    "change_cost unknown": refuse(lambda: explain(change_cost="l3"), InputError, "cost must be one of", "'l3'"),
    "change_cost None": refuse(lambda: explain(change_cost=None), InputError, "cost must be one of", "None"),
    "change_cost feature": refuse(lambda: explain(change_cost=Cost(prices={"shoe": 2})), SpaceError, "'shoe'"),
    "change_cost of a ladder": refuse(lambda: EXPLAINER.ladder(DENIED, change_cost=3), InputError, "Cost", "3"),
    "change_cost without changes": refuse(
        lambda: EXPLAINER.explain_many([DENIED], change_cost="l1"),
        InputError,
        "keeps suggested changes",
        "changes=True",
    ),
    "change_cost without documents": refuse(
        lambda: EXPLAINER.explain_many([DENIED], change_cost="l1", changes=True, documents=False),
        InputError,
        "without documents",
    ),
    "change_cost feature of a batch": refuse(
        lambda: EXPLAINER.explain_many([DENIED], change_cost=Cost(steps={"shoe": 2}), changes=True),
        SpaceError,
        "'shoe'",
    ),
    "widen text": refuse(lambda: explain(widen="no"), InputError, "widen", "'no'"),
    "widen None": refuse(lambda: explain(widen=None), InputError, "widen", "None"),
    "widen array": refuse(lambda: explain(widen=np.zeros(2)), InputError, "widen"),
    "require number": refuse(lambda: explain(require=3), InputError, "list of strings", "3"),
    "require unknown": refuse(lambda: explain(require=["shoe"]), SpaceError, "'shoe'"),
    "require numbers": refuse(lambda: explain(require=[3]), InputError, "3"),
    "require nested": refuse(lambda: explain(require=[["age"]]), InputError, "age"),
    "require an unknown component": refuse(lambda: explain(require=["age !="]), SpaceError, "age"),
    "require and forbid": refuse(lambda: explain(require=["age"], forbid=["age"]), InputError, "age"),
    "forbid None": refuse(lambda: explain(forbid=None), InputError, "list of strings", "None"),
    "forbid unknown": refuse(lambda: explain(forbid=["shoe"]), SpaceError, "'shoe'"),
    "weights text": refuse(lambda: explain(weights="heavy"), InputError, "weights must be", "'heavy'"),
    "weights list": refuse(lambda: explain(weights=[1]), InputError, "weights must be"),
    "weights unknown": refuse(lambda: explain(weights={"shoe": 2}), SpaceError, "'shoe'"),
    "weights negative": refuse(lambda: explain(weights={"age": -1}), InputError, "age", "-1"),
    "weights zero": refuse(lambda: explain(weights={"age": 0}), InputError, "age", "0"),
    "weights NaN": refuse(lambda: explain(weights={"age": math.nan}), InputError, "age", "nan"),
    "weights infinity": refuse(lambda: explain(weights={"age": math.inf}), InputError, "age", "inf"),
    "weights strings": refuse(lambda: explain(weights={"age": "2"}), InputError, "age", "'2'"),
    "weights None": refuse(lambda: explain(weights={"age": None}), InputError, "age", "None"),
    "weights True": refuse(lambda: explain(weights={"age": True}), InputError, "age", "True"),
    "weights huge": refuse(lambda: explain(weights={"age": HUGE}), InputError, "age"),
    "weights of numbers": refuse(lambda: explain(weights={3: 2}), InputError, "3"),
    "weights complex": refuse(lambda: explain(weights={"age": 2j}), InputError, "age"),
    "vary unknown": refuse(lambda: EXPLAINER.counterfactuals(DENIED, features_to_vary=["shoe"]), SpaceError, "'shoe'"),
    "vary number": refuse(lambda: EXPLAINER.counterfactuals(DENIED, features_to_vary=3), InputError, "3"),
    "cost unknown": refuse(lambda: EXPLAINER.counterfactuals(DENIED, cost="l3"), InputError, "l1", "'l3'"),
    "cost type": refuse(lambda: EXPLAINER.counterfactuals(DENIED, cost=3), InputError, "Cost", "3"),
    "price unknown": refuse(
        lambda: EXPLAINER.counterfactuals(DENIED, cost=Cost(prices={"shoe": 2})), SpaceError, "'shoe'"
    ),
    "price negative": refuse(lambda: Cost(prices={"age": -1}), InputError, "age", "-1"),
    "price NaN": refuse(lambda: Cost(prices={"age": math.nan}), InputError, "age", "nan"),
    "price huge": refuse(lambda: Cost(prices={"age": HUGE}), InputError, "age"),
    "step negative": refuse(lambda: Cost(steps={"age": -5}), InputError, "age", "-5"),
    "step unknown": refuse(
        lambda: EXPLAINER.counterfactuals(DENIED, cost=Cost(steps={"shoe": 2})), SpaceError, "'shoe'"
    ),
    "target number": refuse(lambda: EXPLAINER.counterfactuals(DENIED, target=[]), OutcomeError, "at least one"),
    "target score": refuse(lambda: Target(above=math.inf), OutcomeError, "above", "inf"),
    "target band": refuse(lambda: Target(above=0.9, at_most=0.2), OutcomeError, "must rise"),
    "range unknown": refuse(
        lambda: EXPLAINER.counterfactuals(DENIED, permitted_range={"shoe": [1, 2]}), SpaceError, "'shoe'"
    ),
    "range text": refuse(
        lambda: EXPLAINER.counterfactuals(DENIED, permitted_range="age"), InputError, "permitted_range"
    ),
    "range number": refuse(
        lambda: EXPLAINER.counterfactuals(DENIED, permitted_range={"age": 3}), InputError, "age", "3"
    ),
    "range of three": refuse(
        lambda: EXPLAINER.counterfactuals(DENIED, permitted_range={"age": [1, 2, 3]}), InputError, "age"
    ),
    "range of texts": refuse(
        lambda: EXPLAINER.counterfactuals(DENIED, permitted_range={"age": ["a", "b"]}), ConstraintError, "age"
    ),
    "range reversed": refuse(
        lambda: EXPLAINER.counterfactuals(DENIED, permitted_range={"age": [40, 30]}), ConstraintError, "age"
    ),
    "counterfactual algorithm": refuse(
        lambda: EXPLAINER.counterfactuals(DENIED, algorithm="magic"), InputError, "algorithm", "'magic'"
    ),
    "group unknown": refuse(lambda: EXPLAINER.group_changes(DENIED, {"a": ["shoe"]}), SpaceError, "'shoe'"),
    "groups number": refuse(lambda: EXPLAINER.group_changes(DENIED, 3), InputError, "groups", "3"),
    "spread 0": refuse(lambda: EXPLAINER.diverse_counterfactuals(DENIED, spread=0), InputError, "spread", "0"),
    "region of a denied row": refuse(
        lambda: EXPLAINER.counterfactual_region(DENIED, "all"), InputError, "desired outcome", "undesired"
    ),
    "region target": refuse(
        lambda: EXPLAINER.counterfactual_region(DENIED, "all", target=[]), OutcomeError, "at least one"
    ),
    "region target not reached": refuse(
        lambda: EXPLAINER.counterfactual_region(DENIED, "all", margin=0.1), InputError, "must itself have", "does not"
    ),
    "region margin": refuse(
        lambda: EXPLAINER.counterfactual_region(DENIED, "all", margin=-1), InputError, "margin", "-1"
    ),
    "region models": refuse(lambda: EXPLAINER.counterfactual_region(DENIED, "all", models=3), InputError, "models"),
    "region unknown": refuse(lambda: EXPLAINER.counterfactual_region(DENIED, ["shoe"]), SpaceError, "'shoe'"),
    "menu limit -1": refuse(lambda: EXPLAINER.change_menu(DENIED, limit=-1), InputError, "limit", "-1"),
    "limit 0": refuse(lambda: EXPLAINER.rules(DENIED, limit=0), InputError, "limit", "0"),
    "limit text": refuse(lambda: EXPLAINER.rules(DENIED, limit="3"), InputError, "limit", "'3'"),
    "changes limit -1": refuse(lambda: EXPLAINER.change_sets(DENIED, limit=-1), InputError, "limit", "-1"),
    "workers 0": refuse(lambda: EXPLAINER.explain_many([0], workers=0), InputError, "workers", "0"),
    "workers text": refuse(lambda: EXPLAINER.explain_many([0], workers="2"), InputError, "workers", "'2'"),
    "workers 1.5": refuse(lambda: EXPLAINER.explain_many([0], workers=1.5), InputError, "workers", "1.5"),
    "engine unknown": refuse(lambda: EXPLAINER.explain_many([0], engine="spark"), InputError, "engine", "'spark'"),
    "address without engine": refuse(lambda: EXPLAINER.explain_many([0], address="auto"), InputError, "address"),
    "diagnose text": refuse(lambda: EXPLAINER.diagnose("rule"), InputError, "explanation", "'rule'"),
    "diagnose None": refuse(lambda: EXPLAINER.diagnose(None), InputError, "explanation", "None"),
    "recheck text": refuse(lambda: EXPLAINER.recheck("rule"), InputError, "explanation"),
    "recheck None": refuse(lambda: EXPLAINER.recheck(None), InputError, "explanation", "None"),
    "recheck numbers": refuse(lambda: EXPLAINER.recheck([3]), InputError, "explanation", "3"),
    "attach None": refuse(lambda: EXPLAINER.attach(None), InputError, "explanation", "None"),
}

RULES: dict[str, BadInput] = {
    "None": refuse(lambda: EXPLAINER.judge(DENIED, None), InputError, "rule", "None"),
    "number": refuse(lambda: EXPLAINER.judge(DENIED, 3), InputError, "rule", "3"),
    "numbers": refuse(lambda: EXPLAINER.judge(DENIED, [3]), InputError, "3"),
    "no operator": refuse(lambda: EXPLAINER.judge(DENIED, ["income"]), InputError, "income"),
    "no value": refuse(lambda: EXPLAINER.judge(DENIED, ["income <="]), InputError, "income"),
    "no feature": refuse(lambda: EXPLAINER.judge(DENIED, ["<= 200"]), InputError, "<= 200"),
    "empty": refuse(lambda: EXPLAINER.judge(DENIED, [""]), InputError, "condition"),
    "unknown feature": refuse(
        lambda: EXPLAINER.judge(DENIED, ["shoe <= 44"]), InputError, "a feature of the space", "shoe"
    ),
    "unknown operator": refuse(lambda: EXPLAINER.judge(DENIED, ["income => 2"]), InputError, "income"),
    "text for a number": refuse(lambda: EXPLAINER.judge(DENIED, ["income <= much"]), InputError, "much"),
    "NaN": refuse(lambda: EXPLAINER.judge(DENIED, ["income <= nan"]), InputError, "missing"),
    "a long text": refuse(lambda: EXPLAINER.judge(DENIED, [LONG]), InputError, "more characters"),
    "unknown category": refuse(lambda: EXPLAINER.judge(DENIED, ["job = pilot"]), InputError, "pilot"),
    "an order of categories": refuse(lambda: EXPLAINER.judge(DENIED, ["job <= cook"]), InputError, "job"),
    "another row's rule": refuse(lambda: EXPLAINER.judge(DENIED, ["age >= 40"]), InputError, "row"),
    "contradiction": refuse(lambda: EXPLAINER.judge(DENIED, ["age <= 20", "age >= 30"]), InputError, "age"),
    "an explanation class": refuse(lambda: EXPLAINER.judge(DENIED, Explanation), InputError, "rule"),
    "a dictionary": refuse(lambda: EXPLAINER.judge(DENIED, {"income": 3}), InputError, "rule"),
}

SPACES: dict[str, BadInput] = {
    "no features": refuse(lambda: Space(()), SpaceError, "feature"),
    "features None": refuse(lambda: Space(None), SpaceError, "features", "None"),
    "features text": refuse(lambda: Space("age"), SpaceError, "features"),
    "features of texts": refuse(lambda: Space(("age",)), SpaceError, "Feature"),
    "features twice": refuse(lambda: Space((feature(), feature())), SpaceError, "'age'"),
    "one feature, not in a list": refuse(lambda: Space(feature()), SpaceError, "features"),
    "name None": refuse(lambda: feature(name=None), SpaceError, "name", "None"),
    "name number": refuse(lambda: feature(name=3), SpaceError, "name", "3"),
    "values none": refuse(lambda: feature(()), SpaceError, "age", "value"),
    "values None": refuse(lambda: feature(None), SpaceError, "values", "None"),
    "values number": refuse(lambda: feature(3), SpaceError, "values", "3"),
    "values text": refuse(lambda: feature("abc"), SpaceError, "values", "'abc'"),
    "values twice": refuse(lambda: feature((1, 1)), SpaceError, "distinct"),
    "values NaN": refuse(lambda: feature((1.0, math.nan)), SpaceError, "missing"),
    "values None inside": refuse(lambda: feature((1, None)), SpaceError, "missing"),
    "values infinity": refuse(lambda: Space((feature((1.0, math.inf)),)), SpaceError, "finite"),
    "values of lists": refuse(lambda: feature(([1], [2])), SpaceError, "age"),
    "values of dictionaries": refuse(lambda: feature(({}, {"a": 1})), SpaceError, "age"),
    "values of objects": refuse(lambda: feature((object(), object()), False), SpaceError, "age"),
    "values complex": refuse(lambda: feature((1j, 2j)), SpaceError, "age"),
    "ordered text": refuse(lambda: feature(ordered="yes"), SpaceError, "ordered", "'yes'"),
    "missing text": refuse(lambda: feature(missing="yes"), SpaceError, "missing", "'yes'"),
    "label number": refuse(lambda: feature(label=3), SpaceError, "label", "3"),
    "unit number": refuse(lambda: feature(unit=3), SpaceError, "unit", "3"),
    "interval of categories": refuse(lambda: feature(("a", "b"), False, interval=True), SpaceError, "interval"),
    "columns text": refuse(lambda: feature(columns="age"), SpaceError, "columns"),
    "role text": refuse(lambda: feature(role="holy"), SpaceError, "role"),
    "index unknown": refuse(lambda: EXPLAINER.space.index("shoe"), SpaceError, "'shoe'"),
    "index list": refuse(lambda: EXPLAINER.space.index(["age"]), SpaceError, "age"),
    "item unknown": refuse(lambda: EXPLAINER.space["shoe"], SpaceError, "'shoe'"),
    "constraints None": refuse(lambda: Space((feature(),), constraints=None), SpaceError, "constraints"),
    "constraints number": refuse(lambda: Space((feature(),), constraints=(3,)), ConstraintError, "string", "3"),
    "infer None": refuse(lambda: Space.infer(None), TableError, TABLE_RULE),
    "infer nominal": refuse(lambda: Space.infer(build_data(), nominal=["shoe"]), SpaceError, "'shoe'", "columns are"),
    "infer nominal text": refuse(lambda: Space.infer(build_data(), nominal=3), SpaceError, "nominal", "3"),
    "infer ordered": refuse(lambda: Space.infer(build_data(), ordered={"job": ["cook"]}), SpaceError, "job"),
    "infer ordered list": refuse(lambda: Space.infer(build_data(), ordered=["job"]), SpaceError, "ordered"),
    "infer domains": refuse(lambda: Space.infer(build_data(), domains={"age": 3}), SpaceError, "age"),
    "infer domains of texts": refuse(lambda: Space.infer(build_data(), domains={"age": ["x"]}), SpaceError, "age"),
    "infer one_hot": refuse(lambda: Space.infer(build_data(), one_hot={"g": ["age"]}), SpaceError, "'g'"),
    "infer one_hot text": refuse(lambda: Space.infer(build_data(), one_hot="all"), SpaceError, "one_hot", "'all'"),
    "infer columns": refuse(lambda: Space.infer(build_data(), columns=["shoe"]), TableError, "'shoe'"),
    "infer columns text": refuse(
        lambda: Space.infer(build_data(), columns="age"), TableError, "columns must be a list"
    ),
    "from a file that is not there": refuse(lambda: Space.from_file("none.toml"), SpaceError, "not found", "none.toml"),
    "from None": refuse(lambda: Space.from_file(None), SpaceError, "file", "None"),
    "from a folder": refuse(lambda: Space.from_file("/"), SpaceError, "file"),
}

CONSTRAINTS: dict[str, BadInput] = {
    name: refuse(lambda text=text: EXPLAINER.where(text), ConstraintError, *words)
    for name, text, *words in [
        ("empty", "", "expected a value"),
        ("blank", "   ", "expected a value"),
        ("no condition", "cf.age", "expected a condition"),
        ("one equals sign", "cf.age = 3", "equality must be written"),
        ("ampersand", "cf.age > 3 & cf.age < 5", "conjunction"),
        ("unknown feature", "cf.shoe > 3", "unknown feature 'shoe'"),
        ("unknown subject", "age > 3", "cf.age"),
        ("unclosed", "(cf.age > 3", "must be closed"),
        ("unopened", "cf.age > 3)", "end of the constraint"),
        ("unterminated string", "cf.job == 'cook", "unterminated string"),
        ("escape", "cf.job == 'a\\q'", "an escape must be one of"),
        ("category as a number", "cf.job > 3", "job"),
        ("unknown category", "cf.job == 'pilot'", "pilot"),
        ("text as a number", "cf.age == 'twenty'", "age"),
        ("deep", "(" * 1000 + "cf.age > 3" + ")" * 1000, "nested more than 32 levels"),
        ("deep not", "not " * 1000 + "cf.age > 3", "nested more than 32 levels"),
        ("deep minus", "cf.age > " + "-" * 1000 + "3", "nested more than 32 levels"),
        ("deep if", "if cf.age > 3 then " * 1000 + "cf.age > 4", "nested more than 32 levels"),
        ("long", "cf.age > 3 " + " " * 200_000, "at most", "characters"),
        ("many terms", " or ".join(["cf.age > 3"] * 8000), "at most"),
        ("many items", "cf.age in (" + ",".join(["3"] * 30_000) + ")", "at most"),
        ("many sums", "cf.age > " + "+".join(["3"] * 30_000), "at most"),
        ("a million characters", " and ".join(["cf.age > 3"] * 70_000), "at most"),
        ("a huge number", "cf.age > " + "9" * 5000, "at most about 1.8e308"),
        ("a huge number with digits behind", "cf.age > " + "9" * 5000 + ".5", "at most about 1.8e308"),
        ("control characters", "cf.age > \x1b[2J3", "words, numbers and operators"),
        ("zero", "cf.age > \x00", "words, numbers and operators"),
        ("not a digit", "cf.age > ٣", "invalid number"),
        ("dollar", "cf.age > $3", "words, numbers and operators"),
        ("nobody", "cf.age > 1000", "no point of the space satisfies"),
        ("contradiction", "cf.age > 3 and cf.age < 3", "no point of the space satisfies"),
        ("code", "__import__('os').system('ls')", "cf."),
        ("chained words", "cf.age > 3 cf.age < 5", "end of the constraint"),
        ("in nothing", "cf.age in ()", "expected a value"),
        ("missing order", "cf.age < missing", "missing"),
    ]
}

DAY = datetime.date(2024, 1, 31)


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"day": [DAY, None]}),
        pa.table({"day": pa.array([DAY, None], pa.date64())}),
        pa.table({"day": [DAY, None]}).to_pandas(types_mapper=pd.ArrowDtype),
        pd.DataFrame({"day": [DAY, pd.NaT]}, dtype=object),
        pd.DataFrame({"day": [DAY, None]}, dtype=object),
        pl.DataFrame({"day": [DAY, None]}),
    ],
)
def test_dates_of_every_kind_of_table_may_be_missing(table):
    (feature,) = Space.infer(table).features
    assert (feature.values, feature.missing) == ((DAY,), True)


TABLES = {
    "an argument": ARGUMENTS,
    "data": DATA,
    "a row": ROWS,
    "an option": OPTIONS,
    "a rule": RULES,
    "a space": SPACES,
    "a constraint": CONSTRAINTS,
}
CASES = {f"{table}: {name}": case for table, cases in TABLES.items() for name, case in cases.items()}


@pytest.mark.parametrize("name", CASES)
def test_a_bad_input_is_refused_with_an_error_of_ours(name):
    assert_refused(CASES[name])
