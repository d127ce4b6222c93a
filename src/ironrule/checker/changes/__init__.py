"""Counterfactuals and regions: their documents, what changes cost, and that nothing costs less.

document         which fields their JSON has
counterfactuals  the claims of counterfactuals in turn; region those of a region; claims what both have
costs            what changes of a row cost
space            what may change, and the conditions that counterfactuals must meet
opposite         a model turned round, for regions and bands of scores
atoms            the values of one feature that a proof tells apart
search           a branch and bound that must find nothing cheaper
"""
