// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ways into a virtual machine next to each other, stage by stage.

use super::sample::{Run, metric, run};
use tardy_model::manifest::HostEntry;
use tardy_model::result::{CpuPlacement, MachinesPlacement};

/// Three ways of which the first has no machine. A stage takes longer by each.
fn ways() -> Run {
    let mut run = run(&["host-to-host", "tap", "macvtap"]);
    let parent = Some("this machine".to_owned());
    run.manifest.hosts.insert("vm".into(), HostEntry { parent, ..HostEntry::default() });
    for (cell, at) in run.results.cells.iter_mut().zip(0..) {
        let ctl = cell.streams.get_mut("ctl").expect("ctl");
        ctl.metrics.clear();
        for (name, ns) in
            [("scheduled..tx_kernel", 5_000), ("tx_kernel..receive", 20_000), ("scheduled..receive", 25_000)]
        {
            let ns = if name.starts_with("scheduled..tx") { ns - 500 * at } else { ns + 12_300 * at };
            ctl.metrics.insert(name.into(), metric([ns, ns + 10, ns + 20], 2 * ns, 7, ns / 2, ns as f64, 9.0));
        }
        if at > 0 {
            let timer_interrupts = 1_250;
            cell.cpus.push(CpuPlacement { host: Some("vm".into()), timer_interrupts, ..CpuPlacement::default() });
            let (exits, irq_injections) = (Some(9_000), Some(4_000));
            cell.machines = Some(MachinesPlacement { packets: 1_000, exits, halt_exits: None, irq_injections });
        }
    }
    run
}

/// The table below its heading, each row as the texts of its columns.
fn stages(run: &Run) -> Vec<Vec<String>> {
    let text = run.draw("md", 100);
    let Some((_, text)) = text.split_once("## Stages by path\n") else { return Vec::new() };
    let lines = text.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    lines.map(cells).collect()
}

#[test]
fn which_stage_a_way_into_a_machine_took_longer_in_was_in_no_table() {
    let rows = stages(&ways());
    assert_eq!(
        rows[0],
        [
            "cell",
            "valid",
            "scheduled..tx\\_kernel",
            "+",
            "scheduled..receive",
            "+",
            "tx\\_kernel..receive",
            "+",
            "exits",
            "interrupts injected",
            "timer interrupts in vm"
        ]
        .map(|text| text.replace("\\_", "_")),
    );
    let host = ["host-to-host", "yes", "5.0", "", "25.0", "", "20.0", "", "–", "–", "–"];
    assert_eq!(rows[2], host);
    let tap = ["tap", "yes", "4.5", "-0.5", "37.3", "+12.3", "32.3", "+12.3", "9.00", "4.00", "1.25"];
    assert_eq!(rows[3], tap);
    assert_eq!(rows[4][..4], ["macvtap", "yes", "4.0", "-1.0"]);
    for format in ["text", "org", "html"] {
        let text = ways().draw(format, 120);
        assert!(text.contains("what it takes more than in host-to-host"), "{format}: {text}");
        assert!(text.contains("+12.3"), "{format}: {text}");
    }
    let narrow = ways().draw("text", 60);
    assert!(narrow.contains("More columns than fit here"), "{narrow}");
}

#[test]
fn stages_with_rx_kernel_at_another_point_have_no_difference() {
    let mut run = ways();
    for cell in &mut run.results.cells {
        let ctl = cell.streams.get_mut("ctl").expect("ctl");
        ctl.rx_kernel_at = Some(if cell.id == "host-to-host" { "local-delivery" } else { "arrival" }.to_owned());
        let ns = metric([9_000, 9_100, 9_200], 10_000, 1, 8_000, 9_000.0, 9.0);
        ctl.metrics.insert("tx_kernel..rx_kernel".into(), ns);
    }
    let rows = stages(&run);
    let at = rows[0].iter().position(|head| head == "tx_kernel..rx_kernel").expect("its column");
    assert_eq!(rows[3][at..at + 2], ["9.0", "–"]);
    // A stage that one cell lacks is no column, and without a machine there is no table.
    run.results.cells[1].streams.get_mut("ctl").expect("ctl").metrics.remove("tx_kernel..rx_kernel");
    assert!(!stages(&run)[0].contains(&"tx_kernel..rx_kernel".to_owned()));
    run.manifest.hosts.clear();
    assert_eq!(stages(&run), Vec::<Vec<String>>::new());
}
