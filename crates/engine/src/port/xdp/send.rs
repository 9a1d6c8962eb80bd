// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sending half of port `xdp`: the frames of port `packet`, byte for byte, through AF_XDP
//! sockets. They pass no queue discipline, and the kernel stamps none of them.
//!
//! Each queue of the device has a socket. Packets stay on one queue while it has room. A call hands
//! over one packet, or a batch of overdue ones.
//!
//! In copy mode the sender's own thread runs the driver, in its send call, as it does on port
//! `packet` where no queue discipline is set. The kernel then reports by its completion ring when
//! it freed a packet buffer. That is no stamp of anything, so it is counted and nothing else.

use crate::order::{SendOrder, StreamOrder};
use crate::port::queue::STAMP_BYTES;
use crate::port::{DRAIN, SendPort, TxPoint, TxStamp};
use std::{io, mem};
use tardy_bpf::program::Filter;
use tardy_bpf::xsk::{Outlet, ToSend, WithPackets};
use tardy_model::ethernet;
use tardy_model::time::{Instant, Tai};
use tardy_model::xdp::{XdpSendRecord, XdpSent};
use tardy_sys::thread::close_together;
use tardy_sys::{SysError, nic};

pub struct XdpSend {
    /// One for each queue.
    outlets: Vec<Outlet>,
    /// The one that packets go through while it has room.
    at: usize,
    record: XdpSendRecord,
}

impl XdpSend {
    /// Binds a socket to each queue that is ordered.
    ///
    /// # Errors
    /// As [`Outlet::open`], inside the kernel's reason.
    pub fn open(order: &SendOrder) -> Result<Self, SysError> {
        let StreamOrder { stream, nonce, ethertype, tag, .. } = order.order;
        let [to, from] = order.macs;
        let asked = ToSend {
            device: &order.device,
            queues: order.queues.clone(),
            frames: order.frames,
            filter: Filter { ethertype, stream: stream.number(), nonce },
            priority: order.priority,
            with: WithPackets { stamps: order.hardware(), launch_times: order.launch.is_some() },
            head: ethernet::head(to, from, tag, ethertype),
        };
        let (outlets, opened) = Outlet::open(&asked).map_err(|why| SysError {
            call: "opening port xdp",
            on: order.device.clone(),
            source: io::Error::other(why),
        })?;
        let record = XdpSendRecord {
            mode: opened.mode,
            refused: opened.refused,
            queues: opened.queues.collect(),
            umem_bytes: opened.umem_bytes,
            huge_pages: opened.small_pages.is_none(),
            small_pages: opened.small_pages,
            counted: counted(&outlets),
        };
        Ok(XdpSend { outlets, at: 0, record })
    }

    /// What stamps of the device have room for until they are taken, bytes: that of one queue, for
    /// packets stay on one. 0 where there are none.
    pub fn room_bytes(&self) -> u64 {
        waiting(&self.outlets, self.at, Outlet::stamps).map_or(0, |(_, room)| room)
    }
}

/// Sends through the queue of the packet before; where that has no room, through the next one that
/// has some. The kernel keeps a flow on a queue too: packets of two queues can overtake each other,
/// and a receiver would count packets as reordered that the path had kept in order.
///
/// # Errors
/// ENOBUFS or EAGAIN if no queue has room, and what else the queue says.
#[inline]
pub fn where_there_is_room<Q, T>(
    queues: &mut [Q],
    at: &mut usize,
    mut send: impl FnMut(&mut Q) -> Result<T, i32>,
) -> Result<T, i32> {
    let mut result = Err(libc::ENXIO);
    for _ in 0..queues.len() {
        result = send(&mut queues[*at]);
        // No frame is free, or the driver's queue is full.
        if !matches!(result, Err(libc::ENOBUFS | libc::EAGAIN)) {
            break;
        }
        *at = if *at + 1 < queues.len() { *at + 1 } else { 0 };
    }
    result
}

/// Bytes of the stamps that wait at the queue that packets go through, and for which it has room;
/// `None` where it takes none. Those of the other queues would say nothing: a stamp comes back to
/// the queue of its packet.
pub fn waiting<Q>(queues: &[Q], at: usize, stamps: impl FnOnce(&Q) -> Option<(u32, u32)>) -> Option<(u64, u64)> {
    let (waiting, room) = stamps(queues.get(at)?)?;
    Some((u64::from(waiting) * STAMP_BYTES, u64::from(room) * STAMP_BYTES))
}

impl Drop for XdpSend {
    fn drop(&mut self) {
        close_together(mem::take(&mut self.outlets));
    }
}

/// What was counted at all queues.
fn counted(outlets: &[Outlet]) -> XdpSent {
    outlets.iter().map(Outlet::counted).fold(XdpSent::default(), |all, one| XdpSent {
        completions: all.completions + one.completions,
        tx_invalid_descs: all.tx_invalid_descs + one.tx_invalid_descs,
        tx_ring_empty_descs: all.tx_ring_empty_descs + one.tx_ring_empty_descs,
        voided: all.voided + one.voided,
    })
}

/// Whether the driver of a device leaves its stamps in AF_XDP's tx metadata.
///
/// # Errors
/// Why it does not.
pub fn stamps(device: &str) -> Result<(), String> {
    match nic::xdp_features(device) {
        Ok(features) if features.zero_copy && features.tx_timestamp => Ok(()),
        Ok(_) => Err(format!(
            "the driver of {device} gives AF_XDP no tx stamps (netdev: zero-copy and tx-timestamp), and when a packet \
             buffer was freed is no stamp"
        )),
        Err(error) => Err(format!("what the driver of {device} can do for AF_XDP is unknown: {error}")),
    }
}

impl SendPort for XdpSend {
    #[inline]
    fn send(&mut self, payload: &[u8], key: u32, launch: Option<Instant<Tai>>) -> Result<u32, i32> {
        let launch_ns = launch.map(Instant::ns);
        where_there_is_room(&mut self.outlets, &mut self.at, |outlet| outlet.send(payload, key, launch_ns))
            .map(|()| key)
    }
    fn send_batch(&mut self, payloads: &[u8], size: usize, keys: &mut [u32]) -> Result<usize, i32> {
        where_there_is_room(&mut self.outlets, &mut self.at, |outlet| outlet.send_batch(payloads, size, keys))
    }
    #[inline]
    fn drain(&mut self, mut each: impl FnMut(TxStamp)) -> usize {
        let mut taken = 0;
        let mut one = |key, ns| each(TxStamp { key, at: TxPoint::Hardware, ns: ns as i64 });
        for outlet in &mut self.outlets {
            // What came since it last looked, it sees only when all that it knew of is taken.
            while taken < DRAIN {
                match outlet.reap(DRAIN - taken, &mut one) {
                    0 => break,
                    more => taken += more,
                }
            }
        }
        taken
    }
    /// Stamps wait in the completion ring of the queue that packets go through.
    fn error_queue(&self) -> (u64, u64) {
        waiting(&self.outlets, self.at, Outlet::stamps).unwrap_or((0, u64::MAX))
    }
    fn xdp(&self) -> Option<XdpSendRecord> {
        Some(XdpSendRecord { counted: counted(&self.outlets), ..self.record.clone() })
    }
}
