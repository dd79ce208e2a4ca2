//! Bounds of a device's deviation from the interpreter: one for every element, derived from the operations
//! that compute it.
//!
//! Machine code for this process must give the interpreter's bits. GPUs cannot promise that: their languages
//! leave open in which direction a sum is rounded, whether a product is contracted into it, how accurate a
//! division is, and whether subnormals are flushed to zero. They do promise a bound for each operation
//! (`promises`). How much such an error affects an element of the result depends on the values: a canceling
//! sum, `exp` of a large number, or a comparison of nearly equal numbers amplifies it. So the routine is run
//! once more with a *radius* for every number: the device's number lies within the radius if every operation
//! keeps its promise (`value`, `machine`). This is running error analysis: no constant is tuned to make a
//! test pass, and where nothing may differ (integers, booleans, copies, exact sums) the radius is 0 and the
//! bits must be equal.
//!
//! A radius is infinite where no bound exists: for the floor of a rounded number that may lie on either side
//! of an integer, an element read at an uncertain index, the product of a computed 0 with infinity, the
//! difference of two infinities, or the bits of a computed 0, since its sign is not specified. Such elements
//! are counted ([`Closeness::open`]), not compared.
//!
//! All NaNs are equal, and so are zeros of either sign. Infinities must be equal unless the greatest number
//! is within the radius.

mod any_order;
mod machine;
mod promises;
mod value;

use std::fmt;

use filetests::RunCase;
use lowered_ir::ir::LoweredRoutine;
use tnode::Scalar;

use crate::corpus::{outlives, scalars};
pub(crate) use value::Approx;

/// Every element of every node after a run, with its radius.
#[derive(Clone, Debug)]
pub struct Bounds {
    nodes: Vec<Vec<Approx>>,
}

/// How close a device's results are to the interpreter's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Closeness {
    /// The number of compared elements.
    pub elements: usize,
    /// Compared elements with the same bits.
    pub equal: usize,
    /// Elements without a bound.
    pub open: usize,
    /// The greatest deviation in units of the element's radius; at most 1 is allowed.
    pub worst: f64,
}

impl Closeness {
    /// The closeness of two runs together.
    pub fn and(self, other: Closeness) -> Closeness {
        Closeness {
            elements: self.elements + other.elements,
            equal: self.equal + other.equal,
            open: self.open + other.open,
            worst: self.worst.max(other.worst),
        }
    }
}

impl fmt::Display for Closeness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Closeness { elements, equal, open, worst } = self;
        write!(
            f,
            "{elements} elements, {equal} with the same bits, the worst at {worst:.3} of its bound; {open} open"
        )
    }
}

impl Bounds {
    /// Computes the bounds of a run of a verified routine.
    ///
    /// # Errors
    ///
    /// The part that the case lacks, in words.
    pub fn of(case: &RunCase) -> Result<Bounds, String> {
        Ok(Bounds { nodes: machine::run(case)? })
    }

    /// Computes the bounds of the results of the same operations in any order, which class `Fast` permits.
    /// `None` if the routine has a type or an operation without a bound.
    pub fn of_any_order(case: &RunCase) -> Option<Bounds> {
        Some(Bounds { nodes: any_order::run(case)? })
    }

    /// The values without the radii, as the interpreter computes them.
    pub fn values(&self) -> impl Iterator<Item = Vec<Scalar>> {
        self.nodes.iter().map(|node| node.iter().map(|element| element.value).collect())
    }

    /// The radii of every element of every node: 0 requires the same bits, infinity allows anything.
    pub fn radii(&self) -> impl Iterator<Item = Vec<f64>> {
        self.nodes.iter().map(|node| node.iter().map(|element| element.radius).collect())
    }

    /// Compares the nodes that outlive the run with the values; an element may deviate by `factor` radii.
    ///
    /// # Errors
    ///
    /// The first element that deviates more.
    pub fn check(
        &self,
        routine: &LoweredRoutine,
        found: &[Vec<u8>],
        factor: f64,
    ) -> Result<Closeness, String> {
        self.check_against(routine, found, None, factor)
    }

    /// Compares the nodes with the expected values of a `; run:` line: an element may deviate by its radius
    /// plus the line's tolerance.
    ///
    /// # Errors
    ///
    /// The first element that deviates more.
    pub fn check_expected(&self, case: &RunCase, found: &[Vec<u8>]) -> Result<(), String> {
        for expected in &case.expected {
            let decl = case.routine.node(expected.node);
            let (own, at) = (&self.nodes[expected.node.index()], expected.node.index());
            let found = found.get(at).map_or(&[][..], Vec::as_slice);
            let both = scalars(found, decl.dtype).zip(scalars(&expected.bytes, decl.dtype));
            if found.len() != expected.bytes.len() {
                return Err(format!(
                    "{}:{}: no elements of {}",
                    case.path.display(),
                    case.line,
                    expected.node
                ));
            }
            for (position, ((found, value), own)) in both.zip(own).enumerate() {
                let magnitude = value.as_f64().abs().max(1.0);
                let besides = if magnitude.is_finite() { expected.tolerance * magnitude } else { 0.0 };
                let radius = if decl.dtype.is_float() { own.radius + besides } else { own.radius };
                let allowed = Approx { value, radius };
                allowed.distance(found).ok_or_else(|| {
                    let place = format!("{}:{}: node {}", case.path.display(), case.line, expected.node);
                    format!("{place} {:?}, element {position}: {found:?}, expected {allowed}", decl.name)
                })?;
            }
        }
        Ok(())
    }

    /// Like [`check`](Self::check), compares with bytes that another program computed.
    ///
    /// # Errors
    ///
    /// The first element that deviates more.
    pub fn check_against(
        &self,
        routine: &LoweredRoutine,
        found: &[Vec<u8>],
        defined: Option<&[Vec<u8>]>,
        factor: f64,
    ) -> Result<Closeness, String> {
        let mut closeness = Closeness::default();
        for (node, decl) in routine.node_refs().filter(|(_, decl)| outlives(decl)) {
            let bytes = |nodes: &[Vec<u8>]| -> Vec<Scalar> {
                nodes.get(node.index()).map_or(Vec::new(), |bytes| scalars(bytes, decl.dtype).collect())
            };
            let found = bytes(found);
            let own = &self.nodes[node.index()];
            let defined = match defined {
                Some(defined) => bytes(defined),
                None => own.iter().map(|element| element.value).collect(),
            };
            if found.len() != own.len() || defined.len() != own.len() {
                return Err(format!(
                    "node {node} {:?} has {} elements, expected {}",
                    decl.name,
                    found.len(),
                    own.len()
                ));
            }
            for (at, (found, (defined, own))) in
                found.into_iter().zip(defined.into_iter().zip(own)).enumerate()
            {
                let allowed = Approx { value: defined, radius: own.radius * factor };
                let off = allowed.distance(found).ok_or_else(|| {
                    format!("node {node} {:?}, element {at}: {found:?}, expected {allowed}", decl.name)
                })?;
                closeness = closeness.and(off);
            }
        }
        Ok(closeness)
    }
}
