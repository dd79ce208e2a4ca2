//! The kernel calls of a case: `--kernels`.
//!
//! On an NVIDIA GPU a time is that between two events around a kernel. It includes the time that the host
//! takes to submit the kernel, unless the GPU is busy meanwhile: so each run follows a matmul that takes
//! longer than submitting the run.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use arrayjit::{
    Backend, Context, DType, HostArray, MemoryMode, Routine, TensorNode,
    profile::{Profile, Roofline},
};

use crate::{
    case::{Case, Node, Operation},
    cases, device,
    measure::Effort,
    ours::LinkedCase,
};

/// The fewest runs. The first one finds the caches empty.
const FEWEST_RUNS: usize = 5;
/// The time after which no run is added.
const TIME: Duration = Duration::from_millis(300);

/// Rows and columns of the matmul in front of a run on a GPU.
const BUSY_SIZE: usize = 4096;
/// The matmul that measures tensor cores.
const TENSOR_CORE_CASE: &str = "gemm_bf16_8192";

/// Profiles kernel calls on a backend like the measured one whose routines time their kernels. It is another
/// backend, so that the times of cases have no part in it.
pub(crate) struct Profiler {
    backend: Backend,
    /// Figures of the device, if it is an NVIDIA GPU.
    cuda: Option<CudaFigures>,
}

/// Figures of an NVIDIA GPU to which profiles refer.
struct CudaFigures {
    /// The time of a kernel of one addition.
    shortest_us: f64,
    /// The limits for cases in `bf16`, whose matmuls run on tensor cores.
    tensor_cores: Option<Roofline>,
}

impl Profiler {
    /// Opens the backend; on an NVIDIA GPU, measures its figures.
    ///
    /// # Errors
    ///
    /// An error of the backend.
    pub(crate) fn open(backend: &Backend) -> Result<Profiler> {
        let mut settings = backend.settings().clone();
        settings.debugging.profile = true;
        let backend =
            Backend::open_with(backend.name(), &settings).context("opening the backend for profiles")?;
        let is_cuda = device::cuda_ordinal(&backend).is_some();
        let cuda = is_cuda.then(|| CudaFigures::measure(&backend)).transpose()?;
        Ok(Profiler { backend, cuda })
    }

    /// Profiles the kernel calls of a case. `roofline` has the measured limits of the device; without it, the
    /// backend measures them.
    ///
    /// # Errors
    ///
    /// An error of the backend.
    pub(crate) fn profile(
        &self,
        case: &Case,
        roofline: Option<&Roofline>,
        effort: Effort,
    ) -> Result<Profile> {
        let profile = profile(&self.backend, case, effort)?;
        let is_on_tensor_cores = case.dtype() == Some(DType::Bf16);
        let tensor_cores = self.cuda.as_ref().filter(|_| is_on_tensor_cores);
        let roofline = tensor_cores.and_then(|cuda| cuda.tensor_cores.as_ref()).or(roofline);
        let mut profile = match roofline {
            Some(roofline) => profile.with_roofline(Some(roofline.clone())),
            None => profile,
        };
        let Some(cuda) = &self.cuda else { return Ok(profile) };
        let CudaFigures { shortest_us, .. } = cuda;
        profile.notes.push(format!("a kernel of one addition takes {shortest_us:.1} us between its events"));
        Ok(profile)
    }
}

impl CudaFigures {
    fn measure(backend: &Backend) -> Result<CudaFigures> {
        let median_us = |case: &Case| -> Result<f64> {
            let us = profile(backend, case, Effort::Full)?.kernel_us();
            ensure!(us > 0.0, "the device does not time its kernels");
            Ok(us)
        };
        let nodes = vec![Node::input("a", &[1]), Node::written("c", &[1])];
        let shortest_us = median_us(&Case::new("shortest", Operation::Copy, "c[i] := a[i] + 1", nodes))?;
        let matmul = cases::all().into_iter().find(|case| case.name == TENSOR_CORE_CASE);
        let matmul = matmul.with_context(|| format!("no case `{TENSOR_CORE_CASE}`"))?;
        let flops = matmul.flops / median_us(&matmul)? * 1e6;
        let tensor_cores =
            backend.roofline().map(|limits| Roofline::new(flops, TENSOR_CORE_CASE, limits.bandwidths));
        Ok(CudaFigures { shortest_us, tensor_cores })
    }
}

/// Profiles the runs of a case.
fn profile(backend: &Backend, case: &Case, effort: Effort) -> Result<Profile> {
    let inputs: Vec<Option<HostArray>> = case.nodes.iter().map(|node| node.array()).collect::<Result<_>>()?;
    let linked = LinkedCase::prepare(backend, case, &inputs)?;
    let busy =
        device::cuda_ordinal(backend).map(|_| BusyRoutine::link(backend, linked.context())).transpose()?;
    let start = Instant::now();
    let mut runs = 0;
    while runs < FEWEST_RUNS || (effort == Effort::Full && start.elapsed() < TIME) {
        busy.iter().try_for_each(BusyRoutine::start)?;
        linked.run_again()?;
        runs += 1;
    }
    let mut profile = linked.profile().context("the backend was opened for profiles")?;
    case.name.clone_into(&mut profile.routine);
    Ok(profile)
}

/// A matmul on the stream of a case, which keeps the device busy while the host submits a run.
struct BusyRoutine(Routine);

impl BusyRoutine {
    fn link(backend: &Backend, context: &Context) -> Result<BusyRoutine> {
        let node =
            |name| TensorNode::builder(name).dims([BUSY_SIZE; 2]).mode(MemoryMode::Materialized).build();
        let (a, b) = (node("busy_a")?, node("busy_b")?);
        let zeros = HostArray::zeros(DType::F32, [BUSY_SIZE; 2])?;
        let context = context.init_from_host(&a, &zeros)?;
        let code = backend.compile("busy_b[i,j] :+= busy_a[i,k] * busy_a[k,j]", [&a, &b])?;
        Ok(BusyRoutine(code.link(&context)?))
    }

    /// Submits a run, as a routine of the device: such a run has no profile.
    fn start(&self) -> Result<()> {
        let whole = self.0.whole().context("a statement of the matmul falls back")?;
        whole.run(&[])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn a_profile_has_the_case_and_the_limits_of_the_machine() {
        let backend = Backend::open("inline").unwrap();
        let profiler = Profiler::open(&backend).unwrap();
        let cases = cases::selected(&["softmax".to_owned()], false);
        let roofline = Machine::default().roofline(&backend, 1, true).unwrap();
        let profile = profiler.profile(&cases[0], Some(&roofline), Effort::Smoke).unwrap();
        assert_eq!(profile.routine, cases[0].name);
        assert_eq!(profile.run_time.unwrap().count as usize, FEWEST_RUNS);
        assert_eq!(profile.roofline.as_ref(), Some(&roofline));
        assert!(
            profile.calls.iter().all(|call| call.time.is_some() && !call.description.statements.is_empty())
        );
    }
}
