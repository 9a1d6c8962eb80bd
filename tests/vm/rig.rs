// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine of its own kernel and its own clock, reached over ssh: a virtual one that a test
//! boots itself, with an ssh server in it.

use crate::command::{Finished, Place, tardy, wait};
use crate::{KERNEL, can_run, rooted};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tardy_lab::guest::initramfs::Archive;
use tardy_lab::guest::qemu::{Accelerator, CONSOLE, VirtualMachine};
use tardy_lab::guest::{folder, kernel, modules, programs};
use tardy_lab::host::qemu;
use tardy_model::manifest::GuestMode;
use tardy_sys::clock;

const SERVER: &str = "/usr/sbin/dropbear";
const MAKES_KEYS: &str = "/usr/bin/dropbearkey";
pub const CLIENT: &str = "/usr/bin/ssh";
const PORT: &str = "2222";
/// No command takes longer in a machine that is well, s.
const LIMIT_S: &str = "240";
const HERE: &str = "198.51.100.1";
const THERE: &str = "198.51.100.2";

/// What the login's script, tardy and its first process there call.
const CALLED: [&str; 22] = [
    "dropbear",
    "mount",
    "mkdir",
    "stat",
    "id",
    "uname",
    "sed",
    "touch",
    "test",
    "sha256sum",
    "cat",
    "chmod",
    "mv",
    "rm",
    "find",
    "sleep",
    "ls",
    "readlink",
    "env",
    "taskset",
    "chrt",
    "ip",
];

/// Its first process: it mounts what a login needs, sets the network up and becomes the server.
const BEGIN: &str = r#"#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
modprobe virtio_pci
modprobe virtio_net
modprobe vmxnet3
ip link set dev lo up
while ! test -e /sys/class/net/eth0; do sleep 0.05; done
/clock tai TAI
ip addr add THERE/30 dev eth0
ip link set dev eth0 up
exec dropbear -F -E -s -j -k -m -r /etc/hostkey -p THERE:PORT -P /run/dropbear.pid
"#;

/// Sets the clock there: by nanoseconds, its rate in ppm, or the kernel's TAI offset in seconds.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
int main(int argc, char **argv)
{
    struct timex t = {0};
    long long value = argc > 2 ? atoll(argv[2]) : 0;
    if (argc < 3) return 2;
    if (!strcmp(argv[1], "shift")) {
        t.modes = ADJ_SETOFFSET | ADJ_NANO;
        t.time.tv_sec = value / 1000000000;
        t.time.tv_usec = value % 1000000000;
        if (t.time.tv_usec < 0) { t.time.tv_sec--; t.time.tv_usec += 1000000000; }
    } else if (!strcmp(argv[1], "ppm")) {
        t.modes = ADJ_FREQUENCY;
        t.freq = value * 65536;
    } else {
        t.modes = ADJ_TAI;
        t.constant = value;
    }
    return adjtimex(&t) < 0;
}
"#;

fn output(line: &str) -> Output {
    let words: Vec<&str> = line.split(' ').collect();
    Command::new(words[0]).args(&words[1..]).output().unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn does(line: &str) -> String {
    let output = output(line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The virtual machine, and the network namespace that has the other ends of its network devices:
/// `eth0`, over which it is reached, `eth1` with as many queues as it has CPUs, `eth2`, which
/// writes packets into the memory of AF_XDP itself, and `eth3`, whose driver leaves no room before
/// a packet for what an XDP program knows.
pub struct Rig {
    pub place: Place,
    netns: String,
    machine: Child,
}

impl Rig {
    fn new(kernel: &str, cpus: u32, words: &str) -> Rig {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let netns = format!("tardytest-{}-rig{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let place = Place::new();
        let boots = place.path("boots");
        fs::create_dir(&boots).expect("a folder");
        does(&format!("ip netns add {netns}"));
        does(&format!("ip -n {netns} link set dev lo up"));
        does(&format!("ip -n {netns} tuntap add dev tap0 mode tap"));
        does(&format!("ip -n {netns} tuntap add dev tap1 mode tap multi_queue"));
        does(&format!("ip -n {netns} tuntap add dev tap2 mode tap"));
        does(&format!("ip -n {netns} tuntap add dev tap3 mode tap"));
        for tap in ["tap0", "tap1", "tap2", "tap3"] {
            does(&format!("ip -n {netns} link set dev {tap} addrgenmode none"));
        }
        does(&format!("ip -n {netns} addr add {HERE}/30 dev tap0"));
        does(&format!("ip -n {netns} link set dev tap0 up"));
        let kernel = kernel::find(&kernel::cache(), kernel).expect("it is there");
        fs::write(boots.join(folder::INITRAMFS), archive(&place, &kernel).bytes()).expect("a file");
        let rig = VirtualMachine {
            mode: GuestMode::RealTime,
            accelerator: Accelerator::Tcg,
            cpus,
            memory_mib: 512,
            kernel: kernel.image.display().to_string(),
            append: format!("rdinit=/begin {words}").trim_end().to_owned(),
            sandbox: false,
        };
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{netns}")).arg(qemu::PROGRAM).args(rig.arguments());
        command.args(["-netdev", "tap,id=net,ifname=tap0,script=no,downscript=no"]);
        command.args(["-device", "virtio-net-pci,netdev=net,romfile="]);
        // The driver has as many queues as the machine has CPUs.
        command.args(["-netdev", "tap,id=wire,ifname=tap1,script=no,downscript=no,queues=2"]);
        command.args(["-device", "virtio-net-pci,netdev=wire,romfile=,mq=on,vectors=6"]);
        command.args(["-netdev", "tap,id=bare,ifname=tap3,script=no,downscript=no"]);
        command.args(["-device", "vmxnet3,netdev=bare,romfile="]);
        // The driver maps memory for the device only where the device takes the platform's
        // addresses, and it resets one queue alone only where the device can do that.
        command.args(["-netdev", "tap,id=direct,ifname=tap2,script=no,downscript=no"]);
        let direct = "virtio-net-pci,netdev=direct,romfile=,disable-legacy=on,iommu_platform=on,queue_reset=on";
        command.args(["-device", direct]).current_dir(&boots);
        let machine = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("QEMU starts");
        let mut rig = Rig { place, netns, machine };
        let is_up = |rig: &mut Rig| {
            assert_eq!(rig.machine.try_wait().expect("its state"), None, "{}", rig.console());
            rig.there("true").status.success().then_some(())
        };
        let up = wait(Duration::from_secs(120), || is_up(&mut rig));
        assert!(up.is_some(), "it does not let in: {}", rig.console());
        rig
    }

    fn console(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.place.path("boots").join(CONSOLE)).unwrap_or_default()).into_owned()
    }

    pub fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.netns)).stdin(Stdio::null());
        command
    }

    pub fn config(&self) -> String {
        self.place.path("config").display().to_string()
    }

    /// A command in the machine. One that does not end is a fault of the machine's, whose console
    /// is shown then.
    pub fn there(&self, line: &str) -> Output {
        let mut command = self.enter();
        command.args(["timeout", "-k", "5", LIMIT_S]);
        command.args([CLIENT, "-F", &self.config(), "-o", "ConnectTimeout=5", "rig", line]);
        let output = command.output().expect("ssh runs");
        let in_time = !matches!(output.status.code(), Some(124 | 137));
        let says = String::from_utf8_lossy(&output.stderr);
        assert!(in_time, "{line}: it did not end within {LIMIT_S} s: {says}\nits console:\n{}", self.console());
        output
    }

    pub fn does_there(&self, line: &str) -> String {
        let output = self.there(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// `tardy VERB EXPERIMENT ARGS` on this end, with this machine as the other end.
    pub fn tardy(&self, verb: &str, experiment: &str, args: &[&str]) -> Command {
        let mut command = self.enter();
        command.arg(tardy()).args([verb, experiment, "--allow-hosts", "--set", "station.b.ssh=rig"]);
        command.args(["--set", "path.kind=network"]).args(args);
        command.env("TARDY_STATE", self.place.state()).env("TARDY_SSH", format!("{CLIENT} -F {}", self.config()));
        command
    }

    pub fn run(&self, experiment: &str, args: &[&str]) -> Finished {
        let _ = fs::remove_dir_all(self.place.out());
        let mut command = self.tardy("run", experiment, args);
        self.place.call(command.args(["--json", "--trials", "1", "--out"]).arg(self.place.out()))
    }

    /// `tardy run FILE ARGS` on this end, of a file that takes devices here and there.
    pub fn run_wire(&self, file: &Path, args: &[&str]) -> Finished {
        let _ = fs::remove_dir_all(self.place.out());
        let mut command = self.enter();
        command.arg(tardy()).arg("run").arg(file).args(["--allow-hosts", "--allow-nics", "--json"]).args(args);
        command.arg("--out").arg(self.place.out()).env("TARDY_STATE", self.place.state());
        self.place.call(command.env("TARDY_SSH", format!("{CLIENT} -F {}", self.config())))
    }

    /// The rows of `tardy clocks`.
    pub fn clocks(&self, readings: u32) -> Vec<Row> {
        let mut command = self.tardy("clocks", "host-to-host", &["--count", &readings.to_string()]);
        let shown = self.place.call(&mut command);
        assert_eq!(shown.code, Some(0), "{}\n{}", shown.stdout, shown.stderr);
        assert!(shown.stdout.contains("exchanges over ssh"), "{}", shown.stdout);
        let rows: Vec<Row> = shown.stdout.lines().filter(|line| line.starts_with("rig ")).map(Row::of).collect();
        assert_eq!(rows.len(), readings as usize, "{}", shown.stdout);
        rows
    }

    /// What a run would leave there: namespaces, slots, processes.
    pub fn left(&self) -> String {
        self.does_there(
            "find /run/netns /run/tardy/slots -mindepth 1 2>/dev/null; for of in /proc/[0-9]*/exe; do readlink $of; done | \
             sed -n '/tardy.programs/p'",
        )
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = self.machine.kill();
        let _ = self.machine.wait();
        let _ = output(&format!("ip netns del {}", self.netns));
    }
}

/// A row of `tardy clocks`.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub ahead_ns: f64,
    pub bound_ns: f64,
    /// Drift and its bound, once it is known.
    pub ppm: Option<[f64; 2]>,
}

impl Row {
    fn of(line: &str) -> Row {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<f64>().ok());
        let ns = |at: usize| {
            let units = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
            let unit = units.iter().find(|(unit, _)| words.get(at + 1) == Some(unit));
            number(at).zip(unit).map(|(value, (_, ns))| value * ns).unwrap_or_else(|| panic!("{line}"))
        };
        let ppm = number(5).zip(number(7)).map(|(ppm, bound)| [ppm, bound]);
        Row { ahead_ns: ns(1), bound_ns: ns(3), ppm }
    }
}

/// What it boots: tardy's program, what a login and a run call, and the server with its keys.
fn archive(place: &Place, kernel: &kernel::Kernel) -> Archive {
    let file = |name: &str| place.path(name).display().to_string();
    let [user_key, host_key, clock_c, clock] = ["user", "host", "clock.c", "clock"].map(file);
    does(&format!("ssh-keygen -q -t ed25519 -N  -f {user_key}"));
    let made = does(&format!("{MAKES_KEYS} -t ed25519 -f {host_key}"));
    let key = made.lines().find(|line| line.starts_with("ssh-ed25519 ")).expect("its public part");
    fs::write(place.path("known"), format!("[{THERE}]:{PORT} {key}\n")).expect("a file");
    let config = format!(
        "Host rig\n HostName {THERE}\n Port {PORT}\n User root\n IdentityFile {user_key}\n IdentitiesOnly yes\n \
         UserKnownHostsFile {}\n GlobalKnownHostsFile none\n StrictHostKeyChecking yes\n BatchMode yes\n",
        file("known")
    );
    fs::write(place.path("config"), config).expect("a file");
    fs::write(&clock_c, CLOCK).expect("a file");
    does(&format!("cc -static -O1 -o {clock} {clock_c}"));

    let mut archive = rooted();
    archive.folder("/root/.ssh");
    let read = |path: &Path| fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    programs::pack(true, &CALLED, &mut archive).expect("its programs are here");
    // By this name it loads modules.
    archive.file("/usr/bin/modprobe", read(tardy().as_ref()), true);
    let wanted = [modules::WANTED, &["virtio_pci", "virtio_net", "vmxnet3"]].concat();
    let folder: &PathBuf = kernel.modules.as_ref().expect("its modules");
    modules::pack(folder, kernel.sums.as_ref(), &wanted, &mut archive).expect("its modules are there");
    let begin = BEGIN.replace("THERE", THERE).replace("PORT", PORT).replace("TAI", &clock::tai_offset_s().to_string());
    archive.file("/begin", begin.into_bytes(), true);
    archive.file("/clock", read(clock.as_ref()), true);
    archive.file("/etc/hostkey", read(host_key.as_ref()), false);
    archive.file("/etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n".to_vec(), false);
    archive.file("/etc/group", b"root:x:0:\n".to_vec(), false);
    archive.file("/root/.ssh/authorized_keys", read(format!("{user_key}.pub").as_ref()), false);
    archive
}

/// The machine, where it can be booted here.
pub fn rig(test: &str) -> Option<Rig> {
    rig_of(test, 1)
}

/// The same with this number of CPUs.
pub fn rig_of(test: &str, cpus: u32) -> Option<Rig> {
    rig_with(test, cpus, "")
}

/// The same with these words on its kernel's command line.
pub fn rig_with(test: &str, cpus: u32, words: &str) -> Option<Rig> {
    can_boot(test).then(|| Rig::new(KERNEL, cpus, words))
}

/// The same with another of Debian's kernels. It has to be fetched, which the soak does.
pub fn rig_on(test: &str, kernel: &str, cpus: u32) -> Option<Rig> {
    if std::env::var_os("TARDY_SOAK").is_some() {
        let fetched = Command::new(tardy()).args(["guest", "fetch", kernel]).output().expect("tardy runs");
        assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));
    }
    if let Err(error) = kernel::find(&kernel::cache(), kernel) {
        tardy_tests::skip(test, &error.to_string());
        return None;
    }
    can_boot(test).then(|| Rig::new(kernel, cpus, ""))
}

/// True if it can be booted here; else the test is skipped and counted.
fn can_boot(test: &str) -> bool {
    if !can_run(test) {
        return false;
    }
    if [SERVER, MAKES_KEYS, CLIENT].iter().any(|file| !Path::new(file).exists()) {
        tardy_tests::skip(test, "an ssh server is missing (apt install dropbear-bin openssh-client)");
        return false;
    }
    true
}
