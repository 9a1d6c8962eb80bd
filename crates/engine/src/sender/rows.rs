// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sender's half of a trial, row by row, and in pieces for the way to the coordinator.

use serde::{Deserialize, Serialize};
use tardy_model::sample::MaybeNanos;

/// What the sender did with a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sending(pub(super) u8);

impl Sending {
    pub(super) const SENT: u8 = 1;
    pub(super) const SKIPPED: u8 = 2;
    pub(super) const REFUSED: u8 = 4;
    pub(super) const OVERRUN: u8 = 8;
    pub(super) const MISSED: u8 = 16;
    pub(super) const INVALID: u8 = 32;

    /// It was handed to the port.
    pub fn sent(self) -> bool {
        self.0 & Self::SENT != 0
    }
    /// Its slot had passed and the policy is `skip`.
    pub fn skipped(self) -> bool {
        self.0 & Self::SKIPPED != 0
    }
    /// The port refused it.
    pub fn refused(self) -> bool {
        self.0 & Self::REFUSED != 0
    }
    /// The queue discipline dropped it, its launch time having passed.
    pub fn missed(self) -> bool {
        self.0 & Self::MISSED != 0
    }
    /// The queue discipline refused its launch time.
    pub fn invalid(self) -> bool {
        self.0 & Self::INVALID != 0
    }
    /// The queue discipline reported that it dropped it.
    pub fn dropped(self) -> bool {
        self.missed() || self.invalid()
    }
    /// The sender woke after its slot.
    pub fn overrun(self) -> bool {
        self.0 & Self::OVERRUN != 0
    }
}

/// The sender's half of a trial: one row per packet that was reached, raw clock values (app stamps
/// TAI, kernel stamps REALTIME). A column that was not asked for is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentRows {
    /// Number of the first row's packet.
    pub first: u32,
    pub sending: Vec<Sending>,
    /// TAI, ns: when it was to go out, where no schedule decides that.
    pub scheduled: Vec<MaybeNanos>,
    /// TAI, ns.
    pub wakeup: Vec<MaybeNanos>,
    /// TAI, ns; absent for packets that were not sent.
    pub send: Vec<MaybeNanos>,
    /// REALTIME, ns.
    pub tx_sched: Vec<MaybeNanos>,
    /// REALTIME, ns.
    pub tx_kernel: Vec<MaybeNanos>,
    /// The device's own clock until the trial is over, then REALTIME, ns.
    pub tx_hw: Vec<MaybeNanos>,
}

impl SentRows {
    /// Brings the first row into this CPU's caches, with what translates its addresses: another
    /// thread wrote it long before, maybe on another CPU, and the first packet would wait for each
    /// column by itself. A line that is only read would stay shared with that CPU, so that what is
    /// there is written again.
    pub(super) fn fetch_first(&mut self) {
        if let Some(cell) = self.sending.first_mut() {
            *cell = std::hint::black_box(*cell);
        }
        let kernels = [&mut self.tx_sched, &mut self.tx_kernel, &mut self.tx_hw];
        for column in [&mut self.scheduled, &mut self.wakeup, &mut self.send].into_iter().chain(kernels) {
            if let Some(cell) = column.first_mut() {
                *cell = std::hint::black_box(*cell);
            }
        }
    }
    /// Packets reached.
    pub fn len(&self) -> usize {
        self.sending.len()
    }
    /// Rows of packets of which nothing is known but that they were sent.
    pub fn only_sent(rows: u32) -> Self {
        SentRows { sending: vec![Sending(Sending::SENT); rows as usize], ..SentRows::default() }
    }
    /// True if none was reached.
    pub fn is_empty(&self) -> bool {
        self.sending.is_empty()
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.sending.truncate(rows);
        let kernels = [&mut self.tx_sched, &mut self.tx_kernel, &mut self.tx_hw];
        for column in [&mut self.scheduled, &mut self.wakeup, &mut self.send].into_iter().chain(kernels) {
            column.truncate(rows);
        }
    }

    /// Pieces of at most `rows` rows, for the way to the coordinator.
    pub fn pieces(&self, rows: usize) -> impl Iterator<Item = SentRows> + '_ {
        (0..self.len()).step_by(rows.max(1)).map(move |from| {
            let to = (from + rows.max(1)).min(self.len());
            let cut = |column: &Vec<MaybeNanos>| column.get(from..to).map(<[_]>::to_vec).unwrap_or_default();
            SentRows {
                first: self.first + from as u32,
                sending: self.sending[from..to].to_vec(),
                scheduled: cut(&self.scheduled),
                wakeup: cut(&self.wakeup),
                send: cut(&self.send),
                tx_sched: cut(&self.tx_sched),
                tx_kernel: cut(&self.tx_kernel),
                tx_hw: cut(&self.tx_hw),
            }
        })
    }

    /// Puts the next piece after this one.
    pub fn append(&mut self, mut next: SentRows) {
        self.sending.append(&mut next.sending);
        self.scheduled.append(&mut next.scheduled);
        self.wakeup.append(&mut next.wakeup);
        self.send.append(&mut next.send);
        self.tx_sched.append(&mut next.tx_sched);
        self.tx_kernel.append(&mut next.tx_kernel);
        self.tx_hw.append(&mut next.tx_hw);
    }
}
