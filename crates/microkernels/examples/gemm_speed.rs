//! Prints the percentage of the measured peak that plans reach on one core and on two cores with each
//! instruction set, and that the `gemm` crate reaches on one core. The peak is that of the widest vectors.
//!
//! `cargo run --release -p microkernels --example gemm_speed [--two] [NAME…]`. Each round times the peak, the
//! plan and the `gemm` crate one after the other, because the clock frequency changes. The columns show
//! medians of ratios, and best times. One thread is timed by its processor time, which other load disturbs
//! little; two threads, with `--two`, need an otherwise idle machine.

#![allow(clippy::print_stdout, reason = "a program that prints")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use microkernels::{
    ACCUMULATORS, AxisOffsets, COLUMN, CpuTarget, EPILOGUE_LANES, GemmOperand, GemmPlan, GemmProblem,
    OperandBound, ParallelAxis, ROW, batch_index,
};
use vector_asm::{
    Isa, LaneType, StoredType, Value, VectorAddress, VectorBuilder, VectorOp, VectorProgram, VectorStmt,
    VectorType,
};

fn main() {
    sigpipe::reset();
    let available: Vec<Isa> = Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect();
    if available.is_empty() {
        return println!("this machine has no AVX2");
    }
    let (options, wanted): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|arg| arg == "--two");
    println!(
        "{:<24}{:>7}{:>10}{:>8}{:>8}{:>8}{:>8}{:>9}",
        "", "", "best us", "GF/s", "% 1", "best %", "gemm %", "% 2"
    );
    for mut case in cases() {
        if wanted.is_empty() || wanted.iter().any(|name| case.name.contains(name.as_str())) {
            for &isa in &available {
                case.measure(isa, !options.is_empty());
            }
        }
    }
}

/// A problem with its memory.
struct Case {
    name: &'static str,
    problem: GemmProblem,
    args: Vec<Vec<f32>>,
    /// M, N, K, and whether B is transposed; `None` if the `gemm` crate does not compute the problem.
    peer: Option<(usize, usize, usize, bool)>,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let names = [
        "matmul_16",
        "matmul_32",
        "matmul_64",
        "matmul_128",
        "matmul_256",
        "matmul_512",
        "matmul_1024",
        "matmul_2048",
    ];
    for (name, n) in names.into_iter().zip([16, 32, 64, 128, 256, 512, 1024, 2048]) {
        cases.push(matmul(name, 1, [n, n, n], false));
    }
    cases.push(matmul("tall_4096x64x64", 1, [4096, 64, 64], false));
    cases.push(matmul("nt_512", 1, [512, 512, 512], true));
    cases.push(matmul("bmm_256x32x32x32", 256, [32, 32, 32], false));
    cases.push(matmul("short_64x4096x512", 1, [64, 4096, 512], false));
    cases.push(matmul("narrow_128x10x256", 1, [128, 10, 256], false));
    cases.push(matmul("dense_256x784x512", 1, [256, 512, 784], false));
    cases.push(relu("dense_relu_256x784x512", 1, [256, 512, 784], false));
    cases.push(relu("relu_nt_8x256x256x64", 8, [256, 256, 64], true));
    cases.push(relu("relu_512x512x8", 1, [512, 512, 8], false));
    cases.push(relu("relu_512x512x32", 1, [512, 512, 32], false));
    cases.push(relu("relu_64x64x64", 1, [64, 64, 64], false));
    cases.push(relu("relu_bmm_256x32x32x32", 256, [32, 32, 32], false));
    cases.push(matmul("deep_64_2048x2048x64", 1, [2048, 2048, 64], false));
    cases.push(convolution("conv3x3_8x64x28x28", 8, 64, 28));
    cases.push(matmul("step_32x256x1024", 1, [32, 256, 1024], false));
    cases.push(matmul("step_nt_32x1024x256", 1, [32, 1024, 256], true));
    cases.push(transposed_a("tn_1024x256x2048", [1024, 256, 2048]));
    cases.push(transposed_a("tn_1024x256x32", [1024, 256, 32]));
    cases.push(transposed_a("tn_300x200x500", [300, 200, 500]));
    cases.push(by_pixels("by_pixels_32x16x16x32", 32, [16, 16], 32));
    cases.push(by_pixels("by_pixels_32x32x32x16", 32, [32, 32], 16));
    cases.push(by_pixels("by_pixels_32x64x64x8", 32, [64, 64], 8));
    cases.push(filter_gradient("filter_gradient_32x16x32", 32, 16, 32));
    cases.push(filter_gradient("filter_gradient_32x64x8", 32, 64, 8));
    cases
}

fn matmul(name: &'static str, batch: u64, [m, n, k]: [u64; 3], transposed: bool) -> Case {
    let terms = |elements: u64| vec![(batch_index(0), elements as i64 * 4)];
    let operand = |base, elements, outer, k| GemmOperand {
        base,
        memory: StoredType::Same,
        offset: 0,
        terms: terms(elements),
        outer: AxisOffsets::Strided(outer as i64 * 4),
        k: AxisOffsets::Strided(k as i64 * 4),
        bounds: Vec::new(),
        outside: 0,
        zero: 0,
    };
    let b = if transposed { operand(1, k * n, k, 1) } else { operand(1, k * n, 1, n) };
    let problem = GemmProblem {
        element: LaneType::F32,
        batch: vec![batch],
        m,
        n,
        k,
        dynamic: Vec::new(),
        a: operand(0, m * k, k, 1),
        b,
        initial: None,
        epilogue: store(terms(m * n), n),
        parallel: if batch > 1 {
            ParallelAxis::Batch
        } else if m >= n {
            ParallelAxis::Rows
        } else {
            ParallelAxis::Columns
        },
    };
    let args = [m * k, k * n, m * n].map(|elements| numbers((batch * elements) as usize)).to_vec();
    let peer = (batch == 1).then_some((m as usize, n as usize, k as usize, transposed));
    Case { name, problem, args, peer }
}

/// The gradient of a weight: the rows of A are contiguous.
fn transposed_a(name: &'static str, [m, n, k]: [u64; 3]) -> Case {
    let mut case = matmul(name, 1, [m, n, k], false);
    case.problem.a.outer = AxisOffsets::Strided(4);
    case.problem.a.k = AxisOffsets::Strided(m as i64 * 4);
    case.peer = None;
    case
}

/// A convolution with as many filters as channels, 3 × 3 taps, and same padding; images are row-major by
/// batch and channel.
fn convolution(name: &'static str, images: u64, channels: u64, size: u64) -> Case {
    let (pixels, taps) = (size * size, 9);
    let (c, s) = (channels as i64, size as i64);
    let table = |count: u64, of: &dyn Fn(i64) -> i64| -> Arc<[i64]> { (0..count as i64).map(of).collect() };
    let k = channels * taps;
    let b = GemmOperand {
        base: 1,
        memory: StoredType::Same,
        offset: 0,
        terms: vec![(batch_index(0), c * s * s * 4)],
        outer: AxisOffsets::Table(table(pixels, &|p| p * 4)),
        k: AxisOffsets::Table(table(k, &|k| (k / 9 * s * s + (k % 9 / 3 - 1) * s + k % 3 - 1) * 4)),
        bounds: vec![
            OperandBound { outer: table(pixels, &|p| p / s), k: table(k, &|k| k % 9 / 3 - 1), limit: s },
            OperandBound { outer: table(pixels, &|p| p % s), k: table(k, &|k| k % 3 - 1), limit: s },
        ],
        outside: 0,
        zero: 0,
    };
    let mut case = matmul(name, images, [channels, pixels, k], false);
    case.problem.a.terms = Vec::new();
    case.problem.b = b;
    case
}

/// A convolution with 3 × 3 taps of images with a margin: rows are pixels of all images, and columns are
/// filters.
fn by_pixels(name: &'static str, images: u64, [channels, filters]: [u64; 2], size: u64) -> Case {
    let k = channels * 9;
    let mut case = matmul(name, 1, [images * size * size, filters, k], false);
    (case.problem.a.outer, case.problem.a.k) = padded_images(images, channels, size);
    case.args[0] = numbers((images * channels * (size + 2) * (size + 2)) as usize);
    case.peer = None;
    case
}

/// The gradient of a convolution by its filters: K stands for the pixels of all images, which have a margin,
/// and N for the channels and taps.
fn filter_gradient(name: &'static str, images: u64, channels: u64, size: u64) -> Case {
    let pixels = size * size;
    let mut case = matmul(name, 1, [channels, channels * 9, images * pixels], false);
    let pixel = |k: u64| (k / pixels * channels * pixels + k % pixels) as i64 * 4;
    case.problem.a.outer = AxisOffsets::Strided(pixels as i64 * 4);
    case.problem.a.k = AxisOffsets::Table((0..images * pixels).map(pixel).collect());
    (case.problem.b.k, case.problem.b.outer) = padded_images(images, channels, size);
    case.args[1] = numbers((images * channels * (size + 2) * (size + 2)) as usize);
    case.peer = None;
    case
}

/// The offsets of pixels, and of channels and taps, in images with a margin of one pixel.
fn padded_images(images: u64, channels: u64, size: u64) -> (AxisOffsets, AxisOffsets) {
    let (row, image) = (size + 2, (size + 2) * (size + 2));
    let pixel = |p: u64| p / (size * size) * channels * image + p / size % size * row + p % size;
    let tap = |k: u64| k / 9 * image + k % 9 / 3 * row + k % 3;
    let table = |count: u64, of: &dyn Fn(u64) -> u64| (0..count).map(|at| of(at) as i64 * 4).collect();
    (AxisOffsets::Table(table(images * size * size, &pixel)), AxisOffsets::Table(table(channels * 9, &tap)))
}

/// `relu(x·w + b)`.
fn relu(name: &'static str, batch: u64, [m, n, k]: [u64; 3], transposed: bool) -> Case {
    let mut case = matmul(name, batch, [m, n, k], transposed);
    case.args.push(numbers(n as usize));
    let mut builder = VectorBuilder::new();
    let sums = VectorType::new(LaneType::F32, EPILOGUE_LANES);
    let sum = builder.variable(sums);
    let value = builder.get(sum);
    let bias = builder.load(VectorAddress::at(3, LaneType::F32).by(COLUMN, 4), sums);
    let value = builder.add(value, bias);
    let zero = builder.f32(0.0);
    let value = builder.max(value, zero);
    let output = VectorAddress::at(2, LaneType::F32).by(batch_index(0), (m * n * 4) as i64);
    builder.store(output.by(ROW, n as i64 * 4).by(COLUMN, 4), value);
    case.problem.epilogue = builder.finish();
    case.peer = None;
    case
}

fn store(mut terms: Vec<(vector_asm::Index, i64)>, columns: u64) -> VectorProgram {
    terms.extend([(ROW, columns as i64 * 4), (COLUMN, 4)]);
    let sums = VectorType { element: LaneType::F32, lanes: EPILOGUE_LANES };
    let place = VectorAddress { base: Some(2), offset: 0, terms, step: 4, memory: StoredType::Same };
    VectorProgram {
        values: vec![sums],
        variables: vec![sums],
        counters: 0,
        body: vec![
            VectorStmt::Let { value: Value(0), op: VectorOp::Get { variable: ACCUMULATORS, start: 0 } },
            VectorStmt::Store { place, value: Value(0), streaming: false },
        ],
    }
}

impl Case {
    fn measure(&mut self, isa: Isa, two: bool) {
        let cpu = CpuTarget { isa: Some(isa), ..CpuTarget::detect() };
        let plan = GemmPlan::new(&self.problem, &cpu).expect("a product of floats has a plan");
        let batch: u64 = self.problem.batch.iter().product();
        let flops = 2.0 * (batch * self.problem.m * self.problem.n * self.problem.k) as f64;
        let addresses: Vec<usize> = self.args.iter_mut().map(|arg| aligned(arg) as usize).collect();
        let calls = ((1e8 / flops) as usize).clamp(1, 20000);
        let rounds = if flops > 1e9 { 9 } else { 25 };
        let mut one = PartRunner::new(&plan, &addresses);
        let mut times = (Vec::new(), Vec::new(), Vec::new(), f64::MAX);
        let extent = plan.extent();
        let partner = two.then(|| Partner::start(&plan, &addresses));
        for _ in 0..rounds {
            let peak = peak();
            let took = time(calls, || one.run(0, extent));
            times.0.push(flops / took / peak);
            times.3 = took.min(times.3);
            if let Some(peer) = self.peer {
                times.1.push(flops / time(calls, || gemm_crate(&addresses, peer)) / peak);
            }
            let half = (extent / 2 + plan.grain() / 2) / plan.grain() * plan.grain();
            if let Some(partner) = partner.as_ref().filter(|_| half > 0 && half < extent) {
                let took = time_of(wall, calls, || {
                    partner.go(half, extent);
                    one.run(0, half);
                    partner.wait();
                });
                times.2.push(flops / took / peak / 2.0);
            }
        }
        let best = times.0.iter().copied().fold(0.0, f64::max);
        println!(
            "{:<24}{:>7}{:>10.2}{:>8.1}{:>8.1}{:>8.1}{:>8.1}{:>9.1}",
            self.name,
            format!("{isa:?}"),
            times.3 * 1e6,
            flops / times.3 / 1e9,
            median(times.0) * 100.0,
            best * 100.0,
            median(times.1) * 100.0,
            median(times.2) * 100.0
        );
    }
}

/// A plan with addresses, and scratch memory for one thread.
struct PartRunner {
    plan: *const GemmPlan,
    addresses: Vec<usize>,
    scratch: Vec<f32>,
}

impl PartRunner {
    fn new(plan: &GemmPlan, addresses: &[usize]) -> PartRunner {
        PartRunner { plan, addresses: addresses.to_vec(), scratch: vec![0.0; plan.scratch_bytes() / 4 + 32] }
    }

    fn run(&mut self, begin: u64, end: u64) {
        let scratch = aligned(&mut self.scratch).cast();
        // SAFETY: the plan and the arguments outlive the measurement, and the two threads run different
        // parts.
        unsafe { (*self.plan).run(self.addresses.as_ptr().cast(), std::ptr::null(), scratch, begin, end) };
    }
}

/// A second thread that spins until it gets a part.
struct Partner {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    begin: AtomicU64,
    end: AtomicU64,
    ready: AtomicBool,
    done: AtomicBool,
}

impl Partner {
    fn start(plan: &GemmPlan, addresses: &[usize]) -> Partner {
        let shared = Arc::new(Shared::default());
        let (theirs, mine) = (shared.clone(), PartRunner::new(plan, addresses));
        let (plan, addresses, scratch) = (mine.plan as usize, mine.addresses, mine.scratch);
        let thread = std::thread::spawn(move || {
            let mut part = PartRunner { plan: plan as *const GemmPlan, addresses, scratch };
            while !theirs.done.load(Ordering::Relaxed) {
                if theirs.ready.load(Ordering::Acquire) {
                    part.run(theirs.begin.load(Ordering::Relaxed), theirs.end.load(Ordering::Relaxed));
                    theirs.ready.store(false, Ordering::Release);
                    theirs.begin.store(u64::MAX, Ordering::Relaxed);
                } else if theirs.begin.load(Ordering::Relaxed) == u64::MAX {
                    std::hint::spin_loop();
                } else {
                    std::thread::yield_now();
                }
            }
        });
        Partner { shared, thread: Some(thread) }
    }

    fn go(&self, begin: u64, end: u64) {
        self.shared.begin.store(begin, Ordering::Relaxed);
        self.shared.end.store(end, Ordering::Relaxed);
        self.shared.ready.store(true, Ordering::Release);
    }

    fn wait(&self) {
        while self.shared.ready.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.shared.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the partner does not panic");
        }
    }
}

fn gemm_crate(addresses: &[usize], (m, n, k, transposed): (usize, usize, usize, bool)) {
    let (rows, columns) = if transposed { (1, k as isize) } else { (n as isize, 1) };
    // SAFETY: the addresses are those of A, B and the output.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            addresses[2] as *mut f32,
            1,
            n as isize,
            false,
            addresses[0] as *const f32,
            1,
            k as isize,
            addresses[1] as *const f32,
            columns,
            rows,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// Seconds of processor time per call.
fn time(calls: usize, call: impl FnMut()) -> f64 {
    time_of(processor, calls, call)
}

fn time_of(clock: fn() -> f64, calls: usize, mut call: impl FnMut()) -> f64 {
    call();
    let start = clock();
    (0..calls).for_each(|_| call());
    (clock() - start) / calls as f64
}

/// Processor time of this thread in seconds.
fn processor() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists, and the time may be written.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Seconds since the first call.
fn wall() -> f64 {
    static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_secs_f64()
}

/// FLOP/s of one core: fused multiply-adds on independent accumulators.
#[cfg(not(target_arch = "x86_64"))]
fn peak() -> f64 {
    let times = std::hint::black_box(100_000);
    let best = (0..5)
        .map(|_| {
            let start = processor();
            let (operand, mut sums) = (std::hint::black_box(0.999), [1.0_f32; 96]);
            for _ in 0..times {
                sums.iter_mut().for_each(|sum| *sum = sum.mul_add(operand, operand));
            }
            std::hint::black_box(sums);
            processor() - start
        })
        .fold(f64::MAX, f64::min);
    (times * 96 * 2) as f64 / best
}

/// FLOP/s of one core: fused multiply-adds on twelve independent accumulators of the widest vectors.
#[cfg(target_arch = "x86_64")]
fn peak() -> f64 {
    use std::arch::x86_64::*;
    #[target_feature(enable = "avx2,fma")]
    fn sums(times: usize) -> f32 {
        let operand = _mm256_set1_ps(std::hint::black_box(0.999));
        let mut sums = [_mm256_set1_ps(1.0); 12];
        for _ in 0..times {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, operand, operand);
            }
        }
        sums.iter().fold(0.0, |total, &sum| total + _mm256_cvtss_f32(sum))
    }
    #[target_feature(enable = "avx512f")]
    fn wide_sums(times: usize) -> f32 {
        let operand = _mm512_set1_ps(std::hint::black_box(0.999));
        let mut sums = [_mm512_set1_ps(1.0); 12];
        for _ in 0..times {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, operand, operand);
            }
        }
        sums.iter().fold(0.0, |total, &sum| total + _mm512_cvtss_f32(sum))
    }
    let times = 100_000;
    let is_wide = Isa::Avx512.is_available();
    let best = (0..5)
        .map(|_| {
            let start = processor();
            let times = std::hint::black_box(times);
            // SAFETY: `main` returns early on a machine without AVX2, and the other function runs on one with
            // AVX-512.
            std::hint::black_box(unsafe { if is_wide { wide_sums(times) } else { sums(times) } });
            processor() - start
        })
        .fold(f64::MAX, f64::min);
    (times * 12 * if is_wide { 32 } else { 16 }) as f64 / best
}

fn numbers(count: usize) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(1);
    (0..count + 32).map(|_| random.f32() - 0.5).collect()
}

/// The first address aligned to 64 bytes.
fn aligned(values: &mut [f32]) -> *mut f32 {
    let skip = values.as_ptr().align_offset(64);
    values[skip..].as_mut_ptr()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
