// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel inside a compressed image: unpacking it here takes a third of a second, an emulated machine takes seconds, at every
//! start. QEMU starts such a kernel by its PVH entry (Documentation/arch/x86/boot.rst: payload_offset, payload_length;
//! include/xen/interface/elfnote.h of the kernel: PHYS32_ENTRY). Where there is no such entry, the image starts as it is.

use super::elf::Elf;
use super::kernel::Kernel;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A kernel is less than this, unpacked.
const LARGEST: u64 = 512 << 20;

/// What to give QEMU: the unpacked kernel out of the cache, made where it is missing, or the image itself.
pub fn bootable(cache: &Path, kernel: &Kernel) -> PathBuf {
    let folder = cache.join("unpacked");
    let path = folder.join(&kernel.sha256);
    if path.is_file() {
        return path;
    }
    let image = fs::read(&kernel.image).unwrap_or_default();
    let Some(plain) = payload(&image).and_then(decompress).filter(|plain| starts_by_pvh(plain)) else {
        return kernel.image.clone();
    };
    // Whole or not at all, also if two do it at once.
    let temporary = folder.join(format!("{}.{}", kernel.sha256, std::process::id()));
    let written = fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&temporary, plain))
        .and_then(|()| fs::rename(&temporary, &path));
    match written {
        Ok(()) => path,
        Err(_) => {
            // A full cache costs seconds at the start, and nothing else.
            let _ = fs::remove_file(&temporary);
            kernel.image.clone()
        }
    }
}

/// The compressed kernel within an image.
pub fn payload(image: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| Some(u32::from_le_bytes(image.get(at..at + 4)?.try_into().ok()?) as usize);
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    // 0 means 4, for what is older than the field.
    let sectors = match image.get(0x1f1)? {
        0 => 4,
        n => usize::from(*n),
    };
    let start = (sectors + 1) * 512 + number(0x248)?;
    image.get(start..start.checked_add(number(0x24c)?)?)
}

/// The bytes that were packed with zstd or xz; behind them stands their number, which is nothing to unpack.
fn decompress(packed: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let read = if packed.starts_with(b"\x28\xb5\x2f\xfd") {
        zstd::stream::read::Decoder::new(packed).ok()?.single_frame().take(LARGEST).read_to_end(&mut plain)
    } else if packed.starts_with(b"\xfd7zXZ\0") {
        lzma_rust2::XzReader::new(packed, false).take(LARGEST).read_to_end(&mut plain)
    } else {
        return None;
    };
    read.ok().map(|_| plain)
}

/// True if it says where it is to be entered.
fn starts_by_pvh(kernel: &[u8]) -> bool {
    // A note: length of its owner's name, length of what it says, type 18, the owner.
    let entry = |note: &[u8]| note[..4] == [4, 0, 0, 0] && note[8..] == *b"\x12\0\0\0Xen\0";
    Elf::read(kernel).is_some_and(|elf| elf.notes().any(|notes| notes.windows(16).any(entry)))
}
