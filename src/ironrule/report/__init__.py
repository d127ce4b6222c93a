"""Explanations as text and HTML. Reads explanations only."""
