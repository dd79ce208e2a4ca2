//! Training sets in shuffled batches.

/// The rows of the batches of several epochs: in each epoch, every row once in a new order. Rows that do not
/// fill a batch are left out.
pub(crate) fn shuffled(
    rows: usize,
    batch: usize,
    epochs: usize,
    mut rng: fastrand::Rng,
) -> impl Iterator<Item = Vec<usize>> + Send {
    let mut order: Vec<usize> = (0..rows).collect();
    (0..epochs).flat_map(move |_| {
        rng.shuffle(&mut order);
        order.chunks_exact(batch).map(<[usize]>::to_vec).collect::<Vec<_>>()
    })
}
