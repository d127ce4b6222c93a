"""Algorithms that search for rules, one module each, and the driver that they share.

A new algorithm is one new module and one entry in :data:`ironrule.search.algorithms.ALGORITHMS`; the contract tests,
the command line, the server and the web pages pick it up from there.
"""
