// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mean and standard deviation from exact integer sums: no rounding until the last step, so that merging in any order
//! gives the same bits.

/// Count, sum and sum of squares of nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    count: u64,
    sum: i128,
    squares: u128,
}

impl Moments {
    /// Counts values, ns.
    pub fn add(&mut self, values_ns: &[i64]) {
        values_ns.iter().for_each(|value_ns| self.add_n(*value_ns, 1));
    }

    /// Counts a value `n` times.
    #[inline]
    pub fn add_n(&mut self, value_ns: i64, n: u64) {
        let square = u128::from(value_ns.unsigned_abs()).pow(2);
        self.count += n;
        self.sum = self.sum.saturating_add(i128::from(value_ns) * i128::from(n));
        self.squares = self.squares.saturating_add(square.saturating_mul(n.into()));
    }

    /// Adds the other's.
    pub fn merge(&mut self, other: &Moments) {
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.squares = self.squares.saturating_add(other.squares);
    }

    /// Values counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean, ns; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let (whole, rest) = self.floor_mean();
        Some(whole as f64 + rest as f64 / self.count as f64)
    }

    /// Standard deviation with n − 1, ns; `None` below two values.
    pub fn stddev(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        // Σ(v−m)² = Σv² − 2mΣv + nm² about the integer m below the mean: exact, and small once the large terms are gone.
        let (m, rest) = self.floor_mean();
        let n = i128::from(self.count);
        let about = i128::try_from(self.squares)
            .ok()
            .zip(m.checked_mul(self.sum).and_then(|product| product.checked_mul(2)))
            .zip(m.checked_mul(m).and_then(|square| square.checked_mul(n)))
            .and_then(|((squares, twice), square)| squares.checked_sub(twice)?.checked_add(square));
        let about = match about {
            Some(about) => about as f64,
            // Only values of many years come here.
            None => self.squares as f64 - (m as f64) * (m as f64) * n as f64 - 2.0 * m as f64 * rest as f64,
        };
        let variance = (about - (rest as f64).powi(2) / n as f64) / (n - 1) as f64;
        Some(variance.max(0.0).sqrt())
    }

    fn floor_mean(&self) -> (i128, i128) {
        let n = i128::from(self.count.max(1));
        (self.sum.div_euclid(n), self.sum.rem_euclid(n))
    }
}
