"""Checks against saved explainers: what holds for the model holds for its file, what is false is refuted, hostile files
are refused, and the result always says what was checked.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from saved_examples import fit, read_parts, write_parts
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from ironrule import Explainer, InputError, check
from ironrule.checker.readers import saved_files
from ironrule.checker.readers.saved_files import NOTE, SavedFileChecker, open_saved_file
from ironrule.checker.result import Check, ClaimUndecided
from ironrule.explain.saved.load import get_saved_model


def save(name: str, folder: Path, **options: Any) -> tuple[Explainer, Path]:
    explainer = Explainer(*fit(name))
    return explainer, explainer.save(folder / f"{name}.ironrule", **options)


def assert_honest(found: Check, status: str) -> None:
    assert found.status == status, str(found)
    assert (found.reading == "own", found.strict, NOTE in found.notes) == (False, False, True)


@pytest.mark.parametrize("name", ["logistic", "network", "histogram", "xgboost", "lightgbm"])
def test_what_holds_for_the_model_holds_for_its_file_and_what_is_false_is_refuted(name: str, tmp_path: Path) -> None:
    explainer, path = save(name, tmp_path)
    checker = SavedFileChecker(path)
    denied = explainer.row_numbers[~explainer.outcomes][0]
    document = json.loads(explainer.explain(int(denied)).to_json())
    assert_honest(checker.check(document), "proven")
    shorter = explainer.explain(int(denied)).rule.components[1:]
    document["rules"][0]["rule"]["components"] = [one.to_dict() for one in shorter]
    assert_honest(checker.check(document), "refuted")


@pytest.mark.parametrize("name", ["network", "forest", "histogram", "xgboost", "lightgbm"])
def test_a_file_decides_every_row_as_the_model_where_it_decides(name: str, tmp_path: Path) -> None:
    explainer, path = save(name, tmp_path)
    model = fit(name).model
    opened = open_saved_file(path)
    rng = np.random.default_rng(0)
    points = rng.integers(0, explainer.space.sizes, size=(2000, len(explainer.space.sizes)), dtype=np.int32)
    table = explainer._context.model.primary.layout.decode(points)
    own = np.asarray(model.predict(table)).astype(bool)
    rows = np.array([list(explainer.space.decode_row(point).values()) for point in points], dtype=object)
    possible, sure = opened.models[0].final.decide(opened.models[0].preparation.transform(rows))
    assert not (own & ~possible).any()
    assert not (sure & ~own).any()
    assert (possible & ~sure).mean() < 0.25
    saved = get_saved_model(Explainer.load(path))  # the explainer's own code for the same file
    theirs = saved.decide(saved.transform(rows))
    assert (np.array(theirs) == np.array([possible, sure])).mean() > 0.999


@pytest.mark.parametrize("kind", ["text labels", "three classes", "probability", "score", "low score"])
def test_decisions_of_every_kind_are_checked(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"a": rng.integers(0, 9, 120), "b": rng.normal(size=120).round(2)})
    score = table.a - 4 + 2 * table.b
    labels = np.where(score > 1, "good", "bad") if kind != "three classes" else np.digitize(score, [-1, 2])
    model = LogisticRegression(max_iter=2000).fit(table, labels)
    target: dict[str, Any] = {"desired": "good"}
    if kind == "three classes":
        model, target = RandomForestClassifier(5, max_depth=3, random_state=0).fit(table, labels), {"desired": [1, 2]}
    elif kind == "probability":
        target = {"desired": "bad", "threshold": 0.7}
    elif "score" in kind:
        model = GradientBoostingRegressor(n_estimators=5, random_state=0).fit(table, score)
        target = {"threshold": 0.123} if kind == "score" else {"desired": "below", "threshold": 0.123}
    explainer = Explainer(model, table, **target)
    checker = SavedFileChecker(explainer.save(tmp_path / "a.ironrule"))
    row = int(explainer.row_numbers[~explainer.outcomes][0])
    loaded = Explainer.load(tmp_path / "a.ironrule")
    for document in (explainer.explain(row), loaded.counterfactuals(row)):
        assert_honest(checker.check(document), "proven")
    if kind == "score":
        assert_honest(checker.check(explainer.ladder(row)), "holds")
    other = Explainer(model, table, desired="bad") if target == {"desired": "good"} else None
    if other is not None:
        found = checker.check(other.explain(int(other.row_numbers[~other.outcomes][0])))
        assert_honest(found, "refuted")
        assert "speaks of another decision" in str(found)


def test_a_rule_for_several_models_is_checked_against_all_of_the_file(tmp_path: Path) -> None:
    (first, data), (second, _) = fit("tree"), fit("logistic")
    explainer = Explainer(first, data, models=[second])
    path = explainer.save(tmp_path / "two.ironrule")
    document = explainer.explain(int(explainer.row_numbers[~explainer.outcomes][0]))
    assert_honest(SavedFileChecker(path).check(document), "proven")
    alone = Explainer(first, data)
    found = SavedFileChecker(path).check(alone.explain(int(alone.row_numbers[~alone.outcomes][0])))
    assert_honest(found, "undecided")


def test_a_file_without_past_rows_checks_what_its_explainer_says(tmp_path: Path) -> None:
    explainer, path = save("logistic", tmp_path, history=False)
    row = dict(fit("logistic").data.iloc[int(np.flatnonzero(~explainer.outcomes)[0])])
    found = SavedFileChecker(path).check(Explainer.load(path).explain(row).to_json())
    assert_honest(found, "proven")
    assert "it covers 0 of 0" in str(found)


def test_another_model_than_that_of_the_file_is_not_checked(tmp_path: Path) -> None:
    _, path = save("tree", tmp_path)
    other = Explainer(*fit("forest"))
    found = SavedFileChecker(path).check(other.explain(int(other.row_numbers[~other.outcomes][0])))
    assert_honest(found, "undecided")
    assert "about another" in str(found)


def test_points_within_rounding_are_left_open_and_asking_about_them_leaves_a_claim_undecided(tmp_path: Path) -> None:
    table = pd.DataFrame({"a": np.arange(40) % 8, "b": np.arange(40) // 8})
    model = LogisticRegression().fit(table, (table.a + table.b > 5).astype(int))
    model.coef_, model.intercept_ = np.array([[1.0, 1.0]]), np.array([-6.0])  # exactly 0 on many points
    past = table[table.a + table.b != 6]
    opened = open_saved_file(Explainer(model, past).save(tmp_path / "ties.ironrule"))
    rows = np.array([[2, 4], [5, 4], [0, 1]], dtype=object)
    possible, sure = opened.models[0].final.decide(opened.models[0].preparation.transform(rows))
    assert (possible.tolist(), sure.tolist()) == ([True, True, False], [False, True, False])
    assert opened.models[0].predict(rows[1:]).tolist() == [1, 0]
    with pytest.raises(ClaimUndecided, match="within rounding"):
        opened.models[0].predict(rows)
    document = json.loads(Explainer(model, table).explain(0).to_json())  # whose past rows hold such points
    assert check(document, model, table).status == "proven"
    found = check(document, opened.models[0], table)
    assert found.status == "undecided"
    assert "within rounding" in str(found)


HOSTILE: dict[str, Any] = {
    "another column": lambda document: document["model"]["columns"][0].update(source=99),
    "no digest of a number": lambda document: document["model"]["form"]["alternatives"][0][0].update(offset="nan"),
    "an array that is not there": lambda document: document["history"].update(codes=[["u1", 10**12, 5]] * 5),
    "a negative error": lambda document: document["model"]["form"]["alternatives"][0][0].update(error="-0x1p-3"),
    "a class of Python": lambda document: document["model"]["form"].update({"is": "os.system"}),
    "no space": lambda document: document.pop("space"),
    "code for a label": lambda document: (
        document["decision"].update(desired=[1]),
        document["model"].update(undesired_name="__import__('os').getcwd()"),
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_file_that_makes_no_sense_is_refused(what: str, tmp_path: Path) -> None:
    _, path = save("tree", tmp_path)
    parts = read_parts(path)
    document = json.loads(parts["explainer.json"])
    HOSTILE[what](document)
    damaged = write_parts(tmp_path / "bad.ironrule", {**parts, "explainer.json": json.dumps(document).encode()})
    with pytest.raises(InputError) as refused:
        SavedFileChecker(damaged)
    assert refused.value.code in ("bad-saved-file", "saved-file-not-read")


def test_altered_and_foreign_files_are_refused(tmp_path: Path) -> None:
    _, path = save("tree", tmp_path)
    parts = read_parts(path)
    changed = {**parts, "arrays/f8.npy": parts["arrays/f8.npy"][:-1] + bytes([parts["arrays/f8.npy"][-1] ^ 1])}
    for content, words in ((b"nothing", "no file of a saved explainer"), (path.read_bytes()[:-40], "no file")):
        (tmp_path / "other.ironrule").write_bytes(content)
        with pytest.raises(InputError, match=words):
            open_saved_file(tmp_path / "other.ironrule")
    with zipfile.ZipFile(tmp_path / "changed.ironrule", "w") as archive:
        for name, part in changed.items():
            archive.writestr(name, part)
    with pytest.raises(InputError, match="digest mismatch"):
        open_saved_file(tmp_path / "changed.ironrule")


def test_a_check_against_a_file_loads_nothing_of_the_explainer(tmp_path: Path) -> None:
    explainer, path = save("array", tmp_path)
    why = tmp_path / "why.json"
    why.write_text(explainer.explain(int(explainer.row_numbers[~explainer.outcomes][0])).to_json())
    code = f"""
import sys
import zipfile
from pathlib import Path
from ironrule.checker.readers.saved_files import SavedFileChecker
found = SavedFileChecker(Path({str(path)!r})).check(Path({str(why)!r}).read_text())
assert found.status == "proven", str(found)
own = [name for name in sys.modules if name.startswith("ironrule.") and not name.startswith("ironrule.checker")]
assert own == ["ironrule.errors"], own
assert "xgboost" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert saved_files.LARGEST_FILE < 2**32
