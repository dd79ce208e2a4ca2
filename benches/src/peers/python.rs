//! Peers in Python: one process each, controlled by lines of JSON; `benches/peers/peers.py` has the protocol.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use arrayjit::DType;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Contestant, Peer, Prepared, Problem};
use crate::{arrays::Array, case::Operation};

/// A process that measures one peer.
pub(super) struct Python {
    name: &'static str,
    threads: usize,
    device: Option<u32>,
    version: String,
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// The arrays that are passed, and the peer's own files.
    folder: TempDir,
}

/// The fields that answers of a peer may have.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    error: Option<String>,
    version: String,
    has: bool,
    cold_ms: Option<f64>,
    seconds: f64,
    peak_bytes: Option<f64>,
}

impl Python {
    /// Starts the process and waits until its libraries are loaded. `device` is the position of the NVIDIA
    /// GPU to use instead of cores.
    ///
    /// # Errors
    ///
    /// No Python, and a peer that does not start or cannot use the device.
    pub(super) fn start(name: &'static str, threads: usize, device: Option<u32>) -> Result<Python> {
        ensure!(device.is_none() || name != "jax", "peer `jax` is measured on cores only");
        let python = std::env::var_os("BENCH_PYTHON").map(PathBuf::from);
        let python = python.with_context(|| {
            format!("no Python for peer `{name}`: `cargo xtask bench` makes one and says so in BENCH_PYTHON")
        })?;
        let folder = tempfile::Builder::new().prefix("bench-").tempdir()?;
        let peers = std::env::var_os("BENCH_PEERS").map(PathBuf::from);
        let peers = peers.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("peers"));
        let place = device.map_or_else(|| "cpu".to_owned(), |ordinal| format!("cuda:{ordinal}"));
        let mut command = Command::new(&python);
        command.arg(peers.join("peers.py")).args([name, &threads.to_string(), &place]);
        command.envs(environment(threads, folder.path()));
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = started.with_context(|| format!("starting {}", python.display()))?;
        let requests = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().context("a process without output")?);
        let version = String::new();
        let mut peer = Python { name, threads, device, version, process, requests, answers, folder };
        peer.version = peer.answer()?.version;
        Ok(peer)
    }

    fn ask(&mut self, request: &Value) -> Result<Answer> {
        let requests = self.requests.as_mut().context("a process without input")?;
        if let Err(error) = writeln!(requests, "{request}").and_then(|()| requests.flush()) {
            bail!("asking peer `{}`: {error}", self.name);
        }
        self.answer()
    }

    fn answer(&mut self) -> Result<Answer> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("peer `{}` ended: {}", self.name, self.process.wait()?);
        }
        let answer: Answer =
            serde_json::from_str(&line).with_context(|| format!("peer `{}` answered {line}", self.name))?;
        match answer.error {
            Some(error) => bail!("peer `{}`: {error}", self.name),
            None => Ok(answer),
        }
    }

    fn write_all(&self, problem: &Problem) -> Result<Vec<Value>> {
        let named = problem.names[0].iter().zip(&problem.inputs).enumerate();
        named.map(|(i, (name, array))| self.write(i, name, array)).collect()
    }

    fn write(&self, index: usize, name: &str, array: &Array) -> Result<Value> {
        let file = self.folder.path().join(format!("input{index}"));
        std::fs::write(&file, bytemuck::cast_slice(&array.values))?;
        Ok(json!({ "name": name, "dims": array.dims, "file": file }))
    }
}

/// The environment of a peer: the measured number of threads, memory that is kept between calls and on huge
/// pages as ours is, and no cached compilations.
fn environment(threads: usize, folder: &Path) -> Vec<(&'static str, String)> {
    let tunables =
        "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=4294967296";
    vec![
        ("OMP_NUM_THREADS", threads.to_string()),
        ("MKL_NUM_THREADS", threads.to_string()),
        ("GLIBC_TUNABLES", tunables.into()),
        ("TORCHINDUCTOR_CACHE_DIR", folder.join("inductor").display().to_string()),
        ("TRITON_CACHE_DIR", folder.join("triton").display().to_string()),
        ("PYTHONDONTWRITEBYTECODE", "1".into()),
        ("JAX_PLATFORMS", "cpu".into()),
    ]
}

impl Peer for Python {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn takes(&self, _operation: Operation, dtype: DType) -> bool {
        dtype == DType::F32 || self.name != "jax" && dtype == DType::Bf16
    }

    fn prepare(&mut self, problem: Problem) -> Result<Option<Prepared<'_>>> {
        let inputs = self.write_all(&problem)?;
        let outputs = &problem.names[1];
        let files: Vec<PathBuf> =
            (0..outputs.len()).map(|i| self.folder.path().join(format!("output{i}"))).collect();
        let outputs = outputs.iter().zip(&files).map(|(name, file)| json!({ "name": name, "file": file }));
        let outputs: Vec<Value> = outputs.collect();
        let dtype = problem.dtype.to_string();
        let answer = self.ask(
            &json!({ "prepare": problem.operation, "dtype": dtype, "inputs": inputs, "outputs": outputs }),
        )?;
        if !answer.has {
            return Ok(None);
        }
        let outputs = files.iter().map(|file| read(file)).collect::<Result<_>>()?;
        Ok(Some(Prepared { step: Box::new(PythonCalls(self)), outputs, cold_ms: answer.cold_ms }))
    }

    fn peak_memory(&mut self, problem: Problem) -> Result<Option<f64>> {
        let mut fresh = Python::start(self.name, self.threads, self.device)?;
        let inputs = fresh.write_all(&problem)?;
        Ok(fresh.ask(&json!({ "memory": problem.operation, "inputs": inputs }))?.peak_bytes)
    }
}

struct PythonCalls<'a>(&'a mut Python);

impl Contestant for PythonCalls<'_> {
    fn run(&mut self, count: usize) -> Result<f64> {
        Ok(self.0.ask(&json!({ "run": count }))?.seconds)
    }
}

fn read(file: &Path) -> Result<Vec<f32>> {
    let bytes = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    Ok(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

impl Drop for Python {
    fn drop(&mut self) {
        // Closing its input ends the process.
        self.requests = None;
        let _ = self.process.wait();
    }
}
