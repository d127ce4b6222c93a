"""Whole explanations under the checker: the corpus, and every field of good documents altered in turn."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from checker_examples import CORPUS, EXAMPLES, MALFORMED, WRONG
from document_truth import is_true
from hypothesis import given, settings, strategies as st
from translate_corpus import translate

from ironrule import Explanation
from ironrule.errors import InputError
from ironrule.verdict.digest import add_digest, compute_digest

REGENERATE = (
    "if the format changed, translate the corpus (translate_corpus.py); if a reading did, see checker_examples.py"
)


UNDECIDED = ("more models than there are",)  # nothing can be said of models that are not at hand


CHECKERS = {name: example.checker() for name, example in EXAMPLES.items()}


def files(folder: str) -> list[Path]:
    return sorted((CORPUS / folder).glob("*.json"))


def test_the_corpus_is_complete() -> None:
    assert [path.stem for path in files("good")] == sorted(EXAMPLES)
    assert [path.stem for path in files("wrong")] == sorted(WRONG)
    assert [path.stem for path in files("malformed")] == sorted(MALFORMED)


@pytest.mark.parametrize("name", EXAMPLES)
def test_good_documents_are_confirmed(name: str) -> None:
    text = (CORPUS / "good" / f"{name}.json").read_text()
    check = CHECKERS[name].check(text)
    assert check.status == ("refuted" if name == "refuted" else "proven"), f"{check}\n{REGENERATE}"
    assert {finding.status for finding in check.findings} == {"holds"}
    assert is_true(json.loads(text), EXAMPLES[name])


@pytest.mark.parametrize("name", EXAMPLES)
def test_explanations_made_now_are_confirmed(name: str) -> None:
    made = EXAMPLES[name].explainer().explain(EXAMPLES[name].row, **EXAMPLES[name].asked)
    expected = "refuted" if name == "refuted" else "proven"
    assert [CHECKERS[name].check(form).status for form in (made, made.to_dict(), made.to_json())] == [expected] * 3


@pytest.mark.parametrize("name", WRONG)
def test_wrong_documents_are_refuted_for_the_right_reason(name: str) -> None:
    base, _, claim = WRONG[name]
    check = CHECKERS[base].check((CORPUS / "wrong" / f"{name}.json").read_text())
    status = "undecided" if name in UNDECIDED else "refuted"
    assert check.status == status, f"{check}\n{REGENERATE}"
    found = "undecided" if name in UNDECIDED else "fails"
    assert claim in [finding.claim for finding in check.findings if finding.status == found]
    assert "digest" not in [failure.claim for failure in check.failures]


def test_the_corpus_is_translated_and_translation_keeps_digests_right_or_wrong() -> None:
    for path in [*files("good"), *files("wrong"), *files("malformed")]:
        assert translate(path.read_text()) == path.read_text(), path.name
    certificate = {"version": 1, "method": "cover", "points": 3}
    old = add_digest({"format": 4, "unread": None, "permitted": {"forbid": ["unread"]}, "verdict": certificate})
    new = json.loads(translate(json.dumps(old)))
    assert new == add_digest(
        {"format": 5, "unreadable_reason": None, "restrictions": {"forbid": ["unread"]},
         "verdict": {"format": 2, "method": "cover", "pieces": 3}}
    )  # fmt: skip
    forged = json.loads(translate(json.dumps(old | {"digest": "0" * 64})))
    assert forged == new | {"digest": "0" * 64}
    assert translate('{"format": 4, "widest": [') == '{"format": 5, "wider_is_maximal": ['


OTHER_FORMATS = {"a list": "a list of length 1", "another format": "1", "a format that is no number": "True"}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_documents_are_refused(name: str) -> None:
    with pytest.raises(InputError) as caught:
        CHECKERS["linear"].check((CORPUS / "malformed" / f"{name}.json").read_text())
    error = caught.value
    if name in OTHER_FORMATS:
        assert (error.code, error.got) == ("wrong-format", OTHER_FORMATS[name])
    else:
        assert str(error).startswith("malformed explanation: ")


def test_one_model_and_space_are_told_from_another() -> None:
    text = {name: (CORPUS / "good" / f"{name}.json").read_text() for name in EXAMPLES}
    for name, other, claim in [
        ("linear", "constrained", "space"), ("linear", "tied", "space"), ("linear", "threshold", "model"),
        ("tied", "asked", "model"), ("asked", "tied", "model"), ("several classes", "several classes", "decision"),
    ]:  # fmt: skip
        document = json.loads(text[name])
        document["decision"]["desired"] = [7] if claim == "decision" else document["decision"]["desired"]
        check = CHECKERS[other].check(add_digest(document))
        assert check.status == "undecided"
        assert [(f.claim, f.status) for f in check.findings][-1] == (claim, "undecided")


def test_an_altered_document_is_noticed_by_its_digest() -> None:
    document = json.loads((CORPUS / "good" / "linear.json").read_text())
    document["statistics"]["seed"] += 1
    check = CHECKERS["linear"].check(document)
    assert check.status == "refuted"
    assert [failure.claim for failure in check.failures] == ["digest"]
    with pytest.raises(InputError, match="digest mismatch: the document was modified") as caught:
        Explanation.from_dict(document)
    assert caught.value.code == "digest-mismatch"


def test_a_rule_must_hold_for_every_model_that_it_is_claimed_for() -> None:
    document, alone = (json.loads((CORPUS / "good" / f"{name}.json").read_text()) for name in ("versions", "linear"))
    rule = alone["rules"][0]
    cover = rule["verdict"]["certificate"]["covers"][0]
    rule["verdict"]["certificate"] |= {"model": document["model"], "covers": [cover, cover], "pieces": 2}
    assert len(rule["rule"]["components"]) < len(document["rules"][0]["rule"]["components"])
    check = CHECKERS["versions"].check(add_digest(document | {"rules": [rule]}))
    sentences = [failure.sentence for failure in check.failures if failure.claim == "rule: verdict"]
    assert len(sentences) == 1
    assert "there is an exception" in sentences[0]


Path_ = tuple[Any, ...]


def places(data: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Every value in plain data, with the way to it."""
    yield path, data
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for step, part in parts:
        yield from places(part, (*path, step))


TURNED = {"<=": ">=", ">=": "<=", "==": "<="}


def alterations(value: Any) -> Iterator[Any]:
    """What may be put in a value's place."""
    if isinstance(value, bool) or value is None:
        yield 1
    elif isinstance(value, (int, float)):
        yield from (value + 1, value - 1)
    elif isinstance(value, str):
        yield TURNED.get(value, value + "x")
    elif isinstance(value, list) and value:
        yield from (value[1:], value[:-1], [*value, value[0]])
        if len(value) > 1:
            yield [value[1], value[0], *value[2:]]
    elif isinstance(value, dict) and value:
        yield dict(list(value.items())[1:])


def altered(document: dict[str, Any]) -> Iterator[tuple[Path_, dict[str, Any]]]:
    """The document with one thing altered, in every place and way."""
    for path, value in places(document):
        if not path or path[0] in ("digest", "statistics", "format"):
            continue
        for other in alterations(value):
            changed = copy.deepcopy(document)
            parent = changed
            for step in path[:-1]:
                parent = parent[step]
            parent[path[-1]] = other
            yield path, changed


UNCHECKABLE = ("unreadable_reason",)  # why a model could only be asked proves nothing


@pytest.mark.parametrize(
    "name", ["tied", "several classes", "asked", "constrained", "permitted", "versions", "refuted"]
)
def test_an_altered_claim_is_rejected_or_still_true(name: str) -> None:
    document = json.loads((CORPUS / "good" / f"{name}.json").read_text())
    accepted = []
    for path, changed in altered(document):
        assert compute_digest(changed) != document["digest"] or changed == document
        try:
            check = CHECKERS[name].check(add_digest(changed))
        except InputError:
            continue
        if all(finding.status == "holds" for finding in check.findings) and path[0] not in UNCHECKABLE:
            accepted.append(path)
            assert is_true(changed, EXAMPLES[name]), (path, check)
    assert not {path[0] for path in accepted} & {"instance", "weight", "history_rows", "space", "model"}
    assert not {path[-1] for path in accepted} & {"coverage", "outcome", "feature", "op", "value", "before", "after"}


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_several_alterations_together_are_rejected_or_still_true(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["linear", "threshold", "asked", "permitted", "margin"]))
    changed = json.loads((CORPUS / "good" / f"{name}.json").read_text())
    for _ in range(data.draw(st.integers(2, 4))):
        found = [place for place in places(changed) if place[0] and place[0][0] not in ("digest", "statistics")]
        path, value = data.draw(st.sampled_from(found))
        others = list(alterations(value))
        if others:
            parent = changed
            for step in path[:-1]:
                parent = parent[step]
            parent[path[-1]] = data.draw(st.sampled_from(others))
    try:
        check = CHECKERS[name].check(add_digest(changed))
    except InputError:
        return
    if all(finding.status == "holds" for finding in check.findings):
        assert is_true(changed, EXAMPLES[name]), str(check)
