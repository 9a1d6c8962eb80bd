// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands of bpf(2) that libbpf-rs has in no safe form: attaching a program to a device by a
//! link, running one on a packet, listing those of a hook, and counting how long programs run. Each
//! takes a prefix of `union bpf_attr` (include/uapi/linux/bpf.h); what is left out is zero. The
//! prefix goes as far as the kernel writes: it takes no notice of the size where it answers.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::{io, mem};

const PROG_TEST_RUN: libc::c_int = 10;
const PROG_QUERY: libc::c_int = 16;
const LINK_CREATE: libc::c_int = 28;
const ENABLE_STATS: libc::c_int = 32;
/// Where a program is attached (`enum bpf_attach_type`).
const XDP: u32 = 37;
const TCX_INGRESS: u32 = 46;
const TCX_EGRESS: u32 = 47;
/// How a program is attached to a device: in its driver, or behind it on packet buffers
/// (include/uapi/linux/if_link.h).
pub const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
pub const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Room that a run of a program gets for what it puts before a packet.
const GROWTH: usize = 256;

#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
}

#[repr(C)]
#[derive(Default)]
struct Query {
    target_ifindex: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    prog_ids: u64,
    prog_cnt: u32,
    padding: u32,
    prog_attach_flags: u64,
    link_ids: u64,
    link_attach_flags: u64,
    /// The kernel writes it whenever it lists programs of tcx.
    revision: u64,
}

/// One command. A result of at least 0 is a descriptor or nothing.
///
/// # Safety
/// Each address in `attr` is valid for the size that is stated with it until the call returns, and
/// `attr` has all that the kernel answers to this command.
unsafe fn bpf<T>(command: libc::c_int, attr: &mut T) -> io::Result<i32> {
    // SAFETY: `attr` is valid for its size; the caller answers for the addresses in it.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), mem::size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: the callers give a descriptor that the kernel has just made, which has no owner.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Attaches a program to a device in the mode of these flags (`XDP_FLAGS_*`). It stays attached as
/// long as the link's descriptor is open anywhere.
///
/// # Errors
/// The kernel's.
pub fn attach_xdp(program: BorrowedFd<'_>, index: u32, flags: u32) -> io::Result<OwnedFd> {
    let prog_fd = program.as_raw_fd() as u32;
    let mut attr = LinkCreate { prog_fd, target_ifindex: index, attach_type: XDP, flags };
    // SAFETY: it has no address, and no answer.
    unsafe { bpf(LINK_CREATE, &mut attr) }.map(owned)
}

/// Runs an XDP program once on a packet, in memory, of which the first `metadata` bytes are what
/// somebody else left before it. Gives what the program returned, and the packet behind all that
/// is before it then.
///
/// # Errors
/// The kernel's.
pub fn run_on(program: BorrowedFd<'_>, packet: &[u8], metadata: u32) -> io::Result<(u32, Vec<u8>)> {
    // `struct xdp_md`: its first words are where the packet begins and where it ends.
    let context = [metadata, packet.len() as u32, 0, 0, 0, 0];
    let mut out = vec![0; packet.len() + GROWTH];
    let address = |at: *const u8| at.expose_provenance() as u64;
    let mut attr = TestRun {
        prog_fd: program.as_raw_fd() as u32,
        data_size_in: packet.len() as u32,
        data_size_out: out.len() as u32,
        data_in: address(packet.as_ptr()),
        data_out: out.as_mut_ptr().expose_provenance() as u64,
        ctx_size_in: mem::size_of_val(&context) as u32,
        ctx_in: address(context.as_ptr().cast()),
        ..TestRun::default()
    };
    // SAFETY: the packet, the room for it and the context outlive the call, each with its size; the
    // answer is `retval`, `duration` and the sizes.
    unsafe { bpf(PROG_TEST_RUN, &mut attr)? };
    out.truncate(attr.data_size_out as usize);
    Ok((attr.retval, out))
}

/// The most programs of one hook that are listed.
const MOST_PROGRAMS: usize = 64;

/// The ids of the programs that are attached to a device without a queue discipline (tcx), in the
/// order in which they run; none on a kernel that has no such hook (before Linux 6.6).
///
/// # Errors
/// The kernel's.
pub fn tcx_programs(index: u32, egress: bool) -> io::Result<Vec<u32>> {
    let mut ids = vec![0u32; MOST_PROGRAMS];
    let mut attr = Query {
        target_ifindex: index,
        attach_type: if egress { TCX_EGRESS } else { TCX_INGRESS },
        prog_ids: ids.as_mut_ptr().expose_provenance() as u64,
        prog_cnt: MOST_PROGRAMS as u32,
        ..Query::default()
    };
    // SAFETY: `ids` has room for as many ids as are stated, and outlives the call; the answer ends
    // with the revision.
    match unsafe { bpf(PROG_QUERY, &mut attr) } {
        Ok(_) => {
            ids.truncate(attr.prog_cnt as usize);
            Ok(ids)
        }
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Has the kernel count how often and how long each program runs, until the descriptor is closed.
///
/// # Errors
/// The kernel's: it can since Linux 5.8.
pub fn count_runs() -> io::Result<OwnedFd> {
    // What is counted (`enum bpf_stats_type`): the time of runs.
    let mut attr = 0u32;
    // SAFETY: it has no address, and no answer.
    unsafe { bpf(ENABLE_STATS, &mut attr) }.map(owned)
}
