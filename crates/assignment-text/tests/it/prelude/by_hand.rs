//! Calls of every function of the prelude beside the same computation without functions. After the optimizer
//! both are the same routine, so a call costs as much as the statements by hand.

use std::collections::{BTreeMap, BTreeSet};

use assignment_text::Program;
use assignments::lower::{LowerOptions, lower};
use lowered_ir::passes::OptimizeSettings;
use lowered_ir::pipeline::optimize;

/// Declarations that both programs share, the call, and the program without functions.
struct ByHand(&'static str, &'static str, &'static str);

const ALL: &[ByHand] = &[
    ByHand(
        X,
        "y[i,j,k] := log_sigmoid(x[i,j,k])",
        "y[i,j,k] := min(x[i,j,k], 0) - log1p(exp(-abs(x[i,j,k])))",
    ),
    ByHand(
        X,
        "y[i,j,k] := softplus(x[i,j,k])",
        "y[i,j,k] := max(x[i,j,k], 0) + log1p(exp(-abs(x[i,j,k])))",
    ),
    ByHand(
        X,
        "y[i,j,k] := silu(x[i,j,k], 0.5)",
        "u[i,j,k] := 0.5 * x[i,j,k]
         y[i,j,k] := x[i,j,k] * sigmoid(u[i,j,k])",
    ),
    ByHand(
        X,
        "y[i,j,k] := mish(x[i,j,k])",
        "y[i,j,k] := x[i,j,k] * tanh(max(x[i,j,k], 0) + log1p(exp(-abs(x[i,j,k]))))",
    ),
    ByHand(
        X,
        "y[i,j,k] := gelu(x[i,j,k])",
        "y[i,j,k] := 0.5 * x[i,j,k] * erfc(-0.7071067811865476 * x[i,j,k])",
    ),
    ByHand(
        X,
        "y[i,j,k] := gelu_tanh(x[i,j,k])",
        "u[i,j,k] := 1.5957691216057308 * (x[i,j,k] + 0.044715 * x[i,j,k] * x[i,j,k] * x[i,j,k])
         y[i,j,k] := x[i,j,k] * sigmoid(u[i,j,k])",
    ),
    ByHand(
        X,
        "y[i,j,k] := elu(x[i,j,k], 0.5)",
        "y[i,j,k] := where(x[i,j,k] > 0, x[i,j,k], 0.5 * expm1(where(x[i,j,k] > 0, 0, x[i,j,k])))",
    ),
    ByHand(
        X,
        "y[i,j,k] := celu(x[i,j,k], 0.5)",
        "y[i,j,k] := where(x[i,j,k] > 0, x[i,j,k], 0.5 * expm1(where(x[i,j,k] > 0, 0, x[i,j,k]) / 0.5))",
    ),
    ByHand(
        X,
        "y[i,j,k] := selu(x[i,j,k])",
        "e[i,j,k] := where(x[i,j,k] > 0, x[i,j,k], 1.6732632423543772 * expm1(where(x[i,j,k] > 0, 0, x[i,j,k])))
         y[i,j,k] := 1.0507009873554805 * e[i,j,k]",
    ),
    ByHand(
        X,
        "y[i,j,k] := hard_sigmoid(x[i,j,k])",
        "y[i,j,k] := satur01(0.16666666666666666 * x[i,j,k] + 0.5)",
    ),
    ByHand(
        X,
        "y[i,j,k] := hard_swish(x[i,j,k])",
        "y[i,j,k] := x[i,j,k] * satur01(0.16666666666666666 * x[i,j,k] + 0.5)",
    ),
    ByHand(X, "y[i,j,k] := softsign(x[i,j,k])", "y[i,j,k] := x[i,j,k] / (1 + abs(x[i,j,k]))"),
    ByHand(X, "y[i,j,k] := tan(x[i,j,k])", "y[i,j,k] := sin(x[i,j,k]) / cos(x[i,j,k])"),
    ByHand(
        X,
        "y[i,j,k] := asin(x[i,j,k])",
        "y[i,j,k] := 2 * atan(x[i,j,k] / (1 + sqrt(fma(-x[i,j,k], x[i,j,k], 1))))",
    ),
    ByHand(
        X,
        "y[i,j,k] := acos(x[i,j,k])",
        "q[i,j,k] := where(x[i,j,k] < 0, -x[i,j,k], x[i,j,k])
         a[i,j,k] := 2 * atan(sqrt(fma(-q[i,j,k], q[i,j,k], 1)) / (1 + q[i,j,k]))
         y[i,j,k] := where(x[i,j,k] < 0, 3.141592653589793 - a[i,j,k], a[i,j,k])",
    ),
    ByHand(
        X,
        "y[i,j,k] := sinh(x[i,j,k])",
        "p[i,j,k] := expm1(0.5 * where(x[i,j,k] < -80, -80, x[i,j,k]))
         q[i,j,k] := expm1(-0.5 * where(x[i,j,k] < 80, x[i,j,k], 80))
         y[i,j,k] := 0.5 * (p[i,j,k] - q[i,j,k]) * (p[i,j,k] + q[i,j,k] + 2)",
    ),
    ByHand(
        X,
        "y[i,j,k] := cosh(x[i,j,k])",
        "p[i,j,k] := expm1(0.5 * where(x[i,j,k] < -80, -80, x[i,j,k]))
         h[i,j,k] := p[i,j,k] - expm1(-0.5 * where(x[i,j,k] < 80, x[i,j,k], 80))
         y[i,j,k] := 1 + 0.5 * h[i,j,k] * h[i,j,k]",
    ),
    ByHand(
        X,
        "y[i,j,k] := asinh(x[i,j,k])",
        "q[i,j,k] := where(x[i,j,k] < 0, -x[i,j,k], x[i,j,k])
         s[i,j,k] := where(q[i,j,k] < 1e10, q[i,j,k], 0)
         r[i,j,k] := log1p(s[i,j,k] + s[i,j,k] * (s[i,j,k] / (1 + sqrt(1 + s[i,j,k] * s[i,j,k]))))
         a[i,j,k] := where(q[i,j,k] < 1e10, r[i,j,k], log(where(q[i,j,k] < 1e10, 1, q[i,j,k])) + 0.6931471805599453)
         y[i,j,k] := where(x[i,j,k] == 0, x[i,j,k], where(x[i,j,k] < 0, -a[i,j,k], a[i,j,k]))",
    ),
    ByHand(
        X,
        "y[i,j,k] := acosh(x[i,j,k])",
        "t[i,j,k] := where(x[i,j,k] < 1e10, x[i,j,k], 2) - 1
         r[i,j,k] := log1p(t[i,j,k] + sqrt(t[i,j,k]) * sqrt(t[i,j,k] + 2))
         y[i,j,k] := where(x[i,j,k] < 1e10, r[i,j,k], log(where(x[i,j,k] < 1e10, 1, x[i,j,k])) + 0.6931471805599453)",
    ),
    ByHand(X, "y[i,j,k] := atanh(x[i,j,k])", "y[i,j,k] := 0.5 * (log1p(x[i,j,k]) - log1p(-x[i,j,k]))"),
    ByHand(
        X,
        "y[i,j,k] := maxnum(x[i,j,k], x[i,j,k] * x[i,j,k])",
        "r[i,j,k] := x[i,j,k] * x[i,j,k]
         y[i,j,k] := where(x[i,j,k] == x[i,j,k],
             where(r[i,j,k] == r[i,j,k], max(x[i,j,k], r[i,j,k]), x[i,j,k]), r[i,j,k])",
    ),
    ByHand(
        X,
        "y[i,j,k] := minnum(x[i,j,k], x[i,j,k] * x[i,j,k])",
        "r[i,j,k] := x[i,j,k] * x[i,j,k]
         y[i,j,k] := where(x[i,j,k] == x[i,j,k],
             where(r[i,j,k] == r[i,j,k], min(x[i,j,k], r[i,j,k]), x[i,j,k]), r[i,j,k])",
    ),
    ByHand(
        X,
        "y[i,j,k] := dropout(x[i,j,k], 0.5, 7, @t) where @t < 10",
        "y[i,j,k] := where(uniform(7, @t, i, j, k) < 0.5, 0, x[i,j,k] / 0.5) where @t < 10",
    ),
    ByHand(
        QKV,
        "y[b,i,d] := attention(q[b,i,c], k[b,j,c], v[b,j,d])",
        "r[b,i,c] := q[b,i,c] * recip_sqrt(f32(4))
         s[b,i,j] :+= r[b,i,c] * k[b,j,c]
         m[b,i] :max= s[b,i,j]
         e[b,i,j] := exp(s[b,i,j] - m[b,i])
         z[b,i] :+= e[b,i,j]
         p[b,i,j] := e[b,i,j] / z[b,i]
         y[b,i,d] :+= p[b,i,j] * v[b,j,d]",
    ),
    ByHand(
        QKV,
        "y[b,i,d] := causal_attention(q[b,i,c], k[b,j,c], v[b,j,d])",
        "r[b,i,c] := q[b,i,c] * recip_sqrt(f32(4))
         s[b,i,j] :+= r[b,i,c] * k[b,j,c] where j <= i
         m[b,i] :max= s[b,i,j] where j <= i
         e[b,i,j] :+= exp(s[b,i,j] - m[b,i]) where j <= i
         z[b,i] :+= e[b,i,j] where j <= i
         o[b,i,d] :+= e[b,i,j] * v[b,j,d] where j <= i
         y[b,i,d] := o[b,i,d] / z[b,i]",
    ),
    ByHand(
        "input table f32[7, 3], ids i32[2, 4]",
        "y[b,t,e] := embedding(table[v,e], ids[b,t])",
        "y[b,t,e] := table[ids[b,t], e]",
    ),
    ByHand(
        "input x f32[2, 5, 6]",
        "y[b,t,c] := rotary(x[b,t,c])",
        "a[t,i] := t * exp(-log(10000.0) * i / 3) where t < 5, i < 3
         y[b,t,i^j] := x[b,t,i] * cos(a[t,i]) - x[b,t,i + 3] * sin(a[t,i]),
            x[b,t,j + 3] * cos(a[t,j]) + x[b,t,j] * sin(a[t,j]) where i < 3, j < 3",
    ),
    ByHand(
        IMAGES,
        "y[b,o,i,j] := conv2d(x[b,c,h,w], f[o,c,p,q])",
        "y[b,o,i,j] :+= x[b, c, i + p, j + q] * f[o,c,p,q]",
    ),
    ByHand(
        IMAGES,
        "y[b,o,i,j] := conv2d(x[b,c,h,w], f[o,c,p,q], stride = 2, padding = 1)",
        "y[b,o,i,j] :+= pad(x, 0)[b, c, 2*i + p - 1, 2*j + q - 1] * f[o,c,p,q] where b < 2, i < 4, j < 4",
    ),
    ByHand(
        IMAGES,
        "y[b,c,i,j] := max_pool(x[b,c,h,w])",
        "y[b,c,i,j] :max= x[b, c, 2*i + p, 2*j + q] where p < 2, q < 2",
    ),
    ByHand(
        IMAGES,
        "y[b,c,i,j] := avg_pool(x[b,c,h,w])",
        "y[b,c,i,j] :+= x[b, c, 2*i + p, 2*j + q] / 4 where p < 2, q < 2",
    ),
    ByHand(
        "input u f32[4, 6]",
        "y[i,j] := laplace(u[i,j])",
        "y[i,j] := pad(u, 0)[i - 1, j] + pad(u, 0)[i + 1, j] + pad(u, 0)[i, j - 1] + pad(u, 0)[i, j + 1]
            - 4 * u[i,j]",
    ),
    ByHand(
        "input re f32[8, 3], im f32[8, 3], c f32[4], s f32[4]",
        "y[n,v], z[n,v] := fft_stage(re[n,v], im[n,v], c[h], s[h], l = 2, m = 2)
         keep z",
        "dr[j,p,k,v] := re[2*j + k, v] + (1 - 2*p) * re[2*j + k + 4, v] where j < 2, p < 2, k < 2
         di[j,p,k,v] := im[2*j + k, v] + (1 - 2*p) * im[2*j + k + 4, v] where j < 2, p < 2, k < 2
         y[4*j + 2*p + k, v] := where(p == 0, dr[j,p,k,v], dr[j,p,k,v] * c[2*j] - di[j,p,k,v] * s[2*j])
         z[4*j + 2*p + k, v] := where(p == 0, di[j,p,k,v], dr[j,p,k,v] * s[2*j] + di[j,p,k,v] * c[2*j])
         keep z",
    ),
    ByHand(
        "input x f32[4]",
        "c[j], s[j] := fft_factors(4)
         y[j] := x[j] * c[j]
         keep s",
        "c[j] := cos(-3.141592653589793 * j / 4) where j < 4
         s[j] := sin(-3.141592653589793 * j / 4) where j < 4
         y[j] := x[j] * c[j]
         keep s",
    ),
    ByHand(
        "input x f32[2, 6], label i32[2]",
        "y[b] := cross_entropy(x[b,k], label[b])",
        "m[b] :max= x[b,k]
         s[b] :+= exp(x[b,k] - m[b])
         y[b] := where(label[b] == -100, 0, log(s[b]) + m[b] - x[b, label[b]])",
    ),
    ByHand(
        "input x f32[3, 4], z f32[3, 4]",
        "y := mse(x[i,j], z[i,j])",
        "s :+= (x[i,j] - z[i,j]) * (x[i,j] - z[i,j]) / 12; y := s",
    ),
    ByHand(
        ROWS,
        "y[b,k] := softmax(x[b,k])",
        "m[b] :max= x[b,k]; e[b,k] := exp(x[b,k] - m[b]); z[b] :+= e[b,k]; y[b,k] := e[b,k] / z[b]",
    ),
    ByHand(
        ROWS,
        "y[b,k] := log_softmax(x[b,k])",
        "m[b] :max= x[b,k]; z[b] :+= exp(x[b,k] - m[b]); y[b,k] := x[b,k] - m[b] - log(z[b])",
    ),
    ByHand(
        ROWS,
        "y[b,k] := layer_norm(x[b,k], gain[k], bias[k])",
        "m[b] :+= x[b,k] / 6
         v[b] :+= (x[b,k] - m[b]) * (x[b,k] - m[b]) / 6
         y[b,k] := (x[b,k] - m[b]) * recip_sqrt(v[b] + 1e-5) * gain[k] + bias[k]",
    ),
    ByHand(
        ROWS,
        "y[b,k] := rms_norm(x[b,k], gain[k])",
        "q[b] :+= x[b,k] * x[b,k] / 6; y[b,k] := x[b,k] * recip_sqrt(q[b] + 1e-6) * gain[k]",
    ),
    ByHand(
        CHANNELS,
        "y[b,c,i] := batch_norm(x[b,c,i], gain[c], bias[c], mean[c], variance[c])",
        "y[b,c,i] := (x[b,c,i] - mean[c]) * recip_sqrt(variance[c] + 1e-5) * gain[c] + bias[c]",
    ),
    ByHand(
        CHANNELS,
        "y[b,c,i] := batch_norm_train(x[b,c,i], gain[c], bias[c], mean[c], variance[c])",
        "m[c] :+= x[b,c,i] / 10
         v[c] :+= (x[b,c,i] - m[c]) * (x[b,c,i] - m[c]) / 10
         u[c] :+= (x[b,c,i] - m[c]) * (x[b,c,i] - m[c]) / 9
         mean[c] := (1 - 0.1) * mean[c] + 0.1 * m[c]
         variance[c] := (1 - 0.1) * variance[c] + 0.1 * u[c]
         y[b,c,i] := (x[b,c,i] - m[c]) * recip_sqrt(v[c] + 1e-5) * gain[c] + bias[c]",
    ),
    ByHand(WEIGHTS, "sgd(w[i,o], g[i,o], 0.25)", "w[i,o] -= 0.25 * g[i,o]"),
    ByHand(
        WEIGHTS,
        "momentum(w[i,o], g[i,o], v[i,o], 0.25)",
        "v[i,o] := 0.9 * v[i,o] + g[i,o]; w[i,o] -= 0.25 * v[i,o]",
    ),
    ByHand(
        WEIGHTS,
        "count := @t where @t < 10; adam(w[i,o], g[i,o], m[i,o], v[i,o], count)",
        "count := @t where @t < 10
         m[i,o] := 0.9 * m[i,o] + (1 - 0.9) * g[i,o]
         v[i,o] := 0.999 * v[i,o] + (1 - 0.999) * g[i,o] * g[i,o]
         a := 0.001 / (1 - pow(0.9, count))
         c := recip(1 - pow(0.999, count))
         w[i,o] -= a * m[i,o] / (sqrt(c * v[i,o]) + 1e-8)",
    ),
    ByHand(
        WEIGHTS,
        "adamw(w[i,o], g[i,o], m[i,o], v[i,o], 3)",
        "w[i,o] *= 1 - 0.001 * 0.01
         m[i,o] := 0.9 * m[i,o] + (1 - 0.9) * g[i,o]
         v[i,o] := 0.999 * v[i,o] + (1 - 0.999) * g[i,o] * g[i,o]
         a := 0.001 / (1 - pow(0.9, 3))
         c := recip(1 - pow(0.999, 3))
         w[i,o] -= a * m[i,o] / (sqrt(c * v[i,o]) + 1e-8)",
    ),
    ByHand(WEIGHTS, "y := square_sum(g[i,o])", "s :+= g[i,o] * g[i,o]; y := s"),
    ByHand(
        WEIGHTS,
        "norm :+= m[i,o]; clip_by_norm(w[i,o], norm, 2)",
        "norm :+= m[i,o]; by := min(1, 2 / (norm + 1e-6)); w[i,o] *= by",
    ),
    ByHand(
        "",
        "y := warm_up(@step, 10) where @step < 100",
        "y := min(1, (f32(@step) + 1) / 10) where @step < 100",
    ),
    ByHand(
        "",
        "y := cosine_decay(@step, 10, low = 0.1) where @step < 100",
        "y := 0.1 + (1 - 0.1) * (0.5 + 0.5 * cos(3.141592653589793 * min(1, f32(@step) / 10))) where @step < 100",
    ),
    ByHand(
        CELL,
        "y[b,u], z[b,u] := lstm_cell(x[b,i], h[b,v], c[b,u], wx[g,u,i], wh[g,u,v], bx[g,u])
         keep z",
        "a[b,g,u] :+= x[b,i] * wx[g,u,i]
         a[b,g,u] += h[b,v] * wh[g,u,v]
         u1[b,u] := a[b,1,u] + bx[1,u]
         u2[b,u] := a[b,0,u] + bx[0,u]
         z[b,u] := sigmoid(u1[b,u]) * c[b,u]
            + sigmoid(u2[b,u]) * tanh(a[b,2,u] + bx[2,u])
         u3[b,u] := a[b,3,u] + bx[3,u]
         y[b,u] := sigmoid(u3[b,u]) * tanh(z[b,u])
         keep z",
    ),
    ByHand(
        "input x f32[3, 5], h f32[3, 4], wx f32[3, 4, 5], wh f32[3, 4, 4], bx f32[3, 4], bh f32[3, 4]",
        "y[b,u] := gru_cell(x[b,i], h[b,v], wx[g,u,i], wh[g,u,v], bx[g,u], bh[g,u])",
        "a[b,g,u] :+= x[b,i] * wx[g,u,i]
         d[b,g,u] :+= h[b,v] * wh[g,u,v]
         u4[b,u] := a[b,0,u] + bx[0,u] + d[b,0,u] + bh[0,u]
         r[b,u] := sigmoid(u4[b,u])
         u5[b,u] := a[b,1,u] + bx[1,u] + d[b,1,u] + bh[1,u]
         z[b,u] := sigmoid(u5[b,u])
         n[b,u] := tanh(a[b,2,u] + bx[2,u] + r[b,u] * (d[b,2,u] + bh[2,u]))
         y[b,u] := (1 - z[b,u]) * n[b,u] + z[b,u] * h[b,u]",
    ),
];

const X: &str = "input x f32[3, 4, 5]";
const ROWS: &str = "input x f32[2, 6], gain f32[6], bias f32[6]";
const QKV: &str = "input q f32[2, 5, 4], k f32[2, 5, 4], v f32[2, 5, 3]";
const IMAGES: &str = "input x f32[2, 3, 7, 7], f f32[4, 3, 3, 3]";
const CHANNELS: &str =
    "input x f32[2, 3, 5], gain f32[3], bias f32[3]; param mean f32[3] := 0, variance f32[3] := 1";
const WEIGHTS: &str = "input g f32[3, 4]; param w f32[3, 4] := 1, m f32[3, 4] := 0, v f32[3, 4] := 0";
const CELL: &str =
    "input x f32[3, 5], h f32[3, 4], c f32[3, 4], wx f32[4, 4, 5], wh f32[4, 4, 4], bx f32[4, 4]";

/// The statements of a program after the optimizer, with nodes, loops and locals numbered in the order of
/// their first mention, and the types and dimensions of these nodes.
fn optimized(declarations: &str, statements: &str) -> String {
    let keep = if statements.split([' ', '\n']).any(|word| word == "y" || word.starts_with("y[")) {
        "keep y"
    } else {
        ""
    };
    let text = format!("{declarations}\n{statements}\n{keep}");
    let program = Program::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let assignments = program.assignments(&[]).unwrap_or_else(|error| panic!("{error}"));
    let lowered = lower(&assignments, &LowerOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let optimized = optimize(lowered.lowered.routine, &OptimizeSettings::default());
    let routine = optimized.unwrap_or_else(|error| panic!("{error}")).routine;
    let printed = lowered_ir::text::print(&routine);
    let is_statement = |line: &&str| {
        line.starts_with("  ") && !line.trim_start().starts_with("node ") && !line.contains("comment")
    };
    let mut numbers = FirstMentions::default();
    let mut out: String =
        printed.lines().filter(is_statement).map(|line| numbers.renumbered(line) + "\n").collect();
    let shape = |(name, to): (&String, &String)| {
        let node = &routine.nodes[name.strip_prefix('%')?.parse::<usize>().ok()?];
        Some(format!("{to}: {} {:?}\n", node.dtype, node.dims))
    };
    let shapes: BTreeSet<String> = numbers.0.iter().filter_map(shape).collect();
    out.extend(shapes);
    out
}

/// New names of nodes, loops and locals, by the old ones.
#[derive(Default)]
struct FirstMentions(BTreeMap<String, String>);

impl FirstMentions {
    fn renumbered(&mut self, line: &str) -> String {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "%@_.".contains(c);
        let mut out = String::new();
        let mut rest = line;
        while let Some(start) = rest.find(is_name) {
            let end = rest[start..].find(|c| !is_name(c)).map_or(rest.len(), |len| start + len);
            out += &rest[..start];
            // Types are followed by a parenthesis or a bracket: `index i32(i3)`, `declare l0 i32[]`.
            let is_type = rest[start..].starts_with('i') && rest[end..].starts_with(['(', '[']);
            out += &if is_type { rest[start..end].to_owned() } else { self.name(&rest[start..end]) };
            rest = &rest[end..];
        }
        out + rest
    }

    fn name(&mut self, word: &str) -> String {
        let (kind, number) = word.split_at(1);
        if !"%il".contains(kind) || number.parse::<u32>().is_err() {
            return word.to_owned();
        }
        let of_kind = self.0.keys().filter(|name| name.starts_with(kind)).count();
        self.0.entry(word.to_owned()).or_insert_with(|| format!("{kind}{of_kind}")).clone()
    }
}

#[test]
fn calls_are_the_routines_of_statements_by_hand() {
    let difference = |ByHand(declarations, call, by_hand): &ByHand| {
        let (found, expected) = (optimized(declarations, call), optimized(declarations, by_hand));
        (found != expected).then(|| format!("{call}\n{found}\nby hand\n{expected}"))
    };
    let differences: Vec<String> = ALL.iter().filter_map(difference).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Every function that the sources define is called above.
#[test]
fn every_function_is_compared() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("prelude");
    let files = std::fs::read_dir(folder).expect("the folder of the sources");
    let sources = files.map(|file| std::fs::read_to_string(file.expect("a file").path()).expect("text"));
    let names = |source: String| -> Vec<String> {
        let definitions = source.lines().filter_map(|line| line.strip_prefix("def "));
        definitions.map(|line| line.split('(').next().expect("a first part").to_owned()).collect()
    };
    let defined: BTreeSet<String> = sources.flat_map(names).collect();
    let is_called = |name: &&String| ALL.iter().any(|ByHand(_, call, _)| call.contains(&format!("{name}(")));
    let missing: Vec<&String> = defined.iter().filter(|name| !is_called(name)).collect();
    assert!(missing.is_empty() && defined.len() > 30, "{missing:?}");
}
