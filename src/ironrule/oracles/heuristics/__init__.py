"""Counterfactual systems of the literature as oracles: each may find counterfactuals, none proves anything."""
