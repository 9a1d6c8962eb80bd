// SPDX-License-Identifier: MIT OR Apache-2.0
//! A network device that a virtual machine has for itself, and a virtual function of one, by the
//! hardware that QEMU emulates in an exact guest.

use crate::can_run_machines;
use crate::command::Place;
use crate::exact::{manifest, print};

#[test]
fn a_machine_with_a_device_of_its_own_repeats_to_the_nanosecond() {
    const TEST: &str = "a_machine_with_a_device_of_its_own_repeats_to_the_nanosecond";
    if !can_run_machines(TEST) {
        return;
    }
    let once = || {
        let place = Place::new();
        let file = place.path("vfio.toml");
        std::fs::write(&file, tardy_tests::experiment("machine with a device")).expect("a file");
        let run = place.call(place.run(&["--in", "guest:exact", "--json"]).arg(&file));
        run.ran();
        (place, run)
    };
    let ((place, run), (_, again)) = (once(), once());
    let cells = run.results["cells"].as_array().unwrap_or_else(|| panic!("cells: {}", run.stderr));
    assert_eq!(cells.len(), 2, "{}", run.stderr);
    for cell in cells {
        let ctl = &cell["streams"]["ctl"];
        assert_eq!(ctl["outcomes"]["received"], 40, "{}: {}", cell["id"], run.stderr);
        assert_eq!(ctl["metrics"]["send..reply_receive"]["count"], 40, "{}: {ctl}", cell["id"]);
    }
    assert_eq!(print(&run.results), print(&again.results));
    // Each way is a machine of its own, which has one device, and the functions went back.
    let manifest = manifest(&place);
    for (name, address) in [("vm", "0000:00:04.0"), ("vm.2", "0000:00:16.0")] {
        let command = manifest["hosts"][name]["machine"]["guest.command"].to_string();
        assert!(command.contains(&format!("vfio-pci,host={address},")) && !command.contains("netdev"), "{command}");
    }
    assert!(!run.stderr.contains("not put back"), "{}", run.stderr);
}
