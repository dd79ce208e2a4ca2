//! Comparison with torch: the numbers that tests/torch/goldens.py wrote, and the weights and data from which
//! it started.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use arrayjit::safetensors;
use arrayjit_tensor::{HostArray, ModelState};

/// Arrays that torch computed, by name.
pub(crate) struct Goldens(BTreeMap<String, HostArray>);

impl Goldens {
    /// The arrays of a file of tests/torch whose names begin with `path`, by the rest of their names.
    pub(crate) fn read(file: &str, path: &str) -> Goldens {
        let all = safetensors::read(&file_bytes(file)).unwrap();
        let prefix = format!("{path}/");
        let named = all.into_iter().filter_map(|(name, array)| {
            name.strip_prefix(&prefix).map(str::to_owned).map(|name| (name, array))
        });
        Goldens(named.collect())
    }

    /// Takes out the array of a name, which must be there.
    pub(crate) fn take(&mut self, name: &str) -> HostArray {
        self.0.remove(name).unwrap_or_else(|| panic!("torch computed no {name}, but {:?}", self.names()))
    }

    /// The names of the arrays that are left.
    pub(crate) fn names(&self) -> Vec<&String> {
        self.0.keys().collect()
    }

    /// Takes out the array of a name and compares: every element within `tolerance` of the largest one.
    pub(crate) fn compare(&mut self, path: &str, name: &str, found: &HostArray, tolerance: f64) {
        let expected = self.take(name);
        assert_eq!(found.dims().as_slice(), expected.dims().as_slice(), "{path}/{name}");
        let (found, expected) = (found.values(), expected.values());
        let largest = expected.iter().fold(0f64, |largest, value| largest.max(value.abs()));
        let distance = found.iter().zip(&expected).map(|(a, b)| (a - b).abs());
        let distance = distance.fold(0f64, |most, distance| if distance <= most { most } else { distance });
        assert!(
            distance <= tolerance * largest,
            "{path}/{name}: an element is {distance:e} from torch's, and the largest is {largest:e}"
        );
    }
}

/// A file of tests/torch.
pub(crate) fn file_path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch").join(file)
}

/// The bytes of a file of tests/torch.
pub(crate) fn file_bytes(file: &str) -> Vec<u8> {
    let path = file_path(file);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Gives all parameters the values that `fill` in goldens.py gives them.
pub(crate) fn fill(path: &str, weights: &ModelState) {
    for parameter in weights.params().all() {
        let (name, shape) = (parameter.name(), parameter.shape());
        if name.ends_with("num_batches_tracked") {
            continue;
        }
        let (scale, offset) = match shape {
            [_, inner @ ..] if !inner.is_empty() => {
                (1.0 / (inner.iter().product::<usize>() as f64).sqrt(), 0.0)
            }
            _ if name.ends_with("weight") || name.ends_with("var") => (0.5, 1.0),
            _ => (0.5, 0.0),
        };
        weights.set(&parameter, pattern(&format!("{path}/{name}"), shape, scale, offset)).unwrap();
    }
}

/// `pattern` of goldens.py.
pub(crate) fn pattern(name: &str, shape: &[usize], scale: f64, offset: f64) -> HostArray {
    let unit = |hash: u32| f64::from(hash >> 8) / f64::from(1 << 23) - 1.0;
    let values: Vec<f32> =
        hashes(name, shape.iter().product()).map(|hash| (unit(hash) * scale + offset) as f32).collect();
    HostArray::from_slice(&values, shape.iter().copied()).unwrap()
}

/// `labels` of goldens.py.
pub(crate) fn labels(name: &str, shape: &[usize], classes: u32) -> HostArray {
    let values: Vec<i32> =
        hashes(name, shape.iter().product()).map(|hash| ((hash >> 8) % classes) as i32).collect();
    HostArray::from_slice(&values, shape.iter().copied()).unwrap()
}

/// `hashes` of goldens.py.
fn hashes(name: &str, count: usize) -> impl Iterator<Item = u32> {
    let seed =
        name.bytes().fold(2_166_136_261u32, |seed, byte| (seed ^ u32::from(byte)).wrapping_mul(16_777_619));
    (0..count as u32).map(move |at| {
        let x = at.wrapping_add(seed);
        let x = (x ^ x >> 16).wrapping_mul(0x7FEB_352D);
        let x = (x ^ x >> 15).wrapping_mul(0x046C_A68B);
        x ^ x >> 16
    })
}
