//! Elements of nodes in slabs of words: addresses, loads and stores.
//!
//! Elements of 8 and 16 bits are parts of words. Their neighbors in the word may belong to other threads, so
//! a store changes only the element's own bits, by two atomic operations. All words of a slab with such a
//! store are atomic in that kernel.

use std::collections::BTreeSet;

use codegen_core::DType;
use codegen_core::ir::{Affine, Indices, LoweredRoutine, NodeRef, Stmt, walk};
use naga::BinaryOperator as Op;

use super::{Emitter, Operand, Param};
use crate::builder::{Buffer, Pointer, Ty, Value};

/// The nodes into which some statement stores less than a word.
pub(super) fn stored_narrow(routine: &LoweredRoutine) -> BTreeSet<NodeRef> {
    let mut found = BTreeSet::new();
    for stmt in walk::stmts(&routine.body) {
        if let Stmt::Set { node, .. } | Stmt::SetDynamic { node, .. } | Stmt::Zero { node } = stmt
            && routine.node(*node).dtype.size_bytes() < 4
        {
            found.insert(*node);
        }
    }
    found
}

/// An element of a node, addressed by its number in the node, as `u32`, or by a vector.
#[derive(Clone, Copy, Debug)]
pub(super) enum Element {
    Known(u32),
    Computed(Value),
    /// The number of a vector in the slab, and the lane in it.
    Lane(Value, u32),
}

impl Emitter<'_> {
    /// The element of a node at an index.
    pub(super) fn element(&mut self, node: NodeRef, index: &Indices) -> Element {
        let flat = Affine::row_major(index, &self.routine.node(node).dims);
        match self.vector_of(node, &flat) {
            Some((vector, lane)) => Element::Lane(vector, lane),
            None => self.numbered(&flat),
        }
    }

    /// Like [`Emitter::element`], but addresses the element always by its number.
    pub(super) fn numbered_element(&mut self, node: NodeRef, index: &Indices) -> Element {
        let flat = Affine::row_major(index, &self.routine.node(node).dims);
        self.numbered(&flat)
    }

    fn numbered(&mut self, flat: &Affine) -> Element {
        match self.scope.known(flat) {
            Some(known) => Element::Known(known as u32),
            None => {
                let index = self.index(flat);
                Element::Computed(self.b.convert(Ty::U32, index))
            }
        }
    }

    /// The element if the condition holds, else the node's first element.
    pub(super) fn guarded_element(&mut self, condition: Value, element: Element) -> Element {
        let at = self.element_value(element);
        let first = self.b.u32(0);
        Element::Computed(self.b.select(condition, at, first))
    }

    fn element_value(&mut self, element: Element) -> Value {
        match element {
            Element::Known(at) => self.b.u32(at),
            Element::Computed(at) | Element::Lane(at, _) => at,
        }
    }

    /// `element + step * at`.
    pub(super) fn further(&mut self, element: Element, at: Value, step: u32) -> Element {
        let base = self.element_value(element);
        let moved = match step {
            1 => at,
            _ => {
                let step = self.b.u32(step);
                self.b.binary(Op::Multiply, at, step)
            }
        };
        Element::Computed(self.b.binary(Op::Add, base, moved))
    }

    /// A pointer to word `part` of an element of `words` words.
    fn word(&mut self, param: Param, element: Element, words: u32, part: u32) -> Pointer {
        let at = match element {
            Element::Known(at) => self.offset(param.offset, at.wrapping_mul(words).wrapping_add(part)),
            Element::Computed(at) => {
                let at = match words {
                    1 => at,
                    _ => {
                        let words = self.b.u32(words);
                        self.b.binary(Op::Multiply, at, words)
                    }
                };
                let at = self.b.binary(Op::Add, param.offset, at);
                self.offset(at, part)
            }
            Element::Lane(vector, lane) => {
                let pointer = self.b.word(self.slabs[param.slab], vector);
                let lane = self.b.u32(lane);
                return self.b.lane_pointer(pointer, lane);
            }
        };
        self.word_at(self.slabs[param.slab], at)
    }

    /// A pointer to a word of a slab by its number.
    fn word_at(&mut self, slab: Buffer, at: Value) -> Pointer {
        if !self.b.has_vector_elements(slab) {
            return self.b.word(slab, at);
        }
        let [two, three] = [2, 3].map(|k| self.b.u32(k));
        let vector = self.b.binary(Op::ShiftRight, at, two);
        let lane = self.b.binary(Op::And, at, three);
        let pointer = self.b.word(slab, vector);
        self.b.lane_pointer(pointer, lane)
    }

    fn offset(&mut self, base: Value, by: u32) -> Value {
        if by == 0 {
            return base;
        }
        let by = self.b.u32(by);
        self.b.binary(Op::Add, base, by)
    }

    /// A pointer to the word that holds an element narrower than a word, and the element's position in it, in
    /// bits.
    fn part_of_word(&mut self, param: Param, element: Element, bytes: u32) -> (Pointer, Value) {
        let per_word = 4 / bytes;
        let (word, shift) = match element {
            Element::Known(at) => (Element::Known(at / per_word), self.b.u32(at % per_word * 8 * bytes)),
            Element::Computed(at) | Element::Lane(at, _) => {
                let [log, mask, bits] =
                    [per_word.trailing_zeros(), per_word - 1, 8 * bytes].map(|k| self.b.u32(k));
                let word = self.b.binary(Op::ShiftRight, at, log);
                let rest = self.b.binary(Op::And, at, mask);
                (Element::Computed(word), self.b.binary(Op::Multiply, rest, bits))
            }
        };
        (self.word(param, word, 1, 0), shift)
    }

    /// Loads an element, as a value of its type's carrier.
    pub(super) fn load(&mut self, node: NodeRef, element: Element) -> Value {
        let (dtype, param) = (self.routine.node(node).dtype, self.params[node.index()]);
        match dtype.size_bytes() {
            bytes @ (1 | 2) => {
                let (pointer, shift) = self.part_of_word(param, element, bytes as u32);
                let word = self.b.load(pointer);
                let moved = self.b.binary(Op::ShiftRight, word, shift);
                self.of_low_bits(dtype, moved)
            }
            4 => {
                let word = match element {
                    Element::Lane(vector, lane) => {
                        let pointer = self.b.word(self.slabs[param.slab], vector);
                        let vector = self.b.load_once(pointer);
                        self.b.lane(vector, lane, Ty::U32)
                    }
                    Element::Known(_) | Element::Computed(_) => {
                        let pointer = self.word(param, element, 1, 0);
                        self.b.load(pointer)
                    }
                };
                self.b.bitcast(self.carrier(dtype), word)
            }
            8 => {
                let [low, high] = [0, 1].map(|part| {
                    let pointer = self.word(param, element, 2, part);
                    self.b.load(pointer)
                });
                let wide = self.pair(low, high);
                self.b.bitcast(self.carrier(dtype), wide)
            }
            _ if self.b.has_vector_elements(self.slabs[param.slab]) => {
                let at = self.element_value(element);
                let vector = self.vector_at(node, at);
                let pointer = self.b.word(self.slabs[param.slab], vector);
                self.b.load(pointer)
            }
            _ => {
                let words = [0, 1, 2, 3].map(|part| {
                    let pointer = self.word(param, element, 4, part);
                    self.b.load(pointer)
                });
                self.b.lanes(words)
            }
        }
    }

    /// A 64-bit number from its two words.
    fn pair(&mut self, low: Value, high: Value) -> Value {
        let [low, high] = [low, high].map(|word| self.b.convert(Ty::U64, word));
        let by = self.b.u32(32);
        let high = self.b.binary(Op::ShiftLeft, high, by);
        self.b.binary(Op::InclusiveOr, high, low)
    }

    /// The value of a narrow element from the low bits of a word, whose other bits may be arbitrary.
    fn of_low_bits(&mut self, dtype: DType, word: Value) -> Value {
        let mask = self.b.u32(if dtype.size_bytes() == 1 { 0xff } else { 0xffff });
        match dtype {
            DType::I8 => {
                let word = self.b.bitcast(Ty::I32, word);
                self.sign_extended(word)
            }
            DType::Bool => {
                let byte = self.b.binary(Op::And, word, mask);
                let zero = self.b.u32(0);
                self.b.binary(Op::NotEqual, byte, zero)
            }
            DType::F16 if self.carrier(dtype) == Ty::F16 => {
                let bits = self.b.binary(Op::And, word, mask);
                self.b.half_of_bits(bits)
            }
            _ => self.b.binary(Op::And, word, mask),
        }
    }

    /// Sign-extends the low 8 bits of an `i32`.
    pub(super) fn sign_extended(&mut self, x: Value) -> Value {
        let by = self.b.u32(24);
        let high = self.b.binary(Op::ShiftLeft, x, by);
        self.b.binary(Op::ShiftRight, high, by)
    }

    /// Stores a value into an element.
    pub(super) fn store(&mut self, node: NodeRef, element: Element, value: Operand) {
        let (dtype, param) = (self.routine.node(node).dtype, self.params[node.index()]);
        if let (Operand::Known(scalar), 8) = (value, dtype.size_bytes()) {
            // Compilers of shaders do not fold the halves of 64-bit constants.
            for part in 0..2 {
                let pointer = self.word(param, element, 2, part);
                let word = self.b.u32((scalar.bits() >> (32 * part)) as u32);
                self.b.store(pointer, word);
            }
            return;
        }
        let value = self.value(value);
        match dtype.size_bytes() {
            bytes @ (1 | 2) => {
                let (pointer, shift) = self.part_of_word(param, element, bytes as u32);
                let bits = self.low_bits(dtype, value);
                let ones = self.b.u32(if bytes == 1 { 0xff } else { 0xffff });
                let [mask, bits] = [ones, bits].map(|x| self.b.binary(Op::ShiftLeft, x, shift));
                self.b.merge_bits(pointer, mask, bits);
            }
            4 => {
                let pointer = self.word(param, element, 1, 0);
                let word = self.b.bitcast(Ty::U32, value);
                self.b.store(pointer, word);
            }
            8 => {
                let wide = self.b.bitcast(Ty::U64, value);
                let by = self.b.u32(32);
                let high = self.b.binary(Op::ShiftRight, wide, by);
                for (part, half) in [(0, wide), (1, high)] {
                    let pointer = self.word(param, element, 2, part);
                    let word = self.b.convert(Ty::U32, half);
                    self.b.store(pointer, word);
                }
            }
            _ if self.b.has_vector_elements(self.slabs[param.slab]) => {
                let at = self.element_value(element);
                let vector = self.vector_at(node, at);
                let pointer = self.b.word(self.slabs[param.slab], vector);
                self.b.store(pointer, value);
            }
            _ => {
                for part in 0..4 {
                    let pointer = self.word(param, element, 4, part);
                    let word = self.b.lane(value, part, Ty::U32);
                    self.b.store(pointer, word);
                }
            }
        }
    }

    /// The bits of a narrow value, zero-extended to a word.
    fn low_bits(&mut self, dtype: DType, value: Value) -> Value {
        match dtype {
            DType::Bool => {
                let [zero, one] = [0, 1].map(|k| self.b.u32(k));
                self.b.select(value, one, zero)
            }
            DType::I8 => {
                let word = self.b.bitcast(Ty::U32, value);
                let mask = self.b.u32(0xff);
                self.b.binary(Op::And, word, mask)
            }
            DType::F16 if value.ty == Ty::F16 => self.b.bits_of_half(value),
            _ => value,
        }
    }

    /// Sets all elements of a node to zeros: the whole words, then the elements of a partial last word.
    pub(super) fn zero(&mut self, node: NodeRef) {
        let decl = self.routine.node(node);
        let (param, dtype) = (self.params[node.index()], decl.dtype);
        let elements = decl.dims.iter().product::<usize>();
        let words = (elements * dtype.size_bytes() / 4) as u32;
        let zero = self.b.u32(0);
        if words > 0 {
            self.looped("word", 0, i64::from(words), |e, at| {
                let at = e.b.convert(Ty::U32, at);
                let pointer = e.word(param, Element::Computed(at), 1, 0);
                e.b.store(pointer, zero);
            });
        }
        let done = words as usize * 4 / dtype.size_bytes();
        let nothing = Operand::Known(codegen_core::Scalar::zero(dtype));
        for at in done..elements {
            self.store(node, Element::Known(at as u32), nothing);
        }
    }
}
