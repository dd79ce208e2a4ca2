//! Programs with random edits: no text makes the parser, expansion or inference panic, printed programs mean
//! what their texts mean, and printed assignments are programs.

use crate::program::{f32s, node};

use assignment_text::{Program, parse_nodes, unparse};
use assignments::lower::{LowerOptions, lower};
use lowered_ir::verify::verify;
use proptest::prelude::*;
use tnode::DType;

const PROGRAMS: [&str; 9] = [
    "def softmax(x[..,k]) -> y[..,k] {
         m[..] :max= x[..,k]; e[..,k] := exp(x[..,k] - m[..]); s[..] :+= e[..,k]
         y[..,k] := e[..,k] / s[..]
     }
     y[i,j] := 2 * softmax(x[i,j] / 8) where j < 5",
    "def step(inout w[..], g[..], rate, mu = 0.9) { w[..] -= rate * (g[..] + mu * w[..]) / size(..) }
     step(x[i,j], y[i,j], s); step(v[i], v[i] * 2, @t * 0.5, mu = 1); step(s, s, 1)",
    "size d = 6, half = d / 2
     repeat l in 0..half { v[l] := w[d - 1 - l]; h[l][i] := v[i] * l }
     v[i] := h[half - 1][i] + h[0][i] where i < half",
    "def conv(x[b,c], f[c,o], stride = 1) -> y[b,o] { y[b,o] :+= x[b, stride*c + k] * f[c,o] where k < 2 }
     y[i,j] := conv(x[i,j], z[j,k])[i, 2*j] where i < 2, j < 2",
    "def drop(x[..r..], seed, t) -> y[..r..] { y[..r..] := where(uniform(seed, t, ..r..) < 0.9, x[..r..], 0) }
     y[i,j] := drop(x[i,j], 7, @t) where @t < 10; v := (uniform(3)); s := -(-1) - -2",
    "view f = x as [2, 12]; view g[1] = f as [4, 3, 2]
     v[i] := g[1][1, i, 0] + f[1 - i, 3*i] + f[@s, 0] where @s < 2, i < 2; t[i] := g[1][i,j,k] where j < 1
     def tail(x[..,i]) -> y[..] { view p = x as [3, 2]; y[..] :+= p[j,1] * x[..,i] }; s := tail(w[i]) + tail(x[0,i] * 2)",
    "def two(x[i]) -> a[i], b[] { a[i] := x[i]; b :+= x[i] > 0.5 }
     v[i], s := two(w[i]); y[n[i] % 4, i] += w[i]; q := pad(x, -1)[n[0], 3 - 9]; s := q + size(q)",
    "size d = 6; input x f32[4, d], tag u8[4]; const c f64[2] := values(1, 2.5)
     repeat l in 0..2 { param m[l] f32[d, d/2] := normal(l) * 0.1 + uniform(7, 1) }
     node e f16[4]; h[i,k] :+= x[i,j] * m[0][j,k]; e[i] :max= h[i, 2 - k] where k < 2
     zero[i] := 0 where i < 4; r[i] := e[3 - i] + zero[i]; p[i] := h[i, tag[i]]
     u := slice(x, @b); keep r, p, m[1], u",
    "repeat l in 0..2 { param m[l] f32[6] }; param b f16
     d[i] := m[0][i] * m[1][i] + w[i]; s :+= d[i] * b; grad s by m, w; detach d, m[1]; grad s by b, d
     repeat l in 0..2 { m[l][i] -= 0.1 * m.grad[l][i] + w.grad[i] }; v[i] := d.grad[i] * b.grad; recompute d, s",
];

/// The words and signs of a text.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '@';
        let length = match first {
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        tokens.push(&rest[..length]);
        rest = &rest[length..];
    }
    tokens
}

/// An edit: what to do at a token, and the token to take from anywhere.
type Edit = (u8, prop::sample::Index, prop::sample::Index);

fn edited(text: &str, edits: &[Edit]) -> String {
    let pool: Vec<&str> = PROGRAMS.iter().flat_map(|text| tokens(text)).collect();
    let mut tokens = tokens(text);
    for (kind, at, from) in edits {
        let (at, other) = (at.index(tokens.len().max(1)), from.index(tokens.len().max(1)));
        let from = pool[from.index(pool.len())];
        match kind % 4 {
            0 if at < tokens.len() => _ = tokens.remove(at),
            1 if at < tokens.len() => tokens[at] = from,
            2 if at < tokens.len() => tokens.swap(at, other),
            _ => tokens.insert(at, from),
        }
    }
    tokens.concat()
}

/// Checks everything that holds for any text.
fn check(text: &str) {
    let Ok(program) = Program::parse(text) else { return };
    let printed = program.to_string();
    let again = Program::parse(&printed).unwrap_or_else(|error| panic!("{error}\n{text}\n{printed}"));
    assert_eq!(again.to_string(), printed, "{text}");
    let expanded = program.expand().map(|program| program.to_string());
    match (&expanded, again.expand().map(|program| program.to_string())) {
        (Ok(expanded), Ok(again)) => {
            assert_eq!(again, *expanded, "{text}");
            let last = Program::parse(expanded).and_then(|program| program.expand());
            assert_eq!(last.unwrap_or_else(|error| panic!("{error}\n{text}")).to_string(), *expanded);
        }
        (Err(_), Err(_)) => {}
        (found, again) => panic!("{text}\n{found:?}\n{again:?}"),
    }
    check_lowered(&program, text);
}

/// Checks that the routines of a program verify. Returns whether the program is accepted.
fn check_lowered(program: &Program, text: &str) -> bool {
    let nodes = [
        f32s("x", &[4, 6]),
        f32s("y", &[4, 6]),
        f32s("z", &[6, 3]),
        f32s("v", &[6]),
        f32s("w", &[6]),
        f32s("s", &[]),
        node("n", DType::I32, &[6]),
    ];
    let Ok(assignments) = program.assignments(&nodes) else { return false };
    let printed = unparse(&assignments);
    Program::parse(&printed)
        .and_then(|program| program.assignments(&[]))
        .unwrap_or_else(|error| panic!("{error}\n{text}\n{printed}"));
    let is_lowered = |assignments| match lower(assignments, &LowerOptions::default()) {
        Ok(lowered) => {
            verify(&lowered.lowered.routine).unwrap_or_else(|error| panic!("{error}\n{text}"));
            true
        }
        Err(_) => false,
    };
    assignments.initial.as_deref().is_none_or(is_lowered) && is_lowered(&assignments)
}

#[test]
fn the_programs_are_valid() {
    for text in PROGRAMS {
        Program::parse(text).and_then(|program| program.expand()).unwrap_or_else(|error| panic!("{error}"));
        check(text);
    }
    let declaring = Program::parse(PROGRAMS[7]).expect("checked above");
    assert!(check_lowered(&declaring, PROGRAMS[7]), "it declares what the given nodes are");
}

proptest! {
    #[test]
    fn edited_declarations_are_declarations_or_errors(edits in prop::collection::vec(any::<Edit>(), 1..4)) {
        let text = edited("x f32[32, 64]; w.grad f64[64,10]\nids i32[2*4], loss", &edits);
        match parse_nodes(&text) {
            Ok(nodes) => prop_assert!(nodes.iter().all(|node| node.dims().is_ok())),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn edited_programs_keep_their_meaning_when_printed(
        program in 0..PROGRAMS.len(),
        edits in prop::collection::vec(any::<Edit>(), 1..4),
    ) {
        check(&edited(PROGRAMS[program], &edits));
    }
}
