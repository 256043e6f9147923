"""What a checkpoint's files say about it, read without torch and without loading a weight.

Looks at what `load_model` will need: config.json, the headers of the safetensors shards, and
whether tokenizer, image settings and chat template are there. Nothing is downloaded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specctl.errors import ModelError
from specctl.models.source import (
    BUNDLED_PREFIX,
    _looks_like_hub_id,
    first_line,
    resolve,
    weight_files,
)

FAMILIES = {"qwen2_5_vl": "Qwen2.5-VL", "qwen3_vl": "Qwen3-VL"}
INDEX_FILE = "model.safetensors.index.json"
LARGEST_HEADER_BYTES = 100_000_000
METADATA = "__metadata__"
LFS_POINTER = b"version https://git-lfs"


@dataclass(frozen=True, slots=True)
class Fault:
    """A reason why the checkpoint cannot be loaded; `is_absent` if a file is merely not there."""

    code: str
    message: str
    hint: str = ""
    is_absent: bool = False


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoint's facts; None is what its files do not tell."""

    source: str
    is_from_hub: bool = False
    folder: Path | None = None
    family: str | None = None
    stored_dtype: str | None = None
    num_parameters: int | None = None
    kv_values_per_token: int | None = None
    faults: tuple[Fault, ...] = ()


def inspect_checkpoint(source: str) -> Checkpoint:
    """Find `source` on this machine and read its small files; never raises `ModelError`."""
    is_from_hub = _is_from_hub(source)
    try:
        folder = resolve(source, offline=True)
    except ModelError as error:
        fault = Fault(error.code or "model.not_found", error.message, error.hint, is_from_hub)
        return Checkpoint(source, is_from_hub, faults=(fault,))
    config, faults = _config(folder)
    text = _text_config(config)
    num_parameters, weight_faults = _weights(folder, config)
    return Checkpoint(
        source,
        is_from_hub,
        folder,
        family=config.get("model_type"),
        stored_dtype=_stored_dtype(config) or _stored_dtype(text),
        num_parameters=num_parameters,
        kv_values_per_token=_kv_values(text, config.get("model_type")),
        faults=(*faults, *weight_faults, *_companions(folder)),
    )


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part, which older releases keep at the top."""
    part = config.get("text_config")
    return part if isinstance(part, dict) else config


def _is_from_hub(source: str) -> bool:
    is_local = source.startswith(BUNDLED_PREFIX) or Path(source).expanduser().exists()
    return not is_local and _looks_like_hub_id(source)


def _config(folder: Path) -> tuple[dict[str, Any], list[Fault]]:
    path = folder / "config.json"
    if not path.is_file():
        hint = "give the folder that holds config.json and *.safetensors"
        return {}, [Fault("model.config", f"{path.name} is absent", hint, is_absent=True)]
    try:
        config = _json_object(path)
    except (ValueError, OSError) as error:
        return {}, [Fault("model.config", f"{path.name} cannot be read: {first_line(error)}")]
    if config.get("model_type") in FAMILIES:
        return config, []
    supported = ", ".join(f"{name} ({family})" for family, name in FAMILIES.items())
    message = f"a model of type {config.get('model_type')!r} is not supported"
    return config, [Fault("model.family", message, f"supported families: {supported}")]


def _stored_dtype(config: Mapping[str, Any]) -> str | None:
    named = config.get("dtype") or config.get("torch_dtype")
    return str(named) if named else None


def _kv_values(text: Mapping[str, Any], family: str | None) -> int | None:
    """Numbers that one token's keys and values are; None if the configuration leaves it open."""
    heads, head_dim = text.get("num_attention_heads"), text.get("head_dim")
    if head_dim is None and heads and family == "qwen2_5_vl":
        head_dim = text.get("hidden_size", 0) // heads
    factors = (text.get("num_hidden_layers"), text.get("num_key_value_heads"), head_dim)
    if not all(isinstance(factor, int) and factor > 0 for factor in factors):
        return None
    return 2 * math.prod(int(factor) for factor in factors if factor)


def _weights(folder: Path, config: Mapping[str, Any]) -> tuple[int | None, list[Fault]]:
    """Parameters over all shards, or why they cannot be counted."""
    shards, faults = _shards(folder)
    total = 0
    for shard in shards:
        try:
            total += _count(read_header(shard), is_tied=_is_tied(config))
        except (ValueError, OSError) as error:
            hint = "run `git lfs pull`" if "git-lfs" in str(error) else "fetch the file again"
            faults.append(Fault("model.weights", f"{shard.name} {error}", hint))
    return (None if faults else total), faults


def _shards(folder: Path) -> tuple[list[Path], list[Fault]]:
    """The files that make up the weights, in the order in which transformers looks for them."""
    whole, index = folder / "model.safetensors", folder / INDEX_FILE
    if whole.is_file():
        return [whole], []
    if index.is_file():
        return _indexed(index)
    try:
        weight_files(folder)
    except ModelError as error:
        is_absent = "pickled" not in error.hint
        message = error.message.removeprefix(f"{folder} has ")
        if not is_absent:
            message += ", only pickled ones"
        return [], [Fault(error.code, message, error.hint, is_absent)]
    hint = "the folder needs model.safetensors, or all shards and their index"
    return [], [Fault("model.weights_missing", f"{INDEX_FILE} is absent", hint, is_absent=True)]


def _indexed(index: Path) -> tuple[list[Path], list[Fault]]:
    try:
        names = sorted({str(name) for name in _json_object(index)["weight_map"].values()})
    except (ValueError, OSError, KeyError, AttributeError) as error:
        return [], [Fault("model.weights", f"{index.name} cannot be read: {first_line(error)}")]
    paths = [index.parent / name for name in names]
    absent = [path.name for path in paths if not path.is_file()]
    if not absent:
        return paths, []
    message = f"{len(absent)} of {len(paths)} shards are absent: {', '.join(absent[:3])}"
    message += ", ..." if len(absent) > 3 else ""
    fault = Fault("model.weights_missing", message, "the download may be incomplete", True)
    return [path for path in paths if path.is_file()], [fault]


def read_header(path: Path) -> dict[str, Any]:
    """The header of a safetensors file, or a `ValueError` that says what the file is instead."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if LFS_POINTER.startswith(start) and start:
            raise ValueError("is a git-lfs pointer, not the weights")
        if len(start) < 8 or length > min(size, LARGEST_HEADER_BYTES):
            raise ValueError("is cut short or no safetensors file")
        try:
            header = json.loads(file.read(length))
            end = _data_bytes(header)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError("has a header that cannot be read") from error
    if 8 + length + end != size:
        raise ValueError(f"is damaged: {8 + length + end:,} bytes announced, {size:,} there")
    found: dict[str, Any] = header
    return found


def _data_bytes(header: Mapping[str, Any]) -> int:
    """Bytes that follow the header; every tensor must have its place and its shape."""
    tensors = [tensor for name, tensor in header.items() if name != METADATA]
    for tensor in tensors:
        math.prod(tensor["shape"])
    return max((int(tensor["data_offsets"][1]) for tensor in tensors), default=0)


def _count(header: Mapping[str, Any], *, is_tied: bool) -> int:
    """Parameters in one shard; a head that is tied to the embedding takes no memory of its own."""
    shapes = (
        tensor["shape"]
        for name, tensor in header.items()
        if name != METADATA and not (is_tied and name == "lm_head.weight")
    )
    return sum(math.prod(shape) for shape in shapes)


def _is_tied(config: Mapping[str, Any]) -> bool:
    own = _text_config(config).get("tie_word_embeddings", False)
    return bool(config.get("tie_word_embeddings", own))


def _companions(folder: Path) -> list[Fault]:
    """What has to lie beside the weights and does not."""
    has_tokenizer = (folder / "tokenizer.json").is_file() or all(
        (folder / name).is_file() for name in ("vocab.json", "merges.txt")
    )
    has_image_settings = (folder / "preprocessor_config.json").is_file() or _names(
        folder / "processor_config.json", "image_processor"
    )
    has_template = (folder / "chat_template.jinja").is_file() or any(
        _names(folder / name, "chat_template")
        for name in ("tokenizer_config.json", "chat_template.json")
    )
    needed = (
        (has_tokenizer, "tokenizer", "tokenizer.json"),
        (has_image_settings, "image_processor", "preprocessor_config.json"),
        (has_template, "chat_template", "chat_template.jinja"),
    )
    return [
        Fault(f"model.{what}", f"{name} is absent", "copy it from the release", is_absent=True)
        for is_there, what, name in needed
        if not is_there
    ]


def _names(path: Path, key: str) -> bool:
    try:
        return bool(_json_object(path).get(key))
    except (ValueError, OSError):
        return False


def _json_object(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_text("utf-8"))
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value
