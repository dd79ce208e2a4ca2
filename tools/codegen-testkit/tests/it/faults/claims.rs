//! False claims of capabilities, and code generators that conform by rejecting.

use codegen_core::{Caps, DTypeSet, Workgroups};
use codegen_testkit::Level::{L0, L1, L2, L3};
use lowered_ir::ir::{Expr, LoopKind, LoweredRoutine, Stmt, walk};
use tnode::DType;

use super::{Fault, Row, everything, first_level, threaded};

fn any_expr(routine: &LoweredRoutine, test: fn(&Expr) -> bool) -> bool {
    walk::parts_in(&routine.body).any(test)
}

fn any_stmt(routine: &LoweredRoutine, test: fn(&Stmt) -> bool) -> bool {
    walk::stmts(&routine.body).any(test)
}

fn has(routine: &LoweredRoutine, dtype: DType) -> bool {
    routine.nodes.iter().any(|decl| decl.dtype == dtype)
}

pub(crate) fn table() -> Vec<Row> {
    let claim = |name, level, caps: fn() -> Caps| Row { name, level, caps, fault: Fault::None };
    let rejects = |name, level, caps: fn() -> Caps, test: fn(&LoweredRoutine) -> bool| Row {
        name,
        level,
        caps,
        fault: Fault::Rejects(test),
    };
    vec![
        claim("an index of type u8", L0, || Caps { index: DType::U8, ..first_level() }),
        claim("workgroups in this process", L0, || Caps {
            workgroups: Some(Workgroups::new(256, 16 << 10)),
            ..first_level()
        }),
        claim("no arithmetic", L0, || Caps { arithmetic: DTypeSet::EMPTY, ..first_level() }),
        claim("no arithmetic on i32", L1, || Caps {
            arithmetic: DTypeSet::EMPTY.with(DType::F32),
            ..first_level()
        }),
        claim("no storage of bool", L1, || Caps {
            storage: [DType::F32, DType::I32].into_iter().collect(),
            ..first_level()
        }),
        claim("an alignment of 48", L0, || Caps { alignment: 48, ..first_level() }),
        claim("no thread", L0, || Caps { threads: 0, ..first_level() }),
        claim("vectors of 24 bytes", L0, || Caps { vector_bytes: 24, vector_registers: 16, ..first_level() }),
        claim("vectors without registers", L0, || Caps {
            vector_bytes: 16,
            vector_registers: 0,
            ..first_level()
        }),
        rejects("rejects everything", L0, first_level, |_| true),
        rejects("rejects loops of several iterations", L0, first_level, |routine| {
            any_stmt(routine, |stmt| matches!(stmt, Stmt::For { hi, .. } if hi.limit > 1))
        }),
        rejects("rejects i32", L1, first_level, |routine| has(routine, DType::I32)),
        rejects("rejects guards", L1, first_level, |routine| {
            any_expr(routine, |expr| matches!(expr, Expr::GetGuarded { .. }))
        }),
        rejects("rejects symbols", L1, first_level, |routine| !routine.symbols.is_empty()),
        rejects("rejects f64, which it claims to store", L2, everything, |routine| has(routine, DType::F64)),
        rejects("rejects fp8, which it claims to store", L2, everything, |routine| {
            has(routine, DType::Fp8E5m2)
        }),
        rejects("rejects logs", L2, everything, |routine| {
            any_stmt(routine, |stmt| matches!(stmt, Stmt::Log { .. }))
        }),
        rejects("rejects gathers", L2, everything, |routine| {
            any_expr(routine, |expr| matches!(expr, Expr::GetDynamic { .. }))
        }),
        rejects("rejects merge buffers", L3, threaded, |routine| {
            any_expr(routine, |expr| matches!(expr, Expr::GetMerge { .. }))
        }),
        rejects("rejects parallel loops", L3, threaded, |routine| {
            any_stmt(routine, |stmt| matches!(stmt, Stmt::For { kind: LoopKind::Parallel, .. }))
        }),
    ]
}
