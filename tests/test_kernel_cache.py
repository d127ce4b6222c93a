"""Machine code on disk is found by content: by equal content wherever it lies, and never after a change."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import config, event, types
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

import ironrule
from ironrule import jit, kernel_cache
from ironrule.kernel_cache import (
    KernelCache,
    KernelDigest,
    UnknownDependencyError,
    describe_kernel,
    describe_type,
    drop_bitcode,
    has_baseline,
    read_file,
    write_file,
)

PACKAGE = Path(ironrule.__file__).parent
HELPERS = """
from ironrule.jit import kernel_helper
STEP = 2
WEIGHT = 0.5

@kernel_helper
def step_down(number):
    return number if number < 1 else number - STEP

@kernel_helper
def step(number):
    return (number + STEP) * WEIGHT + step_down(number) - step_down(number)
"""
KERNELS = """
import numpy as np
from ironrule.jit import kernel, kernel_helper, popcount
from kept_helpers import step

MASK = np.uint64(7)

@kernel_helper
def middle(number):
    return step(number)

@kernel
def run(numbers):
    total = 0.0
    for number in numbers:
        total += middle(number) + popcount(MASK)
    return total
"""
NUMBERS = np.array([1, 2], dtype=np.int64)
RESULT = (3 + 4) * 0.5 + 2 * 3


class CompiledNames(event.Listener):
    """The names of what is compiled."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_start(self, event: Any) -> None:
        self.names.append(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event: Any) -> None:
        pass


@pytest.fixture
def compiled() -> Iterator[list[str]]:
    listener = CompiledNames()
    event.register("numba:compile", listener)
    yield listener.names
    event.unregister("numba:compile", listener)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("IRONRULE_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def load_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Write both modules into a new folder, import them from there, and give the kernel."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(helpers: str = HELPERS, kernels: str = KERNELS) -> Any:
        folder = tmp_path / f"checkout{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        for name, text in (("kept_helpers", helpers), ("kept_kernels", kernels)):
            (folder / f"{name}.py").write_text(text)
            monkeypatch.delitem(sys.modules, name, raising=False)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(folder))
            importlib.invalidate_caches()
            module = importlib.import_module("kept_kernels")
        for name in ("kept_helpers", "kept_kernels"):
            monkeypatch.delitem(sys.modules, name)
        return module.run

    return load


def list_kernels() -> list[Any]:
    """All kernels of the package."""
    found: dict[str, Any] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if "@kernel\n" in path.read_text():
            module = importlib.import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
            found |= {
                f"{module.__name__}.{name}": value
                for name, value in vars(module).items()
                if isinstance(value, Dispatcher) and value.py_func.__module__ == module.__name__
            }
    return [one for _, one in sorted(found.items()) if isinstance(one._cache, KernelCache)]


def print_digests() -> None:
    """One line per kernel of the package; another process compares them."""
    for one in list_kernels():
        print(one.py_func.__module__, one.py_func.__name__, KernelDigest(one).hexdigest())


def test_what_this_version_of_numba_promises_nobody_is_there() -> None:
    """Where this fails, kernels use Numba's own cache: see ``is_supported``."""
    count = sum(path.read_text().count("@kernel\n") for path in PACKAGE.rglob("*.py"))
    assert len(list_kernels()) == count > 40


def test_equal_content_has_the_same_name_in_every_process(capsys: pytest.CaptureFixture[str]) -> None:
    print_digests()
    own = capsys.readouterr().out
    program = "from tests.test_kernel_cache import print_digests; print_digests()"
    environment = os.environ | {"PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == own, done.stderr
    assert len(set(own.splitlines())) == len(own.splitlines()) == len(list_kernels())


@pytest.mark.usefixtures("cache")
def test_equal_content_elsewhere_is_found(load_run: Callable[..., Any], compiled: list[str]) -> None:
    assert load_run()(NUMBERS) == RESULT
    assert set(compiled) == {"run", "middle", "step", "step_down"}
    compiled.clear()
    assert load_run()(NUMBERS) == RESULT
    assert load_run("# a comment\n" + HELPERS.replace("2\n", "2  # and another\n"))(NUMBERS) == RESULT
    assert compiled == []


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    ("helpers", "kernels", "expected"),
    [
        (HELPERS.replace("STEP = 2", "STEP = 3"), KERNELS, RESULT + 1),
        (HELPERS.replace("WEIGHT = 0.5", "WEIGHT = 0.25"), KERNELS, RESULT - 1.75),
        (HELPERS.replace("WEIGHT = 0.5", "WEIGHT = 1"), KERNELS, RESULT + 3.5),
        (HELPERS.replace("+ STEP)", "- STEP)"), KERNELS, RESULT - 4),
        (HELPERS.replace("- step_down(number)\n", "\n"), KERNELS, RESULT - 1),
        (HELPERS.replace("number < 1", "number < 2").replace("- step_down(number)\n", "\n"), KERNELS, RESULT + 1),
        (HELPERS, KERNELS.replace("uint64(7)", "uint64(15)"), RESULT + 2),
        (HELPERS, KERNELS.replace("total = 0.0", "total = 1.0"), RESULT + 1),
        (HELPERS, KERNELS.replace("import step\n", "import step_down as step\n"), -1 + 0 + 6),
        (HELPERS, KERNELS.replace("return step(number)", "return step(number) if number > 1 else 0.0"), 2 + 6),
    ],
)
def test_a_change_is_seen_wherever_it_is(
    helpers: str, kernels: str, expected: float, load_run: Callable[..., Any], compiled: list[str]
) -> None:
    assert (helpers, kernels) != (HELPERS, KERNELS)
    assert load_run()(NUMBERS) == RESULT
    compiled.clear()
    assert load_run(helpers, kernels)(NUMBERS) == expected
    assert "run" in compiled
    compiled.clear()
    assert load_run()(NUMBERS) == RESULT  # the old code is still there for those who have the old content
    assert compiled == []


def test_a_change_of_an_option_of_the_compiler_is_seen(cache: Path, load_run: Callable[..., Any]) -> None:
    run = load_run()
    before = KernelDigest(run).hexdigest()
    run.targetoptions["fastmath"] = True
    assert KernelDigest(run).hexdigest() != before
    assert not cache.exists()


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * 100_000, None])
def test_a_damaged_file_counts_as_none(
    damage: bytes | None, cache: Path, load_run: Callable[..., Any], compiled: list[str]
) -> None:
    assert load_run()(NUMBERS) == RESULT
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]) if damage is None else damage)
    compiled.clear()
    assert load_run()(NUMBERS) == RESULT
    assert "run" in compiled
    assert kernel_cache.read_file(file.name, [cache]) is not None
    compiled.clear()
    assert load_run()(NUMBERS) == RESULT
    assert compiled == []


def test_machine_code_of_the_package_comes_first_where_the_processor_can_run_it(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, load_run: Callable[..., Any], compiled: list[str]
) -> None:
    run = load_run()
    assert run(NUMBERS) == RESULT
    context, (kinds,) = run.targetctx, run.signatures
    triple, _, _ = context.codegen().magic_tuple()
    (file,) = cache.iterdir()
    assert file.name == run._cache.build_file_name(kinds, context)
    name = run._cache._build_name(KernelDigest(run).hexdigest(), kinds, (triple, *kernel_cache.BASELINE))
    assert name != file.name
    monkeypatch.setattr(kernel_cache, "PRECOMPILED", tmp_path / "package")
    (tmp_path / "package").mkdir()
    file.rename(tmp_path / "package" / name)
    for able, names in ((True, set()), (False, {"run", "middle", "step", "step_down"})):
        monkeypatch.setattr(kernel_cache, "has_baseline", lambda _, able=able: able)
        compiled.clear()
        assert load_run()(NUMBERS) == RESULT
        assert set(compiled) == names
        assert [path.name for path in cache.iterdir()] == ([] if able else [file.name])


def test_machine_code_of_the_package_for_the_own_processor_is_found_too(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, load_run: Callable[..., Any], compiled: list[str]
) -> None:
    assert load_run()(NUMBERS) == RESULT
    cache.rename(tmp_path / "package")
    monkeypatch.setattr(kernel_cache, "PRECOMPILED", tmp_path / "package")
    compiled.clear()
    assert load_run()(NUMBERS) == RESULT
    assert compiled == []
    assert not cache.exists()


OUTER_KERNEL = """
@kernel
def run_twice(numbers):
    return run(numbers) + run(numbers)
"""


def keep_machine_code_alone(cache: Path) -> None:
    """Drop the bitcode of the only kernel that is kept."""
    (file,) = cache.iterdir()
    size = file.stat().st_size
    write_file(file.name, drop_bitcode(read_file(file.name, [cache])), [cache])
    assert file.stat().st_size < size / 2


def test_machine_code_alone_does_the_same(cache: Path, load_run: Callable[..., Any], compiled: list[str]) -> None:
    assert load_run()(NUMBERS) == RESULT
    keep_machine_code_alone(cache)
    compiled.clear()
    run = load_run()
    assert run(NUMBERS) == RESULT
    assert run(NUMBERS[:0]) == 0
    assert compiled == []


def test_no_kernel_is_compiled_with_the_machine_code_of_another_alone(
    cache: Path, load_run: Callable[..., Any]
) -> None:
    """It would run here, and end the process that finds the outer kernel's code without the inner one's."""
    run = load_run(kernels=KERNELS + OUTER_KERNEL)
    assert run(NUMBERS) == RESULT
    keep_machine_code_alone(cache)
    run = load_run(kernels=KERNELS + OUTER_KERNEL)
    assert run(NUMBERS) == RESULT
    with pytest.raises(RuntimeError, match="library unfit for linking"):
        run.py_func.__globals__["run_twice"](NUMBERS)


def test_what_another_version_of_numba_keeps_stays_whole() -> None:
    kept = describe_kernel((("name", "bitcode", b"1"), None, None, None, False, (), "types", ()))
    assert kept.external_names is None
    assert drop_bitcode(kept) == kept


@pytest.mark.parametrize(("added", "refreshed"), [((), 0), (("a function that this Numba does not have",), 1)])
def test_loading_prepares_the_compiler_only_if_a_name_is_unknown(
    added: tuple[str, ...],
    refreshed: int,
    cache: Path,
    load_run: Callable[..., Any],
    compiled: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert load_run()(NUMBERS) == RESULT
    (file,) = cache.iterdir()
    kept = read_file(file.name, [cache])
    assert "PyErr_SetString" in kept.external_names
    assert not any(name.startswith("llvm.") for name in kept.external_names)
    write_file(file.name, kept._replace(external_names=kept.external_names + added), [cache])
    compiled.clear()
    run, calls = load_run(), []
    refresh = run.targetctx.refresh
    monkeypatch.setattr(run.targetctx, "refresh", lambda: calls.append(refresh()))
    assert run(NUMBERS) == RESULT
    assert (compiled, len(calls)) == ([], refreshed)


def test_which_processors_can_run_machine_code_of_the_package() -> None:
    processor, features = kernel_cache.BASELINE
    assert has_baseline(("x86_64-unknown-linux-gnu", processor, features))
    assert has_baseline(("x86_64-pc-windows-msvc", "znver5", f"+64bit,{features},+avx512f,-amx-tile"))
    assert not has_baseline(("x86_64-unknown-linux-gnu", "nehalem", features.replace("+avx2", "-avx2")))
    assert not has_baseline(("x86_64-unknown-linux-gnu", "nehalem", ""))
    assert not has_baseline(("aarch64-unknown-linux-gnu", "generic", features))


def test_where_a_folder_cannot_be_written_the_next_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load_run: Callable[..., Any], compiled: list[str]
) -> None:
    (tmp_path / "file").write_text("no folder")
    closed, other = tmp_path / "file" / "cache", tmp_path / "other"
    monkeypatch.setenv("IRONRULE_CACHE_DIR", str(closed))
    monkeypatch.setattr(kernel_cache, "__file__", str(other / "kernel_cache.py"))
    assert kernel_cache.list_folders() == [closed, other / "__pycache__"]
    assert load_run()(NUMBERS) == RESULT
    assert len(list((other / "__pycache__").iterdir())) == 1
    compiled.clear()
    assert load_run()(NUMBERS) == RESULT
    assert compiled == []
    monkeypatch.setattr(kernel_cache, "__file__", str(tmp_path / "file" / "kernel_cache.py"))
    assert load_run()(NUMBERS) == RESULT  # nothing is kept, and nothing fails
    assert "run" in compiled


def test_the_folder_is_the_users_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRONRULE_CACHE_DIR", str(tmp_path / "ours"))
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "numbas"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "users"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert kernel_cache.list_folders()[0] == tmp_path / "ours"
    monkeypatch.delenv("IRONRULE_CACHE_DIR")
    assert kernel_cache.list_folders()[0] == tmp_path / "numbas" / "ironrule"
    monkeypatch.setattr(config, "CACHE_DIR", "")
    assert kernel_cache.list_folders()[0] == tmp_path / "users" / "ironrule"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "windows"))
    assert kernel_cache.list_folders()[0] == tmp_path / "windows" / "ironrule" / "Cache"
    monkeypatch.delenv("LOCALAPPDATA")
    assert kernel_cache.list_folders() == [PACKAGE / "__pycache__"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_only_the_owner_may_write_in_the_folder(cache: Path) -> None:
    kernel_cache.write_file("a.kernel", "code", [cache])
    assert cache.stat().st_mode & 0o777 == 0o700


def test_what_was_not_used_for_longest_is_removed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    for place, name in enumerate(("a.kernel", "b.kernel.0123", "c.kernel", "d.kernel")):
        kernel_cache.write_file(name, rng.bytes(1000), [cache])
        os.utime(cache / name, (place, place))
    (cache / "notes.txt").write_text("somebody else's")
    size = (cache / "a.kernel").stat().st_size
    assert kernel_cache.read_file("a.kernel", [cache])  # so it is the newest now
    monkeypatch.setattr(kernel_cache, "MAX_FOLDER_BYTES", 3 * size)
    kernel_cache.write_file("e.kernel", rng.bytes(1000), [cache])
    assert {path.name for path in cache.iterdir()} == {"a.kernel", "d.kernel", "e.kernel", "notes.txt"}


def test_who_reads_while_others_write_gets_something_whole(cache: Path) -> None:
    values = [np.random.default_rng(0).bytes(size) for size in (10, 100_000, 1_000_000)]
    kernel_cache.write_file("a.kernel", values[0], [cache])

    def write(value: bytes) -> None:
        for _ in range(20):
            kernel_cache.write_file("a.kernel", value, [cache])

    threads = [threading.Thread(target=write, args=(value,)) for value in values]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert kernel_cache.read_file("a.kernel", [cache]) in values
    assert [path.name for path in cache.iterdir()] == ["a.kernel"]


@pytest.mark.parametrize("change", [HELPERS, HELPERS.replace("STEP = 2", "STEP = 3")])
def test_another_version_of_numba_uses_its_own_cache(
    change: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cache: Path,
    load_run: Callable[..., Any],
    compiled: list[str],
) -> None:
    monkeypatch.setattr(jit, "is_supported", lambda _: False)
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "numbas"))
    monkeypatch.setattr(FunctionCache._impl_class, "_locator_classes", FunctionCache._impl_class._locator_classes[:1])
    run = load_run()
    assert isinstance(run._cache, FunctionCache)
    assert run(NUMBERS) == RESULT
    names = {path.name for path in (tmp_path / "numbas").rglob("*.nbi")}
    assert load_run(change)(NUMBERS) == RESULT + (change != HELPERS)
    assert (names == {path.name for path in (tmp_path / "numbas").rglob("*.nbi")}) == (change == HELPERS)
    assert compiled
    assert not cache.exists()


def test_what_has_no_known_content_is_not_kept(
    cache: Path, load_run: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    unknown = KERNELS.replace("from kept_helpers import step", "import kept_helpers").replace(
        "step(", "kept_helpers.step("
    )
    run = load_run(kernels=unknown)
    with pytest.raises(UnknownDependencyError, match="kept_helpers"):
        KernelDigest(run)
    assert run(NUMBERS) == RESULT
    assert not cache.exists()
    assert "kept_helpers" in caplog.text


def test_functions_may_call_themselves(load_run: Callable[..., Any]) -> None:
    itself = HELPERS.replace("number - STEP", "step_down(number - STEP)")
    digests = [KernelDigest(load_run(helpers)).hexdigest() for helpers in (itself, itself, HELPERS)]
    assert digests[0] == digests[1] != digests[2]


def test_types_are_told_apart() -> None:
    kinds = [
        types.int64,
        types.uint64,
        types.Array(types.int64, 1, "C"),
        types.Array(types.int64, 1, "A"),
        types.Array(types.int64, 2, "C"),
        types.Array(types.int64, 1, "C", readonly=True),
        types.Array(types.int64, 1, "C", aligned=False),
        types.Array(types.int32, 1, "C"),
        types.UniTuple(types.int64, 2),
        types.UniTuple(types.int64, 3),
        types.Tuple((types.int64, types.Array(types.int64, 1, "C"))),
        types.Tuple((types.int64, types.Array(types.int64, 1, "C", readonly=True))),
        types.Optional(types.int64),
        types.none,
    ]
    assert len({repr(describe_type(kind)) for kind in kinds}) == len(kinds)


def test_records_whose_fields_have_other_names_are_other_constants() -> None:
    """What is read of a global array of records depends on the names of their fields."""
    digests = set()
    for names in (("low", "high"), ("high", "low")):
        ends = np.array([(1, 2)], dtype=[(name, np.int64) for name in names])
        content: dict[str, Any] = {"ends": ends}
        exec("def read(number):\n    return ends[0].low + number", content)
        digests.add(KernelDigest(jit.kernel(content["read"])).hexdigest())
    assert len(digests) == 2
