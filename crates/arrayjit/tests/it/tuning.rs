//! The setting `tune`: choices keep every bit, the file decides, and faults of the file are errors.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use arrayjit::{Backend, Context, DType, HostArray, Settings, TensorNode};
use codegen_core::{Code, KernelChoice, ScheduledRoutine};

/// A text with the dimensions of its inputs and of its output, which comes last.
struct Program {
    text: &'static str,
    nodes: Vec<(&'static str, Vec<usize>)>,
}

/// Programs of random sizes: matmuls in several layouts with and without epilogues, a convolution with zero
/// padding, elementwise statements and an attention.
fn programs(random: &mut fastrand::Rng) -> Vec<Program> {
    let mut size = || random.usize(13..70);
    let (m, n, k) = (size(), size(), size());
    let (h, w) = (12 + n % 8, 12 + m % 8);
    vec![
        Program {
            text: "c[i,j] :+= a[i,k] * b[k,j]",
            nodes: vec![("a", vec![m, k]), ("b", vec![k, n]), ("c", vec![m, n])],
        },
        Program {
            text: "h[i,j] :+= a[k,i] * b[j,k]; c[i,j] := relu(h[i,j] + v[j])",
            nodes: vec![("a", vec![k, m]), ("b", vec![n, k]), ("v", vec![n]), ("c", vec![m, n])],
        },
        Program {
            text: "c[p,i,j] :+= a[p,i,k] * b[p,k,j]; d[p,i] :+= c[p,i,j]",
            nodes: vec![("a", vec![3, m, k]), ("b", vec![3, k, n]), ("d", vec![3, m])],
        },
        Program {
            text: "y[b,o,i,j] :+= pad(x, 0)[b, c, i + u - 1, j + v - 1] * w[o,c,u,v]",
            nodes: vec![("x", vec![2, 3, h, w]), ("w", vec![8, 3, 3, 3]), ("y", vec![2, 8, h, w])],
        },
        Program {
            text: "y[i,j] := exp(a[i,j]) * 0.5; z[i,j] := a[i,j] + y[i,j]",
            nodes: vec![("a", vec![m, k]), ("z", vec![m, k])],
        },
        Program {
            text: "s[i,j] :+= q[i,e] * k[j,e]; p[i,j] := exp(s[i,j] * 0.1); y[i,e] :+= p[i,j] * v[j,e]",
            nodes: vec![("q", vec![m, k]), ("k", vec![n, k]), ("v", vec![n, k]), ("y", vec![m, k])],
        },
    ]
}

fn settings(tune: Option<&Path>) -> Settings {
    let mut settings = Settings::default();
    settings.tuning.file = tune.map_or(String::new(), |path| path.to_str().expect("UTF-8").to_owned());
    settings
}

fn backend(settings: Settings) -> Backend {
    Backend::open_with("inline", &settings).expect("it opens")
}

/// The nodes of a program, and a context with its inputs.
fn inputs(backend: &Backend, program: &Program) -> (Vec<TensorNode>, Context) {
    let mut context = backend.context().expect("a stream");
    let mut nodes = Vec::new();
    for (at, (name, dims)) in program.nodes.iter().enumerate() {
        let builder = TensorNode::builder(*name).dims(dims.iter().copied()).dtype(DType::F32);
        let node = builder.build().expect("a small node");
        if at + 1 < program.nodes.len() {
            let mut random = fastrand::Rng::with_seed(at as u64 + 1);
            let count = dims.iter().product();
            let values: Vec<f32> = (0..count).map(|_| random.f32() * 2.0 - 1.0).collect();
            let array = HostArray::from_slice(&values, dims.iter().copied()).expect("as many values");
            context = context.init_from_host(&node, &array).expect("memory");
        }
        nodes.push(node);
    }
    (nodes, context)
}

/// The bytes of the output of code.
fn run(context: &Context, code: &Arc<Code>, nodes: &[TensorNode], output: &TensorNode) -> Vec<u8> {
    let routine = context.link(code, nodes).expect("it links");
    routine.run(&[]).expect("it runs").sync().expect("it ends");
    routine.context().to_host(output).expect("a result").bytes().to_vec()
}

/// Choices that a search reaches from the heuristics of a kernel, at most `most`.
fn reachable(backend: &Backend, schedule: &ScheduledRoutine, at: usize, most: usize) -> Vec<KernelChoice> {
    let kernel = &schedule.kernels()[at];
    let (mut found, mut next) = (BTreeSet::new(), vec![None]);
    while let Some(choice) = next.pop() {
        let near = backend.codegen().alternatives(&kernel.clone().with_choice(choice));
        for choice in near.expect("choices that a search reaches fit") {
            if found.len() < most && found.insert(choice.clone()) {
                next.insert(0, Some(choice));
            }
        }
    }
    found.into_iter().collect()
}

#[test]
fn every_choice_gives_the_same_bits() {
    let backend = backend(settings(None));
    let (mut blocks, mut all_choices) = (0, 0);
    for seed in 0..4 {
        for program in programs(&mut fastrand::Rng::with_seed(seed)) {
            let (nodes, context) = inputs(&backend, &program);
            let compiled = backend.compile(program.text, &nodes).expect("a valid text");
            let code = compiled.codes().next().expect("code");
            let output = &nodes[nodes.len() - 1];
            let expected = run(&context, code, compiled.nodes(), output);
            let schedule = code.schedule();
            for at in 0..schedule.kernels().len() {
                let mut choices = reachable(&backend, schedule, at, 24);
                blocks += choices.len();
                choices
                    .extend(["stores=streamed", "stores=cached"].iter().filter_map(|s| KernelChoice::new(s)));
                for choice in choices {
                    let mut all = vec![None; at];
                    all.push(Some(choice.clone()));
                    let schedule = schedule.clone().with_choices(all);
                    let artifact = backend.codegen().compile(&schedule).expect("the choice fits");
                    let code = Arc::new(Code::new(schedule, artifact).expect("it agrees"));
                    let found = run(&context, &code, compiled.nodes(), output);
                    assert!(found == expected, "{}: {choice}, kernel {at}", program.text);
                    all_choices += 1;
                }
            }
        }
    }
    let has_plans = !backend.codegen().caps().contractions.is_empty();
    assert!(all_choices > 0 && (blocks > 100 || !has_plans), "{blocks} of blocks, {all_choices} in all");
}

/// A matmul whose kernel has choices on every CPU with GEMM plans.
fn matmul(backend: &Backend) -> Result<(Option<KernelChoice>, Vec<u8>), String> {
    let program = &programs(&mut fastrand::Rng::with_seed(1))[0];
    let (nodes, context) = inputs(backend, program);
    let compiled = backend.compile(program.text, &nodes).map_err(|error| error.to_string())?;
    let code = compiled.codes().next().expect("code");
    let bytes = run(&context, code, compiled.nodes(), &nodes[2]);
    Ok((code.schedule().kernels()[0].choice().cloned(), bytes))
}

/// The file of one tuned matmul, with another choice in its only entry.
fn with_choice(path: &Path, choice: &str) {
    matmul(&backend(settings(Some(path)))).expect("it compiles");
    let text = fs::read_to_string(path).expect("a file");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let entry = lines.last_mut().expect("an entry");
    let words: Vec<&str> = entry.split(' ').collect();
    *entry = format!("{} {} {choice}", words[0], words[1]);
    fs::write(path, lines.join("\n")).expect("it can be written");
}

#[test]
fn the_file_decides_and_nothing_is_measured_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("matmul.tune");
    let (choice, expected) = matmul(&backend(settings(None))).expect("it compiles");
    assert_eq!(choice, None, "without the setting, heuristics decide");
    if backend(settings(None)).codegen().caps().contractions.is_empty() {
        println!("skipped: this machine has no GEMM plans");
        return;
    }
    let (first, bytes) = matmul(&backend(settings(Some(&path)))).expect("it compiles");
    assert_eq!(bytes, expected);
    let text = fs::read_to_string(&path).expect("a file");
    let again = backend(settings(Some(&path)));
    assert_eq!(matmul(&again), Ok((first, expected.clone())));
    assert_eq!(fs::read_to_string(&path).expect("a file"), text);
    // Multiples of the tiles of every width.
    let blocks = if cfg!(target_arch = "aarch64") { "mc=24" } else { "mc=42" };
    for chosen in [format!("gemm0=blocks:{blocks},kc=4,nc=32"), "gemm0=whole-a:kc=5,nc=32".into()] {
        with_choice(&path, &chosen);
        let found = matmul(&backend(settings(Some(&path))));
        assert_eq!(found, Ok((KernelChoice::new(&chosen), expected.clone())));
    }
}

#[test]
fn choices_that_do_not_fit_are_errors_with_their_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("matmul.tune");
    if backend(settings(None)).codegen().caps().contractions.is_empty() {
        println!("skipped: this machine has no GEMM plans");
        return;
    }
    for (choice, why) in [
        ("gemm0=blocks:mc=5,kc=4,nc=16", "the block size mc is 5"),
        ("gemm7=in-place:rows", "of 1 GEMM plans none is `gemm7`"),
        ("tiles=3", "`tiles` is neither `stores` nor `gemm` with a number"),
    ] {
        with_choice(&path, choice);
        let error = matmul(&backend(settings(Some(&path)))).expect_err("it does not fit");
        let place = format!("setting `tune`: `{}`, line 3: ", path.display());
        assert!(error.starts_with(&place) && error.contains(choice) && error.contains(why), "{error}");
        fs::remove_file(&path).expect("it exists");
    }
}

#[test]
fn other_files_are_not_opened_or_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notes.txt");
    fs::write(&path, "my notes\n").expect("it can be written");
    let error = Backend::open_with("inline", &settings(Some(&path))).expect_err("no file of choices");
    assert!(error.to_string().contains(&format!("`{}`, line 1: expected", path.display())), "{error}");
    assert_eq!(fs::read_to_string(&path).expect("a file"), "my notes\n");
}

#[test]
fn without_the_search_files_are_only_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("absent.tune");
    let mut settings = settings(Some(&path));
    settings.tuning.search = false;
    let (choice, _) = matmul(&backend(settings)).expect("it compiles");
    assert_eq!(choice, None);
    assert!(!path.exists());
}
