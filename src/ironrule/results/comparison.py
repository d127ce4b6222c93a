"""Two batches compared: how explanations changed between two versions of a model, or between two months.

Shares (which features rules name, which reasons were given) and lengths come from all explanations of both. People who
are in both, known by their values, are compared one by one.

**Which rules still hold.** A proven rule of the first batch is put to what the second batch knows, without asking a
model. It *holds* if a rule that the second batch has proven is wider: whoever satisfies the old one satisfies that one
too. It *breaks* if a counterfactual of the second batch, somebody with the desired outcome, satisfies it. Otherwise it
is *open*: only the new model can say. A recheck asks it (``Explainer.recheck``), and its answers count first.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ironrule.errors import InputError, MissingExtraError
from ironrule.results.display import format_comparison, plot_comparison, render_comparison, write_comparison_report
from ironrule.results.explanation import Explanation
from ironrule.results.judgement import Recheck
from ironrule.results.ladder import Ladder
from ironrule.rule.phrasing import phrase_comparison
from ironrule.rule.rule import Component, Rule
from ironrule.space.feature import Value, value_to_json
from ironrule.space.labels import NO_LABELS, Labels
from ironrule.verdict.digest import write_json
from ironrule.verdict.verdict import Proven
from ironrule.wording import escape_controls

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ironrule.results.batch import Batch

RuleStatus = Literal["holds", "breaks", "open"]
STATUSES: tuple[RuleStatus, ...] = ("holds", "breaks", "open")
MOST_REASONS = 4
COMPARISON_FORMAT = 1


@dataclass(frozen=True, slots=True)
class ComparedRule:
    """A proven rule of the first batch: for how many rows it was found, the first of them, and what became of it.

    ``shown_by`` is what shows it: the wider rule or the counterfactual of the second batch; None where it is open, or
    where a recheck says it.
    """

    rule: str
    rows: int
    row: int
    status: RuleStatus
    shown_by: str | None = None


@dataclass(frozen=True, slots=True)
class ShareChange:
    """How many of the explanations of each batch have something, such as a feature in their rule, and which share.

    ``label`` is how people call it, where the explanations have labels.
    """

    name: str
    old_count: int
    new_count: int
    old_share: float
    new_share: float
    label: str | None = None

    @property
    def shown_name(self) -> str:
        """The label, or the name."""
        return escape_controls(self.label or self.name)

    @property
    def difference(self) -> float:
        """The new share less the old one."""
        return self.new_share - self.old_share


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """One batch in figures: rows explained, rows that had the desired outcome, verdicts and lengths of rules."""

    explained: int
    desired: int
    verdicts: Mapping[str, int]
    minimum: int  # rules proven to be the shortest
    lengths: Mapping[int, int]  # by number of components

    @property
    def denied_share(self) -> float:
        """The share of rows that were denied."""
        total = self.explained + self.desired
        return self.explained / total if total else 0.0

    @property
    def median_length(self) -> int:
        """The median of the lengths; the upper one of two."""
        sizes = sorted(Counter(self.lengths).elements())
        return sizes[len(sizes) // 2] if sizes else 0


@dataclass(frozen=True, slots=True)
class MatchedRows:
    """People who are explained in both batches, and what became of their rules; ``only_old`` and ``only_new`` are not.

    Rows are matched by their values; of several with the same values, each with one.
    """

    both: int
    same_rule: int
    shorter: int
    longer: int
    other_rule: int  # as long as before
    lost_proof: int  # proven before, and not now
    only_old: int
    only_new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchComparison:
    """How the explanations of two batches differ; make one with ``old.compare(new)``.

    ``reasons`` is None where one of them was made without ladders. ``rechecked``: a recheck says which rules hold.
    """

    old: BatchFigures
    new: BatchFigures
    matched: MatchedRows
    features: tuple[ShareChange, ...]
    reasons: tuple[ShareChange, ...] | None
    rules: tuple[ComparedRule, ...]
    same_model: bool
    rechecked: bool = False

    @property
    def rule_counts(self) -> dict[RuleStatus, int]:
        """How many of the first batch's proven rules hold, break and are open."""
        counts = Counter(rule.status for rule in self.rules)
        return {status: counts[status] for status in STATUSES}

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain data."""
        plain = asdict(self)
        for side in ("old", "new"):
            plain[side]["lengths"] = {str(length): count for length, count in plain[side]["lengths"].items()}
        return {"comparison_format": COMPARISON_FORMAT, "rule_counts": self.rule_counts, **plain}

    def to_json(self, indent: int | None = None) -> str:
        """The comparison as JSON."""
        return write_json(self.to_dict(), indent)

    def list_figures(self) -> list[tuple[str, str, float, float]]:
        """Every figure with its kind, its name, and what it was and is."""
        old, new = self.old, self.new
        rows: list[tuple[str, str, float, float]] = [
            ("rows", "explained", old.explained, new.explained),
            ("rows", "denied share", old.denied_share, new.denied_share),
            ("rules", "median length", old.median_length, new.median_length),
            ("rules", "proven to be shortest", old.minimum, new.minimum),
        ]
        words = sorted({*old.verdicts, *new.verdicts})
        rows += [("verdict", word, old.verdicts.get(word, 0), new.verdicts.get(word, 0)) for word in words]
        sizes = sorted({*old.lengths, *new.lengths})
        rows += [("length", str(size), old.lengths.get(size, 0), new.lengths.get(size, 0)) for size in sizes]
        rows += [("feature", one.name, one.old_share, one.new_share) for one in self.features]
        rows += [("reason", one.name, one.old_share, one.new_share) for one in self.reasons or ()]
        return rows

    def to_frame(self) -> Any:
        """A pandas table with one row per figure: its kind, its name, the old and the new value, and the difference."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError("pandas", "pandas", "a comparison as a table") from None
        frame = pd.DataFrame(self.list_figures(), columns=["kind", "name", "old", "new"])
        return frame.assign(difference=frame["new"] - frame["old"])

    def plot(self, ax: Axes | None = None) -> Axes:
        """The shares of explanations that name each feature, before and now, on matplotlib's axes."""
        return plot_comparison(self, ax)

    def to_html(self, path: str | Path | None = None) -> str:
        """The comparison as one HTML page that needs nothing else, also written to ``path`` where one is given."""
        return write_comparison_report(self, path)

    def __str__(self) -> str:
        return format_comparison(self)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {status}" for status, count in self.rule_counts.items())
        return f"<BatchComparison: {self.old.explained} and {self.new.explained} explained; old rules: {counts}>"

    def _repr_html_(self) -> str:
        return render_comparison(self)


def compare_batches(old: Batch, new: Batch, recheck: Recheck | None = None) -> BatchComparison:
    """How the explanations of two batches differ; raises InputError if one has no explanations, or no documents."""
    for batch in (old, new):
        if len(batch) == 0:
            raise InputError(expected="a comparison needs explanations in both batches", got="an empty batch")
    if recheck is not None and not isinstance(recheck, Recheck):
        raise InputError(expected="recheck must be what Explainer.recheck returns", got=type(recheck).__name__)
    before, now = _BatchFacts.read(old), _BatchFacts.read(new)
    labels, totals = now.labels.extend(before.labels), (len(old), len(new))
    reasons = None
    if old.has_ladders and new.has_ladders:
        counts = _count_reasons(old.ladders()), _count_reasons(new.ladders())
        reasons = _compare_shares(*counts, totals, lambda name: _find_reason_label(name, labels))
    return BatchComparison(
        old=before.figures,
        new=now.figures,
        matched=_match_rows(before, now),
        features=_compare_shares(before.features, now.features, totals, labels.get_label),
        reasons=reasons,
        rules=_compare_rules(before, now, recheck),
        same_model=before.models == now.models,
        rechecked=recheck is not None,
    )


@dataclass(frozen=True, slots=True)
class _RowFacts:
    """What is compared of one person."""

    rule: str
    length: int
    is_proven: bool


@dataclass(frozen=True, slots=True)
class _BatchFacts:
    """What is compared of a batch, read once."""

    figures: BatchFigures
    features: Counter[str]
    people: Mapping[str, list[_RowFacts]]  # by their values
    rules: Mapping[str, tuple[Rule, list[int]]]  # proven ones by their text, with the rows that they were found for
    points: Mapping[str, Mapping[str, Value]]  # counterfactuals, by their text
    models: frozenset[str]
    labels: Labels

    @classmethod
    def read(cls, batch: Batch) -> _BatchFacts:
        features, verdicts, lengths = Counter[str](), Counter[str](), Counter[int]()
        people, points = defaultdict[str, list[_RowFacts]](list), dict[str, Mapping[str, Value]]()
        rules: dict[str, tuple[Rule, list[int]]] = {}
        models, minimum, labels = set[str](), 0, NO_LABELS
        for row, explanation in zip(batch.rows, batch, strict=True):
            is_proven, shown = isinstance(explanation.verdict, Proven), explanation.shown.rule
            verdicts[type(explanation.verdict).__name__.lower()] += 1
            lengths[explanation.cardinality] += 1
            minimum += explanation.minimum
            features.update(set(explanation.rule.features))
            people[_write_person(explanation)].append(_RowFacts(str(shown), explanation.cardinality, is_proven))
            if is_proven:
                rules.setdefault(str(shown), (shown, []))[1].append(row)
            found = [{**one.values, **one.exact} for one in explanation.counterfactuals]
            points |= {str(point): point for point in found}
            models.add(explanation.model)
            labels = labels or explanation.labels
        figures = BatchFigures(len(batch), batch.counts["desired"], dict(verdicts), minimum, dict(lengths))
        return cls(
            figures=figures,
            features=features,
            people=people,
            rules=rules,
            points=points,
            models=frozenset(models),
            labels=labels,
        )


def _write_person(explanation: Explanation) -> str:
    """The values of a person as text; a whole number is the same with and without a decimal point."""
    values = {name: value_to_json(value) for name, value in explanation.instance.items()}
    plain = {name: int(v) if isinstance(v, float) and v.is_integer() else v for name, v in values.items()}
    return json.dumps(plain, sort_keys=True)


def _compare_shares(
    old: Counter[str], new: Counter[str], totals: tuple[int, int], find_label: Callable[[str], str | None]
) -> tuple[ShareChange, ...]:
    """Shares before and now, those that changed most first."""
    changes = [
        ShareChange(
            name,
            old[name],
            new[name],
            old_share=old[name] / totals[0],
            new_share=new[name] / totals[1],
            label=find_label(name),
        )
        for name in {*old, *new}
    ]
    return tuple(sorted(changes, key=lambda one: (-abs(one.difference), one.name)))


def _find_reason_label(name: str, labels: Labels) -> str | None:
    """How people call a reason, which is a feature with a direction behind it."""
    feature, bracket, direction = name.rpartition(" (")
    label = labels.get_label(feature)
    return None if label is None else f"{label}{bracket}{direction}"


def _count_reasons(ladders: Iterable[Ladder]) -> Counter[str]:
    """How many people get each reason, by feature and direction."""
    counts = Counter[str]()
    for ladder in ladders:
        reasons = ladder.reasons(MOST_REASONS)
        counts.update({f"{reason.component.feature} ({reason.direction})" for reason in reasons})
    return counts


def _match_rows(old: _BatchFacts, new: _BatchFacts) -> MatchedRows:
    pairs = [
        pair
        for person, facts in old.people.items()
        if person in new.people
        for pair in zip(facts, new.people[person], strict=False)  # as many as both have
    ]
    same = sum(before.rule == now.rule for before, now in pairs)
    shorter = sum(now.length < before.length for before, now in pairs)
    longer = sum(now.length > before.length for before, now in pairs)
    other = sum(before.rule != now.rule and before.length == now.length for before, now in pairs)
    return MatchedRows(
        both=len(pairs),
        same_rule=same,
        shorter=shorter,
        longer=longer,
        other_rule=other,
        lost_proof=sum(before.is_proven and not now.is_proven for before, now in pairs),
        only_old=old.figures.explained - len(pairs),
        only_new=new.figures.explained - len(pairs),
    )


def _compare_rules(old: _BatchFacts, new: _BatchFacts, recheck: Recheck | None) -> tuple[ComparedRule, ...]:
    """The first batch's proven rules, those found for most rows first."""
    asked = {} if recheck is None else {item.name: item.status for item in recheck}
    by_features = defaultdict[frozenset[str], list[Rule]](list)
    for rule, _ in new.rules.values():
        by_features[frozenset(rule.features)].append(rule)
    compared = []
    for text, (rule, rows) in old.rules.items():
        status, shown_by = _find_recheck_status([asked.get(row) for row in rows]), None
        if status is None:
            status, shown_by = _find_status(rule, by_features, new.points)
        compared.append(ComparedRule(text, len(rows), rows[0], status, shown_by))
    return tuple(sorted(compared, key=lambda one: (-one.rows, one.row)))


def _find_recheck_status(statuses: list[Any]) -> RuleStatus | None:
    """What a recheck says of a rule that was found for several rows; a row that is approved now is an exception."""
    if "breaks" in statuses or "overturned" in statuses:
        return "breaks"
    if "holds" in statuses:
        return "holds"
    return "open" if "undecided" in statuses else None


def _find_status(
    rule: Rule, by_features: Mapping[frozenset[str], list[Rule]], points: Mapping[str, Mapping[str, Value]]
) -> tuple[RuleStatus, str | None]:
    """What the second batch knows of a rule of the first, and what shows it."""
    named = frozenset(rule.features)
    for features, others in by_features.items():
        wider = next((other for other in others if features <= named and _is_implied(other, rule)), None)
        if wider is not None:
            return "holds", str(wider)
    for point in points.values():
        if all(_satisfies(component, point.get(component.feature)) for component in rule.components):
            values = ((name, point[name]) for name in dict.fromkeys(rule.features))
            shown = ", ".join(phrase_comparison(name, "==", value, rule.labels) for name, value in values)
            return "breaks", shown
    return "open", None


def _is_implied(other: Rule, rule: Rule) -> bool:
    """Whether whoever satisfies a rule surely satisfies another one too."""
    return other.outcome == rule.outcome and all(
        any(_implies(own, wanted) for own in rule.components) for wanted in other.components
    )


def _implies(own: Component, wanted: Component) -> bool:
    """Whether a component surely implies another one."""
    if own.feature != wanted.feature or own.column != wanted.column:
        return False
    if own == wanted:
        return True
    if own.one_hot_columns or wanted.one_hot_columns or wanted.op == "==" or own.value is None:
        return False
    if own.allowed is not None or wanted.allowed is not None:  # an order that was declared
        admitted = own.allowed or ((own.value,) if own.op == "==" else ())
        return wanted.allowed is not None and bool(admitted) and set(admitted) <= set(wanted.allowed)
    if own.op not in (wanted.op, "=="):
        return False
    try:
        return bool(own.value <= wanted.value if wanted.op == "<=" else own.value >= wanted.value)
    except TypeError:  # values of two kinds
        return False


def _satisfies(component: Component, value: Value) -> bool:
    """Whether a value surely satisfies a component."""
    if component.value is None or component.op == "==":
        return type(value) is type(component.value) and bool(value == component.value)
    if value is None or component.one_hot_columns:
        return False
    if component.allowed is not None:
        return value in component.allowed
    try:
        return bool(value <= component.value if component.op == "<=" else value >= component.value)
    except TypeError:  # values of two kinds
        return False
