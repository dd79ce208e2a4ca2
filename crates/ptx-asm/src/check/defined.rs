//! That registers are written before they are read.

use std::collections::BTreeSet;

use super::{ProgramError, undefined};
use crate::inst::Inst;
use crate::program::{Kernel, Reg, Stmt};

pub(super) fn check(kernel: &Kernel) -> Result<(), ProgramError> {
    block(kernel, &kernel.body, &mut BTreeSet::new())
}

fn block(kernel: &Kernel, stmts: &[Stmt], written: &mut BTreeSet<Reg>) -> Result<(), ProgramError> {
    for stmt in stmts {
        match stmt {
            Stmt::Inst(inst) => {
                reads(kernel, inst, written)?;
                inst.registers(&mut |_| (), &mut |reg| {
                    written.insert(reg);
                });
            }
            // Those whose guard does not hold keep what they had.
            Stmt::When(guard, inst) => {
                read(kernel, guard.pred, written)?;
                reads(kernel, inst, written)?;
            }
            Stmt::If { guard, then, otherwise } => {
                read(kernel, guard.pred, written)?;
                let mut one = written.clone();
                block(kernel, then, &mut one)?;
                block(kernel, otherwise, written)?;
                // Of what one branch writes only that counts which the other does too.
                written.retain(|reg| one.contains(reg));
            }
            Stmt::Loop { body, again } => {
                block(kernel, body, written)?;
                read(kernel, again.pred, written)?;
            }
            Stmt::Comment(_) => {}
        }
    }
    Ok(())
}

fn reads(kernel: &Kernel, inst: &Inst, written: &BTreeSet<Reg>) -> Result<(), ProgramError> {
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

fn read(kernel: &Kernel, reg: Reg, written: &BTreeSet<Reg>) -> Result<(), ProgramError> {
    if written.contains(&reg) { Ok(()) } else { Err(undefined(kernel, reg)) }
}
