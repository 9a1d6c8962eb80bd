# SPDX-License-Identifier: MIT OR Apache-2.0
"""prometheus_client parses the figures: RESULTS TEXT. Every sample is explained by the results, and nothing is left."""

import json
import math
import sys

from expect import QUANTILES, finish, greatest, is_infinite, metrics, same, true
from prometheus_client.parser import text_string_to_metric_families

NAN = math.nan


def or_nan(ns):
    return NAN if ns is None else ns / 1e9


def main(results, text):
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


main(*sys.argv[1:])
