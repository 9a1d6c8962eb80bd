// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a run in a guest cannot be made, or broke.

use super::{console, emulator, frame, kernel, modules, programs, qemu};
use crate::host::qemu as process;
use std::io;
use std::path::{Path, PathBuf};

/// A run in a guest cannot be made, or broke.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    #[error(transparent)]
    Kernel(#[from] kernel::KernelError),
    #[error(transparent)]
    Modules(#[from] modules::ModuleError),
    /// Programs that go in.
    #[error(transparent)]
    Programs(#[from] programs::ProgramError),
    /// The journal is text.
    #[error("the folder {} has a name that is not UTF-8, and the journal could not name it for `tardy undo`: choose another --out", folder.display())]
    Name { folder: PathBuf },
    /// QEMU is not here.
    #[error("program `{}` is not installed, and guests run in it: apt install qemu-system-x86", process::PROGRAM)]
    NoQemu,
    /// Debian's QEMU cannot run machines in a guest.
    #[error(
        "a guest that runs virtual machines itself needs a QEMU that tardy builds of Debian's source, for Debian's own delivers an interrupt \
         twice there: `tardy guest fetch --with {}`, once, some minutes",
        emulator::NAME
    )]
    NoEmulator,
    /// QEMU cannot be started.
    #[error(
        "cannot start {}: {source}; see what `{} --version` says, or install it anew: apt install --reinstall qemu-system-x86",
        process::PROGRAM,
        process::PROGRAM
    )]
    Start { source: io::Error },
    #[error(
        "cannot {doing} {}: {source}; check its permissions and the free space, or name another folder for the run by --out",
        path.display()
    )]
    File { doing: &'static str, path: PathBuf, source: io::Error },
    /// The experiment asks for what no guest has.
    #[error("cell `{cell}`: {why}")]
    NotInGuest { cell: String, why: String },
    /// A virtual machine that is a station is not possible here.
    #[error("station `{name}`, a virtual machine: {why}")]
    Machine { name: String, why: String },
    /// They do not fit.
    #[error(
        "the experiment's virtual machines have {needed_mib} MiB of memory together, and they may have {most_mib} MiB, nine tenths of the \
         {available_mib} MiB that are available: give them less (station.*.memory), or write fewer of them"
    )]
    Memory { needed_mib: u64, available_mib: u64, most_mib: u64 },
    /// It did not come up.
    #[error(
        "station `{name}`, a virtual machine, {what}{}; {console}; try another kernel (station.{of}.kernel), or leave \
         station.{of}.append out",
        said(.qemu),
        of = .name.split('.').next().unwrap_or_default()
    )]
    NotUp {
        name: String,
        /// And where its processors were, if it still runs.
        what: String,
        /// The end of its console.
        console: console::ConsoleEnd,
        qemu: String,
    },
    /// It ended before its time.
    #[error(
        "the guest {what} before the run was over{}; {console}; all of it is in guest/{} of the run's folder; try another --kernel, or fewer \
         loads",
        said(.qemu),
        qemu::CONSOLE
    )]
    Broke {
        what: String,
        /// The end of its console.
        console: console::ConsoleEnd,
        qemu: String,
    },
    /// It says nothing any more.
    #[error(
        "the guest has said nothing for {wall_s} s, {cpu_s} s of processor time, and was ended; {processors}; {console}; all of \
         both is in guest/{} and guest/{} of the run's folder; a slower machine needs more: TARDY_GUEST_SILENCE_S",
        qemu::REGISTERS,
        qemu::CONSOLE
    )]
    Silent {
        /// Time by the wall clock.
        wall_s: u64,
        /// Time that QEMU computed.
        cpu_s: u64,
        /// Where its processors were.
        processors: String,
        /// The end of its console.
        console: console::ConsoleEnd,
    },
    /// A virtual machine that is a station says nothing any more.
    #[error("{silent}{words}")]
    Mute {
        /// Which station did not answer, and what was waited for.
        silent: String,
        /// Where its processors are, and the end of its console.
        words: String,
    },
    /// It writes to its console without end.
    #[error(
        "the guest wrote more than {mib} MiB to its console and was ended, before it filled the disk; {console}; try it without --append, or \
         with another --kernel"
    )]
    Talks {
        /// What it may write.
        mib: u64,
        /// The end of its console.
        console: console::ConsoleEnd,
    },
    /// What it sent makes no sense.
    #[error(transparent)]
    Damaged(#[from] frame::Damaged),
    /// A frame that is whole and makes no sense.
    #[error(
        "what the guest sent makes no sense: {0}; run it again, and if it stays so without --append: something else may write to the guest's \
         second serial port"
    )]
    Nonsense(String),
    /// The run inside ended so.
    #[error("in the guest: {says}")]
    Inside {
        says: String,
        /// The exit code that a run on this machine would have had.
        exit: u8,
    },
}

fn said(qemu: &str) -> String {
    if qemu.is_empty() { String::new() } else { format!(" (QEMU says: {qemu})") }
}

pub(super) fn file<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> GuestError + use<'a> {
    move |source| GuestError::File { doing, path: path.to_owned(), source }
}
