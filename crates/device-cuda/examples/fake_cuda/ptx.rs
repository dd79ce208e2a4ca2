//! The few PTX instructions that the tests' kernels consist of, and an assembler's errors for all others.

use std::collections::HashMap;

/// An assembled text.
pub(crate) struct Program {
    pub(crate) entries: Vec<Entry>,
}

/// A kernel.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) params: Vec<Param>,
    /// Size in bytes of declared shared memory.
    pub(crate) shared: u32,
    /// Blocks per cluster; 0 if the text does not state it.
    pub(crate) cluster: u32,
    code: Vec<Inst>,
    labels: HashMap<String, usize>,
}

/// A parameter: 64 bits, or an array of bytes.
#[derive(Clone)]
pub(crate) struct Param {
    name: String,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

#[derive(Clone)]
struct Inst {
    /// The predicate, and whether it must be true.
    guard: Option<(String, bool)>,
    op: String,
    args: Vec<String>,
}

/// An error in a text, in an assembler's words.
pub(crate) struct Complaint(pub(crate) String);

/// Loads and stores of 32-bit words in device memory; `None` if the address is invalid.
pub(crate) trait Reach {
    fn load(&mut self, address: u64) -> Option<u32>;
    fn store(&mut self, address: u64, value: u32) -> Option<()>;
}

/// The driver's error code for a thread that failed.
pub(crate) const ILLEGAL_ADDRESS: u32 = 700;
pub(crate) const LAUNCH_FAILED: u32 = 719;

const KNOWN: [&str; 17] = [
    "ld.param.u64",
    "mov.u32",
    "mad.lo.u32",
    "mul.lo.u32",
    "add.u32",
    "xor.b32",
    "and.b32",
    "mul.wide.u32",
    "add.u64",
    "cvt.u32.u64",
    "setp.ge.u32",
    "setp.ne.u32",
    "bra",
    "ret",
    "trap",
    "ld.global.u32",
    "st.global.u32",
];

impl Program {
    pub(crate) fn assemble(text: &str) -> Result<Program, Complaint> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut header = String::new();
        let mut inside = false;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split("//").next().unwrap_or_default().trim();
            let complain = |what: &str| {
                let log = format!("ptxas application ptx input, line {number}; error   : {what}");
                Complaint(format!("{log}\nptxas fatal   : Ptx assembly aborted due to errors"))
            };
            if !inside {
                header.push_str(line);
                header.push(' ');
                if line.ends_with('{') {
                    entries.push(Entry::new(&header).ok_or_else(|| complain("Parsing error near '{'"))?);
                    header.clear();
                    inside = true;
                }
            } else if line == "}" {
                inside = false;
            } else if let (Some(entry), false) = (entries.last_mut(), line.is_empty()) {
                entry.add(line).map_err(|what| complain(&what))?;
            }
        }
        Ok(Program { entries })
    }
}

impl Entry {
    fn new(header: &str) -> Option<Entry> {
        let (_, rest) = header.split_once(".entry ")?;
        let (name, params) = rest.split_once('(')?;
        let (params, behind) = params.split_once(')')?;
        let cluster = behind
            .split_once(".reqnctapercluster")
            .map_or(Some(0), |(_, width)| width.split_whitespace().next()?.parse().ok())?;
        let (name, code, labels) = (name.trim().to_owned(), Vec::new(), HashMap::new());
        let mut entry = Entry { name, params: Vec::new(), shared: 0, cluster, code, labels };
        for param in params.split(',').filter(|param| param.contains(".param")) {
            let declared = param.split_whitespace().last()?;
            let (name, bytes) = match declared.split_once('[') {
                Some((name, count)) => (name, count.strip_suffix(']')?.parse().ok()?),
                None => (declared, 8),
            };
            let aligned = param.split_once(".align").map_or("8", |(_, behind)| behind);
            let align: usize = aligned.split_whitespace().next()?.parse().ok()?;
            let (name, offset) = (name.to_owned(), entry.param_bytes().next_multiple_of(align));
            entry.params.push(Param { name, offset, bytes });
        }
        Some(entry)
    }

    /// Total size of the parameters, in bytes.
    pub(crate) fn param_bytes(&self) -> usize {
        self.params.last().map_or(0, |last| last.offset + last.bytes)
    }

    fn add(&mut self, line: &str) -> Result<(), String> {
        if let Some(label) = line.strip_suffix(':') {
            self.labels.insert(label.to_owned(), self.code.len());
            return Ok(());
        }
        let line = line.strip_suffix(';').ok_or("Parsing error: `;` expected")?;
        if let Some(declaration) = line.strip_prefix(".shared") {
            let size = declaration.split(['[', ']']).nth(1).and_then(|size| size.parse::<u32>().ok());
            self.shared += size.ok_or("Parsing error: a size expected")?;
            return Ok(());
        }
        if line.starts_with('.') {
            return Ok(());
        }
        let (guard, line) = match line.strip_prefix('@') {
            Some(guarded) => {
                let (pred, line) = guarded.split_once(' ').ok_or("Parsing error behind a predicate")?;
                (Some((pred.trim_start_matches('!').to_owned(), !pred.starts_with('!'))), line)
            }
            None => (None, line),
        };
        let (op, args) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        if !KNOWN.contains(&op) {
            return Err(format!("Not a name of any known instruction: '{op}'"));
        }
        let args = args.split(',').map(|arg| arg.trim().trim_matches(['[', ']']).to_owned());
        self.code.push(Inst { guard, op: op.to_owned(), args: args.collect() });
        Ok(())
    }

    /// Runs all threads, one after the other.
    pub(crate) fn run(
        &self,
        blocks: u32,
        threads: u32,
        params: &[u64],
        memory: &mut impl Reach,
    ) -> Result<(), u32> {
        for block in 0..blocks {
            for thread in 0..threads {
                Thread { entry: self, special: [thread, threads, block], params, registers: HashMap::new() }
                    .run(memory)?;
            }
        }
        Ok(())
    }
}

struct Thread<'a> {
    entry: &'a Entry,
    /// The thread's number, the number of threads in a block, and the number of its block.
    special: [u32; 3],
    params: &'a [u64],
    registers: HashMap<&'a str, u64>,
}

impl<'a> Thread<'a> {
    fn run(&mut self, memory: &mut impl Reach) -> Result<(), u32> {
        let entry = self.entry;
        let mut at = 0;
        while let Some(inst) = entry.code.get(at) {
            at += 1;
            if inst.guard.as_ref().is_some_and(|(pred, wanted)| (self.value(pred) != 0) != *wanted) {
                continue;
            }
            match inst.op.as_str() {
                "ret" => return Ok(()),
                "trap" => return Err(LAUNCH_FAILED),
                "bra" => at = entry.labels.get(&inst.args[0]).copied().unwrap_or(usize::MAX),
                "st.global.u32" => {
                    let value = self.value(&inst.args[1]) as u32;
                    memory.store(self.address(&inst.args[0]), value).ok_or(ILLEGAL_ADDRESS)?;
                }
                "ld.global.u32" => {
                    let value = memory.load(self.address(&inst.args[1])).ok_or(ILLEGAL_ADDRESS)?;
                    self.registers.insert(&inst.args[0], value.into());
                }
                op => {
                    let value = self.compute(op, &inst.args);
                    self.registers.insert(&inst.args[0], value);
                }
            }
        }
        Ok(())
    }

    fn compute(&self, op: &str, args: &'a [String]) -> u64 {
        let wide = |at: usize| args.get(at).map_or(0, |arg| self.value(arg));
        let word = |at: usize| wide(at) as u32;
        match op {
            "ld.param.u64" => {
                let (name, offset) = args[1].split_once('+').unwrap_or((&args[1], "0"));
                let param = self.entry.params.iter().find(|param| param.name == name);
                param.map_or(0, |param| self.params[(param.offset + offset.parse().unwrap_or(0)) / 8])
            }
            "mul.wide.u32" => u64::from(word(1)) * u64::from(word(2)),
            "add.u64" => wide(1).wrapping_add(wide(2)),
            "mad.lo.u32" => word(1).wrapping_mul(word(2)).wrapping_add(word(3)).into(),
            "mul.lo.u32" => word(1).wrapping_mul(word(2)).into(),
            "add.u32" => word(1).wrapping_add(word(2)).into(),
            "xor.b32" => (word(1) ^ word(2)).into(),
            "and.b32" => (word(1) & word(2)).into(),
            "setp.ge.u32" => (word(1) >= word(2)).into(),
            "setp.ne.u32" => (word(1) != word(2)).into(),
            // mov.u32 and cvt.u32.u64
            _ => word(1).into(),
        }
    }

    fn value(&self, arg: &str) -> u64 {
        let [thread, threads, block] = self.special;
        match arg {
            "%tid.x" => thread.into(),
            "%ntid.x" => threads.into(),
            "%ctaid.x" => block.into(),
            _ => self.registers.get(arg).copied().or_else(|| arg.parse().ok()).unwrap_or(0),
        }
    }

    fn address(&self, arg: &str) -> u64 {
        let (base, offset) = arg.split_once('+').unwrap_or((arg, "0"));
        self.value(base).wrapping_add(offset.parse().unwrap_or(0))
    }
}
