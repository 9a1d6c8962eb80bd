// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stations that are virtual machines, without one: the stream that carries those of all programs
//! in a machine, with both of its sides in this process; and where its threads and its device go.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::time::Duration;
use tardy_engine::message;
use tardy_host::state::MachineThread;
use tardy_lab::command::Command;
use tardy_lab::connection::Connection;
use tardy_lab::host::HostId;
use tardy_lab::host::distant::Reach;
use tardy_lab::host::place::Place;
use tardy_lab::host::trunk::{self, Link, Trunk};
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::Names;
use tardy_lab::placement;
use tardy_lab::plan::{Plan, PlanError, awake, plan};
use tardy_lab::station::guest;
use tardy_lab::step::{Action, Inverse};
use tardy_model::path::{Backend, PathKind};
use tardy_model::placement::ThreadRecord;
use tardy_model::shaper::Shaper;
use tardy_model::station::{Machine, MachinePart, Net, StationKind};
use tardy_model::stream::Policy;
use tardy_model::time::Instant;
use tardy_spec::experiment::{self, MachineThreads, Setup, Softirq, Station};

const SOON: Duration = Duration::from_secs(20);

fn over(from: PipeReader, to: PipeWriter) -> Trunk {
    let link = Link { why: Box::new(|| "with the test".to_owned()), cut: Box::new(|| {}) };
    Trunk::hear(&mut &from).expect("the other side is there");
    Trunk::over(from, to, link)
}

/// This side; the other one lives as long as it.
fn joined() -> Trunk {
    let ((orders, to), (from, answers)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
    std::thread::spawn(move || trunk::serve(orders, answers));
    over(from, to)
}

fn shell(trunk: &mut Trunk, script: &str) -> Connection {
    trunk.open(&Command::new("sh", &["-c", script])).expect("it is asked for")
}

#[test]
fn what_goes_into_a_program_there_comes_out_of_it_whole() {
    let mut trunk = joined();
    let Connection { mut from, mut to, mut carrier } = shell(&mut trunk, "cat; echo last >&2; exit 3");
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let what = sent.clone();
    let writer = std::thread::spawn(move || to.write_all(&what).expect("it reads"));
    let mut heard = Vec::new();
    // What it reads ends with the writer's end of the channel.
    from.read_to_end(&mut heard).expect("it writes");
    writer.join().expect("all is written");
    assert!(heard == sent, "{} of {} bytes", heard.len(), sent.len());
    assert_eq!(carrier.ended(SOON).as_deref(), Some("with exit status: 3"));
    assert_eq!((carrier.last_words(), carrier.pid()), (vec!["last".to_owned()], None));
}

#[test]
fn a_program_whose_output_nobody_reads_held_up_the_others() {
    let mut trunk = joined();
    let unread = shell(&mut trunk, "yes | head -c 8000000; exec cat >&2");
    for n in 0..20 {
        let Connection { mut from, mut to, carrier: _carrier } = shell(&mut trunk, "cat");
        writeln!(to, "line {n}").expect("it reads");
        drop(to);
        let mut heard = String::new();
        from.read_to_string(&mut heard).expect("it writes");
        assert_eq!(heard, format!("line {n}\n"));
    }
    // What was not read is there, and one that is not wanted any more ends.
    let Connection { mut from, to, mut carrier } = unread;
    let mut first = [0; 4];
    from.read_exact(&mut first).expect("its output waits");
    assert_eq!(&first, b"y\ny\n");
    drop((from, to));
    assert_eq!(carrier.ended(SOON).as_deref(), Some("with exit status: 0"));
}

#[test]
fn a_program_there_is_killed_and_one_that_is_not_there_says_so() {
    let mut trunk = joined();
    let mut sleeps = shell(&mut trunk, "exec sleep 1000");
    assert_eq!(sleeps.carrier.ended(Duration::from_millis(20)), None);
    sleeps.carrier.kill();
    assert_eq!(sleeps.carrier.ended(SOON).as_deref(), Some("with signal: 9 (SIGKILL)"));
    let mut none = trunk.open(&Command::new("/there/is/none", &[])).expect("it is asked for");
    let how = none.carrier.ended(SOON).expect("it ended");
    assert!(how.starts_with("before it was started: No such file"), "{how}");
    let mut heard = Vec::new();
    assert_eq!(none.from.read_to_end(&mut heard).expect("no more comes"), 0);
}

/// The other side as a test plays it: it greets, and then sends these bytes.
fn plays(frames: &[&[u8]]) -> (Trunk, PipeReader) {
    let ((orders, to), (from, mut answers)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
    // A greeting is the first of all kinds of frames.
    message::write_frame(&mut answers, &[0]).expect("there is room");
    let trunk = over(from, to);
    for frame in frames {
        message::write_frame(&mut answers, frame).expect("there is room");
    }
    (trunk, orders)
}

#[test]
fn the_end_of_the_stream_ends_every_program_on_it() {
    let (mut trunk, _orders) = plays(&[]);
    // The other side is gone by now, or soon.
    let how = match trunk.open(&Command::new("cat", &[])) {
        Ok(mut connection) => connection.carrier.ended(SOON).expect("it ended"),
        Err(error) => error.to_string(),
    };
    assert!(how.ends_with("with the test"), "{how}");
}

#[test]
fn another_side_that_speaks_of_what_nobody_started_or_gives_orders_is_left() {
    // Data of channel 7; an order to start something; nothing that is a frame.
    let cases: [(&[u8], &str); 3] = [
        (&[2, 7, 1, 0], "because it spoke of a program that nobody started"),
        (&[1, 0, 0], "because it gave an order, and orders go the other way"),
        (&[99], "because what it sent makes no sense: "),
    ];
    for (frame, why) in cases {
        let (mut trunk, _orders) = plays(&[frame]);
        let until = std::time::Instant::now() + SOON;
        let how = loop {
            match trunk.open(&Command::new("cat", &[])) {
                Err(error) => break error.to_string(),
                Ok(mut connection) => {
                    if let Some(how) = connection.carrier.ended(Duration::from_millis(5)) {
                        break how;
                    }
                }
            }
            assert!(std::time::Instant::now() < until, "{frame:?} was taken");
        };
        assert!(how.contains(why) || how.contains("with the test"), "{frame:?}: {how}");
    }
}

/// With one station, in a namespace.
pub fn setup() -> Setup {
    Setup {
        stations: [("a".to_owned(), Station::here(StationKind::Netns))].into(),
        path: experiment::Path::made(PathKind::Veth, 4, 1500),
        shaper: Shaper::None,
        streams: Vec::new(),
        loads: Vec::new(),
        softirq: Softirq::default(),
        dma_latency_us: None,
        copy: None,
        observes_ptp: false,
    }
}

/// A station that is a virtual machine.
pub fn machine_station(backends: &[Backend]) -> Station {
    let machine = Machine {
        kernel: "debian:6.12".to_owned(),
        cpus: 1,
        memory_mib: 256,
        net: Net::Virtio,
        queues: 1,
        append: String::new(),
        backends: backends.iter().copied().collect(),
        passthru: false,
        macvtap_on: None,
        macvtap_over: None,
        passed: None,
        computes: false,
    };
    Station { host: HostId::numbered(1), machine: Some(machine), ..Station::here(StationKind::Guest) }
}

/// A station in a namespace, and one that is a virtual machine.
pub fn with_machine(kind: PathKind, backends: &[Backend]) -> Plan {
    let mut setup = setup();
    setup.stations.insert("vm".to_owned(), machine_station(backends));
    setup.path = experiment::Path::given(kind, 1500);
    plan(&setup, Names::FIRST, &FactsByHost::default()).expect("they can be joined")
}

#[test]
fn a_tap_would_fall_with_the_namespace_of_the_other_station() {
    let plan = with_machine(PathKind::Tap, &[Backend::Tap]);
    let undo: Vec<String> = plan.undo().map(|command| command.to_string()).collect();
    assert_eq!(
        undo,
        [
            "ip link set dev tardy-vm0 down",
            "ip addr flush dev tardy-vm0",
            "ip -n tardy-0-a link set dev tardy0-tap down",
            "ip -n tardy-0-a link set dev tardy0-tap netns tardy-0-_vm1",
            "ip netns del tardy-0-a",
            "ip -n tardy-0-_vm1 link del dev tardy0-tap",
            "ip netns del tardy-0-_vm1",
        ]
    );
    // What stands for the whole run is apart from what a path does, and the machine's own steps are
    // for its host.
    let standing: usize = plan.standing.iter().map(|step| step.does.len()).sum();
    assert_eq!(standing, 3, "a namespace, and a tap that says nothing of its own");
    let of_machine: Vec<HostId> =
        plan.steps.iter().map(|step| step.place.host).filter(|of| *of != HostId::HERE).collect();
    assert_eq!(of_machine, [HostId::numbered(1); 3]);
    let end = plan.ends.at("vm").expect("the machine is met");
    assert_eq!((end.device.as_str(), end.mac.as_str()), ("tardy-vm0", "02:74:64:00:00:80"));
    assert_eq!(end.place, Place::of(HostId::numbered(1)));
    assert_eq!(plan.ends.at("a").expect("the other one too").device, "tardy0-tap");
}

/// A machine whose virtual CPU is on CPU 1 and comes before ordinary threads, and QEMU on CPU 0.
fn with_placed_machine(cpus: Vec<u32>) -> Result<Plan, PlanError> {
    let mut setup = setup();
    let vcpu = MachineThreads { cpu: Some(1), policy: Policy::Fifo(5) };
    let emulator = MachineThreads { cpu: Some(0), policy: Policy::Other };
    let threads = [(MachinePart::Vcpu, vcpu), (MachinePart::Emulator, emulator)].into();
    setup.stations.insert("vm".to_owned(), Station { threads, ..machine_station(&[Backend::Tap]) });
    setup.path = experiment::Path::given(PathKind::Tap, 1500);
    let here = Facts { usable: cpus, ..Facts::default() };
    let found = FactsByHost::from(here).and(HostId::numbered(1), Facts::default());
    placement::place(&setup, &found)?;
    plan(&setup, Names::FIRST, &found)
}

#[test]
fn the_threads_of_a_machine_go_where_the_cell_asks_and_come_back_with_its_path() {
    let plan = with_placed_machine(vec![0, 1]).expect("both CPUs are there");
    let placed: Vec<&[String]> = plan.steps.iter().flat_map(|step| &step.does).map(Command::argv).collect();
    let placed: Vec<_> = placed.into_iter().filter(|argv| argv.iter().any(|word| word == "threads")).collect();
    assert_eq!(placed.len(), 2, "{placed:#?}");
    assert_eq!(placed[0][4..], ["tardy-0-_vm1", "vcpu", "all", "1", "-f", "5"]);
    assert_eq!(placed[1][4..], ["tardy-0-_vm1", "emulator", "all", "0", "-o", "0"]);
    let back: Vec<String> = plan.undo().map(|command| command.to_string()).collect();
    assert_eq!(back.iter().filter(|line| line.ends_with("tardy-0-_vm1 all any 0,1 -o 0")).count(), 1, "{back:#?}");
    // Anybody may call his process `vhost-PID`: one outside QEMU has to be the kernel's own.
    assert!(placed[0][2].contains("PPid:[[:space:]]*2$"), "{}", placed[0][2]);
    let why = with_placed_machine(vec![0]).expect_err("there is no CPU 1").to_string();
    assert!(why.contains("`station.vm.vcpu.cpu`: CPU 1 was asked for"), "{why}");
    // A journal may have been written by anybody who could.
    let place = Place { netns: Some("tardy-0-_vm1".into()), ..Place::of(HostId::HERE) };
    let fault = |cpus: &str| Inverse::within(&place, Action::FreeMachineThreads { cpus: cpus.into() }).fault();
    assert_eq!(fault("0-1,3"), None);
    for cpus in ["0; reboot", "-p", "--1"] {
        assert!(fault(cpus).is_some_and(|why| why.contains("no list of CPUs")), "{cpus}");
    }
    let nowhere = Inverse::here(Action::FreeMachineThreads { cpus: "0".into() });
    assert!(nowhere.fault().is_some_and(|why| why.contains("no network namespace")));
}

#[test]
fn what_a_threads_name_says_is_known_to_the_program_and_to_the_script_that_places_it() {
    let parts = ["CPU 0/KVM", "CPU 3/TCG", "ALL CPUs/TCG", "vhost-812", "qemu-system-x86", "call_rcu", "worker"];
    let found = parts.map(MachinePart::of_thread);
    assert_eq!(found[..3], [MachinePart::Vcpu; 3]);
    assert_eq!(found[3], MachinePart::Vhost);
    assert_eq!(found[4..], [MachinePart::Emulator; 3]);
    // By its thread's number, CPU 10 would come before CPU 2 if that was made later.
    assert_eq!(parts.map(MachinePart::number)[..3], [Some(0), Some(3), None]);
    assert_eq!(MachinePart::number("CPU 10/KVM"), Some(10));
}

#[test]
fn a_machines_threads_have_what_they_did_between_two_readings_and_their_own_names() {
    let mut setup = setup();
    let asked = MachineThreads { cpu: Some(1), policy: Policy::Fifo(5) };
    let threads = [(MachinePart::Vcpu, asked)].into();
    setup.stations.insert("vm".to_owned(), Station { threads, ..machine_station(&[Backend::Tap]) });
    let reading = |machine: u16, part: MachinePart, tid: u32, cpu: u32, run_ns: i64, at: i64| MachineThread {
        machine: HostId::numbered(machine),
        part,
        record: ThreadRecord {
            tid,
            policy_granted: "fifo:5".to_owned(),
            affinity: vec![1],
            cpus_seen: vec![cpu],
            run_ns: Some(run_ns),
            voluntary_switches: run_ns as u64,
            ..ThreadRecord::default()
        },
        read: Instant::from_ns(at),
    };
    let of = |cpu: u32, ran: i64, at: i64| {
        let mut all: Vec<MachineThread> =
            [(1, 30), (1, 31), (2, 40)].map(|(host, tid)| reading(host, MachinePart::Vcpu, tid, cpu, ran, at)).into();
        all.push(reading(1, MachinePart::Emulator, 7, cpu, 2 * ran, at));
        all
    };
    let (before, mut after) = (of(0, 100, 1_000), of(1, 350, 9_000));
    // What the kernel did not grant can be asked of it by hand.
    after[1].record.affinity = vec![0, 1];
    // It began in the trial, so nobody knows what it did before.
    after.push(reading(1, MachinePart::Vhost, 50, 0, 5, 9_000));
    let found = guest::threads(&setup, &[before, after], true);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["vm.emulator", "vm.vcpu0", "vm.vcpu1"]);
    let vcpu = &found["vm.vcpu0"];
    assert_eq!((vcpu.tid, vcpu.run_ns, vcpu.over_ns, vcpu.voluntary_switches), (30, Some(250), Some(8_000), 250));
    assert_eq!((vcpu.cpu_asked, vcpu.policy_asked.as_str()), (Some(1), "fifo:5"));
    assert_eq!((&vcpu.affinity[..], &vcpu.cpus_seen[..]), (&[1][..], &[0, 1][..]));
    assert_eq!(vcpu.refused, [""; 0]);
    let why = "as root, `taskset -pc 1 31 && chrt -f -p 5 31` shows why, as long as the thread is there";
    assert_eq!(found["vm.vcpu1"].refused, [why]);
    let emulator = &found["vm.emulator"];
    assert_eq!((emulator.cpu_asked, emulator.policy_asked.as_str(), emulator.run_ns), (None, "fifo:5", Some(500)));
    // Of what is asked for and nowhere to be seen nothing was granted, which spoils the trial.
    let found = guest::threads(&setup, &[Vec::new(), Vec::new()], true);
    let missing = &found["vm.vcpu"];
    assert_eq!((found.len(), missing.policy_asked.as_str(), missing.policy_granted.as_str()), (1, "fifo:5", ""));
    assert_eq!((missing.cpu_asked, &missing.affinity[..]), (Some(1), &[][..]));
    // Nor of a bystander that has ended.
    let vm = setup.stations.get_mut("vm").expect("it is there");
    (vm.bystanders.count, vm.bystanders.hosts) = (2, [8, 9].map(HostId::numbered).into());
    let one = vec![reading(8, MachinePart::Vcpu, 60, 0, 5, 9_000)];
    let found = guest::threads(&setup, &[one.clone(), one], true);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["vm.bystander2", "vm.vcpu"]);
    assert_eq!(found["vm.bystander2"].policy_granted, "");
}

#[test]
fn a_machine_whose_packets_qemu_moved_passed_for_one_with_vhost() {
    let mut setup = setup();
    let mut station = machine_station(&[Backend::Tap]);
    station.machine.as_mut().expect("a machine").net = Net::Vhost;
    setup.stations.insert("vm".to_owned(), station);
    let nothing = [Vec::new(), Vec::new()];
    let found = guest::threads(&setup, &nothing, true);
    assert_eq!(found["vm.vhost"].policy_granted, "");
    assert!(found["vm.vhost"].refused[0].contains("the kernel has no thread vhost-*"), "{found:?}");
    // Where the kernel's threads cannot be seen nothing follows.
    assert!(guest::threads(&setup, &nothing, false).is_empty());
    setup.stations.get_mut("vm").and_then(|vm| vm.machine.as_mut()).expect("a machine").net = Net::Virtio;
    assert!(guest::threads(&setup, &nothing, true).is_empty());
}

#[test]
fn cells_with_more_and_fewer_bystanders_share_them() {
    let with = |name: &str, count: u32| {
        let set = r#""path.kind" = "tap", "station.vm.kind" = "guest", "station.vm.bystanders""#;
        format!("[[case]]\nname = \"{name}\"\nset = {{ {set} = {count} }}\n")
    };
    let text = tardy_tests::experiment("machines that take turns").to_owned() + &with("more", 3) + &with("fewer", 1);
    let source = tardy_spec::Source { name: "test.toml".into(), text };
    let experiment = tardy_spec::load(&source, &[]).expect("it is sound");
    let machines = experiment.machines();
    let names: Vec<&str> = machines.values().map(|(name, _)| name.as_str()).collect();
    let bystanders = ["vm.bystander1", "vm.bystander2", "vm.bystander3", "vm.bystander4", "vm.bystander5"];
    assert_eq!(names, [&["vm", "vm.2"][..], &bystanders].concat());
    let beside = |cell: &str| {
        let cell = experiment.cells.iter().find(|it| it.id == cell).expect("the cell");
        let hosts = cell.setup.stations["vm"].bystanders.hosts.iter();
        hosts.map(|host| (host.number(), machines[host].1.computes)).collect::<Vec<_>>()
    };
    let awake = |cell: &str| {
        let cell = experiment.cells.iter().find(|it| it.id == cell).expect("the cell");
        awake(&experiment, &cell.setup).expect("there are several")
    };
    let idle = "vm.bystander3, vm.bystander4, vm.bystander5";
    let crowd = "vm, vm.bystander1, vm.bystander2";
    assert_eq!(awake("crowd"), format!("in its trials run: {crowd}; stopped meanwhile: vm.2, {idle}"));
    let all = "vm, vm.2, vm.bystander1, vm.bystander2";
    assert_eq!(awake("none"), format!("in its trials no virtual machine runs; stopped meanwhile: {all}, {idle}"));
    // Those that compute are other machines than those that idle.
    assert_eq!(beside("crowd"), [(3, true), (4, true)]);
    assert_eq!(beside("more"), [(5, false), (6, false), (7, false)]);
    assert_eq!((beside("fewer"), beside("one"), beside("none")), (vec![(5, false)], Vec::new(), Vec::new()));
    assert!(machines.values().filter(|(name, _)| name.contains("bystander")).all(|(_, of)| of.backends.is_empty()));
}

#[test]
fn the_second_machine_on_a_link_is_none_that_has_a_link_of_its_own() {
    let text = tardy_tests::experiment("two machines").to_owned();
    let experiment =
        tardy_spec::load(&tardy_spec::Source { name: "test.toml".into(), text }, &[]).expect("it is sound");
    let machines: Vec<(String, Machine)> = experiment.machines().into_values().collect();
    let of = |at: usize| (machines[at].0.as_str(), machines[at].1.backends.len(), machines[at].1.macvtap_on);
    assert_eq!(machines.len(), 3);
    assert_eq!([of(0), of(1), of(2)], [("a", 2, None), ("b", 1, None), ("b.2", 1, Some(HostId::numbered(1)))]);
    let cell = experiment.cells.iter().find(|cell| cell.id == "path.kind=macvtap").expect("the cell");
    let plan = plan(&cell.setup, Names::FIRST, &FactsByHost::default()).expect("they meet");
    let standing: Vec<String> = plan.standing.iter().flat_map(|step| &step.does).map(ToString::to_string).collect();
    let made: Vec<&String> = standing.iter().filter(|line| line.contains("type macvtap")).collect();
    assert_eq!(made.len(), 2, "{standing:#?}");
    assert!(made[0].starts_with("ip -n tardy-0-_vm1 link add link tardy0-low name tardy0-mvt index"), "{made:?}");
    assert!(made[1].starts_with("ip -n tardy-0-_vm1 link add link tardy0-low name tardy0-mvt index"), "{made:?}");
    assert!(made[1].contains(" netns tardy-0-_vm3 ") && !made[0].contains(" netns "), "{made:?}");
    let does: Vec<String> = plan.steps.iter().flat_map(|step| &step.does).map(ToString::to_string).collect();
    for (netns, device) in [(1, "tardy0-up"), (1, "tardy0-low"), (1, "tardy0-mvt"), (3, "tardy0-mvt")] {
        let up = format!("ip -n tardy-0-_vm{netns} link set dev {device} mtu 1500 up");
        assert_eq!(does.iter().filter(|line| **line == up).count(), 1, "{up}: {does:#?}");
    }
    // The second one's goes before the link that it is on.
    let undo: Vec<String> = plan.undo().map(|command| command.to_string()).collect();
    let at = |line: &str| undo.iter().position(|of| of == line).unwrap_or_else(|| panic!("{line}: {undo:#?}"));
    assert!(at("ip -n tardy-0-_vm3 link del dev tardy0-mvt") < at("ip -n tardy-0-_vm1 link del dev tardy0-low"));
}

#[test]
fn a_machine_cannot_be_met_where_it_has_no_such_device() {
    let mut setup = setup();
    setup.stations.insert("b".to_owned(), Station::here(StationKind::Netns));
    setup.path = experiment::Path::given(PathKind::Tap, 1500);
    let refused = plan(&setup, Names::FIRST, &FactsByHost::default()).expect_err("no machine");
    assert_eq!(
        refused.to_string(),
        "tap joins a network namespace with a virtual machine, and the experiment has 2 (a, b): write kind = \"netns\" for one of two \
         stations and kind = \"guest\" for the other"
    );
}

#[test]
fn a_link_of_the_machines_own_network_is_not_moved_or_cleared_by_a_journal() {
    let here = |action| Inverse::here(action).fault();
    assert!(here(Action::ClearLink { device: "eth0".into() }).expect("refused").contains("tardy has not made"));
    assert!(here(Action::ReturnLink { device: "eth0".into(), to: "tardy-0-x".into() }).is_some());
    assert!(here(Action::ReturnLink { device: "tardy0-tap".into(), to: "elsewhere".into() }).is_some());
    assert_eq!(here(Action::ClearLink { device: "tardy-vm0".into() }), None);
}
