//! What becomes of a contraction's sums, as the template that `microkernels` compiles into tiles: one row, some neighbouring columns.

use codegen_core::Kernel;
use codegen_core::canonical::{Axis, Contraction};
use microkernels::{ACCUMULATORS, EPILOGUE_LANES};
use tnode::DType;
use vector_asm::{Counter, LaneType, VectorProgram, VectorType};

use super::locals::Home;
use super::stmt::Position;
use super::{Reason, Target, Translator};

/// The counters of a template: the row, the column, then the loops of the batch.
const ROW: Counter = Counter(0);
const COLUMN: Counter = Counter(1);
const FIXED: u32 = 2;

/// The epilogue of a contraction that a kernel consists of.
///
/// # Errors
///
/// What a program cannot say.
pub(crate) fn epilogue(
    kernel: &Kernel,
    found: &Contraction,
    target: Target,
) -> Result<VectorProgram, Reason> {
    let mut translator = Translator::new(kernel, target)?;
    translator.build.count(FIXED + found.batch.len() as u32);
    let element =
        if translator.locals[&found.acc].dtype == DType::F64 { LaneType::F64 } else { LaneType::F32 };
    let sums = translator.build.variable(VectorType { element, lanes: EPILOGUE_LANES });
    debug_assert_eq!(sums, ACCUMULATORS, "the first variable holds the sums");
    let value = translator.build.get(found.acc, sums, 0, EPILOGUE_LANES);
    translator.homes.insert(found.acc, Home::Private(vec![value]));
    translator.axis(&found.rows, ROW);
    translator.axis(&found.columns, COLUMN);
    for (at, axis) in found.batch.iter().enumerate() {
        translator.axis(std::slice::from_ref(axis), Counter(FIXED + at as u32));
    }
    translator.lane = found.columns.last().map(|axis| (axis.var, EPILOGUE_LANES));
    // Sums wait in what they end up in where the depth is cut, so stores go through the caches.
    translator.streamed.fill(false);
    translator.block(&found.epilogue)?;
    Ok(translator.build.finish())
}

impl Translator<'_> {
    /// An axis that is counted in one: its innermost loop stands for all, since what is indexed is linear in the count.
    fn axis(&mut self, axes: &[Axis], counter: Counter) {
        let extent: i64 = axes.iter().map(|axis| axis.extent).product();
        let Some((inner, outer)) = axes.split_last() else { return };
        for axis in outer {
            self.bind(axis.var, Position { counter: None, offset: 0 }, (0, 0));
        }
        self.bind(inner.var, Position { counter: Some((counter, 1)), offset: 0 }, (0, extent - 1));
    }
}
