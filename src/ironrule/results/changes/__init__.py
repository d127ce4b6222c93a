"""Results about changes besides single counterfactuals: regions, menus, and why there is no counterfactual."""
