//! Einsum text: projections from axis labels.
//!
//! ```
//! use assignments::indexing::einsum;
//! use tnode::Dims;
//!
//! let dims = |dims: &[usize]| Dims::from_slice(dims);
//! let matmul = einsum::resolve("m,k; k,n => m,n", &[dims(&[4, 8]), dims(&[8, 2])], &[4, 2])?;
//! assert_eq!(matmul.projections.product_space(), [4, 2, 8]);
//!
//! let error = einsum::resolve("mk; kn => mn", &[dims(&[4, 8]), dims(&[6, 2])], &[4, 2]).unwrap_err();
//! assert_eq!(error.to_string(), "\
//! einsum text, column 5: label `k` has 8 elements in operand 1, found 6
//! 1 | mk; kn => mn
//!   |     ^");
//! # Ok::<(), einsum::SpecError>(())
//! ```
//!
//! # Grammar
//!
//! ```text
//! spec    = operand { ";" operand } "=>" operand { ";" operand }      operands read => the array written
//! operand = [ row "|" ] [ row "->" ] row                  batch | input -> output axes
//! row     = axes [ ellipsis axes ]
//! ellipsis = "..." | ".." label ".."
//! axes    = { axis "," } [ axis ]                         with commas; without: one character per axis
//! axis    = label | "_" | integer | window | label "^" label { "^" label }
//! window  = [ integer "*" ] label [ "<" | "=" ] [ "+" ( [ integer "*" ] label | integer ) ]
//! ```
//!
//! * If there is a `,`, `*`, `+` or `<` anywhere in the text, labels are whole words and commas separate
//!   axes; otherwise every letter or digit is an axis of its own. White space only separates words.
//! * The dimensions of an array are its batch axes, its output axes and its input axes, in this order: a
//!   matrix is `input -> output`, and its first dimension is the rows. A kind that the text omits has no
//!   axes.
//! * Axes with the same label share an iterator and have the same size; nothing is broadcast. Each `_` is a
//!   distinct label. Labels that the array written lacks are reduced over.
//! * An integer is a fixed index.
//! * An ellipsis stands for any number of axes: `..r..` for the same axes wherever `r` occurs, `...` for axes
//!   that are named after the kind of their row (`batch`, `input` or `output`). Their number follows from the
//!   dimensions.
//! * `stride*o + dilation*k` is the index of a window; an integer in place of the kernel term is an offset.
//!   With `<` after the output label, all windows lie within the axis. Without it, or with `=`, the axis is
//!   padded on the left by half the kernel's span, as for a convolution that preserves the size;
//!   [`ResolvedEinsum::padding`] is the padding that the operand must have.
//! * `a^b` is the concatenation of the axes `a` and `b`. Only `resolve_parts` accepts such axes, with
//!   several operands (`a; b => a^b` concatenates) or several arrays written (`a^b => a; b` splits). For each
//!   label it pairs one operand with one array written.

mod parse;
mod solve;

use std::fmt;
use std::ops::Range;

use tnode::Dims;

use super::Projections;
use lowered_ir::SourceSpan;

/// The meaning of an einsum text for arrays of given dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedEinsum {
    /// The projections. The product axes are the axes of the array written, in order, then the reduced axes
    /// in order of appearance.
    pub projections: Projections,
    /// For each operand and axis, the left and right padding that windows need, in elements.
    pub padding: Vec<Vec<(usize, usize)>>,
}

/// A component of an einsum text with concatenated axes: one label of each such axis is active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EinsumComponent {
    /// The position of the array written.
    pub target: usize,
    /// The positions of the component's operands.
    pub operands: Vec<usize>,
    /// The projections of these arrays.
    pub projections: Projections,
    /// For each of the component's operands and each axis, the left and right padding that windows need, in
    /// elements.
    pub padding: Vec<Vec<(usize, usize)>>,
}

/// Parses an einsum text with concatenated axes, for operands of dimensions `rhs` and arrays written of
/// dimensions `lhs`, all without padding. A component consists of one operand and one array written: the only
/// ones all of whose labels are active in it.
///
/// # Errors
/// If the text does not follow the grammar, does not fit the dimensions or is ambiguous. The error points
/// into the text.
pub(crate) fn resolve_parts(
    spec: &str,
    rhs: &[Dims],
    lhs: &[Dims],
) -> Result<Vec<EinsumComponent>, SpecError> {
    let parts = parse::parse(spec).and_then(|arrays| solve::solve(spec, &arrays, rhs, lhs, false));
    parts.map_err(|located| SpecError::new(located, spec))
}

/// Parses an einsum text for operands of dimensions `rhs` and a target of dimensions `lhs`, all without
/// padding.
///
/// # Errors
/// If the text does not follow the grammar or does not fit the dimensions. The error points into the text.
pub fn resolve(spec: &str, rhs: &[Dims], lhs: &[usize]) -> Result<ResolvedEinsum, SpecError> {
    let lhs = [Dims::from_slice(lhs)];
    let parts = parse::parse(spec).and_then(|arrays| {
        arrays.reject_concatenation()?;
        solve::solve(spec, &arrays, rhs, &lhs, true)
    });
    let mut parts = parts.map_err(|located| SpecError::new(located, spec))?;
    let EinsumComponent { projections, padding, .. } =
        parts.pop().expect("without concatenated axes there is one part");
    Ok(ResolvedEinsum { projections, padding })
}

/// An error in an einsum text. Displays the message and the text with carets under the source span.
#[derive(Clone, PartialEq, Eq)]
pub struct SpecError {
    kind: Box<SpecErrorKind>,
    span: SourceSpan,
}

/// The kind of an error in an einsum text.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum SpecErrorKind {
    /// The text does not follow the grammar.
    #[error("expected {expected}, found {found}")]
    Syntax { expected: &'static str, found: String },
    /// A concatenated axis in a text for [`resolve`].
    #[error(
        "concatenation `^` is for texts whose operands are taken one at a time; here all of them are combined"
    )]
    Concatenation,
    /// The sizes of the labels of a concatenated axis do not add up to its size.
    #[error("`{label}` has {} elements, but {array} has {found}", parts.iter().map(usize::to_string).collect::<Vec<_>>().join(" + "))]
    Parts { label: String, parts: Vec<usize>, array: super::ArrayRole, found: usize },
    /// A component of concatenated axes does not have exactly one operand and one array written.
    #[error("ambiguous where {} runs: expected one {what}, found {}", labels.join(" and "), if found.is_empty() { "none".to_owned() } else { found.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(" and ") })]
    Ambiguous { labels: Vec<String>, what: &'static str, found: Vec<String> },
    /// Too many combinations of labels of concatenated axes.
    #[error("the concatenated axes have more than {limit} combinations of labels")]
    TooManyParts { limit: usize },
    /// The text has another number of arrays than the caller.
    #[error("the text has {found} {}, expected {expected}", if *written { "arrays written" } else { "operands" })]
    Operands { expected: usize, found: usize, written: bool },
    /// The text gives an array another number of axes than it has.
    #[error("{array} has {} axes {dims:?}, the text gives it {found}{}", dims.len(), if *open { " or more" } else { "" })]
    Rank { array: super::ArrayRole, dims: Dims, found: usize, open: bool },
    /// The length of an ellipsis does not follow from the dimensions.
    #[error("the number of axes of `..{row}..` does not follow from the dimensions")]
    OpenRow { row: String },
    /// One label on axes of different sizes.
    #[error("label `{label}` has {expected} elements in {first}, found {found}")]
    Size { label: String, expected: usize, first: super::ArrayRole, found: usize },
    /// A label that is no axis by itself, so that its size is unknown.
    #[error("the size of label `{label}` is open; expected it as an axis of its own somewhere")]
    OpenSize { label: String },
    /// An index outside its axis.
    #[error("the index takes values {lo}..={hi}, but {array} has {size} elements on axis {axis}")]
    OutOfBounds { lo: i64, hi: i64, array: super::ArrayRole, axis: usize, size: usize },
}

/// An error with a byte range, before the text is attached.
type LocatedSpecError = (Box<SpecErrorKind>, Range<usize>);

impl SpecErrorKind {
    fn at(self, span: &Range<usize>) -> LocatedSpecError {
        (Box::new(self), span.clone())
    }
}

impl SpecError {
    fn new((kind, span): LocatedSpecError, spec: &str) -> SpecError {
        SpecError { kind, span: SourceSpan::new(spec, span) }
    }

    /// The kind of the error.
    pub fn kind(&self) -> &SpecErrorKind {
        &self.kind
    }

    /// The source span, in bytes of the text.
    pub fn span(&self) -> Range<usize> {
        self.span.bytes()
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "einsum text, column {}: {}\n{}", self.span.column(), self.kind, self.span)
    }
}

impl std::error::Error for SpecError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::indexing::AxisIndex;

    fn dims(rhs: &[&[usize]]) -> Vec<Dims> {
        rhs.iter().map(|dims| Dims::from_slice(dims)).collect()
    }

    /// The projections as text: product space, left-hand side, operands.
    fn shown(spec: &str, rhs: &[&[usize]], lhs: &[usize]) -> String {
        let resolved = resolve(spec, &dims(rhs), lhs).unwrap_or_else(|error| panic!("{error}"));
        let p = &resolved.projections;
        let index = |index: &AxisIndex| crate::affine_text(&index.affine(), |var| var.to_string());
        let list = |indices: &[AxisIndex]| indices.iter().map(index).collect::<Vec<_>>().join(", ");
        let rhs = p.project_rhs().iter().map(|projection| format!("[{}]", list(projection)));
        let rhs = rhs.collect::<Vec<_>>().join(" ");
        format!("{:?} {rhs} => [{}]", p.product_space(), list(p.project_lhs()))
    }

    #[test]
    fn labels_words_and_single_characters() {
        assert_eq!(
            shown("ik; kj => ij", &[&[2, 3], &[3, 4]], &[2, 4]),
            "[2, 4, 3] [i0, i2] [i2, i1] => [i0, i1]"
        );
        let words = shown("row, mid; mid, col => row, col", &[&[2, 3], &[3, 4]], &[2, 4]);
        assert_eq!(words, "[2, 4, 3] [i0, i2] [i2, i1] => [i0, i1]");
        assert_eq!(shown("ij => ji", &[&[2, 3]], &[3, 2]), "[3, 2] [i1, i0] => [i0, i1]");
        assert_eq!(shown("ii => i", &[&[3, 3]], &[3]), "[3] [i0, i0] => [i0]");
        assert_eq!(shown("i => ", &[&[3]], &[]), "[3] [i0] => []");
        assert_eq!(shown("i, => i,", &[&[3]], &[3]), "[3] [i0] => [i0]");
    }

    #[test]
    fn kinds_of_axes_are_batch_output_input() {
        let found = shown("b | i->o; b | i => b | o", &[&[5, 4, 3], &[5, 3]], &[5, 4]);
        assert_eq!(found, "[5, 4, 3] [i0, i1, i2] [i0, i2] => [i0, i1]");
    }

    #[test]
    fn fixed_indices_and_placeholders() {
        assert_eq!(
            shown("bhwc => b00c", &[&[2, 3, 4, 5]], &[2, 1, 1, 5]),
            "[2, 5, 3, 4] [i0, i2, i3, i1] => [i0, 0, 0, i1]"
        );
        assert_eq!(shown("i12 => i", &[&[3, 2, 3]], &[3]), "[3] [i0, 1, 2] => [i0]");
        assert_eq!(shown("i__ => i", &[&[3, 2, 2]], &[3]), "[3, 2, 2] [i0, i1, i2] => [i0]");
    }

    #[test]
    fn ellipses_take_the_axes_that_are_left() {
        let batched = shown("...|ik; ...|kj => ...|ij", &[&[7, 6, 2, 3], &[7, 6, 3, 4]], &[7, 6, 2, 4]);
        assert_eq!(batched, "[7, 6, 2, 4, 3] [i0, i1, i2, i4] [i0, i1, i4, i3] => [i0, i1, i2, i3]");
        let middle = shown("a..mid..z => z..mid..a", &[&[2, 3, 4, 5]], &[5, 3, 4, 2]);
        assert_eq!(middle, "[5, 3, 4, 2] [i3, i1, i2, i0] => [i0, i1, i2, i3]");
        assert_eq!(shown("... => 0", &[&[2, 3]], &[1]), "[2, 3] [i0, i1] => [0]");
    }

    #[test]
    fn windows() {
        let valid = shown("2*o<+k; k => o", &[&[9], &[3]], &[4]);
        assert_eq!(valid, "[4, 3] [2*i0 + i1] [i1] => [i0]");
        let same = resolve("o+2*k; k => o", &dims(&[&[6], &[3]]), &[6]).unwrap();
        assert_eq!(same.padding, [vec![(2, 2)], vec![(0, 0)]]);
        assert_eq!(same.projections.project_rhs()[0][0].affine().offset(), -2);
        let marked = resolve("o=+2*k; k => o", &dims(&[&[6], &[3]]), &[6]).unwrap();
        assert_eq!(
            (marked.projections.project_rhs(), marked.padding),
            (same.projections.project_rhs(), same.padding)
        );
        assert_eq!(shown("o+1 => o", &[&[4]], &[3]), "[3] [i0 + 1] => [i0]");
        assert_eq!(shown("2*o, => o", &[&[6]], &[3]), "[3] [2*i0] => [i0]");
    }

    #[test]
    fn concatenated_axes_are_parts() {
        let parts = |spec: &str, rhs: &[&[usize]], lhs: &[&[usize]]| {
            let parts = resolve_parts(spec, &dims(rhs), &dims(lhs)).unwrap_or_else(|error| panic!("{error}"));
            let index = |index: &AxisIndex| crate::affine_text(&index.affine(), |var| var.to_string());
            let list = |indices: &[AxisIndex]| indices.iter().map(index).collect::<Vec<_>>().join(", ");
            let shown = parts.iter().map(|part| {
                let p = &part.projections;
                let (lhs, rhs) = (list(p.project_lhs()), list(&p.project_rhs()[0]));
                format!("{:?} {}[{rhs}] => {}[{lhs}]\n", p.product_space(), part.operands[0], part.target)
            });
            shown.collect::<String>()
        };
        assert_eq!(parts("i;j=>i^j", &[&[2], &[3]], &[&[5]]), "[2] 0[i0] => 0[i0]\n[3] 1[i0] => 0[i0 + 2]\n");
        assert_eq!(parts("i^j=>i;j", &[&[5]], &[&[2], &[3]]), "[2] 0[i0] => 0[i0]\n[3] 0[i0 + 2] => 1[i0]\n");
        let wide = parts("...|b,i ; ...|b,j => ...|b,i^j", &[&[4, 7, 2], &[4, 7, 1]], &[&[4, 7, 3]]);
        let expected = "[4, 7, 2] 0[i0, i1, i2] => 0[i0, i1, i2]\n[4, 7] 1[i0, i1, 0] => 0[i0, i1, 2]\n";
        assert_eq!(wide, expected);
    }

    proptest! {
        #[test]
        fn no_text_panics(spec in "[a-c0-2_ ,;|*+<=>^.-]{0,24}", ranks in prop::collection::vec(0usize..4, 1..4)) {
            let all: Vec<Dims> = ranks.iter().map(|&rank| Dims::from_elem(2, rank)).collect();
            let (lhs, rhs) = all.split_first().expect("not empty");
            // The text may be accepted or rejected.
            if let Ok(resolved) = resolve(&spec, rhs, lhs) {
                prop_assert_eq!(resolved.padding.len(), rhs.len());
            }
        }
    }
}
