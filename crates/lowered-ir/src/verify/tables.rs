//! Rules V1 to V3 on the declarations of a routine.

use std::collections::BTreeSet;

use super::{RoutinePosition, VerifyError, Violation, limits};
use crate::{
    ir::{LocalDecl, LocalId, LoweredRoutine, NodeDecl, NodeRef, Quotient, Space, Symbol, SymbolId, Var},
    text::{is_identifier, print_index},
};

/// Checks name, symbols and nodes.
pub(super) fn check(routine: &LoweredRoutine) -> Result<(), VerifyError> {
    let at = |place: RoutinePosition| move |violation| VerifyError::new(routine, place, violation);
    identifier(&routine.name).map_err(at(RoutinePosition::Routine))?;
    let mut names = BTreeSet::new();
    for (i, symbol) in routine.symbols.iter().enumerate() {
        let place = at(RoutinePosition::Symbol(SymbolId(i as u32)));
        check_symbol(symbol, &mut names)
            .and_then(|()| check_parameter(&routine.symbols[..=i]))
            .and_then(|()| check_quotients(routine, i))
            .map_err(place)?;
    }
    for (node, decl) in routine.node_refs() {
        node_size(node, decl).map_err(at(RoutinePosition::Node(node)))?;
    }
    Ok(())
}

/// Checks rule V1 on a name.
fn identifier(name: &str) -> Result<(), Violation> {
    if is_identifier(name) { Ok(()) } else { Err(Violation::Name { found: name.to_owned() }) }
}

/// Checks rules V1 and V2.
fn check_symbol<'r>(symbol: &'r Symbol, before: &mut BTreeSet<&'r str>) -> Result<(), Violation> {
    identifier(&symbol.name)?;
    if !before.insert(&symbol.name) {
        return Err(Violation::SymbolTwice { name: symbol.name.clone() });
    }
    let least = symbol.least.clamp(0, 1);
    if symbol.least != least || !(least + 1..=limits::EXTENT).contains(&symbol.range) {
        return Err(Violation::SymbolRange { found: symbol.least..symbol.range, max: limits::EXTENT });
    }
    Ok(())
}

/// Checks rule V2 on the order of symbols.
fn check_parameter(symbols: &[Symbol]) -> Result<(), Violation> {
    match symbols {
        [.., before, symbol] if before.quotient.is_some() && symbol.quotient.is_none() => {
            Err(Violation::ParameterAfterQuotient { name: symbol.name.clone() })
        }
        _ => Ok(()),
    }
}

/// Checks rule V2 on the value of a symbol, which the symbols before it give.
fn check_quotients(routine: &LoweredRoutine, at: usize) -> Result<(), Violation> {
    let Symbol { quotient, promise, .. } = &routine.symbols[at];
    quotient.iter().chain(promise).try_for_each(|quotient| check_quotient(routine, at, quotient))
}

fn check_quotient(
    routine: &LoweredRoutine,
    at: usize,
    Quotient { dividend, divisor }: &Quotient,
) -> Result<(), Violation> {
    let (symbol, before) = (&routine.symbols[at], &routine.symbols[..at]);
    let (name, max) = (symbol.name.clone(), limits::EXTENT);
    if !(1..=max).contains(divisor) {
        return Err(Violation::Divisor { name, found: *divisor, max });
    }
    let range = |var| match var {
        Var::Symbol(symbol) => before.get(symbol.index()).map(|symbol| symbol.range - 1),
        Var::Loop(_) => None,
    };
    let known = dividend.terms().iter().all(|&(var, _)| range(var).is_some());
    let bounds = dividend.bounds(|var| (0, range(var).unwrap_or(0)));
    if known && bounds.is_some_and(|(least, greatest)| -max <= least && greatest <= max) {
        return Ok(());
    }
    Err(Violation::Dividend { name, found: print_index(routine, dividend), max })
}

/// Checks rule V3 for a node.
fn node_size(node: NodeRef, decl: &NodeDecl) -> Result<(), Violation> {
    let array = || named_node(node, decl);
    size(&decl.dims, decl.dtype.size_bytes(), limits::NODE_BYTES, "bytes", array)?;
    rank(&decl.dims, array)
}

/// Checks rule V3 for a local.
pub(super) fn local_size(local: LocalId, decl: &LocalDecl) -> Result<(), Violation> {
    let array = || format!("local {local}");
    match decl.space {
        Space::Stack | Space::Scratch | Space::Workgroup | Space::Thread => {
            size(&decl.dims, decl.dtype.size_bytes(), limits::LOCAL_BYTES, "bytes", array)?
        }
        Space::Register => size(&decl.dims, 1, limits::REGISTER_ELEMENTS, "elements", array)?,
    }
    rank(&decl.dims, array)
}

/// A dimension of 0 counts as 1: it must not hide others that are too large to compute with.
fn size(
    dims: &[usize],
    each: usize,
    max: u64,
    unit: &'static str,
    array: impl FnOnce() -> String,
) -> Result<(), Violation> {
    let sized = |all: u128, dim: &usize| all.saturating_mul((*dim as u128).max(1));
    let found = dims.iter().fold(each as u128, sized);
    if found <= u128::from(max) {
        Ok(())
    } else {
        Err(Violation::TooLarge { array: array(), found, unit, max })
    }
}

fn rank(dims: &[usize], array: impl FnOnce() -> String) -> Result<(), Violation> {
    if dims.len() <= tnode::MAX_RANK {
        return Ok(());
    }
    Err(Violation::TooLarge {
        array: array(),
        found: dims.len() as u128,
        unit: "dimensions",
        max: tnode::MAX_RANK as u64,
    })
}

/// A node as errors name it.
pub(super) fn named_node(node: NodeRef, decl: &NodeDecl) -> String {
    format!("node {node} {:?}", decl.name)
}
