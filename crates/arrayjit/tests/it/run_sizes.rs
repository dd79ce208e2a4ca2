//! Sizes that a run gives: one routine has the bits of the routines for constant sizes.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit::{
    LoadedProgram,
    prelude::*,
    settings::{NumericClass, Settings},
};
use random_programs::SplitMix64;

/// Programs over `input x f32[n, 24], v f32[m]` and `param w f32[24, 24]`, each with the nodes that it keeps.
const PROGRAMS: &[(&str, &str, &[&str])] = &[
    ("elementwise", "y[i,k] := tanh(x[i,k]) * 2 + i", &["y"]),
    ("intermediates", "t[i,k] := x[i,k] * x[i,k]\n u[i,k] := t[i,k] + exp(t[i,k])\n y[i] :+= u[i,k]", &["y"]),
    ("a sum over a size", "s :+= x[i,k]\n m[k] :max= x[i,k]\n c[k] :+= x[i,k] / n", &["s", "m", "c"]),
    (
        "the size as a value",
        "s :+= x[i,k] / size(i)\n y[i] := v[0] * n + size(x, 0) where i < n",
        &["s", "y"],
    ),
    ("a product over columns", "y[i,j] :+= x[i,k] * w[k,j]\n z[i,j] := max(y[i,j], 0)", &["z"]),
    ("a product over rows", "g[k,l] :+= x[i,k] * x[i,l]", &["g"]),
    (
        "attention",
        "s[i,j] :+= x[i,d] * x[j,d] * 0.1\n p[i,j] := softmax(s[i,j])\n o[i,d] :+= p[i,j] * x[j,d]",
        &["o"],
    ),
    (
        "causal attention",
        "s[i,j] :+= x[i,d] * x[j,d] where j <= i\n m[i] :max= s[i,j] where j <= i\n e[i,j] :+= exp(s[i,j] - m[i]) where j <= i\n z[i] :+= e[i,j] where j <= i\n o[i,d] :+= e[i,j] * x[j,d] where j <= i\n o[i,d] := o[i,d] / z[i]",
        &["o"],
    ),
    ("a lower bound", "y[i] :max= x[j,0] where j >= i, i < n", &["y"]),
    ("windows", "y[i,k] :+= pad(x, 0)[i + d - 1, k] * w[d,k] where i < n, d < 3", &["y"]),
    ("wide windows", "y[i,k] :+= pad(x, 0)[i + d - 2, k] * w[d,k] where i < n, d < 5", &["y"]),
    ("windows that end behind", "y[i,k] :+= pad(x, 0)[i + d, k] * w[d,k] where i < n, d < 6", &["y"]),
    ("windows that begin before", "y[i,k] :+= pad(x, 0)[i + d - 5, k] * w[d,k] where i < n, d < 6", &["y"]),
    ("windows with holes", "y[i,k] :+= pad(x, 0)[i + 2*d - 3, k] * w[d,k] where i < n, d < 4", &["y"]),
    ("from the end", "y[i,k] := x[n - 1 - i, k] where i < n\n last[k] := x[n - 1, k]", &["y", "last"]),
    (
        "ranges that are sums",
        "node q f32[n + 1], r f32[2*n]\n q[i] := v[0] * i where i < n + 1\n r[i] := 1 where 2*n > i\n r[i] += x[i,0] where i < n",
        &["q", "r"],
    ),
    ("two sizes", "y[i,j] := x[i,0] * v[j]\n s[j] :+= y[i,j]\n t :+= s[j] * v[j]", &["y", "s", "t"]),
    (
        "gathers",
        "q[i] := 1 + i % 3 where i < n\n p[i] := i32(q[i])\n y[i,k] := x[p[i], k]\n t[j] := v[i32(v[j] * 20)]",
        &["y", "t"],
    ),
    (
        "scatters",
        "h :+= 0 * v[j]\n y[i,k] := 0 * x[i,k]\n y[i32(v[j] * 9), k] += v[j] * k where k < 24",
        &["y", "h"],
    ),
    (
        "views",
        "view heads = x as [n, 4, 6]\n y[h,i,d] := heads[i,h,d] + 1\n z[i,j] :+= y[h,i,d] * y[h,j,d]",
        &["z"],
    ),
    (
        "random numbers",
        "node r f32[n, 24]\n r := uniform(7)\n y[i,k] := x[i,k] * r[i,k] + normal(3, i, k)\n keep r",
        &["y"],
    ),
    (
        "functions",
        "def scaled(a[..,k], b) -> r[..,k] { r[..,k] := a[..,k] * b / size(k) }\n y[i,k] := scaled(x[i,k], n)\n z[k,i] := softmax(x[i,k])",
        &["y", "z"],
    ),
    (
        "layer norm",
        "y[i,k] := layer_norm(x[i,k], w[0,k], w[1,k])\n mean :+= v[j] / size(j)\n t[j] := v[j] - mean",
        &["y", "t"],
    ),
    (
        "half of the rows",
        "size h = (n + 1)/2\n y[i,k] := x[2*i + 0, k] where i < h\n z[k] :+= y[i,k] / h",
        &["y", "z"],
    ),
    (
        "every second row from the end",
        "size h = (n + 1)/2\n y[i,k] := x[n - 1 - 2*i, k] where i < h\n z[i] := 2 * x[n - 1 - 2*i, 0] where i < h",
        &["y", "z"],
    ),
    (
        "a convolution with margins and a stride",
        "size o = (n + 2*1 - 3)/2 + 1\n y[i,j] :+= pad(x, 0)[2*i + d - 1, k] * w[3*d + k, j] where i < o, d < 3, k < 8\n z[i,j] := max(y[i,j], 0)\n p[j] :max= z[i,j]",
        &["y", "z", "p"],
    ),
    (
        "pools",
        "size o = (n + 6)/3, q = (o + 1)/2\n a[i,k] :max= pad(x, -9)[3*i + d - 2, k] where i < o, d < 3, k < 24\n b[j,k] :+= pad(a, 0)[2*j + d, k] where j < q, d < 2, k < 24",
        &["a", "b"],
    ),
    (
        "joined parts",
        "node j f32[n + m]\n j[i] := pad(x, 0)[i,0]\n j[n + i] := v[i]\n t[i] := tanh(j[i])\n s :+= t[i] * t[i]",
        &["j", "t", "s"],
    ),
    ("the lesser of two sizes", "node y f32[n + m]\n y[i] := 0\n y[i] := x[i,0] + 1 where i < n", &["y"]),
    (
        "repeated elements",
        "size d = 2*n - 1\n node r f32[3*n]\n r[3*i + l] :+= x[i,1] where l < 3\n y[i] := pad(r, 0)[i] * 2 where i < d",
        &["r", "y"],
    ),
    (
        "matrices of a derived size",
        "size h = n/3 + 1\n q[i,k] := x[i,k] + 1 where i < n\n a[i,j] :+= pad(q, 0)[3*i, k] * w[k,j] where i < h, k < 24\n s[i,j] :+= a[i,k] * a[j,k]\n p[i,j] := softmax(s[i,j])\n o[i,k] :+= p[i,j] * a[j,k]",
        &["o"],
    ),
    (
        "a scan over a size",
        "node h f32[n + 1, 24]\n h[s,k] := 0\n scan t in 0..n { z[j] :+= h[t,k] * w[k,j]\n h[t + 1,j] := tanh(z[j] + x[t,j]) }\n last[j] := h[n,j]",
        &["h", "last"],
    ),
    (
        "a scan over a size that goes backwards",
        "node y f32[n, 24]\n y[i,k] := 0\n c[k] := 1 where k < 24\n scan t in 0..n { z[j] :+= c[k] * w[k,j] * 0.1\n c[j] := z[j] + x[n - 1 - t, j]\n y[n - 1 - t, k] := c[k] }",
        &["y", "c"],
    ),
    (
        "a scan over a size with a condition",
        "c := 0 * v[0]\n steps := 0 * v[0]\n scan t in 0..n while c < 5 { c += x[t,0]\n steps += 1 }",
        &["c", "steps"],
    ),
    (
        "scans",
        "h[k] := 0 where k < 24\n c[k] :+= x[i,k]\n scan t in 0..3 { h[k] := h[k] * 0.5 + c[k] / n\n g[i,k] := x[i,k] + h[k]\n c[k] := 0\n c[k] += g[i,k] * 0.1 }",
        &["h"],
    ),
];

/// Losses over the same nodes, with the nodes by which they are differentiated.
const LOSSES: &[(&str, &str, &str)] = &[
    (
        "the lesser of two sizes",
        "node y f32[n + m]\n y[i] := 1\n y[i] *= tanh(x[i,0]) * v[0] where i < n\n loss :+= y[i] * y[i]",
        "x, v",
    ),
    ("a mean of squares", "loss :+= x[i,k] * x[i,k] / n", "x"),
    (
        "a linear layer",
        "y[i,j] :+= x[i,k] * w[k,j]\n z[i,j] := tanh(y[i,j])\n loss :+= z[i,j] * z[i,j] / size(i)",
        "x, w",
    ),
    (
        "attention",
        "s[i,j] :+= x[i,d] * x[j,d] * 0.1\n p[i,j] := softmax(s[i,j])\n o[i,d] :+= p[i,j] * x[j,d]\n loss :+= o[i,d] * o[i,d]",
        "x",
    ),
    ("extremes", "m[k] :max= x[i,k]\n loss :+= m[k] * v[0]", "x, v"),
    (
        "windows",
        "y[i,k] :+= pad(x, 0)[i + d - 1, k] * w[d,k] where i < n, d < 3\n loss :+= y[i,k] * y[i,k]",
        "x, w",
    ),
    (
        "a convolution with a stride",
        "size o = (n + 2*1 - 3)/2 + 1\n y[i,j] :+= pad(x, 0)[2*i + d - 1, k] * w[3*d + k, j] where i < o, d < 3, k < 8\n loss :+= y[i,j] * y[i,j] / o",
        "x, w",
    ),
    (
        "a convolution over two sizes",
        "size h = (n + 1)/2\n a[k,i,j] := x[i,k] * v[j] where k < 4\n y[k,i,j] :+= pad(a, 0)[r, 2*i + d - 1, j + e - 1] * w[3*d + e, 4*r + k] where i < h, j < m, k < 4, r < 4, d < 3, e < 3\n loss :+= y[k,i,j] * y[k,i,j]",
        "x, v, w",
    ),
    (
        "windows of results that are few for some sizes",
        "size o = n/3 + 2\n y[r,i] :+= pad(x, 0)[i + d, 0] * w[r,d] where i < o, d < 6, r < 4\n loss :+= tanh(y[r,i])",
        "x, w",
    ),
    (
        "windows of a channel for some sizes",
        "f[j,d] := v[j] * w[0,d] where d < 3\n y[j,i] :+= pad(x, 0)[i + d - 1, 0] * f[j,d] where i < n, d < 3\n loss :+= tanh(y[j,i])",
        "x, v, w",
    ),
    (
        "strides of two statements",
        "size h = (n + 1)/2\n f[j,d] := v[j] * w[0,d] where d < 5\n y[j,i] :+= pad(x, 0)[2*i + d - 1, 0] * f[j,d] where i < h, d < 5\n loss :+= tanh(y[j,i])\n z[j,i] :+= pad(x, 0)[2*i + d, 0] * w[j,d] where i < h, d < 3, j < 4\n loss += tanh(z[j,i])",
        "x, v, w",
    ),
    (
        "padded reads of half of the rows",
        "size h = (n + 1)/2\n y[r,i] :+= pad(x, 0)[i,0] * w[r,0] where i < h, r < 4\n loss :+= tanh(y[r,i])",
        "x, w",
    ),
    (
        "joined parts",
        "node j f32[n + m]\n j[i] := pad(x, 0)[i,0]\n j[n + i] := v[i]\n loss :+= j[i] * j[i] * tanh(j[i])",
        "x, v",
    ),
    ("from the end", "y[i,k] := x[n - 1 - i, k] where i < n\n loss :+= y[i,k] * x[i,k] + x[n - 1, k]", "x"),
    (
        "gathers",
        "p[i] := i32(1 + i % 3) where i < n\n y[i,k] := x[p[i], k]\n loss :+= y[i,k] * y[i,k] * w[0,k]",
        "x, w",
    ),
    (
        "an array beside itself, of one element for some sizes",
        "e[i,j] := tanh(v[i] - v[j])\n loss :+= exp(e[i,j])\n loss += sin(v[j] * x[0,0])",
        "x, v",
    ),
    ("two sizes", "y[i,j] := x[i,0] * v[j]\n loss :+= exp(y[i,j])", "x, v"),
    (
        "from the end by halves",
        "size h = (n + 1)/2\n y[i,k] := x[n - 1 - 2*i, k] where i < h\n loss :+= y[i,k] * y[i,k]",
        "x",
    ),
    (
        "padded reads from the end",
        "t[j] := tanh(v[j])\n y[k] :+= w[0,k] * v[j] * pad(t, 0)[m - 1 - j]\n loss :+= tanh(y[k])\n loss += tanh(t[j])",
        "v",
    ),
    (
        "padded reads that end behind odd sizes only",
        "size h = (n + 1)/2\n q[i] := x[2*i,0] where i < h\n t[i] := tanh(x[i,1])\n y[k] :+= w[0,k] * q[i] * pad(t, 0)[2*i + 1] where i < h\n loss :+= tanh(y[k])\n loss += tanh(t[i])",
        "x",
    ),
    (
        "a scan over a size",
        "node h f32[n + 1, 24]\n h[s,k] := 0\n h[0,k] := v[0]\n scan t in 0..n { z[j] :+= h[t,k] * w[k,j]\n h[t + 1,j] := tanh(z[j] + x[t,j]) }\n loss :+= h[n,k] * h[n,k]",
        "x, w, v",
    ),
    (
        "a scan over a size that overwrites and goes backwards",
        "c[k] := v[0] where k < 24\n loss := 0\n scan t in 0..n { z[j] :+= c[k] * w[k,j]\n c[j] := tanh(z[j] + x[n - 1 - t, j])\n s :+= c[k] * x[t,k]\n loss += s }",
        "x, w, v",
    ),
    (
        "a scan that overwrites",
        "c[i,k] := x[i,k]\n scan t in 0..3 { z[i,j] :+= c[i,k] * w[k,j]\n c[i,k] := tanh(z[i,k]) }\n loss :+= c[i,k] * c[i,k] / n",
        "x, w",
    ),
    (
        "a scan that reads behind the end of what it overwrites",
        "c[i,k] := x[i,k]\n p[i] := i + 1 where i < n\n scan t in 0..3 { z[i,k] := sin(pad(c, 0.5)[i + 1, k] * w[0,k]) where i < n\n u[i,k] := sin(pad(c, 0.25)[p[i], k] * w[1,k])\n c[i,k] += z[i,k] - u[i,k] }\n loss :+= tanh(c[i,k])",
        "x, w",
    ),
    (
        "a scan with checkpoints that reads behind the end of what it overwrites",
        "c[i,k] := x[i,k]\n scan t in 0..4 checkpoint every 2 { z[i,k] := sin(pad(c, 0.5)[i + 1, k]) where i < n, k < 24\n c[i,k] += x[i,k] * z[i,k] }\n loss :+= tanh(c[i,k])",
        "x",
    ),
    (
        "a scan over an array of steps",
        "node h f32[4, n, 24]\n h[0,i,k] := x[i,k]\n scan t in 0..3 { z[i,j] :+= h[t,i,k] * w[k,j]\n h[t + 1,i,j] := tanh(z[i,j] + v[0]) }\n loss :+= h[3,i,k] * x[i,k]",
        "x, w, v",
    ),
    (
        "a scan over a size that writes backwards",
        "c[k] := v[0] where k < 24\n node y f32[n, 24]\n y[i,k] := 0.5\n scan t in 0..n { y[n - 1 - t, k] := c[k] + x[t,0]\n c[k] := tanh(y[n - 1 - t, k]) }\n loss :+= tanh(y[i,k])",
        "x",
    ),
    (
        "a scan over a size that reads backwards",
        "c[k] := v[0] where k < 24\n node y f32[n, 24]\n y[i,k] := 0.5\n scan t in 0..n { z[k] := max(c[k], x[n - 1 - t, 0] * w[0,k]) / n\n c[k] := tanh(z[k])\n y[t, k] := c[k] + x[t,0] }\n loss :+= tanh(y[i,k])",
        "x",
    ),
    (
        "a scan over a size with a condition",
        "c[k] := v[0] where k < 24\n g := 0\n node y f32[n, 24]\n y[i,k] := 0.5\n scan t in 0..n while g < 4 { z[k] := x[t, 0] * w[0,k] + c[k] / n\n c[k] := tanh(z[k])\n g += 1\n y[t, k] := c[k] + x[t,0] }\n loss :+= tanh(y[i,k])",
        "x",
    ),
    (
        "a scan over a size with a condition that reads and writes backwards",
        "c[k] := v[0] where k < 24\n g := 0\n node y f32[n, 24]\n y[i,k] := 0.5\n scan t in 0..n while g < 4 { z[k] := max(c[k], x[n - 1 - t, 0] * w[0,k]) / n\n c[k] := tanh(z[k])\n g += 1\n y[n - 1 - t, k] := c[k] + x[t,0] }\n loss :+= tanh(y[i,k])",
        "x",
    ),
];

/// Losses whose gradients multiply in an order that depends on the bound.
const PRODUCTS: &[(&str, &str, &str)] = &[("products", "p :*= 1 + 0.1 * v[j]\n loss := p * p", "v")];

const SIZES: [(usize, usize); 8] = [(1, 1), (2, 3), (7, 1), (8, 16), (15, 40), (33, 5), (64, 31), (70, 40)];

fn text(sizes: &str, body: &str, kept: &str) -> String {
    format!(
        "size {sizes}\ninput x f32[n, 24], v f32[m]\nparam w f32[24, 24] := normal(5) * 0.3\n{body}\nkeep {kept}\n"
    )
}

pub(crate) fn random(dims: &[usize], seed: u64) -> HostArray {
    let mut random = SplitMix64::new(seed);
    let count: usize = dims.iter().product();
    let values: Vec<f32> = (0..count).map(|_| (random.word() >> 40) as f32 / (1 << 24) as f32).collect();
    HostArray::from_slice(&values, dims.iter().copied()).unwrap()
}

pub(crate) fn open(backend: &str, threads: usize, numerics: NumericClass) -> Backend {
    let mut settings = Settings::default();
    settings.numerics = numerics;
    settings.threads = threads;
    Backend::open_with(backend, &settings).unwrap()
}

/// The bytes of the kept nodes for each pair of sizes, from one program.
fn dynamic(backend: &Backend, body: &str, kept: &[&str]) -> Vec<Vec<Vec<u8>>> {
    let mut program = backend.load(&text("n <= 70, m <= 40", body, &kept.join(", "))).unwrap();
    SIZES.iter().map(|&sizes| run(&mut program, sizes, kept)).collect()
}

/// The same from a program for one pair of sizes.
fn constant(backend: &Backend, body: &str, kept: &[&str], (n, m): (usize, usize)) -> Vec<Vec<u8>> {
    let mut program = backend.load(&text(&format!("n = {n}, m = {m}"), body, &kept.join(", "))).unwrap();
    run(&mut program, (n, m), kept)
}

fn run(program: &mut LoadedProgram, (n, m): (usize, usize), kept: &[&str]) -> Vec<Vec<u8>> {
    let has = |program: &LoadedProgram, name| program.code().nodes().iter().any(|node| node.name() == name);
    for (name, dims) in [("x", vec![n, 24]), ("v", vec![m])] {
        if has(program, name) {
            program.set(name, random(&dims, 1)).unwrap();
        }
    }
    let values = [("n", n as i64), ("m", m as i64)];
    let known: Vec<_> = values
        .into_iter()
        .filter(|(name, _)| program.code().symbols().iter().any(|s| s.name == *name))
        .collect();
    program.run_with(&known).unwrap();
    kept.iter().map(|name| program.get(name).unwrap().bytes().to_vec()).collect()
}

/// In class `strict`, the values are equal; a sum over one element may be -0 in a routine for that size.
/// Class `fast` has other orders of long sums of constant length.
fn agree(what: &str, body: &str, kept: &[&str]) {
    compare(what, body, kept, true);
}

fn compare(what: &str, body: &str, kept: &[&str], exactly: bool) {
    use NumericClass::{Fast, Strict};
    for (name, threads, numerics) in
        [("interpreter", 1, Strict), ("inline", 1, Strict), ("multicore", 3, Strict), ("inline", 1, Fast)]
    {
        let backend = open(name, threads, numerics);
        let found = dynamic(&backend, body, kept);
        for (&sizes, found) in SIZES.iter().zip(&found) {
            let expected = constant(&backend, body, kept, sizes);
            assert_eq!(expected.len(), found.len());
            for (node, (expected, found)) in kept.iter().zip(expected.iter().zip(found)) {
                let is_equal = if exactly && numerics == Strict {
                    floats(expected) == floats(found)
                } else {
                    are_close(expected, found)
                };
                assert!(
                    is_equal,
                    "{what}: {node} for {sizes:?} on {name}: {:?} {:?}",
                    floats(expected),
                    floats(found)
                );
            }
        }
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn are_close(expected: &[u8], found: &[u8]) -> bool {
    let (expected, found) = (floats(expected), floats(found));
    let most = expected.iter().fold(1e-6f32, |most, value| most.max(value.abs()));
    expected.len() == found.len() && expected.iter().zip(&found).all(|(a, b)| (a - b).abs() <= 1e-5 * most)
}

#[test]
fn every_size_has_the_bits_of_its_own_routine() {
    for (what, body, kept) in PROGRAMS {
        agree(what, body, kept);
    }
}

#[test]
fn gradients_have_the_bits_of_their_own_routines() {
    for (losses, exactly) in [(LOSSES, true), (PRODUCTS, false)] {
        for (what, body, by) in losses {
            let body = format!("{body}\ngrad loss by {by}");
            let kept: Vec<String> = by.split(", ").map(|name| format!("{name}.grad")).collect();
            compare(what, &body, &kept.iter().map(String::as_str).collect::<Vec<_>>(), exactly);
        }
    }
}

/// A program over arrays of one size.
fn sums() -> LoadedProgram {
    let text = "size n <= 8\ninput x f32[n, 2], v f32[n]\ny[i] :+= x[i,k] * v[i]\nkeep y";
    open("interpreter", 1, NumericClass::Fast).load(text).unwrap()
}

fn ones(dims: &[usize]) -> HostArray {
    HostArray::from_slice(&vec![1f32; dims.iter().product()], dims.iter().copied()).unwrap()
}

#[test]
fn results_have_the_size_of_the_last_run() {
    let mut program = sums();
    for n in [3, 8, 1] {
        program.set("x", ones(&[n, 2])).unwrap();
        program.set("v", ones(&[n])).unwrap();
        assert_eq!(program.get("x").unwrap().dims().len(), 2);
        program.run().unwrap();
        let y = program.get("y").unwrap();
        assert_eq!((y.dims().as_slice(), y.values()), ([n].as_slice(), vec![2.0; n]));
        assert_eq!(program.get("x").unwrap().dims().as_slice(), [n, 2]);
    }
}

#[test]
fn bad_sizes_are_named_before_anything_runs() {
    let mut program = sums();
    let mut rejected = |name: &str, dims: &[usize], message: &str| {
        assert_eq!(program.set(name, ones(dims)).unwrap_err().to_string(), message);
    };
    rejected("x", &[9, 2], "size `n` is from 1 to 8, but axis 0 of the array for node `x` has 9 elements");
    rejected("x", &[0, 2], "size `n` is from 1 to 8, but axis 0 of the array for node `x` has 0 elements");
    rejected("x", &[3, 3], "node x has dimensions [8, 2] without margins, the array has [3, 3]");
    rejected("v", &[3, 3], "node v has dimensions [8] without margins, the array has [3, 3]");
    let message =
        |program: &mut LoadedProgram, sizes: &[(&str, i64)]| program.run_with(sizes).unwrap_err().to_string();
    assert_eq!(
        message(&mut program, &[]),
        "size `n` has no value: give one to the run, or `set` a node that has it"
    );
    program.set("x", ones(&[3, 2])).unwrap();
    assert_eq!(message(&mut program, &[]), "input `v` has no value: `set` it before the first run");
    program.set("v", ones(&[4])).unwrap();
    assert_eq!(message(&mut program, &[]), "size `n` is 3 by `x`, but 4 by `v`");
    program.set("v", ones(&[3])).unwrap();
    assert_eq!(message(&mut program, &[("n", 5)]), "size `n` is 3 by `x`, but 5 by `@n`");
    program.run_with(&[("n", 3)]).unwrap();
    assert_eq!(program.get("y").unwrap().values(), [2.0; 3]);
    let mut alone =
        open("inline", 1, NumericClass::Fast).load("size n <= 8\ny[i] := i where i < n\nkeep y").unwrap();
    for value in [0, -1, 9] {
        let found = message(&mut alone, &[("n", value)]);
        assert_eq!(found, format!("routine `y` on inline:0:0: binding @n = {value} is outside 1..9"));
    }
    alone.run_with(&[("n", 2)]).unwrap();
    assert_eq!(alone.get("y").unwrap().values(), [0.0, 1.0]);
}

#[test]
fn derived_sizes_are_checked_before_anything_runs() {
    let text = "size n <= 12, m <= 4\nsize h = (n - 3)/2 + 1\ninput x f32[n], v f32[m], t f32[h]\n\
                y[i] :+= x[2*i + d] + t[i] where d < 3\ns :+= v[j]\nkeep y, s";
    let mut program = open("interpreter", 1, NumericClass::Fast).load(text).unwrap();
    let mut run = |n: usize, h: usize| {
        program.set("x", ones(&[n])).unwrap();
        program.set("v", ones(&[1])).unwrap();
        program.set("t", ones(&[h])).unwrap();
        program.run().map_err(|error| error.to_string())?;
        Ok::<_, String>(program.get("y").unwrap().values())
    };
    assert_eq!(run(12, 5).unwrap(), [6.0; 5]);
    assert_eq!(run(3, 1).unwrap(), [6.0]);
    assert_eq!(run(7, 2).unwrap_err(), "size `(n - 1)/2` is 3 by `x`, but 2 by `t`");
    assert_eq!(run(2, 1).unwrap_err(), "size `(n - 1)/2` is 0 by `x`, expected 1 to 5");
    let beyond = "size n <= 9\nsize h = n/2\ninput x f32[n]\ny[i] := x[2*i + 2] where i < h\nkeep y";
    let error = open("interpreter", 1, NumericClass::Fast).load(beyond).unwrap_err().to_string();
    assert!(error.contains("index `2*i + 2` may be `n` or more"), "{error}");
    // The last window ends with the axis.
    let within = beyond.replace("2*i + 2", "2*i + 1");
    assert!(open("interpreter", 1, NumericClass::Fast).load(&within).is_ok());
}

/// Statements up to a size write a node of the bounds, as far as a run has values, and a gather reads it.
#[test]
fn gathers_read_nodes_of_bounds() {
    let text = "size n <= 9\ninput x f32[n, 4]\nnode f f32[36]\nf[4*i + k] := x[i,k]\n\
                y[i] := f[where(x[0,0] < 9, i32(i) * 5 % n * 4 + 3, 0)] where i < n\nkeep y";
    for (backend, threads) in [("interpreter", 1), ("multicore", 2)] {
        let mut program = open(backend, threads, NumericClass::Strict).load(text).unwrap();
        for n in [9, 1, 7] {
            let x = random(&[n, 4], 3);
            program.set("x", x.clone()).unwrap();
            program.run_with(&[]).unwrap();
            let expected: Vec<f64> = (0..n).map(|i| x.values()[i * 5 % n * 4 + 3]).collect();
            assert_eq!(program.get("y").unwrap().values()[..n], expected, "{n}");
        }
    }
}

/// A quotient in an index is rounded down, whether a run or the caller gives the size.
#[test]
fn indices_have_quotients_of_sizes() {
    let text = "size n <= 40\ninput x f32[n]\nsize h = (n + 1)/2\n\
                y[i] := x[n/2 + i] where i < h\nz[i] := x[2*i] where i < (n + 1)/2\nkeep y, z";
    for (backend, threads) in [("interpreter", 1), ("multicore", 2)] {
        let backend = open(backend, threads, NumericClass::Strict);
        let mut program = backend.load(text).unwrap();
        for n in [1, 2, 3, 8, 39, 40] {
            let x = random(&[n], 3);
            program.set("x", x.clone()).unwrap();
            program.run().unwrap();
            let x = x.values();
            let halves: Vec<f64> = x[n / 2..].to_vec();
            let evens: Vec<f64> = x.iter().step_by(2).copied().collect();
            assert_eq!(program.get("y").unwrap().values(), halves, "{n}");
            assert_eq!(program.get("z").unwrap().values(), evens, "{n}");
        }
    }
    let bound = Program::parse(text).unwrap().bind("n", 7).unwrap();
    assert!(bound.assignments(&[]).is_ok(), "a constant divides like a size of a run");
}
