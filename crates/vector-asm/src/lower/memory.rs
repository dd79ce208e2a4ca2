//! Loads and stores of all kinds. None touches a byte that the place does not have.

use smallvec::SmallVec;

use super::arithmetic::predicate;
use super::{Lanes, Lower};
use crate::avx2::Op as Machine;
use crate::code::Refusal;
use crate::machine::{Access, Address, Base, Reg, Stream, WORDS};
use crate::program::{Element, Memory, Place, Type, Value};

/// The largest part of an offset that instructions hold; the rest is the stream's.
const OFFSETS: i64 = 1 << 30;

/// Bytes of the part of a register that instructions pick elements from by number.
const LANE: u32 = 16;

impl Lower<'_> {
    /// The address of a place, so many bytes on.
    pub(super) fn address(&mut self, place: &Place, plus: i64, bytes: u32) -> Address {
        let (terms, offset) = self.affine(place.offset, &place.terms);
        let offset = offset.wrapping_add(plus);
        let base = place.base.map_or(Base::Scratch, Base::Arg);
        let here = (offset + OFFSETS / 2).rem_euclid(OFFSETS) - OFFSETS / 2;
        let stream = self.unit.stream(Stream { base, terms, offset: offset.wrapping_sub(here) });
        Address { stream, offset: here, bytes }
    }

    fn read(&mut self, op: Machine, srcs: &[Reg], imm: u16, address: Address) -> Reg {
        self.instruction(op, srcs, imm, Some(address), Access::Read)
    }

    fn write(&mut self, op: Machine, srcs: &[Reg], imm: u16, address: Address) {
        self.instruction(op, srcs, imm, Some(address), Access::Write);
    }

    // Loads.

    pub(super) fn load(&mut self, place: &Place, ty: Type) -> Result<Lanes, Refusal> {
        if ty.lanes == 1 || place.step == 0 {
            let register = self.load_everywhere(place, ty.element);
            return Ok(Lanes { parts: SmallVec::from_elem(register, self.parts(ty)), everywhere: true });
        }
        let mut result = Lanes { parts: SmallVec::new(), everywhere: false };
        for part in 0..self.parts(ty) as u32 {
            self.part = part;
            let first = part * self.lanes_of(ty);
            let lanes = self.lanes_of(ty).min(ty.lanes - first);
            let register = self.load_part(place, ty.element, first, lanes);
            result.parts.push(register);
        }
        Ok(result)
    }

    /// One element in all lanes.
    fn load_everywhere(&mut self, place: &Place, element: Element) -> Reg {
        let size = place.memory.bytes().unwrap_or(element.bytes());
        let address = self.address(place, 0, size);
        match size {
            8 => self.read(Machine::LoadAll64, &[], 0, address),
            4 => self.read(Machine::LoadAll32, &[], 0, address),
            2 => {
                let all = self.read(Machine::LoadAll16, &[], 0, address);
                self.extend(place.memory, all)
            }
            _ => {
                let all = self.read(Machine::LoadAll8, &[], 0, address);
                self.extend(place.memory, all)
            }
        }
    }

    /// Lanes from `first` on, at most a register full.
    fn load_part(&mut self, place: &Place, element: Element, first: u32, lanes: u32) -> Reg {
        let size = place.memory.bytes().unwrap_or(element.bytes());
        let plus = i64::from(first) * place.step;
        if place.step != i64::from(size) {
            let words = self.load_strided(place, plus, size, lanes);
            return self.extend(place.memory, words);
        }
        let bytes = lanes * size;
        let address = self.address(place, plus, bytes);
        let loaded = match bytes {
            _ if bytes == self.bytes() => self.read(Machine::Load, &[], 0, address),
            _ if place.memory == Memory::Same && bytes != 8 && bytes != 16 => {
                let mask = self.mask(bytes);
                self.read(Machine::LoadMasked, &[mask], 0, address)
            }
            _ => self.load_bytes(address, bytes),
        };
        self.extend(place.memory, loaded)
    }

    /// At most 32 bytes, in the lower part of a register.
    fn load_bytes(&mut self, address: Address, bytes: u32) -> Reg {
        if bytes == 32 {
            return self.read(Machine::Load256, &[], 0, address);
        }
        if bytes > 16 {
            let behind = Address { offset: address.offset + 16, bytes: bytes - 16, ..address };
            let low = self.load_bytes(Address { bytes: 16, ..address }, 16);
            let high = self.load_bytes(behind, bytes - 16);
            return self.emit_imm(Machine::InsertHigh, &[low, high], 1);
        }
        let (mut result, mut done) = match bytes {
            16.. => return self.read(Machine::Load128, &[], 0, address),
            8.. => (self.read(Machine::Load64, &[], 0, Address { bytes: 8, ..address }), 8),
            4.. => (self.read(Machine::Load32, &[], 0, Address { bytes: 4, ..address }), 4),
            _ => (self.constant32(0), 0),
        };
        while done < bytes {
            let at = Address { offset: address.offset + i64::from(done), ..address };
            let (op, size) = match bytes - done {
                4.. => (Machine::Insert32, 4),
                2.. => (Machine::Insert16, 2),
                _ => (Machine::Insert8, 1),
            };
            result =
                self.read(op, &[result, Reg::MEMORY], (done / size) as u16, Address { bytes: size, ..at });
            done += size;
        }
        result
    }

    /// Elements that are apart.
    fn load_strided(&mut self, place: &Place, plus: i64, size: u32, lanes: u32) -> Reg {
        let addresses = self.lane_addresses(place, plus, size, lanes);
        if size >= 4 {
            return self.note_load(addresses, size);
        }
        let (low, high) = addresses.split_at(addresses.len().min((LANE / size) as usize));
        let low = self.load_lane(low, size);
        if high.is_empty() {
            return low;
        }
        let high = self.load_lane(high, size);
        self.emit_imm(Machine::InsertHigh, &[low, high], 1)
    }

    /// Elements of less than four bytes that are apart, as many as instructions put into a register one by one.
    fn load_lane(&mut self, addresses: &[Address], size: u32) -> Reg {
        let insert = if size == 2 { Machine::Insert16 } else { Machine::Insert8 };
        let mut result = self.constant32(0);
        for (lane, &address) in addresses.iter().enumerate() {
            result = self.read(insert, &[result, Reg::MEMORY], lane as u16, address);
        }
        result
    }

    fn lane_addresses(&mut self, place: &Place, plus: i64, size: u32, lanes: u32) -> SmallVec<[Address; 8]> {
        let lanes = 0..i64::from(lanes);
        lanes.map(|lane| self.address(place, plus + lane * place.step, size)).collect()
    }

    /// Elements as they are in memory to lanes.
    fn extend(&mut self, memory: Memory, a: Reg) -> Reg {
        match memory {
            Memory::Same => a,
            Memory::U8 => self.emit(Machine::ExtendU8, &[a]),
            Memory::I8 => self.emit(Machine::ExtendI8, &[a]),
            Memory::U16 => self.emit(Machine::ExtendU16, &[a]),
            Memory::I16 => self.emit(Machine::ExtendI16, &[a]),
            Memory::F16 => self.emit(Machine::F16ToF32, &[a]),
            Memory::BF16 => {
                let wide = self.emit(Machine::ExtendU16, &[a]);
                self.emit_imm(Machine::Shl32, &[wide], 16)
            }
        }
    }

    pub(super) fn load_if(
        &mut self,
        condition: Value,
        place: &Place,
        otherwise: Value,
        ty: Type,
    ) -> Result<Lanes, Refusal> {
        let size = ty.element.bytes();
        let once =
            ty.lanes > 1 && place.step == 0 && self.ty(condition).lanes == 1 && self.ty(otherwise).lanes == 1;
        if once {
            // The same element, loaded or not, for all lanes.
            let one = self.load_if(condition, place, otherwise, Type { lanes: 1, ..ty })?;
            let all = self.emit(if size == 4 { Machine::All32 } else { Machine::All64 }, &[one.parts[0]]);
            return Ok(Lanes { parts: SmallVec::from_elem(all, self.parts(ty)), everywhere: true });
        }
        if place.memory != Memory::Same || (ty.lanes > 1 && place.step != i64::from(size)) {
            return Err(Refusal::LoadIf);
        }
        let mut result = Lanes { parts: SmallVec::new(), everywhere: false };
        for part in 0..self.parts(ty) as u32 {
            self.part = part;
            let first = part * self.lanes_of(ty);
            let bytes = size * self.lanes_of(ty).min(ty.lanes - first);
            let address = self.address(place, i64::from(first * size), bytes);
            let condition = self.part_of(condition, part as usize);
            let otherwise = self.part_of(otherwise, part as usize);
            let mut wanted = condition;
            if bytes < self.bytes() {
                let mask = self.mask(bytes);
                wanted = self.emit(Machine::AndF, &[condition, mask]);
            }
            let loaded = self.read(Machine::LoadMasked, &[wanted], 0, address);
            let chosen = self.emit(Machine::BlendV, &[otherwise, loaded, condition]);
            result.parts.push(chosen);
        }
        Ok(result)
    }

    // Stores.

    pub(super) fn store(&mut self, place: &Place, value: Value, streaming: bool) -> Result<(), Refusal> {
        let ty = self.ty(value);
        let size = place.memory.bytes().unwrap_or(ty.element.bytes());
        for part in 0..self.parts(ty) as u32 {
            self.part = part;
            let first = part * self.lanes_of(ty);
            let lanes = self.lanes_of(ty).min(ty.lanes - first);
            let register = self.part_of(value, part as usize);
            let stored = self.shorten(place.memory, register);
            let plus = i64::from(first) * place.step;
            if place.step == i64::from(size) || lanes == 1 {
                let address = self.address(place, plus, lanes * size);
                self.store_part(place, stored, address, streaming);
            } else {
                self.store_strided(place, plus, size, lanes, stored);
            }
        }
        Ok(())
    }

    /// Bytes that are side by side.
    fn store_part(&mut self, place: &Place, stored: Reg, address: Address, streaming: bool) {
        match address.bytes {
            bytes if bytes == self.bytes() && streaming && self.is_aligned(address) => {
                self.unit.streaming = true;
                self.write(Machine::StorePast, &[stored], 0, address);
            }
            bytes if bytes == self.bytes() => self.write(Machine::Store, &[stored], 0, address),
            bytes if place.memory == Memory::Same && !matches!(bytes, 4 | 8 | 16) => {
                let mask = self.mask(bytes);
                self.write(Machine::StoreMasked, &[mask, stored], 0, address);
            }
            _ => self.store_bytes(stored, address),
        }
    }

    /// Whether an address is a multiple of a register's bytes; bases are.
    fn is_aligned(&self, address: Address) -> bool {
        let stream = &self.unit.streams[address.stream as usize];
        let mut bytes = stream.terms.iter().map(|(_, c)| *c).chain([stream.offset, address.offset]);
        bytes.all(|bytes| bytes % i64::from(self.bytes()) == 0)
    }

    /// At most 32 bytes from the beginning of a register.
    fn store_bytes(&mut self, stored: Reg, address: Address) {
        if address.bytes > 16 {
            let behind = Address { offset: address.offset + 16, bytes: address.bytes - 16, ..address };
            self.store_bytes(stored, Address { bytes: 16, ..address });
            let high = self.emit_imm(Machine::ExtractHigh, &[stored], 1);
            return self.store_bytes(high, behind);
        }
        let mut done = 0;
        while done < address.bytes {
            let (op, size) = match (address.bytes - done, done) {
                (16.., _) => (Machine::Store128, 16),
                (8.., 0) => (Machine::Store64, 8),
                (4.., 0) => (Machine::Store32, 4),
                (8.., _) => (Machine::Extract64, 8),
                (4.., _) => (Machine::Extract32, 4),
                (2.., _) => (Machine::Extract16, 2),
                _ => (Machine::Extract8, 1),
            };
            let at = Address { offset: address.offset + i64::from(done), bytes: size, ..address };
            self.write(op, &[stored], (done / size) as u16, at);
            done += size;
        }
    }

    fn store_strided(&mut self, place: &Place, plus: i64, size: u32, lanes: u32, stored: Reg) {
        let addresses = self.lane_addresses(place, plus, size, lanes);
        if size >= 4 {
            return self.note_store(stored, addresses, size);
        }
        let extract = if size == 2 { Machine::Extract16 } else { Machine::Extract8 };
        for (half, addresses) in addresses.chunks((LANE / size) as usize).enumerate() {
            let from = match half {
                0 => stored,
                half => self.emit_imm(Machine::ExtractHigh, &[stored], half as u16),
            };
            for (lane, &address) in addresses.iter().enumerate() {
                self.write(extract, &[from], lane as u16, address);
            }
        }
    }

    /// Lanes to elements as they are in memory, side by side from the beginning of a register.
    fn shorten(&mut self, memory: Memory, a: Reg) -> Reg {
        let wide = self.words() > 8;
        match memory {
            Memory::U8 | Memory::I8 if wide => self.emit(Machine::PackU8, &[a]),
            Memory::U16 | Memory::I16 if wide => self.emit(Machine::PackU16, &[a]),
            Memory::BF16 if wide => {
                let rounded = self.round_to_bf16(a);
                let upper = self.emit_imm(Machine::Shr32, &[rounded], 16);
                self.emit(Machine::PackU16, &[upper])
            }
            Memory::Same => a,
            Memory::U8 | Memory::I8 => self.low_bytes(a),
            Memory::U16 | Memory::I16 => self.words_from(a, 0),
            Memory::F16 => self.emit_imm(Machine::F32ToF16, &[a], 0),
            Memory::BF16 => {
                let rounded = self.round_to_bf16(a);
                self.words_from(rounded, 2)
            }
        }
    }

    /// The lowest byte of each lane.
    fn low_bytes(&mut self, a: Reg) -> Reg {
        let mut words = [u32::MAX; WORDS];
        (words[0], words[4]) = (0x0c08_0400, 0x0c08_0400);
        let order = self.constant(words);
        let packed = self.emit(Machine::ShuffleBytes, &[a, order]);
        let both = std::array::from_fn(|i| (i < 2).then_some((packed, 4 * i as u8)));
        self.gather_words(&both)
    }

    /// Two bytes of each lane, from byte `first` of the lane on.
    fn words_from(&mut self, a: Reg, first: u32) -> Reg {
        let byte = |lane: u32, byte: u32| (4 * lane + first + byte) << (8 * (byte + 2 * (lane % 2)));
        let pair = |lane: u32| byte(lane, 0) | byte(lane, 1) | byte(lane + 1, 0) | byte(lane + 1, 1);
        let (low, high) = (pair(0), pair(2));
        let half = [low, high, u32::MAX, u32::MAX];
        let order = self.constant(std::array::from_fn(|i| half[i % 4]));
        let packed = self.emit(Machine::ShuffleBytes, &[a, order]);
        self.emit_imm(Machine::Permute64, &[packed], 0b1000)
    }

    /// Half of the last place is added, a little less where the last bit that stays is even. NaN gets its quiet bit, so that it stays NaN.
    fn round_to_bf16(&mut self, a: Reg) -> Reg {
        let (one, half, quiet) = (self.constant32(1), self.constant32(0x7fff), self.constant32(0x40_0000));
        let last = self.emit_imm(Machine::Shr32, &[a], 16);
        let last = self.emit(Machine::And, &[last, one]);
        let sum = self.emit(Machine::AddI32, &[a, half]);
        let sum = self.emit(Machine::AddI32, &[sum, last]);
        let unordered = self.emit_imm(Machine::CmpF32, &[a, a], predicate::UNORDERED);
        let nan = self.emit(Machine::Or, &[a, quiet]);
        self.emit(Machine::BlendV, &[sum, nan, unordered])
    }
}
