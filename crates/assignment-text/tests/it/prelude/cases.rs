//! Calls of every function of the prelude, and the networks of `docs/assignment-guide.md`, with their values
//! computed independently in `f64`.

use super::array::{Array, Case};

const GUIDE: &str = include_str!("../../../../../docs/assignment-guide.md");

/// The program of the guide that has this line.
fn listing(line: &str) -> &'static str {
    let starts = GUIDE.split("```assign\n").skip(1);
    let mut listings = starts.map(|rest| rest.split("```").next().expect("a first part"));
    listings.find(|listing| listing.lines().any(|found| found == line)).expect("the guide has it")
}

/// All cases, several for some functions.
pub(crate) fn all() -> Vec<Case> {
    let mut all = activations();
    all.extend(normalization());
    all.extend(losses());
    all.extend(attention());
    all.extend(images());
    all.extend(recurrent());
    all.extend(optimizers());
    all.extend(grids());
    all.extend([lenet(), transformer_block()]);
    all
}

fn case(text: &str, inputs: &[&Array], expected: Vec<Array>) -> Case {
    bound(text, &[], inputs, expected)
}

fn bound(text: &str, bindings: &[i64], inputs: &[&Array], expected: Vec<Array>) -> Case {
    let inputs = inputs.iter().map(|&input| input.clone()).collect();
    Case { text: text.to_owned(), sizes: &[], bindings: bindings.to_vec(), inputs, expected }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The error function, by its power series.
fn erf(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for n in 1..80 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

fn activations() -> Vec<Case> {
    let x = Array::input("x", &[3, 4, 5]);
    let each = |name: &str, f: &dyn Fn(f64) -> f64| {
        case(&format!("y[i,j,k] := {name}(x[i,j,k])"), &[&x], vec![x.map("y", f)])
    };
    vec![
        each("sigmoid", &sigmoid),
        each("silu", &|x| x * sigmoid(x)),
        each("erf", &erf),
        each("gelu", &|x| x / 2.0 * (1.0 + erf(x / 2f64.sqrt()))),
        each("gelu_tanh", &|x| {
            x / 2.0 * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        }),
        // The root of a negative number is NaN.
        case("y[i,j,k] := maxnum(sqrt(x[i,j,k]), x[i,j,k])", &[&x], vec![x.map("y", |x| x.sqrt().max(x))]),
        case("y[i,j,k] := minnum(x[i,j,k], sqrt(x[i,j,k]))", &[&x], vec![x.map("y", |x| x.min(x.sqrt()))]),
        case("y[i,j,k] := dropout(x[i,j,k], 0, 7)", &[&x], vec![x.map("y", |x| x)]),
        case("y[i,j,k] := dropout(x[i,j,k], 1.5, 7)", &[&x], vec![x.map("y", |_| 0.0)]),
        // A rate of one half sets an element to 0 or doubles it.
        bound(
            "u[i,j,k] := dropout(x[i,j,k], 0.5, 7, @t) where @t < 10
             y[i,j,k] := or(u[i,j,k] == 0, u[i,j,k] == 2 * x[i,j,k])",
            &[3],
            &[&x],
            vec![x.map("y", |_| 1.0)],
        ),
    ]
}

/// The softmax of a vector.
fn softmax(x: &[f64]) -> Vec<f64> {
    let sum: f64 = x.iter().map(|x| x.exp()).sum();
    x.iter().map(|x| x.exp() / sum).collect()
}

/// The mean of numbers, and of the squares of their distances from it.
fn moments(x: &[f64]) -> (f64, f64) {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    (mean, x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64)
}

fn normalization() -> Vec<Case> {
    let (x, gain, bias) =
        (Array::input("x", &[3, 6]), Array::input("gain", &[6]), Array::input("bias", &[6]));
    let row = |i: usize| &x.values[i * 6..(i + 1) * 6];
    let of_rows = |f: &dyn Fn(&[f64], usize) -> f64| Array::of("y", &[3, 6], |at| f(row(at[0]), at[1]));
    let large = x.map("x", |x| 100.0 * x);
    let mut all = vec![
        case("y[b,i] := softmax(x[b,i])", &[&x], vec![of_rows(&|row, k| softmax(row)[k])]),
        case(
            "y[b,i] := softmax(x[b,i])",
            &[&large],
            vec![Array::of("y", &[3, 6], |at| {
                softmax(&row(at[0]).iter().map(|x| 100.0 * x).collect::<Vec<_>>())[at[1]]
            })],
        ),
        case("y[b,i] := log_softmax(x[b,i])", &[&x], vec![of_rows(&|row, k| softmax(row)[k].ln())]),
        case(
            "y[b,i] := layer_norm(x[b,i], gain[i], bias[i], eps = 0.5)",
            &[&x, &gain, &bias],
            vec![of_rows(&|row, k| {
                let (mean, variance) = moments(row);
                (row[k] - mean) / (variance + 0.5).sqrt() * gain.at([k]) + bias.at([k])
            })],
        ),
        case(
            "y[b,i] := rms_norm(x[b,i], gain[i])",
            &[&x, &gain],
            vec![of_rows(&|row, k| {
                let squares = row.iter().map(|x| x * x).sum::<f64>() / 6.0;
                row[k] / (squares + 1e-6).sqrt() * gain.at([k])
            })],
        ),
    ];
    all.extend(batch_norm());
    all
}

fn batch_norm() -> [Case; 2] {
    let dims = [2, 3, 4, 5];
    let x = Array::input("x", &dims);
    let [gain, bias, mean] = ["gain", "bias", "mean"].map(|name| Array::input(name, &[3]));
    let variance = Array::input("variance", &[3]).map("variance", |v| v.abs() + 0.5);
    let inputs = [&x, &gain, &bias, &mean, &variance];
    let of_channel = |c: usize| {
        let parts = (0..2).flat_map(|b| &x.values[(b * 3 + c) * 20..(b * 3 + c + 1) * 20]);
        moments(&parts.copied().collect::<Vec<_>>())
    };
    let normalized = |m: f64, v: f64, at: &[usize]| {
        (x.at([at[0], at[1], at[2], at[3]]) - m) / (v + 1e-5).sqrt() * gain.at([at[1]]) + bias.at([at[1]])
    };
    let moved = |old: f64, new: f64| 0.75 * old + 0.25 * new;
    [
        case(
            "y[b,c,h,w] := batch_norm(x[b,c,h,w], gain[c], bias[c], mean[c], variance[c])",
            &inputs,
            vec![Array::of("y", &dims, |at| normalized(mean.at([at[1]]), variance.at([at[1]]), at))],
        ),
        case(
            "y[b,c,h,w] := batch_norm_train(x[b,c,h,w], gain[c], bias[c], mean[c], variance[c], mu = 0.25)",
            &inputs,
            vec![
                Array::of("y", &dims, |at| normalized(of_channel(at[1]).0, of_channel(at[1]).1, at)),
                Array::of("mean", &[3], |c| moved(mean.at([c[0]]), of_channel(c[0]).0)),
                Array::of("variance", &[3], |c| moved(variance.at([c[0]]), of_channel(c[0]).1 * 40.0 / 39.0)),
            ],
        ),
    ]
}

fn losses() -> Vec<Case> {
    let (x, labels) = (Array::input("x", &[2, 3, 6]), Array::integers("labels", &[2, 3], 6));
    let z = Array::input("z", &[2, 3, 6]);
    let loss = |at: &[usize]| {
        let row: Vec<f64> = (0..6).map(|k| x.at([at[0], at[1], k])).collect();
        -softmax(&row)[labels.at([at[0], at[1]]) as usize].ln()
    };
    let squares: f64 = x.values.iter().zip(&z.values).map(|(x, z)| (x - z).powi(2)).sum();
    vec![
        case(
            "y[b,t] := cross_entropy(x[b,t,k], labels[b,t])",
            &[&x, &labels],
            vec![Array::of("y", &[2, 3], loss)],
        ),
        case("y := mse(x[b,t,k], z[b,t,k])", &[&x, &z], vec![Array::of("y", &[], |_| squares / 36.0)]),
    ]
}

fn attention() -> Vec<Case> {
    let [q, k] = ["q", "k"].map(|name| Array::input(name, &[2, 2, 5, 4]));
    let v = Array::input("v", &[2, 2, 5, 3]);
    let expected = |is_causal: bool| {
        Array::of("y", &[2, 2, 5, 3], |at| {
            let &[b, h, i, e] = at else { panic!("four axes") };
            let score = |j: usize| (0..4).map(|c| q.at([b, h, i, c]) * k.at([b, h, j, c])).sum::<f64>() / 2.0;
            let keys = if is_causal { i + 1 } else { 5 };
            let weights = softmax(&(0..keys).map(score).collect::<Vec<_>>());
            weights.iter().enumerate().map(|(j, weight)| weight * v.at([b, h, j, e])).sum()
        })
    };
    let (table, ids) = (Array::input("table", &[7, 3]), Array::integers("ids", &[2, 4], 7));
    let x = Array::input("x", &[2, 5, 6]);
    let rotated = |start: usize, base: f64| {
        Array::of("y", &[2, 5, 6], |at| {
            let &[b, t, c] = at else { panic!("three axes") };
            let angle = (t + start) as f64 * base.powf(-((c % 3 * 2) as f64) / 6.0);
            let (low, high) = (x.at([b, t, c % 3]), x.at([b, t, c % 3 + 3]));
            match c / 3 {
                0 => low * angle.cos() - high * angle.sin(),
                _ => low * angle.sin() + high * angle.cos(),
            }
        })
    };
    vec![
        case(
            "y[b,h,i,e] := attention(q[b,h,i,c], k[b,h,j,c], v[b,h,j,e])",
            &[&q, &k, &v],
            vec![expected(false)],
        ),
        case(
            "y[b,h,i,e] := causal_attention(q[b,h,i,c], k[b,h,j,c], v[b,h,j,e])",
            &[&q, &k, &v],
            vec![expected(true)],
        ),
        case(
            "y[b,t,e] := embedding(table[v,e], ids[b,t])",
            &[&table, &ids],
            vec![Array::of("y", &[2, 4, 3], |at| table.at([ids.at([at[0], at[1]]) as usize, at[2]]))],
        ),
        case("y[b,t,c] := rotary(x[b,t,c])", &[&x], vec![rotated(0, 10000.0)]),
        bound(
            "y[b,t,c] := rotary(x[b,t,c], base = 100, start = @pos) where @pos < 9",
            &[3],
            &[&x],
            vec![rotated(3, 100.0)],
        ),
    ]
}

fn images() -> Vec<Case> {
    let (x, f) = (Array::input("x", &[2, 3, 7, 8]), Array::input("f", &[4, 3, 3, 2]));
    let convolved = |rows: usize, columns: usize, stride: usize, padding: i64| {
        Array::of("y", &[2, 4, rows, columns], |at| {
            let place = |at: usize, k: usize| (stride * at + k) as i64 - padding;
            let mut sum = 0.0;
            for c in 0..3 {
                for p in 0..3 {
                    for q in 0..2 {
                        let pixel = x.padded([at[0] as i64, c as i64, place(at[2], p), place(at[3], q)]);
                        sum += pixel * f.at([at[1], c, p, q]);
                    }
                }
            }
            sum
        })
    };
    let window = |b: usize, c: usize, i: usize, j: usize, size: usize| -> Vec<f64> {
        (0..size * size).map(|at| x.at([b, c, i + at / size, j + at % size])).collect()
    };
    let conv = |options: &str, expected| {
        let text = format!("y[b,o,i,j] := conv2d(x[b,c,h,w], f[o,c,p,q]{options})");
        case(&text, &[&x, &f], vec![expected])
    };
    vec![
        conv("", convolved(5, 7, 1, 0)),
        conv(", padding = 1", convolved(7, 9, 1, 1)),
        conv(", stride = 2, padding = 1", convolved(4, 5, 2, 1)),
        conv(", stride = 3", convolved(2, 3, 3, 0)),
        case(
            "y[b,c,i,j] := max_pool(x[b,c,h,w])",
            &[&x],
            vec![Array::of("y", &[2, 3, 3, 4], |at| {
                window(at[0], at[1], 2 * at[2], 2 * at[3], 2).into_iter().fold(f64::MIN, f64::max)
            })],
        ),
        case(
            "y[b,c,i,j] := avg_pool(x[b,c,h,w], window = 3, stride = 1)",
            &[&x],
            vec![Array::of("y", &[2, 3, 5, 6], |at| moments(&window(at[0], at[1], at[2], at[3], 3)).0)],
        ),
    ]
}

fn recurrent() -> Vec<Case> {
    let (x, h, c) = (Array::input("x", &[3, 5]), Array::input("h", &[3, 4]), Array::input("c", &[3, 4]));
    let weights = |gates: usize| {
        let inputs = |name, size| Array::input(name, &[gates, 4, size]).map(name, |w| w / 4.0);
        (inputs("wx", 5), inputs("wh", 4), Array::input("bx", &[gates, 4]), Array::input("bh", &[gates, 4]))
    };
    let of_input = |wx: &Array, b: usize, g: usize, u: usize| -> f64 {
        (0..5).map(|i| x.at([b, i]) * wx.at([g, u, i])).sum()
    };
    let of_state = |wh: &Array, b: usize, g: usize, u: usize| -> f64 {
        (0..4).map(|v| h.at([b, v]) * wh.at([g, u, v])).sum()
    };
    let (wx, wh, bias, _) = weights(4);
    let gate = |b, g, u| of_input(&wx, b, g, u) + of_state(&wh, b, g, u) + bias.at([g, u]);
    let cell = |b: usize, u: usize| {
        sigmoid(gate(b, 1, u)) * c.at([b, u]) + sigmoid(gate(b, 0, u)) * gate(b, 2, u).tanh()
    };
    let lstm = case(
        "h1[b,u], c1[b,u] := lstm_cell(x[b,i], h[b,v], c[b,u], wx[g,u,i], wh[g,u,v], bx[g,u])",
        &[&x, &h, &c, &wx, &wh, &bias],
        vec![
            Array::of("h1", &[3, 4], |at| sigmoid(gate(at[0], 3, at[1])) * cell(at[0], at[1]).tanh()),
            Array::of("c1", &[3, 4], |at| cell(at[0], at[1])),
        ],
    );
    let (wx, wh, bx, bh) = weights(3);
    let a = |b, g, u| of_input(&wx, b, g, u) + bx.at([g, u]);
    let d = |b, g, u| of_state(&wh, b, g, u) + bh.at([g, u]);
    let gru = case(
        "h1[b,u] := gru_cell(x[b,i], h[b,v], wx[g,u,i], wh[g,u,v], bx[g,u], bh[g,u])",
        &[&x, &h, &wx, &wh, &bx, &bh],
        vec![Array::of("h1", &[3, 4], |at| {
            let &[b, u] = at else { panic!("two axes") };
            let (r, z) = (sigmoid(a(b, 0, u) + d(b, 0, u)), sigmoid(a(b, 1, u) + d(b, 1, u)));
            (1.0 - z) * (a(b, 2, u) + r * d(b, 2, u)).tanh() + z * h.at([b, u])
        })],
    );
    vec![lstm, gru]
}

fn optimizers() -> Vec<Case> {
    let [w, g, m] = ["w", "g", "m"].map(|name| Array::input(name, &[3, 4]));
    let v = Array::input("v", &[3, 4]).map("v", f64::abs);
    let zip = |name, a: &Array, b: &Array, f: &dyn Fn(f64, f64) -> f64| {
        let values = a.values.iter().zip(&b.values).map(|(&a, &b)| f(a, b)).collect();
        Array { name, values, ..a.clone() }
    };
    let v1 = zip("v", &v, &g, &|v, g| 0.9 * v + g);
    let (am, av) =
        (zip("m", &m, &g, &|m, g| 0.9 * m + 0.1 * g), zip("v", &v, &g, &|v, g| 0.999 * v + 0.001 * g * g));
    let t = 3.0;
    let update = zip("w", &am, &av, &|m, v| {
        0.01 * m / (1.0 - 0.9f64.powf(t)) / ((v / (1.0 - 0.999f64.powf(t))).sqrt() + 1e-8)
    });
    let norm = g.values.iter().map(|g| g * g).sum::<f64>().sqrt();
    let rate = |step: f64| {
        let warm = ((step + 1.0) / 10.0).min(1.0);
        warm * (0.1 + 0.9 * (1.0 + (std::f64::consts::PI * (step / 100.0).min(1.0)).cos()) / 2.0)
    };
    let mut all = vec![
        case("sgd(w[i,o], g[i,o], 0.25)", &[&w, &g], vec![zip("w", &w, &g, &|w, g| w - 0.25 * g)]),
        case(
            "momentum(w[i,o], g[i,o], v[i,o], 0.25)",
            &[&w, &g, &v],
            vec![zip("w", &w, &v1, &|w, v| w - 0.25 * v), v1.clone()],
        ),
        bound(
            "count := @t where @t < 10
             adam(w[i,o], g[i,o], m[i,o], v[i,o], count, rate = 0.01)",
            &[3],
            &[&w, &g, &m, &v],
            vec![zip("w", &w, &update, &|w, update| w - update), am.clone(), av.clone()],
        ),
        case(
            "adamw(w[i,o], g[i,o], m[i,o], v[i,o], 3, rate = 0.01, decay = 5)",
            &[&w, &g, &m, &v],
            vec![zip("w", &w, &update, &|w, update| 0.95 * w - update), am, av],
        ),
        case(
            "clip_by_norm(g[i,o], sqrt(square_sum(g[i,o])), 1)",
            &[&g],
            vec![g.map("g", |g| g / (norm + 1e-6))],
        ),
        case("clip_by_norm(g[i,o], sqrt(square_sum(g[i,o])), 100)", &[&g], vec![g.map("g", |g| g)]),
    ];
    all.extend([0, 4, 50, 200].map(|step| {
        bound(
            "rate := warm_up(@step, 10) * cosine_decay(@step, 100, low = 0.1) where @step < 1000",
            &[step],
            &[],
            vec![Array::of("rate", &[], |_| rate(step as f64))],
        )
    }));
    all
}

fn grids() -> Vec<Case> {
    let u = Array::input("u", &[2, 4, 5]);
    let laplace = Array::of("y", &[2, 4, 5], |at| {
        let at = [at[0] as i64, at[1] as i64, at[2] as i64];
        let near = [[-1, 0], [1, 0], [0, -1], [0, 1]];
        let sum: f64 = near.iter().map(|by| u.padded([at[0], at[1] + by[0], at[2] + by[1]])).sum();
        sum - 4.0 * u.padded(at)
    });
    let [re, im] = ["re", "im"].map(|name| Array::input(name, &[3, 8, 2]));
    let transformed = |name, is_real: bool| {
        Array::of(name, &[3, 8, 2], |at| {
            let term = |n: usize| {
                let angle = -2.0 * std::f64::consts::PI * (n * at[1]) as f64 / 8.0;
                let (a, b) = (re.at([at[0], n, at[2]]), im.at([at[0], n, at[2]]));
                match is_real {
                    true => a * angle.cos() - b * angle.sin(),
                    false => a * angle.sin() + b * angle.cos(),
                }
            };
            (0..8).map(term).sum()
        })
    };
    vec![
        case("y[b,i,j] := laplace(u[b,i,j])", &[&u], vec![laplace]),
        case(
            "c[h], s[h] := fft_factors(4)
             r1[b,n,v], i1[b,n,v] := fft_stage(re[b,n,v], im[b,n,v], c[h], s[h], l = 4, m = 1)
             r2[b,n,v], i2[b,n,v] := fft_stage(r1[b,n,v], i1[b,n,v], c[h], s[h], l = 2, m = 2)
             y[b,n,v], z[b,n,v] := fft_stage(r2[b,n,v], i2[b,n,v], c[h], s[h], l = 1, m = 4)",
            &[&re, &im],
            vec![transformed("y", true), transformed("z", false)],
        ),
    ]
}

/// The sum over k < size.
fn sum(size: usize, f: impl Fn(usize) -> f64) -> f64 {
    (0..size).map(f).sum()
}

fn lenet() -> Case {
    const BATCH: usize = 2;
    let small = |name, dims: &[usize], by: f64| Array::input(name, dims).map(name, |w| w * by);
    let x = small("x", &[BATCH, 1, 28, 28], 0.5);
    let label = Array::integers("label", &[BATCH], 10);
    let (f1, b1) = (small("f1", &[6, 1, 5, 5], 0.1), small("b1", &[6], 0.2));
    let (f2, b2) = (small("f2", &[16, 6, 5, 5], 0.04), small("b2", &[16], 0.2));
    let (w3, b3) = (small("w3", &[16, 5, 5, 120], 0.03), small("b3", &[120], 0.2));
    let (w4, b4) = (small("w4", &[120, 84], 0.05), small("b4", &[84], 0.2));
    let (w5, b5) = (small("w5", &[84, 10], 0.05), small("b5", &[10], 0.2));
    let convolved = |x: &Array, f: &Array, bias: &Array, padding: usize| {
        let (channels, size) = (x.dims[1], x.dims[2] + 2 * padding - 4);
        Array::of("h", &[BATCH, f.dims[0], size, size], |at| {
            let place = |at: usize, k: usize| (at + k) as i64 - padding as i64;
            let value = sum(channels * 25, |k| {
                let (c, p, q) = (k / 25, k / 5 % 5, k % 5);
                x.padded([at[0] as i64, c as i64, place(at[2], p), place(at[3], q)]) * f.at([at[1], c, p, q])
            });
            (value + bias.at([at[1]])).max(0.0)
        })
    };
    let pooled = |h: &Array| {
        Array::of("p", &[BATCH, h.dims[1], h.dims[2] / 2, h.dims[3] / 2], |at| {
            let value = |k: usize| h.at([at[0], at[1], 2 * at[2] + k / 2, 2 * at[3] + k % 2]);
            (0..4).map(value).fold(f64::MIN, f64::max)
        })
    };
    let p1 = pooled(&convolved(&x, &f1, &b1, 2));
    let p2 = pooled(&convolved(&p1, &f2, &b2, 0));
    let h3 = Array::of("h3", &[BATCH, 120], |at| {
        let value =
            |k: usize| p2.at([at[0], k / 25, k / 5 % 5, k % 5]) * w3.at([k / 25, k / 5 % 5, k % 5, at[1]]);
        (sum(400, value) + b3.at([at[1]])).max(0.0)
    });
    let h4 = Array::of("h4", &[BATCH, 84], |at| {
        (sum(120, |k| h3.at([at[0], k]) * w4.at([k, at[1]])) + b4.at([at[1]])).max(0.0)
    });
    let loss = |b: usize| {
        let logit = |k: usize| sum(84, |i| h4.at([b, i]) * w5.at([i, k])) + b5.at([k]);
        -softmax(&(0..10).map(logit).collect::<Vec<_>>())[label.at([b]) as usize].ln()
    };
    let expected = vec![Array::of("loss", &[], |_| sum(BATCH, loss) / BATCH as f64)];
    let inputs = [&x, &label, &f1, &b1, &f2, &b2, &w3, &b3, &w4, &b4, &w5, &b5];
    Case {
        sizes: &[("batch", BATCH)],
        ..case(listing("input x f32[batch, 1, 28, 28], label i32[batch]"), &inputs, expected)
    }
}

fn transformer_block() -> Case {
    const SIZES: &[(&str, usize)] = &[("batch", 2), ("time", 5), ("heads", 2), ("width", 4)];
    let (batch, time, heads, width, d) = (2, 5, 2, 4, 8);
    let small = |name, dims: &[usize]| Array::input(name, dims).map(name, |w| w * 0.25);
    let x = Array::input("x", &[batch, time, d]);
    let [gain1, shift1, gain2, shift2, b2] =
        ["gain1", "shift1", "gain2", "shift2", "b2"].map(|name| Array::input(name, &[d]));
    let [wq, wk, wv] = ["wq", "wk", "wv"].map(|name| small(name, &[d, heads, width]));
    let (wo, w1) = (small("wo", &[heads, width, d]), small("w1", &[d, 4 * d]));
    let (b1, w2) = (Array::input("b1", &[4 * d]), small("w2", &[4 * d, d]));
    let normalized = |x: &Array, gain: &Array, shift: &Array| {
        Array::of("n", &[batch, time, d], |at| {
            let row: Vec<f64> = (0..d).map(|i| x.at([at[0], at[1], i])).collect();
            let (mean, variance) = moments(&row);
            (row[at[2]] - mean) / (variance + 1e-5).sqrt() * gain.at([at[2]]) + shift.at([at[2]])
        })
    };
    let n = normalized(&x, &gain1, &shift1);
    let projected = |w: &Array| {
        Array::of("q", &[batch, heads, time, width], |at| {
            sum(d, |i| n.at([at[0], at[2], i]) * w.at([i, at[1], at[3]]))
        })
    };
    let (q, k, v) = (projected(&wq), projected(&wk), projected(&wv));
    let attended = Array::of("a", &[batch, heads, time, width], |at| {
        let score = |j: usize| {
            sum(width, |e| q.at([at[0], at[1], at[2], e]) * k.at([at[0], at[1], j, e]))
                / (width as f64).sqrt()
        };
        let weights = softmax(&(0..=at[2]).map(score).collect::<Vec<_>>());
        sum(weights.len(), |j| weights[j] * v.at([at[0], at[1], j, at[3]]))
    });
    let r = Array::of("r", &[batch, time, d], |at| {
        let part = |k: usize| {
            attended.at([at[0], k / width, at[1], k % width]) * wo.at([k / width, k % width, at[2]])
        };
        x.at([at[0], at[1], at[2]]) + sum(heads * width, part)
    });
    let m = normalized(&r, &gain2, &shift2);
    let g = Array::of("g", &[batch, time, 4 * d], |at| {
        let u = sum(d, |i| m.at([at[0], at[1], i]) * w1.at([i, at[2]])) + b1.at([at[2]]);
        u / 2.0 * (1.0 + erf(u / 2f64.sqrt()))
    });
    let y = Array::of("y", &[batch, time, d], |at| {
        let fed = sum(4 * d, |o| g.at([at[0], at[1], o]) * w2.at([o, at[2]]));
        r.at([at[0], at[1], at[2]]) + fed + b2.at([at[2]])
    });
    let inputs = [&x, &gain1, &shift1, &gain2, &shift2, &wq, &wk, &wv, &wo, &w1, &b1, &w2, &b2];
    Case { sizes: SIZES, ..case(listing("input x f32[batch, time, d]"), &inputs, vec![y]) }
}
