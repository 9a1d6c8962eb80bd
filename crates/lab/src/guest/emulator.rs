// SPDX-License-Identifier: MIT OR Apache-2.0
//! The QEMU for guests that run virtual machines themselves: Debian's source, built with one line
//! more, in the cache.
//!
//! Debian's QEMU, and newer ones, cannot run such a guest for long. Where a guest starts its own
//! guest and injects an interrupt into it (VMRUN with EVENTINJ of type INTR), the emulator delivers
//! the interrupt and leaves its vector noted as the reason why execution stopped. If any timer of
//! the outer machine is due before the inner guest exits, the main loop finds the note and delivers
//! the interrupt again, even where the inner kernel has interrupts off. That kernel then waits for
//! a lock that it holds itself. The line clears the note, as the other types of events do.
//!
//! What QEMU is built with comes out of fetched packages, in a folder of its own: nothing is
//! installed, and no root is needed.

use super::apt::{Apt, FetchError, file, said};
use super::cached::{self, sha256};
use super::fetch::WORK;
use crate::host::tool::{self, Tool};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use tardy_sys::process;

/// By what it is asked for.
pub const NAME: &str = "qemu";
/// The source is that of one release, so that each machine builds the same: the oldest one whose
/// QEMU emulates igb and its virtual functions, and what builds it.
const SUITE: &str = "trixie";
/// What it is linked with is older, so that the program starts with the libraries of any release
/// since.
const LIBRARIES_SUITE: &str = "bookworm";
const SOURCE: &str = "qemu";
/// The folder in the cache, and what is in it.
const FOLDER: &str = "qemu";
const PROGRAM: &str = "qemu-system-x86_64";
const NOTE: &str = "qemu.json";
/// Programs of this machine that build: each with the package that has it.
const NEEDED: [(&str, &str); 5] = [
    ("gcc", "gcc"),
    ("strip", "binutils"),
    ("python3", "python3"),
    ("pkg-config", "pkg-config"),
    ("dpkg-source", "dpkg-dev"),
];
/// What configures it. It is Python's alone.
const MESON: &str = "meson";
/// What else it is built with: tools, and libraries that every machine with a QEMU has, with their
/// headers.
const PACKAGES: &[&str] = &[
    "ninja-build",
    "python3-distlib",
    // QEMU's own environment for Python has them from this machine, or else by `ensurepip`, which
    // not every Debian has.
    "python3-pip",
    "python3-setuptools",
    "libglib2.0-dev",
    "libglib2.0-0",
    "libpcre2-dev",
    "libpcre2-8-0",
    "libpixman-1-dev",
    "libpixman-1-0",
    "libfdt-dev",
    "libfdt1",
    "libseccomp-dev",
    "libseccomp2",
    "zlib1g-dev",
    "zlib1g",
];
/// Where the line goes: behind this one.
const CHANGED: &str = "target/i386/tcg/system/svm_helper.c";
const CALL: &str = "do_interrupt_x86_hardirq(env, vector, 1);\n";
const LINE: &str = "            cs->exception_index = -1;\n";
/// The devices that guests and their machines have, in QEMU's own words.
const DEVICES: &str = "CONFIG_Q35=y\nCONFIG_SERIAL_ISA=y\nCONFIG_HPET=y\nCONFIG_VIRTIO_PCI=y\nCONFIG_VIRTIO_NET=y\n\
                       CONFIG_VIRTIO_SERIAL=y\nCONFIG_E1000E_PCI_EXPRESS=y\nCONFIG_IGB_PCI_EXPRESS=y\n\
                       CONFIG_PCIE_PORT=y\nCONFIG_VTD=y\nCONFIG_VFIO=y\nCONFIG_VFIO_PCI=y\n";
/// What it is configured with; what is not named is left out.
const OPTIONS: &[&str] = &[
    "--prefix=/usr",
    "--target-list=x86_64-softmmu",
    "--without-default-features",
    "--without-default-devices",
    "--with-devices-x86_64=tardy",
    "--enable-tcg",
    "--enable-kvm",
    "--enable-seccomp",
    "--enable-fdt=system",
    "--enable-vhost-kernel",
    "--enable-vhost-net",
    "--disable-docs",
    "--disable-werror",
    // They are not in Debian's source, and guests take this machine's.
    "--disable-install-blobs",
];

/// Takes the place of the libraries that it was linked with out of the program, as an installation
/// would: that folder is removed, and whoever made it again could have others loaded.
const FORGET: &str = "import sys
from mesonbuild.scripts import depfixer
with depfixer.Elf(sys.argv[1], False) as elf:
    for entry in depfixer.DT_RPATH, depfixer.DT_RUNPATH:
        elf.remove_rpath_entry(entry)
";

/// It cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A program is missing.
    #[error("program `{program}` is not installed, and QEMU is built with it: apt install {package}")]
    NoProgram {
        program: &'static str,
        /// Where Debian has it.
        package: &'static str,
    },
    /// Another user could replace what the build starts, or its result.
    #[error(
        "QEMU is not built in {}: another user than this one and root may write there, or may rename a folder on the way, and would \
         have their programs run: build it as the user whose folder it is, without sudo, or set TARDY_CACHE to a folder of your own",
        cache.display()
    )]
    OthersWrite { cache: PathBuf },
    /// Something of the source is not where it was.
    #[error("{what} is not in the source of {version}: it is laid out in another way than this version of tardy knows")]
    Layout { what: String, version: String },
}

/// What was built, as it is noted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    /// The source package with its version.
    pub source: String,
    /// SHA-256 of its description, which has the sums of its files.
    pub source_sha256: String,
    pub compiler: String,
    /// SHA-256 of the program.
    pub sha256: String,
}

/// Modes of the folders of a build, and of its result.
const HIDDEN: u32 = 0o700;
const SHOWN: u32 = 0o755;

/// The program in the cache, with what is noted of it. `None` if it was not built, or if another
/// user could have replaced it.
pub fn found(cache: &Path) -> Option<(PathBuf, Built)> {
    let folder = std::path::absolute(cache.join(FOLDER)).ok()?;
    // What is checked in such a folder is still so when it is started.
    let folder = process::where_only_we_write(&folder)?;
    let (program, note) = (folder.join(PROGRAM), folder.join(NOTE));
    let is_whole = |path: &Path| fs::symlink_metadata(path).is_ok_and(|about| about.is_file());
    let built = (is_whole(&program) && is_whole(&note)).then(|| fs::read(&note).ok())??;
    Some((program, serde_json::from_slice(&built).ok()?))
}

/// Builds it into the cache, in place of one that is there. `tell` hears what is being done.
///
/// # Errors
/// [`EmulatorError`].
pub fn build(cache: &Path, tell: &mut dyn FnMut(&str)) -> Result<Built, EmulatorError> {
    // The build starts programs out of folders below it, for minutes.
    let cache = std::path::absolute(cache).map_err(file("find", cache))?;
    let others = || EmulatorError::OthersWrite { cache: cache.clone() };
    let cache = process::where_only_we_write(&cache).ok_or_else(others)?;
    for (program, package) in NEEDED {
        if !tool::is_there(program) {
            return Err(EmulatorError::NoProgram { program, package });
        }
    }
    let private = |mode: u32, path: &Path| DirBuilder::new().recursive(mode == SHOWN).mode(mode).create(path);
    private(SHOWN, &cache).map_err(file("create", &cache))?;
    cached::sweep(&cache, WORK);
    let work = cache.join(format!("build-{}", std::process::id()));
    private(HIDDEN, &work).map_err(file("create", &work))?;
    let result = build_in(&work, tell).and_then(|(mut built, program)| {
        let folder = cache.join(FOLDER);
        private(SHOWN, &folder).map_err(file("create", &folder))?;
        let bytes = fs::read(&program).map_err(file("read", &program))?;
        built.sha256 = sha256::of(&bytes);
        let (program, note) = (folder.join(PROGRAM), folder.join(NOTE));
        cached::write_program(&program, &bytes).map_err(file("write", &program))?;
        cached::write(&note, &serde_json::to_vec_pretty(&built).unwrap_or_default()).map_err(file("write", &note))?;
        Ok(built)
    });
    let _ = fs::remove_dir_all(&work);
    result
}

fn build_in(work: &Path, tell: &mut dyn FnMut(&str)) -> Result<(Built, PathBuf), EmulatorError> {
    tell(&format!("{NAME}: reading the lists of packages and sources of {LIBRARIES_SUITE} and {SUITE}"));
    let root = work.join("root");
    let bring = |apt: &Apt, package: &str| apt.download(&apt.show(package, None)?)?.unpack(&root);
    let libraries = Apt::set_up(&work.join("libraries"), LIBRARIES_SUITE)?;
    let apt = Apt::with_sources(work, SUITE)?;
    tell(&format!("{NAME}: fetching its source, about 40 MB, and what it is built with"));
    PACKAGES.iter().try_for_each(|package| bring(&libraries, package))?;
    bring(&apt, MESON)?;
    let source = apt.source(SOURCE)?;
    let tree = work.join("tree");
    let unpack = Tool::new("dpkg-source").args(["--no-check", "-q", "-x"]).path(&source.path).path(&tree);
    said("unpacking the source of QEMU", unpack)?;
    change(&tree, &source.version)?;
    let built = tree.join("build");
    fs::create_dir_all(&built).map_err(file("create", &built))?;
    tell(&format!("{NAME}: configuring {}", source.version));
    let version =
        format!("--with-pkgversion=Debian {}, changed by tardy: an injected interrupt comes once", source.version);
    // It finds meson among Python's packages.
    let ninja = format!("--ninja={}", root.join("usr/bin/ninja").display());
    let includes =
        format!("--extra-cflags=-I{} -ffile-prefix-map={}=/", root.join("usr/include").display(), work.display());
    let libraries = format!("--extra-ldflags=-L{}", root.join("usr/lib/x86_64-linux-gnu").display());
    let configure = Tool::new("../configure").args(OPTIONS).args([ninja, includes, libraries, version]);
    said("configuring QEMU", built_with(configure, &root).within(&built))?;
    tell(&format!("{NAME}: compiling it, about five minutes of processor time"));
    let ninja = Tool::new(&root.join("usr/bin/ninja").display().to_string()).args(["--quiet", PROGRAM]);
    said("compiling QEMU", built_with(ninja, &root).within(&built))?;
    let program = built.join(PROGRAM);
    said("stripping QEMU", Tool::new("strip").path(&program))?;
    let forget = Tool::new("python3").args(["-c", FORGET]).path(&program);
    said("taking the folder of the build out of QEMU", built_with(forget, &root))?;
    let compiler = said("asking the compiler for its version", Tool::new("gcc").args(["--version"]))?;
    let noted = Built {
        source: format!("{} {}", source.name, source.version),
        source_sha256: source.sha256,
        compiler: compiler.lines().next().unwrap_or_default().to_owned(),
        sha256: String::new(),
    };
    Ok((noted, program))
}

/// Adds the line to the source, and says which devices there are to be.
fn change(tree: &Path, version: &str) -> Result<(), EmulatorError> {
    let layout = |what: &str| EmulatorError::Layout { what: what.to_owned(), version: version.to_owned() };
    let path = tree.join(CHANGED);
    let text = fs::read_to_string(&path).map_err(file("read", &path))?;
    let changed = changed(&text).ok_or_else(|| layout(CHANGED))?;
    fs::write(&path, changed).map_err(file("write", &path))?;
    let devices = tree.join("configs/devices/x86_64-softmmu");
    if !devices.is_dir() {
        return Err(layout("configs/devices/x86_64-softmmu"));
    }
    let devices = devices.join("tardy.mak");
    Ok(fs::write(&devices, DEVICES).map_err(file("write", &devices))?)
}

/// The text with the line; `None` unless there is one place for it. Pure.
pub fn changed(text: &str) -> Option<String> {
    let (before, after) = text.split_once(CALL)?;
    (!after.contains(CALL)).then(|| format!("{before}{CALL}{LINE}{after}"))
}

/// The tool with the fetched packages in the place of this machine's.
fn built_with(tool: Tool, root: &Path) -> Tool {
    let at = |path: &str| root.join(path).display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let found = format!("{}:{}", at("usr/lib/x86_64-linux-gnu/pkgconfig"), at("usr/share/pkgconfig"));
    tool.with("PATH", &format!("{}:{path}", at("usr/bin")))
        .with("PYTHONPATH", &at("usr/lib/python3/dist-packages"))
        .with("PKG_CONFIG_LIBDIR", &found)
        .with("PKG_CONFIG_SYSROOT_DIR", &at(""))
        .without(&["MAKEFLAGS", "MAKELEVEL", "CFLAGS", "LDFLAGS", "CPPFLAGS", "CC", "PKG_CONFIG_PATH"])
}
