//! Running a [`PreparedRoutine`]: a walk over its steps.

use tnode::{DType, Scalar};

use super::error::Stopped;
use super::step::{
    ArrayLayout, CompiledExpr, DynamicAddress, ElementAddress, LinearIndex, LoopStep, PreparedRoutine,
    ProgramStep,
};
use super::{Buffer, InterpError};
use crate::eval;
use crate::ir::{BinaryOp, Symbol};
use crate::log::LogStyle;
use crate::stack::with_enough;

/// Errors are boxed, so that the path without errors moves no more than a value.
type Result<T> = std::result::Result<T, Box<InterpError>>;

impl PreparedRoutine {
    /// Runs the routine. `nodes` has one buffer per node and `bindings` one value per symbol, both in the
    /// routine's order; `merge` is the merge buffer, if the routine reads it.
    ///
    /// # Errors
    ///
    /// [`InterpError`]: before anything is stored if memory or bindings do not fit;
    /// [`InterpError::OutOfBounds`] in the middle of a routine that the verifier would reject.
    pub fn run(
        &self,
        nodes: &mut [Buffer<'_>],
        merge: Option<&[u8]>,
        bindings: &[i64],
    ) -> std::result::Result<(), InterpError> {
        self.run_recorded(nodes, merge, bindings, &mut |_, _| {})
    }

    /// Runs like [`run`](Self::run); `log` receives each line of the log, without its line end.
    ///
    /// # Errors
    ///
    /// [`InterpError`], in the cases of [`run`](Self::run).
    pub fn run_logged(
        &self,
        nodes: &mut [Buffer<'_>],
        merge: Option<&[u8]>,
        bindings: &[i64],
        log: &mut dyn FnMut(&str),
    ) -> std::result::Result<(), InterpError> {
        self.run_recorded(nodes, merge, bindings, &mut |line, values| {
            let mut text = String::new();
            self.lines[line].write(values, LogStyle::Exact, &mut text);
            log(text.trim_end_matches('\n'));
        })
    }

    /// Runs like [`run`](Self::run); `log` receives the number of each line, as [`crate::log`] counts them,
    /// and the values in it.
    ///
    /// # Errors
    ///
    /// [`InterpError`], in the cases of [`run`](Self::run).
    pub fn run_recorded(
        &self,
        nodes: &mut [Buffer<'_>],
        merge: Option<&[u8]>,
        bindings: &[i64],
        log: &mut dyn FnMut(usize, &[Scalar]),
    ) -> std::result::Result<(), InterpError> {
        self.check_memory(nodes, merge)?;
        self.check_bindings(bindings)?;
        let mut vars = Symbol::values(&self.symbols, bindings).to_vec();
        vars.resize(self.symbols.len() + self.loops, 0);
        let locals =
            self.locals.iter().map(|local| vec![Scalar::zero(local.dtype); local.elements]).collect();
        let mut frame = Frame { program: self, nodes, merge: merge.unwrap_or_default(), vars, locals, log };
        with_enough(|| frame.block(&self.body).map_err(Stopped)).map_err(|Stopped(error)| *error)
    }

    fn check_memory(
        &self,
        nodes: &[Buffer<'_>],
        merge: Option<&[u8]>,
    ) -> std::result::Result<(), InterpError> {
        if nodes.len() != self.nodes.len() {
            let routine = self.name.clone();
            return Err(InterpError::BufferCount { routine, expected: self.nodes.len(), found: nodes.len() });
        }
        for (array, buffer) in self.nodes.iter().zip(nodes) {
            check_size(array, "", buffer.bytes())?;
        }
        match (self.merge.map(|node| &self.nodes[node]), merge) {
            (Some(array), Some(bytes)) => check_size(array, "the merge buffer for ", bytes),
            (Some(array), None) => Err(InterpError::NoMergeBuffer { node: array.title.clone() }),
            (None, _) => Ok(()),
        }
    }

    fn check_bindings(&self, bindings: &[i64]) -> std::result::Result<(), InterpError> {
        let parameters = Symbol::parameters(&self.symbols);
        if bindings.len() != parameters.len() {
            let routine = self.name.clone();
            let (expected, found) = (parameters.len(), bindings.len());
            return Err(InterpError::BindingCount { routine, expected, found });
        }
        match Symbol::outside(&self.symbols, bindings) {
            None => Ok(()),
            Some((symbol, value)) => {
                let (range, symbol) = (symbol.least..symbol.range, symbol.name.clone());
                Err(InterpError::BindingRange { symbol, range, value })
            }
        }
    }
}

fn check_size(array: &ArrayLayout, prefix: &str, bytes: &[u8]) -> std::result::Result<(), InterpError> {
    let expected = array.elements * array.dtype.size_bytes();
    if bytes.len() == expected {
        return Ok(());
    }
    Err(InterpError::BufferSize { node: format!("{prefix}{}", array.title), expected, found: bytes.len() })
}

/// The state of a run.
struct Frame<'a, 'b> {
    program: &'a PreparedRoutine,
    nodes: &'a mut [Buffer<'b>],
    merge: &'a [u8],
    /// Values of symbols, then of loop variables.
    vars: Vec<i64>,
    locals: Vec<Vec<Scalar>>,
    log: &'a mut dyn FnMut(usize, &[Scalar]),
}

impl Frame<'_, '_> {
    fn block(&mut self, steps: &[ProgramStep]) -> Result<()> {
        for step in steps {
            self.step(step)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &ProgramStep) -> Result<()> {
        match step {
            ProgramStep::For(looped) => self.looped(looped)?,
            ProgramStep::SetNode { node, at, value } => {
                let value = self.value(value)?;
                let at = self.offset(at, &self.program.nodes[*node])?;
                let size = value.dtype().size_bytes();
                value.write(&mut self.written(*node)?[at * size..]);
            }
            ProgramStep::ZeroNode { node } => self.written(*node)?.fill(0),
            ProgramStep::FillLocal { local, value } => self.locals[*local].fill(*value),
            ProgramStep::SetLocal { local, at, value } => {
                let value = self.value(value)?;
                let at = self.offset(at, &self.program.locals[*local])?;
                self.locals[*local][at] = value;
            }
            ProgramStep::SetDynamic { node, at, op, value } => self.scatter(*node, at, *op, value)?,
            ProgramStep::Log { line, values } => self.log(*line, values)?,
        }
        Ok(())
    }

    fn looped(&mut self, looped: &LoopStep) -> Result<()> {
        let LoopStep { var, lo, limit, clips, condition, body } = looped;
        let hi = clips.iter().fold(*limit, |hi, clip| hi.min(self.linear(clip)));
        for value in *lo..hi {
            if let Some(condition) = condition
                && !self.value(condition)?.as_bool()
            {
                break;
            }
            self.vars[self.program.symbols.len() + var] = value;
            self.block(body)?;
        }
        Ok(())
    }

    /// Stores the value, combined with the old element, where the computed index is within its dimension.
    fn scatter(
        &mut self,
        node: usize,
        at: &DynamicAddress,
        op: Option<BinaryOp>,
        value: &CompiledExpr,
    ) -> Result<()> {
        let new = self.value(value)?;
        let Some(at) = self.dynamic(node, at)? else { return Ok(()) };
        let value = match op {
            None => new,
            Some(op) if op.takes_new_first() => eval::binary(op, new, self.element(node, at)),
            Some(op) => eval::binary(op, self.element(node, at), new),
        };
        value.write(&mut self.written(node)?[at * value.dtype().size_bytes()..]);
        Ok(())
    }

    fn log(&mut self, line: usize, values: &[CompiledExpr]) -> Result<()> {
        let values = values.iter().map(|value| self.value(value)).collect::<Result<Vec<_>>>()?;
        (self.log)(line, &values);
        Ok(())
    }

    fn value(&self, value: &CompiledExpr) -> Result<Scalar> {
        Ok(match value {
            CompiledExpr::Const(scalar) => *scalar,
            CompiledExpr::Index { index, dtype } => Scalar::from_i64(*dtype, self.linear(index)),
            CompiledExpr::Node { node, at } => self.read(*node, at, self.nodes[*node].bytes())?,
            CompiledExpr::Guarded { guard, node, at, otherwise } => {
                let holds = guard.iter().all(|(index, lo, hi)| (*lo..*hi).contains(&self.linear(index)));
                match holds {
                    true => self.read(*node, at, self.nodes[*node].bytes())?,
                    false => self.value(otherwise)?,
                }
            }
            CompiledExpr::Merge { node, at } => self.read(*node, at, self.merge)?,
            CompiledExpr::Local { local, at } => {
                let at = self.offset(at, &self.program.locals[*local])?;
                self.locals[*local][at]
            }
            CompiledExpr::Unary { op, arg } => eval::unary(*op, self.value(arg)?),
            CompiledExpr::Binary { op, a, b } => eval::binary(*op, self.value(a)?, self.value(b)?),
            CompiledExpr::Ternary { op, args } => {
                let [a, b, c] = args.as_ref();
                eval::ternary(*op, self.value(a)?, self.value(b)?, self.value(c)?)
            }
            CompiledExpr::Convert { to, arg } => self.value(arg)?.convert(*to),
            CompiledExpr::Bitcast { to, arg } => eval::bitcast(*to, self.value(arg)?),
            CompiledExpr::Lane { lane, arg } => eval::lane(*lane, self.value(arg)?),
            CompiledExpr::Lanes(lanes) => {
                let [a, b, c, d] = lanes.as_ref();
                eval::lanes([self.value(a)?, self.value(b)?, self.value(c)?, self.value(d)?])
            }
            CompiledExpr::DynamicAddress { node, at, otherwise } => match self.dynamic(*node, at)? {
                Some(at) => self.element(*node, at),
                None => self.value(otherwise)?,
            },
        })
    }

    /// An element of a node, from its own memory or from the merge buffer. The lengths of both were checked
    /// before the run.
    fn read(&self, node: usize, at: &ElementAddress, bytes: &[u8]) -> Result<Scalar> {
        let array = &self.program.nodes[node];
        let at = self.offset(at, array)? * array.dtype.size_bytes();
        Ok(Scalar::read(array.dtype, &bytes[at..]).unwrap_or(Scalar::zero(array.dtype)))
    }

    fn element(&self, node: usize, at: usize) -> Scalar {
        let dtype = self.program.nodes[node].dtype;
        let bytes = &self.nodes[node].bytes()[at * dtype.size_bytes()..];
        Scalar::read(dtype, bytes).unwrap_or(Scalar::zero(dtype))
    }

    /// The position of an element whose index in one dimension is computed; `None` if the index is outside of
    /// that dimension.
    fn dynamic(&self, node: usize, at: &DynamicAddress) -> Result<Option<usize>> {
        let index = self.value(&at.index)?;
        // A value that exceeds `i64` is outside of every dimension.
        let index = if index.dtype() == DType::U64 {
            index.bits().min(i64::MAX as u128) as i64
        } else {
            index.as_i64()
        };
        if !(0..at.extent).contains(&index) {
            return Ok(None);
        }
        let first = self.offset(&at.first, &self.program.nodes[node])?;
        Ok(Some(first + (index * at.stride) as usize))
    }

    fn written(&mut self, node: usize) -> Result<&mut [u8]> {
        match &mut self.nodes[node] {
            Buffer::Write(bytes) => Ok(bytes),
            Buffer::Read(_) => {
                Err(Box::new(InterpError::ReadOnly { node: self.program.nodes[node].title.clone() }))
            }
        }
    }

    /// The position of an element, within the array's elements.
    fn offset(&self, place: &ElementAddress, array: &ArrayLayout) -> Result<usize> {
        let mut offset = 0;
        for (dim, (index, extent, stride)) in place.dims.iter().enumerate() {
            let index = self.linear(index);
            if !(0..*extent).contains(&index) {
                return Err(out_of_bounds(array, dim, index));
            }
            offset += index * stride;
        }
        Ok(offset as usize)
    }

    fn linear(&self, linear: &LinearIndex) -> i64 {
        linear
            .terms
            .iter()
            .fold(linear.offset, |sum, &(var, c)| sum.wrapping_add(self.vars[var].wrapping_mul(c)))
    }
}

#[cold]
fn out_of_bounds(array: &ArrayLayout, dim: usize, index: i64) -> Box<InterpError> {
    Box::new(InterpError::OutOfBounds { array: array.title.clone(), dim, index, extent: array.dims[dim] })
}
