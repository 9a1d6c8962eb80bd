// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modules that Debian does not build, out of its own kernel source, for a fetched kernel:
//! compiled by this machine's compiler, checked and linked by the kernel's own build tools, which
//! run with the libraries that belong to them. Everything lies in the cache; nothing is installed
//! and no root is needed. What is built belongs to the fetched kernel, and goes with it.

use super::apt::{Apt, FetchError, Package, field, file, said};
use super::cached::{self, sha256};
use super::elf::Elf;
use super::fetch::{WORK, note};
use super::kernel::{self, BuiltModule, Debian, Fetched};
use crate::host::tool::{self, Tool};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

#[derive(Debug, PartialEq, Eq)]
pub struct Extra {
    /// By what it is asked for.
    pub name: &'static str,
    /// The first kernel whose own is of use, and why.
    since: (u32, u32),
    why: &'static str,
    /// What is taken out of the source: a folder's files, or a file.
    sources: &'static [&'static str],
    /// Files of tardy's own, by name, with what is in them.
    own: &'static [(&'static str, &'static str)],
    /// The lines for kbuild: which modules there are and what they consist of.
    kbuild: &'static str,
    /// The modules, in the order in which they need each other.
    pub modules: &'static [&'static str],
}

impl Extra {
    /// True if a kernel of this release can use it.
    pub fn is_of_use(&self, release: &str) -> bool {
        let mut numbers = release.split('.').map_while(|part| part.parse::<u32>().ok());
        numbers.next().zip(numbers.next()).is_none_or(|version| version >= self.since)
    }
}

/// Those that can be built.
pub const EXTRAS: &[Extra] = &[NETDEVSIM, DMATEST];

/// The kernel's test of DMA controllers, tardy's own, and two controllers that they can test on any
/// machine.
const DMATEST: Extra = Extra {
    name: "dmatest",
    since: (6, 1),
    why: "its parameters are others",
    sources: &["drivers/dma/dmatest.c"],
    own: &[("tardy_softdma.c", include_str!("softdma.c")), ("tardy_sgtest.c", include_str!("sgtest.c"))],
    kbuild: "obj-m := tardy_softdma.o dmatest.o tardy_sgtest.o\n",
    modules: &["tardy_softdma", "dmatest", "tardy_sgtest"],
};

const NETDEVSIM: Extra = Extra {
    name: "netdevsim",
    since: (6, 9),
    why: "its simulated devices cannot be joined yet",
    sources: &["drivers/net/netdevsim/*.[ch]", "drivers/ptp/ptp_mock.c"],
    own: &[],
    // Debian's configuration has neither: what the headers ask about them must be said here, or
    // its clock would be left out.
    kbuild: "obj-m := ptp_mock.o netdevsim.o\n\
             netdevsim-y := netdev.o dev.o ethtool.o fib.o bus.o health.o hwstats.o udp_tunnels.o\n\
             netdevsim-$(CONFIG_BPF_SYSCALL) += bpf.o\n\
             netdevsim-$(CONFIG_XFRM_OFFLOAD) += ipsec.o\n\
             netdevsim-$(if $(CONFIG_PSAMPLE),y) += psample.o\n\
             netdevsim-$(if $(CONFIG_MACSEC),y) += macsec.o\n\
             ccflags-y := -DCONFIG_PTP_1588_CLOCK_MOCK_MODULE=1 -DCONFIG_NETDEVSIM_MODULE=1\n",
    modules: &["ptp_mock", "netdevsim"],
};

/// Programs of this machine that build: each with the package that has it.
const NEEDED: [(&str, &str); 4] = [("gcc", "gcc"), ("make", "make"), ("tar", "tar"), ("xz", "xz-utils")];
/// The kernel's build tools that a module takes: what kbuild calls, and the file that does it for
/// 64-bit x86.
const TOOLS: [(&str, &str); 3] = [
    ("scripts/basic/fixdep", "scripts/basic/fixdep"),
    ("scripts/mod/modpost", "scripts/mod/modpost.real-lsb-64"),
    ("tools/objtool/objtool", "tools/objtool/objtool.real-x86"),
];
/// What one of the tools needs that is not called here, with much behind it.
const LEFT_OUT: &[&str] = &["pahole"];
/// Where what is built lies, below the kernel's modules.
const PLACE: &str = "updates/tardy";

/// It cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum ExtraError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The kernel was not fetched.
    #[error("{name} is built for a kernel of Debian's that was fetched: `tardy guest fetch {kernel} --with {name}`")]
    NotFetched { name: &'static str, kernel: &'static str },
    /// The kernel is too old.
    #[error("{name} is of use from Linux {}.{} on: in {release} {why}", since.0, since.1)]
    TooOld {
        name: &'static str,
        /// The first that will do.
        since: (u32, u32),
        /// Release of the kernel that was fetched.
        release: String,
        why: &'static str,
    },
    /// The archive has moved on.
    #[error(
        "{source}: the archive has no headers or source of {kernel} {version} any more: `tardy guest fetch {kernel}` fetches its newest, then build again"
    )]
    Gone { kernel: &'static str, version: String, source: FetchError },
    /// A program is missing.
    #[error("program `{program}` is not installed, and a module is built with it: apt install {package}")]
    NoProgram {
        program: &'static str,
        /// Where Debian has it.
        package: &'static str,
    },
    /// Something of a package is not where it was.
    #[error(
        "{what} is not in the packages of {kernel}: they are laid out in another way than this version of tardy knows"
    )]
    Layout { what: String, kernel: &'static str },
    /// What was built is for another kernel.
    #[error("what was built of {name} is for `{got}`, and the kernel is {release}")]
    Foreign {
        name: &'static str,
        /// For which it says that it is.
        got: String,
        /// What it should be.
        release: String,
    },
}

/// One of them by its name.
pub fn extra(name: &str) -> Option<&'static Extra> {
    EXTRAS.iter().find(|extra| extra.name == name)
}

/// The release that a package of a kernel is of: `linux-image-6.12.9+deb13-amd64`.
fn release(fetched: &Fetched) -> &str {
    fetched.package.trim_start_matches("linux-image-")
}

/// First and second number of a release.
pub fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Packages that one depends on, of alternatives the first.
pub fn depends(shown: &str) -> Vec<&str> {
    let all = field(shown, "Depends").unwrap_or_default();
    all.split(',')
        .filter_map(|one| one.split(['|', '(', ':']).next())
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .collect()
}

/// Builds it for a fetched kernel. `tell` hears what is being done.
///
/// # Errors
/// [`ExtraError`].
pub fn build(
    cache: &Path,
    which: Debian,
    extra: &'static Extra,
    tell: &mut dyn FnMut(&str),
) -> Result<BuiltModule, ExtraError> {
    let not_fetched = || ExtraError::NotFetched { name: extra.name, kernel: which.name };
    let mut fetched = kernel::fetched(cache, which.name).ok_or_else(not_fetched)?;
    if numbers(release(&fetched)).is_none_or(|numbers| numbers < extra.since) {
        let (since, why) = (extra.since, extra.why);
        return Err(ExtraError::TooOld { name: extra.name, since, release: release(&fetched).to_owned(), why });
    }
    for (program, package) in NEEDED {
        if !tool::is_there(program) {
            return Err(ExtraError::NoProgram { program, package });
        }
    }
    cached::sweep(cache, WORK);
    let work = cache.join(format!("build-{}", std::process::id()));
    let work = std::path::absolute(&work).map_err(file("find", &work))?;
    let root = kernel::folder(cache, which.name);
    let result = build_in(&work, &root, &fetched, which, extra, tell).and_then(|(built, files)| {
        for (module, bytes) in built.modules.keys().zip(files) {
            let path = root.join(module);
            let folder = path.parent().unwrap_or(&root);
            fs::create_dir_all(folder).map_err(file("create", folder))?;
            cached::write(&path, &bytes).map_err(file("write", &path))?;
        }
        fetched.built.retain(|other| other.name != built.name);
        fetched.built.push(built.clone());
        note(&root, &fetched)?;
        Ok(built)
    });
    let _ = fs::remove_dir_all(&work);
    result
}

/// What is fetched to build a module: descriptions of packages, as apt shows them.
struct Needed {
    /// The package of the build tools.
    tools: String,
    /// The headers, the build tools, and the libraries of these.
    packages: Vec<String>,
    source: String,
}

impl Needed {
    fn megabytes(&self) -> u64 {
        let size = |shown: &String| field(shown, "Size").and_then(|size| size.parse::<u64>().ok()).unwrap_or(0);
        (self.packages.iter().map(size).sum::<u64>() + size(&self.source)) / 1_000_000
    }
}

fn build_in(
    work: &Path,
    target: &Path,
    fetched: &Fetched,
    which: Debian,
    extra: &'static Extra,
    tell: &mut dyn FnMut(&str),
) -> Result<(BuiltModule, Vec<Vec<u8>>), ExtraError> {
    let release = release(fetched);
    let layout = |what: &str| ExtraError::Layout { what: what.to_owned(), kernel: which.name };
    tell(&format!("{}: reading the list of packages of {}", which.name, which.suite));
    let apt = Apt::set_up(work, which.suite)?;
    let needed = needed(&apt, fetched, which, &layout)?;
    let megabytes = needed.megabytes();
    tell(&format!("{}: fetching the headers, build tools and source of {release}, {megabytes} MB", which.name));
    // The kernel's own build tools are another thing than the machine's, so they have a root of
    // their own.
    let root = work.join("root");
    for shown in &needed.packages {
        apt.download(shown)?.unpack(&root)?;
    }
    let package = apt.download(&needed.source)?;
    tell(&format!("{}: taking {} out of the source", which.name, extra.name));
    let module = work.join("module");
    sources(work, &package, extra, &module, &layout)?;
    tools_run_here(&root, &needed.tools, &layout)?;
    tell(&format!("{}: compiling {}", which.name, extra.name));
    compile(work, &root, release, &module, &layout)?;
    built(&module, target, release, extra, &package, &layout)
}

/// Looks for all that is needed, before the greatest of it, the source, is fetched.
fn needed(apt: &Apt, fetched: &Fetched, which: Debian, layout: Layout<'_>) -> Result<Needed, ExtraError> {
    let (release, version) = (release(fetched), fetched.version.as_str());
    let gone = |source| match source {
        FetchError::NoPackage { .. } => ExtraError::Gone { kernel: which.name, version: version.to_owned(), source },
        other => other.into(),
    };
    let headers = apt.show(&format!("linux-headers-{release}"), Some(version)).map_err(gone)?;
    let (major, minor) = numbers(release).ok_or_else(|| layout("a version in its release"))?;
    let source = apt.show(&format!("linux-source-{major}.{minor}"), Some(version)).map_err(gone)?;
    let of = |prefix: &str, end: &str| {
        depends(&headers).into_iter().find(|name| name.starts_with(prefix) && name.ends_with(end)).map(str::to_owned)
    };
    let common = of("linux-headers-", "-common").or_else(|| of("linux-headers-", "-common-rt"));
    let common = common.ok_or_else(|| layout("the common part of its headers"))?;
    let tools = of("linux-kbuild-", "").ok_or_else(|| layout("its build tools"))?;
    let mut packages = vec![headers.clone(), apt.show(&common, Some(version)).map_err(gone)?, apt.show(&tools, None)?];
    let mut at = 2;
    // The tools with the libraries that they are linked with, and theirs.
    while let Some(of) = packages.get(at) {
        let known = |name: &&str| packages.iter().any(|shown| field(shown, "Package") == Some(name));
        let next: Vec<String> = depends(of)
            .into_iter()
            .filter(|name| !known(name) && !LEFT_OUT.contains(name))
            .map(str::to_owned)
            .collect();
        for name in next {
            packages.push(apt.show(&name, None)?);
        }
        at += 1;
    }
    Ok(Needed { tools, packages, source })
}

/// The result of the build: the files with their places among the kernel's modules, and where they
/// come from.
fn built(
    module: &Path,
    target: &Path,
    release: &str,
    extra: &'static Extra,
    package: &Package,
    layout: Layout<'_>,
) -> Result<(BuiltModule, Vec<Vec<u8>>), ExtraError> {
    let compiler = said("asking the compiler for its version", Tool::new("gcc").args(["--version"]))?;
    let mut built = BuiltModule {
        name: extra.name.to_owned(),
        source: format!("{} {}", package.name, package.version),
        source_sha256: package.sha256.clone(),
        compiler: compiler.lines().next().unwrap_or_default().to_owned(),
        modules: BTreeMap::new(),
    };
    let places = ["usr/lib/modules", "lib/modules"].map(|place| Path::new(place).join(release));
    let folder =
        places.iter().find(|place| target.join(place).is_dir()).ok_or_else(|| layout("its modules' folder"))?;
    let mut files = BTreeMap::new();
    for name in extra.modules {
        let path = module.join(format!("{name}.ko"));
        let bytes = fs::read(&path).map_err(file("read", &path))?;
        let magic = Elf::read(&bytes)
            .and_then(|elf| elf.modinfo().find(|(key, _)| *key == "vermagic").map(|(_, value)| value.to_owned()));
        let magic = magic.unwrap_or_default();
        if magic.split(' ').next() != Some(release) {
            return Err(ExtraError::Foreign { name: extra.name, got: magic, release: release.to_owned() });
        }
        let path = folder.join(PLACE).join(format!("{name}.ko"));
        built.modules.insert(path.clone(), sha256::of(&bytes));
        files.insert(path, bytes);
    }
    // Both maps are in the order of their keys.
    Ok((built, files.into_values().collect()))
}

type Layout<'a> = &'a dyn Fn(&str) -> ExtraError;

/// Takes a module's files out of the source, which is packed within its package.
fn sources(work: &Path, package: &Package, extra: &Extra, into: &Path, layout: Layout<'_>) -> Result<(), ExtraError> {
    let (outer, inner) = (work.join("source"), work.join("tree"));
    for folder in [into, &inner] {
        fs::create_dir_all(folder).map_err(file("create", folder))?;
    }
    package.unpack(&outer)?;
    let name = package.name.as_str();
    let packed = outer.join("usr/src").join(format!("{name}.tar.xz"));
    if !packed.is_file() {
        return Err(layout(&format!("usr/src/{name}.tar.xz")));
    }
    let tar = Tool::new("tar").args(["-xJf"]).path(&packed).args(["-C"]).path(&inner);
    let tar = tar.args(["--strip-components=1", "--wildcards", "--no-wildcards-match-slash", "--anchored"]);
    let tar = tar.args(extra.sources.iter().map(|source| format!("{name}/{source}")));
    said(&format!("taking {} out of the kernel's source", extra.name), tar)?;
    for source in extra.sources {
        let folder = inner.join(Path::new(source).parent().unwrap_or(Path::new("")));
        for entry in fs::read_dir(&folder).map_err(file("list", &folder))?.flatten() {
            let to = into.join(entry.file_name());
            fs::rename(entry.path(), &to).map_err(file("rename to", &to))?;
        }
    }
    for (name, text) in extra.own {
        let path = into.join(name);
        fs::write(&path, text).map_err(file("write", &path))?;
    }
    let kbuild = into.join("Kbuild");
    Ok(fs::write(&kbuild, extra.kbuild).map_err(file("write", &kbuild))?)
}

/// Puts scripts in the build tools' places. They start the tools by the loader and with the
/// libraries that came with them, because this machine's may be too old for the tools.
fn tools_run_here(root: &Path, tools: &str, layout: Layout<'_>) -> Result<(), ExtraError> {
    let loader = ["usr/lib64", "lib64"].iter().map(|place| root.join(place).join("ld-linux-x86-64.so.2"));
    let loader = loader.into_iter().find(|path| path.is_file()).ok_or_else(|| layout("the loader of its C library"))?;
    let libraries =
        ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"].map(|place| root.join(place).display().to_string());
    for (called, does) in TOOLS {
        let [called, from] = [called, does].map(|tool| root.join("usr/lib").join(tools).join(tool));
        if !from.is_file() {
            return Err(layout(&format!("the build tool {does}")));
        }
        let to = called.with_extension("tool");
        fs::rename(&from, &to).map_err(file("rename to", &to))?;
        let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
        let script = format!(
            "#!/bin/sh\nexec {} --library-path {} {} \"$@\"\n",
            quoted(&loader),
            quoted(Path::new(&libraries.join(":"))),
            quoted(&to)
        );
        if called.exists() {
            fs::remove_file(&called).map_err(file("remove", &called))?;
        }
        fs::write(&called, script).map_err(file("write", &called))?;
        fs::set_permissions(&called, fs::Permissions::from_mode(0o755)).map_err(file("make runnable", &called))?;
    }
    Ok(())
}

/// Has kbuild compile the module against the headers.
fn compile(work: &Path, root: &Path, release: &str, module: &Path, layout: Layout<'_>) -> Result<(), ExtraError> {
    let headers = root.join("usr/src").join(format!("linux-headers-{release}"));
    let makefile = headers.join("Makefile");
    let text = fs::read_to_string(&makefile).map_err(file("read", &makefile))?;
    // It names the place at which it would be installed.
    let here = text.replace("include /usr/src/", &format!("include {}/", root.join("usr/src").display()));
    if here == text {
        return Err(layout("a Makefile of the headers that names its common part"));
    }
    fs::write(&makefile, here).map_err(file("write", &makefile))?;
    let make = Tool::new("make").args(["-C"]).path(&headers).args([format!("M={}", module.display())]);
    // The compiler is this machine's, not the one that the kernel was built with: it may not know
    // an option that only aligns functions. Without the image there is nothing to make type
    // information of.
    let make = make.args(["CC=gcc", "HOSTCC=gcc", "CROSS_COMPILE=", "CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT="]);
    let make = make.args(["CONFIG_DEBUG_INFO=", "CONFIG_DEBUG_INFO_BTF_MODULES="]);
    // The module says nothing about where it was built.
    let make = make.args([format!("KCFLAGS=-ffile-prefix-map={}/=", work.display())]).args(["modules"]);
    // What is set for another build is not meant for this one.
    let other = ["MAKEFLAGS", "MAKELEVEL", "MFLAGS", "ARCH", "KBUILD_OUTPUT", "O", "CFLAGS", "LDFLAGS"];
    Ok(said("compiling the module", make.without(&other)).map(|_| ())?)
}
