"""Plots of results: first the data of a plot, then a drawing, then a renderer.

``conditions``, ``growth``, ``needs`` and ``overview`` each compute what there is to see as frozen values (``build_*``)
and lay it out as shapes on a canvas (``draw_*``). ``drawing`` holds the shapes and renders them as SVG, which needs
nothing; ``matplotlib_plots`` draws them with matplotlib (``pip install 'ironrule[plots]'``). What is not proven has a
pattern and words of its own besides its colour.
"""
