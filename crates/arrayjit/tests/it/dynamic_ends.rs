//! Loops that end at symbols: for every value, vector code, products and threads give the bits of the
//! interpreter.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit::{prelude::*, settings::Settings};
use random_programs::SplitMix64;

/// The sizes: of strips and tiles, one more, one less, none, all.
const SIZES: [i64; 12] = [0, 1, 2, 7, 8, 15, 16, 31, 33, 64, 99, 100];

/// Programs with an input `x` and a result `y`.
const PROGRAMS: [(&str, &str); 6] = [
    (
        "a chain of operations",
        "t[i] :+= x[i,0] * 2 where @n < 101, i < @n\n y[i,0] :+= t[i] + exp(t[i]) where i < @n",
    ),
    ("rows of other columns", "y[i,j] :+= tanh(x[i,j]) where @n < 101, j < @n"),
    ("sums of columns", "y[0,j] += x[i,j] where @n < 101, j < @n\n y[1,j] += x[i,j] where i < @n, j < 100"),
    (
        "a product with few rows",
        "w[k,j] := sin(0.1 * k + j) where k < 100, j < 48\n p[i,j] :+= x[i,k] * w[k,j] where @n < 101, i < @n\n y[i,j] :+= max(p[i,j], 0) where i < @n, j < 48",
    ),
    (
        "attention",
        "s[i,j] :+= x[i,d] * x[j,d] * 0.1 where @n < 101, i < @n, j < @n
         m[i] :max= s[i,j] where i < @n, j < @n
         e[i,j] :+= exp(s[i,j] - m[i]) where i < @n, j < @n
         z[i] :+= e[i,j] where i < @n, j < @n
         o[i,d] :+= e[i,j] * x[j,d] where i < @n, j < @n
         y[i,d] :+= o[i,d] / z[i] where i < @n",
    ),
    (
        "a batch of products",
        "w[b,k,j] := cos(0.2 * k - j + b) where b < 100, k < 10, j < 20
         p[b,i,j] :+= x[b, 10*i + k] * w[b,k,j] where @n < 101, b < @n, i < 10, k < 10
         y[b,j] :+= p[b,i,j] where b < @n, j < 20",
    ),
];

fn results(backend: &str, threads: usize, program: &str) -> Vec<Vec<u8>> {
    let mut settings = Settings::default();
    settings.threads = threads;
    let text = format!("input x f32[100, 100]\nparam y f32[100, 100] := 0\n{program}");
    let mut program = Backend::open_with(backend, &settings).unwrap().load(&text).unwrap();
    let mut random = SplitMix64::new(7);
    let values: Vec<f32> =
        (0..10_000).map(|_| (random.word() >> 40) as f32 / (1 << 24) as f32 - 0.5).collect();
    program.set("x", HostArray::from_slice(&values, [100, 100]).unwrap()).unwrap();
    let run = |&n: &i64| {
        program.set("y", HostArray::zeros(DType::F32, [100, 100]).unwrap()).unwrap();
        program.run_with(&[("n", n)]).unwrap();
        program.get("y").unwrap().bytes().to_vec()
    };
    SIZES.iter().map(run).collect()
}

#[test]
fn every_size_gives_the_bits_of_the_interpreter() {
    for (what, program) in PROGRAMS {
        let expected = results("interpreter", 1, program);
        for (backend, threads) in [("inline", 1), ("multicore", 1), ("multicore", 3)] {
            let found = results(backend, threads, program);
            for ((n, expected), found) in SIZES.iter().zip(&expected).zip(&found) {
                assert!(expected == found, "{what} with n = {n} on {backend} with {threads} threads");
            }
        }
    }
}
