//! The static symbols of assignments, found by name.

use std::{collections::HashMap, ops::Deref};

use crate::indexing::StaticSymbol;
use lowered_ir::ir::SymbolId;

/// Static symbols in the order in which they were entered, with an index by name.
#[derive(Clone, Debug, Default)]
pub struct SymbolTable {
    symbols: Vec<StaticSymbol>,
    /// The positions of the symbols of each name: one, unless a program gives a name several meanings.
    by_name: HashMap<String, Vec<usize>>,
}

impl SymbolTable {
    /// The position of the symbol of that name, range and size, which is entered if it is new. An unknown
    /// range agrees with every range and adopts it; so does a size.
    pub fn enter(&mut self, symbol: &StaticSymbol) -> SymbolId {
        let agrees = |known: &StaticSymbol| {
            (known.range.is_none() || symbol.range.is_none() || known.range == symbol.range)
                && (known.size.is_none() || symbol.size.is_none() || known.size == symbol.size)
        };
        let positions = self.by_name.entry(symbol.name.clone()).or_default();
        #[cfg(test)]
        tests::COMPARED.set(tests::COMPARED.get() + positions.len());
        let known = positions.iter().copied().find(|&at| agrees(&self.symbols[at]));
        let at = known.unwrap_or_else(|| {
            positions.push(self.symbols.len());
            self.symbols.push(symbol.clone());
            self.symbols.len() - 1
        });
        self.symbols[at].range = self.symbols[at].range.or(symbol.range);
        if self.symbols[at].size.is_none() {
            self.symbols[at].size.clone_from(&symbol.size);
        }
        SymbolId(u32::try_from(at).unwrap_or(u32::MAX))
    }

    /// The first symbol of that name.
    pub fn find(&self, name: &str) -> Option<&StaticSymbol> {
        let at = *self.by_name.get(name)?.first()?;
        self.symbols.get(at)
    }
}

impl Deref for SymbolTable {
    type Target = [StaticSymbol];

    fn deref(&self) -> &[StaticSymbol] {
        &self.symbols
    }
}

impl PartialEq for SymbolTable {
    fn eq(&self, other: &SymbolTable) -> bool {
        self.symbols == other.symbols
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::Assignments;

    thread_local! {
        /// How many symbols the searches have compared.
        pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    fn one(symbol: &StaticSymbol) -> Assignments {
        let mut assignments = Assignments::default();
        assignments.symbol(symbol);
        assignments
    }

    #[test]
    fn a_search_compares_symbols_of_one_name_only() {
        let each = (0..1000).chain(0..1000).map(|i| one(&StaticSymbol::open(format!("s{i}"))));
        COMPARED.set(0);
        let joined: Assignments = each.collect();
        assert_eq!(joined.symbols.len(), 1000);
        assert!(COMPARED.get() <= 1000, "{}", COMPARED.get());
    }

    #[test]
    fn ranges_are_adopted_and_do_not_agree_with_others() {
        let mut assignments = one(&StaticSymbol::open("s"));
        assert_eq!(assignments.symbol(&StaticSymbol::ranged("s", 4)), SymbolId(0));
        assert_eq!(assignments.symbols.find("s").and_then(|symbol| symbol.range), Some(4));
        assert_eq!(assignments.symbol(&StaticSymbol::ranged("s", 5)), SymbolId(1));
        assert_eq!(assignments.symbol(&StaticSymbol::ranged("s", 5)), SymbolId(1));
        assert_eq!(assignments.symbol(&StaticSymbol::open("s")), SymbolId(0));
        assert_eq!(assignments.symbols.find("t"), None);
    }
}
