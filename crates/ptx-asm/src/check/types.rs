//! Which instructions there are: operations, types, registers, targets.

mod hopper; // those of 9.0 alone

use super::{ProgramError, wrong};
use crate::inst::{Atomic, Binary, Cmp, Inst, Rounding, Ternary, Ty, Unary, Vote};
use crate::print::reg;
use crate::program::{Array, Base, Class, Guard, Kernel, Operand, Place, Reg, Space, Special, Stmt, Target};

pub(super) fn check(kernel: &Kernel, target: Target) -> Result<(), ProgramError> {
    block(&Checker { kernel, target }, &kernel.body)
}

struct Checker<'k> {
    kernel: &'k Kernel,
    target: Target,
}

/// What is wrong with an instruction, in words.
type Found<T = ()> = Result<T, String>;

fn block(checker: &Checker<'_>, stmts: &[Stmt]) -> Result<(), ProgramError> {
    let kernel = checker.kernel;
    for stmt in stmts {
        match stmt {
            Stmt::Inst(inst) => checker.inst(inst).map_err(|what| wrong(kernel, inst, what))?,
            Stmt::When(at, inst) => {
                guard(kernel, *at)?;
                checker.inst(inst).map_err(|what| wrong(kernel, inst, what))?;
            }
            Stmt::If { guard: at, then, otherwise } => {
                guard(kernel, *at)?;
                block(checker, then)?;
                block(checker, otherwise)?;
            }
            Stmt::Loop { body, again } => {
                block(checker, body)?;
                guard(kernel, *again)?;
            }
            Stmt::Comment(_) => {}
        }
    }
    Ok(())
}

fn guard(kernel: &Kernel, guard: Guard) -> Result<(), ProgramError> {
    if guard.pred.class == Class::Pred {
        return Ok(());
    }
    Err(ProgramError::Guard { kernel: kernel.name.clone(), register: reg(guard.pred) })
}

impl Checker<'_> {
    fn inst(&self, inst: &Inst) -> Found {
        match inst {
            Inst::Move { dst, src } => match src {
                Operand::Reg(src) if (src.class == Class::Pred) != (dst.class == Class::Pred) => {
                    Err("expected two predicates, or none".into())
                }
                Operand::Reg(src) => same("bits", src.class.bits(), dst.class.bits()),
                Operand::Const(_) => Ok(()),
            },
            Inst::Where { dst, special } => {
                if *special == Special::ClusterBlock {
                    self.from(Target::Sm90a)?;
                }
                class(*dst, Class::B32)
            }
            Inst::Address { dst, space, array } => {
                class(*dst, Class::B32)?;
                self.array(*space, *array).map(|_| ())
            }
            Inst::Param { dst, param } => {
                class(*dst, Class::B64)?;
                if *param < self.kernel.params {
                    return Ok(());
                }
                Err(format!("there are {} parameters", self.kernel.params))
            }
            Inst::Pack { dst: whole, halves } | Inst::Unpack { halves, src: whole } => {
                let half = match whole.class {
                    Class::B32 => 16,
                    Class::B64 => 32,
                    other => return Err(format!("a whole of class {other:?}, expected B32 or B64")),
                };
                halves.iter().try_for_each(|r| same("bits of a half", r.class.bits(), half))
            }
            Inst::Unary { op, ty, dst, src } => self.unary(*op, *ty, *dst, *src),
            Inst::Binary { op, ty, dst, a, b } => self.binary(*op, *ty, *dst, [*a, *b]),
            Inst::Ternary { op, ty, dst, a, b, c } => ternary(*op, *ty, *dst, [*a, *b, *c]),
            Inst::Compare { cmp, ty, dst, a, b } => {
                let is_for_floats = !matches!(cmp, Cmp::Eq | Cmp::Ne | Cmp::Lt | Cmp::Le | Cmp::Gt | Cmp::Ge);
                let is_equality = matches!(cmp, Cmp::Eq | Cmp::Ne);
                let fits = match ty {
                    Ty::F32 | Ty::F64 | Ty::F16 => true,
                    Ty::B16 | Ty::B32 | Ty::B64 => is_equality,
                    Ty::U16 | Ty::U32 | Ty::U64 | Ty::S16 | Ty::S32 | Ty::S64 => !is_for_floats,
                    _ => false,
                };
                exists(fits, *ty)?;
                class(*dst, Class::Pred)?;
                operands(*ty, &[*a, *b])
            }
            Inst::Select { ty, dst, a, b, pred } => {
                exists(ty.bytes() >= 2, *ty)?;
                class(*pred, Class::Pred)?;
                class(*dst, ty.class())?;
                [*a, *b].iter().try_for_each(|&value| operand(ty.class(), value))
            }
            Inst::Convert { to, from, rounding, dst, src } => {
                self.convert(*to, *from, *rounding)?;
                class(*dst, to.class())?;
                class(*src, from.class())
            }
            Inst::ConvertPair { to, dst, halves } => {
                exists(matches!(to, Ty::F16x2 | Ty::Bf16x2), *to)?;
                self.from(Target::Sm80)?;
                class(*dst, Class::B32)?;
                operands(Ty::F32, halves)
            }
            Inst::Load { space, ty, constant, dsts, from } => {
                if *constant && *space != Space::Global {
                    return Err("only global memory has a cache for what nobody writes".into());
                }
                self.access(*space, *ty, dsts.len(), *from)?;
                dsts.iter().try_for_each(|&dst| class(dst, ty.class()))
            }
            Inst::Store { space, ty, to, srcs } => {
                self.access(*space, *ty, srcs.len(), *to)?;
                if srcs.len() > 1 && srcs.iter().any(|src| matches!(src, Operand::Const(_))) {
                    return Err("vectors are stored from registers".into());
                }
                srcs.iter().try_for_each(|&src| operand(ty.class(), src))
            }
            Inst::Atomic { space, op, ty, dst, at, operands: values } => {
                self.atomic(*space, *op, *ty, *at)?;
                let (count, returns) = match op {
                    Atomic::CompareSwap => (2, true),
                    Atomic::Exchange => (1, true),
                    _ => (1, false),
                };
                same("operands", values.len() as u32, count)?;
                if returns && dst.is_none() {
                    return Err("expected a register for what was there".into());
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
            Inst::WarpBarrier | Inst::Fence(_) => Ok(()),
            Inst::Shuffle { dst, src, lane, width, .. } => {
                if !width.is_power_of_two() || *width > 32 {
                    return Err(format!("a width of {width}, expected a power of two up to 32"));
                }
                [*dst, *src].iter().try_for_each(|r| same("bits", r.class.bits(), 32))?;
                operands(Ty::U32, &[*lane])
            }
            Inst::Vote { vote, dst, src } => {
                class(*dst, if *vote == Vote::Ballot { Class::B32 } else { Class::Pred })?;
                class(*src, Class::Pred)
            }
            Inst::LoadMatrix { dsts, from, .. } => {
                self.from(Target::Sm80)?;
                self.place(Space::Shared, *from, 16)?;
                vector(dsts.len())?;
                dsts.iter().try_for_each(|&dst| class(dst, Class::B32))
            }
            Inst::Mma { shape, d, a, b, c } => {
                self.from(Target::Sm80)?;
                let (of_a, of_b, of_sums) = shape.registers();
                for (regs, count, expected) in [
                    (a, of_a, Class::B32),
                    (b, of_b, Class::B32),
                    (c, of_sums, Class::F32),
                    (d, of_sums, Class::F32),
                ] {
                    same("registers of a matrix", regs.len() as u32, count as u32)?;
                    regs.iter().try_for_each(|&r| class(r, expected))?;
                }
                Ok(())
            }
            Inst::CopyAsync { bytes, to, from, read } => {
                self.from(Target::Sm80)?;
                if ![4, 8, 16].contains(bytes) {
                    return Err(format!("{bytes} bytes, expected 4, 8 or 16"));
                }
                self.place(Space::Shared, *to, *bytes)?;
                self.place(Space::Global, *from, *bytes)?;
                read.iter().try_for_each(|&read| class(read, Class::B32))
            }
            Inst::CopyCommit | Inst::CopyWait { .. } => self.from(Target::Sm80),
            Inst::Map { dst, map } => self.map(*dst, *map),
            Inst::MapPrefetch { map } => self.of_hopper(*map, Class::B64),
            Inst::BarrierInit { at, count } => {
                self.barrier(*at)?;
                within("arrivals", *count, 1, hopper::MOST_OF_BARRIER)
            }
            Inst::Arrive { at } => self.barrier(*at),
            Inst::ArriveCluster { at } => match at.base {
                Base::Reg(_) => self.barrier(*at),
                Base::Array(_) => Err("expected an address that the cluster gave".into()),
            },
            Inst::ArriveExpect { at, bytes } => {
                self.barrier(*at)?;
                within("bytes", *bytes, 0, hopper::MOST_OF_BARRIER)
            }
            Inst::BarrierWait { at, parity, .. } => {
                self.barrier(*at)?;
                class(*parity, Class::B32)
            }
            Inst::MapShared { dst, at, block } => {
                self.of_hopper(*dst, Class::B32)?;
                self.place(Space::Shared, *at, 1)?;
                operands(Ty::U32, &[*block])
            }
            Inst::LoadTile { map, at, to, barrier, multicast } => {
                self.tile(*map, at, *to)?;
                self.barrier(*barrier)?;
                multicast.iter().try_for_each(|&mask| class(mask, Class::B16))
            }
            Inst::StoreTile { map, at, from } => self.tile(*map, at, *from),
            Inst::SetMaxRegisters { count, .. } => self.set_max_registers(*count),
            Inst::WarpgroupMma { factor, columns, d, a, b, transposed, accumulate } => {
                self.product((*factor, *columns, *transposed), d, [*a, *b, *accumulate])
            }
            Inst::WarpgroupFence | Inst::WarpgroupCommit => self.warpgroups(),
            Inst::WarpgroupWait { left } => {
                self.warpgroups()?;
                within("groups", *left, 0, 7)
            }
            Inst::StoreMatrix { from, to } => {
                self.from(Target::Sm90a)?;
                self.place(Space::Shared, *to, 16)?;
                vector(from.len())?;
                from.iter().try_for_each(|&src| class(src, Class::B32))
            }
            Inst::BarrierInitFence
            | Inst::ClusterBarrier
            | Inst::FenceAsync
            | Inst::StoreTileCommit
            | Inst::StoreTileWait { .. } => self.from(Target::Sm90a),
        }
    }

    fn from(&self, least: Target) -> Found {
        if self.target >= least {
            return Ok(());
        }
        Err(format!("it takes {}, the target is {}", least.name(), self.target.name()))
    }

    fn unary(&self, op: Unary, ty: Ty, dst: Reg, src: Operand) -> Found {
        let number = matches!(ty, Ty::S16 | Ty::S32 | Ty::S64 | Ty::F16 | Ty::F32 | Ty::F64);
        let (fits, result) = match op {
            Unary::Neg | Unary::Abs => (number, ty.class()),
            Unary::Not => (matches!(ty, Ty::Pred | Ty::B16 | Ty::B32 | Ty::B64), ty.class()),
            Unary::CountOnes | Unary::LeadingZeros => (matches!(ty, Ty::B32 | Ty::B64), Class::B32),
            Unary::Reverse => (matches!(ty, Ty::B32 | Ty::B64), ty.class()),
            Unary::Sqrt | Unary::Recip => (matches!(ty, Ty::F32 | Ty::F64), ty.class()),
            Unary::Exp2Approx
            | Unary::Log2Approx
            | Unary::SinApprox
            | Unary::CosApprox
            | Unary::TanhApprox
            | Unary::RsqrtApprox
            | Unary::RecipApprox
            | Unary::SqrtApprox => (ty == Ty::F32, Class::F32),
        };
        exists(fits, ty)?;
        if op == Unary::TanhApprox {
            self.from(Target::Sm80)?;
        }
        class(dst, result)?;
        operands(ty, &[src])
    }

    fn binary(&self, op: Binary, ty: Ty, dst: Reg, [a, b]: [Operand; 2]) -> Found {
        let integer = matches!(ty, Ty::U16 | Ty::U32 | Ty::U64 | Ty::S16 | Ty::S32 | Ty::S64);
        let half = matches!(ty, Ty::F16 | Ty::F16x2);
        let float = matches!(ty, Ty::F32 | Ty::F64);
        let bits = matches!(ty, Ty::B16 | Ty::B32 | Ty::B64);
        let fits = match op {
            Binary::Add | Binary::Sub | Binary::Mul => integer || float || half,
            Binary::MulHigh | Binary::Rem => integer,
            Binary::MulWide => integer && ty.bytes() <= 4,
            Binary::Div | Binary::Min | Binary::Max => integer || float,
            Binary::DivApprox => ty == Ty::F32,
            Binary::And | Binary::Or | Binary::Xor => bits || ty == Ty::Pred,
            Binary::ShiftLeft => bits,
            Binary::ShiftRight => bits || integer,
        };
        exists(fits, ty)?;
        let wide = match ty.class() {
            Class::B16 => Class::B32,
            _ => Class::B64,
        };
        class(dst, if op == Binary::MulWide { wide } else { ty.class() })?;
        match op {
            Binary::ShiftLeft | Binary::ShiftRight => {
                operands(ty, &[a])?;
                operands(Ty::U32, &[b])
            }
            _ => operands(ty, &[a, b]),
        }
    }

    fn convert(&self, to: Ty, from: Ty, rounding: Rounding) -> Found {
        let integer = |ty: Ty| ty.is_signed() || ty.is_unsigned();
        let float = |ty: Ty| matches!(ty, Ty::F16 | Ty::F32 | Ty::F64);
        let to_integer = matches!(
            rounding,
            Rounding::NearestInteger | Rounding::ZeroInteger | Rounding::DownInteger | Rounding::UpInteger
        );
        if to == Ty::Bf16 {
            self.from(Target::Sm80)?;
        }
        let fits = match (to, from) {
            _ if integer(to) && integer(from) => rounding == Rounding::None,
            _ if integer(to) && float(from) => to_integer,
            _ if float(to) && integer(from) => rounding != Rounding::None && !to_integer,
            (Ty::Bf16, Ty::F32) => matches!(rounding, Rounding::Nearest | Rounding::Zero),
            _ if to == from && float(to) => to_integer,
            _ if float(to) && float(from) && to.bytes() > from.bytes() => rounding == Rounding::None,
            (Ty::F16, Ty::F32 | Ty::F64) => matches!(rounding, Rounding::Nearest | Rounding::Zero),
            _ if float(to) && float(from) => rounding != Rounding::None && !to_integer,
            _ => false,
        };
        if fits { Ok(()) } else { Err(format!("there is no such conversion from {from:?} to {to:?}")) }
    }

    fn atomic(&self, space: Space, op: Atomic, ty: Ty, at: Place) -> Found {
        let fits = match op {
            Atomic::Add => matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::F32 | Ty::F64),
            Atomic::Min | Atomic::Max => matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64),
            Atomic::And | Atomic::Or | Atomic::Xor | Atomic::Exchange | Atomic::CompareSwap => {
                matches!(ty, Ty::B32 | Ty::B64)
            }
        };
        exists(fits, ty)?;
        if space == Space::Local {
            return Err("nobody else sees local memory".into());
        }
        self.place(space, at, ty.bytes())
    }

    /// An access of so many elements beside each other.
    fn access(&self, space: Space, ty: Ty, count: usize, at: Place) -> Found {
        exists(ty != Ty::Pred, ty)?;
        vector(count)?;
        let bytes = ty.bytes() * count as u32;
        if bytes > 16 {
            return Err(format!("an access of {bytes} bytes, expected at most 16"));
        }
        self.place(space, at, bytes)
    }

    fn place(&self, space: Space, place: Place, bytes: u32) -> Found {
        self.aligned(space, place, bytes, bytes)
    }

    /// A place of so many bytes that is aligned so.
    fn aligned(&self, space: Space, place: Place, bytes: u32, align: u32) -> Found {
        match (place.base, space) {
            (Base::Reg(base), Space::Global) => class(base, Class::B64),
            (Base::Reg(base), Space::Shared | Space::Local) => class(base, Class::B32),
            (Base::Array(_), Space::Global) => Err("global memory has no arrays of the kernel".into()),
            (Base::Array(at), Space::Shared | Space::Local) => {
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

    fn array(&self, space: Space, at: u32) -> Found<&Array> {
        let arrays = match space {
            Space::Shared => &self.kernel.shared,
            Space::Local => &self.kernel.local,
            Space::Global => return Err("global memory has no arrays of the kernel".into()),
        };
        arrays.get(at as usize).ok_or_else(|| format!("there are {} arrays", arrays.len()))
    }
}

fn ternary(op: Ternary, ty: Ty, dst: Reg, [a, b, c]: [Operand; 3]) -> Found {
    let integer = matches!(ty, Ty::U16 | Ty::U32 | Ty::U64 | Ty::S16 | Ty::S32 | Ty::S64);
    let fits = match op {
        Ternary::Fma => matches!(ty, Ty::F16 | Ty::F16x2 | Ty::F32 | Ty::F64),
        Ternary::MulAdd => integer,
        Ternary::MulAddWide => matches!(ty, Ty::U32 | Ty::S32),
        Ternary::Permute | Ternary::FunnelLeft | Ternary::FunnelRight | Ternary::Logic(_) => ty == Ty::B32,
    };
    exists(fits, ty)?;
    let last = if op == Ternary::MulAddWide { Ty::U64 } else { ty };
    class(dst, last.class())?;
    operands(ty, &[a, b])?;
    operands(last, &[c])
}

fn exists(fits: bool, ty: Ty) -> Found {
    if fits { Ok(()) } else { Err(format!("it does not exist for {ty:?}")) }
}

fn class(found: Reg, expected: Class) -> Found {
    if found.class == expected {
        return Ok(());
    }
    Err(format!("{} is of class {:?}, expected {expected:?}", reg(found), found.class))
}

fn same(what: &str, found: u32, expected: u32) -> Found {
    if found == expected { Ok(()) } else { Err(format!("{found} {what}, expected {expected}")) }
}

fn within(what: &str, found: u32, least: u32, most: u32) -> Found {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(format!("{found} {what}, expected {least} to {most}"))
}

fn vector(count: usize) -> Found {
    if matches!(count, 1 | 2 | 4) {
        return Ok(());
    }
    Err(format!("{count} registers, expected one, two or four"))
}

/// Operands taken for values of a type; of 16-bit floats there are no constants.
fn operands(ty: Ty, values: &[Operand]) -> Found {
    let constant = values.iter().any(|value| matches!(value, Operand::Const(_)));
    if constant && matches!(ty, Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 | Ty::Pred) {
        return Err(format!("there are no constants of type {ty:?}"));
    }
    values.iter().try_for_each(|&value| operand(ty.class(), value))
}

fn operand(expected: Class, value: Operand) -> Found {
    match value {
        Operand::Reg(reg) => class(reg, expected),
        Operand::Const(_) => Ok(()),
    }
}
