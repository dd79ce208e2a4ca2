//! Resolves the relocations of Cranelift's code, which becomes position independent.
//!
//! The code refers to its environment only by 8-byte absolute addresses of [`crate::runtime_functions`],
//! because the target's flags say that functions may be anywhere in the address space and that the code is
//! not for a linker, and because constants follow the instructions of their own function. Safe code can
//! therefore resolve relocations before the address of the code is known. `cranelift-jit`, which would map
//! memory for each function separately, is not needed. Relocations of other kinds are errors.

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{ExternalName, Function};
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::{CodegenError, Context, FinalizedMachReloc, FinalizedRelocTarget};

use crate::runtime_functions::{self, RuntimeFunction};

/// Position-independent machine code of one function from [`crate::emit`], with its constants.
pub(crate) struct CraneliftCode {
    bytes: Vec<u8>,
}

/// Why a function has no machine code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CraneliftError {
    /// Cranelift does not compile the function.
    #[error(transparent)]
    Codegen(#[from] CodegenError),
    /// The code has a relocation that this module cannot resolve.
    #[error("a relocation of kind {kind} to {target} is not resolved")]
    Relocation { kind: Reloc, target: String },
    /// The constants need a larger alignment than code has.
    #[error("an alignment of {0} bytes is more than code has")]
    Alignment(u32),
}

impl CraneliftCode {
    pub(crate) fn compile(func: Function, isa: &dyn TargetIsa) -> Result<CraneliftCode, CraneliftError> {
        let mut context = Context::for_function(func);
        context.compile(isa, &mut ControlPlane::default()).map_err(|error| error.inner)?;
        let Some(compiled) = context.compiled_code() else { return Ok(CraneliftCode { bytes: Vec::new() }) };
        let alignment = compiled.buffer.alignment;
        if alignment as usize > code_memory::ALIGNMENT {
            return Err(CraneliftError::Alignment(alignment));
        }
        let mut bytes = compiled.code_buffer().to_vec();
        for reloc in compiled.buffer.relocs() {
            let resolved = value(reloc, &context.func).and_then(|value| {
                bytes.get_mut(reloc.offset as usize..)?.first_chunk_mut().map(|at| (at, value))
            });
            let Some((at, value)) = resolved else {
                let target = reloc.target.display(Some(&context.func.params));
                return Err(CraneliftError::Relocation { kind: reloc.kind, target });
            };
            *at = value.to_ne_bytes();
        }
        Ok(CraneliftCode { bytes })
    }

    /// The code followed by its constants. Its address must be a multiple of [`code_memory::ALIGNMENT`].
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The value of an 8-byte absolute relocation; `None` for other kinds and for unknown names.
fn value(reloc: &FinalizedMachReloc, func: &Function) -> Option<u64> {
    let FinalizedRelocTarget::ExternalName(name) = &reloc.target else { return None };
    let address = match name {
        ExternalName::User(name) => {
            let name = func.params.user_named_funcs().get(*name)?;
            RuntimeFunction::from_number(name.index).filter(|_| name.namespace == 0)?.address()
        }
        ExternalName::LibCall(called) => runtime_functions::library_function(*called)?,
        _ => return None,
    };
    (reloc.kind == Reloc::Abs8).then(|| (address.addr() as u64).wrapping_add_signed(reloc.addend))
}

#[cfg(test)]
mod tests {
    use cranelift_codegen::cursor::{Cursor, FuncCursor};
    use cranelift_codegen::ir::{ExtFuncData, InstBuilder, Signature, UserExternalName, UserFuncName, types};
    use cranelift_codegen::settings::{self, Configurable, Flags};

    use super::*;

    /// Compiles a function that calls another one, which may be declared as colocated.
    fn calling(name: UserExternalName, colocated: bool) -> Result<CraneliftCode, CraneliftError> {
        let mut flags = settings::builder();
        flags.set("is_pic", "false").expect("a flag");
        let native = cranelift_native::builder().expect("this machine is supported");
        let isa = native.finish(Flags::new(flags)).expect("the flags fit");
        let signature = Signature::new(isa.default_call_conv());
        let mut func = Function::with_name_signature(UserFuncName::user(0, 0), signature.clone());
        let name = func.declare_imported_user_function(name);
        let signature = func.import_signature(signature);
        let data = ExtFuncData { name: ExternalName::user(name), signature, colocated, patchable: false };
        let callee = func.import_function(data);
        let block = func.dfg.make_block();
        let mut cursor = FuncCursor::new(&mut func);
        cursor.insert_block(block);
        cursor.ins().call(callee, &[]);
        cursor.ins().iconst(types::I64, 0);
        cursor.ins().return_(&[]);
        CraneliftCode::compile(func, &*isa)
    }

    #[test]
    fn the_address_of_a_function_is_in_the_code() {
        let function = RuntimeFunction::PowU64;
        let code = calling(UserExternalName::new(0, function.number()), false).expect("a known function");
        let address = function.address().addr().to_ne_bytes();
        assert!(code.bytes().windows(address.len()).any(|bytes| bytes == address));
    }

    #[test]
    fn unresolved_relocations_are_errors() {
        let number = RuntimeFunction::PowU64.number();
        let relative =
            calling(UserExternalName::new(0, number), true).map(|_| ()).expect_err("a relative address");
        assert!(matches!(relative, CraneliftError::Relocation { .. }), "{relative}");
        for name in [UserExternalName::new(0, 1000), UserExternalName::new(1, number)] {
            let unknown = calling(name, false).map(|_| ()).expect_err("no function");
            assert!(matches!(unknown, CraneliftError::Relocation { kind: Reloc::Abs8, .. }), "{unknown}");
        }
    }
}
