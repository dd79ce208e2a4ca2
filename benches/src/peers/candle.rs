//! The library `candle-core`: its tensors on the CPU, operation after operation as its users write them.

use std::time::Instant;

use anyhow::Result;
use candle_core::{D, Device, Tensor};

use super::{Contestant, Peer, Prepared, Problem, expect_variable, version_of};
use crate::{arrays::Array, case::Operation};

pub(super) struct Candle;

impl Candle {
    pub(super) fn new(threads: usize) -> Result<Candle> {
        expect_variable("RAYON_NUM_THREADS", threads)?;
        Ok(Candle)
    }
}

/// Computes the output from the inputs.
type Function = fn(&[Tensor]) -> candle_core::Result<Tensor>;

impl Peer for Candle {
    fn name(&self) -> &'static str {
        "candle-core"
    }

    fn version(&self) -> &str {
        version_of("candle-core")
    }

    fn prepare(&mut self, problem: Problem) -> Result<Option<Prepared<'_>>> {
        let Some(function) = function(problem.operation) else { return Ok(None) };
        let inputs = problem.inputs.iter().map(tensor).collect::<candle_core::Result<Vec<_>>>()?;
        let output = function(&inputs)?.flatten_all()?.to_vec1()?;
        let step = Box::new(CandleCalls { function, inputs });
        Ok(Some(Prepared { step, outputs: vec![output], cold_ms: None }))
    }
}

fn tensor(array: &Array) -> candle_core::Result<Tensor> {
    Tensor::from_slice(&array.values, array.dims.as_slice(), &Device::Cpu)
}

fn function(operation: Operation) -> Option<Function> {
    Some(match operation {
        Operation::Matmul | Operation::Bmm => |x| x[0].matmul(&x[1]),
        Operation::MatmulNt => |x| x[0].matmul(&x[1].t()?),
        Operation::Matvec => |x| x[0].matmul(&x[1].unsqueeze(1)?),
        Operation::DenseRelu => |x| x[0].matmul(&x[1])?.broadcast_add(&x[2])?.relu(),
        Operation::AxpyRelu => |x| x[0].affine(1.5, 0.5)?.relu()?.affine(2.0, 0.0),
        Operation::Gelu => |x| x[0].gelu(),
        Operation::Sum => |x| x[0].sum_all(),
        Operation::RowSum => |x| x[0].sum(1),
        Operation::ColSum => |x| x[0].sum(0),
        Operation::Transpose => |x| x[0].t()?.contiguous(),
        Operation::Softmax => |x| {
            let e = x[0].broadcast_sub(&x[0].max_keepdim(D::Minus1)?)?.exp()?;
            e.broadcast_div(&e.sum_keepdim(D::Minus1)?)
        },
        Operation::Conv3x3 => |x| x[0].conv2d(&x[1], 1, 1, 1, 1),
        _ => return None,
    })
}

struct CandleCalls {
    function: Function,
    inputs: Vec<Tensor>,
}

impl Contestant for CandleCalls {
    fn run(&mut self, count: usize) -> Result<f64> {
        drop((self.function)(&self.inputs)?);
        let start = Instant::now();
        for _ in 0..count {
            drop(std::hint::black_box((self.function)(&self.inputs)?));
        }
        Ok(start.elapsed().as_secs_f64())
    }
}
