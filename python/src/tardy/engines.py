# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where passes over runs are done: in this process, or on Spark."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from .passes import PARTIAL, merged

#: Rows that are held before they are added up.
_HELD = 1 << 20


class Engine(Protocol):
    """Does `work` for each of the numbers below `n`, and adds up what comes back."""

    def run(self, work: Callable[[int], Any], n: int) -> Any: ...


class InProcess:
    """Threads of this process: reading and computing are Arrow's, which they do not hold up."""

    def run(self, work: Callable[[int], Any], n: int) -> Any:
        threads = os.cpu_count() or 1
        held: list[Any] = []
        rows = 0
        with ThreadPoolExecutor(threads) as pool:
            # Not all at once: what waits to be added up would be all there is.
            for start in range(0, n, 8 * threads):
                for part in pool.map(work, range(start, min(n, start + 8 * threads))):
                    held.append(part)
                    rows += len(part)
                if rows > _HELD:
                    held = [merged(held)]
                    rows = len(held[0])
        return merged(held)


class OnSpark:
    """Tasks of a Spark session, by `mapInArrow`. Its workers need this package."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def run(self, work: Callable[[int], Any], n: int) -> Any:
        if n == 0:
            return merged([])
        parts = mapped(self._session, n, work, "kind int, part int, number bigint, n bigint, why string")
        summed = parts.groupBy("kind", "part", "number", "why").agg({"n": "sum"}).withColumnRenamed("sum(n)", "n")
        return summed.select(*PARTIAL.names).toArrow().cast(PARTIAL)


def mapped(session: Any, n: int, work: Callable[[int], Any], schema: str) -> Any:
    """A data frame of what `work` gives for each number below `n`."""

    def each(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                yield from work(at).to_batches()

    # More tasks than cores, so that one slow run does not hold up the rest; not one for each run.
    parallel = max(1, min(n, 4 * _cores(session)))
    return session.range(0, n, 1, parallel).mapInArrow(each, schema)


def _cores(session: Any) -> int:
    try:
        return int(session.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect has no context, and an error of its own for that.
        return 8


def engine_of(spark: Any | None) -> Engine:
    """That of a session, or this process."""
    return InProcess() if spark is None else OnSpark(spark)

