# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs of tardy, and exact tails over any number of them.

    runs = tardy.open("/srv/latency")
    runs.quantile("scheduled..rx_kernel", 0.9999, by=["host", "kernel"])
"""

from .data import OmittedWarning, Runs
from .data import open_runs as open
from .errors import BadQuestion, Damaged, NoRuns, Omission, TardyError
from .points import POINTS

__all__ = ["POINTS", "BadQuestion", "Damaged", "NoRuns", "Omission", "OmittedWarning", "Runs", "TardyError", "open"]
__version__ = "0.1.0"
