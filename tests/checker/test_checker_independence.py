"""The checker stands alone: neither its source nor a running check touches the code that it is there to check."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from handmade_models import SLOPES, linear, rows

from ironrule import Explainer

PACKAGE = Path(__file__).parents[2] / "src" / "ironrule"
CHECKER = PACKAGE / "checker"
MODULES = sorted(CHECKER.rglob("*.py"))
OWN = ("ironrule.checker", "ironrule.errors")
LENDING = "ironrule.shared_reading"  # where a reading is borrowed, and the result says so
LIBRARIES = {"numpy", "scipy", "narwhals"}
WHEN_USED = {"pandas", "pyarrow", "onnx", "catboost"}  # the user's own libraries, imported when their objects come
MOST_LINES = 6_850


def imported(path: Path) -> list[tuple[str, bool]]:
    """Every name that a module imports, and whether it does so when it is imported itself."""
    tree = ast.parse(path.read_text())
    late = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for inner in ast.walk(node)}
    found: list[tuple[str, bool]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) not in late) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found += [(f"{node.module}.{alias.name}", id(node) not in late) for alias in node.names]
    return found


def below(name: str, roots: tuple[str, ...]) -> bool:
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def strangers(path: Path) -> list[str]:
    """What a module imports although it may not."""
    found = []
    for name, at_once in imported(path):
        library = name.split(".")[0]
        if library == "ironrule":
            lends = path == CHECKER / "scope.py" and below(name, (LENDING,)) and not at_once
            found += [] if below(name, OWN) or lends else [name]
        elif library not in sys.stdlib_module_names | LIBRARIES and not (library in WHEN_USED and not at_once):
            found.append(name)
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(CHECKER)))
def test_a_module_of_the_checker_imports_only_what_it_may(path: Path) -> None:
    assert strangers(path) == []


def test_what_is_imported_in_vain_would_be_noticed(tmp_path: Path) -> None:
    file = tmp_path / "claims.py"
    file.write_text(
        "from ironrule.space import Space\nfrom ironrule.shared_reading import read_for_checker\nimport pandas\n"
    )
    assert strangers(file) == ["ironrule.space.Space", "ironrule.shared_reading.read_for_checker", "pandas"]


def load(code: str) -> dict[str, int]:
    """The modules of ours that are loaded after some code has run in a fresh process, with their lines."""
    ending = """
import json, sys
from pathlib import Path
own = {name: module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "ironrule"}
print(json.dumps({name: len(Path(file).read_text().splitlines()) for name, file in own.items()}))
"""
    command = [sys.executable, "-c", code + ending]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stderr
    loaded: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return loaded


CHECKS = {
    "sums": ("tied", "linear([[0.5, -0.5, 1.0]], [-1.0]), rows(4, 3, 3)"),
    "network": ("network", "NETWORK, rows(5, 4, 4)"),
    "constraints": ("constrained", "linear(SLOPES, [-2.0]), feasible_rows(4, 3, 3, 2), constraints=(TIES,)"),
    "asked": ("asked", "bank, rows(4, 3, 3)"),
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_whole_check_loads_the_checker_alone_and_not_much_of_it(name: str) -> None:
    document, arguments = CHECKS[name]
    loaded = load(f"""
from pathlib import Path
from handmade_models import NETWORK, SLOPES, TIES, bank, linear, feasible_rows, rows
from ironrule import check
found = check((Path("certificates") / "good" / "{document}.json").read_text(), {arguments})
assert found.status == "proven", str(found)
assert found.reading == "{"none" if name == "asked" else "own"}"
""")
    assert [module for module in loaded if module != "ironrule" and not below(module, OWN)] == []
    assert sum(loaded.values()) <= MOST_LINES, loaded


LADDER_MODULES = {"ironrule.checker.ladder", "ironrule.checker.ladder_document", "ironrule.checker.measured_rows"}


def test_a_ladder_is_checked_by_the_checker_alone_and_an_explanation_without_it(tmp_path: Path) -> None:
    past = np.tile(rows(4, 3, 3, 2), (3, 1))
    ladder = Explainer(linear(SLOPES, [-2.0]), past).ladder(20, nested=False)
    assert len(ladder) > 1
    loaded = {}
    for status, document in (("holds", ladder), ("proven", ladder.explanation)):
        path = tmp_path / f"{status}.json"
        path.write_text(document.to_json())
        loaded[status] = load(f"""
from pathlib import Path
import numpy as np
from handmade_models import SLOPES, linear, rows
from ironrule import check
found = check(Path({str(path)!r}).read_text(), linear(SLOPES, [-2.0]), np.tile(rows(4, 3, 3, 2), (3, 1)))
assert found.status == {status!r}, str(found)
""")
    assert [name for name in loaded["holds"] if name != "ironrule" and not below(name, OWN)] == []
    assert loaded["holds"].keys() - loaded["proven"].keys() == LADDER_MODULES


CHANGE_MODULES = {
    f"ironrule.checker.{name}"
    for name in (
        "changes",
        "changes.atoms",
        "changes.claims",
        "changes.costs",
        "changes.counterfactuals",
        "changes.document",
        "changes.search",
        "changes.space",
        "bounds.change_bounds",
    )
}
MOST_LINES_OF_CHANGES = 9_100
MOST_LINES_WITH_SUGGESTIONS = 9_650  # a rule and changes, in one document


MENU_MODULES = {f"ironrule.checker.changes.{name}" for name in ("menu", "parts")}
RESTRICTION_MODULES = {f"ironrule.checker.changes.{name}" for name in ("infeasibility", "parts")}


def test_documents_of_changes_are_checked_by_the_checker_alone(tmp_path: Path) -> None:
    past = rows(4, 3, 3, 2)
    explainer = Explainer(linear(SLOPES, [-2.0]), past, domain="seen")
    found = explainer.counterfactuals(20)
    documents = {"changes": found, "region": explainer.counterfactual_region(found[0])}
    documents |= {"suggested": explainer.explain(20), "rule": replace(explainer.explain(20), lazy_changes=None)}
    documents["menu"] = explainer.change_menu(20)
    documents["none"] = explainer.find_forbidding_restrictions(20, features_to_vary=[])
    loaded = {}
    for name, document in documents.items():
        path = tmp_path / f"{name}.json"
        path.write_text(document.to_json())
        loaded[name] = load(f"""
from pathlib import Path
from handmade_models import SLOPES, linear, rows
from ironrule import check
found = check(Path({str(path)!r}).read_text(), linear(SLOPES, [-2.0]), rows(4, 3, 3, 2))
assert found.status == "proven", str(found)
""")
        assert [module for module in loaded[name] if module != "ironrule" and not below(module, OWN)] == []
    assert not loaded["rule"].keys() & CHANGE_MODULES
    assert loaded["changes"].keys() - loaded["rule"].keys() == CHANGE_MODULES
    assert sum(loaded["changes"].values()) <= MOST_LINES_OF_CHANGES, sum(loaded["changes"].values())
    besides = {"ironrule.checker.changes.suggested", "ironrule.checker.space.constraints"}  # limits are constraints
    assert loaded["suggested"].keys() - loaded["rule"].keys() == CHANGE_MODULES | besides
    assert sum(loaded["suggested"].values()) <= MOST_LINES_WITH_SUGGESTIONS, sum(loaded["suggested"].values())
    assert loaded["menu"].keys() - loaded["changes"].keys() == MENU_MODULES
    assert loaded["none"].keys() - loaded["changes"].keys() == RESTRICTION_MODULES


READERS = {  # what a check of such a model loads besides
    "sklearn_trees": "sum_bounds",
    "sklearn_additive": "sum_bounds",
    "sklearn_ensembles": "sum_bounds",
    "sklearn_calibrated sklearn_additive": "sum_bounds",
    "sklearn_mlp": "network_bounds",
    "xgboost_models": "sum_bounds",
    "lightgbm_models": "sum_bounds",
    "catboost_models": "sum_bounds",
    "onnx_networks": "network_bounds",
}


@pytest.mark.parametrize("readers", READERS)
def test_no_reader_makes_a_check_large(readers: str) -> None:
    bounds = READERS[readers]
    modules = [f"readers.{reader}" for reader in readers.split()]
    loaded = load("\n".join(f"import ironrule.checker.{name}" for name in ("checker", f"bounds.{bounds}", *modules)))
    assert [module for module in loaded if module != "ironrule" and not below(module, OWN)] == []
    assert sum(loaded.values()) <= MOST_LINES, loaded


PMML_MODULES = {
    f"ironrule.checker.readers.{name}"
    for name in ("pmml", "pmml.answers", "pmml.fields", "pmml.models", "pmml.predicates", "pmml.regressions")
}
MOST_LINES_OF_PMML = 7_750  # with general regressions, interactions and segments with conditions


def test_the_reader_of_pmml_files_is_loaded_for_them_alone() -> None:
    loaded = load("import ironrule.checker.checker, ironrule.checker.bounds.sum_bounds")
    everything = "ironrule.checker.checker, ironrule.checker.bounds.sum_bounds, ironrule.checker.readers.pmml.models"
    with_reader = load(f"import {everything}")
    own = {"ironrule.checker.readers.boosted_trees", "ironrule.checker.readers.decisions"}
    assert with_reader.keys() - loaded.keys() == PMML_MODULES | own
    assert [module for module in with_reader if module != "ironrule" and not below(module, OWN)] == []
    assert sum(with_reader.values()) <= MOST_LINES_OF_PMML, sum(with_reader.values())


def test_what_else_is_loaded_would_be_noticed() -> None:
    assert "ironrule.model.normal_form.tree_sum" in load("import ironrule.model.normal_form.tree_sum")
