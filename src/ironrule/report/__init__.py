"""Reports: results as text, HTML and plots. Reads :mod:`ironrule.results` and nothing else of the engine."""
