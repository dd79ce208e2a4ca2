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
use serde::{Deserialize, Serialize};

use crate::runtime_functions::{self, RuntimeFunction};

/// Position-independent machine code of one function from [`crate::emit`], with its constants.
#[derive(Default)]
pub(crate) struct CraneliftCode {
    bytes: Vec<u8>,
    calls: Vec<Call>,
}

/// A place in code that has the address of a function of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Bytes from the start of the code to the address.
    offset: u32,
    /// The function's number.
    function: u32,
    /// What is added to its address.
    addend: i64,
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
        let Some(compiled) = context.compiled_code() else { return Ok(CraneliftCode::default()) };
        let alignment = compiled.buffer.alignment;
        if alignment as usize > code_memory::ALIGNMENT {
            return Err(CraneliftError::Alignment(alignment));
        }
        let mut bytes = compiled.code_buffer().to_vec();
        let mut calls = Vec::new();
        for reloc in compiled.buffer.relocs() {
            let resolved = call(reloc, &context.func).filter(|call| call.resolve(&mut bytes).is_some());
            let Some(call) = resolved else {
                let target = reloc.target.display(Some(&context.func.params));
                return Err(CraneliftError::Relocation { kind: reloc.kind, target });
            };
            calls.push(call);
        }
        Ok(CraneliftCode { bytes, calls })
    }

    /// The code that another process compiled: its bytes and its calls of functions, whose addresses are
    /// replaced by those of this process. `None` if a call is outside of the code, or of no function.
    pub(crate) fn from_compiled(mut bytes: Vec<u8>, calls: Vec<Call>) -> Option<CraneliftCode> {
        calls.iter().try_for_each(|call| call.resolve(&mut bytes))?;
        Some(CraneliftCode { bytes, calls })
    }

    /// The calls of functions of this process.
    pub(crate) fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// The code followed by its constants. Its address must be a multiple of [`code_memory::ALIGNMENT`].
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Call {
    /// Writes the address into the code. `None` if the code has no such place, or there is no such function.
    fn resolve(self, bytes: &mut [u8]) -> Option<()> {
        let address = runtime_functions::address(self.function)?.addr() as u64;
        let place = bytes.get_mut(self.offset as usize..)?.first_chunk_mut()?;
        *place = address.wrapping_add_signed(self.addend).to_ne_bytes();
        Some(())
    }
}

/// The call behind an 8-byte absolute relocation; `None` for other kinds and for unknown names.
fn call(reloc: &FinalizedMachReloc, func: &Function) -> Option<Call> {
    let function = called(reloc, func)?;
    (reloc.kind == Reloc::Abs8).then_some(Call { offset: reloc.offset, function, addend: reloc.addend })
}

/// The number of the runtime function that a relocation refers to; `None` if it refers to something else.
pub(crate) fn called(reloc: &FinalizedMachReloc, func: &Function) -> Option<u32> {
    let FinalizedRelocTarget::ExternalName(name) = &reloc.target else { return None };
    match name {
        ExternalName::User(name) => {
            let name = func.params.user_named_funcs().get(*name)?;
            Some(RuntimeFunction::from_number(name.index).filter(|_| name.namespace == 0)?.number())
        }
        ExternalName::LibCall(called) => runtime_functions::library_number(*called),
        _ => None,
    }
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

    /// The address itself is not compared: optimized code may have several copies of a function.
    #[test]
    fn the_address_of_a_function_is_in_the_code() {
        let number = RuntimeFunction::PowU64.number();
        let code = calling(UserExternalName::new(0, number), false).expect("a known function");
        let [call] = code.calls() else { panic!("one call: {:?}", code.calls()) };
        assert_eq!((call.function, call.addend), (number, 0));
        let place = call.offset as usize..call.offset as usize + 8;
        let mut blank = code.bytes().to_vec();
        blank[place.clone()].fill(0);
        let address = &code.bytes()[place];
        assert_ne!(address, [0; 8]);
        let resolved = CraneliftCode::from_compiled(blank, vec![*call]).expect("a known function");
        assert_eq!(resolved.bytes(), code.bytes());
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
