"""Explanations in other people's pipelines: MLflow, and logs as lines of JSON."""
