// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cell of an experiment of kind `copy`: what is copied by which threads, and what is expected of
//! their passes. Nothing is built for it, so it has neither stations nor a path.

use crate::cell::{Table, View, called, integer, policy, rate, share, span};
use crate::error::Problem;
use crate::experiment::{Path, Setup, Softirq};
use crate::schema::Value;
use std::collections::BTreeMap;
use tardy_model::copy::{
    Background, Bind, COPY, CopyBackend, CopyModule, CopySim, Copying, MOST_ITERATIONS, MOST_THREADS, Method, Pages,
    Residence, Submit,
};
use tardy_model::expect::{BANDWIDTH, Count, Expectation, Limit};
use tardy_model::path::PathKind;
use tardy_model::point::Metric;
use tardy_model::shaper::Shaper;
use tardy_model::stream::Policy;

/// No packet goes over it.
const MTU: u32 = 65_535;
/// Tables that an experiment of either kind may have.
const OF_BOTH: [&str; 2] = ["expect", "validity"];

/// Works out one cell; `None` if something is wrong with it. What is wrong is kept in the view.
pub(crate) fn setup(view: &View<'_>) -> Option<(Setup, Vec<Expectation>)> {
    for (key, assignment) in view.below("") {
        let root = key.split_once('.').map(|(root, _)| root);
        if let Some(root) = root.filter(|root| *root != COPY && !OF_BOTH.contains(root)) {
            let message = format!("`{key}` has no meaning for a copy, which has no `{root}`");
            let help = "leave it out, or write kind = \"packets\"".to_owned();
            view.keep::<()>(Err(view.combination(&[assignment.key.clone(), "kind".to_owned()], message, help)));
        }
    }
    let copy = view.keep(copying(view))?;
    let expect = expectations(view);
    let setup = Setup {
        stations: BTreeMap::new(),
        path: Path::made(PathKind::Veth, 1, MTU),
        shaper: Shaper::None,
        streams: Vec::new(),
        loads: Vec::new(),
        softirq: Softirq::default(),
        dma_latency_us: None,
        observes_ptp: false,
        copy: Some(copy),
    };
    Some((setup, expect))
}

/// Refuses keys of a copy in an experiment with packets.
pub(crate) fn refuse_keys(view: &View<'_>) {
    if let Some((_, assignment)) = view.below("copy.").next() {
        let message = format!("`{}` has no meaning here: the experiment is of packets", assignment.key);
        let help = "write kind = \"copy\" at the top of the file, or leave it out".to_owned();
        view.keep::<()>(Err(view.combination(&[assignment.key.clone(), "kind".to_owned()], message, help)));
    }
}

fn copying(view: &View<'_>) -> Result<Copying, Problem> {
    let table = view.table("copy", None);
    let number = |field: &str| table.get(field, |value| integer(value).and_then(|n| u32::try_from(n).ok()));
    let (controllers, channels, threads) = (number("controllers")?, number("channels")?, number("threads")?);
    let all = u64::from(controllers) * u64::from(channels) * u64::from(threads);
    if all > u64::from(MOST_THREADS) {
        let message = format!(
            "`{}`: controllers × channels × threads make {all} threads, more than {MOST_THREADS}",
            table.key("threads")
        );
        return Err(table.wrong(&["threads", "channels", "controllers"], message, "take fewer of one of them"));
    }
    let iterations = number("iterations")?;
    let passes = all * u64::from(iterations);
    if passes > MOST_ITERATIONS {
        let message = format!(
            "`{}`: {all} threads of {iterations} iterations make {passes} passes, more than {MOST_ITERATIONS}",
            table.key("iterations")
        );
        return Err(table.wrong(&["iterations", "threads"], message, "take fewer iterations"));
    }
    let buffers = buffers(&table, all)?;
    let cpus = table.get("cpus", numbers)?;
    let bind = table.get("bind", called(Bind::of))?;
    if !cpus.is_empty() && bind == Bind::Any {
        let message = format!(
            "`{}` names CPUs, and `copy.bind` leaves the threads where the kernel puts them",
            table.key("cpus")
        );
        return Err(table.wrong(&["cpus", "bind"], message, "write copy.bind = \"spread\", or leave the CPUs out"));
    }
    let policy = table.get("policy", policy)?;
    if matches!(policy, Policy::Deadline { .. }) {
        let message = format!("`{}`: a copy has no period by which a deadline could be set", table.key("policy"));
        return Err(table.wrong(&["policy"], message, "write other, fifo:10 or rr:10"));
    }
    let backend = table.get("backend", called(CopyBackend::of))?;
    let submit = table.get("submit", called(Submit::of))?;
    let node = |field: &str| table.find(field).is_some().then(|| number(field)).transpose();
    let nodes = [node("from_node")?, node("to_node")?];
    if let Some(module) = backend.module() {
        of_kernel(&table, module)?;
    }
    match backend {
        CopyBackend::Dmatest => one_buffer(&table, buffers)?,
        CopyBackend::Sgtest => few_chains(&table, passes)?,
        CopyBackend::Cpu | CopyBackend::Sim => {}
    }
    if backend == CopyBackend::Sim && (submit != Submit::None || nodes != [None, None]) {
        let key = if submit == Submit::None { "from_node" } else { "submit" };
        let message = format!("`{}`: backend sim copies nothing, and has neither locks nor memory", table.key(key));
        return Err(table.wrong(&[key, "backend"], message, "write copy.backend = \"cpu\", or leave it out"));
    }
    Ok(Copying {
        backend,
        controllers,
        channels,
        threads,
        buffers,
        bytes: table.get("bytes", |value| integer(value).and_then(|n| u64::try_from(n).ok()))?,
        iterations,
        method: table.get("method", called(Method::of))?,
        pages: table.get("pages", called(Pages::of))?,
        from: table.get("from", called(Residence::of))?,
        to: table.get("to", called(Residence::of))?,
        nodes,
        submit,
        policy,
        bind,
        cpus,
        background: table.get("background", called(Background::of))?,
        longest: table.get("longest", span)?,
        sim: sim(&table)?,
    })
}

/// What the kernel's dmatest cannot do.
fn one_buffer(table: &Table<'_>, buffers: u32) -> Result<(), Problem> {
    if buffers == 1 {
        return Ok(());
    }
    let message = format!(
        "`{}`: the kernel's dmatest copies one buffer at a time; since Linux 4.14 it has had no mode with several",
        table.key("buffers")
    );
    let help = "write copy.buffers = 1, or copy.backend = \"sgtest\", tardy's own test module, which chains them, or copy.backend = \"cpu\"";
    Err(table.wrong(&["buffers", "backend"], message, help))
}

/// The most chains of a trial that tardy's test module keeps.
const MOST_CHAINS: u64 = 1 << 20;
/// The largest buffer that the kernel has in one piece, bytes.
const LARGEST_PIECE: i64 = 4 << 20;

/// What tardy's test module cannot do.
fn few_chains(table: &Table<'_>, passes: u64) -> Result<(), Problem> {
    if passes > MOST_CHAINS {
        let message = format!(
            "`{}`: {passes} passes of all threads, and backend sgtest keeps {MOST_CHAINS} at most",
            table.key("iterations")
        );
        return Err(table.wrong(&["iterations", "threads", "backend"], message, "take fewer iterations"));
    }
    let bytes = table.get("bytes", integer)?;
    if bytes > LARGEST_PIECE {
        let message = format!(
            "`{}`: backend sgtest takes buffers that the kernel has in one piece, {LARGEST_PIECE} bytes at most",
            table.key("bytes")
        );
        return Err(table.wrong(&["bytes", "backend"], message, "take smaller buffers, and more of them"));
    }
    Ok(())
}

/// What a test in the kernel has nothing to do with.
fn of_kernel(table: &Table<'_>, module: CopyModule) -> Result<(), Problem> {
    let own =
        ["method", "pages", "from", "to", "from_node", "to_node", "submit", "policy", "bind", "cpus", "background"];
    if let Some(key) = own.into_iter().find(|field| table.is_changed(field)) {
        let whose = match module {
            CopyModule::Dmatest => "the kernel's dmatest, whose threads are not tardy's",
            CopyModule::TardySgtest => "backend sgtest, whose threads are the kernel's",
        };
        let message = format!("`{}` has no meaning for {whose}", table.key(key));
        return Err(table.wrong(&[key, "backend"], message, "leave it out, or write copy.backend = \"cpu\""));
    }
    Ok(())
}

/// Buffers of each thread: as written, or an equal part of all.
fn buffers(table: &Table<'_>, threads: u64) -> Result<u32, Problem> {
    let number = |field: &str| table.get(field, |value| integer(value).and_then(|n| u32::try_from(n).ok()));
    if table.find("total").is_none() {
        return number("buffers");
    }
    let total = u64::from(number("total")?);
    if total == 0 || !total.is_multiple_of(threads) {
        let message =
            format!("`{}`: {total} buffers are no equal number for each of {threads} threads", table.key("total"));
        let help = format!("write a multiple of {threads}");
        return Err(table.wrong(&["total", "threads", "channels", "controllers"], message, help));
    }
    Ok(u32::try_from(total / threads).unwrap_or(u32::MAX))
}

fn numbers(value: &Value) -> Option<Vec<u32>> {
    if let Value::Numbers(numbers) = value { Some(numbers.clone()) } else { None }
}

fn sim(table: &Table<'_>) -> Result<CopySim, Problem> {
    let size = |field: &str| table.get(field, |value| integer(value).and_then(|n| u64::try_from(n).ok()));
    Ok(CopySim {
        overlap: table.get("sim.overlap", share)?,
        rate: table.get("sim.rate", rate)?,
        jitter: table.get("sim.jitter", share)?,
        multiple: size("sim.multiple")?,
        beyond: size("sim.beyond")?,
    })
}

/// Limits of how long a pass takes, of the bandwidth, and of passes that are not done.
fn expectations(view: &View<'_>) -> Vec<Expectation> {
    let mut found = Vec::new();
    let mut add = |limit| found.push(Expectation { stream: COPY.to_owned(), limit });
    for (field, assignment) in view.below("expect.copy.") {
        let refused = |what: &str| {
            let help = "write \"begin..end\" = \"p99 < 3us\", bandwidth = \"10Gbit\" or not_sent = 0".to_owned();
            Err(view.combination(
                &[assignment.key.clone(), "kind".to_owned()],
                format!("`{}`: {what}", assignment.key),
                help,
            ))
        };
        match (&assignment.value, field.parse::<Metric>()) {
            (Value::Integer(most), _) if field == Count::NotSent.name() => {
                add(Limit::Count { count: Count::NotSent, at_most: u64::try_from(*most).unwrap_or(0) });
            }
            (Value::Integer(least), _) if field == BANDWIDTH => {
                add(Limit::Bandwidth { at_least_bits_s: u64::try_from(*least).unwrap_or(0) });
            }
            (Value::Limits(limits), Ok(metric)) if metric == Metric::PASS => {
                for (of, limit_ns, inclusive) in limits.iter().copied() {
                    add(Limit::Metric { metric, of, limit_ns, inclusive });
                }
            }
            _ => drop(view.keep::<()>(refused("a copy has no such figure"))),
        }
    }
    found
}
