"""Bounds of a network's margins over pieces of the space, with all rounding counted."""
