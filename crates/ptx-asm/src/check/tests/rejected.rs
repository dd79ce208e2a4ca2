//! A table of kernels that the checker rejects.

use smallvec::smallvec;

use crate::{
    AddressOperand, CmpOp, GuardPredicate, Inst, PtxBinaryOp, PtxBuilder, PtxError, PtxKernel, PtxProgram,
    RegClass, SpecialReg, StateSpace, Target, Ty, check,
};

/// A kernel that is rejected.
struct Row {
    name: &'static str,
    target: Target,
    kernel: fn() -> PtxKernel,
    /// The message of the error, from the kernel's name on; if the error is about an instruction, from the
    /// instruction on.
    message: &'static str,
}

/// A kernel of 128 threads with these statements.
fn written(write: impl FnOnce(&mut PtxBuilder)) -> PtxKernel {
    let mut b = PtxBuilder::new("kernel", 2, 128);
    write(&mut b);
    b.finish()
}

/// A statement at depth `depth` below `b`.
fn nest(b: &mut PtxBuilder, guard: GuardPredicate, depth: usize) {
    if depth > 0 {
        b.when(guard, |b| nest(b, guard, depth - 1));
    }
}

const NAME: &str = "expected a name that no other has: a letter, then letters, digits and `_`";

const REJECTED: &[Row] = &[
    Row {
        name: "an empty name",
        target: Target::Sm70,
        kernel: || PtxBuilder::new("", 0, 32).finish(),
        message: NAME,
    },
    Row {
        name: "a name that begins with a digit",
        target: Target::Sm70,
        kernel: || PtxBuilder::new("1st", 0, 32).finish(),
        message: NAME,
    },
    Row {
        name: "a name with a hyphen",
        target: Target::Sm70,
        kernel: || PtxBuilder::new("a-b", 0, 32).finish(),
        message: NAME,
    },
    Row {
        name: "too many threads",
        target: Target::Sm70,
        kernel: || PtxBuilder::new("kernel", 0, 1025).finish(),
        message: "the number of threads is 1025, expected 1 to 1024",
    },
    Row {
        name: "too much shared memory",
        target: Target::Sm70,
        kernel: || {
            written(|b| {
                b.shared(97 << 10, 16);
            })
        },
        message: "the shared memory of a block in bytes is 99328, expected 0 to 98304",
    },
    Row {
        name: "deep nests",
        target: Target::Sm70,
        kernel: || {
            written(|b| {
                let block = b.special(SpecialReg::Block);
                let first = b.compare(CmpOp::Eq, Ty::U32, block, 0_u32);
                nest(b, GuardPredicate::on(first), 300);
            })
        },
        message: "the depth of statements is 300, expected 0 to 256",
    },
    Row {
        name: "operands of another class than the type's",
        target: Target::Sm80,
        kernel: || {
            written(|b| {
                let whole = b.mov(RegClass::B32, 1_u32);
                b.binary(PtxBinaryOp::Add, Ty::F32, whole, whole);
            })
        },
        message: "%r0 is of class B32, expected F32",
    },
    Row {
        name: "a type that the operation lacks",
        target: Target::Sm80,
        kernel: || {
            written(|b| {
                b.binary(PtxBinaryOp::Add, Ty::Bf16, 1_u32, 1_u32);
            })
        },
        message: "it does not exist for Bf16",
    },
    Row {
        name: "an instruction that the target lacks",
        target: Target::Sm70,
        kernel: || written(super::multiply_matrices),
        message: "it takes sm_80, the target is sm_70",
    },
    Row {
        name: "a load beyond its array",
        target: Target::Sm80,
        kernel: || {
            written(|b| {
                let array = b.shared(64, 16);
                let from = AddressOperand::array(array).plus(56);
                b.load_vector(StateSpace::Shared, Ty::F32, false, from, 4);
            })
        },
        message: "bytes 56..72 of an array of 64",
    },
    Row {
        name: "a load of an array with too small an alignment",
        target: Target::Sm80,
        kernel: || {
            written(|b| {
                let array = b.shared(64, 4);
                b.load_vector(StateSpace::Shared, Ty::F32, false, AddressOperand::array(array), 4);
            })
        },
        message: "expected an alignment of 16 bytes",
    },
    Row {
        name: "a register that a predicated instruction writes",
        target: Target::Sm70,
        kernel: || {
            written(|b| {
                let thread = b.special(SpecialReg::Thread);
                let first = b.compare(CmpOp::Eq, Ty::U32, thread, 0_u32);
                let value = b.register(RegClass::B32);
                let set = Inst::Move { dst: value, src: 1_u32.into() };
                b.push_predicated(GuardPredicate::on(first), set);
                b.add(Ty::U32, value, 1_u32);
            })
        },
        message: "%r1 is read before every path has written it",
    },
    Row {
        // The guard is uniform in the first iteration and depends on the thread from the second one on.
        name: "a barrier in a loop whose guard diverges after an iteration",
        target: Target::Sm70,
        kernel: || {
            written(|b| {
                let thread = b.special(SpecialReg::Thread);
                let (value, before) = (b.mov(RegClass::B32, 0_u32), b.register(RegClass::B32));
                b.repeat(|b| {
                    b.set(before, value);
                    b.barrier();
                    b.set(value, thread);
                    GuardPredicate::on(b.compare(CmpOp::Lt, Ty::U32, before, 5_u32))
                });
            })
        },
        message: "depends on %p0, which may differ between the threads of a block",
    },
    Row {
        name: "a cluster of too many blocks",
        target: Target::Sm90a,
        kernel: || written(|b| b.cluster(9)),
        message: "the blocks of a cluster is 9, expected 0 to 8",
    },
    Row {
        name: "too many bytes of parameters with a tensor map",
        target: Target::Sm90a,
        kernel: || {
            let mut b = PtxBuilder::new("kernel", 512, 32);
            b.tensor_map();
            b.finish()
        },
        message: "the size of the parameters in bytes is 4224, expected 0 to 4096",
    },
    Row {
        name: "registers moved between warpgroups of an unknown number of blocks",
        target: Target::Sm90a,
        kernel: || written(|b| b.push(Inst::SetMaxRegisters { count: 40, increase: false })),
        message: "the kernel has no minimum number of blocks per SM",
    },
    Row {
        name: "a barrier beyond its array",
        target: Target::Sm90a,
        kernel: || {
            written(|b| {
                let array = b.shared(4, 4);
                b.push(Inst::MbarrierArrive { at: AddressOperand::array(array) });
            })
        },
        message: "bytes 0..8 of an array of 4",
    },
    Row {
        name: "a TMA store from an array with too small an alignment",
        target: Target::Sm90a,
        kernel: || {
            written(|b| {
                let (array, map) = (b.shared(256, 64), b.mov(RegClass::B64, 0_u64));
                let from = AddressOperand::array(array);
                b.push(Inst::TmaStore { map, at: smallvec![0_u32.into()], from });
            })
        },
        message: "expected an alignment of 128 bytes",
    },
    Row {
        name: "an arrival at a barrier of the cluster by an address of the block",
        target: Target::Sm90a,
        kernel: || {
            written(|b| {
                let array = b.shared(8, 8);
                b.push(Inst::MbarrierArriveCluster { at: AddressOperand::array(array) });
            })
        },
        message: "expected an address from `mapa`",
    },
    Row {
        name: "an instruction of a warpgroup in a block of 192 threads",
        target: Target::Sm90a,
        kernel: || {
            let mut b = PtxBuilder::new("kernel", 0, 192);
            b.push(Inst::WgmmaFence);
            b.finish()
        },
        message: "a block of 192 threads, expected whole warpgroups of 128",
    },
];

/// The message of an error without the kernel's name and the instruction.
fn message(error: &PtxError, kernel: &PtxKernel) -> String {
    let message = error.to_string();
    let message = message.strip_prefix(&format!("kernel `{}`: ", kernel.name)).unwrap_or(&message);
    let inst = match error {
        PtxError::Instruction { inst, .. } => format!("{inst:?}: "),
        PtxError::Divergent { inst, .. } => format!("{inst:?} "),
        _ => String::new(),
    };
    message.strip_prefix(&inst).unwrap_or(message).to_owned()
}

#[test]
fn rejected_kernels_are_named() {
    for Row { name, target, kernel, message: expected } in REJECTED {
        let kernel = kernel();
        let program = PtxProgram { target: *target, kernels: vec![kernel.clone()] };
        let found = check(&program).map_err(|error| message(&error, &kernel));
        assert_eq!(found, Err((*expected).to_owned()), "{name}");
    }
}
