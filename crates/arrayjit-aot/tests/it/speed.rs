//! Times of entries beside those of code that is compiled in the process, on one thread:
//! `cargo test -p arrayjit-aot --test it -- --ignored --nocapture times_of_products`.
//!
//! Microkernels are optimized in this profile too; what calls them in the process is not, so each case takes
//! longer than that by far.

use std::time::Instant;

use arrayjit::{Backend, Nodes};
use arrayjit_aot::Library;
use object_loader::{LoadedObject, levels};

use crate::programs::{CalledEntry, TRIPLE, linked_values, symbol};

const CASES: &[(&str, &str)] = &[
    ("tanh and exp of 512x512", "input x f32[512, 512]; y[i,j] := tanh(x[i,j]) * 2 + exp(x[i,j]); keep y"),
    (
        "softmax of 512 rows of 1024",
        "input x f32[512, 1024]
         m[i] :max= x[i,j]
         e[i,j] := exp(x[i,j] - m[i])
         s[i] :+= e[i,j]
         y[i,j] := e[i,j] / s[i]
         keep y",
    ),
    ("sums of squares of 1024x1024", "input x f32[1024, 1024]; s[i] :+= x[i,j] * x[i,j]; keep s"),
    (
        "depthwise convolution 3x3, 64 of 56x56",
        "input x f32[64, 58, 58], w f32[64, 3, 3]; y[c,i,j] :+= x[c,i+p,j+q] * w[c,p,q]; keep y",
    ),
    (
        "product 64, 256 times",
        "input a f32[256, 64, 64], b f32[256, 64, 64]; c[n,i,j] :+= a[n,i,k] * b[n,k,j]; keep c",
    ),
    ("product 256", "input a f32[256, 256], b f32[256, 256]; c[i,j] :+= a[i,k] * b[k,j]; keep c"),
    ("product 1024", "input a f32[1024, 1024], b f32[1024, 1024]; c[i,j] :+= a[i,k] * b[k,j]; keep c"),
    (
        "dense 512x1024x512 with relu",
        "input x f32[512, 1024], w f32[512, 1024], b f32[512]
         y[i,o] :+= x[i,k] * w[o,k]
         z[i,o] := max(y[i,o] + b[o], 0)
         keep z",
    ),
    (
        "convolution 3x3, 64 of 56x56",
        "input x f32[1, 64, 58, 58], w f32[64, 64, 3, 3]
         y[n,o,i,j] :+= x[n,c,i+p,j+q] * w[o,c,p,q]
         keep y",
    ),
    (
        "three dense layers of 512",
        "input x f32[128, 512], u f32[512, 512], v f32[512, 512], w f32[512, 10]
         g[b,i] :+= x[b,k] * u[k,i]
         r[b,i] := max(g[b,i], 0)
         h[b,i] :+= r[b,k] * v[k,i]
         s[b,i] := max(h[b,i], 0)
         y[b,i] :+= s[b,k] * w[k,i]
         keep y",
    ),
];

#[test]
#[ignore = "it measures"]
fn times_of_products() {
    let backend = Backend::open("inline").expect("a backend");
    let wanted = std::env::var("LEVEL").ok();
    for level in
        levels().into_iter().filter(|level| wanted.as_ref().is_none_or(|name| *name == level.to_string()))
    {
        for (name, text) in CASES {
            let library = || Library::with_levels("speed", TRIPLE, &[level]).expect("a target");
            let objects = [library(), library().with_products()].map(|mut library| {
                library.add_text("f", text, &[]).expect("a valid text");
                (LoadedObject::new(&library.object().expect("an object")), library)
            });
            let compiled = backend.compile(text, &Nodes::default()).expect("a valid text");
            let linked = linked_values(&backend, &compiled, &objects[0].1.routines()[0]);
            let entry = symbol("speed", "f", level);
            let mut calls = objects
                .each_ref()
                .map(|(object, library)| CalledEntry::new(object, &entry, &library.routines()[0]));
            let mut times = [const { Vec::new() }; 3];
            for round in 0..15 {
                let [tiles, products] = &mut calls;
                let run: [&mut dyn FnMut(); 3] = [
                    &mut || linked.run(&[]).expect("no bindings").sync().expect("it runs"),
                    &mut || tiles.run(),
                    &mut || products.run(),
                ];
                for at in [round % 3, (round + 1) % 3, (round + 2) % 3] {
                    let start = Instant::now();
                    run[at]();
                    times[at].push(start.elapsed().as_secs_f64() * 1e6);
                }
            }
            let [process, tiles, products] = times.map(|mut times| {
                times.sort_by(f64::total_cmp);
                times[times.len() / 4]
            });
            println!(
                "{level}, {name}: process {process:.0} us, tiles {tiles:.0} us ({:.2}), products {products:.0} us ({:.3})",
                tiles / process,
                products / process
            );
        }
    }
}
