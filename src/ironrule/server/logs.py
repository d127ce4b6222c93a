"""What the server writes down about its own failures: where, and what kind; never what was asked or about whom."""

from __future__ import annotations

import logging
import os
import secrets
import traceback

from ironrule.server.problem import Problem

DEBUG = "IRONRULE_DEBUG"
log = logging.getLogger("ironrule.server")


def unexpected(error: BaseException) -> Problem:
    """Log a failure under a random name, and tell that name; messages may hold values, so they stay out of the log."""
    name = secrets.token_hex(4)
    places = traceback.extract_tb(error.__traceback__)
    where = f"{places[-1].filename}:{places[-1].lineno}" if places else "unknown"
    log.error("failure %s: %s at %s", name, type(error).__name__, where)
    if os.environ.get(DEBUG):
        log.error("failure %s in full", name, exc_info=error)
    hint = f"report failure {name} to the operator of the server; {DEBUG}=1 logs it in full"
    return Problem(500, "internal-error", f"the server failed ({type(error).__name__})", hint=hint)
