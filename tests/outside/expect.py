# SPDX-License-Identifier: MIT OR Apache-2.0
"""Shared by the scripts of this layer: comparing, counting what was compared, and walking a run's metrics."""

import math
import sys

QUANTILES = [("p50", "p50", 5000), ("p90", "p90", 9000), ("p99", "p99", 9900), ("p99_9", "p99.9", 9990), ("p99_99", "p99.99", 9999)]
compared = 0


def same(got, wanted, what):
    """Ends the script with what differs."""
    global compared
    compared += 1
    alike = got == wanted or (isinstance(got, float) and isinstance(wanted, float) and math.isnan(got) and math.isnan(wanted))
    if not alike:
        sys.exit(f"{what}: got {got!r}, wanted {wanted!r}")


def true(holds, what):
    same(bool(holds), True, what)


def finish():
    """The caller wants to see that something was compared."""
    print(f"compared {compared}")


def rank(parts, n):
    """Nearest rank of a quantile in parts of ten thousand."""
    return -(-parts * n // 10_000)


def never(stream, metric):
    """Packets that count as +infinity."""
    outcomes = stream["outcomes"]
    return outcomes["intended"] - outcomes["received"]


def metrics(results):
    """Cell, name of the stream, stream, name of the metric, metric."""
    for cell in results["cells"]:
        for name, stream in cell["streams"].items():
            for metric, figures in stream["metrics"].items():
                yield cell, name, stream, metric, figures


def greatest(figures):
    """The greatest value among the received packets."""
    return figures.get("received_only_max_ns", figures["max_ns"])


def is_infinite(figures, stem, name):
    return bool({stem, name} & set(figures.get("infinite", [])))
