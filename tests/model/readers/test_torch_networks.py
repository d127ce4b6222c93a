"""Torch networks: wherever the normal form is sure, the module itself decides the same."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exhaustive_checks import assert_shortest
from network_agreement import count_ties, decide_by_margins, require_agreement
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

import ironrule
from ironrule import InputError, ModelError, TorchNetwork
from ironrule.model.model_input import compute_model_input
from ironrule.model.normal_form.network import (
    DOUBLE_ROUNDOFF,
    SINGLE_ROUNDOFF,
    Network,
    bound_arithmetic_errors,
    find_largest_sizes,
)
from ironrule.model.pipeline import split_pipeline
from ironrule.model.protocol import Unreadable
from ironrule.model.readers.registry import read_estimator

torch = pytest.importorskip("torch")
nn: Any = torch.nn

FEATURES = 4
MIDDLES: dict[str, Any] = {
    "relu": nn.ReLU,
    "inplace relu": lambda: nn.ReLU(inplace=True),
    "leaky": lambda: nn.LeakyReLU(0.2),
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "nothing": nn.Identity,
    "two in a row": lambda: nn.Sequential(nn.Tanh(), nn.ReLU()),
    "batch norm before": lambda: nn.Sequential(nn.BatchNorm1d(9), nn.ReLU()),
    "batch norm after": lambda: nn.Sequential(nn.ReLU(), nn.BatchNorm1d(9), nn.Dropout(0.5)),
    "plain batch norm": lambda: nn.Sequential(nn.BatchNorm1d(9, affine=False), nn.Sigmoid()),
}
ENDS: dict[str, tuple[int, list[Any]]] = {
    "logit": (1, []),
    "probability": (1, [nn.Sigmoid()]),
    "two scores": (2, []),
    "two probabilities": (2, [nn.Softmax(dim=1)]),
    "two logarithms": (2, [nn.LogSoftmax(dim=-1)]),
    "three scores": (3, []),
    "three probabilities": (3, [nn.Softmax(dim=-1), nn.Identity()]),
    "three logarithms": (3, [nn.LogSoftmax(dim=1)]),
    "three of their own": (3, [nn.Sigmoid()]),
    "scores in bounds": (1, [nn.Tanh()]),
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def spread(module: Any, seed: int, size: float = 1.0) -> Any:
    """The module with random weights and statistics, so that it decides now this way and now that."""
    made = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for one in module.modules():
            if isinstance(one, nn.Linear):
                one.weight.copy_(torch.randn(one.weight.shape, generator=made) * size * (2 / one.in_features) ** 0.5)
                one.bias.copy_(torch.randn(one.bias.shape, generator=made) * 0.3)
            if isinstance(one, nn.BatchNorm1d):
                one.running_mean.copy_(torch.randn(one.running_mean.shape, generator=made))
                one.running_var.copy_(torch.rand(one.running_var.shape, generator=made) + 0.1)
                if one.affine:
                    one.weight.copy_(torch.randn(one.weight.shape, generator=made))
                    one.bias.copy_(torch.randn(one.bias.shape, generator=made))
    return module


def network(middle: str, end: str, seed: int, dtype: Any = torch.float32) -> TorchNetwork:
    outputs, last = ENDS[end]
    parts = [nn.Linear(FEATURES, 9), MIDDLES[middle](), nn.Linear(9, 9), MIDDLES[middle](), nn.Linear(9, outputs)]
    module = spread(nn.Sequential(nn.Flatten(), *parts, *copy.deepcopy(last)), seed).to(dtype)
    return TorchNetwork(_centred(module), range(max(outputs, 2)))


def _centred(module: Any) -> Any:
    """The module with the last bias moved so that outputs lie about zero."""
    linear = [one for one in module if isinstance(one, nn.Linear)][-1]
    module.eval()
    with torch.no_grad():
        values = torch.from_numpy(rows(7, 200)).to(linear.weight.dtype)
        for one in module:
            values = one(values)
            if one is linear:
                linear.bias -= values.median(dim=0).values
                break
    return module


def rows(seed: int, count: int = 1500) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, FEATURES)) * [1.0, 3.0, 0.2, 1.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["single", "double"])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("middle", MIDDLES)
def test_a_module_is_read_as_it_decides(middle: str, end: str, dtype: Any) -> None:
    model = network(middle, end, len(middle) + len(end), dtype)
    unsure = 0.2 if dtype is torch.float32 else 0.001
    if end in ("three of their own", "scores in bounds"):
        unsure = 0.5  # saturated outputs tie
    chances = model.predict_proba(rows(1))[:, 1]
    own = chances[(chances > 0.01) & (chances < 0.99)][:1]
    for desired in (0, 1, *([(0, 2)] if len(model.classes_) == 3 else [])):
        found = require_agreement(model, desired, None, rows(1), unsure)
        assert found.roundoff >= (SINGLE_ROUNDOFF if dtype is torch.float32 else DOUBLE_ROUNDOFF)
        assert found.roundoff < (2**-20 if dtype is torch.float32 else 2**-49)
        if len(model.classes_) == 2 or end == "three of their own":
            for threshold in (0.3, 0.5, 0.9, *map(float, own)):
                require_agreement(model, desired, threshold, rows(1), unsure)
        else:
            with pytest.raises(Unreadable, match="more than two classes"):
                read_estimator(model, desired, 0.3)


@pytest.mark.parametrize("end", ENDS)
def test_decisions_one_float_apart_are_never_contradicted(end: str) -> None:
    for seed, middle in enumerate(("relu", "sigmoid", "batch norm before")):
        model, ask = network(middle, end, seed), rows(seed, 300).astype(np.float32)
        for desired in (0, 1):
            assert count_ties(model, desired, None, ask) >= 4
            if len(model.classes_) == 2:
                assert count_ties(model, desired, 0.5, ask) >= 4


def difference(module: Any, ask: np.ndarray) -> tuple[float, float]:
    """How far a module's numbers are from the normal form's, and how far they may be."""
    model = TorchNetwork(module, None)
    found = read_estimator(model, None, 0.0)
    assert isinstance(found, Network)
    ((error,),) = bound_arithmetic_errors(found, find_largest_sizes(list(ask.T)))
    return float(np.abs(found.outputs(ask)[:, 0] - model.predict(ask)).max()), error


def deep(width: int, depth: int, middle: Any, normal: bool = False) -> Any:
    parts: list[Any] = [nn.Linear(FEATURES, width), middle()]
    for _ in range(depth - 1):
        parts += [nn.Linear(width, width), *([nn.BatchNorm1d(width)] if normal else []), middle()]
    return nn.Sequential(*parts, nn.Linear(width, 1))


@pytest.mark.parametrize("normal", [False, True], ids=["", "batch norm"])
@pytest.mark.parametrize("middle", [nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.Sigmoid, nn.Identity])
@pytest.mark.parametrize(("width", "depth"), [(1, 1), (2, 10), (20, 3), (20, 10), (500, 2)])
def test_the_bounds_cover_what_single_precision_makes_of_a_network(
    width: int, depth: int, middle: Any, normal: bool
) -> None:
    for seed in range(3):
        for size in (0.5, 3.0):
            off, error = difference(spread(deep(width, depth, middle, normal), seed, size), rows(seed, 500))
            assert off <= error


def test_the_bounds_are_not_idle() -> None:
    ratios = []
    for seed in range(40):
        off, error = difference(spread(deep(1, 1, nn.Identity), seed, 3.0), rows(seed, 500))
        ratios.append(off / error)
    assert 0.02 < max(ratios) <= 1


def test_means_that_are_far_away_are_allowed_for() -> None:
    for first in (True, False):
        norm, linear = nn.BatchNorm1d(FEATURES), nn.Linear(FEATURES, FEATURES)
        parts = [norm, linear] if first else [linear, norm]
        module = spread(nn.Sequential(*parts, nn.ReLU(), nn.Linear(FEATURES, 1)), 3)
        with torch.no_grad():
            norm.running_mean.fill_(1e5)
            norm.bias.copy_(norm.weight * 1e5 / (norm.running_var + norm.eps).sqrt())
        off, error = difference(module, rows(0))
        assert 1e-4 < off <= error


def test_the_module_is_evaluated_and_left_as_it_was() -> None:
    inner = nn.Sequential(nn.Dropout(0.9), nn.BatchNorm1d(9))
    module = spread(nn.Sequential(nn.Linear(FEATURES, 9), inner, nn.Linear(9, 1)), 0).train()
    module[2].eval()
    statistics = inner[1].running_mean.clone()
    model = TorchNetwork(module)
    expected = copy.deepcopy(module).eval()(torch.from_numpy(rows(0, 50)).float()).detach().numpy()[:, 0]
    np.testing.assert_array_equal(model.outputs(rows(0, 50))[:, 0], expected)
    require_agreement(model, 1, None, rows(0, 300), 0.1)
    assert [one.training for one in module.modules()] == [True, True, True, True, True, False]
    assert torch.equal(statistics, inner[1].running_mean)
    assert all(one.grad is None for one in module.parameters())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        np.testing.assert_array_equal(model.outputs(rows(0, 50))[:, 0], expected)


def test_outputs_become_labels_and_probabilities() -> None:
    score = nn.Sequential(nn.Linear(1, 1, bias=False))
    with torch.no_grad():
        score[0].weight.fill_(1.0)
    table = np.array([[-800.0], [0.0], [2.0]])
    model = TorchNetwork(score, ("no", "yes"))
    assert model.predict(table).tolist() == ["no", "no", "yes"]
    np.testing.assert_allclose(model.predict_proba(table)[:, 1], [0, 0.5, 1 / (1 + np.exp(-2))])
    assert TorchNetwork(score, None).predict(table).tolist() == [-800, 0, 2]
    chance = TorchNetwork(nn.Sequential(score, nn.Sigmoid()), ("no", "yes"))
    assert chance.predict(table).tolist() == ["no", "no", "yes"]
    np.testing.assert_allclose(chance.predict_proba(table), model.predict_proba(table), atol=1e-7)
    bare = TorchNetwork(score, ("no", "yes"), probabilities=True)
    assert bare.predict(np.array([[0.5], [0.6]])).tolist() == ["no", "yes"]
    assert bare.predict_proba(np.array([[0.25]])).tolist() == [[0.75, 0.25]]
    for desired, threshold in (("no", None), ("yes", None), ("no", 0.3), ("yes", 0.3)):
        require_agreement(bare, desired, threshold, np.linspace(0, 1, 101)[:, None])
    three = TorchNetwork(nn.Sequential(nn.Linear(2, 3), nn.LogSoftmax(1)), ["a", "b", "c"])
    ask = rows(0, 20)[:, :2]
    np.testing.assert_allclose(three.predict_proba(ask), np.exp(three.outputs(ask)), atol=1e-7)
    assert (three.predict(ask) == three.classes_[three.outputs(ask).argmax(axis=1)]).all()


def test_a_regression_is_read_with_a_threshold() -> None:
    for last in ([], [nn.Sigmoid()], [nn.ReLU()]):
        module = spread(nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, 1), *last), 1, 2.0)
        model = TorchNetwork(module, None)
        for threshold in (0.25, 0.75, float(model.predict(rows(0)).max() / 2)):
            require_agreement(model, None, threshold, rows(0), 0.02)
    with pytest.raises(Unreadable, match="3 numbers"):
        read_estimator(TorchNetwork(nn.Sequential(nn.Linear(2, 3)), None), None, 0.0)


def test_modules_of_a_class_of_their_own_are_read_if_they_run_like_their_kind() -> None:
    class Net(nn.Sequential):  # type: ignore[misc]
        pass

    class Odd(nn.Linear):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return super().forward(x) + 1

    class Own(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(FEATURES, 1)

        def forward(self, x: Any) -> Any:
            return torch.sigmoid(self.inner(x))

    require_agreement(
        TorchNetwork(spread(Net(nn.Linear(FEATURES, 5), Net(nn.ReLU(), nn.Linear(5, 1))), 0)), 1, None, rows(0)
    )
    require_agreement(TorchNetwork(nn.Linear(FEATURES, 1)), 1, None, rows(0))
    odd = TorchNetwork(nn.Sequential(Odd(FEATURES, 4), nn.ReLU(), nn.Linear(4, 1)))
    with pytest.raises(Unreadable, match="Odd"):
        read_estimator(odd, 1, None)
    with pytest.raises(
        InputError, match=r"cannot tell whether the outputs of Own .*; pass probabilities=True"
    ) as caught:
        TorchNetwork(Own())
    assert caught.value.code == "probabilities-required"
    asked = TorchNetwork(Own(), probabilities=True)
    assert (asked.predict(rows(0)) == (asked.outputs(rows(0))[:, 0] > 0.5)).all()
    with pytest.raises(Unreadable, match="Own"):
        read_estimator(asked, 1, None)
    assert not hasattr(asked, "n_features_in_")


def sequential(*parts: Any) -> TorchNetwork:
    return TorchNetwork(nn.Sequential(*parts), (0, 1), probabilities=False)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 1)), "GELU"),
        (lambda: sequential(nn.Linear(4, 4), nn.Softmax(1), nn.Linear(4, 1)), "Softmax must come last"),
        (lambda: TorchNetwork(nn.Sequential(nn.Linear(4, 2), nn.Softmax(0))), "dim=1"),
        (lambda: sequential(nn.Flatten(0), nn.Linear(4, 1)), "mixes rows"),
        (lambda: sequential(nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 1)), "running statistics"),
        (lambda: sequential(nn.Linear(4, 1), nn.LeakyReLU(-0.5)), "slope from 0 to 1"),
        (lambda: sequential(nn.Linear(4, 1).bfloat16()), "bfloat16"),
        (lambda: sequential(nn.Linear(4, 3).double(), nn.Linear(3, 1)), "float32, torch.float64"),
        (lambda: sequential(nn.Linear(4, 3), nn.Linear(4, 1)), "do not fit"),
        (lambda: sequential(nn.Linear(4, 5)), "5 outputs for 2 classes"),
        (lambda: TorchNetwork(nn.Sequential(nn.Linear(4, 1), nn.Softmax(1))), "decides nothing"),
        (lambda: sequential(nn.ReLU()), "no weights"),
    ],
)
def test_what_cannot_be_read_says_why(make: Any, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        read_estimator(make(), 1, None)


def test_hooks_are_refused() -> None:
    for place in (0, None):
        model = TorchNetwork(nn.Sequential(nn.Linear(4, 1)), probabilities=False)
        part = model.module if place is None else model.module[place]
        part.register_forward_hook(lambda *given: given[2] + 1)
        with pytest.raises(Unreadable, match="hooks"):
            read_estimator(model, 1, None)


def test_parametrised_weights_are_read_as_they_are_used() -> None:
    linear = torch.nn.utils.parametrizations.weight_norm(nn.Linear(FEATURES, 3))
    require_agreement(TorchNetwork(nn.Sequential(linear, nn.ReLU(), nn.Linear(3, 1))), 1, None, rows(0), 0.05)


def test_products_of_less_precision_are_refused() -> None:
    model = TorchNetwork(nn.Linear(4, 1))
    try:
        torch.set_float32_matmul_precision("medium")
        with pytest.raises(Unreadable, match="set_float32_matmul_precision"):
            read_estimator(model, 1, None)
        assert isinstance(read_estimator(TorchNetwork(nn.Linear(4, 1).double()), 1, None), Network)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert isinstance(read_estimator(model, 1, None), Network)


def test_weights_that_are_no_numbers_are_refused() -> None:
    model = TorchNetwork(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)))
    with torch.no_grad():
        model.module[0].weight[0, 0] = float("nan")
        model.module[2].weight.fill_(1.0)
    with pytest.raises(Unreadable, match="finite"):
        read_estimator(model, 1, None)
    with pytest.raises(ModelError, match="must be finite"):
        model.predict(np.ones((2, 4)))
    with pytest.raises(ModelError, match="must be finite"):
        TorchNetwork(nn.Linear(4, 1)).predict(np.full((2, 4), np.nan))


def test_huge_weights_are_refused_where_single_precision_overflows() -> None:
    module = spread(deep(8, 3, nn.ReLU), 0, 1e13)
    found = read_estimator(TorchNetwork(module), 1, None)
    assert isinstance(found, Network)
    with pytest.raises(Unreadable, match="float32"):
        bound_arithmetic_errors(found, np.ones(FEATURES))
    require_agreement(TorchNetwork(spread(deep(8, 3, nn.ReLU), 0, 1e6)), 1, None, rows(0), 0.1)


def test_products_too_small_for_single_precision_are_left_to_the_module() -> None:
    model = TorchNetwork(nn.Sequential(nn.Linear(1, 1, bias=False)))
    with torch.no_grad():
        model.module[0].weight.fill_(1e-30)
    ask = np.array([[1e-20]])
    assert model.predict(ask).tolist() == [0]
    may, must = decide_by_margins(read_estimator(model, 1, None), ask)  # type: ignore[arg-type]
    assert (may[0], must[0]) == (True, False)


def test_saturated_probabilities_are_left_to_the_module() -> None:
    module = nn.Sequential(nn.Linear(1, 3), nn.Sigmoid())
    with torch.no_grad():
        module[0].weight.copy_(torch.tensor([[1.0], [2.0], [3.0]]))
        module[0].bias.zero_()
    model, ask = TorchNetwork(module, (0, 1, 2)), np.array([[60.0], [-60.0], [1.0], [-1.0]])
    assert model.predict(ask).tolist() == [0, 0, 2, 0]
    require_agreement(model, 2, None, ask, 0.5)
    assert (decide_by_margins(read_estimator(model, 2, None), ask)[0] == [True, True, True, False]).all()  # type: ignore[arg-type]


def test_scikit_learn_takes_it_for_a_fitted_estimator() -> None:
    X = rows(0, 60)
    y = (X[:, 0] > 0).astype(int)
    model = TorchNetwork(spread(nn.Sequential(nn.Linear(FEATURES, 3), nn.ReLU(), nn.Linear(3, 1)), 0))
    check_is_fitted(model)
    assert is_classifier(model)
    assert is_regressor(TorchNetwork(model.module, None))
    assert not hasattr(TorchNetwork(model.module, None), "predict_proba")
    assert not hasattr(TorchNetwork(model.module, None), "classes_")
    assert model.n_features_in_ == FEATURES
    pipe = make_pipeline(StandardScaler(), model)
    with pytest.raises(NotFittedError):
        pipe[:1].transform(X)
    pipe.fit(X, y)
    assert (clone(pipe).fit(X, y).predict(X) == pipe.predict(X)).all()
    assert cross_val_predict(pipe, X, y, cv=3).shape == (60,)
    assert pipe.classes_.tolist() == [0, 1]
    assert "TorchNetwork" in repr(pipe)
    other = pickle.loads(pickle.dumps(pipe))
    assert (other.predict_proba(X) == pipe.predict_proba(X)).all()
    transform, _ = split_pipeline(pipe)
    require_agreement(pipe, 1, None, compute_model_input(transform, X), 0.1, table=X)
    require_agreement(pipe, 0, 0.3, compute_model_input(transform, X), 0.1, table=X)


def test_what_is_no_network_says_so() -> None:
    linear = nn.Linear(2, 1)
    with pytest.raises(InputError, match=r"torch\.nn\.Module, got int"):
        TorchNetwork(3)
    for classes in ("ab", (1,), (1, 1)):
        with pytest.raises(InputError, match="at least two distinct labels"):
            TorchNetwork(linear, classes)
    with pytest.raises(InputError, match="got 1 output for 3 classes"):
        TorchNetwork(linear, (1, 2, 3)).predict(np.ones((1, 2)))
    with pytest.raises(InputError, match="leave probabilities= out"):
        TorchNetwork(nn.Sequential(linear, nn.Sigmoid()), probabilities=False)
    with pytest.raises(ModelError, match=r"ironrule\.TorchNetwork"):
        ironrule.Explainer(nn.Sequential(linear), rows(0, 20)[:, :2])


def test_the_example_in_the_documents_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    page = (Path(__file__).parents[3] / "docs" / "models.md").read_text()
    examples = re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (example,) = (code for code in examples if "import torch" in code)
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that this exporter is the old one
        exec(compile(example, "models.md", "exec"), {})
    assert (tmp_path / "network.onnx").is_file()


@pytest.mark.parametrize("end", ["logit", "two probabilities", "three scores"])
def test_rules_of_a_module_behind_a_pipeline_are_proven_and_shortest(end: str) -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(0, 4, size=(120, FEATURES)) * [1.0, 10.0, 0.1, 1.0]
    model = make_pipeline(StandardScaler(), network("batch norm before", end, 3)).fit(table)
    explainer = ironrule.Explainer(model, table, desired=1, domain="seen")
    assert explainer.unreadable_reason is None
    assert assert_shortest(explainer, 2) == 2
