//! The temporaries of compiled routines: those that are alive together never overlap, and all of them take
//! little more memory than the largest set that is alive at once.

use arrayjit::{Backend, Compiled, DType, HostArray, Settings, TensorNode};
use codegen_core::ScheduledRoutine;
use lowered_ir::pipeline::optimize;
use random_programs::{ProgramNode, ProgramWeights, SplitMix64, program_from_seed};
use scheduling::{ScheduleOptions, schedule};

/// How much larger the pool may be than the largest live set.
const OVERHEAD: f64 = 1.05;

/// The plans of a test, and the number of pairs of temporaries that are alive together.
#[derive(Debug, Default)]
struct Plans {
    routines: usize,
    temporaries: usize,
    alive_together: usize,
    /// The largest ratio of a pool to its largest live set.
    largest_ratio: f64,
}

impl Plans {
    /// Checks a plan. Each temporary takes whole units of the alignment.
    fn check(&mut self, schedule: &ScheduledRoutine, alignment: usize, what: &str) {
        let temps = schedule.temps();
        let end = |at: usize| temps[at].offset + temps[at].bytes.next_multiple_of(alignment);
        let (mut live_bytes, mut pool) = (vec![0; schedule.calls().len()], 0);
        for (at, temp) in temps.iter().enumerate() {
            pool = pool.max(end(at));
            for live in &mut live_bytes[temp.live.0..=temp.live.1] {
                *live += end(at) - temp.offset;
            }
            for (other, earlier) in temps[..at].iter().enumerate() {
                if temp.live.0 <= earlier.live.1 && earlier.live.0 <= temp.live.1 {
                    let apart = end(at) <= earlier.offset || end(other) <= temp.offset;
                    assert!(apart, "{earlier:?} and {temp:?} of\n{what}");
                    self.alive_together += 1;
                }
            }
        }
        self.routines += 1;
        self.temporaries += temps.len();
        if let Some(largest) = live_bytes.into_iter().max().filter(|&bytes| bytes > 0) {
            let ratio = pool as f64 / largest as f64;
            assert!(ratio <= OVERHEAD, "a pool of {pool} bytes for {largest} of\n{what}");
            self.largest_ratio = self.largest_ratio.max(ratio);
        }
    }

    fn check_compiled(&mut self, compiled: &Compiled, alignment: usize, what: &str) {
        compiled.codes().for_each(|code| self.check(code.schedule(), alignment, what));
    }
}

/// A report names each temporary, and the kernel calls during which it exists.
#[cfg(feature = "cranelift")]
#[test]
fn reports_name_temporaries() {
    let text = "
        input x f32[128, 128], w f32[128, 64]
        a[i,j] :+= x[i,k] * x[k,j]
        b[i,j] :+= a[i,k] * a[k,j]
        c[i,j] :+= b[i,k] * w[k,j]
        keep c";
    let backend = backend();
    let code = backend.compile_named("step", text, [] as [TensorNode; 0]).expect("legal");
    let mut context = backend.context().expect("a device");
    for (name, dims) in [("x", [128, 128]), ("w", [128, 64])] {
        let zeros = HostArray::zeros(DType::F32, dims).expect("small");
        context = context.init_from_host(code.node(name).expect("declared"), &zeros).expect("memory");
    }
    let _routine = code.link(&context).expect("all nodes have values");
    let report = context.stream().device().memory_report().to_string();
    for temporary in ["a (calls 0 to 1 of `step`)", "b (calls 1 to 2 of `step`)"] {
        assert!(report.contains(temporary), "{report}");
    }
}

/// A backend on which intermediates of every size live during the run only.
fn backend() -> Backend {
    let name = if cfg!(feature = "cranelift") { "multicore" } else { "interpreter" };
    Backend::open_with(name, &Settings::default()).expect("it is in this build")
}

#[test]
fn temporaries_alive_together_never_overlap() {
    let (backend, mut plans) = (backend(), Plans::default());
    let alignment = backend.codegen().caps().alignment;
    // Without a stack, and with loops divided even if they are short, the corpus has more temporaries.
    let options = ScheduleOptions { stack_bytes: 0, grain_work: 1, ..ScheduleOptions::default() };
    for case in filetests::run_cases() {
        let what = format!("{}:{}", case.path.display(), case.line);
        let Ok(optimized) = optimize(case.routine.clone(), &backend.settings().optimizer()) else { continue };
        if let Ok(schedule) = schedule(&optimized.routine, backend.codegen(), &options) {
            plans.check(&schedule, alignment, &what);
        }
    }
    for weights in [ProgramWeights::chains(), ProgramWeights::large_nodes(), ProgramWeights::one_routine()] {
        for seed in 0..60 {
            let program = program_from_seed(seed, 300, &weights);
            let nodes: Vec<TensorNode> = program.nodes.iter().map(ProgramNode::tensor_node).collect();
            if let Ok(compiled) = backend.compile(&program.text(0), &nodes) {
                plans.check_compiled(&compiled, alignment, &program.text(0));
            }
        }
    }
    for seed in 0..40 {
        let text = network(seed);
        let compiled =
            backend.compile(&text, [] as [TensorNode; 0]).unwrap_or_else(|e| panic!("{e}\n{text}"));
        plans.check_compiled(&compiled, alignment, &text);
    }
    println!("{plans:?}");
    assert!(plans.routines > 300 && plans.alive_together > 5000, "{plans:?}");
}

/// Matrix products of random earlier results, in random sizes. Products are not fused, so each result of the
/// chain has memory, from its product to its last use.
fn network(seed: u64) -> String {
    let mut random = SplitMix64::new(seed);
    let mut below = |n: usize| random.word() as usize % n;
    let mut text = "input x f32[48, 64]\n".to_owned();
    let mut results = vec!["x".to_owned()];
    for at in 0..12 + below(20) {
        let columns = 8 * (1 + below(40));
        let earlier = results[results.len() - 1 - below(results.len().min(6))].clone();
        let result = format!("h{at}");
        text += &format!("{result}[b,j] :+= {earlier}[b,i] * uniform({at}, i, j) where j < {columns}\n");
        results.push(result);
    }
    for (at, result) in results.iter().enumerate().skip(1) {
        text += &format!("s{at} :+= {result}[b,j] * {result}[b,j]\nkeep s{at}\n");
    }
    text
}
