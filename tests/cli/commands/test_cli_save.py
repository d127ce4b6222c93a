"""``ironrule save``, and saved explainers in the place of MODEL and DATA."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from loans import Files, Run

ROW = json.dumps({"age": 24, "income": 2, "job": "cook"})


@pytest.fixture
def saved(files: Files, run: Callable[..., Run], tmp_path: Path) -> str:
    path = str(tmp_path / "credit.ironrule")
    done = run("save", files.model, files.data, "--target", "paid", "--desired", "yes", "--output", path)
    assert (done.code, "60 past rows" in done.out) == (0, True)
    return path


def test_a_saved_explainer_stands_for_model_and_data(saved: str, files: Files, run: Callable[..., Run]) -> None:
    options = ("--target", "paid", "--desired", "yes")
    own = run("explain", files.model, files.data, *options, "--row", ROW, "--json").json
    other = run("explain", saved, "--row-json", ROW, "--json").json
    kept = ("rules", "wider", "witnesses", "model", "space", "counterfactuals", "changes")
    assert {name: own[name] for name in kept} == {name: other[name] for name in kept}
    assert other["confirmed_by_model"] is False
    shown = run("explain", saved, "--row", str(files.denied))
    assert (shown.code, "Not confirmed by the model itself" in shown.out.replace("\n", " ")) == (0, True)
    for command in (("ladder",), ("counterfactual",), ("judge", "--rule", "income <= 3")):
        assert run(command[0], saved, "--row", str(files.denied), *command[1:]).code == 0


def test_a_saved_explainer_rechecks_and_explains_many(
    saved: str, files: Files, run: Callable[..., Run], tmp_path: Path
) -> None:
    why = str(tmp_path / "why.json")
    assert run("explain", saved, "--row", str(files.denied), "--output", why).code == 0
    assert run("recheck", why, "--model", saved).code == 0
    assert run("check", why, "--model", files.model, "--data", files.data, "--target", "paid").code == 0
    assert run("batch", saved, "--output", str(tmp_path / "all"), "--workers", "1").code == 0


def test_what_the_file_says_itself_is_refused_beside_it(
    saved: str, files: Files, refused: Callable[..., str], run: Callable[..., Run], tmp_path: Path
) -> None:
    assert "leave DATA out" in refused("explain", saved, files.data, "--row", "1")
    assert "leave --desired out" in refused("explain", saved, "--row", "1", "--desired", "yes")
    assert "must be the model itself" in refused("save", saved, "--output", str(tmp_path / "b.ironrule"))
    assert "must end in .ironrule" in refused("save", files.model, files.data, "--output", str(tmp_path / "b.zip"))
    assert "--output" in refused("save", files.model, files.data)
    (tmp_path / "bad.ironrule").write_bytes(b"nothing")
    assert "must have the parts of a ZIP archive" in refused("explain", str(tmp_path / "bad.ironrule"), "--row", "1")
    assert "saved explainer not found" in refused("explain", str(tmp_path / "absent.ironrule"), "--row", "1")
    path = str(tmp_path / "none.ironrule")
    options = ("--target", "paid", "--desired", "yes", "--no-history")
    assert run("save", files.model, files.data, *options, "--output", path, "--json").json["past_rows"] == 0
    assert run("explain", path, "--row", ROW).code == 0
    assert "no past rows" in refused("explain", path, "--row", "1")


def test_a_check_against_a_saved_explainer_says_what_was_checked(
    saved: str, files: Files, run: Callable[..., Run], refused: Callable[..., str], tmp_path: Path
) -> None:
    why = tmp_path / "why.json"
    assert run("explain", saved, "--row", str(files.denied), "--output", str(why)).code == 0
    found = run("check", str(why), saved)
    assert found.code == 0
    assert "normal form in the saved file" in found.out.replace("\n", " ")
    assert run("check", str(why), "--model", saved, "--json").json["strict"] is False
    assert run("check", str(why), saved, "--strict").code == 3
    document = json.loads(why.read_text())
    document["rules"][0]["rule"]["components"].pop()
    why.write_text(json.dumps(document))
    assert run("check", str(why), saved).code == 1
    assert "leave DATA out" in refused("check", str(why), saved, "--data", files.data)
    assert "must be a saved explainer" in refused("check", str(why), files.model, "--data", files.data)
    assert "not found" in refused("check", str(why), str(tmp_path / "absent.ironrule"))


def test_counterfactuals_of_a_saved_explainer_are_checked_against_its_file(
    saved: str, files: Files, run: Callable[..., Run], tmp_path: Path
) -> None:
    changes = str(tmp_path / "changes.json")
    assert run("counterfactual", saved, "--row", str(files.denied), "--output", changes).code == 0
    assert run("check", changes, saved).code == 0


def test_several_models_are_saved_in_one_file(files: Files, run: Callable[..., Run], tmp_path: Path) -> None:
    path, why = str(tmp_path / "two.ironrule"), str(tmp_path / "why.json")
    options = ("--target", "paid", "--desired", "yes", "--models", files.model)
    assert run("save", files.model, files.data, *options, "--output", path).code == 0
    assert run("explain", path, "--row", str(files.denied), "--output", why).code == 0
    assert run("check", why, path).code == 0
    alone = run("check", why, "--model", files.model, "--data", files.data, "--target", "paid")
    assert (alone.code, "2 models together" in alone.out.replace("\n", " ")) == (3, True)
