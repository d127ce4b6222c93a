"""Spaces: features, domains, codes, constraints."""
