//! Compares results with the results of another computation.

use anyhow::{Context as _, Result, bail, ensure};
use arrayjit::{Backend, HostArray, Settings};

use crate::{
    case::{Case, Check, Node, RowsFormula},
    ours::LinkedCase,
    sample,
};

/// Fails unless the outputs of a case on this backend agree with the formula or the interpreter.
///
/// # Errors
///
/// The case, the output and the first wrong element.
pub(crate) fn check(
    backend: &Backend,
    case: &Case,
    found: &[HostArray],
    inputs: &[Option<HostArray>],
) -> Result<()> {
    let of_nodes = || inputs.iter().flatten();
    let checked = match &case.check {
        Check::Formula(formula) => {
            let expected = formula(&of_nodes().map(HostArray::values).collect::<Vec<_>>());
            compare(case, &values(found), &expected, case.tolerance)
        }
        Check::Rows(formula) => check_rows(case, formula, found, &of_nodes().collect::<Vec<_>>()),
        Check::Small(small) => check_small(backend, small).and_then(|()| expect_finite(case, found)),
        Check::Interpreter => compare(case, &values(found), &interpreted(case, inputs)?, case.tolerance),
    };
    checked.with_context(|| format!("case `{}`", case.name))
}

/// Fails unless the backend and the interpreter agree on a case.
fn check_small(backend: &Backend, small: &Case) -> Result<()> {
    let inputs: Vec<_> = small.nodes.iter().map(Node::array).collect::<Result<_>>()?;
    let ours = LinkedCase::prepare(backend, small, &inputs)?;
    ours.run_once()?;
    check(backend, small, &ours.outputs()?, &inputs).context("with smaller arrays")
}

/// Fails unless all elements of all outputs are finite.
fn expect_finite(case: &Case, found: &[HostArray]) -> Result<()> {
    for (name, found) in case.outputs.iter().zip(found) {
        let wrong = found.values().iter().position(|value| !value.is_finite());
        ensure!(wrong.is_none(), "output `{name}`: element {} is not finite", wrong.unwrap_or(0));
    }
    Ok(())
}

/// Fails unless the sampled rows of the only output agree with the formula.
fn check_rows(case: &Case, formula: &RowsFormula, found: &[HostArray], inputs: &[&HostArray]) -> Result<()> {
    let [found] = found else { bail!("expected one output, found {}", found.len()) };
    let (rows, columns) = (sample::chosen(case.name, sample::count(found)), sample::columns(found));
    let place = |at: usize| format!("row {}, column {}", rows[at / columns], at % columns);
    compare_one(&sample::rows(found, &rows), &formula(inputs, &rows), case.tolerance, place)
        .with_context(|| format!("output `{}`", case.outputs[0]))
}

/// Converts the elements of each array to `f64`.
pub(crate) fn values(arrays: &[HostArray]) -> Vec<Vec<f64>> {
    arrays.iter().map(HostArray::values).collect()
}

/// Fails unless all outputs are close to the expected ones.
///
/// # Errors
///
/// The output and the first wrong element.
pub(crate) fn compare(case: &Case, found: &[Vec<f64>], expected: &[Vec<f64>], tolerance: f64) -> Result<()> {
    ensure!(found.len() == expected.len(), "expected {} outputs, found {}", expected.len(), found.len());
    for (name, (found, expected)) in case.outputs.iter().zip(found.iter().zip(expected)) {
        compare_one(found, expected, tolerance, element).with_context(|| format!("output `{name}`"))?;
    }
    Ok(())
}

fn element(at: usize) -> String {
    format!("element {at}")
}

fn compare_one(
    found: &[f64],
    expected: &[f64],
    tolerance: f64,
    place: impl Fn(usize) -> String,
) -> Result<()> {
    ensure!(found.len() == expected.len(), "expected {} values, found {}", expected.len(), found.len());
    let scale = expected.iter().fold(0.0f64, |m, v| m.max(v.abs())).max(f64::MIN_POSITIVE);
    for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
        // In this form a NaN fails.
        let is_close = (f - e).abs() <= tolerance * scale;
        if !is_close {
            bail!("wrong result at {}: expected {e}, found {f}", place(i));
        }
    }
    Ok(())
}

fn interpreted(case: &Case, inputs: &[Option<HostArray>]) -> Result<Vec<Vec<f64>>> {
    let mut settings = Settings::default();
    settings.narrow_gradients = true;
    let backend = Backend::open_with("interpreter", &settings)?;
    let ours = LinkedCase::prepare(&backend, case, inputs)?;
    ours.run_once()?;
    Ok(values(&ours.outputs()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_number_is_wrong() {
        assert!(compare_one(&[f64::NAN], &[1.0], 1e-5, element).is_err());
        assert!(compare_one(&[1.0], &[f64::NAN], 1e-5, element).is_err());
        assert!(compare_one(&[1.0, 0.0], &[1.0], 1e-5, element).is_err());
    }

    #[test]
    fn differences_are_relative_to_the_largest_value() {
        assert!(compare_one(&[1000.0, 0.009], &[1000.0, 0.0], 1e-5, element).is_ok());
        let error = compare_one(&[1000.0, 0.011], &[1000.0, 0.0], 1e-5, element).unwrap_err().to_string();
        assert!(error.contains("element 1"), "{error}");
    }
}
