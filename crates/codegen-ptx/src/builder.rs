//! Builds the instructions of a kernel, with common-subexpression elimination of index arithmetic.
//!
//! An index instruction that was emitted before, in a block that is still open, yields the same register
//! again. Adjacent elements therefore share an address register and differ in the offset of their
//! [`AddressOperand`](ptx_asm::AddressOperand). Instructions on values are not shared, because an assembler
//! eliminates those.

use std::collections::{HashMap, HashSet};

use ptx_asm::{
    CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxKernel, PtxOperand, PtxStmt, PtxTernaryOp, PtxUnaryOp, Reg,
    RegClass, RoundingMode, SpecialReg, StateSpace, StmtList, Ty,
};

/// Index instructions, without their operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum IndexOp {
    Binary(PtxBinaryOp, Ty),
    Ternary(PtxTernaryOp, Ty),
    Convert(Ty, Ty),
    Compare(CmpOp, Ty),
    Address(StateSpace),
}

/// An index instruction with its operands.
type IndexKey = (IndexOp, [PtxOperand; 3]);

/// The builder of a kernel's instructions.
#[derive(Debug)]
pub(crate) struct InstBuilder {
    code: ptx_asm::PtxBuilder,
    /// For each open block, innermost last: the statements of the enclosing block, and the index instructions
    /// that became known in the block.
    open: Vec<(StmtList, Vec<IndexKey>)>,
    known: HashMap<IndexKey, Reg>,
    /// Registers that must keep their content, because the builder or its user remembers them.
    pinned: HashSet<Reg>,
    size: usize,
}

impl InstBuilder {
    /// A builder of an empty kernel.
    pub(crate) fn new(code: ptx_asm::PtxBuilder) -> InstBuilder {
        InstBuilder { code, open: Vec::new(), known: HashMap::new(), pinned: HashSet::new(), size: 0 }
    }

    pub(crate) fn finish(self) -> PtxKernel {
        self.code.finish()
    }

    /// The builder underneath, for instructions without sharing.
    pub(crate) fn code(&mut self) -> &mut ptx_asm::PtxBuilder {
        &mut self.code
    }

    /// Number of statements, without those emitted through [`InstBuilder::code`].
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Allocates a register.
    pub(crate) fn reg(&mut self, class: RegClass) -> Reg {
        self.code.register(class)
    }

    /// The numbers of registers allocated so far; registers allocated later have greater numbers.
    pub(crate) fn mark(&self) -> [u32; RegClass::ALL.len()] {
        self.code.register_counts()
    }

    /// Whether a register was allocated after a mark.
    pub(crate) fn is_younger(reg: Reg, mark: &[u32; RegClass::ALL.len()]) -> bool {
        reg.number >= mark[reg.class as usize]
    }

    /// Pins a register: it keeps its content.
    pub(crate) fn pin(&mut self, reg: Reg) {
        self.pinned.insert(reg);
    }

    pub(crate) fn push(&mut self, inst: Inst) {
        self.stmt(PtxStmt::Inst(inst));
    }

    pub(crate) fn when(&mut self, guard: GuardPredicate, inst: Inst) {
        self.stmt(PtxStmt::Predicated(guard, inst));
    }

    pub(crate) fn stmt(&mut self, stmt: PtxStmt) {
        self.size += 1;
        self.code.push_stmt(stmt);
    }

    pub(crate) fn open(&mut self) {
        let outside = self.code.begin();
        self.open.push((outside, Vec::new()));
    }

    /// Closes the innermost block and forgets the index instructions that became known in it.
    pub(crate) fn close(&mut self) -> StmtList {
        let (outside, keys) = self.open.pop().unwrap_or_default();
        for key in keys {
            self.known.remove(&key);
        }
        self.code.end(outside)
    }

    /// Appends an instruction that `make` builds, with a new register of class `class` as its result.
    pub(crate) fn value(&mut self, class: RegClass, make: impl FnOnce(Reg) -> Inst) -> Reg {
        let dst = self.reg(class);
        self.push(make(dst));
        dst
    }

    pub(crate) fn mov(&mut self, class: RegClass, src: impl Into<PtxOperand>) -> Reg {
        let src = src.into();
        self.value(class, |dst| Inst::Move { dst, src })
    }

    pub(crate) fn special(&mut self, special: SpecialReg) -> Reg {
        self.value(RegClass::B32, |dst| Inst::ReadSpecial { dst, special })
    }

    pub(crate) fn unary(&mut self, op: PtxUnaryOp, ty: Ty, src: impl Into<PtxOperand>) -> Reg {
        let src = src.into();
        let class = if op == PtxUnaryOp::LeadingZeros { RegClass::B32 } else { ty.class() };
        self.value(class, |dst| Inst::Unary { op, ty, dst, src })
    }

    pub(crate) fn binary(
        &mut self,
        op: PtxBinaryOp,
        ty: Ty,
        a: impl Into<PtxOperand>,
        b: impl Into<PtxOperand>,
    ) -> Reg {
        let (a, b) = (a.into(), b.into());
        self.value(ty.class(), |dst| Inst::Binary { op, ty, dst, a, b })
    }

    pub(crate) fn ternary(
        &mut self,
        op: PtxTernaryOp,
        ty: Ty,
        class: RegClass,
        [a, b, c]: [PtxOperand; 3],
    ) -> Reg {
        self.value(class, |dst| Inst::Ternary { op, ty, dst, a, b, c })
    }

    pub(crate) fn compare(
        &mut self,
        cmp: CmpOp,
        ty: Ty,
        a: impl Into<PtxOperand>,
        b: impl Into<PtxOperand>,
    ) -> Reg {
        let (a, b) = (a.into(), b.into());
        self.value(RegClass::Pred, |dst| Inst::Compare { cmp, ty, dst, a, b })
    }

    pub(crate) fn select(
        &mut self,
        ty: Ty,
        pred: Reg,
        a: impl Into<PtxOperand>,
        b: impl Into<PtxOperand>,
    ) -> Reg {
        let (a, b) = (a.into(), b.into());
        self.value(ty.class(), |dst| Inst::Select { ty, dst, a, b, pred })
    }

    pub(crate) fn convert(&mut self, to: Ty, from: Ty, rounding: RoundingMode, src: Reg) -> Reg {
        self.value(to.class(), |dst| Inst::Convert { to, from, rounding, dst, src })
    }

    /// The same bits in a register of another class of the same width.
    pub(crate) fn recast(&mut self, class: RegClass, src: Reg) -> Reg {
        if src.class == class { src } else { self.mov(class, src) }
    }

    /// `a op b` for indices.
    pub(crate) fn index(
        &mut self,
        op: PtxBinaryOp,
        ty: Ty,
        a: impl Into<PtxOperand>,
        b: impl Into<PtxOperand>,
    ) -> Reg {
        let (a, b) = (a.into(), b.into());
        let key = (IndexOp::Binary(op, ty), [a, b, PtxOperand::Const(0)]);
        self.shared(key, ty.class(), |dst| Inst::Binary { op, ty, dst, a, b })
    }

    /// `a * b + c` for 32-bit indices.
    pub(crate) fn index_sum(
        &mut self,
        a: impl Into<PtxOperand>,
        b: impl Into<PtxOperand>,
        c: impl Into<PtxOperand>,
    ) -> Reg {
        let (op, ty, a, b, c) = (PtxTernaryOp::MulAdd, Ty::S32, a.into(), b.into(), c.into());
        self.shared((IndexOp::Ternary(op, ty), [a, b, c]), RegClass::B32, |dst| Inst::Ternary {
            op,
            ty,
            dst,
            a,
            b,
            c,
        })
    }

    /// `a * b + c` for 32-bit `a` and `b` and 64-bit `c`.
    pub(crate) fn index_sum_wide(
        &mut self,
        a: impl Into<PtxOperand>,
        b: impl Into<PtxOperand>,
        c: impl Into<PtxOperand>,
    ) -> Reg {
        let (op, ty, a, b, c) = (PtxTernaryOp::MulAddWide, Ty::S32, a.into(), b.into(), c.into());
        self.shared((IndexOp::Ternary(op, ty), [a, b, c]), RegClass::B64, |dst| Inst::Ternary {
            op,
            ty,
            dst,
            a,
            b,
            c,
        })
    }

    /// Extends a 32-bit index to 64 bits.
    pub(crate) fn index_widened(&mut self, src: Reg) -> Reg {
        let (to, from) = (Ty::S64, Ty::S32);
        let key = (IndexOp::Convert(to, from), [src.into(), PtxOperand::Const(0), PtxOperand::Const(0)]);
        let rounding = RoundingMode::None;
        self.shared(key, RegClass::B64, |dst| Inst::Convert { to, from, rounding, dst, src })
    }

    /// The address of an array.
    pub(crate) fn index_address(&mut self, space: StateSpace, array: u32) -> Reg {
        let key = (IndexOp::Address(space), [array.into(), PtxOperand::Const(0), PtxOperand::Const(0)]);
        self.shared(key, RegClass::B32, |dst| Inst::ArrayAddress { dst, space, array })
    }

    /// The result of a comparison of indices.
    pub(crate) fn index_compare(
        &mut self,
        cmp: CmpOp,
        ty: Ty,
        a: impl Into<PtxOperand>,
        b: impl Into<PtxOperand>,
    ) -> Reg {
        let (a, b) = (a.into(), b.into());
        let key = (IndexOp::Compare(cmp, ty), [a, b, PtxOperand::Const(0)]);
        self.shared(key, RegClass::Pred, |dst| Inst::Compare { cmp, ty, dst, a, b })
    }

    fn shared(&mut self, key: IndexKey, class: RegClass, make: impl FnOnce(Reg) -> Inst) -> Reg {
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let dst = self.value(class, make);
        self.pinned.insert(dst);
        self.known.insert(key, dst);
        if let Some((_, keys)) = self.open.last_mut() {
            keys.push(key);
        }
        dst
    }

    /// Changes the destination of the last instruction from `from` to `to`, if it computes `from`; returns
    /// whether it did. Nothing else may read `from`.
    pub(crate) fn retarget(&mut self, from: Reg, to: Reg) -> bool {
        if self.pinned.contains(&from) {
            return false;
        }
        match self.code.last_mut() {
            Some(PtxStmt::Inst(
                Inst::Unary { dst, .. }
                | Inst::Binary { dst, .. }
                | Inst::Ternary { dst, .. }
                | Inst::Compare { dst, .. }
                | Inst::Select { dst, .. }
                | Inst::Convert { dst, .. },
            )) if *dst == from => {
                *dst = to;
                true
            }
            _ => false,
        }
    }
}
