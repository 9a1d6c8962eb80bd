// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of guests. The cache of kernels: what is used of it is what was written, where it comes
//! from, and what killed programs leave in it. The archive, read back by a reader of the format
//! that knows nothing of its writer. And what `undo` removes of the guest of a killed run: no link
//! leads it elsewhere.

use super::fetched;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tardy_lab::guest::apt::{deb822, keep_debians, one_line};
use tardy_lab::guest::elf::Elf;
use tardy_lab::guest::initramfs::Archive;
use tardy_lab::guest::kernel::{Fetched, Kernel, KernelError};
use tardy_lab::guest::modules::ModuleError;
use tardy_lab::guest::{apt, cached, kernel, modules, sha256, unpack};

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    bytes[at..at + what.len()].copy_from_slice(what);
}

/// A kernel that says where it is entered by PVH: an ELF file whose only section is Xen's note.
fn plain() -> Vec<u8> {
    let mut elf = vec![0; 144];
    put(&mut elf, 0, b"\x7fELF\x02\x01");
    put(&mut elf, 40, &64u64.to_le_bytes());
    put(&mut elf, 58, &[64, 0, 1, 0]);
    put(&mut elf, 64 + 4, &7u32.to_le_bytes());
    put(&mut elf, 64 + 24, &128u64.to_le_bytes());
    put(&mut elf, 64 + 32, &16u64.to_le_bytes());
    put(&mut elf, 128, b"\x04\0\0\0\x08\0\0\0\x12\0\0\0Xen\0");
    elf
}

/// A bzImage of release `6.12.1` with that kernel in it, as zstd stores what it does not compress.
fn image() -> Vec<u8> {
    let plain = plain();
    let mut packed = b"\x28\xb5\x2f\xfd\x20".to_vec();
    packed.push(plain.len() as u8);
    packed.extend(&((plain.len() as u32) << 3 | 1).to_le_bytes()[..3]);
    packed.extend(plain);
    let mut image = vec![0; 1024];
    put(&mut image, 0x1f1, &[1]);
    put(&mut image, 0x202, b"HdrS");
    put(&mut image, 0x20e, &0x100u16.to_le_bytes());
    put(&mut image, 0x248, &0u32.to_le_bytes());
    put(&mut image, 0x24c, &(packed.len() as u32).to_le_bytes());
    put(&mut image, 0x300, b"6.12.1 (d");
    image.extend(packed);
    image
}

const MODULE: &str = "usr/lib/modules/6.12.1/kernel/veth.ko";

/// A cache with a kernel as `tardy guest fetch` leaves it.
fn cache() -> tempfile::TempDir {
    let cache = tempfile::tempdir().expect("a folder");
    let root = kernel::folder(cache.path(), "debian:6.12");
    let module = root.join(MODULE);
    fs::create_dir_all(module.parent().expect("a folder")).expect("made");
    fs::create_dir_all(root.join("boot")).expect("made");
    fs::write(root.join("boot/vmlinuz-6.12.1"), image()).expect("written");
    fs::write(module, plain()).expect("written");
    let list = cached::listed(&cached::sums(&root, Path::new("usr/lib/modules")).expect("sums"));
    assert_eq!(list, format!("{}  {MODULE}\n", sha256::of(&plain())));
    fs::write(root.join(kernel::MODULE_SUMS), &list).expect("written");
    let note = Fetched { image_sha256: sha256::of(&image()), modules_sha256: sha256::of(list.as_bytes()), ..fetched() };
    fs::write(root.join("kernel.json"), serde_json::to_vec(&note).expect("JSON")).expect("written");
    cache
}

fn find(cache: &Path) -> Result<Kernel, KernelError> {
    kernel::find(cache, "debian:6.12")
}

#[test]
fn an_unpacked_kernel_that_was_cut_short_or_changed_was_booted_for_ever() {
    let cache = cache();
    let kernel = find(cache.path()).expect("it was fetched");
    let boots = unpack::bootable(cache.path(), &kernel);
    assert_eq!(boots.path, cache.path().join("unpacked").join(sha256::of(&image())));
    assert_eq!(boots.sha256, sha256::of(&plain()));
    let mut other = plain();
    other[100] = 1;
    let cut = plain()[..60].to_vec();
    for damaged in [Some(other), Some(cut), Some(Vec::new()), None] {
        match damaged {
            Some(damaged) => fs::write(&boots.path, damaged).expect("written"),
            None => fs::remove_file(&boots.path).expect("removed"),
        }
        assert_eq!(unpack::bootable(cache.path(), &kernel), boots, "it is made again");
        assert_eq!(fs::read(&boots.path).expect("it is there"), plain());
    }
    // One that an earlier version wrote has no sum next to it.
    let sum = boots.path.with_extension("sha256");
    fs::remove_file(&sum).expect("removed");
    fs::write(&boots.path, b"anything").expect("written");
    assert_eq!(unpack::bootable(cache.path(), &kernel), boots);
    assert_eq!(fs::read(&boots.path).expect("it is there"), plain());
    let left: Vec<PathBuf> = fs::read_dir(cache.path().join("unpacked"))
        .expect("a folder")
        .map(|entry| entry.expect("one").path())
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
    let mut check = std::process::Command::new("sha256sum");
    check.arg("-c").arg(&sum).current_dir(cache.path().join("unpacked")).stdout(std::process::Stdio::null());
    assert!(check.status().expect("sha256sum runs").success(), "a person can check it too");
}

/// A program in PATH that is called as QEMU and writes to its console without end.
const CHATTY: &str = "#!/bin/sh
case \"$*\" in
  *--version*) echo QEMU emulator version 10.0.2 ;;
  *-qmp*) exit 1 ;;
  *) echo Linux version 6.12.1 > console.log; truncate -s 257M console.log; exec sleep 60 ;;
esac
";

#[test]
fn a_guest_that_printed_for_ever_filled_the_disk() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("vmlinuz"), image()).expect("written");
    fs::create_dir(at("bin")).expect("made");
    fs::write(at("bin/qemu-system-x86_64"), CHATTY).expect("written");
    fs::set_permissions(at("bin/qemu-system-x86_64"), fs::Permissions::from_mode(0o755)).expect("made runnable");
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", at("bin").display());
    let mut command = std::process::Command::new(crate::help::tardy());
    command
        .args(["run", "--in", "guest:exact", "--trials", "1", "--kernel"])
        .arg(at("vmlinuz"))
        .arg("--out")
        .arg(at("run"));
    command.env("PATH", path).env("TARDY_STATE", at("state")).env("TARDY_CACHE", at("cache"));
    let output = command.stdin(std::process::Stdio::null()).output().expect("tardy runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("the guest wrote more than 256 MiB to its console and was ended"), "{said}");
    // What a person should know of this QEMU before: it has no filter.
    assert!(said.contains("cannot filter its own system calls"), "{said}");
    assert_eq!(said.contains("QEMU runs as root here"), tardy_sys::process::is_root(), "{said}");
}

/// A program in PATH that is called as QEMU: a console of this many MiB, and what its guest sent,
/// are there at once.
const SENDING: &str = "#!/bin/sh
case \"$*\" in
  *--version*) echo QEMU emulator version 10.0.2 ;;
  *-qmp*) exit 1 ;;
  *) mkdir new; truncate -s \"$CONSOLE_MIB\"M new/console.log; cp \"$SENT\" new/port; mv new/console.log new/port .; exec sleep 60 ;;
esac
";

#[test]
fn nobody_looked_at_the_console_while_a_guest_sent_without_an_end() {
    use std::os::unix::fs::PermissionsExt;
    use tardy_lab::guest::frame::{self, FrameKind};
    use tardy_lab::run::{Event, What};
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("vmlinuz"), image()).expect("written");
    fs::create_dir(at("bin")).expect("made");
    fs::write(at("bin/qemu-system-x86_64"), SENDING).expect("written");
    fs::set_permissions(at("bin/qemu-system-x86_64"), fs::Permissions::from_mode(0o755)).expect("made runnable");
    // 8 MiB of sound messages, more than tardy reads at once, and then something that is none.
    let mut event = serde_json::to_vec(&Event::now(What::TornDown)).expect("JSON");
    event.resize(1 << 20, b' ');
    let mut sent = Vec::new();
    (0..8).for_each(|_| frame::write(&mut sent, FrameKind::Event, &event).expect("written"));
    sent.extend([0xff; 64]);
    fs::write(at("sent"), sent).expect("written");
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", at("bin").display());
    let ended_by = |console_mib: &str| {
        let mut command = std::process::Command::new(crate::help::tardy());
        command.args(["run", "--in", "guest:exact", "--trials", "1", "--kernel"]).arg(at("vmlinuz"));
        command.arg("--out").arg(at(&format!("run-{console_mib}"))).env("SENT", at("sent"));
        command.env("PATH", &path).env("TARDY_STATE", at("state")).env("TARDY_CACHE", at("cache"));
        command.env("CONSOLE_MIB", console_mib).stdin(std::process::Stdio::null());
        let output = command.output().expect("tardy runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // With a short console tardy reads to the end of what was sent. A
    // long one ends the guest before.
    let (code, said) = ended_by("1");
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("no beginning of a frame"), "{said}");
    let (code, said) = ended_by("257");
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("the guest wrote more than 256 MiB to its console and was ended"), "{said}");
}

#[test]
fn a_kernel_that_make_fetched_was_not_found_by_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("dist")).expect("made");
    fs::create_dir_all(at(".cache")).expect("made");
    let kernels = cache();
    std::os::unix::fs::symlink(kernels.path(), at(".cache/guest")).expect("made");
    let list = |program: &Path| {
        fs::copy(crate::help::tardy(), program).expect("copied");
        let mut command = std::process::Command::new(program);
        command.args(["guest", "list"]).env_remove("TARDY_CACHE").env_remove("XDG_CACHE_HOME").env("HOME", at("home"));
        String::from_utf8(command.output().expect("tardy runs").stdout).expect("UTF-8")
    };
    let fetched = "linux-image-6.12.1-amd64 6.12.1-1";
    assert!(list(&at("dist/tardy")).contains(fetched), "make's own cache");
    // Installed elsewhere it has the user's.
    assert!(!list(&at("tardy")).contains(fetched));
    fs::create_dir_all(at("home/.cache/tardy")).expect("made");
    fs::rename(at(".cache/guest"), at("home/.cache/tardy/guest")).expect("moved");
    assert!(list(&at("tardy")).contains(fetched));
}

#[test]
fn an_image_that_changes_between_two_looks_is_not_kept_under_the_name_of_the_first() {
    let cache = cache();
    let kernel = find(cache.path()).expect("it was fetched");
    let mut other = image();
    *other.last_mut().expect("bytes") ^= 1;
    fs::write(&kernel.image, other).expect("written");
    let boots = unpack::bootable(cache.path(), &kernel);
    assert_eq!(boots.path, kernel.image, "nothing is unpacked");
    assert!(!cache.path().join("unpacked").exists());
    assert!(matches!(find(cache.path()), Err(KernelError::Changed { .. })));
}

#[test]
fn a_module_that_changed_after_the_fetch_went_into_the_guest() {
    let cache = cache();
    let kernel = find(cache.path()).expect("it was fetched");
    let folder = kernel.modules.clone().expect("modules");
    let pack = || modules::pack(&folder, kernel.sums.as_ref(), &["veth", "sch_etf"], &mut Archive::default());
    assert!(pack().expect("as it was fetched").modules.contains_key("veth"));
    let root = kernel::folder(cache.path(), "debian:6.12");
    // A module that nobody fetched.
    fs::write(folder.join("kernel/sch_etf.ko"), plain()).expect("written");
    let error = pack().expect_err("it is refused");
    assert!(matches!(error, ModuleError::Changed(KernelError::NotFetchedWith { .. })), "{error}");
    assert!(error.to_string().contains("`tardy guest fetch debian:6.12`"), "{error}");
    fs::remove_file(folder.join("kernel/sch_etf.ko")).expect("removed");
    let mut other = plain();
    other[100] = 1;
    fs::write(root.join(MODULE), other).expect("written");
    let error = pack().expect_err("it is refused");
    assert!(matches!(error, ModuleError::Changed(KernelError::Changed { .. })), "{error}");
    assert!(error.to_string().contains("veth.ko is not what was fetched"), "{error}");
    // The list of sums is checked itself.
    fs::write(root.join(kernel::MODULE_SUMS), "").expect("written");
    let error = find(cache.path()).expect_err("it is refused");
    assert!(error.to_string().contains("modules.sha256 is not what was fetched"), "{error}");
}

#[test]
fn a_kernel_without_sums_of_its_modules_is_fetched_again() {
    let cache = cache();
    let note = kernel::folder(cache.path(), "debian:6.12").join("kernel.json");
    let mut older: serde_json::Value = serde_json::from_slice(&fs::read(&note).expect("read")).expect("JSON");
    older.as_object_mut().expect("an object").remove("modules_sha256");
    fs::write(&note, older.to_string()).expect("written");
    assert!(matches!(find(cache.path()), Err(KernelError::NotFetched(_))));
}

#[test]
fn what_a_killed_fetch_left_stayed_for_ever() {
    let cache = tempfile::tempdir().expect("a folder");
    let mut ended = std::process::Command::new("true").spawn().expect("it starts");
    let pid = ended.id();
    ended.wait().expect("it ends");
    let alive = std::process::id();
    let names = [
        format!("fetch-{pid}"),
        format!("build-{pid}"),
        format!("fetch-0123abcd-{pid}"),
        format!("fetch-{alive}"),
        format!("fetched-{pid}"),
        "kernels".to_owned(),
        "fetch-x".to_owned(),
    ];
    for name in &names {
        fs::create_dir_all(cache.path().join(name).join("apt/lists")).expect("made");
    }
    // A link is not followed, and a file is nobody's work folder.
    std::os::unix::fs::symlink(cache.path().join("kernels"), cache.path().join(format!("build-link-{pid}")))
        .expect("made");
    cached::sweep(cache.path(), &["fetch", "build"]);
    let left = |name: &str| cache.path().join(name).exists();
    let kept: Vec<bool> = names.iter().map(|name| left(name)).collect();
    assert_eq!(kept, [false, false, false, true, true, true, true], "{names:?}");
    assert!(left(&format!("build-link-{pid}")) && cache.path().join("kernels/apt/lists").exists());
}

#[test]
fn a_source_that_is_believed_unsigned_could_give_debians_kernel() {
    for line in [
        "deb [trusted=yes] http://evil.example/debian bookworm main",
        "deb [ arch=amd64 trusted=yes ] http://evil.example/debian bookworm main",
        "deb [allow-insecure=yes arch=amd64] http://evil.example/debian bookworm main",
        "deb [Allow-Weak=true] http://evil.example/debian bookworm main",
    ] {
        assert_eq!(one_line(line, "trixie"), "", "{line}");
    }
    let signed = "deb [trusted=no signed-by=/k.gpg] http://mirror.example/debian bookworm main\n";
    assert_eq!(one_line(signed, "trixie"), signed.replace("bookworm", "trixie"));
    let stanza = |more: &str| format!("Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\n{more}\n");
    for more in ["Trusted: yes", "trusted: YES", "Allow-Insecure: yes", "Allow-Downgrade-To-Insecure: yes"] {
        assert_eq!(deb822(&stanza(more), "trixie"), "", "{more}");
    }
    assert!(deb822(&stanza("Trusted: no"), "trixie").contains("Suites: trixie"));
}

#[test]
fn another_archive_with_a_suite_of_debians_name_could_give_the_kernel() {
    let signed =
        |origin: &str| format!("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{origin}\nSuite: stable\n");
    assert_eq!(apt::origin(&signed("Origin: Debian")), Some("Debian"));
    assert_eq!(apt::origin("Suite: stable\n"), None);
    let lists = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(lists.path().join(name), text).expect("written");
    write("deb.debian.org_debian_dists_trixie_InRelease", &signed("Origin: Debian"));
    write("deb.debian.org_debian_dists_trixie_main_binary-amd64_Packages", "Package: linux-image-amd64\n");
    write("download.example_linux_dists_trixie_InRelease", &signed("Origin: Example"));
    write("download.example_linux_dists_trixie_main_binary-amd64_Packages", "Package: linux-image-amd64\n");
    write("bare.example_dists_trixie_main_binary-amd64_Packages", "Package: linux-image-amd64\n");
    write("lock", "");
    fs::create_dir(lists.path().join("partial")).expect("made");
    assert_eq!(keep_debians(lists.path()).expect("read"), (vec!["Example".to_owned()], true));
    let mut left: Vec<String> = fs::read_dir(lists.path())
        .expect("a folder")
        .map(|e| e.expect("one").file_name().into_string().expect("UTF-8"))
        .collect();
    left.sort();
    assert_eq!(
        left,
        [
            "deb.debian.org_debian_dists_trixie_InRelease",
            "deb.debian.org_debian_dists_trixie_main_binary-amd64_Packages",
            "partial"
        ]
    );
    fs::remove_file(lists.path().join("deb.debian.org_debian_dists_trixie_InRelease")).expect("removed");
    assert!(!keep_debians(lists.path()).expect("read").1, "none of Debian's is left");
}

#[derive(Debug, PartialEq, Eq)]
struct Member {
    path: String,
    mode: u32,
    device: (u32, u32),
    bytes: Vec<u8>,
}

/// cpio's "newc", as the kernel's documentation has it.
fn read(archive: &[u8]) -> Vec<Member> {
    let (mut at, mut members) = (0, Vec::new());
    loop {
        assert_eq!(&archive[at..at + 6], b"070701");
        let field = |n: usize| {
            let text = std::str::from_utf8(&archive[at + 6 + 8 * n..at + 14 + 8 * n]).expect("hexadecimal");
            u32::from_str_radix(text, 16).expect("hexadecimal")
        };
        assert_eq!((field(2), field(3), field(5)), (0, 0, 0), "root's, without a time");
        let name = at + 110;
        let data = (name + field(11) as usize).next_multiple_of(4);
        let path = String::from_utf8(archive[name..name + field(11) as usize - 1].to_vec()).expect("a name");
        let bytes = archive[data..data + field(6) as usize].to_vec();
        if path == "TRAILER!!!" {
            return members;
        }
        members.push(Member { path, mode: field(1), device: (field(9), field(10)), bytes });
        at = (data + field(6) as usize).next_multiple_of(4);
    }
}

fn filled(order: &[usize]) -> Archive {
    let mut archive = Archive::default();
    for n in order {
        match n {
            0 => archive.file("/usr/bin/ip", b"program".to_vec(), true),
            1 => archive.link("/bin", "usr/bin"),
            2 => archive.device("/dev/console", 5, 1),
            3 => archive.file("/a", vec![7; 5], false),
            _ => archive.folder("/proc"),
        }
    }
    archive
}

#[test]
fn an_archive_reads_back_and_is_the_same_in_any_order() {
    let bytes = filled(&[0, 1, 2, 3, 4]).bytes();
    assert_eq!(bytes, filled(&[4, 2, 0, 3, 1]).bytes());
    assert_eq!(bytes.len() % 512, 0);
    let members = read(&bytes);
    let told: Vec<(&str, u32)> = members.iter().map(|m| (&m.path[..], m.mode)).collect();
    let wanted = [
        ("a", 0o100_644),
        ("bin", 0o120_777),
        ("dev", 0o040_755),
        ("dev/console", 0o020_600),
        ("proc", 0o040_755),
        ("usr", 0o040_755),
        ("usr/bin", 0o040_755),
        ("usr/bin/ip", 0o100_755),
    ];
    assert_eq!(told, wanted, "a folder before what is in it");
    assert_eq!(members[0].bytes, [7; 5]);
    assert_eq!(members[1].bytes, b"usr/bin");
    assert_eq!(members[3].device, (5, 1));
    assert_eq!(members[7].bytes, b"program");
}

fn tardy() -> std::path::PathBuf {
    std::env::var_os("TARDY").map_or_else(|| "../dist/tardy".into(), std::path::PathBuf::from)
}

#[test]
fn a_program_still_runs_as_it_goes_into_a_guest() {
    let whole = std::fs::read(tardy()).expect("the binary");
    let loaded = Elf::loaded(&whole).expect("an ELF file");
    assert!(loaded.len() < whole.len(), "its tables of names are left out");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tardy");
    std::fs::write(&path, &loaded).expect("written");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("made executable");
    // A process that another test starts just now may hold the new file open for writing.
    let says = |program: &std::path::Path| {
        let run = || Command::new(program).arg("--version").output();
        let is_busy = |ran: &std::io::Result<_>| {
            ran.as_ref().is_err_and(|error: &std::io::Error| error.kind() == std::io::ErrorKind::ExecutableFileBusy)
        };
        let mut ran = run();
        for _ in 0..100 {
            if !is_busy(&ran) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
            ran = run();
        }
        ran.expect("it runs").stdout
    };
    assert_eq!(says(&path), says(&tardy()));
    assert!(!says(&path).is_empty());
}

#[test]
fn what_a_program_is_linked_with_is_found_and_a_damaged_one_ends_in_an_answer() {
    let statically = std::fs::read(tardy()).expect("the binary");
    let elf = Elf::read(&statically).expect("an ELF file");
    assert_eq!((elf.needed(), elf.interpreter()), (Vec::new(), None), "the binary is static");
    let shell = std::fs::read("/bin/sh").expect("a shell");
    let elf = Elf::read(&shell).expect("an ELF file");
    assert!(elf.needed().contains(&"libc.so.6"), "{:?}", elf.needed());
    assert!(elf.interpreter().is_some_and(|loader| loader.contains("ld-linux")), "{:?}", elf.interpreter());
    // Whatever is cut off or overwritten, it ends.
    for end in (0..shell.len()).step_by(shell.len() / 300) {
        let _ = Elf::read(&shell[..end]).map(|elf| (elf.needed().len(), elf.modinfo().count()));
        let _ = Elf::loaded(&shell[..end]);
        let mut torn = shell.clone();
        let most = torn.len().min(end + 64);
        torn[end..most].fill(0xff);
        let _ = Elf::read(&torn).map(|elf| (elf.needed().len(), elf.interpreter().is_some(), elf.notes().count()));
        let _ = Elf::loaded(&torn);
    }
}

#[test]
fn undo_of_a_killed_guest_run_followed_a_link_that_was_put_in_its_way() {
    let keep = tempfile::tempdir().expect("a folder");
    let real = keep.path().canonicalize().expect("a path");
    let (mine, theirs) = (real.join("run/guest"), real.join("theirs"));
    for folder in [&mine, &theirs] {
        fs::create_dir_all(folder.join("probe/deep")).expect("folders");
        for file in ["initramfs", "port", "console.log", "probe/port", "probe/deep/x"] {
            fs::write(folder.join(file), "x").expect("written");
        }
    }
    fs::remove_file(mine.join("probe/port")).expect("removed");
    std::os::unix::fs::symlink(theirs.join("port"), mine.join("probe/port")).expect("a link");
    let remove = || {
        let line = tardy_lab::guest::remove(&mine).commands()[0].to_string();
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        let done = Command::new(crate::help::tardy()).args(words).output().expect("tardy runs");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    assert_eq!(remove(), (Some(0), String::new()));
    let left = |folder: &Path| fs::read_dir(folder).expect("a folder").count();
    assert_eq!((left(&mine), left(&theirs)), (1, 4), "its console stays, and the link's target");
    assert_eq!(remove(), (Some(0), String::new()), "what is gone is no error");

    // The path was noted while `run/guest` was a folder.
    let noted = tardy_lab::guest::remove(&mine).commands()[0].to_string();
    fs::rename(real.join("run"), real.join("away")).expect("renamed");
    fs::create_dir(real.join("run")).expect("a folder");
    std::os::unix::fs::symlink(&theirs, &mine).expect("a link");
    let words: Vec<&str> = noted.split(' ').skip(1).collect();
    let done = Command::new(crate::help::tardy()).args(words).output().expect("tardy runs");
    let says = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(3), "{says}");
    assert_eq!(says.matches("`guest` on the way is a link now").count(), 3, "{says}");
    assert_eq!(left(&theirs), 4, "nothing behind the link is touched");
}
