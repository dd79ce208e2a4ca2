//! A linear regression, trained on ranks and on the streams of one process.

use std::sync::Arc;

use arrayjit::{
    Backend, Context, HostArray, TensorNode,
    parallel::{DataParallel, DataParallelJob, MergeMethod, replicate},
    text,
};
use arrayjit_collectives::{
    BucketSizes, DataParallelRanks, DataParallelRanksJob, GradientBucket, GradientPart, Group, HostGroup,
    Transport, split_gradient,
};

use super::Outcome;

/// The error of two rows, the gradient of the offset, and that of the factors.
const GRADIENT: &str = "s[b] :+= w[k] * x[2*@i + b, k] where b < 2
    e[b] := s[b] + c[0] - y[2*@i + b] where b < 2
    gc[z] :+= e[b] where z < 1
    gw[k] :+= e[b] * x[2*@i + b, k] where b < 2";
const UPDATE: &str = "w[k] -= 0.01 * gw[k]; c[k] -= 0.01 * gc[k] where k < 1";
/// The calls of an epoch. With 5 ranks, 2 take part in the last round.
const CALLS: i64 = 12;
const EPOCHS: usize = 3;

/// The nodes of the regression and their values.
struct Regression {
    /// x, y, w, c, e, gw, gc.
    nodes: Vec<TensorNode>,
    context: Context,
}

impl Regression {
    fn new(backend: &Backend) -> Outcome<Regression> {
        let sizes: [(&str, &[usize]); 7] = [
            ("x", &[24, 6]),
            ("y", &[24]),
            ("w", &[6]),
            ("c", &[1]),
            ("e", &[2]),
            ("gw", &[6]),
            ("gc", &[1]),
        ];
        let mut context = backend.context()?;
        let mut nodes = Vec::new();
        for (name, dims) in sizes {
            let node = TensorNode::builder(name).dims(dims.iter().copied());
            let node = node.build()?;
            let count = dims.iter().product::<usize>();
            let value = |at: usize| ((at * 7919 + name.len() * 31) % 211) as f32 * 0.013 - 1.2;
            let values = HostArray::from_slice(&(0..count).map(value).collect::<Vec<_>>(), dims.to_vec())?;
            if ["x", "y", "w", "c"].contains(&name) {
                context = context.init_from_host(&node, &values)?;
            }
            nodes.push(node);
        }
        Ok(Regression { nodes, context })
    }

    fn named(&self, names: &[&str]) -> Vec<TensorNode> {
        let is_named = |node: &&TensorNode| names.contains(&node.label().join(".").as_str());
        self.nodes.iter().filter(is_named).cloned().collect()
    }

    fn parameters(&self, context: &Context) -> Outcome<Vec<HostArray>> {
        self.named(&["w", "c"]).iter().map(|node| Ok(context.to_host(node)?)).collect()
    }
}

/// Trains on this rank, with the gradient in one part or in two; returns the parameters.
pub(crate) fn on_ranks(transport: impl Transport, backend: &str, in_parts: bool) -> Outcome<Vec<HostArray>> {
    let backend = Backend::open(backend)?;
    let regression = Regression::new(&backend)?;
    let group = Arc::new(HostGroup::new(transport, backend.new_stream()?));
    let update = backend.compile(UPDATE, &regression.nodes)?;
    let gradient = text::parse(GRADIENT, &regression.nodes)?;
    let bytes = if in_parts { 1 } else { 1 << 20 };
    let sizes = BucketSizes { first: bytes, others: bytes };
    let buckets = split_gradient(&gradient, &regression.named(&["gw", "gc"]), sizes)?;
    let count = if in_parts { 2 } else { 1 };
    assert_eq!(buckets.len(), count);
    let routines = buckets.iter().map(|bucket| backend.compile_assignments(&bucket.program));
    let routines = routines.collect::<Result<Vec<_>, _>>()?;
    let part = |(routine, bucket)| {
        let GradientBucket { summed, .. }: &GradientBucket = bucket;
        GradientPart { routine, summed }
    };
    let parts: Vec<_> = routines.iter().zip(&buckets).map(part).collect();
    let job = DataParallelRanksJob { gradient: &parts, update: &update };
    let shared: Arc<dyn Group> = group.clone();
    let training = DataParallelRanks::link(&job, &regression.context, &shared)?;
    for _ in 0..EPOCHS {
        training.run((0..CALLS).map(|call| [call]))?;
    }
    group.check_equal(training.context(), &regression.named(&["w", "c"]))?;
    regression.parameters(training.context())
}

/// Trains on the streams of this process; returns the parameters.
pub(crate) fn on_streams(streams: usize) -> Outcome<Vec<HostArray>> {
    let backend = Backend::open("multicore")?;
    let regression = Regression::new(&backend)?;
    let gradient = backend.compile(GRADIENT, &regression.nodes)?;
    let update = backend.compile(UPDATE, &regression.nodes)?;
    let parameters = regression.named(&["w", "c"]);
    let mut contexts = vec![regression.context.clone()];
    for _ in 1..streams {
        contexts.extend(replicate(&regression.context, &parameters, &[backend.new_stream()?])?);
    }
    let job = DataParallelJob {
        gradient: &gradient,
        update: &update,
        summed: &regression.named(&["gw", "gc"]),
        parameters: &parameters,
        merge_method: MergeMethod::default(),
    };
    let training = DataParallel::link(&backend, &job, &contexts)?;
    for _ in 0..EPOCHS {
        training.run((0..CALLS).map(|call| [call]))?;
    }
    regression.parameters(training.context())
}
