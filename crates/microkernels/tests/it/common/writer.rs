//! Epilogues for tests.

use microkernels::{ACCUMULATORS, COLUMN, EPILOGUE_LANES};
use vector_asm::{
    Binary, Comparison, LaneType, Value, VectorAddress, VectorOp, VectorProgram, VectorStmt, VectorType,
};

use super::{Case, numbers, size};

/// Builds an epilogue statement by statement. The value of a comparison is an integer.
pub(crate) struct Writer {
    pub(crate) program: VectorProgram,
    element: LaneType,
}

impl Writer {
    pub(crate) fn new(element: LaneType) -> Writer {
        let sums = VectorType { element, lanes: EPILOGUE_LANES };
        Writer { program: VectorProgram { variables: vec![sums], ..VectorProgram::default() }, element }
    }

    pub(crate) fn define(&mut self, op: VectorOp) -> Value {
        let element = match (&op, self.element) {
            (VectorOp::Compare(..), LaneType::F64) => LaneType::I64,
            (VectorOp::Compare(..), _) => LaneType::I32,
            (_, element) => element,
        };
        let one =
            matches!(&op, VectorOp::Constant(_)) || matches!(&op, VectorOp::Load(place) if place.step == 0);
        self.program.values.push(VectorType { element, lanes: if one { 1 } else { EPILOGUE_LANES } });
        let value = Value(self.program.values.len() as u32 - 1);
        self.program.body.push(VectorStmt::Let { value, op });
        value
    }

    pub(crate) fn store(&mut self, place: VectorAddress, value: Value) {
        self.program.body.push(VectorStmt::Store { place, value, streaming: false });
    }
}

/// The place of the only store of a problem whose epilogue is one store.
pub(crate) fn output(case: &Case) -> VectorAddress {
    match &case.problem.epilogue.body[1] {
        VectorStmt::Store { place, .. } => place.clone(),
        _ => unreachable!(),
    }
}

/// Replaces the epilogue by `relu(accumulator + bias[column])`, with the bias as argument 3.
pub(crate) fn bias_and_relu(case: &mut Case) {
    let element = case.problem.element;
    let output = output(case);
    let mut writer = Writer::new(element);
    let sum = writer.define(VectorOp::Get { variable: ACCUMULATORS, start: 0 });
    let bias = VectorAddress { base: Some(3), terms: vec![(COLUMN, size(element))], ..output.clone() };
    let bias = writer.define(VectorOp::Load(bias));
    let sum = writer.define(VectorOp::Binary(Binary::Add, sum, bias));
    let zero = writer.define(VectorOp::Constant(0));
    let positive = writer.define(VectorOp::Compare(Comparison::Less, zero, sum));
    let value = writer.define(VectorOp::Select(positive, sum, zero));
    writer.store(output, value);
    case.problem.epilogue = writer.program;
    case.args.push(numbers(element, 7, case.problem.n as usize));
}
