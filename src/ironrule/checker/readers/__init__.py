"""The checker's own readers: how the models of each library are read, apart from how the explainer reads them.

registry             which reader reads an estimator
normal_form          what a reader gives: sums of trees and terms
network_form         the same for neural networks
decisions            from raw scores to margins, with rounding
boosted_trees        what the readers of the boosting libraries share
sklearn_outputs      what the readers of scikit-learn share
all others           one file for each kind of model, for PMML a folder
"""
