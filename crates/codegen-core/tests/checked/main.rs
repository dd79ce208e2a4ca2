//! Constructors of the types that compiled code relies on reject each kind of contradiction by an error of
//! its own.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod code;
mod contract;
mod kernel;
mod plan;
mod routine;

use codegen_core::{
    Access, Caps, Codegen, Cost, Interpreted, Kernel, KernelAbi, Launch, Param, ScheduledRoutine,
};
use lowered_ir::{ir::LoweredRoutine, text::parse, verify::Verified};
use scheduling::{ScheduleOptions, schedule};

/// `y[@s + i] := x.merge[i] + y[i] + z[i]`, in a parallel loop of four iterations.
const TEXT: &str = "routine @r {
  symbol @s in 0..3
  node %0 \"x\" f32[4]
  node %1 \"y\" f32[8]
  node %2 \"z\" f32[4]
  for i0 in 0..4 parallel {
    %1[@s + i0] := merge %0[i0] + %2[i0]
  }
}";

fn parsed(text: &str) -> LoweredRoutine {
    parse(text).unwrap()
}

fn node(access: Access, bytes: usize) -> Param {
    Param::Node { access, bytes }
}

/// The ABI of [`TEXT`].
fn abi() -> KernelAbi {
    KernelAbi {
        name: "k".to_owned(),
        params: vec![
            Param::MergeBuffer { bytes: 16 },
            node(Access::WritePart, 32),
            node(Access::Read, 16),
            Param::StaticIndex { range: 3 },
        ],
        launch: Launch { extent: 4, grain: 1, threads: 1, end: None },
        scratch_bytes: 0,
        log: [].into(),
        cost: Cost::default(),
    }
}

fn kernel() -> Kernel {
    Kernel::new(Verified::new(parsed(TEXT)).unwrap(), abi()).unwrap()
}

/// A routine of several kernels, with temporaries.
fn scheduled() -> ScheduledRoutine {
    let text = "routine @several fast {
      symbol @s in 0..3
      node %0 \"x\" f32[100] on_device
      node %1 \"a\" f32[100] local
      node %2 \"b\" f32[100] local
      node %3 \"y\" f32[110] on_device
      for i0 in 0..100 parallel { %1[i0] := %0[i0] * 2.0f32 }
      for i1 in 0..100 parallel { %2[i1] := %1[99 - i1] + %1[i1] }
      for i2 in 0..100 parallel { %3[i2 + @s] := %2[99 - i2] + %2[i2] }
    }";
    let caps = Caps { threads: 2, ..Interpreted::new().caps().clone() };
    let options = ScheduleOptions { grain_work: 1, stack_bytes: 0, ..ScheduleOptions::default() };
    let scheduled = schedule(&parsed(text), &Interpreted::of_target(caps), &options).unwrap();
    assert_eq!((scheduled.calls().len(), scheduled.temps().len()), (3, 2), "what the tests are about");
    scheduled
}
