//! Sizes that each run chooses.

use tnode::{DType, RunSize, RunSizes, SizeSum, TensorNode};

use crate::{
    elementwise,
    error::{Call, Result, TensorError, misfit},
    graph::Graph,
    operand::Argument,
    tensor::Tensor,
};

/// A size that each run of a graph chooses, from 1 to its bound. [`Graph::size`] makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size(RunSize);

impl Size {
    /// The name, as messages show it.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// The greatest value that a run may give the size; at least 1.
    pub fn bound(&self) -> usize {
        self.0.bound()
    }

    /// A size that is `factor` times this one, for axes whose number of elements is a multiple. A run with
    /// another number is an error.
    ///
    /// ```
    /// use arrayjit_tensor::{Backend, DType, Graph, HostArray, ModelState, Params};
    ///
    /// let graph = Graph::new();
    /// let pairs = graph.size("pairs", 8)?.times(2).ok_or("it overflows")?;
    /// let x = graph.input_of("x", &[(&pairs).into()], DType::F32)?;
    /// let state = ModelState::new(&Backend::open("inline")?, &Params::new(1))?;
    /// let model = graph.compile(&state, &[&x.exp()?])?;
    /// assert!(model.run(&[("x", &HostArray::from_slice(&[0f32; 6], [6])?)]).is_ok());
    /// let error = model.run(&[("x", &HostArray::from_slice(&[0f32; 5], [5])?)]).unwrap_err().to_string();
    /// assert!(error.contains("which no value of `pairs` gives"), "{error}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// None if `factor` is 0 or the bound overflows.
    pub fn times(&self, factor: usize) -> Option<Size> {
        let factor = i64::try_from(factor).ok().filter(|&factor| factor > 0)?;
        SizeSum::from(&self.0).times(&factor.into())?.size().map(Size)
    }
}

/// The size of an axis of an input: a number, or a size that each run chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputDim {
    /// A number of elements.
    Constant(usize),
    /// A number of elements that each run chooses.
    Size(Size),
}

impl From<usize> for InputDim {
    fn from(elements: usize) -> InputDim {
        InputDim::Constant(elements)
    }
}

impl From<&Size> for InputDim {
    fn from(size: &Size) -> InputDim {
        InputDim::Size(size.clone())
    }
}

impl From<Size> for InputDim {
    fn from(size: Size) -> InputDim {
        InputDim::Size(size)
    }
}

/// Operations on tensors with such sizes, besides those on elements. The texts of other operations have
/// numbers that follow from shapes, which are bounds.
const OPERATIONS: &str = "\
    all all_keepdim any any_keepdim apply argmax argmin avg_pool1d avg_pool2d avg_pool3d celu clamp concat \
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cumprod cumsum custom_vjp \
    einsum elu embedding in_proj layer_norm leaky_relu linear log_softmax logsumexp logsumexp_keepdim \
    masked_fill matmul max max_keepdim max_pool1d max_pool2d max_pool3d mean mean_keepdim min min_keepdim \
    permute prod prod_keepdim quantized_linear quantized_rows rearrange reshape rms_norm scan softmax \
    squeeze std step_slice std_keepdim sum sum_keepdim take to_dtype transpose unsqueeze update update_of \
    var var_keepdim var_population vmap vmap_input where";

impl Graph {
    /// A size that each run chooses, from 1 to `bound`, for axes of [`input_of`](Graph::input_of). One
    /// compilation serves all its values: a run takes the value from the shapes of the inputs.
    ///
    /// Shapes of tensors have the bounds of sizes, and so have memory and strides. Two axes fit each
    /// other if they have the same size, and not if they have two sizes, or a size and a number.
    ///
    /// ```
    /// use arrayjit_tensor::{Backend, DType, Graph, HostArray, Init, ModelState, Params};
    ///
    /// let params = Params::new(1);
    /// let w = params.parameter("w", [3, 2], Init::ONES)?;
    /// let graph = Graph::new();
    /// let n = graph.size("n", 64)?;
    /// let x = graph.input_of("x", &[(&n).into(), 3.into()], DType::F32)?;
    /// let y = x.matmul(&w)?.mean(0)?;
    /// let model = graph.compile(&ModelState::new(&Backend::open("inline")?, &params)?, &[&x, &y])?;
    /// for rows in [1, 5, 64] {
    ///     let values = HostArray::from_slice(&vec![1f32; 3 * rows], [rows, 3])?;
    ///     let results = model.run(&[("x", &values)])?;
    ///     assert_eq!(results[0].dims().as_slice(), [rows, 3]);
    ///     assert_eq!(results[1].values(), [3.0, 3.0]);
    /// }
    /// let long = HostArray::from_slice(&[1f32; 195], [65, 3])?;
    /// let error = model.run(&[("x", &long)]).unwrap_err().to_string();
    /// assert!(error.contains("size `n` is from 1 to 64"), "{error}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A name that is no letter or `_` of ASCII with letters, digits and `_` behind it, a bound of 0, or a
    /// size of that name with another bound.
    #[track_caller]
    pub fn size(&self, name: &str, bound: usize) -> Result<Size> {
        let call = Call::new("size");
        let fail = |expected: &str| self.fail(call, misfit("size", format!("`{name} <= {bound}`"), expected));
        let starts = |c: char| c.is_ascii_alphabetic() || c == '_';
        let is_name = name.starts_with(starts) && name.chars().all(|c| starts(c) || c.is_ascii_digit());
        if !is_name || bound == 0 {
            return Err(fail("a name and a bound of 1 or more"));
        }
        let size = Size(RunSize::given(name, bound));
        match self.enter_size(&size) {
            Some(known) if known.bound() != bound => Err(fail(&format!("the bound {}", known.bound()))),
            _ => Ok(size),
        }
    }

    /// [`input`](Graph::input) with axes whose sizes each run chooses.
    ///
    /// # Errors
    /// An input of that name exists already, or a size overflows.
    #[track_caller]
    pub fn input_of(&self, name: &str, shape: &[InputDim], dtype: DType) -> Result<Tensor> {
        let (mut dims, mut sizes) = (Vec::new(), RunSizes::new());
        for dim in shape {
            let (bound, size) = match dim {
                InputDim::Constant(elements) => (*elements, None),
                InputDim::Size(Size(size)) => (size.bound(), Some(size.clone())),
            };
            dims.push(bound);
            sizes.push(size);
        }
        let node = TensorNode::builder(name).dims(dims).run_sizes(sizes).dtype(dtype).build();
        self.add_input(Call::new("input"), name, node)
    }

    /// Rejects an operation whose statements would have bounds in place of sizes.
    pub(crate) fn check_sizes(&self, call: Call, inputs: &[(&str, Argument<'_>)]) -> Result<()> {
        let sized = inputs.iter().find_map(|(_, argument)| {
            let size = argument.node()?.run_sizes().iter().flatten().next()?;
            Some((argument.name(), size.to_string()))
        });
        let is_listed = || OPERATIONS.split(' ').any(|op| op == call.op) || elementwise::has(call.op);
        match sized {
            Some((tensor, size)) if !call.takes_sizes && !is_listed() => {
                Err(self.fail(call, TensorError::Sized { tensor, size }))
            }
            _ => Ok(()),
        }
    }
}
