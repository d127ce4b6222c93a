"""No test looks at a clock: none compares times, and none gives up on what a slow machine does late.

Read from the source of the tests. A value that was computed from a clock may be handed on, and printed; it may not be
asserted or compared. A limit on a wait may only be there for what never comes, so it is a long one
(``waiting.PATIENCE``).
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
MODULES = sorted(TESTS.rglob("*.py"))
READINGS = ("perf_counter", "monotonic", "process_time", "thread_time")
CLOCKS = {name + suffix for name in READINGS for suffix in ("", "_ns")} | {"time.time", "time.time_ns"}
WAITS = {"wait", "join", "result", "acquire", "settimeout", "communicate"}
LONG = 300.0  # seconds

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def reads_clock(node: ast.AST, derived: set[str]) -> bool:
    """Whether an expression looks at a clock, or at a name whose value comes from one."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            called = ast.unparse(part.func)
            if called in CLOCKS or called.rpartition(".")[2] in CLOCKS:
                return True
        elif isinstance(part, ast.Name) and part.id in derived:
            return True
    return False


def find_derived_names(scope: ast.AST, outside: set[str]) -> set[str]:
    """The names in a scope whose values come from a clock, or from such names outside, by any number of assignments."""
    derived = set(outside)
    assignments = [
        (target, node.value)
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    while True:
        targets = [target for target, value in assignments if reads_clock(value, derived)]
        names = {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
        if names <= derived:
            return derived
        derived |= names


def list_outermost_functions(tree: ast.Module) -> list[ast.AST]:
    """The functions of a module that are not inside another one."""
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
    nested = {id(part) for node in functions for part in ast.walk(node) if part is not node}
    return [node for node in functions if id(node) not in nested]


def find_clocks(tree: ast.Module) -> list[str]:
    """The assertions and comparisons of a module that depend on a clock."""
    if not reads_clock(tree, set()):
        return []
    found = set()
    outermost = list_outermost_functions(tree)
    top = ast.Module([node for node in tree.body if not isinstance(node, (*FUNCTIONS, ast.ClassDef))], [])
    outside = find_derived_names(top, set())
    for scope in (top, *outermost):
        derived = find_derived_names(scope, outside)
        for node in ast.walk(scope):
            if isinstance(node, ast.Assert | ast.Compare) and reads_clock(node, derived):
                found.add((node.lineno, "asserts on a clock" if isinstance(node, ast.Assert) else "compares times"))
    return [f"line {line} {what}" for line, what in sorted(found)]


def read_number(node: ast.AST) -> float | None:
    """The number that is written there."""
    number = node.value if isinstance(node, ast.Constant) else None
    return float(number) if isinstance(number, int | float) and not isinstance(number, bool) else None


def find_short_waits(tree: ast.Module) -> list[str]:
    """The waits of a module that end after a few seconds, although what they wait for may still come."""
    found = []
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        limits = [keyword.value for keyword in call.keywords if keyword.arg == "timeout"]
        if isinstance(call.func, ast.Attribute) and call.func.attr in WAITS:
            limits += call.args[:1]
        numbers = [number for number in map(read_number, limits) if number is not None and number < LONG]
        found += [f"line {call.lineno} waits {number:g} s: {ast.unparse(call.func)}" for number in numbers]
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(TESTS)))
def test_no_test_depends_on_a_clock(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert find_clocks(tree) == []
    assert find_short_waits(tree) == []


@pytest.mark.parametrize(
    "body",
    [
        "assert time.perf_counter() < 3",
        "assert process_time_ns() > 0",
        "begun = time.monotonic()\nwork()\nassert time.monotonic() - begun < 2",
        "begun = time.time()\ntook = time.time() - begun\nratio = took / 3\nassert ratio < 2",
        "a, b = time.perf_counter(), 3\nwhile a < b:\n    pass",
        "end = time.monotonic() + 60\ndef inner():\n    return now() < end",
        "if (now := time.monotonic()) and now > 3:\n    pass",
        "took: float = time.perf_counter()\nassert approx(1) == took",
    ],
)
def test_a_clock_is_noticed(body: str) -> None:
    inside = "def test():\n" + "\n".join(f"    {line}" for line in body.splitlines())
    for source in (body, inside, f"class Test:\n    {inside.replace(chr(10), chr(10) + '    ')}"):
        assert find_clocks(ast.parse(source)) != [], source


@pytest.mark.parametrize(
    "body",
    [
        "begun = time.perf_counter()\nprint(time.perf_counter() - begun)",
        'monkeypatch.setattr(time, "perf_counter", ticks)\nassert meter.seconds == 3',
        "def one():\n    begun = time.time()\n    return begun\ndef other():\n    begun = 3\n    assert begun == 3",
        "assert datetime.time(3) > midnight",
    ],
)
def test_a_clock_that_decides_nothing_is_allowed(body: str) -> None:
    assert find_clocks(ast.parse(body)) == []


def test_a_short_wait_is_noticed() -> None:
    source = 'a.wait(3)\nrun(timeout=5.5)\nt.join(PATIENCE)\n", ".join(names)\nb.acquire(timeout=600)\nc.join()\n'
    assert find_short_waits(ast.parse(source)) == ["line 1 waits 3 s: a.wait", "line 2 waits 5.5 s: run"]
