//! Builds CLIF, sharing common subexpressions and hoisting loop invariants on the way.
//!
//! Cranelift's optimizer would do both, but it also reorders the pure operations of a straight-line body, so
//! that vector code runs out of registers. Therefore the optimizer is off, and this builder does both:
//!
//! * It looks up a pure operation before emitting it, so that equal operations are emitted once.
//! * It places a pure operation at the outermost loop level where all operands exist: at the end of the
//!   block that enters the next loop. No such operation traps, so executing it is harmless even if the loop
//!   has no iteration.
//!
//! `cranelift-frontend` builds the blocks, and the phis of variables that loops and branches carry. Its
//! builder only appends to the current block, so hoisted operations have cursors of their own.
//!
//! The *depth* of a value is the number of loops around the code where it is defined, or where a loop that
//! defines it has ended.

use std::{collections::HashMap, ops::Range};

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{
    Block, ConstantData, Endianness, FuncRef, Inst, InstBuilder, InstructionData, MemFlagsData, Opcode,
    SigRef, Type, Value, ValueDef, types,
};
use cranelift_codegen::isa::TargetFrontendConfig;
use cranelift_frontend::{FunctionBuilder, Variable};
use smallvec::SmallVec;

/// A pure operation without its operands: the opcode, the controlling type and the immediate.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PureOp {
    opcode: Opcode,
    ty: Type,
    imm: Imm,
}

/// The immediate part of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Imm {
    None,
    Int(IntCC),
    Float(FloatCC),
    Lane(u8),
    Bits(u64),
    Bytes([u8; 16]),
    Offset(i32),
}

type Args = SmallVec<[Value; 3]>;

/// A function under construction.
pub(crate) struct Ssa<'f> {
    pub(crate) builder: FunctionBuilder<'f>,
    scopes: Vec<Scope>,
    depths: SecondaryMap<Value, u32>,
    block_depths: SecondaryMap<Block, u32>,
}

/// A loop level: the instruction that enters the loop, and the operations placed at this level.
struct Scope {
    entry: Option<Inst>,
    memo: HashMap<(PureOp, Args), Value>,
}

pub(crate) struct OpenLoop {
    header: Block,
    exit: Block,
    index: Variable,
    var: Value,
    carried: Vec<Variable>,
    end: Value,
    step: i64,
}

impl OpenLoop {
    /// The loop with another end, which its iterations have computed.
    pub(crate) fn ending_at(self, end: Value) -> OpenLoop {
        OpenLoop { end, ..self }
    }
}

/// Memory flags of loads and stores: little-endian, no alignment assumed, no trap.
pub(crate) const PLAIN: MemFlagsData = MemFlagsData::new().with_notrap().with_endianness(Endianness::Little);

impl<'f> Ssa<'f> {
    /// Starts the function of a builder; also returns the function's parameters.
    pub(crate) fn new(mut builder: FunctionBuilder<'f>) -> (Ssa<'f>, Vec<Value>) {
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        builder.seal_block(block);
        let params = builder.block_params(block).to_vec();
        let scopes = vec![Scope { entry: None, memo: HashMap::new() }];
        let (depths, block_depths) = (SecondaryMap::new(), SecondaryMap::new());
        (Ssa { builder, scopes, depths, block_depths }, params)
    }

    /// Ends the function.
    pub(crate) fn finish(mut self, target: TargetFrontendConfig) {
        self.builder.ins().return_(&[]);
        self.builder.finalize(target);
    }

    /// The number of open loops.
    pub(crate) fn depth(&self) -> usize {
        self.scopes.len() - 1
    }

    /// The number of loops around a value's definition.
    pub(crate) fn depth_of(&self, value: Value) -> usize {
        self.depths[value] as usize
    }

    pub(crate) fn type_of(&self, value: Value) -> Type {
        self.builder.func.dfg.value_type(value)
    }

    fn cursor(&mut self) -> FuncCursor<'_> {
        self.builder.cursor()
    }

    /// A cursor at the place for operations of a depth.
    fn cursor_at(&mut self, depth: usize) -> FuncCursor<'_> {
        match self.scopes.get(depth + 1).and_then(|inner| inner.entry) {
            Some(entry) => FuncCursor::new(self.builder.func).at_inst(entry),
            None => self.cursor(),
        }
    }

    /// Emits a pure operation, or returns the value of an equal one.
    fn pure(&mut self, op: PureOp, args: &[Value]) -> Value {
        let outermost = args.iter().map(|&a| self.depth_of(a)).max();
        let key = (op, Args::from_slice(args));
        let known =
            self.scopes[outermost.unwrap_or(0)..].iter().find_map(|scope| scope.memo.get(&key)).copied();
        if let Some(value) = known {
            return value;
        }
        // A constant is hoisted out of the innermost loop only. A longer live range would just be spilled.
        let depth = outermost.unwrap_or(self.depth().saturating_sub(1));
        let value = write(self.cursor_at(depth), op, args);
        self.depths[value] = depth as u32;
        self.scopes[depth].memo.insert(key, value);
        value
    }

    /// Emits an operation on one operand; `ty` is the controlling type.
    pub(crate) fn unary(&mut self, opcode: Opcode, ty: Type, x: Value) -> Value {
        self.pure(PureOp { opcode, ty, imm: Imm::None }, &[x])
    }

    /// Emits an operation on two operands of one type.
    pub(crate) fn binary(&mut self, opcode: Opcode, x: Value, y: Value) -> Value {
        let ty = self.type_of(x);
        self.pure(PureOp { opcode, ty, imm: Imm::None }, &[x, y])
    }

    /// Emits an operation on three operands; the last one has the controlling type.
    pub(crate) fn ternary(&mut self, opcode: Opcode, x: Value, y: Value, z: Value) -> Value {
        let ty = self.type_of(z);
        self.pure(PureOp { opcode, ty, imm: Imm::None }, &[x, y, z])
    }

    /// Compares integers; the result is 0 or 1, or a mask for each lane.
    pub(crate) fn icmp(&mut self, cc: IntCC, x: Value, y: Value) -> Value {
        let ty = self.type_of(x);
        self.pure(PureOp { opcode: Opcode::Icmp, ty, imm: Imm::Int(cc) }, &[x, y])
    }

    /// Compares floats; the result is 0 or 1, or a mask for each lane.
    pub(crate) fn fcmp(&mut self, cc: FloatCC, x: Value, y: Value) -> Value {
        let ty = self.type_of(x);
        self.pure(PureOp { opcode: Opcode::Fcmp, ty, imm: Imm::Float(cc) }, &[x, y])
    }

    /// Reinterprets bits as another type.
    pub(crate) fn bitcast(&mut self, ty: Type, x: Value) -> Value {
        if self.type_of(x) == ty {
            return x;
        }
        self.pure(PureOp { opcode: Opcode::Bitcast, ty, imm: Imm::None }, &[x])
    }

    pub(crate) fn extract(&mut self, x: Value, lane: usize) -> Value {
        let ty = self.type_of(x);
        self.pure(PureOp { opcode: Opcode::Extractlane, ty, imm: Imm::Lane(lane as u8) }, &[x])
    }

    /// Replaces a lane of a vector.
    pub(crate) fn insert(&mut self, x: Value, lane: usize, y: Value) -> Value {
        let ty = self.type_of(x);
        self.pure(PureOp { opcode: Opcode::Insertlane, ty, imm: Imm::Lane(lane as u8) }, &[x, y])
    }

    /// Broadcasts a value to a vector.
    pub(crate) fn splat(&mut self, ty: Type, x: Value) -> Value {
        self.unary(Opcode::Splat, ty, x)
    }

    /// Selects the bytes of two vectors by position: 0..16 in `x`, 16..32 in `y`.
    pub(crate) fn shuffle(&mut self, x: Value, y: Value, bytes: [u8; 16]) -> Value {
        let (x, y) = (self.bitcast(types::I8X16, x), self.bitcast(types::I8X16, y));
        self.pure(PureOp { opcode: Opcode::Shuffle, ty: types::I8X16, imm: Imm::Bytes(bytes) }, &[x, y])
    }

    /// An integer constant; bits beyond the type are dropped.
    pub(crate) fn int(&mut self, ty: Type, x: i64) -> Value {
        let bits = if ty.bits() < 64 { x as u64 & ((1 << ty.bits()) - 1) } else { x as u64 };
        self.pure(PureOp { opcode: Opcode::Iconst, ty, imm: Imm::Bits(bits) }, &[])
    }

    /// A float constant by its bits.
    pub(crate) fn float(&mut self, ty: Type, bits: u64) -> Value {
        let opcode = if ty == types::F32 { Opcode::F32const } else { Opcode::F64const };
        self.pure(PureOp { opcode, ty, imm: Imm::Bits(bits) }, &[])
    }

    /// A vector constant by its bytes.
    pub(crate) fn vector(&mut self, ty: Type, bytes: [u8; 16]) -> Value {
        self.pure(PureOp { opcode: Opcode::Vconst, ty, imm: Imm::Bytes(bytes) }, &[])
    }

    /// Whether a float is a constant other than NaN.
    pub(crate) fn is_number(&self, x: Value) -> bool {
        let dfg = &self.builder.func.dfg;
        let ValueDef::Result(inst, _) = dfg.value_def(x) else { return false };
        match dfg.insts[inst] {
            InstructionData::UnaryIeee32 { imm, .. } => !f32::from_bits(imm.bits()).is_nan(),
            InstructionData::UnaryIeee64 { imm, .. } => !f64::from_bits(imm.bits()).is_nan(),
            InstructionData::UnaryConst { constant_handle, .. } => {
                let bytes = dfg.constants.get(constant_handle).as_slice();
                match dfg.value_type(x).lane_type() {
                    types::F32 => bytes
                        .chunks_exact(4)
                        .all(|lane| !f32::from_le_bytes(lane.try_into().expect("4 bytes")).is_nan()),
                    types::F64 => bytes
                        .chunks_exact(8)
                        .all(|lane| !f64::from_le_bytes(lane.try_into().expect("8 bytes")).is_nan()),
                    _ => false,
                }
            }
            _ => false,
        }
    }

    /// Loads from memory that nobody writes during the call.
    pub(crate) fn load_constant(&mut self, ty: Type, address: Value, offset: i32) -> Value {
        self.pure(PureOp { opcode: Opcode::Load, ty, imm: Imm::Offset(offset) }, &[address])
    }

    /// Loads from memory that may change during the call.
    pub(crate) fn load(&mut self, ty: Type, address: Value, offset: i32) -> Value {
        let value = load(self.cursor(), ty, address, offset);
        self.depths[value] = self.depth() as u32;
        value
    }

    /// Writes memory.
    pub(crate) fn store(&mut self, value: Value, address: Value, offset: i32) {
        self.cursor().ins().store(PLAIN, value, address, offset);
    }

    /// Calls a function with one result.
    pub(crate) fn call(&mut self, callee: FuncRef, args: &[Value]) -> Value {
        let call = self.cursor().ins().call(callee, args);
        let value = self.builder.func.dfg.first_result(call);
        self.depths[value] = self.depth() as u32;
        value
    }

    /// Calls the function at an address, which has no result.
    pub(crate) fn call_at(&mut self, callee: Value, signature: SigRef, args: &[Value]) {
        self.cursor().ins().call_indirect(signature, callee, args);
    }

    /// Returns `usual` if the condition holds, else the result of a call on `x`, which is made only then. For
    /// vectors, the condition is a mask for each lane.
    pub(crate) fn call_unless(&mut self, condition: Value, usual: Value, callee: FuncRef, x: Value) -> Value {
        let result = self.variable(usual);
        let (cold, after) = (self.builder.create_block(), self.builder.create_block());
        let is_vector = self.type_of(usual).is_vector();
        let all = if is_vector { self.every_lane(condition) } else { condition };
        self.builder.ins().brif(all, after, &[], cold, &[]);
        self.builder.set_cold_block(cold);
        self.enter_block(cold);
        let called = if is_vector {
            self.call_on_lanes(condition, usual, callee, x)
        } else {
            let call = self.cursor().ins().call(callee, &[x]);
            self.builder.func.dfg.first_result(call)
        };
        self.builder.def_var(result, called);
        self.builder.ins().jump(after, &[]);
        self.enter_block(after);
        self.current(result)
    }

    /// Whether both lanes of a mask are set.
    fn every_lane(&mut self, mask: Value) -> Value {
        let signs = self.cursor().ins().vhigh_bits(types::I32, mask);
        self.cursor().ins().icmp_imm_u(IntCC::Equal, signs, 3)
    }

    /// Calls the function on each lane of `x`, and selects `usual` where the mask is set. These instructions
    /// are neither shared nor hoisted.
    fn call_on_lanes(&mut self, mask: Value, usual: Value, callee: FuncRef, x: Value) -> Value {
        let ty = self.type_of(usual);
        let mut lanes = usual;
        for lane in 0..ty.lane_count() as u8 {
            let one = self.cursor().ins().extractlane(x, lane);
            let call = self.cursor().ins().call(callee, &[one]);
            let result = self.builder.func.dfg.first_result(call);
            lanes = self.cursor().ins().insertlane(lanes, result, lane);
        }
        let mask = self.cursor().ins().bitcast(ty, bitcast_flags(), mask);
        self.cursor().ins().bitselect(mask, usual, lanes)
    }

    /// Opens the loop `for var in range step step`. Returns its variable, and the loop-carried values at
    /// the start of an iteration, which are `carried` at first.
    ///
    /// With `runs`, the loop has at least one iteration.
    pub(crate) fn enter_loop(
        &mut self,
        range: Range<Value>,
        step: i64,
        runs: bool,
        carried: &[Value],
    ) -> (OpenLoop, Value, Vec<Value>) {
        let (header, exit) = (self.builder.create_block(), self.builder.create_block());
        let index = self.variable(range.start);
        let carried: Vec<Variable> = carried.iter().map(|&value| self.variable(value)).collect();
        let entry = if runs {
            self.builder.ins().jump(header, &[])
        } else {
            let some = self.cursor().ins().icmp(IntCC::SignedLessThan, range.start, range.end);
            self.builder.ins().brif(some, header, &[], exit, &[])
        };
        self.scopes.push(Scope { entry: Some(entry), memo: HashMap::new() });
        self.switch_to(header);
        let var = self.current(index);
        let inside = carried.iter().map(|&variable| self.current(variable)).collect();
        (OpenLoop { header, exit, index, var, carried, end: range.end, step }, var, inside)
    }

    /// Closes a loop whose next iteration starts with `next`. Returns the loop-carried values after the loop.
    pub(crate) fn leave_loop(&mut self, open: OpenLoop, next: &[Value]) -> Vec<Value> {
        let OpenLoop { header, exit, index, var, carried, end, step } = open;
        let step = self.int(types::I64, step);
        let var = self.binary(Opcode::Iadd, var, step);
        self.builder.def_var(index, var);
        for (&variable, &value) in carried.iter().zip(next) {
            self.builder.def_var(variable, value);
        }
        let more = self.cursor().ins().icmp(IntCC::SignedLessThan, var, end);
        self.builder.ins().brif(more, header, &[], exit, &[]);
        self.builder.seal_block(header);
        self.scopes.pop();
        self.enter_block(exit);
        carried.into_iter().map(|variable| self.current(variable)).collect()
    }

    /// Continues in a block whose predecessors are all known.
    fn enter_block(&mut self, block: Block) {
        self.switch_to(block);
        self.builder.seal_block(block);
    }

    fn switch_to(&mut self, block: Block) {
        self.builder.switch_to_block(block);
        self.block_depths[block] = self.depth() as u32;
    }

    /// Declares a variable that starts as `value`.
    fn variable(&mut self, value: Value) -> Variable {
        let variable = self.builder.declare_var(self.type_of(value));
        self.builder.def_var(variable, value);
        variable
    }

    /// The present value of a variable. It may be a phi of any preceding block, since the builder adds phis
    /// on demand. A value that a loop defines has the depth of the code after the loop.
    fn current(&mut self, variable: Variable) -> Value {
        let value = self.builder.use_var(variable);
        let dfg = &self.builder.func.dfg;
        let value = dfg.resolve_aliases(value);
        let defined = match dfg.value_def(value) {
            ValueDef::Param(block, _) => self.block_depths[block],
            _ => self.depths[value],
        };
        self.depths[value] = defined.min(self.depth() as u32);
        value
    }
}

/// Loads floats of vectors as integers: Cranelift makes a load the operand of a comparison of floats, whose
/// instruction without AVX faults where memory is not aligned to the vector, as elements of arrays need not
/// be.
fn load(mut cursor: FuncCursor<'_>, ty: Type, address: Value, offset: i32) -> Value {
    if !ty.is_vector() || !ty.lane_type().is_float() {
        return cursor.ins().load(ty, PLAIN, address, offset);
    }
    let bits = cursor.ins().load(ty.as_int(), PLAIN, address, offset);
    cursor.ins().bitcast(ty, bitcast_flags(), bits)
}

fn write(mut cursor: FuncCursor<'_>, op: PureOp, args: &[Value]) -> Value {
    let PureOp { opcode, ty, imm } = op;
    match (opcode, imm) {
        (Opcode::Load, Imm::Offset(offset)) => return load(cursor, ty, args[0], offset),
        (Opcode::Bitcast, _) => return cursor.ins().bitcast(ty, bitcast_flags(), args[0]),
        _ => {}
    }
    let constant = match (opcode, imm) {
        (Opcode::Vconst, Imm::Bytes(bytes)) => {
            let data = ConstantData::from(bytes.as_slice());
            return {
                let at = cursor.func.dfg.constants.insert(data);
                cursor.ins().vconst(ty, at)
            };
        }
        (Opcode::Shuffle, Imm::Bytes(bytes)) => {
            Some(cursor.func.dfg.immediates.push(ConstantData::from(bytes.as_slice())))
        }
        _ => None,
    };
    let ins = cursor.ins();
    let (inst, dfg) = match (imm, args) {
        (Imm::Int(cc), &[x, y]) => ins.IntCompare(opcode, ty, cc, x, y),
        (Imm::Float(cc), &[x, y]) => ins.FloatCompare(opcode, ty, cc, x, y),
        (Imm::Lane(lane), &[x]) => ins.BinaryImm8(opcode, ty, lane, x),
        (Imm::Lane(lane), &[x, y]) => ins.TernaryImm8(opcode, ty, lane, x, y),
        (Imm::Bits(bits), _) if opcode == Opcode::F32const => {
            return ins.f32const(Ieee32::with_bits(bits as u32));
        }
        (Imm::Bits(bits), _) if opcode == Opcode::F64const => return ins.f64const(Ieee64::with_bits(bits)),
        (Imm::Bits(bits), _) => return ins.iconst(ty, bits as i64),
        (_, &[x]) => ins.Unary(opcode, controlling(opcode, ty), x),
        (_, &[x, y]) => match constant {
            Some(mask) => ins.Shuffle(opcode, types::INVALID, mask, x, y),
            None => ins.Binary(opcode, ty, x, y),
        },
        (_, &[x, y, z]) => ins.Ternary(opcode, ty, x, y, z),
        _ => unreachable!("operations have one to three operands"),
    };
    dfg.first_result(inst)
}

/// Operations that exist for one type only have no controlling type.
fn controlling(opcode: Opcode, ty: Type) -> Type {
    if matches!(opcode, Opcode::FvpromoteLow | Opcode::Fvdemote) { types::INVALID } else { ty }
}

/// The flags of casts have a byte order only.
fn bitcast_flags() -> MemFlagsData {
    MemFlagsData::new().with_endianness(Endianness::Little)
}
