//! Which registers an instruction reads, and which it writes.

use super::Inst;
use crate::program::{Base, Operand, Place, Reg, Regs};

impl Inst {
    /// Calls `f` with every register that is mentioned.
    pub fn each_register(&self, f: &mut dyn FnMut(Reg)) {
        let mut found = Regs::new();
        self.registers(&mut |reg| found.push(reg), &mut |_| ());
        self.registers(&mut |_| (), &mut |reg| found.push(reg));
        found.into_iter().for_each(f);
    }

    /// Calls `read` with every register that is read, then `write` with every one that is written.
    pub fn registers(&self, read: &mut dyn FnMut(Reg), write: &mut dyn FnMut(Reg)) {
        let mut operands = |operands: &[Operand]| {
            for operand in operands {
                if let Operand::Reg(reg) = operand {
                    read(*reg);
                }
            }
        };
        match self {
            Inst::Move { dst, src } | Inst::Unary { dst, src, .. } => {
                operands(&[*src]);
                write(*dst);
            }
            Inst::Where { dst, .. } | Inst::Address { dst, .. } | Inst::Param { dst, .. } => write(*dst),
            Inst::Pack { dst, halves } => {
                halves.iter().for_each(|&half| read(half));
                write(*dst);
            }
            Inst::Unpack { halves, src } => {
                read(*src);
                halves.iter().for_each(|&half| write(half));
            }
            Inst::Binary { dst, a, b, .. } | Inst::Compare { dst, a, b, .. } => {
                operands(&[*a, *b]);
                write(*dst);
            }
            Inst::Ternary { dst, a, b, c, .. } => {
                operands(&[*a, *b, *c]);
                write(*dst);
            }
            Inst::Select { dst, a, b, pred, .. } => {
                operands(&[*a, *b, Operand::Reg(*pred)]);
                write(*dst);
            }
            Inst::Convert { dst, src, .. } | Inst::Vote { dst, src, .. } => {
                read(*src);
                write(*dst);
            }
            Inst::ConvertPair { dst, halves, .. } => {
                operands(halves);
                write(*dst);
            }
            Inst::Load { dsts, from, .. } | Inst::LoadMatrix { dsts, from, .. } => {
                from.register().into_iter().for_each(read);
                dsts.iter().for_each(|&dst| write(dst));
            }
            Inst::Store { to, srcs, .. } => {
                operands(srcs);
                to.register().into_iter().for_each(read);
            }
            Inst::Atomic { dst, at, operands: values, .. } => {
                operands(values);
                at.register().into_iter().for_each(read);
                dst.iter().for_each(|&dst| write(dst));
            }
            Inst::Shuffle { dst, src, lane, .. } => {
                operands(&[Operand::Reg(*src), *lane]);
                write(*dst);
            }
            Inst::Mma { d, a, b, c, .. } => {
                a.iter().chain(b).chain(c).for_each(|&reg| read(reg));
                d.iter().for_each(|&reg| write(reg));
            }
            Inst::CopyAsync { to, from, read: size, .. } => {
                to.register().into_iter().chain(from.register()).chain(*size).for_each(read);
            }
            Inst::Map { dst, .. } => write(*dst),
            Inst::MapPrefetch { map } => read(*map),
            Inst::BarrierInit { at, .. }
            | Inst::Arrive { at }
            | Inst::ArriveCluster { at }
            | Inst::ArriveExpect { at, .. } => at.register().into_iter().for_each(read),
            Inst::BarrierWait { at, parity, .. } => at.register().into_iter().chain([*parity]).for_each(read),
            Inst::MapShared { dst, at, block } => {
                operands(&[*block]);
                at.register().into_iter().for_each(read);
                write(*dst);
            }
            Inst::LoadTile { map, at, to, barrier, multicast } => {
                operands(at);
                let places = to.register().into_iter().chain(barrier.register());
                places.chain([*map]).chain(*multicast).for_each(read);
            }
            Inst::StoreTile { map, at, from } => {
                operands(at);
                from.register().into_iter().chain([*map]).for_each(read);
            }
            Inst::WarpgroupMma { d, a, b, accumulate, .. } => {
                d.iter().chain([a, b, accumulate]).for_each(|&reg| read(reg));
                d.iter().for_each(|&reg| write(reg));
            }
            Inst::StoreMatrix { from, to } => {
                from.iter().copied().chain(to.register()).for_each(read);
            }
            Inst::Barrier { .. }
            | Inst::WarpBarrier
            | Inst::Fence(_)
            | Inst::CopyCommit
            | Inst::CopyWait { .. }
            | Inst::BarrierInitFence
            | Inst::ClusterBarrier
            | Inst::FenceAsync
            | Inst::StoreTileCommit
            | Inst::StoreTileWait { .. }
            | Inst::SetMaxRegisters { .. }
            | Inst::WarpgroupFence
            | Inst::WarpgroupCommit
            | Inst::WarpgroupWait { .. } => {}
        }
    }
}

impl Place {
    /// The register it is computed from.
    fn register(self) -> Option<Reg> {
        match self.base {
            Base::Reg(reg) => Some(reg),
            Base::Array(_) => None,
        }
    }
}
