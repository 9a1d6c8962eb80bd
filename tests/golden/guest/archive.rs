// SPDX-License-Identifier: MIT OR Apache-2.0
//! The archive, read back by a reader of the format that knows nothing of its writer; and what
//! tardy says of programs.

use std::process::Command;
use tardy_lab::guest::elf::Elf;
use tardy_lab::guest::initramfs::Archive;

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
    let says = |program: &std::path::Path| Command::new(program).arg("--version").output().expect("it runs").stdout;
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
