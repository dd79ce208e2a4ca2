"""Writes tests of operators of `ai.onnx.ml` as an archive: `generate_ml.py FILE.tar.xz`.

The inputs come from a generator with a fixed seed. The archive is the same in every run on one processor.
"""

import sys

import numpy as np
from archive import write
from cases import case as any_case
from cases import floats, integers, tensor

NAN = float("nan")


def case(name, operator, inputs, outputs=1, version=3, **attributes):
    yield from any_case(name, operator, inputs, outputs, domain="ai.onnx.ml", version=version, **attributes)


def features():
    x, wide = floats(5, 4) * 3, floats(5, 4).astype(np.float64)
    whole = integers(-3, 4, 5, 4, dtype=np.int64)
    yield case("scaler", "Scaler", [x], offset=[0.5, -1.0, 0.25, 0.0], scale=[2.0, 0.5, 1.0, -1.0])
    yield case("scaler_one", "Scaler", [wide], offset=[0.5], scale=[2.0])
    yield case("scaler_integers", "Scaler", [whole], offset=[0.5], scale=[2.0])
    gaps = x.copy()
    gaps[1, 2] = gaps[3, 0] = gaps[4, 3] = NAN
    yield case("imputer", "Imputer", [gaps], replaced_value_float=NAN, imputed_value_floats=[1.0, 2.0, 3.0, 4.0])
    yield case("imputer_one", "Imputer", [gaps], replaced_value_float=NAN, imputed_value_floats=[7.0])
    yield case("imputer_integers", "Imputer", [whole], replaced_value_int64=0, imputed_value_int64s=[9, 8, 7, 6])
    zeros = x.copy()
    zeros[2] = 0
    for norm in ("MAX", "L1", "L2"):
        yield case(f"normalizer_{norm.lower()}", "Normalizer", [zeros], norm=norm)
    yield case("normalizer_row", "Normalizer", [np.abs(x[0])], norm="L1")
    yield case("binarizer", "Binarizer", [x], threshold=0.3)
    name, columns = "ArrayFeatureExtractor", np.array([[2, 0, 3]], np.int64)
    yield case("extractor", name, [x, columns])
    yield case("extractor_row", name, [whole[0], columns])
    parts = [x, floats(5, 2), floats(5, 1)]
    yield case("vectorizer", "FeatureVectorizer", parts, version=1, inputdimensions=[4, 2, 1])
    yield case("vectorizer_other", "FeatureVectorizer", parts, version=1, inputdimensions=[3, 4, 1])


def labels():
    keys, x = [3, -1, 7], np.array([[7, 3], [5, -1]], np.int64)
    yield case("encoder", "LabelEncoder", [x], version=2, keys_int64s=keys, values_floats=[0.5, 1.5, 2.5])
    numbers = np.array([0.5, NAN, 2.0, -1.0], np.float32)
    given = dict(keys_floats=[2.0, NAN, 0.5], values_int64s=[4, 5, 6], default_int64=-7)
    yield case("encoder_floats", "LabelEncoder", [numbers], version=2, **given)
    arrays = dict(
        keys_tensor=tensor("keys", np.array([1, 2, 3], np.int64)),
        values_tensor=tensor("values", np.array([10, 20, 30], np.int64)),
        default_tensor=tensor("default", np.array([-5], np.int64)),
    )
    yield case("encoder_arrays", "LabelEncoder", [np.array([2, 9, 1], np.int64)], version=4, **arrays)
    yield case("one_hot", "OneHotEncoder", [x], cats_int64s=[-1, 3, 5], zeros=1)
    yield case("one_hot_floats", "OneHotEncoder", [x.astype(np.float32)], cats_int64s=[-1, 3, 5], zeros=1)


def linear():
    x, weights = floats(6, 4) * 2, [float(value) for value in floats(12)]
    yield case("linear", "LinearRegressor", [x], coefficients=weights[:4], intercepts=[0.25])
    yield case("linear_targets", "LinearRegressor", [x], coefficients=weights, intercepts=weights[:3], targets=3)
    name = "LinearClassifier"
    for transform in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        given = dict(coefficients=weights, intercepts=weights[:3], classlabels_ints=[5, 2, 9], post_transform=transform)
        yield case(f"linear_classes_{transform.lower()}", name, [x], 2, **given)
    gaps = rows(6, 4)
    gaps[np.isinf(gaps)] = 1
    given = dict(coefficients=[1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0], intercepts=[0.0, 1.0])
    yield case("linear_gaps", name, [gaps], 2, **given, classlabels_ints=[5, 2])
    for transform in ("NONE", "LOGISTIC", "SOFTMAX"):
        given = dict(coefficients=weights[:4], intercepts=[0.1], classlabels_ints=[0, 1], post_transform=transform)
        yield case(f"linear_two_{transform.lower()}", name, [x], 2, **given)


def grown(random, width, depth, modes, targets, per_leaf, positive=False):
    """The attributes of a few random trees."""
    names = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
    nodes = {f"nodes_{name}": [] for name in (*names, "missing_value_tracks_true")}
    leaves = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}

    def add(tree, number, *columns):
        for name, value in zip(names, (tree, number, *columns)):
            nodes[f"nodes_{name}"].append(value)
        nodes["nodes_missing_value_tracks_true"].append(int(random.integers(0, 2)))

    def grow(tree, number, left):
        if left == 0 or number and random.random() < 0.2:
            add(tree, number, 0, "LEAF", 0.0, 0, 0)
            chosen = random.choice(targets, size=min(per_leaf, len(targets)), replace=False)
            for target in sorted(int(target) for target in chosen):
                leaves["treeids"].append(tree)
                leaves["nodeids"].append(number)
                leaves["ids"].append(target)
                weight = float(np.float32(random.uniform(0 if positive else -1, 1)))
                leaves["weights"].append(weight)
            return number + 1
        mode = str(random.choice(modes))
        value = float(np.float32(random.integers(-4, 5) / 2))
        at = len(nodes["nodes_nodeids"])
        add(tree, number, int(random.integers(0, width)), mode, value, number + 1, 0)
        behind = grow(tree, number + 1, left - 1)
        nodes["nodes_falsenodeids"][at] = behind
        return grow(tree, behind, left - 1)

    for tree in range(5):
        grow(tree, 0, depth)
    return nodes, leaves


def rows(count, width):
    """Features of which some are NaN, and others equal thresholds."""
    x = (integers(-5, 6, count, width) / 2).astype(np.float32)
    x[::3] += floats(*x[::3].shape)
    x[1::4, 1] = NAN
    x[0, 0], x[2, 2] = np.inf, -np.inf
    return x


def trees():
    random, name = np.random.default_rng(1), "TreeEnsembleRegressor"
    kinds = ["LEQ", "LT", "GTE", "GT", "EQ", "NEQ"]

    def some(modes, targets, per_leaf, prefix, **options):
        nodes, leaves = grown(random, 4, 5, [f"BRANCH_{mode}" for mode in modes], targets, per_leaf, **options)
        return {**nodes, **{f"{prefix}_{name}": values for name, values in leaves.items()}}

    x = rows(12, 4)
    for kind in kinds:
        yield case(f"trees_{kind.lower()}", name, [x], **some([kind], [0], 1, "target"), n_targets=1)
    given = some(kinds, [0, 1, 2], 3, "target")
    for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
        options = dict(n_targets=3, aggregate_function=aggregate, base_values=[0.5, -0.5, 2.0])
        yield case(f"trees_{aggregate.lower()}", name, [x], **given, **options)
    whole = integers(-3, 4, 7, 4, dtype=np.int64)
    given = some(kinds, [0], 1, "target")
    same = [whole.astype(np.float32)]
    yield case("trees_integers", name, [whole], same_as=same, **given, n_targets=1)
    wide = some(["LEQ"], [0], 1, "target")
    values = {name: np.array(wide.pop(name), np.float64) for name in ("nodes_values", "target_weights")}
    wide.update({f"{name}_as_tensor": tensor(name, array + 1e-12) for name, array in values.items()})
    yield case("trees_f64", name, [x.astype(np.float64)], **wide, n_targets=1)
    name = "TreeEnsembleClassifier"
    three = some(["LEQ"], [0, 1, 2], 3, "class", positive=True)
    for transform in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
        options = dict(classlabels_int64s=[4, 1, 7], post_transform=transform)
        yield case(f"trees_classes_{transform.lower()}", name, [x], 2, **three, **options)
    # Numbers of both of two classes are left out: onnxruntime ignores the labels and the first score there.
    for sign in ("positive", "any"):
        for only in (0, 1):
            one = some(["LEQ", "GT"], [only], 1, "class", positive=sign == "positive")
            for transform in ("NONE", "LOGISTIC", "SOFTMAX"):
                options = dict(classlabels_int64s=[3, 8], post_transform=transform)
                yield case(f"trees_only_{only}_{sign}_{transform.lower()}", name, [x], 2, **one, **options)
            if only == 0:
                options = dict(classlabels_int64s=[3, 8], base_values=[0.125], post_transform="LOGISTIC")
                yield case(f"trees_base_{sign}", name, [x], 2, **one, **options)


def kernels():
    x, vectors = floats(5, 3), [float(value) for value in floats(12)]
    given = dict(coefficients=vectors[:4], support_vectors=vectors, n_supports=4, rho=[0.25])
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        options = dict(kernel_type=kernel, kernel_params=[0.5, 0.25, 3.0])
        yield case(f"support_{kernel.lower()}", "SVMRegressor", [x], version=1, **given, **options)
    options = dict(kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0], one_class=1)
    yield case("support_one_class", "SVMRegressor", [x], version=1, **given, **options)
    options = dict(coefficients=vectors[:3], rho=[0.5], n_supports=0, kernel_type="LINEAR")
    yield case("support_none", "SVMRegressor", [x], version=1, **options, kernel_params=[0.0, 0.0, 0.0])


def machines():
    x, name = floats(7, 3), "SVMClassifier"
    for classes, counts in ((2, [3, 2]), (3, [2, 3, 1]), (4, [1, 2, 2, 1])):
        total, pairs = sum(counts), classes * (classes - 1) // 2
        listed = lambda count: [float(value) for value in floats(count)]
        given = dict(
            classlabels_ints=[5, 2, 9, 4][:classes],
            vectors_per_class=counts,
            coefficients=listed(total * (classes - 1)),
            support_vectors=listed(total * 3),
            rho=listed(pairs),
            kernel_type="RBF" if classes == 3 else "LINEAR",
            kernel_params=[0.5, 0.25, 3.0],
        )
        yield case(f"machine_{classes}", name, [x], 2, version=1, **given)
        given.update(prob_a=[-2 * abs(value) for value in listed(pairs)], prob_b=listed(pairs))
        yield case(f"machine_{classes}_probabilities", name, [x], 2, version=1, **given)


def main(target):
    families = (features, kernels, labels, linear, trees, machines)
    write(target, [file for family in families for files in family() for file in files])


main(sys.argv[1])
