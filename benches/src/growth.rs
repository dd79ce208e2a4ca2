//! Compile time as a function of program size, for the same families of programs whose compilation steps the
//! tests count.

use std::time::Instant;

use anyhow::{Context, Result};
use arrayjit::Backend;
use filetests::generate::families::FAMILIES;
use serde::{Deserialize, Serialize};

/// The times of one family.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Growth {
    pub(crate) family: String,
    /// The number of statements, and the milliseconds from text to machine code: the least of several runs.
    pub(crate) points: Vec<(usize, f64)>,
}

const SIZES: [usize; 6] = [125, 250, 500, 1000, 2000, 4000];

/// Compiles the programs of every family; with `smoke` only the smallest of each, once.
///
/// # Errors
///
/// The program that does not compile.
pub(crate) fn measure(backend: &Backend, smoke: bool) -> Result<Vec<Growth>> {
    let (sizes, runs) = if smoke { (&SIZES[..1], 1) } else { (&SIZES[..], 3) };
    let family = |family: &filetests::generate::families::Family| {
        let point = |&size: &usize| -> Result<(usize, f64)> {
            let mut least = f64::INFINITY;
            for _ in 0..runs {
                let program = (family.program)(size);
                let start = Instant::now();
                let compiled = backend.compile(&program.text, &program.nodes);
                compiled.with_context(|| format!("compiling {} of {size} statements", family.name))?;
                least = least.min(start.elapsed().as_secs_f64() * 1e3);
            }
            Ok((size, least))
        };
        let points = sizes.iter().map(point).collect::<Result<_>>()?;
        Ok(Growth { family: family.name.to_owned(), points })
    };
    FAMILIES.iter().map(family).collect()
}
