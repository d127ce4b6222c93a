"""Explanations as lines of JSON: fields with stable names, one line each, no values of the person."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from ironrule import Explainer, InputError
from ironrule.integrations.json_logs import LOGGER_NAME, JsonLineFormatter, log_explanation

ROW = {"income": 1, "debt\n": 8}
ALWAYS = {
    *("event.name", "ironrule.rule", "ironrule.verdict", "ironrule.components", "ironrule.minimum"),
    *("ironrule.past_rows_covered", "ironrule.past_rows", "ironrule.features", "ironrule.model.fingerprint"),
    *("ironrule.space.fingerprint", "ironrule.confirmed_by_model", "ironrule.algorithm", "ironrule.seed"),
    *("ironrule.search.seconds", "ironrule.search.stopped_by", "ironrule.document.digest"),
}


@pytest.fixture(scope="module")
def explainer() -> Explainer:
    table = pd.DataFrame(np.random.default_rng(0).integers(0, 9, size=(120, 2)), columns=list(ROW))
    return Explainer(DecisionTreeClassifier(max_depth=3).fit(table, table.income > 4), table, desired=True)


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    stream, logger = io.StringIO(), logging.getLogger(LOGGER_NAME)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLineFormatter({"service.name": "credit"}))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield stream
    logger.removeHandler(handler)


def test_a_line_has_the_fields_of_the_log_data_model(explainer: Explainer, stream: io.StringIO) -> None:
    found = explainer.explain(ROW)
    log_explanation(found, subject="application 4711\nforged: yes")
    (text,) = stream.getvalue().splitlines()
    line = json.loads(text)
    assert set(line) == {
        *("timestamp", "severity_text", "severity_number", "body", "attributes", "instrumentation_scope", "resource")
    }
    assert (line["severity_text"], line["severity_number"]) == ("INFO", 9)
    assert line["timestamp"].endswith("Z")
    assert set(line["attributes"]) == ALWAYS | {"ironrule.subject"}
    assert line["attributes"]["ironrule.rule"] == str(found.shown.rule)
    assert line["attributes"]["ironrule.document.digest"] == found.to_dict()["digest"]
    assert (line["resource"], line["instrumentation_scope"]) == ({"service.name": "credit"}, {"name": LOGGER_NAME})


def test_values_of_the_person_are_there_on_request_alone(explainer: Explainer, stream: io.StringIO) -> None:
    log_explanation(explainer.ladder(ROW), include_instance=True, level=logging.WARNING)
    attributes = json.loads(stream.getvalue())["attributes"]
    assert attributes["ironrule.instance"] == ROW
    assert set(attributes) - ALWAYS <= {
        *("ironrule.instance", "ironrule.short_rule", "ironrule.short_rule.exception_bound")
    }


def test_other_records_are_lines_too(stream: io.StringIO) -> None:
    try:
        raise ValueError("a\nb")
    except ValueError:
        logging.getLogger(LOGGER_NAME).error("failed: %s", "x\ny", exc_info=sys.exc_info())
    (text,) = stream.getvalue().splitlines()
    line = json.loads(text)
    assert (line["body"], line["severity_number"]) == ("failed: x\ny", 17)
    assert "ValueError" in line["attributes"]["exception.stacktrace"]


def test_what_is_no_explanation_is_refused() -> None:
    with pytest.raises(InputError, match="an explanation or a ladder"):
        log_explanation("proven")  # type: ignore[arg-type]
