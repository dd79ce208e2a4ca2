//! Peers: other programs that compute what a case computes. Each gives its result first, which is compared with ours, and is timed
//! afterwards, in turns with ours.
//!
//! A peer that has no such operation is absent from a case. Peers in Rust are features of this package, named as the libraries are;
//! those in Python run as processes of `benches/peers/peers.py`.

#[cfg(feature = "candle-core")]
mod candle;
#[cfg(feature = "gemm")]
mod gemm;
#[cfg(target_arch = "x86_64")]
mod hand;
mod kernel;
#[cfg(feature = "matrixmultiply")]
mod matrixmultiply;
#[cfg(feature = "ndarray")]
mod ndarray;
#[cfg(any(feature = "gemm", feature = "matrixmultiply"))]
mod products;
mod python;
mod version;

use anyhow::{Result, bail, ensure};

use crate::{arrays::Array, case::Operation};

/// Every peer by name.
pub(crate) const NAMES: [&str; 8] =
    ["hand", "gemm", "matrixmultiply", "ndarray", "candle-core", "torch", "torch-compile", "jax"];

/// A computation with its operands.
pub(crate) struct Problem {
    pub(crate) operation: Operation,
    /// The inputs in the order of the case.
    pub(crate) inputs: Vec<Array>,
    /// The outputs in the order of the case: with what they hold before, where they are updated.
    pub(crate) outputs: Vec<Array>,
}

/// Another program.
pub(crate) trait Peer {
    /// Its name, one of [`NAMES`].
    fn name(&self) -> &'static str;
    /// Its version; empty for our own.
    fn version(&self) -> &str;
    /// What it makes of a problem, after one call; `None` if it has no such operation.
    ///
    /// # Errors
    ///
    /// Whatever stops it.
    fn prepare(&mut self, problem: Problem) -> Result<Option<Prepared<'_>>>;
}

/// What a peer is ready to repeat.
pub(crate) struct Prepared<'a> {
    pub(crate) step: Box<dyn Step + 'a>,
    /// The outputs of the first call.
    pub(crate) outputs: Vec<Vec<f32>>,
    /// Milliseconds that the first call took longer than a later one, for peers that compile.
    pub(crate) cold_ms: Option<f64>,
}

/// Something that can be repeated.
pub(crate) trait Step {
    /// Does it once untimed, then so many times: seconds of these together, to the end of the last.
    ///
    /// # Errors
    ///
    /// Whatever stops it.
    fn run(&mut self, count: usize) -> Result<f64>;
}

/// Opens the peers of a list.
///
/// # Errors
///
/// Names that no peer has, peers that this program was built without, and Python that does not start.
pub(crate) fn open(list: &[String], threads: usize) -> Result<Vec<Box<dyn Peer>>> {
    let all = list.iter().any(|name| name == "all");
    let names = if all { NAMES.map(String::from).to_vec() } else { list.to_vec() };
    names.iter().map(|name| open_one(name, threads)).collect()
}

fn open_one(name: &str, threads: usize) -> Result<Box<dyn Peer>> {
    match name {
        #[cfg(target_arch = "x86_64")]
        "hand" if hand::Hand::is_supported() => Ok(Box::new(hand::Hand::new(threads)?)),
        #[cfg(feature = "gemm")]
        "gemm" => Ok(Box::new(gemm::Gemm::new(threads)?)),
        #[cfg(feature = "matrixmultiply")]
        "matrixmultiply" => Ok(Box::new(matrixmultiply::MatrixMultiply::new(threads)?)),
        #[cfg(feature = "ndarray")]
        "ndarray" => Ok(Box::new(ndarray::NdArray::new(threads)?)),
        #[cfg(feature = "candle-core")]
        "candle-core" => Ok(Box::new(candle::Candle::new(threads)?)),
        "torch" => Ok(Box::new(python::Python::start("torch", threads)?)),
        "torch-compile" => Ok(Box::new(python::Python::start("torch-compile", threads)?)),
        "jax" => Ok(Box::new(python::Python::start("jax", threads)?)),
        "hand" => bail!("the kernels written by hand need AVX2 and FMA, which this machine lacks"),
        _ => {
            ensure!(
                NAMES.contains(&name),
                "no peer is named `{name}`; expected some of {}",
                NAMES.join(", ")
            );
            bail!(
                "this program was built without `{name}`: `cargo xtask bench --peers {name}` builds it with it"
            )
        }
    }
}

/// Fails unless a variable that a library reads at its first use says so many threads.
#[cfg(any(feature = "matrixmultiply", feature = "candle-core"))]
fn expect_variable(name: &str, threads: usize) -> Result<()> {
    let found = std::env::var(name).unwrap_or_default();
    ensure!(
        found == threads.to_string(),
        "`{name}` is `{found}`, expected {threads}: `cargo xtask bench` sets it"
    );
    Ok(())
}
