// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device's own stamping: what it is set to (SIOCGHWTSTAMP), and setting it (SIOCSHWTSTAMP,
//! CAP_NET_ADMIN).

use crate::SysError;
use crate::nic::ask;
use serde::{Deserialize, Serialize};
use std::{fmt, mem};

/// HWTSTAMP_TX_OFF: no packet that is sent is stamped.
pub const TX_OFF: i32 = 0;
/// HWTSTAMP_TX_ON: each packet for which a socket asks is stamped.
pub const TX_ON: i32 = 1;
/// HWTSTAMP_FILTER_NONE: no packet that arrives is stamped.
pub const RX_NONE: i32 = 0;
/// HWTSTAMP_FILTER_ALL: every packet that arrives is stamped.
pub const RX_ALL: i32 = 1;

/// What a device is set to stamp (`struct hwtstamp_config`); the numbers are the kernel's, as
/// `hwstamp_ctl` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HwStamp {
    /// HWTSTAMP_FLAG_* bits, 0 on most devices.
    pub flags: i32,
    /// HWTSTAMP_TX_*: which packets that leave are stamped.
    pub tx: i32,
    /// HWTSTAMP_FILTER_*: which packets that arrive are stamped.
    pub rx: i32,
}

impl fmt::Display for HwStamp {
    /// `tx 1 rx 1`, and the flags where there are any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tx {} rx {}", self.tx, self.rx)?;
        if self.flags != 0 { write!(f, " flags {:#x}", self.flags) } else { Ok(()) }
    }
}

/// The number of this request in `include/uapi/linux/sockios.h`.
const SIOCSHWTSTAMP: libc::c_ulong = 0x89b0;
const SIOCGHWTSTAMP: libc::c_ulong = 0x89b1;

#[repr(C)]
struct Config {
    flags: i32,
    tx: i32,
    rx: i32,
}

/// What the device is set to, in the network namespace of the calling thread.
///
/// # Errors
/// EOPNOTSUPP from a device that stamps nothing itself, or whose driver cannot report it; ENODEV
/// without such a device.
pub fn read(device: &str) -> Result<HwStamp, SysError> {
    call(device, SIOCGHWTSTAMP, "SIOCGHWTSTAMP", HwStamp { flags: 0, tx: 0, rx: 0 })
}

/// Sets the device, and returns what the driver granted: it may stamp more than was asked for.
///
/// # Errors
/// EOPNOTSUPP as [`read`]; ERANGE if the device cannot do this; EPERM without CAP_NET_ADMIN.
pub fn set(device: &str, to: HwStamp) -> Result<HwStamp, SysError> {
    call(device, SIOCSHWTSTAMP, "SIOCSHWTSTAMP", to)
}

fn call(device: &str, number: libc::c_ulong, name: &'static str, with: HwStamp) -> Result<HwStamp, SysError> {
    let mut config = Config { flags: with.flags, tx: with.tx, rx: with.rx };
    const { assert!(mem::size_of::<Config>() == mem::size_of::<libc::hwtstamp_config>()) };
    // SAFETY: both commands read and fill a `struct hwtstamp_config`, which `Config` is, field by
    // field; it outlives the call.
    unsafe { ask(device, number, name, (&raw mut config).cast())? };
    Ok(HwStamp { flags: config.flags, tx: config.tx, rx: config.rx })
}
