// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which frames a receiver on port `packet` is given: those of its EtherType, with as many VLAN
//! tags as may come, but for those of the trial's other streams, which have receivers of their
//! own. Strangers' frames of the EtherType come through, so that they are counted. Pure: a program
//! of classic BPF, which the kernel runs on each frame of the device.

use tardy_model::ethernet::{MOST_TAGS, TAGS, UNTAGGED};
use tardy_model::frame::{HEAD, MAGIC};
use tardy_sys::packet::Instruction;

/// Loads of a word, of two bytes and of one at a place of the frame; of its length; comparisons;
/// the end.
const WORD: u16 = 0x20;
const HALF: u16 = 0x28;
const BYTE: u16 = 0x30;
const LENGTH: u16 = 0x80;
const EQUAL: u16 = 0x15;
const AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
/// Where the kernel has the frame's kind instead of a byte of it (SKF_AD_OFF + SKF_AD_PKTTYPE).
const KIND: u32 = 0xffff_f004;
/// A frame that this station sends (PACKET_OUTGOING).
const OUTGOING: u32 = 4;
/// All of the frame.
const WHOLE: u32 = u32::MAX;

/// Where a comparison goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Next,
    Accept,
    Drop,
    /// Where the number of tags inside the frame is known to be this.
    Payload(usize),
    /// Where one more tag is looked for.
    Look(usize),
}

/// A program whose comparisons still go to names.
#[derive(Default)]
struct Draft {
    lines: Vec<(u16, u32, [To; 2])>,
    places: Vec<(To, usize)>,
}

impl Draft {
    fn load(&mut self, code: u16, k: u32) {
        self.lines.push((code, k, [To::Next; 2]));
    }
    fn compare(&mut self, code: u16, k: u32, yes: To, no: To) {
        self.lines.push((code, k, [yes, no]));
    }
    fn here(&mut self, name: To) {
        self.places.push((name, self.lines.len()));
    }
    fn finish(mut self) -> Vec<Instruction> {
        self.here(To::Accept);
        self.load(RETURN, WHOLE);
        self.here(To::Drop);
        self.load(RETURN, 0);
        let jump = |line: usize, to: To| {
            let place = self.places.iter().find(|(name, _)| *name == to);
            // A program of so few lines has no jump that does not fit into a byte.
            place.map_or(0, |(_, at)| (at - line - 1) as u8)
        };
        let lines = self.lines.iter().enumerate();
        lines
            .map(|(n, (code, k, to))| Instruction { code: *code, yes: jump(n, to[0]), no: jump(n, to[1]), k: *k })
            .collect()
    }
}

/// The program for stream `stream` of the trial `nonce`.
pub fn program(ethertype: u16, nonce: u64, stream: u8) -> Vec<Instruction> {
    let mut draft = Draft::default();
    draft.load(BYTE, KIND);
    draft.compare(EQUAL, OUTGOING, To::Drop, To::Next);
    for tags in 0..=MOST_TAGS {
        draft.here(To::Look(tags));
        draft.load(HALF, (UNTAGGED - 2 + 4 * tags) as u32);
        draft.compare(EQUAL, ethertype.into(), To::Payload(tags), To::Next);
        if tags == MOST_TAGS {
            draft.compare(EQUAL, ethertype.into(), To::Next, To::Drop);
        } else {
            let [one, other, last] = TAGS.map(u32::from);
            draft.compare(EQUAL, one, To::Look(tags + 1), To::Next);
            draft.compare(EQUAL, other, To::Look(tags + 1), To::Next);
            draft.compare(EQUAL, last, To::Look(tags + 1), To::Drop);
        }
        draft.here(To::Payload(tags));
        let at = (UNTAGGED + 4 * tags) as u32;
        // Reading beyond a frame's end would drop it.
        draft.load(LENGTH, 0);
        draft.compare(AT_LEAST, at + HEAD as u32, To::Next, To::Accept);
        for (place, word) in [(0, MAGIC), (8, (nonce >> 32) as u32), (12, nonce as u32)] {
            draft.load(WORD, at + place);
            draft.compare(EQUAL, word, To::Next, To::Accept);
        }
        draft.load(BYTE, at + 5);
        draft.compare(EQUAL, stream.into(), To::Accept, To::Drop);
    }
    draft.finish()
}
