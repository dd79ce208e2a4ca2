//! Writes programs: each method adds a statement and gives the value that it defines.
//!
//! The builder makes values, variables and counters, and works out types where an operation leaves no choice. What it writes still has to pass
//! [`Program::check`].

use crate::program::{
    Binary, Comparison, Counter, Element, Index, Memory, Op, Place, Program, Range, Stmt, Type, Unary, Value,
    Variable,
};

/// A program in the making.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    program: Program,
    /// The bodies of the loops that are open, outermost first, behind the program's own.
    open: Vec<(Counter, Range, Vec<Stmt>)>,
}

impl Type {
    /// So many lanes of an element.
    pub fn new(element: Element, lanes: u32) -> Type {
        Type { element, lanes }
    }
}

impl Place {
    /// Neighbouring elements, as they are in lanes, from a base on.
    pub fn at(base: u32, element: Element) -> Place {
        Place {
            base: Some(base),
            offset: 0,
            terms: Vec::new(),
            step: i64::from(element.bytes()),
            memory: Memory::Same,
        }
    }

    /// The same in scratch memory.
    pub fn scratch(element: Element) -> Place {
        Place { base: None, ..Place::at(0, element) }
    }

    /// So many bytes further on.
    #[must_use]
    pub fn plus(mut self, bytes: i64) -> Place {
        self.offset += bytes;
        self
    }

    /// So many bytes further on for each unit of an index.
    #[must_use]
    pub fn by(mut self, index: impl Into<Index>, bytes: i64) -> Place {
        let index = index.into();
        match self.terms.iter_mut().find(|(other, _)| *other == index) {
            Some((_, sum)) => *sum += bytes,
            None => self.terms.push((index, bytes)),
        }
        self
    }

    /// With lanes so many bytes apart.
    #[must_use]
    pub fn step(mut self, bytes: i64) -> Place {
        self.step = bytes;
        self
    }

    /// With other elements in memory, side by side.
    #[must_use]
    pub fn holding(mut self, memory: Memory) -> Place {
        if let Some(bytes) = memory.bytes() {
            self.step = i64::from(bytes);
        }
        self.memory = memory;
        self
    }
}

impl From<Counter> for Index {
    fn from(counter: Counter) -> Index {
        Index::Counter(counter)
    }
}

impl Builder {
    /// An empty program.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// The program.
    ///
    /// # Panics
    ///
    /// If a loop is open.
    pub fn finish(self) -> Program {
        assert!(self.open.is_empty(), "a loop that is begun is ended");
        self.program
    }

    /// Adds a statement.
    pub fn push(&mut self, stmt: Stmt) {
        match self.open.last_mut() {
            Some((_, _, body)) => body.push(stmt),
            None => self.program.body.push(stmt),
        }
    }

    /// A variable, for now zeros.
    pub fn variable(&mut self, ty: Type) -> Variable {
        self.program.variables.push(ty);
        Variable(self.program.variables.len() as u32 - 1)
    }

    /// Begins a loop.
    pub fn begin(&mut self, range: Range) -> Counter {
        let counter = Counter(self.program.counters);
        self.program.counters += 1;
        self.open.push((counter, range, Vec::new()));
        counter
    }

    /// Ends the loop begun last.
    ///
    /// # Panics
    ///
    /// If none is open.
    pub fn end(&mut self) {
        let (counter, range, body) = self.open.pop().expect("a loop is open");
        self.push(Stmt::Loop { counter, range, body });
    }

    /// A loop over what a function writes.
    pub fn repeat(&mut self, range: Range, body: impl FnOnce(&mut Builder, Counter)) {
        let counter = self.begin(range);
        body(self, counter);
        self.end();
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> Type {
        self.program.values[value.0 as usize]
    }

    /// Defines a value.
    pub fn define(&mut self, ty: Type, op: Op) -> Value {
        let value = Value(self.program.values.len() as u32);
        self.program.values.push(ty);
        self.push(Stmt::Let { value, op });
        value
    }

    /// The element of the first operand, and the most lanes.
    fn common(&self, operands: &[Value]) -> Type {
        let lanes = operands.iter().map(|value| self.ty(*value).lanes).max().unwrap_or(1);
        Type { lanes, ..self.ty(operands[0]) }
    }

    /// The same bits in every lane.
    pub fn constant(&mut self, ty: Type, bits: u64) -> Value {
        self.define(ty, Op::Constant(bits))
    }

    /// One lane with a number.
    pub fn f32(&mut self, number: f32) -> Value {
        self.constant(Type::new(Element::F32, 1), u64::from(number.to_bits()))
    }

    /// One lane with a number.
    pub fn f64(&mut self, number: f64) -> Value {
        self.constant(Type::new(Element::F64, 1), number.to_bits())
    }

    /// One lane with a number.
    pub fn i32(&mut self, number: i32) -> Value {
        self.constant(Type::new(Element::I32, 1), u64::from(number as u32))
    }

    /// What is in memory.
    pub fn load(&mut self, place: Place, ty: Type) -> Value {
        self.define(ty, Op::Load(place))
    }

    /// What is in memory where a condition holds, else what another value holds, whose type it has.
    pub fn load_if(&mut self, condition: Value, place: Place, otherwise: Value, lanes: u32) -> Value {
        let ty = Type { lanes, ..self.ty(otherwise) };
        self.define(ty, Op::LoadIf { condition, place, otherwise })
    }

    /// Stores a value.
    pub fn store(&mut self, place: Place, value: Value) {
        self.push(Stmt::Store { place, value, streaming: false });
    }

    /// Stores a value that is not read again soon.
    pub fn store_streaming(&mut self, place: Place, value: Value) {
        self.push(Stmt::Store { place, value, streaming: true });
    }

    /// All of a variable.
    pub fn get(&mut self, variable: Variable) -> Value {
        let ty = self.program.variables[variable.0 as usize];
        self.define(ty, Op::Get { variable, start: 0 })
    }

    /// Some lanes of a variable.
    pub fn get_lanes(&mut self, variable: Variable, start: u32, lanes: u32) -> Value {
        let ty = Type { lanes, ..self.program.variables[variable.0 as usize] };
        self.define(ty, Op::Get { variable, start })
    }

    /// Sets lanes of a variable from `start` on.
    pub fn set_lanes(&mut self, variable: Variable, start: u32, value: Value) {
        self.push(Stmt::Set { variable, start, value });
    }

    /// Sets the first lanes of a variable.
    pub fn set(&mut self, variable: Variable, value: Value) {
        self.set_lanes(variable, 0, value);
    }

    /// Some lanes of a value.
    pub fn slice(&mut self, of: Value, start: u32, lanes: u32) -> Value {
        let ty = Type { lanes, ..self.ty(of) };
        self.define(ty, Op::Slice { of, start })
    }

    /// `offset + Σ coefficient · index + step · lane`.
    pub fn index(&mut self, ty: Type, offset: i64, terms: Vec<(Index, i64)>, step: i64) -> Value {
        self.define(ty, Op::Index { offset, terms, step })
    }

    /// An operation on one operand.
    pub fn unary(&mut self, op: Unary, a: Value) -> Value {
        self.define(self.ty(a), Op::Unary(op, a))
    }

    /// An operation on two operands.
    pub fn binary(&mut self, op: Binary, a: Value, b: Value) -> Value {
        self.define(self.common(&[a, b]), Op::Binary(op, a, b))
    }

    /// `a + b`.
    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Add, a, b)
    }

    /// `a - b`.
    pub fn sub(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Subtract, a, b)
    }

    /// `a · b`.
    pub fn mul(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Multiply, a, b)
    }

    /// `a / b`.
    pub fn div(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Divide, a, b)
    }

    /// `a > b ? a : b`.
    pub fn max(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Maximum, a, b)
    }

    /// `a < b ? a : b`.
    pub fn min(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Minimum, a, b)
    }

    /// `a · b + c`, rounded once.
    pub fn fma(&mut self, a: Value, b: Value, c: Value) -> Value {
        self.define(self.common(&[a, b, c]), Op::Fma(a, b, c))
    }

    /// A comparison.
    pub fn compare(&mut self, comparison: Comparison, a: Value, b: Value) -> Value {
        let ty = self.common(&[a, b]);
        let element = if ty.element.bits() == 32 { Element::I32 } else { Element::I64 };
        self.define(Type { element, ..ty }, Op::Compare(comparison, a, b))
    }

    /// `a` where the condition holds, else `b`.
    pub fn select(&mut self, condition: Value, a: Value, b: Value) -> Value {
        let element = self.ty(a).element;
        let ty = Type { element, ..self.common(&[condition, a, b]) };
        self.define(ty, Op::Select(condition, a, b))
    }

    /// A value's numbers in another element.
    pub fn convert(&mut self, a: Value, element: Element) -> Value {
        self.define(Type { element, ..self.ty(a) }, Op::Convert(a))
    }

    /// A value's bits as another element.
    pub fn bitcast(&mut self, a: Value, element: Element) -> Value {
        self.define(Type { element, ..self.ty(a) }, Op::Bitcast(a))
    }
}
