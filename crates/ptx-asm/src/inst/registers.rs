//! The registers that an instruction reads and writes.

use super::Inst;
use crate::program::{AddressBase, AddressOperand, PtxOperand, Reg, Regs};

impl Inst {
    /// Calls `f` for every register operand: first those read, then those written.
    pub fn each_register(&self, f: &mut dyn FnMut(Reg)) {
        let mut found = Regs::new();
        self.registers(&mut |reg| found.push(reg), &mut |_| ());
        self.registers(&mut |_| (), &mut |reg| found.push(reg));
        found.into_iter().for_each(f);
    }

    /// Calls `read` for every register that is read, then `write` for every register that is written.
    pub fn registers(&self, read: &mut dyn FnMut(Reg), write: &mut dyn FnMut(Reg)) {
        let mut operands = |operands: &[PtxOperand]| {
            for operand in operands {
                if let PtxOperand::Reg(reg) = operand {
                    read(*reg);
                }
            }
        };
        match self {
            Inst::Move { dst, src } | Inst::Unary { dst, src, .. } => {
                operands(&[*src]);
                write(*dst);
            }
            Inst::ReadSpecial { dst, .. } | Inst::ArrayAddress { dst, .. } | Inst::LoadParam { dst, .. } => {
                write(*dst)
            }
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
                operands(&[*a, *b, PtxOperand::Reg(*pred)]);
                write(*dst);
            }
            Inst::Convert { dst, src, .. } => {
                read(*src);
                write(*dst);
            }
            Inst::Load { dsts, from, .. } | Inst::Ldmatrix { dsts, from, .. } => {
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
                operands(&[PtxOperand::Reg(*src), *lane]);
                write(*dst);
            }
            Inst::Mma { d, a, b, c, .. } => {
                a.iter().chain(b).chain(c).for_each(|&reg| read(reg));
                d.iter().for_each(|&reg| write(reg));
            }
            Inst::CpAsync { to, from, read: size, .. } => {
                to.register().into_iter().chain(from.register()).chain(*size).for_each(read);
            }
            Inst::TensorMapAddress { dst, .. } => write(*dst),
            Inst::PrefetchTensorMap { map } => read(*map),
            Inst::MbarrierInit { at, .. }
            | Inst::MbarrierArrive { at }
            | Inst::MbarrierArriveCluster { at }
            | Inst::MbarrierArriveExpectTx { at, .. } => at.register().into_iter().for_each(read),
            Inst::MbarrierWait { at, parity, .. } => {
                at.register().into_iter().chain([*parity]).for_each(read)
            }
            Inst::Mapa { dst, at, block } => {
                operands(&[*block]);
                at.register().into_iter().for_each(read);
                write(*dst);
            }
            Inst::TmaLoad { map, at, to, barrier, multicast } => {
                operands(at);
                let places = to.register().into_iter().chain(barrier.register());
                places.chain([*map]).chain(*multicast).for_each(read);
            }
            Inst::TmaStore { map, at, from } => {
                operands(at);
                from.register().into_iter().chain([*map]).for_each(read);
            }
            Inst::Wgmma { d, a, b, accumulate, .. } => {
                d.iter().chain([a, b, accumulate]).for_each(|&reg| read(reg));
                d.iter().for_each(|&reg| write(reg));
            }
            Inst::Stmatrix { from, to } => {
                from.iter().copied().chain(to.register()).for_each(read);
            }
            Inst::Barrier { .. }
            | Inst::WarpBarrier
            | Inst::CpAsyncCommit
            | Inst::CpAsyncWait { .. }
            | Inst::FenceMbarrierInit
            | Inst::ClusterBarrier
            | Inst::FenceProxyAsync
            | Inst::TmaStoreCommit
            | Inst::TmaStoreWait { .. }
            | Inst::SetMaxRegisters { .. }
            | Inst::WgmmaFence
            | Inst::WgmmaCommit
            | Inst::WgmmaWait { .. } => {}
        }
    }
}

impl AddressOperand {
    /// The base register, unless the base is an array.
    fn register(self) -> Option<Reg> {
        match self.base {
            AddressBase::Reg(reg) => Some(reg),
            AddressBase::Array(_) => None,
        }
    }
}
