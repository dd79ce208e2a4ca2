//! A linker for this process: it resolves the relocations of code and loads the code.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use arrayjit_rt as _;
use codegen_cranelift::object::{
    ObjectFunction, ObjectProduct, RelocationKind as Form, RelocationTarget as ObjectTarget,
};
use object::{Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, elf};
use region::{Allocation, Protection};

/// Declares functions of `arrayjit-rt` and lists them with their addresses.
macro_rules! runtime {
    ($($name:ident)*) => {
        unsafe extern "C" {
            $(fn $name();)*
        }

        /// The functions of `arrayjit-rt` that code may call.
        pub const RUNTIME: &[&str] = &[$(stringify!($name)),*];

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
    arrayjit_rt_nearest_f32 arrayjit_rt_nearest_f64 arrayjit_rt_product_3
}

/// Code and data in one piece, whose parts refer to each other.
#[derive(Debug, Default)]
pub struct Image {
    bytes: Vec<u8>,
    stubs: BTreeMap<String, usize>,
    /// Places of addresses, with what is there.
    addresses: Vec<(usize, usize)>,
}

/// An image that can be called, and whose data can be written.
pub struct LoadedImage(Allocation);

impl fmt::Debug for LoadedImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of code and data", self.0.len())
    }
}

// SAFETY: threads change nothing in the image but the plans of products, which are atomic.
unsafe impl Send for LoadedImage {}
// SAFETY: as above.
unsafe impl Sync for LoadedImage {}

impl LoadedImage {
    /// The address of the part at an offset.
    pub fn address(&self, offset: usize) -> *const u8 {
        self.0.as_ptr::<u8>().wrapping_add(offset)
    }
}

impl Image {
    /// Adds a part and returns its offset, a multiple of 64.
    fn add(&mut self, part: &[u8]) -> usize {
        let offset = self.bytes.len().next_multiple_of(64);
        self.bytes.resize(offset, 0);
        self.bytes.extend_from_slice(part);
        offset
    }

    /// Writes how `target` lies to `place` into the 32 bits at `place`. The image is at the start of a page.
    fn relate(&mut self, place: usize, target: usize, addend: i64, form: Form) {
        let distance = |unit: i64| (target as i64 + addend) / unit - place as i64 / unit;
        let word: &mut [u8; 4] = self.bytes[place..].first_chunk_mut().expect("the code");
        let put = |word: u32, from: u32, bits: u32, value: i64| {
            let mask = (u32::MAX >> (32 - bits)) << from;
            (word & !mask) | ((value as u32) << from & mask)
        };
        let before = u32::from_le_bytes(*word);
        let after = match form {
            Form::X86Call | Form::X86Distance => {
                i32::try_from(distance(1)).expect("a small image").cast_unsigned()
            }
            Form::Arm64Call => put(before, 0, 26, distance(4)),
            Form::Arm64Page => put(put(before, 5, 19, distance(4096) >> 2), 29, 2, distance(4096)),
            Form::Arm64PageOffset => put(before, 10, 12, target as i64 + addend),
        };
        *word = after.to_le_bytes();
    }

    /// The offset of code that jumps to a function of the runtime.
    fn runtime(&mut self, name: &str) -> usize {
        if let Some(&stub) = self.stubs.get(name) {
            return stub;
        }
        let address = address(name).to_le_bytes();
        let code = match cfg!(target_arch = "x86_64") {
            // mov rax, address; jmp rax
            true => [&[0x48, 0xb8], &address[..], &[0xff, 0xe0]].concat(),
            // ldr x16, address; br x16
            false => [&[0x50, 0, 0, 0x58, 0, 2, 0x1f, 0xd6], &address[..]].concat(),
        };
        let stub = self.add(&code);
        self.stubs.insert(name.to_owned(), stub);
        stub
    }

    /// Says that the 64 bits at `place` have the address of `target`.
    fn refer(&mut self, place: usize, target: usize) {
        self.addresses.push((place, target));
    }

    /// Adds a function that is no entry, and returns its offset.
    pub fn function(&mut self, function: &ObjectFunction) -> usize {
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
            self.relate(start + relocation.offset as usize, target, relocation.addend, relocation.kind);
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

    /// Copies the image into memory that can be executed.
    pub fn load(&self) -> LoadedImage {
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
        // SAFETY: the range is that of the memory.
        #[cfg(target_arch = "aarch64")]
        assert!(unsafe { clear_cache::clear_cache(base, base.add(bytes.len())) });
        LoadedImage(memory)
    }
}

/// The form of a reference in an ELF file; `None` if it is an address.
fn form(flags: RelocationFlags) -> Option<Form> {
    let RelocationFlags::Elf { r_type } = flags else { panic!("an ELF file") };
    match (cfg!(target_arch = "x86_64"), r_type) {
        (true, elf::R_X86_64_PLT32 | elf::R_X86_64_PC32) => Some(Form::X86Distance),
        (false, elf::R_AARCH64_CALL26) => Some(Form::Arm64Call),
        (false, elf::R_AARCH64_ADR_PREL_PG_HI21) => Some(Form::Arm64Page),
        (false, elf::R_AARCH64_ADD_ABS_LO12_NC) => Some(Form::Arm64PageOffset),
        (true, elf::R_X86_64_64) | (false, elf::R_AARCH64_ABS64) => None,
        (_, other) => panic!("a relocation of type {other}"),
    }
}

/// The entries of an object file by name.
#[derive(Debug)]
pub struct LoadedObject {
    code: LoadedImage,
    entries: BTreeMap<String, usize>,
}

impl LoadedObject {
    /// Links and loads an ELF file.
    pub fn new(file: &[u8]) -> LoadedObject {
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
                match form(relocation.flags()) {
                    None => image.refer(place, target),
                    Some(form) => image.relate(place, target, relocation.addend(), form),
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
    pub fn entry(&self, name: &str) -> arrayjit_rt::Entry {
        // SAFETY: the object has an entry there.
        unsafe { std::mem::transmute(self.code.address(self.entries[name])) }
    }

    /// Calls an entry on this thread.
    ///
    /// # Safety
    ///
    /// The promise of [`arrayjit_rt::run`].
    pub unsafe fn call(&self, name: &str, args: &[*mut u8], bindings: &[i64], arena: *mut u8) -> i64 {
        // SAFETY: the caller's promise.
        unsafe { self.entry(name)(args.as_ptr(), bindings.as_ptr(), arena, std::ptr::null()) }
    }
}
