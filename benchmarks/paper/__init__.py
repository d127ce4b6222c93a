"""The paper's evaluation (Geng, Schleich, Suciu, VLDB 2022) on real data, judged by proof; one command per experiment.

    IRONRULE_DATA=<folder> python -m benchmarks.paper NAME [--quick] [--out DIR]

How it is made: an experiment (:mod:`benchmarks.paper.experiment`) names its tasks, measures single rows in a process of
its own, and turns records into tables and pictures; methods (:mod:`benchmarks.paper.methods`) explain rows, ours and
those of other packages alike; the runner (:mod:`benchmarks.paper.runner`) plans, asks, and keeps every answer at once.
A new experiment is one module and one line in :data:`benchmarks.paper.experiment.MODULES`; a new method is one file
``methods_*.py`` with a tuple ``METHODS``.
"""
