//! Attention kernels: the operands, scores, weights and epilogue that
//! [`tensor_cores::attention`](crate::tensor_cores::attention) needs from a routine.
//!
//! The routine of such a kernel describes one thread per row.

use codegen_core::attention::{AttentionMatrices, AttentionNest, Computation};
use codegen_core::canonical::Arrays;
use codegen_core::emit::LoopIndex;
use codegen_core::ir::{Block, Expr, LocalId, LoweredRoutine, Space, Stmt, walk};
use codegen_core::threads::plan;
use codegen_core::{Checked, DType, DTypeSet, Dims, Rejection, reject};
use ptx_asm::{Reg, RegClass, Ty};

use super::locals::LocalStorage;
use super::outputs::OutputVars;
use super::{EmitSettings, EmittedKernel, Emitter, ThreadBlock, Value};
use crate::tensor_cores::OutputElements;
use crate::tensor_cores::attention::{
    self, Attention, AttentionCallbacks, AttentionOperand, AttentionTile, ScorePlace,
};

/// A kernel that is attention.
pub(super) struct TensorCoreAttention {
    nest: AttentionNest,
    matrices: AttentionMatrices,
    names: OutputVars,
    /// The epilogue of an output, with its sum in the local of a product.
    after: Block,
    /// The kernel with that epilogue as its body, in a loop over two adjacent features.
    around: LoweredRoutine,
}

impl TensorCoreAttention {
    /// The attention that a kernel computes, if tensor cores can compute it.
    pub(super) fn of(kernel: &LoweredRoutine, types: DTypeSet) -> Option<TensorCoreAttention> {
        let [stmt] = kernel.body.as_slice() else { return None };
        let arrays = Arrays::of(kernel);
        let nest = AttentionNest::of(stmt).filter(|nest| nest.suits_tensor_cores(&arrays, types))?;
        let matrices = nest.matrices(&arrays)?;
        let names = OutputVars::new(kernel);
        let locals = nest.locals;
        let mut after = nest.epilogue.clone();
        walk::map_parts(&mut after, &mut |part| match part {
            Expr::GetLocal { local, .. } if local == locals.sums => Expr::local(locals.product),
            part => part,
        });
        let after = names.placed(after, nest.row.var, nest.features[2]);
        // The expressions of a position read these locals, which hold what the kernel computes.
        let of_position = [locals.product, locals.next, locals.greatest, locals.weights, locals.weight];
        let declare =
            |local| Stmt::Declare { local, dtype: DType::F32, dims: Dims::new(), space: Space::Register };
        let before = [&nest.score, &nest.rescale, &nest.weight].map(|of| of.before.clone());
        let declares: Block = of_position.into_iter().map(declare).collect();
        let body = [declares, before.concat(), vec![names.pair(after.clone())]].concat();
        let around = LoweredRoutine { body, ..kernel.clone() };
        Some(TensorCoreAttention { nest, matrices, names, after, around })
    }

    /// Writes the kernel.
    pub(super) fn emit(&self, entry: &str, setting: EmitSettings<'_>) -> Checked<EmittedKernel> {
        let sizes = self.sizes();
        let tile = AttentionTile::of(&sizes);
        let blocks = tile.blocks(&sizes);
        if blocks > i32::MAX as u64 {
            return reject("attention", "it has 2^31 tiles or more, a grid has fewer blocks");
        }
        let plan = plan(&self.around, &self.around.body);
        let block = ThreadBlock { threads: tile.threads(), is_cooperative: false };
        let emitter = Emitter::new(&self.around, entry, setting, block, plan, None);
        let mut writer = AttentionEmitter { attention: self, e: emitter, rejected: None };
        writer.e.b.min_blocks_per_sm(1);
        attention::emit(&mut writer, &sizes, &tile);
        match writer.rejected {
            Some(rejection) => Err(rejection),
            None => Ok(writer.e.finish(blocks as u32, Vec::new())),
        }
    }

    fn sizes(&self) -> Attention {
        let (nest, matrices) = (&self.nest, &self.matrices);
        Attention {
            rows: nest.row.extent as u32,
            positions: nest.end.limit as u32,
            depth: nest.depth.extent as u32,
            features: nest.num_features as u32,
            batch: nest.batch.iter().map(|axis| axis.extent).product::<i64>() as u32,
            strides: [&matrices.query, &matrices.key, &matrices.value].map(|matrix| matrix.side as u32),
            element: if matrices.query.dtype == DType::F16 { Ty::F16 } else { Ty::Bf16 },
            is_rounded: nest.rounding() == Some(matrices.query.dtype),
            diagonal: nest.diagonal().flatten().map(|behind| behind as i32),
        }
    }
}

/// Writes the scores, weights and epilogue.
struct AttentionEmitter<'k> {
    attention: &'k TensorCoreAttention,
    e: Emitter<'k>,
    /// The first construct that is not supported.
    rejected: Option<Rejection>,
}

impl<'k> AttentionEmitter<'k> {
    fn note<T>(&mut self, checked: Checked<T>) -> Option<T> {
        checked.map_err(|rejection| self.rejected.get_or_insert(rejection)).ok()
    }

    /// Writes a computation from locals that are in these registers.
    fn computed(&mut self, of: &'k Computation, locals: &[(LocalId, Reg)]) -> Reg {
        for &(local, value) in locals {
            self.e.storage.insert(local, LocalStorage::Values(vec![Value::In(value)]));
        }
        let value = self.e.block(&of.before).and_then(|()| self.e.expr(&of.value));
        match self.note(value) {
            Some((value, _)) => self.e.reg(value),
            None => self.e.b.mov(RegClass::F32, 0_u32),
        }
    }

    /// Writes a computation for a row and a position.
    fn at(&mut self, at: ScorePlace, of: &'k Computation, locals: &[(LocalId, Reg)]) -> Reg {
        let nest = &self.attention.nest;
        self.e.enter(nest.row.var, LoopIndex::Computed(at.row, (0, nest.row.extent - 1)));
        self.e.enter(nest.position, LoopIndex::Computed(at.position, (0, nest.end.limit - 1)));
        let value = self.computed(of, locals);
        self.e.leave();
        self.e.leave();
        value
    }
}

impl AttentionCallbacks for AttentionEmitter<'_> {
    fn builder(&mut self) -> &mut ptx_asm::PtxBuilder {
        // Pending stores come before whatever the caller writes.
        self.e.flush();
        &mut self.e.b
    }

    fn enter_batch(&mut self, number: Reg) {
        let attention = self.attention;
        self.e.enter_digits(number, &attention.nest.batch);
    }

    fn base_address(&mut self, of: AttentionOperand) -> Reg {
        let AttentionMatrices { query, key, value } = &self.attention.matrices;
        self.e.first_element(match of {
            AttentionOperand::Queries => query,
            AttentionOperand::Keys => key,
            AttentionOperand::Values => value,
        })
    }

    fn score(&mut self, at: ScorePlace, product: Reg) -> Reg {
        let nest = &self.attention.nest;
        self.at(at, &nest.score, &[(nest.locals.product, product)])
    }

    fn greater(&mut self, one: Reg, other: Reg) -> Reg {
        let greater =
            self.e.binary(codegen_core::ir::BinaryOp::Max, DType::F32, Value::In(one), Value::In(other));
        self.note(greater).unwrap_or(one)
    }

    fn rescale(&mut self, before: Reg, now: Reg) -> Reg {
        let nest = &self.attention.nest;
        self.computed(&nest.rescale, &[(nest.locals.greatest, before), (nest.locals.next, now)])
    }

    fn weight(&mut self, at: ScorePlace, product: Reg, greatest: Reg) -> Reg {
        let nest = &self.attention.nest;
        self.at(at, &nest.weight, &[(nest.locals.product, product), (nest.locals.next, greatest)])
    }

    fn epilogue(&mut self, outputs: OutputElements, sums: &[Reg], weights: Reg) {
        let attention = self.attention;
        let (nest, names) = (&attention.nest, attention.names);
        let locals = nest.locals;
        names.enter_row(&mut self.e, nest.row, outputs.row);
        self.e.storage.insert(locals.weights, LocalStorage::Values(vec![Value::In(weights)]));
        let checked = names.each_column(
            self,
            |writer| &mut writer.e,
            nest.num_features,
            outputs,
            |writer, n| {
                let sum = LocalStorage::Values(vec![Value::In(sums[n])]);
                writer.e.storage.insert(locals.product, sum);
                writer.e.block(&attention.after)
            },
        );
        self.note(checked);
        self.e.leave();
        self.e.leave();
        self.e.flush();
    }

    fn nested_block(&mut self, write: &mut dyn FnMut(&mut dyn AttentionCallbacks)) -> ptx_asm::StmtList {
        self.e.open();
        write(self);
        self.e.close()
    }
}
