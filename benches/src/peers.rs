//! Peers: other programs that compute the same operations. Each computes its result first, which is compared
//! with ours, and is timed afterwards, in turns with ours.
//!
//! A peer without the operation of a case is left out. Peers in Rust are features of this package, with the
//! names of the libraries; peers in Python run as processes of `benches/peers/peers.py`. [`BY_HAND`] is the
//! same program with gradients that were written by hand. Any other name is that of a backend, which compiles
//! the assignments of every case ([`crate::rivals`]).

#[cfg(feature = "candle-core")]
mod candle;
#[cfg(feature = "cublas")]
mod cublas;
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

#[cfg(any(feature = "matrixmultiply", feature = "candle-core"))]
use anyhow::ensure;
use anyhow::{Result, bail};
use arrayjit::DType;

use crate::{
    arrays::Array,
    case::{Name, Operation},
};

/// Whether a peer, or a list of peers, has the name; otherwise it may be a backend's.
pub(crate) fn is_peer(name: &str) -> bool {
    NAMES.contains(&name) || matches!(name, "all" | "cublas" | BY_HAND)
}

/// The peer of cases with derived gradients: the same program, whose gradients were written by hand, on the
/// same backend. `all` does not mean it.
pub(crate) const BY_HAND: &str = "by-hand";

/// The names of all peers on this machine's cores; `cublas` is the one on a GPU.
pub(crate) const NAMES: [&str; 8] =
    ["hand", "gemm", "matrixmultiply", "ndarray", "candle-core", "torch", "torch-compile", "jax"];

/// A computation with its operands.
pub(crate) struct Problem {
    pub(crate) operation: Operation,
    /// The type of all its elements, whose values stand in `f32` here.
    pub(crate) dtype: DType,
    /// The names of the inputs and of the outputs, for peers that take many arrays.
    pub(crate) names: [Vec<Name>; 2],
    /// The inputs in the order of the case.
    pub(crate) inputs: Vec<Array>,
    /// The outputs in the order of the case, with their initial contents if they are updated.
    pub(crate) outputs: Vec<Array>,
}

/// Another program.
pub(crate) trait Peer {
    /// The peer's name, of which [`is_peer`] holds.
    fn name(&self) -> &'static str;
    /// Whether it may support an operation on elements of a type; [`Peer::prepare`] decides.
    fn takes(&self, _operation: Operation, dtype: DType) -> bool {
        dtype == DType::F32
    }
    /// The peer's version; empty for kernels of this program.
    fn version(&self) -> &str;
    /// The problem after one call, ready to repeat; `None` if the peer lacks the operation.
    ///
    /// # Errors
    ///
    /// An error of the peer.
    fn prepare(&mut self, problem: Problem) -> Result<Option<Prepared<'_>>>;
    /// The peak of the peer's memory while it prepares and repeats the problem, above an idle process with
    /// the inputs, in bytes; `None` if the peer lacks the operation or has no process of its own.
    ///
    /// # Errors
    ///
    /// An error of the peer.
    fn peak_memory(&mut self, _problem: Problem) -> Result<Option<f64>> {
        Ok(None)
    }
}

/// A problem that a peer is ready to repeat.
pub(crate) struct Prepared<'a> {
    pub(crate) step: Box<dyn Contestant + 'a>,
    /// The outputs of the first call.
    pub(crate) outputs: Vec<Vec<f32>>,
    /// The milliseconds by which the first call exceeds a later one, if the peer measures them.
    pub(crate) cold_ms: Option<f64>,
}

/// An operation that can be repeated.
pub(crate) trait Contestant {
    /// Runs once untimed, then `count` times, and returns the duration of these runs together in seconds,
    /// until the end of the last one.
    ///
    /// # Errors
    ///
    /// An error of the peer.
    fn run(&mut self, count: usize) -> Result<f64>;
}

/// Opens the peers of a list, without the backends in it; `device` is the position of the measured NVIDIA
/// GPU, if there is one, which torch then uses too. A missing library of NVIDIA's is reported, and its peer
/// left out.
///
/// # Errors
///
/// Peers that this program was built without, and Python that does not start.
pub(crate) fn open(list: &[String], threads: usize, device: Option<u32>) -> Result<Vec<Box<dyn Peer>>> {
    let peers = || list.iter().map(String::as_str).filter(|name| is_peer(name) && *name != BY_HAND);
    let mut names: Vec<&str> = peers().filter(|name| *name != "all").collect();
    if names.len() < peers().count() {
        names.retain(|name| !NAMES.contains(name));
        names.extend(NAMES);
    }
    let opened = names.iter().map(|name| match *name {
        "cublas" => open_cublas(device),
        name => open_one(name, threads, device).map(Some),
    });
    opened.filter_map(Result::transpose).collect()
}

#[cfg(feature = "cublas")]
fn open_cublas(device: Option<u32>) -> Result<Option<Box<dyn Peer>>> {
    let Some(ordinal) = device else {
        bail!("peer `cublas` needs an NVIDIA GPU to measure: `--backend cuda`")
    };
    match cublas::Cublas::open(ordinal)? {
        Ok(peer) => Ok(Some(Box::new(peer))),
        Err(missing) => {
            use std::io::Write as _;
            writeln!(std::io::stdout(), "peer `cublas` is left out: {missing}")?;
            Ok(None)
        }
    }
}

#[cfg(not(feature = "cublas"))]
fn open_cublas(_: Option<u32>) -> Result<Option<Box<dyn Peer>>> {
    bail!(
        "this program was built without `cublas`: `cargo xtask bench --backend cuda --peers cublas` builds it with it"
    )
}

fn open_one(name: &str, threads: usize, device: Option<u32>) -> Result<Box<dyn Peer>> {
    let kernels = |name, select: kernel::Select| -> Result<Box<dyn Peer>> {
        Ok(Box::new(kernel::KernelPeer::new(name, threads, select)?))
    };
    match name {
        #[cfg(target_arch = "x86_64")]
        "hand" if hand::is_supported() => kernels("hand", hand::kernel),
        #[cfg(feature = "gemm")]
        "gemm" => kernels("gemm", gemm::kernel),
        #[cfg(feature = "matrixmultiply")]
        "matrixmultiply" => {
            expect_variable("MATMUL_NUM_THREADS", threads)?;
            kernels("matrixmultiply", matrixmultiply::kernel)
        }
        #[cfg(feature = "ndarray")]
        "ndarray" => {
            expect_variable("MATMUL_NUM_THREADS", threads)?;
            kernels("ndarray", ndarray::kernel)
        }
        #[cfg(feature = "candle-core")]
        "candle-core" => Ok(Box::new(candle::Candle::new(threads)?)),
        "torch" => Ok(Box::new(python::Python::start("torch", threads, device)?)),
        "torch-compile" => Ok(Box::new(python::Python::start("torch-compile", threads, device)?)),
        "jax" => Ok(Box::new(python::Python::start("jax", threads, device)?)),
        "hand" => bail!("the kernels written by hand need AVX2 and FMA, which this machine lacks"),
        _ => bail!(
            "this program was built without `{name}`: `cargo xtask bench --peers {name}` builds it with it"
        ),
    }
}

/// Fails unless an environment variable, which a library reads at its first use, has this number of threads.
#[cfg(any(feature = "matrixmultiply", feature = "candle-core"))]
fn expect_variable(name: &str, threads: usize) -> Result<()> {
    let found = std::env::var(name).unwrap_or_default();
    ensure!(
        found == threads.to_string(),
        "`{name}` is `{found}`, expected {threads}: `cargo xtask bench` sets it"
    );
    Ok(())
}

/// The version of a package in the lock file that this program was built with; empty if it has none.
fn version_of(package: &str) -> &'static str {
    let lock = include_str!("../../Cargo.lock");
    let mut packages = lock.split("[[package]]");
    let name = format!("name = \"{package}\"");
    let found = packages.find(|text| text.lines().any(|line| line == name)).unwrap_or_default();
    let version = found.lines().find_map(|line| line.strip_prefix("version = "));
    version.map_or("", |version| version.trim_matches('"'))
}
