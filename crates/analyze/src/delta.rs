// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gap between two packets' stamps, `delta`: of which stamp it is.

use tardy_model::point::Point;
use tardy_model::trial::StreamRecord;

/// The stamp that `delta` is of: `rx_kernel`, or `rx_xdp` where packets never reach the kernel's
/// stack.
pub fn delta_of(stream: &StreamRecord) -> Point {
    let has = |point: Point| stream.sources.contains_key(&point);
    if !has(Point::RxKernel) && has(Point::RxXdp) { Point::RxXdp } else { Point::RxKernel }
}
