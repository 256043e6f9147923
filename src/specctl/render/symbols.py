"""The marks that views draw with, and ASCII ones for streams that cannot print them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Symbols:
    """One set of marks; `levels` are bars of rising height."""

    accepted: str = "✓"
    verified: str = "↻"
    failed: str = "✗"
    warning: str = "!"
    point: str = "●"
    rule: str = "━"
    threshold: str = "╋"
    beyond: str = "▶"
    levels: str = "▁▂▃▄▅▆▇█"
    block: str = "█"
    prefill: str = "▓"
    decode: str = "▒"
    tau: str = "τ"
    dot: str = "·"
    arrow: str = "→"
    under: str = "↳"
    times: str = "×"
    ellipsis: str = "…"
    differs: str = "≠"
    cursor: str = "▌"
    plus_minus: str = "±"


UNICODE = Symbols()
ASCII = Symbols(
    accepted="[ok]",
    verified="[vf]",
    failed="[!!]",
    point="o",
    rule="-",
    threshold="|",
    beyond=">",
    levels="._-=+*#@",
    block="#",
    prefill="#",
    decode="=",
    tau="threshold",
    dot="-",
    arrow="->",
    under="`-",
    times="x",
    ellipsis="...",
    differs="!=",
    cursor="_",
    plus_minus="+-",
)


def symbols_for(encoding: str | None) -> Symbols:
    """The richest set that a stream of this encoding can print."""
    sample = "".join(str(getattr(UNICODE, name)) for name in Symbols.__slots__)
    try:
        sample.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE
