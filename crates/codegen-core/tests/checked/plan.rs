//! Plans: a kernel keeps the plan of its codegen from the scheduler's question until it is compiled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use codegen_core::{
    Artifact, Caps, Code, Codegen, CodegenError, Interpreted, Kernel, ScheduledRoutine, canonical,
};
use lowered_ir::ir::LoopId;
use scheduling::{ScheduleOptions, schedule};
use tnode::DType;

use super::{kernel, parsed};

/// `c := a · b`.
const MATMUL: &str = "routine @matmul fast {
  node %0 \"a\" f32[16, 16] on_device
  node %1 \"b\" f32[16, 16] on_device
  node %2 \"c\" f32[16, 16] on_device
  for i0 in 0..16 { for i1 in 0..16 {
    declare l0 f32[] register
    for i2 in 0..16 { l0 := l0 + %0[i0, i2] * %1[i2, i1] }
    %2[i0, i1] := l0
  } }
}";

/// A codegen that plans each kernel with contractions, and counts how often.
struct PlanningCodegen {
    interpreted: Interpreted,
    takes_contractions: bool,
    num_planned: AtomicUsize,
}

/// The contractions of the kernel that it was made for.
struct ContractionPlan(BTreeSet<LoopId>);

impl PlanningCodegen {
    fn new(takes_contractions: bool) -> Self {
        let contractions = [DType::F32].into_iter().collect();
        let caps = Caps { contractions, vector_bytes: 32, vector_registers: 16, ..Caps::host("test") };
        let interpreted = Interpreted::of_target(caps);
        PlanningCodegen { interpreted, takes_contractions, num_planned: AtomicUsize::new(0) }
    }

    fn plan(&self, kernel: &Kernel) -> Arc<ContractionPlan> {
        let make = || {
            self.num_planned.fetch_add(1, Ordering::Relaxed);
            Ok::<_, CodegenError>(ContractionPlan(canonical::contractions(kernel.ir())))
        };
        kernel.plan_once(make).unwrap()
    }

    fn num_planned(&self) -> usize {
        self.num_planned.load(Ordering::Relaxed)
    }

    fn scheduled(&self) -> ScheduledRoutine {
        let scheduled = schedule(&parsed(MATMUL), self, &ScheduleOptions::default()).unwrap();
        assert_eq!(scheduled.kernels().len(), 1, "what the tests are about");
        scheduled
    }
}

impl Codegen for PlanningCodegen {
    fn name(&self) -> &str {
        "planning"
    }

    fn caps(&self) -> &Caps {
        self.interpreted.caps()
    }

    fn fingerprint(&self) -> u64 {
        self.interpreted.fingerprint()
    }

    fn compile(&self, routine: &ScheduledRoutine) -> Result<Artifact, CodegenError> {
        for kernel in routine.kernels() {
            let plan = self.plan(kernel);
            assert_eq!(plan.0, canonical::contractions(kernel.ir()), "the plan is that of this kernel");
        }
        self.interpreted.compile(routine)
    }

    fn whole_contractions(&self, kernels: &[Kernel]) -> Result<Vec<BTreeSet<LoopId>>, CodegenError> {
        let planned: Vec<_> = kernels.iter().map(|kernel| self.plan(kernel).0.clone()).collect();
        Ok(if self.takes_contractions { planned } else { Vec::new() })
    }
}

#[test]
fn a_kernel_that_stays_whole_is_planned_once() {
    let codegen = PlanningCodegen::new(true);
    let scheduled = codegen.scheduled();
    assert_eq!(canonical::contractions(scheduled.kernels()[0].ir()).len(), 1);
    codegen.compile(&scheduled).unwrap();
    assert_eq!(codegen.num_planned(), 1);
}

#[test]
fn a_kernel_that_was_tiled_is_planned_anew() {
    let codegen = PlanningCodegen::new(false);
    let scheduled = codegen.scheduled();
    assert_eq!(canonical::contractions(scheduled.kernels()[0].ir()), BTreeSet::new());
    codegen.compile(&scheduled).unwrap();
    assert_eq!(codegen.num_planned(), 2);
}

#[test]
fn code_keeps_no_plans() {
    let codegen = PlanningCodegen::new(true);
    let scheduled = codegen.scheduled();
    let plan = Arc::downgrade(&codegen.plan(&scheduled.kernels()[0]));
    let artifact = codegen.compile(&scheduled).unwrap();
    assert!(plan.upgrade().is_some());
    let _code = Code::new(scheduled, artifact).unwrap();
    assert!(plan.upgrade().is_none());
}

#[test]
fn clones_share_a_plan_that_others_cannot_replace() {
    let first = kernel();
    let second = first.clone();
    let failed: Result<Arc<u8>, &str> = first.plan_once(|| Err("no plan"));
    assert_eq!(failed, Err("no plan"));
    let plan = |kernel: &Kernel, value: u8| *kernel.plan_once(|| Ok::<_, ()>(value)).unwrap();
    assert_eq!((plan(&first, 1), plan(&second, 2)), (1, 1));
    let other_type = |value: char| *first.plan_once(|| Ok::<_, ()>(value)).unwrap();
    assert_eq!((other_type('x'), other_type('y'), plan(&first, 3)), ('x', 'y', 1));
    let (ir, abi) = first.into_parts();
    assert_eq!(plan(&Kernel::new(ir, abi).unwrap(), 4), 4, "another kernel");
}
