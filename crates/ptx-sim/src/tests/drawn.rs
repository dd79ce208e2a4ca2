//! Kernels of what 9.0 alone has, drawn by chance: each run ends, with what it did or with a fault, and one order has one end.

use std::collections::BTreeMap;

use super::{ORDERS, Order, variant_name};
use crate::{Cause, Launch, Machine, Swizzle, TensorMap, run};
use ptx_asm::{Builder, Class, Cmp, Guard, Inst, Kernel, Operand, Place, Reg, Regs, Special, Ty};

/// Registers and places that instructions are drawn with.
struct Drawn {
    chance: fastrand::Rng,
    /// An address of an array, one of the cluster, 0, and 1.
    words: Vec<Reg>,
    /// The map's address, and descriptors of the array.
    wide: Vec<Reg>,
    masks: Vec<Reg>,
    preds: Vec<Reg>,
    sums: Regs,
}

impl Drawn {
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

    /// Mostly a barrier, or mostly a tile.
    fn place(&mut self, array: u32) -> Place {
        match self.chance.u32(..12) {
            0 => Place::at(self.word()),
            1 => Place::array(1 - array),
            2 => Place::array(array).plus(self.chance.i32(-20..2000)),
            _ => Place::array(array),
        }
    }

    fn inst(&mut self) -> Inst {
        let axes = if self.chance.u32(..20) == 0 { 3 } else { 2 };
        let at = |drawn: &mut Self| (0..axes).map(|_| Operand::from(drawn.chance.i32(-70..90))).collect();
        match self.chance.u32(..22) {
            0 => Inst::BarrierInit { at: self.place(0), count: self.chance.u32(..3) },
            1 => Inst::BarrierInitFence,
            2 => Inst::Arrive { at: self.place(0) },
            3 => Inst::ArriveCluster { at: Place::at(self.word()) },
            4 => Inst::ArriveExpect { at: self.place(0), bytes: self.one(&[0, 1024, (1 << 20) - 1]) },
            5 | 6 => {
                Inst::BarrierWait { at: self.place(0), parity: self.word(), cluster: self.chance.bool() }
            }
            7 => {
                Inst::MapShared { dst: self.words[1], at: self.place(0), block: self.chance.u32(..3).into() }
            }
            8 => Inst::ClusterBarrier,
            9 | 10 => Inst::FenceAsync,
            11 | 12 => Inst::LoadTile {
                map: self.wide(),
                at: at(self),
                to: self.place(1),
                barrier: self.place(0),
                multicast: if self.chance.bool() { Some(self.masks[self.chance.usize(..3)]) } else { None },
            },
            13 => Inst::StoreTile { map: self.wide(), at: at(self), from: self.place(1) },
            14 => Inst::StoreTileCommit,
            15 => Inst::StoreTileWait { left: self.chance.u32(..2) },
            16 => Inst::SetMaxRegisters { count: self.one(&[24, 240, 256, 7]), increase: self.chance.bool() },
            17 => Inst::WarpgroupFence,
            18 => Inst::WarpgroupCommit,
            19 => Inst::WarpgroupWait { left: self.chance.u32(..2) },
            20 => Inst::WarpgroupMma {
                factor: self.one(&[Ty::F16, Ty::Bf16, Ty::F32, Ty::S8]),
                columns: self.one(&[8, 8, 16]),
                d: self.sums.clone(),
                a: self.wide(),
                b: self.wide(),
                transposed: [self.chance.bool(), self.chance.bool()],
                accumulate: self.preds[1],
            },
            _ => {
                let from = (0..4).map(|_| self.word()).collect();
                Inst::StoreMatrix { from, to: self.place(1) }
            }
        }
    }
}

fn kernel(seed: u64) -> Kernel {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut b = Builder::new("drawn", 1, 128);
    b.cluster(chance.u32(..3));
    b.tensor_map();
    b.shared(8, 8);
    let tile = b.shared(2048, 1024);
    let map = b.map_address(0);
    let address = b.address(ptx_asm::Space::Shared, tile);
    let words =
        vec![address, b.moved(Class::B32, 0_u32), b.moved(Class::B32, 0_u32), b.moved(Class::B32, 1_u32)];
    let swizzle = chance.u64(..4) << 62;
    let wide = vec![map, map, b.moved(Class::B64, (1024 >> 4) | (1024 >> 4) << 32 | swizzle)];
    let masks = [1_u32, 3, 6].map(|mask| b.moved(Class::B16, mask)).into();
    let thread = b.special(Special::Thread);
    let first = b.compare(Cmp::Eq, Ty::U32, thread, 0_u32);
    let preds = vec![first, b.moved(Class::Pred, 1_u32)];
    let sums = (0..4).map(|_| b.moved(Class::F32, 0_u32)).collect();
    let mut drawn = Drawn { chance, words, wide, masks, preds, sums };
    // Most begin well.
    if drawn.chance.u32(..4) > 0 {
        b.push_when(Guard::on(first), Inst::BarrierInit { at: Place::array(0), count: 1 });
        b.push_when(Guard::on(first), Inst::BarrierInitFence);
        b.push(Inst::ClusterBarrier);
    }
    for _ in 0..drawn.chance.u32(..10) {
        let inst = drawn.inst();
        let guard = drawn.preds[drawn.chance.usize(..2)];
        b.push_when(Guard { pred: guard, when: true }, inst);
    }
    b.finish()
}

fn end(kernel: &Kernel, order: Order) -> Result<Vec<u8>, Cause> {
    let mut machine = Machine::new();
    let tensor = machine.put("tensor", vec![1; 128 * 64]);
    let maps = [TensorMap {
        address: tensor.address(),
        element: 2,
        sizes: vec![64, 64],
        strides: vec![128],
        tile: vec![64, 8],
        swizzle: Swizzle::Bytes128,
    }];
    let params = [tensor.address()];
    let launch = Launch { limit: 2000, ..Launch::new(4, &params).with_maps(&maps) };
    run(kernel, &launch, &mut machine, order).map_err(|fault| {
        assert!(!fault.to_string().is_empty());
        *fault.cause
    })?;
    Ok(machine.bytes(tensor).to_vec())
}

#[test]
fn drawn_kernels_end() {
    let mut ends = BTreeMap::<&str, u32>::new();
    for seed in 0..1500 {
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
