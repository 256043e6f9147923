"""Samples and proportions: summaries with percentiles, and the Wilson interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


def wilson_interval(k: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Score interval of a proportion of `k` in `n` trials; (0, 1) where there are none.

    centre = (p + z^2 / 2n) / (1 + z^2 / n), half width = z / (1 + z^2 / n) *
    sqrt(p (1 - p) / n + z^2 / 4n^2), with p = k / n and z the two-sided normal quantile
    (Wilson 1927). The ends at k = 0 and k = n are exactly 0 and 1.
    """
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} is no proportion")
    if n == 0:
        return 0.0, 1.0
    z = statistics.NormalDist().inv_cdf((1 + confidence) / 2)
    p, spread = k / n, z * z / n
    centre = (p + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(p * (1 - p) / n + spread / (4 * n))
    low = 0.0 if k == 0 else max(0.0, centre - half)
    high = 1.0 if k == n else min(1.0, centre + half)
    return low, high


@dataclass(frozen=True, slots=True)
class Proportion:
    """`k` of `n`; the value is None where nothing was counted."""

    k: int
    n: int

    @property
    def value(self) -> float | None:
        return self.k / self.n if self.n else None

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Its Wilson interval."""
        return wilson_interval(self.k, self.n, confidence)


def percentile(samples: Sequence[float], q: float) -> float:
    """The `q`-th percentile, 0 to 100, linear between order statistics.

    At rank h = (n - 1) q / 100 between the sorted samples floor(h) and floor(h) + 1 (Hyndman and
    Fan's type 7, numpy's default).
    """
    if not samples or not 0 <= q <= 100:
        raise ValueError(f"no percentile {q} of {len(samples)} samples")
    ordered = sorted(samples)
    rank = (len(ordered) - 1) * q / 100
    below = math.floor(rank)
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    return min(max(low + (high - low) * (rank - below), low), high)


@dataclass(frozen=True, slots=True)
class Summary:
    """What `n` samples look like, in their own unit.

    `sd` is the sample standard deviation (denominator n - 1), None for a single sample.
    """

    n: int
    mean: float
    sd: float | None
    p50: float
    p90: float
    p99: float
    min: float
    max: float


def summarise(samples: Iterable[float]) -> Summary | None:
    """The summary of samples; None where there are none."""
    values = tuple(samples)
    if not values:
        return None
    return Summary(
        n=len(values),
        mean=math.fsum(values) / len(values),
        sd=statistics.stdev(values) if len(values) > 1 else None,
        p50=percentile(values, 50),
        p90=percentile(values, 90),
        p99=percentile(values, 99),
        min=min(values),
        max=max(values),
    )
