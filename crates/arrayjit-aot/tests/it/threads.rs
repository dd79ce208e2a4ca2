//! Kernels of entries are divided over threads, and the bits are those of one thread.
#![allow(unsafe_code, reason = "entries of objects are called here")]

use std::sync::atomic::{AtomicUsize, Ordering};

use arrayjit_aot::{Library, LibraryRoutine};
use arrayjit_rt::{Arena, CallError, RunMemory, RunOnThreads, ThreadedArena, on_threads};
use object_loader::{LoadedObject, levels};

use crate::programs::{CalledEntry, TRIPLE, reference_of_text, symbol};

/// Programs with work for several threads, and the values of their parameters.
const PROGRAMS: &[(&str, &str, &[i64])] = &[
    ("elementwise", "input x f32[300, 400]; y[i,j] := tanh(x[i,j]) * 2 + exp(x[i,j]); keep y", &[]),
    ("sums", "input x f32[1600, 800]; s[i] :+= x[i,j] * x[i,j]; m :max= s[i]; keep s, m", &[]),
    ("product", "input a f32[301, 203], b f32[203, 259]; c[i,j] :+= a[i,k] * b[k,j]; keep c", &[]),
    ("narrow", "input a f16[256, 240], b bf16[240, 128]; c[i,j] :+= a[i,k] * b[k,j]; keep c", &[]),
    (
        "dense",
        "input x f32[240, 170], w f32[250, 170], b f32[250]
         y[i,o] :+= x[i,k] * w[o,k]
         z[i,o] := max(y[i,o] + b[o], 0)
         s[i] :+= z[i,o]
         keep z, s",
        &[],
    ),
    (
        "convolution",
        "input x f32[2, 16, 34, 34], w f32[24, 16, 3, 3]
         y[n,o,i,j] :+= x[n,c,i+p,j+q] * w[o,c,p,q]
         keep y",
        &[],
    ),
    ("bytes", "input a u8[220, 240], b i8[240, 224]; c[i,j] :+= i32(a[i,k]) * i32(b[k,j]); keep c", &[]),
    (
        "rows",
        "size n <= 4000; input x f32[n, 80], w f32[80, 64]; y[i,o] :+= x[i,k] * w[k,o]; keep y",
        &[3391],
    ),
];

/// Memory that suffices for all programs.
const BYTES: usize = 8 << 20;
type Memory = Arena<BYTES>;

/// Runs an entry, whose arrays have values, with this memory.
fn run<const THREAD: usize>(
    called: &mut CalledEntry<'_>,
    entry: arrayjit_rt::Entry,
    bindings: &[i64],
    memory: &mut impl RunMemory<BYTES, THREAD>,
) -> Result<(), CallError> {
    // SAFETY: the arrays have the sizes of the routine, the memory is larger than it needs, and the processor
    // has the level of the entry.
    unsafe { arrayjit_rt::run("f", &["n"], entry, &called.args(), bindings, memory) }
}

fn boxed() -> Box<Memory> {
    // SAFETY: an arena is bytes of any value.
    unsafe { Box::new_uninit().assume_init() }
}

/// Ways to call a task, each with the number of threads.
fn ways<'t>(pool: &'t RunOnThreads<'t>) -> Vec<(&'static str, usize, Box<RunOnThreads<'t>>)> {
    let others = |count: usize, task: &(dyn Fn() + Sync)| {
        std::thread::scope(|scope| (0..count).for_each(|_| _ = scope.spawn(task)));
    };
    vec![
        ("on a pool", 4, Box::new(pool)),
        ("on other threads alone", 3, Box::new(others)),
        ("not at all", 3, Box::new(|_, _| {})),
        ("too often", 2, Box::new(|_, task| (0..9).for_each(|_| task()))),
        ("on more threads", 2, Box::new(move |_, task| others(7, task))),
    ]
}

/// Checks all ways, and returns how often threads were asked to run a task.
fn check(
    object: &LoadedObject,
    entry: &str,
    routine: &LibraryRoutine,
    text: &str,
    bindings: &[i64],
) -> usize {
    let expected = reference_of_text(text, routine, bindings);
    assert!(routine.arena_bytes() <= BYTES && routine.thread_bytes() <= BYTES);
    let tasks = AtomicUsize::new(0);
    on_threads(4, |pool| {
        for (name, threads, way) in ways(pool) {
            let mut called = CalledEntry::new(object, entry, routine);
            let mut scratch: Box<[Memory]> = boxes(threads - 1);
            let run_counted = |count: usize, task: &(dyn Fn() + Sync)| {
                assert!((2..=threads).contains(&count), "{count} threads");
                tasks.fetch_add(1, Ordering::Relaxed);
                way(count, task);
            };
            let mut memory = ThreadedArena { arena: &mut boxed(), scratch: &mut scratch, run: &run_counted };
            run(&mut called, object.entry(entry), bindings, &mut memory).expect("in range");
            for ((array, expected), found) in
                routine.arrays().iter().zip(&expected).zip(&called.bytes(routine))
            {
                assert!(expected.bytes() == found, "{entry} {name}: `{}` differs", array.node);
            }
        }
    });
    tasks.into_inner()
}

fn boxes(count: usize) -> Box<[Memory]> {
    // SAFETY: as above.
    unsafe { Box::new_uninit_slice(count).assume_init() }
}

#[test]
fn threads_do_not_change_bits() {
    for level in levels() {
        let library = || Library::with_levels("all", TRIPLE, &[level]).expect("a target");
        for mut library in [library(), library().with_products()] {
            for (name, text, _) in PROGRAMS {
                library.add_text(name, text, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            let object = LoadedObject::new(&library.object().expect("a small object"));
            for (routine, (name, text, bindings)) in library.routines().iter().zip(PROGRAMS) {
                let tasks = check(&object, &symbol("all", name, level), routine, text, bindings);
                assert!(tasks >= 5, "{name} at {level}: {tasks} tasks");
            }
        }
    }
}

#[test]
fn small_kernels_are_not_divided() {
    let mut library = Library::with_levels("all", TRIPLE, &levels()[..1]).expect("a target");
    let text = "input x f32[7, 9]; y[i,j] := x[i,j] * 2; keep y";
    library.add_text("f", text, &[]).expect("a valid text");
    let routine = &library.routines()[0];
    assert_eq!(routine.thread_bytes(), 0);
    let object = LoadedObject::new(&library.object().expect("a small object"));
    assert_eq!(check(&object, &symbol("all", "f", levels()[0]), routine, text, &[]), 0);
}

/// `cargo test --release -p arrayjit-aot --test it -- --ignored --nocapture times_of_threads`
#[test]
#[ignore = "it measures"]
fn times_of_threads() {
    let text = "input x f32[256, 1024], u f32[1024, 1024], v f32[1024, 1024]
                g[b,i] :+= x[b,k] * u[k,i]
                r[b,i] := max(g[b,i], 0)
                h[b,i] :+= r[b,k] * v[k,i]
                y[b,i] := tanh(h[b,i])
                keep y";
    let level = *levels().last().expect("a level");
    let mut library = Library::with_levels("all", TRIPLE, &[level]).expect("a target").with_products();
    library.add_text("f", text, &[]).expect("a valid text");
    let routine = &library.routines()[0];
    let object = LoadedObject::new(&library.object().expect("a small object"));
    let name = symbol("all", "f", level);
    let mut times = [const { Vec::new() }; 2];
    on_threads(2, |pool| {
        let mut called = CalledEntry::new(&object, &name, routine);
        let (mut arena, mut scratch) = (boxed(), boxes(1));
        for round in 0..60 {
            let start = std::time::Instant::now();
            let done = match round % 2 {
                0 => run::<0>(&mut called, object.entry(&name), &[], &mut *arena),
                _ => {
                    let memory = &mut ThreadedArena { arena: &mut *arena, scratch: &mut scratch, run: pool };
                    run(&mut called, object.entry(&name), &[], memory)
                }
            };
            done.expect("no parameters");
            times[round % 2].push(start.elapsed().as_secs_f64() * 1e3);
        }
    });
    let [one, two] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 4]
    });
    println!(
        "two dense layers of 1024 at {level}: {one:.2} ms, on two threads {two:.2} ms ({:.2})",
        one / two
    );
}
