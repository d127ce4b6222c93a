"""From the options to a question that the library can be asked: an explainer, and the row in doubt."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironrule.cli.existing import existing
from ironrule.errors import InputError, OutcomeError, TableError

if TYPE_CHECKING:
    from ironrule.explain import Explainer
    from ironrule.space import Constraint, Space

Row = Mapping[str, Any]
FEW = 5


@dataclass(frozen=True, slots=True)
class Question:
    """An explainer, and the row to ask it about."""

    explainer: Explainer
    row: Row | int


def question_of(
    options: argparse.Namespace,
    constraints: Sequence[Constraint] = (),
    others: Sequence[Path] = (),
    margin: float = 0.0,
    intervals: bool = False,
) -> Question:
    """Read the files and the row, with constraints on the space; what cannot be used is told before any search."""
    wanted = row_of(options.row)
    files = files_of(options, others)
    row = wanted if isinstance(wanted, int) and files.cache else _found(wanted, files.data, options.target)
    space = files.space.extended(row) if options.extend_domain and isinstance(row, Mapping) else files.space
    explainer = files.explainer(options, space, constraints, margin, intervals)
    if isinstance(wanted, int):
        _refuse_desired(wanted, explainer)
    return Question(explainer, row)


def _refuse_desired(number: int, explainer: Explainer) -> None:
    """Raise OutcomeError if a past row has the desired outcome, naming some that have not."""
    denied = explainer.numbers[~explainer.outcomes]
    if number in denied or number not in explainer.numbers:  # one that is left out is refused for its own reason
        return
    some = f"rows that it denies: {', '.join(map(str, denied[:FEW]))}{', ...' if len(denied) > FEW else ''}"
    none = "it denies no row of this data: check --desired and --threshold"
    raise OutcomeError(
        f"row {number} already has the desired outcome", hint=some if len(denied) else none, code="row-not-denied"
    )


@dataclass(frozen=True, slots=True)
class Files:
    """What the files hold that a question needs."""

    model: Any
    models: list[Any]
    desired: Any
    data: Any  # a table, or the path of one that is read in chunks
    space: Space
    cache: Path | None = None

    def explainer(
        self,
        options: argparse.Namespace,
        space: Space,
        constraints: Sequence[Constraint],
        margin: float,
        intervals: bool,
    ) -> Explainer:
        """An explainer for them."""
        from ironrule.explain import Explainer

        return Explainer(
            self.model,
            self.data,
            desired=self.desired,
            threshold=options.threshold,
            space=space,
            constraints=constraints,
            margin=margin,
            models=self.models,
            intervals=intervals,
            cache=self.cache,
        )


def files_of(options: argparse.Namespace, others: Sequence[Path] = ()) -> Files:
    """Read the model, the data and the space."""
    from ironrule.cli.files import read_data
    from ironrule.cli.models import desired_of, read_model

    model = read_model(options.model, options.trust, options.trust_pickle)
    desired = desired_of(options.desired, model)
    models = [read_model(path, options.trust, options.trust_pickle) for path in others]
    cache = getattr(options, "cache", None)
    if cache is not None:
        return Files(model, models, desired, options.data, _streamed_space(options, columns_of(model), cache), cache)
    data = read_data(options.data, options.target)
    return Files(model, models, desired, data, space_of(options, data, columns_of(model)))


def _streamed_space(options: argparse.Namespace, columns: Sequence[str] | None, cache: Path) -> Space:
    """The space of data that is read in chunks, by what the explainer will find in the cache."""
    from ironrule.model import names_in_data
    from ironrule.space.sources import as_source
    from ironrule.space.streamed import open_source

    source = as_source(options.data)
    names = () if source is None else source.names
    fitted = None if columns is None else names_in_data(columns, names)
    wanted = [name for name in names if name != options.target and (fitted is None or name in fitted)]
    if source is None or not wanted:
        raise TableError(expected="the data must have the model's columns", got=f"columns {', '.join(names)}")
    return space_of(options, open_source(source, wanted, cache, None).gathered.like, wanted)


def row_of(text: str) -> int | Row:
    """A row number, or a row as a JSON object."""
    try:
        row = json.loads(text, object_pairs_hook=_distinct)
    except json.JSONDecodeError as error:
        raise InputError(expected="a row must be a row number or a JSON object", got=f"invalid JSON: {error}") from None
    if isinstance(row, int) and row < 0:
        raise InputError(expected="the row number must be a non-negative integer", got=row)
    if isinstance(row, dict) or (isinstance(row, int) and not isinstance(row, bool)):
        return row
    raise InputError(expected="a row must be a row number or a JSON object", got=f"a {type(row).__name__}")


def space_of(options: argparse.Namespace, data: Any, columns: Sequence[str] | None = None) -> Space:
    """The space from the file that the user gave, or as inferred from the data."""
    from ironrule.model import names_in_data
    from ironrule.space import Space, read_table

    if options.space is not None:
        do = "check the path, or make one: ironrule inspect DATA --output space.toml"
        return Space.from_file(existing(options.space, "space file", do), data)
    chosen = None if columns is None else names_in_data(columns, read_table(data).names)
    return Space.infer(data, columns=chosen, constant="keep" if options.keep_constant else "refuse")


def columns_of(model: Any) -> list[str] | None:
    """The columns that the model was fitted on, where it says so."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _found(wanted: int | Row, data: Any, target: str | None) -> Row:
    from ironrule.space import read_table

    if isinstance(wanted, int):
        table = read_table(data)
        if wanted >= len(table):
            raise TableError(expected=f"the row number must be from 0 to {len(table) - 1}", got=wanted)
        return table.row(wanted)
    return {name: value for name, value in wanted.items() if name != target}


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    from ironrule.space.plain import from_plain

    row = dict(pairs)
    if len(row) < len(pairs):
        twice = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
        raise TableError(
            expected="a row must have every column once", got=f"{', '.join(map(repr, twice))} more than once"
        )
    try:
        plain: dict[str, Any] = from_plain(row)
    except (TypeError, ValueError):
        raise TableError(expected='a date must be written as {"date": "2024-12-31"}', got=repr(row["date"])) from None
    return plain
