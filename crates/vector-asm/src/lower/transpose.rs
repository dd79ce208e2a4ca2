//! Elements that are apart in memory: one by one, or several values at once by a transposition.
//!
//! A value whose lanes are rows apart touches one element of each row. If four such values (two of double precision) are neighbours, what they touch is a
//! piece of 16 bytes of each row: those are loaded as they are, two rows to a register, and transposed in registers; stores likewise, the other way round. So
//! accesses are only noted at first; when the block is whole, those that are neighbours are found.

use smallvec::SmallVec;

use super::Lower;
use crate::avx2::Op as Machine;
use crate::machine::{Access, Address, Inst, Reg};

/// A load or store whose elements are apart.
#[derive(Clone, Debug)]
pub(super) struct Strided {
    /// Where it stands in the block.
    position: usize,
    /// What is loaded, or stored.
    register: Reg,
    write: bool,
    part: u32,
    /// Bytes of an element.
    size: u32,
    /// Where each lane is.
    lanes: SmallVec<[Address; 8]>,
}

impl Strided {
    /// Whether pieces of 16 bytes at its lanes are apart: what overlaps must be stored in order.
    fn has_rows(&self) -> bool {
        let mut pairs = self.lanes.windows(2);
        pairs.all(|pair| pair[0].stream == pair[1].stream && pair[0].offset.abs_diff(pair[1].offset) >= 16)
    }

    /// Whether the lanes of `other` are `by` elements behind this one's.
    fn is_followed(&self, other: &Strided, by: u32) -> bool {
        let bytes = i64::from(by * self.size);
        let behind = |(a, b): (&Address, &Address)| a.stream == b.stream && a.offset + bytes == b.offset;
        (self.write, self.size, self.lanes.len()) == (other.write, other.size, other.lanes.len())
            && self.lanes.iter().zip(&other.lanes).all(behind)
    }
}

/// Accesses that become one transposition, by their positions in the list of accesses, in the order of their elements.
type Group = SmallVec<[usize; 4]>;

impl Lower<'_> {
    /// Notes a load of elements apart.
    pub(super) fn note_load(&mut self, lanes: SmallVec<[Address; 8]>, size: u32) -> Reg {
        let register = self.unit.register();
        self.note(register, false, lanes, size);
        register
    }

    /// Notes a store of elements apart.
    pub(super) fn note_store(&mut self, stored: Reg, lanes: SmallVec<[Address; 8]>, size: u32) {
        self.note(stored, true, lanes, size);
    }

    fn note(&mut self, register: Reg, write: bool, lanes: SmallVec<[Address; 8]>, size: u32) {
        let (position, part) = (self.block.len(), self.parts_before + self.part);
        self.strided.push(Strided { position, register, write, part, size, lanes });
        // Its place is kept by an instruction that does nothing.
        let access = if write { Access::Write } else { Access::Read };
        self.block.push(Inst {
            op: Machine::Copy,
            dst: Reg::NONE,
            srcs: [Reg::NONE; 3],
            imm: 0,
            address: self.strided[self.strided.len() - 1].lanes.first().copied(),
            access,
            part,
        });
    }

    /// Writes out the accesses that were noted in the block.
    pub(super) fn resolve_strided(&mut self) {
        if self.strided.is_empty() {
            return;
        }
        let strided = std::mem::take(&mut self.strided);
        let block = std::mem::take(&mut self.block);
        let groups = self.groups(&strided, &block);
        // Loads stand where the first of a group stood, stores where the last did.
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
                let members: SmallVec<[&Strided; 4]> =
                    groups[group].iter().map(|&member| &strided[member]).collect();
                self.transpose(&members);
            }
            next += 1;
        }
        (self.part, self.parts_before) = (part, parts_before);
    }

    /// Finds neighbours, between which nothing else touches their memory.
    fn groups(&self, strided: &[Strided], block: &[Inst]) -> Vec<Group> {
        let mut order: Vec<usize> = (0..strided.len()).collect();
        let key = |i: usize| (strided[i].write, strided[i].lanes[0].stream, strided[i].lanes[0].offset, i);
        order.sort_by_key(|&i| key(i));
        let mut groups = Vec::new();
        let mut at = 0;
        // The wide registers have other instructions for that.
        while self.words() == 8 && at < order.len() {
            let first = &strided[order[at]];
            let count = 16 / first.size as usize;
            let members: Group = order[at..].iter().take(count).copied().collect();
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

    /// Whether nothing between the members touches what they touch, unless both only read.
    fn is_undisturbed(&self, strided: &[Strided], members: &[usize], block: &[Inst]) -> bool {
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

    fn read_from(&mut self, op: Machine, srcs: &[Reg], imm: u16, address: Address, bytes: u32) -> Reg {
        self.instruction(op, srcs, imm, Some(Address { bytes, ..address }), Access::Read)
    }

    /// Gives what was computed last the register that was promised.
    fn promise(&mut self, register: Reg) {
        let last = self.block.last_mut().expect("something was computed");
        last.dst = register;
    }

    fn one_by_one(&mut self, access: &Strided) {
        if access.write { self.store_one_by_one(access) } else { self.load_one_by_one(access) }
    }

    fn load_one_by_one(&mut self, access: &Strided) {
        let size = access.size;
        let (load, insert) = if size == 8 {
            (Machine::Load64, Machine::Insert64)
        } else {
            (Machine::Load32, Machine::Insert32)
        };
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
            whole = self.emit_imm(Machine::InsertHigh, &[whole, half], number as u16);
        }
        self.promise(access.register);
    }

    fn store_one_by_one(&mut self, access: &Strided) {
        let size = access.size;
        let (store, extract) = if size == 8 {
            (Machine::Store64, Machine::Extract64)
        } else {
            (Machine::Store32, Machine::Extract32)
        };
        let mut half = access.register;
        for (number, lanes) in access.lanes.chunks(16 / size as usize).enumerate() {
            if number > 0 {
                half = self.emit_imm(Machine::ExtractHigh, &[access.register], number as u16);
            }
            for (at, lane) in lanes.iter().enumerate() {
                let op = if at == 0 { store } else { extract };
                let address = Some(Address { bytes: size, ..*lane });
                self.instruction(op, &[half], at as u16, address, Access::Write);
            }
        }
    }

    fn transpose(&mut self, members: &[&Strided]) {
        self.part = members[0].part;
        if members[0].write { self.transpose_to_memory(members) } else { self.transpose_from_memory(members) }
    }

    /// Row `i`'s piece, and behind it that of the row which is half the lanes of a register further on. Rows that do not exist are any.
    fn rows(&mut self, first: &Strided) -> SmallVec<[Reg; 4]> {
        let half = 16 / first.size as usize;
        let mut rows: SmallVec<[Reg; 4]> = SmallVec::new();
        for i in 0..half {
            let Some(low) = first.lanes.get(i) else {
                rows.push(rows[0]);
                continue;
            };
            let mut row = self.read_from(Machine::Load128, &[], 0, *low, 16);
            if let Some(high) = first.lanes.get(i + half) {
                row = self.read_from(Machine::InsertHigh, &[row, Reg::MEMORY], 1, *high, 16);
            }
            rows.push(row);
        }
        rows
    }

    fn transpose_from_memory(&mut self, members: &[&Strided]) {
        let rows = self.rows(members[0]);
        if let [even, odd] = rows[..] {
            for (op, member) in [Machine::UnpackLow64, Machine::UnpackHigh64].into_iter().zip(members) {
                self.part = member.part;
                self.emit(op, &[even, odd]);
                self.promise(member.register);
            }
            return;
        }
        self.columns(&rows, |lower, i, pair, imm| {
            lower.part = members[i].part;
            lower.emit_imm(Machine::Shuffle32, pair, imm);
            lower.promise(members[i].register);
        });
    }

    /// Transposes four by four words in each half; `each` computes the results in turn from two registers.
    fn columns(&mut self, rows: &[Reg], mut each: impl FnMut(&mut Self, usize, &[Reg], u16)) {
        for (pair, op) in [Machine::UnpackLow32, Machine::UnpackHigh32].into_iter().enumerate() {
            let (left, right) = (self.emit(op, &[rows[0], rows[1]]), self.emit(op, &[rows[2], rows[3]]));
            each(self, 2 * pair, &[left, right], 0x44);
            each(self, 2 * pair + 1, &[left, right], 0xee);
        }
    }

    fn transpose_to_memory(&mut self, members: &[&Strided]) {
        let values: SmallVec<[Reg; 4]> = members.iter().map(|member| member.register).collect();
        let lanes = &members[0].lanes;
        if let [even, odd] = values[..] {
            for (i, op) in [Machine::UnpackLow64, Machine::UnpackHigh64].into_iter().enumerate() {
                let rows = self.emit(op, &[even, odd]);
                self.store_rows(rows, lanes.get(i), lanes.get(i + 2));
            }
            return;
        }
        self.columns(&values, |lower, i, pair, imm| {
            let rows = lower.emit_imm(Machine::Shuffle32, pair, imm);
            lower.store_rows(rows, lanes.get(i), lanes.get(i + 4));
        });
    }

    /// Stores both halves of a register where there are rows for them.
    fn store_rows(&mut self, rows: Reg, low: Option<&Address>, high: Option<&Address>) {
        for (op, address) in [(Machine::Store128, low), (Machine::StoreHigh, high)] {
            if let Some(address) = address {
                let address = Some(Address { bytes: 16, ..*address });
                self.instruction(op, &[rows], 1, address, Access::Write);
            }
        }
    }
}
