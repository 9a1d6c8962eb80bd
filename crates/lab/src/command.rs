// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is done to the machine, as values: a command that a person can paste, and the batches in
//! which they are run. Nothing here runs anything.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The name of this program in a command; the runner starts the binary that it is part of.
pub const OURSELVES: &str = "tardy";

/// A program with its arguments. Displays as a line of POSIX shell.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Command {
    argv: Vec<String>,
}

impl Command {
    pub fn new(program: &str, args: &[&str]) -> Self {
        Command { argv: [program].iter().chain(args).map(|word| (*word).to_owned()).collect() }
    }

    /// `ip args…`, in the host's own namespace.
    pub fn ip(args: &[&str]) -> Self {
        Command::new("ip", args)
    }

    /// `ip -n netns args…`.
    pub fn ip_in(netns: &str, args: &[&str]) -> Self {
        Command::new("ip", &[&["-n", netns], args].concat())
    }

    /// `tardy hwtstamp DEV --netns netns… args…`: what a device stamps. No program of Debian 12
    /// can do it.
    pub fn hwtstamp(what: &str, device: &str, places: &[&str], args: &[&str]) -> Self {
        let places = places.iter().flat_map(|netns| ["--netns", netns]);
        let words: Vec<&str> =
            ["hwtstamp", what, device].into_iter().chain(places).chain(args.iter().copied()).collect();
        Command::new(OURSELVES, &words)
    }

    /// `tc -n netns args…`.
    pub fn tc_in(netns: &str, args: &[&str]) -> Self {
        Command::new("tc", &[&["-n", netns], args].concat())
    }

    /// The namespace that this command deletes.
    pub(crate) fn ends_namespace(&self) -> Option<&str> {
        match &self.argv[..] {
            [ip, netns, del, name] if ip == "ip" && netns == "netns" && del == "del" => Some(name),
            _ => None,
        }
    }

    /// True if it is a path's switch in user space: it moves the path's packets.
    pub(crate) fn is_switch(&self) -> bool {
        self.program() == OURSELVES && self.argv.get(1).is_some_and(|verb| verb == "switch")
    }

    /// True if `word` is among its arguments.
    pub(crate) fn names(&self, word: &str) -> bool {
        self.argv.iter().skip(1).any(|argument| argument == word)
    }

    pub fn program(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }

    /// The program and its arguments.
    pub fn argv(&self) -> &[String] {
        &self.argv
    }

    /// How many leading words (the program and its global options) are the same for every command
    /// that one process could read from its standard input; `None` if this command must have a
    /// process of its own.
    fn door(&self) -> Option<usize> {
        // Another program started by `ip netns exec` is not iproute2's to read.
        if !matches!(self.program(), "ip" | "tc") || self.names("exec") {
            return None;
        }
        let mut words = 1;
        while let Some(word) = self.argv.get(words).filter(|word| word.starts_with('-')) {
            words += if word == "-n" { 2 } else { 1 };
        }
        // iproute2 cuts a batch line at every `#` and knows no escapes: such a word goes by argv
        // only.
        let rest = self.argv.get(words..)?;
        (!rest.is_empty() && rest.iter().all(|word| is_plain(word))).then_some(words)
    }
}

/// True for words that neither a shell nor iproute2's batch reader would take apart.
fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:/@%+=,-".contains(&byte))
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, word) in self.argv.iter().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            // A first word with `=` would be an assignment.
            if is_plain(word) && !(i == 0 && word.contains('=')) {
                f.write_str(word)?;
            } else {
                write!(f, "'{}'", word.replace('\'', r"'\''"))?;
            }
        }
        Ok(())
    }
}

/// Commands that one process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    commands: Vec<Command>,
    keep_going: bool,
    is_asking: bool,
}

/// The process that runs a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub argv: Vec<String>,
    /// What it reads on standard input; `None` for nothing.
    pub stdin: Option<String>,
}

impl Batch {
    /// A batch of one.
    pub fn one(command: Command) -> Self {
        Batch { commands: vec![command], keep_going: false, is_asking: false }
    }

    /// Groups neighbours that one process can run, keeping the order: starting a process costs
    /// more than a command does.
    pub fn group(commands: impl IntoIterator<Item = Command>) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        for command in commands {
            match batches.last_mut() {
                Some(batch) if batch.takes(&command) => batch.commands.push(command),
                _ => batches.push(Batch::one(command)),
            }
        }
        batches
    }

    /// With `true`, a command that fails does not keep the ones after it from running.
    #[must_use]
    pub fn keep_going(self, keep_going: bool) -> Self {
        Batch { keep_going, ..self }
    }

    /// One whose output is wanted.
    #[must_use]
    pub fn asking(self) -> Self {
        Batch { is_asking: true, ..self }
    }

    /// True if its output is wanted.
    pub fn is_asking(&self) -> bool {
        self.is_asking
    }

    fn takes(&self, command: &Command) -> bool {
        let door = |command: &Command| command.door().map(|words| command.argv[..words].to_vec());
        self.commands.first().is_some_and(|first| door(first).is_some() && door(first) == door(command))
    }

    /// The commands, in order. Never empty.
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// The process: a lone command as it is, several as `… -batch -`.
    pub fn process(&self) -> Process {
        let (first, words) = match &self.commands[..] {
            [first, _, ..] => (first, first.door().unwrap_or(1)),
            [first] => return Process { argv: first.argv.clone(), stdin: None },
            [] => return Process { argv: Vec::new(), stdin: None },
        };
        let mut argv = first.argv[..words].to_vec();
        if self.keep_going {
            argv.push("-force".to_owned());
        }
        argv.extend(["-batch".to_owned(), "-".to_owned()]);
        let stdin = self.commands.iter().map(|command| command.argv[words..].join(" ") + "\n").collect();
        Process { argv, stdin: Some(stdin) }
    }
}
