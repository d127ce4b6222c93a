"""A part of the space: the explainer is the one that all constraints together give; past rows are not asked about."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from denials import boosted, essence, explainer, history

from ironrule import Check, Explainer, Explanation, check
from ironrule.errors import ConstraintError
from ironrule.verdict import Proven

RICH = "cf.income >= 2"


def afresh(*constraints: str, **more: Any) -> Explainer:
    """An explainer that had the constraints from the start; it warns of the rows that it leaves out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return explainer(constraints=constraints, **more)


@pytest.mark.parametrize("own", [(), ('cf.job != "clerk"',)])
@pytest.mark.parametrize("wanted", [{}, {"intervals": True}, {"margin": 0.05}])
def test_a_part_is_what_the_constraints_give_from_the_start(own: tuple[str, ...], wanted: dict[str, Any]) -> None:
    part, new = afresh(*own, **wanted).where(RICH), afresh(*own, RICH, **wanted)
    assert part.space == new.space
    assert (part.fingerprint, part.numbers.tolist()) == (new.fingerprint, new.numbers.tolist())
    assert part.outcomes.tolist() == new.outcomes.tolist()
    for row in part.numbers[~new.outcomes][:3].tolist():
        assert essence(part.explain(row)) == essence(new.explain(row))


def test_past_rows_are_not_asked_about_again() -> None:
    asked: list[int] = []

    def counted(table: pd.DataFrame) -> Any:
        asked.append(len(table))
        return (table.a + table.b > 9).to_numpy(dtype=float)

    table = pd.DataFrame(np.random.default_rng(0).integers(0, 10, (3000, 2)), columns=list("ab"))
    whole = Explainer(counted, table)
    asked.clear()
    part = whole.where(["cf.a >= 5", "cf.b < 9"])
    assert asked == []
    assert 0 < len(part.outcomes) < len(whole.outcomes)


def test_a_rule_of_a_part_says_so_and_is_checked_there_alone() -> None:
    table = history()
    model, whole = boosted(table), explainer()
    part = whole.where(RICH)
    row = int(part.numbers[~part.outcomes][0])
    found = Explanation.from_json(part.explain(row).to_json())
    assert isinstance(found.verdict, Proven)
    assert found.constraints == (RICH,)
    checked = check(found, model, table, constraints=[RICH])
    assert isinstance(checked, Check)
    assert checked.status == "proven"
    elsewhere = check(found, model, table)
    assert elsewhere.status == "undecided"
    assert "--constraint 'cf.income >= 2'" in str(elsewhere)


def test_constraints_that_a_document_only_claims_are_found_out() -> None:
    from ironrule.verdict.digest import with_digest

    table, whole = history(), explainer()
    document = whole.explain(int(whole.numbers[~whole.outcomes][0])).to_dict()
    del document["digest"]
    found = check(with_digest(document | {"constraints": [RICH]}), boosted(table), table)
    assert found.status == "refuted"
    assert "other constraints" in str(found)


def test_a_part_without_past_rows_is_refused() -> None:
    with pytest.raises(ConstraintError, match="no past row satisfies"):
        explainer(30).where(["cf.income == 4", "cf.accounts == 3"])


def test_a_constraint_on_the_space_must_not_speak_of_the_row() -> None:
    with pytest.raises(ConstraintError, match="must refer to cf only"):
        explainer().where("cf.income >= x.income")


def test_a_row_outside_the_part_is_refused() -> None:
    whole = explainer()
    part = whole.where(RICH)
    outside = sorted(set(whole.numbers.tolist()) - set(part.numbers.tolist()))
    with pytest.raises(ConstraintError, match=r"the row does not satisfy 'cf\.income >= 2'"):
        part.explain(outside[0])


def test_rows_of_a_source_stay_on_disk(tmp_path: Path) -> None:
    table = history()
    table.to_parquet(tmp_path / "past.parquet")
    whole = Explainer(boosted(table), tmp_path / "past.parquet", desired="good")
    assert whole.where(RICH).outcomes.tolist() == explainer().where(RICH).outcomes.tolist()


def test_rows_can_be_appended_to_a_part() -> None:
    table = history()
    part = Explainer(boosted(table), table[:60], desired="good").where(RICH)
    with pytest.warns(UserWarning, match="left out"):
        longer = part.appended(table[60:])
    assert longer.numbers.tolist() == afresh(RICH).numbers.tolist()
