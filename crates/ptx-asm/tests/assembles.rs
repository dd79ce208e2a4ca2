//! NVIDIA's assembler accepts every instruction that the checker accepts, with every type, on every target.

use std::slice;

use codegen_testkit::{assembler::CudaTools, gpu};
use ptx_asm::{
    AddressOperand, AtomicOp, CmpOp, GuardPredicate, Inst, MmaShape, PtxBinaryOp, PtxBuilder, PtxKernel,
    PtxOperand, PtxProgram, PtxTernaryOp, PtxUnaryOp, Reg, RegClass, RoundingMode, ShuffleMode, SpecialReg,
    StateSpace, Target, Ty, check, print,
};
use smallvec::smallvec;

/// Combinations of instructions, types and operands. The checker accepts only some of them.
fn candidates() -> Vec<Inst> {
    let mut found = Vec::new();
    for &ty in Ty::ALL {
        let operands = |b: Reg| [PtxOperand::Reg(b), PtxOperand::Const(3)];
        let r = register(ty.class(), 0);
        for &op in PtxUnaryOp::ALL {
            for dst in [r, register(RegClass::B32, 0)] {
                found.push(Inst::Unary { op, ty, dst, src: r.into() });
            }
        }
        for &op in PtxBinaryOp::ALL {
            for b in operands(r).into_iter().chain(operands(register(RegClass::B32, 0))) {
                for dst in [r, register(RegClass::B32, 0), register(RegClass::B64, 0)] {
                    found.push(Inst::Binary { op, ty, dst, a: r.into(), b });
                }
            }
        }
        for &op in PtxTernaryOp::ALL {
            for c in operands(r).into_iter().chain(operands(register(RegClass::B64, 0))) {
                for dst in [r, register(RegClass::B64, 0)] {
                    found.push(Inst::Ternary { op, ty, dst, a: r.into(), b: 5_u32.into(), c });
                    found.push(Inst::Ternary { op, ty, dst, a: r.into(), b: r.into(), c });
                }
            }
        }
        let pred = register(RegClass::Pred, 0);
        for &cmp in CmpOp::ALL {
            for b in operands(r) {
                found.push(Inst::Compare { cmp, ty, dst: pred, a: r.into(), b });
            }
        }
        for a in operands(r) {
            found.push(Inst::Select { ty, dst: r, a, b: r.into(), pred });
            found.push(Inst::Move { dst: r, src: a });
        }
        for &from in Ty::ALL {
            for &rounding in RoundingMode::ALL {
                let src = register(from.class(), 0);
                found.push(Inst::Convert { to: ty, from, rounding, dst: r, src });
            }
        }
        for space in [StateSpace::Global, StateSpace::Shared, StateSpace::Local] {
            let base = register(if space == StateSpace::Global { RegClass::B64 } else { RegClass::B32 }, 0);
            for place in [
                AddressOperand::at(base),
                AddressOperand::at(base).plus(-32),
                AddressOperand::array(0),
                AddressOperand::array(0).plus(16),
            ] {
                for count in [1, 2, 4] {
                    for constant in [false, true] {
                        let dsts = (0..count).map(|n| register(ty.class(), n)).collect();
                        found.push(Inst::Load { space, ty, constant, dsts, from: place });
                    }
                    let srcs = (0..count).map(|n| register(ty.class(), n).into()).collect();
                    found.push(Inst::Store { space, ty, to: place, srcs });
                }
                found.push(Inst::Store { space, ty, to: place, srcs: smallvec![PtxOperand::Const(1)] });
                for &op in AtomicOp::ALL {
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
    found.extend(untyped());
    found
}

/// Instructions without a type operand.
fn untyped() -> Vec<Inst> {
    let [b16, b32, b64, f32] =
        [RegClass::B16, RegClass::B32, RegClass::B64, RegClass::F32].map(|class| register(class, 0));
    let mut found: Vec<Inst> = [SpecialReg::Thread, SpecialReg::Block, SpecialReg::Blocks, SpecialReg::Lane]
        .map(|special| Inst::ReadSpecial { dst: b32, special })
        .into();
    for space in [StateSpace::Shared, StateSpace::Local] {
        found.push(Inst::ArrayAddress { dst: b32, space, array: 1 });
    }
    found.push(Inst::LoadParam { dst: b64, param: 1 });
    for (whole, half) in [(b32, b16), (b64, b32), (b64, f32)] {
        found.push(Inst::Pack { dst: whole, halves: [half; 2] });
        let halves = [half, register(half.class, 1)];
        found.push(Inst::Unpack { halves, src: whole });
    }
    found.extend([(b32, f32), (f32, b32)].map(|(dst, src)| Inst::Move { dst, src: src.into() }));
    found.extend([None, Some(64)].map(|threads| Inst::Barrier { id: 3, threads }));
    found.push(Inst::WarpBarrier);
    for mode in [ShuffleMode::Up, ShuffleMode::Down, ShuffleMode::Xor, ShuffleMode::Index] {
        for (lane, width) in [(PtxOperand::Const(1), 32), (b32.into(), 8)] {
            found.push(Inst::Shuffle { mode, dst: f32, src: f32, lane, width });
        }
    }
    for count in [1, 2, 4] {
        for transposed in [false, true] {
            let dsts = (0..count).map(|n| register(RegClass::B32, n)).collect();
            found.push(Inst::Ldmatrix { transposed, dsts, from: AddressOperand::at(b32) });
        }
    }
    for shape in [MmaShape::F16K16, MmaShape::Bf16K16, MmaShape::Tf32K8] {
        let of = |class, count| (0..count).map(|n| register(class, n)).collect();
        let (d, c) = (of(RegClass::F32, 4), of(RegClass::F32, 4));
        found.push(Inst::Mma { shape, d, a: of(RegClass::B32, 4), b: of(RegClass::B32, 2), c });
    }
    for bytes in [4, 8, 16] {
        for read in [None, Some(b32)] {
            found.push(Inst::CpAsync {
                bytes,
                to: AddressOperand::at(b32),
                from: AddressOperand::at(b64),
                read,
            });
        }
    }
    found.extend([Inst::CpAsyncCommit, Inst::CpAsyncWait { pending: 0 }, Inst::CpAsyncWait { pending: 2 }]);
    found
}

/// Instructions of sm_90a that older targets lack, with valid and invalid operands.
fn hopper() -> Vec<Inst> {
    let [b16, b32, b64, pred] =
        [RegClass::B16, RegClass::B32, RegClass::B64, RegClass::Pred].map(|class| register(class, 0));
    let mut found = vec![
        Inst::ReadSpecial { dst: b32, special: SpecialReg::ClusterBlock },
        Inst::TensorMapAddress { dst: b64, map: 1 },
        Inst::PrefetchTensorMap { map: b64 },
        Inst::FenceMbarrierInit,
        Inst::ClusterBarrier,
        Inst::FenceProxyAsync,
        Inst::TmaStoreCommit,
        Inst::WgmmaFence,
        Inst::WgmmaCommit,
        Inst::MbarrierArriveCluster { at: AddressOperand::at(b32).plus(8) },
    ];
    for at in [
        AddressOperand::array(0),
        AddressOperand::array(1).plus(128),
        AddressOperand::at(b32),
        AddressOperand::at(b32).plus(-8),
    ] {
        found.push(Inst::MbarrierInit { at, count: 3 });
        found.push(Inst::MbarrierArrive { at });
        found.push(Inst::MbarrierArriveExpectTx { at, bytes: (1 << 20) - 1 });
        found.extend([false, true].map(|cluster| Inst::MbarrierWait { at, parity: b32, cluster }));
        found.extend([1_u32.into(), b32.into()].map(|block| Inst::Mapa { dst: b32, at, block }));
        for axes in 1..=5 {
            let place: Vec<PtxOperand> = (0..axes).map(|n| register(RegClass::B32, n % 4).into()).collect();
            for multicast in [None, Some(b16)] {
                let place = place.clone().into();
                found.push(Inst::TmaLoad { map: b64, at: place, to: at, barrier: at, multicast });
            }
            found.push(Inst::TmaStore { map: b64, at: place.into(), from: at });
        }
        let place = smallvec![PtxOperand::from(-3_i32), b32.into()];
        found.push(Inst::TmaStore { map: b64, at: place, from: at });
        for count in [1, 2, 4] {
            let from = (0..count).map(|n| register(RegClass::B32, n)).collect();
            found.push(Inst::Stmatrix { from, to: at });
        }
    }
    found.extend([0, 3].map(|pending| Inst::TmaStoreWait { pending }));
    for increase in [false, true] {
        found.extend([24, 40, 232, 256].map(|count| Inst::SetMaxRegisters { count, increase }));
    }
    found.extend([0, 1, 7].map(|pending| Inst::WgmmaWait { pending }));
    for element in [Ty::F16, Ty::Bf16, Ty::F32] {
        for columns in [8, 16, 24, 64, 128, 192, 248, 256] {
            for transposed in [[false, false], [false, true], [true, false], [true, true]] {
                let d = (0..columns / 2).map(|n| register(RegClass::F32, n)).collect();
                let [a, b] = [b64, register(RegClass::B64, 1)];
                found.push(Inst::Wgmma { element, columns, d, a, b, transposed, accumulate: pred });
            }
        }
    }
    found
}

fn register(class: RegClass, number: u32) -> Reg {
    Reg { class, number }
}

/// A kernel that initializes four registers of every class and then executes `insts`.
fn with(name: String, insts: &[Inst]) -> PtxKernel {
    let mut b = PtxBuilder::new(name, 2, 64);
    for class in RegClass::ALL {
        for _ in 0..4 {
            b.mov(class, 0_u32);
        }
    }
    for _ in 0..2 {
        b.shared(256, 16);
        b.local(256, 16);
    }
    insts.iter().for_each(|inst| b.push(inst.clone()));
    b.finish()
}

/// Like [`with`], for sm_90a: accumulators for the largest `wgmma`, tensor maps, and clusters of two blocks.
fn with_hopper(name: String, guarded: bool, insts: &[Inst]) -> PtxKernel {
    let mut b = PtxBuilder::new(name, 2, 128);
    b.cluster(2);
    b.min_blocks_per_sm(1);
    for class in RegClass::ALL {
        for _ in 0..if class == RegClass::F32 { 128 } else { 4 } {
            b.mov(class, 0_u32);
        }
    }
    for _ in 0..2 {
        b.tensor_map();
        b.shared(1024, 128);
    }
    for inst in insts {
        if guarded {
            b.push_predicated(GuardPredicate::on(register(RegClass::Pred, 1)), inst.clone());
        } else {
            b.push(inst.clone());
        }
    }
    b.finish()
}

#[test]
fn accepted_instructions_assemble() {
    let Some(tools) = gpu::or_skip("accepted_instructions_assemble", CudaTools::find()) else { return };
    for target in Target::ALL {
        let module = |kernels| PtxProgram { target, kernels };
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
fn hopper_instructions_assemble_for_hopper_only() {
    let Some(tools) = gpu::or_skip("hopper_instructions_assemble_for_hopper_only", CudaTools::find()) else {
        return;
    };
    let module = |target, kernels| PtxProgram { target, kernels };
    let mut accepted = Vec::new();
    for inst in hopper() {
        let alone = with_hopper("alone".into(), false, slice::from_ref(&inst));
        for older in [Target::Sm70, Target::Sm80] {
            let kernel = PtxKernel { cluster: 1, maps: 0, ..alone.clone() };
            let error = check(&module(older, vec![kernel]))
                .expect_err("the target lacks the instruction")
                .to_string();
            let is_about_target =
                error.ends_with(&format!("it takes sm_90a, the target is {}", older.name()));
            assert!(is_about_target, "{error}");
        }
        if check(&module(Target::Sm90a, vec![alone])).is_ok() {
            accepted.push(inst);
        }
    }
    // The checker rejects `wgmma` of tf32 with an operand that is not K-major, and misaligned addresses.
    assert!(accepted.len() > 180, "only {} instructions", accepted.len());
    let kernels = accepted.chunks(32).enumerate().flat_map(|(at, insts)| {
        [false, true].map(|guarded| with_hopper(format!("kernel{at}_{guarded}"), guarded, insts))
    });
    let module = module(Target::Sm90a, kernels.collect());
    assert_eq!(check(&module), Ok(()));
    if let Err(said) = tools.accepts(&print(&module), "sm_90a") {
        panic!("{said}");
    }
}

#[test]
fn shared_memory_beyond_the_static_limit() {
    let Some(tools) = gpu::or_skip("shared_memory_beyond_the_static_limit", CudaTools::find()) else {
        return;
    };
    let mut b = PtxBuilder::new("large", 1, 64);
    let (_, second) = (b.shared(40 << 10, 128), b.shared(40 << 10, 128));
    let value = b.load(StateSpace::Shared, Ty::F32, false, AddressOperand::array(second).plus(4));
    let to = b.param(0);
    b.store(StateSpace::Global, Ty::F32, AddressOperand::at(to), value);
    let kernel = b.finish();
    assert_eq!((kernel.shared_layout(), kernel.dynamic_shared_bytes()), (vec![0, 40 << 10], 80 << 10));
    let module = PtxProgram { target: Target::Sm80, kernels: vec![kernel] };
    assert_eq!(check(&module), Ok(()));
    let made = tools.assemble(&print(&module), "sm_80").unwrap_or_else(|said| panic!("{said}"));
    assert_eq!(made["large"].count("LDS"), 1);
}
