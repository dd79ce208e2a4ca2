//! Functions of tensors with gradients of their own.
//!
//! One function computes the results. Another one computes the gradients by the arguments from placeholders,
//! which stand for the gradients by the results. Its statements are kept as a [`CustomGradient`], and each
//! backward pass has a copy of them. They are statements as all others, so further derivatives go through
//! them.

use arrayjit::{
    TensorNode,
    assign::{CustomGradient, ProgramStep, all_steps},
};

use super::Graph;
use crate::{
    error::{Call, Result, TensorError, misfit},
    operand::{Argument, TensorOperand},
    reduce::sum_types,
    shape::whole,
    tensor::Tensor,
};

impl Graph {
    /// The results of a function whose gradients another function computes: `forward` from the inputs to the
    /// results, and `backward` from the inputs, the results and the gradients by the results to the gradients
    /// by the inputs, which have the inputs' shapes. Gradients are in f32 for narrow floats. Each function is
    /// called once, and each backward pass through the results has the statements of `backward`.
    ///
    /// No gradient goes to other tensors and parameters that the functions mention. `backward` need not be
    /// linear: it may clip gradients. For [`jvp`](Graph::jvp) it must be, and derivatives of gradients, such
    /// as [`hvp`](Graph::hvp), are those of its statements.
    ///
    /// ```
    /// use arrayjit_tensor::{Backend, DType, Graph, HostArray, ModelState, Params};
    ///
    /// let graph = Graph::new();
    /// let x = graph.input("x", [3], DType::F32)?;
    /// // A straight-through estimator: rounded values, whose gradient passes unchanged.
    /// let [y] = graph.custom_vjp([&x], |[x]| Ok([x.round()?]), |_, _, [gradient]| Ok([gradient]))?;
    /// let gradient = graph.gradients(&y.square()?.sum(..)?, &[&x])?.remove(0);
    ///
    /// let weights = ModelState::new(&Backend::open("inline")?, &Params::new(0))?;
    /// let x = HostArray::from_slice(&[0.8f32, 2.4, -1.7], [3])?;
    /// let results = graph.compile(&weights, &[&gradient])?.run(&[("x", &x)])?;
    /// assert_eq!(results[0].values(), [2.0, 4.0, -4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// An input or result that has no floats, a gradient of another shape than its input, an error of a
    /// function, a scan in `backward`, or a call in the body of a scan.
    #[track_caller]
    pub fn custom_vjp<const N: usize, const M: usize>(
        &self,
        inputs: [&dyn TensorOperand; N],
        forward: impl FnOnce([Tensor; N]) -> Result<[Tensor; M]>,
        backward: impl FnOnce([Tensor; N], [Tensor; M], [Tensor; M]) -> Result<[Tensor; N]>,
    ) -> Result<[Tensor; M]> {
        let call = Call::new("custom_vjp");
        let closed = self.state().scans.check_closed("`custom_vjp` is called, expected a call outside of it");
        closed.map_err(|error| self.fail(call, error))?;
        let inputs = self.function_inputs(call, inputs)?;
        let results = forward(inputs.clone())?;
        self.check_floats(call, "a result of `forward`", &results)?;
        let results = each(&results, |result| self.copy_of(call, result))?;
        let cotangents = each(&results, |result| self.placeholder(call, result))?;

        let scope = self.open_function(call, &cotangents)?;
        let gradients = backward(inputs.clone(), results.clone(), cotangents.clone())?;
        self.check_floats(call, "a result of `backward`", &gradients)?;
        for (gradient, input) in gradients.iter().zip(&inputs) {
            self.check_shape(call, gradient, input)?;
        }
        let steps = scope.close();
        if all_steps(&steps).any(|step| matches!(step, ProgramStep::Scan { .. })) {
            return Err(self.fail(call, misfit("backward", "a function with a scan", "one without")));
        }
        let custom = CustomGradient {
            inputs: nodes(&inputs),
            outputs: nodes(&results),
            output_gradients: nodes(&cotangents),
            input_gradients: nodes(&gradients),
            steps,
        };
        self.state().program.steps.push(ProgramStep::CustomGradient(Box::new(custom)));
        Ok(results)
    }

    /// The arguments of a function as tensors of floats.
    fn function_inputs<const N: usize>(
        &self,
        call: Call,
        inputs: [&dyn TensorOperand; N],
    ) -> Result<[Tensor; N]> {
        self.check_graph(call, inputs.iter().map(|input| input.argument()))?;
        let inputs = each(&inputs, |input| match input.argument() {
            Argument::Tensor(tensor) => Ok(tensor.clone()),
            Argument::Parameter(parameter) => self.tensor_of(parameter),
            number => Err(self.fail(call, misfit("inputs", number.name(), "a tensor or a parameter"))),
        })?;
        self.check_floats(call, "an input", &inputs)?;
        Ok(inputs)
    }

    fn check_floats(&self, call: Call, argument: &'static str, tensors: &[Tensor]) -> Result<()> {
        self.check_graph(call, tensors.iter().map(Argument::Tensor))?;
        match tensors.iter().find(|tensor| !tensor.dtype().is_float()) {
            Some(tensor) => {
                Err(self.fail(call, misfit(argument, format!("{tensor:?}"), "a tensor of floats")))
            }
            None => Ok(()),
        }
    }

    fn check_shape(&self, call: Call, gradient: &Tensor, input: &Tensor) -> Result<()> {
        if gradient.shape() == input.shape() {
            return Ok(());
        }
        let expected = format!("{:?}, as the input {} has", input.shape(), input.name());
        let (what, found) = (format!("the gradient {}", gradient.name()), gradient.shape().to_vec());
        Err(self.fail(call, TensorError::Shape { what, found, expected }))
    }

    fn copy_of(&self, call: Call, tensor: &Tensor) -> Result<Tensor> {
        let rank = tensor.rank();
        let copy = |y: &str| format!("{} := {}", whole(y, rank), whole("x", rank));
        self.result(call, &[("x", Argument::Tensor(tensor))], copy)
    }

    /// A tensor that stands for the gradient by another one.
    fn placeholder(&self, call: Call, of: &Tensor) -> Result<Tensor> {
        let node = TensorNode::builder("gradient").dims(of.shape().iter().copied());
        let node = node.run_sizes(of.node().run_sizes().into()).dtype(sum_types(of.dtype()).0).build();
        let made = node.and_then(|node| Tensor::new(self.clone(), node));
        made.map_err(|error| self.fail(call, error))
    }
}

/// The results of a function for each element of an array.
fn each<T, U, const N: usize>(array: &[T; N], f: impl FnMut(&T) -> Result<U>) -> Result<[U; N]> {
    let all = array.iter().map(f).collect::<Result<Vec<U>, _>>()?;
    all.try_into().map_err(|_| misfit("the function", "another number of tensors", format!("{N}")))
}

fn nodes(tensors: &[Tensor]) -> Vec<TensorNode> {
    tensors.iter().map(|tensor| tensor.node().clone()).collect()
}
