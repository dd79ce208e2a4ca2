//! Contraction to fma by class, distinguished by a product whose rounding is visible.

use lowered_ir::ir::Numerics;
use tnode::{DType, Scalar};

use super::common::{eager, filled, parse, steps_with};

/// `x * x - 1` for x = 1 + 2⁻¹²: the square is 1 + 2⁻¹¹ + 2⁻²⁴, and `f32` loses its last bit if the product
/// is rounded separately.
fn square_less_one(class: Numerics) -> f64 {
    let mut case = filled(parse(
        "routine @t fast {
  node %0 \"x\" f32[4] on_device
  node %1 \"y\" f32[4] on_device
  for i0 in 0..4 {
    %1[i0] := %0[i0] * %0[i0] + -1.0f32
  }
}
",
    ));
    case.routine.numerics = class;
    for element in case.inputs[0].chunks_exact_mut(4) {
        Scalar::from_f64(DType::F32, 1.0 + (-12f64).exp2()).write(element);
    }
    let (_, results, _) = steps_with(&case, &eager());
    Scalar::read(DType::F32, &results[1][..4]).unwrap().as_f64()
}

#[test]
fn the_class_decides_where_a_product_is_rounded() {
    let (rounded, fused) = ((-11f64).exp2(), (-11f64).exp2() + (-24f64).exp2());
    assert_eq!(square_less_one(Numerics::Fast), fused);
    assert_eq!(square_less_one(Numerics::Strict), rounded);
}

#[test]
fn a_matmul_is_tiled_with_fma_or_without() {
    let mut case = filled(parse(
        "routine @matmul fast {
  node %0 \"a\" f32[64, 37] on_device
  node %1 \"b\" f32[37, 128] on_device
  node %2 \"c\" f32[64, 128] on_device
  zero %2
  for i0 in 0..64 {
    for i1 in 0..128 {
      for i2 in 0..37 {
        %2[i0, i1] := %2[i0, i1] + %0[i0, i2] * %1[i2, i1]
      }
    }
  }
}
",
    ));
    let mut results = Vec::new();
    for class in [Numerics::Fast, Numerics::Strict] {
        case.routine.numerics = class;
        let (_, values, trace) = steps_with(&case, &eager());
        let tiled = &trace.last().unwrap().1;
        assert!(tiled.contains("f32[2, 16] register"), "no register tile:\n{tiled}");
        assert_eq!(tiled.contains("fma"), class == Numerics::Fast, "{tiled}");
        results.push(values);
    }
    assert_ne!(results[0], results[1]);
}
