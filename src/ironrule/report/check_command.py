"""The command that a validator's report prints, to check what it says."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from ironrule.results.report_options import ReportOptions

EXPLANATION_FILE, LADDER_FILE = "explanation.json", "ladder.json"  # what is attached to a report
MODEL_PLACEHOLDER, DATA_PLACEHOLDER = "MODEL", "DATA"


@dataclass(frozen=True, slots=True)
class CheckCommand:
    """The files that a check needs, and the further options that the explanation was made with."""

    explanation: str = EXPLANATION_FILE
    model: str = MODEL_PLACEHOLDER
    data: str = DATA_PLACEHOLDER
    options: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The command, quoted for a shell.

        >>> CheckCommand("why.json", "model.skops", "past loans.csv").command
        "ironrule check why.json --model model.skops --data 'past loans.csv'"
        """
        files = (self.explanation, "--model", self.model, "--data", self.data)
        return shlex.join(["ironrule", "check", *files, *self.options])

    @property
    def is_complete(self) -> bool:
        """Whether the command names the files of the model and the data."""
        return self.model != MODEL_PLACEHOLDER and self.data != DATA_PLACEHOLDER

    @property
    def reads_attachment(self) -> bool:
        """Whether the attached explanation must be saved first: the command names it, and no file of the user's."""
        return self.explanation in (EXPLANATION_FILE, LADDER_FILE)

    @classmethod
    def from_options(cls, options: ReportOptions) -> CheckCommand:
        """The command that the options of a report ask for."""
        return cls(
            explanation=str(options.explanation_file or EXPLANATION_FILE),
            model=str(options.model_file or MODEL_PLACEHOLDER),
            data=str(options.data_file or DATA_PLACEHOLDER),
            options=tuple(options.check_options),
        )

    def to_options(self) -> ReportOptions:
        """The options of a report that prints this command."""
        return ReportOptions(
            explanation_file=self.explanation,
            model_file=None if self.model == MODEL_PLACEHOLDER else self.model,
            data_file=None if self.data == DATA_PLACEHOLDER else self.data,
            check_options=self.options,
        )
