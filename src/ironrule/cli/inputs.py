"""From the options to what the library needs: the model, the data, the space, an explainer, and the row to explain."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironrule.cli.files import load_model, parse_desired, read_data, require_file
from ironrule.cli.notices import get_language_code
from ironrule.errors import InputError, OutcomeError, TableError, describe_value
from ironrule.space.labels import Labels
from ironrule.space.roles import parse_roles

if TYPE_CHECKING:
    from ironrule.explain.explainer import Explainer
    from ironrule.space.constraints.syntax import Constraint
    from ironrule.space.space import Space


Row = Mapping[str, Any]
SAVED_ENDING = ".ironrule"
SAID_BY_FILE = ("data", "target", "desired", "threshold", "space", "domain", "margin", "models", "measure", "cache")
MAX_LISTED_ROWS = 5
MAX_ROW_CHARACTERS = 1_000_000
ROW_EXPECTED = "a row must be a row number or a JSON object"


def read_row_inputs(options: argparse.Namespace, constraints: Sequence[Constraint] = ()) -> tuple[Explainer, Row | int]:
    """An explainer and the row to ask it about, from the files; input that cannot be used is refused here."""
    wanted = parse_row(options.row)
    return prepare_row(options, read_files(options), wanted, constraints)


def prepare_row(
    options: argparse.Namespace,
    files: InputFiles,
    wanted: int | Row,
    constraints: Sequence[Constraint] = (),
    any_outcome: bool = False,
) -> tuple[Explainer, Row | int]:
    """The same of files that were read; ``any_outcome``: the row may have the desired outcome."""
    by_number = isinstance(wanted, int) and (files.cache or files.saved is not None)
    row = wanted if by_number else _get_row(wanted, files, options.target)
    explainer = files.build_explainer(options, constraints)
    if isinstance(wanted, int) and not any_outcome:
        _check_undesired(wanted, explainer)
    return explainer, row


def _check_undesired(number: int, explainer: Explainer) -> None:
    """Raise OutcomeError if a past row has the desired outcome; the hint names rows that have not."""
    denied = explainer.row_numbers[~explainer.outcomes]
    if number in denied or number not in explainer.row_numbers:  # one that is left out is refused for its own reason
        return
    listed = ", ".join(map(str, denied[:MAX_LISTED_ROWS]))
    hint = f"rows that it denies: {listed}{', ...' if len(denied) > MAX_LISTED_ROWS else ''}"
    if not len(denied):
        hint = "it denies no row of this data: check --desired and --threshold"
    raise OutcomeError(f"row {number} already has the desired outcome", hint=hint, code="row-not-denied")


@dataclass(frozen=True, slots=True)
class InputFiles:
    """The contents of the files that an explainer needs."""

    model: Any
    models: list[Any]
    desired: Any
    data: Any  # a table, or the path of one that is read in chunks
    space: Space
    cache: Path | None = None
    measure: Any = None  # rows that ladders are measured on: a table, or a path
    saved: Explainer | None = None  # an explainer that was saved, in the place of all others

    def build_explainer(self, options: argparse.Namespace, constraints: Sequence[Constraint]) -> Explainer:
        """An explainer for them; ``ironrule counterfactual`` has no margin."""
        from ironrule.explain.explainer import Explainer

        if self.saved is not None:
            return self.saved.where(constraints) if constraints else self.saved
        return Explainer(
            self.model,
            self.data,
            desired=self.desired,
            threshold=options.threshold,
            space=self.space,
            constraints=constraints,
            margin=getattr(options, "margin", 0.0),
            models=self.models,
            domain=options.domain,
            cache=self.cache,
            measure=self.measure,
        )


def read_files(options: argparse.Namespace) -> InputFiles:
    """Read the model, the data and the space. Categories that the data file has lost are those that the model keeps."""
    from ironrule.model.categories import restore_categories

    if is_saved_explainer(options.model):
        return _read_saved_explainer(options)
    paths = options.model, *getattr(options, "models", ())
    model, *models = [load_model(path, options.trust, options.trust_pickle) for path in paths]
    desired, cache = parse_desired(options.desired, model, options.threshold), getattr(options, "cache", None)
    names = getattr(model, "feature_names_in_", None)  # the columns that the model was fitted on, where it says so
    columns = None if names is None else [str(name) for name in names]
    measure = getattr(options, "measure", None)
    if cache is not None:
        space, data = _read_stored_space(options, columns, cache), options.data
    else:
        data = restore_categories(model, read_data(options.data, options.target))
        space = read_space(options, data, columns)
        if measure is not None:  # rows of people who are not decided yet need not have the target
            measured = read_data(measure).drop(columns=options.target or [], errors="ignore")
            measure = restore_categories(model, measured)
    return InputFiles(model=model, models=models, desired=desired, data=data, space=space, cache=cache, measure=measure)


def is_saved_explainer(path: Path | None) -> bool:
    """Whether a path names a saved explainer, by its ending."""
    return path is not None and path.name.lower().endswith(SAVED_ENDING)


def refuse_saved_explainer(path: Path, reason: str) -> None:
    """Raise InputError if a saved explainer is given where the model itself is needed."""
    if is_saved_explainer(path):
        got = f"the saved explainer {path.name!r}"
        raise InputError(expected=f"MODEL must be the model itself, since {reason}", got=got, code="usage")


def _read_saved_explainer(options: argparse.Namespace) -> InputFiles:
    """An explainer from its file, which says itself what other options would; these are refused."""
    from ironrule.explain.explainer import Explainer
    from ironrule.explain.saved.load import get_saved_model

    path = require_file(options.model, "saved explainer", "check the path, or make one: ironrule save MODEL DATA")
    defaults = getattr(options, "option_defaults", {"domain": "auto", "margin": 0.0})  # of a command without a project
    for name in SAID_BY_FILE:
        given = getattr(options, name, None)
        if given is not None and given != defaults.get(name) and given != []:
            shown = "DATA" if name == "data" else f"--{name.replace('_', '-')}"
            expected = f"{path.name} is a saved explainer, which comes with what {shown} would say"
            raise InputError(expected=expected, got=describe_value(given), hint=f"leave {shown} out", code="usage")
    explainer = Explainer.load(path)
    return InputFiles(get_saved_model(explainer), [], desired=None, data=None, space=explainer.space, saved=explainer)


def _read_stored_space(options: argparse.Namespace, columns: Sequence[str] | None, cache: Path) -> Space:
    """The space of data that is read in chunks, from the codes in the cache."""
    from ironrule.model.blackbox import match_column_names
    from ironrule.space.column_store.ingest import open_source
    from ironrule.space.sources import as_source

    source = as_source(options.data)
    names = () if source is None else source.names
    fitted = None if columns is None else match_column_names(columns, names)
    wanted = [name for name in names if name != options.target and (fitted is None or name in fitted)]
    if source is None or not wanted:
        raise TableError(expected="the data must have the model's columns", got=f"columns {', '.join(names)}")
    return read_space(options, open_source(source, wanted, cache, None).table.sample, wanted)


def parse_row(text: str) -> int | Row:
    """A row number, or a row as a JSON object."""
    if len(text) > MAX_ROW_CHARACTERS:
        rule = f"a row must have at most {MAX_ROW_CHARACTERS:,} characters"
        raise InputError(expected=rule, got=f"{len(text):,}", hint="put it into the data and give its number")
    try:
        row = json.loads(text, object_pairs_hook=_parse_row_object)
    except json.JSONDecodeError as error:
        got = f"invalid JSON: {error}" if text.lstrip()[:1] in ("{", "[") else repr(text)
        raise InputError(expected=ROW_EXPECTED, got=got) from None
    except RecursionError:
        raise InputError(expected=ROW_EXPECTED, got="JSON that is nested too deep") from None
    except TableError:
        raise
    except ValueError:  # more digits than Python reads
        raise InputError(expected=ROW_EXPECTED, got="a number of too many digits") from None
    if isinstance(row, int) and not isinstance(row, bool) and row < 0:
        hint = "row numbers count from 0"
        raise InputError(expected="the row number must be a non-negative integer", got=describe_value(row), hint=hint)
    if isinstance(row, dict) or (isinstance(row, int) and not isinstance(row, bool)):
        return row
    raise InputError(expected=ROW_EXPECTED, got=f"a {type(row).__name__}")


def read_space(options: argparse.Namespace, data: Any, columns: Sequence[str] | None = None) -> Space:
    """The space from the file that the user gave, or as inferred from the data."""
    from ironrule.model.blackbox import match_column_names
    from ironrule.space.space import Space
    from ironrule.space.table import read_table

    if options.space is not None:
        hint = "check the path, or make one: ironrule inspect DATA --output space.toml"
        space = Space.from_file(require_file(options.space, "space file", hint), data)
    else:
        chosen = None if columns is None else match_column_names(columns, read_table(data).names)
        space = Space.infer(data, columns=chosen)
    space = space if options.roles is None else space.with_roles(parse_roles(options.roles))
    labels = read_labels(options)
    return space.with_labels(labels) if labels else space


def read_labels(options: argparse.Namespace) -> Labels:
    """The labels in the file or the project file that the user named, in the language asked for."""
    labels = Labels.parse(options.labels)
    return labels if options.language is None else labels.with_language(get_language_code(options.language))


def _get_row(wanted: int | Row, files: InputFiles, target: str | None) -> Row:
    from ironrule.model.categories import restore_row
    from ironrule.space.table import read_table

    if isinstance(wanted, int):
        return read_table(files.data).row(wanted)
    row = {name: value for name, value in wanted.items() if name != target}
    return row if files.cache else restore_row(files.model, row)


def _parse_row_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    from ironrule.space.feature import value_from_json

    row = dict(pairs)
    if len(row) < len(pairs):
        twice = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
        got = f"{', '.join(map(repr, twice))} more than once"
        raise TableError(expected="a row must have every column once", got=got)
    try:
        plain: dict[str, Any] = value_from_json(row)
    except (TypeError, ValueError):
        raise TableError(expected='a date must be written as {"date": "2024-12-31"}', got=repr(row["date"])) from None
    return plain
