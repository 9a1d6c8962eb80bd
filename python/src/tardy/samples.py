# SPDX-License-Identifier: MIT OR Apache-2.0
"""A trial's `samples.parquet`, and the histograms of a run in a data set: read whole, checked
against the sum in the footer, then column by column."""

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as fs
import pyarrow.parquet as pq

from . import points as way
from .errors import Damaged

#: The newest format of files that is known.
FORMAT = 1

#: Bytes at the end of a Parquet file: the footer's length, and the mark.
_TAIL = 8


def read_bytes(files: fs.FileSystem, path: str) -> Any:
    """A file as a whole."""
    try:
        with files.open_input_file(path) as file:
            return file.read_buffer()
    except OSError as error:
        raise Damaged(f"cannot read {path}: {error}: copy it again from where the run was made") from error


def read_json(files: fs.FileSystem, path: str) -> dict[str, Any]:
    """A JSON document with a `format` that is known."""
    try:
        document = json.loads(read_bytes(files, path).to_pybytes())
        known = int(document["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"cannot read {path}: {error}: the file was cut short or changed, copy it again") from error
    check_format(path, known)
    return dict(document)


def check_format(path: str, known: object) -> None:
    """Refuses what a later version wrote."""
    if known != FORMAT:
        raise Damaged(f"{path} has format {known}, and this package reads {FORMAT}: read it with the package of that version")


def open_parquet(files: fs.FileSystem, path: str) -> tuple[Any, dict[str, Any]]:
    """A Parquet file of tardy's, and what its footer says of it. All bytes are checked."""
    held = read_bytes(files, path)
    try:
        file = pq.ParquetFile(pa.BufferReader(held))
        text = (file.metadata.metadata or {})[b"tardy"]
        about = dict(json.loads(text))
        check_format(path, about.get("format"))
        claimed = about["crc32"]
        length = int.from_bytes(held.slice(len(held) - _TAIL, 4).to_pybytes(), "little")
        about["crc32"] = zlib.crc32(memoryview(held)[: len(held) - _TAIL - length])
        own = zlib.crc32(json.dumps(about, separators=(",", ":"), ensure_ascii=False).encode())
    except (pa.ArrowException, ValueError, KeyError, TypeError, IndexError) as error:
        raise Damaged(f"cannot read {path}: {error}: the file was cut short or changed, copy it again") from error
    if own != claimed:
        raise Damaged(f"{path} was changed after it was written: its bytes have another sum than its footer says; copy it again")
    return file, about


@dataclass(frozen=True)
class Values:
    """A metric in one stream of a trial."""

    #: Of the received packets that have it.
    values: Any
    #: Packets that count as +infinity.
    never: int
    #: Received packets without it.
    unstamped: int


class Samples:
    """The samples of a trial, open."""

    def __init__(self, files: fs.FileSystem, path: str) -> None:
        self.path = path
        self._file, about = open_parquet(files, path)
        self._streams: dict[str, tuple[list[int], list[str]]] = {}
        group = 0
        try:
            for stream in about["streams"]:
                rows, groups = int(stream["rows"]), []
                while rows > 0:
                    groups.append(group)
                    rows -= self._file.metadata.row_group(group).num_rows
                    group += 1
                self._streams[stream["name"]] = (groups, list(stream["points"]))
        except (KeyError, TypeError, IndexError, OSError) as error:
            raise Damaged(f"cannot read {path}: its footer lists other rows than it has: copy it again") from error

    def streams(self) -> list[str]:
        """Names, in the order of their rows."""
        return list(self._streams)

    def points(self, stream: str) -> list[str]:
        """The points that the stream has stamps of."""
        return self._streams[stream][1]

    def read(self, stream: str, columns: Iterable[str]) -> Any:
        """Columns of a stream's rows."""
        if stream not in self._streams:
            raise Damaged(f"{self.path} has no stream `{stream}`: copy it again")
        groups, _ = self._streams[stream]
        wanted = list(columns)
        try:
            if not groups:
                return self._file.schema_arrow.empty_table().select(wanted)
            return self._file.read_row_groups(groups, columns=wanted, use_threads=False).select(wanted).combine_chunks()
        except (pa.ArrowException, OSError) as error:
            raise Damaged(f"cannot read {self.path}: {error}: copy it again") from error

    def with_metrics(self, stream: str, metrics: Iterable[str], more: Iterable[str] = ()) -> Any:
        """Rows with these metrics as columns, behind the columns `more`. A lost packet has those
        that its stamps give."""
        wanted, ways = list(metrics), way.Ways(self._file.schema_arrow.names)
        point = way.arrival_point(self.points(stream))
        needed = [of for metric in wanted for of in way.points_of(metric)]
        fixed = ["outcome", *more]
        if way.DELTA in wanted:
            needed += [point, "receive"]
            fixed += ["seq", "scheduled_ns"]
        table = self.read(stream, dict.fromkeys([*fixed, *ways.columns(needed)]))
        offset = ways.offsets(table)
        out = table.select(list(more))
        for metric in wanted:
            out = out.append_column(metric, self._metric(table, offset, metric, point)[0])
        return out

    @staticmethod
    def _metric(table: Any, offset: Any, metric: str, point: str) -> tuple[Any, Any]:
        """A metric row by row, and which rows have arrived in its sense."""
        if metric == way.DELTA:
            return way.deltas(table, offset, point)
        if metric == way.TRANSIT:
            there = pc.subtract(offset("reply_receive"), offset("send"))
            value = pc.subtract(there, pc.subtract(offset("reply_send"), offset("receive")))
        else:
            first, second = way.points_of(metric)
            value = offset(second) if first == "scheduled" else pc.subtract(offset(second), offset(first))
        return value, pc.equal(table["outcome"], "received")

    def values(self, stream: str, metric: str) -> Values:
        """What the figures of a metric are of."""
        ways, point = way.Ways(self._file.schema_arrow.names), way.arrival_point(self.points(stream))
        needed, fixed = list(way.points_of(metric)), ["outcome"]
        if metric == way.DELTA:
            needed, fixed = [point, "receive"], ["outcome", "seq", "scheduled_ns"]
        table = self.read(stream, [*fixed, *ways.columns(needed)])
        value, arrived = self._metric(table, ways.offsets(table), metric, point)
        came = pc.sum(arrived).as_py() or 0
        values = value.filter(arrived).drop_null()
        possible = max(came - 1, 0) if metric == way.DELTA else came
        return Values(values, len(table) - came, max(possible - len(values), 0))
