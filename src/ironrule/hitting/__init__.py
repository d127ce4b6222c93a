"""Hitting sets: given sets ("duals"), find sets that meet every one of them. Knows nothing of rules or features.

:mod:`.bits` says how sets are represented, :mod:`.weights` how elements are weighed; :mod:`.solver` is what others
call. The algorithms behind it are compiled, one module each: :mod:`.reduce`, :mod:`.bounds`, :mod:`.minimum`,
:mod:`.enumerate`. Only :mod:`.bits` and :mod:`.weights` can be imported without loading Numba.
"""
