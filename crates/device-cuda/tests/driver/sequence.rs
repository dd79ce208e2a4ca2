//! Routines that run repeatedly: their kernels as one task, in order, with their own bindings, and failures
//! in them.
#![allow(clippy::unwrap_used, reason = "tests may panic")]
#![allow(unsafe_code, reason = "each test hands its tasks to one stream, or orders them by waits")]

use std::{slice::from_ref, sync::Arc};

use crate::support::*;
use codegen_core::{Access, Binding, Code, KernelCall, Slot};
use device_cuda::CudaConfig;
use device_runtime::{
    BoundKernel, BoundSequence, CallTime, Context, DirectDriver, Driver, DriverError, FaultDevice, FaultPlan,
    HostReadback, NullDevice, PoolId, RunError, StreamHandle, WaitKind,
};
use lowered_ir::ir::{NodeRef, SymbolId};
use tnode::{DType, HostArray, TensorNode};

/// A routine of kernels on one node. The kernels use the routine's symbols in turn.
fn chain(x: &TensorNode, kernels: &[Kernel], symbols: usize) -> Arc<Code> {
    let mut turns = (0..symbols as u32).map(|at| Binding::Symbol(SymbolId(at))).cycle();
    let call = |(kernel, it): (usize, &Kernel)| KernelCall {
        kernel,
        args: vec![Slot::Node(NodeRef(0))],
        bindings: turns.by_ref().take(it.symbols).collect(),
    };
    let calls = kernels.iter().enumerate().map(call).collect();
    let symbols: Vec<_> = (0..symbols).map(|at| symbol(&format!("s{at}"), 1 << 20)).collect();
    many_kernels("chain", from_ref(x), &symbols, artifact(kernels), calls, vec![])
}

/// A kernel that multiplies its only element and adds the value of a static index.
fn taking(name: &str, factor: u32) -> Kernel {
    let body =
        read("%r4", 0, "0") + &format!("mad.lo.u32 %r4, %r4, {factor}, %r10;\n") + &write(0, "0", "%r4");
    Kernel::new(name, &[(Access::ReadWrite, 4)], 1, &body).with_symbols(1)
}

fn started(x: &TensorNode) -> Context {
    context(&device(&open(&CudaConfig::default()))).init_from_host(x, array(&[1])).unwrap()
}

/// Runs a routine ten times. Its three kernels multiply by 2, 3 and 5, and each adds 1.
fn three_kernels_run_ten_times() {
    let x = node("x", 1);
    let kernels = [step("two", 2), step("three", 3), step("five", 5)];
    let routine = started(&x).link(&chain(&x, &kernels, 0), from_ref(&x)).unwrap();
    let mut model = 1i32;
    for _ in 0..10 {
        drop(routine.run(&[]).unwrap());
        model = [2, 3, 5].iter().fold(model, |value, factor| value.wrapping_mul(*factor).wrapping_add(1));
    }
    assert_eq!(values(routine.context(), &x), [model]);
}

#[test]
fn a_routine_that_runs_again_is_one_task() {
    let notes = on_device(three_kernels_run_ten_times);
    let Some(notes) = notes else { return };
    assert_eq!((notes.count("instantiate 3"), notes.count("replay 3"), notes.count("set")), (1, 9, 0));
    assert_eq!(notes.count("launch"), 30);
}

/// If the driver rejects a graph operation, whichever it is, kernels are launched one by one.
#[test]
fn without_graphs_kernels_are_launched_one_by_one() {
    for (settings, made) in [("graphs=rejected", 0), ("graphs=unlaunched", 1)] {
        let notes = on_fake(settings, three_kernels_run_ten_times);
        let Some(notes) = notes else { continue };
        assert_eq!((notes.count("instantiate"), notes.count("replay")), (made, 0), "{settings}");
        assert_eq!(
            (notes.count("graph"), notes.count("launch")),
            (1, 30),
            "{settings}: it is not tried again"
        );
    }
}

/// Runs three kernels, of which the first and the last take a symbol, with changing values of the symbols.
fn bindings_change() {
    let x = node("x", 1);
    let kernels = [taking("first", 3), step("second", 5), taking("third", 7)];
    let routine = started(&x).link(&chain(&x, &kernels, 2), from_ref(&x)).unwrap();
    let mut model = 1i32;
    for symbols in [[4, 9], [4, 9], [4, 9], [9, 9], [9, 2], [2, 3], [4, 3]] {
        drop(routine.run(&symbols).unwrap());
        let [first, second] = symbols.map(|value| value as i32);
        for (factor, more) in [(3, first), (5, 1), (7, second)] {
            model = model.wrapping_mul(factor).wrapping_add(more);
        }
    }
    assert_eq!(values(routine.context(), &x), [model]);
}

#[test]
fn runs_that_are_on_their_way_keep_their_bindings() {
    let notes = on_device(bindings_change);
    let Some(notes) = notes else { return };
    assert_eq!((notes.count("instantiate 3"), notes.count("replay 3")), (1, 6));
    assert_eq!(notes.count("set"), 5, "one for each value that is new");
}

#[test]
fn parameters_that_cannot_be_changed_are_no_failure() {
    let notes = on_fake("graphs=fixed", bindings_change);
    let Some(notes) = notes else { return };
    assert_eq!((notes.count("instantiate"), notes.count("replay")), (1, 2), "until the first that changes");
    assert_eq!(notes.count("launch"), 21);
}

/// Runs routines of two kernels on two streams, in random order. All of them change the same node.
fn streams_take_turns() {
    let x = node("x", 1);
    let first = started(&x);
    let second = first.on_stream(&first.stream().device().new_stream().unwrap()).unwrap();
    let link = |context: &Context, factors: [u32; 2]| {
        let kernels = [taking("one", factors[0]), step("other", factors[1])];
        context.link(&chain(&x, &kernels, 1), from_ref(&x)).unwrap()
    };
    let routines = [(link(&first, [2, 3]), [2, 3]), (link(&second, [5, 7]), [5, 7])];
    let (mut model, mut random) = (1i32, fastrand::Rng::with_seed(5));
    for _ in 0..60 {
        let ((routine, factors), symbol) = (&routines[random.usize(..2)], random.usize(..3) as i32);
        drop(routine.run(&[symbol.into()]).unwrap());
        model = model.wrapping_mul(factors[0]).wrapping_add(symbol).wrapping_mul(factors[1]).wrapping_add(1);
    }
    assert_eq!(values(&first, &x), [model]);
}

#[test]
fn sequences_are_ordered_as_kernels_are() {
    on_device(streams_take_turns);
    for seed in 2..6 {
        on_fake(&format!("seed={seed}"), streams_take_turns);
    }
    on_fake("order=eager pools=0", streams_take_turns);
}

fn bound(driver: &Direct, kernels: &[Kernel]) -> Vec<BoundKernel> {
    let module = driver.load(&artifact(kernels)).unwrap();
    let bind = |at| driver.bind(&module.kernel(at).unwrap(), &[at_first()]).unwrap();
    (0..kernels.len()).map(bind).collect()
}

fn at_first() -> device_runtime::Location {
    at(1, 0)
}

fn launch<D: Driver>(
    driver: &DirectDriver<D>,
    stream: &StreamHandle,
    sequence: &BoundSequence,
    bindings: &[i64],
) -> Result<bool, DriverError> {
    // SAFETY: the tasks of a test are on one stream, or ordered by waits; bindings are in range.
    unsafe { driver.launch_sequence(stream, sequence, bindings) }
}

fn word(driver: &Direct, stream: &StreamHandle) -> u32 {
    let readback = HostReadback::new(HostArray::zeros(DType::U32, [1]).unwrap());
    // SAFETY: as in `launch`.
    unsafe { driver.copy_out(stream, at_first(), &readback).unwrap() };
    driver.sync(&driver.record(stream).unwrap()).unwrap();
    readback.take().unwrap().as_slice::<u32>().unwrap()[0]
}

/// A driver with zeros at the beginning of its first pool, and a stream.
fn zeroed() -> (Direct, StreamHandle) {
    let driver = open(&CudaConfig::default());
    let stream = driver.new_stream("cuda:0:0").unwrap();
    driver.alloc_pool(PoolId(1), 4).unwrap();
    // SAFETY: as in `launch`.
    unsafe { driver.memset_zero(&stream, at_first(), 4).unwrap() };
    (driver, stream)
}

#[test]
fn each_stream_has_a_graph_of_its_own() {
    let notes = on_device(|| {
        let (driver, first) = zeroed();
        let second = driver.new_stream("cuda:0:1").unwrap();
        let sequence =
            driver.sequence(&bound(&driver, &[taking("one", 2), taking("other", 3)])).unwrap().unwrap();
        let mut model = 0u32;
        for run in 0..12i64 {
            let (to, from) = if run % 2 == 0 { (&first, &second) } else { (&second, &first) };
            driver.wait(to, &driver.record(from).unwrap(), WaitKind::Data).unwrap();
            let bindings = [run, run + 1];
            assert_eq!(launch(&driver, to, &sequence, &bindings), Ok(run > 0), "nothing, then all");
            if run > 0 {
                let [more, yet_more] = bindings.map(|value| value as u32);
                model = model.wrapping_mul(2).wrapping_add(more).wrapping_mul(3).wrapping_add(yet_more);
            }
        }
        assert_eq!(word(&driver, &second), model);
        // The graph of a dropped stream is freed when the next graph is made.
        driver.drop_stream(first);
        let third = driver.new_stream("cuda:0:2").unwrap();
        assert_eq!(launch(&driver, &third, &sequence, &[0, 0]), Ok(true));
        driver.alloc_pool(PoolId(2), 77).unwrap();
    });
    let Some(notes) = notes else { return };
    assert_eq!(notes.until("allocate 77").count("destroy"), 1);
    assert_eq!((notes.count("instantiate 2"), notes.count("replay 2")), (3, 12));
}

#[test]
fn what_is_no_sequence() {
    on_device(|| {
        let (driver, stream) = zeroed();
        let kernels = bound(&driver, &[taking("one", 2), taking("other", 3)]);
        assert!(driver.sequence(&[]).unwrap().is_none());
        assert!(driver.sequence(&kernels[..1]).unwrap().is_none(), "a launch does as well");
        let sequence = driver.sequence(&kernels).unwrap().unwrap();
        let other = open(&CudaConfig::default());
        let foreign = |what| DriverError::ForeignHandle { what };
        assert_eq!(other.sequence(&kernels).unwrap_err(), foreign("bound kernel"));
        let other_stream = other.new_stream("cuda:0:1").unwrap();
        assert_eq!(launch(&other, &other_stream, &sequence, &[1, 2]), Err(foreign("sequence of kernels")));
        assert_eq!(launch(&driver, &other_stream, &sequence, &[1, 2]), Err(foreign("stream")));
        let null = NullDevice::new();
        let of_null = null.sequence(&[]).unwrap();
        assert!(of_null.is_none());
        assert_eq!(word(&driver, &stream), 0);
    });
}

/// In every run of a routine, the kernels before a rejected one run, and the kernels after it do not.
#[test]
fn a_kernel_that_is_rejected_fails_as_if_it_were_alone() {
    let notes = on_fake("", || {
        let x = node("x", 1);
        let context = started(&x);
        let kernels = [count("good"), count("rejected"), count("behind")];
        let routine = context.link(&chain(&x, &kernels, 0), from_ref(&x)).unwrap();
        for _ in 0..3 {
            let error = routine.run(&[]).unwrap_err();
            assert!(error.to_string().contains("`rejected` failed on cuda:0:0: cuLaunchKernel: "), "{error}");
            assert!(matches!(context.to_host(&x), Err(RunError::Poisoned { .. })));
            let error = routine.run(&[]).unwrap_err();
            assert!(matches!(error, RunError::Poisoned { .. }), "{error}");
            context.stream().reset().unwrap();
            let _ = context.from_host(&x, array(&[9])).unwrap();
            assert_eq!(values(&context, &x), [9]);
        }
    });
    let Some(notes) = notes else { return };
    assert_eq!((notes.count("launch k_good"), notes.count("launch"), notes.count("replay")), (3, 3, 0));
}

/// A failed stream rejects sequences as it rejects kernels; memory that a run would have written is
/// unchanged.
#[test]
fn a_stream_that_failed_takes_no_sequence() {
    on_fake("", || {
        let (driver, stream) = zeroed();
        let kernels = bound(&driver, &[count("one"), count("other"), count("rejected")]);
        let sequence = driver.sequence(&kernels[..2]).unwrap().unwrap();
        assert_eq!(launch(&driver, &stream, &sequence, &[]), Ok(false));
        assert_eq!(launch(&driver, &stream, &sequence, &[]), Ok(true));
        // SAFETY: as in `launch`.
        let error = unsafe { driver.launch(&stream, &kernels[2], &[]) }.unwrap_err();
        assert_eq!(launch(&driver, &stream, &sequence, &[]), Err(error));
        driver.reset_stream(&stream).unwrap();
        assert_eq!(word(&driver, &stream), 2);
        assert_eq!(launch(&driver, &stream, &sequence, &[]), Ok(true));
        assert_eq!(word(&driver, &stream), 4);
    });
}

/// A kernel that writes to an invalid address once its element is at least 3.
fn late(name: &str) -> Kernel {
    let body = read("%r4", 0, "0") + "setp.ge.u32 %p1, %r4, 3;\nmul.wide.u32 %d29, %r4, 4;\n";
    Kernel::new(name, &[(Access::ReadWrite, 4)], 1, &(body + "@%p1 st.global.u32 [%d29], %r4;\n"))
}

#[test]
fn a_loss_names_the_kernels_of_a_graph() {
    let notes = on_fake("", || {
        let x = node("x", 1);
        let context = started(&x);
        let routine = context.link(&chain(&x, &[count("good"), late("late")], 0), from_ref(&x)).unwrap();
        routine.run(&[]).unwrap().sync().unwrap();
        assert_eq!(values(&context, &x), [2]);
        let text = routine.run(&[]).unwrap().sync().unwrap_err().to_string();
        assert!(text.contains("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "{text}");
        assert!(text.contains("(seen by cuda:0:0, where `good`, `late` ran or waited)"), "{text}");
        let lost = routine.run(&[]).unwrap_err().to_string();
        assert!(lost.contains("is lost"), "{lost}");
    });
    let Some(notes) = notes else { return };
    assert_eq!((notes.count("replay 2"), notes.count("lost 700")), (1, 1));
}

/// If the device is lost while a graph is made, updated or launched, its kernels are not launched one by one
/// afterwards.
#[test]
fn a_loss_is_seen_by_the_next_run() {
    on_fake("order=eager", || {
        let (driver, stream) = zeroed();
        let kernels = bound(&driver, &[count("one"), taking("other", 1), stray("stray")]);
        let sequence = driver.sequence(&kernels[..2]).unwrap().unwrap();
        assert_eq!(launch(&driver, &stream, &sequence, &[1]), Ok(false));
        assert_eq!(launch(&driver, &stream, &sequence, &[1]), Ok(true));
        // SAFETY: as in `launch`.
        unsafe { driver.launch(&stream, &kernels[2], &[]).unwrap() };
        let error = launch(&driver, &stream, &sequence, &[2]).unwrap_err();
        assert!(matches!(error, DriverError::Lost { .. }), "{error}");
        assert!(driver.sequence(&kernels[..2]).is_err());
    });
}

/// The resources of a graph stay alive until its task is done, whatever is dropped, and are released then.
#[test]
fn graphs_own_what_they_use() {
    let notes = on_device(|| {
        for _ in 0..5 {
            let (driver, stream) = zeroed();
            let kernels = bound(&driver, &[count("one"), count("other")]);
            let sequence = driver.sequence(&kernels).unwrap().unwrap();
            assert_eq!(launch(&driver, &stream, &sequence, &[]), Ok(false));
            for _ in 0..3 {
                assert_eq!(launch(&driver, &stream, &sequence, &[]), Ok(true));
            }
            drop((sequence, kernels));
            assert_eq!(word(&driver, &stream), 6);
            driver.free_pool(PoolId(1));
            assert_eq!(driver.used_memory(), 0);
            // The resources are released, too, if no thread polls any more.
            driver.alloc_pool(PoolId(1), 4).unwrap();
            let kernels = bound(&driver, &[count("one"), count("other")]);
            let sequence = driver.sequence(&kernels).unwrap().unwrap();
            assert_eq!(launch(&driver, &stream, &sequence, &[]), Ok(false));
            assert_eq!(launch(&driver, &stream, &sequence, &[]), Ok(true));
            driver.free_pool(PoolId(1));
        }
    });
    let Some(notes) = notes else { return };
    assert_eq!((notes.count("instantiate"), notes.count("lost")), (10, 0));
}

/// A graph of four kernels, each of which adds one to a counter, is one task. An injected fault makes the
/// task fail after none, two or all of its kernels have run. The failure names the first kernel that has not
/// run, or else the last one.
#[test]
fn a_fault_strikes_between_kernels() {
    on_fake("", || {
        let mut seen = [0; 5];
        for seed in 0..24 {
            let (driver, stream) = zeroed();
            drop(stream);
            let faulty = FaultDevice::new(
                Arc::clone(driver.driver()) as Arc<_>,
                FaultPlan::new(seed).task_failures(1.0),
            );
            let faulty = DirectDriver::new(Arc::new(faulty));
            faulty.set_active(false);
            faulty.import(PoolId(1), &driver.export(PoolId(1)).unwrap()).unwrap();
            let names = ["one", "two", "three", "four"].map(count);
            let module = faulty.load(&artifact(&names)).unwrap();
            let bind = |at| faulty.bind(&module.kernel(at).unwrap(), &[at_first()]).unwrap();
            let kernels: Vec<_> = (0..4).map(bind).collect();
            let sequence = faulty.sequence(&kernels).unwrap().unwrap();
            let stream = faulty.new_stream("cuda:0:1").unwrap();
            assert_eq!(launch(&faulty, &stream, &sequence, &[]), Ok(false));
            faulty.set_active(true);
            assert_eq!(launch(&faulty, &stream, &sequence, &[]), Ok(true));
            let failure = faulty.failures().remove(0);
            assert!(faulty.sync(&faulty.record(&stream).unwrap()).is_err());
            let counted = word(&driver, &driver.new_stream("cuda:0:2").unwrap()) as usize;
            let names = ["one", "two", "three", "four", "four"];
            assert_eq!(failure.task(), names[counted], "behind {counted}");
            seen[counted] += 1;
        }
        assert!(seen[0] > 0 && seen[2] > 0 && seen[4] > 0 && seen[1] + seen[3] == 0, "{seen:?}");
    });
}

/// A kernel that adds 1 to the first elements of a node.
fn increment(name: &str, node: &TensorNode, elements: u32) -> Kernel {
    let body = read("%r4", 0, "%r3") + "add.u32 %r4, %r4, 1;\n" + &write(0, "%r3", "%r4");
    Kernel::new(name, &params(&[(node, Access::ReadWrite)]), elements, &body)
}

/// Links a routine of two kernels, of one block and of three, runs it three times with timers, and returns
/// the node's values and the times of each run.
fn timed_runs() -> (Vec<i32>, Vec<[Option<CallTime>; 2]>) {
    let x = node("x", 130);
    let context =
        context(&device(&open(&CudaConfig::default()))).init_from_host(&x, array(&[0; 130])).unwrap();
    let kernels = [increment("small", &x, 64), increment("large", &x, 130)];
    let routine = context.link(&chain(&x, &kernels, 0), from_ref(&x)).unwrap();
    let run = |_| {
        let (event, times) = routine.run_timed(&[]).unwrap();
        event.sync().unwrap();
        assert_eq!(times.len(), 2);
        [times.get(0), times.get(1)]
    };
    let times = (0..3).map(run).collect();
    (values(routine.context(), &x), times)
}

#[test]
fn each_kernel_of_a_timed_run_has_its_time_and_size() {
    let notes = on_device(|| {
        let is_fake = std::env::var_os("FAKE_CUDA").is_some();
        let (found, times) = timed_runs();
        assert_eq!((found[0], found[64], found[129]), (6, 3, 3), "a timed kernel runs once");
        let mut before = None;
        for time in times.into_iter().flatten().map(Option::unwrap) {
            assert!(before.is_none_or(|before| before <= time.begin) && time.begin < time.end);
            before = Some(time.end);
            let size = time.size.unwrap();
            let blocks = if size.blocks == 1 { 1 } else { 3 };
            assert_eq!((size.blocks, size.threads, size.local_bytes), (blocks, BLOCK, 0));
            assert!((1..=64).contains(&size.registers));
            if is_fake {
                let micros = (time.end - time.begin).as_secs_f64() * 1e6;
                assert!((micros - 3.0 * f64::from(blocks)).abs() < 0.01, "{micros} us for {blocks} blocks");
            }
        }
    });
    let Some(notes) = notes else { return };
    assert_eq!(
        (notes.count("launch k_small"), notes.count("launch k_large"), notes.count("graph")),
        (3, 3, 0)
    );
    // Two events around each of the two kernels of a run, and one more: the end of the last timed kernel is
    // kept until the next one. They are used again.
    assert_eq!(notes.count("event 0"), 5);
}

#[test]
fn spilled_registers_are_in_the_size_of_a_launch() {
    on_fake("local=24", || {
        let (_, times) = timed_runs();
        assert!(times.iter().flatten().all(|time| time.unwrap().size.unwrap().local_bytes == 24));
    });
}
