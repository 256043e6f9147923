"""The network itself: where it runs, in which precision, and its weights or a reason why not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForImageTextToText

from specctl.errors import ModelError, UsageError
from specctl.models.attention import PACKED_ATTENTION
from specctl.models.kv import KVShape
from specctl.models.source import first_line, weight_files

SMALL_NETWORK_PARAMETERS = 50_000_000
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the network runs and in which precision."""

    device: torch.device
    dtype: torch.dtype

    @property
    def dtype_name(self) -> str:
        return str(self.dtype).removeprefix("torch.")


def place(device: str, dtype: str, config: Any) -> Placement:
    """`auto` means the first GPU if there is one; float32 on a CPU, half precision elsewhere."""
    if dtype != "auto" and dtype not in DTYPES:
        raise UsageError(f"unknown dtype {dtype!r}", hint="use auto, " + ", ".join(DTYPES))
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        where = torch.device(device)
        torch.empty(0, device=where)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ModelError(
            f"the device {device!r} cannot be used: {first_line(error)}",
            code="model.device",
            hint="use auto, cpu, cuda or cuda:N",
        ) from error
    if dtype != "auto":
        return Placement(where, DTYPES[dtype])
    if where.type == "cpu":
        return Placement(where, torch.float32)
    stored = getattr(config, "dtype", None) or getattr(config.text_config, "dtype", None)
    return Placement(where, torch.float16 if stored == torch.float16 else torch.bfloat16)


def load_network(folder: Path, config: Any, placement: Placement) -> Any:
    """The weights on their device, with packed attention in the text model."""
    weight_files(folder)
    try:
        network, report = AutoModelForImageTextToText.from_pretrained(
            folder,
            config=config,
            dtype=placement.dtype,
            attn_implementation={"text_config": PACKED_ATTENTION, "vision_config": "sdpa"},
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except Exception as error:  # corrupt shards raise whatever their reader raises
        raise ModelError(
            f"the weights in {folder} cannot be read: {first_line(error)}",
            code="model.weights",
            hint="the files may be damaged or incomplete: fetch them again",
        ) from error
    unset = sorted({*report["missing_keys"], *(str(key) for key in report["mismatched_keys"])})
    if unset:
        raise ModelError(
            f"the weights in {folder} leave {len(unset)} parameters unset, such as {unset[0]}",
            code="model.weights",
            hint="the files may be incomplete, or config.json of another model",
        )
    try:
        return network.to(placement.device).eval().requires_grad_(False)
    except torch.OutOfMemoryError as error:
        raise ModelError(
            f"{folder} does not fit on {placement.device} in {placement.dtype_name}",
            code="model.out_of_memory",
            hint="use another device or a half-precision dtype",
        ) from error


def threads_for(network: Any) -> int:
    """CPU threads that serve the network best: one if it is small.

    Its operations are too short to share out, and waiting for a second thread that another process
    has displaced makes a step of the bundled pair 3 to 20 times slower (measured on two cores).
    """
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return 1 if parameters < SMALL_NETWORK_PARAMETERS else torch.get_num_threads()


def kv_shape(text_config: Any, placement: Placement) -> KVShape:
    """What one token's keys and values take in this network."""
    heads = text_config.num_attention_heads
    return KVShape(
        layers=text_config.num_hidden_layers,
        kv_heads=text_config.num_key_value_heads,
        head_dim=getattr(text_config, "head_dim", None) or text_config.hidden_size // heads,
        dtype=placement.dtype,
        device=placement.device,
    )
