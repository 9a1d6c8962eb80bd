// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines and network devices that the tests of the doctor make: of a machine each file is the
//! test's own.

use std::fs;
use tardy_doctor::{Check, Seen, SeenNic, diagnose};
use tardy_host::nic::Nic;
use tardy_sys::ethtool::{Coalescing, Eee, Pause};
use tardy_sys::nic::{Feature, TsInfo, XdpFeatures};
use tempfile::TempDir;

/// A machine with four CPUs, of which nothing is set.
pub struct Made(pub TempDir);

impl Made {
    pub fn new() -> Made {
        let made = Made(TempDir::new().expect("a folder"));
        for (file, text) in [
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("sys/devices/system/cpu/isolated", "\n"),
            ("proc/cmdline", "root=/dev/vda quiet\n"),
            ("proc/sys/kernel/osrelease", "6.6.1-test\n"),
            ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC\n"),
            ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
            ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
            ("sys/kernel/debug/sched/preempt", "none (voluntary) full lazy\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
            ("sys/devices/virtual/workqueue/cpumask", "f\n"),
            (
                "boot/config-6.6.1-test",
                "CONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y\nCONFIG_CPU_ISOLATION=y\nCONFIG_HZ=250\nCONFIG_HIGH_RES_TIMERS=y\nCONFIG_KPROBES=y\nCONFIG_KPROBE_EVENTS=y\nCONFIG_UPROBE_EVENTS=y\nCONFIG_BPF_EVENTS=y\nCONFIG_FUNCTION_TRACER=y\nCONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS=y\nCONFIG_DEBUG_INFO_BTF=y\nCONFIG_BPF_JIT=y\n# CONFIG_X is not set\n",
            ),
            (
                "proc/interrupts",
                "           CPU0       CPU1       CPU2       CPU3\n  7:          0          5          0          0   PCI-MSI 7-edge      eth0-rx-0\nLOC:        100        200        300        400   Local timer interrupts\n",
            ),
            ("proc/irq/7/smp_affinity_list", "0-3\n"),
            ("proc/irq/7/effective_affinity_list", "1\n"),
        ] {
            made.write(file, text);
        }
        made.task(1, "init", 0, "0-3", 0);
        // The kernel's own: one that stays on its CPU, and one that may run anywhere.
        made.task(20, "ksoftirqd/1", 0x0020_0000 | 0x0400_0000, "1", 0);
        made.task(21, "kswapd0", 0x0020_0000, "0-3", 0);
        made
    }

    pub fn write(&self, file: &str, text: &str) -> &Made {
        let path = self.0.path().join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
        self
    }

    pub fn task(&self, tid: u32, name: &str, flags: u64, allowed: &str, policy: u32) -> &Made {
        self.ran(tid, name, flags, allowed, policy, 0)
    }

    /// The same of one that ran on this CPU last.
    pub fn ran(&self, tid: u32, name: &str, flags: u64, allowed: &str, policy: u32, last: u32) -> &Made {
        let zeros = |n: usize| vec!["0"; n].join(" ");
        // State, five fields, flags (field 9), the last CPU (39), policy (41), the rest.
        let stat = format!("{tid} ({name}) S {} {flags} {} {last} 0 {policy} {}", zeros(5), zeros(29), zeros(11));
        self.write(&format!("proc/{tid}/task/{tid}/stat"), &stat);
        self.write(&format!("proc/{tid}/task/{tid}/status"), &format!("Name:\tx\nCpus_allowed_list:\t{allowed}\n"))
    }

    pub fn seen(&self) -> Seen {
        Seen::of(self.0.path())
    }

    pub fn checks(&self, cpus: &[u32]) -> Vec<Check> {
        diagnose(&self.seen(), cpus)
    }

    pub fn check(&self, cpus: &[u32], id: &str) -> Check {
        let all = self.checks(cpus);
        all.iter().find(|check| check.id == id).cloned().unwrap_or_else(|| panic!("{id}: {all:#?}"))
    }
}

/// A machine whose CPU 3 is left alone.
pub fn isolated() -> Made {
    let made = Made::new();
    made.write("proc/cmdline", "isolcpus=managed_irq,domain,3 nohz_full=3 rcu_nocbs=3 quiet\n");
    made.write("sys/devices/system/cpu/isolated", "3\n").write("sys/devices/system/cpu/nohz_full", "3\n");
    made.write("sys/devices/virtual/workqueue/cpumask", "7\n");
    made.task(1, "init", 0, "0-2", 0).task(21, "kswapd0", 0x0020_0000, "0-2", 0);
    made.task(30, "rcuog/3", 0x0020_0000, "0-2", 0).task(31, "rcuop/3", 0x0020_0000, "0-2", 0);
    made
}

/// A network device that delays nothing and stamps every packet.
pub fn quiet_nic() -> SeenNic {
    let can = TsInfo {
        flags: libc::SOF_TIMESTAMPING_TX_HARDWARE
            | libc::SOF_TIMESTAMPING_RX_HARDWARE
            | libc::SOF_TIMESTAMPING_TX_SOFTWARE,
        phc: 0,
        rx_filters: 1 << libc::HWTSTAMP_FILTER_ALL,
    };
    SeenNic {
        nic: Nic {
            name: "enp3s0".into(),
            ifindex: 3,
            mac: "02:00:00:00:00:01".into(),
            mtu: 1_500,
            mtu_range: None,
            gso_max_size: Some(65_536),
            up: true,
            promisc: false,
            offloads: [].into(),
            addr_gen_mode: None,
            addresses: Vec::new(),
            uses: Vec::new(),
            kind: None,
            driver: Some("igb".into()),
            speed_mbit: Some(1_000),
            link: "up".into(),
            tc_offload: None,
            defers_interrupts: None,
            can: Ok(can),
            stamps: Err("not asked".into()),
        },
        queues: Some((4, 4)),
        irqs: vec![7],
        coalescing: Some(Coalescing::default()),
        pause: Some(Pause::default()),
        eee: Some(Eee::default()),
        offloads: [("rx-gro".to_owned(), Feature { on: false, switchable: true })].into(),
        xdp: Some(XdpFeatures { native: true, zero_copy: true, ..XdpFeatures::default() }),
        programs: Some(Vec::new()),
        modes: None,
        twice_tagged: Some(Ok(0)),
    }
}
