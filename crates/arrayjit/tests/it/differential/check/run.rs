//! Runs programs on backends and compares the results with the values that the evaluator allows.

use std::cell::LazyCell;
use std::sync::OnceLock;

use arrayjit::settings::{NumericClass, Settings, VectorSetting};
use arrayjit::{Backend, Context, HostArray, Routine, TensorNode};
use random_programs::{ProgramNode, RandomProgram};

use super::evaluate::Evaluator;
use super::value::{Class, Value};

/// The counts of comparing one program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report {
    /// Runs of the program that were compared.
    pub(crate) runs: u64,
    /// Configurations that rejected the program as a user error.
    pub(crate) rejected: u64,
    /// Elements that were compared with a single value.
    pub(crate) exact: u64,
    /// Elements that were compared with an interval.
    pub(crate) bounded: u64,
    /// Elements that the evaluator does not determine.
    pub(crate) skipped: u64,
}

impl Report {
    pub(crate) fn add(&mut self, other: Report) {
        self.runs += other.runs;
        self.rejected += other.rejected;
        self.exact += other.exact;
        self.bounded += other.bounded;
        self.skipped += other.skipped;
    }
}

/// A backend with its settings.
struct Configuration {
    name: &'static str,
    class: Class,
    backend: Backend,
}

fn configurations() -> &'static [Configuration] {
    static ALL: OnceLock<Vec<Configuration>> = OnceLock::new();
    ALL.get_or_init(|| {
        let backends = [
            ("inline", VectorSetting::None),
            ("inline", VectorSetting::Bits128),
            ("multicore", VectorSetting::Avx2),
            ("multicore", VectorSetting::Neon),
            ("interpreter", VectorSetting::Auto),
        ];
        let mut all = Vec::new();
        for class in [Class::Strict, Class::Fast] {
            for (name, vector) in backends {
                let numerics = if class == Class::Strict { NumericClass::Strict } else { NumericClass::Fast };
                let mut settings = Settings::default();
                (settings.numerics, settings.vector) = (numerics, vector);
                (settings.threads, settings.code_cache_bytes) = (2, 0);
                // Configurations with vectors that this machine lacks are left out.
                if let Ok(backend) = Backend::open_with(name, &settings) {
                    all.push(Configuration { name, class, backend });
                }
            }
        }
        all
    })
}

/// Runs the program on every configuration of a backend, or of all.
///
/// # Errors
///
/// A result that the evaluator does not allow, or an error that is not a user error.
pub(crate) fn check(program: &RandomProgram, backend: Option<&str>) -> Result<Report, String> {
    let mut report = Report::default();
    // Evaluated only when needed, because a program that every configuration rejects need not have a meaning.
    let expected = [Class::Strict, Class::Fast].map(|class| LazyCell::new(move || evaluate(program, class)));
    let is_chosen = |configuration: &&Configuration| backend.is_none_or(|name| name == configuration.name);
    for configuration in configurations().iter().filter(is_chosen) {
        let vector = configuration.backend.settings().vector;
        let at = format!("{} {vector:?} {:?}", configuration.name, configuration.class);
        match run(program, &expected[configuration.class as usize], configuration) {
            Ok(one) => report.add(one),
            Err(RunFailure::Rejected(message)) if message.contains("this is a bug") => {
                return Err(format!("{at}: {message}\n{program}"));
            }
            Err(RunFailure::Rejected(message)) => {
                if std::env::var_os("DIFFERENTIAL_REJECTED").is_some() {
                    println!("{at}: {message}\n{program}");
                }
                report.rejected += 1;
            }
            Err(RunFailure::Wrong(message)) => return Err(format!("{at}: {message}\n{program}")),
        }
    }
    Ok(report)
}

enum RunFailure {
    /// The compiler rejected the program as a user error.
    Rejected(String),
    /// A wrong result, or an error that is not the user's.
    Wrong(String),
}

fn wrong(step: &'static str) -> impl Fn(arrayjit::RunError) -> RunFailure {
    move |error| RunFailure::Wrong(format!("{step}: {error}"))
}

/// The possible values of all nodes after each routine of each round.
type Expected = Vec<Vec<Vec<Value>>>;

fn evaluate(program: &RandomProgram, class: Class) -> Expected {
    let mut evaluator = Evaluator::new(program, class);
    let mut after = Vec::new();
    for symbols in &program.rounds {
        for routine in 0..program.routines.len() {
            evaluator.run(routine, symbols);
            after.push(evaluator.memory.clone());
        }
    }
    after
}

fn run(
    program: &RandomProgram,
    expected: &LazyCell<Expected, impl FnOnce() -> Expected>,
    configuration: &Configuration,
) -> Result<Report, RunFailure> {
    let Configuration { backend, class, .. } = configuration;
    let nodes: Vec<TensorNode> = program.nodes.iter().map(ProgramNode::tensor_node).collect();
    let compile = |routine| backend.compile(&program.text(routine), &nodes);
    let compiled: Vec<_> = (0..program.routines.len())
        .map(compile)
        .collect::<Result<_, _>>()
        .map_err(|error| RunFailure::Rejected(error.to_string()))?;
    let mut context = backend.context().map_err(wrong("context"))?;
    for (node, handle) in program.nodes.iter().zip(&nodes) {
        let used = compiled.iter().any(|code| code.nodes().contains(handle));
        if let Some(data) = &node.data
            && used
            && !handle.mode().known_not_materialized()
        {
            context = context.init_from_host(handle, array(node, data)).map_err(wrong("init_from_host"))?;
        }
    }
    let mut routines: Vec<Routine> = Vec::new();
    for code in &compiled {
        let routine = code.link(&context).map_err(wrong("link"))?;
        context = routine.context().clone();
        routines.push(routine);
    }
    let mut report = Report::default();
    for (round, symbols) in program.rounds.iter().enumerate() {
        for (at, routine) in routines.iter().enumerate() {
            let bindings: Vec<i64> =
                routine.bindings().iter().map(|symbol| binding(program, symbols, &symbol.name)).collect();
            let event = routine.run(&bindings).map_err(wrong("run"))?;
            event.sync().map_err(|error| RunFailure::Wrong(format!("sync: {error}")))?;
            let expected = &expected[round * routines.len() + at];
            let found = compare(program, &nodes, &context, expected, *class);
            report
                .add(found.map_err(|text| RunFailure::Wrong(format!("round {round} routine {at}: {text}")))?);
        }
    }
    report.runs = 1;
    Ok(report)
}

fn binding(program: &RandomProgram, symbols: &[i64], name: &str) -> i64 {
    let at = program.symbols.iter().position(|symbol| symbol.name == name.trim_start_matches('@'));
    at.map_or(0, |at| symbols[at])
}

fn array(node: &ProgramNode, data: &[u64]) -> HostArray {
    let mut array = match node.padding() {
        Some(padding) => HostArray::zeros_padded(node.dtype, node.dims.iter().copied(), padding),
        None => HostArray::zeros(node.dtype, node.dims.iter().copied()),
    }
    .expect("a small array");
    let size = node.dtype.size_bytes();
    for (offset, bits) in node.offsets().into_iter().zip(data) {
        array.bytes_mut()[offset * size..][..size].copy_from_slice(&bits.to_le_bytes()[..size]);
    }
    array
}

/// Compares the nodes that have memory.
fn compare(
    program: &RandomProgram,
    nodes: &[TensorNode],
    context: &Context,
    expected: &[Vec<Value>],
    class: Class,
) -> Result<Report, String> {
    let mut report = Report::default();
    for ((node, handle), values) in program.nodes.iter().zip(nodes).zip(expected) {
        if !context.contains(handle) || handle.view().is_some() {
            continue;
        }
        let array = context.to_host(handle).map_err(|error| format!("to_host: {error}"))?;
        let size = node.dtype.size_bytes();
        for (at, (offset, value)) in node.offsets().into_iter().zip(values).enumerate() {
            let mut bits = [0; 8];
            bits[..size].copy_from_slice(&array.bytes()[offset * size..][..size]);
            let bits = u64::from_le_bytes(bits);
            if !value.contains(class, node.dtype, bits) {
                let found = Value::decode(node.dtype, bits);
                return Err(format!(
                    "element {at} of {} is {found:?} ({bits:#x}), expected {value:?}",
                    node.name
                ));
            }
            match () {
                () if value.is_single() => report.exact += 1,
                () if value.is_anything(node.dtype) => report.skipped += 1,
                () => report.bounded += 1,
            }
        }
    }
    Ok(report)
}
