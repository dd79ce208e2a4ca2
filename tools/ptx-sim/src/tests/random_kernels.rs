//! Random kernels of sm_90a instructions: every run ends, and equal orders give equal outcomes.

use std::collections::BTreeMap;

use super::{ExecutionOrder, ORDERS, variant_name};
use crate::{FaultCause, SimLaunch, SimTensorMap, SimulatedGpu, Swizzle, run};
use ptx_asm::{
    AddressOperand, CmpOp, GuardPredicate, Inst, PtxBuilder, PtxKernel, PtxOperand, Reg, RegClass, Regs,
    SpecialReg, Ty,
};

/// The registers and addresses that random instructions use.
struct InstSampler {
    chance: fastrand::Rng,
    /// An address of an array, an address in the cluster, 0, and 1.
    words: Vec<Reg>,
    /// The tensor map's address, and matrix descriptors of the array.
    wide: Vec<Reg>,
    masks: Vec<Reg>,
    preds: Vec<Reg>,
    sums: Regs,
}

impl InstSampler {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.chance.usize(..of.len())]
    }

    fn word(&mut self) -> Reg {
        let words = self.words.clone();
        self.one(&words)
    }

    fn wide(&mut self) -> Reg {
        let wide = self.wide.clone();
        self.one(&wide)
    }

    /// An address, mostly the beginning of array `array`: 0 for the mbarrier, 1 for the tile.
    fn place(&mut self, array: u32) -> AddressOperand {
        match self.chance.u32(..12) {
            0 => AddressOperand::at(self.word()),
            1 => AddressOperand::array(1 - array),
            2 => AddressOperand::array(array).plus(self.chance.i32(-20..2000)),
            _ => AddressOperand::array(array),
        }
    }

    fn inst(&mut self) -> Inst {
        let axes = if self.chance.u32(..20) == 0 { 3 } else { 2 };
        let at =
            |sampler: &mut Self| (0..axes).map(|_| PtxOperand::from(sampler.chance.i32(-70..90))).collect();
        match self.chance.u32(..22) {
            0 => Inst::MbarrierInit { at: self.place(0), count: self.chance.u32(..3) },
            1 => Inst::FenceMbarrierInit,
            2 => Inst::MbarrierArrive { at: self.place(0) },
            3 => Inst::MbarrierArriveCluster { at: AddressOperand::at(self.word()) },
            4 => {
                Inst::MbarrierArriveExpectTx { at: self.place(0), bytes: self.one(&[0, 1024, (1 << 20) - 1]) }
            }
            5 | 6 => {
                Inst::MbarrierWait { at: self.place(0), parity: self.word(), cluster: self.chance.bool() }
            }
            7 => Inst::Mapa { dst: self.words[1], at: self.place(0), block: self.chance.u32(..3).into() },
            8 => Inst::ClusterBarrier,
            9 | 10 => Inst::FenceProxyAsync,
            11 | 12 => Inst::TmaLoad {
                map: self.wide(),
                at: at(self),
                to: self.place(1),
                barrier: self.place(0),
                multicast: if self.chance.bool() { Some(self.masks[self.chance.usize(..3)]) } else { None },
            },
            13 => Inst::TmaStore { map: self.wide(), at: at(self), from: self.place(1) },
            14 => Inst::TmaStoreCommit,
            15 => Inst::TmaStoreWait { pending: self.chance.u32(..2) },
            16 => Inst::SetMaxRegisters { count: self.one(&[24, 240, 256, 7]), increase: self.chance.bool() },
            17 => Inst::WgmmaFence,
            18 => Inst::WgmmaCommit,
            19 => Inst::WgmmaWait { pending: self.chance.u32(..2) },
            20 => Inst::Wgmma {
                element: self.one(&[Ty::F16, Ty::Bf16, Ty::F32, Ty::S8]),
                columns: self.one(&[8, 8, 16]),
                d: self.sums.clone(),
                a: self.wide(),
                b: self.wide(),
                transposed: [self.chance.bool(), self.chance.bool()],
                accumulate: self.preds[1],
            },
            _ => {
                let from = (0..4).map(|_| self.word()).collect();
                Inst::Stmatrix { from, to: self.place(1) }
            }
        }
    }
}

fn kernel(seed: u64) -> PtxKernel {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut b = PtxBuilder::new("random", 1, 128);
    b.cluster(chance.u32(..3));
    b.tensor_map();
    b.shared(8, 8);
    let tile = b.shared(2048, 1024);
    let map = b.map_address(0);
    let address = b.address(ptx_asm::StateSpace::Shared, tile);
    let words =
        vec![address, b.mov(RegClass::B32, 0_u32), b.mov(RegClass::B32, 0_u32), b.mov(RegClass::B32, 1_u32)];
    let swizzle = chance.u64(..4) << 62;
    let wide = vec![map, map, b.mov(RegClass::B64, (1024 >> 4) | (1024 >> 4) << 32 | swizzle)];
    let masks = [1_u32, 3, 6].map(|mask| b.mov(RegClass::B16, mask)).into();
    let thread = b.special(SpecialReg::Thread);
    let first = b.compare(CmpOp::Eq, Ty::U32, thread, 0_u32);
    let preds = vec![first, b.mov(RegClass::Pred, 1_u32)];
    let sums = (0..4).map(|_| b.mov(RegClass::F32, 0_u32)).collect();
    let mut sampler = InstSampler { chance, words, wide, masks, preds, sums };
    // Most kernels begin with a valid prologue.
    if sampler.chance.u32(..4) > 0 {
        b.push_predicated(
            GuardPredicate::on(first),
            Inst::MbarrierInit { at: AddressOperand::array(0), count: 1 },
        );
        b.push_predicated(GuardPredicate::on(first), Inst::FenceMbarrierInit);
        b.push(Inst::ClusterBarrier);
    }
    for _ in 0..sampler.chance.u32(..10) {
        let inst = sampler.inst();
        let guard = sampler.preds[sampler.chance.usize(..2)];
        b.push_predicated(GuardPredicate { pred: guard, when: true }, inst);
    }
    b.finish()
}

fn end(kernel: &PtxKernel, order: ExecutionOrder) -> Result<Vec<u8>, FaultCause> {
    let mut gpu = SimulatedGpu::new();
    let tensor = gpu.put("tensor", vec![1; 128 * 64]);
    let maps = [SimTensorMap {
        address: tensor.address(),
        element: 2,
        sizes: vec![64, 64],
        strides: vec![128],
        tile: vec![64, 8],
        swizzle: Swizzle::Bytes128,
    }];
    let params = [tensor.address()];
    let launch = SimLaunch { limit: 2000, ..SimLaunch::new(4, &params).with_maps(&maps) };
    run(kernel, &launch, &mut gpu, order).map_err(|fault| {
        assert!(!fault.to_string().is_empty());
        *fault.cause
    })?;
    Ok(gpu.bytes(tensor).to_vec())
}

#[test]
fn random_kernels_end() {
    let mut ends = BTreeMap::<&str, u32>::new();
    for seed in random_programs::effort::seeds(400) {
        let kernel = kernel(seed);
        for order in &ORDERS[..2] {
            let found = end(&kernel, *order);
            assert_eq!(found, end(&kernel, *order), "{seed}");
            let name = match &found {
                Ok(_) => "ends",
                Err(cause) => variant_name(cause),
            };
            *ends.entry(name).or_default() += 1;
        }
    }
    let expected =
        ["Barrier", "Deadlock", "Malformed", "NoBarrier", "Outstanding", "Registers", "Tile", "ends"];
    assert!(expected.iter().all(|&end| ends.contains_key(end)), "{ends:?}");
}
