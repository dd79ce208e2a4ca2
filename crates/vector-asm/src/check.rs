//! Verifies programs: definitions precede uses, and numbers of lanes and lane types match.

use crate::program::{
    Binary, Counter, Index, LaneType, LoopRange, StoredType, Unary, Value, Variable, VectorAddress, VectorOp,
    VectorProgram, VectorStmt, VectorType,
};

/// Why a program is invalid.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum VectorProgramError {
    /// A value is used where it is not defined.
    #[error("{0} is used where it is not defined")]
    Undefined(Value),
    /// A value has two definitions.
    #[error("{0} is defined twice")]
    Redefined(Value),
    /// The program has no such variable.
    #[error("there is no variable {0}")]
    NoVariable(Variable),
    /// The program has no such counter, two loops have it, or it is used outside of its loop.
    #[error("counter {0} is used outside of its loop or by two loops")]
    Counter(Counter),
    /// A value or variable has no lanes.
    #[error("{0} has no lanes")]
    NoLanes(String),
    /// A number of lanes does not match.
    #[error("{what} has {found} lanes, {expected}")]
    Lanes { what: String, found: u32, expected: String },
    /// A lane type does not match.
    #[error("{what} is of {found:?}, {expected}")]
    Element { what: Value, found: LaneType, expected: String },
    /// The lane type does not have the operation.
    #[error("{value}: {operation} is no operation of {element:?}")]
    Operation { value: Value, operation: String, element: LaneType },
    /// The elements in memory do not convert to the lane type.
    #[error("{value}: {memory:?} in memory is not {element:?}")]
    Memory { value: Value, memory: StoredType, element: LaneType },
    /// A store has step 0, so only its last lane would remain.
    #[error("a store of {0} whose lanes share one address")]
    StoreStep(Value),
    /// An index occurs twice in one address.
    #[error("index {0:?} occurs twice in one address")]
    Twice(Index),
    /// A loop over the call's range is inside another loop, or is not the only one.
    #[error("the loop {0} over the call's range is inside another loop or not the only one")]
    Part(Counter),
}

impl VectorProgram {
    /// Verifies that values are defined once and before their uses, that counters are used inside their
    /// loops, and that numbers of lanes and lane types match.
    ///
    /// # Errors
    ///
    /// The first violation in program order.
    pub fn check(&self) -> Result<(), VectorProgramError> {
        for (i, ty) in self.values.iter().enumerate() {
            has_lanes(*ty, || Value(i as u32).to_string())?;
        }
        for (i, ty) in self.variables.iter().enumerate() {
            has_lanes(*ty, || Variable(i as u32).to_string())?;
        }
        let mut check = ProgramChecker {
            program: self,
            defined: vec![Definition::None; self.values.len()],
            counters: vec![Definition::None; self.counters as usize],
            depth: 0,
            part: false,
        };
        check.block(&self.body)
    }
}

fn has_lanes(ty: VectorType, what: impl FnOnce() -> String) -> Result<(), VectorProgramError> {
    if ty.lanes == 0 { Err(VectorProgramError::NoLanes(what())) } else { Ok(()) }
}

/// Whether a value or counter may be used at some point of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Definition {
    None,
    Visible,
    /// Defined in a block that has ended.
    Past,
}

struct ProgramChecker<'a> {
    program: &'a VectorProgram,
    defined: Vec<Definition>,
    counters: Vec<Definition>,
    depth: u32,
    part: bool,
}

impl ProgramChecker<'_> {
    fn block(&mut self, body: &[VectorStmt]) -> Result<(), VectorProgramError> {
        body.iter().try_for_each(|stmt| self.statement(stmt))?;
        for stmt in body {
            if let VectorStmt::Let { value, .. } = stmt {
                self.defined[value.0 as usize] = Definition::Past;
            }
        }
        Ok(())
    }

    fn statement(&mut self, stmt: &VectorStmt) -> Result<(), VectorProgramError> {
        match stmt {
            VectorStmt::Loop { counter, range, body } => self.enter(*counter, range, body),
            VectorStmt::Let { value, op } => {
                let ty = self.declared(*value)?;
                self.op(*value, ty, op)?;
                match std::mem::replace(&mut self.defined[value.0 as usize], Definition::Visible) {
                    Definition::None => Ok(()),
                    _ => Err(VectorProgramError::Redefined(*value)),
                }
            }
            VectorStmt::Set { variable, start, value } => {
                let (ty, of) = (self.used(*value)?, self.variable(*variable)?);
                self.fits(of, *start, ty.lanes, || variable.to_string())?;
                same_element(*value, ty.element, of.element)
            }
            VectorStmt::Store { place, value, streaming: _ } => {
                let ty = self.used(*value)?;
                self.place(place, *value, ty)?;
                if place.step == 0 && ty.lanes > 1 {
                    Err(VectorProgramError::StoreStep(*value))
                } else {
                    Ok(())
                }
            }
            VectorStmt::Prefetch(place) => self.terms(&place.terms),
        }
    }

    fn enter(
        &mut self,
        counter: Counter,
        range: &LoopRange,
        body: &[VectorStmt],
    ) -> Result<(), VectorProgramError> {
        if let LoopRange::Clipped { clips, .. } = range {
            clips.iter().try_for_each(|clip| self.terms(&clip.terms))?;
        }
        if *range == LoopRange::Call && (self.depth > 0 || std::mem::replace(&mut self.part, true)) {
            return Err(VectorProgramError::Part(counter));
        }
        match self.counters.get_mut(counter.0 as usize) {
            Some(state) if *state == Definition::None => *state = Definition::Visible,
            _ => return Err(VectorProgramError::Counter(counter)),
        }
        self.depth += 1;
        self.block(body)?;
        self.depth -= 1;
        self.counters[counter.0 as usize] = Definition::Past;
        Ok(())
    }

    fn declared(&self, value: Value) -> Result<VectorType, VectorProgramError> {
        self.program.values.get(value.0 as usize).copied().ok_or(VectorProgramError::Undefined(value))
    }

    fn used(&self, value: Value) -> Result<VectorType, VectorProgramError> {
        match self.defined.get(value.0 as usize) {
            Some(Definition::Visible) => self.declared(value),
            _ => Err(VectorProgramError::Undefined(value)),
        }
    }

    fn variable(&self, variable: Variable) -> Result<VectorType, VectorProgramError> {
        self.program
            .variables
            .get(variable.0 as usize)
            .copied()
            .ok_or(VectorProgramError::NoVariable(variable))
    }

    /// Checks that a type has the lanes `start..start + lanes`.
    fn fits(
        &self,
        of: VectorType,
        start: u32,
        lanes: u32,
        what: impl FnOnce() -> String,
    ) -> Result<(), VectorProgramError> {
        if start.checked_add(lanes).is_some_and(|end| end <= of.lanes) {
            return Ok(());
        }
        let expected = format!("not the {lanes} from {start} on");
        Err(VectorProgramError::Lanes { what: what(), found: of.lanes, expected })
    }

    fn terms(&self, terms: &[(Index, i64)]) -> Result<(), VectorProgramError> {
        for (i, (index, _)) in terms.iter().enumerate() {
            if terms[..i].iter().any(|(other, _)| other == index) {
                return Err(VectorProgramError::Twice(*index));
            }
            if let Index::Counter(counter) = index {
                match self.counters.get(counter.0 as usize) {
                    Some(Definition::Visible) => {}
                    _ => return Err(VectorProgramError::Counter(*counter)),
                }
            }
        }
        Ok(())
    }

    fn place(&self, place: &VectorAddress, value: Value, ty: VectorType) -> Result<(), VectorProgramError> {
        self.terms(&place.terms)?;
        let fits = match place.memory {
            StoredType::Same => true,
            StoredType::U8 | StoredType::U16 => matches!(ty.element, LaneType::I32 | LaneType::U32),
            StoredType::I8 | StoredType::I16 => ty.element == LaneType::I32,
            StoredType::F16 | StoredType::BF16 => ty.element == LaneType::F32,
        };
        if fits {
            Ok(())
        } else {
            Err(VectorProgramError::Memory { value, memory: place.memory, element: ty.element })
        }
    }

    /// Checks that an operand has as many lanes as the result, or one. Returns its type.
    fn operand(&self, operand: Value, ty: VectorType) -> Result<VectorType, VectorProgramError> {
        let of = self.used(operand)?;
        if of.lanes == ty.lanes || of.lanes == 1 {
            return Ok(of);
        }
        let expected = format!("expected {} or 1", ty.lanes);
        Err(VectorProgramError::Lanes { what: operand.to_string(), found: of.lanes, expected })
    }

    /// Checks that an operand has the result's lane type, and as many lanes or one.
    fn alike(&self, operand: Value, ty: VectorType) -> Result<(), VectorProgramError> {
        same_element(operand, self.operand(operand, ty)?.element, ty.element)
    }

    fn condition(&self, condition: Value, ty: VectorType) -> Result<(), VectorProgramError> {
        let element = self.operand(condition, ty)?.element;
        if !element.is_float() && element.bits() == ty.element.bits() {
            return Ok(());
        }
        let expected = format!("expected an integer of {} bits", ty.element.bits());
        Err(VectorProgramError::Element { what: condition, found: element, expected })
    }

    fn op(&self, value: Value, ty: VectorType, op: &VectorOp) -> Result<(), VectorProgramError> {
        let element = ty.element;
        let is_operation = |holds: bool, operation: String| {
            if holds { Ok(()) } else { Err(VectorProgramError::Operation { value, operation, element }) }
        };
        match op {
            VectorOp::Constant(_) => Ok(()),
            VectorOp::Load(place) => self.place(place, value, ty),
            VectorOp::LoadIf { condition, place, otherwise } => {
                self.place(place, value, ty)?;
                self.condition(*condition, ty)?;
                self.alike(*otherwise, ty)
            }
            VectorOp::Get { variable, start } => {
                let of = self.variable(*variable)?;
                same_element(value, element, of.element)?;
                self.fits(of, *start, ty.lanes, || variable.to_string())
            }
            VectorOp::Slice { of, start } => {
                let from = self.used(*of)?;
                same_element(*of, from.element, element)?;
                self.fits(from, *start, ty.lanes, || of.to_string())
            }
            VectorOp::Index { terms, .. } => {
                is_operation(!element.is_float(), "Index".to_owned())?;
                self.terms(terms)
            }
            VectorOp::Unary(op, a) => {
                let floats =
                    matches!(op, Unary::SquareRoot | Unary::Floor | Unary::Truncate | Unary::RoundEven);
                let integers = *op == Unary::Not;
                is_operation(if element.is_float() { !integers } else { !floats }, format!("{op:?}"))?;
                self.alike(*a, ty)
            }
            VectorOp::Binary(op, a, b) => {
                use Binary::{And, Divide, Or, ShiftLeft, ShiftRight, Xor};
                let integers = matches!(op, And | Or | Xor | ShiftLeft | ShiftRight);
                is_operation(if element.is_float() { !integers } else { *op != Divide }, format!("{op:?}"))?;
                self.alike(*a, ty)?;
                self.alike(*b, ty)
            }
            VectorOp::Fma(a, b, c) => {
                is_operation(element.is_float(), "Fma".to_owned())?;
                [a, b, c].into_iter().try_for_each(|operand| self.alike(*operand, ty))
            }
            VectorOp::Compare(_, a, b) => {
                let (left, right) = (self.operand(*a, ty)?, self.operand(*b, ty)?);
                is_operation(
                    !element.is_float() && element.bits() == left.element.bits(),
                    "Compare".to_owned(),
                )?;
                same_element(*b, right.element, left.element)
            }
            VectorOp::Select(condition, a, b) => {
                self.condition(*condition, ty)?;
                self.alike(*a, ty)?;
                self.alike(*b, ty)
            }
            VectorOp::Convert(a) => self.operand(*a, ty).map(drop),
            VectorOp::Bitcast(a) => {
                let of = self.operand(*a, ty)?;
                is_operation(of.element.bits() == element.bits(), "Bitcast".to_owned())
            }
        }
    }
}

fn same_element(what: Value, found: LaneType, expected: LaneType) -> Result<(), VectorProgramError> {
    if found == expected {
        return Ok(());
    }
    Err(VectorProgramError::Element { what, found, expected: format!("expected {expected:?}") })
}
