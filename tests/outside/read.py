# SPDX-License-Identifier: MIT OR Apache-2.0
"""Other people's Python packages read what tardy writes: WHAT ARGUMENTS…, where WHAT is a function
at the end of this file.

Each compares what its package reads with the results of the run, ends with what differs, and else
prints how many things it compared."""

import copy
import glob
import json
import math
import sys
import tomllib
import xml.etree.ElementTree as tree

import duckdb
import polars as pl
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families

QUANTILES = [("p50", "p50", 5000), ("p90", "p90", 9000), ("p99", "p99", 9900), ("p99_9", "p99.9", 9990), ("p99_99", "p99.99", 9999)]
compared = 0


def same(got, wanted, what):
    """Ends the script with what differs."""
    global compared
    compared += 1
    equal = got == wanted or (isinstance(got, float) and isinstance(wanted, float) and math.isnan(got) and math.isnan(wanted))
    if not equal:
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


HOUR = 3_600_000_000_000


def read(path, digits):
    """The histograms of a log by tag, the lines of a tag added up."""
    reader = HistogramLogReader(path, HdrHistogram(1, HOUR, digits))
    sums = {}
    while (histogram := reader.get_next_interval_histogram()) is not None:
        tag = histogram.get_tag()
        # A ping-pong has no schedule whose length an interval could have: it lasts as long as its
        # round trips took.
        true(histogram.get_end_time_stamp() > histogram.get_start_time_stamp(), f"{path} {tag}: an interval has a length")
        if tag in sums:
            sums[tag].add(histogram)
        else:
            sums[tag] = histogram
    reader.close()
    return sums


hours = []


def compare(histogram, n, quantiles, infinite, what, digits):
    """Each percentile at the results' own rank: the package rounds a rank to the nearest, the
    results round up."""
    same(histogram.get_total_count(), n, f"{what} count")
    # Finding an hour takes the package a second, so one such percentile stands for the others.
    asked = {}
    for stem, name, parts in QUANTILES:
        if not infinite(stem, name) or not hours:
            asked[100 * rank(parts, n) / n] = (stem, name)
            hours.extend([name] * infinite(stem, name))
    decoded = histogram.get_percentile_to_value_dict(list(asked))
    for percentile, (stem, name) in asked.items():
        value, wanted = decoded[percentile], quantiles[f"{stem}_ns"]
        if infinite(stem, name):
            same(histogram.get_lowest_equivalent_value(value), histogram.get_lowest_equivalent_value(HOUR), f"{what} {name}")
        elif wanted is not None:
            same(value, histogram.get_highest_equivalent_value(max(wanted, 0)), f"{what} {name}")
            if 0 <= wanted < 1 << 18 and digits == 5:
                same(value, wanted, f"{what} {name} to the nanosecond")
    if n % 100 == 0 and quantiles["p99_ns"] is not None and 0 <= quantiles["p99_ns"] < 1 << 18 and digits == 5:
        same(histogram.get_value_at_percentile(99.0), quantiles["p99_ns"], f"{what} as anyone would ask for p99")


def hlog(results, export, run):
    """HdrHistogram's Python package reads a run's log and its trials' logs: RESULTS EXPORT RUN."""
    results = json.load(open(results))
    tags = read(export, 5)
    for cell, name, stream, metric, figures in metrics(results):
        tag = f"{cell['id'].replace(',', '+')}/{name}/{metric}"
        if figures["count"] == 0:
            true(tag not in tags, f"{tag} has no values and no line")
            continue
        lost = never(stream, metric)
        everything = tags.pop(tag)
        compare(everything, figures["count"] + lost, figures, lambda *q: is_infinite(figures, *q), tag, 5)
        received = tags.pop(f"{tag}/received") if lost else everything
        only = figures.get("received_only", figures)
        compare(received, figures["count"], only, lambda *_: False, f"{tag} received", 5)
        same(received.get_max_value(), received.get_highest_equivalent_value(greatest(figures)), f"{tag} max")
        least = max(figures["min_ns"], 0)
        same(received.get_lowest_equivalent_value(received.get_min_value()), received.get_lowest_equivalent_value(least), f"{tag} min")
    same(tags, {}, "tags that no metric explains")

    for cell in results["cells"]:
        for trial in cell["trials"]:
            for name, stream in trial["streams"].items():
                path = f"{run}/trials/{cell['id']}/{trial['n']}/{name}.hlog"
                logged = read(path, 3)
                for metric, figures in stream["metrics"].items():
                    if figures["count"] == 0:
                        continue
                    only = figures.get("received_only", figures)
                    histogram = logged.pop(metric)
                    same(histogram.get_total_count(), figures["count"], f"{path} {metric}")
                    compare(histogram, figures["count"], only, lambda *_: False, f"{path} {metric}", 3)
                same(logged, {}, f"tags in {path}")
    finish()


def judge(figures, n, value_at, what):
    for stem, name, parts in QUANTILES:
        wanted = figures[f"{stem}_ns"]
        if is_infinite(figures, stem, name):
            same(value_at(rank(parts, n)), None, f"{what} {name} is infinite")
        elif wanted is not None:
            same(value_at(rank(parts, n)), wanted, f"{what} {name}")


def columns(schema, run):
    """Every column of every file is one that the schema describes, of its type."""
    types = {"INT64": pl.Int64, "INT32": pl.Int32, "STRING": pl.String}
    known = {column["name"]: types[column["type"]] for column in schema["columns"]}
    for path in glob.glob(f"{run}/trials/*/*[0-9]/samples.parquet"):
        frame = pl.read_parquet(path)
        true(set(known) <= set(frame.columns), f"{path} has every fixed column")
        for name, kind in frame.schema.items():
            if name in known:
                same(kind, known[name], f"{path} {name}")
            else:
                a, b = name.split("..")
                points = schema["points"]
                true(points.index(a) < points.index(b), f"{path} {name}")
                same(kind, pl.Int64, f"{path} {name}")
        for column in schema["columns"]:
            if not column["nullable"]:
                same(frame[column["name"]].null_count(), 0, f"{path} {column['name']}")


def in_duckdb(db, results):
    for cell, name, stream, metric, figures in metrics(results):
        where = "outcome = 'received' AND cell = ? AND stream = ? AND in_figures"
        values = db.execute(
            f'SELECT "{metric}" FROM judged WHERE {where} AND "{metric}" IS NOT NULL ORDER BY 1', [cell["id"], name]
        ).fetchnumpy()[metric]
        what = f"DuckDB {cell['id']} {name} {metric}"
        same(len(values), figures["count"], f"{what} count")
        if len(values):
            same(int(values[0]), figures["min_ns"], f"{what} min")
            same(int(values[-1]), greatest(figures), f"{what} max")
            n = len(values) + never(stream, metric)
            judge(figures, n, lambda r: int(values[r - 1]) if r <= len(values) else None, what)


def in_polars(frame, results):
    for cell, name, stream, metric, figures in metrics(results):
        rows = frame.filter(
            (pl.col("cell") == cell["id"]) & (pl.col("stream") == name) & pl.col("in_figures") & (pl.col("outcome") == "received")
        )
        values = rows[metric].drop_nulls().sort()
        what = f"Polars {cell['id']} {name} {metric}"
        same(len(values), figures["count"], f"{what} count")
        if len(values):
            n = len(values) + never(stream, metric)
            judge(figures, n, lambda r: values[r - 1] if r <= len(values) else None, what)


def samples(results, schema, csv, run):
    """DuckDB and Polars read the samples, as Parquet and as CSV: RESULTS SAMPLES-SCHEMA CSV RUN.
    The first two are JSON."""
    results, schema = json.load(open(results)), json.load(open(schema))
    columns(schema, run)
    db = duckdb.connect()
    db.sql(f"SET file_search_path = '{run}'")
    db.sql(schema["view"])
    db.sql(
        f"""CREATE TABLE exported AS SELECT * FROM read_csv('{csv}', header = true, nullstr = '', types = {{'flags': 'VARCHAR',
        'cell': 'VARCHAR', 'stream': 'VARCHAR', 'outcome': 'VARCHAR', 'pcp': 'INTEGER', 'in_figures': 'BOOLEAN'}}, all_varchar = false,
        auto_detect = true, sample_size = -1)"""
    )
    spans = [name for name in db.table("exported").columns if ".." in name] + ["delta"]
    # The CSV tells what the Parquet tells, row by row; flags are words there and bits here.
    names = {flag["bit"]: flag["name"] for flag in schema["flags"]}
    words = " || ".join(f"CASE WHEN flags & {bit} > 0 THEN ' {word}' ELSE '' END" for bit, word in sorted(names.items()))
    keys = "stream, seq, scheduled_ns, outcome"
    every = ", ".join(f'"{name}"::BIGINT AS "{name}"' for name in spans)
    view = f"""SELECT split_part(filename, '/', -3) AS cell, split_part(filename, '/', -2)::BIGINT AS trial, {keys},
        nullif(trim({words}), '') AS flags, pcp::BIGINT AS pcp, {every} FROM metrics"""
    copy = f"SELECT cell, trial::BIGINT AS trial, {keys}, flags, pcp::BIGINT AS pcp, {every} FROM exported"
    rows = db.execute("SELECT count(*) FROM metrics").fetchone()[0]
    same(db.execute("SELECT count(*) FROM exported").fetchone()[0], rows, "rows of the CSV")
    true(rows > 0, "there are rows")
    same(db.execute(f"({view}) EXCEPT ALL ({copy})").fetchall()[:3], [], "rows of the Parquet that the CSV lacks")
    # The round trip less what the reflector's program held it: a difference of two columns, and
    # none of its own.
    parts = ["send..reply_receive", "receive..reply_send"]
    answered = set(parts) <= set(spans)
    transit = f', "{parts[0]}" - "{parts[1]}" AS transit' if answered else ""
    db.sql(
        f"""CREATE TABLE judged AS SELECT m.*{transit}, e.in_figures FROM ({view}) m
        JOIN (SELECT DISTINCT cell, trial, in_figures FROM exported) e ON m.cell = e.cell AND m.trial = e.trial"""
    )
    in_duckdb(db, results)
    numbers = {name: pl.Int64 for name in spans} | {"pcp": pl.Int64, "flags": pl.String}
    frame = pl.read_csv(csv, schema_overrides=numbers)
    same(len(frame), rows, "rows that Polars reads")
    if answered:
        frame = frame.with_columns((pl.col(parts[0]) - pl.col(parts[1])).alias("transit"))
    in_polars(frame.with_columns(pl.col("in_figures").cast(pl.Boolean)), results)
    finish()


def hints(schema, csv, run):
    """DuckDB reads what XDP programs left before packets, by the view and from the CSV:
    SAMPLES-SCHEMA CSV RUN.

    Rows alternate between two structs, and each 7th has no hint. `time` is in both, `gap` and `pcp`
    in one."""
    db = duckdb.connect()
    db.sql(f"SET file_search_path = '{run}'")
    db.sql(json.load(open(schema))["view"])
    wanted = ["hint", "time", "gap", "priority.pcp", "stamp"]
    same(db.table("metrics").columns[-len(wanted):], wanted, "the view's last columns")
    db.sql(f"CREATE TABLE exported AS SELECT * FROM read_csv('{csv}', header = true, nullstr = '', sample_size = -1)")
    same(db.table("exported").columns[-len(wanted):], wanted, "the CSV's last columns")
    every = ", ".join(f'"{name}"' for name in wanted)
    for seq, hint, *values in db.execute(f"SELECT seq, {every} FROM metrics ORDER BY filename, seq").fetchall():
        name = None if seq % 7 == 0 else "priority" if seq % 2 else "arrival"
        same(hint, name, f"the struct of {seq}")
        known = {"arrival": [(1 << 63) + seq, -seq, None, None], "priority": [(1 << 63) + seq, None, seq % 8, 2 * seq]}
        same(values, known.get(name, [None] * 4), f"the members of {seq}")
    rows = f"SELECT split_part(filename, '/', -2)::BIGINT AS trial, seq, {every} FROM metrics"
    copy = f"SELECT trial::BIGINT AS trial, seq, {every} FROM exported"
    true(db.execute(f"SELECT count(*) FROM ({rows})").fetchone()[0] > 0, "there are rows")
    same(db.execute(f"({rows}) EXCEPT ALL ({copy})").fetchall()[:3], [], "rows of the Parquet that the CSV lacks")
    # A member that has the name of what the view computes for itself does not get into a metric.
    same(db.execute("SELECT count(*) FROM metrics WHERE delta IS NULL AND seq > 0").fetchone()[0], 0, "packets without a delta")
    finish()


NAN = math.nan


def or_nan(ns):
    return NAN if ns is None else ns / 1e9


def prometheus(results, text):
    """prometheus_client parses the figures: RESULTS TEXT. Every sample is explained by the results,
    and nothing is left."""
    results = json.load(open(results))
    samples, families = {}, {}
    for family in text_string_to_metric_families(open(text).read()):
        true(family.name not in families and family.documentation, f"{family.name} stands once, with its help")
        families[family.name] = family.type
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            true(key not in samples, f"{key} stands once")
            samples[key] = float(sample.value)

    def take(name, wanted, **labels):
        key = (name, tuple(sorted({"experiment": results["name"], **labels}.items())))
        true(key in samples, f"{key} is there")
        same(samples.pop(key), float(wanted), str(key))

    for name, kind in families.items():
        true(name.startswith("tardy_"), name)
        same(kind, "summary" if name in ("tardy_latency_seconds", "tardy_latency_received_seconds") else "gauge", name)
    for key in [key for key in samples if key[0] in ("tardy_run_info", "tardy_run_start_time_seconds")]:
        true(math.isfinite(samples.pop(key)), key)
    take("tardy_run_valid", results["valid"])
    met = results["expectations_met"]
    take("tardy_run_expectations_met", NAN if met is None else met)
    for e in results["expectations"]:
        limit = f"{e['limit_ns'] / 1e9:.9f}".rstrip("0").rstrip(".") if "limit_ns" in e else str(e["limit"])
        labels = {key: e[key] for key in ("cell", "stream", "metric", "of")}
        take("tardy_expectation_met", NAN if e["met"] is None else e["met"], limit=limit, **labels)
    for cell in results["cells"]:
        take("tardy_cell_valid", NAN if "not_available" in cell else cell["valid"], cell=cell["id"])
        for valid in (True, False):
            n = sum(trial["valid"] == valid for trial in cell["trials"])
            take("tardy_trials", n, cell=cell["id"], valid=str(valid).lower())
        for name, stream in cell["streams"].items():
            for outcome in ("received", "lost", "not_sent"):
                take("tardy_packets", stream["outcomes"][outcome], cell=cell["id"], stream=name, outcome=outcome)
            for flag in ("early", "late", "duplicate", "reordered"):
                take("tardy_packets_flagged", stream["outcomes"][flag], cell=cell["id"], stream=name, flag=flag)
    for of, verdicts in [(cell["id"], cell["verdicts"]) for cell in results["cells"]] + [("", results["verdicts"])]:
        told = [(v["id"], v["level"]) for v in verdicts if v["level"] != "ok"]
        for id, level in set(told):
            take("tardy_verdicts", told.count((id, level)), cell=of, id=id, level=level)
    for cell, name, _, metric, figures in metrics(results):
        labels = {"cell": cell["id"], "stream": name, "metric": metric}
        only = figures.get("received_only", figures)
        for stem, quantile, parts in QUANTILES:
            q = str(parts / 10_000)
            wanted = math.inf if is_infinite(figures, stem, quantile) else or_nan(figures[f"{stem}_ns"])
            take("tardy_latency_seconds", wanted, quantile=q, **labels)
            take("tardy_latency_received_seconds", or_nan(only[f"{stem}_ns"]), quantile=q, **labels)
        total = (figures["mean_ns"] or 0.0) * figures["count"] / 1e9
        for family in ("tardy_latency_seconds", "tardy_latency_received_seconds"):
            take(f"{family}_count", figures["count"], **labels)
            take(f"{family}_sum", total, **labels)
        for stem in ("min", "mean", "stddev"):
            take(f"tardy_latency_{stem}_seconds", or_nan(figures[f"{stem}_ns"]), **labels)
        unbounded = is_infinite(figures, "max", "max")
        take("tardy_latency_max_seconds", math.inf if unbounded else or_nan(figures["max_ns"]), **labels)
        if unbounded:
            take("tardy_latency_received_max_seconds", or_nan(greatest(figures)), **labels)
        take("tardy_latency_coverage_ratio", figures["coverage"], **labels)
        take("tardy_latency_negative", figures.get("negative", 0), **labels)
    same(samples, {}, "samples that the results do not explain")
    finish()


def load(path):
    if path.endswith(".toml"):
        return tomllib.load(open(path, "rb"))
    return json.load(open(path))


def places(schema, root, document, seen, at=()):
    """Each key that the schema requires, where the document first has it."""
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    if isinstance(document, dict):
        for key in schema.get("required", []):
            if key in document and (id(schema), key) not in seen:
                seen.add((id(schema), key))
                yield at, key
        for key, value in document.items():
            below = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
            if isinstance(below, dict):
                yield from places(below, root, value, seen, at + (key,))
    elif isinstance(document, list) and isinstance(schema.get("items"), dict):
        for i in range(len(document)):
            yield from places(schema["items"], root, document[i], seen, at + (i,))


def wrong(schema, document, kind):
    """Copies with one fault each."""
    for at, key in places(schema, schema, document, set()):
        for what in ("missing", "of another type"):
            bad = copy.deepcopy(document)
            place = bad
            for step in at:
                place = place[step]
            if what == "missing":
                del place[key]
            else:
                place[key] = {"no": ["such", "thing"]} if not isinstance(place[key], dict) else 3
            # Where anything is allowed, nothing is wrong.
            if what == "missing" or key not in ("says", "value"):
                yield f"{'/'.join(map(str, at))}/{key} {what}", bad
    if kind == "experiment":
        for fault, change in {
            "unknown key": lambda e: e.update(streem={}),
            "cycle without a unit": lambda e: next(iter(e["stream"].values())).update(cycle=500),
            "no such wait": lambda e: next(iter(e["stream"].values()))["rx"].update(wait="sleep"),
            "no trials": lambda e: e.update(trials=0),
        }.items():
            bad = copy.deepcopy(document)
            change(bad)
            yield fault, bad
    else:
        yield "a newer format", {**document, "format": 99}


def schema(schemas, *documents):
    """Python's jsonschema judges a run's documents, and copies of them that are wrong: SCHEMAS (a
    folder) DOCUMENT…, each `kind=path`."""
    validators = {}
    for kind in ("experiment", "results", "manifest"):
        schema = load(f"{schemas}/{kind}.json")
        Draft202012Validator.check_schema(schema)
        validators[kind] = Draft202012Validator(schema)
    for named in documents:
        kind, path = named.split("=", 1)
        validator, document = validators[kind], load(path)
        faults = [f"{path}: {'/'.join(map(str, e.absolute_path))}: {e.message}" for e in validator.iter_errors(document)]
        true(not faults, faults[:3])
        for fault, bad in wrong(validator.schema, document, kind):
            true(not validator.is_valid(bad), f"{path}: {fault}: accepted")
    finish()


def junit(results, *files):
    """JUnit XML as CI systems read it: parsed, its counts those of its test cases, its broken
    limits those of the results."""
    with open(results, encoding="utf-8") as file:
        results = json.load(file)
    kinds = {"failures": "failure", "errors": "error", "skipped": "skipped"}

    for path in files:
        root = tree.parse(path).getroot()
        same(root.tag, "testsuites", path)
        for suite in [root, *root]:
            cases = suite.findall(".//testcase")
            same(int(suite.get("tests")), len(cases), f"{path}: tests")
            for count, kind in kinds.items():
                same(int(suite.get(count)), len(suite.findall(f".//testcase/{kind}")), f"{path}: {count}")
            for case in cases:
                true(case.get("name") and case.get("classname"), f"{path}: a test case without a name")
                true(all(kind.get("message") == kind.text for kind in case), f"{path}: {case.get('name')}")

    # The first file is the run's own.
    root = tree.parse(files[0]).getroot()
    broken = [limit for limit in results["expectations"] if limit["met"] is False]
    same(len(root.findall(".//failure")), len(broken), "broken limits")
    invalid = [cell for cell in results["cells"] if not cell["valid"]]
    true(len(root.findall(".//error")) >= len(invalid), "cells that are not valid")
    finish()


{"hints": hints, "hlog": hlog, "junit": junit, "prometheus": prometheus, "samples": samples, "schema": schema}[sys.argv[1]](*sys.argv[2:])
