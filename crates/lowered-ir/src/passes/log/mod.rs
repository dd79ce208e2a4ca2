//! Instruments a routine to log its computation: every iteration of a loop, and every store with the values
//! from which it is computed.
//!
//! ```text
//! index i0 = 1                            each iteration; first of all, each static symbol
//! COMMENT: a remark of the routine
//! # y[i0] := y[i0] + x[i0]                the statement that runs next
//! y[1]{=2.0} = 5.0 = y[1]{=2.0} + x[1]{=3.0}  target, old value, new value, expression
//! # zero y                                all elements of a node at once
//! ```
//!
//! * The old value of the target is shown where the statement itself reads it; otherwise it may be undefined.
//! * Every read shows its value. A read whose guard fails, or whose computed index is outside of its
//!   dimension, shows its alternative value. Logging reads no memory that the statement does not read.
//! * A store at a computed index logs whether it is `inside` the dimension; outside of it nothing is stored.
//! * Nodes appear by name, followed by their position if several nodes have the same name. Line ends within
//!   names are written `\n`.
//!
//! Vector loops become unrolled loops and parallel loops serial ones, since the order of logging iterations
//! can be observed. Every value is computed once, before the line is logged, and nothing is stored in
//! between, so the routine computes the same results.

mod line;

use tnode::{DType, Dims, Scalar};

use crate::ir::{
    Affine, BinaryOp, Block, Expr, Fresh, Indices, LocalDecl, Locals, LoopKind, LoweredRoutine, NodeRef,
    Space, Stmt, SymbolId, walk,
};
use line::{LineDetail, LineWriter, NodeNames};

/// The routine with its log. Expects a routine that the verifier accepts, and gives one that it accepts.
pub fn log_values(routine: &LoweredRoutine) -> LoweredRoutine {
    let mut logger =
        Logger { routine, names: NodeNames::of(routine), fresh: routine.fresh(), locals: routine.locals() };
    let mut body: Block = (0..routine.symbols.len() as u32).map(|s| logger.symbol(SymbolId(s))).collect();
    body.append(&mut logger.block(&routine.body));
    LoweredRoutine { body, ..routine.clone() }
}

struct Logger<'r> {
    routine: &'r LoweredRoutine,
    names: NodeNames,
    fresh: Fresh,
    /// The routine's locals, and the new locals that hold logged values.
    locals: Locals,
}

impl Logger<'_> {
    fn line(&self, shown: LineDetail, write: impl FnOnce(&mut LineWriter<'_>)) -> Stmt {
        let mut writer = LineWriter::new(self.routine, &self.names, shown);
        write(&mut writer);
        Stmt::Log { parts: writer.finish() }
    }

    fn symbol(&self, symbol: SymbolId) -> Stmt {
        self.index(&Affine::var(symbol))
    }

    /// `index i0 = 3`.
    fn index(&self, var: &Affine) -> Stmt {
        self.line(LineDetail::Source, |line| {
            line.text("index ");
            line.index(var);
            line.text(" = ");
            line.value(Expr::Index { index: var.clone(), dtype: DType::I64 });
        })
    }

    /// `# y[i0] := …`.
    fn source(&self, write: impl FnOnce(&mut LineWriter<'_>)) -> Stmt {
        self.line(LineDetail::Source, |line| {
            line.text("# ");
            write(line);
        })
    }

    fn block(&mut self, block: &[Stmt]) -> Block {
        let mut logged = Block::new();
        for stmt in block {
            self.stmt(stmt, &mut logged);
        }
        logged
    }

    fn stmt(&mut self, stmt: &Stmt, out: &mut Block) {
        match stmt {
            Stmt::For { var, lo, hi, kind, body } => {
                let mut inside = vec![self.index(&Affine::var(*var))];
                inside.append(&mut self.block(body));
                out.push(Stmt::For {
                    var: *var,
                    lo: *lo,
                    hi: hi.clone(),
                    kind: in_order(*kind),
                    body: inside,
                });
            }
            Stmt::Set { node, index, value } => {
                let target = Expr::Get { node: *node, index: index.clone() };
                let store = |value| Stmt::Set { node: *node, index: index.clone(), value };
                self.store(&target, value, store, out);
            }
            Stmt::SetLocal { local, index, value } => {
                let target = Expr::GetLocal { local: *local, index: index.clone() };
                let store = |value| Stmt::SetLocal { local: *local, index: index.clone(), value };
                self.store(&target, value, store, out);
            }
            Stmt::SetDynamic { node, index, axis, at, op, value } => {
                self.scatter((*node, index, *axis), at, *op, value, out);
            }
            Stmt::Zero { node } => {
                out.push(self.source(|line| {
                    line.text("zero ");
                    line.node(*node);
                }));
                out.push(stmt.clone());
            }
            Stmt::Comment(remark) => {
                out.push(stmt.clone());
                out.push(self.line(LineDetail::Source, |line| {
                    line.text("COMMENT: ");
                    line.name(remark);
                }));
            }
            Stmt::Declare { local, dtype, dims, space } => out.push(Stmt::Declare {
                local: *local,
                dtype: *dtype,
                dims: dims.clone(),
                space: space.of_one_thread(),
            }),
            Stmt::Log { .. } => out.push(stmt.clone()),
        }
    }

    /// A store of `value` into the element that `target` reads.
    fn store(&mut self, target: &Expr, value: &Expr, store: impl FnOnce(Expr) -> Stmt, out: &mut Block) {
        out.push(self.source(|line| {
            line.place(target);
            line.text(" := ");
            line.expr(value);
        }));
        let new = self.computed(value, out);
        out.push(self.line(LineDetail::Values, |line| {
            line.place(target);
            if mentions(value, target) {
                line.equals(target.clone());
            }
            line.text(" = ");
            line.value(new.clone());
            line.text(" = ");
            line.expr(value);
        }));
        out.push(store(new));
    }

    /// A store at a computed index.
    fn scatter(
        &mut self,
        (node, index, axis): (NodeRef, &Indices, usize),
        at: &Expr,
        op: Option<BinaryOp>,
        value: &Expr,
        out: &mut Block,
    ) {
        let place = |at: &Expr, dtype| Expr::GetDynamic {
            node,
            index: index.clone(),
            axis,
            at: Box::new(at.clone()),
            otherwise: Box::new(Expr::Const(Scalar::zero(dtype))),
        };
        let dtype = self.routine.node(node).dtype;
        out.push(self.source(|line| {
            line.text("scatter ");
            if let Some(op) = op {
                line.text(&format!("{op} "));
            }
            line.place(&place(at, dtype));
            line.text(" := ");
            line.expr(value);
        }));
        let (new_at, operand) = (self.computed(at, out), self.computed(value, out));
        let old = place(&new_at, dtype);
        let new = match op {
            None => operand.clone(),
            Some(op) if op.takes_new_first() => Expr::binary(op, operand.clone(), old.clone()),
            Some(op) => Expr::binary(op, old.clone(), operand.clone()),
        };
        let new = self.computed(&new, out);
        let inside = self.inside(&new_at, self.routine.node(node).dims[axis]);
        let inside = self.computed(&inside, out);
        out.push(self.line(LineDetail::Values, |line| {
            line.place(&place(at, dtype));
            if op.is_some() {
                line.equals(old);
            }
            line.text(" = ");
            line.value(new);
            line.text(" = ");
            line.expr(value);
            line.text(", inside = ");
            line.value(inside);
        }));
        let (index, at) = (index.clone(), new_at);
        out.push(Stmt::SetDynamic { node, index, axis, at: Box::new(at), op, value: operand });
    }

    /// Whether a computed index is within `0..dim`. Indices beyond `i64` wrap to negative ones, which are
    /// outside as well.
    fn inside(&self, at: &Expr, dim: usize) -> Expr {
        let dtype = compared_in(self.routine.dtype_of(at, &self.locals), dim);
        let constant = |x: usize| Expr::Const(Scalar::from_i64(dtype, x as i64));
        let at = Expr::convert(dtype, at.clone());
        let not_below = Expr::binary(BinaryOp::Le, constant(0), at.clone());
        Expr::binary(BinaryOp::BitAnd, not_below, Expr::binary(BinaryOp::Lt, at, constant(dim)))
    }

    /// The value, computed by a statement of its own.
    fn computed(&mut self, value: &Expr, out: &mut Block) -> Expr {
        let dtype = self.routine.dtype_of(value, &self.locals);
        let local = self.fresh.local_id();
        self.locals.insert(local, LocalDecl { dtype, dims: Dims::new(), space: Space::Register });
        out.push(Stmt::scalar(local, dtype));
        out.push(Stmt::set_scalar(local, value.clone()));
        Expr::local(local)
    }
}

/// A type that holds every index of type `at` and the size of a dimension. It has 32 bits where possible,
/// because some targets have no wider type.
fn compared_in(at: DType, dim: usize) -> DType {
    match at {
        DType::Bool | DType::I8 | DType::U8 | DType::U16 | DType::I32 if i32::try_from(dim).is_ok() => {
            DType::I32
        }
        DType::U32 if u32::try_from(dim).is_ok() => DType::U32,
        _ => DType::I64,
    }
}

/// Whether the expression contains this read, written with the same indices.
fn mentions(value: &Expr, read: &Expr) -> bool {
    walk::parts(value).any(|expr| expr == read)
}

/// The kind of a loop whose iterations log in order. Vector loops become unrolled and not serial, because
/// indices of register arrays may use the variables of unrolled loops only.
fn in_order(kind: LoopKind) -> LoopKind {
    match kind {
        LoopKind::Serial | LoopKind::Scan | LoopKind::Parallel | LoopKind::Workgroup => LoopKind::Serial,
        LoopKind::Unrolled | LoopKind::Vector => LoopKind::Unrolled,
    }
}
