//! Ensembles of decision trees as files have them.

use std::collections::{HashMap, HashSet};

use super::{
    forest::{Split, Target, Test},
    numbers,
};
use crate::{
    error::{OnnxError, Result},
    ir::Attribute,
    operators::context::NodeContext,
};

/// Trees whose leaves have numbers for each target.
pub(super) struct Ensemble {
    pub(super) splits: Vec<Split>,
    pub(super) roots: Vec<Target>,
    pub(super) targets: usize,
    /// The numbers of each leaf: the target and the weight.
    pub(super) leaves: Vec<Vec<(usize, f64)>>,
}

impl Ensemble {
    /// The trees of attributes that list nodes and leaves by the numbers of their trees.
    pub(super) fn listed(cx: &NodeContext<'_>, prefix: &str, targets: usize) -> Result<Ensemble> {
        let (trees, ids) = (all(cx, "nodes_treeids")?, all(cx, "nodes_nodeids")?);
        let modes = cx.texts("nodes_modes")?.unwrap_or_default();
        let [feature, when_true, when_false] =
            ["nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids"].map(|name| all(cx, name));
        let (feature, when_true, when_false) = (feature?, when_true?, when_false?);
        let values = weights(cx, "nodes_values")?;
        let count = ids.len();
        for (name, found) in [
            ("nodes_treeids", trees.len()),
            ("nodes_modes", modes.len()),
            ("nodes_featureids", feature.len()),
            ("nodes_truenodeids", when_true.len()),
            ("nodes_falsenodeids", when_false.len()),
            ("nodes_values", values.len()),
        ] {
            if found != count {
                return Err(OnnxError::attribute(name, format!("{count} elements, one for each node")));
            }
        }
        let nan = all(cx, "nodes_missing_value_tracks_true")?;
        // Nodes and leaves by tree and number.
        let (mut places, mut splits, mut leaves) = (HashMap::new(), 0, 0);
        for at in 0..count {
            let counter = if modes[at] == "LEAF" { &mut leaves } else { &mut splits };
            let place = if modes[at] == "LEAF" { Target::Leaf(*counter) } else { Target::Split(*counter) };
            *counter += 1;
            if places.insert((trees[at], ids[at]), place).is_some() {
                return Err(OnnxError::attribute("nodes_nodeids", "each number once in a tree"));
            }
        }
        let place = |name: &str, tree: i64, id: i64| {
            let missing = || OnnxError::attribute(name, format!("nodes of the tree; it has no node {id}"));
            places.get(&(tree, id)).copied().ok_or_else(missing)
        };
        let mut all_splits = Vec::new();
        let mut is_behind = HashSet::new();
        for at in (0..count).filter(|&at| modes[at] != "LEAF") {
            let ways = [("nodes_truenodeids", when_true[at]), ("nodes_falsenodeids", when_false[at])];
            let [yes, no] = ways.map(|(name, id)| place(name, trees[at], id));
            let (when_true, when_false) = (yes?, no?);
            is_behind.extend([when_true, when_false]);
            let value = values[at];
            let test = match modes[at].as_str() {
                "BRANCH_LEQ" => Test::AtMost(value),
                "BRANCH_LT" => Test::Less(value),
                "BRANCH_GTE" => Test::AtLeast(value),
                "BRANCH_GT" => Test::Greater(value),
                "BRANCH_EQ" => Test::Equal(value),
                "BRANCH_NEQ" => Test::Differs(value),
                _ => {
                    return Err(OnnxError::attribute(
                        "nodes_modes",
                        "comparisons such as BRANCH_LEQ, or LEAF",
                    ));
                }
            };
            let feature = usize::try_from(feature[at]);
            let feature = feature.map_err(|_| OnnxError::attribute("nodes_featureids", "features from 0"))?;
            let takes_nan = nan.get(at).is_some_and(|&nan| nan != 0);
            all_splits.push(Split { feature, test, takes_nan, when_true, when_false });
        }
        let places_in_order = trees.iter().zip(&ids).filter_map(|(&tree, &id)| places.get(&(tree, id)));
        let roots = places_in_order.copied().filter(|place| !is_behind.contains(place)).collect();
        let mut rows = vec![Vec::new(); leaves];
        let of_leaves = ["treeids", "nodeids", "ids"].map(|name| all(cx, &format!("{prefix}_{name}")));
        let [leaf_trees, leaf_ids, leaf_targets] = of_leaves;
        let (leaf_trees, leaf_ids, leaf_targets) = (leaf_trees?, leaf_ids?, leaf_targets?);
        let own = weights(cx, &format!("{prefix}_weights"))?;
        if [leaf_trees.len(), leaf_ids.len(), leaf_targets.len()].iter().any(|&found| found != own.len()) {
            return Err(OnnxError::attribute(&format!("{prefix}_weights"), "a weight for each listed leaf"));
        }
        for at in 0..own.len() {
            let target = usize::try_from(leaf_targets[at]).ok().filter(|&target| target < targets);
            let target = target.ok_or_else(|| {
                OnnxError::attribute(&format!("{prefix}_ids"), format!("numbers below {targets}"))
            })?;
            // Weights of other nodes count for nobody.
            if let Target::Leaf(leaf) = place(&format!("{prefix}_nodeids"), leaf_trees[at], leaf_ids[at])? {
                rows[leaf].push((target, own[at]));
            }
        }
        Ok(Ensemble { splits: all_splits, roots, targets, leaves: rows })
    }

    /// The trees of attributes whose positions number nodes and leaves.
    pub(super) fn numbered(cx: &NodeContext<'_>) -> Result<Ensemble> {
        let targets = cx.count("n_targets", 1)?;
        let names = [
            "nodes_featureids",
            "nodes_truenodeids",
            "nodes_trueleafs",
            "nodes_falsenodeids",
            "nodes_falseleafs",
        ];
        let columns = names.map(|name| all(cx, name));
        let [feature, when_true, is_leaf, when_false, is_other_leaf] = columns;
        let (feature, when_true, is_leaf) = (feature?, when_true?, is_leaf?);
        let (when_false, is_other_leaf) = (when_false?, is_other_leaf?);
        let (modes, splits) = (array(cx, "nodes_modes")?, array(cx, "nodes_splits")?);
        let (ids, own) = (all(cx, "leaf_targetids")?, array(cx, "leaf_weights")?);
        let count = feature.len();
        let lengths = [when_true.len(), is_leaf.len(), when_false.len(), is_other_leaf.len()];
        for (name, found) in names[1..]
            .iter()
            .copied()
            .zip(lengths)
            .chain([("nodes_modes", modes.len()), ("nodes_splits", splits.len())])
        {
            if found != count {
                return Err(OnnxError::attribute(name, format!("{count} elements, one for each node")));
            }
        }
        if ids.len() != own.len() {
            return Err(OnnxError::attribute("leaf_weights", format!("{} elements", ids.len())));
        }
        let nan = all(cx, "nodes_missing_value_tracks_true")?;
        let place = |name: &str, at: i64, is_leaf: i64| {
            let most = if is_leaf != 0 { ids.len() } else { count };
            let at = usize::try_from(at).ok().filter(|&at| at < most);
            let at = at.ok_or_else(|| OnnxError::attribute(name, format!("numbers below {most}")))?;
            Ok(if is_leaf != 0 { Target::Leaf(at) } else { Target::Split(at) })
        };
        let sets = array(cx, "membership_values").unwrap_or_default();
        let mut sets = sets.split(|number| number.is_nan());
        let mut all_splits = Vec::with_capacity(count);
        for at in 0..count {
            let value = splits[at];
            let test = match modes[at] as i64 {
                0 => Test::AtMost(value),
                1 => Test::Less(value),
                2 => Test::AtLeast(value),
                3 => Test::Greater(value),
                4 => Test::Equal(value),
                5 => Test::Differs(value),
                6 => Test::Among(sets.next().unwrap_or_default().to_vec()),
                _ => return Err(OnnxError::attribute("nodes_modes", "numbers from 0 to 6")),
            };
            let feature = usize::try_from(feature[at]);
            let feature = feature.map_err(|_| OnnxError::attribute("nodes_featureids", "features from 0"))?;
            all_splits.push(Split {
                feature,
                test,
                takes_nan: nan.get(at).is_some_and(|&nan| nan != 0),
                when_true: place("nodes_truenodeids", when_true[at], is_leaf[at])?,
                when_false: place("nodes_falsenodeids", when_false[at], is_other_leaf[at])?,
            });
        }
        let roots = all(cx, "tree_roots")?;
        let roots = roots.into_iter().map(|root| place("tree_roots", root, 0)).collect::<Result<_>>()?;
        let target = |(&id, weight): (&i64, f64)| {
            let target = usize::try_from(id).ok().filter(|&target| target < targets);
            let expected = || OnnxError::attribute("leaf_targetids", format!("numbers below {targets}"));
            Ok(vec![(target.ok_or_else(expected)?, weight)])
        };
        let leaves = ids.iter().zip(own).map(target).collect::<Result<_>>()?;
        Ok(Ensemble { splits: all_splits, roots, targets, leaves })
    }
}

/// The numbers of an attribute that is an array.
fn array(cx: &NodeContext<'_>, name: &str) -> Result<Vec<f64>> {
    match cx.attribute(name) {
        Some(Attribute::Tensor(values)) => Ok(values.floats()),
        _ => Err(OnnxError::attribute(name, "an array")),
    }
}

/// An attribute of integers, empty if the node has none.
fn all(cx: &NodeContext<'_>, name: &str) -> Result<Vec<i64>> {
    Ok(cx.ints(name)?.unwrap_or_default())
}

/// An attribute of floats, or of an array of them under a longer name.
pub(super) fn weights(cx: &NodeContext<'_>, name: &str) -> Result<Vec<f64>> {
    match cx.attribute(&format!("{name}_as_tensor")) {
        Some(Attribute::Tensor(values)) => Ok(values.floats()),
        _ => numbers(cx, name),
    }
}
