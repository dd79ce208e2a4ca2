//! Whole programs: the entries of objects compute the bits of a backend of this process.
#![allow(unsafe_code, reason = "entries of objects are called here")]

use arrayjit::{Backend, Compiled, DType, HostArray, Nodes, Routine, TensorNode};
use arrayjit_aot::{ConstantPlace, Library, LibraryRoutine, ObjectLevel};
use object_loader::{LoadedObject, levels};

pub(crate) use object_loader::TRIPLE;

/// The programs, each with the values of its parameters among the symbols.
pub(crate) const PROGRAMS: &[(&str, &str, &[i64])] = &[
    ("elementwise", "input x f32[7, 9]; y[i,j] := tanh(x[i,j]) * 2 + exp(x[i,j]); keep y", &[]),
    ("sums", "input x f32[33, 70]; s[i] :+= x[i,j] * x[i,j]; m :max= s[i]; keep s, m", &[]),
    ("product", "input a f32[37, 53], b f32[53, 29]; c[i,j] :+= a[i,k] * b[k,j]; keep c", &[]),
    ("narrow", "input a f16[16, 24], b bf16[24, 8]; c[i,j] :+= a[i,k] * b[k,j]; keep c", &[]),
    ("deep", "input a f32[150, 700], b f32[700, 90]; c[i,j] :+= a[i,k] * b[k,j]; keep c", &[]),
    ("batched", "input a f64[3, 20, 31], b f64[3, 31, 22]; c[n,i,j] :+= a[n,i,k] * b[n,k,j]; keep c", &[]),
    (
        "dense",
        "input x f32[40, 70], w f32[50, 70], b f32[50]
         y[i,o] :+= x[i,k] * w[o,k]
         z[i,o] := max(y[i,o] + b[o], 0)
         keep z",
        &[],
    ),
    (
        "convolution",
        "input x f32[2, 5, 18, 18], w f32[7, 5, 3, 3]
         y[n,o,i,j] :+= x[n,c,i+p,j+q] * w[o,c,p,q]
         keep y",
        &[],
    ),
    ("bytes", "input a u8[20, 40], b i8[40, 24]; c[i,j] :+= i32(a[i,k]) * i32(b[k,j]); keep c", &[]),
    ("rows", "size n <= 50; input x f32[n, 40], w f32[40, 33]; y[i,o] :+= x[i,k] * w[k,o]; keep y", &[37]),
    ("doubles", "input x f64[50]; y[i] := sqrt(abs(x[i])) + floor(x[i]) % 3; keep y", &[]),
    ("integers", "input x i32[20], n u8[20]; y[i] := pow(x[i], 3) + x[i] / (i32(n[i]) + 1); keep y", &[]),
    ("gathered", "input x f32[50], i i32[50], t f32[9]; y[j] := fma(x[j], t[i[j]], 1); keep y", &[]),
    ("position", "input x f32[9, 4]; y[j] := x[@at, j] where @at < 9; keep y", &[5]),
    ("sized", "size n <= 40; input x f32[n, 6]; s[j] :+= x[i,j]; y[i,j] := x[i,j] - s[j]; keep y", &[23]),
    (
        "training",
        "input x f32[16, 3], target f32[16]
         param w f32[3], b f32[4, 3]
         h[i,j] :+= x[i,k] * b[j,k]
         y[i] :+= x[i,k] * w[k]
         loss := mse(y[i], target[i])
         grad loss by w
         sgd(w[k], w.grad[k], 0.1)
         keep loss, h",
        &[],
    ),
];

/// The nodes of a compiled text that a run of it reads or writes, by the arrays of a routine. Sums of the
/// numbers are rounded, so that their bits depend on the order.
pub(crate) fn values(routine: &LibraryRoutine) -> Vec<HostArray> {
    let array = |(at, array): (usize, &arrayjit_aot::ArrayParameter)| {
        let mut values =
            HostArray::zeros(array.dtype, array.dims.iter().copied().collect::<arrayjit::Dims>())
                .expect("a small array");
        let number = |i: usize| ((i * 37 + at * 11) % 1013) as f64 / 145.0 - 3.0;
        let numbers: Vec<f64> = (0..array.len()).map(number).collect();
        fill(&mut values, array.dtype, &numbers);
        values
    };
    routine.arrays().iter().enumerate().map(array).collect()
}

/// Fills an array with numbers, rounded to its type.
fn fill(values: &mut HostArray, dtype: DType, numbers: &[f64]) {
    let size = dtype.size_bytes();
    for (bytes, &number) in values.bytes_mut().chunks_exact_mut(size).zip(numbers) {
        let bits = match dtype.is_float() {
            true => random_programs::format::encode(dtype, random_programs::format::round(dtype, number)),
            false => number.abs() as u64,
        };
        bytes.copy_from_slice(&bits.to_le_bytes()[..size]);
    }
}

/// The values of all arrays after a run of the text on a backend of this process.
pub(crate) fn reference_of_text(text: &str, routine: &LibraryRoutine, bindings: &[i64]) -> Vec<HostArray> {
    let backend = Backend::open("inline").expect("a backend");
    let compiled = backend.compile(text, &Nodes::default()).expect("a valid text");
    reference(&backend, &compiled, routine, bindings)
}

/// The values of all arrays after a run of a compiled program on its backend.
pub(crate) fn reference(
    backend: &Backend,
    compiled: &Compiled,
    routine: &LibraryRoutine,
    bindings: &[i64],
) -> Vec<HostArray> {
    let linked = linked_values(backend, compiled, routine);
    linked.run(bindings).expect("in range").sync().expect("ran");
    let read = |array| linked.context().to_host(&node(compiled, array)).expect("in the context");
    routine.arrays().iter().map(read).collect()
}

fn node(compiled: &Compiled, array: &arrayjit_aot::ArrayParameter) -> TensorNode {
    compiled.node(&array.node).expect("a node of the routine").clone()
}

/// A compiled program with values for all arrays.
pub(crate) fn linked_values(backend: &Backend, compiled: &Compiled, routine: &LibraryRoutine) -> Routine {
    let mut context = backend.context().expect("a context");
    for (array, values) in routine.arrays().iter().zip(values(routine)) {
        context = context.init_from_host(&node(compiled, array), values).expect("memory");
    }
    compiled.link(&context).expect("all nodes have values")
}

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

/// Bytes at an address that is a multiple of 64.
fn aligned(bytes: &[u8]) -> Vec<Line> {
    let line = |chunk: &[u8]| {
        let mut line = Line([0; 64]);
        line.0[..chunk.len()].copy_from_slice(chunk);
        line
    };
    bytes.chunks(64).map(line).chain([Line([0; 64])]).collect()
}

/// The bytes of all arrays after a run of an entry, or its status.
pub(crate) fn run(
    object: &LoadedObject,
    entry: &str,
    routine: &LibraryRoutine,
    bindings: &[i64],
) -> Result<Vec<Vec<u8>>, i64> {
    run_on(object, entry, routine, &values(routine), bindings)
}

/// The bytes of all arrays, which start with these values, after a run of an entry, or its status.
pub(crate) fn run_on(
    object: &LoadedObject,
    entry: &str,
    routine: &LibraryRoutine,
    values: &[HostArray],
    bindings: &[i64],
) -> Result<Vec<Vec<u8>>, i64> {
    let mut called = CalledEntry::with_values(object, entry, routine, values);
    match called.status(bindings) {
        0 => Ok(called.bytes(routine)),
        status => Err(status),
    }
}

/// An entry with its arrays and its arena.
pub(crate) struct CalledEntry<'o> {
    object: &'o LoadedObject,
    entry: &'o str,
    memory: Vec<Vec<Line>>,
    arena: Vec<Line>,
}

impl<'o> CalledEntry<'o> {
    /// The addresses of the arrays.
    pub(crate) fn args(&mut self) -> Vec<*mut u8> {
        self.memory.iter_mut().map(|lines| lines.as_mut_ptr().cast()).collect()
    }

    /// The bytes of all arrays.
    pub(crate) fn bytes(&self, routine: &LibraryRoutine) -> Vec<Vec<u8>> {
        let bytes = |(lines, array): (&Vec<Line>, &arrayjit_aot::ArrayParameter)| {
            let all: Vec<u8> = lines.iter().flat_map(|line| line.0).collect();
            all[..array.len() * array.dtype.size_bytes()].to_vec()
        };
        self.memory.iter().zip(routine.arrays()).map(bytes).collect()
    }

    pub(crate) fn new(object: &'o LoadedObject, entry: &'o str, routine: &LibraryRoutine) -> Self {
        CalledEntry::with_values(object, entry, routine, &values(routine))
    }

    pub(crate) fn with_values(
        object: &'o LoadedObject,
        entry: &'o str,
        routine: &LibraryRoutine,
        values: &[HostArray],
    ) -> Self {
        let memory = values.iter().map(|values| aligned(values.bytes())).collect();
        CalledEntry { object, entry, memory, arena: aligned(&vec![0xa5; routine.arena_bytes()]) }
    }

    fn status(&mut self, bindings: &[i64]) -> i64 {
        let args = self.args();
        // SAFETY: the arrays have the sizes of the routine, and the processor the level of the entry.
        unsafe { self.object.call(self.entry, &args, bindings, self.arena.as_mut_ptr().cast()) }
    }

    /// Runs an entry without parameters.
    pub(crate) fn run(&mut self) {
        assert_eq!(self.status(&[]), 0);
    }
}

pub(crate) fn symbol(library: &str, routine: &str, level: ObjectLevel) -> String {
    format!("{library}_{routine}_{}", level.to_string().replace('-', "_"))
}

fn check_programs(mut library: Library) -> Library {
    for (name, text, _) in PROGRAMS {
        library.add_text(name, text, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let object = LoadedObject::new(&library.object().expect("a small object"));
    for (routine, (name, text, bindings)) in library.routines().iter().zip(PROGRAMS) {
        let expected = reference_of_text(text, routine, bindings);
        for level in levels() {
            // The second run finds the plans of products.
            for _ in 0..2 {
                let found = run(&object, &symbol("all", name, level), routine, bindings).expect("it runs");
                for ((array, expected), found) in routine.arrays().iter().zip(&expected).zip(&found) {
                    assert!(expected.bytes() == found, "{name} at {level}: `{}` differs", array.node);
                }
            }
        }
    }
    library
}

#[test]
fn programs_have_the_bits_of_the_process() {
    let library = check_programs(Library::with_levels("all", TRIPLE, &levels()).expect("a target"));
    assert!(!library.calls_products());
}

#[test]
fn products_of_the_runtime_have_the_bits_of_the_process() {
    let library = Library::with_levels("all", TRIPLE, &levels()).expect("a target").with_products();
    let library = check_programs(library);
    let names =
        library.routines().iter().filter(|routine| routine.calls_products()).map(|routine| routine.name());
    let expected = ["product", "deep", "batched", "dense", "convolution", "bytes", "rows"];
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

#[test]
fn constants_ship_with_the_library() {
    let text = "input x f32[5], w f32[5, 3]; y[j] :+= x[i] * w[i,j]; keep y";
    let mut all = Library::new("all", TRIPLE).expect("a target");
    let routine = all.add_text("f", text, &[]).expect("a valid text");
    let at = routine.arrays().iter().position(|array| array.node == "w").expect("the weights");
    let (expected, weights) = (reference_of_text(text, routine, &[]), values(routine).remove(at));
    // With a constant, the arrays of the caller are the others, and get other values than before.
    let mut library = Library::new("with", TRIPLE).expect("a target");
    library.add_text("f", text, &[("w", &weights)]).expect("a valid text");
    let routine = &library.routines()[0];
    assert_eq!(routine.arrays().len(), expected.len() - 1);
    let object = LoadedObject::new(&library.object().expect("a small object"));
    let names: Vec<&str> = routine.arrays().iter().map(|array| &*array.node).collect();
    assert_eq!(names, ["x", "y"]);
    assert_eq!(at, 1, "the array of the results follows the weights, and gets their values in `values`");
    for level in levels() {
        let found = run(&object, &symbol("with", "f", level), routine, &[]).expect("it runs");
        assert_eq!(found[1], expected[2].bytes(), "{level}");
    }
}

#[test]
fn constants_in_a_file_are_read_where_the_caller_has_them() {
    let text = "input x f32[5], w f32[5, 3], b f32[3]
                y[j] :+= x[i] * w[i,j]
                z[j]  := y[j] + b[j]
                keep z";
    let array = |dims: &[usize], from: usize| {
        let numbers: Vec<f32> = (from..from + dims.iter().product::<usize>()).map(|at| at as f32).collect();
        HostArray::from_slice(&numbers, dims.iter().copied()).expect("a small array")
    };
    let (x, w, b) = (array(&[5], 1), array(&[5, 3], 3), array(&[3], 100));
    let expected: Vec<f32> = (0..3)
        .map(|j| (0..5).map(|i| (i + 1) as f32 * (3 * i + j + 3) as f32).sum::<f32>() + (100 + j) as f32)
        .collect();
    let library = Library::with_levels("file", TRIPLE, &levels()).expect("a target");
    let mut library = library.with_constants_in(ConstantPlace::File);
    library.add_text("f", text, &[("w", &w), ("b", &b)]).expect("a valid text");
    let routine = &library.routines()[0];
    assert_eq!(routine.arrays().iter().map(|array| &*array.name).collect::<Vec<_>>(), ["x", "z"]);
    let object = LoadedObject::new(&library.object().expect("a small object"));
    let mut memory = [library.constants(), x.bytes(), &[0; 12]].map(aligned);
    let mut arena = aligned(&vec![0; routine.arena_bytes()]);
    for level in levels() {
        memory[2][0] = Line([0; 64]);
        let args: Vec<*mut u8> = memory.iter_mut().map(|lines| lines.as_mut_ptr().cast()).collect();
        let entry = symbol("file", "f", level);
        // SAFETY: the file of constants comes first; the arrays have the sizes of the routine.
        let status = unsafe { object.call(&entry, &args, &[], arena.as_mut_ptr().cast()) };
        let found: Vec<f32> =
            memory[2][0].0[..12].as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        assert_eq!((status, found), (0, expected.clone()), "{level}");
    }
}

#[test]
fn wrong_calls_change_nothing() {
    let (name, text, _) = PROGRAMS.iter().find(|(name, ..)| *name == "sized").copied().expect("a program");
    let mut library = Library::with_levels("all", TRIPLE, &levels()[..1]).expect("a target");
    let routine = library.add_text(name, text, &[]).expect("a valid text");
    let (low, high) = routine.parameters()[0].interval();
    let entry = symbol("all", name, levels()[0]);
    let routine = &library.routines()[0];
    let object = LoadedObject::new(&library.object().expect("a small object"));
    for size in [low - 1, high + 1, i64::MIN, i64::MAX] {
        assert_eq!(run(&object, &entry, routine, &[size]).expect_err("out of range"), 1);
    }
    let mut memory = aligned(&[0; 1 << 14]);
    let off = memory.as_mut_ptr().cast::<u8>().wrapping_add(4);
    // SAFETY: the entry returns before it accesses anything.
    let status = unsafe { object.call(&entry, &[off; 8], &[low], memory.as_mut_ptr().cast()) };
    assert_eq!(status, codegen_cranelift::object::MISALIGNED);
}

/// Floats whose fused products are hard to round: of any exponent, subnormal, and sums that are almost
/// halfway between two floats.
fn hard_products() -> [Vec<f32>; 3] {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    let mut all = [const { Vec::new() }; 3];
    for at in 0..6003 {
        let [mut a, mut b, mut c] = [random(), random(), random()].map(f32::from_bits);
        match at % 6 {
            // The product is small beside `c`, so that it decides only between two neighbors.
            1 => c = f32::from_bits((a * b).to_bits().wrapping_add(24 << 23)),
            2 => {
                (a, b, c) =
                    (1.0 + f32::EPSILON, f32::from_bits(0x7f & random()), f32::from_bits(random() % 99))
            }
            // The sum is subnormal.
            3 => (a, b, c) = (a * f32::MIN_POSITIVE, b.abs().min(9.0), f32::from_bits(random() >> 9)),
            4 => (a, b) = (1.0 + f32::EPSILON * (random() % 4096) as f32, 2f32.powi(-24)),
            5 => c = -(a * b),
            _ => {}
        }
        all.iter_mut().zip([a, b, c]).for_each(|(all, x)| all.push(x));
    }
    all
}

#[test]
fn products_are_fused_without_an_instruction() {
    let [a, b, c] = hard_products();
    let size = a.len();
    let text =
        format!("input a f32[{size}], b f32[{size}], c f32[{size}]; y[i] := a[i] * b[i] + c[i]; keep y");
    let mut library = Library::with_levels("fused", TRIPLE, &levels()).expect("a target");
    library.add_text("f", &text, &[]).expect("a valid text");
    let routine = &library.routines()[0];
    let object = LoadedObject::new(&library.object().expect("a small object"));
    let array = |values: &[f32]| HostArray::from_slice(values, [size]).expect("a small array");
    let given = [array(&a), array(&b), array(&c), array(&vec![0.0; size])];
    let fused: Vec<f32> = (0..size).map(|at| a[at].mul_add(b[at], c[at])).collect();
    let differ = (0..size).filter(|&at| fused[at] != a[at] * b[at] + c[at]).count();
    assert!(differ > size / 10, "{differ} products are other than in two steps");
    for level in levels() {
        let found = run_on(&object, &symbol("fused", "f", level), routine, &given, &[]).expect("it runs");
        for (at, (found, fused)) in found[3].as_chunks().0.iter().zip(&fused).enumerate() {
            let found = f32::from_le_bytes(*found);
            let is_same = found.to_bits() == fused.to_bits() || found.is_nan() && fused.is_nan();
            assert!(is_same, "{} * {} + {} at {level}: {found}, expected {fused}", a[at], b[at], c[at]);
        }
    }
}
