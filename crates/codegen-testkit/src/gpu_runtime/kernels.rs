//! What a kernel does, in no language yet.

use codegen_core::{Access, Cost, KernelAbi, Launch, Param};

/// A word of 32 bits that a thread computes; arithmetic wraps.
#[derive(Clone, Debug)]
pub enum Word {
    /// A number.
    Const(u32),
    /// The number of the thread.
    Thread,
    /// A static index.
    Index(usize),
    /// An element of a memory parameter.
    Read(usize, Box<Word>),
    /// A sum.
    Add(Box<Word>, Box<Word>),
    /// A product.
    Mul(Box<Word>, Box<Word>),
    /// Bits that differ.
    Xor(Box<Word>, Box<Word>),
}

impl From<u32> for Word {
    fn from(number: u32) -> Word {
        Word::Const(number)
    }
}

impl Word {
    /// The element of a memory parameter.
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

/// Writes an element of a memory parameter.
#[derive(Clone, Debug)]
pub struct Store {
    /// Which parameter.
    pub param: usize,
    /// Which element.
    pub index: Word,
    /// What is written.
    pub value: Word,
}

impl Store {
    /// `param[index] = value`.
    pub fn new(param: usize, index: impl Into<Word>, value: impl Into<Word>) -> Store {
        Store { param, index: index.into(), value: value.into() }
    }
}

/// A kernel: each of some threads stores, in this order.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// How it uses each memory parameter, and its bytes.
    pub params: Vec<(Access, usize)>,
    /// How many static indices it takes behind them; below 2²⁰ each.
    pub symbols: usize,
    /// How many threads there are.
    pub threads: u32,
    /// What each of them does.
    pub stores: Vec<Store>,
}

impl Kernel {
    /// A kernel without static indices.
    pub fn new(name: &str, params: &[(Access, usize)], threads: u32, stores: Vec<Store>) -> Kernel {
        Kernel { name: name.to_owned(), params: params.to_vec(), symbols: 0, threads, stores }
    }

    /// How it is called.
    pub fn abi(&self) -> KernelAbi {
        abi(&self.name, &self.params, self.symbols, self.threads)
    }
}

/// How a kernel is called, whose threads are the iterations of its parallel loop.
pub fn abi(name: &str, params: &[(Access, usize)], symbols: usize, threads: u32) -> KernelAbi {
    let memory = params.iter().map(|&(access, bytes)| Param::Node { access, bytes });
    let params = memory.chain((0..symbols).map(|_| Param::StaticIndex { range: 1 << 20 })).collect();
    KernelAbi {
        name: name.to_owned(),
        params,
        launch: Launch { extent: threads.into(), grain: 1, threads: 1 },
        scratch_bytes: 0,
        log: [].into(),
        cost: Cost::default(),
    }
}
