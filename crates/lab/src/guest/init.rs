// SPDX-License-Identifier: MIT OR Apache-2.0
//! tardy as the first process of a guest: makes the machine usable, and opens the port to the
//! host. And tardy called `modprobe`, which the kernel starts when it needs a module.

use super::modules;
use crate::host::tool::Tool;
use crate::names;
use crate::path::vfio;
use crate::run::What;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};
use tardy_model::station::Machine;
use tardy_sys::{SysError, machine};

/// What the initramfs orders the guest to do.
pub const ORDERS: &str = "/tardy/orders.json";
/// The effective experiment; there is none where only the machine is tried.
pub const EXPERIMENT: &str = "/tardy/experiment.toml";
/// There is one in a virtual machine that is a station.
pub const STATION: &str = "/tardy/station.json";
/// The port that such a machine is reached by.
const STATION_PORT: &str = "/dev/vport0p1";
/// Devices whose drivers are loaded are there within this time.
const DEVICES: Duration = Duration::from_secs(20);
/// What a machine's kernel would take for a hang when it goes on after it was stopped, and report
/// with a stack on its slow console, in the middle of a trial: soft lockups, grace periods of RCU
/// and tasks that wait for too long.
const WHEN_STOPPED: [(&str, &str); 3] = [
    ("/proc/sys/kernel/soft_watchdog", "0"),
    ("/sys/module/rcupdate/parameters/rcu_cpu_stall_suppress", "1"),
    ("/proc/sys/kernel/hung_task_timeout_secs", "0"),
];
/// The second serial port.
const PORT: &str = "/dev/ttyS1";

/// The source of chance in exact time. A kernel that takes no randomness from its processor
/// would else wait for some of its own making, for seconds that are emulated.
const SEED: [u8; 64] = *b"tardy: exact virtual time has no chance in it, only these bytes.";

/// What the host gives a guest. Nothing of the host is in it: no time, no path, no number of a run.
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

/// What the host gives a virtual machine that is a station.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineOrders {
    /// Drivers of its devices, in the order in which they are loaded.
    pub modules: Vec<String>,
    /// How many network devices it has.
    pub devices: u32,
    /// One of them is the host's own, and has no address of tardy's.
    #[serde(default)]
    pub passed: bool,
    /// On this number of threads it computes as long as it runs.
    #[serde(default)]
    pub computes: u32,
}

impl MachineOrders {
    /// Those of a machine.
    pub fn of(machine: &Machine) -> MachineOrders {
        let net = machine.passed.as_ref().map_or_else(|| machine.net.module().to_owned(), vfio::module);
        let modules = vec!["virtio_pci".to_owned(), "virtio_console".to_owned(), net];
        let computes = if machine.computes { machine.cpus } else { 0 };
        let devices = machine.backends.len() as u32;
        MachineOrders { modules, devices, passed: machine.passed.is_some(), computes }
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
    /// A device of a station is not there.
    #[error("{what} did not appear within {} s", DEVICES.as_secs())]
    NoDevice { what: String },
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

/// In a virtual machine that is a station: loads its drivers, gives its network devices their names
/// and opens the port that it is reached by. `None` in another guest.
///
/// # Errors
/// If a device is not there.
pub fn station() -> Result<Option<File>, InitError> {
    let orders = match fs::read(STATION) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(file(STATION))?,
    };
    let orders: MachineOrders =
        serde_json::from_slice(&orders).map_err(|error| InitError::Orders(error.to_string()))?;
    // Not every kernel has each of them.
    for (file, value) in WHEN_STOPPED {
        let _ = fs::write(file, value);
    }
    // One that is built into the kernel is no module.
    for module in &orders.modules {
        modprobe(module);
    }
    let until = Instant::now() + DEVICES;
    let mut named = 0;
    while named < orders.devices {
        named += name_devices(orders.passed)?;
        wait_for(until, || format!("{} of {} network devices", orders.devices - named, orders.devices))
            .or_else(|none| if named < orders.devices { Err(none) } else { Ok(()) })?;
    }
    loop {
        match File::options().read(true).write(true).open(STATION_PORT) {
            Ok(port) => {
                (0..orders.computes).for_each(|_| drop(std::thread::spawn(compute)));
                return Ok(Some(port));
            }
            Err(_) => wait_for(until, || STATION_PORT.to_owned())?,
        }
    }
}

/// Computes until the machine ends.
fn compute() {
    let mut n = 1_u64;
    loop {
        n = std::hint::black_box(n.rotate_left(7) ^ 0x9e37_79b9);
    }
}

fn wait_for(until: Instant, what: impl Fn() -> String) -> Result<(), InitError> {
    if Instant::now() >= until {
        return Err(InitError::NoDevice { what: what() });
    }
    std::thread::sleep(Duration::from_millis(5));
    Ok(())
}

/// Names those network devices that have tardy's MAC addresses and no such name yet: how many. One
/// that is `passed` to the machine is the only one that is no device of the kernel's own.
fn name_devices(passed: bool) -> Result<u32, InitError> {
    const DEVICES: &str = "/sys/class/net";
    let mut named = 0;
    for entry in fs::read_dir(DEVICES).map_err(file(DEVICES))?.flatten() {
        let device = entry.file_name().to_string_lossy().into_owned();
        let mac = fs::read_to_string(entry.path().join("address")).unwrap_or_default();
        let is_passed = passed && entry.path().join("device").exists();
        let slot = names::slot_of_mac(mac.trim()).or(is_passed.then_some(0));
        let Some(name) = slot.map(names::in_machine).filter(|name| *name != device) else {
            continue;
        };
        let renamed = Tool::new("ip").args(["link", "set", "dev", &device, "name", &name]).run();
        renamed.map_err(|says| InitError::Orders(format!("device {device} cannot be called {name}: {says}")))?;
        named += 1;
    }
    Ok(named)
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
