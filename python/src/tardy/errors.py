# SPDX-License-Identifier: MIT OR Apache-2.0
"""What can go wrong, and what is left out because of it."""

from dataclasses import dataclass


class TardyError(Exception):
    """What was tried, on what, why it failed, and what to do next."""


class NoRuns(TardyError):
    """A path holds neither runs nor a data set."""


class BadQuestion(TardyError):
    """There is no such metric, grouping or percentile."""


class Damaged(TardyError):
    """A file is not as tardy wrote it. The run that it is of is left out and named."""


@dataclass(frozen=True)
class Omission:
    """A run, or a metric of it, that is in no figure."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"
