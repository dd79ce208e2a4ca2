//! Renaming of every identifier in a block.

use lowered_ir::ir::{
    Affine, Block, Expr, Indices, LocalId, LogPart, LoopId, NodeRef, Stmt, SymbolId, Var, walk,
};

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
}

/// Renames everything in a block, in the order in which the text form would print it.
pub(crate) fn rename(block: &[Stmt], names: &mut impl Renaming) -> Block {
    block.iter().map(|stmt| rename_stmt(stmt, names)).collect()
}

fn rename_stmt(stmt: &Stmt, names: &mut impl Renaming) -> Stmt {
    match stmt {
        Stmt::For { var, lo, hi, kind, body } => {
            let hi = hi.map(|clip| rename_index(clip, names));
            Stmt::For { var: names.loop_var(*var), lo: *lo, hi, kind: *kind, body: rename(body, names) }
        }
        Stmt::Set { node, index, value } => Stmt::Set {
            node: names.node(*node, false),
            index: rename_indices(index, names),
            value: rename_expr(value.clone(), names),
        },
        Stmt::Zero { node } => Stmt::Zero { node: names.node(*node, false) },
        Stmt::Declare { local, dtype, dims, space } => {
            Stmt::Declare { local: names.local(*local), dtype: *dtype, dims: dims.clone(), space: *space }
        }
        Stmt::SetLocal { local, index, value } => Stmt::SetLocal {
            local: names.local(*local),
            index: rename_indices(index, names),
            value: rename_expr(value.clone(), names),
        },
        Stmt::SetDynamic { node, index, axis, at, op, value } => Stmt::SetDynamic {
            node: names.node(*node, false),
            index: rename_indices(index, names),
            axis: *axis,
            at: Box::new(rename_expr((**at).clone(), names)),
            op: *op,
            value: rename_expr(value.clone(), names),
        },
        Stmt::Log { parts } => {
            let rename_part = |part: &LogPart| match part {
                LogPart::Text(text) => LogPart::Text(text.clone()),
                LogPart::Value(value) => LogPart::Value(rename_expr(value.clone(), names)),
            };
            Stmt::Log { parts: parts.iter().map(rename_part).collect() }
        }
        Stmt::Comment(text) => Stmt::Comment(text.clone()),
    }
}

fn rename_expr(expr: Expr, names: &mut impl Renaming) -> Expr {
    let expr = walk::map_children(expr, &mut |child| rename_expr(child, names));
    match expr {
        Expr::Get { node, index } => {
            Expr::Get { node: names.node(node, false), index: rename_indices(&index, names) }
        }
        Expr::GetMerge { node, index } => {
            Expr::GetMerge { node: names.node(node, true), index: rename_indices(&index, names) }
        }
        Expr::GetLocal { local, index } => {
            Expr::GetLocal { local: names.local(local), index: rename_indices(&index, names) }
        }
        Expr::GetGuarded { mut guard, node, index, otherwise } => {
            for range in &mut guard {
                range.index = rename_index(&range.index, names);
            }
            let node = names.node(node, false);
            Expr::GetGuarded { guard, node, index: rename_indices(&index, names), otherwise }
        }
        Expr::GetDynamic { node, index, axis, at, otherwise } => {
            let node = names.node(node, false);
            Expr::GetDynamic { node, index: rename_indices(&index, names), axis, at, otherwise }
        }
        Expr::Index { index, dtype } => Expr::Index { index: rename_index(&index, names), dtype },
        other => other,
    }
}

fn rename_indices(indices: &Indices, names: &mut impl Renaming) -> Indices {
    indices.iter().map(|index| rename_index(index, names)).collect()
}

fn rename_index(index: &Affine, names: &mut impl Renaming) -> Affine {
    let mut renamed = Affine::constant(index.offset());
    for &(var, coefficient) in index.terms() {
        let var = match var {
            Var::Loop(id) => Var::Loop(names.loop_var(id)),
            Var::Symbol(id) => Var::Symbol(names.symbol(id)),
        };
        renamed.add_term(var, coefficient);
    }
    renamed
}
