//! Programs printed as text: the text parses to the same loops.

use crate::assignment_text_doc::{listings, read};
use crate::program::{f32s, node};

use assignment_text::{parse, unparse};
use assignments::lower::{LowerOptions, lower};
use assignments::{AccumOp, Assignments, ProgramStep, builder};
use expect_test::expect;
use lowered_ir::ir::{BinaryOp, Block, Stmt};
use tnode::DType;

/// The loops of a program without comments and names: the nodes are numbered, and have no modes.
fn loops(program: &Assignments) -> String {
    let mut routine =
        lower(program, &LowerOptions::default()).unwrap_or_else(|e| panic!("{e}")).lowered.routine;
    routine.name = "r".to_owned();
    for (at, node) in routine.nodes.iter_mut().enumerate() {
        node.name = format!("n{at}");
        node.mode = tnode::ModeState::default();
    }
    fn uncommented(block: &mut Block) {
        block.retain(|stmt| !matches!(stmt, Stmt::Comment(_)));
        for stmt in block.iter_mut() {
            if let Stmt::For { body, .. } = stmt {
                uncommented(body);
            }
        }
    }
    uncommented(&mut routine.body);
    lowered_ir::text::print(&routine)
}

/// Checks that the text of a program parses to the same loops. Components of concatenated axes become
/// statements, whose loops may nest in another order. The text of a scan that ends early selects values.
fn reads_back(program: &Assignments) {
    let text = unparse(program);
    let again = parse(&text, &[]).unwrap_or_else(|error| panic!("{error}\n{program}\n{text}"));
    if program.steps.iter().any(|step| matches!(step, ProgramStep::Concat(_))) {
        return;
    }
    if !program.has_gradients() {
        let mut selected = program.clone();
        selected.select_ends(&|_, _| false).expect("the text was read");
        assert_eq!(loops(&again), loops(&selected), "{text}\n{program}");
    }
    let uncommented: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(unparse(&again).lines().collect::<Vec<_>>(), uncommented);
}

#[test]
fn documented_programs_read_back() {
    let programs = listings("assign");
    assert!(programs.len() > 20, "found {}", programs.len());
    // The end of a scan is its bound in the printed text, and an index may be behind the size.
    let has_open_scan = |listing: &str| ["size n <=", "scan t in 0..n {"].map(|part| listing.contains(part));
    for listing in programs.into_iter().filter(|listing| has_open_scan(listing) != [true, true]) {
        reads_back(&read(listing).unwrap_or_else(|error| panic!("{error}")));
    }
}

/// Statements that look the same as their source, with the letters of the source.
#[test]
fn statements_look_like_their_source() {
    let nodes = [
        f32s("x", &[8, 6]),
        f32s("w", &[6, 4]),
        f32s("y", &[8, 4]),
        f32s("z", &[8, 6]),
        f32s("s", &[]),
        node("n", DType::I32, &[8]),
        node("half", DType::F16, &[8]),
        node("double", DType::F64, &[8]),
    ];
    for statement in [
        "y[b,o] :+= x[b,i] * w[i,o]",
        "y[b,o] += exp(x[b,i] - s) * w[i,o]",
        "z[b,i] := where(x[b,i] < 0, 0.1 * x[b,i], x[b,i] / s)",
        "z[row,i] := x[row,5 - i]",
        "z[b,i] := pad(x, 0)[b,i - 1] + pad(x, -inf)[b,i + 1]",
        "z[b,i] += x[b,i] where b < 4, i < b + 1",
        "y[n[b],o] += w[n[n[b]],o]",
        "n[b] := n[b] / 2 + b",
        "double[b] := f64(half[b]) * 0.1 + n[b]",
        "half[b] := sqrt(half[b]) - 3",
        "z[b,i] := x[b,i] * (uniform(7, 3, b, i) < 0.9)",
        "z := normal(42, @step) where @step < 100",
        "s := @step where @step < 100",
        "z[b,i] := (uniform(7, @step, b)) where @step < 100",
        "s :max= -x[b,i] * (x[b,i] + 1)",
        "z[b,i] := slope * x[b,i]",
        "n[b] := 2 * b + @t - 1 where @t < 5",
        "z[b,2*i + 1] += w[i,0] where i < 3",
    ] {
        let text = match statement.contains("slope") {
            true => format!("node slope f32; slope := 1; {statement}"),
            false => statement.to_owned(),
        };
        let program = parse(&text, &nodes).unwrap_or_else(|error| panic!("{error}"));
        reads_back(&program);
        let printed = unparse(&program);
        assert_eq!(printed.lines().last(), Some(statement), "{printed}");
    }
}

/// Programs without a text get letters that no node has, and their nodes names of their own.
#[test]
fn built_programs_read_back() {
    let nodes = [f32s("i", &[4, 8]), f32s("k", &[8, 2]), f32s("c", &[4, 2]), f32s("c", &[4, 2])];
    let [a, b, c, d] = nodes.each_ref();
    let product = builder::einsum("m,k; k,n => m,n", c, AccumOp::Add, BinaryOp::Mul, [a, b]).expect("fits");
    let program = product.then(builder::copy(d, c).expect("fits"));
    let program =
        program.then(builder::concat(&f32s("both", &[8, 2]), 0, &[c, d]).expect("fits")).named("built");
    expect![[r#"
        input i f32[4,8]
        input k f32[8,2]
        node c f32[4,2]
        node c_2 f32[4,2]
        param both f32[8,2]
        # built
        c[j,l] :+= i[j,m] * k[m,l]
        c_2[j,l] := c[j,l]
        both[j,l] := c[j,l] where j < 4
        both[j + 4,l] := c_2[j,l]
    "#]]
    .assert_eq(&unparse(&program));
    reads_back(&program);
}

/// The components of concatenated axes are statements of their own.
#[test]
fn concatenations_print_as_their_components() {
    let nodes = [f32s("a", &[3]), f32s("b", &[2]), f32s("y", &[5])];
    let program = parse("y[i^j] :+= a[i], b[j]", &nodes).expect("valid");
    expect![[r#"
        input a f32[3]
        input b f32[2]
        param y f32[5]
        y[i] := 0
        y[i] += a[i] where i < 3
        y[j + 3] += b[j]
    "#]]
    .assert_eq(&unparse(&program));
}

/// Subexpressions that a later statement reads too are nodes of the text.
#[test]
fn subexpressions_that_others_read_are_printed_as_nodes() {
    let nodes = [f32s("x", &[4]), f32s("y", &[4]), f32s("z", &[4])];
    let program = parse("y[i] := exp(x[i]) * 2", &nodes).expect("valid");
    let exponential = program.written_nodes().remove(0);
    let program = program.then(builder::copy(&nodes[2], &exponential).expect("same sizes"));
    expect![[r#"
        input x f32[4]
        node exp_x_i f32[4]
        param y f32[4]
        param z f32[4]
        exp_x_i[i] := exp(x[i])
        y[i] := exp_x_i[i] * 2
        z[i] := exp_x_i[i]
    "#]]
    .assert_eq(&unparse(&program));
    reads_back(&program);
}

#[test]
fn gradients_print_as_gradients() {
    let text = "param w f32[4]\nloss :+= w[i] * w[i]\ngrad loss by w\nkeep w.grad";
    let program = parse(text, &[]).expect("valid");
    expect![[r#"
        input w f32[4]
        node loss f32[]
        node w.grad f32[4]
        loss :+= w[i] * w[i]
        grad loss by w
        keep w.grad
    "#]]
    .assert_eq(&unparse(&program));
    assert_eq!(unparse(&parse(&unparse(&program), &[]).expect("valid")), unparse(&program));
}
