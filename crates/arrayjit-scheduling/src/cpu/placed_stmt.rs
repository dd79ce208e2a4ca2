//! Statements with the facts by which fusion decides.
//!
//! Fusion tries many pairs of large nests, and a fused nest takes part in the next attempts. A fact is found
//! when it is first needed, and stays with its statement through all of them: facts name no variable outside
//! of their statement, so they hold too after that variable is replaced by another one.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use lowered_ir::ir::{Block, Bound, LoopId, LoopKind, NodeRef, Stmt};

use crate::analysis::access::Effects;
use crate::analysis::cost::fusion_cost;
use crate::analysis::names::Names;
use crate::analysis::rename::Renaming;
use crate::analysis::shape::Shape;
use crate::cpu::fusible_contractions::ContractionShapes;

/// A statement and its facts.
#[derive(Clone)]
pub(crate) struct PlacedStmt {
    pub(crate) stmt: Stmt,
    pub(crate) facts: Rc<StmtFacts>,
}

/// What fusion knows of a statement.
#[derive(Default)]
pub(crate) struct StmtFacts {
    pub(crate) effects: Effects,
    /// The number of statements, those in its loops included.
    pub(crate) size: usize,
    /// The work of its values.
    pub(crate) cost: u64,
    /// The facts of the statements in the body of a loop.
    body: OnceCell<Vec<Rc<StmtFacts>>>,
    /// The nodes that it accesses at indices that move with its outermost loop, and by how many elements.
    pub(crate) moving: OnceCell<BTreeSet<(NodeRef, i64)>>,
    /// Whether the iterations of its outermost loop are independent.
    pub(crate) is_independent: OnceCell<bool>,
    pub(crate) lanes: OnceCell<Option<LaneChoice>>,
    contractions: OnceCell<ContractionShapes>,
    /// The shape of a top-level statement, if there may be others of this shape.
    pub(crate) shape: OnceCell<Shape>,
}

/// The loop of a nest that is best as lanes.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct LaneChoice {
    /// The number of loops of the nest.
    pub(crate) depth: usize,
    /// The position of the loop, counted from outside; none if no loop gains from lanes.
    pub(crate) at: Option<usize>,
}

impl PlacedStmt {
    pub(crate) fn new(stmt: Stmt) -> PlacedStmt {
        let facts = Rc::new(StmtFacts::of(&stmt));
        PlacedStmt { stmt, facts }
    }

    /// A loop over statements.
    pub(crate) fn looped(
        var: LoopId,
        lo: i64,
        hi: Bound,
        kind: LoopKind,
        body: Vec<PlacedStmt>,
    ) -> PlacedStmt {
        let (body, facts) = body.into_iter().map(|placed| (placed.stmt, placed.facts)).unzip();
        let facts = Rc::new(StmtFacts::of_loop(facts));
        PlacedStmt { stmt: Stmt::For { var, lo, hi, kind, body }, facts }
    }

    /// The contractions of the statement.
    pub(crate) fn contractions(&self, names: &Names) -> &ContractionShapes {
        self.facts.contractions(&self.stmt, names)
    }
}

impl StmtFacts {
    fn of(stmt: &Stmt) -> StmtFacts {
        match stmt {
            Stmt::For { body, .. } => {
                StmtFacts::of_loop(body.iter().map(|stmt| Rc::new(StmtFacts::of(stmt))).collect())
            }
            _ => {
                let block = std::slice::from_ref(stmt);
                let (effects, cost) = (Effects::of(block), fusion_cost(block));
                StmtFacts { effects, size: 1, cost, ..StmtFacts::default() }
            }
        }
    }

    fn of_loop(body: Vec<Rc<StmtFacts>>) -> StmtFacts {
        let mut effects = Effects::default();
        body.iter().for_each(|facts| effects.add(&facts.effects));
        let size = 1 + body.iter().map(|facts| facts.size).sum::<usize>();
        let cost = body.iter().map(|facts| facts.cost).sum();
        StmtFacts { effects, size, cost, body: OnceCell::from(body), ..StmtFacts::default() }
    }

    /// The facts of the statements in this body, which are found again if they are under other names.
    fn of_body(&self, body: &[Stmt]) -> &[Rc<StmtFacts>] {
        self.body.get_or_init(|| body.iter().map(|stmt| Rc::new(StmtFacts::of(stmt))).collect())
    }

    /// The facts of the statement under other names.
    pub(crate) fn renamed(&self, names: &mut impl Renaming) -> StmtFacts {
        StmtFacts {
            effects: self.effects.renamed(names),
            size: self.size,
            cost: self.cost,
            body: OnceCell::new(),
            moving: renamed(&self.moving, |moving| {
                moving.iter().map(|&(node, step)| (names.node(node, false), step)).collect()
            }),
            is_independent: self.is_independent.clone(),
            lanes: self.lanes.clone(),
            contractions: renamed(&self.contractions, |shapes| shapes.renamed(names)),
            shape: renamed(&self.shape, |shape| Shape { id: shape.id, names: shape.names.renamed(names) }),
        }
    }

    /// The statements of the body, which may have other names for variables outside of them.
    pub(crate) fn with_statements(&self, body: Block) -> impl Iterator<Item = PlacedStmt> {
        let facts = self.of_body(&body).to_vec();
        body.into_iter().zip(facts).map(|(stmt, facts)| PlacedStmt { stmt, facts })
    }

    /// The contractions of the statement with these facts.
    fn contractions(&self, stmt: &Stmt, names: &Names) -> &ContractionShapes {
        self.contractions.get_or_init(|| {
            let Stmt::For { kind: LoopKind::Serial, body, .. } = stmt else {
                return ContractionShapes::default();
            };
            // If the nest is no contraction, neither is a nest inside of it with some of its loops.
            ContractionShapes::of_nest(stmt, names).unwrap_or_else(|| {
                let facts = self.of_body(body).iter();
                let inside = facts.zip(body).map(|(facts, stmt)| facts.contractions(stmt, names));
                ContractionShapes::union(inside)
            })
        })
    }
}

fn renamed<T>(fact: &OnceCell<T>, f: impl FnOnce(&T) -> T) -> OnceCell<T> {
    fact.get().map_or_else(OnceCell::new, |fact| OnceCell::from(f(fact)))
}
