//! Runs the calls of a scheduled routine on copies of the memory that they name.

use codegen_core::{Access, Param, ScheduledRoutine, Slot};
use lowered_ir::ir::Symbol;

use crate::RunCase;

/// The content of memory that nothing has written.
const GARBAGE: u8 = 0xa5;

/// Runs the calls of a scheduled routine one after another on a case's inputs, and returns the bytes of the
/// nodes. `run` takes the position of a kernel, the bytes of its memory parameters and its bindings, and
/// returns the bytes after the kernel. Memory that a call or the whole routine overwrites, and temporaries,
/// begin with garbage.
///
/// # Errors
///
/// The first error of `run`.
pub fn run_calls<E>(
    schedule: &ScheduledRoutine,
    case: &RunCase,
    mut run: impl FnMut(usize, Vec<Vec<u8>>, &[i64]) -> Result<Vec<Vec<u8>>, E>,
) -> Result<Vec<Vec<u8>>, E> {
    let mut nodes = case.inputs.clone();
    for node in schedule.overwritten() {
        nodes[node.index()].fill(GARBAGE);
    }
    let mut pool = vec![GARBAGE; schedule.temp_bytes()];
    let symbols = Symbol::values(schedule.symbols(), &case.bindings);
    for call in schedule.calls() {
        let params = &schedule.kernels()[call.kernel].abi().params;
        let args = call.args.iter().zip(params).map(|(slot, param)| match (*slot, param) {
            (_, &Param::Node { access: Access::Write, bytes }) => vec![GARBAGE; bytes],
            (Slot::Node(node), _) => nodes[node.index()].clone(),
            (Slot::Merge(_), _) => case.merge.clone().unwrap_or_default(),
            (Slot::Temp(id), _) => {
                let temp = &schedule.temps()[id.0 as usize];
                pool[temp.offset..temp.offset + temp.bytes].to_vec()
            }
        });
        let bindings: Vec<i64> = call.bindings.iter().map(|binding| binding.value(&symbols)).collect();
        let after = run(call.kernel, args.collect(), &bindings)?;
        for (slot, bytes) in call.args.iter().zip(after) {
            match *slot {
                Slot::Node(node) => nodes[node.index()] = bytes,
                Slot::Temp(id) => {
                    let offset = schedule.temps()[id.0 as usize].offset;
                    pool[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
                Slot::Merge(_) => {}
            }
        }
    }
    Ok(nodes)
}
