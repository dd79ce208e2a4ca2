//! An embedding with a cross-entropy loss and a gradient step, against loops in Rust, on every backend.

use arrayjit::settings::Settings;
use arrayjit::{Backend, DType, HostArray, TensorNode};

const IDS: [i64; 6] = [3, 0, -1, 3, 9, 3];
const LABELS: [u64; 6] = [1, 0, 36, u64::MAX, 35, 2];
const ROWS: usize = 5;
const WIDTH: usize = 36;

const STEP: &str = "\
    y[b,e] := table[ids[b], e]
    z[b] :+= exp(y[b,e])
    loss :+= log(z[b]) - y[b, label[b]]
    dy[b,e] := exp(y[b,e]) / z[b]
    dy[b, label[b]] -= 1
    dtable[ids[b], e] :+= dy[b,e]
    table[r,e] -= 0.5 * dtable[r,e]";

fn start() -> Vec<f32> {
    (0..ROWS * WIDTH).map(|i| ((i * 7 + 3) % 11) as f32 / 8.0 - 0.5).collect()
}

/// The loss and the table after one step, computed in `f64`.
fn reference() -> (f64, Vec<f64>) {
    let table: Vec<f64> = start().into_iter().map(f64::from).collect();
    let mut next = table.clone();
    let mut loss = 0.0;
    for (id, label) in IDS.into_iter().zip(LABELS) {
        let row = usize::try_from(id).ok().filter(|&id| id < ROWS);
        let y: Vec<f64> = (0..WIDTH).map(|e| row.map_or(0.0, |row| table[row * WIDTH + e])).collect();
        let z: f64 = y.iter().map(|y| y.exp()).sum();
        let label = usize::try_from(label).ok().filter(|&label| label < WIDTH);
        loss += z.ln() - label.map_or(0.0, |label| y[label]);
        for (e, y) in y.iter().enumerate() {
            let dy = y.exp() / z - f64::from(u8::from(label == Some(e)));
            if let Some(row) = row {
                next[row * WIDTH + e] -= 0.5 * dy;
            }
        }
    }
    (loss, next)
}

/// The loss and the table after one step on a backend.
fn run(backend: &str, threads: usize) -> (Vec<f64>, Vec<f64>) {
    let node = |name: &str, dtype: DType, dims: &[usize]| {
        TensorNode::builder(name).dtype(dtype).dims(dims.iter().copied()).build().expect("small")
    };
    let f32s = |name: &str, dims: &[usize]| node(name, DType::F32, dims);
    let (ids, label) = (node("ids", DType::I64, &[6]), node("label", DType::U64, &[6]));
    let (table, dtable) = (f32s("table", &[ROWS, WIDTH]), f32s("dtable", &[ROWS, WIDTH]));
    let (y, dy) = (f32s("y", &[6, WIDTH]), f32s("dy", &[6, WIDTH]));
    let (z, loss) = (f32s("z", &[6]), f32s("loss", &[]));
    let mut settings = Settings::default();
    settings.threads = threads;
    let backend = Backend::open_with(backend, &settings).expect("every backend of this build opens");
    let code =
        backend.compile(STEP, [&ids, &label, &table, &dtable, &y, &dy, &z, &loss]).expect("a valid text");
    let context = backend.context().expect("a stream");
    let table_values = HostArray::from_slice(&start(), [ROWS, WIDTH]).expect("as many values");
    let context = context.init_from_host(&table, &table_values).expect("memory");
    let context = context.init_from_host(&ids, HostArray::from_slice(&IDS, [6]).expect("6")).expect("memory");
    let labels = HostArray::from_slice(&LABELS, [6]).expect("6");
    let context = context.init_from_host(&label, &labels).expect("memory");
    let routine = code.link(&context).expect("all nodes are there");
    routine.run(&[]).expect("no symbols").sync().expect("ran");
    let values = |node| routine.context().to_host(node).expect("in the context").values();
    (values(&loss), values(&table))
}

#[test]
fn a_step_is_the_one_of_the_formulas() {
    let (loss, table) = reference();
    let found = run("interpreter", 1);
    assert!((found.0[0] - loss).abs() < 1e-4, "{} instead of {loss}", found.0[0]);
    for (at, (found, expected)) in found.1.iter().zip(&table).enumerate() {
        assert!((found - expected).abs() < 1e-5, "element {at}: {found} instead of {expected}");
    }
    for (backend, threads) in [("inline", 1), ("multicore", 1), ("multicore", 2)] {
        assert_eq!(run(backend, threads), found, "{backend} with {threads} threads");
    }
}
