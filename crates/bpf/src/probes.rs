// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probe packets at a station: they are sent, and known among all frames of a device by their mark.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tardy_model::ethernet::{MOST_TAGS, TAGS, UNTAGGED};
use tardy_model::frame::HEAD;
use tardy_sys::packet;
use tardy_sys::stamps::TxStamps;
use tardy_sys::thread::close_together;

/// Room for frames in a socket, bytes.
pub(crate) const BUFFER: i32 = 1 << 20;
/// A probe packet that has not arrived after this time does not.
const LATEST: Duration = Duration::from_millis(100);
/// Bytes of the longest headers of IP and of UDP or TCP that a probe has.
const IP_AND_TCP: usize = 40 + 20;
/// The last place at which a mark can begin: a probe has at most one tag of its own.
const FARTHEST: usize = UNTAGGED + 4 * (1 + MOST_TAGS) + IP_AND_TCP;
/// What is read of a frame: a mark is the head of a test frame.
const MARKED: usize = FARTHEST + HEAD;

/// Where probe packets arrive: how each is known, and how many came by their tags.
pub struct Arriving<S> {
    /// What gives the frames.
    pub from: S,
    pub mark: Vec<u8>,
    pub by_tags: BTreeMap<u8, u32>,
    /// Those of them that lack their checksum, and of which the kernel does not know it.
    pub without_checksum: u32,
    /// The least TTL of them; `None` while none came that holds IP.
    pub least_ttl: Option<u8>,
    /// Those with a VLAN tag by the priority in the outermost one.
    pub by_pcp: BTreeMap<u8, u32>,
}

impl<S> Arriving<S> {
    /// None has come yet.
    pub fn at(from: S, mark: &[u8]) -> Arriving<S> {
        Arriving {
            from,
            mark: mark.to_vec(),
            by_tags: BTreeMap::new(),
            without_checksum: 0,
            least_ttl: None,
            by_pcp: BTreeMap::new(),
        }
    }
}

/// What is known of a frame that came, next to its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Came {
    pub length: usize,
    /// The VLAN tag that was taken out of it, without its kind.
    pub tag_taken: Option<u16>,
    /// Its checksum is still to be written, and the kernel knows it.
    pub is_unsummed: bool,
}

/// Frames of one device that are checked before the next device has its turn, and before the clock
/// is read.
const TURN: u32 = 64;
/// Frames that are checked in all: on a busy segment the probes are among them, or are lost.
const MOST_FRAMES: u32 = 1 << 16;

/// Counts the frames with a mark until `each` of every mark have arrived, or [`LATEST`] has
/// passed; true if all frames that had arrived by then were read. Other traffic does not make it
/// longer than by a turn of each device, and each has its first turn even if the thread was held up
/// for that long. `next` puts the next frame that waits into the bytes; it gives `None` if none
/// waits.
pub fn count_marks<S>(
    places: &mut [&mut Arriving<S>],
    each: u32,
    mut next: impl FnMut(&mut S, &mut [u8]) -> Option<Came>,
) -> bool {
    let (until, mut left) = (Instant::now() + LATEST, MOST_FRAMES);
    let mut bytes = [0; MARKED];
    loop {
        let before = left;
        for Arriving { from, mark, by_tags, without_checksum, least_ttl, by_pcp } in
            places.iter_mut().map(|place| &mut **place)
        {
            for _ in 0..TURN {
                if left == 0 {
                    return false;
                }
                let Some(Came { length, tag_taken, is_unsummed }) = next(from, &mut bytes) else { break };
                left -= 1;
                let frame = &bytes[..length.min(MARKED)];
                if has_mark(frame, mark) {
                    let tags = tags_in(frame);
                    *by_tags.entry(tags + u8::from(tag_taken.is_some())).or_default() += 1;
                    let in_frame = || Some(u16::from_be_bytes([*frame.get(UNTAGGED)?, *frame.get(UNTAGGED + 1)?]));
                    if let Some(tag) = tag_taken.or_else(|| in_frame().filter(|_| tags > 0)) {
                        *by_pcp.entry((tag >> 13) as u8).or_default() += 1;
                    }
                    *without_checksum += u32::from(!is_unsummed && lacks_sum(frame));
                    *least_ttl = [*least_ttl, ttl(frame)].into_iter().flatten().min();
                }
            }
        }
        let has_all = |place: &&mut Arriving<S>| place.by_tags.values().sum::<u32>() >= each;
        if places.iter().all(has_all) {
            return true;
        }
        if Instant::now() > until {
            return left == before;
        }
        if left == before {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// True of a frame that has this mark where a probe can have it: behind the Ethernet header, the
/// tags that it was sent with and got on its way, and the headers of IP and of UDP or TCP.
pub fn has_mark(frame: &[u8], mark: &[u8]) -> bool {
    let begins = |at: usize| frame.get(at..).is_some_and(|rest| rest.starts_with(mark));
    !mark.is_empty() && (UNTAGGED..=FARTHEST).any(begins)
}

/// How many VLAN tags a frame begins with.
fn tags_in(frame: &[u8]) -> u8 {
    let is_tag = |n: &usize| {
        let at = UNTAGGED - 2 + 4 * n;
        frame.get(at..at + 2).is_some_and(|kind| TAGS.iter().any(|tag| tag.to_be_bytes() == *kind))
    };
    (0..=MOST_TAGS).take_while(is_tag).count() as u8
}

/// What is behind the Ethernet header of a frame and its tags, EtherType first.
fn inside(frame: &[u8]) -> Option<&[u8]> {
    frame.get(UNTAGGED - 2 + 4 * usize::from(tags_in(frame))..)
}

/// The TTL of a frame with a packet of IP, over IPv6 its hop limit.
pub fn ttl(frame: &[u8]) -> Option<u8> {
    match inside(frame)? {
        [0x08, 0x00, ip @ ..] => ip.get(8).copied(),
        [0x86, 0xdd, ip @ ..] => ip.get(7).copied(),
        _ => None,
    }
}

/// True of a frame with a whole packet of UDP, over IPv4 or IPv6, whose checksum is wrong. Of all
/// others nothing is known.
pub fn lacks_sum(frame: &[u8]) -> bool {
    const UDP: u8 = 17;
    let Some(kind) = inside(frame) else { return false };
    let (addresses, udp) = match kind {
        [0x08, 0x00, ip @ ..] if ip.len() > 20 && ip[0] == 0x45 && ip[9] == UDP => (&ip[12..20], &ip[20..]),
        [0x86, 0xdd, ip @ ..] if ip.len() > 40 && ip[6] == UDP => (&ip[8..40], &ip[40..]),
        _ => return false,
    };
    let length = |udp: &[u8]| Some(usize::from(u16::from_be_bytes([*udp.get(4)?, *udp.get(5)?])));
    let Some(segment) = length(udp).filter(|length| *length >= 8).and_then(|length| udp.get(..length)) else {
        return false;
    };
    // Zero says that there is none to be checked, over IPv4.
    if segment[6..8] == [0, 0] {
        return addresses.len() > 8;
    }
    let words = |bytes: &[u8]| -> u64 {
        let word = |pair: &[u8]| u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        bytes.chunks(2).map(word).sum()
    };
    let mut sum = words(addresses) + u64::from(UDP) + segment.len() as u64 + words(segment);
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum != 0xffff
}

/// Frames that are sent before the sockets of all of them are closed.
const SENT_TOGETHER: usize = 32;

/// A frame to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'f> {
    pub device: &'f str,
    /// What is in the frame goes by the kernel's routes, whatever the device.
    pub by_route: bool,
    pub priority: u32,
    pub frame: &'f [u8],
    /// If the device is to write the checksum: where in the frame the bytes begin that are summed
    /// up, and where behind that the sum belongs.
    pub sum_by_device: Option<[u16; 2]>,
}

/// The packet of IP in a frame, and from where to where it goes.
pub fn packet_in(frame: &[u8]) -> Option<([IpAddr; 2], &[u8])> {
    fn of<const N: usize>(ip: &[u8], at: usize) -> Option<[IpAddr; 2]>
    where
        IpAddr: From<[u8; N]>,
    {
        let address = |at: usize| Some(IpAddr::from(<[u8; N]>::try_from(ip.get(at..at + N)?).ok()?));
        Some([address(at)?, address(at + N)?])
    }
    match inside(frame)? {
        [0x08, 0x00, ip @ ..] => Some((of::<4>(ip, 12)?, ip)),
        [0x86, 0xdd, ip @ ..] => Some((of::<16>(ip, 8)?, ip)),
        _ => None,
    }
}

/// Sends frames, each out of a device with a priority and several times. Gives how many of each the
/// device took, and how many were dropped before it, by a filter or a queue discipline: the kernel
/// says ENOBUFS then.
pub fn send(frames: &[Outgoing<'_>], times: u32) -> Vec<(u32, u32)> {
    let mut sent = Vec::with_capacity(frames.len());
    for some in frames.chunks(SENT_TOGETHER) {
        let mut sockets = Vec::new();
        for Outgoing { device, by_route, priority, frame, sum_by_device } in some {
            let (opened, frame) = match sum_by_device {
                _ if *by_route => match packet_in(frame) {
                    Some((ends, packet)) => (packet::routed_sender(ends, *priority, BUFFER), packet.to_vec()),
                    None => {
                        sent.push((0, 0));
                        continue;
                    }
                },
                None => (packet::sender(device, *priority, TxStamps::default(), BUFFER, None), frame.to_vec()),
                Some([from, at]) => {
                    let head = packet::summed_by_device(*from, *at);
                    (packet::sender_without_checksum(device, *priority, BUFFER), [&head, *frame].concat())
                }
            };
            let Ok(mut socket) = opened else {
                sent.push((0, 0));
                continue;
            };
            sent.push((0..times).fold((0, 0), |(took, dropped), _| match socket.send(&frame, 0, None) {
                Ok(_) => (took + 1, dropped),
                Err(libc::ENOBUFS) => (took, dropped + 1),
                Err(_) => (took, dropped),
            }));
            sockets.push(socket);
        }
        close_together(sockets);
    }
    sent
}
