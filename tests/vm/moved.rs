// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where `rx_kernel` is taken of packets that bear launch times, seen in the figures: farther from
//! the driver than without, but on a kernel that clears launch times on the way.

use crate::command::Place;
use crate::guest::{KERNEL, can_run};
use serde_json::Value;
use tardy_lab::guest::kernel;

const BOTH: &str = "name='m'\ntrials=1\n[station.a]\n[station.b]\n[stream.ctl]\nfrom='a'\nto='b'\ncycle='500us'\ncount=200\n\
rx.cpu='same'\nmetrics=['tx_kernel..rx_kernel']\n[[case]]\nname='udp'\n[[case]]\nname='udp-strict'\nset={'stream.ctl.launch'='strict'}\n\
[[case]]\nname='packet'\nset={'stream.ctl.port'='packet'}\n[[case]]\nname='packet-strict'\n\
set={'stream.ctl.port'='packet','stream.ctl.launch'='strict'}\n";

#[test]
fn the_point_that_is_told_is_the_one_that_the_figures_show() {
    if !can_run("the_point_that_is_told_is_the_one_that_the_figures_show") {
        return;
    }
    let soak = std::env::var_os("TARDY_SOAK").is_some();
    for debian in kernel::DEBIAN.iter().filter(|debian| soak || debian.name == KERNEL) {
        let place = Place::new();
        let file = place.path("moved.toml");
        std::fs::write(&file, BOTH).expect("a file");
        let run = place.call(place.run(&["--in", "guest:exact", "--kernel", debian.name, "--json"]).arg(&file));
        let kernel = debian.name;
        assert_eq!(run.code, Some(0), "{kernel}: {}", run.stderr);
        let cells = run.results["cells"].as_array().expect("cells");
        let ctl = |id: &str| {
            &cells.iter().find(|cell| cell["id"] == id).unwrap_or_else(|| panic!("no cell {id}"))["streams"]["ctl"]
        };
        let on_the_way = |of: &Value| of["metrics"]["tx_kernel..rx_kernel"]["p50_ns"].as_i64().expect("a figure");
        for (port, moves_to) in [("udp", "local-delivery"), ("packet", "packet-socket")] {
            let (without, with) = (ctl(port), ctl(&format!("{port}-strict")));
            assert!(without["rx_kernel_at"].is_null(), "{kernel}: {without}");
            let [near, far] = [without, with].map(on_the_way);
            eprintln!("{kernel} {port}: {near} ns without, {far} ns with launch times, at {}", with["rx_kernel_at"]);
            if with["rx_kernel_at"] == "arrival" {
                assert!(far * 4 < near * 5, "{kernel} {port}: {near} ns without, {far} ns with launch times");
            } else {
                assert_eq!(with["rx_kernel_at"], moves_to, "{kernel}");
                assert!(far * 4 > near * 5, "{kernel} {port}: {near} ns without, {far} ns with launch times");
            }
        }
        let clears = debian.name.starts_with("debian:6.1") && !debian.name.starts_with("debian:6.12");
        assert_eq!(ctl("udp-strict")["rx_kernel_at"] == "arrival", clears, "{kernel}");
    }
}
