# SPDX-License-Identifier: MIT OR Apache-2.0
"""DuckDB and Polars read the samples, as Parquet and as CSV: RESULTS SAMPLES-SCHEMA CSV RUN. The first two are JSON."""

import glob
import json
import sys

import duckdb
import polars as pl
from expect import QUANTILES, finish, greatest, is_infinite, metrics, never, rank, same, true


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


def main(results, schema, csv, run):
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
    # The round trip less what the reflector's program held it: a difference of two columns, and none of its own.
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


main(*sys.argv[1:])
