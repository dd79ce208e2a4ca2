//! Compares the layer table in the root `Cargo.toml` with the dependencies that Cargo reports.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use serde::Deserialize;

/// The layer table of the root `Cargo.toml`, `[workspace.metadata.layers]`.
#[derive(Deserialize)]
struct Layers {
    /// Layers from the lowest to the highest, each a list of siblings.
    order: Vec<Vec<String>>,
    /// Crates that stand outside of the layers.
    tools: Vec<String>,
    /// Crates by the name of their group.
    groups: BTreeMap<String, Vec<String>>,
    /// Pairs of groups: crates of the first reach no crate of the second.
    apart: Vec<(String, String)>,
}

/// The crates that each crate links, by name.
type Edges = BTreeMap<String, BTreeSet<String>>;

/// Findings about edges that point up or sideways, groups that reach each other, and crates without a layer.
pub(super) fn check() -> Result<Vec<String>> {
    let metadata = MetadataCommand::new().current_dir(crate::root()).no_deps().exec()?;
    Ok(findings(&layers(&metadata)?, &edges(&metadata)))
}

fn layers(metadata: &Metadata) -> Result<Layers> {
    let table = metadata.workspace_metadata.get("layers").context("no [workspace.metadata.layers]")?;
    serde_json::from_value(table.clone()).context("[workspace.metadata.layers] does not read")
}

fn edges(metadata: &Metadata) -> Edges {
    let edges = |package: &Package| (package.name.to_string(), linked(package));
    metadata.packages.iter().map(edges).collect()
}

/// The names of the crates of this workspace that end up linked: normal and build dependencies.
fn linked(package: &Package) -> BTreeSet<String> {
    let linked =
        package.dependencies.iter().filter(|d| d.kind != DependencyKind::Development && d.path.is_some());
    linked.map(|dependency| dependency.name.clone()).collect()
}

fn findings(layers: &Layers, edges: &Edges) -> Vec<String> {
    let levels = levels(layers);
    let mut findings = unknown(layers, edges);
    for (name, dependencies) in edges {
        if layers.tools.contains(name) {
            continue;
        }
        let Some(&level) = levels.get(name.as_str()) else {
            findings.push(format!("Cargo.toml: crate `{name}` is in no layer"));
            continue;
        };
        findings.extend(dependencies.iter().filter_map(|to| edge(layers, &levels, (name, level), to)));
    }
    findings.extend(layers.apart.iter().flat_map(|pair| reached(layers, edges, pair)));
    findings
}

fn levels(layers: &Layers) -> BTreeMap<&str, usize> {
    let numbered = layers.order.iter().enumerate();
    numbered.flat_map(|(level, names)| names.iter().map(move |name| (name.as_str(), level))).collect()
}

/// Names in groups that are not crates, and groups in pairs that the table does not define.
fn unknown(layers: &Layers, edges: &Edges) -> Vec<String> {
    let crates = layers.groups.values().flatten().filter(|name| !edges.contains_key(*name));
    let pairs = layers.apart.iter().flat_map(|(first, second)| [first, second]);
    let groups = pairs.filter(|name| !layers.groups.contains_key(*name));
    let crates = crates.map(|name| format!("Cargo.toml: a group lists `{name}`, which is no crate"));
    crates.chain(groups.map(|name| format!("Cargo.toml: `apart` names the unknown group `{name}`"))).collect()
}

fn edge(layers: &Layers, levels: &BTreeMap<&str, usize>, from: (&str, usize), to: &str) -> Option<String> {
    let (name, own) = from;
    if layers.tools.iter().any(|tool| tool == to) {
        return Some(format!("crates/{name}/Cargo.toml: depends on the tool `{to}`"));
    }
    match levels.get(to) {
        Some(&theirs) if theirs < own => None,
        Some(_) => Some(format!("crates/{name}/Cargo.toml: `{to}` is not in a lower layer")),
        None => Some(format!("crates/{name}/Cargo.toml: `{to}` is in no layer")),
    }
}

/// The crates of the second group that crates of the first reach, each with the path to it.
fn reached(layers: &Layers, edges: &Edges, (first, second): &(String, String)) -> Vec<String> {
    let members = |group: &str| layers.groups.get(group).into_iter().flatten();
    let mut findings = Vec::new();
    for from in members(first) {
        let paths = paths(edges, from);
        for to in members(second).filter_map(|to| paths.get(to.as_str())) {
            let path = to.join(" -> ");
            findings.push(format!("crates/{from}/Cargo.toml: group `{first}` reaches `{second}`: {path}"));
        }
    }
    findings
}

/// A shortest path from a crate to each crate that it reaches.
fn paths<'e>(edges: &'e Edges, from: &'e str) -> BTreeMap<&'e str, Vec<&'e str>> {
    let mut paths = BTreeMap::from([(from, vec![from])]);
    let mut frontier = vec![from];
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for name in frontier {
            let path = paths[name].clone();
            for to in edges.get(name).into_iter().flatten() {
                paths.entry(to).or_insert_with(|| {
                    next.push(to.as_str());
                    [&path[..], &[to.as_str()]].concat()
                });
            }
        }
        frontier = next;
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Layers {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Layers {
            order: vec![names(&["core"]), names(&["codegen"]), names(&["bridge"]), names(&["device"])],
            tools: names(&["kit"]),
            groups: BTreeMap::from([
                ("codegens".to_owned(), names(&["codegen"])),
                ("devices".to_owned(), names(&["device"])),
            ]),
            apart: vec![("devices".to_owned(), "codegens".to_owned())],
        }
    }

    fn found(edges: &[(&str, &[&str])]) -> String {
        let all =
            ["core", "codegen", "bridge", "device", "kit"].map(|name| (name.to_owned(), BTreeSet::new()));
        let mut with: Edges = all.into();
        for (from, to) in edges {
            with.insert((*from).to_owned(), to.iter().map(|name| (*name).to_owned()).collect());
        }
        findings(&table(), &with).join("\n")
    }

    #[test]
    fn edges_point_down() {
        assert_eq!(found(&[("codegen", &["core"]), ("device", &["core"])]), "");
        assert!(found(&[("core", &["codegen"])]).contains("`codegen` is not in a lower layer"));
        assert!(found(&[("core", &["kit"])]).contains("depends on the tool `kit`"));
        assert!(found(&[("stray", &[])]).contains("crate `stray` is in no layer"));
    }

    #[test]
    fn groups_stay_apart_through_other_crates() {
        let direct = found(&[("device", &["codegen"])]);
        assert!(direct.contains("group `devices` reaches `codegens`: device -> codegen"), "{direct}");
        let indirect = found(&[("bridge", &["codegen"]), ("device", &["bridge"])]);
        assert!(indirect.contains("device -> bridge -> codegen"), "{indirect}");
    }
}
