// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults of XDP and tc programs, found before the first packet.
//!
//! Of an object that tardy loads, [`scan`] reads the instructions: which helpers it calls is
//! certain there. [`cost`] measures what the calls that it finds cost. Programs that others have
//! attached to a device are judged by what they do while probe packets pass ([`Inspector`]), for
//! the kernel gives their calls away only in a form that differs from kernel to kernel.

use crate::program::{Attached, Log, attached, harmless, infos};
use crate::source::{Code, ObjectError};
use crate::user::UserObject;
use crate::xsk::count_runs;
use libbpf_rs::query::ProgramInfo;
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, ProgramInput, ProgramType};
use object::Endianness;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tardy_model::ethernet::{MOST_TAGS, TAGS, UNTAGGED};
use tardy_model::xdp::{
    FaultKind, NumberedDevice, ObjectRecord, ProgramCost, ProgramFault, ProgramHook, ProgramRecord, ProgramSeen,
};
use tardy_sys::nic;
use tardy_sys::packet::{self, Instruction};
use tardy_sys::stamps::TxStamps;
use tardy_sys::udp::{Heard, UdpRx};

/// Helpers that write a line into the kernel's trace: `bpf_trace_printk`, `bpf_trace_vprintk`.
const PRINTS: [i32; 2] = [6, 177];
/// Helpers that take the number of a device, with the register that has it: `bpf_redirect`,
/// `bpf_clone_redirect`, `bpf_redirect_neigh`, `bpf_redirect_peer`.
const REDIRECTS: [(i32, u8); 4] = [(23, 1), (13, 2), (152, 1), (155, 1)];
/// Instructions: a call, a load of 64 bits, which takes two places, and `r0 = 0`.
const CALL: u8 = 0x85;
const LOAD_64: u8 = 0x18;
const ZERO_R0: u8 = 0xb7;
/// A constant into a register, of 64 and of 32 bits.
const SET: [u8; 2] = [0xb7, 0xb4];
/// Bytes of an instruction.
const WIDTH: usize = 8;
/// Calls of one kind that a record lists; with more, the object's author needs no list.
pub const MOST_CALLS: usize = 256;

/// A call in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub section: Arc<str>,
    /// The function that it is in.
    pub function: Arc<str>,
    /// The instruction's number in the section.
    pub instruction: usize,
    /// Where it is in the object's bytes.
    offset: usize,
}

/// What an object's instructions show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Calls that write a line into the kernel's trace.
    pub lines: Vec<Call>,
    /// Redirects to a device whose number is a constant in the code. A number that a program takes
    /// from a map or computes is not seen.
    pub redirects: Vec<(Call, u32)>,
}

/// One instruction.
#[derive(Clone, Copy)]
struct Op {
    code: u8,
    to: u8,
    from: u8,
    jump: i16,
    constant: i32,
}

/// Reads the instructions of all programs and functions of an object.
///
/// # Errors
/// If it is no ELF file of 64 bits, or is damaged.
pub fn scan(bytes: &[u8]) -> Result<Scan, ObjectError> {
    let code = Code::of(bytes)?;
    let mut scan = Scan::default();
    for section in &code.sections {
        let name: Arc<str> = section.name.as_str().into();
        let functions: BTreeMap<u64, Arc<str>> =
            section.functions.iter().map(|(start, function)| (*start, function.name.as_str().into())).collect();
        let at = |instruction: usize| {
            let start = (instruction * WIDTH) as u64;
            let function = functions.range(..=start).next_back().map_or(&name, |(_, function)| function);
            let offset = section.offset + instruction * WIDTH;
            Call { section: Arc::clone(&name), function: Arc::clone(function), instruction, offset }
        };
        look(&ops(section.instructions, code.endian), at, &mut scan);
    }
    Ok(scan)
}

fn ops(code: &[u8], endian: Endianness) -> Vec<Op> {
    let is_little = endian == Endianness::Little;
    let op = |op: &[u8]| {
        let (low, high) = (op[1] & 15, op[1] >> 4);
        let (jump, constant) = ([op[2], op[3]], [op[4], op[5], op[6], op[7]]);
        match is_little {
            true => Op {
                code: op[0],
                to: low,
                from: high,
                jump: i16::from_le_bytes(jump),
                constant: i32::from_le_bytes(constant),
            },
            false => Op {
                code: op[0],
                to: high,
                from: low,
                jump: i16::from_be_bytes(jump),
                constant: i32::from_be_bytes(constant),
            },
        }
    };
    code.chunks_exact(WIDTH).map(op).collect()
}

fn is_jump(op: Op) -> bool {
    matches!(op.code & 7, 5 | 6)
}

/// Notes what one section's instructions show.
fn look(ops: &[Op], at: impl Fn(usize) -> Call, scan: &mut Scan) {
    let target = |(n, op): (usize, &Op)| n.checked_add_signed(isize::from(op.jump) + 1);
    let jumps = ops.iter().enumerate().filter(|(_, op)| is_jump(**op) && op.code != CALL);
    let targets: BTreeSet<usize> = jumps.filter_map(target).collect();
    let mut n = 0;
    while let Some(op) = ops.get(n).copied() {
        if op.code == CALL && op.from == 0 {
            if PRINTS.contains(&op.constant) {
                scan.lines.push(at(n));
            }
            let register = REDIRECTS.iter().find(|(helper, _)| *helper == op.constant).map(|(_, register)| *register);
            if let Some(device) = register.and_then(|register| constant_in(ops, n, register, &targets)) {
                scan.redirects.push((at(n), device));
            }
        }
        n += if op.code == LOAD_64 { 2 } else { 1 };
    }
}

/// The constant that a register has at an instruction, whichever way the program came there.
fn constant_in(ops: &[Op], n: usize, register: u8, targets: &BTreeSet<usize>) -> Option<u32> {
    for at in (0..n).rev() {
        // Somebody may jump in between.
        if targets.contains(&(at + 1)) {
            return None;
        }
        let op = ops[at];
        if is_jump(op) {
            return None;
        }
        // Loads and arithmetic write the register that they name; stores do not.
        if op.to == register && !matches!(op.code & 7, 2 | 3) {
            return SET.contains(&op.code).then_some(op.constant as u32);
        }
    }
    None
}

/// The object with `r0 = 0` in place of these calls.
pub fn without(bytes: &[u8], calls: &[Call]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for call in calls {
        if let Some(place) = bytes.get_mut(call.offset..call.offset + WIDTH) {
            place.copy_from_slice(&[ZERO_R0, 0, 0, 0, 0, 0, 0, 0]);
        }
    }
    bytes
}

/// Pairs of measurements, and runs in each: few, for a program that prints writes a line in each.
const PAIRS: u32 = 101;
const RUNS: u32 = 8;

/// What these calls of a program cost in each run on a packet that came from no device: the program
/// as it is against the same with `r0 = 0` in their place, in turns.
///
/// # Errors
/// A clause that says what failed: the kernel refuses one of the two, or does not run it.
pub fn cost(bytes: &[u8], program: &str, calls: &[Call], packet: &[u8]) -> Result<ProgramCost, String> {
    let mut with = loaded(bytes, program)?;
    let mut bare = loaded(&without(bytes, calls), program)?;
    let run = |object: &mut Object| {
        let program = object.progs_mut().find(|of| of.name() == program).ok_or("it is not in the object".to_owned())?;
        let input = ProgramInput { data_in: Some(packet), repeat: RUNS, ..ProgramInput::default() };
        let output = program.test_run(input).map_err(|error| format!("BPF_PROG_RUN of it failed: {error}"))?;
        Ok::<_, String>(output.duration.as_nanos() as f64)
    };
    let mut differences = Vec::with_capacity(PAIRS as usize);
    for pair in 0..PAIRS {
        let [first, second] = if pair % 2 == 0 { [&mut with, &mut bare] } else { [&mut bare, &mut with] };
        let difference = run(first)? - run(second)?;
        differences.push(if pair % 2 == 0 { difference } else { -difference });
    }
    differences.sort_by(f64::total_cmp);
    let middle = differences.len() / 2;
    // Ranks between which the median is with 95 %: as far from the middle as the number of heads is
    // from half of the throws of a coin.
    let apart = (0.98 * f64::from(PAIRS).sqrt()).ceil() as usize;
    Ok(ProgramCost {
        ns: differences[middle],
        low_ns: differences[middle - apart],
        high_ns: differences[middle + apart],
        pairs: PAIRS,
    })
}

/// What the instructions of a user's own program show: of its section, and of functions that it may
/// call.
///
/// # Errors
/// As [`scan`].
pub fn scan_of(object: &UserObject<'_>) -> Result<Scan, ObjectError> {
    let mut scan = scan(object.bytes)?;
    let is_here = |call: &Call| [object.section(), ".text"].contains(&&*call.section);
    scan.lines.retain(is_here);
    scan.redirects.retain(|(call, _)| is_here(call));
    Ok(scan)
}

/// What the code of a user's own program shows, at the station whose namespace the calling thread
/// is in: of its section, and of functions that it may call. `packet` is one like those that it
/// will see. Its station has no name yet.
///
/// # Errors
/// A clause that says why it cannot be read.
pub fn of_object(object: &UserObject<'_>, packet: &[u8]) -> Result<ObjectRecord, String> {
    let Scan { lines, redirects } = scan_of(object).map_err(|error| error.to_string())?;
    let cost = (!lines.is_empty()).then(|| cost(object.bytes, &object.program, &lines, packet)).transpose();
    let (cost, unmeasured) = cost.map_or_else(|why| (None, Some(why)), |cost| (cost, None));
    let numbered = |(call, number): (Call, u32)| NumberedDevice {
        function: call.function.to_string(),
        number,
        device: nic::name(number),
    };
    Ok(ObjectRecord {
        station: String::new(),
        program: object.program.clone(),
        lines: lines.into_iter().take(MOST_CALLS).map(|call| call.function.to_string()).collect(),
        cost,
        unmeasured,
        devices: redirects.into_iter().take(MOST_CALLS).map(numbered).collect(),
    })
}

/// An object in the kernel, of whose programs only this one was loaded.
fn loaded(bytes: &[u8], program: &str) -> Result<Object, String> {
    let log = Log::start();
    let mut open = harmless(bytes).map_err(|error| format!("it is not opened: {error}"))?;
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
const EVENT: usize = 24;
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
                let starts = info.jited_ksyms.iter().map(|start| *start as usize as u64);
                let mut functions = starts.zip(&info.jited_func_lens);
                functions.any(|(start, length)| (start..=start + u64::from(*length)).contains(&address))
            };
            infos.values().find(has).map(|info| info.id)
        };
        let mut lines = BTreeMap::new();
        for (frames, count) in self.counts("lines") {
            let mut addresses = frames.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
            if let Some(id) = addresses.find_map(of) {
                *lines.entry(id).or_default() += count;
            }
        }
        lines
    }

    /// What went wrong with packets at a program's device, in the namespace of this number.
    fn faults(&self, program: &Attached, namespace: u64) -> Vec<ProgramFault> {
        let mut faults = Vec::new();
        for (key, packets) in self.counts("events") {
            let Ok(key) = <[u8; EVENT]>::try_from(key) else { continue };
            let word = |n: usize| u32::from_ne_bytes([key[4 * n], key[4 * n + 1], key[4 * n + 2], key[4 * n + 3]]);
            let [kind, who, device, to, map, code] = [0, 1, 2, 3, 4, 5].map(word);
            let kind = match kind {
                _ if device != program.index => continue,
                REDIRECT if who == program.id => FaultKind::Redirect,
                EXCEPTION if who == program.id => FaultKind::Abort,
                // It names no program; of a device's only XDP has such redirects.
                FORWARD if u64::from(who) == namespace && program.hook == ProgramHook::XdpNative => FaultKind::Drop,
                _ => continue,
            };
            let (code, by_map) = (code as i32, map != 0);
            let to_device = nic::name(to).filter(|_| !by_map && kind != FaultKind::Abort);
            faults.push(ProgramFault { kind, packets, code: code.saturating_abs(), to, by_map, device: to_device });
        }
        faults
    }
}

/// A packet that is to arrive at a device: the bytes by which it is known.
pub type Mark = Vec<u8>;

/// What was found at a station.
pub struct Seen {
    /// Without the station's name.
    pub programs: Vec<ProgramRecord>,
    pub line_cost: Option<ProgramCost>,
    pub unchecked: Option<String>,
    /// Packets of each mark, by the VLAN tags that they arrived with; `None` where the device could
    /// not be listened to.
    pub by_tags: Vec<Option<BTreeMap<u8, u32>>>,
}

/// Where probe packets arrive: the socket, how each is known, and how many came by their tags.
type Receiving = (UdpRx, Mark, BTreeMap<u8, u32>);

/// Looks at the devices of a station while probe packets pass.
pub struct Inspector {
    attached: Vec<Attached>,
    watch: Option<Watch>,
    before: BTreeMap<u32, ProgramInfo>,
    unchecked: Option<String>,
    receivers: Vec<Option<Receiving>>,
}

/// Every frame.
const ALL: [Instruction; 1] = [Instruction { code: 6, yes: 0, no: 0, k: u32::MAX }];
const BUFFER: i32 = 1 << 20;
/// A probe packet that has not arrived after this time does not.
const LATEST: Duration = Duration::from_millis(100);
const LONGEST: usize = 65_536;

impl Inspector {
    /// Lists the programs on these devices, and from now on watches what they do and receives
    /// packets with these marks. Where nothing is attached nothing is watched.
    pub fn begin(devices: &[String], marks: &[(String, Mark)]) -> Inspector {
        let (mut all, mut unchecked, mut watch) = (Vec::new(), None, None);
        for device in devices {
            match attached(device) {
                Ok(programs) => all.extend(programs),
                Err(why) => unchecked = Some(why),
            }
        }
        if !all.is_empty() {
            match Watch::begin() {
                Ok(begun) => watch = Some(begun),
                Err(why) => unchecked = Some(why),
            }
        }
        let before = infos(&all.iter().map(|program| program.id).collect());
        let receiver = |(device, mark): &(String, Mark)| {
            // Whoever makes the trial's ports ready reports a device that is gone.
            let socket = packet::receiver(device, &ALL, true, false, BUFFER).ok()?;
            Some((socket, mark.clone(), BTreeMap::new()))
        };
        let receivers = marks.iter().map(receiver).collect();
        Inspector { attached: all, watch, before, unchecked, receivers }
    }

    /// Ends when `each` packets of each mark have arrived, or no more will.
    pub fn end(mut self, each: u32) -> Seen {
        self.receive(each);
        let after = infos(&self.attached.iter().map(|program| program.id).collect());
        let namespace = std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |of| of.ino());
        let lines = self.watch.as_ref().map(|watch| watch.lines(&after)).unwrap_or_default();
        let record = |of: &Attached| {
            let info = after.get(&of.id);
            let counted = |of: fn(&ProgramInfo) -> u64, id| {
                let at = |infos: &BTreeMap<u32, ProgramInfo>| infos.get(id).map_or(0, of);
                at(&after).saturating_sub(at(&self.before))
            };
            let seen = self.watch.as_ref().map(|watch| ProgramSeen {
                runs: counted(|info| info.run_cnt, &of.id),
                run_ns: counted(|info| info.run_time_ns, &of.id),
                lines: lines.get(&of.id).copied().unwrap_or(0),
                faults: watch.faults(of, namespace),
            });
            let tag = info.map(|info| info.tag.0.iter().map(|byte| format!("{byte:02x}")).collect());
            ProgramRecord {
                station: String::new(),
                device: of.device.clone(),
                hook: of.hook,
                name: info.map(|info| info.name.to_string_lossy().into_owned()).unwrap_or_default(),
                id: of.id,
                tag: tag.unwrap_or_default(),
                could_be_native: of.could_be_native,
                seen,
            }
        };
        let programs: Vec<ProgramRecord> = self.attached.iter().map(record).collect();
        // What a line costs is not measured while the kernel counts as well.
        self.watch = None;
        let line_cost = lines.values().any(|lines| *lines > 0).then(line_cost);
        let (line_cost, refused) = line_cost.map_or((None, None), |cost| (cost.as_ref().ok().copied(), cost.err()));
        let unchecked = self.unchecked.or(refused.map(|why| format!("what a line costs was not measured: {why}")));
        let by_tags = self.receivers.into_iter().map(|of| of.map(|(.., by_tags)| by_tags)).collect();
        Seen { programs, line_cost, unchecked, by_tags }
    }

    fn receive(&mut self, each: u32) {
        let until = Instant::now() + LATEST;
        let mut bytes = vec![0; LONGEST];
        loop {
            for (socket, mark, by_tags) in self.receivers.iter_mut().flatten() {
                let mut heard = Heard::default();
                while socket.receive(&mut bytes, &mut heard, false).is_ok_and(|packets| packets > 0) {
                    let frame = &bytes[..heard.length.min(LONGEST)];
                    if frame.windows(mark.len().max(1)).any(|part| part == mark) {
                        let tags = tags_in(frame) + u8::from(heard.taken.is_some());
                        *by_tags.entry(tags).or_default() += 1;
                    }
                }
            }
            let all = self.receivers.iter().flatten().all(|(.., by_tags)| by_tags.values().sum::<u32>() >= each);
            if all || Instant::now() > until {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// How many VLAN tags a frame begins with.
fn tags_in(frame: &[u8]) -> u8 {
    let is_tag = |n: &usize| {
        let at = UNTAGGED - 2 + 4 * n;
        frame.get(at..at + 2).is_some_and(|kind| TAGS.iter().any(|tag| tag.to_be_bytes() == *kind))
    };
    (0..=MOST_TAGS).take_while(is_tag).count() as u8
}

/// Sends a frame out of a device several times. Gives how many the device took.
pub fn send(device: &str, priority: u32, frame: &[u8], times: u32) -> u32 {
    let Ok(mut socket) = packet::sender(device, priority, TxStamps::default(), BUFFER, None) else { return 0 };
    (0..times).filter(|_| socket.send(frame, 0, None).is_ok()).count() as u32
}
