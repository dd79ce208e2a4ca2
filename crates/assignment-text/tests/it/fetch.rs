//! Fills of whole nodes: numbers, bits, offsets, ids and slices, from the text and the builder.

use crate::{assignment_text_errors, program};

use assignments::indexing::StaticSymbol;
use assignments::lower::{LowerOptions, lower};
use assignments::{Assignments, FetchOp, builder};
use expect_test::{expect, expect_file};
use program::{Machine, body, f32s, lowered, node, read, values};
use tnode::{DType, MemoryMode, Padding, TensorNode, commit_decisions};

#[test]
fn every_form_has_its_text() {
    let (y, k) = (f32s("y", &[2, 2]), node("k", DType::U16, &[]));
    for (text, op) in [
        ("y := offsets()", FetchOp::RangeOverOffsets),
        ("y := self_id()", FetchOp::EmbedSelfId),
        ("y := values(1, -2.5, inf, 0.25)", FetchOp::ConstantFill(vec![1.0, -2.5, f64::INFINITY, 0.25])),
        ("k := bits(0xfFfF)", FetchOp::ConstantBits(0xffff)),
        ("k := bits(12)", FetchOp::ConstantBits(12)),
        ("k := values(7)", FetchOp::ConstantFill(vec![7.0])),
    ] {
        let target = if text.starts_with('y') { &y } else { &k };
        assert_eq!(read(text, &[&y, &k]).steps[1..], builder::fetch(target, op).steps, "{text}");
    }
}

#[test]
fn values_of_every_form() {
    let (y, x) = (node("y", DType::I64, &[2, 3]), f32s("x", &[7, 2]));
    let run = |assignments: &Assignments| {
        let mut machine = Machine::new(assignments);
        machine.run(&[]);
        machine.get(&y)
    };
    assert_eq!(run(&read("y := offsets()", &[&y])), [0., 1., 2., 3., 4., 5.]);
    assert_eq!(run(&read("y := self_id()", &[&y])), [y.id().get() as f64; 6]);
    assert_eq!(run(&read("y := bits(0x11)", &[&y])), [17.0; 6]);
    let dim = |axis| builder::fetch(&y, FetchOp::EmbedDim { of: x.clone(), axis });
    assert_eq!((run(&dim(0)), run(&dim(1))), (vec![7.0; 6], vec![2.0; 6]));
    let error = lower(&dim(2), &LowerOptions::default()).expect_err("two axes");
    assert_eq!(error.to_string(), "node x has dimensions [7, 2], found axis 2");
}

#[test]
fn the_size_of_a_letter_is_a_value() {
    let (x, mean, n) = (f32s("x", &[2, 4]), f32s("mean", &[2]), node("n", DType::I32, &[2]));
    let text = read("mean[b] :+= x[b,i] / size(i)\nn[b] := size(b) * 10", &[&x, &mean, &n]);
    let mut machine = Machine::new(&text);
    machine.set(&x, &[1., 2., 3., 4., 10., 20., 30., 40.]);
    machine.run(&[]);
    assert_eq!((machine.get(&mean), machine.get(&n)), (vec![2.5, 25.0], vec![20.0, 20.0]));
}

#[test]
fn mistakes_are_shown_in_place() {
    let (x, y, k) = (f32s("x", &[2, 2]), f32s("y", &[2, 2]), node("k", DType::U8, &[]));
    let nodes = [x, y, k];
    assignment_text_errors::check_parser(&expect_file!["../errors/fills.txt"], &nodes);
}

#[test]
fn a_slice_is_a_view_where_it_can_be() {
    let (x, s, y) = (f32s("x", &[5, 3]), f32s("s", &[3]), f32s("y", &[3]));
    let text = read("s := slice(x, @b)\ny[i] := 2 * s[i]\ns[i] += 1", &[&x, &s, &y]);
    expect![[r#"
        # s := slice(x, @b)
        s =: slice(x, @b);
        # y[i] := 2 * s[i]
        y[i0] =: 2.0 * s[i0];
        # s[i] += 1
        s[i0] =+ 1.0;
    "#]]
    .assert_eq(&text.to_string());
    expect![[r#"
        symbol @b in 0..5
        node %0 "x" f32[5, 3]
        node %1 "y" f32[3]
        for i0 in 0..3 {
          %1[i0] := 2.0f32 * %0[@b, i0]
        }
        for i1 in 0..3 {
          %0[@b, i1] := %0[@b, i1] + 1.0f32
        }
    "#]]
    .assert_eq(&body(&text));
    let found = lowered(&text);
    let views: Vec<String> =
        found.views.iter().map(|(node, view)| format!("{} is {view}", node.name())).collect();
    assert_eq!(views, ["s is a view of x at @b"]);
    assert_eq!(s.view(), None, "lowering records nothing");

    let mut machine = Machine::new(&text);
    machine.set(&x, &values(15, 1));
    machine.run(&[3]);
    let row = &values(15, 1)[9..12];
    assert_eq!(machine.get(&y), row.iter().map(|v| 2.0 * v).collect::<Vec<_>>());
    assert_eq!(machine.get(&x)[9..12], row.iter().map(|v| v + 1.0).collect::<Vec<_>>());
}

#[test]
fn a_recorded_view_is_one_in_later_programs() {
    let (x, s, t, y) = (f32s("x", &[5, 4, 3]), f32s("s", &[4, 3]), f32s("t", &[3]), f32s("y", &[3]));
    let first = read("s := slice(x, @b); t := slice(s, @c); t[i] := 0", &[&x, &s, &t]);
    expect![[r#"
        symbol @b in 0..5
        symbol @c in 0..4
        node %0 "x" f32[5, 4, 3]
        for i0 in 0..3 {
          %0[@b, @c, i0] := 0.0f32
        }
    "#]]
    .assert_eq(&body(&first));
    commit_decisions(&[], &lowered(&first).views).expect("nothing else was decided");
    assert_eq!(s.view().map(|view| view.to_string()).as_deref(), Some("a view of x at @b"));
    let explained = s.explain();
    assert!(explained.contains("virtual because it is a view of x at @b"), "{explained}");

    let later = read("y[i] := t[i] * s[@k, i]", &[&s, &t, &y]);
    expect![[r#"
        symbol @k in 0..4
        symbol @c in 0..4
        symbol @b in 0..5
        node %0 "x" f32[5, 4, 3]
        node %1 "y" f32[3]
        for i0 in 0..3 {
          %1[i0] := %0[@b, @c, i0] * %0[@b, @k, i0]
        }
    "#]]
    .assert_eq(&body(&later));
    let names = |nodes: Vec<TensorNode>| nodes.iter().map(TensorNode::name).collect::<Vec<_>>().join(" ");
    assert_eq!((names(later.context_nodes()), names(later.embedded_nodes())), ("x".into(), "y".into()));
    let write = read("t[i] := 1", &[&t]);
    assert_eq!((names(write.context_nodes()), names(write.embedded_nodes())), ("x".into(), String::new()));

    // Slicing the same slice again makes no new view. Another slice is rejected, and so is a read of a view's
    // merge buffer.
    assert!(lowered(&read("s := slice(x, @b)", &[&x, &s])).views.is_empty());
    let rejected = |text: &str| {
        let error = lower(&read(text, &[&x, &s, &y, &t]), &LowerOptions::default()).expect_err(text);
        error.to_string()
    };
    expect![[r#"
        line 1, column 6: node s is a view of x at @b, found a view of x at @other
        1 | s := slice(x, @other)
          |      ^^^^^^^^^^^^^^^^"#]]
    .assert_eq(&rejected("s := slice(x, @other)"));
    expect![[r#"
        line 1, column 9: node t is a view of s at @c and has no merge buffer of its own; read that of its parent
        1 | y[i] := t.merge[i]
          |         ^^^^^^^^^^"#]]
        .assert_eq(&rejected("y[i] := t.merge[i]"));
}

#[test]
fn a_slice_is_copied_where_it_cannot_be_a_view() {
    let x = f32s("x", &[5, 3]);
    let row = || TensorNode::builder("s").dims([3]);
    let hosted = row().dtype(DType::F32).mode(MemoryMode::Materialized).build().expect("small");
    expect![[r#"
        symbol @b in 0..5
        node %0 "x" f32[5, 3]
        node %1 "s" f32[3] materialized
        for i0 in 0..3 {
          %1[i0] := %0[@b, i0]
        }
    "#]]
    .assert_eq(&body(&read("s := slice(x, @b)", &[&x, &hosted])));

    let narrow = row().dtype(DType::F16).build().expect("small");
    expect![[r#"
        symbol @b in 0..5
        node %0 "x" f32[5, 3]
        node %1 "s" f16[3]
        for i0 in 0..3 {
          %1[i0] := convert f16(%0[@b, i0])
        }
    "#]]
    .assert_eq(&body(&read("s := slice(x, @b)", &[&x, &narrow])));

    let s = row().dtype(DType::F32).build().expect("small");
    let margins = Padding::new([(1, 1), (2, 0)], None);
    let padded =
        TensorNode::builder("x").dims([5, 3]).dtype(DType::F32).padding(margins).build().expect("small");
    expect![[r#"
        symbol @b in 0..5
        node %0 "x" f32[7, 5]
        node %1 "s" f32[3]
        for i0 in 0..3 {
          %1[i0] := %0[@b + 1, i0 + 2]
        }
    "#]]
    .assert_eq(&body(&read("s := slice(x, @b)", &[&padded, &s])));

    let inlined = TensorNode::builder("v").dims([5, 3]).dtype(DType::F32).mode(MemoryMode::Virtual);
    let inlined = inlined.build().expect("small");
    let of_virtual = read("v[i,j] := 2 * x[i,j]; s := slice(v, @b)", &[&x, &inlined, &s]);
    assert!(lowered(&of_virtual).views.is_empty());

    let r = f32s("r", &[]);
    // The node is used before it is sliced, or gets another slice later.
    for text in [
        "s[i] := 1; r :+= s[i]; s := slice(x, @b)",
        "s := slice(x, @b); r :+= s[i]; s := slice(x, @c)",
        "s := slice(x, @b); s[i] += s.merge[i]",
    ] {
        assert!(lowered(&read(text, &[&x, &s, &r])).views.is_empty(), "{text}");
    }
    let q = f32s("q", &[4]);
    let error =
        lower(&read("q := slice(x, @b)", &[&x, &q]), &LowerOptions::default()).expect_err("4 is not 3");
    let message = error.to_string();
    assert!(
        message.starts_with("line 1, column 6: node q has dimensions [4], but a slice of x [5, 3] has [3]\n"),
        "{message}"
    );
    let error = builder::slice(&q, &r, &StaticSymbol::open("b"));
    let error = lower(&error, &LowerOptions::default()).expect_err("no axis");
    assert_eq!(error.to_string(), "node q has dimensions [4], but a slice of r [] has no axis to be at");
}

#[test]
fn a_parent_is_not_read_while_its_view_is_written() {
    let (x, s, t, y) = (f32s("x", &[5, 3]), f32s("s", &[3]), f32s("t", &[3]), f32s("y", &[3]));
    let lowers = |statement: &str| {
        let text = format!("s := slice(x, @b); t := slice(x, @c); {statement}");
        lower(&read(&text, &[&x, &s, &t, &y]), &LowerOptions::default()).map(|_| ())
    };
    for rejected in [
        "s[i] := x[@b, 2 - i]",
        "x[@b, i] := s[2 - i]",
        "s[i] := t[i]",
        "s[i] := pad(x, 0)[@b, i]",
        "s[0] :+= x[@b, i]",
        "s[0] += x[@b, i]",
        "s[i^j] := x[@b, 2*i], y[j + 1] where i < 1, j < 2",
        "t[i^j] := y[2*i], s[j + 1] where i < 1, j < 2",
    ] {
        let error = lowers(rejected);
        assert!(error.is_err(), "{rejected}");
    }
    let message = lowers("s[i] := t[i]").expect_err("rows that may be one").to_string();
    expect![[r#"
        line 1, column 47: node t is read while node s is written, and the elements of both are in x; write to another node first
        1 | s := slice(x, @b); t := slice(x, @c); s[i] := t[i]
          |                                               ^^^^"#]].assert_eq(&message);
    for accepted in
        ["s[i] := 2 * x[@b, i]", "x[@b, i] += s[i]", "y[i] := s[i] + t[i] + x[@b, i]", "s[i] += y[2 - i]"]
    {
        lowers(accepted).unwrap_or_else(|error| panic!("{accepted}: {error}"));
    }
}

#[test]
fn whole_node_operations_reach_through_views() {
    let (x, s, z) = (f32s("x", &[2, 3]), f32s("s", &[3]), f32s("z", &[3, 3]));
    let text = "s := slice(x, @b)\ns := offsets()\nz[i,j] := pad(s, -1)[i + j - 1]\ns[0] :+= z[i,i]";
    let text = read(text, &[&x, &s, &z]);
    expect![[r#"
        symbol @b in 0..2
        node %0 "x" f32[2, 3]
        node %1 "z" f32[3, 3]
        for i0 in 0..3 {
          %0[@b, i0] := convert f32(index i32(i0))
        }
        for i1 in 0..3 {
          for i2 in 0..3 {
            %1[i1, i2] := guarded(0 <= i1 + i2 - 1 < 3, %0[@b, i1 + i2 - 1], -1.0f32)
          }
        }
        for i3 in 0..3 {
          %0[@b, i3] := 0.0f32
        }
        for i4 in 0..3 {
          %0[@b, 0] := %0[@b, 0] + %1[i4, i4]
        }
    "#]]
    .assert_eq(&body(&text));
    let mut machine = Machine::new(&text);
    machine.set(&x, &[9.0; 6]);
    machine.run(&[1]);
    // The offsets 0, 1, 2 gave the diagonal -1, 1, -1; then the row starts from zero.
    assert_eq!(machine.get(&x), [9., 9., 9., -1., 0., 0.]);
}
