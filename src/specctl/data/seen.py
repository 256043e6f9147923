"""Which ids have been met, in eight bytes each."""

from __future__ import annotations

from array import array
from hashlib import blake2b

START_SLOTS = 1 << 16


class SeenIds:
    """A set of 64-bit digests in one flat table, so that a million ids take 16 MB.

    Two different ids share a digest with probability n^2 / 2^65 (3e-8 for a million rows).
    """

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * START_SLOTS))
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def add(self, row_id: str) -> bool:
        """Remember `row_id`; False if it was known already."""
        digest = blake2b(row_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        key = int.from_bytes(digest, "little") or 1
        slot = self._slot(key)
        if self._slots[slot] == key:
            return False
        self._slots[slot] = key
        self._used += 1
        if 3 * self._used > 2 * len(self._slots):
            self._grow()
        return True

    def _slot(self, key: int) -> int:
        """Where `key` stands, or the free slot it belongs in (linear probing; 0 is free)."""
        mask = len(self._slots) - 1
        slot = key & mask
        while self._slots[slot] not in (0, key):
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        old = self._slots
        self._slots = array("Q", bytes(8 * 2 * len(old)))
        for key in old:
            if key:
                self._slots[self._slot(key)] = key
