//! A kernel's instructions under construction: fresh registers, and blocks that are opened and closed like brackets.
//!
//! Instructions of indices are shared: where one was written before, in a block that is still open, its register is given again. So
//! neighbouring elements have one address, and differ in the constant that a [`Place`](ptx_asm::Place) adds. Instructions of values are not:
//! an assembler finds equal ones by itself.

use std::collections::{HashMap, HashSet};

use ptx_asm::{
    CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxKernel, PtxOperand, PtxStmt, PtxTernaryOp, PtxUnaryOp, Reg,
    RegClass, RoundingMode, SpecialReg, StateSpace, StmtList, Ty,
};

/// Which instruction of indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum IndexOp {
    Binary(PtxBinaryOp, Ty),
    Ternary(PtxTernaryOp, Ty),
    Convert(Ty, Ty),
    Compare(CmpOp, Ty),
    Address(StateSpace),
}

/// An instruction of indices and what it reads.
type IndexKey = (IndexOp, [PtxOperand; 3]);

/// Instructions under construction.
#[derive(Debug)]
pub(crate) struct InstBuilder {
    code: ptx_asm::PtxBuilder,
    /// What was written outside of each block that is open, the innermost last, and the indices that are known in the block.
    open: Vec<(StmtList, Vec<IndexKey>)>,
    known: HashMap<IndexKey, Reg>,
    /// Registers that somebody remembers, so that they stay as they are.
    held: HashSet<Reg>,
    size: usize,
}

impl InstBuilder {
    /// Of a kernel that does nothing yet.
    pub(crate) fn new(code: ptx_asm::PtxBuilder) -> InstBuilder {
        InstBuilder { code, open: Vec::new(), known: HashMap::new(), held: HashSet::new(), size: 0 }
    }

    /// The kernel.
    pub(crate) fn finish(self) -> PtxKernel {
        self.code.finish()
    }

    /// To write instructions that share nothing.
    pub(crate) fn code(&mut self) -> &mut ptx_asm::PtxBuilder {
        &mut self.code
    }

    /// How many statements there are, but for those that share nothing.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// A register that nobody has.
    pub(crate) fn reg(&mut self, class: RegClass) -> Reg {
        self.code.register(class)
    }

    /// How many registers were given out; those of later numbers are younger.
    pub(crate) fn mark(&self) -> [u32; RegClass::ALL.len()] {
        self.code.register_counts()
    }

    /// Whether a register was given out after a mark.
    pub(crate) fn is_younger(reg: Reg, mark: &[u32; RegClass::ALL.len()]) -> bool {
        reg.number >= mark[reg.class as usize]
    }

    /// Somebody remembers a register.
    pub(crate) fn hold(&mut self, reg: Reg) {
        self.held.insert(reg);
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

    /// Closes the innermost block; what was made in it is forgotten.
    pub(crate) fn close(&mut self) -> StmtList {
        let (outside, keys) = self.open.pop().unwrap_or_default();
        for key in keys {
            self.known.remove(&key);
        }
        self.code.end(outside)
    }

    /// The result of an instruction of a class, written by `make`.
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

    /// `a op b` of indices.
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

    /// `a * b + c` of 32-bit indices.
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

    /// `a * b + c` where `a` and `b` have 32 bits and `c` has 64.
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

    /// A 32-bit index with 64 bits.
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

    /// Whether a comparison of indices holds.
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
        self.held.insert(dst);
        self.known.insert(key, dst);
        if let Some((_, keys)) = self.open.last_mut() {
            keys.push(key);
        }
        dst
    }

    /// Lets the instruction that was written last, and computes `from`, write to `to`; whether it does. Nobody else may read `from`.
    pub(crate) fn retarget(&mut self, from: Reg, to: Reg) -> bool {
        if self.held.contains(&from) {
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
