//! Code for each part of a divided routine, and what is copied between them.
//!
//! Before a part runs on the fallback it is brought every node that it reads, or writes in part only, unless the fallback has what is
//! there already from this run. After it, what it wrote is given back, unless only parts on the fallback ever touch it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

use codegen_core::{Access, Code, Param, Slot};
use lowered_ir::{
    ir::{NodeDecl, NodeRef, Routine},
    passes::effects::Effects,
    text,
};

use tnode::TensorNode;

use super::{
    Fallback,
    divide::{Division, Part, Place},
    land,
};
use crate::{
    backend::Backend,
    calls::{CallReport, Statements},
    error::CompileError,
    generate::{self, Refusal, verified},
};

/// The code of a divided routine.
#[derive(Clone, Debug)]
pub(crate) struct DividedCode {
    pub(crate) name: String,
    pub(crate) own: Backend,
    pub(crate) fallback: Backend,
    pub(crate) parts: Vec<PartCode>,
    /// The declarations of the local nodes that several parts touch.
    pub(crate) shared: BTreeMap<NodeRef, NodeDecl>,
    pub(crate) fallbacks: Vec<Fallback>,
}

/// The code of a part.
#[derive(Clone, Debug)]
pub(crate) struct PartCode {
    pub(crate) place: Place,
    pub(crate) code: Arc<Code>,
    pub(crate) roles: BTreeMap<NodeRef, Role>,
    /// What is copied to the fallback before it runs there.
    pub(crate) bring: Vec<NodeRef>,
    /// What is copied from the fallback after it ran there.
    pub(crate) give: Vec<NodeRef>,
}

/// What a part does with a node in its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    /// Whether its first call that touches the node reads it.
    pub(crate) reads_first: bool,
    pub(crate) writes: bool,
    /// Whether nothing of what was there before can be read or left over.
    pub(crate) overwrites: bool,
}

impl DividedCode {
    /// Tells and counts what falls back, once the routine is compiled.
    pub(crate) fn tell(&self, nodes: &[TensorNode], statements: &Statements) {
        let watch = self.own.watch();
        for fallback in &self.fallbacks {
            let Fallback { routine, from, to, what, why, .. } = fallback;
            tracing::warn!(%routine, %from, %to, %what, %why, "statements fall back");
            watch.fallback(fallback);
        }
        for (at, part) in self.parts.iter().enumerate() {
            let backend = self.backend(part.place);
            let which = format!("{}, part {} on {}", self.name, at + 1, backend.name());
            let (codegen, schedule) = (backend.codegen(), part.code.schedule());
            watch.compiled(&which, &CallReport { codegen, schedule, nodes, statements });
            if part.place == Place::Fallback {
                self.own.refuge().count_kernels(part.code.schedule().kernels().len());
            }
        }
    }

    fn backend(&self, place: Place) -> &Backend {
        match place {
            Place::Own => &self.own,
            Place::Fallback => &self.fallback,
        }
    }
}

/// Divides a routine that `own` has refused, and compiles the parts; `on_step` sees what becomes of each.
///
/// # Errors
///
/// The refusal, where there is no fallback; what the fallback refuses as well; and whatever else stops a part from being compiled.
pub(crate) fn compile(
    own: &Backend,
    routine: &Routine,
    refusal: CompileError,
    on_step: &mut dyn FnMut(&str, &Routine),
) -> Result<DividedCode, CompileError> {
    let opened = own.fallback().map_err(|error| CompileError::FallbackOpen { source: Box::new(error) })?;
    let Some(fallback) = opened else { return Err(refusal) };
    let landed;
    let mut routine = routine;
    let mut division = divide(own, routine)?;
    if let Some(node) = merged_elsewhere(&division) {
        landed = land::landed(routine, node);
        (division, routine) = (divide(own, &landed)?, &landed);
        if merged_elsewhere(&division).is_some() {
            return Err(merge_refused(&division, routine, node, own));
        }
    }
    let (divided, shared) = division.parts();
    let mut parts = Vec::with_capacity(divided.len());
    for part in &divided {
        on_step("divide", &part.routine);
        let compiled = match part.place {
            Place::Own => code(own, &routine.name, part, on_step)?,
            Place::Fallback => code(fallback, &routine.name, part, on_step)
                .map_err(|error| refused_twice(&division, routine, part, fallback, error))?,
        };
        parts.push(compiled);
    }
    copies(&mut parts, &shared);
    let shared = shared.into_iter().map(|node| (node, routine.node(node).clone())).collect();
    let fallbacks =
        division.refused().map(|(at, refusal)| report(own, fallback, routine, at, refusal)).collect();
    let (own, fallback) = (own.clone(), fallback.clone());
    Ok(DividedCode { name: routine.name.clone(), own, fallback, parts, shared, fallbacks })
}

/// The node that some part on the fallback reads the merge buffer as.
fn merged_elsewhere(division: &Division<'_>) -> Option<NodeRef> {
    let elsewhere = division.parts().0.into_iter().filter(|part| part.place == Place::Fallback);
    elsewhere.filter_map(|part| land::merged(&part.routine.body)).next()
}

/// The error of a merge buffer that the backend cannot even copy.
fn merge_refused(division: &Division<'_>, routine: &Routine, node: NodeRef, own: &Backend) -> CompileError {
    let reads = |at: &Range<usize>| land::merged(&routine.body[at.clone()]).is_some();
    let refused = division.refused().find(|(at, _)| reads(at));
    CompileError::FallbackMerge {
        routine: routine.name.clone(),
        node: routine.node(node).name.clone(),
        backend: own.name().to_owned(),
        what: refused.map_or_else(String::new, |(_, refusal)| format!("{}: {}", refusal.what, refusal.why)),
    }
}

/// The division whose own parts the backend compiles.
fn divide<'r>(own: &Backend, routine: &'r Routine) -> Result<Division<'r>, CompileError> {
    let mut division = Division::new(routine);
    let alone: Vec<Routine> = division.units().collect();
    for (unit, alone) in alone.iter().enumerate() {
        if let Some(refusal) = refusal(own, alone)? {
            division.refuse(unit, refusal);
        }
    }
    // A part may be too much where none of its units is. Each round makes a part smaller, or sends a unit away.
    while let Some((units, refusal)) = refused_part(own, &division)? {
        division.narrow(units, refusal);
    }
    Ok(division)
}

/// The first of the own parts that the backend refuses.
fn refused_part(
    own: &Backend,
    division: &Division<'_>,
) -> Result<Option<(Range<usize>, Refusal)>, CompileError> {
    for part in division.parts().0.into_iter().filter(|part| part.place == Place::Own) {
        if let Some(refusal) = refusal(own, &part.routine)? {
            return Ok(Some((part.units, refusal)));
        }
    }
    Ok(None)
}

/// What the backend refuses of a routine, if it does.
fn refusal(own: &Backend, routine: &Routine) -> Result<Option<Refusal>, CompileError> {
    verified("division", routine)?;
    match generate::code(own, routine, &mut |_, _| {}) {
        Ok(_) => Ok(None),
        Err(error) => generate::refusal(&error).ok_or(error).map(Some),
    }
}

fn code(
    backend: &Backend,
    name: &str,
    part: &Part,
    on_step: &mut dyn FnMut(&str, &Routine),
) -> Result<PartCode, CompileError> {
    verified("division", &part.routine)?;
    // Errors of linking and running are about the routine that the user knows.
    let code = generate::code(backend, &part.routine, on_step)?.renamed(name);
    let roles = roles(&code);
    Ok(PartCode { place: part.place, code: Arc::new(code), roles, bring: Vec::new(), give: Vec::new() })
}

/// The error of statements that neither the backend nor its fallback compiles.
fn refused_twice(
    division: &Division<'_>,
    routine: &Routine,
    part: &Part,
    fallback: &Backend,
    error: CompileError,
) -> CompileError {
    let refused = division.refused().find(|(at, _)| division.holds(part, at));
    let what = refused.map_or_else(String::new, |(_, refusal)| format!("{}: {}", refusal.what, refusal.why));
    let (routine, to) = (routine.name.clone(), fallback.name().to_owned());
    CompileError::FallbackRefused { routine, what, to, source: Box::new(error) }
}

fn report(
    own: &Backend,
    fallback: &Backend,
    routine: &Routine,
    at: Range<usize>,
    refusal: &Refusal,
) -> Fallback {
    let body = &routine.body[at.clone()];
    let writes = Effects::of(body).writes;
    Fallback {
        routine: routine.name.clone(),
        from: own.name().into(),
        to: fallback.name().into(),
        statements: at,
        of: routine.body.len(),
        writes: writes.into_iter().map(|node| routine.node(node).name.clone()).collect(),
        what: refusal.what.clone(),
        why: refusal.why.clone(),
        text: body.iter().map(|stmt| text::print_stmt(routine, stmt)).collect(),
    }
}

/// What a part does with the nodes of its context, by the calls of its kernels, in their order.
fn roles(code: &Code) -> BTreeMap<NodeRef, Role> {
    let mut roles: BTreeMap<NodeRef, Role> = BTreeMap::new();
    for call in code.schedule().calls() {
        let params = code.artifact().kernels().get(call.kernel).map_or(&[][..], |abi| &abi.params);
        for (slot, param) in call.args.iter().zip(params) {
            let (&Slot::Node(node), &Param::Node { access, .. }) = (slot, param) else { continue };
            let reads_first = matches!(access, Access::Read | Access::ReadWrite);
            let overwrites = code.schedule().overwritten().contains(&node);
            let role = Role { reads_first, writes: false, overwrites };
            roles.entry(node).or_insert(role).writes |= access != Access::Read;
        }
    }
    roles
}

/// Plans what is copied around the parts on the fallback. `shared` nodes hold nothing before a run, and nobody looks at them after it.
fn copies(parts: &mut [PartCode], shared: &BTreeSet<NodeRef>) {
    // What this run has touched so far, and of what the fallback has the present values.
    let (mut met, mut present) = (BTreeSet::new(), BTreeSet::new());
    for at in 0..parts.len() {
        let own_later: BTreeSet<NodeRef> = parts[at..]
            .iter()
            .filter(|part| part.place == Place::Own)
            .flat_map(|part| part.roles.keys().copied())
            .collect();
        let part = &mut parts[at];
        let written = part.roles.iter().filter(|(_, role)| role.writes).map(|(&node, _)| node);
        match part.place {
            Place::Own => written.for_each(|node| {
                present.remove(&node);
            }),
            Place::Fallback => {
                part.give =
                    written.filter(|node| !shared.contains(node) || own_later.contains(node)).collect();
                let wanted = part.roles.iter().filter(|(node, role)| {
                    let has_values = !shared.contains(node) || met.contains(*node);
                    !role.overwrites && has_values && !present.contains(*node)
                });
                part.bring = wanted.map(|(&node, _)| node).collect();
                present.extend(part.roles.keys().copied());
            }
        }
        met.extend(part.roles.keys().copied());
    }
}
