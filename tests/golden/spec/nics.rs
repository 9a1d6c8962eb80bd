// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network devices that an experiment names, at the ends of its path or with its stations.

use tardy_model::path::PathKind;
use tardy_spec::experiment::Path as Joined;
use tardy_spec::{Source, load};

#[test]
fn a_device_may_be_written_with_its_station() {
    let (_, stream) = tardy_tests::part("stream from a to b").split_once("[station.b]\n").expect("both stations");
    let load_all = |text: String, set: &[&str]| {
        let set: Vec<String> = set.iter().map(|one| (*one).to_owned()).collect();
        load(&Source { name: "x.toml".into(), text }, &set).unwrap_or_else(|error| panic!("{}", error.one_line()))
    };
    let devices = |stations: &str, path: &str, set: &[&str]| {
        let text = format!("[station]\n{stations}\n[path]\nkind = \"wire\"\n{path}\n{stream}");
        let experiment = load_all(text, set);
        // The effective file means the same.
        let again = load_all(experiment.effective.clone(), &[]);
        assert_eq!(again.cells[0].setup, experiment.cells[0].setup, "{}", experiment.effective);
        experiment.cells[0].setup.path.named.clone()
    };
    let remote = "b = { ssh = \"lab2\", nic = \"enp3s0\" }";
    let both = ["enp1s0", "enp3s0"];
    assert_eq!(devices(&format!("a.nic = \"enp1s0\"\n{remote}"), "", &[]), both);
    assert_eq!(devices(&format!("a = {{}}\n{remote}"), "a = \"enp1s0\"", &[]), both);
    assert_eq!(devices(&format!("a = {{}}\n{remote}"), "a = \"enp1s0\"\nb = \"enp3s0\"", &[]), both, "twice the same");
    assert_eq!(devices(&format!("a.nic = \"eth0\"\n{remote}"), "", &["station.a.nic=enp1s0"]), both);
    // Two machines call their devices the same.
    assert_eq!(devices(&format!("a.nic = \"enp3s0\"\n{remote}"), "", &[]), ["enp3s0"; 2]);
    assert_eq!(devices("a.nic = \"x\"\nb.nic = \"y\"", "", &[]), ["x", "y"]);
    // The station that comes first by name has the first end, wherever it is in the file.
    assert_eq!(devices("b.nic = \"y\"\na.nic = \"x\"", "", &[]), ["x", "y"]);
    // Another path was chosen for the file, which takes no device by its name.
    let text = format!("[station]\na.nic = \"x\"\nb.nic = \"y\"\n[path]\nkind = \"wire\"\n{stream}");
    let veth = load_all(text, &["path.kind=veth"]);
    assert!(!veth.effective.contains("nic"), "{}", veth.effective);
    assert_eq!(veth.cells[0].setup.path, Joined::made(PathKind::Veth, 4, 1500));
}
