"""What the paper's appendix reports: its tables "Results from Carla benchmark", on CARLA's Adult data.

Geng, Schleich, Suciu, "Computing Rule-Based Explanations by Leveraging Counterfactuals", VLDB 2022, appendix. By kind
of model, and for forests by library: redundancy, violations, success, seconds. None stands for "NaN".
"""

from __future__ import annotations

from typing import NamedTuple


class PaperFigures(NamedTuple):
    """One line of the paper's tables."""

    redundancy: float | None
    violations: float | None
    success: float
    seconds: float


PAPER: dict[str, dict[str, PaperFigures]] = {
    "ann": {
        "DICE": PaperFigures(0.50, 0.10, 1.00, 0.13),
        "AR": PaperFigures(0.00, 0.00, 0.29, 2.07),
        "CCHVAE": PaperFigures(None, None, 0.00, 2.65),
        "CEM": PaperFigures(3.96, 0.00, 1.00, 0.60),
        "CLUE": PaperFigures(7.79, 1.26, 1.00, 1.55),
        "CRUDS": PaperFigures(11.81, 1.31, 0.42, 4.80),
        "FACE_KNN": PaperFigures(4.97, 1.42, 1.00, 6.10),
        "FACE_EPS": PaperFigures(5.15, 1.47, 0.98, 6.27),
        "GS": PaperFigures(3.82, 0.00, 1.00, 0.01),
        "REVISE": PaperFigures(None, None, 0.00, 7.40),
        "WACHTER": PaperFigures(4.44, 1.0, 0.50, 15.52),
        "GeCo": PaperFigures(0.00, 0.00, 1.00, 0.66),
    },
    "linear": {
        "DICE": PaperFigures(0.26, 0.10, 1.00, 0.12),
        "AR": PaperFigures(0.00, 0.00, 1.00, 49.06),
        "CCHVAE": PaperFigures(4.16, 1.35, 1.00, 1.14),
        "CEM": PaperFigures(4.34, 0.06, 1.00, 0.53),
        "CLUE": PaperFigures(None, None, 0.00, 1.42),
        "CRUDS": PaperFigures(11.83, 1.35, 1.00, 4.16),
        "FACE_KNN": PaperFigures(3.94, 1.37, 0.99, 6.15),
        "FACE_EPS": PaperFigures(3.89, 1.43, 0.74, 6.31),
        "GS": PaperFigures(3.37, 0.00, 1.00, 0.01),
        "REVISE": PaperFigures(10.56, 1.22, 0.92, 7.32),
        "WACHTER": PaperFigures(1.10, 1.00, 1.00, 0.02),
        "GeCo": PaperFigures(0.00, 0.00, 1.00, 0.53),
    },
    "sklearn": {
        "FOCUS": PaperFigures(4.04, 1.00, 1.00, 0.15),
        "FEATURE_TWEAKING": PaperFigures(0.99, 0.37, 0.45, 0.00),
        "GeCo": PaperFigures(0.00, 0.00, 1.00, 0.10),
    },
    "xgboost": {
        "FOCUS": PaperFigures(4.04, 1.00, 1.00, 0.33),
        "FEATURE_TWEAKING": PaperFigures(0.00, 0.00, 0.81, 0.02),
        "GeCo": PaperFigures(0.00, 0.00, 1.00, 0.14),
    },
}


def find_paper_figures(data: str, kind: str, backend: str) -> dict[str, PaperFigures]:
    """The paper's table of a model; empty where it has none."""
    if data != "adult":
        return {}
    return PAPER[backend if kind == "forest" else kind]
