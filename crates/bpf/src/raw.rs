// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls on programs that libbpf-rs has in no safe form, each as a safe function. They cannot
//! be in `sys`, which knows no libbpf.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Room that a run of a program gets for what it puts before a packet.
const GROWTH: usize = 256;

/// Attaches a program to a device in the mode of these flags (`XDP_FLAGS_*`). It stays attached as
/// long as the link's descriptor is open anywhere.
///
/// # Errors
/// The kernel's.
pub fn attach(program: BorrowedFd<'_>, index: u32, flags: u32) -> io::Result<OwnedFd> {
    // SAFETY: numbers and pointers, for which zero is a value: nothing is asked for.
    let mut options: libbpf_sys::bpf_link_create_opts = unsafe { mem::zeroed() };
    options.sz = mem::size_of_val(&options) as _;
    options.flags = flags;
    // SAFETY: `options` is valid and states its size; the rest are numbers.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), index as i32, libbpf_sys::BPF_XDP, &raw const options)
    };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor was made just now and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// As [`crate::program::Program::run_on`].
///
/// # Errors
/// The kernel's.
pub fn run_on(program: BorrowedFd<'_>, packet: &[u8]) -> io::Result<(u32, Vec<u8>)> {
    // `struct xdp_md`; its second word is where the packet ends.
    let context = [0, packet.len() as u32, 0, 0, 0, 0];
    let mut out = vec![0; packet.len() + GROWTH];
    // SAFETY: numbers and pointers, for which zero is a value: nothing is asked for.
    let mut options: libbpf_sys::bpf_test_run_opts = unsafe { mem::zeroed() };
    options.sz = mem::size_of_val(&options) as _;
    (options.data_in, options.data_size_in) = (packet.as_ptr().cast(), packet.len() as u32);
    (options.data_out, options.data_size_out) = (out.as_mut_ptr().cast(), out.len() as u32);
    (options.ctx_in, options.ctx_size_in) = (context.as_ptr().cast(), mem::size_of_val(&context) as u32);
    // SAFETY: each pointer is valid for the size that is stated next to it until the call returns.
    let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    out.truncate(options.data_size_out as usize);
    Ok((options.retval, out))
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
    // SAFETY: numbers and pointers, for which zero is a value: nothing is asked for.
    let mut options: libbpf_sys::bpf_prog_query_opts = unsafe { mem::zeroed() };
    options.sz = mem::size_of_val(&options) as _;
    options.prog_ids = ids.as_mut_ptr();
    options.__bindgen_anon_1.count = ids.len() as u32;
    let hook = if egress { libbpf_sys::BPF_TCX_EGRESS } else { libbpf_sys::BPF_TCX_INGRESS };
    // SAFETY: `options` is valid, states its size, and names room for as many ids as it counts.
    match unsafe { libbpf_sys::bpf_prog_query_opts(index as i32, hook, &raw mut options) } {
        0 => {
            // SAFETY: a successful query has filled this member; every bit pattern is a number.
            let count = unsafe { options.__bindgen_anon_1.count } as usize;
            ids.truncate(count);
            Ok(ids)
        }
        result if [-libc::EINVAL, -libc::ENOENT].contains(&result) => Ok(Vec::new()),
        result => Err(io::Error::from_raw_os_error(-result)),
    }
}

/// Has the kernel count how often and how long each program runs, until the descriptor is closed.
///
/// # Errors
/// The kernel's: it can since Linux 5.8.
pub fn count_runs() -> io::Result<OwnedFd> {
    // SAFETY: takes a number only.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor was made just now and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
