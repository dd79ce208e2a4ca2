//! Loops over steps: one copy of the statements of a step, however many steps there are.

use arrayjit::{DType, indexing::StaticSymbol};

use crate::{
    error::{Call, Result, TensorError, misfit},
    graph::Graph,
    operand::{Argument, TensorOperand},
    options::options,
    shape::{axis_at, dims, letters, numbered, whole},
    tensor::Tensor,
};

/// A loop over steps whose body is not written yet. [`Graph::scan`] makes it.
pub struct Scan {
    graph: Graph,
    call: Call,
    steps: usize,
    backwards: bool,
    checkpoint: Option<usize>,
    symbol: Option<String>,
}

/// The present step of a [`Scan`], for the closure that writes the body.
pub struct ScanStep {
    scan: Scan,
    letter: StaticSymbol,
    /// The tensor that is 1 until the loop ends early, if it may.
    going: Option<Tensor>,
}

/// What a step leaves.
#[doc(hidden)]
pub struct StepResults {
    /// The values for the next step.
    pub state: Vec<Tensor>,
    /// The values to collect, and whether the first row of each is that of the last step.
    pub rows: Vec<Collected>,
    /// Whether there is a next step.
    pub goes_on: Option<Tensor>,
}

type Collected = (Tensor, bool);

impl Graph {
    /// A loop of `steps` steps, as jax's `lax.scan`. [`Scan::run`] writes its body, which is compiled once:
    /// the time to compile does not grow with the steps.
    ///
    /// The body is a closure over the values that the step before has left. It returns those that the next
    /// step finds, of the same shapes and types, and values to collect, each of which gets a first axis for
    /// the steps. [`ScanStep::slice`] has the part of an array that belongs to the step. Tensors and
    /// parameters from outside may be used in the body as they are; tensors of the body end with it.
    ///
    /// [`Graph::gradients`] goes through the loop, which then runs a second time in the other direction.
    /// Random numbers, and so dropout, are the same in each step. The values have the bits of the same
    /// operations one after the other, and so have gradients in class `strict`.
    ///
    /// ```
    /// use arrayjit_tensor::{DType, Graph, Init, Params};
    ///
    /// let params = Params::new(1);
    /// let w = params.parameter("w", [16, 16], Init::kaiming_uniform(16, 1.0))?;
    /// let graph = Graph::new();
    /// let x = graph.input("x", [50, 8, 16], DType::F32)?; // 50 steps of 8 sequences
    /// let zeros = graph.zeros(&[8, 16], DType::F32)?;
    /// let ([last], [all]) = graph.scan(50).run([&zeros], |step, [h]| {
    ///     let h = (step.slice(&x, 0)? + h.matmul(&w)?)?.tanh()?;
    ///     Ok(([h.clone()], [h]))
    /// })?;
    /// assert_eq!(last.shape(), [8, 16]);
    /// assert_eq!(all.shape(), [50, 8, 16]);
    /// let gradients = graph.gradients(&all.square()?.mean(..)?, &[&w])?;
    /// assert_eq!(gradients[0].shape(), [16, 16]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    #[must_use = "a scan has no statements before `run`"]
    #[track_caller]
    pub fn scan(&self, steps: usize) -> Scan {
        let call = Call::new("scan");
        Scan { graph: self.clone(), call, steps, backwards: false, checkpoint: None, symbol: None }
    }
}

impl Scan {
    options! {
        /// Whether the first step has the last slices, and the last step the first ones; false by default.
        /// Rows of collected values are at the positions of the slices.
        backwards: bool => backwards;
        /// The gradient keeps the values that the steps carry once every so many steps, and computes the
        /// steps between again: memory for `steps / checkpoint + checkpoint` steps instead of all, for the
        /// time of one more pass. It divides the number of steps. Without it, the gradient keeps the values
        /// of all steps.
        checkpoint: usize => checkpoint;
    }

    /// A name for the number of the step, from 0, in [texts](Graph::apply) of the body: `pos` for `@pos`. So
    /// a module whose texts have a symbol that each run is given may be a step of a loop too.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let zeros = tensor([0., 0., 0.]);
    /// let ([squares], []) = zeros.graph().scan(3).symbol("pos").run([&zeros], |_, [all]| {
    ///     let text = "y[i] := all[i] + where(i == @pos, i * @pos, 0)";
    ///     let squares = all.graph().apply(text, &[("all", &all)])?;
    ///     Ok(([squares], []))
    /// })?;
    /// check(Ok(squares), [0., 1., 4.]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    #[must_use]
    pub fn symbol(self, name: &str) -> Scan {
        Scan { symbol: Some(name.into()), ..self }
    }

    /// Writes the body of the loop. `initial` are the values that the first step finds; `body` is called
    /// once, and returns the values for the next step and those to collect. The results are the values that
    /// the last step leaves, and the collected ones, with a first axis for the steps.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let x = tensor([1., 2., 3., 4.]);
    /// let zero = tensor(0.);
    /// let sums = |backwards| {
    ///     let scan = x.graph().scan(4).backwards(backwards);
    ///     let (_, [sums]) = scan.run([&zero], |step, [sum]| {
    ///         let sum = (sum + step.slice(&x, 0)?)?;
    ///         Ok(([sum.clone()], [sum]))
    ///     })?;
    ///     Ok(sums)
    /// };
    /// check(sums(false), [1., 3., 6., 10.]);
    /// check(sums(true), [10., 9., 7., 4.]);
    /// ```
    ///
    /// # Errors
    /// An error of `body`, of which no statements stay; no steps; a checkpoint that does not divide
    /// them; a value without elements; a new value of another shape or type than the one before the step; a
    /// number as an initial value.
    pub fn run<const C: usize, const Y: usize>(
        self,
        initial: [&dyn TensorOperand; C],
        body: impl FnOnce(&ScanStep, [Tensor; C]) -> Result<([Tensor; C], [Tensor; Y])>,
    ) -> Result<([Tensor; C], [Tensor; Y])> {
        let (graph, call) = (self.graph.clone(), self.call);
        let missing = |_| graph.fail(call, wrong("values", "too few", "as many as the body takes"));
        let initial = initial.map(TensorOperand::argument);
        let (last, collected) = self.run_all::<TensorError>(false, &initial, |step, carried| {
            let (new, collected) = body(step, carried.try_into().map_err(missing)?)?;
            let rows = collected.into_iter().map(|value| (value, step.scan.backwards)).collect();
            Ok(StepResults { state: new.into(), rows, goes_on: None })
        })?;
        Ok((last.try_into().map_err(missing)?, collected.try_into().map_err(missing)?))
    }

    /// [`run`](Scan::run) of a loop that ends before the first step in which `condition`, a tensor of one
    /// element, is false. The rows of steps that do not run are zeros. A carried value to which each step
    /// adds 1 is the number of steps.
    ///
    /// On CPUs the loop takes the time of the steps that run, and one thread. On GPUs all steps are computed,
    /// and those behind the end leave everything as it is.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// // Square roots by Newton's method, until they no longer change much.
    /// let a = tensor([1., 2., 9.]);
    /// let initial = [&a, &tensor(1.), &tensor(0)];
    /// let initial = initial.map(|value| value as &dyn arrayjit_tensor::TensorOperand);
    /// let ([roots, _, steps], []) = a.graph().scan(20).run_while(
    ///     initial,
    ///     |_, [_, change, _]| change.gt(1e-3),
    ///     |_, [x, _, steps]| {
    ///         let better = ((&x + (&a / &x)?)? * 0.5)?;
    ///         let change = (&better - x)?.abs()?.max(..)?;
    ///         Ok(([better, change, (steps + 1)?], []))
    ///     },
    /// )?;
    /// check(Ok(roots), [1., 1.4142135, 3.]);
    /// check(Ok(steps), 5);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// Fails like [`run`](Scan::run), or if the condition has several elements.
    pub fn run_while<const C: usize, const Y: usize>(
        self,
        initial: [&dyn TensorOperand; C],
        condition: impl FnOnce(&ScanStep, &[Tensor; C]) -> Result<Tensor>,
        body: impl FnOnce(&ScanStep, [Tensor; C]) -> Result<([Tensor; C], [Tensor; Y])>,
    ) -> Result<([Tensor; C], [Tensor; Y])> {
        let (graph, call) = (self.graph.clone(), self.call);
        let fail = || graph.fail(call, wrong("values", "too few", "as many as the body takes"));
        let initial = initial.map(TensorOperand::argument);
        let (last, collected) = self.run_all::<TensorError>(true, &initial, |step, carried| {
            let carried: [Tensor; C] = carried.try_into().map_err(|_| fail())?;
            step.go_on(&condition(step, &carried)?)?;
            let (new, rows) = body(step, carried)?;
            let rows = rows.into_iter().map(|row| (row, step.scan.backwards)).collect();
            Ok(StepResults { state: new.into(), rows, goes_on: None })
        })?;
        Ok((last.try_into().map_err(|_| fail())?, collected.try_into().map_err(|_| fail())?))
    }

    /// [`run`](Scan::run) for any number of values, of a loop that may end early if `may_end`.
    #[doc(hidden)]
    pub fn run_all<E: From<TensorError>>(
        self,
        may_end: bool,
        initial: &[Argument<'_>],
        body: impl FnOnce(&ScanStep, Vec<Tensor>) -> Result<StepResults, E>,
    ) -> Result<(Vec<Tensor>, Vec<Tensor>), E> {
        let (graph, call) = (self.graph.clone(), self.call);
        let (steps, every) = self.counts().map_err(|error| graph.fail(call, error))?;
        let mut carried = Vec::new();
        for value in initial {
            carried.push(self.copy(*value)?);
        }
        let going = match may_end {
            true => Some(self.copy(Argument::Tensor(&graph.ones(&[], DType::I32)?))?),
            false => None,
        };
        let all: Vec<Tensor> = carried.iter().chain(&going).cloned().collect();
        let scope = graph.open_scan(call, (steps, self.symbol.clone()), &all)?;
        let step = ScanStep { scan: self, letter: scope.letter.clone(), going };
        let StepResults { state, rows, goes_on } = body(&step, carried.clone())?;
        let collected = step.end(&carried, &state, &rows)?;
        if let Some(goes_on) = goes_on {
            step.go_on(&goes_on)?;
        }
        scope.close(every, step.going.as_ref(), &collected);
        let mut last = Vec::new();
        for value in &carried {
            last.push(step.scan.copy(Argument::Tensor(value))?);
        }
        Ok((last, collected))
    }

    /// The number of steps, and that from one checkpoint to the next.
    fn counts(&self) -> Result<(i64, Option<i64>)> {
        let steps = i64::try_from(self.steps).ok().filter(|&steps| steps > 0);
        let steps = steps.ok_or_else(|| wrong("steps", self.steps, "1 or more"))?;
        let every = self.checkpoint.map(|every| match i64::try_from(every) {
            Ok(every) if every > 0 && steps % every == 0 => Ok(every),
            _ => Err(wrong("checkpoint", every, format!("a divisor of the {steps} steps"))),
        });
        Ok((steps, every.transpose()?))
    }

    fn copy(&self, value: Argument<'_>) -> Result<Tensor> {
        if value.node().is_none() || value.shape().contains(&0) {
            let found = format!("{} of shape {:?}", value.name(), value.shape());
            let error = wrong("a carried value", found, "a tensor or parameter with elements");
            return Err(self.graph.fail(self.call, error));
        }
        let rank = value.shape().len();
        let text = |y: &str| format!("{} := {}", whole(y, rank), whole("x", rank));
        self.graph.result(self.call, &[("x", value)], text)
    }
}

impl ScanStep {
    /// The slice of the step: the tensor or parameter without an axis, which has an element for each step.
    ///
    /// # Errors
    /// An axis that `x` does not have, or one of another size.
    #[track_caller]
    pub fn slice(&self, x: impl TensorOperand, axis: isize) -> Result<Tensor> {
        self.slice_from(Call::new("step_slice"), x.argument(), axis, self.scan.backwards)
    }

    /// [`slice`](ScanStep::slice) in one of the directions.
    #[doc(hidden)]
    pub fn slice_from(&self, call: Call, x: Argument<'_>, axis: isize, backwards: bool) -> Result<Tensor> {
        let (graph, steps) = (&self.scan.graph, self.scan.steps);
        let axis = axis_at(axis, x.shape()).map_err(|error| graph.fail(call, error))?;
        if x.shape()[axis] != steps {
            let expected = format!("{steps} elements on axis {axis}, one for each step");
            return Err(graph.fail(call, x.misshapen(expected)));
        }
        let rank = x.shape().len() - 1;
        let mut index = letters(rank);
        index.insert(axis, self.position(backwards));
        let line = |y: &str| format!("{} := x[{}]", whole(y, rank), index.join(","));
        self.statement(call, &[("x", x)], line)
    }

    /// The number of the step from 0, or of the slice that it has: a tensor of one i64.
    ///
    /// # Errors
    /// None while the body is written.
    #[track_caller]
    pub fn number(&self) -> Result<Tensor> {
        let position = self.position(self.scan.backwards);
        self.statement(Call::new("step_number"), &[], |y| format!("{y} := i64({position})"))
    }

    /// Ends the loop here, unless a condition holds: the statements behind do not run, nor do later steps.
    fn go_on(&self, condition: &Tensor) -> Result<()> {
        let (graph, call) = (&self.scan.graph, self.scan.call);
        if condition.rank() > 0 {
            let found = listed(std::slice::from_ref(condition));
            return Err(graph.fail(call, wrong("the condition", found, "one element without axes")));
        }
        let Some(going) = &self.going else { return Ok(()) };
        let inputs = [("going", Argument::Tensor(going)), ("c", Argument::Tensor(condition))];
        let text = self.scanned("going := where(c, going, 0)");
        graph.emit_within_body(call, &self.letter, &text, &inputs, &[]).map(drop)
    }

    /// The position of the slices of the step.
    fn position(&self, backwards: bool) -> String {
        if backwards { format!("{} - t", self.scan.steps - 1) } else { "t".into() }
    }

    /// Adds a statement with one result.
    fn statement(
        &self,
        call: Call,
        inputs: &[(&str, Argument<'_>)],
        line: impl FnOnce(&str) -> String,
    ) -> Result<Tensor> {
        let graph = &self.scan.graph;
        let name = graph.new_name(call.op);
        let text = self.scanned(&line(&name));
        let tensors = graph.emit_within_body(call, &self.letter, &text, inputs, &[&name])?;
        tensors.into_iter().next().ok_or_else(|| graph.fail(call, wrong("the step", "empty", "a value")))
    }

    fn scanned(&self, body: &str) -> String {
        format!("scan t in 0..{} {{\n{body}\n}}", self.scan.steps)
    }

    /// Checks the shapes and types of the values for the next step.
    fn check(&self, carried: &[Tensor], new: &[Tensor]) -> Result<()> {
        let is_same =
            |(old, new): (&Tensor, &Tensor)| old.shape() == new.shape() && old.dtype() == new.dtype();
        if new.len() == carried.len() && carried.iter().zip(new).all(is_same) {
            return Ok(());
        }
        let error = wrong("the values for the next step", listed(new), listed(carried));
        Err(self.scan.graph.fail(self.scan.call, error))
    }

    /// Ends the body: collects values, and leaves the new ones to the next step.
    fn end(&self, carried: &[Tensor], new: &[Tensor], outputs: &[Collected]) -> Result<Vec<Tensor>> {
        let (graph, call) = (&self.scan.graph, self.scan.call);
        self.check(carried, new)?;
        let is_passed = |value: &Tensor| {
            new.iter().chain(outputs.iter().map(|(row, _)| row)).any(|other| other.node() == value.node())
        };
        // A program is wrong if nothing reads initial values before steps overwrite them.
        for value in carried.iter().filter(|value| !is_passed(value) && !graph.is_read_in_body(value)) {
            let copy = |y: &str| format!("{} := {}", whole(y, value.rank()), whole("x", value.rank()));
            self.statement(call, &[("x", Argument::Tensor(value))], copy)?;
        }
        let names = [("c", carried.len()), ("n", new.len()), ("o", outputs.len())];
        let [old_names, new_names, output_names] = names.map(|(name, count)| numbered(name, count));
        let values = carried.iter().chain(new).chain(outputs.iter().map(|(value, _)| value));
        let bound = old_names.iter().chain(&new_names).chain(&output_names).map(String::as_str);
        let inputs: Vec<_> = bound.zip(values.map(Argument::Tensor)).collect();

        let (mut text, mut lines, mut names) = (String::new(), Vec::new(), Vec::new());
        for (name, (value, backwards)) in output_names.iter().zip(outputs) {
            // The array of all rows is declared, with constants.
            if let Some(size) = value.node().run_sizes().iter().flatten().next() {
                let (tensor, size) = (value.name(), size.to_string());
                return Err(graph.fail(call, TensorError::Sized { tensor, size }));
            }
            let (y, rank) = (graph.new_name(call.op), value.rank());
            let shape = dims(&[&[self.scan.steps], value.shape()].concat());
            text += &format!("node {y} {}[{shape}]\n", value.dtype());
            let index = [vec![self.position(*backwards)], letters(rank)].concat();
            lines.push(format!("{y}[{}] := {}", index.join(","), whole(name, rank)));
            names.push(y);
        }
        // A value that is carried to another place is read before that place is written.
        let mut writes = Vec::new();
        for ((old, name), value) in old_names.iter().zip(&new_names).zip(new) {
            let mut source = name.clone();
            if carried.iter().any(|other| other.node() == value.node()) {
                source = format!("held_{name}");
                lines.push(format!("{} := {}", whole(&source, value.rank()), whole(name, value.rank())));
            }
            writes.push(format!("{} := {}", whole(old, value.rank()), whole(&source, value.rank())));
        }
        lines.extend(writes);
        if lines.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        graph.emit_within_body(
            call,
            &self.letter,
            &format!("{text}{}", self.scanned(&lines.join("\n"))),
            &inputs,
            &names,
        )
    }
}

fn listed(tensors: &[Tensor]) -> String {
    let each = tensors.iter().map(|tensor| format!("{}{:?}", tensor.dtype(), tensor.shape()));
    each.collect::<Vec<_>>().join(", ")
}

fn wrong(argument: &'static str, found: impl ToString, expected: impl Into<String>) -> TensorError {
    misfit(argument, found, expected)
}
