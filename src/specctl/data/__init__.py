"""Inputs: folders, JSON lines and tables become rows, one after the other, each a query or a
failure. Knows no model, opens no image beyond its first bytes.
"""

from specctl.data.rows import Row
from specctl.data.source import count_rows, input_fingerprint, read_rows

__all__ = ["Row", "count_rows", "input_fingerprint", "read_rows"]
