// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probe packets: whole frames like those of a stream, and special ones, which a path may treat
//! otherwise, for the inspection of its path before the first packet.

use super::{SendOrder, StreamOrder};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tardy_bpf::probes::Outgoing;
use tardy_model::ethernet::{self, Mac};
use tardy_model::frame::{Frame, HEAD, PROBE, PacketKind};
use tardy_model::xdp::{PROBE_TTL, SpecialKind};

/// Probe packets of one way of a stream, whole frames, so that a station without a port for
/// them can send them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeOrder {
    /// The device that they leave by.
    pub device: String,
    /// The kernel sends what is in the frame by its routes, whatever the device: to the address of
    /// IP in it, through routers too. The frame's own addresses do not count.
    pub by_route: bool,
    pub priority: u32,
    pub frame: Vec<u8>,
    pub checksum: Checksum,
}

/// Who writes the checksum of UDP or TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Checksum {
    /// It is in the frame.
    Written,
    /// The device that the frame leaves by, as with packets of sockets: where in the frame the
    /// bytes begin that are summed up, and where behind that the sum belongs.
    ByDevice { from: u16, at: u16 },
}

/// A special frame, with the mark in it.
#[derive(Clone, Debug, PartialEq)]
pub struct SpecialFrame {
    pub frame: Vec<u8>,
    pub mark: [u8; HEAD],
    pub checksum: Checksum,
}

impl ProbeOrder {
    /// As it is sent.
    pub fn outgoing(&self) -> Outgoing<'_> {
        let sum_by_device = match self.checksum {
            Checksum::Written => None,
            Checksum::ByDevice { from, at } => Some([from, at]),
        };
        let Self { device, by_route, priority, frame, .. } = self;
        Outgoing { device, by_route: *by_route, priority: *priority, frame, sum_by_device }
    }
}

/// Protocol numbers of IP.
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Flag of a TCP segment that nobody answers.
const RESET: u8 = 4;

impl SendOrder {
    /// The EtherType of the protocol whose sockets receive the stream, behind the filters of tc;
    /// `None` of frames, which packet sockets and AF_XDP receive before these.
    pub fn protocol(&self) -> Option<u16> {
        let of_ip = if self.local.is_ipv6() { IPV6 } else { IPV4 };
        (!self.order.port.traits().is_frames).then_some(of_ip)
    }

    /// A frame like those of the stream, there or back, and the head of the test frame in it. No
    /// receiver takes it for a packet of the trial. One that leaves by a VLAN device has no tag
    /// yet.
    pub fn probe(&self, back: bool, by_vlan_device: bool) -> (Vec<u8>, [u8; HEAD]) {
        let StreamOrder { stream, nonce, tag, ethertype, port, .. } = self.order;
        let (kind, size) = match back {
            false => (PacketKind::WarmUp, self.order.size),
            true => (PacketKind::WarmUpReply, self.order.reply_size),
        };
        let mut head = [0; HEAD];
        Frame { kind, stream: stream.number(), size, nonce, seq: PROBE }.write(&mut head);
        let mut payload = vec![0; usize::from(size).clamp(HEAD, LONGEST_PROBE)];
        payload[..HEAD].copy_from_slice(&head);
        let ([far, near], [from, to]) = (self.macs, [self.local, self.peer]);
        let (macs, ips) = if back { ([near, far], [to, from]) } else { ([far, near], [from, to]) };
        let (ethertype, packet) = match port.traits() {
            traits if traits.is_frames => (ethertype, payload),
            traits => {
                let protocol = if traits.is_connection { TCP } else { UDP };
                ip_packet(ips, protocol, self.port, &payload)
            }
        };
        ([ethernet::head(macs[0], macs[1], tag.filter(|_| !by_vlan_device), ethertype), packet].concat(), head)
    }

    /// A special frame, there or back, with the stream's tag, and the mark in it. No receiver takes
    /// it for a packet of the trial, and nobody answers it. `longest` is the length of the longest
    /// kind as an IP packet, bytes.
    pub fn special_probe(&self, kind: SpecialKind, back: bool, by_vlan_device: bool, longest: u32) -> SpecialFrame {
        let StreamOrder { stream, nonce, tag, .. } = self.order;
        let ([far, near], [local, peer]) = (self.macs, [self.local, self.peer]);
        let (packet_kind, [mac, other], [ip, other_ip]) = if back {
            (PacketKind::WarmUpReply, [far, near], [peer, local])
        } else {
            (PacketKind::WarmUp, [near, far], [local, peer])
        };
        // The size is the mark's difference from those of other probes.
        let size = match kind {
            SpecialKind::Multicast => 1,
            SpecialKind::Arp => 2,
            SpecialKind::Longest => 3,
            SpecialKind::Unsummed => 4,
        };
        let mut mark = [0; HEAD];
        Frame { kind: packet_kind, stream: stream.number(), size, nonce, seq: PROBE }.write(&mut mark);
        let udp = |to: IpAddr, payload: &[u8]| ip_packet([ip, to], UDP, self.port, payload);
        let (to, (ethertype, mut packet)) = match kind {
            SpecialKind::Arp => (BROADCAST, (ARP, [&arp_request(mac, NOBODY)[..], &mark].concat())),
            SpecialKind::Multicast => {
                let (group, to) = match ip {
                    IpAddr::V4(_) => (IpAddr::from(GROUP4.0), GROUP4.1),
                    IpAddr::V6(_) => (IpAddr::from(GROUP6.0), GROUP6.1),
                };
                (to, udp(group, &mark))
            }
            SpecialKind::Longest => {
                let payload = (longest as usize).saturating_sub(ip_head(ip) + UDP_HEAD).max(HEAD);
                let mut payload = vec![0; payload];
                payload[..HEAD].copy_from_slice(&mark);
                (other, udp(other_ip, &payload))
            }
            SpecialKind::Unsummed => (other, udp(other_ip, &mark)),
        };
        let ethernet = ethernet::head(to, mac, tag.filter(|_| !by_vlan_device), ethertype);
        let checksum = match kind {
            SpecialKind::Unsummed => {
                // The device adds up what is behind the head of IP, and finds there what is in it.
                let at = ip_head(ip) + UDP_SUM_AT;
                packet[at..at + 2]
                    .copy_from_slice(&(!checksum(&pseudo_head([ip, other_ip], UDP, UDP_HEAD + HEAD))).to_be_bytes());
                Checksum::ByDevice { from: (ethernet.len() + ip_head(ip)) as u16, at: UDP_SUM_AT as u16 }
            }
            _ => Checksum::Written,
        };
        SpecialFrame { frame: [ethernet, packet].concat(), mark, checksum }
    }
}

/// A group of the organization's own, which nobody is a member of; and its hardware address.
const GROUP4: (Ipv4Addr, Mac) = (Ipv4Addr::new(239, 255, 84, 68), [0x01, 0x00, 0x5e, 0x7f, 0x54, 0x44]);
const GROUP6: (Ipv6Addr, Mac) =
    (Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0x5444, 0x5901), [0x33, 0x33, 0x54, 0x44, 0x59, 0x01]);
/// The hardware addresses of those groups.
pub const GROUPS: [Mac; 2] = [GROUP4.1, GROUP6.1];
/// An address that is nobody's: it is kept for documents (RFC 5737).
const NOBODY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 84);
const BROADCAST: Mac = [0xff; 6];
const ARP: u16 = 0x0806;

/// A request for the hardware address of an IPv4 address, from one that has none itself yet
/// (RFC 5227): nobody learns anything from it.
fn arp_request(from: Mac, of: Ipv4Addr) -> Vec<u8> {
    // Hardware and protocol, the lengths of their addresses, the operation.
    let head = [0, 1, 8, 0, 6, 4, 0, 1];
    [&head[..], &from, &[0; 4], &[0; 6], &of.octets()].concat()
}

/// Payload bytes of a probe: it fits into one frame of any path.
const LONGEST_PROBE: usize = 256;

/// Bytes of IP's head, of UDP's, and where in that one the checksum is.
fn ip_head(address: IpAddr) -> usize {
    if address.is_ipv6() { 40 } else { 20 }
}
const UDP_HEAD: usize = 8;
const UDP_SUM_AT: usize = 6;

/// What both versions of IP sum up in front of a segment of `length` bytes comes to the same.
fn pseudo_head([from, to]: [IpAddr; 2], protocol: u8, length: usize) -> Vec<u8> {
    [address_bytes(from), address_bytes(to), vec![0, protocol], (length as u16).to_be_bytes().to_vec()].concat()
}

fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// A packet of IP from one address to another, from and to the same port of TCP or UDP, with its
/// EtherType.
fn ip_packet([from, to]: [IpAddr; 2], protocol: u8, port: u16, payload: &[u8]) -> (u16, Vec<u8>) {
    let mut segment = [port.to_be_bytes(), port.to_be_bytes()].concat();
    let sum_at = match protocol {
        // Numbers, then the head's length in words, flags, window, checksum, urgent pointer.
        TCP => {
            segment.extend([0, 0, 0, 0, 0, 0, 0, 0, 5 << 4, RESET, 0, 0, 0, 0, 0, 0]);
            16
        }
        _ => {
            segment.extend(((UDP_HEAD + payload.len()) as u16).to_be_bytes());
            segment.extend([0, 0]);
            UDP_SUM_AT
        }
    };
    segment.extend(payload);
    let length = segment.len() as u16;
    let sum = checksum(&[pseudo_head([from, to], protocol, segment.len()), segment.clone()].concat());
    // Zero would say that there is none.
    let sum = if sum == 0 { 0xffff } else { sum };
    segment[sum_at..sum_at + 2].copy_from_slice(&sum.to_be_bytes());
    let addresses = [address_bytes(from), address_bytes(to)].concat();
    if from.is_ipv6() {
        let head = [vec![0x60, 0, 0, 0], length.to_be_bytes().to_vec(), vec![protocol, PROBE_TTL]].concat();
        return (IPV6, [head, addresses, segment].concat());
    }
    let mut head =
        [vec![0x45, 0], (20 + length).to_be_bytes().to_vec(), vec![0, 0, 0x40, 0, PROBE_TTL, protocol, 0, 0]].concat();
    head.extend(addresses);
    let sum = checksum(&head);
    head[10..12].copy_from_slice(&sum.to_be_bytes());
    (IPV4, [head, segment].concat())
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// The checksum of IP, TCP and UDP.
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    let mut sum: u64 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}
