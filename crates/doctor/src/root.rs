// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of the kernel below one folder, so that a test can have a machine of its own.

use std::fs;
use std::path::{Path, PathBuf};
use tardy_host::cpus::parse_list;

/// The folder below which a machine's files are.
pub(crate) struct Root<'r>(pub(crate) &'r Path);

impl Root<'_> {
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    /// What is no UTF-8 is replaced: a task gives itself any name.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.path(path)).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end_matches(['\n', '\0']).trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// An empty list is one; a file that is not there is none.
    pub(crate) fn cpus(&self, path: &str) -> Option<Vec<u32>> {
        fs::read_to_string(self.path(path)).ok().map(|text| parse_list(&text))
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    pub(crate) fn flag(&self, path: &str) -> Option<bool> {
        self.number::<i64>(path).map(|number| number != 0)
    }

    /// Names in a folder that are numbers.
    pub(crate) fn numbers(&self, folder: &str) -> Vec<u32> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut found: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        found.sort_unstable();
        found
    }

    /// What is in a folder, by its names.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}
