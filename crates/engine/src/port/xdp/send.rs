// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sending half of port `xdp`: the frames of port `packet`, byte for byte, through an AF_XDP
//! socket. They pass no queue discipline, and the kernel stamps none of them.
//!
//! In copy mode the sender's own thread runs the driver, in its send call, as it does on port
//! `packet` where no queue discipline is set. The kernel then reports by its completion ring when
//! it freed a packet buffer. That is no stamp of anything, so it is counted and nothing else.

use crate::order::{SendOrder, StreamOrder};
use crate::port::queue::STAMP_BYTES;
use crate::port::{DRAIN, SendPort, TxPoint, TxStamp};
use std::io;
use tardy_bpf::program::Filter;
use tardy_bpf::xsk::{Outlet, ToSend, WithPackets};
use tardy_model::ethernet;
use tardy_model::time::{Instant, Tai};
use tardy_model::xdp::XdpSendRecord;
use tardy_sys::{SysError, nic};

pub struct XdpSend {
    outlet: Outlet,
    record: XdpSendRecord,
}

impl XdpSend {
    /// Binds a socket to the queue that is ordered.
    ///
    /// # Errors
    /// As [`Outlet::open`], inside the kernel's reason.
    pub fn open(order: &SendOrder) -> Result<Self, SysError> {
        let StreamOrder { stream, nonce, ethertype, tag, .. } = order.order;
        let [to, from] = order.macs;
        let asked = ToSend {
            device: &order.device,
            queue: order.queue,
            frames: order.frames,
            filter: Filter { ethertype, stream: stream.number(), nonce },
            priority: order.priority,
            with: WithPackets { stamps: order.hardware(), launch_times: order.launch.is_some() },
            head: ethernet::head(to, from, tag, ethertype),
        };
        let (outlet, opened) = Outlet::open(&asked).map_err(|why| SysError {
            call: "opening port xdp",
            on: order.device.clone(),
            source: io::Error::other(why),
        })?;
        let record = XdpSendRecord {
            mode: opened.mode,
            refused: opened.refused,
            queue: order.queue,
            umem_bytes: opened.umem_bytes,
            huge_pages: opened.small_pages.is_none(),
            small_pages: opened.small_pages,
            counted: outlet.counted(),
        };
        Ok(XdpSend { outlet, record })
    }

    /// What stamps of the device have room for until they are taken, bytes; 0 where there are none.
    pub fn room_bytes(&self) -> u64 {
        self.outlet.stamps().map_or(0, |(_, room)| u64::from(room) * STAMP_BYTES)
    }
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
        self.outlet.send(payload, key, launch.map(Instant::ns)).map(|()| key)
    }
    fn send_batch(&mut self, payloads: &[u8], size: usize, keys: &mut [u32]) -> Result<usize, i32> {
        self.outlet.send_batch(payloads, size, keys)
    }
    #[inline]
    fn drain(&mut self, mut each: impl FnMut(TxStamp)) -> usize {
        self.outlet.reap(DRAIN, |key, ns| each(TxStamp { key, at: TxPoint::Hardware, ns: ns as i64 }))
    }
    /// Stamps wait in the completion ring.
    fn error_queue(&self) -> (u64, u64) {
        let bytes = |count: u32| u64::from(count) * STAMP_BYTES;
        self.outlet.stamps().map_or((0, u64::MAX), |(waiting, room)| (bytes(waiting), bytes(room)))
    }
    fn xdp(&self) -> Option<XdpSendRecord> {
        Some(XdpSendRecord { counted: self.outlet.counted(), ..self.record.clone() })
    }
}
