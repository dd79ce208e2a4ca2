//! A linker for tests: it resolves the relocations of x86-64 code and loads the code into this process.
#![allow(unsafe_code, reason = "code of objects is called here")]

use std::collections::{BTreeMap, HashMap};

use arrayjit_rt as _;
use code_memory::LoadedCode;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};

/// Declares functions of `arrayjit-rt` and lists them with their addresses.
macro_rules! runtime {
    ($($name:ident)*) => {
        unsafe extern "C" {
            $(fn $name();)*
        }

        /// The address of a function of the runtime.
        fn address(name: &str) -> u64 {
            match name {
                $(stringify!($name) => ($name as *const ()).addr() as u64,)*
                other => panic!("`{other}` is no function of arrayjit-rt"),
            }
        }
    };
}

runtime! {
    arrayjit_rt_rem_f32 arrayjit_rt_rem_f64 arrayjit_rt_pow_i64 arrayjit_rt_pow_u64
    arrayjit_rt_fma_f32 arrayjit_rt_fma_f64 arrayjit_rt_ceil_f32 arrayjit_rt_ceil_f64
    arrayjit_rt_floor_f32 arrayjit_rt_floor_f64 arrayjit_rt_trunc_f32 arrayjit_rt_trunc_f64
    arrayjit_rt_nearest_f32 arrayjit_rt_nearest_f64
}

/// Code and data in one piece, whose parts refer to each other.
#[derive(Default)]
pub(crate) struct Image {
    bytes: Vec<u8>,
    stubs: BTreeMap<String, usize>,
}

impl Image {
    /// Adds a part and returns its offset, a multiple of 64.
    pub(crate) fn add(&mut self, part: &[u8]) -> usize {
        let offset = self.bytes.len().next_multiple_of(64);
        self.bytes.resize(offset, 0);
        self.bytes.extend_from_slice(part);
        offset
    }

    /// Writes the distance from `place` to `target` into the 32 bits at `place`.
    pub(crate) fn relate(&mut self, place: usize, target: usize, addend: i64) {
        let distance = target as i64 + addend - place as i64;
        let distance = i32::try_from(distance).expect("a small image");
        self.bytes[place..place + 4].copy_from_slice(&distance.to_le_bytes());
    }

    /// The offset of code that jumps to a function of the runtime.
    pub(crate) fn runtime(&mut self, name: &str) -> usize {
        if let Some(&stub) = self.stubs.get(name) {
            return stub;
        }
        let mut code = vec![0x48, 0xb8]; // mov rax, address
        code.extend_from_slice(&address(name).to_le_bytes());
        code.extend_from_slice(&[0xff, 0xe0]); // jmp rax
        let stub = self.add(&code);
        self.stubs.insert(name.to_owned(), stub);
        stub
    }

    pub(crate) fn load(&self) -> LoadedCode {
        LoadedCode::load(&[&self.bytes]).expect("memory for code")
    }
}

/// The entries of an object file by name.
pub(crate) struct LoadedObject {
    code: LoadedCode,
    entries: BTreeMap<String, usize>,
}

impl LoadedObject {
    /// Links and loads an ELF file for x86-64.
    pub(crate) fn new(file: &[u8]) -> LoadedObject {
        let file = object::File::parse(file).expect("an object file");
        let mut image = Image::default();
        let mut offsets = HashMap::new();
        for section in file.sections() {
            if section.size() > 0 && [".text", ".rodata"].contains(&section.name().expect("a name")) {
                let data = section.data().expect("the data of the section");
                offsets.insert(section.index(), image.add(data));
            }
        }
        for section in file.sections() {
            let Some(&start) = offsets.get(&section.index()) else { continue };
            for (offset, relocation) in section.relocations() {
                let RelocationTarget::Symbol(symbol) = relocation.target() else { panic!("a symbol") };
                let symbol = file.symbol_by_index(symbol).expect("the symbol");
                let target = match symbol.section_index() {
                    Some(section) => offsets[&section] + symbol.address() as usize,
                    None => image.runtime(symbol.name().expect("a name")),
                };
                image.relate(start + offset as usize, target, relocation.addend());
            }
        }
        let global = file.symbols().filter(|symbol| symbol.is_global() && !symbol.is_undefined());
        let entry = |symbol: object::Symbol<'_, '_>| {
            let section = symbol.section_index().expect("a section");
            (symbol.name().expect("a name").to_owned(), offsets[&section] + symbol.address() as usize)
        };
        LoadedObject { entries: global.map(entry).collect(), code: image.load() }
    }

    /// Calls an entry.
    ///
    /// # Safety
    ///
    /// The promise of [`arrayjit_rt::run`].
    pub(crate) unsafe fn call(&self, name: &str, args: &[*mut u8], bindings: &[i64], arena: *mut u8) -> i64 {
        let offset = self.entries[name];
        // SAFETY: the object has an entry there.
        let entry: arrayjit_rt::Entry = unsafe { std::mem::transmute(self.code.address(0).add(offset)) };
        // SAFETY: the caller's promise.
        unsafe { entry(args.as_ptr(), bindings.as_ptr(), arena) }
    }
}
