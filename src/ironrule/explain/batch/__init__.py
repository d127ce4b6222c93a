"""Batches: explain every undesired row of a table, on all processors or on a Ray cluster, and store finished rows
safely.
"""
