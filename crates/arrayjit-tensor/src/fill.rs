//! Tensors of given values: constants, and one number everywhere.

use std::sync::Arc;

use arrayjit::{DType, HostArray};

use crate::{
    error::{Call, Result},
    graph::Graph,
    operand::number_of,
    shape::{letter, whole},
    tensor::Tensor,
};

impl Graph {
    /// An array whose values are known when the graph is compiled, and are the same in every run. The
    /// compiled graph has a copy on the device.
    ///
    /// ```
    /// use arrayjit_tensor::{Backend, Graph, HostArray, Params, ModelState};
    ///
    /// let weights = ModelState::new(&Backend::open("inline")?, &Params::new(0))?;
    /// let graph = Graph::new();
    /// let table = graph.constant(HostArray::from_slice(&[1f32, 2.0, 4.0], [3])?)?;
    /// let sum = table.sum(..)?;
    /// assert_eq!(graph.compile(&weights, &[&sum])?.run(&[])?[0].values(), [7.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A size that overflows.
    #[track_caller]
    pub fn constant(&self, values: impl Into<Arc<HostArray>>) -> Result<Tensor> {
        self.add_constant(Call::new("constant"), values.into())
    }

    /// A tensor of zeros.
    ///
    /// ```
    /// use arrayjit_tensor::{DType, Graph};
    ///
    /// let state = Graph::new().zeros(&[8, 16], DType::F32)?;
    /// assert_eq!(state.shape(), [8, 16]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// A shape with too many axes, or a size that overflows.
    #[track_caller]
    pub fn zeros(&self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        self.filled(Call::new("zeros"), shape, 0.0, dtype)
    }

    /// A tensor of ones.
    ///
    /// ```
    /// use arrayjit_tensor::{DType, Graph};
    ///
    /// let mask = Graph::new().ones(&[4, 4], DType::F32)?.tril(0)?;
    /// assert_eq!(mask.shape(), [4, 4]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// A shape with too many axes, or a size that overflows.
    #[track_caller]
    pub fn ones(&self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        self.filled(Call::new("ones"), shape, 1.0, dtype)
    }

    /// A tensor with one number everywhere.
    ///
    /// ```
    /// use arrayjit_tensor::{Backend, DType, Graph, Params, ModelState};
    ///
    /// let weights = ModelState::new(&Backend::open("inline")?, &Params::new(0))?;
    /// let graph = Graph::new();
    /// let sevens = graph.full(&[2, 2], 7.0, DType::I32)?;
    /// assert_eq!(graph.compile(&weights, &[&sevens])?.run(&[])?[0].values(), [7.0; 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A number that the type does not hold, a shape with too many axes, or a size that overflows.
    #[track_caller]
    pub fn full(&self, shape: &[usize], value: f64, dtype: DType) -> Result<Tensor> {
        self.filled(Call::new("full"), shape, value, dtype)
    }

    fn filled(&self, call: Call, shape: &[usize], value: f64, dtype: DType) -> Result<Tensor> {
        if shape.contains(&0) {
            return self.empty(call, shape, dtype);
        }
        let rank = shape.len();
        let ranges: Vec<String> = (0..rank).map(|at| format!("{} < {}", letter(at), shape[at])).collect();
        let ranges = if rank == 0 { String::new() } else { format!(" where {}", ranges.join(", ")) };
        let value = number_of(dtype, value);
        self.result(call, &[], |y| format!("{} := {dtype}({value}){ranges}", whole(y, rank)))
    }
}
