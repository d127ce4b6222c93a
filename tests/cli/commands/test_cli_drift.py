"""``ironrule drift``: two folders of batches, and a recheck by the new model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from loans import Files, Run


def test_drift_compares_folders_and_rechecks_by_the_model(
    files: Files, run: Callable[..., Run], refused: Callable[..., str], tmp_path: Path
) -> None:
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    for folder in (old, new):
        options = ("--target", "paid", "--desired", "yes", "--workers", "1")
        assert run("batch", files.model, files.data, *options, "--output", folder).code == 0
    shown = run("drift", old, new, "--output", str(tmp_path / "drift.html"))
    assert (shown.code, "with the same rule" in shown.out) == (0, True)
    assert "How explanations changed" in (tmp_path / "drift.html").read_text(encoding="utf-8")
    model = ("--model", files.model, "--data", files.data, "--target", "paid", "--desired", "yes")
    found = run("drift", old, new, *model, "--json").json
    assert (found["rechecked"], found["rule_counts"]["open"], found["rule_counts"]["breaks"]) == (True, 0, 0)
    assert "folders of batches" in refused("drift", old, files.data)
    assert "needs the new model" in refused("drift", old, new, "--data", files.data)
