"""Results as JSON: one object a query, schema `specctl.result/1`."""

from __future__ import annotations

import dataclasses
import json
import math
import platform
from collections.abc import Mapping
from enum import Enum
from functools import cache
from importlib import metadata
from typing import Any

from specctl import __version__
from specctl.metrics.latency import e2e_ns
from specctl.trace import Span
from specctl.types import (
    Draft,
    ModelInfo,
    PlannedStep,
    Result,
    Role,
    Step,
    TokenScore,
    ToolCall,
    Trajectory,
    Verdict,
)

SCHEMA = "specctl.result/1"


def result_to_dict(
    result: Result,
    models: Mapping[Role, ModelInfo],
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The result as plain JSON values; all that depends on the schedule is under `runtime`.

    `extra` holds the fields of the input row that mean nothing here, kept under `input`.
    """
    query = result.query
    usage = {role: counts for role, counts in result.usage.items()}
    record = {
        "schema": SCHEMA,
        "id": query.id,
        "image": result.image or {"path": query.image},
        "question": query.question,
        "options": list(query.options) or None,
        "reference": query.reference,
        **({} if extra is None else {"input": extra}),
        "answer": result.answer,
        "outcome": result.outcome,
        "draft": result.draft and _draft(result.draft),
        "gate": result.verdict and _verdict(result.verdict),
        "trajectory": _trajectory(result.trajectory),
        "usage": usage,
        "error": result.error,
        "models": models_to_dict(models),
        "prompts": {
            role: {"system_sha256": result.prompts[role]} for role in sorted(result.prompts)
        },
        "versions": versions(),
        "runtime": {
            "e2e_ms": e2e_ns(result) / 1e6 if result.runtime.spans else None,
            "spans": [_span(span) for span in result.runtime.spans],
            "forward_passes": result.runtime.forward_passes,
            "devices": {role: models[role].device for role in sorted(models)},
        },
    }
    values: dict[str, Any] = plain(record)
    return values


def to_json(record: Mapping[str, Any], *, indent: int | None = None) -> str:
    """One JSON text, ASCII-safe, without NaN or infinities."""
    return json.dumps(record, indent=indent, allow_nan=False)


def versions() -> dict[str, str]:
    """Versions of what computed the result."""
    libraries = {name: _installed(name) for name in ("torch", "transformers")}
    return {"specctl": __version__, **libraries, "python": platform.python_version()}


@cache
def _installed(library: str) -> str:
    return metadata.version(library)


def _draft(draft: Draft) -> dict[str, Any]:
    return {
        "answer": draft.answer,
        "tokens": [_token(token) for token in draft.tokens],
        "stop_reason": draft.stop_reason,
        "plan": None if draft.plan is None else [_planned(step) for step in draft.plan],
    }


def _token(token: TokenScore) -> dict[str, Any]:
    return {
        "text": token.text,
        "id": token.id,
        "separability": token.separability,
        "separability_at": {str(k): value for k, value in token.separability_at},
        "margin": token.margin,
        "logprob": token.logprob,
        "entropy": token.entropy,
        "logsumexp": token.logsumexp,
        "top": token.top,
    }


def _planned(step: PlannedStep) -> dict[str, Any]:
    return {
        "tool_call": _call(step.tool_call),
        "expected": step.expected,
        "separability": step.separability,
    }


def _call(call: ToolCall | None) -> dict[str, Any] | None:
    if call is None:
        return None
    box = call.box_px
    return {
        "name": call.name,
        "arguments": call.arguments,
        "box_px": box and [box.left, box.top, box.right, box.bottom],
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "score": verdict.score,
        "raw": verdict.raw,
        "margin": verdict.margin,
        "min_margin": verdict.min_margin,
        "threshold": verdict.threshold,
        "aggregate": verdict.aggregate,
        "top_k": verdict.top_k,
        "accepted": verdict.accepted,
        "reason": verdict.reason,
        "token_index": verdict.token_index,
    }


def _trajectory(trajectory: Trajectory) -> dict[str, Any]:
    return {"steps": [_step(step) for step in trajectory.steps], "depth": trajectory.depth}


def _step(step: Step) -> dict[str, Any]:
    return {
        "thought": step.thought,
        "text": step.text,
        "tool_call": _call(step.tool_call),
        "observation": step.observation,
        "answer": step.answer,
    }


def models_to_dict(models: Mapping[Role, ModelInfo]) -> dict[str, dict[str, str]]:
    """Which weights, by role, without the device they happen to be on."""
    return {str(role): _model(models[role]) for role in sorted(models)}


def _model(info: ModelInfo) -> dict[str, str]:
    return {
        "id": info.id,
        "family": info.family,
        "weights_sha256": info.weights_sha256,
        "dtype": info.dtype,
    }


def _span(span: Span) -> dict[str, Any]:
    return {
        "phase": span.phase,
        "lane": span.lane,
        "start_ns": span.start_ns,
        "end_ns": span.end_ns,
    }


def plain(value: Any) -> Any:
    """Enums to their words, dataclasses to objects, tuples to lists, non-finite numbers to null."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
