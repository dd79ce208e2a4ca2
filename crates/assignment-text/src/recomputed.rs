//! `recompute h`: nodes that backward passes compute again instead of reading their stored values.
//!
//! The word stands anywhere in a text, like `keep`. It changes no value. The crate `autodiff` repeats the
//! statements of the node where a backward pass needs the values, so that the memory of the node is free
//! between the two passes.

use tnode::TensorNode;

use crate::ast::Recomputed;
use crate::error::{LocatedError, TextErrorKind, framed};
use crate::infer::Inference;
use assignments::AccessSpan;
use assignments::Origin;
use lowered_ir::SourceText;

/// The node of an item, and the source spans of the item.
pub(crate) fn analyse(
    item: &Recomputed,
    inference: &Inference<'_>,
    text: &SourceText,
) -> Result<(TensorNode, Origin), LocatedError> {
    let Recomputed { target, frame } = item;
    let node =
        node(&target.name, inference).map_err(|kind| kind.at(target.name_span.clone()).within(frame))?;
    let statement = framed(target.span.clone(), frame, text);
    let place = AccessSpan { whole: target.span.clone(), indices: Vec::new() };
    Ok((node, Origin::new(text, statement, place, Vec::new())))
}

/// The node of that name, which a statement computes.
pub(crate) fn node(name: &str, inference: &Inference<'_>) -> Result<TensorNode, TextErrorKind> {
    let node = inference.names().find(name)?;
    if inference.is_written(&node) {
        return Ok(node);
    }
    Err(TextErrorKind::NothingToRecompute { name: name.to_owned() })
}
