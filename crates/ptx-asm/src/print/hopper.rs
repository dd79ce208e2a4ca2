//! Text of the instructions of sm_90a that take more than one line of code.

use super::{list, operand, reg};
use crate::inst::{Inst, Ty};
use crate::program::{PtxKernel, PtxOperand, Reg};

/// Name of the parameter that holds a tensor map.
pub(super) fn map_name(kernel: &PtxKernel, map: u32) -> String {
    format!("{}_m{map}", kernel.name)
}

/// Whether an instruction is printed as several PTX instructions. No guard can apply to all of them, so the
/// printer writes a branch around a predicated one.
pub(super) fn is_several(inst: &Inst) -> bool {
    matches!(inst, Inst::TensorMapAddress { .. } | Inst::MbarrierWait { .. } | Inst::ClusterBarrier)
}

/// The text that writes the generic address of a tensor map, which TMA instructions take, to `dst`.
pub(super) fn map_address(dst: Reg, name: &str) -> String {
    let dst = reg(dst);
    format!("mov.b64 {dst}, {name}; cvta.param.u64 {dst}, {dst}")
}

/// A wait on an mbarrier. The text is a loop, because `try_wait` also returns after a time limit. Braces
/// limit the scope of its predicate and label.
pub(super) fn wait(at: &str, parity: Reg, cluster: bool) -> String {
    let order = if cluster { ".acquire.cluster" } else { "" };
    let wait = format!("mbarrier.try_wait.parity{order}.shared::cta.b64 %done, {at}, {}", reg(parity));
    format!("{{ .reg .pred %done; $WAIT: {wait}; @!%done bra $WAIT; }}")
}

/// The tensor operand of a TMA instruction: the map's address and the tile's coordinates.
fn tile(map: Reg, at: &[PtxOperand]) -> String {
    let at: Vec<String> = at.iter().map(|&at| operand(Ty::S32, at)).collect();
    format!("[{}, {{{}}}]", reg(map), at.join(", "))
}

pub(super) fn load_tile(
    map: Reg,
    at: &[PtxOperand],
    [to, barrier]: [String; 2],
    multicast: Option<Reg>,
) -> String {
    let (kind, mask) = match multicast {
        Some(mask) => (".multicast::cluster", format!(", {}", reg(mask))),
        None => ("", String::new()),
    };
    let kind = format!("{}d.shared::cluster.global.mbarrier::complete_tx::bytes{kind}", at.len());
    format!("cp.async.bulk.tensor.{kind} {to}, {}, {barrier}{mask}", tile(map, at))
}

pub(super) fn store_tile(map: Reg, at: &[PtxOperand], from: &str) -> String {
    format!("cp.async.bulk.tensor.{}d.global.shared::cta.bulk_group {}, {from}", at.len(), tile(map, at))
}

pub(super) fn wgmma(
    element: Ty,
    columns: u32,
    d: &[Reg],
    operands: [Reg; 3],
    transposed: [bool; 2],
) -> String {
    let orders = transposed.map(u8::from);
    let orders = format!(", {}, {}", orders[0], orders[1]);
    let (kind, orders) = match element {
        Ty::F16 => ("k16.f32.f16.f16", &orders[..]),
        Ty::Bf16 => ("k16.f32.bf16.bf16", &orders[..]),
        _ => ("k8.f32.tf32.tf32", ""),
    };
    // The two factors of 1 mean that neither operand is negated.
    let operands = operands.map(reg).join(", ");
    format!("wgmma.mma_async.sync.aligned.m64n{columns}{kind} {}, {operands}, 1, 1{orders}", list(d))
}
