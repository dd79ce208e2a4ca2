//! Strided accesses: element by element, or several values at once by a transposition in registers.
//!
//! A value with a large stride accesses one element in each of several rows. If four such values (two for
//! 64-bit lanes) are neighbors, they access 16 contiguous bytes of each row. These bytes are loaded
//! together, two rows to a register, and transposed in registers; stores work in reverse. Accesses are
//! therefore recorded first, and neighbors are grouped when the block is complete.

use smallvec::SmallVec;

use super::Lowering;
use crate::machine::{Access, Address, Inst, Reg};
use crate::op::Op;

/// A recorded load or store of non-contiguous elements.
#[derive(Clone, Debug)]
pub(super) struct StridedAccess {
    /// Position in the block.
    position: usize,
    /// The destination of a load, or the source of a store.
    register: Reg,
    write: bool,
    part: u32,
    /// Bytes of an element.
    size: u32,
    lanes: SmallVec<[Address; 8]>,
}

impl StridedAccess {
    /// Whether the 16 bytes at each lane's address are disjoint; overlapping stores would have to keep their
    /// order.
    fn has_rows(&self) -> bool {
        let mut pairs = self.lanes.windows(2);
        pairs.all(|pair| pair[0].stream == pair[1].stream && pair[0].offset.abs_diff(pair[1].offset) >= 16)
    }

    /// Whether the lanes of `other` are `by` elements after the lanes of this access.
    fn is_followed(&self, other: &StridedAccess, by: u32) -> bool {
        let bytes = i64::from(by * self.size);
        let behind = |(a, b): (&Address, &Address)| a.stream == b.stream && a.offset + bytes == b.offset;
        (self.write, self.size, self.lanes.len()) == (other.write, other.size, other.lanes.len())
            && self.lanes.iter().zip(&other.lanes).all(behind)
    }
}

/// Indices of accesses that become one transposition, in ascending order of address.
type TransposeGroup = SmallVec<[usize; 4]>;

impl Lowering<'_> {
    /// Records a load of non-contiguous elements.
    pub(super) fn note_load(&mut self, lanes: SmallVec<[Address; 8]>, size: u32) -> Reg {
        let register = self.unit.register();
        self.note(register, false, lanes, size);
        register
    }

    /// Records a store of non-contiguous elements.
    pub(super) fn note_store(&mut self, stored: Reg, lanes: SmallVec<[Address; 8]>, size: u32) {
        self.note(stored, true, lanes, size);
    }

    fn note(&mut self, register: Reg, write: bool, lanes: SmallVec<[Address; 8]>, size: u32) {
        let (position, part) = (self.block.len(), self.parts_before + self.part);
        self.strided.push(StridedAccess { position, register, write, part, size, lanes });
        // This placeholder marks the position of the access.
        let access = if write { Access::Write } else { Access::Read };
        self.block.push(Inst {
            op: Op::Copy,
            dst: Reg::NONE,
            srcs: [Reg::NONE; 3],
            imm: 0,
            address: self.strided[self.strided.len() - 1].lanes.first().copied(),
            access,
            part,
        });
    }

    /// Expands the recorded accesses of the block.
    pub(super) fn resolve_strided(&mut self) {
        if self.strided.is_empty() {
            return;
        }
        let strided = std::mem::take(&mut self.strided);
        let block = std::mem::take(&mut self.block);
        let groups = self.groups(&strided, &block);
        // A group of loads is placed at its first member, a group of stores at its last.
        let mut leader: Vec<Option<usize>> = vec![None; strided.len()];
        let mut alone = vec![true; strided.len()];
        for (number, group) in groups.iter().enumerate() {
            group.iter().for_each(|&member| alone[member] = false);
            let first = if strided[group[0]].write { group.iter().max() } else { group.iter().min() };
            leader[*first.expect("groups have members")] = Some(number);
        }
        let (part, parts_before) = (self.part, self.parts_before);
        self.parts_before = 0;
        let mut next = 0;
        for (position, inst) in block.into_iter().enumerate() {
            let Some(access) = strided.get(next).filter(|access| access.position == position) else {
                self.block.push(inst);
                continue;
            };
            if alone[next] {
                self.part = access.part;
                self.one_by_one(access);
            } else if let Some(group) = leader[next] {
                let members: SmallVec<[&StridedAccess; 4]> =
                    groups[group].iter().map(|&member| &strided[member]).collect();
                self.transpose(&members);
            }
            next += 1;
        }
        (self.part, self.parts_before) = (part, parts_before);
    }

    /// Groups neighboring accesses, if no other access between them conflicts with them.
    fn groups(&self, strided: &[StridedAccess], block: &[Inst]) -> Vec<TransposeGroup> {
        let mut order: Vec<usize> = (0..strided.len()).collect();
        let key = |i: usize| (strided[i].write, strided[i].lanes[0].stream, strided[i].lanes[0].offset, i);
        order.sort_by_key(|&i| key(i));
        let mut groups = Vec::new();
        let mut at = 0;
        // The transpositions below are for registers of at most 256 bits.
        while self.words() <= 8 && at < order.len() {
            let first = &strided[order[at]];
            let count = 16 / first.size as usize;
            let members: TransposeGroup = order[at..].iter().take(count).copied().collect();
            let follow = members.len() == count
                && first.has_rows()
                && (1..count).all(|by| first.is_followed(&strided[members[by]], by as u32))
                && self.is_undisturbed(strided, &members, block);
            if follow {
                groups.push(members);
            }
            at += if follow { count } else { 1 };
        }
        groups
    }

    /// Whether no instruction between the members conflicts with them, that is, accesses the same memory. Two
    /// reads do not conflict.
    fn is_undisturbed(&self, strided: &[StridedAccess], members: &[usize], block: &[Inst]) -> bool {
        let positions = members.iter().map(|&member| strided[member].position);
        let (first, last) = (positions.clone().min().unwrap_or(0), positions.clone().max().unwrap_or(0));
        let own = &strided[members[0]];
        (first..=last).all(|position| {
            let other = &block[position];
            let disturbs = other.access == Access::Write || (own.write && other.access == Access::Read);
            let Some(address) = other.address.filter(|_| disturbs) else { return true };
            if positions.clone().any(|member| member == position)
                || !self.unit.same_memory(own.lanes[0], address)
            {
                return true;
            }
            let found = strided.binary_search_by_key(&position, |access| access.position);
            let touched = found.map_or(std::slice::from_ref(&address), |i| &strided[i].lanes);
            let apart = |lane: &Address| touched.iter().all(|address| !self.unit.overlap(*lane, *address));
            members.iter().all(|&member| strided[member].lanes.iter().all(apart))
        })
    }

    fn read_from(&mut self, op: Op, srcs: &[Reg], imm: u16, address: Address, bytes: u32) -> Reg {
        self.instruction(op, srcs, imm, Some(Address { bytes, ..address }), Access::Read)
    }

    /// Makes `register` the result of the last instruction.
    fn set_result(&mut self, register: Reg) {
        let last = self.block.last_mut().expect("something was computed");
        last.dst = register;
    }

    fn one_by_one(&mut self, access: &StridedAccess) {
        if access.write { self.store_one_by_one(access) } else { self.load_one_by_one(access) }
    }

    fn load_one_by_one(&mut self, access: &StridedAccess) {
        let size = access.size;
        let (load, insert) = if size == 8 { (Op::Load64, Op::Insert64) } else { (Op::Load32, Op::Insert32) };
        let mut halves: SmallVec<[Reg; 4]> = SmallVec::new();
        for lanes in access.lanes.chunks(16 / size as usize) {
            let mut half = self.read_from(load, &[], 0, lanes[0], size);
            for (at, lane) in lanes.iter().enumerate().skip(1) {
                half = self.read_from(insert, &[half, Reg::MEMORY], at as u16, *lane, size);
            }
            halves.push(half);
        }
        let mut whole = halves[0];
        for (number, &half) in halves.iter().enumerate().skip(1) {
            whole = self.emit_imm(Op::InsertHigh, &[whole, half], number as u16);
        }
        self.set_result(access.register);
    }

    fn store_one_by_one(&mut self, access: &StridedAccess) {
        let size = access.size;
        let (store, extract) =
            if size == 8 { (Op::Store64, Op::Extract64) } else { (Op::Store32, Op::Extract32) };
        let mut half = access.register;
        for (number, lanes) in access.lanes.chunks(16 / size as usize).enumerate() {
            if number > 0 {
                half = self.emit_imm(Op::ExtractHigh, &[access.register], number as u16);
            }
            for (at, lane) in lanes.iter().enumerate() {
                let op = if at == 0 { store } else { extract };
                let address = Some(Address { bytes: size, ..*lane });
                self.instruction(op, &[half], at as u16, address, Access::Write);
            }
        }
    }

    fn transpose(&mut self, members: &[&StridedAccess]) {
        self.part = members[0].part;
        if members[0].write { self.transpose_to_memory(members) } else { self.transpose_from_memory(members) }
    }

    /// Loads the rows, two to a register. If half a register has `n` lanes, the lower half of register `i`
    /// has row `i`, and its upper half has row `i + n`. A copy of the first register stands for missing rows.
    fn rows(&mut self, first: &StridedAccess) -> SmallVec<[Reg; 4]> {
        let half = 16 / first.size as usize;
        let mut rows: SmallVec<[Reg; 4]> = SmallVec::new();
        for i in 0..half {
            let Some(low) = first.lanes.get(i) else {
                rows.push(rows[0]);
                continue;
            };
            let mut row = self.read_from(Op::Load128, &[], 0, *low, 16);
            if let Some(high) = first.lanes.get(i + half) {
                row = self.read_from(Op::InsertHigh, &[row, Reg::MEMORY], 1, *high, 16);
            }
            rows.push(row);
        }
        rows
    }

    fn transpose_from_memory(&mut self, members: &[&StridedAccess]) {
        let rows = self.rows(members[0]);
        if let [even, odd] = rows[..] {
            for (op, member) in [Op::UnpackLow64, Op::UnpackHigh64].into_iter().zip(members) {
                self.part = member.part;
                self.emit(op, &[even, odd]);
                self.set_result(member.register);
            }
            return;
        }
        self.columns(&rows, |lower, i, pair| {
            lower.part = members[i].part;
            lower.column(i, pair);
            lower.set_result(members[i].register);
        });
    }

    /// Transposes 4 × 4 words in each half. Calls `each` with the number and the two registers of each
    /// result, which is a [`column`](Self::column) of these.
    fn columns(&mut self, rows: &[Reg], mut each: impl FnMut(&mut Self, usize, [Reg; 2])) {
        for (pair, op) in [Op::UnpackLow32, Op::UnpackHigh32].into_iter().enumerate() {
            let (left, right) = (self.emit(op, &[rows[0], rows[1]]), self.emit(op, &[rows[2], rows[3]]));
            each(self, 2 * pair, [left, right]);
            each(self, 2 * pair + 1, [left, right]);
        }
    }

    /// The lower or the upper pairs of words of two registers, for an even or an odd number.
    fn column(&mut self, number: usize, pair: [Reg; 2]) -> Reg {
        match (self.is_neon(), number % 2) {
            (false, odd) => self.emit_imm(Op::Shuffle32, &pair, if odd == 0 { 0x44 } else { 0xee }),
            (true, 0) => self.emit(Op::UnpackLow64, &pair),
            (true, _) => self.emit(Op::UnpackHigh64, &pair),
        }
    }

    fn transpose_to_memory(&mut self, members: &[&StridedAccess]) {
        let values: SmallVec<[Reg; 4]> = members.iter().map(|member| member.register).collect();
        let lanes = &members[0].lanes;
        if let [even, odd] = values[..] {
            for (i, op) in [Op::UnpackLow64, Op::UnpackHigh64].into_iter().enumerate() {
                let rows = self.emit(op, &[even, odd]);
                self.store_rows(rows, lanes.get(i), lanes.get(i + 2));
            }
            return;
        }
        self.columns(&values, |lower, i, pair| {
            let rows = lower.column(i, pair);
            lower.store_rows(rows, lanes.get(i), lanes.get(i + 4));
        });
    }

    /// Stores the halves of a register to those rows that exist.
    fn store_rows(&mut self, rows: Reg, low: Option<&Address>, high: Option<&Address>) {
        for (op, address) in [(Op::Store128, low), (Op::StoreHigh, high)] {
            if let Some(address) = address {
                let address = Some(Address { bytes: 16, ..*address });
                self.instruction(op, &[rows], 1, address, Access::Write);
            }
        }
    }
}
