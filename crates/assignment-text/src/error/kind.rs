//! The mistakes that a text can have.

use tnode::{DType, Dims};

use super::phrases::{
    axes_text, counted, counted_elements, dims_origin, found_list, function_hint, indices, instead_of_letter,
    similar_names, sum_text, where_runs,
};
use crate::synonyms::Synonym;
use assignments::AccumOp;
use assignments::spelling::near_names;
use lowered_ir::stack::NoStack;

/// The kind of an error in assignment text.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum TextErrorKind {
    /// The text does not follow the grammar.
    #[error("expected {expected}, found {found}")]
    Syntax { expected: String, found: String },
    /// There is no memory for the stack on which a text is read.
    #[error(transparent)]
    Stack(#[from] NoStack),
    /// Brackets or operations nested too deep to be read.
    #[error("the expression is nested deeper than {limit} levels; split it into statements")]
    TooDeep { limit: usize },
    /// A name that no node has, with similar names, the nearest first; if there are none, all names, or the
    /// nearest if there are many.
    #[error("unknown node `{name}`; {}", near_names(near))]
    UnknownNode { name: String, near: Vec<String> },
    /// A name that is neither a letter nor a node, with names of nodes as for an unknown node.
    #[error("`{name}` is neither an index letter of this statement nor a node; {}", near_names(near))]
    UnknownName { name: String, near: Vec<String> },
    /// A read of an intermediate before the first statement that writes it. None may write a declared node.
    #[error(
        "node `{name}` has no values yet, since {}; write it before, or declare `input {name}` if its values come from elsewhere",
        line.map_or("no statement writes it".to_owned(), |line| format!("the statement of line {line} is the first to write it"))
    )]
    ReadBeforeWritten { name: String, line: Option<usize> },
    /// The first statement that writes an intermediate accumulates into its earlier values.
    #[error(
        "`{op}` needs earlier values of node `{name}`, which nothing writes before; expected `:{op}`, or a declaration \
         such as `param {name}` if the values come from elsewhere"
    )]
    NoEarlierValues { name: String, op: AccumOp },
    /// A statement that writes an input or a constant.
    #[error(
        "node `{name}` is declared as `{role}`, which a program only reads; declare it as `param {name}` to write it"
    )]
    ReadOnly { name: String, role: &'static str },
    /// A declaration, `keep`, `recompute` or `grad` inside of a function.
    #[error(
        "`{word} {name}` in function `{function}`; write it outside of functions, whose nodes are their own"
    )]
    DeclaredInFunction { word: &'static str, name: String, function: String },
    /// A function that detaches a parameter or a result.
    #[error(
        "function `{function}` detaches `{name}`, which is a node of the caller; copy it to a node of the function, as \
         in `m[..] := {name}[..]`, and detach that one"
    )]
    DetachesParameter { function: String, name: String },
    /// An intermediate that no statement reads and the program does not keep.
    #[error(
        "node `{name}` is written but never read{}; `keep {name}` makes its values readable after a run",
        similar_names(near)
    )]
    Unused { name: String, near: Vec<String> },
    /// A request to compute a node again that no statement computes.
    #[error(
        "no statement computes node `{name}`, so a backward pass cannot compute it again; expected an intermediate"
    )]
    NothingToRecompute { name: String },
    /// An intermediate whose first statement does not give the size of an axis.
    #[error("the size of axis {axis} of node `{node}` is open, since {why}; declare it, as in `{example}`")]
    OpenAxis { node: String, axis: usize, why: String, example: String },
    /// A statement that fills a whole node, as the first one that writes it.
    #[error(
        "the dimensions of node `{node}` are open, since a function that fills a node takes them from it; declare it, as \
         in `{example}`, or `{number}` for one number"
    )]
    OpenDims { node: String, example: String, number: String },
    /// A value that does not promote to the type that an earlier statement gave the node.
    #[error(
        "node `{node}` is of {present} by the statement of line {line}, but this value is of {found}; declare the node, as \
         in `{example}`, or convert the value, as in `{present}(..)`"
    )]
    TypeConflict { node: String, present: DType, line: usize, found: DType, example: String },
    /// A name that several nodes have.
    #[error("`{name}` names several nodes: {}; give them different labels", nodes.join(", "))]
    AmbiguousNode { name: String, nodes: Vec<String> },
    /// A name of both a node and a letter.
    #[error(
        "`{name}` is an index letter of this statement and a node; write `{name}[]` for the node, or rename the letter"
    )]
    NodeOrLetter { name: String },
    /// A name that no function has.
    #[error("unknown function `{name}`{}", function_hint(near, *instead))]
    UnknownFunction { name: String, near: Vec<String>, instead: Option<Synonym> },
    /// The wrong number of arguments.
    #[error(
        "function `{name}` takes {}, found {found}{}",
        counted(*expected, "argument", "arguments"),
        instead.map(|synonym| format!("; {synonym}")).unwrap_or_default()
    )]
    Arity { name: String, expected: usize, found: usize, instead: Option<Synonym> },
    /// The wrong number of indices.
    #[error("node `{node}` has dimensions {dims:?}, expected {}, found {found}", indices(node, dims.len(), *found))]
    Rank { node: String, dims: Dims, found: usize },
    /// The size of an axis, counted from 0, that a node does not have.
    #[error("node `{node}` has dimensions {dims:?}, found axis {axis}")]
    NoAxis { node: String, dims: Dims, axis: usize },
    /// A definition of a function that the language has.
    #[error("`{name}` is a function of the language; expected another name")]
    ReservedFunction { name: String },
    /// A name that is defined twice, of a kind such as `size`.
    #[error("{what} `{name}` is defined twice")]
    DefinedTwice { what: &'static str, name: String },
    /// A size without a value.
    #[error("size `{name}` has no value; bind one, or write it in the text as in `size {name} = 8`")]
    OpenSize { name: String },
    /// A size that a run gives, declared in a function or repetition.
    #[error(
        "size `{name}` has a bound, but no value, in a block; declare it outside of functions and repetitions"
    )]
    SizeInside { name: String },
    /// The bound of a size that a run gives is no size.
    #[error("size `{name}` has the bound {bound}, expected one from 1 to {max}")]
    SizeBound { name: String, bound: i64, max: i64 },
    /// An expression over sizes that a run gives has no value of 1 or more, or overflows.
    #[error("`{name}` is no size: its greatest value is not from 1 to the largest number")]
    NoSizeValue { name: String },
    /// A value bound to a size is not within the bound that the text has.
    #[error("size `{name}` is from 1 to {bound}, found {value}")]
    SizeRange { name: String, value: i64, bound: usize },
    /// A scan whose first value is not 0.
    #[error("a scan starts at 0, found {from}; expected `0..` and the letter plus {from} in its place")]
    ScanFrom { from: i64 },
    /// A scan without steps, or with too many.
    #[error("a scan has from 1 to 2⁴⁰ steps, found {steps}")]
    ScanSteps { steps: i64 },
    /// A condition of a scan with axes.
    #[error(
        "the condition of a scan has letter {letter}; expected a value without axes, such as a node of rank 0"
    )]
    ConditionLetter { letter: String },
    /// A condition of a scan that calls a function.
    #[error(
        "the condition of a scan calls {name}; expected a node that the body and a statement before it write"
    )]
    ConditionCall { name: String },
    /// A node with values of some steps only.
    #[error(transparent)]
    EarlyEnd(Box<assignments::EarlyEndError>),
    /// Checkpoints that do not divide the steps of a scan into equal parts.
    #[error("a scan of {steps} steps has no checkpoints every {every} steps; expected a divisor of {steps}")]
    Checkpoints { steps: i64, every: i64 },
    /// A gradient in the body of a scan.
    #[error("`grad` stands in a scan; expected it behind the scan, in which the loss may be computed")]
    GradientInScan,
    /// A value bound to a name that no size has.
    #[error("the text has no size `{name}`; {}", near_names(near))]
    UnknownSize { name: String, near: Vec<String> },
    /// More statements than the limit after expansion.
    #[error("the expanded program has more than {limit} statements")]
    TooManyStatements { limit: usize },
    /// A view that is written, or used as a whole.
    #[error("`{name}` is a view, whose elements can only be read")]
    ViewUse { name: String },
    /// Views of each other.
    #[error("view `{name}` is a view of itself")]
    ViewCycle { name: String },
    /// A view with another number of elements than its node.
    #[error(
        "view `{view}` has dimensions {dims:?}, but node `{node}` has {found:?}; expected as many elements"
    )]
    ViewSize { view: String, dims: Vec<i64>, node: String, found: Dims },
    /// A read of a view by a symbol without a range.
    #[error("a view is read by symbols with a range; expected one, as in `where @{symbol} < {range}`")]
    ViewSymbol { symbol: String, range: usize },
    /// A read of a view whose elements have no linear indices in the node.
    #[error("this read of node `{node}` needs a copy; write it first, as in `{copy}`")]
    ViewCopy { node: String, copy: String },
    /// A negative position in a family of nodes.
    #[error("nodes of the family `{name}` are numbered from 0, found {found}")]
    NegativeMember { name: String, found: i64 },
    /// A name in an integer that is no size.
    #[error(
        "`{name}` has no known value{}; expected numbers, letters of repetitions and sizes, as in `size d = 8`",
        if name.starts_with('@') { " before the program runs" } else { "" }
    )]
    NoInteger { name: String },
    /// A letter or symbol in the brackets that select a node of a family.
    #[error(
        "`{name}` has no known value, but these brackets select a node of a family, as in `w[2]` and `w[2][i,j]`; the \
         indices of one node stand in one pair of brackets"
    )]
    OpenPosition { name: String },
    /// A function that writes a parameter which it may only read.
    #[error("function `{function}` writes its parameter `{name}`; declare it as `inout {name}[..]`")]
    InputWritten { function: String, name: String },
    /// A result without a value.
    #[error("function `{function}` never writes its result `{name}`")]
    ResultNotWritten { function: String, name: String },
    /// A result whose first statement reads its earlier value.
    #[error(
        "result `{name}` has no value yet; expected an operator that starts from none, such as `:=` or `:+=`"
    )]
    ResultAccumulated { name: String },
    /// A function that reads a name which is not its own.
    #[error(
        "function `{function}` has no `{name}`, and reads only its parameters and own nodes; {}",
        near_names(near)
    )]
    OutsideFunction { function: String, name: String, near: Vec<String> },
    /// A row variable that no parameter of the function has.
    #[error("no parameter of function `{function}` has the axes `{row}`")]
    UnknownRow { function: String, row: String },
    /// A parameter or result of another number of axes.
    #[error("`{name}` has {}, found {}", counted(*expected, "axis", "axes"), counted(*found, "index", "indices"))]
    ParameterRank { name: String, expected: usize, found: usize },
    /// A function that fills a parameter or result which is a part of a node.
    #[error("`{name}` is a part of a node, or has other axes here; expected a whole node")]
    PartFilled { name: String },
    /// A call without an argument that it needs.
    #[error("function `{function}` has no argument for `{parameter}`")]
    MissingArgument { function: String, parameter: String },
    /// A named argument of no parameter.
    #[error("function `{function}` has no parameter `{name}`; {}", near_names(near))]
    UnknownParameter { function: String, name: String, near: Vec<String> },
    /// An argument with too few or too many axes.
    #[error(
        "parameter `{pattern}` of function `{function}` does not fit an argument with {}",
        axes_text(axes)
    )]
    ArgumentRank { function: String, pattern: String, axes: String },
    /// Arguments that disagree about an axis.
    #[error(
        "axis `{axis}` of function `{function}` is {} in an earlier argument, found {}",
        axes_text(expected),
        axes_text(found)
    )]
    AxisMismatch { function: String, axis: String, expected: String, found: String },
    /// A scalar argument with a letter.
    #[error("parameter `{parameter}` of function `{function}` is a scalar, found letter `{letter}`")]
    ScalarWithLetter { function: String, parameter: String, letter: String },
    /// A scalar argument with the size of a letter that no array has.
    #[error(
        "parameter `{parameter}` of function `{function}` has the size of the letter `{letter}`, which no argument has; \
         expected the size of an axis, as in `size(x, 0)`"
    )]
    ScalarSize { function: String, parameter: String, letter: String },
    /// An argument that a function would write, but cannot.
    #[error("function `{function}` writes `{parameter}`; expected a node with one letter per axis")]
    NotWritable { function: String, parameter: String },
    /// A call within an expression of a function that writes a parameter.
    #[error(
        "function `{function}` writes its parameter `{parameter}`; expected a call that is a statement of its own"
    )]
    WritesInExpression { function: String, parameter: String },
    /// A call with the wrong number of targets.
    #[error("function `{function}` has {}, found {}", counted(*expected, "result", "results"), counted(*found, "target", "targets"))]
    ResultCount { function: String, expected: usize, found: usize },
    /// A result with an axis that no argument has.
    #[error(
        "result `{result}` of function `{function}` has an axis that no argument has; write indices after the call, as in `{function}(..)[i,j]`"
    )]
    OpenResult { function: String, result: String },
    /// A function that calls itself: the functions from the first call to the call of the same function.
    #[error("function `{}` calls itself: {}", cycle.first().map_or("", String::as_str), cycle.join(" -> "))]
    Recursion { cycle: Vec<String> },
    /// A row variable outside of a function.
    #[error("`..` stands for the axes of a function's parameter; expected one index per axis")]
    RowOutsideFunction,
    /// An index that is not a sum of multiples of letters and symbols.
    #[error("an index is a sum of integers and integer multiples of letters and symbols; found {found}")]
    NotAffine { found: &'static str },
    /// A quotient in an index that is no integer.
    #[error("an index is an integer, and `{dividend} / {divisor}` is none")]
    NotWhole { dividend: i64, divisor: i64 },
    /// One letter indexes two axes of different sizes.
    #[error(
        "letter `{letter}` runs over {} (axis {from}), but axis {axis} of node `{node}` has {found}",
        counted_elements(*expected)
    )]
    Size { letter: String, expected: i64, from: String, node: String, axis: usize, found: usize },
    /// One letter indexes an axis whose size a run gives, and one of another size.
    #[error(
        "letter `{letter}` runs over {} (axis {from}), but axis {axis} of node `{node}` has {}",
        sizes[0],
        sizes[1]
    )]
    SizesDiffer { letter: String, sizes: Box<[String; 2]>, from: String, node: String, axis: usize },
    /// A letter of a concatenated axis has a range that a run gives.
    #[error(
        "`{axis}` is a concatenated axis, but a run gives the range `{size}` of one of its letters; expected constants"
    )]
    SizedConcat { axis: String, size: String },
    /// An index may reach beyond a size that a run gives.
    #[error(
        "index `{index}` may be `{size}` or more, but axis {axis} of node `{node}` has `{size}` elements{}",
        padded.as_ref().map(|padded| format!("; `{padded}` reads 0 outside")).unwrap_or_default()
    )]
    BeyondSize { index: String, size: String, node: String, axis: usize, padded: Option<String> },
    /// A view regroups an axis whose size a run gives.
    #[error(
        "view `{view}` of node `{node}` regroups axes whose sizes a run gives; expected each of them as an axis \
         of its own, with as many elements behind it"
    )]
    ViewOfSizes { view: String, node: String },
    /// The ranges of the letters of a concatenated axis do not add up to its size.
    #[error("`{letter}` has {} elements, but axis {axis} of node `{node}` has {found}", sum_text(parts))]
    ConcatSize { letter: String, parts: Vec<i64>, node: String, axis: usize, found: usize },
    /// A component of concatenated axes does not have exactly one target and one value.
    #[error("ambiguous{}: expected one {what}, found {}", where_runs(letters), found_list(found))]
    Ambiguous { letters: Vec<String>, what: &'static str, found: Vec<String> },
    /// Too many combinations of letters of concatenated axes.
    #[error("the concatenated axes have more than {limit} combinations of letters; split the statement")]
    TooManyParts { limit: usize },
    /// A letter without a range.
    #[error(
        "the range of letter `{letter}` is open; expected it as an index of its own somewhere, or a range as in `where {letter} < 8`{}",
        declaration.as_ref().map(|example| format!(", or a declaration such as `{example}`")).unwrap_or_default()
    )]
    OpenRange { letter: String, declaration: Option<String> },
    /// A range that contradicts another, is empty or is too large.
    #[error("`{name} < {range}` {conflict}")]
    BadRange { name: String, range: i128, conflict: String },
    /// A bound in `where` that no loop can have.
    #[error("`{bound}` {why}")]
    Bound { bound: String, why: String },
    /// A `where` constrains a letter that does not occur in the statement.
    #[error("letter `{letter}` does not occur in the statement")]
    UnusedLetter { letter: String },
    /// An index outside its axis, with its least and its greatest value. `padded` is the padded access that
    /// reads 0 outside, if it is possible here; `inferred` is the line of the statement that gave an
    /// intermediate its dimensions, and a declaration that makes it larger.
    #[error(
        "index `{index}` takes values {lo}..={hi}, but axis {axis} of node `{node}` has {}{}{}",
        counted_elements(*size),
        padded.as_ref().map(|padded| format!("; `{padded}` reads 0 outside")).unwrap_or_default(),
        inferred.as_ref().map(|place| dims_origin(place.0, &place.1)).unwrap_or_default()
    )]
    OutOfBounds {
        index: String,
        lo: i64,
        hi: i64,
        node: String,
        axis: usize,
        size: usize,
        padded: Option<String>,
        inferred: Option<Box<(usize, String)>>,
    },
    /// A computed index whose type is no integer type.
    #[error("the index of axis {axis} of node `{node}` is of type {dtype}, expected an integer type")]
    IndexType { node: String, axis: usize, dtype: DType },
    /// More than one computed index in an access.
    #[error("`{access}` has {found} computed indices, expected at most one")]
    SeveralComputed { access: String, found: usize },
    /// A plain assignment with a letter that its target lacks, so that several values go to one element.
    /// `is_node` says that an integer without axes has the name of the letter.
    #[error(
        "`:=` stores one value per element, but `{letter}` is not among the indices of `{node}`; expected {}",
        instead_of_letter(letter, *is_node)
    )]
    NotReduced { letter: String, node: String, is_node: bool },
    /// A plain assignment whose indices may reach one element several times.
    #[error(
        "`:=` stores one value per element, but these indices may reach an element of `{node}` more than once; expected an \
         accumulation such as `:+=`"
    )]
    Overlap { node: String },
    /// A list of values of the wrong length, or longer than the limit.
    #[error("node `{node}` has {}, found {found} values; at most {limit} may be given", counted_elements(*elements))]
    Values { node: String, elements: usize, found: usize, limit: usize },
    /// A function that fills a node, used as a value.
    #[error("`{name}` fills a whole node and is no value; expected a statement of its own: `{form}`")]
    NoValue { name: String, form: String },
    /// A random number with too many indices.
    #[error("a random number has at most {limit} indices")]
    RandomIndices { limit: usize },
    /// The size of a name that is no letter.
    #[error("`{name}` is no index letter of this statement, so it has no size")]
    NoLetter { name: String },
    /// A statement reads a node that it writes, and the result would depend on the order of the loops.
    #[error("node `{node}` is read while it is written: {why}; write to another node first")]
    SelfRead { node: String, why: &'static str },
    /// A number that the type cannot represent.
    #[error("{value} is out of the range of {dtype}")]
    Literal { value: String, dtype: DType },
    /// An integer in a list of values that `f64` cannot represent.
    #[error(
        "{value} is not exact in a list of values, which is one of f64; assign it to its element, as in `y[0] := {value}`"
    )]
    Inexact { value: String },
    /// An error about a gradient.
    #[error(transparent)]
    Gradient(#[from] TextGradientError),
    /// An error about a node, such as unsettled dimensions.
    #[error(transparent)]
    Node(#[from] tnode::TensorNodeError),
}

/// The kind of an error about a gradient in a text.
#[derive(thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum TextGradientError {
    /// A loss that is no float of rank 0.
    #[error("the loss of a gradient is a float of rank 0, found `{name} {dtype}{dims:?}`")]
    Loss { name: String, dtype: DType, dims: Vec<usize> },
    /// A loss that the program does not compute.
    #[error("no statement before this one writes the loss `{name}`")]
    LossNotWritten { name: String },
    /// A parameter or gradient of integers.
    #[error("node `{name}` is of {dtype}; expected a float, since integers have no derivatives")]
    Integer { name: String, dtype: DType },
    /// A read of a gradient that nothing computes.
    #[error(
        "no statement before this one computes `{name}`; expected `grad loss by {parameter}`, where `loss` is the node to \
         differentiate"
    )]
    NotComputed { name: String, parameter: String },
}
