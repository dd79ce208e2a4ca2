//! NVIDIA's cuBLAS: matrix multiplications on the measured GPU.
//!
//! Both programs are timed alike: operands are on the device, many calls are submitted to a stream, and the
//! clock stops when the host has waited for that stream once, at the end. cuBLAS has its own stream in the
//! same context.
//!
//! Elements of f32 are multiplied in full f32 (no TF32: the library's default, which the environment's
//! `NVIDIA_TF32_OVERRIDE=1` would change), elements of bf16 with sums in f32 throughout: reductions in fewer
//! bits are disabled.

mod api; // the two libraries as a safe interface
mod layout; // matrix multiplications in the library's layout

use std::{rc::Rc, time::Instant};

use anyhow::{Context as _, Result};
use arrayjit::DType;
use half::bf16;

use self::{
    api::{Element, Library, Memory},
    layout::CublasGemm,
};
use super::{Contestant, Peer, Prepared, Problem};
use crate::{arrays::Array, case::Operation};

pub(super) struct Cublas {
    library: Rc<Library>,
}

impl Cublas {
    /// Opens the library on a GPU. The inner error says why there is no library.
    ///
    /// # Errors
    ///
    /// A driver or a library that exists and does not work.
    pub(super) fn open(ordinal: u32) -> Result<Result<Cublas, String>> {
        if let Err(missing) = api::probe() {
            return Ok(Err(missing));
        }
        let library = Library::open(ordinal).context("opening cuBLAS")?;
        Ok(Ok(Cublas { library: Rc::new(library) }))
    }
}

impl Peer for Cublas {
    fn name(&self) -> &'static str {
        "cublas"
    }

    fn version(&self) -> &str {
        &self.library.version
    }

    fn takes(&self, operation: Operation, dtype: DType) -> bool {
        matches!(operation, Operation::Matmul | Operation::MatmulNt | Operation::Bmm)
            && element(dtype).is_some()
    }

    fn prepare(&mut self, problem: Problem) -> Result<Option<Prepared<'_>>> {
        let dims: Vec<&[usize]> = problem.inputs.iter().map(|input| &input.dims[..]).collect();
        let gemm = CublasGemm::of(problem.operation, &dims);
        let (Some(gemm), Some(element)) = (gemm, element(problem.dtype)) else { return Ok(None) };
        let place = |array: &Array| -> Result<Memory> {
            let bytes = bytes(&array.values, element);
            let memory = Memory::new(&self.library, bytes.len())?;
            memory.upload(&bytes)?;
            Ok(memory)
        };
        let operands = [place(&problem.inputs[0])?, place(&problem.inputs[1])?, place(&problem.outputs[0])?];
        let step = CublasCalls { library: Rc::clone(&self.library), gemm, element, operands };
        step.start()?;
        step.library.wait()?;
        let output = values(&step.operands[2].download()?, element);
        Ok(Some(Prepared { step: Box::new(step), outputs: vec![output], cold_ms: None }))
    }
}

fn element(dtype: DType) -> Option<Element> {
    match dtype {
        DType::F32 => Some(Element::F32),
        DType::Bf16 => Some(Element::Bf16),
        _ => None,
    }
}

fn bytes(values: &[f32], element: Element) -> Vec<u8> {
    match element {
        Element::F32 => bytemuck::cast_slice(values).to_vec(),
        // The values are those of bf16 already, so nothing is rounded.
        Element::Bf16 => values.iter().flat_map(|&value| bf16::from_f32(value).to_le_bytes()).collect(),
    }
}

fn values(bytes: &[u8], element: Element) -> Vec<f32> {
    match element {
        Element::F32 => bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect(),
        Element::Bf16 => bytes.as_chunks().0.iter().map(|&b| bf16::from_le_bytes(b).into()).collect(),
    }
}

struct CublasCalls {
    library: Rc<Library>,
    gemm: CublasGemm,
    element: Element,
    /// Both operands and the result.
    operands: [Memory; 3],
}

impl CublasCalls {
    fn start(&self) -> Result<()> {
        let [a, b, c] = &self.operands;
        self.library.multiply(&self.gemm, self.element, [a, b, c])
    }
}

impl Contestant for CublasCalls {
    fn run(&mut self, count: usize) -> Result<f64> {
        self.start()?;
        self.library.wait()?;
        let start = Instant::now();
        for _ in 0..count {
            self.start()?;
        }
        self.library.wait()?;
        Ok(start.elapsed().as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_the_library_is_told_so_in_one_line() {
        // Where the library exists, this has nothing to test.
        let Err(missing) = api::probe() else { return };
        assert!(missing.starts_with("found no cuBLAS") && !missing.contains('\n'), "{missing}");
    }

    #[test]
    fn elements_come_back() {
        let numbers = [1.0, -2.5, 0.0, 384.0];
        for element in [Element::F32, Element::Bf16] {
            assert_eq!(values(&bytes(&numbers, element), element), numbers);
        }
    }
}
