// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mean and standard deviation from exact integer sums: no rounding until the last step, so that
//! merging in any order gives the same bits.

/// Count, sum and sum of squares of nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    count: u64,
    sum: i128,
    /// Of the sum of squares, what fits, and how often it did not.
    squares: u128,
    carries: u64,
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
        // At most 126 and 64 bits: the upper half by itself, so that nothing overflows.
        let upper = (square >> 64) * u128::from(n);
        self.add_squares(u128::from(square as u64) * u128::from(n), 0);
        self.add_squares(upper << 64, (upper >> 64) as u64);
    }

    fn add_squares(&mut self, squares: u128, carries: u64) {
        let (sum, carry) = self.squares.overflowing_add(squares);
        self.squares = sum;
        self.carries += carries + u64::from(carry);
    }

    /// Adds the other's.
    pub fn merge(&mut self, other: &Moments) {
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.add_squares(other.squares, other.carries);
    }

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
        // Σ(v−m)² = Σv² − 2mΣv + nm² about the integer m below the mean: exact if it is below
        // 2^128 itself, for what the terms have above that cancels out.
        let (m, rest) = self.floor_mean();
        let n = i128::from(self.count);
        let terms = m.wrapping_mul(self.sum).wrapping_mul(2).wrapping_sub(m.wrapping_mul(m).wrapping_mul(n));
        let exact = self.squares.wrapping_sub(terms as u128);
        let squares = self.carries as f64 * 2f64.powi(128) + self.squares as f64;
        let near = squares - (m as f64) * (m as f64) * n as f64 - 2.0 * m as f64 * rest as f64;
        // Only spreads of many years come near it; then rounded terms are good enough.
        let about = if near < 2f64.powi(125) { exact as f64 } else { near };
        let variance = (about - (rest as f64).powi(2) / n as f64) / (n - 1) as f64;
        Some(variance.max(0.0).sqrt())
    }

    fn floor_mean(&self) -> (i128, i128) {
        let n = i128::from(self.count.max(1));
        (self.sum.div_euclid(n), self.sum.rem_euclid(n))
    }
}
