//! Merge buffers of divided routines: the stream of the backend itself has the merge buffer, the fallback's
//! stream has none.
//!
//! If a part on the fallback would read the merge buffer, the routine first materializes it: a part on the
//! backend itself copies it to a local node, and all parts read that node. Like any local node that several
//! parts touch, the copy is transferred between the backends.

use lowered_ir::ir::{
    Affine, Block, Expr, Fresh, Indices, LoopId, LoweredRoutine, NodeDecl, NodeRef, Stmt, walk,
};
use tnode::{MemoryMode, ModeState, Reason};

/// The node whose merge buffer the statements read, if they read one.
pub(super) fn merge_buffer_node(body: &[Stmt]) -> Option<NodeRef> {
    let mut found = None;
    for expr in walk::parts_in(body) {
        if let Expr::GetMerge { node, .. } = expr {
            found = Some(*node);
        }
    }
    found
}

/// The routine with an additional first statement that copies the merge buffer of `node` to a local node; all
/// other statements read the copy.
pub(super) fn with_merge_copy(routine: &LoweredRoutine, node: NodeRef) -> LoweredRoutine {
    let mut routine = routine.clone();
    let copy = NodeRef(routine.nodes.len() as u32);
    let decl = routine.node(node);
    let reason = Reason::new("it has what was merged, for the parts of a divided routine");
    let decl = NodeDecl {
        name: format!("{}_merged", decl.name),
        mode: ModeState::decided(MemoryMode::Local, reason),
        ..decl.clone()
    };
    let copying = copying(node, copy, &decl, &mut routine.fresh());
    routine.nodes.push(decl);
    walk::map_parts(&mut routine.body, &mut |expr| match expr {
        Expr::GetMerge { index, .. } => Expr::Get { node: copy, index },
        other => other,
    });
    routine.body.insert(0, copying);
    routine
}

/// `copy[…] := merge node[…]` for every element.
fn copying(node: NodeRef, copy: NodeRef, decl: &NodeDecl, fresh: &mut Fresh) -> Stmt {
    let vars: Vec<LoopId> = decl.dims.iter().map(|_| fresh.loop_id()).collect();
    let index: Indices = vars.iter().map(|&var| Affine::var(var)).collect();
    let value = Expr::GetMerge { node, index: index.clone() };
    let element = Stmt::Set { node: copy, index, value };
    vars.iter().zip(&decl.dims).rev().fold(element, |inner, (&var, &dim)| {
        let body: Block = vec![inner];
        Stmt::serial(var, dim as i64, body)
    })
}

#[cfg(test)]
mod tests {
    use lowered_ir::{text, verify::verify};

    use super::*;

    #[test]
    fn one_statement_reads_the_merge_buffer() {
        let text = "routine @r strict {
            node %0 \"g\" f32[2, 3] on_device
            node %1 \"s\" f32[3] on_device
            for i0 in 0..2 { for i1 in 0..3 { %0[i0, i1] := %0[i0, i1] + merge %0[i0, i1] } }
            for i2 in 0..3 { %1[i2] := sqrt(merge %0[1, i2]) }
        }";
        let routine = text::parse(text).unwrap();
        assert_eq!(merge_buffer_node(&routine.body), Some(NodeRef(0)));
        let copied = with_merge_copy(&routine, NodeRef(0));
        verify(&copied).unwrap();
        assert_eq!((copied.nodes.len(), copied.body.len()), (3, 3));
        assert_eq!(merge_buffer_node(&copied.body[..1]), Some(NodeRef(0)));
        assert_eq!(merge_buffer_node(&copied.body[1..]), None);
    }
}
