//! Runs a routine on numbers with radii, like the interpreter runs it on numbers.
//!
//! Small and slow: names are looked up at each use. A test on the corpus checks that the numbers are the
//! interpreter's, bit for bit.

use std::collections::BTreeMap;

use filetests::RunCase;
use lowered_ir::eval;
use lowered_ir::ir::{Affine, BinaryOp, Block, Expr, Guard, Indices, LocalId, NodeRef, Numerics, Stmt, Var};
use tnode::{DType, Scalar};

use super::{Approx, promises, value};
use crate::corpus::scalars;

/// Runs the case and returns the elements of every node.
pub(super) fn run(case: &RunCase) -> Result<Vec<Vec<Approx>>, String> {
    let routine = &case.routine;
    let of_node = |(decl, bytes): (&lowered_ir::ir::NodeDecl, &Vec<u8>)| {
        scalars(bytes, decl.dtype).map(Approx::exact).collect()
    };
    let symbols = (0u32..).zip(&case.bindings);
    let mut machine = BoundsMachine {
        case,
        nodes: routine.nodes.iter().zip(&case.inputs).map(of_node).collect(),
        locals: BTreeMap::new(),
        vars: symbols.map(|(at, value)| (Var::Symbol(lowered_ir::ir::SymbolId(at)), *value)).collect(),
    };
    machine.block(&routine.body)?;
    Ok(machine.nodes)
}

/// A declared local.
struct DeclaredLocal {
    dims: Vec<usize>,
    elements: Vec<Approx>,
}

struct BoundsMachine<'a> {
    case: &'a RunCase,
    nodes: Vec<Vec<Approx>>,
    locals: BTreeMap<LocalId, DeclaredLocal>,
    vars: BTreeMap<Var, i64>,
}

impl BoundsMachine<'_> {
    fn block(&mut self, block: &Block) -> Result<(), String> {
        block.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), String> {
        match stmt {
            Stmt::For { var, lo, hi, kind: _, body } => {
                let end = hi.eval(|var| match var {
                    Var::Symbol(symbol) => self.case.bindings.get(symbol.index()).copied().unwrap_or(0),
                    Var::Loop(_) => self.vars.get(&var).copied().unwrap_or(0),
                });
                for i in *lo..end {
                    self.vars.insert(Var::Loop(*var), i);
                    self.block(body)?;
                }
            }
            Stmt::Set { node, index, value } => {
                let value = self.eval(value)?;
                let at = self.node_position(*node, index)?;
                *element(&mut self.nodes[node.index()], at)? = value;
            }
            Stmt::SetDynamic { node, index, axis, at, op, value } => {
                self.set_dynamic(*node, index, *axis, at, *op, value)?;
            }
            Stmt::Zero { node } => {
                let zero = Approx::exact(Scalar::zero(self.case.routine.node(*node).dtype));
                self.nodes[node.index()].fill(zero);
            }
            Stmt::Declare { local, dtype, dims, space: _ } => {
                let dims: Vec<usize> = dims.iter().copied().collect();
                let elements = vec![Approx::exact(Scalar::zero(*dtype)); dims.iter().product()];
                self.locals.insert(*local, DeclaredLocal { dims, elements });
            }
            Stmt::SetLocal { local, index, value } => {
                let value = self.eval(value)?;
                let at = self.local_position(*local, index)?;
                let local = self.locals.get_mut(local).ok_or("an undeclared local")?;
                *element(&mut local.elements, at)? = value;
            }
            Stmt::Comment(_) | Stmt::Log { .. } => {}
        }
        Ok(())
    }

    fn set_dynamic(
        &mut self,
        node: NodeRef,
        index: &Indices,
        axis: usize,
        at: &Expr,
        op: Option<BinaryOp>,
        value: &Expr,
    ) -> Result<(), String> {
        let (at, value) = (self.eval(at)?, self.eval(value)?);
        let dims = &self.case.routine.node(node).dims;
        if let Some(at) = within(at.value, dims[axis]) {
            let position = self.position(dims, index, Some((axis, at)))?;
            let element = element(&mut self.nodes[node.index()], position)?;
            *element = match op {
                None => value,
                Some(op) if op.takes_new_first() => value::binary(op, value, *element),
                Some(op) => value::binary(op, *element, value),
            };
        }
        if at.radius > 0.0 {
            // The index is uncertain, so the store may hit any element.
            self.nodes[node.index()].iter_mut().for_each(|element| *element = element.open());
        }
        Ok(())
    }

    fn eval(&self, expr: &Expr) -> Result<Approx, String> {
        Ok(match expr {
            Expr::Const(value) => Approx::exact(*value),
            Expr::Index { index, dtype } => Approx::exact(Scalar::from_i64(*dtype, self.index(index)?)),
            Expr::Get { node, index } => self.get(*node, self.node_position(*node, index)?)?,
            Expr::GetGuarded { guard, node, index, otherwise } => match self.holds(guard)? {
                true => self.get(*node, self.node_position(*node, index)?)?,
                false => self.eval(otherwise)?,
            },
            Expr::GetDynamic { node, index, axis, at, otherwise } => {
                self.get_dynamic(*node, index, *axis, self.eval(at)?, otherwise)?
            }
            Expr::GetMerge { node, index } => {
                let dtype = self.case.routine.node(*node).dtype;
                let at = self.node_position(*node, index)? * dtype.size_bytes();
                let bytes = self.case.merge.as_deref().and_then(|bytes| bytes.get(at..));
                Approx::exact(bytes.and_then(|bytes| Scalar::read(dtype, bytes)).ok_or("no merge buffer")?)
            }
            Expr::GetLocal { local, index } => {
                let at = self.local_position(*local, index)?;
                let local = self.locals.get(local).ok_or("an undeclared local")?;
                *local.elements.get(at).ok_or("an index outside of a local")?
            }
            Expr::Unary { op, arg } => value::unary(*op, self.eval(arg)?),
            Expr::Binary { op: BinaryOp::Mul, a, b } => {
                let (x, y) = (self.eval(a)?, self.eval(b)?);
                let product = self.charged(BinaryOp::Mul, x, y);
                let vanishes = value::vanishes(x, y) || value::vanishes(y, x);
                // A constant factor is certain: code generators see it at compile time, as the interpreter
                // does.
                let is_plain = [a, b].iter().any(|factor| matches!(***factor, Expr::Const(_)));
                if vanishes && !is_plain { product.open() } else { product }
            }
            Expr::Binary { op, a, b } => self.charged(*op, self.eval(a)?, self.eval(b)?),
            Expr::Ternary { op, a, b, c } => value::ternary(*op, self.eval(a)?, self.eval(b)?, self.eval(c)?),
            Expr::Convert { to, arg } => value::convert(*to, self.eval(arg)?),
            Expr::Bitcast { to, arg } if matches!(**arg, Expr::Get { .. } | Expr::Const(_)) => {
                value::of_bits(&[self.eval(arg)?], |x| eval::bitcast(*to, x[0]))
            }
            Expr::Bitcast { to, arg } => value::bitcast_computed(*to, self.eval(arg)?),
            Expr::Lane { lane, arg } => value::of_bits(&[self.eval(arg)?], |x| eval::lane(*lane, x[0])),
            Expr::Lanes(lanes) => {
                let lanes = lanes.iter().map(|lane| self.eval(lane)).collect::<Result<Vec<_>, _>>()?;
                value::of_bits(&lanes, |x| eval::lanes([x[0], x[1], x[2], x[3]]))
            }
        })
    }

    /// `a op b`. A sum of class `Fast` may be reordered, so that an intermediate sum may be as great as the
    /// magnitudes of both operands together even if they cancel.
    fn charged(&self, op: BinaryOp, a: Approx, b: Approx) -> Approx {
        let result = value::binary(op, a, b);
        let reordered =
            self.case.routine.numerics == Numerics::Fast && matches!(op, BinaryOp::Add | BinaryOp::Sub);
        match reordered && result.radius > 0.0 {
            true => {
                let magnitude = a.value.as_f64().abs() + b.value.as_f64().abs();
                let more = promises::last_place(magnitude, result.value.dtype());
                Approx { radius: result.radius + more, ..result }
            }
            false => result,
        }
    }

    fn get_dynamic(
        &self,
        node: NodeRef,
        index: &Indices,
        axis: usize,
        at: Approx,
        otherwise: &Expr,
    ) -> Result<Approx, String> {
        let otherwise = self.eval(otherwise)?;
        let dims = &self.case.routine.node(node).dims;
        let found = match within(at.value, dims[axis]) {
            Some(at) => self.get(node, self.position(dims, index, Some((axis, at)))?)?,
            None => otherwise,
        };
        Ok(if at.radius > 0.0 { found.open() } else { found })
    }

    fn get(&self, node: NodeRef, at: usize) -> Result<Approx, String> {
        self.nodes[node.index()].get(at).copied().ok_or_else(|| format!("an index outside of {node}"))
    }

    fn holds(&self, guard: &Guard) -> Result<bool, String> {
        for range in guard {
            if !(range.lo..range.hi).contains(&self.index(&range.index)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn index(&self, index: &Affine) -> Result<i64, String> {
        let mut missing = None;
        let value = index.eval(|var| {
            self.vars.get(&var).copied().unwrap_or_else(|| {
                missing = Some(var);
                0
            })
        });
        missing.map_or(Ok(value), |var| Err(format!("{var} has no value")))
    }

    fn node_position(&self, node: NodeRef, index: &Indices) -> Result<usize, String> {
        self.position(&self.case.routine.node(node).dims, index, None)
    }

    fn local_position(&self, local: LocalId, index: &Indices) -> Result<usize, String> {
        self.position(&self.locals.get(&local).ok_or("an undeclared local")?.dims, index, None)
    }

    /// The position of an element. For one dimension the index may be given.
    fn position(
        &self,
        dims: &[usize],
        index: &Indices,
        given: Option<(usize, usize)>,
    ) -> Result<usize, String> {
        let mut position = 0;
        for (axis, (dim, index)) in dims.iter().zip(index).enumerate() {
            let at = match given {
                Some((given, at)) if given == axis => at,
                _ => usize::try_from(self.index(index)?).map_err(|_| "a negative index")?,
            };
            if at >= *dim {
                return Err(format!("index {at} in a dimension of {dim}"));
            }
            position = position * dim + at;
        }
        Ok(position)
    }
}

fn element(elements: &mut [Approx], at: usize) -> Result<&mut Approx, String> {
    elements.get_mut(at).ok_or_else(|| "an index outside of its array".to_owned())
}

/// A computed index as a position in the dimension, if it is in bounds.
fn within(at: Scalar, dim: usize) -> Option<usize> {
    let unsigned = at.dtype() == DType::U64;
    let at = if unsigned { u64::try_from(at.bits()).ok()? } else { u64::try_from(at.as_i64()).ok()? };
    usize::try_from(at).ok().filter(|at| *at < dim)
}
