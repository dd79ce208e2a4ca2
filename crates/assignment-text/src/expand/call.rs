//! Expansion of calls: binds parameters and results, and expands the function's body.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tnode::RunSize;

use super::arguments::{self, MatchedAxes};
use super::results::{CallResult, bind_results};
use super::scope::{ArrayBinding, CallSite, FunctionScope, Scope};
use super::{Expansion, constraints_of, letters, rewrite};
use crate::ast::{Access, Call, Def, Expr, ExprKind, Index, Parameter, Pattern, Statement};
use crate::constraint::Constraint;
use crate::error::{Result, TextErrorKind};
use crate::linear::IndexExpr;
use crate::number::Number;
use crate::source::{CallNodes, Frame, FrameKind};
use assignments::{AccumOp, ByteRange};

/// The call that is the whole value of a plain assignment.
pub(super) fn whole(statement: &Statement) -> Option<&Call> {
    match statement.rhs.as_slice() {
        [Expr { kind: ExprKind::Call(call), .. }] if statement.op == AccumOp::Assign => {
            Some(call.as_ref()).filter(|call| call.indices.is_none())
        }
        _ => None,
    }
}

impl Expansion<'_> {
    /// Expands `targets := call`.
    pub(super) fn call_into(&mut self, call: &Call, statement: Statement) -> Result<()> {
        let letters = letters::of_statement(&statement);
        let site = CallSite {
            letters: &letters,
            constraints: &statement.constraints,
            frame: &statement.frame,
            targets: &statement.lhs,
        };
        let results = self.call(call.clone(), &site)?;
        for (target, result) in statement.lhs.iter().zip(results) {
            if !result.is_target {
                let value = result_access(call, &result.node.name, indices(&result.letters, &call.span))?;
                let mut copy =
                    Statement::made(target.clone(), Some(value), statement.span.clone(), &statement.frame);
                copy.op_span.clone_from(&statement.op_span);
                copy.constraints = remaining(&statement, &copy);
                self.push(copy)?;
            }
        }
        Ok(())
    }

    /// Rejects a call in a function that would write a parameter which the function may only read.
    pub(super) fn check_written(&self, call: &Call, scope: &Scope) -> Result<()> {
        let Some(function) = &scope.function else { return Ok(()) };
        let def = self.function(call)?;
        for (parameter, argument) in arguments::in_order(call, &def)? {
            let (Parameter::Array { inout: true, .. }, Some(argument)) = (parameter, argument) else {
                continue;
            };
            let name = match &argument.kind {
                ExprKind::Access(access) => &access.name,
                ExprKind::Name(name) => name,
                _ => continue,
            };
            if function.inputs.contains(name) {
                let (function, name) = (function.function.clone(), name.clone());
                return Err(TextErrorKind::InputWritten { function, name }.at(&argument.span));
            }
        }
        Ok(())
    }

    /// Expands a call that is a statement of its own.
    pub(super) fn call_alone(&mut self, call: Call, frame: &Option<Arc<Frame>>) -> Result<()> {
        check_results(&*self.function(&call)?, 0, &call.span)?;
        let letters = letters::of_call(&call);
        self.call(call, &CallSite { letters: &letters, constraints: &[], frame, targets: &[] }).map(|_| ())
    }

    /// Expands the calls in the values of a statement, and replaces them by accesses to their results.
    pub(super) fn hoist_calls(&mut self, statement: &mut Statement) -> Result<()> {
        let letters = letters::of_statement(statement);
        let before = statement.clone();
        let site = CallSite {
            letters: &letters,
            constraints: &before.constraints,
            frame: &before.frame,
            targets: &[],
        };
        let (from, copies) = (self.expanded.steps.len(), self.copies);
        statement.values_mut().try_for_each(|value| self.hoist(value, &site))?;
        if (self.expanded.steps.len(), self.copies) != (from, copies) {
            statement.is_expanded = true;
            statement.constraints = remaining(&before, statement);
        }
        Ok(())
    }

    /// Expands the calls in an expression, the innermost first.
    fn hoist(&mut self, expr: &mut Expr, site: &CallSite<'_>) -> Result<()> {
        let computed = expr.indices_mut().into_iter().flatten().filter_map(Index::computed_mut);
        computed.into_iter().try_for_each(|index| self.hoist(index, site))?;
        let ExprKind::Call(call) = &expr.kind else {
            return expr.children_mut().into_iter().try_for_each(|child| self.hoist(child, site));
        };
        let call = call.as_ref().clone();
        let site = CallSite { targets: &[], ..*site };
        let def = self.function(&call)?;
        if let Some(name) = inouts(&def).next() {
            let (function, parameter) = (def.name.clone(), name.to_owned());
            return Err(TextErrorKind::WritesInExpression { function, parameter }.at(&call.span));
        }
        check_results(&def, 1, &call.span)?;
        let given = call.indices.clone();
        let Some(result) = self.call(call.clone(), &site)?.pop() else { return Ok(()) };
        let found = match given {
            Some(given) if given.len() != result.letters.len() => {
                let (name, expected, found) =
                    (def.results[0].name.clone(), result.letters.len(), given.len());
                return Err(TextErrorKind::ParameterRank { name, expected, found }.at(&call.span));
            }
            Some(given) => given,
            None => indices(&result.letters, &call.span),
        };
        *expr = result_access(&call, &result.node.name, found)?;
        Ok(())
    }

    /// The function that a call means: the program's own before the library's, but the functions of the
    /// library call each other.
    fn function(&self, call: &Call) -> Result<Arc<Def>> {
        let own = self.functions.get(&call.function).filter(|_| !self.is_library(&call.name_span));
        let found = own.or_else(|| self.library.get(call.function.as_str()).copied());
        found.cloned().ok_or_else(|| {
            let (name, near) = (call.function.clone(), self.functions.keys().cloned().collect());
            TextErrorKind::UnknownFunction { name, near, instead: None }.at(&call.name_span)
        })
    }

    fn is_library(&self, span: &ByteRange) -> bool {
        span.start > self.library_start
    }

    /// The sizes that a function reads. Those of the program mean nothing in a library.
    fn sizes_in(&self, def: &Def) -> BTreeMap<String, i64> {
        if self.is_library(&def.name_span) { BTreeMap::new() } else { self.sizes.clone() }
    }

    fn run_sizes_in(&self, def: &Def) -> BTreeMap<String, RunSize> {
        if self.is_library(&def.name_span) { BTreeMap::new() } else { self.run_sizes.clone() }
    }

    /// Expands a call, whose names have been rewritten, and returns the nodes of its results.
    fn call(&mut self, mut call: Call, site: &CallSite<'_>) -> Result<Vec<CallResult>> {
        let def = self.function(&call)?;
        reject_recursion(&call, &def, site.frame)?;
        if call.indices.is_none() && (!site.targets.is_empty() || def.results.is_empty()) {
            check_results(&def, site.targets.len(), &call.span)?;
        }
        let inner = CallSite { targets: &[], ..*site };
        call.arguments.iter_mut().try_for_each(|argument| self.hoist(&mut argument.value, &inner))?;
        let (function, axes) = self.bind(&call, &def, site)?;
        let (function, results) = bind_results(function, &axes, &call, &def, site)?;
        let library = self.is_library(&def.name_span).then(|| Arc::new(call_nodes(&def, &function)));
        let kind = FrameKind::Call { function: def.name.clone(), definition: def.name_span.start, library };
        let frame = Frame { kind, span: call.span.clone(), outer: site.frame.clone() };
        let mut integers = self.sizes_in(&def);
        let mut run_sizes = self.run_sizes_in(&def);
        let own = def.parameters.iter().map(Parameter::name).map(str::to_owned);
        own.chain(letters::of_patterns(&def)).for_each(|name| {
            integers.remove(&name);
            run_sizes.remove(&name);
        });
        let (function, frame) = (Some(Arc::new(function)), Some(Arc::new(frame)));
        let bound = integers.keys().filter(|name| self.bound_sizes.contains(*name)).cloned().collect();
        let mut scope = Scope { integers, run_sizes, bound, function, frame, ..Scope::default() };
        self.items(&def.body, &mut scope)?;
        Ok(results)
    }

    /// Binds the parameters of a call to its arguments: the arrays first, since scalars may be sizes of axes.
    fn bind(&mut self, call: &Call, def: &Def, site: &CallSite<'_>) -> Result<(FunctionScope, MatchedAxes)> {
        let arguments = arguments::in_order(call, def)?;
        let mut locals = BTreeSet::new();
        super::scope::written(&def.body, &mut locals);
        let own: BTreeSet<String> =
            def.parameters.iter().map(|p| p.name().to_owned()).chain(locals.iter().cloned()).collect();
        let prefix = self.fresh_prefix(&def.name, &own);
        let mut function = FunctionScope {
            function: def.name.clone(),
            prefix,
            locals,
            inputs: inputs(def),
            arrays: BTreeMap::new(),
            scalars: BTreeMap::new(),
            axes: BTreeMap::new(),
            rows: BTreeMap::new(),
        };
        let changed = changed_names(&arguments);
        let mut axes = MatchedAxes::default();
        for (parameter, argument) in &arguments {
            let (Parameter::Array { pattern, inout }, Some(argument)) = (parameter, argument) else {
                continue;
            };
            let found = letters::of_expr(argument, site.letters);
            let argument = &as_node(argument, &found);
            axes.enter(&def.name, pattern, &found, &argument.span)?;
            let node = match inout {
                true => writable(argument, &found, def, pattern)?,
                false => self.readable(argument, &found, &changed, &function, pattern, site)?,
            };
            axes.enter_sizes(&found, &node);
            function.arrays.insert(pattern.name.clone(), node);
        }
        function.rows = fresh_rows(&axes.rows, def);
        def.parameters.iter().for_each(|parameter| function.enter_axes(parameter));
        for (parameter, argument) in arguments {
            let Parameter::Scalar { name, default, .. } = parameter else { continue };
            let value = match (argument, default) {
                (Some(argument), _) => self.scalar(argument, name, &changed, &function, (site, &axes))?,
                (None, Some(default)) => self.default_value(default, def, &function)?,
                // Every parameter without a default has an argument.
                (None, None) => continue,
            };
            function.scalars.insert(name.clone(), value);
        }
        Ok((function, axes))
    }

    /// The default of a scalar parameter, which may read the parameters before it.
    fn default_value(&self, default: &Expr, def: &Def, function: &FunctionScope) -> Result<Expr> {
        let mut value = default.clone();
        let function = Some(Arc::new(function.clone()));
        let (integers, run_sizes) = (self.sizes_in(def), self.run_sizes_in(def));
        let scope = Scope { integers, run_sizes, function, ..Scope::default() };
        rewrite::default_value(&mut value, &scope)?;
        Ok(value)
    }

    /// The node of an argument that the function reads: the caller's, or an intermediate.
    fn readable(
        &mut self,
        argument: &Expr,
        axes: &[String],
        changed: &[String],
        function: &FunctionScope,
        pattern: &Pattern,
        site: &CallSite<'_>,
    ) -> Result<ArrayBinding> {
        let constrained: Vec<&str> = site.constraints.iter().flat_map(Constraint::letters).collect();
        match arguments::direct(argument, axes, &constrained) {
            Some(access) if !changed.iter().any(|name| letters::may_be_same(name, &access.name)) => {
                Ok(arguments::binding(access, axes))
            }
            _ => self.intermediate(argument, axes, &format!("{}.{}", function.prefix, pattern.name), site),
        }
    }

    /// Assigns an argument to an intermediate node.
    fn intermediate(
        &mut self,
        argument: &Expr,
        axes: &[String],
        name: &str,
        site: &CallSite<'_>,
    ) -> Result<ArrayBinding> {
        let span = &argument.span;
        let target = Access::indexed(name, indices(axes, span), span);
        let mut statement = Statement::made(target, Some(argument.clone()), span.clone(), site.frame);
        statement.constraints = constraints_of(site.constraints, axes);
        self.push(statement)?;
        Ok(ArrayBinding::whole(name.to_owned(), axes.len()))
    }

    /// The value of a scalar parameter. An expression that reads nodes is assigned to an intermediate.
    fn scalar(
        &mut self,
        argument: &Expr,
        name: &str,
        changed: &[String],
        function: &FunctionScope,
        (site, axes): (&CallSite<'_>, &MatchedAxes),
    ) -> Result<Expr> {
        if let Some(letter) = letters::of_expr(argument, site.letters).into_iter().next() {
            let (function, parameter) = (function.function.clone(), name.to_owned());
            return Err(TextErrorKind::ScalarWithLetter { function, parameter, letter }.at(&argument.span));
        }
        let mut value = argument.clone();
        name_nodes(&mut value);
        // The letter of a size is the caller's, and the function may have another one of that name.
        if let Some(letter) = axes.replace_sizes(&mut value) {
            let (function, parameter) = (function.function.clone(), name.to_owned());
            return Err(TextErrorKind::ScalarSize { function, parameter, letter }.at(&argument.span));
        }
        let mut read = Vec::new();
        letters::nodes_of(&value, &mut read);
        let is_plain = matches!(value.kind, ExprKind::Access(_)) || read.is_empty();
        if is_plain && !read.iter().any(|node| changed.iter().any(|name| letters::may_be_same(name, node))) {
            return Ok(value);
        }
        let node = self.intermediate(&value, &[], &format!("{}.{name}", function.prefix), site)?;
        let (name_span, family, indices) = (argument.span.clone(), Vec::new(), Vec::new());
        let access =
            Access { name: node.name, name_span, family, merge: false, indices, span: argument.span.clone() };
        Expr::new(ExprKind::Access(Box::new(access)), argument.span.clone())
    }
}

/// The names of the nodes that a call changes while the function runs.
fn changed_names(arguments: &[(&Parameter, Option<&Expr>)]) -> Vec<String> {
    let changed = arguments.iter().filter_map(|(parameter, argument)| match (parameter, argument) {
        (Parameter::Array { inout: true, .. }, Some(Expr { kind: ExprKind::Access(access), .. })) => {
            Some(access.name.clone())
        }
        (Parameter::Array { inout: true, .. }, Some(Expr { kind: ExprKind::Name(name), .. })) => {
            Some(name.clone())
        }
        _ => None,
    });
    changed.collect()
}

/// The node of an argument that the function writes.
fn writable(argument: &Expr, axes: &[String], def: &Def, pattern: &Pattern) -> Result<ArrayBinding> {
    let access = arguments::direct(argument, axes, &[]).filter(|access| access.indices.len() == axes.len());
    match access.filter(|access| !access.merge) {
        Some(access) => Ok(arguments::binding(access, axes)),
        None => {
            let (function, parameter) = (def.name.clone(), pattern.to_string());
            Err(TextErrorKind::NotWritable { function, parameter }.at(&argument.span))
        }
    }
}

/// The nodes in place of the parameters and results of a call.
fn call_nodes(def: &Def, function: &FunctionScope) -> CallNodes {
    let array = |name: &str| function.arrays.get(name).map(|node| node.name.clone());
    let mut nodes = CallNodes::default();
    for parameter in &def.parameters {
        match parameter {
            Parameter::Array { pattern, .. } => nodes.arrays.extend(array(&pattern.name)),
            Parameter::Scalar { name, .. } => {
                let value = function.scalars.get(name);
                value.into_iter().for_each(|value| letters::nodes_of(value, &mut nodes.scalars));
            }
        }
    }
    nodes.results = def.results.iter().filter_map(|result| array(&result.name)).collect();
    nodes
}

/// The parameters that a function only reads.
fn inputs(def: &Def) -> BTreeSet<String> {
    let input = |parameter: &&Parameter| !matches!(parameter, Parameter::Array { inout: true, .. });
    def.parameters.iter().filter(input).map(|parameter| parameter.name().to_owned()).collect()
}

/// The parameters that a function writes.
fn inouts(def: &Def) -> impl Iterator<Item = &str> {
    def.parameters.iter().filter_map(|parameter| match parameter {
        Parameter::Array { pattern, inout: true } => Some(pattern.name.as_str()),
        Parameter::Array { .. } | Parameter::Scalar { .. } => None,
    })
}

fn check_results(def: &Def, found: usize, span: &ByteRange) -> Result<()> {
    let expected = def.results.len();
    match expected == found {
        true => Ok(()),
        false => {
            let function = def.name.clone();
            Err(TextErrorKind::ResultCount { function, expected, found }.at(span))
        }
    }
}

/// Rejects a call of a function within its own expansion.
fn reject_recursion(call: &Call, def: &Def, frame: &Option<Arc<Frame>>) -> Result<()> {
    let mut cycle = vec![call.function.clone()];
    let mut frame = frame.as_ref();
    while let Some(at) = frame {
        if let FrameKind::Call { function, definition, .. } = &at.kind {
            cycle.push(function.clone());
            if *definition == def.name_span.start {
                cycle.reverse();
                return Err(TextErrorKind::Recursion { cycle }.at(&call.name_span));
            }
        }
        frame = at.outer.as_ref();
    }
    Ok(())
}

/// Letters for the row variables of a function: the caller's where they differ from each other, from the
/// function's own letters, and from the names in its values, which a letter of the same name would capture.
fn fresh_rows(rows: &BTreeMap<String, Vec<String>>, def: &Def) -> BTreeMap<String, Vec<String>> {
    let mut used = letters::names_of_def(def);
    let mut fresh = |letter: &String| {
        let numbered = (1usize..).map(|number| format!("{letter}{number}"));
        let mut names = std::iter::once(letter.clone()).chain(numbered);
        let name = names.find(|name| !used.contains(name)).unwrap_or_default();
        used.insert(name.clone());
        name
    };
    rows.iter().map(|(row, letters)| (row.clone(), letters.iter().map(&mut fresh).collect())).collect()
}

/// The argument, with a bare name that is no letter as an access to a node of rank 0.
fn as_node(argument: &Expr, letters: &[String]) -> Expr {
    let mut argument = argument.clone();
    if matches!(&argument.kind, ExprKind::Name(name) if !letters.contains(name)) {
        name_nodes(&mut argument);
    }
    argument
}

/// Turns bare names, which are nodes of rank 0 or numbers, into accesses and numbers, so that no letter of a
/// function captures them.
fn name_nodes(expr: &mut Expr) {
    if let ExprKind::Name(name) = &expr.kind {
        expr.kind = match Number::named(name) {
            Some(number) => ExprKind::Number(number),
            None => ExprKind::Access(Box::new(Access::whole(name.clone(), &expr.span))),
        };
    }
    expr.children_mut().into_iter().for_each(name_nodes);
}

fn indices(letters: &[String], span: &ByteRange) -> Vec<Index> {
    letters.iter().map(|letter| Index::Linear(IndexExpr::letter(letter, span.clone()))).collect()
}

fn result_access(call: &Call, name: &str, indices: Vec<Index>) -> Result<Expr> {
    let access = Access::indexed(name, indices, &call.span);
    let access = Access { name_span: call.name_span.clone(), ..access };
    Expr::new(ExprKind::Access(Box::new(access)), call.span.clone())
}

/// The constraints of a statement after its calls have been replaced. A constraint of a letter that occurred
/// in arguments only is left out.
fn remaining(before: &Statement, after: &Statement) -> Vec<Constraint> {
    let (all, left) = (letters::everywhere(before), letters::everywhere(after));
    let stays = |constraint: &&Constraint| {
        constraint.letters().into_iter().all(|letter| {
            let has = |letters: &[String]| letters.iter().any(|known| known == letter);
            has(&left) || !has(&all)
        })
    };
    before.constraints.iter().filter(stays).cloned().collect()
}
