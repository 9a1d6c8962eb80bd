# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exact percentiles of groups: the nearest rank over intended packets, a lost or unsent one being
+infinity, as tardy's own (docs/method/quantiles.md)."""

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from . import buckets
from .engines import Engine
from .passes import FAILED, NEVER, UNSTAMPED, VALUES, Question, Target


class Unreadable(Exception):
    """Runs that turned out to be damaged: by their number, why."""

    def __init__(self, runs: dict[int, str]) -> None:
        super().__init__(runs)
        self.runs = runs


@dataclass(frozen=True)
class Figure:
    """A percentile of a group. Without `value_ns` it is infinite, or lies between two figures of
    which one or both are not known."""

    count: int
    n: int
    rank: int
    value_ns: int | None
    low_ns: int | None
    high_ns: int | None
    infinite: bool


def rank_of(q: Fraction, n: int) -> int:
    """Nearest rank, from 1; 0 of none."""
    return max(-(-q.numerator * n // q.denominator), 1 if n else 0)


class _Counts:
    """Numbers of a part in ascending order, with how many are at or below each."""

    def __init__(self, numbers: Any, upto: Any, start: int, end: int) -> None:
        self._numbers, self._upto, self._start, self._end = numbers, upto, start, end
        self._before = upto[start - 1].as_py() if start else 0

    @property
    def count(self) -> int:
        return int(self._upto[self._end - 1].as_py() - self._before) if self._end > self._start else 0

    def at(self, rank: int) -> tuple[int, int]:
        """The number at a rank, and how many are below it."""
        wanted = self._before + rank
        at = bisect_left(range(self._start, self._end), wanted, key=lambda i: self._upto[i].as_py()) + self._start
        below = (self._upto[at - 1].as_py() if at else 0) - self._before
        return int(self._numbers[at].as_py()), int(below)


def _counts(table: Any) -> dict[int, _Counts]:
    """By part."""
    rows = table.filter(pc.equal(table["kind"], VALUES)).sort_by([("part", "ascending"), ("number", "ascending")]).combine_chunks()
    if not len(rows):
        return {}
    part, number, upto = (rows[name].combine_chunks() for name in ("part", "number", "n"))
    upto = pc.cumulative_sum(upto)
    ends = pc.run_end_encode(part)
    found, start = {}, 0
    for of, end in zip(ends.values.to_pylist(), ends.run_ends.to_pylist(), strict=True):
        found[of] = _Counts(number, upto, start, end)
        start = end
    return found


def _check(table: Any) -> None:
    rows = table.filter(pc.equal(table["kind"], FAILED))
    if len(rows):
        raise Unreadable(dict(zip(rows["part"].to_pylist(), rows["why"].to_pylist(), strict=True)))


def _sums(table: Any, kind: int) -> dict[int, int]:
    rows = table.filter(pc.equal(table["kind"], kind))
    return dict(zip(rows["part"].to_pylist(), rows["n"].to_pylist(), strict=True))


def figures(question: Question, groups: int, quantiles: list[Fraction], engine: Engine) -> dict[tuple[int, Fraction], Figure]:
    """A figure for each group and percentile."""
    runs = len(question.runs)
    first = engine.run(question.count, runs)
    _check(first)
    counts, never, unstamped = _counts(first), _sums(first, NEVER), _sums(first, UNSTAMPED)

    # Which bucket each rank falls into. A bucket of one value is that value.
    places: dict[tuple[int, int], tuple[int, int]] = {}
    for group in range(groups):
        for q in quantiles:
            for rank in _ranks(q, counts, never, unstamped, group):
                if group in counts and 0 < rank <= counts[group].count:
                    places[group, rank] = counts[group].at(rank)
    wide = sorted({(group, bucket) for (group, _), (bucket, _) in places.items() if len(set(buckets.bounds_of(bucket))) > 1})
    targets = tuple(Target(*one) for one in wide)
    found: dict[int, _Counts] = {}
    if targets:
        second = engine.run(_Find(question, targets), runs)
        _check(second)
        found = _counts(second)
    number = {one: at for at, one in enumerate(wide)}

    def value(group: int, rank: int) -> int | None:
        if (group, rank) not in places:
            return None
        bucket, below = places[group, rank]
        if (group, bucket) not in number:
            return buckets.bounds_of(bucket)[0]
        return found[number[group, bucket]].at(rank - below)[0]

    return {
        (group, q): _figure(q, group, counts[group].count if group in counts else 0, never.get(group, 0), unstamped.get(group, 0), value)
        for group in range(groups)
        for q in quantiles
    }


@dataclass(frozen=True)
class _Find:
    """The second pass as work for an engine."""

    question: Question
    targets: tuple[Target, ...]

    def __call__(self, at: int) -> Any:
        return self.question.find(at, self.targets)


def _ranks(q: Fraction, counts: dict[int, _Counts], never: dict[int, int], unstamped: dict[int, int], group: int) -> tuple[int, int, int]:
    """The rank, and those that it has if the packets without a stamp are the fastest and the
    slowest."""
    n = (counts[group].count if group in counts else 0) + never.get(group, 0)
    holes = unstamped.get(group, 0)
    among_all = rank_of(q, n + holes)
    return rank_of(q, n), among_all - holes, among_all


def _figure(q: Fraction, group: int, count: int, never: int, holes: int, value: Any) -> Figure:
    n = count + never
    rank = rank_of(q, n)
    own = value(group, rank)
    infinite = n > 0 and rank > count
    if n == 0 or holes == 0:
        return Figure(count, n, rank, own, own, own, infinite)
    high_rank = rank_of(q, n + holes)
    low, high = value(group, high_rank - holes), value(group, high_rank)
    if low is not None and high is not None and buckets.are_same(low, high):
        return Figure(count, n, rank, own, low, high, infinite)
    if low is None and high is None and high_rank > holes:
        return Figure(count, n, rank, None, None, None, infinite)
    return Figure(count, n, rank, None, low, high, False)


SCHEMA = pa.schema(
    [
        ("q", pa.float64()),
        ("value_ns", pa.int64()),
        ("infinite", pa.bool_()),
        ("count", pa.int64()),
        ("n", pa.int64()),
        ("rank", pa.int64()),
        ("low_ns", pa.int64()),
        ("high_ns", pa.int64()),
    ]
)
