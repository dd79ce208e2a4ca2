//! The object file: a symbol per function, the constants, and relocations, in the format of the target's
//! system.

use std::collections::HashMap;

use codegen_cranelift::object::{
    ObjectFormat, ObjectFunction, ObjectLevel, ObjectProduct, ObjectRelocation, ObjectTarget, RelocationKind,
    RelocationTarget,
};
use object::write::{Error, Object, Relocation, StandardSection, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationEncoding, RelocationFlags, RelocationKind as Kind,
    SymbolFlags, SymbolKind, SymbolScope, elf, macho, pe,
};

/// An object file under construction.
pub(crate) struct ObjectFile<'f> {
    object: Object<'static>,
    constants: Option<SymbolId>,
    runtime: HashMap<&'static str, SymbolId>,
    /// The kernels and parts: levels that differ in few instructions share most of them.
    functions: HashMap<&'f ObjectFunction, SymbolId>,
    products: HashMap<&'f ObjectProduct, SymbolId>,
}

impl<'f> ObjectFile<'f> {
    /// A file for a system with the constants of a library.
    pub(crate) fn new(target: &ObjectTarget, library: &str, constants: &[u8]) -> ObjectFile<'f> {
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
        let (runtime, functions, products) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut file = ObjectFile { object, constants: None, runtime, functions, products };
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
        entry: &'f ObjectFunction,
        kernels: &'f [ObjectFunction],
    ) -> Result<(), Error> {
        let kernels = kernels.iter().enumerate();
        let kernels: Vec<SymbolId> = kernels
            .map(|(at, kernel)| self.shared(&format!("{name}_k{at}"), kernel))
            .collect::<Result<_, _>>()?;
        let global = self
            .object
            .add_symbol(Symbol { scope: SymbolScope::Linkage, ..symbol(name.to_owned(), SymbolKind::Text) });
        self.function(name, global, entry, &kernels)
    }

    /// The symbol of a kernel or of a part, which is added under this name if there is none like it yet.
    fn shared(&mut self, name: &str, function: &'f ObjectFunction) -> Result<SymbolId, Error> {
        if let Some(&symbol) = self.functions.get(function) {
            return Ok(symbol);
        }
        let symbol = self.local(name.to_owned(), SymbolKind::Text);
        self.function(name, symbol, function, &[])?;
        self.functions.insert(function, symbol);
        Ok(symbol)
    }

    /// Adds a function with its parts and products. Its symbol is defined, and `kernels` are those that it
    /// calls itself.
    fn function(
        &mut self,
        name: &str,
        symbol: SymbolId,
        function: &'f ObjectFunction,
        kernels: &[SymbolId],
    ) -> Result<(), Error> {
        let mut parts = Vec::new();
        for (at, part) in function.parts.iter().enumerate() {
            parts.push(self.shared(&format!("{name}_p{at}"), part)?);
        }
        let mut products = Vec::new();
        for (at, product) in function.products.iter().enumerate() {
            products.push(self.product(&format!("{name}_g{at}"), product)?);
        }
        let text = self.object.section_id(StandardSection::Text);
        let start = self.object.add_symbol_data(symbol, text, &function.code, 64);
        for relocation in &function.relocations {
            let symbol = match &relocation.target {
                RelocationTarget::Kernel(at) => kernels.get(*at).copied(),
                RelocationTarget::Part(at) => parts.get(*at).copied(),
                RelocationTarget::Product(at) => products.get(*at).copied(),
                RelocationTarget::Data => self.constants,
                RelocationTarget::Runtime(name) => Some(self.runtime(name)),
            };
            let Some(symbol) = symbol else { continue };
            let (addend, flags) = (relocation.addend, flags(relocation, self.object.format()));
            let offset = start + relocation.offset;
            self.object.add_relocation(text, Relocation { offset, symbol, addend, flags })?;
        }
        Ok(())
    }

    /// Adds the plan of a product with its data and functions, in the form that `arrayjit-rt` reads.
    fn product(&mut self, name: &str, product: &'f ObjectProduct) -> Result<SymbolId, Error> {
        if let Some(&symbol) = self.products.get(product) {
            return Ok(symbol);
        }
        let data = self.local(format!("{name}_data"), SymbolKind::Data);
        let constants = self.object.section_id(StandardSection::ReadOnlyData);
        self.object.add_symbol_data(data, constants, &product.data, 8);
        let text = self.object.section_id(StandardSection::Text);
        let mut addresses = vec![(8, data)];
        let mut words = vec![0, 0, product.data.len() as u64, product.functions.len() as u64];
        for (at, code) in product.functions.iter().enumerate() {
            let function = self.local(format!("{name}_f{at}"), SymbolKind::Text);
            self.object.add_symbol_data(function, text, code, 64);
            addresses.push((8 * words.len() as u64, function));
            words.push(0);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let symbol = self.local(name.to_owned(), SymbolKind::Data);
        let section = self.object.section_id(StandardSection::Data);
        let start = self.object.add_symbol_data(symbol, section, &bytes, 8);
        let flags = RelocationFlags::Generic {
            kind: Kind::Absolute,
            encoding: RelocationEncoding::Generic,
            size: 64,
        };
        for (at, symbol) in addresses {
            let relocation = Relocation { offset: start + at, symbol, addend: 0, flags };
            self.object.add_relocation(section, relocation)?;
        }
        self.products.insert(product, symbol);
        Ok(symbol)
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
