"""Pictures of explanations: what is shown is worked out first, then laid out as marks, then drawn.

``ladder``, ``needs``, ``growth`` and ``overview`` work out what there is to see, as frozen values. ``layouts`` lays
them out as marks on a plain canvas. ``axes`` draws marks with matplotlib (``pip install 'ironrule[plots]'``), ``svg``
as a piece of HTML that needs nothing. What is not proven has a pattern and words of its own besides its colour.
"""
