//! Attention in one pass: scores, softmax and weighted sum become one kernel that stores no scores.
//!
//! ```text
//! s[i, j] := Σ query[i, k] · key[j, k]         ; the product
//! m[i]    := max over j of a score of s[i, j]  ; the maximum
//! e[i, j] := a weight of s[i, j] and m[i]      ; exp(x - m), possibly masked or rounded
//! l[i]    := Σ e[i, j]                         ; the total
//! p[i, j] := e[i, j] / l[i]                    ; normalized weights, optional
//! o[i, d] := Σ p[i, j] · value[j, d]           ; the sum, of e if there is no p
//! y[i, d] := a function of o[i, d] and l[i]    ; optional
//! ```
//!
//! These nests become an [`AttentionNest`] if `s`, `m`, `e`, `l` and `p` are local nodes that nothing else
//! mentions, and if the target compiles it whole. Weights that are normalized before they are multiplied are
//! normalized afterwards, and factors of queries and keys that are constants become factors of the product.

mod nests;
mod weights;

use codegen_core::attention::{AttentionLocals, AttentionNest};
use codegen_core::canonical::Axis;
use codegen_core::{DTypeSet, Workgroups, dependence};
use lowered_ir::ir::{
    Affine, BinaryOp, Block, Bound, Expr, LocalId, LoopId, LoopKind, LoweredRoutine, NodeRef, Numerics,
    Space, Stmt, Var, walk,
};
use tnode::{DType, Dims};

use self::nests::{ElementStore, Reduced, ScoreMatmul, chain};
use crate::analysis::access::{self, Effects, NodePositions};
use crate::analysis::nest::Nest;
use crate::analysis::nodes::is_local;
use crate::gpu::context::Gpu;

/// Makes attention kernels, for operands of the types `matrices`.
pub(crate) fn fuse_attention(routine: &mut LoweredRoutine, workgroups: Workgroups, matrices: DTypeSet) {
    if matrices.is_empty() || routine.numerics != Numerics::Fast {
        return;
    }
    let mut at = 0;
    while at < routine.body.len() {
        let Some(product) = ScoreMatmul::of(routine, at) else {
            at += 1;
            continue;
        };
        let mut gpu = Gpu { matrices, ..Gpu::of(routine, workgroups) };
        let positions = access::positions(&routine.body);
        match Search::of(routine, &positions, product, &mut gpu, at).attention(&mut gpu) {
            Some((absorbed, kernel)) => replace(&mut routine.body, &absorbed, kernel),
            None => at += 1,
        }
    }
}

/// Replaces statements by one at the place of the last.
fn replace(body: &mut Block, absorbed: &[usize], kernel: Stmt) {
    let last = absorbed.iter().max().copied().unwrap_or_default();
    body[last] = kernel;
    let mut at = 0;
    body.retain(|_| {
        at += 1;
        at - 1 == last || !absorbed.contains(&(at - 1))
    });
}

/// The search for the nests that follow a product.
struct Search<'a> {
    routine: &'a LoweredRoutine,
    positions: &'a NodePositions,
    scores: ScoreMatmul,
    locals: AttentionLocals,
    /// The statements that were found.
    absorbed: Vec<usize>,
    /// What the nodes hold that these statements store to, in the variables of the product.
    defined: Vec<ElementStore>,
}

/// The softmax of an attention.
struct Softmax {
    score: Expr,
    rescale: Expr,
    weight: Expr,
    /// The type in which weights are stored.
    dtype: DType,
}

/// The weighted sum of an attention.
struct WeightedSum {
    feature: Axis,
    value: Expr,
    operand: Expr,
    /// The store of a result, from the sum in a local that no statement mentions yet.
    result: ElementStore,
}

/// The positions of nodes among those that are defined.
const SCORES: usize = 0;
const WEIGHTS: usize = 2;

impl<'a> Search<'a> {
    fn of(
        routine: &'a LoweredRoutine,
        positions: &'a NodePositions,
        scores: ScoreMatmul,
        gpu: &mut Gpu,
        at: usize,
    ) -> Search<'a> {
        let mut scalar = || gpu.names.declare(DType::F32, Dims::new(), Space::Register).0;
        let [greatest, weights, sums, local, next, factor, weight] = std::array::from_fn(|_| scalar());
        let locals = AttentionLocals { greatest, weights, sums, product: local, next, factor, weight };
        let defined = vec![scores.stored(local)];
        Search { routine, positions, scores, locals, absorbed: vec![at], defined }
    }

    /// The statements that an attention replaces, and its kernel.
    fn attention(mut self, gpu: &mut Gpu) -> Option<(Vec<usize>, Stmt)> {
        let softmax = self.softmax()?;
        let WeightedSum { feature, value, operand, result } = self.weighted_sum(softmax.dtype)?;
        self.is_alone()?;
        self.has_independent_results(gpu)?;
        let features = [(); 3].map(|()| gpu.names.loop_id());
        let at = |index: &Affine, var| index.substitute(feature.var, &Affine::var(var));
        let result = ElementStore {
            index: result.index.iter().map(|index| at(index, features[2])).collect(),
            value: walk::map_expr_indices(result.value, &mut |index| at(index, features[2])),
            ..result
        };
        let sum = Expr::GetLocal { local: self.locals.sums, index: [Affine::var(features[2])].into() };
        let ElementStore { node, index, value: stored } = result.with_local(self.locals.sums, &sum);
        let ScoreMatmul { batch, row, position, depth, query, key, .. } = self.scores;
        let nest = AttentionNest {
            batch,
            row,
            position: position.0,
            end: position.1,
            depth,
            features,
            num_features: feature.extent,
            query,
            key,
            value: walk::map_expr_indices(value, &mut |index| at(index, features[1])),
            score: softmax.score.into(),
            rescale: softmax.rescale.into(),
            weight: softmax.weight.into(),
            operand,
            epilogue: vec![Stmt::Set { node, index, value: stored }],
            locals: self.locals,
        };
        let kernel = nest.stmt(LoopKind::Parallel);
        gpu.names.note(std::slice::from_ref(&kernel));
        let is_whole = nest.suits_tensor_cores(&gpu.names.arrays(std::iter::empty()), gpu.matrices);
        let left = access::nodes(std::slice::from_ref(&kernel));
        let is_resolved = !self.defined.iter().any(|of| left.contains(&of.node));
        let may_be = is_whole && is_resolved && may_move(&self.routine.body, &self.absorbed);
        may_be.then_some((self.absorbed, kernel))
    }

    /// Finds the maximum, the weights, their total, and the normalized weights if there are any.
    fn softmax(&mut self) -> Option<Softmax> {
        let AttentionLocals { greatest, next, weight, weights, .. } = self.locals;
        let maximum = self.reader(SCORES, |found| reduced(found, BinaryOp::Max))?;
        let score = self.resolved(&maximum, maximum.operand(BinaryOp::Max)?)?;
        self.define_rows(&maximum, next)?;

        let weighing = self.reader(SCORES, elementwise)?;
        let ElementStore { node, index, value } = self.elements(&weighing)?;
        let dtype = self.routine.node(node).dtype;
        // Weights that are stored in 16 bits are what the total adds up, too.
        let (wide, read) = match dtype {
            DType::F32 => (value, Expr::local(weight)),
            DType::F16 | DType::Bf16 => {
                (Expr::convert(DType::F32, value), Expr::convert(dtype, Expr::local(weight)))
            }
            _ => return None,
        };
        let rescale = weights::rescaling(&wide, next, greatest)?;
        self.defined.push(ElementStore { node, index, value: read.clone() });

        let total = self.reader(WEIGHTS, |found| reduced(found, BinaryOp::Add))?;
        let added = self.resolved(&total, total.operand(BinaryOp::Add)?)?;
        (added == Expr::local(weight) || added == Expr::convert(DType::F32, read)).then_some(())?;
        self.define_rows(&total, weights)?;

        if let Some(normalizing) = self.reader(WEIGHTS, elementwise) {
            let normalized = self.elements(&normalizing)?;
            self.defined.push(normalized);
        }
        Some(Softmax { score, rescale, weight: wide, dtype })
    }

    /// Finds the weighted sum, and an elementwise nest that alone reads its results.
    fn weighted_sum(&mut self, dtype: DType) -> Option<WeightedSum> {
        let AttentionLocals { sums, weight, weights, .. } = self.locals;
        // Normalized weights are the last to be defined, behind the total of the others.
        let multiplied = if self.defined.len() > WEIGHTS + 2 { WEIGHTS + 2 } else { WEIGHTS };
        let sum = self.reader(multiplied, |found| Reduced::of(found).filter(|f| f.factors().is_some()))?;
        let [a, b] = sum.factors()?;
        let node = self.defined[multiplied].node;
        let reads = |e: &Expr| {
            walk::parts(e).any(|part| matches!(part, Expr::Get { node: read, .. } if *read == node))
        };
        let (own, value) = if reads(a) { (a, b) } else { (b, a) };
        let (own, value) = (self.resolved(&sum, own)?, self.resolved(&sum, value)?);
        let read = match dtype {
            DType::F32 => Expr::local(weight),
            dtype => Expr::convert(dtype, Expr::local(weight)),
        };
        let (operand, is_divided) = weights::without_division(&own, &read, weights)?;
        let result = match is_divided {
            false => Expr::local(sums),
            true => Expr::binary(BinaryOp::Div, Expr::local(sums), Expr::local(weights)),
        };
        let feature = self.feature(&sum)?;
        let stored = self.stored(&sum)?.with_local(sum.acc, &result);
        let result = self.result(stored, feature)?;
        Some(WeightedSum { feature, value, operand, result })
    }

    /// The first statement that reads a defined node and has the form that is asked for. It counts as
    /// absorbed.
    fn reader<T>(&mut self, of: usize, form: impl Fn(&Stmt) -> Option<T>) -> Option<T> {
        let mentions = self.positions.get(&self.defined[of].node)?;
        let free = mentions.iter().filter(|at| !self.absorbed.contains(at));
        let (at, found) = free.filter_map(|&at| Some((at, form(&self.routine.body[at])?))).next()?;
        self.absorbed.push(at);
        Some(found)
    }

    /// For each variable of a nest, the variable of the product in whose place it stands, as the reads of
    /// defined nodes tell.
    fn renaming(&self, value: &Expr, defined: &[ElementStore]) -> Option<Renaming> {
        let mut renaming = Vec::new();
        for part in walk::parts(value) {
            let Expr::Get { node, index } = part else { continue };
            let Some(of) = defined.iter().find(|of| of.node == *node) else { continue };
            for (own, of) in index.iter().zip(&of.index) {
                match (own.as_var(), of.as_var()) {
                    (Some(Var::Loop(own)), Some(Var::Loop(of))) => renaming.push((own, of)),
                    (None, None) if own == of => {}
                    _ => return None,
                }
            }
        }
        renaming.sort_unstable();
        renaming.dedup();
        let mut places: Vec<LoopId> = renaming.iter().map(|(_, of)| *of).collect();
        places.sort_unstable();
        let is_function = renaming.windows(2).all(|pair| pair[0].0 != pair[1].0);
        (is_function && places.windows(2).all(|pair| pair[0] != pair[1])).then_some(renaming)
    }

    /// A value of a reduction over the positions, in the variables of the product and with the values of
    /// defined nodes.
    fn resolved(&self, nest: &Reduced, value: &Expr) -> Option<Expr> {
        let renaming = self.renaming(&nest.step, &self.defined)?;
        let renamed = |index: &Affine| renamed(index, &renaming);
        let (position, end) = &self.scores.position;
        let inner = (renamed(&Affine::var(nest.inner.0)), nest.inner.1.map(renamed));
        (inner == (Affine::var(*position), end.clone())).then_some(())?;
        self.is_whole(&nest.loops, &renaming, None)?;
        replaced(walk::map_expr_indices(value.clone(), &mut |index| renamed(index)), &self.defined)
    }

    /// Whether loops that stand for those of the product, or for the features, have the same ends.
    fn is_whole(&self, loops: &[(LoopId, Bound)], renaming: &Renaming, feature: Option<Axis>) -> Option<()> {
        let ScoreMatmul { batch, row, position, .. } = &self.scores;
        let axes = || batch.iter().chain([row]).chain(&feature);
        let ends = |var: LoopId| match axes().find(|axis| axis.var == var) {
            Some(axis) => Some(Bound::from(axis.extent)),
            None => (var == position.0).then(|| position.1.clone()),
        };
        let same = loops.iter().all(|(var, end)| {
            let of = renaming.iter().find(|(own, _)| own == var);
            of.is_none_or(|(_, of)| ends(*of) == Some(end.map(|clip| renamed(clip, renaming))))
        });
        same.then_some(())
    }

    /// What a reduction stores, in the variables of the product.
    fn stored(&self, nest: &Reduced) -> Option<ElementStore> {
        let renaming = self.renaming(&nest.step, &self.defined)?;
        renamed_store(&nest.stored, &renaming, &self.defined)
    }

    /// Defines a local node with an element for each row, which a local holds.
    fn define_rows(&mut self, nest: &Reduced, local: LocalId) -> Option<()> {
        let stored = self.stored(nest)?;
        self.is_scratch(stored.node)?;
        stored.is_indexed_by(&self.scores.outer()).then_some(())?;
        self.defined.push(ElementStore { value: Expr::local(local), ..stored });
        Some(())
    }

    /// What an elementwise nest stores for each row and position into a local node.
    fn elements(&self, (loops, stored): &Elementwise) -> Option<ElementStore> {
        let renaming = self.renaming(&stored.value, &self.defined)?;
        self.is_whole(loops, &renaming, None)?;
        self.is_scratch(stored.node)?;
        let stored = renamed_store(stored, &renaming, &self.defined)?;
        let vars = [self.scores.outer(), vec![self.scores.position.0]].concat();
        (loops.len() == vars.len() && stored.is_indexed_by(&vars)).then_some(stored)
    }

    fn is_scratch(&self, node: NodeRef) -> Option<()> {
        is_local(self.routine.node(node)).then_some(())
    }

    /// The loop over features: the one that stands for no loop of the product.
    fn feature(&self, sum: &Reduced) -> Option<Axis> {
        let renaming = self.renaming(&sum.step, &self.defined)?;
        let mut other = sum.loops.iter().filter(|(var, _)| !renaming.iter().any(|(own, _)| own == var));
        let (Some((var, end)), None) = (other.next(), other.next()) else { return None };
        (renaming.len() == self.scores.batch.len() + 2).then_some(())?;
        Some(Axis { var: *var, extent: end.constant()? })
    }

    /// The store of the result: that of the sum, or of the only nest that reads the sums, if it is
    /// elementwise.
    fn result(&mut self, sums: ElementStore, feature: Axis) -> Option<ElementStore> {
        let mentions = self.positions.get(&sums.node)?;
        let others: Vec<usize> = mentions.iter().copied().filter(|at| !self.absorbed.contains(at)).collect();
        let decl = self.routine.node(sums.node);
        if let (true, &[at]) = (is_local(decl) && decl.dtype == DType::F32, others.as_slice())
            && let Some(result) = self.result_at(at, &sums, feature)
        {
            self.absorbed.push(at);
            self.defined.push(sums);
            return Some(result);
        }
        Some(sums)
    }

    /// What an elementwise nest stores for each of the sums.
    fn result_at(&self, at: usize, sums: &ElementStore, feature: Axis) -> Option<ElementStore> {
        let (loops, stored) = elementwise(&self.routine.body[at])?;
        let renaming = self.renaming(&stored.value, std::slice::from_ref(sums))?;
        self.is_whole(&loops, &renaming, Some(feature))?;
        let has_all = loops.len() == renaming.len() && renaming.iter().any(|(_, of)| *of == feature.var);
        let known: Vec<ElementStore> = self.defined.iter().chain([sums]).cloned().collect();
        has_all.then(|| renamed_store(&stored, &renaming, &known))?
    }

    /// Whether no two iterations store into one element of a result.
    fn has_independent_results(&self, gpu: &Gpu) -> Option<()> {
        let is_result = |at: &&usize| {
            let written = dependence::written(std::slice::from_ref(&self.routine.body[**at]));
            !self.defined.iter().any(|of| written.contains(&of.node))
        };
        let mut nests = self.absorbed.iter().filter(is_result).map(|&at| Nest::of(&self.routine.body[at]));
        nests.all(|nest| nest.is_some_and(|nest| gpu.independent(&nest).1.is_empty())).then_some(())
    }

    /// Absorbs the statements that fill defined nodes with zeros. Nothing else may mention these nodes.
    fn is_alone(&mut self) -> Option<()> {
        for of in &self.defined {
            for &at in self.positions.get(&of.node)? {
                if self.absorbed.contains(&at) {
                    continue;
                }
                matches!(self.routine.body[at], Stmt::Zero { .. }).then_some(())?;
                self.absorbed.push(at);
            }
        }
        Some(())
    }
}

/// A nest without a reduction: its loops, and its only statement.
type Elementwise = (Vec<(LoopId, Bound)>, ElementStore);

/// Variables of a nest, and the variables of the product in whose places they stand.
type Renaming = Vec<(LoopId, LoopId)>;

fn elementwise(stmt: &Stmt) -> Option<Elementwise> {
    let (loops, body) = chain(stmt);
    let [only] = body.as_slice() else { return None };
    Some((loops, ElementStore::of(only)?))
}

/// A nest that stores a reduction by this operation.
fn reduced(stmt: &Stmt, op: BinaryOp) -> Option<Reduced> {
    let found = Reduced::of(stmt)?;
    (found.operand(op).is_some() && found.stored.value == Expr::local(found.acc)).then_some(found)
}

/// Whether statements may run at the place of the last of them.
fn may_move(body: &[Stmt], absorbed: &[usize]) -> bool {
    let (Some(&first), Some(&last)) = (absorbed.iter().min(), absorbed.iter().max()) else { return false };
    let effects = |at: usize| Effects::of(std::slice::from_ref(&body[at]));
    let mut own = Effects::default();
    absorbed.iter().for_each(|&at| own.add(&effects(at)));
    (first..last).filter(|at| !absorbed.contains(at)).all(|at| effects(at).commute(&own))
}

fn renamed_store(
    stored: &ElementStore,
    renaming: &Renaming,
    defined: &[ElementStore],
) -> Option<ElementStore> {
    let index = stored.index.iter().map(|index| renamed(index, renaming)).collect();
    let value = walk::map_expr_indices(stored.value.clone(), &mut |index| renamed(index, renaming));
    Some(ElementStore { node: stored.node, index, value: replaced(value, defined)? })
}

fn renamed(index: &Affine, renaming: &Renaming) -> Affine {
    let mut index = index.clone();
    index.rename(|var| match var {
        Var::Loop(var) => {
            let of = renaming.iter().find(|(own, _)| *own == var);
            Var::Loop(of.map_or(var, |(_, of)| *of))
        }
        var => var,
    });
    index
}

/// An expression with the values of defined nodes; `None` if it reads other elements of them.
fn replaced(value: Expr, defined: &[ElementStore]) -> Option<Expr> {
    let mut is_plain = true;
    let value = walk::map_expr(value, &mut |e| match &e {
        Expr::Get { node, index } => match defined.iter().find(|of| of.node == *node) {
            Some(of) if of.index == *index => of.value.clone(),
            Some(_) => {
                is_plain = false;
                e
            }
            None => e,
        },
        _ => e,
    });
    is_plain.then_some(value)
}
