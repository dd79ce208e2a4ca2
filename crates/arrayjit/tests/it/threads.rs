//! Kernels large enough to be split give the same bits on any number of threads, and calls of several threads
//! do not disturb one another.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use arrayjit::{Backend, HostArray, MemoryMode, Settings, TensorNode};
use device_runtime::Host;

const TEXT: &str = "
c[m,n] :+= a[m,k] * b[k,n]
e[m,n]  := exp(c[m,n] * 0.01)
row[m] :+= e[m,n]
y[m,n]  := e[m,n] / row[m]
col[n] :+= y[m,n] * a[m,0]
";

/// The outputs of the program above, and whether any of its kernels may be split.
fn run(threads: usize) -> (Vec<f64>, bool) {
    let mut settings = Settings::default();
    settings.threads = threads;
    let backend = Backend::open_with("multicore", &settings).unwrap();
    let node = |name, dims: &[usize]| TensorNode::builder(name).dims(dims.iter().copied()).build().unwrap();
    let (a, b, c) = (node("a", &[203, 130]), node("b", &[130, 259]), node("c", &[203, 259]));
    let (e, row) = (node("e", &[203, 259]), node("row", &[203]));
    // The program reads `y` again, so without a requested mode the node would need no memory.
    let y = TensorNode::builder("y").dims([203, 259]).mode(MemoryMode::Materialized).build().unwrap();
    let col = node("col", &[259]);
    let compiled = backend.compile(TEXT, [&a, &b, &c, &e, &row, &y, &col]).unwrap();
    let mut kernels = compiled.codes().flat_map(|code| code.schedule().kernels());
    let is_split = kernels.any(|k| k.abi().launch.extent > k.abi().launch.grain);

    let mut rng = fastrand::Rng::with_seed(3);
    let mut context = backend.context().unwrap();
    for input in [&a, &b] {
        let values: Vec<f32> = (0..input.num_elems().unwrap()).map(|_| rng.f32() - 0.5).collect();
        let array = HostArray::from_slice(&values, input.dims().unwrap()).unwrap();
        context = context.init_from_host(input, &array).unwrap();
    }
    let routine = compiled.link(&context).unwrap();
    // Runs several times, because workers start and stop between runs.
    for _ in 0..20 {
        routine.run(&[]).unwrap();
    }
    let read = |node: &TensorNode| routine.context().to_host(node).unwrap().values();
    ([read(&y), read(&col)].concat(), is_split)
}

#[test]
fn split_kernels_give_the_same_bits_on_any_number_of_threads() {
    let (reference, _) = run(1);
    assert!(reference.iter().all(|v| v.is_finite()));
    for threads in [2, 3, 7] {
        let (found, is_split) = run(threads);
        assert!(is_split, "the program is too small to be split");
        assert_eq!(found, reference, "{threads} threads");
    }
}

const OVER_SIZES: &str = "
size b <= 6, n <= 300
input x f32[b, n, 64]
param w f32[64, 64] := normal(5) * 0.1
y[c,i,j] :+= x[c,i,k] * w[k,j]
p[c,i,j] := softmax(y[c,i,j])
z[c,i,j] :+= p[c,i,k] * w[j,k]
s[c,i,j] :+= z[c,i,k] * z[c,j,k]
keep z, s
";

#[test]
fn loops_over_sizes_are_split_and_give_the_same_bits() {
    let outputs = |backend: &str, threads| {
        let mut settings = Settings::default();
        settings.threads = threads;
        let backend = Backend::open_with(backend, &settings).unwrap();
        let mut program = backend.load(OVER_SIZES).unwrap();
        let kernels = program.code().codes().flat_map(|code| code.schedule().kernels());
        let launches: Vec<_> = kernels.map(|kernel| kernel.abi().launch).collect();
        let is_split = launches.iter().any(|launch| launch.end.is_some() && launch.extent > launch.grain);
        let run = |(b, n): (usize, usize)| {
            let mut rng = fastrand::Rng::with_seed(4);
            let values: Vec<f32> = (0..b * n * 64).map(|_| rng.f32() - 0.5).collect();
            program.set("x", HostArray::from_slice(&values, [b, n, 64]).unwrap()).unwrap();
            program.run_with(&[("b", b as i64), ("n", n as i64)]).unwrap();
            ["z", "s"].map(|name| program.get(name).unwrap().bytes().to_vec())
        };
        ([(1, 300), (1, 1), (6, 300), (5, 7), (6, 1)].map(run), is_split)
    };
    let (expected, _) = outputs("inline", 1);
    for threads in [2, 3, 7] {
        let (found, is_split) = outputs("multicore", threads);
        assert!(is_split, "no loop that ends at a size is split");
        assert!(found == expected, "{threads} threads");
    }
}

/// Calls a function on six threads at once with the number of the thread.
fn on_threads(call: impl Fn(usize) + Sync) {
    let call = &call;
    std::thread::scope(|scope| (0..6).for_each(|thread| drop(scope.spawn(move || call(thread)))));
}

fn nodes<const N: usize>(names: [&str; N], mode: MemoryMode) -> [TensorNode; N] {
    names.map(|name| TensorNode::builder(name).dims([1000]).mode(mode).build().unwrap())
}

fn filled(value: usize) -> HostArray {
    HostArray::from_slice(&[value as f32; 1000], [1000]).unwrap()
}

#[test]
fn routines_that_threads_link_in_contexts_of_their_own_are_apart() {
    for backend in ["multicore", "inline", "interpreter"] {
        let backend = Backend::open(backend).unwrap();
        let [x, y] = nodes(["x", "y"], MemoryMode::Materialized);
        let double = backend.compile("y[i] := 2 * x[i]", [&x, &y]).unwrap();
        on_threads(|thread| {
            for round in 0..5 {
                let value = |number: usize| thread * 1000 + round * 100 + number;
                let context = backend.context().unwrap().init_from_host(&x, filled(value(0))).unwrap();
                let routine = double.link(&context).unwrap();
                for number in 0..10 {
                    let _ = context.from_host(&x, filled(value(number))).unwrap();
                    routine.run(&[]).unwrap();
                    let found = routine.context().to_host(&y).unwrap().values();
                    assert_eq!(found, vec![2.0 * value(number) as f64; 1000]);
                }
            }
        });
    }
}

#[test]
fn runs_of_one_routine_are_whole() {
    for backend in ["multicore", "inline"] {
        let backend = Backend::open(backend).unwrap();
        let [x, y] = nodes(["x", "y"], MemoryMode::Materialized);
        let step = backend.compile("x[i] += 1; y[i] := 2 * x[i]", [&x, &y]).unwrap();
        let context = backend.context().unwrap().init_from_host(&x, filled(0)).unwrap();
        let first = step.link(&context).unwrap();
        // Each thread has a stream, and all have the memory of one context.
        on_threads(|thread| {
            let stream = backend.new_stream().unwrap();
            let own = first.context().on_stream(&stream).unwrap();
            let step = if thread == 0 { first.clone() } else { step.link(&own).unwrap() };
            for _ in 0..50 {
                step.run(&[]).unwrap();
                let y = step.context().to_host(&y).unwrap().values();
                assert_eq!(y, vec![y[0]; 1000], "a half of a run");
            }
        });
        assert_eq!(first.context().to_host(&x).unwrap().values(), vec![300.0; 1000]);
        assert_eq!(first.context().to_host(&y).unwrap().values(), vec![600.0; 1000]);
    }
}

#[test]
fn values_that_are_being_copied_are_those_of_their_place() {
    for backend in ["multicore", "inline"] {
        let backend = Backend::open(backend).unwrap();
        let [x] = nodes(["x"], MemoryMode::Materialized);
        let step = backend.compile("x[i] += 1", [&x]).unwrap();
        let step = step.link(&backend.context().unwrap().init_from_host(&x, filled(0)).unwrap()).unwrap();
        let copies: Vec<_> = (0..20)
            .map(|_| {
                step.run(&[]).unwrap();
                step.context().start_to_host(&x).unwrap()
            })
            .collect();
        for (number, copy) in copies.into_iter().enumerate().rev() {
            copy.sync().unwrap();
            assert_eq!(copy.into_array().unwrap().values(), vec![(number + 1) as f64; 1000]);
        }
    }
}

#[test]
fn threads_share_a_host() {
    for backend in ["multicore", "inline"] {
        let backend = Backend::open(backend).unwrap();
        let host = Host::default();
        let mode = MemoryMode::Hosted(tnode::Hosted::Unset);
        let [total, doubled] = nodes(["total", "doubled"], mode);
        [&total, &doubled].into_iter().for_each(|node| host.insert(node, filled(0)).unwrap());
        let double = backend.compile("doubled[i] := 2 * total[i]", [&total, &doubled]).unwrap();
        let double = double.link(&host.attach(&backend.context().unwrap())).unwrap();
        on_threads(|thread| {
            let [x, y] = nodes(["x", "y"], mode);
            [&x, &y].into_iter().for_each(|node| host.insert(node, filled(0)).unwrap());
            let triple = backend.compile("y[i] := 3 * x[i]", [&x, &y]).unwrap();
            let triple = triple.link(&host.attach(&backend.context().unwrap())).unwrap();
            for number in 0..20 {
                let value = (thread * 100 + number) as f64;
                host.set_values(&x, &[value; 1000]).unwrap();
                triple.run(&[]).unwrap();
                assert_eq!(host.values(&y).unwrap(), vec![3.0 * value; 1000]);
                let add = |array: &mut HostArray| {
                    let values: Vec<f64> = array.values().iter().map(|value| value + 1.0).collect();
                    array.set_values(&values)
                };
                host.update(&total, add).unwrap();
                double.run(&[]).unwrap();
                let doubled = host.values(&doubled).unwrap();
                assert_eq!(doubled, vec![doubled[0]; 1000], "a half of an update");
                assert!(doubled[0] >= 2.0 * (number + 1) as f64, "an update was lost: {}", doubled[0]);
            }
        });
        assert_eq!(host.values(&total).unwrap(), vec![120.0; 1000]);
    }
}
