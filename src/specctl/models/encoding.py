"""Segments to ids: which text may become a control token, and where an image's placeholders go.

Knows the tokenizer and image grids, not the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from specctl.images import Image
from specctl.models.layout import ImageSpan
from specctl.models.segments import Control, Picture, Segments, Text

EncodeText = Callable[[str], Sequence[int]]
Piece = str | int


@dataclass(frozen=True, slots=True)
class Encoded:
    """A prompt's ids, its images' spans in them, and each image's pixels by content hash."""

    ids: tuple[int, ...]
    spans: tuple[ImageSpan, ...]
    images: Mapping[str, Image]

    def whole_images(self, length: int) -> int:
        """The longest prefix of at most `length` tokens that splits no image."""
        return min((span.start for span in self.spans if span.contains_cut(length)), default=length)

    def after(self, length: int) -> Encoded:
        """What follows the first `length` tokens, as something to append to them."""
        spans = tuple(span.moved(-length) for span in self.spans if span.start >= length)
        images = {span.sha256: self.images[span.sha256] for span in spans}
        return Encoded(self.ids[length:], spans, images)


@dataclass(frozen=True, slots=True)
class VisionTokens:
    """Ids around and in place of images and videos."""

    start: int
    image: int
    video: int
    end: int


class PromptEncoder:
    """Turns segments into ids just as the checkpoint's tokenizer would tokenise the whole text.

    Markers (the tokenizer's added tokens) become control ids in `Control` only; in `Text` they stay
    plain characters. Image placeholders come from `Picture` alone.
    """

    def __init__(
        self,
        encode_plain: EncodeText,
        markers: Mapping[str, int],
        vision: VisionTokens,
        grid: Callable[[Image], tuple[int, int]],
    ) -> None:
        self._encode_plain = encode_plain
        self._vision = vision
        self._grid = grid
        placeholders = (vision.image, vision.video)
        self._markers = {text: id_ for text, id_ in markers.items() if id_ not in placeholders}
        # Longest first, as the tokenizer itself matches its added tokens.
        ordered = sorted(self._markers, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, ordered)) or r"(?!)")

    def encode(self, segments: Segments) -> Encoded:
        """Ids and image spans of the segments, as if they began a sequence."""
        ids: list[int] = []
        spans: list[ImageSpan] = []
        images: dict[str, Image] = {}
        run = ""
        for piece in self._pieces(segments):
            if isinstance(piece, str):
                run += piece
                continue
            ids += self._encode_run(run)
            run = ""
            if isinstance(piece, int):
                ids.append(piece)
            else:
                span = self._place(piece, len(ids) + 1)
                ids += (
                    self._vision.start,
                    *[self._vision.image] * span.num_tokens,
                    self._vision.end,
                )
                spans.append(span)
                images[piece.sha256] = piece
        ids += self._encode_run(run)
        return Encoded(tuple(ids), tuple(spans), images)

    def _pieces(self, segments: Segments) -> list[Piece | Image]:
        """Plain text, control ids and images in order."""
        pieces: list[Piece | Image] = []
        for segment in segments:
            if isinstance(segment, Picture):
                pieces.append(segment.image)
            elif isinstance(segment, Text):
                pieces.append(segment.text)
            else:
                pieces.extend(self._control_pieces(segment))
        return pieces

    def _control_pieces(self, control: Control) -> list[Piece]:
        pieces: list[Piece] = []
        end = 0
        for match in self._pattern.finditer(control.text):
            pieces += (control.text[end : match.start()], self._markers[match.group()])
            end = match.end()
        return [*pieces, control.text[end:]]

    def _encode_run(self, text: str) -> Sequence[int]:
        return self._encode_plain(text) if text else ()

    def _place(self, image: Image, start: int) -> ImageSpan:
        rows, columns = self._grid(image)
        return ImageSpan(start, rows, columns, image.sha256)
