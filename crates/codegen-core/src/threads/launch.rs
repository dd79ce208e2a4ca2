//! Which loops of a kernel are its grid, and how many threads run an iteration of it.

use lowered_ir::ir::{LoopId, LoopKind, Stmt, SymbolId};

use super::refusal::{Checked, Refusal, refuse};

/// A parallel loop of the grid.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Its variable.
    pub var: LoopId,
    /// The variable's first value.
    pub lo: i64,
    /// Iterations if no symbol makes them fewer.
    pub extent: i64,
    /// The loop ends before this symbol's value, where it has one.
    pub symbol: Option<SymbolId>,
}

/// A kernel's launch: nested parallel loops, outermost first, around a body.
#[derive(Debug)]
pub struct Grid<'k> {
    /// The loops.
    pub axes: Vec<Axis>,
    /// What each iteration does.
    pub body: &'k [Stmt],
    /// Iterations of all axes together.
    pub extent: u32,
    /// Threads that run an iteration together; `None` where an iteration is a thread.
    pub threads: Option<u32>,
}

/// Takes the grid of a kernel's body apart.
///
/// # Errors
///
/// [`Refusal`] of more iterations than 32 bits number, and as [`nest`].
pub fn grid(mut body: &[Stmt]) -> Checked<Grid<'_>> {
    let mut axes = Vec::new();
    while let Some((axis, inner)) = axis(body) {
        axes.push(axis);
        body = inner;
    }
    let extent = axes.iter().try_fold(1u64, |product, a| product.checked_mul(a.extent as u64));
    let Some(extent) = extent.and_then(|e| u32::try_from(e).ok()) else {
        return refuse("a parallel loop", "it has 2^32 iterations or more, threads are numbered by 32 bits");
    };
    let threads = if has_workgroup_loops(body) { Some(most_threads(body)?) } else { None };
    Ok(Grid { axes, body, extent, threads })
}

/// The parallel loop that is all there is in a block, but for comments.
fn axis(block: &[Stmt]) -> Option<(Axis, &[Stmt])> {
    match sole(block)? {
        Stmt::For { var, lo, hi, kind: LoopKind::Parallel, body } => {
            let extent = hi.limit.saturating_sub(*lo).max(0);
            Some((Axis { var: *var, lo: *lo, extent, symbol: hi.symbol }, body))
        }
        _ => None,
    }
}

/// The one statement of a block that is not a comment.
pub fn sole(block: &[Stmt]) -> Option<&Stmt> {
    let mut rest = block.iter().filter(|stmt| !matches!(stmt, Stmt::Comment(_)));
    rest.next().filter(|_| rest.next().is_none())
}

/// Whether workgroup loops stand in a block.
pub fn has_workgroup_loops(block: &[Stmt]) -> bool {
    block.iter().any(|stmt| match stmt {
        Stmt::For { kind: LoopKind::Workgroup, .. } => true,
        Stmt::For { body, .. } => has_workgroup_loops(body),
        Stmt::Set { .. }
        | Stmt::SetDynamic { .. }
        | Stmt::SetLocal { .. }
        | Stmt::Zero { .. }
        | Stmt::Declare { .. }
        | Stmt::Comment(_)
        | Stmt::Log { .. } => false,
    })
}

/// The threads of the widest nest of workgroup loops.
fn most_threads(block: &[Stmt]) -> Checked<u32> {
    let mut most = 1;
    for stmt in block {
        most = most.max(match stmt {
            Stmt::For { kind: LoopKind::Workgroup, .. } => nest(stmt)?.threads,
            Stmt::For { body, .. } => most_threads(body)?,
            _ => 1,
        });
    }
    Ok(most)
}

/// Nested workgroup loops, outermost first.
#[derive(Debug)]
pub struct Nest<'k> {
    /// The loops' variables, and how many iterations each has.
    pub axes: Vec<(LoopId, u32)>,
    /// What each iteration does.
    pub body: &'k [Stmt],
    /// Iterations of all of them together: the threads that take part.
    pub threads: u32,
}

/// Takes nested workgroup loops apart. They have nothing between them, or it would be unclear which threads do that.
///
/// # Errors
///
/// [`Refusal`] of workgroup loops beside other statements in one.
pub fn nest(stmt: &Stmt) -> Checked<Nest<'_>> {
    let mut nest = Nest { axes: Vec::new(), body: std::slice::from_ref(stmt), threads: 1 };
    while let Some(Stmt::For { var, hi, kind: LoopKind::Workgroup, body, .. }) = sole(nest.body) {
        let extent = u32::try_from(hi.limit).unwrap_or(u32::MAX);
        nest.axes.push((*var, extent));
        nest.threads = nest.threads.saturating_mul(extent);
        nest.body = body;
    }
    if has_workgroup_loops(nest.body) {
        let why = "one stands beside other statements inside of another: nest them directly";
        return Err(Refusal::new("nested workgroup loops", why));
    }
    Ok(nest)
}
