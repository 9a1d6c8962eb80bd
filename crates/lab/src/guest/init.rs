// SPDX-License-Identifier: MIT OR Apache-2.0
//! tardy as the first process of a guest: makes the machine usable, and opens the port to the
//! host. And tardy called `modprobe`, which the kernel starts when it needs a module.

use super::modules;
use crate::run::What;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::Path;
use tardy_sys::{SysError, machine};

/// What the initramfs tells the guest to do.
pub const ORDERS: &str = "/tardy/orders.json";
/// The effective experiment; there is none where only the machine is tried.
pub const EXPERIMENT: &str = "/tardy/experiment.toml";
/// The second serial port.
const PORT: &str = "/dev/ttyS1";

/// What stands for chance in exact time. A kernel that takes no randomness from its processor
/// would else wait for some of its own making, for seconds that are emulated.
const SEED: [u8; 64] = *b"tardy: exact virtual time has no chance in it, only these bytes.";

/// What the host tells a guest. Nothing of the host is in it: no time, no path, no number of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orders {
    /// TAI − UTC in the guest, seconds: always as many characters, so that it moves nothing else.
    pub tai_offset_s: String,
    /// Nothing may be chance: the kernel is given bytes that are always the same for it.
    pub seeded: bool,
}

impl Orders {
    /// With this offset; in exact time `seeded`.
    pub fn new(tai_offset_s: i32, seeded: bool) -> Orders {
        Orders { tai_offset_s: format!("{tai_offset_s:+08}"), seeded }
    }
}

/// The machine cannot be made usable.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The kernel refused something.
    #[error(transparent)]
    Sys(#[from] SysError),
    #[error("{what}: {source}")]
    File { what: &'static str, source: std::io::Error },
    /// The orders make no sense.
    #[error("the orders cannot be read: {0}")]
    Orders(String),
}

fn file(what: &'static str) -> impl FnOnce(std::io::Error) -> InitError {
    move |source| InitError::File { what, source }
}

/// The port to the host.
///
/// # Errors
/// If there is none.
pub fn port() -> Result<File, InitError> {
    for (kind, on) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        machine::mount(kind, on)?;
    }
    let port = File::options().write(true).read(true).open(PORT).map_err(file(PORT))?;
    machine::make_raw(&port)?;
    Ok(port)
}

/// Makes the machine ready for a run; the text of the experiment, if there is one.
///
/// # Errors
/// If something of it is refused.
pub fn set_up() -> Result<Option<String>, InitError> {
    for on in ["/run", "/tmp"] {
        machine::mount("tmpfs", on)?;
    }
    // Facts only.
    let _ = machine::mount("debugfs", "/sys/kernel/debug");
    let orders: Orders = serde_json::from_slice(&fs::read(ORDERS).map_err(file(ORDERS))?)
        .map_err(|error| InitError::Orders(error.to_string()))?;
    if orders.seeded {
        machine::add_entropy(&SEED)?;
    }
    let offset: i32 = orders.tai_offset_s.parse().map_err(|_| InitError::Orders(orders.tai_offset_s.clone()))?;
    // By way of another one, so that it is always changed twice and costs the same: where nothing
    // changes the kernel does less.
    machine::set_tai_offset(offset + 1)?;
    machine::set_tai_offset(offset)?;
    match fs::read_to_string(EXPERIMENT) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        text => text.map(Some).map_err(file(EXPERIMENT)),
    }
}

/// What the guest is.
pub fn greeting() -> What {
    let version = fs::read_to_string("/proc/version").unwrap_or_default();
    What::GuestUp { proc_version: version.trim_end().to_owned(), facts: tardy_host::facts::read() }
}

/// As `modprobe -q -- NAME`: loads the module of this name, or whose other name it is, after those
/// that it needs. False if there is no such module, which is no fault: the kernel asks for much.
pub fn modprobe(name: &str) -> bool {
    let Some(index) = fs::read(modules::INDEX).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()) else {
        return false;
    };
    let index: modules::Index = index;
    let order = index.load_order(name);
    let load = |name: &&str| machine::load_module(&Path::new(modules::FOLDER).join(format!("{name}.ko"))).is_ok();
    !order.is_empty() && order.iter().all(load)
}
