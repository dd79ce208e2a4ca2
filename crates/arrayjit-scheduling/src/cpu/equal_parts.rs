//! Equal parts of a routine are fused once.
//!
//! Whether and how two statements fuse follows from their shapes and from the names that they share. So an
//! attempt on a pair that is equal to an earlier one but for its names has the result of the earlier attempt,
//! under its own names. Fusion decides as it would without this memory; only the work is spared.
//!
//! The shapes cost a walk over the routine. Only statements whose shape occurs again take part.

use std::cell::RefCell;
use std::rc::Rc;

use lowered_ir::ir::{IdMap, Locals, Stmt};

use crate::analysis::names::Names;
use crate::analysis::rename::rename_in_place;
use crate::analysis::shape::{Instance, Shape, ShapeNames, ShapeTable};
use crate::cpu::placed_stmt::PlacedStmt;

/// The results of attempts so far.
#[derive(Default)]
pub(crate) struct EqualParts {
    shapes: RefCell<ShapeTable>,
    results: RefCell<IdMap<Vec<u32>, Option<KnownResult>>>,
}

/// A statement, and the names of those from which it was made.
struct KnownResult {
    placed: PlacedStmt,
    from: ShapeNames,
    /// Whether it is the one statement from which it was made.
    is_same: bool,
}

impl EqualParts {
    /// The shape of each top-level loop that occurs more than once.
    pub(crate) fn repeated(&self, body: &[Stmt], names: &Names, locals: &Locals) -> Vec<Option<Shape>> {
        let mut table = self.shapes.borrow_mut();
        let mut shape = |stmt: &Stmt| match stmt {
            Stmt::For { .. } => Some(table.shape(stmt, names, locals)),
            _ => None,
        };
        let mut shapes: Vec<Option<Shape>> = body.iter().map(&mut shape).collect();
        let mut count: IdMap<u32, usize> = IdMap::default();
        shapes.iter().flatten().for_each(|shape| *count.entry(shape.id).or_default() += 1);
        for shape in &mut shapes {
            shape.take_if(|shape| count[&shape.id] == 1);
        }
        shapes
    }

    /// The result of `make` for a statement of this shape.
    pub(crate) fn single(
        &self,
        stmt: Stmt,
        shape: Shape,
        (names, locals): (&Names, &Locals),
        make: impl FnOnce(Stmt) -> PlacedStmt,
    ) -> PlacedStmt {
        let key = vec![shape.id];
        if let Some(Some(known)) = self.results.borrow().get(&key) {
            return known.under(&shape.names, Some(stmt));
        }
        let made = make(stmt);
        self.keep(key, shape.names, Some(&made), (names, locals));
        made
    }

    /// The result of `make` for two statements with comments between them.
    pub(crate) fn pair(
        &self,
        (first, second): (&PlacedStmt, &PlacedStmt),
        remarks: &[PlacedStmt],
        (names, locals): (&Names, &Locals),
        make: impl FnOnce() -> Option<PlacedStmt>,
    ) -> Option<PlacedStmt> {
        let (Some(a), Some(b)) = (first.facts.shape.get(), second.facts.shape.get()) else { return make() };
        let place = |at: Option<usize>| at.map_or(u32::MAX, |at| at as u32);
        let mut key = vec![a.id, b.id, remarks.len() as u32];
        key.extend(b.names.nodes.iter().map(|node| place(a.names.nodes.iter().position(|own| own == node))));
        key.extend(b.names.free.iter().map(|local| place(a.names.free.iter().position(|own| own == local))));
        let from = || {
            let mut names = a.names.clone();
            names.extend(&b.names);
            remarks.iter().for_each(|remark| names.remark(&remark.stmt));
            names
        };
        self.known(&key, from).unwrap_or_else(|| {
            let made = make();
            self.keep(key, from(), made.as_ref(), (names, locals));
            made
        })
    }

    /// The result for this key under the names of `to`.
    fn known(&self, key: &[u32], to: impl FnOnce() -> ShapeNames) -> Option<Option<PlacedStmt>> {
        let results = self.results.borrow();
        Some(results.get(key)?.as_ref().map(|known| known.under(&to(), None)))
    }

    /// Counts the results.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.results.borrow().len()
    }

    fn keep(
        &self,
        key: Vec<u32>,
        from: ShapeNames,
        made: Option<&PlacedStmt>,
        (names, locals): (&Names, &Locals),
    ) {
        let known = made.map(|made| {
            let shape = || self.shapes.borrow_mut().shape(&made.stmt, names, locals);
            let shape = made.facts.shape.get_or_init(shape);
            let is_same = key == [shape.id] && shape.names == from;
            KnownResult { placed: made.clone(), from, is_same }
        });
        self.results.borrow_mut().insert(key, known);
    }
}

impl KnownResult {
    /// The result under other names, made of `from` if it was made of one statement.
    fn under(&self, names: &ShapeNames, from: Option<Stmt>) -> PlacedStmt {
        let mut instance = Instance::new(&self.from, names);
        let facts = Rc::new(self.placed.facts.renamed(&mut instance));
        let stmt = from.filter(|_| self.is_same).unwrap_or_else(|| {
            let mut stmt = self.placed.stmt.clone();
            rename_in_place(std::slice::from_mut(&mut stmt), &mut instance);
            stmt
        });
        PlacedStmt { stmt, facts }
    }
}
