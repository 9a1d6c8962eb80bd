// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel inside a compressed image: unpacking it here takes a third of a second, an emulated
//! machine takes seconds, at every start. QEMU starts such a kernel by its PVH entry
//! (Documentation/arch/x86/boot.rst: payload_offset, payload_length;
//! include/xen/interface/elfnote.h of the kernel: PHYS32_ENTRY). Where there is no such entry, the
//! image starts as it is.

use super::cached::{self, sha256};
use super::elf::Elf;
use super::kernel::Kernel;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A kernel is less than this, unpacked.
const LARGEST: u64 = 512 << 20;

/// The file that QEMU is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boots {
    pub path: PathBuf,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
}

/// What to give QEMU: the unpacked kernel out of the cache, or the image itself. The unpacked
/// kernel is used only as it was written: it is hashed each time, and where it is missing, cut
/// short or changed it is made again from the image.
pub fn bootable(cache: &Path, kernel: &Kernel) -> Boots {
    let folder = cache.join("unpacked");
    let path = folder.join(&kernel.sha256);
    let sum = folder.join(format!("{}.sha256", kernel.sha256));
    let name = PathBuf::from(&kernel.sha256);
    let wanted = fs::read_to_string(&sum).ok().and_then(|text| cached::parsed(&text).remove(&name));
    if let Some(wanted) = wanted
        && fs::read(&path).is_ok_and(|plain| sha256::of(&plain) == wanted)
    {
        return Boots { path, sha256: wanted };
    }
    let as_it_is = Boots { path: kernel.image.clone(), sha256: kernel.sha256.clone() };
    // The image is read a second time: what it has become since it was checked must not be kept
    // under its name.
    let image = fs::read(&kernel.image).ok().filter(|image| sha256::of(image) == kernel.sha256);
    let plain = image.as_deref().and_then(payload).and_then(decompress).filter(|plain| starts_by_pvh(plain));
    let Some(plain) = plain else { return as_it_is };
    let sha256 = sha256::of(&plain);
    let line = cached::listed(&[(name, sha256.clone())].into());
    let written = fs::create_dir_all(&folder)
        .and_then(|()| cached::write(&path, &plain))
        .and_then(|()| cached::write(&sum, line.as_bytes()));
    match written {
        Ok(()) => Boots { path, sha256 },
        // A full cache costs seconds at the start, and nothing else.
        Err(_) => as_it_is,
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

/// The bytes that were packed with zstd or xz; after them comes their number, which is nothing
/// to unpack.
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
