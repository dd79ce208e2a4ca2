//! What makes a [`Program`] one: definitions before uses, lanes and elements that fit.

use crate::program::{
    Binary, Counter, Element, Index, Memory, Op, Place, Program, Range, Stmt, Type, Unary, Value, Variable,
};

/// What is wrong with a program.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// A value that is not defined there, or not at all.
    #[error("{0} is used where it is not defined")]
    Undefined(Value),
    /// A value with two definitions.
    #[error("{0} is defined twice")]
    Redefined(Value),
    /// A variable that the program does not have.
    #[error("there is no variable {0}")]
    NoVariable(Variable),
    /// A counter that the program does not have, of two loops, or mentioned outside of its loop.
    #[error("counter {0} does not belong here")]
    Counter(Counter),
    /// A value or variable without lanes.
    #[error("{0} has no lanes")]
    NoLanes(String),
    /// Lanes that do not fit.
    #[error("{what} has {found} lanes, {expected}")]
    Lanes {
        /// The value or variable.
        what: String,
        /// How many it has.
        found: u32,
        /// How many there should be, in words.
        expected: String,
    },
    /// An element that does not fit.
    #[error("{what} is of {found:?}, {expected}")]
    Element {
        /// The value.
        what: Value,
        /// What it is made of.
        found: Element,
        /// What it should be made of, in words.
        expected: String,
    },
    /// An operation that its element does not have.
    #[error("{value}: {operation} is no operation of {element:?}")]
    Operation {
        /// The result.
        value: Value,
        /// The operation's name.
        operation: String,
        /// The element.
        element: Element,
    },
    /// Elements in memory that do not become such lanes.
    #[error("{value}: {memory:?} in memory is not {element:?}")]
    Memory {
        /// What is loaded or stored.
        value: Value,
        /// What is in memory.
        memory: Memory,
        /// What the lanes are.
        element: Element,
    },
    /// A store with step 0, of which only the last lane would count.
    #[error("a store of {0} whose lanes are all at one address")]
    StoreStep(Value),
    /// An index that is mentioned twice in one place.
    #[error("{0:?} is mentioned twice in one place")]
    Twice(Index),
    /// A loop over the part of the call inside another loop, or a second one.
    #[error("the loop {0} over the part of the call is inside another one or not the only one")]
    Part(Counter),
}

impl Program {
    /// Checks that values are defined once and before their uses, that counters belong to loops around what mentions them, and that lanes and
    /// elements fit.
    ///
    /// # Errors
    ///
    /// What is found first.
    pub fn check(&self) -> Result<(), ProgramError> {
        for (i, ty) in self.values.iter().enumerate() {
            has_lanes(*ty, || Value(i as u32).to_string())?;
        }
        for (i, ty) in self.variables.iter().enumerate() {
            has_lanes(*ty, || Variable(i as u32).to_string())?;
        }
        let mut check = Check {
            program: self,
            defined: vec![Definition::None; self.values.len()],
            counters: vec![Definition::None; self.counters as usize],
            depth: 0,
            part: false,
        };
        check.block(&self.body)
    }
}

fn has_lanes(ty: Type, what: impl FnOnce() -> String) -> Result<(), ProgramError> {
    if ty.lanes == 0 { Err(ProgramError::NoLanes(what())) } else { Ok(()) }
}

/// What is known of a value or counter at some point of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Definition {
    None,
    Visible,
    /// It was visible in a block that has ended.
    Past,
}

struct Check<'a> {
    program: &'a Program,
    defined: Vec<Definition>,
    counters: Vec<Definition>,
    depth: u32,
    part: bool,
}

impl Check<'_> {
    fn block(&mut self, body: &[Stmt]) -> Result<(), ProgramError> {
        body.iter().try_for_each(|stmt| self.statement(stmt))?;
        for stmt in body {
            if let Stmt::Let { value, .. } = stmt {
                self.defined[value.0 as usize] = Definition::Past;
            }
        }
        Ok(())
    }

    fn statement(&mut self, stmt: &Stmt) -> Result<(), ProgramError> {
        match stmt {
            Stmt::Loop { counter, range, body } => self.enter(*counter, *range, body),
            Stmt::Let { value, op } => {
                let ty = self.declared(*value)?;
                self.op(*value, ty, op)?;
                match std::mem::replace(&mut self.defined[value.0 as usize], Definition::Visible) {
                    Definition::None => Ok(()),
                    _ => Err(ProgramError::Redefined(*value)),
                }
            }
            Stmt::Set { variable, start, value } => {
                let (ty, of) = (self.used(*value)?, self.variable(*variable)?);
                self.fits(of, *start, ty.lanes, || variable.to_string())?;
                same_element(*value, ty.element, of.element)
            }
            Stmt::Store { place, value, streaming: _ } => {
                let ty = self.used(*value)?;
                self.place(place, *value, ty)?;
                if place.step == 0 && ty.lanes > 1 { Err(ProgramError::StoreStep(*value)) } else { Ok(()) }
            }
            Stmt::Prefetch(place) => self.terms(&place.terms),
        }
    }

    fn enter(&mut self, counter: Counter, range: Range, body: &[Stmt]) -> Result<(), ProgramError> {
        match self.counters.get_mut(counter.0 as usize) {
            Some(state) if *state == Definition::None => *state = Definition::Visible,
            _ => return Err(ProgramError::Counter(counter)),
        }
        if range == Range::Part && (self.depth > 0 || std::mem::replace(&mut self.part, true)) {
            return Err(ProgramError::Part(counter));
        }
        self.depth += 1;
        self.block(body)?;
        self.depth -= 1;
        self.counters[counter.0 as usize] = Definition::Past;
        Ok(())
    }

    fn declared(&self, value: Value) -> Result<Type, ProgramError> {
        self.program.values.get(value.0 as usize).copied().ok_or(ProgramError::Undefined(value))
    }

    fn used(&self, value: Value) -> Result<Type, ProgramError> {
        match self.defined.get(value.0 as usize) {
            Some(Definition::Visible) => self.declared(value),
            _ => Err(ProgramError::Undefined(value)),
        }
    }

    fn variable(&self, variable: Variable) -> Result<Type, ProgramError> {
        self.program.variables.get(variable.0 as usize).copied().ok_or(ProgramError::NoVariable(variable))
    }

    /// That lanes `start..start + lanes` are within something.
    fn fits(
        &self,
        of: Type,
        start: u32,
        lanes: u32,
        what: impl FnOnce() -> String,
    ) -> Result<(), ProgramError> {
        if start.checked_add(lanes).is_some_and(|end| end <= of.lanes) {
            return Ok(());
        }
        let expected = format!("not the {lanes} from {start} on");
        Err(ProgramError::Lanes { what: what(), found: of.lanes, expected })
    }

    fn terms(&self, terms: &[(Index, i64)]) -> Result<(), ProgramError> {
        for (i, (index, _)) in terms.iter().enumerate() {
            if terms[..i].iter().any(|(other, _)| other == index) {
                return Err(ProgramError::Twice(*index));
            }
            if let Index::Counter(counter) = index {
                match self.counters.get(counter.0 as usize) {
                    Some(Definition::Visible) => {}
                    _ => return Err(ProgramError::Counter(*counter)),
                }
            }
        }
        Ok(())
    }

    fn place(&self, place: &Place, value: Value, ty: Type) -> Result<(), ProgramError> {
        self.terms(&place.terms)?;
        let fits = match place.memory {
            Memory::Same => true,
            Memory::U8 | Memory::U16 => matches!(ty.element, Element::I32 | Element::U32),
            Memory::I8 | Memory::I16 => ty.element == Element::I32,
            Memory::F16 | Memory::BF16 => ty.element == Element::F32,
        };
        if fits {
            Ok(())
        } else {
            Err(ProgramError::Memory { value, memory: place.memory, element: ty.element })
        }
    }

    /// That an operand has the result's lanes, or one.
    fn operand(&self, operand: Value, ty: Type) -> Result<Type, ProgramError> {
        let of = self.used(operand)?;
        if of.lanes == ty.lanes || of.lanes == 1 {
            return Ok(of);
        }
        let expected = format!("expected {} or 1", ty.lanes);
        Err(ProgramError::Lanes { what: operand.to_string(), found: of.lanes, expected })
    }

    /// That an operand has the result's element, and its lanes or one.
    fn alike(&self, operand: Value, ty: Type) -> Result<(), ProgramError> {
        same_element(operand, self.operand(operand, ty)?.element, ty.element)
    }

    fn condition(&self, condition: Value, ty: Type) -> Result<(), ProgramError> {
        let element = self.operand(condition, ty)?.element;
        if !element.is_float() && element.bits() == ty.element.bits() {
            return Ok(());
        }
        let expected = format!("expected an integer of {} bits", ty.element.bits());
        Err(ProgramError::Element { what: condition, found: element, expected })
    }

    fn op(&self, value: Value, ty: Type, op: &Op) -> Result<(), ProgramError> {
        let element = ty.element;
        let is_operation = |holds: bool, operation: String| {
            if holds { Ok(()) } else { Err(ProgramError::Operation { value, operation, element }) }
        };
        match op {
            Op::Constant(_) => Ok(()),
            Op::Load(place) => self.place(place, value, ty),
            Op::LoadIf { condition, place, otherwise } => {
                self.place(place, value, ty)?;
                self.condition(*condition, ty)?;
                self.alike(*otherwise, ty)
            }
            Op::Get { variable, start } => {
                let of = self.variable(*variable)?;
                same_element(value, element, of.element)?;
                self.fits(of, *start, ty.lanes, || variable.to_string())
            }
            Op::Slice { of, start } => {
                let from = self.used(*of)?;
                same_element(*of, from.element, element)?;
                self.fits(from, *start, ty.lanes, || of.to_string())
            }
            Op::Index { terms, .. } => {
                is_operation(!element.is_float(), "Index".to_owned())?;
                self.terms(terms)
            }
            Op::Unary(op, a) => {
                let floats =
                    matches!(op, Unary::SquareRoot | Unary::Floor | Unary::Truncate | Unary::RoundEven);
                let integers = *op == Unary::Not;
                is_operation(if element.is_float() { !integers } else { !floats }, format!("{op:?}"))?;
                self.alike(*a, ty)
            }
            Op::Binary(op, a, b) => {
                use Binary::{And, Divide, Or, ShiftLeft, ShiftRight, Xor};
                let integers = matches!(op, And | Or | Xor | ShiftLeft | ShiftRight);
                is_operation(if element.is_float() { !integers } else { *op != Divide }, format!("{op:?}"))?;
                self.alike(*a, ty)?;
                self.alike(*b, ty)
            }
            Op::Fma(a, b, c) => {
                is_operation(element.is_float(), "Fma".to_owned())?;
                [a, b, c].into_iter().try_for_each(|operand| self.alike(*operand, ty))
            }
            Op::Compare(_, a, b) => {
                let (left, right) = (self.operand(*a, ty)?, self.operand(*b, ty)?);
                is_operation(
                    !element.is_float() && element.bits() == left.element.bits(),
                    "Compare".to_owned(),
                )?;
                same_element(*b, right.element, left.element)
            }
            Op::Select(condition, a, b) => {
                self.condition(*condition, ty)?;
                self.alike(*a, ty)?;
                self.alike(*b, ty)
            }
            Op::Convert(a) => self.operand(*a, ty).map(drop),
            Op::Bitcast(a) => {
                let of = self.operand(*a, ty)?;
                is_operation(of.element.bits() == element.bits(), "Bitcast".to_owned())
            }
        }
    }
}

fn same_element(what: Value, found: Element, expected: Element) -> Result<(), ProgramError> {
    if found == expected {
        return Ok(());
    }
    Err(ProgramError::Element { what, found, expected: format!("expected {expected:?}") })
}
