//! Random accumulations of sizes that give strips, tiles, partial results and all their remainders: loops in
//! any order, operands in any layout, with and without initial values and an epilogue.

use std::fmt::Write;

use random_programs::{Choices, bytes_of_seed};

use super::common::{check, check_gpu, filled, parse};

/// The sizes from which those of a nest's axes are chosen.
const SIZES: [usize; 13] = [1, 2, 3, 4, 5, 8, 9, 16, 18, 31, 32, 37, 64];

fn node(dims: &[usize], sizes: &[usize]) -> String {
    dims.iter().map(|&d| sizes[d].to_string()).collect::<Vec<_>>().join(", ")
}

fn index(dims: &[usize]) -> String {
    dims.iter().map(|d| format!("i{d}")).collect::<Vec<_>>().join(", ")
}

/// A routine `c[m, n] op= a[m, k, q] * b[k, q, n]`. The axis `q` may also be an axis of `c`, or be missing.
/// The factor `b` may be missing, and `n` with it. Axes and loops are in random order.
fn accumulation(seed: u64) -> String {
    let bytes = bytes_of_seed(seed, 32);
    let mut choices = Choices::new(&bytes);
    let dtype = *choices.pick(&["f32", "f32", "f32", "f64", "i32"]);
    let sizes: Vec<usize> = (0..4).map(|_| *choices.pick(&SIZES)).collect();
    let (m, n, k) = (0, 1, 2);
    // The fourth axis is another reduction loop, another output loop, or missing.
    let fourth = choices.below(3);
    let mut sizes = sizes;
    sizes[3] = 1 + sizes[3] % 4;
    let (mut outputs, mut a, mut b) = (vec![m, n], vec![m, k], vec![k, n]);
    let mut loops = vec![m, n, k];
    match fourth {
        0 => {
            a.push(3);
            b.push(3);
            loops.push(3);
        }
        1 => {
            outputs.push(3);
            a.push(3);
            b.push(3);
            loops.push(3);
        }
        _ => {}
    }
    let product = choices.below(3) > 0;
    if !product {
        outputs.retain(|&axis| axis != n);
        loops.retain(|&axis| axis != n);
    }
    let (outputs, a, b) = (choices.shuffled(&outputs), choices.shuffled(&a), choices.shuffled(&b));
    let loops = choices.shuffled(&loops);
    let (c_at, a_at, b_at) = (index(&outputs), index(&a), index(&b));
    let left = *choices.pick(&["%0", "relu"]);
    let left = if left == "relu" { format!("relu(%0[{a_at}])") } else { format!("%0[{a_at}]") };
    let element = if product { format!("{left} * %1[{b_at}]") } else { left };
    let value = match choices.below(4) {
        0 => format!("max({element}, %2[{c_at}])"),
        1 => format!("{element} + %2[{c_at}]"),
        _ => format!("%2[{c_at}] + {element}"),
    };
    let mut text = format!(
        "routine @nest_{seed} fast {{
  node %0 \"a\" {dtype}[{}] on_device
  node %1 \"b\" {dtype}[{}] on_device
  node %2 \"c\" {dtype}[{}] on_device
",
        node(&a, &sizes),
        node(&b, &sizes),
        node(&outputs, &sizes),
    );
    if choices.below(2) == 0 {
        text.push_str("  zero %2\n");
    }
    for axis in &loops {
        writeln!(text, "for i{axis} in 0..{} {{", sizes[*axis]).unwrap();
    }
    writeln!(text, "%2[{c_at}] := {value}").unwrap();
    text.push_str(&"}\n".repeat(loops.len()));
    if choices.below(3) == 0 {
        for axis in &outputs {
            writeln!(text, "for i1{axis} in 0..{} {{", sizes[*axis]).unwrap();
        }
        let at = outputs.iter().map(|d| format!("i1{d}")).collect::<Vec<_>>().join(", ");
        writeln!(text, "%2[{at}] := relu(%2[{at}] + %2[{at}])").unwrap();
        text.push_str(&"}\n".repeat(outputs.len()));
    }
    text + "}\n"
}

#[test]
fn random_accumulations_keep_their_bits_through_every_step() {
    for seed in filetests::effort::seeds(10) {
        let case = filled(parse(&accumulation(seed)));
        check(&case);
        check_gpu(&case);
    }
}
