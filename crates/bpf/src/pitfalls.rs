// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults of XDP and tc programs, found before the first packet.
//!
//! Of an object that tardy loads, [`scan`] reads the instructions: which helpers it calls is
//! certain there. [`cost`] measures what the calls that it finds cost. Programs that others have
//! attached to a device are judged by what they do while probe packets pass ([`Inspector`]), for
//! the kernel gives their calls away only in a form that differs from kernel to kernel.

use crate::probes::{Arriving, BUFFER, Came, count_marks};
use crate::program::{Attached, Log, attached, harmless, infos};
pub use crate::scan::{Call, Scan, scan, scan_sections, without};
use crate::source::ObjectError;
use crate::user::UserObject;
use libbpf_rs::query::ProgramInfo;
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, ProgramInput, ProgramType};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
pub use tardy_model::xdp::MOST_CALLS;
use tardy_model::xdp::{
    ArrivedProbes, AwaitedProbes, DeviceWithin, FaultKind, NumberedDevice, ObjectRecord, ProgramCost, ProgramFault,
    ProgramHook, ProgramRecord, ProgramSeen,
};
use tardy_sys::bpf::count_runs;
use tardy_sys::nic;
use tardy_sys::packet::{self, Instruction};
use tardy_sys::process;
use tardy_sys::stamps::RxStamps;
use tardy_sys::thread::close_together;
use tardy_sys::udp::{Heard, UdpRx};

/// Pairs of measurements, and runs in each: few, for a program that prints writes a line in each.
const PAIRS: u32 = 101;
const RUNS: u32 = 8;
/// No pair begins later: a program may take a millisecond and more for a packet.
const COST_LIMIT: Duration = Duration::from_secs(2);

/// What these calls of a program cost in each run on a packet that came from no device: the program
/// as it is against the same with `r0 = 0` in their place, in turns.
///
/// # Errors
/// A clause that says what failed: the kernel refuses one of the two, or does not run it, or the
/// program takes too long.
pub fn cost(bytes: &[u8], program: &str, calls: &[Call], packet: &[u8]) -> Result<ProgramCost, String> {
    let mut with = loaded(bytes, program)?;
    let mut bare = loaded(&without(bytes, calls), program)?;
    let run = |object: &mut Object| {
        let program = object.progs_mut().find(|of| of.name() == program).ok_or("it is not in the object".to_owned())?;
        let input = ProgramInput { data_in: Some(packet), repeat: RUNS, ..ProgramInput::default() };
        let output = program.test_run(input).map_err(|error| format!("BPF_PROG_RUN of it failed: {error}"))?;
        Ok::<_, String>(output.duration.as_nanos() as f64)
    };
    let began = Instant::now();
    in_pairs(|is_bare| run(if is_bare { &mut bare } else { &mut with }), || began.elapsed())
}

/// Runs the program as it is and bare (`run(true)`), in turns, until there are enough pairs or the
/// time is up: the pair that has begun then is still taken.
///
/// # Errors
/// `run`'s; or that there are too few pairs for an interval.
pub fn in_pairs(
    mut run: impl FnMut(bool) -> Result<f64, String>,
    elapsed: impl Fn() -> Duration,
) -> Result<ProgramCost, String> {
    let mut differences = Vec::with_capacity(PAIRS as usize);
    while differences.len() < PAIRS as usize && elapsed() < COST_LIMIT {
        let bare_first = differences.len() % 2 == 1;
        let (first, second) = (run(bare_first)?, run(!bare_first)?);
        differences.push(if bare_first { second - first } else { first - second });
    }
    differences.sort_by(f64::total_cmp);
    let pairs = differences.len();
    let from_end = from_end(pairs).ok_or_else(|| {
        format!(
            "it takes too long: {pairs} pairs of {RUNS} runs took {:.1} s, and an interval of 95 % needs 6 pairs",
            elapsed().as_secs_f64()
        )
    })?;
    let middle = (differences[(pairs - 1) / 2] + differences[pairs / 2]) / 2.0;
    let (low_ns, high_ns) = (differences[from_end], differences[pairs - 1 - from_end]);
    Ok(ProgramCost { ns: middle, low_ns, high_ns, pairs: pairs as u32 })
}

/// How many of this number of values may be left out at each end, so that the median is among the
/// others with at least 95 %: as many as the fewer of heads and tails are in 5 % of as many throws
/// of a coin. `None` for fewer than six values.
fn from_end(values: usize) -> Option<usize> {
    let (mut chance, mut sum, mut heads) = (0.5_f64.powi(values as i32), 0.0, 0);
    loop {
        sum += chance;
        if 2.0 * sum > 0.05 {
            return usize::checked_sub(heads, 1);
        }
        heads += 1;
        chance *= (values + 1 - heads) as f64 / heads as f64;
    }
}

/// What the instructions of a user's own program show: of its section, and of functions that it may
/// call.
///
/// # Errors
/// As [`scan`].
pub fn scan_of(object: &UserObject<'_>) -> Result<Scan, ObjectError> {
    scan_sections(object.bytes, |name| [object.section(), ".text"].contains(&name))
}

/// What the lines cost that a user's own program writes, in each run on a packet like those that
/// it will see.
///
/// # Errors
/// As [`cost`]; or a clause that says why it cannot be read.
pub fn cost_of_object(object: &UserObject<'_>, packet: &[u8]) -> Result<ProgramCost, String> {
    let scan = scan_of(object).map_err(|error| error.to_string())?;
    cost(object.bytes, &object.program, &scan.lines, packet)
}

/// What the code of a user's own program shows, at the station whose namespace the calling thread
/// is in. Its station has no name yet, and what its lines cost was not measured.
///
/// # Errors
/// A clause that says why it cannot be read.
pub fn of_object(object: &UserObject<'_>) -> Result<ObjectRecord, String> {
    let Scan { lines, redirects, unsearched } = scan_of(object).map_err(|error| error.to_string())?;
    let numbered = |(call, number): (Call, u32)| NumberedDevice {
        function: call.function.to_string(),
        number,
        device: nic::name(number),
    };
    Ok(ObjectRecord {
        station: String::new(),
        program: object.program.clone(),
        lines: lines.into_iter().take(MOST_CALLS).map(|call| call.function.to_string()).collect(),
        cost: None,
        unmeasured: None,
        unsearched: (unsearched.len() + redirects.len().saturating_sub(MOST_CALLS)) as u64,
        devices: redirects.into_iter().take(MOST_CALLS).map(numbered).collect(),
    })
}

/// An object in the kernel, of whose programs only this one was loaded.
fn loaded(bytes: &[u8], program: &str) -> Result<Object, String> {
    let log = Log::start();
    let mut open = harmless(bytes).map_err(|error| error.to_string())?;
    for mut of in open.progs_mut() {
        let is_it = of.name() == program;
        of.set_autoload(is_it);
        // libbpf knows the type by a few names of sections only.
        if is_it && of.section().to_string_lossy().starts_with("xdp") {
            of.set_prog_type(ProgramType::Xdp);
        }
    }
    open.load().map_err(|error| match log.of_verifier() {
        Some(log) => format!("the verifier refuses it; the last lines of its log:\n{log}"),
        None => format!("it is not loaded: {error}"),
    })
}

/// The object whose programs watch others.
const WATCH: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watch.bpf.o"));
/// The one among them that prints.
const PRINTING: &str = "prints";

/// What one line costs on this machine.
///
/// # Errors
/// As [`cost`].
pub fn line_cost() -> Result<ProgramCost, String> {
    let scan = scan(WATCH).map_err(|error| error.to_string())?;
    cost(WATCH, PRINTING, &scan.lines, &[0; 64])
}

/// Watches while packets pass. The kernel detaches it all with this.
struct Watch {
    object: Object,
    _links: Vec<Link>,
    _counting: OwnedFd,
}

/// Bytes of `struct event`.
const EVENT: usize = 28;
const REDIRECT: u32 = 1;
const EXCEPTION: u32 = 2;
const FORWARD: u32 = 3;

impl Watch {
    fn begin() -> Result<Watch, String> {
        let counting = count_runs().map_err(|error| format!("the kernel does not count runs: {error}"))?;
        let log = Log::start();
        let open = ObjectBuilder::default().open_memory(WATCH).map_err(|error| error.to_string())?;
        let object = open.load().map_err(|error| match log.of_verifier() {
            Some(log) => format!("the verifier refuses tardy's watching programs; the last lines of its log: {log}"),
            None => format!("tardy's watching programs are not loaded: {error}"),
        })?;
        let of = object.progs_mut().filter(|program| program.name() != PRINTING);
        let links = of.map(|program| program.attach()).collect::<Result<Vec<Link>, _>>();
        let links = links.map_err(|error| format!("the kernel's tracepoints cannot be watched: {error}"))?;
        Ok(Watch { object, _links: links, _counting: counting })
    }

    /// The entries of one of its maps, with their counts.
    fn counts(&self, map: &str) -> Vec<(Vec<u8>, u64)> {
        let Some(map) = self.object.maps().find(|of| of.name() == map) else { return Vec::new() };
        let count = |key: Vec<u8>| {
            let value = map.lookup(&key, MapFlags::ANY).ok()??;
            Some((key, u64::from_ne_bytes(value.try_into().ok()?)))
        };
        map.keys().filter_map(count).collect()
    }

    /// Lines by the program that printed them: the innermost of these that was running.
    fn lines(&self, infos: &BTreeMap<u32, ProgramInfo>) -> BTreeMap<u32, u64> {
        let of = |address: u64| {
            let has = |info: &&ProgramInfo| {
                // The kernel may hide where its code is (kernel.kptr_restrict): then they are 0.
                let starts = info.jited_ksyms.iter().map(|start| *start as usize as u64);
                let mut functions = starts.zip(&info.jited_func_lens).filter(|(start, _)| *start != 0);
                functions.any(|(start, length)| (start..=start + u64::from(*length)).contains(&address))
            };
            infos.values().find(has).map(|info| info.id)
        };
        let mut lines = BTreeMap::new();
        for (frames, count) in self.counts("lines") {
            let mut addresses =
                frames.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).filter(|at| *at != 0);
            if let Some(id) = addresses.find_map(of) {
                *lines.entry(id).or_default() += count;
            }
        }
        lines
    }

    /// What went wrong with packets at a program's device, which is in that namespace, or in the
    /// station's.
    fn faults(&self, program: &Attached, netns: Option<&str>) -> Vec<ProgramFault> {
        let named = |index: u32| match netns {
            None => nic::name(index),
            Some(netns) => process::in_netns(&netns_file(netns), || nic::name(index)).ok().flatten(),
        };
        let mut faults = Vec::new();
        for (key, packets) in self.counts("events") {
            let Ok(key) = <[u8; EVENT]>::try_from(key) else { continue };
            let word = |n: usize| u32::from_ne_bytes([key[4 * n], key[4 * n + 1], key[4 * n + 2], key[4 * n + 3]]);
            let [kind, who, device, to, map, code, space] = [0, 1, 2, 3, 4, 5, 6].map(word);
            let kind = match kind {
                _ if (device, u64::from(space)) != (program.index, program.namespace) => continue,
                REDIRECT if who == program.id => FaultKind::Redirect,
                EXCEPTION if who == program.id => FaultKind::Abort,
                // It names no program; of a device's only XDP has such redirects.
                FORWARD if program.hook == ProgramHook::XdpNative => FaultKind::Drop,
                _ => continue,
            };
            let (code, by_map) = (code as i32, map != 0);
            let to_device = (!by_map && kind != FaultKind::Abort).then(|| named(to)).flatten();
            faults.push(ProgramFault { kind, packets, code: code.saturating_abs(), to, by_map, device: to_device });
        }
        faults
    }
}

/// What was found at a station.
pub struct Seen {
    /// Without the station's name.
    pub programs: Vec<ProgramRecord>,
    pub unchecked: Option<String>,
    /// What arrived of all that is awaited; `None` where the device could not be listened to.
    pub arrived: Vec<Option<ArrivedProbes>>,
}

/// Looks at the devices of a station while probe packets pass.
pub struct Inspector {
    /// Each with the namespace and whether it belongs to the path, if its device is inside that.
    attached: Vec<(Attached, Option<DeviceWithin>)>,
    watch: Option<Watch>,
    before: BTreeMap<u32, ProgramInfo>,
    unchecked: Option<String>,
    /// Of all that is awaited: where it comes in, and behind the filters of tc.
    receivers: [Vec<Option<Arriving<UdpRx>>>; 2],
}

/// A socket filter that takes every frame whole.
const ALL: [Instruction; 1] = [Instruction { code: 6, yes: 0, no: 0, k: u32::MAX }];

/// The file by which `ip netns` knows a network namespace.
fn netns_file(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
}

impl Inspector {
    /// Lists the programs on these devices, and on those inside the path, and from now on watches
    /// what they do and receives what is awaited. Where nothing is attached nothing is watched.
    pub fn begin(devices: &[String], inside: &[DeviceWithin], awaited: &[AwaitedProbes]) -> Inspector {
        let (mut all, mut unchecked, mut watch) = (Vec::new(), None, None);
        let here = devices.iter().map(|device| attached(device));
        let elsewhere = inside.iter().map(|of| {
            let within = process::in_netns(&netns_file(&of.netns), || attached(&of.device));
            (within.unwrap_or_else(|error| Err(error.to_string())), Some(of))
        });
        for (programs, within) in here.map(|of| (of, None)).chain(elsewhere) {
            match programs {
                Ok(programs) => all.extend(programs.into_iter().map(|program| (program, within.cloned()))),
                Err(why) => unchecked = Some(why),
            }
        }
        if !all.is_empty() {
            match Watch::begin() {
                Ok(begun) => watch = Some(begun),
                Err(why) => unchecked = Some(why),
            }
        }
        let before = infos(&all.iter().map(|(program, _)| program.id).collect());
        let at = |from, mark: &[u8]| Arriving::at(from, mark);
        // Whoever makes the trial's ports ready reports a device that is gone.
        let first = |of: &AwaitedProbes| {
            // A device inside the path need not listen to all: it filters nothing that comes in.
            let open = || packet::receiver(&of.device, &ALL, of.netns.is_none(), RxStamps::default(), BUFFER);
            let opened = match &of.netns {
                None => open().ok()?,
                Some(netns) => process::in_netns(&netns_file(netns), open).ok()?.ok()?,
            };
            Some(at(opened, &of.mark))
        };
        let behind =
            |of: &AwaitedProbes| Some(at(packet::behind_filters(&of.device, of.protocol?, BUFFER).ok()?, &of.mark));
        let receivers = [awaited.iter().map(first).collect(), awaited.iter().map(behind).collect()];
        Inspector { attached: all, watch, before, unchecked, receivers }
    }

    /// Ends when `each` packets of all that is awaited have arrived, or no more will.
    pub fn end(mut self, each: u32) -> Seen {
        let mut places = self.receivers.iter_mut().flatten().flatten().collect::<Vec<_>>();
        let is_whole = count_marks(&mut places, each, |socket, bytes| {
            let mut heard = Heard::default();
            let packets = socket.receive(bytes, &mut heard, false).unwrap_or(0);
            let Heard { length, taken, is_unsummed, .. } = heard;
            (packets > 0).then_some(Came { length, tag_taken: taken.map(|(_, tag)| tag), is_unsummed })
        });
        let after = infos(&self.attached.iter().map(|(program, _)| program.id).collect());
        let lines = self.watch.as_ref().map(|watch| watch.lines(&after)).unwrap_or_default();
        // Of a program that it interprets it gives the interpreter's address, and no length.
        let shows = |info: &ProgramInfo| {
            info.jited_ksyms.iter().zip(&info.jited_func_lens).any(|(start, length)| !start.is_null() && *length > 0)
        };
        let hides = |info: &ProgramInfo| !shows(info);
        let printed = |watch: &Watch| !watch.counts("lines").is_empty();
        if after.values().any(hides) && self.watch.as_ref().is_some_and(printed) {
            let why = "lines were printed, and the kernel hides which program did it: set kernel.kptr_restrict to 0 or 1, and \
                       net.core.bpf_jit_enable to 1";
            self.unchecked.get_or_insert_with(|| why.to_owned());
        }
        let record = |(of, within): &(Attached, Option<DeviceWithin>)| {
            let netns = within.as_ref().map(|within| within.netns.as_str());
            let info = after.get(&of.id);
            let counted = |of: fn(&ProgramInfo) -> u64, id| {
                let at = |infos: &BTreeMap<u32, ProgramInfo>| infos.get(id).map_or(0, of);
                at(&after).saturating_sub(at(&self.before))
            };
            let seen = self.watch.as_ref().map(|watch| ProgramSeen {
                runs: counted(|info| info.run_cnt, &of.id),
                run_ns: counted(|info| info.run_time_ns, &of.id),
                lines: lines.get(&of.id).copied().unwrap_or(0),
                faults: watch.faults(of, netns),
            });
            let tag = info.map(|info| info.tag.0.iter().map(|byte| format!("{byte:02x}")).collect());
            ProgramRecord {
                station: String::new(),
                device: of.device.clone(),
                netns: netns.map(str::to_owned),
                hook: of.hook,
                name: info.map(|info| info.name.to_string_lossy().into_owned()).unwrap_or_default(),
                id: of.id,
                tag: tag.unwrap_or_default(),
                could_be_native: of.could_be_native,
                of_path: within.as_ref().is_some_and(|within| within.has_program),
                seen,
            }
        };
        // The path's own programs are no news, unless something is wrong with them.
        let is_wrong = |program: &ProgramRecord| {
            program.seen.as_ref().is_none_or(|seen| seen.lines > 0 || !seen.faults.is_empty())
        };
        let records = self.attached.iter().map(record);
        let programs: Vec<ProgramRecord> = records.filter(|program| !program.of_path || is_wrong(program)).collect();
        let [first, behind] = self.receivers;
        let mut sockets = Vec::new();
        let came = |(first, behind): (Option<Arriving<UdpRx>>, Option<Arriving<UdpRx>>)| {
            let mut known = |place: Option<Arriving<UdpRx>>| {
                let Arriving { from, by_tags, without_checksum, least_ttl, by_pcp, .. } = place?;
                sockets.push(from);
                let count: u32 = by_tags.values().sum();
                // What was not read is not missing.
                (is_whole || count >= each).then_some((by_tags, without_checksum, least_ttl, by_pcp, count))
            };
            let let_on = known(behind).map(|(.., count)| count);
            let (by_tags, without_checksum, least_ttl, by_pcp, _) = known(first)?;
            Some(ArrivedProbes { by_tags, by_pcp, without_checksum, least_ttl, let_on })
        };
        let arrived = first.into_iter().zip(behind).map(came).collect();
        close_together(sockets);
        Seen { programs, unchecked: self.unchecked, arrived }
    }
}
