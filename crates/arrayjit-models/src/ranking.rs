//! Tokens in the order of their logits, sorted only as far as a choice looks at them.

use std::cmp::Ordering;

/// The number of candidates that are sorted first.
const FIRST: usize = 64;
/// The number of sorted candidates grows by this factor: each part is selected among all others.
const GROWTH: usize = 8;

/// The candidates for the next token, the likeliest first. Candidates of equal logits are in the order of
/// their numbers. A token whose logit is NaN is no candidate.
pub(crate) struct Ranking<'l> {
    logits: &'l [f32],
    temperature: f32,
    most: f32,
    /// All candidates: the first `sorted` are in order, and the others are less likely.
    tokens: Vec<u32>,
    sorted: usize,
}

impl<'l> Ranking<'l> {
    /// The tokens of these logits; with `top_k` above 0, only that many of the likeliest.
    pub(crate) fn new(logits: &'l [f32], top_k: usize, temperature: f32) -> Ranking<'l> {
        let mut tokens: Vec<u32> =
            (0..).zip(logits).filter(|(_, logit)| !logit.is_nan()).map(|(token, _)| token).collect();
        if (1..tokens.len()).contains(&top_k) {
            tokens.select_nth_unstable_by(top_k - 1, descending(logits));
            tokens.truncate(top_k);
        }
        let most = tokens.iter().map(|&token| logits[token as usize]).fold(f32::NEG_INFINITY, f32::max);
        Ranking { logits, temperature, most, tokens, sorted: 0 }
    }

    /// Counts the candidates.
    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The sum of the weights of all candidates.
    pub(crate) fn total(&self) -> f64 {
        self.tokens.iter().map(|&token| self.weight(token)).sum()
    }

    /// The candidate of a rank with its weight: its probability divided by that of the first one. There is
    /// none behind the last rank.
    pub(crate) fn get(&mut self, rank: usize) -> Option<(u32, f64)> {
        while self.sorted <= rank && self.sorted < self.tokens.len() {
            self.sort_more();
        }
        let token = *self.tokens.get(rank)?;
        Some((token, self.weight(token)))
    }

    fn weight(&self, token: u32) -> f64 {
        let logit = self.logits[token as usize];
        if logit == self.most {
            return 1.0; // also if both are infinite
        }
        f64::from((logit - self.most) / self.temperature).exp()
    }

    fn sort_more(&mut self) {
        let rest = &mut self.tokens[self.sorted..];
        let count = ((GROWTH - 1) * self.sorted).max(FIRST).min(rest.len());
        if count < rest.len() {
            rest.select_nth_unstable_by(count - 1, descending(self.logits));
        }
        rest[..count].sort_unstable_by(descending(self.logits));
        self.sorted += count;
    }
}

/// The order of tokens by their logits, the greatest first.
fn descending(logits: &[f32]) -> impl Fn(&u32, &u32) -> Ordering {
    |a, b| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b))
}
