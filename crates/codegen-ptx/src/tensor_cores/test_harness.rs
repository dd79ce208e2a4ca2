//! Test harness of the tensor-core kernels: matmuls of small integers, exact in any order, on the simulated
//! GPU.

use codegen_core::{DType, Scalar};
use ptx_asm::{
    AddressOperand, PtxBuilder, PtxKernel, PtxProgram, Reg, RoundingMode, StateSpace, StmtList, Target, Ty,
    check,
};
use ptx_sim::{
    ExecutionOrder, GlobalBuffer, KernelStats, SimFault, SimLaunch, SimTensorMap, SimulatedGpu, Swizzle, run,
};

use super::{
    Matmul, MatmulCallbacks, MatmulKernel, MatmulMemory, OperandView, OutputElements, OutputView, TmaTensor,
};

/// Callbacks whose epilogue stores the accumulators, to one matrix for each of several types.
pub(super) struct TestHarness {
    b: PtxBuilder,
    matmul: Matmul,
    /// Whether the prologue loads the first output, which is `f32`.
    accumulates: bool,
    types: Vec<Ty>,
}

impl TestHarness {
    fn address(&mut self, store: usize, outputs: OutputElements) -> AddressOperand {
        let b = &mut self.b;
        let base = b.param(2 + store as u32);
        let row = b.add(Ty::U32, outputs.row.0, outputs.row.1);
        let column = b.mul_add(Ty::U32, outputs.column.0, 2_u32, outputs.column.1);
        let at = b.mul_add(Ty::U32, row, self.matmul.sizes[1], column);
        AddressOperand::at(b.mul_add_wide(Ty::U32, at, self.types[store].bytes(), base))
    }
}

impl MatmulCallbacks for TestHarness {
    fn builder(&mut self) -> &mut PtxBuilder {
        &mut self.b
    }

    fn enter_batch(&mut self, _number: Reg) {}

    fn base_address(&mut self, of: MatmulMemory) -> Reg {
        self.b.param(match of {
            MatmulMemory::OperandA => 0,
            MatmulMemory::OperandB => 1,
            MatmulMemory::Output(number) => 2 + number as u32,
        })
    }

    fn prologue(&mut self, outputs: OutputElements) -> Option<Vec<Reg>> {
        if !self.accumulates {
            return None;
        }
        let at = self.address(0, outputs);
        Some(self.b.load_vector(StateSpace::Global, Ty::F32, false, at, outputs.count).to_vec())
    }

    fn epilogue(&mut self, outputs: OutputElements, accumulators: &[Reg]) {
        for (store, values) in self.epilogue_values(outputs, accumulators).iter().enumerate() {
            let at = self.address(store, outputs);
            self.b.store_vector(StateSpace::Global, self.types[store], at, values);
        }
    }

    fn epilogue_values(&mut self, _outputs: OutputElements, accumulators: &[Reg]) -> Vec<Vec<Reg>> {
        let b = &mut self.b;
        let mut as_type = |ty: Ty, sum| match ty {
            Ty::F32 => sum,
            _ => b.convert(Ty::Bf16, Ty::F32, RoundingMode::Nearest, sum),
        };
        self.types.iter().map(|&ty| accumulators.iter().map(|&sum| as_type(ty, sum)).collect()).collect()
    }

    fn batch_coordinates(&mut self, _of: MatmulMemory) -> Vec<Reg> {
        Vec::new()
    }

    fn nested_block(&mut self, write: &mut dyn FnMut(&mut dyn MatmulCallbacks)) -> StmtList {
        let outer = self.b.begin();
        write(self);
        self.b.end(outer)
    }
}

pub(super) fn matmul(sizes: [u32; 3], k_contiguous: [bool; 2]) -> Matmul {
    let matrix = |side: usize| OperandView {
        extent: sizes[side],
        k_contiguous: k_contiguous[side],
        stride: if k_contiguous[side] { sizes[2] } else { sizes[side] },
        batch: Some(Vec::new()),
    };
    let (left, right) = (matrix(0), matrix(1));
    stored(Matmul { sizes, batch: 1, a: left, b: right, element: Ty::Bf16, outputs: Vec::new() }, &[Ty::F32])
}

/// Gives a matmul outputs of these types, if their rows are multiples of 16 bytes.
pub(super) fn stored(matmul: Matmul, types: &[Ty]) -> Matmul {
    let columns = matmul.sizes[1];
    let is_whole = types.iter().all(|ty| (columns * ty.bytes()).is_multiple_of(16));
    let store = |&element: &Ty| OutputView { element, stride: columns, batch: Some(Vec::new()) };
    Matmul { outputs: types.iter().filter(|_| is_whole).map(store).collect(), ..matmul }
}

/// The types of the outputs.
fn types(matmul: &Matmul) -> Vec<Ty> {
    match matmul.outputs.as_slice() {
        [] => vec![Ty::F32],
        stored => stored.iter().map(|store| store.element).collect(),
    }
}

pub(super) fn kernel(matmul: &Matmul, method: &MatmulKernel, accumulates: bool) -> PtxKernel {
    let types = types(matmul);
    let builder = PtxBuilder::new("matmul", 2 + types.len() as u32, method.threads());
    let mut harness = TestHarness { b: builder, matmul: matmul.clone(), accumulates, types };
    method.declare(&mut harness.b, matmul);
    method.emit(&mut harness, matmul);
    harness.b.finish()
}

/// A pseudo-random integer from 0 to 3.
fn element(side: u32, k: u32) -> i32 {
    let mixed = (side.wrapping_mul(0x9E37_79B9) ^ k.wrapping_mul(0x85EB_CA6B)).rotate_left(13);
    (mixed.wrapping_mul(0xC2B2_AE35) >> 16) as i32 % 4
}

fn operand(element_type: Ty, extent: u32, k: u32, k_contiguous: bool) -> Vec<u8> {
    let (outer, inner) = if k_contiguous { (extent, k) } else { (k, extent) };
    let mut bytes = Vec::new();
    for i in 0..outer {
        for j in 0..inner {
            let (side, k) = if k_contiguous { (i, j) } else { (j, i) };
            let bits = (element(side, k) as f32).to_bits().to_le_bytes();
            // The upper half of an `f32` is a `bf16`.
            bytes.extend(if element_type == Ty::F32 { &bits[..] } else { &bits[2..] });
        }
    }
    bytes
}

/// The tensor maps of the operands and outputs, for the simulator.
fn maps(matmul: &Matmul, method: &MatmulKernel, addresses: &[u64]) -> Vec<SimTensorMap> {
    let elements = [matmul.element; 2].into_iter().chain(types(matmul));
    let tensors = method.tensors(matmul).into_iter().zip(elements).zip(addresses);
    let map = |((tensor, element), &address): ((TmaTensor, Ty), &u64)| SimTensorMap {
        address,
        element: element.bytes(),
        sizes: tensor.sizes,
        strides: tensor.strides,
        tile: tensor.tile,
        swizzle: Swizzle::Bytes128,
    };
    tensors.map(map).collect()
}

/// Runs a matmul and compares the result with integer arithmetic.
pub(super) fn multiply(
    matmul: &Matmul,
    method: &MatmulKernel,
    accumulates: bool,
    order: ExecutionOrder,
) -> KernelStats {
    let module = module(matmul, method, kernel(matmul, method, accumulates));
    run_kernel(matmul, method, &module.kernels[0], accumulates, order)
        .unwrap_or_else(|fault| panic!("{fault}"))
}

/// The checked program of a kernel.
fn module(matmul: &Matmul, method: &MatmulKernel, kernel: PtxKernel) -> PtxProgram {
    let target = if method.tensors(matmul).is_empty() { Target::Sm80 } else { Target::Sm90a };
    let module = PtxProgram { target, kernels: vec![kernel] };
    check(&module).unwrap_or_else(|error| panic!("{error}"));
    module
}

/// Runs a kernel and compares its outputs.
pub(super) fn run_kernel(
    matmul: &Matmul,
    method: &MatmulKernel,
    kernel: &PtxKernel,
    accumulates: bool,
    order: ExecutionOrder,
) -> Result<KernelStats, SimFault> {
    let [rows, columns, k] = matmul.sizes;
    let mut machine = SimulatedGpu::new();
    let left = machine.put("left", operand(matmul.element, rows, k, matmul.a.k_contiguous));
    let right = machine.put("right", operand(matmul.element, columns, k, matmul.b.k_contiguous));
    let types = types(matmul);
    let mut put = |&ty: &Ty| {
        let before = (0..rows * columns).flat_map(|_| bytes(ty, if accumulates { 7.0 } else { 0.0 }));
        machine.put("accumulators", before.collect::<Vec<u8>>())
    };
    let stored: Vec<GlobalBuffer> = types.iter().map(&mut put).collect();
    let params: Vec<u64> = [left, right].iter().chain(&stored).map(|region| region.address()).collect();
    let maps = maps(matmul, method, &params);
    let launch = SimLaunch::new(method.blocks(matmul) as u32, &params).with_maps(&maps);
    let stats = run(kernel, &launch, &mut machine, order)?;
    let expected: Vec<f32> = (0..rows * columns)
        .map(|at| {
            let (row, column) = (at / columns, at % columns);
            let sum: i32 = (0..k).map(|k| element(row, k) * element(column, k)).sum();
            (sum + if accumulates { 7 } else { 0 }) as f32
        })
        .collect();
    for (region, ty) in stored.into_iter().zip(types) {
        let found = machine.bytes(region).chunks_exact(ty.bytes() as usize);
        for (at, (found, &expected)) in (0..).zip(found.zip(&expected)) {
            let (row, column) = (at / columns, at % columns);
            assert_eq!(found, bytes(ty, expected), "row {row}, column {column} of {matmul:?}");
        }
    }
    Ok(stats)
}

/// The bytes of a number.
fn bytes(ty: Ty, number: f32) -> Vec<u8> {
    let dtype = if ty == Ty::F32 { DType::F32 } else { DType::Bf16 };
    Scalar::from_f64(dtype, number.into()).bits().to_le_bytes()[..ty.bytes() as usize].to_vec()
}
