"""The backend for sums of trees: ascent to counterfactuals, and branch and bound over cells for proofs."""
