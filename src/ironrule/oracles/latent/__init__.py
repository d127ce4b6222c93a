"""Counterfactual systems of the literature that search among what an autoencoder has learned of past rows."""
