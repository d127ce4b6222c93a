"""The audit log: every explanation that was given, so that years later one can show what was said and that it was true.

schema    the table, and the triggers that refuse to change it
record    one record, and the hash that chains it to the one before
log       append, read, verify
export    JSON lines and CSV
"""

from ironrule.server.audit.log import AuditLog, Verified
from ironrule.server.audit.record import Entry, Record

__all__ = ["AuditLog", "Entry", "Record", "Verified"]
