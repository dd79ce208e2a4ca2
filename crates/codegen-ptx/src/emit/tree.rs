//! Rounds of a tree in the first warp: [`crate::trees`] finds them.

use std::collections::HashMap;

use lowered_ir::ir::{Indices, LocalId, LoopId, Stmt};
use ptx_asm::{Binary, Class, Cmp, Inst, Operand, Reg, Rounding, Shuffle, Ty};
use tnode::DType;

use super::index::Index;
use super::{Emitter, Value, carrier};
use crate::refusal::Checked;
use crate::trees::{LANES, Round, constant_of};

/// The results of a round: of lane `l`, value `n` is result `l + 32 n`.
#[derive(Clone, Debug)]
pub(super) struct Handed {
    pub(super) local: LocalId,
    values: Vec<Value>,
    /// The variable of the round that takes them, and which of its results is computed.
    var: LoopId,
    nth: i64,
    /// What was read from other lanes already, by its position.
    read: HashMap<i64, Value>,
}

impl<'k> Emitter<'k> {
    /// The rounds that begin with a statement, if there are some.
    pub(super) fn rounds(&self, stmt: &Stmt) -> Option<Vec<Round<'k>>> {
        self.trees.rounds.get(&std::ptr::from_ref(stmt)).cloned()
    }

    /// All rounds in the first warp.
    pub(super) fn tree(&mut self, rounds: &[Round<'k>]) -> Checked {
        self.within = true;
        if i64::from(self.block_threads) == LANES {
            self.warp(rounds)?;
        } else {
            let warp = self.b.index(Binary::ShiftRight, Ty::U32, self.thread, LANES.ilog2());
            let is_first = self.b.index_compare(Cmp::Eq, Ty::U32, warp, 0u32);
            self.when(is_first, |e| e.warp(rounds))?;
        }
        self.within = false;
        Ok(())
    }

    fn warp(&mut self, rounds: &[Round<'k>]) -> Checked {
        let Some((last, before)) = rounds.split_last() else { return Ok(()) };
        for (at, round) in before.iter().enumerate() {
            let values = self.results(round, at == 0)?;
            let (local, var) = (round.to, rounds[at + 1].var);
            self.handed = Some(Handed { local, values, var, nth: 0, read: HashMap::new() });
        }
        let values = self.results(last, false)?;
        self.handed = None;
        for (nth, value) in (0..).zip(values) {
            self.lane(last, nth, |e| {
                e.set_local(last.to, &Indices::from_elem(last.var.into(), 1), value, None)
            })?;
        }
        Ok(())
    }

    /// What a round gives, of each lane. Lanes beyond its threads have anything; if they would read memory for that, they do not.
    fn results(&mut self, round: &Round<'k>, reads_memory: bool) -> Checked<Vec<Value>> {
        let mut results = Vec::new();
        for nth in 0..(round.threads + LANES - 1) / LANES {
            if reads_memory && round.threads < (nth + 1) * LANES {
                let registers = self.zeroed(self.locals[&round.to].dtype);
                self.lane(round, nth, |e| {
                    let (value, _) = e.expr(round.value)?;
                    e.assign(&registers, value, None);
                    Ok(())
                })?;
                results.push(Value::In(registers[0]));
            } else {
                if let Some(handed) = &mut self.handed {
                    handed.nth = nth;
                }
                self.enter_lane(round, nth);
                let value = self.expr(round.value).map(|(value, _)| self.kept(value));
                self.leave();
                results.push(value?);
            }
        }
        Ok(results)
    }

    /// The loop's variable is this lane's number, or a number of lanes further.
    fn enter_lane(&mut self, round: &Round<'k>, nth: i64) {
        let at = match nth {
            0 => self.thread,
            nth => self.b.index(Binary::Add, Ty::S32, self.thread, (nth * LANES) as i32),
        };
        self.enter(round.var, Index::Computed(at, (nth * LANES, round.threads - 1)));
    }

    /// What the lanes do that have such a result.
    fn lane(&mut self, round: &Round<'k>, nth: i64, body: impl FnOnce(&mut Self) -> Checked) -> Checked {
        let left = round.threads - nth * LANES;
        if left >= LANES {
            self.enter_lane(round, nth);
            body(self)?;
        } else {
            let takes_part = self.b.index_compare(Cmp::Lt, Ty::U32, self.thread, left as u32);
            self.enter_lane(round, nth);
            self.when(takes_part, body)?;
        }
        self.leave();
        Ok(())
    }

    /// An element of the round before, from the lane that has it.
    pub(super) fn handed(&mut self, local: LocalId, index: &Indices) -> Option<Value> {
        let handed = self.handed.as_ref().filter(|handed| handed.local == local)?;
        let at = constant_of(index.first()?, handed.var)? + LANES * handed.nth;
        if let Some(&known) = handed.read.get(&at) {
            return Some(known);
        }
        let value = handed.values.get((at / LANES) as usize).copied()?;
        let dtype = self.locals[&local].dtype;
        let value = match at % LANES {
            0 => value,
            distance => Value::In(self.shuffled(dtype, value, distance as u32)),
        };
        self.handed.as_mut()?.read.insert(at, value);
        Some(value)
    }

    /// The value of the lane so many further.
    fn shuffled(&mut self, dtype: DType, value: Value, distance: u32) -> Reg {
        let reg = self.reg(value);
        let class = carrier(dtype).class();
        match class {
            Class::B32 | Class::F32 => self.shuffle(reg, distance),
            Class::B64 | Class::F64 => {
                let whole = self.b.recast(Class::B64, reg);
                let halves = [0, 1].map(|_| self.b.reg(Class::B32));
                self.b.push(Inst::Unpack { halves, src: whole });
                let halves = halves.map(|half| self.shuffle(half, distance));
                let whole = self.b.value(Class::B64, |dst| Inst::Pack { dst, halves });
                self.b.recast(class, whole)
            }
            Class::B16 => {
                let word = self.b.convert(Ty::U32, Ty::U16, Rounding::None, reg);
                let word = self.shuffle(word, distance);
                self.b.convert(Ty::U16, Ty::U32, Rounding::None, word)
            }
            Class::Pred => {
                let word = self.b.select(Ty::U32, reg, 1u32, 0u32);
                let word = self.shuffle(word, distance);
                self.b.compare(Cmp::Ne, Ty::U32, word, 0u32)
            }
        }
    }

    fn shuffle(&mut self, src: Reg, distance: u32) -> Reg {
        let (mode, lane, width) = (Shuffle::Down, Operand::from(distance), LANES as u32);
        self.b.value(src.class, |dst| Inst::Shuffle { mode, dst, src, lane, width })
    }
}
