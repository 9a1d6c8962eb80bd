// SPDX-License-Identifier: MIT OR Apache-2.0
//! Special frames, which a path may treat otherwise than a stream's own: those for more than one
//! receiver, the longest ones, and those whose checksum is not yet written.

use crate::validity::{CHECKSUM_LOST, GROUP_LOST, LONG_LOST};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Frames that a path may treat otherwise than short ones for one receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "special_kind")]
pub enum SpecialKind {
    /// IP packets to a group that nobody has joined.
    Multicast,
    /// Requests for a hardware address, which go to all.
    Arp,
    /// IP packets as long as `path.mtu`.
    Longest,
    /// UDP packets whose checksum the device that they leave by is to write, as it is with those of
    /// sockets.
    Unsummed,
}

impl SpecialKind {
    pub const ALL: [SpecialKind; 4] =
        [SpecialKind::Multicast, SpecialKind::Arp, SpecialKind::Longest, SpecialKind::Unsummed];

    /// The rule of validity about those that do not arrive.
    pub const fn rule(self) -> &'static str {
        match self {
            SpecialKind::Multicast | SpecialKind::Arp => GROUP_LOST,
            SpecialKind::Longest => LONG_LOST,
            SpecialKind::Unsummed => CHECKSUM_LOST,
        }
    }

    /// What they are called in a sentence.
    pub const fn says(self) -> &'static str {
        match self {
            SpecialKind::Multicast => "multicast packets",
            SpecialKind::Arp => "ARP requests",
            SpecialKind::Longest => "packets",
            SpecialKind::Unsummed => "packets whose checksum its device is to write",
        }
    }
}

/// Probe packets of such a kind, of one way between two stations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "special_probe")]
pub struct SpecialRecord {
    /// What a path may treat otherwise about them.
    pub kind: SpecialKind,
    /// The station that sent them.
    pub from: String,
    /// The station at whose device they were awaited.
    pub to: String,
    /// Packets that the device took.
    pub sent: u32,
    /// Packets that came to the other end of the path as they should.
    pub arrived: u32,
    /// Packets that came there without the checksum that the sender's device was to write.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub without_checksum: u32,
    /// Length of the longest ones as IP packets, bytes; null of other kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u32>,
    /// Length of the longest ones that arrive, bytes, where those of `bytes` do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_bytes: Option<u32>,
    /// All devices between the stations were made for the path, and nobody has attached a program
    /// to them: nothing that others want keeps such frames.
    pub is_certain: bool,
    /// What keeps them, and the smallest change that lets them pass; null if they arrived, or
    /// nothing is known of it.
    pub kept_by: Option<String>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl SpecialRecord {
    /// Some were sent, and none arrived as it should.
    pub fn is_lost(&self) -> bool {
        self.sent > 0 && self.arrived == 0
    }

    /// They were sent once more, which counts only where none had arrived: what a path has carried
    /// it carries.
    pub fn sent_again(&mut self, again: &SpecialRecord) {
        if self.is_lost() {
            (self.sent, self.arrived) = (self.sent + again.sent, again.arrived);
            self.without_checksum += again.without_checksum;
        }
    }

    /// What became of them, for a message.
    pub fn says(&self) -> String {
        let SpecialRecord { kind, from, to, sent, kept_by, without_checksum, bytes, longest_bytes, .. } = self;
        let of_length = bytes.map(|bytes| format!(" of {bytes} bytes (path.mtu)")).unwrap_or_default();
        let what = format!("{from} sent {sent} {}{of_length} to {to} and ", kind.says());
        let advice = match (kind, longest_bytes) {
            (SpecialKind::Multicast | SpecialKind::Arp, _) => {
                "look for a filter or a switch between them that keeps such frames".to_owned()
            }
            (SpecialKind::Longest, Some(longest)) => format!(
                "the longest that arrive have {longest} bytes: raise the MTU of the devices between them, or set path.mtu to \
                 {longest}"
            ),
            (SpecialKind::Longest, None) => "look for a device between them with a smaller MTU".to_owned(),
            (SpecialKind::Unsummed, _) => format!(
                "something between them hands packets on without what the kernel keeps next to them, as an XDP program that \
                 redirects does. Have {from} write checksums itself (`ethtool -K DEVICE tx-checksumming off`)"
            ),
        };
        let why = kept_by.as_deref().unwrap_or(&advice);
        match kind {
            SpecialKind::Unsummed if *without_checksum > 0 => {
                format!("{what}{without_checksum} arrived without one, which the kernel there drops: {why}")
            }
            SpecialKind::Unsummed => format!("{what}none arrived, while packets with a checksum do: {why}"),
            SpecialKind::Longest => format!("{what}none arrived, while shorter ones do: {why}"),
            SpecialKind::Multicast | SpecialKind::Arp => {
                format!("{what}none arrived, while packets for {to} alone do: {why}")
            }
        }
    }
}
