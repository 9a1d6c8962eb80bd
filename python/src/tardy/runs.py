# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs as they are known before a sample is read: from `_run.json` of a data set, or from
`manifest.json` and `results.json` of a run folder."""

import posixpath
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow.fs as fs

from .errors import Damaged, NoRuns, Omission
from .samples import read_bytes, read_json

#: By what runs and their rows can be grouped and chosen.
RUN_KEYS = ("host", "kernel", "commit", "experiment", "run")
KEYS = (*RUN_KEYS, "cell", "trial", "stream")

_ABOUT = "_run.json"
_HISTOGRAMS = "_histograms.parquet"
_MANIFEST = "manifest.json"
_RESULTS = "results.json"


@dataclass(frozen=True)
class Stream:
    """A stream of a trial: a unit that is in a group as a whole."""

    cell: str
    trial: int
    stream: str
    in_figures: bool
    #: Its `samples.parquet`.
    path: str
    #: By metric that has a histogram: its count, those that never arrived, those without a stamp.
    counts: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    #: By metric that the results refuse: why.
    refused: dict[str, str] = field(default_factory=dict)
    #: All metrics that the results have.
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """A run, or what is chosen of one."""

    path: str
    #: What tells it from every other run.
    id: str
    keys: dict[str, str | None]
    valid: bool
    streams: tuple[Stream, ...]
    #: The file of its histograms, if it has one.
    histograms: str | None = None

    def key_of(self, stream: Stream, key: str) -> str | int | None:
        """What a key is for a stream's rows."""
        return self.keys[key] if key in RUN_KEYS else getattr(stream, key)


def partition(name: str, key: str) -> bool:
    """True for a folder that names a value of the key."""
    return name.startswith(f"{key}=")


def escaped(value: str) -> str:
    """As a partition's folder has it."""
    keeps = "._-,"
    return "".join(c if c.isalnum() or c in keeps else "".join(f"%{byte:02X}" for byte in c.encode()) for c in value)


def _folders(files: fs.FileSystem, path: str) -> list[str]:
    try:
        found = files.get_file_info(fs.FileSelector(path))
    except OSError as error:
        raise NoRuns(f"cannot list {path}: {error}: name a data set or a run folder") from error
    return sorted(one.path for one in found if one.type == fs.FileType.Directory and not one.base_name.startswith("."))


def _is_file(files: fs.FileSystem, path: str) -> bool:
    return bool(files.get_file_info(path).type == fs.FileType.File)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def of_data_set(files: fs.FileSystem, path: str) -> Run:
    """A run in a data set."""
    about = read_json(files, posixpath.join(path, _ABOUT))
    streams = []
    try:
        for trial in about["trials"]:
            cell, n = str(trial["cell"]), int(trial["trial"])
            samples = posixpath.join(path, f"cell={escaped(cell)}", f"trial={n}", "samples.parquet")
            for name, of in trial["streams"].items():
                counts = {metric: (int(c["count"]), int(c["never"]), int(c["unstamped"])) for metric, c in of["metrics"].items()}
                refused = {metric: str(why) for metric, why in of.get("refused", {}).items()}
                streams.append(Stream(cell, n, name, bool(trial["in_figures"]), samples, counts, refused, tuple(counts)))
        keys = {key: _text(about[key]) for key in RUN_KEYS}
        run_id, valid = str(about["id"]), bool(about["valid"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"{path}/{_ABOUT} lacks {error}: export the run again") from error
    return Run(path, run_id, keys, valid, tuple(streams), posixpath.join(path, _HISTOGRAMS))


def of_folder(files: fs.FileSystem, path: str) -> Run:
    """A run folder. Which trials count is in its results, so one that was killed cannot be read:
    `tardy export` judges it."""
    manifest = read_json(files, posixpath.join(path, _MANIFEST))
    if not _is_file(files, posixpath.join(path, _RESULTS)):
        raise Damaged(f"{path} has no {_RESULTS}, for the run was killed: `tardy export --to dataset` judges its trials")
    results = read_json(files, posixpath.join(path, _RESULTS))
    streams: list[Stream] = []
    try:
        for cell in results["cells"]:
            counted = _in_figures(path, cell)
            for trial in cell["trials"]:
                samples = posixpath.join(path, "trials", cell["id"], str(trial["n"]), "samples.parquet")
                for name, of in cell["streams"].items():
                    refused = {metric: str(m.get("why")) for metric, m in of["metrics"].items() if "refused_by" in m}
                    metrics = tuple(metric for metric in of["metrics"] if metric not in refused and " " not in metric)
                    is_in = trial["n"] in counted
                    streams.append(Stream(cell["id"], int(trial["n"]), name, is_in, samples, {}, refused, metrics))
        guest = manifest.get("guest")
        machine = guest["host"] if guest else manifest["machine"]
        keys = {
            "host": _text(machine.get("host.name")),
            "kernel": _text(manifest["machine"].get("kernel.release")),
            "commit": None,
            "experiment": str(results["name"]),
            "run": posixpath.basename(path.rstrip("/")),
        }
        trials = sorted((str(cell["id"]), int(trial["n"])) for cell in results["cells"] for trial in cell["trials"])
        run_id = f"{manifest['started_utc']} {manifest['seed']} {_sum_of_records(files, path, trials):08x}"
        valid = bool(results["valid"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Damaged(f"{path}: its results or its manifest lack {error}: copy the folder again") from error
    return Run(path, run_id, keys, valid, tuple(streams))


def _in_figures(path: str, cell: dict[str, Any]) -> set[int]:
    """The trials that a cell's figures are of: the valid ones, or all. What made a trial invalid
    may be the path's doing, and then it counts too: the sums say which it was."""
    every = cell["trials"]
    for some in ([trial for trial in every if trial["valid"]], every):
        if all(
            of["outcomes"][outcome] == sum(trial["streams"][name]["outcomes"][outcome] for trial in some if name in trial["streams"])
            for name, of in cell["streams"].items()
            for outcome in ("intended", "received", "lost", "not_sent")
        ):
            return {int(trial["n"]) for trial in some}
    raise Damaged(f"{path}: which trials of cell {cell['id']} are in its figures is not in its results: `tardy export --to dataset` knows it")


def _sum_of_records(files: fs.FileSystem, path: str, trials: list[tuple[str, int]]) -> int:
    """The sum of the trials' records, as `tardy export` makes it."""
    total = 0
    for cell, n in trials:
        total = zlib.crc32(read_bytes(files, posixpath.join(path, "trials", cell, str(n), "trial.json")).to_pybytes(), total)
    return total


def _data_set_runs(files: fs.FileSystem, path: str) -> Iterator[str]:
    level = [path]
    for key in RUN_KEYS:
        level = [folder for above in level for folder in _folders(files, above) if partition(posixpath.basename(folder), key)]
    yield from level


def find(files: fs.FileSystem, path: str) -> tuple[list[Run], list[Omission]]:
    """All runs at a path: one run folder, several in a folder, a data set, or both."""
    if files.get_file_info(path).type != fs.FileType.Directory:
        raise NoRuns(f"there is no folder {path}: name a data set or a run folder")
    runs: list[Run] = []
    omitted: list[Omission] = []

    def add(read: Any, at: str) -> None:
        try:
            runs.append(read(files, at))
        except Damaged as error:
            omitted.append(Omission(at, str(error)))

    if _is_file(files, posixpath.join(path, _MANIFEST)):
        add(of_folder, path)
        return runs, omitted
    below = _folders(files, path)
    for folder in below:
        if _is_file(files, posixpath.join(folder, _MANIFEST)):
            add(of_folder, folder)
    if any(partition(posixpath.basename(folder), "host") for folder in below):
        for folder in _data_set_runs(files, path):
            add(of_data_set, folder)
    if not runs and not omitted:
        raise NoRuns(f"{path} holds no run: it has neither {_MANIFEST}, nor folders that have one, nor folders host=…")
    return runs, omitted


def once(runs: list[Run]) -> tuple[list[Run], list[Omission]]:
    """Each run once. The same one may be there under two names, two may have one name."""
    kept: list[Run] = []
    omitted: list[Omission] = []
    ids: dict[str, Run] = {}
    names: dict[tuple[str | None, ...], Run] = {}
    for run in runs:
        name = tuple(run.keys[key] for key in RUN_KEYS)
        if run.id in ids:
            omitted.append(Omission(run.path, f"it is the run of {ids[run.id].path} again: it counts once"))
        elif name in names:
            other = names[name].path
            omitted.append(Omission(run.path, f"another run is called `{run.keys['run']}`, that of {other}: rename one of the folders"))
        else:
            kept.append(run)
            ids[run.id] = run
            names[name] = run
    return kept, omitted

