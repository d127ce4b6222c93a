"""Read what callers pass: rows in all the usual forms, algorithms by name, budgets, seeds, weights.

``parse_*`` functions check one argument each and raise InputError before any work. ``SearchOptions`` holds all that a
search can be told, checked: the Explainer's methods, batches and their workers, the command line and the server pass
this value on, and its defaults are theirs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt
from numpy.random.bit_generator import ISeedSequence

from ironrule.errors import BudgetError, InputError, TableError, describe_value
from ironrule.hitting.weights import get_unit_weights, parse_weight, scale_to_integers, to_storable_weight
from ironrule.results.explanation import Explanation
from ironrule.rule.cost import DEFAULT_COST, Cost, parse_cost
from ironrule.rule.instance_components import InstanceComponents
from ironrule.search.algorithms import ALGORITHMS, AUTO, AlgorithmName, load_algorithm
from ironrule.space.constraints.syntax import Constraint
from ironrule.space.feature import Value
from ironrule.space.space import Space
from ironrule.space.table import Table, read_table
from ironrule.verdict.budget import Budget, Meter
from ironrule.wording import format_count

if TYPE_CHECKING:
    from ironrule.oracles.protocol import Oracle, UserOracle
    from ironrule.search.problem import Algorithm


DEFAULT_SECONDS = 30.0
DEFAULT_BUDGET = Budget(evaluations=5_000_000, seconds=DEFAULT_SECONDS, use_all_seconds=False)
"""Ends what takes long. What ends sooner by itself is the same on every machine."""
Preference = Literal["length", "coverage"]
PREFERENCES: tuple[str, ...] = get_args(Preference)
Weights = Mapping[str, int | float | Fraction | Decimal] | Literal["paper"] | None


def parse_row(row: Any, table: Table, columns: Sequence[str]) -> Mapping[str, Value]:
    """A row given in any of the usual ways, as a mapping from column to value."""
    expected = "row must be a dictionary, a Series, a sequence of values, a table of one row or a row number"
    if isinstance(row, (int, np.integer)) and not isinstance(row, bool):
        return table.row(int(row))
    if isinstance(row, (type, str, bytes, bytearray, memoryview)) or (isinstance(row, np.ndarray) and row.ndim == 0):
        raise TableError(expected=expected, got=describe_value(row))
    if isinstance(row, Mapping):
        return row
    if hasattr(row, "columns") or hasattr(row, "column_names"):
        read = read_table(row)
        if len(read) != 1:
            raise TableError(
                expected="row must be a single row",
                got=f"a table of {format_count(len(read), 'row')}",
                hint="pass one of them, or all to explain_many or counterfactuals_many",
            )
        return read.row(0)
    if hasattr(row, "to_dict"):
        return dict(row.to_dict())
    values = row[0] if isinstance(row, np.ndarray) and row.ndim == 2 and len(row) == 1 else row
    if isinstance(values, (Sequence, np.ndarray)):
        for names in (table.names, columns):
            if len(values) == len(names):
                return dict(zip(names, values, strict=True))
        count = format_count(len(table.names), "value")
        raise TableError(expected=f"row must have {count}, like the data", got=len(values))
    raise TableError(expected=expected, got=describe_value(row))


def parse_models(models: Any) -> tuple[Any, ...]:
    """Further models: a list or a tuple of them."""
    if not isinstance(models, (list, tuple)):
        raise InputError(
            expected="models must be a list of models",
            got=describe_value(models),
            hint="put a single model into a list, and leave it out where there is none",
        )
    return tuple(models)


def parse_ranges(ranges: Any) -> Mapping[str, Sequence[Value]]:
    """What features may change to, by their names; None for no limits."""
    if ranges is not None and not isinstance(ranges, Mapping):
        rule = "permitted_range must be a mapping from features to [lowest, highest] or to categories"
        raise InputError(expected=rule, got=describe_value(ranges))
    return ranges or {}


def parse_names(what: str, names: Any) -> tuple[str, ...]:
    """Several names, or one by itself; ``what`` says whose."""
    listed = tuple(as_list(names))
    odd = [name for name in listed if not isinstance(name, str)]
    if odd:
        raise InputError(expected=f"{what} must be a list of strings", got=f"{describe_value(odd[0])} in it")
    return listed


def require_explanation(given: Any) -> Explanation:
    """Raise InputError for what is no explanation."""
    if not isinstance(given, Explanation):
        rule = "this needs an explanation"
        raise InputError(expected=rule, got=describe_value(given), hint="read a stored one first")
    return given


def as_list(names: Any) -> list[Any]:
    """Several names, or one by itself."""
    if isinstance(names, (str, Constraint)):
        return [names]
    if (
        not isinstance(names, Iterable)
        or (isinstance(names, np.ndarray) and names.ndim == 0)
        or isinstance(names, type)
    ):
        raise InputError(expected="names or constraints must be a list of strings", got=describe_value(names))
    return list(names)


def parse_algorithm(algorithm: str | Algorithm) -> Algorithm:
    """An algorithm by its name, with its defaults, or as it is."""
    check_algorithm(algorithm)
    return load_algorithm(cast(AlgorithmName, algorithm))() if isinstance(algorithm, str) else algorithm


def check_algorithm(algorithm: str | Algorithm) -> None:
    """Raise InputError if there is no such algorithm; none is loaded for that."""
    usable = algorithm in ALGORITHMS if isinstance(algorithm, str) else hasattr(algorithm, "run")
    if not usable or isinstance(algorithm, type):
        expected = f"algorithm must be one of {', '.join(ALGORITHMS)}"
        hint = "or pass an object such as GreedyRuleCF()"
        raise InputError(expected=expected, got=describe_value(algorithm), hint=hint, code="unknown-algorithm")


def parse_oracle(oracle: str | UserOracle | None) -> Oracle | None:
    """An oracle by its name, or as it is, verified if it is not one of ours; None stands for the default."""
    if oracle is None:
        return None
    from ironrule.oracles.combine import verify_oracle
    from ironrule.oracles.registry import ORACLES

    if not isinstance(oracle, (str, type)) and callable(getattr(oracle, "find", None)):
        return verify_oracle(oracle)
    if not isinstance(oracle, str) or oracle not in ORACLES:
        expected = f"oracle must be one of {', '.join(ORACLES)}"
        instead = "or pass an object with a find method"
        raise InputError(expected=expected, got=describe_value(oracle), hint=instead, code="unknown-oracle")
    return ORACLES[oracle]()


def parse_budget(budget: Budget | float | None) -> Budget:
    """A budget as it is, from a number of seconds, or none at all."""
    if budget is None or isinstance(budget, Budget):
        return Budget() if budget is None else budget
    if isinstance(budget, bool) or not isinstance(budget, (int, float)):
        raise BudgetError(
            expected="budget must be a Budget, a number of seconds, or None for no limit", got=describe_value(budget)
        )
    try:
        return Budget(seconds=float(budget))
    except OverflowError:
        rule = "a budget in seconds must be a number that a float can hold"
        raise BudgetError(expected=rule, got=describe_value(budget), hint="for no limit, give no budget") from None


def parse_integer(name: str, number: Any, least: int = 1) -> int:
    """A whole number that is at least 1, or at least 0; ``name`` says what it is."""
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < least:
        kind = "positive" if least else "non-negative"
        raise InputError(expected=f"{name} must be a {kind} integer", got=describe_value(number))
    return int(number)


def parse_measure(measure: Any) -> Any:
    """A mask as an array of flags; a table, a source or None as it is."""
    is_list = isinstance(measure, list) and all(isinstance(flag, (bool, np.bool_)) for flag in measure)
    values = measure if isinstance(measure, np.ndarray) else getattr(measure, "values", None)
    is_series = getattr(measure, "ndim", 0) == 1 and isinstance(values, np.ndarray)
    if is_list or (isinstance(measure, np.ndarray) and measure.ndim == 1) or is_series:
        flags = np.asarray(measure)
        if flags.dtype != np.bool_:
            expected = "measure must be a table of rows, or one flag (True or False) per row of the data"
            raise InputError(expected=expected, got=f"a list of {flags.dtype}", code="bad-measure")
        return flags
    return measure


def is_mask(measure: Any) -> bool:
    """Whether rows of the data are marked, not handed over."""
    return isinstance(measure, np.ndarray) and measure.ndim == 1 and measure.dtype == np.bool_


def check_measure_mask(measure: Any, row_count: int) -> None:
    """Raise InputError if a mask does not fit the data, or leaves no row to search on or to measure on."""
    if not is_mask(measure):
        return
    if len(measure) != row_count:
        expected = f"measure must have one flag per row of the data ({format_count(row_count, 'row')})"
        raise InputError(expected=expected, got=format_count(len(measure), "flag"), code="bad-measure")
    if measure.all() or not measure.any():
        expected = "measure must mark some rows of the data and leave others to search on"
        raise InputError(expected=expected, got="all of them" if measure.all() else "none", code="bad-measure")


class _CachedSeedSequence(ISeedSequence):
    """A seed whose words for a generator are worked out once: that takes longer than many a search."""

    def __init__(self, seed: int) -> None:
        self._words = np.random.SeedSequence(seed).generate_state(4, np.uint64)

    def generate_state(self, n_words: int, dtype: npt.DTypeLike = np.uint32) -> npt.NDArray[Any]:
        """The words that PCG64 asks for."""
        if n_words != 4 or np.dtype(dtype) != np.uint64:
            raise ValueError(f"expected a request for 4 words of 64 bits, got {n_words} of {dtype}")
        return self._words


_expand_seed = lru_cache(maxsize=64)(_CachedSeedSequence)


def make_generator(seed: int) -> np.random.Generator:
    """A new generator, the same as ``numpy.random.default_rng(seed)``.

    >>> make_generator(3).random() == np.random.default_rng(3).random()
    True
    """
    return np.random.Generator(np.random.PCG64(cast(np.random.SeedSequence, _expand_seed(seed))))


def parse_weights(weights: Weights, components: InstanceComponents) -> tuple[npt.NDArray[np.float64], Fraction]:
    """What every component counts: 1, or as the caller says by feature or by component, of which the latter counts
    where both are given; in whole multiples of a unit, and this unit.
    """
    if weights is None:
        return get_unit_weights(2 * len(components.space)), Fraction(1)
    if not isinstance(weights, Mapping):  # "paper"
        counted_twice = np.ones(2 * len(components.space))
        counted_twice[[2 * j for j, feature in enumerate(components.space.features) if not feature.ordered]] = 2.0
        return counted_twice, Fraction(1)
    each = {part: Fraction(1) for part in _list_components(components.space)}
    for name, weight in sorted(weights.items(), key=lambda item: item[0] not in components.space.names):
        exact, (j, op) = parse_weight(name, weight), components.parse_component(name)
        each |= {(bit, own): exact for bit, own in each if bit // 2 == j and op in ("", own)}
    multiples, unit = scale_to_integers(list(each.values()))
    multiple_of = dict(zip(each, multiples.tolist(), strict=True))
    parts = [(bit, components.operator(bit)) for bit in range(2 * len(components.space))]
    return np.array([multiple_of.get(part, multiple_of.get((part[0], ">="))) for part in parts], dtype=np.float64), unit


def _list_components(space: Space) -> list[tuple[int, str]]:
    """The components that rules for any row may have, by number and operator.

    All have a part in the unit, so that whether weights are refused does not depend on the row.
    """
    components = []
    for j, feature in enumerate(space.features):
        components += [(2 * j, "<="), (2 * j + 1, ">=")] if feature.ordered else [(2 * j, "=="), (2 * j + 1, "==")]
        components += [(2 * j, "==")] if feature.ordered and feature.missing else []
    return components


def normalize_weights(weights: Weights) -> Mapping[str, int | float | Fraction] | Literal["paper"] | None:
    """The weights as a document keeps them: what the caller wrote, in plain types; None where there are none."""
    if isinstance(weights, Mapping):
        parse_names("weights", weights)
        return {name: to_storable_weight(name, weight) for name, weight in weights.items()} or None
    if weights is not None and not (isinstance(weights, str) and weights == "paper"):
        raise InputError(
            expected="weights must be 'paper' or a mapping from features to weights", got=describe_value(weights)
        )
    return weights


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SearchOptions:
    """All that a search can be told, and the defaults; raises InputError where it is made if something cannot be used.

    ``change_cost`` says what nearest means for the changes that explanations suggest. What does not change the answer
    (workers, progress, the device) has no place here.
    """

    algorithm: str | Algorithm = AUTO
    k: int = 5
    budget: Budget | float | None = DEFAULT_BUDGET
    seed: int = 0
    require: Sequence[str] = ()
    forbid: Sequence[str] = ()
    weights: Weights = None
    widen: bool = True
    prefer: Preference = "length"
    change_cost: Cost | str = DEFAULT_COST

    def __post_init__(self) -> None:
        if not isinstance(self.algorithm, str) or self.algorithm != AUTO:
            check_algorithm(self.algorithm)
        parse_budget(self.budget)
        normalize_weights(self.weights)
        if not isinstance(self.prefer, str) or self.prefer not in PREFERENCES:
            raise InputError(
                expected=f"prefer must be one of {', '.join(PREFERENCES)}", got=describe_value(self.prefer)
            )
        object.__setattr__(self, "k", parse_integer("k", self.k))
        object.__setattr__(self, "seed", parse_integer("seed", self.seed, least=0))
        object.__setattr__(self, "require", parse_names("require", self.require))
        object.__setattr__(self, "forbid", parse_names("forbid", self.forbid))
        if not isinstance(self.widen, (bool, np.bool_)):
            raise InputError(expected="widen must be True or False", got=describe_value(self.widen))
        object.__setattr__(self, "widen", bool(self.widen))
        object.__setattr__(self, "change_cost", parse_cost(self.change_cost))

    def choose_algorithm(self, readable: bool) -> Algorithm:
        """The algorithm that is asked for, or the best one for a model that can be read or only be asked."""
        if self.algorithm == AUTO:
            return parse_algorithm("minimum" if readable else "greedy_cf")
        return parse_algorithm(self.algorithm)

    def start_meter(self) -> Meter:
        """A meter for one search; its time starts now."""
        return Meter(parse_budget(self.budget))

    def to_kwargs(self) -> dict[str, Any]:
        """The same by name."""
        return {name: getattr(self, name) for name in self.__slots__}

    def fingerprint(self) -> str:
        """A hash of all of it."""
        kept = normalize_weights(self.weights)
        parts = self.to_kwargs() | {
            "algorithm": self.algorithm if self.algorithm == AUTO else parse_algorithm(self.algorithm),
            "budget": parse_budget(self.budget),
            "require": list(self.require),
            "forbid": list(self.forbid),
            "weights": sorted(kept.items()) if isinstance(kept, Mapping) else kept,
        }
        cost = parse_cost(parts.pop("change_cost"))
        if cost != DEFAULT_COST:  # without it, the hash is that of batches which were written before there was a cost
            parts["change_cost"] = json.dumps(cost.to_dict(), sort_keys=True)
        return hashlib.sha256(repr(tuple(parts.values())).encode()).hexdigest()


DEFAULTS = SearchOptions()
"""What a search does unless it is told otherwise."""
