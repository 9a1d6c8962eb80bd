// SPDX-License-Identifier: MIT OR Apache-2.0
//! tardy's round trip over tap and vhost next to that of a bare program in C on the same path, in
//! one exact guest, where instructions are counted: the ratio has no chance in it.

use crate::can_run_machines;
use crate::command::Place;
use crate::scripted::{Scripted, kernel, packed};
use serde_json::Value;
use std::fs;
use std::process::Command;
use tardy_lab::guest::folder;
use tardy_lab::guest::qemu::{Accelerator, VirtualMachine};
use tardy_model::manifest::GuestMode;

/// Requests of each, behind the warm-up.
const COUNT: u32 = 500;

/// A run of tardy's, and then the same path by hand, with the program in C at both ends.
const BOTH: &str = r#"for m in kvm_amd tun vhost_net; do modprobe $m; done
env TARDY_CACHE=/cache tardy run /pingpong.toml --out /tmp/out >/dev/console 2>&1
cat /tmp/out/results.json >/dev/ttyS1
echo >/dev/ttyS1
ip netns add bare
mkdir /tmp/boots
cp /bare.cpio /tmp/boots/INITRAMFS
cd /tmp/boots
ip netns exec bare qemu-system-x86_64 QEMU >/dev/console 2>&1 &
while ! ip -n bare link set dev tapc up 2>/dev/null; do sleep 0.1; done
ip -n bare addr add 192.0.2.1/24 dev tapc
ip netns exec bare /bare ask 192.0.2.2 7 COUNT >/dev/ttyS1 2>/dev/console
"#;

/// The machine that answers.
const ANSWERS: &str = r"modprobe virtio_pci
modprobe virtio_net
while ! test -e /sys/class/net/eth0; do sleep 0.01; done
ip addr add 192.0.2.2/24 dev eth0
ip link set dev eth0 up
exec /bare answer 7
";

#[test]
fn a_round_trip_over_tap_and_vhost_takes_no_longer_than_a_bare_program_s_by_a_tenth() {
    const TEST: &str = "a_round_trip_over_tap_and_vhost_takes_no_longer_than_a_bare_program_s_by_a_tenth";
    if std::env::var_os("TARDY_SOAK").is_none() {
        return tardy_tests::skip(TEST, "it takes a minute: make soak runs it");
    }
    if !can_run_machines(TEST) {
        return;
    }
    let place = Place::new();
    let (source, bare) = (place.path("bare.c"), place.path("bare"));
    fs::write(&source, include_str!("bare.c")).expect("a file");
    let built = Command::new("cc").args(["-static", "-O2", "-o"]).args([&bare, &source]).output().expect("cc runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let bare = fs::read(bare).expect("it was built");
    // As tardy starts its own.
    let answers = VirtualMachine {
        mode: GuestMode::RealTime,
        accelerator: Accelerator::Kvm,
        cpus: 1,
        memory_mib: 256,
        kernel: format!("/cache/guest/unpacked/{}", kernel().sha256),
        append: "rdinit=/begin".to_owned(),
        sandbox: true,
    };
    let quoted = |word: String| if word.contains([' ', ';']) { format!("'{word}'") } else { word };
    let words = answers.arguments().into_iter().map(quoted).collect::<Vec<_>>().join(" ");
    let devices =
        "-netdev tap,id=net0,ifname=tapc,script=no,downscript=no,vhost=on -device virtio-net-pci,netdev=net0,romfile=";
    let script = BOTH.replace("QEMU", &format!("{words} {devices}")).replace("INITRAMFS", folder::INITRAMFS);
    let calls = ["mount", "mkdir", "cat", "cp", "sleep", "env", "test"];
    let mut guest = Scripted::new(&["vhost_net"], &calls, &script.replace("COUNT", &COUNT.to_string()));
    guest.archive.file("/bare", bare.clone(), true);
    let experiment = tardy_tests::experiment("machine next to a bare program");
    guest.archive.file("/pingpong.toml", experiment.as_bytes().to_vec(), false);
    let mut there = packed(&["virtio_pci", "virtio_net"], &calls, ANSWERS);
    there.file("/bare", bare, true);
    guest.archive.file("/bare.cpio", there.bytes(), false);
    let said = guest.run(&place);

    let end = said.rfind("\nbare ").unwrap_or_else(|| panic!("{said}"));
    let results: Value = serde_json::from_str(&said[..end]).unwrap_or_else(|error| panic!("{error}: {said}"));
    let trip_ns = |cell: &str| {
        let all = results["cells"].as_array().expect("cells");
        let ctl = &all.iter().find(|it| it["id"] == cell).unwrap_or_else(|| panic!("{cell}: {said}"))["streams"]["ctl"];
        assert_eq!(ctl["outcomes"]["received"], 3 * COUNT, "{ctl}");
        ctl["metrics"]["send..reply_receive"]["p50_ns"].as_f64().expect("a figure")
    };
    let bare_ns: f64 = said[end..].split_whitespace().nth(1).and_then(|ns| ns.parse().ok()).expect("a figure");
    let [ours_ns, stamped_ns] = ["bare", "default"].map(trip_ns);
    println!("tap and vhost: a bare program {bare_ns:.0} ns, tardy {ours_ns:.0} ns, ratio {:.3}", ours_ns / bare_ns);
    println!("with the kernel's stamps, as by default: {stamped_ns:.0} ns, ratio {:.3}", stamped_ns / bare_ns);
    assert!((ours_ns / bare_ns - 1.0).abs() <= 0.1, "{ours_ns} and {bare_ns}");
}
