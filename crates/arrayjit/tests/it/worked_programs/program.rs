//! A program with its arrays, which runs on every backend and is compared with expected values.

use arrayjit::settings::NumericClass;
use arrayjit::{Backend, DType, HostArray, MemoryMode, Settings, TensorNode};

const BACKENDS: [&str; 3] = ["interpreter", "inline", "multicore"];

/// The role of an array of a program.
enum ArrayRole {
    /// An array with values before the run.
    Given(Vec<f64>),
    /// An array that is read after the run.
    Kept,
    /// An array that the compiler may remove.
    Inner,
}

struct ProgramArray {
    name: &'static str,
    dtype: DType,
    dims: Vec<usize>,
    role: ArrayRole,
}

/// Assignment text with its arrays.
pub(crate) struct WorkedProgram {
    text: String,
    arrays: Vec<ProgramArray>,
    bindings: Vec<i64>,
    class: NumericClass,
}

/// The values of all given and kept arrays after a run on one backend.
pub(crate) struct Outcome {
    backend: &'static str,
    values: Vec<(&'static str, Vec<f64>)>,
}

impl WorkedProgram {
    pub(crate) fn new(text: impl Into<String>) -> WorkedProgram {
        WorkedProgram {
            text: text.into(),
            arrays: Vec::new(),
            bindings: Vec::new(),
            class: NumericClass::Fast,
        }
    }

    /// Adds an array with initial values; the program may write it too.
    pub(crate) fn given(
        self,
        name: &'static str,
        dtype: DType,
        dims: &[usize],
        values: &[f64],
    ) -> WorkedProgram {
        self.array(name, dtype, dims, ArrayRole::Given(values.to_vec()))
    }

    /// Adds an array that is read after the run.
    pub(crate) fn kept(self, name: &'static str, dtype: DType, dims: &[usize]) -> WorkedProgram {
        self.array(name, dtype, dims, ArrayRole::Kept)
    }

    /// Adds an array that the compiler may remove.
    pub(crate) fn inner(self, name: &'static str, dtype: DType, dims: &[usize]) -> WorkedProgram {
        self.array(name, dtype, dims, ArrayRole::Inner)
    }

    fn array(mut self, name: &'static str, dtype: DType, dims: &[usize], role: ArrayRole) -> WorkedProgram {
        self.arrays.push(ProgramArray { name, dtype, dims: dims.to_vec(), role });
        self
    }

    /// Sets the values of the static symbols, in order of mention.
    pub(crate) fn bindings(mut self, bindings: &[i64]) -> WorkedProgram {
        self.bindings = bindings.to_vec();
        self
    }

    /// Selects the class `Strict`: arithmetic in the order of the text, without contraction.
    pub(crate) fn strict(mut self) -> WorkedProgram {
        self.class = NumericClass::Strict;
        self
    }

    /// Runs the program on every backend.
    pub(crate) fn run(&self) -> Vec<Outcome> {
        BACKENDS.iter().map(|name| self.run_on(name)).collect()
    }

    fn run_on(&self, name: &'static str) -> Outcome {
        let mut settings = Settings::default();
        settings.threads = 2;
        settings.numerics = self.class;
        let backend = Backend::open_with(name, &settings).unwrap();
        let nodes: Vec<TensorNode> = self.arrays.iter().map(ProgramArray::node).collect();
        let code = backend.compile(&self.text, &nodes).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut context = backend.context().unwrap();
        for (array, node) in self.arrays.iter().zip(&nodes) {
            if let ArrayRole::Given(values) = &array.role {
                let mut host = HostArray::zeros(array.dtype, array.dims.clone()).unwrap();
                host.set_values(values).unwrap();
                context = context.init_from_host(node, &host).unwrap();
            }
        }
        let routine = code.link(&context).unwrap_or_else(|e| panic!("{name}: {e}"));
        routine.run(&self.bindings).unwrap().sync().unwrap();
        let read =
            self.arrays.iter().zip(&nodes).filter(|(array, _)| !matches!(array.role, ArrayRole::Inner));
        let values = read.map(|(a, node)| (a.name, routine.context().to_host(node).unwrap().values()));
        Outcome { backend: name, values: values.collect() }
    }
}

impl ProgramArray {
    fn node(&self) -> TensorNode {
        let node = TensorNode::builder(self.name).dims(self.dims.iter().copied()).dtype(self.dtype);
        match self.role {
            ArrayRole::Inner => node,
            ArrayRole::Given(_) | ArrayRole::Kept => node.mode(MemoryMode::Materialized),
        }
        .build()
        .unwrap()
    }
}

impl Outcome {
    pub(crate) fn values(&self, name: &str) -> &[f64] {
        let (_, values) = self.values.iter().find(|(n, _)| *n == name).expect("the program keeps it");
        values
    }

    /// Asserts that every value is within `tolerance · max(1, |expected|)` of the expected one, and that
    /// infinities and NaNs are equal.
    #[track_caller]
    pub(crate) fn expect(&self, name: &str, expected: &[f64], tolerance: f64) {
        let found = self.values(name);
        assert_eq!(found.len(), expected.len(), "{name} on {}", self.backend);
        self.compare(name, found, expected, tolerance);
    }

    /// Like [`Outcome::expect`], for one row of a matrix.
    #[track_caller]
    pub(crate) fn expect_row(&self, name: &str, row: usize, expected: &[f64], tolerance: f64) {
        let found = &self.values(name)[row * expected.len()..][..expected.len()];
        self.compare(name, found, expected, tolerance);
    }

    #[track_caller]
    fn compare(&self, name: &str, found: &[f64], expected: &[f64], tolerance: f64) {
        for (i, (&found, &expected)) in found.iter().zip(expected).enumerate() {
            let near = (found - expected).abs() <= tolerance * expected.abs().max(1.0);
            let same = found == expected || (found.is_nan() && expected.is_nan());
            assert!(near || same, "{name}[{i}] on {}: {found}, expected {expected}", self.backend);
        }
    }
}

/// Runs the program and checks the node on every backend, like [`Outcome::expect`].
#[track_caller]
pub(crate) fn expect(program: &WorkedProgram, name: &str, expected: &[f64], tolerance: f64) {
    for outcome in program.run() {
        outcome.expect(name, expected, tolerance);
    }
}

/// Small numbers that depend on the seed only: multiples of 1/64 within ±4, which are exact in every float
/// type of 16 bits or more except `bf16`.
pub(crate) fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| f64::from(rng.i32(-256..=256)) / 64.0).collect()
}
