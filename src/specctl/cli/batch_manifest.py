"""What a batch's results depend on, as the manifest that is kept beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from specctl.config import Settings
from specctl.journal import Manifest, versions
from specctl.presets import DrafterPreset, Preset, VerifierPreset

_LIMITS = ("frame", "protocol", "max_answer_tokens", "max_plan_tokens", "max_turn_tokens")


def describe(
    settings: Settings,
    preset: Preset,
    *,
    source: str,
    fingerprint: str | None,
    question: str | None,
    options: tuple[str, ...],
) -> Manifest:
    """The manifest of a run with these settings, before any model is loaded."""
    return Manifest(
        source=source,
        fingerprint=fingerprint,
        models=_models(settings, preset),
        prompts={
            "drafter": _digests(preset.drafter),
            "verifier": _digests(preset.verifier),
        },
        gate=asdict(preset.gate),
        policy={
            "preset": preset.name,
            "question": question,
            "options": list(options) or None,
            "plan": settings.plan,
            "draft": not settings.no_draft,
            "max_turns": settings.max_turns,
            "max_new_tokens": settings.max_new_tokens,
            "time_limit_s": settings.time_limit,
            "drafter": _limits(preset.drafter),
            "verifier": _limits(preset.verifier),
            "zoom": asdict(preset.zoom),
        },
        versions=versions(),
    )


def _models(settings: Settings, preset: Preset) -> dict[str, dict[str, Any]]:
    """Ids as they were given; weights, and a dtype left to us, are known once loaded."""
    dtype = None if settings.dtype == "auto" else settings.dtype
    models = {"drafter": preset.drafter.model, "verifier": preset.verifier.model}
    if settings.no_draft:
        del models["drafter"]
    unknown = {"family": None, "weights_sha256": None}
    return {role: {"id": model, "dtype": dtype, **unknown} for role, model in models.items()}


def _digests(preset: DrafterPreset | VerifierPreset) -> dict[str, str]:
    """The sha256 of every text that reaches the model."""
    return {
        name: sha256(_as_text(value).encode("utf-8")).hexdigest()
        for name, value in asdict(preset).items()
        if name != "model" and name not in _LIMITS
    }


def _as_text(value: str | Mapping[str, str]) -> str:
    return value if isinstance(value, str) else "\0".join(value.values())


def _limits(preset: DrafterPreset | VerifierPreset) -> dict[str, Any]:
    """How the model is asked, texts aside."""
    return {name: value for name, value in asdict(preset).items() if name in _LIMITS}
