//! A linker for tests: it resolves the relocations of x86-64 code and loads the code into this process.
#![allow(unsafe_code, reason = "code of objects is called here")]

use std::collections::{BTreeMap, HashMap};

use arrayjit_rt as _;
use codegen_cranelift::object::{ObjectFunction, ObjectProduct, RelocationTarget as ObjectTarget};
use object::{Object, ObjectSection, ObjectSymbol, RelocationKind, RelocationTarget};
use region::{Allocation, Protection};

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
    arrayjit_rt_fma_f64 arrayjit_rt_ceil_f32 arrayjit_rt_ceil_f64
    arrayjit_rt_floor_f32 arrayjit_rt_floor_f64 arrayjit_rt_trunc_f32 arrayjit_rt_trunc_f64
    arrayjit_rt_nearest_f32 arrayjit_rt_nearest_f64 arrayjit_rt_product_1
}

/// Code and data in one piece, whose parts refer to each other.
#[derive(Default)]
pub(crate) struct Image {
    bytes: Vec<u8>,
    stubs: BTreeMap<String, usize>,
    /// Places of addresses, with what is there.
    addresses: Vec<(usize, usize)>,
}

/// An image that can be called, and whose data can be written.
pub(crate) struct LoadedImage(Allocation);

// SAFETY: threads change nothing in the image but the plans of products, which are atomic.
unsafe impl Send for LoadedImage {}
// SAFETY: as above.
unsafe impl Sync for LoadedImage {}

impl LoadedImage {
    pub(crate) fn address(&self, offset: usize) -> *const u8 {
        self.0.as_ptr::<u8>().wrapping_add(offset)
    }
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

    /// Says that the 64 bits at `place` have the address of `target`.
    fn refer(&mut self, place: usize, target: usize) {
        self.addresses.push((place, target));
    }

    /// Adds a function that is no entry, and returns its offset.
    pub(crate) fn function(&mut self, function: &ObjectFunction) -> usize {
        let parts: Vec<usize> = function.parts.iter().map(|part| self.function(part)).collect();
        let products: Vec<usize> = function.products.iter().map(|product| self.product(product)).collect();
        let start = self.add(&function.code);
        for relocation in &function.relocations {
            let target = match relocation.target {
                ObjectTarget::Runtime(name) => self.runtime(name),
                ObjectTarget::Part(at) => parts[at],
                ObjectTarget::Product(at) => products[at],
                ObjectTarget::Kernel(_) | ObjectTarget::Data => panic!("a reference of an entry"),
            };
            self.relate(start + relocation.offset as usize, target, relocation.addend);
        }
        start
    }

    fn product(&mut self, product: &ObjectProduct) -> usize {
        let data = self.add(&product.data);
        let functions: Vec<usize> = product.functions.iter().map(|code| self.add(code)).collect();
        let words = [0, 0, product.data.len() as u64, functions.len() as u64];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let start = self.add(&[bytes, vec![0; 8 * functions.len()]].concat());
        self.refer(start + 8, data);
        functions.iter().enumerate().for_each(|(at, &function)| self.refer(start + 32 + 8 * at, function));
        start
    }

    pub(crate) fn load(&self) -> LoadedImage {
        let size = self.bytes.len().max(1);
        let mut memory = region::alloc(size, Protection::READ_WRITE_EXECUTE).expect("memory for code");
        let base = memory.as_mut_ptr::<u8>();
        let mut bytes = self.bytes.clone();
        for &(place, target) in &self.addresses {
            let address = base.addr() + target;
            bytes[place..place + 8].copy_from_slice(&address.to_le_bytes());
        }
        // SAFETY: the memory has as many bytes, and nothing else refers to it.
        unsafe { base.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        LoadedImage(memory)
    }
}

/// The entries of an object file by name.
pub(crate) struct LoadedObject {
    code: LoadedImage,
    entries: BTreeMap<String, usize>,
}

impl LoadedObject {
    /// Links and loads an ELF file for x86-64.
    pub(crate) fn new(file: &[u8]) -> LoadedObject {
        let file = object::File::parse(file).expect("an object file");
        let mut image = Image::default();
        let mut offsets = HashMap::new();
        for section in file.sections() {
            if section.size() > 0 && [".text", ".rodata", ".data"].contains(&section.name().expect("a name"))
            {
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
                let place = start + offset as usize;
                match relocation.kind() {
                    RelocationKind::Absolute => image.refer(place, target),
                    _ => image.relate(place, target, relocation.addend()),
                }
            }
        }
        let global = file.symbols().filter(|symbol| symbol.is_global() && !symbol.is_undefined());
        let entry = |symbol: object::Symbol<'_, '_>| {
            let section = symbol.section_index().expect("a section");
            (symbol.name().expect("a name").to_owned(), offsets[&section] + symbol.address() as usize)
        };
        LoadedObject { entries: global.map(entry).collect(), code: image.load() }
    }

    /// An entry, which may be called while the object exists.
    pub(crate) fn entry(&self, name: &str) -> arrayjit_rt::Entry {
        // SAFETY: the object has an entry there.
        unsafe { std::mem::transmute(self.code.address(self.entries[name])) }
    }

    /// Calls an entry on this thread.
    ///
    /// # Safety
    ///
    /// The promise of [`arrayjit_rt::run`].
    pub(crate) unsafe fn call(&self, name: &str, args: &[*mut u8], bindings: &[i64], arena: *mut u8) -> i64 {
        // SAFETY: the caller's promise.
        unsafe { self.entry(name)(args.as_ptr(), bindings.as_ptr(), arena, std::ptr::null()) }
    }
}
