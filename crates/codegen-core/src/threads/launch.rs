//! The grid of a kernel, and the threads that run one of its iterations.

use lowered_ir::ir::{Bound, LoopId, LoopKind, Stmt};

use crate::rejection::{Checked, Rejection, reject};

/// A parallel loop of the grid.
#[derive(Clone, Copy, Debug)]
pub struct GridAxis<'k> {
    /// The loop's variable.
    pub var: LoopId,
    /// The variable's first value.
    pub lo: i64,
    /// The number of iterations, unless a clip of `hi` makes it smaller.
    pub extent: i64,
    /// One past the last value. Its clips mention symbols and the variables of outer axes.
    pub hi: &'k Bound,
}

/// The launch of a kernel: nested parallel loops around a body.
#[derive(Debug)]
pub struct Grid<'k> {
    /// The loops, outermost first.
    pub axes: Vec<GridAxis<'k>>,
    /// The statements of one iteration.
    pub body: &'k [Stmt],
    /// Iterations of all axes together.
    pub extent: u32,
    /// The threads that run one iteration together; `None` if each iteration is a thread.
    pub threads: Option<u32>,
}

/// Splits the body of a kernel into its grid and the body of one iteration.
///
/// # Errors
///
/// [`Rejection`] of 2³² iterations or more, and the errors of [`nest`].
pub fn grid(mut body: &[Stmt]) -> Checked<Grid<'_>> {
    let mut axes = Vec::new();
    while let Some((axis, inner)) = axis(body) {
        axes.push(axis);
        body = inner;
    }
    let extent = axes.iter().try_fold(1u64, |product, a| product.checked_mul(a.extent as u64));
    let Some(extent) = extent.and_then(|e| u32::try_from(e).ok()) else {
        return reject("a parallel loop", "it has 2^32 iterations or more, threads are numbered by 32 bits");
    };
    let threads = if has_workgroup_loops(body) { Some(most_threads(body)?) } else { None };
    Ok(Grid { axes, body, extent, threads })
}

/// The parallel loop that is the only statement of a block, comments aside.
fn axis(block: &[Stmt]) -> Option<(GridAxis<'_>, &[Stmt])> {
    match sole(block)? {
        Stmt::For { var, lo, hi, kind: LoopKind::Parallel, body } => {
            let extent = hi.limit.saturating_sub(*lo).max(0);
            Some((GridAxis { var: *var, lo: *lo, extent, hi }, body))
        }
        _ => None,
    }
}

/// The only statement of a block that is not a comment.
pub fn sole(block: &[Stmt]) -> Option<&Stmt> {
    let mut rest = block.iter().filter(|stmt| !matches!(stmt, Stmt::Comment(_)));
    rest.next().filter(|_| rest.next().is_none())
}

/// Whether a block contains workgroup loops.
pub(crate) fn has_workgroup_loops(block: &[Stmt]) -> bool {
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

/// The threads of the largest nest of workgroup loops.
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

/// Nested workgroup loops around a body.
#[derive(Debug)]
pub struct Nest<'k> {
    /// The variable and the extent of each loop, outermost first.
    pub axes: Vec<(LoopId, u32)>,
    /// The statements of one iteration.
    pub body: &'k [Stmt],
    /// The number of threads: the product of all extents.
    pub threads: u32,
}

/// Splits nested workgroup loops into the loops and their body. No statement may stand between the loops,
/// because it would be unclear which threads run it.
///
/// # Errors
///
/// [`Rejection`] of workgroup loops with other statements between them.
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
        return Err(Rejection::new("nested workgroup loops", why));
    }
    Ok(nest)
}
