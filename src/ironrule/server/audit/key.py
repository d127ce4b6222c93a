"""The key of the chain: 32 secret bytes in a file outside the database.

The hash of every record is made with the key (HMAC-SHA256), so somebody who has the database but not the key can
neither alter a record nor add one without :meth:`~ironrule.server.audit.log.AuditLog.verify` noticing. Records name the
key by its id, from which nobody can compute the key.

The file holds 64 hexadecimal digits, and only its owner may read it. Where none is named, the key is the one in the
user's configuration folder, which is created with the first log.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path

from ironrule.errors import InputError

KEY_BYTES = 32
KEY_PATTERN = re.compile(rb"[0-9a-f]{64}\s*")
MAX_KEY_FILE_BYTES = 1000
CREATE_HINT = "create one with: ironrule audit key --output FILE"
NAME_HINT = "name its file with --audit-key FILE or IRONRULE_AUDIT_KEY_FILE"


@dataclass(frozen=True, slots=True)
class AuditKey:
    """A key, which its text never shows.

    >>> key = AuditKey(bytes(32))
    >>> key
    AuditKey(id='430c058d5bc1ad82')
    >>> key.sign(b"record")[:16]
    'c909db95bf61ed25'
    """

    secret: bytes = field(repr=False)
    id: str = field(init=False)  # what records name

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_BYTES:
            raise InputError(expected=f"an audit key must have {KEY_BYTES} bytes", got=len(self.secret))
        object.__setattr__(self, "id", hashlib.sha256(b"ironrule audit key\0" + self.secret).hexdigest()[:16])

    def sign(self, content: bytes) -> str:
        """The HMAC-SHA256 of some content."""
        return hmac.new(self.secret, content, hashlib.sha256).hexdigest()


def create_key(path: Path) -> AuditKey:
    """Write a new key to a new file that only its owner can read."""
    key = AuditKey(secrets.token_bytes(KEY_BYTES))
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(key.secret.hex().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        hint = "name another file: records can be verified only with the key that they were written with"
        raise InputError(f"the key file already exists: {str(path)!r}", hint=hint, code="output-exists") from None
    except OSError as error:
        statement = f"cannot create the audit key {str(path)!r}: {error.strerror}"
        raise InputError(statement, hint=CREATE_HINT + ", then add --audit-key FILE") from None
    return key


def read_key(path: Path) -> AuditKey:
    """The key in a file; raises InputError if it is not there, is no key, or others may read it."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(MAX_KEY_FILE_BYTES)
    except FileNotFoundError:
        raise InputError(f"audit key not found: {str(path)!r}", hint=CREATE_HINT, code="file-not-found") from None
    except OSError as error:
        statement = f"cannot read the audit key {str(path)!r}: {error.strerror}"
        raise InputError(statement, hint="check the path and its permissions") from None
    if os.name == "posix" and mode & 0o077:
        expected = f"only its owner may read or write the audit key {str(path)!r}"
        raise InputError(expected=expected, got=f"mode {stat.S_IMODE(mode):o}", hint="run chmod 600 on it")
    if not KEY_PATTERN.fullmatch(content):
        expected = f"the audit key {str(path)!r} must be {2 * KEY_BYTES} hexadecimal digits"
        raise InputError(expected=expected, got="something else", hint=CREATE_HINT)
    return AuditKey(bytes.fromhex(content.decode()))


def find_default_key_file() -> Path:
    """Where the key is unless a file is named: in the user's configuration folder, by the platform's convention."""
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    if Path(configured).is_absolute():
        return Path(configured, "ironrule", "audit.key")
    folders = {"win32": ("AppData", "Roaming"), "darwin": ("Library", "Application Support")}
    try:
        return Path.home().joinpath(*folders.get(sys.platform, (".config",)), "ironrule", "audit.key")
    except RuntimeError:
        raise InputError("this user has no home folder for the audit key", hint=NAME_HINT) from None


def open_key(path: Path | None, create: bool) -> tuple[AuditKey, Path]:
    """The key in the named file, else in the default one, which is made if ``create`` is True; and where it is."""
    if path is not None:
        return read_key(path), path
    default = find_default_key_file()
    if create and not default.exists():
        try:
            default.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            statement = f"cannot create the folder of the audit key {str(default)!r}: {error.strerror}"
            raise InputError(statement, hint=CREATE_HINT + ", then add --audit-key FILE") from None
        try:
            return create_key(default), default
        except InputError as error:
            if error.code != "output-exists":  # another server has just created it
                raise
    return read_key(default), default
