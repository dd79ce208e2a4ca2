//! Matmul kernels: the operands, prologue and epilogue that [`tensor_cores`] needs from a routine.
//!
//! The routine of such a kernel describes one thread per output. This module extracts the operands as
//! matrices, and writes the statements before and after the sum for each output of a thread, at its row and
//! column.

use codegen_core::canonical::{Arrays, Contraction};
use codegen_core::emit::LoopIndex;
use codegen_core::ir::{Block, LocalId, LoopId, LoopKind, LoweredRoutine, Space, Stmt, Var};
use codegen_core::matrices::{self, Matrix};
use codegen_core::threads::plan;
use codegen_core::{Checked, DType, DTypeSet, Dims, Rejection, TensorMap, TileSwizzle, reject};
use ptx_asm::{Reg, RegClass, Ty};

use super::memory::memory_type;
use super::outputs::OutputVars;
use super::{EmitSettings, EmittedKernel, Emitter, ThreadBlock, Value};
use crate::tensor_cores::{self, BatchAxis, MatmulCallbacks, MatmulKernel, MatmulMemory, OutputElements};

/// A kernel that is a matmul, with the statements of one output.
pub(super) struct TensorCoreMatmul {
    matrices: matrices::MatmulNest,
    /// The outputs, if their stores may be delayed past the epilogue.
    stores: Vec<Matrix>,
    names: OutputVars,
    /// The declaration of an output's accumulator.
    declare: Block,
    /// The store of the accumulator's initial value.
    begin: Block,
    /// The epilogue of an output.
    after: Block,
    /// The kernel with the statements of an output as its body, in a loop over the columns that are emitted
    /// together.
    around: LoweredRoutine,
}

impl TensorCoreMatmul {
    /// The matmul that a kernel computes, if tensor cores can compute it.
    pub(super) fn of(kernel: &LoweredRoutine, types: DTypeSet) -> Option<TensorCoreMatmul> {
        let [stmt] = kernel.body.as_slice() else { return None };
        let arrays = Arrays::of(kernel);
        let contraction = Contraction::of(&serial(stmt), &arrays)?;
        let matrices =
            matrices::MatmulNest::of(contraction, &arrays).filter(|nest| nest.suits_tensor_cores(types))?;
        let stores = matrices.stores(&arrays).unwrap_or_default();
        let names = OutputVars::new(kernel);
        let contraction = &matrices.contraction;
        let [row, column] = [contraction.rows[0].var, contraction.columns[0].var];
        let acc = contraction.acc;
        let declare =
            Stmt::Declare { local: acc, dtype: DType::F32, dims: Dims::new(), space: Space::Register };
        let begin = contraction.start.iter().map(|start| Stmt::set_scalar(acc, start.clone())).collect();
        let [declare, begin, after] = [vec![declare], begin, contraction.epilogue.clone()]
            .map(|block| names.placed(block, row, column));
        let body = [&declare[..], &begin, &after].concat();
        let around = LoweredRoutine { body: vec![names.pair(body)], ..kernel.clone() };
        Some(TensorCoreMatmul { matrices, stores, names, declare, begin, after, around })
    }

    /// Writes the kernel.
    pub(super) fn emit(&self, entry: &str, setting: EmitSettings<'_>) -> Checked<EmittedKernel> {
        let sizes = self.sizes();
        let method = MatmulKernel::of(&sizes, setting.target, setting.options.tensor_cores);
        if method.tiles(&sizes) > i32::MAX as u64 {
            return reject("a matmul", "it has 2^31 tiles or more, a grid has fewer blocks");
        }
        let plan = plan(&self.around, &self.around.body);
        let block = ThreadBlock { threads: method.threads(), is_cooperative: false };
        let emitter = Emitter::new(&self.around, entry, setting, block, plan, None);
        let mut writer = MatmulEmitter { matmul: self, e: emitter, rejected: None };
        let maps = self.maps(&method, &sizes);
        method.declare(&mut writer.e.b, &sizes);
        method.emit(&mut writer, &sizes);
        match writer.rejected {
            Some(rejection) => Err(rejection),
            None => Ok(writer.e.finish(method.blocks(&sizes) as u32, maps)),
        }
    }

    /// The tensor maps of the launch: operands, then outputs.
    fn maps(&self, method: &MatmulKernel, sizes: &tensor_cores::Matmul) -> Vec<TensorMap> {
        let matrices = [&self.matrices.left, &self.matrices.right].into_iter().chain(&self.stores);
        let tensors = method.tensors(sizes).into_iter();
        let map = |(tensor, matrix): (tensor_cores::TmaTensor, &Matrix)| TensorMap {
            param: matrix.node.0,
            offset: matrix.base.offset() as u64 * matrix.dtype.size_bytes() as u64,
            dtype: matrix.dtype,
            sizes: tensor.sizes,
            strides: tensor.strides,
            tile: tensor.tile,
            swizzle: TileSwizzle::Bytes128,
        };
        tensors.zip(matrices).map(map).collect()
    }

    fn sizes(&self) -> tensor_cores::Matmul {
        let whole = &self.matrices.contraction;
        let sizes = [whole.num_rows(), whole.num_columns(), whole.num_products()].map(|size| size as u32);
        let matrix = |matrix: &Matrix, extent| tensor_cores::OperandView {
            extent,
            k_contiguous: matrix.is_depth_contiguous(),
            stride: if matrix.is_depth_contiguous() { matrix.side } else { matrix.depth } as u32,
            batch: self.batch(matrix).map(|axes| axes.into_iter().map(|(_, axis)| axis).collect()),
        };
        tensor_cores::Matmul {
            sizes,
            batch: whole.batch.iter().map(|axis| axis.extent).product::<i64>() as u32,
            a: matrix(&self.matrices.left, sizes[0]),
            b: matrix(&self.matrices.right, sizes[1]),
            element: match self.matrices.left.dtype {
                DType::F16 => Ty::F16,
                DType::Bf16 => Ty::Bf16,
                _ => Ty::F32,
            },
            outputs: self.stores.iter().map(|store| self.stored(store)).collect(),
        }
    }

    fn stored(&self, store: &Matrix) -> tensor_cores::OutputView {
        let batch = self.batch(store).map(|axes| axes.into_iter().map(|(_, axis)| axis).collect());
        tensor_cores::OutputView { element: memory_type(store.dtype), stride: store.side as u32, batch }
    }

    fn matrix(&self, of: MatmulMemory) -> &Matrix {
        match of {
            MatmulMemory::OperandA => &self.matrices.left,
            MatmulMemory::OperandB => &self.matrices.right,
            MatmulMemory::Output(number) => &self.stores[number],
        }
    }

    /// The batch axes along which an operand or output moves; `None` if it is not a tensor of at most five
    /// axes, or if it depends on a symbol.
    fn batch(&self, matrix: &Matrix) -> Option<Vec<(LoopId, BatchAxis)>> {
        let axes = &self.matrices.contraction.batch;
        let axis = |&(var, stride): &(Var, i64)| {
            let Var::Loop(var) = var else { return None };
            let extent = axes.iter().find(|axis| axis.var == var)?.extent as u32;
            let stride = u64::try_from(stride).ok().filter(|&stride| stride <= MOST_STRIDE)?;
            Some((var, BatchAxis { extent, stride }))
        };
        let found: Option<Vec<_>> = matrix.base.terms().iter().map(axis).collect();
        found.filter(|axes| axes.len() <= MOST_AXES && matrix.base.offset() >= 0)
    }
}

/// The most batch axes of a tensor, and the greatest stride of one in elements.
const MOST_AXES: usize = 3;
const MOST_STRIDE: u64 = 1 << 38;

/// The loop nest with serial loops only, the form in which contractions are recognized.
fn serial(stmt: &Stmt) -> Stmt {
    match stmt {
        Stmt::For { var, lo, hi, kind: LoopKind::Parallel, body } => {
            let body = body.iter().map(serial).collect();
            Stmt::For { var: *var, lo: *lo, hi: hi.clone(), kind: LoopKind::Serial, body }
        }
        other => other.clone(),
    }
}

/// Writes the prologue and epilogue of a matmul.
struct MatmulEmitter<'k> {
    matmul: &'k TensorCoreMatmul,
    e: Emitter<'k>,
    /// The first construct that is not supported.
    rejected: Option<Rejection>,
}

impl<'k> MatmulEmitter<'k> {
    fn contraction(&self) -> &'k Contraction {
        &self.matmul.matrices.contraction
    }

    fn note(&mut self, checked: Checked) {
        if let Err(rejection) = checked {
            self.rejected.get_or_insert(rejection);
        }
    }

    /// Writes code for each of several adjacent outputs, with the variables set to its position.
    fn each(&mut self, outputs: OutputElements, write: impl FnMut(&mut Self, usize) -> Checked) {
        let row = self.contraction().rows[0];
        self.matmul.names.enter_row(&mut self.e, row, outputs.row);
        let (names, columns) = (self.matmul.names, self.contraction().num_columns());
        let checked = names.each_column(self, |writer| &mut writer.e, columns, outputs, write);
        self.note(checked);
        (0..2).for_each(|_| self.e.leave());
    }

    /// The value of a batch variable.
    fn coordinate(&mut self, var: LoopId) -> Reg {
        match self.e.scope.get(var) {
            Some(LoopIndex::Computed(reg, _)) => reg,
            Some(LoopIndex::Known(number)) => self.e.b.mov(RegClass::B32, number as i32),
            None => self.e.b.mov(RegClass::B32, 0_u32),
        }
    }

    fn sum(&mut self, acc: LocalId) -> Checked<Reg> {
        let value = self.e.get_local(acc, &Default::default())?;
        Ok(self.e.reg(value))
    }
}

impl MatmulCallbacks for MatmulEmitter<'_> {
    fn builder(&mut self) -> &mut ptx_asm::PtxBuilder {
        // Pending stores come before whatever the caller writes.
        self.e.flush();
        &mut self.e.b
    }

    fn enter_batch(&mut self, number: Reg) {
        let matmul = self.matmul;
        self.e.enter_digits(number, &matmul.matrices.contraction.batch);
    }

    fn base_address(&mut self, of: MatmulMemory) -> Reg {
        let matmul = self.matmul;
        self.e.first_element(matmul.matrix(of))
    }

    fn batch_coordinates(&mut self, of: MatmulMemory) -> Vec<Reg> {
        let axes = self.matmul.batch(self.matmul.matrix(of)).unwrap_or_default();
        axes.into_iter().map(|(var, _)| self.coordinate(var)).collect()
    }

    fn prologue(&mut self, outputs: OutputElements) -> Option<Vec<Reg>> {
        self.contraction().start.as_ref()?;
        let (acc, matmul) = (self.contraction().acc, self.matmul);
        let mut values = Vec::new();
        self.each(outputs, |writer, _| {
            writer.e.block(&matmul.declare)?;
            writer.e.block(&matmul.begin)?;
            values.push(writer.sum(acc)?);
            Ok(())
        });
        Some(values)
    }

    fn epilogue(&mut self, outputs: OutputElements, accumulators: &[Reg]) {
        let (acc, matmul) = (self.contraction().acc, self.matmul);
        self.each(outputs, |writer, n| {
            writer.e.block(&matmul.declare)?;
            writer.e.set_local(acc, &Default::default(), Value::In(accumulators[n]), None)?;
            writer.e.block(&matmul.after)
        });
        self.e.flush();
    }

    fn epilogue_values(&mut self, outputs: OutputElements, accumulators: &[Reg]) -> Vec<Vec<Reg>> {
        let (acc, matmul) = (self.contraction().acc, self.matmul);
        let mut results = vec![Vec::new(); matmul.stores.len()];
        self.each(outputs, |writer, n| {
            writer.e.block(&matmul.declare)?;
            writer.e.set_local(acc, &Default::default(), Value::In(accumulators[n]), None)?;
            writer.e.results = Some(Vec::new());
            let checked = writer.e.block(&matmul.after);
            let found = writer.e.results.take().unwrap_or_default();
            results.iter_mut().zip(found).for_each(|(results, found)| results.push(found));
            checked
        });
        results
    }

    fn nested_block(&mut self, write: &mut dyn FnMut(&mut dyn MatmulCallbacks)) -> ptx_asm::StmtList {
        let depth = self.e.scope.depth();
        self.e.open();
        write(self);
        while self.e.scope.depth() > depth {
            self.e.leave();
        }
        self.e.close()
    }
}
