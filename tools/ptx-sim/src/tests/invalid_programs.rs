//! Random programs, mostly invalid: every run ends, with statistics or a fault.

use super::{ExecutionOrder, ORDERS, variant_name};
use crate::{FaultCause, KernelStats, SimLaunch, SimulatedGpu, arith, convert, run};
use ptx_asm::{
    AddressBase, AddressOperand, ArrayDecl, AtomicOp, CmpOp, GuardPredicate, Inst, MmaShape, PtxBinaryOp,
    PtxKernel, PtxOperand, PtxStmt, PtxTernaryOp, PtxUnaryOp, Reg, RegClass, RoundingMode, ShuffleMode,
    SpecialReg, StateSpace, StmtList, Ty,
};

/// Generates kernels that are mostly well typed.
struct KernelSampler {
    chance: fastrand::Rng,
}

/// Number of registers per class that the kernel writes at its beginning. Instructions also use one further
/// register per class, which the beginning does not write.
const REGISTERS: u32 = 3;

impl KernelSampler {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.chance.usize(..of.len())]
    }

    /// True with probability `1 / times`.
    fn rarely(&mut self, times: u32) -> bool {
        self.chance.u32(..times) == 0
    }

    fn reg(&mut self, class: RegClass) -> Reg {
        let class = if self.rarely(200) { self.one(&RegClass::ALL) } else { class };
        let number = if self.rarely(200) { REGISTERS } else { self.chance.u32(..REGISTERS) };
        Reg { class, number }
    }

    fn operand(&mut self, ty: Ty) -> PtxOperand {
        match self.chance.u32(..4) {
            0 => PtxOperand::Const(self.chance.u64(..) >> self.chance.u32(..64)),
            _ => self.reg(ty.class()).into(),
        }
    }

    fn place(&mut self, space: StateSpace) -> AddressOperand {
        let offset = if self.rarely(20) { self.chance.i32(..) } else { 16 * self.chance.i32(0..4) };
        let base = match space {
            StateSpace::Global => AddressBase::Reg(Reg { class: RegClass::B64, number: 0 }),
            _ if self.rarely(4) => AddressBase::Reg(self.reg(RegClass::B32)),
            _ => AddressBase::Array(u32::from(self.rarely(30))),
        };
        AddressOperand { base, offset }
    }

    fn space(&mut self) -> StateSpace {
        self.one(&[StateSpace::Global, StateSpace::Shared, StateSpace::Local])
    }

    fn count(&mut self) -> usize {
        self.one(&[1, 1, 2, 4, 4, 3])
    }

    fn regs(&mut self, class: RegClass, count: usize) -> ptx_asm::Regs {
        (0..count).map(|_| self.reg(class)).collect()
    }

    /// An instruction that usually exists for its types.
    fn inst(&mut self) -> Inst {
        loop {
            let inst = self.any_inst();
            if exists(&inst) || self.rarely(100) {
                return inst;
            }
        }
    }

    fn any_inst(&mut self) -> Inst {
        let ty = self.one(Ty::ALL);
        let [a, b, c] = [self.operand(ty), self.operand(ty), self.operand(ty)];
        let (dst, space, count) = (self.reg(ty.class()), self.space(), self.count());
        let (pred, word, other) =
            (self.reg(RegClass::Pred), self.reg(RegClass::B32), self.reg(RegClass::B32));
        match self.chance.u32(..30) {
            0 => Inst::Move { dst, src: a },
            1 => Inst::ReadSpecial {
                dst: word,
                special: self.one(&[SpecialReg::Thread, SpecialReg::Block, SpecialReg::Lane]),
            },
            2 => Inst::ArrayAddress { dst: word, space, array: 0 },
            3 => Inst::Pack { dst, halves: [word, other] },
            4 => Inst::Unpack { halves: [word, other], src: dst },
            5 => Inst::Unary { op: self.one(PtxUnaryOp::ALL), ty, dst, src: a },
            6..=8 => Inst::Binary { op: self.one(PtxBinaryOp::ALL), ty, dst, a, b },
            9 | 10 => Inst::Ternary { op: self.one(PtxTernaryOp::ALL), ty, dst, a, b, c },
            11 => Inst::Compare { cmp: self.one(CmpOp::ALL), ty, dst: pred, a, b },
            12 => Inst::Select { ty, dst, a, b, pred },
            13 | 14 => {
                let from = self.one(Ty::ALL);
                let src = self.reg(from.class());
                Inst::Convert { to: ty, from, rounding: self.one(RoundingMode::ALL), dst, src }
            }
            15 | 16 => {
                let (dsts, from) = (self.regs(ty.class(), count), self.place(space));
                Inst::Load { space, ty, constant: self.chance.bool(), dsts, from }
            }
            17 | 18 => {
                let srcs = (0..count).map(|_| self.operand(ty)).collect();
                Inst::Store { space, ty, to: self.place(space), srcs }
            }
            19 | 20 => {
                let op = self.one(AtomicOp::ALL);
                let operands = if op == AtomicOp::CompareSwap { vec![a, b] } else { vec![a] };
                let dst = self.chance.bool().then_some(dst);
                Inst::Atomic { space, op, ty, dst, at: self.place(space), operands: operands.into() }
            }
            21 | 22 => Inst::Barrier {
                id: self.one(&[0, 0, 1, 16]),
                threads: self.one(&[None, None, Some(32), Some(7)]),
            },
            23 | 24 => {
                let mode =
                    self.one(&[ShuffleMode::Up, ShuffleMode::Down, ShuffleMode::Xor, ShuffleMode::Index]);
                let lane = if self.rarely(4) { a } else { PtxOperand::Const(self.chance.u64(..8)) };
                Inst::Shuffle {
                    mode,
                    dst: word,
                    src: other,
                    lane,
                    width: self.one(&[8, 16, 32, 32, 0, 12, 64]),
                }
            }
            25 => {
                let dsts = self.regs(RegClass::B32, count);
                Inst::Ldmatrix { transposed: self.chance.bool(), dsts, from: self.place(StateSpace::Shared) }
            }
            26 => {
                let shape = self.one(&[MmaShape::F16K16, MmaShape::Bf16K16, MmaShape::Tf32K8]);
                let [d, c] = [self.regs(RegClass::F32, 4), self.regs(RegClass::F32, 4)];
                let right = if self.rarely(20) { 4 } else { 2 };
                Inst::Mma { shape, d, a: self.regs(RegClass::B32, 4), b: self.regs(RegClass::B32, right), c }
            }
            27 => {
                let (to, from) = (self.place(StateSpace::Shared), self.place(StateSpace::Global));
                let read = self.rarely(3).then_some(word);
                Inst::CpAsync { bytes: self.one(&[4, 8, 16, 16, 3]), to, from, read }
            }
            28 => Inst::CpAsyncCommit,
            _ => Inst::CpAsyncWait { pending: self.chance.u32(..3) },
        }
    }

    fn guard(&mut self) -> GuardPredicate {
        let warps = Reg { class: RegClass::Pred, number: 0 };
        GuardPredicate {
            pred: if self.chance.bool() { warps } else { self.reg(RegClass::Pred) },
            when: self.chance.bool(),
        }
    }

    fn block(&mut self, depth: u32) -> StmtList {
        let count = self.chance.usize(..5);
        (0..count)
            .map(|_| match self.chance.u32(..12) {
                0 if depth > 0 => PtxStmt::If {
                    guard: self.guard(),
                    then: self.block(depth - 1),
                    otherwise: self.block(depth - 1),
                },
                1 if depth > 0 => PtxStmt::Loop { body: self.block(depth - 1), repeat_while: self.guard() },
                // Barriers that warps reach on different paths.
                3 if depth > 0 => {
                    let guard = GuardPredicate::on(Reg { class: RegClass::Pred, number: 0 });
                    let [then, otherwise] = [(); 2].map(|()| {
                        let (id, threads) = (self.one(&[0, 0, 1]), self.one(&[None, Some(32)]));
                        vec![PtxStmt::Inst(Inst::Barrier { id, threads })]
                    });
                    PtxStmt::If { guard, then, otherwise }
                }
                2 => PtxStmt::Predicated(self.guard(), self.inst()),
                _ => PtxStmt::Inst(self.inst()),
            })
            .collect()
    }

    fn kernel(&mut self) -> PtxKernel {
        let mut body = StmtList::new();
        for class in RegClass::ALL {
            for number in 0..REGISTERS {
                let dst = Reg { class, number };
                body.push(PtxStmt::Inst(Inst::Move { dst, src: PtxOperand::Const(self.chance.u64(..)) }));
            }
        }
        let address = Reg { class: RegClass::B64, number: 0 };
        body.push(PtxStmt::Inst(Inst::LoadParam { dst: address, param: 0 }));
        body.push(PtxStmt::Inst(Inst::ReadSpecial {
            dst: Reg { class: RegClass::B32, number: 0 },
            special: SpecialReg::Thread,
        }));
        body.push(PtxStmt::Inst(Inst::Compare {
            cmp: CmpOp::Lt,
            ty: Ty::U32,
            dst: Reg { class: RegClass::Pred, number: 0 },
            a: Reg { class: RegClass::B32, number: 0 }.into(),
            b: self.one(&[0, 17, 32, 32, 32, 64_u32]).into(),
        }));
        for _ in 0..3 {
            body.extend(self.block(2));
        }
        let array = vec![ArrayDecl { bytes: 64, align: 16 }];
        let threads = self.one(&[1, 32, 64, 33]);
        PtxKernel {
            name: "random".into(),
            params: 1,
            shared: array.clone(),
            local: array,
            threads,
            body,
            ..PtxKernel::default()
        }
    }
}

/// Whether the simulator has the instruction, for registers of the right classes.
fn exists(inst: &Inst) -> bool {
    let fits = |ty: Ty, count: usize| count != 3 && (1..=16).contains(&(ty.bytes() * count as u32));
    match inst {
        Inst::Unary { op, ty, .. } => arith::unary(*op, *ty, 1).is_some(),
        Inst::Binary { op, ty, .. } => arith::binary(*op, *ty, 1, 1).is_some(),
        Inst::Ternary { op, ty, .. } => arith::ternary(*op, *ty, 1, 1, 1).is_some(),
        Inst::Compare { cmp, ty, .. } => arith::compare(*cmp, *ty, 1, 1).is_some(),
        Inst::Convert { to, from, rounding, .. } => convert::convert(*to, *from, *rounding, 1).is_some(),
        Inst::Load { space, ty, constant, dsts, .. } => {
            fits(*ty, dsts.len()) && (!constant || *space == StateSpace::Global)
        }
        Inst::Store { ty, srcs, .. } => fits(*ty, srcs.len()),
        Inst::Atomic { space, op, ty, operands, .. } => {
            let values = vec![1; operands.len()];
            *space != StateSpace::Local && arith::atomic(*op, *ty, *space, 1, &values).is_some()
        }
        Inst::Barrier { id, threads } => *id < 16 && *threads != Some(7),
        Inst::Shuffle { width, .. } => width.is_power_of_two() && *width <= 32,
        Inst::Ldmatrix { dsts, .. } => dsts.len() != 3,
        Inst::CpAsync { bytes, .. } => *bytes != 3,
        _ => true,
    }
}

fn outcome(kernel: &PtxKernel, order: ExecutionOrder) -> Result<(Vec<u8>, KernelStats), FaultCause> {
    let mut gpu = SimulatedGpu::new();
    let x = gpu.put("x", (0..64).collect::<Vec<u8>>());
    let params = [x.address()];
    let launch = SimLaunch { limit: 400, ..SimLaunch::new(2, &params) };
    let stats = run(kernel, &launch, &mut gpu, order).map_err(|fault| {
        assert!(!fault.to_string().is_empty());
        *fault.cause
    })?;
    Ok((gpu.bytes(x).to_vec(), stats))
}

/// Random kernels have the same outcome whenever they run in the same order. Among their outcomes are success
/// and the common kinds of fault.
#[test]
fn random_kernels_end() {
    let mut sampler = KernelSampler { chance: fastrand::Rng::with_seed(2) };
    let mut ends = std::collections::BTreeMap::<&str, u32>::new();
    for _ in 0..1500 {
        let kernel = sampler.kernel();
        for order in &ORDERS[..2] {
            let end = outcome(&kernel, *order);
            assert_eq!(end, outcome(&kernel, *order));
            let name = match &end {
                Ok(_) => "ends",
                Err(cause) => variant_name(cause),
            };
            *ends.entry(name).or_default() += 1;
        }
    }
    let expected = [
        "BarrierSize",
        "Clash",
        "CopySize",
        "Deadlock",
        "Limit",
        "Malformed",
        "Misaligned",
        "OutOfBounds",
        "PartialWarp",
        "Race",
        "ShuffleLane",
        "UnderWay",
        "Uninitialized",
        "UnwrittenRegister",
        "ends",
    ];
    assert!(expected.iter().all(|&end| ends.contains_key(end)), "{ends:?}");
}
