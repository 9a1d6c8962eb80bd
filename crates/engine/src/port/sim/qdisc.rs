// SPDX-License-Identifier: MIT OR Apache-2.0
//! A model of the queue disciplines that hold packets, as the kernel's do it (net/sched/sch_etf.c
//! and sch_taprio.c of Linux 6.12): when each packet leaves, or why it never does. Good enough for
//! gates and reports to be exact; bandwidth is not modelled.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tardy_model::gates::Gates;
use tardy_model::qdisc::{QdiscRecord, ShaperRecord};
use tardy_model::shaper::{Etf, Mode, Shaper, Taprio};
use tardy_model::stream::{Launch, Stream};

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is handed to the driver at this instant.
    Leaves(i64),
    /// Its launch time had passed when the timer fired.
    Missed,
    /// Its launch time was refused; true if that is reported.
    Invalid(bool),
    /// It is dropped without a word.
    Dropped,
}

/// The queue disciplines that one stream goes through.
pub(super) struct Qdisc {
    shaper: Shaper,
    class: Option<u8>,
    launch: Launch,
    /// How late its timer fires, and for what share of the packets that it holds.
    late_ns: i64,
    late_share: f64,
    random: Pcg64Mcg,
    /// How long a packet takes on the wire, ns.
    frame_ns: i64,
    /// The newest launch time that etf has let go.
    last_ns: i64,
    /// From here on the class's window is free for the next launch time that is given.
    free_ns: i64,
    /// When the packet before left.
    left_ns: i64,
    root: QdiscRecord,
    child: Option<QdiscRecord>,
}

impl Qdisc {
    /// For a stream; `nonce` seeds what is drawn.
    pub(super) fn new(shaper: &Shaper, stream: &Stream, nonce: u64) -> Self {
        let class = shaper.classes().map(|classes| classes.of(stream.priority));
        let kind = match shaper {
            Shaper::None => "noqueue",
            Shaper::Cbs(_) => "mqprio",
            shaper => shaper.kind(),
        };
        let minor = |class: u8| shaper.classes().and_then(|classes| classes.minors(class).next()).unwrap_or(1);
        let child = class.filter(|_| shaper.etf(stream.priority).is_some()).map(|class| QdiscRecord {
            kind: "etf".into(),
            handle: "0:".into(),
            parent: Some(format!("100:{:x}", minor(class))),
            class: Some(class),
            ..QdiscRecord::default()
        });
        let bit_s = shaper.taprio().map_or(1_000_000_000, |taprio| taprio.port_bit_s);
        Qdisc {
            shaper: shaper.clone(),
            class,
            launch: stream.launch,
            late_ns: stream.sim.hold.0,
            late_share: stream.sim.hold_share.clamp(0.0, 1.0),
            random: Pcg64Mcg::seed_from_u64(nonce ^ 5),
            frame_ns: stream.frame_time(bit_s).0,
            last_ns: i64::MIN,
            free_ns: i64::MIN,
            left_ns: i64::MIN,
            root: QdiscRecord { kind: kind.into(), handle: "100:".into(), ..QdiscRecord::default() },
            child,
        }
    }

    /// What becomes of a packet of `bytes` that is enqueued at `at_ns` with this launch time.
    /// Instants are TAI.
    pub(super) fn take(&mut self, at_ns: i64, launch_ns: Option<i64>, bytes: u64) -> Fate {
        let (shaper, class) = (self.shaper.clone(), self.class);
        let fate = match &shaper {
            Shaper::Etf(etf) => self.etf(etf, at_ns, launch_ns),
            Shaper::Taprio(taprio) => self.taprio(taprio, class.unwrap_or(0), at_ns, launch_ns),
            Shaper::Mqprio(mqprio) => {
                match mqprio.etf.as_ref().filter(|(_, at)| class.is_some_and(|c| at.contains(&c))) {
                    Some((etf, _)) => self.etf(etf, at_ns, launch_ns),
                    None => Fate::Leaves(at_ns),
                }
            }
            Shaper::None | Shaper::Cbs(_) => Fate::Leaves(at_ns),
        };
        let owner = if self.child.is_some() && fate != Fate::Dropped { &mut self.child } else { &mut None };
        let owner = owner.as_mut().unwrap_or(&mut self.root);
        match fate {
            Fate::Leaves(left) => {
                self.left_ns = left;
                for qdisc in [Some(&mut self.root), self.child.as_mut()].into_iter().flatten() {
                    qdisc.packets += 1;
                    qdisc.bytes += bytes;
                }
            }
            Fate::Missed => {
                owner.drops += 1;
                owner.overlimits += 1;
            }
            Fate::Invalid(_) | Fate::Dropped => owner.drops += 1,
        }
        fate
    }

    /// How late the timer is for the next packet that is held.
    fn late(&mut self) -> i64 {
        if self.late_ns == 0 || !self.random.random_bool(self.late_share) { 0 } else { self.late_ns }
    }

    fn etf(&mut self, etf: &Etf, at_ns: i64, launch_ns: Option<i64>) -> Fate {
        let reports = self.launch.is_some();
        if !etf.skip_sock_check {
            let mode = if etf.deadline_mode { Launch::Deadline } else { Launch::Strict };
            if self.launch != mode {
                return if reports { Fate::Invalid(true) } else { Fate::Dropped };
            }
        }
        // A packet without one has the launch time 0, which has passed.
        let launch_ns = launch_ns.unwrap_or(0);
        if launch_ns < at_ns || launch_ns < self.last_ns {
            return Fate::Invalid(reports);
        }
        if etf.deadline_mode {
            self.last_ns = launch_ns;
            return Fate::Leaves(at_ns);
        }
        let release_ns = launch_ns - etf.delta.0;
        let left_ns = if release_ns > at_ns { release_ns + self.late() } else { at_ns };
        if left_ns > launch_ns {
            return Fate::Missed;
        }
        self.last_ns = launch_ns;
        Fate::Leaves(left_ns)
    }

    fn taprio(&mut self, taprio: &Taprio, class: u8, at_ns: i64, launch_ns: Option<i64>) -> Fate {
        let (gates, entries) = (Gates::of(&taprio.schedule, class), Gates::by_entry(&taprio.schedule, class));
        if let Some(launch_ns) = launch_ns
            && entries.next_open(launch_ns, self.frame_ns) != Some(launch_ns)
        {
            return Fate::Dropped;
        }
        match (&taprio.mode, &taprio.etf) {
            (Mode::TxtimeAssist { delay }, Some((etf, at))) if at.contains(&class) => {
                let launch_ns = launch_ns.or_else(|| {
                    let given = entries.next_open((at_ns + delay.0).max(self.free_ns), self.frame_ns)?;
                    self.free_ns = given + self.frame_ns;
                    Some(given)
                });
                match launch_ns {
                    Some(launch_ns) => self.etf(etf, at_ns, Some(launch_ns)),
                    None => Fate::Dropped,
                }
            }
            _ => {
                let free_ns = if self.left_ns == i64::MIN { at_ns } else { (self.left_ns + self.frame_ns).max(at_ns) };
                match gates.next_open(free_ns, self.frame_ns) {
                    Some(open_ns) if open_ns > at_ns => {
                        let late = self.late();
                        gates.next_open(open_ns + late, self.frame_ns).map_or(Fate::Dropped, Fate::Leaves)
                    }
                    Some(open_ns) => Fate::Leaves(open_ns),
                    None => Fate::Dropped,
                }
            }
        }
    }

    /// What its counters say.
    pub(super) fn record(&self) -> ShaperRecord {
        ShaperRecord {
            asked: self.shaper.kind().to_owned(),
            device: "sim".to_owned(),
            driver: None,
            schedule: self.shaper.taprio().map(|taprio| taprio.schedule.clone()),
            qdiscs: [Some(self.root.clone()), self.child.clone()].into_iter().flatten().collect(),
            differs: Vec::new(),
        }
    }
}
