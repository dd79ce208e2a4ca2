//! Random programs, and random products: entries compute the bits of code that is compiled in the process.
//!
//! The variable `EFFORT` says how many programs (`random_programs::effort`).

use arrayjit::{Backend, HostArray, Nodes};
use arrayjit_aot::{AotError, ArrayParameter, CompiledProgram, Library, ObjectLevel};
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
        Err(AotError::Empty { .. }) => return None, // a program without statements
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

/// A product of matrices or a convolution of a seed, with extents that fill no whole number of tiles.
fn random_product(seed: u64) -> String {
    let random = &mut fastrand::Rng::with_seed(seed);
    let types =
        [["f32", "f32"], ["f32", "f32"], ["f64", "f64"], ["f16", "bf16"], ["u8", "i8"], ["f32", "f16"]];
    let [a, b] = types[random.usize(..types.len())];
    let [m, n, k] = [0; 3].map(|_| random.usize(16..90));
    let (deep, batch) = (if random.u8(..4) == 0 { 9 * k } else { k }, random.usize(1..4));
    let [left, right] = if a == "u8" { ["i32(a[", "i32(b["] } else { ["(a[", "(b["] };
    let inputs = match random.u8(..6) {
        0 => format!("a {a}[{m}, {deep}], b {b}[{n}, {deep}]; c[i,j] :+= {left}i,k]) * {right}j,k])"),
        1 => format!("a {a}[{deep}, {m}], b {b}[{deep}, {n}]; c[i,j] :+= {left}k,i]) * {right}k,j])"),
        2 => format!(
            "a {a}[{batch}, {m}, {k}], b {b}[{batch}, {k}, {n}]; c[e,i,j] :+= {left}e,i,k]) * {right}e,k,j])"
        ),
        3 => format!(
            "a {a}[{batch}, {k}, 13, 15], b {b}[{n}, {k}, 3, 2]
             c[e,o,i,j] :+= {left}e,k,i+p,j+q]) * {right}o,k,p,q])"
        ),
        4 => format!(
            "a {a}[{k}, 31, 32], b {b}[{n}, {k}, 3, 3]
             c[o,i,j] :+= {left}k,2*i+p,2*j+q]) * {right}o,k,p,q]) where i < 14, j < 15"
        ),
        _ => format!("a {a}[{m}, {deep}], b {b}[{deep}, {n}]; c[i,j] :+= {left}i,k]) * {right}k,j])"),
    };
    let letters =
        inputs.split_once("c[").and_then(|(_, rest)| rest.split_once(']')).map_or("", |(all, _)| all);
    let function = ["max(c[_], 0)", "tanh(c[_]) + 1", "c[_] * c[_]", "where(c[_] > 0, c[_], c[_] / 4)"];
    let epilogue = function[random.usize(..4)].replace('_', letters);
    match random.bool() && a != "u8" {
        true => format!("input {inputs}; y[{letters}] := {epilogue}; keep y"),
        false => format!("input {inputs}; keep c"),
    }
}

/// Adds the product of a seed under a name, and runs it in this process.
pub(crate) fn add_product(library: &mut Library, name: &str, seed: u64) -> RandomRun {
    add(library, name, random_product(seed))
}

/// Adds a text under a name, and runs it in this process.
fn add(library: &mut Library, name: &str, text: String) -> RandomRun {
    let backend = Backend::open("inline").expect("a backend");
    let failed = |error: &dyn std::fmt::Display| -> ! { panic!("{error}\n{text}") };
    let compiled = backend.compile(&text, &Nodes::default()).unwrap_or_else(|error| failed(&error));
    let routine = library.add_text(name, &text, &[]).unwrap_or_else(|error| failed(&error));
    let expected = reference(&backend, &compiled, routine, &[]);
    RandomRun { text, bindings: Vec::new(), expected }
}

/// Compares the only routine of a library with a run of the process.
fn check(library: &Library, seed: u64, level: ObjectLevel, expected: &RandomRun) {
    let RandomRun { text, bindings, expected } = expected;
    let routine = &library.routines()[0];
    let object = LoadedObject::new(&library.object().expect("a small object"));
    let found = run(&object, &symbol("random", "f", level), routine, bindings).expect("in range");
    for ((array, expected), found) in routine.arrays().iter().zip(expected).zip(&found) {
        let node = &array.node;
        assert!(agrees(array, expected, found), "seed {seed} at {level}: `{node}` differs\n{text}");
    }
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

/// Without AVX, comparisons need operands in memory to be aligned to a vector.
#[test]
fn elements_that_are_not_aligned_to_vectors_are_compared() {
    for (dtype, extent) in [("f32", 6), ("f64", 4)] {
        for level in levels() {
            let mut library = Library::with_levels("random", TRIPLE, &[level]).expect("a target");
            let value = "where(x[i, j, k + 1] >= 1, 2, 3) where i < 2, j < 4";
            let text = format!("input x {dtype}[2, 4, {extent}]; y[i, j, k] := {value}; keep y");
            let expected = add(&mut library, "f", text);
            check(&library, 0, level, &expected);
        }
    }
}

#[test]
fn random_programs_have_the_bits_of_the_process() {
    let (mut same, mut rejected) = (0, 0);
    for seed in effort::seeds(200) {
        let level = levels()[seed as usize % levels().len()];
        let library = Library::with_levels("random", TRIPLE, &[level]).expect("a target");
        let has_products = seed as usize / levels().len() % 2 == 1;
        let mut library = if has_products { library.with_products() } else { library };
        let Some(expected) = add_random(&mut library, "f", seed) else {
            rejected += 1;
            continue;
        };
        check(&library, seed, level, &expected);
        same += 1;
    }
    assert!(same > 2 * rejected, "{same} programs are the same, {rejected} are rejected");
}

#[test]
fn random_products_have_the_bits_of_the_process() {
    for seed in effort::seeds(40) {
        let level = levels()[seed as usize % levels().len()];
        let mut library = Library::with_levels("random", TRIPLE, &[level]).expect("a target").with_products();
        let expected = add_product(&mut library, "f", seed);
        check(&library, seed, level, &expected);
        // Products of operands of two narrow types are code of the object.
        let is_called = level != ObjectLevel::X86V2 && !expected.text.contains("bf16");
        assert_eq!(library.calls_products(), is_called, "seed {seed} at {level}\n{}", expected.text);
    }
}
