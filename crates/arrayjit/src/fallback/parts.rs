//! Compiles each part of a divided routine, and plans the copies between the parts.
//!
//! Before a part runs on the fallback, the nodes that it reads or writes in part are copied to the fallback,
//! unless the fallback already has their current values. After it, the nodes that it wrote are copied back,
//! except local nodes that only parts on the fallback touch from there on.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

use codegen_core::{Access, Code, Param, Slot};
use lowered_ir::{
    ir::{LoweredRoutine, NodeRef},
    passes::{effects::Effects, runner::Trace},
    text,
};

use super::{
    code::{DividedCode, NodeUse, PartBackend, PartCode},
    divide::{Division, RoutinePart},
    merge_copy,
    runs::FallbackRuns,
    statement::Fallback,
};
use crate::{
    error::CompileError,
    generate::{self, Generator, Rejection, verified},
    settings::FallbackSetting,
};

/// Divides a routine that `own` has rejected, and compiles the parts; `trace` sees each stage of each part.
/// `runs` counts the work of the fallback.
///
/// # Errors
///
/// `rejection` with a remedy if there is no fallback; the error of a part that the fallback rejects as well;
/// any other error of compiling a part.
pub(crate) fn compile(
    own: &Generator,
    fallback: Option<&Generator>,
    runs: &Arc<FallbackRuns>,
    routine: &LoweredRoutine,
    rejection: CompileError,
    trace: &mut Trace<'_>,
) -> Result<DividedCode, CompileError> {
    let Some(fallback) = fallback else {
        return Err(match FallbackSetting::suggestion(own.name()) {
            Some(to) => CompileError::NoFallback { source: Box::new(rejection), to },
            None => rejection,
        });
    };
    let with_copy;
    let mut routine = routine;
    let mut division = divide(own, routine)?;
    if let Some(node) = merge_buffer_read_by_fallback(&division) {
        with_copy = merge_copy::with_merge_copy(routine, node);
        (division, routine) = (divide(own, &with_copy)?, &with_copy);
        if merge_buffer_read_by_fallback(&division).is_some() {
            return Err(merge_rejected(&division, routine, node, own));
        }
    }
    let (divided, shared) = division.parts();
    let mut parts = Vec::with_capacity(divided.len());
    for part in &divided {
        trace.show("divide", &part.routine);
        let compiled = match part.place {
            PartBackend::Own => code(own, &routine.name, part, trace)?,
            PartBackend::Fallback => code(fallback, &routine.name, part, trace)
                .map_err(|error| rejected_twice(&division, routine, part, fallback, error))?,
        };
        parts.push(compiled);
    }
    copies(&mut parts, &shared);
    let shared = shared.into_iter().map(|node| (node, routine.node(node).clone())).collect();
    let fallbacks =
        division.rejected().map(|(at, rejection)| report(own, fallback, routine, at, rejection)).collect();
    let [own, fallback] = [own, fallback].map(|generator| Arc::clone(&generator.target));
    let (name, runs) = (routine.name.clone(), Arc::clone(runs));
    Ok(DividedCode { name, own, fallback, runs, parts, shared, fallbacks })
}

/// The node whose merge buffer some part on the fallback reads.
fn merge_buffer_read_by_fallback(division: &Division<'_>) -> Option<NodeRef> {
    let elsewhere = division.parts().0.into_iter().filter(|part| part.place == PartBackend::Fallback);
    elsewhere.filter_map(|part| merge_copy::merge_buffer_node(&part.routine.body)).next()
}

/// The error of a merge buffer that the backend cannot even copy.
fn merge_rejected(
    division: &Division<'_>,
    routine: &LoweredRoutine,
    node: NodeRef,
    own: &Generator,
) -> CompileError {
    let reads = |at: &Range<usize>| merge_copy::merge_buffer_node(&routine.body[at.clone()]).is_some();
    let rejected = division.rejected().find(|(at, _)| reads(at));
    CompileError::FallbackMerge {
        routine: routine.name.clone(),
        node: routine.node(node).name.clone(),
        backend: own.name().to_owned(),
        what: rejected
            .map_or_else(String::new, |(_, rejection)| format!("{}: {}", rejection.what, rejection.why)),
    }
}

/// Divides a routine so that `own` accepts every part that is assigned to it.
fn divide<'r>(own: &Generator, routine: &'r LoweredRoutine) -> Result<Division<'r>, CompileError> {
    let mut division = Division::new(routine);
    let alone: Vec<LoweredRoutine> = division.units().collect();
    for (unit, alone) in alone.iter().enumerate() {
        if let Some(rejection) = rejection(own, alone)? {
            division.reject(unit, rejection);
        }
    }
    // A part may be rejected although each of its units is accepted. Each round splits such a part, or moves
    // a unit to the fallback.
    while let Some((units, rejection)) = rejected_part(own, &division)? {
        division.narrow(units, rejection);
    }
    Ok(division)
}

/// The first node that the first rejected statement of a routine writes.
pub(crate) fn first_rejected(own: &Generator, routine: &LoweredRoutine) -> Option<NodeRef> {
    let alone = Division::new(routine).units().find(|alone| matches!(rejection(own, alone), Ok(Some(_))));
    Effects::of(&alone?.body).writes.into_iter().next()
}

/// The first part of the backend's own that it rejects.
fn rejected_part(
    own: &Generator,
    division: &Division<'_>,
) -> Result<Option<(Range<usize>, Rejection)>, CompileError> {
    for part in division.parts().0.into_iter().filter(|part| part.place == PartBackend::Own) {
        if let Some(rejection) = rejection(own, &part.routine)? {
            return Ok(Some((part.units, rejection)));
        }
    }
    Ok(None)
}

/// The reason why the backend rejects a routine, if it does.
fn rejection(own: &Generator, routine: &LoweredRoutine) -> Result<Option<Rejection>, CompileError> {
    verified("division", routine)?;
    match own.code(routine, &mut Trace::none()) {
        Ok(_) => Ok(None),
        Err(error) => generate::rejection(&error).ok_or(error).map(Some),
    }
}

fn code(
    generator: &Generator,
    name: &str,
    part: &RoutinePart,
    trace: &mut Trace<'_>,
) -> Result<PartCode, CompileError> {
    verified("division", &part.routine)?;
    // Errors of linking and running name the routine that the user knows.
    let code = generator.code(&part.routine, trace)?.renamed(name);
    let roles = roles(&code);
    Ok(PartCode { place: part.place, code: Arc::new(code), roles, copy_in: Vec::new(), copy_out: Vec::new() })
}

/// The error of statements that both the backend and its fallback reject.
fn rejected_twice(
    division: &Division<'_>,
    routine: &LoweredRoutine,
    part: &RoutinePart,
    fallback: &Generator,
    error: CompileError,
) -> CompileError {
    let rejected = division.rejected().find(|(at, _)| division.holds(part, at));
    let what =
        rejected.map_or_else(String::new, |(_, rejection)| format!("{}: {}", rejection.what, rejection.why));
    let (routine, to) = (routine.name.clone(), fallback.name().to_owned());
    CompileError::FallbackRejected { routine, what, to, source: Box::new(error) }
}

fn report(
    own: &Generator,
    fallback: &Generator,
    routine: &LoweredRoutine,
    at: Range<usize>,
    rejection: &Rejection,
) -> Fallback {
    let body = &routine.body[at.clone()];
    let writes = Effects::of(body).writes;
    Fallback {
        routine: routine.name.clone(),
        from: own.name().into(),
        to: fallback.name().into(),
        statements: at,
        num_statements: routine.body.len(),
        writes: writes.into_iter().map(|node| routine.node(node).name.clone()).collect(),
        what: rejection.what.clone(),
        why: rejection.why.clone(),
        text: body.iter().map(|stmt| text::print_stmt(routine, stmt)).collect(),
    }
}

/// How a part uses the nodes of its context, from its kernel calls in order.
fn roles(code: &Code) -> BTreeMap<NodeRef, NodeUse> {
    let mut roles: BTreeMap<NodeRef, NodeUse> = BTreeMap::new();
    for call in code.schedule().calls() {
        let params = code.artifact().kernels().get(call.kernel).map_or(&[][..], |abi| &abi.params);
        for (slot, param) in call.args.iter().zip(params) {
            let (&Slot::Node(node), &Param::Node { access, .. }) = (slot, param) else { continue };
            let reads_first = matches!(access, Access::Read | Access::ReadWrite);
            let overwrites = code.schedule().overwritten().contains(&node);
            let role = NodeUse { reads_first, writes: false, overwrites };
            roles.entry(node).or_insert(role).writes |= access != Access::Read;
        }
    }
    roles
}

/// Plans the copies before and after the parts on the fallback. `shared` nodes have no values before a run
/// and are not read after it.
fn copies(parts: &mut [PartCode], shared: &BTreeSet<NodeRef>) {
    // The nodes that the run has touched so far, and the nodes whose current values the fallback has.
    let (mut met, mut present) = (BTreeSet::new(), BTreeSet::new());
    for at in 0..parts.len() {
        let own_later: BTreeSet<NodeRef> = parts[at..]
            .iter()
            .filter(|part| part.place == PartBackend::Own)
            .flat_map(|part| part.roles.keys().copied())
            .collect();
        let part = &mut parts[at];
        let written = part.roles.iter().filter(|(_, role)| role.writes).map(|(&node, _)| node);
        match part.place {
            PartBackend::Own => written.for_each(|node| {
                present.remove(&node);
            }),
            PartBackend::Fallback => {
                part.copy_out =
                    written.filter(|node| !shared.contains(node) || own_later.contains(node)).collect();
                let wanted = part.roles.iter().filter(|(node, role)| {
                    let has_values = !shared.contains(node) || met.contains(*node);
                    !role.overwrites && has_values && !present.contains(*node)
                });
                part.copy_in = wanted.map(|(&node, _)| node).collect();
                present.extend(part.roles.keys().copied());
            }
        }
        met.extend(part.roles.keys().copied());
    }
}
