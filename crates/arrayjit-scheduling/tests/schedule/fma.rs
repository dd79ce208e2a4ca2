//! Contraction policies, distinguished by a product whose rounding is visible.

use lowered_ir::ir::Numerics;
use scheduling::{FmaPolicy, ScheduleOptions};
use tnode::{DType, Scalar};

use super::common::{eager, filled, parse, steps_with};

const POLICIES: [FmaPolicy; 3] = [FmaPolicy::Never, FmaPolicy::ByClass, FmaPolicy::Always];

fn with(fma: FmaPolicy) -> ScheduleOptions {
    ScheduleOptions { fma, ..eager() }
}

/// `x * x - 1` for x = 1 + 2⁻¹²: the square is 1 + 2⁻¹¹ + 2⁻²⁴, and `f32` loses its last bit if the product
/// is rounded separately.
fn square_less_one(class: Numerics, fma: FmaPolicy) -> f64 {
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
    let (_, results, _) = steps_with(&case, &with(fma));
    Scalar::read(DType::F32, &results[1][..4]).unwrap().as_f64()
}

#[test]
fn the_policy_decides_where_a_product_is_rounded() {
    let (rounded, fused) = ((-11f64).exp2(), (-11f64).exp2() + (-24f64).exp2());
    let found = |class| POLICIES.map(|fma| square_less_one(class, fma));
    assert_eq!(found(Numerics::Fast), [rounded, fused, fused]);
    assert_eq!(found(Numerics::Strict), [rounded, rounded, fused]);
}

#[test]
fn an_unfused_matmul_is_tiled_and_has_the_bits_of_the_strict_one() {
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
    let (_, unfused, trace) = steps_with(&case, &with(FmaPolicy::Never));
    let tiled = &trace.last().unwrap().1;
    assert!(tiled.contains("f32[2, 16] register") && !tiled.contains("fma"), "no register tile:\n{tiled}");
    let (_, fused, _) = steps_with(&case, &with(FmaPolicy::ByClass));
    assert_ne!(unfused, fused);
    case.routine.numerics = Numerics::Strict;
    let (_, strict, _) = steps_with(&case, &with(FmaPolicy::ByClass));
    assert_eq!(unfused, strict);
    let (_, always, _) = steps_with(&case, &with(FmaPolicy::Always));
    assert_eq!(always, fused);
}
