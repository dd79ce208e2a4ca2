//! Named dimensions of a model: which of them are sizes that each run gives, and their bounds.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lru::LruCache;
use tnode::{HostArray, RunSize, SizeSum};

use crate::{
    error::{OnnxError, Result},
    extents::{Extent, Extents},
    ir::{Dim, ValueInfo},
    plan::Signature,
    program::DimensionSize,
};

/// Which shapes one compilation of a model serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapePolicy {
    /// The model is compiled for each set of input shapes.
    #[default]
    Exact,
    /// The model is compiled once for all values of its named dimensions, as far as its operators allow.
    Symbolic,
    /// As `Symbolic`, and also for each set of input shapes that had more than so many runs.
    SymbolicThenExact {
        /// The runs of a set of shapes before it is compiled.
        runs: u32,
    },
}

/// How a session compiles a model; [`Model::session_with`](crate::Model::session_with) takes it.
///
/// ```
/// use arrayjit_onnx::{Backend, HostArray, Model, SessionOptions, ShapePolicy};
///
/// let model = Model::load("examples/layer.onnx")?; // y = relu(x · w), x is f32[batch, 3]
/// let options = SessionOptions::new().shapes(ShapePolicy::Symbolic).bound("batch", 64);
/// let session = model.session_with(&Backend::open("inline")?, options)?;
/// for rows in [1, 5, 64] {
///     let x = HostArray::from_slice(&vec![1f32; 3 * rows], [rows, 3])?;
///     assert_eq!(session.run(&[("x", &x)])?[0].dims().as_slice(), [rows, 2]);
/// }
/// let long = HostArray::from_slice(&[1f32; 195], [65, 3])?;
/// let error = session.run(&[("x", &long)]).unwrap_err().to_string();
/// assert_eq!(error, "input `x` has size 65 on axis 0, expected 1 to 64, the bound of `batch`");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SessionOptions {
    shapes: ShapePolicy,
    bounds: BTreeMap<String, usize>,
    pub(crate) plans: NonZeroUsize,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions::new()
    }
}

impl SessionOptions {
    /// Exact shapes, no bounds, and 32 compilations that are kept.
    pub fn new() -> SessionOptions {
        let plans = NonZeroUsize::MIN.saturating_add(31);
        SessionOptions { shapes: ShapePolicy::default(), bounds: BTreeMap::new(), plans }
    }

    /// Which shapes one compilation serves.
    #[must_use]
    pub fn shapes(self, shapes: ShapePolicy) -> SessionOptions {
        SessionOptions { shapes, ..self }
    }

    /// The greatest size of a named dimension; a run with a greater one, or with 0, is an error. An axis that
    /// the model leaves open without a name has the name `x[0]`, for axis 0 of input `x`. Without this bound,
    /// the bound is a power of two that doubles when a run needs it, and the model is compiled again.
    #[must_use]
    pub fn bound(mut self, dimension: &str, bound: usize) -> SessionOptions {
        self.bounds.insert(dimension.to_owned(), bound);
        self
    }

    /// How many compilations a session keeps; the one that was used least recently goes.
    #[must_use]
    pub fn kept_compilations(self, plans: NonZeroUsize) -> SessionOptions {
        SessionOptions { plans, ..self }
    }
}

/// The sets of shapes whose runs are counted.
const MOST_COUNTED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);

/// The multiple that an error suggests: models that halve their axes some times, and add what they double
/// again, need multiples of a power of two.
const STEP: usize = 32;

/// The bound of a dimension for a report, if no option gives one.
const EXAMPLE_BOUND: usize = 64;

/// A dimension that a model leaves open.
struct Dimension {
    /// The name in the model, or of the axis.
    name: String,
    /// The name of the size in texts.
    size: Arc<str>,
    /// The bound that the user gives.
    bound: Option<usize>,
    /// Whether it is the first axis of an input, of which a model has no multiples.
    is_first: bool,
}

/// The open dimensions of a model, as a session knows them.
pub(crate) struct Dimensions {
    shapes: ShapePolicy,
    all: Vec<Dimension>,
    state: Mutex<State>,
}

struct State {
    /// The bounds so far of dimensions that have no other.
    bounds: BTreeMap<Arc<str>, usize>,
    /// The dimensions that are compiled for each value, with the reasons.
    exact: BTreeMap<Arc<str>, String>,
    /// The dimensions of which one compilation serves multiples of a number, others each their own.
    stepped: BTreeSet<Arc<str>>,
    runs: LruCache<Signature, u32>,
}

impl Dimensions {
    pub(crate) fn new(inputs: &[ValueInfo], options: &SessionOptions) -> Result<Dimensions> {
        let mut all = Vec::<Dimension>::new();
        for (info, at) in
            inputs.iter().flat_map(|info| (0..info.dims.iter().flatten().count()).map(move |at| (info, at)))
        {
            let Some(name) = open_name(info, at) else { continue };
            if let Some(known) = all.iter_mut().find(|known| known.name == name) {
                known.is_first |= at == 0;
            } else {
                let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
                let size = format!("n{}_{}", all.len(), name.chars().map(plain).collect::<String>());
                let bound = options.bounds.get(&name).copied();
                all.push(Dimension { name, size: size.into(), bound, is_first: at == 0 });
            }
        }
        let unknown = options
            .bounds
            .iter()
            .find(|(name, bound)| **bound == 0 || all.iter().all(|known| known.name != **name));
        if let Some((name, bound)) = unknown {
            return Err(misfit(name, *bound, all.iter().map(|known| &*known.name)));
        }
        let runs = LruCache::new(MOST_COUNTED);
        let (bounds, exact, stepped) = Default::default();
        let state = Mutex::new(State { bounds, exact, stepped, runs });
        Ok(Dimensions { shapes: options.shapes, all, state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, info: &ValueInfo, at: usize) -> Option<&Dimension> {
        let name = open_name(info, at)?;
        self.all.iter().find(|known| known.name == name)
    }

    /// The types and axes for which a run with these arrays needs compiled code.
    ///
    /// # Errors
    /// A size beyond a bound of the user.
    pub(crate) fn signature(&self, inputs: &[(&ValueInfo, &HostArray)]) -> Result<Signature> {
        let exact: Signature =
            inputs.iter().map(|(_, array)| (array.dtype(), array.dims().as_slice().into())).collect();
        let mut values = BTreeMap::<&str, Option<usize>>::new();
        let mut is_empty = false;
        for (info, array) in inputs {
            for (at, &value) in array.dims().iter().enumerate() {
                let Some(Dimension { size, bound, name, .. }) = self.find(info, at) else { continue };
                if let Some(bound) = bound.filter(|bound| !(1..=*bound).contains(&value)) {
                    let problem = format!(
                        "has size {value} on axis {at}, expected 1 to {bound}, the bound of `{name}`"
                    );
                    return Err(OnnxError::Input { name: info.name.clone(), problem });
                }
                // Exporters name axes alike that were equal in their example: others are compiled as they
                // are. So is an axis of one element, which broadcasts and needs no loop.
                let first = values.entry(size).or_insert(Some(value));
                *first = first.filter(|first| *first == value && value > 1);
                is_empty |= array.num_values() == 0;
            }
        }
        // Operators give results for no elements while they are walked, whose axes are numbers.
        if self.shapes == ShapePolicy::Exact || is_empty {
            return Ok(exact);
        }
        let mut state = self.state();
        if let ShapePolicy::SymbolicThenExact { runs } = self.shapes {
            let count = state.runs.get_or_insert_mut(exact.clone(), || 0);
            *count = count.saturating_add(1);
            if *count > runs {
                return Ok(exact);
            }
        }
        let bounds: BTreeMap<Arc<str>, (usize, usize)> = self
            .all
            .iter()
            .filter_map(|dimension| {
                let value = (*values.get(&*dimension.size)?)?;
                let bound = dimension.bound.unwrap_or_else(|| {
                    let bound = state.bounds.entry(dimension.size.clone()).or_insert(2);
                    *bound = (*bound).max(value.checked_next_power_of_two().unwrap_or(value));
                    *bound
                });
                let step = if state.stepped.contains(&dimension.size) { STEP } else { 1 };
                let is_size = bound / step > 1 && value.is_multiple_of(step);
                (is_size && !state.exact.contains_key(&dimension.size))
                    .then(|| (dimension.size.clone(), (bound, step)))
            })
            .collect();
        let infos = inputs.iter().map(|(info, _)| *info).zip(exact);
        Ok(infos.map(|(info, (dtype, extents))| (dtype, self.sized(info, &extents, &bounds))).collect())
    }

    /// The axes with sizes in place of those dimensions that have these bounds, each a multiple of a number.
    fn sized(
        &self,
        info: &ValueInfo,
        extents: &Extents,
        bounds: &BTreeMap<Arc<str>, (usize, usize)>,
    ) -> Extents {
        let extent = |(at, extent): (usize, &Extent)| {
            let sized = self.find(info, at).and_then(|dimension| bounds.get_key_value(&dimension.size));
            let multiple = sized.and_then(|(size, &(bound, step))| {
                let size = SizeSum::from(&RunSize::given(&**size, bound / step));
                size.times(&i64::try_from(step).ok()?.into())?.size()
            });
            multiple.map_or_else(|| extent.clone(), Extent::from)
        };
        Extents(extents.0.iter().enumerate().map(extent).collect())
    }

    /// Compiles dimensions for each value from here on: those that an error names, or all of a signature. The
    /// first time, multiples of a number stay sizes, but for dimensions of batches.
    pub(crate) fn force(&self, signature: &Signature, error: &OnnxError) {
        let all = || signature.iter().flat_map(|(_, extents)| extents.given()).collect();
        let sizes: Vec<Arc<str>> = match error.cause() {
            OnnxError::NeedsExtents { sizes, .. } => sizes.iter().map(|size| size.as_str().into()).collect(),
            _ => all(),
        };
        let sizes = if sizes.is_empty() { all() } else { sizes };
        let mut state = self.state();
        let is_large = |dimension: &&Dimension| {
            let bound =
                dimension.bound.or(state.bounds.get(&dimension.size).copied()).unwrap_or(EXAMPLE_BOUND);
            !dimension.is_first && bound / STEP > 1 && sizes.contains(&dimension.size)
        };
        let large: Vec<Arc<str>> =
            self.all.iter().filter(is_large).map(|dimension| dimension.size.clone()).collect();
        if !large.is_empty() && !sizes.iter().any(|size| state.stepped.contains(size)) {
            state.stepped.extend(large);
            return;
        }
        let named = |text: String, dimension: &Dimension| text.replace(&*dimension.size, &dimension.name);
        let reason = self.all.iter().fold(error.to_string(), named);
        state.exact.extend(sizes.into_iter().map(|size| (size, reason.clone())));
    }

    /// The dimensions that are compiled for each value, by name, with the reasons.
    pub(crate) fn exact(&self) -> BTreeMap<String, String> {
        let state = self.state();
        let reason =
            |dimension: &Dimension| Some((dimension.name.clone(), state.exact.get(&dimension.size)?.clone()));
        self.all.iter().filter_map(reason).collect()
    }

    /// The dimensions of which one compilation serves multiples of a number, by name, with the number.
    pub(crate) fn steps(&self) -> BTreeMap<String, usize> {
        let state = self.state();
        let is_stepped = |dimension: &&Dimension| {
            state.stepped.contains(&dimension.size) && !state.exact.contains_key(&dimension.size)
        };
        self.all.iter().filter(is_stepped).map(|dimension| (dimension.name.clone(), STEP)).collect()
    }

    /// The error of a run, with the sizes that are no multiples where one compilation serves multiples only.
    pub(crate) fn with_odd_sizes(&self, inputs: &[(&ValueInfo, &HostArray)], error: OnnxError) -> OnnxError {
        let steps = self.steps();
        let mut odd = BTreeSet::new();
        for (info, array) in inputs {
            for (at, value) in array.dims().iter().enumerate() {
                let Some(Dimension { name, .. }) = self.find(info, at) else { continue };
                if steps.get(name).is_some_and(|step| !value.is_multiple_of(*step)) {
                    odd.insert(format!("`{name}` is {value}"));
                }
            }
        }
        if odd.is_empty() {
            return error;
        }
        let odd = odd.into_iter().collect::<Vec<_>>().join(" and ");
        OnnxError::at(format!("{odd}, where layers may fit each other for multiples of {STEP} only"))(error)
    }

    /// The names of all dimensions.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|dimension| dimension.name.as_str())
    }

    /// A signature with all dimensions that are no numbers as sizes, as an example; none if the model leaves
    /// out a type or a number of axes.
    pub(crate) fn example(&self, inputs: &[ValueInfo]) -> Option<Signature> {
        let state = self.state();
        let bound = |dimension: &Dimension| dimension.bound.unwrap_or(EXAMPLE_BOUND);
        let bounds = self.all.iter().filter(|dimension| !state.exact.contains_key(&dimension.size));
        let step = |dimension: &Dimension| if state.stepped.contains(&dimension.size) { STEP } else { 1 };
        let bounds = bounds.map(|of| (of.size.clone(), (bound(of), step(of)))).collect();
        let signature = inputs.iter().map(|info| {
            let size = |(at, dim): (usize, &Dim)| match dim {
                Dim::Known(size) => *size,
                _ => self.find(info, at).map_or(EXAMPLE_BOUND, bound),
            };
            let dims: Vec<usize> = info.dims.as_ref()?.iter().enumerate().map(size).collect();
            Some((info.dtype?, self.sized(info, &(&dims).into(), &bounds)))
        });
        signature.collect()
    }
}

/// The error of a size or bound of 0, or for none of the dimensions that the model leaves open.
fn misfit<'n>(name: &str, size: usize, open: impl Iterator<Item = &'n str>) -> OnnxError {
    let names = open.map(|name| format!("`{name}`")).collect::<Vec<_>>();
    let problem = match &*names {
        [] => "the model leaves no dimension open".to_owned(),
        names if size > 0 => format!("the model does not leave it open, but {}", names.join(", ")),
        _ => format!("it is given {size}, expected 1 or more"),
    };
    OnnxError::invalid(format!("dimension `{name}`"), problem)
}

/// The types and axes of the inputs with these sizes of the dimensions that the model leaves open, and the
/// name of the size in texts, if each run gives it, with the name of the dimension.
///
/// # Errors
/// An input without a type or a number of axes, a dimension without a size, and a size without a dimension.
pub(crate) fn signature_with(
    inputs: &[ValueInfo],
    sizes: &BTreeMap<String, DimensionSize>,
) -> Result<(Signature, Vec<(String, String)>)> {
    let dimensions = Dimensions::new(inputs, &SessionOptions::new())?;
    for (name, size) in sizes {
        let (DimensionSize::Fixed(most) | DimensionSize::UpTo(most)) = *size;
        if most == 0 || dimensions.names().all(|other| other != name) {
            return Err(misfit(name, most, dimensions.names()));
        }
    }
    let signature = inputs.iter().map(|info| {
        let open = |problem: &str| OnnxError::Input { name: info.name.clone(), problem: problem.into() };
        let dtype = info.dtype.ok_or_else(|| open("has no type of an array's elements"))?;
        let dims = info.dims.as_ref().ok_or_else(|| open("has no number of axes"))?;
        let extent = |(at, dim): (usize, &Dim)| match (dim, dimensions.find(info, at)) {
            (Dim::Known(size), _) => Ok(Extent::from(*size)),
            (_, None) => Err(open("has an axis without a name")),
            (_, Some(dimension)) => match sizes.get(&dimension.name) {
                Some(DimensionSize::UpTo(bound)) if *bound > 1 => {
                    Ok(RunSize::given(&*dimension.size, *bound).into())
                }
                Some(DimensionSize::Fixed(size) | DimensionSize::UpTo(size)) => Ok(Extent::from(*size)),
                None => Err(open(&format!("leaves dimension `{}` open, expected a size", dimension.name))),
            },
        };
        Ok((dtype, Extents(dims.iter().enumerate().map(extent).collect::<Result<_>>()?)))
    });
    let names = dimensions.all.iter().map(|dimension| (dimension.size.to_string(), dimension.name.clone()));
    Ok((signature.collect::<Result<_>>()?, names.collect()))
}

/// Whether code for the second signature serves all runs of the first.
pub(crate) fn is_covered(signature: &Signature, by: &Signature) -> bool {
    let fits = |(own, other): (&Extent, &Extent)| match own.size.is_some() {
        true => {
            let name = |extent: &Extent| extent.size.as_ref().map(|size| size.name().to_owned());
            name(own) == name(other) && own.dim <= other.dim
        }
        false => own == other,
    };
    signature.len() == by.len()
        && signature.iter().zip(by).all(|((dtype, own), (other, axes))| {
            dtype == other && own.0.len() == axes.0.len() && own.0.iter().zip(&axes.0).all(fits)
        })
}

/// The name of an axis whose size each run decides.
fn open_name(info: &ValueInfo, at: usize) -> Option<String> {
    match info.dims.as_ref()?.get(at)? {
        Dim::Known(_) => None,
        Dim::Named(name) => Some(name.clone()),
        Dim::Unknown => Some(format!("{}[{at}]", info.name)),
    }
}
