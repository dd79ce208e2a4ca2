//! The listing of assignments: expected lines for every operator, operand and step.

use crate::program;

use assignment_text::parse;
use assignments::indexing::StaticSymbol;
use assignments::{AccumOp, Assignments, FetchOp, Operand, Rhs, builder};
use expect_test::expect;
use lowered_ir::ir::{BinaryOp, TernaryOp, UnaryOp};
use program::f32s;
use tnode::TensorNode;

#[test]
fn every_accumulation_has_its_sign() {
    let (x, y) = (f32s("x", &[2, 3]), f32s("y", &[2]));
    let nodes = [x, y];
    let statement = |init: &str, op: AccumOp| format!("y[i] {init}{}= x[i,j]\n", op.token());
    let ops = AccumOp::ALL.into_iter().filter(|op| *op != AccumOp::Assign);
    let text: String = ops.flat_map(|op| [statement("", op), statement(":", op)]).collect();
    let listing = parse(&text, &nodes).expect("fits").to_string();
    let lines: String =
        listing.lines().filter(|line| !line.starts_with('#')).map(|line| line.to_owned() + "\n").collect();
    expect![[r#"
        y[i0] =+ x[i0, i1];
        y[i0] =:+ x[i0, i1];
        y[i0] =- x[i0, i1];
        y[i0] =:- x[i0, i1];
        y[i0] =* x[i0, i1];
        y[i0] =:* x[i0, i1];
        y[i0] =/ x[i0, i1];
        y[i0] =:/ x[i0, i1];
        y[i0] =** x[i0, i1];
        y[i0] =:** x[i0, i1];
        y[i0] =@^ x[i0, i1];
        y[i0] =:@^ x[i0, i1];
        y[i0] =@- x[i0, i1];
        y[i0] =:@- x[i0, i1];
        y[i0] =?/ x[i0, i1];
        y[i0] =:?/ x[i0, i1];
        y[i0] =?^ x[i0, i1];
        y[i0] =:?^ x[i0, i1];
        y[i0] =|| x[i0, i1];
        y[i0] =:|| x[i0, i1];
        y[i0] =&& x[i0, i1];
        y[i0] =:&& x[i0, i1];
    "#]]
    .assert_eq(&lines);
}

/// The value of a sum of floats depends on the order of the loops, which is that of the letters in the text.
#[test]
fn letters_of_a_comparison_have_the_order_of_the_text() {
    let nodes = [f32s("a", &[2]), f32s("b", &[3]), f32s("s", &[])];
    for comparison in [">", ">=", "<", "<=", "==", "!="] {
        let text = format!("s :+= f32(a[j] {comparison} b[k])");
        let listing = parse(&text, &nodes).expect("fits").to_string();
        assert!(listing.contains("a[i0]") && listing.contains("b[i1]"), "{listing}");
    }
}

#[test]
fn every_step_and_operand_has_its_line() {
    let (x, y, s) = (f32s("x", &[2, 3]), f32s("y", &[3]), f32s("s", &[3]));
    let [a, b] = [f32s("a", &[1]), f32s("b", &[2])];
    let b_symbol = StaticSymbol::ranged("b", 2);
    let fetched = [
        FetchOp::Constant(0.5),
        FetchOp::ConstantBits(0x3f80_0000),
        FetchOp::ConstantFill(vec![1.0, -2.5, f64::INFINITY]),
        FetchOp::RangeOverOffsets,
        FetchOp::EmbedSelfId,
        FetchOp::EmbedDim { of: x.clone(), axis: 1 },
    ];
    let nodes = [x.clone(), y.clone(), s.clone(), a, b];
    let text = "s[i] := where(s[i], x[@b, i], pad(y, 0)[i + 1]); y[i] += s.merge[2 - i]
        y[i] := fma(s[i], s[i], -1); y[i] := max(s[i], 2); y[i] := 3 * i; y[i^j] := a[i], b[j]";
    let program: Assignments = [
        builder::embed_symbol(&y, &b_symbol),
        builder::slice(&s, &x, &b_symbol),
        builder::unary(&y, UnaryOp::Exp, &s).expect("fits"),
        builder::binary(&y, BinaryOp::Sub, [&s, &y]).expect("fits"),
        builder::ternary(&y, TernaryOp::Where, [&s, &s, &y]).expect("fits"),
        parse("y[i] := s[i] / size(i)", &nodes).expect("fits").named("a block"),
        parse(text, &nodes).unwrap_or_else(|error| panic!("{error}")),
    ]
    .into_iter()
    .chain(fetched.map(|op| builder::fetch(&y, op)))
    .collect();
    expect![[r#"
        y =: @b;
        s =: slice(x, @b);
        y[i0] =: exp(s[i0]);
        y[i0] =: s[i0] - y[i0];
        y[i0] =: where(s[i0], s[i0], y[i0]);
        # "a block";
          # y[i] := s[i] / size(i)
          y[i0] =: s[i0] / 3;
        # end
        # s[i] := where(s[i], x[@b, i], pad(y, 0)[i + 1])
        s[i0] =: where(s[i0], x[@b, i0], pad(y, 0.0)[i0 + 1]);
        # y[i] += s.merge[2 - i]
        y[i0] =+ s.merge[-i0 + 2];
        # y[i] := fma(s[i], s[i], -1)
        y[i0] =: fma(s[i0], s[i0], -1.0);
        # y[i] := max(s[i], 2)
        y[i0] =: max(s[i0], 2.0);
        # y[i] := 3 * i
        y[i0] =: 3*i0;
        # y[i^j] := a[i], b[j]
        # concat;
          y[0] =: a[0];
          y[i0 + 1] =: b[i0];
        # end
        y =: 0.5;
        y =: bits(0x3f800000);
        y =: [1.0, -2.5, inf];
        y =: range_over_offsets;
        y =: self_id;
        y =: size(x, 1);
    "#]]
    .assert_eq(&program.to_string());
}

#[test]
fn symbols_keep_their_names_when_programs_are_joined() {
    let (x, y, s) = (f32s("x", &[4, 3]), f32s("y", &[3]), f32s("s", &[3]));
    let first = builder::embed_symbol(&y, &StaticSymbol::ranged("a", 3));
    let second = builder::slice(&s, &x, &StaticSymbol::open("b"));
    let joined = first.then(second);
    assert_eq!(joined.to_string(), "y =: @a;\ns =: slice(x, @b);\n");
    let copied = builder::copy(&y, Operand::from(&s)).expect("fits");
    let last = copied.steps.first().map(|step| step.accums()[0].rhs.clone());
    assert_eq!(last, Some(Rhs::Copy(Operand::from(&s))));
    let named: Vec<TensorNode> = joined.then(copied).context_nodes();
    assert_eq!(named, [x]);
}

#[test]
fn nodes_of_one_label_print_with_their_ids() {
    let [a, b, y] = [f32s("w", &[2]), f32s("w", &[2]), f32s("y", &[2])];
    let listing = builder::binary(&y, BinaryOp::Mul, [&a, &b]).expect("equal sizes").to_string();
    assert_eq!(listing, format!("y[i0] =: {}_w[i0] * {}_w[i0];\n", a.id(), b.id()));
}
