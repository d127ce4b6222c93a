"""Covers that have grown out of others while components were left out, under the checker."""

from __future__ import annotations

import numpy as np
import pytest
from altered import confirm, has_exception
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_settings import Setting, scope_of_reading

from ironrule.model.net import compile_network
from ironrule.model.network import Network
from ironrule.model.readable import Read
from ironrule.oracles import Case, Networks, Remembering
from ironrule.oracles.grafting import Grafted
from ironrule.rule.bits import members
from ironrule.verdict import Certificate, Proven
from networks import network_models
from tiny import exceptions_in, meter_of


def grown_certificates(case: Case, oracle: Networks, seed: int) -> list[Certificate]:
    """Certificates of rules that get shorter and shorter; what is refuted on the way is refuted rightly."""
    memory, rule, found = Remembering(oracle, reads=True), case.relevant.usable, []
    for bit in np.random.default_rng(seed).permutation(members(rule)).tolist():
        box = case.relevant.box(rule & ~(1 << bit))
        verdict = memory.find(case, box, 1, meter_of(), np.random.default_rng(0))
        assert isinstance(verdict, Proven) == (len(exceptions_in(case, box)) == 0)
        if isinstance(verdict, Proven):
            rule &= ~(1 << bit)
            found.append(verdict.certificate)
    return found


@settings(deadline=None, max_examples=200)
@given(network_models(), st.integers(0, 1 << 32))
def test_grown_covers_are_confirmed(made: tuple[Case, Read], seed: int) -> None:
    case, read = made
    assert isinstance(read.reading, Network)
    oracle = Networks(compile_network(read.reading, read.columns, case.space))
    setting = Setting(case, read.reading, read.columns, scope_of_reading(case, read, case.instance[None, :]))
    for certificate in grown_certificates(case, oracle, seed)[-2:]:
        assert not has_exception(setting, certificate)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ironrule.checker.certificates.MOST_PER_PIECE", 1)
            patch.setattr("ironrule.checker.network_bounds.splitting.LEVELS", 0)
            confirm(setting, certificate)
        assert certificate.drawn().points >= sum(isinstance(one, Grafted) for one in certificate.covers)
