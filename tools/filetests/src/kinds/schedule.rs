//! `test schedule`: the section is the scheduled routine of each routine, or with `after=STEP` the routine
//! after a step.
//!
//! Arguments set the target: `vector=16` (bytes), `threads=2`, `l2=4096` (bytes), `fma=no`,
//! `contractions=yes`, `after=STEP`, `grain=N` (work per thread), `workgroups=256,16384` (threads and bytes
//! of shared memory of a GPU, optionally followed by the registers of a thread and the subgroup size).

use codegen_core::{
    Access, Binding, Caps, DTypeSet, Interpreted, Param, ScheduledRoutine, Slot, Transcendental, Workgroups,
    check_form,
};
use lowered_ir::{ir::LoweredRoutine, passes::runner::Trace, text::print, verify::verify};
use scheduling::{ScheduleOptions, schedule, schedule_traced};
use tnode::DType;

use super::{Kind, joined};
use crate::File;

pub(super) struct Schedule {
    caps: Caps,
    options: ScheduleOptions,
    after: Option<String>,
}

impl Schedule {
    pub(super) fn new(args: &[&str]) -> Result<Schedule, String> {
        let mut kind = Schedule { caps: caps(), options: ScheduleOptions::default(), after: None };
        args.iter().try_for_each(|arg| kind.set(arg))?;
        Ok(kind)
    }

    fn set(&mut self, arg: &str) -> Result<(), String> {
        let (name, value) =
            arg.split_once('=').ok_or_else(|| format!("`{arg}` is not of the form name=value"))?;
        let number = || value.parse::<usize>().map_err(|_| format!("`{arg}` needs a number"));
        match name {
            "vector" => self.caps.vector_bytes = number()?,
            "threads" => self.caps.threads = number()?,
            "l2" => self.caps.l2_bytes = number()?,
            "grain" => self.options.grain_work = number()? as u64,
            "workgroups" => self.caps.workgroups = Some(workgroups(value)?),
            "fma" => self.caps.fma = value == "yes",
            "contractions" if value == "yes" => self.caps.contractions = OPERAND_TYPES,
            "contractions" => self.caps.contractions = DTypeSet::EMPTY,
            "after" => self.after = Some(value.to_owned()),
            _ => return Err(format!("there is no setting `{name}`")),
        }
        Ok(())
    }

    fn one(&self, routine: &LoweredRoutine) -> Result<String, String> {
        verify(routine).map_err(|e| e.to_string())?;
        let mut steps = Vec::new();
        let mut trace = |step: &str, routine: &LoweredRoutine| steps.push((step.to_owned(), routine.clone()));
        let target = Interpreted::of_target(self.caps.clone());
        let scheduled = schedule_traced(routine, &target, &self.options, &mut Trace::new(&mut trace))
            .map_err(|e| e.to_string())?;
        let Some(after) = &self.after else {
            let unseen = schedule(routine, &target, &self.options).map_err(|e| e.to_string())?;
            let texts = [&scheduled, &unseen].map(|scheduled| text(scheduled, self.caps.workgroups));
            return match texts {
                [seen, unseen] if seen == unseen => seen,
                [_, unseen] => Err(format!("without a trace the kernels are others:\n{}", unseen?)),
            };
        };
        let step = steps.iter().find(|(step, _)| step == after);
        let (_, routine) = step.ok_or_else(|| format!("there is no step `{after}`"))?;
        verify(routine).map_err(|e| format!("after {after}: {e}"))?;
        Ok(print(routine))
    }
}

fn workgroups(value: &str) -> Result<Workgroups, String> {
    let numbers: Option<Vec<usize>> = value.split(',').map(|number| number.parse().ok()).collect();
    let short = |number: usize| u32::try_from(number).map_err(|e| e.to_string());
    match numbers.as_deref() {
        Some(&[threads, memory_bytes]) => Ok(Workgroups::new(short(threads)?, memory_bytes)),
        Some(&[threads, memory_bytes, registers, subgroup_size]) => Ok(Workgroups {
            registers: short(registers)?,
            subgroup_size: short(subgroup_size)?,
            ..Workgroups::new(short(threads)?, memory_bytes)
        }),
        _ => Err(format!(
            "`{value}` is not of the form THREADS,BYTES or THREADS,BYTES,REGISTERS,SUBGROUP_SIZE"
        )),
    }
}

impl Kind for Schedule {
    fn run(&self, file: &File) -> Result<Option<String>, String> {
        let routines = file.routines().map_err(|e| e.to_string())?;
        let texts = routines.iter().map(|parsed| self.one(&parsed.routine)).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(joined(texts)))
    }
}

/// Operand types of contractions in kernels, if a file requests contractions.
pub(super) const OPERAND_TYPES: DTypeSet =
    DTypeSet::EMPTY.with(DType::F16).with(DType::Bf16).with(DType::F32).with(DType::F64);

/// A generic machine, the same on every host.
pub(super) fn caps() -> Caps {
    Caps {
        arithmetic: DType::ALL.into_iter().collect(),
        transcendental: Transcendental::Native,
        vector_bytes: 16,
        vector_registers: 16,
        l2_bytes: 1 << 20,
        threads: 2,
        ..Caps::host("filetests")
    }
}

/// The text of the kernels, which must verify, with comments that list the calls, the nodes that a run
/// overwrites, and the temporaries.
fn text(scheduled: &ScheduledRoutine, workgroups: Option<Workgroups>) -> Result<String, String> {
    let mut text = String::new();
    for (i, kernel) in scheduled.kernels().iter().enumerate() {
        let launch = kernel.abi().launch;
        let shape = match workgroups {
            None => format!("grain {}, scratch {} bytes", launch.grain, kernel.abi().scratch_bytes),
            Some(limits) => {
                check_form(kernel.ir(), limits).map_err(|e| e.to_string())?;
                format!("threads {}", launch.threads)
            }
        };
        text.push_str(&format!(
            "; kernel {i}: extent {}, {shape}, {}\n{}",
            launch.extent,
            kernel.abi().cost,
            print(kernel.ir()),
        ));
        for (position, param) in kernel.abi().params.iter().enumerate() {
            text.push_str(&format!("; parameter {position}: {}\n", describe(param)));
        }
    }
    for call in scheduled.calls() {
        let bindings = call.bindings.iter().map(|binding| match binding {
            Binding::Symbol(symbol) => format!("@{}", scheduled.symbols()[symbol.index()].name),
            Binding::Step(step) => step.to_string(),
        });
        let args: Vec<String> = call.args.iter().map(slot).chain(bindings).collect();
        text.push_str(&format!("; call kernel {} with {}\n", call.kernel, args.join(", ")));
    }
    for node in scheduled.overwritten() {
        text.push_str(&format!("; overwrites {node}\n"));
    }
    for (i, temp) in scheduled.temps().iter().enumerate() {
        let (first, last) = temp.live;
        text.push_str(&format!(
            "; temp {i}: {} bytes at {}, calls {first} to {last}\n",
            temp.bytes, temp.offset
        ));
    }
    Ok(text)
}

fn describe(param: &Param) -> String {
    match param {
        Param::Node { access: Access::Read, bytes } => format!("reads {bytes} bytes"),
        Param::Node { access: Access::Write, bytes } => format!("writes {bytes} bytes"),
        Param::Node { access: Access::WritePart, bytes } => format!("writes part of {bytes} bytes"),
        Param::Node { access: Access::ReadWrite, bytes } => format!("reads and writes {bytes} bytes"),
        Param::MergeBuffer { bytes } => format!("reads the merge buffer of {bytes} bytes"),
        Param::StaticIndex { range } => format!("an index within 0..{range}"),
    }
}

fn slot(slot: &Slot) -> String {
    match slot {
        Slot::Node(node) => node.to_string(),
        Slot::Temp(temp) => format!("temp {}", temp.0),
        Slot::Merge(node) => format!("merge {node}"),
    }
}
