"""The model that is explained: asked as a black box, or read into a normal form; and the history of what it decided.

``blackbox`` and ``decision`` ask any model. ``read_model`` reads a fitted model: ``pipeline`` takes its preprocessing
off, ``model_input`` tabulates what the final estimator sees, ``readers/`` turns that estimator into a normal form
(``normal_form/``: a sum of trees, or a network). ``wrappers/`` has models that come from no library of Python.
"""
