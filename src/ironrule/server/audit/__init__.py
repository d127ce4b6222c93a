"""The audit log: every explanation that was given, so that years later one can show what was said and that it was true.

record    one record, the hash that chains it to the one before, its export as JSON lines and CSV
log       the table and the triggers that refuse to change it; append, read, verify
"""
