"""The backend for single decision trees: everything follows from the boxes of the desired leaves."""
