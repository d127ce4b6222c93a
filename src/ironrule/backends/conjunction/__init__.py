"""Models that are read side by side and must all desire a point: branch and bound over boxes with all their oracles."""
