"""The checker: verify every claim of a document against the user's own model, without trusting the search.

It imports nothing of Ironrule but its errors (a test enforces this), so that it can be read and used alone; it reads
models, tables and constraints by itself. docs/certificates.md says what is checked and what a check rests on.

    checker          the entry: Checker and check
    result           what comes out: Check and its findings
    document         which fields an explanation's JSON has, and its digest
    claims           every claim in turn
    ladder           the claims of a ladder's rungs; ladder_document has its fields, measured_rows the rows it counts on
    components       values, points and rules as codes; permitted components and their weights
    certificates     that a box holds no desired point: by covers, by enumeration, and by drawn points
    lower_bound      that no lighter rule excludes the witnesses
    scope            what is checked against: the user's data, the space, the user's models with their bounds
    user_models      how the user's models are asked, and how their answers become decisions
    preprocessing    the steps before the estimator, and the columns that it sees
    intervals        whether what holds at the values of a domain holds between them
    changes/         counterfactuals, regions, menus and forbidding restrictions: loaded for these alone
    space/           tables, features, constraints, and tables laid out again for a model
    readers/         how the models of each library are read
    bounds/          pieces of a box, and upper bounds of a reading's margins over them
"""
