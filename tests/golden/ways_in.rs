// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ways into a virtual machine: what their paths plan, and what they give back.

use crate::machines::{machine_station, setup, with_machine};
use tardy_lab::host::HostId;
use tardy_lab::host::place::Place;
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::Names;
use tardy_lab::plan::{Kinds, Plan, plan};
use tardy_lab::step::{Action, Inverse, Question, Step};
use tardy_model::path::{Backend, BpfJit, PathKind};
use tardy_spec::experiment::{self, Station};

#[test]
fn a_bridge_and_a_macvtap_leave_the_machine_its_devices() {
    let both = [Backend::Tap, Backend::Macvtap];
    let bridge = with_machine(PathKind::Bridge, &both);
    let does: Vec<String> = bridge.steps.iter().flat_map(|step| &step.does).map(ToString::to_string).collect();
    let at =
        |part: &str| does.iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {does:#?}"));
    assert!(at("type bridge stp_state 0 forward_delay 0 mcast_snooping 0 ageing_time 30000") < at("master tardy0-br"));
    assert!(at("tardy0-tap master tardy0-br") < at("tardy0-br mtu 1500 up"));
    // After a cell with path `tap` the tap had the other station's address, and the bridge kept
    // what was sent there.
    assert!(at("tardy0-tap address 02:74:64:00:00:7e") < at("tardy0-tap master tardy0-br"));
    let removes = |plan: &Plan, device: &str| {
        let steps = plan.steps.iter().flat_map(|step| &step.undoes);
        steps.filter(|undo| matches!(&undo.action, Action::DeleteLink { device: of } if of == device)).count()
    };
    assert_eq!((removes(&bridge, "tardy0-br"), removes(&bridge, "tardy0-tap")), (1, 0));
    let macvtap = with_machine(PathKind::Macvtap, &both);
    assert_eq!(
        (removes(&macvtap, "tardy0-mvt"), removes(&macvtap, "tardy0-low"), removes(&macvtap, "tardy0-up")),
        (0, 0, 0)
    );
    assert_eq!(macvtap.ends.at("vm").expect("it is met").device, "tardy-vm1");
    assert_eq!(macvtap.ends.at("a").expect("it is met").device, "tardy0-up");
    // One machine: what stands is the same for both.
    assert_eq!(bridge.standing, macvtap.standing);
}

#[test]
fn the_tap_of_another_machine_comes_to_the_bridge_and_goes_back_under_its_name() {
    for kind in [PathKind::Bridge, PathKind::Ovs, PathKind::OvsNetdev, PathKind::Xdp] {
        let mut setup = setup();
        for (name, number) in [("a", 1), ("b", 2)] {
            let station = Station { host: HostId::numbered(number), ..machine_station(&[Backend::Tap]) };
            setup.stations.insert(name.to_owned(), station);
        }
        setup.stations.retain(|name, _| ["a", "b"].contains(&name.as_str()));
        setup.streams.clear();
        setup.path = experiment::Path::given(kind, 1500);
        let plan = plan(&setup, Names::FIRST, &FactsByHost::default()).expect("they can be joined");
        let does: Vec<String> = plan.steps.iter().flat_map(|step| &step.does).map(ToString::to_string).collect();
        let moves = "ip -n tardy-0-_vm1 link set dev tardy0-tap netns tardy-0-_vm2 name tardy0-brup";
        assert_eq!(does.iter().filter(|line| *line == moves).count(), 1, "{does:#?}");
        assert!(!does.iter().any(|line| line.contains("type veth")), "{does:#?}");
        let undo: Vec<String> = plan.undo().map(|command| command.to_string()).collect();
        let back = "ip -n tardy-0-_vm2 link set dev tardy0-brup netns tardy-0-_vm1 name tardy0-tap";
        assert_eq!(undo.iter().filter(|line| *line == back).count(), 1, "{undo:#?}");
        let [a, b] = ["a", "b"].map(|name| plan.ends.at(name).expect("it is met"));
        assert_eq!((a.place.host, b.place.host), (HostId::numbered(1), HostId::numbered(2)));
        assert_ne!((&a.mac, a.address), (&b.mac, b.address));
        // Nobody on this host looks into the machines' path.
        assert_eq!(plan.inside, []);
    }
    let here = |to: &str, called: &str| {
        let (device, to, called) = ("tardy0-brup".into(), to.into(), called.into());
        Inverse::here(Action::ReturnRenamed { device, to, called }).fault()
    };
    assert_eq!(here("tardy-0-_vm1", "tardy0-tap"), None);
    assert!(here("elsewhere", "tardy0-tap").is_some() && here("tardy-0-_vm1", "x y").is_some());
}

#[test]
fn a_datapath_has_its_flows_before_the_first_packet_and_goes_with_the_path() {
    let plan = with_machine(PathKind::Ovs, &[Backend::Tap]);
    let does: Vec<String> = plan.steps.iter().flat_map(|step| &step.does).map(ToString::to_string).collect();
    let at = |part: &str| does.iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}"));
    assert!(at("ovs-dpctl add-dp tardy0-ovs") < at("add-if tardy0-ovs tardy0-brup,port_no=1"));
    assert!(at("add-if tardy0-ovs tardy0-tap,port_no=2") < at("add-flow tardy0-ovs"));
    // Each way: IPv4, ARP and IPv6, tagged and not; there are no frames of a stream's own.
    let flows: Vec<_> = does.iter().filter(|line| line.contains("add-flow")).collect();
    assert_eq!(flows.len(), 2 * 2 * 3, "{flows:#?}");
    for part in ["encap(eth_type(0x86dd),ipv6())' 2", "in_port(2),eth(),eth_type(0x0800),ipv4()' 1"] {
        assert!(flows.iter().any(|line| line.ends_with(part)), "{part}: {flows:#?}");
    }
    assert!(does.last().is_some() && at("add-flow") < at("dev tardy0-tap mtu 1500 up"));
    let undo: Vec<String> = plan.undo().map(|command| command.to_string()).collect();
    assert_eq!(undo.iter().filter(|line| line.contains("ovs-dpctl del-dp tardy0-ovs")).count(), 1, "{undo:#?}");
    let fault = |name: &str| {
        let place = Place { netns: Some("tardy-0-_vm1".into()), ..Place::of(HostId::HERE) };
        Inverse::within(&place, Action::DeleteDatapath { name: name.into() }).fault()
    };
    assert_eq!(fault("tardy0-ovs"), None);
    assert!(fault("x; reboot").is_some_and(|why| why.contains("no network device's name")));
    let here = Inverse::here(Action::DeleteDatapath { name: "ovs-system".into() });
    assert!(here.fault().is_some_and(|why| why.contains("no network namespace")));
}

#[test]
fn a_switch_in_user_space_meets_packets_that_are_whole_and_its_files_go_with_the_path() {
    let plan = with_machine(PathKind::OvsNetdev, &[Backend::Tap]);
    let keepers: Vec<String> = plan.keepers.iter().map(|keeper| keeper.command.to_string()).collect();
    let folder = "/run/tardy-machine-0-switch";
    let words = format!("tardy switch --netns tardy-0-_vm1 --folder {folder} tardy0-sw tardy0-brup tardy0-tap");
    assert_eq!(keepers, [words]);
    let does: Vec<String> = plan.steps.iter().flat_map(|step| &step.does).map(ToString::to_string).collect();
    for device in ["tardy0-0", "tardy-vm0"] {
        assert!(does.iter().any(|line| line.contains(&format!("ethtool -K {device} $offload off"))), "{does:#?}");
    }
    // What a killed run leaves of it is put back by its journal.
    let files = Action::RemoveGuestFiles { paths: vec![folder.to_owned()] };
    let removes = |step: &&Step| step.undoes.iter().any(|inverse| inverse.action == files);
    let undo = plan.steps.iter().find(removes).expect("a step that removes its files");
    assert!(undo.undoes.iter().all(|inverse| inverse.fault().is_none()), "{undo:?}");
    let undo: Vec<String> = plan.undo().map(|command| command.to_string()).collect();
    for device in ["tardy0-sw", "ovs-netdev"] {
        let delete = format!("ip -n tardy-0-_vm1 link del dev {device}");
        assert_eq!(undo.iter().filter(|line| **line == delete).count(), 1, "{delete}: {undo:#?}");
    }
    for asks in ["/switch.ctl dpctl/show", "dump-flows /run/tardy-machine-0-switch/tardy0-sw.mgmt"] {
        assert!(plan.read_back.iter().any(|question| question.to_string().contains(asks)), "{asks}");
    }
}

#[test]
fn what_a_path_needs_behind_a_machine_was_looked_for_in_the_machine() {
    let mut setup = setup();
    setup.stations.insert("vm".to_owned(), machine_station(&[Backend::Tap]));
    setup.path = experiment::Path::given(PathKind::Ovs, 1500);
    let facts = |has: bool| {
        let paths = has.then(|| "ovs".to_owned()).into_iter().collect();
        Facts { usable: vec![0], paths, ..Facts::default() }
    };
    let refusal = |here: bool, in_machine: bool| {
        let found = FactsByHost::from(facts(here)).and(HostId::numbered(1), facts(in_machine));
        Kinds::default().refusal(&setup, &found).expect("its hosts are known")
    };
    assert_eq!(refusal(true, false), None);
    assert!(refusal(false, true).is_some_and(|why| why.contains("apt install openvswitch-switch")));
}

#[test]
fn each_device_behind_a_machine_is_watched_for_those_whose_packets_come_in_by_it() {
    let [near, machine, nobody] = [Some("a"), Some("vm"), None];
    for (kind, backend, devices, has_program) in [
        (PathKind::Tap, Backend::Tap, &[][..], false),
        (PathKind::Bridge, Backend::Tap, &[("tardy0-brup", near), ("tardy0-tap", machine)], false),
        (PathKind::Ovs, Backend::Tap, &[("tardy0-brup", near), ("tardy0-tap", machine)], false),
        (PathKind::OvsNetdev, Backend::Tap, &[("tardy0-brup", near), ("tardy0-tap", machine)], false),
        // What the machine sends by its macvtap leaves by the link below, and comes in nowhere.
        (PathKind::Macvtap, Backend::Macvtap, &[("tardy0-low", near), ("tardy0-mvt", nobody)], false),
        // The path's own programs take packets before a socket sees them.
        (PathKind::Xdp, Backend::Tap, &[("tardy0-brup", nobody), ("tardy0-tap", nobody)], true),
    ] {
        let inside = with_machine(kind, &[backend]).inside;
        let found: Vec<_> = inside.iter().map(|of| (of.device.device.as_str(), of.from.as_deref())).collect();
        assert_eq!(found, devices, "{kind:?}");
        for of in inside {
            assert_eq!((&*of.station, &*of.device.netns, of.device.has_program), ("a", "tardy-0-_vm1", has_program));
        }
    }
}

#[test]
fn a_program_on_the_path_printed_and_nobody_watched_it() {
    let printing = with_machine(PathKind::Xdp, &[Backend::Tap]);
    assert_eq!(printing.inside.len(), 2);
    let text = include_str!("../../experiments/host-to-host.toml").to_owned();
    let source = tardy_spec::Source { name: "test.toml".into(), text };
    let refused = tardy_spec::load(&source, &["path.xdp_printk=true".to_owned()]);
    let says = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(says.contains("`path.xdp_printk` has no meaning on path"), "{says}");
}

#[test]
fn xdp_programs_meet_packets_that_are_whole_and_the_machine_gets_its_offloads_back() {
    let plan = with_machine(PathKind::Xdp, &[Backend::Tap]);
    let keepers: Vec<String> = plan.keepers.iter().map(|keeper| keeper.command.to_string()).collect();
    assert_eq!(keepers, ["tardy forward --mode native --netns tardy-0-_vm1 tardy0-brup tardy0-tap"]);
    let does: Vec<String> = plan.steps.iter().flat_map(|step| &step.does).map(ToString::to_string).collect();
    let offloads = |device: &str| {
        let found = does.iter().position(|line| line.contains(&format!("ethtool -K {device} $offload off")));
        found.unwrap_or_else(|| panic!("{device}: {does:#?}"))
    };
    let up = |device: &str| does.iter().position(|line| line.contains(&format!("dev {device} up"))).expect("it is up");
    assert!(offloads("tardy0-0") < up("tardy0-0") && offloads("tardy-vm0") < up("tardy-vm0"));
    // The machine's device serves other cells after this one.
    let undo: Vec<String> = plan.undo().map(|command| command.to_string()).collect();
    assert_eq!(undo.iter().filter(|line| line.contains("ethtool -K tardy-vm0 $offload on")).count(), 1, "{undo:#?}");
    let elsewhere = |device: &str| Inverse::here(Action::SwitchOffloadsOn { device: device.into() }).fault();
    assert!(elsewhere("tardy-vm0; reboot").is_some_and(|why| why.contains("no network device's name")));
    assert!(elsewhere("eth0").is_some_and(|why| why.contains("tardy has not made")));
    assert_eq!(elsewhere("tardy-vm0"), None);
}

#[test]
fn whether_programs_are_compiled_is_the_machine_s_and_is_put_back() {
    let with = |wanted: BpfJit| {
        let mut setup = setup();
        setup.stations.insert("vm".to_owned(), machine_station(&[Backend::Tap]));
        setup.path = experiment::Path { bpf_jit: wanted, ..experiment::Path::given(PathKind::Xdp, 1500) };
        setup
    };
    let planned = |wanted: BpfJit, found: Option<u8>| {
        plan(&with(wanted), Names::FIRST, &FactsByHost::from(Facts { bpf_jit: found, ..Facts::default() }))
    };
    let lines = |wanted: BpfJit, found: u8| {
        let plan = planned(wanted, Some(found)).expect("it can be planned");
        let does = plan.steps.iter().flat_map(|step| &step.does).map(ToString::to_string);
        let all = does.chain(plan.undo().map(|command| command.to_string()));
        all.filter(|line| line.contains("bpf_jit_enable")).collect::<Vec<_>>()
    };
    let [sets, back] = &lines(BpfJit::Off, 1)[..] else { panic!("{:#?}", lines(BpfJit::Off, 1)) };
    assert!(sets.contains("echo 0 >/proc/sys/net/core/bpf_jit_enable"), "{sets}");
    assert_eq!(back, "sh -c 'echo 1 >/proc/sys/net/core/bpf_jit_enable'");
    assert_eq!(lines(BpfJit::On, 0).len(), 2);
    // What is so already is left: 2 compiles too, and shows the code.
    for (wanted, found) in [(BpfJit::AsSet, 0), (BpfJit::AsSet, 1), (BpfJit::On, 2), (BpfJit::Off, 0)] {
        assert_eq!(lines(wanted, found), [""; 0], "{wanted:?}, {found}");
    }
    let unknown = planned(BpfJit::Off, None).expect_err("it could not be put back").to_string();
    assert!(unknown.contains("there is no /proc/sys/net/core/bpf_jit_enable here"), "{unknown}");
    // A program keeps what it was loaded as, so what loads it looks, and what is set is read back.
    let plan = planned(BpfJit::Off, Some(1)).expect("it can be planned");
    let loads = plan.keepers[0].command.to_string();
    assert_eq!(loads, "tardy forward --mode native --netns tardy-0-_vm1 --jit off tardy0-brup tardy0-tap");
    let is_read = |question: &Question| question.command.to_string().contains("</proc/sys/net/core/bpf_jit_enable");
    assert_eq!(plan.read_back.iter().filter(|question| is_read(question)).count(), 1, "{:#?}", plan.read_back);
    // A kernel without an interpreter costs the cells that ask for one.
    let refused = |wanted: BpfJit, bpf_jit: Option<u8>, interprets: Option<bool>| {
        let facts = Facts { bpf_jit, interprets, ..Facts::default() };
        let found = FactsByHost::from(facts.clone()).and(HostId::numbered(1), facts);
        Kinds::default().refusal(&with(wanted), &found).expect("its hosts are known")
    };
    let why = refused(BpfJit::Off, Some(1), Some(false)).expect("it cannot");
    assert!(why.contains("CONFIG_BPF_JIT_ALWAYS_ON") && why.contains("--in guest:exact"), "{why}");
    assert_eq!(refused(BpfJit::On, Some(1), Some(false)), None);
    assert_eq!(refused(BpfJit::Off, Some(1), Some(true)), None);
    assert_eq!(refused(BpfJit::Off, Some(1), None), None, "the kernel will say");
    assert!(refused(BpfJit::Off, None, None).is_some_and(|why| why.contains("first network namespace")));
}
