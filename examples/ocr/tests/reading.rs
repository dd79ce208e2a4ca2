//! Reads a picture with the models, where they are: in the folder that the variable OCR_MODELS names.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests may panic, and say why they do nothing")]

use std::path::Path;

use arrayjit_onnx::Backend;
use ocr::Reader;

#[test]
fn lines_of_a_picture_are_read() {
    let Some(models) = std::env::var_os("OCR_MODELS") else {
        eprintln!("OCR_MODELS names no folder with models, so nothing is read");
        return;
    };
    let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sign.png");
    let picture = image::open(picture).unwrap().to_rgb8();
    let reader = Reader::load(Path::new(&models), &Backend::open("multicore").unwrap()).unwrap();
    let lines = reader.read(&picture).unwrap();
    let found: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    // The models leave out spaces between words of this font.
    for expected in ["compiler", "pictures", "2026-11-26", "upside", "slope"] {
        assert!(found.iter().any(|line| line.contains(expected)), "{expected} is missing in {found:?}");
    }
}
