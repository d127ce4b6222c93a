"""The audit log: every explanation that was given, so that years later you can show what was said.

key         the secret outside the database with which records are chained
record      one record, the hash that chains it to the one before, its export as JSON lines and CSV
schema      the table, and the triggers that refuse every change but the next record
database    the address without its password, the connections, the files
heads       numbers and hashes written to a second place, and compared with the log
log         append, read, verify
"""
