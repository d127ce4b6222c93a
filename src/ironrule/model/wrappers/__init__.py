"""Models that no library of Python has fitted: written by hand, or networks that were trained elsewhere."""
