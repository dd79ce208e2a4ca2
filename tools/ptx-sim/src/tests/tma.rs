//! TMA: the layout of tiles, elements outside the tensor, and synchronization.

use super::{ExecutionOrder, FaultCause};
use crate::{KernelStats, SimFault, SimLaunch, SimTensorMap, SimulatedGpu, Swizzle, run};
use ptx_asm::{
    AddressOperand, CmpOp, GuardPredicate, Inst, PtxBuilder, PtxKernel, PtxOperand, RegClass, SpecialReg,
    StateSpace, Ty,
};

const ORDERS: [ExecutionOrder; 4] = super::ORDERS;

/// A tensor of numbered bytes with these sizes and strides, and elements of `element` bytes.
#[derive(Clone)]
struct TestTensor {
    element: u32,
    sizes: Vec<u64>,
    strides: Vec<u64>,
    tile: Vec<u32>,
    swizzle: Swizzle,
}

fn byte(at: usize) -> u8 {
    (at * 31 % 251) as u8 + 1
}

/// Rows of 96 16-bit elements, of which the tensor has 80.
fn rows(tile: [u32; 2], swizzle: Swizzle) -> TestTensor {
    TestTensor { element: 2, sizes: vec![80, 40], strides: vec![192], tile: tile.into(), swizzle }
}

impl TestTensor {
    fn map(&self, address: u64) -> SimTensorMap {
        SimTensorMap {
            address,
            element: self.element,
            sizes: self.sizes.clone(),
            strides: self.strides.clone(),
            tile: self.tile.clone(),
            swizzle: self.swizzle,
        }
    }

    fn line(&self) -> usize {
        (self.tile[0] * self.element) as usize
    }

    fn tile_bytes(&self) -> usize {
        self.line() * self.tile[1..].iter().product::<u32>() as usize
    }

    /// Offset of a tile's byte in the tensor's buffer; `None` outside the tensor.
    fn source(&self, at: &[i32], byte: usize) -> Option<usize> {
        let (line, within) = (byte / self.line(), byte % self.line());
        let mut place = within / self.element as usize;
        let mut left = line;
        let mut source = within % self.element as usize;
        for (axis, (&tile, &at)) in self.tile.iter().zip(at).enumerate() {
            if axis > 0 {
                place = left % tile as usize;
                left /= tile as usize;
            }
            let index = i64::from(at) + place as i64;
            let index = u64::try_from(index).ok().filter(|&index| index < self.sizes[axis])?;
            let stride = if axis == 0 { u64::from(self.element) } else { self.strides[axis - 1] };
            source += (index * stride) as usize;
        }
        Some(source)
    }

    /// Offset of a tile's byte in shared memory, for rows as long as the swizzle span.
    fn place(&self, byte: usize) -> usize {
        let (line, chunk, rest) = (byte / self.line(), byte % self.line() / 16, byte % 16);
        let chunk = match self.swizzle {
            Swizzle::None => chunk,
            Swizzle::Bytes32 => chunk ^ (line / 4 % 2),
            Swizzle::Bytes64 => chunk ^ (line / 2 % 4),
            Swizzle::Bytes128 => chunk ^ (line % 8),
        };
        line * self.line() + chunk * 16 + rest
    }
}

fn only_first(b: &mut PtxBuilder, write: impl FnOnce(&mut PtxBuilder)) {
    let thread = b.special(SpecialReg::Thread);
    let first = b.compare(CmpOp::Eq, Ty::U32, thread, 0_u32);
    b.when(GuardPredicate::on(first), write);
}

fn coordinates(at: &[i32]) -> smallvec::SmallVec<[PtxOperand; 4]> {
    at.iter().map(|&at| PtxOperand::from(at)).collect()
}

/// A kernel of 32 threads with one tensor map. `load` issues loads; all threads execute `then` with the
/// tile's array and its mbarrier.
fn loads(
    bytes: usize,
    load: impl FnOnce(&mut PtxBuilder, AddressOperand, AddressOperand),
    then: impl FnOnce(&mut PtxBuilder, u32, AddressOperand),
) -> PtxKernel {
    let mut b = PtxBuilder::new("tiles", 1, 32);
    b.tensor_map();
    let (tile, full) = (b.shared(bytes as u32, 1024), AddressOperand::array(b.shared(8, 8)));
    only_first(&mut b, |b| {
        b.push(Inst::MbarrierInit { at: full, count: 1 });
        b.push(Inst::FenceMbarrierInit);
        load(b, AddressOperand::array(tile), full);
    });
    b.barrier();
    then(&mut b, tile, full);
    b.finish()
}

fn load(b: &mut PtxBuilder, at: &[i32], to: AddressOperand, full: AddressOperand, bytes: usize) {
    let map = b.map_address(0);
    b.push(Inst::MbarrierArriveExpectTx { at: full, bytes: bytes as u32 });
    b.push(Inst::TmaLoad { map, at: coordinates(at), to, barrier: full, multicast: None });
}

fn wait(b: &mut PtxBuilder, at: AddressOperand) {
    let parity = b.mov(RegClass::B32, 0_u32);
    b.push(Inst::MbarrierWait { at, parity, cluster: false });
}

/// Copies an array to the output, word by word.
fn copy_out(b: &mut PtxBuilder, array: u32, bytes: usize) {
    let (thread, base, out) =
        (b.special(SpecialReg::Thread), b.address(StateSpace::Shared, array), b.param(0));
    for first in (0..bytes / 4).step_by(32) {
        let word = b.add(Ty::U32, thread, first as u32);
        let from = b.mul_add(Ty::U32, word, 4_u32, base);
        let value = b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::at(from));
        let to = b.mul_add_wide(Ty::U32, word, 4_u32, out);
        b.store(StateSpace::Global, Ty::B32, AddressOperand::at(to), value);
    }
}

fn outcome(
    kernel: &PtxKernel,
    tensor: &TestTensor,
    order: ExecutionOrder,
) -> Result<(Vec<u8>, KernelStats), SimFault> {
    let mut gpu = SimulatedGpu::new();
    let bytes: Vec<u8> = (0..192 * 40).map(byte).collect();
    let map = tensor.map(gpu.put("tensor", bytes).address());
    let out = gpu.reserve("out", 1 << 14);
    let launch = SimLaunch { limit: 1 << 16, ..SimLaunch::new(1, &[0]) };
    let params = [out.address()];
    let maps = [map];
    let launch = SimLaunch { params: &params, maps: &maps, ..launch };
    let stats = run(kernel, &launch, &mut gpu, order)?;
    Ok((gpu.bytes(out).to_vec(), stats))
}

fn cause(kernel: &PtxKernel, tensor: &TestTensor) -> FaultCause {
    *outcome(kernel, tensor, ExecutionOrder::Sequential).expect_err("it is wrong").cause
}

#[test]
fn tiles_lie_as_the_map_says() {
    let cubes = || TestTensor {
        element: 4,
        sizes: vec![12, 3, 4],
        strides: vec![192, 192 * 5],
        tile: vec![8, 2, 4],
        swizzle: Swizzle::Bytes32,
    };
    let cases = [
        (rows([64, 24], Swizzle::Bytes128), vec![16, 3]),
        (rows([64, 24], Swizzle::Bytes128), vec![40, 30]),
        (rows([32, 16], Swizzle::Bytes64), vec![-5, -3]),
        (rows([16, 16], Swizzle::Bytes32), vec![73, 7]),
        (rows([72, 8], Swizzle::None), vec![-1, 38]),
        (rows([64, 8], Swizzle::Bytes128), vec![200, 0]),
        (TestTensor { element: 1, ..rows([48, 16], Swizzle::None) }, vec![33, 0]),
        (cubes(), vec![1, 2, 3]),
        (cubes(), vec![6, -1, -2]),
    ];
    for (tensor, at) in cases {
        let bytes = tensor.tile_bytes();
        let k = loads(
            bytes,
            |b, to, full| load(b, &at, to, full, bytes),
            |b, tile, full| {
                wait(b, full);
                copy_out(b, tile, bytes);
            },
        );
        let (mut expected, mut sectors) = (vec![0; bytes], std::collections::BTreeSet::new());
        for i in 0..bytes {
            if let Some(source) = tensor.source(&at, i) {
                expected[tensor.place(i)] = byte(source);
                sectors.insert(source / 32);
            }
        }
        let inside = expected.iter().filter(|&&byte| byte != 0).count() as u64;
        for order in ORDERS {
            let (found, stats) = outcome(&k, &tensor, order).unwrap_or_else(|fault| panic!("{fault}"));
            assert_eq!(found[..bytes], expected, "{at:?}");
            let counted = (stats.count("tmaload"), stats.bytes("tmaload"), stats.sectors("tmaload"));
            assert_eq!(counted, (1, inside, sectors.len() as u64));
        }
    }
}

#[test]
fn loads_are_waited_for() {
    let (tensor, bytes) = (rows([64, 8], Swizzle::Bytes128), 1024);
    let k = |waits: bool, reads: bool| {
        loads(
            bytes,
            |b, to, full| load(b, &[0, 0], to, full, bytes),
            |b, tile, full| {
                if waits {
                    wait(b, full);
                }
                if reads {
                    b.load(StateSpace::Shared, Ty::B32, false, AddressOperand::array(tile));
                }
            },
        )
    };
    assert!(outcome(&k(true, true), &tensor, ExecutionOrder::Sequential).is_ok());
    for order in ORDERS {
        let found = *outcome(&k(false, true), &tensor, order).expect_err("no thread waits").cause;
        assert!(
            matches!(found, FaultCause::PendingCopy { owner: 0, .. } | FaultCause::Race { .. }),
            "{found}"
        );
        let found = *outcome(&k(false, false), &tensor, order).expect_err("no thread waits").cause;
        assert!(matches!(found, FaultCause::Outstanding(_)), "{found}");
    }
}

#[test]
fn threads_fence_what_they_wrote_before_tiles_come() {
    let (tensor, bytes) = (rows([64, 8], Swizzle::Bytes128), 1024);
    let k = |fence: bool| {
        loads(
            bytes,
            |b, to, full| {
                b.store(StateSpace::Shared, Ty::B32, to.plus(512), 1_u32);
                if fence {
                    b.push(Inst::FenceProxyAsync);
                }
                load(b, &[0, 0], to, full, bytes);
            },
            |b, _, full| wait(b, full),
        )
    };
    assert!(outcome(&k(true), &tensor, ExecutionOrder::Sequential).is_ok());
    assert!(matches!(cause(&k(false), &tensor), FaultCause::Unfenced { .. }));
}

#[test]
fn loads_that_do_not_fit() {
    let tensor = rows([64, 8], Swizzle::Bytes128);
    let with = |load: fn(&mut PtxBuilder, AddressOperand, AddressOperand)| {
        loads(2048, load, |b, _, full| wait(b, full))
    };
    // The swizzle applies to address bits, so tiles must be aligned to its period.
    let between = with(|b, to, full| load(b, &[0, 0], to.plus(512), full, 1024));
    assert!(matches!(cause(&between, &tensor), FaultCause::Misaligned { align: 1024, .. }));
    let beyond = with(|b, to, full| load(b, &[0, 0], to.plus(2048), full, 1024));
    assert!(matches!(cause(&beyond, &tensor), FaultCause::OutOfBounds { .. }));
    let axes = with(|b, to, full| load(b, &[0], to, full, 1024));
    assert!(matches!(cause(&axes, &tensor), FaultCause::InvalidTile(_)));
    let no_map = with(|b, to, full| {
        let map = b.mov(RegClass::B64, 5_u64);
        b.push(Inst::TmaLoad { map, at: coordinates(&[0, 0]), to, barrier: full, multicast: None });
    });
    assert!(matches!(cause(&no_map, &tensor), FaultCause::InvalidTile(_)));
    let no_barrier = with(|b, to, _| {
        let map = b.map_address(0);
        b.push(Inst::TmaLoad { map, at: coordinates(&[0, 0]), to, barrier: to, multicast: None });
    });
    assert!(matches!(cause(&no_barrier, &tensor), FaultCause::NoBarrier { .. }));
    let onto_another = with(|b, to, full| {
        load(b, &[0, 0], to, full, 2048);
        let map = b.map_address(0);
        b.push(Inst::TmaLoad { map, at: coordinates(&[0, 0]), to, barrier: full, multicast: None });
    });
    assert!(matches!(cause(&onto_another, &tensor), FaultCause::PendingCopy { .. }));
    // A tensor map beyond the end of the buffer.
    let right = with(|b, to, full| load(b, &[0, 36], to, full, 1024));
    assert!(outcome(&right, &tensor, ExecutionOrder::Sequential).is_ok());
    let large = TestTensor { sizes: vec![80, 100], ..rows([64, 8], Swizzle::Bytes128) };
    assert!(matches!(cause(&right, &large), FaultCause::OutOfBounds { .. }));
    for wrong in [
        TestTensor { strides: vec![200], ..rows([64, 8], Swizzle::Bytes128) },
        rows([128, 8], Swizzle::Bytes128),
        rows([32, 8], Swizzle::Bytes128),
        rows([4, 8], Swizzle::None),
        TestTensor { tile: vec![64], ..rows([64, 8], Swizzle::Bytes128) },
        rows([64, 257], Swizzle::Bytes128),
        TestTensor { element: 3, ..rows([64, 8], Swizzle::None) },
    ] {
        assert!(matches!(cause(&right, &wrong), FaultCause::Malformed(_)));
    }
    let mut gpu = SimulatedGpu::new();
    let none =
        run(&right, &SimLaunch::new(1, &[0]), &mut gpu, ExecutionOrder::Sequential).expect_err("no map");
    assert!(matches!(*none.cause, FaultCause::Malformed(_)));
}

#[test]
fn sources_do_not_change_in_flight() {
    let tensor = rows([64, 8], Swizzle::Bytes128);
    let k = |waits: bool| {
        loads(
            1024,
            |b, to, full| {
                load(b, &[0, 0], to, full, 1024);
                if waits {
                    wait(b, full);
                }
                // Parameter 0 is the output; the tensor lies before it.
                let out = b.param(0);
                let address =
                    b.binary(ptx_asm::PtxBinaryOp::Sub, Ty::U64, out, PtxOperand::Const(7680 + 256));
                b.store(StateSpace::Global, Ty::B32, AddressOperand::at(address), 0_u32);
            },
            |b, _, full| wait(b, full),
        )
    };
    assert!(outcome(&k(true), &tensor, ExecutionOrder::Sequential).is_ok());
    assert!(matches!(cause(&k(false), &tensor), FaultCause::SourceChanged { .. }));
}

/// The synchronization that a variant of the store kernel lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MissingSync {
    Nothing,
    Fence,
    FenceOfOthers,
    Barrier,
    Commit,
    Wait,
    WaitBeforeWriting,
    BarrierBeforeWriting,
}

/// All threads write a tile, one thread stores it by TMA, and then all write it again.
fn stores(tensor: &TestTensor, at: &[i32], missing: MissingSync) -> PtxKernel {
    let bytes = tensor.tile_bytes();
    let mut b = PtxBuilder::new("tiles", 1, 64);
    b.tensor_map();
    let tile = b.shared(bytes as u32, 1024);
    let (thread, base) = (b.special(SpecialReg::Thread), b.address(StateSpace::Shared, tile));
    let write = |b: &mut PtxBuilder| {
        for first in (0..bytes / 4).step_by(64) {
            let word = b.add(Ty::U32, thread, first as u32);
            let to = b.mul_add(Ty::U32, word, 4_u32, base);
            let value = b.add(Ty::U32, word, 0x0101_0100_u32);
            b.store(StateSpace::Shared, Ty::B32, AddressOperand::at(to), value);
        }
    };
    write(&mut b);
    if missing != MissingSync::Fence && missing != MissingSync::FenceOfOthers {
        b.push(Inst::FenceProxyAsync);
    }
    if missing != MissingSync::Barrier {
        b.barrier();
    }
    only_first(&mut b, |b| {
        if missing == MissingSync::FenceOfOthers {
            b.push(Inst::FenceProxyAsync);
        }
        let map = b.map_address(0);
        b.push(Inst::TmaStore { map, at: coordinates(at), from: AddressOperand::array(tile) });
        if missing != MissingSync::Commit {
            b.push(Inst::TmaStoreCommit);
        }
        if !matches!(missing, MissingSync::Wait | MissingSync::WaitBeforeWriting) {
            b.push(Inst::TmaStoreWait { pending: 0 });
        }
    });
    if missing != MissingSync::Wait {
        if missing != MissingSync::BarrierBeforeWriting {
            b.barrier();
        }
        write(&mut b);
    }
    b.finish()
}

#[test]
fn tiles_are_stored() {
    let cases = [
        (rows([64, 16], Swizzle::Bytes128), vec![8, 2]),
        (rows([64, 16], Swizzle::Bytes128), vec![-8, 30]),
        (rows([32, 16], Swizzle::Bytes64), vec![71, -2]),
        (rows([64, 16], Swizzle::None), vec![3, 1]),
    ];
    for (tensor, at) in cases {
        let k = stores(&tensor, &at, MissingSync::Nothing);
        for order in ORDERS {
            let mut gpu = SimulatedGpu::new();
            let region = gpu.put("tensor", (0..192 * 40).map(byte).collect::<Vec<u8>>());
            let maps = [tensor.map(region.address())];
            let stats = run(&k, &SimLaunch::new(1, &[0]).with_maps(&maps), &mut gpu, order)
                .unwrap_or_else(|fault| panic!("{fault}"));
            let mut expected: Vec<u8> = (0..192 * 40).map(byte).collect();
            let mut inside = 0;
            for i in 0..tensor.tile_bytes() {
                if let Some(to) = tensor.source(&at, i) {
                    let place = tensor.place(i);
                    expected[to] = (place as u32 / 4 + 0x0101_0100).to_le_bytes()[place % 4];
                    inside += 1;
                }
            }
            assert_eq!(gpu.bytes(region), expected, "{at:?}");
            assert_eq!(stats.bytes("tmastore"), inside);
        }
    }
}

#[test]
fn stores_are_waited_for() {
    let tensor = rows([64, 16], Swizzle::Bytes128);
    let found = |missing, order| {
        *outcome(&stores(&tensor, &[0, 0], missing), &tensor, order).expect_err("it is wrong").cause
    };
    for order in ORDERS {
        assert!(matches!(found(MissingSync::Fence, order), FaultCause::Unfenced { .. }));
        assert!(matches!(found(MissingSync::FenceOfOthers, order), FaultCause::Unfenced { .. }));
        let cause = found(MissingSync::Barrier, order);
        assert!(
            matches!(
                cause,
                FaultCause::Race { .. } | FaultCause::Uninitialized { .. } | FaultCause::Unfenced { .. }
            ),
            "{cause}"
        );
        assert!(matches!(found(MissingSync::Wait, order), FaultCause::Outstanding(_)));
        let cause = found(MissingSync::Commit, order);
        assert!(matches!(cause, FaultCause::PendingRead { .. }), "{cause}");
        let cause = found(MissingSync::WaitBeforeWriting, order);
        assert!(matches!(cause, FaultCause::PendingRead { .. }), "{cause}");
        let cause = found(MissingSync::BarrierBeforeWriting, order);
        assert!(
            matches!(
                cause,
                FaultCause::PendingRead { .. } | FaultCause::Race { .. } | FaultCause::Unfenced { .. }
            ),
            "{cause}"
        );
    }
}
