# SPDX-License-Identifier: MIT OR Apache-2.0
"""The buckets of tardy's histograms: magnitudes below 2048 ns have one each, every power of two
above has 1024. Numbers are ordered as values are, and 0 is the bucket of 0."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

#: What the files call this numbering.
NAME = "hdr-2048"

_BITS = 11
_EXACT = 1 << _BITS
_OCTAVE_BITS = _BITS - 1
_LAST = (53 << _OCTAVE_BITS) + (1 << _OCTAVE_BITS)


def buckets_of(values: Any) -> Any:
    """The bucket of each value."""
    magnitude = pc.abs(values)
    most = pc.max(magnitude).as_py()
    shift = pa.repeat(pa.scalar(0, pa.int64()), len(values))
    for bits in range(_BITS, (most or 0).bit_length()):
        shift = pc.add(shift, pc.cast(pc.greater_equal(magnitude, 1 << bits), pa.int64()))
    number = pc.add(pc.multiply(shift, 1 << _OCTAVE_BITS), pc.shift_right(magnitude, shift))
    return pc.if_else(pc.less(values, 0), pc.negate(number), number)


def bounds_of(bucket: int) -> tuple[int, int]:
    """Least and greatest value of a bucket."""
    number = min(abs(bucket), _LAST)
    low = high = number
    if number >= _EXACT:
        shift = (number >> _OCTAVE_BITS) - 1
        low = (number - (shift << _OCTAVE_BITS)) << shift
        high = low + (1 << shift) - 1
    low, high = min(low, (1 << 63) - 1), min(high, (1 << 63) - 1)
    return (-high, -low) if bucket < 0 else (low, high)


def are_same(least: int, greatest: int) -> bool:
    """True if two figures are no farther apart than a bucket is wide."""
    return greatest - least <= max(abs(least), 1024) // 1024
