// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much time of CPUs the control groups of this process leave it, as containers do: a thread
//! that has used it up stops until the next period, whatever its policy among ordinary ones.

use std::fs;
use std::path::{Path, PathBuf};

/// Where groups lie, of the one hierarchy of version 2 and of version 1's for CPUs.
const MOUNT: &str = "sys/fs/cgroup";

/// What the group with the least share may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Its file with the limit.
    pub file: String,
    pub quota_us: u64,
    pub period_us: u64,
}

/// The folders of a process's groups, from its own up to the first one, by its `/proc/self/cgroup`.
fn groups(root: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut folders = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let mount = match controllers.split(',').any(|one| one == "cpu") {
            true => [controllers, "cpu"].map(|name| format!("{MOUNT}/{name}")).into_iter().collect(),
            false if controllers.is_empty() => vec![MOUNT.to_owned()],
            false => Vec::new(),
        };
        let Some(mount) = mount.into_iter().find(|mount| root.join(mount).is_dir()) else { continue };
        // What a container sees of the path may lie above what it sees of the folders.
        let path = Path::new(path.trim_start_matches('/'));
        let sound = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let path = if sound { path } else { Path::new("") };
        folders.extend(path.ancestors().map(|path| Path::new(&mount).join(path)));
    }
    folders
}

/// The limit with the least share of a CPU; `None` if nothing limits this process.
pub fn read(root: &Path) -> Option<Quota> {
    let text = |folder: &Path, file: &str| fs::read_to_string(root.join(folder).join(file)).ok();
    let number = |folder: &Path, file: &str| text(folder, file)?.trim().parse::<u64>().ok();
    let of = |folder: PathBuf| {
        let (file, quota_us, period_us) = match text(&folder, "cpu.max") {
            Some(limit) => {
                let (quota, period) = limit.trim().split_once(' ')?;
                ("cpu.max", quota.parse().ok()?, period.parse().ok()?)
            }
            // Without a limit it is -1.
            None => {
                let [quota, period] = ["cpu.cfs_quota_us", "cpu.cfs_period_us"].map(|file| number(&folder, file));
                ("cpu.cfs_quota_us", quota?, period?)
            }
        };
        let file = format!("/{}", folder.join(file).display());
        (period_us > 0).then_some(Quota { file, quota_us, period_us })
    };
    let share = |of: &Quota| of.quota_us as f64 / of.period_us as f64;
    groups(root).into_iter().filter_map(of).min_by(|one, other| share(one).total_cmp(&share(other)))
}

/// For how long groups of this process have been stopped because their time was used up, ns: of
/// the one for which that was longest.
pub fn stopped_ns(root: &Path) -> i64 {
    let of = |folder: PathBuf| {
        let text = fs::read_to_string(root.join(folder).join("cpu.stat")).ok()?;
        text.lines().find_map(|line| match line.split_once(' ')? {
            ("throttled_usec", us) => us.trim().parse::<i64>().ok()?.checked_mul(1_000),
            ("throttled_time", ns) => ns.trim().parse().ok(),
            _ => None,
        })
    };
    groups(root).into_iter().filter_map(of).max().unwrap_or(0)
}
