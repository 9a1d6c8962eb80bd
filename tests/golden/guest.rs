// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guests, as far as they are pure: the archive that one boots, the frames that it sends, what its
//! console means, where Debian's kernels come from, QEMU's arguments.

mod cache;
mod frames;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use tardy_lab::guest::apt::{and_sources, deb822, one_line};
use tardy_lab::guest::console::Means;
use tardy_lab::guest::emulator::{self, Built};
use tardy_lab::guest::kernel;
use tardy_lab::guest::modules::Index;
use tardy_lab::guest::qemu::{Accelerator, VirtualMachine};
use tardy_model::manifest::GuestMode;

fn machine(mode: GuestMode, accelerator: Accelerator) -> VirtualMachine {
    VirtualMachine {
        mode,
        accelerator,
        cpus: 1,
        memory_mib: 256,
        kernel: "/k/vmlinuz".into(),
        append: String::new(),
        sandbox: true,
    }
}

#[test]
fn exact_time_has_every_option_that_it_needs() {
    let words = machine(GuestMode::Exact, Accelerator::Tcg).arguments();
    let line = words.join(" ");
    for needed in [
        "-accel tcg ",
        // Recorded, to nowhere: else idle time may end some instructions late on a busy host.
        "-icount shift=1,sleep=off,rr=record,rrfile=/dev/null ",
        "-rtc base=2026-01-01T00:00:00,clock=vm ",
        "-seed 1 ",
        // Else a copied byte would count as an instruction.
        "-cpu max,-erms,-fsrm,",
        "-smp 1 ",
        "-nodefaults ",
        "-no-reboot ",
        "-serial file:console.log -serial file:port ",
        " nokaslr ",
        " norandmaps ",
        " random.trust_cpu=off ",
        " mitigations=off ",
        " tsc_early_khz=1000000",
        " panic=-1 ",
    ] {
        assert!(line.contains(needed), "{needed} is not in {line}");
    }
    // No device through which something of the host could come.
    for never in ["-netdev", "-device", "-drive", "-fsdev", "-chardev", "base=utc"] {
        assert!(!line.contains(never), "{never} is in {line}");
    }
    assert_eq!(words.iter().filter(|word| word.starts_with('/')).collect::<Vec<_>>(), ["/k/vmlinuz"]);
}

#[test]
fn real_time_counts_nothing() {
    for accelerator in [Accelerator::Tcg, Accelerator::Kvm] {
        let line = machine(GuestMode::RealTime, accelerator).arguments().join(" ");
        assert!(!line.contains("icount") && !line.contains("clock=vm"), "{line}");
        assert!(line.contains(&format!("-accel {}", accelerator.name())), "{line}");
    }
}

#[test]
fn qemu_could_start_programs_and_take_other_rights() {
    for (mode, accelerator) in [
        (GuestMode::Exact, Accelerator::Tcg),
        (GuestMode::RealTime, Accelerator::Tcg),
        (GuestMode::RealTime, Accelerator::Kvm),
    ] {
        let filtered = machine(mode, accelerator);
        let line = filtered.arguments().join(" ");
        let wanted = " -sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny ";
        assert!(line.contains(wanted), "{line}");
        // A QEMU that cannot have the filter starts without, and is the same machine else.
        let bare = VirtualMachine { sandbox: false, ..filtered }.arguments().join(" ");
        assert_eq!(bare, line.replace(wanted, " "));
    }
}

#[test]
fn the_machines_own_sources_name_another_suite() {
    let text = "\
Types: deb
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb-src
URIs: http://mirror.example/debian
Suites: bookworm
Components: main

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb
URIs: http://other.example
Suites: nodistro
Components: main

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
 contrib
";
    let wanted = "\
URIs: http://mirror.example/debian
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
Types: deb
Suites: trixie trixie-updates
Components: main

URIs: http://mirror.example/debian-security
Types: deb
Suites: trixie-security
Components: main

";
    assert_eq!(deb822(text, "trixie"), wanted);
    let text = "\
deb [signed-by=/k.gpg arch=amd64] http://mirror.example/debian bookworm main contrib
# deb http://off.example/debian bookworm main
deb-src http://mirror.example/debian bookworm main
deb http://other.example/apt cloud-sdk-bookworm main
deb http://mirror.example/debian-security bookworm-security main
";
    let wanted = "\
deb [signed-by=/k.gpg arch=amd64] http://mirror.example/debian trixie main
deb http://mirror.example/debian-security trixie-security main
";
    assert_eq!(one_line(text, "trixie"), wanted);
    let both = and_sources("deb [arch=amd64] http://mirror.example/debian trixie main\n");
    assert_eq!(both.lines().nth(1), Some("deb-src [arch=amd64] http://mirror.example/debian trixie main"));
    let stanza = and_sources("URIs: http://mirror.example/debian\nTypes: deb\nSuites: trixie\n");
    assert_eq!(stanza, "URIs: http://mirror.example/debian\nTypes: deb deb-src\nSuites: trixie\n");
}

#[test]
fn root_started_and_built_a_qemu_in_a_folder_where_another_user_could_replace_it() {
    let cache = tempfile::tempdir().expect("a folder");
    let folder = cache.path().join("qemu");
    fs::create_dir(&folder).expect("made");
    fs::write(folder.join("qemu-system-x86_64"), "#!/bin/sh\n").expect("written");
    let built = Built { source: "qemu".into(), source_sha256: "1".into(), compiler: "gcc".into(), sha256: "2".into() };
    fs::write(folder.join("qemu.json"), serde_json::to_vec(&built).expect("JSON")).expect("written");
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    let refused = || {
        assert_eq!(emulator::found(cache.path()), None);
        let error = emulator::build(cache.path(), &mut |_| panic!("it begins")).expect_err("refused").to_string();
        assert!(error.contains("another user than this one and root may write there"), "{error}");
    };
    mode(&folder, 0o755);
    assert_eq!(emulator::found(cache.path()).map(|(_, noted)| noted), Some(built));
    mode(&folder, 0o775);
    assert_eq!(emulator::found(cache.path()), None, "the group may put another one there");
    mode(&folder, 0o755);
    mode(cache.path(), 0o777);
    refused();
    mode(cache.path(), 0o755);
    if tardy_sys::process::is_root() {
        std::os::unix::fs::chown(cache.path(), Some(65_534), None).expect("given away");
        refused();
    }
    // A note that never ends, or a program that is elsewhere, is none.
    std::os::unix::fs::chown(cache.path(), Some(fs::metadata("/proc/self").expect("this process").uid()), None)
        .expect("taken back");
    fs::remove_file(folder.join("qemu.json")).expect("removed");
    std::os::unix::fs::symlink("/dev/zero", folder.join("qemu.json")).expect("made");
    assert_eq!(emulator::found(cache.path()), None);
}

#[test]
fn an_interrupt_that_a_guest_injected_into_its_own_guest_came_twice() {
    let of = |call: &str| format!("        case SVM_EVTINJ_TYPE_INTR:\n            {call}            break;\n");
    let changed = emulator::changed(&of("do_interrupt_x86_hardirq(env, vector, 1);\n")).expect("the place for it");
    assert_eq!(changed, of("do_interrupt_x86_hardirq(env, vector, 1);\n            cs->exception_index = -1;\n"));
    assert_eq!(emulator::changed(&of("other(env);\n")), None, "another source than the one that is known");
    let twice = of("do_interrupt_x86_hardirq(env, vector, 1);\n").repeat(2);
    assert_eq!(emulator::changed(&twice), None);
}

#[test]
fn a_module_comes_after_what_it_needs() {
    let index = Index {
        modules: [
            ("8021q", &["garp", "mrp"][..]),
            ("garp", &["stp", "llc"]),
            ("mrp", &[]),
            ("stp", &["llc"]),
            ("llc", &[]),
        ]
        .map(|(name, needs)| (name.to_owned(), needs.iter().map(|need| (*need).to_owned()).collect()))
        .into(),
        aliases: [("rtnl-link-vlan".to_owned(), "8021q".to_owned())].into(),
    };
    assert_eq!(index.load_order("rtnl-link-vlan"), ["llc", "stp", "garp", "mrp", "8021q"]);
    assert_eq!(index.load_order("8021q"), index.load_order("rtnl-link-vlan"));
    assert_eq!(index.load_order("netdev-eth0"), [""; 0]);
    let circle = Index {
        modules: [("a", "b"), ("b", "a")].map(|(name, need)| (name.to_owned(), vec![need.to_owned()])).into(),
        ..Index::default()
    };
    assert_eq!(circle.load_order("a").len(), 2, "it ends");
}

#[test]
fn a_release_stands_in_the_image() {
    let mut image = vec![0; 0x400];
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
    image[0x300..0x30f].copy_from_slice(b"6.12.9-amd64 (d");
    assert_eq!(kernel::release(&image), Some("6.12.9-amd64"));
    for end in 0..image.len() {
        // Cut anywhere, it is no image or the same one.
        assert!(kernel::release(&image[..end]).is_none_or(|release| "6.12.9-amd64".starts_with(release)));
    }
}

/// `tardy plan` with an empty cache, on a machine whose QEMU is of this version, if it has one.
fn plan_with(qemu: Option<&str>, arguments: &[&str]) -> (Option<i32>, String, String) {
    let cache = tempfile::tempdir().expect("a folder");
    let tardy = std::env::var_os("TARDY").map_or_else(|| "../dist/tardy".into(), std::path::PathBuf::from);
    let tardy = std::path::absolute(tardy).expect("a path");
    let programs = tempfile::tempdir().expect("a folder");
    if let Some(version) = qemu {
        // It only says of which version it is.
        let program = programs.path().join("qemu-system-x86_64");
        std::fs::write(&program, format!("#!/bin/sh\necho 'QEMU emulator version {version}'\n")).expect("a program");
        let may_run = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, may_run).expect("a mode");
    }
    let mut command = std::process::Command::new(tardy);
    command.arg("plan").args(arguments).env("TARDY_CACHE", cache.path()).env("PATH", programs.path());
    let output = command.output().expect("tardy runs");
    let left = std::fs::read_dir(cache.path()).expect("a folder").count();
    assert_eq!(left, 0, "a plan changes nothing");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn plan(arguments: &[&str]) -> (Option<i32>, String, String) {
    plan_with(Some("10.0.2"), arguments)
}

/// Lines of a script that do something.
fn does(script: &str) -> Vec<&str> {
    script.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

#[test]
fn a_plan_says_how_the_guest_is_made_and_does_nothing_of_what_is_done_inside() {
    let (code, script, error) = plan(&["host-to-host", "--in", "guest:exact", "--set", "stream.ctl.count=5"]);
    assert_eq!(code, Some(0), "{error}");
    let does = does(&script);
    assert_eq!(does.len(), 3, "{script}");
    assert_eq!(does[0], "set -e");
    assert!(
        does[1].starts_with("tardy guest pack host-to-host --set 'stream.ctl.count=5' --in guest:exact "),
        "{script}"
    );
    assert!(does[2].starts_with("qemu-system-x86_64 ") && does[2].contains("-icount shift=1,sleep=off"), "{script}");
    assert!(script.contains("not fetched yet: tardy guest fetch debian:6.12"), "{script}");
    assert!(script.contains("\n# ip netns add "), "{script}");
    let (code, script, _) = plan(&["host-to-host", "--in", "guest"]);
    assert!(code == Some(0) && !script.contains("icount"), "{script}");
}

#[test]
fn a_plan_was_silent_about_the_emulator_that_its_run_would_lack() {
    let (code, script, error) = plan(&["vm-roundtrip", "--in", "guest:exact"]);
    assert_eq!(code, Some(0), "{error}");
    let why = "\n# refused on this machine: a guest that runs virtual machines itself needs a QEMU that tardy builds";
    assert!(script.contains(why) && script.contains("tardy guest fetch --with qemu"), "{script}");
    // Without virtual machines it needs none.
    assert!(!plan(&["host-to-host", "--in", "guest:exact"]).1.contains("refused"));
}

#[test]
fn a_plan_promises_no_reader_for_what_a_guest_measured_by_hand() {
    let (_, script, _) = plan(&["host-to-host", "--in", "guest:exact"]);
    let last = "\n# what it measured is in the file `port`, which only `tardy run` can read, and only while it comes; by hand\n\
                # `console.log` shows how it ended: ";
    assert!(script.contains(last), "{script}");
}

#[test]
fn two_runs_that_missed_the_same_kernel_took_it_from_under_each_other() {
    let cache = tempfile::tempdir().expect("a folder");
    let which = kernel::debian("debian:6.12").expect("known");
    let fetches = std::sync::atomic::AtomicU32::new(0);
    let run = || {
        tardy_lab::guest::fetch::unless_there(cache.path(), which, || {
            fetches.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            // Long enough for the others to come, were they let in.
            std::thread::sleep(std::time::Duration::from_millis(200));
            let folder = kernel::folder(cache.path(), which.name);
            std::fs::create_dir_all(&folder).expect("a folder");
            let bytes = serde_json::to_vec(&fetched()).expect("JSON");
            std::fs::write(folder.join("kernel.json"), bytes).expect("written");
            Ok(fetched())
        })
    };
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        for run in runs {
            assert_eq!(run.join().expect("it ends").expect("it is there"), fetched());
        }
    });
    assert_eq!(fetches.into_inner(), 1, "the others found what the first one brought");
}

fn fetched() -> kernel::Fetched {
    kernel::Fetched {
        name: "debian:6.12".into(),
        package: "linux-image-6.12.1-amd64".into(),
        version: "6.12.1-1".into(),
        package_sha256: String::new(),
        image_sha256: "0123456789abcdef".repeat(4),
        image: "boot/vmlinuz-6.12.1".into(),
        modules_sha256: String::new(),
        origin: "Debian".into(),
        built: Vec::new(),
    }
}

#[test]
fn a_kernel_that_debian_splits_into_packages_is_fetched_with_all_of_them() {
    use tardy_lab::guest::fetch::parts;
    let split = "Package: linux-image-7.2.12+deb14-amd64\nDepends: initramfs-tools | linux-initramfs-tool, \
                 linux-base-7.2.12+deb14-amd64 (= 7.2.12-1), linux-binary-7.2.12+deb14-amd64 (= 7.2.12-1), \
                 linux-modules-7.2.12+deb14-amd64 (= 7.2.12-1)\nSize: 1892\n";
    assert_eq!(parts(split), ["linux-binary-7.2.12+deb14-amd64", "linux-modules-7.2.12+deb14-amd64"]);
    let whole = "Package: linux-image-6.12.118+deb13-amd64\nDepends: kmod, linux-base (>= 4.3~), \
                 initramfs-tools (>= 0.120+deb8u2) | linux-initramfs-tool\n";
    assert_eq!(parts(whole), [""; 0]);
    assert_eq!(parts("Package: linux-image-amd64\n"), [""; 0]);
}

#[test]
fn the_list_of_kernels_shows_no_raw_error_and_no_sum_that_is_cut_unsaid() {
    let cache = tempfile::tempdir().expect("a folder");
    let folder = cache.path().join("guest/kernels/debian-6.12");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("kernel.json"), serde_json::to_vec(&fetched()).expect("JSON")).expect("written");
    let mut command = std::process::Command::new(crate::help::tardy());
    let output = command.args(["guest", "list"]).env("TARDY_CACHE", cache.path()).output().expect("tardy runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), kernel::DEBIAN.len() + 4, "{text}");
    let line = |name: &str| *lines.iter().find(|line| line.starts_with(&format!("{name} "))).expect("a line");
    assert!(line("debian:6.12").ends_with(" 0123456789abcdef…"), "{text}");
    assert!(line("debian:6.1").ends_with(" not fetched"), "{text}");
    assert_eq!(line("qemu"), "qemu            not built: runs virtual machines in a guest", "{text}");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    let image = format!("/boot/vmlinuz-{}", release.trim());
    if !std::path::Path::new(&image).exists() {
        assert_eq!(line("running"), format!("{:<16}not here: no {image}; name a file by --kernel", "running"));
    }
    assert!(!text.contains("os error"), "{text}");
    assert_eq!(lines.last(), Some(&"`tardy guest fetch KERNEL` fetches one of Debian's"));
}

#[test]
fn a_plan_for_a_different_cpu_in_exact_time_is_refused_like_the_run() {
    let (code, script, error) = plan(&["host-to-host", "--in", "guest:exact", "--set", "stream.ctl.rx.cpu=different"]);
    assert_eq!((code, &script[..]), (Some(3), ""), "{error}");
    assert!(error.contains("has one processor"), "{error}");
    // In real time it may have several.
    assert_eq!(plan(&["host-to-host", "--in", "guest", "--set", "stream.ctl.rx.cpu=different"]).0, Some(0));
    let (code, _, error) = plan(&["host-to-host", "--in", "guest:virtual"]);
    assert_eq!(code, Some(2), "{error}");
}

#[test]
fn a_plan_says_what_this_machines_qemu_lacks_where_the_run_would_be_refused() {
    let igb = ["igb", "--in", "guest:exact"];
    let (code, script, error) = plan_with(Some("7.2.22"), &igb);
    assert_eq!(code, Some(0), "{error}");
    let why = "\n# refused on this machine: cell `all`: its path is two ports of igb, which QEMU emulates from version 8.0 on, and \
               this is QEMU emulator version 7.2.22: build one that does: tardy guest fetch --with qemu; or use path.kind = \"veth\"\n# tardy guest pack igb ";
    assert!(script.contains(why), "{script}");
    assert_eq!(does(&script), ["set -e"], "{script}");
    let (code, script, error) = plan_with(Some("10.0.2"), &igb);
    assert!(code == Some(0) && !script.contains("refused"), "{script}{error}");
    assert_eq!(does(&script).len(), 3, "{script}");
    // Without a QEMU nothing is started, and the plan is a plan all the same.
    let (code, script, error) = plan_with(None, &["host-to-host", "--in", "guest"]);
    assert_eq!(code, Some(0), "{error}");
    let why = "\n# refused on this machine: program `qemu-system-x86_64` is not installed, and guests run in it: apt install \
               qemu-system-x86\n";
    assert!(script.contains(why) && script.contains("\n# ip netns add "), "{script}");
    assert_eq!(does(&script), ["set -e"], "{script}");
}

/// A file of one's own, which says nothing of a CPU but for what is added to it.
fn own(more: &str) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a file");
    let text = format!("{}cycle = \"1ms\"\ncount = 10\n{more}\n", tardy_tests::experiment("stream from a to b"));
    std::fs::write(&file, text).expect("written");
    file
}

#[test]
fn a_default_that_nobody_wrote_is_not_refused_as_if_it_had_been() {
    // The default of `stream.*.rx.cpu` is `different`.
    let planned = |more: &str, set: &[&str]| {
        let file = own(more);
        let path = file.path().to_str().expect("UTF-8");
        plan(&[&[path, "--in", "guest:exact"], set].concat())
    };
    for (more, set) in [
        ("", &[][..]),
        ("rx = { wait = \"poll\" }", &[]),
        ("rx.cpu = \"different\"", &["--set", "stream.ctl.rx.cpu=same"]),
        ("", &["--set", "stream.ctl.rx={wait=\"poll\"}"]),
        // A case that asks for another one leaves the rest to the default.
        ("[[case]]\nname = \"asks\"\nset = { \"stream.ctl.rx.cpu\" = \"same\" }\n[[case]]\nname = \"does-not\"", &[]),
    ] {
        let (code, script, error) = planned(more, set);
        assert_eq!(code, Some(0), "{more} {set:?}: {error}");
        assert!(script.contains("\nqemu-system-x86_64 "), "{script}");
    }
    for (more, set, key) in [
        ("rx.cpu = \"different\"", &[][..], "stream.ctl.rx.cpu"),
        ("rx = { cpu = \"different\" }", &[], "stream.ctl.rx.cpu"),
        ("rx.cpu = \"auto\"\n[stream.ctl.tx]\ncpu = \"different\"", &[], "stream.ctl.tx.cpu"),
        ("[matrix]\n\"stream.ctl.rx.cpu\" = [\"same\", \"different\"]", &[], "stream.ctl.rx.cpu"),
        (
            "[[case]]\nname = \"x.y\"\nset = { \"stream.ctl\" = { rx = { cpu = \"different\" } } }",
            &[],
            "stream.ctl.rx.cpu",
        ),
        ("[load.b]\nkind = \"cpu\"\nfrom = \"a\"\ncpu = \"different\"", &[], "load.b.cpu"),
        ("", &["--set", "station.b.softirq=different"], "station.b.softirq"),
        ("", &["--set", "stream.ctl={rx={cpu=\"different\"}}"], "stream.ctl.rx.cpu"),
    ] {
        let (code, script, error) = planned(more, set);
        assert_eq!((code, &script[..]), (Some(3), ""), "{more} {set:?}: {error}");
        assert!(error.contains(&format!("{key} is \"different\"")), "{more} {set:?}: {error}");
    }
}

#[test]
fn what_a_killed_probe_leaves_is_known_to_undo() {
    let rm = tardy_lab::guest::remove(std::path::Path::new("/runs/x/guest")).commands()[0].to_string();
    assert_eq!(rm, "tardy guest remove-files /runs/x/guest/initramfs /runs/x/guest/port /runs/x/guest/probe");
}

#[test]
fn an_error_of_a_guest_says_what_to_do_next() {
    use std::io;
    use tardy_lab::guest::GuestError;
    use tardy_lab::guest::apt::FetchError;
    use tardy_lab::guest::console::ConsoleEnd;
    use tardy_lab::guest::frame::Damaged;
    use tardy_lab::guest::kernel::KernelError;
    use tardy_lab::guest::modules::ModuleError;
    use tardy_lab::guest::programs::ProgramError;
    let console = ConsoleEnd { means: Means::Panic, lines: vec!["Kernel panic".into()] };
    let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
    let says: [(String, &str); 11] = [
        (GuestError::Start { source: denied() }.to_string(), "apt install --reinstall qemu-system-x86"),
        (GuestError::File { doing: "write", path: "/p".into(), source: denied() }.to_string(), "--out"),
        (GuestError::Broke { what: "panicked".into(), console, qemu: String::new() }.to_string(), "guest/console.log"),
        (GuestError::Nonsense("a trial of no cell".into()).to_string(), "--append"),
        (Damaged { at: 7, what: "its check sum" }.to_string(), "run it again"),
        (
            FetchError::Program { doing: "d".into(), program: "apt".into(), says: "s".into() }.to_string(),
            "--kernel FILE",
        ),
        (FetchError::NoPackage { package: "p".into(), suite: "trixie" }.to_string(), "--kernel FILE"),
        (KernelError::Read { name: "k".into(), path: "/p".into(), source: denied() }.to_string(), "debian:6.12"),
        (ProgramError::Library { library: "libx".into(), program: "tc".into() }.to_string(), "`ldd`"),
        (ProgramError::Read { path: "/p".into(), source: denied() }.to_string(), "install its package anew"),
        (ModuleError::Foreign { path: "/p/sch_etf.ko.zst".into() }.to_string(), "`unzstd`"),
    ];
    for (says, next) in says {
        assert!(says.contains(next), "{next} is not in: {says}");
    }
}

/// The second trial of a guest found less than twice its packets' memory, which port `xdp` wants.
#[test]
fn a_guest_had_too_little_memory_for_its_af_xdp_sockets() {
    let text = tardy_tests::experiment("frames to an XDP program").to_owned();
    let source = tardy_spec::Source { name: "x.toml".into(), text };
    let experiment = tardy_spec::load(&source, &[]).expect("it loads");
    let setup = &experiment.cells[0].setup;
    let frames = u64::from(setup.path.queues.expect("queues")) * 4_096 * 4_096;
    let needed = tardy_lab::coordinator::memory_of_machine(setup);
    assert!(needed >= 2 * frames && needed - tardy_lab::coordinator::memory(setup) == frames, "{needed}");
}
