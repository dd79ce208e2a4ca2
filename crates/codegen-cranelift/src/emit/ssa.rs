//! Writes CLIF with common subexpressions shared and loop invariants hoisted as it goes.
//!
//! Cranelift's own optimiser would do both, but it also reorders the pure operations of a straight-line body, which ruins
//! vector code (registers run out). So this builder does the two things itself and the optimiser stays off:
//!
//! * A pure operation is looked up before it is written, so equal ones are written once.
//! * It is written at the outermost loop level where all its operands exist: at the end of the block that enters the next
//!   loop. Nothing written here traps, so running it although the loop has no iteration is harmless.
//!
//! The *depth* of a value is the number of loops around the place where it is defined.

use std::collections::HashMap;

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{
    Block, BlockArg, ConstantData, Endianness, FuncRef, Function, Inst, InstBuilder, MemFlagsData, Opcode,
    SigRef, Type, Value, types,
};
use smallvec::SmallVec;

/// A pure operation but for its operands: what, with which controlling type and which immediate.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Op {
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

/// A function being written.
pub(crate) struct Ssa {
    pub(crate) func: Function,
    block: Block,
    scopes: Vec<Scope>,
    depths: SecondaryMap<Value, u32>,
}

/// What is known inside one loop: how it is entered, and which operations were written at its level.
struct Scope {
    entry: Option<Inst>,
    memo: HashMap<(Op, Args), Value>,
}

/// A loop being written.
pub(crate) struct OpenLoop {
    header: Block,
    exit: Block,
    var: Value,
    end: Value,
    step: i64,
}

/// Little-endian lanes for casts between vector types; alignment is never assumed.
pub(crate) const PLAIN: MemFlagsData = MemFlagsData::new().with_notrap().with_endianness(Endianness::Little);

impl Ssa {
    /// Starts a function; its parameters are the second item.
    pub(crate) fn new(mut func: Function) -> (Ssa, Vec<Value>) {
        let block = func.dfg.make_block();
        func.layout.append_block(block);
        let types: Vec<Type> = func.signature.params.iter().map(|p| p.value_type).collect();
        let params = types.iter().map(|&ty| func.dfg.append_block_param(block, ty)).collect();
        let scopes = vec![Scope { entry: None, memo: HashMap::new() }];
        (Ssa { func, block, scopes, depths: SecondaryMap::new() }, params)
    }

    /// Ends the function.
    pub(crate) fn finish(mut self) -> Function {
        self.cursor().ins().return_(&[]);
        self.func
    }

    /// How many loops are open.
    pub(crate) fn depth(&self) -> usize {
        self.scopes.len() - 1
    }

    /// The depth of a value.
    pub(crate) fn depth_of(&self, value: Value) -> usize {
        self.depths[value] as usize
    }

    /// The type of a value.
    pub(crate) fn type_of(&self, value: Value) -> Type {
        self.func.dfg.value_type(value)
    }

    fn cursor(&mut self) -> FuncCursor<'_> {
        FuncCursor::new(&mut self.func).at_bottom(self.block)
    }

    /// A cursor where operations of a depth are written.
    fn cursor_at(&mut self, depth: usize) -> FuncCursor<'_> {
        match self.scopes.get(depth + 1).and_then(|inner| inner.entry) {
            Some(entry) => FuncCursor::new(&mut self.func).at_inst(entry),
            None => self.cursor(),
        }
    }

    /// Writes a pure operation, or finds it written.
    fn pure(&mut self, op: Op, args: &[Value]) -> Value {
        let outermost = args.iter().map(|&a| self.depth_of(a)).max();
        let key = (op, Args::from_slice(args));
        let known =
            self.scopes[outermost.unwrap_or(0)..].iter().find_map(|scope| scope.memo.get(&key)).copied();
        if let Some(value) = known {
            return value;
        }
        // Constants go no further than the innermost loop's entry: living through a whole nest they would only be spilled.
        let depth = outermost.unwrap_or(self.depth().saturating_sub(1));
        let value = write(self.cursor_at(depth), op, args);
        self.depths[value] = depth as u32;
        self.scopes[depth].memo.insert(key, value);
        value
    }

    /// An operation on one operand; `ty` is the type that controls the opcode.
    pub(crate) fn unary(&mut self, opcode: Opcode, ty: Type, x: Value) -> Value {
        self.pure(Op { opcode, ty, imm: Imm::None }, &[x])
    }

    /// An operation on two operands of one type.
    pub(crate) fn binary(&mut self, opcode: Opcode, x: Value, y: Value) -> Value {
        let ty = self.type_of(x);
        self.pure(Op { opcode, ty, imm: Imm::None }, &[x, y])
    }

    /// An operation on three operands; the type of the last controls.
    pub(crate) fn ternary(&mut self, opcode: Opcode, x: Value, y: Value, z: Value) -> Value {
        let ty = self.type_of(z);
        self.pure(Op { opcode, ty, imm: Imm::None }, &[x, y, z])
    }

    /// A comparison of integers: 0 or 1, or lanes of all zeros or ones.
    pub(crate) fn icmp(&mut self, cc: IntCC, x: Value, y: Value) -> Value {
        let ty = self.type_of(x);
        self.pure(Op { opcode: Opcode::Icmp, ty, imm: Imm::Int(cc) }, &[x, y])
    }

    /// A comparison of floats: 0 or 1, or lanes of all zeros or ones.
    pub(crate) fn fcmp(&mut self, cc: FloatCC, x: Value, y: Value) -> Value {
        let ty = self.type_of(x);
        self.pure(Op { opcode: Opcode::Fcmp, ty, imm: Imm::Float(cc) }, &[x, y])
    }

    /// The same bits as another type.
    pub(crate) fn bitcast(&mut self, ty: Type, x: Value) -> Value {
        if self.type_of(x) == ty {
            return x;
        }
        self.pure(Op { opcode: Opcode::Bitcast, ty, imm: Imm::None }, &[x])
    }

    /// One lane of a vector.
    pub(crate) fn extract(&mut self, x: Value, lane: usize) -> Value {
        let ty = self.type_of(x);
        self.pure(Op { opcode: Opcode::Extractlane, ty, imm: Imm::Lane(lane as u8) }, &[x])
    }

    /// A vector with one lane replaced.
    pub(crate) fn insert(&mut self, x: Value, lane: usize, y: Value) -> Value {
        let ty = self.type_of(x);
        self.pure(Op { opcode: Opcode::Insertlane, ty, imm: Imm::Lane(lane as u8) }, &[x, y])
    }

    /// A vector of equal lanes.
    pub(crate) fn splat(&mut self, ty: Type, x: Value) -> Value {
        self.unary(Opcode::Splat, ty, x)
    }

    /// The bytes of two vectors picked by position: 0..16 in `x`, 16..32 in `y`.
    pub(crate) fn shuffle(&mut self, x: Value, y: Value, bytes: [u8; 16]) -> Value {
        let (x, y) = (self.bitcast(types::I8X16, x), self.bitcast(types::I8X16, y));
        self.pure(Op { opcode: Opcode::Shuffle, ty: types::I8X16, imm: Imm::Bytes(bytes) }, &[x, y])
    }

    /// An integer constant; bits beyond the type are dropped.
    pub(crate) fn int(&mut self, ty: Type, x: i64) -> Value {
        let bits = if ty.bits() < 64 { x as u64 & ((1 << ty.bits()) - 1) } else { x as u64 };
        self.pure(Op { opcode: Opcode::Iconst, ty, imm: Imm::Bits(bits) }, &[])
    }

    /// A float constant by its bits.
    pub(crate) fn float(&mut self, ty: Type, bits: u64) -> Value {
        let opcode = if ty == types::F32 { Opcode::F32const } else { Opcode::F64const };
        self.pure(Op { opcode, ty, imm: Imm::Bits(bits) }, &[])
    }

    /// A vector constant by its bytes.
    pub(crate) fn vector(&mut self, ty: Type, bytes: [u8; 16]) -> Value {
        self.pure(Op { opcode: Opcode::Vconst, ty, imm: Imm::Bytes(bytes) }, &[])
    }

    /// Reads memory that nobody writes while the function runs.
    pub(crate) fn load_constant(&mut self, ty: Type, address: Value, offset: i32) -> Value {
        self.pure(Op { opcode: Opcode::Load, ty, imm: Imm::Offset(offset) }, &[address])
    }

    /// Reads memory as it is now.
    pub(crate) fn load(&mut self, ty: Type, address: Value, offset: i32) -> Value {
        let value = self.cursor().ins().load(ty, PLAIN, address, offset);
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
        let value = self.func.dfg.first_result(call);
        self.depths[value] = self.depth() as u32;
        value
    }

    /// Calls the function at an address, which has no result.
    pub(crate) fn call_at(&mut self, callee: Value, signature: SigRef, args: &[Value]) {
        self.cursor().ins().call_indirect(signature, callee, args);
    }

    /// `usual` where the condition holds, else the result of a call on `x`, made only if it is needed. On lanes the condition
    /// is a mask for each.
    pub(crate) fn call_unless(&mut self, condition: Value, usual: Value, callee: FuncRef, x: Value) -> Value {
        let (ty, depth) = (self.type_of(usual), self.depth() as u32);
        let (cold, after) = (self.func.dfg.make_block(), self.func.dfg.make_block());
        let all = if ty.is_vector() { self.every_lane(condition) } else { condition };
        self.cursor().ins().brif(all, after, &[usual.into()], cold, &[]);
        self.func.layout.append_block(cold);
        self.func.layout.set_cold(cold);
        self.block = cold;
        let called = if ty.is_vector() {
            self.call_on_lanes(condition, usual, callee, x)
        } else {
            let call = self.cursor().ins().call(callee, &[x]);
            self.func.dfg.first_result(call)
        };
        self.cursor().ins().jump(after, &[called.into()]);
        self.func.layout.append_block(after);
        self.block = after;
        let value = self.func.dfg.append_block_param(after, ty);
        self.depths[value] = depth;
        value
    }

    /// Whether a mask of two lanes is all ones.
    fn every_lane(&mut self, mask: Value) -> Value {
        let signs = self.cursor().ins().vhigh_bits(types::I32, mask);
        self.cursor().ins().icmp_imm_u(IntCC::Equal, signs, 3)
    }

    /// The call on each lane of `x`, and `usual` back where the mask is set. Written where it stands and never shared.
    fn call_on_lanes(&mut self, mask: Value, usual: Value, callee: FuncRef, x: Value) -> Value {
        let ty = self.type_of(usual);
        let mut lanes = usual;
        for lane in 0..ty.lane_count() as u8 {
            let one = self.cursor().ins().extractlane(x, lane);
            let call = self.cursor().ins().call(callee, &[one]);
            let result = self.func.dfg.first_result(call);
            lanes = self.cursor().ins().insertlane(lanes, result, lane);
        }
        let mask = self.cursor().ins().bitcast(ty, bitcast_flags(), mask);
        self.cursor().ins().bitselect(mask, usual, lanes)
    }

    /// Opens the loop `for var in start..end step step`, and returns its variable and what `carried` is inside.
    ///
    /// With `runs`, the caller knows that there is at least one iteration.
    pub(crate) fn enter_loop(
        &mut self,
        (start, end, step): (Value, Value, i64),
        runs: bool,
        carried: &[Value],
    ) -> (OpenLoop, Value, Vec<Value>) {
        let (header, exit) = (self.func.dfg.make_block(), self.func.dfg.make_block());
        let into: Vec<BlockArg> = [start].iter().chain(carried).map(|&v| v.into()).collect();
        let entry = if runs {
            self.cursor().ins().jump(header, &into)
        } else {
            let some = self.cursor().ins().icmp(IntCC::SignedLessThan, start, end);
            self.cursor().ins().brif(some, header, &into, exit, &into[1..])
        };
        self.func.layout.append_block(header);
        self.scopes.push(Scope { entry: Some(entry), memo: HashMap::new() });
        self.block = header;
        let var = self.param(header, types::I64);
        let inside = carried.iter().map(|&v| self.param(header, self.type_of(v))).collect();
        (OpenLoop { header, exit, var, end, step }, var, inside)
    }

    /// Closes a loop: `next` is what `carried` becomes; returns what it is after the last iteration.
    pub(crate) fn leave_loop(&mut self, open: OpenLoop, next: &[Value]) -> Vec<Value> {
        let OpenLoop { header, exit, var, end, step } = open;
        let step = self.int(types::I64, step);
        let var = self.binary(Opcode::Iadd, var, step);
        let again: Vec<BlockArg> = [var].iter().chain(next).map(|&v| v.into()).collect();
        let more = self.cursor().ins().icmp(IntCC::SignedLessThan, var, end);
        self.cursor().ins().brif(more, header, &again, exit, &again[1..]);
        self.scopes.pop();
        self.block = exit;
        self.func.layout.append_block(exit);
        next.iter().map(|&v| self.param(exit, self.type_of(v))).collect()
    }

    fn param(&mut self, block: Block, ty: Type) -> Value {
        let value = self.func.dfg.append_block_param(block, ty);
        self.depths[value] = self.depth() as u32;
        value
    }
}

fn write(mut cursor: FuncCursor<'_>, op: Op, args: &[Value]) -> Value {
    let Op { opcode, ty, imm } = op;
    match (opcode, imm) {
        (Opcode::Load, Imm::Offset(offset)) => return cursor.ins().load(ty, PLAIN, args[0], offset),
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

/// Operations of one type only have no controlling type.
fn controlling(opcode: Opcode, ty: Type) -> Type {
    if matches!(opcode, Opcode::FvpromoteLow | Opcode::Fvdemote) { types::INVALID } else { ty }
}

/// Casts take only a byte order.
fn bitcast_flags() -> MemFlagsData {
    MemFlagsData::new().with_endianness(Endianness::Little)
}
