//! Logs of kernels: the text of every run, in order, complete when the run is done; logs without room,
//! failures, and sinks that misbehave.
#![allow(clippy::unwrap_used, reason = "tests may panic")]
#![allow(unsafe_code, reason = "each test hands its tasks to one stream")]

use std::{
    slice::from_ref,
    sync::{Arc, Mutex, OnceLock},
    thread,
    time::Duration,
};

use crate::support::*;
use codegen_core::{Access, Artifact, Binding, KernelCall, LogSink, Logging, Slot};
use device_cuda::CudaConfig;
use device_runtime::{BoundKernel, Driver, DriverError, EventHandle, PoolId, RunError, StreamHandle};
use lowered_ir::{
    ir::{NodeRef, SymbolId},
    log::{LogLine, LogStyle},
};

/// The log line `x = ?, n = ?`, which has two integer values.
fn lines() -> Vec<LogLine> {
    let text = "routine @r { node %0 \"x\" i32[2] on_device log \"x = \", %0[0], \", n = \", %0[1] }";
    lowered_ir::log::lines(&lowered_ir::text::parse(text).unwrap())
}

/// Maximum size in bytes of the log of [`counting`].
const LOG_BYTES: u32 = 16 + 12;

/// A kernel that adds one to its only element, logs the element and the value of its static index, and counts
/// lines without room.
fn counting(name: &str) -> Kernel {
    let record = "st.global.u32 [%d1+16], 0;\nst.global.u32 [%d1+20], %r4;\nst.global.u32 [%d1+24], %r10;\n";
    let header = "mov.u32 %r5, 3;\nst.global.u32 [%d1], %r5;\nld.global.u32 %r6, [%d1+8];\nadd.u32 %r6, %r6, %r10;\nst.global.u32 [%d1+8], %r6;\n";
    let body = count(name).body + record + header;
    Kernel::new(name, &[(Access::ReadWrite, 4)], 1, &body).with_symbols(1).with_log(lines(), LOG_BYTES)
}

/// A sink that collects its text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Log {
    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl LogSink for Log {
    fn write(&self, lines: &str) {
        self.0.lock().unwrap().push_str(lines);
    }
}

fn logging_to(artifact: Artifact, sink: impl LogSink + 'static) -> Artifact {
    artifact.logging_to(Logging { sink: Arc::new(sink), style: LogStyle::Exact })
}

/// A driver with a zero in pool 1, and a stream.
fn started(config: &CudaConfig) -> (Direct, StreamHandle) {
    let driver = open(config);
    let stream = driver.new_stream("cuda:0:0").unwrap();
    driver.alloc_pool(PoolId(1), 4).unwrap();
    // SAFETY: all tasks are on one stream.
    unsafe { driver.memset_zero(&stream, at(1, 0), 4).unwrap() };
    (driver, stream)
}

fn bind(driver: &Direct, artifact: &Artifact) -> BoundKernel {
    let module = driver.load(artifact).unwrap();
    driver.bind(&module.kernel(0).unwrap(), &[at(1, 0)]).unwrap()
}

fn launch(driver: &Direct, stream: &StreamHandle, bound: &BoundKernel, n: i64) -> Result<(), DriverError> {
    // SAFETY: the tasks of a test are on one stream; bindings are in range.
    unsafe { driver.launch(stream, bound, &[n]) }
}

fn sync(driver: &Direct, stream: &StreamHandle) -> Result<(), DriverError> {
    driver.sync(&driver.record(stream)?)
}

/// The log of runs of [`counting`] with these values; `first` is the first element.
fn expected(first: usize, values: &[i64]) -> String {
    let run = |(x, n): (usize, &i64)| match n {
        0 => format!("x = {x}, n = 0\n"),
        n => {
            format!("x = {x}, n = {n}\nDROPPED: {n} lines; the log of a run has room for {LOG_BYTES} bytes\n")
        }
    };
    (first..).zip(values).map(run).collect()
}

fn runs_are_logged_in_order() {
    let (driver, stream) = started(&CudaConfig::default());
    let log = Log::default();
    let [one, other] =
        ["one", "other"].map(|name| bind(&driver, &logging_to(artifact(&[counting(name)]), log.clone())));
    let values: Vec<i64> = (0..60).map(|n| n * 7 % 4).collect();
    for (nth, &n) in values.iter().enumerate() {
        launch(&driver, &stream, if nth % 3 == 0 { &one } else { &other }, n).unwrap();
    }
    sync(&driver, &stream).unwrap();
    assert_eq!(log.text(), expected(1, &values));
    assert!(driver.sequence(&[one, other]).unwrap().is_none(), "graphs clear and copy no logs");
    driver.free_pool(PoolId(1));
    assert_eq!(driver.used_memory(), 0);
}

#[test]
fn logs_are_those_of_the_runs_in_order() {
    on_device(runs_are_logged_in_order);
    for seed in 2..5 {
        on_fake(&format!("seed={seed}"), runs_are_logged_in_order);
    }
    on_fake("order=eager pools=0", runs_are_logged_in_order);
}

#[test]
fn a_routine_that_logs_runs_kernel_by_kernel() {
    let notes = on_device(|| {
        let log = Log::default();
        let x = node("x", 1);
        let kernels = [counting("first"), counting("second")];
        let call = |kernel| KernelCall {
            kernel,
            args: vec![Slot::Node(NodeRef(0))],
            bindings: vec![Binding::Symbol(SymbolId(0))],
        };
        let artifact = logging_to(artifact(&kernels), log.clone());
        let symbols = [symbol("n", 1 << 20)];
        let code = many_kernels("work", from_ref(&x), &symbols, artifact, vec![call(0), call(1)], vec![]);
        let context =
            context(&device(&open(&CudaConfig::default()))).init_from_host(&x, array(&[0])).unwrap();
        let routine = context.link(&code, from_ref(&x)).unwrap();
        for n in [0, 2, 1] {
            drop(routine.run(&[n]).unwrap());
        }
        context.stream().sync().unwrap();
        assert_eq!(log.text(), expected(1, &[0, 0, 2, 2, 1, 1]));
        assert_eq!(values(routine.context(), &x), [6]);
    });
    let Some(notes) = notes else { return };
    assert_eq!((notes.count("launch"), notes.count("graph"), notes.count("replay")), (6, 0, 0));
}

/// The log of a run is reported before any call shows that the run is done, even if another thread reports
/// it.
#[test]
fn a_run_is_done_when_its_log_is_reported() {
    on_device(|| {
        let (driver, stream) = started(&CudaConfig::default());
        let log = Log::default();
        let slow = log.clone();
        let sink = move |lines: &str| {
            thread::sleep(Duration::from_millis(5));
            slow.write(lines);
        };
        let bound = bind(&driver, &logging_to(artifact(&[counting("count")]), sink));
        let events: Vec<EventHandle> = (0..8)
            .map(|_| {
                launch(&driver, &stream, &bound, 0).unwrap();
                driver.record(&stream).unwrap()
            })
            .collect();
        let seen = |nth: usize| assert!(log.text().lines().count() > nth, "{nth}: {}", log.text());
        thread::scope(|scope| {
            for (nth, event) in events.iter().enumerate() {
                let (driver, seen) = (&driver, &seen);
                scope.spawn(move || {
                    driver.sync(event).unwrap();
                    seen(nth);
                });
                scope.spawn(move || {
                    while !driver.is_done(event).unwrap() {
                        thread::yield_now();
                    }
                    seen(nth);
                });
            }
            scope.spawn(|| {
                while !driver.is_idle(&stream) {
                    thread::yield_now();
                }
                seen(7);
            });
        });
        assert_eq!(log.text(), expected(1, &[0; 8]));
    });
}

/// An event after a log waits until the log is reported, even if the driver has reached all recorded events.
#[test]
fn an_event_recorded_while_a_log_is_reported_is_behind_it() {
    on_fake("order=eager", || {
        let (driver, stream) = started(&CudaConfig::default());
        let (log, recorded) = (Log::default(), Arc::new(OnceLock::<EventHandle>::new()));
        let parts = (Arc::new(driver), Arc::new(stream));
        let sink = {
            let (log, recorded, (driver, stream)) = (log.clone(), Arc::clone(&recorded), parts.clone());
            move |lines: &str| {
                let event = recorded.get_or_init(|| driver.record(&stream).unwrap());
                assert_eq!(driver.is_done(event), Ok(false));
                assert!(matches!(driver.sync(event), Err(DriverError::SelfWait { .. })));
                assert!(!driver.is_idle(&stream));
                log.write(lines);
            }
        };
        let (driver, stream) = parts;
        let bound = bind(&driver, &logging_to(artifact(&[counting("count")]), sink));
        launch(&driver, &stream, &bound, 0).unwrap();
        sync(&driver, &stream).unwrap();
        assert_eq!(driver.is_done(recorded.get().unwrap()), Ok(true));
        assert_eq!(log.text(), expected(1, &[0]));
    });
}

/// A sink may run a kernel that logs to it: that log is reported later.
#[test]
fn a_sink_may_launch_what_logs_to_it() {
    on_device(|| {
        let (driver, stream) = started(&CudaConfig::default());
        let (log, again) = (Log::default(), Arc::new(Mutex::new(None::<BoundKernel>)));
        let parts = (Arc::new(driver), Arc::new(stream));
        let sink = {
            let (log, again, (driver, stream)) = (log.clone(), Arc::clone(&again), parts.clone());
            move |lines: &str| {
                log.write(lines);
                if let (1..=3, Some(bound)) = (log.text().lines().count(), &*again.lock().unwrap()) {
                    launch(&driver, &stream, bound, 0).unwrap();
                }
            }
        };
        let (driver, stream) = parts;
        let bound = bind(&driver, &logging_to(artifact(&[counting("count")]), sink));
        launch(&driver, &stream, &bound, 0).unwrap();
        *again.lock().unwrap() = Some(bound);
        while log.text().lines().count() < 4 {
            sync(&driver, &stream).unwrap();
        }
        assert_eq!(log.text(), expected(1, &[0; 4]));
        // The kernel and the sink refer to each other; this breaks the cycle.
        drop(again.lock().unwrap().take());
    });
}

#[test]
fn a_sink_that_panics_fails_its_run_and_what_is_behind_it() {
    on_fake("", || {
        let (driver, stream) = started(&CudaConfig::default());
        let log = Log::default();
        let fails = {
            let log = log.clone();
            move |lines: &str| {
                log.write(lines);
                assert!(!lines.contains("x = 2,"), "the disk is full");
            }
        };
        let bound = bind(&driver, &logging_to(artifact(&[counting("count")]), fails));
        let events = [(); 3].map(|()| {
            launch(&driver, &stream, &bound, 0).unwrap();
            driver.record(&stream).unwrap()
        });
        assert_eq!(driver.sync(&events[0]), Ok(()));
        let error = driver.sync(&events[2]).unwrap_err();
        let DriverError::Failed(failure) = &error else { panic!("{error}") };
        assert_eq!(
            (failure.stream(), failure.task(), failure.message()),
            ("cuda:0:0", "count", "the disk is full")
        );
        assert_eq!(driver.sync(&events[1]), Err(error.clone()));
        assert_eq!(launch(&driver, &stream, &bound, 0), Err(error));
        driver.reset_stream(&stream).unwrap();
        launch(&driver, &stream, &bound, 0).unwrap();
        assert_eq!(sync(&driver, &stream), Ok(()));
        assert_eq!(log.text(), expected(1, &[0; 4]), "what was on its way has run");
    });
}

#[test]
fn what_was_logged_before_a_loss_stays() {
    on_fake("", || {
        let (driver, stream) = started(&CudaConfig::default());
        let log = Log::default();
        let bound = bind(&driver, &logging_to(artifact(&[counting("count")]), log.clone()));
        launch(&driver, &stream, &bound, 1).unwrap();
        sync(&driver, &stream).unwrap();
        let strays = counting("strays");
        let strays = Kernel { body: stray("strays").body, ..strays };
        let strays = bind(&driver, &logging_to(artifact(&[strays]), log.clone()));
        launch(&driver, &stream, &strays, 0).unwrap();
        let behind = launch(&driver, &stream, &bound, 0).and_then(|()| sync(&driver, &stream)).unwrap_err();
        assert!(matches!(behind, DriverError::Lost { .. }), "{behind}");
        assert!(behind.to_string().contains("`strays`"), "{behind}");
        assert!(matches!(sync(&driver, &stream), Err(DriverError::Lost { .. })));
        assert!(driver.is_idle(&stream));
        assert_eq!(log.text(), expected(1, &[1]));
    });
}

#[test]
fn a_log_without_memory_is_an_error_that_names_the_kernel() {
    on_device(|| {
        let (driver, _stream) = started(&CudaConfig { memory_limit: Some(1000), ..CudaConfig::default() });
        let large = counting("talker").with_log(lines(), 997);
        let module = driver.load(&artifact(&[large])).unwrap();
        let error = driver.bind(&module.kernel(0).unwrap(), &[at(1, 0)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "kernel `talker`: out of device memory for its log: 997 bytes requested, 4 in use"
        );
        assert_eq!(driver.used_memory(), 4);
        let fits = counting("talker").with_log(lines(), 996);
        bind(&driver, &artifact(&[fits]));
        assert_eq!(driver.used_memory(), 4, "it goes with the bound kernel");
    });
    on_device(|| {
        let x = node("x", 1);
        let driver = open(&CudaConfig { memory_limit: Some(1000), ..CudaConfig::default() });
        let call = KernelCall {
            kernel: 0,
            args: vec![Slot::Node(NodeRef(0))],
            bindings: vec![Binding::Symbol(SymbolId(0))],
        };
        let artifact = artifact(&[counting("talker").with_log(lines(), 2000)]);
        let code = many_kernels("talk", from_ref(&x), &[symbol("n", 9)], artifact, vec![call], vec![]);
        let context = context(&device(&driver)).init_from_host(&x, array(&[0])).unwrap();
        let before = driver.used_memory();
        let error = context.link(&code, from_ref(&x)).unwrap_err();
        let RunError::Driver { source: DriverError::NoRoomForLog { kernel, requested: 2000, .. }, .. } =
            &error
        else {
            panic!("{error}")
        };
        assert_eq!((kernel.as_str(), driver.used_memory()), ("talker", before));
    });
}

#[test]
fn code_that_contradicts_itself_about_logs_is_rejected() {
    on_device(|| {
        let driver = open(&CudaConfig::default());
        let rejected = |kernel: Kernel| driver.load(&artifact(&[kernel])).map(drop).unwrap_err().to_string();
        let text = rejected(counting("talker").with_log(lines(), 15));
        assert!(text.contains("kernel `talker`: bytes of its log: expected 16 or more, found 15"), "{text}");
        let text = rejected(counting("mute").with_log(vec![], 16));
        assert!(text.contains("kernel `mute`: bytes of its log: expected 0"), "{text}");
        let kernel = [counting("talker")];
        let fewer = [kernel[0].clone().with_symbols(0)];
        let text = driver.load(&artifact_of(&fewer, module(&kernel))).map(drop).unwrap_err().to_string();
        assert_eq!(text, "kernel `talker`: expected 2 parameters in its PTX, found 3");
    });
}

/// The log is larger than a stream's staging memory. One of two kernels has a sink.
#[test]
fn logs_of_any_size_are_copied_if_anybody_listens() {
    let notes = on_device(|| {
        let (driver, stream) = started(&CudaConfig::default());
        let log = Log::default();
        let large = || artifact(&[counting("large").with_log(lines(), (20 << 20) + 4)]);
        let (bound, unheard) = (bind(&driver, &logging_to(large(), log.clone())), bind(&driver, &large()));
        for n in [0, 1, 0] {
            launch(&driver, &stream, &bound, n).unwrap();
            launch(&driver, &stream, &unheard, n).unwrap();
        }
        sync(&driver, &stream).unwrap();
        let dropped = "DROPPED: 1 lines; the log of a run has room for 20971524 bytes";
        assert_eq!(log.text(), format!("x = 1, n = 0\nx = 3, n = 1\n{dropped}\nx = 5, n = 0\n"));
    });
    let Some(notes) = notes else { return };
    assert!(notes.count("pin 4194304") <= 4, "as many pieces as a stream may have");
}

#[test]
fn the_kernels_that_log_assemble() {
    assembles(&[counting("count")]);
}
