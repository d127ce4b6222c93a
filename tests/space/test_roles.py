"""Roles of features: how they are declared, what contradicts itself, and which names look protected."""

import pytest

from ironrule.errors import SpaceError
from ironrule.space.feature import Feature
from ironrule.space.roles import Role, RoleGuesses, parse_guesses, suggest_roles
from ironrule.space.space import Space

DOCUMENT = {
    "features": {
        "age": {"values": [20, 30], "role": "immutable"},
        "sex": {"values": ["f", "m"], "role": "protected"},
        "income": {"values": [1, 2, 3], "direction": "rise", "higher_is": "better", "minimum_step": 2},
        "debt": {"values": [1, 2]},
    }
}


def test_a_space_file_declares_roles_and_they_come_back():
    space = Space.from_dict(DOCUMENT)
    assert space["age"].role == Role("immutable")
    assert space["income"].role == Role(direction="rise", higher_is="better", minimum_step=2)
    assert space["debt"].role is None
    assert Space.from_dict(space.to_dict()) == space


def test_roles_do_not_change_what_a_certificate_speaks_of():
    space = Space.from_dict(DOCUMENT)
    assert space.with_roles({"age": "actionable", "debt": Role(higher_is="worse")}).fingerprint == space.fingerprint


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"role": "secret"}, "'a': role must be 'actionable' or 'immutable' or 'protected', got 'secret'"),
        ({"direction": "up"}, "direction must be 'rise' or 'fall', got 'up'"),
        ({"higher_is": "good"}, "higher_is must be 'better' or 'worse', got 'good'"),
        ({"minimum_step": 0}, "minimum_step must be a positive number, got 0"),
        ({"minimum_step": True}, "minimum_step must be a positive number, got True"),
        (
            {"role": "immutable", "direction": "rise"},
            "is immutable never changes, so it can have no direction",
        ),
        ({"role": "protected", "minimum_step": 1}, "a feature that is protected never changes"),
        ({"kind": "nominal", "higher_is": "better"}, "a feature with a higher_is must be ordered, got 'a'"),
    ],
)
def test_roles_that_contradict_themselves_are_refused(entry, message):
    with pytest.raises(SpaceError) as refused:
        Space.from_dict({"features": {"a": {"values": [1, 2]} | entry}})
    assert message in str(refused.value)


def test_a_minimum_step_needs_numbers():
    with pytest.raises(SpaceError, match="must be an ordered number, got 'grade'"):
        Feature("grade", ("low", "high"), ordered=True, role=Role(minimum_step=1))


@pytest.mark.parametrize(
    ("role", "moves"),
    [
        (Role(), ("rise", "fall")),
        (Role("protected"), ()),
        (Role(direction="fall"), ("fall",)),
        (Role(higher_is="better"), ("rise",)),
        (Role(higher_is="worse"), ("fall",)),
        (Role(direction="rise", higher_is="worse"), ()),
    ],
)
def test_a_role_says_in_which_directions_a_feature_may_move(role, moves):
    assert role.moves == moves


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("age_in_years", "immutable"), ("AGE", "immutable"), ("applicantAge", "immutable"), ("average", None),
        ("mortgage", None), ("Sex", "protected"), ("personal_status_sex", "protected"), ("native-country", "protected"),
        ("mother's birthplace", "immutable"), ("foreign_worker", "protected"), ("race2", "protected"), ("trace", None),
        ("income", None), ("marital.status", "protected"), ("date of birth", "immutable"), ("sexton", None),
    ],
)  # fmt: skip
def test_names_are_matched_by_whole_words(name, kind):
    assert RoleGuesses().guess_kind(name) == kind


def test_labels_are_matched_too_and_declared_roles_stay():
    features = [
        Feature("a", (1, 2), ordered=True, label="Age"),
        Feature("sex", ("f", "m"), ordered=False, role=Role("actionable")),
        Feature("income", (1, 2), ordered=True),
    ]
    assert suggest_roles(features) == {"a": Role("immutable")}
    assert parse_guesses(False).guess_kind("sex") is None
