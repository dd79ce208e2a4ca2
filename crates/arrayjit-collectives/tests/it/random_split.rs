//! Random programs that are split: all parts together leave the bits of the whole program.

use arrayjit::{
    Assignments, Backend, Compiled, Context, HostArray, OptimizeSettings, Routine, Settings, TensorNode,
    settings::NumericClass, text,
};
use arrayjit_collectives::{BucketSizes, split_gradient};
use filetests::generate::{GeneratedProgram, program_from_seed};
use random_programs::{Choices, ProgramWeights, bytes_of_seed, effort};

/// An array of small fractions and whole numbers.
fn filled(node: &TensorNode, seed: usize) -> HostArray {
    let mut array = HostArray::zeros(node.dtype(), node.dims().unwrap()).unwrap();
    let value = |at: usize| ((at * 7919 + seed * 104_729) % 17) as f64 / 4.0 - 2.0;
    let values: Vec<f64> = (0..array.values().len()).map(value).collect();
    array.set_values(&values).unwrap();
    array
}

/// Runs the parts of a program in order, with each of three bindings. Returns the bytes of every node in the
/// context after each run, none for the others; or the error's text.
fn outcome(
    backend: &Backend,
    nodes: &[TensorNode],
    parts: &[Assignments],
) -> Result<Vec<Option<Vec<u8>>>, String> {
    let compiled = parts.iter().map(|part| backend.compile_assignments(part));
    let compiled: Vec<Compiled> = compiled.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let mut context = backend.context().unwrap();
    for (at, node) in nodes.iter().enumerate() {
        if !node.mode().known_not_materialized() {
            context = context.init_from_host(node, filled(node, at)).unwrap();
        }
    }
    let mut routines: Vec<Routine> = Vec::new();
    for part in &compiled {
        let routine = part.link(&context).map_err(|error| error.to_string())?;
        context = routine.context().clone();
        routines.push(routine);
    }
    let mut found = Vec::new();
    for seed in 0..3 {
        routines.iter().for_each(|routine| run(routine, seed));
        found.extend(nodes.iter().map(|node| bytes(&context, node)));
    }
    Ok(found)
}

/// Runs a routine; symbols of the same name have the same value in all routines.
fn run(routine: &Routine, seed: i64) {
    let value = |symbol: &arrayjit::Symbol| (seed * 5 + symbol.name.len() as i64) % symbol.range;
    let bindings: Vec<i64> = routine.bindings().iter().map(value).collect();
    routine.run(&bindings).unwrap().sync().unwrap();
}

/// The bytes of a node. The bits of a NaN are not determined, so all have the same here.
fn bytes(context: &Context, node: &TensorNode) -> Option<Vec<u8>> {
    let array = context.contains(node).then(|| context.to_host(node).unwrap())?;
    let (mut bytes, values) = (array.bytes().to_vec(), array.values());
    let elements = bytes.chunks_mut(node.dtype().size_bytes()).zip(values);
    elements.filter(|(_, value)| value.is_nan()).for_each(|(bytes, _)| bytes.fill(0xff));
    Some(bytes)
}

/// Splits the program at some of the nodes that it writes.
fn split(program: &Assignments, seed: u64) -> Vec<Assignments> {
    let bytes = bytes_of_seed(seed, 64);
    let mut choices = Choices::new(&bytes);
    let written = program.written_nodes().into_iter().filter(|node| !node.mode().known_virtual());
    let summed: Vec<TensorNode> = written.filter(|_| *choices.pick(&[true, false])).collect();
    let size = *choices.pick(&[1, 16, 64]);
    let buckets = split_gradient(program, &summed, BucketSizes { first: size, others: size }).unwrap();
    if buckets.is_empty() {
        return vec![program.clone()];
    }
    buckets.into_iter().map(|bucket| bucket.program).collect()
}

/// Compares programs that are split with whole ones. Returns the number of parts, for programs with several.
fn compare(programs: u64, draw: impl Fn(u64) -> GeneratedProgram) -> usize {
    let mut parts_of_all = 0;
    for seed in effort::seeds(programs) {
        let mut settings = Settings::default();
        settings.numerics = if seed % 2 == 0 { NumericClass::Fast } else { NumericClass::Strict };
        let optimizer = OptimizeSettings { max_visits: seed % 3, ..settings.optimizer() };
        let backend = Backend::open_with("multicore", &settings).unwrap().with_optimizer(optimizer);
        // Nodes learn where they live from compilation, so each outcome has its own.
        let [whole, parted] = [false, true].map(|is_split| {
            let GeneratedProgram { text, nodes } = draw(seed);
            let program = text::parse(&text, &nodes).unwrap();
            let parts = if is_split { split(&program, seed) } else { vec![program] };
            (outcome(&backend, &nodes, &parts), parts.len(), text)
        });
        let (expected, found, text) = (whole.0, parted.0, whole.2);
        if parted.1 > 1 {
            parts_of_all += parted.1;
        }
        match (expected, found) {
            (Ok(expected), Ok(found)) => {
                for (at, (expected, found)) in expected.iter().zip(&found).enumerate() {
                    assert!(expected.is_none() || found == expected, "seed {seed}, value {at}:\n{text}");
                }
            }
            (Err(_), _) => {}
            (Ok(_), Err(error)) => panic!("seed {seed}: {error}\n{text}"),
        }
    }
    parts_of_all
}

#[test]
fn parts_of_random_programs_have_the_bits_of_whole_ones() {
    let parts = compare(40, |seed| program_from_seed(seed, 400));
    assert!(parts > 10, "{parts}");
}

#[test]
fn parts_of_chains_of_statements_have_the_bits_of_whole_ones() {
    let parts = compare(15, |seed| {
        GeneratedProgram::accepted(random_programs::program_from_seed(seed, 900, &ProgramWeights::chains()))
    });
    assert!(parts > 10, "{parts}");
}
