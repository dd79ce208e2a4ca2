//! The accesses of a piece of IR to nodes, and their consequences: independent iterations, complete
//! overwrites.
//!
//! All answers are conservative: `true` is proved, `false` means that no proof was found.

use std::collections::BTreeSet;

use lowered_ir::ir::{
    Affine, ArrayRef, Expr, IdMap, IdSet, Indices, LocalId, LoopId, LoweredRoutine, NodeRef, Stmt, Symbol,
    Var, walk,
};

/// An access to a node.
#[derive(Clone, Copy, Debug)]
pub struct Touch<'a> {
    /// The node.
    pub node: NodeRef,
    /// The index of the element; `None` if the access is to all elements or to one with a computed index.
    pub index: Option<&'a Indices>,
    /// The indices of an element with one computed index, and the dimension of the computed one.
    pub computed: Option<(&'a Indices, usize)>,
    /// Whether the access is a write.
    pub write: bool,
}

impl<'a> Touch<'a> {
    /// The indices as written, one of which may be computed; none if the access is to all elements.
    pub fn indices(&self) -> Option<&'a Indices> {
        self.index.or(self.computed.map(|(indices, _)| indices))
    }
}

/// Every access in the block in order, the reads of a statement before its write. Accesses to merge buffers
/// are left out.
pub fn touches(block: &[Stmt]) -> Vec<Touch<'_>> {
    // Most blocks have a few accesses, and a list that grows from nothing moves several times.
    let mut found = Vec::with_capacity(16);
    walk::stmts(block).for_each(|stmt| {
        stmt.parts().filter_map(read).for_each(|touch| found.push(touch));
        let condition = stmt.condition();
        found.extend(condition.map(|node| Touch { node, index: None, computed: None, write: false }));
        let (node, index, computed) = match stmt {
            Stmt::Set { node, index, .. } => (*node, Some(index), None),
            Stmt::SetDynamic { node, index, axis, .. } => (*node, None, Some((index, *axis))),
            Stmt::Zero { node } => (*node, None, None),
            _ => return,
        };
        let touch = Touch { node, index, computed, write: true };
        let accumulates = matches!(stmt, Stmt::SetDynamic { op: Some(_), .. });
        found.extend(accumulates.then_some(Touch { write: false, ..touch }));
        found.push(touch);
    });
    found
}

/// Whether any index in the expression mentions the loop.
pub fn mentions(expr: &Expr, var: LoopId) -> bool {
    walk::parts(expr).any(|e| match e {
        Expr::Get { index, .. }
        | Expr::GetDynamic { index, .. }
        | Expr::GetMerge { index, .. }
        | Expr::GetLocal { index, .. } => index.iter().any(|i| i.mentions(var)),
        Expr::GetGuarded { guard, index, .. } => {
            index.iter().any(|i| i.mentions(var)) || guard.iter().any(|r| r.index.mentions(var))
        }
        Expr::Index { index, .. } => index.mentions(var),
        _ => false,
    })
}

/// Whether the end of a loop in the block depends on the variable.
pub fn bounds_loops(var: LoopId, block: &[Stmt]) -> bool {
    walk::stmts(block).any(|stmt| matches!(stmt, Stmt::For { hi, .. } if hi.mentions(var)))
}

/// Whether a block logs.
pub fn logs(block: &[Stmt]) -> bool {
    walk::stmts(block).any(|stmt| matches!(stmt, Stmt::Log { .. }))
}

fn read(part: &Expr) -> Option<Touch<'_>> {
    let (node, index, computed) = match part {
        Expr::Get { node, index } | Expr::GetGuarded { node, index, .. } => (*node, Some(index), None),
        Expr::GetDynamic { node, index, axis, .. } => (*node, None, Some((index, *axis))),
        _ => return None,
    };
    Some(Touch { node, index, computed, write: false })
}

/// The nodes that the block writes.
pub fn written(block: &[Stmt]) -> IdSet<NodeRef> {
    written_by(&touches(block))
}

fn written_by(touches: &[Touch<'_>]) -> IdSet<NodeRef> {
    touches.iter().filter(|t| t.write).map(|t| t.node).collect()
}

/// The range of each variable, as a closed interval.
#[derive(Clone, Debug, Default)]
pub struct VariableRanges {
    loops: IdMap<LoopId, (i64, i64)>,
    symbols: Vec<i64>,
}

impl VariableRanges {
    /// The ranges of a routine's symbols and of all its loops.
    pub fn of(routine: &LoweredRoutine) -> VariableRanges {
        let mut ranges = VariableRanges { loops: IdMap::default(), symbols: symbol_ranges(&routine.symbols) };
        ranges.add(&routine.body);
        ranges
    }

    /// Adds the loops of a block.
    pub fn add(&mut self, block: &[Stmt]) {
        walk::stmts(block).for_each(|stmt| {
            if let Stmt::For { var, lo, hi, .. } = stmt {
                self.loops.insert(*var, (*lo, (hi.limit - 1).max(*lo)));
            }
        });
    }

    /// Adds a symbol behind the known ones.
    pub fn add_symbol(&mut self, range: i64) {
        self.symbols.push(range.max(1));
    }

    /// Forgets the symbols behind the first `known`.
    pub fn forget_symbols(&mut self, known: usize) {
        self.symbols.truncate(known);
    }

    /// The range of a variable.
    pub fn get(&self, var: Var) -> (i64, i64) {
        match var {
            Var::Loop(id) => self.loops.get(&id).copied().unwrap_or((i64::MIN / 4, i64::MAX / 4)),
            Var::Symbol(id) => (0, self.symbols.get(id.index()).map_or(i64::MAX / 4, |range| range - 1)),
        }
    }

    /// The number of values of a variable.
    pub fn extent(&self, var: Var) -> i64 {
        let (lo, hi) = self.get(var);
        hi - lo + 1
    }
}

fn symbol_ranges(symbols: &[Symbol]) -> Vec<i64> {
    symbols.iter().map(|s| s.range.max(1)).collect()
}

/// Whether the iterations of the loop over `var` with this body are independent: no iteration writes an
/// element that another one accesses, and no local outlives an iteration.
///
/// The proof: every node that is written has a dimension in which all its indices are `c·var + inner + m·k +
/// fixed` with one `c ≠ 0` and one `fixed`; the values of `inner` span less than `|c|`; and those of `c·var +
/// inner` span less than `m`. So two indices with different values of `var` differ by no multiple of `m`. The
/// term `m·k` is the sum of inner loops with large steps, such as loops over blocks outside of `var`.
pub fn independent(var: LoopId, body: &[Stmt], ranges: &VariableRanges) -> bool {
    LoopBody::of(body).is_independent(var, ranges)
}

/// The properties of a body on which the independence of iterations depends, found once for all loops whose
/// iterations run this body.
#[derive(Clone, Debug)]
pub struct LoopBody<'a> {
    touches: Vec<Touch<'a>>,
    written: IdSet<NodeRef>,
    inner: IdSet<LoopId>,
    /// Whether it sets only locals that it declares, and logs nothing.
    keeps_to_nodes: bool,
}

impl<'a> LoopBody<'a> {
    /// Analyzes a body.
    pub fn of(body: &'a [Stmt]) -> LoopBody<'a> {
        let touches = touches(body);
        let written = written_by(&touches);
        let keeps_to_nodes = keeps_locals(body) && !logs(body);
        LoopBody { touches, written, inner: walk::loops_in(body), keeps_to_nodes }
    }

    /// [`independent`] for a loop with this body.
    pub fn is_independent(&self, var: LoopId, ranges: &VariableRanges) -> bool {
        let separates = |&node: &NodeRef| separates_iterations(node, var, &self.touches, &self.inner, ranges);
        self.keeps_to_nodes && self.written.iter().all(separates)
    }
}

/// Whether different iterations over `var` access different elements of a node in all these accesses.
pub fn separates_iterations(
    node: NodeRef,
    var: LoopId,
    all: &[Touch<'_>],
    inner: &IdSet<LoopId>,
    ranges: &VariableRanges,
) -> bool {
    let of_node = || all.iter().filter(|t| t.node == node);
    let indices: Option<Vec<_>> = of_node().map(Touch::indices).collect();
    let computed: BTreeSet<usize> = of_node().filter_map(|t| t.computed.map(|c| c.1)).collect();
    indices.is_some_and(|indices| separated(var, &indices, &computed, inner, ranges))
}

/// Whether some dimension without computed indices separates iterations.
fn separated(
    var: LoopId,
    indices: &[&Indices],
    computed: &BTreeSet<usize>,
    inner: &IdSet<LoopId>,
    ranges: &VariableRanges,
) -> bool {
    let rank = indices.first().map_or(0, |index| index.len());
    (0..rank).filter(|dim| !computed.contains(dim)).any(|dim| separated_in(dim, var, indices, inner, ranges))
}

fn separated_in(
    dim: usize,
    var: LoopId,
    indices: &[&Indices],
    inner: &IdSet<LoopId>,
    ranges: &VariableRanges,
) -> bool {
    let mut common: Option<(i64, Affine)> = None;
    let (mut lo, mut hi, mut modulus) = (i64::MAX, i64::MIN, 0);
    let extent = ranges.extent(var.into()).max(1);
    for index in indices {
        let Some(index) = index.get(dim) else { return false };
        let step = index.coefficient(var);
        let reach = step.unsigned_abs().saturating_mul(extent.unsigned_abs());
        let IndexParts { moving, blocks, fixed } = split(index, var, inner, reach, ranges);
        modulus = gcd(modulus, blocks);
        match &common {
            None => common = Some((step, fixed)),
            Some(first) if *first != (step, fixed) => return false,
            Some(_) => {}
        }
        let Some((a, b)) = moving.bounds(|v| ranges.get(v)) else { return false };
        (lo, hi) = (lo.min(a), hi.max(b));
    }
    let span = i128::from(hi) - i128::from(lo);
    common.is_some_and(|(step, _)| {
        let step = i128::from(step.unsigned_abs());
        let is_within_block = modulus == 0 || step * i128::from(extent - 1) + span < i128::from(modulus);
        step != 0 && span < step && is_within_block
    })
}

/// The parts of an index without the term of a loop `var`.
struct IndexParts {
    /// The terms of inner loops with small steps, and the offset.
    moving: Affine,
    /// The greatest common divisor of the other steps of inner loops; 0 if there are none.
    blocks: u64,
    /// The terms that are constant within the loop.
    fixed: Affine,
}

/// Splits an index without `var`. The small steps are those below `reach`.
fn split(
    index: &Affine,
    var: LoopId,
    inner: &IdSet<LoopId>,
    reach: u64,
    ranges: &VariableRanges,
) -> IndexParts {
    let mut parts =
        IndexParts { moving: Affine::constant(index.offset()), blocks: 0, fixed: Affine::default() };
    for &(v, coefficient) in index.terms() {
        let is_block = || coefficient.unsigned_abs() >= reach && ranges.extent(v) > 1;
        match v {
            Var::Loop(id) if id == var => {}
            Var::Loop(id) if inner.contains(&id) && is_block() => {
                parts.blocks = gcd(parts.blocks, coefficient.unsigned_abs());
            }
            Var::Loop(id) if inner.contains(&id) => parts.moving.add_term(v, coefficient),
            _ => parts.fixed.add_term(v, coefficient),
        }
    }
    parts
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The locals that a block declares.
pub fn declared(block: &[Stmt]) -> IdSet<LocalId> {
    let declared = |stmt: &Stmt| match stmt {
        Stmt::Declare { local, .. } => Some(*local),
        _ => None,
    };
    walk::stmts(block).filter_map(declared).collect()
}

/// The locals that a block sets.
pub fn locals_set(block: &[Stmt]) -> IdSet<LocalId> {
    walk::stmts(block).filter_map(Stmt::array).filter_map(ArrayRef::local).collect()
}

/// The locals that a block reads or sets.
pub fn locals_used(block: &[Stmt]) -> IdSet<LocalId> {
    let read = walk::parts_in(block).filter_map(Expr::array);
    walk::stmts(block).filter_map(Stmt::array).chain(read).filter_map(ArrayRef::local).collect()
}

/// Whether the block sets only locals that it declares.
fn keeps_locals(block: &[Stmt]) -> bool {
    locals_set(block).is_subset(&declared(block))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowered_ir::ir::{Bound, LoopKind};
    use tnode::{DType, Scalar};

    /// The loop whose iterations are compared.
    const VAR: LoopId = LoopId(9);

    /// Whether iterations of `VAR` are independent in a nest that stores at `index` of a node with one axis.
    /// The loops are given with their numbers of iterations, the outermost first.
    fn separates(loops: &[(LoopId, i64)], index: &Affine) -> bool {
        let value = Expr::Const(Scalar::one(DType::F32));
        let set = Stmt::Set { node: NodeRef(0), index: [index.clone()].into_iter().collect(), value };
        let nest = loops.iter().rev().fold(vec![set], |body, &(var, extent)| {
            vec![Stmt::For { var, lo: 0, hi: Bound::from(extent), kind: LoopKind::Serial, body }]
        });
        let mut ranges = VariableRanges { loops: IdMap::default(), symbols: Vec::new() };
        ranges.add(&nest);
        independent(VAR, &nest, &ranges)
    }

    fn sum(terms: &[(LoopId, i64)], offset: i64) -> Affine {
        let mut index = Affine::constant(offset);
        terms.iter().for_each(|&(var, coefficient)| index.add_term(var.into(), coefficient));
        index
    }

    /// A loop over blocks around `VAR`, whose steps the iterations of a block do not reach.
    #[test]
    fn iterations_within_blocks_are_apart() {
        let block = LoopId(0);
        let stores = |rows, steps: [i64; 2], offset| {
            separates(&[(block, 4), (VAR, rows)], &sum(&[(block, steps[0]), (VAR, steps[1])], offset))
        };
        assert!(stores(16, [16, 1], 0));
        assert!(stores(8, [16, 1], 8));
        assert!(stores(8, [64, 2], 0));
        assert!(!stores(17, [16, 1], 0), "rows of neighboring blocks overlap");
        assert!(!stores(9, [16, 2], 0));
    }

    /// Iterations that count as independent store different elements, for small indices of three loops.
    #[test]
    fn independent_iterations_store_different_elements() {
        let loops = [VAR, LoopId(0), LoopId(1)];
        let mut accepted = 0;
        for code in 0..7 * 7 * 7 * 27 {
            let (steps, extents) = (code / 27, code % 27);
            let steps = [steps % 7 - 3, (steps / 7 % 7 - 3) * 2, steps / 49 * 3];
            let [i, j, k] = [extents % 3 + 1, extents / 3 % 3 + 1, extents / 9 + 1];
            let terms = [0, 1, 2].map(|at| (loops[at], steps[at])).to_vec();
            if !separates(&[(loops[1], j), (VAR, i), (loops[2], k)], &sum(&terms, 5)) {
                continue;
            }
            accepted += 1;
            let at = |i: i64, j: i64, k: i64| steps[0] * i + steps[1] * j + steps[2] * k;
            let elements = |i| (0..j).flat_map(move |j| (0..k).map(move |k| at(i, j, k)));
            for (one, other) in (0..i).flat_map(|one| (0..one).map(move |other| (one, other))) {
                let first: BTreeSet<i64> = elements(one).collect();
                assert!(elements(other).all(|at| !first.contains(&at)), "{steps:?} {:?}", [i, j, k]);
            }
        }
        assert!(accepted > 2000, "{accepted}");
    }
}
