//! Random programs: entries compute the bits of code that is compiled in the process.
//!
//! The variable `EFFORT` says how many programs (`random_programs::effort`).

use arrayjit::{Backend, HostArray};
use arrayjit_aot::{ArrayParameter, CompiledProgram, Library};
use filetests::generate::observed;
use object_loader::{LoadedObject, levels};
use random_programs::{ProgramWeights, effort, program_from_seed};

use crate::programs::{TRIPLE, reference, run, symbol};

/// A random program as a routine of a library, with a run of it in this process.
pub(crate) struct RandomRun {
    /// The program as text.
    pub(crate) text: String,
    /// The values of the routine's parameters.
    pub(crate) bindings: Vec<i64>,
    /// The values of all arrays after the run.
    pub(crate) expected: Vec<HostArray>,
}

/// Adds the program of a seed under a name, and runs it in this process; `None` if the process, or the
/// library, has no such program.
pub(crate) fn add_random(library: &mut Library, name: &str, seed: u64) -> Option<RandomRun> {
    let program = program_from_seed(seed, 50 + seed as usize % 150, &ProgramWeights::one_routine());
    let program = observed(program);
    if program.nodes.iter().any(|node| node.padding().is_some()) {
        return None; // callers of objects give no margins
    }
    let text = program.text(0);
    let nodes = || program.nodes.iter().map(|node| node.tensor_node()).collect::<Vec<_>>();
    let backend = Backend::open("inline").expect("a backend");
    let compiled = backend.compile(&text, nodes()).ok()?;
    let added = library.add(name, |backend| backend.compile(&text, nodes()).map(CompiledProgram::from));
    let routine = match added {
        Ok(routine) => routine,
        Err(error) => {
            let has_function = !error.to_string().contains("an object file has no such function");
            assert!(!has_function, "seed {seed}: {error}\n{program}");
            return None;
        }
    };
    let bindings: Vec<i64> = routine.parameters().iter().map(|symbol| symbol.interval().0).collect();
    let expected = reference(&backend, &compiled, routine, &bindings);
    Some(RandomRun { text: program.to_string(), bindings, expected })
}

/// Whether the bytes are those of the values, up to the choice of NaN.
pub(crate) fn agrees(array: &ArrayParameter, expected: &HostArray, found: &[u8]) -> bool {
    let size = array.dtype.size_bytes();
    let mut elements = expected.bytes().chunks(size).zip(found.chunks(size)).enumerate();
    let values = expected.values();
    let found =
        HostArray::from_bytes(array.dtype, array.dims.iter().copied(), found).expect("whole elements");
    let is_nan = |at: usize| values[at].is_nan() && found.values()[at].is_nan();
    elements.all(|(at, (expected, found))| expected == found || array.dtype.is_float() && is_nan(at))
}

#[test]
fn random_programs_have_the_bits_of_the_process() {
    let (mut same, mut rejected) = (0, 0);
    for seed in effort::seeds(200) {
        let level = levels()[seed as usize % levels().len()];
        let library = Library::with_levels("random", TRIPLE, &[level]).expect("a target");
        let mut library = if seed % 2 == 0 { library } else { library.with_products() };
        let Some(RandomRun { text, bindings, expected }) = add_random(&mut library, "f", seed) else {
            rejected += 1;
            continue;
        };
        let routine = &library.routines()[0];
        let object = LoadedObject::new(&library.object().expect("a small object"));
        let found = run(&object, &symbol("random", "f", level), routine, &bindings).expect("in range");
        for ((array, expected), found) in routine.arrays().iter().zip(&expected).zip(&found) {
            let node = &array.node;
            assert!(agrees(array, expected, found), "seed {seed} at {level}: `{node}` differs\n{text}");
        }
        same += 1;
    }
    assert!(same > 2 * rejected, "{same} programs are the same, {rejected} are rejected");
}
