"""HTML from the templates in ``templates/``: Python computes plain values, a template lays them out.

A report is one HTML file with its style sheet inside; it needs no network and no script, and it prints. A notebook has
its own style sheet, so the templates of its fragments have their styles in the tags. Everything is escaped.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from ironrule.wording import format_count

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def get_environment(package: str = "ironrule.report") -> Environment:
    """The templates of a package; a name that a template uses and was not given is an error, not a gap."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # takes longer than the rest of a start

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.loader = PackageLoader(package)
    environment.filters |= {"counted": format_count, "grouped": "{:,}".format, "short": "{:.4g}".format}
    return environment


def render_template(name: str, **values: Any) -> str:
    """The text that a template makes of these values."""
    return get_environment().get_template(name).render(values)
