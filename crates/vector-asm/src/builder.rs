//! Builds programs: each method appends a statement and returns the value that it defines.
//!
//! The builder numbers values, variables and counters, and infers types where an operation determines them.
//! The program is verified later, by [`VectorProgram::check`].

use crate::program::{
    Binary, Comparison, Counter, Index, LaneType, LoopRange, StoredType, Unary, Value, Variable,
    VectorAddress, VectorOp, VectorProgram, VectorStmt, VectorType,
};

/// A program under construction.
#[derive(Clone, Debug, Default)]
pub struct VectorBuilder {
    program: VectorProgram,
    /// The open loops with their statements so far, outermost first.
    open: Vec<(Counter, LoopRange, Vec<VectorStmt>)>,
}

impl VectorType {
    /// The type with `lanes` lanes of `element`.
    pub fn new(element: LaneType, lanes: u32) -> VectorType {
        VectorType { element, lanes }
    }
}

impl VectorAddress {
    /// Contiguous elements of the lane type, from a base on.
    pub fn at(base: u32, element: LaneType) -> VectorAddress {
        VectorAddress {
            base: Some(base),
            offset: 0,
            terms: Vec::new(),
            step: i64::from(element.bytes()),
            memory: StoredType::Same,
        }
    }

    /// Contiguous elements of the lane type, from the start of the scratch memory on.
    pub fn scratch(element: LaneType) -> VectorAddress {
        VectorAddress { base: None, ..VectorAddress::at(0, element) }
    }

    /// Adds a constant number of bytes to the offset.
    #[must_use]
    pub fn plus(mut self, bytes: i64) -> VectorAddress {
        self.offset += bytes;
        self
    }

    /// Adds a term to the offset: `bytes` bytes per unit of `index`.
    #[must_use]
    pub fn by(mut self, index: impl Into<Index>, bytes: i64) -> VectorAddress {
        let index = index.into();
        match self.terms.iter_mut().find(|(other, _)| *other == index) {
            Some((_, sum)) => *sum += bytes,
            None => self.terms.push((index, bytes)),
        }
        self
    }

    /// Sets the bytes from one lane to the next.
    #[must_use]
    pub fn step(mut self, bytes: i64) -> VectorAddress {
        self.step = bytes;
        self
    }

    /// Sets the type of the elements in memory, which become contiguous.
    #[must_use]
    pub fn holding(mut self, memory: StoredType) -> VectorAddress {
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

impl VectorBuilder {
    /// Starts an empty program.
    pub fn new() -> VectorBuilder {
        VectorBuilder::default()
    }

    /// Returns the program.
    ///
    /// # Panics
    ///
    /// If a loop is open.
    pub fn finish(self) -> VectorProgram {
        assert!(self.open.is_empty(), "a loop that is begun is ended");
        self.program
    }

    /// Appends a statement to the innermost open loop, or to the program.
    pub fn push(&mut self, stmt: VectorStmt) {
        match self.open.last_mut() {
            Some((_, _, body)) => body.push(stmt),
            None => self.program.body.push(stmt),
        }
    }

    /// Adds a variable, which starts as zeros.
    pub fn variable(&mut self, ty: VectorType) -> Variable {
        self.program.variables.push(ty);
        Variable(self.program.variables.len() as u32 - 1)
    }

    /// Opens a loop.
    pub fn begin(&mut self, range: LoopRange) -> Counter {
        let counter = Counter(self.program.counters);
        self.program.counters += 1;
        self.open.push((counter, range, Vec::new()));
        counter
    }

    /// Closes the innermost open loop.
    ///
    /// # Panics
    ///
    /// If no loop is open.
    pub fn end(&mut self) {
        let (counter, range, body) = self.open.pop().expect("a loop is open");
        self.push(VectorStmt::Loop { counter, range, body });
    }

    /// Appends a loop whose body `body` builds.
    pub fn repeat(&mut self, range: LoopRange, body: impl FnOnce(&mut VectorBuilder, Counter)) {
        let counter = self.begin(range);
        body(self, counter);
        self.end();
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> VectorType {
        self.program.values[value.0 as usize]
    }

    /// Defines a value of a type by an operation.
    pub fn define(&mut self, ty: VectorType, op: VectorOp) -> Value {
        let value = Value(self.program.values.len() as u32);
        self.program.values.push(ty);
        self.push(VectorStmt::Let { value, op });
        value
    }

    /// The lane type of the first operand, with the largest number of lanes that any operand has.
    fn common(&self, operands: &[Value]) -> VectorType {
        let lanes = operands.iter().map(|value| self.ty(*value).lanes).max().unwrap_or(1);
        VectorType { lanes, ..self.ty(operands[0]) }
    }

    /// The same bits in every lane.
    pub fn constant(&mut self, ty: VectorType, bits: u64) -> Value {
        self.define(ty, VectorOp::Constant(bits))
    }

    /// A constant of one `F32` lane.
    pub fn f32(&mut self, number: f32) -> Value {
        self.constant(VectorType::new(LaneType::F32, 1), u64::from(number.to_bits()))
    }

    /// A constant of one `F64` lane.
    pub fn f64(&mut self, number: f64) -> Value {
        self.constant(VectorType::new(LaneType::F64, 1), number.to_bits())
    }

    /// A constant of one `I32` lane.
    pub fn i32(&mut self, number: i32) -> Value {
        self.constant(VectorType::new(LaneType::I32, 1), u64::from(number as u32))
    }

    /// Loads a vector.
    pub fn load(&mut self, place: VectorAddress, ty: VectorType) -> Value {
        self.define(ty, VectorOp::Load(place))
    }

    /// Loads the lanes whose condition holds; the other lanes, and the type, are those of `otherwise`.
    pub fn load_if(&mut self, condition: Value, place: VectorAddress, otherwise: Value, lanes: u32) -> Value {
        let ty = VectorType { lanes, ..self.ty(otherwise) };
        self.define(ty, VectorOp::LoadIf { condition, place, otherwise })
    }

    /// Stores a vector.
    pub fn store(&mut self, place: VectorAddress, value: Value) {
        self.push(VectorStmt::Store { place, value, streaming: false });
    }

    /// Stores a vector that is not read again soon, bypassing the caches.
    pub fn store_streaming(&mut self, place: VectorAddress, value: Value) {
        self.push(VectorStmt::Store { place, value, streaming: true });
    }

    /// Reads all lanes of a variable.
    pub fn get(&mut self, variable: Variable) -> Value {
        let ty = self.program.variables[variable.0 as usize];
        self.define(ty, VectorOp::Get { variable, start: 0 })
    }

    /// Reads some lanes of a variable.
    pub fn extract_lanes(&mut self, variable: Variable, start: u32, lanes: u32) -> Value {
        let ty = VectorType { lanes, ..self.program.variables[variable.0 as usize] };
        self.define(ty, VectorOp::Get { variable, start })
    }

    /// Replaces the lanes of a variable from `start` on.
    pub fn insert_lanes(&mut self, variable: Variable, start: u32, value: Value) {
        self.push(VectorStmt::Set { variable, start, value });
    }

    /// Replaces the first lanes of a variable.
    pub fn set(&mut self, variable: Variable, value: Value) {
        self.insert_lanes(variable, 0, value);
    }

    /// Some lanes of a value.
    pub fn slice(&mut self, of: Value, start: u32, lanes: u32) -> Value {
        let ty = VectorType { lanes, ..self.ty(of) };
        self.define(ty, VectorOp::Slice { of, start })
    }

    /// `offset + Σ coefficient · index + step · lane`.
    pub fn index(&mut self, ty: VectorType, offset: i64, terms: Vec<(Index, i64)>, step: i64) -> Value {
        self.define(ty, VectorOp::Index { offset, terms, step })
    }

    /// Applies an operation to one operand.
    pub fn unary(&mut self, op: Unary, a: Value) -> Value {
        self.define(self.ty(a), VectorOp::Unary(op, a))
    }

    /// Applies an operation to two operands.
    pub fn binary(&mut self, op: Binary, a: Value, b: Value) -> Value {
        self.define(self.common(&[a, b]), VectorOp::Binary(op, a, b))
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

    /// `b` if `b > a` or `b` is NaN, else `a`.
    pub fn max(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Maximum, a, b)
    }

    /// `b` if `b < a` or `b` is NaN, else `a`.
    pub fn min(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Minimum, a, b)
    }

    /// `a · b + c`, rounded once.
    pub fn fma(&mut self, a: Value, b: Value, c: Value) -> Value {
        self.define(self.common(&[a, b, c]), VectorOp::Fma(a, b, c))
    }

    /// Compares two operands; the result is an integer mask.
    pub fn compare(&mut self, comparison: Comparison, a: Value, b: Value) -> Value {
        let ty = self.common(&[a, b]);
        let element = if ty.element.bits() == 32 { LaneType::I32 } else { LaneType::I64 };
        self.define(VectorType { element, ..ty }, VectorOp::Compare(comparison, a, b))
    }

    /// `a` if the condition holds, else `b`.
    pub fn select(&mut self, condition: Value, a: Value, b: Value) -> Value {
        let element = self.ty(a).element;
        let ty = VectorType { element, ..self.common(&[condition, a, b]) };
        self.define(ty, VectorOp::Select(condition, a, b))
    }

    /// The numbers of `a` in another lane type.
    pub fn convert(&mut self, a: Value, element: LaneType) -> Value {
        self.define(VectorType { element, ..self.ty(a) }, VectorOp::Convert(a))
    }

    /// The bits of `a` as another lane type.
    pub fn bitcast(&mut self, a: Value, element: LaneType) -> Value {
        self.define(VectorType { element, ..self.ty(a) }, VectorOp::Bitcast(a))
    }
}
