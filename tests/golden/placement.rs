// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who takes packets in: what the file may say of it, the commands that come of it, and how the
//! kernel's counts are read.

use std::collections::BTreeMap;
use tardy_host::softirq::{Steering, count};
use tardy_host::state::kvm;
use tardy_lab::host::{CpuId, HostId};
use tardy_lab::machine::{Facts, FactsByHost};
use tardy_lab::names::Names;
use tardy_lab::orders::is_same_path;
use tardy_lab::placement::{PlaceError, Shown, in_words, place, place_by, refusal};
use tardy_lab::plan::{Kinds, Plan, PlanError, plan};
use tardy_lab::softirq::{asks, meant};
use tardy_model::placement::{CpuWork, KvmWork};
use tardy_model::stream::{CpuChoice, Policy, Wait};
use tardy_model::time::Nanos;
use tardy_spec::Source;
use tardy_spec::experiment::{Experiment, Setup};

const STATIONS: &str = tardy_tests::part("two stations");
const STREAM: &str = tardy_tests::part("stream on two CPUs");

/// The two stations; the softirq of `b` comes to this CPU.
fn steered(softirq: &str) -> String {
    format!("{STATIONS}softirq = {softirq}\n")
}

/// The two, `b` first.
fn turned() -> String {
    STATIONS.split_inclusive('\n').rev().collect()
}

fn load(body: &str) -> Result<Experiment, String> {
    let text = format!("{STREAM}{body}");
    let stations = if text.contains("[station.a]") { "" } else { STATIONS };
    let source = Source { name: "x.toml".into(), text: format!("{stations}{text}") };
    tardy_spec::load(&source, &[]).map_err(|error| error.one_line())
}

fn setup(body: &str) -> Setup {
    load(body).expect("it loads").cells[0].setup.clone()
}

fn cpu(number: u32) -> Option<CpuId> {
    Some(CpuId { host: HostId::HERE, cpu: number })
}

fn two_cpus() -> FactsByHost {
    Facts { usable: vec![0, 1], ..Facts::default() }.into()
}

/// The lines of the plan that are there only because of what `body` asks.
fn added(body: &str) -> Vec<String> {
    let lines = |plan: Plan| plan.script().lines().map(str::to_owned).collect::<Vec<_>>();
    let of = |body: &str| lines(plan(&setup(body), Names::FIRST, &two_cpus()).expect("it can be planned"));
    let plain = of("");
    of(body).into_iter().filter(|line| !plain.contains(line)).collect()
}

#[test]
fn packets_are_steered_to_the_cpu_of_the_receiver() {
    assert!(!asks(&setup("")));
    assert_eq!(
        added(&steered("\"same\"")),
        [
            "# arriving packets are steered to one CPU (RPS)",
            "ip netns exec tardy-0-b sh -c 'for q in /sys/class/net/tardy0-1/queues/rx-*; do echo 1 >$q/rps_cpus || exit; done'",
            r#"ip netns exec tardy-0-b sh -c 'printf '\''["%s"]\n'\'' "$(cat /sys/class/net/tardy0-1/queues/rx-*/rps_cpus | paste -sd '\'' '\'')"' show"#,
        ]
    );
}

#[test]
fn kernel_threads_poll_both_devices_and_one_is_pinned() {
    assert_eq!(
        added(&(steered("\"different\"") + "[path]\nnapi = true\n")),
        [
            "# packets take NAPI: GRO at the receiver, no segmentation offload at the sender",
            "ip netns exec tardy-0-a ethtool -K tardy0-0 gro on tso off gso off",
            "ip netns exec tardy-0-b ethtool -K tardy0-1 gro on tso off gso off",
            "# a kernel thread of its own polls each queue",
            "ip netns exec tardy-0-a sh -c 'echo 1 >/sys/class/net/tardy0-0/threaded'",
            "ip netns exec tardy-0-b sh -c 'echo 1 >/sys/class/net/tardy0-1/threaded'",
            "# those threads on one CPU",
            r#"sh -c 't=$(grep -ls '\''^napi/tardy0-1-'\'' /proc/[0-9]*/comm); [ "$t" ] || { echo '\''no kernel thread napi/tardy0-1-* is to be seen here'\'' >&2; exit 1; }; for t in $t; do t=${t%/comm}; taskset -pc 1 ${t#/proc/} >/dev/null || exit; done'"#,
            "ip netns exec tardy-0-a ethtool --json -k tardy0-0",
            "ip netns exec tardy-0-b ethtool --json -k tardy0-1",
            r#"ip netns exec tardy-0-a sh -c 'printf '\''["%s"]\n'\'' "$(cat /sys/class/net/tardy0-0/threaded | paste -sd '\'' '\'')"' show"#,
            r#"ip netns exec tardy-0-b sh -c 'printf '\''["%s"]\n'\'' "$(cat /sys/class/net/tardy0-1/threaded | paste -sd '\'' '\'')"' show"#,
        ]
    );
}

#[test]
fn a_high_cpu_stands_in_a_higher_word_of_the_mask() {
    let found = FactsByHost::from(Facts { usable: (0..=70).collect(), ..Facts::default() });
    let script = plan(&setup(&steered("67")), Names::FIRST, &found).expect("planned").script();
    assert!(script.contains("do echo 8,00000000,00000000 >$q/rps_cpus"), "{script}");
}

#[test]
fn what_was_set_on_a_device_of_the_hosts_is_put_back() {
    let body = steered("1") + "[path]\nkind = \"wire\"\na = \"eth1\"\nb = \"eth2\"\n";
    let nic = |name: &str| {
        let nic = tardy_host::nic::Nic {
            name: name.to_owned(),
            mac: "02:00:00:00:00:01".to_owned(),
            ..super::devices::found(|_| ()).here().nics["enp1s0"].clone()
        };
        (name.to_owned(), nic)
    };
    let found = |steering: Steering| Facts {
        nics: [nic("eth1"), nic("eth2")].into(),
        steering: [("eth2".to_owned(), steering)].into(),
        ..two_cpus().here().clone()
    };
    let lines = |steering: Steering| -> Vec<String> {
        let script = plan(&setup(&body), Names::FIRST, &found(steering).into()).expect("it can be planned").script();
        script.lines().filter(|line| line.contains("irq") || line.contains("rps_cpus")).map(str::to_owned).collect()
    };
    let queues = BTreeMap::from([("rx-0".to_owned(), "0".to_owned()), ("rx-1".to_owned(), "3".to_owned())]);
    let irqs = BTreeMap::from([(37, "0-1".to_owned()), (38, "0".to_owned())]);
    assert_eq!(
        lines(Steering { irqs, queues: queues.clone() }),
        [
            "sh -c 'echo 1 >/proc/irq/37/smp_affinity_list'",
            "sh -c 'echo 1 >/proc/irq/38/smp_affinity_list'",
            r#"ip netns exec tardy-0-b sh -c 'printf '\''["%s"]\n'\'' "$(cat /proc/irq/37/smp_affinity_list /proc/irq/38/smp_affinity_list | paste -sd '\'' '\'')"' show"#,
            "sh -c 'echo 0-1 >/proc/irq/37/smp_affinity_list'",
            "sh -c 'echo 0 >/proc/irq/38/smp_affinity_list'",
        ]
    );
    let steered = lines(Steering { irqs: BTreeMap::new(), queues });
    assert_eq!(steered.len(), 4, "{steered:?}");
    assert_eq!(
        steered[2..],
        [
            "ip netns exec tardy-0-b sh -c 'echo 0 >/sys/class/net/eth2/queues/rx-0/rps_cpus'",
            "ip netns exec tardy-0-b sh -c 'echo 3 >/sys/class/net/eth2/queues/rx-1/rps_cpus'",
        ]
    );
}

#[test]
fn cells_whose_softirq_comes_to_another_cpu_are_built_anew() {
    let at = |softirq: &str, rx: u32| {
        let mut setup = setup(&steered(softirq));
        setup.streams[0].rx.cpu = CpuChoice::Number(rx);
        setup
    };
    let alike = |a: &Setup, b: &Setup| is_same_path(&Kinds::default(), a, b, &two_cpus());
    assert!(alike(&at("\"same\"", 0), &at("0", 0)), "both are CPU 0");
    assert!(!alike(&at("\"same\"", 0), &at("\"same\"", 1)));
    assert!(!alike(&at("\"any\"", 0), &at("0", 0)));
    assert!(alike(&at("\"any\"", 0), &at("\"any\"", 1)));
}

#[test]
fn a_kernel_thread_is_not_put_beside_one_that_would_starve_it() {
    let body = format!("rx.policy = \"fifo:80\"\nrx.wait = \"spin\"\n[path]\nnapi = true\n{}", steered("\"same\""));
    let error = plan(&setup(&body), Names::FIRST, &two_cpus()).expect_err("it would never run");
    let PlanError::Place(PlaceError::TwoSpinners(says)) = &error else { panic!("{error}") };
    assert!(says.starts_with("ctl.rx would spin with a realtime policy on CPU 0"), "{says}");
    // Without NAPI's thread it is an interrupt's work, which no thread keeps from running.
    assert!(plan(&setup(&body.replace("true", "false")), Names::FIRST, &two_cpus()).is_ok());
    assert!(plan(&setup(&body.replace("same", "different")), Names::FIRST, &two_cpus()).is_ok());
}

#[test]
fn a_stream_was_put_on_the_cpu_of_a_virtual_machines_thread() {
    let found = two_cpus().and(HostId::numbered(1), Facts { usable: vec![0, 1], ..Facts::default() });
    let machine = |keys: &str| {
        let mut setup = setup(&format!("{}{keys}", tardy_tests::part("machine at the second station")));
        setup.streams[0].tx.cpu = CpuChoice::Auto;
        setup
    };
    let chosen = |setup: &Setup| place(setup, &found).expect("there is room").0[0].tx;
    // The sender is on the host, and the receiver in the machine, whose CPUs are others.
    assert_eq!(chosen(&machine("")), cpu(1));
    assert_eq!(chosen(&machine("vcpu.cpu = 1\n")), cpu(0));
    assert_eq!(chosen(&machine("vcpu.cpu = 0\n")), cpu(1));
    assert_eq!(chosen(&machine("vcpu.cpu = 0\nvhost.cpu = 1\nemulator.cpu = 1\n")), cpu(0));
    // One that spins there keeps a thread of its own priority or less from running.
    let spinning_for = |keys: &str, on: u32, spin: Nanos| {
        let mut setup = machine(keys);
        let tx = &mut setup.streams[0].tx;
        (tx.cpu, tx.policy, tx.spin) = (CpuChoice::Number(on), Policy::Fifo(80), spin);
        place(&setup, &found).map(drop)
    };
    let spinning = |keys: &str, on: u32| spinning_for(keys, on, Nanos(1_000_000_000));
    let Err(PlaceError::TwoSpinners(says)) = spinning("vhost.cpu = 1\n", 1) else { panic!("it would starve") };
    assert!(
        says.starts_with(
            "ctl.tx would spin with policy fifo:80 on CPU 1, and the vhost threads of the virtual machine `b`, with policy other, \
             would never run there: set station.b.vhost.cpu to another CPU"
        ),
        "{says}"
    );
    assert!(spinning("vhost.cpu = 1\nvhost.policy = \"rr:80\"\n", 1).is_err(), "the same priority");
    assert_eq!(spinning("vhost.cpu = 1\nvhost.policy = \"fifo:81\"\n", 1), Ok(()));
    assert_eq!(spinning("vhost.cpu = 1\n", 0), Ok(()));
    assert_eq!(spinning_for("vhost.cpu = 1\n", 1, Nanos(50_000)), Ok(()), "it sleeps until shortly before it sends");
}

#[test]
fn cpus_that_are_not_there() {
    let error = plan(&setup(&steered("5")), Names::FIRST, &two_cpus()).unwrap_err().to_string();
    assert_eq!(
        error,
        "`station.b.softirq`: CPU 5 was asked for and this process may use only 0, 1: choose one of those, or `auto`"
    );
    let one = FactsByHost::from(Facts { usable: vec![0], ..Facts::default() });
    let mut setup = setup(&steered("\"different\""));
    setup.streams[0].tx.cpu = CpuChoice::Auto;
    let (chosen, _) = place(&setup, &one).expect("they share it");
    let (all, short) = meant(&setup, &chosen, &one).expect("so does softirq");
    assert_eq!(all["b"].cpu, cpu(0));
    assert_eq!(short, ["station `b`: a CPU other than the receiver's was asked for softirq and there is one"]);
}

#[test]
fn softirq_is_relative_to_a_thread_that_receives_and_is_pinned() {
    let refused = |body: &str, says: &str| assert_eq!(load(body).expect_err(body), says);
    refused(
        &(turned() + "softirq = \"same\"\n"),
        "x.toml:8:11: `station.a.softirq` is \"same\", and no stream's packets arrive at `a` (write a number, or leave it out)",
    );
    let other = tardy_tests::experiment("second stream");
    let beside = format!("{}{other}rx.cpu = \"any\"\n", steered("\"different\""));
    assert!(load(&beside).is_ok(), "the stream under test is the pinned one");
    let case = "[[case]]\nname = \"x\"\nset = { \"stream.ctl.tx.cpu\" = \"any\" }\n";
    refused(
        &format!("kind = \"pingpong\"\n{}softirq = \"same\"\n{case}", turned()),
        "x.toml:12:31: `station.a.softirq` is \"same\" as `ctl.tx`, which is not pinned (write \
         stream.ctl.tx.cpu = \"auto\")",
    );
    // The replies of a reflected stream are received by a thread of their own.
    let reflected = setup(&format!("reflect = true\n{}", STATIONS.replacen("\n", "\nsoftirq = \"same\"\n", 1)));
    let (chosen, _) = place(&reflected, &two_cpus()).expect("placed");
    let (all, _) = meant(&reflected, &chosen, &two_cpus()).expect("meant");
    assert_eq!((all["a"].cpu, all["a"].asked.of.as_deref()), (cpu(1), Some("ctl.reply")));
    let napi = load("[path]\nkind = \"wire\"\na = \"x\"\nb = \"y\"\nnapi = true\n").expect_err("not on a wire");
    assert!(napi.contains("`path.napi` has no meaning on path `wire`"), "{napi}");
    let words = load(&steered("\"sam\"")).expect_err("no word");
    assert!(words.contains("\"sam\" is not a CPU (did you mean \"same\"?)"), "{words}");
}

/// A stream that is received on port `xdp`, its sender on CPU 1 of two.
fn by_xdp(core: &str, more: &str) -> Setup {
    let stream = tardy_tests::experiment("received by an XDP program");
    let text = format!("{stream}tx.cpu = 1\nrx.core = \"{core}\"\n{more}");
    let stations = if text.contains("[station.a]") { "" } else { STATIONS };
    let source = Source { name: "x.toml".into(), text: format!("{stations}{text}") };
    tardy_spec::load(&source, &[]).unwrap_or_else(|error| panic!("{}", error.one_line())).cells[0].setup.clone()
}

#[test]
fn a_receiver_is_placed_by_the_cpu_that_runs_the_xdp_program() {
    let four = FactsByHost::from(Facts { usable: vec![0, 1, 2, 3], ..Facts::default() });
    let rx = |setup: &Setup, found: &FactsByHost, shown: &Shown| {
        let (placed, short) = place_by(setup, found, shown).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((placed[0].tx, short), (cpu(1), Vec::new()));
        placed[0].rx
    };
    let (none, shown) = (Shown::new(), Shown::from([("ctl".to_owned(), 0)]));
    // A pair of devices that hand packets to each other: the program runs where the sender does.
    assert_eq!(rx(&by_xdp("same", ""), &two_cpus(), &none), cpu(1));
    assert_eq!(rx(&by_xdp("remote", ""), &two_cpus(), &none), cpu(0));
    assert_eq!(rx(&by_xdp("remote", ""), &four, &none), cpu(3), "the least used one");
    // Packet steering comes after a program in the driver.
    let steered = steered("0");
    assert_eq!(rx(&by_xdp("same", &steered), &two_cpus(), &none), cpu(1));
    // Threads that poll the device run it where they are pinned.
    let polled = format!("{steered}[path]\nnapi = true\n");
    assert_eq!(rx(&by_xdp("same", &polled), &two_cpus(), &none), cpu(0));
    assert_eq!(rx(&by_xdp("remote", &polled), &two_cpus(), &none), cpu(1));
    // What hints have shown weighs more than what was assumed.
    assert_eq!(rx(&by_xdp("same", ""), &two_cpus(), &shown), cpu(0));
    assert_eq!(rx(&by_xdp("remote", ""), &two_cpus(), &shown), cpu(1));
    assert_eq!(rx(&by_xdp("remote", ""), &four, &shown), cpu(3));
    // Of a device that is there already nothing is known before a packet came.
    let wire = "[path]\nkind = \"wire\"\na = \"x\"\nb = \"y\"\n";
    assert_eq!(rx(&by_xdp("same", wire), &four, &none), cpu(3), "any, until the warm-up has shown it");
    let wired = format!("{wire}{}", steered.replace("= 0", "= 2"));
    assert_eq!(rx(&by_xdp("same", &wired), &four, &none), cpu(2), "where its interrupts are");
}

#[test]
fn a_plan_named_neither_the_policies_nor_the_xdp_program() {
    assert_eq!(
        in_words(&by_xdp("remote", "rx.queue = 0\n"), &two_cpus()).expect("placed"),
        [
            "stream ctl: a sends on CPU 1 under other, b receives on CPU 0 under other (rx.core = \"remote\")",
            "tardy's own XDP program takes its packets from queue 0 of b's device while the trials run; other frames go \
             on to the kernel",
        ]
    );
    let reflected = setup("reflect = true\ntx.policy = \"fifo:90\"\nreply.policy = \"rr:7\"\n");
    let line = "stream ctl: a asks on CPU 1 under fifo:90, b answers on CPU 0 under other, and a third thread takes the \
                replies on CPU 1 under rr:7";
    assert_eq!(in_words(&reflected, &two_cpus()).expect("placed"), [line]);
}

#[test]
fn a_remote_core_needs_two_cpus_and_the_same_one_that_may_be_used() {
    let one = FactsByHost::from(Facts { usable: vec![1], ..Facts::default() });
    let refused = |core: &str, found: &FactsByHost| refusal(&by_xdp(core, ""), found).expect("a known host");
    assert_eq!((refused("same", &one), refused("remote", &two_cpus())), (None, None));
    let says = refused("remote", &one).expect("there is no other CPU");
    let whole = Kinds::default().refusal(&by_xdp("remote", ""), &one).expect("a known host");
    assert_eq!(whole.as_deref(), Some(&*says), "as the plan has it");
    assert!(says.starts_with("stream `ctl`: rx.core = \"remote\" needs another CPU than the one"), "{says}");
    let shown = Shown::from([("ctl".to_owned(), 7)]);
    let error = place_by(&by_xdp("same", ""), &two_cpus(), &shown).expect_err("not one of its own").to_string();
    assert_eq!(
        error,
        "`stream.ctl.rx.core` is \"same\", and the XDP program runs on CPU 7, which this process may not use (it has 0, 1): let it \
         use that CPU, or have the program run elsewhere, by `station.*.softirq` or the CPU of the sender"
    );
}

#[test]
fn a_receiver_that_polls_the_device_was_placed_remote_and_ran_the_program_itself() {
    let refused = |core: &str| {
        let mut setup = by_xdp(core, "");
        setup.streams[0].rx.wait = Wait::Busypoll;
        refusal(&setup, &two_cpus()).expect("a known host")
    };
    let says = "stream `ctl`: rx.core = \"remote\" cannot be kept with rx.wait = \"busypoll\": a thread that polls the device \
                runs the XDP program itself, on its own CPU: write rx.core = \"same\", or another wait";
    assert_eq!((refused("remote").as_deref(), refused("same")), (Some(says), None));
}

#[test]
fn what_runs_the_xdp_program_may_not_depend_on_the_receiver() {
    let text = |softirq: &str| {
        let stream = tardy_tests::experiment("received by an XDP program");
        format!("{}{stream}rx.core = \"same\"\n", steered(softirq))
    };
    let load = |softirq: &str| tardy_spec::load(&Source { name: "x.toml".into(), text: text(softirq) }, &[]);
    for softirq in ["\"same\"", "\"different\"", "\"auto\""] {
        let says = load(softirq).expect_err("a ring").one_line();
        let begins =
            format!("`station.b.softirq` is {softirq}, which depends on where `ctl.rx` is, and `stream.ctl.rx.core`");
        assert!(says.contains(&begins), "{says}");
    }
    let experiment = load("1").expect("a number depends on nothing");
    assert!(experiment.effective.contains("core = \"same\"\n"), "{}", experiment.effective);
    let stream = experiment.effective.split_once("[stream.ctl.rx]").expect("its table").1;
    assert!(!stream.contains("cpu ="), "a key without a use is left out: {}", experiment.effective);
    let again = Source { name: "x.toml".into(), text: experiment.effective.clone() };
    assert_eq!(tardy_spec::load(&again, &[]).expect("it loads again"), experiment);
}

#[test]
fn the_effective_file_keeps_it() {
    let experiment =
        load(&format!("[path]\nnapi = true\n{}", STATIONS.replacen("\n", "\nsoftirq = 1\n", 1))).expect("it loads");
    assert!(experiment.effective.contains("napi = true"), "{}", experiment.effective);
    let again = Source { name: "x.toml".into(), text: experiment.effective.clone() };
    assert_eq!(tardy_spec::load(&again, &[]).expect("it loads again"), experiment);
    let plain = load("").expect("it loads").effective;
    assert!(plain.contains("softirq = \"any\"") && plain.contains("napi = false"), "{plain}");
}

const SOFTIRQS: &str = "                    CPU0       CPU2
          HI:          1          0
      NET_TX:       5757       6058
      NET_RX:  238897192   12063292
         RCU:          9          9
";
const SOFTNET: &str = "\
0e3bb4d8 00000000 00000485 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
00b86703 00000000 0000003e 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000002 00000000 00000000
";
const INTERRUPTS: &str = "           CPU0       CPU2
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
 LOC:       100        200   Local timer interrupts
 ERR:          7
 MIS:          0
";

#[test]
fn the_kernels_counts_are_read_by_cpu() {
    let zero = CpuWork { net_rx: 238_897_192, net_tx: 5_757, packets: 0x0e3b_b4d8, interrupts: 101, timer: 100 };
    let two = CpuWork { net_rx: 12_063_292, net_tx: 6_058, packets: 0x00b8_6703, interrupts: 200, timer: 200 };
    assert_eq!(count(SOFTIRQS, SOFTNET, INTERRUPTS), BTreeMap::from([(0, zero), (2, two)]));
    // Without the CPU's number, as before Linux 5.10, lines are counted.
    assert_eq!(count("", "00000005 00000000\n00000007 00000000\n", "")[&1].packets, 7);
    assert_eq!(count("", "", ""), BTreeMap::new());
    assert_eq!(two.since(zero).net_tx, 301);
    assert_eq!(two.since(zero).net_rx, 0, "a count that went back is nothing");
    let arm = "           CPU0\n 11:      5125     GICv3  27 Level     arch_timer\n 13:         9     GICv3  33 Level     uart-pl011\n";
    assert_eq!((count("", "", arm)[&0].timer, count("", "", arm)[&0].interrupts), (5_125, 5_134));
}

#[test]
fn of_kvms_machines_only_the_runs_own_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = |name: &str, counts: &[(&str, &str)]| {
        let at = folder.path().join(name);
        std::fs::create_dir(&at).expect("a folder");
        counts.iter().for_each(|(file, count)| std::fs::write(at.join(file), count).expect("a file"));
    };
    let counted = |of: &[u32]| kvm(folder.path(), &of.iter().copied().collect());
    assert_eq!(counted(&[41]), None, "none runs");
    machine("41-11", &[("exits", "1000\n"), ("halt_exits", "20\n"), ("irq_injections", "31\n")]);
    machine("417-11", &[("exits", "7\n"), ("halt_exits", "7\n"), ("irq_injections", "7\n")]);
    machine("42-9", &[("exits", "500\n"), ("halt_exits", "5\n")]);
    machine("vcpu", &[("exits", "9\n")]);
    let one = KvmWork { exits: Some(1_000), halt_exits: Some(20), irq_injections: Some(31) };
    assert_eq!(counted(&[41]), Some(one));
    // A count that one of them does not have is not known of both.
    let both = KvmWork { exits: Some(1_500), halt_exits: Some(25), irq_injections: None };
    assert_eq!(counted(&[41, 42]), Some(both));
    assert_eq!(both.since(one), KvmWork { exits: Some(500), halt_exits: Some(5), irq_injections: None });
    assert_eq!(kvm(&folder.path().join("none"), &[41].into()), None, "without KVM");
}
