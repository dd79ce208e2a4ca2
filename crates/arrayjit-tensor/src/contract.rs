//! Sums of products: matrix products and einsum.

use arrayjit::DType;

use crate::{
    equation::NamedAxes,
    error::{Call, Result, TensorError, misfit},
    graph::Graph,
    operand::{Argument, TensorOperand},
    reduce::sum_types,
    shape::{access, broadcast, broadcast_indices},
    tensor::Tensor,
};

impl Tensor {
    /// The matrix product, as NumPy's and torch's `matmul`: the last two axes are matrices, the axes in front
    /// broadcast, and an operand of rank 1 is a row on the left or a column on the right. Narrow floats are
    /// multiplied and summed in f32, narrow integers in i32.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let (x, y) = (tensor([[1., 2.], [3., 4.]]), tensor([[1.], [10.]]));
    /// check(x.matmul(&y), [[21.], [43.]]);
    /// ```
    ///
    /// # Errors
    /// Operands of rank 0, inner sizes that differ, or shapes that do not broadcast.
    #[track_caller]
    pub fn matmul(&self, other: impl TensorOperand) -> Result<Tensor> {
        let call = Call::new("matmul");
        let other = other.argument();
        let fail = |kind| self.graph().fail(call, kind);
        for (what, shape) in [(self.name(), self.shape()), (other.name(), other.shape())] {
            if shape.is_empty() {
                let (found, expected) = (Vec::new(), "at least one axis".into());
                return Err(fail(TensorError::Shape { what, found, expected }));
            }
        }
        let (left, right) = (self.shape(), other.shape());
        let (inner, found) = (left[left.len() - 1], right[right.len().saturating_sub(2)]);
        if inner != found {
            let (left, right) = (left.to_vec(), right.to_vec());
            return Err(fail(TensorError::InnerSize { left, right, inner, found }));
        }
        let batch_of = |shape: &[usize]| shape[..shape.len().saturating_sub(2)].to_vec();
        let (left_batch, right_batch) = (batch_of(left), batch_of(right));
        let batch = broadcast(&left_batch, &right_batch).map_err(fail)?;
        let row = (left.len() > 1).then(|| "m".to_owned());
        let column = (right.len() > 1).then(|| "n".to_owned());
        let inner = || ["k".to_owned()];
        let x = access(
            "x",
            broadcast_indices(&left_batch, batch.len()).into_iter().chain(row.clone()).chain(inner()),
        );
        let z = access(
            "z",
            broadcast_indices(&right_batch, batch.len()).into_iter().chain(inner()).chain(column.clone()),
        );
        let target: Vec<String> =
            broadcast_indices(&batch, batch.len()).into_iter().chain(row).chain(column).collect();
        let inputs = [("x", Argument::Tensor(self)), ("z", other)];
        let dtype = promoted(&inputs);
        self.graph().result(call, &inputs, |y| sum_of_products(y, &target, &[x, z], dtype))
    }

    /// The sum of products that an equation describes, such as `b s h d, b t h d -> b h s t`: the names of
    /// each operand's axes, then of the result's axes. Names that the result lacks are summed over. In an
    /// equation without spaces between names, as in torch, each name is one letter: `bshd,bthd->bhst`. Three
    /// points stand for further axes, `... i j, ... j k -> ... i k`, and axes of size 1 broadcast.
    ///
    /// ```
    /// use arrayjit_tensor::{DType, Graph};
    ///
    /// let graph = Graph::new();
    /// let q = graph.input("q", [2, 16, 4, 8], DType::F32)?;
    /// let k = graph.input("k", [2, 16, 4, 8], DType::F32)?;
    /// let scores = q.einsum("b s h d, b t h d -> b h s t", &k)?;
    /// assert_eq!(scores.shape(), [2, 4, 16, 16]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// An equation that does not fit the ranks, or a name with two sizes.
    #[track_caller]
    pub fn einsum(&self, equation: &str, other: impl TensorOperand) -> Result<Tensor> {
        let inputs = [("x", Argument::Tensor(self)), ("z", other.argument())];
        self.summed(Call::new("einsum"), equation, &inputs)
    }

    /// [`einsum`](Tensor::einsum) of this tensor alone: `i j -> j i` transposes, `i i -> i` is the diagonal,
    /// `i j -> i` sums over the columns.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let x = tensor([[1., 2.], [3., 4.]]);
    /// check(x.rearrange("i i -> i"), [1., 4.]);
    /// check(x.rearrange("i j -> j"), [4., 6.]);
    /// ```
    ///
    /// # Errors
    /// Fails like [`einsum`](Tensor::einsum).
    #[track_caller]
    pub fn rearrange(&self, equation: &str) -> Result<Tensor> {
        self.summed(Call::new("rearrange"), equation, &[("x", Argument::Tensor(self))])
    }

    fn summed(&self, call: Call, equation: &str, inputs: &[(&str, Argument<'_>)]) -> Result<Tensor> {
        let fail = |kind| self.graph().fail(call, kind);
        if !equation.contains("->") {
            let expected = "operands and a result, as in `i k, k j -> i j`";
            return Err(fail(misfit("equation", format!("`{equation}`"), expected)));
        }
        let shapes: Vec<(String, &[usize])> =
            inputs.iter().map(|(_, argument)| (argument.name(), argument.shape())).collect();
        contracted(self.graph(), call, &NamedAxes::parse(equation, &shapes).map_err(fail)?, inputs)
    }
}

/// The sum of products of an equation; the names of the inputs are those of a text.
///
/// # Errors
/// A tensor of another graph.
pub fn contracted(
    graph: &Graph,
    call: Call,
    equation: &NamedAxes,
    inputs: &[(&str, Argument<'_>)],
) -> Result<Tensor> {
    let accesses = inputs.iter().zip(&equation.operands).map(|((name, _), axes)| access(name, axes));
    let (accesses, dtype) = (accesses.collect::<Vec<_>>(), promoted(inputs));
    graph.result(call, inputs, |y| sum_of_products(y, &equation.result, &accesses, dtype))
}

/// The statements that sum the product of the accesses into `y`, in a type that holds sums.
fn sum_of_products(y: &str, target: &[String], accesses: &[String], dtype: DType) -> String {
    let (wide, narrow) = sum_types(dtype);
    let convert = |access: &String| if wide == dtype { access.clone() } else { format!("{wide}({access})") };
    let product = accesses.iter().map(convert).collect::<Vec<_>>().join(" * ");
    let result = access(y, target.iter().cloned());
    match wide == narrow {
        true => format!("{result} :+= {product}"),
        false => {
            let sum = access("s", target.iter().cloned());
            format!("{sum} :+= {product}\n{result} := {narrow}({sum})")
        }
    }
}

/// The type to which the operands promote.
fn promoted(inputs: &[(&str, Argument<'_>)]) -> DType {
    let types = inputs.iter().filter_map(|(_, argument)| argument.dtype());
    types.reduce(DType::promote).unwrap_or(DType::F32)
}
