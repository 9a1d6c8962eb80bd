# SPDX-License-Identifier: MIT OR Apache-2.0
"""Points on a packet's way and metrics between them, computed from the columns of the samples as
the SQL view of `tardy schema samples` does."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .errors import BadQuestion

#: In causal order.
POINTS = (
    "scheduled",
    "wakeup",
    "send",
    "tx_sched",
    "tx_kernel",
    "tx_hw",
    "rx_hw",
    "rx_xdp",
    "rx_kernel",
    "receive",
    "reply_send",
    "reply_tx_sched",
    "reply_tx_kernel",
    "reply_rx_kernel",
    "reply_receive",
)
DELTA = "delta"
TRANSIT = "transit"

_PLACE = {point: place for place, point in enumerate(POINTS)}


def points_of(metric: str) -> tuple[str, ...]:
    """The points whose stamps a metric needs; `delta` has its own rule."""
    if metric == DELTA:
        return ()
    if metric == TRANSIT:
        return ("send", "receive", "reply_send", "reply_receive")
    first, _, second = metric.partition("..")
    if first not in _PLACE or second not in _PLACE or _PLACE[first] >= _PLACE[second]:
        known = ", ".join(POINTS)
        raise BadQuestion(f"`{metric}` is no metric: ask for `delta`, `transit` or `POINT..POINT`, the later point last, of {known}")
    return (first, second)


def span_of(column: str) -> tuple[str, str] | None:
    """The two points of a column of the samples, if it is a distance."""
    first, between, second = column.partition("..")
    return (first, second) if between and first in _PLACE and second in _PLACE else None


class Ways:
    """How to come from `scheduled` to each point over the columns of a file."""

    def __init__(self, columns: Iterable[str]) -> None:
        self._before: dict[str, list[str]] = {}
        for span in filter(None, map(span_of, columns)):
            self._before.setdefault(span[1], []).append(span[0])
        for froms in self._before.values():
            # From the nearest stamp that a row has.
            froms.sort(key=lambda point: -_PLACE[point])

    def columns(self, points: Iterable[str]) -> list[str]:
        """Those that are needed to compute the points."""
        needed: dict[str, None] = {}
        left, seen = list(points), set()
        while left:
            point = left.pop()
            if point in seen:
                continue
            seen.add(point)
            for before in self._before.get(point, []):
                needed[f"{before}..{point}"] = None
                left.append(before)
        return list(needed)

    def offsets(self, table: Any) -> Callable[[str], Any]:
        """Stamp of a point − scheduled, row by row; null without a stamp."""
        found: dict[str, Any] = {"scheduled": pa.repeat(pa.scalar(0, pa.int64()), len(table))}

        def offset(point: str) -> Any:
            if point not in found:
                ways = [pc.add(offset(before), _column(table, f"{before}..{point}")) for before in self._before.get(point, [])]
                found[point] = pc.coalesce(*ways) if ways else pa.nulls(len(table), pa.int64())
            return found[point]

        return offset


def _column(table: Any, name: str) -> Any:
    column = table[name]
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def arrival_point(points: Iterable[str]) -> str:
    """The stamp that `delta` is of."""
    points = set(points)
    return "rx_xdp" if "rx_xdp" in points and "rx_kernel" not in points else "rx_kernel"


_LEAST = -(1 << 63)
_WAIT_MOST = (1 << 31) - 1


def deltas(table: Any, offset: Callable[[str], Any], point: str) -> tuple[Any, Any]:
    """`delta` of each row, and which rows have arrived.

    The order of arrival is by stamp, then by receive, then by number; an arrival without a stamp
    comes right after the stamped packet that was scheduled before it.
    """
    own, receive = offset(point), offset("receive")
    received = pc.equal(_column(table, "outcome"), "received")
    arrived = pc.or_(received, pc.or_(pc.is_valid(own), pc.is_valid(receive)))
    stamp = pc.add(_column(table, "scheduled_ns"), own)
    rows = pa.table({"row": pa.array(range(len(table)), pa.int64()), "seq": _column(table, "seq"), "stamp": stamp, "own": own, "receive": receive})
    rows = rows.filter(arrived)
    stamp = _column(rows, "stamp")
    if not _rises(stamp):
        wait = pc.subtract(_column(rows, "receive"), _column(rows, "own"))
        wait = pc.min_element_wise(pc.max_element_wise(wait, -_WAIT_MOST - 1, skip_nulls=False), _WAIT_MOST, skip_nulls=False)
        wait = pc.if_else(pc.is_null(stamp), pa.scalar(None, pa.int64()), pc.fill_null(wait, _WAIT_MOST))
        order = rows.append_column("place", pc.fill_null(pc.fill_null_forward(stamp), _LEAST))
        order = order.append_column("wait", pc.fill_null(pc.fill_null_forward(wait), _LEAST))
        rows = order.sort_by([("place", "ascending"), ("wait", "ascending"), ("seq", "ascending")])
    value = pc.pairwise_diff(_column(rows, "stamp"), 1)
    back = pa.table({"row": rows["row"], "delta": value}).sort_by("row")
    where = pc.index_in(pa.array(range(len(table)), pa.int64()), _column(back, "row"))
    return pc.take(_column(back, "delta"), where), arrived


def _rises(stamp: Any) -> bool:
    if stamp.null_count:
        return False
    least = pc.min(pc.pairwise_diff(stamp, 1)).as_py()
    return least is None or least > 0
