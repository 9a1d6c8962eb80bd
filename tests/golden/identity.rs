// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which build measures: agents are of the coordinator's, whatever has taken the program's name
//! since. And where programs are looked for as root.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tardy_engine::message;
use tardy_lab::agent::{Agent, AgentError};
use tardy_lab::command::Command;
use tardy_lab::host::child;
use tardy_lab::identity;
use tardy_lab::station::Stations;
use tardy_sys::process;

/// A program that greets as an agent of this version, and then listens until it is left.
fn agent_of(folder: &Path, version: &str) -> std::path::PathBuf {
    let mut greeting = Vec::new();
    message::greet(&mut greeting, version).expect("a greeting");
    let (bytes, program) = (folder.join("greeting"), folder.join("agent"));
    fs::write(&bytes, greeting).expect("written");
    fs::write(&program, format!("#!/bin/sh\ncat {}; exec cat >/dev/null\n", bytes.display())).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("made runnable");
    program
}

#[test]
fn two_builds_of_one_version_measured_one_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = "0.1.0 (build 0123)";
    for (theirs, is_other) in [("0.1.0 (build 4567)", true), ("0.1.0", true), (ours, false)] {
        let program = agent_of(folder.path(), theirs);
        let stations = Stations::default();
        let voice = stations.next_place("a").expect("there is room for one");
        let connection =
            child::start(&program, &Command::new("tardy", &["agent", "--netns", "tardy-0-a"])).expect("it starts");
        let mut agent = Agent::over(connection, "a", Some(voice), ours);
        match agent.greet(ours) {
            Err(error @ AgentError::OtherBuild { .. }) => {
                assert!(is_other, "{error}");
                let says = error.to_string();
                assert!(says.contains(theirs) && says.contains(ours) && says.contains("station `a`"), "{says}");
            }
            other => assert!(!is_other && other.is_ok(), "{theirs}: {other:?}"),
        }
    }
}

#[test]
fn a_build_is_told_by_the_hash_that_the_linker_wrote() {
    let program = fs::read(crate::help::tardy()).expect("the built binary");
    let id = identity::build_id(&program[..64 << 10]).expect("the product has one");
    assert!(id.len() >= 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    // Cut or damaged anywhere, it ends in an answer, and in none that is another build's.
    for end in (0..2048).chain([4096]) {
        assert!(identity::build_id(&program[..end]).is_none_or(|found| found == id));
    }
    for at in 0..1024 {
        for to in [0, 0xff] {
            let mut damaged = program[..4096].to_vec();
            damaged[at] = to;
            let _ = identity::build_id(&damaged);
        }
    }
    // This test is a program with a build of its own.
    assert!(identity::version().starts_with(concat!(env!("CARGO_PKG_VERSION"), " (build ")));
}

#[test]
fn as_root_a_program_was_started_out_of_a_folder_that_anybody_could_write_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let make = |name: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::create_dir(&path).expect("made");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
        path
    };
    let (open, shared, closed) = (make("open", 0o777), make("shared", 0o775), make("closed", 0o755));
    let inside = open.join("inside");
    fs::create_dir(&inside).expect("made");
    for never in [&open, &shared, &inside, &open.join("missing"), Path::new("bin"), Path::new("."), Path::new("/tmp")] {
        assert!(!process::only_root_writes(never), "{}", never.display());
    }
    assert!(process::only_root_writes(Path::new("/usr/bin")));
    // Where no such folder can be made but by root, nobody can put a program.
    assert!(process::only_root_writes(Path::new("/nonexistent/bin")));
    let path =
        std::env::join_paths([&open, Path::new(""), Path::new("bin"), Path::new("/usr/bin"), &inside]).expect("a PATH");
    assert_eq!(process::trusted(&path), "/usr/bin");
    assert_eq!(process::trusted(OsStr::new("bin:.:")), "/usr/sbin:/usr/bin:/sbin:/bin", "never the current folder");
    // A link's owner may turn it round behind the look: what it leads to is kept, not the link.
    std::os::unix::fs::symlink("/usr/bin", folder.path().join("link")).expect("made");
    assert_eq!(process::trusted(folder.path().join("link").as_os_str()), "/usr/bin");
    if tardy_sys::process::is_root() {
        assert!(process::only_root_writes(&closed), "root's own folder below /tmp, where others cannot rename it");
        std::os::unix::fs::chown(&closed, Some(65_534), None).expect("given away");
    }
    assert!(!process::only_root_writes(&closed), "somebody else's");
}
