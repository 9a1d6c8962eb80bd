// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a journal may ask for, and what becomes of an undo when something stands against it.

use crate::plan::{Recorder, delete, folder, head, is_empty, killed, line, quiet, steps, two};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::process::{Command as Program, Stdio};
use tardy_host::nic::Address;
use tardy_lab::host::applied::applied;
use tardy_lab::host::place::Place;
use tardy_lab::host::runner::{BatchOutput, CommandError, Failure, Runner};
use tardy_lab::host::{ApplyError, HostId};
use tardy_lab::journal;
use tardy_lab::journal::JournalError;
use tardy_lab::process::Identity;
use tardy_lab::returned::{find, find_back};
use tardy_lab::slot::{Slot, other_runs};
use tardy_lab::step::{Action, Inverse, NicWas, StampingWas, TakenNic};
use tardy_lab::undo::{UndoError, leftovers, undo_all};

fn nic() -> TakenNic {
    let address = Address { cidr: "192.0.2.1/24".into(), with: vec!["label".into(), "enp1s0".into()] };
    let offloads = [("rx-gro".to_owned(), true), ("rx-lro".to_owned(), false)].into();
    let mode = Some("eui64".to_owned());
    let addresses = vec![address];
    let was = NicWas { mtu: 1400, up: true, addr_gen_mode: mode, addresses, promisc: Some(false), offloads };
    let mac = "a0:36:9f:00:00:01".to_owned();
    TakenNic { device: "enp1s0".into(), ifindex: 7, mac, to: "tardy-4030-_home".into(), was }
}

fn all() -> Vec<Inverse> {
    let device = || "enp1s0".to_owned();
    let within = |action| Inverse::within(&Place::netns_of(HostId::HERE, "tardy-4030-a"), action);
    let was = StampingWas { tx: 1, rx: 12, flags: 0 };
    vec![
        delete("4030-a"),
        within(Action::DeleteLink { device: device() }),
        within(Action::GiveBackNic(Box::new(nic()))),
        within(Action::DeleteQdisc { device: device() }),
        within(Action::RestoreStamping { device: device(), or_in: "tardy-4030-_home".into(), was }),
        Inverse::here(Action::RestoreIrq { irq: 33, was: "0-3,5".into() }),
        within(Action::RestoreSteering { device: device(), queue: "rx-0".into(), was: "00000000,0000000f".into() }),
        within(Action::DeleteRule { device: device(), location: 3 }),
        Inverse::here(Action::DeleteSimulated { number: 1_952_710_656 }),
        Inverse::here(Action::RemoveGuestFiles { paths: vec!["/runs/x/guest/port".into()] }),
        Inverse::here(Action::RestoreBpfJit { was: 1 }),
    ]
}

#[test]
fn a_journal_could_have_deleted_a_link_of_the_machine_itself() {
    let delete = |place: Place, device: &str| Inverse::within(&place, Action::DeleteLink { device: device.to_owned() });
    let (here, inside) = (Place::of(HostId::HERE), Place::netns_of(HostId::HERE, "tardy-4030-a"));
    let why = "it would delete a link of the machine's own network that tardy has not made";
    for device in ["eth0", "br-tardy", "td0"] {
        assert_eq!(delete(here.clone(), device).fault().as_deref(), Some(why), "{device}");
        assert_eq!(delete(inside.clone(), device).fault(), None, "{device}");
    }
    assert_eq!(delete(here.clone(), "tardy4030-0").fault(), None);
    assert_eq!(delete(here, "tdy4030-0.7").fault(), None);
}

#[test]
fn every_inverse_comes_out_of_a_journal_as_it_went_in() {
    let state = folder();
    let dir = killed(state.path(), 4030, &(head() + &line(0, &all())));
    let read = journal::read(&dir).expect("it reads");
    assert_eq!(read.steps, [(0, all())]);
    let commands: Vec<String> = read.commands().iter().map(ToString::to_string).collect();
    assert_eq!(
        commands,
        [
            "ip netns del tardy-4030-a",
            "ip -n tardy-4030-a link del dev enp1s0",
            "ip -n tardy-4030-a link set dev enp1s0 down",
            "ip -n tardy-4030-a link set dev enp1s0 netns tardy-4030-_home",
            "ip -n tardy-4030-_home link set dev enp1s0 mtu 1400",
            "ip -n tardy-4030-_home link set dev enp1s0 addrgenmode eui64",
            "ip -n tardy-4030-_home link set dev enp1s0 promisc off",
            "ip netns exec tardy-4030-_home sh -c 'says=$(ethtool -K \"$0\" rx-gro on rx-lro off 2>&1 >/dev/null) || case $says in *\"ould not change any device features\"*) ;; *) echo \"$says\" >&2; exit 1;; esac' enp1s0",
            "ip -n tardy-4030-_home link set dev enp1s0 up",
            "ip -n tardy-4030-_home addr replace 192.0.2.1/24 label enp1s0 dev enp1s0",
            "tc -n tardy-4030-a qdisc del dev enp1s0 root",
            "tardy hwtstamp restore enp1s0 --netns tardy-4030-a --netns tardy-4030-_home --tx 1 --rx 12 --flags 0",
            "sh -c 'echo 0-3,5 >/proc/irq/33/smp_affinity_list'",
            "ip netns exec tardy-4030-a sh -c 'echo 00000000,0000000f >/sys/class/net/enp1s0/queues/rx-0/rps_cpus'",
            "ip netns exec tardy-4030-a sh -c 'ethtool -N enp1s0 delete 3'",
            "sh -c '[ ! -e /sys/bus/netdevsim/devices/netdevsim1952710656 ] || echo 1952710656 >/sys/bus/netdevsim/del_device'",
            "tardy guest remove-files /runs/x/guest/port",
            "sh -c 'echo 1 >/proc/sys/net/core/bpf_jit_enable'",
        ]
    );
}

#[test]
fn a_journal_line_holds_no_program_and_no_argument() {
    let text = serde_json::to_string(&all()).expect("JSON");
    for word in ["\"ip\"", "\"tc\"", "\"sh\"", "\"-c\"", "\"rm\"", "echo"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
}

#[test]
fn a_value_that_a_shell_would_take_apart_is_refused() {
    let evil = |change: &dyn Fn(&mut Value)| {
        let mut value = serde_json::to_value(all()).expect("JSON");
        change(&mut value);
        value
    };
    let evils = [
        evil(&|all| all[0]["action"]["delete_namespace"]["name"] = json!("../../etc/passwd")),
        evil(&|all| all[0]["action"]["delete_namespace"]["name"] = json!("somebody-elses")),
        evil(&|all| all[1]["place"]["netns"] = json!("tardy-a/../../x")),
        evil(&|all| all[1]["action"]["delete_link"]["device"] = json!("x;id>/evil")),
        evil(&|all| all[2]["action"]["give_back_nic"]["was"]["addresses"][0]["with"][0] = json!("-batch")),
        evil(&|all| all[2]["action"]["give_back_nic"]["was"]["offloads"] = json!({"--set-priv-flags": true})),
        evil(&|all| all[2]["action"]["give_back_nic"]["was"]["offloads"] = json!({"rx-gro;id": true})),
        evil(&|all| all[3]["place"] = json!({"host": "this machine"})),
        evil(&|all| all[3]["place"]["host"] = json!("another")),
        evil(&|all| all[5]["action"]["restore_irq"]["was"] = json!("0; id >/evil #")),
        evil(&|all| all[5]["action"]["restore_irq"]["argv"] = json!(["sh"])),
        evil(&|all| all[6]["action"]["restore_steering"]["queue"] = json!("../../x")),
        evil(&|all| all[6]["action"]["restore_steering"]["was"] = json!("$(id)")),
        evil(&|all| all[7]["action"]["delete_rule"]["device"] = json!("-x")),
        evil(&|all| all[9]["action"]["remove_guest_files"]["paths"][0] = json!("/runs/../etc")),
        evil(&|all| all[10]["action"]["restore_bpf_jit"]["was"] = json!(3)),
        evil(&|all| all[10]["action"]["restore_bpf_jit"]["was"] = json!("1; id")),
        evil(&|all| all[9]["action"] = json!({"run": ["sh", "-c", "id"]})),
    ];
    for (n, undo) in evils.into_iter().enumerate() {
        let state = folder();
        let step = json!({"v": 2, "step": {"number": 0, "undo": undo}}).to_string() + "\n";
        let dir = killed(state.path(), 4031, &(head() + &step));
        let error = journal::read(&dir).expect_err("it is refused");
        assert!(matches!(error, JournalError::Damaged { line: 2, .. }), "{n}: {error}");
        let mut runner = Recorder::fine();
        let done = undo_all(state.path(), &mut runner, &mut quiet).expect("the state folder can be read");
        assert_eq!((runner.ran.len(), done.failed.len()), (0, 1), "{n}: {:?}", runner.ran);
        assert!(dir.join("journal.jsonl").exists());
    }
}

#[test]
fn what_could_not_be_read_back_is_never_noted() {
    let state = folder();
    let slot = Slot::claim(state.path()).expect("a slot");
    let evil =
        [Inverse::within(&Place::netns_of(HostId::HERE, "tardy-0-a"), Action::DeleteLink { device: "a b".into() })];
    let mut journal = slot.journal().expect("a journal");
    let error = journal.will_do(&[&evil]).expect_err("nobody could take it back");
    assert!(matches!(error, JournalError::Value(_)), "{error}");
    assert!(journal.contents().is_empty());
}

/// As the first version wrote it, and as whoever found a way into a state folder would.
const OF_COMMANDS: &str = "{\"step\":0,\"undo\":[[\"sh\",\"-c\",\"id > /tmp/pwned\"]]}\n{\"agent\":{\"pid\":77,\"start\":1,\"boot\":\"b\"}}\n";

#[test]
fn a_journal_of_commands_is_shown_and_never_run() {
    let state = folder();
    let dir = killed(state.path(), 4032, OF_COMMANDS);
    killed(state.path(), 4033, "{\"v\":3,\"boot\":\"b\"}\n{\"v\":3,\"undo_by\":\"magic\u{1b}[2J\"}\n");
    let mut runner = Recorder::fine();
    let done = undo_all(state.path(), &mut runner, &mut quiet).expect("the state folder can be read");
    assert!(runner.ran.is_empty(), "{:?}", runner.ran);
    let [(4032, first), (4033, later)] = &done.failed[..] else { panic!("{done:?}") };
    assert!(first.to_string().contains("written by another version of tardy (form 1"), "{first}");
    assert_eq!(first.shown(), ["kill -KILL 77", "sh -c 'id > /tmp/pwned'"]);
    assert!(later.to_string().contains("form 3"), "{later}");
    assert_eq!(later.shown(), ["{\"v\":3,\"undo_by\":\"magic\\u{1b}[2J\"}"], "no terminal gets a command");
    assert!(dir.join("journal.jsonl").exists(), "nothing is thrown away");
}

#[test]
fn one_damaged_journal_hides_no_other() {
    let state = folder();
    killed(state.path(), 4034, "nonsense\n");
    killed(state.path(), 4035, &steps());
    let left = leftovers(state.path()).expect("the state folder can be read");
    assert_eq!(left.iter().map(|left| (left.slot, left.steps)).collect::<Vec<_>>(), [(4034, 0), (4035, 2)]);
    assert!(matches!(left[0].refused, Some(UndoError::Unread { .. })), "{:?}", left[0]);
    assert_eq!(left[1].commands, ["ip netns del tardy-y", "ip netns del tardy-x"], "shown before it is asked for");
    let done = undo_all(state.path(), &mut Recorder::fine(), &mut quiet).expect("the state folder can be read");
    assert_eq!((done.undone.len(), done.failed.len()), (1, 1));
}

#[test]
fn a_state_folder_that_others_can_write_to_is_not_believed() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let state = folder();
    let dir = killed(state.path(), 4036, &steps());
    let mut runner = Recorder::fine();
    let open =
        |path: &std::path::Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    for path in [dir.join("journal.jsonl"), dir.clone(), state.path().join("slots")] {
        let mode = path.metadata().expect("it is there").permissions().mode();
        open(&path, 0o777);
        let done = undo_all(state.path(), &mut runner, &mut quiet);
        let error = match &done {
            Ok(done) => &done.failed[0].1,
            Err(error) => error,
        };
        assert!(error.to_string().contains("can be written to by others (mode 0777)"), "{path:?}: {error}");
        assert_eq!(error.shown(), ["ip netns del tardy-y", "ip netns del tardy-x"]);
        open(&path, mode & 0o755);
    }
    // A link is no journal, whosever file it leads to.
    let journal = dir.join("journal.jsonl");
    fs::rename(&journal, dir.join("other")).expect("renamed");
    symlink(dir.join("other"), &journal).expect("a link");
    let done = undo_all(state.path(), &mut runner, &mut quiet).expect("the state folder can be read");
    assert!(done.failed[0].1.to_string().contains("is a link"), "{:?}", done.failed);
    // Nor is a link a state folder.
    let link = state.path().join("link");
    symlink(state.path(), &link).expect("a link");
    assert!(undo_all(&link, &mut runner, &mut quiet).is_err());
    assert!(Slot::claim(&link).is_err());
    assert!(runner.ran.is_empty(), "{:?}", runner.ran);
}

#[test]
fn what_a_run_notes_is_for_its_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let above = folder();
    let state = above.path().join("state");
    let slot = Slot::claim(&state).expect("a slot");
    let _journal = slot.journal().expect("a journal");
    let dir = state.join(format!("slots/{}", slot.number()));
    let mode = |path: &std::path::Path| path.metadata().expect("it is there").permissions().mode() & 0o7777;
    assert_eq!([&state, &state.join("slots"), &dir].map(|path| mode(path)), [0o700; 3]);
    assert_eq!(["lock", "journal.jsonl"].map(|name| mode(&dir.join(name))), [0o600; 2]);
}

#[test]
fn an_ip_that_dies_without_naming_a_line_costs_no_inverse() {
    let plan = two();
    let undoes: Vec<String> = plan.undo().map(|command| command.to_string()).collect();
    // Both namespaces are of one batch, the first one.
    struct Dies(Vec<String>, bool);
    impl Runner for Dies {
        fn run(&mut self, batch: &tardy_lab::command::Batch) -> Result<BatchOutput, CommandError> {
            self.0.extend(batch.commands().iter().map(ToString::to_string));
            let mut output = BatchOutput::default();
            if !std::mem::replace(&mut self.1, true) {
                output.failures.push(Failure { at: None, says: "signal: 9 (SIGKILL)".to_owned() });
            }
            Ok(output)
        }
    }
    let state = folder();
    let slot = Slot::claim(state.path()).expect("a slot");
    let plan = tardy_lab::plan::Plan { steps: plan.steps[..2].to_vec(), ..plan };
    let mut runner = Dies(Vec::new(), false);
    let error = applied(&plan.steps, slot.journal().expect("a journal"), &mut runner).err().expect("it died");
    assert!(matches!(error, ApplyError::Died { .. }), "{error}");
    let told = error.to_string();
    assert!(told.contains("`ip netns add tardy-0-a`") && told.contains("up to `ip netns add tardy-0-b`"), "{told}");
    assert_eq!(runner.0[2..], undoes[1..], "both namespaces are deleted");
    drop(slot);
    assert!(is_empty(state.path()));
}

#[test]
fn a_process_that_does_not_end_keeps_nothing_from_being_put_back() {
    // The first process of a machine or a container takes no SIGKILL from inside it.
    let stuck = Identity::of(1).expect("the first process");
    let state = folder();
    let agent = json!({"v": 2, "agent": stuck}).to_string() + "\n";
    let dir = killed(state.path(), 4037, &(steps() + &agent));
    let mut runner = Recorder::fine();
    let done = undo_all(state.path(), &mut runner, &mut quiet).expect("the state folder can be read");
    assert_eq!(runner.ran, ["ip netns del tardy-y", "ip netns del tardy-x"]);
    let told = done.failed[0].1.to_string();
    assert!(told.contains("process 1 of the run was sent SIGKILL and has not ended"), "{told}");
    let left = journal::read(&dir).expect("it reads");
    assert_eq!((left.steps.len(), left.agents.len()), (0, 1), "the process alone is left for the next time");
}

#[test]
fn after_a_reboot_an_interrupts_number_is_somebody_elses() {
    let state = folder();
    let head = "{\"v\":2,\"boot\":\"another boot\"}\n".to_owned();
    let step = |number, of: &[usize]| line(number, &of.iter().map(|at| all()[*at].clone()).collect::<Vec<_>>());
    killed(state.path(), 4038, &(head.clone() + &step(0, &[5]) + &step(1, &[9]) + &step(2, &[0])));
    killed(state.path(), 4039, &(head + &step(0, &[5])));
    let left = leftovers(state.path()).expect("the state folder can be read");
    assert_eq!(left.iter().map(|left| (left.slot, left.steps)).collect::<Vec<_>>(), [(4038, 1)]);
    let mut runner = Recorder::fine();
    let done = undo_all(state.path(), &mut runner, &mut quiet).expect("the state folder can be read");
    assert_eq!(
        runner.ran,
        ["tardy guest remove-files /runs/x/guest/port"],
        "a file outlives a boot, nothing else does"
    );
    let told: Vec<_> = done.undone.iter().map(|(slot, put)| (*slot, put.steps, put.of_another_boot)).collect();
    assert_eq!(told, [(4038, 1, 2), (4039, 0, 1)], "what was dropped is reported");
    assert!(is_empty(state.path()));
}

#[test]
fn a_dead_runs_slot_that_is_held_is_no_all_clear() {
    let state = folder();
    let dir = killed(state.path(), 4040, &steps());
    let empty = killed(state.path(), 4041, "");
    let hold = |dir: &std::path::Path| {
        let mut flock = Program::new("flock");
        let mut child = flock.arg("--no-fork").arg(dir.join("lock")).args(["sh", "-c", "echo held; exec sleep 600"]);
        child = child.stdout(Stdio::piped());
        let mut child = child.spawn().expect("flock is there");
        let mut word = [0; 4];
        std::io::Read::read_exact(child.stdout.as_mut().expect("piped"), &mut word).expect("it has the lock");
        child
    };
    let mut holders = [hold(&dir), hold(&empty)];
    let mut runner = Recorder::fine();
    let done = undo_all(state.path(), &mut runner, &mut quiet).expect("the state folder can be read");
    let killed: Vec<_> = holders.iter_mut().map(|child| child.kill().and_then(|()| child.wait())).collect();
    assert!(killed.iter().all(Result::is_ok));
    assert_eq!((done.live, done.undone.len(), done.failed.len()), (0, 0, 1), "{done:?}");
    let told = done.failed[0].1.to_string();
    assert!(told.contains("still held by process ") && told.contains(&holders[0].id().to_string()), "{told}");
    assert!(runner.ran.is_empty());
    let pid = told.split("process ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
    assert!(pid.parse::<u32>().is_ok(), "{told}");
}

#[test]
fn holders_are_told_from_what_the_kernel_lists() {
    let locks = "1: FLOCK  ADVISORY  WRITE 4711 00:1b:77 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 4712 00:1b:77 0 EOF\n\
                 2: POSIX  ADVISORY  READ 815 08:01:77 128 128\n";
    assert_eq!(tardy_sys::proc::locked_by(locks, 0x1b, 77), [4711, 4712]);
    let sockets = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                   0000000000000000: 00000002 00000000 00010000 0001 01 30815 @tardy-slot-10\n\
                   0000000000000000: 00000002 00000000 00010000 0001 01 30816 @tardy-slot-1\n\
                   0000000000000000: 00000003 00000000 00000000 0001 03 30817\n";
    assert_eq!(tardy_sys::proc::socket_of(sockets, "tardy-slot-1"), Some(30_816));
    assert_eq!(tardy_sys::proc::socket_of(sockets, "tardy-slot-2"), None);
}

#[test]
fn a_renamed_device_is_known_by_its_number_and_its_address() {
    let link = |name: &str, number: u32, mac: &str, kind: &str| json!({"ifname": name, "ifindex": number, "address": mac, "linkinfo": {"info_kind": kind}});
    let (lo, mac) = (link("lo", 1, "00:00:00:00:00:00", ""), "a0:36:9f:00:00:01");
    let name = |links: &[Value]| find(&nic(), links);
    assert_eq!(name(&[lo.clone(), link("enp1s0", 7, mac, "")]).as_deref(), Some("enp1s0"));
    assert_eq!(name(&[lo.clone(), link("lan0", 7, mac, "")]).as_deref(), Some("lan0"));
    // The number may be taken where it goes; a VLAN device has the address of the one below it.
    let moved = [lo.clone(), link("tdy0-0.5", 8, mac, "vlan"), link("lan0", 9, mac, "")];
    assert_eq!(name(&moved).as_deref(), Some("lan0"));
    // Two devices changed their names.
    let swapped = [link("enp1s0", 8, "a0:36:9f:00:00:02", ""), link("enp2s0", 7, mac, "")];
    assert_eq!(name(&swapped).as_deref(), Some("enp2s0"));
    assert_eq!(name(&[lo, link("tdy0-0.5", 8, mac, "vlan"), link("eth0", 7, "52:54:00:12:34:56", "")]), None);
    // In its station a device keeps its name whatever became of its address. At home another
    // device may have got that name since.
    let stranger = [link("enp1s0", 8, "52:54:00:12:34:56", "")];
    assert_eq!((name(&stranger).as_deref(), find_back(&nic(), &stranger)), (Some("enp1s0"), None));
    let other_address = [link("enp1s0", 7, "52:54:00:12:34:56", "")];
    assert_eq!(find_back(&nic(), &other_address).as_deref(), Some("enp1s0"));
}

#[test]
fn a_slot_belongs_to_one_and_goes_with_it() {
    let (state, elsewhere) = (folder(), folder());
    let slots = [state.path(), state.path(), elsewhere.path()].map(|state| Slot::claim(state).unwrap());
    let numbers: BTreeSet<u16> = slots.iter().map(Slot::number).collect();
    assert_eq!(numbers.len(), 3, "also with another state folder: the names are the machine's");
    assert_eq!(other_runs(state.path()), 0, "this process's own");
    assert!(leftovers(state.path()).unwrap().is_empty());
    let live = undo_all(state.path(), &mut Recorder::fine(), &mut quiet).unwrap();
    assert_eq!((live.live, live.undone.len()), (2, 0));
    drop(slots);
    assert!(is_empty(state.path()) && is_empty(elsewhere.path()));

    // Signed by another process, and held: another run.
    let slot = Slot::claim(state.path()).unwrap();
    let lock = state.path().join(format!("slots/{}/lock", slot.number()));
    let init = serde_json::to_string(&Identity::of(1).unwrap()).unwrap();
    fs::write(&lock, init + "\n").unwrap();
    assert_eq!(other_runs(state.path()), 1);
}

#[test]
fn a_leftover_is_not_claimed_and_an_empty_folder_is() {
    let state = folder();
    for slot in 0..64 {
        killed(state.path(), slot, &steps());
    }
    let slot = Slot::claim(state.path()).unwrap();
    assert!(slot.number() >= 64);
    let stale = state.path().join(format!("slots/{}", slot.number()));
    drop(slot);
    assert!(!stale.exists());
    for slot in 64..128 {
        killed(state.path(), slot, "");
    }
    let slot = Slot::claim(state.path()).unwrap();
    assert!((64..128).contains(&slot.number()));
    assert_eq!(leftovers(state.path()).unwrap().len(), 64);
}

#[test]
fn a_state_folder_that_cannot_be_made_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Slot::claim(file.path()).expect_err("a file is no folder").to_string();
    assert!(error.contains(file.path().to_str().unwrap()), "{error}");
}

/// A device that has no rx VLAN offload, as that of a virtual machine, was reported as not put back
/// in each run. Any other failure stays one.
#[test]
fn a_device_that_lacks_an_offload_was_not_put_back() {
    let inverse = Inverse::here(Action::SwitchOffloadsOn { device: "tardy-vm0".into() });
    let commands = inverse.commands();
    let folder = folder();
    for (says, code) in [("Could not change any device features", Some(0)), ("Operation not permitted", Some(1))] {
        let fake = folder.path().join("ethtool");
        fs::write(&fake, format!("#!/bin/sh\n[ \"$3\" != rxvlan ] || {{ echo '{says}' >&2; exit 1; }}\n"))
            .expect("a file");
        fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("permissions");
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        let ran = Program::new(&commands[0].argv()[0]).args(&commands[0].argv()[1..]).env("PATH", path).output();
        let ran = ran.expect("sh runs");
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), code, "{stderr}");
        assert_eq!(stderr.contains(&format!("rxvlan: {says}")), code == Some(1), "{stderr}");
    }
}
