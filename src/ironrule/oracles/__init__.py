"""Oracles: is there a counterfactual in this box? One module or folder per oracle, all behind one protocol.

A new oracle is one new module and one line in the registry (:mod:`ironrule.oracles.registry`); the contract tests pick
it up from there. The exact oracles, which need a model in normal form, are in :mod:`ironrule.backends`.
"""
