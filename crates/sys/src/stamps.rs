// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tx stamps as they come back through a socket's error queue, and the rx stamp of a message that
//! was received.

use crate::call::{ControlBuffer, for_each, value};
use std::mem;
use std::os::fd::AsRawFd;
use tardy_model::ethernet::{TAG, Taken};
use tardy_model::time::{Instant, Realtime};

/// A report of etf's (include/uapi/linux/errqueue.h).
const SO_EE_ORIGIN_TXTIME: u8 = 6;
/// The launch time had passed when the packet could be sent; any other code: it was refused from
/// the start.
const SO_EE_CODE_TXTIME_MISSED: u8 = 2;

/// Stamps taken from the error queue at a time: few, so that taking them fits between two packets.
pub const DRAIN: usize = 16;

/// A stamp that came back through the error queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxStamp {
    /// The kernel's key of the packet.
    pub key: u32,
    /// Where it was taken.
    pub at: TxPoint,
    /// When; REALTIME for software stamps.
    pub ns: i64,
}

/// Where a tx stamp was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxPoint {
    /// Before the queue discipline.
    Sched,
    Software,
    /// In the NIC, by the NIC's clock.
    Hardware,
    /// No stamp: the queue discipline dropped the packet whose launch time this is (TAI), for that
    /// had passed.
    Missed,
    /// No stamp: the queue discipline refused the packet whose launch time this is (TAI).
    Invalid,
}

/// How packets carry a launch time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launching {
    /// The launch time is a deadline.
    pub deadline: bool,
}

/// What stamps a sender asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxStamps {
    /// Before the queue discipline.
    pub sched: bool,
    pub software: bool,
    /// In the device, by its clock.
    pub hardware: bool,
}

/// Both, for a packet that the device stamps: by itself the kernel would leave the driver's out.
const SOF_TIMESTAMPING_OPT_TX_SWHW: u32 = 1 << 14;

impl TxStamps {
    pub(crate) fn any(self) -> bool {
        self.sched || self.software || self.hardware
    }

    /// As SO_TIMESTAMPING takes them.
    pub(crate) fn flags(self) -> u32 {
        let mut flags = libc::SOF_TIMESTAMPING_SOFTWARE;
        if self.software {
            flags |= libc::SOF_TIMESTAMPING_TX_SOFTWARE;
        }
        if self.sched {
            flags |= libc::SOF_TIMESTAMPING_TX_SCHED;
        }
        if self.hardware {
            flags |= libc::SOF_TIMESTAMPING_TX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
            flags |= SOF_TIMESTAMPING_OPT_TX_SWHW;
        }
        flags
    }
}

/// What stamps a receiver asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxStamps {
    /// When the kernel takes the packet in.
    pub software: bool,
    /// In the device, by its clock.
    pub hardware: bool,
}

impl RxStamps {
    /// The kernel's, if they are asked for.
    pub fn of_kernel(software: bool) -> RxStamps {
        RxStamps { software, hardware: false }
    }

    pub(crate) fn any(self) -> bool {
        self.software || self.hardware
    }

    /// As SO_TIMESTAMPING takes them.
    pub(crate) fn flags(self) -> u32 {
        let mut flags = 0;
        if self.software {
            flags |= libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE;
        }
        if self.hardware {
            flags |= libc::SOF_TIMESTAMPING_RAW_HARDWARE | libc::SOF_TIMESTAMPING_RX_HARDWARE;
        }
        flags
    }
}

/// The stamps of what was received, those that were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxStamp {
    /// The kernel's, by its own clock.
    pub kernel: Option<Instant<Realtime>>,
    /// The device's, on its own clock, ns.
    pub device_ns: Option<i64>,
}

/// Room for the control messages of one [`drain`].
pub(crate) type StampBuffers = [ControlBuffer<256>; DRAIN];

pub(crate) fn buffers() -> StampBuffers {
    [ControlBuffer::default(); DRAIN]
}

/// Takes at most [`DRAIN`] messages that wait in the error queue, by one system call that never
/// waits. Returns how many there were; fewer than [`DRAIN`] means that the queue is empty.
pub(crate) fn drain(fd: &impl AsRawFd, buffers: &mut StampBuffers, mut each: impl FnMut(TxStamp)) -> usize {
    // SAFETY: mmsghdr is plain data.
    let mut messages: [libc::mmsghdr; DRAIN] = unsafe { mem::zeroed() };
    for (message, control) in messages.iter_mut().zip(buffers) {
        message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
        message.msg_hdr.msg_controllen = control.0.len();
    }
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the array has DRAIN headers, each with its own control buffer of the stated size; no
    // payload is asked for (OPT_TSONLY), so there is no iovec. The timeout may be null.
    let got =
        unsafe { libc::recvmmsg(fd.as_raw_fd(), messages.as_mut_ptr(), DRAIN as u32, flags, std::ptr::null_mut()) };
    let got = usize::try_from(got).unwrap_or(0);
    for message in &messages[..got] {
        if let Some(stamp) = tx_stamp(&message.msg_hdr) {
            each(stamp);
        }
    }
    got
}

/// What a packet socket's stamps come back under.
const PACKET_TX_TIMESTAMP: i32 = 16;
/// What a packet socket reports about a frame besides its bytes.
pub(crate) const PACKET_AUXDATA: i32 = 8;

fn tx_stamp(message: &libc::msghdr) -> Option<TxStamp> {
    let (mut times, mut error) = (None, None);
    for_each(message, |level, kind, data| match (level, kind) {
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => times = value::<[libc::timespec; 3]>(data),
        (libc::SOL_IP, libc::IP_RECVERR)
        | (libc::SOL_IPV6, libc::IPV6_RECVERR)
        | (libc::SOL_PACKET, PACKET_TX_TIMESTAMP) => error = value::<libc::sock_extended_err>(data),
        _ => {}
    });
    let error: libc::sock_extended_err = error?;
    if error.ee_origin == SO_EE_ORIGIN_TXTIME {
        // The launch time, in two halves (report_sock_error in net/sched/sch_etf.c).
        let ns = (u64::from(error.ee_data) << 32 | u64::from(error.ee_info)) as i64;
        let at = if error.ee_code == SO_EE_CODE_TXTIME_MISSED { TxPoint::Missed } else { TxPoint::Invalid };
        return Some(TxStamp { key: 0, at, ns });
    }
    let times = times?;
    if error.ee_origin != libc::SO_EE_ORIGIN_TIMESTAMPING {
        return None;
    }
    let ns = |t: libc::timespec| t.tv_sec * 1_000_000_000 + t.tv_nsec;
    let (at, ns) = match (error.ee_info, ns(times[0]), ns(times[2])) {
        (1, software, _) => (TxPoint::Sched, software),
        (0, 0, hardware) => (TxPoint::Hardware, hardware),
        (0, software, _) => (TxPoint::Software, software),
        _ => return None,
    };
    (ns != 0).then_some(TxStamp { key: error.ee_data, at, ns })
}

/// The stamps of what was received.
#[inline]
pub(crate) fn rx_stamp(message: &libc::msghdr) -> RxStamp {
    let mut stamp = RxStamp::default();
    for_each(message, |level, kind, data| {
        if level == libc::SOL_SOCKET
            && kind == libc::SCM_TIMESTAMPING
            && let Some(times) = value::<[libc::timespec; 3]>(data)
        {
            let [kernel_ns, _, device_ns] = times.map(|t| t.tv_sec * 1_000_000_000 + t.tv_nsec);
            stamp.kernel = (kernel_ns != 0).then(|| Instant::from_ns(kernel_ns));
            stamp.device_ns = (device_ns != 0).then_some(device_ns);
        }
    });
    stamp
}

/// The VLAN tag that was taken out of a frame before a packet socket got it, and whether its
/// checksum is still to be written.
#[inline]
pub(crate) fn rx_aux(message: &libc::msghdr) -> (Option<Taken>, bool) {
    let (mut tag, mut is_unsummed) = (None, false);
    for_each(message, |level, kind, data| {
        if level == libc::SOL_PACKET
            && kind == PACKET_AUXDATA
            && let Some(aux) = value::<libc::tpacket_auxdata>(data)
        {
            // Kernels before 3.14 take out tags of this one type.
            let has_tpid = aux.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let tpid = if has_tpid { aux.tp_vlan_tpid } else { TAG };
            tag = (aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0).then_some((tpid, aux.tp_vlan_tci));
            is_unsummed = aux.tp_status & libc::TP_STATUS_CSUMNOTREADY != 0;
        }
    });
    (tag, is_unsummed)
}
