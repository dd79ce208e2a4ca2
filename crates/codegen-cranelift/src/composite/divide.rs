//! Divides a kernel with contractions, or with loops that a condition ends, into loops around parts; each
//! part is a contraction or a sequence of other statements.
//!
//! A part is a kernel of its own. The variable of a loop around it becomes a symbol, and a local that other
//! parts share becomes a node. Any compiler of kernels can therefore compile a part.

use std::collections::BTreeMap;

use codegen_core::canonical::{self, Arrays, Contraction};
use codegen_core::{Access, Kernel, KernelAbi, KernelError, Launch, Param, kernel};
use lowered_ir::ir::{
    Affine, Block, Bound, LocalDecl, LocalId, Locals, LoopId, LoopKind, LoweredRoutine, NodeDecl, NodeRef,
    Space, Stmt, Symbol, SymbolId, walk,
};
use lowered_ir::log;
use lowered_ir::verify::Violation;
use tnode::ModeState;

use crate::emit::scan;

/// The least number of multiply-adds for which a contraction gets a plan. For fewer multiply-adds, packing
/// and calls cost more than they save.
const MIN_PLAN_FMAS: i64 = 1 << 11;

/// A kernel divided into parts.
pub(super) struct DividedKernel {
    /// The parts, in order.
    pub(super) parts: Vec<KernelPart>,
    /// Locals that several parts share, which are nodes after the kernel's own.
    pub(super) shared: Vec<LocalDecl>,
    /// The largest number of symbols of any part.
    pub(super) symbols: usize,
}

pub(super) enum KernelPart {
    /// Parts that run for each value of a symbol below a bound of symbols, as long as its condition holds.
    Loop { symbol: SymbolId, end: Bound, is_parallel: bool, parts: Vec<KernelPart> },
    /// A contraction, and the kernel that consists of it.
    Contraction(Box<Kernel>, Box<Contraction>),
    /// A kernel of other statements.
    Other(Box<Kernel>),
}

/// Divides a kernel; `None` if it has neither a contraction nor a loop with a condition, or if only the end
/// of a loop that is divided bounds an index: parts have a symbol for the loop, and know no end of it.
///
/// # Errors
///
/// A part that is not a valid kernel, which is a bug.
pub(super) fn divide(kernel: &Kernel) -> Result<Option<DividedKernel>, KernelError> {
    if !may_divide(&kernel.ir().body) {
        return Ok(None);
    }
    let mut routine = (**kernel.ir()).clone();
    let mut body = std::mem::take(&mut routine.body);
    in_sequence(&mut body);
    let with_body = LoweredRoutine { body, ..routine };
    let Some(separate) = ContractionFinder::new(&with_body).found() else { return Ok(None) };
    let LoweredRoutine { body, .. } = with_body;
    let routine = LoweredRoutine { body: Block::new(), ..with_body };
    let mut divide = KernelDivider { kernel, routine, shared: Vec::new(), separate };
    let parts = match divide.block(&body) {
        Err(KernelError::Invalid(error))
            if matches!(*error.violation, Violation::OutOfBounds { .. }) && !has_conditions(&body) =>
        {
            return Ok(None);
        }
        parts => parts?,
    };
    let KernelDivider { shared, routine, .. } = divide;
    Ok(Some(DividedKernel { parts, shared, symbols: routine.symbols.len() }))
}

/// Whether a kernel may have parts: a sum of products may be a contraction.
pub(super) fn may_divide(body: &[Stmt]) -> bool {
    canonical::adds_products(body) || has_conditions(body)
}

pub(crate) fn has_conditions(body: &[Stmt]) -> bool {
    walk::stmts(body).any(|stmt| stmt.condition().is_some())
}

/// Makes parallel loops serial, except for a loop that is the whole body: the range of a call indexes this
/// loop only.
fn in_sequence(body: &mut [Stmt]) {
    match body {
        [Stmt::For { lo: 0, hi, kind: LoopKind::Parallel, body, .. }] if kernel::is_divisible(0, hi) => {
            make_serial(body);
        }
        body => make_serial(body),
    }
}

fn make_serial(block: &mut [Stmt]) {
    for stmt in block {
        if let Stmt::For { kind, body, .. } = stmt {
            if *kind == LoopKind::Parallel {
                *kind = LoopKind::Serial;
            }
            make_serial(body);
        }
    }
}

struct KernelDivider<'k> {
    kernel: &'k Kernel,
    /// The kernel without its body, extended by the symbols and nodes of parts.
    routine: LoweredRoutine,
    shared: Vec<LocalDecl>,
    separate: BTreeMap<LoopId, SeparateLoop>,
}

/// Why a loop is separated from the statements around it.
#[derive(Clone, Copy, PartialEq)]
enum SeparateLoop {
    /// The loop is a contraction that is worth a plan.
    Contraction,
    /// The loop contains such a contraction, or has a condition, or contains a loop with one.
    Enclosing,
}

/// Finds the loops to separate, in one pass.
struct ContractionFinder<'k> {
    routine: &'k LoweredRoutine,
    locals: Locals,
    arrays: Arrays<'static>,
    separate: BTreeMap<LoopId, SeparateLoop>,
}

impl<'k> ContractionFinder<'k> {
    fn new(routine: &'k LoweredRoutine) -> Self {
        let (locals, arrays) = (routine.locals(), Arrays::of(routine));
        ContractionFinder { routine, locals, arrays, separate: BTreeMap::new() }
    }

    /// Returns the loops to separate; `None` if there are none.
    fn found(mut self) -> Option<BTreeMap<LoopId, SeparateLoop>> {
        self.block(&self.routine.body).then_some(self.separate)
    }

    /// Whether a block has loops to separate.
    fn block(&mut self, block: &[Stmt]) -> bool {
        let marked = block.iter().filter(|stmt| self.stmt(stmt)).count();
        marked > 0
    }

    fn stmt(&mut self, stmt: &Stmt) -> bool {
        let Stmt::For { var, lo: 0, hi, kind, body } = stmt else { return false };
        if !hi.without_condition().is_of_symbols() || hi.limit < 1 {
            return false;
        }
        let role = match kind {
            _ if self.is_contraction(stmt) => SeparateLoop::Contraction,
            LoopKind::Serial | LoopKind::Parallel if self.block(body) || hi.condition().is_some() => {
                SeparateLoop::Enclosing
            }
            _ => return false,
        };
        self.separate.insert(*var, role);
        true
    }

    /// Whether a statement is a contraction that is worth a plan.
    fn is_contraction(&self, stmt: &Stmt) -> bool {
        let nodes = self.routine.nodes.len() as u32;
        let (block, outer) = canonical::outer_locals_as_nodes(std::slice::from_ref(stmt), nodes);
        let shape = |local: &LocalId| (self.locals[local].dtype, self.locals[local].dims.clone());
        let arrays = self.arrays.with_nodes(outer.keys().map(shape));
        let Some(found) = Contraction::of(&block[0], &arrays) else { return false };
        let products = [found.num_rows(), found.num_columns(), found.num_products()];
        products.into_iter().fold(1, i64::saturating_mul) >= MIN_PLAN_FMAS
    }
}

impl KernelDivider<'_> {
    fn block(&mut self, block: &[Stmt]) -> Result<Vec<KernelPart>, KernelError> {
        let (mut parts, mut rest) = (Vec::new(), block.to_vec());
        while !rest.is_empty() {
            let end = rest.iter().position(|stmt| self.separate_loop(stmt).is_some()).unwrap_or(rest.len());
            self.share_locals(&mut rest, end);
            let mut after = rest.split_off(end);
            if rest.iter().any(|stmt| !matches!(stmt, Stmt::Comment(_))) {
                parts.push(KernelPart::Other(Box::new(self.part(rest)?)));
            }
            if !after.is_empty() {
                let stmt = after.remove(0);
                let part = match self.contraction_part(&stmt)? {
                    Some(part) => Some(part),
                    None => self.loop_part(stmt)?,
                };
                parts.extend(part);
            }
            rest = after;
        }
        Ok(parts)
    }

    fn separate_loop(&self, stmt: &Stmt) -> Option<SeparateLoop> {
        let Stmt::For { var, .. } = stmt else { return None };
        self.separate.get(var).copied()
    }

    /// Converts the locals that are declared before `end` and used from there on to nodes.
    fn share_locals(&mut self, block: &mut Block, end: usize) {
        for at in 0..end {
            let Stmt::Declare { local, dtype, dims, space } = block[at].clone() else { continue };
            if !access_of(&block[end..], local) {
                continue;
            }
            let node = NodeRef(self.routine.nodes.len() as u32);
            let decl = LocalDecl { dtype, dims, space };
            self.routine.nodes.push(node_of(&decl));
            self.shared.push(decl);
            canonical::locals_as_nodes(block, &BTreeMap::from([(local, node)]));
            block[at] = match space {
                Space::Scratch => Stmt::Comment(format!("{local} is shared")),
                Space::Register | Space::Stack | Space::Workgroup | Space::Thread => Stmt::Zero { node },
            };
        }
    }

    fn contraction_part(&self, stmt: &Stmt) -> Result<Option<KernelPart>, KernelError> {
        if self.separate_loop(stmt) != Some(SeparateLoop::Contraction) {
            return Ok(None);
        }
        let kernel = self.part(vec![stmt.clone()])?;
        let found = Contraction::of(&kernel.ir().body[0], &Arrays::of(kernel.ir()));
        Ok(found.map(|found| KernelPart::Contraction(Box::new(kernel), Box::new(found))))
    }

    fn loop_part(&mut self, stmt: Stmt) -> Result<Option<KernelPart>, KernelError> {
        let Stmt::For { var, hi, kind, mut body, .. } = stmt else { return Ok(None) };
        let symbol = self.symbol(var, hi.limit);
        let index = Affine::var(symbol);
        walk::substitute(&mut body, var, &index);
        let parts = self.block(&body)?;
        Ok(Some(KernelPart::Loop { symbol, end: hi, is_parallel: kind == LoopKind::Parallel, parts }))
    }

    fn symbol(&mut self, var: LoopId, range: i64) -> SymbolId {
        let mut name = format!("loop_{}", var.0);
        while self.routine.symbols.iter().any(|symbol| symbol.name == name) {
            name.push('_');
        }
        self.routine.symbols.push(Symbol::parameter(name, range));
        SymbolId(self.routine.symbols.len() as u32 - 1)
    }

    /// Makes a kernel of some statements. Every call runs it whole, except for a contraction with a parallel
    /// loop.
    fn part(&self, body: Block) -> Result<Kernel, KernelError> {
        let ir = LoweredRoutine { body, ..self.routine.clone() };
        let shared =
            self.shared.iter().map(|decl| Param::Node { access: Access::ReadWrite, bytes: bytes(decl) });
        let own =
            self.kernel.abi().params.iter().filter(|p| !matches!(p, Param::StaticIndex { .. })).copied();
        let symbols = ir.symbols.iter().map(|symbol| Param::StaticIndex { range: symbol.range });
        let abi = KernelAbi {
            params: own.chain(shared).chain(symbols).collect(),
            launch: Launch::whole(&ir.body),
            scratch_bytes: 0,
            log: log::lines(&ir).into(),
            ..self.kernel.abi().clone()
        };
        Kernel::verified(ir, abi)
    }
}

/// Whether a block accesses a local.
fn access_of(block: &[Stmt], local: LocalId) -> bool {
    let mut found = false;
    scan::each_local_access(block, &mut |used, _| found |= used == local);
    found
}

pub(super) fn bytes(decl: &LocalDecl) -> usize {
    decl.dims.iter().product::<usize>() * decl.dtype.size_bytes()
}

fn node_of(decl: &LocalDecl) -> NodeDecl {
    let mode = ModeState::undecided();
    NodeDecl { name: "shared".into(), dtype: decl.dtype, dims: decl.dims.clone(), mode }
}

#[cfg(test)]
mod tests {
    use codegen_core::Cost;

    use super::*;

    const ATTENTION: &str = "routine @attention fast {
      node %0 \"q\" f32[4, 16, 16]
      node %1 \"k\" f32[4, 16, 16]
      node %2 \"v\" f32[4, 16, 16]
      node %3 \"y\" f32[4, 16, 16]
      for i0 in 0..4 parallel {
        declare l0 f32[16, 16] scratch
        for i1 in 0..16 {
          for i2 in 0..16 {
            declare l1 f32[] register
            for i3 in 0..16 {
              l1 := fma(%0[i0, i1, i3], %1[i0, i2, i3], l1)
            }
            l0[i1, i2] := l1 * 0.25f32
          }
        }
        for i4 in 0..16 {
          for i5 in 0..16 {
            l0[i4, i5] := exp(l0[i4, i5])
          }
        }
        for i6 in 0..16 {
          for i7 in 0..16 {
            declare l2 f32[] register
            for i8 in 0..16 {
              l2 := fma(l0[i6, i8], %2[i0, i8, i7], l2)
            }
            %3[i0, i6, i7] := l2
          }
        }
      }
    }";

    fn kernel(text: &str) -> Kernel {
        let ir = lowered_ir::text::parse(text).expect("the text is valid");
        let bytes = |node: &NodeDecl| node.size_bytes().expect("a small node");
        let nodes = ir.nodes.iter().map(|n| Param::Node { access: Access::ReadWrite, bytes: bytes(n) });
        let symbols = ir.symbols.iter().map(|symbol| Param::StaticIndex { range: symbol.range });
        let abi = KernelAbi {
            name: "test".into(),
            params: nodes.chain(symbols).collect(),
            launch: Launch::whole(&ir.body),
            scratch_bytes: 0,
            log: [].into(),
            cost: Cost::default(),
        };
        Kernel::verified(ir, abi).expect("a valid kernel")
    }

    fn divided(text: &str) -> Option<DividedKernel> {
        divide(&kernel(text)).expect("parts are kernels")
    }

    fn shape(parts: &[KernelPart]) -> String {
        let shapes = parts.iter().map(|part| match part {
            KernelPart::Loop { end, is_parallel, parts, .. } => {
                let kind = if *is_parallel { "parallel" } else { "serial" };
                format!("{kind} {} ({})", end.limit, shape(parts))
            }
            KernelPart::Contraction(_, found) => {
                format!("product {}x{}x{}", found.num_rows(), found.num_columns(), found.num_products())
            }
            KernelPart::Other(_) => "other".into(),
        });
        shapes.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn contractions_are_separate_parts_that_share_enclosing_locals() {
        let divided = divided(ATTENTION).expect("it has contractions");
        assert_eq!(shape(&divided.parts), "parallel 4 (product 16x16x16, other, product 16x16x16)");
        assert_eq!(divided.shared.len(), 1);
        assert_eq!(bytes(&divided.shared[0]), 1024);
    }

    #[test]
    fn kernels_without_contractions_are_left_alone() {
        let text = "routine @map fast {
          node %0 \"x\" f32[64]
          for i0 in 0..64 { %0[i0] := %0[i0] * 2.0f32 }
        }";
        assert!(divided(text).is_none());
        let small = ATTENTION.replace("16", "4");
        assert!(divided(&small).is_none(), "too small to be worth a call");
    }

    #[test]
    fn loops_whose_ends_bound_an_index_are_left_alone() {
        let text = |index: &str| {
            format!(
                "routine @rest fast {{
                  symbol @n in 0..9
                  symbol @q in 0..2
                  node %0 \"x\" f32[8, 16, 16]
                  node %1 \"k\" f32[8, 16, 16]
                  node %2 \"y\" f32[8, 16, 16]
                  for i0 in 0..min(7, @n - 8*@q) {{
                    for i1 in 0..16 {{
                      for i2 in 0..16 {{
                        declare l0 f32[] register
                        for i3 in 0..16 {{
                          l0 := fma(%0[{index}, i1, i3], %1[{index}, i3, i2], l0)
                        }}
                        %2[{index}, i1, i2] := l0
                      }}
                    }}
                    for i4 in 0..16 {{
                      for i5 in 0..16 {{
                        %2[{index}, i4, i5] := exp(%2[{index}, i4, i5])
                      }}
                    }}
                  }}
                }}"
            )
        };
        let alone = divided(&text("i0")).expect("it has a contraction");
        assert_eq!(shape(&alone.parts), "serial 7 (product 16x16x16, other)");
        assert!(divided(&text("8*@q + i0")).is_none(), "at most 7 by the end of the loop, and 14 without it");
    }

    #[test]
    fn shared_locals_with_zeros_start_as_zeros() {
        let text = ATTENTION.replace("l0[i1, i2] := l1 * 0.25f32", "l0[i2, i1] := l0[i2, i1] + l1");
        let text = text.replace("scratch", "stack");
        let divided = divided(&text).expect("it has contractions");
        assert_eq!(shape(&divided.parts), "parallel 4 (other, product 16x16x16, other, product 16x16x16)");
    }
}
