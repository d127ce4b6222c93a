"""Where the marks of every picture lie: from what there is to see to a drawing."""

from ironrule.report.pictures.layouts.growing import growth_drawing
from ironrule.report.pictures.layouts.needing import needs_drawing
from ironrule.report.pictures.layouts.overlooking import overview_drawing
from ironrule.report.pictures.layouts.rungs import ladder_drawing

__all__ = ["growth_drawing", "ladder_drawing", "needs_drawing", "overview_drawing"]
