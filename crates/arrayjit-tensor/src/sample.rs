//! Random numbers. They depend on a seed, the step of the run and the position of the element only.

use arrayjit::DType;

use crate::{
    error::{Call, Result, misfit},
    graph::Graph,
    operand::{Argument, number},
    shape::{letter, whole},
    tensor::Tensor,
};

/// The declaration of the step of a run in a text.
pub(crate) const STEP: &str = "@step < 1073741824";

/// The largest number of axes of random numbers that differ from element to element.
const MOST_AXES: usize = 4;

impl Graph {
    /// Uniform random numbers in 0..1, others at each step of a run.
    ///
    /// ```
    /// use arrayjit_tensor::{DType, Graph};
    ///
    /// let noise = Graph::new().rand(&[2, 3], DType::F32, 42)?;
    /// assert_eq!(noise.shape(), [2, 3]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// More than four axes, or an element type that is no float.
    #[track_caller]
    pub fn rand(&self, shape: &[usize], dtype: DType, seed: u32) -> Result<Tensor> {
        self.sampled(Call::new("rand"), "uniform", shape, dtype, seed)
    }

    /// Normal random numbers of mean 0 and variance 1, others at each step of a run.
    ///
    /// ```
    /// use arrayjit_tensor::{DType, Graph};
    ///
    /// let noise = Graph::new().randn(&[2, 3], DType::F32, 42)?;
    /// assert_eq!(noise.shape(), [2, 3]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// More than four axes, or an element type that is no float.
    #[track_caller]
    pub fn randn(&self, shape: &[usize], dtype: DType, seed: u32) -> Result<Tensor> {
        self.sampled(Call::new("randn"), "normal", shape, dtype, seed)
    }

    fn sampled(
        &self,
        call: Call,
        function: &str,
        shape: &[usize],
        dtype: DType,
        seed: u32,
    ) -> Result<Tensor> {
        if shape.len() > MOST_AXES || !dtype.is_float() {
            let expected = format!("floats with at most {MOST_AXES} axes");
            return Err(self.fail(call, misfit("shape", format!("{dtype} {shape:?}"), expected)));
        }
        if shape.contains(&0) {
            return self.empty(call, shape, dtype);
        }
        let seed = self.seed_on_rank(seed);
        let letters: String = (0..shape.len()).map(|at| format!(", {}", letter(at))).collect();
        let ranges: String =
            shape.iter().enumerate().map(|(at, size)| format!(", {} < {size}", letter(at))).collect();
        self.result(call, &[], |y| {
            format!(
                "{} := {dtype}({function}({seed}, @step{letters})) where {STEP}{ranges}",
                whole(y, shape.len())
            )
        })
    }

    /// The positions 0, 1, 2, … below `count`, in i32.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(arrayjit_tensor::Graph::new().arange(4), [0, 1, 2, 3]);
    /// ```
    ///
    /// # Errors
    /// A count beyond i32.
    #[track_caller]
    pub fn arange(&self, count: usize) -> Result<Tensor> {
        let call = Call::new("arange");
        match count {
            0 => self.empty(call, &[0], DType::I32),
            _ => self.result(call, &[], |y| format!("{y}[i] := i where i < {count}")),
        }
    }
}

impl Tensor {
    /// Dropout in training: each element is 0 with probability `rate`, else divided by 1 − `rate`; others at
    /// each step of a run.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let x = tensor([1., 2., 3., 4.]).dropout(0.5, 42)?; // about half of them 0, the others doubled
    /// assert_eq!(x.shape(), [4]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// A rate outside 0..1, or more than four axes.
    #[track_caller]
    pub fn dropout(&self, rate: f64, seed: u32) -> Result<Tensor> {
        let call = Call::new("dropout");
        if !(0.0..1.0).contains(&rate) {
            return Err(self.graph().fail(call, misfit("rate", rate, "at least 0 and less than 1")));
        }
        if self.rank() > MOST_AXES {
            return Err(self.graph().fail(call, self.misshapen(format!("at most {MOST_AXES} axes"))));
        }
        let (rank, rate, seed) = (self.rank(), number(rate), self.graph().seed_on_rank(seed));
        self.graph().result(call, &[("x", Argument::Tensor(self))], |y| {
            format!("{} := dropout({}, {rate}, {seed}, @step) where {STEP}", whole(y, rank), whole("x", rank))
        })
    }
}
