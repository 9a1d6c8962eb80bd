// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets of a ping-pong by the remainder of their number: does each n-th differ from the others?
//!
//! A trial is cut into blocks. In each block the class with the greatest median wins, and that
//! with the least loses; by chance each of m classes does so in one of m blocks. Blocks begin one
//! number later each time, so that every class is once at every place in a block, and a drift
//! within the blocks favours none.
//!
//! Where several round trips are in flight they queue for one another, each at its place among
//! them, which is the remainder of its number too. That is no work of tardy's, so each packet is
//! compared with those of the same remainder alone. (Where few are in flight and the ping-pong
//! pauses, the places change from stretch to stretch, and the comparison is the same.)

use super::{Difference, KEPT};
use crate::statistics::{binomial_tail, median};
use tardy_model::sample::MaybeNanos;

/// Rows of a trial that are examined.
pub const ROWS: usize = 65_536;
/// Batch sizes that are tried, each with the packets of a class in a block. One or two requests in
/// flight pause after each second one, four after each fourth.
pub const MODULI: [(usize, usize); 5] = [(2, 32), (4, 16), (8, 8), (16, 8), (64, 4)];
/// With so few classes each is compared with the packets of the others: it makes up much of all.
const FEW: usize = 4;
/// With fewer blocks nothing is reported.
const LEAST_BLOCKS: u64 = 16;

/// One metric of one cell by one modulus.
#[derive(Clone, Debug)]
pub struct ResiduePool {
    modulus: usize,
    each: usize,
    /// Places among those in flight that the remainder tells apart; 1 with one in flight.
    places: usize,
    blocks: u64,
    wins: Vec<u64>,
    losses: Vec<u64>,
    /// By class: its median less that of the others, the median itself, and that of the others, in
    /// each trial. With many classes "the others" are all packets.
    medians: Vec<Vec<(i64, i64, i64)>>,
    rows: Vec<u64>,
}

/// The greatest number that divides both.
fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl ResiduePool {
    /// For packets by the remainder of their number divided by `modulus`, `each` of a class in a
    /// block, with this number of round trips in flight; `None` where each class has its own place
    /// among those.
    pub fn new((modulus, each): (usize, usize), in_flight: u32) -> Option<Self> {
        let places = common_divisor(in_flight.max(1) as usize, modulus);
        let empty = vec![0; modulus];
        let (wins, losses, rows) = (empty.clone(), empty.clone(), empty);
        let medians = vec![Vec::new(); modulus];
        (places < modulus).then_some(ResiduePool { modulus, each, places, blocks: 0, wins, losses, medians, rows })
    }

    /// True if a class of this modulus is compared with the others, and not with all packets.
    pub(super) fn compares_with_others(modulus: u64) -> bool {
        modulus <= FEW as u64
    }

    /// Adds the values of packets 0 and on of one trial.
    pub fn add(&mut self, values: &[MaybeNanos]) {
        let values = &values[..values.len().min(ROWS)];
        for class in 0..self.modulus {
            let at_place = || values.iter().enumerate().filter(|(at, _)| at % self.places == class % self.places);
            let is_own = |at: usize| at % self.modulus == class;
            let mut own: Vec<i64> = at_place().filter(|(at, _)| is_own(*at)).filter_map(|(_, v)| v.get()).collect();
            self.rows[class] += own.len() as u64;
            let few = self.modulus <= FEW;
            let others = at_place().filter(|(at, _)| !few || !is_own(*at)).filter_map(|(_, value)| value.get());
            let of_others = median(&mut others.collect::<Vec<_>>());
            let of_class = median(&mut own).filter(|_| self.medians[class].len() < KEPT);
            if let Some((of_class, of_others)) = of_class.zip(of_others) {
                self.medians[class].push((of_class.saturating_sub(of_others), of_class, of_others));
            }
        }
        let length = self.modulus * self.each;
        // The places continue from trial to trial; otherwise short trials would all begin at the
        // same one.
        let mut first = (self.blocks % self.modulus as u64) as usize;
        while let Some(block) = values.get(first..first + length) {
            self.block(first, block);
            first += length + 1;
        }
    }

    fn block(&mut self, first: usize, block: &[MaybeNanos]) {
        // The median of each place among those in flight: a class's is compared with it.
        let every = |places: usize, from: usize| {
            let own = block.iter().skip(from).step_by(places).filter_map(|value| value.get());
            median(&mut own.collect::<Vec<_>>())
        };
        let of_places: Vec<i64> = match self.places {
            1 => vec![0],
            places => (0..places).map(|from| every(places, from).unwrap_or(0)).collect(),
        };
        let mut medians = Vec::with_capacity(self.modulus);
        for place in 0..self.modulus {
            let mut own: Vec<i64> = block.iter().skip(place).step_by(self.modulus).filter_map(|v| v.get()).collect();
            if own.len() * 2 < self.each {
                return;
            }
            let Some(of_class) = median(&mut own) else { return };
            medians.push((of_class.saturating_sub(of_places[place % self.places]), (first + place) % self.modulus));
        }
        medians.sort_unstable();
        self.blocks += 1;
        // Two that are equal share nothing: nobody wins.
        match medians.as_slice() {
            [least, second, ..] if least.0 < second.0 => self.losses[least.1] += 1,
            _ => {}
        }
        match medians.as_slice() {
            [.., second, greatest] if second.0 < greatest.0 => self.wins[greatest.1] += 1,
            _ => {}
        }
    }

    /// By how much the packets of a class differ from the others of their trial, ns; `None` where
    /// there are none.
    fn difference_ns(&self, class: usize) -> Option<i64> {
        median(&mut self.medians[class].iter().map(|(difference, ..)| *difference).collect::<Vec<_>>())
    }

    /// The modulus of this finer pool, if one part of a coarser pool's class makes the difference
    /// without the others: what each 16th packet takes longer shows in each 8th too, by half.
    fn makes_alone(&self, coarse: usize, class: usize, difference_ns: i64) -> Option<u64> {
        let parts = (class..self.modulus).step_by(coarse).map(|part| self.difference_ns(part));
        let mut parts = parts.collect::<Option<Vec<_>>>()?;
        parts.sort_unstable_by_key(|ns| std::cmp::Reverse(ns.saturating_mul(difference_ns.signum())));
        let second = parts.get(1)?.saturating_mul(difference_ns.signum());
        (second < difference_ns.saturating_abs() / 2).then_some(self.modulus as u64)
    }

    /// What was found; `None` where it cannot be known. `finer` has the same values by a multiple
    /// of the modulus.
    pub fn test(&self, finer: Option<&ResiduePool>) -> Option<Difference> {
        if self.blocks < LEAST_BLOCKS.max(self.modulus as u64) {
            return None;
        }
        let best = |of: &[u64]| of.iter().copied().enumerate().max_by_key(|(_, count)| *count);
        let ((slow, wins), (fast, losses)) = (best(&self.wins)?, best(&self.losses)?);
        let chance = |count| binomial_tail(self.blocks, count, 1.0 / self.modulus as f64);
        let (above, below) = (chance(wins), chance(losses));
        let (class, p) = if above <= below { (slow, above) } else { (fast, below) };
        let middle =
            |of: fn(&(i64, i64, i64)) -> i64| median(&mut self.medians[class].iter().map(of).collect::<Vec<_>>());
        let affected_ns = middle(|(_, of_class, _)| *of_class)?;
        let difference_ns = self.difference_ns(class)?;
        Some(Difference {
            p_value: (p * 2.0 * self.modulus as f64).min(1.0),
            difference_ns,
            affected_ns,
            others_ns: middle(|(.., of_all)| *of_all)?,
            packets: self.rows[class],
            comparisons: self.blocks,
            least_ns: affected_ns,
            greatest_ns: affected_ns,
            class: Some((self.modulus as u64, class as u64)),
            from_each: finer.and_then(|finer| finer.makes_alone(self.modulus, class, difference_ns)),
        })
    }
}
