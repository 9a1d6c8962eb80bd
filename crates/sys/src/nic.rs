// SPDX-License-Identifier: MIT OR Apache-2.0
//! A network device: what it can stamp (ETHTOOL_GET_TS_INFO), its driver, whether it has a link.

use crate::error::{SysError, check};
use serde::{Deserialize, Serialize};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Stamping abilities of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TsInfo {
    /// SOF_TIMESTAMPING_* bits.
    pub flags: u32,
    /// Number of its PTP clock, −1 for none.
    pub phc: i32,
    /// HWTSTAMP_FILTER_* that it can be set to: bit n for filter n.
    pub rx_filters: u32,
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
    /// Stamps in the receiving NIC of every packet, not only of PTP's.
    pub fn rx_all(&self) -> bool {
        self.rx_hardware() && self.rx_filters & (1 << libc::HWTSTAMP_FILTER_ALL) != 0
    }
    /// Stamps in the sending driver.
    pub fn tx_software(&self) -> bool {
        self.flags & libc::SOF_TIMESTAMPING_TX_SOFTWARE != 0
    }
}

const ETHTOOL_GET_TS_INFO: u32 = 0x41;
pub(crate) const SIOCETHTOOL: libc::c_ulong = 0x8946;

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
    let mut info = EthtoolTsInfo { cmd: ETHTOOL_GET_TS_INFO, ..Default::default() };
    // SAFETY: `info` is the struct that this command fills, and outlives the call.
    unsafe { ask(device, SIOCETHTOOL, "ETHTOOL_GET_TS_INFO", (&raw mut info).cast())? };
    Ok(TsInfo { flags: info.so_timestamping, phc: info.phc_index, rx_filters: info.rx_filters })
}

const ETHTOOL_GDRVINFO: u32 = 0x3;

#[repr(C)]
struct EthtoolDrvInfo {
    cmd: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    erom: [u8; 32],
    reserved: [u8; 12],
    counts: [u32; 5],
}

/// The driver of a device in the network namespace of the calling thread.
///
/// # Errors
/// EOPNOTSUPP if it does not say; ENODEV without such a device.
pub fn driver(device: &str) -> Result<String, SysError> {
    // SAFETY: numbers and bytes, for which all zero is a value.
    let mut info: EthtoolDrvInfo = unsafe { mem::zeroed() };
    info.cmd = ETHTOOL_GDRVINFO;
    // SAFETY: `info` is the struct that this command fills, and outlives the call.
    unsafe { ask(device, SIOCETHTOOL, "ETHTOOL_GDRVINFO", (&raw mut info).cast())? };
    let end = info.driver.iter().position(|byte| *byte == 0).unwrap_or(info.driver.len());
    Ok(String::from_utf8_lossy(&info.driver[..end]).into_owned())
}

/// True if the device is up and has a link to another one (IFF_RUNNING), in the network namespace
/// of the calling thread.
///
/// # Errors
/// ENODEV without such a device.
pub fn has_link(device: &str) -> Result<bool, SysError> {
    let (fd, mut request) = open(device)?;
    // SAFETY: `request` is a valid ifreq with a name that ends in 0; the call fills its flags.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) };
    check(i64::from(result), "SIOCGIFFLAGS", || device.to_owned())?;
    // SAFETY: a successful SIOCGIFFLAGS has filled this member of the union.
    let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
    Ok(flags & libc::IFF_RUNNING != 0)
}

/// A socket to ask through, and a request that names the device.
fn open(device: &str) -> Result<(OwnedFd, libc::ifreq), SysError> {
    let on = || device.to_owned();
    // SAFETY: takes numbers only.
    let fd = check(
        i64::from(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) }),
        "socket",
        on,
    )?;
    // SAFETY: the descriptor was made just now and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    // SAFETY: ifreq is plain data.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    Ok((fd, request))
}

/// One request about a device whose answer goes to `data`.
///
/// # Safety
/// `data` points at the writable struct that this request reads and fills.
pub(crate) unsafe fn ask(
    device: &str,
    number: libc::c_ulong,
    call: &'static str,
    data: *mut libc::c_char,
) -> Result<(), SysError> {
    let (fd, mut request) = open(device)?;
    request.ifr_ifru.ifru_data = data;
    // SAFETY: `request` is a valid ifreq; what it points at is the caller's promise.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), number, &raw mut request) };
    check(i64::from(result), call, || device.to_owned())?;
    Ok(())
}
