// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ethernet frames of port `packet`: what comes before the payload, and how many VLAN tags of a
//! frame arrived. Pure.
//!
//! ```text
//! to 6 · from 6 · [ 0x8100 2 · PCP 3 bits, DEI 1 bit, VLAN 12 bits ] · EtherType 2 · payload
//! ```
//! All big endian (IEEE 802.3, 802.1Q).

use crate::frame::HEAD;
use serde::{Deserialize, Serialize};

pub type Mac = [u8; 6];

/// Local Experimental EtherType 1 (IEEE 802): nothing else on a network means anything by it.
pub const ETHERTYPE: u16 = 0x88b5;
/// The EtherType of the tag that is written.
pub const TAG: u16 = 0x8100;
/// EtherTypes that announce a tag: of a customer, of a provider, and what providers used before.
pub const TAGS: [u16; 3] = [TAG, 0x88a8, 0x9100];
/// Bytes of both addresses and the EtherType.
pub const UNTAGGED: usize = 14;
/// A frame with more tags than this is not looked into.
pub const MOST_TAGS: usize = 4;
/// The most bytes before a payload.
pub const MOST_HEAD: usize = UNTAGGED + 4 * MOST_TAGS;
/// Payloads that are shorter are filled up on a wire: a frame has 60 bytes at least.
pub const LEAST_PAYLOAD: usize = 60 - UNTAGGED;

/// The VLAN tag that a stream's packets are sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// VLAN id; 0 says that only the priority is meant.
    pub vlan: u16,
    /// Priority code point, 0 to 7.
    pub pcp: u8,
}

impl Tag {
    /// The tag's control information, as it is on the wire: not eligible to be dropped before
    /// others.
    pub const fn tci(self) -> u16 {
        (self.pcp as u16) << 13 | self.vlan & 0x0fff
    }
}

/// The tags that a packet arrived with. Four bytes, so that what is recorded of an arrival does
/// not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tags {
    count: u8,
    /// The outermost tag's priority, and from bit 3 on which of [`TAGS`] its EtherType is.
    pcp: u8,
    vlan: u16,
}

/// A tag that was taken out of a frame before it came: its EtherType and its control information.
pub type Taken = (u16, u16);

impl Tags {
    /// The port sees no tags.
    pub const UNSEEN: Tags = Tags { count: u8::MAX, pcp: 0, vlan: 0 };
    pub const NONE: Tags = Tags { count: 0, pcp: 0, vlan: 0 };

    /// `count` tags, the outermost with this control information, of EtherType [`TAG`].
    pub const fn new(count: u8, outermost: u16) -> Tags {
        Tags::of(count, (TAG, outermost))
    }

    /// `count` tags, the outermost with this EtherType and control information. A type that
    /// announces no tag is taken for [`TAG`].
    pub const fn of(count: u8, (tpid, tci): Taken) -> Tags {
        let kind = if tpid == TAGS[1] {
            1
        } else if tpid == TAGS[2] {
            2
        } else {
            0
        };
        match count {
            0 => Tags::NONE,
            _ => Tags { count, pcp: (tci >> 13) as u8 | kind << 3, vlan: tci & 0x0fff },
        }
    }

    /// How many; `None` where the port sees none.
    pub const fn count(self) -> Option<u8> {
        if self.count == u8::MAX { None } else { Some(self.count) }
    }

    pub const fn outermost(self) -> Option<Tag> {
        match self.count {
            0 | u8::MAX => None,
            _ => Some(Tag { vlan: self.vlan, pcp: self.pcp & 7 }),
        }
    }

    /// The EtherType of the outermost tag.
    pub fn tpid(self) -> Option<u16> {
        self.outermost()?;
        TAGS.get(usize::from(self.pcp >> 3)).copied()
    }
}

/// What comes before the payload of a frame.
pub fn head(to: Mac, from: Mac, tag: Option<Tag>, ethertype: u16) -> Vec<u8> {
    let mut head = Vec::with_capacity(MOST_HEAD);
    head.extend(to);
    head.extend(from);
    if let Some(tag) = tag {
        head.extend(TAG.to_be_bytes());
        head.extend(tag.tci().to_be_bytes());
    }
    head.extend(ethertype.to_be_bytes());
    head
}

/// Where the payload of a frame of this EtherType begins, and its tags. `taken` is the tag that
/// the kernel or the device has taken out of the frame already. `None` for a frame of another
/// type.
#[inline]
pub fn open(frame: &[u8], taken: Option<Taken>, ethertype: u16) -> Option<(usize, Tags)> {
    let be16 = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let mut outermost = taken;
    for inside in 0..=MOST_TAGS {
        let at = UNTAGGED - 2 + 4 * inside;
        let is = be16(at)?;
        if is == ethertype {
            let count = inside + usize::from(taken.is_some());
            return Some((at + 2, Tags::of(count as u8, outermost.unwrap_or((TAG, 0)))));
        }
        if !TAGS.contains(&is) {
            return None;
        }
        outermost = outermost.or(be16(at + 2).map(|tci| (is, tci)));
    }
    None
}

/// The payload without what filled the frame up on its way. A test frame contains its length. A
/// payload without a length, or with one beyond its end, stays as it arrived.
#[inline]
pub fn unfilled(payload: &[u8]) -> &[u8] {
    if payload.len() > LEAST_PAYLOAD || payload.len() < HEAD {
        return payload;
    }
    let size = usize::from(u16::from_be_bytes([payload[6], payload[7]]));
    // A payload of its own is never shorter than a frame's head.
    payload.get(..size).filter(|whole| whole.len() >= HEAD).unwrap_or(payload)
}

/// A hardware address as `ip` writes it.
pub fn mac(text: &str) -> Option<Mac> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        *byte = parts.next().filter(|part| part.len() == 2).and_then(|part| u8::from_str_radix(part, 16).ok())?;
    }
    parts.next().is_none().then_some(mac)
}
