// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program of this machine that fetches or builds for a guest, in folders of ours: apt, tar,
//! make.
//!
//! It is no command of a plan, and [`runner`](super::runner) is not for it: it may take many
//! minutes, it works in a folder and an environment of its own, and Ctrl-C in the terminal is to
//! end it together with tardy, because nothing has to be put back behind it. It ends as well when
//! tardy is killed, with all that it has started: a build would go on for minutes, in a folder that
//! the next tardy removes.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
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
        let output = self.0.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            let says = String::from_utf8_lossy(&output.stderr);
            return Err(says.trim().lines().collect::<Vec<_>>().join(" / "));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it to its end in a process group that ends with tardy, however that ends: compilers and
    /// scripts that it starts hear nothing of tardy's death themselves.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn run_with_its_children(self) -> Result<String, String> {
        let mut group = Command::new("sh");
        group.args(["-c", IN_A_GROUP, "sh"]).arg(self.0.get_program()).args(self.0.get_args());
        for (name, value) in self.0.get_envs() {
            match value {
                Some(value) => group.env(name, value),
                None => group.env_remove(name),
            };
        }
        self.0.get_current_dir().map(|folder| group.current_dir(folder));
        group.process_group(0);
        process::ends_with_us(&mut group);
        Tool(group).run()
    }
}

/// What a shell does that leads a group: at the end of its parent it ends the whole group.
const IN_A_GROUP: &str = "trap 'trap \"\" TERM; kill 0' TERM; \"$@\" & wait $!";

/// True unless this machine has no such program.
pub(crate) fn is_there(program: &str) -> bool {
    let started = Command::new(program).arg("--version").output();
    !started.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
