// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs that are killed while a virtual machine has a device of the machine that runs it, or while
//! the whole machine is set otherwise: in an exact guest with emulated igb and IOMMU.

use crate::can_run_machines;
use crate::command::Place;
use crate::scripted::Scripted;
use tardy_lab::path;
use tardy_model::path::PathKind;

/// What a run there may change, a line each: links, addresses and drivers, virtual functions, the
/// setting, and what must not be there: namespaces, slots, datapaths. Then the processes of a run,
/// by their programs. And what kills a run: at a moment, in hundredths of a second, or when packets
/// are on their way. Each kill is one line on the port.
const FUNCTIONS: &str = r#"for m in igb vfio_pci vfio_iommu_type1 kvm_amd tun vhost_net bridge macvtap openvswitch; do modprobe $m; done
while ! test -e /sys/class/net/eth2; do sleep 0.05; done
ethtool -L eth0 combined 4
ip addr add 192.0.2.7/24 dev eth0
ip link set dev eth0 up
ip link set dev eth1 mtu 1400
state() {
	for d in /sys/class/net/*; do
		echo ${d##*/} $(cat $d/address $d/mtu $d/flags)
	done
	ip -4 -o addr show
	for d in /sys/bus/pci/devices/*; do
		test -e $d/sriov_numvfs || continue
		echo ${d##*/} $(readlink $d/driver) $(cat $d/driver_override) $(cat $d/sriov_numvfs) $(cat $d/sriov_drivers_autoprobe)
	done
	cat /proc/sys/net/core/bpf_jit_enable
	for entry in /run/netns/* /run/tardy/slots/*; do
		test -e $entry && echo $entry
	done
	command -v ovs-dpctl >/dev/null && ovs-dpctl dump-dps
}
running() {
	for p in /proc/[0-9]*; do
		case $(readlink $p/exe) in *qemu-system*|*/modprobe) echo ${p##*/} ;; esac
	done
}
now() {
	read up _ </proc/uptime
	echo ${up%.*}${up#*.}
}
killed() {
	rm -rf /tmp/out
	began=$(now)
	env TARDY_CACHE=/cache tardy run /$1.toml --allow-nics --out /tmp/out >/tmp/log 2>&1 </dev/null &
	pid=$!
	if test -n "$2"; then
		sleep $(($2 / 100)).$(($2 / 10 % 10))$(($2 % 10))
	else
		while ! grep -qs '"event":"trial"' /tmp/out/events.jsonl; do
			test -e /proc/$pid || { cat /tmp/log >/dev/ttyS1; break; }
			sleep 0.05
		done
		took=$(($(now) - began))
	fi
	state >/tmp/meanwhile
	test "$(cat /tmp/meanwhile)" = "$(cat /tmp/before)" && changed=no || changed=yes
	kill -KILL $pid 2>/dev/null
	n=0
	while test -n "$(running)" && test $n -lt 40; do
		sleep 0.05
		n=$((n + 1))
	done
	left=$(running)
	tardy undo >/tmp/undo 2>&1
	undone=$?
	state >/tmp/after
	test "$(cat /tmp/after)" = "$(cat /tmp/before)" && same=yes || same=no
	echo "$1 after $(($(now) - began)) changed=$changed left=${left:-none} undo=$undone same=$same" >/dev/ttyS1
	test $same$undone = yes0 || cat /tmp/undo /tmp/before /tmp/after /tmp/log >/dev/ttyS1
}
state >/tmp/before
cat /tmp/before >/dev/ttyS1
"#;

/// What is run: a device, a virtual function, programs that the kernel interprets, and each other
/// way into a machine, by tap with vhost. Open vSwitch is left out where it is not installed.
const FILES: [(&str, &str); 7] = [
    ("whole", "kind = \"vfio\"\na = \"eth0\"\nb = \"eth1\"\ntake = true\n"),
    ("vf", "kind = \"vfio\"\na = \"eth0\"\nb = \"eth2\"\nvf = true\ntake = true\n"),
    ("interpreted", "kind = \"xdp\"\nbpf_jit = \"off\"\n"),
    ("bridge", "kind = \"bridge\"\n"),
    ("macvtap", "kind = \"macvtap\"\n"),
    ("ovs", "kind = \"ovs\"\n"),
    ("tap", "kind = \"tap\"\n"),
];

/// Open vSwitch's program for a datapath without daemons.
const DPCTL: &str = "ovs-dpctl";

/// Kills at moments of chance.
const KILLS: usize = 14;

#[test]
fn a_killed_run_left_its_machine_s_device_with_another_driver() {
    const TEST: &str = "a_killed_run_left_its_machine_s_device_with_another_driver";
    if std::env::var_os("TARDY_SOAK").is_none() {
        return tardy_tests::skip(TEST, "it takes minutes: make soak runs it");
    }
    if !can_run_machines(TEST) {
        return;
    }
    // Each once when packets are under way, and then at any moment until a little after that: also
    // while it takes the device, or builds.
    let mut script = FUNCTIONS.to_owned();
    let has_datapath =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|folder| folder.join(DPCTL).exists());
    let files: Vec<(&str, &str)> = FILES.into_iter().filter(|(name, _)| has_datapath || *name != "ovs").collect();
    for (name, _) in &files {
        script += &format!("killed {name} ''\n{name}=$took\n");
    }
    let mut chance = u64::from(std::process::id());
    for n in 0..KILLS {
        let (name, _) = files[n % files.len()];
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        script += &format!("killed {name} $(({name} * {} / 1000))\n", (chance >> 33) % 1_100);
    }
    let of = &path::kind(PathKind::Vfio).guest;
    let mut calls = vec!["mount", "cat", "sleep", "env", "test", "ls", "readlink", "rm", "grep"];
    calls.extend(has_datapath.then_some(DPCTL));
    let ways = [PathKind::Bridge, PathKind::Macvtap, PathKind::Ovs].map(|kind| (path::kind(kind).guest.modules)());
    let modules = [&[(of.modules)(), &["igbvf"]][..], &ways].concat().concat();
    let mut guest = Scripted::new(&modules, &calls, &script);
    guest.words = of.kernel;
    guest.devices = of.arguments;
    for (name, path) in &files {
        let text = format!("{}{path}", tardy_tests::part("machine of a run that is killed"));
        let with_vhost = text.replace("memory =", "net = \"vhost\"\nmemory =");
        let text = if *name == "tap" { with_vhost } else { text };
        guest.archive.file(&format!("/{name}.toml"), text.into_bytes(), false);
    }
    let said = guest.run(&Place::new());
    println!("{said}");
    assert_eq!(said.matches("drivers/igb").count(), 3, "{said}");
    assert!(said.contains("192.0.2.7/24"), "{said}");
    let kills: Vec<&str> = said.lines().filter(|line| line.contains(" changed=")).collect();
    assert_eq!(kills.len(), files.len() + KILLS, "{said}");
    for kill in &kills {
        assert!(kill.ends_with("left=none undo=0 same=yes"), "{kill}\n{said}");
    }
    // With packets under way each had changed something.
    assert!(kills[..files.len()].iter().all(|kill| kill.contains("changed=yes")), "{said}");
}
