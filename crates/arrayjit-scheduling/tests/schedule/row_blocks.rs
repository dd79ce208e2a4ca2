//! Attention on blocks of rows: random sizes and masks keep their bits after every pass, and the scores need
//! memory for one block per thread.

use codegen_core::{Caps, ScheduledRoutine};
use lowered_ir::passes::runner::Trace as PassTrace;
use random_programs::{Choices, bytes_of_seed};
use scheduling::{ScheduleOptions, schedule};

use super::common::{Trace, cpu, eager, filled, steps_on, target};
use super::programs::{Program, attention};

/// A CPU whose L2 cache is much smaller than the scores of small tests.
fn small() -> Caps {
    Caps { l2_bytes: 3 << 9, ..cpu() }
}

/// The sizes of an attention: queries, keys, and features of each.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// Batch or heads; none if the arrays have no such axis.
    heads: Option<usize>,
    queries: usize,
    keys: usize,
    features: usize,
}

/// Attention with keys of another number than queries. Of a masked one, later keys have weights of 0.
fn of_sizes(sizes: Sizes, is_masked: bool) -> Program {
    let Sizes { heads, queries, keys, features } = sizes;
    let dims = |dims: &[usize]| heads.into_iter().chain(dims.iter().copied()).collect::<Vec<_>>();
    let scaled = "(s[h,i,j] - top[h,i]) * 0.125";
    let (score, weight) = match is_masked {
        true => ("where(j <= i, s[h,i,j], -inf)", format!("where(j <= i, exp({scaled}), 0)")),
        false => ("s[h,i,j]", format!("exp({scaled})")),
    };
    let text = format!(
        "s[h,i,j] :+= q[h,i,d] * k[h,j,d]
top[h,i] :max= {score}
e[h,i,j] := {weight}
sum[h,i] :+= e[h,i,j]
o[h,i,d] :+= e[h,i,j] * v[h,j,d]
y[h,i,d] := o[h,i,d] / sum[h,i]"
    );
    Program {
        kept: vec![
            ("q", dims(&[queries, features])),
            ("k", dims(&[keys, features])),
            ("v", dims(&[keys, features])),
            ("y", dims(&[queries, features])),
        ],
        local: vec![
            ("s", dims(&[queries, keys])),
            ("top", dims(&[queries])),
            ("e", dims(&[queries, keys])),
            ("sum", dims(&[queries])),
            ("o", dims(&[queries, features])),
        ],
        text: if heads.is_some() { text } else { text.replace("[h,", "[") },
    }
}

/// Checks every pass. Returns the schedule and the passes.
fn checked(program: &Program) -> (ScheduledRoutine, Trace) {
    let (schedule, _, trace) = steps_on(&filled(program.routine()), &small(), &eager());
    (schedule, trace)
}

fn changes(trace: &Trace, pass: &str) -> bool {
    let at = trace.iter().position(|(name, _)| name == pass).expect("the pass runs");
    trace[at - 1].1 != trace[at].1
}

#[test]
fn random_sizes_keep_their_bits_in_blocks() {
    let mut with_rest = 0;
    for seed in 0..4 {
        let bytes = bytes_of_seed(seed, 20);
        let mut choices = Choices::new(&bytes);
        let sizes = Sizes {
            heads: *choices.pick(&[None, Some(1), Some(2), Some(2)]),
            queries: *choices.pick(&[128, 131, 131, 129]),
            keys: *choices.pick(&[37, 48]),
            features: *choices.pick(&[2, 3]),
        };
        let (_, trace) = checked(&of_sizes(sizes, choices.chance(1, 2)));
        assert!(changes(&trace, "block_rows"), "{sizes:?}: no blocks in\n{}", trace.last().unwrap().1);
        with_rest += usize::from(trace.iter().any(|(_, text)| text.contains("_rest\"")));
    }
    assert!(with_rest > 0, "{with_rest} cases had rows that fill no block");
}

/// Without heads, the blocks are the work of several threads, and each has scores of its own.
#[test]
fn the_scores_of_long_attention_need_one_block_per_thread() {
    for heads in [1, 2] {
        let attention = attention(heads, 4096, 64).routine();
        let schedule = schedule(&attention, &target(&cpu()), &ScheduleOptions::default()).unwrap();
        assert_eq!(schedule.kernels().len(), 1, "{heads} heads");
        // The sums of rows.
        assert!(schedule.temp_bytes() <= 4 * 4096, "{} bytes of temporaries", schedule.temp_bytes());
        let abi = schedule.kernels()[0].abi();
        let rows = if heads == 1 { 4096 / abi.launch.extent as usize } else { 64 };
        assert!((64..=256).contains(&rows), "{rows} rows of a block");
        let packed = 256 << 10;
        assert!(abi.scratch_bytes < 4 * rows * 4096 + packed, "{} bytes of scratch", abi.scratch_bytes);
    }
}

/// The hidden layer is not much larger than the operands, so blocks would pack operands too often.
#[test]
fn layers_of_a_network_run_whole() {
    let hidden = Program {
        kept: vec![
            ("x", vec![1024, 256]),
            ("w1", vec![256, 512]),
            ("w2", vec![512, 256]),
            ("y", vec![1024, 256]),
        ],
        local: vec![("h", vec![1024, 512]), ("g", vec![1024, 512])],
        text: "h[b,o] :+= x[b,i] * w1[i,o]\ng[b,o] := relu(h[b,o])\ny[b,i] :+= g[b,o] * w2[o,i]".into(),
    };
    let mut trace = Trace::new();
    let traced = scheduling::schedule_traced(
        &hidden.routine(),
        &target(&cpu()),
        &ScheduleOptions::default(),
        &mut PassTrace::new(&mut |pass, routine| {
            trace.push((pass.to_owned(), lowered_ir::text::print(routine)));
        }),
    );
    traced.unwrap();
    assert!(!changes(&trace, "block_rows"), "{}", trace.last().unwrap().1);
}
