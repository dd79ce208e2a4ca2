//! Results of calls: the node that holds each, and the caller's letters of its axes.

use std::collections::BTreeSet;

use super::arguments::{self, MatchedAxes};
use super::letters::{self, may_be_same};
use super::scope::{ArrayBinding, CallSite, FunctionScope};
use crate::ast::{Access, Call, Def, Expr, Index, Pattern};
use crate::error::{Result, TextErrorKind};

/// The node that holds a result, and the caller's letters of its axes.
pub(super) struct CallResult {
    pub(super) node: ArrayBinding,
    pub(super) letters: Vec<String>,
    pub(super) is_target: bool,
}

/// Binds the results of a call: to the targets where possible, else to intermediates.
pub(super) fn bind_results(
    mut function: FunctionScope,
    axes: &MatchedAxes,
    call: &Call,
    def: &Def,
    site: &CallSite<'_>,
) -> Result<(FunctionScope, Vec<CallResult>)> {
    let mut results = Vec::new();
    for (at, pattern) in def.results.iter().enumerate() {
        let found = axes.result(&def.name, pattern)?;
        let target = site.targets.get(at);
        let letters = match &call.indices {
            // The indices after a call need no letters.
            Some(_) => found.into_iter().map(Option::unwrap_or_default).collect(),
            None => result_letters(found, target, def, pattern, call)?,
        };
        let own = format!("{}.{}", function.prefix, pattern.name);
        let receives = |target: &&Access| {
            let arguments = call.arguments.iter().map(|argument| &argument.value);
            let others =
                site.targets.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| other);
            site.constraints.is_empty() && receives_directly(target, &letters, arguments, others)
        };
        let result = match target.filter(receives) {
            Some(target) => {
                CallResult { node: arguments::binding(target, &letters), letters, is_target: true }
            }
            None => CallResult { node: ArrayBinding::whole(own, letters.len()), letters, is_target: false },
        };
        function.arrays.insert(pattern.name.clone(), result.node.clone());
        function.locals.remove(&pattern.name);
        results.push(result);
    }
    for parameter in &def.parameters {
        function.locals.remove(parameter.name());
    }
    Ok((function, results))
}

/// The letters of a result. Letters that no argument has are, in order, those letters of the target that no
/// argument has.
fn result_letters(
    found: Vec<Option<String>>,
    target: Option<&Access>,
    def: &Def,
    pattern: &Pattern,
    call: &Call,
) -> Result<Vec<String>> {
    let of_target =
        target.iter().flat_map(|target| &target.indices).filter_map(Index::as_letter).map(str::to_owned);
    let mut free = of_target.filter(|letter| !found.iter().flatten().any(|known| known == letter));
    let mut letters = Vec::new();
    for letter in &found {
        match letter.clone().or_else(|| free.next()) {
            Some(letter) => letters.push(letter),
            None => {
                let (function, result) = (def.name.clone(), pattern.to_string());
                return Err(TextErrorKind::OpenResult { function, result }.at(&call.span));
            }
        }
    }
    Ok(letters)
}

/// Whether a function may write its result to the target itself: the target has one letter of the result per
/// axis, and no argument and no other target may be the same node.
fn receives_directly<'a>(
    target: &Access,
    letters: &[String],
    mut arguments: impl Iterator<Item = &'a Expr>,
    mut others: impl Iterator<Item = &'a Access>,
) -> bool {
    let axes: Option<BTreeSet<&str>> = target.indices.iter().map(Index::as_letter).collect();
    let wanted: BTreeSet<&str> = letters.iter().map(String::as_str).collect();
    let is_permutation = target.indices.len() == letters.len() && wanted.len() == letters.len();
    let reads = |argument: &Expr| {
        let mut nodes = Vec::new();
        letters::nodes_of(argument, &mut nodes);
        nodes.iter().any(|node| may_be_same(node, &target.name))
    };
    is_permutation
        && axes == Some(wanted)
        && !target.merge
        && !arguments.any(reads)
        && !others.any(|other| may_be_same(&other.name, &target.name))
}
