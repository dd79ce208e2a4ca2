//! Prints the speed of whole routines on one thread. Each routine is optimized, scheduled and compiled for
//! each width of vectors; then the widths are timed in turns.
//!
//! `cargo run --release -p codegen-cranelift --example widths [FILTER [list]]`
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use std::time::Instant;

use codegen_core::host::{HostArgs, HostModule, HostPtr};
use codegen_core::{Access, Caps, Codegen, Payload, ScheduledRoutine, Slot};
use codegen_cranelift::{CraneliftOptions, VectorWidth, cranelift_with, host_caps};
use lowered_ir::pipeline::{OptimizeSettings, optimize};
use scheduling::{ScheduleOptions, schedule};

/// A routine, and the number of its elements.
struct Case {
    name: &'static str,
    elements: usize,
    text: String,
}

fn main() {
    sigpipe::reset();
    let filter = std::env::args().nth(1).unwrap_or_default();
    let widths: Vec<_> = VectorWidth::ALL.into_iter().filter(|width| width.is_available()).collect();
    let heads: String = widths.iter().map(|w| format!("{:>12}", w.to_string())).collect();
    println!("{:16} {heads}   ns per element", "");
    for case in cases().into_iter().filter(|case| case.name.contains(&filter)) {
        let mut ready: Vec<Ready> = widths.iter().map(|&width| prepare(&case, width)).collect();
        if std::env::args().nth(2).is_some_and(|arg| arg == "list") {
            ready.iter().flat_map(|r| &r.listings).for_each(|listing| println!("{listing}"));
            continue;
        }
        let mut best = vec![f64::INFINITY; ready.len()];
        for _ in 0..ROUNDS {
            for (best, ready) in best.iter_mut().zip(&mut ready) {
                *best = best.min(ready.time());
            }
        }
        let shown: String =
            best.iter().map(|seconds| format!("{:12.3}", seconds * 1e9 / case.elements as f64)).collect();
        println!(
            "{:16} {shown}   {}",
            case.name,
            ready.last().map_or(String::new(), |r| r.methods.join(", "))
        );
    }
}

const ROUNDS: usize = 30;

/// Compiled code with its memory.
struct Ready {
    module: HostModule,
    calls: Vec<(usize, HostArgs, u64)>,
    scratch: Vec<u128>,
    /// How each kernel was compiled.
    methods: Vec<String>,
    listings: Vec<String>,
    _memory: Vec<Vec<u128>>,
}

impl Ready {
    /// Seconds per run, averaged over enough runs to be measurable.
    fn time(&mut self) -> f64 {
        let mut runs = 1u32;
        loop {
            let start = Instant::now();
            (0..runs).for_each(|_| self.run());
            let elapsed = start.elapsed().as_secs_f64();
            if elapsed > 200e-6 {
                return elapsed / f64::from(runs);
            }
            runs *= 4;
        }
    }

    fn run(&mut self) {
        for (kernel, args, extent) in &self.calls {
            // SAFETY: each parameter has aligned memory of its declared size, and the scratch memory is as
            // large as any kernel needs; nothing else accesses either.
            unsafe { self.module.run(*kernel, args, &[], self.scratch.as_mut_ptr().cast(), 0, *extent) }
                .expect("native kernels do not fail");
        }
    }
}

fn prepare(case: &Case, width: VectorWidth) -> Ready {
    let options = CraneliftOptions { vector: width, verify: false, ..CraneliftOptions::default() };
    let routine = lowered_ir::text::parse(&case.text).unwrap_or_else(|e| panic!("{e}"));
    let routine = optimize(routine, &OptimizeSettings::default()).expect("the routine is valid").routine;
    let caps = Caps { threads: 1, ..host_caps(width) };
    let codegen = cranelift_with(caps, options.clone());
    let schedule = schedule(&routine, &codegen, &ScheduleOptions::default()).expect("the routine is valid");
    let artifact = codegen.compile(&schedule).expect("supported kernels");
    let Payload::Host(module) = artifact.payload() else { unreachable!("this codegen makes host code") };
    let words = |bytes: usize| vec![u128::from_ne_bytes([0x3f; 16]); bytes / 16 + 8];
    let nodes = schedule.nodes().iter().map(|n| n.dims.iter().product::<usize>() * n.dtype.size_bytes());
    let mut memory: Vec<Vec<u128>> =
        nodes.chain(schedule.temps().iter().map(|t| t.bytes)).map(words).collect();
    let bases: Vec<HostPtr> = memory.iter_mut().map(aligned).collect();
    let calls = calls(&schedule, &bases);
    let scratch = words(artifact.kernels().iter().map(|k| k.scratch_bytes).max().unwrap_or(0) + 64);
    let listing = |k| {
        let listing = codegen.listing(k).expect("a supported kernel");
        format!("; {width}\n{}\n{}", listing.source, listing.machine_code)
    };
    let listings = schedule.kernels().iter().map(listing).collect();
    let way = |k| {
        let source = codegen.listing(k).expect("a supported kernel").source;
        let reason = source.lines().next().and_then(|line| line.strip_prefix("; no vector program: "));
        reason.map_or("program".into(), str::to_owned)
    };
    Ready {
        module: module.clone(),
        calls,
        scratch,
        methods: schedule.kernels().iter().map(way).collect(),
        listings,
        _memory: memory,
    }
}

fn aligned(words: &mut Vec<u128>) -> HostPtr {
    let base = words.as_mut_ptr().cast::<u8>();
    let shift = base.align_offset(64);
    HostPtr { base: base.wrapping_add(shift), bytes: words.len() * 16 - shift, access: Access::ReadWrite }
}

fn calls(schedule: &ScheduledRoutine, bases: &[HostPtr]) -> Vec<(usize, HostArgs, u64)> {
    let base = |slot: &Slot| match slot {
        Slot::Node(node) | Slot::Merge(node) => bases[node.index()],
        Slot::Temp(temp) => bases[schedule.nodes().len() + temp.0 as usize],
    };
    let call = |call: &codegen_core::KernelCall| {
        let extent = schedule.kernels()[call.kernel].abi().launch.extent;
        (call.kernel, HostArgs::new(call.args.iter().map(base).collect()), extent)
    };
    schedule.calls().iter().map(call).collect()
}

fn cases() -> Vec<Case> {
    let gelu =
        "0.5f32 * %0[i0] * (1.0f32 + tanh(0.7978846f32 * (%0[i0] + 0.044715f32 * %0[i0] * %0[i0] * %0[i0])))";
    let axpy = "relu(1.5f32 * %0[i0] + 0.5f32) * 2.0f32";
    let [k16, m4] = [1 << 14, 1 << 22];
    vec![
        map("axpy_relu_16k", k16, axpy),
        map("axpy_relu_4m", m4, axpy),
        map("gelu_16k", k16, gelu),
        map("gelu_4m", m4, gelu),
        map("exp_16k", k16, "exp(%0[i0])"),
        map("shift_16k", k16, "guarded(3 <= i0 < 16384, %0[i0 - 3], 0.0f32) + %0[i0]"),
        sum("sum_16k", k16),
        sum("sum_4m", m4),
        rows("softmax", SOFTMAX),
        rows("layernorm", LAYERNORM),
        adam(),
    ]
}

fn map(name: &'static str, n: usize, value: &str) -> Case {
    let text = format!(
        "routine @{name} fast {{
          node %0 \"x\" f32[{n}] on_device
          node %1 \"y\" f32[{n}] on_device
          for i0 in 0..{n} {{ %1[i0] := {value} }}
        }}"
    );
    Case { name, elements: n, text }
}

fn sum(name: &'static str, n: usize) -> Case {
    let text = format!(
        "routine @{name} fast {{
          node %0 \"x\" f32[{n}] on_device
          node %1 \"s\" f32[] on_device
          %1[] := 0.0f32
          for i0 in 0..{n} {{ %1[] := %1[] + %0[i0] }}
        }}"
    );
    Case { name, elements: n, text }
}

fn rows(name: &'static str, text: &str) -> Case {
    Case { name, elements: 1 << 20, text: text.into() }
}

const SOFTMAX: &str = "routine @softmax fast {
  node %0 \"x\" f32[1024, 1024] on_device
  node %1 \"m\" f32[1024]
  node %2 \"e\" f32[1024, 1024]
  node %3 \"s\" f32[1024]
  node %4 \"y\" f32[1024, 1024] on_device
  for i0 in 0..1024 { %1[i0] := -inff32 }
  for i1 in 0..1024 { for i2 in 0..1024 { %1[i1] := max(%0[i1, i2], %1[i1]) } }
  for i3 in 0..1024 { for i4 in 0..1024 { %2[i3, i4] := exp(%0[i3, i4] - %1[i3]) } }
  zero %3
  for i5 in 0..1024 { for i6 in 0..1024 { %3[i5] := %3[i5] + %2[i5, i6] } }
  for i7 in 0..1024 { for i8 in 0..1024 { %4[i7, i8] := %2[i7, i8] / %3[i7] } }
}";

const LAYERNORM: &str = "routine @layernorm fast {
  node %0 \"x\" f32[1024, 1024] on_device
  node %1 \"s\" f32[1024]
  node %2 \"v\" f32[1024]
  node %3 \"scale\" f32[1024] on_device
  node %4 \"shift\" f32[1024] on_device
  node %5 \"y\" f32[1024, 1024] on_device
  zero %1
  for i1 in 0..1024 { for i2 in 0..1024 { %1[i1] := %1[i1] + %0[i1, i2] } }
  for i9 in 0..1024 { %1[i9] := %1[i9] * 0.0009765625f32 }
  zero %2
  for i3 in 0..1024 { for i4 in 0..1024 {
    %2[i3] := %2[i3] + (%0[i3, i4] - %1[i3]) * (%0[i3, i4] - %1[i3])
  } }
  for i7 in 0..1024 { for i8 in 0..1024 {
    %5[i7, i8] := (%0[i7, i8] - %1[i7]) * recip_sqrt(%2[i7] * 0.0009765625f32 + 0.00001f32) * %3[i8] + %4[i8]
  } }
}";

fn adam() -> Case {
    let n = 1 << 22;
    let text = format!(
        "routine @adam fast {{
          node %0 \"p\" f32[{n}] on_device
          node %1 \"m\" f32[{n}] on_device
          node %2 \"v\" f32[{n}] on_device
          node %3 \"g\" f32[{n}] on_device
          for i0 in 0..{n} {{ %1[i0] := 0.9f32 * %1[i0] + 0.1f32 * %3[i0] }}
          for i1 in 0..{n} {{ %2[i1] := 0.999f32 * %2[i1] + 0.001f32 * %3[i1] * %3[i1] }}
          for i2 in 0..{n} {{ %0[i2] := %0[i2] - 0.01f32 * %1[i2] / (sqrt(%2[i2]) + 0.00000001f32) }}
        }}"
    );
    Case { name: "adam_4m", elements: n, text }
}
