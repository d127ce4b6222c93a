"""Figures about the source: how large, how deep, how far one explanation travels.

``python -m benchmarks.house`` prints them for this checkout; ``docs/architecture.md`` records them. The import graph is
read from the source, so nothing has to be installed but what the demo needs.
"""

from __future__ import annotations

import ast
import io
import sys
import threading
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = Path(__file__).parents[1] / "src" / "ironrule"


@dataclass(slots=True)
class ImportGraph:
    """The modules of a package, and which of its own modules each imports: at the top, and inside functions."""

    modules: dict[str, Path]
    at_top: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    late: Counter[str] = field(default_factory=Counter)

    def find_longest_chain(self) -> list[str]:
        """The longest path of imports at the top of modules; raises ValueError if there is a cycle."""
        known: dict[str, list[str]] = {}

        def follow(module: str, above: tuple[str, ...]) -> list[str]:
            if module in above:
                raise ValueError(f"import cycle: {' -> '.join([*above[above.index(module) :], module])}")
            if module not in known:
                below = [follow(other, (*above, module)) for other in sorted(self.at_top[module])]
                known[module] = [module, *max(below, key=len, default=[])]
            return known[module]

        return max((follow(module, ()) for module in self.modules), key=len)


def read_import_graph(package: Path = PACKAGE) -> ImportGraph:
    """Read all modules of a package; what only type checkers import does not count."""
    graph = ImportGraph({_name_module(path, package): path for path in sorted(package.rglob("*.py"))})
    for module, path in graph.modules.items():
        base = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for target, at_top in _walk_imports(ast.parse(path.read_text()), base, graph.modules, at_top=True):
            if at_top and target != module:
                graph.at_top[module].add(target)
            elif not at_top:
                graph.late[module] += 1
    return graph


def _name_module(path: Path, package: Path) -> str:
    parts = [package.name, *path.relative_to(package).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _walk_imports(node: ast.AST, base: str, modules: Mapping[str, Path], at_top: bool) -> Iterator[tuple[str, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, at_top) for alias in child.names if alias.name in modules)
        elif isinstance(child, ast.ImportFrom):
            parent = base.split(".")[: len(base.split(".")) - child.level + 1] if child.level else []
            origin = ".".join([*parent, *([child.module] if child.module else [])])
            for alias in child.names:
                target = f"{origin}.{alias.name}"
                if target in modules or origin in modules:
                    yield (target if target in modules else origin), at_top
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _walk_imports(child, base, modules, at_top=False)
        elif not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield from _walk_imports(child, base, modules, at_top)


def find_repeated_classes(package: Path = PACKAGE) -> dict[str, list[str]]:
    """Public class names that more than one module defines."""
    homes = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(package)))
    return {name: places for name, places in homes.items() if len(places) > 1}


def count_folder_files(package: Path = PACKAGE) -> Counter[str]:
    """How many modules stand directly in each folder."""
    return Counter(str(path.parent.relative_to(package.parent)) for path in package.rglob("*.py"))


def count_lines(package: Path = PACKAGE) -> tuple[int, int, int]:
    """All lines, lines with code, and lines that are comments alone."""
    total = code = comments = 0
    for path in package.rglob("*.py"):
        text = path.read_text()
        total += len(text.splitlines())
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and token.line.strip().startswith("#"):
                comments += 1
            elif token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
                lines.update(range(token.start[0], token.end[0] + 1))
        code += len(lines - _find_docstring_lines(ast.parse(text)))
    return total, code, comments


def _find_docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


@dataclass(slots=True)
class Trace:
    """Which functions of the package one call went through, and how deep its own frames were stacked."""

    functions: set[tuple[str, str]] = field(default_factory=set)
    depth: int = 0
    deepest: int = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """What sys.setprofile calls."""
        path = frame.f_code.co_filename
        if not path.startswith(str(PACKAGE)):
            return
        if event == "call":
            self.functions.add((path, frame.f_code.co_qualname))
            self.depth += 1
            self.deepest = max(self.deepest, self.depth)
        elif event == "return":
            self.depth -= 1


def trace_demo() -> Trace:
    """Explain one row of the bundled data, by a pipeline of ten trees, a second time: the first one compiles."""
    import numpy as np
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    import ironrule
    from ironrule.data import load_german

    data, target = load_german()
    texts = [name for name in data.columns if data[name].dtype == object or str(data[name].dtype).startswith("str")]
    encode = make_column_transformer((OneHotEncoder(), texts), remainder="passthrough")
    model = make_pipeline(encode, GradientBoostingClassifier(n_estimators=10, random_state=0)).fit(data, target)
    explainer = ironrule.Explainer(model, data, desired="good", progress=False)
    row = int(np.flatnonzero(~explainer.outcomes)[0])
    explainer.explain(row)
    trace = Trace()
    sys.setprofile(trace)
    threading.setprofile(trace)
    try:
        explainer.explain(row)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return trace


def main() -> None:
    """Print all figures."""
    graph = read_import_graph()
    total, code, comments = count_lines()
    folders = count_folder_files().most_common(1)[0]
    chain = graph.find_longest_chain()
    trace = trace_demo()
    crossed = {path for path, _ in trace.functions}
    print(f"files {len(graph.modules)}, lines {total:,}, code lines {code:,}")
    print(f"comment lines {comments}, {100 * comments / code:.1f} per 100 code lines")
    print(f"largest folder {folders[0]}: {folders[1]} files")
    print(f"longest import chain {len(chain)}: {' -> '.join(chain)}")
    print(f"own imports inside functions {sum(graph.late.values())}")
    print(f"public class names defined more than once {len(find_repeated_classes())}")
    print(f"explain(): {len(crossed)} modules, {len(trace.functions)} functions, own stack {trace.deepest} deep")


if __name__ == "__main__":
    main()
