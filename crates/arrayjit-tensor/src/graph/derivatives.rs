//! Derivatives: gradients, and products of Jacobians and Hessians with vectors.

use std::collections::BTreeSet;

use arrayjit::{
    DType, TensorNode,
    assign::{ProgramStep, all_steps},
    autodiff,
};

use super::{Graph, fail_in, unused::remove_unused};
use crate::{
    error::{Call, Result, TensorError, misfit},
    operand::{Argument, TensorOperand},
    reduce::sum_types,
    shape::whole,
    tensor::Tensor,
};

impl Graph {
    /// Adds the gradient of a loss, a tensor of one element, by tensors or parameters: tensors of their
    /// shapes, in f32 for narrow floats. The gradient is the one by the values that the loss was computed
    /// with, also if a later statement or the update of an optimizer has changed a parameter since. If the
    /// loss does not depend on a parameter, its gradient is 0, and the compiled graph has a
    /// [warning](crate::Executable::warnings).
    ///
    /// ```
    /// use arrayjit_tensor::{DType, Graph, Init, Params};
    ///
    /// let params = Params::new(1);
    /// let w = params.parameter("w", [3], Init::ONES)?;
    /// let graph = Graph::new();
    /// let x = graph.input("x", [8, 3], DType::F32)?;
    /// let loss = x.matmul(&w)?.square()?.mean(..)?;
    /// let gradients = graph.gradients(&loss, &[&w])?;
    /// assert_eq!(gradients[0].shape(), [3]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// A loss of several elements or of integers, a parameter of integers, an operation without a derivative,
    /// or a loss that depends on values of a parameter from before and after a change.
    #[track_caller]
    pub fn gradients(&self, loss: &Tensor, by: &[&dyn TensorOperand]) -> Result<Vec<Tensor>> {
        let gradients = self.reached_gradients(Call::new("gradients"), loss, by)?;
        Ok(gradients.into_iter().map(|(gradient, _)| gradient).collect())
    }

    /// Adds the product of a vector with the Jacobian of `y`: the gradient of the sum of `vector · y`, where
    /// `vector` has the shape of `y`. Otherwise as [`gradients`](Graph::gradients).
    ///
    /// ```
    /// use arrayjit_tensor::{DType, Graph};
    ///
    /// let graph = Graph::new();
    /// let x = graph.input("x", [8, 3], DType::F32)?;
    /// let y = x.softmax(-1)?;
    /// let vector = graph.input("vector", [8, 3], DType::F32)?;
    /// assert_eq!(graph.vjp(&y, &vector, &[&x])?[0].shape(), [8, 3]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// Fails like [`gradients`](Graph::gradients), or if the vector has another shape than `y`.
    #[track_caller]
    pub fn vjp(&self, y: &Tensor, vector: &Tensor, by: &[&dyn TensorOperand]) -> Result<Vec<Tensor>> {
        let call = Call::new("vjp");
        let gradients = self.seeded_gradients(call, &self.computed(call, y)?, Some(vector), by)?;
        Ok(gradients.into_iter().map(|(gradient, _)| gradient).collect())
    }

    /// Adds the product of the Jacobian of `y` with a vector: the derivative of `y` as each tensor or
    /// parameter moves in the direction that is given with it, a tensor of its shape. The result has the
    /// shape of `y`, in f32 for narrow floats. Directions may be computed in the graph; they count as
    /// constants.
    ///
    /// It is the gradient, by `u`, of the product of the directions with `graph.vjp(y, u, ..)`. This is
    /// linear in `u`, so its own values are not needed, and the compiled graph has one pass, that of forward
    /// mode.
    ///
    /// ```
    /// use arrayjit_tensor::{Backend, DType, Graph, HostArray, ModelState, Params};
    ///
    /// let graph = Graph::new();
    /// let x = graph.input("x", [3], DType::F32)?;
    /// let direction = graph.input("direction", [3], DType::F32)?;
    /// let change = graph.jvp(&x.square()?, &[(&x, &direction)])?;
    ///
    /// let weights = ModelState::new(&Backend::open("inline")?, &Params::new(0))?;
    /// let x = HostArray::from_slice(&[1f32, 2.0, 3.0], [3])?;
    /// let direction = HostArray::from_slice(&[1f32, 0.0, 0.5], [3])?;
    /// let results = graph.compile(&weights, &[&change])?.run(&[("x", &x), ("direction", &direction)])?;
    /// assert_eq!(results[0].values(), [2.0, 0.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails like [`gradients`](Graph::gradients), if there is no direction or one of another shape than its
    /// tensor, or if `y` depends on a function of [`custom_vjp`](Graph::custom_vjp) whose gradient is not
    /// linear.
    #[track_caller]
    pub fn jvp(&self, y: &Tensor, directions: &[(&dyn TensorOperand, &Tensor)]) -> Result<Tensor> {
        let (call, known) = (Call::new("jvp"), self.written_nodes());
        let vector = self.copied(call, y, sum_types(y.dtype()).0)?;
        let by: Vec<&dyn TensorOperand> = directions.iter().map(|(operand, _)| *operand).collect();
        let rows = self.seeded_gradients(call, &self.computed(call, y)?, Some(&vector), &by)?;
        let product = self.product(call, rows, directions)?;
        let change = self.seeded_gradients(call, &product, None, &[&vector])?;
        let change = change.into_iter().next().map(|(change, _)| change);
        let change = change.ok_or_else(|| self.fail(call, no_direction()))?;
        let removed = self.remove_unused(&known, &[&change]);
        let has_custom = |step: &ProgramStep| matches!(step, ProgramStep::CustomGradient(_));
        if !removed.contains(vector.node()) && all_steps(&self.program().steps).any(has_custom) {
            return Err(self.fail(call, not_linear()));
        }
        Ok(change)
    }

    /// Adds the product of the Hessian of a loss with a vector: the derivatives of
    /// [`gradients`](Graph::gradients) as the tensors and parameters move in the directions that are given
    /// with them. Directions may be computed in the graph; they count as constants.
    ///
    /// ```
    /// use arrayjit_tensor::{Backend, DType, Graph, HostArray, Init, ModelState, Params};
    ///
    /// let params = Params::new(0);
    /// let w = params.parameter("w", [2], Init::ONES)?;
    /// let graph = Graph::new();
    /// let loss = graph.apply("loss := w[0] * w[0] * w[1]", &[("w", &&w)])?;
    /// let direction = graph.input("direction", [2], DType::F32)?;
    /// let products = graph.hvp(&loss, &[(&&w, &direction)])?; // the Hessian is [[2, 2], [2, 0]]
    ///
    /// let weights = ModelState::new(&Backend::open("inline")?, &params)?;
    /// let direction = HostArray::from_slice(&[1f32, 10.0], [2])?;
    /// let results = graph.compile(&weights, &[&products[0]])?.run(&[("direction", &direction)])?;
    /// assert_eq!(results[0].values(), [22.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails like [`gradients`](Graph::gradients), or if there is no direction or one of another shape than
    /// its tensor.
    #[track_caller]
    pub fn hvp(&self, loss: &Tensor, directions: &[(&dyn TensorOperand, &Tensor)]) -> Result<Vec<Tensor>> {
        let (call, known) = (Call::new("hvp"), self.written_nodes());
        let by: Vec<&dyn TensorOperand> = directions.iter().map(|(operand, _)| *operand).collect();
        let gradients = self.reached_gradients(call, loss, &by)?;
        let product = self.product(call, gradients, directions)?;
        let products = self.seeded_gradients(call, &product, None, &by)?;
        let products: Vec<Tensor> = products.into_iter().map(|(product, _)| product).collect();
        self.remove_unused(&known, &products.iter().collect::<Vec<_>>());
        Ok(products)
    }

    /// The tensor, or a copy of it if no statement computes it, as with an input.
    fn computed(&self, call: Call, y: &Tensor) -> Result<Tensor> {
        if self.written_nodes().contains(y.node()) { Ok(y.clone()) } else { self.copied(call, y, y.dtype()) }
    }

    fn copied(&self, call: Call, y: &Tensor, dtype: DType) -> Result<Tensor> {
        let (to, from) = (|u: &str| whole(u, y.rank()), whole("y", y.rank()));
        self.result(call, &[("y", Argument::Tensor(y))], |u| format!("{} := {dtype}({from})", to(u)))
    }

    fn written_nodes(&self) -> BTreeSet<TensorNode> {
        self.state().program.written_nodes().into_iter().collect()
    }

    /// Removes the steps that were added since the nodes `known` were all, unless `results` need them.
    /// Returns the nodes that no step writes any more.
    fn remove_unused(&self, known: &BTreeSet<TensorNode>, results: &[&Tensor]) -> BTreeSet<TensorNode> {
        let nodes: Vec<&TensorNode> = results.iter().map(|tensor| tensor.node()).collect();
        let mut state = self.state();
        let removed = remove_unused(&mut state.program, known, &nodes);
        state.results.retain(|result| !removed.contains(&result.node));
        removed
    }

    /// The sum of the products of derivatives with directions, which are constants.
    fn product(
        &self,
        call: Call,
        derivatives: Vec<(Tensor, bool)>,
        directions: &[(&dyn TensorOperand, &Tensor)],
    ) -> Result<Tensor> {
        let mut sum: Option<Tensor> = None;
        for ((derivative, _), (_, direction)) in derivatives.iter().zip(directions) {
            if direction.shape() != derivative.shape() || !direction.dtype().is_float() {
                let expected = format!("floats of shape {:?}, as its tensor has", derivative.shape());
                return Err(self.fail(call, direction.misshapen(expected)));
            }
            let term = derivative.mul(&direction.detach()?)?.sum(..)?;
            sum = Some(match sum {
                Some(sum) => (sum + term)?,
                None => term,
            });
        }
        sum.ok_or_else(|| self.fail(call, no_direction()))
    }

    /// [`gradients`](Graph::gradients), each with whether the loss depends on the tensor or parameter.
    pub(crate) fn reached_gradients(
        &self,
        call: Call,
        loss: &Tensor,
        by: &[&dyn TensorOperand],
    ) -> Result<Vec<(Tensor, bool)>> {
        let loss = match loss.rank() {
            0 => loss.clone(),
            _ if loss.num_elements() == 1 => loss.reshape(&[])?,
            _ => loss.clone(), // `autodiff` names the shape
        };
        self.seeded_gradients(call, &loss, None, by)
    }

    /// The gradients of a loss of one element, or of the sum of `y` times a seed, each with whether `y`
    /// depends on the tensor or parameter.
    fn seeded_gradients(
        &self,
        call: Call,
        y: &Tensor,
        seed: Option<&Tensor>,
        by: &[&dyn TensorOperand],
    ) -> Result<Vec<(Tensor, bool)>> {
        let by: Vec<Argument<'_>> = by.iter().map(|operand| operand.argument()).collect();
        let given = [Some(y), seed].into_iter().flatten().map(Argument::Tensor);
        self.check_graph(call, by.iter().copied().chain(given))?;
        let nodes =
            by.iter().map(|argument| argument.node().ok_or_else(|| self.fail(call, number_given(*argument))));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        let mut state = self.state();
        let closed = state.scans.check_closed("a gradient stands in it, expected one behind the scan");
        closed.map_err(|error| fail_in(&state, call, error))?;
        let gradient = match seed {
            None => autodiff::gradient(&state.program, y.node(), &nodes),
            Some(seed) => autodiff::gradient_seeded(&state.program, y.node(), seed.node(), &nodes),
        };
        let gradient = gradient.map_err(|error| fail_in(&state, call, error))?;
        state.program = gradient.program;
        drop(state);
        let tensor = |node| Tensor::new(self.clone(), node).map_err(|error| self.fail(call, error));
        let gradients = gradient.gradients.into_iter().zip(gradient.reached);
        gradients.map(|(node, is_reached)| Ok((tensor(node)?, is_reached))).collect()
    }
}

fn number_given(argument: Argument<'_>) -> TensorError {
    misfit("by", argument.name(), "a tensor or a parameter")
}

fn not_linear() -> TensorError {
    misfit(
        "y",
        "computed by a function of `custom_vjp` whose gradient is not linear in the cotangents",
        "a linear one, whose transpose is the product with the Jacobian",
    )
}

fn no_direction() -> TensorError {
    misfit("directions", "none", "at least one")
}
