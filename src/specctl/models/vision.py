"""Images to features: the checkpoint's own resizing, its vision tower, a bounded memory of results.

One image is encoded at a time, so that no image's features depend on its company; the same pixels
are encoded once however many sessions show them, as long as the memory holds them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specctl.errors import InputError
from specctl.images import Image

DEFAULT_MEMORY_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class ImageFeatures:
    """An image's tokens `[tokens, hidden]`, and what Qwen3-VL adds after its first layers."""

    pooled: Tensor
    deepstack: tuple[Tensor, ...] = ()

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in (self.pooled, *self.deepstack))


@dataclass(frozen=True, slots=True)
class EncoderOutput:
    """Features of several images in the form that a network takes as precomputed vision output."""

    pooler_output: tuple[Tensor, ...]
    deepstack_features: list[tuple[Tensor, ...]]


def gather(features: Sequence[ImageFeatures]) -> EncoderOutput:
    """Features in the order of their placeholders, each layer's deepstack features together."""
    deepstack = zip(*(image.deepstack for image in features), strict=True)
    return EncoderOutput(tuple(image.pooled for image in features), list(deepstack))


class VisionTower:
    """Encodes images and counts how often it did."""

    def __init__(
        self, network: Any, processor: Any, memory_bytes: int = DEFAULT_MEMORY_BYTES
    ) -> None:
        self.images_encoded = 0
        self._network = network
        self._processor = processor
        self._memory_bytes = memory_bytes
        self._memory: OrderedDict[str, ImageFeatures] = OrderedDict()

    def view_size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height that the processor resizes an image of this size to."""
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

        processor = self._processor
        try:
            rows, columns = smart_resize(
                height,
                width,
                factor=processor.patch_size * processor.merge_size,
                min_pixels=processor.size["shortest_edge"],
                max_pixels=processor.size["longest_edge"],
            )
        except (ValueError, ZeroDivisionError) as error:
            raise InputError(
                f"an image of {width} x {height} px is too narrow: models take up to 200 : 1",
                code="input.image_aspect",
                hint="crop or pad the image",
            ) from error
        return columns, rows

    def grid(self, image: Image) -> tuple[int, int]:
        """Rows and columns of the image's tokens."""
        width, height = self.view_size(image.width, image.height)
        side = self._processor.patch_size * self._processor.merge_size
        return height // side, width // side

    def forget(self) -> None:
        """Drop all remembered features."""
        self._memory.clear()

    def features(self, image: Image) -> ImageFeatures:
        """The image's features, remembered or encoded now."""
        known = self._memory.get(image.sha256)
        if known is None:
            known = self._encode(image)
            self._remember(image.sha256, known)
        self._memory.move_to_end(image.sha256)
        return known

    def _encode(self, image: Image) -> ImageFeatures:
        batch = self._processor(
            images=[image.pixels], input_data_format="channels_last", return_tensors="pt"
        )
        device = self._network.device
        with torch.inference_mode():
            output = self._network.model.get_image_features(
                batch["pixel_values"].to(device), batch["image_grid_thw"].to(device)
            )
        self.images_encoded += 1
        deepstack = getattr(output, "deepstack_features", None) or ()
        return ImageFeatures(output.pooler_output[0], tuple(layer[0] for layer in deepstack))

    def _remember(self, sha256: str, features: ImageFeatures) -> None:
        """Keep the newest features within the memory's bound, and always the very last."""
        self._memory[sha256] = features
        held = sum(kept.nbytes for kept in self._memory.values())
        while held > self._memory_bytes and len(self._memory) > 1:
            held -= self._memory.popitem(last=False)[1].nbytes
