"""Documents of changes (counterfactuals, regions, menus, forbidding restrictions), and that nothing costs less.

document         which fields their JSON has
counterfactuals  the claims of counterfactuals in turn; region those of a region; claims what all have
menu             a menu and its claims; infeasibility the same for restrictions that forbid every counterfactual;
                 parts puts these claims as claims of counterfactuals
costs            what changes of a row cost
space            what may change, and the conditions that counterfactuals must meet
opposite         a model turned round, for regions and bands of scores
atoms            the values of one feature that a proof tells apart
search           a branch and bound that must find nothing cheaper
"""
