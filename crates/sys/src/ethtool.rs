// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of a network device that delay packets, as `ethtool -c`, `-a` and `--show-eee` report
//! them: how long it gathers packets before it interrupts, whether the other end may stop it, and
//! whether its link sleeps.

use crate::SysError;
use crate::nic::{SIOCETHTOOL, ask};

const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_GPAUSEPARAM: u32 = 0x12;
const ETHTOOL_GEEE: u32 = 0x44;

/// How a device gathers packets before it interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalescing {
    /// The first packet waits for this time, µs.
    pub rx_us: u32,
    /// This number of packets ends the wait; 0 for no limit.
    pub rx_frames: u32,
    /// The same of packets that were sent.
    pub tx_us: u32,
    pub tx_frames: u32,
    /// The driver changes these by the traffic.
    pub adaptive_rx: bool,
    pub adaptive_tx: bool,
}

/// `struct ethtool_coalesce` of include/uapi/linux/ethtool.h.
#[repr(C)]
#[derive(Default)]
struct EthtoolCoalesce {
    cmd: u32,
    rx_us: u32,
    rx_frames: u32,
    rx_us_irq: u32,
    rx_frames_irq: u32,
    tx_us: u32,
    tx_frames: u32,
    tx_us_irq: u32,
    tx_frames_irq: u32,
    statistics_us: u32,
    adaptive_rx: u32,
    adaptive_tx: u32,
    by_rate: [u32; 11],
}

/// How a device gathers packets, in the network namespace of the calling thread.
///
/// # Errors
/// EOPNOTSUPP if its driver does not say; ENODEV without such a device.
pub fn coalescing(device: &str) -> Result<Coalescing, SysError> {
    let mut of = EthtoolCoalesce { cmd: ETHTOOL_GCOALESCE, ..EthtoolCoalesce::default() };
    // SAFETY: `of` is the struct that this command fills, and outlives the call.
    unsafe { ask(device, SIOCETHTOOL, "ETHTOOL_GCOALESCE", (&raw mut of).cast())? };
    Ok(Coalescing {
        rx_us: of.rx_us,
        rx_frames: of.rx_frames,
        tx_us: of.tx_us,
        tx_frames: of.tx_frames,
        adaptive_rx: of.adaptive_rx != 0,
        adaptive_tx: of.adaptive_tx != 0,
    })
}

/// Whether a device heeds pause frames (IEEE 802.3x), and sends them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Both ends agree on it.
    pub autoneg: bool,
    /// The other end may stop it.
    pub rx: bool,
    /// It may stop the other end.
    pub tx: bool,
}

#[repr(C)]
#[derive(Default)]
struct EthtoolPause {
    cmd: u32,
    autoneg: u32,
    rx: u32,
    tx: u32,
}

/// Whether a device heeds pause frames, in the network namespace of the calling thread.
///
/// # Errors
/// As [`coalescing`].
pub fn pause(device: &str) -> Result<Pause, SysError> {
    let mut of = EthtoolPause { cmd: ETHTOOL_GPAUSEPARAM, ..EthtoolPause::default() };
    // SAFETY: `of` is the struct that this command fills, and outlives the call.
    unsafe { ask(device, SIOCETHTOOL, "ETHTOOL_GPAUSEPARAM", (&raw mut of).cast())? };
    Ok(Pause { autoneg: of.autoneg != 0, rx: of.rx != 0, tx: of.tx != 0 })
}

/// Whether a link sleeps between packets (Energy-Efficient Ethernet, IEEE 802.3az).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Eee {
    /// It is switched on.
    pub is_enabled: bool,
    /// Both ends have agreed on it.
    pub is_active: bool,
}

#[repr(C)]
#[derive(Default)]
struct EthtoolEee {
    cmd: u32,
    modes: [u32; 3],
    is_active: u32,
    is_enabled: u32,
    tx_lpi_enabled: u32,
    tx_lpi_timer: u32,
    reserved: [u32; 2],
}

/// Whether a device's link sleeps, in the network namespace of the calling thread.
///
/// # Errors
/// As [`coalescing`].
pub fn eee(device: &str) -> Result<Eee, SysError> {
    let mut of = EthtoolEee { cmd: ETHTOOL_GEEE, ..EthtoolEee::default() };
    // SAFETY: `of` is the struct that this command fills, and outlives the call.
    unsafe { ask(device, SIOCETHTOOL, "ETHTOOL_GEEE", (&raw mut of).cast())? };
    Ok(Eee { is_enabled: of.is_enabled != 0, is_active: of.is_active != 0 })
}
