// SPDX-License-Identifier: MIT OR Apache-2.0
//! A path of two network devices that XDP programs make: what arrives at one leaves by the other.
//! Each program finds its other device in a map, which is filled when the program is loaded, by the
//! device's name. The programs are attached by links, so they go with the process.

use crate::program::{Log, ProgramError, harmless};
use crate::xsk::XdpError;
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore, MapFlags, Program};
use std::os::fd::{AsFd, OwnedFd};
use tardy_model::xdp::{XdpMode, XdpRefusal};
use tardy_sys::{bpf, nic};

/// The object as clang made it.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/forward.bpf.o"));
const PROGRAM: &str = "tardy_forward";
const PRINTING: &str = "tardy_printing";
const MAP: &str = "leaves_by";

/// The programs of both devices. They are attached as long as this is there.
#[derive(Debug)]
pub struct Forwarding {
    _links: [OwnedFd; 2],
    /// The kernel's numbers of the programs.
    ids: [u32; 2],
}

impl Forwarding {
    /// Attaches the programs to two devices of this namespace, in this mode and in no other. They
    /// print a line for each packet if this says so.
    ///
    /// # Errors
    /// If a device is missing or has a program, or its driver does not have the mode.
    pub fn between(devices: [&str; 2], mode: XdpMode, prints: bool) -> Result<Forwarding, XdpError> {
        let [a, b] = devices;
        let name = if prints { PRINTING } else { PROGRAM };
        let ((first, of_first), (second, of_second)) = (attached(a, b, mode, name)?, attached(b, a, mode, name)?);
        Ok(Forwarding { _links: [first, second], ids: [of_first, of_second] })
    }

    /// True if the kernel has compiled both programs, false if it interprets one.
    ///
    /// # Errors
    /// If the kernel does not show them.
    pub fn is_compiled(&self) -> Result<bool, XdpError> {
        let options = ProgInfoQueryOptions::default().include_jited_prog_insns(true);
        let all = ProgInfoIter::with_query_opts(options).filter(|info| self.ids.contains(&info.id));
        let compiled: Vec<bool> = all.map(|info| !info.jited_prog_insns.is_empty()).collect();
        if compiled.len() < self.ids.len() {
            return Err(ProgramError::Lacks("what the kernel says of its programs").into());
        }
        Ok(compiled.into_iter().all(|is| is))
    }
}

/// The link of a program that is attached, and its number.
fn attached(from: &str, to: &str, mode: XdpMode, name: &'static str) -> Result<(OwnedFd, u32), XdpError> {
    let index = |device: &str| nic::index(device).map_err(|error| XdpError::Device(error, device.to_owned()));
    let (from_index, to_index) = (index(from)?, index(to)?);
    let log = Log::start();
    let libbpf = |doing, source| ProgramError::Libbpf { doing, source, said: String::new() };
    let mut open = harmless(OBJECT)?;
    for mut program in open.progs_mut() {
        let is_it = program.name() == name;
        program.set_autoload(is_it);
    }
    let object = open.load().map_err(|source| match log.of_verifier() {
        Some(log) => ProgramError::Verifier { log },
        None => libbpf("loading", source),
    })?;
    let map = object.maps().find(|map| map.name() == MAP).ok_or(ProgramError::Lacks(MAP))?;
    map.update(&0u32.to_ne_bytes(), &to_index.to_ne_bytes(), MapFlags::ANY)
        .map_err(|source| libbpf("giving the other device to", source))?;
    let program = object.progs().find(|program| program.name() == name).ok_or(ProgramError::Lacks(name))?;
    let flags = match mode {
        XdpMode::Generic => bpf::XDP_FLAGS_SKB_MODE,
        XdpMode::Native | XdpMode::ZeroCopy => bpf::XDP_FLAGS_DRV_MODE,
    };
    let id = Program::id_from_fd(program.as_fd()).map_err(|source| libbpf("asking the kernel for", source))?;
    let link = bpf::attach_xdp(program.as_fd(), from_index, flags).map_err(|why| match why.raw_os_error() {
        Some(libc::EBUSY) => XdpError::Attached { device: from.to_owned() },
        Some(libc::EEXIST) => XdpError::OtherMode { device: from.to_owned() },
        _ => {
            let refused = XdpRefusal { mode, why: format!("the driver refuses the program: {why}") };
            XdpError::Refused { device: from.to_owned(), refused: vec![refused] }
        }
    })?;
    Ok((link, id))
}
