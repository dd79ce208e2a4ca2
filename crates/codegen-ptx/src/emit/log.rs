//! Logging: records in a buffer in global memory, in the format of section "Log buffers" of
//! `codegen_core::abi`.
//!
//! One thread executes a kernel that logs. It keeps the number of words used and of lines lost in registers,
//! and writes both to the header at the end.

use codegen_core::emit::LineNumbers;
use codegen_core::ir::{LogPart, Stmt};
use codegen_core::log_buffer::{HEADER_BYTES, WORD_BYTES, most_bytes, record_words, value_words};
use codegen_core::threads::Grid;
use codegen_core::{Checked, DType, Kernel, LogLine, Scalar, reject};
use ptx_asm::{
    AddressBase, AddressOperand, CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxOperand, Reg, RegClass,
    RoundingMode, StateSpace, StmtList, Ty,
};
use smallvec::{SmallVec, smallvec};

use super::{Emitter, Value};

/// The log buffer of a kernel, and the statements that log.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogBuffer<'k> {
    lines: &'k [LogLine],
    /// Size in bytes, with the header.
    pub(super) bytes: u32,
}

impl<'k> LogBuffer<'k> {
    /// A buffer with room for everything that the kernel can log, at most `most` bytes; `None` if it logs
    /// nothing.
    pub(super) fn of(kernel: &'k Kernel, grid: &Grid<'_>, most: u32) -> Checked<Option<LogBuffer<'k>>> {
        if kernel.abi().log.is_empty() {
            return Ok(None);
        }
        if !grid.axes.is_empty() || grid.threads.is_some() {
            return reject("log", "several threads run the kernel, and their lines have no order");
        }
        let bytes = most_bytes(kernel.ir()).min(most.into()).max(HEADER_BYTES as u64) as u32;
        Ok(Some(LogBuffer { lines: &kernel.abi().log, bytes }))
    }
}

/// The log of the kernel that is being emitted.
#[derive(Debug)]
pub(super) struct KernelLog<'k> {
    pub(super) buffer: LogBuffer<'k>,
    numbers: LineNumbers,
    state: LogState,
}

/// Registers that hold the state of the buffer.
#[derive(Clone, Copy, Debug)]
struct LogState {
    /// Address of the buffer.
    base: Reg,
    /// Words of records so far.
    used: Reg,
    /// The most words of records; 0 once a record did not fit.
    limit: Reg,
    /// Number of lines that did not fit.
    lost: Reg,
}

impl KernelLog<'_> {
    /// The number of a statement, if it logs a line with `words` words of values.
    fn number(&self, stmt: &Stmt, words: usize) -> Option<u32> {
        let number = self.numbers.get(stmt)?;
        let line = self.buffer.lines.get(number)?;
        (record_words(line) == 1 + words).then_some(number as u32)
    }
}

impl<'k> Emitter<'k> {
    /// Begins the log, in a buffer at address `base`.
    pub(super) fn begin_log(&mut self, buffer: LogBuffer<'k>, base: Reg) {
        let numbers = LineNumbers::new(&self.routine.body);
        let room = (buffer.bytes as usize - HEADER_BYTES) / WORD_BYTES;
        let used = self.b.mov(RegClass::B32, 0u32);
        let limit = self.b.mov(RegClass::B32, room as u32);
        let lost = self.b.mov(RegClass::B64, PtxOperand::Const(0));
        self.log = Some(KernelLog { buffer, numbers, state: LogState { base, used, limit, lost } });
    }

    /// Emits a statement that logs.
    pub(super) fn log(&mut self, stmt: &Stmt, parts: &[LogPart]) -> Checked {
        let mut values = Vec::new();
        for value in parts.iter().filter_map(LogPart::value) {
            let (value, dtype) = self.expr(value)?;
            values.extend(self.logged_words(dtype, value));
        }
        let Some(log) = &self.log else { return reject("log", "the kernel's ABI has no lines") };
        let Some(number) = log.number(stmt, values.len()) else {
            return reject("log", "the kernel's ABI has another line in its place");
        };
        self.append(log.state, [number.into()].into_iter().chain(values).collect());
        Ok(())
    }

    /// Writes a record, or counts it if it does not fit.
    fn append(&mut self, state: LogState, record: Vec<PtxOperand>) {
        let LogState { base, used, limit, lost } = state;
        let end = self.b.binary(PtxBinaryOp::Add, Ty::U32, used, record.len() as u32);
        let fits = self.b.compare(CmpOp::Le, Ty::U32, end, limit);
        let then = self.inside(|e| {
            let at = e.b.mul_add_wide(Ty::U32, used, WORD_BYTES as u32, base);
            for (word, offset) in record.into_iter().zip((HEADER_BYTES as i32..).step_by(WORD_BYTES)) {
                e.store_word(at, offset, Ty::B32, word);
            }
            e.b.set(used, end);
        });
        let otherwise = self.inside(|e| {
            e.b.set(limit, 0u32);
            let (op, ty) = (PtxBinaryOp::Add, Ty::U64);
            e.b.push(Inst::Binary { op, ty, dst: lost, a: lost.into(), b: PtxOperand::Const(1) });
        });
        self.b.push_stmt(ptx_asm::PtxStmt::If { guard: GuardPredicate::on(fits), then, otherwise });
    }

    /// Writes the header, after everything that the kernel logs.
    pub(super) fn end_log(&mut self) {
        if let Some(KernelLog { state: LogState { base, used, lost, .. }, .. }) = self.log {
            self.store_word(base, 0, Ty::B32, used.into());
            self.store_word(base, 2 * WORD_BYTES as i32, Ty::B64, lost.into());
        }
    }

    /// Emits a block that accesses only the log, so that pending stores may stay pending.
    fn inside(&mut self, write: impl FnOnce(&mut Self)) -> StmtList {
        self.b.open();
        write(self);
        self.b.close()
    }

    fn store_word(&mut self, at: Reg, offset: i32, ty: Ty, word: PtxOperand) {
        let (space, to) = (StateSpace::Global, AddressOperand { base: AddressBase::Reg(at), offset });
        self.b.push(Inst::Store { space, ty, to, srcs: smallvec![word] });
    }

    /// The bits of a value, zero-extended to words, low word first.
    fn logged_words(&mut self, dtype: DType, value: Value) -> SmallVec<[PtxOperand; 4]> {
        if dtype == DType::U32x4 {
            return self.lanes(value).into();
        }
        if let Value::Known(scalar) = value {
            return known_words(scalar);
        }
        let reg = self.reg(value);
        let word = match dtype {
            DType::Bool => self.b.select(Ty::B32, reg, 1u32, 0u32),
            DType::I8 => self.b.binary(PtxBinaryOp::And, Ty::B32, reg, 0xffu32),
            DType::F16 | DType::Bf16 => self.b.convert(Ty::U32, Ty::U16, RoundingMode::None, reg),
            DType::F64 | DType::I64 | DType::U64 => return self.halves(reg),
            _ => self.b.recast(RegClass::B32, reg),
        };
        smallvec![word.into()]
    }

    fn halves(&mut self, reg: Reg) -> SmallVec<[PtxOperand; 4]> {
        let src = self.b.recast(RegClass::B64, reg);
        self.b.unpack(RegClass::B32, src).into_iter().map(PtxOperand::from).collect()
    }
}

fn known_words(scalar: Scalar) -> SmallVec<[PtxOperand; 4]> {
    (0..value_words(scalar.dtype()))
        .map(|word| PtxOperand::from((scalar.bits() >> (32 * word)) as u32))
        .collect()
}
