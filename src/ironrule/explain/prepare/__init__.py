"""Prepare what an explainer knows before it is asked: read the data and the models, derive contexts from others."""
