// SPDX-License-Identifier: MIT OR Apache-2.0
//! A test in the kernel, which tardy steers by the parameters of its module: it begins and ends by
//! the one that is called `run`.

use super::order::{CopyError, CopyOrder};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tardy_model::copy::{CopyBackend, CopyModule};

/// How often tardy looks whether the test has ended.
const LOOK: Duration = Duration::from_millis(5);
/// A buffer, or a chain of them, that was not copied within this time has failed, ms.
pub(super) const TIMEOUT_MS: &str = "3000";

/// True if this module is loaded.
pub fn is_loaded(module: CopyModule) -> bool {
    folder(module).exists()
}

fn folder(module: CopyModule) -> PathBuf {
    PathBuf::from(format!("/sys/module/{}/parameters", module.name()))
}

/// The test of a backend. When it is dropped the test ends, and gives its channels back.
pub(super) struct Test {
    backend: CopyBackend,
    module: CopyModule,
}

impl Test {
    pub(super) fn of(backend: CopyBackend, module: CopyModule) -> Test {
        Test { backend, module }
    }

    /// What went wrong with it.
    pub(super) fn failed(&self, why: String) -> CopyError {
        CopyError::Kernel { backend: self.backend.name(), why }
    }

    pub(super) fn set(&self, parameter: &str, value: &str) -> Result<(), CopyError> {
        let folder = folder(self.module);
        fs::write(folder.join(parameter), format!("{value}\n")).map_err(|error| match error.kind() {
            ErrorKind::NotFound if !folder.exists() => {
                CopyError::NotLoaded { backend: self.backend.name(), module: self.module.name() }
            }
            _ => self.failed(format!(
                "the kernel refuses \"{value}\" for its parameter {parameter}: {error}; what it says of it is in its log (dmesg)"
            )),
        })
    }

    /// Lets it run until it ends, has taken its longest, or everything is to end.
    pub(super) fn run(&self, order: &CopyOrder<'_>) -> Result<(), CopyError> {
        self.set("run", "Y")?;
        let until = Instant::now() + Duration::from_nanos(order.copy.longest.0.max(1) as u64);
        let run = folder(self.module).join("run");
        while fs::read_to_string(&run).is_ok_and(|runs| runs.trim() == "Y") {
            if Instant::now() >= until || order.stop.load(Relaxed) {
                // It waits for the threads, which print what they came to.
                self.set("run", "N")?;
                break;
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Test {
    fn drop(&mut self) {
        // Whether it has ended or not: where even this is refused, nothing more can be done.
        let _ = self.set("run", "N");
    }
}
