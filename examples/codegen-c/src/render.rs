//! Kernels and statements as C.

use std::fmt::Display;

use codegen_core::emit::{LineNumbers, ScratchLayout};
use codegen_core::ir::{
    Affine, Indices, LocalId, Locals, LoopId, LoopKind, LoweredRoutine, NodeRef, Space, Stmt, Var,
};
use codegen_core::{Caps, Checked, CodegenError, Kernel, Renderer};

use crate::compile::{CODEGEN, CSource};
use crate::expr::c_type;

/// Writes one C function per kernel.
#[derive(Clone, Copy, Debug, Hash)]
pub struct CRenderer;

impl Renderer for CRenderer {
    type Source = CSource;

    fn render(&self, caps: &Caps, kernel: &Kernel) -> Result<CSource, CodegenError> {
        let (ir, abi) = (kernel.ir(), kernel.abi());
        let mut emitter = Emitter::new(ir, caps);
        emitter.parameters(!abi.log.is_empty());
        emitter.body().map_err(|rejection| rejection.of_kernel(CODEGEN, &abi.name))?;
        Ok(CSource { abi: abi.clone(), body: emitter.text })
    }
}

/// Writes the body of one function.
pub(crate) struct Emitter<'a> {
    pub(crate) ir: &'a LoweredRoutine,
    pub(crate) locals: Locals,
    scratch: ScratchLayout,
    pub(crate) lines: LineNumbers,
    text: String,
    /// The depth of loops, for the indentation.
    depth: usize,
    /// The number of named values so far.
    pub(crate) values: usize,
}

impl<'a> Emitter<'a> {
    fn new(ir: &'a LoweredRoutine, caps: &Caps) -> Emitter<'a> {
        let (scratch, lines) = (ScratchLayout::new(&ir.body, caps.alignment), LineNumbers::new(&ir.body));
        Emitter { ir, locals: ir.locals(), scratch, lines, text: String::new(), depth: 1, values: 0 }
    }

    pub(crate) fn line(&mut self, line: impl Display) {
        self.text += &format!("{}{line}\n", "    ".repeat(self.depth));
    }

    /// Names the parameters: `p0`, `p1`, … for memory, `s0`, `s1`, … for static indices.
    fn parameters(&mut self, logs: bool) {
        for (at, node) in self.ir.nodes.iter().enumerate() {
            let ty = c_type(node.dtype);
            self.line(format!("{ty} *restrict const p{at} = __builtin_assume_aligned(args[{at}], 64);"));
        }
        let symbols = 0..self.ir.symbols.len();
        symbols.for_each(|at| self.line(format!("const int64_t s{at} = bindings[{at}];")));
        if logs {
            self.line(format!("kernel_log *const log = (kernel_log *)args[{}];", self.ir.nodes.len()));
        }
    }

    /// Iterations `begin..end` of the parallel loop that is the whole kernel, or the whole kernel.
    fn body(&mut self) -> Checked {
        match self.ir.body.as_slice() {
            [Stmt::For { var, lo, hi, kind: LoopKind::Parallel, body }] => {
                let end = format!("({lo} + (int64_t)end < {0} ? {lo} + (int64_t)end : {0})", hi.limit);
                self.repeat(*var, format!("{lo} + (int64_t)begin"), least(end, hi.clips()), None, body)
            }
            body => self.block(body),
        }
    }

    fn block(&mut self, block: &[Stmt]) -> Checked {
        block.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Checked {
        match stmt {
            Stmt::For { var, lo, hi, kind, body } => {
                match kind {
                    LoopKind::Unrolled => self.line("#pragma GCC unroll 64"),
                    LoopKind::Vector | LoopKind::Parallel => self.line("#pragma GCC ivdep"),
                    LoopKind::Serial | LoopKind::Scan | LoopKind::Workgroup => {}
                }
                let end = least(hi.limit.to_string(), hi.clips());
                self.repeat(*var, lo, end, hi.condition(), body)?;
            }
            Stmt::Set { node, index, value } => {
                let (value, _) = self.expr(value)?;
                self.line(format!("{} = {value};", self.node(*node, index)));
            }
            Stmt::SetLocal { local, index, value } => {
                let (value, _) = self.expr(value)?;
                self.line(format!("{} = {value};", self.local(*local, index)));
            }
            Stmt::Zero { node } => {
                let bytes = self.ir.node(*node).size_bytes().unwrap_or(0);
                self.line(format!("memset(p{}, 0, {bytes});", node.0));
            }
            Stmt::Declare { local, dtype, dims, space } => {
                let (ty, count) = (c_type(*dtype), dims.iter().product::<usize>().max(1));
                match space.of_one_thread() {
                    Space::Register => self.line(format!("{ty} {local}[{count}] = {{0}};")),
                    space => self.scratch_local(ty, *local, count * dtype.size_bytes(), space),
                }
            }
            Stmt::SetDynamic { .. } | Stmt::Log { .. } => self.wide_stmt(stmt)?,
            Stmt::Comment(_) => {}
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        var: LoopId,
        lo: impl Display,
        hi: String,
        condition: Option<NodeRef>,
        body: &[Stmt],
    ) -> Checked {
        let goes_on = condition.map_or(String::new(), |node| format!(" && p{}[0] != 0", node.0));
        self.line(format!(
            "for (int64_t {var} = {lo}, end_{var} = {hi}; {var} < end_{var}{goes_on}; {var}++) {{"
        ));
        self.depth += 1;
        self.block(body)?;
        self.depth -= 1;
        self.line("}");
        Ok(())
    }

    /// Declares a local of zeros in scratch memory.
    fn scratch_local(&mut self, ty: &str, local: LocalId, bytes: usize, space: Space) {
        let offset = self.scratch.offsets[&local];
        self.line(format!("{ty} *restrict const {local} = (void *)(scratch + {offset});"));
        if space != Space::Scratch {
            self.line(format!("memset({local}, 0, {bytes});"));
        }
    }

    /// An element of a node.
    pub(crate) fn node(&self, node: NodeRef, index: &Indices) -> String {
        element(format!("p{}", node.0), &self.ir.node(node).dims, index)
    }

    /// An element of a local. A scalar is an array of one element.
    pub(crate) fn local(&self, local: LocalId, index: &Indices) -> String {
        element(local, &self.locals[&local].dims, index)
    }
}

/// An element of an array in row-major order.
fn element(array: impl Display, dims: &[usize], index: &Indices) -> String {
    format!("{array}[{}]", affine(&Affine::row_major(index, dims)))
}

/// The least of an end and of clips.
fn least(end: String, clips: &[Affine]) -> String {
    clips.iter().fold(end, |end, clip| format!("({0} < {end} ? {0} : {end})", affine(clip)))
}

/// An index as a C expression of type `int64_t`.
pub(crate) fn affine(index: &Affine) -> String {
    let term = |&(var, factor): &(Var, i64)| match var {
        Var::Loop(id) if factor == 1 => id.to_string(),
        Var::Loop(id) => format!("{factor} * {id}"),
        Var::Symbol(id) => format!("{factor} * s{}", id.0),
    };
    let mut terms: Vec<String> = index.terms().iter().map(term).collect();
    if index.offset() != 0 || terms.is_empty() {
        terms.push(index.offset().to_string());
    }
    terms.join(" + ")
}
