//! Text to expressions and indices.
//!
//! The parser reads infix operations by precedence climbing. A [`NestedExpr`] is an expression with its
//! depth: chains such as `a + b + c` nest to the left without recursion of the parser, and yet must not grow
//! deeper than [`MAX_NESTING`], since every later walk over the expression recurses.

use smallvec::SmallVec;
use tnode::{DType, Scalar};

use super::{
    MAX_NESTING,
    lex::Token,
    literal,
    parse::{ParseResult, Parser},
    print::{COMPARISON, LOOSEST, precedence},
};
use crate::ir::{Affine, BinaryOp, Expr, Guard, Indices, Range, TernaryOp, UnaryOp, Var};

/// An expression and how deep it nests.
struct NestedExpr {
    expr: Box<Expr>,
    depth: usize,
}

impl NestedExpr {
    fn leaf(expr: Expr) -> NestedExpr {
        NestedExpr { expr: Box::new(expr), depth: 1 }
    }

    fn over(depth: usize, expr: Expr) -> NestedExpr {
        NestedExpr { expr: Box::new(expr), depth: depth + 1 }
    }

    fn unary(op: UnaryOp, arg: NestedExpr) -> NestedExpr {
        NestedExpr::over(arg.depth, Expr::Unary { op, arg: arg.expr })
    }

    fn binary(op: BinaryOp, a: NestedExpr, b: NestedExpr) -> NestedExpr {
        NestedExpr::over(a.depth.max(b.depth), Expr::Binary { op, a: a.expr, b: b.expr })
    }

    fn ternary(op: TernaryOp, a: NestedExpr, b: NestedExpr, c: NestedExpr) -> NestedExpr {
        let depth = a.depth.max(b.depth).max(c.depth);
        NestedExpr::over(depth, Expr::Ternary { op, a: a.expr, b: b.expr, c: c.expr })
    }
}

/// The operation that a word before a parenthesis names.
#[derive(Clone, Copy)]
enum FunctionWord {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Ternary(TernaryOp),
}

impl FunctionWord {
    fn find(word: &str) -> Option<FunctionWord> {
        let unary = UnaryOp::ALL.iter().find(|op| op.token() == word).map(|&op| FunctionWord::Unary(op));
        let binary =
            || BinaryOp::ALL.iter().find(|op| op.token() == word).map(|&op| FunctionWord::Binary(op));
        let ternary =
            || TernaryOp::ALL.iter().find(|op| op.token() == word).map(|&op| FunctionWord::Ternary(op));
        unary.or_else(binary).or_else(ternary)
    }

    fn arity(self) -> usize {
        match self {
            FunctionWord::Unary(_) => 1,
            FunctionWord::Binary(_) => 2,
            FunctionWord::Ternary(_) => 3,
        }
    }
}

impl Parser<'_> {
    /// A whole expression, as a statement stores it.
    pub(super) fn value(&mut self) -> ParseResult<Expr> {
        self.nesting = 0;
        self.tree(LOOSEST).map(|tree| *tree.expr)
    }

    /// An expression of operations that bind at least as tightly as `least`.
    fn tree(&mut self, least: u8) -> ParseResult<NestedExpr> {
        let mut left = self.operand()?;
        while let Some((op, binds)) = self.peek_infix().filter(|&(_, binds)| binds >= least) {
            self.advance();
            let right = self.tree(binds + 1)?;
            left = self.limited(NestedExpr::binary(op, left, right))?;
            if binds == COMPARISON {
                return self.unchained(left);
            }
        }
        Ok(left)
    }

    fn peek_infix(&self) -> Option<(BinaryOp, u8)> {
        let Token::Sign(sign) = self.peek() else { return None };
        let op = *BinaryOp::ALL.iter().find(|op| op.token() == *sign)?;
        Some((op, precedence(op)?))
    }

    /// Rejects a second comparison after a first one.
    fn unchained(&self, comparison: NestedExpr) -> ParseResult<NestedExpr> {
        match self.peek_infix() {
            Some((_, COMPARISON)) => {
                Err(self.unexpected("parentheses around the first comparison, as comparisons do not chain"))
            }
            _ => Ok(comparison),
        }
    }

    /// Rejects expressions that nest too deep.
    fn limited(&self, tree: NestedExpr) -> ParseResult<NestedExpr> {
        if tree.depth > MAX_NESTING { Err(self.too_deep()) } else { Ok(tree) }
    }

    fn too_deep(&self) -> Box<super::ParseError> {
        self.error(format!("an expression nested at most {MAX_NESTING} deep"), "a deeper one")
    }

    /// Runs a rule for something inside the current operand.
    fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        if self.nesting == MAX_NESTING {
            return Err(self.too_deep());
        }
        self.nesting += 1;
        let value = rule(self)?;
        self.nesting -= 1;
        Ok(value)
    }

    fn operand(&mut self) -> ParseResult<NestedExpr> {
        match *self.peek() {
            Token::Sign("(") => self.nested(Self::parenthesized),
            Token::Sign("-") | Token::Number { .. } | Token::Hex(_) => self.constant(),
            Token::Node(_) => self.get(),
            Token::Word("merge") => self.get_merge(),
            Token::Word("index") => self.embedded_index(),
            Token::Word("guarded") => self.nested(Self::guarded),
            Token::Word("gather") => self.nested(Self::gather),
            Token::Word("lane") => self.nested(Self::lane),
            Token::Word("lanes") => self.nested(Self::lanes),
            Token::Word("convert") => self.nested(Self::convert),
            Token::Word("bitcast") => self.nested(Self::bitcast),
            Token::Word(word) => self.word_operand(word),
            _ => Err(self.unexpected("an expression")),
        }
    }

    fn word_operand(&mut self, word: &str) -> ParseResult<NestedExpr> {
        if let Some(function) = FunctionWord::find(word).filter(|_| self.at_call()) {
            return self.nested(|p| p.call(function));
        }
        if self.peek_local().is_some() {
            return self.get_local();
        }
        match literal::word(word, false) {
            Some(value) => self.leaf_constant(value),
            None => {
                Err(self.unexpected("an expression (a local, a constant with its type, or an operation)"))
            }
        }
    }

    fn parenthesized(&mut self) -> ParseResult<NestedExpr> {
        self.expect_sign("(")?;
        let tree = self.tree(LOOSEST)?;
        self.expect_sign(")")?;
        Ok(tree)
    }

    fn call(&mut self, function: FunctionWord) -> ParseResult<NestedExpr> {
        self.advance();
        let mut args = self.arguments(function.arity())?.into_iter();
        let tree = match (function, args.next(), args.next(), args.next()) {
            (FunctionWord::Unary(op), Some(a), None, None) => NestedExpr::unary(op, a),
            (FunctionWord::Binary(op), Some(a), Some(b), None) => NestedExpr::binary(op, a, b),
            (FunctionWord::Ternary(op), Some(a), Some(b), Some(c)) => NestedExpr::ternary(op, a, b, c),
            _ => return Err(self.unexpected("as many operands as the operation has")),
        };
        self.limited(tree)
    }

    /// `(a, b, …)` with exactly `arity` operands.
    fn arguments(&mut self, arity: usize) -> ParseResult<SmallVec<[NestedExpr; 3]>> {
        self.expect_sign("(")?;
        let mut args = SmallVec::new();
        loop {
            args.push(self.tree(LOOSEST)?);
            if args.len() == arity {
                break;
            }
            if !self.take_sign(",") {
                return Err(self.unexpected(format!("`,` and operand {} of {arity}", args.len() + 1)));
            }
        }
        self.expect_sign(")")?;
        Ok(args)
    }

    fn convert(&mut self) -> ParseResult<NestedExpr> {
        let (to, arg) = self.cast()?;
        self.limited(NestedExpr::over(arg.depth, Expr::Convert { to, arg: arg.expr }))
    }

    fn bitcast(&mut self) -> ParseResult<NestedExpr> {
        let (to, arg) = self.cast()?;
        self.limited(NestedExpr::over(arg.depth, Expr::Bitcast { to, arg: arg.expr }))
    }

    /// A word, a type and an expression in parentheses.
    fn cast(&mut self) -> ParseResult<(DType, NestedExpr)> {
        self.advance();
        let to = self.dtype()?;
        Ok((to, self.parenthesized()?))
    }

    /// `lane 2(x)`.
    fn lane(&mut self) -> ParseResult<NestedExpr> {
        self.advance();
        let lane = self.digits("the number of a lane")?;
        let arg = self.parenthesized()?;
        self.limited(NestedExpr::over(arg.depth, Expr::Lane { lane, arg: arg.expr }))
    }

    /// `lanes(a, b, c, d)`.
    fn lanes(&mut self) -> ParseResult<NestedExpr> {
        self.advance();
        let args = self.arguments(4)?;
        let depth = args.iter().map(|arg| arg.depth).max().unwrap_or(0);
        let lanes: Vec<Expr> = args.into_iter().map(|arg| *arg.expr).collect();
        match lanes.try_into() {
            Ok(lanes) => self.limited(NestedExpr::over(depth, Expr::Lanes(Box::new(lanes)))),
            Err(_) => Err(self.unexpected("four operands")),
        }
    }

    /// `gather(%node[…, {at}, …], otherwise)`.
    fn gather(&mut self) -> ParseResult<NestedExpr> {
        self.advance();
        self.expect_sign("(")?;
        let node = self.node_ref()?;
        let (index, axis, at) = self.dynamic_tree()?;
        self.expect_sign(",")?;
        let otherwise = self.tree(LOOSEST)?;
        self.expect_sign(")")?;
        let depth = at.depth.max(otherwise.depth);
        let (at, otherwise) = (at.expr, otherwise.expr);
        self.limited(NestedExpr::over(depth, Expr::GetDynamic { node, index, axis, at, otherwise }))
    }

    /// Parses indices with exactly one computed index, in braces. Returns the indices, the axis of the
    /// computed one and its expression.
    pub(super) fn dynamic_index(&mut self) -> ParseResult<(Indices, usize, Expr)> {
        self.nesting = 0;
        let (index, axis, at) = self.dynamic_tree()?;
        Ok((index, axis, *at.expr))
    }

    fn dynamic_tree(&mut self) -> ParseResult<(Indices, usize, NestedExpr)> {
        self.expect_sign("[")?;
        let (mut index, mut computed) = (Vec::new(), None);
        loop {
            if computed.is_none() && self.take_sign("{") {
                computed = Some((index.len(), self.tree(LOOSEST)?));
                self.expect_sign("}")?;
                index.push(Affine::constant(0));
            } else {
                index.push(self.affine()?);
            }
            if !self.take_sign(",") {
                break;
            }
        }
        let Some((axis, at)) = computed else {
            return Err(self.unexpected("an index in braces, which is computed"));
        };
        self.expect_sign("]")?;
        Ok((index.into(), axis, at))
    }

    // Leaves.

    fn constant(&mut self) -> ParseResult<NestedExpr> {
        let negative = self.take_sign("-");
        let value = match *self.peek() {
            Token::Number { digits, suffix } => literal::number(negative, digits, suffix),
            Token::Hex(hex) if !negative => return self.bits(hex),
            Token::Word(word) if negative => literal::word(word, true).ok_or_else(minus),
            _ => Err(minus()),
        };
        match value {
            Ok(value) => self.leaf_constant(value),
            Err(expected) => Err(self.unexpected(expected)),
        }
    }

    fn leaf_constant(&mut self, value: Scalar) -> ParseResult<NestedExpr> {
        self.advance();
        Ok(NestedExpr::leaf(Expr::Const(value)))
    }

    fn bits(&mut self, hex: &str) -> ParseResult<NestedExpr> {
        self.advance();
        self.expect_sign(":")?;
        let Token::Word(dtype) = *self.peek() else { return Err(self.unexpected("an element type")) };
        match literal::from_bits(hex, dtype) {
            Ok(value) => self.leaf_constant(value),
            Err(expected) => Err(self.unexpected(expected)),
        }
    }

    fn get(&mut self) -> ParseResult<NestedExpr> {
        let node = self.node_ref()?;
        Ok(NestedExpr::leaf(Expr::Get { node, index: self.index()? }))
    }

    fn get_merge(&mut self) -> ParseResult<NestedExpr> {
        self.advance();
        let node = self.node_ref()?;
        Ok(NestedExpr::leaf(Expr::GetMerge { node, index: self.index()? }))
    }

    fn get_local(&mut self) -> ParseResult<NestedExpr> {
        let local = self.local_ref()?;
        Ok(NestedExpr::leaf(Expr::GetLocal { local, index: self.local_index()? }))
    }

    fn embedded_index(&mut self) -> ParseResult<NestedExpr> {
        self.advance();
        let dtype = self.dtype()?;
        self.expect_sign("(")?;
        let index = self.affine()?;
        self.expect_sign(")")?;
        Ok(NestedExpr::leaf(Expr::Index { index, dtype }))
    }

    /// `guarded(lo <= index < hi, …, %node[…], otherwise)`.
    fn guarded(&mut self) -> ParseResult<NestedExpr> {
        self.advance();
        self.expect_sign("(")?;
        let mut guard = Guard::new();
        while !matches!(self.peek(), Token::Node(_)) {
            guard.push(self.range()?);
            self.expect_sign(",")?;
        }
        let node = self.node_ref()?;
        let index = self.index()?;
        self.expect_sign(",")?;
        let otherwise = self.tree(LOOSEST)?;
        self.expect_sign(")")?;
        self.limited(NestedExpr::over(
            otherwise.depth,
            Expr::GetGuarded { guard, node, index, otherwise: otherwise.expr },
        ))
    }

    fn range(&mut self) -> ParseResult<Range> {
        let lo = self.integer("a range `lo <= index < hi`, or the read node")?;
        self.expect_sign("<=")?;
        let index = self.affine()?;
        self.expect_sign("<")?;
        let hi = self.integer("the end of the range")?;
        Ok(Range { index, lo, hi })
    }

    // Indices.

    /// `2*i0 + @step - 1`.
    pub(super) fn affine(&mut self) -> ParseResult<Affine> {
        let mut index = Affine::default();
        let mut negative = self.take_sign("-");
        loop {
            self.term(&mut index, negative)?;
            negative = self.at_sign("-");
            if !negative && !self.at_sign("+") {
                return Ok(index);
            }
            self.advance();
        }
    }

    /// Adds a term to an index: an integer, a variable, or an integer times a variable.
    fn term(&mut self, index: &mut Affine, negative: bool) -> ParseResult<()> {
        let mut coefficient = if negative { -1 } else { 1 };
        if matches!(self.peek(), Token::Number { .. }) {
            coefficient = self.signed_digits(negative)?;
            if !self.take_sign("*") {
                index.offset().checked_add(coefficient).ok_or_else(|| self.index_overflow())?;
                *index = index.plus_constant(coefficient);
                return Ok(());
            }
        }
        let var = self.variable()?;
        index.coefficient(var).checked_add(coefficient).ok_or_else(|| self.index_overflow())?;
        index.add_term(var, coefficient);
        Ok(())
    }

    fn signed_digits(&mut self, negative: bool) -> ParseResult<i64> {
        let magnitude: u64 = self.digits("an integer in the index")?;
        let value = if negative { 0i64.checked_sub_unsigned(magnitude) } else { magnitude.try_into().ok() };
        value.ok_or_else(|| self.index_overflow())
    }

    fn variable(&mut self) -> ParseResult<Var> {
        match self.peek() {
            Token::Name(_) => self.symbol_ref().map(Var::Symbol),
            Token::Word(_) if self.peek_loop().is_some() => self.loop_ref().map(Var::Loop),
            _ => Err(self
                .unexpected("an index: an integer, a loop variable, a symbol, or a sum of their multiples")),
        }
    }

    fn index_overflow(&self) -> Box<super::ParseError> {
        self.error("an index whose integers fit 64 bits", "a larger one")
    }
}

fn minus() -> String {
    "a constant after `-` (negation is `neg(x)`)".into()
}
