// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scripts that tardy prints or keeps: nothing that somebody else wrote becomes a line that a
//! shell runs. And what a file may have done as root: nothing without the caller's word.

use crate::help::tardy;
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::process::{Command, Output};
use tardy_lab::consent::{self, Allowed, Need};
use tardy_lab::guest::expected::Expected;
use tardy_lab::guest::frame::FrameKind;
use tardy_lab::guest::kernel;
use tardy_lab::guest::relay;
use tardy_lab::machine::FactsByHost;
use tardy_lab::names::Names;
use tardy_lab::plan::{Script, plan};
use tardy_lab::run::{Event, Sink, What};
use tardy_model::sample::Batch;
use tardy_model::time::Nanos;
use tardy_model::trial::TrialRecord;
use tardy_spec::experiment::Experiment;
use tardy_spec::{Source, load};

const HEAD: &str = tardy_tests::part("short stream from a to b");

fn experiment(more: &str) -> Experiment {
    let source = Source { name: "x.toml".into(), text: format!("{HEAD}{more}") };
    load(&source, &[]).unwrap_or_else(|error| panic!("{}", error.one_line()))
}

fn call(verb: &str, more: &str, args: &[&str]) -> Output {
    let keep = tempfile::tempdir().expect("a folder");
    let file = keep.path().join("evil.toml");
    fs::write(&file, format!("{HEAD}{more}")).expect("a file");
    Command::new(tardy()).current_dir(keep.path()).arg(verb).arg(&file).args(args).output().expect("tardy starts")
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
    fn trial(&mut self, _: &TrialRecord, _: &[(String, Batch)]) -> Result<(), Box<dyn Error + Send + Sync>> {
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
