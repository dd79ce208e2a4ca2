//! Tests which statements are rejected because all their values are overwritten before anything reads them.

use crate::error_table;

use assignment_text::parse;
use assignments::lower::{LowerError, LowerErrorKind, LowerOptions, lower};
use assignments::{AccumOp, Assignments, FetchOp, Operand, builder};
use expect_test::expect_file;
use lowered_ir::verify::verify;
use tnode::{DType, MemoryMode, TensorNode};

fn node(label: &str, dtype: DType, dims: &[usize]) -> TensorNode {
    let node = TensorNode::builder(label).dims(dims.iter().copied()).dtype(dtype);
    node.mode(MemoryMode::Materialized).build().expect("small")
}

fn nodes() -> Vec<TensorNode> {
    let f32s = |label: &str, dims: &[usize]| node(label, DType::F32, dims);
    vec![
        f32s("a", &[4]),
        f32s("b", &[4]),
        f32s("y", &[2, 4]),
        f32s("z", &[2, 4]),
        f32s("x", &[8, 4]),
        f32s("s", &[]),
        f32s("q", &[4, 4]),
        node("n", DType::I32, &[4]),
        node("ids", DType::I32, &[4]),
        node("key", DType::U32x4, &[1]),
    ]
}

fn lowered(text: &str) -> Result<(), LowerError> {
    let program = parse(text, &nodes()).unwrap_or_else(|error| panic!("{error}"));
    let lowered = lower(&program, &LowerOptions::default())?.lowered;
    verify(&lowered.routine).unwrap_or_else(|error| panic!("{error}"));
    Ok(())
}

#[track_caller]
fn legal(text: &str) {
    lowered(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
}

#[test]
fn values_that_nothing_reads_are_lost() {
    error_table::check(&expect_file!["../errors/lost_values.txt"], |text| {
        let error = lowered(text).err()?;
        assert!(matches!(error.kind(), LowerErrorKind::LostValues { .. }), "{error}");
        Some(error.to_string())
    });
}

/// The program that the message suggests keeps both statements and is legal.
#[test]
fn the_remedy_is_legal() {
    legal("y[i,j] := 0\ny[0,i] += a[i]\ny[1,i] += b[i]");
    for (op, start) in [("*", "1"), ("max", "-inf"), ("min", "inf"), ("satur01_gate", "0.5")] {
        let error = lowered(&format!("y[0,i] :{op}= a[i]\ny[1,i] :{op}= b[i]")).expect_err(op).to_string();
        assert!(error.contains(&format!("write `y[i,j] := {start}` once, then `{op}=`")), "{error}");
        legal(&format!("y[i,j] := {start}\ny[0,i] {op}= a[i]\ny[1,i] {op}= b[i]"));
    }
    let error = lowered("n[0] :max= 1\nn[1] :max= 2").expect_err("integers have no infinity").to_string();
    assert!(error.contains("write `n[i] := -2147483648` once"), "{error}");
    legal("n[i] := -2147483648\nn[0] max= 1\nn[1] max= 2");
}

#[test]
fn what_may_be_seen_is_legal() {
    // A fill with a part overwritten, in one statement or in several.
    legal("y[i,j] := 0\ny[0,i] := a[i]");
    legal("y[i,j] := 0\ny[0,i] := a[i]\ny[1,i] := b[i]");
    legal("y[i,j] := a[j]\ny[0,i] := b[i]");
    legal("q[i,j] := 0\nq[i,i] := a[i]");
    legal("n[i] := 0\nn[ids[i]] += 1");
    legal("x[i,j] := 0\nx[@t, j] := a[j]");
    // Read in between: by an operand, by itself, by an accumulation, by a copy.
    legal("y[i,j] := a[j]\ns :+= y[i,j]\ny[i,j] := b[j]");
    legal("y[i,j] := a[j]\nz[i,j] := pad(y, 0)[i + 1, j]\ny[i,j] := b[j]");
    legal("y[i,j] := a[j]\ny[i,j] := y[i,j] * 2");
    legal("y[i,j] := a[j]\ny[i,j] += b[j]\ns :+= y[i,j]\ny[i,j] := 1");
    legal("n[i] := 1\nz[0,j] := x[n[j], j]\nn[i] := 2");
    legal("n[i] := 1\nn[ids[i]] += 2\ns :+= n[i]\nn[i] := 1");
    // The two statements may write different elements.
    legal("x[@t, j] := a[j]\nx[@u, j] := b[j]");
    legal("x[@t, j] := a[j]\nx[@t + 1, j] := b[j]");
    legal("x[2*i, j] := a[j] where i < 4\nx[2*i + 1, j] := b[j] where i < 4");
    legal("q[i,i] := a[i]\nq[i, 3 - i] := b[i]");
    legal("x[i,j] := a[j] where i < 4\nx[i,j] := b[j] where i < 3");
    // One of the two nodes that the first statement writes keeps its values.
    legal("y[i,k], z[j,k] := x[i^j, k] where j < 2\ny[i,k] := a[k]");
    // The merge buffer is other memory than the node's.
    legal("y[i,j] := y.merge[i,j]\ny[i,j] += 1");
}

/// A write to a view writes elements of its parent.
#[test]
fn views_write_their_parents() {
    let (x, part) = (node("x", DType::F32, &[8, 4]), TensorNode::builder("part").dims([4]));
    let (part, a) = (part.dtype(DType::F32).build().expect("small"), node("a", DType::F32, &[4]));
    let lowered = |text: &str| {
        let program = parse(text, &[x.clone(), part.clone(), a.clone()]).unwrap_or_else(|e| panic!("{e}"));
        lower(&program, &LowerOptions::default()).map(|_| ())
    };
    for lost in [
        "part := slice(x, @b)\npart[i] := a[i]\nx[@b, i] := 0",
        "part := slice(x, @b)\nx[@b, i] := 0\npart[i] := a[i]",
        "part := slice(x, @b)\npart[i] := a[i]\nx[j, i] := 0",
    ] {
        let error = lowered(lost).expect_err(lost);
        assert!(matches!(error.kind(), LowerErrorKind::LostValues { .. }), "{lost}: {error}");
    }
    for legal in [
        "part := slice(x, @b)\npart[i] := a[i]\nx[@c, i] := 0",
        "x[j, i] := 0\npart := slice(x, @b)\npart[i] := a[i]",
        "x[j, i] := 1\npart := slice(x, @b)\na[i] := part[i]\nx[j, i] := 0",
    ] {
        lowered(legal).unwrap_or_else(|error| panic!("{legal}\n{error}"));
    }
}

/// A scan of a size needs a fill, and the size may be bound to 1.
#[test]
fn scans_overwrite_fills_alone() {
    let (x, a) = (node("x", DType::F32, &[1, 4]), node("a", DType::F32, &[4]));
    let lowered = |first: &str| {
        let text = format!("x[s, i] := {first}\nscan t in 0..1 {{ x[0 - t, i] := a[i] }}");
        let program = parse(&text, &[x.clone(), a.clone()]).unwrap_or_else(|e| panic!("{e}"));
        lower(&program, &LowerOptions::default()).map(|_| ())
    };
    lowered("0").expect("a fill");
    let error = lowered("2 * a[i]").expect_err("values");
    assert!(matches!(error.kind(), LowerErrorKind::LostValues { .. }), "{error}");
}

/// The values of the last copy of a step have no next step that reads them.
#[test]
fn copies_of_the_steps_of_a_scan_may_have_no_effect() {
    let (x, a, y) =
        (node("x", DType::F32, &[3, 2, 4]), node("a", DType::F32, &[4]), node("y", DType::F32, &[4]));
    let text = "y[i] := 0\nscan s in 0..3 { a[i] := 1\nscan t in 0..2 { y[i] += a[i]\na[i] := x[s, t, i] } }";
    let mut program = parse(text, &[x, a, y]).unwrap_or_else(|e| panic!("{e}"));
    program.unroll_scans(&|_, _| false).expect("no end");
    lower(&program, &LowerOptions::default()).expect("legal");
}

/// Without a text, the statements are listed.
#[test]
fn built_assignments_are_checked_too() {
    let (a, y) = (node("a", DType::F32, &[4]), node("y", DType::F32, &[4]));
    let copy = |value: Operand| builder::copy(&y, value).expect("fits");
    let rejected = |program: Assignments| {
        lower(&program, &LowerOptions::default()).map(|_| ()).expect_err("nothing sees it").to_string()
    };
    let twice = copy((&a).into()).then(builder::constant(&y, 2.0));
    assert_eq!(
        rejected(twice),
        "every value that `y[i0] =: a[i0]` stores in node y is overwritten by `y =: 2` before anything reads it; \
         remove one of the statements, or read the values in between"
    );
    let sum = builder::permute("i => i", &y, AccumOp::Add, &a).expect("fits");
    let error =
        rejected(builder::fetch(&y, FetchOp::RangeOverOffsets).named("first").then(sum.named("second")));
    assert!(error.contains("`y =: range_over_offsets`") && error.contains("`y[i0] =:+ a[i0]`"), "{error}");
    // Each routine is checked alone, because other routines may read the node between the two.
    lower(&copy((&a).into()), &LowerOptions::default()).expect("the first");
    lower(&builder::constant(&y, 2.0), &LowerOptions::default()).expect("the second");
}

/// Only the last 64 statements on a node are compared, so that the time for a statement does not grow with
/// the program.
#[test]
fn many_pending_statements() {
    let wide = node("wide", DType::F32, &[100]);
    let all: String = (0..100).map(|at| format!("wide[{at}] := {at}\n")).collect();
    let found = |last: &str| {
        let program = parse(&(all.clone() + last), std::slice::from_ref(&wide))
            .unwrap_or_else(|error| panic!("{error}"));
        let error = lower(&program, &LowerOptions::default()).err()?;
        error.spans().first().map(|span| span.line())
    };
    assert_eq!((found("wide[99] := 1"), found("wide[36] := 1")), (Some(100), Some(37)));
    assert_eq!((found("wide[35] := 1"), found("wide[i] := 1")), (None, Some(37)));
}
