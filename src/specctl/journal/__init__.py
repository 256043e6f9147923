"""Results out: one JSON object a query; results files that survive whatever happens to a batch."""

from specctl.journal.lines import read_results
from specctl.journal.manifest import Manifest
from specctl.journal.opening import Mode, open_results
from specctl.journal.records import SCHEMA, result_to_dict, to_json, versions
from specctl.journal.results import Results, ResultsFile, StreamResults, manifest_path

__all__ = [
    "SCHEMA",
    "Manifest",
    "Mode",
    "Results",
    "ResultsFile",
    "StreamResults",
    "manifest_path",
    "open_results",
    "read_results",
    "result_to_dict",
    "to_json",
    "versions",
]
