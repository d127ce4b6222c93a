"""Handing an explainer to other processes without copies.

It is pickled once, its arrays apart: they lie one behind the other in a file, and every process maps that file into its
memory. The operating system keeps one copy of it for all. Arrays that are mapped from files already, such as the codes
of a long history, stay in these. What somebody writes into a mapped array is his alone.
"""

from __future__ import annotations

import io
import mmap
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ALIGNED = 64
MAPPED_BYTES = 1 << 20  # arrays from files that are smaller are copied


def written(thing: Any, folder: Path) -> Path:
    """Write anything that can be pickled, functions of a script included; raises what pickling it raises."""
    content, buffers = pickled(thing)
    path, sizes = folder / "handover", [buffer.raw().nbytes for buffer in buffers]
    with open(path, "wb") as file:
        for buffer in buffers:
            file.write(buffer.raw())
            file.write(bytes(-file.tell() % ALIGNED))
        begins = file.tell()
        pickle.dump((sizes, content), file)
        file.write(begins.to_bytes(8, "little"))
    return path


def pickled(thing: Any, in_files: bool = True) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """A thing and, apart, its arrays; those that are mapped from files stay there, or come along as others do."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    _pickler(stream, buffers, in_files).dump(thing)
    return stream.getvalue(), buffers


def read(path: Path) -> Any:
    """What was written, its arrays mapped."""
    with open(path, "rb") as file:
        file.seek(-8, io.SEEK_END)
        file.seek(int.from_bytes(file.read(8), "little"))
        sizes, pickled = pickle.load(file)  # our own
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    begins = np.cumsum([0, *(size + -size % ALIGNED for size in sizes)]).tolist()
    return pickle.loads(pickled, buffers=[content[a : a + size] for a, size in zip(begins, sizes, strict=False)])


def _pickler(stream: io.BytesIO, buffers: list[pickle.PickleBuffer], in_files: bool) -> Any:
    """One that also takes functions of a script, and may leave arrays that are mapped from a file in it."""
    try:
        import cloudpickle  # type: ignore[import-untyped,unused-ignore]  # joblib needs it, and scikit-learn joblib
    except ImportError:
        from joblib.externals import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, thing: Any) -> Any:
            origin = _origin(thing) if in_files and isinstance(thing, np.ndarray) else None
            return super().reducer_override(thing) if origin is None else (_mapped, origin)

    return Pickler(stream, protocol=5, buffer_callback=buffers.append)


def _origin(array: npt.NDArray[Any]) -> tuple[str, str, int, tuple[int, ...]] | None:
    """The file, type, place and shape of an array that is mapped from a file."""
    base: Any = array
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    if not isinstance(base, np.memmap) or not array.flags.c_contiguous or array.nbytes < MAPPED_BYTES:
        return None
    while isinstance(base.base, np.memmap):
        base = base.base
    place = base.offset + array.ctypes.data - base.ctypes.data
    return str(base.filename), array.dtype.str, place, array.shape


def _mapped(file: str, dtype: str, place: int, shape: tuple[int, ...]) -> Any:
    return np.asarray(np.memmap(file, dtype=dtype, mode="c", offset=place, shape=shape))
