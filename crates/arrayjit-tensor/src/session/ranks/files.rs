//! Checkpoints of all ranks: rank 0 writes and reads the file, and the others get what it found.

use arrayjit::{HostArray, TensorNode};

use super::Ranks;
use crate::{error::Result, optim::OptimizerState, parameter::Parameter, session::SessionCore};

impl SessionCore {
    /// The values of an array, which rank `owner` has. Every rank calls it, and rank 0 gets them.
    pub(in crate::session) fn owned_values(
        &self,
        ranks: &Ranks,
        array: &Parameter,
        owner: usize,
    ) -> Result<HostArray> {
        let values = match ranks.group.rank() == owner {
            true => self.weights.get(array)?,
            false => HostArray::zeros(array.dtype(), array.shape().iter().copied())?,
        };
        if owner == 0 { Ok(values) } else { self.broadcast_values(ranks, array.name(), values, owner) }
    }

    /// The result of a function that rank 0 alone calls: its bytes on all ranks, or its error as a text.
    pub(in crate::session) fn on_first_rank(
        &self,
        ranks: &Ranks,
        call: impl FnOnce() -> Result<Vec<u8>, String>,
    ) -> Result<Result<Vec<u8>, String>> {
        let own = match ranks.group.rank() {
            0 => call(),
            _ => Ok(Vec::new()),
        };
        let (is_error, bytes) = match own {
            Ok(bytes) => (0, bytes),
            Err(text) => (1, text.into_bytes()),
        };
        let header = HostArray::from_slice(&[is_error, bytes.len() as i64], [2])?;
        let header = self.broadcast_values(ranks, "header", header, 0)?;
        let &[is_error, len] = header.as_slice::<i64>()? else { return Ok(Ok(Vec::new())) };
        let mut bytes = bytes;
        bytes.resize(usize::try_from(len).unwrap_or_default(), 0);
        if !bytes.is_empty() {
            let array = HostArray::from_slice(&bytes, [bytes.len()])?;
            bytes = self.broadcast_values(ranks, "file", array, 0)?.bytes().to_vec();
        }
        Ok(match is_error {
            0 => Ok(bytes),
            _ => Err(String::from_utf8_lossy(&bytes).into_owned()),
        })
    }

    /// The values that rank `root` passes.
    fn broadcast_values(
        &self,
        ranks: &Ranks,
        name: &str,
        values: HostArray,
        root: usize,
    ) -> Result<HostArray> {
        let dims = values.dims_without_padding();
        let node = TensorNode::builder(name).dims(dims).dtype(values.dtype()).build()?;
        let context = self.weights.backend().context()?;
        let context = context.init_from_host(&node, values)?;
        ranks.group.broadcast(&context, std::slice::from_ref(&node), root)?;
        let read = context.to_host(&node);
        read.map_err(|error| self.rank_failure().unwrap_or_else(|| error.into()))
    }

    /// The arrays of the optimizer, each with the rank that has it if the state is sharded. Arrays of other
    /// ranks get no memory here.
    pub(in crate::session) fn optimizer_arrays(&self) -> Result<Vec<(Parameter, Option<usize>)>> {
        let (Some(ranks), Some(owned)) = (&self.ranks, self.owned_parameters()) else {
            let all = self.optimizer.arrays(&self.weights.params().trainable(), &self.state)?;
            return Ok(all.into_iter().map(|array| (array, None)).collect());
        };
        let mut arrays = Vec::new();
        for rank in 0..ranks.group.size() {
            let parameters = owned.iter().filter(|(_, owner)| *owner == rank);
            let parameters: Vec<Parameter> = parameters.map(|(parameter, _)| parameter.clone()).collect();
            let elsewhere = OptimizerState::without_memory(&self.weights);
            let state = if rank == ranks.group.rank() { &self.state } else { &elsewhere };
            let all = self.optimizer.arrays(&parameters, state)?;
            arrays.extend(all.into_iter().map(|array| (array, Some(rank))));
        }
        Ok(arrays)
    }
}
