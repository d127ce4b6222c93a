"""ironrule ladder: what it prints, and what its options do."""

from __future__ import annotations

from pathlib import Path

from loans import FEATURES, Files, loans
from skops import io

import ironrule
from ironrule.cli.render import render_reasons


def test_the_command_answers_as_the_library_does(run, files: Files):
    model, table = io.load(files.model), loans()
    expected = ironrule.Explainer(model, table[FEATURES], desired="yes").ladder(files.denied, 2, nested=False)
    result = run("ladder", *files.ask("--target", "paid", "--most", "2", "--not-nested", "--json"))
    found = ironrule.Ladder.from_dict(result.json)
    assert [rung.rule for rung in found] == [rung.rule for rung in expected]
    assert found.rungs[:-1] == expected.rungs[:-1]


def test_a_table_of_all_rungs_follows_the_one_to_be_read_first(run, files: Files):
    result = run("ladder", *files.ask("--target", "paid"))
    assert result.code == 0, result.err
    assert "exceptions measured" in result.text
    assert "proven: no exception" in result.text
    assert "Whether the model was trained on them is not known" in result.text.replace("\n", " ")


def test_rows_of_another_file_are_measured_on(run, files: Files, tmp_path: Path):
    fresh = tmp_path / "fresh.csv"
    loans(seed=1).head(30).to_csv(fresh, index=False)
    result = run("ladder", *files.ask("--target", "paid", "--measure", str(fresh), "--json"))
    assert result.json["measured_from"] == "table"
    assert result.json["searched_rows"] == 60
    assert result.json["measured_rows"] <= 30


def test_rows_of_the_data_are_not_measured_on(run, files: Files, tmp_path: Path):
    distinct = tmp_path / "distinct.csv"
    loans().drop_duplicates().to_csv(distinct, index=False)
    asked = [files.model, str(distinct), "--row", str(files.denied), "--desired", "yes", "--target", "paid"]
    result = run("ladder", *asked, "--measure", str(distinct))
    assert result.code == 2
    assert "leave them out of DATA" in result.err


def test_ladders_are_written_in_all_formats(run, files: Files, tmp_path: Path):
    for ending, part in ((".json", "ladder_format"), (".html", "<table"), (".txt", "measured rows")):
        path = tmp_path / f"ladder{ending}"
        assert run("ladder", *files.ask("--target", "paid", "--output", str(path))).code == 0
        assert part in path.read_text()


def test_options_that_cannot_be_used_are_refused(run, files: Files):
    for options, message in ((("--most", "0"), "most must be"), (("--confidence", "2"), "confidence must be a share")):
        result = run("ladder", *files.ask("--target", "paid", *options))
        assert result.code == 2
        assert message in result.err


def test_reasons_have_the_sentences_of_a_catalogue(run, files: Files, tmp_path: Path):
    catalogue = tmp_path / "reasons.toml"
    entries = [
        f'[{name}.{way}]\ncode = "{name}-{way}"\nen = "Your {name}"\n' for name in FEATURES for way in ("low", "high")
    ]
    catalogue.write_text("".join(entries) + '[job.is]\ncode = "job"\nen = "Your work"\n', encoding="utf-8")
    given = ("--reasons", "3", "--catalogue", str(catalogue), "--json")
    result = run("ladder", *files.ask("--target", "paid", *given))
    assert result.code == 0, result.err
    assert {reason["text"] for reason in result.json["reasons"]} <= {"Your age", "Your income", "Your job", "Your work"}


def test_measured_rows_need_no_target(run, files: Files, tmp_path: Path):
    table = loans(seed=1)
    table.to_csv(tmp_path / "decided.csv", index=False)
    table[FEATURES].to_csv(tmp_path / "fresh.csv", index=False)
    found = []
    for name in ("decided.csv", "fresh.csv"):
        result = run("ladder", *files.ask("--target", "paid", "--measure", str(tmp_path / name), "--json"))
        assert result.code == 0, result.err
        found.append([rung.measured for rung in ironrule.Ladder.from_dict(result.json)])
    assert found[0] == found[1]


def test_reasons_stand_below_the_ladder_under_a_heading(run, files: Files):
    lines = run("ladder", *files.ask("--target", "paid", "--reasons", "3")).out.splitlines()
    place = lines.index("Reasons")
    assert lines[place - 1] == ""
    assert lines[place + 1].startswith("1. ")
    assert render_reasons([]).startswith("\nNo condition")


def test_a_catalogue_is_compared_with_the_features(run, files: Files, tmp_path: Path):
    catalogue = tmp_path / "reasons.toml"
    catalogue.write_text('[age.low]\ncode = "A"\nen = "x"\n[shoe.low]\ncode = "B"\nen = "y"\n', encoding="utf-8")
    result = run("reasons", "check", str(catalogue), str(files.data), "--target", "paid", "--json")
    assert result.code == 1
    assert "age.high" in result.json["missing"]
    assert "age.low" not in result.json["missing"]
    assert result.json["unknown"] == ["shoe"]


def test_a_notice_is_written_with_the_catalogue_in_the_language(run, files: Files, tmp_path: Path):
    catalogue, output = tmp_path / "reasons.toml", tmp_path / "notice.html"
    ways = [(name, way) for name in FEATURES for way in ("low", "high", "is")]
    entries = [f'[{name}.{way}]\ncode = "C-{name}"\nde = "Grund {name}"\n' for name, way in ways]
    catalogue.write_text("".join(entries), encoding="utf-8")
    given = ["--audience", "notice", "--catalogue", str(catalogue), "--language", "de", "--output", str(output)]
    result = run("ladder", *files.ask("--target", "paid", *given))
    assert result.code == 0, result.err
    html = output.read_text(encoding="utf-8")
    assert '<html lang="de"' in html
    assert "Grund income" in html
    assert "(C-income)" in html


def test_a_notice_needs_an_html_file(run, files: Files, tmp_path: Path):
    for more in ((), ("--output", str(tmp_path / "notice.json"))):
        result = run("ladder", *files.ask("--target", "paid", "--audience", "notice", *more))
        assert result.code == 2
        assert "--audience notice needs an HTML file" in result.err
        assert "add --output notice.html" in result.err
