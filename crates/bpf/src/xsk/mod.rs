// SPDX-License-Identifier: MIT OR Apache-2.0
//! AF_XDP: a socket for each queue of a device, all over one memory, and the XDP program that
//! redirects packets to them.
//!
//! The kernel writes a packet into a frame of the memory, the program's metadata before it, and
//! hands over a descriptor. [`Rings::take`] lends such packets until its next call. A descriptor
//! does not say how much metadata there is, so a frame that is used again would show the stamp of
//! the packet that it had before. Behind a user's program, and behind one that is to ask the
//! device, the id is cleared before a frame goes back. Otherwise nothing is written, see
//! [`Latest`].
//!
//! All queues share the memory (`XDP_SHARED_UMEM`), which the kernel allows between the queues of
//! one device since Linux 5.10. Each queue has a part of the frames to itself.

mod send;
mod shared;
mod socket;

pub use send::{METADATA, OpenedToSend, Outlet, ToSend, WithPackets, completion, request, went_out};
pub use shared::{FRAME, Putting, Taking, no_huge_pages};
pub use tardy_sys::wait::{AnyWaiter, WaitBy};

use crate::program::{Chosen, Filter, ID, Program, ProgramError, RxTime, Stamps};
use crate::user::StampClock;
use shared::Memory;
pub use socket::Latest;
use socket::{Socket, Umem};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use tardy_model::xdp::{DeviceHint, TO_ONE_LINE, XdpLosses, XdpMode, XdpRefusal};
use tardy_sys::thread::close_together;
use tardy_sys::{SysError, bpf, nic};

/// Why packets of a device do not come to AF_XDP sockets.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// It was asked for its number or its queues.
    #[error("{0}: {1} is not in this namespace any more, something outside tardy removed it; run again")]
    Device(#[source] SysError, String),
    #[error("queue {queue} of {device} is not there, it has {queues}: name one of them, counted from 0")]
    NoQueue { device: String, queue: u32, queues: u32 },
    #[error(
        "another XDP program is attached to {device}: take it off (`ip link set dev {device} xdp off`), or end the \
         program that holds its link, then run again"
    )]
    Attached { device: String },
    #[error(
        "{device} has an XDP program in another mode, and the kernel runs programs of one mode only: take it off \
         (`ip link set dev {device} xdpgeneric off`), then run again"
    )]
    OtherMode { device: String },
    #[error(
        "no XDP program can be attached to {device} ({}): take another device, or port packet",
        refused.iter().map(|of| format!("{}: {}", of.mode.name(), of.why)).collect::<Vec<_>>().join("; ")
    )]
    Refused { device: String, refused: Vec<XdpRefusal> },
    #[error("queue {queue} of {device} has an AF_XDP socket of another program: end that program, then run again")]
    Bound { device: String, queue: u32 },
    #[error(
        "no AF_XDP socket can be bound to queue {queue} of {device}: {source}: is it up, and does this kernel have \
         AF_XDP (CONFIG_XDP_SOCKETS, Linux 5.11)?"
    )]
    Bind { device: String, queue: u32, source: io::Error },
    #[error(
        "the packets of {device} need {bytes} bytes of memory for {queues} queues, and {available} are available: \
         free some, give each queue fewer frames (rx.frames, of a sender tx.frames), or the device fewer queues \
         (path.queues, or `ethtool -L`)"
    )]
    TooLarge { device: String, bytes: u64, queues: u32, available: u64 },
    #[error(
        "packets of {device} cannot have {what} through AF_XDP: {why}: send through port packet, or write {instead}"
    )]
    NoMetadata { device: String, what: &'static str, why: String, instead: &'static str },
    #[error(
        "{call} for {device}: {source}: does this kernel have AF_XDP (CONFIG_XDP_SOCKETS, Linux 5.11), and may \
         this user have it (root)?"
    )]
    Socket { call: &'static str, device: String, source: io::Error },
}

/// What the memory may take of that which is available, in parts: the rest of the machine needs
/// some as well.
const PART: u64 = 2;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    pub device: &'a str,
    /// One queue; all of them if none is named.
    pub queue: Option<u32>,
    /// Frames of each queue, a power of two.
    pub frames: u32,
    /// The program to attach.
    pub program: Chosen<'a>,
}

/// What was found and decided on the way.
#[derive(Clone, Debug)]
pub struct Opened {
    pub mode: XdpMode,
    /// Faster modes that were refused.
    pub refused: Vec<XdpRefusal>,
    pub queues: u32,
    pub umem_bytes: u64,
    /// Why the memory is not of huge pages; `None` if it is.
    pub small_pages: Option<String>,
    pub clock: StampClock,
    /// The program asks the device: what it leaves before packets is of its own object.
    pub asks_device: bool,
    /// Why it does not, though it was to.
    pub without_hints: Option<String>,
}

/// A packet that is lent: whose socket's, and where it lies.
#[derive(Clone, Copy, Debug)]
struct Held {
    socket: usize,
    at: usize,
    length: usize,
}

/// The sockets of a device. Without them no program stays attached: the kernel detaches it with
/// the last descriptor of the link, however this process ends.
#[derive(Debug)]
pub struct Rings {
    link: Option<OwnedFd>,
    sockets: Vec<Socket>,
    memory: Memory,
    stamps: Stamps,
    /// What tells a new stamp from an old one where ids are not cleared.
    latest: Option<Latest>,
    lent: Vec<Held>,
    /// The socket to begin with.
    next: usize,
}

impl Rings {
    /// Loads the program, attaches it, binds a socket to each queue, and fills their rings.
    ///
    /// # Errors
    /// See [`XdpError`].
    pub fn open(asked: &Asked<'_>) -> Result<(Rings, Opened), XdpError> {
        let device = asked.device.to_owned();
        let of_device = |source| XdpError::Device(source, device.clone());
        let index = nic::index(asked.device).map_err(of_device)?;
        let there = nic::rx_queues(asked.device).map_err(of_device)?;
        let queues: Vec<u32> = match asked.queue {
            None => (0..there).collect(),
            Some(queue) if queue < there => vec![queue],
            Some(queue) => return Err(XdpError::NoQueue { device, queue, queues: there }),
        };
        let memory = memory_for(asked, queues.len() as u32)?;
        let (asking, without_hints) = match asked.program {
            Chosen::Asking(filter, hints) => asking(asked.device, index, there, filter, hints),
            _ => (None, None),
        };
        let asks_device = asking.is_some();
        let (program, (link, is_native, mut refused)) = match asking {
            Some((program, link)) => (program, (link, true, Vec::new())),
            None => {
                let program = Program::load(asked.program, there, index)?;
                let attached = attached(asked.device, index, &program)?;
                (program, attached)
            }
        };
        let (sockets, is_zero_copy) = bound(asked, index, &queues, &memory, is_native, &mut refused)?;
        for (queue, socket) in queues.iter().zip(&sockets) {
            program.serve(*queue, socket.as_fd())?;
        }
        let mode = match (is_zero_copy, is_native) {
            (true, _) => XdpMode::ZeroCopy,
            (false, true) => XdpMode::Native,
            (false, false) => XdpMode::Generic,
        };
        let opened = Opened {
            mode,
            refused,
            queues: queues.len() as u32,
            umem_bytes: memory.length() as u64,
            small_pages: memory.small_pages.clone(),
            clock: program.clock,
            asks_device,
            without_hints,
        };
        let lent = Vec::with_capacity(asked.frames as usize);
        // Every struct of tardy's own program has a time, and nobody reads more of it than that.
        let is_own = matches!(asked.program, Chosen::Own(_));
        let latest = is_own.then(|| Latest::new(memory.length() / FRAME as usize));
        Ok((Rings { link: Some(link), sockets, memory, stamps: program.stamps, latest, lent, next: 0 }, opened))
    }

    /// Ready to be waited for.
    ///
    /// # Errors
    /// As [`AnyWaiter::new`].
    pub fn waiter(&self, by: WaitBy) -> io::Result<AnyWaiter> {
        AnyWaiter::new(by, &self.sockets)
    }

    /// Takes back what it lent, and lends the packets that wait, at most `most`. Gives how many.
    #[inline]
    pub fn take(&mut self, most: usize) -> usize {
        self.take_back();
        let (behind, before) = (self.next..self.sockets.len(), 0..self.next);
        for at in behind.chain(before) {
            let ring = &mut self.sockets[at].received;
            let waiting = ring.waiting((most - self.lent.len()) as u32);
            if waiting == 0 {
                continue;
            }
            let memory = &self.memory;
            self.lent.extend((0..waiting).map(|n| {
                let (address, length) = ring.packet(n);
                let held = Held { socket: at, at: address as usize, length: length as usize };
                // What the program wrote and the packet's beginning may be two lines.
                memory.fetch(held.at.saturating_sub(ID));
                memory.fetch(held.at);
                held
            }));
            ring.take(waiting);
            if self.lent.len() >= most {
                // No queue keeps another one waiting.
                self.next = if at + 1 < self.sockets.len() { at + 1 } else { 0 };
                break;
            }
        }
        self.lent.len()
    }

    /// Gives the frames that were lent to the kernel again, without their stamps. Who sleeps for a
    /// packet calls it before: after [`take`](Self::take) has begun, the packet waits for it.
    #[inline]
    pub fn take_back(&mut self) {
        if self.lent.is_empty() {
            return;
        }
        for held in &self.lent {
            let area = area(&self.memory, &self.stamps, held.at);
            match (&mut self.latest, held.at.checked_sub(ID)) {
                (Some(latest), _) => {
                    self.stamps.read(area).into_iter().for_each(|stamp| latest.keep(held.at, stamp.time_ns));
                }
                (None, Some(id)) => self.memory.bytes_mut(id, ID).fill(0),
                (None, None) => {}
            }
            let frame = held.at as u64 & !u64::from(FRAME - 1);
            // The ring has as many entries as the queue has frames.
            let is_put = self.sockets[held.socket].fill.put(frame);
            debug_assert!(is_put, "a frame came twice");
        }
        self.lent.clear();
        self.sockets.iter_mut().for_each(|socket| socket.fill.publish());
    }

    /// Packet `n` of those that are lent, from its Ethernet header on.
    #[inline]
    pub fn packet(&self, n: usize) -> &[u8] {
        let held = &self.lent[n];
        self.memory.bytes(held.at, held.length)
    }

    /// What the program wrote before packet `n`; `None` if it wrote nothing.
    #[inline]
    pub fn stamp(&self, n: usize) -> Option<RxTime> {
        let at = self.lent[n].at;
        let is_new = |stamp: &RxTime| self.latest.as_ref().is_none_or(|latest| latest.is_new(at, stamp.time_ns));
        self.stamps.read(area(&self.memory, &self.stamps, at)).filter(is_new)
    }

    /// The bytes before packet `n`, as many as the largest struct has. Behind tardy's own program
    /// that does not ask the device they may be old: ask for [`stamp`](Self::stamp) first.
    #[inline]
    pub fn area(&self, n: usize) -> &[u8] {
        area(&self.memory, &self.stamps, self.lent[n].at)
    }

    /// Wakes drivers that wait to be woken for the frames that they were given.
    #[inline]
    pub fn wake(&self) {
        self.sockets.iter().filter(|socket| socket.fill.wants_wakeup()).for_each(Socket::wake);
    }

    /// Polls the device at each queue, after [`Rings::prefer_busy_poll`].
    #[inline]
    pub fn poll_device(&self) {
        self.sockets.iter().for_each(Socket::wake);
    }

    /// Has [`Rings::poll_device`] do the work of the device's interrupts.
    ///
    /// # Errors
    /// The kernel's.
    pub fn prefer_busy_poll(&self, us: i32, budget: i32) -> io::Result<()> {
        let all = self.sockets.iter().try_for_each(|socket| socket.calls().prefer_busy_poll(us, budget));
        all.map_err(|error| error.source)
    }

    /// errno of a device that gives nothing any more, 0 while it does.
    pub fn error(&self) -> i32 {
        self.sockets.iter().map(|socket| socket.calls().error()).find(|errno| *errno != 0).unwrap_or(0)
    }

    /// The NAPI context that packets of the first queue that had any came from; 0 while there is
    /// none.
    pub fn napi_id(&self) -> u32 {
        self.sockets.iter().map(|socket| socket.calls().napi_id()).find(|id| *id != 0).unwrap_or(0)
    }

    /// What was lost at the sockets since they were bound.
    pub fn losses(&self) -> XdpLosses {
        let all = self.sockets.iter().filter_map(|socket| socket.calls().statistics().ok());
        all.fold(XdpLosses::default(), |sum, of| XdpLosses {
            rx_dropped: sum.rx_dropped + of.rx_dropped,
            rx_ring_full: sum.rx_ring_full + of.rx_ring_full,
            fill_ring_empty: sum.fill_ring_empty + of.rx_fill_ring_empty_descs,
            rx_invalid_descs: sum.rx_invalid_descs + of.rx_invalid_descs,
        })
    }
}

impl Drop for Rings {
    /// Takes the program off, and then closes the sockets of all queues at the same time.
    fn drop(&mut self) {
        self.link = None;
        close_together(std::mem::take(&mut self.sockets));
    }
}

/// The bytes before a packet. No driver puts one nearer to its frame's beginning than the headroom.
#[inline]
fn area<'a>(memory: &'a Memory, stamps: &Stamps, packet: usize) -> &'a [u8] {
    let area = stamps.area();
    packet.checked_sub(area).map_or(&[], |at| memory.bytes(at, area))
}

/// The memory of all queues, if the machine has so much to give.
fn memory_for(asked: &Asked<'_>, queues: u32) -> Result<Memory, XdpError> {
    let part = u64::from(asked.frames) * u64::from(FRAME);
    let bytes = u64::from(queues) * part;
    let available = tardy_sys::proc::available_memory_bytes().unwrap_or(0);
    let too_large = || XdpError::TooLarge { device: asked.device.to_owned(), bytes, queues, available };
    if bytes > available / PART {
        return Err(too_large());
    }
    usize::try_from(bytes).ok().and_then(|length| Memory::new(length, part as usize).ok()).ok_or_else(too_large)
}

/// The program that asks the device, attached in its driver; or why not. The caller then loads the
/// program that does not ask, and reports what is in its way too.
fn asking(
    device: &str,
    index: u32,
    queues: u32,
    filter: Filter,
    hints: &[DeviceHint],
) -> (Option<(Program, OwnedFd)>, Option<String>) {
    let without = |what: &str, why: String| {
        let says =
            format!("{what} the program that asks {device} for them, which needs Linux 6.3 and native mode: {why}");
        (None, Some(says))
    };
    let program = match Program::asking(filter, hints, queues, index) {
        Ok(program) => program,
        Err(why) => return without("the kernel does not load", why.in_short()),
    };
    match bpf::attach_xdp(program.as_fd(), index, bpf::XDP_FLAGS_DRV_MODE) {
        Ok(link) => (Some((program, link)), None),
        Err(why) => without("the driver refuses", why.to_string()),
    }
}

/// Attaches the program, in the driver if it can. Gives the link, whether it is in the driver, and
/// what was refused.
fn attached(device: &str, index: u32, program: &Program) -> Result<(OwnedFd, bool, Vec<XdpRefusal>), XdpError> {
    let device = || device.to_owned();
    let mut refused = Vec::new();
    let modes = [(XdpMode::Native, bpf::XDP_FLAGS_DRV_MODE), (XdpMode::Generic, bpf::XDP_FLAGS_SKB_MODE)];
    for (mode, flags) in modes {
        match bpf::attach_xdp(program.as_fd(), index, flags) {
            Ok(link) => return Ok((link, mode == XdpMode::Native, refused)),
            Err(why) => match why.raw_os_error() {
                Some(libc::EBUSY) => return Err(XdpError::Attached { device: device() }),
                Some(libc::EEXIST) => return Err(XdpError::OtherMode { device: device() }),
                _ => refused.push(XdpRefusal { mode, why: format!("the driver refuses the program: {why}") }),
            },
        }
    }
    Err(XdpError::Refused { device: device(), refused })
}

/// A socket at each queue; and whether the device writes into the memory itself. A driver may be
/// able to do that at some of its queues only: then none of them does.
fn bound(
    asked: &Asked<'_>,
    index: u32,
    queues: &[u32],
    memory: &Memory,
    is_native: bool,
    refused: &mut Vec<XdpRefusal>,
) -> Result<(Vec<Socket>, bool), XdpError> {
    let all = |try_zero_copy: bool, refused: &mut Vec<XdpRefusal>| {
        let mut sockets: Vec<Socket> = Vec::with_capacity(queues.len());
        let mut is_zero_copy = false;
        for (n, queue) in queues.iter().enumerate() {
            let socket = match sockets.first() {
                Some(first) => of_first(asked, index, *queue, &Umem::Of(first.as_fd())),
                None => first_of(asked, index, *queue, memory, try_zero_copy, refused),
            };
            let socket = match socket {
                Ok(socket) => socket,
                Err(error) => {
                    // The next try needs their queues.
                    close_together(sockets);
                    return Err((error, is_zero_copy));
                }
            };
            if n == 0 {
                is_zero_copy = socket.calls().is_zero_copy().map_err(|why| (failed(asked, why), false))?;
            }
            sockets.push(socket);
            let socket = &mut sockets[n];
            let first = n as u64 * u64::from(asked.frames);
            for frame in first..first + u64::from(asked.frames) {
                socket.fill.put(frame * u64::from(FRAME));
            }
            socket.fill.publish();
        }
        Ok((sockets, is_zero_copy))
    };
    if !is_native {
        let why = "only a program in native mode can have it".to_owned();
        refused.insert(0, XdpRefusal { mode: XdpMode::ZeroCopy, why });
    }
    match all(is_native, refused) {
        Ok(bound) => Ok(bound),
        Err((XdpError::Bind { queue, source, .. }, true)) => {
            let why = format!("the driver does not write into a socket's memory at queue {queue}: {source}");
            refused.insert(0, XdpRefusal { mode: XdpMode::ZeroCopy, why });
            all(false, refused).map_err(|(error, _)| error)
        }
        Err((error, _)) => Err(error),
    }
}

/// The socket to which the memory is registered: without a copy if the driver can.
fn first_of(
    asked: &Asked<'_>,
    index: u32,
    queue: u32,
    memory: &Memory,
    try_zero_copy: bool,
    refused: &mut Vec<XdpRefusal>,
) -> Result<Socket, XdpError> {
    if try_zero_copy {
        // A device writes fastest to the beginning of a line.
        let umem = Umem::Registered { memory, headroom: 0, metadata: 0 };
        let socket = Socket::new(&umem, asked.frames).map_err(|why| failed(asked, why))?;
        match socket.bind(index, queue, &umem, libc::XDP_ZEROCOPY) {
            Ok(()) => return Ok(socket),
            Err(why) if why.raw_os_error() == Some(libc::EBUSY) => return Err(not_bound(asked.device, queue, why)),
            Err(why) => {
                let why = format!("the driver does not write into a socket's memory: {why}");
                // It is the faster of two: it belongs before what was refused so far.
                refused.insert(0, XdpRefusal { mode: XdpMode::ZeroCopy, why });
            }
        }
    }
    // One that was not bound is not used again: what it had registered goes with it.
    let umem = Umem::Registered { memory, headroom: TO_ONE_LINE, metadata: 0 };
    let socket = Socket::new(&umem, asked.frames).map_err(|why| failed(asked, why))?;
    socket.bind(index, queue, &umem, libc::XDP_COPY).map_err(|why| not_bound(asked.device, queue, why))?;
    Ok(socket)
}

/// A socket over the memory of the first one.
fn of_first(asked: &Asked<'_>, index: u32, queue: u32, memory: &Umem<'_>) -> Result<Socket, XdpError> {
    let socket = Socket::new(memory, asked.frames).map_err(|why| failed(asked, why))?;
    socket.bind(index, queue, memory, 0).map_err(|why| not_bound(asked.device, queue, why))?;
    Ok(socket)
}

fn failed(asked: &Asked<'_>, error: SysError) -> XdpError {
    XdpError::Socket { call: error.call, device: asked.device.to_owned(), source: error.source }
}

fn not_bound(device: &str, queue: u32, source: io::Error) -> XdpError {
    let device = device.to_owned();
    match source.raw_os_error() {
        Some(libc::EBUSY) => XdpError::Bound { device, queue },
        _ => XdpError::Bind { device, queue, source },
    }
}
