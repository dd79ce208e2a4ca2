//! Evaluates programs by nested loops over whole index spaces.

use random_programs::{
    Accumulation, BinaryFunction, ExprTypes, ProgramAccess, ProgramAffine, ProgramAssign, ProgramAxis,
    ProgramExpr, ProgramNumber, ProgramStatement, ProgramVar, RandomProgram, UnaryFunction, format,
};
use tnode::DType;

use super::accumulate::{combine, neutral};
use super::value::{self, Class, Value};

/// An index with more candidates than this makes the value of its element unknown.
const MAX_CANDIDATES: i128 = 64;

/// Runs the statements of a program on the possible values of its nodes.
pub(crate) struct Evaluator<'p> {
    program: &'p RandomProgram,
    class: Class,
    /// The possible values of each node's elements, without margins.
    pub(crate) memory: Vec<Vec<Value>>,
    /// Whether class fast may turn sums of products into gathers somewhere.
    has_one_hot: bool,
}

/// A statement and the values of its symbols and letters.
struct Scope<'s> {
    assign: &'s ProgramAssign,
    symbols: &'s [i64],
    /// The value of each letter.
    letters: Vec<i64>,
    /// The concatenated letters of the part that is being evaluated; the other letters of their axes have no
    /// value.
    running: &'s [usize],
    written: DType,
    types: ExprTypes<'s>,
}

impl<'p> Evaluator<'p> {
    /// Starts from the initial values that the host gives the nodes.
    pub(crate) fn new(program: &'p RandomProgram, class: Class) -> Evaluator<'p> {
        let memory = program.nodes.iter().map(|node| match &node.data {
            Some(data) => data.iter().map(|&bits| Value::decode(node.dtype, bits)).collect(),
            None => vec![Value::anything(node.dtype); node.dims.iter().product()],
        });
        let mut has_one_hot = false;
        let mut visit = |e: &ProgramExpr| {
            has_one_hot |= matches!(
                e,
                ProgramExpr::Binary(BinaryFunction::Eq | BinaryFunction::Ne, _) | ProgramExpr::Where(_)
            );
        };
        for statement in program.routines.iter().flatten() {
            if let ProgramStatement::Assign(assign) = statement {
                assign.values.iter().for_each(|value| value.walk(&mut visit));
            }
        }
        Evaluator { program, class, memory: memory.collect(), has_one_hot }
    }

    /// Runs one routine with these values of all symbols.
    pub(crate) fn run(&mut self, routine: usize, symbols: &[i64]) {
        for statement in &self.program.routines[routine] {
            match statement {
                ProgramStatement::Assign(assign) => self.assign(assign, symbols),
                ProgramStatement::Offsets { node } => {
                    let dtype = self.program.nodes[*node].dtype;
                    for (at, element) in (0..).zip(&mut self.memory[*node]) {
                        *element = Value::integer(at).convert(DType::I64, dtype);
                    }
                }
                ProgramStatement::Values { node, values } => {
                    let dtype = self.program.nodes[*node].dtype;
                    for (element, number) in self.memory[*node].iter_mut().zip(values) {
                        *element = literal(*number, dtype);
                    }
                }
                ProgramStatement::Slice { node, source, symbol } => {
                    let count = self.memory[*node].len();
                    let (from, to) = (self.program.nodes[*source].dtype, self.program.nodes[*node].dtype);
                    let start = symbols[*symbol] as usize * count;
                    let part = &self.memory[*source][start..start + count];
                    self.memory[*node] = part.iter().map(|value| value.convert(from, to)).collect();
                }
            }
        }
    }

    fn assign(&mut self, assign: &ProgramAssign, symbols: &[i64]) {
        let mut reached: Vec<Vec<Vec<Value>>> =
            assign.targets.iter().map(|target| vec![Vec::new(); self.memory[target.node].len()]).collect();
        let mut unknown = vec![false; assign.targets.len()];
        for running in parts(assign) {
            let (target, value) = single_part(assign, &running);
            let written = self.program.nodes[assign.targets[target].node].dtype;
            let mut scope = Scope {
                assign,
                symbols,
                letters: vec![0; assign.letters.len()],
                running: &running,
                written,
                types: ExprTypes { program: self.program, written },
            };
            let (outer, inner) = assign.loops();
            let runs = |letter: &usize| !is_concatenated(assign, *letter) || running.contains(letter);
            let loops: Vec<usize> = outer.into_iter().chain(inner).filter(runs).collect();
            self.nest(&mut scope, &loops, &mut |this, scope| {
                if !is_within_bound(scope) {
                    return;
                }
                let value = this.stored(scope, &assign.values[value]);
                match this.place(scope, &assign.targets[target]) {
                    StoreTarget::Element(at) => reached[target][at].push(value),
                    StoreTarget::Outside => {}
                    StoreTarget::Unknown => unknown[target] = true,
                }
            });
        }
        for (target, (reached, unknown)) in assign.targets.iter().zip(reached.iter().zip(unknown)) {
            self.store(assign, target.node, reached, unknown);
        }
    }

    /// Runs the body for every combination of the letters' values, the last letter innermost.
    fn nest(&self, scope: &mut Scope<'_>, loops: &[usize], body: &mut dyn FnMut(&Evaluator<'p>, &Scope<'_>)) {
        let Some((&letter, rest)) = loops.split_first() else { return body(self, scope) };
        for value in 0..scope.assign.letters[letter].extent {
            scope.letters[letter] = value as i64;
            self.nest(scope, rest, body);
        }
    }

    /// Combines each element with the values that reached it.
    fn store(&mut self, assign: &ProgramAssign, node: usize, reached: &[Vec<Value>], unknown: bool) {
        let dtype = self.program.nodes[node].dtype;
        for (element, values) in self.memory[node].iter_mut().zip(reached) {
            let gathered = self.has_one_hot;
            let all = |old| combine(self.class, assign.op, dtype, old, values, gathered);
            *element = match (assign.op, assign.starts, values.as_slice()) {
                _ if unknown => Value::anything(dtype),
                (Accumulation::Store, _, _) => values.last().copied().unwrap_or(*element),
                // A single value for each element is stored without accumulating; otherwise it is combined
                // with the neutral element, which may change only NaNs and the signs of zeros.
                (Accumulation::Sub, true, [value]) => {
                    let negated = value::unary(self.class, UnaryFunction::Neg, dtype, *value);
                    all(neutral(assign.op, dtype)).hull(negated)
                }
                (Accumulation::Div, true, [value]) => {
                    let inverse = value::unary(self.class, UnaryFunction::Recip, dtype, *value);
                    if dtype.is_float() {
                        all(neutral(assign.op, dtype)).hull(inverse)
                    } else {
                        all(neutral(assign.op, dtype))
                    }
                }
                (op, true, [value]) => all(neutral(op, dtype)).hull(*value),
                (op, true, _) => all(neutral(op, dtype)),
                (_, false, _) => all(*element),
            };
        }
    }

    /// The value of an expression in the type of the node written.
    fn stored(&self, scope: &Scope<'_>, expr: &ProgramExpr) -> Value {
        if let ProgramExpr::Read(access) = expr
            && access.is_computed()
            && access.pad.is_none()
        {
            // An access that is the whole value gives the neutral element outside its node.
            let outside = neutral(scope.assign.op, scope.written);
            return self.read(scope, access, outside, scope.written);
        }
        let (value, dtype) = self.value(scope, expr, scope.written);
        value.convert(dtype, scope.written)
    }

    /// The value and the type of an expression whose context wants the type `wanted`.
    fn value(&self, scope: &Scope<'_>, expr: &ProgramExpr, wanted: DType) -> (Value, DType) {
        let class = self.class;
        match expr {
            ProgramExpr::Number(number) => {
                let dtype = scope.types.of(expr).within(wanted);
                (literal(*number, dtype), dtype)
            }
            ProgramExpr::Var(var) => (Value::integer(scope.var(*var).into()), DType::I32),
            ProgramExpr::Size(letter) => {
                (Value::integer(scope.assign.letters[*letter].extent as i128), DType::I32)
            }
            ProgramExpr::Read(access) => {
                let dtype = self.program.nodes[access.node].dtype;
                (self.read(scope, access, Value::integer(0).convert(DType::I32, dtype), dtype), dtype)
            }
            ProgramExpr::Cast(dtype, a) => {
                let (value, from) = self.value(scope, a, *dtype);
                (value.convert(from, *dtype), *dtype)
            }
            ProgramExpr::Unary(op, a) => {
                let dtype = scope.types.operands(expr, wanted);
                (value::unary(class, *op, dtype, self.operand(scope, a, dtype)), dtype)
            }
            ProgramExpr::Binary(op, args) => {
                let dtype = scope.types.operands(expr, wanted);
                let [a, b] = [0, 1].map(|at| self.operand(scope, &args[at], dtype));
                let result = if op.is_comparison() { DType::Bool } else { dtype };
                (value::binary(class, *op, dtype, a, b), result)
            }
            ProgramExpr::Where(args) => {
                let dtype = scope.types.operands(expr, wanted);
                let (condition, _) = self.value(scope, &args[0], DType::Bool);
                let [then, otherwise] = [1, 2].map(|at| self.operand(scope, &args[at], dtype));
                let value = match condition.truth() {
                    (false, _) => then,
                    (true, false) => otherwise,
                    (true, true) => then.hull(otherwise),
                };
                (value, dtype)
            }
            ProgramExpr::Fma(args) => {
                let dtype = scope.types.operands(expr, wanted);
                let [a, b, c] = [0, 1, 2].map(|at| self.operand(scope, &args[at], dtype));
                (value::fma(class, dtype, a, b, c), dtype)
            }
        }
    }

    fn operand(&self, scope: &Scope<'_>, expr: &ProgramExpr, dtype: DType) -> Value {
        let (value, from) = self.value(scope, expr, dtype);
        value.convert(from, dtype)
    }

    /// Reads an element and converts it to the type `to`. At a computed index outside the node the result is
    /// `outside`, a value of that type.
    fn read(&self, scope: &Scope<'_>, access: &ProgramAccess, outside: Value, to: DType) -> Value {
        let node = &self.program.nodes[access.node];
        let padded = |number: ProgramNumber| literal(number, node.dtype).convert(node.dtype, to);
        let outside = access.pad.map_or(outside, padded);
        let mut element = 0;
        let mut computed = None;
        for (axis, &size) in access.axes.iter().zip(&node.dims) {
            element *= size;
            computed = computed.map(|(stride, range)| (stride * size, range));
            match axis {
                ProgramAxis::Computed(expr) => computed = Some((1, (self.index(scope, expr), size))),
                axis => match scope.affine(axis) {
                    at if at >= 0 && (at as usize) < size => element += at as usize,
                    _ if access.pad.is_some() => return outside,
                    _ => return self.margin(scope, access.node).convert(node.dtype, to),
                },
            }
        }
        let at = |element: usize| self.memory[access.node][element].convert(node.dtype, to);
        let Some((stride, ((low, high), size))) = computed else { return at(element) };
        if high - low >= MAX_CANDIDATES {
            return Value::anything(to);
        }
        let candidate = |index: i128| match usize::try_from(index) {
            Ok(index) if index < size => at(element + index * stride),
            _ => outside,
        };
        (low..=high).map(candidate).reduce(Value::hull).unwrap_or(outside)
    }

    /// The value that a statement finds in the margins of a node.
    fn margin(&self, scope: &Scope<'_>, node: usize) -> Value {
        let node = &self.program.nodes[node];
        match (scope.assign.op, node.neutral) {
            (Accumulation::Store, Some(neutral)) => {
                if node.dtype.is_float() {
                    Value::float(format::round(node.dtype, neutral))
                } else {
                    Value::integer(format::saturate(node.dtype, neutral))
                }
            }
            (op, _) => neutral(op, node.dtype),
        }
    }

    /// The range of a computed index.
    fn index(&self, scope: &Scope<'_>, expr: &ProgramExpr) -> (i128, i128) {
        self.value(scope, expr, DType::I32).0.integers()
    }

    /// The element that a target's index reaches.
    fn place(&self, scope: &Scope<'_>, target: &ProgramAccess) -> StoreTarget {
        let mut element = 0;
        for (axis, &size) in target.axes.iter().zip(&self.program.nodes[target.node].dims) {
            let at = match axis {
                ProgramAxis::Computed(expr) => match self.index(scope, expr) {
                    (low, high) if low != high => return StoreTarget::Unknown,
                    (at, _) if at < 0 || at >= size as i128 => return StoreTarget::Outside,
                    (at, _) => at as usize,
                },
                axis => match scope.affine(axis) {
                    at if at >= 0 && (at as usize) < size => at as usize,
                    _ => return StoreTarget::Outside,
                },
            };
            element = element * size + at;
        }
        StoreTarget::Element(element)
    }
}

/// The element of a node that a statement stores to.
enum StoreTarget {
    Element(usize),
    Outside,
    Unknown,
}

impl Scope<'_> {
    fn var(&self, var: ProgramVar) -> i64 {
        match var {
            ProgramVar::Letter(letter) => self.letters[letter],
            ProgramVar::Symbol(symbol) => self.symbols[symbol],
        }
    }

    fn affine(&self, axis: &ProgramAxis) -> i64 {
        match axis {
            ProgramAxis::Affine(ProgramAffine { terms, offset }) => {
                terms.iter().map(|&(factor, var)| factor * self.var(var)).sum::<i64>() + offset
            }
            ProgramAxis::Concat(letters) => {
                let before = letters.iter().take_while(|letter| !self.running.contains(letter));
                let start: usize = before.map(|&letter| self.assign.letters[letter].extent).sum();
                let running = letters.iter().find(|letter| self.running.contains(letter));
                start as i64 + running.map_or(0, |&letter| self.letters[letter])
            }
            ProgramAxis::Computed(_) => unreachable!("not affine"),
        }
    }
}

fn literal(number: ProgramNumber, dtype: DType) -> Value {
    let float = |value: f64| Value::Float(value::rounded(dtype, value::Interval::exactly(value)));
    match number {
        ProgramNumber::Integer(value) if dtype.is_float() => float(value as f64),
        ProgramNumber::Integer(value) if dtype == DType::Bool => Value::integer((value != 0).into()),
        ProgramNumber::Integer(value) => Value::integer(value.into()),
        ProgramNumber::Fraction(value) => float(value),
        ProgramNumber::Infinity => float(f64::INFINITY),
        ProgramNumber::Nan => float(f64::NAN),
    }
}

/// Whether the statement assigns at the current point.
fn is_within_bound(scope: &Scope<'_>) -> bool {
    let value = |var| match var {
        ProgramVar::Letter(letter) => scope.letters[letter],
        ProgramVar::Symbol(symbol) => scope.symbols[symbol],
    };
    scope.assign.bound.is_none_or(|bound| {
        let (less, greater) = (value(bound.less), value(bound.greater));
        if bound.is_strict { less < greater } else { less <= greater }
    })
}

fn is_concatenated(assign: &ProgramAssign, letter: usize) -> bool {
    groups(assign).iter().any(|group| group.contains(&letter))
}

/// The letters of each concatenated axis.
fn groups(assign: &ProgramAssign) -> Vec<Vec<usize>> {
    let mut groups = Vec::new();
    let mut add = |access: &ProgramAccess| {
        let concatenated = access.axes.iter().filter_map(|axis| match axis {
            ProgramAxis::Concat(letters) => Some(letters.clone()),
            _ => None,
        });
        groups.extend(concatenated);
    };
    assign.targets.iter().for_each(&mut add);
    for value in &assign.values {
        value.walk(&mut |e| {
            if let ProgramExpr::Read(access) = e {
                add(access);
            }
        });
    }
    groups
}

/// The sets of concatenated letters that are evaluated together.
fn parts(assign: &ProgramAssign) -> Vec<Vec<usize>> {
    let groups = groups(assign);
    let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
    for group in &groups {
        let extended = sets.iter().flat_map(|set| {
            group.iter().map(|&letter| {
                let mut set = set.clone();
                if !set.contains(&letter) {
                    set.push(letter);
                }
                set
            })
        });
        sets = extended.collect();
    }
    sets.retain(|set| groups.iter().all(|group| group.iter().filter(|l| set.contains(l)).count() == 1));
    sets.iter_mut().for_each(|set| set.sort_unstable());
    sets.sort();
    sets.dedup();
    sets
}

/// The positions of the only target and the only value that use no letter outside `running`.
fn single_part(assign: &ProgramAssign, running: &[usize]) -> (usize, usize) {
    let stops = |e: &ProgramExpr| match e {
        ProgramExpr::Var(ProgramVar::Letter(letter)) => {
            is_concatenated(assign, *letter) && !running.contains(letter)
        }
        _ => false,
    };
    let target = assign.targets.iter().position(|target| {
        let mut runs = true;
        target.walk(&mut |e| runs &= !stops(e) || in_running_axis(target, e, running));
        runs
    });
    let value = assign.values.iter().position(|value| {
        let mut stopped = 0;
        let mut excused = 0;
        value.walk(&mut |e| {
            stopped += usize::from(stops(e));
            if let ProgramExpr::Read(access) = e {
                excused += excused_letters(access, running);
            }
        });
        stopped == excused
    });
    (target.unwrap_or(0), value.unwrap_or(0))
}

/// Whether `running` contains another letter of the same concatenated axis.
fn in_running_axis(access: &ProgramAccess, e: &ProgramExpr, running: &[usize]) -> bool {
    let ProgramExpr::Var(ProgramVar::Letter(letter)) = e else { return false };
    access.axes.iter().any(|axis| match axis {
        ProgramAxis::Concat(letters) => {
            letters.contains(letter) && letters.iter().any(|l| running.contains(l))
        }
        _ => false,
    })
}

/// Counts the letters of concatenated axes that are not in `running` while another letter of their axis is.
fn excused_letters(access: &ProgramAccess, running: &[usize]) -> usize {
    let of_axis = |axis: &ProgramAxis| match axis {
        ProgramAxis::Concat(letters) if letters.iter().any(|l| running.contains(l)) => {
            letters.iter().filter(|l| !running.contains(l)).count()
        }
        _ => 0,
    };
    access.axes.iter().map(of_axis).sum()
}
