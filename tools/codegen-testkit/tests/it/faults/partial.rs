//! A code generator that begins with three operations, and rejects every kernel with another one.

use codegen_testkit::{Level, cases, conformance, score};
use lowered_ir::ir::{BinaryOp, Expr, LoweredRoutine, walk};

use super::{Fault, Faulty, first_level};

conformance!(three_operations, three, towards = L0);

fn three() -> Faulty {
    Faulty { caps: first_level(), fault: Fault::Rejects(has_others) }
}

fn has_others(routine: &LoweredRoutine) -> bool {
    walk::parts_in(&routine.body).any(|expr| {
        !matches!(
            expr,
            Expr::Const(_)
                | Expr::Get { .. }
                | Expr::Binary { op: BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, .. }
        )
    })
}

#[test]
fn a_beginning_is_no_level() {
    let cases: Vec<_> = cases(&first_level()).into_iter().filter(|case| case.level == Level::L0).collect();
    let three = score(&three(), &cases);
    assert!(three.begins(Level::L0) && three.awarded().is_none(), "{three}");
    let counts = three.level(Level::L0);
    assert!(counts.passed > 2 && counts.rejected > counts.passed && counts.failed == 0, "{three}");
    let nothing = Faulty { caps: first_level(), fault: Fault::Rejects(|_| true) };
    assert!(!score(&nothing, &cases).begins(Level::L0));
    let wrong = Faulty {
        caps: first_level(),
        fault: Fault::Expr(|_, expr| match expr {
            Expr::Binary { op: BinaryOp::Mul, a, b } => Expr::Binary { op: BinaryOp::Sub, a, b },
            other => other,
        }),
    };
    assert!(!score(&wrong, &cases).begins(Level::L0));
}
