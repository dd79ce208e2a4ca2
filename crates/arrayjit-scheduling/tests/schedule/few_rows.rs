//! Products of a few rows: each row has the bits that it has alone, and all read the other operand together.

use codegen_core::Caps;
use lowered_ir::ir::{LoopKind, Stmt, walk};

use super::common::{Trace, cpu, eager, filled, parse, steps_on};
use super::programs::Program;
use tnode::DType;

/// `z[b,o] := relu(sum over k of x[b,k] * w[o,k] + c[o])`.
fn layer(rows: usize, outputs: usize, inputs: usize) -> Program {
    Program {
        kept: vec![
            ("x", vec![rows, inputs]),
            ("w", vec![outputs, inputs]),
            ("c", vec![outputs]),
            ("z", vec![rows, outputs]),
        ],
        local: vec![("y", vec![rows, outputs])],
        text: "y[b,o] :+= x[b,k] * w[o,k]\nz[b,o] := relu(y[b,o] + c[o])".into(),
    }
}

/// The bytes of `z`, and the passes, with vectors of so many bytes and registers.
fn run(program: &Program, (vector_bytes, vector_registers): (usize, usize)) -> (Vec<u8>, Trace) {
    let caps = Caps { vector_bytes, vector_registers, ..cpu() };
    let (_, mut results, trace) = steps_on(&filled(program.routine()), &caps, &eager());
    (results.remove(3), trace)
}

fn is_jammed(trace: &Trace) -> bool {
    let at = trace.iter().position(|(name, _)| name == "jam_rows").expect("the pass runs");
    trace[at - 1].1 != trace[at].1
}

#[test]
fn rows_of_a_batch_have_the_bits_that_they_have_alone() {
    for (rows, outputs, inputs) in [(2, 5, 32), (3, 40, 65), (4, 7, 300), (5, 9, 256), (8, 3, 577)] {
        for vectors in [(16, 32), (32, 16), (64, 32)] {
            let (batch, trace) = run(&layer(rows, outputs, inputs), vectors);
            assert!(is_jammed(&trace), "{rows} rows of {inputs}");
            let (alone, _) = run(&layer(1, outputs, inputs), vectors);
            assert_eq!(batch[..alone.len()], alone, "{rows} rows of {inputs}");
        }
    }
}

#[test]
fn products_of_many_or_short_rows_stay_contractions() {
    for (rows, outputs, inputs) in [(9, 20, 256), (5, 20, 64), (2, 20, 31), (8, 9, 800)] {
        assert!(!is_jammed(&run(&layer(rows, outputs, inputs), (32, 16)).1), "{rows} rows of {inputs}");
    }
}

/// The other operand passes once: its loop is outside of that over the rows, whatever is fused with it.
#[test]
fn rows_are_inside_of_the_loop_over_outputs() {
    let (_, trace) = run(&layer(4, 300, 256), (32, 16));
    let last = lowered_ir::text::parse(&trace.last().unwrap().1).unwrap();
    let is_outer = |stmt: &Stmt| match stmt {
        Stmt::For { hi, body, .. } => {
            let rows =
                walk::stmts(body).any(|stmt| matches!(stmt, Stmt::For { kind: LoopKind::Unrolled, .. }));
            rows && hi.limit == 300
        }
        _ => false,
    };
    assert!(last.body.iter().any(is_outer), "{}", trace.last().unwrap().1);
}

/// A row that takes most of a cache is loaded once for several outputs, if these divide into equal groups.
#[test]
fn outputs_share_a_long_row() {
    for (outputs, shared) in [(6, true), (10, true), (7, false)] {
        let caps = Caps { vector_bytes: 32, vector_registers: 16, l1_bytes: 1024, ..cpu() };
        let case = filled(layer(1, outputs, 512).routine());
        assert_eq!(is_jammed(&steps_on(&case, &caps, &eager()).2), shared, "{outputs} outputs");
    }
}

/// As in attention of one token: a few rows of weights multiply all values up to a size of the run. Vectors
/// read each row of the values once, in order, for a row of the result.
#[test]
fn long_narrow_products_of_a_few_rows_read_rows_in_order() {
    let text = "routine @mixed fast {
  symbol @n in 1..513
  node %0 \"weight\" f32[2, 3, 512] on_device
  node %1 \"values\" f32[2, 512, 64] on_device
  node %2 \"mixed\" f32[2, 3, 64] on_device
  zero %2
  for i0 in 0..2 {
    for i1 in 0..3 {
      for i2 in 0..64 {
        for i3 in 0..min(512, @n) {
          %2[i0, i1, i2] := %2[i0, i1, i2] + %0[i0, i1, i3] * %1[i0, i3, i2]
        }
      }
    }
  }
}
";
    let contractions = [DType::F32].into_iter().collect();
    let caps = Caps { vector_bytes: 32, vector_registers: 16, contractions, ..cpu() };
    for n in [1, 77, 512] {
        let case = filetests::RunCase { bindings: vec![n], ..filled(parse(text)) };
        let (_, _, trace) = steps_on(&case, &caps, &eager());
        let last = &trace.last().unwrap().1;
        assert!(last.contains("f32[64] register"), "{last}");
    }
}

/// One of the loops over the sum is empty, so that nothing is added.
#[test]
fn products_without_terms_are_zero() {
    let text = "routine @empty fast {
  node %0 \"a\" f32[3, 0, 64] on_device
  node %1 \"b\" f32[5, 0, 64] on_device
  node %2 \"c\" f32[3, 5] on_device
  zero %2
  for i0 in 0..3 {
    for i1 in 0..5 {
      for i2 in 0..0 {
        for i3 in 0..64 {
          %2[i0, i1] := %2[i0, i1] + %0[i0, i2, i3] * %1[i1, i2, i3]
        }
      }
    }
  }
}
";
    let (_, results, _) = steps_on(&filled(parse(text)), &cpu(), &eager());
    assert!(results[2].iter().all(|byte| *byte == 0));
}
