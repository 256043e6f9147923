"""Pictures to views: the checkpoint's own image path, and a batched equal of it for training."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image

from .models import CONTRAST, WHITE, Layout


def view_pixels(image: Image.Image, layout: Layout) -> np.ndarray:
    """A square picture as the processor resizes it: uint8, height x width x 3."""
    if image.size != (layout.view, layout.view):
        image = image.resize((layout.view, layout.view), Image.Resampling.BICUBIC)
    return np.asarray(image)


def patches(views: list[np.ndarray], layout: Layout) -> torch.Tensor:
    """Views as normalised patches, (views, patches, 3 * patch * patch), in the processor's order.

    The processor repeats each patch for two equal frames; here one frame is kept, and `fast_vision`
    adds the weights instead.
    """
    side, patch = layout.view // layout.patch, layout.patch
    pixels = torch.from_numpy(np.stack(views)).permute(0, 3, 1, 2).float() / 255
    pixels = (pixels - WHITE) / CONTRAST
    blocks = pixels.reshape(len(views), 3, side // 2, 2, patch, side // 2, 2, patch)
    ordered = blocks.permute(0, 2, 5, 3, 6, 1, 4, 7)
    return ordered.reshape(len(views), side * side, 3 * patch * patch)
