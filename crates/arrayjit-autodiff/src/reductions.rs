//! Derivatives of the greatest or least of several values, and of their product.
//!
//! Values that are equal to the greatest one share its adjoint equally. The derivative of a product by one
//! factor is the product of the other factors, so nothing is divided by a factor that may be 0. The factors
//! of an axis are multiplied in pairs, these products in pairs again, and so on. The adjoint of each factor
//! of a pair is that of the pair's product times the other factor. This takes at most three multiplications
//! per factor, and all statements can be differentiated again.

use assignments::indexing::{AxisIndex, Projection, Projections};
use assignments::{Accum, AccumOp, Operand, Origin, Rhs};
use lowered_ir::ir::{Affine, BinaryOp, LoopId, Var};
use tnode::{DType, Dims, Scalar, TensorNode};

use crate::Formula;
use crate::access::{Access, Operation, Target, each_element};
use crate::backward::{Adjoint, BackwardPass, reduction};
use crate::error::{GradientErrorKind, Result};
use crate::statement::{Bindings, Statement, gradient_dtype};

impl BackwardPass<'_> {
    /// Differentiates `max=` and `min=` of several values per element.
    pub(crate) fn extreme(
        &mut self,
        adjoint: &Adjoint,
        statements: &mut [Statement],
        keeps_old: bool,
        at: usize,
    ) -> Result<()> {
        let Some(first) = statements.first() else { return Ok(()) };
        let (node, origin, starts) =
            (first.accum.lhs.clone(), first.accum.origin.clone(), first.accum.init_neutral);
        let whole = self.whole(&node, &origin)?;
        let result = self.tape.value_before(&node, at + 1)?;
        let old = if starts { node.clone() } else { self.tape.value_before(&node, at)? };
        let on_whole = |node: &TensorNode| whole.at_target(node);
        let (count, share) = (self.like(&node, "ties")?, self.like(&node, "share")?);
        if !starts {
            let operands = [on_whole(&old), on_whole(&result)];
            whole.push(whole.assigned(&count), Operation::Binary(BinaryOp::Eq), &operands, &mut self.tape)?;
        }
        let mut values = Vec::new();
        for (position, statement) in statements.iter_mut().enumerate() {
            let value = statement.accumulated(&mut self.tape)?;
            let operands = [value.clone(), statement.at_target(&result)];
            let target = statement.sum(&count, starts && position == 0);
            statement.push(target, Operation::Binary(BinaryOp::Eq), &operands, &mut self.tape)?;
            values.push(value);
        }
        let operands = [on_whole(&adjoint.node), on_whole(&count)];
        whole.push(whole.assigned(&share), Operation::Binary(BinaryOp::Div), &operands, &mut self.tape)?;
        let is_result = Statement::equal(Formula::Operand(0), Formula::Result);
        let rule = Formula::select(is_result, Formula::Adjoint, Formula::Number(0.0));
        let bindings = |access: &dyn Fn(&TensorNode) -> Access, value: &Access| Bindings {
            adjoint: access(&share),
            sparse: true,
            values: Some((access(&result), [value.clone(), value.clone()])),
        };
        if keeps_old {
            let older = self.older(adjoint, &node)?;
            let target = Target::sum(&older, true, &on_whole(&older));
            let mut whole = self.whole(&node, &origin)?;
            let bindings = bindings(&on_whole, &on_whole(&old));
            whole.accumulate(target, &rule, &bindings, &mut self.tape)?;
        }
        for (statement, value) in statements.iter_mut().zip(&values) {
            let accum = statement.accum.clone();
            let bindings = bindings(&|node| Access::at_target(node, &accum), value);
            self.through(statement, &rule, &bindings)?;
        }
        Ok(())
    }

    /// Differentiates `*=` of several values per element.
    pub(crate) fn product(
        &mut self,
        adjoint: &Adjoint,
        statements: &mut [Statement],
        keeps_old: bool,
        at: usize,
    ) -> Result<()> {
        let statement = only_product(statements)?;
        let factors = self.factors(statement)?;
        if keeps_old {
            let older = self.older(adjoint, &statement.accum.lhs)?;
            self.old_factor(&older, &adjoint.node, adjoint.sparse, statement, &factors)?;
        }
        let inner = self.adjoints_of_factors(&adjoint.node, adjoint.sparse, statement, factors, at)?;
        let read = statement.at_point(&inner);
        let bindings = Bindings { adjoint: read, sparse: adjoint.sparse, values: None };
        self.through(statement, &Formula::Adjoint, &bindings)
    }

    /// The values that a product multiplies, one element per point; 1 at points that conditions cut off.
    pub(crate) fn factors(&mut self, statement: &Statement) -> Result<TensorNode> {
        let dtype = gradient_dtype(statement.accum.lhs.dtype());
        // Beyond the sizes that a run gives, factors are 1 as well.
        let space = statement.accum.projections.product_space();
        let factors = self.tape.temporary("factors", space, dtype)?;
        let target = Target::at_point(&factors, &statement.accum);
        let target = Target { init_neutral: true, op: AccumOp::Mul, ..target };
        statement.store_values(target, &mut self.tape)?;
        Ok(factors)
    }

    /// The adjoint of each factor of a product, one element per point.
    pub(crate) fn adjoints_of_factors(
        &mut self,
        adjoint: &TensorNode,
        sparse: bool,
        statement: &Statement,
        factors: TensorNode,
        at: usize,
    ) -> Result<TensorNode> {
        let accum = &statement.accum;
        let reduced = reduced_axes(accum).ok_or_else(|| reduction(accum, PLAIN_PRODUCT))?;
        // The products over the last reduced axis, over the last two, and so on.
        let mut partial = vec![factors];
        for &axis in reduced.iter().rev() {
            let next = self.product_over(&partial[partial.len() - 1], axis, &accum.origin)?;
            partial.push(next);
        }
        let mut inner = self.adjoint_of_product(adjoint, sparse, accum, &reduced, at)?;
        for (array, &axis) in partial.iter().rev().skip(1).zip(&reduced) {
            inner = self.adjoint_of_factors(array, axis, &inner, sparse, &accum.origin)?;
        }
        Ok(inner)
    }

    /// Sets the adjoint of the values that the product starts from: the product of all factors times the
    /// adjoint of the result.
    pub(crate) fn old_factor(
        &mut self,
        older: &TensorNode,
        adjoint: &TensorNode,
        sparse: bool,
        statement: &Statement,
        factors: &TensorNode,
    ) -> Result<()> {
        let (accum, node) = (&statement.accum, &statement.accum.lhs);
        let product = self.like(node, "product")?;
        let target = Target { op: AccumOp::Mul, ..statement.sum(&product, true) };
        statement.push(target, Operation::Copy, &[statement.at_point(factors)], &mut self.tape)?;
        let mut whole = self.whole(node, &accum.origin)?;
        let product = whole.at_target(&product);
        let read = whole.at_target(adjoint);
        self.multiplied(&mut whole, older, read, sparse, [product.clone(), product])
    }

    /// Assigns the product of an adjoint and the first of two values, at the elements that a statement
    /// visits.
    fn multiplied(
        &mut self,
        statement: &mut Statement,
        to: &TensorNode,
        adjoint: Access,
        sparse: bool,
        values: [Access; 2],
    ) -> Result<()> {
        let rule = Formula::binary(BinaryOp::Mul, Formula::Adjoint, Formula::Operand(0));
        let bindings = Bindings { adjoint, sparse, values: Some((values[0].clone(), values)) };
        let rule = statement.guarded(rule, &bindings);
        let target = statement.assigned(to);
        statement.accumulate(target, &rule, &bindings, &mut self.tape)
    }

    /// The product of an array over one of its axes.
    fn product_over(&mut self, array: &TensorNode, axis: usize, origin: &Origin) -> Result<TensorNode> {
        let whole = self.whole(array, origin)?;
        let read = whole.at_target(array);
        let mut reduced = read.clone();
        reduced.dims.remove(axis);
        reduced.index.remove(axis);
        let product = self.tape.temporary("product", &reduced.dims, array.dtype())?;
        let target = Target::new(&product, true, AccumOp::Mul, reduced);
        whole.push(target, Operation::Copy, &[read], &mut self.tape)?;
        Ok(product)
    }

    /// The adjoint of the product of all new factors, one element per point of the axes that are not reduced.
    fn adjoint_of_product(
        &mut self,
        adjoint: &TensorNode,
        sparse: bool,
        accum: &Accum,
        reduced: &[usize],
        at: usize,
    ) -> Result<TensorNode> {
        let projections = &accum.projections;
        let kept: Vec<usize> =
            (0..projections.product_space().len()).filter(|axis| !reduced.contains(axis)).collect();
        let dims: Dims = kept.iter().map(|&axis| projections.product_space()[axis]).collect();
        let renamed = |index: Affine| {
            let terms = index.terms().iter();
            terms.fold(Affine::constant(index.offset()), |sum, &(var, coefficient)| {
                let place =
                    kept.iter().position(|&axis| Var::Loop(projections.product_iterators()[axis]) == var);
                match place {
                    // Statements without conditions have no iterator for a single value.
                    Some(place) if dims[place] == 1 => sum,
                    Some(place) => sum.plus(&Affine::term(Var::Loop(iterator(place)), coefficient)),
                    None => sum.plus(&Affine::term(var, coefficient)),
                }
            })
        };
        let index: Projection = projections.project_lhs().iter().map(|index| index.map(renamed)).collect();
        let inner = self.tape.temporary("inner", &dims, adjoint.dtype())?;
        let points = each_element(&inner, &dims, &accum.origin);
        let access = |node: &TensorNode| Access::new(node, projections.lhs_dims(), &index);
        let mut statement = Statement::new(&points, at, true, &mut self.tape)?;
        let read = access(adjoint);
        if accum.init_neutral {
            let target = statement.assigned(&inner);
            statement.push(target, Operation::Copy, &[read], &mut self.tape)?;
        } else {
            let old = access(&self.tape.value_before(&accum.lhs, at)?);
            self.multiplied(&mut statement, &inner, read, sparse, [old.clone(), old])?;
        }
        Ok(inner)
    }

    /// The adjoint of an array of factors that are multiplied over `axis`.
    fn adjoint_of_factors(
        &mut self,
        factors: &TensorNode,
        axis: usize,
        adjoint: &TensorNode,
        sparse: bool,
        origin: &Origin,
    ) -> Result<TensorNode> {
        let mut levels = vec![self.pairs_of_factors(factors, axis, origin)?];
        while let Some(level) = levels.last().filter(|level| level.half() > 1) {
            let next = self.pairs_of_products(level, origin)?;
            levels.push(next);
        }
        let mut inner = adjoint.clone();
        for (position, level) in levels.iter().enumerate().rev() {
            let is_single = position + 1 == levels.len();
            inner = self.adjoints_of_pairs(level, &inner, is_single, sparse, origin)?;
        }
        let whole = self.whole(factors, origin)?;
        if inner.dims_without_padding()? == factors.dims_without_padding()? {
            return Ok(inner);
        }
        let exact = self.like(factors, "inner")?;
        let index = whole.at_target(&exact).index;
        let read = Access::new(&inner, &inner.dims_without_padding()?, &index);
        whole.push(whole.assigned(&exact), Operation::Copy, &[read], &mut self.tape)?;
        Ok(exact)
    }

    /// The factors of an axis in pairs.
    fn pairs_of_factors(&mut self, factors: &TensorNode, axis: usize, origin: &Origin) -> Result<Pairs> {
        let dims = factors.dims_without_padding()?;
        let half = dims[axis].div_ceil(2);
        let mut others = dims.clone();
        others.remove(axis);
        let pairs = self.new_pairs(others, axis, half, factors.dtype())?;
        let points = Points::new(&pairs.dims()?);
        let one = Scalar::from_f64(factors.dtype(), 1.0);
        let index = points.index(axis, |[which, at]| vec![joined(which, half).plus(&at)]);
        let operand = match 2 * half == dims[axis] {
            true => factors.into(),
            false => Operand::Padded { node: factors.clone(), outside: one },
        };
        let statement = self.at_points(&points, &pairs.node, &points.own_index(), origin)?;
        let read = Access::new(operand, &dims, &index);
        let target = statement.assigned(&pairs.node);
        statement.push(target, Operation::Copy, &[read], &mut self.tape)?;
        Ok(pairs)
    }

    /// The products of pairs, in pairs.
    fn pairs_of_products(&mut self, level: &Pairs, origin: &Origin) -> Result<Pairs> {
        let (axis, count) = (level.axis, level.half());
        let half = count.div_ceil(2);
        let mut others = level.dims()?;
        others.remove(axis);
        others.remove(axis);
        let pairs = self.new_pairs(others, axis, half, level.node.dtype())?;
        let points = Points::new(&pairs.dims()?);
        let outside = Scalar::from_f64(level.node.dtype(), 1.0);
        let dims = level.dims()?;
        let read = |of_pair: i64| {
            let index = points
                .index(axis, |[which, at]| vec![Affine::constant(of_pair), joined(which, half).plus(&at)]);
            let operand = match 2 * half == count {
                true => (&level.node).into(),
                false => Operand::Padded { node: level.node.clone(), outside },
            };
            Access::new(operand, &dims, &index)
        };
        let statement = self.at_points(&points, &pairs.node, &points.own_index(), origin)?;
        let target = statement.assigned(&pairs.node);
        statement.push(target, Operation::Binary(BinaryOp::Mul), &[read(0), read(1)], &mut self.tape)?;
        Ok(pairs)
    }

    /// The adjoints of the factors in pairs, in one axis of twice as many elements as there are pairs.
    /// `products` has the adjoints of the products of the pairs, without that axis if there is a single pair.
    fn adjoints_of_pairs(
        &mut self,
        level: &Pairs,
        products: &TensorNode,
        is_single: bool,
        sparse: bool,
        origin: &Origin,
    ) -> Result<TensorNode> {
        let (axis, half) = (level.axis, level.half());
        let points = Points::new(&level.dims()?);
        let mut dims = level.dims()?;
        dims.remove(axis);
        dims[axis] = 2 * half;
        let inner = self.tape.temporary("inner", &dims, gradient_dtype(level.node.dtype()))?;
        let index = points.index(axis, |[which, at]| vec![joined(which, half).plus(&at)]);
        let mut statement = self.at_points(&points, &inner, &index, origin)?;
        let of_product = points.index(axis, |[_, at]| if is_single { Vec::new() } else { vec![at] });
        let adjoint = Access::new(products, &products.dims_without_padding()?, &of_product);
        let other = points.index(axis, |[which, at]| vec![which.times(-1).plus_constant(1), at]);
        let other = Access::new(&level.node, &level.dims()?, &other);
        self.multiplied(&mut statement, &inner, adjoint, sparse, [other.clone(), other])?;
        Ok(inner)
    }

    /// A new node for an array of factors whose axis `axis` has been removed, with `half` pairs on that axis.
    fn new_pairs(&mut self, mut dims: Dims, axis: usize, half: usize, dtype: DType) -> Result<Pairs> {
        dims.insert(axis, half);
        dims.insert(axis, 2);
        let node = self.tape.temporary("pairs", &dims, dtype)?;
        Ok(Pairs { node, axis })
    }

    /// A statement that visits points and writes the elements of a node at an index.
    fn at_points(
        &mut self,
        points: &Points,
        node: &TensorNode,
        index: &Projection,
        origin: &Origin,
    ) -> Result<Statement> {
        let fits = |source| GradientErrorKind::Index { node: node.name(), source }.of(origin);
        let lhs = (node.dims_without_padding()?, index.clone());
        let projections = Projections::new(&points.axes, lhs, Vec::new(), "factors").map_err(fits)?;
        let accum = Accum {
            init_neutral: false,
            op: AccumOp::Assign,
            lhs: node.clone(),
            rhs: Rhs::Copy(node.into()),
            computed: Vec::new(),
            projections,
            origin: origin.clone(),
        };
        Statement::new(&accum, self.tape.forward.steps().len(), true, &mut self.tape)
    }

    /// A new node with the dimensions of another one, in the type of its gradient.
    pub(crate) fn like(&mut self, node: &TensorNode, name: &str) -> Result<TensorNode> {
        self.tape.temporary_like(node, name, gradient_dtype(node.dtype()))
    }

    /// A statement that visits each element of a node once.
    pub(crate) fn whole(&mut self, node: &TensorNode, origin: &Origin) -> Result<Statement> {
        let points = each_element(node, &node.dims_without_padding()?, origin);
        Statement::new(&points, self.tape.forward.steps().len(), true, &mut self.tape)
    }
}

const PLAIN_PRODUCT: &str =
    "multiply the values over whole axes of a node of their own, with one letter per index";

/// The positions of the product axes that an accumulation reduces; `None` if the indices of the target are
/// not letters, each once.
fn reduced_axes(accum: &Accum) -> Option<Vec<usize>> {
    let mut kept: Vec<LoopId> = Vec::new();
    for index in accum.projections.project_lhs() {
        match index.loop_terms().as_slice() {
            _ if index.computed().is_some() => return None,
            [] => {}
            [(iterator, _)] if !kept.contains(iterator) => kept.push(*iterator),
            _ => return None,
        }
    }
    let iterators = accum.projections.product_iterators().iter().enumerate();
    Some(iterators.filter(|(_, iterator)| !kept.contains(iterator)).map(|(axis, _)| axis).collect())
}

/// Factors in pairs. The axis at `axis` has two elements, the two factors of a pair, and the next one has an
/// element for each pair. A factor that is left over makes a pair with 1.
struct Pairs {
    node: TensorNode,
    axis: usize,
}

impl Pairs {
    fn dims(&self) -> Result<Dims> {
        Ok(self.node.dims_without_padding()?)
    }

    /// The number of pairs.
    fn half(&self) -> usize {
        self.node.dims_without_padding().map_or(1, |dims| dims[self.axis + 1])
    }
}

/// The elements of an array of pairs.
struct Points {
    axes: Dims,
}

impl Points {
    fn new(axes: &[usize]) -> Points {
        Points { axes: Dims::from_slice(axes) }
    }

    /// The iterator of an axis; 0 for an axis of one element, which has none.
    fn iterator(&self, axis: usize) -> Affine {
        if self.axes[axis] == 1 { Affine::constant(0) } else { Affine::var(iterator(axis)) }
    }

    /// The index of each element itself.
    fn own_index(&self) -> Projection {
        (0..self.axes.len()).map(|axis| AxisIndex::new(self.iterator(axis))).collect()
    }

    /// The index of an array that has other axes in place of the two for pairs, at `axis`.
    fn index(&self, axis: usize, in_place: impl Fn([Affine; 2]) -> Vec<Affine>) -> Projection {
        let before = (0..axis).map(|other| self.iterator(other));
        let own = in_place([self.iterator(axis), self.iterator(axis + 1)]);
        let after = (axis + 2..self.axes.len()).map(|other| self.iterator(other));
        before.chain(own).chain(after).map(AxisIndex::new).collect()
    }
}

/// The position of the first factors or of the second ones among all of them.
fn joined(which: Affine, half: usize) -> Affine {
    which.times(i64::try_from(half).unwrap_or(i64::MAX))
}

fn iterator(axis: usize) -> LoopId {
    LoopId(u32::try_from(axis).unwrap_or(u32::MAX))
}

/// The only statement of a product.
pub(crate) fn only_product(statements: &mut [Statement]) -> Result<&mut Statement> {
    match statements {
        [statement] => Ok(statement),
        _ => Err(reduction(&statements[0].accum, PLAIN_PRODUCT)),
    }
}
