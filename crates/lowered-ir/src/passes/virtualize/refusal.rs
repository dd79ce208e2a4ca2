//! Why a node cannot be inlined, in words.

/// The reason that a node keeps its memory. The text completes "… cannot be virtual because".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Nothing computes it.
    #[error("no statement of this routine computes it")]
    NoSetter,
    /// Its earlier value is needed.
    #[error("some elements are read before this routine has written them")]
    ReadBeforeWrite,
    /// The merge buffer is read as this node.
    #[error("its copy is read from the merge buffer, so another device has it in memory")]
    MergeRead,
    /// Some setter stores at an index that cannot be solved for its loop variables.
    #[error("it is set at index `{index}`, which does not determine the loop variables")]
    IndexNotInvertible {
        /// The index of one dimension.
        index: String,
    },
    /// A setter uses one variable for two dimensions.
    #[error("one loop variable indexes two of its dimensions")]
    RepeatedVariable,
    /// A setter's loop ends where a symbol says.
    #[error("how much of it is set depends on a static symbol")]
    SymbolicRange,
    /// It is read or set at an index computed at run time.
    #[error("it is accessed at a computed index")]
    ComputedIndex,
    /// Setters within one loop nest store at indices of different form.
    #[error("its setters within one loop nest disagree about its index")]
    InconsistentSetters,
    /// A use may fall inside or outside what a setter covers.
    #[error("a setter covers only a part of the elements that one use reads")]
    PartialSetter,
    /// An element depends on other elements.
    #[error("an element is computed from other elements of the node itself")]
    Recurrence,
    /// The computation uses a local declared outside of it.
    #[error("its computation uses the local {local} from outside of its loops")]
    LocalEscapes {
        /// The local.
        local: String,
    },
    /// The computation keeps a local from one element to the next.
    #[error("its computation carries the local {local} from one element to the next")]
    CarriedLocal {
        /// The local.
        local: String,
    },
    /// It is used where, or before, it is set.
    #[error("it is used before its last setter is done")]
    SetAfterUse,
    /// An input changes between the computation and a use.
    #[error("its input \"{input}\" is overwritten before its last use")]
    InputOverwritten {
        /// The input's name.
        input: String,
    },
    /// A reduction would land inside a vector loop.
    #[error("its computation has a loop, and it is used inside a vector loop")]
    LoopInVector,
    /// A guarded use needs a guarded form that the computation's reads do not have.
    #[error("a guarded use needs its computation guarded, which {what} cannot be")]
    Unguardable {
        /// What stands in the way.
        what: &'static str,
    },
    /// The result would be too large.
    #[error("inlining it would make a statement of more than {limit} operations, or too deeply nested")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
}
