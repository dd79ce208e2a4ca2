//! The object file: a symbol per function, the constants, and relocations, in the format of the target's
//! system.

use std::collections::HashMap;

use codegen_cranelift::object::{
    ObjectFormat, ObjectFunction, ObjectLevel, ObjectRelocation, ObjectTarget, RelocationKind,
    RelocationTarget,
};
use object::write::{Error, Object, Relocation, StandardSection, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationEncoding, RelocationFlags, RelocationKind as Kind,
    SymbolFlags, SymbolKind, SymbolScope, elf, macho, pe,
};

/// An object file under construction.
pub(crate) struct ObjectFile {
    object: Object<'static>,
    constants: Option<SymbolId>,
    runtime: HashMap<&'static str, SymbolId>,
}

impl ObjectFile {
    /// A file for a system with the constants of a library.
    pub(crate) fn new(target: &ObjectTarget, library: &str, constants: &[u8]) -> ObjectFile {
        let format = match target.format() {
            ObjectFormat::Elf => BinaryFormat::Elf,
            ObjectFormat::MachO => BinaryFormat::MachO,
            ObjectFormat::Coff => BinaryFormat::Coff,
        };
        let architecture = match target.level() {
            ObjectLevel::Arm64 => Architecture::Aarch64,
            _ => Architecture::X86_64,
        };
        let mut object = Object::new(format, architecture, Endianness::Little);
        if format == BinaryFormat::Elf {
            // Without this section, linkers make the stack executable.
            object.add_section(Vec::new(), b".note.GNU-stack".to_vec(), object::SectionKind::Other);
        }
        let mut file = ObjectFile { object, constants: None, runtime: HashMap::new() };
        if !constants.is_empty() {
            let symbol = file.local(format!("{library}_constants"), SymbolKind::Data);
            let section = file.object.section_id(StandardSection::ReadOnlyData);
            file.object.add_symbol_data(symbol, section, constants, 64);
            file.constants = Some(symbol);
        }
        file
    }

    /// Adds the entry of a routine under a global name, with its kernels.
    pub(crate) fn add(
        &mut self,
        name: &str,
        entry: &ObjectFunction,
        kernels: &[ObjectFunction],
    ) -> Result<(), Error> {
        let text = self.object.section_id(StandardSection::Text);
        let own: Vec<SymbolId> =
            (0..kernels.len()).map(|at| self.local(format!("{name}_k{at}"), SymbolKind::Text)).collect();
        let global = self
            .object
            .add_symbol(Symbol { scope: SymbolScope::Linkage, ..symbol(name.to_owned(), SymbolKind::Text) });
        for (function, symbol) in kernels.iter().zip(&own).chain([(entry, &global)]) {
            let start = self.object.add_symbol_data(*symbol, text, &function.code, 64);
            for relocation in &function.relocations {
                let symbol = match &relocation.target {
                    RelocationTarget::Kernel(at) => own.get(*at).copied(),
                    RelocationTarget::Data => self.constants,
                    RelocationTarget::Runtime(name) => Some(self.runtime(name)),
                };
                let Some(symbol) = symbol else { continue };
                let (addend, flags) = (relocation.addend, flags(relocation, self.object.format()));
                let offset = start + relocation.offset;
                self.object.add_relocation(text, Relocation { offset, symbol, addend, flags })?;
            }
        }
        Ok(())
    }

    /// The bytes of the file.
    pub(crate) fn write(self) -> Result<Vec<u8>, Error> {
        self.object.write()
    }

    fn local(&mut self, name: String, kind: SymbolKind) -> SymbolId {
        self.object.add_symbol(symbol(name, kind))
    }

    /// The symbol of a function of `arrayjit-rt`.
    fn runtime(&mut self, name: &'static str) -> SymbolId {
        let object = &mut self.object;
        *self.runtime.entry(name).or_insert_with(|| {
            object.add_symbol(Symbol {
                scope: SymbolScope::Unknown,
                ..symbol(name.to_owned(), SymbolKind::Text)
            })
        })
    }
}

fn symbol(name: String, kind: SymbolKind) -> Symbol {
    Symbol {
        name: name.into_bytes(),
        value: 0,
        size: 0,
        kind,
        scope: SymbolScope::Compilation,
        weak: false,
        section: SymbolSection::Undefined,
        flags: SymbolFlags::None,
    }
}

/// The relocation in the terms of a format.
fn flags(relocation: &ObjectRelocation, format: BinaryFormat) -> RelocationFlags {
    let generic = |kind, encoding, size| RelocationFlags::Generic { kind, encoding, size };
    let page = |elf: u32, macho: u8, coff: u16| match format {
        BinaryFormat::MachO => {
            RelocationFlags::MachO { r_type: macho, r_pcrel: macho == macho::ARM64_RELOC_PAGE21, r_length: 2 }
        }
        BinaryFormat::Coff => RelocationFlags::Coff { typ: coff },
        _ => RelocationFlags::Elf { r_type: elf },
    };
    match relocation.kind {
        RelocationKind::X86Call => generic(Kind::PltRelative, RelocationEncoding::X86Branch, 32),
        RelocationKind::X86Distance => generic(Kind::Relative, RelocationEncoding::Generic, 32),
        RelocationKind::Arm64Call => generic(Kind::PltRelative, RelocationEncoding::AArch64Call, 26),
        RelocationKind::Arm64Page => page(
            elf::R_AARCH64_ADR_PREL_PG_HI21,
            macho::ARM64_RELOC_PAGE21,
            pe::IMAGE_REL_ARM64_PAGEBASE_REL21,
        ),
        RelocationKind::Arm64PageOffset => page(
            elf::R_AARCH64_ADD_ABS_LO12_NC,
            macho::ARM64_RELOC_PAGEOFF12,
            pe::IMAGE_REL_ARM64_PAGEOFFSET_12A,
        ),
    }
}
