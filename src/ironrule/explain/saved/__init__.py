"""Explainers in files: one file that can be opened without the model, without its library, and without trust."""
