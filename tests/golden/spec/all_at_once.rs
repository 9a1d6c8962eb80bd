// SPDX-License-Identifier: MIT OR Apache-2.0
//! tardy reports all that is wrong with an experiment at once, each mistake once, and words of
//! other tools lead to tardy's own key. What a message proposes is what its reader most likely
//! meant.

use super::{HEAD, SECOND, good, source, try_load};
use tardy_model::stream::CpuChoice;
use tardy_model::time::Nanos;
use tardy_spec::schema::KEYS;
use tardy_spec::{READY_MADE, load, ready_made, synonyms};

fn lines(body: &str, set: &[&str]) -> Vec<String> {
    try_load(body, set).expect_err(body).lines()
}

#[test]
fn one_error_was_told_at_each_invocation() {
    let body = "cycel = \"1ms\"\nsize = 200\nrx.wait = \"pol\"\n[expect.ctl]\nlots = 0\n";
    let said = lines(body, &["trials=0", "seed", "stream.ctl.count=1000"]);
    let places: Vec<&str> = said.iter().map(|line| line.split(": ").next().expect("a place")).collect();
    assert_eq!(
        places,
        ["x.toml:6:1", "x.toml:7:8", "x.toml:8:11", "x.toml:10:1", "--set trials=0", "--set seed", "6 errors"]
    );
    let error = try_load(body, &[]).expect_err("four errors");
    assert_eq!((error.all().count(), error.count().as_deref()), (4, Some("4 errors")));
    assert_eq!(lines("size = 200\n", &[]).len(), 1, "one is not counted");
}

#[test]
fn slips_in_a_stream_hid_a_limit_that_its_kind_cannot_have() {
    // What is written next to a slip is not what the slip should have been, and the rest of the
    // table says nothing about who answers.
    let body = "kind = \"pingpong\"\nkine = \"x\"\nportt = \"udp\"\nsiz = \"64B\"\nfoo = 3\n[expect.ctl]\n\
                \"scheduled..receive\" = \"p99 < 1ms\"\n";
    let said = lines(body, &[]);
    assert_eq!(said.len(), 6, "{said:#?}");
    assert!(said[2].contains("(did you mean `size`?)"), "{said:#?}");
    assert!(said[4].starts_with("x.toml:12:24: `expect.ctl.scheduled..receive` has no meaning for a ping-pong"));
    // The same slip where the kind itself is not written says all that is known.
    assert_eq!(lines(&body.replace("kind = \"pingpong\"\n", ""), &[]).len(), 5);
    // A `--set` is not next to what the file has: who writes it means to change that.
    assert_eq!(lines("kind = \"pingpong\"\ncycle = \"1ms\"\n", &["stream.ctl.kine=cyclic"]).len(), 1);
}

#[test]
fn a_slip_in_one_stream_or_case_hid_what_was_wrong_with_the_others() {
    let spins = |name: &str, port: &str| {
        format!("{}{port} = \"udp\"\nrx = {{ cpu = 1, policy = \"fifo:8\", wait = \"spin\" }}\n", stream(name))
    };
    let said = lines(&[spins("one", "port"), spins("two", "port"), spins("three", "prot")].concat(), &[]);
    assert_eq!(said.len(), 3, "{said:#?}");
    assert!(
        said[0].contains("`one.rx` and `two.rx` both spin") && said[1].contains("`stream.three.prot`"),
        "{said:#?}"
    );
    let said = lines("cycle = \"1ms\"\ntx.spin = \"2ms\"\n[streem.two]\nform = \"a\"\n", &[]);
    assert_eq!(said.len(), 3, "{said:#?}");
    let cases = "[[case]]\nname = \"one\"\nset = { \"stream.ctl.cycel\" = \"1ms\" }\n\
                 [[case]]\nname = \"two\"\nset = { \"stream.ctl.tx.spin\" = \"2ms\" }\n";
    let said = lines(cases, &[]);
    assert!(said.len() == 3 && said[1].ends_with("in cell `two` (write a spin of at most one cycle)"), "{said:#?}");
    // Two cells with one name, and more cells than there may be, hid what is wrong with each.
    let twice = "tx.spin = \"2ms\"\n[matrix]\n\"stream.ctl.priority\" = [1, 1]\n";
    assert_eq!(lines(twice, &[]).len(), 3);
    let values: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    let values = values.join(", ");
    let many = format!(
        "tx.spin = \"2ms\"\n[matrix]\n\"stream.ctl.rx.cpu\" = [{values}]\n\"stream.ctl.tx.cpu\" = [{values}]\n"
    );
    assert_eq!(lines(&many, &[]).len(), 3);
}

/// Each line of each ready-made experiment's effective file that sets a key, with what becomes of
/// the file when that line is spoiled.
fn each_line_spoiled(spoil: impl Fn(&str, &str) -> Option<String>, then: impl Fn(&str, usize, Vec<String>)) {
    let texts =
        READY_MADE.iter().map(|(name, _)| load(&ready_made(name).expect("listed"), &[]).expect("it loads").effective);
    let sim =
        good("port = \"sim\"\nreflect = true\n[expect.ctl]\n\"scheduled..receive\" = \"p99 < 1ms\"\n", &[]).effective;
    let pingpong = good("kind = \"pingpong\"\nport = \"tcp\"\n", &[]).effective;
    let mut spoiled = 0;
    for text in texts.chain([sim, pingpong]) {
        let all: Vec<&str> = text.lines().collect();
        for (n, line) in all.iter().enumerate() {
            let Some((field, value)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) else { continue };
            let Some(new) = spoil(field, value) else { continue };
            let mut lines: Vec<String> = all.iter().map(|line| (*line).to_owned()).collect();
            lines[n].clone_from(&new);
            let error = load(&source(&(lines.join("\n") + "\n")), &[]).expect_err(&new);
            then(&new, n + 1, error.lines());
            spoiled += 1;
        }
    }
    assert!(spoiled > 250, "{spoiled}");
}

#[test]
fn a_wrong_value_made_errors_of_what_rests_on_it() {
    let then = |line: &str, n: usize, said: Vec<String>| {
        assert!(said.len() == 1 && said[0].starts_with(&format!("x.toml:{n}:")), "{line}: {said:#?}");
    };
    each_line_spoiled(|field, _| Some(format!("{field} = {{ nonsense = 1 }}")), then);
    each_line_spoiled(|field, _| Some(format!("{field} = nonsense")), then);
}

#[test]
fn a_misspelled_key_made_errors_of_what_rests_on_it() {
    let then = |line: &str, n: usize, said: Vec<String>| {
        assert!(said.len() == 1 && said[0].starts_with(&format!("x.toml:{n}:")), "{line}: {said:#?}");
    };
    // A slip of the finger that no other key is near to.
    let spoil = |field: &str, value: &str| {
        let key = field.trim_matches('"');
        let long = key.len() > 4 && !field.contains("..");
        long.then(|| format!("{} = {value}", field.replace(key, &format!("{key}{}", &key[key.len() - 1..]))))
    };
    each_line_spoiled(spoil, then);
}

#[test]
fn a_file_of_another_format_makes_no_more_errors_than_anybody_reads() {
    let many: String = (0..5_000).map(|n| format!("key{n} = {n}\n")).collect();
    let said = lines(&many, &[]);
    assert_eq!((said.len(), said.last().map(String::as_str)), (101, Some("100 errors, and perhaps more")));
    let cells =
        "rx.wait = \"spin\"\n[matrix]\n\"path.mtu\" = [576, 577, 578]\n\"stream.ctl.size\" = [\"2000B\", \"3000B\"]\n";
    assert!(lines(cells, &[]).len() <= 7, "{:?}", lines(cells, &[]));
}

/// Two axes of a hundred CPUs each.
fn cells(of: &str) -> String {
    let cpus = (0..100).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    format!("[matrix]\n\"stream.{of}.rx.cpu\" = [{cpus}]\n\"stream.{of}.tx.cpu\" = [{cpus}]\n")
}

fn stream(name: &str) -> String {
    SECOND.replace(".second]", &format!(".{name}]"))
}

fn streams(many: usize) -> String {
    (0..many).map(|n| stream(&format!("s{n}"))).collect()
}

#[test]
fn a_file_that_is_refused_already_had_each_of_ten_thousand_cells_worked_out() {
    // More memory than there may be, and a slip: only a sample of the cells is checked.
    let said = lines(&format!("sizee = 3\n{}{}", streams(250), cells("s0")), &[]);
    assert!(said.len() == 3 && said[0].contains("`stream.ctl.sizee`") && said[1].contains("10000 cells"), "{said:?}");
    let rows: String = (0..256).map(|n| format!("k{n} = 1\n")).collect();
    let said = lines(&format!("[stream.ctl.rxx]\n{rows}{}{}", streams(200), cells("s0")), &[]);
    assert!(said.len() == 3 && said[0].contains("`stream.ctl.rxx`"), "{said:?}");
    // Each value of an axis and each case is in the sample.
    let late = "tx.spinn = \"1us\"\n[matrix]\n\"stream.ctl.size\" = [";
    let sizes = (1..100).map(|n| format!("\"{}B\"", n + 63)).chain(["\"9000B\"".to_owned()]);
    let counts = (1..=100).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let body = format!("{late}{}]\n\"stream.ctl.count\" = [{counts}]\n", sizes.collect::<Vec<_>>().join(", "));
    let said = lines(&body, &[]);
    assert!(said.len() == 3 && said[1].contains("`stream.ctl.size` of 9000B does not fit"), "{said:?}");
    let case = |n: usize, set: &str| format!("[[case]]\nname = \"c{n}\"\nset = {{ {set} }}\n");
    let cases: String = (0..5_000).map(|n| case(n, "\"stream.ctl.priority\" = 1")).collect();
    let said = lines(&format!("sizee = 3\n{cases}{}", case(5_000, "\"stream.ctl.tx.spin\" = \"2s\"")), &[]);
    assert!(said.len() == 3 && said[1].contains("in cell `c5000`"), "{said:?}");
}

#[test]
fn the_text_of_a_value_was_kept_in_the_id_of_each_cell() {
    let load = "[load.n]\nkind = \"command\"\nfrom = \"a\"\ncommand = [\"true\"]\n";
    let body = format!("{load}{}\"load.n.command\" = [[\"{}\"]]\n", cells("ctl"), "x".repeat(300_000));
    let said = lines(&body, &[]);
    assert!(said.len() == 1 && said[0].contains("would have 300026 characters, more than 200"), "{said:?}");
}

#[test]
fn thousands_of_axes_were_read_before_the_id_of_a_cell_was_too_long() {
    let axes = |of: usize| -> String { (0..of).map(|n| format!("\"stream.s{n}.priority\" = [1]\n")).collect() };
    let body = |of| lines(&format!("{}[matrix]\n{}", streams(of), axes(of)), &[]);
    let said = body(51);
    assert!(said.len() == 1 && said[0].contains("has 51 axes; the id of a cell"), "{said:?}");
    let said = body(50);
    assert!(said.len() == 1 && said[0].contains("characters, more than 200"), "{said:?}");
}

#[test]
fn a_name_that_is_there_twice_was_looked_for_among_all_for_each_cell() {
    let name = "n".repeat(90);
    let cases: String = (0..9_000).map(|n| format!("[[case]]\nname = \"{name}{}\"\n", n % 5_000)).collect();
    let said = lines(&cases, &[]);
    assert_eq!((said.len(), said.last().map(String::as_str)), (101, Some("100 errors, and perhaps more")));
    // The second of the two is reported, as the only one would be.
    assert!(said[0].starts_with("x.toml:10007:8: two cells would have the id `nnn"), "{}", said[0]);
    let values = (1..=5_000).chain(1..=5_000).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    assert_eq!(lines(&format!("[matrix]\n\"stream.ctl.count\" = [{values}]\n"), &[]).len(), 101);
}

#[test]
fn each_key_was_compared_with_each_guess() {
    let rows: String = (0..256).map(|n| format!("k{n} = 1\n")).collect();
    let limits: String =
        (0..250).map(|n| format!("[expect.s{n}]\nlost = 0\nlate = 0\n\"send..receive\" = \"p99 < 1s\"\n")).collect();
    let slips: String = (0..99).map(|n| format!("[stream.s{n}.rxx]\n{rows}")).collect();
    let said = lines(&[streams(250), limits, slips].concat(), &[]);
    assert_eq!(said.len(), 100, "{said:#?}");
    assert!(said[..99].iter().all(|line| line.contains("did you mean `rx`?")), "{said:#?}");
}

#[test]
fn the_rows_of_a_misspelled_table_made_tardy_forget_what_else_is_wrong() {
    let rows: String = (0..256).map(|n| format!("k{n} = 1\n")).collect();
    let said = lines(&format!("kind = \"pingpongg\"\nin_flight = 2\n{}[stream.t.rxx]\n{rows}", stream("t")), &[]);
    assert_eq!(said.len(), 3, "{said:#?}");
    assert!(said[0].contains("`pingpongg`") && said[1].contains("`stream.t.rxx`"), "{said:#?}");
    // So did many tables, each with a few.
    let few: String = (0..25).map(|n| format!("k{n} = 1\n")).collect();
    let tables: String = (0..60).map(|n| format!("[stream.s{n}.rxx]\n{few}")).collect();
    let said = lines(&format!("{}{tables}{}kind = \"x\"\nin_flight = 2\n", streams(60), stream("z")), &[]);
    assert_eq!(said.len(), 62, "{said:#?}");
}

#[test]
fn a_case_without_a_name_took_the_name_of_another() {
    let cases = "[[case]]\nset = { \"stream.ctl.cycle\" = \"1ms\" }\n[[case]]\nname = \"case-1\"\n";
    assert_eq!(lines(cases, &[]), ["x.toml:6:1: this case has no name (write name = \"idle\" in it)"]);
    assert_eq!(lines(&cases.replace("case-1", "case 1"), &[]).len(), 1);
}

#[test]
fn every_word_of_another_tool_leads_to_a_key_that_there_is() {
    let is_there = |key: &str| {
        let below =
            |pattern: &str| pattern == key || pattern.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
        matches!(key, "case" | "matrix" | "expect.*.delta") || KEYS.iter().any(|known| below(known.pattern))
    };
    for of in synonyms::KEYS {
        let tables: Vec<String> = match of.table {
            "stream.*.*" => ["tx", "rx"].map(|end| format!("stream.*.{end}")).to_vec(),
            table => vec![table.to_owned()],
        };
        for table in tables {
            let key = if of.key.starts_with('.') { format!("{table}{}", of.key) } else { of.key.to_owned() };
            assert!(key.is_empty() || is_there(&key), "{key}");
            for word in of.words {
                let own = if table.is_empty() { (*word).to_owned() } else { format!("{table}.{word}") };
                // A word that is a key already means that key.
                assert!(!KEYS.iter().any(|known| known.pattern == own), "{own}");
                let set = format!("{}=1", own.replacen('*', if table.starts_with("station") { "a" } else { "ctl" }, 1));
                if table.starts_with("load") {
                    continue;
                }
                let said = load(&source(HEAD), std::slice::from_ref(&set)).expect_err(&set).lines();
                // The file has one stream, whose name is in the advice.
                let says = of.says.replace("stream.NAME", "stream.ctl");
                assert!(said[0].contains(&says) || said[0].contains("did you mean"), "{set}: {said:?}");
            }
        }
    }
}

#[test]
fn a_rate_is_a_cycle() {
    let cycle = |text: &str| good(&format!("cycle = \"{text}\""), &[]);
    for (text, ns) in [
        ("1kHz", 1_000_000),
        ("2.5kHz", 400_000),
        ("500Hz", 2_000_000),
        ("0.5Hz", 2_000_000_000),
        ("8MHz", 125),
        ("1_000Hz", 1_000_000),
    ] {
        let experiment = cycle(text);
        assert_eq!(experiment.cells[0].setup.streams[0].cycle, Nanos(ns), "{text}");
        let shown = tardy_spec::schema::show_duration(Nanos(ns));
        assert!(experiment.effective.contains(&format!("cycle = \"{shown}\"\n")), "{}", experiment.effective);
    }
    // An axis and a `--set` too: the cells are called by the cycle.
    let experiment = good("[matrix]\n\"stream.ctl.cycle\" = [\"1kHz\", \"2ms\"]", &[]);
    assert_eq!(super::ids(&experiment), ["cycle=1ms", "cycle=2ms"]);
    assert_eq!(good("", &["stream.ctl.cycle=4kHz"]).cells[0].setup.streams[0].cycle, Nanos(250_000));
    let twice = lines("[matrix]\n\"stream.ctl.cycle\" = [\"1kHz\", \"1ms\"]", &[]);
    assert!(twice[0].contains("two cells would have the id `cycle=1ms`"), "{twice:?}");
    assert_eq!(good("tx.cpu = 2", &[]).cells[0].setup.streams[0].tx.cpu, CpuChoice::Number(2));
}

// What a message proposes is what its reader most likely meant, or the list of all that there is.
// Each test is named after a proposal that was neither.

fn lines_of(file: &str) -> Vec<String> {
    load(&source(file), &[]).expect_err(file).lines()
}

#[test]
fn a_share_was_taken_for_hours() {
    assert_eq!(
        lines("deadline = \"10%\"\n", &[]),
        ["x.toml:6:12: `stream.ctl.deadline`: \"10%\": `%` is not a unit (units: ns, us, ms, s, min, h)"]
    );
    // A slip of a letter is still understood.
    assert!(lines("deadline = \"10mz\"\n", &[])[0].contains("did you mean \"10m"));
}

#[test]
fn a_cpu_that_the_machine_lacks_had_no_place_and_came_one_at_a_time() {
    let absent = |body: &str, set: &[&str]| {
        let set: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
        tardy_spec::absent_cpus(&source(&format!("{HEAD}{body}")), &set, &[0, 1]).map(|error| error.lines())
    };
    let says = |place: &str, key: &str, cpu: u32| {
        format!(
            "{place}: `{key}`: CPU {cpu} was asked for and this process may use only 0, 1 (choose one of those, or \"auto\")"
        )
    };
    // The rest of the file may be wrong.
    let body = "count = 0\ntx.cpu = 7\nrx.cpu = 1\n[load.x]\nkind = \"cpu\"\nfrom = \"a\"\ncpu = 2\n";
    let both = [says("x.toml:7:10", "stream.ctl.tx.cpu", 7), says("x.toml:12:7", "load.x.cpu", 2)];
    assert_eq!(absent(body, &[]).expect("two"), [&both[..], &["2 errors".to_owned()]].concat());
    let set = ["stream.ctl.tx.cpu=0", "load.x.cpu=9"];
    assert_eq!(absent(body, &set).expect("one"), [says("--set load.x.cpu=9", "load.x.cpu", 9)]);
    let axis = "tx.cpu = 7\n[matrix]\n\"stream.ctl.tx.cpu\" = [0, 5, 1]\n";
    assert_eq!(absent(axis, &[]).expect("the axis's"), [says("x.toml:8:27", "stream.ctl.tx.cpu", 5)]);
    assert_eq!(absent("tx.cpu = 1\n", &[]), None);
    assert_eq!(absent("port = \"sim\"\ntx.cpu = 7\n", &[]), None, "nothing runs there");
    // All are in the order of the file, whatever found them, and are counted together.
    let body = "tx.cpu = 7\ncount = 0\n";
    let set = ["stream.ctl.rx.cpu=8", "stream.ctl.size=0B"];
    let wrong = try_load(body, &set).expect_err("a count and a size");
    let lacks = tardy_spec::absent_cpus(&source(&format!("{HEAD}{body}")), &set.map(str::to_owned), &[0]);
    let lines = wrong.and(lacks).lines();
    let places: Vec<_> = lines.iter().map(|line| line.split(": ").next().unwrap_or_default()).collect();
    assert_eq!(
        places,
        ["x.toml:6:10", "x.toml:7:9", "--set stream.ctl.rx.cpu=8", "--set stream.ctl.size=0B", "4 errors"]
    );
}

#[test]
fn a_key_of_a_stream_without_the_stream_led_nowhere() {
    for (set, key) in [
        ("rx.wait=spin", "stream.ctl.rx.wait"),
        ("stream.rx.wait=spin", "stream.ctl.rx.wait"),
        ("ctl.rx.wait=spin", "stream.ctl.rx.wait"),
        ("stream.cycle=1ms", "stream.ctl.cycle"),
        ("cycle=1ms", "stream.ctl.cycle"),
        ("kind=veth", "path.kind"),
        ("kind=pingpong", "stream.ctl.kind"),
    ] {
        let said = lines("", &[set]);
        let [one] = &said[..] else { panic!("{set}: {said:?}") };
        assert!(one.ends_with(&format!("(did you mean `{key}`?)")), "{one}");
    }
}

#[test]
fn a_number_without_a_unit_got_one_that_nobody_meant() {
    for (set, says) in [
        ("stream.ctl.duration=10", "needs a unit (add one, in quotes, as in \"10us\": ns, us, ms, s, min, h)"),
        ("stream.ctl.duration=\"10\"", "has no unit (add one: ns, us, ms, s, min, h)"),
        (
            "stream.ctl.cycle=1",
            "needs a unit (add one, in quotes, as in \"1us\": ns, us, ms, s, min, h, or Hz, kHz, MHz)",
        ),
        ("stream.ctl.timeout=0", "needs a unit (add one, in quotes, as in \"0us\": ns, us, ms, s, min, h)"),
    ] {
        let said = lines("", &[set]);
        assert!(said.len() == 1 && said[0].contains(says), "{set}: {said:?}");
    }
}

#[test]
fn what_stood_below_a_name_that_is_not_there_came_only_after_it() {
    let said = lines("[expect.ctrl]\nloss = 0\n\"scheduled..receive\" = \"p98 < 1us\"\n", &[]);
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(said[0].contains("there is no stream `ctrl` (did you mean `ctl`?)"), "{said:?}");
    assert!(said[1].contains("`loss` is none of") && said[1].contains("`lost`"), "{said:?}");
    assert!(said[2].contains("`p98` is not a figure"), "{said:?}");
    // Also in one `--set`.
    let said = lines("", &["stream.clt.cycel=1ms"]);
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].contains("no stream `clt`") && said[1].contains("did you mean `cycle`?"), "{said:?}");
    // What is right below it is not called wrong, and nothing is concluded from it.
    assert_eq!(lines("[expect.ctrl]\nlost = 0\ndelta = \"max < 1s\"\n", &[]).len(), 1);
    assert_eq!(lines("", &["stream.clt.cycle=1ms"]).len(), 1);
    // A part of a name with a dot is no name.
    assert!(lines(&(stream("\"a.b\"") + "[expect.a.b]\nlots = 0\n"), &[]).len() <= 2);
}

#[test]
fn a_quantity_without_quotes_was_called_a_wrong_number_and_cut_in_two() {
    assert_eq!(
        lines("cycle = 1.5ms\n", &[]),
        [
            "x.toml:6:12: this is not TOML: invalid float, expected nothing (put text and quantities in quotes: write \"1.5ms\")"
        ]
    );
    assert_eq!(
        lines("cycle = 1_000us\n", &[]),
        ["x.toml:6:9: `1000us` is no number and has no quotes (put text and quantities in quotes: write \"1000us\")"]
    );
    // What else is wrong is reported all the same.
    let said = lines("cycle = 1.5ms\ncycel = 1\n", &[]);
    assert!(said.len() == 3 && said[1].contains("`stream.ctl.cycel`"), "{said:?}");
    assert!(lines("count = 99999999999999999999\n", &[])[0].contains("is not a number of 64 bits"));
}

#[test]
fn of_two_stations_one_was_hidden_and_the_other_was_guessed() {
    let renamed = HEAD.replace(".a]", ".left]").replace(".b]", ".right]").replace("\"a\"", "\"left\"");
    let file = |to: &str| lines_of(&renamed.replace("\"b\"", &format!("\"{to}\"")));
    assert_eq!(file("middle"), ["x.toml:5:6: `stream.ctl.to`: there is no station `middle` (known here: left, right)"]);
    assert!(file("rigth")[0].contains("did you mean `right`?"));
    let short = HEAD.replace("to = \"b\"", "to = \"c\"");
    assert_eq!(lines_of(&short), ["x.toml:5:6: `stream.ctl.to`: there is no station `c` (known here: a, b)"]);
}

#[test]
fn what_tardy_cannot_do_got_a_list_of_keys() {
    for (set, says) in [
        ("stream.ctl.dscp=46", "tardy does not set it"),
        ("stream.ctl.tos=184", "`pcp` with `vlan`"),
        ("path.delay=1ms", "tardy adds no delay, loss or limit to a path"),
        ("path.netem=1", "port = \"sim\" has"),
        ("stream.ctl.jitter=1ms", "tardy adds no delay"),
    ] {
        let said = lines("", &[set]);
        assert!(said.len() == 1 && said[0].contains(says) && !said[0].contains("known here"), "{set}: {said:?}");
    }
}

#[test]
fn what_was_advised_for_taprio_was_refused_with_the_classes_that_were_advised() {
    let advised = |written: &str| -> String {
        let said = lines(&format!("[shaper]\nkind = \"taprio\"\n{written}"), &[]);
        let advice = said.iter().filter_map(|line| line.split_once("(write ")?.1.strip_suffix(')'));
        advice.fold(written.to_owned(), |text, key| format!("{text}{key}\n"))
    };
    for classes in (1..=8).map(|count| format!("classes = {count}\n")).chain([String::new()]) {
        let written = advised(&classes);
        assert!(written.contains("entries = "), "{written}");
        super::good(&format!("[path]\nqueues = 8\n[shaper]\nkind = \"taprio\"\n{written}"), &[]);
    }
}
