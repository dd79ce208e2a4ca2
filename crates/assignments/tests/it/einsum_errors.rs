//! The error message for each mistake in einsum text.

use crate::error_table;

use assignments::indexing::einsum::resolve;
use expect_test::expect_file;
use tnode::Dims;

/// The lists of numbers of a text such as `[2, 3] [4]`.
fn lists(text: &str) -> Vec<Dims> {
    let lists = text.split_terminator(']').map(|list| list.trim_start_matches([' ', '[']));
    lists.map(|list| list.split(", ").map(|dim| dim.parse().expect("a dimension")).collect()).collect()
}

/// The first line of each text is the einsum text, and the second line has the dimensions.
#[test]
fn mistakes_are_shown_in_place() {
    error_table::check(&expect_file!["../errors/einsum.txt"], |text| {
        let (spec, dims) = text.split_once('\n').expect("two lines");
        let (operands, target) = dims.split_once(" => ").expect("operands and target");
        let [target] = &lists(target)[..] else { panic!("one target: {dims}") };
        resolve(spec, &lists(operands), target).err().map(|error| error.to_string())
    });
}
