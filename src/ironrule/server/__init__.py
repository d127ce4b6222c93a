"""The web pages and the HTTP API: find an applicant, see why the model denied them, try a what-if, download the proof.

One model and one table are served. Nothing is kept in memory that grows with use: explanations are read back from the
audit log (:mod:`ironrule.server.audit`), which has every one that was given; saved searches and jobs are few, and the
oldest are dropped.

    settings      where to listen, who may ask, how much
    errors        the one shape of every error
    served_model  the model and the data that are served, and their subspaces
    applicants    the past rows: search, filter, pages of them
    audit/        the log, its chain of hashes, its export
    jobs          work in threads, with a share for every user, progress and cancel
    service       from a request to a recorded answer; what-ifs
    schemas       JSON bodies and responses, as OpenAPI documents them, and HTML forms
    views         what every page shows, as plain data
    responses     the same data as a page or as JSON
    tokens        tokens, their roles, and the file that has them
    auth          the user of a request, sessions, host names, origins
    admission     how many requests are answered at the same time, and of whom
    middleware    the checks before every request, the headers after it
    routes/       the API, the pages, login, downloads
    app           puts it all together and listens, with timeouts
"""
