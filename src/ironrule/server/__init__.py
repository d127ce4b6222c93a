"""The web page and the HTTP API: find an applicant, see why the model denied them, try a what-if, download the proof.

One model and one table are served. Nothing is kept in memory that grows with use: explanations are read back from the
audit log (:mod:`ironrule.server.audit`), which has every one that was given, searches and jobs are few and forgotten.

    settings    where to listen, who may ask, how much
    problem     the one shape of every error
    subject     the model and the data that are served
    applicants  the past rows: search, filter, pages of them
    whatif      a row with some values changed
    audit       the log, its chain of hashes, its export
    jobs        work in threads, with progress and cancel
    answering   from a question to an answer that is in the log
    twins       equal rows of a batch, explained once
    guard       the wall around every request: host, token, origin, size, headers
    patience    connections that must ask in time
    refusing    what the framework refuses, in the one shape
    api, pages  the routes
    app         puts it all together
"""
