//! Gradients by values that are read in another shape or in windows: every element of an adjoint is known to
//! be written, whatever the order of the loops, so that it needs no value from before the run.

use arrayjit::settings::{NumericClass, Settings};
use arrayjit::{Backend, HostArray, Nodes, OptimizeSettings, Program};
use autodiff::{CheckOptions, check};

/// A program with the nodes `x` and `loss`, the dimensions of `x`, and other inputs.
struct Case {
    x: Vec<usize>,
    others: Vec<(&'static str, Vec<usize>)>,
    statements: String,
}

fn case(x: &[usize], statements: &str) -> Case {
    Case { x: x.to_vec(), others: Vec::new(), statements: statements.to_owned() }
}

/// `y`, of this rank, is a view of `t`, the squares of `x`.
fn of_rank(rank: usize, x: &[usize], y: &str) -> Case {
    let index = |rank: usize| ["i", "j", "k", "l", "m"][..rank].join(",");
    let (all, y_all) = (index(x.len()), index(rank));
    case(x, &format!("t[{all}] := x[{all}] * x[{all}]\n{y}\nloss :+= y[{y_all}] * y[{y_all}] * 0.5"))
}

/// `y`, whose indices have no commas but those between them, is a view of `t`.
fn view(x: &[usize], y: &str) -> Case {
    let index = y.split(']').next().unwrap_or_default();
    of_rank(index.split(',').count(), x, y)
}

/// `y` is a sum of products of windows of `t` and a filter.
fn windows(x: &[usize], f: &[usize], y: &str) -> Case {
    Case { others: vec![("f", f.to_vec())], ..view(x, y) }
}

fn cases() -> Vec<Case> {
    let mut cases = vec![
        // Split indices, with the parts in either order, forwards and backwards, and with an offset.
        view(&[64], "y[m,k] := t[4*k + m] where m < 4, k < 16"),
        view(&[64], "y[k,m] := t[4*k + m] where m < 4, k < 16"),
        view(&[64], "y[m,k] := t[63 - 4*k - m] where m < 4, k < 16"),
        view(&[67], "y[m,k] := t[4*k + m + 3] where m < 4, k < 16"),
        view(&[66], "y[m,k] := t[4*k + m] where m < 4, k < 16"),
        view(&[64], "y[m] :+= t[4*k + m] where m < 4, k < 16"),
        // Strided reads of a part, and of all elements in turn.
        view(&[17], "y[i] := t[2*i + 1] where i < 8"),
        view(&[16], "y[i] := t[2*i] * t[2*i + 1] where i < 8"),
        view(&[17], "y[i] := t[15 - 3*i] where i < 5"),
        view(&[9, 4], "y[i,j] := t[2*j, i] where i < 4, j < 4"),
        // Pixels to channels and back, and transposed views.
        view(&[2, 6, 4], "y[c,p,q,a,b] := t[c, 2*a + p, 2*b + q] where p < 2, q < 2, a < 3, b < 2"),
        view(&[2, 6, 4], "y[a,p,b,q,c] := t[c, 3*p + a, 2*b + q] where p < 2, q < 2, a < 3, b < 2"),
        view(&[2, 2, 3, 2], "y[2*k + i, 2*l + j] := t[i,j,k,l] where i < 2, j < 2, k < 3, l < 2"),
        view(&[3, 4], "y[j,i] := t[i,j] where i < 3, j < 4"),
        // A result that is one element, at a symbol-free index of an axis of one element.
        view(&[1, 5], "y[i,j] := t[0, 4 - i] where i < 5, j < 2"),
        // Overlapping windows, with gaps, and of the greatest values.
        view(&[10], "y[i] :+= t[2*i + p] where i < 4, p < 3"),
        view(&[10], "y[i] :+= t[3*i + p] where i < 3, p < 2"),
        view(&[9], "y[i] :max= t[2*i + p] where i < 4, p < 2"),
        view(&[1, 1, 4, 6], "y[b,c,i,j] := avg_pool(t[b,c,h,w], window = 2, stride = 2)[b,c,i,j]"),
        view(&[1, 1, 5, 5], "y[b,c,i,j] := max_pool(t[b,c,h,w], window = 3, stride = 1)[b,c,i,j]"),
        // Transposed convolutions: the windows are of the result.
        windows(&[4], &[2, 3], "y[o, 2*i + p] :+= t[i] * f[o,p]"),
        windows(&[4], &[2, 2], "y[o, 3*i + p] :+= t[i] * f[o,p]"),
        // Dilated windows, margins on one side, and a second axis without a window.
        windows(&[9], &[2, 2], "y[o,i] :+= pad(t, 0)[i + 3*p - 2] * f[o,p] where i < 8"),
        windows(&[9], &[2, 2], "y[o,i] :+= pad(t, 0)[2*i + p - 1] * f[o,p] where i < 5"),
        windows(&[9], &[2, 4], "y[o,i] :+= pad(t, 0)[i + p] * f[o,p] where i < 9"),
        windows(&[7, 3], &[2, 3], "y[o,i,j] :+= pad(t, 0)[i + p, j - 1] * f[o,p] where i < 5, j < 5"),
        windows(&[7, 3], &[2, 3], "y[o,i,j] :+= pad(t, 0)[2*i + p, j + 1] * f[o,p] where i < 3, j < 3"),
        windows(&[7, 3], &[2, 3], "y[o,i,j] :+= t[i + p, j + 1] * f[o,p] where i < 5, j < 2"),
        windows(&[7, 3], &[2, 3], "y[o,i,j] :+= t[i + p, 1] * f[o,p] where i < 5, j < 2"),
        windows(&[7, 3], &[2, 3], "y[o,i] :+= pad(t, 0)[i + p - 1, 2] * f[o,p] where i < 5"),
    ];
    // Every order of the parts of three digits.
    for order in ["k,n,m", "k,m,n", "n,k,m", "n,m,k", "m,k,n", "m,n,k"] {
        cases.push(view(&[24], &format!("y[{order}] := t[12*k + 3*n + m] where k < 2, n < 4, m < 3")));
    }
    // The elements of a line in several statements, and in phases.
    cases.push(case(
        &[12],
        "t[i] := x[i] * x[i]\ny[i] := t[3*i] where i < 4\nz[i] := t[3*i + 2] * t[3*i + 1] where i < 4
         loss :+= y[i] * z[i]",
    ));
    for (p, q) in [(2, 1), (1, 2), (1, 1), (2, 2), (3, 2), (4, 1)] {
        for (stride, padding) in [(1, 0), (1, 1), (2, 0), (2, 1), (3, 2), (1, 3)] {
            let y = format!(
                "y[b,o,i,j] := conv2d(t[b,c,h,w], f[o,c,p,q], stride = {stride}, padding = {padding})[b,o,i,j]"
            );
            cases.push(windows(&[1, 2, 5, 4], &[3, 2, p, q], &y));
        }
    }
    cases
}

/// Settings, and options of the optimizer that lead to other memory modes.
fn settings() -> Vec<(&'static str, Settings, OptimizeSettings)> {
    let mut all = Vec::new();
    for class in [NumericClass::Strict, NumericClass::Fast] {
        let mut settings = Settings::default();
        settings.numerics = class;
        settings.threads = 2;
        let base = settings.optimizer();
        let kept = OptimizeSettings { enable_device_only: false, ..base.clone() };
        let inlined =
            OptimizeSettings { max_visits: 1000, inline_complex_computations: true, ..base.clone() };
        let local = OptimizeSettings { max_visits: 0, inline_simple_computations: false, ..base.clone() };
        let named = [("default", base), ("kept", kept), ("inlined", inlined), ("local", local)];
        all.extend(named.map(|(name, optimizer)| (name, settings.clone(), optimizer)));
    }
    all
}

fn values(seed: u64, dims: &[usize]) -> HostArray {
    let mut random = fastrand::Rng::with_seed(seed);
    let values: Vec<f32> = (0..dims.iter().product::<usize>()).map(|_| random.f32() + 0.5).collect();
    HostArray::from_slice(&values, dims.iter().copied()).expect("as many")
}

impl Case {
    fn inputs(&self) -> Vec<(&str, HostArray)> {
        let all = [("x", &self.x)].into_iter().chain(self.others.iter().map(|(name, dims)| (*name, dims)));
        all.zip(1..).map(|((name, dims), seed)| (name, values(seed, dims))).collect()
    }

    fn declared(&self) -> String {
        let declared = self.inputs().into_iter().map(|(name, array)| {
            let dims: Vec<String> = array.dims().iter().map(usize::to_string).collect();
            format!("input {name} f32[{}]\n", dims.join(", "))
        });
        declared.collect::<String>() + &self.statements
    }

    /// Compares the gradient with differences.
    fn check(&self) {
        let text = self.declared();
        let program = Program::parse(&text).unwrap_or_else(|error| panic!("{error}")).keep("loss");
        let program = program.assignments(&[]).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let node = |name: &str| {
            program.nodes().into_iter().find(|node| node.name() == name).expect("it is in the text")
        };
        let (x, loss) = (node("x"), node("loss"));
        let inputs: Vec<_> = self.inputs().into_iter().map(|(name, array)| (node(name), array)).collect();
        let inputs: Vec<_> = inputs.iter().map(|(node, array)| (node, array.clone())).collect();
        check(&program, &loss, &[&x], &inputs, &CheckOptions::default())
            .unwrap_or_else(|error| panic!("{text}\n{error}"));
    }

    /// The gradient by `x` as compiled code computes it.
    fn gradient(
        &self,
        backend: &str,
        (name, settings, optimizer): &(&str, Settings, OptimizeSettings),
    ) -> Vec<f64> {
        let text = format!("{}\ngrad loss by x\nkeep x.grad", self.declared());
        let what = || format!("{backend}, {:?}, {name}:\n{text}", settings.numerics);
        let backend = Backend::open_with(backend, settings).expect("it is in every build");
        let backend = backend.with_optimizer(optimizer.clone());
        let code =
            backend.compile(&text, &Nodes::default()).unwrap_or_else(|error| panic!("{}\n{error}", what()));
        let mut context = backend.context().expect("a stream");
        for (name, array) in self.inputs() {
            context = context.init_from_host(code.node(name).expect("declared"), &array).expect("memory");
        }
        let routine = code.link(&context).unwrap_or_else(|error| panic!("{}\n{error}", what()));
        routine.run(&[]).expect("scheduled").sync().expect("ran");
        routine.context().to_host(code.node("x.grad").expect("kept")).expect("in the context").values()
    }
}

#[test]
fn gradients_by_values_in_other_shapes_and_windows() {
    let settings = settings();
    for (at, case) in cases().iter().enumerate() {
        case.check();
        let expected = case.gradient("interpreter", &settings[0]);
        assert!(expected.iter().any(|&value| value != 0.0), "{}", case.declared());
        // The optimizer's work is the same for all backends.
        for (number, setting) in settings.iter().enumerate() {
            let backend = ["inline", "interpreter", "multicore"][(at + number) % 3];
            let found = case.gradient(backend, setting);
            let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-4 * (1.0 + a.abs());
            assert!(
                expected.len() == found.len() && expected.iter().zip(&found).all(close),
                "{backend} {}: {found:?}, expected {expected:?}\n{}",
                setting.0,
                case.declared()
            );
        }
    }
}
