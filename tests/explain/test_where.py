"""A part of the space: the explainer is the one that all constraints together give; past rows are not asked about."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from batch_examples import fit_boosted_trees, make_explainer, make_history, without_times
from ironrule import Check, Explainer, Explanation, check
from ironrule.errors import ConstraintError
from ironrule.verdict.verdict import Proven

RICH = "cf.income >= 2"


def afresh(*constraints: str, **more: Any) -> Explainer:
    """An explainer that had the constraints from the start; it warns of the rows that it leaves out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_explainer(constraints=constraints, **more)


@pytest.mark.parametrize("own", [(), ('cf.job != "clerk"',)])
@pytest.mark.parametrize("wanted", [{}, {"domain": "seen"}, {"margin": 0.05}])
def test_a_part_is_what_the_constraints_give_from_the_start(own: tuple[str, ...], wanted: dict[str, Any]) -> None:
    part, new = afresh(*own, **wanted).where(RICH), afresh(*own, RICH, **wanted)
    assert part.space == new.space
    assert (part.fingerprint, part.row_numbers.tolist()) == (new.fingerprint, new.row_numbers.tolist())
    assert part.outcomes.tolist() == new.outcomes.tolist()
    for row in part.row_numbers[~new.outcomes][:3].tolist():
        assert without_times(part.explain(row)) == without_times(new.explain(row))


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
    table = make_history()
    model, whole = fit_boosted_trees(table), make_explainer()
    part = whole.where(RICH)
    row = int(part.row_numbers[~part.outcomes][0])
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
    from ironrule.verdict.digest import add_digest

    table, whole = make_history(), make_explainer()
    document = whole.explain(int(whole.row_numbers[~whole.outcomes][0])).to_dict()
    del document["digest"]
    found = check(add_digest(document | {"constraints": [RICH]}), fit_boosted_trees(table), table)
    assert found.status == "refuted"
    assert "other constraints" in str(found)


def test_a_part_without_past_rows_is_refused() -> None:
    with pytest.raises(ConstraintError, match="no past row satisfies"):
        make_explainer(30).where(["cf.income == 4", "cf.accounts == 3"])


def test_a_constraint_on_the_space_must_not_speak_of_the_row() -> None:
    with pytest.raises(ConstraintError, match="must refer to cf only"):
        make_explainer().where("cf.income >= x.income")


def test_a_row_outside_the_part_is_refused() -> None:
    whole = make_explainer()
    part = whole.where(RICH)
    outside = sorted(set(whole.row_numbers.tolist()) - set(part.row_numbers.tolist()))
    with pytest.raises(ConstraintError, match=r"the row does not satisfy 'cf\.income >= 2'"):
        part.explain(outside[0])


def test_rows_of_a_source_stay_on_disk(tmp_path: Path) -> None:
    table = make_history()
    table.to_parquet(tmp_path / "past.parquet")
    whole = Explainer(fit_boosted_trees(table), tmp_path / "past.parquet", desired="good")
    assert whole.where(RICH).outcomes.tolist() == make_explainer().where(RICH).outcomes.tolist()


def test_rows_can_be_appended_to_a_part() -> None:
    table = make_history()
    part = Explainer(fit_boosted_trees(table), table[:60], desired="good").where(RICH)
    with pytest.warns(UserWarning, match="left out"):
        longer = part.with_more_rows(table[60:])
    assert longer.row_numbers.tolist() == afresh(RICH).row_numbers.tolist()
