//! The arguments that functions are measured on.

use lowered_ir::ir::UnaryOp;
use tnode::{DType, Scalar};

/// A fixed sequence of random numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// At least 0, less than 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Mantissa and exponent of doubles that are nearer to a multiple of π/2 than any other of their binade,
/// found by the continued fraction of 2ᵉ·2/π. Their distance is 2⁻⁵⁷ to 2⁻⁶². The first ones are reduced by
/// steps; the last ones are beyond 2⁴⁰ and are reduced by a call.
const NEAR_MULTIPLES: [(u64, i32); 24] = [
    (6411027962775774, -47),
    (7763785107565477, -29),
    (7763785107565477, -27),
    (4615509997160240, -13),
    (5520028710995367, -34),
    (7295746205504726, -32),
    (7074237752028440, -52),
    (8415546123915803, -18),
    (6381956970095103, 797),
    (6381956970095103, 798),
    (5916243447979695, 79),
    (8444920710073313, 939),
    (5850965514341686, 525),
    (8160885118204141, 808),
    (8360820580228475, 628),
    (8583082635084172, 145),
    (7958046405119485, 243),
    (6808218460873451, 562),
    (7636753411044619, 201),
    (6617649673795284, 15),
    (6311013172270677, 38),
    (6221301883130153, 969),
    (6101578227064009, 91),
    (6448461629705574, 742),
];

/// Arguments of a function, all of them values of the type: edges with their neighbors, and `count`
/// arguments of each random kind.
pub(crate) fn of(op: UnaryOp, dtype: DType, count: usize) -> Vec<f64> {
    let mut random = Random::new(op as u64 + 1);
    let mut arguments = edges(op, dtype);
    let (low, high) = range(op, dtype);
    for _ in 0..count {
        arguments.push(low + (high - low) * random.unit());
        arguments.push(random.unit() * 2.0 - 1.0);
        arguments.push(0.5 + random.unit());
        arguments.push(by_bits(dtype, &mut random));
        if matches!(op, UnaryOp::Sin | UnaryOp::Cos) {
            arguments.extend(near_a_multiple(&mut random));
        }
    }
    arguments.into_iter().map(|x| Scalar::from_f64(dtype, x).as_f64()).collect()
}

/// The range in which the function neither vanishes nor overflows, with a margin at both ends.
fn range(op: UnaryOp, dtype: DType) -> (f64, f64) {
    let wide = if dtype == DType::F64 { 1.0 } else { 0.125 };
    match op {
        UnaryOp::Exp => (-750.0 * wide, 712.0 * wide),
        UnaryOp::Exp2 => (-1080.0 * wide, 1026.0 * wide),
        UnaryOp::Expm1 => (-60.0, 712.0 * wide),
        UnaryOp::Log1p => (-1.0, 3.0),
        UnaryOp::Tanh => (-21.0, 21.0),
        UnaryOp::Sigmoid => (-750.0 * wide, 40.0),
        UnaryOp::Atan => (-20.0, 20.0),
        UnaryOp::Erf => (-6.5, 6.5),
        UnaryOp::Erfc if dtype == DType::F64 => (-7.0, 27.5),
        UnaryOp::Erfc => (-5.0, 10.5),
        UnaryOp::Sin | UnaryOp::Cos => (-1e12, 1e12),
        _ => (0.0, 3.0),
    }
}

/// A value with random sign, exponent and mantissa.
fn by_bits(dtype: DType, random: &mut Random) -> f64 {
    Scalar::new(dtype, u128::from(random.next())).as_f64()
}

/// The type's values nearest to a random multiple of π/2, small and large.
fn near_a_multiple(random: &mut Random) -> [f64; 2] {
    let multiple = |bits: u32, random: &mut Random| (random.next() >> (64 - bits)) as f64;
    let few = multiple(12, random) * std::f64::consts::FRAC_PI_2;
    let many = multiple(1 + (random.next() % 50) as u32, random) * std::f64::consts::FRAC_PI_2;
    [few, many]
}

/// Special values, thresholds and zeros, with the values next to them.
fn edges(op: UnaryOp, dtype: DType) -> Vec<f64> {
    let (smallest, subnormal, largest) = match dtype {
        DType::F64 => (f64::MIN_POSITIVE, f64::from_bits(1), f64::MAX),
        _ => (f64::from(f32::MIN_POSITIVE), f64::from(f32::from_bits(1)), f64::from(f32::MAX)),
    };
    let mut centers = vec![0.0, 1.0, 0.5, 2.0, smallest, subnormal * 3.0, largest, 1e-8, 1e-17, 1e10, 1e22];
    centers.extend(match (op, dtype) {
        (UnaryOp::Exp, DType::F64) => vec![709.782712893384, -745.1332191019411, -708.3964185322641],
        (UnaryOp::Exp, _) => vec![88.72283905206835, -103.97207708399179, -87.336_544_750_553_1],
        (UnaryOp::Exp2, DType::F64) => vec![1024.0, -1074.0, -1075.0, -1022.0],
        (UnaryOp::Exp2, _) => vec![128.0, -149.0, -150.0, -126.0],
        (UnaryOp::Log | UnaryOp::Log2, _) => vec![std::f64::consts::FRAC_1_SQRT_2, std::f64::consts::SQRT_2],
        (UnaryOp::Expm1, DType::F64) => vec![709.782712893384, 0.34657359027997264, 37.5, 2f64.powi(-55)],
        (UnaryOp::Expm1, _) => vec![88.72283905206835, 0.34657359027997264, 17.4, 2f64.powi(-26)],
        (UnaryOp::Log1p, _) => vec![0.41421356237309515, 0.2928932188134524, 2f64.powi(-26), 2f64.powi(-55)],
        (UnaryOp::Erf | UnaryOp::Erfc, _) => vec![0.875, 3.95, 5.95, 9.3, 10.05, 26.6, 27.2],
        (UnaryOp::Tanh, _) => vec![9.01, 10.0, 18.7, 19.06, 20.0, 0.17, 0.35],
        (UnaryOp::Sin | UnaryOp::Cos, _) => multiples(),
        _ => vec![4.0, 0.25],
    });
    let neighbors = |&center: &f64| {
        let bits = Scalar::from_f64(dtype, center).bits();
        (0..7).map(move |d| Scalar::new(dtype, (bits + d).saturating_sub(3)).as_f64())
    };
    let mut edges: Vec<f64> = centers.iter().flat_map(neighbors).flat_map(|x| [x, -x]).collect();
    edges.extend([f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.0]);
    if matches!(op, UnaryOp::Sin | UnaryOp::Cos) {
        edges.extend(NEAR_MULTIPLES.iter().flat_map(|&(m, e)| {
            let x = m as f64 * 2f64.powi(e);
            [x, -x]
        }));
    }
    edges
}

fn multiples() -> Vec<f64> {
    let quarter = std::f64::consts::FRAC_PI_2;
    let mut multiples: Vec<f64> = [1.0, 2.0, 3.0, 4.0, 11.0, 1420.0, 52174.0].map(|k| k * quarter).into();
    // The least large angle, and the limits of the steps for `f32`.
    multiples.extend([40, 46, 69, 92, 115].map(|p| 2f64.powi(p)));
    multiples
}

/// Bases and exponents whose powers are in the range of the type or just outside.
pub(crate) fn of_power(dtype: DType, count: usize) -> Vec<(f64, f64)> {
    let mut random = Random::new(362_436_069);
    let octaves = if dtype == DType::F64 { 1080.0 } else { 152.0 };
    let mut pairs = Vec::new();
    for _ in 0..count {
        let ordinary = 2.0 * random.unit() + 1e-6;
        let near_one = 1.0 + (random.unit() - 0.5) * 2f64.powi(-((random.next() % 22) as i32));
        let any = by_bits(dtype, &mut random).abs();
        for x in [ordinary, near_one, any] {
            let x = Scalar::from_f64(dtype, x).as_f64();
            let limit = octaves / x.log2().abs().max(1e-300);
            let y = (random.unit() * 2.0 - 1.0) * limit.min(1e30);
            pairs.push((x, Scalar::from_f64(dtype, y).as_f64()));
        }
    }
    pairs.retain(|(x, y)| x.is_finite() && *x > 0.0 && *x != 1.0 && y.is_finite());
    pairs
}
