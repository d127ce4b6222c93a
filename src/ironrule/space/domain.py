"""What numeric features may take: every number of their range, or only the values seen.

This module is light, since the help of the command line names the modes.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from ironrule.errors import InputError, describe_value

DomainMode = Literal["auto", "interval", "seen"]
DOMAIN_MODES: tuple[DomainMode, ...] = get_args(DomainMode)


def parse_domain(domain: Any) -> DomainMode:
    """What numeric features may take, by its name; raises InputError for any other."""
    for mode in DOMAIN_MODES:
        if isinstance(domain, str) and domain == mode:
            return mode
    raise InputError(expected=f"domain must be one of {', '.join(map(repr, DOMAIN_MODES))}", got=describe_value(domain))
