//! The steps on which a gradient depends.
//!
//! A program may request many gradients, each behind the updates that follow the one before. The loss of each
//! is computed from parameters, inputs and a few of the steps before it. All other steps are left out, so
//! that the time for each gradient does not grow with the number of earlier ones.

use std::collections::{BTreeMap, BTreeSet};

use assignments::{FetchOp, ProgramStep};
use tnode::TensorNode;

use crate::forward_program::{is_active_after, reads, targets};
use crate::recompute::ends_older_values;

/// Finds the steps on which gradients depend, for one gradient after the other. Steps that are left out are
/// visited for the first of the gradients only.
#[derive(Default)]
pub(crate) struct RelevantSteps {
    /// The positions of the steps that write or detach each node, in order, among the first `visited` ones.
    changes: BTreeMap<TensorNode, Vec<usize>>,
    visited: usize,
}

impl RelevantSteps {
    /// The position of the first of `steps`, which are no blocks and no scans, on which the gradient of the
    /// loss may depend: no step before it writes a value from which later ones compute the loss, except for
    /// the parameters, which are mentioned behind it.
    ///
    /// The steps before the result of the last call must be the same as in that call.
    pub(crate) fn first(
        &mut self,
        steps: &[&ProgramStep],
        loss: &TensorNode,
        parameters: &[(TensorNode, TensorNode)],
    ) -> usize {
        let parameters: BTreeSet<&TensorNode> = parameters.iter().map(|(parameter, _)| parameter).collect();
        for (at, step) in steps.iter().enumerate().skip(self.visited) {
            changed(step).for_each(|node| self.changes.entry(node.clone()).or_default().push(at));
        }
        let first = self.first_needed(steps, loss, &parameters);
        let first = first.filter(|&first| self.are_independent(&steps[..first], &parameters));
        if first.is_none() {
            self.changes.clear();
        }
        self.visited = first.unwrap_or(0);
        self.visited
    }

    /// The position of the first step from which the loss is computed, where the parameters have values.
    /// Forgets the changes by this step and later ones. `None` if the first step may be relevant.
    fn first_needed(
        &mut self,
        steps: &[&ProgramStep],
        loss: &TensorNode,
        parameters: &BTreeSet<&TensorNode>,
    ) -> Option<usize> {
        let is_view = |node: &&TensorNode| node.view().is_some();
        if parameters.contains(loss) || is_view(&loss) || parameters.iter().any(is_view) {
            return None;
        }
        let mut unseen = parameters.clone();
        // The nodes whose values the loss is computed from, if steps before the one at hand change them.
        let mut open = BTreeSet::from([loss]);
        for (at, step) in steps.iter().enumerate().rev() {
            if open.is_empty() && unseen.is_empty() {
                return Some(at + 1);
            }
            if let ProgramStep::Fetch { op: FetchOp::Slice { .. }, .. } | ProgramStep::CustomGradient(_) =
                step
            {
                return None;
            }
            let is_needed = changed(step).any(|node| open.contains(node));
            for node in changed(step) {
                unseen.remove(node);
                self.changes.get_mut(node).and_then(Vec::pop);
                let is_complete = || !node.mode().known_virtual() && ends_older_values(step, node);
                if self.last_change(node).is_none() || is_complete() {
                    open.remove(node);
                }
            }
            for node in reads(step) {
                unseen.remove(node);
                if is_needed && node.view().is_some() {
                    return None;
                }
                if is_needed && !parameters.contains(node) && self.last_change(node).is_some() {
                    open.insert(node);
                }
            }
        }
        None
    }

    fn last_change(&self, node: &TensorNode) -> Option<usize> {
        self.changes.get(node)?.last().copied()
    }

    /// Whether the parameters are variables behind `steps`: none is detached, and the value of none follows
    /// from the last value of another one, so that derivatives by this one go through the steps.
    fn are_independent(&self, steps: &[&ProgramStep], parameters: &BTreeSet<&TensorNode>) -> bool {
        if steps.iter().any(|step| matches!(step, ProgramStep::CustomGradient(_))) {
            return false;
        }
        let last: BTreeMap<&TensorNode, Option<usize>> =
            parameters.iter().map(|&node| (node, self.last_change(node))).collect();
        if last.values().flatten().any(|&at| matches!(steps[at], ProgramStep::Detach(_))) {
            return false;
        }
        if last.len() < 2 {
            return true;
        }
        let unchanged = last.iter().filter(|(_, at)| at.is_none());
        let mut active: BTreeSet<TensorNode> = unchanged.map(|(&node, _)| node.clone()).collect();
        let first = last.values().copied().min().flatten().unwrap_or(0);
        for (at, step) in steps.iter().enumerate().skip(first) {
            for node in targets(step) {
                let follows = is_active_after(step, &node, &active);
                if follows && parameters.contains(&node) {
                    return false;
                }
                match follows || last.get(&node) == Some(&Some(at)) {
                    true => active.insert(node),
                    false => active.remove(&node),
                };
            }
            if let ProgramStep::Detach(node) = step {
                active.remove(node);
            }
        }
        true
    }
}

/// The nodes that a step writes or detaches, once for each write.
fn changed(step: &ProgramStep) -> impl Iterator<Item = &TensorNode> {
    let other = match step {
        ProgramStep::Fetch { node, .. } | ProgramStep::Detach(node) => Some(node),
        _ => None,
    };
    step.accums().iter().map(|accum| &accum.lhs).chain(other)
}

#[cfg(test)]
mod tests {
    use assignment_text::Program;

    use super::*;
    use crate::scans::FlatProgram;

    /// A program of `count` copies of a step of gradient descent, and the number of steps behind the first
    /// relevant one for the last of its gradients.
    fn relevant(step: &str, count: usize) -> usize {
        let inputs = "input x f32[4, 3]\nparam w f32[3, 5], b f32[5], v f32[5, 2]\n";
        let text = format!("{inputs}{}", step.repeat(count));
        let program = Program::parse(&text).unwrap().assignments(&[]).unwrap();
        let all = FlatProgram::new(&program.steps, &program.symbols).steps;
        let mut relevant = RelevantSteps::default();
        let mut before: Vec<&ProgramStep> = Vec::new();
        let mut length = 0;
        for step in &all {
            match step {
                ProgramStep::Gradient { loss, parameters, .. } => {
                    length = before.len() - relevant.first(&before, loss, parameters);
                }
                step => before.push(step),
            }
        }
        length
    }

    const ONE: &str = "
        h[b,j] :+= x[b,i] * w[i,j]
        r[b,j] := tanh(h[b,j]) * 2.0
        loss :+= r[b,j] * r[b,j]
        grad loss by w
        w[i,j] -= 0.1 * w.grad[i,j]\n";

    const THREE: &str = "
        h[b,j] :+= x[b,i] * w[i,j]
        p[b,m] :+= tanh(h[b,j] + b[j]) * v[j,m]
        loss :+= p[b,m] * p[b,m]
        grad loss by w, b, v
        w[i,j] -= 0.1 * w.grad[i,j]
        b[j] -= 0.1 * b.grad[j]
        v[i,j] -= 0.1 * v.grad[i,j]\n";

    #[test]
    fn earlier_updates_are_left_out() {
        for (step, most) in [(ONE, 10), (THREE, 12)] {
            assert_eq!(relevant(step, 2), relevant(step, 9));
            assert!(relevant(step, 1) <= relevant(step, 2) && relevant(step, 2) < most);
        }
    }

    /// The derivative by `w` goes through the update of `b`, which is computed from the new `w`.
    #[test]
    fn updates_by_new_values_are_relevant() {
        let follows = THREE.replace("0.1 * b.grad[j]", "0.1 * b.grad[j] * w[0,j]");
        assert!(relevant(&follows, 3) > relevant(THREE, 3));
    }

    /// A parameter that was detached before the loss is a constant.
    #[test]
    fn detached_parameters_are_relevant() {
        assert!(relevant(&format!("{ONE}detach w\n"), 2) > relevant(ONE, 2));
    }
}
