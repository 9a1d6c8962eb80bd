# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an exact tail over many runs costs: the package `tardy`, DuckDB and Spark SQL side by side.

    python benches/fleet.py make DIR [RUNS]    generates runs of 50 000 packets, exports them
    python benches/fleet.py measure DIR        prints a table

It needs the release build (`generate` and `tardy`, where GENERATE and TARDY say), the packages of
packaging/requirements.txt and requirements-soak.txt, and python/src in PYTHONPATH. REPEATS is how
often each is asked. Everything is a function of the seeds, which are the runs' numbers."""

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

PACKETS = 50_000
HOSTS, KERNELS = 10, 2
SIZES = [100, 300, 1000]
METRIC, Q = "scheduled..rx_kernel", 0.9999
REPEATS = int(os.environ.get("REPEATS", "3"))
# Of the generator: neighbours from `scheduled` to `rx_kernel`.
STAGES = ["scheduled..wakeup", "wakeup..send", "send..tx_sched", "tx_sched..tx_kernel", "tx_kernel..rx_kernel"]


def run(*command, quiet=True):
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL if quiet else None)


def make(folder, runs=str(max(SIZES))):
    """Runs 0, 1, 2 … from ten hosts with two kernels; smaller sets are links to the first."""
    runs = int(runs)
    generate, tardy = os.environ["GENERATE"], os.environ["TARDY"]
    work, whole = f"{folder}/work", f"{folder}/set-{runs}"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(work)

    def batch(start):
        paths = []
        for seed in range(start, min(runs, start + 20)):
            path = f"{work}/r{seed:04}"
            host, kernel = f"h{seed % HOSTS}", f"6.{12 + seed // HOSTS % KERNELS}.0-amd64"
            run(generate, path, "--rows", str(PACKETS), "--trials", "1", "--seed", str(seed), "--host", host, "--kernel", kernel)
            paths.append(path)
        run(tardy, "export", *paths, "--to", "dataset", "-o", whole)
        for path in paths:
            shutil.rmtree(path)

    began = time.monotonic()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(batch, range(0, runs, 20)))
    print(f"{runs} runs made and exported in {time.monotonic() - began:.0f} s")
    for size in (size for size in SIZES if size < runs):
        for at, names, files in os.walk(whole):
            name = next((part for part in at.split("/") if part.startswith("run=r")), None)
            if name is not None and int(name[5:]) < size:
                place = at.replace(whole, f"{folder}/set-{size}", 1)
                os.makedirs(place, exist_ok=True)
                for file in files:
                    os.link(f"{at}/{file}", f"{place}/{file}")


def package(data_set):
    import tardy

    def ask():
        table = tardy.open(data_set).quantile(METRIC, Q, by=["host", "kernel"])
        return {(row["host"], row["kernel"]): row["value_ns"] for row in table.to_pylist()}

    return ask


def duckdb(data_set):
    import duckdb

    # A packet that never arrived counts as the latest, as it does for tardy.
    value = f"CASE WHEN outcome = 'received' THEN {' + '.join(f'{chr(34)}{stage}{chr(34)}' for stage in STAGES)} ELSE {(1 << 63) - 1} END"
    sql = f"""SELECT host, kernel, quantile_disc({value}, {Q})
        FROM read_parquet('{data_set}/**/samples.parquet', hive_partitioning = true, hive_types_autocast = false) GROUP BY host, kernel"""
    return lambda: {(host, kernel): value for host, kernel, value in duckdb.connect().sql(sql).fetchall()}


def session():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "6g")
    made = builder.config("spark.sql.sources.partitionColumnTypeInference.enabled", "false").getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def spark_sql(data_set):
    spark = session()
    value = f"CASE WHEN outcome = 'received' THEN {' + '.join(f'`{stage}`' for stage in STAGES)} ELSE {(1 << 62)} END"

    def ask():
        frame = spark.read.parquet(data_set).selectExpr("host", "kernel", f"{value} AS v")
        frame.createOrReplaceTempView("packets")
        found = spark.sql(f"SELECT host, kernel, percentile(v, {Q}) FROM packets GROUP BY host, kernel").collect()
        return {(host, kernel): value for host, kernel, value in found}

    return ask


def spark_package(data_set):
    import tardy

    spark = session()

    def ask():
        table = tardy.open(data_set).quantile(METRIC, Q, by=["host", "kernel"], spark=spark)
        return {(row["host"], row["kernel"]): row["value_ns"] for row in table.to_pylist()}

    return ask


ENGINES = {"package": package, "duckdb": duckdb, "package on Spark": spark_package, "Spark SQL percentile": spark_sql}


def one(engine, data_set):
    """In a process of its own: seconds of each repetition, peak memory, the figures."""
    ask, took, found = ENGINES[engine](data_set), [], {}
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(REPEATS):
        began = time.monotonic()
        found = ask()
        took.append(time.monotonic() - began)
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = (used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime) / REPEATS
    print(json.dumps({"took": took, "cpu": cpu, "peak": used.ru_maxrss / 1024, "found": sorted([*key, value] for key, value in found.items())}))


def measure(folder):
    print("| runs | packets | engine | median, s | first, s | CPU of one, s | peak memory, MiB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for size in SIZES:
        figures = None
        for engine in ENGINES:
            command = [sys.executable, __file__, "one", engine, f"{folder}/set-{size}"]
            ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            told = json.loads(ended.stdout.strip().splitlines()[-1])
            took = told["took"]
            # Spark works in a process of its own, which this one does not see.
            own = "– | –" if "Spark" in engine else f"{told['cpu']:.2f} | {told['peak']:.0f}"
            row = f"| {size} | {size * PACKETS:,} | {engine} | {sorted(took)[len(took) // 2]:.2f} | {took[0]:.2f} | {own} |"
            print(row.replace(",", " "), flush=True)
            # Spark's percentile interpolates between two packets; the others must agree.
            if engine != "Spark SQL percentile":
                assert figures in (None, told["found"]), f"{engine} finds other figures: {told['found']}, {figures}"
                figures = told["found"]


if __name__ == "__main__":
    {"make": make, "measure": measure, "one": one}[sys.argv[1]](*sys.argv[2:])
