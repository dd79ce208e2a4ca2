//! The checks of the fuzz targets. Each function takes any bytes and panics if a property is violated;
//! rejecting the input is not a violation.
//!
//! The ordinary tests run the same functions on the seeds and on fixed random bytes, without a fuzzer
//! (`crates/codegen-cranelift/tests/it/fuzz_targets.rs`).

use assignment_text::Program;
use assignments::Assignments;
use assignments::lower::{LowerOptions, lower};
use codegen_core::{Codegen, CodegenError};
use codegen_cranelift::{CraneliftOptions, cranelift};
use codegen_testkit::{Outcome, generated_routine, run_generated};
use filetests::{
    check_passes,
    generate::{program_from_bytes, routine_from_bytes},
};
use lowered_ir::{
    ir::{LoweredRoutine, Stmt},
    pipeline::{OptimizeSettings, optimize},
    text,
    verify::verify,
};
use scheduling::{ScheduleOptions, schedule};
use tnode::{DType, Registry, TensorNode};

/// Maximum total size of a routine's nodes and locals, in bytes. A larger routine is compiled but not run.
const MAX_BYTES: u64 = 1 << 16;
/// Maximum number of statements that a routine executes. A longer routine is compiled but not run.
const MAX_STEPS: u64 = 1 << 14;
/// Size of a routine's text, in bytes, from which on the routine is not compiled, because huge unrolled
/// bodies take long to compile.
const MAX_TEXT: usize = 4096;

/// The parser of the loop IR terminates on any bytes. If it accepts a text, the printed routine parses again,
/// and prints as the same text.
pub fn parse(data: &[u8]) {
    let Ok(source) = std::str::from_utf8(data) else { return };
    if let Ok(routine) = text::parse(source) {
        let printed = text::print(&routine);
        let again = text::parse(&printed).expect("printed text parses");
        assert_eq!(printed, text::print(&again));
    }
}

/// The parser of assignment text terminates on any bytes, and accepted texts lower to IR that verifies, also
/// if they have gradients. The same holds for valid programs derived from the bytes, and for the gradient of
/// the last result of each.
pub fn assignments(data: &[u8]) {
    if let Ok(source) = std::str::from_utf8(data) {
        accepts(source);
    }
    let program = program_from_bytes(data);
    assert!(assigned(&program.text, &program.nodes), "rejected:\n{}", program.text);
    let assignments = Program::parse(&program.text).and_then(|text| text.assignments(&program.nodes));
    differentiated(&assignments.expect("an accepted program"));
}

/// Whether the text is a program over nodes `x`, `w`, `y`, `v`, `n` and `s`.
pub fn accepts(source: &str) -> bool {
    assigned(source, &some_nodes())
}

fn some_nodes() -> [TensorNode; 6] {
    let registry = Registry::new();
    let shapes: [(&str, &[usize], DType); 6] = [
        ("x", &[4, 6], DType::F32),
        ("w", &[6, 3], DType::F32),
        ("y", &[4, 3], DType::F32),
        ("v", &[6], DType::F64),
        ("n", &[4], DType::I32),
        ("s", &[], DType::F16),
    ];
    shapes.map(|(name, dims, dtype)| {
        let builder = TensorNode::builder(name).dims(dims.iter().copied()).dtype(dtype);
        builder.build_in(&registry).expect("a plain node")
    })
}

/// Whether the text is a program over the nodes. A program prints as one that expands to the same statements.
fn assigned(source: &str, nodes: &[TensorNode]) -> bool {
    let Ok(program) = Program::parse(source) else { return false };
    let printed = program.to_string();
    let again = Program::parse(&printed).expect("printed text parses");
    assert_eq!(again.to_string(), printed);
    let expanded = |program: &Program| program.expand().map(|expanded| expanded.to_string()).ok();
    assert_eq!(expanded(&again), expanded(&program));
    let Ok(mut assignments) = program.assignments(nodes) else { return false };
    if autodiff::expand(&mut assignments).is_err() {
        return false;
    }
    lowers(&assignments)
}

/// Whether the front end lowers the program; the result verifies.
fn lowers(assignments: &Assignments) -> bool {
    let Ok(program) = lower(assignments, &LowerOptions::default()) else { return false };
    verify(&program.lowered.routine).expect("lowered assignments verify");
    true
}

/// The gradient of the last float that a program writes, by all floats that it reads, lowers.
fn differentiated(program: &Assignments) {
    let written = program.written_nodes();
    let Some(loss) = written.iter().rfind(|node| node.dtype().is_float()) else { return };
    let nodes = program.nodes();
    let is_parameter = |node: &&TensorNode| node.dtype().is_float() && !written.contains(*node);
    let parameters: Vec<&TensorNode> = nodes.iter().filter(is_parameter).collect();
    let dims = loss.dims_without_padding().expect("a node with dimensions");
    let seed = TensorNode::builder("seed").dims(dims).dtype(loss.dtype()).build().expect("a plain node");
    if let Ok(found) = autodiff::gradient_seeded(program, loss, &seed, &parameters) {
        lower(&found.program, &LowerOptions::default())
            .map(|lowered| verify(&lowered.lowered.routine).expect("a gradient verifies"))
            .unwrap_or_else(|error| panic!("{error}\n{}", found.program));
    }
}

/// For the routine of every text that verifies, every stage terminates and its result verifies. A small
/// routine computes the same values after every stage.
pub fn verified(data: &[u8]) {
    let Ok(source) = std::str::from_utf8(data) else { return };
    let Ok(routine) = text::parse(source) else { return };
    if verify(&routine).is_err() {
        return;
    }
    every_stage(&routine);
    if is_small(&routine) {
        means_the_same(&routine, data);
    }
}

/// For a routine derived from the bytes, every pass, and the optimizer, preserve the interpreter's results.
pub fn optimized(data: &[u8]) {
    let routine = routine_from_bytes(data);
    verify(&routine).expect("generated routines verify");
    check_passes(routine, data.len() as u64).unwrap_or_else(|error| panic!("{error}"));
}

/// A compiled routine, derived from the bytes, computes the interpreter's results.
pub fn compiled(data: &[u8]) {
    let routine = generated_routine(codegen().caps(), data);
    verify(&routine).expect("generated routines verify");
    means_the_same(&routine, data);
}

fn means_the_same(routine: &LoweredRoutine, data: &[u8]) {
    if text::print(routine).len() < MAX_TEXT
        && let Outcome::Failed(message) = run_generated(&codegen(), routine, data)
    {
        panic!("{message}\nfrom\n{}", text::print(routine));
    }
}

fn codegen() -> impl Codegen {
    cranelift(CraneliftOptions::default()).expect("a host target")
}

fn every_stage(routine: &LoweredRoutine) {
    let Ok(optimized) = optimize(routine.clone(), &OptimizeSettings::default()) else { return };
    verify(&optimized.routine).expect("optimized routines verify");
    let codegen = codegen();
    let Ok(scheduled) = schedule(&optimized.routine, &codegen, &ScheduleOptions::default()) else {
        return;
    };
    for kernel in scheduled.kernels() {
        verify(kernel.ir()).expect("scheduled kernels verify");
    }
    if text::print(&optimized.routine).len() < MAX_TEXT {
        match codegen.compile(&scheduled) {
            Ok(_) | Err(CodegenError::Unsupported { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Whether a routine runs in negligible time.
fn is_small(routine: &LoweredRoutine) -> bool {
    let bytes = |dims: &[usize], dtype: DType| {
        dims.iter().fold(dtype.size_bytes() as u64, |bytes, &dim| bytes.saturating_mul(dim as u64))
    };
    let nodes = routine.nodes.iter().map(|decl| bytes(&decl.dims, decl.dtype));
    let locals = routine.locals();
    let locals = locals.values().map(|decl| bytes(&decl.dims, decl.dtype));
    nodes.chain(locals).fold(0, u64::saturating_add) <= MAX_BYTES && steps(&routine.body) <= MAX_STEPS
}

fn steps(block: &[Stmt]) -> u64 {
    let of = |stmt: &Stmt| match stmt {
        Stmt::For { lo, hi, body, .. } => {
            let times = hi.limit.saturating_sub(*lo).max(0) as u64;
            steps(body).saturating_add(1).saturating_mul(times)
        }
        Stmt::Set { .. }
        | Stmt::SetDynamic { .. }
        | Stmt::Zero { .. }
        | Stmt::Declare { .. }
        | Stmt::SetLocal { .. }
        | Stmt::Comment(_)
        | Stmt::Log { .. } => 1,
    };
    block.iter().map(of).fold(0, u64::saturating_add)
}
