//! How statements access memory, and which combinations of operation, type and access a routine exercises.

use std::{collections::BTreeSet, fmt};

use lowered_ir::ir::{Affine, Expr, Indices, LoopId, LoweredRoutine, Stmt, Var, walk};
use tnode::DType;

/// A form of access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessForm {
    /// The indices are the variables of all loops around, outermost first.
    Dense,
    /// Some loop around does not move the access: a broadcast, or a reduction if it is a store.
    Repeated,
    /// Every loop moves the access, in another order.
    Permuted,
    /// Indices with offsets, factors, sums or symbols.
    Affine,
    /// A read under a guard.
    Guarded,
    /// A computed index: gather and scatter.
    Computed,
    /// The merge buffer.
    Merge,
    /// A local.
    Local,
    /// No memory: constants and embedded indices.
    Constant,
}

impl AccessForm {
    /// Every form, in the order of the matrix.
    pub const ALL: [AccessForm; 9] = [
        AccessForm::Dense,
        AccessForm::Repeated,
        AccessForm::Permuted,
        AccessForm::Affine,
        AccessForm::Guarded,
        AccessForm::Computed,
        AccessForm::Merge,
        AccessForm::Local,
        AccessForm::Constant,
    ];

    /// The letter of the form in the printed matrix.
    pub fn letter(self) -> char {
        match self {
            AccessForm::Dense => 'D',
            AccessForm::Repeated => 'R',
            AccessForm::Permuted => 'P',
            AccessForm::Affine => 'A',
            AccessForm::Guarded => 'G',
            AccessForm::Computed => 'C',
            AccessForm::Merge => 'M',
            AccessForm::Local => 'L',
            AccessForm::Constant => 'K',
        }
    }
}

impl fmt::Display for AccessForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// An operation on a type, with a form of access to its operands or its result.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationUse {
    /// The operation, as the text form writes it; `copy` for a store without one.
    pub operation: String,
    /// The type of its first operand.
    pub dtype: DType,
    /// The access.
    pub access: AccessForm,
}

/// The forms of access in a routine.
pub(crate) fn accesses(routine: &LoweredRoutine) -> BTreeSet<AccessForm> {
    let mut all = BTreeSet::new();
    each_statement(&routine.body, &mut Vec::new(), &mut |stmt, loops| {
        all.extend(forms(stmt, loops));
    });
    all
}

/// The combinations that a routine exercises.
pub(crate) fn uses(routine: &LoweredRoutine) -> BTreeSet<OperationUse> {
    let locals = routine.locals();
    let mut all = BTreeSet::new();
    each_statement(&routine.body, &mut Vec::new(), &mut |stmt, loops| {
        let forms = forms(stmt, loops);
        for value in stmt.values() {
            let mut found = Vec::new();
            walk::parts(value).for_each(|expr| found.extend(operation(routine, &locals, expr)));
            if found.is_empty() {
                found.push(("copy".to_owned(), routine.dtype_of(value, &locals)));
            }
            for (operation, dtype) in found {
                all.extend(forms.iter().map(|&access| OperationUse {
                    operation: operation.clone(),
                    dtype,
                    access,
                }));
            }
        }
    });
    all
}

fn operation(
    routine: &LoweredRoutine,
    locals: &lowered_ir::ir::Locals,
    expr: &Expr,
) -> Option<(String, DType)> {
    let (name, operand) = match expr {
        Expr::Unary { op, arg } => (op.to_string(), &**arg),
        Expr::Binary { op, a, .. } => (op.to_string(), &**a),
        Expr::Ternary { op, b, .. } => (op.to_string(), &**b),
        Expr::Convert { to, arg } => (format!("convert {to}"), &**arg),
        Expr::Bitcast { to, arg } => (format!("bitcast {to}"), &**arg),
        Expr::Lane { arg, .. } => ("lane".to_owned(), &**arg),
        Expr::Lanes(lanes) => ("lanes".to_owned(), &lanes[0]),
        _ => return None,
    };
    Some((name, routine.dtype_of(operand, locals)))
}

/// Calls `f` on every statement but loops, with the variables of the loops around it, outermost first.
fn each_statement<'a>(block: &'a [Stmt], loops: &mut Vec<LoopId>, f: &mut impl FnMut(&'a Stmt, &[LoopId])) {
    for stmt in block {
        if let Stmt::For { var, body, .. } = stmt {
            loops.push(*var);
            each_statement(body, loops, f);
            loops.pop();
        } else {
            f(stmt, loops);
        }
    }
}

/// The forms of access of one statement.
fn forms(stmt: &Stmt, loops: &[LoopId]) -> BTreeSet<AccessForm> {
    let mut forms = BTreeSet::new();
    match stmt {
        Stmt::Set { index, .. } => drop(forms.insert(form(index, loops))),
        Stmt::SetDynamic { .. } => drop(forms.insert(AccessForm::Computed)),
        Stmt::SetLocal { .. } => drop(forms.insert(AccessForm::Local)),
        _ => {}
    }
    for value in stmt.values() {
        walk::parts(value).for_each(|expr| match expr {
            Expr::Get { index, .. } => drop(forms.insert(form(index, loops))),
            Expr::GetGuarded { .. } => drop(forms.insert(AccessForm::Guarded)),
            Expr::GetDynamic { .. } => drop(forms.insert(AccessForm::Computed)),
            Expr::GetMerge { .. } => drop(forms.insert(AccessForm::Merge)),
            Expr::GetLocal { .. } => drop(forms.insert(AccessForm::Local)),
            Expr::Index { .. } => drop(forms.insert(AccessForm::Constant)),
            _ => {}
        });
    }
    if forms.is_empty() {
        forms.insert(AccessForm::Constant);
    }
    forms
}

/// The form of an index under these loops.
fn form(index: &Indices, loops: &[LoopId]) -> AccessForm {
    let plain: Option<Vec<LoopId>> = index.iter().map(plain_loop).collect();
    let Some(used) = plain else { return AccessForm::Affine };
    let distinct: BTreeSet<LoopId> = used.iter().copied().collect();
    if used == loops {
        AccessForm::Dense
    } else if distinct.len() < used.len() {
        AccessForm::Affine
    } else if distinct.len() == loops.len() {
        AccessForm::Permuted
    } else {
        AccessForm::Repeated
    }
}

fn plain_loop(index: &Affine) -> Option<LoopId> {
    match index.as_var() {
        Some(Var::Loop(var)) => Some(var),
        _ => None,
    }
}
