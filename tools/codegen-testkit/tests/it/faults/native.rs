//! Faults of calls: the contract of `crates/codegen-core/src/abi.md` for native kernels.
#![allow(unsafe_code, reason = "stand-ins for compiled code")]

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use codegen_core::{
    Access, Artifact, Binding, Interpreted, Kernel, KernelAbi, ScheduledRoutine,
    contract::Codegen,
    host::{HostModule, HostPtr, NativeCode, NativeKernel},
};
use codegen_testkit::Level::{L0, L1, L3};
use lowered_ir::ir::{Bound, LoopKind, LoweredRoutine, Stmt};

use super::{Fault, Row, first_level, threaded};

/// A fault of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Nothing.
    Correct,
    /// Leaves subnormals flushed to zero in the thread.
    LeavesFlushing,
    /// Leaves another rounding direction in the thread.
    LeavesRounding,
    /// Leaves exceptions unmasked in the thread.
    LeavesExceptions,
    /// Leaves the x87 unit with the precision of `f32`.
    LeavesX87Precision,
    /// Writes behind its first argument.
    WritesBehind,
    /// Writes before its first argument.
    WritesBefore,
    /// Writes to an argument that it only reads.
    WritesInput,
    /// Combines its outputs with their earlier contents.
    KeepsOutput,
    /// Uses scratch memory without asking for it.
    UnaskedScratch,
    /// Asks for less scratch memory than it uses.
    LittleScratch,
    /// Has static scratch memory.
    StaticScratch,
    /// Counts its calls, and computes only in the first three.
    CountsCalls,
    /// Runs the whole kernel for each part.
    WholeForParts,
    /// Begins each part at 0.
    BeginsAtZero,
    /// Ends each part at the end of the kernel.
    EndsAtExtent,
    /// Drops the last iteration of each part.
    ShortParts,
    /// Panics in a call.
    Panics,
    /// Panics when it compiles.
    PanicsCompiling,
    /// States one kernel too few.
    DropsKernel,
    /// Ends the process by `abort`.
    Aborts,
    /// Ends the process in kernels that compute with `f16`.
    AbortsOnF16,
    /// Reads address 0.
    ReadsNull,
    /// Executes an undefined instruction.
    Traps,
    /// Never returns.
    Loops,
    /// Calls itself without end.
    Overflows,
    /// Ends the process without an error.
    Exits,
}

/// The calls that the table runs in this process.
pub(crate) fn table() -> Vec<Row> {
    use Call::*;
    let row = |name, level, call| Row { name, level, caps: first_level, fault: Fault::Native(call) };
    let split = |name, call| Row { name, level: L3, caps: threaded, fault: Fault::Native(call) };
    vec![
        #[cfg(target_arch = "x86_64")]
        row("leaves subnormals flushed in the thread", L0, LeavesFlushing),
        #[cfg(target_arch = "x86_64")]
        row("leaves another rounding direction in the thread", L0, LeavesRounding),
        #[cfg(target_arch = "x86_64")]
        row("leaves exceptions unmasked in the thread", L0, LeavesExceptions),
        #[cfg(target_arch = "x86_64")]
        row("leaves another precision of x87 in the thread", L0, LeavesX87Precision),
        row("writes behind its argument", L0, WritesBehind),
        row("writes before its argument", L0, WritesBefore),
        row("writes to its input", L0, WritesInput),
        row("keeps what its outputs held", L1, KeepsOutput),
        row("uses scratch memory without asking", L0, UnaskedScratch),
        row("uses more scratch memory than it asks for", L0, LittleScratch),
        row("computes in its first calls only", L0, CountsCalls),
        row("panics in a call", L0, Panics),
        row("panics when it compiles", L0, PanicsCompiling),
        row("drops a kernel", L0, DropsKernel),
        row("has static scratch memory", L0, StaticScratch),
        split("runs the whole kernel for each part", WholeForParts),
        split("begins each part at 0", BeginsAtZero),
        split("ends each part at the end of the kernel", EndsAtExtent),
        split("drops the last iteration of each part", ShortParts),
    ]
}

/// Kernels that interpret their IR, as native objects with a fault.
pub(crate) fn compile(routine: &ScheduledRoutine, call: Call) -> Artifact {
    assert!(call != Call::PanicsCompiling, "a fault");
    if routine.kernels().iter().any(|kernel| !kernel.abi().log.is_empty()) {
        // These objects have no log.
        return Interpreted::of_target(super::everything()).compile(routine).unwrap();
    }
    let mut kernels: Vec<(NativeCode, KernelAbi)> =
        routine.kernels().iter().map(|k| object(k, call)).collect();
    if call == Call::DropsKernel {
        kernels.pop();
    }
    // SAFETY: not all of these objects follow `crates/codegen-core/src/abi.md`, which is the subject of the
    // test: the kit calls them on memory with guard bytes, and the faults below stay within these.
    Artifact::host(unsafe { HostModule::native(kernels, Arc::new(())) })
}

fn object(kernel: &Kernel, call: Call) -> (NativeCode, KernelAbi) {
    let mut abi = kernel.abi().clone();
    abi.scratch_bytes = match call {
        Call::UnaskedScratch => 0,
        Call::LittleScratch => 64,
        _ => abi.scratch_bytes,
    };
    let object = Object {
        name: kernel.ir().name.clone(),
        ir: kernel.ir().clone().into_inner(),
        abi: kernel.abi().clone(),
        call,
        calls: AtomicU32::new(0),
        shared: Mutex::new(Vec::new()),
    };
    (NativeCode::Object(Arc::new(object)), abi)
}

struct Object {
    name: String,
    ir: LoweredRoutine,
    abi: KernelAbi,
    call: Call,
    calls: AtomicU32,
    /// The memory of all calls, if it is static.
    shared: Mutex<Vec<Vec<u8>>>,
}

impl NativeKernel for Object {
    unsafe fn run(&self, args: *const *mut u8, bindings: *const i64, scratch: *mut u8, begin: u64, end: u64) {
        let memory: Vec<(Access, usize)> = self.abi.memory().collect();
        let pointer = |(at, &(access, bytes)): (usize, &(Access, usize))| HostPtr {
            // SAFETY: the caller passes one address per memory parameter.
            base: unsafe { *args.add(at) },
            bytes,
            access,
        };
        let pointers: Vec<HostPtr> = memory.iter().enumerate().map(pointer).collect();
        // SAFETY: the caller passes one value per static index.
        let bindings = (0..self.abi.static_ranges().count()).map(|at| unsafe { *bindings.add(at) }).collect();
        let part = match self.call {
            Call::WholeForParts => (0, self.abi.launch.extent),
            Call::BeginsAtZero => (0, end),
            Call::EndsAtExtent => (begin, self.abi.launch.extent),
            Call::ShortParts => (begin, end - 1),
            _ => (begin, end),
        };
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        let before = || super::lethal::disturb(self.call, &self.name, &self.ir);
        before();
        match self.call {
            Call::CountsCalls if calls >= 3 => return,
            Call::Panics => panic!("a fault"),
            Call::KeepsOutput => return self.accumulate(&pointers, bindings, part),
            Call::StaticScratch => return self.through_shared(&pointers, bindings, part),
            _ => self.interpret(&pointers, bindings, part),
        }
        self.write_outside(&pointers, scratch);
        self.change_environment();
    }
}

impl Object {
    /// Interprets a part of the kernel.
    fn interpret(&self, pointers: &[HostPtr], bindings: Vec<i64>, (begin, end): (u64, u64)) {
        let mut ir = self.ir.clone();
        if let [Stmt::For { lo, hi, kind: LoopKind::Parallel, .. }] = &mut ir.body[..]
            && self.abi.launch.extent > 1
        {
            (*lo, *hi) = (*lo + begin as i64, Bound::from(*lo + end as i64));
        } else if begin == end {
            return;
        }
        let abi = KernelAbi { launch: codegen_core::Launch::whole(&ir.body), ..self.abi.clone() };
        let kernel = Kernel::verified(ir, abi).unwrap();
        let artifact = single(kernel);
        let module = artifact.host_module().unwrap();
        // SAFETY: the caller of the object passed this memory for this kernel, and the interpreter has no
        // scratch memory.
        unsafe { module.call(0, pointers, &bindings, std::ptr::null_mut(), 0, 1) }.unwrap();
    }

    /// Computes on copies of the inputs in static memory.
    fn through_shared(&self, pointers: &[HostPtr], bindings: Vec<i64>, part: (u64, u64)) {
        let lock = || self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the memory of a parameter is valid for its bytes.
        let copy = |p: &HostPtr| unsafe { std::slice::from_raw_parts(p.base, p.bytes) }.to_vec();
        *lock() = pointers.iter().map(copy).collect();
        std::thread::yield_now();
        // Other calls have replaced the copies if they came between.
        let mut copies = lock().clone();
        let copied: Vec<HostPtr> = pointers
            .iter()
            .zip(&mut copies)
            .map(|(pointer, copy)| match pointer.access {
                Access::Read => HostPtr { base: copy.as_mut_ptr(), ..*pointer },
                _ => *pointer,
            })
            .collect();
        self.interpret(&copied, bindings, part);
    }

    /// Adds the bytes that the outputs held before.
    fn accumulate(&self, pointers: &[HostPtr], bindings: Vec<i64>, part: (u64, u64)) {
        let first = pointers.iter().find(|p| p.access == Access::Write && p.bytes > 0);
        // SAFETY: the memory of a parameter is valid for its bytes.
        let byte = |p: &HostPtr| unsafe { *p.base };
        let before = first.map_or(0, byte);
        self.interpret(pointers, bindings, part);
        if let Some(pointer) = first {
            // SAFETY: as above, and written memory is exclusive.
            unsafe { *pointer.base ^= before };
        }
    }

    fn write_outside(&self, pointers: &[HostPtr], scratch: *mut u8) {
        let input = pointers.iter().find(|p| p.access == Access::Read && p.bytes > 0);
        // SAFETY: the kit lays at least 256 guard bytes before and after each buffer, more for scratch
        // memory.
        unsafe {
            match (self.call, pointers.first(), input) {
                (Call::WritesBehind, Some(first), _) => *first.base.add(first.bytes + 8) = 1,
                (Call::WritesBefore, Some(first), _) => *first.base.sub(1) = 1,
                (Call::WritesInput, _, Some(input)) => *input.base ^= 1,
                (Call::UnaskedScratch, ..) => *scratch.add(100) = 1,
                (Call::LittleScratch, ..) => *scratch.add(64) = 1,
                _ => {}
            }
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn change_environment(&self) {}

    #[cfg(target_arch = "x86_64")]
    fn change_environment(&self) {
        let mxcsr: u32 = match self.call {
            Call::LeavesX87Precision => return leave_x87_precision(),
            Call::LeavesFlushing => 0x9fc0,
            Call::LeavesRounding => 0x7f80,
            Call::LeavesExceptions => 0x1f00,
            _ => return,
        };
        // SAFETY: loads 4 bytes of a live variable without reserved bits; the kit restores the register.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const mxcsr, options(nostack)) };
    }
}

#[cfg(target_arch = "x86_64")]
fn leave_x87_precision() {
    let control: u16 = 0x007f;
    // SAFETY: loads 2 bytes of a live variable, with all exceptions masked; the kit restores the register.
    unsafe { std::arch::asm!("fldcw [{}]", in(reg) &raw const control, options(nostack)) };
}

/// A routine of one kernel, interpreted.
fn single(kernel: Kernel) -> Artifact {
    use codegen_core::{KernelCall, RoutineParts, Slot};
    use lowered_ir::ir::{NodeRef, SymbolId};
    let nodes = kernel.ir().nodes.clone();
    let merged = |at: usize| matches!(kernel.abi().params[at], codegen_core::Param::MergeBuffer { .. });
    let args = (0..nodes.len()).map(|at| {
        let node = NodeRef(at as u32);
        if merged(at) { Slot::Merge(node) } else { Slot::Node(node) }
    });
    let symbols = kernel.ir().symbols.clone();
    let bindings = (0..symbols.len()).map(|at| Binding::Symbol(SymbolId(at as u32))).collect();
    let call = KernelCall { kernel: 0, args: args.collect(), bindings };
    let parts = RoutineParts {
        name: "single".into(),
        symbols,
        nodes,
        kernels: vec![kernel],
        calls: vec![call],
        temps: Vec::new(),
        overwritten: Vec::new(),
    };
    Interpreted::new().compile(&ScheduledRoutine::new(parts).unwrap()).unwrap()
}
