// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes. This one: its network namespace, whether it answers to the terminal, its memory that
//! was freed; and signals to others. And a user's program as a child ([`Child`]): it has its own
//! process group, its output through one pipe, killed by the kernel when the thread that started
//! it ends.
//!
//! [`trust_path`] decides where programs are searched for. As root tardy starts none out of a
//! folder in which somebody else could have put it: `sudo` may hand over the PATH of the user who
//! called it.

use crate::proc::{Status, Task};
use crate::tcp::wait_for;
use crate::{SysError, check};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::time::{Duration, Instant};

/// Moves the calling thread, and threads it starts from now on, into a network namespace
/// (`/run/netns/NAME`).
pub fn enter_netns(path: &Path) -> Result<(), SysError> {
    let on = || path.display().to_string();
    let file = File::open(path).map_err(|source| SysError { call: "open", on: on(), source })?;
    // SAFETY: the descriptor is open for the call and names a namespace or the kernel refuses it.
    check(i64::from(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) }), "setns", on)?;
    Ok(())
}

/// Does something in a network namespace, in a separate thread: the calling one stays where it is.
///
/// # Errors
/// If the namespace cannot be entered.
pub fn in_netns<T: Send>(path: &Path, then: impl FnOnce() -> T + Send) -> Result<T, SysError> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| enter_netns(path).map(|()| then()));
        let broke = |_| SysError {
            call: "a thread",
            on: path.display().to_string(),
            source: std::io::Error::other("it broke"),
        };
        thread.join().map_err(broke)?
    })
}

/// Does something in a network namespace of its own, which has a loopback that is down and no name.
/// The kernel takes it away with the thread and with the programs that the thread started.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN.
pub fn in_scratch_netns<T: Send>(then: impl FnOnce() -> T + Send) -> Result<T, SysError> {
    let unshared = || {
        // SAFETY: takes a number only, and moves this thread alone.
        let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        check(i64::from(result), "unshare(CLONE_NEWNET)", || "a thread".to_owned()).map(|_| ())
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| unshared().map(|()| then()));
        let broke = |_| SysError {
            call: "a thread",
            on: "a network namespace without a name".to_owned(),
            source: std::io::Error::other("it broke"),
        };
        thread.join().map_err(broke)?
    })
}

/// Makes the process the leader of its own group, out of reach of the terminal's Ctrl-C. Its own
/// session would do so too, but the scheduler gives every session a task group (autogroup): each
/// switch between two agents on a CPU would then be one between groups, which costs more and
/// divides the CPU otherwise than between programs of one shell.
pub fn leave_terminal() {
    // SAFETY: takes numbers only. It fails for a session's leader, which leads a group already.
    unsafe { libc::setpgid(0, 0) };
}

/// True if the process may make namespaces and links: CAP_NET_ADMIN (12) and CAP_SYS_ADMIN (21)
/// are in force.
pub fn may_build() -> bool {
    let mask = Status::of(Task::Own).unwrap_or_default().effective_capabilities();
    mask.is_some_and(|mask| mask & (1 << 12) != 0 && mask & (1 << 21) != 0)
}

/// True if the process has root's rights over files.
pub fn is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// How this caller gets root's rights: one who is root already lacks them for another reason.
pub fn how_to_be_root() -> &'static str {
    be_root(is_root())
}

/// The same for a caller who is root, or is not.
pub fn be_root(is_root: bool) -> &'static str {
    match is_root {
        true => "this root lacks them: a container or service must be given them",
        false => "run it as root, or with sudo",
    }
}

/// How this caller, who is root, runs a program without root's rights.
pub fn how_not_to_be_root() -> &'static str {
    not_be_root(std::env::var_os("SUDO_UID").is_some())
}

/// The same for a caller by sudo, or one who is root otherwise.
pub fn not_be_root(by_sudo: bool) -> &'static str {
    if by_sudo { "run it without sudo" } else { "run it as another user" }
}

/// Sends a signal to one process by its own id.
pub fn signal(pid: u32, signal: i32) -> Result<(), SysError> {
    // SAFETY: takes numbers only; the id is positive, so no group is meant.
    let result = unsafe { libc::kill(pid.max(1) as i32, signal) };
    check(i64::from(result), "kill", || format!("process {pid}"))?;
    Ok(())
}

/// Keep as much as it can count.
const NEVER: libc::c_int = libc::c_int::MAX;
/// The greatest threshold that glibc takes: half of the heap of a thread.
const LARGE: libc::c_int = 32 << 20;

/// Has freed memory kept for what is allocated next. By default large pieces go back to the kernel
/// at once, and each time they are allocated again, the kernel clears every page anew: a tenth of
/// the time that it takes to judge a large run.
pub fn keep_freed_memory() {
    // SAFETY: mallopt takes two numbers and changes settings of the allocator alone. A value that
    // it refuses changes nothing.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, NEVER);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        // A thread's own heap goes back as a whole once it is empty.
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Where programs are looked for if no folder of PATH is left.
pub const SYSTEM_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
const ROOT: u32 = 0;
/// Mode bits: the group or others may write; only a file's owner may rename or remove it (a sticky
/// folder, as /tmp).
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

fn is_only_for(found: &Metadata, user: u32) -> bool {
    [ROOT, user].contains(&found.uid()) && found.mode() & OTHERS_WRITE == 0
}

/// True if nobody but root can put a program into this folder, or put another folder in its place.
pub fn only_root_writes(folder: &Path) -> bool {
    where_nobody_else_writes(folder, ROOT).is_some()
}

/// The path, without links, of a folder into which nobody but root and the user whose process this
/// is can put something, or put another folder in its place. `None` if somebody else can.
pub fn where_only_we_write(folder: &Path) -> Option<PathBuf> {
    where_nobody_else_writes(folder, fs::metadata("/proc/self").ok()?.uid())
}

/// Such a folder's path without links, for whoever owns a link may turn it round. One that is not
/// there counts as such if nobody but root and this user can make it.
fn where_nobody_else_writes(folder: &Path, user: u32) -> Option<PathBuf> {
    let mut above = folder.is_absolute().then(|| folder.ancestors())?;
    let (named, there) = above.find_map(|above| Some((above, above.canonicalize().ok()?)))?;
    let is_sticky = |found: &Metadata| found.uid() == ROOT && found.mode() & STICKY != 0;
    let above = |found: Metadata| is_only_for(&found, user) || is_sticky(&found);
    let is_safe = fs::metadata(&there).is_ok_and(|found| is_only_for(&found, user))
        && there.ancestors().skip(1).all(|folder| fs::metadata(folder).is_ok_and(above));
    is_safe.then(|| there.components().chain(folder.strip_prefix(named).unwrap_or(folder).components()).collect())
}

/// The folders of a PATH that only root writes to, without links; the system's own if none is
/// left. An empty entry means the current folder, and goes.
pub fn trusted(path: &OsStr) -> OsString {
    let kept: Vec<_> =
        std::env::split_paths(path).filter_map(|folder| where_nobody_else_writes(&folder, ROOT)).collect();
    match std::env::join_paths(&kept) {
        Ok(joined) if !kept.is_empty() => joined,
        _ => SYSTEM_PATH.into(),
    }
}

/// What the kernel calls this process in its tables, 15 bytes at most; without /proc it keeps its
/// name.
pub fn set_name(name: &str) {
    let _ = std::fs::write("/proc/self/comm", name);
}

/// As root: takes the folders out of this process's PATH that others than root may write to.
/// Children inherit it. To be called before the first thread is started.
pub fn trust_path() {
    if !is_root() {
        return;
    }
    let Some(path) = std::env::var_os("PATH") else { return };
    let trusted = trusted(&path);
    if trusted != path {
        // SAFETY: no other thread runs yet, so none reads the environment meanwhile.
        unsafe { std::env::set_var("PATH", trusted) };
    }
}

/// A killed program is gone within this time, unless it is stuck in the kernel.
const LEAVING: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code.
    Code(i32),
    Signal(i32),
}

/// From now on no program that this process starts can set the system's clock, its rate, its TAI
/// offset or a leap second, although it runs as root: the kernel refuses it (EPERM).
///
/// # Errors
/// The kernel's.
pub fn start_nothing_that_sets_the_clock() -> Result<(), SysError> {
    // `CAP_SYS_TIME` of linux/capability.h.
    const SYS_TIME: libc::c_ulong = 25;
    // SAFETY: takes numbers only.
    let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, SYS_TIME, 0, 0, 0) };
    check(i64::from(result), "prctl(PR_CAPBSET_DROP)", || "CAP_SYS_TIME".into()).map(drop)
}

/// Has the kernel send SIGTERM to the program when the thread that starts it ends, however that
/// ends.
pub fn ends_with_us(command: &mut process::Command) {
    signal_when_we_end(command, libc::SIGTERM);
}

fn signal_when_we_end(command: &mut process::Command, signal: i32) {
    let parent = process::id();
    // SAFETY: between fork and exec only async-signal-safe calls are made: prctl and getppid.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, signal) < 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before the call above.
            if libc::getppid() as u32 != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

/// Under this number a program that is started in a folder finds what it is given: far above the
/// numbers that are in use while it is started.
pub const GIVEN: i32 = 200;

/// A running program. Dropping it kills its group.
#[derive(Debug)]
pub struct Child {
    child: process::Child,
    output: Option<File>,
}

/// Waits until there is something to be read, or the other end is closed; false when the time is
/// up.
///
/// # Errors
/// The kernel's.
pub fn readable(from: &impl AsFd, limit: Duration) -> io::Result<bool> {
    wait_for(from.as_fd().as_raw_fd(), libc::POLLIN, limit)
}

impl Child {
    /// Starts `program` with `args`. Of this process's environment it gets PATH and LANG, and also
    /// `marks`: the rest of it, such as a user's key, is none of its business. It inherits the
    /// calling thread's CPU, policy and network namespace, and dies with that thread.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(program: &str, args: &[String], marks: &[(&str, &str)]) -> io::Result<Child> {
        let mut command = process::Command::new(program);
        let kept = ["PATH", "LANG"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.args(args).env_clear().envs(kept).envs(marks.iter().copied());
        Child::spawn(command)
    }

    /// Starts a program in a folder, with this process's environment. It finds `given` open under
    /// the number [`GIVEN`].
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_in(folder: &Path, program: &str, args: &[String], given: BorrowedFd<'_>) -> io::Result<Child> {
        let mut command = process::Command::new(program);
        command.current_dir(folder).args(args);
        let given = given.as_raw_fd();
        // SAFETY: between fork and exec only dup2 is called, which is async-signal-safe. `given` is
        // open until the program has been started, for it is borrowed. What this process may have
        // open under the new number is left as it is: the number is the child's.
        unsafe {
            command.pre_exec(move || match libc::dup2(given, GIVEN) {
                GIVEN => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        Child::spawn(command)
    }

    fn spawn(mut command: process::Command) -> io::Result<Child> {
        let (output, into) = io::pipe()?;
        command.process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::from(into.try_clone()?)).stderr(Stdio::from(into));
        signal_when_we_end(&mut command, libc::SIGKILL);
        let child = command.spawn()?;
        let output = File::from(OwnedFd::from(output));
        Ok(Child { child, output: Some(output) })
    }

    /// Its process id, which is its group's too.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits up to `limit` for output: its bytes, 0 if the time is up, `None` once nobody can
    /// write any more.
    pub fn read(&mut self, into: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        let Some(output) = &mut self.output else { return Ok(None) };
        if !wait_for(output.as_raw_fd(), libc::POLLIN, limit)? {
            return Ok(Some(0));
        }
        match output.read(into) {
            Ok(0) => {
                self.output = None;
                Ok(None)
            }
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Some(0)),
            Err(error) => Err(error),
        }
    }

    /// How it ended; `None` while it runs. It stays a zombie until this is dropped: as long as it
    /// does, its number, which is its group's, is nobody else's.
    pub fn ended(&self) -> Option<Ended> {
        // SAFETY: siginfo_t is plain data; all zero is what the kernel leaves there if nothing has
        // ended.
        let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `info` is valid and writable for the call.
        let result = unsafe { libc::waitid(libc::P_PID, self.pid(), &mut info, flags) };
        // SAFETY: the kernel filled `info` as for a child's end, or left it zero.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        if result < 0 || pid == 0 {
            return None;
        }
        Some(if info.si_code == libc::CLD_EXITED { Ended::Code(status) } else { Ended::Signal(status) })
    }

    /// Sends a signal to its whole group. The group is the child's until this is dropped, so no
    /// other process gets the signal.
    ///
    /// # Errors
    /// The kernel's; a group that is gone is none.
    pub fn signal(&self, signal: i32) -> Result<(), SysError> {
        let pid = i32::try_from(self.pid()).unwrap_or(0);
        if pid <= 1 {
            return Ok(());
        }
        // SAFETY: takes numbers only; the group is that of our own child.
        let result = unsafe { libc::kill(-pid, signal) };
        match check(i64::from(result), "kill", || format!("process group {pid}")) {
            Err(error) if error.errno() != libc::ESRCH => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Also those of the group that outlive its leader.
        let _ = self.signal(libc::SIGKILL);
        // One that is stuck in the kernel must not stop its parent too: it stays a zombie until
        // that ends.
        let until = Instant::now() + LEAVING;
        while let Ok(None) = self.child.try_wait()
            && Instant::now() < until
        {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
