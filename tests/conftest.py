"""What all tests share. That this file is here also puts :mod:`tiny` on the path of every test."""

from __future__ import annotations
