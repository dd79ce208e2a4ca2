//! A program that is divided into routines computes the same values as in one routine: later routines inline
//! the virtual nodes of earlier ones.
//!
//! A random program runs statement by statement as it is lowered; the results are the reference. Then each
//! statement is optimized as a separate routine, all in one context, where every intermediate node is virtual
//! if possible; all other nodes must have the same bits.

use std::collections::{BTreeMap, BTreeSet};

use assignment_text::parse;
use assignments::lower::{LowerOptions, lower};
use filetests::generate::{alike, program_from_seed};
use lowered_ir::Lowered;
use lowered_ir::interp::{self, Memory};
use lowered_ir::ir::{LoweredRoutine, NodeDecl, Numerics};
use lowered_ir::passes::{ModeError, runner::Trace};
use lowered_ir::pipeline::{OptimizeCtx, OptimizeError, OptimizeSettings, optimize_in};
use lowered_ir::{text, verify};
use tnode::{MemoryMode, ModeState, Reason, Scalar, TensorNode};

/// The bytes of nodes.
type Values = BTreeMap<TensorNode, Vec<u8>>;

/// The routines of a program, one per statement.
fn routines(seed: u64) -> Vec<Lowered> {
    let program = program_from_seed(seed, 200);
    let options = LowerOptions { numerics: Numerics::Strict, ..LowerOptions::default() };
    let lowered = |line: &str| {
        let statement = parse(line, &program.nodes).unwrap_or_else(|e| panic!("{e}"));
        lower(&statement, &options).unwrap_or_else(|e| panic!("{e}")).lowered
    };
    program.text.lines().map(lowered).collect()
}

fn initial(node: &TensorNode, decl: &NodeDecl) -> Vec<u8> {
    let elems: usize = decl.dims.iter().product();
    let mut bytes = vec![0; elems * decl.dtype.size_bytes()];
    for (i, element) in bytes.chunks_exact_mut(decl.dtype.size_bytes()).enumerate() {
        let value = ((7 * i as u64 + 3 * node.id().get()) % 11) as f64 - 4.5;
        let _fits = Scalar::from_f64(decl.dtype, value).write(element);
    }
    bytes
}

fn run(routine: &LoweredRoutine, nodes: &[TensorNode], values: &mut Values) {
    verify::verify(routine).unwrap_or_else(|e| panic!("{e}\n{}", text::print(routine)));
    let mut memory = Memory::zeroed(routine);
    for ((node, decl), bytes) in nodes.iter().zip(&routine.nodes).zip(&mut memory.nodes) {
        bytes.clone_from(values.entry(node.clone()).or_insert_with(|| initial(node, decl)));
    }
    let bindings: Vec<i64> = routine.symbols.iter().map(|s| 1.min(s.range - 1)).collect();
    interp::run(routine, &mut memory, &bindings).unwrap_or_else(|e| panic!("{e}\n{}", text::print(routine)));
    values.extend(nodes.iter().cloned().zip(memory.nodes));
}

/// Runs the routines, optimized in one context where the nodes of `inlined` are virtual. Returns the number
/// of computations inlined from earlier routines, or the node that cannot be virtual.
fn run_optimized(
    routines: &[Lowered],
    inlined: &BTreeSet<TensorNode>,
    values: &mut Values,
) -> Result<usize, TensorNode> {
    let (mut ctx, mut carried) = (OptimizeCtx::default(), 0);
    for lowered in routines {
        let mut lowered = lowered.clone();
        for (node, decl) in lowered.nodes.iter().zip(&mut lowered.routine.nodes) {
            if inlined.contains(node) {
                decl.mode = ModeState::decided(MemoryMode::Virtual, Reason::new("this test asks for it"));
            }
        }
        let handles = lowered.nodes.clone();
        let before = text::print(&lowered.routine);
        match optimize_in(&ctx, lowered, &OptimizeSettings::default(), &mut Trace::none()) {
            Ok(optimized) => {
                carried += optimized.imported.len();
                run(&optimized.optimized.routine, &optimized.nodes, values);
                ctx.commit(&optimized.changes, &optimized.nodes);
            }
            Err(OptimizeError::Mode { source, routine }) => {
                let ModeError::NotVirtual { node, .. } = *source else {
                    panic!("{routine}: {source}\n{before}")
                };
                // The position may belong to an inlined node; then the error is about a node that uses it.
                let guilty = handles.get(node.index()).filter(|node| inlined.contains(*node));
                let guilty = guilty.or_else(|| handles.iter().find(|node| inlined.contains(*node)));
                return Err(guilty
                    .unwrap_or_else(|| panic!("no node was asked to be virtual\n{before}"))
                    .clone());
            }
            Err(other) => panic!("{other}\n{before}"),
        }
    }
    Ok(carried)
}

fn check(seed: u64) -> usize {
    let routines = routines(seed);
    let mut expected = Values::new();
    routines.iter().for_each(|lowered| run(&lowered.routine, &lowered.nodes, &mut expected));
    let named = |node: &TensorNode| node.name().starts_with('t') && node.mode().mode().is_none();
    let mut inlined: BTreeSet<TensorNode> =
        routines.iter().flat_map(|lowered| &lowered.nodes).filter(|node| named(node)).cloned().collect();
    loop {
        let mut found = Values::new();
        match run_optimized(&routines, &inlined, &mut found) {
            Err(guilty) => assert!(inlined.remove(&guilty), "{guilty:?}"),
            Ok(carried) => {
                compare(&routines, &inlined, &expected, &found, seed);
                return carried;
            }
        }
    }
}

fn compare(
    routines: &[Lowered],
    inlined: &BTreeSet<TensorNode>,
    expected: &Values,
    found: &Values,
    seed: u64,
) {
    for lowered in routines {
        for (node, decl) in lowered.nodes.iter().zip(&lowered.routine.nodes) {
            let kept = !decl.mode.known_virtual() && !inlined.contains(node);
            if let Some((want, have)) = expected.get(node).zip(found.get(node)).filter(|_| kept) {
                let program: String = routines.iter().map(|l| text::print(&l.routine)).collect();
                assert!(
                    alike(decl, want, have),
                    "seed {seed}, {}: {have:?}, expected {want:?}\n{program}",
                    node.name()
                );
            }
        }
    }
}

#[test]
fn a_program_cut_into_routines_computes_the_same() {
    let carried: usize = filetests::effort::seeds(100).map(check).sum();
    assert!(carried > 5, "only {carried} computations were carried over");
}
