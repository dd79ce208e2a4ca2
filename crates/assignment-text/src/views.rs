//! Reads of views as reads of their nodes.
//!
//! A view has the elements of its node in row-major order under other dimensions. A read of a view is
//! resolved and checked in the view's dimensions. Then its indices become indices of the node: the offset of
//! the element, a sum of multiples of letters, is written with one digit per axis of the node. A digit takes
//! the terms that are multiples of its stride, and the remaining terms must stay below that stride.
//!
//! If one letter runs over several axes of the node, as in a flattened read, the letter is split in two: `n`
//! becomes `25*n.0 + n.1`, in that order, everywhere in the statement. So the loops run in the same order as
//! before.

use tnode::Dims;

use crate::error::{Result, TextErrorKind};
use crate::number::Number;
use crate::tree::{Letter, NodeAccess, ResolvedExprKind, ResolvedProgram, ResolvedStatement, StepKind};
use assignments::indexing::{StaticSymbol, axis_iterator, extent};
use lowered_ir::ir::{Affine, Var};

/// Replaces all reads of views. A statement may get more letters.
pub(crate) fn views(program: ResolvedProgram, symbols: &[StaticSymbol]) -> ResolvedProgram {
    program.each(|_, step| match &mut step.kind {
        StepKind::Ranged(statement, ranges) => replace(statement, ranges, symbols),
        _ => Ok(()),
    })
}

fn replace(statement: &mut ResolvedStatement, ranges: &mut Vec<i64>, symbols: &[StaticSymbol]) -> Result<()> {
    while let Some((letter, inner)) = next_split(statement, ranges, symbols)? {
        split(statement, ranges, letter, inner);
    }
    statement.each_source_mut(&mut |read: &mut NodeAccess| {
        if read.view.is_some()
            && let Ok(digits) = digits(read, ranges, symbols)
        {
            read.index = digits.into_iter().map(|digit| (digit, read.span.clone())).collect();
            read.dims = node_dims(read);
            read.sizes = read.node.run_sizes().into();
            read.view = None;
        }
    });
    Ok(())
}

/// The reason why a read of a view has no indices in its node.
enum Obstacle {
    /// A letter that must be split, and the number of values of its inner part.
    Split(usize, i64),
    /// A symbol that has no range, and the axis that it indexes.
    Symbol(String, usize),
    Copy,
}

/// The letter that must be split next, and the number of values of its inner part.
fn next_split(
    statement: &ResolvedStatement,
    ranges: &[i64],
    symbols: &[StaticSymbol],
) -> Result<Option<(usize, i64)>> {
    let mut result = Ok(None);
    statement.each_read(&mut |read| {
        if read.view.is_none() || !matches!(result, Ok(None)) {
            return;
        }
        let located = |kind: TextErrorKind| Err(kind.at(&read.span));
        result = match digits(read, ranges, symbols) {
            Ok(_) => Ok(None),
            Err(Obstacle::Split(letter, inner)) if is_plain(statement, letter) => Ok(Some((letter, inner))),
            Err(Obstacle::Split(..) | Obstacle::Copy) => {
                located(TextErrorKind::ViewCopy { node: read.node.name(), copy: copy(read) })
            }
            Err(Obstacle::Symbol(symbol, axis)) => {
                located(TextErrorKind::ViewSymbol { symbol, range: read.dims[axis] })
            }
        };
    });
    result
}

/// Whether a letter neither is a concatenated axis nor belongs to one.
fn is_plain(statement: &ResolvedStatement, letter: usize) -> bool {
    let letters = &statement.letters;
    letters[letter].parts.is_empty() && letters.iter().all(|other| !other.parts.contains(&letter))
}

fn node_dims(read: &NodeAccess) -> Dims {
    read.node.dims_without_padding().unwrap_or_default()
}

/// Statements that store the elements of the node of a view in a node whose views need no copy.
fn copy(read: &NodeAccess) -> String {
    let (dims, node) = (node_dims(read), read.node.name());
    let letters: Vec<String> = (0..dims.len()).map(|axis| format!("i{axis}")).collect();
    let mut terms = Vec::new();
    for (letter, stride) in letters.iter().zip(strides(&dims)) {
        terms.push(if stride == 1 { letter.clone() } else { format!("{stride}*{letter}") });
    }
    let sizes: Vec<String> = read.dims.iter().map(usize::to_string).collect();
    format!(
        "flat[{}] := {node}[{}]; view v = flat as [{}]",
        terms.join(" + "),
        letters.join(","),
        sizes.join(", ")
    )
}

/// The row-major strides of an array without axes of size 0.
fn strides(dims: &[usize]) -> Vec<i64> {
    let mut strides = vec![1; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis] * extent(dims[axis]);
    }
    strides
}

/// A part of an element's offset.
struct OffsetTerm {
    index: Affine,
    /// The distance of elements whose indices differ by 1.
    stride: i64,
    /// The greatest value of the index; the least one is not negative.
    max: i64,
}

/// The indices in the node of an element of a view.
fn digits(read: &NodeAccess, ranges: &[i64], symbols: &[StaticSymbol]) -> Result<Vec<Affine>, Obstacle> {
    let dims = node_dims(read);
    // Without elements, nothing is read.
    if dims.contains(&0) || ranges.contains(&0) {
        return Ok(vec![Affine::constant(0); dims.len()]);
    }
    let mut rest = offset_terms(read, ranges, symbols)?;
    let mut digits = Vec::new();
    for stride in strides(&dims) {
        let mut digit = Affine::constant(0);
        let mut low = Vec::new();
        for term in rest {
            match term.index.as_constant() {
                _ if term.stride % stride == 0 => {
                    digit = digit.plus(&term.index.times(term.stride / stride));
                }
                Some(value) => {
                    digit = digit.plus_constant(value * term.stride / stride);
                    let (index, max) =
                        (Affine::constant(value * term.stride % stride), value * term.stride % stride);
                    low.push(OffsetTerm { index, stride: 1, max });
                }
                None => low.push(term),
            }
        }
        if low.iter().map(|term| term.stride * term.max).sum::<i64>() >= stride {
            return Err(low
                .iter()
                .find_map(|term| splittable(term, stride, ranges))
                .unwrap_or(Obstacle::Copy));
        }
        digits.push(digit);
        rest = low;
    }
    Ok(digits)
}

/// The letter to split so that its outer part is a multiple of the stride and its inner part is below it.
fn splittable(term: &OffsetTerm, stride: i64, ranges: &[i64]) -> Option<Obstacle> {
    let Some(Var::Loop(letter)) = term.index.as_var() else { return None };
    let inner = stride / term.stride;
    let fits = stride % term.stride == 0 && ranges[letter.index()] % inner == 0 && term.max >= inner;
    fits.then_some(Obstacle::Split(letter.index(), inner))
}

/// The parts of an element's offset: one per term of each index, or one per index with negative terms.
fn offset_terms(
    read: &NodeAccess,
    ranges: &[i64],
    symbols: &[StaticSymbol],
) -> Result<Vec<OffsetTerm>, Obstacle> {
    if read.computed.is_some() {
        return Err(Obstacle::Copy);
    }
    let mut terms = Vec::new();
    for (axis, ((index, _), stride)) in read.index.iter().zip(strides(&read.dims)).enumerate() {
        let mut last = Vec::new();
        for &(var, _) in index.terms() {
            last.push(match var {
                Var::Loop(id) => ranges[id.index()] - 1,
                Var::Symbol(id) => {
                    let symbol = &symbols[id.index()];
                    let open = || Obstacle::Symbol(symbol.name.clone(), axis);
                    symbol.range.ok_or_else(open)? - 1
                }
            });
        }
        if index.offset() < 0 || index.terms().iter().any(|&(_, c)| c < 0) {
            terms.push(OffsetTerm { index: index.clone(), stride, max: extent(read.dims[axis]) - 1 });
            continue;
        }
        for (&(var, c), max) in index.terms().iter().zip(last).filter(|((_, c), _)| *c != 0) {
            terms.push(OffsetTerm { index: Affine::var(var), stride: stride * c, max });
        }
        terms.push(OffsetTerm { index: Affine::constant(index.offset()), stride, max: index.offset() });
    }
    Ok(terms)
}

/// Replaces a letter by `inner · outer part + inner part` everywhere.
fn split(statement: &mut ResolvedStatement, ranges: &mut Vec<i64>, letter: usize, inner: i64) {
    let range = ranges[letter];
    // Every field with letters must be renamed below.
    let ResolvedStatement { letters: _, lhs, rhs, conditions, op: _, init: _, op_span: _, span: _, frame: _ } =
        statement;
    let moved = |at: usize| if at > letter { at + 1 } else { at };
    let renamed = |index: &Affine| {
        index.terms().iter().fold(Affine::constant(index.offset()), |sum, &(var, c)| match var {
            Var::Loop(id) if id.index() == letter => {
                let outer = Affine::term(axis_iterator(letter), c * inner);
                sum.plus(&outer).plus(&Affine::term(axis_iterator(letter + 1), c))
            }
            Var::Loop(id) => sum.plus(&Affine::term(axis_iterator(moved(id.index())), c)),
            Var::Symbol(_) => sum.plus(&Affine::term(var, c)),
        })
    };
    lhs.iter_mut().for_each(|target| target.map(&renamed));
    rhs.iter_mut().for_each(|value| value.map(&renamed));
    conditions.iter_mut().for_each(|(condition, _)| *condition = renamed(condition));
    statement.each_kind_mut(&mut |kind| {
        if let ResolvedExprKind::Size(of) = kind {
            *kind = match *of == letter {
                true => ResolvedExprKind::Number(Number::integer(range)),
                false => ResolvedExprKind::Size(moved(*of)),
            };
        }
    });
    let letters = &mut statement.letters;
    for other in letters.iter_mut() {
        other.parts.iter_mut().for_each(|part| *part = moved(*part));
    }
    let Letter { name, span, .. } = &letters[letter];
    let part = |at: usize| Letter {
        name: format!("{name}.{at}"),
        span: span.clone(),
        declared: None,
        size: None,
        parts: vec![],
        node: None,
    };
    letters.splice(letter..=letter, [part(0), part(1)]);
    ranges.splice(letter..=letter, [range / inner, inner]);
}
