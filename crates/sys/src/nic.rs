// SPDX-License-Identifier: MIT OR Apache-2.0
//! A network device: what it can stamp (ETHTOOL_GET_TS_INFO), its driver, whether it has a link,
//! what it can do for AF_XDP (generic netlink, family netdev), and its features, as `ethtool -k`
//! reports them: whether one is on, and whether it can be switched. And the BPF programs among its
//! filters, as `tc filter show` reports them.

use crate::exits::{self, attribute, open as netlink, refusal, u16_at, u32_at};
use crate::{SysError, call, check};
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Stamping abilities of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TsInfo {
    /// SOF_TIMESTAMPING_* bits: where it can take stamps.
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

/// Number of a device in the network namespace of the calling thread.
///
/// # Errors
/// ENODEV without such a device.
pub fn index(device: &str) -> Result<u32, SysError> {
    let name = CString::new(device).map_err(|source| SysError {
        call: "if_nametoindex",
        on: device.to_owned(),
        source: source.into(),
    })?;
    // SAFETY: `name` ends in 0 and outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    let result = if index == 0 { -1 } else { i64::from(index) };
    Ok(check(result, "if_nametoindex", || device.to_owned())? as u32)
}

/// The name of the device of this number in the network namespace of the calling thread; `None`
/// without one.
pub fn name(index: u32) -> Option<String> {
    let mut name = [0; libc::IFNAMSIZ];
    // SAFETY: room for the longest name and the 0 at its end.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: the call has written a text that ends in 0 there.
    Some(unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned())
}

/// The way of packets that a filter is on, by the number that its parent has in a clsact or ingress
/// queue discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum FilterWay {
    Ingress = 0xffff_fff2,
    Egress = 0xffff_fff3,
}

const RTM_NEWTFILTER: u16 = 44;
const RTM_GETTFILTER: u16 = 46;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_ID: u16 = 11;
/// Bytes of `nlmsghdr`, and with `tcmsg` after it.
const MESSAGE_HEAD: usize = 16;
const FILTER_HEAD: usize = MESSAGE_HEAD + 20;
/// The kernel's answers come in buffers of at most this many bytes.
const LARGEST_ANSWER: usize = 32 << 10;

/// The ids of the BPF programs among the filters of a device, in their order. Empty without a
/// queue discipline that has filters there.
///
/// # Errors
/// ENODEV without such a device; what netlink says.
pub fn filter_programs(device: &str, way: FilterWay) -> Result<Vec<u32>, SysError> {
    let failed = |errno| SysError {
        call: "RTM_GETTFILTER",
        on: device.to_owned(),
        source: std::io::Error::from_raw_os_error(errno),
    };
    let fd = netlink(libc::NETLINK_ROUTE)?;
    let mut request = Vec::with_capacity(FILTER_HEAD);
    request.extend((FILTER_HEAD as u32).to_ne_bytes());
    request.extend(RTM_GETTFILTER.to_ne_bytes());
    request.extend(((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    request.extend([0; 12]);
    request.extend(index(device)?.to_ne_bytes());
    request.extend([0; 4]);
    request.extend((way as u32).to_ne_bytes());
    request.extend([0; 4]);
    call::send(&fd, &request, 0).map_err(failed)?;
    let (mut ids, mut bytes) = (Vec::new(), vec![0; LARGEST_ANSWER]);
    loop {
        let got = call::recv(&fd, &mut bytes, 0).map_err(failed)?;
        let mut left = &bytes[..got];
        while let (Some(length), Some(kind)) = (u32_at(left, 0), u16_at(left, 4)) {
            let Some(message) = left.get(..length as usize).filter(|message| message.len() >= MESSAGE_HEAD) else {
                break;
            };
            match refusal(message) {
                // What it says where there is no such queue discipline.
                Some(0 | libc::EINVAL | libc::ENOENT | libc::EOPNOTSUPP) => return Ok(ids),
                Some(errno) => return Err(failed(errno)),
                None if kind == libc::NLMSG_DONE as u16 => return Ok(ids),
                None if kind == RTM_NEWTFILTER => {
                    ids.extend(filter_program(message).filter(|id| !ids.contains(id)));
                }
                None => {}
            }
            left = left.get((length as usize).next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

/// The id of the BPF program that a filter is; `None` of another filter.
fn filter_program(message: &[u8]) -> Option<u32> {
    let attributes = message.get(FILTER_HEAD..)?;
    let is_bpf = attribute(attributes, TCA_KIND)?.starts_with(b"bpf\0");
    let options = attribute(attributes, TCA_OPTIONS).filter(|_| is_bpf)?;
    u32_at(attribute(options, TCA_BPF_ID)?, 0)
}

const ETHTOOL_GCHANNELS: u32 = 0x3c;

#[repr(C)]
#[derive(Default)]
struct EthtoolChannels {
    cmd: u32,
    most: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// How many receive queues a device uses; one if its driver does not say.
///
/// # Errors
/// ENODEV without such a device.
pub fn rx_queues(device: &str) -> Result<u32, SysError> {
    queues(device, |channels| channels.rx + channels.combined)
}

/// The same of transmit queues.
///
/// # Errors
/// As [`rx_queues`].
pub fn tx_queues(device: &str) -> Result<u32, SysError> {
    queues(device, |channels| channels.tx + channels.combined)
}

fn queues(device: &str, of: fn(&EthtoolChannels) -> u32) -> Result<u32, SysError> {
    let mut channels = EthtoolChannels { cmd: ETHTOOL_GCHANNELS, ..Default::default() };
    // SAFETY: `channels` is the struct that this command fills, and outlives the call.
    match unsafe { ask(device, SIOCETHTOOL, "ETHTOOL_GCHANNELS", (&raw mut channels).cast()) } {
        Err(error) if error.errno() == libc::EOPNOTSUPP => Ok(1),
        Err(error) => Err(error),
        Ok(()) => Ok(of(&channels).max(1)),
    }
}

/// What a driver can do for AF_XDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures {
    /// It runs XDP programs itself.
    pub native: bool,
    /// Packets need not be copied.
    pub zero_copy: bool,
    /// The device's own stamp of each packet that is sent.
    pub tx_timestamp: bool,
    pub tx_checksum: bool,
    pub tx_launch_time: bool,
}

/// Of include/uapi/linux/netdev.h: the command and its attributes, and flags in two of those.
const DEV_GET: u8 = 1;
const DEV_IFINDEX: u16 = 1;
const DEV_XDP_FEATURES: u16 = 3;
const DEV_XSK_FEATURES: u16 = 6;
const ACT_BASIC: u64 = 1;
const ACT_XSK_ZEROCOPY: u64 = 8;
const XSK_TX_TIMESTAMP: u64 = 1;
const XSK_TX_CHECKSUM: u64 = 2;
const XSK_TX_LAUNCH_TIME_FIFO: u64 = 4;

/// Asks what the driver can do for AF_XDP, in the network namespace of the calling thread.
///
/// # Errors
/// ENOENT before Linux 6.3, which has no family netdev; ENODEV without such a device; EBADMSG for
/// an answer that is none.
pub fn xdp_features(device: &str) -> Result<XdpFeatures, SysError> {
    let index = index(device)?;
    let socket = exits::open(libc::NETLINK_GENERIC)?;
    let family = exits::family(&socket, "netdev", "CTRL_CMD_GETFAMILY netdev")?;
    let request = exits::asking(family, DEV_GET, DEV_IFINDEX, &index.to_ne_bytes());
    let answer = exits::ask(&socket, &request, "NETDEV_CMD_DEV_GET")?;
    read_xdp_features(&answer).ok_or_else(|| SysError {
        call: "NETDEV_CMD_DEV_GET",
        on: device.to_owned(),
        source: std::io::Error::from_raw_os_error(libc::EBADMSG),
    })
}

/// Reads the answer; `None` if it does not say. Without `xsk-features` (before Linux 6.8) nothing
/// goes with packets.
pub fn read_xdp_features(answer: &[u8]) -> Option<XdpFeatures> {
    let attributes = answer.get(exits::HEADS..)?;
    let flags = |of| {
        let bytes: Option<[u8; 8]> = exits::attribute(attributes, of)?.try_into().ok();
        bytes.map(u64::from_ne_bytes)
    };
    let (xdp, xsk) = (flags(DEV_XDP_FEATURES)?, flags(DEV_XSK_FEATURES).unwrap_or(0));
    Some(XdpFeatures {
        native: xdp & ACT_BASIC != 0,
        zero_copy: xdp & ACT_XSK_ZEROCOPY != 0,
        tx_timestamp: xsk & XSK_TX_TIMESTAMP != 0,
        tx_checksum: xsk & XSK_TX_CHECKSUM != 0,
        tx_launch_time: xsk & XSK_TX_LAUNCH_TIME_FIFO != 0,
    })
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

/// State of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feature {
    pub on: bool,
    /// It can be switched; `[fixed]` in the words of ethtool where not.
    pub switchable: bool,
}

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETH_SS_FEATURES: u32 = 4;
const ETH_GSTRING_LEN: usize = 32;
/// Linux has about 64; an answer with more than this number is invalid.
const MOST: u32 = 1_024;

#[repr(C)]
#[derive(Default)]
struct SetInfo {
    cmd: u32,
    reserved: u32,
    mask: u64,
    count: u32,
}

/// Asks for one feature by its name, in the network namespace of the calling thread; `None` where
/// this kernel has none of that name.
///
/// # Errors
/// ENODEV without such a device.
pub fn feature(device: &str, name: &str) -> Result<Option<Feature>, SysError> {
    let found = states(device, name)?;
    Ok(found.map(|[available, _, active, fixed]| Feature { on: active, switchable: available && !fixed }))
}

/// Asks what one feature that can be switched was last set to. It may be on and not active, as
/// segmentation is without checksums. `None` where this kernel has none of that name, or the device
/// cannot switch it.
///
/// # Errors
/// ENODEV without such a device.
pub fn asked_of_feature(device: &str, name: &str) -> Result<Option<bool>, SysError> {
    let found = states(device, name)?;
    Ok(found.and_then(|[available, requested, _, fixed]| (available && !fixed).then_some(requested)))
}

/// What the kernel says of a feature: available, requested, active, never changed.
fn states(device: &str, name: &str) -> Result<Option<[bool; 4]>, SysError> {
    let mut info = SetInfo { cmd: ETHTOOL_GSSET_INFO, mask: 1 << ETH_SS_FEATURES, ..SetInfo::default() };
    // SAFETY: `info` is the struct that this command reads and fills, with room for the one set
    // that is asked for; it outlives the call.
    unsafe { ask(device, SIOCETHTOOL, "ETHTOOL_GSSET_INFO", (&raw mut info).cast())? };
    let count = info.count;
    if info.mask == 0 || !(1..=MOST).contains(&count) {
        return Ok(None);
    }
    // Command, set, how many; then the names, 32 bytes each. Words, so that it is aligned as the
    // kernel's struct.
    let mut names = vec![0u32; 3 + count as usize * ETH_GSTRING_LEN / 4];
    (names[0], names[1], names[2]) = (ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count);
    // SAFETY: `names` has room for the head and for as many names as this kernel has just reported,
    // which is fixed when it is built.
    unsafe { ask(device, SIOCETHTOOL, "ETHTOOL_GSTRINGS", names.as_mut_ptr().cast())? };
    let bytes: Vec<u8> = names[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let is_it = |text: &[u8]| text.split(|byte| *byte == 0).next() == Some(name.as_bytes());
    let Some(at) = bytes.chunks_exact(ETH_GSTRING_LEN).position(is_it) else { return Ok(None) };
    // Command, how many blocks; then blocks of 32 features: available, requested, active, never
    // changed.
    let blocks = count.div_ceil(32);
    let mut states = vec![0u32; 2 + blocks as usize * 4];
    (states[0], states[1]) = (ETHTOOL_GFEATURES, blocks);
    // SAFETY: `states` has room for the head and for as many blocks as its second word says.
    unsafe { ask(device, SIOCETHTOOL, "ETHTOOL_GFEATURES", states.as_mut_ptr().cast())? };
    Ok(Some(std::array::from_fn(|state| states[2 + at / 32 * 4 + state] >> (at % 32) & 1 == 1)))
}

/// A device's own stamping: what it is set to (SIOCGHWTSTAMP), and setting it (SIOCSHWTSTAMP,
/// CAP_NET_ADMIN).
pub mod hwtstamp {
    use super::ask;
    use crate::SysError;
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
    /// EOPNOTSUPP from a device that stamps nothing itself, or whose driver cannot report it;
    /// ENODEV without such a device.
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
        // SAFETY: both commands read and fill a `struct hwtstamp_config`, which `Config` is, field
        // by field; it outlives the call.
        unsafe { ask(device, number, name, (&raw mut config).cast())? };
        Ok(HwStamp { flags: config.flags, tx: config.tx, rx: config.rx })
    }
}
