//! Sums over all elements, rows and columns, and the transpose: operations that read memory in another order
//! than they write it.

use crate::{
    case::{Case, Node, Operation},
    product::transposed,
};

pub(super) fn all() -> Vec<Case> {
    vec![
        sum("sum_16k", 1 << 14),
        sum("sum_4m", 1 << 22),
        row_sum("rowsum_4096x1024", 4096, 1024),
        column_sum("colsum_4096x1024", 4096, 1024),
        transpose("transpose_2048", 2048),
    ]
}

fn sum(name: &'static str, n: usize) -> Case {
    let nodes = vec![Node::input("x", &[n]), Node::written("y", &[])];
    Case::new(name, Operation::Sum, "y :+= x[i]", nodes)
        .flops(n as f64)
        .formula(|inputs| vec![inputs[0].iter().sum()])
}

fn row_sum(name: &'static str, rows: usize, columns: usize) -> Case {
    let nodes = vec![Node::input("x", &[rows, columns]), Node::written("y", &[rows])];
    Case::new(name, Operation::RowSum, "y[r] :+= x[r,c]", nodes)
        .flops((rows * columns) as f64)
        .formula(move |inputs| inputs[0].chunks_exact(columns).map(|row| row.iter().sum()).collect())
}

fn column_sum(name: &'static str, rows: usize, columns: usize) -> Case {
    let nodes = vec![Node::input("x", &[rows, columns]), Node::written("y", &[columns])];
    let formula = move |inputs: &[Vec<f64>]| {
        let mut sums = vec![0.0; columns];
        for row in inputs[0].chunks_exact(columns) {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        sums
    };
    Case::new(name, Operation::ColSum, "y[c] :+= x[r,c]", nodes)
        .flops((rows * columns) as f64)
        .formula(formula)
}

fn transpose(name: &'static str, n: usize) -> Case {
    let nodes = vec![Node::input("x", &[n, n]), Node::written("y", &[n, n])];
    let case = Case::new(name, Operation::Transpose, "y[j,i] := x[i,j]", nodes);
    Case { tolerance: 0.0, ..case.formula(move |inputs| transposed(&inputs[0], n)) }
}
