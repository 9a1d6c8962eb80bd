// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes of the machine's parts by which memory is copied faster or slower: lines of the caches,
//! pages, the caches themselves.

use std::fs;
use std::path::Path;
use tardy_model::copy::Sizes;

/// Those of this machine, by its first CPU; 0 for what the kernel does not say.
pub fn read() -> Sizes {
    read_in(Path::new("/sys/devices/system/cpu/cpu0/cache"), &fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

/// The same by a folder with one folder for each cache, and the text of `/proc/meminfo`.
pub fn read_in(caches: &Path, meminfo: &str) -> Sizes {
    let mut sizes = Sizes { page_bytes: tardy_sys::memory::page_bytes(), ..Sizes::default() };
    let huge = meminfo.lines().find_map(|line| line.strip_prefix("Hugepagesize:"));
    sizes.huge_page_bytes = huge.and_then(|size| bytes(size.trim().trim_end_matches("B"))).unwrap_or(0);
    for number in 0_u32.. {
        let folder = caches.join(format!("index{number}"));
        let read = |file: &str| fs::read_to_string(folder.join(file)).ok().map(|text| text.trim().to_owned());
        let Some(level) = read("level") else { break };
        if read("type").as_deref() == Some("Instruction") {
            continue;
        }
        let line = read("coherency_line_size").and_then(|line| line.parse().ok());
        sizes.line_bytes = sizes.line_bytes.max(line.unwrap_or(0));
        let at = level.parse::<usize>().ok().and_then(|level| sizes.cache_bytes.get_mut(level.checked_sub(1)?));
        if let Some((at, size)) = at.zip(read("size").as_deref().and_then(bytes)) {
            *at = size;
        }
    }
    sizes
}

/// A size as the kernel writes it: `48K`, `2048 k`.
fn bytes(text: &str) -> Option<u64> {
    let number = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = text.get(number.len()..)?.trim();
    let times = match unit {
        "" => 1,
        "K" | "k" => 1 << 10,
        "M" | "m" => 1 << 20,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(times)
}
