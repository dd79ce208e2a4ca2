//! Random nests whose columns end at the row: the parts into which `split_triangles` divides them have the
//! bits of the whole.

use std::fmt::Write;

use random_programs::{Choices, bytes_of_seed};

use super::common::{check, check_gpu, filled, parse};

/// The numbers of rows: around the squares and the least triangle that is divided.
const ROWS: [usize; 8] = [32, 33, 31, 47, 48, 64, 65, 100];

/// The axes of the row, of the column and of a third loop.
const AXES: [&str; 3] = ["i0", "i1", "i2"];

/// A routine `c[outputs] op= a[..] * b[..]` over rows `i0`, columns `i1 < i0 + beyond` and a third loop,
/// which may be missing.
fn triangle(seed: u64) -> String {
    let bytes = bytes_of_seed(seed, 40);
    let mut choices = Choices::new(&bytes);
    let dtype = *choices.pick(&["f32", "f64", "f32", "i32"]);
    let rows = *choices.pick(&ROWS);
    let sizes = [rows, rows + choices.below(2), *choices.pick(&[1, 3, 8, 17])];
    let all: &[usize] = if choices.chance(3, 4) { &[0, 1, 2] } else { &[0, 1] };
    let outputs: Vec<usize> = match choices.below(6) {
        0 => all.iter().copied().filter(|&axis| axis != 1).collect(),
        1 => all.iter().copied().filter(|&axis| axis != 0).collect(),
        2 => vec![0, 1],
        3 => vec![0],
        4 => vec![1],
        _ => all.to_vec(),
    };
    let outputs = choices.shuffled(&outputs);
    let (a, b) = (choices.shuffled(&[0, *all.last().unwrap()]), choices.shuffled(&all[1..]));
    let at = |axes: &[usize]| axes.iter().map(|&axis| AXES[axis]).collect::<Vec<_>>().join(", ");
    let dims =
        |axes: &[usize]| axes.iter().map(|&axis| sizes[axis].to_string()).collect::<Vec<_>>().join(", ");
    // Elements left of the diagonal are inside of the node only for the columns of the row.
    let is_below = choices.chance(1, 4);
    let element = match is_below {
        true => format!("%3[i0 - i1 + {}]", sizes[1] - rows),
        false => format!("%0[{}] * %1[{}]", at(&a), at(&b)),
    };
    // An axis of one element before the others.
    let has_unit_axis = choices.chance(1, 4);
    let own = format!("%2[{}{}]", if has_unit_axis { "0, " } else { "" }, at(&outputs));
    let value = match choices.below(5) {
        0 => format!("max({element}, {own})"),
        1 => format!("{own} - {element}"),
        2 => format!("{own} * {element} + %1[{}]", at(&b)),
        _ => format!("{own} + {element}"),
    };
    let beyond = choices.below(2);
    let clip = if beyond == 1 { "i0 + 1" } else { "i0" };
    // The row is outside of the column; the third loop is anywhere.
    let mut loops = vec![format!("i0 in 0..{rows}"), format!("i1 in 0..min({}, {clip})", sizes[1])];
    if all.len() > 2 {
        loops.insert(*choices.pick(&[0, 0, 1, 2]), format!("i2 in 0..{}", sizes[2]));
    }
    // A local node that starts from zeros, and a sum of its elements over the same triangle or beyond it. A
    // nest between the two may add to its elements, and another one may compute those of a second local node
    // from them, which the sum has instead.
    let is_local = outputs.contains(&0) && outputs.contains(&1) && choices.chance(2, 3);
    let adds = choices.chance(1, 2);
    let computes = is_local && choices.chance(1, 2);
    let mut text = format!("routine @triangle_{seed} fast {{\n");
    let sums = rows.to_string();
    let stored = format!("{}{}", if has_unit_axis { "1, " } else { "" }, dims(&outputs));
    for (node, dims) in
        [dims(&a), dims(&b), stored.clone(), (rows + 1).to_string(), sums, stored].iter().enumerate()
    {
        let mode = if is_local && node == 2 || node == 5 { "local" } else { "on_device" };
        writeln!(text, "node %{node} \"n{node}\" {dtype}[{dims}] {mode}").unwrap();
    }
    if is_local {
        text.push_str("zero %2\n");
    }
    if computes {
        text.push_str("zero %5\n");
    }
    nest(&mut text, &loops, &format!("{own} := {value}"));
    if is_local {
        let mut over_triangle = |body: &str| {
            let clip = if choices.chance(2, 3) { clip } else { "i0 + 2" };
            let mut loops = vec![format!("i0 in 0..{rows}"), format!("i1 in 0..min({}, {clip})", sizes[1])];
            if outputs.contains(&2) {
                loops.push(format!("i2 in 0..{}", sizes[2]));
            }
            nest(&mut text, &loops, body);
        };
        if adds {
            over_triangle(&format!("{own} := {own} + %3[i0]"));
        }
        let second = own.replace("%2", "%5");
        if computes {
            over_triangle(&format!("{second} := {own} - %3[i0]"));
        }
        over_triangle(&format!("%4[i0] := %4[i0] + {}", if computes { &second } else { &own }));
    }
    text + "}\n"
}

/// Writes loops around a statement, with names of their own.
fn nest(text: &mut String, loops: &[String], body: &str) {
    let first = text.matches("for ").count();
    let own = |line: &str| {
        AXES.iter().fold(line.to_owned(), |line, axis| {
            let number: usize = axis[1..].parse().unwrap();
            line.replace(axis, &format!("i{}", 10 + 3 * first + number))
        })
    };
    loops.iter().for_each(|l| writeln!(text, "for {} {{", own(l)).unwrap());
    writeln!(text, "{}", own(body)).unwrap();
    text.push_str(&"}\n".repeat(loops.len()));
}

#[test]
fn triangles_keep_their_bits_through_every_step() {
    let (mut divided, mut folded, seeds) = (0, 0, filetests::effort::seeds(30));
    for seed in seeds.clone() {
        let case = filled(parse(&triangle(seed)));
        let (_, trace) = check(&case);
        let after = |pass: &str| trace.iter().find(|(name, _)| name == pass).map(|(_, text)| text.clone());
        divided += usize::from(after("split_triangles") != after("normalize_loops"));
        let has_second = |pass| after(pass).is_some_and(|text| text.contains("%5["));
        folded += usize::from(has_second("normalize_loops") && !has_second("split_triangles"));
        check_gpu(&case);
    }
    let count = seeds.count();
    assert!((count / 3..count).contains(&divided), "{divided} of {count} triangles were divided");
    assert!(folded > 0, "no node is stored in another one");
}

/// Scores of earlier positions, their sum of values, and the gradient of the values: a GPU computes squares,
/// and fills no scores with zeros.
#[test]
fn products_of_triangles_are_squares_on_a_gpu() {
    for rows in [128, 150, 200] {
        let text = format!(
            "routine @attend fast {{
               node %0 \"q\" f32[2, {rows}, 4] on_device
               node %1 \"k\" f32[2, {rows}, 4] on_device
               node %2 \"s\" f32[2, {rows}, {rows}] local
               node %3 \"e\" f32[2, {rows}, {rows}] local
               node %4 \"o\" f32[2, {rows}, 4] on_device
               node %5 \"d\" f32[2, {rows}, 4] on_device
               zero %2
               for i0 in 0..2 {{ for i1 in 0..{rows} {{ for i2 in 0..min({rows}, i1 + 1) {{ for i3 in 0..4 {{
                 %2[i0, i1, i2] := %2[i0, i1, i2] + %0[i0, i1, i3] * %1[i0, i2, i3]
               }} }} }} }}
               zero %3
               for i4 in 0..2 {{ for i5 in 0..{rows} {{ for i6 in 0..min({rows}, i5 + 1) {{
                 %3[i4, i5, i6] := %2[i4, i5, i6] * 0.5f32
               }} }} }}
               for i7 in 0..2 {{ for i8 in 0..{rows} {{ for i9 in 0..4 {{ for i10 in 0..min({rows}, i8 + 1) {{
                 %4[i7, i8, i9] := %4[i7, i8, i9] + %3[i7, i8, i10] * %1[i7, i10, i9]
               }} }} }} }}
               for i11 in 0..2 {{ for i12 in 0..{rows} {{ for i13 in 0..4 {{ for i14 in 0..min({rows}, i12 + 1) {{
                 %5[i11, i14, i13] := %5[i11, i14, i13] + %0[i11, i12, i13] * %3[i11, i12, i14]
               }} }} }} }}
             }}"
        );
        let schedule = check_gpu(&filled(parse(&text)));
        let texts = schedule.kernels().iter().map(|kernel| lowered_ir::text::print(kernel.ir()));
        let fills = |text: &String| text.contains("] := 0.0f32") && !text.contains("declare");
        let scores = format!("[2, {rows}, {rows}]");
        assert!(!texts.filter(fills).any(|text| text.contains(&scores)), "{rows}: scores are filled");
        assert!(schedule.calls().len() > 6, "{rows}: {} kernels", schedule.calls().len());
    }
}
