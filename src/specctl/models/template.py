"""Takes a chat template apart: renders a skeleton conversation and cuts it at the messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from specctl.errors import ModelError
from specctl.models.chat import ChatFormat

Messages = Sequence[dict[str, Any]]
Render = Callable[[Messages], str]
"""Renders messages up to where the assistant begins to write."""

SYSTEM, USER, ASSISTANT, REPLY = "specctlsystem", "specctluser", "specctlassistant", "specctlreply"


def derive_chat_format(render: Render) -> ChatFormat:
    """The literal strings between messages; a template that changes messages is refused."""
    opening = _cut(_rendered(render, ("system", SYSTEM), ("user", USER)), SYSTEM, USER)
    turns = (("system", SYSTEM), ("user", USER), ("assistant", ASSISTANT), ("user", REPLY))
    conversation = _cut(_rendered(render, *turns), SYSTEM, USER, ASSISTANT, REPLY)
    if opening[:2] != conversation[:2] or opening[-1] != conversation[-1]:
        raise _unusable("it renders the same messages differently when more follow")
    return ChatFormat(
        before_system=opening[0],
        system_to_user=opening[1],
        user_to_assistant=opening[2],
        assistant_to_user=conversation[3],
    )


def _rendered(render: Render, *turns: tuple[str, str]) -> str:
    messages = [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in turns]
    try:
        return render(messages)
    except Exception as error:  # a template may raise anything
        raise _unusable(f"it fails with {type(error).__name__}: {error}") from error


def _cut(text: str, *sentinels: str) -> list[str]:
    """The text around the sentinels, each of which must be there once and in order."""
    parts = []
    for sentinel in sentinels:
        before, found, text = text.partition(sentinel)
        if not found or sentinel in text:
            raise _unusable("it drops, repeats, reorders or changes messages")
        parts.append(before)
    return [*parts, text]


def _unusable(why: str) -> ModelError:
    return ModelError(
        f"the checkpoint's chat template cannot be used: {why}",
        code="model.chat_template",
        hint="use the template of the Qwen2.5-VL or Qwen3-VL release",
    )
