//! Routines that tests of several passes start from.

use lowered_ir::{
    ir::{LoweredRoutine, NodeRef},
    text, verify,
};

/// The node `t` of [`routine`].
pub(crate) const T: NodeRef = NodeRef(2);

/// A statement that copies `t` to `out`.
pub(crate) const USE: &str = "for i8 in 0..4 { %4[i8] := %2[i8] }";

/// A verified routine with a symbol `@s` in 0..4 and nodes `x: f32[4]`, `m: f32[4, 4]`, `t: f32[4]` of the
/// given mode, `u: f32[4]`, `out: f32[4]`.
pub(crate) fn routine(mode: &str, body: &str) -> LoweredRoutine {
    let source = format!(
        "routine @t strict {{\nsymbol @s in 0..4\nnode %0 \"x\" f32[4] on_device\nnode %1 \"m\" f32[4, 4] on_device\n\
         node %2 \"t\" f32[4] {mode}\nnode %3 \"u\" f32[4] on_device\nnode %4 \"out\" f32[4] on_device\n{body}\n}}\n"
    );
    let routine = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    verify::verify(&routine).unwrap_or_else(|e| panic!("{e}\n{source}"));
    routine
}
