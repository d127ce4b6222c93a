"""The project file: ``ironrule.toml`` names model, data and settings once, and every command finds it.

    model = "model.skops"
    data = "loans.csv"
    target = "status"
    desired = "paid"

A command looks for the file in the current folder. What is given on the command line wins; the file stands in for what
is not given and what the command offers. Paths are relative to the file. Keys are those of :data:`KEYS`; ``ironrule
init`` writes such a file. It may come with a model from somebody else, so it can trust types of well-known libraries
alone, and no pickle.
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ironrule.cli.inputs import is_saved_explainer
from ironrule.cli.trust import is_well_known_type
from ironrule.errors import InputError, describe_value
from ironrule.space.domain import DOMAIN_MODES
from ironrule.space.labels import Labels, read_toml
from ironrule.space.roles import ROLE_KEYS, Role

PROJECT_FILE = "ironrule.toml"
DATA_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")


@dataclass(frozen=True, slots=True)
class ProjectKey:
    """One key: the option that it stands in for, what its value must be, and how it is read in the file's folder."""

    option: str
    expected: str
    read: Callable[[Any, Path], Any]  # raises ValueError for a value that cannot be used


def _read_path(value: Any, folder: Path) -> Path:
    if not isinstance(value, str) or not value:
        raise ValueError
    return folder / value


def _read_paths(value: Any, folder: Path) -> list[Path]:
    return [_read_path(one, folder) for one in _read_list(value)]


def _read_list(value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise ValueError
    return value


def _read_text(value: Any, _: Path) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value


def _read_texts(value: Any, folder: Path) -> list[str]:
    return [_read_text(one, folder) for one in (_read_list(value) if isinstance(value, list) else [value])]


def _read_trust(value: Any, folder: Path) -> list[str]:
    types = _read_texts(value, folder)
    if not all(map(is_well_known_type, types)):
        raise ValueError
    return types


def _read_labels(value: Any, folder: Path) -> Path | Labels:
    """The path of a labels file, or a table with the same."""
    return Labels.from_dict(value) if isinstance(value, dict) else _read_path(value, folder)


def _read_classes(value: Any, _: Path) -> list[str]:
    """Desired classes, which may be strings, whole numbers or truth values."""
    labels = _read_list(value) if isinstance(value, list) else [value]
    if not all(isinstance(label, (str, int, bool)) and label != "" for label in labels):
        raise ValueError
    return [str(label) for label in labels]


def _read_number(value: Any, _: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError
    return float(value)


def _read_flag(value: Any, _: Path) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _read_domain(value: Any, _: Path) -> str:
    if value not in DOMAIN_MODES:
        raise ValueError
    return str(value)


def _read_roles(value: Any, _: Path) -> Mapping[str, Role | str]:
    """By feature the kind of a role, or a table with the keys that a space file has for one."""
    if not isinstance(value, dict) or not all(isinstance(role, (str, dict)) for role in value.values()):
        raise ValueError
    return {name: role if isinstance(role, str) else _read_role(role) for name, role in value.items()}


def _read_role(entry: Mapping[str, Any]) -> Role:
    role = Role.from_dict(entry) if set(entry) <= set(ROLE_KEYS) else None
    if role is None:
        raise ValueError
    return role


PATH, PATHS = "the path of a file", "a list of paths"
TEXT, TEXTS = "a string", "a string or a list of strings"
KEYS: Mapping[str, ProjectKey] = {
    "model": ProjectKey("model", PATH, _read_path),
    "data": ProjectKey("data", PATH, _read_path),
    "target": ProjectKey("target", TEXT, _read_text),
    "desired": ProjectKey("desired", "a class, or a list of classes", _read_classes),
    "threshold": ProjectKey("threshold", "a number", _read_number),
    "trust": ProjectKey("trust", "types of well-known libraries (others need --trust)", _read_trust),
    "space": ProjectKey("space", PATH, _read_path),
    "constraints": ProjectKey("constraint", TEXTS, _read_texts),
    "roles": ProjectKey("roles", "a table from features to roles", _read_roles),
    "domain": ProjectKey("domain", f"one of {', '.join(DOMAIN_MODES)}", _read_domain),
    "margin": ProjectKey("margin", "a number", _read_number),
    "models": ProjectKey("models", PATHS, _read_paths),
    "measure": ProjectKey("measure", PATH, _read_path),
    "reasons": ProjectKey("catalogue", PATH, _read_path),
    "labels": ProjectKey("labels", "the path of a file, or a table of labels", _read_labels),
    "fields": ProjectKey("fields", PATH, _read_path),
    "template": ProjectKey("template", PATH, _read_path),
    "language": ProjectKey("language", TEXT, _read_text),
}


@dataclass(frozen=True, slots=True)
class Project:
    """The settings of a project file, by option, and the keys that they come from."""

    path: Path
    settings: Mapping[str, Any]
    keys: Mapping[str, str]  # by option

    @classmethod
    def read(cls, path: Path) -> Project:
        """The settings in a file; raises InputError, naming the key, if one cannot be used."""
        settings, keys = dict[str, Any](), dict[str, str]()
        for name, value in read_toml(path, "project file").items():
            key = KEYS.get(name)
            if key is None:
                raise _build_unknown_key_error(path, name)
            try:
                settings[key.option] = key.read(value, path.parent)
            except ValueError:
                expected = f"{name} in {path.name} must be {key.expected}"
                raise InputError(expected=expected, got=describe_value(value), code="bad-project-file") from None
            keys[key.option] = name
        return cls(path, settings, keys)


def _build_unknown_key_error(path: Path, name: str) -> InputError:
    close = difflib.get_close_matches(name, KEYS, 1)
    if name == "trust_pickle":
        close, hint = [], "a pickle can run any code, so it is trusted by --trust-pickle each time, not by a file"
    else:
        hint = f"did you mean {close[0]!r}?" if close else "see docs/cli.md"
    return InputError(
        expected=f"{path.name} may have the keys {', '.join(KEYS)}", got=repr(name), hint=hint, code="bad-project-file"
    )


def format_project(settings: dict[str, Any]) -> str:
    """The text of a project file."""
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in settings.items())


def add_project_options(parser: argparse.ArgumentParser) -> None:
    """``--project`` and ``--no-project``; the other options must be there already."""
    group = parser.add_argument_group("project")
    text = f"the project file (default: {PROJECT_FILE} in this folder)"
    group.add_argument("--project", metavar="FILE", type=Path, help=text)
    group.add_argument("--no-project", action="store_true", help="use no project file")
    offered = {action.dest for action in parser._actions} | set(parser._defaults)
    defaults = {key.option: parser.get_default(key.option) for key in KEYS.values() if key.option in offered}
    # What is still this very list after parsing was not given: a value may be equal to the default, and options that
    # may be repeated copy their default before they add to it.
    marks: dict[str, list[Any]] = {option: [] for option in defaults}
    parser.set_defaults(**marks, project_options=frozenset(), option_defaults=defaults, option_marks=marks)


def apply_project(options: argparse.Namespace) -> None:
    """Let the project file stand in for options that were not given, say which, and require what is still missing."""
    defaults, marks = options.option_defaults, options.option_marks
    absent = {option for option in defaults if getattr(options, option) is marks[option]}
    for option in absent:
        setattr(options, option, defaults[option])
    if _sort_files(options):
        absent = absent - {"data"} | {"model"}
    is_saved = is_saved_explainer(getattr(options, "model", None))  # it says itself what a project file would
    if not options.no_project and not is_saved:
        here = Path(PROJECT_FILE)
        path = options.project or (here if here.is_file() else None)
        if path is not None:
            _fill_in(options, Project.read(path), absent)
    needed = [name for name in _list_needed(options) if not (is_saved and name.strip("-").lower() == "data")]
    missing = [name for name in needed if getattr(options, name.strip("-").lower()) is None]
    if missing:
        raise InputError(
            f"the following are required: {', '.join(missing)}",
            hint=f"name them (see --help), or write them into {PROJECT_FILE} once: ironrule init",
            code="usage",
        )


def _sort_files(options: argparse.Namespace) -> bool:
    """Of MODEL and DATA, one alone is what its ending says; whether it is DATA."""
    if _list_needed(options) != ("MODEL", "DATA") or options.model is None or options.data is not None:
        return False
    if not options.model.name.lower().endswith(DATA_ENDINGS):
        return False
    options.model, options.data = None, options.model
    return True


def _list_needed(options: argparse.Namespace) -> tuple[str, ...]:
    """The files that a command needs, as its usage names them."""
    return getattr(options, "needed_files", None) or ()


def _fill_in(options: argparse.Namespace, project: Project, absent: set[str]) -> None:
    taken = [option for option in project.settings if option in absent]
    for option in taken:
        setattr(options, option, project.settings[option])
    options.project_options = frozenset(taken)
    if taken and not options.json:  # programs read standard error too
        sys.stderr.write(f"using {project.path}: {', '.join(project.keys[option] for option in taken)}\n")
