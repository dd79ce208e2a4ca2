//! Approximate functions: their errors are within the stated bounds, and they are used only on request.

use crate::common::device;

use codegen_ptx::{PtxOptions, Target, ptx};
use lowered_ir::text::parse;
use ptx_sim::ExecutionOrder;
use scheduling::{ScheduleOptions, schedule};

const COUNT: usize = 4096;

fn program(function: &str, class: &str) -> String {
    format!(
        "routine @f {class} {{
           node %0 \"x\" f32[{COUNT}] on_device
           node %1 \"y\" f32[{COUNT}] on_device
           for i0 in 0..{COUNT} {{ %1[i0] := {function}(%0[i0]) }}
         }}"
    )
}

/// The PTX of a function, and its results.
fn approximated(function: &str, class: &str, target: Target, x: &[f32]) -> (String, Vec<f32>) {
    let routine = parse(&program(function, class)).expect("a routine");
    let options = PtxOptions { approximate_functions: true, ..PtxOptions::default() };
    let codegen = ptx(target, options);
    let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default()).expect("scheduled");
    let rendered = codegen.render(scheduled.kernels()).expect("rendered");
    let bytes = |x: &[f32]| x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    // The node that is mentioned first is the first parameter: the result.
    let args = [vec![0; 4 * COUNT], bytes(x)];
    let after =
        device::run_kernel(&rendered, 0, &scheduled.kernels()[0], &args, &[], ExecutionOrder::Sequential)
            .expect("it runs");
    let floats = after.memory[0].chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    (ptx_asm::print(&rendered.module), floats.collect())
}

/// Evenly spaced numbers.
fn between(low: f64, high: f64) -> Vec<f32> {
    (0..COUNT).map(|n| (low + (high - low) * n as f64 / (COUNT - 1) as f64) as f32).collect()
}

/// The distance from a float of this magnitude to the next.
fn ulp(x: f64) -> f64 {
    let x = (x.abs() as f32).max(f32::MIN_POSITIVE);
    f64::from(f32::from_bits(x.to_bits() + 1)) - f64::from(x)
}

/// Checks a function on numbers. `allowed` gives the greatest error for an argument and the exact result.
fn check(
    function: &str,
    instruction: &str,
    target: Target,
    x: &[f32],
    exact: fn(f64) -> f64,
    allowed: fn(f64, f64) -> f64,
) {
    let (text, found) = approximated(function, "fast", target, x);
    assert!(text.contains(instruction), "{text}");
    for (&x, &found) in x.iter().zip(&found) {
        let x = f64::from(x);
        let exact = exact(x);
        let off = (f64::from(found) - exact).abs();
        assert!(off <= allowed(x, exact), "{function}({x}) = {found}, off by {off}");
    }
}

#[test]
fn powers() {
    let powers = |_, exact: f64| 2.0 * ulp(exact);
    check("exp2", "ex2.approx", Target::Sm80, &between(-125.0, 127.0), f64::exp2, powers);
    let exponentials = |x: f64, exact: f64| (2.0 + 1.5 * x.abs()) * ulp(exact);
    check("exp", "ex2.approx", Target::Sm80, &between(-87.0, 88.0), f64::exp, exponentials);
}

#[test]
fn logarithms() {
    let near_one = |_, _| 2_f64.powi(-21);
    let elsewhere = |_, exact: f64| 4.0 * ulp(exact);
    for (name, exact) in [("log2", f64::log2 as fn(f64) -> f64), ("log", f64::ln)] {
        check(name, "lg2.approx", Target::Sm90a, &between(0.5, 2.0), exact, near_one);
        check(name, "lg2.approx", Target::Sm90a, &between(2.0, 1e30), exact, elsewhere);
    }
}

#[test]
fn angles() {
    let off = |_, _| 2_f64.powi(-20);
    for range in [3.0, 100.0, 1000.0] {
        check("sin", "sin.approx", Target::Sm80, &between(-range, range), f64::sin, off);
        check("cos", "cos.approx", Target::Sm80, &between(-range, range), f64::cos, off);
    }
}

#[test]
fn hyperbolic_tangents() {
    let of_result = |_, exact: f64| exact.abs() * 2_f64.powi(-10);
    check("tanh", "tanh.approx", Target::Sm80, &between(-20.0, 20.0), f64::tanh, of_result);
    let absolutely = |_, _| 2_f64.powi(-21);
    check("tanh", "rcp.approx", Target::Sm70, &between(-60.0, 60.0), f64::tanh, absolutely);
}

/// The PTX of a program with approximate functions.
fn text(program: &str) -> String {
    let routine = parse(program).expect("a routine");
    let options = PtxOptions { approximate_functions: true, ..PtxOptions::default() };
    let codegen = ptx(Target::Sm80, options);
    let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default()).expect("scheduled");
    ptx_asm::print(&codegen.render(scheduled.kernels()).expect("rendered").module)
}

#[test]
fn narrow_floats_are_computed_in_f32() {
    assert!(text(&program("exp", "fast").replace("f32", "bf16")).contains("ex2.approx"));
}

#[test]
fn class_strict_and_doubles_are_accurate() {
    assert!(!text(&program("exp", "strict")).contains(".approx"));
    assert!(!text(&program("exp", "fast").replace("f32", "f64")).contains(".approx"));
}
