//! Sizes that a run gives to axes, and integers that follow from them.

use std::{cmp::Ordering, collections::BTreeMap, fmt, sync::Arc};

/// The size of an axis that a run gives: a name whose value the run chooses, or a sum or quotient of such
/// sizes. Values are from 1 to a bound.
///
/// Two derived sizes are equal if their expressions are equal up to order, common factors and parts that can
/// be divided.
///
/// ```
/// use tnode::{RunSize, SizeSum};
///
/// let width = RunSize::given("width", 64);
/// let two = SizeSum::from(2);
/// // A convolution of width 3 with a padding of 1 and a stride of 2.
/// let halves = SizeSum::from(&width).plus(&(-1).into()).and_then(|sum| sum.floor_over(2));
/// let halves = halves.and_then(|sum| sum.plus(&1.into())).and_then(|sum| sum.size()).expect("no overflow");
/// assert_eq!((halves.to_string(), halves.bound()), ("(width + 1)/2".to_owned(), 32));
/// assert_eq!(halves.value(&|_| Some(7)), Some(4));
/// let same = SizeSum::from(&width).plus(&1.into()).and_then(|sum| sum.floor_over(2));
/// assert_eq!(same.and_then(|sum| sum.size()), Some(halves.clone()));
/// let doubled = SizeSum::from(&halves).times(&two).expect("no overflow");
/// assert_eq!(doubled.to_string(), "2*((width + 1)/2)");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunSize(Arc<Definition>);

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Definition {
    name: String,
    bound: usize,
    quotient: Option<SizeQuotient>,
}

/// The integer `floor(dividend / divisor)`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeQuotient {
    /// The dividend.
    pub dividend: SizeSum,
    /// At least 1.
    pub divisor: i64,
}

impl SizeQuotient {
    /// The given size from which the quotient follows by a factor and a sum alone, with the factor.
    pub fn only_source(&self) -> Option<(&RunSize, i64)> {
        let mut terms = self.dividend.terms();
        let (source, factor) = terms.next()?;
        let is_it = terms.next().is_none() && self.divisor == 1 && factor > 0;
        (is_it && source.quotient().is_none()).then_some((source, factor))
    }
}

/// An integer that a run knows: a constant plus multiples of sizes. Its sizes are given ones, and quotients
/// with a divisor of 2 or more.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeSum {
    terms: BTreeMap<RunSize, i64>,
    constant: i64,
}

impl RunSize {
    /// A size whose value the run chooses, from 1 to `bound`.
    pub fn given(name: impl Into<String>, bound: usize) -> RunSize {
        RunSize(Arc::new(Definition { name: name.into(), bound, quotient: None }))
    }

    /// A size that follows from others; none if its bound is no `usize` of 1 or more.
    fn derived(quotient: SizeQuotient) -> Option<RunSize> {
        let most = quotient.range().1;
        let bound = usize::try_from(most).ok().filter(|&bound| bound > 0 && i64::try_from(bound).is_ok())?;
        Some(RunSize(Arc::new(Definition { name: quotient.name(), bound, quotient: Some(quotient) })))
    }

    /// An identifier, which is the name of the size's symbol: that of a given size, or one that says how a
    /// derived size follows.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The greatest value, at least 1.
    pub fn bound(&self) -> usize {
        self.0.bound
    }

    /// How the size follows from others; none for a given size.
    pub fn quotient(&self) -> Option<&SizeQuotient> {
        self.0.quotient.as_ref()
    }

    /// The value for these values of the given sizes, by name, or `None` if one of them is missing or the
    /// value overflows. The value of a derived size may be outside of its range.
    pub fn value(&self, given: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        match self.quotient() {
            None => given(self.name()),
            Some(SizeQuotient { dividend, divisor }) => {
                dividend.value(given)?.checked_div_euclid((*divisor).max(1))
            }
        }
    }

    /// Calls `f` with each size from which this one follows, in an order in which every size comes behind
    /// those from which it follows, and then with this size.
    pub fn each_source<'a>(&'a self, f: &mut dyn FnMut(&'a RunSize)) {
        if let Some(quotient) = self.quotient() {
            quotient.dividend.terms.keys().for_each(|size| size.each_source(f));
        }
        f(self);
    }

    /// The number of derivations from given sizes; 0 for a given size.
    pub fn depth(&self) -> usize {
        let sources = self.quotient().map(|quotient| quotient.dividend.terms.keys().map(RunSize::depth));
        sources.map_or(0, |depths| 1 + depths.max().unwrap_or(0))
    }

    /// The least and the greatest value; the least value of a quotient may be 0 or less.
    fn range(&self) -> (i128, i128) {
        match self.quotient() {
            None => (1, self.bound() as i128),
            Some(quotient) => quotient.range(),
        }
    }
}

/// The expression over given sizes.
impl fmt::Display for RunSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.quotient() {
            None => f.write_str(self.name()),
            Some(SizeQuotient { dividend, divisor: 1 }) => write!(f, "{dividend}"),
            Some(SizeQuotient { dividend, divisor }) if dividend.as_size().is_some() => {
                write!(f, "{dividend}/{divisor}")
            }
            Some(SizeQuotient { dividend, divisor }) => write!(f, "({dividend})/{divisor}"),
        }
    }
}

impl fmt::Debug for RunSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl SizeQuotient {
    fn range(&self) -> (i128, i128) {
        let ((least, most), divisor) = (self.dividend.range(), i128::from(self.divisor.max(1)));
        (least.div_euclid(divisor), most.div_euclid(divisor))
    }

    /// An identifier such as `n_add_1_over_2`.
    fn name(&self) -> String {
        let SizeSum { terms, constant } = &self.dividend;
        let mut name = String::new();
        let mut put = |is_negative: bool, term: String| {
            name += match (name.is_empty(), is_negative) {
                (true, false) if term.starts_with(|c: char| c.is_ascii_digit()) => "size_",
                (true, false) => "",
                (true, true) => "minus_",
                (false, false) => "_add_",
                (false, true) => "_sub_",
            };
            name += &term;
        };
        for (size, factor) in terms {
            let term = match factor.unsigned_abs() {
                1 => size.name().to_owned(),
                times => format!("{}_mul_{times}", size.name()),
            };
            put(*factor < 0, term);
        }
        if *constant != 0 {
            put(*constant < 0, constant.unsigned_abs().to_string());
        }
        if self.divisor == 1 { name } else { format!("{name}_over_{}", self.divisor) }
    }
}

impl From<i64> for SizeSum {
    fn from(constant: i64) -> SizeSum {
        SizeSum { constant, ..SizeSum::default() }
    }
}

impl From<&RunSize> for SizeSum {
    fn from(size: &RunSize) -> SizeSum {
        let alone = || SizeSum { terms: BTreeMap::from([(size.clone(), 1)]), constant: 0 };
        match size.quotient() {
            None => alone(),
            Some(quotient) => quotient.dividend.floor_over(quotient.divisor).unwrap_or_else(alone),
        }
    }
}

impl SizeSum {
    /// The value, if no size decides it.
    pub fn constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The sizes with their factors, which are not 0.
    pub fn terms(&self) -> impl Iterator<Item = (&RunSize, i64)> {
        self.terms.iter().map(|(size, &factor)| (size, factor))
    }

    /// The constant of the sum.
    pub fn offset(&self) -> i64 {
        self.constant
    }

    fn map(&self, change: impl Fn(i64) -> Option<i64>) -> Option<SizeSum> {
        let terms = self.terms.iter().map(|(size, &factor)| Some((size.clone(), change(factor)?)));
        let terms: BTreeMap<_, _> = terms.collect::<Option<_>>()?;
        let terms = terms.into_iter().filter(|(_, factor)| *factor != 0).collect();
        Some(SizeSum { terms, constant: change(self.constant)? })
    }

    /// The sum with the opposite sign; none if it overflows.
    pub fn negated(&self) -> Option<SizeSum> {
        self.map(i64::checked_neg)
    }

    /// The sum of both; none if it overflows.
    pub fn plus(&self, other: &SizeSum) -> Option<SizeSum> {
        let mut sum = self.clone();
        for (size, factor) in &other.terms {
            let own = sum.terms.entry(size.clone()).or_default();
            *own = own.checked_add(*factor)?;
        }
        sum.terms.retain(|_, factor| *factor != 0);
        sum.constant = sum.constant.checked_add(other.constant)?;
        Some(sum)
    }

    /// The product, if one of both is a constant; none if it overflows.
    pub fn times(&self, other: &SizeSum) -> Option<SizeSum> {
        match (self.constant(), other.constant()) {
            (_, Some(factor)) => self.map(|own| own.checked_mul(factor)),
            (Some(factor), None) => other.map(|own| own.checked_mul(factor)),
            (None, None) => None,
        }
    }

    /// `floor(self / divisor)`; none if the divisor is less than 1 or a number overflows.
    pub fn floor_over(&self, divisor: i64) -> Option<SizeSum> {
        if divisor < 1 {
            return None;
        }
        let whole = self.map(|factor| factor.checked_div_euclid(divisor))?;
        let rest = self.map(|factor| factor.checked_rem_euclid(divisor))?;
        if rest.terms.is_empty() {
            return Some(whole);
        }
        if let Some(SizeQuotient { dividend, divisor: inner }) = rest.merged()
            && inner > 1
        {
            return whole.plus(&dividend.floor_over(inner.checked_mul(divisor)?)?);
        }
        let common = rest.terms.values().fold(divisor, |a, &b| greatest_common_divisor(a, b));
        let dividend = rest.map(|factor| Some(factor.div_euclid(common)))?;
        let quotient = match divisor / common {
            1 => dividend,
            divisor => {
                let quotient = SizeQuotient { dividend, divisor };
                match quotient.range().1 {
                    0 => return Some(whole),
                    _ => SizeSum { terms: [(RunSize::derived(quotient)?, 1)].into(), constant: 0 },
                }
            }
        };
        whole.plus(&quotient)
    }

    /// The sum as one quotient: `n/2 + 3` is `(n + 6)/2`. The divisor is 1 if there is no such form.
    fn merged(&self) -> Option<SizeQuotient> {
        let mut quotients = self.terms.iter().filter_map(|(size, &factor)| Some((size.quotient()?, factor)));
        match (quotients.next(), quotients.next()) {
            (Some((quotient, 1)), None) => {
                let mut rest = self.clone();
                rest.terms.retain(|size, _| size.quotient().is_none());
                let SizeQuotient { dividend, divisor } = quotient;
                Some(SizeQuotient {
                    dividend: dividend.plus(&rest.times(&(*divisor).into())?)?,
                    divisor: *divisor,
                })
            }
            _ => Some(SizeQuotient { dividend: self.clone(), divisor: 1 }),
        }
    }

    /// The only size, if the sum is that.
    fn as_size(&self) -> Option<&RunSize> {
        match self.terms.first_key_value() {
            Some((size, 1)) if self.terms.len() == 1 && self.constant == 0 => Some(size),
            _ => None,
        }
    }

    /// The sum as the size of an axis; none if it is a constant, has no value of 1 or more, or overflows.
    pub fn size(&self) -> Option<RunSize> {
        match self.as_size() {
            _ if self.terms.is_empty() => None,
            Some(size) => Some(size.clone()),
            None => RunSize::derived(self.merged()?),
        }
    }

    /// The value for these values of the given sizes, by name; none if one is missing or it overflows.
    pub fn value(&self, given: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        self.terms.iter().try_fold(self.constant, |sum, (size, factor)| {
            sum.checked_add(size.value(given)?.checked_mul(*factor)?)
        })
    }

    /// The least and the greatest value for sizes from 1 to their bounds.
    pub fn range(&self) -> (i128, i128) {
        let constant = i128::from(self.constant);
        self.terms.iter().fold((constant, constant), |(least, most), (size, &factor)| {
            let (low, high) = size.range();
            let ends = [low, high].map(|value| value.saturating_mul(factor.into()));
            (least.saturating_add(ends[0].min(ends[1])), most.saturating_add(ends[0].max(ends[1])))
        })
    }

    /// Whether no value is negative.
    pub fn is_never_negative(&self) -> bool {
        self.range().0 >= 0
    }

    /// How both compare, if they do in the same way for all sizes.
    pub fn compared(&self, other: &SizeSum) -> Option<Ordering> {
        let (least, most) = self.plus(&other.negated()?)?.range();
        match (least.cmp(&0), most.cmp(&0)) {
            (Ordering::Greater, _) => Some(Ordering::Greater),
            (_, Ordering::Less) => Some(Ordering::Less),
            (Ordering::Equal, Ordering::Equal) => Some(Ordering::Equal),
            _ => None,
        }
    }
}

impl fmt::Display for SizeSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let factored = |size: &RunSize, times: u64| match (times, size.quotient()) {
            (1, _) => size.to_string(),
            (_, None) => format!("{times}*{size}"),
            (_, Some(_)) => format!("{times}*({size})"),
        };
        let sizes =
            self.terms.iter().map(|(size, factor)| (*factor < 0, factored(size, factor.unsigned_abs())));
        // A sum such as `5 - n` begins with its number, so that no sign stands first.
        let is_first = self.terms.values().next().is_none_or(|factor| *factor < 0);
        let number = || (self.constant < 0, self.constant.unsigned_abs().to_string());
        let first = is_first.then(number);
        let last = (!is_first && self.constant != 0).then(number);
        for (at, (is_negative, term)) in first.into_iter().chain(sizes).chain(last).enumerate() {
            match (at, is_negative) {
                (0, false) => f.write_str(&term)?,
                (0, true) => write!(f, "-{term}")?,
                (_, false) => write!(f, " + {term}")?,
                (_, true) => write!(f, " - {term}")?,
            }
        }
        Ok(())
    }
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(name: &str, bound: usize) -> SizeSum {
        (&RunSize::given(name, bound)).into()
    }

    fn plus(sum: &SizeSum, constant: i64) -> SizeSum {
        sum.plus(&constant.into()).unwrap()
    }

    #[test]
    fn quotients_have_one_form() {
        let (n, m) = (sum("n", 9), sum("m", 4));
        let halves = n.floor_over(2).unwrap();
        assert_eq!(plus(&n, 2).floor_over(2), Some(plus(&halves, 1)));
        assert_eq!(plus(&n, -3).floor_over(2), Some(plus(&plus(&n, 1).floor_over(2).unwrap(), -2)));
        assert_eq!(plus(&halves, 1).floor_over(3), plus(&n, 2).floor_over(6));
        assert_eq!(n.times(&6.into()).unwrap().floor_over(2), n.times(&3.into()));
        assert_eq!(n.times(&4.into()).unwrap().floor_over(6), n.times(&2.into()).unwrap().floor_over(3));
        assert_eq!(n.times(&3.into()).unwrap().floor_over(2), n.plus(&halves));
        let both = halves.plus(&m).unwrap();
        assert_eq!(
            both.size(),
            n.plus(&m.times(&2.into()).unwrap()).unwrap().floor_over(2).and_then(|s| s.size())
        );
        assert_eq!(SizeSum::from(&both.size().unwrap()), both);
        assert_eq!(n.floor_over(0), None);
        assert_eq!(n.floor_over(10), Some(SizeSum::from(0)));
    }

    #[test]
    fn forms_keep_values_and_bounds() {
        let n = sum("n", 12);
        for factor in 1..4 {
            for offset in -3..6 {
                for divisor in 1..5 {
                    for second in 1..4 {
                        let whole = plus(&n.times(&factor.into()).unwrap(), offset);
                        let inner = whole.floor_over(divisor).unwrap();
                        let outer = plus(&inner, 1).floor_over(second).unwrap();
                        for n in 1..=12 {
                            let expected = ((factor * n + offset).div_euclid(divisor) + 1).div_euclid(second);
                            assert_eq!(outer.value(&|_| Some(n)), Some(expected));
                            if let Some(size) = plus(&outer, 2).size() {
                                assert_eq!(size.value(&|_| Some(n)), Some(expected + 2), "{size}");
                                assert!(expected + 2 <= size.bound() as i64 && n <= 12);
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn expressions_and_names() {
        let (n, m) = (sum("n", 9), sum("m", 4));
        let shown = |sum: &SizeSum| {
            let size = sum.size().unwrap();
            (size.to_string(), size.name().to_owned(), size.bound())
        };
        let found = shown(&plus(&n, 1).floor_over(2).unwrap());
        assert_eq!(found, ("(n + 1)/2".into(), "n_add_1_over_2".into(), 5));
        assert_eq!(shown(&n.floor_over(2).unwrap()), ("n/2".into(), "n_over_2".into(), 4));
        assert_eq!(
            shown(&plus(&n.times(&2.into()).unwrap(), -1)),
            ("2*n - 1".into(), "n_mul_2_sub_1".into(), 17)
        );
        assert_eq!(shown(&n.plus(&m).unwrap()), ("m + n".into(), "m_add_n".into(), 13));
        let rest = plus(&n.negated().unwrap(), 12);
        assert_eq!(shown(&rest), ("12 - n".into(), "minus_n_add_12".into(), 11));
        assert_eq!(rest.floor_over(-1), None);
        assert_eq!(plus(&n.negated().unwrap(), 1).size(), None);
    }

    #[test]
    fn comparisons_hold_for_all_sizes_or_are_open() {
        let (n, m) = (sum("n", 8), sum("m", 4));
        assert_eq!(n.compared(&(-1).into()), Some(Ordering::Greater));
        assert_eq!(n.compared(&1.into()), None);
        assert_eq!(n.compared(&9.into()), Some(Ordering::Less));
        assert_eq!(n.compared(&n), Some(Ordering::Equal));
        assert_eq!(n.compared(&m), None);
        assert_eq!(plus(&n, 4).compared(&m), Some(Ordering::Greater));
        assert_eq!(n.times(&m), None);
        assert_eq!(n.times(&i64::MAX.into()).unwrap().plus(&n), None);
    }
}
