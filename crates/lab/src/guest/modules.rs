// SPDX-License-Identifier: MIT OR Apache-2.0
//! The modules that a guest may need, out of a kernel's module folder: found by name, with what
//! they depend on, uncompressed. The module itself says what it depends on and by which names the
//! kernel may ask for it, so nobody need have run `depmod`. In the guest the kernel asks for a
//! module when it needs one, and tardy, called `modprobe`, loads it.

use super::elf::Elf;
use super::initramfs::Archive;
use super::kernel::{KernelError, Sums};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What is packed, where the kernel has it as a module: links, queue disciplines, classifiers, and
/// what joins them.
pub const WANTED: &[&str] = &[
    "veth",
    "dummy",
    "ifb",
    "8021q",
    "af_packet",
    "ptp",
    "sch_taprio",
    "sch_etf",
    "sch_mqprio",
    "sch_mqprio_lib",
    "sch_cbs",
    "sch_netem",
    "sch_tbf",
    "sch_htb",
    "sch_prio",
    "sch_fq",
    "sch_fq_codel",
    "sch_codel",
    "sch_multiq",
    "sch_skbprio",
    "sch_plug",
    "sch_ingress",
    "sch_ets",
    "sch_drr",
    "cls_u32",
    "cls_basic",
    "cls_matchall",
    "cls_fw",
    "cls_bpf",
    "act_mirred",
    "act_gact",
    "act_skbedit",
    "act_vlan",
    "act_gate",
    "act_police",
];

/// More bytes than any module has, unpacked: the largest of Debian's has some eight million.
const LARGEST: u64 = 64 << 20;

/// Where they lie in the guest.
pub const FOLDER: &str = "/modules";
/// The list of them.
pub const INDEX: &str = "/modules/index.json";

/// A kernel's modules cannot be packed.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// A file or folder.
    #[error("cannot read {}: {source}; name a kernel whose modules you may read, as --kernel debian:6.12", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// It is no module that can be understood.
    #[error(
        "{} is no kernel module for x86-64 that is plain or packed with xz: unpack it next to the others (`unzstd`, `gunzip`) and run `depmod`, \
         or take another kernel, as --kernel debian:6.12",
        path.display()
    )]
    Foreign { path: PathBuf },
    /// It is not what was fetched.
    #[error(transparent)]
    Changed(#[from] KernelError),
}

/// What the guest knows of its modules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// By name, with `_` for `-`: the names of those that must be loaded before, in order.
    pub modules: BTreeMap<String, Vec<String>>,
    /// Names that the kernel may ask by; those with wildcards are left out: they are for devices.
    pub aliases: BTreeMap<String, String>,
}

impl Index {
    /// The files to load for what the kernel asks for, in order; empty if it is not here.
    pub fn load_order(&self, asked: &str) -> Vec<&str> {
        let mut order = Vec::new();
        let name = plain(asked);
        let name = self.aliases.get(asked).or_else(|| self.aliases.get(&name)).unwrap_or(&name);
        self.place(name, &mut order, 0);
        order
    }

    fn place<'a>(&'a self, name: &str, order: &mut Vec<&'a str>, depth: u8) {
        // Modules that need each other cannot be loaded at all; the bound only keeps a damaged
        // index from looping.
        let Some((name, needs)) = self.modules.get_key_value(name).filter(|_| depth < 32) else { return };
        if order.contains(&name.as_str()) {
            return;
        }
        needs.iter().for_each(|need| self.place(need, order, depth + 1));
        if !order.contains(&name.as_str()) {
            order.push(name);
        }
    }
}

/// A module's name as the kernel has it.
fn plain(name: &str) -> String {
    name.replace('-', "_")
}

/// A module file's own name, without `.ko` and what it is packed with.
fn name_of(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let stem = [".ko", ".ko.xz", ".ko.zst", ".ko.gz"].iter().find_map(|end| file.strip_suffix(end))?;
    Some(plain(stem))
}

/// All modules in a folder, by name. Later ones in the order of paths give way to earlier ones:
/// `extra` and `updates` are for whoever built them, and come from a folder given first.
fn list(folder: &Path, into: &mut BTreeMap<String, PathBuf>) -> Result<(), ModuleError> {
    let failed = |source| ModuleError::Read { path: folder.to_owned(), source };
    let mut entries = fs::read_dir(folder).map_err(failed)?.collect::<io::Result<Vec<_>>>().map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type().map_err(failed)?;
        let path = entry.path();
        if kind.is_dir() {
            list(&path, into)?;
        } else if let Some(name) = name_of(&path).filter(|_| kind.is_file()) {
            into.entry(name).or_insert(path);
        }
    }
    Ok(())
}

fn bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(LARGEST + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > LARGEST {
        true => Err(io::Error::other(format!("it has more than {LARGEST} bytes, as no module has"))),
        false => Ok(bytes),
    }
}

/// The bytes of a module, unpacked.
fn read(path: &Path, sums: Option<&Sums>) -> Result<Vec<u8>, ModuleError> {
    let failed = |source| ModuleError::Read { path: path.to_owned(), source };
    let bytes = bounded(fs::File::open(path).map_err(failed)?).map_err(failed)?;
    sums.map_or(Ok(()), |sums| sums.check(path, &bytes))?;
    if !bytes.starts_with(b"\xfd7zXZ\0") {
        return Ok(bytes);
    }
    // A few bytes can be packed of which there is no end.
    bounded(lzma_rust2::XzReader::new(&bytes[..], true)).map_err(failed)
}

/// Puts the wanted modules of `folder` (a `lib/modules/RELEASE`), and what they depend on, into the
/// archive, with the index. Those that the folder does not have are built into the kernel or do not
/// exist: the kernel will tell.
///
/// # Errors
/// If a module cannot be read, or is not what `sums` says.
pub fn pack(folder: &Path, sums: Option<&Sums>, wanted: &[&str], archive: &mut Archive) -> Result<Index, ModuleError> {
    let mut files = BTreeMap::new();
    list(folder, &mut files)?;
    let mut index = Index::default();
    let mut open: BTreeSet<String> = wanted.iter().map(|name| plain(name)).collect();
    while let Some(name) = open.pop_first() {
        let Some(path) = files.get(&name).filter(|_| !index.modules.contains_key(&name)) else { continue };
        let bytes = read(path, sums)?;
        let elf = Elf::read(&bytes).ok_or_else(|| ModuleError::Foreign { path: path.clone() })?;
        let mut needs = Vec::new();
        for (key, value) in elf.modinfo() {
            match key {
                "depends" => needs.extend(value.split(',').filter(|name| !name.is_empty()).map(plain)),
                "alias" if !value.contains(['*', '?', '[']) => {
                    index.aliases.insert(value.to_owned(), name.clone());
                }
                _ => {}
            }
        }
        open.extend(needs.iter().cloned());
        index.modules.insert(name.clone(), needs);
        archive.file(&format!("{FOLDER}/{name}.ko"), bytes, false);
    }
    archive.file(INDEX, serde_json::to_vec(&index).unwrap_or_default(), false);
    Ok(index)
}
