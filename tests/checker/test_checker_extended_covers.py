"""Covers that have grown out of others while components were left out, under the checker."""

from __future__ import annotations

import numpy as np
import pytest
from altered_certificates import confirm, has_exception
from hypothesis import given, settings, strategies as st
from tiny_settings import Setting, scope_of_reading

from ironrule.backends.network.compile import compile_network
from ironrule.backends.network.oracle import NetworkOracle
from ironrule.hitting.bits import list_members
from ironrule.model.normal_form.network import Network
from ironrule.model.read_model import TabulatedModel
from ironrule.oracles.caching import CachingOracle, ExtendedCover
from ironrule.oracles.protocol import BoxQuery, Case
from ironrule.verdict.certificate import Certificate
from ironrule.verdict.verdict import Proven
from random_networks import network_models
from tiny_cases import exceptions_in, run_of


def grown_certificates(case: Case, oracle: NetworkOracle, seed: int) -> list[Certificate]:
    """Certificates of rules that get shorter and shorter; what is refuted on the way is refuted rightly."""
    memory, rule, found = CachingOracle(oracle, exact=True), case.components.usable, []
    for bit in np.random.default_rng(seed).permutation(list_members(rule)).tolist():
        box = case.components.box(rule & ~(1 << bit))
        verdict = memory.find(BoxQuery(case, box), run_of())
        assert isinstance(verdict, Proven) == (len(exceptions_in(case, box)) == 0)
        if isinstance(verdict, Proven):
            rule &= ~(1 << bit)
            found.append(verdict.certificate)
    return found


@settings(deadline=None, max_examples=200)
@given(network_models(), st.integers(0, 1 << 32))
def test_grown_covers_are_confirmed(made: tuple[Case, TabulatedModel], seed: int) -> None:
    case, read = made
    assert isinstance(read.normal_form, Network)
    oracle = NetworkOracle(compile_network(read.normal_form, read.columns, case.space))
    setting = Setting(case, read.normal_form, read.columns, scope_of_reading(case, read, case.instance[None, :]))
    for certificate in grown_certificates(case, oracle, seed)[-2:]:
        assert not has_exception(setting, certificate)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ironrule.checker.certificates.MAX_COMBINATIONS_PER_PIECE", 1)
            patch.setattr("ironrule.checker.bounds.network_bounds.MAX_HALVINGS", 0)
            confirm(setting, certificate)
        assert certificate.with_built_covers().points >= sum(
            isinstance(one, ExtendedCover) for one in certificate.covers
        )
