"""A checkpoint's chat template, taken apart once into the literal strings between messages."""

from __future__ import annotations

from dataclasses import dataclass

from specctl.models.segments import Control, Segments


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """The text around messages, ending where the assistant begins to write.

    `opening` lays out system and first user message; `reply` what follows an unfinished assistant
    turn: its end, the next user message, and the start of the next assistant turn.
    """

    before_system: str
    system_to_user: str
    user_to_assistant: str
    assistant_to_user: str

    def opening(self, system: str, user: Segments) -> Segments:
        """The first turn; a template's own control text never merges with text from outside."""
        head = Control(self.before_system + system + self.system_to_user)
        return (head, *user, Control(self.user_to_assistant))

    def reply(self, user: Segments) -> Segments:
        """The next user turn after whatever the assistant wrote."""
        return (Control(self.assistant_to_user), *user, Control(self.user_to_assistant))
