"""A ladder: the same decision explained by one, two, three, ... components, each rung with the verdict it has earned.

A rule that holds for every conceivable person may be too long to be read. The short rungs of a ladder say nearly as
much about real people: each has a bound on its share of exceptions, measured on rows that the search never looked at
(:class:`Bounded`). The last rung is what ``Explainer.explain`` gives: proven where the model can be read. Nothing that
is bounded is ever called proven.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ironrule.errors import InputError, build_format_error
from ironrule.model.population import MeasuredFrom
from ironrule.results.audience import LadderAudience
from ironrule.results.display import format_ladder, plot_ladder, render_ladder, write_ladder_report, write_pdf
from ironrule.results.document_types import check_ladder_types
from ironrule.results.explanation import Explanation
from ironrule.results.notice import NoticeOptions
from ironrule.results.reasons import Reason, ReasonCatalogue, RungPart, build_reasons
from ironrule.results.report_options import ReportOptions
from ironrule.rule.phrasing import FeatureLabels
from ironrule.rule.rule import Rule
from ironrule.space.labels import Labels
from ironrule.space.space import Space
from ironrule.verdict.bounded import Bounded, RungVerdict, rung_verdict_from_dict, rung_verdict_to_dict
from ironrule.verdict.digest import JsonDocument, add_digest, require_digest
from ironrule.verdict.verdict import Proven
from ironrule.wording import format_count, format_repr, render_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMAT_FIELD, LADDER_FORMAT = "ladder_format", 1
MAX_SHORT, MAX_SHORT_BOUND = 4, 0.1  # components and exceptions of a rule that one reads first
PLAIN_FIELDS = (
    "confidence",
    "most",
    "nested",
    "searched_rows",
    "measured_rows",
    "measured_from",
    "split_seed",
    "at_least",
)  # of a ladder, which JSON holds as they are


@dataclass(frozen=True, slots=True)
class CoveredRows:
    """Rows that a rule covers: how many there are, and how many of them are exceptions."""

    rows: int
    exceptions: int

    def __str__(self) -> str:
        return f"{format_count(self.exceptions, 'exception')} among {format_count(self.rows, 'row')}"

    def __repr__(self) -> str:
        return format_repr(self)


@dataclass(frozen=True, slots=True)
class Rung:
    """One rule of a ladder, and what it is worth.

    ``searched`` counts the past rows that the rule was chosen on, ``measured`` those that it was measured on;
    ``coverage`` is the number of past rows that it covers in all. ``is_best`` of a bounded rung says it is proven that,
    on the rows it was chosen on, no rule of as many components with the narrowest bounds does better by Wilson's bound:
    in a nested ladder no rule of the last rung's components with its bounds, otherwise none of the row's own values in
    features that the model uses. Of the last rung it says that no shorter rule holds.
    """

    rule: Rule
    verdict: RungVerdict
    coverage: int
    searched: CoveredRows
    measured: CoveredRows
    is_best: bool = False
    parts: tuple[RungPart, ...] = ()  # one per component, for reasons

    @property
    def cardinality(self) -> int:
        """How many components the rule has."""
        return self.rule.cardinality

    @property
    def exception_bound(self) -> float:
        """The largest share of exceptions among people like those measured: 0 if proven, 1 if nothing is known."""
        if isinstance(self.verdict, Proven):
            return 0.0
        return self.verdict.exceptions if isinstance(self.verdict, Bounded) else 1.0

    def to_dict(self) -> dict[str, Any]:
        """The rung as plain data."""
        return {
            "rule": self.rule.to_dict(),
            "verdict": rung_verdict_to_dict(self.verdict),
            "coverage": self.coverage,
            "searched": {"rows": self.searched.rows, "exceptions": self.searched.exceptions},
            "measured": {"rows": self.measured.rows, "exceptions": self.measured.exceptions},
            "is_best": self.is_best,
            "parts": [part.to_dict() for part in self.parts],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Rung:
        """The rung that :meth:`to_dict` wrote."""
        return cls(
            Rule.from_dict(data["rule"]),
            rung_verdict_from_dict(data["verdict"]),
            data["coverage"],
            searched=CoveredRows(**data["searched"]),
            measured=CoveredRows(**data["measured"]),
            is_best=data["is_best"],
            parts=tuple(map(RungPart.from_dict, data["parts"])),
        )

    def __str__(self) -> str:
        return f"{self.rule} {str(self.verdict).capitalize()}. Past rows covered: {self.coverage:,}."

    def __repr__(self) -> str:
        return format_repr(self)

    def _repr_html_(self) -> str:
        return render_text(self, self.verdict)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Ladder(JsonDocument, Sequence[Rung]):
    """Rungs, shortest first. The last one is that of ``explanation``; all before it are bounded.

    All bounds hold together at ``confidence``, for people drawn like the ``measured_rows`` rows. ``measured_from`` says
    what these are: "split" (half of the past rows; whether the model was trained on them is not known), "mask" or
    "table" (rows that the caller named). ``nested``: every rung has the conditions of the one before it, as tight or
    tighter. ``at_least`` is the share of people for whom a short rule is to hold, if the caller named one.
    """

    DOCUMENT_NAME: ClassVar = "ladder"

    rungs: tuple[Rung, ...]
    explanation: Explanation
    confidence: float
    most: int  # bounded rungs that it may have, which share the doubt
    nested: bool
    searched_rows: int
    measured_rows: int
    measured_from: MeasuredFrom
    split_seed: int | None
    at_least: float | None = None

    def __len__(self) -> int:
        return len(self.rungs)

    def __getitem__(self, place: Any) -> Any:
        return self.rungs[place]

    def __iter__(self) -> Iterator[Rung]:
        return iter(self.rungs)

    @property
    def last(self) -> Rung:
        """The rung of the explanation: proven where the model can be read."""
        return self.rungs[-1]

    @property
    def short(self) -> Rung:
        """What to read first: the shortest rung that holds for the share of people asked for; else, of the rungs with
        at most four components, the one with the least bound, if that is 10 % or less. Otherwise the last one.
        """
        if self.at_least is not None:
            return self.find_rung(self.at_least) or self.last
        best = self.find_best_rung(MAX_SHORT)
        return best if best is not None and best.exception_bound <= MAX_SHORT_BOUND else self.last

    def find_best_rung(self, most: int) -> Rung | None:
        """Of the rungs with at most so many components, the one with the least bound; None if there is none."""
        short = [rung for rung in self if rung.cardinality <= most]
        return min(short, key=lambda rung: (rung.exception_bound, rung.cardinality), default=None)

    def find_rung(self, at_least: float) -> Rung | None:
        """The shortest rung that holds for at least this share of people, by its bound; None if none does."""
        if isinstance(at_least, bool) or not isinstance(at_least, (int, float)):
            raise InputError(expected="at_least must be a share, such as 0.99", got=repr(at_least))
        return next((rung for rung in self.rungs if 1.0 - rung.exception_bound >= at_least), None)

    def reasons(
        self, most: int = 4, catalogue: ReasonCatalogue | None = None, language: str | None = None
    ) -> tuple[Reason, ...]:
        """At most so many reasons for the decision, from the longest rung that is no longer, most important first.

        With a ``catalogue``, they have its codes and its sentences, in a ``language`` (by default that of the labels).
        Raises InputError if that has none for a reason, or
        if the rule uses a feature that must not be named.
        """
        rung = self.find_reason_rung(most)
        if rung is None:
            return ()
        instance, labels = self.explanation.instance, self.labels
        return build_reasons(
            rung.rule.components,
            rung.parts,
            instance,
            catalogue=catalogue,
            language=labels.language if language is None else language,
            labels=FeatureLabels(labels),
        )

    def find_reason_rung(self, most: int = 4) -> Rung | None:
        """The rung that reasons come from: the longest with at most so many components; None if there is none."""
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise InputError(expected="most must be a positive integer", got=repr(most))
        return next((rung for rung in reversed(self.rungs) if rung.cardinality <= most), None)

    def to_dict(self) -> dict[str, Any]:
        """The ladder as plain data, with a digest of it."""
        document = {
            FORMAT_FIELD: LADDER_FORMAT,
            "rungs": [rung.to_dict() for rung in self.rungs[:-1]],
            "last": {name: value for name, value in self.last.to_dict().items() if name not in ("rule", "verdict")},
            "explanation": self.explanation.to_dict(),
            **{name: getattr(self, name) for name in PLAIN_FIELDS},
        }
        return add_digest(document)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Ladder:
        """The ladder that :meth:`to_dict` wrote; raises InputError if the data is none."""
        if not isinstance(data, Mapping):
            raise InputError(expected="a ladder must be a JSON object", got=type(data).__name__)
        if data.get(FORMAT_FIELD) != LADDER_FORMAT:
            raise build_format_error("a ladder", LADDER_FORMAT, data.get(FORMAT_FIELD), "build the ladder again")
        try:
            require_digest(data)
            explanation = Explanation.from_dict(data["explanation"])
            shown = explanation.shown
            check_ladder_types(data, explanation.instance, shown.rule.cardinality)
            same = {"rule": shown.rule.to_dict(), "verdict": rung_verdict_to_dict(shown.verdict)}
            rungs = (*map(Rung.from_dict, data["rungs"]), Rung.from_dict(same | data["last"]))
            if not all(isinstance(rung.verdict, Bounded) for rung in rungs[:-1]):
                raise InputError("every rung of a ladder but the last must be bounded")
            ladder = cls(rungs=rungs, explanation=explanation, **{name: data[name] for name in PLAIN_FIELDS})
            return ladder.with_labels(explanation.labels) if explanation.labels else ladder
        except InputError:
            raise
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise InputError(f"malformed ladder: {error!r}") from None

    def to_html(
        self,
        audience: LadderAudience = "person",
        path: str | Path | None = None,
        *,
        notice: NoticeOptions | None = None,
        report: ReportOptions | None = None,
    ) -> str:
        """A report as one HTML page, also written to ``path``: a letter for the person, which leads with the short
        rule; all rungs for the validator; or a notice, a page that a lender can send, written as ``notice`` says.
        ``report`` has the language and the letterhead of the letter.
        """
        return write_ladder_report(self, audience, path, notice=notice, report=report)

    def to_pdf(
        self,
        audience: LadderAudience = "person",
        path: str | Path | None = None,
        *,
        notice: NoticeOptions | None = None,
        report: ReportOptions | None = None,
    ) -> bytes:
        """The same report as PDF (``pip install 'ironrule[pdf]'``)."""
        return write_pdf(self.to_html(audience, notice=notice, report=report), path)

    def with_history(self, data: Any, space: Space | None = None) -> Ladder:
        """The same ladder with past rows and labels attached again; see :meth:`Explanation.with_history`."""
        explanation = self.explanation.with_history(data, space)
        return replace(self, explanation=explanation).with_labels(explanation.labels)

    @property
    def labels(self) -> Labels:
        """How features, values and outcomes are shown."""
        return self.explanation.labels

    def with_labels(self, labels: Labels | Mapping[str, Any] | str | Path) -> Ladder:
        """The same ladder, shown with these labels; see :meth:`Explanation.with_labels`."""
        parsed = Labels.parse(labels)
        rungs = tuple(replace(rung, rule=rung.rule.with_labels(parsed)) for rung in self.rungs)
        return replace(self, rungs=rungs, explanation=self.explanation.with_labels(parsed))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Certainty against length, with the rows behind each rung, on matplotlib's axes, which are returned."""
        return plot_ladder(self, ax)

    def __str__(self) -> str:
        return format_ladder(self)

    def __repr__(self) -> str:
        lengths = ", ".join(str(len(rung.rule.features)) for rung in self.rungs)
        noun = "condition" if lengths == "1" else "conditions"
        return f"<Ladder: rules of {lengths} {noun}; the last is {type(self.last.verdict).__name__}>"

    def _repr_html_(self) -> str:
        return render_ladder(self)
