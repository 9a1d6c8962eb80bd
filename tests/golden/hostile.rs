// SPDX-License-Identifier: MIT OR Apache-2.0
//! Input that is wrong on purpose: it costs one error, and no memory, no wait, no cursor of the
//! reader's terminal.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tardy_engine::message::{self, FromAgent, LONGEST, MessageError, ToAgent};
use tardy_host::timekeeper::{self, Keeper, Kept, Later, PtpStatus};
use tardy_lab::host::ssh::Said;
use tardy_model::manifest::{CellEntry, Manifest};
use tardy_model::point::Point;
use tardy_model::result::{CellResult, MetricResult, Results, StreamResult};
use tardy_model::sample::{Batch, Flags, MaybeNanos, Outcome};
use tardy_model::verdict::{Level, Verdict};
use tardy_report::export::{self, exporter};
use tardy_report::{Facts, Options, Picture};
use tardy_spec::experiment::Remote;
use tardy_spec::{Reason, Source, load};
use tardy_store::{RunFolder, SamplesFile, StoreError, encode_samples};

#[test]
fn the_picture_of_a_wrong_file_shows_no_control_character_of_it() {
    let text = "name = \"a\u{1b}[2J\u{7}\u{9b}1m\"\r\nx\r = 5 # \u{1b}]0;\n".to_owned();
    let error = load(&Source { name: "a\u{1b}[2J.toml".to_owned(), text }, &[]).unwrap_err();
    let mut picture = String::new();
    let handler = miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::unicode_nocolor());
    handler.render_report(&mut picture, &error).unwrap();
    assert!(picture.contains("2J") && !picture.chars().any(|c| c.is_control() && c != '\n'), "{picture:?}");
}

fn experiment(text: String) -> Reason {
    let error = load(&Source { name: "deep.toml".to_owned(), text }, &[]).unwrap_err();
    assert!(error.one_line().lines().count() == 1 && error.one_line().len() < 2_000, "{}", error.one_line());
    error.reason
}

#[test]
fn toml_that_is_nested_without_end_is_an_error_and_no_broken_stack() {
    let deep = 200_000;
    assert_eq!(experiment(format!("a = {}", "[".repeat(deep))), Reason::Syntax);
    assert_eq!(experiment(format!("a = {}{}", "[".repeat(deep), "]".repeat(deep))), Reason::Syntax);
    assert_eq!(experiment(format!("a = {}1{}", "{a=".repeat(deep), "}".repeat(deep))), Reason::Syntax);
    assert_eq!(experiment(format!("{}a = 1", "a.".repeat(deep))), Reason::Syntax);
    assert_eq!(experiment(format!("[{}a]\nb = 1", "a.".repeat(deep))), Reason::Syntax);
}

/// A connection that brings these bytes and counts how many were asked for at once.
struct Asked<'a> {
    bytes: &'a [u8],
    most: usize,
}

impl Read for Asked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.most = self.most.max(buffer.len());
        self.bytes.read(buffer)
    }
}

#[test]
fn a_false_length_of_a_message_costs_no_memory() {
    for length in [1 << 20, LONGEST as u32, LONGEST as u32 + 1, u32::MAX] {
        let bytes = [&length.to_le_bytes()[..], b"tardy"].concat();
        let mut from = Asked { bytes: &bytes, most: 0 };
        let error = message::receive::<FromAgent>(&mut from).unwrap_err();
        match length as usize > LONGEST {
            true => assert!(matches!(error, MessageError::Garbled(_)), "{error}"),
            false => assert!(matches!(error, MessageError::Closed), "{error}"),
        }
        assert!(from.most <= 64 << 10, "{} bytes were made ready for {length} that never came", from.most);
    }
    // A list inside a message that claims to be longer than the message: 2^32 − 1 entries, and
    // none there.
    let message = |variant: u8| [&6_u32.to_le_bytes()[..], &[variant, 0xff, 0xff, 0xff, 0xff, 0x0f]].concat();
    // The orders to measure and to prepare, and to inspect.
    for variant in [0, 1, 4] {
        let bytes = message(variant);
        assert!(matches!(message::receive::<ToAgent>(&mut &*bytes), Err(MessageError::Garbled(_))), "{variant}");
    }
    // The ruler's figures, what is ready, and how many probe packets were sent.
    for variant in [0, 1, 4] {
        let bytes = message(variant);
        assert!(matches!(message::receive::<FromAgent>(&mut &*bytes), Err(MessageError::Garbled(_))), "{variant}");
    }
}

fn run_with_manifest(path: &Path) -> RunFolder {
    let run = RunFolder::create(path).expect("a new folder");
    run.write_manifest(&Manifest { format: tardy_model::FORMAT, ..Manifest::default() }).expect("written");
    run
}

#[test]
fn a_device_a_pipe_or_a_folder_in_place_of_a_file_is_refused_unread() {
    let keep = tempfile::tempdir().unwrap();
    let path = keep.path().join("run");
    let run = run_with_manifest(&path);
    let files = ["manifest.json", "results.json", "experiment.toml", "commands.sh"];
    type Put = fn(&Path);
    let instead: [(&str, Put); 4] = [
        ("bytes without an end", |at| symlink("/dev/zero", at).unwrap()),
        ("a pipe that nobody writes to", |at| assert!(Command::new("mkfifo").arg(at).status().unwrap().success())),
        ("a folder", |at| fs::create_dir(at).unwrap()),
        ("a link to a folder", |at| symlink("/", at).unwrap()),
    ];
    for (what, put) in instead {
        for name in files {
            let at = path.join(name);
            let had = fs::read(&at).ok();
            let _ = fs::remove_file(&at);
            put(&at);
            let error = match name {
                "manifest.json" => RunFolder::open(&path).unwrap_err(),
                "results.json" => run.results().unwrap_err(),
                "commands.sh" => run.commands().unwrap_err(),
                _ => run.experiment().unwrap_err(),
            };
            let is_link = at.is_symlink();
            let fits = if is_link {
                matches!(error, StoreError::LeadsOut { .. })
            } else {
                matches!(error, StoreError::NotAFile { .. })
            };
            assert!(fits, "{what} as {name}: {error}");
            assert!(error.to_string().contains(name), "{error}");
            let _ = fs::remove_file(&at).or_else(|_| fs::remove_dir(&at));
            had.map(|had| fs::write(&at, had).unwrap()).unwrap_or_default();
        }
        let at = keep.path().join("samples.parquet");
        put(&at);
        assert!(matches!(SamplesFile::open(&at), Err(StoreError::NotAFile { .. })), "{what} as samples");
        let _ = fs::remove_file(&at).or_else(|_| fs::remove_dir(&at));
    }
    // A link that stays in the folder is as good as the file.
    fs::rename(path.join("manifest.json"), path.join("elsewhere.json")).unwrap();
    symlink("elsewhere.json", path.join("manifest.json")).unwrap();
    RunFolder::open(&path).unwrap();
}

#[test]
fn a_file_too_large_for_a_run_is_refused_and_not_read_into_memory() {
    let keep = tempfile::tempdir().unwrap();
    let path = keep.path().join("run");
    run_with_manifest(&path);
    let sparse = fs::File::create(path.join("manifest.json")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let error = RunFolder::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }) && error.to_string().contains("more than"), "{error}");
}

/// Why a file of samples is refused.
fn damage(bytes: &[u8]) -> String {
    let keep = tempfile::tempdir().unwrap();
    let path = keep.path().join("samples.parquet");
    fs::write(&path, bytes).unwrap();
    match SamplesFile::open(&path) {
        Err(StoreError::Damaged { why, .. }) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it opens"),
    }
}

/// A file of nothing but a footer.
fn with_footer(parts: &[&[u8]]) -> Vec<u8> {
    let footer = parts.concat();
    [b"PAR1", &footer[..], &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

#[test]
fn a_footer_that_promises_more_than_its_bytes_costs_no_memory_no_stack_and_no_wait() {
    // Thrift's compact protocol: a byte with the step to the field's number and the kind of its
    // value, then the value.
    const LIST_OF_STRUCTS: u8 = 0xfc;
    const MOST: [u8; 5] = [0xff, 0xff, 0xff, 0xff, 0x07];
    let schema = [0x29, 0x1c, 0x48, 1, b'r', 0];
    let groups = with_footer(&[&schema, &[0x29, LIST_OF_STRUCTS], &MOST]);
    assert!(damage(&groups).contains("ends early"), "2^31 row groups");
    let children = [0x29, 0x1c, 0x48, 1, b'r', 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0];
    assert!(damage(&with_footer(&[&children])).contains("promises 2147483647 columns and has 0"));
    let folded = [0x35, 0, 0x18, 1, b'c', 0x15, 2, 0].repeat(200_000);
    let folded = with_footer(&[&[0x29, LIST_OF_STRUCTS, 0xc0, 0x9a, 0x0c], &folded, &[0]]);
    assert!(damage(&folded).contains("its columns are not those"), "a column in a column, 200,000 times");
    let truths = [&[0x99, 0xf1][..], &MOST].concat().repeat(1_000);
    assert!(
        damage(&with_footer(&[&truths, &[0]])).contains("ends early"),
        "lists of 2^31 truth values, a thousand times"
    );
    let structs = with_footer(&[&[0x9c], &[0x1c; 200_000]]);
    assert!(damage(&structs).contains("nested too deep"), "structs in structs");
    let lists = with_footer(&[&[0x99], &[0x19; 200_000]]);
    assert!(damage(&lists).contains("nested too deep"), "lists in lists");
    let text = with_footer(&[&[0x68, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]]);
    assert!(damage(&text).contains("a text ends early"), "a text of 2^64 bytes");
    assert!(damage(&with_footer(&[&[0]])).contains("tardy did not write it"));
    assert!(damage(b"PAR1\xff\xff\xff\xffPAR1").contains("a footer of 4294967295 bytes"));
    assert!(damage(b"PAR1").contains("too few"));
}

/// One stream of two packets with two stamps.
fn two_packets() -> Vec<u8> {
    let mut batch = Batch {
        seq: vec![0, 1],
        scheduled_ns: vec![0, 1_000],
        outcome: vec![Outcome::Received; 2],
        flags: vec![Flags::default(); 2],
        ..Batch::default()
    };
    for point in [Point::TxKernel, Point::RxKernel] {
        batch.offsets[point.index()] = Some(vec![MaybeNanos::some(10); 2]);
    }
    encode_samples(&[("ctl", &batch)]).unwrap()
}

#[test]
fn samples_in_a_file_of_holes_are_refused_unread() {
    let bytes = two_packets();
    let keep = tempfile::tempdir().unwrap();
    let path = keep.path().join("samples.parquet");
    let holes = fs::File::create(&path).unwrap();
    let length = 1 << 40;
    holes.write_all_at(&bytes, length - bytes.len() as u64).unwrap();
    match SamplesFile::open(&path) {
        Err(StoreError::Damaged { why, .. }) => assert!(why.contains("more columns than its footer lists"), "{why}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a file with {length} bytes of nothing opens"),
    }
}

#[test]
fn points_out_of_their_order_are_damage_and_no_other_figures() {
    let bytes = two_packets();
    let (chain, turned) = (&br#"["tx_kernel","rx_kernel"]"#[..], &br#"["rx_kernel","tx_kernel"]"#[..]);
    let at = bytes.windows(chain.len()).position(|window| window == chain).expect("the chain is in the footer");
    for instead in [turned, br#"["rx_kernel","rx_kernel"]"#, br#"["scheduled","rx_kernel"]"#] {
        let changed = [&bytes[..at], instead, &bytes[at + chain.len()..]].concat();
        // The reader finds what is wrong before it checks the sum, which an attacker would have
        // made fit.
        assert!(damage(&changed).contains("its points are not in their order"), "{}", damage(&changed));
    }
}

/// Moves the cursor, ends a line, turns the order of writing round.
const BAD: &str = "x\u{1b}[2J\u{7}\r\u{9b}\u{7f}\u{85}\u{2028}\u{202e}\u{2066}\u{61c}y";

fn acts(c: char) -> bool {
    c.is_control() || "\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}".contains(c)
}

#[test]
fn no_character_that_acts_is_printed_in_any_format() {
    let verdict = || Verdict::new(BAD, Level::Warning, BAD).with(BAD, BAD);
    let cell = serde_json::json!({
        "id": BAD, "axes": {BAD: BAD}, "valid": true, "streams": {}, "loads": {}, "placement": [], "trials": [], "verdicts": []
    });
    let mut cell: CellResult = serde_json::from_value(cell).unwrap();
    let why = MetricResult {
        why: Some(BAD.to_owned()),
        clock: BAD.to_owned(),
        source: BAD.to_owned(),
        ..MetricResult::default()
    };
    let stream = StreamResult { metrics: [(BAD.to_owned(), why)].into(), ..StreamResult::default() };
    cell.streams.insert(BAD.to_owned(), stream);
    cell.verdicts.push(verdict());
    let results = Results {
        format: tardy_model::FORMAT,
        name: BAD.to_owned(),
        valid: false,
        expectations_met: None,
        expectations: Vec::new(),
        fingerprint: None,
        validity: Default::default(),
        cells: vec![cell],
        verdicts: vec![verdict()],
    };
    let cell = CellEntry { id: BAD.to_owned(), refused: Some(BAD.to_owned()), ..CellEntry::default() };
    let manifest = Manifest { name: BAD.to_owned(), cells: vec![cell], ..Manifest::default() };
    let facts = Facts { paths: vec![BAD.to_owned()], ports: vec![BAD.to_owned()], ..Facts::default() };
    let picture = Picture {
        results: &results,
        manifest: &manifest,
        facts: &facts,
        bars: &|_, _, _| Vec::new(),
        run_dir: Some(BAD),
        elapsed: None,
        experiment: Some(BAD),
        traces: &[],
        commands: Some(BAD),
    };
    for format in tardy_report::FORMATS.iter().filter(|format| format.name != "html") {
        let name = format.name;
        let drawn = (format.make)(&picture, &Options { width: 90, colour: false }).unwrap();
        assert!(drawn.contains('x') && !drawn.chars().any(|c| acts(c) && c != '\n'), "{name}: {drawn:?}");
    }
    let json = (tardy_report::format("json").unwrap().make)(&picture, &Options::default()).unwrap();
    assert_eq!(serde_json::from_str::<Results>(&json).unwrap(), results, "what is written out says the same");
    let keep = tempfile::tempdir().unwrap();
    let run = run_with_manifest(&keep.path().join("run"));
    let source = export::Source {
        run: &run,
        results: &results,
        manifest: &manifest,
        started: Duration::ZERO,
        streams: Default::default(),
    };
    let mut out = Vec::new();
    exporter("prometheus").unwrap().write_bytes(&source, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains("tardy_run_info") && !out.chars().any(|c| acts(c) && c != '\n'), "{out:?}");
}

#[test]
fn a_machine_is_used_only_as_it_reports_itself() {
    let remote = Remote { ssh: "ann@lab2".to_owned(), sudo: false };
    let said = |machine: &str, release: &str, uid: &str| {
        let says = |what: &str| format!("tardy-remote {what}\n");
        let lines = [
            format!("machine={machine}"),
            format!("release={release}"),
            format!("uid={uid}"),
            "user=ann".to_owned(),
            "between=192.0.2.1 192.0.2.2".to_owned(),
            "file=/home/ann/.cache/tardy/programs/0".to_owned(),
            "there=no".to_owned(),
        ];
        // A login may print more before.
        let text = format!("Welcome!\nmachine=none\n{}", lines.iter().map(|line| says(line)).collect::<String>());
        Said::read(&text).unwrap_or_else(|| panic!("{text}"))
    };
    let own = Path::new("/opt/tardy");
    let same = said(std::env::consts::ARCH, "5.1.0-arm", "0");
    same.check(&remote).expect("all is as it should be");
    assert_eq!(same.program(&remote, own).expect("this one"), own);
    assert_eq!(same.between.map(|of| of.map(|of| of.to_string())), Some(["192.0.2.1", "192.0.2.2"].map(str::to_owned)));
    let why = said("s390x", "6.1.0", "0").program(&remote, own).expect_err("of another kind").to_string();
    for words in ["`ann@lab2` is a machine of kind s390x", "`make build`", "TARDY_PROGRAM_S390X=FILE"] {
        assert!(why.contains(words), "{words}: {why}");
    }
    for (odd, words) in [
        (said("x86_64", "5.0.21", "0"), "runs Linux 5.0.21, and tardy needs 5.1"),
        (said("x86_64", "6.1.0", "1000"), "user ann is not root: write sudo = true"),
    ] {
        let why = odd.check(&remote).expect_err(words).to_string();
        assert!(why.contains(words), "{words}: {why}");
    }
    // Where there is no sudo, none asks for a password.
    let with_sudo = Remote { sudo: true, ..remote };
    let sudo = |says: &str| {
        let said = Said { sudo: says.to_owned(), ..said("x86_64", "6.1.0", "1000") };
        said.check(&with_sudo).expect_err("no root").to_string()
    };
    assert!(sudo("a password is required").contains("sudo asks for a password: a password is required"));
    assert!(sudo("there is none").contains("there is no sudo: install it there, or write ssh = \"root@…\""));
    // What is no answer, or names a place that no program can be at.
    for text in ["", "tardy-remote machine=x86_64", "tardy-remote file=relative/path"] {
        assert_eq!(Said::read(text), None, "{text}");
    }
}

/// What a ptp4l of tardy's own shows of a clock.
fn by_ptp(ahead_ns: i64, bound_ns: i64, at_tai_ns: Option<i64>, later: Option<Later>) -> Kept {
    Kept { by: Keeper::OnTheWire, reference: "PTP grandmaster 01".into(), ahead_ns, bound_ns, at_tai_ns, later }
}

#[test]
fn two_clocks_that_were_read_at_two_moments_were_a_millisecond_apart_for_each_second() {
    // This machine's device runs 50 ppm faster than its system, and was read twice.
    let later = Later { ahead_ns: 1_000_000 - 25_000, bound_ns: 300, at_tai_ns: 10_500_000_000 };
    let ours = by_ptp(1_000_000, 100, Some(10_000_000_000), Some(later));
    // The other one's Sync came a second after the first of these: by its own clock, which is 3 ms
    // ahead.
    let theirs = by_ptp(4_000_000, 500, Some(11_000_000_000 + 3_000_000), None);
    let apart = Kept::apart(&theirs, std::slice::from_ref(&ours)).expect("one reference");
    // By then ours has fallen by 50 µs; each reading's bound counts by how far it is.
    assert_eq!((apart.at_tai_ns, apart.ahead_ns), (Some(11_000_000_000), 3_050_000));
    assert_eq!(apart.bound_ns, 500 + (100 + 2 * 300) + 1);
    // The same where the other machine leads.
    let turned = Kept::apart(&ours, std::slice::from_ref(&theirs)).expect("one reference");
    assert_eq!((turned.ahead_ns, turned.at_tai_ns), (-3_050_000, Some(11_003_000_000)));
    assert_eq!(turned.bound_ns, apart.bound_ns);
    // Without a second reading, a thousandth of what passed is added.
    let once = Kept { later: None, ..ours };
    let apart = Kept::apart(&theirs, &[once]).expect("one reference");
    assert_eq!((apart.ahead_ns, apart.bound_ns), (3_000_000, 600 + 1_000_001));
    // The system's clock is as far from CLOCK_TAI all the time.
    let steady = by_ptp(37_000_000_000, 0, None, None);
    let apart = Kept::apart(&by_ptp(37_000_002_000, 900, Some(5_000), None), &[steady]).expect("one reference");
    assert_eq!((apart.ahead_ns, apart.bound_ns, apart.at_tai_ns), (2_000, 900, Some(3_000)));
    let other = Kept { reference: "PTP grandmaster 02".into(), ..theirs.clone() };
    assert_eq!(Kept::apart(&theirs, &[other]), None);
    // One that claims to be wrong by less than nothing would take this machine's error away.
    for bound_ns in [-600, -1, i64::MIN] {
        let liar = Kept { bound_ns, ..theirs.clone() };
        assert_eq!(Kept::apart(&liar, std::slice::from_ref(&theirs)), None, "{bound_ns}");
        let later = Some(Later { ahead_ns: 0, bound_ns, at_tai_ns: 12_000_000_000 });
        assert_eq!(Kept::apart(&Kept { later, ..theirs.clone() }, std::slice::from_ref(&theirs)), None, "{bound_ns}");
    }
    let exact = by_ptp(0, 0, None, None);
    assert_eq!(Kept::apart(&exact, std::slice::from_ref(&exact)).map(|apart| apart.bound_ns), Some(1));
    // Nothing that a machine reports overflows.
    for odd in [i64::MIN, i64::MAX] {
        let _ = Kept::apart(
            &by_ptp(
                odd,
                odd,
                Some(odd),
                Some(Later { ahead_ns: odd, bound_ns: odd, at_tai_ns: -odd.max(1 - i64::MAX) }),
            ),
            std::slice::from_ref(&theirs),
        );
    }
}

#[test]
fn what_chrony_reports_is_a_bound_or_nothing() {
    // Fields as `chronyc -c tracking` prints them.
    let line = |reference: &str, stratum: &str, offset: &str, delay: &str, dispersion: &str, leap: &str| {
        format!(
            "{reference},192.0.2.1,{stratum},1764430000.1,{offset},0.000001,0.000002,-12.3,0.001,0.05,{delay},{dispersion},64.2,{leap}\n"
        )
    };
    let kept = timekeeper::tracking(&line("C0000201", "2", "-0.000012345", "0.000400000", "0.000030001", "Normal"));
    let kept = kept.expect("a clock that is kept");
    // |offset| + dispersion + delay / 2, rounded up.
    assert_eq!((kept.by, kept.reference.as_str(), kept.ahead_ns), (Keeper::Chrony, "UTC", 0));
    assert!((242_346..=242_347).contains(&kept.bound_ns), "{kept:?}");
    for (odd, why) in [
        (line("00000000", "0", "0.0", "1.0", "1.0", "Not synchronised"), "it keeps none"),
        (line("C0000201", "0", "0.0", "0.1", "0.1", "Normal"), "it was never set"),
        (line("7F7F0101", "10", "0.0", "0.0", "0.0", "Normal"), "it follows nobody"),
        (
            line("50484330", "6", "0.0", "0.000001", "0.000001", "Normal").replace("192.0.2.1", "PHC0"),
            "a device's clock may have any time",
        ),
        (line("C0000201", "2", "inf", "0.1", "0.1", "Normal"), "no number"),
        (line("C0000201", "2", "1e300", "0.1", "0.1", "Normal"), "more than any clock is off"),
        ("506 Cannot talk to daemon\n".to_owned(), "no daemon"),
        (String::new(), "nothing"),
    ] {
        assert_eq!(timekeeper::tracking(&odd), None, "{why}: {odd}");
    }
}

#[test]
fn what_ptp4l_answers_is_a_bound_or_nothing() {
    let (sequence, id) = (7, timekeeper::TIME_STATUS_NP);
    let question = timekeeper::question(sequence, id, 117);
    assert_eq!(
        (question.len(), &question[..5], &question[46..54]),
        (54, &[0xd, 2, 0, 54, 117][..], &[0, 0, 0, 1, 0, 2, 0xc0, 0][..])
    );
    let answered = |data: &[u8]| {
        let mut bytes = question.clone();
        bytes[46] = 2;
        bytes[50..52].copy_from_slice(&(data.len() as u16 + 2).to_be_bytes());
        bytes.extend(data);
        bytes
    };
    let bytes = answered(b"data");
    assert_eq!(timekeeper::answer(&bytes, sequence, id), Some(&b"data"[..]));
    assert_eq!(timekeeper::answer(&question, sequence, id), None, "a question is no answer");
    assert_eq!(timekeeper::answer(&bytes, sequence + 1, id), None, "an answer to another question");
    assert_eq!(timekeeper::answer(&bytes, sequence, timekeeper::CURRENT_DATA_SET), None, "other data");
    // One that ends too early, or says that it is longer than it is.
    for length in 0..bytes.len() {
        assert_eq!(timekeeper::answer(&bytes[..length], sequence, id), None, "{length} bytes");
    }
    let mut long = bytes.clone();
    long[50] = 0xff;
    assert_eq!(timekeeper::answer(&long, sequence, id), None);

    let status = |offset_ns: i64, present: i32| {
        let mut data = [offset_ns.to_be_bytes(), 5_000_i64.to_be_bytes()].concat();
        data.resize(38, 0);
        data.extend(present.to_be_bytes());
        data.extend([0xaa, 0xbb, 0xcc, 0xff, 0xfe, 0, 0, 1]);
        data
    };
    // Steps removed, offset, mean path delay: times 2^16.
    let current = |delay: i64| [&1_u16.to_be_bytes()[..], &0_i64.to_be_bytes(), &delay.to_be_bytes()].concat();
    let port = |state: u8, stamps: u8, name: &str| {
        [&[0; 10][..], &[state, stamps, name.len() as u8], name.as_bytes()].concat()
    };
    // The offset of UTC, and that PTP's time is TAI.
    let [tai, arbitrary] = [[0, 37, 0x0c, 0x20], [0, 37, 0, 0xa0]];
    let [master, slave, uncalibrated] = [6, 9, 8];
    let both = [port(master, 1, "eth0"), port(slave, 1, "eth1")];
    let follows =
        timekeeper::status_of(&status(-300, 1), &current((500 << 16) + 1), &tai, &both).expect("it follows one");
    // The offset, and the mean path delay, rounded up; of the port that follows.
    let expected = PtpStatus {
        grandmaster: "aabbccfffe000001".to_owned(),
        ahead_ns: -300,
        delay_ns: 501,
        measured_at_ns: Some(5_000),
        is_free: false,
        utc_offset_s: 37,
        device: Some("eth1".to_owned()),
    };
    assert_eq!(follows, expected);
    let leads =
        timekeeper::status_of(&status(0, 0), &current(0), &arbitrary, &[port(master, 0, "eth0")]).expect("it leads");
    assert_eq!((leads.delay_ns, leads.measured_at_ns, leads.utc_offset_s, leads.device), (0, None, 0, None));
    // One that steers nothing never gets further than this state, and keeps no clock.
    let free = timekeeper::status_of(&status(9, 1), &current(1 << 16), &tai, &[port(uncalibrated, 0, "eth0")]);
    let free = free.expect("it follows one");
    assert!(free.is_free && free.of_system().is_none(), "{free:?}");
    let listening = port(4, 1, "eth0");
    for (data, current, ports) in [
        (status(0, 1), current(1 << 16), vec![listening.clone()]),
        (status(0, 0), current(0), vec![listening]),
        (status(0, 1), current(1 << 16), Vec::new()),
        // Before the first answer, and with a delay that cannot be.
        (status(0, 1), current(0), vec![port(slave, 1, "eth0")]),
        (status(0, 1), current(-(9 << 16)), vec![port(slave, 1, "eth0")]),
        (status(0, 1), current(1 << 16)[..17].to_vec(), vec![port(slave, 1, "eth0")]),
        (status(0, 1)[..49].to_vec(), current(1 << 16), vec![port(slave, 1, "eth0")]),
        (status(0, 1), current(1 << 16), vec![port(slave, 1, "eth0")[..15].to_vec()]),
        (status(0, 1), current(1 << 16), vec![port(slave, 1, "")]),
    ] {
        assert_eq!(timekeeper::status_of(&data, &current, &tai, &ports), None, "{data:?} {current:?} {ports:?}");
    }
}
