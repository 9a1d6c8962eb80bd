// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ways into a virtual machine that lead over a network device of this host: which device is whose,
//! what is planned for both, and what they have again afterwards.

use crate::devices::found;
use tardy_lab::consent::{Allowed, check, needs};
use tardy_lab::coordinator::ask;
use tardy_lab::guest;
use tardy_lab::host::HostId;
use tardy_lab::machine::FactsByHost;
use tardy_lab::names::Names;
use tardy_lab::path::PathError;
use tardy_lab::plan::{Kinds, Plan, PlanError, plan};
use tardy_model::manifest::GuestMode;
use tardy_spec::experiment::Experiment;
use tardy_spec::{Source, load};

const KINDS: [&str; 5] = ["bridge", "macvtap", "ovs", "ovs-netdev", "xdp"];

/// The stations as they are called, more lines of the path, and what comes after all.
fn read([other, machine]: [&str; 2], kind: &str, more: &str, cells: &str) -> Experiment {
    let text = format!(
        "[station.{other}]\n[station.{machine}]\nkind = \"guest\"\n[path]\nkind = \"{kind}\"\n{more}\
         [stream.ctl]\nfrom = \"{other}\"\nto = \"{machine}\"\n{cells}"
    );
    load(&Source { name: "x.toml".into(), text: text.clone() }, &[])
        .unwrap_or_else(|error| panic!("{text}: {}", error.one_line()))
}

fn experiment(stations: [&str; 2], kind: &str, more: &str) -> Experiment {
    read(stations, kind, more, "")
}

const DEVICES: &str = "a = \"enp1s0\"\nb = \"enp2s0\"\ntake = true\n";

/// Of a machine whose devices have offloads of both kinds on, and one that somebody switched off.
fn facts() -> FactsByHost {
    found(|nic| {
        let features = [("rx-gro", false), ("rx-lro", true), ("tx-checksum-ip-generic", true)];
        nic.offloads = features.map(|(name, on)| (name.to_owned(), on)).into();
    })
}

fn planned(kind: &str) -> Plan {
    let experiment = experiment(["a", "vm"], kind, DEVICES);
    plan(&experiment.cells[0].setup, Names::FIRST, &facts()).unwrap_or_else(|error| panic!("{kind}: {error}"))
}

fn lines(plan: &Plan) -> [Vec<String>; 2] {
    let all = plan.standing.iter().chain(&plan.steps).flat_map(|step| &step.does);
    [all.map(ToString::to_string).collect(), plan.undo().map(|command| command.to_string()).collect()]
}

#[test]
fn the_second_device_is_the_machine_s_whatever_the_stations_are_called() {
    for kind in KINDS {
        for stations in [["a", "vm"], ["peer", "box"]] {
            let by_path = experiment(stations, kind, DEVICES);
            let path = &by_path.cells[0].setup.path;
            assert_eq!((path.uplink(), path.take), (Some(["enp1s0", "enp2s0"]), true), "{kind} {stations:?}");
            let nics = |station: &str, nic: &str| format!("station.{station}.nic=\"{nic}\"");
            let set = [nics(stations[0], "enp1s0"), nics(stations[1], "enp2s0")];
            let text = experiment(stations, kind, "").effective;
            let by_nic = load(&Source { name: "x.toml".into(), text }, &set).expect("a station may name its device");
            assert_eq!(by_nic.cells[0].setup.path.uplink(), Some(["enp1s0", "enp2s0"]), "{kind} {stations:?}");
            // What is written out means the same again.
            let text = by_path.effective.clone();
            let again = load(&Source { name: "x.toml".into(), text }, &[]).expect("the effective file");
            assert_eq!(again.cells[0].setup, by_path.cells[0].setup, "{}", by_path.effective);
        }
        assert_eq!(experiment(["a", "vm"], kind, "").cells[0].setup.path.uplink(), None);
    }
}

#[test]
fn both_devices_are_asked_for_and_need_the_caller_s_word() {
    for kind in KINDS {
        let cabled = experiment(["a", "vm"], kind, DEVICES);
        let asked = ask(&cabled, &Kinds::default(), HostId::HERE).expect("it can be asked").devices;
        let asked: Vec<_> =
            asked.iter().map(|of| (&*of.device, of.peer.as_deref(), of.mtu, of.take, &*of.path)).collect();
        let of = |device, peer| (device, Some(peer), 1500, true, kind);
        assert_eq!(asked, [of("enp1s0", "enp2s0"), of("enp2s0", "enp1s0")]);
        let of_machine = ask(&cabled, &Kinds::default(), HostId::numbered(1)).expect("it can be asked").devices;
        assert_eq!(of_machine, [], "they are not the machine's");
        let refused = check(&cabled, Allowed::default()).expect_err("nobody has allowed it").to_string();
        let says = "the path takes the network devices `enp1s0` and `enp2s0` out of this machine's network for the run: \
                    if that is what you want, call `tardy run` with --allow-nics";
        assert_eq!(refused, says);
        assert_eq!(check(&cabled, Allowed { nics: true, ..Allowed::default() }), Ok(()));
        assert_eq!(needs(&experiment(["a", "vm"], kind, "")), [], "a pair of links needs none");
        let error = guest::check(GuestMode::Exact, &cabled).expect_err("a guest has no such device").to_string();
        assert!(error.contains("`enp1s0` and `enp2s0`, devices of this machine"), "{error}");
        assert!(error.contains("leave path.a, path.b and the stations' nic out"), "{error}");
        let unread = plan(&cabled.cells[0].setup, Names::FIRST, &FactsByHost::default()).expect_err("not looked at");
        assert_eq!(unread, PlanError::Path(PathError::Unread { device: "enp1s0".to_owned() }), "{kind}");
    }
}

/// What both have again, whichever way they were on.
const BACK: [&str; 13] = [
    "ip -n tardy-0-_vm1 link set dev enp2s0 down",
    "ip -n tardy-0-_vm1 link set dev enp2s0 netns tardy-0-_home",
    "ip -n tardy-0-_home link set dev enp2s0 mtu 1500",
    "ip -n tardy-0-_home link set dev enp2s0 addrgenmode eui64",
    "ip -n tardy-0-_home link set dev enp2s0 promisc off",
    "ip -n tardy-0-_home link set dev enp2s0 down",
    "ip -n tardy-0-_home addr replace 192.0.2.9 peer 192.0.2.10/32 scope link noprefixroute dev enp2s0",
    "ip -n tardy-0-a link set dev enp1s0 down",
    "ip -n tardy-0-a link set dev enp1s0 netns tardy-0-_home",
    "ip -n tardy-0-_home link set dev enp1s0 mtu 1500",
    "ip -n tardy-0-_home link set dev enp1s0 addrgenmode eui64",
    "ip -n tardy-0-_home link set dev enp1s0 up",
    "ip -n tardy-0-_home addr replace 192.0.2.1/24 brd 192.0.2.255 label enp1s0 dev enp1s0",
];

#[test]
fn both_devices_are_taken_and_go_back_as_they_were() {
    for kind in KINDS {
        let plan = planned(kind);
        let [does, undo] = lines(&plan);
        let at = |part: &str| {
            does.iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {does:#?}"))
        };
        let (near, own) =
            (at("ip link set dev enp1s0 netns tardy-0-a"), at("ip link set dev enp2s0 netns tardy-0-_vm1"));
        assert!(
            at("ip netns attach tardy-0-_home 4321") < near && near < at("dev enp1s0 mtu 1500"),
            "{kind}: {does:#?}"
        );
        assert!(own < at("dev enp2s0 mtu 1500 up"), "{kind}: {does:#?}");
        assert!(!does.iter().any(|line| line.contains("type veth")), "{kind}: {does:#?}");
        // It keeps its own address, and the machine knows that.
        assert!(!does.iter().any(|line| line.contains("enp1s0 mtu 1500 address")), "{kind}: {does:#?}");
        assert!(
            does.iter().any(|line| line.contains("neigh replace 198.18.0.1 lladdr a0:36:9f:00:00:01")),
            "{does:#?}"
        );
        // The kernel switches LRO off at a port, and a program gets packets as they are in memory.
        let is_forwarded = ["ovs-netdev", "xdp"].contains(&kind);
        let mut back: Vec<String> = BACK.map(str::to_owned).into();
        let all = "rx-gro off rx-lro on tx-checksum-ip-generic on";
        let set = |device: &str, what: &str| {
            let tolerates =
                "case $says in *\"ould not change any device features\"*) ;; *) echo \"$says\" >&2; exit 1;; esac";
            format!(
                "ip netns exec tardy-0-_home sh -c 'says=$(ethtool -K \"$0\" {what} 2>&1 >/dev/null) || {tolerates}' {device}"
            )
        };
        if is_forwarded {
            back.insert(11, set("enp1s0", all));
        }
        back.insert(5, set("enp2s0", if is_forwarded { all } else { "rx-lro on" }));
        let begins = undo.windows(back.len()).position(|window| window == back);
        assert!(begins.is_some(), "{kind}: {undo:#?}\n{back:#?}");
        let last = |line: &str| undo.iter().rposition(|of| of == line).unwrap_or_else(|| panic!("{line}: {undo:#?}"));
        assert!(last("ip netns del tardy-0-a") < last("ip netns del tardy-0-_home"), "{undo:#?}");
        assert!(last("ip netns del tardy-0-_home") < last("ip netns del tardy-0-_vm1"), "{undo:#?}");
        let promisc = does.iter().any(|line| line == "ip -n tardy-0-_vm1 link set dev enp2s0 promisc on");
        assert_eq!(promisc, is_forwarded, "{kind}");
        // Its cable is waited for, as that of the other end is.
        let cabled: Vec<_> = plan.cabled.iter().map(|(place, device)| (place.netns(), &**device)).collect();
        assert_eq!(cabled, [(Some("tardy-0-_vm1"), "enp2s0")], "{kind}");
        assert_eq!(plan.ends.at("a").expect("an end").device, "enp1s0");
    }
}

#[test]
fn the_uplink_has_the_place_of_one_of_a_pair_of_links() {
    let has = |kind: &str, part: &str| {
        let plan = planned(kind);
        let keepers = plan.keepers.iter().map(|keeper| keeper.command.to_string());
        let all: Vec<String> = lines(&plan)[0].iter().cloned().chain(keepers).collect();
        assert!(all.iter().any(|line| line.contains(part)), "{kind}: {part}: {all:#?}");
    };
    has("bridge", "link set dev enp2s0 master tardy0-br");
    has("ovs", "add-if tardy0-ovs enp2s0,port_no=1");
    has("ovs-netdev", "tardy0-sw enp2s0 tardy0-tap");
    has("xdp", "tardy forward --mode native --netns tardy-0-_vm1 enp2s0 tardy0-tap");
    has("macvtap", "ip link add link enp2s0 name tardy0-mvt index 1952710657");
    // Not every driver counts what an XDP program takes; the tap's does.
    let passes =
        |kind: &str| -> Vec<String> { planned(kind).passages.devices.iter().map(|of| of.device.clone()).collect() };
    assert_eq!(
        (passes("bridge"), passes("xdp")),
        (vec!["enp2s0".into(), "tardy0-tap".into()], vec!["tardy0-tap".into()])
    );
}

#[test]
fn a_macvtap_is_on_its_device_from_the_start_of_the_machine_which_also_serves_other_cells() {
    let macvtap = |n: u8| {
        format!(
            "[[case]]\nname = \"on{n}\"\nset = {{ \"path.kind\" = \"macvtap\", \"path.a\" = \"enp{n}s0\", \"path.b\" = \"enp{n}s1\" }}\n"
        )
    };
    let over = |cells: &str| -> Vec<Option<String>> {
        read(["a", "vm"], "tap", "", cells)
            .machines()
            .values()
            .map(|(_, machine)| machine.macvtap_over.clone())
            .collect()
    };
    let tap = "[[case]]\nname = \"tap\"\n";
    let pair = "[[case]]\nname = \"pair\"\nset = { \"path.kind\" = \"macvtap\" }\n";
    let on = |n: u8| Some(format!("enp{n}s1"));
    assert_eq!(over(&(tap.to_owned() + &macvtap(1))), [on(1)], "one machine serves both");
    assert_eq!(over(&(macvtap(1) + pair)), [on(1), None], "no macvtap moves to another link");
    assert_eq!(over(&(macvtap(1) + &macvtap(3))), [on(1), on(3)]);
    assert_eq!(over(tap), [None]);
}
