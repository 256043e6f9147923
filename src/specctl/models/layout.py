"""Where a sequence's tokens lie: ids in a line, images as spans in it, and their M-RoPE positions.

Positions follow Qwen-VL: text advances all three axes (time, height, width) by one a token; an
image that starts at position p lays its merged patches out at (p, p + row, p + column), and the
text after it goes on at p + max(rows, columns). Knows neither models nor tensors of torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ImageSpan:
    """An image's placeholder tokens: `rows * columns` merged patches, row by row, from `start`."""

    start: int
    rows: int
    columns: int
    sha256: str

    @property
    def num_tokens(self) -> int:
        return self.rows * self.columns

    @property
    def stop(self) -> int:
        return self.start + self.num_tokens

    @property
    def extent(self) -> int:
        """How far the image moves the position of what follows."""
        return max(self.rows, self.columns)

    def moved(self, offset: int) -> ImageSpan:
        return ImageSpan(self.start + offset, self.rows, self.columns, self.sha256)

    def contains_cut(self, length: int) -> bool:
        """Whether cutting the sequence after `length` tokens would split this image."""
        return self.start < length < self.stop


def next_position(length: int, images: Sequence[ImageSpan]) -> int:
    """The M-RoPE position of the token after the first `length` ones."""
    return length - sum(image.num_tokens - image.extent for image in images if image.stop <= length)


def mrope_positions(images: Sequence[ImageSpan], start: int, stop: int) -> Positions:
    """Positions `[3, stop - start]` of the tokens `[start, stop)`, of which no image is cut."""
    parts: list[Positions] = []
    cursor, position = start, next_position(start, images)
    for image in images:
        if not start <= image.start < stop:
            continue
        parts.append(_text_positions(position, image.start - cursor))
        position += image.start - cursor
        parts.append(_image_positions(position, image))
        cursor, position = image.stop, position + image.extent
    parts.append(_text_positions(position, stop - cursor))
    return np.concatenate(parts, axis=1)


def common_prefix(
    ids: Sequence[int],
    images: Sequence[ImageSpan],
    other_ids: Sequence[int],
    other_images: Sequence[ImageSpan],
) -> int:
    """Length of the longest prefix that two sequences share; images count by content and whole."""
    limit = min(len(ids), len(other_ids))
    length = next((i for i in range(limit) if ids[i] != other_ids[i]), limit)
    known = set(images)
    for image in other_images:
        if image.start < length and (image not in known or image.stop > length):
            return image.start
    for image in images:
        if image.contains_cut(length):
            return image.start
    return length


def _text_positions(position: int, count: int) -> Positions:
    return np.broadcast_to(np.arange(position, position + count, dtype=np.int64), (3, count))


def _image_positions(position: int, image: ImageSpan) -> Positions:
    rows, columns = np.divmod(np.arange(image.num_tokens, dtype=np.int64), image.columns)
    return position + np.stack((np.zeros_like(rows), rows, columns))
