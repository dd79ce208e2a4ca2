//! A codegen of two halves: the compiler sees each kernel beside its source, and everything on which code
//! depends is in the fingerprint.

use codegen_core::host::{HostArg, HostModule, InterpretedKernel};
use codegen_core::interp::{Buffer, PreparedRoutine};
use codegen_core::{
    Artifact, Caps, Codegen, CodegenError, Compiler, Kernel, Pipeline, RenderedKernel, Renderer, Scalar, text,
};

use crate::scheduled;

/// Renders a kernel as the text of its IR, which has no ABI.
#[derive(Clone, Hash)]
struct AsText {
    heading: &'static str,
}

impl Renderer for AsText {
    type Source = String;

    fn render(&self, _: &Caps, kernel: &Kernel) -> Result<String, CodegenError> {
        Ok(format!("; {}\n{}", self.heading, text::print(kernel.ir())))
    }
}

/// Runs the text by the interpreter.
#[derive(Clone, Hash)]
struct FromText;

struct ReadKernel(PreparedRoutine);

impl InterpretedKernel for ReadKernel {
    fn run(
        &self,
        args: &mut [HostArg<'_>],
        bindings: &[i64],
        log: &mut dyn FnMut(usize, &[Scalar]),
    ) -> Result<(), String> {
        let mut nodes: Vec<Buffer<'_>> = args
            .iter_mut()
            .map(|arg| match arg {
                HostArg::Read(bytes) => Buffer::Read(bytes),
                HostArg::Write(bytes) => Buffer::Write(bytes),
            })
            .collect();
        self.0.run_recorded(&mut nodes, None, bindings, log).map_err(|error| error.to_string())
    }
}

impl Compiler for FromText {
    type Source = String;
    type Options = u8;

    fn compile(
        &self,
        _: &Caps,
        kernels: Vec<RenderedKernel<'_, String>>,
        _: &u8,
    ) -> Result<Artifact, CodegenError> {
        let read = |RenderedKernel { kernel, source }: RenderedKernel<'_, String>| {
            let routine = text::parse(&source).unwrap();
            let read: Box<dyn InterpretedKernel> =
                Box::new(ReadKernel(PreparedRoutine::new(&routine).unwrap()));
            (read, kernel.abi().clone())
        };
        Ok(Artifact::host(HostModule::interpreted(kernels.into_iter().map(read).collect())))
    }
}

fn codegen() -> Pipeline<AsText, FromText> {
    Pipeline {
        name: "text".to_owned(),
        version: "1.0.0".to_owned(),
        caps: Caps::host("text"),
        renderer: AsText { heading: "by a renderer" },
        compiler: FromText,
        options: 0,
    }
}

#[test]
fn a_compiler_has_the_abis_of_its_kernels() {
    let routine = scheduled();
    let artifact = codegen().compile(&routine).unwrap();
    let expected: Vec<_> = routine.kernels().iter().map(|kernel| kernel.abi().clone()).collect();
    assert_eq!(artifact.kernels(), expected);
}

#[test]
fn everything_that_changes_code_changes_the_fingerprint() {
    let first = codegen().fingerprint();
    assert_eq!(codegen().fingerprint(), first);
    let changed = [
        ("name", Pipeline { name: "other".to_owned(), ..codegen() }),
        ("version", Pipeline { version: "1.0.1".to_owned(), ..codegen() }),
        ("target", Pipeline { caps: Caps::host("other"), ..codegen() }),
        ("renderer", Pipeline { renderer: AsText { heading: "by another" }, ..codegen() }),
        ("options", Pipeline { options: 1, ..codegen() }),
    ];
    for (what, codegen) in changed {
        assert_ne!(codegen.fingerprint(), first, "{what}");
    }
}
