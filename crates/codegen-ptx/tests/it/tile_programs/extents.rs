//! Extents of the matrices of a program.

use fastrand::Rng;

/// Extents around the sizes of tiles.
const EDGES: [usize; 20] = [1, 1, 2, 3, 4, 7, 8, 15, 16, 17, 20, 24, 31, 32, 33, 48, 63, 64, 65, 129];
/// The scheduling decision that the extents of a program aim at.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    /// Large matrices, which are transposed through shared memory.
    Transposed,
    /// Extents around the sizes of tiles.
    Edges,
    /// Batches of so many matrices that even large tiles are enough to fill a GPU, so the tiles are large.
    Many,
    /// Sizes that suit tensor cores.
    Tensor,
    /// Few results of long sums.
    Long,
    /// Sizes that select the largest tiles; rare, because they take long.
    Large,
}

/// Batch, rows, columns and K of a program, and the largest number of iterations of a nest.
pub(crate) fn extents(shape: Shape, random: &mut Rng) -> ([usize; 4], usize) {
    loop {
        let mut edge = || EDGES[random.usize(..EDGES.len())];
        let [a, b, c] = [edge(), edge(), edge()];
        let (found, most) = match shape {
            Shape::Transposed => {
                let tiles = [[1, 8, 8], [2, 8, 4], [4, 4, 4], [16, 2, 2], [64, 1, 1], [1, 16, 4], [32, 1, 2]];
                let [batch, rows, columns] = tiles[random.usize(..7)];
                let mut over = || [0, 0, 0, 1, 4, 17][random.usize(..6)];
                let [rows, columns] = [32 * rows + over(), 32 * columns + over()];
                ([batch, rows, columns, 1], 72_000)
            }
            Shape::Edges => ([random.usize(1..4), a, b, c], 15_000),
            Shape::Many => {
                let batch = random.usize(64..70);
                let mut side = || 4 * random.usize(4..8) + [0, 0, 1, 3][random.usize(..4)];
                let [rows, columns] = [side(), side()];
                ([batch, rows, columns, random.usize(1..20)], 75_000)
            }
            // Enough small matmuls that a block computes several tiles.
            Shape::Tensor if random.u8(..6) == 0 => {
                let batch = random.usize(133..140);
                let mut side = || 8 * random.usize(2..4);
                ([batch, side(), side(), 16], 1_400_000)
            }
            Shape::Tensor => {
                let batch = random.usize(1..4);
                let mut side =
                    || 8 * random.usize(2..14) + if random.u8(..12) == 0 { random.usize(1..5) } else { 0 };
                ([batch, side(), side(), side()], 60_000)
            }
            Shape::Long => {
                let (rows, columns) = (random.usize(1..6), [a, 4 * random.usize(1..30)][random.usize(..2)]);
                ([random.usize(1..3), rows, columns, random.usize(256..9000)], 25_000)
            }
            Shape::Large => {
                let mut side = || 8 * random.usize(7..19) + [0, 0, 0, 4][random.usize(..4)];
                let [rows, columns] = [side(), side()];
                let batch = [random.usize(60..70), random.usize(128..140)][random.usize(..2)];
                ([batch, rows, columns, [4, 8, 16, 19, 24][random.usize(..5)]], 8_000_000)
            }
        };
        if found.iter().product::<usize>() <= most {
            return (found, most);
        }
    }
}
