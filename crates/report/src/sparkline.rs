// SPDX-License-Identifier: MIT OR Apache-2.0
//! A histogram in one line of text.

use crate::bins::Scale;

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A histogram as `cells` characters, from the least value on the left to the greatest on the
/// right, in bins of equal width on a logarithmic scale. Heights are proportional to counts; a bin
/// with anything in it shows at least `▁`, an empty one a space. `bars`: lowest and highest value
/// of a bucket in ns, how many.
pub fn sparkline(bars: &[(i64, i64, u64)], cells: usize) -> String {
    Scale::over(bars.iter()).map_or_else(String::new, |scale| on(&scale, bars, cells).trim_end().to_owned())
}

/// The same on a given scale, so that several can be compared; always `cells` characters.
pub(crate) fn on(scale: &Scale, bars: &[(i64, i64, u64)], cells: usize) -> String {
    let counts = scale.bins(bars, cells);
    let most = counts.iter().copied().fold(0.0, f64::max);
    let level = |count: f64| {
        if count <= 0.0 {
            return ' ';
        }
        let step = (count / most * LEVELS.len() as f64).ceil() as usize;
        LEVELS[step.clamp(1, LEVELS.len()) - 1]
    };
    counts.into_iter().map(level).collect()
}
