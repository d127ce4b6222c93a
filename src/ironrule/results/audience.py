"""Whom a report is written for. Imports nothing heavy, so that the command line can name audiences at once."""

from __future__ import annotations

from typing import Literal, get_args

Audience = Literal["person", "validator"]
AUDIENCES: tuple[Audience, ...] = get_args(Audience)
