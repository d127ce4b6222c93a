"""Drawings on matplotlib's axes and as SVG: the same texts and areas, whoever draws."""

from __future__ import annotations

import builtins

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

import ironrule
from ironrule.report.plots.drawing import Drawing, Rectangle, TextLine, render_svg
from ironrule.report.plots.matplotlib_plots import PLOT_KINDS, draw_explanation, draw_on_axes, plot_batch
from report_examples import proven, read, refuted, unrefuted, widened

mpl.use("Agg")
EXPLANATION = widened(proven())


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def spans(axes, kind):
    return [patch for patch in axes.patches if patch.get_gid() == kind]


@pytest.mark.parametrize("kind", PLOT_KINDS)
def test_axes_and_svg_have_every_text_of_the_drawing(kind):
    drawing, axes = draw_explanation(EXPLANATION, kind), EXPLANATION.plot(kind)
    axes.figure.canvas.draw()
    assert [text.get_text() for text in axes.texts] == list(drawing.texts)
    parsed = read(render_svg(drawing))
    assert all(text in parsed.text for text in drawing.texts)
    assert parsed.tags.count("text") == len(drawing.texts)
    assert ("svg", "role", "img") in parsed.attributes
    assert ("svg", "aria-label", drawing.description) in parsed.attributes


def test_the_conditions_on_axes_have_a_shaded_span_per_condition_where_its_data_says():
    axes, drawing = EXPLANATION.plot(), draw_explanation(EXPLANATION)
    wanted = [shape for shape in drawing.shapes if isinstance(shape, Rectangle) and shape.kind == "admitted"]
    found = spans(axes, "admitted")
    assert len(found) == len(wanted) == 2
    for patch, shape in zip(found, wanted, strict=True):
        assert (patch.get_x(), patch.get_width()) == (shape.x, shape.width)
        assert to_hex(patch.get_facecolor()) == shape.fill
    assert len(spans(axes, "wider")) == 1
    assert all(patch.get_facecolor()[3] == 0 for patch in spans(unrefuted(EXPLANATION).plot(), "admitted"))


@pytest.mark.parametrize("kind", PLOT_KINDS)
def test_nothing_is_drawn_outside_the_canvas(kind):
    for one in (EXPLANATION, refuted(EXPLANATION), ironrule.Explanation.from_json(EXPLANATION.to_json())):
        drawing = draw_explanation(one, kind)
        for shape in drawing.shapes:
            if isinstance(shape, Rectangle):
                assert shape.x >= -1
                assert shape.x + shape.width <= drawing.width + 1
                assert shape.y + shape.height <= drawing.height + 1
            if isinstance(shape, TextLine):
                assert 0 <= shape.y <= drawing.height


def test_a_plot_can_be_drawn_on_axes_that_are_there():
    figure, axes = plt.subplots(1, 2)
    assert EXPLANATION.plot(ax=axes[0]) is axes[0]
    assert plot_batch([EXPLANATION, refuted(EXPLANATION)], ax=axes[1]) is axes[1]
    assert plt.get_fignums() == [figure.number]


def test_a_batch_is_drawn_with_a_pattern_for_what_is_not_proven():
    axes = plot_batch([EXPLANATION, unrefuted(EXPLANATION), refuted(EXPLANATION)])
    axes.figure.canvas.draw()
    assert {to_hex(patch.get_facecolor()) for patch in spans(axes, "proven")} == {"#0b5394"}
    for word in ("unrefuted", "refuted"):
        assert all(patch.get_facecolor()[3] == 0 for patch in spans(axes, word))
    assert len(axes.lines) > 20


def test_verdicts_differ_in_grey_too():
    """The share of dark points in the areas of a rule: full, hatched and crossed can be told apart without colour."""
    greys = []
    for one in (EXPLANATION, unrefuted(EXPLANATION), refuted(EXPLANATION)):
        figure = plot_batch([one]).figure
        figure.canvas.draw()
        image = np.asarray(figure.canvas.buffer_rgba())[..., :3].mean(axis=2)
        greys.append(image[48:62, 100:600].mean())
    assert greys[0] < greys[2] - 20 < greys[1] - 40


@pytest.mark.parametrize("text", ["$x^2$", "$\\broken{", "<b>&\"'</b>", "\\alpha %"])
def test_texts_are_taken_literally(text):
    drawing = Drawing((TextLine(0, 10, text),), 20, text)
    axes = draw_on_axes(drawing)
    axes.figure.canvas.draw()
    assert axes.texts[0].get_text() == text
    parsed = read(render_svg(drawing))
    assert parsed.text.strip() == text
    assert set(parsed.tags) == {"svg", "text"}
    assert ("svg", "aria-label", text) in parsed.attributes


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def absent(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ironrule.MissingExtraError, match=r"pip install 'ironrule\[plots\]'"):
        EXPLANATION.plot()
    assert "<svg" in EXPLANATION.to_html()
    assert "<svg" in EXPLANATION._repr_html_()
