"""Differentiates programs with jax, for `cargo xtask gradient-goldens`.

Reads a list of programs from standard input, and writes for each of them its loss and the gradient by each
parameter, or null if an element of these is not finite. Every statement of a program lists the flat index of
each access at each of its points, so a statement is: take the operands' elements, apply one operation,
combine the results with the target's elements. Only `apply` and `accumulate` know operations, and jax
differentiates these.

Where a derivative is not unique, conventions follow docs/derivatives.md. If jax has another convention, the
function is written with `where`, as `relu` is: its derivative at 0 is 0.
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

DTYPES = {"bool": np.bool_, "f32": np.float32, "f64": np.float64}
for bits in (8, 16, 32, 64):
    DTYPES |= {f"i{bits}": getattr(np, f"int{bits}"), f"u{bits}": getattr(np, f"uint{bits}")}


def convert(value, dtype):
    """Converts as the loop IR does: floats to integers saturate, and NaN becomes 0."""
    if jnp.issubdtype(value.dtype, jnp.floating) and jnp.issubdtype(dtype, jnp.integer):
        info = np.iinfo(dtype)
        is_inside = (value > float(info.min)) & (value < float(info.max))
        end = jnp.where(value >= 1, info.max, jnp.where(value <= 0, info.min, 0)).astype(dtype)
        return jnp.where(is_inside, select(is_inside, jnp.trunc(value)).astype(dtype), end)
    return value != 0 if dtype == np.bool_ else value.astype(dtype)


def select(condition, then):
    return jnp.where(condition, then, jnp.zeros_like(then))


def divide(a, b):
    """Integers are divided towards 0, and by 0 give 0."""
    if jnp.issubdtype(a.dtype, jnp.floating):
        return a / b
    return select(b != 0, jax.lax.div(a, jnp.where(b == 0, 1, b)))


def remainder(a, b):
    if jnp.issubdtype(a.dtype, jnp.floating):
        return jax.lax.rem(a, b)
    return select(b != 0, jax.lax.rem(a, jnp.where(b == 0, 1, b)))


def power(a, b):
    """Powers of integers are truncated, and 0 to a negative power is 0."""
    if jnp.issubdtype(a.dtype, jnp.floating):
        return jax.lax.pow(a, b)
    exact = jnp.trunc(jnp.power(a.astype(np.float64), b.astype(np.float64)))
    return select((a != 0) | (b >= 0), convert(exact, a.dtype))


UNARY = {
    "copy": lambda a: a,
    "neg": lambda a: -a,
    # The derivative of jnp.abs at 0 is 1 in recent versions.
    "abs": lambda a: a * jnp.sign(a),
    "not": lambda a: (a == 0).astype(a.dtype),
    "relu": lambda a: select(a > 0, a),
    "satur01": lambda a: jnp.where(a <= 0, 0, jnp.where(a >= 1, 1, a)).astype(a.dtype),
    "exp": jnp.exp,
    "exp2": jnp.exp2,
    "expm1": jnp.expm1,
    "log": jnp.log,
    "log1p": jnp.log1p,
    "log2": jnp.log2,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "atan": jnp.arctan,
    "erf": jax.lax.erf,
    "erfc": jax.lax.erfc,
    "sqrt": jnp.sqrt,
    "recip": lambda a: divide(jnp.ones_like(a), a),
    "recip_sqrt": jax.lax.rsqrt,
    "trunc": jnp.trunc,
    "floor": jnp.floor,
    "round_even": jnp.round,
}

BINARY = {
    "+": jnp.add,
    "-": jnp.subtract,
    "*": jnp.multiply,
    "/": divide,
    "%": remainder,
    "pow": power,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "relu_gate": lambda a, b: select(a > 0, b),
    "satur01_gate": lambda a, b: select((a > 0) & (a < 1), b),
    "<": jnp.less,
    "<=": jnp.less_equal,
    "==": jnp.equal,
    "!=": jnp.not_equal,
    "and": lambda a, b: ((a != 0) & (b != 0)).astype(a.dtype),
    "or": lambda a, b: ((a != 0) | (b != 0)).astype(a.dtype),
    "arg1": lambda a, b: a,
    "arg2": lambda a, b: b,
}


def apply(op, dtype, operands):
    """The operation of a statement at all points; `dtype` is the type in which it computes."""
    if op == "where":
        condition, then, otherwise = operands
        return jnp.where(convert(condition, np.bool_), convert(then, dtype), convert(otherwise, dtype))
    operands = [convert(operand, dtype) for operand in operands]
    if op == "fma":
        return operands[0] * operands[1] + operands[2]
    return (UNARY if len(operands) == 1 else BINARY)[op](*operands)


def by_element(indices):
    """The positions of the values of each written element, in the order of the loops, padded with -1."""
    elements, inverse, counts = np.unique(indices, return_inverse=True, return_counts=True)
    order = np.argsort(inverse, kind="stable")
    table = np.full((len(elements), counts.max()), -1)
    row = inverse[order]
    table[row, np.arange(len(order)) - (np.cumsum(counts) - counts)[row]] = order
    return elements, table


def accumulate(op, target, indices, values):
    """Combines values with the elements of the target at the indices."""
    if len(indices) == 0:
        return target
    elements, table = by_element(indices)
    old = target[elements]
    if op == "":
        return target.at[elements].set(values[table.max(axis=1)])
    if op in ("+", "-"):
        return target.at[indices].add(values if op == "+" else -values)
    reduce = {"*": jnp.prod, "max": jnp.max, "min": jnp.min}.get(op)
    # Elements with equally many values are combined together, so no reduction sees the padding.
    lengths = (table >= 0).sum(axis=1)
    for length in np.unique(lengths):
        rows = lengths == length
        new = values[table[rows, :length]]
        if reduce is not None:
            combined = reduce(jnp.concatenate([old[rows][:, None], new], axis=1), axis=1)
        else:
            combined = old[rows]
            for column in range(length):
                combined = BINARY[op](combined, new[:, column])
        target = target.at[elements[rows]].set(combined.astype(target.dtype))
    return target


class Run:
    """A run of a program. The first one notes the indices that the program computes; jax sees the second."""

    def __init__(self, program, noted=None):
        self.program = program
        self.noting = noted is None
        self.noted = [] if noted is None else list(noted)
        self.nodes = []
        for node in program["nodes"]:
            values = node["values"] or [0] * node["size"]
            self.nodes.append(np.asarray(values, dtype=DTYPES[node["dtype"]]))

    def note(self):
        """Runs the statements on which computed indices depend, and returns these indices."""
        needed = [True] * len(self.program["steps"])
        read = set()
        for at, statement in reversed(list(enumerate(self.program["steps"]))):
            operands = statement.get("operands", [])
            needed[at] = target_of(statement) in read
            of_indices = operands if needed[at] else operands[arity(statement):]
            read |= {operand["node"] for operand in of_indices if "node" in operand}
        for statement, is_needed in zip(self.program["steps"], needed):
            self.run_statement(statement, is_needed)
        return self.noted

    def loss(self, parameters):
        for node, values in zip(self.program["parameters"], parameters):
            self.nodes[node] = values
        for statement in self.program["steps"]:
            self.run_statement(statement)
        return self.nodes[self.program["loss"]][0]

    def run_statement(self, statement, has_effect=True):
        node = target_of(statement)
        old = self.nodes[node]
        if "fill" in statement:
            self.nodes[node] = saturated(np.full(old.shape, statement["fill"], np.float64), old.dtype)
            return
        operands = [None] * len(statement["operands"])
        # An operand that computes an index comes after the operands that it indexes.
        for at in reversed(range(len(operands))):
            if has_effect or at >= arity(statement):
                operands[at] = self.operand(statement["operands"][at], operands)
            elif "node" in statement["operands"][at]:
                self.indices(statement["operands"][at], operands)
        indices = self.indices(statement["target"], operands)
        if has_effect:
            values = apply(statement["op"], DTYPES[statement["dtype"]], operands[: arity(statement)])
            values = convert(values, old.dtype)
            inside = indices >= 0
            op, old = statement["accumulate"], jnp.asarray(old)
            self.nodes[node] = accumulate(op, old, indices[inside], values[inside])

    def operand(self, operand, operands):
        if "values" in operand:
            return saturated(np.asarray(operand["values"], np.float64), DTYPES[operand["dtype"]])
        node = self.nodes[operand["node"]]
        indices = self.indices(operand, operands)
        outside = saturated(np.float64(operand["outside"]), node.dtype)
        if node.shape[0] == 0:
            return np.full(len(indices), outside)
        return jnp.where(indices >= 0, node[np.maximum(indices, 0)], outside)

    def indices(self, access, operands):
        """The flat index at each point, with the part that the program computes; -1 outside of the node."""
        indices = np.asarray(access["index"], dtype=np.int64)
        computed = access.get("computed")
        if computed is None:
            return indices
        if self.noting:
            self.noted.append(np.asarray(operands[computed["operand"]]).astype(np.int64))
            part = self.noted[-1]
        else:
            part = self.noted.pop(0)
        inside = (indices >= 0) & (part >= 0) & (part < computed["extent"])
        return np.where(inside, indices + part * computed["stride"], -1)


def saturated(values, dtype):
    """Numbers of JSON as an array of the type; infinities become the ends of an integer type."""
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return np.nan_to_num(np.clip(values, info.min, info.max)).astype(dtype)
    return values.astype(dtype)


def target_of(statement):
    return statement["target"] if "fill" in statement else statement["target"]["node"]


def arity(statement):
    """The number of operands of the operation; the operands behind them compute indices."""
    if "fill" in statement:
        return 0
    return 3 if statement["op"] in ("where", "fma") else 1 if statement["op"] in UNARY else 2


def differentiated(program):
    noted = Run(program).note()
    run = jax.jit(jax.value_and_grad(lambda parameters: Run(program, noted).loss(parameters)))
    nodes = Run(program).nodes
    loss, gradients = run([nodes[node] for node in program["parameters"]])
    results = [np.asarray(loss), *map(np.asarray, gradients)]
    if not all(np.isfinite(result).all() for result in results):
        return None
    return {"loss": float(loss), "gradients": [gradient.tolist() for gradient in results[1:]]}


json.dump([differentiated(program) for program in json.load(sys.stdin)], sys.stdout)
