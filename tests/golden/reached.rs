// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine that is reached over ssh: what OpenSSH's client is asked for, whatever its
//! configuration says, by which devices it goes, how long a process waits there that nobody notes,
//! and how much the machine may report.

use crate::analyze::fixture::record;
use crate::devices::found;
use crate::help::tardy;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write, pipe};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tardy_engine::message::{self, read_frame, write_frame};
use tardy_lab::command::Command as Run;
use tardy_lab::connection::{Carrier, Connection};
use tardy_lab::host::ask::{Ask, Observe};
use tardy_lab::host::distant::{Distant, Reach};
use tardy_lab::host::login::{First, Settings, with_lower};
use tardy_lab::host::{Host, HostId};
use tardy_lab::machine::Facts;
use tardy_lab::names::Names;
use tardy_lab::plan::plan;

#[test]
fn keepalives_of_a_configuration_went_over_the_wire_during_trials() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::write(path("two.toml"), tardy_tests::experiment("wire to another machine")).expect("a file");
    let said = path("said");
    fs::write(path("client"), format!("for word; do echo \"$word\"; done >'{}'; exit 255\n", said.display()))
        .expect("a file");
    let mut command = Command::new(tardy());
    command.arg("clocks").arg(path("two.toml")).args(["--allow-hosts", "--count", "1"]);
    let output = command.env("TARDY_SSH", format!("sh {}", path("client").display())).output().expect("tardy starts");
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let words = fs::read_to_string(said).expect("the client was called");
    let words: Vec<&str> = words.lines().collect();
    let end = words.iter().position(|word| *word == "--").unwrap_or_else(|| panic!("{words:?}"));
    let options = &words[..end];
    let is_set = |setting: &str| options.windows(2).any(|two| two == ["-o", setting]);
    // What would send by itself, ask somebody, or stay.
    for setting in ["ServerAliveInterval=0", "BatchMode=yes", "ControlMaster=no", "ClearAllForwardings=yes"] {
        assert!(is_set(setting), "{setting}: {words:?}");
    }
    assert_eq!(words[end + 1], "lab2");
    // OpenSSH's own client takes its first word for it.
    let test = "keepalives_of_a_configuration_went_over_the_wire_during_trials";
    fs::write(path("config"), "Host *\n  ServerAliveInterval 5\n  ServerAliveCountMax 3\n").expect("a file");
    let asked = Command::new("ssh").arg("-G").arg("-F").arg(path("config")).args(options).arg("lab2").output();
    let Ok(asked) = asked else { return tardy_tests::skip(test, "ssh is missing (apt install openssh-client)") };
    let asked = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(asked.lines().any(|line| line == "serveraliveinterval 0"), "{asked}");
}

/// A client whose `ssh -G` prints these lines and which refuses settings that are not among them,
/// as OpenSSH's does; else it does this with the last word, which is what is to run there.
fn client(folder: &Path, settings: &str, does: &str) -> String {
    let script = format!(
        "for word; do test \"$word\" = -G && {{ printf '{settings}'; exit 0; }}; done\n\
         for word; do case $word in ForkAfter*=*|StdinNull=*|RemoteCommand=*|SessionType=*)\n\
         printf '{settings}' | grep -qi \"^${{word%%=*}} \" || {{ echo \"Bad configuration option: ${{word%%=*}}\" >&2; exit 255; }};; esac\n\
         echo \"$word\" >>'{said}'; done\n{does}\n",
        said = folder.join("said").display()
    );
    let file = folder.join("client");
    fs::write(&file, script).expect("a file");
    format!("sh {}", file.display())
}

#[test]
fn settings_that_an_older_client_does_not_know_kept_tardy_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let undo = |settings: &str| {
        let client = client(folder.path(), settings, "echo 'it was called' >&2; exit 255");
        let _ = fs::remove_file(folder.path().join("said"));
        let output = Command::new(tardy()).args(["undo", "--host", "lab2"]).env("TARDY_SSH", client).output();
        let output = output.expect("tardy starts");
        let says = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{says}");
        assert!(says.contains("it was called"), "{settings}: {says}");
        fs::read_to_string(folder.path().join("said")).expect("the client was called")
    };
    let newer = ["RemoteCommand=none", "ForkAfterAuthentication=no", "StdinNull=no", "SessionType=default"];
    let said = undo("hostname lab2\\n");
    assert!(newer.iter().all(|setting| !said.contains(setting)), "{said}");
    // One that knows them is asked for each, whatever it is set to.
    let said =
        undo("hostname lab2\\nremotecommand top\\nforkafterauthentication yes\\nstdinnull no\\nsessiontype none\\n");
    assert!(newer.iter().all(|setting| said.lines().any(|line| line == *setting)), "{said}");
}

#[test]
fn a_program_that_could_not_run_there_had_no_hint_for_undo_and_doctor() {
    let folder = tempfile::tempdir().expect("a folder");
    // It is there already; a shell says 126 of a file that it may not run.
    let does = "for last; do :; done\ncase $last in *tardy-remote*code=*) echo 'sh: 1: /cache/tardy: Permission denied'; \
                echo tardy-remote code=126; exit 0;; esac\n\
                for of in machine=$(uname -m) release=$(uname -r) uid=0 by= between= user=root boot=b file=/cache/tardy there=yes; \
                do echo \"tardy-remote $of\"; done";
    let client = client(folder.path(), "hostname lab2\\n", does);
    for verb in ["undo", "doctor"] {
        let output = Command::new(tardy()).args([verb, "--host", "lab2"]).env("TARDY_SSH", &client).output();
        let output = output.expect("tardy starts");
        let says = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{verb}: {says}");
        assert!(
            says.contains("Permission denied") && says.contains("noexec") && says.contains("XDG_CACHE_HOME"),
            "{says}"
        );
    }
}

/// `tardy noted` that waits for a second at most, with what it says first.
fn waits(program: &[&str]) -> (Child, BufReader<impl Read>) {
    let mut command = Command::new(tardy());
    command.args(["noted", "--within", "1", "--"]).args(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut waiting = command.spawn().expect("tardy starts");
    let mut from = BufReader::new(waiting.stdout.take().expect("its stdout"));
    let here = read_frame(&mut from).expect("it says who it is");
    let says = String::from_utf8_lossy(&here).into_owned();
    assert_eq!(says, format!("{{\"pid\":{}}}", waiting.id()));
    (waiting, from)
}

#[test]
fn a_process_waited_for_ever_on_a_machine_that_was_lost_without_a_word() {
    // Its stdin stays open, and nothing comes.
    let (mut waiting, _from) = waits(&["cat"]);
    let input = waiting.stdin.take();
    let ended = waiting.wait_with_output().expect("it ends by itself");
    drop(input);
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("the run did not note this process within 1 s"), "{stderr}");
}

#[test]
fn a_process_that_was_noted_is_the_program_and_has_no_limit() {
    let (mut waiting, mut from) = waits(&["sh", "-c", "sleep 2; exec cat"]);
    let mut input = waiting.stdin.take().expect("its stdin");
    write_frame(&mut input, b"\"Noted\"").expect("it reads");
    input.write_all(b"for the program\n").expect("it reads");
    let mut line = String::new();
    from.read_line(&mut line).expect("it writes");
    assert_eq!(line, "for the program\n");
    drop(input);
    assert_eq!(waiting.wait().expect("it ends").code(), Some(0));
}

/// A machine over a network whose steward is a thread of the test.
struct Lying(Option<Connection>);

impl Reach for Lying {
    fn open(&mut self, _: &Run) -> std::io::Result<Connection> {
        Ok(self.0.take().expect("it is opened once"))
    }

    fn is_far(&self) -> bool {
        true
    }

    fn undone_by(&self) -> Option<String> {
        Some("tardy undo --host lab2 --sudo".to_owned())
    }
}

/// What the thread runs in: it ends with its orders, as a shell that cannot start its program does.
struct Ended(&'static str);

impl Carrier for Ended {
    fn pid(&self) -> Option<u32> {
        None
    }

    fn ended(&mut self, _: Duration) -> Option<String> {
        Some(self.0.to_owned())
    }

    fn kill(&mut self) {}

    fn last_words(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A host whose steward gives these answers, one to each order behind the first, until it has none.
fn met(answers: Vec<Value>, ends: &'static str) -> Distant<Lying> {
    let ((mut orders, to), (from, mut says)): ((PipeReader, PipeWriter), _) =
        (pipe().expect("a pipe"), pipe().expect("a pipe"));
    std::thread::spawn(move || {
        message::greet(&mut says, "0.1.0").expect("it is heard");
        message::hear(&mut orders, "0.1.0").expect("it greets");
        for answer in [json!("Done")].into_iter().chain(answers) {
            read_frame(&mut orders).expect("an order");
            let reply = json!({ "ran": [], "answer": answer });
            write_frame(&mut says, reply.to_string().as_bytes()).expect("it is heard");
        }
        // The order behind the last answer.
        let _ = read_frame(&mut orders);
    });
    let connection = Connection { from: Box::new(from), to: Box::new(to), carrier: Box::new(Ended(ends)) };
    Distant::meet(Lying(Some(connection)), "lab2", "0.1.0").expect("it greets")
}

#[test]
fn another_machine_s_answers_filled_a_manifest_that_nobody_could_read() {
    let described = |bytes: usize| {
        let entry = json!({ "parent": null, "machine": { "evil": "x".repeat(bytes) }, "programs": {} });
        met(vec![json!({ "Described": entry })], "").describe()
    };
    assert_eq!(described(1_000_000).expect("a machine with much to say").machine.len(), 1);
    let error = described(1 << 20).expect_err("too much").to_string();
    assert!(error.starts_with("lab2: it describes itself in 10") && error.contains("1048576 are the most"), "{error}");

    // What a set-up needs to know, and the state around a trial: both go into files and messages.
    let facts = |bytes: usize| {
        let facts = Facts { release: Some("z".repeat(bytes)), ..Facts::default() };
        let facts = json!({ "Facts": serde_json::to_value(facts).expect("JSON") });
        met(vec![facts], "").look(&Ask::default()).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(facts(1_000_000), Ok(()));
    let error = facts(1 << 20).expect_err("too much");
    assert!(
        error.contains("lab2: it reports of its devices in 10") && error.contains("1048576 are the most"),
        "{error}"
    );
    let observed = |bytes: usize| {
        let state = serde_json::to_value(record(1, 1).before).expect("JSON");
        let observed = json!({ "Observed": { "state": state, "napi": {}, "says": [{ "Err": "s".repeat(bytes) }] } });
        met(vec![observed], "").observe(&Observe::nothing()).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(observed(8_000_000), Ok(()));
    let error = observed(8 << 20).expect_err("too much");
    assert!(error.starts_with("lab2: it reports its state in 83") && error.contains("8388608 are the most"), "{error}");

    let read = |bytes: usize| json!({ "Read": [{ "command": "", "says": "y".repeat(bytes) }] });
    let ask = |host: &mut Distant<Lying>| host.read_back(&[Run::ip(&["link"])]).map(|read| read.len());
    let error = ask(&mut met(vec![read(20 << 20)], "")).expect_err("too much").to_string();
    assert!(error.starts_with("lab2: its kernel answers 20971522 bytes about a path"), "{error}");
    // And little by little.
    let mut patient = met((0..20).map(|_| read(1_000_000)).collect(), "");
    let answered = (0..20).map_while(|_| ask(&mut patient).ok()).count();
    assert_eq!(answered, 16);
    let error = ask(&mut patient).expect_err("too much").to_string();
    assert!(error.contains("16777216 are the most"), "{error}");
}

#[test]
fn a_fact_of_another_machine_was_a_line_of_its_own() {
    let facts = Facts { release: Some("6.1\u{1b}[31m\nlink add evil type dummy".to_owned()), ..Facts::default() };
    let facts = serde_json::to_value(facts).expect("JSON");
    let found = met(vec![json!({ "Facts": facts })], "").look(&Ask::default()).expect("facts");
    assert_eq!(found.release.as_deref(), Some("6.1 [31m link add evil type dummy"));
    assert!(found.is_far && found.goes_by_here.is_none(), "{found:?}");
}

#[test]
fn a_machine_that_was_lost_did_not_say_how_it_is_put_back_from_here() {
    let lost = |ends: &'static str| met(vec![], ends).claim().expect_err("it is gone").to_string();
    let says = lost("with signal: 9 (SIGKILL)");
    assert!(says.contains("within 5 min") && says.contains("`tardy undo --host lab2 --sudo` does"), "{says}");
    // A shell says so of a file that it may not run.
    let says = lost("with exit status: 126");
    assert!(says.contains("noexec") && says.contains("XDG_CACHE_HOME"), "{says}");
}

#[test]
fn the_device_by_which_ssh_goes_was_known_by_the_address_alone_that_the_other_end_sees() {
    let first = |text: &str| Settings::read(text).first();
    assert_eq!(first("hostname 198.51.100.2\nproxycommand none\n"), First::Host("198.51.100.2".to_owned()));
    let jump = First::Jump("ssh://ann@gate:2222".to_owned());
    assert_eq!(first("hostname lab2\nproxyjump ann@gate:2222,second\n"), jump);
    assert_eq!(first("hostname lab2\nproxycommand nc %h %p\n"), First::Unknown);
    assert_eq!(first(""), First::Unknown);
    let settings = Settings::read("sessiontype none\nhostname 127.0.0.1\n");
    assert!(settings.knows("SessionType") && settings.get("sessiontype").is_none() && !settings.knows("tunnel"));
    // A VLAN on a bond of two devices: the connection goes by all of them.
    let links = [("vlan7", "bond0"), ("bond0", "enp1s0"), ("bond0", "enp3s0"), ("br0", "tap0")];
    let links: Vec<(String, String)> = links.map(|(upper, lower)| (upper.to_owned(), lower.to_owned())).into();
    let below = with_lower(BTreeSet::from(["vlan7".to_owned()]), &links);
    assert_eq!(below.into_iter().collect::<Vec<_>>(), ["bond0", "enp1s0", "enp3s0", "vlan7"]);

    let source = tardy_tests::experiment("wire to another machine").to_owned();
    let source = tardy_spec::Source { name: "x.toml".into(), text: source };
    let setup = tardy_spec::load(&source, &[]).expect("it loads").cells[0].setup.clone();
    let host = setup.stations["b"].host;
    assert_ne!(host, HostId::HERE);
    let planned = |goes_by_here: Option<&[&str]>, has_addresses: bool| {
        let here = found(|nic| {
            if !has_addresses {
                nic.addresses.clear()
            }
        });
        let goes_by_here = goes_by_here.map(|all| all.iter().map(|of| (*of).to_owned()).collect());
        // Behind an address translation: it sees an address that no device here has.
        let reached = Some(["203.0.113.9", "198.51.100.2"].map(|of| of.parse().expect("an address")));
        let there = Facts { reached, goes_by_here, is_far: true, ..here.here().clone() };
        plan(&setup, Names::FIRST, &here.and(host, there)).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(planned(Some(&["enp9s0"]), true), Ok(()));
    let error = planned(Some(&["enp9s0", "enp1s0"]), true).expect_err("it would be cut");
    assert!(error.contains("ssh goes to `lab2` by network device enp1s0 of this machine"), "{error}");
    // Where that is not known, a device without addresses carries no connection.
    assert_eq!(planned(None, false), Ok(()));
    let error = planned(None, true).expect_err("it may be cut");
    assert!(error.contains("cannot be found out") && error.contains("enp1s0 has addresses"), "{error}");
}
