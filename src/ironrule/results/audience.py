"""The people for whom a report is written. Imports nothing heavy, so that the command line can name audiences at once.

An explanation is reported to the person and to the validator. A ladder also makes a notice, which a lender sends: its
few reasons come from a short rule.
"""

from __future__ import annotations

from typing import Literal, get_args

Audience = Literal["person", "validator"]
AUDIENCES: tuple[Audience, ...] = get_args(Audience)
LadderAudience = Literal["person", "validator", "notice"]
LADDER_AUDIENCES: tuple[LadderAudience, ...] = get_args(LadderAudience)
