//! Prints the cost of running a routine that does nothing, in nanoseconds per run: the median and the minimum
//! of many rounds.
//!
//! * `enqueue`: the caller's time without any wait. The queue is so large that it never fills.
//! * `pipelined`: the same, plus the wait for the last run of a round.
//! * `round trip`: the caller waits for each run.
//! * `idle kernel` and `idle closure`: one run and the wait for it on a stream whose worker sleeps. The
//!   caller runs the task itself. The kernel is compiled code, whose running time is known; the closure is
//!   interpreted code of unknown running time, so the worker is woken as well.
//! * `wake-up`: the closure again, but the caller does not wait for it, so the worker runs it.
//!
//! The machine should be idle.
#![allow(clippy::print_stdout, reason = "this program's purpose is to print")]

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use codegen_core::{
    Access, Artifact, Code, Cost, Kernel, KernelAbi, KernelCall, Launch, Param, RoutineParts,
    ScheduledRoutine, Slot,
    host::{HostArg, HostModule, InterpretedKernel, NativeCode},
};
use device_runtime::{Context, Device, Driver, Event, LinkedRoutine};
use lowered_ir::ir::{NodeDecl, NodeRef};
use scheduler_multicore::{Cpu, CpuConfig};
use tnode::{DType, HostArray, Scalar, TensorNode};

const ROUNDS: usize = 31;
const RUNS: usize = 2000;

/// How long a stream stays idle before a run, so that its worker sleeps, and the number of such runs.
const PAUSE: Duration = Duration::from_micros(100);
const PAUSES: usize = 501;

fn main() -> Result<(), Box<dyn Error>> {
    sigpipe::reset();
    let config = CpuConfig { queue_capacity: 8 * RUNS, ..CpuConfig::default() };
    measure("inline", Arc::new(Cpu::inline(config.clone())))?;
    measure("multicore", Arc::new(Cpu::multicore(config)))
}

fn measure(name: &str, driver: Arc<dyn Driver>) -> Result<(), Box<dyn Error>> {
    let device = Device::new(driver, 0);
    let routine = empty_routine(&device, native())?;
    let last = |runs: usize| -> Result<Event, Box<dyn Error>> {
        for _ in 1..runs {
            routine.run(&[])?;
        }
        Ok(routine.run(&[])?)
    };
    let mut enqueue = Vec::new();
    let mut pipelined = Vec::new();
    let mut round_trip = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let event = last(RUNS)?;
        enqueue.push(start.elapsed());
        event.sync()?;
        pipelined.push(start.elapsed());
        let start = Instant::now();
        for _ in 0..RUNS {
            last(1)?.sync()?;
        }
        round_trip.push(start.elapsed());
    }
    for (what, times) in [("enqueue", enqueue), ("pipelined", pipelined), ("round trip", round_trip)] {
        let (median, best) = per_run(times);
        println!("{name:<10} {what:<12} {median:>7.0} ns (best {best:.0})");
    }
    let closure = empty_routine(&device, HostModule::interpreted(vec![(Box::new(Nothing), abi())]))?;
    let wait = |event: Event| event.sync().map_err(Into::into);
    let look = |event: Event| -> Result<(), Box<dyn Error>> {
        while !event.is_done() {
            std::hint::spin_loop();
        }
        Ok(())
    };
    after_pauses(name, "idle kernel", &routine, wait)?;
    after_pauses(name, "idle closure", &closure, wait)?;
    after_pauses(name, "wake-up", &closure, look)
}

/// Prints the time that one run and `finish` take on a stream whose worker sleeps.
fn after_pauses(
    name: &str,
    what: &str,
    routine: &LinkedRoutine,
    finish: impl Fn(Event) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut times = Vec::new();
    for _ in 0..PAUSES {
        // Spin, so that the measurement does not include waking the caller.
        let pause = Instant::now();
        while pause.elapsed() < PAUSE {
            std::hint::spin_loop();
        }
        let start = Instant::now();
        finish(routine.run(&[])?)?;
        times.push(start.elapsed().as_nanos());
    }
    times.sort_unstable();
    println!("{name:<10} {what:<12} {:>7} ns (best {})", times[PAUSES / 2], times[0]);
    Ok(())
}

/// Median and minimum in nanoseconds per run.
fn per_run(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort();
    let each = |time: Duration| time.as_secs_f64() * 1e9 / RUNS as f64;
    (each(times[times.len() / 2]), each(times[0]))
}

struct Nothing;

impl InterpretedKernel for Nothing {
    fn run(
        &self,
        _: &mut [HostArg<'_>],
        _: &[i64],
        _: &mut dyn FnMut(usize, &[Scalar]),
    ) -> Result<(), String> {
        Ok(())
    }
}

fn native() -> HostModule {
    unsafe extern "C" fn nothing(_: *const *mut u8, _: *const i64, _: *mut u8, _: u64, _: u64) {}
    // SAFETY: the function touches nothing and is never unloaded.
    #[allow(unsafe_code, reason = "wraps a native function")]
    unsafe {
        HostModule::native(vec![(NativeCode::Function(nothing), abi())], Arc::new(()))
    }
}

/// The ABI of a kernel that reads three nodes and writes two.
fn abi() -> KernelAbi {
    let access = |i| if i < 3 { Access::Read } else { Access::Write };
    KernelAbi {
        name: "nothing".to_owned(),
        params: (0..5).map(|i| Param::Node { access: access(i), bytes: 64 }).collect(),
        launch: Launch { extent: 1, grain: 1, threads: 1, end: None },
        scratch_bytes: 0,
        log: [].into(),
        cost: Cost::default(),
    }
}

/// A routine of the module's one kernel, which reads three nodes and writes two.
fn empty_routine(device: &Device, module: HostModule) -> Result<LinkedRoutine, Box<dyn Error>> {
    let nodes = (0..5)
        .map(|i| TensorNode::builder(format!("n{i}").as_str()).dims([16]).dtype(DType::F32).build())
        .collect::<Result<Vec<_>, _>>()?;
    let mut context = Context::new(&device.new_stream()?);
    for node in &nodes[..3] {
        context = context.init_from_host(node, &HostArray::zeros(DType::F32, [16])?)?;
    }
    let args = (0..5).map(|i| Slot::Node(NodeRef(i))).collect();
    let decl = |node: &TensorNode| -> Result<NodeDecl, tnode::TensorNodeError> {
        Ok(NodeDecl { name: node.name(), dtype: node.dtype(), dims: node.dims()?, mode: node.mode() })
    };
    let parts = RoutineParts {
        name: "nothing".to_owned(),
        symbols: vec![],
        nodes: nodes.iter().map(decl).collect::<Result<_, _>>()?,
        kernels: vec![Kernel::opaque(abi())?],
        calls: vec![KernelCall { kernel: 0, args, bindings: vec![] }],
        temps: vec![],
        overwritten: vec![],
    };
    let code = Code::new(ScheduledRoutine::new(parts)?, Artifact::host(module))?;
    Ok(context.link(&Arc::new(code), &nodes)?)
}
