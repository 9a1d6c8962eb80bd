# SPDX-License-Identifier: MIT OR Apache-2.0
"""The two passes of a percentile over many runs, a run at a time, wherever that is done.

The first counts values in buckets, from a run's histograms or from its rows. The second finds the
values in the buckets that the percentiles fall into, and opens only files that have some. Both
hand over rows of one form ([PARTIAL]), which an engine adds up.
"""

import posixpath
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as fs

from . import buckets
from .errors import Damaged
from .runs import Run, Stream
from .samples import Samples, Values, open_parquet

#: What a row is of.
VALUES, NEVER, UNSTAMPED, FAILED = range(4)

#: `part` and `number` say what is counted: of a group its buckets, of a target its values, of
#: a run that failed nothing but why.
PARTIAL = pa.schema([("kind", pa.int32()), ("part", pa.int32()), ("number", pa.int64()), ("n", pa.int64()), ("why", pa.string())])


def partial(kind: int, part: Any, number: Any, n: Any) -> Any:
    """Rows of one kind."""
    rows = len(n)
    columns = [pa.repeat(pa.scalar(kind, pa.int32()), rows), pc.cast(part, pa.int32()), number, n, pa.nulls(rows, pa.string())]
    return pa.Table.from_arrays(columns, schema=PARTIAL)


def failed(at: int, why: str) -> Any:
    """A run that cannot be read."""
    return pa.Table.from_pylist([{"kind": FAILED, "part": at, "number": 0, "n": 1, "why": why}], schema=PARTIAL)


def merged(parts: list[Any]) -> Any:
    """Rows added up."""
    if not parts:
        return PARTIAL.empty_table()
    table = pa.concat_tables(parts)
    summed = table.group_by(["kind", "part", "number", "why"], use_threads=False).aggregate([("n", "sum")])
    return summed.rename_columns(["kind", "part", "number", "why", "n"]).select(PARTIAL.names)


#: From this many parts on, a run adds up its own: else its engine does it for many runs at once.
_MANY = 64


def together(parts: list[Any]) -> Any:
    """The rows of a run."""
    return merged(parts) if len(parts) >= _MANY else pa.concat_tables([PARTIAL.empty_table(), *parts])


@dataclass(frozen=True)
class Target:
    """A bucket of a group whose values are wanted."""

    group: int
    bucket: int


@dataclass(frozen=True)
class Question:
    """One metric over some runs, each stream of a trial in a group."""

    metric: str
    runs: tuple[Run, ...]
    #: Of each run: the group of each of its streams.
    groups: tuple[tuple[int, ...], ...]
    #: Where they lie, as [`filesystem`] takes it.
    place: str

    def count(self, at: int) -> Any:
        """The first pass over a run."""
        run, groups = self.runs[at], self.groups[at]
        try:
            parts = []
            for stream, group, rows, values in self._histograms(run, groups):
                if values is None:
                    count, never, unstamped = stream.counts[self.metric]
                    if (pc.sum(rows["count"]).as_py() or 0) != count:
                        raise Damaged(f"{run.histograms}: its counts of {self.metric} are not those of the run: export the run again")
                else:
                    never, unstamped = values.never, values.unstamped
                if len(rows):
                    part = pa.repeat(pa.scalar(group, pa.int32()), len(rows))
                    parts.append(partial(VALUES, part, pc.cast(rows["bucket"], pa.int64()), rows["count"]))
                for kind, n in ((NEVER, never), (UNSTAMPED, unstamped)):
                    parts.append(partial(kind, pa.array([group]), pa.array([0]), pa.array([n])))
            return together(parts)
        except Damaged as error:
            return failed(at, str(error))

    def find(self, at: int, targets: tuple[Target, ...]) -> Any:
        """The second pass: the values in the targets' buckets."""
        run, groups = self.runs[at], self.groups[at]
        wanted = [(number, target, buckets.bounds_of(target.bucket)) for number, target in enumerate(targets)]
        try:
            parts = []
            asked = {target.group for target in targets}
            for stream, group, rows, values in self._histograms(run, tuple(g if g in asked else -1 for g in groups)):
                own = [one for one in wanted if one[1].group == group]
                promised = {number: _count_of(rows, target.bucket) for number, target, _ in own}
                if not any(promised.values()):
                    continue
                values = values or self._values(run, stream)
                for number, _, (low, high) in own:
                    inside = values.values.filter(pc.and_(pc.greater_equal(values.values, low), pc.less_equal(values.values, high)))
                    if len(inside) != promised[number]:
                        raise Damaged(
                            f"{run.histograms} counts {promised[number]} values of {self.metric} from {low} to {high} ns in {stream.path}, "
                            f"which has {len(inside)}: export the run again"
                        )
                    counts = pc.value_counts(inside)
                    if len(counts):
                        part = pa.repeat(pa.scalar(number, pa.int32()), len(counts))
                        parts.append(partial(VALUES, part, counts.field("values"), counts.field("counts")))
            return together(parts)
        except Damaged as error:
            return failed(at, str(error))

    def disagreement(self, at: int) -> str | None:
        """What is wrong with a run, all of it looked at: None where its histograms are those of
        its rows."""
        run, groups = self.runs[at], self.groups[at]
        try:
            for stream, _, rows, values in self._histograms(run, groups):
                if values is None:
                    counted = _counted(self._values(run, stream))
                    own = dict(zip(rows["bucket"].to_pylist(), rows["count"].to_pylist(), strict=True))
                    if own != dict(zip(counted["bucket"].to_pylist(), counted["count"].to_pylist(), strict=True)):
                        return f"{run.histograms}: its histogram of {self.metric} is not that of {stream.path}: export the run again"
        except Damaged as error:
            return str(error)
        return None

    def _values(self, run: Run, stream: Stream) -> Values:
        files, _ = filesystem(self.place)
        return Samples(files, stream.path).values(stream.stream, self.metric)

    def _histograms(self, run: Run, groups: tuple[int, ...]) -> Any:
        """Of each stream in question: its group, its buckets, and its values where they had to be
        read for that."""
        chosen = [(stream, group) for stream, group in zip(run.streams, groups, strict=True) if group >= 0]
        kept = None
        if run.histograms is not None and any(self.metric in stream.counts for stream, _ in chosen):
            kept = _read_histograms(self.place, run.histograms, self.metric)
        samples: Samples | None = None
        for stream, group in chosen:
            if kept is not None and self.metric in stream.counts:
                # Most runs have one stream and one trial: then all rows are its.
                yield stream, group, _of_stream(kept, stream) if len(run.streams) > 1 else kept, None
                continue
            if samples is None or samples.path != stream.path:
                samples = Samples(filesystem(self.place)[0], stream.path)
            values = samples.values(stream.stream, self.metric)
            yield stream, group, _counted(values), values


def filesystem(place: str) -> tuple[fs.FileSystem, str]:
    """Where runs lie: a path of this machine, or a URI that pyarrow knows (`s3://…`)."""
    if "://" in place:
        files, path = fs.FileSystem.from_uri(place)
        return files, path
    return fs.LocalFileSystem(), posixpath.normpath(place)


def _counted(values: Values) -> Any:
    counts = pc.value_counts(buckets.buckets_of(values.values))
    if not len(counts):
        return pa.table({"bucket": pa.array([], pa.int64()), "count": pa.array([], pa.int64())})
    return pa.table({"bucket": counts.field("values"), "count": counts.field("counts")})


def _read_histograms(place: str, path: str, metric: str) -> Any:
    """The rows of a metric; None where the file has another numbering of buckets."""
    file, about = open_parquet(filesystem(place)[0], path)
    if about.get("buckets") != buckets.NAME:
        return None
    groups = [at for at, of in enumerate(about["metrics"]) if of == metric]
    columns = ["cell", "trial", "stream", "bucket", "count"]
    try:
        if not groups:
            return file.schema_arrow.empty_table().select(columns)
        return file.read_row_groups(groups, columns=columns, use_threads=False).combine_chunks()
    except (pa.ArrowException, OSError, TypeError) as error:
        raise Damaged(f"cannot read {path}: {error}: export the run again") from error


def _of_stream(rows: Any, stream: Stream) -> Any:
    same = pc.and_(pc.equal(rows["trial"], stream.trial), pc.and_(pc.equal(rows["cell"], stream.cell), pc.equal(rows["stream"], stream.stream)))
    return rows.filter(same)


def _count_of(rows: Any, bucket: int) -> int:
    return pc.sum(rows["count"].filter(pc.equal(rows["bucket"], bucket))).as_py() or 0
