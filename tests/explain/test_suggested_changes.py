"""Roles: what is declared holds for every change; what is guessed holds for suggestions; both against brute force."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

from ironrule import Explainer, Explanation, check
from ironrule.checker.checker import Checker
from ironrule.errors import InputError, SpaceError
from ironrule.explain.roles import find_better_direction
from ironrule.oracles.geco.candidates import InstanceDistance, NormWeights
from ironrule.space.roles import Role, RoleGuesses
from ironrule.space.space import Space
from waiting import PATIENCE

MODELS = {
    "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
    "boosted": GradientBoostingClassifier(n_estimators=10, max_depth=2, random_state=0),
    "forest": RandomForestClassifier(n_estimators=7, max_depth=3, random_state=0),
    "linear": LogisticRegression(),
    "network": MLPClassifier((4,), solver="lbfgs", max_iter=200, random_state=0),
}


def make_table(seed: int = 0, rows: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    columns = {"income": rng.integers(0, 6, rows), "debt": rng.integers(0, 5, rows), "sex": rng.integers(0, 2, rows)}
    return pd.DataFrame({**columns, "age": rng.integers(2, 6, rows)})


def make_labels(table: pd.DataFrame, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed + 1).normal(0, 0.7, len(table))
    return (2 * table.income - 2 * table.debt + table.sex + table.age - 4.5 + noise > 0).to_numpy()


def make_explainer(kind: str = "boosted", seed: int = 0, **more) -> Explainer:
    table = make_table(seed)
    model = clone(MODELS[kind]).fit(table.to_numpy(), make_labels(table, seed))
    return Explainer(model, table.to_numpy(), space=Space.infer(table, nominal=["sex"]), desired=True, **more)


def list_permitted(explainer: Explainer, instance: dict, permits):
    """Every desired point of the space that changes only what is permitted, nearest first."""
    space = explainer.space
    rows = [
        dict(zip(space.names, values, strict=True)) for values in itertools.product(*(f.values for f in space.features))
    ]
    table = pd.DataFrame(rows)[list(space.names)]
    desired = explainer._context.model.primary.desired(space.encode(table).points())
    allowed = [row for row, good in zip(rows, desired, strict=True) if good and permits(instance, row)]
    distance = InstanceDistance.build(space, space.encode_row(instance), NormWeights())

    def cost(row):
        codes = space.encode_row(row)
        return sum(row[name] != instance[name] for name in row), round(distance.table[distance.starts + codes].sum(), 9)

    return sorted(allowed, key=cost), cost


def check_nearest(explainer: Explainer, instance: dict, found, permits) -> None:
    """Each is the nearest permitted one that does not change all features of an earlier one, and none is left out."""
    left, cost = list_permitted(explainer, instance, permits)
    for item in found:
        assert permits(instance, dict(item.values))
        assert cost(dict(item.values)) == cost(left[0])
        changed = [change.feature for change in item.changes]
        left = [row for row in left if not all(row[name] != instance[name] for name in changed)]
    assert not left or len(found) == 5 or not found.complete


def list_denied(explainer: Explainer, count: int) -> list[int]:
    return explainer.row_numbers[~explainer.outcomes][:count].tolist()


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_suggested_changes_are_the_nearest_that_respect_declared_roles(kind):
    roles = {"age": "immutable", "sex": "protected", "income": Role(direction="rise", minimum_step=2)}
    explainer = make_explainer(kind, roles=roles | {"debt": Role(higher_is="worse")})

    def permits(x, cf):
        fixed = cf["age"] == x["age"] and cf["sex"] == x["sex"] and cf["debt"] <= x["debt"]
        return fixed and (cf["income"] == x["income"] or cf["income"] >= x["income"] + 2)

    rows = list_denied(explainer, 8)
    assert rows
    for row in rows:
        explanation = explainer.explain(row)
        assert explanation.changes.proven
        assert explanation.changes.complete
        check_nearest(explainer, dict(explanation.instance), explanation.changes, permits)
        listed = explainer.counterfactuals(row)
        assert [str(item) for item in listed] == [str(item) for item in explanation.changes]
        for change in explainer.change_sets(row):
            assert permits(dict(explanation.instance), dict(change.counterfactual.values))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(["tree", "boosted", "forest", "linear"]))
def test_guessed_roles_keep_names_and_directions(seed, kind):
    table = make_table(seed)
    if len(set(make_labels(table, seed))) < 2:
        return
    explainer = make_explainer(kind, seed)
    limits = None
    for row in list_denied(explainer, 2):
        explanation = explainer.explain(row)
        limits = explanation.changes.limits
        assert limits["age"].reason == "immutable by its name"
        assert limits["sex"].reason == "protected by its name"
        assert explanation.changes.proven

        def permits(x, cf, limits=limits):
            moves = {name: limit.moves for name, limit in limits.items()}
            up = all("rise" in moves.get(n, ("rise", "fall")) or cf[n] <= x[n] for n in cf if n != "sex")
            down = all("fall" in moves.get(n, ("rise", "fall")) or cf[n] >= x[n] for n in cf if n != "sex")
            return up and down and cf["sex"] == x["sex"]

        check_nearest(explainer, dict(explanation.instance), explanation.changes, permits)


def test_a_model_that_can_only_be_asked_gets_single_changes_by_asking_about_all():
    explainer = Explainer(lambda rows: rows["income"].to_numpy() - rows["debt"].to_numpy() > 0, make_table())
    assert explainer.unreadable_reason is not None
    row = {"income": 1, "debt": 3, "sex": 0, "age": 3}
    found = explainer.explain(row, budget=PATIENCE).changes
    assert {str(item) for item in found} == {"debt: 3 -> 0", "income: 1 -> 4"}
    assert found.proven
    assert not found.complete


def test_guesses_can_be_turned_off_or_changed_and_do_not_limit_what_is_asked_for():
    table = make_table()

    def decide(rows):
        return rows.iloc[:, 3].to_numpy() >= 4

    row = {"income": 1, "debt": 1, "sex": 0, "age": 3}
    assert not Explainer(decide, table).explain(row).changes
    assert str(Explainer(decide, table).counterfactuals(row)[0]) == "age: 3 -> 4"
    for more in ({"guess_roles": False}, {"roles": {"age": "actionable"}}, {"guess_roles": RoleGuesses(immutable=())}):
        assert [str(item) for item in Explainer(decide, table, **more).explain(row).changes] == ["age: 3 -> 4"]
    hidden = Explainer(decide, table.rename(columns={"age": "years"}), guess_roles=RoleGuesses(immutable=("years",)))
    assert hidden.explain({"income": 1, "debt": 1, "sex": 0, "years": 3}).changes.limits["years"].moves == ()


def test_rules_mark_protected_features_and_what_goes_against_the_declared_direction():
    table = make_table()
    explainer = Explainer(
        lambda rows: (rows["sex"].to_numpy() == 1) | (rows["income"].to_numpy() <= 2),
        table,
        space=Space.infer(table, nominal=["sex"]),
        roles={"income": Role(higher_is="better")},
    )
    explanation = explainer.explain({"income": 4, "debt": 1, "sex": 0, "age": 3})
    marks = {(str(explanation.rule.components[m.component]), m.reason, m.declared) for m in explanation.marks}
    assert marks == {("sex = 0", "protected", False), ("income >= 4", "against direction", True)}
    for text in (str(explanation), explanation._repr_html_(), explanation.to_html("validator")):
        assert "uses a feature that looks protected" in text
        assert "goes against the declared direction: higher was declared better" in text
    assert Explanation.from_json(explanation.to_json()).marks == explanation.marks


def test_the_document_keeps_the_changes_and_the_checker_confirms_them():
    explainer = make_explainer()
    row = list_denied(explainer, 1)[0]
    explanation = explainer.explain(row)
    document = explanation.to_dict()
    assert document["changes"]["counterfactuals"]
    assert Explanation.from_dict(document).changes == explanation.changes
    table = make_table()
    model = clone(MODELS["boosted"]).fit(table.to_numpy(), make_labels(table))
    checker = Checker(model, table.to_numpy(), space=explainer.space, desired=True)
    check = checker.check(explanation)
    assert check.status == "proven"
    assert any(finding.claim == "suggested changes" and finding.status == "holds" for finding in check.findings)


def test_a_batch_has_changes_where_they_are_asked_for():
    explainer = make_explainer()
    rows = list_denied(explainer, 2)
    without, given_changes = (explainer.explain_many(rows, workers=1, changes=wanted) for wanted in (False, True))
    for row in rows:
        assert without.get_explanation(row).changes is None
        assert given_changes.get_explanation(row).changes == explainer.explain(row).changes
        assert explainer.attach(without.get_explanation(row)).changes == explainer.explain(row).changes


def test_the_letter_shows_no_example_that_changes_what_no_advice_may():
    table = make_table()
    explainer = Explainer(lambda rows: rows["sex"].to_numpy() == 1, table)
    explanation = explainer.explain({"income": 1, "debt": 1, "sex": 0, "age": 3})
    assert explanation.rule.features == ("sex",)
    letter = explanation.to_html()
    assert "We found no change of what a person can change" in letter
    assert "instead of" not in letter
    free = Explainer(lambda rows: rows["sex"].to_numpy() == 1, table, guess_roles=False)
    assert "instead of" in free.explain(dict(explanation.instance)).to_html()


def test_a_feature_that_must_not_change_cannot_be_asked_to_vary():
    explainer = make_explainer(roles={"sex": "protected"})
    with pytest.raises(InputError, match="'sex', which is declared protected"):
        explainer.counterfactuals(list_denied(explainer, 1)[0], features_to_vary=["sex", "income"])


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"incme": "immutable"}, "unknown feature 'incme'; did you mean 'income'"),
        (
            {"income": "fixed"},
            "must be a Role or one of actionable, immutable, protected, got 'fixed'",
        ),
        ({"sex": Role(direction="rise")}, "a feature with a direction must be ordered, got 'sex', which is nominal"),
    ],
)
def test_roles_that_make_no_sense_are_refused(roles, message):
    with pytest.raises(SpaceError) as refused:
        make_explainer(roles=roles)
    assert message.split(";")[0] in str(refused.value)


@pytest.mark.parametrize(
    ("desired", "undesired", "direction"),
    [
        ([10, 20, 90], [90, 20, 10], "rise"),
        ([90, 20, 10], [10, 20, 90], "fall"),
        ([0, 0, 0], [1, 2, 3], None),  # no desired row
        ([500, 510], [510, 500], None),  # weak
        ([1, 2], [2, 1], None),  # few rows
    ],
)
def test_the_better_direction_is_that_of_the_rank_correlation_unless_it_is_weak(desired, undesired, direction):
    assert find_better_direction(np.array(desired), np.array(undesired)) == direction


@given(st.lists(st.integers(0, 30), min_size=2, max_size=5), st.data())
def test_the_better_direction_agrees_with_counting_pairs(desired, data):
    undesired = data.draw(st.lists(st.integers(0, 30), min_size=len(desired), max_size=len(desired)))
    pairs = sum(
        np.sign(i - j) * a * b for (i, a), (j, b) in itertools.product(enumerate(desired), enumerate(undesired))
    )
    found = find_better_direction(np.array(desired), np.array(undesired))
    assert found in (None, "rise" if pairs > 0 else "fall")


def test_roles_are_guessed_of_integers_beyond_what_floats_hold() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.choice(np.array([2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 0]), 120)
    table = pd.DataFrame({"number": numbers, "b": np.round(rng.normal(size=120), 2)})
    model = DecisionTreeClassifier(random_state=0).fit(table, (table.number >= 2**53) & (table.b > 0))
    row = int(np.flatnonzero(~model.predict(table))[0])
    explanation = Explainer(model, table, desired=True).explain(row)
    assert check(explanation.to_json(), model, table, constraints=["cf.number >= x.number"]).status == "proven"
    tied = ["cf.number >= cf.number"]
    explanation = Explainer(model, table, desired=True, constraints=tied).explain(row)
    assert check(explanation.to_json(), model, table, constraints=tied).status == "proven"
