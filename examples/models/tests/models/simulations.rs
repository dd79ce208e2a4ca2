//! The heat equation, the Mandelbrot set and the Fourier transform.

use arrayjit_tensor::Backend;
use models::{command_line::largest_difference, fft, heat, mandelbrot, picture};

fn backend() -> Backend {
    Backend::open("inline").expect("this build has it")
}

#[test]
fn heat_follows_the_closed_form() {
    let (n, steps) = (48, 300);
    let found = heat::simulate(&backend(), n, steps).expect("no error");
    let exact = heat::exact(n, steps);
    assert!(exact.iter().copied().fold(0., f64::max) > 0.05, "the plate is cold, so the test compares zeros");
    let error = largest_difference(&found, &exact);
    assert!(error < 1e-5, "{error}");
    assert!(largest_difference(&heat::exact(n, 0), &heat::start(n)) < 1e-12);
}

#[test]
fn mandelbrot_counts_as_a_loop_does() {
    let (width, height, limit) = (64, 48, 64);
    let found = mandelbrot::iterations(&backend(), width, height, limit).expect("no error");
    let expected = mandelbrot::reference(width, height, limit);
    // Multiply-adds that are rounded once change the counts of a few points at the edge of the set.
    let different = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
    assert!(different <= found.len() / 100, "{different} of {} points differ", found.len());
    assert!(found.contains(&(limit as f64)) && found.iter().any(|&count| count < 4.));
}

#[test]
fn the_fast_transform_is_that_of_the_definition() {
    let spectra = fft::spectra(&backend(), 512, 3).expect("no error");
    let error = largest_difference(&spectra.fast, &spectra.slow);
    assert!(error < 1e-5, "{error}");
    assert_eq!(fft::peaks(&spectra.fast, 3), fft::TONES.map(|(frequency, _)| frequency));
    let message = fft::spectra(&backend(), 500, 3).err().map(|error| error.to_string());
    assert_eq!(message.as_deref(), Some("a transform of 500 elements; expected a power of two"));
}

#[test]
fn pictures_have_the_colors_of_their_values() {
    let path = std::env::temp_dir().join(format!("models-{}.png", std::process::id()));
    picture::write_png(&path, 2, &[0., 1., 0.25, 7.]).expect("the folder can be written");
    let bytes = std::fs::read(&path).expect("the file was written");
    std::fs::remove_file(&path).expect("the file was written");
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().expect("a PNG file");
    let mut pixels = vec![0; reader.output_buffer_size().expect("a small image")];
    let info = reader.next_frame(&mut pixels).expect("a PNG file");
    assert_eq!((info.width, info.height), (2, 2));
    assert_eq!(pixels, [[0, 0, 0], [255, 255, 255], picture::color(0.25), [255, 255, 255]].concat());
    assert!(picture::write_png(&path, 3, &[0.; 4]).is_err());
}
