// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where each measuring thread was asked to run and where it ran, over the trials of a cell.

use std::collections::BTreeMap;
use tardy_model::machine::ThreadRecord;
use tardy_model::result::Placement;
use tardy_model::trial::TrialRecord;

/// Placements by thread, gathered trial by trial.
#[derive(Clone, Debug, Default)]
pub struct Placements {
    threads: BTreeMap<String, Placement>,
}

impl Placements {
    /// Adds a trial's threads.
    pub fn add(&mut self, record: &TrialRecord) {
        for (stream, record) in &record.streams {
            self.thread(format!("{stream}.tx"), &record.tx);
            self.thread(format!("{stream}.rx"), &record.rx);
            if let Some(thread) = record.reply.as_ref().and_then(|reply| reply.thread.as_ref()) {
                self.thread(format!("{stream}.reply"), thread);
            }
        }
        // Instances of a load stand together: `bulk.from`, `bulk.to`.
        for (load, record) in &record.loads {
            for (role, side) in record.instances.iter().flat_map(|instance| instance.sides()) {
                self.thread(format!("{load}.{role}"), &side.thread);
            }
        }
    }

    fn thread(&mut self, name: String, record: &ThreadRecord) {
        let placement = self.threads.entry(name.clone()).or_insert_with(|| Placement {
            thread: name,
            cpu_asked: record.cpu_asked.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string()),
            cpus_seen: Vec::new(),
            policy_asked: record.policy_asked.clone(),
            policy_granted: record.policy_granted.clone(),
            memory_locked: true,
        });
        placement.cpus_seen.extend(&record.cpus_seen);
        placement.cpus_seen.sort_unstable();
        placement.cpus_seen.dedup();
        // One trial without the policy is what a reader must see.
        if record.policy_granted != record.policy_asked {
            placement.policy_granted.clone_from(&record.policy_granted);
        }
        placement.memory_locked &= record.memory_locked;
    }

    /// All of them, by name.
    pub fn finish(self) -> Vec<Placement> {
        self.threads.into_values().collect()
    }
}
