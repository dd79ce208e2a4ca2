//! One file with the timelines of all ranks.

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use arrayjit::trace::{self, TraceError};

use crate::{
    announcement::Announcement,
    error::{CollectiveError, Result},
    transport::Transport,
};

/// The most bytes of a rank in one exchange.
const BLOCK: usize = 512 << 10;

/// Joins the finished timelines of all ranks: each passes its own file, and rank 0 writes one with all of
/// them, where the groups of tracks are named after the ranks. Every rank calls it, when no operation of
/// a group is under way. See [`trace::merge`] about the times.
///
/// # Errors
/// A rank that does not come in time; a file that cannot be read, on its rank and on rank 0; a file that
/// cannot be written, on rank 0.
pub fn join_timelines(transport: &dyn Transport, timeout: Duration, own: &Path, joined: &Path) -> Result<()> {
    let bytes = fs::read(own).map_err(|error| failure(own, error));
    transport.meet(&Announcement::new("join_timelines"), timeout)?;
    let all = gathered(transport, bytes.as_deref().unwrap_or_default());
    transport.done();
    let all = all?;
    bytes?;
    if transport.rank() != 0 {
        return Ok(());
    }
    let names: Vec<String> = (0..all.len()).map(|rank| format!("rank {rank}")).collect();
    let processes = names.iter().map(String::as_str).zip(all.iter().map(Vec::as_slice));
    let merged = trace::merge(processes).map_err(|error| CollectiveError::Timeline(Arc::new(error)))?;
    fs::write(joined, merged).map_err(|error| failure(joined, error))
}

fn failure(path: &Path, source: io::Error) -> CollectiveError {
    CollectiveError::Timeline(Arc::new(TraceError::File { path: path.to_owned(), source }))
}

/// The bytes of all ranks on rank 0, and nothing on the others.
fn gathered(transport: &dyn Transport, own: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut lengths = vec![0; 8 * transport.size()];
    transport.all_gather(&(own.len() as u64).to_le_bytes(), &mut lengths)?;
    let lengths = lengths.chunks_exact(8).map(|bytes| {
        u64::from_le_bytes(bytes.try_into().unwrap_or_default()) as usize // chunks have 8 bytes
    });
    let lengths: Vec<usize> = lengths.collect();
    let mut all = vec![Vec::new(); transport.size()];
    let mut received = vec![0; BLOCK * transport.size()];
    for start in (0..lengths.iter().copied().max().unwrap_or_default()).step_by(BLOCK) {
        let mut block = own.get(start..).unwrap_or_default().to_vec();
        block.resize(BLOCK, 0);
        transport.all_gather(&block, &mut received)?;
        if transport.rank() == 0 {
            for ((whole, len), block) in all.iter_mut().zip(&lengths).zip(received.chunks(BLOCK)) {
                whole.extend_from_slice(&block[..len.saturating_sub(start).min(BLOCK)]);
            }
        }
    }
    Ok(all)
}
