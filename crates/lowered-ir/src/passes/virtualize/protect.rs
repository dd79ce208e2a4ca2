//! Protects speculatively computed values: every read in them is guarded, so that no read is out of bounds.

use tnode::{DType, Scalar};

use crate::ir::{Affine, Expr, Guard, Indices, LocalId, NodeRef, walk};
use crate::passes::ranges::Ranges;
use crate::verify::proves_in_bounds;

use super::InlineRejection;
use super::instantiate::UseSite;

/// The condition under which a value is used, and the local that holds the element being computed.
pub(super) struct Protection {
    /// The node being inlined.
    pub(super) node: NodeRef,
    /// The local that stands for the element being computed.
    pub(super) local: LocalId,
    /// The condition under which the value is used; empty for always.
    pub(super) guard: Guard,
}

impl Protection {
    /// The value with the element read from the local and every other read guarded.
    ///
    /// # Errors
    /// A part of the value is not provably in bounds where the guard fails, and has no guarded form.
    pub(super) fn value(&self, value: Expr, site: &UseSite<'_>) -> Result<Expr, InlineRejection> {
        let mut obstacle = None;
        let value = walk::map_expr(value, &mut |e| self.part(e, site, &mut obstacle));
        match obstacle {
            Some(what) => Err(InlineRejection::Unguardable { what }),
            None => Ok(value),
        }
    }

    fn part(&self, part: Expr, site: &UseSite<'_>, obstacle: &mut Option<&'static str>) -> Expr {
        match part {
            Expr::Get { node, .. } if node == self.node => Expr::local(self.local),
            part if self.guard.is_empty() => part,
            Expr::Get { node, index } => {
                let otherwise = Expr::Const(Scalar::zero(site.routine.node(node).dtype));
                self.read(Guard::new(), node, index, otherwise, site, obstacle)
            }
            Expr::GetGuarded { guard, node, index, otherwise } => {
                self.read(guard, node, index, *otherwise, site, obstacle)
            }
            Expr::GetMerge { node, ref index } if !in_bounds(&Guard::new(), node, index, site) => {
                *obstacle = Some("a read of the merge buffer");
                part
            }
            Expr::GetDynamic { node, ref index, .. } if !in_bounds(&Guard::new(), node, index, site) => {
                *obstacle = Some("a read at a computed index");
                part
            }
            Expr::Index { ref index, dtype: DType::I32 } if !fits_i32(index, site.ranges) => {
                // i32(k) = i32(i64(k)) if k fits into `i32`. If it does not, the guard fails and the value is
                // not used.
                Expr::convert(DType::I32, Expr::Index { index: index.clone(), dtype: DType::I64 })
            }
            other => other,
        }
    }

    fn read(
        &self,
        mut guard: Guard,
        node: NodeRef,
        index: Indices,
        otherwise: Expr,
        site: &UseSite<'_>,
        obstacle: &mut Option<&'static str>,
    ) -> Expr {
        let new: Guard = self.guard.iter().filter(|range| !guard.contains(range)).cloned().collect();
        guard.extend(new);
        if !in_bounds(&guard, node, &index, site) {
            *obstacle = Some("a read at an index that the guard does not bound");
        }
        Expr::GetGuarded { guard, node, index, otherwise: Box::new(otherwise) }
    }
}

fn in_bounds(guard: &Guard, node: NodeRef, index: &Indices, site: &UseSite<'_>) -> bool {
    proves_in_bounds(site.routine, site.ranges, guard, index, &site.routine.node(node).dims)
}

fn fits_i32(index: &Affine, ranges: &Ranges) -> bool {
    let limits = i64::from(i32::MIN)..=i64::from(i32::MAX);
    ranges.bounds(index).is_some_and(|(lo, hi)| limits.contains(&lo) && limits.contains(&hi))
}
