// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a network device may do by itself, as `ethtool -k` reports it: whether a feature is on, and
//! whether it can be switched.

use crate::error::SysError;
use crate::nic::{SIOCETHTOOL, ask};
use serde::{Deserialize, Serialize};

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
    let block = &states[2 + at / 32 * 4..][..4];
    let is = |word: u32| word >> (at % 32) & 1 == 1;
    Ok(Some(Feature { on: is(block[2]), switchable: is(block[0]) && !is(block[3]) }))
}
