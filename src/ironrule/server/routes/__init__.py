"""The routes: ``api`` (JSON), ``pages`` (HTML, each also as JSON), ``login``, ``downloads``; ``dependencies`` is what
they share.
"""
