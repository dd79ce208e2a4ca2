//! Random attention under a mask: the nests that `bound_masks` ends at the diagonal have the bits of the
//! masks, for NaN and infinite values too.

use filetests::RunCase;
use random_programs::{Choices, bytes_of_seed};

use super::common::{check, filled, parse};

/// The numbers of positions: around the least that is bounded, and around squares.
const POSITIONS: [usize; 6] = [31, 32, 33, 48, 64, 70];

/// `where(j < i + beyond, inside, outside)`, written in one of several ways.
fn mask(choices: &mut Choices<'_>, [row, column]: [&str; 2], beyond: usize, parts: [&str; 2]) -> String {
    let [inside, outside] = parts;
    let (row, column) = (format!("index i32({row})"), format!("index i32({column})"));
    match (beyond, choices.chance(1, 2)) {
        (0, true) => format!("where({column} < {row}, {inside}, {outside})"),
        (0, false) => format!("where({row} <= {column}, {outside}, {inside})"),
        (_, true) => format!("where({column} <= {row}, {inside}, {outside})"),
        (_, false) => format!("where({row} < {column}, {outside}, {inside})"),
    }
}

/// Attention of `n` positions with `d` features to the positions before, or up to, their own.
fn attention(seed: u64) -> String {
    let bytes = bytes_of_seed(seed, 40);
    let choices = &mut Choices::new(&bytes);
    let (n, d) = (*choices.pick(&POSITIONS), *choices.pick(&[1, 4, 7]));
    let beyond = choices.below(2);
    let top = mask(choices, ["i5", "i6"], beyond, ["%3[i5, i6]", "-inff32"]);
    let weight = mask(choices, ["i7", "i8"], beyond, ["exp(%3[i7, i8] - %4[i7])", "0.0f32"]);
    let product = match choices.below(3) {
        0 => "%5[i11, i13] * %2[i13, i12]",
        1 => "%2[i13, i12] * %5[i11, i13]",
        _ => "%5[i11, i13] * (%2[i13, i12] - %2[0, i12])",
    };
    // Statements after which a bound would change results: scores that are read beyond the diagonal, and
    // weights that are not 0 there.
    let (reads_scores, adds) = (choices.chance(1, 6), choices.chance(1, 6));
    let scores = if reads_scores { "for i14 in 0..1 { %6[0] := %3[0, 5] }" } else { "" };
    let weights = if adds { "for i15 in 0..1 { %5[1, 5] := 0.5f32 }" } else { "" };
    format!(
        "routine @mask_{seed} fast {{
        node %0 \"q\" f32[{n}, {d}] on_device
        node %1 \"k\" f32[{n}, {d}] on_device
        node %2 \"v\" f32[{n}, {d}] on_device
        node %3 \"s\" f32[{n}, {n}] local
        node %4 \"top\" f32[{n}] local
        node %5 \"e\" f32[{n}, {n}] local
        node %6 \"sum\" f32[{n}] on_device
        node %7 \"o\" f32[{n}, {d}] on_device
        zero %3
        for i0 in 0..{n} {{ for i1 in 0..{n} {{ for i2 in 0..{d} {{
            %3[i0, i1] := %3[i0, i1] + %0[i0, i2] * %1[i1, i2]
        }} }} }}
        for i3 in 0..{n} {{ %4[i3] := -inff32 }}
        for i5 in 0..{n} {{ for i6 in 0..{n} {{ %4[i5] := max({top}, %4[i5]) }} }}
        for i7 in 0..{n} {{ for i8 in 0..{n} {{ %5[i7, i8] := {weight} }} }}
        {weights}
        zero %6
        for i9 in 0..{n} {{ for i10 in 0..{n} {{ %6[i9] := %6[i9] + %5[i9, i10] }} }}
        {scores}
        zero %7
        for i11 in 0..{n} {{ for i12 in 0..{d} {{ for i13 in 0..{n} {{
            %7[i11, i12] := %7[i11, i12] + {product}
        }} }} }}
        }}"
    )
}

/// Puts NaN and infinities into some elements of the scores' operands and of the values.
fn with_special_values(mut case: RunCase, seed: u64) -> RunCase {
    let bytes = bytes_of_seed(!seed, 16);
    let mut choices = Choices::new(&bytes);
    let kinds = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0];
    for _ in 0..choices.below(4) {
        let (node, value) = (*choices.pick(&[1, 2, 2]), *choices.pick(&kinds));
        let input = &mut case.inputs[node];
        let at = choices.below(input.len() / 4);
        input[4 * at..4 * at + 4].copy_from_slice(&value.to_le_bytes());
    }
    case
}

#[test]
fn masked_attention_keeps_its_bits_through_every_step() {
    let (mut bounded, mut started, seeds) = (0, 0, filetests::effort::seeds(40));
    for seed in seeds.clone() {
        let case = with_special_values(filled(parse(&attention(seed))), seed);
        let (_, trace) = check(&case);
        let after = |pass: &str| trace.iter().find(|(name, _)| name == pass).map(|(_, text)| text.clone());
        let text = after("bound_masks").unwrap();
        bounded += usize::from(Some(&text) != after("normalize_loops").as_ref());
        started += usize::from(text.contains("0.0f32 * "));
    }
    let count = seeds.count();
    assert!((count / 3..count).contains(&bounded), "{bounded} of {count} masks became bounds");
    assert!(started > count / 3, "{started} of {count} sums start from the products of zeros");
}
