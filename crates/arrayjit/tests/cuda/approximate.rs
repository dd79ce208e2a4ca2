//! The errors of the GPU's approximate functions, beside the bounds that `codegen_ptx::PtxOptions` states.

use arrayjit::{Backend, Settings};

use crate::{
    accuracy::{POINTS, Points, distance, run},
    or_skip,
};

/// A function with its exact result, a range of arguments, and the error that is stated for them.
struct Approximation {
    function: &'static str,
    exact: fn(f64) -> f64,
    range: Points,
    bound: Bound,
}

/// The greatest error that is stated.
#[derive(Clone, Copy, Debug)]
enum Bound {
    /// Units in the last place of the result, for an argument.
    Ulps(fn(f64) -> f64),
    /// An absolute error.
    Absolute(f64),
    /// An error relative to the result.
    Relative(f64),
}

use Bound::{Absolute, Relative, Ulps};

/// 2⁻²⁰, 2⁻²¹ and 2⁻¹⁰.
const ANGLE: f64 = 1.0 / 1048576.0;
const NEAR_ONE: f64 = ANGLE / 2.0;
const TANH: f64 = 1.0 / 1024.0;

const APPROXIMATIONS: &[Approximation] = &[
    Approximation {
        function: "exp2",
        exact: f64::exp2,
        range: Points::Range(-125.0, 127.0),
        bound: Ulps(|_| 2.0),
    },
    Approximation {
        function: "exp",
        exact: f64::exp,
        range: Points::Range(-87.0, 88.0),
        bound: Ulps(|x| 2.0 + 1.5 * x.abs()),
    },
    Approximation {
        function: "log2",
        exact: f64::log2,
        range: Points::Magnitudes(1.0, 127.0),
        bound: Ulps(|_| 4.0),
    },
    Approximation {
        function: "log2",
        exact: f64::log2,
        range: Points::Magnitudes(-126.0, -1.0),
        bound: Ulps(|_| 4.0),
    },
    Approximation {
        function: "log2",
        exact: f64::log2,
        range: Points::Range(0.5, 2.0),
        bound: Absolute(NEAR_ONE),
    },
    Approximation {
        function: "log",
        exact: f64::ln,
        range: Points::Magnitudes(1.0, 127.0),
        bound: Ulps(|_| 4.0),
    },
    Approximation {
        function: "log",
        exact: f64::ln,
        range: Points::Magnitudes(-126.0, -1.0),
        bound: Ulps(|_| 4.0),
    },
    Approximation {
        function: "log",
        exact: f64::ln,
        range: Points::Range(0.5, 2.0),
        bound: Absolute(NEAR_ONE),
    },
    Approximation {
        function: "sin",
        exact: f64::sin,
        range: Points::Range(-1000.0, 1000.0),
        bound: Absolute(ANGLE),
    },
    Approximation {
        function: "cos",
        exact: f64::cos,
        range: Points::Range(-1000.0, 1000.0),
        bound: Absolute(ANGLE),
    },
    Approximation {
        function: "tanh",
        exact: f64::tanh,
        range: Points::Range(-20.0, 20.0),
        bound: Relative(TANH),
    },
];

/// Prints the worst error of each function, and fails if one exceeds its bound.
#[test]
fn approximate_functions_stay_within_their_bounds() {
    let mut settings = Settings::default();
    settings.gpu.approximate_functions = true;
    let opened = Backend::open_with("cuda", &settings);
    let Some(backend) = or_skip("approximate_functions_stay_within_their_bounds", opened) else { return };
    let mut over = Vec::new();
    for Approximation { function, exact, range, bound } in APPROXIMATIONS {
        let mut random = fastrand::Rng::with_seed(11);
        let x: Vec<f32> = (0..POINTS).map(|_| range.draw(&mut random)).collect();
        let expression = format!("{function}($a)");
        let found = run(&expression, "fast", backend.codegen(), backend.device(), &x, &x);
        let points = x.iter().zip(&found).map(|(x, found)| {
            let x = f64::from(*x);
            let (exact, found) = (exact(x), *found);
            let off = (f64::from(found) - exact).abs();
            let ulps = distance(found, exact);
            let of_bound = match bound {
                Ulps(most) => ulps / most(x),
                Absolute(most) => off / most,
                Relative(most) => off / (most * exact.abs()).max(f64::MIN_POSITIVE),
            };
            (of_bound, x, off, ulps)
        });
        let points: Vec<_> = points.collect();
        let most_ulps = points.iter().map(|(.., ulps)| *ulps).fold(0.0, f64::max);
        let (of_bound, x, off, ulps) =
            *points.iter().max_by(|a, b| a.0.total_cmp(&b.0)).expect("there are points");
        println!(
            "{function:<5} {range:?}: at most {most_ulps:.2} ulp; the nearest to its bound at {x:e}: {ulps:.2} ulp, \
             off by {off:.2e}, {:.0}% of the bound ({})",
            100.0 * of_bound,
            bound.stated()
        );
        if of_bound > 1.0 || of_bound.is_nan() {
            over.push(format!("{function}({x:e}) is off by {off:e}, {ulps} ulp"));
        }
    }
    assert!(over.is_empty(), "{over:#?}");
}

impl Bound {
    /// The bound as the table of `PtxOptions` has it.
    fn stated(self) -> String {
        match self {
            Ulps(most) if most(1.0) > most(0.0) => {
                format!("{} + {} |x| ulp", most(0.0), most(1.0) - most(0.0))
            }
            Ulps(most) => format!("{} ulp", most(0.0)),
            Absolute(most) => format!("2^{}", most.log2()),
            Relative(most) => format!("2^{} of the result", most.log2()),
        }
    }
}
