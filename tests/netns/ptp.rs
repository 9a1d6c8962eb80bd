// SPDX-License-Identifier: MIT OR Apache-2.0
//! ptp4l between this machine and another one: what it reports of both clocks, and one of tardy's
//! own, which observes them and steers none.

use crate::command::wait;
use crate::elsewhere::{NETWORK, Two, WIRE, does, two};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tardy_host::timekeeper::{self, Keeper, PtpStatus};

/// A ptp4l on a device in one of the machines, which steers no clock.
struct Ptp {
    process: Child,
    socket: PathBuf,
}

impl Ptp {
    fn start(two: &Two, netns: &str, device: &str, more: &str) -> Ptp {
        let [config, socket] = ["conf", "socket"].map(|of| two.place.path(&format!("{device}.{of}")));
        let settings = format!(
            "[global]\nfree_running 1\ntime_stamping software\nnetwork_transport L2\nuds_address {}\nlogAnnounceInterval -2\n\
             announceReceiptTimeout 2\nlogSyncInterval -3\nlogMinDelayReqInterval -3\n{more}\n[{device}]\n",
            socket.display()
        );
        std::fs::write(&config, settings).expect("a file");
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{netns}")).args([PTP4L, "-f"]).arg(&config);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ptp { process: command.spawn().expect("ptp4l starts"), socket }
    }

    fn status(&self, two: &Two) -> Option<PtpStatus> {
        timekeeper::ptp_status(&self.socket, &two.place.path("asks"), 0).ok().flatten()
    }
}

impl Drop for Ptp {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const PTP4L: &str = "/usr/sbin/ptp4l";

#[test]
fn what_ptp4l_reports_of_both_ends_is_one_reference_and_a_bound() {
    let test = "what_ptp4l_reports_of_both_ends_is_one_reference_and_a_bound";
    let Some(two) = two(test) else { return };
    if !PathBuf::from(PTP4L).exists() {
        return tardy_tests::skip(test, "ptp4l is missing (apt install linuxptp)");
    }
    for (name, device) in [(&two.here, "enp1s0"), (&two.there, "enp2s0")] {
        does(&format!("ip -n {name} link set dev {device} up"));
    }
    let leads = Ptp::start(&two, &two.here, "enp1s0", "priority1 10");
    let follows = Ptp::start(&two, &two.there, "enp2s0", "slaveOnly 1");
    let both = || {
        let [leading, following] = [leads.status(&two)?, follows.status(&two)?];
        following.measured_at_ns.is_some().then_some([leading, following])
    };
    let [leading, following] = wait(Duration::from_secs(30), both).expect("the one follows the other");
    assert_eq!(following.grandmaster, leading.grandmaster);
    assert_eq!((leading.delay_ns, leading.measured_at_ns), (0, None), "it is the reference itself");
    assert!(following.delay_ns > 0, "no way takes no time: {following:?}");
    // Both stamp in software, and so by the system's clock.
    assert_eq!((&leading.device, &following.device), (&None, &None));
    // It steers nothing, so that nothing follows for the system's clock.
    assert!(following.is_free && following.of_system().is_none(), "{following:?}");
    let kept = leading.of_system().expect("the system's clock");
    assert_eq!((kept.by, kept.reference), (Keeper::Ptp4l, format!("PTP grandmaster {}", leading.grandmaster)));
    assert!(!two.place.path("asks").exists(), "its own socket is removed");
    assert!(timekeeper::ptp_status(&two.place.path("nobody"), &two.place.path("asks"), 0).is_err());
}

/// The capabilities of each ptp4l that a tardy has started.
fn rights_of_ptp4l() -> Vec<u64> {
    let read = |pid: &str, file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let of = |pid: String| {
        let status = read(&pid, "status");
        let value = |key: &str| Some(status.lines().find_map(|line| line.strip_prefix(key))?.trim().to_owned());
        let is_ours = read(&pid, "comm").trim() == "ptp4l" && read(&value("PPid:")?, "comm").trim() == "tardy";
        u64::from_str_radix(&value("CapEff:")?, 16).ok().filter(|_| is_ours)
    };
    let pids = std::fs::read_dir("/proc").expect("processes").flatten();
    pids.filter_map(|entry| of(entry.file_name().into_string().ok()?)).collect()
}

#[test]
fn a_ptp4l_on_the_wire_observes_both_clocks_and_steers_none() {
    let test = "a_ptp4l_on_the_wire_observes_both_clocks_and_steers_none";
    let Some(two) = two(test) else { return };
    if !PathBuf::from(PTP4L).exists() {
        return tardy_tests::skip(test, "ptp4l is missing (apt install linuxptp)");
    }
    let before = two.seen();
    let observe = ["--set", "clocks.ptp=observe"];
    let running = AtomicBool::new(true);
    let (run, rights) = std::thread::scope(|scope| {
        let rights = scope.spawn(|| {
            let mut rights = Vec::new();
            while running.load(Relaxed) {
                rights.extend(rights_of_ptp4l());
                std::thread::sleep(Duration::from_millis(100));
            }
            rights
        });
        let run = two.run(WIRE, &observe);
        running.store(false, Relaxed);
        (run, rights.join().expect("it looks"))
    });
    // Both were seen, and neither may set the clock (CAP_SYS_TIME).
    assert!(!rights.is_empty() && rights.iter().all(|rights| rights >> 25 & 1 == 0), "{rights:x?}");
    assert_eq!(run.code, Some(0), "{}\n{}", run.stderr, run.stdout);
    let offset = two.offset();
    let others = offset["others"].as_array().expect("other sources");
    let is_ptp = |of: &&Value| of["method"].as_str().is_some_and(|method| method.starts_with("a ptp4l on the wire"));
    let ptp = others.iter().find(is_ptp).unwrap_or_else(|| panic!("{offset}"));
    for moment in ["first", "last"] {
        let of = |of: &str| ptp[moment][of].as_i64().expect("a number");
        assert!(of("ahead_ns").abs() <= of("bound_ns") && of("bound_ns") > 0, "it is one clock: {ptp}");
    }
    // A Sync before the trial, and another one behind it.
    let at = |moment: &str| ptp[moment]["at_tai_ns"].as_i64().expect("a number");
    assert!(at("first") < at("last"), "{ptp}");
    assert_eq!(two.seen(), before);
    let left = || std::fs::read_dir("/run").expect("a folder").flatten().map(|entry| entry.file_name());
    let of_ptp: Vec<_> = left().filter(|name| name.to_string_lossy().contains("-ptp")).collect();
    assert!(of_ptp.is_empty(), "{of_ptp:?}");
    // It takes devices that are the path's.
    let refused = two.run(NETWORK, &observe);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("on the devices that path wire takes"), "{}", refused.stderr);
}
