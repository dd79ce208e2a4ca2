//! The layers of a model as loops, so that equal ones are compiled once, however many there are.
//!
//! Most layers of a model differ in the values of their weights only. Where layers repeat, alone or in a
//! pattern of several, the weights of the repetitions are one parameter, whose first axis is the number of
//! the repetition, and the statements of the pattern are the body of a loop over it, as in jax's scan over
//! layers.
//!
//! Layers differ by their place in a pattern: Gemma's attention sees a window in most layers, and files store
//! some layers with more bits than others. So a model may need several loops.

use arrayjit_tensor::{
    Graph, Parameter, ScanStep, Tensor,
    low_level::{Argument, StepResults},
    nn::{LayerNorm, RmsNorm},
};

use crate::{
    error::{ModelError, Result},
    loader::Loader,
    matrix::Projection,
};

/// The layers of a model, each a `B` whose parameters belong to all repetitions of the layer.
pub(crate) struct Layers<B>(Vec<LayerLoop<B>>);

/// Layers that repeat in this order.
struct LayerLoop<B> {
    layers: Vec<B>,
    steps: usize,
}

/// The present repetition of a layer, for the body of its loop.
pub(crate) struct Layer<'s>(&'s ScanStep);

impl<B> Layers<B> {
    /// Makes the layers whose parameters are at `loader` by number. `kinds` has what distinguishes each
    /// layer, beside the encodings of its weights.
    pub(crate) fn new<K: PartialEq>(
        loader: &Loader<'_>,
        kinds: &[K],
        make: impl Fn(&Loader<'_>, &K) -> Result<B>,
    ) -> Result<Layers<B>> {
        let kinds: Vec<_> =
            kinds.iter().enumerate().map(|(at, kind)| (kind, loader.sub(at).encodings())).collect();
        let of_loop = |Repetition { first, period, steps }: Repetition| {
            let repetitions = |at: usize| (0..steps).map(move |step| first + at + step * period);
            let layer = |at| make(&loader.repeated(repetitions(at)), kinds[first + at].0);
            Ok(LayerLoop { layers: (0..period).map(layer).collect::<Result<_, _>>()?, steps })
        };
        let repetitions = match loader.has_loops() {
            true => repetitions(&kinds),
            false => (0..kinds.len()).map(Repetition::single).collect(),
        };
        repetitions.into_iter().map(of_loop).collect::<Result<_, _>>().map(Layers)
    }

    /// Applies the layers to a tensor, one after the other.
    pub(crate) fn forward(
        &self,
        x: &Tensor,
        apply: impl Fn(&B, &Tensor, &Layer<'_>) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let mut x = x.clone();
        for of_loop in &self.0 {
            let carried = of_loop.run(x.graph(), &[Argument::Tensor(&x)], |layer, place, carried| {
                *carried = vec![apply(layer, &carried[0], place)?];
                Ok(())
            })?;
            x = carried.into_iter().next().unwrap_or(x);
        }
        Ok(x)
    }

    /// Calls a function in the loop of each layer.
    pub(crate) fn each(&self, graph: &Graph, apply: impl Fn(&B, &Layer<'_>) -> Result<()>) -> Result<()> {
        self.0
            .iter()
            .try_for_each(|of_loop| of_loop.run(graph, &[], |layer, place, _| apply(layer, place)).map(drop))
    }
}

impl<B> LayerLoop<B> {
    /// Adds the loop, and returns what the last step leaves of the carried tensors.
    fn run(
        &self,
        graph: &Graph,
        initial: &[Argument<'_>],
        mut apply: impl FnMut(&B, &Layer<'_>, &mut Vec<Tensor>) -> Result<()>,
    ) -> Result<Vec<Tensor>> {
        let scan = graph.scan(self.steps).symbol("layer");
        let (last, _) = scan.run_all::<ModelError>(false, initial, |step, mut carried| {
            self.layers.iter().try_for_each(|layer| apply(layer, &Layer(step), &mut carried))?;
            Ok(StepResults { state: carried, rows: Vec::new(), goes_on: None })
        })?;
        Ok(last)
    }
}

impl Layer<'_> {
    /// The number of the repetition in texts: the first index of parameters of layers.
    pub(crate) const NUMBER: &'static str = "@layer";

    /// The part of a parameter that belongs to the layer.
    pub(crate) fn part(&self, parameter: &Parameter) -> Result<Tensor> {
        Ok(self.0.slice(parameter, 0)?)
    }

    /// The linear map of the layer.
    pub(crate) fn linear(&self, projection: &Projection, x: &Tensor) -> Result<Tensor> {
        projection.parts(|parameter| self.part(parameter))?.forward(x)
    }

    /// The normalization of the layer.
    pub(crate) fn rms_norm(&self, norm: &RmsNorm, x: &Tensor) -> Result<Tensor> {
        let _scope = x.graph().enter(norm.weight.module());
        Ok(x.rms_norm(&self.part(&norm.weight)?, norm.eps)?)
    }

    /// The normalization of the layer.
    pub(crate) fn layer_norm(&self, norm: &LayerNorm, x: &Tensor) -> Result<Tensor> {
        let _scope = x.graph().enter(norm.weight.module());
        Ok(x.layer_norm(&self.part(&norm.weight)?, &self.part(&norm.bias)?, norm.eps)?)
    }
}

/// Layers from `first` on, of which each is equal to the one `period` layers later, `steps` times in all.
#[derive(Debug, PartialEq)]
struct Repetition {
    first: usize,
    period: usize,
    steps: usize,
}

impl Repetition {
    fn single(first: usize) -> Repetition {
        Repetition { first, period: 1, steps: 1 }
    }
}

/// The longest pattern that is looked for.
const MAX_PERIOD: usize = 12;

/// Divides layers into repetitions. Each one begins where the last one ends, and spares the most layers from
/// being compiled.
fn repetitions<K: PartialEq>(kinds: &[K]) -> Vec<Repetition> {
    let mut found = Vec::new();
    let mut first = 0;
    while first < kinds.len() {
        let rest = &kinds[first..];
        let repetition = |period: usize| {
            let (pattern, later) = rest.split_at(period);
            let steps = 1 + later.chunks_exact(period).take_while(|layers| *layers == pattern).count();
            Repetition { first, period, steps }
        };
        let spared = |at: &Repetition| ((at.steps - 1) * at.period, std::cmp::Reverse(at.period));
        let best = (1..=rest.len().min(MAX_PERIOD)).map(repetition).max_by_key(spared);
        let best = best.unwrap_or(Repetition::single(first));
        first += best.period * best.steps;
        found.push(best);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(kinds: &str) -> Vec<[usize; 2]> {
        let found = repetitions(kinds.as_bytes());
        let ends: Vec<usize> = found.iter().map(|at| at.first + at.period * at.steps).collect();
        assert!(found.iter().skip(1).zip(&ends).all(|(next, end)| next.first == *end), "{found:?}");
        assert_eq!(ends.last().copied().unwrap_or(0), kinds.len());
        found.iter().map(|at| [at.period, at.steps]).collect()
    }

    #[test]
    fn patterns_of_layers_are_loops() {
        assert_eq!(divided(""), [[0; 2]; 0]);
        assert_eq!(divided("aaaa"), [[1, 4]]);
        assert_eq!(divided("abababab"), [[2, 4]]);
        // Five layers with windows and one without, and a rest.
        assert_eq!(divided("aaaaabaaaaabaaaaabaa"), [[6, 3], [1, 2]]);
        // More bits in the first and last layers, and in each third one between.
        assert_eq!(divided("bbbbaabaabaabbbb"), [[1, 4], [3, 3], [1, 3]]);
        assert_eq!(divided("abc"), [[1, 1], [1, 1], [1, 1]]);
    }
}
