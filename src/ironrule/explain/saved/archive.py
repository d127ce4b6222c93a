"""The file of a saved explainer: a ZIP archive of two JSON texts and some plain arrays, which runs no code when opened.

    manifest.json     what the file is: its format, versions, fingerprints, and the SHA-256 of every other part
    explainer.json    the explainer as plain data, which refers to stretches of the arrays
    arrays/f8.npy     all numbers of one type, end to end

Whoever wrote a file may be hostile. Nothing is unpacked to disk, so names of parts lead nowhere; a part that is not
known, repeated, encrypted or too large is refused before it is read; arrays are of plain types, never pickles; and
every part must have the digest that the manifest names. What the parts mean is checked where they are decoded.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ironrule.arrays import AnyArray
from ironrule.errors import InputError, StorageError, build_format_error, describe_value
from ironrule.verdict.digest import DIGEST_FIELD, add_digest, compute_digest

FILE_FORMAT, SEVERAL_MODELS_FORMAT = 1, 2  # the second has further models
KIND = "ironrule explainer"
MANIFEST, EXPLAINER = "manifest.json", "explainer.json"
ARRAY_TYPES = ("f8", "f4", "i8", "i4", "u4", "u2", "u1")
ARRAY_PARTS = {f"arrays/{kind}.npy": np.dtype(f"<{kind}") for kind in ARRAY_TYPES}
MAX_MANIFEST_BYTES = 1_000_000
MAX_DOCUMENT_BYTES = 200_000_000
MAX_ARRAY_BYTES = 2_000_000_000  # of all arrays together
MAX_RATIO = 1_000  # unpacked to packed
FREE_BYTES = 10_000_000  # below it, no ratio is too high
CHUNK = 1 << 20
EARLIEST = (1980, 1, 1, 0, 0, 0)  # the time of every part, so that equal explainers give equal files but for their date


class ArrayPool:
    """Arrays that are written end to end, one file for each type."""

    def __init__(self) -> None:
        self.parts: dict[str, list[AnyArray]] = {kind: [] for kind in ARRAY_TYPES}
        self.sizes = dict.fromkeys(ARRAY_TYPES, 0)

    def add(self, array: AnyArray) -> list[Any]:
        """Keep an array; what refers to it: its type, where it begins, and its shape."""
        plain = array.view(np.uint8) if array.dtype == np.bool_ else array
        kind = plain.dtype.str[1:]
        if kind not in self.parts:
            raise ValueError(f"arrays of {array.dtype} are not stored")
        start = self.sizes[kind]
        self.parts[kind].append(np.ascontiguousarray(plain).ravel())
        self.sizes[kind] += plain.size
        return [kind, start, *plain.shape]

    def join(self) -> dict[str, AnyArray]:
        """Every type that is there, as one array."""
        return {kind: np.concatenate(parts) for kind, parts in self.parts.items() if parts}


@dataclass(frozen=True, slots=True)
class StoredParts:
    """What a file holds, read and found whole: the manifest, the document and the arrays by type."""

    manifest: Mapping[str, Any]
    document: Mapping[str, Any]
    arrays: Mapping[str, AnyArray] = field(repr=False)

    def get_array(self, reference: Any, kind: str, dimensions: int = 1) -> AnyArray:
        """The array that a reference stands for, which must be of this type; raises InputError if there is none."""
        is_list = isinstance(reference, list) and len(reference) == 2 + dimensions and reference[0] == kind
        if not is_list or not all(type(number) is int and number >= 0 for number in reference[1:]):
            raise build_damage_error(f"a reference to an array of {kind}", describe_value(reference))
        start, *shape = reference[1:]
        size, stored = 1, self.arrays.get(kind, np.zeros(0))
        for length in shape:
            size *= length
        if start + size > len(stored):
            raise build_damage_error(f"an array of {kind} that is there", f"{size:,} numbers from {start:,} on")
        return stored[start : start + size].reshape(shape)


def build_damage_error(expected: str, got: object) -> InputError:
    """The error for a part that makes no sense: the file is damaged, or was not written by Ironrule."""
    return InputError(expected=f"the file of a saved explainer must have {expected}", got=got, code="bad-saved-file")


def write_archive(
    path: Path,
    about: Mapping[str, Any],
    document: Mapping[str, Any],
    pool: ArrayPool,
    overwrite: bool = False,
    several: bool = False,
) -> None:
    """Write a file; raises StorageError if that is not possible, InputError if it exists and may not be replaced."""
    if path.exists() and not overwrite:
        hint = "pass overwrite=True to replace it"
        raise InputError(f"the file {str(path)!r} exists already", hint=hint, code="file-exists")
    parts = {EXPLAINER: json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode("ascii")}
    for kind, array in pool.join().items():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array.astype(f"<{kind}", copy=False), version=(1, 0), allow_pickle=False)
        parts[f"arrays/{kind}.npy"] = buffer.getvalue()
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in parts.items()}
    file_format = SEVERAL_MODELS_FORMAT if several else FILE_FORMAT
    manifest = add_digest({"kind": KIND, "format": file_format, **about, "parts": digests})
    temporary = path.with_name(f"{path.name}.part")
    try:
        with zipfile.ZipFile(temporary, "w") as archive:
            for name, content in {MANIFEST: json.dumps(manifest, indent=1).encode(), **parts}.items():
                entry = zipfile.ZipInfo(name, EARLIEST)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, content)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StorageError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def read_archive(path: Path) -> StoredParts:
    """Read a file; raises InputError, which says what is wrong, if it is none, damaged, or larger than allowed."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(f"the saved explainer {str(path)!r} {what}", hint="check the path", code="file-not-found")
    try:
        with zipfile.ZipFile(path) as archive:
            return _read_parts(archive)
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
    except Exception as error:  # a broken archive fails in as many ways as there are bytes
        raise build_damage_error("the parts of a ZIP archive", f"{type(error).__name__}: {error}") from error


def _read_parts(archive: zipfile.ZipFile) -> StoredParts:
    entries = _check_entries(archive.infolist())
    manifest = _parse_json(_read_entry(archive, entries[MANIFEST]), MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("kind") != KIND:
        raise build_damage_error(f"the kind {KIND!r} in its manifest", "another")
    if manifest.get("format") not in (FILE_FORMAT, SEVERAL_MODELS_FORMAT):
        raise build_format_error("a saved explainer", FILE_FORMAT, manifest.get("format"), "save the explainer again")
    if manifest.get(DIGEST_FIELD) != compute_digest(manifest):
        raise InputError("digest mismatch: the manifest was modified after it was written", code="digest-mismatch")
    digests = manifest.get("parts")
    if not isinstance(digests, dict) or set(digests) != set(entries) - {MANIFEST} or EXPLAINER not in digests:
        raise build_damage_error("the parts that its manifest names", ", ".join(sorted(entries)))
    contents = {name: _read_entry(archive, entries[name]) for name in digests}
    for name, content in contents.items():
        if hashlib.sha256(content).hexdigest() != digests[name]:
            raise InputError(f"digest mismatch: {name} was modified after it was written", code="digest-mismatch")
    document = _parse_json(contents.pop(EXPLAINER), EXPLAINER)
    if not isinstance(document, dict):
        raise build_damage_error("an object in explainer.json", type(document).__name__)
    return StoredParts(manifest, document, {name[7:9]: _read_array(name, part) for name, part in contents.items()})


def _check_entries(listed: Sequence[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """The parts by name; raises InputError if one is unknown, there twice, encrypted or too large."""
    entries = {entry.filename: entry for entry in listed}
    unknown = sorted(set(entries) - {MANIFEST, EXPLAINER, *ARRAY_PARTS})
    if unknown:
        raise build_damage_error("known parts alone", describe_value(unknown[0]))
    if len(entries) < len(listed):
        raise build_damage_error("each part once", "one of them twice")
    if MANIFEST not in entries:
        raise build_damage_error("a manifest.json", "none")
    if any(entry.flag_bits & 1 for entry in listed):
        raise build_damage_error("parts that are not encrypted", "an encrypted one")
    if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in listed):
        raise build_damage_error("parts that are stored or deflated", "another compression")
    limits = {MANIFEST: MAX_MANIFEST_BYTES, EXPLAINER: MAX_DOCUMENT_BYTES}
    for name, entry in entries.items():
        limit = limits.get(name, MAX_ARRAY_BYTES)
        if entry.file_size > limit:
            raise build_damage_error(f"at most {limit:,} bytes in {name}", f"{entry.file_size:,}")
        if entry.file_size > max(FREE_BYTES, MAX_RATIO * entry.compress_size):
            raise build_damage_error(f"{name} at most {MAX_RATIO} times its packed size", f"{entry.file_size:,} bytes")
    total = sum(entry.file_size for entry in listed)
    if total > MAX_ARRAY_BYTES + MAX_DOCUMENT_BYTES:
        raise build_damage_error(f"at most {MAX_ARRAY_BYTES:,} bytes", f"{total:,}")
    return entries


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """A part, read no further than its directory says that it goes."""
    pieces, left = [], entry.file_size
    with archive.open(entry) as opened:
        while piece := opened.read(min(CHUNK, left + 1)):
            pieces.append(piece)
            left -= len(piece)
            if left < 0:
                raise build_damage_error(f"{entry.file_size:,} bytes in {entry.filename}", "more")
    return b"".join(pieces)


def _parse_json(content: bytes, name: str) -> Any:
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise build_damage_error(f"JSON in {name}", f"{type(error).__name__}: {error}") from None


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _read_array(name: str, content: bytes) -> AnyArray:
    """An array of the type that its name says; the header is looked at before anything is made of it."""
    buffer = io.BytesIO(content)
    if np.lib.format.read_magic(buffer) != (1, 0):
        raise build_damage_error(f"an array of NumPy's format 1.0 in {name}", "another")
    shape, in_columns, dtype = np.lib.format.read_array_header_1_0(buffer)
    data = content[buffer.tell() :]
    fits = len(shape) == 1 and not in_columns and dtype == ARRAY_PARTS[name] and len(data) == shape[0] * dtype.itemsize
    if not fits:
        raise build_damage_error(f"one list of {ARRAY_PARTS[name]} in {name}", f"{dtype} of shape {shape}")
    return np.frombuffer(data, dtype=dtype).astype(dtype.newbyteorder("="))
