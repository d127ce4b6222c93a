"""Our own algorithms: the paper's three on GeCo and on the exact oracle, the minimum rule, and the baselines.

GeneticRule asks no oracle, so it comes once. ``minimum`` takes the first minimum rule that it finds; choosing among
several by coverage is left out, since no other method does that. GreedyRuleCF is only sure to find a minimum rule
where no candidate is dropped: with the paper's q = 50 one that a minimum rule contains may be. So it also comes with a
queue that is never cut.
"""

from __future__ import annotations

from operator import attrgetter

from benchmarks.paper.methods import ours
from ironrule import Anchor, GeneticRule, GeneticRuleCF, GreedyRuleCF, Minimum, MinSetCover

UNCUT = 1_000_000
EXACT, BLACK_BOX = attrgetter("exact"), attrgetter("black_box")

METHODS = (
    ours("minimum", "minimum, exact", lambda _: Minimum(ties=0), EXACT),
    ours("greedy_cf_exact", "GreedyRuleCF, exact", lambda task: GreedyRuleCF(q=task.q), EXACT),
    ours("greedy_cf_uncut", "GreedyRuleCF, exact, queue uncut", lambda _: GreedyRuleCF(q=UNCUT), EXACT),
    ours("genetic_cf_exact", "GeneticRuleCF, exact", lambda task: GeneticRuleCF(q=task.q, s=task.s), EXACT),
    ours("greedy_cf", "GreedyRuleCF, GeCo", lambda task: GreedyRuleCF(q=task.q), BLACK_BOX),
    ours("genetic_cf", "GeneticRuleCF, GeCo", lambda task: GeneticRuleCF(q=task.q, s=task.s), BLACK_BOX),
    ours("genetic", "GeneticRule", lambda task: GeneticRule(q=task.q, s=task.s), BLACK_BOX),
    ours("min_set_cover", "MinSetCover", lambda _: MinSetCover(support=False), BLACK_BOX),
    ours("anchor", "Anchor", lambda _: Anchor(), BLACK_BOX),
)
