//! Measures the speedup of splitting a kernel over two threads. Prints the microseconds that kernels which
//! only compute take on a device with one thread and on a device with two. The runs alternate between the
//! devices, so that other load affects both alike.
//!
//! `warm`: the kernels follow one another; `cold`: the device is idle for a millisecond before each. Prints
//! the median, and the tenth percentile, which is more reliable on a machine with other load.
#![allow(clippy::print_stdout, reason = "this program's purpose is to print")]

use std::{
    error::Error,
    slice::from_ref,
    sync::Arc,
    time::{Duration, Instant},
};

use codegen_core::{Access, Launch};
use codegen_testkit::runtime::hand_made;
use device_runtime::{Context, Device, LinkedRoutine};
use scheduler_multicore::{Cpu, CpuConfig};
use tnode::{DType, TensorNode};

const EXTENT: u64 = 64;
const ROUNDS: usize = 301;
const PAUSE: Duration = Duration::from_millis(1);

fn main() -> Result<(), Box<dyn Error>> {
    sigpipe::reset();
    println!(
        "{:<16} {:>20} {:>20} {:>14}",
        "kernel", "1 thread (tenth)", "2 threads (tenth)", "ratio (tenth)"
    );
    for (micros, steps) in [(20, 20), (50, 50), (100, 100), (300, 300)] {
        let steps = steps * calibrate();
        let devices = [1, 2].map(|threads| device(threads, steps));
        let [one, two] = devices;
        let routines = [one?, two?];
        report(&format!("{micros} us, warm"), &routines, || ())?;
        report(&format!("{micros} us, cold"), &routines, || std::thread::sleep(PAUSE))?;
    }
    Ok(())
}

/// The number of steps per iteration with which the whole kernel takes a microsecond.
fn calibrate() -> i64 {
    let steps = 200_000;
    let best = (0..20).map(|_| {
        let start = Instant::now();
        std::hint::black_box(compute(steps));
        start.elapsed()
    });
    let best = best.min().unwrap_or_default().as_secs_f64();
    (steps as f64 / (best * 1e6) / EXTENT as f64).max(1.0) as i64
}

fn compute(steps: i64) -> f64 {
    (0..steps).fold(1.0, |x, _| std::hint::black_box(x * 0.999_999 + 1e-6))
}

/// A kernel whose memory holds the number of steps per iteration.
unsafe extern "C" fn kernel(args: *const *mut u8, _: *const i64, _: *mut u8, begin: u64, end: u64) {
    // SAFETY: the only parameter is a node of one integer, which nobody writes.
    let steps = unsafe { *(*args).cast::<i64>() };
    for _ in begin..end {
        std::hint::black_box(compute(steps));
    }
}

fn device(threads: usize, steps: i64) -> Result<LinkedRoutine, Box<dyn Error>> {
    let device = Device::new(Arc::new(Cpu::multicore(CpuConfig { threads, ..CpuConfig::default() })), 0);
    let x = TensorNode::builder("steps").dims([1]).dtype(DType::I64).build()?;
    let context = Context::new(&device.new_stream()?);
    let context = context.init_from_host(&x, &tnode::HostArray::from_slice(&[steps], [1])?)?;
    let launch = Launch { extent: EXTENT, grain: 1, threads: 1, end: None };
    // SAFETY: the kernel reads its one parameter only.
    #[allow(unsafe_code, reason = "wraps a native function")]
    let code = unsafe { hand_made::native("compute", &[(&x, Access::Read)], launch, 0, kernel) };
    Ok(context.link(&code, from_ref(&x))?)
}

fn report(name: &str, routines: &[LinkedRoutine; 2], before: impl Fn()) -> Result<(), Box<dyn Error>> {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (routine, times) in routines.iter().zip(&mut times) {
            before();
            // The runs of the other device cooled this one down, so a warm measurement takes several runs.
            let runs = if name.ends_with("warm") { 3 } else { 1 };
            for _ in 0..runs {
                let start = Instant::now();
                routine.run(&[])?.sync()?;
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
        }
    }
    times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    let [one, two] = times.map(|times| (times[times.len() / 2], times[times.len() / 10]));
    let (median, tenth) = (one.0 / two.0, one.1 / two.1);
    println!(
        "{name:<16} {:>10.1} ({:>7.1}) {:>10.1} ({:>7.1}) {median:>6.2} ({tenth:>5.2})",
        one.0, one.1, two.0, two.1
    );
    Ok(())
}
