// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tails of Student's t distribution.

/// Student's t with so many degrees of freedom.
#[derive(Clone, Copy, Debug)]
pub struct Student {
    degrees: f64,
    /// ln B(degrees/2, 1/2).
    ln_beta: f64,
}

impl Student {
    /// With `degrees` degrees of freedom, at least 1.
    pub fn new(degrees: u32) -> Self {
        let degrees = degrees.max(1);
        let ln_beta = ln_gamma_of_half(degrees) + ln_gamma_of_half(1) - ln_gamma_of_half(degrees + 1);
        Student { degrees: f64::from(degrees), ln_beta }
    }

    /// The chance of a value farther from 0 than `t`, on either side: the regularised incomplete
    /// beta function I_x(degrees/2, 1/2) at x = degrees / (degrees + t²) (Abramowitz and Stegun
    /// 26.7.1 and 26.5.27).
    pub fn beyond(&self, t: f64) -> f64 {
        let squared = t * t;
        if !squared.is_finite() {
            return 0.0;
        }
        let (x, rest) = (self.degrees / (self.degrees + squared), squared / (self.degrees + squared));
        let (a, b) = (self.degrees / 2.0, 0.5);
        if rest <= 0.0 {
            return 1.0;
        }
        let front = (a * x.ln() + b * rest.ln() - self.ln_beta).exp();
        let tail = if x < (a + 1.0) / (a + b + 2.0) {
            front * fraction(a, b, x) / a
        } else {
            1.0 - front * fraction(b, a, rest) / b
        };
        tail.clamp(0.0, 1.0)
    }
}

/// The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8) by
/// Lentz's method.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let away_from_zero = |value: f64| if value.abs() < f64::MIN_POSITIVE { f64::MIN_POSITIVE } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for m in 1..1_000u32 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for numerator in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + numerator * d);
            c = away_from_zero(1.0 + numerator / c);
            value *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-14 {
            break;
        }
    }
    value
}

/// ln Γ(n/2), from Γ(1/2) = √π, Γ(1) = 1 and Γ(z + 1) = z·Γ(z).
fn ln_gamma_of_half(n: u32) -> f64 {
    let (start, first) = if n.is_multiple_of(2) { (2, 0.0) } else { (1, std::f64::consts::PI.ln() / 2.0) };
    (start..n).step_by(2).fold(first, |ln, z| ln + (f64::from(z) / 2.0).ln())
}
