"""Sums of one function per feature: linear and additive models, scorecards, stumps."""
