//! Schedules of typical programs from their text: bits at small sizes, kernels and bytes moved at real ones.

use super::common::{cpu, filled, steps, target};
use assignment_text::parse;
use assignments::lower::{LowerOptions, lower};
use codegen_core::{Caps, ScheduledRoutine};
use lowered_ir::ir::{LoopKind, LoweredRoutine, Numerics, Stmt, walk};
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use scheduling::{ScheduleOptions, schedule};
use tnode::{DType, MemoryMode, Sharing, TensorNode};

/// A program: its text and its nodes. The nodes in `kept` outlive the run.
pub(super) struct Program {
    pub(super) kept: Vec<(&'static str, Vec<usize>)>,
    pub(super) local: Vec<(&'static str, Vec<usize>)>,
    pub(super) text: String,
}

impl Program {
    pub(super) fn routine(&self) -> LoweredRoutine {
        self.with_mode(Some(MemoryMode::Local))
    }

    /// The routine with intermediate nodes of undecided memory mode.
    fn undeclared(&self) -> LoweredRoutine {
        self.with_mode(None)
    }

    fn with_mode(&self, local: Option<MemoryMode>) -> LoweredRoutine {
        let node = |(name, dims): &(&'static str, Vec<usize>), mode: Option<MemoryMode>| {
            let builder = TensorNode::builder(*name).dims(dims.iter().copied()).dtype(DType::F32);
            mode.into_iter().fold(builder, |builder, mode| builder.mode(mode)).build().unwrap()
        };
        let kept = self.kept.iter().map(|n| node(n, Some(MemoryMode::OnDevice(Sharing::Unset))));
        let nodes: Vec<TensorNode> = kept.chain(self.local.iter().map(|n| node(n, local))).collect();
        let assignments = parse(&self.text, &nodes).unwrap();
        let options = LowerOptions { numerics: Numerics::Fast, ..LowerOptions::default() };
        optimize(lower(&assignments, &options).unwrap().lowered.routine, &OptimizeSettings::default())
            .unwrap()
            .routine
    }

    /// Scheduled for a CPU with 256-bit vectors.
    fn scheduled(&self) -> ScheduledRoutine {
        schedule(&self.routine(), &target(&wide()), &ScheduleOptions::default()).unwrap()
    }

    /// Checks the bits after every pass. Every loop with independent iterations is parallel.
    fn check(&self) {
        for numerics in [Numerics::Strict, Numerics::Fast] {
            let routine = LoweredRoutine { numerics, ..self.routine() };
            steps(&filled(routine));
        }
    }
}

fn wide() -> Caps {
    Caps { vector_bytes: 32, ..cpu() }
}

/// The bytes that the kernels of a schedule move, summed over kernels.
fn bytes(schedule: &ScheduledRoutine) -> f64 {
    schedule.calls().iter().map(|call| schedule.kernels()[call.kernel].abi().cost.bytes).sum()
}

fn softmax(rows: usize, columns: usize) -> Program {
    Program {
        kept: vec![("x", vec![rows, columns]), ("y", vec![rows, columns])],
        local: vec![("top", vec![rows]), ("e", vec![rows, columns]), ("sum", vec![rows])],
        text: "top[r] :max= x[r,c]\ne[r,c] := exp(x[r,c] - top[r])\nsum[r] :+= e[r,c]\ny[r,c] := e[r,c] / sum[r]"
            .into(),
    }
}

fn layernorm(rows: usize, columns: usize) -> Program {
    let whole = vec![rows, columns];
    Program {
        kept: vec![("x", whole.clone()), ("g", vec![columns]), ("b", vec![columns]), ("y", whole)],
        local: vec![("mean", vec![rows]), ("var", vec![rows])],
        text: format!(
            "mean[r] :+= x[r,c] / {columns}
var[r] :+= (x[r,c] - mean[r]) * (x[r,c] - mean[r]) / {columns}
y[r,c] := (x[r,c] - mean[r]) / sqrt(var[r] + 0.00001) * g[c] + b[c]"
        ),
    }
}

fn adam(n: usize) -> Program {
    Program {
        kept: vec![("p", vec![n]), ("g", vec![n]), ("m", vec![n]), ("v", vec![n])],
        local: vec![],
        text: "m[i] := 0.9 * m[i] + 0.1 * g[i]
v[i] := 0.999 * v[i] + 0.001 * g[i] * g[i]
p[i] -= 0.001 * m[i] / (sqrt(v[i] * v[i]) + 0.5)"
            .into(),
    }
}

fn dense(m: usize, k: usize, n: usize) -> Program {
    Program {
        kept: vec![("x", vec![m, k]), ("w", vec![k, n]), ("b", vec![n]), ("y", vec![m, n])],
        local: vec![("h", vec![m, n])],
        text: "h[m,n] :+= x[m,k] * w[k,n]\ny[m,n] := relu(h[m,n] + b[n])".into(),
    }
}

pub(super) fn attention(heads: usize, rows: usize, depth: usize) -> Program {
    let (operand, square) = (vec![heads, rows, depth], vec![heads, rows, rows]);
    let row = vec![heads, rows];
    Program {
        kept: ["q", "k", "v", "y"].into_iter().map(|name| (name, operand.clone())).collect(),
        local: vec![
            ("s", square.clone()),
            ("top", row.clone()),
            ("e", square),
            ("sum", row),
            ("o", operand.clone()),
        ],
        text: "s[h,i,j] :+= q[h,i,d] * k[h,j,d]
top[h,i] :max= s[h,i,j] * 0.125
e[h,i,j] := exp(s[h,i,j] * 0.125 - top[h,i])
sum[h,i] :+= e[h,i,j]
o[h,i,d] :+= e[h,i,j] * v[h,j,d]
y[h,i,d] := o[h,i,d] / sum[h,i]"
            .into(),
    }
}

fn mlp_step(batch: usize, inputs: usize, hidden: usize, classes: usize) -> Program {
    let (units, outputs) = (vec![batch, hidden], vec![batch, classes]);
    let (w1, w2) = (vec![inputs, hidden], vec![hidden, classes]);
    Program {
        kept: vec![
            ("x", vec![batch, inputs]),
            ("t", outputs.clone()),
            ("w1", w1.clone()),
            ("b1", vec![hidden]),
            ("w2", w2.clone()),
            ("b2", vec![classes]),
        ],
        local: vec![
            ("h", units.clone()),
            ("a", units.clone()),
            ("z", outputs.clone()),
            ("d", outputs),
            ("da", units.clone()),
            ("dh", units),
            ("dw1", w1),
            ("db1", vec![hidden]),
            ("dw2", w2),
            ("db2", vec![classes]),
        ],
        text: "h[b,j] :+= x[b,i] * w1[i,j]
a[b,j] := relu(h[b,j] + b1[j])
z[b,k] :+= a[b,j] * w2[j,k]
d[b,k] := (z[b,k] + b2[k] - t[b,k]) * 0.0015625
dw2[j,k] :+= a[b,j] * d[b,k]
db2[k] :+= d[b,k]
da[b,j] :+= d[b,k] * w2[j,k]
dh[b,j] := relu_gate(a[b,j], da[b,j])
dw1[i,j] :+= x[b,i] * dh[b,j]
db1[j] :+= dh[b,j]
w1[i,j] -= 0.1 * dw1[i,j]
b1[j] -= 0.1 * db1[j]
w2[j,k] -= 0.1 * dw2[j,k]
b2[k] -= 0.1 * db2[k]"
            .into(),
    }
}

/// A chain of twenty operations.
fn chain(n: usize) -> Program {
    let ops = ["relu(P) + x[i]", "P * 0.5", "exp(P * 0.1)", "P - x[i]", "max(P, x[i])"];
    let mut text = String::from("t0[i] := x[i]\n");
    for k in 1..20 {
        let op = ops[k % ops.len()].replace('P', &format!("t{}[i]", k - 1));
        text += &format!("t{k}[i] := {op}\n");
    }
    let names = [
        "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9", "t10", "t11", "t12", "t13", "t14", "t15",
        "t16", "t17", "t18", "t19",
    ];
    Program {
        kept: vec![("x", vec![n]), ("y", vec![n])],
        local: names.into_iter().map(|name| (name, vec![n])).collect(),
        text: text + "y[i] := t19[i]",
    }
}

fn reduction(from: &'static str, to: &'static str, sizes: &[(&str, usize)]) -> Program {
    let dims = |letters: &str| -> Vec<usize> {
        let size = |letter: &str| sizes.iter().find(|(name, _)| *name == letter).unwrap().1;
        letters.split(',').filter(|letter| !letter.is_empty()).map(size).collect()
    };
    let target = if to.is_empty() { "s".into() } else { format!("s[{to}]") };
    Program {
        kept: vec![("x", dims(from)), ("s", dims(to))],
        local: vec![],
        text: format!("{target} :+= x[{from}]"),
    }
}

fn transpose(rows: usize, columns: usize) -> Program {
    Program {
        kept: vec![("x", vec![rows, columns]), ("b", vec![columns]), ("y", vec![columns, rows])],
        local: vec![],
        text: "y[j,i] := x[i,j] * b[j]".into(),
    }
}

/// The second assignment has its outer axes in the other order: positions before heads.
fn split_heads(heads: usize, rows: usize, depth: usize) -> Program {
    Program {
        kept: vec![("x", vec![heads, rows, depth]), ("y", vec![rows, heads, depth])],
        local: vec![("e", vec![heads, rows, depth])],
        text: "e[h,i,d] := exp(x[h,i,d])\ny[i,h,d] := e[h,i,d] * e[h,i,d] + e[h,i,d]".into(),
    }
}

#[test]
fn loops_in_another_order_are_turned() {
    for depth in [5, 16, 37] {
        split_heads(3, 7, depth).check();
        split_heads(4, 4, depth).check();
    }
    let (heads, rows, depth) = (8, 256, 64);
    let turned = split_heads(heads, rows, depth).scheduled();
    let whole = (4 * heads * rows * depth) as f64;
    assert_eq!((turned.kernels().len(), turned.temps().len(), bytes(&turned)), (1, 0, 2.0 * whole));
}

#[test]
fn nests_that_run_across_memory_keep_their_bits() {
    for (rows, columns) in [(600, 70), (20, 33), (9, 100), (520, 32), (7, 64)] {
        reduction("i,j", "j", &[("i", rows), ("j", columns)]).check();
    }
    reduction("b,i,j", "b,j", &[("b", 3), ("i", 19), ("j", 50)]).check();
    reduction("i,k,j", "j", &[("i", 5), ("k", 11), ("j", 37)]).check();
    for (rows, columns) in [(8, 8), (19, 21), (37, 16), (16, 40), (5, 64)] {
        transpose(rows, columns).check();
    }
    reduction("i", "", &[("i", 65_536 * 2 + 100)]).check();
}

#[test]
fn long_reductions_have_work_for_every_thread() {
    let sum = reduction("i", "", &[("i", 1 << 22)]).scheduled();
    let extents: Vec<u64> = sum.kernels().iter().map(|kernel| kernel.abi().launch.extent).collect();
    assert_eq!(extents, [64, 1]);
    assert!(bytes(&sum) < 1.001 * 4.0 * f64::from(1 << 22), "{} bytes", bytes(&sum));
    let columns = reduction("i,j", "j", &[("i", 4096), ("j", 1024)]).scheduled();
    let extents: Vec<u64> = columns.kernels().iter().map(|kernel| kernel.abi().launch.extent).collect();
    assert_eq!(extents, [16, 1]);
    let transpose = transpose(2048, 2048).scheduled();
    assert_eq!((transpose.kernels().len(), transpose.kernels()[0].abi().launch.extent), (1, 128));
}

#[test]
fn typical_programs_keep_their_bits_through_every_step() {
    for columns in [64, 37, 5] {
        softmax(5, columns).check();
        layernorm(6, columns).check();
    }
    adam(100).check();
    dense(9, 20, 37).check();
    attention(3, 40, 9).check();
    mlp_step(12, 20, 34, 10).check();
    chain(70).check();
}

#[test]
fn operations_on_rows_move_what_they_read_and_write() {
    let whole = 4.0 * 1024.0 * 1024.0;
    let softmax = softmax(1024, 1024).scheduled();
    assert_eq!((softmax.kernels().len(), softmax.temps().len(), bytes(&softmax)), (1, 0, 2.0 * whole));
    assert_eq!(softmax.kernels()[0].abi().scratch_bytes, 4096);
    let layernorm = layernorm(1024, 1024).scheduled();
    assert_eq!((layernorm.kernels().len(), bytes(&layernorm)), (1, 2.0 * whole + 2.0 * 4096.0));
}

/// The memory modes of intermediate nodes need not be stated: a node whose elements live within one row, or
/// in registers, has no memory.
#[test]
fn intermediates_move_nothing_whoever_declares_them() {
    let whole = 4.0 * 1024.0 * 1024.0;
    let scheduled = |program: &Program| {
        schedule(&program.undeclared(), &target(&wide()), &ScheduleOptions::default()).unwrap()
    };
    let softmax = scheduled(&softmax(1024, 1024));
    assert_eq!((softmax.kernels().len(), softmax.temps().len(), bytes(&softmax)), (1, 0, 2.0 * whole));
    for program in
        [layernorm(1024, 1024), attention(8, 256, 64), mlp_step(128, 784, 256, 10), dense(256, 784, 512)]
    {
        let (plain, declared) = (scheduled(&program), program.scheduled());
        assert!(
            bytes(&plain) <= bytes(&declared),
            "{}: {} > {}",
            program.text,
            bytes(&plain),
            bytes(&declared)
        );
        assert!(plain.kernels().len() <= declared.kernels().len(), "{}", program.text);
    }
}

#[test]
fn an_optimizer_is_one_loop() {
    let n = 1 << 22;
    let adam = adam(n).scheduled();
    assert_eq!((adam.kernels().len(), bytes(&adam)), (1, 7.0 * 4.0 * n as f64));
}

#[test]
fn a_layer_is_one_kernel() {
    let dense = dense(256, 784, 512).scheduled();
    let elements = 256 * 784 + 784 * 512 + 512 + 256 * 512;
    assert_eq!((dense.kernels().len(), bytes(&dense)), (1, 4.0 * f64::from(elements)));
}

#[test]
fn attention_is_one_loop_over_heads() {
    let attention = attention(8, 256, 64).scheduled();
    assert_eq!((attention.kernels().len(), attention.temps().len()), (1, 0));
    assert_eq!(bytes(&attention), 4.0 * 4.0 * f64::from(8 * 256 * 64));
    assert_eq!(attention.kernels()[0].abi().launch.extent, 8);
    // Scratch memory holds the scores of one head, the sums of rows and the packed operands. The exponentials
    // are stored in place of the scores.
    assert!(attention.kernels()[0].abi().scratch_bytes < 4 * (256 * 256 + 256) + 48 * 1024);
}

#[test]
fn twenty_operations_are_one_loop() {
    let chain = chain(1024).scheduled();
    assert_eq!((chain.kernels().len(), bytes(&chain)), (1, 2.0 * 4096.0));
    let loops = walk::stmts(&chain.kernels()[0].ir().body)
        .filter(|stmt| matches!(stmt, Stmt::For { kind: LoopKind::Vector, .. }))
        .count();
    assert_eq!(loops, 1);
}
