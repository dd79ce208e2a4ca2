//! Groups of devices that NCCL connects, on the library that stands in for NVIDIA's. With
//! `NCCL_GROUP_TEST_REAL=1`, the group of one rank runs on the machine's own NCCL and GPU.
//!
//! The library is the example `fake_cuda` of `device-cuda`; its first comment tells what it does.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failing step fails the test")]

use std::{
    env,
    error::Error,
    fs,
    process::Command,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use arrayjit::{Context, HostArray, Stream, TensorNode};
use arrayjit_collectives::{CollectiveError, Group, NcclGroup, Reduction, Transport, local};
use device_cuda::{CudaConfig, CudaDevice};
use device_runtime::Device;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Set in the process that runs a test.
const CHILD: &str = "NCCL_GROUP_TEST_CHILD";

/// Runs a test in a process of its own, whose loader finds the stand-in for NVIDIA's libraries.
fn on_stand_in(settings: &str, test: impl FnOnce()) {
    if env::var_os(CHILD).is_some() {
        return test();
    }
    let own = env::current_exe().unwrap();
    let library = own.parent().unwrap().parent().unwrap().join("examples/libfake_cuda.so");
    assert!(library.is_file(), "build it: `cargo build -p device-cuda --example fake_cuda`");
    let folder = tempfile::tempdir().unwrap();
    for name in ["libcuda.so", "libnccl.so"] {
        std::os::unix::fs::symlink(&library, folder.path().join(name)).unwrap();
    }
    let log = folder.path().join("log");
    let child = Command::new(own)
        .args(["--exact", thread::current().name().unwrap(), "--nocapture"])
        .env(CHILD, "1")
        .env("LD_LIBRARY_PATH", folder.path())
        .env("FAKE_CUDA", settings)
        .env("FAKE_CUDA_LOG", &log)
        .output()
        .unwrap();
    let printed = [child.stdout, child.stderr].concat();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&printed));
    assert!(fs::read_to_string(log).unwrap().contains("connect"), "the test used no NCCL");
}

/// Set if the group of one rank shall run on the machine's own libraries.
const REAL: &str = "NCCL_GROUP_TEST_REAL";

/// A rank on the device of its number.
struct Rank {
    group: NcclGroup,
    context: Context,
}

impl Rank {
    fn new(transport: &dyn Transport) -> Outcome<Rank> {
        let config = CudaConfig { ordinal: transport.rank() as u32, ..CudaConfig::default() };
        let device = Device::new(Arc::new(CudaDevice::open(&config)?), transport.rank());
        let (stream, context): (Stream, _) = (device.new_stream()?, Context::new(&device.new_stream()?));
        Ok(Rank { group: NcclGroup::new(transport, stream, Duration::from_secs(30))?, context })
    }

    /// Adds a node of these values.
    fn add(&mut self, name: &str, values: &[f32]) -> Outcome<TensorNode> {
        let node = TensorNode::builder(name).dims([values.len()]).build()?;
        self.context = self.context.init_from_host(&node, &HostArray::from_slice(values, [values.len()])?)?;
        Ok(node)
    }

    fn values(&self, node: &TensorNode) -> Outcome<Vec<f64>> {
        Ok(self.context.to_host(node)?.values())
    }
}

fn operations(transport: &dyn Transport) -> Outcome<()> {
    let mut rank = Rank::new(transport)?;
    let own = transport.rank() as f32;
    let x = rank.add("x", &[1.0 + own, 2.0, 3.0])?;
    let y = rank.add("y", &[10.0 * own])?;
    let (part, whole) = (rank.add("part", &[own; 2])?, rank.add("whole", &[own; 6])?);
    let (group, context) = (&rank.group, &rank.context);
    let one = std::slice::from_ref;

    group.all_reduce(context, &[x.clone(), y.clone()], Reduction::Sum)?;
    assert_eq!((rank.values(&x)?, rank.values(&y)?), (vec![6.0, 6.0, 9.0], vec![30.0]));
    group.all_gather(context, &part, &whole)?;
    assert_eq!(rank.values(&whole)?, [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
    group.reduce_scatter(context, &whole, &part, Reduction::Sum)?;
    assert_eq!(rank.values(&part)?, [3.0 * f64::from(own); 2]);
    let owned = [vec![], vec![x.clone()], vec![y.clone()]];
    group.reduce_scatter_nodes(context, &owned, Reduction::Sum)?;
    group.all_gather_nodes(context, &owned)?;
    assert_eq!((rank.values(&x)?, rank.values(&y)?), (vec![18.0, 18.0, 27.0], vec![90.0]));
    group.check_equal(context, &[x.clone(), y])?;
    let different = group.check_equal(context, one(&part)).unwrap_err();
    assert!(matches!(different, CollectiveError::Diverged { rank: 1, .. }), "{different}");
    group.broadcast(context, one(&part), 2)?;
    group.check_equal(context, one(&part))?;
    group.barrier()?;

    assert!(matches!(group.broadcast(context, one(&x), 3), Err(CollectiveError::Root { root: 3, size: 3 })));
    let unknown = TensorNode::builder("unknown").dims([1]).build()?;
    let missing = group.all_reduce(context, &[unknown], Reduction::Sum).unwrap_err().to_string();
    assert!(missing.contains("`unknown`"), "{missing}");
    assert!(group.failure().is_none(), "the group goes on after nodes that do not fit");
    Ok(())
}

#[test]
fn operations_give_all_ranks_their_values() {
    on_stand_in("devices=3 seed=7", || {
        local::run(3, |transport| operations(&transport)).into_iter().for_each(Result::unwrap);
    });
}

#[test]
fn a_rejected_call_is_the_failure_of_the_group() {
    on_stand_in("devices=2 nccl=5", || {
        let results = local::run(2, |transport| -> Outcome<()> {
            let mut rank = Rank::new(&transport)?;
            let x = rank.add("x", &[1.0])?;
            let sum = || rank.group.all_reduce(&rank.context, std::slice::from_ref(&x), Reduction::Sum);
            let error = sum().unwrap_err().to_string();
            assert!(error.contains("`all_reduce of x`") && error.contains("invalid usage"), "{error}");
            assert_eq!(rank.group.failure().unwrap().to_string(), error);
            assert!(matches!(sum(), Err(CollectiveError::Failed(_))));
            Ok(())
        });
        results.into_iter().for_each(Result::unwrap);
    });
}

/// All operations of a group of one rank, which keep its values, and the times of its sums by size.
fn alone(transport: &dyn Transport) -> Outcome<()> {
    let mut rank = Rank::new(transport)?;
    let x = rank.add("x", &[1.0, -2.5, 3.0])?;
    let (part, whole) = (rank.add("part", &[4.0, 5.0])?, rank.add("whole", &[0.0; 2])?);
    let (group, context) = (&rank.group, &rank.context);
    let one = std::slice::from_ref;
    for reduction in [Reduction::Sum, Reduction::Max] {
        group.all_reduce(context, one(&x), reduction)?;
        assert_eq!(rank.values(&x)?, [1.0, -2.5, 3.0]);
    }
    group.all_gather(context, &part, &whole)?;
    assert_eq!(rank.values(&whole)?, [4.0, 5.0]);
    group.reduce_scatter(context, &whole, &part, Reduction::Sum)?;
    assert_eq!(rank.values(&part)?, [4.0, 5.0]);
    group.broadcast(context, one(&x), 0)?;
    group.check_equal(context, &[x.clone(), part])?;
    group.barrier()?;
    assert_eq!(rank.values(&x)?, [1.0, -2.5, 3.0]);
    assert!(matches!(group.broadcast(context, one(&x), 1), Err(CollectiveError::Root { root: 1, size: 1 })));
    // The stand-in sums at the speed of an unoptimized loop.
    let most = if env::var_os(REAL).is_some() { 1 << 24 } else { 1 << 12 };
    for elements in [1 << 8, 1 << 12, 1 << 16, 1 << 20, 1 << 24].into_iter().filter(|size| *size <= most) {
        let node = rank.add(&format!("of{elements}"), &vec![1.0; elements])?;
        let mut times = Vec::new();
        for _ in 0..15 {
            let start = Instant::now();
            rank.group.all_reduce(&rank.context, one(&node), Reduction::Sum)?.sync()?;
            times.push(start.elapsed());
        }
        times.sort();
        println!("a sum of {} KiB over one rank: {:.1} us", elements >> 8, times[7].as_secs_f64() * 1e6);
    }
    assert!(rank.group.failure().is_none());
    Ok(())
}

#[test]
fn a_group_of_one_rank_keeps_its_values() {
    let run = || local::run(1, |transport| alone(&transport)).into_iter().for_each(Result::unwrap);
    match env::var_os(REAL) {
        Some(_) => run(),
        None => on_stand_in("devices=1", run),
    }
}
