//! Operations of ranks that are threads.

use arrayjit::{Backend, DType, HostArray, TensorNode, parallel::all_reduce};
use arrayjit_collectives::{Group, HostGroup, Reduction, local};

use crate::program;

#[test]
fn random_programs_give_the_bits_of_one_process() {
    for (backend, ranks) in [("multicore", 2), ("inline", 3), ("multicore", 4), ("multicore", 1)] {
        for seed in 0..8 {
            let expected = program::model(ranks, seed, 24);
            let found = local::run(ranks, |transport| program::run(transport, backend, seed, 24));
            for (rank, (found, expected)) in found.into_iter().zip(expected).enumerate() {
                for (node, (found, expected)) in found.unwrap().iter().zip(&expected).enumerate() {
                    assert!(found == expected, "{ranks} ranks, seed {seed}: rank {rank}, node {node}");
                }
            }
        }
    }
}

/// Values whose sums depend on the order of additions.
fn term(rank: usize, dtype: DType) -> HostArray {
    let mut array = HostArray::zeros(dtype, [257]).unwrap();
    let value = |at: usize| ((rank * 7919 + at * 104_729) % 10_007) as f64 * 1.7e-3 - 5.0;
    array.set_values(&(0..257).map(value).collect::<Vec<_>>()).unwrap();
    array
}

/// The sums of data-parallel training on the streams of one process, and those of ranks.
#[test]
fn ranks_sum_to_the_bits_of_streams() {
    for dtype in [DType::F32, DType::F64, DType::Bf16, DType::F16, DType::I64] {
        for ranks in [2, 3, 4, 5] {
            let backend = Backend::open("multicore").unwrap();
            let g = TensorNode::builder("g").dims([257]).dtype(dtype).build().unwrap();
            let context = |rank| backend.context().unwrap().init_from_host(&g, term(rank, dtype)).unwrap();
            let contexts: Vec<_> = (0..ranks).map(context).collect();
            all_reduce(&backend, &contexts, &g).unwrap();
            let expected = contexts[0].to_host(&g).unwrap();

            let found = local::run(ranks, |transport| -> program::Outcome<HostArray> {
                let backend = Backend::open("multicore")?;
                let group = HostGroup::new(transport, backend.new_stream()?);
                let g = TensorNode::builder("g").dims([257]).dtype(dtype).build()?;
                let context = backend.context()?.init_from_host(&g, term(group.rank(), dtype))?;
                group.all_reduce(&context, std::slice::from_ref(&g), Reduction::Sum)?;
                group.check_equal(&context, std::slice::from_ref(&g))?;
                Ok(context.to_host(&g)?)
            });
            assert!(found.into_iter().all(|found| found.unwrap() == expected), "{dtype}, {ranks} ranks");
        }
    }
}

#[test]
fn nodes_without_elements_are_reduced_and_gathered() {
    let found = local::run(3, |transport| -> program::Outcome<Vec<usize>> {
        let backend = Backend::open("inline")?;
        let group = HostGroup::new(transport, backend.new_stream()?);
        let [g, all] = ["g", "all"].map(|name| TensorNode::builder(name).dims([0, 3]).build());
        let (g, all, none) = (g?, all?, HostArray::zeros(DType::F32, [0, 3])?);
        let context = backend.context()?.init_from_host(&g, &none)?.init_from_host(&all, &none)?;
        group.all_reduce(&context, std::slice::from_ref(&g), Reduction::Sum)?;
        group.reduce_scatter(&context, &g, &all, Reduction::Sum)?;
        group.all_gather(&context, &g, &all)?;
        Ok(context.to_host(&all)?.dims().to_vec())
    });
    for dims in found {
        assert_eq!(dims.unwrap(), [0, 3]);
    }
}
