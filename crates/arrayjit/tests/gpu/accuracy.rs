//! Operations of `f32` on a GPU compared with `f64`: the greatest deviation, in units of the last place of
//! the exact result.
//!
//! The bounds are those of `codegen_testkit::bounds`, relative to the exact result instead of the
//! interpreter's.

use std::sync::Arc;

use codegen_core::{Code, Codegen};
use device_runtime::{Context, Device};
use lowered_ir::text;
use scheduling::{ScheduleOptions, schedule};
use tnode::{DType, HostArray, TensorNode};

use crate::gpu;

/// Points per operation.
pub(crate) const POINTS: usize = 1 << 15;

/// An operation on `$a` and `$b` with its exact result, the distribution of its operands, and the allowed
/// number of units.
struct Operation {
    text: &'static str,
    truth: fn(f64, f64) -> f64,
    a: Points,
    b: Points,
    bound: f64,
}

/// The distribution of an operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Points {
    /// Numbers between two bounds.
    Range(f64, f64),
    /// Positive numbers whose binary logarithm lies between two bounds.
    Magnitudes(f64, f64),
}

use Points::{Magnitudes, Range};

const ONE: Points = Range(1.0, 1.0);

const OPERATIONS: &[Operation] = &[
    Operation { text: "exp($a)", truth: |a, _| a.exp(), a: Range(-87.0, 88.0), b: ONE, bound: 4.0 },
    Operation { text: "exp2($a)", truth: |a, _| a.exp2(), a: Range(-125.0, 127.0), b: ONE, bound: 4.0 },
    Operation { text: "log($a)", truth: |a, _| a.ln(), a: Magnitudes(-126.0, 127.0), b: ONE, bound: 4.0 },
    Operation { text: "log($a)", truth: |a, _| a.ln(), a: Range(0.5, 2.0), b: ONE, bound: 4.0 },
    Operation { text: "log2($a)", truth: |a, _| a.log2(), a: Magnitudes(-126.0, 127.0), b: ONE, bound: 4.0 },
    Operation { text: "sin($a)", truth: |a, _| a.sin(), a: Range(-100.0, 100.0), b: ONE, bound: 4.0 },
    Operation { text: "sin($a)", truth: |a, _| a.sin(), a: Magnitudes(-30.0, 127.0), b: ONE, bound: 4.0 },
    Operation { text: "cos($a)", truth: |a, _| a.cos(), a: Range(-100.0, 100.0), b: ONE, bound: 4.0 },
    Operation { text: "cos($a)", truth: |a, _| a.cos(), a: Magnitudes(-30.0, 127.0), b: ONE, bound: 4.0 },
    Operation { text: "tanh($a)", truth: |a, _| a.tanh(), a: Range(-10.0, 10.0), b: ONE, bound: 4.0 },
    Operation { text: "tanh($a)", truth: |a, _| a.tanh(), a: Magnitudes(-60.0, 2.0), b: ONE, bound: 4.0 },
    Operation {
        text: "pow($a, $b)",
        truth: f64::powf,
        a: Range(0.01, 100.0),
        b: Range(-18.0, 18.0),
        bound: 4.0,
    },
    Operation {
        text: "pow($a, $b)",
        truth: f64::powf,
        a: Range(0.99, 1.01),
        b: Range(-8000.0, 8000.0),
        bound: 4.0,
    },
    Operation { text: "sqrt($a)", truth: |a, _| a.sqrt(), a: Magnitudes(-126.0, 127.0), b: ONE, bound: 4.5 },
    Operation {
        text: "$a / $b",
        truth: |a, b| a / b,
        a: Magnitudes(-60.0, 60.0),
        b: Magnitudes(-60.0, 60.0),
        bound: 2.5,
    },
    Operation { text: "recip($a)", truth: |a, _| 1.0 / a, a: Magnitudes(-125.0, 125.0), b: ONE, bound: 2.5 },
    Operation {
        text: "recip_sqrt($a)",
        truth: |a, _| 1.0 / a.sqrt(),
        a: Magnitudes(-126.0, 127.0),
        b: ONE,
        bound: 7.0,
    },
];

impl Points {
    pub(crate) fn draw(self, random: &mut fastrand::Rng) -> f32 {
        match self {
            Range(lo, hi) => (lo + random.f64() * (hi - lo)) as f32,
            Magnitudes(lo, hi) => 2f64.powf(lo + random.f64() * (hi - lo)) as f32,
        }
    }
}

#[test]
fn operations_are_as_accurate_as_promised() {
    let Some(gpu) = gpu("operations_are_as_accurate_as_promised") else { return };
    measure("with the device's types", gpu.codegen(), &gpu.device);
}

pub(crate) fn measure(which: &str, codegen: &dyn Codegen, device: &Device) {
    let mut over = Vec::new();
    for operation in OPERATIONS {
        let mut random = fastrand::Rng::with_seed(7);
        let (a, b): (Vec<f32>, Vec<f32>) =
            (0..POINTS).map(|_| (operation.a.draw(&mut random), operation.b.draw(&mut random))).unzip();
        let found = run(operation.text, "strict", codegen, device, &a, &b);
        let offs = found.iter().zip(a.iter().zip(&b)).map(|(found, (a, b))| {
            (distance(*found, (operation.truth)(f64::from(*a), f64::from(*b))), *a, *b)
        });
        let (worst, a, b) = offs.max_by(|x, y| x.0.total_cmp(&y.0)).unwrap();
        println!("{:<14} {worst:>8.3} of {} ulp at {a:e}, {b:e}, {which}", operation.text, operation.bound);
        if worst > operation.bound || worst.is_nan() {
            over.push(format!(
                "{} is {worst} ulp off at {a:e}, {b:e}: more than {}",
                operation.text, operation.bound
            ));
        }
    }
    assert!(over.is_empty(), "{which}: {over:#?}");
}

/// The deviation in units of the last place of the exact result; subnormals may be flushed to zero.
pub(crate) fn distance(found: f32, truth: f64) -> f64 {
    if truth.abs() > f64::from(f32::MAX) {
        return if found.is_infinite() { 0.0 } else { f64::INFINITY };
    }
    let exponent = (truth.abs().log2().floor() as i32).max(-126);
    let off = (f64::from(found) - truth).abs();
    if truth.abs() < f64::from(f32::MIN_POSITIVE) && found == 0.0 {
        0.0
    } else {
        off / 2f64.powi(exponent - 23)
    }
}

/// The values of an expression in a routine of the given class.
pub(crate) fn run(
    expr: &str,
    class: &str,
    codegen: &dyn Codegen,
    device: &Device,
    a: &[f32],
    b: &[f32],
) -> Vec<f32> {
    let elements = expr.replace("$a", "%0[i0]").replace("$b", "%1[i0]");
    let nodes: String = ["a", "b", "y"]
        .iter()
        .enumerate()
        .map(|(i, n)| format!("node %{i} \"{n}\" f32[{}] on_device\n", a.len()))
        .collect();
    let body = format!("for i0 in 0..{} {{ %2[i0] := {elements} }}", a.len());
    let routine = text::parse(&format!("routine @op {class} {{ {nodes} {body} }}")).unwrap();
    let scheduled = schedule(&routine, codegen, &ScheduleOptions::default()).unwrap();
    let artifact = codegen.compile(&scheduled).unwrap();
    let handles: Vec<TensorNode> = ["a", "b", "y"]
        .iter()
        .map(|name| TensorNode::builder(*name).dims([a.len()]).dtype(DType::F32).build().unwrap())
        .collect();
    let mut context = Context::new(&device.new_stream().unwrap());
    for (node, values) in handles.iter().zip([a, b, a]) {
        context = context.init_from_host(node, HostArray::from_slice(values, [a.len()]).unwrap()).unwrap();
    }
    let linked = context.link(&Arc::new(Code::new(scheduled, artifact).unwrap()), &handles).unwrap();
    linked.run(&[]).unwrap().sync().unwrap();
    let bytes = linked.context().to_host(&handles[2]).unwrap().bytes().to_vec();
    bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}
