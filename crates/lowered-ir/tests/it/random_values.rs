//! The values of samples, computed by the interpreter: known vectors, ranges over every bit pattern, and
//! distributions.

use lowered_ir::interp::{self, Memory};
use lowered_ir::ir::{Affine, Expr, LoopId, LoweredRoutine, NodeDecl, NodeRef, Numerics, Stmt};
use lowered_ir::random::{Distribution, KeyNumber, Scheme, Words, bits_of, value};
use lowered_ir::verify::verify;
use tnode::{DType, ModeState, Scalar};

const FLOATS: [DType; 6] =
    [DType::F16, DType::Bf16, DType::F32, DType::F64, DType::Fp8E5m2, DType::Fp8E4m3fn];

fn declared(name: &str, dtype: DType, dims: &[usize]) -> NodeDecl {
    NodeDecl { name: name.to_owned(), dtype, dims: dims.into(), mode: ModeState::default() }
}

/// All values of the samples, in order.
fn values_of(scheme: Scheme, distribution: Distribution, dtype: DType, samples: &[Words]) -> Vec<Scalar> {
    let values_per_sample = distribution.values_per_sample(dtype);
    let row = Affine::var(LoopId(0));
    let sample = Expr::get(NodeRef(0), [row.clone()]);
    let set = |at: usize| Stmt::Set {
        node: NodeRef(1),
        index: [row.clone(), Affine::constant(at as i64)].into_iter().collect(),
        value: value(scheme, distribution, dtype, &sample, at),
    };
    let body = vec![Stmt::serial(LoopId(0), samples.len() as i64, (0..values_per_sample).map(set).collect())];
    let nodes = vec![
        declared("samples", DType::U32x4, &[samples.len()]),
        declared("values", dtype, &[samples.len(), values_per_sample]),
    ];
    let routine = LoweredRoutine {
        name: "values".to_owned(),
        numerics: Numerics::Strict,
        symbols: vec![],
        nodes,
        body,
    };
    verify(&routine).unwrap_or_else(|error| panic!("{error}"));
    let mut memory = Memory::zeroed(&routine);
    for (place, words) in memory.nodes[0].chunks_exact_mut(16).zip(samples) {
        place.copy_from_slice(&bits_of(*words).to_le_bytes());
    }
    interp::run(&routine, &mut memory, &[]).expect("verified");
    let size = dtype.size_bytes();
    memory.nodes[1].chunks_exact(size).map(|bytes| Scalar::read(dtype, bytes).expect("whole")).collect()
}

fn numbers(scheme: Scheme, distribution: Distribution, dtype: DType, samples: &[Words]) -> Vec<f64> {
    values_of(scheme, distribution, dtype, samples).into_iter().map(Scalar::as_f64).collect()
}

/// The first samples of a seed.
fn samples(seed: u32, count: usize) -> Vec<Words> {
    let generator = Scheme::Standard.generator();
    (0..count).map(|c| generator.words([seed, 0, 0, 0], [c as u32, 0, 0, 0])).collect()
}

/// Samples whose parts of 16 bits take every pattern, in order.
fn every_half() -> Vec<Words> {
    let word = |first: u32| first | (first + 1) << 16;
    (0..1 << 13).map(|i| [0, 2, 4, 6].map(|k| word(8 * i + k))).collect()
}

fn constant(expr: &Expr) -> Scalar {
    match expr {
        Expr::Const(scalar) => *scalar,
        other => panic!("expected a constant, found {other:?}"),
    }
}

#[test]
fn compatible_schemes_give_the_published_numbers() {
    let sample = |scheme: Scheme, cell: u32| {
        let counter = Expr::Const(Scalar::new(DType::U32, cell.into()));
        constant(&scheme.cell_sample(scheme.seed_key(42), &[counter])).bits()
    };
    let light = |cell| sample(Scheme::CompatLight, cell);
    assert_eq!(light(0), bits_of([0x76bb7178, 0xbb82ac4f, 0x8f90552b, 0x81b2da10]));
    assert_eq!(light(1), bits_of([0x807b60b8, 0xf747a7f5, 0xcd955b31, 0xfeb25582]));
    assert_eq!(light(2), bits_of([0x84d2cffe, 0x2a4f3c02, 0x19dfda27, 0x4fdc2e6a]));
    let crypto = sample(Scheme::CompatCrypto, 0);
    assert_eq!(crypto, bits_of([0x2b9d4622, 0x1dae3397, 0xf64d814e, 0xfed53d7d]));

    let uniforms = |dtype, cell| {
        let words = lowered_ir::random::words_of(light(cell));
        let found = numbers(Scheme::CompatLight, Distribution::Uniform, dtype, &[words]);
        found.iter().map(|x| format!("{x:.4}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(uniforms(DType::F32, 0), "0.4638 0.7325 0.5608 0.5066");
    assert_eq!(uniforms(DType::F32, 1), "0.5019 0.9659 0.8031 0.9949");
    assert_eq!(uniforms(DType::F16, 0), "0.4434 0.4639 0.6729 0.7324 0.3328 0.5605 0.8516 0.5068");
    assert_eq!(uniforms(DType::F64, 0), "0.7325 0.5066");
    assert_eq!(uniforms(DType::U8, 0).split(' ').next(), Some("120.0000"), "the lowest byte first");
}

#[test]
fn compatible_schemes_spread_numbers_over_four_words() {
    let words = |x: u64| {
        let key = Scheme::CompatLight.seed_key(7);
        constant(&Scheme::CompatLight.fold(key, &KeyNumber::constant(x))).bits()
    };
    let x = 0xdead_beef_u32;
    let counter = [x, x ^ 0x9E37_79B9, x ^ 0x6C07_8965, x ^ 0xbeef_dead];
    let expected = Scheme::CompatLight.generator().words([7, 0, 0, 0], counter);
    assert_eq!(words(u64::from(x)), bits_of(expected));
    assert_eq!(words(u64::from(x) | 5 << 32), bits_of(expected), "modulo 2^32");
}

#[test]
fn keys_and_counters_are_as_documented() {
    let generator = Scheme::Standard.generator();
    let key = Scheme::Standard.seed_key(0x1_0000_0002);
    assert_eq!(constant(&key).bits(), bits_of([2, 1, 0, 0]));
    let folded = Scheme::Standard.fold(key.clone(), &KeyNumber::constant(0x5_0000_0006));
    let expected = generator.words([2, 1, 0, 0], [6, 5, 0, 1 << 31]);
    assert_eq!(constant(&folded).bits(), bits_of(expected));
    let chunk = Scheme::Standard.chunk_sample(folded, &Affine::constant(3), &Affine::constant(9), 10, 4);
    assert_eq!(constant(&chunk).bits(), bits_of(generator.words(expected, [9, 3, 0, 0])));
    let big =
        Scheme::Standard.chunk_sample(key, &Affine::constant(3 << 32), &Affine::constant(9), 10, 4 << 32);
    assert_eq!(constant(&big).bits(), bits_of(generator.words([2, 1, 0, 0], [9, 0, 3, 0])));
}

#[test]
fn no_uniform_of_any_pattern_is_outside_its_range() {
    for (dtype, p) in [(DType::F16, 11), (DType::Bf16, 8), (DType::Fp8E5m2, 3), (DType::Fp8E4m3fn, 4)] {
        let found = numbers(Scheme::Standard, Distribution::Uniform, dtype, &every_half());
        assert!(found.iter().all(|&u| (0.0..1.0).contains(&u)), "{dtype}");
        // All multiples of 2^-p, equally often.
        let mut counts = vec![0usize; 1 << p];
        found.iter().for_each(|u| counts[(u * f64::from(1 << p)) as usize] += 1);
        assert!(counts.iter().all(|&count| count == found.len() >> p), "{dtype}: {counts:?}");
        assert!(found.iter().all(|u| (u * f64::from(1 << p)).fract() == 0.0), "{dtype}");
    }
    for dtype in [DType::F32, DType::F64] {
        let found = numbers(Scheme::Standard, Distribution::Uniform, dtype, &[[u32::MAX; 4], [0; 4]]);
        assert!(found.iter().all(|&u| (0.0..1.0).contains(&u)), "{dtype}");
        assert_eq!(found.iter().filter(|&&u| u == 0.0).count(), found.len() / 2);
    }
}

#[test]
fn compatible_halves_may_be_one() {
    for (dtype, ones) in [(DType::F16, 16), (DType::Bf16, 128)] {
        let found = numbers(Scheme::CompatLight, Distribution::Uniform, dtype, &every_half());
        assert_eq!(found.iter().filter(|&&u| u == 1.0).count(), ones, "{dtype}");
    }
}

#[test]
fn bits_are_the_parts_in_order() {
    let sample = [0x0403_0201, 0x0807_0605, 0x0c0b_0a09, 0x100f_0e0d];
    let bits = |dtype| -> Vec<u128> {
        let all = values_of(Scheme::Standard, Distribution::Bits, dtype, &[sample]);
        all.into_iter().map(|scalar| scalar.bits()).collect()
    };
    for dtype in [DType::U8, DType::I8, DType::Fp8E5m2, DType::Fp8E4m3fn] {
        assert_eq!(bits(dtype), (1..=16).collect::<Vec<u128>>(), "{dtype}");
    }
    for dtype in [DType::U16, DType::F16, DType::Bf16] {
        assert_eq!(bits(dtype)[..3], [0x0201, 0x0403, 0x0605], "{dtype}");
    }
    for dtype in [DType::I32, DType::U32, DType::F32] {
        assert_eq!(bits(dtype), sample.map(u128::from), "{dtype}");
    }
    for dtype in [DType::I64, DType::U64, DType::F64] {
        assert_eq!(bits(dtype), [0x0807_0605_0403_0201, 0x100f_0e0d_0c0b_0a09], "{dtype}");
    }
    assert_eq!(bits(DType::U32x4), [bits_of(sample)]);
    let flipped = values_of(Scheme::Standard, Distribution::Bits, DType::Bool, &[[0x8000_7fff, 0, 0, 0x80]]);
    let set: Vec<usize> = (0..16).filter(|&at| flipped[at].bits() == 1).collect();
    assert_eq!(set, [0, 3, 12], "the highest bit of each byte");
}

/// Mean, variance, skewness and kurtosis.
fn moments(values: &[f64]) -> [f64; 4] {
    let mean_of = |f: &dyn Fn(f64) -> f64| values.iter().map(|&x| f(x)).sum::<f64>() / values.len() as f64;
    let mean = mean_of(&|x| x);
    let variance = mean_of(&|x| (x - mean).powi(2));
    let standard = |x: f64| (x - mean) / variance.sqrt();
    [mean, variance, mean_of(&|x| standard(x).powi(3)), mean_of(&|x| standard(x).powi(4))]
}

/// The greatest distance of the empirical distribution from `cdf`.
fn distance(values: &mut [f64], cdf: impl Fn(f64) -> f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let at = |(i, &x): (usize, &f64)| {
        let p = cdf(x);
        (p - i as f64 / n).abs().max((p - (i + 1) as f64 / n).abs())
    };
    values.iter().enumerate().map(at).fold(0.0, f64::max)
}

/// The normal distribution function by numeric integration of its density, to 1e-6.
fn normal_cdf(x: f64) -> f64 {
    let steps = 60;
    let h = x / f64::from(steps);
    let density = |t: f64| (-t * t / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let inner: f64 = (1..steps).map(|i| density(h * f64::from(i)) * if i % 2 == 1 { 4.0 } else { 2.0 }).sum();
    0.5 + h / 3.0 * (density(0.0) + inner + density(x))
}

const SAMPLES: usize = 100_000;

/// `SAMPLES` values of a distribution.
fn sampled_numbers(distribution: Distribution, dtype: DType, seed: u32) -> Vec<f64> {
    let samples = samples(seed, SAMPLES / distribution.values_per_sample(dtype));
    numbers(Scheme::Standard, distribution, dtype, &samples)
}

#[test]
fn uniforms_have_the_moments_of_their_distribution() {
    for dtype in FLOATS {
        let mut found = sampled_numbers(Distribution::Uniform, dtype, 1);
        let p = match dtype {
            DType::F16 => 11,
            DType::Bf16 => 8,
            DType::Fp8E5m2 => 3,
            DType::Fp8E4m3fn => 4,
            _ => 24,
        };
        // The mean and variance of the uniform distribution over the multiples of 2^-p in [0, 1).
        let step = 0.5f64.powi(p);
        let (mean, variance) = ((1.0 - step) / 2.0, (1.0 - step * step) / 12.0);
        let [found_mean, found_variance, skewness, kurtosis] = moments(&found);
        // The tolerances are five standard errors.
        let n = (SAMPLES as f64).sqrt();
        assert!((found_mean - mean).abs() < 5.0 * variance.sqrt() / n, "{dtype}: mean {found_mean}");
        assert!((found_variance - variance).abs() < 5.0 * 0.0745 / n, "{dtype}: variance {found_variance}");
        assert!(skewness.abs() < 5.0 * 1.6 / n, "{dtype}: skewness {skewness}");
        assert!((kurtosis - 1.8).abs() < 0.05, "{dtype}: kurtosis {kurtosis}");
        if p == 24 {
            let d = distance(&mut found, |x| x);
            // Of 1000 true samples, 999 pass.
            assert!(d < 1.95 / n, "{dtype}: Kolmogorov-Smirnov distance {d}");
        }
    }
}

#[test]
fn normals_have_the_moments_of_their_distribution() {
    for dtype in FLOATS {
        let mut found = sampled_numbers(Distribution::Normal, dtype, 2);
        let [mean, variance, skewness, kurtosis] = moments(&found);
        let n = (SAMPLES as f64).sqrt();
        // Rounding to few bits widens the distribution a little.
        let rounding = if dtype.size_bytes() == 1 { 0.02 } else { 0.0 };
        assert!(mean.abs() < 5.0 / n, "{dtype}: mean {mean}");
        assert!((variance - 1.0).abs() < 5.0 * 1.42 / n + rounding, "{dtype}: variance {variance}");
        assert!(skewness.abs() < 5.0 * 2.45 / n + rounding, "{dtype}: skewness {skewness}");
        assert!((kurtosis - 3.0).abs() < 5.0 * 4.9 / n + 2.0 * rounding, "{dtype}: kurtosis {kurtosis}");
        assert!(found.iter().all(|z| z.abs() < 8.6), "{dtype}: out of range");
        if dtype.size_bytes() >= 4 {
            let d = distance(&mut found, normal_cdf);
            assert!(d < 1.95 / n, "{dtype}: Kolmogorov-Smirnov distance {d}");
        }
    }
}

#[test]
fn no_normal_is_infinite_at_the_edges() {
    for dtype in FLOATS {
        let found = numbers(
            Scheme::Standard,
            Distribution::Normal,
            dtype,
            &[[u32::MAX; 4], [0; 4], [u32::MAX, 0, u32::MAX, 0], [0, u32::MAX, 0, u32::MAX]],
        );
        assert!(found.iter().all(|z| z.is_finite() && z.abs() < 8.6), "{dtype}: {found:?}");
    }
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let ([mean_a, var_a, ..], [mean_b, var_b, ..]) = (moments(a), moments(b));
    let together: f64 = a.iter().zip(b).map(|(x, y)| (x - mean_a) * (y - mean_b)).sum();
    together / a.len() as f64 / (var_a * var_b).sqrt()
}

#[test]
fn lanes_seeds_and_keys_are_not_correlated() {
    let count = 20_000;
    let bound = 5.0 / (count as f64).sqrt();
    let lanes =
        |words: &[Words], lane: usize| -> Vec<f64> { words.iter().map(|w| f64::from(w[lane])).collect() };
    let first = samples(3, count);
    for (a, b) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
        let r = correlation(&lanes(&first, a), &lanes(&first, b));
        assert!(r.abs() < bound, "lanes {a} and {b}: {r}");
    }
    // Counters and seeds that differ in one bit, and keys next to each other.
    let generator = Scheme::Standard.generator();
    let folded = |number: u64| -> Vec<Words> {
        let key = Scheme::Standard.fold(Scheme::Standard.seed_key(3), &KeyNumber::constant(number));
        let key = lowered_ir::random::words_of(constant(&key).bits());
        (0..count).map(|c| generator.words(key, [c as u32, 0, 0, 0])).collect()
    };
    let others = [("next counter", samples(3, count + 1)[1..].to_vec()), ("next seed", samples(2, count))];
    let others = others.into_iter().chain([("key 0", folded(0)), ("key 1", folded(1))]);
    for (what, other) in others {
        for lane in 0..4 {
            let r = correlation(&lanes(&first, lane), &lanes(&other, lane));
            assert!(r.abs() < bound, "{what}, lane {lane}: {r}");
        }
    }
    let r = correlation(&lanes(&folded(0), 0), &lanes(&folded(1), 0));
    assert!(r.abs() < bound, "keys 0 and 1: {r}");
}
