"""Backends: all that one normal form needs. One folder per normal form: decision tree, forest, network.

:mod:`ironrule.backends.registry` says which backend serves a model. Modules here load compiled code: import them late.
"""
