//! Attention whose loops end at the diagonal, and at the position of a token in a cache, against loops in
//! Rust, on every backend.

use arrayjit::DType::F32;
use arrayjit::settings::Settings;
use arrayjit::{Backend, HostArray, MemoryMode, TensorNode};

use crate::worked_programs::program::{WorkedProgram, numbers};

const HEADS: usize = 2;
const TOKENS: usize = 37;
const WIDTH: usize = 24;

/// Scores, exponentials and sums for the keys up to each query alone.
const CAUSAL: &str = "
    s[h,i,j] :+= q[h,i,d] * k[h,j,d] where j <= i
    m[h,i] :max= s[h,i,j] where j <= i
    e[h,i,j] :+= exp(s[h,i,j] - m[h,i]) where j <= i
    z[h,i] :+= e[h,i,j] where j <= i
    o[h,i,d] :+= e[h,i,j] * v[h,j,d] where j <= i
    o[h,i,d] := o[h,i,d] / z[h,i]
";

/// Appends a key and a value to a cache, and attends to all of it.
const STEP: &str = "
    keys[h,@pos,d] := k[h,d]
    cached[h,@pos,d] := v[h,d]
    s[h,t] :+= q[h,d] * keys[h,t,d] where t <= @pos
    m[h] :max= s[h,t] where t <= @pos
    e[h,t] :+= exp(s[h,t] - m[h]) where t <= @pos
    z[h] :+= e[h,t] where t <= @pos
    o[h,d] :+= e[h,t] * cached[h,t,d] where t <= @pos
    o[h,d] := o[h,d] / z[h]
";

fn inputs() -> [Vec<f64>; 3] {
    [21, 22, 23].map(|seed| numbers(seed, HEADS * TOKENS * WIDTH))
}

/// Causal attention of one head and one query.
fn attended(q: &[f64], k: &[f64], v: &[f64], head: usize, query: usize) -> Vec<f64> {
    let row = |x: &[f64], at: usize, d: usize| x[(head * TOKENS + at) * WIDTH + d];
    let score = |j: usize| (0..WIDTH).map(|d| row(q, query, d) * row(k, j, d)).sum::<f64>();
    let scores: Vec<f64> = (0..=query).map(score).collect();
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
    let all: f64 = weights.iter().sum();
    (0..WIDTH).map(|d| weights.iter().enumerate().map(|(j, w)| w * row(v, j, d)).sum::<f64>() / all).collect()
}

fn reference() -> Vec<f64> {
    let [q, k, v] = inputs();
    let rows = (0..HEADS).flat_map(|head| (0..TOKENS).map(move |query| (head, query)));
    rows.flat_map(|(head, query)| attended(&q, &k, &v, head, query)).collect()
}

#[test]
fn attention_up_to_the_diagonal() {
    let [q, k, v] = inputs();
    let dims = [HEADS, TOKENS, WIDTH];
    let program = || {
        WorkedProgram::new(CAUSAL)
            .given("q", F32, &dims, &q)
            .given("k", F32, &dims, &k)
            .given("v", F32, &dims, &v)
            .inner("s", F32, &[HEADS, TOKENS, TOKENS])
            .inner("m", F32, &[HEADS, TOKENS])
            .inner("e", F32, &[HEADS, TOKENS, TOKENS])
            .inner("z", F32, &[HEADS, TOKENS])
            .kept("o", F32, &dims)
    };
    for program in [program(), program().strict()] {
        for outcome in program.run() {
            outcome.expect("o", &reference(), 1e-4);
        }
    }
}

/// One compilation and one link serve all lengths of the cache: the position is a binding.
#[test]
fn a_cache_of_keys_and_values_grows_with_a_binding() {
    let [q, k, v] = inputs();
    let node = |name: &str, dims: &[usize]| TensorNode::builder(name).dims(dims.iter().copied());
    for name in ["interpreter", "inline", "multicore"] {
        let backend = Backend::open_with(name, &Settings::default()).unwrap();
        let open = |name: &str, dims: &[usize]| node(name, dims).build().unwrap();
        let kept = |name: &str| {
            let node = node(name, &[HEADS, TOKENS, WIDTH]).mode(MemoryMode::Materialized);
            node.build().unwrap()
        };
        let token = ["q", "k", "v"].map(|name| open(name, &[HEADS, WIDTH]));
        let [keys, cached] = ["keys", "cached"].map(kept);
        let [m, z] = ["m", "z"].map(|name| open(name, &[HEADS]));
        let [s, e] = ["s", "e"].map(|name| open(name, &[HEADS, TOKENS]));
        let o = node("o", &[HEADS, WIDTH]).mode(MemoryMode::Materialized).build().unwrap();
        let [tq, tk, tv] = &token;
        let code = backend.compile(STEP, [tq, tk, tv, &keys, &cached, &s, &m, &e, &z, &o]).unwrap();
        let mut context = backend.context().unwrap();
        let zeros = |dims: &[usize]| HostArray::zeros(F32, dims.to_vec()).unwrap();
        for node in token.iter() {
            context = context.init_from_host(node, zeros(&[HEADS, WIDTH])).unwrap();
        }
        for node in [&keys, &cached] {
            // Values beyond the valid length would spoil every sum that read them.
            let mut garbage = zeros(&[HEADS, TOKENS, WIDTH]);
            garbage.set_values(&vec![f64::NAN; HEADS * TOKENS * WIDTH]).unwrap();
            context = context.init_from_host(node, &garbage).unwrap();
        }
        let routine = code.link(&context).unwrap();
        assert_eq!(routine.bindings().iter().map(|s| s.range).collect::<Vec<_>>(), [TOKENS as i64]);
        for pos in 0..TOKENS {
            for (node, values) in token.iter().zip([&q, &k, &v]) {
                let heads = (0..HEADS).flat_map(|h| &values[(h * TOKENS + pos) * WIDTH..][..WIDTH]);
                let mut row = zeros(&[HEADS, WIDTH]);
                row.set_values(&heads.copied().collect::<Vec<_>>()).unwrap();
                let copied = routine.context().from_host(node, &row).unwrap();
                assert!(copied.is_scheduled());
            }
            routine.run(&[pos as i64]).unwrap().sync().unwrap();
            let found = routine.context().to_host(&o).unwrap().values();
            let expected = (0..HEADS).flat_map(|head| attended(&q, &k, &v, head, pos));
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-4, "{name} at {pos}: {found} instead of {expected}");
            }
        }
    }
}
