//! Scalar expressions: one value, or lanes if the operands differ between the lanes of the current vector
//! loop.

use codegen_core::emit::LinearValue;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Opcode, Value, types};
use lowered_ir::ir::{Affine, BinaryOp, Expr, Guard, Indices, LoopId, NodeRef, Range, TernaryOp, UnaryOp};
use tnode::{DType, Scalar};

use super::Emitter;
use super::dynamic::ComputedElement;
use super::repr::{self, LANES, Val};

impl Emitter<'_> {
    /// Emits an expression; returns its type and value.
    pub(super) fn expr(&mut self, expr: &Expr) -> (DType, Val) {
        match expr {
            Expr::Const(scalar) => (scalar.dtype(), self.scalar(*scalar)),
            Expr::Index { index, dtype } => (*dtype, self.index_value(index, *dtype)),
            Expr::Get { node, index } | Expr::GetMerge { node, index } => {
                let element = self.node_element(*node, index);
                (self.routine.node(*node).dtype, self.load(&element))
            }
            Expr::GetGuarded { guard, node, index, otherwise } => {
                self.guarded(guard, *node, index, otherwise)
            }
            Expr::GetDynamic { node, index, axis, at, otherwise } => {
                let element = ComputedElement { node: *node, index, axis: *axis };
                self.gather(&element, at, otherwise)
            }
            Expr::Lane { lane, arg } => {
                let (_, x) = self.expr(arg);
                (DType::U32, Val::one(self.ssa.extract(x.first(), usize::from(*lane))))
            }
            Expr::Lanes(lanes) => (DType::U32x4, self.lanes(lanes)),
            Expr::GetLocal { local, index } => (self.locals[local].dtype, self.get_local(*local, index)),
            Expr::Unary { op, arg } => {
                let (dtype, x) = self.expr(arg);
                (dtype, self.unary(*op, dtype, &x))
            }
            Expr::Binary { op, a, b } => self.binary_expr(*op, a, b),
            Expr::Ternary { op, a, b, c } => self.ternary_expr(*op, a, b, c),
            Expr::Convert { to, arg } => {
                let (from, x) = self.expr(arg);
                (*to, self.convert(from, *to, &x))
            }
            Expr::Bitcast { to, arg } => {
                let (from, x) = self.expr(arg);
                (*to, self.bitcast(from, *to, &x))
            }
        }
    }

    fn binary_expr(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> (DType, Val) {
        let (dtype, x) = self.expr(a);
        if let (BinaryOp::Shl | BinaryOp::Shr, Expr::Const(amount)) = (op, b)
            && dtype.is_integer()
        {
            return (dtype, self.shift(op, dtype, &x, amount.bits() as u64));
        }
        let (_, y) = self.expr(b);
        let [x, y] = self.alike([(dtype, x), (dtype, y)]);
        (op.result(dtype), self.binary(op, dtype, &x, &y))
    }

    fn ternary_expr(&mut self, op: TernaryOp, a: &Expr, b: &Expr, c: &Expr) -> (DType, Val) {
        if let (TernaryOp::Where, Expr::Unary { op: op @ (UnaryOp::Sin | UnaryOp::Cos), arg }) = (op, c) {
            let ((condition, x), (dtype, y), (_, z)) = (self.condition(a), self.expr(b), self.expr(arg));
            let [x, y, z] = self.alike([(condition, x), (dtype, y), (dtype, z)]);
            return (dtype, self.unless_called(&x, &y, *op, &z));
        }
        let (first, mut x) = if op == TernaryOp::Where { self.condition(a) } else { self.expr(a) };
        let [(dtype, mut y), (_, z)] = [b, c].map(|e| self.expr(e));
        // The instruction overwrites the first operand's register, which should hold lanes rather than a
        // value that is needed again.
        if op == TernaryOp::Fma && y.wide && !x.wide {
            std::mem::swap(&mut x, &mut y);
        }
        let [x, y, z] = self.alike([(first, x), (dtype, y), (dtype, z)]);
        let value = match op {
            TernaryOp::Where => self.select(dtype, &x, &y, &z),
            // Legalization expands `mul3`.
            TernaryOp::Fma | TernaryOp::Mul3 => self.fma(dtype, &x, &y, &z),
        };
        (dtype, value)
    }

    /// Emits a condition. A comparison of lanes yields masks of their width.
    fn condition(&mut self, condition: &Expr) -> (DType, Val) {
        match condition {
            Expr::Binary { op, a, b } if op.is_comparison() => {
                let [(dtype, x), (_, y)] = [a, b].map(|e| self.expr(e));
                let [x, y] = self.alike([(dtype, x), (dtype, y)]);
                if dtype == DType::Bool {
                    return (DType::Bool, self.binary(*op, dtype, &x, &y));
                }
                (DType::Bool, self.compare_masks(*op, dtype, &x, &y))
            }
            _ => self.expr(condition),
        }
    }

    /// Converts all operands to lanes if one of them has lanes.
    pub(super) fn alike<const N: usize>(&mut self, args: [(DType, Val); N]) -> [Val; N] {
        let wide = args.iter().any(|(_, v)| v.wide);
        args.map(|(dtype, v)| if wide { self.widened(dtype, &v) } else { v })
    }

    /// Converts a value to lanes.
    pub(super) fn widened(&mut self, dtype: DType, value: &Val) -> Val {
        if value.wide { value.clone() } else { self.broadcast(dtype, value.first()) }
    }

    pub(super) fn scalar(&mut self, scalar: Scalar) -> Val {
        let ty = repr::one(scalar.dtype());
        Val::one(match scalar.dtype() {
            DType::U32x4 => self.ssa.vector(ty, scalar.bits().to_le_bytes()),
            _ => self.splat_bits(ty, scalar.bits() as u64),
        })
    }

    fn index_value(&mut self, index: &Affine, dtype: DType) -> Val {
        let first = self.index(index);
        let ty = repr::one(dtype);
        let first = self.reduce(ty, first);
        let step = self.lane.map_or(0, |lane| index.coefficient(lane));
        if step == 0 {
            return Val::one(first);
        }
        let lanes = self.broadcast(dtype, first);
        let per_part = LANES / repr::wide_parts(dtype);
        let size = dtype.size_bytes();
        let parts: Vec<Value> = (0..lanes.parts.len())
            .map(|part| {
                let bytes = std::array::from_fn(|i| {
                    let lane = (part * per_part + i / size) as i64;
                    lane.wrapping_mul(step).to_le_bytes()[i % size]
                });
                let steps = self.ssa.vector(repr::wide(dtype), bytes);
                self.ssa.binary(Opcode::Iadd, lanes.parts[part], steps)
            })
            .collect();
        Val::lanes(parts)
    }

    /// A guarded read. If the guard fails, the address of the array's start is read instead, without a
    /// branch.
    fn guarded(&mut self, guard: &Guard, node: NodeRef, index: &Indices, otherwise: &Expr) -> (DType, Val) {
        let (dtype, other) = self.expr(otherwise);
        let elements: usize = self.routine.node(node).dims.iter().product();
        if elements == 0 {
            return (dtype, other);
        }
        let element = self.node_element(node, index);
        let varies = self.lane.is_some_and(|lane| guard.iter().any(|range| range.index.mentions(lane)));
        if !varies && (!element.is_spread() || (element.is_contiguous() && elements >= LANES)) {
            let condition = self.holds(guard, 0);
            let read = self.load_if(&element, condition);
            let [condition, read, other] =
                self.alike([(DType::Bool, Val::one(condition)), (dtype, read), (dtype, other)]);
            return (dtype, self.select(dtype, &condition, &read, &other));
        }
        let lanes: Vec<Value> = (0..LANES)
            .map(|lane| {
                let condition = self.holds(guard, lane);
                let read = self.load_lane_if(&element, lane, condition);
                let other = self.lane(dtype, &other, lane);
                self.ssa.ternary(Opcode::Select, condition, read, other)
            })
            .collect();
        (dtype, self.assemble(dtype, &lanes))
    }

    /// Whether a guard holds in a lane, as 0 or 1.
    fn holds(&mut self, guard: &Guard, lane: usize) -> Value {
        guard
            .iter()
            .fold(None, |all, range| {
                let one = self.in_range(range, lane);
                Some(match all {
                    None => one,
                    Some(all) => self.ssa.binary(Opcode::Band, all, one),
                })
            })
            .unwrap_or_else(|| self.ssa.int(types::I8, 1))
    }

    /// `lo <= index < hi`, as one unsigned comparison of `index - lo`.
    fn in_range(&mut self, range: &Range, lane: usize) -> Value {
        let Some(width) = range.hi.checked_sub(range.lo).filter(|&width| width > 0) else {
            return self.ssa.int(types::I8, 0);
        };
        let step = self.lane.map_or(0, |var| range.index.coefficient(var));
        let distance = range.index.plus_constant((lane as i64).wrapping_mul(step).wrapping_sub(range.lo));
        let distance = self.index(&distance);
        let width = self.ssa.int(types::I64, width);
        self.ssa.icmp(IntCC::UnsignedLessThan, distance, width)
    }

    /// Sets the value of a loop variable for the following code.
    pub(super) fn bind(&mut self, var: LoopId, index: LinearValue<Value>) {
        self.vars.insert(var, index);
    }
}
