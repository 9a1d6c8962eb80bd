// SPDX-License-Identifier: MIT OR Apache-2.0
//! What keeps the clocks of a run's hosts, as it was reported before a trial and behind it, and
//! what follows for two of them: a source for each keeper that both have, and why one that was
//! asked for is none.

use crate::host::HostId;
use std::collections::{BTreeMap, BTreeSet};
use tardy_host::timekeeper::{Apart, Keeper, Kept, MOST_KEPT, Reports};
use tardy_model::time::{LeftOut, Offset, OffsetReading, OtherSource};

/// The reports of one moment.
pub(super) type ByHost = BTreeMap<HostId, Reports>;

/// The reports of both moments.
#[derive(Default)]
pub(super) struct Reported {
    pub(super) of: [ByHost; 2],
    /// When the others were so that are so all the time, by this machine's CLOCK_TAI, ns.
    pub(super) at_tai_ns: [i64; 2],
    /// Hosts with a ptp4l of tardy's own.
    pub(super) observing: BTreeSet<HostId>,
}

impl Reported {
    /// A host's offset with all that was reported of its clock and of this machine's. What tardy's
    /// own ptp4l has measured counts as its exchanges do, and what a program reports about its own
    /// work is only compared.
    pub(super) fn add(&self, host: HostId, offset: Offset) -> Offset {
        let [(theirs, mut why), (ours, our_why)] = [host, HostId::HERE].map(|host| self.reports(host));
        why.extend(our_why);
        let sources = self.sources(&theirs, &ours);
        if !self.observing.contains(&host) {
            why.clear();
        } else if sources.iter().all(|source| source.is_reported) && why.is_empty() {
            why.push(match self.observing.contains(&HostId::HERE) {
                true => "the ptp4l at one end of the wire did not answer".to_owned(),
                false => "no end of its wire is on this machine, by whose clock the trial is".to_owned(),
            });
        }
        let add = |offset: Offset, of: OtherSource| if of.is_reported { offset.beside(of) } else { offset.with(of) };
        let mut offset = sources.into_iter().fold(offset, add);
        let method = Keeper::OnTheWire.name().trim_end_matches(',').to_owned();
        offset.left_out.extend(why.into_iter().map(|why| LeftOut { method: method.clone(), why }));
        offset
    }

    /// What the keepers of one host show, before the trial and behind it; and why one shows
    /// nothing.
    fn reports(&self, host: HostId) -> ([Vec<Kept>; 2], Vec<String>) {
        let none = Reports::default();
        let [before, behind] = [0, 1].map(|moment: usize| self.of[moment].get(&host).unwrap_or(&none));
        Reports::around(before, behind)
    }

    /// The keepers that both have and that follow one reference, and did at both moments.
    fn sources(&self, theirs: &[Vec<Kept>; 2], ours: &[Vec<Kept>; 2]) -> Vec<OtherSource> {
        let [before, behind] = [0, 1].map(|moment: usize| {
            let now_ns = self.at_tai_ns[moment];
            theirs[moment].iter().take(MOST_KEPT).filter_map(move |theirs| {
                let Apart { method, ahead_ns, bound_ns, at_tai_ns } = Kept::apart(theirs, &ours[moment])?;
                let is_reported = theirs.by != Keeper::OnTheWire;
                let at_tai_ns = at_tai_ns.unwrap_or(now_ns);
                Some(((method, is_reported), OffsetReading { at_tai_ns, ahead_ns, bound_ns }))
            })
        });
        let behind: BTreeMap<(String, bool), OffsetReading> = behind.collect();
        let both = before.filter_map(|(of, first)| {
            let last = *behind.get(&of)?;
            let (method, is_reported) = of;
            Some(OtherSource { method, first, last, is_reported })
        });
        both.collect()
    }
}
