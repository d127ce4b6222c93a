"""A fuzzer: it looks for false claims.

A case is a random model of one family behind random preparation, fitted on a random small table. Its space is so small
that the model itself can be asked about every point, so the truth of every claim is known: which rules hold, which are
the lightest, how far bounds can move, which counterfactuals are nearest. Nothing of Ironrule's own reading of the model
is used for that, only ``predict`` and ``predict_proba`` of the estimator.

    data        random tables: numbers, texts, flags, missing values, one-hot groups; pandas, polars, NumPy
    pipelines   random preparation of columns
    families    the registry of model families; learned, boosted, written and hostile have their models
    subjects    a model with its table and what is asked of it
    world       every point of the space with the estimator's own decision
    claims      one function per claim; listings: those about lists and about many rows; truth: what is true of a row
    documents   documents altered in every field; statements: which claims of a document are true
    cases       one case from its number; workers: many cases in processes; report: the tables

Run ``python -m benchmarks.fuzz --seconds 600 --seed 1``. A case that failed runs again alone with ``--family NAME``
and ``--case NUMBER``. The exit status is 1 if a claim was false or something crashed.
"""
