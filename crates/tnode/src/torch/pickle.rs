//! Pickles of protocol 2, as `torch.save` writes them: a stack machine that makes values and calls nothing.
//!
//! Source: Python, `pickletools.py`, the opcodes of protocols 0 to 2.

use std::collections::HashMap;

use super::malformed;
use crate::error::{Result, TensorNodeError};
use crate::torch::pickled_tensors::Global;

/// The position of a value in [`Pickle::values`]. Values refer to each other by position, so that neither
/// deep nesting nor a value that contains itself can exhaust the stack when values are dropped.
pub(super) type ValueId = usize;

/// A value that a pickle makes.
pub(super) enum Value<'a> {
    /// `None`, truth values and floats, which say nothing about tensors.
    Nothing,
    Integer(i64),
    Text(&'a str),
    /// A tuple or a list.
    List(Vec<ValueId>),
    Dict(Vec<[ValueId; 2]>),
    Global(Global),
    /// A call of a global with a tuple of arguments, which is not made.
    Call(Global, ValueId),
    /// An object outside of the pickle, by its key.
    Persistent(ValueId),
}

/// The values of a pickle, and which one it stands for.
pub(super) struct Pickle<'a> {
    values: Vec<Value<'a>>,
    root: ValueId,
    size: usize,
}

/// [`Value::Nothing`], made once for all.
const NOTHING: ValueId = 0;

impl<'a> Pickle<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Pickle<'a>> {
        let mut machine = Machine {
            rest: bytes,
            values: vec![Value::Nothing],
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
        };
        while !machine.step()? {}
        let root = machine.pop()?;
        Ok(Pickle { values: machine.values, root, size: bytes.len() })
    }

    pub(super) fn root(&self) -> ValueId {
        self.root
    }

    /// The number of bytes of the pickle.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn value(&self, id: ValueId) -> &Value<'a> {
        self.values.get(id).unwrap_or(&Value::Nothing)
    }
}

struct Machine<'a> {
    rest: &'a [u8],
    values: Vec<Value<'a>>,
    stack: Vec<ValueId>,
    /// The heights of the stack at the marks.
    marks: Vec<usize>,
    memo: HashMap<u32, ValueId>,
}

impl<'a> Machine<'a> {
    /// Executes one opcode. Returns whether it was the last one.
    fn step(&mut self) -> Result<bool> {
        match self.byte()? {
            0x80 => self.protocol()?,
            b'.' => return Ok(true),
            b'(' => self.marks.push(self.stack.len()),
            b'N' | 0x88 | 0x89 => self.stack.push(NOTHING),
            b'G' => {
                self.bytes(8)?;
                self.stack.push(NOTHING);
            }
            b'K' => self.integer::<1>(false)?,
            b'M' => self.integer::<2>(false)?,
            b'J' => self.integer::<4>(true)?,
            0x8a => self.long()?,
            b'X' => self.text()?,
            b'c' => self.global()?,
            b')' | b']' => self.push(Value::List(Vec::new())),
            b'}' => self.push(Value::Dict(Vec::new())),
            b't' => {
                let elements = self.since_mark()?;
                self.push(Value::List(elements));
            }
            size @ 0x85..=0x87 => self.tuple(usize::from(size - 0x84))?,
            b'a' => {
                let element = self.pop()?;
                self.append(vec![element])?;
            }
            b'e' => {
                let elements = self.since_mark()?;
                self.append(elements)?;
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set_items(&[key, value])?;
            }
            b'u' => {
                let items = self.since_mark()?;
                self.set_items(&items)?;
            }
            b'q' => {
                let key = self.byte()?;
                self.put(key.into())?;
            }
            b'r' => {
                let key = self.word()?;
                self.put(key)?;
            }
            b'h' => {
                let key = self.byte()?;
                self.get(key.into())?;
            }
            b'j' => {
                let key = self.word()?;
                self.get(key)?;
            }
            b'Q' => {
                let key = self.pop()?;
                self.push(Value::Persistent(key));
            }
            b'R' => self.call()?,
            // Attributes of an object, such as the versions of modules that a `state_dict` has.
            b'b' => drop(self.pop()?),
            other => {
                let found = format!("opcode {other:#04x} in `data.pkl`");
                return Err(malformed(format!("{found}, expected one of protocol 2 for data")));
            }
        }
        Ok(false)
    }

    fn protocol(&mut self) -> Result<()> {
        match self.byte()? {
            0..=2 => Ok(()),
            found => Err(malformed(format!("a pickle of protocol {found}, expected 2"))),
        }
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(ends_early)?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        let (&byte, rest) = self.rest.split_first().ok_or_else(ends_early)?;
        self.rest = rest;
        Ok(byte)
    }

    fn word(&mut self) -> Result<u32> {
        let (&word, rest) = self.rest.split_first_chunk().ok_or_else(ends_early)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(word))
    }

    /// An integer of `BYTES` bytes.
    fn integer<const BYTES: usize>(&mut self, is_signed: bool) -> Result<()> {
        let value = little_endian(self.bytes(BYTES)?, is_signed);
        self.push(Value::Integer(value));
        Ok(())
    }

    /// An integer behind the number of its bytes.
    fn long(&mut self) -> Result<()> {
        let count = usize::from(self.byte()?);
        let bytes = self.bytes(count)?;
        if count > 8 {
            return Err(malformed(format!("an integer of {count} bytes, expected at most 8")));
        }
        self.push(Value::Integer(little_endian(bytes, true)));
        Ok(())
    }

    fn text(&mut self) -> Result<()> {
        let count = self.word()? as usize;
        let text = std::str::from_utf8(self.bytes(count)?);
        self.push(Value::Text(text.map_err(|_| malformed("a text that is not in UTF-8"))?));
        Ok(())
    }

    fn line(&mut self) -> Result<&'a str> {
        let end = self.rest.iter().position(|&byte| byte == b'\n').ok_or_else(ends_early)?;
        let line = std::str::from_utf8(self.bytes(end)?);
        self.bytes(1)?;
        line.map_err(|_| malformed("a name that is not in UTF-8"))
    }

    fn global(&mut self) -> Result<()> {
        let (module, name) = (self.line()?, self.line()?);
        let global = Global::named(module, name)?;
        self.push(Value::Global(global));
        Ok(())
    }

    fn call(&mut self) -> Result<()> {
        let (arguments, callee) = (self.pop()?, self.pop()?);
        let Some(&Value::Global(global)) = self.values.get(callee) else {
            return Err(malformed("a call of a value that is no function"));
        };
        self.push(match global {
            Global::OrderedDict => Value::Dict(Vec::new()),
            _ => Value::Call(global, arguments),
        });
        Ok(())
    }

    fn tuple(&mut self, size: usize) -> Result<()> {
        let start = self.stack.len().checked_sub(size).ok_or_else(empty_stack)?;
        let elements = self.stack.split_off(start);
        self.push(Value::List(elements));
        Ok(())
    }

    fn append(&mut self, elements: Vec<ValueId>) -> Result<()> {
        match self.stack.last().and_then(|&list| self.values.get_mut(list)) {
            Some(Value::List(list)) => list.extend(elements),
            _ => return Err(malformed("elements that are appended to a value that is no list")),
        }
        Ok(())
    }

    /// Adds keys, each with its value behind it, to the dictionary on top of the stack.
    fn set_items(&mut self, items: &[ValueId]) -> Result<()> {
        let (pairs, []) = items.as_chunks::<2>() else { return Err(malformed("a key without a value")) };
        match self.stack.last().and_then(|&dict| self.values.get_mut(dict)) {
            Some(Value::Dict(dict)) => dict.extend_from_slice(pairs),
            _ => return Err(malformed("items that are set in a value that is no dictionary")),
        }
        Ok(())
    }

    fn put(&mut self, key: u32) -> Result<()> {
        let value = *self.stack.last().ok_or_else(empty_stack)?;
        self.memo.insert(key, value);
        Ok(())
    }

    fn get(&mut self, key: u32) -> Result<()> {
        let value =
            self.memo.get(&key).ok_or_else(|| malformed(format!("value {key} before it is stored")))?;
        self.stack.push(*value);
        Ok(())
    }

    fn push(&mut self, value: Value<'a>) {
        self.stack.push(self.values.len());
        self.values.push(value);
    }

    fn pop(&mut self) -> Result<ValueId> {
        self.stack.pop().ok_or_else(empty_stack)
    }

    /// Takes the values above the last mark.
    fn since_mark(&mut self) -> Result<Vec<ValueId>> {
        match self.marks.pop() {
            Some(mark) if mark <= self.stack.len() => Ok(self.stack.split_off(mark)),
            _ => Err(empty_stack()),
        }
    }
}

/// The value of at most 8 bytes.
fn little_endian(bytes: &[u8], is_signed: bool) -> i64 {
    let fill = if is_signed && bytes.last().is_some_and(|&byte| byte >= 0x80) { 0xff } else { 0 };
    let mut all = [fill; 8];
    all.iter_mut().zip(bytes).for_each(|(to, &from)| *to = from);
    i64::from_le_bytes(all)
}

fn ends_early() -> TensorNodeError {
    malformed("the pickle ends early")
}

fn empty_stack() -> TensorNodeError {
    malformed("the pickle takes a value from an empty stack")
}
