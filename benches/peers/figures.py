# SPDX-License-Identifier: MIT OR Apache-2.0
"""The figures of tardy's table, made by DuckDB or numpy from the same Parquet files.

    figures.py duckdb|numpy RUN

$TARDY_SAMPLES holds what `tardy schema samples` prints. Prints one line a metric.
"""

import glob
import json
import math
import os
import sys

METRICS = ["scheduled..wakeup", "scheduled..rx_kernel", "tx_kernel..rx_kernel", "rx_kernel..receive", "delta"]
QUANTILES = [0.5, 0.9, 0.99, 0.999, 0.9999]


def by_duckdb(run):
    import duckdb

    db = duckdb.connect()
    db.sql(f"SET file_search_path = '{run}'")
    db.sql(json.loads(os.environ["TARDY_SAMPLES"])["view"])
    # Without delta, which takes DuckDB a window over all rows in order of arrival: minutes at 100 M
    # rows.
    metrics = METRICS[:-1]
    figures = ", ".join(
        f'count("{m}"), min("{m}"), max("{m}"), avg("{m}"), stddev_pop("{m}"), quantile_disc("{m}", {QUANTILES})'
        for m in metrics
    )
    (row,) = db.sql(f"SELECT {figures} FROM metrics").fetchall()
    for n, metric in enumerate(metrics):
        print(metric, *row[6 * n : 6 * n + 6])


def by_numpy(run):
    import numpy
    import polars

    files = sorted(glob.glob(f"{run}/trials/*/*/samples.parquet"))
    stages = [c for c in polars.read_parquet_schema(files[0]) if ".." in c]
    # Trial by trial, and one metric at a time: all at once takes many gigabytes.
    for metric in METRICS:
        values = []
        for path in files:
            if metric == "delta":
                table = polars.read_parquet(path, columns=["scheduled_ns"] + stages)
                until = stages[: [s.split("..")[1] for s in stages].index("rx_kernel") + 1]
                at = table.select(sum((polars.col(s) for s in until), polars.col("scheduled_ns"))).to_series()
                values.append(numpy.diff(numpy.sort(at.drop_nulls().to_numpy())))
            else:
                first, last = metric.split("..")
                begin = 0 if first == "scheduled" else [s.split("..")[1] for s in stages].index(first) + 1
                end = [s.split("..")[1] for s in stages].index(last) + 1
                table = polars.read_parquet(path, columns=stages[begin:end])
                values.append(table.select(sum(polars.col(s) for s in stages[begin:end])).to_series().drop_nulls().to_numpy())
        all_values = numpy.concatenate(values)
        ranks = [max(math.ceil(q * len(all_values)) - 1, 0) for q in QUANTILES]
        at_ranks = numpy.partition(all_values, ranks)[ranks]
        print(metric, len(all_values), all_values.min(), all_values.max(), all_values.mean(), all_values.std(), *at_ranks)


if __name__ == "__main__":
    {"duckdb": by_duckdb, "numpy": by_numpy}[sys.argv[1]](sys.argv[2])
