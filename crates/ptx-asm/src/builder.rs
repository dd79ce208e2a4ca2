//! Builds kernels: allocates registers and nests statements.

use smallvec::{SmallVec, smallvec};

use crate::inst::{CmpOp, Inst, PtxBinaryOp, PtxTernaryOp, PtxUnaryOp, RoundingMode, Ty};
use crate::program::{
    AddressOperand, ArrayDecl, GuardPredicate, PtxKernel, PtxOperand, PtxStmt, Reg, RegClass, Regs,
    SpecialReg, StateSpace, StmtList,
};

/// Builds a kernel, statement by statement.
///
/// A method for an operation with a result allocates a register for it and returns the register;
/// [`PtxBuilder::push`] takes any instruction. The bodies of branches and loops are closures:
///
/// ```
/// use ptx_asm::{
///     AddressOperand, CmpOp, GuardPredicate, PtxBinaryOp, PtxBuilder, PtxProgram, SpecialReg, StateSpace,
///     Target, Ty, check, print,
/// };
///
/// // y[i] = 2 x[i] for i < 1000
/// let mut b = PtxBuilder::new("double", 2, 256);
/// let (block, thread) = (b.special(SpecialReg::Block), b.special(SpecialReg::Thread));
/// let i = b.mul_add(Ty::U32, block, 256_u32, thread);
/// let inside = b.compare(CmpOp::Lt, Ty::U32, i, 1000_u32);
/// b.when(GuardPredicate::on(inside), |b| {
///     let (x, y) = (b.param(0), b.param(1));
///     let from = b.mul_add_wide(Ty::U32, i, 4_u32, x);
///     let value = b.load(StateSpace::Global, Ty::F32, true, AddressOperand::at(from));
///     let value = b.binary(PtxBinaryOp::Add, Ty::F32, value, value);
///     let to = b.mul_add_wide(Ty::U32, i, 4_u32, y);
///     b.store(StateSpace::Global, Ty::F32, AddressOperand::at(to), value);
/// });
/// let module = PtxProgram { target: Target::Sm70, kernels: vec![b.finish()] };
/// check(&module)?;
/// assert!(print(&module).contains("add.rn.f32"));
/// # Ok::<(), ptx_asm::PtxError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PtxBuilder {
    kernel: PtxKernel,
    /// Number of registers allocated, by class.
    registers: [u32; 6],
    /// Statements of the innermost open block.
    block: StmtList,
    /// Number of statements in all blocks.
    size: usize,
}

impl PtxBuilder {
    /// Begins a kernel with an empty body, `params` 64-bit parameters and `threads` threads per block.
    pub fn new(name: impl Into<String>, params: u32, threads: u32) -> PtxBuilder {
        let kernel = PtxKernel { name: name.into(), params, threads, ..PtxKernel::default() };
        PtxBuilder { kernel, registers: [0; 6], block: StmtList::new(), size: 0 }
    }

    /// Returns the finished kernel.
    pub fn finish(self) -> PtxKernel {
        PtxKernel { body: self.block, ..self.kernel }
    }

    /// Sets the minimum number of blocks per SM, which limits registers (`.minnctapersm`).
    pub fn min_blocks_per_sm(&mut self, blocks: u32) {
        self.kernel.min_blocks_per_sm = Some(blocks);
    }

    /// Sets the number of blocks of a cluster.
    pub fn cluster(&mut self, blocks: u32) {
        self.kernel.cluster = blocks;
    }

    /// Adds a tensor map to the parameters and returns its index.
    pub fn tensor_map(&mut self) -> u32 {
        self.kernel.maps += 1;
        self.kernel.maps - 1
    }

    /// Allocates a register.
    pub fn register(&mut self, class: RegClass) -> Reg {
        let count = &mut self.registers[class as usize];
        let reg = Reg { class, number: *count };
        *count += 1;
        reg
    }

    /// Allocates `count` registers.
    pub fn registers(&mut self, class: RegClass, count: usize) -> Regs {
        (0..count).map(|_| self.register(class)).collect()
    }

    /// Number of registers allocated per class, in the order of [`RegClass::ALL`].
    pub fn register_counts(&self) -> [u32; 6] {
        self.registers
    }

    /// Number of statements appended so far, including those of nested blocks.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Total size in bytes of the shared arrays and of the local arrays declared so far.
    pub fn array_bytes(&self) -> (u64, u64) {
        let total = |arrays: &[ArrayDecl]| arrays.iter().map(|array| u64::from(array.bytes)).sum();
        (total(&self.kernel.shared), total(&self.kernel.local))
    }

    /// Declares an array in shared memory and returns its index.
    pub fn shared(&mut self, bytes: u32, align: u32) -> u32 {
        self.kernel.shared.push(ArrayDecl { bytes, align });
        self.kernel.shared.len() as u32 - 1
    }

    /// Declares an array in local memory and returns its index.
    pub fn local(&mut self, bytes: u32, align: u32) -> u32 {
        self.kernel.local.push(ArrayDecl { bytes, align });
        self.kernel.local.len() as u32 - 1
    }

    /// Appends an instruction.
    pub fn push(&mut self, inst: Inst) {
        self.push_stmt(PtxStmt::Inst(inst));
    }

    /// Appends the instruction that `make` builds, with a new register of class `class` as its result.
    pub fn value(&mut self, class: RegClass, make: impl FnOnce(Reg) -> Inst) -> Reg {
        let dst = self.register(class);
        self.push(make(dst));
        dst
    }

    /// Appends a predicated instruction.
    pub fn push_predicated(&mut self, guard: GuardPredicate, inst: Inst) {
        self.push_stmt(PtxStmt::Predicated(guard, inst));
    }

    /// Appends a comment to the PTX text; line breaks become spaces.
    pub fn comment(&mut self, text: &str) {
        self.push_stmt(PtxStmt::Comment(text.replace(['\n', '\r'], " ")));
    }

    /// Appends a branch that threads take where the guard is true.
    pub fn when(&mut self, guard: GuardPredicate, then: impl FnOnce(&mut Self)) {
        self.if_else(guard, then, |_| ());
    }

    /// Appends a branch with one side for threads whose guard is true and one for the others.
    pub fn if_else(
        &mut self,
        guard: GuardPredicate,
        then: impl FnOnce(&mut Self),
        otherwise: impl FnOnce(&mut Self),
    ) {
        let ((), then) = self.nested_block(then);
        let ((), otherwise) = self.nested_block(otherwise);
        self.push_stmt(PtxStmt::If { guard, then, otherwise });
    }

    /// Appends a do-while loop; `body` returns the guard that is tested at the end of each iteration.
    pub fn repeat(&mut self, body: impl FnOnce(&mut Self) -> GuardPredicate) {
        let (repeat_while, body) = self.nested_block(body);
        self.push_stmt(PtxStmt::Loop { body, repeat_while });
    }

    /// Calls `write` and returns its result and the statements it appended, as a list of their own.
    pub fn nested_block<R>(&mut self, write: impl FnOnce(&mut Self) -> R) -> (R, StmtList) {
        let outer = self.begin();
        let given = write(self);
        (given, self.end(outer))
    }

    /// Opens a nested block, for callers that cannot use a closure. Returns the statements of the enclosing
    /// block, which the caller must pass to [`PtxBuilder::end`].
    pub fn begin(&mut self) -> StmtList {
        std::mem::take(&mut self.block)
    }

    /// Closes the block that [`PtxBuilder::begin`] opened and returns its statements; later statements are
    /// appended to the enclosing block.
    pub fn end(&mut self, outer: StmtList) -> StmtList {
        std::mem::replace(&mut self.block, outer)
    }

    /// Appends a statement, such as a loop whose body [`PtxBuilder::nested_block`] returned.
    pub fn push_stmt(&mut self, stmt: PtxStmt) {
        self.size += 1;
        self.block.push(stmt);
    }

    /// The last statement of the innermost open block.
    pub fn last_mut(&mut self) -> Option<&mut PtxStmt> {
        self.block.last_mut()
    }

    /// A register of class `class` with the value of an operand: the operand's own register if it has the
    /// class, else a new one.
    pub fn in_register(&mut self, class: RegClass, value: impl Into<PtxOperand>) -> Reg {
        match value.into() {
            PtxOperand::Reg(reg) if reg.class == class => reg,
            src => self.mov(class, src),
        }
    }

    /// Copies an operand to a new register of a class of the same width.
    pub fn mov(&mut self, class: RegClass, src: impl Into<PtxOperand>) -> Reg {
        let dst = self.register(class);
        self.set(dst, src);
        dst
    }

    /// Copies an operand to a register.
    pub fn set(&mut self, dst: Reg, src: impl Into<PtxOperand>) {
        self.push(Inst::Move { dst, src: src.into() });
    }

    /// The value of a special register.
    pub fn special(&mut self, special: SpecialReg) -> Reg {
        self.value(RegClass::B32, |dst| Inst::ReadSpecial { dst, special })
    }

    /// The value of a parameter, in a register of class `B64`.
    pub fn param(&mut self, param: u32) -> Reg {
        self.value(RegClass::B64, |dst| Inst::LoadParam { dst, param })
    }

    /// The address of a tensor map, in a register of class `B64`.
    pub fn map_address(&mut self, map: u32) -> Reg {
        self.value(RegClass::B64, |dst| Inst::TensorMapAddress { dst, map })
    }

    /// Maps an address in shared memory to the same address in another block of the cluster (`mapa`).
    pub fn mapa(&mut self, at: AddressOperand, block: impl Into<PtxOperand>) -> Reg {
        let block = block.into();
        self.value(RegClass::B32, |dst| Inst::Mapa { dst, at, block })
    }

    /// The address of an array of the kernel, in a register of class `B32`.
    pub fn address(&mut self, space: StateSpace, array: u32) -> Reg {
        self.value(RegClass::B32, |dst| Inst::ArrayAddress { dst, space, array })
    }

    /// `op(src)`.
    pub fn unary(&mut self, op: PtxUnaryOp, ty: Ty, src: impl Into<PtxOperand>) -> Reg {
        let counts = matches!(op, PtxUnaryOp::CountOnes | PtxUnaryOp::LeadingZeros);
        let src = src.into();
        self.value(if counts { RegClass::B32 } else { ty.class() }, |dst| Inst::Unary { op, ty, dst, src })
    }

    /// `op(a, b)`.
    pub fn binary(
        &mut self,
        op: PtxBinaryOp,
        ty: Ty,
        a: impl Into<PtxOperand>,
        b: impl Into<PtxOperand>,
    ) -> Reg {
        let class = if op == PtxBinaryOp::MulWide { wider(ty.class()) } else { ty.class() };
        let (a, b) = (a.into(), b.into());
        self.value(class, |dst| Inst::Binary { op, ty, dst, a, b })
    }

    /// `op(a, b, c)`.
    pub fn ternary(
        &mut self,
        op: PtxTernaryOp,
        ty: Ty,
        a: impl Into<PtxOperand>,
        b: impl Into<PtxOperand>,
        c: impl Into<PtxOperand>,
    ) -> Reg {
        let class = if op == PtxTernaryOp::MulAddWide { wider(ty.class()) } else { ty.class() };
        let (a, b, c) = (a.into(), b.into(), c.into());
        self.value(class, |dst| Inst::Ternary { op, ty, dst, a, b, c })
    }

    /// `a + b`.
    pub fn add(&mut self, ty: Ty, a: impl Into<PtxOperand>, b: impl Into<PtxOperand>) -> Reg {
        self.binary(PtxBinaryOp::Add, ty, a, b)
    }

    /// `a * b + c` for integers.
    pub fn mul_add(
        &mut self,
        ty: Ty,
        a: impl Into<PtxOperand>,
        b: impl Into<PtxOperand>,
        c: impl Into<PtxOperand>,
    ) -> Reg {
        self.ternary(PtxTernaryOp::MulAdd, ty, a, b, c)
    }

    /// `a * b + c` for 32-bit `a` and `b` and 64-bit `c`: address arithmetic.
    pub fn mul_add_wide(
        &mut self,
        ty: Ty,
        a: impl Into<PtxOperand>,
        b: impl Into<PtxOperand>,
        c: impl Into<PtxOperand>,
    ) -> Reg {
        self.ternary(PtxTernaryOp::MulAddWide, ty, a, b, c)
    }

    /// `a * b + c` for floats, rounded once.
    pub fn fma(
        &mut self,
        ty: Ty,
        a: impl Into<PtxOperand>,
        b: impl Into<PtxOperand>,
        c: impl Into<PtxOperand>,
    ) -> Reg {
        self.ternary(PtxTernaryOp::Fma, ty, a, b, c)
    }

    /// The result of a comparison, in a register of class `Pred`.
    pub fn compare(&mut self, cmp: CmpOp, ty: Ty, a: impl Into<PtxOperand>, b: impl Into<PtxOperand>) -> Reg {
        let (a, b) = (a.into(), b.into());
        self.value(RegClass::Pred, |dst| Inst::Compare { cmp, ty, dst, a, b })
    }

    /// `a` if the predicate is true, else `b`.
    pub fn select(&mut self, ty: Ty, pred: Reg, a: impl Into<PtxOperand>, b: impl Into<PtxOperand>) -> Reg {
        let (a, b) = (a.into(), b.into());
        self.value(ty.class(), |dst| Inst::Select { ty, dst, a, b, pred })
    }

    /// Converts a number from type `from` to type `to`.
    pub fn convert(&mut self, to: Ty, from: Ty, rounding: RoundingMode, src: Reg) -> Reg {
        self.value(to.class(), |dst| Inst::Convert { to, from, rounding, dst, src })
    }

    /// Concatenates two registers into one of class `class`.
    pub fn pack(&mut self, class: RegClass, low: Reg, high: Reg) -> Reg {
        self.value(class, |dst| Inst::Pack { dst, halves: [low, high] })
    }

    /// Splits a register into its low and high half, of class `class`.
    pub fn unpack(&mut self, class: RegClass, src: Reg) -> [Reg; 2] {
        let halves = [self.register(class), self.register(class)];
        self.push(Inst::Unpack { halves, src });
        halves
    }

    /// Loads an element; `constant` promises that no thread writes it during the launch.
    pub fn load(&mut self, space: StateSpace, ty: Ty, constant: bool, from: AddressOperand) -> Reg {
        self.value(ty.class(), |dst| Inst::Load { space, ty, constant, dsts: smallvec![dst], from })
    }

    /// Loads one, two or four consecutive elements.
    pub fn load_vector(
        &mut self,
        space: StateSpace,
        ty: Ty,
        constant: bool,
        from: AddressOperand,
        count: usize,
    ) -> Regs {
        let dsts = self.registers(ty.class(), count);
        self.push(Inst::Load { space, ty, constant, dsts: dsts.clone(), from });
        dsts
    }

    /// Stores an element.
    pub fn store(&mut self, space: StateSpace, ty: Ty, to: AddressOperand, value: impl Into<PtxOperand>) {
        self.push(Inst::Store { space, ty, to, srcs: smallvec![value.into()] });
    }

    /// Stores one, two or four consecutive elements.
    pub fn store_vector(&mut self, space: StateSpace, ty: Ty, to: AddressOperand, values: &[Reg]) {
        let srcs: SmallVec<[PtxOperand; 4]> = values.iter().map(|&value| PtxOperand::Reg(value)).collect();
        self.push(Inst::Store { space, ty, to, srcs });
    }

    /// Synchronizes all threads of the block (`bar.sync 0`).
    pub fn barrier(&mut self) {
        self.push(Inst::Barrier { id: 0, threads: None });
    }
}

/// The integer class of twice the width.
fn wider(class: RegClass) -> RegClass {
    match class {
        RegClass::B16 => RegClass::B32,
        _ => RegClass::B64,
    }
}
