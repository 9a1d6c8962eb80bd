// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sporadic`: bursts over TCP with gaps between them, both drawn from the trial's own randomness,
//! from → to.

use super::order::LoadOrder;
use super::tcp;
use super::watch::Watch;
use super::work::Work;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_model::load::Distribution;
use tardy_model::time::Nanos;
use tardy_sys::tcp::Tcp;

pub(super) fn open(
    order: &LoadOrder,
    size: u64,
    burst: Distribution,
    gap: Distribution,
) -> Result<Box<dyn Work>, String> {
    let mut random = Pcg64Mcg::seed_from_u64(order.seed);
    match order.at.peer {
        true => tcp::side(order, true, tcp::receive),
        false => tcp::side(order, false, move |tcp, watch| bursts(tcp, watch, size, burst, gap, &mut random)),
    }
}

fn bursts(tcp: &Tcp, watch: &mut Watch, size: u64, burst: Distribution, gap: Distribution, random: &mut Pcg64Mcg) {
    let bytes = vec![0x5a; size as usize];
    'all: loop {
        let mut left = burst.at(random.random());
        while left > 0 {
            let now = watch.now();
            if watch.over(now) {
                break 'all;
            }
            match tcp.send(&bytes[..left.min(size) as usize]) {
                Ok(0) => {}
                Ok(sent) => {
                    watch.sent(now, 1, sent as u64);
                    left -= sent as u64;
                }
                Err(error) => {
                    watch.broke("send", &error);
                    break 'all;
                }
            }
        }
        let next = watch.now() + Nanos(i64::try_from(gap.at(random.random())).unwrap_or(i64::MAX / 4));
        if !watch.sleep_until(next) {
            break;
        }
    }
    tcp::hang_up(tcp, watch);
}
