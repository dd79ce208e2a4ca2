//! Arrays for the inputs of a model: from files, or random.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use arrayjit_onnx::{DType, Dim, HostArray, Model, ValueInfo};
use clap::Args;
use tnode::Scalar;

use crate::report;

/// The seed of random inputs, so that every run of the program sees the same values.
const SEED: u64 = 42;

#[derive(Args)]
pub(crate) struct InputArgs {
    /// The values of an input, an array in NumPy's format.
    #[arg(long = "input", value_name = "NAME=FILE.npy", value_parser = named_file)]
    files: Vec<(String, PathBuf)>,
    /// Give random values to inputs without a file: floats in 0..1, small integers.
    #[arg(long)]
    random: bool,
    /// The shape of a random input.
    #[arg(long = "shape", value_name = "NAME=1,3,320,320", value_parser = named_shape)]
    shapes: Vec<(String, Vec<usize>)>,
    /// After all runs, run once on a random input of this shape, and print how long a new shape of a loaded
    /// model takes.
    #[arg(long = "then-shape", value_name = "NAME=1,3,640,640", value_parser = named_shape)]
    then: Vec<(String, Vec<usize>)>,
}

impl InputArgs {
    /// The array of each input of the model.
    ///
    /// # Errors
    /// A name that is no input, an input without values, a size that the model leaves open, or a file that
    /// cannot be read.
    pub(crate) fn arrays(&self, model: &Model) -> Result<Vec<(String, HostArray)>> {
        let infos = model.inputs();
        let given = self.files.iter().map(|(name, _)| name).chain(self.shapes.iter().map(|(name, _)| name));
        for name in given {
            if infos.iter().all(|info| info.name != *name) {
                bail!("the model has no input `{name}`\n{}", report::interface(model));
            }
        }
        let mut random = fastrand::Rng::with_seed(SEED);
        infos.iter().map(|info| Ok((info.name.clone(), self.array(info, model, &mut random)?))).collect()
    }

    /// The arguments for the run with other shapes, if there are any: inputs without one stay as they are.
    pub(crate) fn reshaped(&self) -> Option<InputArgs> {
        if self.then.is_empty() {
            return None;
        }
        let is_kept = |name: &str| self.then.iter().all(|(other, _)| other != name);
        let files = self.files.iter().filter(|(name, _)| is_kept(name)).cloned().collect();
        let kept = self.shapes.iter().filter(|(name, _)| is_kept(name)).cloned();
        let shapes = kept.chain(self.then.iter().cloned()).collect();
        Some(InputArgs { files, random: true, shapes, then: Vec::new() })
    }

    fn array(&self, info: &ValueInfo, model: &Model, random: &mut fastrand::Rng) -> Result<HostArray> {
        if let Some((_, path)) = self.files.iter().find(|(name, _)| *name == info.name) {
            return read(path);
        }
        if !self.random {
            bail!(
                "input `{name}` has no values: give --input {name}=FILE.npy or --random\n{}",
                report::interface(model),
                name = info.name
            );
        }
        let dtype = info.dtype.ok_or_else(|| anyhow!("input `{}` has no known type", info.name))?;
        random_array(dtype, &self.shape(info)?, random)
    }

    /// The shape that the user gives, or else that of the model.
    fn shape(&self, info: &ValueInfo) -> Result<Vec<usize>> {
        if let Some((_, shape)) = self.shapes.iter().find(|(name, _)| *name == info.name) {
            return Ok(shape.clone());
        }
        let size = |dim: &Dim| match dim {
            Dim::Known(size) => Some(*size),
            Dim::Named(_) | Dim::Unknown => None,
        };
        let shape: Option<Vec<usize>> = info.dims.as_ref().and_then(|dims| dims.iter().map(size).collect());
        shape.with_context(|| {
            format!(
                "input {} leaves sizes open: give --shape {}=SIZE,SIZE,...",
                report::value(info),
                info.name
            )
        })
    }
}

fn read(path: &Path) -> Result<HostArray> {
    let file = std::fs::File::open(path).with_context(|| format!("reading {}", path.display()))?;
    tnode::npy::read(std::io::BufReader::new(file)).with_context(|| format!("reading {}", path.display()))
}

/// Floats in 0..1, truth values, or integers in 0..8.
fn random_array(dtype: DType, shape: &[usize], random: &mut fastrand::Rng) -> Result<HostArray> {
    let mut array = HostArray::zeros(dtype, shape.iter().copied())?;
    let value = |random: &mut fastrand::Rng| match dtype {
        DType::Bool => f64::from(u8::from(random.bool())),
        _ if dtype.is_float() => f64::from(random.f32()),
        _ => f64::from(random.u8(0..8)),
    };
    let values: Vec<f64> = (0..array.num_values()).map(|_| value(random)).collect();
    match shape {
        [] => array.fill(Scalar::from_f64(dtype, values[0])),
        _ => array.set_values(&values)?,
    }
    Ok(array)
}

fn named_file(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.rsplit_once('=').ok_or("expected NAME=FILE.npy")?;
    Ok((name.into(), path.into()))
}

fn named_shape(text: &str) -> Result<(String, Vec<usize>), String> {
    let (name, sizes) = text.rsplit_once('=').ok_or("expected NAME=SIZE,SIZE,...")?;
    let size = |size: &str| size.trim().parse().map_err(|_| format!("`{size}` is no size of an axis"));
    let sizes = if sizes.is_empty() { Ok(Vec::new()) } else { sizes.split(',').map(size).collect() };
    Ok((name.into(), sizes?))
}
