//! Large constants of narrow types are rejected from the limit on, but not below it, and not if the check is
//! off.

use lowered_ir::pipeline::{OptimizeError, OptimizeSettings, optimize};
use lowered_ir::text;
use tnode::DType;

/// Optimizes `y[i] := x[i] + value` over elements of the type.
fn optimized(dtype: &str, value: &str, cutoff: Option<f64>) -> Result<(), OptimizeError> {
    let source = format!(
        "routine @scale strict {{\nnode %0 \"x\" {dtype}[4] on_device\nnode %1 \"y\" {dtype}[4] on_device\n\
         for i0 in 0..4 {{ %1[i0] := %0[i0] + {value} }}\n}}"
    );
    let routine = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    optimize(routine, &OptimizeSettings { half_constant_cutoff: cutoff, ..OptimizeSettings::default() })
        .map(drop)
}

fn default() -> Option<f64> {
    OptimizeSettings::default().half_constant_cutoff
}

#[test]
fn at_below_and_above_the_limit() {
    assert_eq!(default(), Some(16384.0));
    assert_eq!(optimized("f16", "16376.0f16", default()), Ok(()));
    for value in ["16384.0f16", "-16384.0f16", "65504.0f16"] {
        assert!(optimized("f16", value, default()).is_err(), "{value}");
    }
    assert_eq!(optimized("f16", "10.0f16", Some(10.5)), Ok(()));
    assert!(optimized("f16", "10.5f16", Some(10.5)).is_err());
}

#[test]
fn nothing_is_too_large_where_the_check_is_off() {
    assert_eq!(optimized("f16", "65504.0f16", None), Ok(()));
}

#[test]
fn only_finite_constants_of_narrow_floats_count() {
    assert_eq!(optimized("f16", "inff16", default()), Ok(()));
    assert_eq!(optimized("f16", "-inff16", default()), Ok(()));
    assert_eq!(optimized("f16", "nanf16", default()), Ok(()));
    assert_eq!(optimized("bf16", "32768.0bf16", default()), Ok(()));
    assert_eq!(optimized("f32", "1e30f32", default()), Ok(()));
    assert_eq!(optimized("i32", "1000000i32", default()), Ok(()));
    assert!(optimized("fp8_e5m2", "16384.0fp8_e5m2", default()).is_err());
    assert_eq!(optimized("fp8_e5m2", "14336.0fp8_e5m2", default()), Ok(()));
    assert_eq!(optimized("fp8_e4m3fn", "448.0fp8_e4m3fn", default()), Ok(()));
    assert!(optimized("fp8_e4m3fn", "448.0fp8_e4m3fn", Some(448.0)).is_err());
}

#[test]
fn a_constant_that_folding_makes_counts_too() {
    assert!(optimized("f16", "convert f16(128.0f32 * 128.0f32)", default()).is_err());
}

#[test]
fn the_error_names_routine_value_type_and_statement() {
    let error = optimized("f16", "20000.0f16", default()).expect_err("20000 is more than 16384");
    assert_eq!(
        error.to_string(),
        "routine \"scale\": the constant 20000 of type f16 in `%1[i0] := %0[i0] + 20000.0f16`, expected a magnitude below \
         16384: use a type with more range, or set half_constant_cutoff"
    );
    let OptimizeError::HalfOverflow(large) = error else { panic!("another error") };
    assert_eq!((large.value, large.dtype, large.cutoff), (20000.0, DType::F16, 16384.0));
}
