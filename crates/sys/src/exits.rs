// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tasks that end: the kernel sends a message for each (taskstats over generic netlink), which
//! waits in a socket's buffer until it is read. Nothing runs meanwhile, so listening disturbs
//! nobody: the task that ends pays for its own message.

use crate::call;
use crate::udp::buffer;
use crate::{SysError, check};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A task that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    pub tid: u32,
    pub name: String,
    /// CPU on which it ended.
    pub cpu: u32,
    /// Time that it ran since it started, ns.
    pub run_ns: i64,
}

/// Who listens, one socket for each CPU, for a message does not say where its task ran.
#[derive(Debug)]
pub struct Exits {
    sockets: Vec<(u32, OwnedFd)>,
}

/// What a CPU's socket holds: a message takes about 2 KiB of it, so some four thousand tasks.
const ROOM_BYTES: i32 = 8 << 20;
/// A message's bytes; `struct taskstats` grows with the kernel.
const LARGEST: usize = 8 << 10;

const CONTROL_FAMILY: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const TASKSTATS_GET: u8 = 1;
const REGISTER_CPUMASK: u16 = 3;
const TYPE_PID: u16 = 1;
const TYPE_STATS: u16 = 3;
const TYPE_AGGR_PID: u16 = 4;
/// Of `struct taskstats` (include/uapi/linux/taskstats.h), which only grows at its end.
const RUN_TOTAL_AT: usize = 72;
const NAME_AT: usize = 80;
const NAME_BYTES: usize = 32;
/// `nlmsghdr`, and with `genlmsghdr` after it.
const HEAD: usize = 16;
pub(crate) const HEADS: usize = 20;

/// A request of generic netlink with one attribute, a text.
fn request(family: u16, command: u8, attribute: u16, text: &str) -> Vec<u8> {
    asking(family, command, attribute, &[text.as_bytes(), &[0]].concat())
}

/// The same of an attribute of whatever bytes.
pub(crate) fn asking(family: u16, command: u8, attribute: u16, bytes_of_it: &[u8]) -> Vec<u8> {
    let value = 4 + bytes_of_it.len();
    let padded = value.next_multiple_of(4);
    let mut bytes = Vec::with_capacity(HEADS + padded);
    bytes.extend(((HEADS + padded) as u32).to_ne_bytes());
    bytes.extend(family.to_ne_bytes());
    bytes.extend((libc::NLM_F_REQUEST as u16 | libc::NLM_F_ACK as u16).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([command, 1, 0, 0]);
    bytes.extend((value as u16).to_ne_bytes());
    bytes.extend(attribute.to_ne_bytes());
    bytes.extend(bytes_of_it);
    bytes.resize(HEADS + padded, 0);
    bytes
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The value of an attribute.
pub(crate) fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (length, kind) = (usize::from(u16_at(bytes, 0)?), u16_at(bytes, 2)?);
        let value = bytes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

/// errno of an answer that is an error or an acknowledgement.
pub(crate) fn refusal(answer: &[u8]) -> Option<i32> {
    let is_error = u16_at(answer, 4)? == libc::NLMSG_ERROR as u16;
    is_error.then(|| u32_at(answer, HEAD).map(|errno| -(errno as i32)))?
}

/// A task's end out of a message of the kernel's; `None` if it is of something else.
pub fn exit(message: &[u8], cpu: u32) -> Option<Exit> {
    let of_task = attribute(message.get(HEADS..)?, TYPE_AGGR_PID)?;
    let tid = u32_at(attribute(of_task, TYPE_PID)?, 0)?;
    let stats = attribute(of_task, TYPE_STATS)?;
    let run_ns = u64::from_ne_bytes(stats.get(RUN_TOTAL_AT..RUN_TOTAL_AT + 8)?.try_into().ok()?);
    let name = stats.get(NAME_AT..NAME_AT + NAME_BYTES)?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let name = String::from_utf8_lossy(&name[..end]).into_owned();
    Some(Exit { tid, name, cpu, run_ns: i64::try_from(run_ns).unwrap_or(i64::MAX) })
}

/// A socket of netlink, of this protocol of its.
pub(crate) fn open(protocol: i32) -> Result<OwnedFd, SysError> {
    let on = || "netlink".to_owned();
    // SAFETY: a plain call; a result that is no error is a descriptor that nobody else has.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
    check(i64::from(fd), "socket", on)?;
    // SAFETY: as above.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: numbers, for which all zero is a value: the kernel chooses the address.
    let mut address: libc::sockaddr_nl = unsafe { mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as u16;
    let size = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` is a netlink address of that size and outlives the call.
    let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size) };
    check(i64::from(bound), "bind", on)?;
    Ok(fd)
}

/// Asks, and reads the answers until one is an error or an acknowledgement. Gives the bytes of the
/// last other one.
pub(crate) fn ask(fd: &OwnedFd, request: &[u8], what: &'static str) -> Result<Vec<u8>, SysError> {
    let failed = |errno| SysError {
        call: what,
        on: "generic netlink".to_owned(),
        source: std::io::Error::from_raw_os_error(errno),
    };
    call::send(fd, request, 0).map_err(failed)?;
    let (mut answer, mut bytes) = (Vec::new(), vec![0; LARGEST]);
    loop {
        let got = call::recv(fd, &mut bytes, 0).map_err(failed)?;
        match refusal(&bytes[..got]) {
            Some(0) => return Ok(answer),
            Some(errno) => return Err(failed(errno)),
            None => answer = bytes[..got].to_vec(),
        }
    }
}

/// The number of a family of generic netlink.
pub(crate) fn family(fd: &OwnedFd, name: &str, what: &'static str) -> Result<u16, SysError> {
    let answer = ask(fd, &request(CONTROL_FAMILY, GET_FAMILY, FAMILY_NAME, name), what)?;
    let id = answer.get(HEADS..).and_then(|attributes| u16_at(attribute(attributes, FAMILY_ID)?, 0));
    Ok(id.unwrap_or(0))
}

impl Exits {
    /// Listens for tasks that end on these CPUs, from now on.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN, in a PID or network namespace other than the machine's, and where the
    /// kernel is built without taskstats.
    pub fn listen(cpus: &[u32]) -> Result<Exits, SysError> {
        let mut sockets = Vec::new();
        let mut number = None;
        for cpu in cpus {
            let fd = open(libc::NETLINK_GENERIC)?;
            buffer(&fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, ROOM_BYTES, "SO_RCVBUF")?;
            let family = match number {
                Some(family) => family,
                None => *number.insert(family(&fd, "TASKSTATS", "CTRL_CMD_GETFAMILY TASKSTATS")?),
            };
            let register = request(family, TASKSTATS_GET, REGISTER_CPUMASK, &cpu.to_string());
            ask(&fd, &register, "TASKSTATS_CMD_ATTR_REGISTER_CPUMASK")?;
            sockets.push((*cpu, fd));
        }
        Ok(Exits { sockets })
    }

    /// The tasks that ended since the last call, and whether some are missing because there was no
    /// room for their messages.
    pub fn take(&self) -> (Vec<Exit>, bool) {
        let (mut exits, mut incomplete) = (Vec::new(), false);
        let mut bytes = vec![0; LARGEST];
        for (cpu, fd) in &self.sockets {
            loop {
                match call::recv(fd, &mut bytes, libc::MSG_DONTWAIT) {
                    Ok(got) => exits.extend(exit(&bytes[..got], *cpu)),
                    // What comes after it is still to be read.
                    Err(libc::ENOBUFS) => incomplete = true,
                    Err(libc::EINTR) => {}
                    Err(_) => break,
                }
            }
        }
        (exits, incomplete)
    }
}
