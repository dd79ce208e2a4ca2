//! Checks that each instruction exists for its types and target and has operands of the right class.

mod hopper;

use super::{PtxError, wrong};
use crate::inst::{AtomicOp, CmpOp, Inst, PtxBinaryOp, PtxTernaryOp, PtxUnaryOp, RoundingMode, Ty};
use crate::print::reg;
use crate::program::{
    AddressBase, AddressOperand, ArrayDecl, GuardPredicate, PtxKernel, PtxOperand, PtxStmt, Reg, RegClass,
    SpecialReg, StateSpace, Target,
};

pub(super) fn check(kernel: &PtxKernel, target: Target) -> Result<(), PtxError> {
    block(&Checker { kernel, target }, &kernel.body)
}

struct Checker<'k> {
    kernel: &'k PtxKernel,
    target: Target,
}

/// The outcome of a check; the error describes the mistake in words.
type CheckResult<T = ()> = Result<T, String>;

fn block(checker: &Checker<'_>, stmts: &[PtxStmt]) -> Result<(), PtxError> {
    let kernel = checker.kernel;
    for stmt in stmts {
        match stmt {
            PtxStmt::Inst(inst) => checker.inst(inst).map_err(|what| wrong(kernel, inst, what))?,
            PtxStmt::Predicated(at, inst) => {
                guard(kernel, *at)?;
                checker.inst(inst).map_err(|what| wrong(kernel, inst, what))?;
            }
            PtxStmt::If { guard: at, then, otherwise } => {
                guard(kernel, *at)?;
                block(checker, then)?;
                block(checker, otherwise)?;
            }
            PtxStmt::Loop { body, repeat_while } => {
                block(checker, body)?;
                guard(kernel, *repeat_while)?;
            }
            PtxStmt::Comment(_) => {}
        }
    }
    Ok(())
}

fn guard(kernel: &PtxKernel, guard: GuardPredicate) -> Result<(), PtxError> {
    if guard.pred.class == RegClass::Pred {
        return Ok(());
    }
    Err(PtxError::Guard { kernel: kernel.name.clone(), register: reg(guard.pred) })
}

impl Checker<'_> {
    fn inst(&self, inst: &Inst) -> CheckResult {
        match inst {
            Inst::Move { dst, src } => match src {
                PtxOperand::Reg(src) if (src.class == RegClass::Pred) != (dst.class == RegClass::Pred) => {
                    Err("expected two predicates, or none".into())
                }
                PtxOperand::Reg(src) => same("bits", src.class.bits(), dst.class.bits()),
                PtxOperand::Const(_) => Ok(()),
            },
            Inst::ReadSpecial { dst, special } => {
                if *special == SpecialReg::ClusterBlock {
                    self.from(Target::Sm90a)?;
                }
                class(*dst, RegClass::B32)
            }
            Inst::ArrayAddress { dst, space, array } => {
                class(*dst, RegClass::B32)?;
                self.array(*space, *array).map(|_| ())
            }
            Inst::LoadParam { dst, param } => {
                class(*dst, RegClass::B64)?;
                if *param < self.kernel.params {
                    return Ok(());
                }
                Err(format!("there are {} parameters", self.kernel.params))
            }
            Inst::Pack { dst: whole, halves } | Inst::Unpack { halves, src: whole } => {
                let half = match whole.class {
                    RegClass::B32 => 16,
                    RegClass::B64 => 32,
                    other => return Err(format!("a register of class {other:?}, expected B32 or B64")),
                };
                halves.iter().try_for_each(|r| same("bits of a half", r.class.bits(), half))
            }
            Inst::Unary { op, ty, dst, src } => self.unary(*op, *ty, *dst, *src),
            Inst::Binary { op, ty, dst, a, b } => self.binary(*op, *ty, *dst, [*a, *b]),
            Inst::Ternary { op, ty, dst, a, b, c } => ternary(*op, *ty, *dst, [*a, *b, *c]),
            Inst::Compare { cmp, ty, dst, a, b } => {
                let is_for_floats =
                    !matches!(cmp, CmpOp::Eq | CmpOp::Ne | CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge);
                let is_equality = matches!(cmp, CmpOp::Eq | CmpOp::Ne);
                let fits = match ty {
                    Ty::F32 | Ty::F64 | Ty::F16 => true,
                    Ty::B16 | Ty::B32 | Ty::B64 => is_equality,
                    Ty::U16 | Ty::U32 | Ty::U64 | Ty::S16 | Ty::S32 | Ty::S64 => !is_for_floats,
                    _ => false,
                };
                exists(fits, *ty)?;
                class(*dst, RegClass::Pred)?;
                operands(*ty, &[*a, *b])
            }
            Inst::Select { ty, dst, a, b, pred } => {
                exists(ty.bytes() >= 2, *ty)?;
                class(*pred, RegClass::Pred)?;
                class(*dst, ty.class())?;
                [*a, *b].iter().try_for_each(|&value| operand(ty.class(), value))
            }
            Inst::Convert { to, from, rounding, dst, src } => {
                self.convert(*to, *from, *rounding)?;
                class(*dst, to.class())?;
                class(*src, from.class())
            }
            Inst::Load { space, ty, constant, dsts, from } => {
                if *constant && *space != StateSpace::Global {
                    return Err("only global memory has a non-coherent cache".into());
                }
                self.access(*space, *ty, dsts.len(), *from)?;
                dsts.iter().try_for_each(|&dst| class(dst, ty.class()))
            }
            Inst::Store { space, ty, to, srcs } => {
                self.access(*space, *ty, srcs.len(), *to)?;
                if srcs.len() > 1 && srcs.iter().any(|src| matches!(src, PtxOperand::Const(_))) {
                    return Err("vectors are stored from registers".into());
                }
                srcs.iter().try_for_each(|&src| operand(ty.class(), src))
            }
            Inst::Atomic { space, op, ty, dst, at, operands: values } => {
                self.atomic(*space, *op, *ty, *at)?;
                let (count, returns) = match op {
                    AtomicOp::CompareSwap => (2, true),
                    AtomicOp::Exchange => (1, true),
                    _ => (1, false),
                };
                same("operands", values.len() as u32, count)?;
                if returns && dst.is_none() {
                    return Err("expected a register for the old value".into());
                }
                dst.iter().try_for_each(|&dst| class(dst, ty.class()))?;
                operands(*ty, values)
            }
            Inst::Barrier { id, threads } => {
                if *id >= 16 {
                    return Err("a block has 16 barriers".into());
                }
                match threads {
                    Some(threads) if *threads == 0 || threads % 32 != 0 || *threads > self.kernel.threads => {
                        Err(format!("expected whole warps, at most {} threads", self.kernel.threads))
                    }
                    _ => Ok(()),
                }
            }
            Inst::WarpBarrier => Ok(()),
            Inst::Shuffle { dst, src, lane, width, .. } => {
                if !width.is_power_of_two() || *width > 32 {
                    return Err(format!("a width of {width}, expected a power of two up to 32"));
                }
                [*dst, *src].iter().try_for_each(|r| same("bits", r.class.bits(), 32))?;
                operands(Ty::U32, &[*lane])
            }
            Inst::Ldmatrix { dsts, from, .. } => {
                self.from(Target::Sm80)?;
                self.place(StateSpace::Shared, *from, 16)?;
                vector(dsts.len())?;
                dsts.iter().try_for_each(|&dst| class(dst, RegClass::B32))
            }
            Inst::Mma { shape, d, a, b, c } => {
                self.from(Target::Sm80)?;
                let (of_a, of_b, of_sums) = shape.registers();
                for (regs, count, expected) in [
                    (a, of_a, RegClass::B32),
                    (b, of_b, RegClass::B32),
                    (c, of_sums, RegClass::F32),
                    (d, of_sums, RegClass::F32),
                ] {
                    same("registers of a matrix", regs.len() as u32, count as u32)?;
                    regs.iter().try_for_each(|&r| class(r, expected))?;
                }
                Ok(())
            }
            Inst::CpAsync { bytes, to, from, read } => {
                self.from(Target::Sm80)?;
                if ![4, 8, 16].contains(bytes) {
                    return Err(format!("{bytes} bytes, expected 4, 8 or 16"));
                }
                self.place(StateSpace::Shared, *to, *bytes)?;
                self.place(StateSpace::Global, *from, *bytes)?;
                read.iter().try_for_each(|&read| class(read, RegClass::B32))
            }
            Inst::CpAsyncCommit | Inst::CpAsyncWait { .. } => self.from(Target::Sm80),
            Inst::TensorMapAddress { dst, map } => self.map(*dst, *map),
            Inst::PrefetchTensorMap { map } => self.hopper_register(*map, RegClass::B64),
            Inst::MbarrierInit { at, count } => {
                self.mbarrier(*at)?;
                within("arrivals", *count, 1, hopper::MAX_MBARRIER_COUNT)
            }
            Inst::MbarrierArrive { at } => self.mbarrier(*at),
            Inst::MbarrierArriveCluster { at } => match at.base {
                AddressBase::Reg(_) => self.mbarrier(*at),
                AddressBase::Array(_) => Err("expected an address from `mapa`".into()),
            },
            Inst::MbarrierArriveExpectTx { at, bytes } => {
                self.mbarrier(*at)?;
                within("bytes", *bytes, 0, hopper::MAX_MBARRIER_COUNT)
            }
            Inst::MbarrierWait { at, parity, .. } => {
                self.mbarrier(*at)?;
                class(*parity, RegClass::B32)
            }
            Inst::Mapa { dst, at, block } => {
                self.hopper_register(*dst, RegClass::B32)?;
                self.place(StateSpace::Shared, *at, 1)?;
                operands(Ty::U32, &[*block])
            }
            Inst::TmaLoad { map, at, to, barrier, multicast } => {
                self.tile(*map, at, *to)?;
                self.mbarrier(*barrier)?;
                multicast.iter().try_for_each(|&mask| class(mask, RegClass::B16))
            }
            Inst::TmaStore { map, at, from } => self.tile(*map, at, *from),
            Inst::SetMaxRegisters { count, .. } => self.set_max_registers(*count),
            Inst::Wgmma { element, columns, d, a, b, transposed, accumulate } => {
                self.wgmma((*element, *columns, *transposed), d, [*a, *b, *accumulate])
            }
            Inst::WgmmaFence | Inst::WgmmaCommit => self.warpgroups(),
            Inst::WgmmaWait { pending } => {
                self.warpgroups()?;
                within("groups", *pending, 0, 7)
            }
            Inst::Stmatrix { from, to } => {
                self.from(Target::Sm90a)?;
                self.place(StateSpace::Shared, *to, 16)?;
                vector(from.len())?;
                from.iter().try_for_each(|&src| class(src, RegClass::B32))
            }
            Inst::FenceMbarrierInit
            | Inst::ClusterBarrier
            | Inst::FenceProxyAsync
            | Inst::TmaStoreCommit
            | Inst::TmaStoreWait { .. } => self.from(Target::Sm90a),
        }
    }

    fn from(&self, least: Target) -> CheckResult {
        if self.target >= least {
            return Ok(());
        }
        Err(format!("it takes {}, the target is {}", least.name(), self.target.name()))
    }

    fn unary(&self, op: PtxUnaryOp, ty: Ty, dst: Reg, src: PtxOperand) -> CheckResult {
        let number = matches!(ty, Ty::S16 | Ty::S32 | Ty::S64 | Ty::F16 | Ty::F32 | Ty::F64);
        let (fits, result) = match op {
            PtxUnaryOp::Neg | PtxUnaryOp::Abs => (number, ty.class()),
            PtxUnaryOp::Not => (matches!(ty, Ty::Pred | Ty::B16 | Ty::B32 | Ty::B64), ty.class()),
            PtxUnaryOp::CountOnes | PtxUnaryOp::LeadingZeros => {
                (matches!(ty, Ty::B32 | Ty::B64), RegClass::B32)
            }
            PtxUnaryOp::Reverse => (matches!(ty, Ty::B32 | Ty::B64), ty.class()),
            PtxUnaryOp::Sqrt | PtxUnaryOp::Recip => (matches!(ty, Ty::F32 | Ty::F64), ty.class()),
            PtxUnaryOp::Exp2Approx
            | PtxUnaryOp::Log2Approx
            | PtxUnaryOp::SinApprox
            | PtxUnaryOp::CosApprox
            | PtxUnaryOp::TanhApprox
            | PtxUnaryOp::RsqrtApprox
            | PtxUnaryOp::RecipApprox
            | PtxUnaryOp::SqrtApprox => (ty == Ty::F32, RegClass::F32),
        };
        exists(fits, ty)?;
        if op == PtxUnaryOp::TanhApprox {
            self.from(Target::Sm80)?;
        }
        class(dst, result)?;
        operands(ty, &[src])
    }

    fn binary(&self, op: PtxBinaryOp, ty: Ty, dst: Reg, [a, b]: [PtxOperand; 2]) -> CheckResult {
        let integer = matches!(ty, Ty::U16 | Ty::U32 | Ty::U64 | Ty::S16 | Ty::S32 | Ty::S64);
        let half = matches!(ty, Ty::F16 | Ty::F16x2);
        let float = matches!(ty, Ty::F32 | Ty::F64);
        let bits = matches!(ty, Ty::B16 | Ty::B32 | Ty::B64);
        let fits = match op {
            PtxBinaryOp::Add | PtxBinaryOp::Sub | PtxBinaryOp::Mul => integer || float || half,
            PtxBinaryOp::MulHigh | PtxBinaryOp::Rem => integer,
            PtxBinaryOp::MulWide => integer && ty.bytes() <= 4,
            PtxBinaryOp::Div | PtxBinaryOp::Min | PtxBinaryOp::Max => integer || float,
            PtxBinaryOp::DivApprox => ty == Ty::F32,
            PtxBinaryOp::And | PtxBinaryOp::Or | PtxBinaryOp::Xor => bits || ty == Ty::Pred,
            PtxBinaryOp::ShiftLeft => bits,
            PtxBinaryOp::ShiftRight => bits || integer,
        };
        exists(fits, ty)?;
        let wide = match ty.class() {
            RegClass::B16 => RegClass::B32,
            _ => RegClass::B64,
        };
        class(dst, if op == PtxBinaryOp::MulWide { wide } else { ty.class() })?;
        match op {
            PtxBinaryOp::ShiftLeft | PtxBinaryOp::ShiftRight => {
                operands(ty, &[a])?;
                operands(Ty::U32, &[b])
            }
            _ => operands(ty, &[a, b]),
        }
    }

    fn convert(&self, to: Ty, from: Ty, rounding: RoundingMode) -> CheckResult {
        let integer = |ty: Ty| ty.is_signed() || ty.is_unsigned();
        let float = |ty: Ty| matches!(ty, Ty::F16 | Ty::F32 | Ty::F64);
        let to_integer = matches!(
            rounding,
            RoundingMode::NearestInteger
                | RoundingMode::ZeroInteger
                | RoundingMode::DownInteger
                | RoundingMode::UpInteger
        );
        if to == Ty::Bf16 {
            self.from(Target::Sm80)?;
        }
        let fits = match (to, from) {
            _ if integer(to) && integer(from) => rounding == RoundingMode::None,
            _ if integer(to) && float(from) => to_integer,
            _ if float(to) && integer(from) => rounding != RoundingMode::None && !to_integer,
            (Ty::Bf16, Ty::F32) => matches!(rounding, RoundingMode::Nearest | RoundingMode::Zero),
            _ if to == from && float(to) => to_integer,
            _ if float(to) && float(from) && to.bytes() > from.bytes() => rounding == RoundingMode::None,
            (Ty::F16, Ty::F32 | Ty::F64) => matches!(rounding, RoundingMode::Nearest | RoundingMode::Zero),
            _ if float(to) && float(from) => rounding != RoundingMode::None && !to_integer,
            _ => false,
        };
        if fits { Ok(()) } else { Err(format!("there is no such conversion from {from:?} to {to:?}")) }
    }

    fn atomic(&self, space: StateSpace, op: AtomicOp, ty: Ty, at: AddressOperand) -> CheckResult {
        let fits = match op {
            AtomicOp::Add => matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::F32 | Ty::F64),
            AtomicOp::Min | AtomicOp::Max => matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64),
            AtomicOp::And | AtomicOp::Or | AtomicOp::Xor | AtomicOp::Exchange | AtomicOp::CompareSwap => {
                matches!(ty, Ty::B32 | Ty::B64)
            }
        };
        exists(fits, ty)?;
        if space == StateSpace::Local {
            return Err("no other thread sees local memory".into());
        }
        self.place(space, at, ty.bytes())
    }

    /// Checks an access of `count` consecutive elements.
    fn access(&self, space: StateSpace, ty: Ty, count: usize, at: AddressOperand) -> CheckResult {
        exists(ty != Ty::Pred, ty)?;
        vector(count)?;
        let bytes = ty.bytes() * count as u32;
        if bytes > 16 {
            return Err(format!("an access of {bytes} bytes, expected at most 16"));
        }
        self.place(space, at, bytes)
    }

    fn place(&self, space: StateSpace, place: AddressOperand, bytes: u32) -> CheckResult {
        self.aligned(space, place, bytes, bytes)
    }

    /// Checks the address of an access to `bytes` bytes: the class of a base register, or the bounds and the
    /// alignment `align` of an address in an array.
    fn aligned(&self, space: StateSpace, place: AddressOperand, bytes: u32, align: u32) -> CheckResult {
        match (place.base, space) {
            (AddressBase::Reg(base), StateSpace::Global) => class(base, RegClass::B64),
            (AddressBase::Reg(base), StateSpace::Shared | StateSpace::Local) => class(base, RegClass::B32),
            (AddressBase::Array(_), StateSpace::Global) => {
                Err("global memory has no arrays of the kernel".into())
            }
            (AddressBase::Array(at), StateSpace::Shared | StateSpace::Local) => {
                let array = self.array(space, at)?;
                let end = i64::from(place.offset) + i64::from(bytes);
                if place.offset < 0 || end > i64::from(array.bytes) {
                    let from = place.offset;
                    return Err(format!("bytes {from}..{end} of an array of {}", array.bytes));
                }
                if !place.offset.unsigned_abs().is_multiple_of(align) || !array.align.is_multiple_of(align) {
                    return Err(format!("expected an alignment of {align} bytes"));
                }
                Ok(())
            }
        }
    }

    fn array(&self, space: StateSpace, at: u32) -> CheckResult<&ArrayDecl> {
        let arrays = match space {
            StateSpace::Shared => &self.kernel.shared,
            StateSpace::Local => &self.kernel.local,
            StateSpace::Global => return Err("global memory has no arrays of the kernel".into()),
        };
        arrays.get(at as usize).ok_or_else(|| format!("there are {} arrays", arrays.len()))
    }
}

fn ternary(op: PtxTernaryOp, ty: Ty, dst: Reg, [a, b, c]: [PtxOperand; 3]) -> CheckResult {
    let integer = matches!(ty, Ty::U16 | Ty::U32 | Ty::U64 | Ty::S16 | Ty::S32 | Ty::S64);
    let fits = match op {
        PtxTernaryOp::Fma => matches!(ty, Ty::F16 | Ty::F16x2 | Ty::F32 | Ty::F64),
        PtxTernaryOp::MulAdd => integer,
        PtxTernaryOp::MulAddWide => matches!(ty, Ty::U32 | Ty::S32),
    };
    exists(fits, ty)?;
    let last = if op == PtxTernaryOp::MulAddWide { Ty::U64 } else { ty };
    class(dst, last.class())?;
    operands(ty, &[a, b])?;
    operands(last, &[c])
}

fn exists(fits: bool, ty: Ty) -> CheckResult {
    if fits { Ok(()) } else { Err(format!("it does not exist for {ty:?}")) }
}

fn class(found: Reg, expected: RegClass) -> CheckResult {
    if found.class == expected {
        return Ok(());
    }
    Err(format!("{} is of class {:?}, expected {expected:?}", reg(found), found.class))
}

fn same(what: &str, found: u32, expected: u32) -> CheckResult {
    if found == expected { Ok(()) } else { Err(format!("{found} {what}, expected {expected}")) }
}

fn within(what: &str, found: u32, least: u32, most: u32) -> CheckResult {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(format!("{found} {what}, expected {least} to {most}"))
}

fn vector(count: usize) -> CheckResult {
    if matches!(count, 1 | 2 | 4) {
        return Ok(());
    }
    Err(format!("{count} registers, expected one, two or four"))
}

/// Checks the classes of operands of type `ty`. PTX has no immediates of 16-bit floats or of predicates.
fn operands(ty: Ty, values: &[PtxOperand]) -> CheckResult {
    let constant = values.iter().any(|value| matches!(value, PtxOperand::Const(_)));
    if constant && matches!(ty, Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 | Ty::Pred) {
        return Err(format!("there are no constants of type {ty:?}"));
    }
    values.iter().try_for_each(|&value| operand(ty.class(), value))
}

fn operand(expected: RegClass, value: PtxOperand) -> CheckResult {
    match value {
        PtxOperand::Reg(reg) => class(reg, expected),
        PtxOperand::Const(_) => Ok(()),
    }
}
