"""PMML files: their ``fields``, their conditions (``predicates``), and their ``models``, in this order."""
