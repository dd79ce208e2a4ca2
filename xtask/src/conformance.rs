//! `cargo xtask conformance CRATE_DIR`: runs the conformance kit in the tests of any crate, and says which
//! level each of its code generators has.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Options of `cargo xtask conformance`.
#[derive(clap::Args)]
pub(crate) struct ConformanceArgs {
    /// The folder of a crate whose tests use `codegen_testkit::conformance!`.
    crate_dir: PathBuf,
}

/// Runs the tests of the crate, which print scores and coverage matrices, and then prints the levels.
pub(crate) fn run(args: &ConformanceArgs) -> Result<()> {
    let manifest = args.crate_dir.join("Cargo.toml");
    if !manifest.exists() {
        bail!("there is no {}; expected the folder of a crate", manifest.display());
    }
    let results = tempfile::tempdir()?;
    let mut tests = Command::new("cargo");
    tests.args(["test", "--quiet", "--tests", "--manifest-path"]).arg(&manifest);
    tests.args(["--", "--nocapture"]).env("CONFORMANCE_DIR", results.path());
    let status = tests.status().context("starting cargo")?;
    let scores = scores(results.path())?;
    for score in &scores {
        println!("{}", summary(score));
    }
    match status.success() {
        true if scores.is_empty() => {
            bail!("no test of {} uses `codegen_testkit::conformance!`", args.crate_dir.display())
        }
        true => Ok(()),
        false => bail!("the tests of {} ended with {status}", args.crate_dir.display()),
    }
}

/// Every `conformance.json` below a folder, sorted by path.
fn scores(folder: &Path) -> Result<Vec<Value>> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    entries.sort();
    let mut found = Vec::new();
    for path in entries {
        if path.is_dir() {
            found.extend(scores(&path)?);
        } else if path.ends_with("conformance.json") {
            let text = std::fs::read_to_string(&path)?;
            found.push(serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?);
        }
    }
    Ok(found)
}

/// The name of a code generator, its level, and how many cases of each level passed.
fn summary(score: &Value) -> String {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let count = |value: &Value, key: &str| value[key].as_u64().unwrap_or_default();
    let level = |level: &Value| {
        format!("{} {}/{}", text(level, "level"), count(level, "passed"), count(level, "needed"))
    };
    let levels: Vec<String> = score["levels"].as_array().into_iter().flatten().map(level).collect();
    let awarded = score["awarded"].as_str().unwrap_or("no level");
    format!("{}: {awarded} ({})", text(score, "subject"), levels.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_below_a_folder_are_summed_up() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("mine/conforms");
        std::fs::create_dir_all(&below).unwrap();
        let level =
            |level: &str, passed: u32| serde_json::json!({ "level": level, "needed": 9, "passed": passed });
        let score = serde_json::json!({ "subject": "mine", "awarded": "L0", "levels": [level("L0", 9), level("L1", 2)] });
        std::fs::write(below.join("conformance.json"), score.to_string()).unwrap();
        let scores = scores(folder.path()).unwrap();
        assert_eq!(scores.iter().map(summary).collect::<Vec<_>>(), ["mine: L0 (L0 9/9, L1 2/9)"]);
        let none = serde_json::json!({ "subject": "mine", "awarded": null, "levels": [level("L0", 3)] });
        assert_eq!(summary(&none), "mine: no level (L0 3/9)");
    }

    #[test]
    fn a_folder_without_a_crate_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = run(&ConformanceArgs { crate_dir: folder.path().into() }).unwrap_err().to_string();
        assert!(error.ends_with("expected the folder of a crate"), "{error}");
    }
}
