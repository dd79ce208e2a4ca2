//! What scheduled kernels compute by definition: each is run by the interpreter, on the memory that its call binds.

use anyhow::{Context, Result};
use codegen_core::{KernelCall, ScheduledRoutine, Slot};
use lowered_ir::interp::{self, Memory};

/// The memory of a run.
struct State {
    nodes: Vec<Vec<u8>>,
    temps: Vec<u8>,
    merge: Vec<u8>,
}

/// The bytes of the routine's nodes after a run from given ones.
///
/// # Errors
///
/// The interpreter's, where memory or bindings do not fit the routine.
pub(crate) fn run(
    scheduled: &ScheduledRoutine,
    nodes: &[Vec<u8>],
    merge: Option<&[u8]>,
    bindings: &[i64],
) -> Result<Vec<Vec<u8>>> {
    let temps = vec![0; scheduled.temp_bytes()];
    let mut state = State { nodes: nodes.to_vec(), temps, merge: merge.unwrap_or_default().to_vec() };
    for call in &scheduled.calls {
        run_call(scheduled, call, &mut state, bindings)
            .with_context(|| format!("interpreting @{}", scheduled.name))?;
    }
    Ok(state.nodes)
}

fn run_call(
    scheduled: &ScheduledRoutine,
    call: &KernelCall,
    state: &mut State,
    bindings: &[i64],
) -> Result<()> {
    let kernel = scheduled.kernels.get(call.kernel).context("a call of a kernel that does not exist")?;
    let sizes: Vec<usize> = Memory::zeroed(&kernel.ir).nodes.iter().map(Vec::len).collect();
    let mut memory = Memory::default();
    for (slot, &bytes) in call.args.iter().zip(&sizes) {
        memory.nodes.push(slice(scheduled, state, *slot, bytes)?.to_vec());
        if let Slot::Merge(_) = slot {
            memory.merge = Some(state.merge.clone());
        }
    }
    let values: Option<Vec<i64>> = call.bindings.iter().map(|s| bindings.get(s.index()).copied()).collect();
    interp::run(&kernel.ir, &mut memory, &values.context("a symbol without a value")?)?;
    for ((slot, &bytes), now) in call.args.iter().zip(&sizes).zip(&memory.nodes) {
        slice(scheduled, state, *slot, bytes)?.copy_from_slice(now);
    }
    Ok(())
}

/// The bytes that a slot stands for.
fn slice<'s>(
    scheduled: &ScheduledRoutine,
    state: &'s mut State,
    slot: Slot,
    bytes: usize,
) -> Result<&'s mut [u8]> {
    let found = match slot {
        Slot::Node(node) => state.nodes.get_mut(node.index()).and_then(|memory| memory.get_mut(..bytes)),
        Slot::Merge(_) => state.merge.get_mut(..bytes),
        Slot::Temp(temp) => {
            let offset = scheduled.temps.get(temp.0 as usize).map_or(usize::MAX - bytes, |temp| temp.offset);
            state.temps.get_mut(offset..offset + bytes)
        }
    };
    found.with_context(|| format!("{slot:?} has no memory of {bytes} bytes"))
}
