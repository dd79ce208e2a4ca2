//! Labels that are texts. Arrays have no texts, so the labels of a classifier are their numbers, and the
//! model says which texts they number.

use std::collections::HashMap;

use crate::{
    error::{OnnxError, Result},
    ir::{Attribute, ModelNode},
};

/// The texts that the integers of values number, and the names of the columns of values that a file calls
/// maps. The nodes are sorted. No other node may read such integers, since it would mean the texts.
pub(crate) fn labels(nodes: &[ModelNode]) -> Result<HashMap<String, Vec<String>>> {
    let mut labels: HashMap<String, Vec<String>> = HashMap::new();
    for node in nodes {
        let read = node.reads().find_map(|name| labels.get(name));
        let own = match (node.operator.name, read) {
            ("Identity", Some(texts)) => Some(texts.clone()),
            (_, Some(_)) => {
                let problem = OnnxError::Case("an operand of texts".into());
                return Err(OnnxError::at_node(node.place(), problem));
            }
            (_, None) => own(node),
        };
        if let (Some(own), Some(output)) = (own, node.outputs.first()) {
            labels.insert(output.clone(), own);
        }
    }
    Ok(labels)
}

/// The texts of the first result of a node.
fn own(node: &ModelNode) -> Option<Vec<String>> {
    let texts = |name: &str| match node.attributes.get(name) {
        Some(Attribute::Texts(texts)) if !texts.is_empty() => Some(texts.clone()),
        _ => None,
    };
    match node.operator.name {
        "LinearClassifier" | "SVMClassifier" | "TreeEnsembleClassifier" => texts("classlabels_strings"),
        "LabelEncoder" => {
            let mut texts = texts("values_strings")?;
            texts.push(match node.attributes.get("default_string") {
                Some(Attribute::Text(text)) => text.clone(),
                _ => "_Unused".into(),
            });
            Some(texts)
        }
        "ZipMap" => match node.attributes.get("classlabels_int64s") {
            Some(Attribute::Ints(numbers)) if !numbers.is_empty() => {
                Some(numbers.iter().map(i64::to_string).collect())
            }
            _ => texts("classlabels_strings"),
        },
        _ => None,
    }
}
