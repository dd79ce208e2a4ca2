//! The loops of each kind of assignment, and what lowering rejects.

use crate::program;

use assignment_text::parse;
use assignments::indexing::{AxisIndex, Projection, Projections, StaticSymbol};
use assignments::lower::{LowerOptions, lower};
use assignments::{AccumOp, Assignments, FetchOp, Operand, Rhs, builder};
use expect_test::{Expect, expect};
use lowered_ir::ir::{Affine, BinaryOp, Numerics, SymbolId, TernaryOp, UnaryOp};
use program::{Machine, body, f32s, node, read};
use tnode::{DType, Dims, MemoryMode, Sharing, TensorNode};

fn check(text: &str, nodes: &[&TensorNode], expected: Expect) {
    expected.assert_eq(&body(&read(text, nodes)));
}

#[test]
fn a_reduction_fills_first() {
    let (a, b, c) = (f32s("a", &[3, 4]), f32s("b", &[4, 2]), f32s("c", &[3, 2]));
    check(
        "c[m,n] :+= a[m,k] * b[k,n]",
        &[&a, &b, &c],
        expect![[r#"
        node %0 "a" f32[3, 4]
        node %1 "b" f32[4, 2]
        node %2 "c" f32[3, 2]
        zero %2
        for i0 in 0..3 {
          for i1 in 0..2 {
            for i2 in 0..4 {
              %2[i0, i1] := %2[i0, i1] + %0[i0, i2] * %1[i2, i1]
            }
          }
        }
    "#]],
    );
    check(
        "c[m,n] :max= a[m,k] * b[k,n]",
        &[&a, &b, &c],
        expect![[r#"
        node %0 "a" f32[3, 4]
        node %1 "b" f32[4, 2]
        node %2 "c" f32[3, 2]
        for i0 in 0..3 {
          for i1 in 0..2 {
            %2[i0, i1] := -inff32
          }
        }
        for i2 in 0..3 {
          for i3 in 0..2 {
            for i4 in 0..4 {
              %2[i2, i3] := max(%0[i2, i4] * %1[i4, i3], %2[i2, i3])
            }
          }
        }
    "#]],
    );
}

#[test]
fn what_is_written_once_is_stored() {
    let [a, y, z, w] = ["a", "y", "z", "w"].map(|label| f32s(label, &[3]));
    check(
        "y[i] :+= a[i]; z[i] :-= a[i]; w[i] :max= a[i]",
        &[&a, &y, &z, &w],
        expect![[r#"
            node %0 "a" f32[3]
            node %1 "y" f32[3]
            node %2 "z" f32[3]
            node %3 "w" f32[3]
            for i0 in 0..3 {
              %1[i0] := %0[i0]
            }
            for i1 in 0..3 {
              %2[i1] := neg(%0[i1])
            }
            for i2 in 0..3 {
              %3[i2] := %0[i2]
            }
        "#]],
    );
    // Injective but not surjective: filled, then stored.
    let z = f32s("z", &[6]);
    check(
        "z[2*i] :*= a[i]",
        &[&a, &z],
        expect![[r#"
        node %0 "a" f32[3]
        node %1 "z" f32[6]
        for i0 in 0..6 {
          %1[i0] := 1.0f32
        }
        for i1 in 0..3 {
          %1[2*i1] := %0[i1]
        }
    "#]],
    );
}

#[test]
fn axes_of_size_1_have_no_loop() {
    let (a, y) = (f32s("a", &[1, 3]), f32s("y", &[1]));
    check(
        "y[b] :+= a[b,i]",
        &[&a, &y],
        expect![[r#"
        node %0 "a" f32[1, 3]
        node %1 "y" f32[1]
        %1[0] := 0.0f32
        for i0 in 0..3 {
          %1[0] := %1[0] + %0[0, i0]
        }
    "#]],
    );
}

#[test]
fn types_meet_by_conversion() {
    let (h, i, y) = (node("h", DType::F16, &[2]), node("i", DType::I32, &[2]), f32s("y", &[2]));
    check(
        "y[k] := h[k] * i[k]; y[k] += h[k] < i[k]",
        &[&h, &i, &y],
        expect![[r#"
        node %0 "h" f16[2]
        node %1 "i" i32[2]
        node %2 "y" f32[2]
        for i0 in 0..2 {
          %2[i0] := convert f32(%0[i0] * convert f16(%1[i0]))
        }
        for i1 in 0..2 {
          %2[i1] := %2[i1] + convert f32(%0[i1] < convert f16(%1[i1]))
        }
    "#]],
    );
    check(
        "y[k] := where(i[k], 2*k + 1, 0.5); i[k] := @step where @step < 4",
        &[&h, &i, &y],
        expect![[r#"
            symbol @step in 0..4
            node %0 "i" i32[2]
            node %1 "y" f32[2]
            for i0 in 0..2 {
              %1[i0] := where(convert bool(%0[i0]), convert f32(index i32(2*i0 + 1)), 0.5f32)
            }
            for i1 in 0..2 {
              %0[i1] := index i32(@step)
            }
        "#]],
    );
}

#[test]
fn padding_shifts_and_guards() {
    let padding = tnode::Padding::new([(2, 1)], Some(0.0));
    let x = TensorNode::builder("x").dims([4]).padding(padding).build().expect("small");
    let y = f32s("y", &[4]);
    check(
        "y[i] := x[i - 1]",
        &[&x, &y],
        expect![[r#"
        node %0 "x" f32[7]
        node %1 "y" f32[4]
        for i0 in 0..4 {
          %1[i0] := %0[i0 + 1]
        }
    "#]],
    );
    check(
        "y[i] := pad(x, 5)[i - 1]",
        &[&x, &y],
        expect![[r#"
        node %0 "x" f32[7]
        node %1 "y" f32[4]
        for i0 in 0..4 {
          %1[i0] := guarded(2 <= i0 + 1 < 6, %0[i0 + 1], 5.0f32)
        }
    "#]],
    );
    check(
        "y[i] := pad(x, 5)[i]",
        &[&x, &y],
        expect![[r#"
        node %0 "x" f32[7]
        node %1 "y" f32[4]
        for i0 in 0..4 {
          %1[i0] := %0[i0 + 2]
        }
    "#]],
    );
    check(
        "x[i] :+= y[j]",
        &[&x, &y],
        expect![[r#"
        node %0 "y" f32[4]
        node %1 "x" f32[7]
        for i0 in 0..4 {
          %1[i0 + 2] := 0.0f32
        }
        for i1 in 0..4 {
          for i2 in 0..4 {
            %1[i1 + 2] := %1[i1 + 2] + %0[i2]
          }
        }
    "#]],
    );
}

#[test]
fn fetches() {
    let registry = tnode::Registry::new();
    let [a, b, c, n, d, e, f] = ["a", "b", "c", "n", "d", "e", "f"].map(|label| {
        let node =
            TensorNode::builder(label).id(u64::from(label.as_bytes()[0])).dims([2, 3]).dtype(DType::I32);
        node.build_in(&registry).expect("small")
    });
    let all = [
        builder::constant(&a, 0.0),
        builder::constant(&b, 2.5),
        builder::fetch(&c, FetchOp::ConstantBits(0xffff_fffe)),
        builder::fetch(&n, FetchOp::RangeOverOffsets),
        builder::embed_symbol(&d, &StaticSymbol::ranged("step", 4)),
        builder::fetch(&e, FetchOp::EmbedSelfId),
        builder::fetch(&f, FetchOp::ConstantFill(vec![1., 2., 3., 4., 5., 6.])),
    ];
    let all: Assignments = all.into_iter().collect();
    expect![[r#"
        a =: 0;
        b =: 2.5;
        c =: bits(0xfffffffe);
        n =: range_over_offsets;
        d =: @step;
        e =: self_id;
        f =: [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    "#]]
    .assert_eq(&all.to_string());
    expect![[r#"
        symbol @step in 0..4
        node %0 "a" i32[2, 3]
        node %1 "b" i32[2, 3]
        node %2 "c" i32[2, 3]
        node %3 "n" i32[2, 3]
        node %4 "d" i32[2, 3]
        node %5 "e" i32[2, 3]
        node %6 "f" i32[2, 3]
        zero %0
        for i0 in 0..2 {
          for i1 in 0..3 {
            %1[i0, i1] := 2i32
          }
        }
        for i2 in 0..2 {
          for i3 in 0..3 {
            %2[i2, i3] := -2i32
          }
        }
        for i4 in 0..2 {
          for i5 in 0..3 {
            %3[i4, i5] := index i32(3*i4 + i5)
          }
        }
        for i6 in 0..2 {
          for i7 in 0..3 {
            %4[i6, i7] := index i32(@step)
          }
        }
        for i8 in 0..2 {
          for i9 in 0..3 {
            %5[i8, i9] := 101i32
          }
        }
        %6[0, 0] := 1i32
        %6[0, 1] := 2i32
        %6[0, 2] := 3i32
        %6[1, 0] := 4i32
        %6[1, 1] := 5i32
        %6[1, 2] := 6i32
    "#]]
    .assert_eq(&body(&all));
    let mut machine = Machine::new(&builder::fetch(&n, FetchOp::RangeOverOffsets));
    machine.run(&[]);
    assert_eq!(machine.get(&n), [0., 1., 2., 3., 4., 5.]);
}

#[test]
fn blocks_name_the_routine() {
    let (a, y) = (f32s("a", &[2]), f32s("y", &[2]));
    let nodes = [a.clone(), y.clone()];
    let forward = parse("y[i] := 2 * a[i]", &nodes).expect("fits").named("Forward pass, x!");
    let update = parse("a[i] += y[i]", &nodes).expect("fits").named("2. update");
    assert_eq!(forward.routine_name(), "Forward_pass_x");
    let both = forward.then(update);
    let lowered = lower(&both, &LowerOptions::default()).expect("lowers").lowered;
    expect![[r#"
        routine @Forward_pass_x_then_2_update fast {
          node %0 "a" f32[2]
          node %1 "y" f32[2]
          comment "Forward pass, x!"
          comment "y[i] := 2 * a[i]"
          for i0 in 0..2 {
            %1[i0] := 2.0f32 * %0[i0]
          }
          comment "end"
          comment "2. update"
          comment "a[i] += y[i]"
          for i1 in 0..2 {
            %0[i1] := %0[i1] + %1[i1]
          }
          comment "end"
        }
    "#]]
    .assert_eq(&lowered_ir::text::print(&lowered.routine));
    expect![[r##"
        # "Forward pass, x!";
          # y[i] := 2 * a[i]
          y[i0] =: 2.0 * a[i0];
        # end
        # "2. update";
          # a[i] += y[i]
          a[i0] =+ y[i0];
        # end
    "##]]
    .assert_eq(&both.to_string());
    let named =
        LowerOptions { name: Some("step".into()), numerics: Numerics::Strict, ..LowerOptions::default() };
    let routine = lower(&both, &named).expect("lowers").lowered.routine;
    assert_eq!((routine.name.as_str(), routine.numerics), ("step", Numerics::Strict));
    assert_eq!(parse("y[i] := exp(a[i]) + 1", &nodes).expect("fits").routine_name(), "y");
    assert_eq!(Assignments::default().routine_name(), "routine");
}

#[test]
fn nodes_are_context_or_embedded() {
    let [x, w, y, z] = [f32s("x", &[4]), f32s("w", &[4]), f32s("y", &[4]), f32s("z", &[4])];
    let nodes = [x, w, y, z];
    let names = |nodes: Vec<TensorNode>| nodes.iter().map(TensorNode::name).collect::<Vec<_>>().join(" ");
    let program = parse("y[i] := x[i] * w[i]; w[i] -= y[i]; z[0] := y[1]; y[i] := 0", &nodes).expect("fits");
    assert_eq!(names(program.nodes()), "x w y z");
    assert_eq!(names(program.embedded_nodes()), "y");
    assert_eq!(names(program.context_nodes()), "x w z");
    assert_eq!(names(program.written_nodes()), "y w z");
    let accumulated = parse("y[i] :+= x[i]; z[i] := y[i] + y.merge[i]", &nodes).expect("fits");
    assert_eq!(names(accumulated.embedded_nodes()), "y z");
    assert_eq!(names(accumulated.merge_nodes()), "y");
}

#[test]
fn bindings_are_in_the_order_asked_for() {
    let y = f32s("y", &[12]);
    let program = parse("y[4*@b + i] := @a where i < 4, @a < 9", std::slice::from_ref(&y)).expect("fits");
    y.update_memory_mode(MemoryMode::Materialized, tnode::Reason::new("the test keeps it"))
        .expect("undecided");
    let symbols = |options: &LowerOptions| -> Vec<(String, i64)> {
        let symbols = lower(&program, options).expect("lowers").lowered.routine.symbols;
        symbols.into_iter().map(|symbol| (symbol.name, symbol.range)).collect()
    };
    let named = |name: &str, range| (name.to_owned(), range);
    assert_eq!(symbols(&LowerOptions::default()), [named("b", 3), named("a", 9)]);
    let asked = vec![StaticSymbol::ranged("b", 2), StaticSymbol::ranged("c", 5)];
    let options = LowerOptions { symbols: asked, ..LowerOptions::default() };
    assert_eq!(symbols(&options), [named("b", 2), named("c", 5), named("a", 9)]);
}

fn rejected(assignments: &Assignments) -> String {
    lower(assignments, &LowerOptions::default())
        .map(|program| lowered_ir::text::print(&program.lowered.routine))
        .expect_err("rejected")
        .to_string()
}

/// `lhs[lhs_index] := rhs[rhs_index]` over a product space of one axis.
fn copy_at(
    lhs: &TensorNode,
    rhs: &TensorNode,
    extent: usize,
    lhs_index: AxisIndex,
    rhs_index: AxisIndex,
) -> Assignments {
    let of = |node: &TensorNode, index| {
        (node.dims_without_padding().expect("settled"), Projection::from_iter([index]))
    };
    let projections = Projections::new(&[extent], of(lhs, lhs_index), vec![of(rhs, rhs_index)], "test")
        .expect("one index each");
    builder::accumulate(false, AccumOp::Assign, lhs, Rhs::Copy(rhs.into()), projections)
}

#[test]
fn writes_that_leave_elements_without_a_value() {
    let (x, y, d) = (f32s("x", &[4]), f32s("y", &[4]), f32s("d", &[4, 4]));
    let nodes = [x.clone(), y.clone(), d.clone()];
    let result =
        |text: &str| lower(&parse(text, &nodes).expect("fits"), &LowerOptions::default()).map(|_| ());
    let rejected = |text: &str| result(text).expect_err("rejected").to_string();
    expect![[r#"
        line 1, column 3: node y: the assignment does not write all of axis 0 (size 4), and nothing initializes the node before; expected an initialization such as `y[i] := 0`, an operator such as `:+=` that starts the whole node, or a node whose values stay: `param` in a text, `MemoryMode::Materialized` in Rust
        1 | y[0] := x[1]
          |   ^"#]].assert_eq(&rejected("y[0] := x[1]"));
    expect![[r#"
        line 1, column 5: node d: the assignment does not write all of axis 1 (size 4), and nothing initializes the node before; expected an initialization such as `d[i,j] := 0`, an operator such as `:+=` that starts the whole node, or a node whose values stay: `param` in a text, `MemoryMode::Materialized` in Rust
        1 | d[i,i] := x[i]
          |     ^"#]].assert_eq(&rejected("d[i,i] := x[i]"));
    expect![[r#"
        line 1, column 3: node y: the assignment does not write all of axis 0 (size 4), and nothing initializes the node before; expected an initialization such as `y[i] := 0`, an operator such as `:+=` that starts the whole node, or a node whose values stay: `param` in a text, `MemoryMode::Materialized` in Rust
        1 | y[2*@half + i] := x[i] where i < 2
          |   ^^^^^^^^^^^"#]].assert_eq(&rejected("y[2*@half + i] := x[i] where i < 2"));
    // A write of a part is legal if the node is initialized before, the write accumulates, the routine reads
    // the node before, or the node keeps values from run to run.
    result("y[i] := 0; y[0] := x[1]").expect("initialized");
    result("y[0] += x[1]").expect("accumulates");
    result("x[i] := y[i]; y[0] := x[1]").expect("an input");
    y.update_memory_mode(MemoryMode::OnDevice(Sharing::Unset), tnode::Reason::new("a test"))
        .expect("undecided");
    result("y[0] := x[1]").expect("kept on the device");
}

#[test]
fn what_else_is_rejected() {
    let (x, y) = (f32s("x", &[4]), f32s("y", &[4]));
    let mut all = String::new();
    let mut note = |error: String| all += &(error + "\n");
    let i = || AxisIndex::axis(0);
    let shifted = |by| AxisIndex::new(i().affine().plus_constant(by));
    note(rejected(&copy_at(&y, &x, 4, i(), shifted(1))));
    note(rejected(&copy_at(&y, &x, 4, shifted(-1), i())));
    note(rejected(&copy_at(&y, &x, 4, i(), AxisIndex::new(Affine::term(SymbolId(0), 1)))));
    note(rejected(&copy_at(&y, &x, 4, i(), AxisIndex::new(i().affine().times(i64::MAX)))));
    let wrong = Projections::pointwise(&[3], 1);
    note(rejected(&builder::accumulate(false, AccumOp::Assign, &y, Rhs::Copy((&x).into()), wrong)));
    let few = Projections::pointwise(&[4], 1);
    note(rejected(&builder::accumulate(
        false,
        AccumOp::Assign,
        &y,
        Rhs::Binary(BinaryOp::Add, [(&x).into(), (&x).into()]),
        few,
    )));
    let merged = |node: &TensorNode| {
        let rhs = Rhs::Copy(Operand::MergeBuffer(node.clone()));
        builder::accumulate(false, AccumOp::Add, node, rhs, Projections::pointwise(&[4], 1))
    };
    note(rejected(&merged(&x).then(merged(&y))));
    note(rejected(&builder::fetch(&x, FetchOp::ConstantFill(vec![0.0; 17]))));
    note(rejected(&builder::fetch(&x, FetchOp::ConstantFill(vec![0.0; 3]))));
    let step = |range| builder::embed_symbol(&x, &StaticSymbol { name: "step".into(), range, size: None });
    note(rejected(&step(None)));
    note(rejected(&step(Some(0))));
    note(rejected(&step(Some(3)).then(step(Some(4)))));
    note(rejected(&builder::fetch(&x, FetchOp::EmbedSymbol(SymbolId(3)))));
    note(rejected(&builder::binary(&y, BinaryOp::BitAnd, [&x, &x]).expect("same dimensions")));
    let key = node("key", DType::U32x4, &[4]);
    note(rejected(&builder::unary(&key, UnaryOp::Neg, &key).expect("same dimensions")));
    note(rejected(&builder::ternary(&key, TernaryOp::Fma, [&key; 3]).expect("same dimensions")));
    note(rejected(&builder::accumulate(
        false,
        AccumOp::Add,
        &key,
        Rhs::Copy((&key).into()),
        Projections::pointwise(&[4], 1),
    )));
    note(rejected(&builder::copy(&x, &key).expect("same dimensions")));
    let open = TensorNode::builder("open").dims_later().build().expect("nothing to reject");
    note(rejected(&builder::constant(&open, 1.0)));
    note(builder::unary(&x, UnaryOp::Neg, &f32s("short", &[3])).expect_err("other dimensions").to_string());
    expect![[r#"
        node x: index i0 + 1 on axis 0 takes values 1..=4, expected within 0..4
        node y: index i0 - 1 on axis 0 takes values -1..=2, expected within 0..4
        node y: an index mentions symbol number 0, but the assignments have 0
        node x: index 9223372036854775807*i0 on axis 0 overflows
        node y has dimensions [4], but the assignment indexes dimensions [3]
        assignment to node y: 2 operands, but 1 projections
        a routine reads at most one merge buffer, found those of nodes x and y
        node x: a list of 17 constants, expected at most 16; give larger constants as host arrays
        node x has 4 elements, found a list of 3 constants
        symbol @step has no range, and no index bounds it alone; expected a range, as in `where @step < 10`
        symbol @step has range 0, expected at least 1
        symbol @step has range 3 and range 4
        node x: an index mentions symbol number 3, but the assignments have 0
        assignment to node y: operation bit_and is not defined for f32
        assignment to node key: operation neg is not defined for u32x4
        assignment to node key: operation fma is not defined for u32x4
        assignment to node key: operation + is not defined for u32x4
        assignment to node x: operation conversion is not defined for u32x4
        node open: dimensions are not settled yet
        node short has dimensions [3], expected [4] as node x has
    "#]]
    .assert_eq(&all);
}

#[test]
fn einsum_by_the_builder() {
    let (a, b, c) = (f32s("a", &[2, 3]), f32s("b", &[3, 2]), f32s("c", &[2, 2]));
    let product =
        builder::einsum("m,k; k,n => m,n", &c, AccumOp::Add, BinaryOp::Mul, [&a, &b]).expect("fits");
    let mut machine = Machine::new(&product);
    machine.set(&a, &[1., 2., 3., 4., 5., 6.]);
    machine.set(&b, &[1., 0., 0., 1., 1., 1.]);
    machine.run(&[]);
    assert_eq!(machine.get(&c), [4., 5., 10., 11.]);
    let largest = f32s("largest", &[2]);
    let mut machine = Machine::new(&builder::permute("mk => m", &largest, AccumOp::Max, &a).expect("fits"));
    machine.set(&a, &[1., -2., 3., -4., -5., -6.]);
    machine.run(&[]);
    assert_eq!(machine.get(&largest), [3., -4.]);
    assert_eq!(Dims::from_slice(&[2]), largest.dims().expect("settled"));
}
