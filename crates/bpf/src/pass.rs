// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a network device takes an XDP program in a mode: one that lets every frame pass is
//! attached by a link, and is gone with it, also after SIGKILL.

use crate::program::harmless;
use std::os::fd::{AsFd, OwnedFd};
use tardy_model::xdp::XdpMode;
use tardy_sys::bpf;

/// The object as clang made it.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pass.bpf.o"));

/// Attaches the program to the device of this number, in this mode and in no other. It stays as
/// long as the answer is there.
///
/// # Errors
/// In words: the kernel's reason, or the driver's.
pub fn attach(ifindex: u32, mode: XdpMode) -> Result<OwnedFd, String> {
    let open = harmless(OBJECT).map_err(|error| error.to_string())?;
    let object = open.load().map_err(|error| format!("the kernel does not load the program: {error}"))?;
    let program = object.progs().next().ok_or("the object has no program")?;
    let flags = match mode {
        XdpMode::Generic => bpf::XDP_FLAGS_SKB_MODE,
        XdpMode::Native | XdpMode::ZeroCopy => bpf::XDP_FLAGS_DRV_MODE,
    };
    bpf::attach_xdp(program.as_fd(), ifindex, flags).map_err(|why| match why.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => "another program is attached".to_owned(),
        Some(libc::EOPNOTSUPP) => "the driver does not have it".to_owned(),
        _ => why.to_string(),
    })
}
