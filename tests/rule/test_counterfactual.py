"""Counterfactuals in the user's terms."""

import datetime
import pickle

import numpy as np

from ironrule.rule.counterfactual import Change, Counterfactual, LazySequence, LazyValue
from ironrule.space.feature import Feature
from ironrule.space.space import Space

DAYS = (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2))
SPACE = Space(
    (
        Feature("age", (20, 30), ordered=True, missing=True),
        Feature("job", ("cook", "clerk"), ordered=False),
        Feature("since", DAYS, ordered=True),
    )
)


def test_changes_name_what_differs_in_the_users_terms():
    found = Counterfactual.from_point(SPACE, np.array([0, 0, 0]), np.array([2, 0, 1]))
    assert found.changes == (Change("age", 20, None), Change("since", *DAYS))
    assert dict(found.values) == {"age": None, "job": "cook", "since": DAYS[1]}
    assert str(found) == "age: 20 -> missing, since: 2024-01-01 -> 2024-01-02"


def test_a_point_that_is_the_instance_changes_nothing():
    found = Counterfactual.from_point(SPACE, np.array([0, 0, 0]), np.array([0, 0, 0]))
    assert found.changes == ()
    assert str(found) == "no change"


def test_counterfactuals_survive_plain_data():
    found = Counterfactual.from_point(SPACE, np.array([0, 0, 0]), np.array([2, 1, 1]))
    assert Counterfactual.from_dict(found.to_dict()) == found


def test_a_lazy_sequence_is_made_once_and_equals_a_tuple():
    found = Counterfactual.from_point(SPACE, np.array([0, 0, 0]), np.array([2, 1, 1]))
    calls = []
    lazy = LazySequence(lambda: calls.append("made") or (found,))
    assert not calls
    assert lazy == (found,)
    assert lazy == LazySequence(lambda: (found,))
    assert lazy != ()
    assert list(lazy) == [lazy[0]] == [found]
    assert len(lazy) == 1
    assert repr(lazy) == repr((found,))
    assert pickle.loads(pickle.dumps(lazy)) == (found,)
    assert calls == ["made"]


def test_a_lazy_value_is_computed_once_and_travels_only_if_it_was_read() -> None:
    calls: list[str] = []
    lazy = LazyValue(lambda: calls.append("made") or "value")
    assert pickle.loads(pickle.dumps(lazy)) is None
    assert (lazy.get(), lazy.get(), calls) == ("value", "value", ["made"])
    copy = pickle.loads(pickle.dumps(lazy))
    assert pickle.loads(pickle.dumps(copy)).get() == "value"
