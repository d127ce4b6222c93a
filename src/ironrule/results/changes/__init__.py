"""What is said of changes beside single counterfactuals: regions, menus, and why there is none."""
