// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stamps that a sending device takes by its own clock: whether they are available, and how they
//! become the system's time. The device's clock is read together with CLOCK_REALTIME before the
//! trial and after it; between the two readings it is taken to run evenly.

use crate::order::{EndOrder, SendOrder};
use crate::sender::{SenderCounters, SentRows};
use tardy_model::point::Point;
use tardy_model::sample::MaybeNanos;
use tardy_model::time::PhcReading;
use tardy_sys::clock::Phc;
use tardy_sys::nic;

/// Opens the clock by which the device of a sender stamps.
///
/// # Errors
/// Why it is not available.
pub(super) fn clock(send: &SendOrder) -> Result<Phc, String> {
    let device = &send.device;
    let info = nic::ts_info(device).map_err(|error| format!("what {device} can stamp is unknown: {error}"))?;
    if !info.tx_hardware() || info.phc < 0 {
        let (flags, phc) = (info.flags, info.phc);
        return Err(format!("{device} offers no hardware tx stamp (its abilities: {flags:#x}, PTP clock {phc})"));
    }
    let phc = Phc::open(info.phc).and_then(|phc| phc.read().map(|_| phc));
    phc.map_err(|error| format!("the clock of {device} cannot be read: {error}"))
}

/// Drops what is not available from an order, so that nothing waits for it: such stamps come to
/// one-way senders alone.
pub(super) fn settled(mut order: EndOrder) -> EndOrder {
    let unasked = |send: &mut SendOrder| send.order.stamps.retain(|point| *point != Point::TxHw);
    match &mut order {
        EndOrder::Send(send) if send.order.wants(Point::TxHw) && clock(send).is_err() => unasked(send),
        EndOrder::Send(_) | EndOrder::Receive(_) => {}
        EndOrder::Ask(ask) => unasked(&mut ask.send),
        EndOrder::Reflect(reflect) => unasked(&mut reflect.send),
    }
    order
}

/// Turns the device's instants of a half into CLOCK_REALTIME. Where the clock was set meanwhile,
/// or could not be read, there are none.
pub(super) fn convert(
    half: &mut SentRows,
    counters: &mut SenderCounters,
    before: Option<PhcReading>,
    after: Option<PhcReading>,
) {
    let between = before.zip(after).and_then(|(before, after)| PhcReading::between(before, after));
    for stamp in &mut half.tx_hw {
        let realtime = stamp.get().zip(between).map(|(phc_ns, between)| between.to_realtime_ns(phc_ns));
        *stamp = MaybeNanos::from(realtime);
    }
    counters.hardware_bound_ns = between.map_or(0, |between| between.bound_ns);
}
