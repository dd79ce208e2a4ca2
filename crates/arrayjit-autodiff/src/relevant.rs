//! The steps on which a gradient depends.
//!
//! A program may request many gradients, each behind the updates that follow the one before. The loss of each
//! is computed from a parameter, inputs and a few of the steps before it. All other steps are left out, so
//! that the time for each gradient does not grow with the number of earlier ones.

use std::collections::{BTreeMap, BTreeSet};

use assignments::{FetchOp, ProgramStep};
use tnode::TensorNode;

use crate::forward_program::reads;
use crate::recompute::ends_older_values;

/// The position of the first of `steps`, which are no blocks and no scans, on which the gradient of the loss
/// may depend: no step before it writes a value from which later ones compute the loss, except for the
/// parameter, which is mentioned behind it. It is the first step if there are several parameters.
pub(crate) fn first_relevant(
    steps: &[&ProgramStep],
    loss: &TensorNode,
    parameters: &[(TensorNode, TensorNode)],
) -> usize {
    // The last value of one parameter may follow from another parameter, before or after its last write.
    let [(parameter, _)] = parameters else { return 0 };
    if parameter == loss || [parameter, loss].iter().any(|node| node.view().is_some()) {
        return 0;
    }
    let mut unseen = BTreeSet::from([parameter]);
    // The number of writes before the step at hand.
    let mut writes: BTreeMap<&TensorNode, usize> = BTreeMap::new();
    steps.iter().flat_map(|step| written(step)).for_each(|node| *writes.entry(node).or_default() += 1);
    let is_written = |writes: &BTreeMap<&TensorNode, usize>, node| writes.get(node).is_some_and(|&n| n > 0);
    // The nodes whose values the loss is computed from, if steps before the one at hand write them.
    let mut open: BTreeSet<&TensorNode> = BTreeSet::from([loss]);
    for (at, step) in steps.iter().enumerate().rev() {
        if open.is_empty() && unseen.is_empty() {
            return at + 1;
        }
        if matches!(step, ProgramStep::Fetch { op: FetchOp::Slice { .. }, .. }) {
            return 0;
        }
        let is_needed = written(step).any(|node| open.contains(node));
        for node in written(step) {
            unseen.remove(node);
            writes.entry(node).and_modify(|count| *count -= 1);
            let is_complete = || !node.mode().known_virtual() && ends_older_values(step, node);
            if !is_written(&writes, node) || is_complete() {
                open.remove(node);
            }
        }
        for node in reads(step) {
            unseen.remove(node);
            if is_needed && node.view().is_some() {
                return 0;
            }
            if is_needed && node != parameter && is_written(&writes, node) {
                open.insert(node);
            }
        }
    }
    0
}

/// The node of each write of a step.
fn written(step: &ProgramStep) -> impl Iterator<Item = &TensorNode> {
    let fetched = match step {
        ProgramStep::Fetch { node, .. } => Some(node),
        _ => None,
    };
    step.accums().iter().map(|accum| &accum.lhs).chain(fetched)
}

#[cfg(test)]
mod tests {
    use assignment_text::Program;

    use super::*;
    use crate::scans::FlatProgram;

    /// A program of `count` steps of gradient descent, and the number of steps behind the first relevant one
    /// for the last of its gradients.
    fn relevant(count: usize) -> usize {
        let step = "
            h[b,j] :+= x[b,i] * w[i,j]
            r[b,j] := tanh(h[b,j]) * 2.0
            loss :+= r[b,j] * r[b,j]
            grad loss by w
            w[i,j] -= 0.1 * w.grad[i,j]\n";
        let text = format!("input x f32[4, 3]\nparam w f32[3, 5]\n{}", step.repeat(count));
        let program = Program::parse(&text).unwrap().assignments(&[]).unwrap();
        let all = FlatProgram::new(&program.steps, &program.symbols).steps;
        let last = all.iter().rposition(|step| matches!(step, ProgramStep::Gradient { .. })).unwrap();
        let ProgramStep::Gradient { loss, parameters, .. } = &all[last] else { unreachable!() };
        let before: Vec<&ProgramStep> = all[..last].iter().collect();
        last - first_relevant(&before, loss, parameters)
    }

    /// The second loss depends on the first `w` through the update of `v`.
    #[test]
    fn several_parameters_may_follow_from_each_other() {
        let step = "
            h[b,j] :+= x[b,i] * w[i,j]
            p[b,m] :+= h[b,j] * v[j,m]
            loss :+= p[b,m] * p[b,m]
            grad loss by w, v
            w[i,j] -= 0.1 * w.grad[i,j]
            v[i,j] -= 0.1 * v.grad[i,j]\n";
        let text = format!("input x f32[4, 3]\nparam w f32[3, 5]\nparam v f32[5, 2]\n{}", step.repeat(2));
        let mut program = Program::parse(&text).unwrap().assignments(&[]).unwrap();
        let error = crate::expand(&mut program).unwrap_err().to_string();
        assert!(error.contains("from before and after this statement"), "{error}");
    }

    #[test]
    fn earlier_updates_are_left_out() {
        assert_eq!(relevant(2), relevant(9));
        assert!(relevant(1) <= relevant(2) && relevant(2) < 10, "{}", relevant(2));
    }
}
