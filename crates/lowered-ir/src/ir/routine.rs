//! The routine: tables of symbols and nodes, and a body.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use tnode::{DType, Dims, ModeState};

use super::{Affine, Block, Expr, LocalId, LoopId, NodeRef, Space, Stmt, SymbolId, Types, Var, walk};

/// A routine in the loop IR.
///
/// Nodes are positions in a table: the routine knows the properties of each node, but not its identity.
/// [`crate::Lowered`] keeps the handles beside it.
#[derive(Clone, Debug)]
pub struct LoweredRoutine {
    /// The name, an identifier.
    pub name: String,
    /// Which reorderings of floating-point arithmetic are allowed.
    pub numerics: Numerics,
    /// Static symbols: the parameters in binding order, then the quotients.
    pub symbols: Vec<Symbol>,
    /// The nodes mentioned, in the order of [`NodeRef`].
    pub nodes: Vec<NodeDecl>,
    /// The statements that run, in order.
    pub body: Block,
}

/// A static symbol: an integer that is the same in a whole run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// The name without its `@`.
    pub name: String,
    /// The least value: 0, or 1 for the size of an axis.
    pub least: i64,
    /// Values are `least..range`.
    pub range: i64,
    /// How the value follows from symbols before this one; none for a parameter, which is bound when the
    /// routine is run.
    pub quotient: Option<Quotient>,
    /// Of a parameter: the quotient of symbols before this one that its value is, as who binds it promises.
    /// Only kernels have such parameters, of which the quotients of their routine are the values; what
    /// [`index_bounds`](super::index_bounds) proves by them holds in every call.
    pub promise: Option<Quotient>,
    /// Whether it is the step of a scan, in a pass over the body of the scan: nothing outside may follow from
    /// it.
    pub is_step: bool,
}

/// The value `floor(dividend / divisor)`, or the nearest value in the range of the symbol that has it.
///
/// A loop that ends at a parameter is cut into strips: quotients count its whole strips, so the ends of loops
/// stay affine. A size of axes that follows from others, such as that of the result of a convolution, is a
/// quotient with a least value of 1; its value must be in its range.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quotient {
    /// A sum of symbols before the one that has this value.
    pub dividend: Affine,
    /// At least 1.
    pub divisor: i64,
}

impl Symbol {
    /// A parameter with values `0..range`.
    pub fn parameter(name: impl Into<String>, range: i64) -> Symbol {
        Symbol { name: name.into(), least: 0, range, quotient: None, promise: None, is_step: false }
    }

    /// A parameter that is the size of axes, from 1 to `bound`.
    pub fn size(name: impl Into<String>, bound: i64) -> Symbol {
        Symbol { least: 1, ..Symbol::parameter(name, bound.saturating_add(1)) }
    }

    /// The least and the greatest value.
    pub fn interval(&self) -> (i64, i64) {
        (self.least, self.range.saturating_sub(1))
    }

    /// How a symbol follows from symbols before it, if that is its value in every run. A size of axes is
    /// never clamped; another quotient is not if its range has all values that the dividend allows.
    pub fn exact_quotient(symbols: &[Symbol], symbol: SymbolId) -> Option<&Quotient> {
        let Symbol { least, range, quotient, promise, .. } = symbols.get(symbol.index())?;
        let Some(quotient) = quotient else { return promise.as_ref() };
        let interval = |var| match var {
            Var::Symbol(id) => symbols.get(id.index()).map_or((i64::MIN, i64::MAX), Symbol::interval),
            Var::Loop(_) => (i64::MIN, i64::MAX),
        };
        let holds = |(low, high): (i64, i64)| {
            let divisor = quotient.divisor.max(1);
            *least <= low.div_euclid(divisor) && high.div_euclid(divisor) < *range
        };
        (*least > 0 || quotient.dividend.bounds(interval).is_some_and(holds)).then_some(quotient)
    }

    /// The values of all symbols, from those of the parameters.
    pub fn values(symbols: &[Symbol], parameters: &[i64]) -> SmallVec<[i64; 8]> {
        let mut values = SmallVec::from_slice(parameters);
        for Symbol { least, range, quotient, .. } in symbols.get(parameters.len()..).unwrap_or_default() {
            let value = quotient.as_ref().map_or(0, |quotient| quotient.value(&values));
            values.push(value.clamp(*least, (range - 1).max(*least)));
        }
        values
    }

    /// The first symbol whose value, for these parameters, is outside of its range, with that value. Among
    /// quotients, those that are sizes of axes are checked; the others are clamped.
    pub fn outside<'a>(symbols: &'a [Symbol], parameters: &[i64]) -> Option<(&'a Symbol, i64)> {
        let mut values: SmallVec<[i64; 8]> = SmallVec::from_slice(parameters);
        for (at, symbol) in symbols.iter().enumerate() {
            let value = match &symbol.quotient {
                Some(quotient) if at >= values.len() => quotient.value(&values),
                _ => values.get(at).copied().unwrap_or(0),
            };
            let is_checked = symbol.quotient.is_none() || symbol.least > 0;
            if is_checked && !(symbol.least..symbol.range).contains(&value) {
                return Some((symbol, value));
            }
            if at == values.len() {
                values.push(value.clamp(symbol.least, (symbol.range - 1).max(symbol.least)));
            }
        }
        None
    }

    /// The parameters at the start of a list of symbols.
    pub fn parameters(symbols: &[Symbol]) -> &[Symbol] {
        &symbols[..symbols.partition_point(|symbol| symbol.quotient.is_none())]
    }
}

impl Quotient {
    fn value(&self, before: &[i64]) -> i64 {
        let value = |var| match var {
            Var::Symbol(symbol) => before.get(symbol.index()).copied().unwrap_or(0),
            Var::Loop(_) => 0,
        };
        self.dividend.eval(value).div_euclid(self.divisor.max(1))
    }
}

/// The declaration of a node in a routine: name, element type, dimensions, memory mode.
#[derive(Clone, Debug)]
pub struct NodeDecl {
    /// The node's name, for people; need not be unique.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Dimensions in elements, outermost first, padding included.
    pub dims: Dims,
    /// The memory mode as far as it is decided; passes refine this copy and `arrayjit` commits it.
    pub mode: ModeState,
}

impl NodeDecl {
    /// The size of all elements in bytes; `None` if a `usize` cannot hold it, which the verifier excludes on
    /// hosts of 64 bits.
    pub fn size_bytes(&self) -> Option<usize> {
        self.dims.iter().try_fold(self.dtype.size_bytes(), |bytes, &dim| bytes.checked_mul(dim))
    }
}

/// The numeric class of a routine: the changes of floating-point arithmetic that a compiler may make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Numerics {
    /// Operations on floats run in the order written, without contraction to fma.
    Strict,
    /// Multiplications and additions contract to fma; reductions use the fixed orders that
    /// `scheduling::schedule` documents; equations of class `Fast` apply ([`crate::passes::simplify`],
    /// [`crate::passes::expand_powers`], [`crate::passes::gather_one_hot`]). No function is approximated.
    #[default]
    Fast,
}

/// The declaration of a local: element type, dimensions and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalDecl {
    /// Element type.
    pub dtype: DType,
    /// Dimensions; none for a scalar.
    pub dims: Dims,
    /// The memory in which the local lives.
    pub space: Space,
}

impl LoweredRoutine {
    /// The declaration of a node. References come from the routine itself, so the position exists.
    pub fn node(&self, node: NodeRef) -> &NodeDecl {
        &self.nodes[node.index()]
    }

    /// The declaration of a symbol.
    pub fn symbol(&self, symbol: SymbolId) -> &Symbol {
        &self.symbols[symbol.index()]
    }

    /// Every node with its reference, in order.
    pub fn node_refs(&self) -> impl Iterator<Item = (NodeRef, &NodeDecl)> {
        self.nodes.iter().enumerate().map(|(i, decl)| (NodeRef(i as u32), decl))
    }

    /// Every local declared anywhere in the body.
    pub fn locals(&self) -> Locals {
        let mut locals = BTreeMap::new();
        walk::stmts(&self.body).for_each(|stmt| {
            if let Stmt::Declare { local, dtype, dims, space } = stmt {
                locals.insert(*local, LocalDecl { dtype: *dtype, dims: dims.clone(), space: *space });
            }
        });
        locals
    }

    /// A source of loop and local identifiers that this body does not use yet.
    pub fn fresh(&self) -> Fresh {
        let mut fresh = Fresh::default();
        walk::stmts(&self.body).for_each(|stmt| match stmt {
            Stmt::For { var, .. } => fresh.next_loop = fresh.next_loop.max(var.0 + 1),
            Stmt::Declare { local, .. } => fresh.next_local = fresh.next_local.max(local.0 + 1),
            _ => {}
        });
        fresh
    }

    /// The element type of an expression of this routine; `locals` is [`LoweredRoutine::locals`].
    pub fn dtype_of(&self, expr: &Expr, locals: &Locals) -> DType {
        expr.dtype(&RoutineTypes { routine: self, locals })
    }
}

/// Declared locals by identifier.
pub type Locals = BTreeMap<LocalId, LocalDecl>;

/// The types of a routine's nodes and locals, for [`Expr::dtype`].
#[derive(Clone, Copy, Debug)]
pub struct RoutineTypes<'a> {
    /// The routine with the nodes.
    pub routine: &'a LoweredRoutine,
    /// The locals of the routine.
    pub locals: &'a Locals,
}

impl Types for RoutineTypes<'_> {
    fn node(&self, node: NodeRef) -> DType {
        self.routine.node(node).dtype
    }

    fn local(&self, local: LocalId) -> DType {
        self.locals[&local].dtype
    }
}

/// Hands out unused identifiers.
#[derive(Clone, Debug, Default)]
pub struct Fresh {
    next_loop: u32,
    next_local: u32,
}

impl Fresh {
    /// Identifiers from `first` on.
    pub(crate) fn starting_at(first: u32) -> Fresh {
        Fresh { next_loop: first, next_local: first }
    }

    /// A loop variable that no loop has.
    pub fn loop_id(&mut self) -> LoopId {
        self.next_loop += 1;
        LoopId(self.next_loop - 1)
    }

    /// A local that no statement declares.
    pub fn local_id(&mut self) -> LocalId {
        self.next_local += 1;
        LocalId(self.next_local - 1)
    }
}
