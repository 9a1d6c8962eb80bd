// SPDX-License-Identifier: MIT OR Apache-2.0
//! tardy's XDP program: its object, how it is loaded into the kernel, and what it writes before a
//! packet: `rx_time`, and `mark` before a synchronisation frame. `programs/xdp.bpf.c` has both
//! structs. [`Ids::read`] is the one place that knows their layout. And the programs that others
//! have attached to a device.

use crate::xsk::{self, tcx_programs};
use libbpf_rs::btf::{Btf, types};
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions, ProgramInfo};
use libbpf_rs::{MapCore, MapFlags, MapHandle, ObjectBuilder, PrintLevel, ProgramType, Xdp, XdpFlags, set_print};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, OnceLock};
use tardy_model::xdp::ProgramHook;
use tardy_sys::nic::{self, FilterWay};

/// The object as clang made it. What is decoded is decoded by these bytes, for they are loaded.
pub const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/xdp.bpf.o"));
/// The map that a program redirects through: the socket of each queue.
pub const SOCKETS: &str = "xsks_map";
const PROGRAM: &str = "tardy_rx";
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
    /// The verifier.
    #[error(
        "the kernel's verifier refuses tardy's XDP program; the last lines of its log:\n{log}\nreport it with this text"
    )]
    Verifier { log: String },
    /// Anything else on the way.
    #[error("{doing} tardy's XDP program failed: {source}: it needs root, and a kernel that has BPF")]
    Libbpf { doing: &'static str, source: libbpf_rs::Error },
    #[error("tardy's XDP program has no descriptor: {0}: too many files are open, raise the limit (`ulimit -n`)")]
    Descriptor(io::Error),
}

/// Which frames the program takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    pub ethertype: u16,
    /// Number of the stream.
    pub stream: u8,
    /// The trial's.
    pub nonce: u64,
}

/// The clock that stamps are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampClock {
    /// The kernel gives it to programs since Linux 6.1.
    Tai,
    Monotonic,
}

/// The program, loaded and not attached. The kernel drops it with this, unless it is attached.
pub struct Program {
    fd: OwnedFd,
    sockets: MapHandle,
    pub ids: Ids,
    pub clock: StampClock,
}

impl Program {
    /// Loads it for a device with this number of queues.
    ///
    /// # Errors
    /// The verifier's, with the end of its log; libbpf's.
    pub fn load(filter: Filter, queues: u32) -> Result<Program, ProgramError> {
        Program::stamping(filter, queues, if has_tai() { StampClock::Tai } else { StampClock::Monotonic })
    }

    /// The same, stamping by this clock.
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
        let failed = |doing| move |source| ProgramError::Libbpf { doing, source };
        let mut open = ObjectBuilder::default().open_memory(object).map_err(failed("opening"))?;
        for mut map in open.maps_mut() {
            if map.name() == SOCKETS {
                map.set_max_entries(queues.max(1)).map_err(failed("sizing the map of"))?;
            } else if map.name().to_string_lossy().ends_with(".rodata") {
                let settings = map.initial_value_mut().filter(|bytes| bytes.len() == SETTINGS);
                settings.ok_or(ProgramError::Lacks("settings"))?.copy_from_slice(&settings_of(filter, clock));
            }
        }
        let object = open.load().map_err(|source| match log.of_verifier() {
            Some(log) => ProgramError::Verifier { log },
            None => ProgramError::Libbpf { doing: "loading", source },
        })?;
        drop(log);
        let program = object.progs().find(|program| program.name() == PROGRAM).ok_or(ProgramError::Lacks(PROGRAM))?;
        let map = object.maps().find(|map| map.name() == SOCKETS).ok_or(ProgramError::Lacks(SOCKETS))?;
        let sockets = MapHandle::try_from(&map).map_err(failed("opening the map of"))?;
        // What the kernel has of it lives as long as its descriptors, or as it is attached.
        let fd = program.as_fd().try_clone_to_owned().map_err(ProgramError::Descriptor)?;
        Ok(Program { fd, sockets, ids: ids()?, clock })
    }

    /// Has the program redirect the packets of a queue to this socket.
    ///
    /// # Errors
    /// The kernel's.
    pub fn serve(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), ProgramError> {
        let number = socket.as_raw_fd() as u32;
        let put = self.sockets.update(&queue.to_ne_bytes(), &number.to_ne_bytes(), MapFlags::ANY);
        put.map_err(|source| ProgramError::Libbpf { doing: "giving a socket to", source })
    }

    /// Runs it once on a packet that came from no device. Gives what it decided (`XDP_PASS` is 2),
    /// and the packet behind what the program wrote before it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn run_on(&self, packet: &[u8]) -> io::Result<(u32, Vec<u8>)> {
        xsk::run_on(self.fd.as_fd(), packet)
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The ids that the structs have in the BTF of the object that is loaded.
fn ids() -> Result<Ids, ProgramError> {
    let failed = |source| ProgramError::Libbpf { doing: "reading the BTF of", source };
    let btf = Btf::from_raw("tardy", OBJECT).map_err(failed)?.ok_or(ProgramError::Lacks("BTF"))?;
    let id = |name: &'static str| {
        let of_name: Option<types::Struct<'_>> = btf.type_by_name(name);
        of_name.map(|found| u32::from(found.type_id())).ok_or(ProgramError::Lacks(name))
    };
    Ok(Ids { rx_time: id("rx_time")?, mark: id("mark")? })
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
fn settings_of(filter: Filter, clock: StampClock) -> [u8; SETTINGS] {
    let mut bytes = [0; SETTINGS];
    bytes[..8].copy_from_slice(&filter.nonce.to_be_bytes());
    bytes[8..10].copy_from_slice(&filter.ethertype.to_ne_bytes());
    bytes[10] = filter.stream;
    bytes[11] = u8::from(clock == StampClock::Tai);
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

/// Bytes before a packet that are read.
pub const AREA: usize = 24;
/// Bytes of the id that ends each struct.
pub const ID: usize = 4;

/// The stamp of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxTime {
    /// By the program's clock, ns.
    pub time_ns: u64,
    /// The CPU that ran the program.
    pub cpu: u32,
    /// The queue that the packet came to.
    pub queue: u32,
    /// The number of a synchronisation frame.
    pub mark: Option<u32>,
}

/// The ids that the structs have in the object's BTF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    pub rx_time: u32,
    pub mark: u32,
}

impl Ids {
    /// The stamp at the end of `area`, the bytes before a packet; `None` if there is none.
    #[inline]
    pub fn read(&self, area: &[u8]) -> Option<RxTime> {
        // Seen from the packet, so that no length of the area is needed.
        let area: &[u8; AREA] = area.last_chunk()?;
        let word = |back: usize| {
            let at = AREA - back;
            u32::from_ne_bytes([area[at], area[at + 1], area[at + 2], area[at + 3]])
        };
        let long = |back: usize| {
            let [low, high] = [word(back), word(back - 4)];
            let halves = if cfg!(target_endian = "little") { [high, low] } else { [low, high] };
            u64::from(halves[0]) << 32 | u64::from(halves[1])
        };
        match word(ID) {
            id if id == self.rx_time => Some(RxTime { time_ns: long(20), cpu: word(12), queue: word(8), mark: None }),
            id if id == self.mark => {
                Some(RxTime { time_ns: long(24), cpu: word(16), queue: word(12), mark: Some(word(8)) })
            }
            _ => None,
        }
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
    let of = |(hook, id)| Attached { device: device.to_owned(), index, hook, id, could_be_native: could(hook) };
    Ok(all.filter(|(_, id)| *id != 0).map(of).collect())
}

/// What the kernel knows of the programs with these ids.
pub(crate) fn infos(ids: &BTreeSet<u32>) -> BTreeMap<u32, ProgramInfo> {
    let options = ProgInfoQueryOptions::default().include_jited_ksyms(true).include_jited_func_lens(true);
    let all = ProgInfoIter::with_query_opts(options).filter(|info| ids.contains(&info.id));
    all.map(|info| (info.id, info)).collect()
}
