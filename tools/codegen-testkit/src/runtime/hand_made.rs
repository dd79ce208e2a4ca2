//! Hand-made nodes and code for drivers that run host code.

use std::{slice::from_ref, sync::Arc};

use codegen_core::{
    Access, Artifact, Binding, Code, Cost, Kernel, KernelAbi, KernelCall, Launch, Param, RoutineParts,
    ScheduledRoutine, Slot, Temp,
    host::{HostArg, HostFn, HostModule, InterpretedKernel},
};
use device_runtime::{Context, Device, Driver, Host, LinkedRoutine, RunError};
use lowered_ir::ir::{NodeDecl, NodeRef, Symbol, SymbolId};
use tnode::{AxisPadding, DType, HostArray, MemoryMode, Padding, Reason, Scalar, Sharing, TensorNode};

/// A node of `len` elements of type `i64`.
pub fn node(name: &str, len: usize) -> TensorNode {
    TensorNode::builder(name).dims([len]).dtype(DType::I64).build().unwrap()
}

/// Such a node that lives on the device, with the given sharing.
pub fn on_device(name: &str, len: usize, sharing: Sharing) -> TensorNode {
    let node = node(name, len);
    let reason = Reason::new("the test says so");
    node.update_memory_mode(MemoryMode::OnDevice(sharing), reason).unwrap();
    node
}

/// An array on the host with the values of such a node.
pub fn array(values: &[i64]) -> HostArray {
    HostArray::from_slice(values, [values.len()]).unwrap()
}

/// The values of a node of `i64` elements, read back.
pub fn values(context: &Context, node: &TensorNode) -> Vec<i64> {
    context.to_host(node).unwrap().as_slice().unwrap().to_vec()
}

/// A device with the given driver.
pub fn device(driver: impl Driver + 'static) -> Device {
    Device::new(Arc::new(driver), 0)
}

/// A context without nodes, on a new stream.
pub fn context(device: &Device) -> Context {
    Context::new(&device.new_stream().unwrap())
}

struct Closure<F>(F);

impl<F: Fn(&mut [HostArg<'_>], &[i64]) -> Result<(), String> + Send + Sync> InterpretedKernel for Closure<F> {
    fn run(
        &self,
        args: &mut [HostArg<'_>],
        bindings: &[i64],
        _log: &mut dyn FnMut(usize, &[Scalar]),
    ) -> Result<(), String> {
        (self.0)(args, bindings)
    }
}

/// A kernel made of a closure.
pub type Body = Box<dyn InterpretedKernel>;

/// Makes a kernel of a closure that takes the memory and the bindings.
pub fn body(f: impl Fn(&mut [HostArg<'_>], &[i64]) + Send + Sync + 'static) -> Body {
    Box::new(Closure(move |args: &mut [HostArg<'_>], bindings: &[i64]| {
        f(args, bindings);
        Ok(())
    }))
}

/// A kernel that stops with this error, after `f` has changed its memory.
pub fn stopping(error: &'static str, f: impl Fn(&mut [HostArg<'_>]) + Send + Sync + 'static) -> Body {
    Box::new(Closure(move |args: &mut [HostArg<'_>], _: &[i64]| {
        f(args);
        Err(error.to_owned())
    }))
}

/// The elements of a parameter.
pub fn read<'a>(arg: &'a HostArg<'_>) -> &'a [i64] {
    match arg {
        HostArg::Read(bytes) => cast(bytes),
        HostArg::Write(bytes) => cast(bytes),
    }
}

/// The elements of a parameter, for writing. Panics if it is read-only.
pub fn write<'a>(arg: &'a mut HostArg<'_>) -> &'a mut [i64] {
    match arg {
        HostArg::Read(_) => panic!("the parameter is read-only"),
        HostArg::Write(bytes) => bytemuck::cast_slice_mut(bytes),
    }
}

fn cast(bytes: &[u8]) -> &[i64] {
    bytemuck::cast_slice(bytes)
}

/// The declaration of a node in a schedule.
pub fn decl(node: &TensorNode) -> NodeDecl {
    NodeDecl { name: node.name(), dtype: node.dtype(), dims: node.dims().unwrap(), mode: node.mode() }
}

/// A static symbol with values `0..range`.
pub fn symbol(name: &str, range: i64) -> Symbol {
    Symbol::parameter(name, range)
}

/// The ABI of a kernel with these parameters; the kernel is not split.
pub fn abi(name: &str, params: Vec<Param>) -> KernelAbi {
    let launch = Launch { extent: 1, grain: 1, threads: 1, end: None };
    KernelAbi {
        name: name.to_owned(),
        params,
        launch,
        scratch_bytes: 0,
        log: [].into(),
        cost: Cost::default(),
    }
}

/// A node as a parameter.
pub fn memory(node: &TensorNode, access: Access) -> Param {
    Param::Node { access, bytes: node.size_bytes().unwrap() }
}

/// Code of one interpreted kernel on `uses`, whose positions are the nodes', and with all `symbols`.
pub fn code(
    name: &str,
    uses: &[(&TensorNode, Access)],
    symbols: &[Symbol],
    f: impl Fn(&mut [HostArg<'_>], &[i64]) + Send + Sync + 'static,
) -> Arc<Code> {
    let mut params: Vec<_> = uses.iter().map(|(node, access)| memory(node, *access)).collect();
    params.extend(symbols.iter().map(|symbol| Param::StaticIndex { range: symbol.range }));
    one_kernel(uses, symbols, interpreted(vec![(body(f), abi(name, params))]))
}

/// Interpreted kernels.
pub fn interpreted(kernels: Vec<(Body, KernelAbi)>) -> Artifact {
    Artifact::host(HostModule::interpreted(kernels))
}

/// Code of `node += node.merge`, wrapping.
pub fn merging(node: &TensorNode) -> Arc<Code> {
    let bytes = node.size_bytes().unwrap();
    let params = vec![memory(node, Access::ReadWrite), Param::MergeBuffer { bytes }];
    let add = |args: &mut [HostArg<'_>], _: &[i64]| {
        let merged = read(&args[1]).to_vec();
        write(&mut args[0]).iter_mut().zip(merged).for_each(|(to, from)| *to = to.wrapping_add(from));
    };
    let args = vec![Slot::Node(NodeRef(0)), Slot::Merge(NodeRef(0))];
    let call = KernelCall { kernel: 0, args, bindings: vec![] };
    let kernel = interpreted(vec![(body(add), abi("merge", params))]);
    many_kernels("merge", from_ref(node), &[], kernel, vec![call], vec![])
}

/// Code of one native kernel on `uses` whose parallel loop has `extent` iterations.
///
/// # Safety
///
/// The promise of [`HostModule::native`]: the function follows the ABI for these uses, this launch and this
/// much scratch memory.
#[allow(unsafe_code, reason = "the caller vouches for the function")]
pub unsafe fn native(
    name: &str,
    uses: &[(&TensorNode, Access)],
    launch: Launch,
    scratch_bytes: usize,
    function: HostFn,
) -> Arc<Code> {
    let params = uses.iter().map(|(node, access)| memory(node, *access)).collect();
    let abi = KernelAbi { launch, scratch_bytes, ..abi(name, params) };
    // SAFETY: the caller's promise is the one asked for; functions of the program are never unloaded.
    let module = unsafe { HostModule::native(vec![(function.into(), abi)], Arc::new(())) };
    one_kernel(uses, &[], Artifact::host(module))
}

/// Code of an artifact's only kernel, on `uses` and with all `symbols`.
pub fn one_kernel(uses: &[(&TensorNode, Access)], symbols: &[Symbol], artifact: Artifact) -> Arc<Code> {
    let call = KernelCall {
        kernel: 0,
        args: (0..uses.len()).map(|at| Slot::Node(NodeRef(at as u32))).collect(),
        bindings: (0..symbols.len()).map(|at| Binding::Symbol(SymbolId(at as u32))).collect(),
    };
    let nodes: Vec<_> = uses.iter().map(|(node, _)| (*node).clone()).collect();
    let name = artifact.kernels()[0].name.clone();
    many_kernels(&name, &nodes, symbols, artifact, vec![call], vec![])
}

/// Code of all kernels of an artifact.
pub fn many_kernels(
    name: &str,
    nodes: &[TensorNode],
    symbols: &[Symbol],
    artifact: Artifact,
    calls: Vec<KernelCall>,
    temps: Vec<Temp>,
) -> Arc<Code> {
    let parts = RoutineParts {
        name: name.to_owned(),
        symbols: symbols.to_vec(),
        nodes: nodes.iter().map(decl).collect(),
        kernels: artifact.kernels().iter().cloned().map(|abi| Kernel::opaque(abi).unwrap()).collect(),
        calls,
        temps,
        overwritten: vec![],
    };
    Arc::new(Code::new(ScheduledRoutine::new(parts).unwrap(), artifact).unwrap())
}

/// A node of `i64` elements with a host array.
pub fn resident(host: &Host, name: &str, values: &[i64]) -> TensorNode {
    let node = node(name, values.len());
    host.insert(&node, array(values)).unwrap();
    node
}

/// The routine `to = 2 from`.
///
/// # Errors
///
/// Fails like [`Context::link`].
pub fn double(context: &Context, from: &TensorNode, to: &TensorNode) -> Result<LinkedRoutine, RunError> {
    let code = code("double", &[(from, Access::Read), (to, Access::Write)], &[], |args, _| {
        let doubled: Vec<i64> = read(&args[0]).iter().map(|value| 2 * value).collect();
        write(&mut args[1]).copy_from_slice(&doubled);
    });
    context.link(&code, &[from.clone(), to.clone()])
}

/// Margins are transferred to the device and back.
pub(crate) fn padding_comes_back_from(device: &Device) {
    let padding =
        Padding { axes: [AxisPadding { left: 1, right: 2 }].into_iter().collect(), neutral: Some(0.0) };
    let builder = TensorNode::builder("padded").dims([2]).padding(padding.clone()).dtype(DType::F32);
    let x = builder.build().unwrap();
    let mut host = HostArray::zeros_padded(DType::F32, [2], padding).unwrap();
    host.set_values(&[3., 4.]).unwrap();
    let context = context(device).init_from_host(&x, &host).unwrap();
    assert_eq!(context.to_host(&x).unwrap(), host);
}
