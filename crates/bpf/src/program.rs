// SPDX-License-Identifier: MIT OR Apache-2.0
//! tardy's XDP program, or a user's own in its place: how it is loaded into the kernel, and how the
//! stamp that it writes before a packet is read. tardy's own writes `rx_time`, and `mark` before a
//! synchronisation frame; if it also asks the device, `rx_hints` and `mark_hints`.
//! `include/tardy_hints.h` has these structs. [`Stamps`] finds their members
//! by name in the BTF of the object that is loaded, whosever it is. And the programs that others
//! have attached to a device.

use crate::hints::{Accessor, Columns, Layout, Layouts, LayoutsError};
use crate::user::{SOCKETS, StampClock, UserObject, time_of};
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions, ProgramInfo};
use libbpf_rs::{
    MapCore, MapFlags, MapHandle, MapType, ObjectBuilder, OpenMapMut, OpenObject, PrintLevel, ProgramType, Xdp,
    XdpFlags, num_possible_cpus, set_print,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, OnceLock};
use tardy_model::xdp::{DeviceHint, ProgramHook, UNKNOWN};
use tardy_sys::bpf::{self, tcx_programs};
use tardy_sys::nic::{self, FilterWay};

/// The object as clang made it. What is decoded is decoded by these bytes, for they are loaded.
pub const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/xdp.bpf.o"));
/// The same with a program that asks the device what it knows of each packet.
pub const HINTS_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/xdp_hints.bpf.o"));
const PROGRAM: &str = "tardy_rx";
/// Names of the structs that the program writes.
pub const RX_TIME: &str = "rx_time";
pub const MARK: &str = "mark";
/// Those of the program that asks the device.
pub const RX_HINTS: &str = "rx_hints";
pub const MARK_HINTS: &str = "mark_hints";
/// Bytes of `struct settings`.
const SETTINGS: usize = 16;
/// Lines of the verifier's log that a message quotes: the reason is in the last ones.
const LAST_LINES: usize = 12;

/// Why the program is not in the kernel.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The object is not what tardy built.
    #[error("tardy's XDP program has no {0}: this build is broken, build it again")]
    Lacks(&'static str),
    #[error("the BTF of tardy's XDP program cannot be read: {0}: this build is broken, build it again")]
    Layouts(#[from] LayoutsError),
    /// The verifier refuses tardy's own program.
    #[error(
        "the kernel's verifier refuses tardy's XDP program; the last lines of its log:\n{log}\nreport it with this text"
    )]
    Verifier { log: String },
    /// The same of a user's own.
    #[error(
        "the kernel's verifier refuses the XDP program `{program}`; the last lines of its log:\n{log}\nchange the \
         program, or leave it out: tardy's own takes its place"
    )]
    UserVerifier { program: String, log: String },
    /// The maps of a user's object are too large.
    #[error(
        "its maps need about {need_mib} MiB of the kernel's memory, and tardy loads at most {}: give them fewer entries",
        MOST_OF_MAPS >> 20
    )]
    Maps { need_mib: u64 },
    /// Anything else on the way.
    #[error("{doing} the XDP program failed: {source}{said}: it needs root, and a kernel that has BPF")]
    Libbpf {
        doing: &'static str,
        source: libbpf_rs::Error,
        /// What libbpf said meanwhile.
        said: String,
    },
    #[error("the XDP program has no descriptor: {0}: too many files are open, raise the limit (`ulimit -n`)")]
    Descriptor(io::Error),
}

impl ProgramError {
    /// The reason alone, on one line: for one program that takes the place of another.
    pub(crate) fn in_short(&self) -> String {
        match self {
            ProgramError::Verifier { log } => log.replace('\n', "; "),
            ProgramError::Libbpf { source, .. } => source.to_string(),
            other => other.to_string(),
        }
    }
}

/// Which frames the program takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    pub ethertype: u16,
    /// Number of the stream.
    pub stream: u8,
    /// The trial's random number.
    pub nonce: u64,
}

/// The program that is to be loaded.
#[derive(Clone, Copy, Debug)]
pub enum Chosen<'a> {
    /// tardy's own, for the frames of this filter.
    Own(Filter),
    /// The same, which asks the device for these hints.
    Asking(Filter, &'a [DeviceHint]),
    /// A user's. It decides by itself which packets it takes.
    User(&'a UserObject<'a>),
}

/// The program, loaded and not attached. The kernel drops it with this, unless it is attached.
pub struct Program {
    fd: OwnedFd,
    sockets: MapHandle,
    pub stamps: Stamps,
    pub clock: StampClock,
}

impl Program {
    /// Loads it for the device with this number, and with this number of queues. tardy's own that
    /// asks the device is loaded as one that does not: for that there is [`Program::asking`].
    ///
    /// # Errors
    /// The verifier's, with the end of its log; libbpf's.
    pub fn load(chosen: Chosen<'_>, queues: u32, device: u32) -> Result<Program, ProgramError> {
        match chosen {
            Chosen::Own(filter) | Chosen::Asking(filter, _) => Program::stamping(filter, queues, best_clock()),
            Chosen::User(object) => Program::of_user(object, queues, device),
        }
    }

    /// tardy's own for the device with this number, which it asks for these hints. The kernel lets
    /// only a program ask that is bound to its device (`BPF_F_XDP_DEV_BOUND_ONLY`, Linux 6.3), and
    /// attaches such a program in the driver only.
    ///
    /// # Errors
    /// As [`Program::load`].
    pub fn asking(filter: Filter, hints: &[DeviceHint], queues: u32, device: u32) -> Result<Program, ProgramError> {
        let log = Log::start();
        let clock = best_clock();
        let mut open = sized(HINTS_OBJECT, queues)?;
        set(&mut open, filter, clock, hints)?;
        let mut program = open.progs_mut().find(|program| program.name() == PROGRAM);
        let program = program.as_mut().ok_or(ProgramError::Lacks(PROGRAM))?;
        program.set_ifindex(device);
        program.set_flags(libbpf_sys::BPF_F_XDP_DEV_BOUND_ONLY);
        let refused = |log| ProgramError::Verifier { log };
        Program::loaded(open, PROGRAM, Stamps::asking()?, clock, &log, refused)
    }

    /// tardy's own, stamping by this clock.
    ///
    /// # Errors
    /// As [`Program::load`].
    pub fn stamping(filter: Filter, queues: u32, clock: StampClock) -> Result<Program, ProgramError> {
        Program::of_object(OBJECT, filter, queues, clock)
    }

    /// The same out of another object with its maps and its settings.
    ///
    /// # Errors
    /// As [`Program::load`].
    pub fn of_object(object: &[u8], filter: Filter, queues: u32, clock: StampClock) -> Result<Program, ProgramError> {
        let log = Log::start();
        let mut open = sized(object, queues)?;
        set(&mut open, filter, clock, &[])?;
        let refused = |log| ProgramError::Verifier { log };
        Program::loaded(open, PROGRAM, Stamps::own()?, clock, &log, refused)
    }

    /// A user's own, and nothing else of its object. One that asks the device is bound to it.
    fn of_user(object: &UserObject<'_>, queues: u32, device: u32) -> Result<Program, ProgramError> {
        let log = Log::start();
        let mut open = sized(object.bytes, queues)?;
        for mut program in open.progs_mut() {
            let is_it = program.name() == object.program.as_str() && program.section() == object.section();
            program.set_autoload(is_it);
            if is_it {
                // libbpf knows the type by a few names of sections only.
                program.set_prog_type(ProgramType::Xdp);
            }
            if is_it && object.asks_device() {
                program.set_ifindex(device);
                program.set_flags(libbpf_sys::BPF_F_XDP_DEV_BOUND_ONLY);
            }
        }
        let has_times = object.clock() != StampClock::Unknown;
        let stamps = Stamps::of(object.columns().layouts().clone(), has_times, object.time());
        let refused = |log| ProgramError::UserVerifier { program: object.program.clone(), log };
        Program::loaded(open, &object.program, stamps, object.clock(), &log, refused)
    }

    fn loaded(
        open: OpenObject,
        name: &str,
        stamps: Stamps,
        clock: StampClock,
        log: &Log,
        refused: impl FnOnce(String) -> ProgramError,
    ) -> Result<Program, ProgramError> {
        let object = open.load().map_err(|source| match log.of_verifier() {
            Some(log) => refused(log),
            None => ProgramError::Libbpf { doing: "loading", source, said: log.said() },
        })?;
        let program = object.progs().find(|program| program.name() == name).ok_or(ProgramError::Lacks(PROGRAM))?;
        let map = object.maps().find(|map| map.name() == SOCKETS).ok_or(ProgramError::Lacks(SOCKETS))?;
        let sockets = MapHandle::try_from(&map).map_err(failed("opening the map of"))?;
        // What the kernel has of it lives as long as its descriptors, or as it is attached.
        let fd = program.as_fd().try_clone_to_owned().map_err(ProgramError::Descriptor)?;
        Ok(Program { fd, sockets, stamps, clock })
    }

    /// Has the program redirect the packets of a queue to this socket.
    ///
    /// # Errors
    /// The kernel's.
    pub fn serve(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), ProgramError> {
        let number = socket.as_raw_fd() as u32;
        let put = self.sockets.update(&queue.to_ne_bytes(), &number.to_ne_bytes(), MapFlags::ANY);
        put.map_err(failed("giving a socket to"))
    }

    /// Runs it once on a packet that came from no device, of which the first `metadata` bytes are
    /// what another program left before it. Gives what it decided (`XDP_PASS` is 2), and the packet
    /// behind all that is before it then.
    ///
    /// # Errors
    /// The kernel's.
    pub fn run_on(&self, packet: &[u8], metadata: u32) -> io::Result<(u32, Vec<u8>)> {
        bpf::run_on(self.fd.as_fd(), packet, metadata)
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn failed(doing: &'static str) -> impl Fn(libbpf_rs::Error) -> ProgramError {
    move |source| ProgramError::Libbpf { doing, source, said: String::new() }
}

/// Memory of all maps of an object, which the kernel has and does not give back.
const MOST_OF_MAPS: u64 = 256 << 20;
/// What the kernel needs for an entry of a map that is no plain array, in addition to key and
/// value: its head and its place in the table, bytes.
const OF_ENTRY: u64 = 128;
/// The least that an entry takes.
const LEAST_OF_ENTRY: u64 = 8;

/// About how much memory the kernel takes for a map. One of another kind than it is known here
/// counts as if each CPU had its own.
fn memory_of(map: &OpenMapMut<'_>) -> u64 {
    let cpus = num_possible_cpus().map_or(1, |cpus| cpus.max(1) as u64);
    let entries = u64::from(map.max_entries());
    let [key, value] = [map.key_size(), map.value_size()].map(|size| u64::from(size).next_multiple_of(8));
    let entry = match map.map_type() {
        // Its entries are bytes.
        MapType::RingBuf | MapType::UserRingBuf => return entries,
        MapType::Array => value,
        MapType::StackTrace => value + OF_ENTRY,
        // [`UserObject`] refuses them: the map that libbpf makes for those inside may be large.
        MapType::ArrayOfMaps | MapType::HashOfMaps => return u64::MAX,
        MapType::PercpuArray => value * cpus,
        MapType::Hash | MapType::LruHash | MapType::LpmTrie => key + value + OF_ENTRY,
        MapType::Queue | MapType::Stack | MapType::BloomFilter => value + LEAST_OF_ENTRY,
        _ => key + value * cpus + OF_ENTRY,
    };
    entries.saturating_mul(entry.max(LEAST_OF_ENTRY))
}

/// A path at which nothing can be pinned: `/dev/null` is no folder.
const NO_PINS: &str = "/dev/null/tardy";

/// An object whose maps can be neither pinned, which would leave them behind or take those of
/// others, nor have their memory at an address that the object chooses, nor fill the machine's.
/// [`UserObject`] refuses the first two beforehand; here they fail whatever libbpf reads out of the
/// object.
pub(crate) fn harmless(bytes: &[u8]) -> Result<OpenObject, ProgramError> {
    let mut builder = ObjectBuilder::default();
    let builder = builder.pin_root_path(NO_PINS).map_err(failed("opening"))?;
    let mut open = builder.open_memory(bytes).map_err(failed("opening"))?;
    let mut memory = 0u64;
    for mut map in open.maps_mut() {
        map.set_map_extra(0).map_err(failed("opening"))?;
        memory = memory.saturating_add(memory_of(&map));
    }
    if memory > MOST_OF_MAPS {
        return Err(ProgramError::Maps { need_mib: memory >> 20 });
    }
    Ok(open)
}

/// An object with a place for the socket of each queue.
fn sized(bytes: &[u8], queues: u32) -> Result<OpenObject, ProgramError> {
    let mut open = harmless(bytes)?;
    let mut map = open.maps_mut().find(|map| map.name() == SOCKETS).ok_or(ProgramError::Lacks(SOCKETS))?;
    map.set_max_entries(queues.max(1)).map_err(failed("sizing the map of"))?;
    Ok(open)
}

/// Writes the settings of tardy's own program.
fn set(open: &mut OpenObject, filter: Filter, clock: StampClock, hints: &[DeviceHint]) -> Result<(), ProgramError> {
    let settings = open.maps_mut().find(|map| map.name().to_string_lossy().ends_with(".rodata"));
    let mut settings = settings.ok_or(ProgramError::Lacks("settings"))?;
    let bytes = settings.initial_value_mut().filter(|bytes| bytes.len() == SETTINGS);
    bytes.ok_or(ProgramError::Lacks("settings"))?.copy_from_slice(&settings_of(filter, clock, hints));
    Ok(())
}

fn best_clock() -> StampClock {
    if has_tai() { StampClock::Tai } else { StampClock::Monotonic }
}

/// The columns of samples that the program's hints make, if it asks the device.
///
/// # Errors
/// If the object was built without its structs.
pub fn device_columns() -> Result<Columns, ProgramError> {
    Columns::of(Layouts::of_object(HINTS_OBJECT)?).map_err(|_| ProgramError::Lacks(RX_HINTS))
}

/// True if this kernel gives XDP programs the TAI clock. Asking loads a program of two
/// instructions, so it is asked once.
fn has_tai() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let asked = ProgramType::Xdp.is_helper_supported(libbpf_sys::BPF_FUNC_ktime_get_tai_ns);
        asked.unwrap_or(false)
    })
}

/// `struct settings` of the program.
fn settings_of(filter: Filter, clock: StampClock, hints: &[DeviceHint]) -> [u8; SETTINGS] {
    let mut bytes = [0; SETTINGS];
    bytes[..8].copy_from_slice(&filter.nonce.to_be_bytes());
    bytes[8..10].copy_from_slice(&filter.ethertype.to_ne_bytes());
    bytes[10] = filter.stream;
    bytes[11] = u8::from(clock == StampClock::Tai);
    let asked = hints.iter().fold(0, |bits, hint| bits | hint.bit());
    bytes[12..].copy_from_slice(&asked.to_ne_bytes());
    bytes
}

/// What libbpf says meanwhile. It has one way to say things for the whole process, so one such
/// log is kept at a time.
pub(crate) struct Log {
    _one: MutexGuard<'static, ()>,
}

static HEARD: Mutex<String> = Mutex::new(String::new());

impl Log {
    pub(crate) fn start() -> Log {
        static ONE: Mutex<()> = Mutex::new(());
        let one = ONE.lock().unwrap_or_else(|broken| broken.into_inner());
        heard().clear();
        set_print(Some((PrintLevel::Warn, |_, text| heard().push_str(&text))));
        Log { _one: one }
    }

    /// The last lines of the verifier's log, if it refused.
    pub(crate) fn of_verifier(&self) -> Option<String> {
        let heard = heard();
        let (_, log) = heard.split_once("BEGIN PROG LOAD LOG --\n")?;
        Some(last_lines(log.split_once("-- END PROG LOAD LOG").map_or(log, |(log, _)| log)))
    }

    /// The last lines of what it said, as part of a sentence.
    fn said(&self) -> String {
        let last = last_lines(&heard());
        if last.is_empty() { last } else { format!(" ({})", last.replace('\n', "; ")) }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        set_print(None);
    }
}

fn heard() -> MutexGuard<'static, String> {
    HEARD.lock().unwrap_or_else(|broken| broken.into_inner())
}

/// The last lines of a log: those that say why.
pub fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

/// Bytes of the id that ends each struct.
pub const ID: usize = 4;

/// The stamp of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxTime {
    /// By the program's clock, ns.
    pub time_ns: u64,
    /// The CPU that ran the program; [`UNKNOWN`] if the struct does not have it.
    pub cpu: u32,
    /// The queue that the packet came to; [`UNKNOWN`] likewise.
    pub queue: u32,
    /// The number of a synchronisation frame of tardy's.
    pub mark: Option<u32>,
}

/// Reads stamps: the structs of one object, and their members that make a stamp, each looked up
/// once.
#[derive(Clone, Debug)]
pub struct Stamps {
    layouts: Layouts,
    readers: Vec<Reader>,
    area: usize,
}

/// The members of one struct.
#[derive(Clone, Copy, Debug)]
struct Reader {
    id: u32,
    time: Accessor,
    cpu: Option<Accessor>,
    queue: Option<Accessor>,
    mark: Option<Accessor>,
}

impl Stamps {
    /// Those of tardy's own program.
    ///
    /// # Errors
    /// If the object was built without its structs.
    pub fn own() -> Result<Stamps, ProgramError> {
        Stamps::with(OBJECT, &[RX_TIME, MARK])
    }

    /// Those of the program that asks the device.
    fn asking() -> Result<Stamps, ProgramError> {
        Stamps::with(HINTS_OBJECT, &[RX_TIME, MARK, RX_HINTS, MARK_HINTS])
    }

    fn with(object: &[u8], structs: &[&'static str]) -> Result<Stamps, ProgramError> {
        let layouts = Layouts::of_object(object)?;
        for name in structs {
            layouts.by_name(name).next().ok_or(ProgramError::Lacks(name))?;
        }
        let mut stamps = Stamps::of(layouts, true, None);
        for reader in &mut stamps.readers {
            let layout = stamps.layouts.by_id(reader.id);
            let layout = layout.filter(|layout| [MARK, MARK_HINTS].contains(&layout.name.as_str()));
            reader.mark = layout.and_then(|layout| Accessor::new(layout, "seq").ok());
        }
        Ok(stamps)
    }

    /// Those of any object's structs, by this member where one is named; none if its times are of
    /// no use.
    pub fn of(layouts: Layouts, has_times: bool, time: Option<&str>) -> Stamps {
        let reader = |layout: &Layout| {
            let member = |name: &str| Accessor::new(layout, name).ok();
            let time = member(time_of(layout, time).ok().flatten()?)?;
            Some(Reader { id: layout.id, time, cpu: member("cpu"), queue: member("queue"), mark: None })
        };
        let readers = if has_times { layouts.iter().filter_map(reader).collect() } else { Vec::new() };
        let area = layouts.iter().map(|layout| layout.size).max().unwrap_or(ID);
        Stamps { layouts, readers, area }
    }

    /// Bytes before a packet that are read: those of the largest struct.
    #[inline]
    pub fn area(&self) -> usize {
        self.area
    }

    /// The stamp at the end of `area`, the bytes before a packet; `None` if there is none.
    #[inline]
    pub fn read(&self, area: &[u8]) -> Option<RxTime> {
        let hint = self.layouts.read(area).ok()??;
        let reader = self.readers.iter().find(|reader| reader.id == hint.id())?;
        let word = |member: &Option<Accessor>| member.as_ref().and_then(|member| member.u64(&hint));
        let number = |member| word(member).and_then(|number| u32::try_from(number).ok());
        Some(RxTime {
            time_ns: reader.time.u64(&hint)?,
            cpu: number(&reader.cpu).unwrap_or(UNKNOWN),
            queue: number(&reader.queue).unwrap_or(UNKNOWN),
            mark: number(&reader.mark),
        })
    }
}

// Programs that others have attached.

/// A program on a device.
#[derive(Clone, Debug)]
pub(crate) struct Attached {
    pub device: String,
    pub index: u32,
    pub hook: ProgramHook,
    pub id: u32,
    pub could_be_native: bool,
    /// The number of its network namespace.
    pub namespace: u64,
}

/// A driver that runs XDP programs (NETDEV_XDP_ACT_BASIC).
const RUNS_XDP: u64 = 1;

/// The programs that are attached to a device in the namespace of the calling thread: of XDP, among
/// the filters of clsact, and without a queue discipline.
pub(crate) fn attached(device: &str) -> Result<Vec<Attached>, String> {
    let index = nic::index(device).map_err(|error| error.to_string())?;
    let stdin = std::io::stdin();
    // The query does not use the descriptor that it wants.
    let xdp = Xdp::new(stdin.as_fd()).query(index as i32, XdpFlags::NONE);
    let xdp = xdp.map_err(|error| format!("asking {device} for its XDP program failed: {error}"))?;
    let filters = |way| nic::filter_programs(device, way).map_err(|error| error.to_string());
    let tcx = |egress| {
        let asked = tcx_programs(index, egress);
        asked.map_err(|error| format!("asking {device} for its tcx programs failed: {error}"))
    };
    let hooks = [
        (ProgramHook::XdpNative, vec![xdp.drv_prog_id]),
        (ProgramHook::XdpGeneric, vec![xdp.skb_prog_id]),
        (ProgramHook::XdpOffload, vec![xdp.hw_prog_id]),
        (ProgramHook::TcIngress, filters(FilterWay::Ingress)?),
        (ProgramHook::TcEgress, filters(FilterWay::Egress)?),
        (ProgramHook::TcxIngress, tcx(false)?),
        (ProgramHook::TcxEgress, tcx(true)?),
    ];
    let all = hooks.into_iter().flat_map(|(hook, ids)| ids.into_iter().map(move |id| (hook, id)));
    let could = |hook| hook == ProgramHook::XdpGeneric && xdp.feature_flags & RUNS_XDP != 0;
    let namespace = std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |of| of.ino());
    let of = |(hook, id)| {
        let (device, could_be_native) = (device.to_owned(), could(hook));
        Attached { device, index, hook, id, could_be_native, namespace }
    };
    Ok(all.filter(|(_, id)| *id != 0).map(of).collect())
}

/// What the kernel knows of the programs with these ids.
pub(crate) fn infos(ids: &BTreeSet<u32>) -> BTreeMap<u32, ProgramInfo> {
    let options = ProgInfoQueryOptions::default().include_jited_ksyms(true).include_jited_func_lens(true);
    let all = ProgInfoIter::with_query_opts(options).filter(|info| ids.contains(&info.id));
    all.map(|info| (info.id, info)).collect()
}
