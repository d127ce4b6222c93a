"""Bound propagation on a GPU, by torch: thousands of boxes at a time. Imported only where a device is asked for."""
