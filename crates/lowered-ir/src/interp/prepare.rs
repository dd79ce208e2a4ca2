//! Routine → [`PreparedRoutine`]: resolves every name, checks every type and rank.

use std::collections::BTreeMap;

use tnode::{DType, Scalar};

use super::InterpError;
use super::error::Stopped;
use super::step::{
    ArrayLayout, CompiledExpr, DynamicAddress, ElementAddress, LinearIndex, LoopStep, PreparedRoutine,
    ProgramStep,
};
use crate::ir::{
    Affine, BinaryOp, Bound, Expr, Guard, LocalId, LogPart, LoopId, LoweredRoutine, NodeDecl, NodeRef, Space,
    Stmt, SymbolId, TernaryOp, UnaryOp, Var,
};
use crate::log;
use crate::stack::with_enough;

impl PreparedRoutine {
    /// Prepares a routine.
    ///
    /// # Errors
    ///
    /// [`InterpError::Unknown`], [`InterpError::Rank`], [`InterpError::IllTyped`] and
    /// [`InterpError::TooLarge`]; none for a routine that the verifier accepts.
    pub fn new(routine: &LoweredRoutine) -> Result<PreparedRoutine, InterpError> {
        let nodes = routine.node_refs().map(node_array).collect::<Result<Vec<_>, _>>()?;
        let mut prepare = Preparer {
            routine,
            nodes: &nodes,
            locals: Vec::new(),
            merge: None,
            loops: 0,
            logs: 0,
            loop_slots: BTreeMap::new(),
            local_slots: BTreeMap::new(),
        };
        let body = with_enough(|| prepare.block(&routine.body).map_err(Stopped::from))
            .map_err(|Stopped(error)| *error)?;
        let Preparer { locals, merge, loops, .. } = prepare;
        let symbols = routine.symbols.clone();
        // This reads the types of logged values, which `block` has checked.
        let lines = log::lines(routine);
        Ok(PreparedRoutine { name: routine.name.clone(), symbols, nodes, merge, locals, loops, lines, body })
    }
}

/// The size of a node in bytes; `usize::MAX` if it is too large to address.
pub(super) fn node_bytes(node: &NodeDecl) -> usize {
    elements(&node.dims).and_then(|n| n.checked_mul(node.dtype.size_bytes())).unwrap_or(usize::MAX)
}

fn elements(dims: &[usize]) -> Option<usize> {
    dims.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim))
}

fn node_array((id, decl): (NodeRef, &NodeDecl)) -> Result<ArrayLayout, InterpError> {
    array(format!("node {id} \"{}\"", decl.name), decl.dtype, &decl.dims)
}

fn array(title: String, dtype: DType, dims: &[usize]) -> Result<ArrayLayout, InterpError> {
    let addressable =
        elements(dims).filter(|n| n.checked_mul(16).is_some_and(|bytes| bytes < isize::MAX as usize));
    let Some(elements) = addressable else {
        return Err(InterpError::TooLarge { array: title });
    };
    Ok(ArrayLayout { title, dtype, dims: dims.iter().map(|&dim| dim as i64).collect(), elements })
}

/// What the elements of a local are at first: those of a local without initial values are no results of
/// programs that store them first.
fn initial(dtype: DType, space: Space) -> Scalar {
    match space {
        Space::Scratch if dtype.is_float() => Scalar::from_f64(dtype, f64::NAN),
        Space::Scratch => Scalar::from_i64(dtype, -1),
        Space::Register | Space::Stack | Space::Workgroup | Space::Thread => Scalar::zero(dtype),
    }
}

struct Preparer<'a> {
    routine: &'a LoweredRoutine,
    nodes: &'a [ArrayLayout],
    locals: Vec<ArrayLayout>,
    merge: Option<usize>,
    loops: usize,
    /// Statements that log so far.
    logs: usize,
    /// Loop variables in scope.
    loop_slots: BTreeMap<LoopId, usize>,
    /// Locals in scope.
    local_slots: BTreeMap<LocalId, usize>,
}

type TypedValue = (CompiledExpr, DType);

impl Preparer<'_> {
    fn block(&mut self, block: &[Stmt]) -> Result<Vec<ProgramStep>, InterpError> {
        let outer = self.local_slots.clone();
        let mut steps = Vec::with_capacity(block.len());
        for stmt in block {
            self.step(stmt, &mut steps)?;
        }
        self.local_slots = outer;
        Ok(steps)
    }

    /// Appends the step of a statement. Loops recurse through this function. All other cases are functions of
    /// their own, so that this stack frame stays small.
    fn step(&mut self, stmt: &Stmt, steps: &mut Vec<ProgramStep>) -> Result<(), InterpError> {
        match stmt {
            Stmt::For { var, lo, hi, body, .. } => {
                let (clips, condition) = (self.clips(hi)?, self.condition(hi)?);
                let (var, body) = self.looped(*var, body)?;
                let looped = LoopStep { var, lo: *lo, limit: hi.limit, clips, condition, body };
                steps.push(ProgramStep::For(Box::new(looped)));
                Ok(())
            }
            Stmt::Comment(_) => Ok(()),
            _ => self.simple_step(stmt, steps),
        }
    }

    fn simple_step(&mut self, stmt: &Stmt, steps: &mut Vec<ProgramStep>) -> Result<(), InterpError> {
        steps.push(match stmt {
            Stmt::For { .. } | Stmt::Comment(_) => return Ok(()),
            Stmt::Set { node, index, value } => {
                let position = self.node(*node)?;
                let at = self.place(&self.nodes[position], index)?;
                let value = self.value_of(value, self.nodes[position].dtype, node)?;
                ProgramStep::SetNode { node: position, at, value }
            }
            Stmt::Zero { node } => ProgramStep::ZeroNode { node: self.node(*node)? },
            Stmt::Declare { local, dtype, dims, space } => {
                self.locals.push(array(format!("local {local}"), *dtype, dims)?);
                self.local_slots.insert(*local, self.locals.len() - 1);
                ProgramStep::FillLocal { local: self.locals.len() - 1, value: initial(*dtype, *space) }
            }
            Stmt::SetLocal { local, index, value } => {
                let position = self.local(*local)?;
                let at = self.place(&self.locals[position], index)?;
                let value = self.value_of(value, self.locals[position].dtype, local)?;
                ProgramStep::SetLocal { local: position, at, value }
            }
            Stmt::SetDynamic { node, index, axis, at, op, value } => {
                let position = self.node(*node)?;
                let at = self.dynamic(position, index, *axis, at)?;
                let value = self.value_of(value, self.nodes[position].dtype, node)?;
                ProgramStep::SetDynamic { node: position, at, op: *op, value }
            }
            Stmt::Log { parts } => {
                let line = self.logs;
                self.logs += 1;
                let values = parts.iter().filter_map(LogPart::value);
                let values = values.map(|value| Ok(self.value(value)?.0)).collect::<Result<_, _>>()?;
                ProgramStep::Log { line, values }
            }
        });
        Ok(())
    }

    /// The address of an element whose index in the dimension `axis` is computed.
    fn dynamic(
        &mut self,
        node: usize,
        index: &[Affine],
        axis: usize,
        at: &Expr,
    ) -> Result<DynamicAddress, InterpError> {
        let array = &self.nodes[node];
        let mut first = self.place(array, index)?;
        if axis >= first.dims.len() {
            let (expected, found) = (first.dims.len(), axis + 1);
            return Err(InterpError::Rank { array: array.title.clone(), expected, found });
        }
        let (_, extent, stride) = first.dims.remove(axis);
        let (index, found) = self.value(at)?;
        if !found.is_integer() {
            let what = format!("the computed index of {}", array.title);
            return Err(InterpError::IllTyped { what, expected: DType::I64, found });
        }
        Ok(DynamicAddress { first, extent, stride, index })
    }

    fn looped(&mut self, var: LoopId, body: &[Stmt]) -> Result<(usize, Vec<ProgramStep>), InterpError> {
        let slot = self.loops;
        self.loops += 1;
        let hidden = self.loop_slots.insert(var, slot);
        let body = self.block(body)?;
        match hidden {
            Some(outer) => self.loop_slots.insert(var, outer),
            None => self.loop_slots.remove(&var),
        };
        Ok((slot, body))
    }

    /// The value stored into something of type `dtype`.
    fn value_of(
        &mut self,
        expr: &Expr,
        dtype: DType,
        target: &dyn std::fmt::Display,
    ) -> Result<CompiledExpr, InterpError> {
        let (value, found) = self.value(expr)?;
        check_type(|| format!("the value of {target}"), dtype, found)?;
        Ok(value)
    }

    /// Expressions recurse through this function. Every case is a call, so that its temporaries are not part
    /// of this stack frame.
    fn value(&mut self, expr: &Expr) -> Result<TypedValue, InterpError> {
        match expr {
            Expr::Unary { op, arg } => self.unary(*op, arg),
            Expr::Binary { op, a, b } => self.binary(*op, a, b),
            Expr::Ternary { op, a, b, c } => self.ternary(*op, [a, b, c]),
            Expr::Convert { to, arg } => self.convert(*to, arg),
            Expr::Bitcast { to, arg } => self.bitcast(*to, arg),
            Expr::Lane { lane, arg } => self.lane(*lane, arg),
            Expr::Lanes(lanes) => self.lanes(lanes),
            Expr::GetDynamic { node, index, axis, at, otherwise } => {
                self.gathered(*node, index, *axis, at, otherwise)
            }
            Expr::GetGuarded { guard, node, index, otherwise } => {
                self.guarded(guard, *node, index, otherwise)
            }
            _ => self.leaf(expr),
        }
    }

    fn leaf(&mut self, expr: &Expr) -> Result<TypedValue, InterpError> {
        Ok(match expr {
            Expr::Const(scalar) => (CompiledExpr::Const(*scalar), scalar.dtype()),
            Expr::Index { index, dtype } => {
                (CompiledExpr::Index { index: self.linear(index)?, dtype: *dtype }, *dtype)
            }
            Expr::Get { node, index } => {
                let node = self.node(*node)?;
                let at = self.place(&self.nodes[node], index)?;
                (CompiledExpr::Node { node, at }, self.nodes[node].dtype)
            }
            Expr::GetMerge { node, index } => {
                let node = self.node(*node)?;
                let at = self.place(&self.nodes[node], index)?;
                self.merge = Some(node);
                (CompiledExpr::Merge { node, at }, self.nodes[node].dtype)
            }
            Expr::GetLocal { local, index } => {
                let local = self.local(*local)?;
                let at = self.place(&self.locals[local], index)?;
                (CompiledExpr::Local { local, at }, self.locals[local].dtype)
            }
            _ => self.value(expr)?,
        })
    }

    fn unary(&mut self, op: UnaryOp, arg: &Expr) -> Result<TypedValue, InterpError> {
        let (arg, dtype) = self.value(arg)?;
        Ok((CompiledExpr::Unary { op, arg: Box::new(arg) }, dtype))
    }

    fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Result<TypedValue, InterpError> {
        let ((a, dtype), (b, right)) = (self.value(a)?, self.value(b)?);
        check_type(|| format!("the right operand of `{op}`"), dtype, right)?;
        Ok((CompiledExpr::Binary { op, a: Box::new(a), b: Box::new(b) }, op.result(dtype)))
    }

    fn convert(&mut self, to: DType, arg: &Expr) -> Result<TypedValue, InterpError> {
        let (arg, _) = self.value(arg)?;
        Ok((CompiledExpr::Convert { to, arg: Box::new(arg) }, to))
    }

    fn bitcast(&mut self, to: DType, arg: &Expr) -> Result<TypedValue, InterpError> {
        let (arg, _) = self.value(arg)?;
        Ok((CompiledExpr::Bitcast { to, arg: Box::new(arg) }, to))
    }

    fn lane(&mut self, lane: u8, arg: &Expr) -> Result<TypedValue, InterpError> {
        let (arg, found) = self.value(arg)?;
        check_type(|| "the operand of `lane`".into(), DType::U32x4, found)?;
        Ok((CompiledExpr::Lane { lane, arg: Box::new(arg) }, DType::U32))
    }

    fn lanes(&mut self, lanes: &[Expr; 4]) -> Result<TypedValue, InterpError> {
        let mut word = |lane: &Expr| {
            let (value, found) = self.value(lane)?;
            check_type(|| "an operand of `lanes`".into(), DType::U32, found)?;
            Ok(value)
        };
        let [a, b, c, d] = lanes;
        let lanes = [word(a)?, word(b)?, word(c)?, word(d)?];
        Ok((CompiledExpr::Lanes(Box::new(lanes)), DType::U32x4))
    }

    fn gathered(
        &mut self,
        node: NodeRef,
        index: &[Affine],
        axis: usize,
        at: &Expr,
        otherwise: &Expr,
    ) -> Result<TypedValue, InterpError> {
        let node = self.node(node)?;
        let dtype = self.nodes[node].dtype;
        let at = Box::new(self.dynamic(node, index, axis, at)?);
        let (otherwise, found) = self.value(otherwise)?;
        check_type(|| format!("the value outside of {}", self.nodes[node].title), dtype, found)?;
        Ok((CompiledExpr::DynamicAddress { node, at, otherwise: Box::new(otherwise) }, dtype))
    }

    fn guarded(
        &mut self,
        guard: &Guard,
        node: NodeRef,
        index: &[Affine],
        otherwise: &Expr,
    ) -> Result<TypedValue, InterpError> {
        let node = self.node(node)?;
        let dtype = self.nodes[node].dtype;
        let guard =
            guard.iter().map(|r| Ok((self.linear(&r.index)?, r.lo, r.hi))).collect::<Result<_, _>>()?;
        let at = self.place(&self.nodes[node], index)?;
        let (otherwise, found) = self.value(otherwise)?;
        check_type(|| format!("the value where {} is not read", self.nodes[node].title), dtype, found)?;
        Ok((CompiledExpr::Guarded { guard, node, at, otherwise: Box::new(otherwise) }, dtype))
    }

    fn ternary(&mut self, op: TernaryOp, args: [&Expr; 3]) -> Result<TypedValue, InterpError> {
        let [(a, ta), (b, tb), (c, tc)] = [self.value(args[0])?, self.value(args[1])?, self.value(args[2])?];
        let first = if op == TernaryOp::Where { DType::Bool } else { tb };
        check_type(|| format!("the first operand of `{op}`"), first, ta)?;
        check_type(|| format!("the third operand of `{op}`"), tb, tc)?;
        Ok((CompiledExpr::Ternary { op, args: Box::new([a, b, c]) }, tb))
    }

    fn place(&self, array: &ArrayLayout, index: &[Affine]) -> Result<ElementAddress, InterpError> {
        if index.len() != array.dims.len() {
            return Err(InterpError::Rank {
                array: array.title.clone(),
                expected: array.dims.len(),
                found: index.len(),
            });
        }
        let mut stride = 1;
        let mut dims = Vec::with_capacity(index.len());
        for (affine, &extent) in index.iter().zip(&array.dims).rev() {
            dims.push((self.linear(affine)?, extent, stride));
            stride *= extent;
        }
        dims.reverse();
        Ok(ElementAddress { dims })
    }

    fn clips(&self, bound: &Bound) -> Result<Vec<LinearIndex>, InterpError> {
        bound.clips().iter().map(|clip| self.linear(clip)).collect()
    }

    fn condition(&self, bound: &Bound) -> Result<Option<CompiledExpr>, InterpError> {
        let Some(node) = bound.condition() else { return Ok(None) };
        let node = self.node(node)?;
        let first = vec![Affine::constant(0); self.nodes[node].dims.len()];
        Ok(Some(CompiledExpr::Node { node, at: self.place(&self.nodes[node], &first)? }))
    }

    fn linear(&self, affine: &Affine) -> Result<LinearIndex, InterpError> {
        let terms = affine.terms().iter().map(|&(var, c)| Ok((self.variable(var)?, c)));
        Ok(LinearIndex { terms: terms.collect::<Result<_, _>>()?, offset: affine.offset() })
    }

    /// The position of a variable: symbols come first, loop variables after them.
    fn variable(&self, var: Var) -> Result<usize, InterpError> {
        match var {
            Var::Symbol(symbol) => self.symbol(symbol),
            Var::Loop(id) => {
                let slot = self.loop_slots.get(&id).ok_or_else(|| self.unknown(&id))?;
                Ok(self.routine.symbols.len() + slot)
            }
        }
    }

    fn symbol(&self, symbol: SymbolId) -> Result<usize, InterpError> {
        let known = symbol.index() < self.routine.symbols.len();
        known.then(|| symbol.index()).ok_or_else(|| self.unknown(&symbol))
    }

    fn node(&self, node: NodeRef) -> Result<usize, InterpError> {
        let known = node.index() < self.nodes.len();
        known.then(|| node.index()).ok_or_else(|| self.unknown(&node))
    }

    fn local(&self, local: LocalId) -> Result<usize, InterpError> {
        self.local_slots.get(&local).copied().ok_or_else(|| self.unknown(&local))
    }

    fn unknown(&self, what: &dyn std::fmt::Display) -> InterpError {
        InterpError::Unknown { routine: self.routine.name.clone(), what: what.to_string() }
    }
}

fn check_type(what: impl FnOnce() -> String, expected: DType, found: DType) -> Result<(), InterpError> {
    if expected == found {
        return Ok(());
    }
    Err(InterpError::IllTyped { what: what(), expected, found })
}
