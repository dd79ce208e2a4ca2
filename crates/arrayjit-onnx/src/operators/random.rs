//! Random numbers.
//!
//! The host makes them at each run, with SplitMix64. A node with a seed gives the same numbers in every
//! session, and other ones in each run of a session; a node without one gives other numbers in every process.
//!
//! Source: Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tnode::{DType, HostArray};

use super::{
    context::{Lowered, NodeContext},
    elementwise::combined,
    operator::{Operator, op},
    shape::sizes,
};
use crate::{
    error::{OnnxError, Result},
    host::{float, floats_of, ints_of},
    shape::elements,
    value::Value,
};

const fn random(name: &'static str, since: i64, lower: fn(&mut NodeContext<'_>) -> Lowered) -> Operator {
    Operator { is_random: true, ..op(name, since, lower) }
}

pub(super) static OPERATORS: &[Operator] = &[
    random("Bernoulli", 15, bernoulli),
    random("Multinomial", 7, multinomial),
    random("RandomNormal", 1, |cx| of_shape(cx, normal)),
    random("RandomNormalLike", 1, |cx| like(cx, normal)),
    random("RandomUniform", 1, |cx| of_shape(cx, uniform)),
    random("RandomUniformLike", 1, |cx| like(cx, uniform)),
];

/// A generator of a run.
struct Generator(u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to 1, without 1.
    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of the standard normal distribution, by the method of Box and Muller.
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// The generators of a node, one for each run.
fn generators(cx: &NodeContext<'_>) -> Result<impl Fn() -> Generator + Send + Sync + 'static> {
    let seed = match cx.attribute("seed") {
        Some(crate::ir::Attribute::Int(seed)) => *seed as u64,
        Some(_) => u64::from(cx.float_or("seed", 0.0)?.to_bits()),
        None => RandomState::new().hash_one(cx.id()),
    };
    let first = Generator(seed ^ (cx.id() as u64).rotate_left(32)).next();
    let runs = Arc::new(AtomicU64::new(0));
    Ok(move || Generator(first ^ Generator(runs.fetch_add(1, Ordering::Relaxed)).next()))
}

/// A function of a generator that gives a number, for the attributes of a node.
type Distribution = Box<dyn Fn(&mut Generator) -> f64 + Send + Sync>;

fn normal(cx: &NodeContext<'_>) -> Result<Distribution> {
    let (mean, scale) = (f64::from(cx.float_or("mean", 0.0)?), f64::from(cx.float_or("scale", 1.0)?));
    Ok(Box::new(move |generator| mean + scale * generator.normal()))
}

fn uniform(cx: &NodeContext<'_>) -> Result<Distribution> {
    let (low, high) = (f64::from(cx.float_or("low", 0.0)?), f64::from(cx.float_or("high", 1.0)?));
    Ok(Box::new(move |generator| low + (high - low) * generator.uniform()))
}

/// Numbers of a distribution as an array.
fn filled(cx: &mut NodeContext<'_>, distribution: Distribution, dtype: DType, shape: Vec<usize>) -> Lowered {
    let count = elements(&shape)?;
    cx.reserve(DType::F64, &[count, 2])?;
    let generators = generators(cx)?;
    cx.each_run(&[], move |_| {
        let mut generator = generators();
        let values: Vec<f64> = (0..count).map(|_| distribution(&mut generator)).collect();
        Ok(vec![floats_of(dtype, &shape, &values)?])
    })
}

fn of_shape(cx: &mut NodeContext<'_>, distribution: fn(&NodeContext<'_>) -> Result<Distribution>) -> Lowered {
    let shape = cx.ints("shape")?.ok_or_else(|| OnnxError::attribute("shape", "sizes"))?;
    let dtype = cx.dtype_attribute("dtype")?.unwrap_or(DType::F32);
    let distribution = distribution(cx)?;
    filled(cx, distribution, dtype, sizes(&shape)?)
}

fn like(cx: &mut NodeContext<'_>, distribution: fn(&NodeContext<'_>) -> Result<Distribution>) -> Lowered {
    let x = cx.value(0)?;
    let dtype = cx.dtype_attribute("dtype")?.unwrap_or(x.dtype());
    let distribution = distribution(cx)?;
    filled(cx, distribution, dtype, x.shape().to_vec())
}

/// 1 with the probability that the operand has, else 0.
fn bernoulli(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let dtype = cx.dtype_attribute("dtype")?.unwrap_or(x.dtype());
    let generators = generators(cx)?;
    cx.each_run(&[x], move |arrays| {
        let mut generator = generators();
        let x: &HostArray = arrays.first().ok_or_else(|| OnnxError::operand(0, "it is missing"))?;
        let value = |p: f64| i64::from(generator.uniform() < p);
        let values: Vec<i64> = x.values().into_iter().map(value).collect();
        Ok(vec![ints_of(dtype, x.dims(), &values)?])
    })
}

/// Classes by the logarithms of their probabilities, which need not be normalized.
fn multinomial(cx: &mut NodeContext<'_>) -> Lowered {
    let x = cx.value(0)?;
    let &[rows, classes] = x.shape() else { return Err(OnnxError::operand(0, "expected two axes")) };
    let count = usize::try_from(cx.int_or("sample_size", 1)?).unwrap_or(0);
    let dtype = cx.dtype_attribute("dtype")?.unwrap_or(DType::I32);
    if classes == 0 {
        return Err(OnnxError::operand(0, "it has no classes"));
    }
    cx.reserve(DType::I64, &[rows, count, 2])?;
    let generators = generators(cx)?;
    cx.each_run(&[x], move |arrays| {
        let mut generator = generators();
        let logits = arrays.first().map(|array| array.values()).unwrap_or_default();
        let mut values = Vec::new();
        for row in logits.chunks(classes) {
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = row.iter().map(|logit| (logit - most).exp()).collect();
            let total: f64 = weights.iter().sum();
            for _ in 0..count {
                let mut rest = generator.uniform() * total;
                let found = weights.iter().position(|weight| {
                    rest -= weight;
                    rest < 0.0
                });
                values.push(found.unwrap_or(classes - 1) as i64);
            }
        }
        Ok(vec![ints_of(dtype, &[rows, count], &values)?])
    })
}

/// Dropout in training: each element is 0 with the probability `ratio`, and the others are scaled.
pub(super) fn dropout(cx: &mut NodeContext<'_>, ratio: f64) -> Lowered {
    if !(0.0..1.0).contains(&ratio) {
        return Err(OnnxError::operand(1, format!("expected a ratio from 0 up to 1, found {ratio}")));
    }
    let x = cx.value(0)?;
    let (generators, shape) = (generators(cx)?, x.shape().to_vec());
    let count = elements(&shape)?;
    cx.reserve(DType::I64, &[count])?;
    let masks = cx.each_run(&[], move |_| {
        let mut generator = generators();
        let kept: Vec<i64> = (0..count).map(|_| i64::from(generator.uniform() >= ratio)).collect();
        Ok(vec![ints_of(DType::Bool, &shape, &kept)?])
    })?;
    let mask: &Value = masks.first().ok_or_else(|| OnnxError::Invalid("a mask is missing".into()))?;
    let (dtype, scale) = (x.dtype(), float(DType::F32, 1.0 / (1.0 - ratio)));
    let y = combined(cx, &x, mask, dtype, &format!("where({{z}}, {dtype}({{x}} * {scale}), 0)"))?;
    Ok(vec![y, mask.clone()])
}
