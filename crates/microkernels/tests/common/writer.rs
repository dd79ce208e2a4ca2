//! Epilogues for tests.

use microkernels::{ACCUMULATORS, COLUMN, EPILOGUE_LANES};
use vector_asm::{Binary, Comparison, Element, Op, Place, Program, Stmt, Type, Value};

use super::{Case, numbers, size};

/// Builds an epilogue statement by statement. The value of a comparison is an integer.
pub(crate) struct Writer {
    pub(crate) program: Program,
    element: Element,
}

impl Writer {
    pub(crate) fn new(element: Element) -> Writer {
        let sums = Type { element, lanes: EPILOGUE_LANES };
        Writer { program: Program { variables: vec![sums], ..Program::default() }, element }
    }

    pub(crate) fn define(&mut self, op: Op) -> Value {
        let element = match (&op, self.element) {
            (Op::Compare(..), Element::F64) => Element::I64,
            (Op::Compare(..), _) => Element::I32,
            (_, element) => element,
        };
        let one = matches!(&op, Op::Constant(_)) || matches!(&op, Op::Load(place) if place.step == 0);
        self.program.values.push(Type { element, lanes: if one { 1 } else { EPILOGUE_LANES } });
        let value = Value(self.program.values.len() as u32 - 1);
        self.program.body.push(Stmt::Let { value, op });
        value
    }

    pub(crate) fn store(&mut self, place: Place, value: Value) {
        self.program.body.push(Stmt::Store { place, value, streaming: false });
    }
}

/// The place of the only store of a problem whose epilogue is one store.
pub(crate) fn output(case: &Case) -> Place {
    match &case.problem.epilogue.body[1] {
        Stmt::Store { place, .. } => place.clone(),
        _ => unreachable!(),
    }
}

/// Replaces the epilogue by `relu(accumulator + bias[column])`, with the bias as argument 3.
pub(crate) fn bias_and_relu(case: &mut Case) {
    let element = case.problem.element;
    let output = output(case);
    let mut writer = Writer::new(element);
    let sum = writer.define(Op::Get { variable: ACCUMULATORS, start: 0 });
    let bias = Place { base: Some(3), terms: vec![(COLUMN, size(element))], ..output.clone() };
    let bias = writer.define(Op::Load(bias));
    let sum = writer.define(Op::Binary(Binary::Add, sum, bias));
    let zero = writer.define(Op::Constant(0));
    let positive = writer.define(Op::Compare(Comparison::Less, zero, sum));
    let value = writer.define(Op::Select(positive, sum, zero));
    writer.store(output, value);
    case.problem.epilogue = writer.program;
    case.args.push(numbers(element, 7, case.problem.n as usize));
}
