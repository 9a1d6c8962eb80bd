// SPDX-License-Identifier: MIT OR Apache-2.0
//! Warming up: packets that no sample comes of, until every stamp that the trial wants flows.

use super::{Trial, TrialError, WARM_UP_APART, WARM_UP_PACKETS};
use crate::station::{ANSWER, Stations};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant as Wall};
use tardy_engine::message::{FromAgent, ToAgent};
use tardy_model::point::Point;
use tardy_model::stream::Side;
use tardy_model::stream::{Port, Wait};

/// What the warm-up has come to at an end that receives.
#[derive(Clone, Copy)]
struct Warm {
    received: u32,
    unstamped: u32,
    last_stamped: bool,
    napi_id: u32,
    answers_stamped: u32,
}

impl Trial<'_> {
    /// Sends warm-up packets until every stamp that is wanted flows, or a stream's limit has passed. All streams in each
    /// round, so that none has gone cold again when the last one is warm.
    pub(super) fn warm_up(&mut self, stations: &mut Stations, stop: &AtomicBool) -> Result<(), TrialError> {
        let began = Wall::now();
        loop {
            let mut warming = false;
            for i in 0..self.streams.len() {
                let stream = &self.streams[i].stream;
                let limit = Duration::from_nanos(stream.warmup.0.max(0) as u64);
                // Busy polling can only be judged by a packet, so it takes one round at least.
                let busy = stream.rx.wait == Wait::Busypoll || stream.tx.wait == Wait::Busypoll;
                // A connection is made by the first.
                let once = (busy || stream.port == Port::Tcp) && self.warmups[i].sent == 0;
                if !stop.load(Relaxed) && (began.elapsed() < limit || once) {
                    self.warm_round(stations, i)?;
                    self.warmups[i].took_ns = began.elapsed().as_nanos() as i64;
                    warming |= !self.warmups[i].flowed;
                }
            }
            if !warming {
                return Ok(());
            }
        }
    }

    fn warm_round(&mut self, stations: &mut Stations, i: usize) -> Result<(), TrialError> {
        let (stream, ordered) = (self.number(i), &self.streams[i]);
        let wants = |side: Side, points: &[Point]| {
            let end = self.ready.get(&(stream, side));
            let is_absent = |point| end.is_some_and(|end| end.absent.iter().any(|(absent, _)| absent == point));
            points.iter().any(|point| ordered.stream.stamps.contains(point) && !is_absent(point))
        };
        let tx_wanted = wants(Side::Tx, &[Point::TxKernel, Point::TxSched]);
        let answer_wanted = wants(Side::Rx, &[Point::ReplyTxKernel, Point::ReplyTxSched]);
        let rx_wanted = wants(Side::Rx, &[Point::RxKernel]);
        let order = ToAgent::WarmUp { stream, count: WARM_UP_PACKETS, apart: WARM_UP_APART };
        stations[ordered.from].tell(&order)?;
        let stamped = stations.answers(&[ordered.from], "warming up", ANSWER, |_, message| match message {
            FromAgent::Warmed { stream: s, stamped } if s == stream => Some(stamped),
            _ => None,
        })?[0];
        let far = self.warm_status(stations, i, Side::Rx)?;
        let near = match ordered.replies_at() {
            Some(side) => Some((self.warm_status(stations, i, side)?, wants(side, &[Point::ReplyRxKernel]))),
            None => None,
        };
        let warm = &mut self.warmups[i];
        warm.sent += WARM_UP_PACKETS;
        warm.received = far.received;
        warm.without_rx_stamp = if rx_wanted { far.unstamped } else { 0 };
        if tx_wanted {
            warm.without_tx_stamp += WARM_UP_PACKETS.saturating_sub(stamped);
        }
        let tx_flows = !tx_wanted || stamped >= WARM_UP_PACKETS;
        let answers_flow = !answer_wanted || far.answers_stamped > 0;
        let comes_back = near.is_none_or(|(near, wanted)| near.received > 0 && (!wanted || near.last_stamped));
        warm.flowed = far.received > 0 && tx_flows && (!rx_wanted || far.last_stamped) && answers_flow && comes_back;
        Ok(())
    }

    /// What the warm-up has come to at an end that receives.
    fn warm_status(&self, stations: &mut Stations, i: usize, side: Side) -> Result<Warm, TrialError> {
        let (stream, ordered) = (self.number(i), &self.streams[i]);
        let station = ordered.station(side);
        stations[station].tell(&ToAgent::WarmStatus { stream, side })?;
        let mut warm = stations.answers(&[station], "warming up", ANSWER, |_, message| match message {
            FromAgent::WarmStatus {
                stream: s,
                side: of,
                received,
                unstamped,
                last_stamped,
                napi_id,
                answers_stamped,
                ..
            } if s == stream && of == side => {
                Some(Warm { received, unstamped, last_stamped, napi_id, answers_stamped })
            }
            _ => None,
        })?;
        let warm = warm.remove(0);
        let wait = if side == Side::Rx { ordered.stream.rx.wait } else { ordered.stream.tx.wait };
        if wait == Wait::Busypoll && warm.received > 0 && warm.napi_id == 0 {
            let end = if side == Side::Rx { "rx" } else { "tx" };
            return Err(TrialError::CannotDo(format!(
                "stream `{}`: {end}.wait = \"busypoll\" would be \"block\" in disguise: packets come without a NAPI \
                 context (SO_INCOMING_NAPI_ID is 0), so there is no device to poll; use another wait, or a device whose \
                 driver has NAPI",
                ordered.stream.name
            )));
        }
        Ok(warm)
    }
}
