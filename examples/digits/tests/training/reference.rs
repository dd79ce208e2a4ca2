//! The digits network written by hand in `f64` from its mathematical definition, for comparison with the
//! assignment text.

/// Rows by columns, row-major.
#[derive(Clone)]
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) values: Vec<f64>,
}

impl Matrix {
    pub(crate) fn new(rows: usize, columns: usize, values: Vec<f64>) -> Matrix {
        assert_eq!(values.len(), rows * columns);
        Matrix { rows, columns, values }
    }

    fn from_fn(rows: usize, columns: usize, f: impl Fn(usize, usize) -> f64) -> Matrix {
        let values = (0..rows * columns).map(|i| f(i / columns, i % columns)).collect();
        Matrix { rows, columns, values }
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.columns + column]
    }

    fn times(&self, other: &Matrix) -> Matrix {
        Matrix::from_fn(self.rows, other.columns, |i, j| {
            (0..self.columns).map(|k| self.at(i, k) * other.at(k, j)).sum()
        })
    }

    fn transposed(&self) -> Matrix {
        Matrix::from_fn(self.columns, self.rows, |i, j| self.at(j, i))
    }

    fn magnitudes(&self) -> Matrix {
        Matrix::from_fn(self.rows, self.columns, |i, j| self.at(i, j).abs())
    }

    fn column_sums(&self) -> Matrix {
        Matrix::from_fn(1, self.columns, |_, j| (0..self.rows).map(|i| self.at(i, j)).sum())
    }
}

/// Weights, biases and their momenta, in the order w1, b1, w2, b2.
pub(crate) struct ReferenceNetwork {
    pub(crate) parameters: [Matrix; 4],
    pub(crate) momenta: [Matrix; 4],
}

impl ReferenceNetwork {
    /// A network with zero momenta.
    pub(crate) fn new(parameters: [Matrix; 4]) -> ReferenceNetwork {
        let momenta = parameters.each_ref().map(|p| Matrix::from_fn(p.rows, p.columns, |_, _| 0.0));
        ReferenceNetwork { parameters, momenta }
    }

    /// Hidden activations and class scores of each image.
    fn scores(&self, images: &Matrix) -> (Matrix, Matrix) {
        let [w1, b1, w2, b2] = &self.parameters;
        let product = images.times(w1);
        let hidden =
            Matrix::from_fn(product.rows, product.columns, |i, j| (product.at(i, j) + b1.at(0, j)).max(0.0));
        let product = hidden.times(w2);
        let scores = Matrix::from_fn(product.rows, product.columns, |i, k| product.at(i, k) + b2.at(0, k));
        (hidden, scores)
    }

    /// The class of greatest score of each image.
    pub(crate) fn best_classes(&self, images: &Matrix) -> Vec<usize> {
        let (_, scores) = self.scores(images);
        let best = |row: &[f64]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
        scores.values.chunks_exact(scores.columns).map(best).collect()
    }

    /// Makes one step of gradient descent on the mean cross-entropy, with momentum 0.9 and rate 0.1, and
    /// returns the loss before the step.
    pub(crate) fn step(&mut self, images: &Matrix, labels: &[u8]) -> f64 {
        let NetworkPass { hidden, d_hidden, d_scores, loss } = self.pass(images, labels);
        let gradients = gradients(images, &hidden, &d_hidden, &d_scores);
        for ((parameter, momentum), gradient) in
            self.parameters.iter_mut().zip(&mut self.momenta).zip(gradients)
        {
            for ((p, m), g) in parameter.values.iter_mut().zip(&mut momentum.values).zip(gradient.values) {
                *m = 0.9 * *m + g;
                *p -= 0.1 * *m;
            }
        }
        loss
    }

    /// The elements of the gradients if every term of the sum over images is replaced by its magnitude.
    pub(crate) fn gradient_magnitudes(&self, images: &Matrix, labels: &[u8]) -> [Matrix; 4] {
        let NetworkPass { hidden, d_hidden, d_scores, .. } = self.pass(images, labels);
        gradients(&images.magnitudes(), &hidden.magnitudes(), &d_hidden.magnitudes(), &d_scores.magnitudes())
    }

    /// Computes the forward and the backward pass, except for the sums over images.
    fn pass(&self, images: &Matrix, labels: &[u8]) -> NetworkPass {
        let w2 = &self.parameters[2];
        let count = images.rows as f64;
        let (hidden, scores) = self.scores(images);
        let sums: Vec<f64> =
            (0..scores.rows).map(|i| (0..scores.columns).map(|k| scores.at(i, k).exp()).sum()).collect();
        let is_label = |i: usize, k: usize| f64::from(u8::from(usize::from(labels[i]) == k));
        let loss: f64 = labels.iter().enumerate().map(|(i, &l)| sums[i].ln() - scores.at(i, l.into())).sum();

        let d_scores = Matrix::from_fn(scores.rows, scores.columns, |i, k| {
            (scores.at(i, k).exp() / sums[i] - is_label(i, k)) / count
        });
        let back = d_scores.times(&w2.transposed());
        let d_hidden =
            Matrix::from_fn(
                back.rows,
                back.columns,
                |i, j| if hidden.at(i, j) > 0.0 { back.at(i, j) } else { 0.0 },
            );
        NetworkPass { hidden, d_hidden, d_scores, loss: loss / count }
    }
}

/// The factors of the products whose sums are the gradients.
struct NetworkPass {
    hidden: Matrix,
    d_hidden: Matrix,
    d_scores: Matrix,
    loss: f64,
}

/// The gradients in the order of the parameters.
fn gradients(images: &Matrix, hidden: &Matrix, d_hidden: &Matrix, d_scores: &Matrix) -> [Matrix; 4] {
    [
        images.transposed().times(d_hidden),
        d_hidden.column_sums(),
        hidden.transposed().times(d_scores),
        d_scores.column_sums(),
    ]
}
