"""Loads a Qwen2.5-VL or Qwen3-VL checkpoint, or says in one line why it cannot.

Weights come from safetensors only, code from the installed transformers only, and a weight that
the files do not provide is an error: nothing runs on random initialisation.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import transformers
from transformers import AutoConfig, AutoImageProcessor

from specctl.errors import ModelError
from specctl.models.encoding import PromptEncoder, VisionTokens
from specctl.models.network import kv_shape, load_network, place, threads_for
from specctl.models.qwen import Parts, QwenVLModel
from specctl.models.scores import Scorer
from specctl.models.source import first_line, resolve, weights_sha256
from specctl.models.template import derive_chat_format
from specctl.models.tokens import (
    added_markers,
    chat_renderer,
    detokeniser,
    end_ids,
    load_tokenizer,
    plain_encoder,
    vision_ids,
)
from specctl.models.vision import VisionTower
from specctl.types import ModelInfo

FAMILIES = {"qwen2_5_vl": "Qwen2.5-VL", "qwen3_vl": "Qwen3-VL"}


def load_model(
    source: str,
    *,
    role_name: str,
    device: str = "auto",
    dtype: str = "auto",
    score_ks: Sequence[int] = (16, 32, 64),
    top_k: int = 64,
    offline: bool = True,
) -> QwenVLModel:
    """Load `source`: a folder, `bundled:drafter`, `bundled:verifier` or a hub id.

    `role_name` begins every error message. `device` is `auto`, `cpu`, `cuda`, `cuda:1`, ...;
    `dtype` is `auto`, `float32`, `bfloat16` or `float16`. `auto` means float32 on a CPU and half
    precision on a GPU. Only with `offline=False` may a hub id be downloaded.
    """
    try:
        folder = resolve(source, offline=offline)
        with _quiet():
            return QwenVLModel(_load_parts(source, folder, device, dtype, score_ks, top_k))
    except ModelError as error:
        raise ModelError(
            f"{role_name}: {error.message}", code=error.code or "model.load", hint=error.hint
        ) from error


def _load_parts(
    source: str, folder: Path, device: str, dtype: str, score_ks: Sequence[int], top_k: int
) -> Parts:
    config = _config(folder)
    placement = place(device, dtype, config)
    tokenizer = load_tokenizer(folder, config)
    chat = derive_chat_format(chat_renderer(folder, tokenizer))
    processor = _image_processor(folder)
    network = load_network(folder, config, placement)
    vision = VisionTower(network, processor)
    markers = added_markers(tokenizer)
    return Parts(
        network=network,
        encoder=PromptEncoder(
            plain_encoder(tokenizer),
            markers,
            VisionTokens(
                start=config.vision_start_token_id,
                image=config.image_token_id,
                video=config.video_token_id,
                end=config.vision_end_token_id,
            ),
            vision.grid,
        ),
        vision=vision,
        scorer=Scorer(
            network.lm_head.out_features,
            top_k=top_k,
            score_ks=score_ks,
            suppressed=vision_ids(config, markers),
        ),
        detokenise=detokeniser(tokenizer),
        end_ids=end_ids(folder, config, tokenizer),
        chat=chat,
        info=ModelInfo(
            id=source,
            family=config.model_type,
            weights_sha256=weights_sha256(folder),
            dtype=placement.dtype_name,
            device=str(placement.device),
        ),
        kv_shape=kv_shape(config.text_config, placement),
        max_length=config.text_config.max_position_embeddings,
        num_threads=threads_for(network),
    )


def _config(folder: Path) -> Any:
    """The checkpoint's configuration, of a family that the runtime knows."""
    path = folder / "config.json"
    if not path.is_file():
        raise ModelError(
            f"{folder} has no config.json",
            code="model.config",
            hint="give the folder that holds config.json and *.safetensors",
        )
    try:
        family = json.loads(path.read_text("utf-8")).get("model_type")
    except (ValueError, AttributeError) as error:
        raise ModelError(
            f"{path} is not a JSON object: {first_line(error)}", code="model.config"
        ) from error
    if family not in FAMILIES:
        raise ModelError(
            f"{folder} is a model of type {family!r}, which is not supported",
            code="model.family",
            hint="supported families: " + ", ".join(f"{n} ({t})" for t, n in FAMILIES.items()),
        )
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # validation raises many kinds
        raise ModelError(
            f"{path} cannot be used: {first_line(error)}", code="model.config"
        ) from error


def _image_processor(folder: Path) -> Any:
    try:
        return AutoImageProcessor.from_pretrained(
            folder, backend="pil", local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # damaged files raise many kinds
        raise ModelError(
            f"the image settings in {folder} cannot be loaded: {first_line(error)}",
            code="model.image_processor",
            hint="the folder needs preprocessor_config.json",
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers' progress bars, reports and warnings off the terminal while loading."""
    log = transformers.utils.logging
    verbosity, had_bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity(log.CRITICAL)
    log.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.set_verbosity(verbosity)
        if had_bars:
            log.enable_progress_bar()
