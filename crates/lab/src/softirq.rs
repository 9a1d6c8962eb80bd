// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who takes in the packets that arrive at a station: which CPU is meant, the commands that make
//! it so, and what is kept of a trial so that it can be proved.
//!
//! On veth the kernel takes a packet in on the sender's CPU, inside its send call. Another CPU is
//! had in one of three ways: kernel threads that poll the device, pinned, where packets take NAPI;
//! the affinity of the device's interrupts, where it has such; else receive packet steering.

use crate::command::Command;
use crate::host::place::Place;
use crate::host::{CpuId, HostId};
use crate::machine::FactsByHost;
use crate::not_found::NotFound;
use crate::path::{EndId, Ends, LinkEnd};
use crate::placement::{self, PlaceError, Placed, Taken};
use crate::station;
use crate::step::{Action, Inverse, Question, Step};
use std::collections::BTreeMap;
use tardy_host::softirq::Steering;
use tardy_host::state::{MachineThread, Moment};
use tardy_model::placement::{CpuAsked, NapiThread, PlacementRecord, SoftirqBy, SoftirqRecord};
use tardy_model::sample::{Batch, Outcome};
use tardy_model::stream::{CpuChoice, Kind, Side, Stream};
use tardy_spec::experiment::{Setup, receiver_at, receives_at, spins_realtime, thread_at};

/// What is meant for one station, at each of its ends. How it is done depends on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meant {
    /// On which CPU; `None` for any.
    pub cpu: Option<CpuId>,
    /// In the experiment's words.
    pub asked: CpuAsked,
}

/// What is meant, by station, for stations that ask for something; and the choices that the machine
/// could not satisfy.
pub type AllMeant = (BTreeMap<String, Meant>, Vec<String>);

/// Works out which CPU each station's packets are taken in on. `chosen` are the CPUs of the
/// streams' threads.
///
/// # Errors
/// A CPU that does not exist, one on which a thread would keep the kernel's from running, or a
/// stream that has no CPUs chosen.
pub fn meant(setup: &Setup, chosen: &[Placed], found: &FactsByHost) -> Result<AllMeant, PlaceError> {
    let mut taken = Taken::by(setup, chosen);
    let (mut all, mut short) = (BTreeMap::new(), Vec::new());
    for station in setup.stations.keys() {
        let choice = setup.softirq.cpus.get(station).copied().unwrap_or(CpuChoice::Any);
        if choice == CpuChoice::Any && !setup.softirq.napi {
            continue;
        }
        let beside = receiver_at(&setup.streams, station);
        let other = match beside {
            Some((stream, end)) => placement::placed(setup, chosen, stream)?.of(end),
            None => None,
        };
        let wrong = |why| PlaceError::Softirq { station: station.clone(), why };
        let (cpu, lacking) = taken.beside(choice, other, station::host_of(setup, station)?, found, wrong)?;
        short.extend(lacking.map(|_| {
            format!("station `{station}`: a CPU other than the receiver's was asked for softirq and there is one")
        }));
        let relative = matches!(choice, CpuChoice::Same | CpuChoice::Different);
        let of = beside.filter(|_| relative).map(|(stream, end)| name(stream, end));
        all.insert(station.clone(), Meant { cpu, asked: CpuAsked { cpu: choice.to_string(), of } });
    }
    starved(setup, chosen, &all)?;
    Ok((all, short))
}

/// A kernel thread that polls a device is an ordinary thread: it never runs on a CPU where another
/// thread spins under a realtime policy.
fn starved(setup: &Setup, chosen: &[Placed], all: &BTreeMap<String, Meant>) -> Result<(), PlaceError> {
    for (station, meant) in all.iter().filter(|_| setup.softirq.napi) {
        let Some(cpu) = meant.cpu else { continue };
        for (stream, placed) in setup.streams.iter().zip(chosen) {
            let spins = |end: &Side| placed.of(*end) == Some(cpu) && spins_realtime(stream, *end);
            if let Some(end) = Side::of(stream).find(spins) {
                return Err(PlaceError::TwoSpinners(format!(
                    "{} would spin with a realtime policy on CPU {}, and the kernel thread that takes in the packets of \
                     station `{station}` there would never run: set station.{station}.softirq to another CPU, let the thread \
                     wait by \"block\", or use policy \"other\"",
                    name(stream, end),
                    cpu.cpu
                )));
            }
        }
    }
    Ok(())
}

fn name(stream: &Stream, end: Side) -> String {
    format!("{}.{end}", stream.name)
}

/// What the device of an end was set to before, where it is one of the host's.
fn steering<'f>(end: &LinkEnd, found: &'f FactsByHost) -> Result<Option<&'f Steering>, NotFound> {
    let host = found.of(end.place.host)?;
    Ok(host.named(&end.device).and_then(|name| host.steering.get(name)))
}

/// How the packets of a device come to another CPU.
fn by(setup: &Setup, was: Option<&Steering>) -> SoftirqBy {
    match was {
        _ if setup.softirq.napi => SoftirqBy::Napi,
        Some(was) if !was.irqs.is_empty() => SoftirqBy::Irq,
        _ => SoftirqBy::Rps,
    }
}

/// A command that prints what these files hold, as JSON. The word behind the script says that it
/// only shows.
fn show(place: &Place, files: &str) -> Question {
    let script = format!(r#"printf '["%s"]\n' "$(cat {files} | paste -sd ' ')""#);
    Question::at(place, place.shell(&script, &["show"]))
}

/// A set of one CPU as the kernel writes it: hexadecimal words of 32 bits, the highest first.
fn mask(cpu: u32) -> String {
    let words = std::iter::repeat_n(",00000000", (cpu / 32) as usize).collect::<String>();
    format!("{:x}{words}", 1u64 << (cpu % 32))
}

/// The steps, and what shows what has become of them.
///
/// # Errors
/// As [`meant`].
pub fn steps(setup: &Setup, ends: &Ends, found: &FactsByHost) -> Result<(Vec<Step>, Vec<Question>), PlaceError> {
    if !asks(setup) {
        return Ok((Vec::new(), Vec::new()));
    }
    let (chosen, _) = placement::place(setup, found)?;
    let (all, _) = meant(setup, &chosen, found)?;
    let (mut steps, mut read_back) = (Vec::new(), Vec::new());
    let ends = || ends.values().filter_map(|end| Some((end, all.get(&end.station)?)));
    for (end, _) in ends().filter(|_| setup.softirq.napi) {
        let (place, device) = (&end.place, end.device.as_str());
        let features = ["gro", "on", "tso", "off", "gso", "off"];
        let set = place.exec(&[&["ethtool", "-K", device], &features[..]].concat());
        let why = "packets take NAPI: GRO at the receiver, no segmentation offload at the sender";
        steps.push(Step::new(place, why, vec![set]));
        read_back.push(Question::at(place, place.exec(&["ethtool", "--json", "-k", device])));
    }
    for (end, meant) in ends() {
        let was = steering(end, found)?;
        let (place, device) = (&end.place, end.device.as_str());
        let class = format!("/sys/class/net/{device}");
        let cpu = meant.cpu.map(|cpu| cpu.number_on(place.host)).transpose().map_err(NotFound::from)?;
        match (by(setup, was), cpu) {
            (SoftirqBy::Napi, cpu) => {
                let threaded = format!("{class}/threaded");
                let on = place.shell(&format!("echo 1 >{threaded}"), &[]);
                steps.push(Step::new(place, "a kernel thread of its own polls each queue", vec![on]));
                steps.extend(cpu.map(|cpu| Step::new(place, "those threads on one CPU", vec![pin(device, cpu)])));
                read_back.push(show(place, &threaded));
            }
            (SoftirqBy::Irq, Some(cpu)) => {
                let irqs = was.map(|was| &was.irqs).into_iter().flatten();
                let (mut files, mut does, mut undoes) = (Vec::new(), Vec::new(), Vec::new());
                for (irq, was) in irqs {
                    let file = format!("/proc/irq/{irq}/smp_affinity_list");
                    does.push(Command::new("sh", &["-c", &format!("echo {cpu} >{file}")]));
                    undoes.push(Inverse::here(Action::RestoreIrq { irq: *irq, was: was.clone() }));
                    files.push(file);
                }
                let why = "the device's interrupts on one CPU; back where they were";
                steps.push(Step::new(place, why, does).undone_by(undoes));
                read_back.push(show(place, &files.join(" ")));
            }
            (SoftirqBy::Rps, Some(cpu)) => {
                let does = format!("for q in {class}/queues/rx-*; do echo {} >$q/rps_cpus || exit; done", mask(cpu));
                // What is set on a veth goes with it.
                let were = was.map(|was| &was.queues).into_iter().flatten();
                let put = |(queue, was): (&String, &String)| {
                    let (device, queue, was) = (device.to_owned(), queue.clone(), was.clone());
                    Inverse::within(place, Action::RestoreSteering { device, queue, was })
                };
                let why = "arriving packets are steered to one CPU (RPS)";
                let step = Step::new(place, why, vec![place.shell(&does, &[])]);
                steps.push(step.undone_by(were.map(put).collect()));
                read_back.push(show(place, &format!("{class}/queues/rx-*/rps_cpus")));
            }
            (SoftirqBy::Irq | SoftirqBy::Rps, None) => {}
        }
    }
    Ok((steps, read_back))
}

/// Pins a device's kernel threads; they go with the device. They are the machine's, so no
/// namespace is entered.
fn pin(device: &str, cpu: u32) -> Command {
    let script = format!(
        "t=$(grep -ls '^napi/{device}-' /proc/[0-9]*/comm); [ \"$t\" ] || {{ echo 'no kernel thread napi/{device}-* is to be seen \
         here' >&2; exit 1; }}; for t in $t; do t=${{t%/comm}}; taskset -pc {cpu} ${{t#/proc/}} >/dev/null || exit; done"
    );
    Command::new("sh", &["-c", &script])
}

/// True if some station asks for something.
pub fn asks(setup: &Setup) -> bool {
    setup.softirq.napi || !setup.softirq.cpus.is_empty()
}

/// True if two cells want the same of the path.
pub fn wants_the_same(a: &Setup, b: &Setup, found: &FactsByHost) -> bool {
    let all = |setup: &Setup| -> Option<BTreeMap<String, Option<CpuId>>> {
        if !asks(setup) {
            return Some(BTreeMap::new());
        }
        let (chosen, _) = placement::place(setup, found).ok()?;
        let (all, _) = meant(setup, &chosen, found).ok()?;
        Some(all.into_iter().map(|(station, meant)| (station, meant.cpu)).collect())
    };
    // What cannot be placed is refused before; it is never like another.
    a.softirq.napi == b.softirq.napi && matches!((all(a), all(b)), (Some(a), Some(b)) if a == b)
}

/// An end of a path that is watched over.
struct Watched<'a> {
    meant: Meant,
    by: SoftirqBy,
    station: String,
    host: HostId,
    device: String,
    /// The streams of this path.
    streams: Vec<&'a Stream>,
}

impl Watched<'_> {
    fn is_polled(&self) -> bool {
        self.by == SoftirqBy::Napi
    }
}

/// The streams whose packets take the path of this end.
fn streams_on<'s>(setup: &'s Setup, ends: &Ends, id: EndId) -> Result<Vec<&'s Stream>, NotFound> {
    let mut streams = Vec::new();
    for stream in &setup.streams {
        if ends.of_stream(stream)?[0].path == id.path {
            streams.push(stream);
        }
    }
    Ok(streams)
}

/// Watches over the placement of one trial.
pub struct Watch<'a> {
    setup: &'a Setup,
    /// By what records call the end.
    ends: BTreeMap<String, Watched<'a>>,
    /// How often each kernel thread of a host had run before the trial.
    before: BTreeMap<(HostId, u32), u64>,
    threads: BTreeMap<String, Vec<NapiThread>>,
    /// The threads of virtual machines before the trial and after it.
    machines: [Vec<MachineThread>; 2],
}

impl<'a> Watch<'a> {
    /// For a trial of `setup` on a path that ends so.
    ///
    /// # Errors
    /// As [`meant`], or if no path joins the stations of a stream.
    pub fn new(setup: &'a Setup, chosen: &[Placed], ends: &Ends, found: &FactsByHost) -> Result<Watch<'a>, PlaceError> {
        let (meant, _) = meant(setup, chosen, found)?;
        for station in meant.keys() {
            ends.is_met(station)?;
        }
        let mut watched = BTreeMap::new();
        for (id, end) in ends.iter() {
            let Some(meant) = meant.get(&end.station).cloned() else { continue };
            let watch = Watched {
                meant,
                by: by(setup, steering(end, found)?),
                station: end.station.clone(),
                host: end.place.host,
                device: end.device.clone(),
                streams: streams_on(setup, ends, id)?,
            };
            watched.insert(ends.label(id)?, watch);
        }
        let (before, threads, machines) = Default::default();
        Ok(Watch { setup, ends: watched, before, threads, machines })
    }

    /// The devices of a host whose kernel threads are to be looked at.
    pub fn polled(&self, host: HostId) -> Vec<String> {
        let here = self.ends.values().filter(|end| end.host == host && end.is_polled());
        here.map(|end| end.device.clone()).collect()
    }

    /// Takes what the host saw of these threads, by device: just before the trial, and just after
    /// it.
    pub fn saw(&mut self, moment: Moment, host: HostId, napi: &BTreeMap<String, Vec<NapiThread>>) {
        for (end, watched) in self.ends.iter().filter(|(_, watched)| watched.host == host) {
            let threads = napi.get(&watched.device).into_iter().flatten().filter(|_| watched.is_polled()).cloned();
            match moment {
                Moment::Before => self.before.extend(threads.map(|thread| ((host, thread.tid), thread.switches))),
                Moment::Behind => {
                    let since = |mut thread: NapiThread| {
                        let earlier = self.before.get(&(host, thread.tid)).copied().unwrap_or(0);
                        thread.switches = thread.switches.saturating_sub(earlier);
                        thread
                    };
                    self.threads.insert(end.clone(), threads.map(since).collect());
                }
            }
        }
    }

    /// Takes the threads by which a host runs virtual machines, which only the coordinator's has.
    pub fn saw_machines(&mut self, moment: Moment, threads: Vec<MachineThread>) {
        let [before, after] = &mut self.machines;
        match moment {
            Moment::Before => before.extend(threads),
            Moment::Behind => after.extend(threads),
        }
    }

    /// What is kept of the trial, whose rows are these.
    pub fn record(&self, streams: &[(String, Batch)]) -> PlacementRecord {
        let each = self.setup.streams.iter().flat_map(|stream| Side::of(stream).map(move |end| (stream, end)));
        let asked = each.map(|(stream, end)| {
            if let Some(core) = stream.rx.core.filter(|_| end == Side::Rx) {
                let of = Some(format!("XDP program at {}", stream.to));
                return (name(stream, end), CpuAsked { cpu: core.name().to_owned(), of });
            }
            let cpu = end.cpu(stream);
            let relative = matches!(cpu, CpuChoice::Same | CpuChoice::Different);
            let of = relative.then(|| name(stream, end.other()));
            (name(stream, end), CpuAsked { cpu: cpu.to_string(), of })
        });
        let softirq = self.ends.iter().map(|(label, Watched { meant, by, station, device, streams: of_path, .. })| {
            let at = |stream: &Stream| receives_at(stream, station);
            let receivers = of_path.iter().filter_map(|stream| Some(name(stream, at(stream)?))).collect();
            let here = of_path.iter().filter(|stream| at(stream).is_some());
            let rows = |stream: &Stream| streams.iter().find(|(name, _)| *name == stream.name).map(|(_, batch)| batch);
            let packets = here.filter_map(|stream| Some(arrived(stream, rows(stream)?))).sum();
            let record = SoftirqRecord {
                device: device.clone(),
                by: *by,
                asked: meant.asked.clone(),
                cpu: meant.cpu.map(|cpu| cpu.cpu),
                packets,
                receivers,
                threads: self.threads.get(label).cloned().unwrap_or_default(),
            };
            (label.clone(), record)
        });
        PlacementRecord {
            asked: asked.chain(self.of_loads()).collect(),
            softirq: softirq.collect(),
            machine_threads: station::guest::threads(
                self.setup,
                &self.machines,
                tardy_sys::proc::sees_kernel_threads(),
            ),
            ..PlacementRecord::default()
        }
    }

    /// What was asked of the loads' threads, by `bulk.from` and `bulk.to`: apart from the thread
    /// of the stream under test that is at the same station.
    fn of_loads(&self) -> impl Iterator<Item = (String, CpuAsked)> {
        let under_test = tardy_spec::under_test(&self.setup.streams);
        self.setup.loads.iter().flat_map(move |load| {
            let sides = [("from", Some(&load.from), load.cpu), ("to", load.to.as_ref(), load.peer_cpu)];
            sides.into_iter().filter_map(move |(role, station, cpu)| {
                let station = station?;
                let relative = matches!(cpu, CpuChoice::Same | CpuChoice::Different);
                let theirs = |stream| Some(name(stream, thread_at(stream, station)?));
                let of = under_test.filter(|_| relative).and_then(theirs);
                Some((format!("{}.{role}", load.name), CpuAsked { cpu: cpu.to_string(), of }))
            })
        })
    }
}

/// The least number of packets that arrived at each end of a stream: one for each row that came
/// through. Over TCP one packet may have brought as many rows as fit into one segment.
fn arrived(stream: &Stream, batch: &Batch) -> u64 {
    let rows = batch.outcome.iter().filter(|outcome| **outcome == Outcome::Received).count() as u64;
    let joins = stream.port.traits().is_connection && stream.kind == Kind::Pingpong;
    if joins { rows / u64::from(stream.reply.in_flight.max(1)) } else { rows }
}
