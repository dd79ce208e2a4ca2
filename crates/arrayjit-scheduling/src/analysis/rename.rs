//! Renaming of every identifier in a block.

use lowered_ir::ir::{Affine, Block, Expr, LocalId, LoopId, NodeRef, Stmt, SymbolId, Var, walk};

/// Maps old identifiers to new ones.
pub(crate) trait Renaming {
    /// The new reference of a node, or of the merge buffer that holds a copy of it.
    fn node(&mut self, node: NodeRef, merge: bool) -> NodeRef {
        let _ = merge;
        node
    }

    /// The new identifier of a symbol.
    fn symbol(&mut self, symbol: SymbolId) -> SymbolId {
        symbol
    }

    /// The new identifier of a loop variable.
    fn loop_var(&mut self, var: LoopId) -> LoopId;

    /// The new identifier of a local.
    fn local(&mut self, local: LocalId) -> LocalId;

    /// Changes the text of a comment.
    fn remark(&mut self, _: &mut String) {}
}

/// A copy of a block in which everything is renamed, in the order in which the text form would print it.
pub(crate) fn rename(block: &[Stmt], names: &mut impl Renaming) -> Block {
    let mut block = block.to_vec();
    rename_in_place(&mut block, names);
    block
}

/// Renames everything in a block, in the same order.
pub(crate) fn rename_in_place(block: &mut [Stmt], names: &mut impl Renaming) {
    block.iter_mut().for_each(|stmt| rename_stmt(stmt, names));
}

fn rename_stmt(stmt: &mut Stmt, names: &mut impl Renaming) {
    match stmt {
        Stmt::For { var, hi, body, .. } => {
            if !hi.is_constant() {
                *hi = hi.map(|clip| renamed(clip, names));
                hi.map_condition(|node| names.node(node, false));
            }
            *var = names.loop_var(*var);
            rename_in_place(body, names);
        }
        Stmt::Set { node, index, .. } | Stmt::SetDynamic { node, index, .. } => {
            *node = names.node(*node, false);
            index.map(&mut |index| renamed(index, names));
        }
        Stmt::Zero { node } => *node = names.node(*node, false),
        Stmt::Declare { local, .. } => *local = names.local(*local),
        Stmt::SetLocal { local, index, .. } => {
            *local = names.local(*local);
            index.map(&mut |index| renamed(index, names));
        }
        Stmt::Comment(text) => names.remark(text),
        Stmt::Log { .. } => {}
    }
    stmt.values_mut().into_iter().for_each(|value| rename_expr(value, names));
}

fn rename_expr(expr: &mut Expr, names: &mut impl Renaming) {
    walk::each_child_mut(expr, &mut |child| rename_expr(child, names));
    match expr {
        Expr::Get { node, .. } | Expr::GetGuarded { node, .. } | Expr::GetDynamic { node, .. } => {
            *node = names.node(*node, false);
        }
        Expr::GetMerge { node, .. } => *node = names.node(*node, true),
        Expr::GetLocal { local, .. } => *local = names.local(*local),
        _ => {}
    }
    walk::map_own_indices(expr, &mut |index| renamed(index, names));
}

/// The index with renamed variables.
pub(crate) fn renamed(index: &Affine, names: &mut impl Renaming) -> Affine {
    let mut index = index.clone();
    index.rename(|var| match var {
        Var::Loop(id) => Var::Loop(names.loop_var(id)),
        Var::Symbol(id) => Var::Symbol(names.symbol(id)),
    });
    index
}
