"""One module per command; :mod:`ironrule.cli.parser` lists them. The docstring of a command is its help text."""
