// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tardy doctor`: what of this machine would spoil figures, what each costs, and how to fix it.
//! It changes nothing but with `--apply`. `tardy run` asks it for the problems of its experiment.

use crate::args::{self, Doctor};
use crate::exit::{Exit, Failure, printable};
use crate::verbs::fix;
use crate::verbs::plan::near_of;
use anyhow::Result;
use std::fmt::Write;
use std::path::Path;
use tardy_doctor::{
    Area, Asked, Check, Diagnosis, Needs, Seen, SeenNic, Tried, Verdict, diagnose, left_alone, listen, physical,
    problems as problems_of, read_nic, try_all, try_modes, watched,
};
use tardy_host::change::word;
use tardy_host::cpus;
use tardy_host::nic::{NicError, Use};
use tardy_lab::command::{Command, OURSELVES};
use tardy_lab::coordinator;
use tardy_lab::copying::{self, CopyRoom};
use tardy_lab::guest::machine;
use tardy_lab::host::HostId;
use tardy_lab::host::hosts::Hosts;
use tardy_lab::host::ssh::{Ssh, SshError};
use tardy_lab::host::steward::Steward;
use tardy_lab::identity;
use tardy_lab::machine::FactsByHost;
use tardy_lab::placement::{self, PlaceError};
use tardy_lab::plan::Kinds;
use tardy_model::copy::{CopyBackend, Sizes};
use tardy_model::harmless;
use tardy_model::path::PathKind;
use tardy_model::shaper::Shaper;
use tardy_model::stream::Launch;
use tardy_spec::experiment::{Experiment, Remote, Setup};

/// How long a CPU is watched, and a device is listened to, ns.
const WATCHED_NS: i64 = 2_000_000_000;
/// Columns of a line.
const WIDTH: usize = 100;
/// Where what belongs to a check begins.
const INDENT: usize = 10;

pub fn call(args: &Doctor) -> Result<Exit> {
    if args.apply {
        fix::may_apply(args.host.as_deref())?;
    }
    if let Some(host) = &args.host {
        return elsewhere(host, args);
    }
    let (found, seen) = examine(args, None)?;
    if args.apply {
        return fix::apply(&found, || Ok(examine(args, seen.tried.clone())?.0));
    }
    match (args.json, args.fix) {
        (true, _) => super::print(&harmless::json(&(serde_json::to_string_pretty(&found)? + "\n")))?,
        (false, true) => super::print(&fixes(&found))?,
        (false, false) => super::print(&table(&found, seen.is_root))?,
    }
    Ok(if found.fine { Exit::Good } else { Exit::Unmet })
}

/// Looks at this machine. What the kernel can do is not tried again if it was `tried`.
fn examine(args: &Doctor, tried: Option<Result<Tried, String>>) -> Result<(Diagnosis, Seen)> {
    let mut seen = Seen::read();
    if seen.online.is_empty() {
        return Err(Failure::new(Exit::Cannot, "cannot read /sys/devices/system/cpu: mount /sys".to_owned()).into());
    }
    if let Some(cpu) = args.cpu.iter().find(|cpu| !seen.online.contains(cpu)) {
        let says = format!(
            "--cpu {cpu}: this machine has no such CPU, or it is off; it has {}",
            tardy_doctor::list(&seen.online)
        );
        return Err(Failure::new(Exit::Usage, says).into());
    }
    let needs = args.experiment.as_ref().map(|name| needs(name, &args.set)).transpose()?;
    seen.ask_keepers();
    let mut checks = Vec::new();
    let nics = match (&needs, args.nic.is_empty()) {
        (_, false) => args.nic.clone(),
        (Some(needs), true) => needs.nics.iter().cloned().collect(),
        (None, true) => physical(),
    };
    for nic in &nics {
        match read_nic(nic) {
            Ok(found) => seen.nics.push(found),
            // /sys may show devices of another network namespace.
            Err(NicError::Missing { .. }) if args.nic.is_empty() && needs.is_none() => {}
            Err(error @ NicError::Missing { .. }) => return Err(Failure::new(Exit::Usage, error.to_string()).into()),
            Err(error) if !args.nic.is_empty() => return Err(Failure::new(Exit::Cannot, error.to_string()).into()),
            Err(error) => {
                checks.push(Check::unknown("nic", Area::Network, error.to_string(), "install iproute2").of(nic))
            }
        }
    }
    if args.try_xdp {
        seen.nics.iter().try_for_each(|nic| may_try(nic, args.allow_nics))?;
        seen.nics.iter_mut().for_each(try_modes);
    }
    if !args.no_live && !args.nic.is_empty() {
        listen(&mut seen.nics, WATCHED_NS);
    }
    // What is tried below would be seen by the watching thread.
    let mut live = Vec::new();
    if !args.no_live {
        for cpu in &args.cpu {
            let check = watched(&mut seen, Asked { cpu: *cpu, for_ns: WATCHED_NS });
            live.push(check.unwrap_or_else(|error| {
                let fact = format!("CPU {cpu} was not watched: {error}");
                let shows =
                    "call it where this process may use the CPU: `cat /proc/self/status` lists Cpus_allowed_list";
                Check::unknown("live", Area::Live, fact, shows).on(*cpu)
            }));
        }
    }
    if !args.no_try {
        seen.tried = Some(tried.unwrap_or_else(try_all));
    }
    let cpus = match (&needs, args.cpu.is_empty()) {
        (_, false) => args.cpu.clone(),
        (Some(needs), true) => needs.cpus.iter().copied().collect(),
        (None, true) => left_alone(&seen),
    };
    if let Some(needs) = &needs {
        needs.narrow(&mut seen);
    }
    checks.extend(diagnose(&seen, &cpus));
    if let Some(needs) = needs {
        // A device that was named in the call matters by that.
        let needs = Needs { nics: nics.into_iter().collect(), ..needs };
        checks = needs.of(checks);
    }
    checks.extend(live);
    Ok((Diagnosis::of(seen.release.clone(), cpus, checks), seen))
}

/// Refuses to attach a program to a device where one is, or which keeps this machine reachable.
fn may_try(seen: &SeenNic, allow: bool) -> Result<()> {
    let (name, uses) = (&seen.nic.name, &seen.nic.uses);
    let refused = |exit, why: String| Err(Failure::new(exit, format!("--try-xdp: {name} {why}")).into());
    if !tardy_sys::process::is_root() {
        let how = tardy_sys::process::how_to_be_root();
        return refused(Exit::Cannot, format!("takes a program from root only: {how}"));
    }
    if uses.contains(&Use::Xdp) {
        let why = "has an XDP program already, which would be in the way: take it off first (ip link set dev IF xdp off), if it is yours";
        return refused(Exit::Cannot, why.replace("IF", &word(name)));
    }
    if uses.contains(&Use::DefaultRoute) && !allow {
        let why = "carries the default route, and its driver may reset the link: allow it with --allow-nics, or name another device";
        return refused(Exit::Usage, why.to_owned());
    }
    Ok(())
}

/// Has this program do it on another machine, and shows what it printed there.
fn elsewhere(host: &str, args: &Doctor) -> Result<Exit> {
    let cannot = |error: SshError| Failure::new(Exit::Cannot, error.to_string());
    if !Remote::is_called(host) {
        let why = format!("--host: \"{}\" cannot be a machine that is reached over ssh", printable(host));
        return Err(Failure::new(Exit::Usage, why).into());
    }
    let mut words = vec!["doctor".to_owned()];
    words.extend(args.cpu.iter().map(|cpu| format!("--cpu={cpu}")));
    words.extend(args.nic.iter().map(|nic| format!("--nic={nic}")));
    let flags = [(args.no_live, "--no-live"), (args.no_try, "--no-try"), (args.fix, "--fix"), (args.json, "--json")];
    words.extend(flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag.to_owned()));
    let ssh =
        Ssh::reach(&Remote { ssh: host.to_owned(), sudo: args.sudo }, Path::new(identity::SELF)).map_err(cannot)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (said, code) = ssh.runs(&Command::new(OURSELVES, &words)).map_err(cannot)?;
    let said: String = said.into_iter().map(|line| format!("{}\n", one_line(&line))).collect();
    let exit = match code {
        0 => Exit::Good,
        1 => Exit::Unmet,
        2 => return Err(Failure::new(Exit::Usage, format!("`{host}`: {}", said.trim())).into()),
        _ => return Err(Failure::new(Exit::Cannot, format!("`{host}`: {}", said.trim())).into()),
    };
    super::print(&if args.fix { in_comments(host, &said) } else { said })?;
    Ok(exit)
}

/// What another machine printed as its fixes. They are for that machine, and in its words: whoever
/// has a shell read them here would run them here.
fn in_comments(host: &str, said: &str) -> String {
    let lines: String = said.lines().map(|line| format!("# {line}\n")).collect();
    format!("# For `{host}`, as it says: read each line before you run it there. Here, all are comments.\n{lines}")
}

/// What an experiment needs of this machine.
fn needs(name: &str, set: &[String]) -> Result<Needs> {
    let asked = args::Experiment { experiment: name.to_owned(), set: set.to_vec(), trials: None };
    let experiment = super::load(&asked, &[])?;
    let near = near_of(&experiment);
    let mut needs = Needs { between_machines: near.cells.len() < experiment.cells.len(), ..Needs::default() };
    let home = std::os::unix::process::parent_id();
    let mut steward = Steward::new(&super::state(), Path::new(identity::SELF), home);
    let mut found = coordinator::look(&near, &Kinds::default(), &mut Hosts::here(&mut steward))?;
    // Of virtual machines that only a run starts.
    for (host, (_, machine)) in near.machines() {
        found = found.and(host, machine::facts(&machine));
    }
    for cell in near.cells.iter().filter(|cell| runs_here(&cell.setup)) {
        add(&mut needs, &cell.setup, &found)
            .map_err(|error| super::blamed(error.into(), &asked, found.here().cpus()))?;
    }
    Ok(needs)
}

/// True if something of it runs: where all is drawn from the seed, no machine matters.
fn runs_here(setup: &Setup) -> bool {
    setup.copy.as_ref().map_or(!setup.builds_nothing(), |copy| copy.backend != CopyBackend::Sim)
}

/// Adds what a cell needs of this machine.
fn add(needs: &mut Needs, setup: &Setup, found: &FactsByHost) -> Result<(), PlaceError> {
    if let Some(copy) = &setup.copy {
        let isolated = cpus::kernel_list("isolated").unwrap_or_default();
        // What cannot be placed is refused in words of its own when it is run.
        let nodes = cpus::nodes();
        let room = CopyRoom {
            cpus: found.here().cpus(),
            isolated: &isolated,
            nodes: &nodes,
            available_bytes: None,
            sizes: &Sizes::USUAL,
            online: &[],
            is_limited: true,
        };
        let placed = copying::place("", copy, room).unwrap_or_default();
        needs.cpus.extend(placed.into_iter().flatten());
        needs.holds_us.insert(setup.dma_latency_us);
        needs.realtime |= copy.policy.is_realtime();
        needs.ordinary |= !copy.policy.is_realtime();
        return Ok(());
    }
    let (placed, _) = placement::place(setup, found)?;
    let cpus = placed.iter().flat_map(|of| [of.tx, of.rx, of.reply]).flatten();
    needs.cpus.extend(cpus.filter(|of| of.host == HostId::HERE).map(|of| of.cpu));
    // Where a station is on another machine, so may the device be.
    let is_remote = setup.stations.values().any(|of| of.remote.is_some());
    needs.between_machines |= is_remote;
    needs.nics.extend(setup.path.devices().into_iter().filter(|_| !is_remote).map(str::to_owned));
    needs.qdiscs.extend(qdiscs(&setup.shaper).into_iter().map(str::to_owned));
    needs.holds_us.insert(setup.dma_latency_us);
    needs.xdp |= setup.path.kind == PathKind::Xdp;
    for stream in &setup.streams {
        needs.xdp |= stream.rx.port.passes_xdp();
        needs.launches |= stream.launch != Launch::None;
        for policy in [stream.tx.policy, stream.rx.policy] {
            needs.realtime |= policy.is_realtime();
            needs.ordinary |= !policy.is_realtime();
        }
    }
    Ok(())
}

/// What of this machine would spoil the figures of an experiment that is about to be run, in lines.
/// It reads what the kernel shows anyway: nothing is watched, tried or changed.
pub fn problems(experiment: &Experiment, found: &FactsByHost, asked: &args::Experiment) -> Vec<String> {
    let mut needs = Needs::default();
    for cell in experiment.cells.iter().filter(|cell| runs_here(&cell.setup)) {
        // What cannot be placed is refused in words of its own.
        let _ = add(&mut needs, &cell.setup, found);
    }
    if needs == Needs::default() {
        return Vec::new();
    }
    let mut seen = Seen::read();
    seen.nics.extend(needs.nics.iter().filter_map(|nic| read_nic(nic).ok()));
    needs.narrow(&mut seen);
    let cpus: Vec<u32> = needs.cpus.iter().copied().collect();
    let mut checks = needs.of(diagnose(&seen, &cpus));
    // Most machines leave no CPU alone, and each trial shows who else ran on one.
    if left_alone(&seen).is_empty() {
        checks.retain(|check| check.area != Area::Isolation);
    }
    let mut lines = problems_of(&checks);
    if !lines.is_empty() {
        let set: String = asked.set.iter().map(|set| format!(" --set {}", word(set))).collect();
        lines.push(format!("costs and fixes: tardy doctor --for {}{set}", word(&asked.experiment)));
    }
    lines
}

/// The queue disciplines that a shaper is made of.
fn qdiscs(shaper: &Shaper) -> Vec<&'static str> {
    let own: &[&str] = match shaper {
        Shaper::None => &[],
        Shaper::Etf(_) => &["etf"],
        Shaper::Taprio(_) => &["taprio"],
        Shaper::Mqprio(_) => &["mqprio"],
        Shaper::Cbs(_) => &["mqprio", "cbs"],
    };
    let below = match shaper {
        Shaper::Taprio(of) => of.etf.is_some(),
        Shaper::Mqprio(of) => of.etf.is_some(),
        _ => false,
    };
    own.iter().copied().chain(below.then_some("etf")).collect()
}

/// All checks, by area, and what they come to.
fn table(found: &Diagnosis, is_root: bool) -> String {
    let mut text = String::new();
    let mut area: Option<Area> = None;
    for check in &found.checks {
        if area.replace(check.area) != Some(check.area) {
            let _ = writeln!(text, "{}{}", if text.is_empty() { "" } else { "\n" }, check.area.title());
        }
        labelled(&mut text, check.verdict.word(), &check.fact);
        if let Some(costs) = &check.costs {
            labelled(&mut text, "", &format!("costs: {costs}"));
        }
        if let Some(fix) = &check.fix {
            labelled(&mut text, "", &format!("fix: {}", fix.says));
        }
    }
    let spoils = found.checks.iter().filter(|check| check.verdict == Verdict::Spoils).count();
    text.push('\n');
    let _ = match spoils {
        0 => writeln!(text, "FINE     none of {} would spoil figures", super::count(found.checks.len(), "check")),
        n => writeln!(text, "SPOILS   {n} of {} would spoil figures", super::count(found.checks.len(), "check")),
    };
    if found.cpus.is_empty() {
        text += "         no CPU was looked at by itself: --cpu N watches one, and --for EXPERIMENT looks at what that uses\n";
    }
    if found.checks.iter().any(|check| check.fix.as_ref().is_some_and(|fix| !fix.commands.is_empty())) {
        text += "         `tardy doctor --fix` prints the commands that fix something until the next boot, and --apply runs them\n";
    }
    if !is_root {
        text += "         as root it sees more: who may run where of others, and what is in debugfs\n";
    }
    text
}

/// A line with its label, broken before the width ends.
fn labelled(text: &mut String, label: &str, says: &str) {
    let mut line = format!("  {label:<width$}", width = INDENT - 2);
    let mut used = INDENT;
    for (n, word) in printable(says).split(' ').enumerate() {
        let length = word.chars().count();
        if n > 0 && used + 1 + length > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(INDENT);
            used = INDENT;
        } else if n > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

/// The commands that fix something, as a script, with those that take them back. What only costs
/// something is a comment: who wants it takes the mark away.
fn fixes(found: &Diagnosis) -> String {
    let mut text =
        "#!/bin/sh\n# What `tardy doctor` would change, until the next boot. Read it before you run it, as root.\n"
            .to_owned();
    let mut back: Vec<(&str, String)> = Vec::new();
    for check in &found.checks {
        let mark = match check.verdict {
            Verdict::Spoils => "",
            Verdict::Note => "# ",
            Verdict::Fine | Verdict::Unknown => continue,
        };
        let Some(fix) = check.fix.as_ref().filter(|fix| !fix.commands.is_empty()) else { continue };
        let _ = writeln!(text, "\n# {}: {}", check.id, one_line(&check.fact));
        let _ = writeln!(text, "# {}", one_line(&fix.says));
        for command in &fix.commands {
            // Two CPUs may ask for the same.
            if !back.iter().any(|(_, undoes)| *undoes == command.undoes) {
                let _ = writeln!(text, "{mark}{}", command.does);
                back.push((mark, command.undoes.clone()));
            }
        }
    }
    if back.is_empty() {
        return "# No command fixes anything: see `tardy doctor` for what takes a boot\n".to_owned();
    }
    text += "\n# To take it back:\n";
    for (mark, line) in back.iter().rev() {
        let _ = writeln!(text, "# {mark}{line}");
    }
    text
}

fn one_line(text: &str) -> String {
    printable(text).replace('\n', " ")
}
