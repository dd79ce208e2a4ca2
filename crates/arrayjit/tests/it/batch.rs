//! Batches: the same result as compiling one routine after another, or none at all.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit::{
    Backend, BatchMember, CompileError, Compiled, Context, HostArray, MemoryMode, Reason, TensorNode,
};
use filetests::generate::{GeneratedProgram, program_from_seed};
use lowered_ir::text::print;
use tnode::ModeState;

const BACKENDS: [&str; 3] = ["interpreter", "inline", "multicore"];

fn node(name: &str, dims: &[usize]) -> TensorNode {
    TensorNode::builder(name).dims(dims.iter().copied()).build().unwrap()
}

fn with(context: Context, node: &TensorNode, values: &[f32]) -> Context {
    context.init_from_host(node, HostArray::from_slice(values, node.dims().unwrap()).unwrap()).unwrap()
}

/// The memory mode of each node, and its parent if it is a view.
fn decided(nodes: &[TensorNode]) -> Vec<(Option<MemoryMode>, Option<String>)> {
    nodes.iter().map(|node| (node.mode().mode(), node.view().map(|view| view.to_string()))).collect()
}

/// The kernels of a routine.
fn kernels(compiled: &Compiled) -> String {
    let kernels = compiled.codes().flat_map(|code| code.schedule().kernels());
    kernels.map(|kernel| print(kernel.ir())).collect()
}

/// A program of several statements, some of whose nodes are virtual.
fn program(seed: u64) -> GeneratedProgram {
    let program = program_from_seed(seed, 300);
    let inner = program.nodes.iter().filter(|node| node.mode().mode().is_none());
    for (_, node) in inner.enumerate().filter(|(at, _)| (seed >> (at % 8)).is_multiple_of(3)) {
        if node.name().starts_with('t') {
            node.update_memory_mode(MemoryMode::Virtual, Reason::new("it is drawn")).unwrap();
        }
    }
    program
}

#[test]
fn a_batch_is_what_one_after_another_is() {
    let (mut compiled, mut failed) = (0, 0);
    for seed in filetests::effort::seeds(100) {
        let (alone, together) = (program(seed), program(seed));
        let one_by_one = Backend::open("interpreter").unwrap();
        let lines = |program: &GeneratedProgram| program.text.lines().map(str::to_owned).collect::<Vec<_>>();
        let expected: Result<Vec<Compiled>, (usize, String)> = lines(&alone)
            .iter()
            .enumerate()
            .map(|(at, line)| one_by_one.compile(line, &alone.nodes).map_err(|error| (at, error.to_string())))
            .collect();
        let backend = Backend::open("interpreter").unwrap();
        let before: Vec<ModeState> = together.nodes.iter().map(TensorNode::mode).collect();
        let members: Vec<_> =
            lines(&together).iter().map(|line| BatchMember::text(line, &together.nodes)).collect();
        match (expected, backend.compile_batch(&members, |_, _| true)) {
            (Ok(expected), Ok(batch)) => {
                assert_eq!(decided(&alone.nodes), decided(&together.nodes), "{seed}: {}", alone.text);
                for (expected, found) in expected.iter().zip(batch.members()) {
                    let found = found.as_ref().unwrap();
                    assert_eq!(kernels(expected), kernels(found), "{seed}: {}", alone.text);
                }
                compiled += 1;
            }
            (Err((at, expected)), Err(CompileError::Batch { position, source, .. })) => {
                assert_eq!((at, expected), (position, source.to_string()), "{seed}");
                let after: Vec<ModeState> = together.nodes.iter().map(TensorNode::mode).collect();
                assert!(before == after, "{seed}: {}", together.text);
                failed += 1;
            }
            (expected, found) => {
                let expected = expected.map(|all| all.len()).map_err(|(at, error)| format!("{at}: {error}"));
                let found = found.map(|batch| batch.members().len()).map_err(|error| error.to_string());
                panic!("{seed}: one by one {expected:?}, together {found:?}\n{}", together.text);
            }
        }
    }
    assert!(compiled > 50 && failed > 0, "{compiled} batches, {failed} rejected");
}

#[test]
fn members_see_what_those_before_decided() {
    for name in BACKENDS {
        let backend = Backend::open(name).unwrap();
        let (x, t, y) = (node("x", &[3]), node("t", &[3]), node("y", &[3]));
        t.update_memory_mode(MemoryMode::Virtual, Reason::new("it is small")).unwrap();
        let (rows, row, z) = (node("rows", &[2, 3]), node("row", &[3]), node("z", &[3]));
        let members = [
            BatchMember::text("t[i] := x[i] * x[i]", [&x, &t]).named("define"),
            BatchMember::text("y[i] := t[i] + 1", [&t, &y]),
            BatchMember::text("row := slice(rows, @b)\nrow[i] := y[i]", [&rows, &row, &y]).named("view"),
            BatchMember::text("z[i] := row[i] where @b < 2", [&row, &z]),
        ];
        let batch = backend.compile_batch(&members, |_, _| true).unwrap();
        let names: Vec<_> = batch.members().iter().flatten().map(Compiled::name).collect();
        assert_eq!(names, ["define", "y", "view", "z"]);
        assert!(batch.members()[1].as_ref().unwrap().nodes().contains(&x), "`t` is computed again from `x`");
        assert!(row.view().is_some_and(|view| view.parent == rows));
        let context = with(with(backend.context().unwrap(), &x, &[1., 2., 3.]), &rows, &[0.; 6]);
        let (context, routines) = batch.link(&context).unwrap();
        for routine in routines.iter().flatten() {
            routine.run(if routine.bindings().is_empty() { &[] } else { &[1] }).unwrap();
        }
        assert_eq!(context.to_host(&z).unwrap().values(), [2., 5., 10.]);
        assert_eq!(context.to_host(&rows).unwrap().values(), [0., 0., 0., 2., 5., 10.]);
    }
}

#[test]
fn what_is_left_out_is_none_at_its_position() {
    let backend = Backend::open("inline").unwrap();
    let nodes = ["x", "a", "b", "c"].map(|name| node(name, &[2]));
    let [x, a, b, c] = &nodes;
    // The member that is left out would overwrite an input of the last one.
    let members = [
        BatchMember::text("a[i] := x[i] + 1", [x, a]),
        BatchMember::text("a[i] := nonsense(", [x, a]).named("no_text"),
        BatchMember::text("b[i] := a[i] * 0\na[i] := 0", [a, b]).named("skipped"),
        BatchMember::text("c[i] := a[i] * 10", [a, c]),
    ];
    let mut asked = Vec::new();
    let occupancy = |name: &str, at: usize| {
        asked.push((name.to_owned(), at));
        name != "skipped"
    };
    let error = backend.compile_batch(&members, occupancy).unwrap_err().to_string();
    assert!(error.starts_with("member 1 of the batch, `no_text`: "), "{error}");
    assert_eq!(asked, [("a".to_owned(), 0)]);
    let members = [members[0].clone(), members[2].clone(), members[3].clone()];
    let batch = backend.compile_batch(&members, |name, at| !(name == "skipped" && at == 1)).unwrap();
    assert_eq!(batch.members().iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(b.mode(), ModeState::undecided());
    let (context, routines) = batch.link(&with(backend.context().unwrap(), x, &[1., 2.])).unwrap();
    assert!(routines[1].is_none() && !context.contains(b));
    for routine in routines.iter().flatten() {
        routine.run(&[]).unwrap();
    }
    assert_eq!(context.to_host(c).unwrap().values(), [20., 30.]);
    let none = backend.compile_batch(&members, |_, _| false).unwrap();
    let (same, routines) = none.link(&context).unwrap();
    assert!(routines.iter().all(Option::is_none) && same.contains(c));
    assert!(backend.compile_batch(&[], |_, _| true).unwrap().members().is_empty());
}

#[test]
fn a_member_that_fails_late_leaves_everything_as_it_was() {
    let backend = Backend::open("interpreter").unwrap();
    let (x, t, y) = (node("x", &[2]), node("t", &[2]), node("y", &[2]));
    t.update_memory_mode(MemoryMode::Virtual, Reason::new("it is small")).unwrap();
    backend.compile_named("define", "t[i] := x[i] + 1", [&x, &t]).unwrap();
    let before: Vec<ModeState> = [&x, &t, &y].map(TensorNode::mode).to_vec();
    // The first member overwrites an input of `t`, so the second cannot compute `t`.
    let members = [
        BatchMember::text("x[i] := 0", [&x]).named("overwrite"),
        BatchMember::text("y[i] := t[i]", [&t, &y]).named("late"),
    ];
    let error = backend.compile_batch(&members, |_, _| true).unwrap_err();
    let CompileError::Batch { position: 1, name, source } = &error else { panic!("{error}") };
    assert_eq!(name, "late");
    assert!(source.to_string().contains("overwritten by routine \"overwrite\""), "{source}");
    assert_eq!([&x, &t, &y].map(TensorNode::mode).to_vec(), before);
    assert!(backend.compile("y[i] := t[i]", [&t, &y]).is_ok(), "nothing has overwritten `x`");
}

#[test]
fn a_batch_that_does_not_link_leaves_nothing_allocated() {
    let backend = Backend::open("multicore").unwrap();
    let (a, b, missing) = (node("a", &[1000]), node("b", &[1000]), node("missing", &[1000]));
    let members = [
        BatchMember::text("a[i] := i where i < 1000", [&a]),
        BatchMember::text("b[i] := a[i] + missing[i]", [&a, &b, &missing]),
    ];
    let batch = backend.compile_batch(&members, |_, _| true).unwrap();
    let context = backend.context().unwrap();
    let used = backend.device().memory().live_bytes;
    let error = batch.link(&context).unwrap_err().to_string();
    assert!(error.contains("missing"), "{error}");
    context.stream().sync().unwrap();
    assert_eq!(backend.device().memory().live_bytes, used);
    let (context, routines) = batch.link(&with(context, &missing, &[1.; 1000])).unwrap();
    for routine in routines.iter().flatten() {
        routine.run(&[]).unwrap();
    }
    assert_eq!(context.to_host(&b).unwrap().values()[999], 1000.0);
}

#[test]
fn a_member_may_be_a_program_that_keeps_nodes() {
    let backend = Backend::open("interpreter").unwrap();
    let x = node("x", &[2]);
    let keeping = |text: &str| arrayjit::Program::parse(text).unwrap().keep("y").named("keeping");
    let members = [
        BatchMember::program(keeping("h[i] := x[i] + 1; y[i] := h[i] * h[i]"), [&x]),
        BatchMember::program(keeping("y[i] := x[i] - 1"), [&x]).named("renamed"),
    ];
    let mut names = Vec::new();
    let batch = backend
        .compile_batch(&members, |name, _| {
            names.push(name.to_owned());
            true
        })
        .unwrap();
    assert_eq!(names, ["keeping", "renamed"]);
    let (context, routines) = batch.link(&with(backend.context().unwrap(), &x, &[1., 2.])).unwrap();
    routines.iter().flatten().for_each(|routine| drop(routine.run(&[]).unwrap()));
    let values = |member: usize| {
        let node = batch.members()[member].as_ref().unwrap().node("y").unwrap();
        context.to_host(node).unwrap().values()
    };
    assert_eq!([values(0), values(1)], [[4., 9.], [0., 1.]]);

    let failing = [BatchMember::program(keeping("z[i] := x[i]"), [&x])];
    let error = backend.compile_batch(&failing, |_, _| true).unwrap_err();
    assert!(error.to_string().starts_with("member 0 of the batch, `keeping`: line 2"), "{error}");
}
