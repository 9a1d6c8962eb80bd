// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's own apt configuration with the suite swapped: the sources as it would read them, and a call that writes into folders
//! of ours alone. apt checks what it brings against the archive's signed index; the sum is compared once more here.

use super::kernel;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

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
        /// What was tried.
        doing: String,
        /// The program.
        program: String,
        /// Its words, or the system's.
        says: String,
    },
    /// The machine's apt is not set up for Debian.
    #[error(
        "none of the sources in /etc/apt names a suite of Debian: a kernel of Debian's cannot be fetched through them; give a file by --kernel"
    )]
    NoSources,
    /// The archive does not have it.
    #[error(
        "the archive's suite {suite} has no package {package}: take another kernel of `tardy guest list`, or give one by --kernel FILE"
    )]
    NoPackage {
        /// Which.
        package: String,
        /// Where.
        suite: &'static str,
    },
    /// A file.
    #[error("cannot {doing} {}: {source}; look at the rights and the room there, or name another folder by TARDY_CACHE", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

pub(super) fn file<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> FetchError + use<'a> {
    move |source| FetchError::File { doing, path: path.to_owned(), source }
}

/// A suite's name with the release swapped: `bookworm-security` becomes `trixie-security`. `None` if it is no release of Debian's.
fn swapped(suite: &str, to: &str) -> Option<String> {
    let (name, rest) = suite.split_at(suite.find(['-', '/']).unwrap_or(suite.len()));
    // Before bookworm the one for security was called `bullseye/updates`, and backports have other kernels.
    (SUITES.contains(&name) && !rest.contains("backports") && !rest.contains("proposed")).then(|| format!("{to}{rest}"))
}

/// The parts of a file of `deb822` sources (sources.list(5)) that name Debian's suites, with the suite swapped. Pure.
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
        if off || suites.is_empty() || !value("types").is_some_and(|types| types.split(' ').any(|kind| kind == "deb")) {
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
        let mut words = rest.split_whitespace();
        let (uri, name) = (words.next()?, swapped(words.next()?, suite)?);
        Some(format!("deb {options}{uri} {name} main\n"))
    };
    text.lines().filter_map(line).collect()
}

/// The folders that apt is to use instead of the machine's.
pub(super) struct Apt {
    root: PathBuf,
    suite: &'static str,
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
        said(&doing, Command::new("dpkg-deb").arg("-x").arg(&self.path).arg(into)).map(|_| ())
    }
}

impl Apt {
    /// Makes the folders, with the sources in them, and reads the lists of packages.
    pub(super) fn set_up(root: PathBuf, suite: &'static str) -> Result<Apt, FetchError> {
        let parts = root.join("parts");
        for folder in ["parts", "lists/partial", "cache/archives/partial", "deb"] {
            let folder = root.join(folder);
            fs::create_dir_all(&folder).map_err(file("create", &folder))?;
        }
        let mut any = false;
        let mut put = |name: &str, text: String| {
            any |= !text.is_empty();
            let path = parts.join(name);
            fs::write(&path, text).map_err(|source| file("write", &path)(source))
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
        let apt = Apt { root, suite };
        apt.call("reading the list of packages", "apt-get", &["update"])?;
        Ok(apt)
    }

    /// What the archive says of a package: of the newest, or of this version.
    pub(super) fn show(&self, package: &str, version: Option<&str>) -> Result<String, FetchError> {
        let named = version.map_or(package.to_owned(), |version| format!("{package}={version}"));
        let doing = format!("looking for {named}");
        // It fails where there is none of the name, and prints nothing where there is none of the version.
        match self.call(&doing, "apt-cache", &["show", "--no-all-versions", &named]) {
            Ok(shown) if field(&shown, "Version").is_some() => Ok(shown),
            Err(error) if !error.to_string().contains("No packages found") => Err(error),
            _ => Err(FetchError::NoPackage { package: named, suite: self.suite }),
        }
    }

    /// Brings the package that is shown, and checks its sum.
    pub(super) fn download(&self, shown: &str) -> Result<Package, FetchError> {
        let [name, version, sha256] = ["Package", "Version", "SHA256"].map(|key| field(shown, key).unwrap_or_default());
        let folder = self.root.join("deb").join(name);
        fs::create_dir_all(&folder).map_err(file("create", &folder))?;
        self.call_in(&folder, &format!("fetching {name}"), "apt-get", &["download", &format!("{name}={version}")])?;
        let mut entries = fs::read_dir(&folder).map_err(file("list", &folder))?.flatten().map(|entry| entry.path());
        let none = || FetchError::NoPackage { package: name.to_owned(), suite: self.suite };
        let path = entries.find(|path| path.extension().is_some_and(|end| end == "deb")).ok_or_else(none)?;
        let got = kernel::sha256(&fs::read(&path).map_err(file("read", &path))?);
        if got != sha256 {
            let says = format!("its SHA-256 is {got}, and the archive's list says {sha256}");
            return Err(FetchError::Program { doing: format!("checking {name}"), program: "apt-get".to_owned(), says });
        }
        Ok(Package { name: name.to_owned(), version: version.to_owned(), sha256: got, path })
    }

    /// What the program printed.
    fn call(&self, doing: &str, program: &str, args: &[&str]) -> Result<String, FetchError> {
        self.call_in(&self.root, doing, program, args)
    }

    fn call_in(&self, folder: &Path, doing: &str, program: &str, args: &[&str]) -> Result<String, FetchError> {
        let at = |folder: &str| self.root.join(folder).display().to_string();
        let mut command = Command::new(program);
        command.args(["-q", "-o", "Dir::Etc::sourcelist=/dev/null"]);
        command.args(["-o", &format!("Dir::Etc::sourceparts={}", at("parts"))]);
        command.args(["-o", &format!("Dir::State::Lists={}", at("lists"))]);
        command.args(["-o", &format!("Dir::Cache={}", at("cache"))]);
        // It writes into folders that its own user may not enter.
        command.args(["-o", "APT::Sandbox::User=root", "-o", "Acquire::Languages=none"]);
        said(doing, command.args(args).current_dir(folder))
    }
}

pub(super) fn said(doing: &str, command: &mut Command) -> Result<String, FetchError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |says: String| FetchError::Program { doing: doing.to_owned(), program: program.clone(), says };
    let output = command.env("LC_ALL", "C").output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let says = String::from_utf8_lossy(&output.stderr);
        return Err(failed(says.trim().lines().collect::<Vec<_>>().join(" / ")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The value of a field in what `apt-cache show` prints first.
pub(super) fn field<'a>(shown: &'a str, name: &str) -> Option<&'a str> {
    shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}
