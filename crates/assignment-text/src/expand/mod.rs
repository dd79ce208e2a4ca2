//! Expansion: a program becomes a list of statements without sizes, repetitions, families of names and calls.
//!
//! * A **size**, and the letter of a repetition, is replaced by its number.
//! * A **repetition** becomes one copy of its body per number.
//! * A **scan** stays a scan, and its letter becomes a symbol.
//! * `w[2][i]`, a node of a **family**, becomes `w.2[i]`.
//! * A **call** becomes the statements of its function. The function's parameters and results are replaced by
//!   the caller's nodes, its row variables by the caller's letters, and its own names by fresh ones: the name
//!   `m` in the first call of `softmax` becomes `softmax.1.m`. A function reads no other names, so that it
//!   means the same wherever it is called.
//!
//! Expansion does not know the shapes of nodes. It takes the axes of an argument from its letters.

mod arguments;
mod call;
mod letters;
mod results;
mod rewrite;
mod run_sizes;
mod scope;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tnode::{DType, RunSize};

pub(crate) use self::run_sizes::SymbolSum;

use self::run_sizes::DeclaredSize;
use self::scope::{Scope, twice};
use crate::ast::{
    Access, Call, Declaration, Def, Detach, ExpandedStep, Expr, ExprKind, Gradient, Initial, Item,
    Recomputed, Repeat, RunEnd, ScanStart, SizeItem, Statement, View,
};
use crate::constraint::Constraint;
use crate::error::{Result, TextErrorKind};
use crate::linear::IndexExpr;
use crate::source::{Frame, FrameKind};
use assignments::ByteRange;
use assignments::indexing::{StaticSymbol, extent};
use lowered_ir::ir::BinaryOp;
use lowered_ir::verify::limits;

/// The largest number of statements and repetitions in an expanded program.
const MAX_STATEMENTS: usize = 1 << 16;

/// The functions of the prelude that a program may call.
pub(super) struct Library<'a> {
    pub(super) functions: &'a [Arc<Def>],
    /// The byte after the program's own text, before the library's.
    pub(super) start: usize,
}

/// An expanded program.
#[derive(Default)]
pub(super) struct Expanded {
    /// The sizes that a run gives, and those that follow from them, in an order in which each comes behind
    /// those from which it follows.
    pub(super) sizes: Vec<DeclaredSize>,
    pub(super) declarations: Vec<Declaration>,
    pub(super) views: Vec<View>,
    /// The statements, gradients and detached nodes, in order.
    pub(super) steps: Vec<ExpandedStep>,
    /// The names of the nodes whose values the text keeps.
    pub(super) kept: Vec<Access>,
    /// The names of the nodes that backward passes compute again.
    pub(super) recomputed: Vec<Recomputed>,
}

/// Expands the items of a program. `bound` has the sizes that the caller binds; `is_taken` says that a node
/// of the caller has a name.
pub(crate) fn expand(
    items: &[Item],
    library: Library<'_>,
    bound: &BTreeMap<String, i64>,
    is_taken: &dyn Fn(&str) -> bool,
) -> Result<Expanded> {
    let mut expansion = Expansion {
        functions: functions(items)?,
        own_names: scope::made(items),
        library: library.functions.iter().map(|def| (def.name.as_str(), def)).collect(),
        library_start: library.start,
        bound,
        is_taken,
        sizes: BTreeMap::new(),
        run_sizes: BTreeMap::new(),
        bound_sizes: BTreeSet::new(),
        calls: BTreeMap::new(),
        expanded: Expanded::default(),
        copies: 0,
        scans: 0,
    };
    expansion.items(items, &mut Scope::default())?;
    Ok(expansion.expanded)
}

/// The functions of a program by name.
fn functions(items: &[Item]) -> Result<BTreeMap<String, Arc<Def>>> {
    let mut functions = BTreeMap::new();
    for item in items {
        let Item::Def(def) = item else { continue };
        scope::check(def)?;
        if functions.insert(def.name.clone(), def.clone()).is_some() {
            return Err(twice("function", &def.name, &def.name_span));
        }
    }
    Ok(functions)
}

/// Rejects a declaration, `keep`, `recompute` or `grad` in a function, whose nodes are its own in each call.
fn reject_in_function(word: &'static str, target: &Access, scope: &Scope) -> Result<()> {
    match &scope.function {
        Some(function) => {
            let (function, name) = (function.function.clone(), target.name.clone());
            Err(TextErrorKind::DeclaredInFunction { word, name, function }.at(&target.name_span))
        }
        None => Ok(()),
    }
}

/// The state of an expansion.
struct Expansion<'a> {
    /// The functions that the program defines.
    functions: BTreeMap<String, Arc<Def>>,
    library: BTreeMap<&'a str, &'a Arc<Def>>,
    library_start: usize,
    bound: &'a BTreeMap<String, i64>,
    is_taken: &'a dyn Fn(&str) -> bool,
    /// The names that the program writes or declares outside of functions.
    own_names: BTreeSet<String>,
    /// The sizes of the program so far.
    sizes: BTreeMap<String, i64>,
    /// The sizes that a run gives, and those that follow from them, by the names of their declarations.
    run_sizes: BTreeMap<String, RunSize>,
    /// The sizes with a bound to which the caller gives a number.
    bound_sizes: BTreeSet<String>,
    /// How many calls of each function have been expanded.
    calls: BTreeMap<String, usize>,
    expanded: Expanded,
    /// The number of statements and repetitions so far.
    copies: usize,
    /// The number of scans so far.
    scans: usize,
}

impl Expansion<'_> {
    fn items(&mut self, items: &[Item], scope: &mut Scope) -> Result<()> {
        items.iter().try_for_each(|item| self.item(item, scope).map_err(|error| error.within(&scope.frame)))
    }

    fn item(&mut self, item: &Item, scope: &mut Scope) -> Result<()> {
        match item {
            Item::Statement(statement) => self.statement(statement, scope),
            Item::Size(size) => self.size(size, scope),
            Item::Def(_) => Ok(()),
            Item::Call(call) => self.call_statement(call, scope),
            Item::Repeat(repeat) => self.repeat(repeat, scope),
            Item::Scan(scan) => self.scan(scan, scope),
            Item::Declaration(declaration) => self.declaration(declaration, scope),
            Item::Keep(target) => {
                let target = self.requested("keep", target, scope)?;
                self.expanded.kept.push(target);
                Ok(())
            }
            Item::Recompute(target) => {
                let target = self.requested("recompute", target, scope)?;
                self.expanded.recomputed.push(Recomputed { target, frame: scope.frame.clone() });
                Ok(())
            }
            Item::View(view) => self.view(view, scope),
            Item::Gradient(gradient) => self.gradient(gradient, scope),
            Item::Detach(detach) => self.detach(&detach.node, scope),
        }
    }

    fn statement(&mut self, statement: &Statement, scope: &Scope) -> Result<()> {
        if let Some(call) = call::whole(statement) {
            self.check_written(call, scope)?;
        }
        let mut statement = statement.clone();
        statement.is_expanded = scope.function.is_some();
        statement.frame.clone_from(&scope.frame);
        rewrite::statement(&mut statement, scope)?;
        self.enter_named(scope, &statement.span);
        match call::whole(&statement) {
            Some(call) => self.call_into(&call.clone(), statement),
            None => {
                self.hoist_calls(&mut statement)?;
                self.push(statement)
            }
        }
    }

    fn call_statement(&mut self, call: &Call, scope: &Scope) -> Result<()> {
        self.check_written(call, scope)?;
        let mut call = call.clone();
        rewrite::call(&mut call, scope)?;
        self.enter_named(scope, &call.span);
        self.call_alone(call, &scope.frame)
    }

    fn declaration(&mut self, declaration: &Declaration, scope: &Scope) -> Result<()> {
        let mut declaration = declaration.clone();
        reject_in_function(declaration.role.token(), &declaration.target, scope)?;
        rewrite::node(&mut declaration.target, scope)?;
        let sizes = rewrite::sizes(&mut declaration.sizes, scope)?;
        self.enter_sizes(sizes, &declaration.span);
        if let Some(Initial { value, fill, .. }) = &mut declaration.initial {
            value.iter_mut().try_for_each(|value| rewrite::default_value(value, scope))?;
            fill.iter_mut().try_for_each(|fill| rewrite::fetch(fill, scope))?;
            self.enter_named(scope, &declaration.span);
        }
        self.count(&declaration.span)?;
        self.expanded.declarations.push(declaration);
        Ok(())
    }

    /// The node of an item such as `keep h`.
    fn requested(&mut self, word: &'static str, node: &Access, scope: &Scope) -> Result<Access> {
        let mut node = node.clone();
        reject_in_function(word, &node, scope)?;
        rewrite::node(&mut node, scope)?;
        self.count(&node.span)?;
        Ok(node)
    }

    fn view(&mut self, view: &View, scope: &Scope) -> Result<()> {
        let mut view = view.clone();
        rewrite::whole_node(&mut view.of, scope)?;
        rewrite::node(&mut view.target, scope)?;
        let sizes = rewrite::sizes(&mut view.sizes, scope)?;
        self.enter_sizes(sizes, &view.span);
        self.count(&view.span)?;
        self.expanded.views.push(view);
        Ok(())
    }

    fn gradient(&mut self, gradient: &Gradient, scope: &Scope) -> Result<()> {
        let mut gradient = gradient.clone();
        if !scope.steps.is_empty() {
            return Err(TextErrorKind::GradientInScan.at(&gradient.span));
        }
        reject_in_function("grad", &gradient.loss, scope)?;
        rewrite::node(&mut gradient.loss, scope)?;
        gradient.parameters.iter_mut().try_for_each(|parameter| rewrite::node(parameter, scope))?;
        gradient.frame.clone_from(&scope.frame);
        self.count(&gradient.span)?;
        self.expanded.steps.push(ExpandedStep::Gradient(gradient));
        Ok(())
    }

    /// In a function, only its own nodes can be detached: derivatives go through the nodes of the caller as
    /// the caller says.
    fn detach(&mut self, node: &Access, scope: &Scope) -> Result<()> {
        let mut node = node.clone();
        if let Some(function) = scope.function.as_ref().filter(|known| known.arrays.contains_key(&node.name))
        {
            let (function, name) = (function.function.clone(), node.name.clone());
            return Err(TextErrorKind::DetachesParameter { function, name }.at(&node.name_span));
        }
        rewrite::node(&mut node, scope)?;
        self.count(&node.span)?;
        self.expanded.steps.push(ExpandedStep::Detach(Detach { node, frame: scope.frame.clone() }));
        Ok(())
    }

    fn size(&mut self, size: &SizeItem, scope: &mut Scope) -> Result<()> {
        let given = self.bound.get(&size.name).filter(|_| scope.frame.is_none());
        let bound = size.bound.as_ref().map(|bound| run_bound(size, bound, scope)).transpose()?;
        let value = match (given, &size.value) {
            (Some(&value), _) => {
                if bound.is_some() {
                    scope.bound.insert(size.name.clone());
                    self.bound_sizes.insert(size.name.clone());
                }
                within(size, value, bound)?
            }
            (None, Some(value)) => {
                let sum = scope.size_sum(value)?;
                match sum.constant() {
                    Some(value) => value,
                    None => {
                        let found = sum.size().ok_or_else(|| {
                            TextErrorKind::NoSizeValue { name: size.name.clone() }.at(&value.span)
                        })?;
                        return self.run_size(size, found, scope);
                    }
                }
            }
            (None, None) if let Some(bound) = bound => {
                return self.run_size(size, RunSize::given(size.name.as_str(), bound), scope);
            }
            (None, None) => {
                return Err(TextErrorKind::OpenSize { name: size.name.clone() }.at(&size.name_span));
            }
        };
        if scope.frame.is_none() {
            self.sizes.insert(size.name.clone(), value);
        }
        let is_taken = scope.run_sizes.contains_key(&size.name);
        match scope.integers.insert(size.name.clone(), value) {
            None if !is_taken => Ok(()),
            _ => Err(twice("size", &size.name, &size.name_span)),
        }
    }

    fn repeat(&mut self, repeat: &Repeat, scope: &Scope) -> Result<()> {
        scope.reject_letter(repeat)?;
        for value in scope.integer(&repeat.from)?..scope.integer(&repeat.to)? {
            self.count(&repeat.span)?;
            let mut inner = scope.clone();
            inner.integers.insert(repeat.letter.clone(), value);
            let kind = FrameKind::Repeat { letter: repeat.letter.clone(), value };
            let (span, outer) = (repeat.span.clone(), scope.frame.clone());
            inner.frame = Some(Arc::new(Frame { kind, span, outer }));
            self.items(&repeat.body, &mut inner)?;
        }
        Ok(())
    }

    /// Expands the body of a scan once. Its letter is a symbol there.
    fn scan(&mut self, scan: &Repeat, scope: &Scope) -> Result<()> {
        scope.reject_letter(scan)?;
        match scope.integer(&scan.from)? {
            0 => {}
            from => return Err(TextErrorKind::ScanFrom { from }.at(&scan.from.span)),
        }
        let run_steps = scope.symbol_sum(&scan.to).filter(|steps| !steps.terms.is_empty());
        let steps = run_steps.as_ref().map_or_else(|| scope.integer(&scan.to), |steps| Ok(steps.bound))?;
        if !(1..=limits::EXTENT).contains(&steps) {
            return Err(TextErrorKind::ScanSteps { steps }.at(&scan.to.span));
        }
        let every = scan.every.as_ref().map(|every| scope.integer(every)).transpose()?;
        if let (Some(found), Some(every)) = (every, &scan.every)
            && (found < 1 || steps % found != 0)
        {
            return Err(TextErrorKind::Checkpoints { steps, every: found }.at(&every.span));
        }
        self.count(&scan.span)?;
        self.scans += 1;
        let symbol = StaticSymbol::step(&scan.letter, self.scans, steps);
        let mut inner = scope.clone();
        inner.steps.insert(scan.letter.clone(), symbol.name.clone());
        let condition = scan.condition.as_ref().map(|value| condition(value, &inner)).transpose()?;
        self.enter_named(scope, &scan.to.span);
        let run_end = run_steps.map(|steps| run_end(&symbol.name, steps, &scan.to.span)).transpose()?;
        let (span, frame) = (scan.span.clone(), scope.frame.clone());
        let start = ScanStart { symbol, condition, run_end, every, span, frame };
        self.expanded.steps.push(ExpandedStep::ScanStart(start));
        self.items(&scan.body, &mut inner)?;
        self.expanded.steps.push(ExpandedStep::ScanEnd(scan.span.clone()));
        Ok(())
    }

    fn push(&mut self, statement: Statement) -> Result<()> {
        self.count(&statement.span)?;
        self.expanded.steps.push(ExpandedStep::Statement(statement));
        Ok(())
    }

    /// Counts a statement or a repetition, and fails beyond the limit.
    fn count(&mut self, span: &ByteRange) -> Result<()> {
        self.copies += 1;
        match self.copies <= MAX_STATEMENTS {
            true => Ok(()),
            false => Err(TextErrorKind::TooManyStatements { limit: MAX_STATEMENTS }.at(span)),
        }
    }

    /// A prefix for the names of a call that no other name has.
    fn fresh_prefix(&mut self, function: &str, names: &BTreeSet<String>) -> String {
        let calls = self.calls.entry(function.to_owned()).or_default();
        loop {
            *calls += 1;
            let prefix = format!("{function}.{calls}");
            let is_taken = |name: &String| self.own_names.contains(name) || (self.is_taken)(name);
            if !names.iter().any(|name| is_taken(&format!("{prefix}.{name}"))) {
                return prefix;
            }
        }
    }
}

/// The condition of a scan with the names of the scope: a value without axes and calls.
fn condition(value: &Expr, scope: &Scope) -> Result<Expr> {
    let span = value.span.clone();
    let mut statement = Statement::made(Access::whole("", &span), Some(value.clone()), span.clone(), &None);
    statement.lhs.clear();
    rewrite::statement(&mut statement, scope)?;
    if let Some(letter) = letters::of_statement(&statement).into_iter().next() {
        return Err(TextErrorKind::ConditionLetter { letter }.at(&span));
    }
    let mut open: Vec<&Expr> = statement.rhs.iter().collect();
    while let Some(part) = open.pop() {
        if let ExprKind::Call(call) = &part.kind {
            let name = call.function.clone();
            return Err(TextErrorKind::ConditionCall { name }.at(&part.span));
        }
        open.extend(part.kind.children());
    }
    Ok(statement.rhs.into_iter().next().unwrap_or_else(|| value.clone()))
}

/// The end of a scan over a symbol whose number of steps a run gives.
fn run_end(symbol: &str, steps: SymbolSum, span: &ByteRange) -> Result<RunEnd> {
    let expr = |kind| Expr::new(kind, span.clone());
    let dtype = if i32::try_from(steps.bound).is_ok() { DType::I32 } else { DType::I64 };
    let step = expr(ExprKind::Cast(dtype, Box::new(expr(ExprKind::Symbol(symbol.to_owned()))?)))?;
    let end = steps.value(dtype, span)?;
    let goes_on = expr(ExprKind::Binary(BinaryOp::Lt, Box::new(step), Box::new(end)))?;
    Ok(RunEnd { steps, goes_on })
}

/// The bound of a size that a run gives, which stands outside of functions and repetitions.
fn run_bound(size: &SizeItem, bound: &IndexExpr, scope: &Scope) -> Result<usize> {
    if scope.frame.is_some() {
        let name = size.name.clone();
        return Err(TextErrorKind::SizeInside { name }.at(&size.name_span));
    }
    let value = scope.integer(bound)?;
    let found = usize::try_from(value).ok().filter(|_| (1..limits::EXTENT).contains(&value));
    let (name, max) = (size.name.clone(), limits::EXTENT - 1);
    found.ok_or_else(|| TextErrorKind::SizeBound { name, bound: value, max }.at(&bound.span))
}

/// The value that the caller gives a size, which must be within the bound that the text may have for it.
fn within(size: &SizeItem, value: i64, bound: Option<usize>) -> Result<i64> {
    match bound {
        Some(bound) if !(1..=extent(bound)).contains(&value) => {
            let name = size.name.clone();
            Err(TextErrorKind::SizeRange { name, value, bound }.at(&size.name_span))
        }
        _ => Ok(value),
    }
}

/// The constraints whose letters are all in `letters`. A constraint of a symbol holds for the whole text and
/// stays with its statement.
fn constraints_of(constraints: &[Constraint], letters: &[String]) -> Vec<Constraint> {
    let holds = |constraint: &&Constraint| letters::of_constraint(constraint, letters);
    constraints.iter().filter(holds).cloned().collect()
}
