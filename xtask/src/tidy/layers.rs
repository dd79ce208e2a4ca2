//! The layer table in the root `Cargo.toml` against the dependencies that Cargo sees.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use serde::Deserialize;

#[derive(Deserialize)]
struct Layers {
    order: Vec<Vec<String>>,
    tools: Vec<String>,
    forbidden: Vec<(String, String)>,
}

/// Findings about edges that point up or sideways, forbidden edges, and crates without a layer.
pub(super) fn check() -> Result<Vec<String>> {
    let metadata = MetadataCommand::new().current_dir(crate::root()).no_deps().exec()?;
    let layers = layers(&metadata)?;
    let level = levels(&layers);
    let mut findings = Vec::new();
    for package in &metadata.packages {
        if layers.tools.iter().any(|tool| *tool == *package.name) {
            continue;
        }
        let Some(&own) = level.get(package.name.as_str()) else {
            findings.push(format!("Cargo.toml: crate `{}` is in no layer", package.name));
            continue;
        };
        for name in linked(package) {
            findings.extend(edge(&layers, &level, (package.name.as_str(), own), name));
        }
    }
    Ok(findings)
}

fn layers(metadata: &Metadata) -> Result<Layers> {
    let table = metadata.workspace_metadata.get("layers").context("no [workspace.metadata.layers]")?;
    serde_json::from_value(table.clone()).context("[workspace.metadata.layers] does not read")
}

fn levels(layers: &Layers) -> BTreeMap<&str, usize> {
    let numbered = layers.order.iter().enumerate();
    numbered.flat_map(|(level, names)| names.iter().map(move |name| (name.as_str(), level))).collect()
}

/// The names of the crates that end up linked: normal and build dependencies. Tests may reach the tools.
fn linked(package: &Package) -> impl Iterator<Item = &str> {
    let kept =
        package.dependencies.iter().filter(|d| d.kind != DependencyKind::Development && d.path.is_some());
    kept.map(|dependency| dependency.name.as_str())
}

fn edge(layers: &Layers, level: &BTreeMap<&str, usize>, from: (&str, usize), to: &str) -> Option<String> {
    let (name, own) = from;
    if layers.tools.iter().any(|tool| tool == to) {
        return Some(format!("crates/{name}/Cargo.toml: depends on the tool `{to}`"));
    }
    if layers.forbidden.iter().any(|(a, b)| a == name && b == to) {
        return Some(format!("crates/{name}/Cargo.toml: the edge to `{to}` is forbidden"));
    }
    match level.get(to) {
        Some(&theirs) if theirs < own => None,
        Some(_) => Some(format!("crates/{name}/Cargo.toml: `{to}` is not in a lower layer")),
        None => Some(format!("crates/{name}/Cargo.toml: `{to}` is in no layer")),
    }
}
