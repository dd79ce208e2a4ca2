//! Loads and stores. None accesses a byte outside of its address's elements.

use smallvec::SmallVec;

use super::arithmetic::predicate;
use super::{LoweredValue, Lowering};
use crate::code::VectorCompileError;
use crate::machine::{Access, Address, Base, Reg, Stream, WORDS};
use crate::op::Op;
use crate::program::{LaneType, StoredType, Value, VectorAddress, VectorType};

/// The range of displacements that instructions encode; the rest of an offset belongs to the stream.
const OFFSETS: i64 = 1 << 30;

/// Bytes of a 128-bit lane, the unit within which insert and extract instructions select elements.
const LANE: u32 = 16;

impl Lowering<'_> {
    /// The address `plus` bytes after the start of a place.
    pub(super) fn address(&mut self, place: &VectorAddress, plus: i64, bytes: u32) -> Address {
        let (terms, offset) = self.affine(place.offset, &place.terms);
        let offset = offset.wrapping_add(plus);
        let base = place.base.map_or(Base::Scratch, Base::Arg);
        let here = (offset + OFFSETS / 2).rem_euclid(OFFSETS) - OFFSETS / 2;
        let stream = self.unit.stream(Stream { base, terms, offset: offset.wrapping_sub(here) });
        Address { stream, offset: here, bytes }
    }

    fn read(&mut self, op: Op, srcs: &[Reg], imm: u16, address: Address) -> Reg {
        self.instruction(op, srcs, imm, Some(address), Access::Read)
    }

    fn write(&mut self, op: Op, srcs: &[Reg], imm: u16, address: Address) {
        self.instruction(op, srcs, imm, Some(address), Access::Write);
    }

    // Loads.

    pub(super) fn load(
        &mut self,
        place: &VectorAddress,
        ty: VectorType,
        in_all_lanes: bool,
    ) -> Result<LoweredValue, VectorCompileError> {
        if self.is_neon() && ty.lanes == 1 && !in_all_lanes {
            // Such a load takes a displacement, unlike that to all lanes.
            let register = self.load_part(place, ty.element, 0, 1);
            return Ok(LoweredValue { parts: SmallVec::from_elem(register, 1), broadcast: false });
        }
        if ty.lanes == 1 || place.step == 0 {
            let register = self.load_broadcast(place, ty.element);
            return Ok(LoweredValue {
                parts: SmallVec::from_elem(register, self.parts(ty)),
                broadcast: true,
            });
        }
        let mut result = LoweredValue { parts: SmallVec::new(), broadcast: false };
        for part in 0..self.parts(ty) as u32 {
            self.part = part;
            let first = part * self.lanes_of(ty);
            let lanes = self.lanes_of(ty).min(ty.lanes - first);
            let register = self.load_part(place, ty.element, first, lanes);
            result.parts.push(register);
        }
        Ok(result)
    }

    fn load_broadcast(&mut self, place: &VectorAddress, element: LaneType) -> Reg {
        let size = place.memory.bytes().unwrap_or(element.bytes());
        let address = self.address(place, 0, size);
        match size {
            8 => self.read(Op::LoadAll64, &[], 0, address),
            4 => self.read(Op::LoadAll32, &[], 0, address),
            2 => {
                let all = self.read(Op::LoadAll16, &[], 0, address);
                self.extend(place.memory, all)
            }
            _ => {
                let all = self.read(Op::LoadAll8, &[], 0, address);
                self.extend(place.memory, all)
            }
        }
    }

    /// Loads the lanes from `first` on, at most one register of them.
    fn load_part(&mut self, place: &VectorAddress, element: LaneType, first: u32, lanes: u32) -> Reg {
        let size = place.memory.bytes().unwrap_or(element.bytes());
        let plus = i64::from(first) * place.step;
        if place.step != i64::from(size) && (lanes > 1 || !self.is_neon()) {
            let words = self.load_strided(place, plus, size, lanes);
            return self.extend(place.memory, words);
        }
        let bytes = lanes * size;
        let address = self.address(place, plus, bytes);
        let loaded = match bytes {
            _ if bytes == self.bytes() => self.read(Op::Load, &[], 0, address),
            _ if place.memory == StoredType::Same && bytes != 8 && bytes != 16 && !self.is_neon() => {
                let mask = self.mask(bytes);
                self.read(Op::LoadMasked, &[mask], 0, address)
            }
            _ => self.load_bytes(address, bytes),
        };
        self.extend(place.memory, loaded)
    }

    /// Loads at most 32 bytes into the lower part of a register.
    fn load_bytes(&mut self, address: Address, bytes: u32) -> Reg {
        if bytes == 32 {
            return self.read(Op::Load256, &[], 0, address);
        }
        if bytes > 16 {
            let behind = Address { offset: address.offset + 16, bytes: bytes - 16, ..address };
            let low = self.load_bytes(Address { bytes: 16, ..address }, 16);
            let high = self.load_bytes(behind, bytes - 16);
            return self.emit_imm(Op::InsertHigh, &[low, high], 1);
        }
        let (mut result, mut done) = match bytes {
            16.. => return self.read(Op::Load128, &[], 0, address),
            8.. => (self.read(Op::Load64, &[], 0, Address { bytes: 8, ..address }), 8),
            4.. => (self.read(Op::Load32, &[], 0, Address { bytes: 4, ..address }), 4),
            2.. if self.is_neon() => (self.read(Op::Load16, &[], 0, Address { bytes: 2, ..address }), 2),
            1.. if self.is_neon() => (self.read(Op::Load8, &[], 0, address), 1),
            _ => (self.constant32(0), 0),
        };
        while done < bytes {
            let at = Address { offset: address.offset + i64::from(done), ..address };
            let (op, size) = match bytes - done {
                4.. => (Op::Insert32, 4),
                2.. => (Op::Insert16, 2),
                _ => (Op::Insert8, 1),
            };
            result =
                self.read(op, &[result, Reg::MEMORY], (done / size) as u16, Address { bytes: size, ..at });
            done += size;
        }
        result
    }

    /// Loads elements that are not contiguous.
    fn load_strided(&mut self, place: &VectorAddress, plus: i64, size: u32, lanes: u32) -> Reg {
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
        self.emit_imm(Op::InsertHigh, &[low, high], 1)
    }

    /// Loads non-contiguous elements of less than four bytes into a 128-bit lane.
    fn load_lane(&mut self, addresses: &[Address], size: u32) -> Reg {
        let insert = if size == 2 { Op::Insert16 } else { Op::Insert8 };
        let mut result = self.constant32(0);
        for (lane, &address) in addresses.iter().enumerate() {
            result = self.read(insert, &[result, Reg::MEMORY], lane as u16, address);
        }
        result
    }

    fn lane_addresses(
        &mut self,
        place: &VectorAddress,
        plus: i64,
        size: u32,
        lanes: u32,
    ) -> SmallVec<[Address; 8]> {
        let lanes = 0..i64::from(lanes);
        lanes.map(|lane| self.address(place, plus + lane * place.step, size)).collect()
    }

    /// Converts elements from their type in memory to lanes.
    fn extend(&mut self, memory: StoredType, a: Reg) -> Reg {
        match memory {
            StoredType::Same => a,
            StoredType::U8 => self.emit(Op::ExtendU8, &[a]),
            StoredType::I8 => self.emit(Op::ExtendI8, &[a]),
            StoredType::U16 => self.emit(Op::ExtendU16, &[a]),
            StoredType::I16 => self.emit(Op::ExtendI16, &[a]),
            StoredType::F16 => self.emit(Op::F16ToF32, &[a]),
            StoredType::BF16 if self.is_neon() => self.emit(Op::Bf16ToF32, &[a]),
            StoredType::BF16 => {
                let wide = self.emit(Op::ExtendU16, &[a]);
                self.emit_imm(Op::Shl32, &[wide], 16)
            }
        }
    }

    pub(super) fn load_if(
        &mut self,
        condition: Value,
        place: &VectorAddress,
        otherwise: Value,
        ty: VectorType,
    ) -> Result<LoweredValue, VectorCompileError> {
        let size = ty.element.bytes();
        let once =
            ty.lanes > 1 && place.step == 0 && self.ty(condition).lanes == 1 && self.ty(otherwise).lanes == 1;
        if once {
            // All lanes load the same element under the same condition.
            let one = self.load_if(condition, place, otherwise, VectorType { lanes: 1, ..ty })?;
            let all = self.emit(if size == 4 { Op::All32 } else { Op::All64 }, &[one.parts[0]]);
            return Ok(LoweredValue { parts: SmallVec::from_elem(all, self.parts(ty)), broadcast: true });
        }
        if place.memory != StoredType::Same || (ty.lanes > 1 && place.step != i64::from(size)) {
            return Err(VectorCompileError::LoadIf);
        }
        let mut result = LoweredValue { parts: SmallVec::new(), broadcast: false };
        for part in 0..self.parts(ty) as u32 {
            self.part = part;
            let first = part * self.lanes_of(ty);
            let bytes = size * self.lanes_of(ty).min(ty.lanes - first);
            let address = self.address(place, i64::from(first * size), bytes);
            let condition = self.part_of(condition, part as usize);
            let otherwise = self.part_of(otherwise, part as usize);
            if self.is_neon() {
                let op = if size == 4 { Op::LoadLanes32 } else { Op::LoadLanes64 };
                let loaded = self.read(op, &[condition, otherwise], (bytes / size) as u16, address);
                result.parts.push(loaded);
                continue;
            }
            let mut wanted = condition;
            if bytes < self.bytes() {
                let mask = self.mask(bytes);
                wanted = self.emit(Op::AndF, &[condition, mask]);
            }
            let loaded = self.read(Op::LoadMasked, &[wanted], 0, address);
            let chosen = self.emit(Op::BlendV, &[otherwise, loaded, condition]);
            result.parts.push(chosen);
        }
        Ok(result)
    }

    // Stores.

    pub(super) fn store(
        &mut self,
        place: &VectorAddress,
        value: Value,
        streaming: bool,
    ) -> Result<(), VectorCompileError> {
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

    /// Stores contiguous elements.
    fn store_part(&mut self, place: &VectorAddress, stored: Reg, address: Address, streaming: bool) {
        match address.bytes {
            bytes if bytes == self.bytes() && streaming && self.is_aligned(address) && !self.is_neon() => {
                self.unit.streaming = true;
                self.write(Op::StoreStreaming, &[stored], 0, address);
            }
            bytes if bytes == self.bytes() => self.write(Op::Store, &[stored], 0, address),
            bytes if place.memory == StoredType::Same && !matches!(bytes, 4 | 8 | 16) && !self.is_neon() => {
                let mask = self.mask(bytes);
                self.write(Op::StoreMasked, &[mask, stored], 0, address);
            }
            _ => self.store_bytes(stored, address),
        }
    }

    /// Whether an address is known to be a multiple of the register size, as every base address is.
    fn is_aligned(&self, address: Address) -> bool {
        let stream = &self.unit.streams[address.stream as usize];
        let mut bytes = stream.terms.iter().map(|(_, c)| *c).chain([stream.offset, address.offset]);
        bytes.all(|bytes| bytes % i64::from(self.bytes()) == 0)
    }

    /// Stores at most 32 bytes from the start of a register.
    fn store_bytes(&mut self, stored: Reg, address: Address) {
        if address.bytes > 16 {
            let behind = Address { offset: address.offset + 16, bytes: address.bytes - 16, ..address };
            self.store_bytes(stored, Address { bytes: 16, ..address });
            let high = self.emit_imm(Op::ExtractHigh, &[stored], 1);
            return self.store_bytes(high, behind);
        }
        let mut done = 0;
        while done < address.bytes {
            let (op, size) = match (address.bytes - done, done) {
                (16.., _) => (Op::Store128, 16),
                (8.., 0) => (Op::Store64, 8),
                (4.., 0) => (Op::Store32, 4),
                (8.., _) => (Op::Extract64, 8),
                (4.., _) => (Op::Extract32, 4),
                (2.., _) => (Op::Extract16, 2),
                _ => (Op::Extract8, 1),
            };
            let at = Address { offset: address.offset + i64::from(done), bytes: size, ..address };
            self.write(op, &[stored], (done / size) as u16, at);
            done += size;
        }
    }

    fn store_strided(&mut self, place: &VectorAddress, plus: i64, size: u32, lanes: u32, stored: Reg) {
        let addresses = self.lane_addresses(place, plus, size, lanes);
        if size >= 4 {
            return self.note_store(stored, addresses, size);
        }
        let extract = if size == 2 { Op::Extract16 } else { Op::Extract8 };
        for (half, addresses) in addresses.chunks((LANE / size) as usize).enumerate() {
            let from = match half {
                0 => stored,
                half => self.emit_imm(Op::ExtractHigh, &[stored], half as u16),
            };
            for (lane, &address) in addresses.iter().enumerate() {
                self.write(extract, &[from], lane as u16, address);
            }
        }
    }

    /// Converts lanes to their type in memory, packed at the start of a register.
    fn shorten(&mut self, memory: StoredType, a: Reg) -> Reg {
        let wide = self.words() != 8;
        match memory {
            StoredType::BF16 if self.is_neon() => {
                let rounded = self.round_to_bf16(a);
                self.emit(Op::PackUpper16, &[rounded])
            }
            StoredType::U8 | StoredType::I8 if wide => self.emit(Op::PackU8, &[a]),
            StoredType::U16 | StoredType::I16 if wide => self.emit(Op::PackU16, &[a]),
            StoredType::BF16 if wide => {
                let rounded = self.round_to_bf16(a);
                let upper = self.emit_imm(Op::Shr32, &[rounded], 16);
                self.emit(Op::PackU16, &[upper])
            }
            StoredType::Same => a,
            StoredType::U8 | StoredType::I8 => self.low_bytes(a),
            StoredType::U16 | StoredType::I16 => self.words_from(a, 0),
            StoredType::F16 => self.emit_imm(Op::F32ToF16, &[a], 0),
            StoredType::BF16 => {
                let rounded = self.round_to_bf16(a);
                self.words_from(rounded, 2)
            }
        }
    }

    /// The lowest byte of each lane, packed.
    fn low_bytes(&mut self, a: Reg) -> Reg {
        let mut words = [u32::MAX; WORDS];
        (words[0], words[4]) = (0x0c08_0400, 0x0c08_0400);
        let order = self.constant(words);
        let packed = self.emit(Op::ShuffleBytes, &[a, order]);
        let both = std::array::from_fn(|i| (i < 2).then_some((packed, 4 * i as u8)));
        self.gather_words(&both)
    }

    /// Two bytes of each lane from byte `first` on, packed.
    fn words_from(&mut self, a: Reg, first: u32) -> Reg {
        let byte = |lane: u32, byte: u32| (4 * lane + first + byte) << (8 * (byte + 2 * (lane % 2)));
        let pair = |lane: u32| byte(lane, 0) | byte(lane, 1) | byte(lane + 1, 0) | byte(lane + 1, 1);
        let (low, high) = (pair(0), pair(2));
        let half = [low, high, u32::MAX, u32::MAX];
        let order = self.constant(std::array::from_fn(|i| half[i % 4]));
        let packed = self.emit(Op::ShuffleBytes, &[a, order]);
        self.emit_imm(Op::Permute64, &[packed], 0b1000)
    }

    /// Rounds to nearest even by adding half a unit in the last place, or slightly less if the last remaining
    /// bit is even. NaN gets its quiet bit, so that truncation keeps it a NaN.
    fn round_to_bf16(&mut self, a: Reg) -> Reg {
        let (one, half, quiet) = (self.constant32(1), self.constant32(0x7fff), self.constant32(0x40_0000));
        let last = self.emit_imm(Op::Shr32, &[a], 16);
        let last = self.emit(Op::And, &[last, one]);
        let sum = self.emit(Op::AddI32, &[a, half]);
        let sum = self.emit(Op::AddI32, &[sum, last]);
        if self.is_neon() {
            let (ordered, nan) = (self.emit(Op::EqF32, &[a, a]), self.emit(Op::Or, &[a, quiet]));
            return self.emit(Op::BlendV, &[nan, sum, ordered]);
        }
        let unordered = self.emit_imm(Op::CmpF32, &[a, a], predicate::UNORDERED);
        let nan = self.emit(Op::Or, &[a, quiet]);
        self.emit(Op::BlendV, &[sum, nan, unordered])
    }
}
