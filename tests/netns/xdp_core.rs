// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which CPU an AF_XDP application has, compared with the one that runs the XDP program: as the
//! experiment asks for it, and as each hint proves it.

use crate::command::{Place, can_run};
use crate::xdp::{experiment, record, run};
use serde_json::{Value, json};

/// What was counted of the receiver's CPU in the first trial of a cell, with the CPUs of sender,
/// program and receiver.
fn core(place: &Place, cell: &str) -> (Value, [String; 3]) {
    let record = record(place, cell);
    let (xdp, cpu) = (&record["xdp"], |thread: &str| record[thread]["cpu_asked"].to_string());
    let program: Vec<&str> = xdp["seen"]["by_cpu"].as_object().into_iter().flatten().map(|(cpu, _)| &**cpu).collect();
    (xdp["core"].clone(), [cpu("tx"), program.join(" "), cpu("rx")])
}

/// True if there are two CPUs, so that one can be remote; else the test is skipped and counted.
fn has_two_cpus(test: &str) -> bool {
    let two = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
    if !two {
        tardy_tests::skip(test, "this machine has one CPU");
    }
    can_run(test) && two
}

#[test]
fn the_receiver_is_on_the_programs_cpu_or_on_another_and_each_hint_proves_it() {
    if !has_two_cpus("the_receiver_is_on_the_programs_cpu_or_on_another_and_each_hint_proves_it") {
        return;
    }
    let place = Place::new();
    let run = run(&place, &(experiment().to_owned() + "[matrix]\n\"stream.ctl.rx.core\" = [\"same\", \"remote\"]\n"));
    run.ran();
    assert!(!run.ids("invalid").contains(&"core".to_owned()), "{}", run.stdout);
    for (cell, same) in [("rx.core=same", 600), ("rx.core=remote", 0)] {
        let (core, [tx, program, rx]) = core(&place, cell);
        assert_eq!((&core["same"], &core["remote"]), (&json!(same), &json!(600 - same)), "{cell}: {core}");
        assert_eq!((&core["unknown"], core["cpu"].to_string()), (&json!(0), rx.clone()), "{cell}: {core}");
        // On veth it runs in the sender's send call.
        assert_eq!((program, rx == tx), (tx, same > 0), "{cell}");
    }
}

#[test]
fn a_receiver_is_placed_anew_where_the_warm_up_shows_the_program_on_another_cpu() {
    if !has_two_cpus("a_receiver_is_placed_anew_where_the_warm_up_shows_the_program_on_another_cpu") {
        return;
    }
    let place = Place::new();
    // Packet steering moves a program that the kernel runs behind the driver, which nobody assumed.
    let text = experiment().replace("[station.b]", "[station.b]\nsoftirq = 0").replace("trials = 2", "trials = 1");
    let more = "tx.cpu = 1\n[path]\nmtu = 9000\n[matrix]\n\"stream.ctl.rx.core\" = [\"same\", \"remote\"]\n";
    let run = run(&place, &(text + more));
    run.ran();
    for (cell, same, cpu) in [("rx.core=same", 600, "0"), ("rx.core=remote", 0, "1")] {
        let (core, cpus) = core(&place, cell);
        assert_eq!(cpus, ["1", "0", cpu], "{cell}: {}", run.stdout);
        assert_eq!((&core["same"], &core["remote"]), (&json!(same), &json!(600 - same)), "{cell}: {core}");
    }
}

#[test]
fn a_program_without_one_cpu_of_its_own_costs_the_cell() {
    if !has_two_cpus("a_program_without_one_cpu_of_its_own_costs_the_cell") {
        return;
    }
    let place = Place::new();
    // Each queue is polled by a thread that may run anywhere.
    let text =
        experiment().replace("from = \"a\"", "rx.core = \"same\"\nfrom = \"a\"").replace("trials = 2", "trials = 1");
    let run = run(&place, &(text + tardy_tests::experiment("a device that may be polled")));
    let polled = run.results["cells"].as_array().expect("cells").iter().find(|cell| cell["id"] == "polled");
    let polled = polled.expect("the cell");
    // Where the threads run is the scheduler's choice. If they were on one CPU in the warm-up, each
    // packet that they took on another one later is counted.
    match polled["not_available"].as_str() {
        Some(why) => assert!(why.contains("rx.core") && why.contains("ran on CPU"), "{why}"),
        None => {
            let port = &polled["xdp"][0];
            let [same, remote] = ["same", "remote"].map(|core| port[core].as_u64().expect("a count"));
            assert_eq!(same + remote, 600, "{port}");
            let has_verdict = ["invalid", "warning"].iter().any(|level| run.ids(level).contains(&"core".to_owned()));
            assert_eq!(has_verdict, remote > 0, "{}", run.stdout);
        }
    }
    let sound = run.results["cells"].as_array().expect("cells").iter().find(|cell| cell["id"] == "sound");
    assert_eq!(sound.expect("the cell")["xdp"][0]["same"], 600, "{}", run.stdout);
}

#[test]
fn afxdp_delay_proves_the_core_of_every_cell_and_names_the_smallest_minimum() {
    if !has_two_cpus("afxdp_delay_proves_the_core_of_every_cell_and_names_the_smallest_minimum") {
        return;
    }
    let place = Place::new();
    let short = ["--trials", "1", "--set", "stream.ctl.count=200"];
    let mut command = place.command("run");
    command.arg("afxdp-delay").args(short).arg("--json").arg("--out").arg(place.out());
    let run = place.call(&mut command);
    run.ran();
    let cells = run.results["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 24);
    let mut measured = 0;
    for cell in cells {
        let id = cell["id"].as_str().expect("an id");
        if !cell["not_available"].is_null() {
            assert!(id.starts_with("busypoll"), "{id}: {}", cell["not_available"]);
            continue;
        }
        measured += 1;
        let delay = &cell["streams"]["ctl"]["metrics"]["rx_xdp..receive"];
        assert_eq!((&delay["coverage"], &delay["count"]), (&json!(1.0), &json!(200)), "{id}: {delay}");
        let port = &cell["xdp"][0];
        let asked = port["core"].as_str().expect("a core");
        assert_eq!((&port[asked], &port["driver"]), (&json!(200), &json!("veth")), "{id}: {port}");
        let bound = cell["axes"]["cpu.dma_latency"].as_str().and_then(|bound| bound.strip_suffix("us"));
        if let Some(us) = bound {
            let read = json!([us.parse::<i32>().expect("a number")]);
            assert_eq!((&port["dma_latency_before_us"], &port["dma_latency_after_us"]), (&read, &read), "{id}");
        }
    }
    assert!(measured >= 18, "{measured} cells were measured");
    let own = run.results["verdicts"].as_array().into_iter().flatten().find(|verdict| verdict["id"] == "own-trace");
    assert!(own.is_none_or(|own| own["level"] == "ok"), "{own:?}");
    let report = place.call(place.command("report").arg(place.out()).args(["--format", "org"]));
    assert!(report.stdout.contains("From the XDP program to the application"), "{}", report.stdout);
    // The valid cell with the least minimum is named, with the CPUs of its program and application.
    let min = |cell: &Value| cell["streams"]["ctl"]["metrics"]["rx_xdp..receive"]["min_ns"].as_i64();
    let valid: Vec<&Value> = cells.iter().filter(|cell| cell["valid"] == true && min(cell).is_some()).collect();
    let least = valid.iter().filter_map(|cell| min(cell)).min();
    let named = report.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(named.contains("The systems of R4 have it in different cells"), valid.len() > 1, "{}", report.stdout);
    if let Some(least) = least.filter(|_| valid.len() > 1) {
        let of_least = |cell: &&&Value| {
            let port = &cell["xdp"][0];
            let core = port["core"].as_str().expect("a core");
            let program = port["packets_by_program_cpu"].as_object().expect("CPUs").keys().next().expect("a CPU");
            let says = format!(
                "{least} ns, core {core}: the program ran on CPU {program} (200 packets), the application on CPU {}",
                port["receiver_cpus"][0]
            );
            min(cell) == Some(least) && named.contains(&says)
        };
        assert!(valid.iter().any(|cell| of_least(&cell)), "{least}: {named}");
    }
}
