"""The checker: verifies every claim of an explanation against the user's own model, by code of its own."""
