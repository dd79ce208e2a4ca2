//! Assigns memory in slabs to nodes, temporaries and merge buffers, and binds the calls of compiled code to
//! it, as a device does at link time.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, anyhow, ensure};
use codegen_core::{Binding, Code, KernelCall, Payload, ShaderModule, Slot};
use lowered_ir::ir::NodeDecl;

use crate::page::{Call, Context, Kernel, Node, Page, Routine, SymbolValue};

/// Bytes of the largest slab that every browser can bind.
const SLAB_BYTES: usize = 128 << 20;
/// The number of slabs that every browser can bind.
const SLABS: usize = 8;
/// Alignment of memory in a slab, in bytes: at least the alignment that any codegen requires.
const ALIGNMENT: usize = 256;

/// A place in the slabs of a context.
#[derive(Clone, Copy, Debug)]
struct SlabOffset {
    slab: usize,
    offset: usize,
}

/// Allocates memory for a node in a context and returns the node's position in the context.
///
/// # Errors
///
/// The node is larger than a slab can be, or all slabs are full.
pub(crate) fn add_node(context: &mut Context, name: &str, decl: &NodeDecl) -> Result<usize> {
    let bytes = decl.dims.iter().product::<usize>() * decl.dtype.size_bytes();
    let place = place(&mut context.slabs, bytes).with_context(|| format!("placing node \"{name}\""))?;
    let SlabOffset { slab, offset } = place;
    let (dtype, dims) = (decl.dtype.token().to_owned(), decl.dims.to_vec());
    context.nodes.push(Node { name: name.to_owned(), dtype, dims, slab, offset, bytes });
    Ok(context.nodes.len() - 1)
}

/// Allocates memory for the nodes that the kernels of `code` access, except for `known` nodes, which have
/// memory already. Returns the position in the context of each node of the routine; `None` for a node without
/// memory.
///
/// # Errors
///
/// The errors of [`add_node`].
pub(crate) fn add_nodes(
    context: &mut Context,
    code: &Code,
    known: &BTreeMap<String, usize>,
) -> Result<Vec<Option<usize>>> {
    let slots = code.schedule().calls().iter().flat_map(|call| &call.args);
    let touched = slots.filter_map(|slot| match slot {
        Slot::Node(node) => Some(node.index()),
        Slot::Merge(_) | Slot::Temp(_) => None,
    });
    let touched: BTreeSet<usize> = touched.collect();
    let mut nodes = Vec::new();
    for (at, decl) in code.schedule().nodes().iter().enumerate() {
        nodes.push(match (known.get(&decl.name), touched.contains(&at)) {
            (Some(&node), _) => Some(node),
            (None, true) => Some(add_node(context, &decl.name, decl)?),
            (None, false) => None,
        });
    }
    Ok(nodes)
}

/// Links code into a context. Node `i` of the routine is node `nodes[i]` of the context, and node `merge` of
/// the context is the merge buffer. Adds the code's kernels to the page, unless the page has them already.
///
/// # Errors
///
/// The code does not consist of shaders, a shader cannot be made, or there is not enough memory.
pub(crate) fn link(
    page: &mut Page,
    context: &mut Context,
    code: &Code,
    nodes: &[Option<usize>],
    merge: Option<usize>,
) -> Result<()> {
    let schedule = code.schedule();
    let Payload::Shader(shaders) = code.artifact().payload() else {
        return Err(anyhow!("routine @{} was compiled for something else than a browser", schedule.name()));
    };
    let temps = place(&mut context.slabs, schedule.temp_bytes());
    let temps = temps.with_context(|| format!("placing the temporaries of @{}", schedule.name()))?;
    let places: Vec<SlabOffset> =
        context.nodes.iter().map(|node| SlabOffset { slab: node.slab, offset: node.offset }).collect();
    let slot_place = |slot: &Slot| match *slot {
        Slot::Node(node) => places.get((*nodes.get(node.index())?)?).copied(),
        Slot::Merge(_) => merge.and_then(|at| places.get(at)).copied(),
        Slot::Temp(temp) => {
            let temp = schedule.temps().get(temp.0 as usize)?;
            Some(SlabOffset { offset: temps.offset + temp.offset, ..temps })
        }
    };
    let mut calls = Vec::new();
    for call in schedule.calls() {
        let places: Option<Vec<SlabOffset>> = call.args.iter().map(slot_place).collect();
        let places =
            places.with_context(|| format!("@{} uses memory that it was not given", schedule.name()))?;
        let (slabs, numbered) = number(&places);
        let kernel = kernel(&**shaders, code, call, &numbered, slabs.len())?;
        calls.push(Call {
            kernel: intern(&mut page.kernels, kernel),
            slabs,
            offsets: places.iter().map(|place| place.offset / 4).collect(),
            symbols: call.bindings.iter().map(symbol_value).collect(),
        });
    }
    let symbols = schedule.symbols().iter().map(|symbol| symbol.name.clone()).collect();
    context.routines.push(Routine { name: schedule.name().to_owned(), symbols, calls });
    Ok(())
}

fn symbol_value(binding: &Binding) -> SymbolValue {
    match *binding {
        Binding::Symbol(symbol) => SymbolValue::Symbol(symbol.index()),
        Binding::Step(step) => SymbolValue::Step(step),
    }
}

/// Allocates memory in the last slab, or in a new slab if the last one is full.
fn place(slabs: &mut Vec<usize>, bytes: usize) -> Result<SlabOffset> {
    ensure!(bytes <= SLAB_BYTES, "it has {bytes} bytes, and browsers bind at most {SLAB_BYTES} at once");
    // A slab of no bytes could not be bound.
    let bytes = bytes.max(1).next_multiple_of(ALIGNMENT);
    if slabs.last().is_none_or(|used| used + bytes > SLAB_BYTES) {
        ensure!(slabs.len() < SLABS, "{SLABS} slabs of {SLAB_BYTES} bytes, which browsers bind, are full");
        slabs.push(0);
    }
    let slab = slabs.len() - 1;
    let offset = slabs[slab];
    slabs[slab] += bytes;
    Ok(SlabOffset { slab, offset })
}

/// The slabs of the places, in the order in which they occur first; and for each place, the number of its
/// slab in that order.
fn number(places: &[SlabOffset]) -> (Vec<usize>, Vec<u32>) {
    let mut slabs: Vec<usize> = Vec::new();
    let mut numbered = Vec::new();
    for place in places {
        let at = slabs.iter().position(|slab| *slab == place.slab).unwrap_or_else(|| {
            slabs.push(place.slab);
            slabs.len() - 1
        });
        numbered.push(at as u32);
    }
    (slabs, numbered)
}

/// A called kernel, with its text for the slabs of its parameters.
fn kernel(
    shaders: &dyn ShaderModule,
    code: &Code,
    call: &KernelCall,
    numbered: &[u32],
    slabs: usize,
) -> Result<Kernel> {
    let shader = shaders.shader(call.kernel, numbered)?;
    let abi = code.artifact().kernels().get(call.kernel).context("a call of a kernel that does not exist")?;
    let (wgsl, groups, table_words) = (shader.wgsl, shader.groups, shader.table_words);
    Ok(Kernel { name: abi.name.clone(), wgsl, groups, table_words, slabs })
}

/// The position of a kernel, which is added if it is new.
fn intern(kernels: &mut Vec<Kernel>, kernel: Kernel) -> usize {
    kernels.iter().position(|known| *known == kernel).unwrap_or_else(|| {
        kernels.push(kernel);
        kernels.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_aligned_and_a_full_slab_is_followed_by_another() {
        let mut slabs = Vec::new();
        let mut at = |bytes| place(&mut slabs, bytes).map(|p| (p.slab, p.offset));
        assert_eq!(at(0).unwrap(), (0, 0));
        assert_eq!(at(1).unwrap(), (0, 256));
        assert_eq!(at(SLAB_BYTES).unwrap(), (1, 0));
        assert_eq!(at(4).unwrap(), (2, 0));
        assert!(at(SLAB_BYTES + 1).unwrap_err().to_string().contains("bind at most"));
        let full: Vec<_> = (0..6).map(|_| at(SLAB_BYTES)).collect();
        assert!(full[..5].iter().all(Result::is_ok) && full[5].is_err());
    }

    #[test]
    fn slabs_are_numbered_by_first_mention() {
        let places = [2, 0, 2, 1].map(|slab| SlabOffset { slab, offset: 0 });
        assert_eq!(number(&places), (vec![2, 0, 1], vec![0, 1, 0, 2]));
    }
}
