//! The meaning of names at a place of a program, and checks of definitions.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use tnode::RunSize;

use crate::ast::{Access, Def, Expr, Item, Parameter, Pattern, PatternAxis, Repeat, Role, Statement};
use crate::constraint::Constraint;
use crate::error::{LocatedError, Result, TextErrorKind};
use crate::linear::{AxisSize, IndexExpr};
use crate::source::Frame;
use assignments::{AccumOp, ByteRange};

/// The meaning of names at a place of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// The sizes and the letters of repetitions, with their numbers.
    pub(super) integers: BTreeMap<String, i64>,
    /// The sizes that a run gives and those that follow from them, which are symbols.
    pub(super) run_sizes: BTreeMap<String, RunSize>,
    /// The sizes among `integers` that have a bound in the text, and a number from the caller.
    pub(super) bound: BTreeSet<String>,
    /// The sizes in whose symbols a statement has been rewritten since [`Expansion`](super::Expansion) entered
    /// them last.
    pub(super) named: Rc<RefCell<Vec<RunSize>>>,
    /// The letters of scans, with the names of their symbols.
    pub(super) steps: BTreeMap<String, String>,
    /// The function being expanded.
    pub(super) function: Option<Arc<FunctionScope>>,
    /// The calls and repetitions around the place.
    pub(super) frame: Option<Arc<Frame>>,
}

/// The meaning of a function's names in one call.
#[derive(Clone, Debug)]
pub(super) struct FunctionScope {
    pub(super) function: String,
    /// The prefix of the function's own names in this call, such as `softmax.1`.
    pub(super) prefix: String,
    pub(super) locals: BTreeSet<String>,
    /// The parameters that the function only reads.
    pub(super) inputs: BTreeSet<String>,
    /// The nodes in place of the parameters and results that are arrays.
    pub(super) arrays: BTreeMap<String, ArrayBinding>,
    /// The values of the other parameters.
    pub(super) scalars: BTreeMap<String, Expr>,
    /// The axis that each letter of the parameters, row variables included, stands for.
    pub(super) axes: BTreeMap<String, AxisSize>,
    /// The letters in place of each row variable.
    pub(super) rows: BTreeMap<String, Vec<String>>,
}

/// The place of a call.
pub(super) struct CallSite<'a> {
    /// The letters of the statement around it.
    pub(super) letters: &'a [String],
    pub(super) constraints: &'a [Constraint],
    pub(super) frame: &'a Option<Arc<Frame>>,
    /// The targets that receive the results as they are; empty within an expression.
    pub(super) targets: &'a [Access],
}

/// The node in place of a parameter or result, with an index for each of its axes.
#[derive(Clone, Debug)]
pub(super) struct ArrayBinding {
    pub(super) name: String,
    pub(super) merge: bool,
    pub(super) axes: Vec<AxisBinding>,
}

/// The index of an axis of the node in place of a parameter or result.
#[derive(Clone, Debug)]
pub(super) enum AxisBinding {
    /// The index of that axis of the parameter.
    Axis(usize),
    /// An index without letters.
    Fixed(IndexExpr),
}

impl Scope {
    /// Rejects the letter of a repetition or scan that has a meaning already.
    pub(super) fn reject_letter(&self, repeat: &Repeat) -> Result<()> {
        let is_size =
            self.integers.contains_key(&repeat.letter) || self.run_sizes.contains_key(&repeat.letter);
        match is_size || self.steps.contains_key(&repeat.letter) {
            true => Err(twice("letter", &repeat.letter, &repeat.letter_span)),
            false => Ok(()),
        }
    }
}

impl ArrayBinding {
    /// A node with the axes of the parameter or result.
    pub(super) fn whole(name: String, rank: usize) -> ArrayBinding {
        ArrayBinding { name, merge: false, axes: (0..rank).map(AxisBinding::Axis).collect() }
    }

    /// The number of axes of the parameter or result.
    pub(super) fn rank(&self) -> usize {
        self.axes.iter().filter(|axis| matches!(axis, AxisBinding::Axis(_))).count()
    }

    /// The axis of the node that an axis of the parameter stands for.
    pub(super) fn axis_size(&self, axis: usize) -> Option<AxisSize> {
        let is_it = |found: &AxisBinding| matches!(found, AxisBinding::Axis(of) if *of == axis);
        let axis = self.axes.iter().position(is_it)?;
        Some(AxisSize { node: self.name.clone(), family: Vec::new(), axis })
    }

    /// Enters the axes of the node that these letters of the parameter's axes stand for.
    pub(super) fn enter_sizes<'a>(
        &self,
        letters: impl IntoIterator<Item = &'a String>,
        into: &mut BTreeMap<String, AxisSize>,
    ) {
        for (at, letter) in letters.into_iter().enumerate() {
            if let Some(size) = self.axis_size(at) {
                into.entry(letter.clone()).or_insert(size);
            }
        }
    }

    /// Whether the node has exactly the axes of the parameter or result, in this order.
    pub(super) fn is_whole(&self) -> bool {
        let in_order = |(at, axis): (usize, &AxisBinding)| matches!(axis, AxisBinding::Axis(of) if *of == at);
        !self.merge && self.axes.iter().enumerate().all(in_order)
    }
}

impl FunctionScope {
    /// Records the axes of the node in place of a parameter, whose row variables have letters.
    pub(super) fn enter_axes(&mut self, parameter: &Parameter) {
        let Parameter::Array { pattern, .. } = parameter else { return };
        let Some(node) = self.arrays.get(&pattern.name) else { return };
        let letters = pattern.axes.iter().flat_map(|axis| match axis {
            PatternAxis::Letter(letter, _) => std::slice::from_ref(letter),
            PatternAxis::Row(row) => self.rows.get(&row.name).map_or(&[][..], Vec::as_slice),
        });
        node.enter_sizes(letters, &mut self.axes);
    }
}

/// Checks the names of a definition, and that it writes its results before it reads them.
pub(super) fn check(def: &Def) -> Result<()> {
    let mut names = BTreeSet::new();
    let parameters = def.parameters.iter().map(|parameter| (parameter.name(), parameter.name_span()));
    let results = def.results.iter().map(|result| (result.name.as_str(), &result.name_span));
    for (name, span) in parameters.chain(results) {
        if !names.insert(name) {
            return Err(twice("parameter or result", name, span));
        }
    }
    for parameter in &def.parameters {
        if let Parameter::Array { pattern, inout } = parameter {
            check_pattern(pattern)?;
            let written = first_write(&def.body, &pattern.name);
            if let Some((_, span)) = written.filter(|_| !inout) {
                let (function, name) = (def.name.clone(), pattern.name.clone());
                return Err(TextErrorKind::InputWritten { function, name }.at(&span));
            }
        }
    }
    def.results.iter().try_for_each(|result| {
        check_pattern(result)?;
        match first_write(&def.body, &result.name) {
            Some((true, _)) => Ok(()),
            Some((false, span)) => {
                Err(TextErrorKind::ResultAccumulated { name: result.name.clone() }.at(&span))
            }
            None => {
                let (function, name) = (def.name.clone(), result.name.clone());
                Err(TextErrorKind::ResultNotWritten { function, name }.at(&result.span))
            }
        }
    })
}

fn check_pattern(pattern: &Pattern) -> Result<()> {
    let mut letters = BTreeSet::new();
    pattern.axes.iter().try_for_each(|axis| match axis {
        PatternAxis::Letter(letter, span) if !letters.insert(letter) => Err(twice("letter", letter, span)),
        PatternAxis::Letter(..) | PatternAxis::Row(_) => Ok(()),
    })
}

/// The first statement that writes `name`: whether it starts from no earlier value, and the byte range of its
/// target.
fn first_write(items: &[Item], name: &str) -> Option<(bool, ByteRange)> {
    items.iter().find_map(|item| match item {
        Item::Statement(Statement { lhs, op, init, .. }) => {
            let target = lhs.iter().find(|target| target.name == name)?;
            Some((*init || *op == AccumOp::Assign, target.span.clone()))
        }
        Item::Repeat(repeat) | Item::Scan(repeat) => first_write(&repeat.body, name),
        _ => None,
    })
}

/// The names that the items write or define.
pub(super) fn written(items: &[Item], into: &mut BTreeSet<String>) {
    Item::each(items, &mut |item| match item {
        Item::Statement(statement) => into.extend(statement.lhs.iter().map(|target| target.name.clone())),
        Item::View(view) => _ = into.insert(view.target.name.clone()),
        _ => {}
    });
}

/// The names that the items of a program write or declare. A declaration `node f.1.m` means a node of a
/// function, whose dimensions it gives.
pub(super) fn made(items: &[Item]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    written(items, &mut names);
    Item::each(items, &mut |item| match item {
        Item::Declaration(declaration) if declaration.role != Role::Node => {
            names.insert(declaration.target.name.clone());
        }
        _ => {}
    });
    names
}

/// The error for a name that is defined already.
pub(super) fn twice(what: &'static str, name: &str, span: &ByteRange) -> LocatedError {
    TextErrorKind::DefinedTwice { what, name: name.to_owned() }.at(span)
}
