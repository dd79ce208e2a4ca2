//! Checks that every path to a read of a register writes it first.

use std::collections::BTreeSet;

use super::{PtxError, undefined};
use crate::inst::Inst;
use crate::program::{PtxKernel, PtxStmt, Reg};

pub(super) fn check(kernel: &PtxKernel) -> Result<(), PtxError> {
    block(kernel, &kernel.body, &mut BTreeSet::new())
}

fn block(kernel: &PtxKernel, stmts: &[PtxStmt], written: &mut BTreeSet<Reg>) -> Result<(), PtxError> {
    for stmt in stmts {
        match stmt {
            PtxStmt::Inst(inst) => {
                reads(kernel, inst, written)?;
                inst.registers(&mut |_| (), &mut |reg| {
                    written.insert(reg);
                });
            }
            // Threads whose guard is false keep the register's old content, so the write does not count.
            PtxStmt::Predicated(guard, inst) => {
                read(kernel, guard.pred, written)?;
                reads(kernel, inst, written)?;
            }
            PtxStmt::If { guard, then, otherwise } => {
                read(kernel, guard.pred, written)?;
                let mut by_then = written.clone();
                block(kernel, then, &mut by_then)?;
                block(kernel, otherwise, written)?;
                // A register counts as written only if both branches write it.
                written.retain(|reg| by_then.contains(reg));
            }
            PtxStmt::Loop { body, repeat_while } => {
                block(kernel, body, written)?;
                read(kernel, repeat_while.pred, written)?;
            }
            PtxStmt::Comment(_) => {}
        }
    }
    Ok(())
}

fn reads(kernel: &PtxKernel, inst: &Inst, written: &BTreeSet<Reg>) -> Result<(), PtxError> {
    let mut missing = None;
    inst.registers(
        &mut |reg| {
            if !written.contains(&reg) {
                missing.get_or_insert(reg);
            }
        },
        &mut |_| (),
    );
    missing.map_or(Ok(()), |reg| Err(undefined(kernel, reg)))
}

fn read(kernel: &PtxKernel, reg: Reg, written: &BTreeSet<Reg>) -> Result<(), PtxError> {
    if written.contains(&reg) { Ok(()) } else { Err(undefined(kernel, reg)) }
}
