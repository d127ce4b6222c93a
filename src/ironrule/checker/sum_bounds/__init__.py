"""Upper bounds of sums of trees and terms over pieces of the space."""
