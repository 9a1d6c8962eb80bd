# SPDX-License-Identifier: MIT OR Apache-2.0
"""HdrHistogram's Python package reads a run's log and its trials' logs: RESULTS EXPORT RUN."""

import json
import sys

from expect import QUANTILES, finish, greatest, is_infinite, metrics, never, rank, same, true
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

HOUR = 3_600_000_000_000


def read(path, digits):
    """The histograms of a log by tag, the lines of a tag added up."""
    reader = HistogramLogReader(path, HdrHistogram(1, HOUR, digits))
    sums = {}
    while (histogram := reader.get_next_interval_histogram()) is not None:
        tag = histogram.get_tag()
        # A ping-pong has no schedule whose length an interval could have: it lasts as long as its round trips took.
        true(histogram.get_end_time_stamp() > histogram.get_start_time_stamp(), f"{path} {tag}: an interval has a length")
        if tag in sums:
            sums[tag].add(histogram)
        else:
            sums[tag] = histogram
    reader.close()
    return sums


hours = []


def compare(histogram, n, quantiles, infinite, what, digits):
    """Each percentile at the results' own rank: the package rounds a rank to the nearest, the results round up."""
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


def main(results, export, run):
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


main(*sys.argv[1:])
