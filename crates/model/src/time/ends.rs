// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clocks of both ends of a stream: how an instant of either becomes one of the coordinator's
//! clock, and by how much the difference of two may be wrong.

use super::{Instant, Offset, OffsetReading, OtherSource, Tai};
use serde::{Deserialize, Serialize};

/// The offsets of the hosts on which a stream's ends were; `None` for an end on the coordinator's
/// own host, whose clock gives all instants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct EndOffsets {
    /// Of the host that sends, and takes the replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx: Option<Offset>,
    /// Of the host that receives, and answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx: Option<Offset>,
    /// The receiving host's clock against the sending one's, where both are others than the
    /// coordinator's and were compared with each other. Its readings are at moments of the sending
    /// host's clock. Instants of the receiver go by it to that clock, and by `tx` on from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<Offset>,
}

/// As a record has them.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    tx: Option<Offset>,
    #[serde(default)]
    rx: Option<Offset>,
    #[serde(default)]
    pair: Option<Offset>,
}

impl TryFrom<Written> for EndOffsets {
    type Error = &'static str;

    /// A comparison of two other hosts says nothing where not both ends are on one.
    fn try_from(Written { tx, rx, pair }: Written) -> Result<EndOffsets, &'static str> {
        match (&tx, &rx, &pair) {
            (None, _, Some(_)) | (_, None, Some(_)) => {
                Err("offsets have a `pair`, and not both ends are on other hosts")
            }
            _ => Ok(EndOffsets { tx, rx, pair }),
        }
    }
}

impl EndOffsets {
    /// True if both ends are on the coordinator's host.
    pub fn are_none(&self) -> bool {
        self.tx.is_none() && self.rx.is_none()
    }

    /// True if the clock of one host took the stamps of both ends.
    pub fn are_of_one_host(&self) -> bool {
        let host = |offset: &Option<Offset>| offset.as_ref().map(|offset| offset.host.clone());
        host(&self.tx) == host(&self.rx)
    }

    /// The same with what a comparison of both hosts shows, where both are others than the
    /// coordinator's and are not one. What follows from the offsets of both counts where its bound
    /// is less. `steered_ppb` is by how much the rates of both clocks against each other differed.
    #[must_use]
    pub fn with_pair(self, of: OtherSource, steered_ppb: i64) -> EndOffsets {
        let (Some(tx), Some(rx), false) = (&self.tx, &self.rx, self.are_of_one_host()) else { return self };
        // At both ends of the time in which both were read: neither line is right beyond its own
        // readings, and the trial lies between.
        let from_ns = tx.first.at_tai_ns.max(rx.first.at_tai_ns);
        let until_ns = tx.last.at_tai_ns.min(rx.last.at_tai_ns).max(from_ns);
        let apart = |at_ns: i64| {
            let [tx_ns, rx_ns] = [tx, rx].map(|of| of.ahead_ns(Instant::from_ns(at_ns)));
            OffsetReading {
                at_tai_ns: at_ns.saturating_add(tx_ns),
                ahead_ns: rx_ns.saturating_sub(tx_ns),
                bound_ns: tx.bound_ns().saturating_add(rx.bound_ns()),
            }
        };
        let method = format!("each against the coordinator's: {}; {}", tx.method, rx.method);
        let host = rx.host.clone();
        // What both bounds have of bends is in these readings, and is no part of the line again.
        let both = Offset { host, first: apart(from_ns), last: apart(until_ns), method, ..Offset::default() };
        let is_of_both = |pair: &Offset| pair.method == both.method;
        let pair = both.clone().with(of);
        let steered_ppb = if is_of_both(&pair) { 0 } else { steered_ppb };
        EndOffsets { pair: Some(Offset { steered_ppb, ..pair }), ..self }
    }

    /// The moment on the coordinator's clock of an instant of the receiving host's.
    pub fn receiver_to_here(&self, theirs: Instant<Tai>) -> Instant<Tai> {
        let at_sender = |pair: &Offset| pair.to_here(theirs);
        match (&self.pair, &self.tx, &self.rx) {
            (Some(pair), Some(tx), _) => tx.to_here(at_sender(pair)),
            (_, _, Some(rx)) => rx.to_here(theirs),
            _ => theirs,
        }
    }

    /// The moment on the coordinator's clock of an instant of the sending host's.
    pub fn sender_to_here(&self, theirs: Instant<Tai>) -> Instant<Tai> {
        self.tx.as_ref().map_or(theirs, |tx| tx.to_here(theirs))
    }

    /// By how much the difference of an instant at one end and one at the other may be wrong, ns.
    pub fn bound_ns(&self) -> i64 {
        self.sum(Offset::bound_ns)
    }

    /// By how much more one such difference may be wrong than another of the same trial, ns.
    pub fn drift_bound_ns(&self) -> i64 {
        self.sum(Offset::drift_bound_ns)
    }

    /// Of both ends; nothing on one host, whose offset is the same for both and cancels.
    fn sum(&self, of: fn(&Offset) -> i64) -> i64 {
        if self.are_of_one_host() {
            return 0;
        }
        if let Some(pair) = &self.pair {
            return of(pair);
        }
        [&self.tx, &self.rx].into_iter().flatten().map(of).fold(0, i64::saturating_add)
    }
}
