//! The overhead of streams: routines with almost nothing to compute, so that submission, waiting and merging
//! dominate.
//!
//! Each case is checked before it is timed, by the contents of its nodes: every run of a routine increments a
//! counter.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use arrayjit::{
    Backend, Context, DType, Event, HostArray, MemoryMode, MergeBufferUse, Reason, Routine, TensorNode,
    parallel::{Merge, merge_tree},
    profile::Cost,
};
use tnode::Sharing;

use crate::measure::{Effort, Measured, summary};

/// A case: its stable name, and the function that prepares it.
pub(crate) struct StreamCase {
    pub(crate) name: &'static str,
    prepare: fn(&Backend) -> Result<PreparedCase>,
}

/// Every case, in the order of execution.
pub(crate) fn all() -> [StreamCase; 4] {
    [
        StreamCase { name: "dispatch_empty", prepare: dispatch_empty },
        StreamCase { name: "dispatch_chain", prepare: dispatch_chain },
        StreamCase { name: "event_pingpong", prepare: event_pingpong },
        StreamCase { name: "merge_tree_8", prepare: merge_tree_8 },
    ]
}

/// A case that was checked.
struct PreparedCase {
    /// Runs the case once, to the end.
    run: Box<dyn Fn() -> Result<()>>,
    /// The number of parts in one run of the case; the reported time is that of one part.
    parts: usize,
    /// Floating-point operations and bytes of each part.
    flops: f64,
    bytes: f64,
}

/// Checks and times a case.
///
/// # Errors
///
/// Any error of the case, and a wrong result.
pub(crate) fn measure(backend: &Backend, case: &StreamCase, effort: Effort) -> Result<Measured> {
    let start = Instant::now();
    let ready = (case.prepare)(backend).with_context(|| format!("case `{}`", case.name))?;
    let cold = start.elapsed().as_secs_f64() * 1e6;
    let rounds = if effort == Effort::Smoke { 1 } else { 500 };
    let (mut times, start) = (Vec::new(), Instant::now());
    while times.len() < rounds && (times.len() < 15 || start.elapsed() < Duration::from_millis(800)) {
        let before = Instant::now();
        (ready.run)()?;
        times.push(before.elapsed().as_secs_f64() * 1e6 / ready.parts as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(summary(&times, &Cost { flops: ready.flops, integer_ops: 0.0, bytes: ready.bytes }, cold))
}

/// Successive runs of an independent routine, whose cost is amortized; each is a part.
fn dispatch_empty(backend: &Backend) -> Result<PreparedCase> {
    const RUNS: usize = 256;
    let (x, y) = (node("x", 1)?, node("y", 1)?);
    let context = backend.context()?.init_from_host(&x, &array(&[41.0])?)?;
    let routine = backend.compile("y[i] := x[i] + 1", [&x, &y])?.link(&context)?;
    let run = move || {
        (1..RUNS).try_for_each(|_| routine.run(&[]).map(drop))?;
        wait(&routine.run(&[])?)?;
        Ok(routine.context().clone())
    };
    expect(&run()?, &y, 42.0)?;
    Ok(PreparedCase { run: Box::new(move || run().map(drop)), parts: RUNS, flops: 1.0, bytes: 8.0 })
}

/// Runs 64 routines on one stream, each of which depends on the previous one; the time covers all of them.
fn dispatch_chain(backend: &Backend) -> Result<PreparedCase> {
    const LENGTH: usize = 64;
    let x = node("x", 1)?;
    let context = backend.context()?.init_from_host(&x, &array(&[0.0])?)?;
    let routine = backend.compile(COUNT, [&x])?.link(&context)?;
    let run = move || {
        (1..LENGTH).try_for_each(|_| routine.run(&[]).map(drop))?;
        wait(&routine.run(&[])?)?;
        Ok(routine.context().clone())
    };
    expect(&run()?, &x, LENGTH as f32)?;
    let (flops, bytes) = (LENGTH as f64, 8.0 * LENGTH as f64);
    Ok(PreparedCase { run: Box::new(move || run().map(drop)), parts: 1, flops, bytes })
}

/// Two streams write one node alternately, so each waits for the other; the time is that of one write.
fn event_pingpong(backend: &Backend) -> Result<PreparedCase> {
    const TURNS: usize = 64;
    let x = node("x", 1)?;
    x.update_memory_mode(MemoryMode::OnDevice(Sharing::Shared), Reason::new("two streams write it"))?;
    let code = backend.compile(COUNT, [&x])?;
    let ping = backend.context()?.init_from_host(&x, &array(&[0.0])?)?;
    let pong = ping.on_stream(&backend.new_stream()?)?;
    let routines = [code.link(&ping)?, code.link(&pong)?];
    let run = move || {
        let turns = routines.iter().cycle().take(TURNS).map(|routine| routine.run(&[]));
        let events = turns.collect::<Result<Vec<Event>, _>>()?;
        events.last().map_or(Ok(()), wait)?;
        Ok(routines[0].context().clone())
    };
    expect(&run()?, &x, TURNS as f32)?;
    Ok(PreparedCase { run: Box::new(move || run().map(drop)), parts: TURNS, flops: 1.0, bytes: 8.0 })
}

/// Gradients of 8 streams, 1 MiB each, are summed on stream 0, through merge buffers that are filled with
/// copies.
fn merge_tree_8(backend: &Backend) -> Result<PreparedCase> {
    const STREAMS: usize = 8;
    const ELEMENTS: usize = (1 << 20) / 4;
    let g = node("g", ELEMENTS)?;
    let code = backend.compile("g[i] += g.merge[i]", [&g])?;
    let on_stream = |stream: usize| -> Result<(Context, Routine)> {
        let context = Context::new(&backend.new_stream()?);
        let context = context.init_from_host(&g, &array(&vec![(1 << stream) as f32; ELEMENTS])?)?;
        let merge = code.link(&context)?;
        Ok((context, merge))
    };
    let streams = (0..STREAMS).map(on_stream).collect::<Result<Vec<_>>>()?;
    let (node, merges) = (g.clone(), merge_tree(STREAMS));
    let run = move || {
        for &Merge { from, to } in &merges {
            let (context, merge) = &streams[to];
            let _ = context.device_to_device(&node, MergeBufferUse::Copy, &streams[from].0)?;
            drop(merge.run(&[])?);
        }
        streams[0].0.stream().sync()?;
        Ok(streams[0].0.clone())
    };
    expect(&run()?, &g, 255.0)?;
    let elements = (ELEMENTS * (STREAMS - 1)) as f64;
    // A merge reads two arrays and writes one, and its copy reads one and writes one.
    Ok(PreparedCase {
        run: Box::new(move || run().map(drop)),
        parts: 1,
        flops: elements,
        bytes: 20.0 * elements,
    })
}

/// Increments a counter in each run.
const COUNT: &str = "x[i] += 1";

fn node(name: &str, elements: usize) -> Result<TensorNode> {
    Ok(TensorNode::builder(name).dims([elements]).dtype(DType::F32).build()?)
}

fn array(values: &[f32]) -> Result<HostArray> {
    Ok(HostArray::from_slice(values, [values.len()])?)
}

fn wait(event: &Event) -> Result<()> {
    Ok(event.sync()?)
}

/// Fails unless all elements of a node have this value.
fn expect(context: &Context, node: &TensorNode, value: f32) -> Result<()> {
    let found = context.to_host(node)?;
    let wrong = found.values().into_iter().find(|found| *found != f64::from(value));
    ensure!(wrong.is_none(), "`{}` is {wrong:?} after the first round, expected {value}", node.name());
    Ok(())
}
