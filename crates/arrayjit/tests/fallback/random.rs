//! Random programs of which random statements fall back: the bits of the undivided program.

use arrayjit::settings::{Class, FallbackTo};
use arrayjit::{Backend, HostArray, TensorNode};
use filetests::generate::{Program, program_from_seed};
use lowered_ir::ir::Routine as Ir;

use crate::refusing::{refusing, settings};

/// Refuses about half of all kernels, by their content.
fn some(seed: u64) -> impl Fn(&Ir) -> Option<String> + Send + Sync {
    move |kernel| {
        // By what is computed: the same statement is refused alone and among others, or not at all.
        let mut hash = seed;
        for stmt in &kernel.body {
            for byte in lowered_ir::text::print_stmt(kernel, stmt).bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
        (hash >> 20).is_multiple_of(2).then(|| "this".to_owned())
    }
}

/// Small fractions and whole numbers.
fn filled(node: &TensorNode, seed: u64) -> HostArray {
    let mut array = HostArray::zeros(node.dtype(), node.dims().unwrap()).unwrap();
    let mut rng = fastrand::Rng::with_seed(seed);
    let values: Vec<f64> = (0..array.values().len()).map(|_| f64::from(rng.i32(-8..=8)) / 4.0).collect();
    array.set_values(&values).unwrap();
    array
}

/// The bytes of every node in the context after each of three runs, or why there are none.
fn outcome(backend: &Backend, program: &Program, tally: &mut Tally) -> Result<Vec<Vec<u8>>, String> {
    let code = backend.compile(&program.text, &program.nodes).map_err(|e| e.to_string())?;
    tally.count(&code);
    // Whatever the optimiser does not inline or keep for a run has values.
    let mut context = backend.context().unwrap();
    for (at, node) in program.nodes.iter().enumerate() {
        if !node.mode().known_not_materialized() {
            context = context.init_from_host(node, &filled(node, at as u64)).unwrap();
        }
    }
    let routine = code.link(&context).map_err(|e| e.to_string())?;
    let mut found = Vec::new();
    for bindings in routine.all_bindings().take(3) {
        routine.run(&bindings).unwrap().sync().unwrap();
        let present = program.nodes.iter().filter(|node| routine.context().contains(node));
        found.extend(present.map(|node| routine.context().to_host(node).unwrap().bytes().to_vec()));
    }
    Ok(found)
}

#[derive(Debug, Default)]
struct Tally {
    divided: usize,
    parts: usize,
    fallbacks: usize,
}

impl Tally {
    fn count(&mut self, code: &arrayjit::Compiled) {
        self.divided += usize::from(code.codes().count() > 1);
        self.parts += code.codes().count();
        self.fallbacks += code.fallbacks().len();
    }
}

#[test]
fn random_programs_have_the_bits_of_undivided_ones() {
    let mut tally = Tally::default();
    for seed in 0..200 {
        let mut settings = settings(FallbackTo::Inline);
        settings.numerics = if seed % 2 == 0 { Class::Fast } else { Class::Strict };
        settings.virtualize_max_visits = seed % 3;
        settings.inline_simple_computations = seed % 5 == 0;
        let whole = Backend::open_with("multicore", settings.clone()).unwrap();
        let partial = refusing("multicore", settings, some(seed));
        let [expected, found] = [&whole, &partial].map(|backend| {
            let program = program_from_seed(seed, 400);
            (outcome(backend, &program, &mut tally), program.text)
        });
        assert_eq!(found, expected, "seed {seed}");
    }
    assert!(tally.divided > 60 && tally.fallbacks > 100, "{tally:?}");
}
