// SPDX-License-Identifier: MIT OR Apache-2.0
//! Open vSwitch with its datapath in user space: its database and its switch, in a folder and under
//! control sockets of their own, next to whatever Open vSwitch the machine has. They run as long as
//! the process that started them, and that runs as long as a path.

use crate::guest::folder::{self, OF_MACHINE};
use crate::host::child;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tardy_engine::load::MARK;
use tardy_sys::proc::Stat;
use tardy_sys::process::{Child, Ended, ends_with_us};
use thiserror::Error;

/// Which ones have to be there.
const PROGRAMS: [&str; 6] = [TOOL, DATABASE, SWITCH, VSCTL, OFCTL, APPCTL];
const TOOL: &str = "ovsdb-tool";
const DATABASE: &str = "ovsdb-server";
const SWITCH: &str = "ovs-vswitchd";
const VSCTL: &str = "ovs-vsctl";
pub(super) const OFCTL: &str = "ovs-ofctl";
pub(super) const APPCTL: &str = "ovs-appctl";
/// Of the database, as Debian's package brings it.
pub(super) const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// The switch's control socket in the folder.
pub(super) const CONTROL: &str = "switch.ctl";
/// The network device that a switch with its datapath in user space makes for the datapath.
pub(super) const DEVICE: &str = "ovs-netdev";

/// All is ready within this time: less than a path's program has.
const UP: Duration = Duration::from_secs(8);
/// It ends within this time: less than a path's program has.
const ENDING: Duration = Duration::from_millis(1_500);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Lines of a log that say why a daemon ended.
const LAST_LINES: usize = 3;
/// A flow that no packet has taken for so long is forgotten, ms: not within a run.
const IDLE_MS: &str = "other_config:max-idle=86400000";

/// Why there is no switch.
#[derive(Debug, Error)]
pub enum SwitchError {
    #[error("cannot {what} {}: {source}", path.display())]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{} is no name of a folder that tardy makes for a switch and removes: its last part begins with {OF_MACHINE}", path.display())]
    Name { path: PathBuf },
    #[error("cannot start `{program}`: {source}: apt install openvswitch-switch")]
    Start { program: &'static str, source: io::Error },
    #[error("`{command}` failed: {said}")]
    Failed { command: String, said: String },
    #[error("`{program}` {how}; the last that it wrote: {said}")]
    Daemon { program: &'static str, how: String, said: String },
}

/// True if this machine has all that is needed.
pub(super) fn is_installed() -> bool {
    PROGRAMS.iter().all(|program| child::find(program).is_ok()) && Path::new(SCHEMA).exists()
}

/// A switch that hands on packets. Whoever drops it ends it, and its files go with it.
#[derive(Debug)]
pub struct Switch {
    // In the order in which they go.
    switch: Daemon,
    database: Daemon,
    folder: Folder,
}

impl Switch {
    /// Starts it in this process's network namespace, with a bridge of this name between two
    /// devices, whose ports have the numbers 1 and 2. It returns once packets may come.
    ///
    /// # Errors
    /// If a program is missing, fails or ends, or it takes too long.
    pub fn between(folder: &Path, bridge: &str, devices: [&str; 2]) -> Result<Switch, SwitchError> {
        let until = Instant::now() + UP;
        let folder = Folder::make(folder)?;
        let at = |name: &str| folder.0.join(name).display().to_string();
        let (file, socket) = (at("conf.db"), at("db.sock"));
        folder.run(TOOL, &["create", &file, SCHEMA])?;
        let [listens, control] = [format!("--remote=punix:{socket}"), format!("--unixctl={}", at("db.ctl"))];
        let database = Daemon::start(&folder, DATABASE, "db", &[&file, &listens, &control], (&socket, until))?;
        let database_at = format!("unix:{socket}");
        // Without the first two it would look for the kernel's datapath, for which the kernel
        // loads its module, and for the host's routes.
        let control = format!("--unixctl={}", at(CONTROL));
        let words = ["--disable-system", "--disable-system-route", &database_at, &control];
        let switch = Daemon::start(&folder, SWITCH, "switch", &words, (&at(CONTROL), until))?;
        let it = Switch { switch, database, folder };
        it.set_up(&database_at, bridge, devices, until)?;
        Ok(it)
    }

    fn set_up(&self, database: &str, bridge: &str, [a, b]: [&str; 2], until: Instant) -> Result<(), SwitchError> {
        let folder = &self.folder;
        let database = format!("--db={database}");
        folder.run(VSCTL, &[&database, &patience(until), "--no-wait", "init"])?;
        let patient = patience(until);
        let mut words = vec![&*database, &*patient, "set", "Open_vSwitch", ".", IDLE_MS, "--", "add-br", bridge, "--"];
        words.extend(["set", "bridge", bridge, "datapath_type=netdev", "fail_mode=secure"]);
        for (device, number) in [(a, "ofport_request=1"), (b, "ofport_request=2")] {
            words.extend(["--", "add-port", bridge, device, "--", "set", "interface", device, number]);
        }
        folder.run(VSCTL, &words)?;
        let asks = [&*database, &*patience(until), "--bare", "--columns=error", "find", "interface"].map(str::to_owned);
        let faults = folder.run(VSCTL, &asks.each_ref().map(String::as_str))?;
        if !faults.trim().is_empty() {
            let command = format!("{VSCTL} add-port");
            return Err(SwitchError::Failed { command, said: faults.trim().replace('\n', "; ") });
        }
        let manages = folder.0.join(format!("{bridge}.mgmt")).display().to_string();
        for flow in ["in_port=1,actions=output:2", "in_port=2,actions=output:1"] {
            folder.run(OFCTL, &[&patience(until), "add-flow", &manages, flow])?;
        }
        Ok(())
    }

    /// Sleeps until there is something to be read from `input`, or its other end is closed.
    ///
    /// # Errors
    /// If one of the daemons ends before.
    pub fn wait_for(&mut self, input: impl AsFd) -> Result<(), SwitchError> {
        let handle = |daemon: &Daemon| {
            let pid = i32::try_from(daemon.child.pid()).ok().and_then(Pid::from_raw);
            pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        };
        let handles: Vec<_> = [&self.database, &self.switch].into_iter().filter_map(handle).collect();
        let of_daemons = handles.iter().map(AsFd::as_fd);
        let all = of_daemons.chain([input.as_fd()]).map(|of| PollFd::from_borrowed_fd(of, PollFlags::IN));
        let mut all: Vec<_> = all.collect();
        while poll(&mut all, None) == Err(Errno::INTR) {}
        [&mut self.database, &mut self.switch].into_iter().try_for_each(Daemon::check)
    }
}

/// The option that bounds how long a program waits for a daemon: whole seconds, 0 being for ever.
fn patience(until: Instant) -> String {
    format!("--timeout={}", until.saturating_duration_since(Instant::now()).as_secs().max(1))
}

impl Drop for Switch {
    fn drop(&mut self) {
        let until = Instant::now() + ENDING;
        // On a signal it would leave the devices that it made; so it takes down what it has.
        let control = format!("--target={}", self.folder.0.join(CONTROL).display());
        if self.switch.child.ended().is_none() {
            let _ = self.folder.run(APPCTL, &[&control, "--timeout=1", "exit", "--cleanup"]);
        }
        self.switch.wait(until);
        let _ = self.database.child.signal(Signal::TERM.as_raw());
        self.database.wait(until);
    }
}

/// The files of both daemons. They go with it.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn make(path: &Path) -> Result<Folder, SwitchError> {
        let last = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if !last.starts_with(OF_MACHINE) {
            return Err(SwitchError::Name { path: path.to_owned() });
        }
        let file = |what: &'static str| {
            let path = path.to_owned();
            move |source: io::Error| SwitchError::File { what, path, source }
        };
        // A run that had this name and was killed may have left one.
        folder::remove(path).map_err(file("remove"))?;
        DirBuilder::new().mode(0o700).create(path).map_err(file("create"))?;
        Ok(Folder(path.to_owned()))
    }

    /// Where Open vSwitch's programs look for each other. And whose what is started is: `tardy
    /// undo` finds by it what outlived a killed run.
    fn environment(&self) -> Vec<(&'static str, String)> {
        let folder = self.0.display().to_string();
        let places = ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"];
        let me = std::process::id();
        let start = Stat::of(me).map_or(0, |stat| stat.started_ticks);
        let mark = (MARK, format!("{me}:{start}"));
        places.into_iter().map(|name| (name, folder.clone())).chain([mark]).collect()
    }

    /// Runs a program to its end: what it printed.
    fn run(&self, program: &'static str, args: &[&str]) -> Result<String, SwitchError> {
        let mut command = Command::new(program);
        let kept = ["PATH", "LANG"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.arg("-vsyslog:off").args(args).env_clear().envs(kept).envs(self.environment());
        ends_with_us(&mut command);
        let output = command.output().map_err(|source| SwitchError::Start { program, source })?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        let said = match text(&output.stderr) {
            nothing if nothing.is_empty() => output.status.to_string(),
            said => said.replace('\n', "; "),
        };
        Err(SwitchError::Failed { command: [&[program], args].concat().join(" "), said })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = folder::remove(&self.0);
    }
}

#[derive(Debug)]
struct Daemon {
    program: &'static str,
    log: PathBuf,
    child: Child,
}

impl Daemon {
    /// Starts one, and waits until it listens at this socket.
    fn start(
        folder: &Folder,
        program: &'static str,
        name: &str,
        args: &[&str],
        (socket, until): (&str, Instant),
    ) -> Result<Daemon, SwitchError> {
        let log = folder.0.join(format!("{name}.log"));
        let logs = ["-vconsole:off".to_owned(), "-vsyslog:off".to_owned(), format!("--log-file={}", log.display())];
        let args: Vec<String> = args.iter().map(|word| (*word).to_owned()).chain(logs).collect();
        let environment = folder.environment();
        let marks: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let child = Child::start(program, &args, &marks).map_err(|source| SwitchError::Start { program, source })?;
        let mut daemon = Daemon { program, log, child };
        while !Path::new(socket).exists() {
            daemon.check()?;
            if Instant::now() > until {
                return Err(daemon.fault(format!("does not listen at {socket}")));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(daemon)
    }

    fn check(&mut self) -> Result<(), SwitchError> {
        match self.child.ended() {
            None => Ok(()),
            Some(Ended::Code(code)) => Err(self.fault(format!("ended with exit code {code}"))),
            Some(Ended::Signal(signal)) => Err(self.fault(format!("ended by signal {signal}"))),
        }
    }

    /// What it wrote goes to its log, and some of it on its way to an early end to its stderr.
    fn fault(&mut self, how: String) -> SwitchError {
        let mut said = [0; 1_024];
        let bytes = self.child.read(&mut said, Duration::ZERO).ok().flatten().unwrap_or(0);
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said[..bytes]).into_owned();
        let last = log.lines().chain(said.lines()).rev().take(LAST_LINES).collect::<Vec<_>>();
        let said = last.into_iter().rev().collect::<Vec<_>>().join("; ");
        SwitchError::Daemon { program: self.program, how, said }
    }

    fn wait(&self, until: Instant) {
        while self.child.ended().is_none() && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
