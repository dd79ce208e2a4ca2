//! Kernels with a missing wait, fence or barrier in the epilogue: the simulated GPU reports each of them.

use ptx_asm::{GuardPredicate, Inst, PtxKernel, PtxStmt, StmtList};
use ptx_sim::ExecutionOrder;

use super::WgmmaTile;
use super::tests::STORED;
use crate::tensor_cores::test_harness::{kernel, matmul, run_kernel, stored};
use crate::tensor_cores::{Matmul, MatmulKernel};

/// Two staging tiles, which an output tile uses four times with 16-bit results and eight times with 32-bit
/// results.
const TILE: WgmmaTile = WgmmaTile { consumers: 1, columns: 256, stages: 2, cluster: 1 };

/// A change that makes a kernel wrong.
type Mutation = fn(&mut StmtList);

const MUTATIONS: [(&str, Mutation); 8] = [
    ("no fence of a staging tile", |block| {
        leave_out(block, is_staging, |inst| matches!(inst, Inst::FenceProxyAsync))
    }),
    ("no barrier before a staging tile is written", |block| leave_out_every_other(block, 0)),
    ("no barrier before a staging tile is stored", |block| leave_out_every_other(block, 1)),
    ("no wait before a staging tile is written", |block| leave_out(block, is_staging, is_wait)),
    ("no wait at the end", |block| leave_out(block, |block| !is_staging(block), is_wait)),
    ("no wait at all", |block| leave_out(block, |_| true, is_wait)),
    ("a wait of others than the thread that stores", |block| {
        negate(block, |stmt| match stmt {
            PtxStmt::Predicated(guard, inst) if is_wait(inst) => Some(guard),
            _ => None,
        });
    }),
    ("a store by others than the thread that waits", |block| {
        negate(block, |stmt| match stmt {
            PtxStmt::If { guard, then, .. } => {
                matches!(then.first(), Some(PtxStmt::Inst(Inst::TmaStore { .. }))).then_some(guard)
            }
            _ => None,
        });
    }),
];

fn is_wait(inst: &Inst) -> bool {
    matches!(inst, Inst::TmaStoreWait { .. })
}

fn is_warp_barrier(stmt: &PtxStmt) -> bool {
    matches!(stmt, PtxStmt::Inst(Inst::WarpBarrier))
}

/// Whether a block contains the stores to a staging tile.
fn is_staging(block: &StmtList) -> bool {
    block.iter().any(is_warp_barrier)
}

/// Removes instructions from blocks that `of` selects.
fn leave_out(block: &mut StmtList, of: fn(&StmtList) -> bool, is_one: fn(&Inst) -> bool) {
    if of(block) {
        block.retain(
            |stmt| !matches!(stmt, PtxStmt::Inst(inst) | PtxStmt::Predicated(_, inst) if is_one(inst)),
        );
    }
}

/// Removes the first or the second warp barrier of each staging tile.
fn leave_out_every_other(block: &mut StmtList, which: usize) {
    let mut number = 0;
    block.retain(|stmt| {
        number += usize::from(is_warp_barrier(stmt));
        !is_warp_barrier(stmt) || number % 2 == which
    });
}

/// Negates guards.
fn negate(block: &mut StmtList, find: fn(&mut PtxStmt) -> Option<&mut GuardPredicate>) {
    block.iter_mut().filter_map(find).for_each(|guard| guard.when = !guard.when);
}

fn everywhere(block: &mut StmtList, mutation: Mutation) {
    for stmt in &mut *block {
        match stmt {
            PtxStmt::If { then, otherwise, .. } => {
                everywhere(then, mutation);
                everywhere(otherwise, mutation);
            }
            PtxStmt::Loop { body, .. } => everywhere(body, mutation),
            PtxStmt::Inst(_) | PtxStmt::Predicated(..) | PtxStmt::Comment(_) => {}
        }
    }
    mutation(block);
}

/// Whether a kernel has a fault or a wrong result, in some order.
fn is_faulty(matmul: &Matmul, kernel: &PtxKernel) -> bool {
    let orders =
        [ExecutionOrder::Sequential].into_iter().chain((0..4).map(|seed| ExecutionOrder::Random { seed }));
    let method = MatmulKernel::Wgmma(TILE);
    orders.into_iter().any(|order| run_kernel(matmul, &method, kernel, false, order).is_err())
}

#[test]
fn wrong_orders_of_results_are_found() {
    for types in STORED {
        let matmul = stored(matmul([64, 256, 64], [true, false]), types);
        let right = kernel(&matmul, &MatmulKernel::Wgmma(TILE), false);
        assert!(!is_faulty(&matmul, &right), "{types:?}");
        for (what, mutation) in MUTATIONS {
            let mut wrong = right.clone();
            everywhere(&mut wrong.body, mutation);
            assert!(wrong != right, "{what}");
            assert!(is_faulty(&matmul, &wrong), "{what}, of {types:?}");
        }
    }
}
