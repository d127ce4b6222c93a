"""ironrule init: write a project file, so that commands in this folder need no model, data, target or desired class.

It looks at the files of the folder, asks for what it cannot know, and writes ironrule.toml. It does not ask for what
you pass as an option. With --yes, or without a terminal, it asks nothing and takes its own suggestions:

  ironrule init
  ironrule init --model model.skops --data loans.csv --target status --desired paid
  ironrule explain --row 17

With --example it writes a folder in which you can try the commands: the bundled loans, a model and labels.

  ironrule init --example credit
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ironrule.cli.errors import CLI_HINTS
from ironrule.cli.files import PICKLE_ENDINGS, load_model, parse_desired, read_data, require_file
from ironrule.cli.options import TRUST_HELP
from ironrule.cli.output import CommandResult, check_output_path
from ironrule.cli.project import DATA_ENDINGS, PROJECT_FILE, format_project
from ironrule.errors import InputError, IronruleError, format_with_hint
from ironrule.wording import format_count

NAME, HELP = "init", "write a project file, so that other commands need less"
MODEL_ENDINGS = (".skops", ".onnx", ".pmml", *PICKLE_ENDINGS)
MAX_LISTED_CLASSES = 20
MAX_DECIDED_ROWS = 1_000  # that the model is asked about, to name one that it denies


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("--model", metavar="MODEL", type=Path, help="a fitted model")
    parser.add_argument("--data", metavar="DATA", type=Path, help="past rows")
    parser.add_argument("--target", metavar="COLUMN", help="the column that the model was trained to predict, if any")
    parser.add_argument("--desired", metavar="LABEL", nargs="+", help="the desired class, or several")
    parser.add_argument("--trust", metavar="TYPE", nargs="+", default=[], help=TRUST_HELP)
    text = "load a pickle or joblib file now, which can run any code; every later command must be told too"
    parser.add_argument("--trust-pickle", action="store_true", help=text)
    parser.add_argument("--yes", action="store_true", help="ask nothing, take what is suggested")
    parser.add_argument("--overwrite", action="store_true", help=f"replace {PROJECT_FILE} if it exists")
    text = "write the bundled example into a new folder: data, a model, labels and a project file"
    parser.add_argument("--example", metavar="FOLDER", type=Path, help=text)
    parser.set_defaults(output=Path(PROJECT_FILE))


def run(options: argparse.Namespace) -> CommandResult:
    """Look, ask, write."""
    if options.example is not None:
        return _write_example(options)
    output = check_output_path(options, (".toml",))
    asks = not options.yes and sys.stdin is not None and sys.stdin.isatty()
    settings: dict[str, Any] = {}
    model_path = _choose_file("model", options.model, MODEL_ENDINGS, asks)
    data_path = _choose_file("data", options.data, DATA_ENDINGS, asks)
    settings |= {"model": str(model_path), "data": str(data_path)}
    model, trust = _load_trusted(model_path, options, asks)
    data = read_data(data_path)
    target = options.target or _choose_target(model, [str(name) for name in data.columns], asks)
    if target is not None:
        read_data(data_path, target)  # which says so if there is no such column
        settings["target"] = target
    desired = _choose_desired(model, options.desired, asks)
    settings |= {} if desired is None else {"desired": desired if len(desired) > 1 else desired[0]}
    settings |= {"trust": trust} if trust else {}
    text = format_project(settings)
    more = " --trust-pickle" if options.trust_pickle else ""
    denied, problem = _find_denied_row(model, data if target is None else data.drop(columns=target), desired)
    explain = [] if denied is None else [f"ironrule explain --row {denied}{more}"]
    following = ", ".join(["ironrule inspect", *explain, f"ironrule serve{more}"])
    view = f"{output}:\n\n{text}\nNext: {following}" + ("" if problem is None else f"\n{problem}")
    facts = {"output": str(output), **settings, "denied_row": denied}
    return CommandResult(view, lambda: facts, output, text)


def _find_denied_row(model: Any, data: Any, desired: list[str] | None) -> tuple[int | None, str | None]:
    """The first row with the undesired outcome, among the first ones; or why there is none."""
    from ironrule.explain.explainer import Explainer
    from ironrule.model.categories import restore_categories

    first = restore_categories(model, data.head(MAX_DECIDED_ROWS))
    try:
        explainer = Explainer(model, first, desired=parse_desired(desired, model), domain="seen", progress=False)
    except IronruleError as error:
        said = format_with_hint(error, CLI_HINTS.get(error.code, error.hint))
        return None, f"No row can be explained yet: {said}"
    denied = explainer.row_numbers[~explainer.outcomes]
    if len(denied):
        return int(denied[0]), None
    return None, f"The model denies none of the first {format_count(len(first), 'row')}: check what is desired."


def _write_example(options: argparse.Namespace) -> CommandResult:
    """Write the bundled example, and say how to go on."""
    from ironrule.cli.example import write_example

    folder: Path = options.example
    given = [name for name in ("model", "data", "target", "desired") if getattr(options, name) is not None]
    if given:
        raise InputError(f"--example brings its own {given[0]}", hint=f"leave --{given[0]} or --example out")
    row = write_example(folder)
    names = sorted(path.name for path in folder.iterdir())
    commands = f"cd {shlex.quote(str(folder))}, then ironrule inspect, ironrule explain --row {row}, ironrule serve"
    view = f"{folder}: {', '.join(names)}\nNext: {commands}"
    return CommandResult(view, lambda: {"folder": str(folder), "files": names, "denied_row": row})


def _choose_file(what: str, given: Path | None, endings: tuple[str, ...], asks: bool) -> Path:
    """The file that was given, or one of the folder."""
    if given is not None:
        return require_file(given, f"{what} file")
    found = sorted(path.name for path in Path().iterdir() if path.is_file() and path.name.lower().endswith(endings))
    if not found and not asks:
        hint = f"name it: --{what}"
        raise InputError(f"no {what} file ({', '.join(endings)}) in this folder", hint=hint, code="file-not-found")
    if len(found) > 1 and not asks:
        raise InputError(f"several files may be the {what}: {', '.join(found)}", hint=f"name it: --{what}")
    suggested = found[0] if len(found) == 1 else None
    others = f" ({', '.join(found)})" if len(found) > 1 else ""
    answer = _ask(f"The {what} file{others}", suggested) if asks else suggested
    return require_file(Path(answer or ""), f"{what} file")


def _load_trusted(path: Path, options: argparse.Namespace, asks: bool) -> tuple[Any, list[str]]:
    """The model, and the types that must be trusted for it; of well-known libraries the user is asked."""
    try:
        return load_model(path, options.trust, options.trust_pickle), options.trust
    except InputError as error:
        if error.code != "untrusted-types" or not asks:
            raise
        from skops import io

        types = sorted(io.get_untrusted_types(file=path))
        if _ask(f"The model has the types {', '.join(types)}. Trust them?", "no").lower() not in ("y", "yes"):
            raise
        return load_model(path, types), types


def _choose_target(model: Any, columns: Sequence[str], asks: bool) -> str | None:
    """The column that the model does not see, where it says what it sees; None where there is none."""
    names = getattr(model, "feature_names_in_", None)
    seen = {*columns} if names is None else {*map(str, names)}
    unseen = [name for name in columns if name not in seen]
    suggested = unseen[0] if len(unseen) == 1 else None
    if asks:
        answer = _ask("The column that the model predicts (- for none)", suggested or "-")
        return None if answer == "-" else answer
    return suggested


def _choose_desired(model: Any, given: list[str] | None, asks: bool) -> list[str] | None:
    """The desired classes, as texts; None where the model names no classes."""
    if given is None:
        names = [str(label) for label in getattr(model, "classes_", ())[:MAX_LISTED_CLASSES]]
        if not names:
            return None
        suggested = "1" if names == ["0", "1"] else "True" if names == ["False", "True"] else None
        if not asks and suggested is None:
            raise InputError(f"the model has the classes {', '.join(names)}", hint="say which is desired: --desired")
        given = [_ask(f"The desired class ({', '.join(names)})", suggested) if asks else str(suggested)]
    parse_desired(given, model)  # which says so if there is no such class
    return given


def _ask(question: str, suggested: str | None) -> str:
    """An answer from the terminal; the question is asked again until there is one."""
    while True:
        sys.stderr.write(f"{question}{'' if suggested is None else f' [{suggested}]'}: ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise InputError("the input ended before all was answered", hint="see ironrule init --help")
        if line.strip() or suggested is not None:
            return line.strip() or str(suggested)
