"""Upper bounds of a model's margins over pieces of a box, with all rounding counted.

pieces               the pieces that a cover splits a box into
feasible             which pieces hold a point that satisfies the constraints
sum_bounds           margins that are sums of trees and of terms of single columns
network_bounds       margins of neural networks, over bound_propagation (CROWN)
"""
