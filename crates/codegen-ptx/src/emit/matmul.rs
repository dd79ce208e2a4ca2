//! Kernels that are products of matrices: what [`cores`] needs to know of the nodes around them.
//!
//! Such a kernel is written as one thread per output. Here it is taken apart: factors become matrices, and what comes before and after the sum is
//! written for each output of a thread, with the row and the column that it has.

use codegen_core::canonical::{Arrays, Axis, Contraction};
use codegen_core::matrices::{self, Matrix};
use codegen_core::threads::{PlanLimits, plan};
use codegen_core::{DTypeSet, TensorMap, TileSwizzle};
use lowered_ir::ir::{Affine, Block, Bound, LocalId, LoopId, LoopKind, Routine, Space, Stmt, Var, walk};
use ptx_asm::{AddressBase, PtxBinaryOp, Reg, RegClass, Ty};
use tnode::{DType, Dims};

use super::index::Index;
use super::memory::{Memory, memory_type};
use super::{Emitted, Emitter, Repeated, Setting, ThreadBlock, Value};
use crate::refusal::{Checked, Refusal, refuse};
use crate::tensor_cores::{self, BatchAxis, MatmulCallbacks, MatmulKernel, MatmulMemory, OutputElements};

/// A product of matrices, and the routine of what is done for one output.
pub(super) struct MatmulNest {
    matrices: matrices::MatmulNest,
    /// Where results go, if they may be stored later than they are computed.
    stores: Vec<Matrix>,
    names: OutputVars,
    /// What is done for an output: the declaration of its sum, how that begins, what comes after.
    declare: Block,
    begin: Block,
    after: Block,
    /// The kernel with other statements: these, in a loop over the columns that are done together.
    around: Routine,
}

/// Variables that stand for an output's place.
#[derive(Clone, Copy)]
struct OutputVars {
    /// Rows behind those that axes say.
    row: LoopId,
    /// Half of the first column, and how many columns behind that.
    half: LoopId,
    column: LoopId,
}

impl MatmulNest {
    /// The product that a kernel is, if tensor cores take it.
    pub(super) fn of(kernel: &Routine, types: DTypeSet) -> Option<MatmulNest> {
        let [stmt] = kernel.body.as_slice() else { return None };
        let arrays = Arrays::of(kernel);
        let contraction = Contraction::of(&serial(stmt), &arrays)?;
        let matrices = matrices::MatmulNest::of(contraction, &arrays)
            .filter(|product| product.suits_tensor_cores(types))?;
        let stores = matrices.stores(&arrays).unwrap_or_default();
        let free = walk::loops_in(&kernel.body).last().map_or(0, |last| last.0 + 1);
        let names = OutputVars { row: LoopId(free), half: LoopId(free + 1), column: LoopId(free + 2) };
        let contraction = &matrices.contraction;
        let acc = contraction.acc;
        let declare =
            Stmt::Declare { local: acc, dtype: DType::F32, dims: Dims::new(), space: Space::Register };
        let begin = contraction.start.iter().map(|start| Stmt::set_scalar(acc, start.clone())).collect();
        let [declare, begin, after] = [vec![declare], begin, contraction.epilogue.clone()]
            .map(|block| placed(block, contraction, &names));
        let body = [&declare[..], &begin, &after].concat();
        let (lo, hi) = (0, Bound::from(2));
        let lanes = Stmt::For { var: names.column, lo, hi, kind: LoopKind::Unrolled, body };
        let around = Routine { body: vec![lanes], ..kernel.clone() };
        Some(MatmulNest { matrices, stores, names, declare, begin, after, around })
    }

    /// Writes the kernel.
    pub(super) fn emit(&self, entry: &str, setting: Setting<'_>) -> Checked<Emitted> {
        let product = self.sizes();
        let method = MatmulKernel::of(&product, setting.target, setting.options.tensor_cores);
        if method.tiles(&product) > i32::MAX as u64 {
            return refuse("a product of matrices", "it has 2^31 tiles or more, a grid has fewer blocks");
        }
        let plan = plan(&self.around, &self.around.body, PlanLimits::default());
        let block = ThreadBlock { threads: method.threads(), is_team: false };
        let emitter = Emitter::new(&self.around, entry, setting, block, plan, None);
        let mut writer = MatmulEmitter { product: self, e: emitter, refused: None };
        let maps = self.maps(&method, &product);
        method.declare(writer.e.b.code(), &product);
        method.emit(&mut writer, &product);
        match writer.refused {
            Some(refusal) => Err(refusal),
            None => Ok(writer.e.finish(method.blocks(&product) as u32, maps)),
        }
    }

    /// The factors, and where results go, as the copy engine knows them.
    fn maps(&self, method: &MatmulKernel, product: &tensor_cores::Matmul) -> Vec<TensorMap> {
        let matrices = [&self.matrices.left, &self.matrices.right].into_iter().chain(&self.stores);
        let tensors = method.tensors(product).into_iter();
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

    /// The loops of the batch along which a factor, or what is stored, moves; nothing if it is no tensor of at most five axes, or depends on a symbol.
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

/// Axes of the batch that a tensor has room for, and elements from one step along an axis to the next.
const MOST_AXES: usize = 3;
const MOST_STRIDE: u64 = 1 << 38;

/// The nest with serial loops alone, as contractions are recognised.
fn serial(stmt: &Stmt) -> Stmt {
    match stmt {
        Stmt::For { var, lo, hi, kind: LoopKind::Parallel, body } => {
            let body = body.iter().map(serial).collect();
            Stmt::For { var: *var, lo: *lo, hi: *hi, kind: LoopKind::Serial, body }
        }
        other => other.clone(),
    }
}

/// What is done for an output, with variables for its place that are known in part while code is written.
fn placed(mut block: Block, contraction: &Contraction, names: &OutputVars) -> Block {
    if let [column] = contraction.columns.as_slice() {
        let place = Affine::term(names.half, 2).plus(&Affine::var(names.column));
        walk::substitute(&mut block, column.var, &place);
    }
    if let [row] = contraction.rows.as_slice() {
        walk::substitute(&mut block, row.var, &Affine::var(row.var).plus(&Affine::var(names.row)));
    }
    block
}

/// Writes what surrounds a product.
struct MatmulEmitter<'k> {
    product: &'k MatmulNest,
    e: Emitter<'k>,
    /// The first refusal.
    refused: Option<Refusal>,
}

impl<'k> MatmulEmitter<'k> {
    fn contraction(&self) -> &'k Contraction {
        &self.product.matrices.contraction
    }

    fn note(&mut self, checked: Checked) {
        if let Err(refusal) = checked {
            self.refused.get_or_insert(refusal);
        }
    }

    /// Does something for each of several neighbouring outputs, whose place the variables have.
    fn each(&mut self, outputs: OutputElements, mut write: impl FnMut(&mut Self, usize) -> Checked) {
        let names = self.product.names;
        let entered = self.enter_row(outputs.row);
        let (half, first) = outputs.column;
        let columns = self.contraction().num_columns();
        self.e.enter(names.half, Index::Computed(half, (0, columns / 2)));
        let count = outputs.count as i64;
        self.e.repeated.push(Repeated { var: names.column, lo: i64::from(first), extent: count });
        for n in 0..outputs.count {
            self.e.enter(names.column, Index::Known(i64::from(first) + n as i64));
            let checked = write(self, n);
            self.note(checked);
            self.e.leave();
        }
        self.e.repeated.pop();
        (0..=entered).for_each(|_| self.e.leave());
    }

    /// Sets the variables of a row: how many.
    fn enter_row(&mut self, (row, behind): (Reg, u32)) -> usize {
        let rows = &self.contraction().rows;
        let names = self.product.names;
        if let [only] = rows.as_slice() {
            self.e.enter(only.var, Index::Computed(row, (0, only.extent - 1)));
            self.e.enter(names.row, Index::Known(i64::from(behind)));
            return 2;
        }
        let number = self.e.b.index(PtxBinaryOp::Add, Ty::U32, row, behind);
        self.enter_digits(number, rows)
    }

    /// Sets the variables of loops that make up a number.
    fn enter_digits(&mut self, number: Reg, axes: &[Axis]) -> usize {
        let extents: Vec<u32> = axes.iter().map(|axis| axis.extent as u32).collect();
        let digits = self.e.digits(number, &extents);
        for (axis, digit) in axes.iter().zip(digits) {
            let index = digit.map_or(Index::Known(0), |digit| Index::Computed(digit, (0, axis.extent - 1)));
            self.e.enter(axis.var, index);
        }
        axes.len()
    }

    /// The address of a matrix's first element.
    fn first(&mut self, matrix: &Matrix) -> Reg {
        let element = self.e.element(Memory::Node(matrix.node), &matrix.base, matrix.dtype.size_bytes());
        let AddressBase::Reg(base) = element.base else { return self.e.bases[matrix.node.index()] };
        match element.offset {
            0 => base,
            offset => self.e.b.index(PtxBinaryOp::Add, Ty::S64, base, i64::from(offset) as u64),
        }
    }

    /// The number of an iteration of the batch.
    fn coordinate(&mut self, var: LoopId) -> Reg {
        match self.e.vars.get(&var) {
            Some(&Index::Computed(reg, _)) => reg,
            Some(&Index::Known(number)) => self.e.b.mov(RegClass::B32, number as i32),
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
        // What waits was written before.
        self.e.flush();
        self.e.b.code()
    }

    fn enter_batch(&mut self, number: Reg) {
        let product = self.product;
        self.enter_digits(number, &product.matrices.contraction.batch);
    }

    fn base_address(&mut self, of: MatmulMemory) -> Reg {
        let product = self.product;
        self.first(product.matrix(of))
    }

    fn batch_coordinates(&mut self, of: MatmulMemory) -> Vec<Reg> {
        let axes = self.product.batch(self.product.matrix(of)).unwrap_or_default();
        axes.into_iter().map(|(var, _)| self.coordinate(var)).collect()
    }

    fn prologue(&mut self, outputs: OutputElements) -> Option<Vec<Reg>> {
        self.contraction().start.as_ref()?;
        let (acc, product) = (self.contraction().acc, self.product);
        let mut values = Vec::new();
        self.each(outputs, |writer, _| {
            writer.e.block(&product.declare)?;
            writer.e.block(&product.begin)?;
            values.push(writer.sum(acc)?);
            Ok(())
        });
        Some(values)
    }

    fn epilogue(&mut self, outputs: OutputElements, accumulators: &[Reg]) {
        let (acc, product) = (self.contraction().acc, self.product);
        self.each(outputs, |writer, n| {
            writer.e.block(&product.declare)?;
            writer.e.set_local(acc, &Default::default(), Value::In(accumulators[n]), None)?;
            writer.e.block(&product.after)
        });
        self.e.flush();
    }

    fn epilogue_values(&mut self, outputs: OutputElements, accumulators: &[Reg]) -> Vec<Vec<Reg>> {
        let (acc, product) = (self.contraction().acc, self.product);
        let mut results = vec![Vec::new(); product.stores.len()];
        self.each(outputs, |writer, n| {
            writer.e.block(&product.declare)?;
            writer.e.set_local(acc, &Default::default(), Value::In(accumulators[n]), None)?;
            writer.e.results = Some(Vec::new());
            let checked = writer.e.block(&product.after);
            let found = writer.e.results.take().unwrap_or_default();
            results.iter_mut().zip(found).for_each(|(results, found)| results.push(found));
            checked
        });
        results
    }

    fn nested_block(&mut self, write: &mut dyn FnMut(&mut dyn MatmulCallbacks)) -> ptx_asm::StmtList {
        let depth = self.e.order.len();
        self.e.open();
        write(self);
        while self.e.order.len() > depth {
            self.e.leave();
        }
        self.e.close()
    }
}
