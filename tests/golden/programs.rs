// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that tardy starts: what the one place that starts them reports, that agents are of the
//! coordinator's build whatever has taken the program's name since, and where tardy looks for
//! programs as root. Scripts that tardy prints or keeps: nothing that somebody else wrote becomes a
//! line that a shell runs. And what a file may have done as root: nothing without the caller's
//! word.

use crate::help::tardy;
use std::collections::BTreeSet;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Output};
use tardy_engine::message;
use tardy_lab::agent::{Agent, AgentError};
use tardy_lab::command::{Batch, Command};
use tardy_lab::consent::{self, Allowed, Need};
use tardy_lab::guest::expected::Expected;
use tardy_lab::guest::frame::FrameKind;
use tardy_lab::guest::kernel;
use tardy_lab::guest::relay;
use tardy_lab::host::child;
use tardy_lab::host::runner::{CommandError, Failure, Processes, Runner, failures};
use tardy_lab::identity;
use tardy_lab::machine::FactsByHost;
use tardy_lab::names::Names;
use tardy_lab::plan::{Script, plan};
use tardy_lab::run::{Event, Sink, What};
use tardy_lab::station::Stations;
use tardy_model::sample::Batch as Samples;
use tardy_model::time::Nanos;
use tardy_model::trial::TrialRecord;
use tardy_spec::experiment::Experiment;
use tardy_spec::{Source, load};
use tardy_sys::process;

#[test]
fn the_real_runner_tells_what_ran_what_failed_and_what_is_missing() {
    let mut log = Vec::new();
    let mut runner = Processes::new(|ran| log.push((ran.commands[0].to_string(), ran.failures.len())));
    let missing =
        runner.run(&Batch::one(Command::new("tardy-no-such-program", &[]))).expect_err("nothing is called so");
    let told = "program `tardy-no-such-program` is not installed: apt install tardy-no-such-program";
    assert_eq!(missing.to_string(), told);
    let output = runner.run(&Batch::one(Command::new("sh", &["-c", "echo out; echo err >&2; exit 3"]))).unwrap();
    assert_eq!(output.stdout, "out\n");
    assert_eq!(output.failures, [Failure { at: Some(0), says: "err".to_owned() }]);
    let output = runner.run(&Batch::one(Command::new("sh", &["-c", "kill -KILL $$"]))).unwrap();
    assert!(output.failures[0].says.contains("signal: 9"), "{}", output.failures[0].says);
    drop(runner);
    assert_eq!(
        log,
        [("sh -c 'echo out; echo err >&2; exit 3'".to_owned(), 1), ("sh -c 'kill -KILL $$'".to_owned(), 1)]
    );
}

#[test]
fn a_command_that_hangs_is_ended_and_named() {
    let mut told = Vec::new();
    let mut runner =
        Processes::new(|ran| told.push(ran.failures.to_vec())).within(std::time::Duration::from_millis(300));
    // What it has started has its output open, too.
    let hangs = Command::new("sh", &["-c", "echo $$; sleep 600 & sleep 600"]);
    let error = runner.run(&Batch::one(hangs.clone())).expect_err("it never ends");
    assert!(matches!(error, CommandError::TimedOut { .. }), "{error}");
    assert!(error.to_string().contains(&format!("`{hangs}` did not end within")), "{error}");
    drop(runner);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0][0].at, None, "it may have done what it was to do");
}

#[test]
fn a_pipe_that_stays_open_keeps_nobody_waiting() {
    let mut runner = Processes::new(|_| ()).within(std::time::Duration::from_secs(2));
    let leaves = Command::new("sh", &["-c", "sleep 30 >&2 & exit 0"]);
    assert_eq!(runner.run(&Batch::one(leaves)).expect("it has ended").failures, []);
}

#[test]
fn complaints_of_a_batch_are_told_apart_by_line() {
    let failure = |at, says: &str| Failure { at, says: says.to_owned() };
    let code = |code: i32| ExitStatus::from_raw(code << 8);
    let killed = ExitStatus::from_raw(9);
    let stderr = "Cannot find device \"x\"\nCommand failed -:2\nError: one.\nand two\nCommand failed -:5\n";
    let both = [failure(Some(1), "Cannot find device \"x\""), failure(Some(4), "Error: one.; and two")];
    assert_eq!(failures(stderr, code(1), false), both);
    let early = "Cannot open network namespace \"x\": No such file or directory\n";
    assert_eq!(
        failures(early, code(255), true),
        [failure(Some(0), early.trim_end())],
        "a lone command is the one that failed"
    );
    // It is not known at which line it ended, so no line is named.
    assert_eq!(failures(early, code(255), false), [failure(None, early.trim_end())]);
    let [one, other] = both;
    let more = failures(&format!("{stderr}Error: argument \"q\" is wrong\n"), code(255), false);
    assert_eq!(more, [one.clone(), other.clone(), failure(None, "Error: argument \"q\" is wrong")]);
    assert_eq!(failures(stderr, killed, false), [one, other, failure(None, "signal: 9 (SIGKILL)")]);
    for is_lone in [false, true] {
        assert_eq!(failures("", killed, is_lone), [failure(None, "signal: 9 (SIGKILL)")]);
    }
}

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

#[test]
fn a_socket_that_waits_for_whoever_comes_is_listed_and_one_that_is_connected_is_not() {
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::AsRawFd;
    let inode = |socket: &dyn AsRawFd| {
        let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).expect("an open descriptor");
        let text = link.to_string_lossy().into_owned();
        text.trim_start_matches("socket:[").trim_end_matches(']').parse::<u64>().expect("a socket's")
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let client = std::net::TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
    let bound = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let connected = UdpSocket::bind("127.0.0.1:0").expect("bound");
    connected.connect(bound.local_addr().expect("its address")).expect("connected");
    let listed = tardy_sys::proc::listening_sockets();
    let is_listed = |socket: &dyn AsRawFd| listed.contains(&inode(socket));
    assert!(is_listed(&listener) && is_listed(&bound), "both wait for whoever comes");
    assert!(!is_listed(&client) && !is_listed(&connected), "these have their peers");
    let was = inode(&listener);
    drop(listener);
    assert!(!tardy_sys::proc::listening_sockets().contains(&was), "nobody listens any more");
}

const HEAD: &str = tardy_tests::part("short stream from a to b");

fn experiment(more: &str) -> Experiment {
    let source = Source { name: "x.toml".into(), text: format!("{HEAD}{more}") };
    load(&source, &[]).unwrap_or_else(|error| panic!("{}", error.one_line()))
}

fn call(verb: &str, more: &str, args: &[&str]) -> Output {
    let keep = tempfile::tempdir().expect("a folder");
    let file = keep.path().join("evil.toml");
    fs::write(&file, format!("{HEAD}{more}")).expect("a file");
    std::process::Command::new(tardy())
        .current_dir(keep.path())
        .arg(verb)
        .arg(&file)
        .args(args)
        .output()
        .expect("tardy starts")
}

fn lines_of_a_shell(script: &str) -> Vec<&str> {
    script.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect()
}

#[test]
fn no_word_of_a_file_becomes_a_command_of_its_plan() {
    let evil = tardy_tests::experiment("words for a shell");
    let output = call("plan", evil, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let script = String::from_utf8(output.stdout).expect("text");
    assert!(script.contains("# load `x` runs this program as root, at station `b`: sh -c"), "{script}");
    let planned =
        plan(&experiment(evil).cells[0].setup, Names::FIRST, &FactsByHost::default()).expect("it can be planned");
    let undoes: Vec<_> = planned.undo().collect();
    let asks = planned.read_back.iter().map(|question| &question.command);
    let does = planned.steps.iter().flat_map(|step| &step.does).chain(asks).chain(&undoes);
    let mut commands: BTreeSet<String> = does.map(ToString::to_string).collect();
    commands.extend([
        "set -e".to_owned(),
        "printf 'built; Enter puts everything back: '; { read _ </dev/tty; } 2>/dev/null || :".to_owned(),
    ]);
    let lines = lines_of_a_shell(&script);
    assert!(lines.len() > 20, "{script}");
    for line in lines {
        assert!(commands.contains(line), "{line}");
    }
    assert!(!script.contains('\u{202e}') && !script.contains('\u{2028}'), "it would turn the text round");
}

#[test]
fn a_comment_stays_one_line_whatever_it_holds() {
    let mut script = Script::new();
    for end in ["\n", "\r", "\r\n", "\u{b}", "\u{c}", "\u{85}", "\u{2028}", "\u{2029}", "\0"] {
        script.comment(&format!("before{end}echo INJECTED"));
    }
    let mut inner = Script::default();
    inner.command(&tardy_lab::command::Command::new("ip", &["link"]));
    script.quote(&inner);
    assert_eq!(lines_of_a_shell(script.text()), ["set -e"]);
    assert!(script.text().ends_with("# ip link\n"));
}

#[test]
fn a_control_character_in_a_word_of_a_command_is_refused() {
    for escape in ["\\n", "\\t", "\\u0000", "\\u001b", "\\u009b"] {
        let more = format!("[load.x]\nkind = \"command\"\nfrom = \"a\"\ncommand = [\"sh\", \"a{escape}b\"]\n");
        let source = Source { name: "x.toml".into(), text: format!("{HEAD}{more}") };
        let error = load(&source, &[]).expect_err("refused").one_line();
        assert!(error.contains("`load.x.command`: a word holds the control character U+00"), "{error}");
    }
}

#[test]
fn a_kernel_image_cannot_say_that_its_release_is_a_command() {
    let image = |release: &str| {
        let mut image = vec![0; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        image[0x300..0x300 + release.len()].copy_from_slice(release.as_bytes());
        image
    };
    assert_eq!(kernel::release(&image("6.12.9-amd64 (x)")), Some("6.12.9-amd64"));
    for evil in ["6.1\necho\tINJECTED", "6.1\u{1b}]0;", "../../etc", "6.1\u{2028}x"] {
        assert_eq!(kernel::release(&image(evil)), None, "{evil:?}");
    }
}

/// Notes how commands come.
#[derive(Default)]
struct Commands(Vec<(Vec<String>, bool)>);

impl Sink for Commands {
    fn event(&mut self, event: Event) {
        if let What::Commands { commands, elsewhere, .. } = event.what {
            self.0.push((commands, elsewhere));
        }
    }
    fn trial(&mut self, _: &TrialRecord, _: &[(String, Samples)]) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}

#[test]
fn what_a_guest_says_it_ran_is_nothing_for_this_machine() {
    let commands = vec!["rm -rf /".to_owned()];
    // Whatever it says of where.
    let said = Event::now(What::Commands { commands, took_ns: Nanos(1), failed: Vec::new(), elsewhere: false });
    let (mut any, mut ran) = (Expected::of(&experiment("")), Commands::default());
    relay::deliver(FrameKind::Event, &serde_json::to_vec(&said).expect("JSON"), &mut any, &mut ran)
        .expect("it is reported");
    assert_eq!(ran.0, [(vec!["rm -rf /".to_owned()], true)]);
}

#[test]
fn a_program_and_a_network_device_need_the_callers_word() {
    let wire = "[path]\nkind = \"wire\"\na = \"enp1s0\"\nb = \"enp2s0\"\n";
    let program = "[load.x]\nkind = \"command\"\nfrom = \"a\"\ncommand = [\"true\"]\n";
    let none = Allowed::default();
    let (commands, nics) = (Allowed { commands: true, ..none }, Allowed { nics: true, ..none });
    let flag = |more: &str, allowed: Allowed| {
        consent::check(&experiment(more), allowed).err().map(|error| (error.need.flag(), error.to_string()))
    };
    assert_eq!(flag("", none), None);
    let (needed, says) = flag(program, none).expect("it needs a word");
    assert_eq!(needed, "--allow-commands");
    assert!(says.contains("load `x`") && says.contains("at station `a`: true"), "{says}");
    assert_eq!(flag(program, commands), None);
    assert!(flag(program, nics).is_some());
    let (needed, says) = flag(wire, none).expect("it needs a word");
    assert_eq!(needed, "--allow-nics");
    assert!(says.contains("`enp1s0` and `enp2s0`"), "{says}");
    assert!(flag(wire, nics).is_none() && flag(wire, commands).is_some());
    // Of no instance nothing runs, and what a case or an axis brings is found too.
    assert_eq!(flag(&format!("{program}count = 0\n"), none), None);
    let hidden = format!("{program}count = 0\n[matrix]\n\"load.x.count\" = [0, 1]\n");
    assert!(matches!(&consent::needs(&experiment(&hidden))[..], [Need::Program { .. }]));
}

#[test]
fn a_file_that_would_run_a_program_ends_with_2_and_names_it() {
    let program = "[load.x]\nkind = \"command\"\nfrom = \"a\"\ncommand = [\"touch\", \"ran\"]\n";
    let output = call("run", program, &["--out", "out"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("load `x` runs this program as root") && stderr.contains("--allow-commands"), "{stderr}");
    assert!(stderr.contains("touch ran"), "{stderr}");
}
