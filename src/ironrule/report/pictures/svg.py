"""A drawing as SVG inside HTML: no script, no font, nothing from elsewhere, everything escaped."""

from __future__ import annotations

from html import escape

from ironrule.report.pictures.marks import Drawing, Line, Mark, Rect, Text, Triangle


def svg(drawing: Drawing) -> str:
    """The drawing as a piece of HTML that is as wide as there is room for, with its sentence for screen readers."""
    sentence = escape(drawing.sentence, quote=True)
    return (
        f'<svg viewBox="0 0 {drawing.width:g} {drawing.height:g}" role="img" aria-label="{sentence}" '
        f'style="width:100%;max-width:{drawing.width:g}px;height:auto;display:block;font-family:inherit">'
        f"{''.join(map(_element, drawing.marks))}</svg>"
    )


def _element(mark: Mark) -> str:
    match mark:
        case Rect():
            return (
                f'<rect x="{mark.x:.4g}" y="{mark.y:.4g}" width="{max(mark.width, 0):.4g}" '
                f'height="{max(mark.height, 0):.4g}" fill="{mark.fill or "none"}" '
                f'stroke="{mark.stroke or "none"}"{_dashes(mark.dashed)}/>'
            )
        case Line():
            return (
                f'<line x1="{mark.x1:.4g}" y1="{mark.y1:.4g}" x2="{mark.x2:.4g}" y2="{mark.y2:.4g}" '
                f'stroke="{mark.stroke}" stroke-width="{mark.width:g}"{_dashes(mark.dashed)}/>'
            )
        case Text():
            weight = ' font-weight="bold"' if mark.bold else ""
            return (
                f'<text x="{mark.x:.4g}" y="{mark.y:.4g}" font-size="{mark.size:g}" text-anchor="{mark.anchor}" '
                f'fill="{mark.fill}"{weight}>{escape(mark.text)}</text>'
            )
        case Triangle(x, y, size, fill):
            corners = f"{x - size:.4g},{y - 1.4 * size:.4g} {x + size:.4g},{y - 1.4 * size:.4g} {x:.4g},{y:.4g}"
            return f'<polygon points="{corners}" fill="{fill}"/>'


def _dashes(dashed: bool) -> str:
    return ' stroke-dasharray="4 3"' if dashed else ""
