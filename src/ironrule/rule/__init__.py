"""Rules: components, conditions, boxes, counterfactuals and duals.

The modules that need Numba (duals, kernels) are imported at first use, so that importing the package is fast.
"""
