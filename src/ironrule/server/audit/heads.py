"""Heads: the number, time and hash of each record, written to a second place as records are appended.

A chain that was cut off, or made anew by somebody who has the key, agrees with itself. It does not agree with heads
that were written before and are kept where that person cannot change them: a file on another machine or on a medium
that can only be appended to, or the system's log.

A line of a heads file is ``NUMBER TIME HASH``. In the system's log the words ``ironrule audit head`` come before that,
so a file of that log can be compared as it is.
"""

from __future__ import annotations

import itertools
import os
import re
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ironrule.errors import AuditError, InputError
from ironrule.server.audit.database import FileIdentity
from ironrule.server.audit.record import AuditRecord, ChainEnd

SYSLOG_PREFIX = "syslog:"
HEAD_WORDS = "ironrule audit head"
HEAD_PATTERN = re.compile(rf"(?:^|{HEAD_WORDS} )([1-9]\d{{0,18}}) \d{{4}}-\d\d-\d\dT[0-9:.+]+ ([0-9a-f]{{64}})\s*$")
MAX_LINE_BYTES, MAX_READ_BYTES = 200, 10_000  # of a line that we write, and that we read
SYSLOG_PRIORITY = 4 * 8 + 6  # facility auth, severity informational
LOCAL_SYSLOG = {"linux": "/dev/log", "darwin": "/var/run/syslog"}


def format_head(record: AuditRecord | ChainEnd) -> str:
    """One head as a line.

    >>> format_head(ChainEnd(3, "ab" * 32, "2026-11-18T10:00:00.000000+00:00"))[:40]
    '3 2026-11-18T10:00:00.000000+00:00 ababa'
    """
    return f"{record.number} {record.recorded_at} {record.hash}"


class HeadWriter(Protocol):
    """Where heads are written; both methods raise AuditError if that is not possible."""

    name: str
    is_new: bool  # whether no head is there yet, as far as one can know

    def check(self) -> None:
        """See, before a record is committed, that its head can be written."""

    def write(self, head: ChainEnd) -> None:
        """Write one head; it is stored when this returns."""

    def close(self) -> None:
        """Write no more."""


class HeadsFile:
    """A file of heads, which is only ever appended to."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        try:
            self._file = path.open("a+b", buffering=0)
            self._identity = FileIdentity.from_path(path.absolute())
            self._file.seek(max(0, self._file.seek(0, os.SEEK_END) - MAX_LINE_BYTES))
            end = self._file.read(MAX_LINE_BYTES)
            self.is_new = len(end) < MAX_LINE_BYTES and b"\n" not in end
            self._is_cut_off = bool(end) and not end.endswith(b"\n")  # by a crash
        except OSError as error:
            statement = f"cannot write heads of the audit log to {str(path)!r}: {error.strerror}"
            raise InputError(statement, hint="check --audit-heads") from None

    def check(self) -> None:
        """See that the file is still there."""
        self._identity.require_same("the file of heads of the audit log")

    def write(self, head: ChainEnd) -> None:
        """Append a line, and bring it to the disk."""
        line = (f"\n{format_head(head)}\n" if self._is_cut_off else f"{format_head(head)}\n").encode()
        try:
            self._is_cut_off = True
            if self._file.write(line) != len(line):
                raise AuditError(f"cannot write a head of the audit log to {self.name!r}: the disk is full")
            self._is_cut_off = False
            os.fsync(self._file.fileno())
        except OSError as error:
            raise AuditError(f"cannot write a head of the audit log to {self.name!r}: {error.strerror}") from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class SystemLogHeads:
    """Heads to the log of this system, or by UDP to that of another one (``syslog:host:port``)."""

    is_new = False

    def __init__(self, target: str) -> None:
        self.name = target
        self._family, self._address = _parse_syslog_address(target)
        try:
            self._socket = self._connect()
        except OSError as error:
            statement = f"cannot reach the system log {target!r}: {error.strerror}"
            raise InputError(statement, hint="check --audit-heads") from None

    def check(self) -> None:
        """Whether a message arrives cannot be known before."""

    def write(self, head: ChainEnd) -> None:
        """Send one message; once more over a new connection, since the system's log may have been restarted."""
        message = f"<{SYSLOG_PRIORITY}>{HEAD_WORDS} {format_head(head)}".encode()
        try:
            try:
                self._socket.send(message)
            except OSError:
                self._socket.close()
                self._socket = self._connect()
                self._socket.send(message)
        except OSError as error:
            raise AuditError(f"cannot write a head of the audit log to {self.name!r}: {error.strerror}") from None

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _connect(self) -> socket.socket:
        made = socket.socket(self._family, socket.SOCK_DGRAM)
        try:
            made.connect(self._address)
        except OSError:
            made.close()
            raise
        return made


def _parse_syslog_address(target: str) -> tuple[int, str | tuple[str, int]]:
    """The family and the address of a socket."""
    host, _, port = target.removeprefix(SYSLOG_PREFIX).rpartition(":")
    if target == SYSLOG_PREFIX:
        local = LOCAL_SYSLOG.get(sys.platform)
        if local is None:
            raise InputError("there is no local system log on this platform", hint="name one: syslog:host:514")
        return socket.AF_UNIX, local
    if not (host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise InputError(expected="the system log must be syslog: or syslog:host:port", got=repr(target))
    try:
        family, *_, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
    except OSError as error:
        raise InputError(f"cannot reach the system log {target!r}: {error.strerror}") from None
    return family, (str(address[0]), int(address[1]))


def open_head_writer(target: str) -> HeadWriter:
    """A writer to a file, or to the system's log where the target begins with ``syslog:``."""
    return SystemLogHeads(target) if target.startswith(SYSLOG_PREFIX) else HeadsFile(Path(target))


@dataclass(frozen=True, slots=True)
class KeptHead:
    """A head that was read again, and where."""

    number: int
    hash: str
    place: str


def read_heads(path: Path) -> Iterator[KeptHead]:
    """The heads in a file, in its order; lines of other programs, and one that a crash cut off, are passed over."""
    try:
        with path.open("rb") as file:
            line_number, at_start = 1, True
            while piece := file.readline(MAX_READ_BYTES):  # of a line that has no end, a piece at a time
                found = HEAD_PATTERN.search(piece.decode("utf-8", "replace")) if at_start else None
                if found is not None:
                    yield KeptHead(int(found[1]), found[2], f"line {line_number} of {str(path)!r}")
                at_start = piece.endswith(b"\n")
                line_number += at_start
    except FileNotFoundError:
        statement = f"file of heads not found: {str(path)!r}"
        raise InputError(statement, hint="check --heads", code="file-not-found") from None
    except OSError as error:
        statement = f"cannot read the file of heads {str(path)!r}: {error.strerror}"
        raise InputError(statement, hint="check --heads") from None


def read_head_portions(paths: Sequence[Path], size: int) -> Iterator[Sequence[KeptHead]]:
    """The heads of several files, some at a time; raises InputError for a file that has none."""
    for path in paths:
        heads, empty = read_heads(path), True
        while portion := list(itertools.islice(heads, size)):
            empty = False
            yield portion
        if empty:
            expected = f"the file of heads {str(path)!r} must have lines such as 'NUMBER TIME HASH'"
            raise InputError(expected=expected, got="none", hint="check --heads")
