"""GeCo, the counterfactual system under the paper's algorithms."""
