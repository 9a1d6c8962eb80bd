// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each page has beyond its flags: one entry for each verb.

use crate::exit::Exit::{self, Cannot, Good, Internal, Interrupted, Invalid, Unmet, Usage};

/// What a page has beyond its flags. Texts know `` `literal` `` and `*placeholder*`.
#[derive(Debug)]
pub struct Page {
    /// `None` is the page of the whole program.
    pub verb: Option<&'static str>,
    pub description: &'static [&'static str],
    /// Exit codes that it can end with.
    pub exits: &'static [Exit],
    /// Files, and what they are.
    pub files: &'static [(&'static str, &'static str)],
    /// Environment variables, and what they do.
    pub environment: &'static [(&'static str, &'static str)],
    /// Commands, and what they do. `--help` shows the first two, that of tardy itself the first.
    pub examples: &'static [(&'static str, &'static str)],
    pub see_also: &'static [&'static str],
}

/// What lies in a run folder.
pub const RUN_FOLDER: &[(&str, &str)] = &[
    ("experiment.toml", "The experiment as it was run, defaults and overrides written out. It can be run again."),
    ("results.json", "Figures, verdicts and expectations; times are integers in nanoseconds."),
    (
        "manifest.json",
        "The machine, the ruler, what was read back from the kernel, versions. It contains the command lines of the kernel and of tardy, with every `--set`: check it before you publish it.",
    ),
    ("report.html", "One page, readable offline."),
    (
        "commands.sh",
        "Every command that was run, in order; of a run in a guest as comments, for they are nothing for this machine. Not executable: read it first.",
    ),
    ("events.jsonl", "What happened when."),
    ("trials/CELL/N/samples.parquet", "One row per intended packet."),
    ("trials/CELL/N/STREAM.hlog", "HdrHistogram log of each metric."),
    (
        "trials/CELL/N/trial.json",
        "The evidence: clocks, threads, counters, the machine before and after, with the names of programs that ran meanwhile.",
    ),
    (
        "trials/CELL/N.partial/",
        "A trial that is being written, or in which a station died. It is renamed when whole, and in no figure before.",
    ),
];

const STATE: (&str, &str) = (
    "TARDY_STATE",
    "The folder of slots and journals, by default `/run/tardy`. It must belong to root, or to the user who runs tardy or called it by sudo, and nobody else may write to it. What lies in it is root's or that user's alone.",
);
const JOURNAL: (&str, &str) = (
    "/run/tardy/slots/N/",
    "What a run has changed, and how to take it back, written before each change: what `tardy undo` reads.",
);
const CACHE: (&str, &str) = (
    "TARDY_CACHE",
    "Where kernels for guests lie, below `guest/`. By default `.cache` in the folder of tardy's source for a program that lies there in `dist/`, as for `make`; else `$XDG_CACHE_HOME/tardy` or `~/.cache/tardy`.",
);
const SILENCE: (&str, &str) = (
    "TARDY_GUEST_SILENCE_S",
    "A guest that sends nothing for this many seconds of processor time, or three times as long by the wall clock, is taken for hung: 120.",
);
const COLUMNS: (&str, &str) =
    ("COLUMNS", "How wide a table is, 60 to 160 columns, instead of the terminal's width, or of 100 in a pipe.");
const NO_COLOR: (&str, &str) = ("NO_COLOR", "If it is set, the table has no colour.");

/// The page of a verb without an entry.
pub const BARE: Page =
    Page { verb: None, description: &[], exits: &[], files: &[], environment: &[], examples: &[], see_also: &[] };

/// Every page. An entry for a verb that does not exist is never shown.
pub const PAGES: &[Page] = &[
    Page {
        verb: None,
        description: &[
            "An experiment file names a path between two stations, the traffic, the CPU policy, and what may vary. tardy builds each combination (a *cell*), measures it packet by packet in several trials, judges it, takes everything down again, and writes one run folder.",
            "Lateness counts from the instant at which a packet was intended to be sent. Each metric names its two points, as `scheduled..rx_kernel`. A run ends in two separate judgements: are the numbers valid, and were the expectations met?",
        ],
        exits: &[Good, Unmet, Usage, Cannot, Invalid, Internal, Interrupted],
        files: &[JOURNAL],
        environment: &[STATE, NO_COLOR],
        examples: &[("sudo tardy run", "Measure the ready-made experiment host-to-host, half a minute:")],
        see_also: &[
            "tardy-run(1)",
            "tardy-plan(1)",
            "tardy-report(1)",
            "tardy-undo(1)",
            "tardy-schema(1)",
            "tardy-notices(1)",
        ],
    },
    Page {
        verb: Some("run"),
        description: &[
            "Measures every cell of the experiment: cases × axes, each as many times as `trials` says, in random order of blocks. The paths are made with plain `ip` and `tc` commands, which are in `commands.sh`, and are taken down again, also after Ctrl-C. After SIGKILL, `tardy undo` does it.",
            "What is wrong with the file or with `--set` is reported at once, a line for each fault, and the run ends with code 2. What can never be valid or known, tardy warns of on stderr before the run begins, as `tardy plan` does in its comments. So is what of this machine would spoil the figures, as `tardy doctor --for` finds it.",
            "The table goes to stdout, progress and log to stderr. Building a path needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN); streams over port `sim` do not. Real-time policies and locked memory need CAP_SYS_NICE and CAP_IPC_LOCK: what the kernel refuses is read back, reported and judged, and the run goes on.",
            "`--set` takes any dotted key of the experiment file. The value is read as TOML, else as text. A key that is an axis is pinned by it. A later one wins over an earlier one, over the file and its cases.",
            "With `--in` the experiment runs inside a guest: a QEMU machine with the kernel `--kernel`, whose only process is tardy. It needs no root, and nothing of this machine is changed. *guest* is a machine in real time, emulated or by KVM where that starts ordinary kernels; in *guest:exact* time is counted instructions, and two runs of the same give the same samples to the nanosecond, of which `fingerprint` is a hash. The kernel is a file with its modules next to it, `running`, or one of `tardy guest list`, which is fetched where it is missing.",
            "An experiment file is data. What it would run as root, the programs of loads of kind `command` and the XDP programs of `rx.object`, needs `--allow-commands`; the network devices that a path `wire`, or a path into a virtual machine, takes out of this machine's network need `--allow-nics`. Without the flag the run is refused with code 2, and the program or the devices are named. `tardy plan` lists them first. In a guest neither is needed.",
            "The run folder must be new, or an empty one of your own that others may not write to; under sudo it may be the calling user's. A link is refused: the owner of a folder could put one in it and have root overwrite another file.",
            "On a busy machine expect the numbers to be not valid, and code 4. That is the answer, not a failure.",
        ],
        exits: &[Good, Unmet, Usage, Cannot, Invalid, Internal, Interrupted],
        files: RUN_FOLDER,
        environment: &[STATE, CACHE, SILENCE, COLUMNS, NO_COLOR],
        examples: &[
            ("sudo tardy run", "Run the ready-made experiment; the folder is `runs/<UTC time>-host-to-host`:"),
            (
                "sudo tardy run my.toml --trials 7 --set stream.ctl.count=50_000",
                "Run your own file, with more trials and longer ones:",
            ),
            (
                "sudo tardy run my.toml --set stream.ctl.rx.wait=spin --out runs/spin",
                "Pin an axis, and name the folder:",
            ),
            ("sudo tardy run my.toml --json > results.json", "For a program: nothing but `results.json` on stdout:"),
            (
                "tardy run --set stream.ctl.port=sim --set stream.ctl.count=1000",
                "Try the whole way on a simulated path and simulated clocks, without root:",
            ),
            (
                "tardy run --in guest:exact --set stream.ctl.count=1000",
                "In a guest in exact virtual time, without root; a second run has the same fingerprint:",
            ),
        ],
        see_also: &[
            "tardy-plan(1)",
            "tardy-report(1)",
            "tardy-export(1)",
            "tardy-undo(1)",
            "tardy-guest(1)",
            "ip(8)",
            "tc(8)",
            "sched(7)",
        ],
    },
    Page {
        verb: Some("copy"),
        description: &[
            "Copies memory by several threads at once, and says whether their bandwidths may be added up. Each thread passes again and again over its buffers; a pass is an iteration. The bandwidth over the wall time leads. The sum of what each thread had by itself is next to it, with its error, and so are how many threads copied at once, how long how many were in a pass, and how much each pair of them overlapped.",
            "It is `tardy run copy`: each flag is a key of that experiment (`--threads 4` is `--set copy.threads=4`, and `--channels` and `--controllers` are `copy.channels` and `copy.controllers`), and samples, histograms, validity, repeatability, page and comparison are those of any run. An experiment of your own may make each of them an axis (kind = \"copy\").",
            "No root is needed, except for realtime policies (CAP_SYS_NICE) and for locked memory (CAP_IPC_LOCK). A trial takes no longer than `copy.longest`, 20 s by default.",
        ],
        exits: &[Good, Unmet, Usage, Cannot, Invalid, Internal, Interrupted],
        files: RUN_FOLDER,
        environment: &[COLUMNS, NO_COLOR],
        examples: &[(
            "sudo tardy copy --threads 16 --policy fifo:10 --out runs/many",
            "More threads than CPUs under a realtime policy, where the sum is far too large:",
        )],
        see_also: &["tardy-run(1)", "tardy-report(1)", "tardy-compare(1)", "taskset(1)", "sched(7)"],
    },
    Page {
        verb: Some("plan"),
        description: &[
            "Prints what `tardy run` would do as a shell script: the cells, and for each path the commands that build it and, after the measurement, take it down. Nothing is changed, and no rights are needed. First of all it prints, as comments, about how long the run takes and what it leaves on disk, what the file would have run as root, which network devices it would take, and what is foreseen: threads that spin longer than the kernel lets them, cycles that nothing can distinguish or that a sender cannot keep with its policy and wait, senders that the kernel wakes late while their receiver is realtime, percentiles in `[expect]` that so few packets cannot resolve, fewer trials than `repeats` needs, or in exact time than `compare` does. For each stream it names the percentiles that tables and page will show as not resolved, and the count that could resolve them, and the one that the count just suffices for. With `--in` it prints how the guest is made and started; what tardy does inside is printed as comments.",
        ],
        exits: &[Good, Usage, Cannot, Internal],
        files: &[],
        environment: &[],
        examples: &[
            ("tardy plan", "The ready-made experiment:"),
            ("tardy plan my.toml --set path.queues=1", "Your own file with a key changed:"),
            ("tardy plan --in guest:exact", "In a guest:"),
        ],
        see_also: &["tardy-run(1)", "ip(8)", "tc(8)"],
    },
    Page {
        verb: Some("report"),
        description: &[
            "Renders a run again from its trials: it reads the samples and judges them by this version's rules. Needs no root and not the machine that measured. A run that was killed is judged by the trials that it finished. The exit status reports only whether the rendering worked, not whether the run is valid.",
            "With `--trial` the figures are those of one trial of each cell, judged as if there were no others; name and first note say so. Cells that have no such trial are left out. With `--worst` the packets with the greatest values are listed, of each stream by the metric that leads, over the trials that its figures are of: the packet's number and trial, when it was due, and how long each stage of its way took. Packets that never arrived are counted above them, for they are worse.",
        ],
        exits: &[Good, Usage, Cannot, Internal],
        files: RUN_FOLDER,
        environment: &[COLUMNS, NO_COLOR],
        examples: &[
            ("tardy report runs/wait", "The table again:"),
            ("tardy report runs/wait --format md -o wait.md", "The same as Markdown, into a file:"),
            ("tardy report runs/wait --format csv > wait.csv", "A row per cell, stream and metric:"),
            (
                "tardy report runs/wait --format junit -o wait.xml",
                "Validity and expectations as test cases, for a CI system:",
            ),
            ("tardy report runs/wait --worst 10", "The ten worst packets of each cell, stage by stage:"),
            ("tardy report runs/wait --trial 3 --worst 10", "Those of the third trial:"),
        ],
        see_also: &["tardy-run(1)", "tardy-schema(1)"],
    },
    Page {
        verb: Some("compare"),
        description: &[
            "Sets two runs side by side, the first called A, the second B; every difference is B less A. For each cell, stream and metric that both have come the figures, then what differed in the machine, the kernel, the guest, the programs and the experiment, for it may be the reason. Both runs are judged anew from their trials, by the same rules. Needs no root.",
            "Runs that were measured in real time are noisy: their differences are printed and not judged. For two runs in exact virtual time it prints `identical` if their fingerprints are equal; else each figure is also compared trial by trial, each trial having the same seeded phase in both, and from 20 phases on it reports whether B is higher or lower.",
            "A difference by itself is no failure: without `--fail-if` the exit status is 0 whether or not the runs differ, and 4 where the numbers of one must not be used.",
            "`--fail-if` sets a limit to the difference, and may be given several times. A condition is `[CELL:] [STREAM] METRIC FIGURE > +LIMIT`, as `scheduled..receive p50 > +2%`: B is greater than A by more than the limit; or `< -LIMIT`: B is less by more. *FIGURE* is p50, p90, p99, p99.9, p99.99, max, min or mean; *LIMIT* is a share of A's figure in %, or a time in ns, us, ms or s. The other form is `[CELL:] [STREAM] COUNT > +LIMIT`, with *COUNT* lost, not_sent, duplicate or reordered and *LIMIT* a number or a share. Of a copy there is `[CELL:] [STREAM] bandwidth < -LIMIT`, with *LIMIT* a share. Without *CELL* or *STREAM* it holds for each that has such a figure.",
            "A condition on a figure is met where the difference is beyond the limit in enough phases for a claim: in 15 of 20. It is not met if the estimate, the difference in the median phase, is within the limit, with each phase that has no value counted as beyond it. Else it is `undecided`: if the estimate is beyond the limit in too few phases for a claim, or if a run is noisy, has fewer than 20 phases, is not valid, or lacks the figure. Counts are those of all finished trials, and need neither phases nor a valid B to be met. The exit status is 1 if a condition is met, else 4 if one is `undecided`, else 0.",
        ],
        exits: &[Good, Unmet, Usage, Cannot, Invalid, Internal],
        files: &[],
        environment: &[],
        examples: &[
            ("tardy compare runs/before runs/after", "What differs between two runs:"),
            (
                "tardy compare runs/before runs/after --fail-if 'scheduled..receive p50 > +2%'",
                "End with 1 if the median became more than 2 % higher:",
            ),
            (
                "tardy compare runs/before runs/after --fail-if 'lost > +0' --format junit -o compare.xml",
                "For a CI system; what is met or `undecided` is also on stderr:",
            ),
            ("tardy compare runs/before runs/after --format json", "All of it for a program:"),
        ],
        see_also: &["tardy-run(1)", "tardy-report(1)"],
    },
    Page {
        verb: Some("guest"),
        description: &[
            "Kernels for `tardy run --in guest`. `fetch` gets them through the machine's own apt configuration with the suite swapped, into folders of its own: apt checks the package against the archive's signed index, it is unpacked and never installed, and nothing of the machine is changed. What a run uses of it, kernel and modules, is compared with the SHA-256 that was noted at the fetch; that finds accidents, not an attacker who may write to the cache. `list` prints them.",
            "`fetch --with netdevsim` also builds that module, which Debian leaves out, for a kernel that was fetched, or is: out of the archive's source and headers, by this machine's gcc and make, in the cache and without root. A guest gets it whose experiment has a path `netdevsim`.",
            "`pack` writes the initramfs that the guest of such a run boots: tardy itself, programs, modules, the experiment. `tardy plan --in` prints the command, and that of the QEMU that takes it. What a guest measures it sends through its second serial port, and only `tardy run` reads that, while it comes. When you start it by hand, its console shows how it ended, as after a panic; what was measured is not available.",
        ],
        exits: &[Good, Usage, Cannot, Internal],
        files: &[(
            "$TARDY_CACHE/guest/kernels/",
            "What was fetched, unpacked, each with a `kernel.json` that names its package. May be deleted.",
        )],
        environment: &[CACHE],
        examples: &[
            ("tardy guest fetch debian:6.12-rt", "Fetch Debian 13's kernel with PREEMPT_RT:"),
            ("tardy guest fetch --with netdevsim", "Simulated network devices for the default kernel:"),
            ("tardy guest list", "Which kernels there are, and which were fetched:"),
            ("tardy guest pack waits --in guest:exact -o initramfs", "What a guest would boot for `waits`:"),
        ],
        see_also: &["tardy-run(1)", "apt-get(8)"],
    },
    Page {
        verb: Some("hints"),
        description: &[
            "Lists the structs in which an XDP program may leave what it knew of a packet, in the metadata area just before it: those whose last member is `btf_id` with 4 bytes. Of each it prints the number of its type, which the program writes into `btf_id`, the size from its beginning to the packet, and every member, with the column of `samples.parquet` that it has if tardy loads the program. All of that comes from BTF: from the section `.BTF` of an object, from the running kernel (`vmlinux`), or from a loaded module.",
            "A word with a slash or a dot is a file, an ELF object or BTF by itself. Any other is `vmlinux` or the name of a module, and a file only if there is no such module. The numbers belong to one file: compiled again, a struct may have another.",
            "If there is no hint struct, the exit code is 2 and the message names structs that there are. Structs that nearly are hints, or that end in padding, are reported on stderr.",
        ],
        exits: &[Good, Usage, Cannot, Internal],
        files: &[("/sys/kernel/btf/", "The types of the running kernel and of its modules.")],
        environment: &[],
        examples: &[
            ("tardy hints own_hints.o", "Of a program of your own:"),
            ("tardy hints vmlinux --json", "Of the running kernel, for a program:"),
        ],
        see_also: &["tardy-run(1)", "clang(1)"],
    },
    Page {
        verb: Some("clocks"),
        description: &[
            "Logs in to the machines of an experiment that are reached over ssh and prints once a second, for each, by how much its CLOCK_TAI is ahead of this machine's, how far that may be wrong, and how fast the two move against each other. It changes nothing on any machine, but that tardy's own program is copied to where it was not yet.",
            "A reading is what 64 questions show together: the other clock was read between question and answer, so the quickest question bounds it from above and the quickest answer from below, whatever the other way took. The drift is the slope between the two readings of the last 128 that know it best, with its own bound. If two readings differ by more than their bounds and 1000 ppm explain, a clock was set, and the line says so.",
            "These questions go over ssh. A run asks its agents on the same way, just before and just after each trial, and its figures have the bounds of those.",
            "What chrony or ptp4l reports at both ends has a row of its own, and the row says so if the questions exclude it. The measured path is not built, so nothing here is checked by round trips over it, as a run does around each trial.",
        ],
        exits: &[Good, Usage, Cannot, Interrupted, Internal],
        files: &[],
        environment: &[],
        examples: &[
            ("tardy clocks my.toml --allow-hosts", "Until Ctrl-C:"),
            ("tardy clocks my.toml --allow-hosts --count 60", "A minute of it:"),
        ],
        see_also: &["tardy-run(1)", "ssh(1)", "chronyc(1)", "phc2sys(8)"],
    },
    Page {
        verb: Some("doctor"),
        description: &[
            "Looks at what of this machine would spoil figures: isolation of CPUs, interrupts, idle states and frequencies, the scheduler, clocks, network devices, and what the kernel can do for packets. Each check is a fact, a verdict (`fine`, `note`, `unknown` or `spoils`), what it costs, and how to fix it. It changes nothing without `--apply`.",
            "With `--cpu` the checks are about this CPU, and it is watched for 2 s: an ordinary thread reads the clock on it, and the answer says how often and how long the thread was away, next to the timer ticks, interrupts, softirqs and tasks that the kernel counted there. Without it, the checks are about the CPUs of `isolcpus` and `nohz_full`.",
            "With `--for` only checks that matter for an experiment are left, of the CPUs and devices that it takes. What the kernel can do is tried in a network namespace without a name, which leaves nothing behind. With `--nic` frames with two VLAN tags are counted for 2 s. With `--host` it looks at another machine.",
            "With `--try-xdp` a program that lets every frame pass is attached to the devices of `--nic`, native and then generic, and taken off again. A device that has a program is refused, and the one of the default route without `--allow-nics`.",
            "`--fix` prints the commands that fix something until the next boot, and those that take it back. With `--apply` it runs those of the checks that spoil figures, as root, each noted in a journal first, and checks again. The changes stay until `tardy undo` or the next boot. The exit code is 1 if something would spoil figures. Without root it sees less.",
        ],
        exits: &[Good, Unmet, Usage, Cannot, Internal],
        files: &[("/proc/config.gz, /boot/config-RELEASE", "The kernel's configuration."), JOURNAL],
        environment: &[STATE],
        examples: &[
            ("tardy doctor --cpu 1", "What CPU 1 needs, and what it does for 2 s:"),
            ("tardy doctor --cpu 1 --fix", "The commands:"),
            ("sudo tardy doctor --cpu 1 --fix --apply", "Those of what spoils figures, run:"),
            ("tardy doctor --for vm-oneway", "What matters for one experiment:"),
            ("tardy doctor --json", "For a program; `tardy schema doctor` describes it:"),
        ],
        see_also: &["tardy-run(1)", "tardy-undo(1)", "taskset(1)", "hwlatdetect(8)"],
    },
    Page {
        verb: Some("undo"),
        description: &[
            "Puts back what killed runs left behind, and what `tardy doctor --fix --apply` has changed: ends agents, and carries out every inverse in the journals, from the last to the first, printing each command. Runs that are alive are left alone. What is already gone is no error, so it may be called at any time. A setting that somebody has changed since the doctor did is left alone.",
            "A journal that belongs to another user, that others can write to, or that another version wrote is shown and not run; the exit code is 3. So it is if the run is dead and another process still holds its slot: that process is named. After a reboot only files are removed, for everything else went with the boot.",
            "With `--host` this program does it on another machine, over ssh, as a run would reach it.",
        ],
        exits: &[Good, Usage, Cannot, Internal],
        files: &[JOURNAL],
        environment: &[STATE],
        examples: &[
            ("sudo tardy undo", "After a run was ended by SIGKILL or by a crash:"),
            ("tardy undo --host root@lab2", "The same on another machine:"),
        ],
        see_also: &["tardy-run(1)"],
    },
    Page {
        verb: Some("schema"),
        description: &[
            "Prints a JSON document that describes a file: for experiment files, `results.json` and `manifest.json` a JSON Schema (2020-12), for editors and programs; for `samples.parquet` its columns, flags and outcomes, and a SQL view for DuckDB with every metric.",
            "The formats are stable: a later version adds keys, or raises the number `format`.",
        ],
        exits: &[Good, Usage, Internal],
        files: &[],
        environment: &[],
        examples: &[
            ("tardy schema experiment > experiment.schema.json", "Every key of an experiment file, for an editor:"),
            ("tardy schema samples", "The columns of the samples, and the view:"),
        ],
        see_also: &["tardy-run(1)"],
    },
    Page {
        verb: Some("export"),
        description: &[
            "Writes a run in a form that other tools read, also a run that was killed: HdrHistogram logs, samples as CSV, or figures in Prometheus' text format. Needs no root.",
            "`--to dataset` adds runs to a folder of many, as Parquet files in folders that name host, kernel, commit, experiment, run, cell and trial. A run that cannot be read is named and left out, and so is one whose name there another run has; the rest is written, and the exit code is 2.",
        ],
        exits: &[Good, Usage, Cannot, Internal],
        files: &[],
        environment: &[],
        examples: &[
            ("tardy export runs/wait --to hlog -o wait.hlog", "For HdrHistogram's tools:"),
            ("tardy export runs/wait --to prometheus", "For a node exporter's textfile folder:"),
            ("tardy export runs/a runs/b --to dataset -o /srv/latency", "Many runs, for Python, Spark or DuckDB:"),
        ],
        see_also: &["tardy-report(1)", "tardy-schema(1)"],
    },
    Page {
        verb: Some("hwtstamp"),
        description: &[
            "Shows or sets which packets a network device stamps, for the plan of a path `wire` and for taking it back. By hand one needs it to look: `show`.",
        ],
        exits: &[Good, Usage, Cannot, Internal],
        files: &[],
        environment: &[],
        examples: &[],
        see_also: &["tardy-run(1)", "tardy-undo(1)"],
    },
    Page {
        verb: Some("man"),
        description: &[
            "Prints the page of a verb in man's source form, or the page of `tardy`. With a folder it writes all pages of a kind: man pages, or the reference chapters of the book as Markdown. They are made from the same definitions that read the command line and the experiment file, so they are those of this very binary.",
        ],
        exits: &[Good, Usage, Cannot, Internal],
        files: &[],
        environment: &[],
        examples: &[
            ("tardy man run | man -l -", "Read a page:"),
            ("sudo tardy man --out /usr/local/share/man/man1", "Install all pages:"),
        ],
        see_also: &["tardy-completions(1)", "man(1)"],
    },
    Page {
        verb: Some("notices"),
        description: &[
            "Prints what this program contains besides tardy's code (crates, the C library, the Rust standard library, what the page is drawn with), each with its licence and the licence's text. If you give the program to others, give them this too.",
        ],
        exits: &[Good, Usage, Internal],
        files: &[],
        environment: &[],
        examples: &[
            ("tardy notices | less", "Read them:"),
            ("tardy notices > NOTICES", "Put them next to a copy of the program:"),
        ],
        see_also: &["tardy(1)"],
    },
    Page {
        verb: Some("completions"),
        description: &["Prints a script that makes a shell complete tardy's verbs, flags and values."],
        exits: &[Good, Usage, Internal],
        files: &[],
        environment: &[],
        examples: &[
            ("source <(tardy completions bash)", "In bash, for this shell:"),
            (
                "tardy completions zsh > ~/.zfunc/_tardy",
                "In zsh, for good; the folder must be in `fpath` before `compinit`:",
            ),
            ("tardy completions fish > ~/.config/fish/completions/tardy.fish", "In fish, for good:"),
        ],
        see_also: &["tardy-man(1)"],
    },
    Page {
        verb: Some("agent"),
        description: &[
            "The station side of a run: a process that `tardy run` starts in each station and speaks with over stdin and stdout, in length-prefixed binary frames. It decides nothing, and ends when its stdin closes. There is no reason to start it by hand.",
        ],
        exits: &[Good, Usage, Cannot, Internal],
        files: &[("/run/netns/NAME", "The network namespace that it enters.")],
        environment: &[],
        examples: &[],
        see_also: &["tardy-run(1)"],
    },
    Page {
        verb: Some("steward"),
        description: &[
            "What a run that is led from another machine starts on this one. It looks at this machine, carries out the steps of a plan, notes their inverses in a journal here, and puts everything back when it is ordered to, or when its stdin closes. It speaks JSON in length-prefixed frames. There is no reason to start it by hand.",
        ],
        exits: &[Good, Usage, Cannot, Internal],
        files: &[("/run/tardy/slots/", "Slots and their journals.")],
        environment: &[("TARDY_STATE", "The folder of slots and journals, instead of /run/tardy.")],
        examples: &[],
        see_also: &["tardy-agent(1)", "tardy-noted(1)", "tardy-undo(1)"],
    },
    Page {
        verb: Some("forward"),
        description: &[
            "What a run with path `xdp` starts: it attaches an XDP program to each of two network devices of a namespace, which redirects every frame to the other one, and takes them off when its stdin closes. It says `ready` once packets may come. There is no reason to start it by hand.",
        ],
        exits: &[Good, Usage, Cannot, Internal],
        files: &[("/run/netns/NAME", "The network namespace that it enters.")],
        environment: &[],
        examples: &[],
        see_also: &["tardy-run(1)"],
    },
    Page {
        verb: Some("ptp"),
        description: &[
            "What a run with `[clocks] ptp = \"observe\"` starts at each end of a path: it starts a `ptp4l` with `free_running 1` at a network device of a namespace, which compares the clocks and sets none, and ends it when its stdin closes. It says `ready` once there is an offset. There is no reason to start it by hand.",
        ],
        exits: &[Good, Usage, Cannot, Internal],
        files: &[("/run/netns/NAME", "The network namespace that it enters.")],
        environment: &[],
        examples: &[],
        see_also: &["tardy-run(1)", "tardy-clocks(1)"],
    },
    Page {
        verb: Some("switch"),
        description: &[
            "What a run with path `ovs-netdev` starts: it starts Open vSwitch's database and switch in a folder of their own, with a bridge whose datapath is in user space between two network devices of a namespace, and ends them when its stdin closes. An Open vSwitch that the machine has is not touched. It says `ready` once packets may come. There is no reason to start it by hand.",
        ],
        exits: &[Good, Usage, Cannot, Internal],
        files: &[
            ("/run/netns/NAME", "The network namespace that it enters."),
            ("/run/tardy-machine-N-switch/", "The folder that a run with the number N gives it."),
        ],
        environment: &[],
        examples: &[],
        see_also: &["tardy-run(1)"],
    },
    Page {
        verb: Some("noted"),
        description: &[
            "What a run that is led from another machine starts on this one in place of an agent or a path's program. It reports its process's number on stdout, waits until stdin says that the journal here has that number, and then becomes the program. So whoever puts back after a killed run finds the process. There is no reason to start it by hand.",
        ],
        exits: &[Good, Usage, Cannot, Internal],
        files: &[],
        environment: &[],
        examples: &[],
        see_also: &["tardy-agent(1)", "tardy-steward(1)"],
    },
];
