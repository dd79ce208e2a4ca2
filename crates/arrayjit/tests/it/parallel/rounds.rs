//! Data-parallel rounds: their streams, their sums, and the distribution of the result.

use arrayjit::{
    Backend, ErrorKind, HostArray, TensorNode,
    parallel::{DataParallel, DataParallelJob, MergeMethod, ParallelError, replicate},
    trace::TraceFile,
};
use codegen_testkit::in_own_process;
use tracing_subscriber::{Registry, layer::SubscriberExt};

use super::{array, contexts, node, open};
use crate::trace::timeline::Timeline;

const ROWS: usize = 8;
const COLUMNS: usize = 3;

/// A program that adds rows of `x` and the previous value of `p` to `p`, once for each row of a round. All
/// numbers are small integers.
pub(crate) struct RoundProgram {
    x: TensorNode,
    pub(crate) p: TensorNode,
    g: TensorNode,
    loss: TensorNode,
    total: TensorNode,
}

fn data() -> HostArray {
    let values: Vec<f32> = (0..ROWS * COLUMNS).map(|i| (i % 7) as f32).collect();
    array(&values, &[ROWS, COLUMNS])
}

impl RoundProgram {
    pub(crate) fn new() -> RoundProgram {
        let (x, p, g) = (node("x", &[ROWS, COLUMNS]), node("p", &[COLUMNS]), node("g", &[COLUMNS]));
        RoundProgram { x, p, g, loss: node("loss", &[]), total: node("total", &[]) }
    }

    pub(crate) fn link(
        &self,
        backend: &Backend,
        streams: usize,
        devices: usize,
        by: MergeMethod,
    ) -> DataParallel {
        let RoundProgram { x, p, g, loss, total } = self;
        let gradient =
            backend.compile_named("gradient", "g[j] := x[@i,j] + p[j]\nloss :+= x[@i,j]", [x, p, g, loss]);
        let update = backend.compile_named("update", "p[j] += g[j]\ntotal += loss", [p, g, loss, total]);
        let streams = contexts(backend, streams, devices);
        let first = streams[0].init_from_host(x, data()).unwrap();
        let first = first.init_from_host(p, array(&[1., 2., 3.], &[COLUMNS])).unwrap();
        let first = first.init_from_host(total, array(&[0.], &[])).unwrap();
        let mut replicas = Vec::new();
        for context in &streams[1..] {
            // On the first stream's device, `x` is shared.
            let shares = context.stream().device() == first.stream().device();
            let own = if shares { vec![p.clone()] } else { vec![p.clone(), x.clone()] };
            replicas.extend(replicate(&first, &own, [context.stream()]).unwrap());
        }
        let job = DataParallelJob {
            gradient: &gradient.unwrap(),
            update: &update.unwrap(),
            summed: &[g.clone(), loss.clone()],
            parameters: std::slice::from_ref(p),
            merge_method: by,
        };
        DataParallel::link(backend, &job, &[&[first][..], &replicas].concat()).unwrap()
    }

    /// Writes the initial values again.
    pub(crate) fn begin(&self, steps: &DataParallel) {
        for context in steps.contexts() {
            let _ = context.from_host(&self.p, array(&[1., 2., 3.], &[COLUMNS])).unwrap();
        }
        let _ = steps.context().from_host(&self.total, array(&[0.], &[])).unwrap();
    }
}

/// The same computation on the host: `p` and the total of the losses, after passes over all rows in rounds of
/// `streams` rows.
pub(crate) fn by_hand(streams: usize, passes: usize) -> (Vec<f64>, f64) {
    let x = data().values();
    let (mut p, mut total) = (vec![1.0, 2.0, 3.0], 0.0);
    for _ in 0..passes {
        for round in x.chunks(streams * COLUMNS) {
            let before = p.clone();
            for row in round.chunks(COLUMNS) {
                (0..COLUMNS).for_each(|j| p[j] += row[j] + before[j]);
                total += row.iter().sum::<f64>();
            }
        }
    }
    (p, total)
}

/// Eight rows in rounds of three leave a last round of two, in which the third stream's old gradient and loss
/// must not be added.
#[test]
fn a_round_sums_what_its_streams_computed() {
    for (backend, devices) in [("multicore", 1), ("multicore", 2), ("inline", 1)] {
        for streams in 1..=9 {
            for by in [MergeMethod::Copy, MergeMethod::Streaming] {
                let program = RoundProgram::new();
                let steps = program.link(&open(backend), streams, devices, by);
                for _ in 0..2 {
                    steps.run(steps.all_bindings()).unwrap();
                }
                let (p, total) = by_hand(streams, 2);
                let what = format!("{streams} streams of {devices} devices of {backend} by {by:?}");
                assert_eq!(steps.context().to_host(&program.total).unwrap().values(), [total], "{what}");
                for context in steps.contexts() {
                    assert_eq!(context.to_host(&program.p).unwrap().values(), p, "{what}");
                }
            }
        }
    }
}

#[test]
fn a_call_out_of_range_is_an_error_and_leaves_the_rest_usable() {
    let program = RoundProgram::new();
    let steps = program.link(&open("multicore"), 2, 1, MergeMethod::Streaming);
    let message = steps.run([[0i64], [8]]).unwrap_err().to_string();
    assert!(message.contains("@i") || message.contains("`i`"), "{message}");
    program.begin(&steps);
    steps.run(steps.all_bindings()).unwrap();
    assert_eq!(steps.context().to_host(&program.p).unwrap().values(), by_hand(2, 1).0);
}

#[test]
fn nothing_is_linked_for_nobody() {
    let (backend, program) = (open("multicore"), RoundProgram::new());
    let code = backend.compile("g[j] := p[j]", [&program.g, &program.p]).unwrap();
    let (summed, parameters) = (&[][..], &[][..]);
    let job = DataParallelJob {
        gradient: &code,
        update: &code,
        summed,
        parameters,
        merge_method: MergeMethod::default(),
    };
    let error = DataParallel::link(&backend, &job, &[]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Parallel(ParallelError::NoContexts)), "{error}");
}

/// The caller's thread only schedules rounds: streams wait for each other by events.
///
/// The test runs in a process of its own. `tracing` caches per call site whether a subscriber listens, and a
/// thread of another test that reaches a call site at the same moment may store that none does.
#[test]
fn the_caller_of_a_round_waits_for_nothing() {
    if !in_own_process("parallel::rounds::the_caller_of_a_round_waits_for_nothing") {
        return;
    }
    for devices in [1, 2] {
        let program = RoundProgram::new();
        let steps = program.link(&open("multicore"), 4, devices, MergeMethod::Streaming);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        let file = TraceFile::create(&path).unwrap();
        let subscriber = Registry::default().with(file.layer());
        tracing::subscriber::with_default(subscriber, || steps.run(steps.all_bindings()).unwrap());
        file.finish().unwrap();
        let timeline = Timeline::read(&path);
        let paths = || timeline.tracks.values().flatten().map(|slice| &slice.path);
        assert_eq!(paths().filter(|path| path.ends_with("launch gradient")).count(), ROWS);
        assert!(!paths().any(|path| path.contains("wait")), "{:?}", paths().collect::<Vec<_>>());
        assert_eq!(steps.context().to_host(&program.p).unwrap().values(), by_hand(4, 1).0);
    }
}

#[test]
fn calls_of_threads_take_turns() {
    let backend = open("multicore");
    for by in [MergeMethod::Copy, MergeMethod::Streaming] {
        let program = RoundProgram::new();
        let steps = program.link(&backend, 3, 1, by);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| steps.run(steps.all_bindings()).unwrap());
            }
        });
        assert_eq!(steps.context().to_host(&program.p).unwrap().values(), by_hand(3, 3).0, "{by:?}");
    }
}
