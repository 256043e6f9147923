"""Results out: one JSON object a query."""

from specctl.journal.records import SCHEMA, result_to_dict, to_json, versions

__all__ = ["SCHEMA", "result_to_dict", "to_json", "versions"]
