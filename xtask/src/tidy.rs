//! Checks that the compiler does not make: the layer table, module docs, messages of errors, words, widths of
//! lines, lengths of golden files, and that documents name things that exist.
//!
//! Runs as a test (`xtask/tests/tidy.rs`), so `cargo test` is the whole gate.

mod cited;
mod dependencies;
mod docs;
mod errors;
mod files;
mod goldens;
mod layers;
mod listings;
mod modules;
mod public_names;
mod regions;
mod retired;
mod seed_map;
mod spelling;
mod unsafe_code;
mod width;

use anyhow::{Result, bail};

/// Runs every check and reports all findings together.
///
/// # Errors
///
/// The findings, one per line, if there are any; or the reason a check could not run.
pub fn run() -> Result<()> {
    let findings = findings()?;
    if findings.is_empty() {
        return Ok(());
    }
    bail!("tidy: {} finding(s)\n{}", findings.len(), findings.join("\n"))
}

/// Every finding of every check, as `path: message`.
///
/// # Errors
///
/// The reason a check could not run.
pub fn findings() -> Result<Vec<String>> {
    let mut findings = layers::check()?;
    findings.extend(dependencies::check()?);
    findings.extend(modules::check()?);
    findings.extend(errors::check()?);
    findings.extend(docs::check()?);
    findings.extend(listings::check()?);
    findings.extend(seed_map::check()?);
    findings.extend(unsafe_code::check()?);
    findings.extend(retired::check()?);
    findings.extend(spelling::check()?);
    findings.extend(width::check()?);
    findings.extend(public_names::check()?);
    findings.extend(goldens::check()?);
    findings.extend(crate::packages::check()?);
    Ok(findings)
}
