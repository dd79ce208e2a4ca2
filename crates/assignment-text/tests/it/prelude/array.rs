//! Arrays of `f64`, with which the references compute.

/// An array with its name in a program.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) name: &'static str,
    /// Whether the program holds it as integers, not as `f32`.
    pub(crate) is_integer: bool,
    pub(crate) dims: Vec<usize>,
    pub(crate) values: Vec<f64>,
}

/// A program over arrays, and the arrays that it computes.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) text: String,
    /// The sizes to bind.
    pub(crate) sizes: &'static [(&'static str, usize)],
    pub(crate) bindings: Vec<i64>,
    pub(crate) inputs: Vec<Array>,
    pub(crate) expected: Vec<Array>,
}

impl Array {
    /// An array with the value that `f` gives for each index.
    pub(crate) fn of(name: &'static str, dims: &[usize], f: impl Fn(&[usize]) -> f64) -> Array {
        let count: usize = dims.iter().product();
        let index = |mut at: usize| {
            let mut index = vec![0; dims.len()];
            for (axis, size) in dims.iter().enumerate().rev() {
                (index[axis], at) = (at % size, at / size);
            }
            index
        };
        let values = (0..count).map(|at| f(&index(at))).collect();
        Array { name, is_integer: false, dims: dims.to_vec(), values }
    }

    /// An input with values from -2 to 2 that differ from name to name.
    pub(crate) fn input(name: &'static str, dims: &[usize]) -> Array {
        let seed: usize = name.bytes().map(usize::from).sum();
        let count: usize = dims.iter().product();
        let value = |at: usize| ((at * 7 + at / 5 + seed * 13) % 17) as f64 / 4.0 - 2.0;
        let values = (0..count).map(value).collect();
        Array { name, is_integer: false, dims: dims.to_vec(), values }
    }

    /// An input of integers from 0 to `end`, excluded.
    pub(crate) fn integers(name: &'static str, dims: &[usize], end: usize) -> Array {
        let values = (0..dims.iter().product()).map(|at: usize| ((at * 5 + 2) % end) as f64).collect();
        Array { name, is_integer: true, dims: dims.to_vec(), values }
    }

    /// The element at an index.
    pub(crate) fn at<const N: usize>(&self, index: [usize; N]) -> f64 {
        assert_eq!(N, self.dims.len(), "{}", self.name);
        self.values[index.iter().zip(&self.dims).fold(0, |at, (index, size)| at * size + index)]
    }

    /// The element at an index, 0 outside.
    pub(crate) fn padded<const N: usize>(&self, index: [i64; N]) -> f64 {
        let inside = index.iter().zip(&self.dims).all(|(&at, &size)| (0..size as i64).contains(&at));
        if inside { self.at(index.map(|at| at as usize)) } else { 0.0 }
    }

    /// The first difference of an array that a program computed in `f32`.
    pub(crate) fn difference(&self, dims: &[usize], values: &[f64]) -> Result<(), String> {
        if dims != self.dims {
            return Err(format!("{} has dimensions {dims:?}, expected {:?}", self.name, self.dims));
        }
        for (at, (found, expected)) in values.iter().zip(&self.values).enumerate() {
            let is_near = (found - expected).abs() <= 2e-5 * (1.0 + expected.abs());
            if !is_near {
                return Err(format!("element {at} of {} is {found}, expected {expected}", self.name));
            }
        }
        Ok(())
    }

    /// The array with each value replaced.
    pub(crate) fn map(&self, name: &'static str, f: impl Fn(f64) -> f64) -> Array {
        let values = self.values.iter().map(|&value| f(value)).collect();
        Array { name, is_integer: false, dims: self.dims.clone(), values }
    }
}
