//! The peaks of multiply-adds: by themselves, and as a contestant in turns with matrix multiplications.

use std::hint::black_box;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::best;
use crate::peers::Contestant;

/// Enough independent chains to fill the pipelines of current cores.
const CHAINS: usize = 12;
/// Steps of a round.
const STEPS: usize = 200_000;

/// Giga operations per second of all threads together, by the types that are multiplied; 0 for those without
/// an instruction. A product and a sum are two operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Peaks {
    pub(crate) f64: f64,
    /// `bf16` products, added to `f32`.
    pub(crate) bf16: f64,
    /// Products of `u8` and `i8`, added to `i32`.
    pub(crate) u8_i8: f64,
}

impl Peaks {
    pub(super) fn measure(threads: usize, rounds: usize) -> Peaks {
        let of = |unit: Option<Unit>| unit.map_or(0.0, |unit| unit.giga_ops(threads, rounds));
        Peaks { f64: of(units::f64()), bf16: of(units::bf16()), u8_i8: of(units::u8_i8()) }
    }
}

/// Giga `f32` operations per second of all threads together, with the widest vectors.
pub(super) fn gflops(threads: usize, rounds: usize) -> f64 {
    units::f32().giga_ops(threads, rounds)
}

/// A contestant of multiply-adds only, on one thread. A shared machine's load and its clock rate vary over
/// time, so the ratio to the peak is meaningful only if both are measured in turns.
pub(crate) struct Peak(Unit);

impl Peak {
    /// The peak of products of `u8` and `i8` if there is an instruction for them, otherwise of `f32`.
    pub(crate) fn new(of_bytes: bool) -> Peak {
        Peak(units::u8_i8().filter(|_| of_bytes).unwrap_or_else(units::f32))
    }

    /// The operations of a run.
    pub(crate) fn ops(&self) -> f64 {
        self.0.ops(RUN, 1)
    }
}

impl Contestant for Peak {
    fn run(&mut self, count: usize) -> Result<f64> {
        Ok(self.0.seconds(RUN * count, 1, 1))
    }
}

/// Steps of a run of the contestant, which takes some microseconds.
const RUN: usize = 4_000;

/// The multiply-adds of one type with the widest vectors that this machine has.
#[derive(Clone, Copy)]
struct Unit {
    /// Runs some steps of all chains.
    run: fn(usize),
    /// Operations of an instruction.
    ops: usize,
}

impl Unit {
    fn ops(self, steps: usize, threads: usize) -> f64 {
        (self.ops * CHAINS * steps * threads) as f64
    }

    fn seconds(self, steps: usize, threads: usize, rounds: usize) -> f64 {
        best(threads, rounds, || move || (self.run)(black_box(steps))).as_secs_f64()
    }

    fn giga_ops(self, threads: usize, rounds: usize) -> f64 {
        self.ops(STEPS, threads) / self.seconds(STEPS, threads, rounds) / 1e9
    }
}

#[cfg(target_arch = "x86_64")]
mod units {
    use std::arch::x86_64::*;
    use std::hint::black_box;

    use super::{CHAINS, Unit};

    /// The unit of an instruction, if the processor has its features.
    macro_rules! unit {
        ($feature:tt $(, $more:tt)*; $ops:expr, $operand:expr, $instruction:ident) => {{
            #[target_feature(enable = $feature $(, enable = $more)*)]
            fn chains(steps: usize) {
                let (start, operand) = black_box($operand);
                let mut sums = [start; CHAINS];
                for _ in 0..steps {
                    for sum in &mut sums {
                        *sum = $instruction(*sum, operand, operand);
                    }
                }
                black_box(sums);
            }
            // SAFETY: the unit is made only if the features were detected.
            let run = |steps| unsafe { chains(steps) };
            let has_all = is_x86_feature_detected!($feature) $(&& is_x86_feature_detected!($more))*;
            has_all.then_some(Unit { run, ops: $ops })
        }};
    }

    pub(super) fn f32() -> Unit {
        let wide = unit!("avx512f"; 32, (_mm512_set1_ps(1.0), _mm512_set1_ps(0.5)), _mm512_fmadd_ps);
        let usual = unit!("avx", "fma"; 16, (_mm256_set1_ps(1.0), _mm256_set1_ps(0.5)), _mm256_fmadd_ps);
        wide.or(usual).unwrap_or(Unit { run: super::scalars, ops: 2 })
    }

    pub(super) fn f64() -> Option<Unit> {
        let wide = unit!("avx512f"; 16, (_mm512_set1_pd(1.0), _mm512_set1_pd(0.5)), _mm512_fmadd_pd);
        let usual = unit!("avx", "fma"; 8, (_mm256_set1_pd(1.0), _mm256_set1_pd(0.5)), _mm256_fmadd_pd);
        wide.or(usual)
    }

    pub(super) fn bf16() -> Option<Unit> {
        unit!(
            "avx512f", "avx512bf16";
            64,
            (_mm512_set1_ps(0.0), _mm512_cvtne2ps_pbh(_mm512_set1_ps(1.0), _mm512_set1_ps(1.0))),
            _mm512_dpbf16_ps
        )
    }

    pub(super) fn u8_i8() -> Option<Unit> {
        let wide = unit!(
            "avx512f", "avx512vnni";
            128,
            (_mm512_setzero_si512(), _mm512_set1_epi8(1)),
            _mm512_dpbusd_epi32
        );
        let usual = unit!(
            "avx", "avxvnni";
            64,
            (_mm256_setzero_si256(), _mm256_set1_epi8(1)),
            _mm256_dpbusd_avx_epi32
        );
        wide.or(usual)
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod units {
    use super::Unit;

    pub(super) fn f32() -> Unit {
        Unit { run: super::scalars, ops: 2 }
    }

    pub(super) fn f64() -> Option<Unit> {
        None
    }

    pub(super) fn bf16() -> Option<Unit> {
        None
    }

    pub(super) fn u8_i8() -> Option<Unit> {
        None
    }
}

/// Multiply-adds of the language, where no vector instruction is known.
fn scalars(steps: usize) {
    let mut sums = black_box([1.0_f32; CHAINS]);
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = sum.mul_add(0.5, 0.5);
        }
    }
    black_box(sums);
}
