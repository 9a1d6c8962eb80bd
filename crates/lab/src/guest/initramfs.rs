// SPDX-License-Identifier: MIT OR Apache-2.0
//! The archive that a kernel unpacks as its first root file system: cpio in the "newc" format
//! (Documentation/driver-api/early-userspace/buffer-format.rst of the kernel). Pure, and
//! reproducible: the bytes follow from the entries alone. Owners are root, times are 0, and entries
//! are in the order of their paths.

use std::collections::BTreeMap;

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Folder,
    File {
        bytes: Vec<u8>,
        mode: u32,
    },
    Link(String),
    /// A character device: major, minor.
    Device(u32, u32),
}

/// An archive in the making.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    entries: BTreeMap<String, Entry>,
}

const FOLDER: u32 = 0o040_755;
const LINK: u32 = 0o120_777;
const DEVICE: u32 = 0o020_600;
const FILE: u32 = 0o100_000;

impl Archive {
    /// A folder, with the folders above it. The path begins with `/`.
    pub fn folder(&mut self, path: &str) {
        let path = path.trim_matches('/');
        for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
            self.entries.entry(path[..end].to_owned()).or_insert(Entry::Folder);
        }
    }

    fn put(&mut self, path: &str, entry: Entry) {
        let path = path.trim_start_matches('/');
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above);
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// A file; one that was there is replaced.
    pub fn file(&mut self, path: &str, bytes: Vec<u8>, executable: bool) {
        self.put(path, Entry::File { bytes, mode: if executable { 0o755 } else { 0o644 } });
    }

    pub fn link(&mut self, path: &str, to: &str) {
        self.put(path, Entry::Link(to.to_owned()));
    }

    pub fn device(&mut self, path: &str, major: u32, minor: u32) {
        self.put(path, Entry::Device(major, minor));
    }

    /// True if something is at the path.
    pub fn has(&self, path: &str) -> bool {
        self.entries.contains_key(path.trim_start_matches('/'))
    }

    /// The archive in the form that a kernel unpacks.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        // A folder sorts before what is in it, since its path is the shorter beginning.
        for (number, (path, entry)) in self.entries.iter().enumerate() {
            let number = number as u32 + 1;
            match entry {
                Entry::Folder => member(&mut out, number, path, FOLDER, (0, 0), &[]),
                Entry::File { bytes, mode } => member(&mut out, number, path, FILE | mode, (0, 0), bytes),
                Entry::Link(to) => member(&mut out, number, path, LINK, (0, 0), to.as_bytes()),
                Entry::Device(major, minor) => member(&mut out, number, path, DEVICE, (*major, *minor), &[]),
            }
        }
        member(&mut out, 0, "TRAILER!!!", 0, (0, 0), &[]);
        // cpio programs pad to their block size.
        out.resize(out.len().next_multiple_of(512), 0);
        out
    }
}

fn member(out: &mut Vec<u8>, number: u32, path: &str, mode: u32, device: (u32, u32), bytes: &[u8]) {
    let links = if mode & 0o170_000 == 0o040_000 { 2 } else { 1 };
    // inode, mode, uid, gid, links, mtime, size, device of the file (2), device that it is (2),
    // length of the name, check sum.
    let name = path.len() as u32 + 1;
    let fields = [number, mode, 0, 0, links, 0, bytes.len() as u32, 0, 0, device.0, device.1, name, 0];
    out.extend_from_slice(b"070701");
    for field in fields {
        out.extend_from_slice(format!("{field:08X}").as_bytes());
    }
    out.extend_from_slice(path.as_bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(4), 0);
}
