//! Matmuls in large register tiles without tensor cores: the exact bits of a block's outputs, and counts of
//! the instructions.
#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use codegen_ptx::{PtxOptions, Target, ptx};
use ptx_sim::{ExecutionOrder, KernelStats, SimLaunch, SimulatedGpu, run};
use scheduling::{ScheduleOptions, schedule};

/// Rows and columns of a large tile.
const TILE: usize = 128;

/// `c[m, n] := relu(a[m, k] · b[k, n] + bias[n])`, with operands plain or transposed.
struct TiledMatmul {
    m: usize,
    n: usize,
    k: usize,
    transposed: [bool; 2],
}

impl TiledMatmul {
    fn text(&self) -> String {
        let TiledMatmul { m, n, k, transposed } = self;
        let (a, a_at) = if transposed[0] { ([k, m], "i2, i0") } else { ([m, k], "i0, i2") };
        let (b, b_at) = if transposed[1] { ([n, k], "i1, i2") } else { ([k, n], "i2, i1") };
        format!(
            "routine @matmul fast {{
               node %0 \"a\" f32[{}, {}] on_device
               node %1 \"b\" f32[{}, {}] on_device
               node %2 \"c\" f32[{m}, {n}] on_device
               node %3 \"bias\" f32[{n}] on_device
               zero %2
               for i0 in 0..{m} {{ for i1 in 0..{n} {{ for i2 in 0..{k} {{
                 %2[i0, i1] := %2[i0, i1] + %0[{a_at}] * %1[{b_at}]
               }} }} }}
               for i3 in 0..{m} {{ for i4 in 0..{n} {{ %2[i3, i4] := relu(%2[i3, i4] + %3[i4]) }} }}
             }}",
            a[0], a[1], b[0], b[1]
        )
    }

    /// The element of an operand at a row or column and an index along `k`.
    fn at(&self, operand: usize, outer: usize, k: usize) -> usize {
        match (operand, self.transposed[operand]) {
            (0, false) | (1, true) => outer * self.k + k,
            (0, true) => k * self.m + outer,
            _ => k * self.n + outer,
        }
    }
}

fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 37 + seed * 11) % 101) as f32 / 16.0 - 3.0).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Runs the first block, and checks that its outputs have the bits of sums in the order of `k`.
fn first_block(matmul: &TiledMatmul, order: ExecutionOrder) -> KernelStats {
    let codegen = ptx(Target::Sm80, PtxOptions::default());
    let routine = lowered_ir::text::parse(&matmul.text()).unwrap();
    let scheduled = schedule(&routine, &codegen, &ScheduleOptions::default()).unwrap();
    let rendered = codegen.render(scheduled.kernels()).unwrap();
    let call = &scheduled.calls()[0];
    assert_eq!(rendered.launches[call.kernel].threads, 256, "it is not the kernel of large tiles");
    let TiledMatmul { m, n, k, .. } = *matmul;
    let nodes = [values(m * k, 0), values(k * n, 1), vec![0.0; m * n], values(n, 2)];
    let mut machine = SimulatedGpu::new();
    let regions: Vec<_> = call
        .args
        .iter()
        .map(|slot| match slot {
            codegen_core::Slot::Node(node) => (node.index(), machine.put("p", bytes(&nodes[node.index()]))),
            other => panic!("{other:?}"),
        })
        .collect();
    let params: Vec<u64> = regions.iter().map(|(_, region)| region.address()).collect();
    let launch = SimLaunch::new(1, &params);
    let stats = run(&rendered.module.kernels[call.kernel], &launch, &mut machine, order);
    let stats = stats.unwrap_or_else(|fault| panic!("{fault}"));
    let output = regions.iter().find(|(node, _)| *node == 2).unwrap().1;
    for (at, found) in machine.bytes(output).chunks_exact(4).enumerate() {
        let (row, column) = (at / n, at % n);
        let found = f32::from_le_bytes(found.try_into().unwrap());
        let sum = |sum: f32, k: usize| {
            nodes[0][matmul.at(0, row, k)].mul_add(nodes[1][matmul.at(1, column, k)], sum)
        };
        let expected = match row < TILE && column < TILE {
            true => ((0..k).fold(0.0, sum) + nodes[3][column]).max(0.0),
            false => 0.0,
        };
        assert_eq!(found.to_bits(), expected.to_bits(), "row {row}, column {column}");
    }
    stats
}

/// Values of `k` with one tile, an even and an odd number of tiles, and a remainder.
#[test]
fn every_bit_is_that_of_sums_in_order() {
    for (nth, k) in [8, 12, 16, 24, 29, 32, 43].into_iter().enumerate() {
        let transposed = [nth % 2 == 1, nth % 3 == 1];
        first_block(
            &TiledMatmul { m: 1024, n: 2048, k, transposed },
            ExecutionOrder::Random { seed: k as u64 },
        );
    }
    // Rows and columns that are not whole tiles.
    let ragged = TiledMatmul { m: 1029, n: 2051, k: 40, transposed: [false, true] };
    first_block(&ragged, ExecutionOrder::Random { seed: 3 });
}

#[test]
fn a_block_does_little_but_multiply() {
    for transposed in [[false, false], [false, true], [true, false], [true, true]] {
        let matmul = TiledMatmul { m: 1024, n: 2048, k: 256, transposed };
        let stats = first_block(&matmul, ExecutionOrder::Sequential);
        let warps = 8;
        let multiplications = stats.count("fma.f32");
        assert_eq!(multiplications, (TILE * TILE * matmul.k / 32) as u64);
        // For each index along `k` a thread loads four vectors of four from shared memory for 64
        // multiply-adds, without bank conflicts.
        assert_eq!(stats.count("load.shared"), multiplications / 16);
        assert_eq!(stats.conflicts(), 0, "{transposed:?}");
        // One barrier per tile along `k`.
        assert_eq!(stats.count("barrier"), warps * matmul.k as u64 / 8);
        // Every sector that is accessed is read or written whole, and once.
        let staged = (2 * TILE * matmul.k + TILE * warps as usize) * 4 / 32;
        assert!(stats.sectors("load.global") <= staged as u64, "{}", stats.sectors("load.global"));
        assert_eq!(stats.sectors("store.global"), (TILE * TILE * 4 / 32) as u64);
        // Assemblers remove copies between registers.
        let all: u64 = stats.insts.iter().map(|inst| inst.warps).sum::<u64>() - stats.count("move");
        let counts = stats.counts();
        assert!(
            all * 100 <= multiplications * 113,
            "{transposed:?}: {all} for {multiplications} multiplications: {counts:?}"
        );
    }
}
