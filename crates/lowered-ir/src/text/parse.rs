//! Text to routines: declarations and statements. Expressions are in [`parse_expr`](super::parse_expr).
//!
//! Recursive descent over tokens, one function per rule of the grammar. Every recursion counts its depth
//! against [`MAX_NESTING`], so no text can exhaust the stack.

use std::collections::{BTreeMap, BTreeSet};

use tnode::{DType, Dims, MemoryMode, ModeState, Reason};

use super::{
    MAX_NESTING, ParseError, RoutineLines,
    lex::{SpannedToken, Token, lex, quote},
};
use crate::ir::{
    BinaryOp, Block, Bound, Indices, LocalId, LogPart, LoopId, LoopKind, LoweredRoutine, NodeDecl, NodeRef,
    Numerics, Quotient, Space, Stmt, Symbol, SymbolId,
};
use crate::stack::with_enough;

/// A routine with the lines its parts stand on.
#[derive(Clone, Debug)]
pub struct ParsedRoutine {
    /// The routine.
    pub routine: LoweredRoutine,
    /// The lines of its parts.
    pub lines: RoutineLines,
}

/// Parses a text that holds one routine.
///
/// # Errors
///
/// Where the text is not in the text form, holds no routine or more than one.
pub fn parse(text: &str) -> Result<LoweredRoutine, ParseError> {
    with_enough(|| one_routine(text)).map_err(|error| *error)
}

fn one_routine(text: &str) -> ParseResult<LoweredRoutine> {
    let mut parser = Parser::new(text)?;
    let parsed = parser.routine()?;
    match parser.peek() {
        Token::End => Ok(parsed.routine),
        _ => Err(parser.unexpected("the end of the text after the routine")),
    }
}

/// Parses a text that holds any number of routines.
///
/// # Errors
///
/// Where the text is not in the text form.
pub fn parse_file(text: &str) -> Result<Vec<ParsedRoutine>, ParseError> {
    with_enough(|| any_routines(text)).map_err(|error| *error)
}

fn any_routines(text: &str) -> ParseResult<Vec<ParsedRoutine>> {
    let mut parser = Parser::new(text)?;
    let mut routines = Vec::new();
    while *parser.peek() != Token::End {
        routines.push(parser.routine()?);
    }
    Ok(routines)
}

/// The tokens of a text with a cursor, and the names declared before it.
pub(super) struct Parser<'t> {
    text: &'t str,
    tokens: Vec<SpannedToken<'t>>,
    at: usize,
    /// How many operands the current one is nested in.
    pub(super) nesting: usize,
    symbols: BTreeMap<String, SymbolId>,
    nodes: Vec<NodeDecl>,
    loops: BTreeSet<LoopId>,
    locals: BTreeSet<LocalId>,
    lines: RoutineLines,
}

/// The result of each grammar rule. The error is boxed because results lie on the stack at every level of
/// nesting.
pub(super) type ParseResult<T> = Result<T, Box<ParseError>>;

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> ParseResult<Self> {
        Ok(Parser {
            text,
            tokens: lex(text)?,
            at: 0,
            nesting: 0,
            symbols: BTreeMap::new(),
            nodes: Vec::new(),
            loops: BTreeSet::new(),
            locals: BTreeSet::new(),
            lines: RoutineLines::default(),
        })
    }

    // Tokens.

    fn spanned(&self) -> &SpannedToken<'t> {
        // The last token is the end, which `advance` never passes.
        &self.tokens[self.at]
    }

    pub(super) fn peek(&self) -> &Token<'t> {
        &self.spanned().token
    }

    fn peek_second(&self) -> &Token<'t> {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].token
    }

    fn line(&self) -> usize {
        self.spanned().line
    }

    pub(super) fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    /// An error at the current token, where `expected` would be valid.
    pub(super) fn unexpected(&self, expected: impl Into<String>) -> Box<ParseError> {
        self.error(expected, describe(self.peek()))
    }

    pub(super) fn error(&self, expected: impl Into<String>, found: impl Into<String>) -> Box<ParseError> {
        Box::new(ParseError::at(self.text, self.spanned().offset, expected, found))
    }

    pub(super) fn at_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(s) if *s == sign)
    }

    pub(super) fn take_sign(&mut self, sign: &str) -> bool {
        let there = self.at_sign(sign);
        if there {
            self.advance();
        }
        there
    }

    pub(super) fn expect_sign(&mut self, sign: &str) -> ParseResult<()> {
        if self.take_sign(sign) { Ok(()) } else { Err(self.unexpected(format!("`{sign}`"))) }
    }

    fn take_word(&mut self, word: &str) -> bool {
        let there = matches!(self.peek(), Token::Word(w) if *w == word);
        if there {
            self.advance();
        }
        there
    }

    fn expect_word(&mut self, word: &str) -> ParseResult<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.unexpected(format!("`{word}`"))) }
    }

    /// Takes the word for which `f` gives a value.
    fn word<T>(&mut self, expected: &str, f: impl FnOnce(&'t str) -> Option<T>) -> ParseResult<T> {
        let value = match *self.peek() {
            Token::Word(word) => f(word),
            _ => None,
        };
        let value = value.ok_or_else(|| self.unexpected(expected))?;
        self.advance();
        Ok(value)
    }

    fn name(&mut self, expected: &str) -> ParseResult<String> {
        let Token::Name(name) = self.peek() else { return Err(self.unexpected(expected)) };
        let name = name.clone();
        self.advance();
        Ok(name)
    }

    fn quoted(&mut self, expected: &str) -> ParseResult<String> {
        let Token::Text(text) = self.peek() else { return Err(self.unexpected(expected)) };
        let text = text.clone();
        self.advance();
        Ok(text)
    }

    /// Takes plain digits that fit the type.
    pub(super) fn digits<T: std::str::FromStr>(&mut self, expected: &str) -> ParseResult<T> {
        let value = match self.peek() {
            Token::Number { digits, suffix: "" } => digits.parse().ok(),
            _ => None,
        };
        let value = value.ok_or_else(|| self.unexpected(expected))?;
        self.advance();
        Ok(value)
    }

    /// Takes an integer with an optional minus sign.
    pub(super) fn integer(&mut self, expected: &str) -> ParseResult<i64> {
        let negative = self.take_sign("-");
        let at = self.at;
        let magnitude: u64 = self.digits(expected)?;
        let value = if negative { 0i64.checked_sub_unsigned(magnitude) } else { magnitude.try_into().ok() };
        value.ok_or_else(|| {
            self.at = at;
            self.unexpected("an integer of 64 bits")
        })
    }

    pub(super) fn dtype(&mut self) -> ParseResult<DType> {
        self.word("an element type such as `f32`", |word| word.parse().ok())
    }

    /// `item, item, …` up to and with the closing sign.
    pub(super) fn list_until<T>(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut Self) -> ParseResult<T>,
    ) -> ParseResult<Vec<T>> {
        let mut items = Vec::new();
        if self.take_sign(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.take_sign(close) {
                return Ok(items);
            }
            if !self.take_sign(",") {
                return Err(self.unexpected(format!("`,` or `{close}`")));
            }
        }
    }

    // References.

    pub(super) fn symbol_ref(&mut self) -> ParseResult<SymbolId> {
        let Token::Name(name) = self.peek() else { return Err(self.unexpected("a symbol such as `@step`")) };
        let symbol = self.symbols.get(name).copied();
        let symbol = symbol.ok_or_else(|| self.unexpected("a declared symbol"))?;
        self.advance();
        Ok(symbol)
    }

    pub(super) fn node_ref(&mut self) -> ParseResult<NodeRef> {
        let Token::Node(node) = *self.peek() else { return Err(self.unexpected("a node such as `%0`")) };
        if node as usize >= self.nodes.len() {
            return Err(self.unexpected("a declared node"));
        }
        self.advance();
        Ok(NodeRef(node))
    }

    pub(super) fn local_ref(&mut self) -> ParseResult<LocalId> {
        let local = self.peek_local().filter(|local| self.locals.contains(local));
        let local = local.ok_or_else(|| self.unexpected("a declared local"))?;
        self.advance();
        Ok(local)
    }

    pub(super) fn loop_ref(&mut self) -> ParseResult<LoopId> {
        let var = self.peek_loop().filter(|var| self.loops.contains(var));
        let var = var.ok_or_else(|| self.unexpected("the variable of a loop"))?;
        self.advance();
        Ok(var)
    }

    /// The loop variable that the current token names, declared or not.
    pub(super) fn peek_loop(&self) -> Option<LoopId> {
        self.numbered('i').map(LoopId)
    }

    /// The local that the current token names, declared or not.
    pub(super) fn peek_local(&self) -> Option<LocalId> {
        self.numbered('l').map(LocalId)
    }

    fn numbered(&self, prefix: char) -> Option<u32> {
        let Token::Word(word) = self.peek() else { return None };
        word.strip_prefix(prefix).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
    }

    // Declarations.

    fn routine(&mut self) -> ParseResult<ParsedRoutine> {
        self.forget();
        self.lines.routine = self.line();
        self.expect_word("routine")?;
        let name = self.name("the routine's name, such as `@step`")?;
        let numerics = self.numerics();
        self.expect_sign("{")?;
        let symbols = self.declarations()?;
        let body = self.block(&mut Vec::new())?;
        let nodes = std::mem::take(&mut self.nodes);
        let routine = LoweredRoutine { name, numerics, symbols, nodes, body };
        Ok(ParsedRoutine { routine, lines: std::mem::take(&mut self.lines) })
    }

    /// Begins a routine: nothing is declared yet.
    fn forget(&mut self) {
        self.symbols.clear();
        self.nodes.clear();
        self.loops.clear();
        self.locals.clear();
        self.lines = RoutineLines::default();
    }

    fn numerics(&mut self) -> Numerics {
        if self.take_word("strict") {
            return Numerics::Strict;
        }
        self.take_word("fast");
        Numerics::Fast
    }

    /// Reads symbols and nodes, and gives the symbols.
    fn declarations(&mut self) -> ParseResult<Vec<Symbol>> {
        let mut symbols = Vec::new();
        loop {
            let line = self.line();
            if self.take_word("symbol") {
                symbols.push(self.symbol(SymbolId(symbols.len() as u32))?);
                self.lines.symbols.push(line);
            } else if self.take_word("node") {
                let node = self.node()?;
                self.nodes.push(node);
                self.lines.nodes.push(line);
            } else {
                return Ok(symbols);
            }
        }
    }

    fn symbol(&mut self, id: SymbolId) -> ParseResult<Symbol> {
        if let Token::Name(name) = self.peek()
            && self.symbols.contains_key(name)
        {
            return Err(self.unexpected("a name that no other symbol has"));
        }
        let name = self.name("the symbol's name, such as `@step`")?;
        self.expect_word("in")?;
        let least = match self.digits("`0..` and the symbol's range") {
            Ok(least @ (0 | 1)) => least as i64,
            _ => return Err(self.unexpected("a range that begins at 0 or 1")),
        };
        self.expect_sign("..")?;
        let range = self.integer("the end of the symbol's range")?;
        let quotient = if self.take_sign("=") { Some(self.quotient()?) } else { None };
        let promise = if self.take_word("is") { Some(self.quotient()?) } else { None };
        self.symbols.insert(name.clone(), id);
        Ok(Symbol { name, least, range, quotient, promise, is_step: false })
    }

    fn quotient(&mut self) -> ParseResult<Quotient> {
        self.expect_sign("(")?;
        let dividend = self.affine()?;
        self.expect_sign(")")?;
        self.expect_sign("/")?;
        Ok(Quotient { dividend, divisor: self.integer("the divisor")? })
    }

    fn node(&mut self) -> ParseResult<NodeDecl> {
        let expected = NodeRef(self.nodes.len() as u32);
        if *self.peek() != Token::Node(expected.0) {
            return Err(self.unexpected(format!("{expected}, as nodes are numbered in order")));
        }
        self.advance();
        let name = self.quoted("the node's name in quotes")?;
        let dtype = self.dtype()?;
        let dims = self.dims()?;
        Ok(NodeDecl { name, dtype, dims, mode: self.mode() })
    }

    fn dims(&mut self) -> ParseResult<Dims> {
        self.expect_sign("[")?;
        let dims = self.list_until("]", |p| p.digits("a dimension in elements"))?;
        Ok(dims.into_iter().collect())
    }

    fn mode(&mut self) -> ModeState {
        let Token::Word(word) = *self.peek() else { return ModeState::undecided() };
        let Ok(mode) = word.parse::<MemoryMode>() else { return ModeState::undecided() };
        self.advance();
        ModeState::decided(mode, Reason::new("declared in the text"))
    }

    // Statements.

    /// Reads statements up to and with the closing brace; `path` leads to their block.
    fn block(&mut self, path: &mut Vec<usize>) -> ParseResult<Block> {
        let mut block = Block::new();
        loop {
            let line = self.line();
            if self.take_sign("}") {
                self.lines.end = line;
                return Ok(block);
            }
            path.push(block.len());
            self.lines.stmts.insert(path.clone(), line);
            match self.peek() {
                Token::Word("for") => self.loop_stmt(path, &mut block)?,
                _ => self.simple_stmt(&mut block)?,
            }
            path.pop();
        }
    }

    /// Appends a statement that is no loop. It is not part of `block`, because `block` recurses and its stack
    /// frame should be small.
    fn simple_stmt(&mut self, block: &mut Block) -> ParseResult<()> {
        let stmt = match *self.peek() {
            Token::Node(_) => self.set(),
            Token::Word("zero") => self.zero(),
            Token::Word("declare") => self.declare(),
            Token::Word("comment") => self.comment(),
            Token::Word("scatter") => self.scatter(),
            Token::Word("log") => self.log(),
            Token::Word("symbol" | "node") => Err(self.unexpected("declarations before the first statement")),
            _ if self.peek_local().is_some() => self.set_local(),
            _ => Err(self.unexpected("a statement or `}`")),
        };
        block.push(stmt?);
        Ok(())
    }

    fn set(&mut self) -> ParseResult<Stmt> {
        let node = self.node_ref()?;
        let index = self.index()?;
        self.expect_sign(":=")?;
        Ok(Stmt::Set { node, index, value: self.value()? })
    }

    fn set_local(&mut self) -> ParseResult<Stmt> {
        let local = self.local_ref()?;
        let index = self.local_index()?;
        self.expect_sign(":=")?;
        Ok(Stmt::SetLocal { local, index, value: self.value()? })
    }

    fn zero(&mut self) -> ParseResult<Stmt> {
        self.expect_word("zero")?;
        Ok(Stmt::Zero { node: self.node_ref()? })
    }

    fn comment(&mut self) -> ParseResult<Stmt> {
        self.expect_word("comment")?;
        Ok(Stmt::Comment(self.quoted("the comment in quotes")?))
    }

    /// `scatter %0[i0, {at}] := value`, with the accumulating operation before the node.
    fn scatter(&mut self) -> ParseResult<Stmt> {
        self.expect_word("scatter")?;
        let op = self.accumulation()?;
        let node = self.node_ref()?;
        let (index, axis, at) = self.dynamic_index()?;
        self.expect_sign(":=")?;
        Ok(Stmt::SetDynamic { node, index, axis, at: Box::new(at), op, value: self.value()? })
    }

    /// The operation of an accumulating store, if one is written.
    fn accumulation(&mut self) -> ParseResult<Option<BinaryOp>> {
        let token = match *self.peek() {
            Token::Node(_) => return Ok(None),
            Token::Sign(sign) => sign,
            Token::Word(word) => word,
            _ => "",
        };
        let op = BinaryOp::ALL.iter().copied().find(|op| op.token() == token && op.accumulates());
        let op = op.ok_or_else(|| self.unexpected("a node, or an operation that accumulates"))?;
        self.advance();
        Ok(Some(op))
    }

    fn log(&mut self) -> ParseResult<Stmt> {
        self.expect_word("log")?;
        let mut parts = vec![self.log_part()?];
        while self.take_sign(",") {
            parts.push(self.log_part()?);
        }
        Ok(Stmt::Log { parts })
    }

    fn log_part(&mut self) -> ParseResult<LogPart> {
        match self.peek() {
            Token::Text(_) => Ok(LogPart::Text(self.quoted("text")?)),
            _ => Ok(LogPart::Value(self.value()?)),
        }
    }

    fn declare(&mut self) -> ParseResult<Stmt> {
        self.expect_word("declare")?;
        let Some(local) = self.peek_local() else { return Err(self.unexpected("a local such as `l0`")) };
        self.advance();
        self.locals.insert(local);
        let (dtype, dims) = (self.dtype()?, self.dims()?);
        let space = self.word("`register`, `stack`, `workgroup` or `thread`", space)?;
        Ok(Stmt::Declare { local, dtype, dims, space })
    }

    fn loop_stmt(&mut self, path: &mut Vec<usize>, block: &mut Block) -> ParseResult<()> {
        if path.len() > MAX_NESTING {
            return Err(self.error(format!("at most {MAX_NESTING} loops around each other"), "one more"));
        }
        let looped = self.loop_head()?;
        let body = self.block(path)?;
        block.push(looped(body));
        Ok(())
    }

    /// Reads a loop up to its opening brace. Returns a function that makes the loop from its body.
    fn loop_head(&mut self) -> ParseResult<impl FnOnce(Block) -> Stmt + use<>> {
        self.expect_word("for")?;
        let Some(var) = self.peek_loop() else { return Err(self.unexpected("a loop variable such as `i0`")) };
        self.advance();
        self.expect_word("in")?;
        let lo = self.integer("the first value of the loop variable")?;
        self.expect_sign("..")?;
        let hi = self.bound()?;
        let kind = self.loop_kind();
        self.expect_sign("{")?;
        self.loops.insert(var);
        Ok(move |body| Stmt::For { var, lo, hi, kind, body })
    }

    fn bound(&mut self) -> ParseResult<Bound> {
        let end = self.clipped_bound()?;
        if !self.take_word("while") {
            return Ok(end);
        }
        Ok(end.while_node(self.node_ref()?))
    }

    fn clipped_bound(&mut self) -> ParseResult<Bound> {
        if !self.take_word("min") {
            return Ok(self.integer("the end of the loop, an integer or `min(integer, index, …)`")?.into());
        }
        self.expect_sign("(")?;
        let limit = self.integer("the greatest end of the loop")?;
        self.expect_sign(",")?;
        let first = Bound::from(limit).clipped(self.affine()?);
        let rest = if self.take_sign(",") { self.list_until(")", Self::affine)? } else { Vec::new() };
        if rest.is_empty() {
            self.expect_sign(")")?;
        }
        Ok(rest.into_iter().fold(first, Bound::clipped))
    }

    fn loop_kind(&mut self) -> LoopKind {
        let kind = match *self.peek() {
            Token::Word("unrolled") => LoopKind::Unrolled,
            Token::Word("scan") => LoopKind::Scan,
            Token::Word("vector") => LoopKind::Vector,
            Token::Word("parallel") => LoopKind::Parallel,
            Token::Word("workgroup") => LoopKind::Workgroup,
            _ => return LoopKind::Serial,
        };
        self.advance();
        kind
    }

    pub(super) fn index(&mut self) -> ParseResult<Indices> {
        self.expect_sign("[")?;
        Ok(self.list_until("]", Self::affine)?.into())
    }

    /// Reads the indices of a local; a scalar local has no brackets.
    pub(super) fn local_index(&mut self) -> ParseResult<Indices> {
        if self.at_sign("[") { self.index() } else { Ok(Indices::new()) }
    }

    /// Whether the current token is a word and the next one an opening parenthesis.
    pub(super) fn at_call(&self) -> bool {
        *self.peek_second() == Token::Sign("(")
    }
}

fn space(word: &str) -> Option<Space> {
    match word {
        "register" => Some(Space::Register),
        "stack" => Some(Space::Stack),
        "scratch" => Some(Space::Scratch),
        "workgroup" => Some(Space::Workgroup),
        "thread" => Some(Space::Thread),
        _ => None,
    }
}

/// A token as errors name it.
fn describe(token: &Token<'_>) -> String {
    match token {
        Token::Word(word) => format!("`{word}`"),
        Token::Node(node) => format!("`%{node}`"),
        Token::Name(name) => format!("`@{name}`"),
        Token::Text(text) => quote(text),
        Token::Number { digits, suffix } => format!("`{digits}{suffix}`"),
        Token::Hex(hex) => format!("`0x{hex}`"),
        Token::Sign(sign) => format!("`{sign}`"),
        Token::End => "the end of the text".into(),
    }
}
