// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of cells and streams as names of files.

use crate::StoreError;

/// A cell's or stream's name, if it can name a file: the characters of cell ids, not hidden, not
/// `.` or `..`.
pub(crate) fn file_name(name: &str) -> Result<&str, StoreError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._=,-".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(allowed) {
        return Err(StoreError::Name { name: name.to_owned() });
    }
    Ok(name)
}
