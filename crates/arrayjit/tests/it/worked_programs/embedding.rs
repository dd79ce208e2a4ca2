//! Rows of a table selected by number, the loss of a classifier, and their gradients, compared with loops.

use arrayjit::DType::{F32, I32, U8};

use crate::worked_programs::program::{WorkedProgram, numbers};

const ROWS: usize = 6;
const WIDTH: usize = 3;
/// The row that each example selects: one row is selected twice, and two selections are outside the table.
const PICKED: [i64; 6] = [2, 0, 5, 2, -1, 6];

fn picked() -> Vec<f64> {
    PICKED.iter().map(|&row| row as f64).collect()
}

fn in_table(row: i64) -> Option<usize> {
    usize::try_from(row).ok().filter(|&row| row < ROWS)
}

/// The result has the selected rows, and zeros for selections outside the table.
#[test]
fn rows_are_looked_up() {
    let table = numbers(30, ROWS * WIDTH);
    let mut expected = Vec::new();
    for row in PICKED {
        match in_table(row) {
            Some(row) => expected.extend_from_slice(&table[row * WIDTH..][..WIDTH]),
            None => expected.extend([0.0; WIDTH]),
        }
    }
    let program = WorkedProgram::new("e[b,i] :+= (k == row[b]) * table[k,i]")
        .given("table", F32, &[ROWS, WIDTH], &table)
        .given("row", I32, &[PICKED.len()], &picked())
        .kept("e", F32, &[PICKED.len(), WIDTH]);
    for outcome in program.run() {
        outcome.expect("e", &expected, 0.0);
    }
}

/// The gradient is added to the selected row, once for each selection; a selection outside of the table is
/// dropped.
#[test]
fn gradients_are_added_to_the_rows_they_came_from() {
    let gradient = numbers(31, PICKED.len() * WIDTH);
    let mut expected = vec![0.0; ROWS * WIDTH];
    for (row, gradient) in PICKED.into_iter().zip(gradient.chunks(WIDTH)) {
        let Some(row) = in_table(row) else { continue };
        for (sum, g) in expected[row * WIDTH..].iter_mut().zip(gradient) {
            *sum += g;
        }
    }
    let program = WorkedProgram::new("g[k,i] :+= where(k == row[b], ge[b,i], 0)")
        .given("ge", F32, &[PICKED.len(), WIDTH], &gradient)
        .given("row", I32, &[PICKED.len()], &picked())
        .given("g", F32, &[ROWS, WIDTH], &[9.0; ROWS * WIDTH]);
    for outcome in program.run() {
        outcome.expect("g", &expected, 0.0);
    }
}

/// The mean cross-entropy of labels and its gradient: the probabilities, less one at the label, divided by
/// the number of examples.
#[test]
fn the_loss_of_a_classifier_and_its_gradient() {
    let (examples, classes) = (4, 5);
    let scores = numbers(32, examples * classes);
    let labels = [3usize, 0, 4, 3];
    let (mut loss, mut gradient) = (0.0, Vec::new());
    for (row, label) in scores.chunks(classes).zip(labels) {
        let sum: f64 = row.iter().map(|x| x.exp()).sum();
        loss += (sum.ln() - row[label]) / examples as f64;
        let probability = |k: usize| row[k].exp() / sum - f64::from(u8::from(k == label));
        gradient.extend((0..classes).map(|k| probability(k) / examples as f64));
    }
    let text = "
        top[b] :max= s[b,k]
        e[b,k] := exp(s[b,k] - top[b])
        z[b] :+= e[b,k]
        of_label[b] :+= (k == label[b]) * s[b,k]
        loss :+= (log(z[b]) + top[b] - of_label[b]) / 4
        gs[b,k] := (e[b,k] / z[b] - (k == label[b])) / 4
    ";
    let program = WorkedProgram::new(text)
        .given("s", F32, &[examples, classes], &scores)
        .given("label", U8, &[examples], &labels.map(|label| label as f64))
        .inner("top", F32, &[examples])
        .inner("e", F32, &[examples, classes])
        .inner("z", F32, &[examples])
        .inner("of_label", F32, &[examples])
        .kept("loss", F32, &[])
        .kept("gs", F32, &[examples, classes]);
    for outcome in program.run() {
        outcome.expect("loss", &[loss], 1e-6);
        outcome.expect("gs", &gradient, 1e-6);
    }
}
