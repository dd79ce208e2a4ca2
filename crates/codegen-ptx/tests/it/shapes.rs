//! Programs at sizes where threads divide the work, in every schedule shape: matmul tiles, row and column
//! tree reductions, vectorized accesses of four, two-pass reductions. They compute the same bits as the
//! interpreter of the IR.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failing test may panic")]

use crate::common::device;

use assignment_text::parse;
use assignments::lower::{LowerOptions, lower};
use codegen_ptx::{PtxOptions, Target, ptx};
use codegen_testkit::Outcome;
use filetests::RunCase;
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use ptx_sim::ExecutionOrder;
use tnode::{DType, MemoryMode, Sharing, TensorNode};

/// Runs a program on numbers whose sums and products are rounded.
#[track_caller]
fn check(text: &str, nodes: &[(&str, &[usize], DType)]) {
    let node = |(name, dims, dtype): &(&str, &[usize], DType)| {
        let builder = TensorNode::builder(*name).dims(dims.iter().copied()).dtype(*dtype);
        builder.mode(MemoryMode::OnDevice(Sharing::Unset)).build().unwrap()
    };
    let nodes: Vec<TensorNode> = nodes.iter().map(node).collect();
    let assignments = parse(text, &nodes).unwrap_or_else(|e| panic!("{e}"));
    let lowered = lower(&assignments, &LowerOptions::default()).unwrap().lowered.routine;
    let routine = optimize(lowered, &OptimizeSettings::default()).unwrap().routine;
    let case =
        RunCase::filled(routine, Vec::new(), |nth, at| ((at * 37 + nth * 11) % 101) as f64 / 16.0 - 3.0);
    for target in [Target::Sm70, Target::Sm80] {
        match device::run_case(&ptx(target, PtxOptions::default()), &case, ExecutionOrder::Random { seed: 1 })
        {
            Outcome::Passed => {}
            Outcome::Failed(message) => panic!("{message}"),
            other => panic!("{other:?}"),
        }
    }
}

const F32: DType = DType::F32;

#[test]
fn elements() {
    check("y[i,j] := x[i,j] * b[j] + 1", &[("x", &[40, 64], F32), ("b", &[64], F32), ("y", &[40, 64], F32)]);
    check("y[i] := tanh(x[i])", &[("x", &[1021], F32), ("y", &[1021], F32)]);
    for dtype in [DType::F16, DType::Bf16, DType::F64, DType::I64, DType::U8, DType::I8, DType::Fp8E4m3fn] {
        check("y[i] := x[i] * x[i] + x[i]", &[("x", &[2048], dtype), ("y", &[2048], dtype)]);
    }
    // The first program accesses vectors of eight elements in place, the second one vectors of four elements
    // of two types.
    for dtype in [DType::F16, DType::Bf16] {
        check("x[i] := x[i] * x[i] + b[i]", &[("x", &[4096], dtype), ("b", &[4096], dtype)]);
        check(
            "y[i,j] := x[i,j] * b[j]",
            &[("x", &[32, 64], dtype), ("b", &[64], F32), ("y", &[32, 64], dtype)],
        );
    }
}

#[test]
fn matmuls() {
    let bias = "c[m,n] :+= a[m,k] * b[k,n]\nd[m,n] := relu(c[m,n] + e[n])";
    for (m, n, k) in [(64, 64, 32), (40, 48, 24), (16, 16, 16), (5, 130, 33)] {
        let (a, b, c): ([usize; 2], [usize; 2], [usize; 2]) = ([m, k], [k, n], [m, n]);
        check(bias, &[("a", &a, F32), ("b", &b, F32), ("c", &c, F32), ("e", &[n], F32), ("d", &c, F32)]);
    }
    for dtype in [DType::F16, DType::F64, DType::I32] {
        check(
            "c[m,n] :+= a[m,k] * b[k,n]",
            &[("a", &[32, 20], dtype), ("b", &[20, 32], dtype), ("c", &[32, 32], dtype)],
        );
    }
    check("y[i] :+= a[i,k] * x[k]", &[("a", &[60, 700], F32), ("x", &[700], F32), ("y", &[60], F32)]);
    check(
        "y[b,o,i,j] :+= x[b,c,i+p,j+q] * w[o,c,p,q]",
        &[("x", &[2, 4, 10, 10], F32), ("w", &[8, 4, 3, 3], F32), ("y", &[2, 8, 8, 8], F32)],
    );
}

#[test]
fn rows() {
    let softmax =
        "top[r] :max= x[r,c]\ne[r,c] := exp(x[r,c] - top[r])\nsum[r] :+= e[r,c]\ny[r,c] := e[r,c] / sum[r]";
    for (rows, columns) in [(3usize, 300usize), (2, 1000), (300, 33)] {
        let whole = [rows, columns];
        let row = [rows];
        check(
            softmax,
            &[
                ("x", &whole, F32),
                ("top", &row, F32),
                ("e", &whole, F32),
                ("sum", &row, F32),
                ("y", &whole, F32),
            ],
        );
    }
    let norm = "mean[r] :+= x[r,c] / 200\nvar[r] :+= (x[r,c] - mean[r]) * (x[r,c] - mean[r]) / 200
y[r,c] := (x[r,c] - mean[r]) / sqrt(var[r] + 0.00001)";
    check(norm, &[("x", &[6, 200], F32), ("mean", &[6], F32), ("var", &[6], F32), ("y", &[6, 200], F32)]);
}

#[test]
fn reductions() {
    for dtype in [F32, DType::F64, DType::I32, DType::F16] {
        check("s[] :+= x[i]", &[("x", &[20_000], dtype), ("s", &[], dtype)]);
        check("s[j] :+= x[i,j]", &[("x", &[500, 70], dtype), ("s", &[70], dtype)]);
        check("s[i] :max= x[i,j]", &[("x", &[9, 513], dtype), ("s", &[9], dtype)]);
    }
}
