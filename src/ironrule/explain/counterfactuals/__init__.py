"""Counterfactuals of a row: the nearest ones that are asked for, and the changes that are suggested to a person."""
