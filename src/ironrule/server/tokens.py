"""Tokens: who may use the server, in which role, and until when.

A tokens file has a line per token, ``name token [role] [expires=2027-01-31]``; empty lines and lines that begin with
``#`` are skipped. There are three roles, each with the rights of those before it: ``check`` may check explanations,
``read`` may also read the log, ``ask`` may do everything and is the role where none is given.

The server looks at the file before every request, and reads it again when it has changed. A file that has become
faulty never adds a token: those that were valid before and still stand in it keep working, all others stop.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import logging
import os
import shlex
import stat
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from ironrule.errors import InputError
from ironrule.wording import escape_controls

Role = Literal["check", "read", "ask"]
ROLES: tuple[Role, ...] = get_args(Role)  # each has the rights of those before it

LOCAL_USER = "local"  # the user where no token is needed: anyone on this machine
MIN_TOKEN_LENGTH, MAX_TOKEN_LENGTH, MIN_DIFFERENT_CHARACTERS = 16, 500, 8
MAX_NAME_LENGTH = 64
MAX_FILE_BYTES = 1_000_000
LINE_FORMAT = "'name token', then a role and expires=YYYY-MM-DD if wanted"
NEW_TOKEN_HINT = 'make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"'

logger = logging.getLogger("ironrule.server")


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A secret, the name of its owner for the audit log, what the owner may do, and the last day on which it works."""

    name: str
    secret: str = field(repr=False)
    role: Role = "ask"
    last_day: datetime.date | None = None  # in UTC

    def __post_init__(self) -> None:
        self._check_name()
        if len(self.secret) < MIN_TOKEN_LENGTH:
            expected = f"a token must have at least {MIN_TOKEN_LENGTH} characters"
            raise InputError(expected=expected, got=len(self.secret), hint=NEW_TOKEN_HINT)
        if len(self.secret) > MAX_TOKEN_LENGTH:
            expected = f"a token must have at most {MAX_TOKEN_LENGTH} characters"
            raise InputError(expected=expected, got=len(self.secret), hint=NEW_TOKEN_HINT)
        if not all("!" <= character <= "~" for character in self.secret):
            expected = "a token must consist of ASCII letters, digits and signs, without spaces"
            raise InputError(expected=expected, got="another character", hint=NEW_TOKEN_HINT)
        if len(set(self.secret)) < MIN_DIFFERENT_CHARACTERS:
            expected = f"a token must have at least {MIN_DIFFERENT_CHARACTERS} different characters"
            raise InputError(expected=expected, got=len(set(self.secret)), hint=NEW_TOKEN_HINT)

    def _check_name(self) -> None:
        if not (self.name and self.name.isprintable() and len(self.name) <= MAX_NAME_LENGTH):
            expected = f"the name of a token must have 1 to {MAX_NAME_LENGTH} printable characters"
            raise InputError(expected=expected, got=repr(self.name[: MAX_NAME_LENGTH + 1]))
        if self.name == LOCAL_USER:
            expected = f"the name of a token must not be {LOCAL_USER!r}"
            hint = f"choose another: {LOCAL_USER!r} is who asks where no token is needed"
            raise InputError(expected=expected, got=repr(self.name), hint=hint)

    @property
    def digest(self) -> bytes:
        """What stands for the secret in sessions and comparisons: all digests have the same length."""
        return compute_digest(self.secret)

    def has_expired(self, today: datetime.date) -> bool:
        """Whether its last day is over."""
        return self.last_day is not None and today > self.last_day


def compute_digest(secret: str) -> bytes:
    """The digest of a secret that was sent."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def has_role(given: Role, needed: Role) -> bool:
    """Whether one role has the rights of another.

    >>> has_role("read", "check"), has_role("read", "read"), has_role("read", "ask")
    (True, True, False)
    """
    return ROLES.index(given) >= ROLES.index(needed)


def parse_tokens(text: str) -> tuple[AccessToken, ...]:
    """The tokens of a file; raises InputError for a line that cannot be used, and if there are none.

    >>> text = "# who may ask\\nann Qm9yZWQgb2YgdG9rZW5z\\nbob V2h5IG5vdCBhbm90aGVy read expires=2027-01-31"
    >>> found = parse_tokens(text)
    >>> [(token.name, token.role, str(token.last_day)) for token in found]
    [('ann', 'ask', 'None'), ('bob', 'read', '2027-01-31')]
    """
    found: list[AccessToken] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            found.append(_parse_line(words))
        except InputError as error:
            place = f"line {number} of the tokens file"
            if error.expected is None:
                raise InputError(f"{place}: {error.statement}", hint=error.hint) from None
            raise InputError(expected=f"{place}: {error.expected}", got=error.got, hint=error.hint) from None
    if not found:
        hint = f"write one {LINE_FORMAT} per line to it, or leave out --tokens"
        raise InputError(expected="the tokens file must have a token", got="none", hint=hint)
    check_repeated(found)
    return tuple(found)


def _parse_line(words: Sequence[str]) -> AccessToken:
    if len(words) < 2:
        hint = "add the name of the token's owner, or begin the line with # if it is a comment"
        raise InputError(expected=f"a line must be {LINE_FORMAT}", got="one word", hint=hint)
    name, secret, *options = words
    role: Role = "ask"
    last_day = None
    for place, option in enumerate(options):
        if option in ROLES and place == 0:
            role = option
        elif option.startswith("expires=") and place == len(options) - 1:
            last_day = _parse_day(option.removeprefix("expires="))
        else:  # the word may be a part of a secret, so it is not shown
            hint = f"the roles are {', '.join(ROLES)}; a line has at most one, before expires="
            raise InputError(expected=f"a line must be {LINE_FORMAT}", got=f"another word {place + 3}", hint=hint)
    return AccessToken(name, secret, role, last_day)


def _parse_day(text: str) -> datetime.date:
    try:
        return datetime.datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=datetime.UTC).date()
    except ValueError:
        expected = "the last day of a token must be written as expires=2027-01-31"
        raise InputError(expected=expected, got=repr(text[:20])) from None


def check_repeated(tokens: Sequence[AccessToken]) -> None:
    """Refuse a secret that two lines share: whose it is would not be clear."""
    owners: dict[str, str] = {}
    for token in tokens:
        if token.secret in owners:
            got = f"the same for {owners[token.secret]!r} and {token.name!r}"
            raise InputError(expected="every token must be different", got=got, hint=NEW_TOKEN_HINT)
        owners[token.secret] = token.name


def read_private_file(path: Path) -> tuple[str, InputError | None]:
    """The text of a file of secrets, and what is wrong with the file itself, if anything is."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe would wait for ever
            return "", InputError(expected="the tokens file must be a regular file", got=f"{str(path)!r}")
        with path.open("rb") as file:
            mode, content = stat.S_IMODE(os.fstat(file.fileno()).st_mode), file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        statement = f"cannot read the tokens file {str(path)!r}: {error.strerror}"
        return "", InputError(statement, hint=f"write one {LINE_FORMAT} per line to it", code="file-not-found")
    text = content.decode("utf-8-sig", "replace")
    if len(content) > MAX_FILE_BYTES:
        return text, InputError(expected=f"the tokens file must have at most {MAX_FILE_BYTES:,} bytes", got="more")
    if "\N{REPLACEMENT CHARACTER}" in text:
        return text, InputError(expected="the tokens file must be text in UTF-8", got="other bytes")
    if os.name == "posix" and mode & 0o077:
        expected = "only its owner may read or write the tokens file"
        hint = f"run chmod 600 {shlex.quote(str(path))}, and replace tokens that others may have read"
        return text, InputError(expected=expected, got=f"mode {mode:04o}", hint=hint)
    return text, None


def read_tokens_file(path: Path) -> tuple[AccessToken, ...]:
    """The tokens of a file; raises InputError if the file or one of its lines cannot be used."""
    text, fault = read_private_file(path)
    if fault is not None:
        raise fault
    return parse_tokens(text)


RECENT_NANOSECONDS = 2_000_000_000  # a file changed so lately may change again without a new time of change


def get_utc_day() -> datetime.date:
    """Today, everywhere the same."""
    return datetime.datetime.now(datetime.UTC).date()


class TokenStore:
    """The tokens that work now: those of the command line and those of the file, as it is now."""

    def __init__(
        self,
        tokens: Mapping[str, str],
        path: Path | None = None,
        get_day: Callable[[], datetime.date] = get_utc_day,
    ) -> None:
        self._path, self._get_day, self._lock = path, get_day, threading.Lock()
        self._fixed = tuple(AccessToken(name, secret) for secret, name in tokens.items())
        self._filed: tuple[AccessToken, ...] = () if path is None else read_tokens_file(path)
        check_repeated((*self._fixed, *self._filed))
        self._state: tuple[int, ...] | None = None  # None: read the file again
        self._told = ""

    @property
    def is_required(self) -> bool:
        """Whether a token is needed at all; that never changes while a server runs."""
        return bool(self._fixed) or self._path is not None

    def list_tokens(self) -> tuple[AccessToken, ...]:
        """All tokens that are not expired, from the file as it is now."""
        with self._lock:
            if self._path is not None:
                self._reload(self._path)
            found = (*self._fixed, *self._filed)
        today = self._get_day()
        return tuple(token for token in found if not token.has_expired(today))

    def find(self, digest: bytes) -> AccessToken | None:
        """The token with a digest; all are compared, each in constant time."""
        found = [token for token in self.list_tokens() if hmac.compare_digest(token.digest, digest)]
        return found[0] if found else None

    def count_users(self) -> int:
        """How many names have a token."""
        return len({token.name for token in (*self._fixed, *self._filed)})

    def _reload(self, path: Path) -> None:
        """Read the file if it is not the one that was read last."""
        state = _look_at(path)
        if state is not None and state == self._state:
            return
        text, fault = read_private_file(path)
        found: tuple[AccessToken, ...] = ()
        if fault is None:
            try:
                found = parse_tokens(text)
                check_repeated((*self._fixed, *found))
            except InputError as error:
                fault = error
        self._filed = found if fault is None else self._keep_standing(text)
        self._tell(path, fault)
        recent = state is None or time.time_ns() - state[-1] < RECENT_NANOSECONDS
        self._state = None if recent else state

    def _keep_standing(self, text: str) -> tuple[AccessToken, ...]:
        """Of the tokens that worked, those that a faulty file still has."""
        words = set(text.split())
        return tuple(token for token in self._filed if token.secret in words)

    def _tell(self, path: Path, fault: InputError | None) -> None:
        """Log a fault once, and that it is gone."""
        message = "" if fault is None else str(fault)
        if message and message != self._told:
            logger.error("%s; no token is added, %d keep working", escape_controls(message), len(self._filed))
        elif self._told and not message:
            logger.warning("the tokens file %s can be used again", escape_controls(repr(str(path))))
        self._told = message


def _look_at(path: Path) -> tuple[int, ...] | None:
    """What tells one version of a file from another without reading it; None if there is no file that can be reached.
    The last number is the time of its last change.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mode, found.st_mtime_ns, found.st_ctime_ns
