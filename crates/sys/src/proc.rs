// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel reports under `/proc` (proc(5)) of tasks, sockets and locks, and each file there
//! that several parts of the program ask for: it is read and parsed here, and only here. What else
//! describes the machine is read in `tardy_host`. A unit is in the name of what has one.
//!
//! A task is a process or a thread; [`Task`] says which one is meant. It may end at any moment, so
//! every reading of one may fail.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

/// One tick of `stat` (USER_HZ is 100 on every Linux that Rust runs on), ns.
pub const TICK_NS: i64 = 10_000_000;

/// Whose files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// The calling process as a whole.
    Own,
    /// A thread of this process.
    OwnThread(u32),
    Process(u32),
    Thread {
        pid: u32,
        tid: u32,
    },
}

impl From<u32> for Task {
    /// A number alone is a process's.
    fn from(pid: u32) -> Task {
        Task::Process(pid)
    }
}

impl Task {
    fn file(self, name: &str) -> String {
        match self {
            Task::Own => format!("/proc/self/{name}"),
            Task::OwnThread(tid) => format!("/proc/self/task/{tid}/{name}"),
            Task::Process(pid) => format!("/proc/{pid}/{name}"),
            Task::Thread { pid, tid } => format!("/proc/{pid}/task/{tid}/{name}"),
        }
    }

    /// What it is called (`comm`).
    ///
    /// # Errors
    /// If there is no such task, or its name is not UTF-8.
    pub fn name(self) -> io::Result<String> {
        Ok(fs::read_to_string(self.file("comm"))?.trim_end().to_owned())
    }

    /// How often it was moved to another CPU so far. `None` of one that has ended; and not every
    /// kernel is built to say it.
    pub fn migrations(self) -> Option<u64> {
        migrations(&fs::read_to_string(self.file("sched")).ok()?)
    }
}

/// The moves to another CPU in the text of `sched`.
pub fn migrations(sched: &str) -> Option<u64> {
    let line = sched.lines().find_map(|line| line.strip_prefix("se.nr_migrations"))?;
    line.trim_start_matches([' ', ':']).trim().parse().ok()
}

/// True if a process of this id exists.
pub fn exists(pid: u32) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap_or(false)
}

/// The processes that can be seen from here.
pub fn processes() -> Vec<u32> {
    numbers("/proc")
}

/// The threads of a process; none of one that has ended.
pub fn threads(pid: u32) -> Vec<u32> {
    numbers(&format!("/proc/{pid}/task"))
}

/// Processes with an open file of which `is_it` holds: it gets the link under the process's `fd`.
pub fn with_open_file(is_it: impl Fn(&Path) -> bool) -> Vec<u32> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let mut pids = processes();
    pids.retain(|pid| entries(Path::new(&Task::Process(*pid).file("fd"))).any(|entry| is_it(&entry.path())));
    pids
}

fn numbers(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A file that is there and does not read as proc(5) says.
fn unexpected(file: &str, text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{file} reads `{}`", text.trim_end()))
}

/// The line of `stat` (proc_pid_stat(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Field 2, `comm`: at most 15 bytes.
    pub name: String,
    /// Field 3: `R` runs, `S` sleeps, `Z` has ended and was not waited for.
    pub state: char,
    /// Time in user mode and in the kernel, fields 14 and 15, in clock ticks.
    pub ran_ticks: [u64; 2],
    /// When it started, field 22, in clock ticks since boot.
    pub started_ticks: u64,
    /// The CPU that it ran on last, field 39.
    pub cpu: u32,
    /// The scheduling policy, field 41: 0 for SCHED_OTHER (sched(7)).
    pub policy: u32,
}

/// Policies that come before all ordinary ones: SCHED_FIFO, SCHED_RR and SCHED_DEADLINE.
const BEFORE_ORDINARY: [u32; 3] = [1, 2, 6];

impl Stat {
    /// # Errors
    /// If there is no such task, or the line cannot be read.
    pub fn of(task: impl Into<Task>) -> io::Result<Stat> {
        let file = task.into().file("stat");
        let line = fs::read_to_string(&file)?;
        Stat::parse(&line).ok_or_else(|| unexpected(&file, &line))
    }

    /// True if it comes before every task of an ordinary policy.
    pub fn is_realtime(&self) -> bool {
        BEFORE_ORDINARY.contains(&self.policy)
    }

    /// How long it has run so far, in user mode and in the kernel.
    pub fn cpu_time(&self) -> Duration {
        let ticks = self.ran_ticks.iter().fold(0, |sum: u64, ticks| sum.saturating_add(*ticks));
        Duration::from_nanos(ticks.saturating_mul(TICK_NS.unsigned_abs()))
    }

    /// Reads a line; `None` if it is none. The name may hold blanks and brackets, so that fields
    /// are counted from the last bracket on.
    pub fn parse(line: &str) -> Option<Stat> {
        let (before, rest) = line.rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first of them is field 3.
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Stat {
            name: name.to_owned(),
            state: field(3)?.chars().next()?,
            ran_ticks: [field(14)?.parse().ok()?, field(15)?.parse().ok()?],
            started_ticks: field(22)?.parse().ok()?,
            cpu: field(39)?.parse().ok()?,
            policy: field(41)?.parse().ok()?,
        })
    }
}

/// The process that is the parent of the kernel's own threads, and of nobody else.
pub const KTHREADD: u32 = 2;

/// True if the kernel's own threads can be seen here; in a PID namespace of its own a process sees
/// none of them.
pub fn sees_kernel_threads() -> bool {
    Task::Process(KTHREADD).name().is_ok_and(|name| name == "kthreadd")
}

/// The lines of `status` (proc_pid_status(5)). Each is looked for when it is asked about, because
/// nobody needs more than a few of them. `None` is a line that the kernel does not write, or that
/// cannot be read; an empty one has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    text: String,
}

impl Status {
    /// # Errors
    /// If there is no such task.
    pub fn of(task: impl Into<Task>) -> io::Result<Status> {
        Ok(Status { text: fs::read_to_string(task.into().file("status"))? })
    }

    /// Of the file's text.
    pub fn parse(text: String) -> Status {
        Status { text }
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    /// The first of a line's words as a number.
    fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.value(name)?.split_whitespace().next()?.parse().ok()
    }

    /// The capabilities that are in force, a bit each (capabilities(7)).
    pub fn effective_capabilities(&self) -> Option<u64> {
        u64::from_str_radix(self.value("CapEff")?, 16).ok()
    }

    /// Who started it: its real user. The effective one is root's for a program that is set to be
    /// so.
    pub fn real_user(&self) -> Option<u32> {
        self.number("Uid")
    }

    /// Its parent process; that of the kernel's own threads is [`KTHREADD`].
    pub fn parent(&self) -> Option<u32> {
        self.number("PPid")
    }

    /// Memory that is locked.
    pub fn locked_kib(&self) -> Option<u64> {
        self.number("VmLck")
    }

    /// The CPUs that it may run on, as the kernel writes a list: `0-3,7`.
    pub fn allowed_cpus(&self) -> Option<&str> {
        self.value("Cpus_allowed_list")
    }

    /// How often it gave its CPU up by itself.
    pub fn voluntary_switches(&self) -> Option<u64> {
        self.number("voluntary_ctxt_switches")
    }

    /// How often its CPU was taken from it.
    pub fn involuntary_switches(&self) -> Option<u64> {
        self.number("nonvoluntary_ctxt_switches")
    }
}

/// The line of `schedstat`, which not every kernel is built to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedstat {
    /// How long it has run.
    pub run_ns: i64,
    /// How long it has waited on a run queue.
    pub wait_ns: i64,
}

impl Schedstat {
    /// # Errors
    /// If there is no such task, or the kernel writes no such line.
    pub fn of(task: impl Into<Task>) -> io::Result<Schedstat> {
        let file = task.into().file("schedstat");
        let line = fs::read_to_string(&file)?;
        Schedstat::parse(&line).ok_or_else(|| unexpected(&file, &line))
    }

    /// Reads a line; `None` if it is none.
    pub fn parse(line: &str) -> Option<Schedstat> {
        let mut fields = line.split_ascii_whitespace().map(|field| field.parse().ok());
        Some(Schedstat { run_ns: fields.next()??, wait_ns: fields.next()?? })
    }
}

/// Memory that programs can still have (`MemAvailable`); `None` if the kernel does not say.
pub fn available_memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// The inode of the PID namespace in which the machine began (the kernel's PROC_PID_INIT_INO).
const FIRST_PID_NAMESPACE: u64 = 0xeffffffc;

/// True where process numbers are those that the kernel itself writes, as into names in debugfs: a
/// container has numbers of its own.
pub fn in_first_pid_namespace() -> bool {
    fs::metadata("/proc/self/ns/pid").is_ok_and(|of| of.ino() == FIRST_PID_NAMESPACE)
}

/// The release of the running kernel, as `uname -r` prints it.
pub fn kernel_release() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// What says whether the kernel compiles BPF programs as it loads them. Only the machine's first
/// network namespace has it.
pub const BPF_JIT: &str = "/proc/sys/net/core/bpf_jit_enable";

/// Whether the kernel compiles BPF programs as it loads them: 0 if it interprets them. `None` where
/// it does not say.
pub fn bpf_jit() -> Option<u8> {
    fs::read_to_string(BPF_JIT).ok()?.trim().parse().ok()
}

/// Whether the kernel has an interpreter of BPF programs, by the names of its functions
/// (kernel/bpf/core.c); `None` where it shows none of these.
pub fn interprets_bpf() -> Option<bool> {
    let names = fs::read_to_string("/proc/kallsyms").ok()?;
    let has = |name: &str| names.lines().any(|line| line.split_ascii_whitespace().nth(2) == Some(name));
    if has("___bpf_prog_run") {
        return Some(true);
    }
    // What is there in its place.
    has("__bpf_prog_ret0_warn").then_some(false)
}

/// Which boot of the machine this is: a random number that each one gets.
///
/// # Errors
/// If it cannot be read.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// The tables, each with the state of a socket that waits for whoever comes, of
/// include/net/tcp_states.h: TCP_LISTEN, and TCP_CLOSE of a UDP socket that is bound and not
/// connected.
const TABLES: [(&str, &str); 4] = [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")];

/// Inodes of the sockets that listen in the network namespace of the calling thread, whoever has
/// them, as the kernel lists them in `/proc/thread-self/net` (proc_pid_net(5)): those over TCP and
/// UDP, of both IP versions. A kernel without IPv6 has fewer tables.
pub fn listening_sockets() -> BTreeSet<u64> {
    let each = |(table, state): (&str, &'static str)| {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
        inodes(&text, state)
    };
    TABLES.into_iter().flat_map(each).collect()
}

/// Of the lines in this state.
fn inodes(text: &str, state: &str) -> Vec<u64> {
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields.get(3) == Some(&state)).then(|| fields.get(9)?.parse().ok()).flatten()
    };
    text.lines().skip(1).filter_map(inode).collect()
}

/// Processes that have a lock on a file (proc_locks(5)), or wait for one.
pub fn holders_of_lock(device: u64, inode: u64) -> Vec<u32> {
    locked_by(&fs::read_to_string("/proc/locks").unwrap_or_default(), device, inode)
}

/// The processes that the text of `locks` names for a file.
pub fn locked_by(locks: &str, device: u64, inode: u64) -> Vec<u32> {
    let file = format!("{:02x}:{:02x}:{inode}", libc::major(device), libc::minor(device));
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == file)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    };
    locks.lines().filter_map(line).collect()
}

/// The inode of the socket that has an abstract name in this process's network namespace.
pub fn abstract_socket(name: &str) -> Option<u64> {
    socket_of(&fs::read_to_string("/proc/net/unix").unwrap_or_default(), name)
}

/// The same from the text of `unix`.
pub fn socket_of(sockets: &str, name: &str) -> Option<u64> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.last()?.strip_prefix('@')? == name).then(|| words.get(words.len().checked_sub(2)?)?.parse().ok())?
    };
    sockets.lines().find_map(line)
}
