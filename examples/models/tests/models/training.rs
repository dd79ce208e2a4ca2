//! Trained models: short runs for every change, and the stated results as ignored tests, which `cargo xtask
//! ci --full` runs.

use arrayjit_tensor::Backend;
use models::{char_gpt, lenet, mlp, resnet};

fn backend() -> Backend {
    Backend::open("multicore").expect("this build has it")
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn a_network_separates_two_moons() {
    let moons = mlp::two_moons(200, 0.1, 1);
    let trained = mlp::train(&backend(), &moons, 150, 1).expect("no error");
    let accuracy = trained.accuracy(&mlp::two_moons(200, 0.1, 2)).expect("no error");
    assert!(accuracy > 0.97, "{accuracy} after losses {:?}", trained.losses);
    let svg = trained.svg(&moons).expect("no error");
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    assert_eq!(svg.matches("<circle").count(), 200);
}

#[test]
fn lenet_learns_digits() {
    let accuracy = lenet::train(&backend(), lenet::Options { epochs: 3, seed: 1 }).expect("no error");
    assert!(accuracy > 0.6, "{accuracy}");
}

#[test]
fn a_residual_network_learns() {
    let options = resnet::Options { width: 4, blocks: 2, pictures: 256, epochs: 3, seed: 1 };
    let trained = resnet::train(&backend(), options).expect("no error");
    let (first, last) = (mean(&trained.losses[..4]), mean(&trained.losses[20..]));
    assert!(last < 0.95 * first, "{:?}", trained.losses);
    assert!((0. ..=1.).contains(&trained.accuracy), "{}", trained.accuracy);
}

#[test]
fn a_gpt_with_a_cache_gives_what_it_gives_without() {
    let options =
        char_gpt::Options { context: 16, width: 16, heads: 2, layers: 2, batch: 4, steps: 30, seed: 1 };
    let trained = char_gpt::train(&backend(), options).expect("no error");
    assert!(mean(&trained.losses[25..]) < 0.95 * trained.losses[0], "{:?}", trained.losses);

    let writer = trained.writer().expect("no error");
    let written = writer.write("Licen", 7).expect("no error");
    let text = &written.text;
    assert!(text.starts_with("Licen") && text.len() == 16, "{text:?}");
    let windows = trained.logits(text).expect("no error");
    let error = models::command_line::largest_difference(&written.logits, &windows);
    assert!(error < 1e-4, "{error}");
    let again = writer.write("Licen", 7).expect("no error");
    assert_eq!((&again.text, again.logits), (text, written.logits));
    assert_ne!(writer.write("Licen", 8).expect("no error").text, *text);
    assert!(writer.write("", 7).is_err());
    assert!(writer.write("~", 7).is_err());
}

#[test]
#[ignore = "takes a minute in release builds; `cargo xtask ci --full` runs it"]
fn lenet_reaches_its_accuracy_with_five_seeds() {
    let train =
        |seed| lenet::train(&backend(), lenet::Options { epochs: lenet::EPOCHS, seed }).expect("no error");
    let accuracies: Vec<f64> = (1..=5).map(train).collect();
    println!("{accuracies:?}");
    assert!(mean(&accuracies) >= 0.985, "{accuracies:?}");
}

#[test]
#[ignore = "takes a minute in release builds; `cargo xtask ci --full` runs it"]
fn resnet_reaches_its_accuracy() {
    let trained = resnet::train(&backend(), resnet::OPTIONS).expect("no error");
    println!("{}", trained.accuracy);
    assert!(trained.accuracy >= resnet::ACCURACY, "{}", trained.accuracy);
}

#[test]
#[ignore = "takes a minute in release builds; `cargo xtask ci --full` runs it"]
fn char_gpt_reaches_its_loss() {
    let trained = char_gpt::train(&backend(), char_gpt::OPTIONS).expect("no error");
    let loss = trained.final_loss();
    println!("{loss}");
    assert!(loss <= char_gpt::LOSS, "{loss}");
}
