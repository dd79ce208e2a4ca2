//! Times compiled programs against loops written by hand with `std::arch`, alternately, and prints the
//! compile time.
//!
//! `cargo run --release -p vector-asm --example loop_speed`
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for a person who measures")]

#[cfg(not(target_arch = "x86_64"))]
fn main() {
    println!("this is about x86-64");
}

#[cfg(target_arch = "x86_64")]
fn main() {
    sigpipe::reset();
    if vector_asm::Isa::detect().is_none() {
        return println!("this processor has no AVX2");
    }
    x86_64::main();
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::*;
    use std::time::Instant;

    use vector_asm::{
        Binary, ExecutableCode, Isa, LaneType, LoopRange, Value, VectorAddress, VectorBuilder, VectorProgram,
        VectorType, compile,
    };

    const F32: LaneType = LaneType::F32;

    /// 64-byte aligned floats.
    #[repr(align(64))]
    #[derive(Clone, Copy)]
    struct LinearCode(#[allow(dead_code, reason = "memory")] [f32; 16]);

    fn floats(n: usize) -> Vec<LinearCode> {
        vec![LinearCode([0.25; 16]); n.div_ceil(16)]
    }

    type Hand = unsafe fn(x: *const f32, y: *mut f32, n: usize);

    struct Case {
        name: String,
        program: VectorProgram,
        hand: Hand,
        /// Elements per call, and the operations or elements per call that the rate counts.
        n: usize,
        work: f64,
        unit: &'static str,
        sizes: [usize; 2],
    }

    pub(crate) fn main() {
        let mut cases = Vec::new();
        for n in [2048, 16384] {
            cases.push(case("relu(ax+b)c", n, relu(n), relu_by_hand));
            cases.push(case("sum, 32 partials", n, sum(n, 32), sum_by_hand));
            cases.push(case("sum, 64 partials", n, sum(n, 64), sum_by_hand));
            cases.push(case("exp, 16 lanes", n, exp(n, 16), exp_by_hand));
            cases.push(case("exp, 32 lanes", n, exp(n, 32), exp_by_hand));
        }
        let (depth, flops) = (256, 6.0 * 16.0 * 2.0 * 256.0);
        cases.push(Case {
            name: "tile 6x16x256".to_owned(),
            program: tile(depth),
            hand: tile_by_hand,
            n: depth as usize,
            work: flops,
            unit: "flop",
            sizes: [22 * 256, 96],
        });
        for n in [64, 128] {
            let transposes = Case {
                name: format!("transpose {n}x{n}"),
                program: transpose(n as i64),
                hand: transpose_by_hand,
                n,
                work: (n * n) as f64,
                unit: "element",
                sizes: [n * n, n * n],
            };
            cases.push(transposes);
        }
        println!("{:24}{:>14}{:>14}{:>10}{:>14}", "", "by hand", "compiled", "ratio", "compile");
        cases.iter().for_each(measure);
    }

    fn case(name: &str, n: usize, program: VectorProgram, hand: Hand) -> Case {
        let name = format!("{name}, {n}");
        Case { name, program, hand, n, work: n as f64, unit: "element", sizes: [n, n] }
    }

    fn measure(case: &Case) {
        let mut compile_time = f64::INFINITY;
        for _ in 0..20 {
            let start = Instant::now();
            compile(&case.program, Isa::Avx2).unwrap();
            compile_time = compile_time.min(start.elapsed().as_secs_f64());
        }
        let code = compile(&case.program, Isa::Avx2).unwrap();
        let loaded = ExecutableCode::load(&code).unwrap();
        let function = loaded.function(0);
        let (mut x, mut y) = (floats(case.sizes[0]), floats(case.sizes[1]));
        let args = [x.as_mut_ptr().cast::<u8>(), y.as_mut_ptr().cast::<u8>()];
        let (mut ours, mut theirs) = (f64::INFINITY, f64::INFINITY);
        let repeats = (2e5 / case.work).ceil().max(1.0) as usize;
        for _ in 0..200 {
            // SAFETY: the arrays have the sizes that the case's program and loop were written for; AVX2 was
            // detected.
            theirs =
                theirs.min(time(repeats, || unsafe { (case.hand)(args[0].cast(), args[1].cast(), case.n) }));
            // SAFETY: the arrays have the sizes that the program was written for; AVX2 was detected.
            ours = ours.min(time(repeats, || unsafe {
                function(args.as_ptr(), std::ptr::null(), std::ptr::null_mut(), 0, 1);
            }));
        }
        let rate = |seconds: f64| format!("{:.4} ns", seconds / case.work * 1e9);
        let percent = theirs / ours;
        let (theirs, ours) = (rate(theirs), rate(ours));
        let compile_time = format!("{:.1} us", compile_time * 1e6);
        println!(
            "{:24}{theirs:>14}{ours:>14}{percent:>10.2}{compile_time:>14}  per {}",
            case.name, case.unit
        );
    }

    fn time(repeats: usize, mut call: impl FnMut()) -> f64 {
        let start = Instant::now();
        for _ in 0..repeats {
            call();
        }
        start.elapsed().as_secs_f64() / repeats as f64
    }

    fn relu(n: usize) -> VectorProgram {
        let mut b = VectorBuilder::new();
        let (scale, shift, zero, factor) = (b.f32(1.5), b.f32(0.5), b.f32(0.0), b.f32(2.0));
        b.repeat(LoopRange::Constant(n as u64 / 32), |b, i| {
            let x = b.load(VectorAddress::at(0, F32).by(i, 128), VectorType::new(F32, 32));
            let y = b.fma(x, scale, shift);
            let y = b.max(y, zero);
            let y = b.mul(y, factor);
            b.store(VectorAddress::at(1, F32).by(i, 128), y);
        });
        b.finish()
    }

    #[target_feature(enable = "avx2,fma")]
    unsafe fn relu_by_hand(x: *const f32, y: *mut f32, n: usize) {
        // SAFETY: `x` and `y` have `n` elements, a multiple of 32.
        unsafe {
            let (scale, shift) = (_mm256_set1_ps(1.5), _mm256_set1_ps(0.5));
            let (zero, factor) = (_mm256_setzero_ps(), _mm256_set1_ps(2.0));
            for i in (0..n).step_by(32) {
                for part in 0..4 {
                    let v = _mm256_loadu_ps(x.add(i + 8 * part));
                    let v = _mm256_max_ps(_mm256_fmadd_ps(v, scale, shift), zero);
                    _mm256_storeu_ps(y.add(i + 8 * part), _mm256_mul_ps(v, factor));
                }
            }
        }
    }

    fn sum(n: usize, partials: u32) -> VectorProgram {
        let mut b = VectorBuilder::new();
        let ty = VectorType::new(F32, partials);
        let sum = b.variable(ty);
        b.repeat(LoopRange::Constant(n as u64 / u64::from(partials)), |b, i| {
            let x = b.load(VectorAddress::at(0, F32).by(i, 4 * i64::from(partials)), ty);
            let s = b.get(sum);
            let s = b.add(s, x);
            b.set(sum, s);
        });
        let mut lanes = partials;
        while lanes > 1 {
            lanes /= 2;
            let (low, high) = (b.extract_lanes(sum, 0, lanes), b.extract_lanes(sum, lanes, lanes));
            let s = b.binary(Binary::Add, low, high);
            b.set(sum, s);
        }
        let total = b.extract_lanes(sum, 0, 1);
        b.store(VectorAddress::at(1, F32), total);
        b.finish()
    }

    #[target_feature(enable = "avx2,fma")]
    unsafe fn sum_by_hand(x: *const f32, y: *mut f32, n: usize) {
        // SAFETY: `x` has `n` elements, a multiple of 64, and `y` one.
        unsafe {
            let mut sums = [_mm256_setzero_ps(); 8];
            for i in (0..n).step_by(64) {
                for (part, sum) in sums.iter_mut().enumerate() {
                    *sum = _mm256_add_ps(*sum, _mm256_loadu_ps(x.add(i + 8 * part)));
                }
            }
            let total = sums.into_iter().reduce(|a, b| _mm256_add_ps(a, b)).unwrap();
            let half = _mm_add_ps(_mm256_castps256_ps128(total), _mm256_extractf128_ps::<1>(total));
            let pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
            *y = _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
        }
    }

    const POLYNOMIAL: [f32; 5] = [0.001_381_463, 0.008_368_717, 0.041_668_39, 0.166_665_2, 0.499_999_93];

    /// `eˣ` for small arguments.
    fn exp(n: usize, lanes: u32) -> VectorProgram {
        let mut b = VectorBuilder::new();
        let ty = VectorType::new(F32, lanes);
        let constant = |b: &mut VectorBuilder, number: f32| -> Value { b.f32(number) };
        b.repeat(LoopRange::Constant(n as u64 / u64::from(lanes)), |b, i| {
            let x = b.load(VectorAddress::at(0, F32).by(i, 4 * i64::from(lanes)), ty);
            let (most, least) = (constant(b, 88.0), constant(b, -87.0));
            let x = b.min(x, most);
            let x = b.max(x, least);
            let (log, rounder) = (constant(b, std::f32::consts::LOG2_E), constant(b, 12_582_912.0));
            let shifted = b.fma(x, log, rounder);
            let whole = b.sub(shifted, rounder);
            let (high, low) = (constant(b, -0.693_145_75), constant(b, -1.428_606_8e-6));
            let r = b.fma(whole, high, x);
            let r = b.fma(whole, low, r);
            let mut p = constant(b, POLYNOMIAL[0]);
            for c in &POLYNOMIAL[1..] {
                let c = constant(b, *c);
                p = b.fma(p, r, c);
            }
            let square = b.mul(r, r);
            let p = b.fma(square, p, r);
            let one = constant(b, 1.0);
            let p = b.add(p, one);
            let bits = b.bitcast(shifted, LaneType::I32);
            let by = b.i32(23);
            let exponent = b.binary(Binary::ShiftLeft, bits, by);
            let result = b.bitcast(p, LaneType::I32);
            let result = b.add(result, exponent);
            let result = b.bitcast(result, F32);
            b.store(VectorAddress::at(1, F32).by(i, 4 * i64::from(lanes)), result);
        });
        b.finish()
    }

    #[target_feature(enable = "avx2,fma")]
    unsafe fn exp_by_hand(x: *const f32, y: *mut f32, n: usize) {
        // SAFETY: `x` and `y` have `n` elements, a multiple of 16.
        unsafe {
            let rounder = _mm256_set1_ps(12_582_912.0);
            for i in (0..n).step_by(16) {
                for part in 0..2 {
                    let v = _mm256_loadu_ps(x.add(i + 8 * part));
                    let v = _mm256_max_ps(_mm256_min_ps(v, _mm256_set1_ps(88.0)), _mm256_set1_ps(-87.0));
                    let shifted = _mm256_fmadd_ps(v, _mm256_set1_ps(std::f32::consts::LOG2_E), rounder);
                    let whole = _mm256_sub_ps(shifted, rounder);
                    let r = _mm256_fmadd_ps(whole, _mm256_set1_ps(-0.693_145_75), v);
                    let r = _mm256_fmadd_ps(whole, _mm256_set1_ps(-1.428_606_8e-6), r);
                    let mut p = _mm256_set1_ps(POLYNOMIAL[0]);
                    for c in &POLYNOMIAL[1..] {
                        p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(*c));
                    }
                    let p = _mm256_fmadd_ps(_mm256_mul_ps(r, r), p, r);
                    let p = _mm256_add_ps(p, _mm256_set1_ps(1.0));
                    let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted));
                    let result = _mm256_add_epi32(_mm256_castps_si256(p), exponent);
                    _mm256_storeu_ps(y.add(i + 8 * part), _mm256_castsi256_ps(result));
                }
            }
        }
    }

    /// A GEMM tile of six rows by sixteen columns. For each `k`, the argument has a column of packed A
    /// followed by a row of packed B.
    fn tile(depth: u64) -> VectorProgram {
        let mut b = VectorBuilder::new();
        let ty = VectorType::new(F32, 16);
        let sums: Vec<_> = (0..6).map(|_| b.variable(ty)).collect();
        let columns = depth as i64 * 6 * 4;
        b.repeat(LoopRange::Constant(depth), |b, k| {
            let right = b.load(VectorAddress::at(0, F32).plus(columns).by(k, 64), ty);
            for (row, &sum) in sums.iter().enumerate() {
                let left =
                    b.load(VectorAddress::at(0, F32).plus(4 * row as i64).by(k, 24), VectorType::new(F32, 1));
                let s = b.get(sum);
                let s = b.fma(left, right, s);
                b.set(sum, s);
            }
        });
        for (row, &sum) in sums.iter().enumerate() {
            let s = b.get(sum);
            b.store(VectorAddress::at(1, F32).plus(64 * row as i64), s);
        }
        b.finish()
    }

    #[target_feature(enable = "avx2,fma")]
    unsafe fn tile_by_hand(x: *const f32, y: *mut f32, n: usize) {
        // SAFETY: `x` has 22 elements for each of `n` steps, and `y` has 96.
        unsafe {
            let right = x.add(n * 6);
            let mut sums = [[_mm256_setzero_ps(); 2]; 6];
            for k in 0..n {
                let (low, high) =
                    (_mm256_loadu_ps(right.add(k * 16)), _mm256_loadu_ps(right.add(k * 16 + 8)));
                for (row, sum) in sums.iter_mut().enumerate() {
                    let left = _mm256_broadcast_ss(&*x.add(k * 6 + row));
                    sum[0] = _mm256_fmadd_ps(left, low, sum[0]);
                    sum[1] = _mm256_fmadd_ps(left, high, sum[1]);
                }
            }
            for (row, sum) in sums.iter().enumerate() {
                _mm256_storeu_ps(y.add(row * 16), sum[0]);
                _mm256_storeu_ps(y.add(row * 16 + 8), sum[1]);
            }
        }
    }

    /// Transposes in blocks of eight by eight.
    fn transpose(n: i64) -> VectorProgram {
        let mut b = VectorBuilder::new();
        b.repeat(LoopRange::Constant(n as u64 / 8), |b, row| {
            b.repeat(LoopRange::Constant(n as u64 / 8), |b, column| {
                for i in 0..8 {
                    let from =
                        VectorAddress::at(0, F32).plus(4 * i).by(row, 32 * n).by(column, 32).step(4 * n);
                    let x = b.load(from, VectorType::new(F32, 8));
                    b.store(VectorAddress::at(1, F32).plus(4 * n * i).by(row, 32).by(column, 32 * n), x);
                }
            });
        });
        b.finish()
    }

    #[target_feature(enable = "avx2,fma")]
    unsafe fn transpose_by_hand(x: *const f32, y: *mut f32, n: usize) {
        // SAFETY: `x` and `y` have `n` rows of `n` elements, a multiple of 8.
        unsafe {
            for row in (0..n).step_by(8) {
                for column in (0..n).step_by(8) {
                    let at = |i: usize| x.add((row + i) * n + column);
                    let pair = |i: usize, offset: usize| {
                        let low = _mm256_castps128_ps256(_mm_loadu_ps(at(i).add(offset)));
                        _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(at(i + 4).add(offset)))
                    };
                    for half in 0..2 {
                        let r: [__m256; 4] = std::array::from_fn(|i| pair(i, 4 * half));
                        let (a, b) = (_mm256_unpacklo_ps(r[0], r[1]), _mm256_unpackhi_ps(r[0], r[1]));
                        let (c, d) = (_mm256_unpacklo_ps(r[2], r[3]), _mm256_unpackhi_ps(r[2], r[3]));
                        let columns = [
                            _mm256_shuffle_ps::<0x44>(a, c),
                            _mm256_shuffle_ps::<0xee>(a, c),
                            _mm256_shuffle_ps::<0x44>(b, d),
                            _mm256_shuffle_ps::<0xee>(b, d),
                        ];
                        for (i, v) in columns.into_iter().enumerate() {
                            _mm256_storeu_ps(y.add((column + 4 * half + i) * n + row), v);
                        }
                    }
                }
            }
        }
    }
}
