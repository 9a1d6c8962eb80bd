# SPDX-License-Identifier: MIT OR Apache-2.0
"""The Python package `tardy` reads runs and data sets: WHAT ARGUMENTS…, where WHAT is a function
here. Each compares what the package says with what DuckDB, pandas, Polars or Spark compute of all
rows, ends with what differs, and else prints how many things it compared."""

import glob
import json
import os
import shutil
import sys
import warnings
import zlib

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import tardy

QUANTILES = [("p50", "p50", 0.5), ("p90", "p90", 0.9), ("p99", "p99", 0.99), ("p99_9", "p99.9", 0.999), ("p99_99", "p99.99", 0.9999)]
BY = [[], ["host", "kernel"], ["experiment", "cell"], ["run", "cell", "trial"], ["commit", "stream"]]
KEYS = ["host", "kernel", "commit", "experiment", "run", "cell", "trial"]
compared = 0


def same(got, wanted, what):
    global compared
    compared += 1
    if got != wanted:
        sys.exit(f"{what}: got {got!r}, wanted {wanted!r}")


def true(holds, what):
    same(bool(holds), True, what)


def finish():
    print(f"compared {compared}")


def rank(q, n):
    parts = round(q * 10_000)
    return max(-(-parts * n // 10_000), 1 if n else 0)


def columns_of(table):
    return [dict(zip(table.column_names, row)) for row in zip(*(column.to_pylist() for column in table.columns))]


def results(*runs):
    """What a run's results say of each metric is what the package says of the folder, and of the
    run in a data set: RUN=SET…, where the run is called in the set as its folder is."""
    for one in runs:
        run, _, data_set = one.partition(":")
        judged = json.load(open(f"{run}/results.json"))
        name = os.path.basename(run)
        for opened in (tardy.open(run), tardy.open(data_set).where(run=name)):
            true(not opened.omitted, opened.omitted)
            for cell in judged["cells"]:
                for stream, of in cell["streams"].items():
                    chosen = opened.where(cell=cell["id"], stream=stream)
                    for metric, figures in of["metrics"].items():
                        metric_of(chosen, metric, figures, f"{one} {cell['id']} {stream} {metric}")
    finish()


def metric_of(chosen, metric, figures, what):
    rows = columns_of(chosen.quantile(metric, [q for _, _, q in QUANTILES]))
    for (stem, name, q), row in zip(QUANTILES, rows, strict=True):
        same(row["count"], figures["count"], f"{what} count")
        if name in figures.get("infinite", []):
            same((row["infinite"], row["value_ns"]), (True, None), f"{what} {name}")
        elif name in figures.get("between_ns", {}):
            same([row["value_ns"], row["low_ns"], row["high_ns"]], [None, *figures["between_ns"][name]], f"{what} {name}")
        elif figures[f"{stem}_ns"] is not None:
            same(row["value_ns"], figures[f"{stem}_ns"], f"{what} {name}")


def all_rows(data_set, schema, metrics):
    """All rows by DuckDB and the view of `tardy schema samples`, which know nothing of the
    package; what the folders name comes out of the files' paths."""
    db = duckdb.connect()
    view = json.load(open(schema))["view"].replace("'trials/*/*[0-9]/samples.parquet'", f"'{data_set}/*/*/*/*/*/*/*/samples.parquet'")
    db.sql(view)
    known = ", ".join(f"nullif(url_decode(regexp_extract(filename, '/{key}=([^/]*)', 1)), '__HIVE_DEFAULT_PARTITION__') AS {key}" for key in KEYS)
    wanted = ", ".join(f'"{metric}"' for metric in metrics)
    return db.sql(f"SELECT {known}, stream, outcome, {wanted}, seq FROM metrics").to_arrow_table()


def exact(rows, metric, by):
    """The figures of each group by sorting: no bucket, no second pass. A function of the share."""
    groups = {}
    keys = list(zip(*(rows[key].to_pylist() for key in by))) or [()] * len(rows)
    for key, outcome, value in zip(keys, rows["outcome"].to_pylist(), rows[metric].to_pylist()):
        group = groups.setdefault(key, [[], 0])
        if outcome != "received":
            group[1] += 1
        elif value is not None:
            group[0].append(value)
    for group in groups.values():
        group[0].sort()

    def at(q):
        found = {}
        for key, (values, never) in groups.items():
            place = rank(q, len(values) + never)
            found[tuple(map(str, key))] = (values[place - 1] if 0 < place <= len(values) else None, len(values), len(values) + never)
        return found

    return at


def package(runs, metric, q, by, **more):
    rows = columns_of(runs.quantile(metric, q, by=by, **more))
    return {tuple(str(row[key]) for key in by): (row["value_ns"], row["count"], row["n"]) for row in rows}


def whole(found):
    """Without groups whose figure depends on packets that have no stamp."""
    return {group: figure for group, figure in found.items() if figure[0] is not None}


METRICS = ["scheduled..rx_kernel", "scheduled..wakeup", "rx_kernel..receive", "wakeup..receive", "send..rx_kernel"]


def groups(data_set, schema):
    """Percentiles of groups are those of all rows, as DuckDB, pandas and Polars have them: SET
    SAMPLES-SCHEMA."""
    runs = tardy.open(data_set).all_trials()
    true(not runs.omitted, runs.omitted)
    rows = all_rows(data_set, schema, METRICS)
    pandas, polars = runs.to_pandas(METRICS), runs.to_polars(METRICS)
    same((len(pandas), len(polars)), (len(rows), len(rows)), "rows")
    ties = lost = absent = 0
    for metric in METRICS:
        for by in BY:
            wanted_at = exact(rows, metric, by)
            for q in (0.0, 0.5, 0.99, 0.9999, 1.0):
                found, wanted = package(runs, metric, q, by), wanted_at(q)
                # Where stamps are missing the package may have none: see `results`.
                same(set(found), set(wanted), f"groups {metric} {by}")
                for group, figure in whole(found).items():
                    same(figure, wanted[group], f"DuckDB: {metric} {q} by {by} of {group}")
                lost += sum(figure[0] is None and figure[1] > 0 for figure in found.values())
        for by in (["host"], ["cell", "trial"]):
            found = package(runs, metric, 0.99, by)
            for group, part in pandas[pandas["outcome"] == "received"].groupby(by, dropna=False):
                values = part[metric].dropna().sort_values()
                count, n = found[tuple(map(str, group))][1:]
                same(len(values), count, f"pandas: {metric} by {by} of {group}")
                at = rank(0.99, n)
                if found[tuple(map(str, group))][0] is not None:
                    same(int(values.iloc[at - 1]), found[tuple(map(str, group))][0], f"pandas: {metric} by {by} of {group}")
            for group, part in polars.filter(polars["outcome"] == "received").group_by(by):
                values = part[metric].drop_nulls().sort()
                figure = found[tuple(map(str, group))]
                same(len(values), figure[1], f"Polars: {metric} by {by} of {group}")
                if figure[0] is not None:
                    same(values[rank(0.99, figure[2]) - 1], figure[0], f"Polars: {metric} by {by} of {group}")
        values = pc.drop_null(rows[metric])
        ties += len(values) - len(values.unique())
        absent += rows.filter(pc.equal(rows["outcome"], "received"))[metric].null_count
    true(ties > 1000 and lost > 0 and absent > 0, f"the runs have ties ({ties}), infinite figures ({lost}), absent stamps ({absent})")
    empty = package(runs.where(host="nobody"), "delta", 0.5, ["host"])
    same(empty, {}, "nothing of what is not there")
    same(runs.check(), (), "histograms are those of the rows")
    # The readers' own way to partitions.
    import polars as pl

    paths = glob.glob(f"{data_set}/**/samples.parquet", recursive=True)
    parts = [pl.scan_parquet(path, hive_partitioning=True).select("host", "cell") for path in paths]
    scanned = pl.concat(parts, how="diagonal_relaxed").unique().collect()
    same(sorted(set(map(str, scanned["cell"]))), sorted(set(map(str, rows["cell"].to_pylist()))), "Polars reads the folders' names")
    finish()


def spark(data_set, schema):
    """The same by two workers of Spark's, and the rows that they read: SET SAMPLES-SCHEMA."""
    from pyspark.sql import SparkSession

    # The workers are processes of their own, on this machine only.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "4")
    session = builder.config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"]).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    runs = tardy.open(data_set).all_trials()
    for metric, by, q in [("scheduled..rx_kernel", ["host", "kernel"], 0.9999), ("wakeup..receive", ["cell", "trial"], 0.99), ("delta", [], 0.5)]:
        same(package(runs, metric, q, by, spark=session), package(runs, metric, q, by), f"Spark: {metric} {q} by {by}")
    wanted = exact(all_rows(data_set, schema, METRICS), METRICS[0], ["host", "kernel"])(0.9999)
    for group, figure in whole(package(runs, METRICS[0], 0.9999, ["host", "kernel"], spark=session)).items():
        same(figure, wanted[group], f"Spark: all rows of {group}")
    frame = runs.to_spark(session, METRICS[:1])
    # A name with dots needs marks of its own in SQL.
    received = frame.where("outcome = 'received'").selectExpr("host", f"`{METRICS[0]}` AS value")
    rows = received.groupBy("host").agg({"value": "count"}).collect()
    found = package(runs, METRICS[0], 0.5, ["host"])
    for host, count in rows:
        same(count, found[(str(host),)][1], f"Spark: rows of {host}")
    # Spark's own way to the files, and what a damaged one is there.
    plain = session.read.option("mergeSchema", "true").parquet(data_set)
    same(plain.count(), frame.count(), "Spark reads the files")
    path = sorted(glob.glob(f"{data_set}/**/samples.parquet", recursive=True))[0]
    with open(path, "r+b") as file:
        file.truncate(100)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        again = package(tardy.open(data_set).all_trials(), "send..receive", 0.99, [], spark=session)
    true(any(issubclass(one.category, tardy.OmittedWarning) for one in told) and again[()][1] > 0, "a damaged run is left out on Spark")
    session.stop()
    finish()


def resum(path, change):
    """Writes a file of histograms anew after `change`, with a sum that fits: as tardy itself would
    have written wrong ones."""
    file = pq.ParquetFile(path)
    about = json.loads(file.metadata.metadata[b"tardy"])
    groups = [change(about["metrics"][at], file.read_row_group(at)) for at in range(file.num_row_groups)]

    def write(crc32):
        text = json.dumps({**about, "crc32": crc32}, separators=(",", ":"))
        schema = groups[0].schema.remove_metadata()
        with pq.ParquetWriter(path, schema, store_schema=False) as writer:
            for group in groups:
                writer.write_table(pa.Table.from_arrays(group.columns, schema=schema))
            writer.add_key_value_metadata({"tardy": text})

    write(0)
    held = open(path, "rb").read()
    chunks = zlib.crc32(held[: len(held) - 8 - int.from_bytes(held[-8:-4], "little")])
    write(zlib.crc32(json.dumps({**about, "crc32": chunks}, separators=(",", ":")).encode()))


def only(data_set, run):
    return glob.glob(f"{data_set}/*/*/*/*/run={run}")[0]


def asked(data_set, metric="scheduled..rx_kernel", q=0.99):
    """Figures, and what was left out."""
    runs = tardy.open(data_set)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tardy.OmittedWarning)
        found = package(runs, metric, q, ["run"])
    return {run for run, in found}, [str(one) for one in runs.omitted]


def hostile(data_set):
    """Each run that was spoilt is named, and the others are read: SET, with the runs one, two and
    three, of which a copy is spoilt each time."""
    every = {"one", "two", "three"}
    same(asked(data_set), (every, []), "all are sound")

    def spoilt(what, damage, says, metric="scheduled..rx_kernel", q=0.99, left=frozenset({"two"})):
        copy = data_set + ".spoilt"
        shutil.copytree(data_set, copy)
        damage(only(copy, "two"))
        found, omitted = asked(copy, metric, q)
        same(found, every - left, f"{what}: the rest is read")
        same(len(omitted), 1, f"{what}: {omitted}")
        true(says in omitted[0] and "run=" in omitted[0], f"{what}: {omitted}")
        shutil.rmtree(copy)

    def samples(run):
        return sorted(glob.glob(f"{run}/*/*/samples.parquet"))

    def cut(run):
        for path in samples(run):
            with open(path, "r+b") as file:
                file.truncate(os.path.getsize(path) // 2)

    def flip(path, at):
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1]))

    def about(run, change):
        path = f"{run}/_run.json"
        held = json.load(open(path))
        change(held)
        json.dump(held, open(path, "w"))

    def moved(metric, table):
        """A value of the fullest bucket is counted one bucket higher."""
        if metric != "scheduled..rx_kernel":
            return table
        count = table["count"].to_pylist()
        fullest = count.index(max(count))
        count[fullest] -= 1
        count[fullest + 1] += 1
        return table.set_column(5, "count", pa.array(count, pa.int64()))

    def fewer(metric, table):
        return table.set_column(5, "count", pc.subtract(table["count"], pa.array([1] + [0] * (len(table) - 1), pa.int64())))

    # No histogram is of this metric: the rows are read, whatever the percentile.
    spoilt("truncated samples", cut, "cut short", metric="send..receive")
    spoilt("a byte of the samples", lambda run: flip(samples(run)[0], 2000), "another sum", metric="send..receive")
    spoilt("no samples", lambda run: os.remove(samples(run)[0]), "cannot read", metric="send..receive")
    spoilt("a byte of the histograms", lambda run: flip(f"{run}/_histograms.parquet", 100), "another sum")
    spoilt("no histograms", lambda run: os.remove(f"{run}/_histograms.parquet"), "cannot read")
    spoilt("other counts than the run's", lambda run: resum(f"{run}/_histograms.parquet", fewer), "are not those of the run")
    spoilt("another format", lambda run: about(run, lambda held: held.update(format=2)), "has format 2, and this package reads 1")
    spoilt("half a document", lambda run: open(f"{run}/_run.json", "w").write('{"format": 1'), "cut short")
    spoilt("a document without trials", lambda run: about(run, lambda held: held.pop("trials")), "lacks 'trials'")

    # A histogram of other rows: noticed where a percentile falls into one of the two buckets.
    copy = data_set + ".moved"
    shutil.copytree(data_set, copy)
    resum(f"{only(copy, 'two')}/_histograms.parquet", moved)
    wrong = tardy.open(copy).check("scheduled..rx_kernel")
    true(len(wrong) == 1 and "run=two" in str(wrong[0]) and "is not that of" in str(wrong[0]), wrong)
    runs = tardy.open(copy).where(run="two")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tardy.OmittedWarning)
        runs.quantile("scheduled..rx_kernel", [q / 1000 for q in range(1, 1000)])
    told = str(runs.omitted)
    true("run=two" in told and "values of scheduled..rx_kernel from" in told, f"a histogram of other rows is noticed: {told}")
    shutil.rmtree(copy)

    # With a numbering of buckets that is not known, the rows are counted.
    copy = data_set + ".other"
    shutil.copytree(data_set, copy)
    path = f"{only(copy, 'two')}/_histograms.parquet"
    held = open(path, "rb").read()
    open(path, "wb").write(renamed(held))
    wanted = columns_of(tardy.open(data_set).quantile("scheduled..rx_kernel", [0.5, 0.9999], by="run"))
    same(columns_of(tardy.open(copy).quantile("scheduled..rx_kernel", [0.5, 0.9999], by="run")), wanted, "with other buckets")
    # The same run under another name, and another under the same name.
    shutil.copytree(only(copy, "one"), only(copy, "one").replace("run=one", "run=uno"))
    about(only(copy, "uno"), lambda held: held.update(run="uno"))
    about(only(copy, "three"), lambda held: held.update(run="one"))
    runs = tardy.open(copy)
    same(len(runs), 2, "runs that are there once")
    true("again: it counts once" in str(runs.omitted) and "another run is called `one`" in str(runs.omitted), runs.omitted)
    shutil.rmtree(copy)

    for path, says in [("/nowhere", "there is no folder"), (os.path.dirname(__file__), "holds no run"), ([], "no path was named")]:
        try:
            tardy.open(path)
            sys.exit(f"{path} was opened")
        except tardy.NoRuns as error:
            true(says in str(error), error)
    for ask, says in [
        (lambda runs: runs.quantile("rx_kernel..scheduled", 0.5), "is no metric"),
        (lambda runs: runs.quantile("delta", 1.5), "is no percentile"),
        (lambda runs: runs.quantile("delta", 0.5, by="colour"), "is nothing to group or choose by"),
        (lambda runs: runs.where(colour="red"), "is nothing to group or choose by"),
    ]:
        try:
            ask(tardy.open(data_set))
            sys.exit(f"{says}: it was answered")
        except tardy.BadQuestion as error:
            true(says in str(error), error)
    finish()


def renamed(held):
    """A file of histograms whose buckets have another name, of the same length."""
    own = len(held) - 8 - int.from_bytes(held[-8:-4], "little")
    about = json.loads(pq.ParquetFile(pa.BufferReader(held)).metadata.metadata[b"tardy"])
    before = json.dumps(about, separators=(",", ":")).encode()
    other = {**about, "buckets": "hdr-9999", "crc32": zlib.crc32(held[:own])}
    other["crc32"] = zlib.crc32(json.dumps(other, separators=(",", ":")).encode())
    after = json.dumps(other, separators=(",", ":")).encode()
    # The footer's lengths must stay: a number may have a digit more or fewer.
    after = after.replace(b'"crc32":', b'"crc32":' + b" " * (len(before) - len(after)))
    true(len(after) == len(before), f"{after} is as long as {before}")
    return held.replace(before, after)


FUNCTIONS = {"groups": groups, "hostile": hostile, "results": results, "spark": spark}
FUNCTIONS[sys.argv[1]](*sys.argv[2:])
