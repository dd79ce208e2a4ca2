//! A small GPT: a training step, the logits of a window, and one letter at the end of caches.
//!
//! Source: Radford, Wu, Child, Luan, Amodei and Sutskever, Language models are unsupervised multitask
//! learners, 2019.

use arrayjit::{DType, MemoryMode};

use super::{
    contractions::product_flops,
    parameters::{EARLIER_STEPS, Optimizer, Parameters},
};
use crate::{
    case::{Case, Init, Name, Node, Operation, Traffic},
    data_parallel::{BATCH, SplitStep},
};

/// The sizes of the model and of the windows that it reads.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    positions: usize,
    width: usize,
    layers: usize,
    heads: usize,
    vocabulary: usize,
}

const TRAINED: Sizes =
    Sizes { batch: BATCH, positions: 128, width: 256, layers: 4, heads: 8, vocabulary: 256 };
const READ: Sizes = Sizes { batch: 1, positions: 256, ..TRAINED };
const LARGE: Sizes = Sizes { batch: 8, positions: 1024, width: 768, heads: 12, ..TRAINED };
const SMALL: Sizes = Sizes { batch: 2, positions: 6, width: 8, layers: 2, heads: 2, vocabulary: 12 };

pub(super) fn all() -> Vec<Case> {
    vec![
        train("gpt_train_8x128x256", TRAINED).checked_in_small(train("gpt_train_2x6x8", SMALL)),
        forward("gpt_forward_1x256", READ).checked_in_small(forward("gpt_forward_2x6", SMALL)),
        train_in_bf16("gpt_train_bf16_8x1024x768", LARGE)
            .checked_in_small(train_in_bf16("gpt_train_bf16", SMALL)),
        decode("gpt_decode_1", READ).checked_in_small(decode("gpt_decode_small", SMALL)),
    ]
}

/// The logits of windows of letters.
const WINDOWS: &str = "
r[0][b,i,c] := embed[ids[b,i], c] + place[i,c]
repeat l in 0..layers {
    n[l][b,i,c] := layer_norm(r[l][b,i,c], gain1[l][c], shift1[l][c])
    p[l][b,i,k,h,e] :+= n[l][b,i,c] * wqkv[l][c,k,h,e]
    query[l][b,h,i,e] := p[l][b,i,0,h,e] + bqkv[l][0,h,e]
    key[l][b,h,i,e] := p[l][b,i,1,h,e] + bqkv[l][1,h,e]
    value[l][b,h,i,e] := p[l][b,i,2,h,e] + bqkv[l][2,h,e]
    a[l][b,h,i,d] := causal_attention(query[l][b,h,i,e], key[l][b,h,j,e], value[l][b,h,j,d])
    s[l][b,i,c] :+= a[l][b,h,i,e] * wo[l][h,e,c]
    x[l][b,i,c] := s[l][b,i,c] + bo[l][c] + r[l][b,i,c]
    m[l][b,i,c] := layer_norm(x[l][b,i,c], gain2[l][c], shift2[l][c])
    u[l][b,i,o] :+= m[l][b,i,c] * w1[l][c,o]
    g[l][b,i,o] := gelu_tanh(u[l][b,i,o] + b1[l][o])
    z[l][b,i,c] :+= g[l][b,i,o] * w2[l][o,c]
    r[l + 1][b,i,c] := z[l][b,i,c] + b2[l][c] + x[l][b,i,c]
}
y[b,i,c] := layer_norm(r[layers][b,i,c], gain3[c], shift3[c])
logits[b,i,v] :+= y[b,i,c] * head[c,v]
";

/// [`WINDOWS`] as mixed precision has it: weights, norms and the sums of layers in f32; products of copies in
/// bf16, whose results are rounded to bf16.
const WINDOWS_IN_BF16: &str = "
r[0][b,i,c] := embed[ids[b,i], c] + place[i,c]
repeat l in 0..layers {
    wqkv_[l][c,k,h,e] := bf16(wqkv[l][c,k,h,e])
    wo_[l][h,e,c] := bf16(wo[l][h,e,c])
    w1_[l][c,o] := bf16(w1[l][c,o])
    w2_[l][o,c] := bf16(w2[l][o,c])
    n[l][b,i,c] := bf16(layer_norm(r[l][b,i,c], gain1[l][c], shift1[l][c]))
    p[l][b,i,k,h,e] :+= f32(n[l][b,i,c]) * f32(wqkv_[l][c,k,h,e])
    p_[l][b,i,k,h,e] := bf16(p[l][b,i,k,h,e] + bqkv[l][k,h,e])
    query[l][b,h,i,e] := p_[l][b,i,0,h,e]
    key[l][b,h,i,e] := p_[l][b,i,1,h,e]
    value[l][b,h,i,e] := p_[l][b,i,2,h,e]
    a[l][b,i,h,d] := causal_attention(query[l][b,h,i,e], key[l][b,h,j,e], value[l][b,h,j,d])
    s[l][b,i,c] :+= f32(a[l][b,i,h,e]) * f32(wo_[l][h,e,c])
    s_[l][b,i,c] := bf16(s[l][b,i,c] + bo[l][c])
    x[l][b,i,c] := s_[l][b,i,c] + r[l][b,i,c]
    m[l][b,i,c] := bf16(layer_norm(x[l][b,i,c], gain2[l][c], shift2[l][c]))
    u[l][b,i,o] :+= f32(m[l][b,i,c]) * f32(w1_[l][c,o])
    u_[l][b,i,o] := bf16(u[l][b,i,o] + b1[l][o])
    g[l][b,i,o] := bf16(gelu_tanh(f32(u_[l][b,i,o])))
    z[l][b,i,c] :+= f32(g[l][b,i,o]) * f32(w2_[l][o,c])
    z_[l][b,i,c] := bf16(z[l][b,i,c] + b2[l][c])
    r[l + 1][b,i,c] := z_[l][b,i,c] + x[l][b,i,c]
}
y[b,i,c] := bf16(layer_norm(r[layers][b,i,c], gain3[c], shift3[c]))
head_[c,v] := bf16(head[c,v])
t[b,i,v] :+= f32(y[b,i,c]) * f32(head_[c,v])
t_[b,i,v] := bf16(t[b,i,v])
logits[b,i,v] := f32(t_[b,i,v])
";

/// The mean cross-entropy of the letters that follow.
const LOSS: &str = "loss :+= cross_entropy(logits[b,i,v], label[b,i]) / (size(b) * size(i))";

/// The logits of one letter, which stands at the position `@pos` of caches of keys and values.
const LETTER: &str = "
r[0][c] := embed[letter[], c] + place[@pos, c]
repeat l in 0..layers {
    n[l][c] := layer_norm(r[l][c], gain1[l][c], shift1[l][c])
    p[l][k,h,e] :+= n[l][c] * wqkv[l][c,k,h,e]
    keys[l][h,@pos,e] := p[l][1,h,e] + bqkv[l][1,h,e]
    values[l][h,@pos,e] := p[l][2,h,e] + bqkv[l][2,h,e]
    query[l][h,e] := (p[l][0,h,e] + bqkv[l][0,h,e]) * recip_sqrt(f32(size(e)))
    score[l][h,j] :+= query[l][h,e] * keys[l][h,j,e] where j <= @pos
    most[l][h] :max= score[l][h,j] where j <= @pos
    weight[l][h,j] :+= exp(score[l][h,j] - most[l][h]) where j <= @pos
    total[l][h] :+= weight[l][h,j] where j <= @pos
    a[l][h,e] :+= weight[l][h,j] * values[l][h,j,e] where j <= @pos
    s[l][c] :+= a[l][h,e] / total[l][h] * wo[l][h,e,c]
    x[l][c] := s[l][c] + bo[l][c] + r[l][c]
    m[l][c] := layer_norm(x[l][c], gain2[l][c], shift2[l][c])
    u[l][o] :+= m[l][c] * w1[l][c,o]
    g[l][o] := gelu_tanh(u[l][o] + b1[l][o])
    z[l][c] :+= g[l][o] * w2[l][o,c]
    r[l + 1][c] := z[l][c] + b2[l][c] + x[l][c]
}
y[c] := layer_norm(r[layers][c], gain3[c], shift3[c])
logits[v] :+= y[c] * head[c,v]
";

impl Sizes {
    fn parameters(self) -> Parameters {
        let Sizes { positions, width, layers, heads, vocabulary, .. } = self;
        let features = width / heads;
        let by = |fan_in: usize| Init::Within(1.0 / (fan_in as f32).sqrt());
        let mut all = Parameters::of_layers(layers);
        all.add("embed", &[vocabulary, width], Init::Random);
        all.add("place", &[positions, width], Init::Random);
        all.add_layered("gain1", &[width], Init::Positive);
        all.add_layered("shift1", &[width], Init::Within(0.1));
        all.add_layered("wqkv", &[width, 3, heads, features], by(width));
        all.add_layered("bqkv", &[3, heads, features], Init::Within(0.1));
        all.add_layered("wo", &[heads, features, width], by(width));
        all.add_layered("bo", &[width], Init::Within(0.1));
        all.add_layered("gain2", &[width], Init::Positive);
        all.add_layered("shift2", &[width], Init::Within(0.1));
        all.add_layered("w1", &[width, 4 * width], by(width));
        all.add_layered("b1", &[4 * width], Init::Within(0.1));
        all.add_layered("w2", &[4 * width, width], by(4 * width));
        all.add_layered("b2", &[width], Init::Within(0.1));
        all.add("gain3", &[width], Init::Positive);
        all.add("shift3", &[width], Init::Within(0.1));
        all.add("head", &[width, vocabulary], by(width));
        all
    }

    fn text(self, statements: &str) -> String {
        format!("size layers = {}\n{statements}", self.layers)
    }

    fn letters(self, name: &'static str) -> Node {
        let init = Init::Below(self.vocabulary as u16);
        Node::with(name, &[self.batch, self.positions], init).of(DType::U8)
    }

    /// Floating-point operations of the products with weights.
    fn flops_of_weights(self) -> f64 {
        let rows = self.batch * self.positions;
        let layer = product_flops([rows, self.width, 12 * self.width]);
        self.layers as f64 * layer + product_flops([rows, self.width, self.vocabulary])
    }

    /// Floating-point operations of attention to the positions before.
    fn flops_of_attention(self) -> f64 {
        (2 * self.layers * self.batch * self.positions * (self.positions + 1) * self.width) as f64
    }
}

/// A training step.
fn train(name: &'static str, sizes: Sizes) -> Case {
    train_on(name, sizes, Operation::GptTrain, WINDOWS).tolerance(2e-4)
}

/// A training step in mixed precision. Sums in another order round to other numbers of bf16.
fn train_in_bf16(name: &'static str, sizes: Sizes) -> Case {
    let case = train_on(name, sizes, Operation::GptTrainBf16, WINDOWS_IN_BF16).tolerance(2e-2);
    Case { is_large: true, ..case }
}

/// A training step on the logits that statements compute.
fn train_on(name: &'static str, sizes: Sizes, operation: Operation, statements: &str) -> Case {
    let data = vec![sizes.letters("ids"), sizes.letters("label")];
    let text = sizes.text(&format!("{statements}{LOSS}"));
    let parameters = sizes.parameters();
    let flops = 3.0 * (sizes.flops_of_weights() + sizes.flops_of_attention());
    parameters
        .train(name, operation, &text, Optimizer::AdamW, [data, vec![]])
        .flops(flops + 12.0 * parameters.count() as f64)
}

/// The training step of [`TRAINED`], split for several streams.
pub(super) fn split_step(streams: usize) -> SplitStep {
    let parameters = TRAINED.parameters();
    let loss =
        format!("loss :+= cross_entropy(logits[b,i,v], label[b,i]) / ({streams} * size(b) * size(i))\n");
    let gradient = format!("{WINDOWS}{loss}{}{}", parameters.gradients(), parameters.keep_gradients());
    let taken = EARLIER_STEPS + 1;
    SplitStep {
        whole: train("gpt_train_8x128x256", TRAINED),
        gradient: TRAINED.text(&gradient),
        update: format!("taken := f32({taken})\n{}", parameters.steps(Optimizer::AdamW)),
        gradients: parameters.names_of_gradients(),
        data: vec![TRAINED.letters("ids"), TRAINED.letters("label")],
        parameters: parameters.nodes(),
        state: parameters.state(Optimizer::AdamW),
    }
}

/// The logits of all positions of windows.
fn forward(name: &'static str, sizes: Sizes) -> Case {
    let Sizes { batch, positions, vocabulary, .. } = sizes;
    let mut nodes = vec![sizes.letters("ids")];
    nodes.extend(sizes.parameters().nodes());
    nodes.push(Node::written("logits", &[batch, positions, vocabulary]));
    Case::new(name, Operation::GptForward, &sizes.text(WINDOWS), nodes)
        .flops(sizes.flops_of_weights() + sizes.flops_of_attention())
        .tolerance(5e-5)
}

/// The logits of the letter at the last position of caches, which are full after it. The position is a
/// binding, so one routine reads all letters; peers know it when they compile.
fn decode(name: &'static str, sizes: Sizes) -> Case {
    let Sizes { positions, width, layers, heads, vocabulary, .. } = sizes;
    let mut nodes = vec![Node::with("letter", &[], Init::Below(vocabulary as u16)).of(DType::U8)];
    nodes.extend(sizes.parameters().nodes());
    // The step writes one position, and keeps the others.
    let mode = Some(MemoryMode::Materialized);
    let cache = |name: String| Node { mode, ..Node::input(name, &[heads, positions, width / heads]) };
    let caches = (0..layers).flat_map(|l| [format!("keys.{l}"), format!("values.{l}")]).map(cache);
    let caches: Vec<Node> = caches.collect();
    let names: Vec<Name> = caches.iter().map(|node| node.name.clone()).collect();
    nodes.extend(caches);
    nodes.push(Node::written("logits", &[vocabulary]));
    let case = Case::new(name, Operation::GptDecode, &sizes.text(LETTER), nodes).updating(&names);
    let one = Sizes { batch: 1, positions: 1, ..sizes };
    let attention = (4 * layers * positions * width) as f64;
    // One row of each cache and of each embedding is written or read.
    let rows = (4 * (2 * layers * width + vocabulary)) as f64;
    let traffic = Traffic { writes: rows, ..case.traffic };
    Case { bindings: vec![positions as i64 - 1], traffic, ..case }
        .flops(one.flops_of_weights() + attention)
        .tolerance(5e-5)
}
