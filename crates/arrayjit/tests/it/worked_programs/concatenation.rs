//! Arrays concatenated along an axis, and split again.

use arrayjit::DType::{F32, I32};

use crate::worked_programs::program::{WorkedProgram, expect, numbers};

#[test]
fn two_arrays_become_one() {
    let program = WorkedProgram::new("y[i^j] := x[i], z[j]")
        .given("x", I32, &[2], &[1.0, 2.0])
        .given("z", I32, &[3], &[30.0, 40.0, 50.0])
        .kept("y", I32, &[5]);
    expect(&program, "y", &[1.0, 2.0, 30.0, 40.0, 50.0], 0.0);
}

/// Concatenates along the inner and the outer axis, with an operation on the elements.
#[test]
fn matrices_side_by_side_and_on_top_of_each_other() {
    let (a, b) = (numbers(15, 6), numbers(16, 6));
    let program =
        WorkedProgram::new("beside[r, i^j] := a[r,i], -b[r,j]\n above[r^s, c] := 2 * a[r,c], b[s,c]")
            .given("a", F32, &[2, 3], &a)
            .given("b", F32, &[2, 3], &b)
            .kept("beside", F32, &[2, 6])
            .kept("above", F32, &[4, 3]);
    let beside: Vec<f64> = (0..2)
        .flat_map(|r| {
            a[r * 3..][..3].iter().copied().chain(b[r * 3..][..3].iter().map(|x| -x)).collect::<Vec<_>>()
        })
        .collect();
    let above: Vec<f64> = a.iter().map(|x| 2.0 * x).chain(b.iter().copied()).collect();
    for outcome in program.run() {
        outcome.expect("beside", &beside, 0.0);
        outcome.expect("above", &above, 0.0);
    }
}

/// Splitting undoes concatenation, for three parts of different sizes.
#[test]
fn splitting_gives_back_what_was_put_together() {
    let parts = [numbers(17, 2), numbers(18, 5), numbers(19, 1)];
    let program = WorkedProgram::new("y[i^j^k] := a[i], b[j], c[k]\n p[i], q[j], r[k] := y[i^j^k]")
        .given("a", F32, &[2], &parts[0])
        .given("b", F32, &[5], &parts[1])
        .given("c", F32, &[1], &parts[2])
        .kept("y", F32, &[8])
        .kept("p", F32, &[2])
        .kept("q", F32, &[5])
        .kept("r", F32, &[1]);
    for outcome in program.run() {
        outcome.expect("y", &parts.concat(), 0.0);
        for (name, part) in ["p", "q", "r"].into_iter().zip(&parts) {
            outcome.expect(name, part, 0.0);
        }
    }
}

/// The gradient of a concatenation: the gradient of each part is its own section.
#[test]
fn gradients_go_back_to_the_parts() {
    let gradient = numbers(20, 5 * 4);
    let program = WorkedProgram::new("ga[i], gb[j] :+= gy[i^j, k]")
        .given("gy", F32, &[5, 4], &gradient)
        .given("ga", F32, &[2], &[9.0; 2])
        .given("gb", F32, &[3], &[9.0; 3]);
    let sums: Vec<f64> = gradient.chunks(4).map(|row| row.iter().sum()).collect();
    for outcome in program.run() {
        outcome.expect("ga", &sums[..2], 0.0);
        outcome.expect("gb", &sums[2..], 0.0);
    }
}

#[test]
fn rotations_and_fillings() {
    let q = numbers(21, 7);
    let program = WorkedProgram::new("r[i^j] := q[j^i] where i < 3\n f[i^j] := q[i], 0 * j where i < 7")
        .given("q", F32, &[7], &q)
        .kept("r", F32, &[7])
        .kept("f", F32, &[10]);
    let mut turned = q.clone();
    turned.rotate_right(3);
    let filled: Vec<f64> = q.iter().copied().chain([0.0; 3]).collect();
    for outcome in program.run() {
        outcome.expect("r", &turned, 0.0);
        outcome.expect("f", &filled, 0.0);
    }
}
