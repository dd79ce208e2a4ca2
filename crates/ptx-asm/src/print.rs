//! Programs as the text that drivers and assemblers take.
//!
//! One line per instruction, blocks indented, registers numbered within their class. Arithmetic on floats says how it rounds: what does not, an
//! assembler may fuse. Arrays of a block lie in one array, statically declared as long as the language allows that ([`Kernel::shared_bytes`]).

mod hopper; // what 9.0 alone has
mod names; // what things are called

use std::fmt::{self, Write};

use self::names::{
    atomic, binary, comparison, memory_type, name, rounding_name, space_name, special_name, unary, vector,
};
use crate::inst::{Binary, Inst, Mma, Scope, Shuffle, Ternary, Ty, Vote};
use crate::program::{
    Base, Class, Guard, Kernel, Module, Operand, Place, Reg, STATIC_SHARED_BYTES, Space, Stmt,
};

/// The text of a module, which should be a program that [`check`](crate::check) accepts.
pub fn print(module: &Module) -> String {
    let mut out = String::new();
    // Writing into a string does not fail.
    let _ = module_text(&mut out, module);
    out
}

fn module_text(out: &mut String, module: &Module) -> fmt::Result {
    let (major, minor) = module.target.language();
    writeln!(out, ".version {major}.{minor}\n.target {}\n.address_size 64", module.target.name())?;
    let dynamic = module.kernels.iter().filter(|kernel| kernel.dynamic_shared_bytes() > 0);
    if let Some(align) = dynamic.map(Kernel::shared_align).max() {
        writeln!(out, "\n.extern .shared .align {align} .b8 {DYNAMIC}[];")?;
    }
    for kernel in &module.kernels {
        out.push('\n');
        kernel_text(out, kernel)?;
    }
    Ok(())
}

/// The array of a block whose size is known at the launch.
const DYNAMIC: &str = "dynamic_shared";

fn kernel_text(out: &mut String, kernel: &Kernel) -> fmt::Result {
    let number = |at| format!("    .param .b64 {}_{at}", kernel.name);
    let map = |at| format!("    .param .align 64 .b8 {}[128]", hopper::map_name(kernel, at));
    let params: Vec<String> = (0..kernel.params).map(number).chain((0..kernel.maps).map(map)).collect();
    writeln!(out, ".visible .entry {}(\n{}\n)", kernel.name, params.join(",\n"))?;
    writeln!(out, ".maxntid {}, 1, 1", kernel.threads)?;
    if let Some(blocks) = kernel.blocks_per_processor {
        writeln!(out, ".minnctapersm {blocks}")?;
    }
    if kernel.cluster > 1 {
        writeln!(out, ".reqnctapercluster {}, 1, 1\n.explicitcluster", kernel.cluster)?;
    }
    out.push_str("{\n");
    for (class, count) in Class::ALL.into_iter().zip(counts(kernel)) {
        if count > 0 {
            let ty = if class == Class::Pred { "pred" } else { class_type(class) };
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

/// How many registers of each class a kernel mentions: one more than the greatest number.
fn counts(kernel: &Kernel) -> [u32; 6] {
    fn note(counts: &mut [u32; 6], reg: Reg) {
        let count = &mut counts[reg.class as usize];
        *count = (*count).max(reg.number.saturating_add(1));
    }
    fn block(stmts: &[Stmt], counts: &mut [u32; 6]) {
        for stmt in stmts {
            match stmt {
                Stmt::Inst(inst) => inst.each_register(&mut |reg| note(counts, reg)),
                Stmt::When(guard, inst) => {
                    note(counts, guard.pred);
                    inst.each_register(&mut |reg| note(counts, reg));
                }
                Stmt::If { guard, then, otherwise } => {
                    note(counts, guard.pred);
                    block(then, counts);
                    block(otherwise, counts);
                }
                Stmt::Loop { body, again } => {
                    block(body, counts);
                    note(counts, again.pred);
                }
                Stmt::Comment(_) => {}
            }
        }
    }
    let mut found = [0; 6];
    block(&kernel.body, &mut found);
    found
}

struct Printer<'a> {
    kernel: &'a Kernel,
    /// The name of the array that holds those of the block.
    shared: &'static str,
    /// Where in it each lies.
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

    fn block(&mut self, stmts: &[Stmt]) -> fmt::Result {
        stmts.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn inner(&mut self, stmts: &[Stmt]) -> fmt::Result {
        self.indent += 1;
        let done = self.block(stmts);
        self.indent -= 1;
        done
    }

    fn stmt(&mut self, stmt: &Stmt) -> fmt::Result {
        match stmt {
            Stmt::Inst(inst) => {
                let text = self.inst(inst);
                // Braces end by themselves.
                let end = if matches!(inst, Inst::BarrierWait { .. }) { "" } else { ";" };
                self.line(&format!("{text}{end}"))
            }
            Stmt::When(guard, inst) if hopper::is_several(inst) => {
                self.branch(*guard, &[Stmt::Inst(inst.clone())], &[])
            }
            Stmt::When(guard, inst) => {
                let text = self.inst(inst);
                self.line(&format!("{} {text};", guarded(*guard)))
            }
            Stmt::If { guard, then, otherwise } => self.branch(*guard, then, otherwise),
            Stmt::Loop { body, again } => {
                let top = self.label();
                self.line(&format!("{top}:"))?;
                self.inner(body)?;
                self.line(&format!("{} bra {top};", guarded(*again)))
            }
            Stmt::Comment(text) => self.line(&format!("// {text}")),
        }
    }

    fn branch(&mut self, guard: Guard, then: &[Stmt], otherwise: &[Stmt]) -> fmt::Result {
        let end = self.label();
        let opposite = guarded(Guard { when: !guard.when, ..guard });
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
                    (Class::Pred, _) => "pred",
                    (class, Operand::Const(_)) => class_type(class),
                    (class, Operand::Reg(src)) if src.class == class => class_type(class),
                    (class, _) => bits_type(class.bits()),
                };
                format!("mov.{ty} {}, {}", reg(*dst), constant_of(dst.class, *src))
            }
            Inst::Where { dst, special } => format!("mov.u32 {}, {}", reg(*dst), special_name(*special)),
            Inst::Address { dst, space, array } => {
                format!("mov.u32 {}, {}", reg(*dst), self.array(*space, *array, 0))
            }
            Inst::Param { dst, param } => {
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
                let is_shift = matches!(op, Binary::ShiftLeft | Binary::ShiftRight);
                let second = if is_shift { Ty::U32 } else { *ty };
                format!("{} {}, {}, {}", binary(*op, *ty), reg(*dst), operand(*ty, *a), operand(second, *b))
            }
            Inst::Ternary { op, ty, dst, a, b, c } => ternary(*op, *ty, *dst, [*a, *b, *c]),
            Inst::Compare { cmp, ty, dst, a, b } => format!(
                "setp.{}.{} {}, {}, {}",
                comparison(*cmp),
                name(*ty),
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
                format!(
                    "cvt{}.{}.{} {}, {}",
                    rounding_name(*rounding),
                    name(*to),
                    name(*from),
                    reg(*dst),
                    reg(*src)
                )
            }
            Inst::ConvertPair { to, dst, halves: [low, high] } => format!(
                "cvt.rn.{}.f32 {}, {}, {}",
                name(*to),
                reg(*dst),
                operand(Ty::F32, *high),
                operand(Ty::F32, *low)
            ),
            Inst::Load { space, ty, constant, dsts, from } => {
                let cached = if *constant { ".nc" } else { "" };
                let kind =
                    format!("{}{cached}{}.{}", space_name(*space), vector(dsts.len()), memory_type(*ty));
                format!("ld.{kind} {}, {}", regs(dsts), self.place(*space, *from))
            }
            Inst::Store { space, ty, to, srcs } => {
                let kind = format!("{}{}.{}", space_name(*space), vector(srcs.len()), memory_type(*ty));
                let values: Vec<String> = srcs.iter().map(|&src| constant_of(ty.class(), src)).collect();
                let values =
                    if values.len() == 1 { values.concat() } else { format!("{{{}}}", values.join(", ")) };
                format!("st.{kind} {}, {values}", self.place(*space, *to))
            }
            Inst::Atomic { space, op, ty, dst, at, operands } => {
                let kind = format!("{}.{}.{}", space_name(*space), atomic(*op), name(*ty));
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
            Inst::Fence(Scope::Block) => "fence.acq_rel.cta".into(),
            Inst::Fence(Scope::Device) => "fence.acq_rel.gpu".into(),
            Inst::Shuffle { mode, dst, src, lane, width } => {
                let (mode, last) = match mode {
                    Shuffle::Up => ("up", 0),
                    Shuffle::Down => ("down", 31),
                    Shuffle::Xor => ("bfly", 31),
                    Shuffle::Index => ("idx", 31),
                };
                let clamp = (32_u32.wrapping_sub(*width) << 8) | last;
                let lane = operand(Ty::U32, *lane);
                format!("shfl.sync.{mode}.b32 {}, {}, {lane}, {clamp}, {EVERY_LANE}", reg(*dst), reg(*src))
            }
            Inst::Vote { vote, dst, src } => {
                let kind = match vote {
                    Vote::All => "all.pred",
                    Vote::Any => "any.pred",
                    Vote::Ballot => "ballot.b32",
                };
                format!("vote.sync.{kind} {}, {}, {EVERY_LANE}", reg(*dst), reg(*src))
            }
            Inst::LoadMatrix { transposed, dsts, from } => {
                let transposed = if *transposed { ".trans" } else { "" };
                let kind = format!("m8n8.x{}{transposed}.shared.b16", dsts.len());
                format!("ldmatrix.sync.aligned.{kind} {}, {}", list(dsts), self.place(Space::Shared, *from))
            }
            Inst::Mma { shape, d, a, b, c } => {
                let kind = match shape {
                    Mma::F16K16 => "m16n8k16.row.col.f32.f16.f16.f32",
                    Mma::Bf16K16 => "m16n8k16.row.col.f32.bf16.bf16.f32",
                    Mma::Tf32K8 => "m16n8k8.row.col.f32.tf32.tf32.f32",
                };
                format!("mma.sync.aligned.{kind} {}, {}, {}, {}", list(d), list(a), list(b), list(c))
            }
            Inst::CopyAsync { bytes, to, from, read } => {
                let cached = if *bytes == 16 { "cg" } else { "ca" };
                let (to, from) = (self.place(Space::Shared, *to), self.place(Space::Global, *from));
                let read = read.map(|read| format!(", {}", reg(read))).unwrap_or_default();
                format!("cp.async.{cached}.shared.global {to}, {from}, {bytes}{read}")
            }
            Inst::CopyCommit => "cp.async.commit_group".into(),
            Inst::CopyWait { left } => format!("cp.async.wait_group {left}"),
            Inst::Map { dst, map } => hopper::map_address(*dst, &hopper::map_name(self.kernel, *map)),
            Inst::MapPrefetch { map } => format!("prefetch.tensormap [{}]", reg(*map)),
            Inst::BarrierInit { at, count } => {
                format!("mbarrier.init.shared::cta.b64 {}, {count}", self.place(Space::Shared, *at))
            }
            Inst::BarrierInitFence => "fence.mbarrier_init.release.cluster".into(),
            Inst::Arrive { at } => {
                format!("mbarrier.arrive.shared::cta.b64 _, {}", self.place(Space::Shared, *at))
            }
            Inst::ArriveCluster { at } => {
                let at = self.place(Space::Shared, *at);
                format!("mbarrier.arrive.shared::cluster.b64 _, {at}")
            }
            Inst::ArriveExpect { at, bytes } => {
                let at = self.place(Space::Shared, *at);
                format!("mbarrier.arrive.expect_tx.shared::cta.b64 _, {at}, {bytes}")
            }
            Inst::BarrierWait { at, parity, cluster } => {
                hopper::wait(&self.place(Space::Shared, *at), *parity, *cluster)
            }
            Inst::MapShared { dst, at, block } => {
                let (at, block) = (self.address(Space::Shared, *at), operand(Ty::U32, *block));
                format!("mapa.shared::cluster.u32 {}, {at}, {block}", reg(*dst))
            }
            Inst::ClusterBarrier => {
                "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned".into()
            }
            Inst::FenceAsync => "fence.proxy.async.shared::cta".into(),
            Inst::LoadTile { map, at, to, barrier, multicast } => {
                let places = [to, barrier].map(|&place| self.place(Space::Shared, place));
                hopper::load_tile(*map, at, places, *multicast)
            }
            Inst::StoreTile { map, at, from } => {
                hopper::store_tile(*map, at, &self.place(Space::Shared, *from))
            }
            Inst::StoreTileCommit => "cp.async.bulk.commit_group".into(),
            Inst::StoreTileWait { left } => format!("cp.async.bulk.wait_group.read {left}"),
            Inst::SetMaxRegisters { count, increase } => {
                format!("setmaxnreg.{}.sync.aligned.u32 {count}", if *increase { "inc" } else { "dec" })
            }
            Inst::WarpgroupFence => "wgmma.fence.sync.aligned".into(),
            Inst::WarpgroupCommit => "wgmma.commit_group.sync.aligned".into(),
            Inst::WarpgroupWait { left } => format!("wgmma.wait_group.sync.aligned {left}"),
            Inst::WarpgroupMma { factor, columns, d, a, b, transposed, accumulate } => {
                hopper::product(*factor, *columns, d, [*a, *b, *accumulate], *transposed)
            }
            Inst::StoreMatrix { from, to } => {
                let kind = format!("m8n8.x{}.shared.b16", from.len());
                format!("stmatrix.sync.aligned.{kind} {}, {}", self.place(Space::Shared, *to), list(from))
            }
        }
    }

    fn place(&self, space: Space, place: Place) -> String {
        format!("[{}]", self.address(space, place))
    }

    fn address(&self, space: Space, place: Place) -> String {
        match place.base {
            Base::Array(array) => self.array(space, array, place.offset),
            Base::Reg(base) => with_offset(&reg(base), i64::from(place.offset)),
        }
    }

    fn array(&self, space: Space, array: u32, offset: i32) -> String {
        if space == Space::Local {
            return with_offset(&format!("local{array}"), i64::from(offset));
        }
        let at = self.shared_at.get(array as usize).copied().unwrap_or_default();
        with_offset(self.shared, i64::from(at) + i64::from(offset))
    }
}

/// The lanes that take part in what a warp does together: all.
const EVERY_LANE: &str = "0xffffffff";

fn with_offset(name: &str, offset: i64) -> String {
    if offset == 0 { name.to_owned() } else { format!("{name}+{offset}") }
}

fn guarded(guard: Guard) -> String {
    format!("@{}{}", if guard.when { "" } else { "!" }, reg(guard.pred))
}

fn prefix(class: Class) -> &'static str {
    match class {
        Class::Pred => "%p",
        Class::B16 => "%h",
        Class::B32 => "%r",
        Class::B64 => "%d",
        Class::F32 => "%f",
        Class::F64 => "%g",
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

/// An operand that an instruction takes for a value of a type.
fn operand(ty: Ty, operand: Operand) -> String {
    let Operand::Const(bits) = operand else { return constant_of(ty.class(), operand) };
    match ty {
        Ty::S8 => format!("{}", bits as i8),
        Ty::S16 => format!("{}", bits as i16),
        Ty::S32 => format!("{}", bits as i32),
        Ty::S64 => format!("{}", bits as i64),
        _ => constant_of(ty.class(), operand),
    }
}

/// An operand that is copied into a register of a class.
fn constant_of(class: Class, operand: Operand) -> String {
    match (operand, class) {
        (Operand::Reg(r), _) => reg(r),
        (Operand::Const(bits), Class::F32) => format!("0f{:08X}", bits as u32),
        (Operand::Const(bits), Class::F64) => format!("0d{bits:016X}"),
        // All bits set is true.
        (Operand::Const(bits), Class::Pred) => (if bits & 1 == 0 { "0" } else { "-1" }).into(),
        (Operand::Const(bits), Class::B16) => format!("{}", bits as u16),
        (Operand::Const(bits), Class::B32) => format!("{}", bits as u32),
        (Operand::Const(bits), Class::B64) => format!("{bits}"),
    }
}

fn class_type(class: Class) -> &'static str {
    match class {
        Class::Pred => "pred",
        Class::F32 => "f32",
        Class::F64 => "f64",
        Class::B16 | Class::B32 | Class::B64 => bits_type(class.bits()),
    }
}

fn bits_type(bits: u32) -> &'static str {
    match bits {
        16 => "b16",
        32 => "b32",
        _ => "b64",
    }
}

fn ternary(op: Ternary, ty: Ty, dst: Reg, [a, b, c]: [Operand; 3]) -> String {
    let wide = match ty {
        Ty::S32 => Ty::S64,
        _ => Ty::U64,
    };
    let (op, third, table) = match op {
        Ternary::Fma => ("fma.rn", ty, None),
        Ternary::MulAdd => ("mad.lo", ty, None),
        Ternary::MulAddWide => ("mad.wide", wide, None),
        Ternary::Permute => ("prmt", ty, None),
        Ternary::FunnelLeft => ("shf.l.wrap", ty, None),
        Ternary::FunnelRight => ("shf.r.wrap", ty, None),
        Ternary::Logic(table) => ("lop3", ty, Some(table)),
    };
    let table = table.map(|table| format!(", {table}")).unwrap_or_default();
    let (a, b, c) = (operand(ty, a), operand(ty, b), operand(third, c));
    format!("{op}.{} {}, {a}, {b}, {c}{table}", name(ty), reg(dst))
}
