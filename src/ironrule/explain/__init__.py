"""Explain: the services. ``Explainer`` is the entry point; see :mod:`ironrule.results` for what it returns."""
