//! The tensors among the values of a pickle.

use std::collections::BTreeMap;

use super::pickle::{Pickle, Value, ValueId};
use super::{FORMAT, malformed};
use crate::dtype::DType;
use crate::error::{Result, TensorNodeError};
use crate::padding::Dims;

/// A function or a class that a pickle may mention.
#[derive(Clone, Copy)]
pub(super) enum Global {
    /// `collections.OrderedDict`.
    OrderedDict,
    /// `torch._utils._rebuild_tensor_v2`: storage, offset, size, strides, and three that say nothing here.
    Tensor,
    /// `torch._utils._rebuild_tensor_v3`, which adds an element type and has a storage of bytes.
    TypedTensor,
    /// `torch._utils._rebuild_parameter`: a tensor, and two that say nothing here.
    Parameter,
    /// A class of storages, such as `torch.FloatStorage`.
    Storage(DType),
    /// An element type, such as `torch.uint16`.
    Type(DType),
}

/// The classes of storages of torch.
const STORAGES: [(&str, DType); 9] = [
    ("DoubleStorage", DType::F64),
    ("FloatStorage", DType::F32),
    ("HalfStorage", DType::F16),
    ("BFloat16Storage", DType::Bf16),
    ("LongStorage", DType::I64),
    ("IntStorage", DType::I32),
    ("CharStorage", DType::I8),
    ("ByteStorage", DType::U8),
    ("BoolStorage", DType::Bool),
];

/// The element types of torch.
const TYPES: [(&str, DType); 14] = [
    ("float64", DType::F64),
    ("float32", DType::F32),
    ("float16", DType::F16),
    ("bfloat16", DType::Bf16),
    ("float8_e5m2", DType::Fp8E5m2),
    ("float8_e4m3fn", DType::Fp8E4m3fn),
    ("int64", DType::I64),
    ("int32", DType::I32),
    ("int8", DType::I8),
    ("uint64", DType::U64),
    ("uint32", DType::U32),
    ("uint16", DType::U16),
    ("uint8", DType::U8),
    ("bool", DType::Bool),
];

impl Global {
    pub(super) fn named(module: &str, name: &str) -> Result<Global> {
        let find = |table: &[(&str, DType)]| table.iter().find(|(other, _)| *other == name).map(|row| row.1);
        let global = match (module, name) {
            ("collections", "OrderedDict") => Some(Global::OrderedDict),
            ("torch._utils", "_rebuild_tensor_v2") => Some(Global::Tensor),
            ("torch._utils", "_rebuild_tensor_v3") => Some(Global::TypedTensor),
            ("torch._utils", "_rebuild_parameter") => Some(Global::Parameter),
            ("torch.storage", "UntypedStorage") => Some(Global::Storage(DType::U8)),
            ("torch" | "torch.cuda", _) => {
                find(&STORAGES).map(Global::Storage).or_else(|| find(&TYPES).map(Global::Type))
            }
            _ => None,
        };
        global.ok_or_else(|| match (module, name) {
            ("torch" | "torch.cuda", storage) if storage.ends_with("Storage") => {
                TensorNodeError::UnsupportedElement { format: FORMAT, what: format!("torch.{storage}") }
            }
            _ => TensorNodeError::PickledGlobal { name: format!("{module}.{name}") },
        })
    }
}

/// A tensor as a pickle describes it.
#[derive(Clone)]
pub(super) struct PickledTensor<'a> {
    /// The name of the storage in the archive.
    pub(super) storage: &'a str,
    /// The size of the storage; none if it is beyond the address space.
    pub(super) storage_bytes: Option<u64>,
    pub(super) dtype: DType,
    /// The element of the storage at index 0.
    pub(super) offset: u64,
    pub(super) dims: Dims,
    pub(super) strides: Dims,
}

/// The tensors of a pickle by name.
pub(super) fn pickled_tensors<'a>(pickle: &Pickle<'a>) -> Result<BTreeMap<String, PickledTensor<'a>>> {
    let budget = pickle.size().saturating_mul(MAX_VISITS_PER_BYTE);
    let mut walk = Walk { pickle, budget, tensors: BTreeMap::new() };
    walk.visit(pickle.root(), String::new(), 0)?;
    Ok(walk.tensors)
}

/// How often values may be visited, with the lengths of their names, for each byte of the pickle. Values that
/// are shared many times, or contain themselves, would take forever.
const MAX_VISITS_PER_BYTE: usize = 64;

/// How many dictionaries and lists may be in each other.
const MAX_DEPTH: usize = 64;

struct Walk<'p, 'a> {
    pickle: &'p Pickle<'a>,
    budget: usize,
    tensors: BTreeMap<String, PickledTensor<'a>>,
}

impl<'a> Walk<'_, 'a> {
    /// Collects the tensors of a value whose path is `name`.
    fn visit(&mut self, id: ValueId, name: String, depth: usize) -> Result<()> {
        let left = self.budget.checked_sub(name.len() + 1).filter(|_| depth <= MAX_DEPTH);
        self.budget = left.ok_or_else(|| malformed("values that are nested too often in each other"))?;
        let pickle = self.pickle;
        match pickle.value(id) {
            Value::Dict(items) => items.iter().try_for_each(|&[key, value]| {
                let key = match pickle.value(key) {
                    Value::Text(text) => (*text).to_owned(),
                    Value::Integer(number) => number.to_string(),
                    _ => return Err(malformed(format!("a key of {name:?} that is no text and no integer"))),
                };
                self.visit(value, joined(&name, &key), depth + 1)
            }),
            Value::List(elements) => elements.iter().enumerate().try_for_each(|(at, &element)| {
                self.visit(element, joined(&name, &at.to_string()), depth + 1)
            }),
            Value::Call(global, arguments) => self.add(name, *global, *arguments),
            Value::Nothing | Value::Integer(_) | Value::Text(_) | Value::Global(_) | Value::Persistent(_) => {
                Ok(())
            }
        }
    }

    fn add(&mut self, name: String, global: Global, arguments: ValueId) -> Result<()> {
        let tensor = self.tensor(global, arguments);
        let tensor = tensor.ok_or_else(|| malformed(format!("a call that makes no tensor at {name:?}")))?;
        match self.tensors.insert(name.clone(), tensor) {
            None => Ok(()),
            Some(_) => Err(malformed(format!("{name:?} is there twice"))),
        }
    }

    /// The tensor that a call would make.
    fn tensor(&self, global: Global, arguments: ValueId) -> Option<PickledTensor<'a>> {
        let arguments = self.list(arguments)?;
        match (global, arguments) {
            (Global::Parameter, [tensor, ..]) => match self.pickle.value(*tensor) {
                Value::Call(global @ (Global::Tensor | Global::TypedTensor), arguments) => {
                    self.tensor(*global, *arguments)
                }
                _ => None,
            },
            (Global::Tensor, [storage, offset, size, strides, ..]) => {
                self.view(*storage, *offset, [*size, *strides], None)
            }
            (Global::TypedTensor, [storage, offset, size, strides, _, _, dtype, ..]) => {
                let &Value::Global(Global::Type(dtype)) = self.pickle.value(*dtype) else { return None };
                self.view(*storage, *offset, [*size, *strides], Some(dtype))
            }
            _ => None,
        }
    }

    fn view(
        &self,
        storage: ValueId,
        offset: ValueId,
        [size, strides]: [ValueId; 2],
        dtype: Option<DType>,
    ) -> Option<PickledTensor<'a>> {
        let &Value::Persistent(key) = self.pickle.value(storage) else { return None };
        let [kind, class, name, _, count] = self.list(key)? else { return None };
        let (Value::Text("storage"), &Value::Text(storage)) =
            (self.pickle.value(*kind), self.pickle.value(*name))
        else {
            return None;
        };
        let &Value::Global(Global::Storage(stored)) = self.pickle.value(*class) else { return None };
        let storage_bytes =
            u64::try_from(self.integer(*count)?).ok()?.checked_mul(stored.size_bytes() as u64);
        let offset = u64::try_from(self.integer(offset)?).ok()?;
        let (dims, strides) = (self.sizes(size)?, self.sizes(strides)?);
        let dtype = dtype.unwrap_or(stored);
        (dims.len() == strides.len()).then_some(PickledTensor {
            storage,
            storage_bytes,
            dtype,
            offset,
            dims,
            strides,
        })
    }

    fn list(&self, id: ValueId) -> Option<&[ValueId]> {
        match self.pickle.value(id) {
            Value::List(elements) => Some(elements),
            _ => None,
        }
    }

    fn integer(&self, id: ValueId) -> Option<i64> {
        match self.pickle.value(id) {
            Value::Integer(number) => Some(*number),
            _ => None,
        }
    }

    fn sizes(&self, id: ValueId) -> Option<Dims> {
        self.list(id)?.iter().map(|&size| usize::try_from(self.integer(size)?).ok()).collect()
    }
}

/// A name behind a path.
fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
