//! The threads of the kernels for NVIDIA GPUs: no kernel leaves most of a GPU idle while few threads work for
//! long. This needs no GPU.

use arrayjit::Compiled;
use arrayjit_tensor::{
    DType, Graph, ModelState, Params,
    nn::{Linear, Module, TransformerEncoderLayer},
    optim::{AdamW, OptimizerState},
};
use codegen_core::Payload;
use codegen_ptx::Target;

use crate::{cases, machine_code};

/// The number of threads from which on a GPU counts as busy. An H100 has 132 × 128 lanes.
const ENOUGH_THREADS: u64 = 1 << 14;
/// The most operations, loads and stores of a thread of a kernel with fewer threads: about ten microseconds.
const MOST_WORK: f64 = 10_000.0;

/// A layer of a transformer over the sizes `b` and `t`.
const LAYER: &str = "
input x f32[b, t, 384], mask f32[b, t]
param wq f32[384, 12, 32] := 0.1, wk f32[384, 12, 32] := 0.1, wv f32[384, 12, 32] := 0.1
param wo f32[12, 32, 384] := 0.1, w1 f32[384, 1536] := 0.1, b1 f32[1536] := 0.1, w2 f32[1536, 384] := 0.1
param g f32[384] := 1, s f32[384] := 0
q[n,h,i,e] :+= x[n,i,c] * wq[c,h,e]
k[n,h,i,e] :+= x[n,i,c] * wk[c,h,e]
v[n,h,i,e] :+= x[n,i,c] * wv[c,h,e]
score[n,h,i,j] :+= q[n,h,i,e] * k[n,h,j,e]
p[n,h,i,j] := softmax(score[n,h,i,j] * 0.17 + mask[n,j])
a[n,h,i,e] :+= p[n,h,i,j] * v[n,h,j,e]
o[n,i,c] :+= a[n,h,i,e] * wo[h,e,c]
y[n,i,c] := layer_norm(o[n,i,c] + x[n,i,c], g[c], s[c])
u[n,i,m] :+= y[n,i,c] * w1[c,m]
f[n,i,m] := gelu(u[n,i,m] + b1[m])
z[n,i,c] :+= f[n,i,m] * w2[m,c]
out[n,i,c] := layer_norm(z[n,i,c] + y[n,i,c], g[c], s[c])
keep out
";

/// A kernel: its name, its threads, and the operations, loads and stores of each.
struct Kernel {
    name: String,
    threads: u64,
    work: f64,
}

fn kernels(compiled: &Compiled) -> Vec<Kernel> {
    let mut kernels = Vec::new();
    for code in compiled.codes() {
        let Payload::Ptx(module) = code.artifact().payload() else { panic!("a kernel that is not PTX") };
        assert_eq!(module.launches().len(), code.artifact().kernels().len());
        for (launch, kernel) in module.launches().iter().zip(code.artifact().kernels()) {
            let threads = u64::from(launch.blocks) * u64::from(launch.threads);
            let all = kernel.cost.flops + kernel.cost.integer_ops + kernel.cost.bytes / 4.0;
            kernels.push(Kernel { name: launch.entry.clone(), threads, work: all / threads as f64 });
        }
    }
    kernels
}

#[test]
fn no_kernel_leaves_a_gpu_idle_for_long() {
    for case in cases::all() {
        for Kernel { name, threads, work } in kernels(&machine_code::compiled(&case, Target::Sm90a)) {
            assert!(
                threads >= ENOUGH_THREADS || work <= MOST_WORK,
                "{} {name}: {threads} threads with {work:.0} operations each",
                case.name
            );
        }
    }
}

/// Sizes that a run gives cost no threads: the kernels are those for the greatest sizes.
#[test]
fn a_layer_over_sizes_has_the_kernels_for_its_greatest_sizes() {
    let of = |sizes: &str| {
        let text = format!("size {sizes}{LAYER}");
        kernels(&machine_code::compiled_text(sizes, &text, &[], Target::Sm90a))
    };
    let (dynamic, constant) = (of("b <= 8, t <= 128"), of("b = 8, t = 128"));
    assert_eq!(dynamic.len(), constant.len());
    for (dynamic, constant) in dynamic.iter().zip(&constant) {
        let Kernel { name, threads, work } = dynamic;
        assert!(
            *threads >= constant.threads / 2 && *work <= 1.25 * constant.work.max(64.0),
            "{name}: {threads} threads with {work:.0} operations each, {} with {:.0} for constants",
            constant.threads,
            constant.work
        );
    }
}

/// The floating-point operations of all kernels, and of those on tensor cores.
fn operations(compiled: &Compiled) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for code in compiled.codes() {
        let Payload::Ptx(module) = code.artifact().payload() else { panic!("a kernel that is not PTX") };
        let text = module.text().to_string();
        for (launch, kernel) in module.launches().iter().zip(code.artifact().kernels()) {
            let begin = text.find(&format!(".entry {}(", launch.entry)).unwrap();
            let body = text[begin..].split(".visible").next().unwrap();
            sums[0] += kernel.cost.flops;
            sums[1] += if body.contains("mma") { kernel.cost.flops } else { 0.0 };
        }
    }
    sums
}

/// Mixed precision by the tensor API: products, those of gradients too, run on tensor cores, but for the
/// products of attention, whose weights are in f32.
#[test]
fn a_layer_in_bf16_trains_on_tensor_cores() {
    let backend = machine_code::backend("layer", Target::Sm90a);
    let params = Params::new(1).with_dtype(DType::Bf16);
    let layer = TransformerEncoderLayer::builder(&params.sub("layer"), 768, 12).dropout(0.0).build().unwrap();
    let head = Linear::new(&params.sub("head"), 768, 1024).unwrap();
    let weights = ModelState::new(&backend, &params).unwrap();
    let graph = Graph::for_training();
    graph.narrow_gradients(true);
    let x = graph.input("x", [8, 128, 768], DType::Bf16).unwrap();
    let labels = graph.input("labels", [8, 128], DType::I32).unwrap();
    let loss = head.forward(&layer.forward(&x).unwrap()).unwrap().cross_entropy(&labels).unwrap();
    AdamW::new(0.001).update(&loss, &OptimizerState::new(&weights)).unwrap();
    let compiled = graph.compile(&weights, &[&loss]).unwrap();
    let [all, on_cores] = operations(compiled.compiled());
    assert!(on_cores > 0.93 * all, "{on_cores} of {all} operations");
    for Kernel { name, threads, work } in kernels(compiled.compiled()) {
        assert!(threads >= ENOUGH_THREADS || work <= MOST_WORK, "{name}: {threads} threads, {work:.0} each");
    }
}
