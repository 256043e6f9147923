"""Raw logits to what is kept of them, on the device, in float32; one transfer to the host a step.

Separability at K: S = (z1 - mean(z2..zK)) / population std of z2..zK over the K largest logits
(SpecEyes, arXiv 2603.23483). With no spread at all S is infinite, or 0 when z1 does not stand out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specctl.errors import UsageError

NUM_CANDIDATES = 8


@dataclass(frozen=True, slots=True)
class Distribution:
    """One next-token distribution, reduced; logarithms are natural, over the whole vocabulary."""

    token: int
    logprob: float
    entropy: float
    logsumexp: float
    margin: float
    separability: dict[int, float]
    top: tuple[tuple[int, float], ...]


class Scorer:
    """Reduces logits `[n, vocabulary]`. `suppressed` ids have no part in the distribution."""

    def __init__(
        self,
        vocabulary: int,
        *,
        top_k: int,
        score_ks: Sequence[int] = (),
        suppressed: Sequence[int] = (),
    ) -> None:
        self.top_k = top_k
        self._ks = tuple(sorted({top_k, *score_ks}))
        self._suppressed = sorted({id_ for id_ in suppressed if 0 <= id_ < vocabulary})
        usable = vocabulary - len(self._suppressed)
        for k in self._ks:
            if not 2 <= k <= usable:
                raise UsageError(f"top-k must be between 2 and {usable}, the vocabulary, not {k}")
        self._num_kept = min(usable, max(self._ks[-1], NUM_CANDIDATES))

    def reduce(self, logits: Tensor) -> list[Distribution]:
        """One `Distribution` a row; of a row with NaN or infinite logits all scores are NaN."""
        raw = logits.float()
        is_sound = torch.isfinite(raw).all(dim=-1, keepdim=True)
        clean = torch.nan_to_num(raw)
        clean[:, self._suppressed] = -torch.inf
        token = clean.argmax(dim=-1, keepdim=True)
        best, best_ids = clean.topk(self._num_kept, dim=-1)
        normaliser = clean.logsumexp(dim=-1, keepdim=True)
        # Suppressed logits are -inf with probability 0: their product counts as 0, not NaN.
        weighted = torch.where(clean > -torch.inf, clean, 0) * (clean - normaliser).exp()
        scores = torch.cat(
            (
                clean.gather(1, token) - normaliser,
                normaliser - weighted.sum(dim=-1, keepdim=True),
                normaliser,
                best[:, :1] - best[:, 1:2],
                *(separability(best[:, :k]) for k in self._ks),
                best[:, :NUM_CANDIDATES],
            ),
            dim=1,
        )
        # Ids stay exact in float64, which also holds every float32: one tensor, one transfer.
        ids = torch.cat((token, best_ids[:, :NUM_CANDIDATES]), dim=1)
        scores = torch.where(is_sound, scores, torch.nan)
        return [self._row(row) for row in torch.cat((ids.double(), scores.double()), 1).tolist()]

    def _row(self, row: list[float]) -> Distribution:
        num_top = min(NUM_CANDIDATES, self._num_kept)
        ids, scores = [int(value) for value in row[: 1 + num_top]], row[1 + num_top :]
        spread = scores[4 : 4 + len(self._ks)]
        return Distribution(
            token=ids[0],
            logprob=scores[0],
            entropy=scores[1],
            logsumexp=scores[2],
            margin=scores[3],
            separability=dict(zip(self._ks, spread, strict=True)),
            top=tuple(zip(ids[1:], scores[4 + len(self._ks) :], strict=True)),
        )


def separability(largest: Tensor) -> Tensor:
    """S `[n, 1]` of each row's K largest logits `[n, K]`, in descending order."""
    rest = largest[:, 1:]
    lead = largest[:, :1] - rest.mean(dim=-1, keepdim=True)
    spread = rest.std(dim=-1, correction=0, keepdim=True)
    # A flat rest leaves rounding noise in mean and std; equal ends say that it is flat.
    is_flat = rest[:, :1] == rest[:, -1:]
    stands_out = largest[:, :1] > rest[:, :1]
    unbounded = torch.where(stands_out, torch.inf, 0.0)
    return torch.where(is_flat, unbounded, lead / spread)
