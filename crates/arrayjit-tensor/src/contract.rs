//! Sums of products: matrix products and einsum.

use arrayjit::DType;

use crate::{
    error::{Call, TensorError, TensorErrorKind},
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
    /// # Errors
    /// Operands of rank 0, inner sizes that differ, or shapes that do not broadcast.
    #[track_caller]
    pub fn matmul(&self, other: impl TensorOperand) -> Result<Tensor, TensorError> {
        let call = Call::new("matmul");
        let other = other.argument();
        let fail = |kind| self.graph().fail(call, kind);
        for (what, shape) in [(self.name(), self.shape()), (other.name(), other.shape())] {
            if shape.is_empty() {
                let (found, expected) = (Vec::new(), "at least one axis".into());
                return Err(fail(TensorErrorKind::Shape { what, found, expected }));
            }
        }
        let (left, right) = (self.shape(), other.shape());
        let (inner, found) = (left[left.len() - 1], right[right.len().saturating_sub(2)]);
        if inner != found {
            let (left, right) = (left.to_vec(), right.to_vec());
            return Err(fail(TensorErrorKind::InnerSize { left, right, inner, found }));
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
    /// equation without spaces between names, as in torch, each name is one letter: `bshd,bthd->bhst`.
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
    pub fn einsum(&self, equation: &str, other: impl TensorOperand) -> Result<Tensor, TensorError> {
        let inputs = [("x", Argument::Tensor(self)), ("z", other.argument())];
        self.summed(Call::new("einsum"), equation, &inputs)
    }

    /// [`einsum`](Tensor::einsum) of this tensor alone: `i j -> j i` transposes, `i i -> i` is the diagonal,
    /// `i j -> i` sums over the columns.
    ///
    /// # Errors
    /// Fails like [`einsum`](Tensor::einsum).
    #[track_caller]
    pub fn rearrange(&self, equation: &str) -> Result<Tensor, TensorError> {
        self.summed(Call::new("rearrange"), equation, &[("x", Argument::Tensor(self))])
    }

    fn summed(
        &self,
        call: Call,
        equation: &str,
        inputs: &[(&str, Argument<'_>)],
    ) -> Result<Tensor, TensorError> {
        let equation = Equation::parse(equation, inputs).map_err(|kind| self.graph().fail(call, kind))?;
        let accesses = inputs.iter().zip(&equation.operands);
        let accesses: Vec<String> =
            accesses.map(|((name, _), axes)| access(name, axes.iter().cloned())).collect();
        let dtype = promoted(inputs);
        self.graph().result(call, inputs, |y| sum_of_products(y, &equation.result, &accesses, dtype))
    }
}

/// The names of axes of an einsum.
struct Equation {
    operands: Vec<Vec<String>>,
    result: Vec<String>,
}

impl Equation {
    fn parse(text: &str, inputs: &[(&str, Argument<'_>)]) -> Result<Equation, TensorErrorKind> {
        let wrong = |expected: String| TensorErrorKind::Argument {
            argument: "equation",
            found: format!("`{text}`"),
            expected,
        };
        let Some((left, right)) = text.split_once("->") else {
            return Err(wrong("operands and a result, as in `i k, k j -> i j`".into()));
        };
        let parts: Vec<&str> = left.split(',').collect();
        if parts.len() != inputs.len() {
            return Err(wrong(format!("{} operands before `->`", inputs.len())));
        }
        // Without spaces inside an operand, names are single letters, unless the ranks say otherwise.
        let words = |part: &str| part.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let is_words =
            parts.iter().zip(inputs).all(|(part, (_, argument))| words(part).len() == argument.shape().len());
        let names = |part: &str| match is_words {
            true => words(part),
            false => part.chars().filter(|c| !c.is_whitespace()).map(String::from).collect(),
        };
        let (operands, result): (Vec<_>, Vec<_>) =
            (parts.iter().map(|part| names(part)).collect(), names(right));
        let mut sizes: Vec<(String, usize)> = Vec::new();
        for (axes, (_, argument)) in operands.iter().zip(inputs) {
            let axes: &Vec<String> = axes;
            if axes.len() != argument.shape().len() {
                return Err(wrong(format!(
                    "{} names for {} of shape {:?}",
                    argument.shape().len(),
                    argument.name(),
                    argument.shape()
                )));
            }
            for (name, &size) in axes.iter().zip(argument.shape()) {
                match sizes.iter().find(|(known, _)| known == name) {
                    Some(&(_, other)) if other != size => {
                        return Err(wrong(format!("one size of `{name}`, which has {other} and {size}")));
                    }
                    Some(_) => {}
                    None => sizes.push((name.clone(), size)),
                }
            }
        }
        let is_name = |name: &String| name.chars().all(|c| c.is_alphanumeric() || c == '_');
        if let Some(name) = sizes.iter().map(|(name, _)| name).find(|name| !is_name(name)) {
            return Err(wrong(format!("names of letters and digits, found `{name}`")));
        }
        if let Some(name) = result.iter().find(|name| sizes.iter().all(|(known, _)| known != *name)) {
            return Err(wrong(format!("names of operands behind `->`, found `{name}`")));
        }
        if let Some((at, name)) = result.iter().enumerate().find(|(at, name)| result[..*at].contains(name)) {
            return Err(wrong(format!("each name once behind `->`, found `{name}` again at position {at}")));
        }
        // Prefixed, so that no name is a word of the language or starts with a digit.
        let prefixed = |names: Vec<String>| names.into_iter().map(|name| format!("a_{name}")).collect();
        Ok(Equation { operands: operands.into_iter().map(prefixed).collect(), result: prefixed(result) })
    }
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
