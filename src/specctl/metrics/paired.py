"""Speed-up as a paired ratio over the same rows, with a bootstrap interval over rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_CHUNK = 1_000_000
"""Random numbers held at a time."""


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """How many times shorter the treated rows took: above 1 is a speed-up, below 1 a slow-down.

    `interval` is None for a single row, which says nothing of others.
    """

    ratio: float
    geometric_mean: float
    interval: tuple[float, float] | None
    confidence: float
    num_rows: int
    num_runs: int

    @property
    def spans_one(self) -> bool:
        """True where no difference was shown: the interval contains 1, or there is none."""
        return self.interval is None or self.interval[0] <= 1 <= self.interval[1]

    @property
    def has_enough_rows(self) -> bool:
        """Whether so many rows can show anything at this confidence.

        Were there no difference, all n rows would fall on one side with probability 2^(1 - n) (sign
        test): at 95 % that takes 6 rows, however often each is run.
        """
        return 2.0 ** (1 - self.num_rows) <= 1 - self.confidence


def paired_ratio(
    baseline: Sequence[Sequence[float]],
    treated: Sequence[Sequence[float]],
    seed: int,
    resamples: int = 10_000,
    confidence: float = 0.95,
) -> PairedRatio:
    """The speed-up of `treated` over `baseline`: times per row, and within a row per paired run.

    ratio = sum over rows of the mean baseline time / the same sum of treated times. It is the ratio
    of total times that is reported first, because it is what somebody gains who has all these rows
    answered; the geometric mean of per-row ratios, given beside it, weighs a row that takes
    0.1 s like one that takes 10 s and can be above 1 where the whole takes longer.

    The interval is the percentile interval of a cluster bootstrap (Davison and Hinkley 1997,
    section 3.8): rows are drawn with replacement, then pairs of runs within each drawn row, since
    runs of one row are no new evidence about other rows. The same seed gives the same interval.
    With few rows it is somewhat narrow: simulated, 95 % covered 91 % at 10 to 30 rows, 85 % at 6.
    """
    before, after, counts = _padded(baseline, treated)
    row_means = before.sum(1) / counts, after.sum(1) / counts
    interval = None
    if len(counts) > 1:
        rng = np.random.default_rng(seed)
        ratios = np.concatenate(list(_resampled(before, after, counts, resamples, rng)))
        tail = (1 - confidence) / 2
        low, high = np.quantile(ratios, (tail, 1 - tail))
        interval = (float(low), float(high))
    return PairedRatio(
        ratio=float(row_means[0].sum() / row_means[1].sum()),
        geometric_mean=float(np.exp(np.mean(np.log(row_means[0] / row_means[1])))),
        interval=interval,
        confidence=confidence,
        num_rows=len(counts),
        num_runs=int(counts.sum()),
    )


def _padded(
    baseline: Sequence[Sequence[float]], treated: Sequence[Sequence[float]]
) -> tuple[Floats, Floats, npt.NDArray[Any]]:
    """Both as rows x runs, short rows filled with 0, and the number of runs of each row."""
    counts = np.array([len(runs) for runs in baseline])
    if not len(counts) or counts.min() < 1 or [len(runs) for runs in treated] != counts.tolist():
        raise ValueError("a paired ratio needs rows, each with as many runs on either side")
    shape = (len(counts), int(counts.max()))
    arrays = np.zeros(shape), np.zeros(shape)
    for array, rows in zip(arrays, (baseline, treated), strict=True):
        for row, runs in zip(array, rows, strict=True):
            row[: len(runs)] = runs
            if not all(np.isfinite(runs)) or min(runs) <= 0:
                raise ValueError("times must be positive and finite")
    return *arrays, counts


def _resampled(
    before: Floats,
    after: Floats,
    counts: npt.NDArray[Any],
    resamples: int,
    rng: np.random.Generator,
) -> Iterator[Floats]:
    """Ratios of resampled totals, a bounded number at a time."""
    num_rows, most_runs = before.shape
    step = max(1, _CHUNK // before.size)
    for begin in range(0, resamples, step):
        size = min(step, resamples - begin)
        rows = rng.integers(num_rows, size=(size, num_rows))[..., None]
        runs = (rng.random((size, num_rows, most_runs)) * counts[rows]).astype(np.int64)
        weights = (np.arange(most_runs) < counts[rows]) / counts[rows]
        totals = [(times[rows, runs] * weights).sum((1, 2)) for times in (before, after)]
        yield totals[0] / totals[1]
