//! Distributes calls over streams, round-robin.

use std::num::NonZero;

/// Distributes calls over streams: call number `i` goes to stream `i mod streams`. A round has `streams`
/// calls; the last round may have fewer. After each round, `sync` gets the number of streams that took part,
/// which are the first ones. The first error ends the loop and is returned.
///
/// The calls are usually all combinations of values of a routine's static symbols, where the first symbol
/// varies slowest, and `run` schedules the routine of that stream:
///
/// ```
/// # use std::num::NonZero;
/// # use arrayjit::{Backend, HostArray, TensorNode, parallel::round_robin};
/// # let x = TensorNode::builder("x").dims([8]).build()?;
/// # let sum = TensorNode::builder("sum").dims([]).build()?;
/// # let backend = Backend::open("multicore")?;
/// # let values = HostArray::from_slice(&[1f32, 2., 3., 4., 5., 6., 7., 8.], [8])?;
/// # let zero = HostArray::from_slice(&[0f32], [])?;
/// let code = backend.compile("sum += x[@i]", [&x, &sum])?;
/// let mut routines = Vec::new();
/// for _ in 0..3 {
///     let context = backend.context()?.init_from_host(&x, &values)?.init_from_host(&sum, &zero)?;
///     routines.push(code.link(&context)?);
/// }
///
/// let mut rounds = Vec::new();
/// round_robin(
///     NonZero::new(3).expect("3 is not 0"),
///     routines[0].all_bindings(),
///     |stream, bindings| routines[stream].run(&bindings).map(drop),
///     |streams| {
///         rounds.push(streams);
///         Ok(())
///     },
/// )?;
/// assert_eq!(rounds, [3, 3, 2]);
/// assert_eq!(routines[0].context().to_host(&sum)?.values(), [1. + 4. + 7.]);
/// assert_eq!(routines[2].context().to_host(&sum)?.values(), [3. + 6.]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The first error of `run` or `sync`.
pub fn round_robin<T, E>(
    streams: NonZero<usize>,
    calls: impl IntoIterator<Item = T>,
    mut run: impl FnMut(usize, T) -> Result<(), E>,
    mut sync: impl FnMut(usize) -> Result<(), E>,
) -> Result<(), E> {
    let streams = streams.get();
    let mut taken = 0;
    for call in calls {
        run(taken, call)?;
        taken += 1;
        if taken == streams {
            sync(streams)?;
            taken = 0;
        }
    }
    if taken > 0 { sync(taken) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: NonZero<usize> = NonZero::new(3).unwrap();

    #[derive(Debug, PartialEq)]
    enum CallOrSync {
        Run(usize, i64),
        Sync(usize),
    }
    use CallOrSync::{Run, Sync};

    /// Every run and sync up to the entry that fails.
    fn log(calls: i64, fails_at: Option<&CallOrSync>) -> (Vec<CallOrSync>, Result<(), String>) {
        let log = std::cell::RefCell::new(Vec::new());
        let enter = |entry: CallOrSync| {
            let fails = Some(&entry) == fails_at;
            let result = if fails { Err(format!("{entry:?}")) } else { Ok(()) };
            log.borrow_mut().push(entry);
            result
        };
        let run = |stream, call| enter(Run(stream, call));
        let result = round_robin(THREE, 0..calls, run, |streams| enter(Sync(streams)));
        (log.into_inner(), result)
    }

    #[test]
    fn eight_calls_on_three_streams() {
        let (log, result) = log(8, None);
        let expected = [
            Run(0, 0),
            Run(1, 1),
            Run(2, 2),
            Sync(3),
            Run(0, 3),
            Run(1, 4),
            Run(2, 5),
            Sync(3),
            Run(0, 6),
            Run(1, 7),
            Sync(2),
        ];
        assert_eq!((log.as_slice(), result), (expected.as_slice(), Ok(())));
    }

    #[test]
    fn whole_rounds_leave_nothing_to_sync() {
        let (log, _) = log(6, None);
        assert_eq!(log.iter().filter(|entry| matches!(entry, Sync(_))).count(), 2);
        assert_eq!(log.last(), Some(&Sync(3)));
        assert_eq!(self::log(0, None), (vec![], Ok(())));
    }

    #[test]
    fn nothing_runs_after_the_first_error() {
        for culprit in [Run(1, 4), Sync(3), Sync(2)] {
            let (log, result) = log(8, Some(&culprit));
            assert_eq!(result, Err(format!("{culprit:?}")));
            assert_eq!(log.last(), Some(&culprit));
        }
    }
}
