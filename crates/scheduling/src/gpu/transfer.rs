//! Copies from memory into shared memory, shared out among the threads.

use lowered_ir::ir::{Affine, Block, Expr, Indices, LocalId, LoopId, LoopKind, Space, Stmt, walk};
use tnode::Dims;

use crate::analysis::names::Names;
use crate::analysis::nest::{self, Loop};
use crate::gpu::pieces::{Piece, Shared, pieces};
use crate::gpu::{Gpu, QUAD};
use codegen_core::access;

/// A copy of a part of an operand: element `index` of a shared array is `value`, for all iterations of some loops.
pub(crate) struct Transfer {
    value: Expr,
    index: Indices,
    /// The loop over the lanes of wide accesses.
    lanes: Option<LoopId>,
    /// Loops that every thread runs.
    loops: Vec<Loop>,
    pieces: Vec<Piece>,
    /// Whether neighbours in memory are in different rows of the array.
    pub(crate) turned: bool,
}

/// A transfer in two halves: what is on its way is in threads' registers.
pub(crate) struct Halves {
    pub(crate) declare: Block,
    /// From memory into registers.
    pub(crate) fetch: Block,
    /// From registers into one of some arrays.
    pub(crate) put: Vec<Block>,
}

impl Transfer {
    /// Neighbouring threads copy neighbouring elements, four each where that is possible. `own` is the loop over the rows or columns of the
    /// tile, the last dimension of the array.
    pub(crate) fn of(
        gpu: &mut Gpu,
        value: Expr,
        (mut loops, own): (Vec<Loop>, Loop),
        threads: i64,
    ) -> Transfer {
        loops.push(own);
        let index: Indices = loops.iter().map(|l| Affine::var(l.var)).collect();
        let elements = vec![Stmt::set_scalar(LocalId(u32::MAX), value.clone())];
        let width = value.dtype(&gpu.names).size_bytes();
        let score = |l: &&Loop| (nest::lane_score(&elements, l.var), l.hi.limit);
        let lane = loops.iter().max_by_key(score).copied().unwrap_or(own);
        loops.retain(|l| *l != lane);
        let mut transfer =
            Transfer { value, index, lanes: None, loops, pieces: Vec::new(), turned: lane != own };
        let mut shared = Shared::one_by_one(lane.var, lane.hi.limit, 1);
        let is_wide = nest::lane_score(&elements, lane.var) > 0 && !access::has_no_lanes(&elements, lane.var);
        let has_wide = (gpu.workgroups.element_bytes..=4).contains(&width);
        if is_wide && has_wide && lane.hi.limit % QUAD == 0 {
            let (quad, element) = (gpu.loop_of(lane.hi.limit / QUAD), gpu.names.loop_id());
            transfer.substitute(lane.var, &Affine::term(quad.var, QUAD).plus(&Affine::var(element)));
            transfer.lanes = Some(element);
            shared = Shared::one_by_one(quad.var, quad.hi.limit, 1);
        }
        shared.threads = shared.extent.min(threads);
        let mut all = vec![shared];
        if let Some(longest) = transfer.loops.iter().max_by_key(|l| l.hi.limit).copied() {
            transfer.loops.retain(|l| *l != longest);
            let extent = longest.hi.limit;
            let threads = extent.min(threads / shared.threads);
            all.insert(0, Shared::one_by_one(longest.var, extent, threads));
        }
        transfer.pieces = pieces(&all, &mut gpu.names);
        transfer
    }

    fn substitute(&mut self, var: LoopId, by: &Affine) {
        let value = std::mem::replace(&mut self.value, Expr::Const(tnode::Scalar::zero(tnode::DType::F32)));
        self.value = walk::map_expr_indices(value, &mut |i| i.substitute(var, by));
        self.index.iter_mut().for_each(|i| *i = i.substitute(var, by));
    }

    /// The copy into an array.
    pub(crate) fn load(&self, array: LocalId, names: &mut Names) -> Block {
        let store = Stmt::SetLocal { local: array, index: self.index.clone(), value: self.value.clone() };
        let body = nest::wrap(&self.loops, self.in_lanes(store));
        let on_threads = |piece: &Piece| {
            let block = piece.in_every_round(piece.renumbered(body.clone()), LoopKind::Serial);
            piece.on_threads(block, names)
        };
        self.pieces.iter().flat_map(on_threads).collect()
    }

    /// The copy into any of some arrays, by way of registers.
    pub(crate) fn halves(&self, arrays: &[LocalId], names: &mut Names) -> Halves {
        let mut halves =
            Halves { declare: Block::new(), fetch: Block::new(), put: vec![Block::new(); arrays.len()] };
        for piece in &self.pieces {
            let own: Vec<Loop> =
                piece.threads.iter().chain(&piece.rounds).chain(&self.loops).copied().collect();
            let mut dims: Dims = own.iter().map(|l| l.hi.limit as usize).collect();
            let mut index: Indices = own.iter().map(|l| Affine::var(l.var)).collect();
            if let Some(element) = self.lanes {
                dims.push(QUAD as usize);
                index.push(Affine::var(element));
            }
            let (local, declare) = names.declare(self.value.dtype(names), dims, Space::Thread);
            halves.declare.push(declare);
            let fetch = Stmt::SetLocal { local, index: index.clone(), value: self.value.clone() };
            halves.fetch.extend(self.repeated(piece, fetch, names));
            for (put, &array) in halves.put.iter_mut().zip(arrays) {
                let value = Expr::GetLocal { local, index: index.clone() };
                let store = Stmt::SetLocal { local: array, index: self.index.clone(), value };
                put.extend(self.repeated(piece, store, names));
            }
        }
        halves
    }

    /// A statement for each element of a piece, so that each has a register.
    fn repeated(&self, piece: &Piece, stmt: Stmt, names: &mut Names) -> Block {
        let around = |body, l: &Loop| vec![Stmt::looped(l.var, l.hi.limit, LoopKind::Unrolled, body)];
        let body = self.loops.iter().rev().fold(self.in_lanes(stmt), around);
        let body = piece.rounds.iter().rev().fold(piece.renumbered(body), around);
        piece.on_threads(body, names)
    }

    fn in_lanes(&self, stmt: Stmt) -> Block {
        match self.lanes {
            Some(element) => vec![Stmt::looped(element, QUAD, LoopKind::Vector, vec![stmt])],
            None => vec![stmt],
        }
    }
}
