// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's own apt configuration with the suite swapped: the sources as it would read them,
//! and a call that writes into folders of ours alone. apt checks what it brings against the
//! archive's signed index; the sum is compared once more here. We leave out sources that the
//! configuration lets apt trust unsigned, and every archive that does not call itself Debian's.

use super::cached::{self, sha256};
use crate::host::tool::Tool;
use std::fs::{self, DirBuilder};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Suites whose lines in the machine's configuration can be told to name another.
const SUITES: &[&str] =
    &["buster", "bullseye", "bookworm", "trixie", "forky", "sid", "stable", "oldstable", "testing", "unstable"];

/// Something of the archive could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A program could not be run or failed.
    #[error(
        "{doing}: `{program}` failed: {says}; see that `apt update` works here, then fetch again, or give a kernel by --kernel FILE"
    )]
    Program {
        doing: String,
        program: String,
        /// Its words, or the system's.
        says: String,
    },
    /// The machine's apt is not set up for Debian.
    #[error(
        "none of the sources in /etc/apt names a suite of Debian whose signature apt must check: a kernel of Debian's cannot be fetched \
         through them; give a file by --kernel"
    )]
    NoSources,
    /// Archives that are not Debian's.
    #[error(
        "none of the archives that /etc/apt names says \"Origin: {ORIGIN}\" of its suite {suite} ({}): a kernel of Debian's cannot be \
         fetched from them; give a file by --kernel",
        if found.is_empty() { "no archive answered".to_owned() } else { found.join(", ") }
    )]
    NotDebian {
        suite: &'static str,
        /// What the archives say instead.
        found: Vec<String>,
    },
    /// The archive does not have it.
    #[error(
        "the archive's suite {suite} has no package {package}: take another kernel of `tardy guest list`, or give one by --kernel FILE"
    )]
    NoPackage { package: String, suite: &'static str },
    #[error("cannot {doing} {}: {source}; check its permissions and the free space, or name another folder by TARDY_CACHE", path.display())]
    File { doing: &'static str, path: PathBuf, source: io::Error },
}

pub(super) fn file<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> FetchError + use<'a> {
    move |source| FetchError::File { doing, path: path.to_owned(), source }
}

/// A suite's name with the release swapped: `bookworm-security` becomes `trixie-security`. `None`
/// if it is no release of Debian's.
fn swapped(suite: &str, to: &str) -> Option<String> {
    let (name, rest) = suite.split_at(suite.find(['-', '/']).unwrap_or(suite.len()));
    // Before bookworm the one for security was called `bullseye/updates`, and backports have other
    // kernels.
    (SUITES.contains(&name) && !rest.contains("backports") && !rest.contains("proposed")).then(|| format!("{to}{rest}"))
}

/// Options by which a source asks apt to believe it unsigned, or signed badly (sources.list(5)).
const UNSIGNED: &[&str] = &["trusted", "allow-insecure", "allow-weak", "allow-downgrade-to-insecure"];

/// True if this option of a source switches off what makes a package Debian's.
fn is_unsigned(key: &str, value: &str) -> bool {
    let off = ["no", "false", "without", "off", "disable", "0"];
    UNSIGNED.contains(&key.trim().to_ascii_lowercase().as_str())
        && !off.contains(&value.trim().to_ascii_lowercase().as_str())
}

/// The parts of a file of `deb822` sources (sources.list(5)) that name Debian's suites, with the
/// suite swapped. Pure.
pub fn deb822(text: &str, suite: &str) -> String {
    let mut out = String::new();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for stanza in lines.split(|line| line.trim().is_empty()) {
        let value = |key: &str| {
            let line = stanza.iter().find(|line| line.to_ascii_lowercase().starts_with(&format!("{key}:")))?;
            Some(line.split_once(':')?.1.trim())
        };
        let off = value("enabled").is_some_and(|value| value.eq_ignore_ascii_case("no"));
        let suites: Vec<String> =
            value("suites").unwrap_or_default().split_whitespace().filter_map(|name| swapped(name, suite)).collect();
        let unsigned =
            stanza.iter().filter_map(|line| line.split_once(':')).any(|(key, value)| is_unsigned(key, value));
        if off
            || unsigned
            || suites.is_empty()
            || !value("types").is_some_and(|types| types.split(' ').any(|kind| kind == "deb"))
        {
            continue;
        }
        // Lines that begin with a blank go on with the one before them.
        let mut dropped = false;
        for line in stanza {
            let key = line.split(':').next().unwrap_or_default().to_ascii_lowercase();
            let goes_on = line.starts_with([' ', '\t']);
            dropped = if goes_on { dropped } else { ["types", "suites", "components"].contains(&key.as_str()) };
            if !dropped {
                out += &format!("{line}\n");
            }
        }
        out += &format!("Types: deb\nSuites: {}\nComponents: main\n\n", suites.join(" "));
    }
    out
}

/// The same for a file of one line each. Pure.
pub fn one_line(text: &str, suite: &str) -> String {
    let line = |line: &str| {
        let rest = line.trim().strip_prefix("deb ")?.trim_start();
        let (options, rest) = match rest.strip_prefix('[') {
            Some(inside) => inside.split_once(']').map(|(options, rest)| (format!("[{options}] "), rest))?,
            None => (String::new(), rest),
        };
        let mut each = options.trim_matches(['[', ']', ' ']).split_whitespace().filter_map(|one| one.split_once('='));
        if each.any(|(key, value)| is_unsigned(key.trim_end_matches(['+', '-']), value)) {
            return None;
        }
        let mut words = rest.split_whitespace();
        let (uri, name) = (words.next()?, swapped(words.next()?, suite)?);
        Some(format!("deb {options}{uri} {name} main\n"))
    };
    text.lines().filter_map(line).collect()
}

/// What Debian's archives say of themselves.
pub(super) const ORIGIN: &str = "Debian";

/// What a release file says that it comes from. Pure.
pub fn origin(release: &str) -> Option<&str> {
    release.lines().find_map(|line| line.strip_prefix("Origin:")).map(str::trim)
}

/// Removes the lists of packages of archives that are not Debian's from apt's folder of them, so
/// that apt does not know their packages. Returns what those archives call themselves, and whether
/// one of Debian's is left.
///
/// # Errors
/// If the folder cannot be read.
pub fn keep_debians(lists: &Path) -> io::Result<(Vec<String>, bool)> {
    let entries = fs::read_dir(lists)?.collect::<io::Result<Vec<_>>>()?;
    let names: Vec<String> = entries.iter().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let (mut others, mut any) = (Vec::new(), false);
    let mut debians = Vec::new();
    for name in &names {
        let Some(archive) = name.strip_suffix("InRelease").or_else(|| name.strip_suffix("Release")) else { continue };
        let text = String::from_utf8_lossy(&fs::read(lists.join(name))?).into_owned();
        match origin(&text) {
            Some(ORIGIN) => {
                any = true;
                debians.push(archive);
            }
            other => others.push(other.unwrap_or("no origin").to_owned()),
        }
    }
    // Also a list that no release file vouches for goes.
    for name in names.iter().filter(|name| !debians.iter().any(|archive| name.starts_with(archive))) {
        let path = lists.join(name);
        if path.is_file() {
            fs::remove_file(&path)?;
        }
    }
    Ok((others, any))
}

/// The user that apt's downloads run as where apt runs as root.
const USER: &str = "_apt";
/// Where apt works if that user may not enter the cache; and what the folder there is called.
const ELSEWHERE: &str = "/var/tmp";
const PREFIX: &str = "tardy-fetch";

/// The user id of apt's own user, if this process is root and there is such a user.
fn other_user() -> Option<u32> {
    if fs::metadata("/proc/self").ok()?.uid() != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find(|line| line.split(':').next() == Some(USER))?.split(':').nth(2)?.parse().ok()
}

/// True if every user may go through this folder and all above it.
fn is_open(folder: &Path) -> bool {
    folder.ancestors().all(|folder| fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & 0o001 != 0))
}

/// A folder for apt: below `work`, or, where apt's downloads run as a user that may not go there,
/// a new one of a name that nobody can foresee.
fn place(work: &Path, user: Option<u32>) -> io::Result<PathBuf> {
    fs::create_dir_all(work)?;
    let mut builder = DirBuilder::new();
    let own = work.canonicalize()?.join("apt");
    if user.is_none() || is_open(work) {
        builder.create(&own)?;
        return Ok(own);
    }
    cached::sweep(Path::new(ELSEWHERE), &[PREFIX]);
    let mut random = [0; 8];
    fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let random = u64::from_ne_bytes(random);
    let other = Path::new(ELSEWHERE).join(format!("{PREFIX}-{random:016x}-{}", std::process::id()));
    builder.mode(0o711).create(&other)?;
    Ok(other)
}

/// The folders that apt is to use instead of the machine's.
pub(super) struct Apt {
    root: PathBuf,
    suite: &'static str,
    user: Option<u32>,
}

impl Drop for Apt {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// A package that was brought.
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) sha256: String,
    pub(super) path: PathBuf,
}

impl Package {
    /// Unpacks it into a folder; nothing is installed.
    pub(super) fn unpack(&self, into: &Path) -> Result<(), FetchError> {
        let doing = format!("unpacking {}", self.name);
        said(&doing, Tool::new("dpkg-deb").args(["-x"]).path(&self.path).path(into)).map(|_| ())
    }
}

/// The same sources, with those of source packages too. Pure.
pub fn and_sources(text: &str) -> String {
    let line = |line: &str| match (line, line.strip_prefix("deb ")) {
        ("Types: deb", _) => "Types: deb deb-src\n".to_owned(),
        (_, Some(rest)) => format!("{line}\ndeb-src {rest}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

impl Apt {
    /// Makes the folders in `work`, with the sources in them, and reads the lists of packages.
    pub(super) fn set_up(work: &Path, suite: &'static str) -> Result<Apt, FetchError> {
        Apt::made(work, suite, str::to_owned)
    }

    /// The same with the lists of source packages.
    pub(super) fn with_sources(work: &Path, suite: &'static str) -> Result<Apt, FetchError> {
        Apt::made(work, suite, and_sources)
    }

    fn made(work: &Path, suite: &'static str, change: fn(&str) -> String) -> Result<Apt, FetchError> {
        let user = other_user();
        let root = place(work, user).map_err(file("create a folder for apt in", work))?;
        let apt = Apt { root, suite, user };
        let parts = apt.root.join("parts");
        for folder in ["parts", "lists/partial", "cache/archives/partial", "deb"] {
            let folder = apt.root.join(folder);
            fs::create_dir_all(&folder).map_err(file("create", &folder))?;
        }
        let mut any = false;
        let mut put = |name: &str, text: String| {
            any |= !text.is_empty();
            let path = parts.join(name);
            fs::write(&path, change(&text)).map_err(|source| file("write", &path)(source))
        };
        put("own.list", one_line(&fs::read_to_string("/etc/apt/sources.list").unwrap_or_default(), suite))?;
        for entry in fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let (Some(name), Ok(text)) = (name.to_str(), fs::read_to_string(&path)) else { continue };
            match path.extension().and_then(|end| end.to_str()) {
                Some("sources") => put(name, deb822(&text, suite))?,
                Some("list") => put(name, one_line(&text, suite))?,
                _ => {}
            }
        }
        if !any {
            return Err(FetchError::NoSources);
        }
        apt.call("reading the list of packages", "apt-get", &["update"])?;
        let lists = apt.root.join("lists");
        match keep_debians(&lists).map_err(file("read", &lists))? {
            (_, true) => Ok(apt),
            (found, false) => Err(FetchError::NotDebian { suite, found }),
        }
    }

    /// What the archive says of a package: of the newest, or of this version.
    pub(super) fn show(&self, package: &str, version: Option<&str>) -> Result<String, FetchError> {
        let named = version.map_or(package.to_owned(), |version| format!("{package}={version}"));
        let doing = format!("looking for {named}");
        // It fails where there is none of the name, and prints nothing where there is none of the
        // version.
        match self.call(&doing, "apt-cache", &["show", "--no-all-versions", &named]) {
            Ok(shown) if field(&shown, "Version").is_some() => Ok(shown),
            Err(error) if !error.to_string().contains("No packages found") => Err(error),
            _ => Err(FetchError::NoPackage { package: named, suite: self.suite }),
        }
    }

    /// Brings the package that is shown, and checks its sum.
    pub(super) fn download(&self, shown: &str) -> Result<Package, FetchError> {
        let [name, version, sha256] = ["Package", "Version", "SHA256"].map(|key| field(shown, key).unwrap_or_default());
        let path = self.bring(name, "deb", &["download", &format!("{name}={version}")])?;
        let got = sha256::of(&fs::read(&path).map_err(file("read", &path))?);
        if got != sha256 {
            let says = format!("its SHA-256 is {got}, and the archive's list says {sha256}");
            return Err(FetchError::Program { doing: format!("checking {name}"), program: "apt-get".to_owned(), says });
        }
        Ok(Package { name: name.to_owned(), version: version.to_owned(), sha256: got, path })
    }

    /// Brings the newest source package of that name: its path is that of its description, next to
    /// which its files are, whose sums apt has checked.
    pub(super) fn source(&self, name: &str) -> Result<Package, FetchError> {
        let path = self.bring(name, "dsc", &["source", "--download-only", "--only-source", name])?;
        let bytes = fs::read(&path).map_err(file("read", &path))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let version = field(&text, "Version").unwrap_or_default().to_owned();
        Ok(Package { name: name.to_owned(), version, sha256: sha256::of(&bytes), path })
    }

    /// Has apt bring files into a folder: the one that ends so.
    fn bring(&self, name: &str, end: &str, args: &[&str]) -> Result<PathBuf, FetchError> {
        let folder = self.root.join("deb").join(name);
        fs::create_dir_all(&folder).map_err(file("create", &folder))?;
        // apt itself hands over the other folders that its downloads write to.
        self.user.map_or(Ok(()), |user| chown(&folder, Some(user), None)).map_err(file("give apt's user", &folder))?;
        self.call_in(&folder, &format!("fetching {name}"), "apt-get", args)?;
        let mut entries = fs::read_dir(&folder).map_err(file("list", &folder))?.flatten().map(|entry| entry.path());
        let none = || FetchError::NoPackage { package: name.to_owned(), suite: self.suite };
        entries.find(|path| path.extension().is_some_and(|of| of == end)).ok_or_else(none)
    }

    /// What the program printed.
    fn call(&self, doing: &str, program: &str, args: &[&str]) -> Result<String, FetchError> {
        self.call_in(&self.root, doing, program, args)
    }

    fn call_in(&self, folder: &Path, doing: &str, program: &str, args: &[&str]) -> Result<String, FetchError> {
        let at = |folder: &str| self.root.join(folder).display().to_string();
        let mut options = vec![
            "Dir::Etc::sourcelist=/dev/null".to_owned(),
            format!("Dir::Etc::sourceparts={}", at("parts")),
            format!("Dir::State::Lists={}", at("lists")),
            format!("Dir::Cache={}", at("cache")),
            "Acquire::Languages=none".to_owned(),
        ];
        // Whatever the machine's configuration allows: what is unsigned does not come in.
        for key in ["APT::Get::AllowUnauthenticated", "Acquire::AllowInsecureRepositories"]
            .iter()
            .chain(&["Acquire::AllowWeakRepositories", "Acquire::AllowDowngradeToInsecureRepositories"])
        {
            options.push(format!("{key}=false"));
        }
        let options = options.iter().flat_map(|option| ["-o", option]);
        said(doing, Tool::new(program).args(["-q"]).args(options).args(args).within(folder))
    }
}

pub(super) fn said(doing: &str, tool: Tool) -> Result<String, FetchError> {
    let program = tool.program();
    tool.run_with_its_children().map_err(|says| FetchError::Program { doing: doing.to_owned(), program, says })
}

/// The value of a field in what `apt-cache show` prints first.
pub(super) fn field<'a>(shown: &'a str, name: &str) -> Option<&'a str> {
    shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}
