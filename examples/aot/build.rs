//! Trains the network of the example `digits`, and compiles the trained network for this target. The program
//! gets an object file with the code and the weights, and, to check itself, the test images with the results
//! that code of this process has for them.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use arrayjit::{Backend, HostArray};
use arrayjit_aot::Library;
use digits::data::{self, Digits};
use digits::network::PIXELS;
use digits::state::Network;
use digits::train::Training;

/// The network for one image.
const CLASSIFY: &str = "
input x f32[64], w1 f32[64, 128], b1 f32[128], w2 f32[128, 10], b2 f32[10]
h[j] :+= x[i] * w1[i,j]
a[j]  := relu(h[j] + b1[j])
z[k] :+= a[j] * w2[j,k]
y[k]  := z[k] + b2[k]
keep y";

const WEIGHTS: [&str; 4] = ["w1", "b1", "w2", "b2"];

const EPOCHS: usize = 10;

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", data::FILE);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut rng = fastrand::Rng::with_seed(5);
    let (train, test) = data::split(&data::load(data::FILE.as_ref())?, &mut rng);
    let weights = trained(&train, &test, &mut rng)?;

    let constants: Vec<(&str, &HostArray)> = WEIGHTS.into_iter().zip(&weights).collect();
    let mut library = Library::new("digits", &env::var("TARGET")?)?;
    library.add_text("classify", CLASSIFY, &constants)?;
    let files = library.write(&out)?;
    println!("cargo::rustc-link-arg={}", files.object.display());

    fs::write(out.join("images"), bytes(&test.images))?;
    fs::write(out.join("labels"), &test.labels)?;
    fs::write(out.join("expected"), bytes(&expected(&test, &constants)?))?;
    Ok(())
}

/// The weights after training.
fn trained(train: &Digits, test: &Digits, rng: &mut fastrand::Rng) -> Result<Vec<HostArray>> {
    let network = Network::new(train.count(), test.count())?;
    let training = Training::prepare(&Backend::open("inline")?, &network, train, test, rng)?;
    let mut order: Vec<i64> = (0..training.batches()).collect();
    for _ in 0..EPOCHS {
        rng.shuffle(&mut order);
        training.epoch(&order)?;
    }
    WEIGHTS.into_iter().map(|name| training.read(name)).collect()
}

/// The results of code that is compiled now, for each image.
fn expected(test: &Digits, constants: &[(&str, &HostArray)]) -> Result<Vec<f32>> {
    let mut program = Backend::open("inline")?.load(CLASSIFY)?;
    for &(name, values) in constants {
        program.set(name, values)?;
    }
    let mut results = Vec::new();
    for image in test.images.chunks_exact(PIXELS) {
        program.set("x", &HostArray::from_slice(image, [PIXELS])?)?;
        program.run()?;
        let values = program.get("y")?;
        results.extend_from_slice(values.as_slice::<f32>().context("the results are `f32`")?);
    }
    Ok(results)
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
