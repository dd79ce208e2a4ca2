//! Operations that move elements: reshape, permute, slice, pad, concatenate, split, repeat.

use std::ops::Range;

use arrayjit::text::declared_sizes;
use tnode::{RunSize, SizeSum};

use crate::{
    error::{Call, Result, TensorError, misfit},
    operand::{Argument, TensorOperand, number, number_of},
    refinement::{Refinement, closed},
    shape::{access, axis_at, broadcast, broadcast_indices, clause, letter, letters, whole},
    tensor::Tensor,
};

/// The statements that join tensors along an axis whose parts have sizes that a run gives; none if the sum of
/// the sizes overflows. A part starts where a sum of sizes ends.
fn joined_by_sizes(tensors: &[&Tensor], joined: usize) -> Option<impl Fn(&str) -> String> {
    let extent = |tensor: &Tensor, at: usize| match tensor.node().run_size(at) {
        Some(size) => SizeSum::from(size),
        None => SizeSum::from(i64::try_from(tensor.shape()[at]).unwrap_or(i64::MAX)),
    };
    let first = tensors.first()?;
    let (mut all, mut starts) = (SizeSum::default(), Vec::new());
    for tensor in tensors {
        starts.push(all.clone());
        all = all.plus(&extent(tensor, joined))?;
    }
    let joined_size = all.size()?;
    let mut sizes: Vec<RunSize> = first.node().run_sizes().iter().flatten().cloned().collect();
    sizes.push(joined_size.clone());
    let starts: Vec<RunSize> = starts.iter().filter_map(SizeSum::size).collect();
    let own = tensors.iter().filter_map(|tensor| tensor.node().run_size(joined).cloned());
    let declared = declared_sizes(&sizes.iter().cloned().chain(starts).chain(own).collect::<Vec<_>>());
    let axis = |at: usize| match first.node().run_size(at) {
        _ if at == joined => joined_size.name().to_owned(),
        Some(size) => size.name().to_owned(),
        None => first.shape()[at].to_string(),
    };
    let axes: Vec<String> = (0..first.rank()).map(axis).collect();
    let (dtype, rank) = (first.dtype(), first.rank());
    let mut before = SizeSum::default();
    let mut parts = Vec::new();
    for (at, tensor) in tensors.iter().enumerate() {
        let start = match before.size() {
            Some(size) => size.name().to_owned(),
            None => before.offset().to_string(),
        };
        before = before.plus(&extent(tensor, joined))?;
        parts.push((format!("x{at}"), format!("{start} + {}", letter(joined))));
    }
    Some(move |y: &str| {
        let mut text = format!("{declared}node {y} {dtype}[{}]\n", axes.join(","));
        let letters = || (0..rank).map(letter);
        // The padded read of the first part writes the whole result, so that every element has a value.
        text += &format!("{} := {}", access(y, letters()), access("pad(x0, 0)", letters()));
        for (part, index) in parts.iter().skip(1) {
            let target = (0..rank).map(|at| if at == joined { index.clone() } else { letter(at) });
            text += &format!("\n{} := {}", access(y, target), access(part, letters()));
        }
        text
    })
}

impl Tensor {
    /// The same elements in row-major order in another shape. One size may be -1 and follows from the others.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[1, 2, 3], [4, 5, 6]]).reshape(&[3, -1]), [[1, 2], [3, 4], [5, 6]]);
    /// ```
    ///
    /// # Errors
    /// A shape with another number of elements, or with several open sizes.
    #[track_caller]
    pub fn reshape(&self, shape: &[isize]) -> Result<Tensor> {
        self.reshaped(Call::new("reshape"), shape)
    }

    fn reshaped(&self, call: Call, shape: &[isize]) -> Result<Tensor> {
        let to = closed(self.shape(), shape).map_err(|kind| self.graph().fail(call, kind))?;
        if to == self.shape() {
            return Ok(self.clone());
        }
        let input = [("x", Argument::Tensor(self))];
        if self.num_elements() == 0 {
            return self.graph().empty(call, &to, self.dtype());
        }
        self.graph().result(call, &input, |y| match Refinement::of(self.shape(), &to) {
            Some(refinement) => refinement.copy(y),
            None => {
                let flat = Refinement::of(self.shape(), &[self.num_elements()]);
                let shaped = Refinement::of(&[self.num_elements()], &to);
                let parts = [(flat, "x", "f"), (shaped, "f", y)];
                let copies =
                    parts.into_iter().filter_map(|(part, from, to)| Some(part?.copy_between(from, to)));
                copies.collect::<Vec<_>>().join("\n")
            }
        })
    }

    /// Joins the axes from `start` to `end`, both included, into one.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[[1, 2], [3, 4]]]).flatten(1, -1), [[1, 2, 3, 4]]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have, or a last axis before the first.
    #[track_caller]
    pub fn flatten(&self, start: isize, end: isize) -> Result<Tensor> {
        let call = Call::new("flatten");
        let fail = |kind| self.graph().fail(call, kind);
        let (first, last) =
            (axis_at(start, self.shape()).map_err(fail)?, axis_at(end, self.shape()).map_err(fail)?);
        let sizes = self.shape().iter().map(|&size| size as isize);
        let mut shape: Vec<isize> = sizes.collect();
        if first > last {
            return Err(fail(misfit("end", end, format!("an axis from {first}"))));
        }
        let joined: isize = shape[first..=last].iter().product();
        shape.splice(first..=last, [joined]);
        self.reshaped(call, &shape)
    }

    /// Adds an axis of size 1 in front of `axis`; -1 adds one behind the last.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([1, 2]).unsqueeze(0), [[1, 2]]);
    /// check(tensor([1, 2]).unsqueeze(-1), [[1], [2]]);
    /// ```
    ///
    /// # Errors
    /// A position beyond the axes.
    #[track_caller]
    pub fn unsqueeze(&self, axis: isize) -> Result<Tensor> {
        let call = Call::new("unsqueeze");
        let mut shape: Vec<usize> = self.shape().to_vec();
        shape.push(1);
        let at = axis_at(axis, &shape).map_err(|kind| self.graph().fail(call, kind))?;
        let mut to: Vec<isize> = self.shape().iter().map(|&size| size as isize).collect();
        to.insert(at, 1);
        self.reshaped(call, &to)
    }

    /// Removes `axis`, which has size 1.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[1, 2]]).squeeze(0), [1, 2]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have, or one of another size.
    #[track_caller]
    pub fn squeeze(&self, axis: isize) -> Result<Tensor> {
        let call = Call::new("squeeze");
        let fail = |kind| self.graph().fail(call, kind);
        let removed = axis_at(axis, self.shape()).map_err(fail)?;
        if self.shape()[removed] != 1 {
            return Err(fail(self.misshapen(format!("size 1 on axis {removed}"))));
        }
        let kept = self.shape().iter().enumerate().filter(|(at, _)| *at != removed);
        let shape: Vec<isize> = kept.map(|(_, &size)| size as isize).collect();
        self.reshaped(call, &shape)
    }

    /// The axes in another order: axis `k` of the result is axis `order[k]`.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[1, 2, 3], [4, 5, 6]]).permute(&[1, 0]), [[1, 4], [2, 5], [3, 6]]);
    /// ```
    ///
    /// # Errors
    /// An order that does not name each axis once.
    #[track_caller]
    pub fn permute(&self, order: &[isize]) -> Result<Tensor> {
        self.permuted(Call::new("permute"), order)
    }

    fn permuted(&self, call: Call, order: &[isize]) -> Result<Tensor> {
        let fail = |kind| self.graph().fail(call, kind);
        let order =
            order.iter().map(|&at| axis_at(at, self.shape())).collect::<Result<Vec<_>, _>>().map_err(fail)?;
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..self.rank()) {
            let expected = format!("each of the {} axes once", self.rank());
            return Err(fail(misfit("order", format!("{order:?}"), expected)));
        }
        let value = whole("x", self.rank());
        self.graph().result(call, &[("x", Argument::Tensor(self))], |y| {
            format!("{} := {value}", access(y, order.iter().map(|&at| letter(at))))
        })
    }

    /// Exchanges two axes.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[1, 2, 3], [4, 5, 6]]).transpose(0, 1), [[1, 4], [2, 5], [3, 6]]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have.
    #[track_caller]
    pub fn transpose(&self, first: isize, second: isize) -> Result<Tensor> {
        let call = Call::new("transpose");
        let fail = |kind| self.graph().fail(call, kind);
        let mut order: Vec<isize> = (0..self.rank() as isize).collect();
        order.swap(axis_at(first, self.shape()).map_err(fail)?, axis_at(second, self.shape()).map_err(fail)?);
        self.permuted(call, &order)
    }

    /// The elements `range` of an axis.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[1, 2, 3], [4, 5, 6]]).slice(1, 0..2), [[1, 2], [4, 5]]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have, or a range that leaves it.
    #[track_caller]
    pub fn slice(&self, axis: isize, range: Range<usize>) -> Result<Tensor> {
        self.sliced(Call::new("slice"), axis, range, 1)
    }

    /// Every `step`-th element of `range` of an axis.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([1, 2, 3, 4, 5]).slice_step(0, 0..5, 2), [1, 3, 5]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have, a range that leaves it, or a step of 0.
    #[track_caller]
    pub fn slice_step(&self, axis: isize, range: Range<usize>, step: usize) -> Result<Tensor> {
        self.sliced(Call::new("slice_step"), axis, range, step)
    }

    /// `length` elements of an axis from `start` on.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([1, 2, 3, 4]).narrow(0, 1, 2), [2, 3]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have, or a range that leaves it.
    #[track_caller]
    pub fn narrow(&self, axis: isize, start: usize, length: usize) -> Result<Tensor> {
        self.sliced(Call::new("narrow"), axis, start..start.saturating_add(length), 1)
    }

    /// Element `index` of an axis; the result has no such axis.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[1, 2, 3], [4, 5, 6]]).select(0, 1), [4, 5, 6]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have, or an index that leaves it.
    #[track_caller]
    pub fn select(&self, axis: isize, index: usize) -> Result<Tensor> {
        let call = Call::new("select");
        let fixed = self.checked_range(call, axis, &(index..index.saturating_add(1)))?;
        let read = (0..self.rank()).map(|at| if at == fixed { index.to_string() } else { letter(at) });
        let read = access("x", read);
        let kept = (0..self.rank()).filter(|&at| at != fixed).map(letter);
        self.graph()
            .result(call, &[("x", Argument::Tensor(self))], |y| format!("{} := {read}", access(y, kept)))
    }

    fn sliced(&self, call: Call, at: isize, range: Range<usize>, step: usize) -> Result<Tensor> {
        let sliced = self.checked_range(call, at, &range)?;
        if step == 0 {
            return Err(self.graph().fail(call, misfit("step", "0", "1 or more")));
        }
        let mut sizes = self.shape().to_vec();
        sizes[sliced] = range.len().div_ceil(step);
        let mut read = letters(self.rank());
        read[sliced] = format!("{step}*{} + {}", letter(sliced), range.start);
        let slice = self.moved(call, &sizes, &read)?;
        self.graph().note_slice(self, &slice, sliced, (&range, step));
        Ok(slice)
    }

    /// The axis, if it has the elements of the range.
    fn checked_range(&self, call: Call, at: isize, range: &Range<usize>) -> Result<usize> {
        let fail = |kind| self.graph().fail(call, kind);
        let axis = axis_at(at, self.shape()).map_err(fail)?;
        if range.start > range.end || range.end > self.shape()[axis] {
            let (start, end, shape) = (range.start, range.end, self.shape().to_vec());
            return Err(fail(TensorError::Range { start, end, axis, shape }));
        }
        Ok(axis)
    }

    /// Adds `before` and `after` elements of a value on each axis, the last axis first in `margins` as in
    /// torch: `&[(1, 1)]` pads the last axis only.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[1., 2.]]).pad(&[(1, 2)], 0.), [[0., 1., 2., 0., 0.]]);
    /// ```
    ///
    /// # Errors
    /// More margins than axes, or margins so large that a size overflows.
    #[track_caller]
    pub fn pad(&self, margins: &[(usize, usize)], value: f64) -> Result<Tensor> {
        let call = Call::new("pad");
        if margins.len() > self.rank() {
            let kind = misfit("margins", margins.len(), format!("at most {} pairs", self.rank()));
            return Err(self.graph().fail(call, kind));
        }
        let margin = |at: usize| margins.get(self.rank() - 1 - at).copied().unwrap_or_default();
        let padded = |(at, size): (usize, &usize)| size.checked_add(margin(at).0)?.checked_add(margin(at).1);
        let sizes: Option<Vec<usize>> = self.shape().iter().enumerate().map(padded).collect();
        let Some(sizes) = sizes else {
            let kind = misfit("margins", format!("{margins:?}"), "sizes that do not overflow");
            return Err(self.graph().fail(call, kind));
        };
        let before: Vec<i64> = (0..self.rank()).map(|at| margin(at).0 as i64).collect();
        self.padded(call, &sizes, &before, &number_of(self.dtype(), value))
    }

    /// The elements in another shape, `before` elements further on each axis, with a number around them.
    ///
    /// # Errors
    /// A number that the type cannot hold.
    #[doc(hidden)]
    pub fn padded(&self, call: Call, shape: &[usize], before: &[i64], number: &str) -> Result<Tensor> {
        let read = before.iter().enumerate();
        let read = read.map(|(at, margin)| format!("{} - {margin}", letter(at)).replace("- -", "+ "));
        self.read(call, shape, &format!("pad(x, {number})"), &read.collect::<Vec<_>>())
    }

    /// The elements at these indices, one for each axis, which mention the letters of `shape`.
    ///
    /// # Errors
    /// Indices that leave the tensor.
    #[doc(hidden)]
    pub fn moved(&self, call: Call, shape: &[usize], indices: &[String]) -> Result<Tensor> {
        self.read(call, shape, "x", indices)
    }

    /// Reads `source`, this tensor with the name x, at these indices.
    fn read(&self, call: Call, shape: &[usize], source: &str, indices: &[String]) -> Result<Tensor> {
        if shape.contains(&0) {
            return self.graph().empty(call, shape, self.dtype());
        }
        // A letter that indexes an axis alone may take only a part of it.
        self.graph().result(call, &[("x", Argument::Tensor(self))], |y| {
            format!("{} := {}{}", whole(y, shape.len()), access(source, indices), clause(shape))
        })
    }

    /// The elements of an axis in reverse order.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[1, 2, 3]]).flip(1), [[3, 2, 1]]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have.
    #[track_caller]
    pub fn flip(&self, axis: isize) -> Result<Tensor> {
        let call = Call::new("flip");
        let flipped = axis_at(axis, self.shape()).map_err(|kind| self.graph().fail(call, kind))?;
        if self.num_elements() == 0 {
            return Ok(self.clone());
        }
        let mut read = letters(self.rank());
        read[flipped] = format!("{} - {}", self.shape()[flipped] - 1, letter(flipped));
        self.moved(call, self.shape(), &read)
    }

    /// Repeats axes of size 1, and adds axes in front, until the tensor has this shape.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([1, 2]).broadcast_to(&[2, 2]), [[1, 2], [1, 2]]);
    /// ```
    ///
    /// # Errors
    /// A shape to which this one does not broadcast.
    #[track_caller]
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Tensor> {
        let call = Call::new("broadcast_to");
        let to = broadcast(self.shape(), shape).map_err(|kind| self.graph().fail(call, kind))?;
        if to != shape {
            let (left, right) = (self.shape().to_vec(), shape.to_vec());
            return Err(self.graph().fail(call, TensorError::Broadcast { left, right }));
        }
        self.moved(call, &to, &broadcast_indices(self.shape(), to.len()))
    }

    /// Joins tensors along an axis on which alone their shapes may differ.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// use arrayjit_tensor::Tensor;
    ///
    /// let (x, y) = (tensor([[1, 2]]), tensor([[3, 4]]));
    /// check(Tensor::concat(&[&x, &y], 0), [[1, 2], [3, 4]]);
    /// ```
    ///
    /// # Errors
    /// No tensors, shapes that differ on another axis, or a tensor of another graph.
    #[track_caller]
    pub fn concat(tensors: &[&Tensor], axis: isize) -> Result<Tensor> {
        let call = Call::new("concat");
        let Some(first) = tensors.first() else {
            return Err(call.error("", misfit("tensors", "none", "at least one tensor")));
        };
        let graph = first.graph();
        let joined = axis_at(axis, first.shape()).map_err(|kind| graph.fail(call, kind))?;
        let run_sizes = |at: usize| tensors.iter().filter_map(move |tensor| tensor.node().run_size(at));
        for tensor in tensors {
            let sizes = tensor.shape().iter().zip(first.shape()).enumerate();
            let is_equal = sizes.into_iter().all(|(at, (a, b))| at == joined || a == b);
            if tensor.rank() != first.rank() || !is_equal {
                let expected = format!("{:?} but for axis {joined}", first.shape());
                return Err(graph.fail(call, tensor.misshapen(expected)));
            }
        }
        let names: Vec<String> = (0..tensors.len()).map(|at| format!("x{at}")).collect();
        let inputs: Vec<_> =
            names.iter().map(String::as_str).zip(tensors.iter().map(|t| Argument::Tensor(t))).collect();
        if tensors.len() > 1 && run_sizes(joined).next().is_some() {
            let text = joined_by_sizes(tensors, joined).ok_or_else(|| {
                let expected = "a sum of sizes that is no larger than an array may be";
                graph.fail(call, misfit("tensors", tensors.len(), expected))
            })?;
            return graph.result(call, &inputs, |y| text(y));
        }
        let part = |part: usize, axis: usize| if axis == joined { format!("k{part}") } else { letter(axis) };
        let values = names
            .iter()
            .enumerate()
            .map(|(at, name)| access(name, (0..first.rank()).map(|axis| part(at, axis))));
        let values = values.collect::<Vec<_>>().join(", ");
        let parts = (0..tensors.len()).map(|at| format!("k{at}")).collect::<Vec<_>>().join("^");
        let target = |at: usize| if at == joined { parts.clone() } else { letter(at) };
        graph.result(call, &inputs, |y| format!("{} := {values}", access(y, (0..first.rank()).map(target))))
    }

    /// Joins tensors of one shape along a new axis in front of `axis`; -1 adds it behind the last.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// use arrayjit_tensor::Tensor;
    ///
    /// let (x, y) = (tensor([1, 2]), tensor([3, 4]));
    /// check(Tensor::stack(&[&x, &y], 0), [[1, 2], [3, 4]]);
    /// ```
    ///
    /// # Errors
    /// Fails like [`concat`](Tensor::concat).
    #[track_caller]
    pub fn stack(tensors: &[&Tensor], axis: isize) -> Result<Tensor> {
        let parts = tensors.iter().map(|tensor| tensor.unsqueeze(axis)).collect::<Result<Vec<_>, _>>()?;
        Tensor::concat(&parts.iter().collect::<Vec<_>>(), axis)
    }

    /// Cuts an axis into parts of these sizes, which add up to its size.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let parts = tensor([1, 2, 3]).split(&[1, 2], 0)?;
    /// check(Ok(parts[1].clone()), [2, 3]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have, or sizes that do not add up.
    #[track_caller]
    pub fn split(&self, sizes: &[usize], axis: isize) -> Result<Vec<Tensor>> {
        let call = Call::new("split");
        let cut = axis_at(axis, self.shape()).map_err(|kind| self.graph().fail(call, kind))?;
        let sum = sizes.iter().try_fold(0usize, |sum, size| sum.checked_add(*size));
        if sum != Some(self.shape()[cut]) {
            let expected = format!("sizes that add up to {}", self.shape()[cut]);
            return Err(self.graph().fail(call, misfit("sizes", format!("{sizes:?}"), expected)));
        }
        let ends = sizes.iter().scan(0, |end, size| {
            *end += size;
            Some(*end)
        });
        ends.zip(sizes).map(|(end, size)| self.sliced(call, axis, end - size..end, 1)).collect()
    }

    /// Cuts an axis into `parts` parts of equal size.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// let parts = tensor([1, 2, 3, 4]).chunk(2, 0)?;
    /// check(Ok(parts[1].clone()), [3, 4]);
    /// # Ok::<(), arrayjit_tensor::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have, or whose size is no multiple of `parts`.
    #[track_caller]
    pub fn chunk(&self, parts: usize, axis: isize) -> Result<Vec<Tensor>> {
        let call = Call::new("chunk");
        let size = self.shape()[axis_at(axis, self.shape()).map_err(|kind| self.graph().fail(call, kind))?];
        if parts == 0 || parts > size.max(1) || !size.is_multiple_of(parts) {
            let kind = misfit("parts", parts, format!("a divisor of {size}, the size of axis {axis}"));
            return Err(self.graph().fail(call, kind));
        }
        self.split(&vec![size / parts; parts], axis)
    }

    /// The elements of each part of an axis that starts at a multiple of `step` and has `size` elements, on a
    /// new last axis, as torch's `unfold`.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([1, 2, 3, 4]).unfold(0, 2, 1), [[1, 2], [2, 3], [3, 4]]);
    /// ```
    ///
    /// # Errors
    /// An axis that the tensor does not have, parts that are longer than it, or a step of 0.
    #[track_caller]
    pub fn unfold(&self, axis: isize, size: usize, step: usize) -> Result<Tensor> {
        let call = Call::new("unfold");
        let unfolded = self.checked_range(call, axis, &(0..size))?;
        if step == 0 {
            return Err(self.graph().fail(call, misfit("step", "0", "1 or more")));
        }
        let mut shape = self.shape().to_vec();
        shape[unfolded] = (shape[unfolded] - size) / step + 1;
        shape.push(size);
        let mut read = letters(self.rank());
        read[unfolded] = format!("{step}*{} + {}", letter(unfolded), letter(self.rank()));
        self.moved(call, &shape, &read)
    }

    /// A tensor of this shape and type, filled with a number.
    ///
    /// ```
    /// # use arrayjit_tensor::example::*;
    /// check(tensor([[1., 2.]]).full_like(7), [[7., 7.]]);
    /// ```
    ///
    /// # Errors
    /// A number that the type cannot hold.
    #[track_caller]
    pub fn full_like(&self, value: impl TensorOperand) -> Result<Tensor> {
        let call = Call::new("full_like");
        let value = match value.argument() {
            Argument::Integer(value) => value.to_string(),
            Argument::Float(value) => number(value),
            other => {
                return Err(self.graph().fail(call, misfit("value", other.name(), "a number")));
            }
        };
        if self.num_elements() == 0 {
            return self.graph().empty(call, self.shape(), self.dtype());
        }
        let (dtype, shape) = (self.dtype(), clause(self.shape()));
        self.graph().result(call, &[], |y| format!("{} := {dtype}({value}){shape}", whole(y, self.rank())))
    }
}
