"""Events as JSON lines: one strict JSON object an event, `{"event", "id", "at_ns", ...}`."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, TextIO

from specctl.events import Event, Finished, ModelLoaded
from specctl.journal import result_to_dict
from specctl.journal.records import plain
from specctl.types import ModelInfo, Role


class JsonLinesView:
    """Writes each event as it comes; the last line holds the result as `--json` prints it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._models: dict[Role, ModelInfo] = {}

    def handle(self, query_id: str, event: Event, at_ns: int) -> None:
        """Write one line."""
        if isinstance(event, ModelLoaded):
            self._models[event.role] = event.info
        head = {"event": event_name(event), "id": query_id, "at_ns": at_ns}
        self._write({**head, **self._fields(event)})

    def warn(self, message: str) -> None:
        """Write the warning as an event of its own."""
        self._write({"event": "warning", "message": message})

    def close(self) -> None:
        """Nothing is left to write."""
        self._stream.flush()

    def _fields(self, event: Event) -> dict[str, Any]:
        """An event's fields; pixels are left out, as their facts are in the observation."""
        if isinstance(event, Finished):
            return {"result": result_to_dict(event.result, self._models)}
        names = [field.name for field in dataclasses.fields(event)]
        return {name: plain(getattr(event, name)) for name in names if not _is_pixels(event, name)}

    def _write(self, record: dict[str, Any]) -> None:
        self._stream.write(json.dumps(record, allow_nan=False) + "\n")
        self._stream.flush()


def event_name(event: Event) -> str:
    """`TokenDecoded` as `token_decoded`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()


def _is_pixels(event: Event, name: str) -> bool:
    return name == "image" and hasattr(getattr(event, name), "pixels")
