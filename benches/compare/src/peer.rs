// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where peers run: two namespaces joined as tardy joins its own, built and taken down by the same
//! code.

use crate::Bench;
use anyhow::{Context, Result, bail};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use tardy_lab::host::applied::applied;
use tardy_lab::host::runner::Processes;
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::{LinkNumber, STATE};
use tardy_lab::plan::plan;
use tardy_lab::slot::Slot;

/// A namespace's name and its address.
pub struct End {
    /// As `ip netns` knows it.
    pub netns: String,
    pub address: Ipv4Addr,
}

impl End {
    /// A command that runs in it.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.netns]).arg(program);
        command
    }
}

/// Builds the path of `experiment`, lets `work` use it, and takes it down whatever came of it.
pub fn joined<T>(bench: &Bench, experiment: &str, work: impl FnOnce(&End, &End) -> Result<T>) -> Result<T> {
    let file = bench.home.join("experiments").join(experiment);
    let experiment = tardy_spec::load(&tardy_spec::read(&file)?, &[])?;
    let cell = experiment.cells.first().context("no cell")?;
    let slot = Slot::claim(Path::new(STATE))?;
    let nobodys = FactsByHost::from(Facts { home: std::process::id(), ..Facts::default() });
    let plan = plan(&cell.setup, slot.names(), &nobodys)?;
    let mut runner = Processes::new(|_| ()).holding(&slot)?;
    let mut host = applied(&plan.steps, slot.journal()?, &mut runner)?;
    let end = |station: &str, side| End { netns: slot.names().netns(station), address: slot.names().address(side) };
    let done = work(&end("a", LinkNumber::FIRST), &end("b", LinkNumber::SECOND));
    host.put_back().map_err(|error| anyhow::anyhow!("{error}"))?;
    done
}

/// Compiles a C peer of ours.
pub fn compile(bench: &Bench, name: &str) -> Result<PathBuf> {
    let (source, program) = (bench.home.join("peers").join(format!("{name}.c")), bench.cache.join(name));
    let mut compiler = Command::new("gcc");
    let status = compiler.args(["-O2", "-o"]).arg(&program).arg(&source).status().context("gcc cannot be started")?;
    if !status.success() {
        bail!("{} does not compile", source.display());
    }
    Ok(program)
}
