"""Machine code of kernels, kept on disk and found again by what it was compiled from.

Numba's own cache finds code by the path and the state of one source file. So every checkout compiles everything again,
and a change of another module, whose helpers are part of a kernel's code, goes unseen. Here a file's name is a hash of
all that the code depends on (:class:`KernelDigest`): the byte code of the kernel and of all functions that it calls,
the constants that they read, the types of the arguments, the versions of Python, Numba, llvmlite and NumPy, and the
processor. Equal content has the same name wherever it is installed, so checkouts and environments share files; a stale
file has a name that is never looked up.

Files are written beside their place and then renamed, so that processes may write at the same time, and begin with a
hash of the rest, so that a damaged file counts as none. The folder is ``IRONRULE_CACHE_DIR``, else a folder in
``NUMBA_CACHE_DIR``, else one in the user's cache folder; where that cannot be written, the package's own
``__pycache__``. Past ``MAX_FOLDER_BYTES`` the files that were not used for longest are removed.

Before that folder, the package's own ``machine_code`` is looked at. Wheels carry it, and editable installs have it,
where the machine that built them could compile (``hatch_build.py``): for a baseline processor (:data:`BASELINE`), so it
serves all that have its features, or for the processor that it was built on. Three quarters of what Numba keeps of a
kernel is its bitcode, which other kernels that call it are compiled with. Files there have it for kernels that are
called by others alone (:func:`drop_bitcode`), which makes a wheel smaller, and kernels quicker to load.

Who may write in that folder runs code as you: it is made readable and writable by its owner only.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import pickle
import sys
import uuid
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import llvmlite
import numba
import numpy as np
from llvmlite import binding
from numba.core import config, serialize, sigutils, types
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.runtime import nrt

SUFFIX = ".kernel"
FORMAT = 4  # of a file's content, and of how kernels are compiled (kernel_pipeline.py)
PRECOMPILED = Path(__file__).parent / "machine_code"
BASELINE = (
    "x86-64-v3",
    "+avx,+avx2,+bmi,+bmi2,+cmov,+crc32,+cx16,+cx8,+f16c,+fma,+fxsr,+lzcnt,+mmx,+movbe,+popcnt,+sahf,"
    "+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave",
)
"""The processor, and its features, that machine code in wheels is compiled for: nearly all since 2013."""
MAX_FOLDER_BYTES = 200_000_000
MACHINE_CODE = "machine code"  # the kind of a library that is kept without bitcode, where Numba's own are "object"
_HASH_BYTES = hashlib.sha256().digest_size
# What the compiler can be told by environment variables that changes its code:
_SETTINGS = (
    "OPT",
    "LOOP_VECTORIZE",
    "SLP_VECTORIZE",
    "BOUNDSCHECK",
    "DEBUGINFO_DEFAULT",
    "ENABLE_PROFILING",
    "USING_SVML",
)
_VERSIONS = (sys.implementation.cache_tag, numba.__version__, llvmlite.__version__, np.__version__)
_EXTERNAL = ("numpy", "numba", "math", "builtins", "operator")  # packages whose versions stand for their content
# Numba's types do not say what these are:
_normalize_signature: Any = sigutils.normalize_signature
_dump: Any = serialize.dumps
_rebuild: Any = getattr(CompileResult, "_rebuild", None)
_start_runtime: Any = getattr(getattr(nrt, "rtsys", None), "initialize", None)
_log = logging.getLogger("ironrule")


class UnknownDependencyError(Exception):
    """A kernel depends on something that has no known content, so its machine code is not kept."""


class KernelDigest:
    """A hash of all that the code of a kernel depends on, apart from the types of its arguments."""

    def __init__(self, dispatcher: Any) -> None:
        self._hash = hashlib.sha256()
        self._functions: list[
            FunctionType
        ] = []  # each is described once, and named by its place: they may be recursive
        self._places: dict[FunctionType, int] = {}
        self._describe(dispatcher)
        for function in self._functions:  # which grows meanwhile
            self._describe_function(function)

    @property
    def functions(self) -> tuple[FunctionType, ...]:
        """The kernel's own function, and all that it calls, itself or by others."""
        return tuple(self._functions)

    def hexdigest(self) -> str:
        """The hash as text."""
        return self._hash.hexdigest()

    def _add(self, *parts: object) -> None:
        self._hash.update(repr(parts).encode())

    def _describe(self, value: Any) -> None:
        # The type counts: 1, 1.0 and True are equal, and compile to different code.
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            self._add(type(value).__name__, value)
        elif isinstance(value, np.generic | np.ndarray):
            if value.dtype.hasobject:
                raise UnknownDependencyError(repr(value))
            fields = () if value.dtype.names is None else (repr(value.dtype),)  # their names are not in ``str``
            self._add("array", value.dtype.str, value.shape, value.tobytes(), *fields)
        elif isinstance(value, tuple) and type(value) is tuple:
            self._add("tuple", len(value))
            for item in value:
                self._describe(item)
        elif isinstance(value, CodeType):
            self._describe_code(value)
        elif isinstance(value, Dispatcher):
            self._add("dispatcher", sorted((name, repr(option)) for name, option in value.targetoptions.items()))
            self._refer_to(value.py_func)
        elif isinstance(value, FunctionType):
            self._refer_to(value)
        elif isinstance(value, types.Type):
            self._add("type", repr(describe_type(value)))
        elif isinstance(getattr(value, "_defn", None), FunctionType):  # an intrinsic: what generates its code
            self._add("intrinsic")
            self._refer_to(value._defn)
        else:
            self._describe_external(value)

    def _describe_external(self, value: Any) -> None:
        """What belongs to a package whose version is part of the name."""
        home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
        name = getattr(value, "__qualname__", getattr(value, "__name__", None))
        if home.partition(".")[0] not in _EXTERNAL or name is None:
            raise UnknownDependencyError(repr(value))
        self._add("external", home, name)

    def _refer_to(self, function: FunctionType) -> None:
        if function.__module__ and function.__module__.partition(".")[0] in _EXTERNAL:
            self._describe_external(function)
            return
        if function not in self._places:
            self._places[function] = len(self._functions)
            self._functions.append(function)
        self._add("function", self._places[function])

    def _describe_function(self, function: FunctionType) -> None:
        self._describe(function.__code__)
        for default in function.__defaults__ or ():
            self._describe(default)
        for cell in function.__closure__ or ():
            self._describe(cell.cell_contents)
        for name in _list_globals(function.__code__):
            self._add("global", name)
            if name in function.__globals__:
                self._describe(function.__globals__[name])

    def _describe_code(self, code: CodeType) -> None:
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        self._add("code", code.co_name, code.co_code, code.co_exceptiontable, names, counts, len(code.co_consts))
        for constant in code.co_consts:
            if isinstance(constant, frozenset):  # whose order differs between processes
                self._add("set", sorted(map(repr, constant)))
            else:
                self._describe(constant)


@functools.cache  # most helpers are part of several kernels
def _list_globals(code: CodeType) -> tuple[str, ...]:
    """The names that code may read from its module or from the builtins, those of functions within it too, sorted.

    Names of attributes are among them, which does no harm, and saves taking the code apart.
    """
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.update(_list_globals(constant))
    return tuple(sorted(names))


def describe_type(kind: Any) -> object:
    """A Numba type as plain values that are the same in every process."""
    is_tuple, is_named = isinstance(kind, types.BaseTuple), isinstance(kind, types.BaseNamedTuple)
    name = type(kind).__name__
    if is_named:
        home = kind.instance_class
        return name, home.__module__, home.__qualname__, kind.fields, [describe_type(item) for item in kind]
    if is_tuple:
        return name, [describe_type(item) for item in kind]
    return name, str(kind)  # for arrays: items, dimensions, layout, whether writable and aligned


class KernelCache:
    """The machine code of one kernel on disk, in the place of Numba's own cache."""

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher
        self._name = f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__name__}"

    @property
    def cache_path(self) -> str:
        """The folder that is tried first."""
        return str(list_folders()[0])

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled kernel for these types of arguments, or None where it is not there."""
        arguments = _normalize_signature(sig)[0]
        content, target = self._compute_digest(), target_context.codegen().magic_tuple()
        kept = None
        if content is not None and has_baseline(target):
            kept = read_file(self._build_name(content, arguments, (target[0], *BASELINE)), [PRECOMPILED])
        if content is not None and kept is None:
            kept = read_file(self._build_name(content, arguments, target), [PRECOMPILED, *list_folders()])
        if kept is None:
            return None
        compiled = rebuild_kernel(target_context, kept)
        return compiled if compiled.signature.args == arguments else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled kernel."""
        if any(not lifted.can_cache for lifted in data.lifted) or data.library.has_dynamic_globals:
            return  # it holds addresses of this process
        content = self._compute_digest()
        if content is not None:
            name = self._build_name(content, _normalize_signature(sig)[0], data.codegen.magic_tuple())
            write_file(name, describe_kernel(data._reduce()), list_folders())

    def build_file_name(self, sig: Any, target_context: Any) -> str | None:
        """The name of the file with the code for these types of arguments; None if it is not kept."""
        content = self._compute_digest()
        target = target_context.codegen().magic_tuple()
        return None if content is None else self._build_name(content, _normalize_signature(sig)[0], target)

    def flush(self) -> None:
        """Nothing is kept in memory."""

    def enable(self) -> None:
        """It always is."""

    def disable(self) -> None:
        """Keep nothing from now on."""
        self._dispatcher._cache = NullCache()

    def _compute_digest(self) -> str | None:
        try:
            return KernelDigest(self._dispatcher).hexdigest()
        except UnknownDependencyError as error:
            _log.warning("the machine code of %s is not kept, since it depends on %s", self._name, error)
            return None

    def _build_name(self, content: str, arguments: Any, target: tuple[str, str, str]) -> str:
        settings = [str(getattr(config, name, None)) for name in _SETTINGS]
        signature = [describe_type(kind) for kind in arguments]
        key = repr((FORMAT, _VERSIONS, target, settings, signature, content))
        return f"{self._name}-{hashlib.sha256(key.encode()).hexdigest()[:40]}{SUFFIX}"


class KeptKernel(NamedTuple):
    """What is kept of a kernel: what Numba keeps, and the names of the functions and variables that it finds in the
    process; None where they are not known.
    """

    reduced: Any
    external_names: tuple[str, ...] | None


def describe_kernel(reduced: Any) -> KeptKernel:
    """What is kept of a kernel with its bitcode, from which the names are read."""
    _, kind, data = reduced[0]
    if kind != "object" or not isinstance(data, tuple) or len(data) != 2:
        return KeptKernel(reduced, None)
    module = binding.parse_bitcode(data[1])
    declared = {item.name for item in (*module.functions, *module.global_variables) if item.is_declaration}
    return KeptKernel(reduced, tuple(sorted(name for name in declared if not name.startswith("llvm."))))


def drop_bitcode(kept: KeptKernel) -> KeptKernel:
    """What is kept of a kernel that no other kernel calls: its machine code, without bitcode and without the text of
    its types, which Numba only shows. As it was, where this version of Numba keeps something else.
    """
    (name, _, data), described, environment, signature, mode, lifted, _, *more = kept.reduced
    if kept.external_names is None:
        return kept
    library = name, MACHINE_CODE, data[0]
    return kept._replace(reduced=(library, described, environment, signature, mode, lifted, "", *more))


def rebuild_kernel(target_context: Any, kept: KeptKernel) -> Any:
    """A compiled kernel from what was kept of it."""
    prepare_process(target_context, kept.external_names)
    (name, kind, code), described, *more = kept.reduced
    if kind != MACHINE_CODE:
        return _rebuild(target_context, *kept.reduced)
    # Numba learns from bitcode which functions there are. It asks for the one that Python calls.
    entry = f'define void @"{described.llvm_cpython_wrapper_name}"() {{ unreachable }}'
    library = (name, "object", (code, binding.parse_assembly(entry).as_bitcode()))
    compiled = _rebuild(target_context, library, described, *more)
    compiled.library._shared_module = None  # so that Numba refuses to compile another kernel with it
    return compiled


def prepare_process(target_context: Any, external_names: tuple[str, ...] | None) -> None:
    """Have LLVM know what machine code calls. Numba makes all that it can compile known first, which takes longer than
    loading ten kernels; machine code needs its runtime, and only if something is unknown then, the rest.
    """
    if external_names is not None and callable(_start_runtime):
        _start_runtime(target_context)
        if all(binding.address_of_symbol(name) is not None for name in external_names):
            return
    target_context.refresh()


def has_baseline(target: tuple[str, str, str]) -> bool:
    """Whether code for the baseline processor runs on this one: a triple, a name, and features such as "+avx2"."""
    triple, _, features = target
    return triple.startswith("x86_64-") and set(BASELINE[1].split(",")) <= set(features.split(","))


def is_supported(dispatcher: Any) -> bool:
    """Whether this version of Numba has what a cache of one's own needs, none of which it promises to keep."""
    operations = ("load_overload", "save_overload", "flush", "enable", "disable", "cache_path")
    return (
        isinstance(getattr(dispatcher, "_cache", None), NullCache)
        and all(hasattr(NullCache, name) for name in operations)
        and isinstance(getattr(dispatcher, "targetoptions", None), dict)
        and callable(_rebuild)
        and callable(getattr(CompileResult, "_reduce", None))
        and hasattr(dispatcher.targetctx.codegen(), "magic_tuple")
    )


def list_folders() -> list[Path]:
    """Where machine code is kept: the best folder first."""
    folders = []
    if chosen := os.environ.get("IRONRULE_CACHE_DIR"):
        folders.append(Path(chosen).absolute())
    elif numbas := getattr(config, "CACHE_DIR", ""):
        folders.append(Path(numbas).absolute() / "ironrule")
    elif (home := _find_user_folder()).is_absolute():
        folders.append(home)
    return [*folders, Path(__file__).parent / "__pycache__"]


def _find_user_folder() -> Path:
    """By the conventions of the platform; relative if no home folder is known."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "")) / "ironrule" / "Cache"
    if sys.platform == "darwin":
        return Path(os.path.expanduser("~/Library/Caches/ironrule"))
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "ironrule"


def read_file(name: str, folders: Iterable[Path]) -> Any:
    """What was kept under a name; None if there is nothing, or if it is damaged."""
    for folder in folders:
        path = folder / name
        try:
            content = memoryview(path.read_bytes())
        except OSError:
            continue
        if hashlib.sha256(content[_HASH_BYTES:]).digest() != content[:_HASH_BYTES]:
            _log.info("%s is damaged: it is compiled again", path)
            continue
        if folder != PRECOMPILED:
            with suppress(OSError):
                os.utime(path)  # so that the files that are not used for longest are known
        return pickle.loads(zlib.decompress(content[_HASH_BYTES:]))
    return None


def write_file(name: str, value: Any, folders: Iterable[Path]) -> None:
    """Keep a value under a name, in the first folder that can be written, if there is one."""
    body = zlib.compress(_dump(value), level=9)
    for folder in folders:
        temporary = folder / f"{name}.{uuid.uuid4().hex[:16]}"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary.write_bytes(hashlib.sha256(body).digest() + body)
            os.replace(temporary, folder / name)
        except OSError as error:
            _log.debug("%s: %s", folder, error)
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        else:
            remove_oldest(folder, MAX_FOLDER_BYTES)
            return
    _log.info("compiled code cannot be kept: no folder can be written; set IRONRULE_CACHE_DIR to one that can")


def remove_oldest(folder: Path, limit: int) -> None:
    """Remove files that were not used for longest, until the others have at most ``limit`` bytes."""
    states = []
    for path in folder.iterdir():
        with suppress(OSError):  # another process may have removed it
            if SUFFIX in path.name:
                states.append((path.stat(), path))
    left = sum(state.st_size for state, _ in states)
    for state, path in sorted(states, key=lambda one: one[0].st_mtime_ns):
        if left <= limit:
            return
        with suppress(OSError):  # or be reading it
            path.unlink()
            left -= state.st_size
