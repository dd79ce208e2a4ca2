//! Operations that choose elements by position: gather, scatter, masks, sorting.

use std::fmt::Display;

use arrayjit::DType;

use crate::{
    error::{Call, Result, TensorError, misfit},
    operand::{Argument, TensorOperand, number_of},
    shape::{
        access, axis_at, broadcast, broadcast_access, clause, clause_of, dims, letter, letters, numbered,
        whole,
    },
    tensor::Tensor,
};

impl Tensor {
    /// The elements of `axis` at integer positions: the axis is replaced by the axes of `positions`, as in
    /// NumPy's `take`. For an axis of rows this is an embedding. A position outside the axis is an error of
    /// the run if it comes from an input ([`Graph::check_positions`](crate::Graph::check_positions)), else
    /// gives 0.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let x = tensor([[1., 2.], [3., 4.], [5., 6.]]);
    /// check(x.take(0, &tensor([[2, 0]])), [[[5., 6.], [1., 2.]]]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have, positions that are no integers, or a tensor of another graph.
    #[track_caller]
    pub fn take(&self, axis: isize, positions: &Tensor) -> Result<Tensor> {
        take(Call::new("take"), self, Argument::Tensor(self), axis, positions)
    }

    /// The elements of `axis` at the positions of a tensor of rank 1, as torch's `index_select`. For a
    /// position outside the axis, see [`take`](Tensor::take).
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let x = tensor([[1., 2.], [3., 4.], [5., 6.]]);
    /// check(x.index_select(0, &tensor([2, 0])), [[5., 6.], [1., 2.]]);
    /// ```
    ///
    /// # Errors
    /// Positions of another rank; otherwise as [`take`](Tensor::take).
    #[track_caller]
    pub fn index_select(&self, axis: isize, positions: &Tensor) -> Result<Tensor> {
        let call = Call::new("index_select");
        if positions.rank() != 1 {
            return Err(self.graph().fail(call, positions.misshapen("one axis")));
        }
        take(call, self, Argument::Tensor(self), axis, positions)
    }

    /// The rows of a table, a parameter or tensor of shape `[rows, …]`, at these integer positions: an
    /// embedding. For a position outside the table, see [`take`](Tensor::take).
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let table = tensor([[1., 2.], [3., 4.], [5., 6.]]);
    /// check(tensor([2, 2]).embedding(&table), [[5., 6.], [5., 6.]]);
    /// ```
    ///
    /// # Errors
    /// A table of rank 0, positions that are no integers, or a tensor of another graph.
    #[track_caller]
    pub fn embedding(&self, table: impl TensorOperand) -> Result<Tensor> {
        take(Call::new("embedding"), self, table.argument(), 0, self)
    }

    /// Gathers elements along `axis`: `y[i, j] = x[positions[i, j], j]` for axis 0, of the shape of
    /// `positions`. Each other axis of `positions` is at most as long as the axis of this tensor. For a
    /// position outside the axis, see [`take`](Tensor::take).
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let x = tensor([[1., 2.], [3., 4.]]);
    /// check(x.gather(1, &tensor([[0], [1]])), [[1.], [4.]]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have, shapes that do not fit, or positions that are no integers.
    #[track_caller]
    pub fn gather(&self, axis: isize, positions: &Tensor) -> Result<Tensor> {
        let call = Call::new("gather");
        let chosen = self.fitting(call, axis, positions)?;
        self.gathered(call, chosen, positions, whole("p", self.rank()))
    }

    /// As [`gather`](Tensor::gather), with the index `position` for a position of `p`. The shapes fit.
    ///
    /// # Errors
    /// A tensor of another graph.
    #[doc(hidden)]
    pub fn gathered(&self, call: Call, at: usize, positions: &Tensor, position: String) -> Result<Tensor> {
        let read = access("x", computed(self.rank(), at, &position));
        let inputs = [("x", Argument::Tensor(self)), ("p", Argument::Tensor(positions))];
        let ranges = clause(positions.shape());
        self.graph().result(call, &inputs, |y| format!("{} := {read}{ranges}", whole(y, self.rank())))
    }

    /// Adds each element of `source` to the element of a copy of this tensor at the same place but for
    /// `axis`, where it is at the position in `positions`. Sums of several elements have the order of
    /// `source`; a position outside the axis is an error or has no effect, as [`take`](Tensor::take) says.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let (x, positions, source) = (tensor([1., 1., 1.]), tensor([0, 2, 0]), tensor([5., 6., 7.]));
    /// check(x.scatter_add(0, &positions, &source), [13., 1., 7.]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have, shapes that do not fit, or positions that are no integers.
    #[track_caller]
    pub fn scatter_add(&self, axis: isize, positions: &Tensor, source: &Tensor) -> Result<Tensor> {
        let call = Call::new("scatter_add");
        let chosen = self.fitting(call, axis, positions)?;
        self.source_fits(call, positions, source)?;
        let target = computed(self.rank(), chosen, &whole("p", self.rank()));
        self.scattered(call, [positions, source], &target, &letters(self.rank()), Some("+="))
    }

    /// A copy of this tensor with each element of `source` at the same place but for `axis`, where it is
    /// at the position in `positions`. Of equal positions, the last one in row-major order counts. A position
    /// outside the axis has no effect.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let (x, positions, source) = (tensor([1., 1., 1.]), tensor([0, 2, 0]), tensor([5., 6., 7.]));
    /// check(x.scatter(0, &positions, &source), [7., 1., 6.]);
    /// ```
    ///
    /// # Errors
    /// Fails like [`scatter_add`](Tensor::scatter_add).
    #[track_caller]
    pub fn scatter(&self, axis: isize, positions: &Tensor, source: &Tensor) -> Result<Tensor> {
        let call = Call::new("scatter");
        let chosen = self.fitting(call, axis, positions)?;
        self.source_fits(call, positions, source)?;
        let target = computed(self.rank(), chosen, &whole("p", self.rank()));
        self.scattered(call, [positions, source], &target, &letters(self.rank()), None)
    }

    /// A copy of this tensor whose element `target`, indices that mention the positions p, is updated by each
    /// element of `updates`, which has the letters `source`: by an operator such as `+=`, or replaced. Of
    /// several updates that replace an element, the last one counts.
    ///
    /// # Errors
    /// A tensor of another graph.
    #[doc(hidden)]
    pub fn scattered(
        &self,
        call: Call,
        [positions, updates]: [&Tensor; 2],
        target: &[String],
        source: &[String],
        operator: Option<&str>,
    ) -> Result<Tensor> {
        let (rank, ranges) = (self.rank(), clause_of(source, updates.shape().iter().copied()));
        let old = whole("x", rank);
        let inputs = [("x", Argument::Tensor(self)), ("p", Argument::Tensor(positions))];
        if let Some(operator) = operator {
            let inputs = [inputs[0], inputs[1], ("z", Argument::Tensor(updates))];
            let new = access("z", source);
            return self.graph().result(call, &inputs, |y| {
                format!("{} := {old}\n{} {operator} {new}{ranges}", whole(y, rank), access(y, target))
            });
        }
        // The number of the last update of each element is found first, so that no order of updates counts.
        let mut stride = updates.num_elements();
        let flat = updates.reshape(&[stride as isize])?;
        let term = |(letter, &size): (&String, &usize)| {
            stride /= size.max(1);
            format!("{stride} * {letter}")
        };
        // An update without axes is the only one.
        let number = source.iter().zip(updates.shape()).map(term).chain(["0".to_owned()]);
        let (number, last) = (number.collect::<Vec<_>>().join(" + "), whole("last", rank));
        let inputs = [inputs[0], inputs[1], ("z", Argument::Tensor(&flat))];
        self.graph().result(call, &inputs, |y| {
            format!(
                "node last i32[{}]\n{} :max= {number}{ranges}\n{} := where({last} >= 0, z[{last}], {old})",
                dims(self.shape()),
                access("last", target),
                whole(y, rank),
            )
        })
    }

    /// This tensor with `value` where the mask, of a shape that broadcasts to this one, is true or not 0.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([1., 2.]).masked_fill(&tensor([true, false]), -1.), [-1., 2.]);
    /// ```
    ///
    /// # Errors
    /// A mask that does not broadcast to the tensor's shape, or a tensor of another graph.
    #[track_caller]
    pub fn masked_fill(&self, mask: &Tensor, value: f64) -> Result<Tensor> {
        let call = Call::new("masked_fill");
        let to = broadcast(self.shape(), mask.shape());
        let to = to.map_err(|kind| self.graph().fail(call, kind))?;
        if to != self.shape() {
            let (left, right) = (self.shape().to_vec(), mask.shape().to_vec());
            return Err(self.graph().fail(call, TensorError::Broadcast { left, right }));
        }
        let mask_read = broadcast_access("m", mask.shape(), &to);
        let (rank, value) = (self.rank(), number_of(self.dtype(), value));
        let inputs = [("x", Argument::Tensor(self)), ("m", Argument::Tensor(mask))];
        self.graph().result(call, &inputs, |y| {
            format!("{} := where({mask_read}, {value}, {})", whole(y, rank), whole("x", rank))
        })
    }

    /// The lower triangle of the last two axes: 0 above diagonal `diagonal`, which counts upwards.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[1, 2], [3, 4]]).tril(0), [[1, 0], [3, 4]]);
    /// ```
    ///
    /// # Errors
    /// Fewer than two axes.
    #[track_caller]
    pub fn tril(&self, diagonal: isize) -> Result<Tensor> {
        self.triangle(Call::new("tril"), "<=", diagonal)
    }

    /// The upper triangle of the last two axes: 0 below diagonal `diagonal`, which counts upwards.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[1, 2], [3, 4]]).triu(0), [[1, 2], [0, 4]]);
    /// ```
    ///
    /// # Errors
    /// Fewer than two axes.
    #[track_caller]
    pub fn triu(&self, diagonal: isize) -> Result<Tensor> {
        self.triangle(Call::new("triu"), ">=", diagonal)
    }

    fn triangle(&self, call: Call, relation: &str, diagonal: isize) -> Result<Tensor> {
        let rank = self.rank();
        if rank < 2 {
            return Err(self.graph().fail(call, self.misshapen("at least two axes")));
        }
        let (row, column) = (letter(rank - 2), letter(rank - 1));
        let value = whole("x", rank);
        self.graph().result(call, &[("x", Argument::Tensor(self))], |y| {
            format!("{} := where({column} - {row} {relation} {diagonal}, {value}, 0)", whole(y, rank))
        })
    }

    /// One truth value per class: whether each integer is the class, on a new last axis, in f32.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([2, 0]).one_hot(3), [[0., 0., 1.], [1., 0., 0.]]);
    /// ```
    ///
    /// # Errors
    /// A tensor of floats.
    #[track_caller]
    pub fn one_hot(&self, classes: usize) -> Result<Tensor> {
        let call = Call::new("one_hot");
        self.integers(call)?;
        let rank = self.rank();
        let value = whole("x", rank);
        self.graph().result(call, &[("x", Argument::Tensor(self))], |y| {
            let target = access(y, (0..rank).map(letter).chain(["k".to_owned()]));
            format!("{target} := f32(k == {value}) where k < {classes}")
        })
    }

    /// The elements of an axis in ascending order, or in descending order, and their positions in i32. Equal
    /// elements keep their order; NaN is the largest number, as in torch and NumPy. The work is proportional
    /// to the number of elements.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([3., 1., 2.]).sort(0, false).map(|(values, _)| values), [1., 2., 3.]);
    /// check(tensor([3., 1., 2.]).sort(0, false).map(|(_, positions)| positions), [1, 2, 0]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have.
    #[track_caller]
    pub fn sort(&self, axis: isize, descending: bool) -> Result<(Tensor, Tensor)> {
        let call = Call::new("sort");
        let sorted = axis_at(axis, self.shape()).map_err(|kind| self.graph().fail(call, kind))?;
        self.ordered(call, sorted, self.shape()[sorted], descending)
    }

    /// The `count` largest elements of an axis in descending order, and their positions in i32. Of equal
    /// elements, the first ones are taken. Few of many elements cost little more than a read of all.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([3., 1., 2.]).topk(2, 0).map(|(values, _)| values), [3., 2.]);
    /// check(tensor([3., 1., 2.]).topk(2, 0).map(|(_, positions)| positions), [0, 2]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have, or more elements than it has.
    #[track_caller]
    pub fn topk(&self, count: usize, axis: isize) -> Result<(Tensor, Tensor)> {
        let call = Call::new("topk");
        let ranked = axis_at(axis, self.shape()).map_err(|kind| self.graph().fail(call, kind))?;
        if count > self.shape()[ranked] {
            let expected = format!("at most {}, the size of axis {ranked}", self.shape()[ranked]);
            return Err(self.graph().fail(call, misfit("count", count, expected)));
        }
        self.ordered(call, ranked, count, true)
    }

    /// The first `count` elements of an axis in sorted order, and their positions.
    fn ordered(&self, call: Call, at: usize, count: usize, descending: bool) -> Result<(Tensor, Tensor)> {
        let (rank, dtype) = (self.rank(), self.dtype());
        let mut sizes = self.shape().to_vec();
        sizes[at] = count;
        if sizes.contains(&0) {
            let empty = |dtype| self.graph().empty(call, &sizes, dtype);
            return Ok((empty(dtype)?, empty(DType::I32)?));
        }
        let dims = dims(&sizes);
        let order = if descending { "descending" } else { "ascending" };
        let read = access("x", computed(rank, at, &whole("positions_", rank)));
        let text = format!(
            "node positions_ i32[{dims}]\npositions_ := {order}(x, {at})\n{} := {read}",
            whole("values_", rank)
        );
        let inputs = [("x", Argument::Tensor(self))];
        let results = self.graph().emit(call, &text, &inputs, &["values_", "positions_"])?;
        match <[Tensor; 2]>::try_from(results) {
            Ok([values, positions]) => Ok((values, positions)),
            Err(_) => Err(self.graph().fail(call, TensorError::Axis { axis: at as isize, shape: sizes })),
        }
    }

    /// Rejects floats as positions.
    pub(crate) fn integers(&self, call: Call) -> Result<()> {
        if self.dtype().is_float() {
            let (what, found) = (self.name(), self.dtype());
            let kind = TensorError::ElementType { what, found, expected: "integers" };
            return Err(self.graph().fail(call, kind));
        }
        Ok(())
    }

    /// The axis `at`, if `positions` are integers and fit the other axes.
    fn fitting(&self, call: Call, at: isize, positions: &Tensor) -> Result<usize> {
        let fail = |kind| self.graph().fail(call, kind);
        let chosen = axis_at(at, self.shape()).map_err(fail)?;
        positions.integers(call)?;
        let fits = |axis: usize| axis == chosen || positions.shape()[axis] <= self.shape()[axis];
        if positions.rank() != self.rank() || !(0..self.rank()).all(fits) {
            let expected = format!("at most {:?} but for axis {chosen}", self.shape());
            return Err(fail(positions.misshapen(expected)));
        }
        self.graph().expect_positions(call, positions, self.shape()[chosen], None);
        Ok(chosen)
    }

    /// Checks that there is one element for each position.
    fn source_fits(&self, call: Call, positions: &Tensor, source: &Tensor) -> Result<()> {
        if source.shape() == positions.shape() {
            return Ok(());
        }
        let expected = format!("{:?}, the shape of the positions", positions.shape());
        Err(self.graph().fail(call, source.misshapen(expected)))
    }
}

/// A position of an axis of that size, a number or an expression; negative ones count from the end.
pub fn wrapped(position: &str, size: impl Display) -> String {
    format!("where({position} < 0, {position} + {size}, {position})")
}

/// One index per axis: `index` on axis `chosen`, letters on the others.
fn computed(rank: usize, chosen: usize, index: &str) -> Vec<String> {
    (0..rank).map(|at| if at == chosen { index.to_owned() } else { letter(at) }).collect()
}

/// The elements of axis `at` of a table at integer positions.
fn take(call: Call, tensor: &Tensor, table: Argument<'_>, at: isize, positions: &Tensor) -> Result<Tensor> {
    let graph = tensor.graph();
    let chosen = axis_at(at, table.shape()).map_err(|kind| graph.fail(call, kind))?;
    positions.integers(call)?;
    graph.expect_positions(call, positions, table.shape()[chosen], None);
    taken(call, table, chosen, positions, |position| position)
}

/// As [`Tensor::take`], where `index` makes an index of a position.
///
/// # Errors
/// A tensor of another graph.
pub fn taken(
    call: Call,
    table: Argument<'_>,
    chosen: usize,
    positions: &Tensor,
    index: impl Fn(String) -> String,
) -> Result<Tensor> {
    let position_axes = numbered("k", positions.rank());
    let position = index(access("p", &position_axes));
    let read = access("x", computed(table.shape().len(), chosen, &position));
    let target = (0..table.shape().len()).flat_map(|at| match at == chosen {
        true => position_axes.clone(),
        false => vec![letter(at)],
    });
    let target: Vec<String> = target.collect();
    let inputs = [("x", table), ("p", Argument::Tensor(positions))];
    positions.graph().result(call, &inputs, |y| format!("{} := {read}", access(y, target)))
}
