// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared by the test layers: skipping with a reason that is counted.

use std::fs::File;
use std::io::Write;

/// Notes that a test could not run here, with the reason. `packaging/test.sh` counts these and
/// fails on unlisted ones.
pub fn skip(test: &str, reason: &str) {
    eprintln!("SKIP {test}: {reason}");
    if let Ok(path) = std::env::var("TARDY_SKIPS")
        && let Ok(mut file) = File::options().append(true).create(true).open(path)
    {
        let _ = writeln!(file, "{test}: {reason}");
    }
}
