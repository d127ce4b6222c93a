"""Results: what explaining returns, as values that need neither the model nor the data.

An explanation, counterfactuals, a judgement, a batch and so on are frozen values that can be compared, pickled and
written to JSON or Parquet. How they are shown stands in :mod:`ironrule.report`, how they are made in
:mod:`ironrule.explain`.
"""
