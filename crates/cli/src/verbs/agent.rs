// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that a person does not start. `tardy agent` acts for a station and `tardy steward` for
//! another host, `tardy forward` is what a path by XDP needs, and `tardy switch` one by Open
//! vSwitch in user space: each ends when its stdin closes.
//! `tardy hwtstamp` is a command of a plan.
//! On another host `tardy noted` comes before a program of the run's. The first process of a guest
//! does the same run as on a machine; its events go to the host over a serial port.

use crate::args::{Agent, Forward, Hwtstamp, Noted, Ptp, Switch};
use crate::exit::{Exit, Failure, code_of};
use anyhow::Result;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Error, StdoutLock, stdin, stdout};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tardy_bpf::forward::Forwarding;
use tardy_host::timekeeper::Observing;
use tardy_lab::command::OURSELVES;
use tardy_lab::coordinator::{self, Options};
use tardy_lab::guest::machine::{self, Booted, RunningMachine};
use tardy_lab::guest::relay::Relay;
use tardy_lab::guest::{devices, init, nested};
use tardy_lab::host::clocks::{HostClocks, OffsetSource, one_host};
use tardy_lab::host::hosts::Hosts;
use tardy_lab::host::steward::Steward;
use tardy_lab::host::{noted, serve, trunk};
use tardy_lab::path::switch;
use tardy_lab::plan::Kinds;
use tardy_lab::run::What;
use tardy_lab::{identity, names};
use tardy_model::machine::HostId;
use tardy_model::xdp::XdpMode;
use tardy_spec::Source;
use tardy_spec::experiment::Experiment;
use tardy_sys::hwtstamp::{self as stamping, HwStamp};
use tardy_sys::{SysError, process};

/// Serves until the other side is gone.
pub fn agent(args: Agent) -> Result<Exit> {
    // Ctrl-C at the terminal is for the coordinator, which ends its agents when it is ready to.
    process::leave_terminal();
    if let Some(name) = args.netns {
        let path = Path::new("/run/netns").join(&name);
        process::enter_netns(&path)
            .map_err(|error| Failure::new(Exit::Cannot, format!("cannot enter network namespace {name}: {error}")))?;
    }
    let serve = |to: &mut StdoutLock<'_>| match args.quiet {
        true => tardy_engine::agent::serve_quietly(stdin(), to, &identity::version()),
        false => tardy_engine::agent::serve(stdin(), to, &identity::version()),
    };
    serve(&mut stdout().lock()).map_err(|error| Failure::new(Exit::Internal, format!("agent: {error}")))?;
    Ok(Exit::Good)
}

/// Serves until the coordinator is gone, and then puts back what is left.
pub fn steward() -> Result<Exit> {
    // A signal at the terminal is the coordinator's: what is to be put back here is put back in
    // its time.
    process::leave_terminal();
    let mut steward = Steward::new(&crate::verbs::state(), Path::new(identity::SELF), std::process::id());
    serve::serve(stdin(), &mut stdout().lock(), &identity::version(), &mut steward)
        .map_err(|error| Failure::new(Exit::Cannot, format!("steward: {error}")))?;
    Ok(Exit::Good)
}

/// Has XDP programs hand packets from one device to the other until stdin ends.
pub fn forward(args: &Forward) -> Result<Exit> {
    process::leave_terminal();
    let Forward { netns, mode, printk, jit, devices } = args;
    let [a, b] = &devices[..] else {
        return Err(Failure::new(Exit::Usage, "forward: name two network devices".to_owned()).into());
    };
    let cannot = |why: String| {
        Failure::new(
            Exit::Cannot,
            format!("no XDP programs between {a} and {b} (mode {mode}, namespace {netns}): {why}"),
        )
    };
    process::enter_netns(&Path::new("/run/netns").join(netns)).map_err(|error| cannot(error.to_string()))?;
    let mode = XdpMode::ALL.into_iter().find(|known| known.name() == mode).unwrap_or(XdpMode::Native);
    let forwarding = Forwarding::between([a, b], mode, *printk).map_err(|error| cannot(error.to_string()))?;
    if let Some(wanted) = jit {
        let compiled = forwarding.is_compiled().map_err(|error| cannot(error.to_string()))?;
        if compiled != (wanted == "on") {
            let does = if compiled { "compiles" } else { "interprets" };
            let why =
                format!("path.bpf_jit = \"{wanted}\", and the kernel {does} the programs: was it set again meanwhile?");
            return Err(cannot(why).into());
        }
    }
    super::print("ready\n")?;
    // Nobody writes anything: it ends.
    let _ = std::io::copy(&mut stdin().lock(), &mut std::io::sink());
    drop(forwarding);
    Ok(Exit::Good)
}

/// Has Open vSwitch hand packets from one device to the other until stdin ends.
pub fn switch(args: &Switch) -> Result<Exit> {
    process::leave_terminal();
    let Switch { netns, folder, bridge, devices } = args;
    let [a, b] = &devices[..] else {
        return Err(Failure::new(Exit::Usage, "switch: name two network devices".to_owned()).into());
    };
    let cannot = |why: String| {
        let says = format!("no switch between {a} and {b} by Open vSwitch in user space (namespace {netns}): {why}");
        Failure::new(Exit::Cannot, says)
    };
    process::enter_netns(&Path::new("/run/netns").join(netns)).map_err(|error| cannot(error.to_string()))?;
    let mut switch = switch::Switch::between(folder, bridge, [a, b]).map_err(|error| cannot(error.to_string()))?;
    super::print("ready\n")?;
    // Nobody writes anything: it ends.
    switch.wait_for(stdin()).map_err(|error| cannot(error.to_string()))?;
    Ok(Exit::Good)
}

/// How long a ptp4l may take to show something: less than a path's program has.
const PTP_READY: Duration = Duration::from_secs(8);

/// Has a ptp4l observe the clocks at both ends of a path until stdin ends.
pub fn ptp(args: &Ptp) -> Result<Exit> {
    process::leave_terminal();
    let Ptp { netns, socket, follows, device } = args;
    let cannot = |why: String| {
        Failure::new(Exit::Cannot, format!("the clocks are not observed by PTP at {device} (namespace {netns}): {why}"))
    };
    process::enter_netns(&Path::new("/run/netns").join(netns)).map_err(|error| cannot(error.to_string()))?;
    // ptp4l clears a leap second when it starts, and takes the other end's TAI offset over, also
    // where it steers no clock.
    process::start_nothing_that_sets_the_clock().map_err(|error| cannot(error.to_string()))?;
    let start = |error: Error| cannot(format!("cannot start `ptp4l`: {error}: apt install linuxptp"));
    let mut observing = Observing::start(device, socket, *follows).map_err(start)?;
    observing.wait(PTP_READY, *follows).map_err(cannot)?;
    super::print("ready\n")?;
    // Nobody writes anything: it ends.
    observing.wait_for(&stdin()).map_err(cannot)?;
    Ok(Exit::Good)
}

/// Says which process this is, waits until that is in this host's journal, and becomes the program.
pub fn noted(args: &Noted) -> Result<Exit> {
    let cannot = |what: String| Failure::new(Exit::Cannot, what);
    let [program, words @ ..] = &args.command[..] else {
        return Err(Failure::new(Exit::Usage, "noted: which program is to be started?".to_owned()).into());
    };
    // What `stdin()` had read ahead would be missing in what the program reads.
    let from = stdin().as_fd().try_clone_to_owned();
    let mut from = File::from(from.map_err(|error| cannot(format!("noted: stdin cannot be read: {error}")))?);
    // A machine that is lost without a word would keep this process for ever. The program takes the
    // thread's place too.
    let within = args.within;
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(within));
        eprintln!("tardy: noted: the run did not note this process within {within} s");
        std::process::exit(Exit::Cannot as i32);
    });
    noted::wait(&mut from, &mut stdout().lock(), std::process::id())
        .map_err(|error| cannot(format!("noted: `{program}` is not started: {error}")))?;
    let file = if program == OURSELVES { identity::SELF } else { program };
    // It comes back only with an error.
    let error = Command::new(file).arg0(program).args(words).exec();
    Err(cannot(format!("noted: cannot start `{program}`: {error}")).into())
}

/// The guest's whole life. What it returns the kernel takes for a panic.
pub fn first_process() -> ExitCode {
    match init::port() {
        Ok(port) => {
            tardy_sys::process::set_name("tardy");
            let mut relay = Relay::new(&port);
            let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| live(&mut relay)));
            let broke = ("tardy itself broke; its console shows where".to_owned(), Exit::Internal);
            relay.say(lived.unwrap_or_else(|_| ended(Some(broke), None)));
            tardy_sys::machine::drain(&port);
        }
        // Nobody hears it but the console.
        Err(error) => eprintln!("tardy: {error}"),
    }
    let error = tardy_sys::machine::power_off();
    eprintln!("tardy: the machine cannot be switched off: {error}");
    ExitCode::FAILURE
}

/// The run's end, by something that failed or on its own.
fn ended(by: Option<(String, Exit)>, not_put_back: Option<String>) -> What {
    let (failed, exit_code) = by.map(|(why, exit)| (why, exit as u8)).unzip();
    What::Ended { interrupted: false, failed, exit_code, not_put_back }
}

fn live(relay: &mut Relay<&File>) -> What {
    let failed = |error: anyhow::Error| ended(Some((format!("{error:#}"), code_of(&error))), None);
    let text = match init::set_up() {
        Ok(text) => text,
        Err(error) => return failed(error.into()),
    };
    match init::station() {
        Ok(None) => {}
        // A station gets its orders by another port, until the run ends.
        Ok(Some(port)) => return ended(serve_station(port).err().map(|why| (why, Exit::Cannot)), None),
        Err(error) => {
            // Only the console is heard.
            eprintln!("tardy: {error}");
            return failed(error.into());
        }
    }
    relay.say(init::greeting());
    // Without an experiment it was only asked whether it comes up.
    let Some(text) = text else { return ended(None, None) };
    let experiment = match tardy_spec::load(&Source { name: init::EXPERIMENT.to_owned(), text }, &[]) {
        Ok(experiment) => experiment,
        Err(error) => return failed(error.into()),
    };
    // Each machine of the guest's own runs as long as this list.
    let mut running = Vec::new();
    let ended = measure(&experiment, &mut running, relay);
    if let What::Ended { failed: Some(_), .. } = &ended {
        for (name, machine) in &running {
            eprintln!("the console of station {name}:\n{}", String::from_utf8_lossy(&machine.console()));
        }
    }
    ended
}

/// Runs the experiment in the guest, with its machines, which are added to those that run.
fn measure(experiment: &Experiment, running: &mut Vec<(String, RunningMachine)>, relay: &mut Relay<&File>) -> What {
    let failed = |error: anyhow::Error| ended(Some((format!("{error:#}"), code_of(&error))), None);
    let machines = experiment.machines();
    let of_machines = nested::modules(machines.values().map(|(_, machine)| machine));
    // A driver of devices that are not there is asked for by nobody.
    for module in devices::modules(experiment).into_iter().chain(of_machines) {
        init::modprobe(module);
    }
    // Facts only.
    if devices::traces(experiment) {
        let _ = tardy_sys::machine::mount("tracefs", "/sys/kernel/tracing");
    }
    // The host's signal ends the whole guest.
    let stop = AtomicBool::new(false);
    let version = identity::version();
    let mut steward = Steward::new(Path::new(names::STATE), Path::new(identity::SELF), std::process::id());
    let booted = match machine::boot_packed(&machines, &version, &mut steward) {
        Ok(booted) => booted,
        Err(error) => return failed(error.into()),
    };
    let emulators = booted.iter().map(|machine| (machine.host, machine.running.pid())).collect();
    let guests = HostClocks { emulators, this_machine: BTreeSet::new() };
    let clocks: &dyn Fn() -> Box<dyn OffsetSource> =
        if machines.is_empty() { &one_host } else { &|| Box::new(guests.clone()) };
    let options = Options { version: &version, stop: &stop, kinds: Kinds::default(), clocks };
    let mut hosts = Hosts::here(&mut steward);
    for Booted { host, name, steward, facts, running: machine } in booted {
        running.push((name.clone(), machine));
        hosts = match hosts.and_guest(host, &name, HostId::HERE, facts, steward) {
            Ok(hosts) => hosts,
            Err(error) => return failed(error.into()),
        };
    }
    let found = match coordinator::check(experiment, &Kinds::default(), &mut hosts) {
        Ok(found) => found,
        Err(error) => return failed(error.into()),
    };
    let mut run = coordinator::run(experiment, found, &mut hosts, &options, relay);
    for (name, registers) in machine::explain_silence(&mut run, running) {
        eprintln!("the registers of station {name}:\n{registers}");
    }
    let by = run.failed.map(|error| {
        let error = anyhow::Error::from(error);
        (format!("{error:#}"), code_of(&error))
    });
    ended(by, run.not_put_back.map(|error| error.to_string()))
}

/// In a virtual machine that is a station: starts what the run starts there.
fn serve_station(port: File) -> Result<(), String> {
    let from = port.try_clone().map_err(|error| error.to_string())?;
    trunk::serve(from, port).map_err(|error| error.to_string())
}

/// The kernel asks for a module.
pub fn modprobe() -> ExitCode {
    let name = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    ExitCode::from(u8::from(!name.is_some_and(|name| init::modprobe(&name))))
}

/// `No such device` and `No such file`: look in the next namespace.
const ENODEV: i32 = 19;
const ENOENT: i32 = 2;

/// Shows or sets what a network device stamps, in any namespace: a command of a plan, like `ip` and
/// `tc`.
pub fn hwtstamp(args: &Hwtstamp) -> Result<Exit> {
    let device = args.device.as_str();
    let wanted = args.tx.zip(args.rx).filter(|_| args.what != "show");
    let Some((tx, rx)) = wanted else {
        let says = match first_that_has_it(args, || stamping::read(device)) {
            Ok(now) => serde_json::json!({ "tx": now.tx, "rx": now.rx, "flags": now.flags }),
            Err(error) if error.errno() == ENODEV => return Err(not_stamping(device, &error.to_string()).into()),
            Err(error) => serde_json::json!({ "why": error.to_string() }),
        };
        super::print(&format!("{says}\n"))?;
        return Ok(Exit::Good);
    };
    let to = HwStamp { flags: args.flags, tx, rx };
    let has = first_that_has_it(args, || set(device, to)).map_err(|error| not_stamping(device, &error.to_string()))?;
    // A driver may stamp more than it was asked to. What was there before is to be there again to
    // the letter.
    if args.what == "restore" && has != to {
        return Err(not_stamping(device, &format!("was {to} before and stays {has}")).into());
    }
    Ok(Exit::Good)
}

/// A device that is as it should be is left alone: setting may make it begin anew.
fn set(device: &str, to: HwStamp) -> Result<HwStamp, SysError> {
    if stamping::read(device).is_ok_and(|now| now == to) {
        return Ok(to);
    }
    stamping::set(device, to)?;
    stamping::read(device)
}

/// Asks in one namespace after the other. A namespace that is not there has no device.
fn first_that_has_it(args: &Hwtstamp, ask: impl Fn() -> Result<HwStamp, SysError> + Sync) -> Result<HwStamp, SysError> {
    let mut answer = if args.netns.is_empty() { Some(ask()) } else { None };
    for netns in &args.netns {
        let here = process::in_netns(&Path::new("/run/netns").join(netns), &ask).and_then(|answer| answer);
        let is_elsewhere = here.as_ref().is_err_and(|error| [ENODEV, ENOENT].contains(&error.errno()));
        answer = Some(here);
        if !is_elsewhere {
            break;
        }
    }
    let nowhere =
        || Err(SysError { call: "looking", on: args.device.clone(), source: Error::from_raw_os_error(ENODEV) });
    answer.unwrap_or_else(nowhere)
}

fn not_stamping(device: &str, why: &str) -> Failure {
    Failure::new(Exit::Cannot, format!("what {device} stamps: {why}"))
}
