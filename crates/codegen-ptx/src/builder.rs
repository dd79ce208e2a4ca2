//! Builds the instructions of a kernel, with common-subexpression elimination of index arithmetic.
//!
//! An index instruction that was emitted before, in a block that is still open, yields the same register
//! again. Adjacent elements therefore share an address register and differ in the offset of their
//! [`AddressOperand`](ptx_asm::AddressOperand). Instructions on values are not shared, because an assembler
//! eliminates those.

use std::{
    collections::{HashMap, HashSet},
    ops::{Deref, DerefMut},
};

use ptx_asm::{
    CmpOp, Inst, PtxBinaryOp, PtxBuilder, PtxKernel, PtxOperand, PtxStmt, PtxTernaryOp, Reg, RegClass,
    RoundingMode, StateSpace, StmtList, Ty,
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

/// A [`PtxBuilder`] that knows the index instructions it has emitted.
#[derive(Debug)]
pub(crate) struct InstBuilder {
    code: PtxBuilder,
    /// For each open block, innermost last: the statements of the enclosing block, and the index instructions
    /// that became known in the block.
    open: Vec<(StmtList, Vec<IndexKey>)>,
    known: HashMap<IndexKey, Reg>,
    /// Registers that must keep their content, because the builder or its user remembers them.
    pinned: HashSet<Reg>,
}

impl Deref for InstBuilder {
    type Target = PtxBuilder;

    fn deref(&self) -> &PtxBuilder {
        &self.code
    }
}

impl DerefMut for InstBuilder {
    fn deref_mut(&mut self) -> &mut PtxBuilder {
        &mut self.code
    }
}

impl InstBuilder {
    /// A builder of an empty kernel.
    pub(crate) fn new(code: PtxBuilder) -> InstBuilder {
        InstBuilder { code, open: Vec::new(), known: HashMap::new(), pinned: HashSet::new() }
    }

    pub(crate) fn finish(self) -> PtxKernel {
        self.code.finish()
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
        self.known_or_new(key, ty.class(), |dst| Inst::Binary { op, ty, dst, a, b })
    }

    /// `a * b + c` for 32-bit indices.
    pub(crate) fn index_sum(
        &mut self,
        a: impl Into<PtxOperand>,
        b: impl Into<PtxOperand>,
        c: impl Into<PtxOperand>,
    ) -> Reg {
        self.index_ternary(PtxTernaryOp::MulAdd, RegClass::B32, [a.into(), b.into(), c.into()])
    }

    /// `a * b + c` for 32-bit `a` and `b` and 64-bit `c`.
    pub(crate) fn index_sum_wide(
        &mut self,
        a: impl Into<PtxOperand>,
        b: impl Into<PtxOperand>,
        c: impl Into<PtxOperand>,
    ) -> Reg {
        self.index_ternary(PtxTernaryOp::MulAddWide, RegClass::B64, [a.into(), b.into(), c.into()])
    }

    fn index_ternary(&mut self, op: PtxTernaryOp, class: RegClass, args: [PtxOperand; 3]) -> Reg {
        let (ty, [a, b, c]) = (Ty::S32, args);
        self.known_or_new((IndexOp::Ternary(op, ty), args), class, |dst| Inst::Ternary {
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
        self.known_or_new(key, RegClass::B64, |dst| Inst::Convert { to, from, rounding, dst, src })
    }

    /// The address of an array.
    pub(crate) fn index_address(&mut self, space: StateSpace, array: u32) -> Reg {
        let key = (IndexOp::Address(space), [array.into(), PtxOperand::Const(0), PtxOperand::Const(0)]);
        self.known_or_new(key, RegClass::B32, |dst| Inst::ArrayAddress { dst, space, array })
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
        self.known_or_new(key, RegClass::Pred, |dst| Inst::Compare { cmp, ty, dst, a, b })
    }

    fn known_or_new(&mut self, key: IndexKey, class: RegClass, make: impl FnOnce(Reg) -> Inst) -> Reg {
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
