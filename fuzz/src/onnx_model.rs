//! The check of the fuzz target `onnx_model`, which the tests of `arrayjit-onnx` run on seeds too.

use arrayjit_onnx::{Backend, DType, Dim, HostArray, Model, OnnxLimits};

/// The size of axes that a model leaves open.
const OPEN: usize = 2;
/// The most elements of an input.
const MOST_ELEMENTS: usize = 1 << 12;
/// What a model may take, so that a run takes little memory and time.
const LIMITS: OnnxLimits = OnnxLimits { bytes: 1 << 24, steps: 1 << 10 };

/// Any bytes are a model that loads and runs, or an error.
pub fn load_and_run(data: &[u8]) {
    let Ok(model) = Model::from_bytes_within(data.to_vec(), LIMITS) else { return };
    let Some(inputs) = inputs(&model) else { return };
    let named: Vec<(&str, &HostArray)> = inputs.iter().map(|(name, array)| (name.as_str(), array)).collect();
    let backend = Backend::open("interpreter").expect("the interpreter opens");
    let session = model.session(&backend).expect("a session of the interpreter opens");
    // An error is a rejection. Two runs take the plan of the first.
    if session.run(&named).is_ok() {
        session.run(&named).expect("a run with the same inputs succeeds again");
    }
}

/// Small arrays for all inputs; none if a model asks for a large one.
fn inputs(model: &Model) -> Option<Vec<(String, HostArray)>> {
    let mut inputs = Vec::new();
    for info in model.inputs() {
        let size = |dim: &Dim| if let Dim::Known(size) = dim { *size } else { OPEN };
        let shape: Vec<usize> = info.dims.iter().flatten().map(size).collect();
        let count = shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size))?;
        if count > MOST_ELEMENTS {
            return None;
        }
        let mut array = HostArray::zeros(info.dtype.unwrap_or(DType::F32), shape).ok()?;
        array.set_values(&(0..count).map(|at| (at % 5) as f64).collect::<Vec<_>>()).ok()?;
        inputs.push((info.name.clone(), array));
    }
    Some(inputs)
}
