"""Upper bounds of a model's margins over pieces of a box, with all rounding counted.

pieces               the pieces that a cover splits a box into
feasible             which pieces hold a point that satisfies the constraints
sum_bounds           margins that are sums of trees and of terms of single columns
network_bounds       margins of neural networks, over bound_propagation (CROWN)
change_bounds        the same where only few or cheap changes can be paid; network_change_bounds for networks, with what
                     columns can be for what they cost (column_moves, piece_columns) and multipliers that linear
                     programs propose (multiplier_programs)
"""
