"""Tools that an agent may call on the query's image.

A tool first resolves what the model wrote to a definite call, or says in the model's terms what is
wrong; only resolved calls run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from specctl.agent.boxes import BoxError, BoxReader
from specctl.images import Image
from specctl.types import Observation, ToolCall


class ToolError(Exception):
    """A call that cannot run; the message is told to the model as its observation."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """An observation and, where it is an image, its pixels."""

    observation: Observation
    image: Image | None = None


class Tool(Protocol):
    """One tool; one that has side effects is never run before the verifier asks for it."""

    @property
    def name(self) -> str: ...

    @property
    def has_side_effects(self) -> bool: ...

    def resolve(self, arguments: Mapping[str, Any], boxes: BoxReader) -> ToolCall:
        """The definite call that these arguments mean; raises `ToolError`."""

    def run(self, call: ToolCall, image: Image) -> ToolOutput:
        """Run a resolved call on the original image."""


@dataclass(frozen=True, slots=True)
class ZoomTool:
    """`image_zoom_in_tool`: a crop of the original image, whatever was zoomed before."""

    name: str = "image_zoom_in_tool"
    has_side_effects: bool = False

    def resolve(self, arguments: Mapping[str, Any], boxes: BoxReader) -> ToolCall:
        if "bbox_2d" not in arguments:
            raise ToolError("the argument bbox_2d is missing: give [x1, y1, x2, y2]")
        try:
            box = boxes.read(arguments["bbox_2d"])
        except BoxError as error:
            raise ToolError(str(error)) from error
        return ToolCall(self.name, arguments, box)

    def run(self, call: ToolCall, image: Image) -> ToolOutput:
        assert call.box_px is not None, "a zoom call is resolved before it runs"
        crop = image.crop(call.box_px)
        return ToolOutput(Observation(image=crop.facts), crop)


@dataclass(frozen=True, slots=True)
class ToolBox:
    """The tools an agent has, by name."""

    tools: tuple[Tool, ...] = (ZoomTool(),)

    def resolve(self, call: ToolCall, boxes: BoxReader) -> ToolCall:
        """The definite call for what the model wrote; raises `ToolError`."""
        return self._named(call.name).resolve(call.arguments, boxes)

    def run(self, call: ToolCall, image: Image) -> ToolOutput:
        """Run a resolved call."""
        return self._named(call.name).run(call, image)

    def _named(self, name: str) -> Tool:
        for tool in self.tools:
            if tool.name == name:
                return tool
        known = ", ".join(tool.name for tool in self.tools)
        raise ToolError(f"there is no tool named {name!r}; the tools are: {known}")


def same_effect(one: ToolCall, other: ToolCall) -> bool:
    """Whether two resolved calls do the same; arguments without effect (`label`) do not count."""
    if one.name != other.name:
        return False
    if one.box_px is not None or other.box_px is not None:
        return one.box_px == other.box_px
    return one.arguments == other.arguments
