// SPDX-License-Identifier: MIT OR Apache-2.0
//! `udp_flood`: datagrams at a rate, or as fast as possible, from → to.

use super::order::LoadOrder;
use super::udp;
use super::watch::{NAP, Watch};
use super::work::Work;
use tardy_model::load::Rate;
use tardy_model::time::Nanos;
use tardy_sys::clock;
use tardy_sys::datagrams::{Batch, Datagrams, MOST};

pub(super) fn open(order: &LoadOrder, size: u64, rate: Option<Rate>) -> Result<Box<dyn Work>, String> {
    let mut batch = Batch::new(size as usize);
    udp::side(order, size, move |socket, watch| flood(socket, watch, &mut batch, size, rate))
}

fn flood(socket: &Datagrams, watch: &mut Watch, batch: &mut Batch, size: u64, rate: Option<Rate>) {
    let lengths = [size as usize; MOST];
    // When datagram n is due, ns after the beginning.
    let due_ns = |n: u64| match rate {
        None => 0,
        Some(Rate::Packets(rate)) => u128::from(n) * 1_000_000_000 / u128::from(rate.max(1)),
        Some(Rate::Bits(rate)) => u128::from(n) * u128::from(size) * 8_000_000_000 / u128::from(rate.max(1)),
    };
    // How many are due `ns` after the beginning.
    let due = |ns: u128| match rate {
        None => u128::MAX,
        Some(Rate::Packets(rate)) => ns * u128::from(rate) / 1_000_000_000 + 1,
        Some(Rate::Bits(rate)) => ns * u128::from(rate) / (u128::from(size) * 8_000_000_000) + 1,
    };
    let began = watch.now();
    loop {
        let now = watch.now();
        if watch.over(now) {
            break;
        }
        let sent = watch.record.sends;
        // The schedule does not wait for a sender that was held up: it catches up, or falls short,
        // and the record reports that.
        let missing = due((now - began).0.max(0) as u128).saturating_sub(u128::from(sent)).min(MOST as u128) as usize;
        if missing == 0 {
            let next = began + Nanos(i64::try_from(due_ns(sent)).unwrap_or(i64::MAX / 4));
            clock::sleep_until(next.min(now + NAP));
        } else if udp::send(socket, watch, batch, &lengths[..missing]).is_none() {
            break;
        }
    }
    watch.end();
}
