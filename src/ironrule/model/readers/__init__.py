"""Readers: how the fitted models of each library are turned into a normal form. ``registry`` lists them."""
