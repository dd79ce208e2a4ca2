//! Builds a vector program, placing every operation at the outermost possible level and sharing equal ones.
//!
//! A block of the program is a *scope*, numbered by its depth, the *level*. A pure operation belongs to the
//! level of its innermost operand: loop invariants are hoisted, and equal operations are shared. A load stays
//! inside the innermost open loop that stores to its array. The builder also knows which values in memory are
//! in registers, until a store may have changed them.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
};

use lowered_ir::ir::{LocalId, NodeRef};
use vector_asm::{
    Counter, Index, LaneType, LoopRange, StoredType, Value, Variable, VectorAddress, VectorOp, VectorProgram,
    VectorStmt, VectorType,
};

use super::repr;

/// An array in memory. Arrays do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Array {
    Node(NodeRef),
    Local(LocalId),
}

pub(super) struct ProgramBuilder {
    values: Vec<VectorType>,
    /// The level of each value's definition.
    levels: Vec<usize>,
    variables: Vec<VectorType>,
    /// Variables that are free for reuse.
    free: Vec<Variable>,
    /// The level of each loop's body.
    counters: Vec<usize>,
    scopes: Vec<Scope>,
    /// Values in memory that are also in registers.
    known: HashMap<Array, HashMap<Key, KnownValue>>,
    /// The bits of values that are constants.
    constants: HashMap<Value, u64>,
    /// An estimate of the number of machine instructions.
    size: usize,
}

type Key = (VectorType, VectorOp);

/// A value that is also in memory.
#[derive(Clone, Copy)]
struct KnownValue {
    value: Value,
    /// The number of values that the program had when this value was last used.
    asked: usize,
    /// Whether the value was loaded rather than stored.
    is_loaded: bool,
}

/// A loaded value that takes several registers is loaded again if it was not used during this many
/// operations. Keeping it would occupy the registers, and the new load often becomes a memory operand.
const RELOAD_DISTANCE: usize = 20;

/// An open block.
#[derive(Default)]
struct Scope {
    counter: Option<(Counter, LoopRange)>,
    stmts: Vec<VectorStmt>,
    /// Pure operations of this level.
    known: HashMap<Key, Value>,
    /// Arrays that the block or an inner block stores to.
    writes: BTreeSet<Array>,
}

impl ProgramBuilder {
    /// A program without statements, whose own block stores to `writes`.
    pub(super) fn new(writes: BTreeSet<Array>) -> Self {
        ProgramBuilder {
            values: Vec::new(),
            levels: Vec::new(),
            variables: Vec::new(),
            free: Vec::new(),
            counters: Vec::new(),
            scopes: vec![Scope { writes, ..Scope::default() }],
            known: HashMap::new(),
            constants: HashMap::new(),
            size: 0,
        }
    }

    /// Closes open loops and returns the program.
    pub(super) fn finish(mut self) -> VectorProgram {
        while self.scopes.len() > 1 {
            self.close();
        }
        let body = self.scopes.pop().map(|scope| scope.stmts).unwrap_or_default();
        VectorProgram {
            values: self.values,
            variables: self.variables,
            counters: self.counters.len() as u32,
            body,
        }
    }

    /// An estimate of the number of machine instructions so far.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn type_of(&self, value: Value) -> VectorType {
        self.values[value.0 as usize]
    }

    /// The bits of a value that is a constant.
    pub(super) fn as_constant(&self, value: Value) -> Option<u64> {
        self.constants.get(&value).copied()
    }

    /// Whether a value may be used at a level.
    pub(super) fn is_visible_at(&self, value: Value, level: usize) -> bool {
        self.levels[value.0 as usize] <= level
    }

    /// The level of the innermost block.
    pub(super) fn level(&self) -> usize {
        self.scopes.len() - 1
    }

    /// Reserves the counters of loops around the program.
    pub(super) fn count(&mut self, loops: u32) {
        self.counters.extend((0..loops).map(|_| 0));
    }

    /// Opens a loop whose body stores to `writes`.
    pub(super) fn open(&mut self, range: LoopRange, writes: BTreeSet<Array>) -> Counter {
        for array in &writes {
            self.known.remove(array);
        }
        let counter = Counter(self.counters.len() as u32);
        self.counters.push(self.scopes.len());
        self.scopes.push(Scope { counter: Some((counter, range)), writes, ..Scope::default() });
        counter
    }

    /// Closes the innermost loop. What it stored is in memory afterwards only if it has run, even if the
    /// value itself was moved out of the loop.
    pub(super) fn close(&mut self) {
        let Some(scope) = self.scopes.pop() else { return };
        if !matches!(scope.counter, Some((_, LoopRange::Constant(1..)))) {
            scope.writes.iter().for_each(|array| drop(self.known.remove(array)));
        }
        let level = self.scopes.len() - 1;
        let levels = &self.levels;
        for known in self.known.values_mut() {
            known.retain(|_, known| levels[known.value.0 as usize] <= level);
        }
        if let (Some((counter, range)), false) = (scope.counter, scope.stmts.is_empty()) {
            self.scopes[level].stmts.push(VectorStmt::Loop { counter, range, body: scope.stmts });
        }
    }

    /// The same bits in every lane.
    pub(super) fn constant(&mut self, element: LaneType, lanes: u32, bits: u64) -> Value {
        let bits = if repr::lane_bytes(element) == 4 { bits & u64::from(u32::MAX) } else { bits };
        let value = self.pure(VectorType { element, lanes }, VectorOp::Constant(bits));
        self.constants.insert(value, bits);
        value
    }

    /// Emits an operation that depends only on its operands, or returns the value of an equal one.
    pub(super) fn pure(&mut self, ty: VectorType, op: VectorOp) -> Value {
        let level = self.level_of(&op);
        let key = (ty, op);
        if let Some(&value) = self.scopes[level].known.get(&key) {
            return value;
        }
        let value = self.define(level, key.0, key.1.clone());
        self.scopes[level].known.insert(key, value);
        value
    }

    /// Emits an operation that also reads an array, or returns the value of an equal one that is still valid.
    pub(super) fn load(&mut self, array: Array, ty: VectorType, op: VectorOp) -> Value {
        let key = (ty, op);
        let (now, here) = (self.values.len(), self.level());
        if let Some(known) = self.known.get_mut(&array).and_then(|known| known.get_mut(&key)) {
            let is_here = self.levels[known.value.0 as usize] == here;
            let is_far =
                now - known.asked > RELOAD_DISTANCE && known.is_loaded && is_here && registers(ty) > 1;
            if !is_far {
                known.asked = now;
                return known.value;
            }
        }
        let level = self.level_of(&key.1).max(self.write_level(array));
        let value = self.define(level, key.0, key.1.clone());
        let known = KnownValue { value, asked: now, is_loaded: true };
        self.known.entry(array).or_default().insert(key, known);
        value
    }

    /// Stores to an array. A later load of the same type from this place yields `value`, unless the store
    /// rounds it.
    pub(super) fn store(&mut self, array: Array, place: VectorAddress, value: Value, streaming: bool) {
        let ty = self.type_of(value);
        let span = span(&place, ty);
        let known = self.known.entry(array).or_default();
        known.retain(|(ty, op), _| match op {
            VectorOp::Load(other) if other.terms == place.terms => is_apart(&span, &self::span(other, *ty)),
            _ => false,
        });
        if !matches!(place.memory, StoredType::F16 | StoredType::BF16) {
            known.insert(
                (ty, VectorOp::Load(place.clone())),
                KnownValue { value, asked: self.values.len(), is_loaded: false },
            );
        }
        self.size += registers(ty);
        self.push(VectorStmt::Store { place, value, streaming });
    }

    /// Forgets the values of an array.
    pub(super) fn forget(&mut self, array: Array) {
        self.known.remove(&array);
    }

    /// Reads lanes of the variable that holds a local or a row of it.
    pub(super) fn get(&mut self, local: LocalId, variable: Variable, start: u32, lanes: u32) -> Value {
        let level = self.write_level(Array::Local(local));
        let ty = VectorType { lanes, ..self.variables[variable.0 as usize] };
        self.define(level, ty, VectorOp::Get { variable, start })
    }

    /// Replaces lanes of a variable.
    pub(super) fn set(&mut self, variable: Variable, start: u32, value: Value) {
        self.push(VectorStmt::Set { variable, start, value });
    }

    /// A variable that is not in use.
    pub(super) fn variable(&mut self, ty: VectorType) -> Variable {
        let reused = self.free.iter().position(|v| self.variables[v.0 as usize] == ty);
        match reused {
            Some(at) => self.free.swap_remove(at),
            None => {
                self.variables.push(ty);
                Variable(self.variables.len() as u32 - 1)
            }
        }
    }

    /// Frees a variable for reuse.
    pub(super) fn release(&mut self, variable: Variable) {
        self.free.push(variable);
    }

    fn push(&mut self, stmt: VectorStmt) {
        let level = self.level();
        self.scopes[level].stmts.push(stmt);
    }

    fn define(&mut self, level: usize, ty: VectorType, op: VectorOp) -> Value {
        let value = Value(self.values.len() as u32);
        self.values.push(ty);
        self.levels.push(level);
        self.size += registers(ty);
        self.scopes[level].stmts.push(VectorStmt::Let { value, op });
        value
    }

    /// The outermost level at which all operands and indices of an operation are defined.
    fn level_of(&self, op: &VectorOp) -> usize {
        let mut level = 0;
        each_operand(op, &mut |value| level = level.max(self.levels[value.0 as usize]));
        for (index, _) in terms(op) {
            if let Index::Counter(counter) = index {
                level = level.max(self.counters[counter.0 as usize]);
            }
        }
        level
    }

    /// The innermost level that stores to an array.
    fn write_level(&self, array: Array) -> usize {
        self.scopes.iter().rposition(|scope| scope.writes.contains(&array)).unwrap_or(0)
    }
}

/// The number of machine registers of 32 bytes that a value takes.
fn registers(ty: VectorType) -> usize {
    (ty.lanes * repr::lane_bytes(ty.element)).div_ceil(32) as usize
}

/// The range of bytes that an access covers if all terms of its address are 0.
fn span(place: &VectorAddress, ty: VectorType) -> Range<i64> {
    let last = place.step.saturating_mul(i64::from(ty.lanes) - 1);
    let end =
        place.offset.saturating_add(last.max(0)).saturating_add(i64::from(repr::lane_bytes(ty.element)));
    place.offset.saturating_add(last.min(0))..end
}

fn is_apart(one: &Range<i64>, other: &Range<i64>) -> bool {
    one.end <= other.start || other.end <= one.start
}

fn terms(op: &VectorOp) -> &[(Index, i64)] {
    match op {
        VectorOp::Load(place) | VectorOp::LoadIf { place, .. } => &place.terms,
        VectorOp::Index { terms, .. } => terms,
        _ => &[],
    }
}

fn each_operand(op: &VectorOp, f: &mut impl FnMut(Value)) {
    match *op {
        VectorOp::Constant(_) | VectorOp::Load(_) | VectorOp::Get { .. } | VectorOp::Index { .. } => {}
        VectorOp::Slice { of: a, .. }
        | VectorOp::Unary(_, a)
        | VectorOp::Convert(a)
        | VectorOp::Bitcast(a) => f(a),
        VectorOp::LoadIf { condition: a, otherwise: b, .. }
        | VectorOp::Binary(_, a, b)
        | VectorOp::Compare(_, a, b) => {
            f(a);
            f(b);
        }
        VectorOp::Fma(a, b, c) | VectorOp::Select(a, b, c) => {
            f(a);
            f(b);
            f(c);
        }
    }
}
