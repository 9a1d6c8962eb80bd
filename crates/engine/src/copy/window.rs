// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much memory the passes of a thread go through: a window that fits into its cache, or more
//! than all caches hold. Pure.

use tardy_model::copy::{CopyBackend, Copying, Residence, Sizes};
use tardy_sys::memory::stride;

/// Of the nearest large cache, each side's window takes this part: the other side, the stack and
/// the kernel need some too.
const PART: u64 = 4;
/// Where the size of a cache is not known, bytes.
const USUAL_L2: u64 = 256 << 10;
const USUAL_LAST: u64 = 32 << 20;
/// A window in DRAM is at least so large, bytes.
const LEAST: u64 = 16 << 20;

/// The windows of a thread, of what is read and of what is written, bytes.
pub fn windows(copy: &Copying, sizes: &Sizes) -> [u64; 2] {
    [copy.from, copy.to].map(|side| window(copy, side, sizes))
}

fn window(copy: &Copying, side: Residence, sizes: &Sizes) -> u64 {
    let step = stride(usize::try_from(copy.bytes).unwrap_or(usize::MAX / 2)) as u64;
    let pass = step.saturating_mul(u64::from(copy.buffers));
    let known = |bytes: u64, usual: u64| if bytes == 0 { usual } else { bytes };
    let [l1, l2, l3] = sizes.cache_bytes;
    match side {
        Residence::Locked => {
            let room = known(l2, USUAL_L2) / PART;
            pass.min(room / step.max(1) * step).max(step)
        }
        Residence::Unlocked => {
            let last = known(l3.max(l2).max(l1), USUAL_LAST);
            // The last cache is for all of them.
            let each = (last * 2).div_ceil(u64::from(copy.all_threads()).max(1)).max(LEAST);
            pass.max(each.div_ceil(step.max(1)).saturating_mul(step))
        }
    }
}

/// Memory that a copy needs for its buffers and for what it records, bytes.
pub fn needed_bytes(copy: &Copying, sizes: &Sizes) -> u64 {
    let of_rows = copy.all_iterations().saturating_mul(ROW);
    region_bytes(copy, sizes).saturating_add(of_rows)
}

/// Memory that a copy needs for its buffers, bytes.
pub fn region_bytes(copy: &Copying, sizes: &Sizes) -> u64 {
    match copy.backend {
        CopyBackend::Cpu => {}
        // It has all buffers of a chain at once, of both sides.
        CopyBackend::Sgtest => {
            let buffers = u64::from(copy.buffers).saturating_mul(u64::from(copy.all_threads()));
            return buffers.saturating_mul(copy.bytes).saturating_mul(2);
        }
        // The kernel's own test has one buffer at a time.
        CopyBackend::Dmatest | CopyBackend::Sim => return 0,
    }
    let [from, to] = windows(copy, sizes);
    let each = from.saturating_add(to).saturating_add(2 * HUGE);
    each.saturating_mul(u64::from(copy.all_threads()))
}

/// A huge page, by which each region is longer.
pub(super) const HUGE: u64 = 2 << 20;
/// Bytes that a pass takes while it is recorded, joined and judged.
const ROW: u64 = 160;
