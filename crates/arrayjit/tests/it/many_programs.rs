//! Programs that are compiled, run and dropped leave nothing behind: memory, mappings, nodes and the code
//! cache stay bounded, whatever their number. There are 2,000 times `EFFORT` programs. The test
//! has a process of its own, because it measures the process.

use std::error::Error;

use arrayjit::{Backend, Context, DType, HostArray, Routine, Settings, TensorNode};
use codegen_testkit::in_own_process;
use random_programs::effort;
use tnode::Registry;

/// The limit of the code cache, far below the code of all programs.
const CACHED_BYTES: usize = 1 << 20;
/// The number of programs after which the reference footprint is measured.
const WARM_UP: usize = 600;
/// The number of elements of vectors; matrices are square.
const LENGTH: usize = 20;
const SIDE: usize = 8;
/// Keeps the routine of every 37th program until the end.
const KEPT_EVERY: usize = 37;
/// The most routines that are kept.
const KEPT: usize = 20;

/// The input nodes of all programs.
struct SharedInputs {
    context: Context,
    floats: TensorNode,
    integers: TensorNode,
    left: TensorNode,
    right: TensorNode,
}

/// Assignment text with its nodes, its output node and the expected values. Programs with different numbers
/// compile to different code.
struct NumberedProgram {
    text: String,
    nodes: Vec<TensorNode>,
    output: TensorNode,
    expected: Vec<f64>,
}

/// The memory, mappings and nodes of the process, and the code cache of a backend.
#[derive(Clone, Copy, Debug, Default)]
struct Footprint {
    resident_bytes: usize,
    mappings: usize,
    nodes: usize,
    cached_bytes: usize,
}

impl Footprint {
    fn of(backend: &Backend) -> Footprint {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let resident = read("/proc/self/status")
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse::<usize>().ok());
        Footprint {
            resident_bytes: resident.unwrap_or_default() << 10,
            mappings: read("/proc/self/maps").lines().count(),
            nodes: Registry::global().nodes().len(),
            cached_bytes: backend.code_cache().bytes,
        }
    }
}

fn node(name: &str, dtype: DType, dims: &[usize]) -> Result<TensorNode, Box<dyn Error>> {
    Ok(TensorNode::builder(name).dims(dims.iter().copied()).dtype(dtype).build()?)
}

fn inputs(backend: &Backend) -> Result<SharedInputs, Box<dyn Error>> {
    let floats = node("x", DType::F32, &[LENGTH])?;
    let integers = node("n", DType::I64, &[LENGTH])?;
    let [left, right] = [node("a", DType::F32, &[SIDE, SIDE])?, node("b", DType::F32, &[SIDE, SIDE])?];
    let values: Vec<f32> = (0..LENGTH).map(|at| at as f32).collect();
    let whole: Vec<i64> = (0..LENGTH).map(|at| 1000 * at as i64).collect();
    let matrix: Vec<f32> = (0..SIDE * SIDE).map(|at| (at % 5) as f32).collect();
    let context = backend
        .context()?
        .init_from_host(&floats, &HostArray::from_slice(&values, [LENGTH])?)?
        .init_from_host(&integers, &HostArray::from_slice(&whole, [LENGTH])?)?
        .init_from_host(&left, &HostArray::from_slice(&matrix, [SIDE, SIDE])?)?
        .init_from_host(&right, &HostArray::from_slice(&matrix, [SIDE, SIDE])?)?;
    Ok(SharedInputs { context, floats, integers, left, right })
}

/// The program with this number. Programs take turns among four kinds: vector code, scalar code by Cranelift,
/// matrix multiplications with epilogues, and virtual nodes.
fn program(inputs: &SharedInputs, number: usize) -> Result<NumberedProgram, Box<dyn Error>> {
    let value = number as f64;
    let vector = || 0..LENGTH;
    Ok(match number % 4 {
        0 => {
            let output = node("y", DType::F32, &[LENGTH])?;
            NumberedProgram {
                text: format!("y[i] := x[i] * 3 + {number}"),
                nodes: vec![inputs.floats.clone(), output.clone()],
                output,
                expected: vector().map(|at| 3.0 * at as f64 + value).collect(),
            }
        }
        1 => {
            let output = node("y", DType::I64, &[LENGTH])?;
            NumberedProgram {
                text: format!("y[i] := n[i] / {}", number + 1),
                nodes: vec![inputs.integers.clone(), output.clone()],
                output,
                expected: vector().map(|at| (1000 * at / (number + 1)) as f64).collect(),
            }
        }
        2 => {
            let [sum, output] =
                [node("c", DType::F32, &[SIDE, SIDE])?, node("y", DType::F32, &[SIDE, SIDE])?];
            let element = |row: usize, column: usize| {
                let products = (0..SIDE).map(|at| ((row * SIDE + at) % 5) * ((at * SIDE + column) % 5));
                products.sum::<usize>() as f64 * 2.0 + value
            };
            NumberedProgram {
                text: format!("c[i,j] :+= a[i,k] * b[k,j]; y[i,j] := c[i,j] * 2 + {number}"),
                nodes: vec![inputs.left.clone(), inputs.right.clone(), sum, output.clone()],
                output,
                expected: (0..SIDE * SIDE).map(|at| element(at / SIDE, at % SIDE)).collect(),
            }
        }
        _ => {
            let [between, output] = [node("t", DType::F32, &[LENGTH])?, node("y", DType::F32, &[LENGTH])?];
            NumberedProgram {
                text: format!("t[i] := x[i] + {number}; y[i] := t[i] - 1"),
                nodes: vec![inputs.floats.clone(), between, output.clone()],
                output,
                expected: vector().map(|at| at as f64 + value - 1.0).collect(),
            }
        }
    })
}

/// Compiles, links and runs a program, and compares its output.
fn run(
    backend: &Backend,
    inputs: &SharedInputs,
    number: usize,
) -> Result<(Routine, NumberedProgram), Box<dyn Error>> {
    let program = program(inputs, number)?;
    let compiled = backend.compile(&program.text, &program.nodes)?;
    let routine = compiled.link(&inputs.context)?;
    check(&routine, &program)?;
    Ok((routine, program))
}

fn check(routine: &Routine, program: &NumberedProgram) -> Result<(), Box<dyn Error>> {
    routine.run(&[])?;
    let found = routine.context().to_host(&program.output)?.values();
    assert_eq!(found, program.expected, "{}", program.text);
    Ok(())
}

#[test]
fn many_programs_take_bounded_memory() -> Result<(), Box<dyn Error>> {
    if !in_own_process("many_programs::many_programs_take_bounded_memory") {
        return Ok(());
    }
    let programs = effort::cases(2000) as usize;
    let mut settings = Settings::default();
    settings.code_cache_bytes = CACHED_BYTES;
    let backend = Backend::open_with("inline", &settings)?;
    let inputs = inputs(&backend)?;
    let mut kept = Vec::new();
    let mut warm = Footprint::default();
    for number in 0..programs {
        let (routine, program) = run(&backend, &inputs, number)?;
        if number % KEPT_EVERY == 0 && kept.len() < KEPT {
            kept.push((routine, program));
        }
        if number == WARM_UP {
            warm = Footprint::of(&backend);
            println!("after {number} programs: {warm:?}");
        }
        if number > WARM_UP && number % 500 == 499 {
            let now = Footprint::of(&backend);
            if number % 10_000 == 9999 || number + 1 == programs {
                println!("after {} programs: {now:?}", number + 1);
            }
            assert!(now.cached_bytes <= CACHED_BYTES, "{now:?}");
            assert!(now.mappings <= warm.mappings + 32, "from {warm:?} to {now:?} at program {number}");
            assert!(
                now.resident_bytes <= warm.resident_bytes + (16 << 20),
                "from {warm:?} to {now:?} at program {number}"
            );
            // The nodes of a virtual node's computation are dropped when the next program is compiled.
            assert!(now.nodes <= warm.nodes + 8, "from {warm:?} to {now:?} at program {number}");
        }
    }
    let cache = backend.code_cache();
    assert!(cache.evicted as usize + cache.routines >= programs && cache.evicted > 0, "{cache:?}");
    // Evicted code lives as long as its routines, and recompiled code computes the same.
    for (number, (routine, program)) in kept.iter().enumerate() {
        check(routine, program)?;
        run(&backend, &inputs, number * KEPT_EVERY)?;
    }
    Ok(())
}
