//! Results against those of another way to compute them.

use anyhow::{Context as _, Result, bail, ensure};
use arrayjit::{Backend, HostArray, Settings};

use crate::{
    case::{Case, Check},
    ours::Ours,
};

/// Fails unless the outputs are what the formula or the interpreter says.
///
/// # Errors
///
/// The case, the output and the first element that is wrong.
pub(crate) fn check(case: &Case, found: &[Vec<f64>], inputs: &[Option<HostArray>]) -> Result<()> {
    let expected = match &case.check {
        Check::Formula(formula) => {
            formula(&inputs.iter().flatten().map(HostArray::values).collect::<Vec<_>>())
        }
        Check::Interpreter => interpreted(case, inputs)?,
    };
    compare(case, found, &expected).with_context(|| format!("case `{}`", case.name))
}

/// Fails unless all outputs are close to the expected ones.
///
/// # Errors
///
/// The output and the first element that is wrong.
pub(crate) fn compare(case: &Case, found: &[Vec<f64>], expected: &[Vec<f64>]) -> Result<()> {
    ensure!(found.len() == expected.len(), "expected {} outputs, found {}", expected.len(), found.len());
    for (name, (found, expected)) in case.outputs.iter().zip(found.iter().zip(expected)) {
        compare_one(found, expected, case.tolerance).with_context(|| format!("output `{name}`"))?;
    }
    Ok(())
}

fn compare_one(found: &[f64], expected: &[f64], tolerance: f64) -> Result<()> {
    ensure!(found.len() == expected.len(), "expected {} values, found {}", expected.len(), found.len());
    let scale = expected.iter().fold(0.0f64, |m, v| m.max(v.abs())).max(f64::MIN_POSITIVE);
    for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
        // Written so that a NaN fails.
        let is_close = (f - e).abs() <= tolerance * scale;
        if !is_close {
            bail!("wrong result at element {i}: expected {e}, found {f}");
        }
    }
    Ok(())
}

fn interpreted(case: &Case, inputs: &[Option<HostArray>]) -> Result<Vec<Vec<f64>>> {
    let backend = Backend::open_with("interpreter", Settings::default())?;
    let ours = Ours::prepare(&backend, case, inputs)?;
    ours.run_once()?;
    ours.outputs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_number_is_wrong() {
        assert!(compare_one(&[f64::NAN], &[1.0], 1e-5).is_err());
        assert!(compare_one(&[1.0], &[f64::NAN], 1e-5).is_err());
        assert!(compare_one(&[1.0, 0.0], &[1.0], 1e-5).is_err());
    }

    #[test]
    fn differences_are_relative_to_the_largest_value() {
        assert!(compare_one(&[1000.0, 0.009], &[1000.0, 0.0], 1e-5).is_ok());
        let error = compare_one(&[1000.0, 0.011], &[1000.0, 0.0], 1e-5).unwrap_err().to_string();
        assert!(error.contains("element 1"), "{error}");
    }
}
