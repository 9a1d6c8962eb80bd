// SPDX-License-Identifier: MIT OR Apache-2.0
//! DELTA_BINARY_PACKED: differences less the least of a block, in as many bits as the greatest of
//! a miniblock needs. Equal differences need none, which is how `seq` and `scheduled_ns` nearly
//! always are.

use crate::error::{CodecError, damaged};
use crate::read::thrift::{varint, zigzag};

/// Replaces `out` by a page's values, of which there must be `rows`.
pub(crate) fn decode(mut bytes: &[u8], rows: usize, out: &mut Vec<i64>) -> Result<(), CodecError> {
    out.clear();
    let block = varint(&mut bytes)?;
    let minis = varint(&mut bytes)?;
    let count = varint(&mut bytes)?;
    let first = zigzag(&mut bytes)?;
    if count != rows as u64 || rows == 0 {
        return Err(damaged(format!("a page of {count} differences, not {rows}")));
    }
    let each = block.checked_div(minis).filter(|each| block <= 1 << 16 && each % 32 == 0 && *each > 0);
    let (Some(each), Ok(minis)) = (each, usize::try_from(minis)) else {
        return Err(damaged(format!("blocks of {block} differences in {minis} parts")));
    };
    let each = each as usize;
    out.push(first);
    let mut last = first;
    while out.len() < rows {
        let least = zigzag(&mut bytes)?;
        let (widths, rest) = bytes.split_at_checked(minis).ok_or_else(|| damaged("a page ends early"))?;
        bytes = rest;
        for width in widths {
            let here = each.min(rows - out.len());
            match *width {
                0 => out.extend((0..here).map(|_| {
                    last = last.wrapping_add(least);
                    last
                })),
                1..=64 => {
                    // The last part is padded when it is written; what is padded is not looked at.
                    let length = (each / 8 * usize::from(*width)).min(bytes.len());
                    let (packed, rest) = bytes.split_at(length);
                    bytes = rest;
                    if here * usize::from(*width) > packed.len() * 8 {
                        return Err(damaged("a page ends early"));
                    }
                    out.extend((0..here).map(|n| {
                        last = last.wrapping_add(least).wrapping_add(bits(packed, n, *width) as i64);
                        last
                    }));
                }
                _ => return Err(damaged(format!("differences of {width} bits"))),
            }
        }
    }
    Ok(())
}

/// Number `n` of `width` bits.
fn bits(packed: &[u8], n: usize, width: u8) -> u64 {
    let start = n * usize::from(width);
    let end = (start + usize::from(width)).div_ceil(8);
    let value = packed[start / 8..end].iter().rev().fold(0u128, |value, byte| value << 8 | u128::from(*byte));
    (value >> (start % 8)) as u64 & (u64::MAX >> (64 - width))
}
