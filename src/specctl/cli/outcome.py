"""What a command leaves on standard output: the answer alone, or JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from specctl.engine.pair import Pair
from specctl.journal import result_to_dict, to_json
from specctl.render.text import clean_block
from specctl.types import Result


def print_answer(answer: str) -> None:
    """The answer on a line of its own, in what the stream can encode."""
    encoding = sys.stdout.encoding or "utf-8"
    print(clean_block(answer).encode(encoding, "backslashreplace").decode(encoding))


def print_record(result: Result, pair: Pair, comparison: Mapping[str, Any] | None = None) -> None:
    """The result as one JSON object on one line."""
    record = result_to_dict(result, pair.infos())
    if comparison is not None:
        record["runtime"]["comparison"] = comparison
    print(to_json(record))
