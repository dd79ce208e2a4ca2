//! Random programs with random statements that fall back: the bits are those of the undivided program.

use arrayjit::settings::{FallbackSetting, NumericClass};
use arrayjit::{Backend, HostArray, OptimizeSettings, TensorNode};
use filetests::generate::{GeneratedProgram, program_from_seed};
use lowered_ir::ir::LoweredRoutine;
use random_programs::{ProgramWeights, effort};

use super::rejecting::{rejecting, settings};

/// Rejects about half of all kernels, depending on their content.
fn some(seed: u64) -> impl Fn(&LoweredRoutine) -> Option<String> + Send + Sync {
    move |kernel| {
        // Hashes the statements only, so that kernels with the same statements are rejected alike.
        let mut hash = seed;
        for stmt in &kernel.body {
            for byte in lowered_ir::text::print_stmt(kernel, stmt).bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
        (hash >> 20).is_multiple_of(2).then(|| "this".to_owned())
    }
}

/// An array of small fractions and whole numbers.
fn filled(node: &TensorNode, seed: u64) -> HostArray {
    let mut array = HostArray::zeros(node.dtype(), node.dims().unwrap()).unwrap();
    let mut rng = fastrand::Rng::with_seed(seed);
    let values: Vec<f64> = (0..array.values().len()).map(|_| f64::from(rng.i32(-8..=8)) / 4.0).collect();
    array.set_values(&values).unwrap();
    array
}

/// The bytes of every node in the context after each of three runs, or the error's text.
fn outcome(
    backend: &Backend,
    program: &GeneratedProgram,
    tally: &mut FallbackTally,
) -> Result<Vec<Vec<u8>>, String> {
    let code = backend.compile(&program.text, &program.nodes).map_err(|e| e.to_string())?;
    tally.count(&code);
    // Gives a value to every node that the optimizer neither inlines nor makes local.
    let mut context = backend.context().unwrap();
    for (at, node) in program.nodes.iter().enumerate() {
        if !node.mode().known_not_materialized() {
            context = context.init_from_host(node, filled(node, at as u64)).unwrap();
        }
    }
    let routine = code.link(&context).map_err(|e| e.to_string())?;
    tally.shared += routine.context().nodes().iter().filter(|node| !program.nodes.contains(node)).count();
    let mut found = Vec::new();
    for bindings in routine.all_bindings().take(3) {
        routine.run(&bindings).unwrap().sync().unwrap();
        let present = program.nodes.iter().filter(|node| routine.context().contains(node));
        found.extend(present.map(|node| routine.context().to_host(node).unwrap().bytes().to_vec()));
    }
    Ok(found)
}

#[derive(Debug, Default)]
struct FallbackTally {
    divided: usize,
    parts: usize,
    fallbacks: usize,
    /// The number of local nodes that several parts touch.
    shared: usize,
}

impl FallbackTally {
    fn count(&mut self, code: &arrayjit::Compiled) {
        self.divided += usize::from(code.codes().count() > 1);
        self.parts += code.codes().count();
        self.fallbacks += code.fallbacks().len();
    }
}

/// Compares `programs` programs, divided and undivided; the bits must be equal.
fn compare(programs: u64, draw: impl Fn(u64) -> GeneratedProgram) -> FallbackTally {
    let mut tally = FallbackTally::default();
    for seed in effort::seeds(programs) {
        let mut settings = settings(FallbackSetting::Inline);
        settings.numerics = if seed % 2 == 0 { NumericClass::Fast } else { NumericClass::Strict };
        let optimizer = OptimizeSettings { max_visits: seed % 3, ..settings.optimizer() };
        let whole = Backend::open_with("multicore", &settings).unwrap();
        let partial = rejecting("multicore", settings, some(seed));
        let [whole, partial] = [whole, partial].map(|backend| backend.with_optimizer(optimizer.clone()));
        let [expected, found] = [&whole, &partial].map(|backend| {
            let program = draw(seed);
            (outcome(backend, &program, &mut tally), program.text)
        });
        assert_eq!(found, expected, "seed {seed}");
    }
    tally
}

#[test]
fn random_programs_have_the_bits_of_undivided_ones() {
    let tally = compare(30, |seed| program_from_seed(seed, 400));
    assert!(tally.divided > 5 && tally.fallbacks > 10, "{tally:?}");
}

#[test]
fn chains_of_statements_have_the_bits_of_undivided_ones() {
    let tally = compare(45, |seed| {
        GeneratedProgram::accepted(random_programs::program_from_seed(seed, 900, &ProgramWeights::chains()))
    });
    // The kernels differ with the width of vectors, and with them which ones are rejected.
    assert!(tally.divided > 10 && tally.fallbacks > 25 && tally.shared > 10, "{tally:?}");
}
