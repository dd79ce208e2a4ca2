//! Writes kernels: hands out registers and keeps the tree of statements.

use smallvec::{SmallVec, smallvec};

use crate::inst::{Binary, Cmp, Inst, Rounding, Ternary, Ty, Unary};
use crate::program::{Array, Block, Class, Guard, Kernel, Operand, Place, Reg, Regs, Space, Special, Stmt};

/// Writes the body of a kernel, statement after statement.
///
/// Operations that have a result put it into a register of their own; [`Builder::push`] takes any instruction. What was opened is closed by
/// the builder itself, since bodies are closures:
///
/// ```
/// use ptx_asm::{Binary, Builder, Cmp, Guard, Place, Space, Special, Target, Ty, Module, check, print};
///
/// // y[i] = 2 x[i] for i < 1000
/// let mut b = Builder::new("double", 2, 256);
/// let (block, thread) = (b.special(Special::Block), b.special(Special::Thread));
/// let i = b.mul_add(Ty::U32, block, 256_u32, thread);
/// let inside = b.compare(Cmp::Lt, Ty::U32, i, 1000_u32);
/// b.when(Guard::on(inside), |b| {
///     let (x, y) = (b.param(0), b.param(1));
///     let from = b.mul_add_wide(Ty::U32, i, 4_u32, x);
///     let value = b.load(Space::Global, Ty::F32, true, Place::at(from));
///     let value = b.binary(Binary::Add, Ty::F32, value, value);
///     let to = b.mul_add_wide(Ty::U32, i, 4_u32, y);
///     b.store(Space::Global, Ty::F32, Place::at(to), value);
/// });
/// let module = Module { target: Target::Sm70, kernels: vec![b.finish()] };
/// check(&module)?;
/// assert!(print(&module).contains("add.rn.f32"));
/// # Ok::<(), ptx_asm::ProgramError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    kernel: Kernel,
    /// Registers handed out, by class.
    registers: [u32; 6],
    /// What has been written of the block at hand.
    block: Block,
}

impl Builder {
    /// A kernel with so many parameters and threads of a block, which does nothing yet.
    pub fn new(name: impl Into<String>, params: u32, threads: u32) -> Builder {
        let kernel = Kernel { name: name.into(), params, threads, ..Kernel::default() };
        Builder { kernel, registers: [0; 6], block: Block::new() }
    }

    /// The kernel.
    pub fn finish(self) -> Kernel {
        Kernel { body: self.block, ..self.kernel }
    }

    /// Asks for room for so many blocks on a multiprocessor at once.
    pub fn blocks_per_processor(&mut self, blocks: u32) {
        self.kernel.blocks_per_processor = Some(blocks);
    }

    /// So many neighbouring blocks are a cluster.
    pub fn cluster(&mut self, blocks: u32) {
        self.kernel.cluster = blocks;
    }

    /// One more tensor map that the kernel is called with: its position.
    pub fn tensor_map(&mut self) -> u32 {
        self.kernel.maps += 1;
        self.kernel.maps - 1
    }

    /// A register that nothing is in.
    pub fn register(&mut self, class: Class) -> Reg {
        let count = &mut self.registers[class as usize];
        let reg = Reg { class, number: *count };
        *count += 1;
        reg
    }

    /// So many of them.
    pub fn registers(&mut self, class: Class, count: usize) -> Regs {
        (0..count).map(|_| self.register(class)).collect()
    }

    /// How many registers of each class were handed out, in the order of [`Class::ALL`].
    pub fn handed_out(&self) -> [u32; 6] {
        self.registers
    }

    /// Bytes of the arrays that a block shares so far, and of those of each thread.
    pub fn array_bytes(&self) -> (u64, u64) {
        let total = |arrays: &[Array]| arrays.iter().map(|array| u64::from(array.bytes)).sum();
        (total(&self.kernel.shared), total(&self.kernel.local))
    }

    /// An array that a block shares: its position.
    pub fn shared(&mut self, bytes: u32, align: u32) -> u32 {
        self.kernel.shared.push(Array { bytes, align });
        self.kernel.shared.len() as u32 - 1
    }

    /// An array of each thread: its position.
    pub fn local(&mut self, bytes: u32, align: u32) -> u32 {
        self.kernel.local.push(Array { bytes, align });
        self.kernel.local.len() as u32 - 1
    }

    /// Any instruction.
    pub fn push(&mut self, inst: Inst) {
        self.block.push(Stmt::Inst(inst));
    }

    /// Any instruction, of some threads.
    pub fn push_when(&mut self, guard: Guard, inst: Inst) {
        self.block.push(Stmt::When(guard, inst));
    }

    /// Text for people; line breaks become spaces.
    pub fn comment(&mut self, text: &str) {
        self.block.push(Stmt::Comment(text.replace(['\n', '\r'], " ")));
    }

    /// What threads do for which the guard holds.
    pub fn when(&mut self, guard: Guard, then: impl FnOnce(&mut Self)) {
        self.either(guard, then, |_| ());
    }

    /// What threads do for which the guard holds, and what the others do.
    pub fn either(&mut self, guard: Guard, then: impl FnOnce(&mut Self), otherwise: impl FnOnce(&mut Self)) {
        let ((), then) = self.nested(then);
        let ((), otherwise) = self.nested(otherwise);
        self.block.push(Stmt::If { guard, then, otherwise });
    }

    /// What is done once, and again while the guard holds that it gives.
    pub fn repeat(&mut self, body: impl FnOnce(&mut Self) -> Guard) {
        let (again, body) = self.nested(body);
        self.block.push(Stmt::Loop { body, again });
    }

    /// What `write` writes, as a block of its own, and what it gives.
    pub fn nested<R>(&mut self, write: impl FnOnce(&mut Self) -> R) -> (R, Block) {
        let outer = self.begin();
        let given = write(self);
        (given, self.end(outer))
    }

    /// Begins a block of its own, for those whom a closure does not suit: what was written so far is for [`Builder::end`].
    pub fn begin(&mut self) -> Block {
        std::mem::take(&mut self.block)
    }

    /// The block that has been written since [`Builder::begin`] gave this; what is written from here on follows what was before.
    pub fn end(&mut self, outer: Block) -> Block {
        std::mem::replace(&mut self.block, outer)
    }

    /// Appends a statement, such as one around a block that was written by [`Builder::nested`].
    pub fn append(&mut self, stmt: Stmt) {
        self.block.push(stmt);
    }

    /// The statement that was written last, of the block at hand.
    pub fn last_mut(&mut self) -> Option<&mut Stmt> {
        self.block.last_mut()
    }

    /// A value in a register: a new one, unless it is in one.
    pub fn in_register(&mut self, class: Class, value: impl Into<Operand>) -> Reg {
        match value.into() {
            Operand::Reg(reg) if reg.class == class => reg,
            src => self.moved(class, src),
        }
    }

    /// A copy of a value, in a register of a class as wide.
    pub fn moved(&mut self, class: Class, src: impl Into<Operand>) -> Reg {
        let dst = self.register(class);
        self.set(dst, src);
        dst
    }

    /// Copies a value into a register.
    pub fn set(&mut self, dst: Reg, src: impl Into<Operand>) {
        self.push(Inst::Move { dst, src: src.into() });
    }

    /// Where the thread is.
    pub fn special(&mut self, special: Special) -> Reg {
        let dst = self.register(Class::B32);
        self.push(Inst::Where { dst, special });
        dst
    }

    /// The value of a parameter.
    pub fn param(&mut self, param: u32) -> Reg {
        let dst = self.register(Class::B64);
        self.push(Inst::Param { dst, param });
        dst
    }

    /// The address of a tensor map.
    pub fn map_address(&mut self, map: u32) -> Reg {
        let dst = self.register(Class::B64);
        self.push(Inst::Map { dst, map });
        dst
    }

    /// Where a place in shared memory is in the memory of a block of the cluster.
    pub fn map_shared(&mut self, at: Place, block: impl Into<Operand>) -> Reg {
        let dst = self.register(Class::B32);
        self.push(Inst::MapShared { dst, at, block: block.into() });
        dst
    }

    /// The address of an array of the kernel.
    pub fn address(&mut self, space: Space, array: u32) -> Reg {
        let dst = self.register(Class::B32);
        self.push(Inst::Address { dst, space, array });
        dst
    }

    /// An operation on one operand.
    pub fn unary(&mut self, op: Unary, ty: Ty, src: impl Into<Operand>) -> Reg {
        let counts = matches!(op, Unary::CountOnes | Unary::LeadingZeros);
        let dst = self.register(if counts { Class::B32 } else { ty.class() });
        self.push(Inst::Unary { op, ty, dst, src: src.into() });
        dst
    }

    /// An operation on two operands.
    pub fn binary(&mut self, op: Binary, ty: Ty, a: impl Into<Operand>, b: impl Into<Operand>) -> Reg {
        let class = if op == Binary::MulWide { wider(ty.class()) } else { ty.class() };
        let dst = self.register(class);
        self.push(Inst::Binary { op, ty, dst, a: a.into(), b: b.into() });
        dst
    }

    /// An operation on three operands.
    pub fn ternary(
        &mut self,
        op: Ternary,
        ty: Ty,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        c: impl Into<Operand>,
    ) -> Reg {
        let class = if op == Ternary::MulAddWide { wider(ty.class()) } else { ty.class() };
        let dst = self.register(class);
        self.push(Inst::Ternary { op, ty, dst, a: a.into(), b: b.into(), c: c.into() });
        dst
    }

    /// `a + b`.
    pub fn add(&mut self, ty: Ty, a: impl Into<Operand>, b: impl Into<Operand>) -> Reg {
        self.binary(Binary::Add, ty, a, b)
    }

    /// `a * b + c` of integers.
    pub fn mul_add(
        &mut self,
        ty: Ty,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        c: impl Into<Operand>,
    ) -> Reg {
        self.ternary(Ternary::MulAdd, ty, a, b, c)
    }

    /// `a * b + c` of 32-bit integers, where `c` and the result have 64 bits: addresses.
    pub fn mul_add_wide(
        &mut self,
        ty: Ty,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        c: impl Into<Operand>,
    ) -> Reg {
        self.ternary(Ternary::MulAddWide, ty, a, b, c)
    }

    /// `a * b + c` of floats, rounded once.
    pub fn fma(
        &mut self,
        ty: Ty,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        c: impl Into<Operand>,
    ) -> Reg {
        self.ternary(Ternary::Fma, ty, a, b, c)
    }

    /// Whether a comparison holds.
    pub fn compare(&mut self, cmp: Cmp, ty: Ty, a: impl Into<Operand>, b: impl Into<Operand>) -> Reg {
        let dst = self.register(Class::Pred);
        self.push(Inst::Compare { cmp, ty, dst, a: a.into(), b: b.into() });
        dst
    }

    /// `a` where the predicate holds, else `b`.
    pub fn select(&mut self, ty: Ty, pred: Reg, a: impl Into<Operand>, b: impl Into<Operand>) -> Reg {
        let dst = self.register(ty.class());
        self.push(Inst::Select { ty, dst, a: a.into(), b: b.into(), pred });
        dst
    }

    /// A number as one of another type.
    pub fn convert(&mut self, to: Ty, from: Ty, rounding: Rounding, src: Reg) -> Reg {
        let dst = self.register(to.class());
        self.push(Inst::Convert { to, from, rounding, dst, src });
        dst
    }

    /// Two halves as one.
    pub fn pack(&mut self, class: Class, low: Reg, high: Reg) -> Reg {
        let dst = self.register(class);
        self.push(Inst::Pack { dst, halves: [low, high] });
        dst
    }

    /// The halves, low and high, in registers of a class half as wide.
    pub fn unpack(&mut self, class: Class, src: Reg) -> [Reg; 2] {
        let halves = [self.register(class), self.register(class)];
        self.push(Inst::Unpack { halves, src });
        halves
    }

    /// An element of memory; `constant` says that nobody writes it while the kernel runs.
    pub fn load(&mut self, space: Space, ty: Ty, constant: bool, from: Place) -> Reg {
        let dst = self.register(ty.class());
        self.push(Inst::Load { space, ty, constant, dsts: smallvec![dst], from });
        dst
    }

    /// One, two or four elements beside each other.
    pub fn loads(&mut self, space: Space, ty: Ty, constant: bool, from: Place, count: usize) -> Regs {
        let dsts = self.registers(ty.class(), count);
        self.push(Inst::Load { space, ty, constant, dsts: dsts.clone(), from });
        dsts
    }

    /// Writes an element.
    pub fn store(&mut self, space: Space, ty: Ty, to: Place, value: impl Into<Operand>) {
        self.push(Inst::Store { space, ty, to, srcs: smallvec![value.into()] });
    }

    /// Writes one, two or four elements beside each other.
    pub fn stores(&mut self, space: Space, ty: Ty, to: Place, values: &[Reg]) {
        let srcs: SmallVec<[Operand; 4]> = values.iter().map(|&value| Operand::Reg(value)).collect();
        self.push(Inst::Store { space, ty, to, srcs });
    }

    /// All threads of the block meet.
    pub fn barrier(&mut self) {
        self.push(Inst::Barrier { id: 0, threads: None });
    }
}

/// The class of results twice as wide.
fn wider(class: Class) -> Class {
    match class {
        Class::B16 => Class::B32,
        _ => Class::B64,
    }
}
