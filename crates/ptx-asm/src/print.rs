//! Prints programs as PTX text.
//!
//! Every instruction has a line of its own, nested blocks are indented, and registers are numbered within
//! their class. Float arithmetic is printed with its rounding, because an assembler may contract operations
//! without a rounding modifier. The shared arrays of a kernel are parts of one array, which is declared
//! statically if it has at most 48 KiB; the launch allocates a larger one
//! ([`PtxKernel::dynamic_shared_bytes`]).

mod hopper;
mod names;

use std::fmt::{self, Write};

use self::names::{binary, memory_type, special_name, unary, vector};
use crate::inst::{Inst, PtxBinaryOp, PtxTernaryOp, ShuffleMode, Ty};
use crate::program::{
    AddressBase, AddressOperand, GuardPredicate, PtxKernel, PtxOperand, PtxProgram, PtxStmt, Reg, RegClass,
    STATIC_SHARED_BYTES, StateSpace,
};

/// The PTX text of a program, which [`check`](crate::check()) should have accepted.
pub fn print(module: &PtxProgram) -> String {
    let mut out = String::new();
    // Writing into a string does not fail.
    let _ = module_text(&mut out, module);
    out
}

fn module_text(out: &mut String, module: &PtxProgram) -> fmt::Result {
    let (major, minor) = module.target.language();
    writeln!(out, ".version {major}.{minor}\n.target {}\n.address_size 64", module.target.name())?;
    let dynamic = module.kernels.iter().filter(|kernel| kernel.dynamic_shared_bytes() > 0);
    if let Some(align) = dynamic.map(PtxKernel::shared_align).max() {
        writeln!(out, "\n.extern .shared .align {align} .b8 {DYNAMIC}[];")?;
    }
    for kernel in &module.kernels {
        out.push('\n');
        kernel_text(out, kernel)?;
    }
    Ok(())
}

/// Name of the shared array whose size the launch gives.
const DYNAMIC: &str = "dynamic_shared";

fn kernel_text(out: &mut String, kernel: &PtxKernel) -> fmt::Result {
    let number = |at| format!("    .param .b64 {}_{at}", kernel.name);
    let map = |at| format!("    .param .align 64 .b8 {}[128]", hopper::map_name(kernel, at));
    let params: Vec<String> = (0..kernel.params).map(number).chain((0..kernel.maps).map(map)).collect();
    writeln!(out, ".visible .entry {}(\n{}\n)", kernel.name, params.join(",\n"))?;
    writeln!(out, ".maxntid {}, 1, 1", kernel.threads)?;
    if let Some(blocks) = kernel.min_blocks_per_sm {
        writeln!(out, ".minnctapersm {blocks}")?;
    }
    if kernel.cluster > 1 {
        writeln!(out, ".reqnctapercluster {}, 1, 1\n.explicitcluster", kernel.cluster)?;
    }
    out.push_str("{\n");
    for (class, count) in RegClass::ALL.into_iter().zip(counts(kernel)) {
        if count > 0 {
            let ty = if class == RegClass::Pred { "pred" } else { class_type(class) };
            writeln!(out, "    .reg .{ty} {}<{count}>;", prefix(class))?;
        }
    }
    let shared = kernel.shared_bytes();
    let printer = Printer {
        kernel,
        shared: if kernel.dynamic_shared_bytes() > 0 { DYNAMIC } else { "shared" },
        shared_at: kernel.shared_layout(),
        labels: 0,
        indent: 1,
        out,
    };
    if (1..=STATIC_SHARED_BYTES).contains(&shared) {
        writeln!(printer.out, "    .shared .align {} .b8 shared[{shared}];", kernel.shared_align())?;
    }
    for (at, array) in kernel.local.iter().enumerate() {
        writeln!(printer.out, "    .local .align {} .b8 local{at}[{}];", array.align, array.bytes)?;
    }
    printer.finish()
}

/// Number of registers to declare per class: one more than the greatest register number.
fn counts(kernel: &PtxKernel) -> [u32; 6] {
    fn note(counts: &mut [u32; 6], reg: Reg) {
        let count = &mut counts[reg.class as usize];
        *count = (*count).max(reg.number.saturating_add(1));
    }
    fn block(stmts: &[PtxStmt], counts: &mut [u32; 6]) {
        for stmt in stmts {
            match stmt {
                PtxStmt::Inst(inst) => inst.each_register(&mut |reg| note(counts, reg)),
                PtxStmt::Predicated(guard, inst) => {
                    note(counts, guard.pred);
                    inst.each_register(&mut |reg| note(counts, reg));
                }
                PtxStmt::If { guard, then, otherwise } => {
                    note(counts, guard.pred);
                    block(then, counts);
                    block(otherwise, counts);
                }
                PtxStmt::Loop { body, repeat_while } => {
                    block(body, counts);
                    note(counts, repeat_while.pred);
                }
                PtxStmt::Comment(_) => {}
            }
        }
    }
    let mut found = [0; 6];
    block(&kernel.body, &mut found);
    found
}

struct Printer<'a> {
    kernel: &'a PtxKernel,
    /// Name of the array that contains the kernel's shared arrays.
    shared: &'static str,
    /// Offset of each shared array in the array `shared`, in bytes.
    shared_at: Vec<u32>,
    labels: u32,
    indent: usize,
    out: &'a mut String,
}

impl Printer<'_> {
    fn finish(mut self) -> fmt::Result {
        let kernel = self.kernel;
        self.block(&kernel.body)?;
        self.out.push_str("    ret;\n}\n");
        Ok(())
    }

    fn line(&mut self, text: &str) -> fmt::Result {
        writeln!(self.out, "{:width$}{text}", "", width = 4 * self.indent)
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!("$L{}", self.labels)
    }

    fn block(&mut self, stmts: &[PtxStmt]) -> fmt::Result {
        stmts.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn inner(&mut self, stmts: &[PtxStmt]) -> fmt::Result {
        self.indent += 1;
        let done = self.block(stmts);
        self.indent -= 1;
        done
    }

    fn stmt(&mut self, stmt: &PtxStmt) -> fmt::Result {
        match stmt {
            PtxStmt::Inst(inst) => {
                let text = self.inst(inst);
                // The text of this instruction ends with a brace.
                let end = if matches!(inst, Inst::MbarrierWait { .. }) { "" } else { ";" };
                self.line(&format!("{text}{end}"))
            }
            PtxStmt::Predicated(guard, inst) if hopper::is_several(inst) => {
                self.branch(*guard, &[PtxStmt::Inst(inst.clone())], &[])
            }
            PtxStmt::Predicated(guard, inst) => {
                let text = self.inst(inst);
                self.line(&format!("{} {text};", guarded(*guard)))
            }
            PtxStmt::If { guard, then, otherwise } => self.branch(*guard, then, otherwise),
            PtxStmt::Loop { body, repeat_while } => {
                let top = self.label();
                self.line(&format!("{top}:"))?;
                self.inner(body)?;
                self.line(&format!("{} bra {top};", guarded(*repeat_while)))
            }
            PtxStmt::Comment(text) => self.line(&format!("// {text}")),
        }
    }

    fn branch(&mut self, guard: GuardPredicate, then: &[PtxStmt], otherwise: &[PtxStmt]) -> fmt::Result {
        let end = self.label();
        let opposite = guarded(GuardPredicate { when: !guard.when, ..guard });
        if otherwise.is_empty() {
            self.line(&format!("{opposite} bra {end};"))?;
            self.inner(then)?;
        } else {
            let other = self.label();
            self.line(&format!("{opposite} bra {other};"))?;
            self.inner(then)?;
            self.line(&format!("bra {end};"))?;
            self.line(&format!("{other}:"))?;
            self.inner(otherwise)?;
        }
        self.line(&format!("{end}:"))
    }

    fn inst(&self, inst: &Inst) -> String {
        match inst {
            Inst::Move { dst, src } => {
                let ty = match (dst.class, src) {
                    (RegClass::Pred, _) => "pred",
                    (class, PtxOperand::Const(_)) => class_type(class),
                    (class, PtxOperand::Reg(src)) if src.class == class => class_type(class),
                    (class, _) => bits_type(class.bits()),
                };
                format!("mov.{ty} {}, {}", reg(*dst), constant_of(dst.class, *src))
            }
            Inst::ReadSpecial { dst, special } => {
                format!("mov.u32 {}, {}", reg(*dst), special_name(*special))
            }
            Inst::ArrayAddress { dst, space, array } => {
                format!("mov.u32 {}, {}", reg(*dst), self.array(*space, *array, 0))
            }
            Inst::LoadParam { dst, param } => {
                format!("ld.param.b64 {}, [{}_{param}]", reg(*dst), self.kernel.name)
            }
            Inst::Pack { dst, halves } => {
                format!("mov.{} {}, {}", bits_type(dst.class.bits()), reg(*dst), list(halves))
            }
            Inst::Unpack { halves, src } => {
                format!("mov.{} {}, {}", bits_type(src.class.bits()), list(halves), reg(*src))
            }
            Inst::Unary { op, ty, dst, src } => {
                format!("{} {}, {}", unary(*op, *ty), reg(*dst), operand(*ty, *src))
            }
            Inst::Binary { op, ty, dst, a, b } => {
                let is_shift = matches!(op, PtxBinaryOp::ShiftLeft | PtxBinaryOp::ShiftRight);
                let second = if is_shift { Ty::U32 } else { *ty };
                format!("{} {}, {}, {}", binary(*op, *ty), reg(*dst), operand(*ty, *a), operand(second, *b))
            }
            Inst::Ternary { op, ty, dst, a, b, c } => ternary(*op, *ty, *dst, [*a, *b, *c]),
            Inst::Compare { cmp, ty, dst, a, b } => format!(
                "setp.{}.{} {}, {}, {}",
                cmp.name(),
                ty.name(),
                reg(*dst),
                operand(*ty, *a),
                operand(*ty, *b)
            ),
            Inst::Select { ty, dst, a, b, pred } => format!(
                "selp.{} {}, {}, {}, {}",
                class_type(ty.class()),
                reg(*dst),
                constant_of(ty.class(), *a),
                constant_of(ty.class(), *b),
                reg(*pred)
            ),
            Inst::Convert { to, from, rounding, dst, src } => {
                format!("cvt{}.{}.{} {}, {}", rounding.name(), to.name(), from.name(), reg(*dst), reg(*src))
            }
            Inst::Load { space, ty, constant, dsts, from } => {
                let cached = if *constant { ".nc" } else { "" };
                let kind = format!("{}{cached}{}.{}", space, vector(dsts.len()), memory_type(*ty));
                format!("ld.{kind} {}, {}", regs(dsts), self.place(*space, *from))
            }
            Inst::Store { space, ty, to, srcs } => {
                let kind = format!("{}{}.{}", space, vector(srcs.len()), memory_type(*ty));
                let values: Vec<String> = srcs.iter().map(|&src| constant_of(ty.class(), src)).collect();
                let values =
                    if values.len() == 1 { values.concat() } else { format!("{{{}}}", values.join(", ")) };
                format!("st.{kind} {}, {values}", self.place(*space, *to))
            }
            Inst::Atomic { space, op, ty, dst, at, operands } => {
                let kind = format!("{}.{}.{}", space, op.name(), ty.name());
                let values: Vec<String> = operands.iter().map(|&value| operand(*ty, value)).collect();
                let (at, values) = (self.place(*space, *at), values.join(", "));
                match dst {
                    Some(dst) => format!("atom.{kind} {}, {at}, {values}", reg(*dst)),
                    None => format!("red.{kind} {at}, {values}"),
                }
            }
            Inst::Barrier { id, threads: None } => format!("bar.sync {id}"),
            Inst::Barrier { id, threads: Some(threads) } => format!("bar.sync {id}, {threads}"),
            Inst::WarpBarrier => "bar.warp.sync 0xffffffff".into(),
            Inst::Shuffle { mode, dst, src, lane, width } => {
                let last = if *mode == ShuffleMode::Up { 0 } else { 31 };
                let clamp = (32_u32.wrapping_sub(*width) << 8) | last;
                let lane = operand(Ty::U32, *lane);
                format!(
                    "shfl.sync.{}.b32 {}, {}, {lane}, {clamp}, {EVERY_LANE}",
                    mode.name(),
                    reg(*dst),
                    reg(*src)
                )
            }
            Inst::Ldmatrix { transposed, dsts, from } => {
                let transposed = if *transposed { ".trans" } else { "" };
                let kind = format!("m8n8.x{}{transposed}.shared.b16", dsts.len());
                format!(
                    "ldmatrix.sync.aligned.{kind} {}, {}",
                    list(dsts),
                    self.place(StateSpace::Shared, *from)
                )
            }
            Inst::Mma { shape, d, a, b, c } => {
                let kind = shape.name();
                format!("mma.sync.aligned.{kind} {}, {}, {}, {}", list(d), list(a), list(b), list(c))
            }
            Inst::CpAsync { bytes, to, from, read } => {
                let cached = if *bytes == 16 { "cg" } else { "ca" };
                let (to, from) = (self.place(StateSpace::Shared, *to), self.place(StateSpace::Global, *from));
                let read = read.map(|read| format!(", {}", reg(read))).unwrap_or_default();
                format!("cp.async.{cached}.shared.global {to}, {from}, {bytes}{read}")
            }
            Inst::CpAsyncCommit => "cp.async.commit_group".into(),
            Inst::CpAsyncWait { pending } => format!("cp.async.wait_group {pending}"),
            Inst::TensorMapAddress { dst, map } => {
                hopper::map_address(*dst, &hopper::map_name(self.kernel, *map))
            }
            Inst::PrefetchTensorMap { map } => format!("prefetch.tensormap [{}]", reg(*map)),
            Inst::MbarrierInit { at, count } => {
                format!("mbarrier.init.shared::cta.b64 {}, {count}", self.place(StateSpace::Shared, *at))
            }
            Inst::FenceMbarrierInit => "fence.mbarrier_init.release.cluster".into(),
            Inst::MbarrierArrive { at } => {
                format!("mbarrier.arrive.shared::cta.b64 _, {}", self.place(StateSpace::Shared, *at))
            }
            Inst::MbarrierArriveCluster { at } => {
                let at = self.place(StateSpace::Shared, *at);
                format!("mbarrier.arrive.shared::cluster.b64 _, {at}")
            }
            Inst::MbarrierArriveExpectTx { at, bytes } => {
                let at = self.place(StateSpace::Shared, *at);
                format!("mbarrier.arrive.expect_tx.shared::cta.b64 _, {at}, {bytes}")
            }
            Inst::MbarrierWait { at, parity, cluster } => {
                hopper::wait(&self.place(StateSpace::Shared, *at), *parity, *cluster)
            }
            Inst::Mapa { dst, at, block } => {
                let (at, block) = (self.address(StateSpace::Shared, *at), operand(Ty::U32, *block));
                format!("mapa.shared::cluster.u32 {}, {at}, {block}", reg(*dst))
            }
            Inst::ClusterBarrier => {
                "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned".into()
            }
            Inst::FenceProxyAsync => "fence.proxy.async.shared::cta".into(),
            Inst::TmaLoad { map, at, to, barrier, multicast } => {
                let places = [to, barrier].map(|&place| self.place(StateSpace::Shared, place));
                hopper::load_tile(*map, at, places, *multicast)
            }
            Inst::TmaStore { map, at, from } => {
                hopper::store_tile(*map, at, &self.place(StateSpace::Shared, *from))
            }
            Inst::TmaStoreCommit => "cp.async.bulk.commit_group".into(),
            Inst::TmaStoreWait { pending } => format!("cp.async.bulk.wait_group.read {pending}"),
            Inst::SetMaxRegisters { count, increase } => {
                format!("setmaxnreg.{}.sync.aligned.u32 {count}", if *increase { "inc" } else { "dec" })
            }
            Inst::WgmmaFence => "wgmma.fence.sync.aligned".into(),
            Inst::WgmmaCommit => "wgmma.commit_group.sync.aligned".into(),
            Inst::WgmmaWait { pending } => format!("wgmma.wait_group.sync.aligned {pending}"),
            Inst::Wgmma { element, columns, d, a, b, transposed, accumulate } => {
                hopper::wgmma(*element, *columns, d, [*a, *b, *accumulate], *transposed)
            }
            Inst::Stmatrix { from, to } => {
                let kind = format!("m8n8.x{}.shared.b16", from.len());
                format!(
                    "stmatrix.sync.aligned.{kind} {}, {}",
                    self.place(StateSpace::Shared, *to),
                    list(from)
                )
            }
        }
    }

    fn place(&self, space: StateSpace, place: AddressOperand) -> String {
        format!("[{}]", self.address(space, place))
    }

    fn address(&self, space: StateSpace, place: AddressOperand) -> String {
        match place.base {
            AddressBase::Array(array) => self.array(space, array, place.offset),
            AddressBase::Reg(base) => with_offset(&reg(base), i64::from(place.offset)),
        }
    }

    fn array(&self, space: StateSpace, array: u32, offset: i32) -> String {
        if space == StateSpace::Local {
            return with_offset(&format!("local{array}"), i64::from(offset));
        }
        let at = self.shared_at.get(array as usize).copied().unwrap_or_default();
        with_offset(self.shared, i64::from(at) + i64::from(offset))
    }
}

/// Member mask of collective instructions: all lanes of the warp.
const EVERY_LANE: &str = "0xffffffff";

fn with_offset(name: &str, offset: i64) -> String {
    if offset == 0 { name.to_owned() } else { format!("{name}+{offset}") }
}

fn guarded(guard: GuardPredicate) -> String {
    format!("@{}{}", if guard.when { "" } else { "!" }, reg(guard.pred))
}

fn prefix(class: RegClass) -> &'static str {
    match class {
        RegClass::Pred => "%p",
        RegClass::B16 => "%h",
        RegClass::B32 => "%r",
        RegClass::B64 => "%d",
        RegClass::F32 => "%f",
        RegClass::F64 => "%g",
    }
}

pub(crate) fn reg(reg: Reg) -> String {
    format!("{}{}", prefix(reg.class), reg.number)
}

fn regs(regs: &[Reg]) -> String {
    if let [only] = regs { reg(*only) } else { list(regs) }
}

fn list(regs: &[Reg]) -> String {
    let names: Vec<String> = regs.iter().map(|&r| reg(r)).collect();
    format!("{{{}}}", names.join(", "))
}

/// Text of an operand of type `ty`: immediates of signed types have a sign.
fn operand(ty: Ty, operand: PtxOperand) -> String {
    let PtxOperand::Const(bits) = operand else { return constant_of(ty.class(), operand) };
    match ty {
        Ty::S8 => format!("{}", bits as i8),
        Ty::S16 => format!("{}", bits as i16),
        Ty::S32 => format!("{}", bits as i32),
        Ty::S64 => format!("{}", bits as i64),
        _ => constant_of(ty.class(), operand),
    }
}

/// Text of an operand for a register of class `class`.
fn constant_of(class: RegClass, operand: PtxOperand) -> String {
    match (operand, class) {
        (PtxOperand::Reg(r), _) => reg(r),
        (PtxOperand::Const(bits), RegClass::F32) => format!("0f{:08X}", bits as u32),
        (PtxOperand::Const(bits), RegClass::F64) => format!("0d{bits:016X}"),
        // PTX takes any integer for a predicate; -1 is true.
        (PtxOperand::Const(bits), RegClass::Pred) => (if bits & 1 == 0 { "0" } else { "-1" }).into(),
        (PtxOperand::Const(bits), RegClass::B16) => format!("{}", bits as u16),
        (PtxOperand::Const(bits), RegClass::B32) => format!("{}", bits as u32),
        (PtxOperand::Const(bits), RegClass::B64) => format!("{bits}"),
    }
}

fn class_type(class: RegClass) -> &'static str {
    match class {
        RegClass::Pred => "pred",
        RegClass::F32 => "f32",
        RegClass::F64 => "f64",
        RegClass::B16 | RegClass::B32 | RegClass::B64 => bits_type(class.bits()),
    }
}

fn bits_type(bits: u32) -> &'static str {
    match bits {
        16 => "b16",
        32 => "b32",
        _ => "b64",
    }
}

fn ternary(op: PtxTernaryOp, ty: Ty, dst: Reg, [a, b, c]: [PtxOperand; 3]) -> String {
    let third = match (op, ty) {
        (PtxTernaryOp::MulAddWide, Ty::S32) => Ty::S64,
        (PtxTernaryOp::MulAddWide, _) => Ty::U64,
        _ => ty,
    };
    let (a, b, c) = (operand(ty, a), operand(ty, b), operand(third, c));
    format!("{}.{} {}, {a}, {b}, {c}", op.name(), ty.name(), reg(dst))
}
