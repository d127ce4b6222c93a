"""A soak: run something for long while it is killed, interrupted and starved, and see whether anything is lost.

    python -m benchmarks.soak --seconds 180

Each thing that is put to it is a subject, one module each: see :mod:`benchmarks.soak.subject` for what one must do, and
``SUBJECTS`` in :mod:`benchmarks.soak.__main__` for the list.
"""
