"""Counterfactuals under any cost: what changes of a row cost, and the searches for the cheapest."""
