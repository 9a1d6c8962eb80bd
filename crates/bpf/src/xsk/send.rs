// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sending through AF_XDP: a socket at each queue of a device, each over a memory of its own.
//!
//! A packet is written into a frame of the memory, its descriptor goes into the send ring, and a
//! call has the kernel look there ("kick"). The frame comes back through the completion ring.
//!
//! In copy mode the kernel makes a packet buffer of each and gives it to the driver within that
//! call, past every queue discipline. So the call's end shows which went out. What the kernel did
//! not take is made void in the ring: a packet that was reported as refused never leaves later. A
//! frame comes back when its packet buffer is freed, which does not show when it left.
//!
//! In zero-copy mode the driver reads the ring by itself. What is in the ring counts as handed
//! over. Such drivers send only while an XDP program is attached, so tardy's own is, without a
//! socket: it lets everything through. Here a driver may take a launch time from what lies before a
//! packet, and leave there when the device sent it.

use super::shared::{CompletedRing, Memory, SendRing};
use super::socket::{Socket, Umem};
use super::{Asked, FRAME, XdpError, memory_for, not_bound};
use crate::program::{Chosen, Filter, Program};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use tardy_model::xdp::{XdpMode, XdpRefusal, XdpSendMode, XdpSent};
use tardy_sys::SysError;
use tardy_sys::bpf;
use tardy_sys::nic::{self, XdpFeatures};
use tardy_sys::packet::XdpSocket;

/// Bytes of `struct xsk_tx_metadata` as Linux 6.14 has it; an earlier one uses the first 16.
pub const METADATA: usize = 24;
/// Where a packet begins in its frame, if there is something before it.
const BEHIND_METADATA: usize = 64;
/// Flags of that struct (include/uapi/linux/if_xdp.h).
const TIMESTAMP: u64 = 1;
const LAUNCH_TIME: u64 = 1 << 2;
/// Most packets that one call hands over.
const BATCH: usize = 64;
/// Frames that are taken back for each packet that is sent: more than go out, so that those come
/// back that were held up.
const BACK_EACH: usize = 2;
/// Kicks in a row that move nothing.
const FUTILE: u32 = 2;

/// What goes with packets to the driver and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WithPackets {
    /// When the device sent each.
    pub stamps: bool,
    pub launch_times: bool,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct ToSend<'a> {
    pub device: &'a str,
    /// Transmit queues; all of them if none are named.
    pub queues: Option<Range<u32>>,
    /// Frames of each queue's memory, a power of two.
    pub frames: u32,
    /// Of the program that zero-copy mode needs.
    pub filter: Filter,
    /// SO_PRIORITY of the socket.
    pub priority: u32,
    pub with: WithPackets,
    /// What comes before each payload.
    pub head: Vec<u8>,
}

/// What was found and decided on the way.
#[derive(Clone, Debug)]
pub struct OpenedToSend {
    /// That of all queues.
    pub mode: XdpSendMode,
    /// Faster modes that were refused.
    pub refused: Vec<XdpRefusal>,
    pub queues: Range<u32>,
    /// Bytes of the memories of all queues.
    pub umem_bytes: u64,
    /// Why the memory is not of huge pages; `None` if it is.
    pub small_pages: Option<String>,
}

/// What lies before a packet that is to be stamped, or to be sent at an instant of the device's
/// clock: `struct xsk_tx_metadata` with its request.
pub fn request(stamp: bool, launch_ns: Option<u64>) -> [u8; METADATA] {
    let flags = if stamp { TIMESTAMP } else { 0 } | if launch_ns.is_some() { LAUNCH_TIME } else { 0 };
    let mut bytes = [0; METADATA];
    bytes[..8].copy_from_slice(&flags.to_ne_bytes());
    bytes[16..].copy_from_slice(&launch_ns.unwrap_or(0).to_ne_bytes());
    bytes
}

/// When the device sent the packet, by its own clock, as the driver has left it there; `None` if it
/// has left nothing.
pub fn completion(bytes: &[u8]) -> Option<u64> {
    let ns = u64::from_ne_bytes(bytes.get(8..16)?.try_into().ok()?);
    (ns != 0).then_some(ns)
}

/// How many of `count` packets went out, where a call to the kernel ended with `errno`. It had
/// taken `before` of them out of the ring before the call, and `after` it. `None` if it is to be
/// called again.
pub fn went_out(count: u32, before: u32, after: u32, errno: i32, futile: u32) -> Option<u32> {
    match errno {
        0 => Some(after),
        // The kernel drops a packet, reports that, and looks at no further one. Where nothing went
        // before it in this call, it does not say yet that it has taken it out.
        libc::EBUSY => Some(if after > before { after - 1 } else { before }),
        // A call takes a number of packets at most; or there was no room for a moment.
        libc::EAGAIN if after < count && (after > before || futile < FUTILE) => None,
        _ => Some(after),
    }
}

/// The sending half of a socket.
#[derive(Debug)]
pub struct Outlet {
    fd: XdpSocket,
    ring: SendRing,
    completed: CompletedRing,
    memory: Memory,
    /// Where that part of the memory begins whose frames are sent.
    base: u64,
    /// Addresses of frames that nobody has.
    free: Vec<u64>,
    /// Those that were put into the ring and not handed over yet.
    put: Vec<u64>,
    /// The key of the packet in each frame.
    keys: Vec<u32>,
    head: Vec<u8>,
    /// Where packets begin in their frames.
    start: usize,
    with: WithPackets,
    is_zero_copy: bool,
    completions: u64,
    voided: u64,
    /// Void descriptors that the kernel may not have passed over yet.
    void: u32,
    _socket: Socket,
    _link: Option<OwnedFd>,
}

impl Outlet {
    /// Binds a socket to each of the queues: without a copy if the driver can do that at all of
    /// them.
    ///
    /// # Errors
    /// See [`XdpError`].
    pub fn open(asked: &ToSend<'_>) -> Result<(Vec<Outlet>, OpenedToSend), XdpError> {
        let of_device = |source| XdpError::Device(source, asked.device.to_owned());
        let index = nic::index(asked.device).map_err(of_device)?;
        let there = nic::tx_queues(asked.device).map_err(of_device)?;
        let queues = asked.queues.clone().unwrap_or(0..there);
        if queues.end > there {
            let queue = queues.start.max(there);
            return Err(XdpError::NoQueue { device: asked.device.to_owned(), queue, queues: there });
        }
        let fast = match &nic::xdp_features(asked.device) {
            Ok(features) if features.zero_copy => can(asked, features).and_then(|()| zero_copy(asked, index, &queues)),
            Ok(_) => Err("the driver has no zero-copy mode".to_owned()),
            Err(error) => Err(format!("whether the driver has a zero-copy mode is not known: {error}")),
        };
        let (outlets, mode, refused) = match fast {
            Ok(outlets) => (outlets, XdpSendMode::ZeroCopy, Vec::new()),
            Err(why) => {
                needs_none(asked, &why)?;
                let refused = vec![XdpRefusal { mode: XdpMode::ZeroCopy, why }];
                (copying(asked, index, &queues)?, XdpSendMode::Copy, refused)
            }
        };
        let umem_bytes = outlets.iter().map(|of| of.base + of.memory.length() as u64).sum();
        let small_pages = outlets.first().and_then(|outlet| outlet.memory.small_pages.clone());
        Ok((outlets, OpenedToSend { mode, refused, queues, umem_bytes, small_pages }))
    }

    /// Over the part of the memory that begins at `base`, through a socket that has `rings`.
    fn over(
        asked: &ToSend<'_>,
        socket: Socket,
        rings: (SendRing, CompletedRing),
        memory: Memory,
        base: u64,
    ) -> Result<Outlet, SysError> {
        let frames = memory.length() as u64 / u64::from(FRAME);
        let start = if asked.with == WithPackets::default() { 0 } else { BEHIND_METADATA };
        Ok(Outlet {
            fd: socket.calls().again()?,
            ring: rings.0,
            completed: rings.1,
            memory,
            base,
            free: (0..frames).rev().map(|frame| base + frame * u64::from(FRAME)).collect(),
            put: Vec::with_capacity(BATCH),
            keys: vec![0; frames as usize],
            head: asked.head.clone(),
            start,
            with: asked.with,
            is_zero_copy: false,
            completions: 0,
            voided: 0,
            void: 0,
            _socket: socket,
            _link: None,
        })
    }

    /// Sends one packet under `key`, with a launch time in ns if it was opened for that; errno if
    /// it did not go out.
    #[inline]
    pub fn send(&mut self, payload: &[u8], key: u32, launch_ns: Option<i64>) -> Result<(), i32> {
        self.put(payload, key, launch_ns)?;
        match self.hand_over() {
            (0, errno) => Err(errno),
            _ => Ok(()),
        }
    }

    /// Sends packets of `size` bytes that are one after the other in memory, one for each key and
    /// at most 64. Gives how many went out, the first ones; errno if none did.
    ///
    /// # Errors
    /// The kernel's.
    pub fn send_batch(&mut self, payloads: &[u8], size: usize, keys: &[u32]) -> Result<usize, i32> {
        for (payload, key) in payloads.chunks_exact(size.max(1)).zip(keys).take(BATCH) {
            match self.put(payload, *key, None) {
                Err(errno) if self.put.is_empty() => return Err(errno),
                Err(_) => break,
                Ok(()) => {}
            }
        }
        match self.hand_over() {
            (0, errno) if errno != 0 => Err(errno),
            (sent, _) => Ok(sent),
        }
    }

    /// Writes a packet into a free frame and its descriptor into the ring.
    #[inline]
    fn put(&mut self, payload: &[u8], key: u32, launch_ns: Option<i64>) -> Result<(), i32> {
        if self.free.is_empty() && !self.with.stamps {
            self.reap(BATCH, |_, _| {});
        }
        let Some(frame) = self.free.pop() else { return Err(libc::ENOBUFS) };
        let (head, at) = (self.head.len(), (frame - self.base) as usize + self.start);
        let room = self.memory.bytes_mut(at, head + payload.len());
        if room.len() + self.start > FRAME as usize || room.is_empty() {
            self.free.push(frame);
            return Err(libc::EMSGSIZE);
        }
        room[..head].copy_from_slice(&self.head);
        room[head..].copy_from_slice(payload);
        let mut options = 0;
        if self.start > 0 {
            let launch_ns = launch_ns.filter(|_| self.with.launch_times).map(|ns| ns as u64);
            let before = self.memory.bytes_mut(at - METADATA, METADATA);
            before.copy_from_slice(&request(self.with.stamps, launch_ns));
            options = libc::XDP_TX_METADATA;
        }
        let len = (head + payload.len()) as u32;
        let packet = libc::xdp_desc { addr: frame + self.start as u64, len, options };
        let is_put = self.ring.put(packet) || self.put.is_empty() && self.pass_over_void() && self.ring.put(packet);
        if !is_put {
            self.free.push(frame);
            return Err(libc::ENOBUFS);
        }
        self.keys[(frame - self.base) as usize / FRAME as usize] = key;
        self.put.push(frame);
        Ok(())
    }

    /// Has the kernel pass over what was made void where it fills the ring; true if it did. Else no
    /// packet would ever go out again: one that cannot be put into the ring wakes nobody.
    #[cold]
    fn pass_over_void(&mut self) -> bool {
        let before = self.ring.waiting();
        self.fd.kick();
        let passed = before.saturating_sub(self.ring.waiting());
        self.void = self.void.saturating_sub(passed);
        passed > 0
    }

    /// Hands over what was put into the ring. Gives how many packets went out, and the errno that
    /// the next one met.
    #[inline]
    fn hand_over(&mut self) -> (usize, i32) {
        let count = self.put.len() as u32;
        // Before each packet and for about as many frames, so that it costs each packet the same:
        // all of them at times, or after the call, when a receiver on this CPU is to run, would
        // show in each packet of some number.
        if !self.with.stamps {
            self.reap(BACK_EACH * self.put.len(), |_, _| {});
        }
        self.ring.publish();
        let (sent, errno) = match self.is_zero_copy {
            true if !self.ring.wants_wakeup() => (count, 0),
            true => match self.fd.kick() {
                0 => (count, 0),
                errno => (count.saturating_sub(self.ring.waiting()), errno),
            },
            false => self.kick_on(count),
        };
        if sent < count {
            self.take_back(count, sent, errno);
        }
        self.put.clear();
        (sent as usize, errno)
    }

    /// Calls the kernel, in copy mode, until it has taken `count` packets or says why not.
    #[inline]
    fn kick_on(&mut self, count: u32) -> (u32, i32) {
        let (mut before, mut futile, mut void) = (0, 0, self.void);
        loop {
            let errno = self.fd.kick();
            // What was made void earlier lies before them in the ring.
            let after = count.saturating_sub(self.ring.waiting());
            if errno == 0 && after < count && void > 0 {
                // The kernel passes over one of them in a call, and reports neither.
                void -= 1;
                continue;
            }
            if after == count {
                self.void = 0;
            }
            match went_out(count, before, after, errno, futile) {
                // The queue is not in use any more: no call takes anything, and none fails.
                Some(sent) if sent < count && errno == 0 => return (sent, libc::ENXIO),
                Some(sent) => return (sent, errno),
                None if after > before => (before, futile) = (after, 0),
                None => {
                    futile += 1;
                    if !self.with.stamps {
                        self.reap(BATCH, |_, _| {});
                    }
                }
            }
        }
    }

    /// Of `count` packets the first `sent` went out, and the next one met `errno`: the others are
    /// taken back.
    #[cold]
    fn take_back(&mut self, count: u32, sent: u32, errno: i32) {
        // A packet that was dropped is not in the ring any more, and its frame comes back like the
        // others.
        let kept = if errno == libc::EBUSY && !self.is_zero_copy { sent + 1 } else { sent };
        let back = count.saturating_sub(kept);
        self.ring.void(back);
        self.void = self.void.saturating_add(back);
        self.voided += u64::from(back);
        self.free.extend(&self.put[kept.min(count) as usize..]);
    }

    /// Takes frames back that were sent, at most `most`, and gives the key of each with the instant
    /// at which the device sent it, by its own clock, where that was asked for and has come. Gives
    /// how many frames they were.
    #[inline]
    pub fn reap(&mut self, most: usize, mut each: impl FnMut(u32, u64)) -> usize {
        let waiting = self.completed.waiting(most as u32);
        for n in 0..waiting {
            let frame = self.completed.packet(n) & !u64::from(FRAME - 1);
            let at = frame.wrapping_sub(self.base) as usize;
            let Some(key) = self.keys.get(at / FRAME as usize) else { continue };
            if self.with.stamps
                && let Some(ns) = completion(self.memory.bytes(at + self.start - METADATA, METADATA))
            {
                each(*key, ns);
            }
            self.free.push(frame);
        }
        self.completed.take(waiting);
        self.completions += u64::from(waiting);
        waiting as usize
    }

    /// Frames that have come back and were not taken, and for how many there is room; `None` where
    /// nothing is read of them.
    pub fn stamps(&self) -> Option<(u32, u32)> {
        self.with.stamps.then(|| (self.completed.all(), self.keys.len() as u32))
    }

    /// What was counted so far.
    pub fn counted(&self) -> XdpSent {
        let statistics = self.fd.statistics().ok();
        let of = |count: fn(&libc::xdp_statistics) -> u64| statistics.as_ref().map_or(0, count);
        XdpSent {
            completions: self.completions + u64::from(self.completed.all()),
            tx_invalid_descs: of(|of| of.tx_invalid_descs),
            tx_ring_empty_descs: of(|of| of.tx_ring_empty_descs),
            voided: self.voided,
        }
    }
}

/// What of the request this driver has.
fn can(asked: &ToSend<'_>, features: &XdpFeatures) -> Result<(), String> {
    let lacks = |what: &str| Err(format!("the driver has no {what} in AF_XDP's tx metadata (xsk-features of netdev)"));
    match asked.with {
        WithPackets { stamps: true, .. } if !features.tx_timestamp => lacks("tx stamps (tx-timestamp)"),
        WithPackets { launch_times: true, .. } if !features.tx_launch_time => {
            lacks("launch times (tx-launch-time-fifo, Linux 6.14)")
        }
        _ => Ok(()),
    }
}

/// Copy mode has nothing that goes with packets.
fn needs_none(asked: &ToSend<'_>, why: &str) -> Result<(), XdpError> {
    let refuse = |what, instead| {
        Err(XdpError::NoMetadata { device: asked.device.to_owned(), what, why: why.to_owned(), instead })
    };
    match asked.with {
        WithPackets { launch_times: true, .. } => refuse("launch times", "launch = \"none\""),
        WithPackets { stamps: true, .. } => refuse("stamps at tx_hw", "`stamps` without \"tx_hw\""),
        _ => Ok(()),
    }
}

/// A memory for each of the queues, of `parts` parts, each of as many frames as are asked for.
fn memories(asked: &ToSend<'_>, queues: &Range<u32>, parts: u32) -> Result<Vec<Memory>, XdpError> {
    let ToSend { device, frames, filter, .. } = *asked;
    let of = Asked { device, queue: None, frames, program: Chosen::Own(filter) };
    let mut rest = memory_for(&of, queues.len() as u32 * parts)?;
    let each = rest.length() / queues.len().max(1);
    let mut memories = Vec::with_capacity(queues.len());
    for _ in queues.clone() {
        let (first, others) = rest.split(each);
        memories.push(first);
        rest = others;
    }
    Ok(memories)
}

fn failed(asked: &ToSend<'_>, error: SysError) -> XdpError {
    XdpError::Socket { call: error.call, device: asked.device.to_owned(), source: error.source }
}

/// What the socket may keep of packets that are under way, bytes: all of its memory. The kernel
/// counts a packet at a frame's size and what describes it, and doubles the figure.
fn room(asked: &ToSend<'_>) -> i32 {
    i32::try_from(u64::from(asked.frames) * u64::from(FRAME)).unwrap_or(i32::MAX / 2)
}

/// Opens and binds a socket for each queue in copy mode.
fn copying(asked: &ToSend<'_>, index: u32, queues: &Range<u32>) -> Result<Vec<Outlet>, XdpError> {
    let memories = memories(asked, queues, 1)?;
    let one = |(queue, memory): (u32, Memory)| {
        let umem = Umem::Registered { memory: &memory, headroom: 0, metadata: 0 };
        let of_call = |why| failed(asked, why);
        let socket = Socket::new(&umem, asked.frames).map_err(of_call)?;
        let rings = socket.sends(asked.frames, BATCH as u32, asked.priority, room(asked)).map_err(of_call)?;
        let refused = |why| not_bound(asked.device, queue, why);
        socket.bind(index, queue, &umem, libc::XDP_COPY).map_err(refused)?;
        Outlet::over(asked, socket, rings, memory, 0).map_err(of_call)
    };
    queues.clone().zip(memories).map(one).collect()
}

/// In zero-copy mode; or why not. The driver then takes the frames of whatever arrives at a queue
/// from its memory too: half of it is for them.
fn zero_copy(asked: &ToSend<'_>, index: u32, queues: &Range<u32>) -> Result<Vec<Outlet>, String> {
    let says = |error: XdpError| error.to_string();
    let receives = nic::rx_queues(asked.device).map_err(|error| error.to_string())?;
    let program = Program::load(Chosen::Own(asked.filter), receives, index).map_err(|error| error.to_string())?;
    let link = bpf::attach_xdp(program.as_fd(), index, bpf::XDP_FLAGS_DRV_MODE)
        .map_err(|why| format!("the driver needs an XDP program to send so, and refuses tardy's: {why}"))?;
    let memories = memories(asked, queues, 2).map_err(says)?;
    let one = |(queue, memory)| {
        zero_copy_at(asked, index, queue, memory, &link).map_err(|why| format!("at queue {queue}: {why}"))
    };
    queues.clone().zip(memories).map(one).collect()
}

/// The socket of one queue in that mode. It holds the program's link too.
fn zero_copy_at(asked: &ToSend<'_>, index: u32, queue: u32, whole: Memory, link: &OwnedFd) -> Result<Outlet, String> {
    let of_call = |error: SysError| format!("{}: {}", error.call, error.source);
    let metadata = if asked.with == WithPackets::default() { 0 } else { METADATA as u32 };
    let umem = Umem::Registered { memory: &whole, headroom: 0, metadata };
    let mut socket = Socket::new(&umem, asked.frames).map_err(of_call)?;
    let rings = socket.sends(asked.frames, BATCH as u32, asked.priority, room(asked)).map_err(of_call)?;
    (0..u64::from(asked.frames)).for_each(|frame| {
        socket.fill.put(frame * u64::from(FRAME));
    });
    socket.fill.publish();
    socket
        .bind(index, queue, &umem, libc::XDP_ZEROCOPY)
        .map_err(|why| format!("the driver does not send out of a socket's memory: {why}"))?;
    let base = whole.length() / 2;
    let (received, sent) = whole.split(base);
    let mut outlet = Outlet::over(asked, socket, rings, sent, base as u64).map_err(of_call)?;
    match outlet.fd.kick() {
        0 => {
            // The socket has pinned the pages of the other half: no packet is read there.
            drop(received);
            let link = link.try_clone().map_err(|error| format!("keeping the program attached: {error}"))?;
            (outlet.is_zero_copy, outlet._link) = (true, Some(link));
            Ok(outlet)
        }
        errno => Err(format!("the driver does not wake up to send: {}", std::io::Error::from_raw_os_error(errno))),
    }
}
