// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a network device can stamp (ETHTOOL_GET_TS_INFO).

use crate::error::{SysError, check};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Stamping abilities of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TsInfo {
    /// SOF_TIMESTAMPING_* bits.
    pub flags: u32,
    /// Number of its PTP clock, −1 for none.
    pub phc: i32,
}

impl TsInfo {
    /// Stamps in the sending NIC.
    pub fn tx_hardware(&self) -> bool {
        self.flags & libc::SOF_TIMESTAMPING_TX_HARDWARE != 0
    }
    /// Stamps in the receiving NIC.
    pub fn rx_hardware(&self) -> bool {
        self.flags & libc::SOF_TIMESTAMPING_RX_HARDWARE != 0
    }
    /// Stamps in the sending driver.
    pub fn tx_software(&self) -> bool {
        self.flags & libc::SOF_TIMESTAMPING_TX_SOFTWARE != 0
    }
}

const ETHTOOL_GET_TS_INFO: u32 = 0x41;
const SIOCETHTOOL: libc::c_ulong = 0x8946;

#[repr(C)]
#[derive(Default)]
struct EthtoolTsInfo {
    cmd: u32,
    so_timestamping: u32,
    phc_index: i32,
    tx_types: u32,
    tx_reserved: [u32; 3],
    rx_filters: u32,
    rx_reserved: [u32; 3],
}

/// Asks the device, in the network namespace of the calling thread.
pub fn ts_info(device: &str) -> Result<TsInfo, SysError> {
    let on = || device.to_owned();
    // SAFETY: takes numbers only.
    let fd = check(
        i64::from(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) }),
        "socket",
        on,
    )?;
    // SAFETY: the descriptor was made just now and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let mut info = EthtoolTsInfo { cmd: ETHTOOL_GET_TS_INFO, ..Default::default() };
    // SAFETY: ifreq is plain data.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut info).cast();
    // SAFETY: `request` points at `info`, which is the struct that this command fills, and both outlive the call.
    check(i64::from(unsafe { libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL, &raw mut request) }), "ETHTOOL_GET_TS_INFO", on)?;
    Ok(TsInfo { flags: info.so_timestamping, phc: info.phc_index })
}
