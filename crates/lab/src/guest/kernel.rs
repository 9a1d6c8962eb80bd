// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which kernel a guest starts: a file with its modules next to it, the running one's, or one of
//! Debian's from the cache.

use super::cached::{self, sha256};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tardy_sys::proc;

/// The kernel that a guest starts unless the user names another one.
pub const DEFAULT: &str = "debian:6.12";

/// Debian's kernels: name, the suite that has it, the package that names the newest of it.
pub const DEBIAN: &[Debian] = &[
    Debian { name: "debian:6.1", suite: "bookworm", package: "linux-image-amd64" },
    Debian { name: "debian:6.1-rt", suite: "bookworm", package: "linux-image-rt-amd64" },
    Debian { name: "debian:6.12", suite: "trixie", package: "linux-image-amd64" },
    Debian { name: "debian:6.12-rt", suite: "trixie", package: "linux-image-rt-amd64" },
    Debian { name: "debian:testing", suite: "testing", package: "linux-image-amd64" },
];

/// A kernel of Debian's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debian {
    /// What it is called here.
    pub name: &'static str,
    pub suite: &'static str,
    /// The package that depends on the newest of its kind there.
    pub package: &'static str,
}

/// A kernel that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// As it was asked for.
    pub name: String,
    pub image: PathBuf,
    /// Its release, out of the image.
    pub release: String,
    /// `lib/modules/RELEASE`, if there is one.
    pub modules: Option<PathBuf>,
    /// SHA-256 of the image, hexadecimal.
    pub sha256: String,
    /// What its modules must be, if it was fetched.
    pub sums: Option<Sums>,
}

/// The sums of a fetched kernel's modules, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// The kernel, as it was asked for.
    pub kernel: String,
    pub of: BTreeMap<PathBuf, String>,
}

impl Sums {
    /// Compares what was read of a file with what was fetched.
    ///
    /// # Errors
    /// If it is another, or none of those that were fetched.
    pub fn check(&self, path: &Path, bytes: &[u8]) -> Result<(), KernelError> {
        let (name, path, got) = (self.kernel.clone(), path.to_owned(), sha256::of(bytes));
        match self.of.get(&path) {
            Some(wanted) if *wanted == got => Ok(()),
            Some(wanted) => Err(KernelError::Changed { name, path, wanted: wanted.clone(), got }),
            None => Err(KernelError::NotFetchedWith { name, path }),
        }
    }
}

/// The list of sums of a fetched kernel's modules, in its folder, in the form of `sha256sum`.
pub const MODULE_SUMS: &str = "modules.sha256";

/// What the cache keeps next to a fetched kernel (`kernel.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    /// What the user calls it: `debian:6.12`.
    pub name: String,
    /// Its package, as the archive calls it.
    pub package: String,
    /// Version of that package, as the archive has it.
    pub version: String,
    /// SHA-256 of the package, as apt has checked it against the archive's signed index.
    pub package_sha256: String,
    /// SHA-256 of the image.
    pub image_sha256: String,
    /// The image, below the folder.
    pub image: PathBuf,
    /// SHA-256 of the file [`MODULE_SUMS`].
    pub modules_sha256: String,
    /// What the archive's signed release file says that it comes from: `Debian`.
    pub origin: String,
    /// Modules that were built for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub built: Vec<BuiltModule>,
}

/// Modules that Debian does not build, built from its source for a fetched kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltModule {
    /// By what it is asked for: `netdevsim`.
    pub name: String,
    /// The package of the source, as the archive calls it.
    pub source: String,
    /// SHA-256 of that package.
    pub source_sha256: String,
    /// The compiler's first line about itself.
    pub compiler: String,
    /// SHA-256 of each module, by its file below the folder.
    pub modules: BTreeMap<PathBuf, String>,
}

/// A kernel is not available.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// No kernel is called so.
    #[error(
        "kernel `{name}`: there is no such file, and none of Debian's is called so: name an image, `running`, or one of {}",
        names()
    )]
    Unknown {
        /// As it was asked for.
        name: String,
    },
    /// It is known and was not fetched.
    #[error("kernel `{0}` is not in the cache: `tardy guest fetch {0}`")]
    NotFetched(String),
    #[error(
        "kernel `{name}`: cannot read {}: {source}; name a file that you may read by --kernel, or one of {}",
        path.display(),
        names()
    )]
    Read {
        /// As it was asked for.
        name: String,
        path: PathBuf,
        source: io::Error,
    },
    /// It is no image.
    #[error("kernel `{name}`: {} is no bootable image of an x86-64 Linux (a bzImage, usually called vmlinuz)", path.display())]
    NoImage {
        /// As it was asked for.
        name: String,
        path: PathBuf,
    },
    /// A module that was not in the package.
    #[error(
        "kernel `{name}`: {} came neither with the kernel nor was it built for it: remove it, or `tardy guest fetch {name}`",
        path.display()
    )]
    NotFetchedWith {
        /// As it was asked for.
        name: String,
        path: PathBuf,
    },
    /// It was changed since it was fetched.
    #[error(
        "kernel `{name}`: {} is not what was fetched: its SHA-256 is {got} and was {wanted}: `tardy guest fetch {name}`",
        path.display()
    )]
    Changed {
        /// As it was asked for.
        name: String,
        path: PathBuf,
        /// What it should be.
        wanted: String,
        got: String,
    },
}

fn names() -> String {
    DEBIAN.iter().map(|debian| format!("`{}`", debian.name)).collect::<Vec<_>>().join(", ")
}

/// Where what was fetched lies: `$TARDY_CACHE`; else, of a program that was built in a folder of
/// tardy's source and lies there in `dist/`, that folder's `.cache`, as for `make`; else
/// `$XDG_CACHE_HOME/tardy` or `~/.cache/tardy`.
pub fn cache() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let source = || std::env::current_exe().ok().and_then(|program| source_cache(&program));
    let home = || set("HOME").unwrap_or_else(|| "/root".into()).join(".cache");
    let own = || set("XDG_CACHE_HOME").unwrap_or_else(home).join("tardy");
    set("TARDY_CACHE").or_else(source).unwrap_or_else(own).join("guest")
}

/// The cache of the folder of tardy's source in whose `dist/` a program lies, if there is one.
fn source_cache(program: &Path) -> Option<PathBuf> {
    let dist = program.parent().filter(|folder| folder.file_name().is_some_and(|name| name == "dist"))?;
    let cache = dist.parent()?.join(".cache");
    cache.is_dir().then_some(cache)
}

/// The folder of a fetched kernel.
pub fn folder(cache: &Path, name: &str) -> PathBuf {
    cache.join("kernels").join(name.replace(':', "-"))
}

/// One of Debian's by its name.
pub fn debian(name: &str) -> Option<Debian> {
    DEBIAN.iter().copied().find(|debian| debian.name == name)
}

/// What is known of a fetched kernel; `None` if it was not fetched, not to its end, or by a
/// version of tardy that did not take the sums of all that it uses.
pub fn fetched(cache: &Path, name: &str) -> Option<Fetched> {
    serde_json::from_slice(&fs::read(folder(cache, name).join("kernel.json")).ok()?).ok()
}

/// The release that an image reports. In boot protocol 2.00 and later
/// (Documentation/arch/x86/boot.rst) the number at 0x20e says where a text begins, less 0x200. The
/// release is the first word of that text.
pub fn release(image: &[u8]) -> Option<&str> {
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let at = usize::from(u16::from_le_bytes(image.get(0x20e..0x210)?.try_into().ok()?)) + 0x200;
    let text = image.get(at..)?.split(|byte| *byte == 0 || *byte == b' ').next()?;
    // As `uname -r` gives it, which is also a folder's name.
    let may_stand = |c: char| c.is_ascii_graphic() && c != '/';
    std::str::from_utf8(text).ok().filter(|text| (1..128).contains(&text.len()) && text.chars().all(may_stand))
}

/// Finds a kernel by what the user wrote.
///
/// # Errors
/// If it is not there, is no kernel, or is not what was fetched.
pub fn find(cache: &Path, name: &str) -> Result<Kernel, KernelError> {
    if debian(name).is_some() {
        let fetched = fetched(cache, name).ok_or_else(|| KernelError::NotFetched(name.to_owned()))?;
        let path = folder(cache, name).join(&fetched.image);
        let mut kernel = open(name, &path)?;
        let changed = |path: PathBuf, wanted: &str, got: String| KernelError::Changed {
            name: name.to_owned(),
            path,
            wanted: wanted.to_owned(),
            got,
        };
        if kernel.sha256 != fetched.image_sha256 {
            return Err(changed(path, &fetched.image_sha256, kernel.sha256));
        }
        let list = folder(cache, name).join(MODULE_SUMS);
        let text = fs::read(&list);
        let text = text.map_err(|source| KernelError::Read { name: name.to_owned(), path: list.clone(), source })?;
        let got = sha256::of(&text);
        if got != fetched.modules_sha256 {
            return Err(changed(list, &fetched.modules_sha256, got));
        }
        // The image's path leads through no link, and so must the modules'.
        let root = kernel.image.ancestors().nth(fetched.image.components().count()).unwrap_or(Path::new("/"));
        let mut of = cached::parsed(&String::from_utf8_lossy(&text));
        of.extend(fetched.built.into_iter().flat_map(|built| built.modules));
        let of = of.into_iter().map(|(path, sum)| (root.join(path), sum)).collect();
        kernel.sums = Some(Sums { kernel: name.to_owned(), of });
        return Ok(kernel);
    }
    if name == "running" {
        let release = proc::kernel_release().unwrap_or_default();
        return open(name, &Path::new("/boot").join(format!("vmlinuz-{release}")));
    }
    let path = Path::new(name);
    if !path.is_file() {
        return Err(KernelError::Unknown { name: name.to_owned() });
    }
    open(name, path)
}

fn open(name: &str, path: &Path) -> Result<Kernel, KernelError> {
    let image = path
        .canonicalize()
        .and_then(|path| fs::read(&path).map(|bytes| (path, bytes)))
        .map_err(|source| KernelError::Read { name: name.to_owned(), path: path.to_owned(), source });
    let (image, bytes) = image?;
    let no_image = || KernelError::NoImage { name: name.to_owned(), path: path.to_owned() };
    let release = release(&bytes).ok_or_else(no_image)?.to_owned();
    // As a package lays them out: boot/vmlinuz-R next to usr/lib/modules/R or lib/modules/R; else
    // next to the image.
    let above = image.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let beside = image.parent().unwrap_or(Path::new("/"));
    let places = [(above, "usr/lib/modules"), (above, "lib/modules"), (beside, "modules"), (beside, "lib/modules")];
    let own = places.iter().map(|(root, folder)| root.join(folder).join(&release));
    let system = Path::new("/lib/modules").join(&release);
    let modules = own.chain([system]).find(|folder| folder.is_dir());
    Ok(Kernel { name: name.to_owned(), sha256: sha256::of(&bytes), image, release, modules, sums: None })
}
