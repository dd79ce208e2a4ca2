//! What the checker accepts, NVIDIA's assembler accepts: every instruction with every type that it exists for, on every target.

use std::slice;

use codegen_testkit::{assembler::CudaTools, gpu};
use ptx_asm::{
    Atomic, Binary, Builder, Class, Cmp, Inst, Kernel, Mma, Module, Operand, Place, Reg, Rounding, Scope,
    Shuffle, Space, Special, Target, Ternary, Ty, Unary, Vote, check, print,
};
use smallvec::smallvec;

const TYPES: [Ty; 19] = [
    Ty::Pred,
    Ty::B8,
    Ty::B16,
    Ty::B32,
    Ty::B64,
    Ty::U8,
    Ty::U16,
    Ty::U32,
    Ty::U64,
    Ty::S8,
    Ty::S16,
    Ty::S32,
    Ty::S64,
    Ty::F16,
    Ty::F16x2,
    Ty::Bf16,
    Ty::Bf16x2,
    Ty::F32,
    Ty::F64,
];

/// Instructions that might exist, written by code that has registers of every class at hand.
fn candidates() -> Vec<Inst> {
    let mut found = Vec::new();
    for ty in TYPES {
        let operands = |b: Reg| [Operand::Reg(b), Operand::Const(3)];
        let r = register(ty.class(), 0);
        for op in UNARY {
            for dst in [r, register(Class::B32, 0)] {
                found.push(Inst::Unary { op, ty, dst, src: r.into() });
            }
        }
        for op in BINARY {
            for b in operands(r).into_iter().chain(operands(register(Class::B32, 0))) {
                for dst in [r, register(Class::B32, 0), register(Class::B64, 0)] {
                    found.push(Inst::Binary { op, ty, dst, a: r.into(), b });
                }
            }
        }
        for op in TERNARY {
            for c in operands(r).into_iter().chain(operands(register(Class::B64, 0))) {
                for dst in [r, register(Class::B64, 0)] {
                    found.push(Inst::Ternary { op, ty, dst, a: r.into(), b: 5_u32.into(), c });
                    found.push(Inst::Ternary { op, ty, dst, a: r.into(), b: r.into(), c });
                }
            }
        }
        let pred = register(Class::Pred, 0);
        for cmp in COMPARISONS {
            for b in operands(r) {
                found.push(Inst::Compare { cmp, ty, dst: pred, a: r.into(), b });
            }
        }
        for a in operands(r) {
            found.push(Inst::Select { ty, dst: r, a, b: r.into(), pred });
            found.push(Inst::Move { dst: r, src: a });
        }
        for from in TYPES {
            for rounding in ROUNDINGS {
                let src = register(from.class(), 0);
                found.push(Inst::Convert { to: ty, from, rounding, dst: r, src });
            }
        }
        let halves = [register(Class::F32, 0).into(), register(Class::F32, 1).into()];
        found.push(Inst::ConvertPair { to: ty, dst: register(Class::B32, 0), halves });
        for space in [Space::Global, Space::Shared, Space::Local] {
            let base = register(if space == Space::Global { Class::B64 } else { Class::B32 }, 0);
            for place in
                [Place::at(base), Place::at(base).plus(-32), Place::array(0), Place::array(0).plus(16)]
            {
                for count in [1, 2, 4] {
                    for constant in [false, true] {
                        let dsts = (0..count).map(|n| register(ty.class(), n)).collect();
                        found.push(Inst::Load { space, ty, constant, dsts, from: place });
                    }
                    let srcs = (0..count).map(|n| register(ty.class(), n).into()).collect();
                    found.push(Inst::Store { space, ty, to: place, srcs });
                }
                found.push(Inst::Store { space, ty, to: place, srcs: smallvec![Operand::Const(1)] });
                for op in ATOMICS {
                    for dst in [None, Some(r)] {
                        for count in [1, 2] {
                            let operands = smallvec![r.into(); count];
                            found.push(Inst::Atomic { space, op, ty, dst, at: place, operands });
                        }
                    }
                }
            }
        }
    }
    found.extend(others());
    found
}

fn others() -> Vec<Inst> {
    let [b16, b32, b64, f32, pred] =
        [Class::B16, Class::B32, Class::B64, Class::F32, Class::Pred].map(|class| register(class, 0));
    let mut found: Vec<Inst> = [Special::Thread, Special::Block, Special::Blocks, Special::Lane]
        .map(|special| Inst::Where { dst: b32, special })
        .into();
    for space in [Space::Shared, Space::Local] {
        found.push(Inst::Address { dst: b32, space, array: 1 });
    }
    found.push(Inst::Param { dst: b64, param: 1 });
    for (whole, half) in [(b32, b16), (b64, b32), (b64, f32)] {
        found.push(Inst::Pack { dst: whole, halves: [half; 2] });
        let halves = [half, register(half.class, 1)];
        found.push(Inst::Unpack { halves, src: whole });
    }
    found.extend([(b32, f32), (f32, b32)].map(|(dst, src)| Inst::Move { dst, src: src.into() }));
    found.extend([None, Some(64)].map(|threads| Inst::Barrier { id: 3, threads }));
    found.extend([Scope::Block, Scope::Device].map(Inst::Fence));
    for mode in [Shuffle::Up, Shuffle::Down, Shuffle::Xor, Shuffle::Index] {
        for (lane, width) in [(Operand::Const(1), 32), (b32.into(), 8)] {
            found.push(Inst::Shuffle { mode, dst: f32, src: f32, lane, width });
        }
    }
    for (vote, dst) in [(Vote::All, pred), (Vote::Any, pred), (Vote::Ballot, b32)] {
        found.push(Inst::Vote { vote, dst, src: pred });
    }
    for count in [1, 2, 4] {
        for transposed in [false, true] {
            let dsts = (0..count).map(|n| register(Class::B32, n)).collect();
            found.push(Inst::LoadMatrix { transposed, dsts, from: Place::at(b32) });
        }
    }
    for shape in [Mma::F16K16, Mma::Bf16K16, Mma::Tf32K8] {
        let of = |class, count| (0..count).map(|n| register(class, n)).collect();
        let (d, c) = (of(Class::F32, 4), of(Class::F32, 4));
        found.push(Inst::Mma { shape, d, a: of(Class::B32, 4), b: of(Class::B32, 2), c });
    }
    for bytes in [4, 8, 16] {
        for read in [None, Some(b32)] {
            found.push(Inst::CopyAsync { bytes, to: Place::at(b32), from: Place::at(b64), read });
        }
    }
    found.extend([Inst::CopyCommit, Inst::CopyWait { left: 0 }, Inst::CopyWait { left: 2 }]);
    found
}

fn register(class: Class, number: u32) -> Reg {
    Reg { class, number }
}

/// A kernel that writes four registers of every class and then does this.
fn with(name: String, insts: &[Inst]) -> Kernel {
    let mut b = Builder::new(name, 2, 64);
    for class in Class::ALL {
        for _ in 0..4 {
            b.moved(class, 0_u32);
        }
    }
    for _ in 0..2 {
        b.shared(256, 16);
        b.local(256, 16);
    }
    insts.iter().for_each(|inst| b.push(inst.clone()));
    b.finish()
}

#[test]
fn what_is_accepted_assembles() {
    let Some(tools) = gpu::or_skip("what_is_accepted_assembles", CudaTools::find()) else { return };
    for target in Target::ALL {
        let module = |kernels| Module { target, kernels };
        let mut accepted = candidates();
        accepted.retain(|inst| check(&module(vec![with("alone".into(), slice::from_ref(inst))])).is_ok());
        assert!(accepted.len() > 1000, "only {} instructions for {}", accepted.len(), target.name());
        let kernels = accepted.chunks(64).enumerate().map(|(at, insts)| with(format!("kernel{at}"), insts));
        let module = module(kernels.collect());
        assert_eq!(check(&module), Ok(()));
        if let Err(said) = tools.accepts(&print(&module), target.name()) {
            panic!("{}: {said}", target.name());
        }
    }
}

#[test]
fn shared_memory_beyond_the_static_limit() {
    let Some(tools) = gpu::or_skip("shared_memory_beyond_the_static_limit", CudaTools::find()) else {
        return;
    };
    let mut b = Builder::new("large", 1, 64);
    let (_, second) = (b.shared(40 << 10, 128), b.shared(40 << 10, 128));
    let value = b.load(Space::Shared, Ty::F32, false, Place::array(second).plus(4));
    let to = b.param(0);
    b.store(Space::Global, Ty::F32, Place::at(to), value);
    let kernel = b.finish();
    assert_eq!((kernel.shared_layout(), kernel.dynamic_shared_bytes()), (vec![0, 40 << 10], 80 << 10));
    let module = Module { target: Target::Sm80, kernels: vec![kernel] };
    assert_eq!(check(&module), Ok(()));
    let made = tools.assemble(&print(&module), "sm_80").unwrap_or_else(|said| panic!("{said}"));
    assert_eq!(made["large"].count("LDS"), 1);
}

const UNARY: [Unary; 16] = [
    Unary::Neg,
    Unary::Abs,
    Unary::Not,
    Unary::CountOnes,
    Unary::LeadingZeros,
    Unary::Reverse,
    Unary::Sqrt,
    Unary::Recip,
    Unary::Exp2Approx,
    Unary::Log2Approx,
    Unary::SinApprox,
    Unary::CosApprox,
    Unary::TanhApprox,
    Unary::RsqrtApprox,
    Unary::RecipApprox,
    Unary::SqrtApprox,
];

const BINARY: [Binary; 15] = [
    Binary::Add,
    Binary::Sub,
    Binary::Mul,
    Binary::MulHigh,
    Binary::MulWide,
    Binary::Div,
    Binary::DivApprox,
    Binary::Rem,
    Binary::Min,
    Binary::Max,
    Binary::And,
    Binary::Or,
    Binary::Xor,
    Binary::ShiftLeft,
    Binary::ShiftRight,
];

const TERNARY: [Ternary; 7] = [
    Ternary::Fma,
    Ternary::MulAdd,
    Ternary::MulAddWide,
    Ternary::Permute,
    Ternary::FunnelLeft,
    Ternary::FunnelRight,
    Ternary::Logic(0x96),
];

const COMPARISONS: [Cmp; 12] = [
    Cmp::Eq,
    Cmp::Ne,
    Cmp::Lt,
    Cmp::Le,
    Cmp::Gt,
    Cmp::Ge,
    Cmp::NeOrNan,
    Cmp::LtOrNan,
    Cmp::LeOrNan,
    Cmp::GtOrNan,
    Cmp::GeOrNan,
    Cmp::IsNan,
];

const ROUNDINGS: [Rounding; 9] = [
    Rounding::None,
    Rounding::Nearest,
    Rounding::Zero,
    Rounding::Down,
    Rounding::Up,
    Rounding::NearestInteger,
    Rounding::ZeroInteger,
    Rounding::DownInteger,
    Rounding::UpInteger,
];

const ATOMICS: [Atomic; 8] = [
    Atomic::Add,
    Atomic::Min,
    Atomic::Max,
    Atomic::And,
    Atomic::Or,
    Atomic::Xor,
    Atomic::Exchange,
    Atomic::CompareSwap,
];
