"""HTML from the templates in ``templates/``: Python computes plain values, a template lays them out.

A report is one HTML file with its style sheet inside; it needs no network and no script, and it prints. A notebook has
its own style sheet, so the templates of its fragments have their styles in the tags. Everything is escaped, control
characters too.

Users may own the template of a notice or of a person's report, and replace blocks of ours. Such templates run in
jinja2's sandbox: they see the values that they are given and nothing of Python. A name that is not there is an error,
never a gap, and every error names the file and the line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironrule.errors import InputError
from ironrule.wording import escape_controls, format_count, format_percent

if TYPE_CHECKING:
    from jinja2 import Environment
    from jinja2.sandbox import SandboxedEnvironment

PREFIX = "ironrule/"  # of our templates, as those of users name them
FILTERS: dict[str, Callable[..., str]] = {
    "counted": format_count,
    "grouped": "{:,}".format,
    "percent": format_percent,
    "short": "{:.4g}".format,
}
TEMPLATE_FAULTS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError, OSError)


@cache
def get_environment(package: str = "ironrule.report") -> Environment:
    """The templates of a package; a name that a template uses and was not given is an error, not a gap."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # takes longer than the rest of a start

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_escape_output
    )
    environment.loader = PackageLoader(package)
    environment.filters |= FILTERS
    return environment


def _escape_output(value: Any) -> Any:
    """What a template writes: control characters, which markup lets pass, are shown as escapes."""
    if isinstance(value, (int, float)) or hasattr(value, "__html__"):
        return value  # markup is made of parts that came this way
    return escape_controls(str(value), keep="\n\t")


def render_template(name: str, **values: Any) -> str:
    """The text that a template makes of these values."""
    return get_environment().get_template(name).render(values)


def render_sandboxed(package: str, name: str, values: Mapping[str, Any]) -> str:
    """The text that a template of a package makes, in the sandbox in which users' own templates extend it."""
    return _build_sandbox(package).get_template(f"{PREFIX}{name}").render(values)


def render_own_template(package: str, path: Path, values: Mapping[str, Any]) -> str:
    """The text that a template of the user's makes, which may extend those of a package.

    Raises InputError, with the file and the line, if it cannot be used.
    """
    from jinja2 import TemplateError, TemplateSyntaxError

    if not _is_file(path):
        raise InputError(f"template not found: {str(path)!r}", hint="check the path")
    path = path.resolve()
    try:
        return _build_sandbox(package, path.parent).get_template(path.name).render(values)
    except TemplateSyntaxError as error:
        place = f"{Path(error.filename or path).name}, line {error.lineno}"
        raise _build_template_error(place, error.message or "it is malformed") from None
    except (TemplateError, *TEMPLATE_FAULTS) as error:
        raise _build_template_error(_find_place(error, path), str(error)) from None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _build_sandbox(package: str, folder: Path | None = None) -> SandboxedEnvironment:
    """The sandbox with the templates of a package, and those in a folder of the user's."""
    from jinja2 import ChoiceLoader, FileSystemLoader, FunctionLoader, PackageLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        """A sandbox in which templates of ours that name each other do not find files of the user's instead."""

        def join_path(self, template: str, parent: str) -> str:
            is_ours = parent.startswith(PREFIX) and not template.startswith(PREFIX)
            return f"{PREFIX}{template}" if is_ours else template

    package_loader = PackageLoader(package)

    def load_ours(name: str) -> tuple[str, str | None, Callable[[], bool] | None] | None:
        is_ours = name.startswith(PREFIX)
        return package_loader.get_source(sandbox, name.removeprefix(PREFIX)) if is_ours else None

    ours = FunctionLoader(load_ours)
    sandbox = Sandbox(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_escape_output,
        loader=ours if folder is None else ChoiceLoader([ours, FileSystemLoader(folder)]),
    )
    sandbox.filters |= FILTERS
    return sandbox


def _build_template_error(place: str, what: str) -> InputError:
    hint = "docs/reports.md names the blocks and values of notices and reports"
    return InputError(f"the template cannot be used ({place}): {what}", hint=hint, code="bad-template")


def _find_place(error: BaseException, path: Path) -> str:
    """The file and the line of a user's template in which an error arose; the file alone where that is not known."""
    lines = [f"{file.name}, line {line}" for file, line in _list_frames(error) if file.parent == path.parent]
    return lines[-1] if lines else path.name


def _list_frames(error: BaseException) -> Iterator[tuple[Path, int]]:
    """Where an error arose, outermost first; jinja2 gives the lines of templates."""
    trace = error.__traceback__
    while trace is not None:
        yield Path(trace.tb_frame.f_code.co_filename), trace.tb_lineno
        trace = trace.tb_next
