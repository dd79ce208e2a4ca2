//! Translates the statements after a contraction to the epilogue program that `microkernels` compiles: one
//! row, and some neighboring columns.

use codegen_core::Kernel;
use codegen_core::canonical::{Axis, Contraction};
use codegen_core::emit::LinearValue;
use microkernels::{ACCUMULATORS, EPILOGUE_LANES};
use tnode::DType;
use vector_asm::{Counter, Index, LaneType, VectorProgram, VectorType};

use super::locals::LocalStorage;
use super::{Result, Target, Translator};

/// The counters of an epilogue: the row, the column, then the batch loops.
const ROW: Counter = Counter(0);
const COLUMN: Counter = Counter(1);
const FIXED: u32 = 2;

/// Translates the epilogue of a kernel that consists of one contraction.
///
/// # Errors
///
/// The reason why the program cannot represent the epilogue.
pub(crate) fn epilogue(kernel: &Kernel, found: &Contraction, target: Target) -> Result<VectorProgram> {
    let mut translator = Translator::new(kernel, target)?;
    translator.build.count(FIXED + found.batch.len() as u32);
    let element = match translator.locals[&found.acc].dtype {
        DType::F64 => LaneType::F64,
        DType::I32 => LaneType::I32,
        _ => LaneType::F32,
    };
    let accumulators = translator.build.variable(VectorType { element, lanes: EPILOGUE_LANES });
    debug_assert_eq!(accumulators, ACCUMULATORS, "the first variable holds the accumulators");
    let value = translator.build.get(found.acc, accumulators, 0, EPILOGUE_LANES);
    translator.homes.insert(found.acc, LocalStorage::Private(vec![value]));
    translator.axis(&found.rows, ROW);
    translator.axis(&found.columns, COLUMN);
    for (at, axis) in found.batch.iter().enumerate() {
        translator.axis(std::slice::from_ref(axis), Counter(FIXED + at as u32));
    }
    translator.lane = found.columns.last().map(|axis| (axis.var, EPILOGUE_LANES));
    // A GEMM plan may divide K into blocks. It then keeps partial sums in the outputs between the blocks, so
    // the stores must not bypass the caches.
    translator.streamed.fill(false);
    translator.block(&found.epilogue)?;
    Ok(translator.build.finish())
}

impl Translator<'_> {
    /// Binds the loops of a dimension to one counter, which numbers all their iterations consecutively.
    /// Indices are linear in that number, so the innermost loop takes the counter, and the outer loops stay
    /// at 0.
    fn axis(&mut self, axes: &[Axis], counter: Counter) {
        let extent: i64 = axes.iter().map(|axis| axis.extent).product();
        let Some((inner, outer)) = axes.split_last() else { return };
        for axis in outer {
            self.bind(axis.var, LinearValue::known(0), (0, 0));
        }
        self.bind(inner.var, LinearValue::computed(Index::Counter(counter)), (0, extent - 1));
    }
}
