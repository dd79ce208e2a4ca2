//! Kernels of tests, in no particular language.

use codegen_core::{Access, Cost, KernelAbi, Launch, Param};

/// A 32-bit word that a thread computes; arithmetic wraps.
#[derive(Clone, Debug)]
pub enum Word {
    /// A number.
    Const(u32),
    /// The index of the thread.
    Thread,
    /// A static index.
    Index(usize),
    /// An element of a memory parameter.
    Read(usize, Box<Word>),
    /// A sum.
    Add(Box<Word>, Box<Word>),
    /// A product.
    Mul(Box<Word>, Box<Word>),
    /// A bitwise exclusive or.
    Xor(Box<Word>, Box<Word>),
}

impl From<u32> for Word {
    fn from(number: u32) -> Word {
        Word::Const(number)
    }
}

impl Word {
    /// An element of a memory parameter.
    pub fn read(param: usize, index: impl Into<Word>) -> Word {
        Word::Read(param, Box::new(index.into()))
    }

    /// `self + other`.
    #[must_use]
    pub fn plus(self, other: impl Into<Word>) -> Word {
        Word::Add(Box::new(self), Box::new(other.into()))
    }

    /// `self * other`.
    #[must_use]
    pub fn times(self, other: impl Into<Word>) -> Word {
        Word::Mul(Box::new(self), Box::new(other.into()))
    }

    /// `self ^ other`.
    #[must_use]
    pub fn xor(self, other: impl Into<Word>) -> Word {
        Word::Xor(Box::new(self), Box::new(other.into()))
    }
}

/// A store to an element of a memory parameter.
#[derive(Clone, Debug)]
pub struct Store {
    /// The position of the parameter.
    pub param: usize,
    /// The index of the element.
    pub index: Word,
    /// The stored value.
    pub value: Word,
}

impl Store {
    /// `param[index] = value`.
    pub fn new(param: usize, index: impl Into<Word>, value: impl Into<Word>) -> Store {
        Store { param, index: index.into(), value: value.into() }
    }
}

/// A kernel: each thread performs the stores in order.
#[derive(Clone, Debug)]
pub struct StoreKernel {
    /// Its name.
    pub name: String,
    /// The access to each memory parameter, and its size in bytes.
    pub params: Vec<(Access, usize)>,
    /// The number of static indices after the memory parameters; their values are below 2²⁰.
    pub symbols: usize,
    /// The number of threads.
    pub threads: u32,
    /// The stores of each thread.
    pub stores: Vec<Store>,
}

impl StoreKernel {
    /// A kernel without static indices.
    pub fn new(name: &str, params: &[(Access, usize)], threads: u32, stores: Vec<Store>) -> StoreKernel {
        StoreKernel { name: name.to_owned(), params: params.to_vec(), symbols: 0, threads, stores }
    }

    /// The ABI of the kernel for its parameters, static indices and threads.
    pub fn abi(&self) -> KernelAbi {
        abi(&self.name, &self.params, self.symbols, self.threads)
    }
}

/// The ABI of a kernel whose parallel loop has one iteration per thread.
pub fn abi(name: &str, params: &[(Access, usize)], symbols: usize, threads: u32) -> KernelAbi {
    let memory = params.iter().map(|&(access, bytes)| Param::Node { access, bytes });
    let params = memory.chain((0..symbols).map(|_| Param::StaticIndex { range: 1 << 20 })).collect();
    KernelAbi {
        name: name.to_owned(),
        params,
        launch: Launch { extent: threads.into(), grain: 1, threads: 1, end: None },
        scratch_bytes: 0,
        log: [].into(),
        cost: Cost::default(),
    }
}
