// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program of this machine that fetches or builds for a guest, in folders of ours: apt, tar,
//! make.
//!
//! It is no command of a plan, and [`runner`](super::runner) is not for it: it may take many
//! minutes, it works in a folder and an environment of its own, and Ctrl-C in the terminal is to
//! end it together with tardy, because nothing has to be put back behind it. It ends as well when
//! tardy is killed: a build would go on for minutes, in a folder that the next tardy removes.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Command;
use tardy_sys::process;

/// Such a program with its arguments.
pub(crate) struct Tool(Command);

impl Tool {
    /// Without arguments yet. It speaks English, so that what it says can be looked into.
    pub(crate) fn new(program: &str) -> Tool {
        let mut command = Command::new(program);
        command.env("LC_ALL", "C");
        Tool(command)
    }

    /// With these arguments too.
    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Tool {
        self.0.args(args);
        self
    }

    /// With a path as an argument, whatever it is made of.
    pub(crate) fn path(mut self, path: &Path) -> Tool {
        self.0.arg(path);
        self
    }

    pub(crate) fn within(mut self, folder: &Path) -> Tool {
        self.0.current_dir(folder);
        self
    }

    /// With this variable in its environment.
    pub(crate) fn with(mut self, variable: &str, value: &str) -> Tool {
        self.0.env(variable, value);
        self
    }

    /// Without these variables of tardy's own environment.
    pub(crate) fn without(mut self, variables: &[&str]) -> Tool {
        for name in variables {
            self.0.env_remove(name);
        }
        self
    }

    pub(crate) fn program(&self) -> String {
        self.0.get_program().to_string_lossy().into_owned()
    }

    /// Runs it to its end: what it printed.
    ///
    /// # Errors
    /// Why it could not be started, or what it said when it failed.
    pub(crate) fn run(mut self) -> Result<String, String> {
        // make and ninja end their compilers at this signal.
        process::ends_with_us(&mut self.0);
        let output = self.0.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            let says = String::from_utf8_lossy(&output.stderr);
            return Err(says.trim().lines().collect::<Vec<_>>().join(" / "));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// True unless this machine has no such program.
pub(crate) fn is_there(program: &str) -> bool {
    let started = Command::new(program).arg("--version").output();
    !started.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
