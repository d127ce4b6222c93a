"""Notices: plain words, both languages, honest about what is proven, safe with any template and any value."""

from __future__ import annotations

import datetime
import itertools
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

import ironrule
from ironrule import NoticeOptions, ReasonCatalogue
from ironrule.errors import InputError
from ironrule.report.notice.build import describe_worth
from ironrule.report.notice.language import list_languages, load_language
from ironrule.report.notice.wording import NoticeWording
from ironrule.report.templating import render_own_template
from ironrule.results.audience import LADDER_AUDIENCES
from ironrule.results.ladder import Ladder
from ironrule.results.notice import FeatureText, read_feature_texts, read_fields, read_fields_by_row
from ironrule.rule.phrasing import FeatureCondition
from ironrule.rule.rule import Component
from ironrule.verdict.bounded import Bounded
from notice_examples import (
    DAY,
    GOOD,
    HOPELESS,
    LABELS,
    POOR,
    UNKNOWN,
    UNREFUTED,
    make_explainer,
    make_ladder,
    make_proven,
    make_refuted,
    with_verdicts,
)
from report_examples import read

TECHNICAL = (
    "component", "bounded", "verdict", "proven", "certificate", "counterfactual", "feature", "rung", "ladder",
    "model", "box", "refuted", "history", "komponente", "bewiesen", "modell", "merkmal", "sprosse",
    "beweis", "verdikt", "schranke",
)  # fmt: skip
CATALOGUE = ReasonCatalogue.from_dict(
    {
        "income": {"low": {"code": "R1", "en": "Income is too low", "de": "Das Einkommen ist zu niedrig"}},
        "debts": {"high": {"code": "R2", "en": "Too many loans are open", "de": "Zu viele Kredite sind offen"}},
        "used": {"high": {"code": "R2", "en": "Too much credit is in use", "de": "Zu viel Kredit wird genutzt"}},
    }
)


def make_options(**more) -> NoticeOptions:
    return NoticeOptions(**({"date": DAY, "labels": LABELS, "most": 3} | more))


def write(ladder: Ladder | None = None, **more) -> str:
    return (ladder or make_ladder()).to_html("notice", notice=make_options(**more))


def get_text(html: str) -> str:
    return " ".join(read(html).text.split())


def test_a_notice_is_one_page_that_prints_and_needs_nothing_else():
    html = write()
    found = read(html)
    assert html.startswith("<!doctype html>")
    assert found.tags.count("h1") == 1
    assert {("html", "lang", "en"), ("html", "dir", "ltr")} <= set(found.attributes)
    assert "@page { margin:" in html
    assert "size: A4" not in html  # the paper is that of the printer
    assert "@media print" in html
    assert any("default-src 'none'" in value for _, _, value in found.attributes)


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("catalogue", [None, CATALOGUE], ids=["plain", "catalogue"])
def test_no_technical_word_is_used(language, catalogue):
    for short, last in itertools.product((GOOD, POOR, HOPELESS, UNKNOWN), (make_proven(), UNREFUTED, make_refuted())):
        text = get_text(write(with_verdicts(make_ladder(), short, last), language=language, catalogue=catalogue))
        assert [word for word in TECHNICAL if word in text.lower()] == []


def test_plain_reasons_have_the_value_and_one_that_would_not_have_counted():
    text = get_text(write())
    assert "Monthly income: 2,700 EUR, which is low. With 2,800 EUR or more, this would not" in text
    assert "Open loans: 4, which is high. With 3 or less" in text
    assert "Credit in use: 75%, which is high. With 65% or less" in text


def test_german_has_its_own_sentences_numbers_and_dates():
    text = get_text(write(language="de"))
    assert "Monatliches Einkommen: 2.700 EUR, das ist niedrig. Ab 2.800 EUR hätte das nicht gegen Sie" in text
    assert "Genutzter Kredit: 75 %" in text
    assert "1. März 2026" in text
    assert "1 March 2026" in get_text(write())


def test_the_catalogue_has_the_word_and_a_shared_code_counts_once():
    text = get_text(write(catalogue=CATALOGUE, language="de"))
    assert "Das Einkommen ist zu niedrig (R1)" in text
    assert text.count("R2") == 1


def test_a_sentence_that_the_catalogue_lacks_is_named():
    catalogue = ReasonCatalogue.from_dict({"income": {"low": {"code": "R1", "en": "Income"}}})
    with pytest.raises(InputError, match=r"no entry debts\.high") as error:
        write(catalogue=catalogue)
    assert error.value.code == "missing-reason"
    with pytest.raises(InputError, match=r"no entry income\.low in the language 'de'"):
        write(catalogue=catalogue, language="de")


def test_all_conditions_of_the_rule_are_listed_where_its_worth_is_told():
    ladder = make_ladder()
    rung = ladder.find_reason_rung(3)
    against = replace(rung.parts[0], counts_against=False)
    rungs = [replace(one, parts=(against, *one.parts[1:])) if one is rung else one for one in ladder.rungs]
    text = get_text(write(replace(ladder, rungs=tuple(rungs))))
    reasons, worth = text.split("How reliable these reasons are")
    assert "Monthly income" not in reasons
    assert "Monthly income: " in worth


def test_a_person_without_reasons_gets_no_notice():
    ladder = make_ladder()
    rungs = [replace(rung, parts=tuple(replace(p, counts_against=False) for p in rung.parts)) for rung in ladder]
    with pytest.raises(InputError, match="counts against this person") as error:
        write(replace(ladder, rungs=tuple(rungs)))
    assert error.value.code == "no-reasons"


# What may be said of each verdict. Only a proof says that there is no exception.
NO_EXCEPTION = {
    "en": ("Everyone for whom", "without exception.", "and no exception", "was checked for every"),
    "de": ("Alle, auf die", "ohne Ausnahme,", "ohne Ausnahme.", "keine Ausnahme.", "wurde für jede"),
}
SHORT = {
    "good": (GOOD, "at least 97 in 100 get the same decision"),
    "poor": (
        POOR,
        "do not settle the decision. Of people for whom all of them are true, we can only say that",
    ),
    "hopeless": (HOPELESS, "do not settle the decision. How many people"),
    "unknown": (UNKNOWN, "is not known: no earlier case"),
}
LAST = {
    "proven": (make_proven, "conditions and no exception"),
    "unrefuted": (lambda: UNREFUTED, "We found no exception to it, but we cannot exclude"),
    "refuted": (make_refuted, "We found no complete rule without exceptions"),
}


def describe(ladder: Ladder, language: str, most: int = 3) -> list[str]:
    rung = ladder.find_reason_rung(most)
    assert rung is not None
    return describe_worth(ladder, rung, NoticeWording(load_language(language)))


@pytest.mark.parametrize(("language", "said"), [("en", "deliberately cautious"), ("de", "bewusst vorsichtig")])
def test_a_share_that_is_a_bound_is_said_to_be_a_cautious_one(language: str, said: str) -> None:
    told = {name: describe(with_verdicts(make_ladder(), short), language) for name, (short, _) in SHORT.items()}
    cautious = {name: [one for one in sentences if said in one] for name, sentences in told.items()}
    assert {name: len(found) for name, found in cautious.items()} == {"good": 1, "poor": 1, "hopeless": 0, "unknown": 0}
    share = math.floor((1.0 - POOR.exceptions) * 100)
    assert f" {share} " in cautious["poor"][0].replace("“", " ").replace("„", " ")  # the number that is meant


@pytest.mark.parametrize("short", SHORT)
@pytest.mark.parametrize("last", LAST)
def test_every_verdict_has_its_own_sentence_and_only_proofs_have_no_exception(short, last):
    ladder = with_verdicts(make_ladder(), SHORT[short][0], LAST[last][0]())
    sentences = describe(ladder, "en")
    assert SHORT[short][1] in sentences[0]
    assert LAST[last][1] in sentences[-1]
    for language, claims in NO_EXCEPTION.items():
        told = describe(ladder, language)
        assert not any(claim in sentence for claim in claims for sentence in told[:-1])
        is_claimed = any(claim in told[-1] for claim in claims)
        assert is_claimed == (last == "proven")


@pytest.mark.parametrize("language", NO_EXCEPTION)
@pytest.mark.parametrize("last", LAST)
def test_a_short_rule_that_is_the_last_rung_says_what_it_is(language, last):
    ladder = with_verdicts(make_ladder(), last=LAST[last][0]())
    assert ladder.find_reason_rung(4) is ladder.last
    sentences = describe(ladder, language, most=4)
    is_claimed = any(claim in sentence for claim in NO_EXCEPTION[language] for sentence in sentences)
    assert is_claimed == (last == "proven")


def test_no_sentence_about_a_bound_is_one_about_a_proof():
    """Were a bounded rung drawn like a proven one, these would meet."""
    for language in NO_EXCEPTION:
        bounded = [sentence for verdict, _ in SHORT.values() for sentence in describe(
            with_verdicts(make_ladder(), verdict, UNREFUTED), language)]  # fmt: skip
        proven = describe(with_verdicts(make_ladder(), last=make_proven()), language, most=4)
        assert not {*bounded} & {*proven}


@pytest.mark.parametrize("seen", range(0, 60, 7))
def test_a_share_is_never_rounded_up(seen):
    verdict = ironrule.Bounded.from_counts(seen, 500, 0.95, 3)
    sentence = describe(with_verdicts(make_ladder(), verdict), "en")[0]
    share, of = (int(number.replace(",", "")) for number in re.findall(r"([\d,]+) in ([\d,]+)", sentence)[0])
    assert share / of <= 1.0 - verdict.exceptions < (share + 1) / of


def test_rows_that_the_model_may_know_are_mentioned():
    ladder = with_verdicts(make_ladder(), GOOD)
    assert not any("new applicants" in sentence for sentence in describe(ladder, "en"))
    split = replace(ladder, measured_from="split")
    assert any("For new applicants the share may be lower" in sentence for sentence in describe(split, "en"))


def test_constraints_limit_what_is_said():
    ladder = make_ladder()
    explanation = replace(ladder.explanation, constraints=("cf.age >= 18",))
    assert "the following is true: age >= 18." in describe(replace(ladder, explanation=explanation), "en")[-1]


def test_the_worth_can_be_left_out():
    html = write(worth=False)
    assert "<footer" not in html
    assert "Monthly income" in html


def test_a_ladder_from_json_makes_the_same_notice():
    options = make_options(fields={"reference": "17"})
    ladder = make_ladder()
    assert Ladder.from_json(ladder.to_json()).to_html("notice", notice=options) == ladder.to_html(
        "notice", notice=options
    )


def test_labels_of_the_space_are_used_where_no_others_are_given():
    explainer = make_explainer()
    space = explainer.space.with_labels({"income": "Salary"}, {"income": "USD"})
    ladder = make_ladder()
    labelled = replace(ladder, explanation=replace(ladder.explanation, lazy_background=None))
    from ironrule.report.notice.render import render_notice

    text = get_text(render_notice(labelled, make_options(labels={}), space))
    assert "Salary: 2,700 USD" in text
    assert "Debts: 4" in text


# Values.

INCOME = {"unit": "EUR"}


@pytest.mark.parametrize(
    ("texts", "value", "en", "de"),
    [
        ({}, 2024, "2024", "2024"),  # may be a year
        (INCOME, 2024, "2,024 EUR", "2.024 EUR"),
        ({"format": "plain", "unit": "EUR"}, 2024, "2024 EUR", "2024 EUR"),
        ({"format": "grouped"}, 2024, "2,024", "2.024"),
        ({}, 1234567.25, "1,234,567.25", "1.234.567,25"),
        ({}, -0.25, "-0.25", "-0,25"),
        ({}, 1.7139999866485596, "1.714", "1,714"),  # a number of single precision
        ({}, 0.1 + 0.2, "0.30000000000000004", "0,30000000000000004"),
        ({}, 1e-7, "0.0000001", "0,0000001"),
        ({"format": "percent"}, 0.285, "28.5%", "28,5 %"),
        ({"unit": "%"}, 12.5, "12.5%", "12,5 %"),
        (INCOME, None, "not given", "keine Angabe"),
        ({}, True, "yes", "ja"),
        ({}, datetime.date(2026, 12, 31), "31 December 2026", "31. Dezember 2026"),
        ({}, datetime.datetime(2026, 12, 31, 8, 5), "31 December 2026 08:05", "31. Dezember 2026 08:05"),
        ({"values": {"A11": {"en": "no account", "de": "kein Konto"}}}, "A11", "no account", "kein Konto"),
        ({"values": {"-9": "no record"}, "unit": "months"}, -9.0, "no record", "no record"),
        ({"values": {"A11": {"en": "no account"}}}, "A11", "no account", "A11"),
    ],
)
def test_values_are_worded_for_people(texts, value, en, de):
    texts = {"x": FeatureText.from_dict("x", texts)}
    for language, expected in (("en", en), ("de", de)):
        assert NoticeWording(load_language(language), texts=texts).format_value("x", value) == expected


@pytest.mark.parametrize(
    ("components", "en", "de"),
    [
        ([("<=", 1500)], "1,500 EUR or less", "höchstens 1.500 EUR"),
        ([(">=", 1500)], "1,500 EUR or more", "mindestens 1.500 EUR"),
        ([(">=", 1500), ("<=", 2500)], "from 1,500 to 2,500 EUR", "von 1.500 bis 2.500 EUR"),
        ([(">=", 1500), ("<=", 1500)], "1,500 EUR", "1.500 EUR"),
        ([("==", "cook")], "cook EUR", "cook EUR"),
        ([("<=", datetime.date(2026, 1, 2))], "2 January 2026 or earlier", "2. Januar 2026 oder früher"),
        ([(">=", "mid")], "mid EUR or higher", "mid EUR oder höher"),
    ],
)
def test_conditions_are_worded_for_people(components, en, de):
    condition = FeatureCondition("x", tuple(Component("x", op, value) for op, value in components))
    texts = {"x": FeatureText.from_dict("x", INCOME)}
    for language, expected in (("en", en), ("de", de)):
        assert NoticeWording(load_language(language), texts=texts).format_condition(condition) == expected


def test_a_few_values_of_an_order_are_listed():
    component = Component("x", "<=", "mid", allowed=("low", "mid"))
    for language, expected in (("en", "low or mid"), ("de", "low oder mid")):
        wording = NoticeWording(load_language(language))
        assert wording.format_condition(FeatureCondition("x", (component,))) == expected


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"x": 3}, "the texts of feature 'x' may have"),
        ({"x": {"size": 3}}, "the texts of feature 'x' may have"),
        ({"x": {"label": 3}}, "must be a string"),
        ({"x": {"label": {}}}, "must be a string"),
        ({"x": {"values": 3}}, "must be a table of texts"),
        ({"x": {"values": {"a": ""}}}, "must be a string"),
        ({"x": {"format": "big"}}, "format of feature 'x' must be one of grouped, plain, percent"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(document, message):
    with pytest.raises(InputError, match=message):
        read_feature_texts(document)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"most": 0}, "most of a notice must be a positive integer, got 0"),
        ({"most": True}, "most of a notice"),
        ({"date": "2026"}, "date of a notice must be a date"),
        ({"fields": {"a": 3}}, "fields of a notice must be a mapping"),
        ({"fields_by_row": {1: 3}}, "fields_by_row of a notice must be a mapping"),
        ({"catalogue": "reasons.toml"}, "catalogue of a notice must be a ReasonCatalogue"),
        ({"language": ""}, "language of a notice"),
        ({"labels": "nowhere.toml"}, "file of labels not found"),
        ({"labels": None}, "labels of a notice must be the path of a file, or a mapping, got None"),
        ({"labels": [("x", 1)]}, "labels of a notice must be"),
        ({"template": 5}, "template of a notice must be the path of a file, got 5"),
        ({"worth": "no"}, "worth of a notice must be True or False, got 'no'"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        NoticeOptions(**options)


@pytest.mark.parametrize("path", ["\0", "a" * 5000])
def test_a_template_that_no_file_can_be_is_not_found(path):
    with pytest.raises(InputError, match="template not found"):
        render_own_template("ironrule.report.notice", Path(path), {})


def test_the_options_of_a_notice_must_be_such():
    with pytest.raises(InputError, match="notice must be a NoticeOptions, got dict"):
        make_ladder().to_html("notice", notice={"most": 2})


# Languages.


def write_language(folder: Path, text: str) -> Path:
    path = folder / "xx.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_all_languages_that_ship_have_the_same_sentences():
    assert list_languages() == ("de", "en")
    assert {*load_language("de").sentences} == {*load_language("en").sentences}


def test_a_language_of_the_users_own_may_run_from_right_to_left(tmp_path: Path):
    text = 'extends = "en"\ncode = "ar"\ndirection = "rtl"\n[letter]\ntitle = "قرارنا بشأن طلبك"\n'
    html = write(language=write_language(tmp_path, text))
    assert {("html", "lang", "ar"), ("html", "dir", "rtl")} <= set(read(html).attributes)
    assert "قرارنا بشأن طلبك" in html
    style = html[html.index("<style>") : html.index("</style>")]
    assert not re.search(r"(text-align|float): *(left|right)|(margin|padding)-(left|right)", style)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('direction = "ltr"\n', "xx.toml: numbers.months|numbers.months in xx.toml must have 12 names"),
        ('extends = "fr"\n', "extends in xx.toml must be one of de, en, got 'fr'"),
        ('extends = "en"\ndirection = "up"\n', "direction in xx.toml must be one of ltr, rtl, got 'up'"),
        ('extends = "en"\n[letters]\ntitle = "x"\n', "xx.toml may have code, direction, extends"),
        ('extends = "en"\nletter = 3\n', "letter in xx.toml must be a table"),
        ('extends = "en"\n[letter]\ntile = "x"\n', "letter.tile is not one of them"),
        ('extends = "en"\n[letter]\ntitle = 3\n', "letter.title in xx.toml must be a text"),
        (
            'extends = "en"\n[worth]\nnearly_all = "{shaer}"\n',
            "nearly_all in xx.toml may have {of}, {share}, got {shaer}",
        ),
        ('extends = "en"\n[worth]\nnearly_all = "{share.__class__}"\n', "got {share.__class__}"),
        ('extends = "en"\n[worth]\nnearly_all = "{share:>99999999}"\n', "got {share:>99999999}"),
        ('extends = "en"\n[worth]\nnearly_all = "{"\n', "worth.nearly_all in xx.toml cannot be filled in"),
        ("[letter", "not well-formed TOML"),
    ],
)
def test_a_language_that_cannot_be_used_is_refused(tmp_path: Path, text, message):
    with pytest.raises(InputError) as error:
        load_language(write_language(tmp_path, text))
    assert any(part in str(error.value) for part in message.split("|"))


def test_a_missing_sentence_is_named(tmp_path: Path):
    from importlib.resources import files

    whole = files("ironrule.report.notice").joinpath("languages", "en.toml").read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"letter\.closing is missing"):
        load_language(write_language(tmp_path, whole.replace('closing = "Yours faithfully"\n', "")))


def test_a_language_that_is_not_there_is_refused():
    with pytest.raises(InputError, match=r"must be one of de, en, or the path of a \.toml file, got 'fr'"):
        write(language="fr")


# Templates.


def write_template(folder: Path, text: str) -> Path:
    path = folder / "mine.html"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_template_of_the_users_own_replaces_blocks(tmp_path: Path):
    (tmp_path / "address.txt").write_text("Bank Street 1", encoding="utf-8")
    text = (
        '{% extends "ironrule/notice.html" %}\n'
        '{% block creditor %}<p>My Bank, {% include "address.txt" %}, {{ notice.fields.branch }}</p>{% endblock %}\n'
        "{% block legal %}<p>Section 5.</p>{% endblock %}\n"
    )
    html = write(template=write_template(tmp_path, text), fields={"branch": "North <b>"})
    assert "<p>My Bank, Bank Street 1, North &lt;b&gt;</p>" in html
    assert "Section 5." in html
    assert "out of date" not in html  # our own paragraph
    assert "Monthly income" in html


def test_a_template_may_have_the_name_of_ours(tmp_path: Path):
    path = tmp_path / "notice.html"
    path.write_text('{% extends "ironrule/notice.html" %}{% block title %}<h1>Mine</h1>{% endblock %}')
    assert "<h1>Mine</h1>" in write(template=path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{{ notice.__class__ }}", "unsafe"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ notice.reasons.append(1) }}", "not safely callable|unsafe"),
        ("{{ self.__init__.__globals__ }}", "unsafe|has no attribute"),
        ("{{ notice.fields.nothing }}", "has no attribute 'nothing'"),
        ("{{ missing_name }}", "'missing_name' is undefined"),
        ("{{ 1 + 'a' }}", "unsupported operand"),
        ("{{ 1 / 0 }}", "division by zero"),
        ('{% include "../secret.html" %}', "secret.html"),
        ("{% for %}", "Expected|expected"),
        ("{{ open('/etc/passwd') }}", "'open' is undefined"),
    ],
)
def test_what_a_template_must_not_do_is_refused_with_file_and_line(tmp_path: Path, line, message):
    begin = '{% extends "ironrule/notice.html" %}\n{% block legal %}\n'
    path = write_template(tmp_path, f"{begin}{line}\n{{% endblock %}}\n")
    with pytest.raises(InputError) as error:
        write(template=path)
    assert error.value.code == "bad-template"
    assert "mine.html, line 3" in str(error.value)
    assert any(part in str(error.value) for part in message.split("|")), str(error.value)


def test_an_error_in_an_included_file_names_that_file(tmp_path: Path):
    (tmp_path / "part.html").write_text("one\n{{ nothing }}\n", encoding="utf-8")
    path = write_template(tmp_path, '{% include "part.html" %}')
    with pytest.raises(InputError, match=r"part\.html, line 2"):
        write(template=path)


def test_a_template_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="template not found"):
        write(template=tmp_path / "nowhere.html")


# Fields.


def test_fields_come_from_files(tmp_path: Path):
    common, people = tmp_path / "fields.toml", tmp_path / "people.csv"
    common.write_text('creditor = "Bank"\n', encoding="utf-8")
    people.write_text("row,recipient\n3,Ann\n5,Bob\n", encoding="utf-8")
    assert read_fields(common) == {"creditor": "Bank"}
    assert read_fields_by_row(people) == {3: {"recipient": "Ann"}, 5: {"recipient": "Bob"}}


@pytest.mark.parametrize("text", ["name\nAnn\n", "row,name\nx,Ann\n", "row,name\n3\n", "row,name\n3,Ann,more\n"])
def test_fields_of_rows_that_cannot_be_used_are_refused(tmp_path: Path, text):
    path = tmp_path / "people.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="must have a row number in the column 'row'"):
        read_fields_by_row(path)


def test_fields_must_be_texts(tmp_path: Path):
    path = tmp_path / "fields.toml"
    path.write_text("reference = 3\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"fields\.toml must have lines such as"):
        read_fields(path)
    with pytest.raises(InputError, match="cannot read the fields of rows"):
        read_fields_by_row(tmp_path / "nowhere.csv")


# Other audiences of ladders.


def test_the_persons_letter_leads_with_the_short_rule_and_folds_the_complete_one():
    ladder = replace(with_verdicts(make_ladder(), GOOD, make_proven()), at_least=0.9)
    html = ladder.to_html("person")
    short, complete = html.split("<details>")
    share = math.floor((1.0 - GOOD.exceptions) * 100)
    assert f"at least {share} in 100 get this decision" in short
    assert f"“At least {share} in 100” is deliberately cautious" in short
    assert "This is no proof" in short
    assert "proven" not in short[short.index("<main>") :]
    assert "Why you can rely on it: the complete rule, with 4 conditions" in complete
    folded = complete.split("</details>")[0]
    assert "proven" not in get_text(html.replace(folded, ""))
    read(html)


def test_what_explains_the_complete_rule_further_is_folded_with_it():
    poor = with_verdicts(make_ladder(), POOR).to_html("person")
    assert "How your case compares" in poor  # the complete rule comes first: nothing is folded
    html = with_verdicts(make_ladder(), GOOD).to_html("person")
    folded = html.split("<details>")[1].split("</details>")[0]
    assert "How your case compares" in folded
    assert "How your case compares" not in html.replace(folded, "")
    assert "What was known about you" not in folded


@pytest.mark.parametrize("seen", [0, 1, 2])
def test_the_letter_counts_the_cases_that_were_decided_differently(seen):
    html = with_verdicts(make_ladder(), Bounded.from_counts(seen, 400, 0.95, 3)).to_html("person")
    assert f"400 of this kind, {seen} of them decided differently" in html


def test_a_number_is_no_name_of_an_outcome_in_a_letter():
    explanation = make_ladder().explanation
    first = replace(explanation.ranked[0], rule=replace(explanation.rule, outcome="0"))
    html = replace(explanation, ranked=(first, *explanation.ranked[1:])).to_html("person")
    assert "Why this decision was made" in html
    assert "gets: 0" not in html


def test_a_complete_rule_that_is_not_proven_is_nothing_to_rely_on():
    html = with_verdicts(make_ladder(), GOOD, UNREFUTED).to_html("person")
    assert "rely on" not in html
    assert "What is known about the complete rule" in html


def test_a_ladder_whose_short_rules_are_poor_is_reported_by_the_last_one():
    html = with_verdicts(make_ladder(), POOR).to_html("person")
    assert "<details>" not in html


def test_the_validator_reads_all_rungs():
    text = get_text(make_ladder().to_html("validator"))
    assert "exceptions among measured rows" in text


def test_an_audience_that_a_ladder_does_not_have_is_refused():
    with pytest.raises(InputError, match=f"audience must be one of {', '.join(LADDER_AUDIENCES)}, got 'poet'"):
        make_ladder().to_html("poet")
    with pytest.raises(InputError, match="audience must be one of person, validator, got 'notice'; build a ladder"):
        make_ladder().explanation.to_html("notice")


def test_a_notice_can_be_written_to_a_file(tmp_path: Path):
    path = tmp_path / "notice.html"
    assert make_ladder().to_html("notice", path, notice=make_options()) == path.read_text(encoding="utf-8")
