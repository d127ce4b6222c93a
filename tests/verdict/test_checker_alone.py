"""The checker stands alone: neither its source nor a running check touches the code that it is there to check."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "ironrule"
CHECKER = PACKAGE / "verdict" / "checker"
MODULES = sorted(CHECKER.glob("*.py"))
ALLOWED = (
    "ironrule.errors", "ironrule.space", "ironrule.rule.component", "ironrule.rule.counterfactual",
    "ironrule.rule.rule", "ironrule.verdict.certificate", "ironrule.verdict.digest", "ironrule.verdict.checker",
    *(f"ironrule.model.{name}" for name in ("blackbox", "history", "protocol", "reading", "tabulate", "thresholds")),
    "ironrule.model.network",
    *(f"ironrule.model.readable.{name}" for name in ("Read", "checked_points", "read_model")),
    *(f"ironrule.model.versions.{name}" for name in ("Versions", "Wanted", "ask_versions", "joint_fingerprint")),
    "ironrule.model.versions.read_each", "ironrule.model.intervals.between",
)  # fmt: skip
BANNED = (
    "ironrule.oracles", "ironrule.search", "ironrule.explain", "ironrule.model.forest", "ironrule.model.guards",
    "ironrule.model.net", "ironrule.model.boxes", "ironrule.model.conditions", "ironrule.model.terms",
    "ironrule.rule.hitting", "ironrule.rule.duals", "ironrule.rule.bits", "ironrule.rule.bit_kernels",
    "ironrule.rule.dual_kernels", "ironrule.rule.cover_kernels", "ironrule.rule.transversal_kernels", "numba",
)  # fmt: skip


def imported(path: Path) -> list[str]:
    """Every name that a module imports, wherever it does so."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def below(name: str, roots: tuple[str, ...]) -> bool:
    return any(name == root or name.startswith((f"{root}.", f"{root}_")) for root in roots)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_of_the_checker_imports_only_what_it_may(path: Path) -> None:
    own = [name for name in imported(path) if name.startswith("ironrule")]
    assert [name for name in own if not below(name, ALLOWED)] == []
    assert {name.split(".")[0] for name in imported(path)} <= {*sys.stdlib_module_names, "numpy", "scipy", "ironrule"}


def loaded(code: str) -> list[str]:
    """The modules of the ban that are loaded after some code has run in a fresh process."""
    shown = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", shown], capture_output=True, text=True, check=True, cwd=Path(__file__).parent
    )
    return [name for name in done.stdout.splitlines()[-1].split() if below(name, BANNED)]


CHECK = """
import numpy as np
from pathlib import Path
from sklearn.linear_model import LogisticRegression
from ironrule import check
model = LogisticRegression()
model.coef_, model.intercept_, model.classes_ = np.array([[0.5, -0.5, 1.0]]), np.array([-1.0]), np.arange(2)
model.n_features_in_ = 3
data = np.indices((4, 3, 3)).reshape(3, -1).T.astype(float)
found = check((Path("certificates") / "good" / "tied.json").read_text(), model, data)
assert found.status == "proven", str(found)
"""


NETWORK = """
from pathlib import Path
from handmade import NETWORK, rows
from ironrule import check
found = check((Path("certificates") / "good" / "network.json").read_text(), NETWORK, rows(5, 4, 4))
assert found.status == "proven", str(found)
"""


@pytest.mark.parametrize("code", [CHECK, NETWORK], ids=["sums", "network"])
def test_a_whole_check_loads_nothing_of_the_search(code: str) -> None:
    assert loaded(code) == []


def test_the_ban_can_be_broken() -> None:
    assert "ironrule.model.forest" in loaded("import ironrule.model.forest")
    assert "ironrule.model.net" in loaded("import ironrule.model.net")
    assert "ironrule.oracles" in loaded("import ironrule.oracles")
