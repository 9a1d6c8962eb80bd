// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the chapters on CI and on bisecting have a reader paste. The jobs run in the shell with a
//! `tardy` that only has an exit code. The script for `git bisect` runs in a repository with a
//! history of its own, where `make` builds nothing and `tardy` measures what is written in the
//! commit.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Every exit code of the contract.
const CODES: [i32; 7] = [0, 1, 2, 3, 4, 5, 130];

/// The shell snippets of the chapter that run an experiment.
fn jobs() -> Vec<String> {
    snippets("ci.md").into_iter().filter(|code| code.contains("tardy run")).collect()
}

/// Those of them that measure a run by itself, and those that compare two.
fn kinds() -> [Vec<String>; 2] {
    let (two, one) = jobs().into_iter().partition(|job| job.contains("tardy compare"));
    [one, two]
}

/// All shell snippets of a chapter.
pub fn snippets(chapter: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new("../docs/how-to").join(chapter)).expect("the chapter");
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```"));
    blocks.map(|(code, _)| code.to_owned()).collect()
}

/// A program of this name that does what the shell makes of a script.
pub fn program(folder: &Path, name: &str, script: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
}

/// How a job ends and how often it ran the experiment, if `tardy` ends with these codes, the last
/// one again and again. CI systems run a job's script with `-e` and without.
fn job(snippet: &str, codes: &[i32], strict: bool) -> (i32, usize) {
    let keep = tempfile::tempdir().expect("a folder");
    let folder = keep.path();
    program(folder, "sudo", "exec \"$@\"");
    // The artifact that a job begins with, and the one that it leaves.
    program(folder, "tar", "exit 0");
    let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
    let script = format!(
        "echo $1 >> calls\nset -- {}\nn=$(wc -l < calls)\n[ $n -le $# ] || n=$#\nshift $((n - 1))\nexit $1",
        codes.join(" ")
    );
    program(folder, "tardy", &script);
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    if strict {
        shell.arg("-e");
    }
    let ended = shell.args(["-c", snippet]).current_dir(folder).env("PATH", path).output().expect("a shell");
    let calls = fs::read_to_string(folder.join("calls")).map_or(0, |calls| calls.lines().count());
    (ended.status.code().expect("no signal"), calls)
}

#[test]
fn no_job_of_the_chapter_on_ci_succeeds_without_an_answer() {
    let [jobs, _] = kinds();
    assert_eq!(jobs.len(), 2, "one that runs once, one that runs again");
    for (snippet, strict) in jobs.iter().flat_map(|job| [(job, false), (job, true)]) {
        for code in CODES {
            let (ended, calls) = job(snippet, &[code], strict);
            assert_eq!(ended, code, "{snippet}");
            let most = if code == 4 && snippet.contains("for try") { 3 } else { 1 };
            assert_eq!(calls, most, "code {code}: {snippet}");
        }
    }
}

#[test]
fn a_broken_expectation_is_not_run_again_until_it_is_met() {
    let again = jobs().into_iter().find(|job| job.contains("for try")).expect("a job that runs again");
    assert_eq!(job(&again, &[1, 0], true), (1, 1));
    assert_eq!(job(&again, &[4, 1, 0], true), (1, 2), "the second try has an answer");
    assert_eq!(job(&again, &[4, 0], true), (0, 2));
    assert_eq!(job(&again, &[4, 4, 4, 0], true), (4, 3));
}

#[test]
fn a_job_that_compares_ends_with_the_first_code_that_is_no_success() {
    let [_, jobs] = kinds();
    let runs = |job: &String| job.matches("tardy run").count();
    assert_eq!(jobs.iter().map(runs).collect::<Vec<_>>(), [2, 1], "with both runs made here, with a kept one");
    for (snippet, strict) in jobs.iter().flat_map(|job| [(job, false), (job, true)]) {
        for step in 0..=runs(snippet) {
            for code in CODES {
                let codes: Vec<i32> = std::iter::repeat_n(0, step).chain([code]).collect();
                let (ended, calls) = job(snippet, &codes, strict);
                assert_eq!(ended, code, "step {step}: {snippet}");
                let most = if code == 0 { runs(snippet) + 1 } else { step + 1 };
                assert_eq!(calls, most, "nothing is compared without two runs: step {step}, code {code}: {snippet}");
            }
        }
    }
}

/// The single commands of a snippet, without what the shell does around them.
fn commands(code: &str) -> Vec<String> {
    let (mut all, mut quote) = (vec![String::new()], None);
    for c in code.replace("\\\n", " ").chars() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '\n' | '&' | '|' | ';' | '(' | ')' | '`') => {
                all.push(String::new());
                continue;
            }
            _ => {}
        }
        all.last_mut().expect("one").push(c);
    }
    all.iter().map(|command| command.trim().trim_start_matches("sudo ").to_owned()).collect()
}

/// What the shell gives a program as its arguments.
fn words(command: &str, folder: &Path) -> Vec<String> {
    // Each variable of the chapter's script has its name for a value.
    let command = command.replace('$', "");
    let (_, arguments) = command.split_once(' ').expect("arguments");
    let script = format!("tell() {{ printf '%s\\n' \"$@\" > told; }}\ntell {arguments}");
    let told = Command::new("sh").args(["-c", &script]).current_dir(folder).output().expect("a shell");
    assert!(told.status.success(), "{command}: {}", String::from_utf8_lossy(&told.stderr));
    fs::read_to_string(folder.join("told")).expect("told").lines().map(str::to_owned).collect()
}

#[test]
fn flags_and_conditions_of_the_chapters_were_checked_by_a_stub_only() {
    let keep = tempfile::tempdir().expect("a folder");
    let folder = keep.path();
    let tardy = std::env::var_os("TARDY").map_or_else(|| "../dist/tardy".into(), PathBuf::from);
    let tardy = tardy.canonicalize().expect("make build");
    let says = |words: &[String]| Command::new(&tardy).args(words).current_dir(folder).output().expect("tardy runs");
    let (mut calls, mut conditions) = (0, 0);
    for chapter in ["ci.md", "bisect.md", "../tutorial.md", "../compare.md", "../guests.md", "../loads.md"] {
        let all = snippets(chapter);
        for command in all.iter().flat_map(|code| commands(code)) {
            let Some(command) = command.strip_prefix("dist/").or(Some(&command)).filter(|it| it.starts_with("tardy "))
            else {
                continue;
            };
            let words = words(command, folder);
            let help = says(&[words.as_slice(), &["--help".to_owned()]].concat());
            assert!(help.status.success(), "{chapter}: {command}: {}", String::from_utf8_lossy(&help.stderr));
            calls += 1;
            if words.iter().any(|word| word == "--fail-if") {
                // It reads its conditions before it looks for the runs.
                let error = String::from_utf8_lossy(&says(&words).stderr).into_owned();
                assert!(error.contains("there is no folder"), "{chapter}: {command}: {error}");
                conditions += 1;
            }
        }
    }
    assert!(calls >= 25 && conditions >= 4, "{calls} calls, {conditions} with conditions");
}

/// A repository `linux`, the folder `bisect` next to it, and the programs.
struct Place {
    dir: TempDir,
}

/// What a kernel's `make` is asked for.
const MAKE: &str = "[ ! -e unbuildable ] || exit 2
for word; do
  [ \"$word\" != bzImage ] || { mkdir -p arch/x86/boot && cp cost arch/x86/boot/bzImage; }
done";

/// A run is what the kernel costs, or a code that says why there is none; compared are the two
/// costs.
const TARDY: &str = "verb=$1
case $verb in
run)
  while [ $# -gt 0 ]; do
    case $1 in --kernel) kernel=$2 ;; --out) out=$2 ;; esac
    shift
  done
  code=$(cat ends.run 2>/dev/null || echo 0)
  [ \"$code\" -gt 1 ] || { mkdir \"$out\" && cp \"$kernel\" \"$out/cost\"; }
  exit \"$code\" ;;
compare)
  code=$(cat ends.compare 2>/dev/null)
  [ -z \"$code\" ] || exit \"$code\"
  [ \"$(cat \"$3/cost\")\" -le $(($(cat \"$2/cost\") + 50)) ] ;;
esac";

impl Place {
    fn new() -> Place {
        let place = Place { dir: TempDir::with_prefix("tardy-bisect-").expect("a folder") };
        for folder in ["linux", "bisect", "bin"] {
            fs::create_dir(place.path(folder)).expect("a folder");
        }
        program(&place.path("bin"), "make", MAKE);
        program(&place.path("bin"), "tardy", TARDY);
        let script = snippets("bisect.md").into_iter().find(|code| code.starts_with("#!/bin/sh")).expect("try.sh");
        place.write("bisect/try.sh", &script);
        place.write("bisect/config", "CONFIG_VETH=y\n");
        place.sh("git init -q . && printf '.config\\n/arch\\n/ends.*\\n' > .gitignore && git add .gitignore");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    /// Runs a piece of shell in the repository.
    fn call(&self, code: &str) -> Output {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args(["-c", code]).current_dir(self.path("linux")).env("PATH", path);
        // Nobody's own settings have a say.
        for (name, value) in
            [("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_SYSTEM", "/dev/null"), ("GIT_CEILING_DIRECTORIES", "/")]
        {
            shell.env(name, value);
        }
        for who in ["AUTHOR", "COMMITTER"] {
            shell.env(format!("GIT_{who}_NAME"), "nobody").env(format!("GIT_{who}_EMAIL"), "nobody@example.org");
        }
        shell.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").output().expect("a shell")
    }

    fn sh(&self, code: &str) -> String {
        let output = self.call(code);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{code}: {out}{err}");
        out.into_owned()
    }

    /// Commits a kernel whose packets cost so much.
    fn commit(&self, cost: u32, builds: bool) -> String {
        self.write("linux/cost", &cost.to_string());
        let extra = if builds { "rm -f unbuildable" } else { "touch unbuildable" };
        self.sh(&format!("{extra} && git add -A && git commit -q --allow-empty -m 'cost {cost}' && git rev-parse HEAD"))
            .trim()
            .to_owned()
    }

    /// What the script says of what is checked out.
    fn tried(&self) -> Option<i32> {
        self.call("sh ../bisect/try.sh \"$(realpath ../bisect)\"").status.code()
    }
}

#[test]
fn every_code_that_is_no_answer_leaves_a_commit_out() {
    let place = Place::new();
    place.commit(100, true);
    assert_eq!(place.tried(), Some(0), "the first one is the good one, compared with itself");
    assert!(place.path("bisect/good/cost").exists());
    let ends = |verb: &str, code: i32| {
        place.write(&format!("linux/ends.{verb}"), &code.to_string());
        let tried = place.tried();
        fs::remove_file(place.path(&format!("linux/ends.{verb}"))).expect("removed");
        tried
    };
    for (code, wanted) in [(0, 0), (1, 1), (2, 125), (3, 125), (4, 125), (5, 125), (130, 130)] {
        assert_eq!(ends("compare", code), Some(wanted), "compare ends with {code}");
        // An expectation that is broken is not what is looked for.
        let wanted = if code == 1 { 0 } else { wanted };
        assert_eq!(ends("run", code), Some(wanted), "run ends with {code}");
    }
    place.commit(200, true);
    assert_eq!(place.tried(), Some(1));
    place.commit(100, false);
    assert_eq!(place.tried(), Some(125), "a commit that cannot be built is skipped");
}

#[test]
fn git_finds_the_commit_by_the_chapters_commands() {
    let place = Place::new();
    place.commit(100, true);
    place.sh("git tag v6.12");
    let mut commits = Vec::new();
    // Twenty more; the twelfth makes each packet dearer, and some cannot be built.
    for n in 0..20u32 {
        let cost = 101 + n + if n >= 12 { 60 } else { 0 };
        commits.push(place.commit(cost, n != 5 && n != 9 && n != 14));
    }
    place.sh("git tag v6.13");
    let all = snippets("bisect.md");
    let [_, good, bad, bisection] = &all[..] else { panic!("four snippets: {all:?}") };
    assert!(place.sh(good).ends_with("code 0\n"));
    assert!(place.sh(bad).ends_with("code 1\n"));
    let said = place.sh(bisection);
    assert!(said.contains(&format!("{} is the first bad commit", commits[12])), "{said}");
    assert!(place.sh("git status --porcelain").is_empty(), "and leaves nothing in the tree");
    assert!(place.path("bisect/good/cost").exists());
}
