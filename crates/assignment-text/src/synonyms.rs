//! Functions of other array languages, and their counterparts in assignment text.

use std::fmt;

/// The counterpart of a function of another array language. Displays as the end of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synonym {
    /// The explanation, without the example.
    says: &'static str,
    /// A statement with the function's effect.
    example: &'static str,
}

impl Synonym {
    /// A statement with the function's effect.
    pub fn example(&self) -> &'static str {
        self.example
    }
}

impl fmt::Display for Synonym {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, as in `{}`", self.says, self.example)
    }
}

/// The counterpart in assignment text of the function `name` of another array language; `None` if the name is
/// unknown.
pub(crate) fn of(name: &str) -> Option<Synonym> {
    let name = name.to_lowercase();
    let row = SYNONYMS.iter().find(|(names, ..)| names.split(' ').any(|known| known == name));
    row.map(|&(_, says, example)| Synonym { says, example })
}

/// The counterpart of a call with one argument that reduces in other languages, such as `max(x)`.
pub(crate) fn of_call(name: &str, arguments: usize) -> Option<Synonym> {
    let row = REDUCTIONS.iter().find(|(known, ..)| *known == name).filter(|_| arguments == 1)?;
    Some(Synonym { says: row.1, example: row.2 })
}

/// The counterpart of a word that begins a statement in other languages, such as `for`.
pub(crate) fn of_word(word: &str) -> Option<&'static str> {
    let row = WORDS.iter().find(|(words, _)| words.split(' ').any(|known| known == word));
    row.map(|&(_, instead)| instead)
}

/// Words that begin a statement in other languages, with their counterparts.
const WORDS: [(&str, &str); 4] = [
    (
        "for foreach while",
        "a statement runs for all values of its letters, and `repeat l in 0..4 { .. }` copies statements",
    ),
    ("let var val mut", "a name needs no word before it, as in `y[i] := 2 * x[i]`"),
    ("return yield", "a function assigns its result, as in `y[i] := 2 * x[i]`"),
    ("if else elif", "a condition chooses a value, as in `y[i] := where(x[i] > 0, x[i], 0)`"),
];

/// Functions of two arguments that reduce over one argument in other languages, each with an explanation and
/// an example.
const REDUCTIONS: [(&str, &str, &str); 4] = [
    ("max", "the maximum over a letter is an accumulation", "y[i] :max= x[i,k]"),
    ("min", "the minimum over a letter is an accumulation", "y[i] :min= x[i,k]"),
    ("and", "whether all are true is an accumulation", "y[i] :and= x[i,k]"),
    ("or", "whether any is true is an accumulation", "y[i] :or= x[i,k]"),
];

/// Names of functions, with an explanation and an example per row. A test parses and lowers every example.
const SYNONYMS: [(&str, &str, &str); 48] = [
    ("sum reduce_sum add_reduce", "a sum over a letter is an accumulation", "y[i] :+= x[i,k]"),
    ("cumsum", "a running sum is a sum with a bound", "y[i] :+= u[j] where j <= i"),
    ("mean average avg reduce_mean", "a mean is a sum of quotients", "y[i] :+= x[i,k] / size(k)"),
    ("prod product reduce_prod", "a product over a letter is an accumulation", "y[i] :*= x[i,k]"),
    (
        "amax maximum reduce_max fmax",
        "`max` takes two values, and over a letter it is an accumulation",
        "y[i] :max= x[i,k]",
    ),
    (
        "amin minimum reduce_min fmin",
        "`min` takes two values, and over a letter it is an accumulation",
        "y[i] :min= x[i,k]",
    ),
    (
        "argmax",
        "the position of a maximum is the least index that has it",
        "y[i] :max= x[i,k]; n[i] :min= where(x[i,k] == y[i], k, size(k))",
    ),
    (
        "argmin",
        "the position of a minimum is the least index that has it",
        "y[i] :min= x[i,k]; n[i] :min= where(x[i,k] == y[i], k, size(k))",
    ),
    ("any", "whether any is true is an accumulation", "y[i] :or= x[i,k]"),
    ("all", "whether all are true is an accumulation", "y[i] :and= x[i,k]"),
    (
        "matmul dot mm bmm gemm einsum inner tensordot contract",
        "a product of matrices is a sum over the letter they share",
        "c[i,j] :+= a[i,k] * b[k,j]",
    ),
    ("outer", "an outer product has the letters of both", "z[i,j] := u[i] * v[j]"),
    ("norm", "a norm is the root of a sum of squares", "s :+= x[i,k] * x[i,k]; s := sqrt(s)"),
    ("var variance std", "a variance is a mean of squares", "y[i] :+= x[i,k] * x[i,k] / size(k)"),
    ("logistic expit", "it is `sigmoid`", "y[i] := sigmoid(u[i])"),
    ("swish", "it is `silu`", "y[i] := silu(u[i])"),
    ("leaky_relu", "it is written out", "y[i] := where(u[i] > 0, u[i], 0.01 * u[i])"),
    ("ln loge", "the natural logarithm is `log`", "y[i] := log(u[i])"),
    ("log10", "it is a logarithm by another", "y[i] := log(u[i]) / log(10.0)"),
    ("power exponent", "it is `pow`", "y[i] := pow(u[i], 3)"),
    ("square sqr", "a square is a product", "y[i] := u[i] * u[i]"),
    ("rsqrt inversesqrt", "it is `recip_sqrt`", "y[i] := recip_sqrt(u[i])"),
    ("reciprocal inv inverse", "it is `recip`", "y[i] := recip(u[i])"),
    ("fabs absolute magnitude", "it is `abs`", "y[i] := abs(u[i])"),
    ("negative minus", "it is `neg`, or a sign", "y[i] := -u[i]"),
    ("round rint nearbyint", "rounding goes to the nearest even one", "y[i] := round_even(u[i])"),
    ("ceil", "a ceiling is a floor from the other side", "y[i] := -floor(-u[i])"),
    ("sign sgn", "a sign is the difference of two comparisons", "y[i] := f32(u[i] > 0) - f32(u[i] < 0)"),
    ("clamp clip", "it is a `max` of a `min`", "y[i] := max(0, min(u[i], 6))"),
    ("saturate", "it is `satur01`", "y[i] := satur01(u[i])"),
    ("mod fmod remainder rem", "a remainder is `%`", "y[i] := u[i] % 3"),
    ("if ifelse select cond piecewise", "it is `where`", "y[i] := where(u[i] > 0, u[i], 0)"),
    ("xor bitxor", "it is `bit_xor`", "n[i] := bit_xor(n[i], 1)"),
    (
        "float float32 double float64 single",
        "conversions are named as types, such as `f32` and `f64`",
        "y[i] := f32(n[i])",
    ),
    (
        "int int32 int64 long cast astype",
        "conversions are named as types, such as `i32` and `i64`",
        "n[i] := i32(u[i])",
    ),
    (
        "len length shape dim extent count",
        "the number of values of a letter is `size`",
        "y[i] := u[i] / size(i)",
    ),
    ("flip reverse", "an index may count down", "y[i] := u[3 - i]"),
    ("diag diagonal trace", "a diagonal has one letter on both axes", "y[i] := x[i,i] where i < 4"),
    ("tril triu", "a bound selects a triangle", "z[i,j] :+= x[i,j] where j <= i"),
    ("reshape flatten ravel", "a view reads a node under other dimensions", "view f = x as [24]; s :+= f[i]"),
    ("transpose permute swapaxes", "a transpose exchanges indices", "w[j,i] := x[i,j]"),
    ("concat concatenate cat stack", "a concatenated axis is written `i^j`", "q[i^j] := u[i], v[j]"),
    ("gather take", "a gather has an access as its index", "y[i] := v[ids[i]]"),
    ("scatter scatter_add", "a scatter has an access as its index on the left", "v[ids[i]] :+= u[i]"),
    ("one_hot onehot eye identity", "it is a comparison of indices", "z[i,j] := ids[i] == j"),
    ("zeros ones full fill zeros_like", "a number fills a node", "y[i] := 0"),
    (
        "arange range iota linspace",
        "a letter is a value, and `offsets` fills a node with them",
        "n := offsets()",
    ),
    (
        "rand randn random_normal random_uniform bernoulli",
        "random numbers are `uniform` and `normal` of a seed and indices",
        "y[i] := normal(42, i)",
    ),
];

#[cfg(test)]
mod tests {
    use tnode::{DType, TensorNode};

    use super::*;
    use crate::parse;
    use assignments::lower::{LowerOptions, lower};

    fn nodes() -> Vec<TensorNode> {
        let node = |name: &str, dtype, dims: &[usize]| {
            let node = TensorNode::builder(name).dims(dims.iter().copied()).dtype(dtype);
            node.mode(tnode::MemoryMode::Materialized).build().expect("small")
        };
        let f32s = |name, dims: &[usize]| node(name, DType::F32, dims);
        vec![
            f32s("x", &[4, 6]),
            f32s("z", &[4, 6]),
            f32s("w", &[6, 4]),
            f32s("y", &[4]),
            f32s("u", &[4]),
            f32s("v", &[6]),
            f32s("q", &[10]),
            f32s("s", &[]),
            f32s("a", &[4, 5]),
            f32s("b", &[5, 6]),
            f32s("c", &[4, 6]),
            node("n", DType::I32, &[4]),
            node("ids", DType::I32, &[4]),
        ]
    }

    #[test]
    fn every_example_is_a_program() {
        let examples = SYNONYMS.iter().chain(&REDUCTIONS).map(|row| row.2);
        for example in examples {
            let program = parse(example, &nodes()).unwrap_or_else(|error| panic!("{error}"));
            lower(&program, &LowerOptions::default()).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    #[test]
    fn no_name_is_a_function_or_has_two_meanings() {
        let names: Vec<&str> = SYNONYMS.iter().flat_map(|row| row.0.split(' ')).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name}");
            let error = parse(&format!("y[i] := {name}(u[i])"), &nodes()).expect_err(name).to_string();
            assert!(error.contains(&format!("unknown function `{name}`; ")), "{error}");
            assert!(error.contains(&of(name).expect("it is in the table").to_string()), "{error}");
        }
    }
}
