//! Programs as text: parsed, with sizes bound, expanded, and printed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tnode::TensorNode;

use crate::ast::{Access, Def, ExpandedStep, Item, Recomputed, SizeItem};
use crate::error::{Result, TextError, TextErrorKind};
use crate::expand::{self, Expanded, Library};
use crate::linear::IndexExpr;
use crate::names::{GivenNodes, Names};
use crate::parse::{self, ParsedProgram};
use crate::pipeline::{self, Emitted};
use crate::report::{ProgramReport, StatementRanges};
use crate::tree::ResolvedStep;
use crate::unparse::Lines;
use crate::{conditions, declare, usage};
use assignments::{Assignments, Nodes, Origin, spelling};
use lowered_ir::SourceText;
use lowered_ir::stack::with_enough;

/// A program as its text has it: statements, sizes, functions and repetitions, which mention nodes by name.
/// It may call the functions of the prelude without defining them.
///
/// Displays as assignment text, in one layout and without comments.
///
/// ```
/// use assignment_text::Program;
///
/// let program = Program::parse(
///     "size classes = 10
///      def shifted(x[..,k]) -> y[..,k] { m[..] :max= x[..,k]; y[..,k] := x[..,k] - m[..] }
///      e[b,i] := exp(shifted(x[b,i] * 2)) where i < classes",
/// )?;
/// assert_eq!(program.bind("classes", 3)?.expand()?.to_string(), "\
/// shifted.1.x[b,i] := x[b,i] * 2 where i < 3
/// shifted.1.m[b] :max= shifted.1.x[b,k]
/// shifted.1.y[b,k] := shifted.1.x[b,k] - shifted.1.m[b]
/// e[b,i] := exp(shifted.1.y[b,i]) where i < 3
/// ");
/// # Ok::<(), assignment_text::TextError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Program {
    /// The text, and behind it the sources of the prelude if the text calls its functions.
    text: SourceText,
    items: Vec<Item>,
    /// The functions of the prelude that the text calls, directly or not.
    prelude: Vec<Arc<Def>>,
    /// The names of the symbols, in order of mention, with repetitions.
    symbols: Vec<String>,
    /// The sizes that the caller binds.
    sizes: BTreeMap<String, i64>,
    /// The names of the nodes whose values the caller keeps.
    kept: Vec<String>,
    /// The names of the nodes that backward passes compute again at the caller's request.
    recomputed: Vec<String>,
    name: Option<String>,
    /// The first parts of the labels of nodes that the text makes.
    path: Vec<String>,
    /// Whether a range that is the bound of a size is that size.
    bounds_are_sizes: bool,
}

impl Program {
    /// Parses a text.
    ///
    /// # Errors
    /// If the text does not follow the grammar. The error points to the first such position.
    pub fn parse(text: &str) -> Result<Program, TextError> {
        let parsed = with_enough(|| parse::program(text));
        let ParsedProgram { items, prelude_calls, symbols } =
            parsed.map_err(|error| TextError::new(error, &text.into()))?;
        let (text, prelude) = parse::load(text, prelude_calls)?;
        let (sizes, kept, recomputed, path) = Default::default();
        let bounds_are_sizes = false;
        Ok(Program {
            text,
            items,
            prelude,
            symbols,
            sizes,
            kept,
            recomputed,
            name: None,
            path,
            bounds_are_sizes,
        })
    }

    /// Gives a size of the text a value, in place of the value that the text may give it. A size that each
    /// run gives, `size n <= 64`, becomes a constant; expansion rejects a value above its bound.
    ///
    /// # Errors
    /// If the text declares no size of that name.
    pub fn bind(mut self, size: &str, value: usize) -> Result<Program, TextError> {
        if !self.sizes().any(|name| name == size) {
            let near = spelling::similar_or_nearest(size, self.sizes().map(str::to_owned));
            let error = TextErrorKind::UnknownSize { name: size.to_owned(), near }.at(&(0..0));
            return Err(TextError::new(error, &self.text));
        }
        self.sizes.insert(size.to_owned(), i64::try_from(value).unwrap_or(i64::MAX));
        Ok(self)
    }

    /// Gives a size that the text uses but does not declare a value, as if the program began with its
    /// declaration. If the text declares the size too, the error of expansion points there.
    ///
    /// ```
    /// use assignment_text::Program;
    ///
    /// let program = Program::parse("y[i] := x[i + shift] where i < 3")?.define("shift", 2);
    /// assert_eq!(program.expand()?.to_string(), "y[i] := x[i + 2] where i < 3\n");
    /// # Ok::<(), assignment_text::TextError>(())
    /// ```
    #[must_use]
    pub fn define(mut self, size: &str, value: i64) -> Program {
        let value = Some(IndexExpr::number(value, 0..0));
        self.items
            .insert(0, Item::Size(SizeItem { name: size.to_owned(), name_span: 0..0, value, bound: None }));
        self
    }

    /// The names of the sizes that the text declares, in order.
    pub fn sizes(&self) -> impl Iterator<Item = &str> {
        self.items.iter().filter_map(|item| match item {
            Item::Size(size) => Some(size.name.as_str()),
            _ => None,
        })
    }

    /// The program as a list of statements: sizes are numbers, repetitions are unrolled, and calls are
    /// replaced by the statements of their functions.
    ///
    /// # Errors
    /// If a size has no value, or a function or call is invalid. The error points to the first such position.
    pub fn expand(&self) -> Result<Program, TextError> {
        let expanded = with_enough(|| self.expanded(&|_| false));
        let Expanded { sizes, declarations, views, steps, kept, recomputed } =
            expanded.map_err(|error| TextError::new(error, &self.text))?;
        let sizes = sizes.iter().map(|size| Item::Size(size.item()));
        let declarations = sizes.chain(declarations.into_iter().map(Item::Declaration));
        let items = declarations.chain(ExpandedStep::into_items(steps));
        let (sizes, items): (Vec<Item>, Vec<Item>) = items.partition(|item| matches!(item, Item::Size(_)));
        let items = sizes.into_iter().chain(views.into_iter().map(Item::View)).chain(items);
        let items = items.chain(kept.into_iter().map(Item::Keep));
        let recomputed = recomputed.into_iter().map(|Recomputed { target, .. }| Item::Recompute(target));
        let items = items.chain(recomputed).collect();
        Ok(Program { items, ..self.clone() })
    }

    /// The name that the last statement of the text writes, outside of functions and repetitions.
    pub fn last_written(&self) -> Option<&str> {
        self.items.iter().rev().find_map(|item| match item {
            Item::Statement(statement) => statement.lhs.first().map(|target| target.name.as_str()),
            _ => None,
        })
    }

    /// Keeps the values of the node of that name: each run leaves them in memory, where the host can read
    /// them.
    ///
    /// Each call of [`assignments`](Program::assignments), and so each compilation, makes new nodes for the
    /// names that the text writes without a declaration. So a program can be compiled again with more nodes
    /// kept, whatever an earlier compilation decided about them.
    #[must_use]
    pub fn keep(mut self, name: impl Into<String>) -> Program {
        self.kept.push(name.into());
        self
    }

    /// Makes backward passes compute the node of that name again instead of reading its stored values, as
    /// `recompute` in the text does. A node that is kept too is stored.
    #[must_use]
    pub fn recompute(mut self, name: impl Into<String>) -> Program {
        self.recomputed.push(name.into());
        self
    }

    /// Names the routine: an identifier that errors, dumps and profiles show. A program without a name is
    /// named after the last node that it writes.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Program {
        self.name = Some(name.into());
        self
    }

    /// Makes the labels of nodes that the text makes start with the parts of a path, such as `encoder.0`, so
    /// that messages, dumps and profiles show it. The text mentions the nodes without it.
    ///
    /// ```
    /// use assignment_text::Program;
    /// use assignments::Nodes;
    ///
    /// let program = Program::parse("y[i] := 1 where i < 3; keep y")?.within("encoder.0");
    /// let made = program.resolve(&Nodes::default())?.text_nodes;
    /// assert_eq!(made.find("y")?.label(), ["encoder", "0", "y"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn within(mut self, path: &str) -> Program {
        self.path = path.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        self
    }

    /// Takes a range of a letter as a size that a run gives, if the letter indexes an axis of that size alone
    /// and the range is the size's bound. Front ends that know shapes by their bounds need this.
    #[doc(hidden)]
    #[must_use]
    pub fn with_bounds_as_sizes(mut self) -> Program {
        self.bounds_are_sizes = true;
        self
    }

    /// The routine's name, if one is given.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Expands the program, and resolves its names against the given nodes. A node is found by its whole
    /// name as in `w1.grad`, by all parts of its label as in `w.0`, or by the last part of its label. Settles
    /// the element types of the nodes that occur, and the open dimensions of nodes that the text writes.
    /// Symbols are bound in order of mention.
    ///
    /// # Errors
    /// If the program cannot be expanded, does not fit the nodes or is ambiguous. The error points to the
    /// first such position. A name that cannot be kept is shown as a statement `keep` behind the text.
    pub fn assignments(&self, nodes: &[TensorNode]) -> Result<Assignments, TextError> {
        self.resolved(GivenNodes::new(nodes), |assignments, _| assignments)
    }

    /// Resolves the program as [`assignments`](Program::assignments) does, and reports the ranges of letters.
    ///
    /// # Errors
    /// The same errors as [`assignments`](Program::assignments).
    pub fn report(&self, nodes: &[TensorNode]) -> Result<ProgramReport, TextError> {
        self.resolved(GivenNodes::new(nodes), |assignments, steps| ProgramReport {
            assignments,
            statements: steps.iter().map(|step| StatementRanges::new(step, &self.text)).collect(),
        })
    }

    /// Resolves the program as [`assignments`](Program::assignments) does, but finds each node under its name
    /// in `nodes`, whatever its label. A front end whose nodes have other names than its texts needs this.
    ///
    /// ```
    /// use assignment_text::Program;
    /// use assignments::Nodes;
    /// use tnode::TensorNode;
    ///
    /// let mut nodes = Nodes::default();
    /// nodes.insert("x", TensorNode::builder("encoder.0.weight").dims([3]).build()?);
    /// let program = Program::parse("y[i] := x[i] * x[i]; keep y")?.resolve(&nodes)?;
    /// assert_eq!(program.text_nodes.find("y")?.dims()?.as_slice(), [3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The same errors as [`assignments`](Program::assignments).
    pub fn resolve(&self, nodes: &Nodes) -> Result<Assignments, TextError> {
        self.resolved(GivenNodes::named(nodes), |assignments, _| assignments)
    }

    /// What `make` makes of the assignments and the steps from which they were made.
    fn resolved<R>(
        &self,
        given: GivenNodes,
        make: impl FnOnce(Assignments, &[ResolvedStep]) -> R,
    ) -> Result<R, TextError> {
        with_enough(|| {
            let located = |error| TextError::new(error, &self.text);
            let mut expanded = self.expanded(&|name| given.has(name)).map_err(located)?;
            expanded.steps = conditions::as_statements(expanded.steps).map_err(located)?;
            let given = given.with_bounds_as_sizes(self.bounds_are_sizes);
            let emitted = pipeline::run(&mut expanded, given, &self.path, &self.symbols, &self.text);
            let Emitted { mut assignments, names, steps } = emitted.map_err(located)?;
            self.requests(&expanded, &names, &mut assignments)?;
            let ends = steps.iter().filter_map(|step| conditions::of_scan(&step.source, &names.made));
            let mut used = usage::read(&steps);
            used.extend(ends.map(|end| end.node));
            used.extend(assignments.kept.iter().cloned());
            usage::check_used(&names, &used).map_err(located)?;
            assignments.warnings.extend(usage::unused_inputs(
                &expanded.declarations,
                &names,
                &used,
                &self.text,
            ));
            assignments.text_nodes = names.made;
            assignments.check_ends().map_err(|error| {
                located(TextErrorKind::EarlyEnd(Box::new(error)).at(conditions::place(&steps)))
            })?;
            let assignments = match &self.name {
                Some(name) => assignments.named(name.as_str()),
                None => assignments,
            };
            Ok(make(assignments, &steps))
        })
    }

    /// Records the nodes to keep and those to compute again, at the request of the text and of the caller.
    fn requests(
        &self,
        expanded: &Expanded,
        names: &Names,
        assignments: &mut Assignments,
    ) -> Result<(), TextError> {
        let located = |error| TextError::new(error, &self.text);
        for Access { name, name_span, .. } in &expanded.kept {
            let node = names.at_end().find(name).map_err(|kind| located(kind.at(name_span)))?;
            assignments.kept.insert(node);
        }
        for name in &self.kept {
            let node = names.at_end().find(name).map_err(|kind| self.requested("keep", name, kind))?;
            assignments.kept.insert(node);
        }
        for item in &expanded.recomputed {
            let (node, origin) = usage::recomputed(item, names, &self.text).map_err(located)?;
            assignments.recomputed.insert(node, origin);
        }
        for name in &self.recomputed {
            let node = usage::computed_node(name, names);
            let node = node.map_err(|kind| self.requested("recompute", name, kind))?;
            assignments.recomputed.insert(node, Origin::default());
        }
        Ok(())
    }

    /// Makes the inputs, parameters and constants that the text declares. To compile several programs over
    /// the same parameters, or one program several times, give them these nodes; a program that is not given
    /// a declared node makes one of its own.
    ///
    /// # Errors
    /// If the program cannot be expanded, declares a name twice, or a node would be too large. The error
    /// points into the text.
    pub fn declare(&self) -> Result<Nodes, TextError> {
        with_enough(|| {
            let located = |error| TextError::new(error, &self.text);
            let expanded = self.expanded(&|_| false).map_err(located)?;
            declare::lasting_nodes(&expanded).map_err(located)
        })
    }

    /// An error about a name that the caller gave, as if the text had the word and the name at its end.
    fn requested(&self, word: &str, name: &str, kind: TextErrorKind) -> TextError {
        let text = format!("{}\n{word} {name}", self.text.user_text());
        TextError::new(kind.at(&(text.len() - name.len()..text.len())), &text.into())
    }

    /// Expands the items of the program. `is_taken` says that a node has a name, which expansion then leaves
    /// to it.
    fn expanded(&self, is_taken: &dyn Fn(&str) -> bool) -> Result<Expanded> {
        let library = Library { functions: &self.prelude, start: self.text.user_text().len() };
        expand::expand(&self.items, library, &self.sizes, is_taken)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Lines { items: &self.items, depth: 0 }.fmt(f)
    }
}
