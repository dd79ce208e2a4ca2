//! `ocr PICTURE --models FOLDER`: prints the lines of text in a picture.
#![allow(clippy::print_stdout, reason = "a command line program talks to its user")]

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use arrayjit_onnx::Backend;
use clap::Parser;
use image::{Rgb, RgbImage};
use imageproc::drawing::draw_line_segment_mut;
use ocr::{Line, Reader};

#[derive(Parser)]
#[command(about, version)]
struct Args {
    /// The picture, a PNG or JPEG file.
    picture: PathBuf,
    /// The folder with the three models of the Python package rapidocr-onnxruntime.
    #[arg(long)]
    models: PathBuf,
    /// The backend, such as multicore or inline.
    #[arg(long, default_value = "multicore")]
    backend: String,
    /// Print the lines as JSON, with their corners.
    #[arg(long)]
    json: bool,
    /// Write the picture with the corners of the lines to this file.
    #[arg(long, value_name = "FILE")]
    draw: Option<PathBuf>,
}

fn main() -> Result<()> {
    sigpipe::reset();
    let args = Args::parse();
    let picture = image::open(&args.picture).with_context(|| args.picture.display().to_string())?.to_rgb8();
    let reader = Reader::load(&args.models, &Backend::open(&args.backend)?)?;
    let lines = reader.read(&picture)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&lines.iter().map(as_json).collect::<Vec<_>>())?);
    } else {
        for line in &lines {
            println!("{:.2} {}", line.score, line.text);
        }
    }
    match &args.draw {
        Some(path) => draw(picture, &lines, path),
        None => Ok(()),
    }
}

fn as_json(line: &Line) -> serde_json::Value {
    serde_json::json!({ "text": line.text, "score": line.score, "corners": line.corners })
}

/// Writes the picture with the outlines of the lines.
fn draw(mut picture: RgbImage, lines: &[Line], path: &Path) -> Result<()> {
    for line in lines {
        for at in 0..4 {
            let ([a, b], [c, d]) = (line.corners[at], line.corners[(at + 1) % 4]);
            // The upper side has another color, so that turned text shows.
            let color = if at == 0 { Rgb([0, 160, 0]) } else { Rgb([220, 0, 0]) };
            draw_line_segment_mut(&mut picture, (a, b), (c, d), color);
        }
    }
    picture.save(path).with_context(|| path.display().to_string())
}
