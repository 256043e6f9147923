"""From the numbers a model writes to an integer crop of the original image.

Models disagree on what four numbers mean: Qwen2.5-VL writes pixels of the resized view it was
given, Qwen3-VL thousandths of the image. All of specctl works in pixels of the original.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from specctl.presets import BoxPolicy, Frame
from specctl.types import Box

Size = tuple[int, int]
"""Width and height in pixels."""


class BoxError(ValueError):
    """A box that means no crop; the message is written for the model that asked."""


@dataclass(frozen=True, slots=True)
class BoxReader:
    """Reads boxes in one model's frame over one image of `image_size`, seen at `view_size`."""

    frame: Frame
    image_size: Size
    view_size: Size
    policy: BoxPolicy

    def read(self, numbers: object) -> Box:
        """The crop that [x1, y1, x2, y2] means: corners ordered, clamped, at least the least side.

        Raises `BoxError` for anything that is not four finite numbers or lies outside the image.
        """
        x1, y1, x2, y2 = _four_numbers(numbers)
        width, height = self.image_size
        scale_x, scale_y = self._scale()
        across = _clamped(x1 * scale_x, x2 * scale_x, width)
        down = _clamped(y1 * scale_y, y2 * scale_y, height)
        if across[0] == across[1] or down[0] == down[1]:
            raise BoxError(
                f"the box {_shown(numbers)} covers nothing of the image; {self._bounds()}"
            )
        left, right = _grown(round(across[0]), round(across[1]), self.policy.min_side_px, width)
        top, bottom = _grown(round(down[0]), round(down[1]), self.policy.min_side_px, height)
        box = Box(left, top, right, bottom)
        if max(box.width, box.height) > self.policy.max_aspect * min(box.width, box.height):
            raise BoxError(f"the box {_shown(numbers)} is too long and thin")
        return box

    def _scale(self) -> tuple[float, float]:
        width, height = self.image_size
        seen = (1000, 1000) if self.frame is Frame.RELATIVE_1000 else self.view_size
        return width / seen[0], height / seen[1]

    def _bounds(self) -> str:
        width, height = (1000, 1000) if self.frame is Frame.RELATIVE_1000 else self.view_size
        return f"x runs from 0 to {width}, y from 0 to {height}"


def _four_numbers(numbers: object) -> tuple[float, float, float, float]:
    if not isinstance(numbers, Sequence) or isinstance(numbers, str) or len(numbers) != 4:
        raise BoxError(f"bbox_2d must be four numbers [x1, y1, x2, y2], not {_shown(numbers)}")
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise BoxError(f"bbox_2d must hold numbers only, not {_shown(number)}")
        if not abs(number) <= 1e9:
            raise BoxError(f"bbox_2d must hold finite numbers, not {_shown(number)}")
    x1, y1, x2, y2 = (float(number) for number in numbers)
    return x1, y1, x2, y2


def _clamped(first: float, second: float, bound: int) -> tuple[float, float]:
    """Both ends in order, inside [0, bound]."""
    low, high = sorted((first, second))
    return min(max(low, 0.0), float(bound)), min(max(high, 0.0), float(bound))


def _grown(low: int, high: int, least: int, bound: int) -> tuple[int, int]:
    """Widen about the centre to `least` pixels and shift back inside; all of it where there is no
    more.
    """
    least = max(1, min(least, bound))  # a part of one pixel is that pixel
    if high - low >= least:
        return low, high
    start = math.floor((low + high - least) / 2)
    start = min(max(start, 0), bound - least)
    return start, start + least


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
