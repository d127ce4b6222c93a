"""ironrule report: from explanations in files, and explained afresh."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from loans import Files, loans

import ironrule


@pytest.fixture(scope="module")
def document(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An explanation as the explain command writes it."""
    from ironrule.cli import main

    path = tmp_path_factory.mktemp("report") / "why.json"
    assert main(["explain", *files.ask("--target", "paid", "--output", str(path))]) == 0
    return path


def command_in(html: str) -> list[str]:
    """The command that a report tells to check with."""
    found = re.search(r"<pre>(ironrule check .*?)</pre>", html)
    assert found is not None
    return shlex.split(unescape(found.group(1)))


def test_a_report_of_a_file_is_for_the_person_and_says_where_it_is(run, document: Path, tmp_path: Path):
    output = tmp_path / "why.html"
    result = run("report", str(document), "--output", str(output))
    assert (result.code, result.err) == (0, "")
    assert result.out == f"Report for the person: {output} (proven)\n"
    html = output.read_text(encoding="utf-8")
    assert "<h1>Why the decision was: no</h1>" in html
    assert "<svg" not in html


def test_with_the_data_there_are_pictures(run, files: Files, document: Path, tmp_path: Path):
    output = tmp_path / "why.html"
    result = run("report", str(document), "--data", files.data, "--target", "paid", "--output", str(output))
    assert result.code == 0, result.err
    assert "<svg" in output.read_text(encoding="utf-8")


def test_labels_come_from_the_space_file(run, files: Files, document: Path, tmp_path: Path):
    space, output = tmp_path / "space.toml", tmp_path / "why.html"
    assert run("inspect", files.data, "--target", "paid", "--output", str(space)).code == 0
    text = space.read_text()
    assert '[features."income"]\n' in text
    labelled = '[features."income"]\nlabel = "Income before tax"\nunit = "thousand"\n'
    space.write_text(text.replace('[features."income"]\n', labelled))
    arguments = ["--data", files.data, "--target", "paid", "--space", str(space), "--output", str(output)]
    result = run("report", str(document), *arguments)
    assert result.code == 0, result.err
    assert "Income before tax" in output.read_text(encoding="utf-8")
    assert " thousand or less" in output.read_text(encoding="utf-8")


def test_the_validators_command_checks_the_explanation(run, files: Files, document: Path, tmp_path: Path):
    output = tmp_path / "why.html"
    arguments = ["--audience", "validator", "--model", files.model, "--data", files.data, "--target", "paid"]
    assert run("report", str(document), *arguments, "--output", str(output)).code == 0
    program, command, explanation, *more = command_in(output.read_text(encoding="utf-8"))
    assert (program, command, explanation) == ("ironrule", "check", str(document))
    assert more == ["--model", files.model, "--data", files.data, "--target", "paid"]
    result = run("check", str(document), *more)
    assert result.code == 0, result.err


def test_a_row_is_explained_afresh_with_the_options_of_explain(run, files: Files, tmp_path: Path):
    output = tmp_path / "why.html"
    asked = files.ask("--target", "paid", "--constraint", "cf.age >= 20", "--forbid", "age", "--seed", "3")
    result = run("report", *asked, "--audience", "validator", "--output", str(output), "--json")
    assert result.code == 0, result.err
    assert result.json == {"output": str(output), "audience": "validator", "verdicts": ["proven"]}
    html = output.read_text(encoding="utf-8")
    assert "Explanation of one decision" in html
    assert command_in(html)[2:] == [
        str(output), "--model", files.model, "--data", files.data,
        "--target", "paid", "--desired", "yes", "--constraint", "cf.age >= 20",
    ]  # fmt: skip


def test_a_report_with_a_constraint_checks_with_the_command_it_tells(run, files: Files, tmp_path: Path):
    output, document = tmp_path / "why.html", tmp_path / "explanation.json"
    asked = files.ask("--target", "paid", "--constraint", "cf.income <= 8")
    assert run("report", *asked, "--audience", "validator", "--output", str(output)).code == 0
    assert run("explain", *asked, "--output", str(document)).code == 0
    told = command_in(output.read_text(encoding="utf-8"))
    assert run("check", str(document), *told[3:]).code == 0
    again = ["--data", files.data, "--target", "paid", "--constraint", "cf.income <= 8", "--output", str(output)]
    assert run("report", str(document), *again, "--overwrite").code == 0
    assert "<svg" in output.read_text(encoding="utf-8")


def test_several_explanations_make_one_report(run, document: Path, tmp_path: Path):
    other, output = tmp_path / "other.json", tmp_path / "all.html"
    other.write_text(document.read_text())
    result = run("report", str(document), str(other), "--output", str(output))
    assert result.out == f"Report for the validator: {output} (2 proven)\n"
    html = output.read_text(encoding="utf-8")
    assert "<h1>2 explanations</h1>" in html
    assert ">other</a></td>" in html
    assert (
        run("report", str(document), str(other), "--audience", "person", "--output", str(output), "--overwrite").code
        == 0
    )
    assert output.read_text(encoding="utf-8").count('<article class="letter">') == 2


def test_an_existing_file_is_replaced_only_on_request(run, refused, document: Path, tmp_path: Path):
    output = tmp_path / "why.html"
    output.write_text("mine")
    message = refused("report", str(document), "--output", str(output))
    assert "the output file already exists: " in message
    assert "; add --overwrite to replace it" in message
    assert output.read_text() == "mine"
    assert run("report", str(document), "--output", str(output), "--overwrite").code == 0
    assert output.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{json}"], "required: --output"),
        (["{json}", "--output", "why.txt"], "must end in .html or .pdf"),
        (["{json}", "--output", "no/such/why.html"], "the folder of the output file does not exist: 'no/such'"),
        (
            ["{json}", "--row", "3", "--output", "{out}"],
            "a report needs explanations or ladders (.json), the folder of a batch",
        ),
        (
            ["{model}", "{data}", "--output", "{out}"],
            "a report needs explanations or ladders (.json), the folder of a batch",
        ),
        (
            ["{model}", "--row", "3", "--output", "{out}"],
            "a report needs explanations or ladders (.json), the folder of a batch",
        ),
        (["{model}", "{data}", "--row", "3", "--data", "{data}", "--output", "{out}"], "are for explanations from"),
        (["{json}", "--space", "space.toml", "--output", "{out}"], "--space needs --data, whose values it describes"),
        (["{json}", "--data", "{data}", "--output", "{out}", "--audience", "poet"], "invalid choice: 'poet'"),
        (["{json}", "--data", "nothing.csv", "--output", "{out}"], "data file not found: 'nothing.csv'"),
        (["nothing.json", "--output", "{out}"], "explanation not found: 'nothing.json'"),
        (
            ["{broken}", "--output", "{out}"],
            "cannot read broken.json as an explanation: the explanation is not valid JSON: ",
        ),
        (["{altered}", "--output", "{out}"], "digest mismatch: the document was modified after it was written"),
        (
            ["{json}", "--data", "{data}", "--constraint", "cf.age >= 20", "--output", "{out}"],
            "was made with another space",
        ),
    ],
)
def test_what_cannot_be_used_is_told_without_a_traceback(refused, files, document, tmp_path, arguments, message):
    broken, altered = tmp_path / "broken.json", tmp_path / "altered.json"
    broken.write_text("{")
    altered.write_text(json.dumps(json.loads(document.read_text()) | {"history_rows": 61}))
    places = {"json": document, "model": files.model, "data": files.data, "out": tmp_path / "why.html"}
    given = [text.format(**places, broken=broken, altered=altered) for text in arguments]
    assert message in refused("report", *given)
    assert not (tmp_path / "why.html").exists()


def test_html_from_explain_is_the_validators_report(run, files: Files, tmp_path: Path):
    output = tmp_path / "why.html"
    assert run("explain", *files.ask("--target", "paid", "--output", str(output))).code == 0
    html = output.read_text(encoding="utf-8")
    assert "How to check it" in html
    again = ["--model", files.model, "--data", files.data, "--target", "paid", "--desired", "yes"]
    assert command_in(html)[3:] == again


def test_an_extended_domain_is_heeded_when_the_data_is_read_again(run, files: Files, tmp_path: Path):
    document, output = tmp_path / "why.json", tmp_path / "why.html"
    row = ["--row", '{"age": 17, "income": 1, "job": "clerk"}', "--desired", "yes", "--target", "paid"]
    assert run("explain", files.model, files.data, *row, "--output", str(document)).code == 0
    arguments = ["report", str(document), "--data", files.data, "--target", "paid"]
    assert run(*arguments, "--output", str(output)).code == 0
    assert ironrule.Explanation.from_json(document.read_text()).instance["age"] == 17


def test_a_batch_is_reported_from_its_folder(run, files: Files, tmp_path: Path):
    folder, output = tmp_path / "explained", tmp_path / "all.html"
    made = ["batch", files.model, files.data, "--desired", "yes", "--target", "paid", "--workers", "1"]
    assert run(*made, "--output", str(folder)).code == 0
    result = run("report", str(folder), "--output", str(output))
    assert result.code == 0, result.err
    batch = ironrule.Batch.open(folder)
    assert result.out == f"Report for the validator: {output} ({len(batch)} proven)\n"
    html = output.read_text(encoding="utf-8")
    assert f"<h1>{len(batch)} explanations</h1>" in html
    assert f">row {batch.rows[0]}</a></td>" in html
    letters = ["report", str(folder), "--audience", "person", "--data", files.data, "--target", "paid", "--overwrite"]
    assert run(*letters, "--output", str(output)).code == 0
    html = output.read_text(encoding="utf-8")
    assert html.count('<article class="letter">') == len(batch)
    assert html.count("How your case compares with past cases") == len(batch)


def test_one_row_of_a_batch_is_reported(run, refused, files: Files, tmp_path: Path):
    folder, output = tmp_path / "explained", tmp_path / "one.html"
    made = ["batch", files.model, files.data, "--desired", "yes", "--target", "paid", "--workers", "1"]
    assert run(*made, "--output", str(folder)).code == 0
    batch = ironrule.Batch.open(folder)
    row = batch.rows[-1]
    result = run("report", str(folder), "--row", str(row), "--audience", "validator", "--output", str(output))
    assert result.out == f"Report for the validator: {output} (proven)\n"
    assert batch.get_explanation(row).to_dict()["digest"] in output.read_text(encoding="utf-8")
    absent = next(number for number in range(60) if number not in batch.rows)
    refused("report", str(folder), "--row", str(absent), "--output", str(output), "--overwrite")


def run_shell(html: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command that a report prints, run by a shell in a folder, as it stands."""
    found = re.search(r"<pre>(ironrule check .*?)</pre>", html)
    assert found is not None
    program = folder / "ironrule"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ironrule "$@"\n')
    program.chmod(0o755)
    source = str(Path(ironrule.__file__).parents[1])
    environment = os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": source}
    return subprocess.run(
        unescape(found.group(1)), shell=True, cwd=folder, env=environment, text=True, capture_output=True, check=False
    )


@pytest.mark.skipif(os.name == "nt", reason="the command is run by a POSIX shell")
@pytest.mark.parametrize("is_fresh", [True, False])
def test_the_printed_command_works_as_it_stands(run, tmp_path: Path, monkeypatch, is_fresh: bool):
    """The model is of a type that must be trusted, names hold blanks, and the report is checked in its own folder."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.tree import DecisionTreeClassifier
    from skops import io

    table, features = loans(), ["age", "income", "job"]
    columns = make_column_transformer(
        (OneHotEncoder(), make_column_selector(dtype_exclude="number")), remainder="passthrough"
    )
    model = make_pipeline(columns, DecisionTreeClassifier(random_state=0)).fit(table[features], table["paid"])
    monkeypatch.chdir(tmp_path)
    table.to_csv("past loans.csv", index=False)
    io.dump(model, "the model.skops")
    row = str(int((model.predict(table[features]) == "no").argmax()))
    trust = ["--trust", "sklearn.compose._column_transformer.make_column_selector", "sklearn.tree._tree.Tree"]
    files = ["--target", "paid", "--desired", "yes", *trust]
    if is_fresh:
        asked = ["the model.skops", "past loans.csv", "--row", row, *files]
    else:
        explained = ["explain", "the model.skops", "past loans.csv", "--row", row, *files, "--output", "why is it.json"]
        assert run(*explained).code == 0
        asked = ["why is it.json", "--model", "the model.skops", "--data", "past loans.csv", "--target", "paid", *trust]
    result = run("report", *asked, "--audience", "validator", "--output", "the report.html")
    assert result.code == 0, result.err
    html = Path("the report.html").read_text(encoding="utf-8")
    if is_fresh:  # a process takes seconds to start: one is enough to see that a shell reads the command so
        checked = run_shell(html, tmp_path)
        assert checked.returncode == 0, checked.stderr
        assert "proven" in checked.stdout
    _, *words = command_in(html)
    assert run(*words).code == 0
    table.assign(income=table["income"] + 1).to_csv("past loans.csv", index=False)
    assert run(*words).code != 0  # with other data the check fails


def test_with_the_model_the_validator_reads_outcomes_and_the_score(run, files: Files, document: Path, tmp_path: Path):
    output = tmp_path / "why.html"
    given = ["--audience", "validator", "--data", files.data, "--target", "paid", "--output", str(output)]
    assert run("report", str(document), *given).code == 0
    without = output.read_text(encoding="utf-8")
    assert "The model was not asked about the past rows" in without
    assert run("report", str(document), *given, "--model", files.model, "--overwrite").code == 0
    html = output.read_text(encoding="utf-8")
    assert "The model was not asked about the past rows" not in html
    assert "Pipeline of ColumnTransformer, LogisticRegression" in html
    for name in (files.model, files.data):
        assert hashlib.sha256(Path(name).read_bytes()).hexdigest() in html


def test_a_report_for_the_person_takes_the_language_and_the_letterhead(
    run, files: Files, document: Path, tmp_path: Path
):
    output, fields = tmp_path / "why.html", tmp_path / "fields.toml"
    fields.write_text('creditor = "Musterbank"\ncontact = "Telefon 0800"\n', encoding="utf-8")
    given = ["--language", "de", "--fields", str(fields), "--date", "2026-03-31", "--output", str(output)]
    result = run("report", str(document), "--data", files.data, "--target", "paid", *given)
    assert result.code == 0, result.err
    html = output.read_text(encoding="utf-8")
    for text in ("Musterbank", "Telefon 0800", "31. März 2026", "Was über Sie bekannt war", '<html lang="de"'):
        assert text in html


def test_a_template_for_the_validator_is_refused(refused, document: Path, tmp_path: Path):
    given = ["--audience", "validator", "--template", "mine.html", "--output", str(tmp_path / "why.html")]
    assert "--template must come with --audience person or notice" in refused("report", str(document), *given)


def test_a_page_without_an_explanation_is_not_checked(refused, files: Files, tmp_path: Path):
    page = tmp_path / "page.html"
    page.write_text("<p>nothing here</p>", encoding="utf-8")
    told = refused("check", str(page), "--model", files.model, "--data", files.data, "--target", "paid")
    assert "the report must have one explanation attached, as a validator's report has, got 0" in told


def test_a_folder_that_holds_no_batch_is_refused(refused, tmp_path: Path):
    refused("report", str(tmp_path), "--output", str(tmp_path / "all.html"))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A tree, whose thresholds lie between the values seen."""
    import joblib
    from sklearn.tree import DecisionTreeClassifier

    folder, table = tmp_path_factory.mktemp("tree"), loans()
    numbers = table[["age", "income"]] * 1.5  # so that there are values between those seen
    model = DecisionTreeClassifier(max_depth=4, random_state=0).fit(numbers, table["paid"])
    joblib.dump(model, folder / "tree.joblib")
    numbers.to_csv(folder / "numbers.csv", index=False)
    denied = int((model.predict(numbers) == "no").argmax())
    return Files(folder, str(folder / "tree.joblib"), str(folder / "numbers.csv"), denied)


def test_an_explanation_of_whole_intervals_is_reported_with_its_past_rows(run, tree: Files, tmp_path: Path):
    why, out = str(tmp_path / "why.json"), tmp_path / "why.html"
    assert run("explain", *tree.ask("--trust-pickle", "--domain", "interval", "--output", why)).code == 0
    assert run("report", why, "--data", tree.data, "--output", str(out)).code == 0
    assert "How your case compares with past cases" in out.read_text(encoding="utf-8")


def test_a_batch_of_whole_intervals_is_reported_with_its_past_rows(run, tree: Files, tmp_path: Path):
    folder, out = str(tmp_path / "batch"), tmp_path / "all.html"
    asked = [tree.model, tree.data, "--desired", "yes", "--trust-pickle"]
    assert run("batch", *asked, "--output", folder, "--workers", "1").code == 0
    assert run("report", folder, "--data", tree.data, "--audience", "person", "--output", str(out)).code == 0
    assert "How your case compares with past cases" in out.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def ladder(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ladder as the ladder command writes it."""
    from ironrule.cli import main

    path = tmp_path_factory.mktemp("ladder") / "ladder.json"
    assert main(["ladder", *files.ask("--target", "paid", "--output", str(path))]) == 0
    return path


def test_a_saved_ladder_makes_a_notice(run, ladder: Path, tmp_path: Path):
    output, fields, labels = tmp_path / "notice.html", tmp_path / "fields.toml", tmp_path / "labels.toml"
    fields.write_text('creditor = "Example Bank"\nreference = "L-17"\n', encoding="utf-8")
    labels.write_text('[income]\nlabel = "Einkommen"\nunit = "Tsd. EUR"\n', encoding="utf-8")
    given = ["--language", "de", "--fields", str(fields), "--labels", str(labels), "--date", "2026-03-31"]
    result = run("report", str(ladder), "--audience", "notice", *given, "--output", str(output))
    assert result.code == 0, result.err
    assert result.out == f"Notice: {output} (proven)\n"
    html = output.read_text(encoding="utf-8")
    for part in ("Example Bank", "Zeichen: L-17", "31. März 2026", "Einkommen", "Tsd. EUR", "ohne Ausnahme"):
        assert part in html
    assert (
        run("report", str(ladder), "--audience", "notice", "--no-worth", "--output", str(tmp_path / "b.html")).code == 0
    )
    assert "<footer" not in (tmp_path / "b.html").read_text(encoding="utf-8")


def test_the_summary_names_the_verdict_of_the_rule_that_is_shown(run, files: Files, tmp_path: Path):
    saved, row = tmp_path / "ladder.json", '{"age": 25, "income": 5, "job": "cook"}'
    asked = [files.model, files.data, "--row", row, "--desired", "yes", "--target", "paid", "--at-least", "0.1"]
    assert run("ladder", *asked, "--output", str(saved)).code == 0
    shown = {"notice": "bounded", "person": "bounded", "validator": "proven"}
    for audience, verdict in shown.items():
        given = ["--audience", audience, "--reasons", "1", "--output", str(tmp_path / f"{audience}.html"), "--json"]
        assert run("report", str(saved), *given).json["verdicts"] == [verdict]


def test_a_saved_ladder_is_reported_to_the_other_audiences(run, files: Files, ladder: Path, tmp_path: Path):
    for audience, part in (("person", "Why the decision was"), ("validator", "Short rules and the whole one")):
        output = tmp_path / f"{audience}.html"
        given = ["--audience", audience, "--data", files.data, "--target", "paid", "--output", str(output)]
        assert run("report", str(ladder), *given).code == 0
        assert part in output.read_text(encoding="utf-8")


def test_several_ladders_make_a_notice_each(run, ladder: Path, document: Path, refused, tmp_path: Path):
    output, people = tmp_path / "all.html", tmp_path / "people.csv"
    people.write_text("row,recipient\n0,Ann\n1,Bob\n", encoding="utf-8")
    given = ["--audience", "notice", "--people", str(people), "--output", str(output)]
    assert run("report", str(ladder), str(ladder), *given).code == 0
    html = output.read_text(encoding="utf-8")
    assert html.count("<article") == 2
    assert html.index("Ann") < html.index("Bob")
    assert "ladders alone or of explanations alone" in refused(
        "report", str(ladder), str(document), *given, "--overwrite"
    )


def test_a_notice_needs_a_ladder(refused, document: Path, tmp_path: Path):
    output = str(tmp_path / "notice.html")
    told = refused("report", str(document), "--audience", "notice", "--output", output)
    assert "a notice needs a ladder" in told
    assert "ironrule ladder MODEL DATA" in told


def test_templates_and_catalogues_that_cannot_be_used_are_told_with_their_line(refused, ladder: Path, tmp_path: Path):
    template = tmp_path / "mine.html"
    template.write_text("a\n{{ nothing }}\n", encoding="utf-8")
    start = ["report", str(ladder), "--audience", "notice", "--output", str(tmp_path / "notice.html")]
    assert "mine.html, line 2" in refused(*start, "--template", str(template))
    assert "language of a notice must be one of" in refused(*start, "--language", "fr")
    assert "file of labels not found" in refused(*start, "--labels", str(tmp_path / "none.toml"))


def test_a_batch_with_ladders_makes_a_notice_per_row(run, files: Files, tmp_path: Path):
    folder, output = tmp_path / "denials", tmp_path / "notices.html"
    start = ["batch", files.model, files.data, "--target", "paid", "--desired", "yes", "--workers", "1"]
    result = run(*start, "--ladders", "--most", "3", "--output", str(folder), "--json")
    assert result.code == 0, result.err
    made = run("report", str(folder), "--audience", "notice", "--output", str(output))
    assert made.code == 0, made.err
    assert output.read_text(encoding="utf-8").count("<article") == result.json["explained"]
    letters = tmp_path / "letters.html"
    assert run("report", str(folder), "--audience", "person", "--output", str(letters)).code == 0
    account = tmp_path / "account.html"
    assert run("report", str(folder), "--output", str(account)).code == 0


def test_a_batch_without_ladders_makes_no_notices(run, refused, files: Files, tmp_path: Path):
    folder = tmp_path / "denials"
    start = ["batch", files.model, files.data, "--target", "paid", "--desired", "yes", "--workers", "1"]
    assert run(*start, "--output", str(folder)).code == 0
    told = refused("report", str(folder), "--audience", "notice", "--output", str(tmp_path / "n.html"))
    assert "a notice needs a ladder" in told
    assert "--most and --measure are for ladders; add --ladders" in refused(*start, "--most", "3", "--output", "x")
