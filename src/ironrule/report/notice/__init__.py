"""Notices: one page that a lender sends, with at most a few reasons in the applicant's language.

``language`` has the sentences and number formats of a language, ``wording`` puts values and conditions into words,
``build`` collects what a notice says, and ``render`` lays it out by a template that users may own.
"""
