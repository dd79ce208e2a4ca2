//! Accesses of memory: where they are, whether they are allowed, and what they do.

use super::arith;
use super::block::{Run, Shared};
use super::clocks::{SEVERAL, Who};
use super::convert::extend;
use super::copies::Copy;
use super::fault::{Access, At, Cause, Check, Outcome, SpaceName, Spot, malformed};
use super::machine::Machine;
use super::proxy::Clash;
use super::races::{Conflict, Shadow};
use super::registers::{Lanes, lanes};
use super::warp::Warp;
use ptx_asm::{AddressBase, AddressOperand, PtxOperand, Reg, StateSpace};
use ptx_asm::{AtomicOp, Ty};

/// Global memory during a launch.
#[derive(Debug)]
pub(super) struct Global<'a> {
    machine: &'a mut Machine,
    /// What was done to each region.
    shadows: Vec<Shadow>,
}

impl<'a> Global<'a> {
    pub(super) fn new(machine: &'a mut Machine) -> Global<'a> {
        let shadow = |i| Shadow::new(machine.region(i).bytes.len(), None);
        let shadows = (0..machine.len()).map(shadow).collect();
        Global { machine, shadows }
    }
}

/// Bytes of an array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Located {
    pub(super) space: StateSpace,
    /// The region of global memory, or the block of the cluster, or the thread of this block, whose memory it is.
    pub(super) of: usize,
    /// The place of the first.
    pub(super) at: usize,
}

impl Run<'_> {
    /// The addresses that lanes access.
    pub(super) fn addresses(
        &self,
        warp: &Warp,
        mask: u32,
        space: StateSpace,
        place: AddressOperand,
    ) -> Outcome<Lanes> {
        let mut addresses = match place.base {
            AddressBase::Reg(reg) => *warp.registers.get(self.program, reg, mask)?,
            AddressBase::Array(array) => {
                let layout = match space {
                    StateSpace::Shared => &self.program.shared,
                    StateSpace::Local => &self.program.local,
                    StateSpace::Global => return malformed("global memory has no arrays").at(0),
                };
                [u64::from(layout.address(array).at(mask.trailing_zeros() as usize)?); 32]
            }
        };
        for address in &mut addresses {
            let sum = address.wrapping_add_signed(i64::from(place.offset));
            *address = if space == StateSpace::Global { sum } else { arith::cut(sum, 32) };
        }
        Ok(addresses)
    }

    /// Finds bytes; they have to be aligned to `align`.
    pub(super) fn locate(
        &self,
        space: StateSpace,
        who: &Who,
        address: u64,
        bytes: u32,
        align: u32,
    ) -> Check<Located> {
        if !address.is_multiple_of(u64::from(align)) {
            return Err(Box::new(Cause::Misaligned { space: SpaceName(space), address, align }));
        }
        let (of, at) = match space {
            StateSpace::Global => self.global.machine.locate(address, bytes)?,
            StateSpace::Shared => (who.rank as usize, self.program.shared.locate(address as u32, bytes)?),
            StateSpace::Local => (usize::from(who.thread), self.program.local.locate(address as u32, bytes)?),
        };
        Ok(Located { space, of, at })
    }

    pub(super) fn spot(&self, located: Located, at: usize) -> Spot {
        match located.space {
            StateSpace::Global => self.global.machine.spot(located.of, at),
            StateSpace::Shared => self.program.shared.spot(at),
            StateSpace::Local => self.program.local.spot(at),
        }
    }

    /// Whether nothing forbids the access: no copy that is under way, no race, no lack of anything to read.
    pub(super) fn allowed(
        &mut self,
        shared: &mut Shared,
        who: &Who,
        located: Located,
        bytes: u32,
        access: Access,
    ) -> Check<()> {
        let writes = access != Access::Read;
        if located.space == StateSpace::Shared {
            self.no_barrier(shared, located, bytes)?;
            let (memory, clocks) = (&shared.memories[located.of], &shared.clocks);
            let found = memory.proxy.check(located.at, bytes as usize, writes, who, clocks);
            found.map_err(|clash| self.clashes(located, access, clash))?;
        }
        self.ordered(shared, who, located, bytes, access)
    }

    /// Whether nothing that threads did themselves forbids the access.
    pub(super) fn ordered(
        &mut self,
        shared: &mut Shared,
        who: &Who,
        located: Located,
        bytes: u32,
        access: Access,
    ) -> Check<()> {
        let bytes = bytes as usize;
        let (at, of) = (located.at, located.of);
        let conflict = match located.space {
            StateSpace::Global => self.global.shadows[of].check(at, bytes, access, who, &shared.clocks),
            StateSpace::Shared => {
                let memory = &mut shared.memories[of];
                if let Some((byte, owner)) = memory.copies.owner(at, bytes) {
                    return Err(Box::new(Cause::UnderWay { spot: self.spot(located, byte), owner }));
                }
                memory.shadow.check(at, bytes, access, who, &shared.clocks)
            }
            StateSpace::Local => Ok(()),
        };
        conflict.map_err(|conflict| self.race(located, access, conflict))?;
        if access == Access::Write {
            return Ok(());
        }
        let unwritten = match located.space {
            StateSpace::Global => self.global.machine.region(of).unwritten(at, bytes),
            StateSpace::Shared => shared.memories[of].contents.unwritten(at, bytes),
            StateSpace::Local => shared.memories[who.rank as usize].local[of].unwritten(at, bytes),
        };
        match unwritten {
            Some(byte) => Err(Box::new(Cause::Uninitialised { spot: self.spot(located, byte) })),
            None => Ok(()),
        }
    }

    /// What copies of tiles and products forbid.
    pub(super) fn clashes(&self, located: Located, access: Access, clash: Clash) -> Box<Cause> {
        Box::new(match clash {
            Clash::Written { at, thread } => Cause::UnderWay { spot: self.spot(located, at), owner: thread },
            Clash::Read { at, by } => Cause::StillRead { spot: self.spot(located, at), by },
            Clash::Race { at, other, other_access } => {
                Cause::Race { spot: self.spot(located, at), access, other, other_access }
            }
            Clash::Unfenced { at, writer } => Cause::Unfenced { spot: self.spot(located, at), writer },
        })
    }

    fn race(&self, located: Located, access: Access, conflict: Conflict) -> Box<Cause> {
        let (spot, other) = (self.spot(located, conflict.at), conflict.other);
        Box::new(match conflict.access {
            Some(other_access) => Cause::Race { spot, access, other, other_access },
            None => Cause::NotConstant { spot, other },
        })
    }

    /// Remembers an access.
    pub(super) fn mark(
        &mut self,
        shared: &mut Shared,
        who: &Who,
        located: Located,
        bytes: u32,
        access: Access,
    ) {
        let (at, bytes) = (located.at, bytes as usize);
        match located.space {
            StateSpace::Global => {
                self.global.shadows[located.of].mark(at, bytes, access, who, &shared.clocks)
            }
            StateSpace::Shared => {
                let memory = &mut shared.memories[located.of];
                memory.shadow.mark(at, bytes, access, who, &shared.clocks);
                if self.program.is_asynchronous && access != Access::Read {
                    memory.proxy.written(at, bytes, who);
                }
            }
            StateSpace::Local => {}
        }
    }

    /// The bytes there, up to 16.
    pub(super) fn peek(&self, shared: &Shared, who: &Who, located: Located, bytes: u32) -> [u8; 16] {
        let range = located.at..located.at + bytes as usize;
        let source = match located.space {
            StateSpace::Global => &self.global.machine.region(located.of).bytes[range],
            StateSpace::Shared => &shared.memories[located.of].contents.bytes[range],
            StateSpace::Local => &shared.memories[who.rank as usize].local[located.of].bytes[range],
        };
        let mut data = [0; 16];
        data[..source.len()].copy_from_slice(source);
        data
    }

    /// Puts bytes there.
    pub(super) fn poke(&mut self, shared: &mut Shared, who: &Who, located: Located, data: &[u8]) {
        match located.space {
            StateSpace::Global => self.global.machine.write(located.of, located.at, data),
            StateSpace::Shared => shared.memories[located.of].contents.write(located.at, data),
            StateSpace::Local => shared.memories[who.rank as usize].local[located.of].write(located.at, data),
        }
    }

    /// Counts an access of a warp.
    pub(super) fn count(&mut self, inst: usize, space: StateSpace, mask: u32, addresses: &Lanes, bytes: u32) {
        let stats = &mut self.stats[inst];
        match space {
            StateSpace::Global => stats.global(mask, addresses, bytes),
            StateSpace::Shared => stats.shared(mask, addresses, bytes),
            StateSpace::Local => stats.bytes += u64::from(mask.count_ones() * bytes),
        }
    }
}

/// A load or store of a warp.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    /// The instruction's number.
    pub(super) inst: usize,
    pub(super) mask: u32,
    pub(super) space: StateSpace,
    pub(super) ty: Ty,
    pub(super) place: AddressOperand,
}

impl Transfer {
    /// The size of so many elements, which is their alignment.
    fn bytes(&self, count: usize) -> Check<u32> {
        let bytes = self.ty.bytes() * count as u32;
        if !matches!(count, 1 | 2 | 4) || !matches!(bytes, 1..=16) {
            return malformed(format!("one access of {count} elements of {:?}", self.ty));
        }
        Ok(bytes)
    }

    fn first(&self) -> usize {
        self.mask.trailing_zeros() as usize
    }
}

impl Run<'_> {
    /// [`ptx_asm::Inst::Load`].
    pub(super) fn load(
        &mut self,
        warp: &mut Warp,
        shared: &mut Shared,
        transfer: Transfer,
        dsts: &[Reg],
        constant: bool,
    ) -> Outcome<()> {
        let Transfer { inst, mask, space, ty, place } = transfer;
        let bytes = transfer.bytes(dsts.len()).at(transfer.first())?;
        if constant && space != StateSpace::Global {
            return malformed("only global memory is constant").at(transfer.first());
        }
        let access = if constant { Access::Constant } else { Access::Read };
        let addresses = self.addresses(warp, mask, space, place)?;
        self.count(inst, space, mask, &addresses, bytes);
        let mut values = [[0; 32]; 4];
        for lane in lanes(mask) {
            let who = warp.who(lane);
            let located = self.locate(space, &who, addresses[lane], bytes, bytes).at(lane)?;
            self.allowed(shared, &who, located, bytes, access).at(lane)?;
            self.mark(shared, &who, located, bytes, access);
            let data = self.peek(shared, &who, located, bytes);
            for (value, element) in values.iter_mut().zip(data.chunks(ty.bytes() as usize).take(dsts.len())) {
                value[lane] = extend(ty, little_endian(element));
            }
        }
        for (&dst, values) in dsts.iter().zip(&values) {
            warp.registers.set(self.program, dst, mask, values);
        }
        Ok(())
    }

    /// [`ptx_asm::Inst::Store`].
    pub(super) fn store(
        &mut self,
        warp: &mut Warp,
        shared: &mut Shared,
        transfer: Transfer,
        srcs: &[PtxOperand],
    ) -> Outcome<()> {
        let Transfer { inst, mask, space, ty, place } = transfer;
        let bytes = transfer.bytes(srcs.len()).at(transfer.first())?;
        let addresses = self.addresses(warp, mask, space, place)?;
        self.count(inst, space, mask, &addresses, bytes);
        let mut data = [[0; 16]; 32];
        for (i, &src) in srcs.iter().enumerate() {
            let values = warp.registers.operand(self.program, src, mask)?;
            let size = ty.bytes() as usize;
            for lane in lanes(mask) {
                data[lane][i * size..(i + 1) * size].copy_from_slice(&values[lane].to_le_bytes()[..size]);
            }
        }
        let mut places = [None; 32];
        for lane in lanes(mask) {
            let who = warp.who(lane);
            let located = self.locate(space, &who, addresses[lane], bytes, bytes).at(lane)?;
            self.allowed(shared, &who, located, bytes, Access::Write).at(lane)?;
            places[lane] = Some(located);
        }
        let together = self.clash(space, &addresses, mask, &places, &data, bytes)?;
        for lane in lanes(mask) {
            let Some(located) = places[lane] else { continue };
            let mut who = warp.who(lane);
            if together >> lane & 1 == 1 {
                who.thread = SEVERAL;
            }
            self.mark(shared, &who, located, bytes, Access::Write);
            self.poke(shared, &who, located, &data[lane][..bytes as usize]);
        }
        Ok(())
    }

    /// The lanes that store where others do, too; what they store has to be the same. Stores of one size at addresses of its multiples
    /// overlap only if they are at one address.
    fn clash(
        &self,
        space: StateSpace,
        addresses: &Lanes,
        mask: u32,
        places: &[Option<Located>; 32],
        data: &[[u8; 16]; 32],
        bytes: u32,
    ) -> Outcome<u32> {
        if space == StateSpace::Local {
            return Ok(0);
        }
        let mut order: smallvec::SmallVec<[usize; 32]> = lanes(mask).collect();
        if order.windows(2).all(|pair| addresses[pair[0]] < addresses[pair[1]]) {
            return Ok(0);
        }
        order.sort_by_key(|&lane| addresses[lane]);
        let mut together = 0;
        for pair in order.windows(2).filter(|pair| addresses[pair[0]] == addresses[pair[1]]) {
            let (a, b) = (pair[0], pair[1]);
            together |= 1 << a | 1 << b;
            let differs = (0..bytes as usize).find(|&i| data[a][i] != data[b][i]);
            if let (Some(byte), Some(located)) = (differs, places[b]) {
                let spot = self.spot(located, located.at + byte);
                return Err(Box::new(Cause::Clash { spot, lanes: [a as u32, b as u32] })).at(b);
            }
        }
        Ok(together)
    }

    /// [`ptx_asm::Inst::Atomic`].
    pub(super) fn atomic(
        &mut self,
        warp: &mut Warp,
        shared: &mut Shared,
        transfer: Transfer,
        op: AtomicOp,
        dst: Option<Reg>,
        operands: &[PtxOperand],
    ) -> Outcome<()> {
        let Transfer { inst, mask, space, ty, place } = transfer;
        let bytes = transfer.bytes(1).at(transfer.first())?;
        if space == StateSpace::Local {
            return malformed("an atomic operation on a thread's own memory").at(transfer.first());
        }
        let addresses = self.addresses(warp, mask, space, place)?;
        self.count(inst, space, mask, &addresses, bytes);
        let values: Vec<Lanes> = operands
            .iter()
            .map(|&operand| warp.registers.operand(self.program, operand, mask))
            .collect::<Outcome<_>>()?;
        let mut before = [0; 32];
        for lane in self.some_order(mask) {
            let who = warp.who(lane);
            let located = self.locate(space, &who, addresses[lane], bytes, bytes).at(lane)?;
            self.allowed(shared, &who, located, bytes, Access::Atomic).at(lane)?;
            self.mark(shared, &who, located, bytes, Access::Atomic);
            let old = little_endian(&self.peek(shared, &who, located, bytes)[..bytes as usize]);
            let given: smallvec::SmallVec<[u64; 2]> = values.iter().map(|values| values[lane]).collect();
            let Some(new) = arith::atomic(op, ty, space, old, &given) else {
                return malformed(format!("no atomic {op:?} of {ty:?} with {} operands", given.len()))
                    .at(lane);
            };
            self.poke(shared, &who, located, &new.to_le_bytes()[..bytes as usize]);
            before[lane] = old;
        }
        if let Some(dst) = dst {
            warp.registers.set(self.program, dst, mask, &before);
        }
        Ok(())
    }

    /// Lanes in the order in which their atomic operations happen: any one.
    pub(super) fn some_order(&mut self, mask: u32) -> smallvec::SmallVec<[usize; 32]> {
        let mut order: smallvec::SmallVec<[usize; 32]> = lanes(mask).collect();
        if let Some(chance) = &mut self.chance {
            chance.shuffle(&mut order);
        }
        order
    }

    /// [`ptx_asm::Inst::CpAsync`].
    pub(super) fn copy_async(
        &mut self,
        warp: &Warp,
        shared: &mut Shared,
        (inst, mask): (usize, u32),
        bytes: u32,
        [to, from]: [AddressOperand; 2],
        read: Option<Reg>,
    ) -> Outcome<()> {
        if !matches!(bytes, 4 | 8 | 16) {
            return malformed(format!("a copy of {bytes} bytes")).at(mask.trailing_zeros() as usize);
        }
        let to = self.addresses(warp, mask, StateSpace::Shared, to)?;
        let from = self.addresses(warp, mask, StateSpace::Global, from)?;
        let read = match read {
            Some(reg) => *warp.registers.get(self.program, reg, mask)?,
            None => [u64::from(bytes); 32],
        };
        let reading = lanes(mask).filter(|&lane| read[lane] != 0).fold(0, |held, lane| held | 1 << lane);
        self.stats[inst].global(reading, &from, bytes);
        self.stats[inst].conflicts += super::stats::conflicts(mask, &to, bytes);
        for lane in lanes(mask) {
            let request = Request { lane, to: to[lane], from: from[lane], bytes, read: read[lane] as u32 };
            self.begin_copy(warp, shared, request).at(lane)?;
        }
        Ok(())
    }

    fn begin_copy(&mut self, warp: &Warp, shared: &mut Shared, request: Request) -> Check<()> {
        let Request { lane, to, from, bytes, read } = request;
        if read > bytes {
            return Err(Box::new(Cause::CopySize { bytes, read }));
        }
        let who = warp.who(lane);
        let to = self.locate(StateSpace::Shared, &who, to, bytes, bytes)?;
        self.allowed(shared, &who, to, bytes, Access::Write)?;
        let mut copy = Copy { to: to.at, bytes, data: [0; 16], from: None };
        // A copy that reads nothing may come from anywhere.
        if read > 0 {
            let from = self.locate(StateSpace::Global, &who, from, read, bytes)?;
            self.allowed(shared, &who, from, read, Access::Read)?;
            self.mark(shared, &who, from, read, Access::Read);
            copy.data = self.peek(shared, &who, from, read);
            copy.from = Some((from, read));
        }
        shared.memories[who.rank as usize].copies.begin(u32::from(who.thread), copy);
        Ok(())
    }

    /// [`ptx_asm::Inst::CpAsyncWait`].
    pub(super) fn copy_wait(
        &mut self,
        warp: &Warp,
        shared: &mut Shared,
        mask: u32,
        left: u32,
    ) -> Outcome<()> {
        for lane in lanes(mask) {
            let who = warp.who(lane);
            for copy in shared.memories[who.rank as usize].copies.finish(u32::from(who.thread), left) {
                self.finish_copy(shared, &who, copy).at(lane)?;
            }
        }
        Ok(())
    }

    fn finish_copy(&mut self, shared: &mut Shared, who: &Who, copy: Copy) -> Check<()> {
        if let Some((from, read)) = copy.from
            && self.peek(shared, who, from, read) != copy.data
        {
            return Err(Box::new(Cause::SourceChanged { spot: self.spot(from, from.at) }));
        }
        let to = Located { space: StateSpace::Shared, of: who.rank as usize, at: copy.to };
        self.mark(shared, who, to, copy.bytes, Access::Write);
        self.poke(shared, who, to, &copy.data[..copy.bytes as usize]);
        Ok(())
    }
}

/// A lane's copy.
struct Request {
    lane: usize,
    to: u64,
    from: u64,
    bytes: u32,
    read: u32,
}

/// The number that up to 8 bytes are.
pub(super) fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}
