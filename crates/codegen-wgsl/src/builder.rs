//! A compute shader under construction: the only module that writes naga's IR.
//!
//! A [`Value`] is an expression with its type. Expressions are pure, so equal expressions in scope are
//! shared; they are emitted automatically in front of the statement that follows them. Each opened block is
//! closed, and the expressions made in a block go out of scope with it. The caller chooses the types: naga's
//! validator finds mismatches.

use std::collections::HashMap;
use std::num::NonZeroU32;

use half::f16;
use naga::{
    AddressSpace, ArraySize, AtomicFunction, Barrier, BinaryOperator, Binding, Block, BuiltIn, EntryPoint,
    Expression, Function, FunctionArgument, FunctionResult, GlobalVariable, Handle, Literal, LocalVariable,
    MathFunction, Module, ResourceBinding, Scalar, ScalarKind, ShaderStage, Span, Statement, StorageAccess,
    Type, TypeInner, UnaryOperator, VectorSize,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ty {
    Bool,
    I32,
    U32,
    F32,
    F16,
    I64,
    U64,
    F64,
    /// A vector of four 32-bit lanes.
    U32x4,
}

/// An expression and its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Value {
    pub(crate) handle: Handle<Expression>,
    pub(crate) ty: Ty,
}

/// A pointer into memory, and the type of the value that it points to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pointer {
    handle: Handle<Expression>,
    ty: Ty,
    /// Whether the memory is private to the thread.
    is_private: bool,
}

/// A variable, private to a thread or shared by a workgroup.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Variable {
    Local(Handle<LocalVariable>, Ty),
    Shared(Handle<GlobalVariable>, Ty),
}

/// A buffer of words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    global: Handle<GlobalVariable>,
    /// [`Ty::U32`], or [`Ty::U32x4`] if the buffer's elements are vectors.
    ty: Ty,
}

/// The operation and operands of a pure expression, by which equal expressions are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ExpressionKey {
    Unary(UnaryOperator, Handle<Expression>),
    Binary(BinaryOperator, Handle<Expression>, Handle<Expression>),
    Select([Handle<Expression>; 3]),
    As(Handle<Expression>, ScalarKind, Option<u8>),
    Math(MathFunction, [Handle<Expression>; 3]),
    Lane(Handle<Expression>, u32),
    Lanes([Handle<Expression>; 4]),
    Element(Handle<Expression>, Handle<Expression>),
    /// A constant that must be read from a variable.
    Bits(Ty, u64),
}

/// Expressions of this depth are assigned to named variables: parsers of shaders are recursive.
const MAX_DEPTH: u8 = 24;

/// The three components of a built-in vector.
type Builtins = [Value; 3];

/// A module with one function under construction.
#[derive(Debug)]
pub(crate) struct ShaderBuilder {
    module: Module,
    function: Function,
    /// Open blocks, the innermost last, each with the expressions that were made in it.
    open: Vec<(Block, Vec<ExpressionKey>)>,
    known: HashMap<ExpressionKey, Handle<Expression>>,
    /// Literals, which need no statement and are in scope everywhere.
    constants: HashMap<(Ty, u64), Handle<Expression>>,
    variables: HashMap<Handle<LocalVariable>, Handle<Expression>>,
    globals: HashMap<Handle<GlobalVariable>, Handle<Expression>>,
    special: HashMap<(Ty, u64), Handle<LocalVariable>>,
    /// The operand of each bit cast, by the cast's result.
    recast: HashMap<Handle<Expression>, Value>,
    /// Loaded vectors that no store has invalidated, by their pointers.
    loaded: HashMap<Handle<Expression>, Value>,
    /// The position of the first expression that is not emitted yet.
    pending: Option<usize>,
    depths: Vec<u8>,
}

/// A closed block.
#[derive(Debug, Default)]
pub(crate) struct ClosedBlock(Block);

impl Ty {
    fn scalar(self) -> Scalar {
        match self {
            Ty::Bool => Scalar::BOOL,
            Ty::I32 => Scalar::I32,
            Ty::U32 | Ty::U32x4 => Scalar::U32,
            Ty::F32 => Scalar::F32,
            Ty::F16 => Scalar::F16,
            Ty::I64 => Scalar::I64,
            Ty::U64 => Scalar::U64,
            Ty::F64 => Scalar::F64,
        }
    }

    fn inner(self) -> TypeInner {
        match self {
            Ty::U32x4 => TypeInner::Vector { size: VectorSize::Quad, scalar: Scalar::U32 },
            _ => TypeInner::Scalar(self.scalar()),
        }
    }

    /// The size in bytes of an array element of this type.
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Ty::Bool | Ty::I32 | Ty::U32 | Ty::F32 => 4,
            Ty::F16 => 2,
            Ty::I64 | Ty::U64 | Ty::F64 => 8,
            Ty::U32x4 => 16,
        }
    }
}

impl ShaderBuilder {
    pub(crate) fn new() -> ShaderBuilder {
        ShaderBuilder {
            module: Module::default(),
            function: Function::default(),
            open: vec![(Block::new(), Vec::new())],
            known: HashMap::new(),
            constants: HashMap::new(),
            variables: HashMap::new(),
            globals: HashMap::new(),
            special: HashMap::new(),
            recast: HashMap::new(),
            loaded: HashMap::new(),
            pending: None,
            depths: Vec::new(),
        }
    }

    /// The number of expressions: the size of the code.
    pub(crate) fn size(&self) -> usize {
        self.function.expressions.len()
    }

    // ---- types and memory

    fn ty(&mut self, inner: TypeInner) -> Handle<Type> {
        self.module.types.insert(Type { name: None, inner }, Span::UNDEFINED)
    }

    fn type_of(&mut self, ty: Ty) -> Handle<Type> {
        self.ty(ty.inner())
    }

    fn array(&mut self, ty: Ty, length: u32) -> Handle<Type> {
        let size = ArraySize::Constant(NonZeroU32::new(length).unwrap_or(NonZeroU32::MIN));
        let base = self.type_of(ty);
        self.ty(TypeInner::Array { base, size, stride: ty.bytes() })
    }

    /// A uniform buffer of vectors of four words, at a binding.
    pub(crate) fn table(&mut self, vectors: u32, binding: u32) -> Buffer {
        let ty = self.array(Ty::U32x4, vectors);
        let global = self.global("table", AddressSpace::Uniform, ty, Some(binding));
        Buffer { global, ty: Ty::U32x4 }
    }

    /// A storage buffer at a binding, of words, of atomic words, or of vectors of four words.
    pub(crate) fn slab(&mut self, name: &str, binding: u32, ty: Ty, atomic: bool) -> Buffer {
        let inner = if atomic { TypeInner::Atomic(Scalar::U32) } else { ty.inner() };
        let base = self.ty(inner);
        let array = self.ty(TypeInner::Array { base, size: ArraySize::Dynamic, stride: ty.bytes() });
        let access = StorageAccess::LOAD | StorageAccess::STORE;
        let global = self.global(name, AddressSpace::Storage { access }, array, Some(binding));
        Buffer { global, ty }
    }

    fn global(
        &mut self,
        name: &str,
        space: AddressSpace,
        ty: Handle<Type>,
        binding: Option<u32>,
    ) -> Handle<GlobalVariable> {
        let variable = GlobalVariable {
            name: Some(name.into()),
            space,
            binding: binding.map(|binding| ResourceBinding { group: 0, binding }),
            ty,
            init: None,
            memory_decorations: naga::MemoryDecorations::empty(),
        };
        self.module.global_variables.append(variable, Span::UNDEFINED)
    }

    /// An array in workgroup memory, or a scalar if `length` is `None`.
    pub(crate) fn shared(&mut self, name: &str, ty: Ty, length: Option<u32>) -> Variable {
        let of = self.sized(ty, length);
        Variable::Shared(self.global(name, AddressSpace::WorkGroup, of, None), ty)
    }

    /// An array in the thread's private memory, or a scalar if `length` is `None`.
    pub(crate) fn local(&mut self, name: &str, ty: Ty, length: Option<u32>) -> Variable {
        let of = self.sized(ty, length);
        let variable = LocalVariable { name: Some(name.into()), ty: of, init: None };
        Variable::Local(self.function.local_variables.append(variable, Span::UNDEFINED), ty)
    }

    fn sized(&mut self, ty: Ty, length: Option<u32>) -> Handle<Type> {
        match length {
            Some(length) => self.array(ty, length),
            None => self.type_of(ty),
        }
    }

    fn variable_handle(&mut self, variable: Variable) -> Handle<Expression> {
        match variable {
            Variable::Local(local, _) => match self.variables.get(&local) {
                Some(&pointer) => pointer,
                None => {
                    let pointer = self.push(Expression::LocalVariable(local), 0);
                    self.variables.insert(local, pointer);
                    pointer
                }
            },
            Variable::Shared(global, _) => self.global_pointer(global),
        }
    }

    fn global_pointer(&mut self, global: Handle<GlobalVariable>) -> Handle<Expression> {
        match self.globals.get(&global) {
            Some(&pointer) => pointer,
            None => {
                let pointer = self.push(Expression::GlobalVariable(global), 0);
                self.globals.insert(global, pointer);
                pointer
            }
        }
    }

    /// A pointer to a scalar variable.
    pub(crate) fn pointer_to(&mut self, variable: Variable) -> Pointer {
        let (Variable::Local(_, ty) | Variable::Shared(_, ty)) = variable;
        Pointer {
            handle: self.variable_handle(variable),
            ty,
            is_private: matches!(variable, Variable::Local(..)),
        }
    }

    /// A pointer to an element of an array variable.
    pub(crate) fn element(&mut self, variable: Variable, at: Value) -> Pointer {
        let (Variable::Local(_, ty) | Variable::Shared(_, ty)) = variable;
        let base = self.variable_handle(variable);
        let is_private = matches!(variable, Variable::Local(..));
        Pointer { handle: self.access(base, at), ty, is_private }
    }

    /// A pointer to an element of a buffer: a word, or a vector.
    pub(crate) fn word(&mut self, buffer: Buffer, at: Value) -> Pointer {
        let base = self.global_pointer(buffer.global);
        Pointer { handle: self.access(base, at), ty: buffer.ty, is_private: false }
    }

    /// A pointer to a lane of a vector in memory.
    pub(crate) fn lane_pointer(&mut self, vector: Pointer, lane: Value) -> Pointer {
        Pointer { handle: self.access(vector.handle, lane), ty: Ty::U32, is_private: vector.is_private }
    }

    /// Whether the buffer's elements are vectors.
    pub(crate) fn has_vector_elements(&self, buffer: Buffer) -> bool {
        buffer.ty == Ty::U32x4
    }

    fn access(&mut self, base: Handle<Expression>, at: Value) -> Handle<Expression> {
        let (key, index) = (ExpressionKey::Element(base, at.handle), at.handle);
        self.once(key, Expression::Access { base, index }, &[at.handle])
    }

    pub(crate) fn load(&mut self, pointer: Pointer) -> Value {
        let handle = self.push(Expression::Load { pointer: pointer.handle }, 0);
        Value { handle, ty: pointer.ty }
    }

    /// Loads a value, or reuses an earlier load if no store may have changed the memory since.
    pub(crate) fn load_once(&mut self, pointer: Pointer) -> Value {
        if let Some(&known) = self.loaded.get(&pointer.handle) {
            return known;
        }
        let value = self.load(pointer);
        self.loaded.insert(pointer.handle, value);
        value
    }

    pub(crate) fn store(&mut self, pointer: Pointer, value: Value) {
        if !pointer.is_private {
            self.loaded.clear();
        }
        self.statement(Statement::Store { pointer: pointer.handle, value: value.handle });
    }

    /// Sets a variable, scalar or array, to zeros.
    pub(crate) fn clear(&mut self, variable: Variable) {
        let pointer = self.variable_handle(variable);
        let ty = match variable {
            Variable::Local(local, _) => self.function.local_variables[local].ty,
            Variable::Shared(global, _) => self.module.global_variables[global].ty,
        };
        let value = self.push(Expression::ZeroValue(ty), 0);
        self.statement(Statement::Store { pointer, value });
    }

    /// Replaces the bits of an atomic word that `mask` selects by `bits`, whose other bits are zeros.
    pub(crate) fn merge_bits(&mut self, pointer: Pointer, mask: Value, bits: Value) {
        let cleared = self.unary(UnaryOperator::BitwiseNot, mask);
        self.loaded.clear();
        for (fun, value) in [(AtomicFunction::And, cleared), (AtomicFunction::InclusiveOr, bits)] {
            self.flush();
            let ty = self.type_of(Ty::U32);
            let result = self.append(Expression::AtomicResult { ty, comparison: false }, 0);
            let (pointer, value) = (pointer.handle, value.handle);
            self.statement(Statement::Atomic { pointer, fun, value, result: Some(result) });
        }
    }

    // ---- expressions

    fn append(&mut self, expression: Expression, depth: u8) -> Handle<Expression> {
        self.depths.push(depth);
        self.function.expressions.append(expression, Span::UNDEFINED)
    }

    /// Adds an expression. If it needs a statement, it is emitted in front of the next statement.
    fn push(&mut self, expression: Expression, depth: u8) -> Handle<Expression> {
        if expression.needs_pre_emit() {
            self.flush();
        } else if self.pending.is_none() {
            self.pending = Some(self.function.expressions.len());
        }
        self.append(expression, depth)
    }

    /// Emits the pending expressions.
    fn flush(&mut self) {
        if let Some(start) = self.pending.take() {
            let range = self.function.expressions.range_from(start);
            self.block().push(Statement::Emit(range), Span::UNDEFINED);
        }
    }

    fn block(&mut self) -> &mut Block {
        &mut self.open.last_mut().expect("the function's block closes last").0
    }

    /// Returns an equal expression that is in scope, or adds the expression.
    fn once(
        &mut self,
        key: ExpressionKey,
        expression: Expression,
        operands: &[Handle<Expression>],
    ) -> Handle<Expression> {
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let is_pointer = matches!(expression, Expression::Access { .. });
        let deepest = operands.iter().map(|h| self.depths[h.index()]).max().unwrap_or(0);
        let depth = if deepest >= MAX_DEPTH && !is_pointer { 0 } else { deepest.saturating_add(1) };
        let handle = self.push(expression, depth);
        if depth == 0 {
            self.function.named_expressions.insert(handle, "part".into());
        }
        self.known.insert(key, handle);
        if let Some((_, keys)) = self.open.last_mut() {
            keys.push(key);
        }
        handle
    }

    /// Names a value in the text. An expression that the text would otherwise repeat at each use is then
    /// computed here, once.
    pub(crate) fn name(&mut self, value: Value, name: &str) {
        if !self.function.expressions[value.handle].needs_pre_emit() {
            self.function.named_expressions.entry(value.handle).or_insert_with(|| name.into());
            self.depths[value.handle.index()] = 0;
        }
    }

    /// A constant by its bits. Numbers without a literal (infinities, NaNs) and numbers that compilers might
    /// flush to zero are read from a variable, since compilers reject them.
    pub(crate) fn bits(&mut self, ty: Ty, bits: u64) -> Value {
        match literal(ty, bits) {
            Some(literal) => self.literal(ty, bits, literal),
            None => self.read_bits(ty, bits),
        }
    }

    fn literal(&mut self, ty: Ty, bits: u64, literal: Literal) -> Value {
        let handle = match self.constants.get(&(ty, bits)) {
            Some(&handle) => handle,
            None => {
                self.type_of(ty);
                let handle = self.push(Expression::Literal(literal), 0);
                self.constants.insert((ty, bits), handle);
                handle
            }
        };
        Value { handle, ty }
    }

    fn read_bits(&mut self, ty: Ty, bits: u64) -> Value {
        let key = ExpressionKey::Bits(ty, bits);
        if let Some(&handle) = self.known.get(&key) {
            return Value { handle, ty };
        }
        let carrier = if ty == Ty::F64 { Ty::U64 } else { Ty::U32 };
        let variable = match self.special.get(&(ty, bits)) {
            Some(&variable) => variable,
            None => self.initialized(carrier, bits),
        };
        self.special.insert((ty, bits), variable);
        let pointer = self.pointer_to(Variable::Local(variable, carrier));
        let word = self.load(pointer);
        let value = match ty {
            Ty::F16 => self.half_of_bits(word),
            _ => self.bitcast(ty, word),
        };
        self.known.insert(key, value.handle);
        if let Some((_, keys)) = self.open.last_mut() {
            keys.push(key);
        }
        value
    }

    /// A variable with an initial value that never changes.
    fn initialized(&mut self, ty: Ty, bits: u64) -> Handle<LocalVariable> {
        let init = self.bits(ty, bits).handle;
        let variable = LocalVariable { name: Some("bits".into()), ty: self.type_of(ty), init: Some(init) };
        self.function.local_variables.append(variable, Span::UNDEFINED)
    }

    /// Whether `inner` is a sum with `other` as a term. A compiler that applies real arithmetic to floats
    /// would cancel the two.
    pub(crate) fn cancels(&self, inner: Value, other: Value) -> bool {
        let other = self.without_sign(other.handle);
        let is_other = |h: Handle<Expression>| self.is_same(self.without_sign(h), other);
        match self.function.expressions[self.without_sign(inner.handle)] {
            Expression::Binary {
                op: BinaryOperator::Add | BinaryOperator::Subtract, left, right, ..
            } => is_other(left) || is_other(right),
            Expression::Math { fun: MathFunction::Fma, arg2: Some(sum), .. } => is_other(sum),
            _ => false,
        }
    }

    /// Whether `fma(a, b, inner)` is the sum of two products of one number with constants. A compiler that
    /// applies real arithmetic would combine them.
    pub(crate) fn collects(&self, a: Value, b: Value, inner: Value) -> bool {
        let is_literal =
            |h: Handle<Expression>| matches!(self.function.expressions[h], Expression::Literal(_));
        let by_constant = is_literal(a.handle) || is_literal(b.handle);
        match self.function.expressions[inner.handle] {
            Expression::Math { fun: MathFunction::Fma, arg, arg1: Some(factor), .. } => {
                by_constant && (is_literal(arg) || is_literal(factor))
            }
            _ => false,
        }
    }

    fn without_sign(&self, handle: Handle<Expression>) -> Handle<Expression> {
        match self.function.expressions[handle] {
            Expression::Unary { op: UnaryOperator::Negate, expr } => self.without_sign(expr),
            _ => handle,
        }
    }

    /// Whether two expressions are identical, or both literals, which may differ in sign.
    fn is_same(&self, a: Handle<Expression>, b: Handle<Expression>) -> bool {
        let is_literal = |h| matches!(self.function.expressions[h], Expression::Literal(_));
        a == b || is_literal(a) && is_literal(b)
    }

    pub(crate) fn is_literal(&self, value: Value) -> bool {
        matches!(self.function.expressions[value.handle], Expression::Literal(_))
    }

    /// Whether two values are computed by the same operations from the same memory. A compiler may find that
    /// they are equal, if no store lies between them.
    pub(crate) fn looks_like(&self, a: Value, b: Value) -> bool {
        self.are_alike(a.handle, b.handle, 6)
    }

    fn are_alike(&self, a: Handle<Expression>, b: Handle<Expression>, depth: u8) -> bool {
        use Expression::{AccessIndex, As, Binary, Load, Math};
        let Some(depth) = depth.checked_sub(1) else { return a == b };
        let alike = |a, b| self.are_alike(a, b, depth);
        let expressions = &self.function.expressions;
        let parts_are = match (&expressions[a], &expressions[b]) {
            (Load { pointer: a }, Load { pointer: b }) => a == b,
            (&As { expr: a, kind: k, convert: c }, &As { expr: b, kind, convert }) => {
                (k, c) == (kind, convert) && alike(a, b)
            }
            (&Binary { op: o, left: a, right: c }, &Binary { op, left: b, right: d }) => {
                o == op && alike(a, b) && alike(c, d)
            }
            (&AccessIndex { base: a, index: i }, &AccessIndex { base: b, index }) => {
                i == index && alike(a, b)
            }
            (&Math { fun: f, arg: a, arg1: None, .. }, &Math { fun, arg: b, arg1: None, .. }) => {
                f == fun && alike(a, b)
            }
            _ => false,
        };
        a == b || parts_are
    }

    /// Whether a value is a literal float zero, of either sign.
    pub(crate) fn is_zero(&self, value: Value) -> bool {
        match self.function.expressions[value.handle] {
            Expression::Literal(Literal::F16(x)) => x == f16::ZERO,
            Expression::Literal(Literal::F32(x)) => x == 0.0,
            Expression::Literal(Literal::F64(x)) => x == 0.0,
            _ => false,
        }
    }

    pub(crate) fn u32(&mut self, x: u32) -> Value {
        self.bits(Ty::U32, x.into())
    }

    pub(crate) fn i32(&mut self, x: i32) -> Value {
        self.bits(Ty::I32, u64::from(x as u32))
    }

    pub(crate) fn unary(&mut self, op: UnaryOperator, x: Value) -> Value {
        let expression = Expression::Unary { op, expr: x.handle };
        Value { handle: self.once(ExpressionKey::Unary(op, x.handle), expression, &[x.handle]), ty: x.ty }
    }

    /// The result has type [`Ty::Bool`] for comparisons, otherwise the type of `a`.
    pub(crate) fn binary(&mut self, op: BinaryOperator, a: Value, b: Value) -> Value {
        use BinaryOperator::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        let (left, right) = (a.handle, b.handle);
        let handle = self.once(
            ExpressionKey::Binary(op, left, right),
            Expression::Binary { op, left, right },
            &[left, right],
        );
        let compares = matches!(op, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual);
        Value { handle, ty: if compares { Ty::Bool } else { a.ty } }
    }

    /// `then` if the condition holds, else `otherwise`; both are evaluated.
    pub(crate) fn select(&mut self, condition: Value, then: Value, otherwise: Value) -> Value {
        let (condition, accept, reject) = (condition.handle, then.handle, otherwise.handle);
        let expression = Expression::Select { condition, accept, reject };
        let key = ExpressionKey::Select([condition, accept, reject]);
        Value { handle: self.once(key, expression, &[condition, accept, reject]), ty: then.ty }
    }

    pub(crate) fn math1(&mut self, fun: MathFunction, x: Value) -> Value {
        self.math(fun, x, None, None)
    }

    pub(crate) fn math(&mut self, fun: MathFunction, a: Value, b: Option<Value>, c: Option<Value>) -> Value {
        let [arg1, arg2] = [b, c].map(|x| x.map(|x| x.handle));
        let arg = a.handle;
        let operands = [arg, arg1.unwrap_or(arg), arg2.unwrap_or(arg)];
        let expression = Expression::Math { fun, arg, arg1, arg2, arg3: None };
        Value { handle: self.once(ExpressionKey::Math(fun, operands), expression, &operands), ty: a.ty }
    }

    /// Converts a value by the rules of the language; [`crate::emit`] has total conversions.
    pub(crate) fn convert(&mut self, to: Ty, x: Value) -> Value {
        if x.ty == to {
            return x;
        }
        let scalar = to.scalar();
        self.cast(to, x, scalar.kind, Some(scalar.width))
    }

    /// Reinterprets the bits as another type of the same size.
    pub(crate) fn bitcast(&mut self, to: Ty, x: Value) -> Value {
        if x.ty == to {
            return x;
        }
        // A cast back to the original type returns the original value, so that moving a number does not
        // inspect it.
        if let Some(&source) = self.recast.get(&x.handle).filter(|source| source.ty == to) {
            return source;
        }
        let value = self.cast(to, x, to.scalar().kind, None);
        self.recast.insert(value.handle, x);
        value
    }

    fn cast(&mut self, to: Ty, x: Value, kind: ScalarKind, convert: Option<u8>) -> Value {
        // Adds the type to the module: for halves the text then enables an extension.
        self.type_of(to);
        let expression = Expression::As { expr: x.handle, kind, convert };
        Value {
            handle: self.once(ExpressionKey::As(x.handle, kind, convert), expression, &[x.handle]),
            ty: to,
        }
    }

    /// The `f16` whose bits are the low half of a word.
    pub(crate) fn half_of_bits(&mut self, word: Value) -> Value {
        let pair = self.math1(MathFunction::Unpack2x16float, word);
        let single = self.lane(pair, 0, Ty::F32);
        self.convert(Ty::F16, single)
    }

    /// The bits of an `f16`, in the low half of a word.
    pub(crate) fn bits_of_half(&mut self, half: Value) -> Value {
        let single = self.convert(Ty::F32, half);
        let zero = self.bits(Ty::F32, 0);
        let ty = self.ty(TypeInner::Vector { size: VectorSize::Bi, scalar: Scalar::F32 });
        let (x, y) = (single.handle, zero.handle);
        let expression = Expression::Compose { ty, components: vec![x, y] };
        let pair =
            Value { handle: self.once(ExpressionKey::Lanes([x, y, x, y]), expression, &[x]), ty: Ty::F32 };
        let packed = Value { ty: Ty::U32, ..self.math1(MathFunction::Pack2x16float, pair) };
        let low = self.u32(0xffff);
        self.binary(BinaryOperator::And, packed, low)
    }

    /// Lane `lane` of a vector, whose element type is `ty`.
    pub(crate) fn lane(&mut self, x: Value, lane: u32, ty: Ty) -> Value {
        let expression = Expression::AccessIndex { base: x.handle, index: lane };
        Value { handle: self.once(ExpressionKey::Lane(x.handle, lane), expression, &[x.handle]), ty }
    }

    /// A vector of four words.
    pub(crate) fn lanes(&mut self, words: [Value; 4]) -> Value {
        let components = words.map(|w| w.handle);
        let ty = self.type_of(Ty::U32x4);
        let expression = Expression::Compose { ty, components: components.to_vec() };
        Value { handle: self.once(ExpressionKey::Lanes(components), expression, &components), ty: Ty::U32x4 }
    }

    // ---- statements

    fn statement(&mut self, statement: Statement) {
        self.flush();
        self.block().push(statement, Span::UNDEFINED);
    }

    /// Opens a block.
    pub(crate) fn open(&mut self) {
        self.flush();
        self.loaded.clear();
        self.open.push((Block::new(), Vec::new()));
    }

    /// Closes the innermost block. Its expressions go out of scope.
    pub(crate) fn close(&mut self) -> ClosedBlock {
        self.flush();
        self.loaded.clear();
        let (block, keys) = self.open.pop().expect("each block is closed once");
        for key in keys {
            self.known.remove(&key);
        }
        ClosedBlock(block)
    }

    pub(crate) fn if_else(&mut self, condition: Value, accept: ClosedBlock, reject: ClosedBlock) {
        self.statement(Statement::If { condition: condition.handle, accept: accept.0, reject: reject.0 });
    }

    /// A loop: `body` breaks out of it, and `continuing` runs between iterations.
    pub(crate) fn loop_(&mut self, body: ClosedBlock, continuing: ClosedBlock) {
        self.statement(Statement::Loop { body: body.0, continuing: continuing.0, break_if: None });
    }

    /// Breaks out of the loop unless the condition holds.
    pub(crate) fn break_unless(&mut self, condition: Value) {
        self.flush();
        let stop = ClosedBlock(Block::from_vec(vec![Statement::Break]));
        self.if_else(condition, ClosedBlock::default(), stop);
    }

    /// Ends the thread if the condition holds.
    pub(crate) fn return_if(&mut self, condition: Value) {
        let stop = ClosedBlock(Block::from_vec(vec![Statement::Return { value: None }]));
        self.if_else(condition, stop, ClosedBlock::default());
    }

    /// A barrier for all threads of the workgroup, which makes earlier writes to storage or workgroup memory
    /// visible to them.
    pub(crate) fn barrier(&mut self, storage: bool, workgroup: bool) {
        self.loaded.clear();
        for (wanted, space) in [(storage, Barrier::STORAGE), (workgroup, Barrier::WORK_GROUP)] {
            if wanted {
                self.statement(Statement::ControlBarrier(space));
            }
        }
    }

    // ---- functions

    /// The workgroup's number, the number of workgroups, and the thread's number in its workgroup: the entry
    /// point's arguments.
    pub(crate) fn builtins(&mut self) -> ([Value; 3], [Value; 3], Value) {
        let three = self.ty(TypeInner::Vector { size: VectorSize::Tri, scalar: Scalar::U32 });
        let one = self.type_of(Ty::U32);
        let mut argument = |name: &str, ty, builtin| {
            let binding = Some(Binding::BuiltIn(builtin));
            self.function.arguments.push(FunctionArgument { name: Some(name.into()), ty, binding });
            let position = self.function.arguments.len() as u32 - 1;
            Value { handle: self.push(Expression::FunctionArgument(position), 0), ty: Ty::U32 }
        };
        let group = argument("workgroup", three, BuiltIn::WorkGroupId);
        let groups = argument("workgroups", three, BuiltIn::NumWorkGroups);
        let thread = argument("thread", one, BuiltIn::LocalInvocationIndex);
        let xyz = |b: &mut ShaderBuilder, v| -> Builtins { [0, 1, 2].map(|lane| b.lane(v, lane, Ty::U32)) };
        (xyz(self, group), xyz(self, groups), thread)
    }

    /// Completes the entry point and returns the module.
    pub(crate) fn finish(mut self, name: &str, workgroup_size: u32) -> Module {
        let function = self.take_function(None);
        self.module.entry_points.push(EntryPoint {
            name: name.into(),
            stage: ShaderStage::Compute,
            early_depth_test: None,
            workgroup_size: [workgroup_size, 1, 1],
            workgroup_size_overrides: None,
            function,
            mesh_info: None,
            task_payload: None,
            incoming_ray_payload: None,
        });
        self.module
    }

    fn take_function(&mut self, result: Option<FunctionResult>) -> Function {
        self.flush();
        let (body, _) = self.open.pop().expect("the function's block closes last");
        Function { body, result, ..std::mem::take(&mut self.function) }
    }
}

/// The literal with these bits; `None` for infinities, NaNs and subnormal numbers.
fn literal(ty: Ty, bits: u64) -> Option<Literal> {
    Some(match ty {
        Ty::Bool => Literal::Bool(bits != 0),
        Ty::I32 => Literal::I32(bits as u32 as i32),
        Ty::U32 => Literal::U32(bits as u32),
        Ty::I64 => Literal::I64(bits as i64),
        Ty::U64 => Literal::U64(bits),
        Ty::F32 => {
            let x = f32::from_bits(bits as u32);
            return (x == 0.0 || x.is_normal()).then_some(Literal::F32(x));
        }
        Ty::F64 => {
            let x = f64::from_bits(bits);
            return (x == 0.0 || x.is_normal()).then_some(Literal::F64(x));
        }
        Ty::F16 => {
            let x = f16::from_bits(bits as u16);
            return (x == f16::ZERO || x.is_normal()).then_some(Literal::F16(x));
        }
        Ty::U32x4 => return None,
    })
}
