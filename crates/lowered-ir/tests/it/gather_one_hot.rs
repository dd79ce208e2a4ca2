//! Gathers have the bits of the one-hot sums that they replace, whatever the values of table, label and
//! accumulator.

use lowered_ir::interp::{self, Memory};
use lowered_ir::ir::{Expr, LoweredRoutine, walk};
use lowered_ir::passes::gather_one_hot::gather_one_hot;
use lowered_ir::{text, verify};
use tnode::{DType, Scalar};

/// `y[] := y[] + element` over the classes `i0`, with `table`, `label` and `y` of the given types.
fn routine(class: &str, classes: usize, types: [DType; 2], element: &str) -> LoweredRoutine {
    let [dtype, label] = types;
    let source = format!(
        "routine @g {class} {{\nnode %0 \"table\" {dtype}[{classes}] on_device\nnode %1 \"label\" {label}[] on_device\n\
         node %2 \"y\" {dtype}[] on_device\nfor i0 in 0..{classes} {{ %2[] := %2[] + {element} }}\n}}"
    );
    let routine = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    verify::verify(&routine).unwrap_or_else(|e| panic!("{e}\n{source}"));
    routine
}

fn gathers(routine: &LoweredRoutine) -> bool {
    walk::parts_in(&routine.body).any(|part| matches!(part, Expr::GetDynamic { .. }))
}

fn gathered(before: &LoweredRoutine) -> LoweredRoutine {
    let mut after = before.clone();
    gather_one_hot(&mut after);
    verify::verify(&after).unwrap_or_else(|e| panic!("{e}\n{}", text::print(&after)));
    assert!(gathers(&after), "{}", text::print(&after));
    after
}

fn run(routine: &LoweredRoutine, table: &[Scalar], label: Scalar, start: Scalar) -> Scalar {
    let mut memory = Memory::zeroed(routine);
    let size = table[0].dtype().size_bytes();
    for (value, bytes) in table.iter().zip(memory.nodes[0].chunks_exact_mut(size)) {
        value.write(bytes).expect("an element");
    }
    label.write(&mut memory.nodes[1]).expect("an element");
    start.write(&mut memory.nodes[2]).expect("an element");
    interp::run(routine, &mut memory, &[]).unwrap_or_else(|e| panic!("{e}"));
    Scalar::read(start.dtype(), &memory.nodes[2]).expect("an element")
}

/// Compares the routine with its gather on every table entry, label and initial value that may be special.
fn check(before: &LoweredRoutine, classes: usize, [dtype, label]: [DType; 2]) {
    let after = gathered(before);
    let numbers = [0.0, -0.0, 0.1, -1.0, f64::INFINITY, f64::NAN];
    let values = numbers.map(|x| Scalar::from_f64(dtype, x));
    let labels =
        [0.0, -0.0, 1.0, 0.5, -1.0, classes as f64, classes as f64 - 1.0, 1e30, f64::INFINITY, f64::NAN];
    for chosen in values {
        for (start, other) in values.into_iter().flat_map(|a| values.map(|b| (a, b))) {
            for position in labels {
                let mut table = vec![other; classes];
                let at = position.clamp(0.0, classes as f64 - 1.0) as usize;
                table[at] = chosen;
                let position = Scalar::from_f64(label, position);
                let (want, have) =
                    (run(before, &table, position, start), run(&after, &table, position, start));
                let alike = want == have || (want.as_f64().is_nan() && have.as_f64().is_nan());
                assert!(alike, "{start:?} + {table:?} at {position:?}: {have:?}, expected {want:?}");
            }
        }
    }
}

#[test]
fn selections_keep_every_bit() {
    for dtype in [DType::F32, DType::F16, DType::I32, DType::Bool] {
        let zero = match dtype {
            DType::Bool => "false".to_owned(),
            _ if dtype.is_float() => format!("0.0{dtype}"),
            _ => format!("0{dtype}"),
        };
        for classes in [2, 5] {
            let element = format!("where(index i32(i0) == %1[], %0[i0], {zero})");
            let types = [dtype, DType::I32];
            check(&routine("strict", classes, types, &element), classes, types);
            for label in [DType::F32, DType::U8] {
                let element = format!("where(convert {label}(index i32(i0)) == %1[], %0[i0], {zero})");
                let types = [dtype, label];
                check(&routine("strict", classes, types, &element), classes, types);
            }
        }
    }
}

#[test]
fn integer_products_keep_every_bit() {
    for dtype in [DType::I32, DType::U8, DType::I64] {
        let element = format!("convert {dtype}(%1[] == index i32(i0)) * %0[i0]");
        let types = [dtype, DType::I32];
        check(&routine("strict", 3, types, &element), 3, types);
    }
}

#[test]
fn types_that_confuse_classes_are_rejected() {
    let rejected = |classes: usize, label: DType| {
        let element = format!("where(convert {label}(index i32(i0)) == %1[], %0[i0], 0.0f32)");
        let mut after = routine("strict", classes, [DType::F32, label], &element);
        gather_one_hot(&mut after);
        !gathers(&after)
    };
    assert!(!rejected(256, DType::U8) && rejected(257, DType::U8));
    assert!(!rejected(2048, DType::F16) && rejected(2050, DType::F16));
    assert!(!rejected(128, DType::I8) && rejected(129, DType::I8));
}
