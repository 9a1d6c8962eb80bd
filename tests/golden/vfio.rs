// SPDX-License-Identifier: MIT OR Apache-2.0
//! A network device that a virtual machine has for itself: what stands against it, how it gets
//! there, and what it has again afterwards.

use crate::devices::found;
use crate::machines::{machine_station, setup};
use crate::plan::{Recorder, folder};
use tardy_host::nic::Use;
use tardy_lab::binding::{FunctionWas, LinkWas, SriovWas, first_vf};
use tardy_lab::command::Command;
use tardy_lab::host::applied::applied;
use tardy_lab::names::Names;
use tardy_lab::path::vfio::{FunctionFacts, claim, handed, refusal};
use tardy_lab::plan::plan;
use tardy_lab::slot::Slot;
use tardy_lab::step::{Action, Inverse};
use tardy_model::path::{Backend, PathKind};
use tardy_model::station::Passed;
use tardy_spec::{Source, experiment, load};

const ADDRESS: &str = "0000:03:00.0";

fn passed(vf: bool) -> Passed {
    Passed { device: "enp2s0".to_owned(), is_guests: false, vf }
}

/// A card that may be given away, and may have seven virtual functions.
fn card() -> FunctionFacts {
    let facts = found(|_| {});
    let mut nic = facts.of(tardy_lab::host::HostId::HERE).expect("this machine").nics["enp2s0"].clone();
    nic.uses.clear();
    FunctionFacts {
        nic: Ok(nic),
        others: Vec::new(),
        address: Some(ADDRESS.to_owned()),
        driver: Some("igb".to_owned()),
        driver_override: None,
        group: Some("17".to_owned()),
        beside: Vec::new(),
        has_vfio: true,
        vfs: Some((0, 7)),
        vf_offset: 0x80,
        autoprobe: true,
        is_emulated: false,
    }
}

/// Why a card that is changed so is refused.
fn why(vf: bool, change: impl Fn(&mut FunctionFacts)) -> String {
    let mut card = card();
    change(&mut card);
    refusal(&passed(vf), &card).unwrap_or_else(|| "it can be given".to_owned())
}

#[test]
fn the_nic_of_a_station_names_the_device_whatever_the_station_is_called() {
    for [other, machine] in [["host", "vm"], ["peer", "box"]] {
        let text = format!(
            "[station.{other}]\nnic = \"enp1s0\"\n[station.{machine}]\nkind = \"guest\"\nnic = \"enp2s0\"\n\
             [path]\nkind = \"vfio\"\n[stream.ctl]\nfrom = \"{other}\"\nto = \"{machine}\"\n"
        );
        let source = Source { name: "x.toml".into(), text: text.clone() };
        let experiment = load(&source, &[]).unwrap_or_else(|error| panic!("{text}: {}", error.one_line()));
        let (near, given) = experiment.cells[0].setup.path.passed().expect("a device is given away");
        assert_eq!((near, given.device.as_str(), given.is_guests), ("enp1s0", "enp2s0", false), "{text}");
    }
}

#[test]
fn each_reason_against_giving_a_device_away_has_its_own_words() {
    for vf in [false, true] {
        assert_eq!(why(vf, |_| {}), "it can be given");
        assert!(
            why(vf, |of| of.group = None).contains("no IOMMU is behind `enp2s0`"),
            "{}",
            why(vf, |of| of.group = None)
        );
        let none = why(vf, |of| of.has_vfio = false);
        assert_eq!(none, "this kernel has no driver vfio-pci: modprobe vfio-pci");
        let used = |by: Use| why(vf, move |of| of.nic.as_mut().expect("a device").uses.push(by.clone()));
        assert!(used(Use::DefaultRoute).contains("carries the default route"), "{}", used(Use::DefaultRoute));
        // ssh comes by an address, which would be lost with the device.
        let addressed = used(Use::Addresses(vec!["192.0.2.1/24".to_owned()]));
        assert!(addressed.contains("192.0.2.1/24") && addressed.contains("no device that is in use"), "{addressed}");
        assert!(why(vf, |of| of.nic = Err("`enp2s0` is not there".to_owned())).contains("is not there"));
        let virtual_link = why(vf, |of| (of.address, of.driver) = (None, None));
        assert!(virtual_link.contains("is no function of a PCI device"), "{virtual_link}");
    }
    let shared = |driver: &str| why(false, |of| of.beside = vec![("0000:03:00.1".to_owned(), driver.to_owned())]);
    let split = shared("snd_hda_intel");
    for part in ["IOMMU group 17", "0000:03:00.1", "snd_hda_intel", "cannot be split"] {
        assert!(split.contains(part), "{split}");
    }
    assert_eq!(shared("pcieport"), "it can be given", "a bridge is no device that reaches memory for anybody");
    assert_eq!(shared("vfio-pci"), "it can be given");
    let has = why(false, |of| of.vfs = Some((2, 7)));
    assert!(has.contains("virtual functions, which would go with it"), "{has}");
    let busy = why(true, |of| of.vfs = Some((2, 7)));
    assert!(busy.contains("has 2 virtual functions already"), "{busy}");
    for none in [None, Some((0, 0))] {
        assert!(why(true, |of| of.vfs = none).contains("has no virtual functions (SR-IOV)"), "{none:?}");
        assert_eq!(why(false, |of| of.vfs = none), "it can be given");
    }
    // The ports of a guest are no devices of this machine's, even if it has some of these names.
    let unnamed = Passed { is_guests: true, ..passed(false) };
    let refused = refusal(&unnamed, &card()).expect("it is no guest's");
    assert!(refused.contains("path.a and path.b") && refused.contains("--in guest:exact"), "{refused}");
    assert_eq!(refusal(&unnamed, &FunctionFacts { is_emulated: true, ..card() }), None);
}

#[test]
fn a_card_was_claimed_with_an_mtu_that_no_card_takes() {
    for mtu in [68, 1_500, 9_000] {
        let mut card = card();
        card.nic.as_mut().expect("it was looked at").mtu = mtu;
        let asked = claim(&passed(false), &card);
        assert_eq!((asked.device.as_str(), asked.mtu, asked.take), ("enp2s0", mtu, false));
        assert_eq!(card.nic.as_ref().expect("it was looked at").may_be_taken(asked.mtu, asked.take), Ok(()));
    }
}

#[test]
fn a_function_goes_back_with_the_driver_name_and_state_that_it_had() {
    let of = |vf, change: &dyn Fn(&mut FunctionFacts)| {
        let mut card = card();
        change(&mut card);
        handed(&passed(vf), &card, "02:74:64:00:00:80").expect("it is a function")
    };
    let whole = of(false, &|of| of.driver_override = Some("igb".to_owned()));
    assert_eq!((whole.address.as_str(), whole.steps.len()), (ADDRESS, 1));
    let was = LinkWas { name: "enp2s0".to_owned(), ..link(&card()) };
    let back = FunctionWas {
        address: ADDRESS.to_owned(),
        driver: Some("igb".to_owned()),
        driver_override: Some("igb".to_owned()),
        link: Some(was.clone()),
    };
    assert_eq!(whole.steps[0].undoes, [Inverse::here(Action::GiveBackFunction(Box::new(back.clone())))]);
    let does = whole.steps[0].does[1].to_string();
    assert!(does.contains("echo vfio-pci >driver_override") && does.contains("did not take 0000:03:00.0"), "{does}");
    let script = back.give_back();
    let at = |part: &str| script.find(part).unwrap_or_else(|| panic!("{part}: {script}"));
    assert!(at("drivers/vfio-pci/unbind") < at("echo igb >driver_override"), "{script}");
    assert!(at("echo igb >driver_override") < at("drivers/igb/bind"), "{script}");
    assert!(at("drivers/igb/bind") < at(&format!("ip link set dev enp2s0 mtu {}", was.mtu)), "{script}");
    // Two steps: what is made last goes first.
    let virtual_function = of(true, &|_| {});
    assert_eq!((virtual_function.address.as_str(), virtual_function.steps.len()), ("0000:03:10.0", 2));
    let does = virtual_function.steps[0].does[1].to_string();
    for part in ["echo 0 >sriov_drivers_autoprobe", "echo 1 >sriov_numvfs", "vf 0 mac 02:74:64:00:00:80"] {
        assert!(does.contains(part), "{does}");
    }
    let [first, second] = [0, 1].map(|at| virtual_function.steps[at].undoes[0].action.clone());
    let made = SriovWas { address: ADDRESS.to_owned(), autoprobe: true, link: was };
    assert!(made.give_back().contains("echo 0 >sriov_numvfs && echo 1 >sriov_drivers_autoprobe"));
    assert_eq!(first, Action::DeleteVirtualFunctions(Box::new(made)));
    let none = FunctionWas { address: "0000:03:10.0".to_owned(), driver: None, driver_override: None, link: None };
    assert_eq!(second, Action::GiveBackFunction(Box::new(none.clone())));
    assert!(!none.give_back().contains("/bind"), "no driver had it: {}", none.give_back());
    for action in [first, second] {
        let inverse = Inverse::here(action);
        assert_eq!(inverse.fault(), None);
        let text = serde_json::to_string(&inverse).expect("JSON");
        assert_eq!(serde_json::from_str::<Inverse>(&text).expect("it is read"), inverse, "{text}");
    }
}

/// A script is several actions: what failed in it may have unbound the driver already.
#[test]
fn a_script_that_failed_half_way_left_the_function_without_its_driver() {
    for vf in [false, true] {
        let handed = handed(&passed(vf), &card(), "02:74:64:00:00:80").expect("it is a function");
        for (at, step) in handed.steps.iter().enumerate() {
            let undone_of = |failed: &Command| {
                let state = folder();
                let slot = Slot::claim(state.path()).expect("a slot");
                let mut runner = Recorder::new(|asked| (asked == failed).then(|| "Device or resource busy".to_owned()));
                let journal = slot.journal().expect("a journal");
                assert!(applied(&handed.steps, journal, &mut runner).is_err(), "{failed}");
                let is_inverse =
                    |ran: &&String| ran.contains("sriov_drivers_autoprobe") || ran.contains("drivers/vfio-pci/unbind");
                let does = handed.steps[..=at].iter().map(|step| step.does.len()).sum::<usize>();
                runner.ran[does.min(runner.ran.len())..].iter().filter(is_inverse).count()
            };
            assert_eq!(undone_of(&step.does[1]), at + 1, "{:?}", step.does[1]);
        }
    }
    // Virtual functions that were there are somebody else's, and are not taken away.
    let looks = handed(&passed(true), &card(), "02:74:64:00:00:80").expect("a function").steps[0].does[0].to_string();
    assert!(looks.contains("sriov_numvfs") && !looks.contains(">sriov"), "{looks}");
}

#[test]
fn a_card_of_two_network_devices_went_away_whole() {
    let refused = why(false, |of| of.others = vec!["eth9".to_owned()]);
    assert!(refused.contains("`eth9` are one PCI function"), "{refused}");
    assert_eq!(why(true, |of| of.others = vec!["eth9".to_owned()]), "it can be given");
}

fn link(card: &FunctionFacts) -> LinkWas {
    let nic = card.nic.as_ref().expect("a device");
    LinkWas { name: nic.name.clone(), mtu: nic.mtu, up: nic.up }
}

#[test]
fn a_journal_could_have_run_a_command_by_the_name_of_a_driver() {
    let whole = |address: &str, driver: &str, name: &str| {
        let link = Some(LinkWas { name: name.to_owned(), mtu: 1500, up: true });
        let (driver, instead) = (Some(driver.to_owned()), None);
        let was = FunctionWas { address: address.to_owned(), driver, driver_override: instead, link };
        Inverse::here(Action::GiveBackFunction(Box::new(was))).fault()
    };
    assert_eq!(whole(ADDRESS, "igb", "enp2s0"), None);
    for address in ["0000:03:00.0;reboot", "../..", "0000:03:00", "0000:03.00:0", "", "0000:zz:00.0", "$(id):03:00.0"] {
        assert!(whole(address, "igb", "enp2s0").is_some_and(|why| why.contains("no address of a PCI")), "{address}");
    }
    for driver in ["igb;reboot", "../igb", "", "a b", "`id`"] {
        assert!(whole(ADDRESS, driver, "enp2s0").is_some_and(|why| why.contains("no name of a driver")), "{driver}");
    }
    assert!(whole(ADDRESS, "igb", "a b").is_some_and(|why| why.contains("network device's name")));
    let link = LinkWas { name: "$(id)".to_owned(), mtu: 1500, up: true };
    let made = SriovWas { address: ADDRESS.to_owned(), autoprobe: true, link };
    assert!(Inverse::here(Action::DeleteVirtualFunctions(Box::new(made))).fault().is_some());
}

#[test]
fn a_virtual_function_is_where_the_capability_says() {
    assert_eq!(first_vf("0000:00:06.0", 0x80).as_deref(), Some("0000:00:16.0"));
    assert_eq!(first_vf("0000:03:00.1", 0x180).as_deref(), Some("0000:04:10.1"));
    assert_eq!(first_vf("0001:ff:1f.7", 1).as_deref(), Some("0001:100:00.0"), "no bus: it is refused when it is used");
    assert_eq!(first_vf("eth0", 0x80), None);
}

#[test]
fn the_other_stations_device_goes_back_as_from_a_wire() {
    let mut setup = setup();
    let mut vm = machine_station(&[Backend::Vfio]);
    vm.machine.as_mut().expect("a machine").passed = Some(passed(false));
    setup.stations.insert("vm".to_owned(), vm);
    let named = vec!["enp1s0".to_owned(), "enp2s0".to_owned()];
    setup.path = experiment::Path { named, ..experiment::Path::given(PathKind::Vfio, 1500) };
    let plan = plan(&setup, Names::FIRST, &found(|nic| nic.uses.clear())).expect("they can be joined");
    let does: Vec<String> = plan.steps.iter().flat_map(|step| &step.does).map(ToString::to_string).collect();
    let at =
        |part: &str| does.iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {does:#?}"));
    assert!(at("netns attach tardy-0-_home 4321") < at("set dev enp1s0 netns tardy-0-a"));
    assert!(at("set dev enp1s0 netns tardy-0-a") < at("tardy-vm0 address 02:74:64:00:00:80"));
    assert!(at("lladdr a0:36:9f:00:00:01 dev tardy-vm0") > at("tardy-vm0 mtu 1500"));
    assert!(!does.iter().any(|line| line.contains("enp2s0") || line.contains("type veth")), "{does:#?}");
    let (near, far) = (plan.ends.at("a").expect("it is met"), plan.ends.at("vm").expect("it is met"));
    assert_eq!((near.device.as_str(), far.device.as_str()), ("enp1s0", "tardy-vm0"));
    let undo: Vec<String> = plan.undo().map(|command| command.to_string()).collect();
    assert!(undo.iter().any(|line| line.contains("set dev enp1s0 netns tardy-0-_home")), "{undo:#?}");
}
