// SPDX-License-Identifier: MIT OR Apache-2.0
//! A histogram in one line of text, and the bins of equal width on a logarithmic scale that it
//! shows.

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

/// Where a value stands between the least and the greatest one. Logarithmic; where values reach
/// down to zero or below, the inverse hyperbolic sine, which is linear about zero and logarithmic
/// further out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    /// Half-width of the linear middle, ns; `None` for a plain logarithm.
    middle: Option<f64>,
}

impl Scale {
    /// The scale on which all of these buckets stand; `None` without buckets.
    pub fn over<'a>(bars: impl Iterator<Item = &'a (i64, i64, u64)> + Clone) -> Option<Scale> {
        let bars = bars.filter(|bar| bar.2 > 0);
        let low = bars.clone().map(|bar| bar.0).min()?;
        let high = bars.clone().map(|bar| bar.1).max()?;
        let middle = (low <= 0).then(|| {
            // A tenth of the median distance from zero parts "about zero" from "far off" at any
            // magnitude, and one far packet does not move it.
            let mut distances: Vec<(u64, u64)> =
                bars.map(|bar| ((bar.0 / 2 + bar.1 / 2).unsigned_abs(), bar.2)).collect();
            distances.sort_unstable();
            let half = distances.iter().map(|(_, count)| count).sum::<u64>() / 2;
            let mut below = 0;
            let median = distances.iter().find(|(_, count)| {
                below += count;
                below > half
            });
            median.map_or(1.0, |(distance, _)| *distance as f64 / 10.0).max(1.0)
        });
        // A bucket covers its whole last nanosecond.
        Some(Scale { low: low as f64, high: high as f64 + 1.0, middle })
    }

    fn stretch(&self, ns: f64) -> f64 {
        match self.middle {
            None => ns.max(1.0).ln(),
            Some(middle) => (ns / middle).asinh(),
        }
    }

    /// 0 for the least value, 1 for the greatest, in between and beyond.
    pub fn at(&self, ns: f64) -> f64 {
        let (low, high) = (self.stretch(self.low), self.stretch(self.high));
        if high > low { (self.stretch(ns) - low) / (high - low) } else { 0.0 }
    }

    /// Counts by bin. A bucket wider than a bin is spread over those that it covers, so that no
    /// gap appears that is only the histogram's resolution.
    pub fn bins(&self, bars: &[(i64, i64, u64)], bins: usize) -> Vec<f64> {
        let mut counts = vec![0.0; bins];
        if bins == 0 {
            return counts;
        }
        let last = bins - 1;
        for &(low, high, count) in bars.iter().filter(|bar| bar.2 > 0) {
            let from = (self.at(low as f64) * bins as f64).clamp(0.0, bins as f64);
            let to = (self.at(high as f64 + 1.0) * bins as f64).clamp(from, bins as f64);
            let (first, end) = ((from as usize).min(last), (to.ceil() as usize).clamp(1, bins));
            if to - from <= 1.0 {
                counts[(((from + to) / 2.0) as usize).min(last)] += count as f64;
                continue;
            }
            for (bin, slot) in counts.iter_mut().enumerate().take(end).skip(first) {
                let covered = to.min(bin as f64 + 1.0) - from.max(bin as f64);
                *slot += count as f64 * (covered / (to - from)).max(0.0);
            }
        }
        counts
    }
}
