//! Margins of padded nodes hold the values that their readers need.

use crate::program;

use assignments::lower::{LowerOptions, lower};
use expect_test::expect;
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use program::{Machine, body, f32s, read, values};
use tnode::{DType, MemoryMode, Padding, TensorNode};

/// A node of `f32` with margins.
fn padded(label: &str, dims: &[usize], margins: &[(usize, usize)], neutral: Option<f64>) -> TensorNode {
    let padding = Padding::new(margins.iter().copied(), neutral);
    let node = TensorNode::builder(label).dims(dims.iter().copied()).dtype(DType::F32).padding(padding);
    node.build().expect("small")
}

/// An array with margins: `values`, of shape `dims`, in the middle, and `outside` in every element of the
/// margins.
fn with_margins(dims: [usize; 2], margins: [(usize, usize); 2], values: &[f64], outside: f64) -> Vec<f64> {
    let width = margins[1].0 + dims[1] + margins[1].1;
    let mut all = vec![outside; (margins[0].0 + dims[0] + margins[0].1) * width];
    for (at, &value) in values.iter().enumerate() {
        all[(at / dims[1] + margins[0].0) * width + at % dims[1] + margins[1].0] = value;
    }
    all
}

const CONV_THEN_POOL: &str = "y[i,j] :+= x[i + k - 1, j + l - 1] * w[k,l]
z[i,j] :max= x[i + k - 1, j + l - 1] where k < 3, l < 3
u[i,j] :max= x[i, j + l - 1] + 1 where l < 2";

#[test]
fn padding_reset() {
    let margins = [(1, 1), (1, 1)];
    let (w, [y, z, u]) = (f32s("w", &[3, 3]), ["y", "z", "u"].map(|name| f32s(name, &[4, 5])));
    let open = padded("x", &[4, 5], &margins, None);
    expect![[r#"
        node %0 "x" f32[6, 7] materialized
        node %1 "w" f32[3, 3]
        node %2 "y" f32[4, 5]
        node %3 "z" f32[4, 5]
        node %4 "u" f32[4, 5]
        for i0 in 0..7 {
          %0[0, i0] := 0.0f32
        }
        for i1 in 0..7 {
          %0[5, i1] := 0.0f32
        }
        for i2 in 0..4 {
          %0[i2 + 1, 0] := 0.0f32
        }
        for i3 in 0..4 {
          %0[i3 + 1, 6] := 0.0f32
        }
        zero %2
        for i4 in 0..4 {
          for i5 in 0..5 {
            for i6 in 0..3 {
              for i7 in 0..3 {
                %2[i4, i5] := %2[i4, i5] + %0[i4 + i6, i5 + i7] * %1[i6, i7]
              }
            }
          }
        }
        for i8 in 0..7 {
          %0[0, i8] := -inff32
        }
        for i9 in 0..7 {
          %0[5, i9] := -inff32
        }
        for i10 in 0..4 {
          %0[i10 + 1, 0] := -inff32
        }
        for i11 in 0..4 {
          %0[i11 + 1, 6] := -inff32
        }
        for i12 in 0..4 {
          for i13 in 0..5 {
            %3[i12, i13] := -inff32
          }
        }
        for i14 in 0..4 {
          for i15 in 0..5 {
            for i16 in 0..3 {
              for i17 in 0..3 {
                %3[i14, i15] := max(%0[i14 + i16, i15 + i17], %3[i14, i15])
              }
            }
          }
        }
        for i18 in 0..4 {
          for i19 in 0..5 {
            %4[i18, i19] := -inff32
          }
        }
        for i20 in 0..4 {
          for i21 in 0..5 {
            for i22 in 0..2 {
              %4[i20, i21] := max(%0[i20 + 1, i21 + i22] + 1.0f32, %4[i20, i21])
            }
          }
        }
    "#]]
    .assert_eq(&body(&read(CONV_THEN_POOL, &[&open, &w, &y, &z, &u])));
    let zero = padded("x", &[4, 5], &margins, Some(0.0));
    expect![[r#"
        node %0 "x" f32[6, 7] materialized
        node %1 "w" f32[3, 3]
        node %2 "y" f32[4, 5]
        node %3 "z" f32[4, 5]
        node %4 "u" f32[4, 5]
        zero %2
        for i0 in 0..4 {
          for i1 in 0..5 {
            for i2 in 0..3 {
              for i3 in 0..3 {
                %2[i0, i1] := %2[i0, i1] + %0[i0 + i2, i1 + i3] * %1[i2, i3]
              }
            }
          }
        }
        for i4 in 0..7 {
          %0[0, i4] := -inff32
        }
        for i5 in 0..7 {
          %0[5, i5] := -inff32
        }
        for i6 in 0..4 {
          %0[i6 + 1, 0] := -inff32
        }
        for i7 in 0..4 {
          %0[i7 + 1, 6] := -inff32
        }
        for i8 in 0..4 {
          for i9 in 0..5 {
            %3[i8, i9] := -inff32
          }
        }
        for i10 in 0..4 {
          for i11 in 0..5 {
            for i12 in 0..3 {
              for i13 in 0..3 {
                %3[i10, i11] := max(%0[i10 + i12, i11 + i13], %3[i10, i11])
              }
            }
          }
        }
        for i14 in 0..4 {
          for i15 in 0..5 {
            %4[i14, i15] := -inff32
          }
        }
        for i16 in 0..4 {
          for i17 in 0..5 {
            for i18 in 0..2 {
              %4[i16, i17] := max(%0[i16 + 1, i17 + i18] + 1.0f32, %4[i16, i17])
            }
          }
        }
        for i19 in 0..7 {
          %0[0, i19] := 0.0f32
        }
        for i20 in 0..7 {
          %0[5, i20] := 0.0f32
        }
        for i21 in 0..4 {
          %0[i21 + 1, 0] := 0.0f32
        }
        for i22 in 0..4 {
          %0[i22 + 1, 6] := 0.0f32
        }
    "#]]
    .assert_eq(&body(&read(CONV_THEN_POOL, &[&zero, &w, &y, &z, &u])));
}

#[test]
fn readers_with_different_needs_get_their_values() {
    let (dims, margins) = ([4, 5], [(1, 1), (1, 1)]);
    let (xs, ws) = (values(20, 3), values(9, 5));
    let at = |i: i64, j: i64, outside: f64| match (0..4).contains(&i) && (0..5).contains(&j) {
        true => xs[(i * 5 + j) as usize],
        false => outside,
    };
    let window = |i: i64, j: i64, f: &mut dyn FnMut(usize, i64, i64)| {
        (0..9).for_each(|kl| f(kl as usize, i + kl / 3 - 1, j + kl % 3 - 1));
    };
    let (mut conv, mut pool) = (Vec::new(), Vec::new());
    for (i, j) in (0..20).map(|at| (at / 5, at % 5)) {
        let (mut sum, mut max) = (0.0, f64::NEG_INFINITY);
        window(i, j, &mut |kl, i, j| sum += at(i, j, 0.0) * ws[kl]);
        window(i, j, &mut |_, i, j| max = max.max(at(i, j, f64::NEG_INFINITY)));
        conv.push(sum);
        pool.push(max);
    }
    for (neutral, held) in
        [(None, 77.0), (Some(0.0), 0.0), (Some(f64::NEG_INFINITY), f64::NEG_INFINITY), (Some(3.0), 3.0)]
    {
        let (x, w, [y, z, u]) = (
            padded("x", &dims, &margins, neutral),
            f32s("w", &[3, 3]),
            ["y", "z", "u"].map(|name| f32s(name, &dims)),
        );
        let mut machine = Machine::new(&read(CONV_THEN_POOL, &[&x, &w, &y, &z, &u]));
        machine.set(&x, &with_margins(dims, margins, &xs, held));
        machine.set(&w, &ws);
        for routine in [machine.lowered.routine.clone(), {
            let settings = OptimizeSettings::default();
            optimize(machine.lowered.routine.clone(), &settings)
                .unwrap_or_else(|error| panic!("{error}"))
                .routine
        }] {
            machine.lowered.routine = routine;
            machine.run(&[]);
            assert_eq!(machine.get(&y), conv, "{neutral:?}");
            assert_eq!(machine.get(&z), pool, "{neutral:?}");
            if neutral.is_some() {
                let after = with_margins(dims, margins, &xs, held);
                assert_eq!(machine.get(&x), after, "what is declared holds between routines");
            }
        }
    }
}

#[test]
fn each_operation_has_its_neutral_element() {
    let [y, n, z] = ["y", "n", "z"].map(|label| f32s(label, &[4]));
    let x = padded("x", &[4], &[(1, 0)], None);
    for (op, expected) in
        [(":+=", "0.0f32"), ("-=", "0.0f32"), (":*=", "1.0f32"), (":min=", "inff32"), (":max=", "-inff32")]
    {
        let text = body(&read(&format!("y[i] {op} x[i - 1]"), &[&x, &y]));
        assert!(text.contains(&format!("%0[0] := {expected}\n")), "{op}: {text}");
    }
    // The node of a subexpression needs the margins that its statement needs: here those of `max`.
    let deep = body(&read("y[i] :max= abs(x[i - k]) * 2 - 1 where k < 2", &[&x, &y]));
    assert!(deep.contains("%0[0] := -inff32\n"), "{deep}");
    // A plain assignment reads the neutral value that the padding declares, or 0.
    let plain = |x: &TensorNode| body(&read("y[i] := x[i - 1]", &[x, &y]));
    assert!(plain(&x).contains("%0[0] := 0.0f32\n"));
    assert!(!plain(&padded("x", &[4], &[(1, 0)], Some(5.0))).contains("5.0f32"), "it holds that already");
    // Consecutive steps that need the same value set the margins once. A step that reads only values does not
    // set them.
    let twice = body(&read("y[i] :+= x[i - 1]; n[i] :+= x[i - 1]; z[i] := x[i]", &[&x, &y, &n, &z]));
    assert_eq!(twice.matches("%0[0] :=").count(), 1, "{twice}");
    assert_eq!(body(&read("y[i] := x[i]", &[&x, &y])).matches("%0[0] :=").count(), 0);
}

#[test]
fn a_node_that_the_routine_fills_gets_its_margins() {
    let (a, y) = (f32s("a", &[3]), f32s("y", &[3]));
    let text = |neutral| {
        let hidden = padded("h", &[3], &[(1, 1)], neutral);
        body(&read("h[i] := 2 * a[i]; y[i] :+= h[i + k - 1] where k < 3", &[&a, &hidden, &y]))
    };
    expect![[r#"
        node %0 "a" f32[3]
        node %1 "h" f32[5]
        node %2 "y" f32[3]
        for i0 in 0..3 {
          %1[i0 + 1] := 2.0f32 * %0[i0]
        }
        %1[0] := 0.0f32
        %1[4] := 0.0f32
        zero %2
        for i1 in 0..3 {
          for i2 in 0..3 {
            %2[i1] := %2[i1] + %1[i1 + i2]
          }
        }
    "#]]
    .assert_eq(&text(None));
    // The routine sets margins that it does not read for later routines, unless fresh memory, which is 0, has
    // the right value.
    let filled = |neutral| body(&read("h[i] := 2 * a[i]", &[&a, &padded("h", &[3], &[(1, 1)], neutral)]));
    assert_eq!(filled(Some(-1.0)).matches("-1.0f32").count(), 2);
    assert_eq!((filled(Some(0.0)).matches(":=").count(), filled(None).matches(":=").count()), (1, 1));
}

#[test]
fn a_hidden_padded_node_stays_inside_the_routine() {
    let (a, y) = (f32s("a", &[3]), f32s("y", &[3]));
    let hidden = padded("h", &[3], &[(1, 1)], None);
    let text = read("h[i] :+= a[i] * a[j]; y[i] :+= h[i + k - 1] where k < 3", &[&a, &hidden, &y]);
    let lowered = lower(&text, &LowerOptions::default()).expect("lowers");
    let optimized = optimize(lowered.lowered.routine, &OptimizeSettings::default()).expect("optimizes");
    let mode = optimized.routine.nodes.iter().find(|decl| decl.name == "h").expect("it is used").mode.mode();
    assert_eq!(mode, Some(MemoryMode::Local), "all of it is set before it is read");
}

/// The routine sets the margins and reads nothing else, but the values of the node are the user's.
#[test]
fn a_node_that_is_read_in_its_margins_alone_keeps_its_memory() {
    let mode_of = |text: &str, read_at: &str| {
        let (x, y) = (padded("x", &[4], &[(1, 1)], None), f32s("y", &[1]));
        let lowered = lower(&read(text, &[&x, &y]), &LowerOptions::default()).expect("a valid text");
        let optimized =
            optimize(lowered.lowered.routine, &OptimizeSettings::default()).expect("no mode is in the way");
        let at = lowered.lowered.nodes.iter().position(|node| *node == x).expect("the text mentions it");
        let mode = &optimized.routine.nodes[at].mode;
        (mode.mode(), mode.explain(read_at).contains("its values come from elsewhere"))
    };
    let input = (Some(MemoryMode::Materialized), true);
    assert_eq!(mode_of("y[i] := x[i - 1]", "x"), input);
    assert_eq!(mode_of("y[i] := x[i + 4]", "x"), input);
    // A node that the routine computes may be virtual, even if only its margins are read.
    let computed = mode_of("x[i] := 2\ny[i] := x[i - 1]", "x");
    assert_eq!(computed, (Some(MemoryMode::Virtual), false));
}
