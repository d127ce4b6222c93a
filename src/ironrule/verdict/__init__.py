"""Verdicts, certificates and budgets."""
