// SPDX-License-Identifier: MIT OR Apache-2.0
//! The test frame: any payload is a frame of this trial or foreign, and what was written is read
//! back.

use tardy_model::frame::{Foreign, Frame, HEAD, Heads, PacketKind};

pub fn input(bytes: &[u8]) {
    if let Ok(frame) = Frame::read(bytes) {
        assert_eq!(heads(&frame).number(bytes), Some(frame.seq));
        let mut again = bytes.to_vec();
        frame.write(&mut again);
        assert_eq!(again, bytes, "a frame has one way to be written");
        cut_short(bytes);
    }
    // The same bytes as the fields of a frame: its check is beyond what a mutator finds.
    let Some((fields, rest)) = bytes.split_first_chunk::<14>() else { return };
    let [kind, stream, fields @ ..] = fields;
    let Some((nonce, seq)) = fields.split_first_chunk::<8>() else { return };
    let Ok(size) = u16::try_from(HEAD + rest.len()) else { return };
    let frame = Frame {
        kind: if kind % 2 == 0 { PacketKind::Test } else { PacketKind::WarmUp },
        stream: *stream,
        size,
        nonce: u64::from_be_bytes(*nonce),
        seq: u32::from_be_bytes(seq.try_into().expect("four bytes")),
    };
    let mut payload = [&[0; HEAD][..], rest].concat();
    frame.write(&mut payload);
    assert_eq!(Frame::read(&payload), Ok(frame));
    assert_eq!(heads(&frame).number(&payload), Some(frame.seq));
    cut_short(&payload);
    // A bit that was turned over on the way is seen.
    let bit = usize::from(*kind) % (HEAD * 8);
    payload[bit / 8] ^= 1 << (bit % 8);
    assert!(Frame::read(&payload).is_err(), "bit {bit}");
    assert_eq!(heads(&frame).number(&payload), None, "bit {bit}");
}

fn heads(frame: &Frame) -> Heads {
    Heads::new(frame.kind, frame.stream, frame.size, frame.nonce)
}

fn cut_short(payload: &[u8]) {
    let cut = &payload[..payload.len() - 1];
    let as_told = if cut.len() < HEAD { Foreign::Short } else { Foreign::Truncated };
    assert_eq!(Frame::read(cut), Err(as_told));
}
