//! Why a node cannot be inlined, in words.

/// The reason that a node keeps its memory. The text completes "… cannot be virtual because".
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum InlineRejection {
    /// Nothing computes it.
    #[error("no statement of this routine computes it")]
    NoSetter,
    /// Its earlier value is needed.
    #[error("some elements are read before this routine has written them")]
    ReadBeforeWrite,
    /// The routine reads the copy of the node in the merge buffer.
    #[error("its copy is read from the merge buffer, so another device has it in memory")]
    MergeRead,
    /// It is read or set at an index computed at run time.
    #[error("it is accessed at a computed index")]
    ComputedIndex,
    /// The iteration that sets the element of a use is no affine function of the use's index.
    #[error(
        "it is set at index `{index}`, and finding the iteration that sets an element which is used takes a division"
    )]
    IndexNotInvertible { index: String },
    /// Loops that stay at the use would run in another order.
    #[error("it is set at index `{index}`, and for one element alone its loops would run in another order")]
    Reordered { index: String },
    /// A loop would stay at each use to search for the iteration that sets the element, and the node need not
    /// be virtual.
    #[error(
        "it is set at index `{index}`, so every use would search the iterations for those that set its element"
    )]
    Search { index: String },
    /// Loops can be dropped only around a single store, but the nest contains other statements.
    #[error("its loops can be searched for an element only if they hold one store and nothing else")]
    InvertedNest,
    /// Setters within one loop nest may store to the same element at different indices.
    #[error("setters within one loop nest store at different indices that may meet")]
    InconsistentSetters,
    /// A loop reads it before each iteration.
    #[error("it is the condition of a scan, which is read from memory")]
    Condition,
    /// A condition may end the loops that compute it.
    #[error("a condition may end the scan that computes it")]
    EndedScan,
    /// An element depends on other elements.
    #[error("an element is computed from other elements of the node itself")]
    Recurrence,
    /// The computation uses a local declared outside of it.
    #[error("its computation uses the local {local} from outside of its loops")]
    LocalEscapes { local: String },
    /// The computation keeps a local from one element to the next.
    #[error("its computation carries the local {local} from one element to the next")]
    CarriedLocal { local: String },
    /// A use comes before its last setter, or is part of it.
    #[error("it is used before its last setter is done")]
    SetAfterUse,
    /// An input changes between the computation and a use.
    #[error("its input \"{input}\" is overwritten before its last use")]
    InputOverwritten { input: String },
    /// An input changed between the routine that computes it and the one that uses it.
    #[error(
        "its input \"{input}\" was overwritten by routine \"{routine}\" after it was computed; compute it again"
    )]
    InputChanged { input: String, routine: String },
    /// An input is local to the routine that computes it.
    #[error(
        "routine \"{routine}\" computes it from \"{input}\", which is local to that routine; specify `MemoryMode::Materialized` for \"{input}\""
    )]
    InputLocal { input: String, routine: String },
    /// The computation of another routine depends on data that only a run of that routine has.
    #[error("routine \"{routine}\" computes it from {what}, which a run of this routine does not have")]
    BoundToRun { routine: String, what: String },
    /// A reduction would stand inside a vector loop.
    #[error("its computation has a loop, and it is used inside a vector loop")]
    LoopInVector,
    /// The computation is valid for some elements only, so it needs a guard, and one of its parts has no
    /// guarded form.
    #[error("a use needs its computation guarded, which {what} cannot be")]
    Unguardable { what: &'static str },
    /// The result would be too large.
    #[error("inlining it would make a statement of more than {limit} operations, or too deeply nested")]
    TooLarge { limit: usize },
    /// The computation, or a statement that uses it, would be too long for one kernel, and the node need not
    /// be virtual.
    #[error(
        "its computation costs more than {limit} operations, or would make a statement of more than twice as many (a function such as `sin` counts as 20)"
    )]
    TooCostly { limit: u64 },
    /// The result would break a rule of the verifier.
    #[error("the statement that uses it would break a rule: {violation}")]
    NotProvable { violation: String },
}
