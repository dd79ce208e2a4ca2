//! Copies from global into shared memory, which the threads of a workgroup share.

use lowered_ir::ir::{Affine, Block, Expr, Indices, LocalId, LoopId, LoopKind, Space, Stmt, walk};
use tnode::Dims;

use crate::analysis::access;
use crate::analysis::names::Names;
use crate::analysis::nest::{self, Loop};
use crate::gpu::context::{Gpu, QUAD};
use crate::gpu::work_distribution::{LoopShare, SharedLoop, distribute_loops};

/// A copy of a block of an operand: `array[index] := value` for all iterations of some loops.
pub(crate) struct SharedCopy {
    value: Expr,
    index: Indices,
    /// The loop over the lanes of a vectorized access.
    lanes: Option<LoopId>,
    /// Loops that every thread runs.
    loops: Vec<Loop>,
    shares: Vec<LoopShare>,
    /// Whether contiguous elements of global memory go to different rows of the array: a transposing copy.
    pub(crate) transposed: bool,
}

/// A copy in two halves. Between them the elements are in registers.
pub(crate) struct SplitCopy {
    pub(crate) declare: Block,
    /// Loads from global memory into registers.
    pub(crate) fetch: Block,
    /// Stores from registers into each of the possible arrays.
    pub(crate) put: Vec<Block>,
}

impl SharedCopy {
    /// Plans a copy in which neighboring threads load neighboring elements, four each where possible. `own`
    /// is the loop over the rows or columns of the tile; its variable is the last index of the array.
    pub(crate) fn of(
        gpu: &mut Gpu,
        value: Expr,
        mut loops: Vec<Loop>,
        own: Loop,
        threads: i64,
    ) -> SharedCopy {
        loops.push(own.clone());
        let index: Indices = loops.iter().map(|l| Affine::var(l.var)).collect();
        let elements = vec![Stmt::set_scalar(LocalId(u32::MAX), value.clone())];
        let width = value.dtype(&gpu.names).size_bytes();
        let score = |l: &&Loop| (nest::lane_score(&elements, l.var, &gpu.names), l.hi.limit);
        let lane = loops.iter().max_by_key(score).cloned().unwrap_or_else(|| own.clone());
        loops.retain(|l| *l != lane);
        let mut transfer =
            SharedCopy { value, index, lanes: None, loops, shares: Vec::new(), transposed: lane != own };
        let mut shared = SharedLoop::one_by_one(lane.var, lane.hi.limit, 1);
        let is_wide = nest::lane_score(&elements, lane.var, &gpu.names) > 0
            && !access::has_no_lanes(&elements, lane.var);
        let has_wide = (gpu.workgroups.element_bytes..=4).contains(&width);
        if is_wide && has_wide && lane.hi.limit % QUAD == 0 {
            let (quad, element) = (gpu.loop_of(lane.hi.limit / QUAD), gpu.names.loop_id());
            transfer.substitute(lane.var, &Affine::term(quad.var, QUAD).plus(&Affine::var(element)));
            transfer.lanes = Some(element);
            shared = SharedLoop::one_by_one(quad.var, quad.hi.limit, 1);
        }
        shared.threads = shared.extent.min(threads);
        let mut all = vec![shared];
        if let Some(longest) = transfer.loops.iter().max_by_key(|l| l.hi.limit).cloned() {
            transfer.loops.retain(|l| *l != longest);
            let extent = longest.hi.limit;
            let threads = extent.min(threads / shared.threads);
            all.insert(0, SharedLoop::one_by_one(longest.var, extent, threads));
        }
        transfer.shares = distribute_loops(&all, &mut gpu.names);
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
        let on_threads = |share: &LoopShare| {
            let block = share.in_every_step(share.renumbered(body.clone()), LoopKind::Serial);
            share.on_threads(block, names)
        };
        self.shares.iter().flat_map(on_threads).collect()
    }

    /// The copy into any of several arrays, by way of registers.
    pub(crate) fn split(&self, arrays: &[LocalId], names: &mut Names) -> SplitCopy {
        let mut halves =
            SplitCopy { declare: Block::new(), fetch: Block::new(), put: vec![Block::new(); arrays.len()] };
        for share in &self.shares {
            let own: Vec<Loop> =
                share.threads.iter().chain(&share.steps).chain(&self.loops).cloned().collect();
            let mut dims: Dims = own.iter().map(|l| l.hi.limit as usize).collect();
            if self.lanes.is_some() {
                dims.push(QUAD as usize);
            }
            let index: Indices = own.iter().map(|l| l.var).chain(self.lanes).map(Affine::var).collect();
            let (local, declare) = names.declare(self.value.dtype(names), dims, Space::Thread);
            halves.declare.push(declare);
            let fetch = Stmt::SetLocal { local, index: index.clone(), value: self.value.clone() };
            halves.fetch.extend(self.repeated(share, fetch, names));
            for (put, &array) in halves.put.iter_mut().zip(arrays) {
                let value = Expr::GetLocal { local, index: index.clone() };
                let store = Stmt::SetLocal { local: array, index: self.index.clone(), value };
                put.extend(self.repeated(share, store, names));
            }
        }
        halves
    }

    /// One statement per element, unrolled, so that each element has a register.
    fn repeated(&self, share: &LoopShare, stmt: Stmt, names: &mut Names) -> Block {
        let around = |body, l: &Loop| vec![Stmt::looped(l.var, l.hi.limit, LoopKind::Unrolled, body)];
        let body = self.loops.iter().rev().fold(self.in_lanes(stmt), around);
        let body = share.steps.iter().rev().fold(share.renumbered(body), around);
        share.on_threads(body, names)
    }

    fn in_lanes(&self, stmt: Stmt) -> Block {
        match self.lanes {
            Some(element) => vec![Stmt::looped(element, QUAD, LoopKind::Vector, vec![stmt])],
            None => vec![stmt],
        }
    }
}
