//! Epilogues for tests.

use microkernels::{COLUMN, LANES, SUM};
use vector_asm::{Binary, Comparison, Element, Op, Place, Program, Stmt, Type, Value};

use super::{Case, numbers, size};

/// An epilogue statement by statement; comparisons have integers.
pub(crate) struct Writer {
    pub(crate) program: Program,
    element: Element,
}

impl Writer {
    pub(crate) fn new(element: Element) -> Writer {
        let sums = Type { element, lanes: LANES };
        Writer { program: Program { variables: vec![sums], ..Program::default() }, element }
    }

    pub(crate) fn define(&mut self, op: Op) -> Value {
        let element = match (&op, self.element) {
            (Op::Compare(..), Element::F64) => Element::I64,
            (Op::Compare(..), _) => Element::I32,
            (_, element) => element,
        };
        let one = matches!(&op, Op::Constant(_)) || matches!(&op, Op::Load(place) if place.step == 0);
        self.program.values.push(Type { element, lanes: if one { 1 } else { LANES } });
        let value = Value(self.program.values.len() as u32 - 1);
        self.program.body.push(Stmt::Let { value, op });
        value
    }

    pub(crate) fn store(&mut self, place: Place, value: Value) {
        self.program.body.push(Stmt::Store { place, value, streaming: false });
    }
}

/// Where a product is stored that is only stored.
pub(crate) fn output(case: &Case) -> Place {
    match &case.what.epilogue.body[1] {
        Stmt::Store { place, .. } => place.clone(),
        _ => unreachable!(),
    }
}

/// Makes a product `relu(sum + bias[column])`.
pub(crate) fn bias_and_relu(case: &mut Case) {
    let element = case.what.element;
    let output = output(case);
    let mut writer = Writer::new(element);
    let sum = writer.define(Op::Get { variable: SUM, start: 0 });
    let bias = Place { base: Some(3), terms: vec![(COLUMN, size(element))], ..output.clone() };
    let bias = writer.define(Op::Load(bias));
    let sum = writer.define(Op::Binary(Binary::Add, sum, bias));
    let zero = writer.define(Op::Constant(0));
    let positive = writer.define(Op::Compare(Comparison::Less, zero, sum));
    let value = writer.define(Op::Select(positive, sum, zero));
    writer.store(output, value);
    case.what.epilogue = writer.program;
    case.args.push(numbers(element, 7, case.what.columns as usize));
}
