"""The column store: a table that is never in memory as a whole, kept as one file of codes per column.

A source is read once (:mod:`.ingest`), its rows are encoded (:mod:`.encode`), and the files are mapped into memory
(:mod:`.storage`). They are used again as long as the data is the same.
"""
