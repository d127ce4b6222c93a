"""The space: the product of all domains (the paper's Inst), with constraints on what can occur in it."""

from __future__ import annotations

import difflib
import hashlib
import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ironrule.arrays import Int32Array, Int64Array, Points
from ironrule.errors import ConstraintError, SpaceError, TableError, describe_value
from ironrule.progress import track
from ironrule.space.codes import EncodedTable, encode_feature, look_up_codes
from ironrule.space.column_store.ingest import open_source
from ironrule.space.constraints.binding import bind_constraint
from ironrule.space.constraints.feasible import FeasibleRegion, build_feasible_region
from ironrule.space.constraints.parser import parse_constraint, require_few
from ironrule.space.constraints.syntax import Constraint
from ironrule.space.feature import Feature, Value, is_missing, parse_date
from ironrule.space.files import build_document, parse_features, read_document
from ironrule.space.infer import InferenceOptions, OneHotOption, infer_features
from ironrule.space.labels import NO_LABELS, FeatureText, Labels
from ironrule.space.roles import ROLE_KEYS, Role, parse_roles
from ironrule.space.sources import as_source
from ironrule.space.table import (
    VALUE_TYPES,
    Table,
    is_listing,
    parse_columns,
    read_table,
    require_columns,
    to_python_value,
)
from ironrule.wording import format_count, format_size

if TYPE_CHECKING:
    from ironrule.space.files import SpaceDocument


COLUMNS_HINT = "rename its columns, or add what is missing"
SCALAR_TYPES = frozenset((int, float, str, np.int64, np.float64))


class CodeLimits(NamedTuple):
    """What the engine asks of all features at once: the highest code, and that of the last value of an ordered one."""

    top: Int64Array
    last: Int64Array  # -1 for a nominal feature


@dataclass(frozen=True)
class Space:
    """Features with their domains, and constraints (over ``cf`` alone) on what can occur.

    >>> space = Space((Feature("age", (20, 30, 40), ordered=True), Feature("job", ("clerk", "cook"), ordered=False)))
    >>> space.size
    6
    """

    features: tuple[Feature, ...]
    constraints: tuple[Constraint, ...] = ()
    labels: Labels = field(default=NO_LABELS, repr=False, compare=False)  # those of the features are among them
    feasible: FeasibleRegion = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, given, kind in (("features", self.features, "Feature"), ("constraints", self.constraints, "texts")):
            if not is_listing(given):
                raise SpaceError(expected=f"{name} of a space must be a list ({kind})", got=describe_value(given))
        object.__setattr__(self, "features", tuple(self.features))
        odd = [feature for feature in self.features if not isinstance(feature, Feature)]
        if odd:
            raise SpaceError(expected="features of a space must each be a Feature", got=describe_value(odd[0]))
        object.__setattr__(self, "constraints", tuple(as_constraint(c) for c in require_few(self.constraints)))
        if not self.features:
            raise SpaceError(expected="a space must have at least one feature", got="none")
        _check_unique_names(self.features)
        _check_finite(self.features)
        for constraint in self.constraints:
            if constraint.mentions_instance:
                rule = "a constraint on the space must refer to cf only, not to x"
                raise ConstraintError(expected=rule, got=describe_value(str(constraint)))
        object.__setattr__(self, "labels", _fit_labels(self.labels, self.features))
        predicates = [bind_constraint(constraint, self.features) for constraint in self.constraints]
        object.__setattr__(self, "feasible", build_feasible_region(self.features, predicates))

    @classmethod
    def infer(
        cls,
        table: Any,
        *,
        columns: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        nominal: Sequence[str] = (),
        ordered: Mapping[str, Sequence[Value]] | None = None,
        domains: Mapping[str, Sequence[Value]] | None = None,
        missing: Sequence[str] = (),
        one_hot: OneHotOption = "detect",
        constant: Literal["refuse", "keep"] = "keep",
        constraints: Sequence[str | Constraint] = (),
        progress: bool | None = None,
    ) -> Space:
        """The space of a table: domains are the values seen, and what ``domains`` (a list or a grid) adds to them.

        The table may also be a source that is too long for memory, such as the path of Parquet files.
        ``nominal`` names columns without an order although they are numbers; ``ordered`` gives categories their order;
        ``one_hot`` names the groups, or detects them by name prefix; ``names`` names the columns of an array. A column
        with a single value is a feature with one value, unless ``constant="refuse"``.
        """
        own = None if columns is None else parse_columns(columns)
        options = InferenceOptions(
            nominal,
            {} if ordered is None else ordered,
            {} if domains is None else domains,
            missing=missing,
            one_hot=one_hot,
            constant=constant,
        )
        read = _read_source_values(table, own, progress) or read_table(table, names)
        chosen = read.names if own is None else own
        require_columns(chosen, read.names, COLUMNS_HINT)
        return cls(infer_features(read, chosen, options, progress), tuple(as_constraint(c) for c in constraints))

    @classmethod
    def from_file(cls, path: str | Path, table: Any = None) -> Space:
        """A space declared in a TOML, YAML or JSON file; features without values take those seen in ``table``."""
        if not isinstance(path, (str, Path)):
            raise SpaceError(expected="a space file must be named by its path", got=describe_value(path))
        return cls.from_dict(read_document(Path(path)), table)

    @classmethod
    def from_dict(cls, document: SpaceDocument, table: Any = None) -> Space:
        """A space as :meth:`to_dict` or a file declares it."""
        features, constraints = parse_features(document, None if table is None else read_table(table))
        space = cls(features, tuple(as_constraint(c) for c in constraints))
        return space.with_labels(Labels.from_dict(document["labels"])) if "labels" in document else space

    def to_dict(self) -> SpaceDocument:
        """The space as plain data, the whole of every domain included."""
        document = build_document(self.features, [str(constraint) for constraint in self.constraints])
        if self.labels != _fit_labels(NO_LABELS, self.features):  # more than a label and a unit per feature
            document["labels"] = self.labels.to_dict()
        return document

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The features' names, in order."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The table columns that carry the features."""
        return tuple(name for feature in self.features for name in feature.columns)

    @cached_property
    def sizes(self) -> Int32Array:
        """How many codes every feature has."""
        return np.array([feature.size for feature in self.features], dtype=np.int32)

    @cached_property
    def code_limits(self) -> CodeLimits:
        """Highest codes of all features, as arrays."""
        last = [feature.last_code if feature.ordered else -1 for feature in self.features]
        return CodeLimits(self.sizes.astype(np.int64) - 1, np.array(last, dtype=np.int64))

    @cached_property
    def _row_keys(self) -> frozenset[str]:
        """The names that a row may use."""
        return frozenset((*self.columns, *self.names))

    @cached_property
    def _code_tables(self) -> tuple[Mapping[Value, int], ...]:
        """The codes of every feature whose column has its name; none of the others, which need more care."""
        return tuple(feature.code_by_value if feature.columns == (feature.name,) else {} for feature in self.features)

    @cached_property
    def _domains(self) -> tuple[tuple[Value, ...], ...]:
        """Every feature's values by code, ``None`` for missing."""
        return tuple((*f.values, None) if f.missing else f.values for f in self.features)

    @property
    def size(self) -> int:
        """How many points there are, constraints aside."""
        return math.prod(feature.size for feature in self.features)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of features, domains and constraints: what a certificate names as its scope. Labels, units and roles
        change nothing that is claimed, and so are left out of it.
        """
        document = self.to_dict()
        document.pop("labels", None)
        for entry in document["features"].values():
            for key in ("label", "unit", *ROLE_KEYS):
                entry.pop(key, None)
        text = json.dumps(document, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, name: str) -> Feature:
        return self.features[self.index(name)]

    def index(self, name: str) -> int:
        """The position of a feature; raises SpaceError, with the nearest name, if it is unknown."""
        try:
            return self.names.index(name)
        except ValueError:
            close = difflib.get_close_matches(name, self.names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"the features are {', '.join(self.names)}"
            raise SpaceError(f"unknown feature {name!r}", hint=hint, code="unknown-feature") from None

    def encode(self, table: Any, progress: bool | None = None) -> EncodedTable:
        """A whole table as codes, column by column."""
        read = read_table(table, None if not isinstance(table, np.ndarray) else self.columns)
        require_columns(self.columns, read.names, COLUMNS_HINT)
        features = track(self.features, "Encoding", len(self.features), progress)
        return EncodedTable(tuple(encode_feature(feature, read) for feature in features))

    def require_values(self, row: Mapping[str, Value]) -> None:
        """Raise TableError, which names all that is absent, unless a row has a value of every feature."""
        without = (feature for feature in self.features if feature.name not in row)
        absent = [name for feature in without for name in feature.columns if name not in row]
        if absent:
            raise TableError(expected=f"a row must have a value for {', '.join(map(repr, absent))}", got="none")

    def require_known_columns(self, row: Mapping[str, Value], ignore: Collection[str] = ()) -> None:
        """Raise TableError, which names all that is unknown, if a row has columns beside those of the space and those
        that are ignored.
        """
        unknown = [name for name in row if name not in self._row_keys and name not in ignore]
        if unknown:
            close = difflib.get_close_matches(str(unknown[0]), self.columns, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"the columns are {', '.join(self.columns)}"
            got = ", ".join(map(repr, unknown))
            raise TableError(expected="a row may only have columns of the space", got=got, hint=hint)

    def encode_row(self, row: Mapping[str, Value], ignore: Sequence[str] = ()) -> Points:
        """One row, given by column (or by feature, for a one-hot group), as codes."""
        others = set(ignore).difference(self.columns)
        self.require_known_columns(row, others)
        codes = []
        for feature, code_by_value in zip(self.features, self._code_tables, strict=True):
            value = row.get(feature.name)
            is_plain = type(value) in SCALAR_TYPES and value in code_by_value  # most are, and need no conversion
            codes.append(code_by_value[value] if is_plain else _encode_feature_of_row(feature, row, others))
        return np.array(codes, dtype=np.int32)

    def find_new_values(self, row: Mapping[str, Value]) -> dict[str, Value]:
        """The values of a row that the domains lack, by feature; ``None`` for missing. One-hot groups have none.

        Raises TableError for a value that a feature can never have, such as text where there are numbers.
        """
        new: dict[str, Value] = {}
        for feature in self.features:
            name = feature.columns[0] if feature.columns[0] in row else feature.name
            if not feature.one_hot and name in row:
                for value in _find_new_value(feature, row[name]):
                    new[feature.name] = value
        return new

    def decode_row(self, point: Points) -> dict[str, Value]:
        """A point in the user's terms, by feature; missing is None."""
        values = [domain[code] for domain, code in zip(self._domains, point.tolist(), strict=True)]
        return dict(zip(self.names, values, strict=True))

    def find_new_column_values(self, table: Table) -> dict[str, list[Value]]:
        """By feature, the values of a table that its domain lacks, each once; ``None`` for missing.

        One-hot groups have none. Raises TableError for a value that a feature can never have.
        """
        new: dict[str, list[Value]] = {}
        for feature in self.features:
            if feature.one_hot or feature.columns[0] not in table.names:
                continue
            column = table.column(feature.columns[0])
            unknown = (look_up_codes(feature, column.values) < 0) & ~column.missing
            first_row: dict[Value, int] = {}
            for row, value in zip(np.flatnonzero(unknown).tolist(), column.values[unknown], strict=True):
                first_row.setdefault(to_python_value(value), row)
            found = [new for value, row in first_row.items() for new in _find_new_value_of_table(feature, value, row)]
            found += [None] if column.missing.any() and not feature.missing else []
            if found:
                new[feature.name] = found
        return new

    def add_values(self, values: Mapping[str, Sequence[Value]]) -> Space:
        """The same space with these values, by feature, added to the domains that lack them."""
        features = (_add_to_domain(f, values[f.name]) if f.name in values else f for f in self.features)
        return replace(self, features=tuple(features))

    def extend_domains(self, row: Mapping[str, Value]) -> Space:
        """The same space with the row's values added to the domains that lack them."""
        return replace(self, features=tuple(_extend_domain(feature, row) for feature in self.features))

    def with_labels(
        self, labels: Labels | Mapping[str, Any] | str | Path, units: Mapping[str, str] | None = None
    ) -> Space:
        """The same space with labels for all that is shown; its fingerprint stays.

        ``labels`` are :class:`Labels`, the same as plain data, or the path of a labels file; ``units`` are those of
        features. Raises SpaceError, with the nearest name, for a feature or a value that the space does not have.

        >>> space = Space((Feature("age", (20, 30), ordered=True),))
        >>> space.with_labels({"age": "Age"}, {"age": "years"})["age"].unit
        'years'
        """
        chosen = Labels.parse(labels)
        if units:
            texts = {name: replace(chosen.features.get(name, FeatureText()), unit=unit) for name, unit in units.items()}
            chosen = replace(chosen, features={**chosen.features, **texts})
        chosen.check_features(self.features)
        chosen = chosen.extend(self.labels)
        labelled = (
            replace(feature, label=chosen.get_label(feature.name), unit=chosen.get_unit(feature.name))
            for feature in self.features
        )
        return replace(self, features=tuple(labelled), labels=chosen)

    def with_roles(self, roles: Mapping[str, Role | str]) -> Space:
        """The same space with roles by feature, such as ``{"age": "immutable"}``; its fingerprint stays.

        >>> space = Space((Feature("age", (20, 30), ordered=True),))
        >>> space.with_roles({"age": "immutable"})["age"].role.kind
        'immutable'
        """
        parsed = parse_roles(roles)
        for name in parsed:
            self.index(name)
        return replace(self, features=tuple(replace(f, role=parsed.get(f.name, f.role)) for f in self.features))

    def __repr__(self) -> str:
        ordered = sum(feature.ordered for feature in self.features)
        kinds = f"{ordered} ordered, {len(self) - ordered} nominal"
        text = f"Space({format_count(len(self), 'feature')}: {kinds}; {format_size(self.size)} points"
        return text + (f"; {format_count(len(self.constraints), 'constraint')})" if self.constraints else ")")


def _fit_labels(labels: Labels, features: Sequence[Feature]) -> Labels:
    """The labels, with those of features that they say nothing about; of domains as they are, since a new row's value
    may lie outside the one that the labels were made for.
    """
    own = {
        feature.name: FeatureText(feature.label, feature.unit)
        for feature in features
        if (feature.label or feature.unit) and feature.name not in labels.features
    }
    fitted = replace(labels, features={**labels.features, **own}) if own else labels
    if not any(text.values for text in fitted.features.values()):
        return fitted
    whole = [f for f in features if f.ordered and f.naturally_ordered and f.has_only_integers and f.values]
    return fitted.mark_complete({f.name: (f.values[0], f.values[-1]) for f in whole})


def _read_source_values(data: Any, columns: Sequence[str] | None, progress: bool | None) -> Table | None:
    """The small table with every value of a source that comes in chunks; None if the data is no source."""
    source = as_source(data)
    return None if source is None else open_source(source, columns or source.names, None, progress).table.sample


def as_constraint(constraint: str | Constraint) -> Constraint:
    """A constraint from its text, or as it is."""
    if not isinstance(constraint, (str, Constraint)):
        raise ConstraintError(
            expected="a constraint must be a string such as 'cf.age >= 18'", got=describe_value(constraint)
        )
    return parse_constraint(constraint) if isinstance(constraint, str) else constraint


def _check_unique_names(features: Sequence[Feature]) -> None:
    for names, what in (([f.name for f in features], "feature"), ([c for f in features for c in f.columns], "column")):
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            got = f"{', '.join(map(repr, twice))} more than once"
            raise SpaceError(expected=f"{what} names must be unique", got=got)


def _check_finite(features: Sequence[Feature]) -> None:
    for feature in features:
        if any(isinstance(value, float) and math.isinf(value) for value in feature.values):
            raise SpaceError(expected=f"the domain of {feature.name!r} must have finite numbers", got="infinity")


def _encode_feature_of_row(feature: Feature, row: Mapping[str, Value], others: set[str]) -> int:
    present = [name for name in feature.columns if name in row]
    if feature.name in row and feature.name not in others and (feature.columns == (feature.name,) or not present):
        return _encode_value(feature, row[feature.name])
    if len(present) < len(feature.columns):
        absent = [name for name in feature.columns if name not in row]
        raise TableError(expected=f"a row must have a value for {', '.join(map(repr, absent))}", got="none")
    if feature.name in row and feature.name not in others:
        raise TableError(expected=f"a row must have either {feature.name!r} or its columns {present}", got="both")
    return _encode_one_hot_columns(feature, row) if feature.one_hot else _encode_value(feature, row[present[0]])


def _encode_value(feature: Feature, value: Value) -> int:
    try:
        return feature.code(_check_value_type(feature, to_python_value(value)))
    except SpaceError as error:
        raise TableError(
            expected=error.expected,
            got=error.got,
            hint="extend the domain: Explainer(..., space=space.extend_domains(row))",
            code="value-outside-domain",
        ) from None


def _encode_one_hot_columns(feature: Feature, row: Mapping[str, Value]) -> int:
    hot = [row[name] for name in feature.columns]
    if SCALAR_TYPES.issuperset(map(type, hot)) and hot.count(1) == 1 and hot.count(0) == len(hot) - 1:
        return hot.index(1)
    hot = [to_python_value(value) for value in hot]
    if any(value not in (0, 1) for value in hot) or sum(hot) > 1:
        raise TableError(expected=f"the one-hot columns of {feature.name!r} must be 0, and one of them 1", got=hot)
    if sum(hot) == 0 and len(feature.values) == len(feature.columns):
        raise TableError(expected=f"one of the one-hot columns of {feature.name!r} must be 1", got="all 0")
    return hot.index(1) if 1 in hot else len(feature.columns)


def _check_value_type(feature: Feature, value: Value) -> Value:
    """The value, if it is of the domain's type; a date may also come as text."""
    if is_missing(value):
        return value
    _require_single_value(feature, value)
    if not feature.values:
        return value
    if feature.temporal:
        try:
            return parse_date(feature, value if isinstance(value, str) else value.isoformat())
        except (ValueError, AttributeError):
            rule = f'{feature.name!r} must be a date such as "2024-12-31"'
            raise TableError(expected=rule, got=describe_value(value)) from None
    numbers, number = feature.numeric, isinstance(value, (int, float)) and not isinstance(value, bool)
    if numbers and not number:
        raise TableError(expected=f"{feature.name!r} must be a number", got=describe_value(value))
    if not numbers and number and all(isinstance(entry, str) for entry in feature.values):
        rule = f"{feature.name!r} must be a string, {feature.describe()}"
        raise TableError(expected=rule, got=f"the number {describe_value(value)}")
    return value


def _require_single_value(feature: Feature, value: Value) -> None:
    """Raise TableError for what can be no value of any feature."""
    if not isinstance(value, VALUE_TYPES):
        rule = f"{feature.name!r} must be a single value: a number, a string, a boolean or a date"
        raise TableError(expected=rule, got=describe_value(value))


def _find_new_value(feature: Feature, value: Value) -> list[Value]:
    """The value, if the domain lacks it; ``None`` for missing. Its cost must not depend on the size of the domain."""
    # Most values are known: they are looked up before anything else is asked of them.
    if type(value) in SCALAR_TYPES and value in feature.code_by_value:
        return []
    value = _check_value_type(feature, to_python_value(value))
    if is_missing(value):
        return [] if feature.missing else [None]
    is_new = type(value).__hash__ is None or value not in feature.code_by_value
    return [_check_new_value(feature, value)] if is_new else []


def _find_new_value_of_table(feature: Feature, value: Value, row: int) -> list[Value]:
    """The same for a value of a table; the error for one that it can never have says in which row it is."""
    try:
        return _find_new_value(feature, value)
    except TableError as error:
        got = f"{error.got} in row {row} (counted from 0)"
        raise TableError(expected=error.expected, got=got, hint=error.hint, code=error.code) from None


def _check_new_value(feature: Feature, value: Value) -> Value:
    """A value that is not in a domain yet, in the type of those that are; raises TableError if it cannot join them."""
    _require_single_value(feature, value)
    if not feature.numeric or not feature.values:
        return value
    if not _fits_float(value):
        raise TableError(expected=f"{feature.name!r} must be a finite number", got=describe_value(value))
    if feature.has_only_integers:
        if value != int(value):
            expected = f"{feature.name!r} must be a whole number, as all its values are"
            raise TableError(expected=expected, got=describe_value(value))
        if abs(value) >= 2**63:
            raise TableError(expected=f"{feature.name!r} must be an integer of 64 bits", got=describe_value(value))
        return int(value)
    return value if feature.has_integers else float(value)


def _fits_float(number: float) -> bool:
    """Whether a number is finite, and not too large for a float."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _extend_domain(feature: Feature, row: Mapping[str, Value]) -> Feature:
    name = feature.columns[0] if feature.columns[0] in row and not feature.one_hot else feature.name
    if name not in row:
        return feature
    return _add_to_domain(feature, [_check_value_type(feature, to_python_value(row[name]))])


def _add_to_domain(feature: Feature, values: Sequence[Value]) -> Feature:
    """The feature with values that its domain lacks; missing is None or NaN."""
    present = [value for value in values if not is_missing(value)]
    new = tuple(dict.fromkeys(value for value in present if value not in feature.code_by_value))
    missing = feature.missing or len(present) < len(values)
    if feature.one_hot and (new or missing != feature.missing):
        rule = f"{feature.name!r} must be {feature.describe()}, since it has one column per value"
        raise SpaceError(expected=rule, got=describe_value(new[0] if new else None))
    if not new:
        return replace(feature, missing=missing) if missing != feature.missing else feature
    if feature.ordered and not feature.naturally_ordered:
        reason = f"{new[0]!r} has no place in the order of {feature.name!r}"
        raise SpaceError(reason, hint="declare the order in a space file")
    joined = (*feature.values, *new)
    return replace(feature, values=tuple(sorted(joined)) if feature.ordered else joined, missing=missing)
