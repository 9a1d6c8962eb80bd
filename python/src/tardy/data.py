# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs that were opened: chosen from, grouped, asked for percentiles, handed to other packages."""

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .engines import engine_of, mapped
from .errors import BadQuestion, Damaged, NoRuns, Omission
from .passes import Question, filesystem
from .points import points_of
from .quantiles import SCHEMA, Unreadable, figures
from .runs import KEYS, Run, Stream, find, once
from .samples import Samples

if TYPE_CHECKING:
    import pandas
    import polars
    import pyspark.sql

#: What each row has before its metrics.
ROW_SCHEMA = pa.schema(
    [
        *((key, pa.int32() if key == "trial" else pa.string()) for key in KEYS),
        ("in_figures", pa.bool_()),
        ("seq", pa.int64()),
        ("scheduled_ns", pa.int64()),
        ("outcome", pa.string()),
        ("flags", pa.int32()),
        ("pcp", pa.int32()),
    ]
)
_OF_SAMPLES = ["seq", "scheduled_ns", "outcome", "flags", "pcp"]


class OmittedWarning(UserWarning):
    """A run was left out of an answer, because its files are damaged."""


def open_runs(path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> "Runs":
    """Opens a data set, a run folder, a folder of run folders, or several of these. A path may be a
    URI that pyarrow knows, as `s3://bucket/latency`.

    Raises NoRuns if there is nothing of the kind. A run that cannot be read is in `omitted`.
    """
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    parts: list[tuple[str, Run]] = []
    omitted: list[Omission] = []
    for one in [os.fspath(path) for path in paths]:
        files, inside = filesystem(one)
        found, left_out = find(files, inside)
        parts += [(one, run) for run in found]
        omitted += left_out
    if not paths:
        raise NoRuns("no path was named: name a data set or a run folder")
    if len({place.split("://")[0] if "://" in place else "" for place, _ in parts}) > 1:
        raise NoRuns("the paths lie on several kinds of file systems: open each by itself")
    runs, again = once([run for _, run in parts])
    return Runs(tuple(runs), tuple(omitted + again), os.fspath(paths[0]))


@dataclass(frozen=True)
class _Chosen:
    """Which streams are asked about."""

    keys: tuple[tuple[str, frozenset[str | int | None]], ...] = ()
    #: Also trials that are in no figure of their own run.
    all_trials: bool = False

    def has(self, run: Run, stream: Stream) -> bool:
        return (self.all_trials or stream.in_figures) and all(run.key_of(stream, key) in values for key, values in self.keys)


class Runs:
    """Runs, or what was chosen of them."""

    def __init__(self, runs: tuple[Run, ...], omitted: tuple[Omission, ...], place: str, chosen: _Chosen | None = None) -> None:
        self._all, self._omitted, self._place, self._chosen = runs, list(omitted), place, chosen or _Chosen()

    def __len__(self) -> int:
        return len(self._all)

    def __repr__(self) -> str:
        return f"<tardy runs: {len(self)}, omitted: {len(self._omitted)}>"

    @property
    def omitted(self) -> tuple[Omission, ...]:
        """What is in no figure, and why: runs that are damaged, of another format, or there twice;
        metrics that a run's own results refuse."""
        return tuple(self._omitted)

    def where(self, **keys: str | int | None | Iterable[str | int | None]) -> "Runs":
        """Those whose host, kernel, commit, experiment, run, cell, trial or stream is one of the
        values."""
        more: list[tuple[str, frozenset[str | int | None]]] = []
        for key, values in keys.items():
            _known(key)
            several = [values] if values is None or isinstance(values, (str, int)) else values
            more.append((key, frozenset(several)))
        return self._narrowed(replace(self._chosen, keys=(*self._chosen.keys, *more)))

    def all_trials(self) -> "Runs":
        """Also the trials that a run left out of its own figures."""
        return self._narrowed(replace(self._chosen, all_trials=True))

    def _narrowed(self, chosen: _Chosen) -> "Runs":
        return Runs(self._all, tuple(self._omitted), self._place, chosen)

    def _streams(self) -> Iterator[tuple[Run, Stream]]:
        return ((run, stream) for run in self._all for stream in run.streams if self._chosen.has(run, stream))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that the runs' results have. Others, of any two points that have stamps, can
        be asked for too."""
        return tuple(sorted({metric for _, stream in self._streams() for metric in stream.metrics}))

    def table(self) -> Any:
        """A row for each stream of each trial: what it is of, and where."""
        rows = [{**{key: run.key_of(stream, key) for key in KEYS}, "in_figures": stream.in_figures, "path": stream.path} for run, stream in self._streams()]
        schema = pa.schema([*list(ROW_SCHEMA)[: len(KEYS) + 1], ("path", pa.string())])
        return pa.Table.from_pylist(rows, schema=schema)

    def _question(self, metric: str, by: Sequence[str]) -> tuple[Question, list[tuple[str | int | None, ...]]]:
        numbers: dict[tuple[str | int | None, ...], int] = {}
        groups = []
        for run in self._all:
            of_run = []
            for stream in run.streams:
                if not self._chosen.has(run, stream):
                    of_run.append(-1)
                elif metric in stream.refused:
                    why = f"{metric} of stream {stream.stream} in cell {stream.cell} is refused: {stream.refused[metric]}"
                    self._omit(Omission(run.path, why))
                    of_run.append(-1)
                else:
                    of_run.append(numbers.setdefault(tuple(run.key_of(stream, key) for key in by), len(numbers)))
            groups.append(tuple(of_run))
        asked = [(run, of_run) for run, of_run in zip(self._all, groups, strict=True) if max(of_run, default=-1) >= 0]
        runs, chosen = tuple(run for run, _ in asked), tuple(of_run for _, of_run in asked)
        return Question(metric, runs, chosen, self._place), list(numbers)

    def _omit(self, omission: Omission) -> None:
        if omission not in self._omitted:
            self._omitted.append(omission)

    def quantile(
        self,
        metric: str,
        q: float | Sequence[float],
        by: str | Sequence[str] = (),
        *,
        spark: "pyspark.sql.SparkSession | None" = None,
    ) -> Any:
        """Exact percentiles of a metric over all packets of each group, as a table of Arrow's.

        A row is a group and a percentile. `value_ns` is the packet at rank `ceil(q·n)` of the `n`
        that were intended, where lost and unsent ones are +infinity; null if that is such a one
        (`infinite`), if there is no packet, or if packets that arrived without the stamp could make
        it another figure, which lies between `low_ns` and `high_ns` (null: not known).

        The runs' histograms say which bucket it is in, and only files with values in that bucket
        are opened. With `spark`, a session of Spark's does both passes.
        """
        points_of(metric)
        by = [by] if isinstance(by, str) else list(by)
        for key in by:
            _known(key)
        asked = [q] if isinstance(q, (int, float)) else list(q)
        parts = {one: _share(one) for one in asked}
        while True:
            question, groups = self._question(metric, by)
            try:
                found = figures(question, len(groups), list(parts.values()), engine_of(spark))
                break
            except Unreadable as damaged:
                self._leave_out(question, damaged)
        schema = pa.schema([*(ROW_SCHEMA.field(key) for key in by), *SCHEMA])
        rows = []
        for number in sorted(range(len(groups)), key=lambda at: [(of is not None, of) for of in groups[at]]):
            for one in asked:
                figure = found[number, parts[one]]
                rows.append({**dict(zip(by, groups[number], strict=True)), "q": float(one), **figure.__dict__})
        return pa.Table.from_pylist(rows, schema=schema)

    def _leave_out(self, question: Question, damaged: Unreadable) -> None:
        """Runs that are damaged are in no figure from here on."""
        for at, why in sorted(damaged.runs.items()):
            self._omit(Omission(question.runs[at].path, why))
            warnings.warn(f"left out: {why}", OmittedWarning, stacklevel=4)
        gone = {question.runs[at].path for at in damaged.runs}
        self._all = tuple(run for run in self._all if run.path not in gone)

    def check(self, metric: str | None = None) -> tuple[Omission, ...]:
        """Reads everything, and comes back with the runs whose histograms are not those of their
        rows, of one metric or of all that the results have."""
        wrong = []
        for of in [metric] if metric is not None else self.metrics:
            question, _ = self._question(of, [])
            for at, run in enumerate(question.runs):
                why = question.disagreement(at)
                if why is not None:
                    wrong.append(Omission(run.path, why))
        return tuple(dict.fromkeys(wrong))

    def rows(self, metrics: Iterable[str] | None = None) -> Iterator[Any]:
        """The rows of all packets, a table for each stream of a trial, with these metrics, or those
        that the results have, as columns. A damaged run is left out from where it is."""
        wanted = self._wanted(metrics)
        for run, stream in list(self._streams()):
            try:
                yield _rows(self._place, run, stream, wanted)
            except Damaged as error:
                self._omit(Omission(run.path, str(error)))
                warnings.warn(f"left out: {error}", OmittedWarning, stacklevel=2)

    def _wanted(self, metrics: Iterable[str] | None) -> list[str]:
        wanted = list(self.metrics if metrics is None else metrics)
        for metric in wanted:
            points_of(metric)
        return wanted

    def to_table(self, metrics: Iterable[str] | None = None) -> Any:
        """All rows as one table of Arrow's, in memory."""
        wanted = self._wanted(metrics)
        return pa.concat_tables([row_schema(wanted).empty_table(), *self.rows(wanted)])

    def to_pandas(self, metrics: Iterable[str] | None = None) -> "pandas.DataFrame":
        """All rows as a data frame of pandas'. Metrics keep whole numbers, also where some are
        missing."""
        import pandas

        return self.to_table(metrics).to_pandas(types_mapper={pa.int64(): pandas.Int64Dtype(), pa.int32(): pandas.Int32Dtype()}.get)

    def to_polars(self, metrics: Iterable[str] | None = None) -> "polars.DataFrame":
        """All rows as a data frame of Polars'."""
        import polars

        return polars.from_arrow(self.to_table(metrics))

    def to_spark(self, session: "pyspark.sql.SparkSession", metrics: Iterable[str] | None = None) -> "pyspark.sql.DataFrame":
        """All rows as a data frame of Spark's, read by its workers. A damaged file fails the query:
        `check` names it."""
        wanted = self._wanted(metrics)
        types = {pa.int64(): "bigint", pa.int32(): "int", pa.string(): "string", pa.bool_(): "boolean"}
        schema = ", ".join(f"`{of.name}` {types[of.type]}" for of in row_schema(wanted))
        streams = list(self._streams())
        return mapped(session, len(streams), _Read(self._place, tuple(streams), tuple(wanted)), schema)


@dataclass(frozen=True)
class _Read:
    """Reading rows as work for an engine."""

    place: str
    streams: tuple[tuple[Run, Stream], ...]
    metrics: tuple[str, ...]

    def __call__(self, at: int) -> Any:
        return _rows(self.place, *self.streams[at], list(self.metrics))


def row_schema(metrics: Sequence[str]) -> Any:
    """Of the tables of `rows`."""
    return pa.schema([*ROW_SCHEMA, *((metric, pa.int64()) for metric in metrics)])


def _rows(place: str, run: Run, stream: Stream, metrics: list[str]) -> Any:
    samples = Samples(filesystem(place)[0], stream.path)
    table = samples.with_metrics(stream.stream, metrics, _OF_SAMPLES)
    schema = row_schema(metrics)
    keys = [pa.repeat(pa.scalar(run.key_of(stream, key), schema.field(key).type), len(table)) for key in KEYS]
    in_figures = pa.repeat(pa.scalar(stream.in_figures), len(table))
    return pa.Table.from_arrays([*keys, in_figures, *table.columns], names=schema.names).cast(schema)


def _known(key: str) -> None:
    if key not in KEYS:
        raise BadQuestion(f"`{key}` is nothing to group or choose by: there is {', '.join(KEYS)}")


def _share(q: float) -> Fraction:
    # As it is written: 0.9999 is not the nearest number in binary, which may be one rank more.
    try:
        share = Fraction(Decimal(str(q)))
    except (ArithmeticError, ValueError) as error:
        raise BadQuestion(f"{q} is no percentile: name a share from 0 to 1, as 0.999") from error
    if not 0 <= share <= 1:
        raise BadQuestion(f"{q} is no percentile: name a share from 0 to 1, as 0.999")
    return share
